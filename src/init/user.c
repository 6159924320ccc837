#include "init/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

enum {
	PASSWD_NAME,
	PASSWD_PASSWORD,
	PASSWD_UID,
	PASSWD_GID,
	PASSWD_GECOS,
	PASSWD_HOME,
	PASSWD_SHELL,
	PASSWD_FIELDS
};

struct word {
	const char *text;
	size_t len;
};

bool parse_uid(const char *text, size_t len, uid_t *ret_uid)
{
	uint64_t value = 0;

	if (len == 0 || len > 10)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	/* The last one means "none" to the kernel. */
	if (value >= UINT32_MAX)
		return false;
	*ret_uid = (uid_t)value;
	return true;
}

/* Into a text of its own; false when it does not fit, or cannot be one. */
static bool copy_word(const struct word *word, char *text, size_t size)
{
	if (word->len >= size || memchr(word->text, '\0', word->len))
		return false;
	memcpy(text, word->text, word->len);
	text[word->len] = '\0';
	return true;
}

static bool parse_line(const char *line, size_t len, struct user *ret_user)
{
	struct word words[PASSWD_FIELDS];
	struct user user = { 0 };
	const char *end = line + len;

	for (int i = 0; i < PASSWD_FIELDS; i++) {
		const char *colon = memchr(line, ':', (size_t)(end - line));

		if ((i + 1 < PASSWD_FIELDS) != (colon != NULL))
			return false;
		words[i] = (struct word){ line, (size_t)((colon ?: end) - line) };
		line = colon ? colon + 1 : end;
	}
	if (!parse_uid(words[PASSWD_UID].text, words[PASSWD_UID].len, &user.uid) ||
	    !parse_uid(words[PASSWD_GID].text, words[PASSWD_GID].len, &user.gid) ||
	    !copy_word(&words[PASSWD_NAME], user.name, sizeof(user.name)) || !user.name[0] ||
	    !copy_word(&words[PASSWD_HOME], user.home, sizeof(user.home)) ||
	    !copy_word(&words[PASSWD_SHELL], user.shell, sizeof(user.shell)))
		return false;
	*ret_user = user;
	return true;
}

bool passwd_find(const char *text, size_t len, const char *name, struct user *ret_user)
{
	uid_t uid;
	bool is_number = parse_uid(name, strlen(name), &uid), is_found = false;
	struct user user;

	for (const char *end = text + len; text < end;) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)) ?: end;

		if (parse_line(text, (size_t)(newline - text), &user)) {
			if (str_equal(user.name, name)) {
				*ret_user = user;
				return true;
			}
			/* The first of a number counts, but a name goes before. */
			if (is_number && !is_found && user.uid == uid) {
				*ret_user = user;
				is_found = true;
			}
		}
		text = newline < end ? newline + 1 : end;
	}
	return is_found;
}

/* Neither a link nor a pipe can make init wait or open what it should not. */
static int read_passwd(struct buf *buf)
{
	_cleanup_close_ int fd =
		open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)PASSWD_MAX)
		return -EINVAL;
	return fd_read_all(fd, buf);
}

static bool find(const char *name, struct user *ret_user)
{
	_cleanup_(buf_done) struct buf buf = BUF(PASSWD_MAX);

	return read_passwd(&buf) == 0 && passwd_find(buf_text(&buf), buf.len, name, ret_user);
}

int user_choose(const char *wanted, const struct rights *rights, struct user *ret_user,
		struct err *err)
{
	bool has_users = rights->has_users;
	uid_t standard = has_users ? USER_DEFAULT : geteuid();
	struct user user = { .uid = standard, .gid = has_users ? USER_DEFAULT : getegid() };
	char number[16];

	snprintf(number, sizeof(number), "%u", standard);
	if (!find(wanted ?: number, &user)) {
		if (wanted && !parse_uid(wanted, strlen(wanted), &user.uid))
			return err_set(err, -EINVAL, "there is no user \"%s\" in the sandbox",
				       wanted);
		if (wanted && user.uid != standard)
			user.gid = user.uid;
		snprintf(user.name, sizeof(user.name), "%u", user.uid);
	}
	if (!has_users && rights->is_root && user.uid == 0 && standard != 0)
		return user_choose(NULL, rights, ret_user, err);
	user.is_default = user.uid == standard;
	if (!has_users && user.uid != standard)
		return err_set(err, -EPERM, "this sandbox has one user only, not \"%s\"", wanted);
	if (!has_users)
		user.gid = getegid();
	if (user.home[0] != '/')
		memcpy(user.home, "/", 2);
	if (user.shell[0] != '/')
		memcpy(user.shell, "/bin/sh", 8);
	*ret_user = user;
	return 0;
}

/* What is made belongs to this user; NULL: to us again. */
void user_act_as(const struct user *user, bool has_users)
{
	if (!has_users)
		return;
	/* Away from root the group comes first, and back to it last. */
	if (user)
		setfsgid(user->gid);
	setfsuid(user ? user->uid : geteuid());
	if (!user)
		setfsgid(getegid());
}

static int call(long number, long a, long b, long c)
{
	return syscall(number, a, b, c) < 0 ? -errno : 0;
}

int user_become(const struct user *user, const struct rights *rights)
{
	return user_become_backed(user, user->uid, rights);
}

int user_become_backed(const struct user *user, uid_t saved, const struct rights *rights)
{
	int r = 0;

	if (rights->has_users) {
		r = call(SYS_setgroups, 0, 0, 0);
		/* Where it cannot be called, there has to be nothing to give up. */
		if (r == -EPERM && syscall(SYS_getgroups, 0, NULL) == 0)
			r = 0;
		r = r < 0 ? r : call(SYS_setresgid, user->gid, user->gid, user->gid);
		r = r < 0 ? r : call(SYS_setresuid, user->uid, user->uid, saved);
	}
	if (r < 0 || !rights->has_capabilities)
		return r;
	/* Memory of init's, until something is executed: the mark keeps root away from it. */
	return rights->has_root && user->uid == 0
		       ? sys_limit_capabilities(SYS_ROOT_RIGHTS, SYS_INIT_MARK)
		       : sys_drop_capabilities(0);
}
