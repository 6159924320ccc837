#include "trace/trim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "trace/catalog.h"
#include "trace/head.h"
#include "trace/home.h"
#include "trace/spare.h"
#include "trace/trace.h"

unsigned long trace_trim_count(int home)
{
	struct stat st;

	/* Each folder inside has a link to its parent; some file systems say 1 whatever is inside. */
	if (fstatat(home, "sandboxes", &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink < 2)
		return 0;
	return (unsigned long)st.st_nlink - 2;
}

/* Whether there is a head, which says "removed" now unless it is damaged. */
static bool mark_removed(int home, const char *id)
{
	_cleanup_close_ int fd = -EBADF;
	char path[TRACE_PATH_SIZE];
	struct head head;
	int r = head_read(home, id, &head, NULL);

	if (r < 0)
		return r != -ENOENT;
	trace_head_path(id, path);
	fd = sys_openat2(home, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	head.state = HEAD_REMOVED;
	if (fd >= 0)
		(void)!head_write(fd, &head);
	return true;
}

/* Without a stream there is nothing to lock: only what a remover before us has left may go. */
static bool is_marked(int home, const char *id)
{
	struct head head;

	return head_read(home, id, &head, NULL) == 0 && head.state == HEAD_REMOVED;
}

/*
 * Under the lock that a writer would hold. A writer that comes just now finds its file gone and
 * begins again; its new head is not ours to remove, so only one that was there under the lock goes.
 */
static void remove_stream(int home, const char *id)
{
	_cleanup_close_ int stream = -EBADF;
	char path[TRACE_PATH_SIZE];
	bool has_head;

	trace_stream_path(id, path);
	stream = trace_file_open(home, path, NULL);
	if (stream < 0 && stream != -ENOENT)
		return;
	if (stream >= 0 && flock(stream, LOCK_EX | LOCK_NB) < 0)
		return;
	has_head = stream >= 0 ? mark_removed(home, id) : is_marked(home, id);
	if (stream >= 0 && has_head && spare_put(home, id, stream) == 0)
		return;
	/* Gone already: put aside, as far as that went. */
	if (stream >= 0 && unlinkat(home, path, 0) < 0 && errno != ENOENT)
		return;
	snprintf(path, sizeof(path), "sandboxes/%.15s/head", id);
	(void)unlinkat(home, path, 0);
	snprintf(path, sizeof(path), "sandboxes/%.15s", id);
	/* Something else in the folder: not ours to remove, and its head is all that is known of it. */
	if ((unlinkat(home, path, AT_REMOVEDIR) < 0 && errno != ENOENT) || !has_head)
		return;
	trace_head_path(id, path);
	(void)unlinkat(home, path, 0);
}

struct aged {
	char id[TRACE_ID_SIZE];
	struct timespec time;
};

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct aged *)a)->time,
			      *y = &((const struct aged *)b)->time;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* The time of the folder itself is that of its making: nothing is added to it later. */
static void find_time(int home, struct aged *stream)
{
	char path[TRACE_PATH_SIZE];
	struct stat st;

	snprintf(path, sizeof(path), "sandboxes/%.15s", stream->id);
	if (fstatat(home, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		stream->time = st.st_mtim;
}

/* Heads of streams that a remover had put aside when it was killed. */
static void remove_marked_heads(int home, const struct strv *streams)
{
	_cleanup_(strv_done) struct strv heads = { 0 };
	char path[TRACE_PATH_SIZE];
	size_t at = 0;

	if (catalog_ids(home, "heads", &heads) < 0)
		return;
	/* Both are in order. */
	for (size_t i = 0; i < heads.count; i++) {
		while (at < streams->count && strcmp(streams->items[at], heads.items[i]) < 0)
			at++;
		if ((at < streams->count && str_equal(streams->items[at], heads.items[i])) ||
		    !is_marked(home, heads.items[i]))
			continue;
		trace_head_path(heads.items[i], path);
		(void)unlinkat(home, path, 0);
	}
}

void trace_trim(int home, unsigned int keep)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	_cleanup_free_ struct aged *list = NULL;

	if (catalog_ids(home, "sandboxes", &ids) < 0 || ids.count <= keep)
		return;
	list = calloc(ids.count, sizeof(*list));
	if (!list)
		return;
	remove_marked_heads(home, &ids);
	for (size_t i = 0; i < ids.count; i++) {
		snprintf(list[i].id, sizeof(list[i].id), "%s", ids.items[i]);
		find_time(home, &list[i]);
	}
	qsort(list, ids.count, sizeof(*list), by_age);
	for (size_t i = 0; i < ids.count - (keep - keep / 8); i++)
		remove_stream(home, list[i].id);
}

bool trace_is_untidy(const char *path, unsigned int keep)
{
	_cleanup_close_ int home = trace_home_open(path, false, NULL);
	unsigned long count = home < 0 ? 1 : trace_trim_count(home);

	return count == 0 || count > (keep ? keep : TRACE_KEEP);
}

int trace_tidy(const char *path, unsigned int keep)
{
	_cleanup_close_ int home = -EBADF;

	if (!trace_is_untidy(path, keep))
		return 0;
	home = trace_home_open(path, false, NULL);
	if (home < 0)
		return home == -ENOENT ? 0 : home;
	trace_trim(home, keep ? keep : TRACE_KEEP);
	return 0;
}
