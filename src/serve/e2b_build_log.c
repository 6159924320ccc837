/* e2b_build_log.c - what a build has said so far, and how it ended */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "serve/e2b_build.h"
#include "serve/e2b_control.h"

#define ENTRIES_MAX 100
#define ENTRY       "{\"level\":\"" /* how a line of output begins: its keys are in order */

static const char *const levels[] = { "debug", "info", "warn", "error" };

int build_read_log(const char *id, struct buf *text)
{
	_cleanup_close_ int fd = -EBADF;
	struct err err = ERR_NONE;
	char path[PATH_MAX];
	int r = build_path("builds", id, ".log", path, &err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd_read_all(fd, text);
}

void build_append(const char *id, struct node *taken)
{
	_cleanup_(node_freep) struct node *line = taken;
	_cleanup_(buf_done) struct buf text = BUF(SERVE_JSON_MAX);
	_cleanup_close_ int fd = -EBADF;
	struct err err = ERR_NONE;
	char path[PATH_MAX];

	/* A child that was killed may have left half of a line. */
	if (!line || buf_char(&text, '\n') < 0 || json_write(line, true, &text) < 0 ||
	    buf_char(&text, '\n') < 0 || build_path("builds", id, ".log", path, &err) < 0)
		return;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fd_write_all(fd, buf_text(&text), text.len) < 0)
		log_line(LOG_WARNING, "the end of build %s cannot be written down", id);
}

struct node *build_last_line(const struct buf *text, const char *key)
{
	const char *all = buf_text(text), *end = all + text->len, *line;
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *value;
	struct err err = ERR_NONE;

	while (end > all && end[-1] == '\n')
		end--;
	line = end;
	while (line > all && line[-1] != '\n')
		line--;
	if (line == end || json_read(line, (size_t)(end - line), NULL, &node, &err) < 0)
		return NULL;
	value = node_get(node, key);
	return value ? node_copy(str_equal(key, "status") ? node : value) : NULL;
}

/* --- for clients --- */

struct reading {
	uint64_t offset, limit;
	size_t least; /* level */
	uint64_t from_ms;
};

static bool is_loud(const char *line, const char *end, size_t least)
{
	size_t head = strlen(ENTRY);

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		size_t len = strlen(levels[i]);

		if ((size_t)(end - line) > head + len &&
		    strncmp(line + head, levels[i], len) == 0 && line[head + len] == '"')
			return i >= least;
	}
	return false;
}

static const char *text_of(const struct node *map, const char *key)
{
	const struct node *value = node_get(map, key);

	return value && value->kind == NODE_STRING ? value->text : "";
}

static uint64_t time_of(const struct node *line)
{
	const struct node *ms = node_get(line, "time");

	return ms && ms->kind == NODE_INT ? (uint64_t)ms->number : 0;
}

static int add_entry(const struct node *line, struct node *entries, struct node *logs)
{
	_cleanup_(node_freep) struct node *entry = node_map();
	int r = entry ? node_set(entry, "timestamp", shape_time(time_of(line))) : -ENOMEM;

	r = r < 0 ? r : node_set(entry, "level", node_string(text_of(line, "level")));
	r = r < 0 ? r : node_set(entry, "message", node_string(text_of(line, "message")));
	r = r < 0 ? r : node_set(entry, "step", node_string(text_of(line, "step")));
	r = r < 0 ? r : node_add(entries, take_ptr(&entry));
	return r < 0 || !logs ? r : node_add(logs, node_string(text_of(line, "message")));
}

/* Only lines that are wanted are parsed. */
static int read_entries(const struct buf *text, const struct reading *reading, struct node *entries,
			struct node *logs)
{
	const char *at = buf_text(text), *end = at + text->len, *stop;
	uint64_t number = 0;
	int r = 0;

	for (; at < end && r == 0 && entries->count < reading->limit; at = stop + 1) {
		_cleanup_(node_freep) struct node *line = NULL;
		struct err err = ERR_NONE;

		stop = memchr(at, '\n', (size_t)(end - at));
		if (!stop)
			break; /* it is being written */
		if ((size_t)(stop - at) < strlen(ENTRY) || strncmp(at, ENTRY, strlen(ENTRY)) != 0 ||
		    !is_loud(at, stop, reading->least) || number++ < reading->offset)
			continue;
		if (json_read(at, (size_t)(stop - at), NULL, &line, &err) == 0 &&
		    time_of(line) >= reading->from_ms)
			r = add_entry(line, entries, logs);
	}
	return r;
}

static bool read_query(struct request *q, struct reading *reading)
{
	char level[16] = "";

	*reading = (struct reading){ .limit = ENTRIES_MAX };
	if (!query_number(q, "logsOffset", UINT32_MAX, &reading->offset) ||
	    !query_number(q, "limit", ENTRIES_MAX, &reading->limit) ||
	    !query_number(q, "cursor", INT64_MAX, &reading->from_ms))
		return false;
	if (query_get(q, "level", 0, level, sizeof(level)) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
			if (str_equal(level, levels[i]))
				reading->least = i;
	return true;
}

static int set_reason(struct node *map, const char *message, const char *step)
{
	_cleanup_(node_freep) struct node *reason = node_map();
	int r = reason ? node_set(reason, "message", node_string(message)) : -ENOMEM;

	if (r == 0 && step[0])
		r = node_set(reason, "step", node_string(step));
	r = r < 0 ? r : node_set(reason, "logEntries", node_list());
	return r < 0 ? r : node_set(map, "reason", take_ptr(&reason));
}

/* One that does not run and did not say how it ended was cut short. */
static int set_status(struct request *q, const struct buf *text, bool has_log, struct node *map)
{
	_cleanup_(node_freep) struct node *last = NULL;
	const char *status = "waiting";

	if (build_is_running(q->serve, q->parameter[1]))
		status = "building";
	else if (has_log)
		last = build_last_line(text, "status");
	if (last)
		status = text_of(last, "status");
	else if (has_log && !str_equal(status, "building"))
		status = "error";
	if (str_equal(status, "error")) {
		int r = set_reason(map,
				   last ? text_of(last, "message")
					: "the daemon was ended during the build",
				   last ? text_of(last, "step") : "");

		if (r < 0)
			return r;
	}
	return node_set(map, "status", node_string(status));
}

static bool open_build(struct request *q, struct reading *reading, struct buf *text, bool *has_log)
{
	_cleanup_(node_freep) struct node *meta = NULL;

	if (build_find(q, q->parameter[0], q->parameter[1], &meta) < 0) {
		refuse(q, 404, "there is no build \"%.40s\" of this template", q->parameter[1]);
		return false;
	}
	*has_log = build_read_log(q->parameter[1], text) == 0;
	return read_query(q, reading);
}

void template_status(struct request *q)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	_cleanup_(node_freep) struct node *map = node_map(), *entries = node_list(),
					  *logs = node_list();
	struct reading reading;
	bool has_log;
	int r = map && entries && logs ? 0 : -ENOMEM;

	if (!open_build(q, &reading, &text, &has_log))
		return;
	r = r < 0 ? r : read_entries(&text, &reading, entries, logs);
	r = r < 0 ? r : node_set(map, "templateID", node_string(q->parameter[0]));
	r = r < 0 ? r : node_set(map, "buildID", node_string(q->parameter[1]));
	r = r < 0 ? r : set_status(q, &text, has_log, map);
	r = r < 0 ? r : node_set(map, "logEntries", take_ptr(&entries));
	r = r < 0 ? r : node_set(map, "logs", take_ptr(&logs));
	answer_take_json(q, 200, r < 0 ? NULL : take_ptr(&map));
}

void template_logs(struct request *q)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	_cleanup_(node_freep) struct node *map = node_map(), *entries = node_list();
	struct reading reading;
	bool has_log;
	int r = map && entries ? 0 : -ENOMEM;

	if (!open_build(q, &reading, &text, &has_log))
		return;
	r = r < 0 ? r : read_entries(&text, &reading, entries, NULL);
	r = r < 0 ? r : node_set(map, "logs", take_ptr(&entries));
	answer_take_json(q, 200, r < 0 ? NULL : take_ptr(&map));
}
