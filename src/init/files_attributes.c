/*
 * files_attributes.c - ATTRIBUTES and ATTRIBUTE_SET: extended attributes, of what a link leads to
 */
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/str.h"
#include "init/files_internal.h"

#define NAMES_SIZE (64 * KIB) /* the kernel has no longer list, and no larger value */
#define VALUE_SIZE (64 * KIB)

/* A process has one call. */
static char names[NAMES_SIZE], value[VALUE_SIZE];

static int fail(struct task *t, int code)
{
	static const struct {
		int code;
		const char *words;
	} meanings[] = {
		{ EOPNOTSUPP, "no such attribute can be kept there" },
		{ ENODATA, "it has no such attribute" },
		{ EPERM, "this attribute is not for users to set (\"user.\" is)" },
		{ ERANGE, "the name of the attribute is too long, or empty" },
		{ E2BIG, "the attributes are larger than the system tells" },
		{ EINVAL, "this is no name, or no value, for an attribute" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].code == -code)
			return err_set(&t->err, code, "\"%.300s\": %s", task_path(t),
				       meanings[i].words);
	return task_fail(t, code, task_path(t));
}

static int say(struct task *t, const char *name, size_t len)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ATTRIBUTE_IS, t->call.call);

	draft_text(&d, FIELD_NAME, name);
	draft_bytes(&d, FIELD_DATA, value, len);
	return task_send(t, &d);
}

int files_attributes(struct task *t)
{
	ssize_t len;

	len = listxattr(task_path(t), names, NAMES_SIZE);
	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : fail(t, errno == ERANGE ? -E2BIG : -errno);
	for (const char *name = names; name < names + len; name += strlen(name) + 1) {
		ssize_t n = getxattr(task_path(t), name, value, VALUE_SIZE);
		int r;

		/* Gone again, or only its name is to be known. */
		if (n < 0 &&
		    (errno == ENODATA || errno == EACCES || errno == EPERM || errno == EOPNOTSUPP))
			continue;
		r = n < 0 ? fail(t, -errno) : say(t, name, (size_t)n);
		if (r < 0)
			return r;
	}
	return 0;
}

int files_attribute_set(struct task *t)
{
	const char *path = task_path(t), *name = message_text(&t->call, FIELD_NAME, "");
	size_t len;
	const void *data = message_bytes(&t->call, FIELD_DATA, &len);
	int r = data ? setxattr(path, name, data, len, 0) : removexattr(path, name);

	return r < 0 ? fail(t, -errno) : 0;
}

static bool is_users(const char *name)
{
	return str_starts(name, "user.") || str_starts(name, "system.posix_acl_");
}

int files_copy_attributes(int from, int to)
{
	ssize_t len = flistxattr(from, NULL, 0);

	if (len <= 0)
		return len == 0 || errno == EOPNOTSUPP ? 0 : -errno;
	len = flistxattr(from, names, NAMES_SIZE);
	if (len < 0)
		return -errno;
	for (const char *name = names; name < names + len; name += strlen(name) + 1) {
		ssize_t n = is_users(name) ? fgetxattr(from, name, value, VALUE_SIZE) : -1;

		if (is_users(name) && (n < 0 || fsetxattr(to, name, value, (size_t)n, 0) < 0))
			return -errno;
	}
	return 0;
}

static int remove_attributes(int fd, const char *prefix)
{
	ssize_t len = flistxattr(fd, names, NAMES_SIZE);

	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *name = names; name < names + len; name += strlen(name) + 1)
		if (str_starts(name, prefix) && fremovexattr(fd, name) < 0 && errno != ENODATA)
			return -errno;
	return 0;
}

/* "NAME=value"; a name has no '='. */
static int set_attribute(int fd, const char *text, const char *prefix)
{
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;

	if (!equals || len >= NAMES_SIZE || !str_starts(text, prefix))
		return -EINVAL;
	memcpy(names, text, len);
	names[len] = '\0';
	return fsetxattr(fd, names, equals + 1, strlen(equals + 1), 0) < 0 ? -errno : 0;
}

int files_replace_attributes(struct task *t, int fd)
{
	const char *prefix = message_text(&t->call, FIELD_NAME, NULL), *text;
	size_t at = 0;
	int r = 0;

	if (!prefix)
		return 0;
	r = remove_attributes(fd, prefix);
	while (r >= 0 && (text = message_next_text(&t->call, FIELD_VARIABLE, &at)))
		r = set_attribute(fd, text, prefix);
	return r < 0 ? fail(t, r) : 0;
}
