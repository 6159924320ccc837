/* build_log.c - what a build says: to a person, or as lines of JSON to the daemon */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/fd.h"
#include "cli/build.h"

static void write_line(struct build *build, struct node *taken)
{
	_cleanup_(node_freep) struct node *node = taken;
	_cleanup_(buf_done) struct buf text = BUF(2 * BUILD_LOG_MAX);

	if (!node || json_write(node, true, &text) < 0 || buf_char(&text, '\n') < 0)
		return;
	build->logged += text.len;
	/* A daemon that is gone has told us so by a signal. */
	(void)!fd_write_all(build->log, buf_text(&text), text.len);
}

static struct node *entry(const struct build *build, const char *level, const char *message,
			  size_t len)
{
	_cleanup_(node_freep) struct node *map = node_map();
	_cleanup_(buf_done) struct buf text = BUF(BUILD_LOG_MAX);
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	/* What is not UTF-8 must not end the build. */
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_sequence((const unsigned char *)message + i, len - i);
		if (n == 1 && (unsigned char)message[i] < 0x20 && message[i] != '\t')
			n = 0;
		if (n == 0)
			buf_char(&text, '?');
		else
			buf_add(&text, message + i, n);
		n = n ? n : 1;
	}
	r = map ? node_set(map, "time",
			   node_int((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000))
		: -1;
	r = r < 0 ? r : node_set(map, "level", node_string(level));
	r = r < 0 ? r : node_set(map, "message", node_string(buf_text(&text)));
	r = r < 0 ? r : node_set(map, "step", node_string(build->step));
	return r < 0 ? NULL : take_ptr(&map);
}

void build_say(struct build *build, const char *level, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (build->log >= 0) {
		write_line(build, entry(build, level, text, strlen(text)));
	} else if (!build->is_quiet) {
		str_make_printable(text);
		fprintf(stderr, "%s\n", text);
	}
}

void build_output(struct build *build, const char *line, size_t len)
{
	if (build->logged < BUILD_LOG_MAX)
		write_line(build, entry(build, "info", line, len));
	else if (!build->is_full) {
		build->is_full = true;
		build_say(build, "warn", "more is printed than is kept: the rest is left out");
	}
}

void build_result(struct build *build, struct node *result)
{
	struct node *map = node_map();

	if (!map || node_set(map, "result", result) < 0) {
		node_free(map);
		return;
	}
	write_line(build, map);
}
