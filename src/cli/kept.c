#include "cli/kept.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "output/text.h"
#include "warden/result.h"

#define BLOCK       4096 /* poll promises room for this much in a pipe */
#define LEAVE_KEY   0x1d /* Ctrl-] */
#define WAITING_MAX (8 * MESSAGE_MAX)

static int outlet_open(struct outlet *outlet, int fd, bool is_raw)
{
	*outlet = (struct outlet){ .to = fd, .waiting = BUF(WAITING_MAX) };
	if (!isatty(fd))
		return 0;
	outlet->to = terminal_sink(fd);
	outlet->owns_to = true;
	outlet->is_inert = !is_raw;
	return outlet->to < 0 ? -errno : 0;
}

static size_t outlet_waits(const struct outlet *outlet)
{
	return outlet->waiting.len - outlet->written;
}

static void outlet_write(struct kept *kept, struct outlet *outlet)
{
	ssize_t n = write(outlet->to, outlet->waiting.data + outlet->written,
			  MIN(outlet_waits(outlet), (size_t)BLOCK));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		kept->failure = -errno;
		return;
	}
	outlet->written += (size_t)n;
	if (outlet_waits(outlet) > 0)
		return;
	buf_reset(&outlet->waiting);
	outlet->written = 0;
}

int kept_open(struct kept *kept, struct err *err)
{
	for (int i = 0; i < 2; i++) {
		int r = outlet_open(&kept->outlets[i], i + 1, kept->is_raw);

		if (r < 0)
			return err_errno(err, r, "cannot write to the terminal");
	}
	return session_open_signals(kept->session, err);
}

int kept_add(struct kept *kept, uint64_t process, const char *title, bool is_running)
{
	struct kept_source *more =
		realloc(kept->sources, (kept->count + 1) * sizeof(*kept->sources));

	if (!more)
		return -ENOMEM;
	kept->sources = more;
	more += kept->count++;
	*more = (struct kept_source){ .process = process, .is_running = is_running };
	snprintf(more->title, sizeof(more->title), "%s", title);
	str_make_printable(more->title);
	return 0;
}

static void ask(struct kept *kept, struct kept_source *source)
{
	struct client *client = &kept->session->client;
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ATTACH, client_number(client));

	source->call = d.call;
	draft_number(&d, FIELD_PROCESS, source->process);
	draft_number(&d, FIELD_FLAGS, kept->is_following ? ATTACH_FOLLOW : 0);
	/* A failure shows at the next receive. */
	(void)!channel_send(&client->channel, &d, NULL, 0);
}

/*
 * One after the other, in their order; but those that are followed and run come together, behind the
 * ones that do not. False when there is nothing more to come.
 */
static bool ask_next(struct kept *kept)
{
	bool is_open = false;

	for (size_t i = 0; i < kept->count; i++)
		is_open |= kept->sources[i].call && !kept->sources[i].is_over;
	for (size_t i = 0; i < kept->count && !is_open; i++)
		if (!kept->sources[i].call &&
		    !(kept->is_following && kept->sources[i].is_running)) {
			ask(kept, &kept->sources[i]);
			return true;
		}
	for (size_t i = 0; i < kept->count && !is_open; i++)
		if (!kept->sources[i].call)
			ask(kept, &kept->sources[i]);
	for (size_t i = 0; i < kept->count; i++)
		is_open |= !kept->sources[i].is_over;
	return is_open;
}

static void tell_dropped(struct kept *kept, struct kept_source *source, uint64_t dropped)
{
	source->dropped += dropped;
	if (kept->json || dropped == 0)
		return;
	fprintf(stderr,
		"brig: %" PRIu64 " bytes of the output of process %" PRIu64
		" are gone: it was more than is kept\n",
		dropped, source->process);
}

static void show_header(struct kept *kept, const struct kept_source *source)
{
	if (!kept->has_headers || kept->last == source)
		return;
	buf_printf(&kept->outlets[0].waiting, "%s==> %" PRIu64 " %s <==\n", kept->last ? "\n" : "",
		   source->process, source->title);
	kept->last = source;
}

static void show_text(struct kept *kept, struct kept_source *source, unsigned int stream,
		      const void *data, size_t len)
{
	struct outlet *outlet = &kept->outlets[stream];

	show_header(kept, source);
	if (outlet->is_inert)
		(void)!inert_feed(&source->streams[stream].inert, data, len, &outlet->waiting);
	else
		buf_add(&outlet->waiting, data, len);
}

static int add_line(const struct kept_source *source, unsigned int stream, const struct buf *bytes,
		    uint64_t dropped, struct buf *out)
{
	static const char *const names[] = { "stdout", "stderr" };
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "process", node_int((int64_t)source->process)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "stream", node_string(names[stream]));
	r = r < 0 ? r : node_set(map, "text", result_text(bytes));
	r = r < 0 ? r : node_set(map, "base64", result_base64(bytes));
	r = r < 0 ? r : node_set(map, "dropped", node_int((int64_t)dropped));
	r = r < 0 ? r : json_write(map, true, out);
	return r < 0 ? r : buf_char(out, '\n');
}

/* Where a character is cut in two, its beginning waits for the rest. */
static size_t partial_end(const struct buf *bytes)
{
	const unsigned char *end = (const unsigned char *)buf_text(bytes) + bytes->len;

	for (size_t n = MIN(bytes->len, (size_t)3); n > 0; n--)
		if (text_partial(end - n, n) == n)
			return n;
	return 0;
}

static int show_json(struct kept *kept, struct kept_source *source, unsigned int stream,
		     const void *data, size_t len, uint64_t dropped, bool is_last)
{
	struct kept_stream *state = &source->streams[stream];
	_cleanup_(buf_done) struct buf bytes = BUF(MESSAGE_MAX + sizeof(state->rest));
	size_t rest;

	/* What belongs to a character whose rest is gone stands alone. */
	buf_add(&bytes, state->rest, state->rest_len);
	buf_add(&bytes, data, len);
	if (buf_failed(&bytes) < 0)
		return buf_failed(&bytes);
	rest = is_last ? 0 : partial_end(&bytes);
	state->rest_len = rest;
	memcpy(state->rest, buf_text(&bytes) + bytes.len - rest, rest);
	bytes.len -= rest;
	if (bytes.len == 0 && dropped == 0)
		return 0;
	return add_line(source, stream, &bytes, dropped, &kept->outlets[0].waiting);
}

static void show(struct kept *kept, struct kept_source *source, const struct message *m)
{
	unsigned int stream = message_number(m, FIELD_STREAM, 1) == 2;
	uint64_t dropped = message_number(m, FIELD_DROPPED, 0);
	size_t len;
	const void *data = message_bytes(m, FIELD_DATA, &len);

	kept->owed_call = m->call;
	kept->owed = len;
	tell_dropped(kept, source, dropped);
	if (kept->json)
		kept->failure = show_json(kept, source, stream, data, len, dropped, false);
	else
		show_text(kept, source, stream, data, len);
}

/* all: bytes that are gone, with those that were told. */
static void finish_source(struct kept *kept, struct kept_source *source, uint64_t all)
{
	uint64_t dropped = all - MIN(all, source->dropped);

	source->is_over = true;
	tell_dropped(kept, source, dropped);
	for (unsigned int i = 0; i < 2; i++) {
		if (!kept->json && kept->outlets[i].is_inert)
			(void)!inert_finish(&source->streams[i].inert, &kept->outlets[i].waiting);
		if (kept->json && (source->streams[i].rest_len > 0 || (i == 0 && dropped > 0)))
			(void)!show_json(kept, source, i, "", 0, i == 0 ? dropped : 0, true);
	}
}

static void on_answer(struct kept *kept, struct kept_source *source, struct message *m)
{
	struct err err = ERR_NONE;

	switch (m->type) {
	case MESSAGE_DATA:
		show(kept, source, m);
		break;
	case MESSAGE_EXITED:
		kept->session->status = (int)message_number(m, FIELD_STATUS, 0);
		kept->session->end = SESSION_EXITED;
		finish_source(kept, source, message_number(m, FIELD_DROPPED, 0));
		break;
	case MESSAGE_DONE:
		finish_source(kept, source, message_number(m, FIELD_DROPPED, 0));
		break;
	case MESSAGE_ERROR:
		client_error(&kept->session->client, m, &err);
		complain(&err);
		kept->has_failed = true;
		finish_source(kept, source, 0);
		break;
	default:
		break;
	}
}

static void on_message(struct kept *kept, struct message *m)
{
	if (m->call == kept->input_call) {
		kept->input_call = 0;
		/* Nobody reads there any more. */
		kept->input_is_over |= m->type == MESSAGE_ERROR;
		return;
	}
	for (size_t i = 0; i < kept->count; i++)
		if (kept->sources[i].call == m->call && !kept->sources[i].is_over)
			on_answer(kept, &kept->sources[i], m);
}

static bool is_free(const struct kept *kept)
{
	return outlet_waits(&kept->outlets[0]) == 0 && outlet_waits(&kept->outlets[1]) == 0;
}

static void give_credit(struct kept *kept)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CREDIT, kept->owed_call);

	if (kept->owed == 0)
		return;
	draft_number(&d, FIELD_SIZE, kept->owed);
	kept->owed = 0;
	(void)!channel_send(&kept->session->client.channel, &d, NULL, 0);
}

/* As long as it can be shown at once. */
static void read_messages(struct kept *kept, struct err *err)
{
	struct session *s = kept->session;
	struct message m;
	int r = 0;

	while (is_free(kept) && kept->failure == 0) {
		give_credit(kept);
		if (!ask_next(kept))
			return;
		r = channel_receive(&s->client.channel, &m);
		if (r <= 0)
			break;
		on_message(kept, &m);
		message_done(&m);
	}
	if (r == 0)
		r = channel_flush(&s->client.channel);
	/* What it said before it left comes first. */
	if (r < 0 && r != -EPIPE)
		client_lost(&s->client, r, err);
	if (r == -EPIPE && s->client.channel.failure < 0)
		client_lost(&s->client, r, err);
	if (err->code)
		s->end = SESSION_LOST;
}

static void send_input(struct kept *kept, const char *data, size_t len)
{
	struct session *s = kept->session;
	_cleanup_(draft_done) struct draft d =
		DRAFT(len > 0 ? MESSAGE_INPUT : MESSAGE_INPUT_END, client_number(&s->client));

	draft_number(&d, FIELD_PROCESS, s->process);
	if (len > 0)
		draft_bytes(&d, FIELD_DATA, data, len);
	else
		kept->input_is_over = true;
	kept->input_call = d.call;
	(void)!channel_send(&s->client.channel, &d, NULL, 0);
}

static void read_input(struct kept *kept)
{
	static char data[MESSAGE_DATA_MAX];
	ssize_t n = read(0, data, sizeof(data));
	const char *key;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	key = n > 0 && kept->is_interactive ? memchr(data, LEAVE_KEY, (size_t)n) : NULL;
	if (key) {
		kept->session->end = SESSION_LEFT;
		kept->session->status = 0;
		n = key - data;
		if (n == 0)
			return;
	}
	send_input(kept, data, n > 0 ? (size_t)n : 0);
}

static bool wants_input(const struct kept *kept)
{
	if (!kept->has_input || kept->input_is_over || kept->input_call)
		return false;
	if (kept->is_interactive)
		return kept->session->terminal.is_raw;
	return !isatty(0) || tcgetpgrp(0) == getpgrp();
}

static bool goes_on(const struct kept *kept)
{
	if (kept->session->end == SESSION_LEFT || kept->session->end == SESSION_LOST ||
	    kept->failure < 0)
		return false;
	if (!is_free(kept))
		return true;
	for (size_t i = 0; i < kept->count; i++)
		if (!kept->sources[i].is_over)
			return true;
	return false;
}

void kept_run(struct kept *kept, struct err *err)
{
	struct channel *channel = &kept->session->client.channel;

	read_messages(kept, err);
	while (goes_on(kept)) {
		struct pollfd fds[] = {
			{ .fd = kept->session->signals, .events = POLLIN },
			{ .fd = wants_input(kept) ? 0 : -1, .events = POLLIN },
			{ .fd = outlet_waits(&kept->outlets[0]) ? kept->outlets[0].to : -1,
			  .events = POLLOUT },
			{ .fd = outlet_waits(&kept->outlets[1]) ? kept->outlets[1].to : -1,
			  .events = POLLOUT },
			{ .fd = channel->fd, .events = channel_events(channel) },
		};

		if (!is_free(kept)) {
			fds[4].events &= (short)~POLLIN;
			/* Its end is no news while something is to be shown first. */
			if (!fds[4].events)
				fds[4].fd = -1;
		}
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			session_read_signals(kept->session);
		if (fds[1].revents)
			read_input(kept);
		for (int i = 0; i < 2; i++)
			if (fds[2 + i].revents)
				outlet_write(kept, &kept->outlets[i]);
		read_messages(kept, err);
	}
}

void kept_done(struct kept *kept)
{
	for (size_t i = 0; i < kept->count; i++)
		if (!kept->sources[i].is_over && kept->sources[i].call)
			finish_source(kept, &kept->sources[i], 0);
	for (int i = 0; i < 2; i++) {
		struct outlet *outlet = &kept->outlets[i];

		/* One try: the terminal may be one that nobody reads. */
		if (kept->failure == 0 && outlet_waits(outlet) > 0)
			outlet_write(kept, outlet);
		buf_done(&outlet->waiting);
		if (outlet->owns_to)
			outlet->to = fd_close(outlet->to);
	}
	free(kept->sources);
	kept->sources = NULL;
	kept->count = 0;
}
