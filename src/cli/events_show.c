/* events_show.c - brig events: the lines of a stream, and the list of streams */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "trace/catalog.h"
#include "trace/home.h"
#include "trace/reader.h"
#include "trace/text.h"

#define LOOK_MS 100 /* between two looks for more */

struct show {
	const struct events_request *request;
	struct reader reader;
	struct buf out; /* written when it is large, and at every pause */
	uint64_t line;
	bool is_ended, is_damaged;
};

static int put_out(struct show *show)
{
	int r = fd_write_all(1, buf_text(&show->out), show->out.len);

	buf_reset(&show->out);
	return r;
}

/* On standard error: what is on standard output is events only. */
static void damaged(struct show *show, const char *why)
{
	fprintf(stderr, "brig: line %" PRIu64 " is no event (%s): see \"brig events verify\"\n",
		show->line, why);
	show->is_damaged = true;
}

static int show_line(struct show *show, const char *text, size_t len)
{
	_cleanup_(node_freep) struct node *event = NULL;
	struct err err = ERR_NONE;
	int r = trace_line_parse(text, len, &event, &err);

	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		damaged(show, err.text);
		return 0;
	}
	show->is_ended |= trace_is(event, "sandbox", "end");
	if (show->request->is_denied && !str_equal(trace_text(event, "verdict"), "deny"))
		return 0;
	if (!show->request->is_json)
		return trace_event_text(event, &show->out);
	r = buf_add(&show->out, text, len);
	return r < 0 ? r : buf_char(&show->out, '\n');
}

/* All that is there now. */
static int show_rest(struct show *show)
{
	const char *text;
	size_t len;
	int r;

	while ((r = reader_next(&show->reader, &text, &len)) != 0) {
		show->line++;
		if (r == -EMSGSIZE)
			damaged(show, "it is longer than any event");
		else if (r < 0)
			return r;
		else
			r = show_line(show, text, len);
		if (r < 0 && r != -EMSGSIZE)
			return r;
		if (show->out.len > READER_SIZE && (r = put_out(show)) < 0)
			return r;
	}
	return put_out(show);
}

/* Waits a moment; false when nobody reads our output any more. */
static bool pause_and_listen(void)
{
	struct pollfd out = { .fd = 1 };

	return poll(&out, 1, LOOK_MS) <= 0 || !(out.revents & (POLLERR | POLLNVAL));
}

static int follow(struct show *show)
{
	int r;

	while (!show->is_ended) {
		/* Asked first: what a writer adds before it goes is still seen then. */
		bool is_alive = trace_is_alive(show->reader.fd);

		r = show_rest(show);
		if (r < 0)
			return r;
		if (!is_alive && !show->is_ended) {
			fprintf(stderr,
				"brig: the stream has no end: its warden was killed, or the "
				"disk was full (see \"brig events verify\")\n");
			return 0;
		}
		if (!show->is_ended && !pause_and_listen())
			return -EPIPE;
	}
	return 0;
}

int events_show(const struct events_request *request)
{
	_cleanup_close_ int stream = -EBADF;
	struct show show = { .request = request, .out = BUF(4 * MIB) };
	char id[TRACE_ID_SIZE], path[TRACE_PATH_SIZE];
	struct err err = ERR_NONE;
	int r = catalog_find(request->home, request->sandbox, id, &err);

	if (r < 0)
		return complain(&err);
	trace_stream_path(id, path);
	stream = trace_file_open(request->home, path, &err);
	if (stream < 0)
		return complain(&err);
	/* One that has ended is not removed while it is shown; one that lives is not anyway. */
	if (!request->is_following)
		(void)flock(stream, LOCK_SH | LOCK_NB);
	r = reader_init(&show.reader, stream);
	r = r < 0 ? r : request->is_following ? follow(&show) : show_rest(&show);
	reader_done(&show.reader);
	buf_done(&show.out);
	if (r < 0 && r != -EPIPE)
		return complain_text("cannot show the events of \"%s\": %s", id, strerror(-r));
	return show.is_damaged ? 1 : 0;
}

static const char *state_of(const struct stream_summary *s)
{
	return s->is_alive                     ? "running"
	       : !s->has_head                  ? "damaged"
	       : s->head.state == HEAD_CLOSED  ? "ended"
	       : s->head.state == HEAD_FAILED  ? "failed"
	       : s->head.state == HEAD_REMOVED ? "removed"
					       : "interrupted";
}

static int add_summary(const struct stream_summary *s, struct node *list)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "sandbox", node_string(s->id)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "started", node_string(s->time));
	r = r < 0 ? r : node_set(map, "state", node_string(state_of(s)));
	r = r < 0 ? r : node_set(map, "events", node_int((int64_t)s->head.next.seq));
	r = r < 0 ? r : node_set(map, "denied", node_int((int64_t)s->head.denied));
	r = r < 0 ? r : node_set(map, "command", node_string(s->command ? s->command : ""));
	return r < 0 ? r : node_add(list, take_ptr(&map));
}

static int print_summary(const struct stream_summary *s)
{
	_cleanup_(buf_done) struct buf command = BUF(MIB), time = BUF(KIB);
	int r = trace_safe_text(s->command ? s->command : "", &command);

	r = r < 0 ? r : trace_safe_text(s->time, &time);
	if (r == 0)
		printf("%-15s %-19.19s %-11s %7" PRIu64 " events %5" PRIu64 " refused  %s\n", s->id,
		       buf_text(&time), state_of(s), s->head.next.seq, s->head.denied,
		       buf_text(&command));
	return r;
}

int events_list(const struct events_request *request)
{
	_cleanup_(catalog_done) struct catalog catalog = { 0 };
	_cleanup_(node_freep) struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	if (r == 0 && request->home >= 0)
		r = catalog_read(request->home, &catalog);
	for (size_t i = 0; i < catalog.count && r == 0; i++)
		r = request->is_json ? add_summary(&catalog.items[i], list)
				     : print_summary(&catalog.items[i]);
	if (r < 0)
		return complain_text("cannot list the sandboxes: %s", strerror(-r));
	return request->is_json ? print_json(list) : 0;
}
