/*
 * log.c - what the daemon says of itself: a line each on standard error, as text or as JSON
 *
 * A request is one line when it is over. What stands in a query is never logged: signatures are keys.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "serve/serve.h"

#define LINE_MAX_SIZE 4096
#define PATH_SHOWN    256

static const char *const level_names[] = {
	[LOG_DEBUG] = "debug",
	[LOG_INFO] = "info",
	[LOG_WARNING] = "warning",
	[LOG_ERROR] = "error",
};

static bool is_json, is_quiet;

void log_set_json(bool json)
{
	is_json = json;
}

void log_set_quiet(bool quiet)
{
	is_quiet = quiet;
}

void time_text(uint64_t ms, char ret_text[static TIME_TEXT_SIZE])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	/* No year beyond 9999 fits, and no time of ours is there. */
	if (ms > UINT64_C(253402300799999) || !gmtime_r(&seconds, &tm))
		seconds = 0, gmtime_r(&seconds, &tm);
	snprintf(ret_text, TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
		 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

uint64_t time_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* In one write, so that lines of several processes do not mix. A log that nobody reads is no reason to end. */
static void put(struct buf *line)
{
	if (buf_char(line, '\n') == 0)
		(void)!write(STDERR_FILENO, line->data, line->len);
}

static void begin(struct buf *line, enum log_level level)
{
	char now[TIME_TEXT_SIZE];

	time_text(time_now(), now);
	if (is_json)
		(void)buf_printf(line, "{\"time\":\"%s\",\"level\":\"%s\"", now,
				 level_names[level]);
	else
		(void)buf_printf(line, "%s %s", now, level_names[level]);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_MAX_SIZE);
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	str_make_printable(text);
	begin(&line, level);
	if (is_json) {
		(void)buf_str(&line, ",\"message\":");
		(void)!json_write_string(text, strlen(text), &line);
		(void)buf_char(&line, '}');
	} else {
		(void)buf_printf(&line, " %s", text);
	}
	put(&line);
}

static void add_field(struct buf *line, const char *name, const char *value)
{
	if (!value[0])
		return;
	if (!is_json) {
		(void)buf_printf(line, " %s=%s", name, value);
		return;
	}
	(void)buf_printf(line, ",\"%s\":", name);
	(void)!json_write_string(value, strlen(value), line);
}

void log_request(const struct exchange *x)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_MAX_SIZE);
	const struct request *q = x->of;
	char path[PATH_SHOWN + 1], method[17];
	uint64_t ms = loop_now(x->loop) - x->began;

	/* A monitor asks all day. */
	if (is_quiet || (q && q->route && q->route->is_quiet && x->status < 400))
		return;
	snprintf(path, sizeof(path), "%.*s", (int)MIN(x->head.path.len, (size_t)PATH_SHOWN),
		 x->head.path.data ?: "");
	snprintf(method, sizeof(method), "%.*s", (int)MIN(x->head.method_text.len, (size_t)16),
		 x->head.method_text.data ?: "");
	str_make_printable(path);
	begin(&line, x->status >= 500 ? LOG_WARNING : LOG_INFO);
	if (is_json) {
		(void)buf_printf(&line, ",\"request\":\"%" PRIx64 "\"", x->number);
		add_field(&line, "method", method);
		add_field(&line, "path", path);
		(void)buf_printf(&line, ",\"status\":%u,\"ms\":%" PRIu64 ",\"bytes\":%" PRIu64,
				 x->status, ms, x->sent);
	} else {
		(void)buf_printf(&line,
				 " request %" PRIx64 " %s %s %u %" PRIu64 " ms %" PRIu64 " bytes",
				 x->number, method, path, x->status, ms, x->sent);
	}
	add_field(&line, "peer", x->peer);
	if (q) {
		add_field(&line, "tenant", q->tenant_name);
		add_field(&line, "sandbox", q->sandbox);
	}
	if (is_json)
		(void)buf_char(&line, '}');
	put(&line);
}
