/*
 * files_make.c - MAKE: a directory, or a symbolic link
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "init/files_internal.h"

#define NS_PER_S 1000000000

/* The time of a directory changes with all that is made in it: whoever fills one sets it at the end. */
static int set_time(struct task *t)
{
	uint64_t ns = message_number(&t->call, FIELD_MODIFIED, 0);
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
					  { .tv_sec = (time_t)(ns / NS_PER_S),
					    .tv_nsec = (long)(ns % NS_PER_S) } };

	if (!message_has(&t->call, FIELD_MODIFIED))
		return 0;
	return utimensat(AT_FDCWD, task_path(t), times, 0) < 0 ? task_fail(t, -errno, task_path(t))
							       : 0;
}

/* What was asked for, whatever the mask of new files is. */
static int set_mode(struct task *t)
{
	mode_t mode = (mode_t)message_number(&t->call, FIELD_MODE, 0777) & 07777;
	const char *path = task_path(t);
	struct stat st;

	if (!message_has(&t->call, FIELD_MODE) ||
	    (stat(path, &st) == 0 && (st.st_mode & 07777) == mode))
		return 0;
	return chmod(path, mode) < 0 ? task_fail(t, -errno, path) : 0;
}

static int make_directory(struct task *t)
{
	const char *path = task_path(t);
	mode_t mode = (mode_t)message_number(&t->call, FIELD_MODE, 0777) & 0777;
	struct stat st;
	int r = files_make_directory(t, path, mode);

	if (r < 0) {
		if (r != -EEXIST || !(task_flags(t) & TREE_OPTIONAL) || stat(path, &st) < 0 ||
		    !S_ISDIR(st.st_mode))
			return task_fail(t, r, path);
		if (!(task_flags(t) & TREE_MODE))
			return 0;
	}
	r = AS_EITHER(t, set_mode(t));
	r = r < 0 ? r : AS_EITHER(t, set_time(t));
	/* What the first of the two was refused is no matter then. */
	if (r == 0)
		t->err = ERR_NONE;
	return r;
}

static bool leads_to(const char *path, const char *target)
{
	char text[PATH_MAX];
	ssize_t len = readlink(path, text, sizeof(text) - 1);

	if (len < 0)
		return false;
	text[len] = '\0';
	return str_equal(text, target);
}

static int make_link(struct task *t, const char *target)
{
	const char *path = task_path(t);
	int r;

	if (*target == '\0')
		return err_set(&t->err, -EINVAL, "the target of the link is empty");
	r = symlink(target, path) < 0 ? -errno : 0;
	if (r == -EEXIST && (task_flags(t) & TREE_OPTIONAL) && leads_to(path, target))
		return 0;
	return r < 0 ? task_fail(t, r, path) : 0;
}

int files_make(struct task *t)
{
	const char *target = message_text(&t->call, FIELD_TARGET, NULL);
	int r = task_flags(t) & TREE_PARENTS ? files_make_parents(t, task_path(t)) : 0;

	if (r < 0)
		return task_fail(t, r, task_path(t));
	return target ? make_link(t, target) : make_directory(t);
}
