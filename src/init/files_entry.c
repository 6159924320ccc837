/*
 * files_entry.c - how a file is told of: the fields of an ENTRY
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "init/files_internal.h"

#define NS_PER_S        1000000000
#define NAMES_SIZE      (64 * KIB) /* the kernel has no longer list */
#define ATTRIBUTES_SIZE (64 * KIB) /* of one entry: a message has room for that */

static uint64_t modified(const struct stat *st)
{
	if (st->st_mtim.tv_sec < 0 || (uint64_t)st->st_mtim.tv_sec >= UINT64_MAX / NS_PER_S)
		return 0;
	return (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

static void describe_link(struct draft *d, int dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);

	if (len < 0)
		return;
	target[len] = '\0';
	draft_text(d, FIELD_TARGET, target);
}

/* Where it ends. One that leads nowhere has no end. */
static void describe_end(struct draft *d, const char *path)
{
	char end[PATH_MAX];
	struct stat st;

	if (!realpath(path, end) || stat(end, &st) < 0)
		return;
	draft_text(d, FIELD_TO, end);
	draft_number(d, FIELD_LEADS, st.st_mode);
}

/* One of them, where it is a text and there is room. */
static void describe_attribute(struct draft *d, int fd, const char *name, size_t *used)
{
	static char text[ATTRIBUTES_SIZE];
	size_t len = strlen(name) + 1;
	ssize_t n;

	if (*used + len >= sizeof(text))
		return;
	snprintf(text, sizeof(text), "%s=", name);
	n = fgetxattr(fd, name, text + len, sizeof(text) - 1 - *used - len);
	if (n < 0 || memchr(text + len, '\0', (size_t)n))
		return;
	text[len + (size_t)n] = '\0';
	*used += len + (size_t)n;
	draft_text(d, FIELD_VARIABLE, text);
}

/* Opening a file or a directory does nothing; other kinds have no such attributes. */
static void describe_attributes(const struct task *t, struct draft *d, int dir, const char *name,
				mode_t mode)
{
	static char names[NAMES_SIZE];
	const char *prefix = message_text(&t->call, FIELD_NAME, "");
	_cleanup_close_ int fd = -EBADF;
	size_t used = 0;
	ssize_t len;

	if (!S_ISREG(mode) && !S_ISDIR(mode))
		return;
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	len = fd < 0 ? -1 : flistxattr(fd, names, sizeof(names));
	for (const char *at = names; len > 0 && at < names + len; at += strlen(at) + 1)
		if (str_starts(at, prefix))
			describe_attribute(d, fd, at, &used);
}

void files_describe(const struct task *t, struct draft *d, const struct seen *seen)
{
	const struct stat *st = &seen->st;

	draft_number(d, FIELD_MODE, st->st_mode);
	draft_number(d, FIELD_UID, st->st_uid);
	draft_number(d, FIELD_GID, st->st_gid);
	draft_number(d, FIELD_SIZE, (uint64_t)st->st_size);
	draft_number(d, FIELD_MODIFIED, modified(st));
	if (S_ISLNK(st->st_mode))
		describe_link(d, seen->dir, seen->name);
	if (S_ISLNK(st->st_mode) && (task_flags(t) & STAT_LEADS))
		describe_end(d, seen->path);
	if (message_has(&t->call, FIELD_NAME))
		describe_attributes(t, d, seen->dir, seen->name, st->st_mode);
}
