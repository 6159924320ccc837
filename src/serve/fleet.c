/*
 * fleet.c - conversations with wardens
 *
 *	call 0x100005 \
 *	call 0x100007  > line (a connection) > member (a sandbox)
 *	call 0x100003 /
 *
 * A member that was made or adopted has a line at all times: its end is how the end of the sandbox is
 * noticed, at once and without a look around. An idle line costs a descriptor here and some hundred bytes
 * there; it does not count as somebody who wants something, so the warden's --idle works as ever. A warden
 * takes a bounded number of calls from one client, so there are more lines when there are many calls.
 *
 * A line that is lost is not yet the end of the sandbox: a warden lets go of a client that does not read
 * for seconds, as a daemon that was stopped does not. Whether the sandbox lives is what the kernel says of
 * its socket. A warden that was killed is seen for a moment with one descriptor closed and another not
 * yet; so who seems to live is looked at a second time before calls are told what happened.
 *
 * Lines and members are freed only here, out of the loop, never below a callback of somebody else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/fd.h"
#include "serve/fleet_internal.h"
#include "trace/home.h"
#include "warden/roster.h"

#define LINE_CALLS 192 /* a warden takes 256 of one client */
#define LINES_MAX  8
#define MESSAGES   64 /* of one line in one go */
#define SETTLE_MS  25
#define RETRY_MS   200
#define TIDY_MS    10000

struct line {
	struct fleet *fleet;
	struct member *member;
	struct line *next;
	struct channel channel;
	loop_id watch, soon;
	size_t calls;
	bool is_lost; /* its calls wait to be told why */
};

struct member {
	struct id_link link;
	struct fleet *fleet;
	struct line *lines;
	loop_id settle, tidy;
	bool is_known; /* its end is told */
};

static void line_ready(void *of, uint32_t events);

static void line_expect(struct line *line)
{
	/* POLLIN and POLLOUT are EPOLLIN and EPOLLOUT. */
	if (!line->is_lost)
		(void)!loop_change(line->fleet->loop, line->watch,
				   (uint32_t)channel_events(&line->channel));
}

static void line_close(struct line *line)
{
	line->watch = loop_forget(line->fleet->loop, line->watch);
	line->soon = loop_cancel(line->fleet->loop, line->soon);
	channel_done(&line->channel);
}

static void member_free(struct member *member)
{
	struct fleet *fleet = member->fleet;

	member->settle = loop_cancel(fleet->loop, member->settle);
	member->tidy = loop_cancel(fleet->loop, member->tidy);
	for (struct line *line = member->lines, *next; line; line = next) {
		next = line->next;
		line_close(line);
		free(line);
	}
	free(member);
}

static struct member *member_find(const struct fleet *fleet, const char *id)
{
	return (struct member *)id_table_find(&fleet->members, id);
}

static struct member *member_new(struct fleet *fleet, const char *id)
{
	struct member *member = calloc(1, sizeof(*member));

	if (!member)
		return NULL;
	member->fleet = fleet;
	snprintf(member->link.id, sizeof(member->link.id), "%s", id);
	if (id_table_add(&fleet->members, &member->link) < 0) {
		free(member);
		return NULL;
	}
	return member;
}

/* -ESRCH: it does not live; -EAGAIN: it does, and many wait for it. */
static int reach(struct fleet *fleet, const char *id)
{
	int fd;

	if (!trace_id_is_valid(id))
		return -ESRCH;
	if (fleet->home < 0)
		fleet->home = roster_open();
	fd = fleet->home < 0 ? fleet->home : roster_connect_at(fleet->home, id);
	return fd == -ENOENT || fd == -ECONNREFUSED ? -ESRCH : fd;
}

static int line_open(struct member *member, struct line **ret_line)
{
	struct fleet *fleet = member->fleet;
	int fd = reach(fleet, member->link.id), r;
	struct line *line;

	if (fd < 0)
		return fd;
	line = calloc(1, sizeof(*line));
	if (!line) {
		fd_close(fd);
		return -ENOMEM;
	}
	line->fleet = fleet;
	line->member = member;
	channel_init(&line->channel, fd, FROM_WARDEN, true);
	r = loop_watch(fleet->loop, fd, EPOLLIN, line_ready, line, &line->watch);
	if (r < 0) {
		channel_done(&line->channel);
		free(line);
		return r;
	}
	line->next = member->lines;
	member->lines = line;
	*ret_line = line;
	return 0;
}

/* --- the end of calls, lines and sandboxes --- */

static size_t member_calls(const struct member *member)
{
	size_t calls = 0;

	for (const struct line *line = member->lines; line; line = line->next)
		calls += line->calls;
	return calls;
}

static size_t lines_alive(const struct member *member)
{
	size_t count = 0;

	for (const struct line *line = member->lines; line; line = line->next)
		count += !line->is_lost;
	return count;
}

/* Closes what is there for nobody: of a sandbox whose end is told, one line stays. */
static void member_tidy(void *of)
{
	struct member *member = of;
	struct line **at = &member->lines;
	size_t alive = lines_alive(member);

	member->tidy = 0;
	if (!member->is_known && member_calls(member) == 0) {
		id_table_remove(&member->fleet->members, &member->link);
		member_free(member);
		return;
	}
	while (*at) {
		struct line *line = *at;

		if (line->calls > 0 || line->is_lost || alive == 1) {
			at = &line->next;
			continue;
		}
		*at = line->next;
		line_close(line);
		free(line);
		alive--;
	}
}

static void tidy_later(struct member *member)
{
	bool is_more = member->lines && member->lines->next;

	if (!member->tidy && (is_more || (!member->is_known && member_calls(member) == 0)))
		(void)!loop_after(member->fleet->loop, TIDY_MS, member_tidy, member, &member->tidy);
}

static void end_call(struct fleet *fleet, struct call *call)
{
	struct line *line = call->line;

	line->calls--;
	calls_end(&fleet->calls, call);
	tidy_later(line->member);
}

/* What the warden would have said, if there still was one. */
static void make_up(struct fleet *fleet, struct call *call, int code, const char *text)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ERROR, 0);
	struct message m = { .type = MESSAGE_ERROR };
	call_message on_message = call->on_message;
	void *of = call->of;

	/* Who wanted its end has got it. */
	if (code == -ESRCH && call->answering.type == MESSAGE_KILL) {
		m.type = MESSAGE_DONE;
	} else {
		draft_number(&d, FIELD_CODE, (uint64_t)-code);
		draft_text(&d, FIELD_TEXT, text);
		m.fields = (const unsigned char *)d.fields.data;
		m.len = d.fields.len;
	}
	end_call(fleet, call);
	on_message(of, &m, true);
}

/* Callbacks may begin calls, so the table may move meanwhile. */
static void fail_calls(struct member *member, bool only_lost, int code)
{
	struct fleet *fleet = member->fleet;
	char text[128];

	snprintf(text, sizeof(text),
		 code == -ESRCH ? "sandbox %s has ended"
				: "the conversation with sandbox %s was cut off",
		 member->link.id);
	for (uint32_t i = 0; i < fleet->calls.room && member_calls(member) > 0; i++) {
		struct call *call = &fleet->calls.items[i];

		if (call->id && call->line->member == member && (call->line->is_lost || !only_lost))
			make_up(fleet, call, code, text);
	}
}

/* The daemon says that it is gone before anybody is told that his call failed. */
static void end_member(struct member *member)
{
	struct fleet *fleet = member->fleet;

	id_table_remove(&fleet->members, &member->link);
	if (member->is_known && fleet->setup.ended)
		fleet->setup.ended(fleet->setup.of, member->link.id);
	fail_calls(member, false, -ESRCH);
	member_free(member);
}

static void drop_lost(struct member *member)
{
	for (struct line **at = &member->lines; *at;) {
		struct line *line = *at;

		if (!line->is_lost) {
			at = &line->next;
			continue;
		}
		*at = line->next;
		free(line);
	}
}

static void settle_later(struct member *member, uint64_t ms, loop_call call)
{
	if (member->settle)
		return;
	/* Without memory for a timer nobody would ever look again. */
	if (loop_after(member->fleet->loop, ms, call, member, &member->settle) < 0)
		call(member);
}

/* Lines were lost a moment ago: does it live? */
static void settle(void *of)
{
	struct member *member = of;
	struct line *line;
	int r = 0;

	member->settle = 0;
	if (lines_alive(member) == 0)
		r = line_open(member, &line);
	if (r == -ESRCH) {
		end_member(member);
		return;
	}
	fail_calls(member, true, -ECONNRESET);
	drop_lost(member);
	if (r < 0 && member->is_known)
		settle_later(member, RETRY_MS, settle);
	tidy_later(member);
}

static void line_lost(struct line *line)
{
	struct member *member = line->member;
	int fd;

	line_close(line);
	line->is_lost = true;
	fd = reach(member->fleet, member->link.id);
	fd_close(fd);
	if (fd == -ESRCH)
		end_member(member);
	else
		settle_later(member, SETTLE_MS, settle);
}

/* --- what wardens say --- */

static int deliver(struct line *line, struct message *m)
{
	struct fleet *fleet = line->fleet;
	struct call *call = calls_numbered(&fleet->calls, m->call);
	call_message on_message;
	void *of;
	bool is_last;

	if (!call || call->line != line)
		return 0;
	if (!answer_fits(&call->answering, m))
		return -EPROTO;
	is_last = answer_is_last(&call->answering, m);
	on_message = call->on_message;
	of = call->of;
	if (is_last)
		end_call(fleet, call);
	on_message(of, m, is_last);
	return 0;
}

static void line_go_on(void *of);

static void line_read(struct line *line)
{
	struct message m;
	int r = 1;

	(void)!channel_flush(&line->channel);
	for (int i = 0; i < MESSAGES && r > 0; i++) {
		r = channel_receive(&line->channel, &m);
		if (r <= 0)
			break;
		if (deliver(line, &m) < 0)
			r = -EPROTO;
		message_done(&m);
	}
	if (r < 0) {
		line_lost(line);
		return;
	}
	/* The kernel does not tell of what is in memory already. */
	if (channel_has_message(&line->channel) && !line->soon)
		(void)!loop_soon(line->fleet->loop, line_go_on, line, &line->soon);
	line_expect(line);
}

static void line_go_on(void *of)
{
	struct line *line = of;

	line->soon = 0;
	line_read(line);
}

static void line_ready(void *of, uint32_t events)
{
	(void)events;
	line_read(of);
}

/* --- what is asked of them --- */

/* A line that has room for one more call. */
static int line_for_call(struct member *member, struct line **ret_line)
{
	struct line *line = member->lines;

	while (line && (line->is_lost || line->calls >= LINE_CALLS))
		line = line->next;
	*ret_line = line;
	if (line)
		return 0;
	return lines_alive(member) < LINES_MAX ? line_open(member, ret_line) : -EUSERS;
}

static int in_words(const char *id, int code, struct err *err)
{
	switch (code) {
	case -ESRCH:
		return err_set(err, code, "sandbox %s has ended", id);
	case -EMSGSIZE:
		return err_set(err, code, "the request is too long (%llu KiB at most)",
			       (unsigned long long)(MESSAGE_MAX / KIB));
	case -EUSERS:
		return err_set(err, -EAGAIN, "too many calls to sandbox %s at once", id);
	case -ENOBUFS:
	case -EAGAIN:
		return err_set(err, -EAGAIN, "sandbox %s does not keep up", id);
	default:
		return err_errno(err, code, "the conversation with sandbox %s", id);
	}
}

static int begin_call(struct fleet *fleet, struct line *line, struct draft *d, int *descriptors,
		      size_t *count, call_message on_message, void *of, call_id *ret_call)
{
	struct call *call = calls_begin(&fleet->calls);
	size_t given = *count;
	int r;

	if (!call)
		return -EUSERS;
	call->line = line;
	call->answering.type = d->type;
	call->on_message = on_message;
	call->of = of;
	line->calls++;
	d->call = (uint32_t)call->id;
	*count = 0;
	r = channel_send(&line->channel, d, descriptors, given);
	/* A line that is lost is noticed when it is read, and the call is told then. */
	if (r < 0 && r != -EPIPE) {
		end_call(fleet, call);
		return r;
	}
	line_expect(line);
	*ret_call = call->id;
	return 0;
}

/* Of one that nobody has heard of, nothing is kept when it cannot be reached. */
static int find_line(struct fleet *fleet, const char *id, struct line **ret_line)
{
	struct member *member = member_find(fleet, id);
	int r;

	if (member)
		return line_for_call(member, ret_line);
	if (!trace_id_is_valid(id))
		return -ESRCH;
	member = member_new(fleet, id);
	if (!member)
		return -ENOMEM;
	r = line_open(member, ret_line);
	if (r < 0) {
		id_table_remove(&fleet->members, &member->link);
		member_free(member);
	}
	return r;
}

int call_start(struct fleet *fleet, const char *id, struct draft *d, int *descriptors, size_t count,
	       call_message on_message, void *of, call_id *ret_call, struct err *err)
{
	struct line *line = NULL;
	int r = find_line(fleet, id, &line);

	r = r < 0 ? r : begin_call(fleet, line, d, descriptors, &count, on_message, of, ret_call);
	draft_done(d);
	for (size_t i = 0; i < count; i++)
		descriptors[i] = fd_close(descriptors[i]);
	if (line)
		tidy_later(line->member);
	return r < 0 ? in_words(id, r, err) : 0;
}

int call_send(struct fleet *fleet, call_id id, struct draft *d)
{
	struct call *call = calls_find(&fleet->calls, id);
	int r = call ? 0 : -ESRCH;

	if (call && call->line->is_lost)
		r = -EPIPE;
	if (r == 0) {
		d->call = (uint32_t)id;
		r = channel_send(&call->line->channel, d, NULL, 0);
		line_expect(call->line);
	}
	draft_done(d);
	return r;
}

call_id call_cancel(struct fleet *fleet, call_id id)
{
	struct call *call = calls_find(&fleet->calls, id);
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CANCEL, (uint32_t)id);

	if (!call)
		return 0;
	if (!call->line->is_lost) {
		(void)!channel_send(&call->line->channel, &d, NULL, 0);
		line_expect(call->line);
	}
	end_call(fleet, call);
	return 0;
}

/* --- the fleet as a whole --- */

int fleet_watch(struct fleet *fleet, const char *id)
{
	struct member *member = member_find(fleet, id);
	struct line *line;
	int r = 0;

	if (!member)
		member = trace_id_is_valid(id) ? member_new(fleet, id) : NULL;
	if (!member)
		return trace_id_is_valid(id) ? -ENOMEM : -ESRCH;
	member->is_known = true;
	if (!member->lines)
		r = line_open(member, &line);
	if (r < 0 && r != -ESRCH)
		settle_later(member, RETRY_MS, settle);
	if (r != -ESRCH)
		return 0;
	id_table_remove(&fleet->members, &member->link);
	member_free(member);
	return r;
}

bool fleet_knows(void *of, const char *id)
{
	const struct member *member = member_find(of, id);

	return member && member->is_known;
}

bool fleet_adopt(struct fleet *fleet, const char *id)
{
	return fleet_watch(fleet, id) == 0;
}

const char *fleet_tag(const struct fleet *fleet)
{
	return fleet->tag;
}

static int make_tag(char tag[static FLEET_TAG_SIZE])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	snprintf(tag, FLEET_TAG_SIZE, FLEET_TAG "%016llx", (unsigned long long)random);
	return 0;
}

int fleet_new(struct loop *loop, const struct fleet_setup *setup, struct fleet **ret_fleet,
	      struct err *err)
{
	struct fleet *fleet = calloc(1, sizeof(*fleet));
	int r;

	if (!fleet)
		return err_set(err, -ENOMEM, "out of memory");
	fleet->loop = loop;
	fleet->setup = *setup;
	fleet->home = -EBADF;
	r = make_tag(fleet->tag);
	r = r < 0 ? err_errno(err, r, "random bytes")
		  : runner_find_brig(setup->brig, &fleet->brig, err);
	if (r == 0 && maker_new(fleet) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		free(fleet->brig);
		free(fleet);
		return r;
	}
	*ret_fleet = fleet;
	return 0;
}

void fleet_free(struct fleet *fleet)
{
	struct id_link *link;

	if (!fleet)
		return;
	maker_free(fleet->maker);
	runner_done(fleet);
	while ((link = id_table_any(&fleet->members))) {
		id_table_remove(&fleet->members, link);
		member_free((struct member *)link);
	}
	id_table_done(&fleet->members);
	calls_done(&fleet->calls);
	fd_close(fleet->home);
	free(fleet->brig);
	free(fleet);
}
