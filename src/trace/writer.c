/* writer.c - trace_open() to trace_close(); what is whole after a crash is told in head.h */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "trace/budget.h"
#include "trace/head.h"
#include "trace/home.h"
#include "trace/spare.h"
#include "trace/trim.h"

#define BUFFER_SIZE  (2 * TRACE_LINE_MAX)
#define FOLD_SIZE    (TRACE_OBJECT_MAX + 4096)
#define MILLISECOND  1000000ull
#define SECOND       1000000000ull
#define OPEN_TRIES   8
#define ALLOWED_RATE 20000
#define DENIED_RATE  2000
#define STREAM_BYTES (64 * MIB)

/* The last refusal, so that one like it can be recognised: all its strings in one piece of memory. */
struct fold {
	struct trace_event event;
	char text[FOLD_SIZE];
	size_t used;
	uint64_t count;
	bool is_set;
};

struct trace {
	int stream, head_fd;
	int failure; /* the first -errno; nothing is written any more */
	struct head head;
	char *buffer;
	size_t used;
	uint64_t seq;               /* of the last line in the buffer */
	char hash[SHA256_HEX_SIZE]; /* of that line */
	uint64_t started, oldest;   /* ns; oldest: of the first line in the buffer */
	uint64_t last;              /* that a line was given: times do not go back */
	int64_t second;             /* that time has the text of */
	char time[TRACE_TIME_SIZE];
	struct budget budget;
	uint64_t dropped[2]; /* allowed, denied */
	struct fold fold;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* The date changes once a second, the digits behind it with every event. */
static const char *time_text(struct trace *trace, uint64_t ago)
{
	uint64_t now = clock_ns(CLOCK_REALTIME) - ago, micro = now % SECOND / 1000;
	int64_t second = (int64_t)(now / SECOND);

	if (second != trace->second) {
		trace_time_second(second, trace->time);
		trace->second = second;
	}
	trace->time[19] = '.';
	for (int i = 25; i > 19; i--, micro /= 10)
		trace->time[i] = (char)('0' + micro % 10);
	trace->time[26] = 'Z';
	trace->time[27] = '\0';
	return trace->time;
}

/* Written, but not all of it: what is whole stays valid, and the head says what follows it. */
static void note_failure(struct trace *trace, size_t written)
{
	struct head *head = &trace->head;
	const char *data = trace->buffer, *line = data, *end;

	while (line < data + written &&
	       (end = memchr(line, '\n', (size_t)(data + written - line)))) {
		sha256_hex(line, (size_t)(end - line), head->acked.hash);
		head->acked.bytes += (size_t)(end + 1 - line);
		head->acked.seq++;
		line = end + 1;
	}
	head->tail = (size_t)(data + written - line);
	head->lost = trace->seq - head->acked.seq + trace->dropped[0] + trace->dropped[1] +
		     trace->fold.count;
	head->next = head->acked;
	head->state = HEAD_FAILED;
	/* If this fails as well, the head still announces what was only half written. */
	(void)!head_write(trace->head_fd, head);
}

static int write_buffer(struct trace *trace, size_t *ret_written)
{
	size_t written = 0;
	int r = 0;

	while (written < trace->used && r == 0) {
		ssize_t n = write(trace->stream, trace->buffer + written, trace->used - written);

		if (n > 0)
			written += (size_t)n;
		else if (n == 0)
			r = -EIO;
		else if (errno != EINTR)
			r = -errno;
	}
	*ret_written = written;
	return r;
}

static int write_out(struct trace *trace)
{
	struct head *head = &trace->head;
	size_t written = 0;
	int r;

	if (trace->failure || trace->used == 0)
		return trace->failure;
	head->next.bytes = head->acked.bytes + trace->used;
	head->next.seq = trace->seq;
	memcpy(head->next.hash, trace->hash, sizeof(trace->hash));
	r = head_write(trace->head_fd, head);
	r = r < 0 ? r : write_buffer(trace, &written);
	if (r < 0) {
		note_failure(trace, written);
		trace->failure = r;
		return r;
	}
	head->acked = head->next;
	trace->used = 0;
	return 0;
}

/* The end of every way to a line: number, clocks and hash are given here. */
static int append(struct trace *trace, struct trace_line *line)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), at = line->event->at;
	ssize_t len;
	char *text;
	int r = 0;

	if (BUFFER_SIZE - trace->used < TRACE_LINE_MAX)
		r = write_out(trace);
	if (r < 0)
		return r;
	if (trace->used == 0)
		trace->oldest = now;
	at = at == 0 || at > now ? now : MAX(at, trace->last);
	line->sandbox = trace->head.sandbox;
	line->time = time_text(trace, now - at);
	line->prev = trace->hash;
	line->seq = trace->seq + 1;
	line->mono = at - trace->started;
	text = trace->buffer + trace->used;
	len = trace_line_write(line, text, TRACE_LINE_MAX);
	if (len < 0)
		return (int)len;
	sha256_hex(text, (size_t)len - 1, trace->hash);
	trace->last = at;
	trace->seq++;
	trace->used += (size_t)len;
	return 0;
}

static int append_dropped(struct trace *trace)
{
	int r = 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		const struct trace_event event = {
			.kind = TRACE_SANDBOX,
			.action = "dropped",
			.verdict = i ? VERDICT_DENY : VERDICT_ALLOW,
		};
		struct trace_line line = { .event = &event, .dropped = trace->dropped[i] };

		if (trace->dropped[i])
			r = append(trace, &line);
		if (r == 0)
			trace->dropped[i] = 0;
	}
	return r;
}

/* One line if the budget has room for it, else one more that is missing. */
static int append_budgeted(struct trace *trace, const struct trace_event *event, uint64_t count)
{
	struct trace_line line = { .event = event, .count = count };
	bool is_denied = event->verdict == VERDICT_DENY;
	int r;

	if (!budget_take(&trace->budget, is_denied, trace->head.acked.bytes + trace->used,
			 clock_ns(CLOCK_MONOTONIC))) {
		trace->dropped[is_denied] += MAX(count, (uint64_t)1);
		return 0;
	}
	r = append_dropped(trace);
	return r < 0 ? r : append(trace, &line);
}

/* The repetitions of the last refusal, which is forgotten then if the next event is another one. */
static int append_fold(struct trace *trace)
{
	uint64_t count = trace->fold.count;

	trace->fold.count = 0;
	return count ? append_budgeted(trace, &trace->fold.event, count) : 0;
}

static bool same_text(const char *a, const char *b)
{
	return (!a || !b) ? a == b : str_equal(a, b);
}

static size_t event_length(const struct trace_event *event)
{
	return event->object_len ? event->object_len : event->object ? strlen(event->object) : 0;
}

static bool is_same(const struct trace_event *a, const struct trace_event *b)
{
	size_t len = event_length(a);

	return a->kind == b->kind && a->verdict == b->verdict && a->exec == b->exec &&
	       a->parent == b->parent && a->pid == b->pid && a->rule.line == b->rule.line &&
	       len == event_length(b) && (len == 0 || memcmp(a->object, b->object, len) == 0) &&
	       same_text(a->action, b->action) && same_text(a->rule.source, b->rule.source) &&
	       same_text(a->rule.key, b->rule.key) && same_text(a->reason, b->reason) &&
	       same_text(a->allow_with, b->allow_with) && same_text(a->publish, b->publish);
}

static bool keep_text(struct fold *fold, const char **text, size_t len)
{
	char *copy = fold->text + fold->used;

	if (!*text)
		return true;
	if (len >= sizeof(fold->text) - fold->used)
		return false;
	memcpy(copy, *text, len);
	copy[len] = '\0';
	fold->used += len + 1;
	*text = copy;
	return true;
}

/* One that does not fit is not kept: the next of its kind is a line of its own. */
static void keep_event(struct fold *fold, const struct trace_event *event)
{
	struct trace_event *e = &fold->event;
	const char **words[] = { &e->action, &e->rule.source, &e->rule.key,
				 &e->reason, &e->allow_with,  &e->publish };

	*e = *event;
	fold->used = 0;
	e->object_len = event_length(event);
	fold->is_set = keep_text(fold, &e->object, e->object_len);
	for (size_t i = 0; i < ARRAY_SIZE(words) && fold->is_set; i++)
		fold->is_set = keep_text(fold, words[i], *words[i] ? strlen(*words[i]) : 0);
}

int trace_due_ms(const struct trace *trace)
{
	uint64_t passed;

	if (trace->used == 0 && trace->fold.count == 0)
		return -1;
	passed = (clock_ns(CLOCK_MONOTONIC) - trace->oldest) / MILLISECOND;
	return passed >= TRACE_DELAY_MS ? 0 : (int)(TRACE_DELAY_MS - passed);
}

int trace_add(struct trace *trace, const struct trace_event *event)
{
	bool is_denied = event->verdict == VERDICT_DENY;
	int r;

	if (trace->failure)
		return trace->failure;
	if (is_denied)
		trace->head.denied++;
	if (is_denied && trace->fold.is_set && is_same(&trace->fold.event, event)) {
		if (trace->fold.count++ == 0 && trace->used == 0)
			trace->oldest = clock_ns(CLOCK_MONOTONIC);
		trace->fold.event.at = event->at;
		return 0;
	}
	r = append_fold(trace);
	r = r < 0 ? r : append_budgeted(trace, event, 0);
	if (is_denied)
		keep_event(&trace->fold, event);
	else
		trace->fold.is_set = false;
	if (r == 0 && trace->used > 0 && trace_due_ms(trace) == 0)
		r = write_out(trace);
	return r;
}

int trace_flush(struct trace *trace)
{
	int r = trace->failure ? trace->failure : append_fold(trace);

	return r < 0 ? r : write_out(trace);
}

/* As a shell would have to be given it. */
static void quote_words(char *const *argv, struct buf *out)
{
	for (; argv && *argv; argv++) {
		const char *word = *argv;
		bool is_plain = *word && strspn(word, "abcdefghijklmnopqrstuvwxyz"
						      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
						      "0123456789_-./:=,+@%") == strlen(word);

		if (out->len)
			buf_char(out, ' ');
		if (is_plain) {
			buf_str(out, word);
			continue;
		}
		buf_char(out, '\'');
		for (; *word; word++)
			if (*word == '\'')
				buf_str(out, "'\\''");
			else
				buf_char(out, *word);
		buf_char(out, '\'');
	}
}

static int write_start(struct trace *trace, const struct trace_request *request)
{
	_cleanup_(buf_done) struct buf command = BUF(64 * MIB);
	struct trace_event event = { .kind = TRACE_SANDBOX,
				     .verdict = VERDICT_ALLOW,
				     .action = "start" };
	struct trace_line line = { .event = &event,
				   .policy = request->policy ? request->policy : "",
				   .isolation = request->isolation ? request->isolation : "" };
	int r;

	quote_words(request->argv, &command);
	r = buf_failed(&command);
	if (r < 0)
		return r;
	event.object = buf_text(&command);
	r = append(trace, &line);
	return r < 0 ? r : write_out(trace);
}

static int make_folders(int home)
{
	for (size_t i = 0; i < TRACE_FOLDERS; i++)
		if (mkdirat(home, trace_folders[i], 0700) < 0 && errno != EEXIST)
			return -errno;
	return 0;
}

/* The lock, unless whoever removes old streams was faster. */
static int lock_stream(int stream)
{
	struct stat st;

	if (flock(stream, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(stream, &st) < 0)
		return -errno;
	return st.st_nlink > 0 ? 0 : -EAGAIN;
}

static int make_stream(int home, const char *folder, const char *path, bool is_again)
{
	_cleanup_close_ int stream = -EBADF;
	int r = mkdirat(home, folder, 0700) < 0 ? -errno : 0;

	if (r == -ENOENT) {
		r = make_folders(home);
		return r < 0 ? r : -EAGAIN;
	}
	if (r < 0 && !(r == -EEXIST && is_again))
		return r;
	stream = trace_file_make(home, path, O_WRONLY | O_APPEND);
	if (stream == -ENOENT)
		return -EAGAIN;
	if (stream < 0)
		return stream;
	r = lock_stream(stream);
	if (r == -EAGAIN)
		(void)unlinkat(home, path, 0);
	return r < 0 ? r : take_fd(&stream);
}

/* One that is put aside, or a new one. */
static int find_stream(int home, const char *id, const char *folder, const char *path)
{
	int fd = spare_take(home, id), r;

	if (fd == -EEXIST)
		return fd;
	r = fd < 0 ? -EAGAIN : lock_stream(fd);
	if (r == 0)
		return fd;
	if (fd >= 0)
		(void)unlinkat(home, path, 0); /* whoever holds it has it for himself */
	fd_close(fd);
	for (int i = 0; i < OPEN_TRIES && r == -EAGAIN; i++)
		r = make_stream(home, folder, path, i > 0 || fd != -ENOENT);
	return r;
}

static int find_head(int home, const char *id, const char *path)
{
	int r = spare_take_head(home, id);

	if (r == -ENOENT)
		r = trace_file_make(home, path, O_WRONLY);
	/* The one who made the first of the folders was killed before the second. */
	if (r == -ENOENT && make_folders(home) == 0)
		r = trace_file_make(home, path, O_WRONLY);
	return r;
}

static void remove_files(int home, const char *id)
{
	char path[TRACE_PATH_SIZE];

	trace_stream_path(id, path);
	(void)unlinkat(home, path, 0);
	snprintf(path, sizeof(path), "sandboxes/%.15s/head", id);
	(void)unlinkat(home, path, 0);
	snprintf(path, sizeof(path), "sandboxes/%.15s", id);
	(void)unlinkat(home, path, AT_REMOVEDIR);
	trace_head_path(id, path);
	(void)unlinkat(home, path, 0);
}

static int make_files(struct trace *trace, int home)
{
	char folder[TRACE_PATH_SIZE], path[TRACE_PATH_SIZE];
	const char *id = trace->head.sandbox;
	int r;

	snprintf(folder, sizeof(folder), "sandboxes/%.15s", id);
	trace_stream_path(id, path);
	r = find_stream(home, id, folder, path);
	if (r < 0)
		return r;
	trace->stream = r;
	trace_head_path(id, path);
	r = find_head(home, id, path);
	if (r == -EEXIST) {
		/* The head of another stream, which stays; only what we made goes. */
		trace_stream_path(id, path);
		(void)unlinkat(home, path, 0);
		(void)unlinkat(home, folder, AT_REMOVEDIR);
	}
	trace->head_fd = r;
	return MIN(r, 0);
}

static struct trace *trace_new(const struct trace_request *request)
{
	const struct trace_limits *limits = &request->limits;
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return NULL;
	trace->stream = trace->head_fd = -EBADF;
	trace->buffer = malloc(BUFFER_SIZE);
	trace->second = -1;
	trace->started = trace->last = clock_ns(CLOCK_MONOTONIC);
	memcpy(trace->hash, HEAD_ZERO, sizeof(HEAD_ZERO));
	memcpy(trace->head.acked.hash, HEAD_ZERO, sizeof(HEAD_ZERO));
	snprintf(trace->head.sandbox, sizeof(trace->head.sandbox), "%s", request->sandbox);
	budget_init(&trace->budget, limits->allowed_rate ? limits->allowed_rate : ALLOWED_RATE,
		    limits->denied_rate ? limits->denied_rate : DENIED_RATE,
		    limits->bytes ? limits->bytes : STREAM_BYTES, trace->started);
	if (!trace->buffer) {
		trace_free(trace);
		return NULL;
	}
	return trace;
}

int trace_open(const struct trace_request *request, struct trace **ret_trace, struct err *err)
{
	_cleanup_(trace_freep) struct trace *trace = NULL;
	_cleanup_close_ int home = -EBADF;
	unsigned int keep = request->limits.keep ? request->limits.keep : TRACE_KEEP;
	int r;

	if (!trace_id_is_valid(request->sandbox))
		return err_set(err, -EINVAL, "\"%s\" is not the id of a sandbox", request->sandbox);
	home = trace_home_open(request->home, true, err);
	if (home < 0)
		return home;
	trace = trace_new(request);
	if (!trace)
		return err_errno(err, -ENOMEM, "cannot open the event stream");
	r = make_files(trace, home);
	if (r == -EEXIST)
		return err_set(err, r, "there is an event stream of a sandbox \"%s\" already",
			       request->sandbox);
	r = r < 0 ? r : write_start(trace, request);
	if (r < 0) {
		remove_files(home, trace->head.sandbox);
		return err_errno(err, r,
				 "cannot write the event stream (free some room, or set "
				 "XDG_STATE_HOME to another place)");
	}
	/* Only where nobody ever tidies up: it takes its time. */
	if (trace_trim_count(home) > 2ul * keep)
		trace_trim(home, keep);
	*ret_trace = take_ptr(&trace);
	return 0;
}

int trace_close(struct trace *trace, const char *reason, int exit_code)
{
	const struct trace_event event = { .kind = TRACE_SANDBOX,
					   .verdict = VERDICT_ALLOW,
					   .action = "end",
					   .reason = reason ? reason : "" };
	const struct trace_end end = { .exit_code = exit_code, .denied = trace->head.denied };
	struct trace_line line = { .event = &event, .end = &end };
	int r = trace->failure ? trace->failure : append_fold(trace);

	r = r < 0 ? r : append_dropped(trace);
	r = r < 0 ? r : append(trace, &line);
	r = r < 0 ? r : write_out(trace);
	if (r == 0) {
		trace->head.state = HEAD_CLOSED;
		r = head_write(trace->head_fd, &trace->head);
	}
	trace_free(trace);
	return r;
}

void trace_free(struct trace *trace)
{
	if (!trace)
		return;
	fd_close(trace->stream);
	fd_close(trace->head_fd);
	free(trace->buffer);
	free(trace);
}
