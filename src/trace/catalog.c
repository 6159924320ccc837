#include "trace/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/sys.h"
#include "trace/home.h"
#include "trace/reader.h"

void catalog_closep(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

int catalog_open(int home, const char *folder, DIR **ret_dir)
{
	int fd = sys_openat2(home, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	DIR *dir;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir) {
		fd_close(fd);
		return -ENOMEM;
	}
	*ret_dir = dir;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int catalog_ids(int home, const char *folder, struct strv *ret_ids)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	_cleanup_(catalog_closep) DIR *dir = NULL;
	const struct dirent *entry;
	int r = catalog_open(home, folder, &dir);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while (r == 0 && (entry = readdir(dir)))
		if (trace_id_is_valid(entry->d_name))
			r = strv_add(&ids, entry->d_name);
	if (r < 0)
		return r;
	if (ids.count)
		qsort(ids.items, ids.count, sizeof(*ids.items), by_name);
	*ret_ids = ids;
	ids = (struct strv){ 0 };
	return 0;
}

/* From the first line, if it is one. */
static int read_start(int stream, struct stream_summary *s)
{
	_cleanup_(reader_done) struct reader reader = { 0 };
	_cleanup_(node_freep) struct node *line = NULL;
	const char *text;
	size_t len;
	int r = reader_init(&reader, stream);

	reader.limit = TRACE_LINE_MAX;
	r = r < 0 ? r : reader_next(&reader, &text, &len);
	if (r == -ENOMEM)
		return r;
	if (r <= 0)
		return 0;
	r = trace_line_parse(text, len, &line, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	snprintf(s->time, sizeof(s->time), "%s", trace_text(line, "time"));
	s->command = strdup(trace_text(line, "object"));
	return s->command ? 0 : -ENOMEM;
}

int catalog_summary(int home, const char *id, struct stream_summary *ret_summary)
{
	_cleanup_close_ int stream = -EBADF;
	struct stream_summary s = { 0 };
	char path[TRACE_PATH_SIZE];
	int r = 0;

	snprintf(s.id, sizeof(s.id), "%s", id);
	trace_stream_path(id, path);
	stream = trace_file_open(home, path, NULL);
	if (stream >= 0) {
		r = read_start(stream, &s);
		s.is_alive = trace_is_alive(stream);
	}
	if (r < 0)
		return r;
	s.has_head = head_read(home, id, &s.head, NULL) == 0;
	*ret_summary = s;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	return strcmp(((const struct stream_summary *)a)->time,
		      ((const struct stream_summary *)b)->time);
}

static int read_all(int home, const struct strv *ids, struct catalog *catalog)
{
	int r = 0;

	for (; r == 0 && catalog->count < ids->count; catalog->count++)
		r = catalog_summary(home, ids->items[catalog->count],
				    &catalog->items[catalog->count]);
	return r;
}

int catalog_read(int home, struct catalog *ret_catalog)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	struct catalog catalog = { 0 };
	int r = catalog_ids(home, "sandboxes", &ids);

	if (r < 0 || ids.count == 0)
		return r;
	catalog.items = calloc(ids.count, sizeof(*catalog.items));
	if (!catalog.items)
		return -ENOMEM;
	r = read_all(home, &ids, &catalog);
	if (r < 0) {
		catalog_done(&catalog);
		return r;
	}
	qsort(catalog.items, catalog.count, sizeof(*catalog.items), by_time);
	*ret_catalog = catalog;
	return 0;
}

void catalog_done(struct catalog *catalog)
{
	for (size_t i = 0; i < catalog->count; i++)
		free(catalog->items[i].command);
	free(catalog->items);
	*catalog = (struct catalog){ 0 };
}

static int find_newest(int home, char ret_id[static TRACE_ID_SIZE], struct err *err)
{
	_cleanup_(catalog_done) struct catalog catalog = { 0 };
	int r = catalog_read(home, &catalog);

	if (r < 0)
		return err_errno(err, r, "cannot read the state directory");
	if (catalog.count == 0)
		return err_set(err, -ENOENT,
			       "no sandbox has left events yet (\"brig run\" records them)");
	memcpy(ret_id, catalog.items[catalog.count - 1].id, TRACE_ID_SIZE);
	return 0;
}

int catalog_find(int home, const char *prefix, char ret_id[static TRACE_ID_SIZE], struct err *err)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	const char *found = NULL;
	int r;

	if (!prefix)
		return find_newest(home, ret_id, err);
	if (!trace_id_is_valid(prefix))
		return err_set(err, -EINVAL,
			       "\"%.40s\" is not the id of a sandbox (see \"brig events list\")",
			       prefix);
	r = catalog_ids(home, "sandboxes", &ids);
	if (r < 0)
		return err_errno(err, r, "cannot read the state directory");
	for (size_t i = 0; i < ids.count; i++) {
		bool is_exact = str_equal(ids.items[i], prefix);

		if (!str_starts(ids.items[i], prefix))
			continue;
		if (found && !is_exact)
			return err_set(err, -ENOTUNIQ,
				       "\"%s\" is the beginning of several ids, as of \"%s\" and "
				       "\"%s\": give more of it",
				       prefix, found, ids.items[i]);
		found = ids.items[i];
		if (is_exact)
			break;
	}
	if (!found)
		return err_set(err, -ENOENT,
			       "there are no events of a sandbox \"%s\" (see \"brig events list\")",
			       prefix);
	snprintf(ret_id, TRACE_ID_SIZE, "%s", found);
	return 0;
}
