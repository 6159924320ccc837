#include "jail/mediate_act.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/target.h"

#define XATTR_VALUE_SIZE (64 * KIB)

const char *own_link(int fd, char text[static LINK_SIZE])
{
	snprintf(text, LINK_SIZE, "/proc/self/fd/%d", fd);
	return text;
}

static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

static int run_chmod(const struct request *rq)
{
	mode_t mode = (mode_t)rq->own[0] & 07777;
	char link[LINK_SIZE];

	if (S_ISLNK(rq->st.st_mode))
		return -EOPNOTSUPP;
	/* Refused and not dropped: whoever asked must not think that it was done. */
	if (mode & (S_ISDIR(rq->st.st_mode) ? S_ISUID : S_ISUID | S_ISGID))
		return -EPERM;
	return result(chmod(own_link(rq->object, link), mode));
}

static int run_chown(const struct request *rq)
{
	return result(
		fchownat(rq->object, "", (uid_t)rq->own[0], (gid_t)rq->own[1], AT_EMPTY_PATH));
}

static int copy_timespecs(struct request *rq)
{
	uint64_t address = rq->own[0];

	rq->now = !address;
	return rq->now ? 0 : target_read(rq->tid, address, rq->times, sizeof(rq->times));
}

static int run_times(const struct request *rq)
{
	/* Not by the libc, which answers some values by itself. */
	return result(
		syscall(SYS_utimensat, rq->object, "", rq->now ? NULL : rq->times, AT_EMPTY_PATH));
}

static int copy_timevals(struct request *rq)
{
	uint64_t address = rq->own[0];
	int64_t words[4];
	int r;

	rq->now = !address;
	r = rq->now ? 0 : target_read(rq->tid, address, words, sizeof(words));
	if (r < 0 || rq->now)
		return r;
	for (size_t i = 0; i < 2; i++) {
		int64_t us = words[2 * i + 1];

		if (us < 0 || us > 999999)
			return -EINVAL;
		rq->times[i] =
			(struct timespec){ .tv_sec = words[2 * i], .tv_nsec = (long)us * 1000 };
	}
	return 0;
}

static int copy_seconds(struct request *rq)
{
	uint64_t address = rq->own[0];
	int64_t words[2];
	int r;

	rq->now = !address;
	r = rq->now ? 0 : target_read(rq->tid, address, words, sizeof(words));
	if (r < 0 || rq->now)
		return r;
	for (int i = 0; i < 2; i++)
		rq->times[i] = (struct timespec){ .tv_sec = words[i] };
	return 0;
}

static int copy_name(struct request *rq, uint64_t address)
{
	static const char *const open_names[] = { "system.posix_acl_access",
						  "system.posix_acl_default" };
	int r = target_string(rq->tid, address, rq->name, sizeof(rq->name));

	if (r == -ENAMETOOLONG || (r == 0 && rq->name[0] == '\0'))
		return -ERANGE;
	if (r < 0 || str_starts(rq->name, "user."))
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(open_names); i++)
		if (str_equal(rq->name, open_names[i]))
			return 0;
	return -EPERM;
}

static int copy_value(struct request *rq, uint64_t address, uint64_t len, uint32_t flags)
{
	static char value[XATTR_VALUE_SIZE];

	if (len > sizeof(value))
		return -E2BIG;
	rq->value = value;
	rq->value_len = (size_t)len;
	rq->value_flags = (int)flags;
	return target_read(rq->tid, address, value, (size_t)len);
}

static int copy_xattr(struct request *rq)
{
	int r = copy_name(rq, rq->own[0]);

	return r < 0 ? r : copy_value(rq, rq->own[1], rq->own[2], (uint32_t)rq->own[3]);
}

static int copy_xattrat(struct request *rq)
{
	struct {
		uint64_t value;
		uint32_t size, flags;
	} how;
	int r;

	if (rq->own[2] != sizeof(how))
		return rq->own[2] < sizeof(how) ? -EINVAL : -E2BIG;
	r = copy_name(rq, rq->own[0]);
	r = r < 0 ? r : target_read(rq->tid, rq->own[1], &how, sizeof(how));
	return r < 0 ? r : copy_value(rq, how.value, how.size, how.flags);
}

static int run_setxattr(const struct request *rq)
{
	char link[LINK_SIZE];

	return result(setxattr(own_link(rq->object, link), rq->name, rq->value, rq->value_len,
			       rq->value_flags));
}

static int copy_only_name(struct request *rq)
{
	return copy_name(rq, rq->own[0]);
}

static int run_removexattr(const struct request *rq)
{
	char link[LINK_SIZE];

	return result(removexattr(own_link(rq->object, link), rq->name));
}

static int copy_watch(struct request *rq)
{
	rq->mask = (uint32_t)rq->own[2];
	rq->nofollow = rq->mask & IN_DONT_FOLLOW;
	rq->only_directory = rq->mask & IN_ONLYDIR;
	rq->watcher = target_duplicate(rq->tid, (int)rq->own[0]);
	return rq->watcher == -EPERM ? -EACCES : MIN(rq->watcher, 0);
}

static int run_watch(const struct request *rq)
{
	char link[LINK_SIZE];

	/* The link is ours and must be followed; what it leads to is not followed further. */
	return result(inotify_add_watch(rq->watcher, own_link(rq->object, link),
					rq->mask & ~(uint32_t)IN_DONT_FOLLOW));
}

const struct act act_chmod = { .run = run_chmod, .refusal = -EPERM };
const struct act act_chown = { .run = run_chown, .refusal = -EPERM };
const struct act act_times = { copy_timespecs, run_times, -EPERM, false };
const struct act act_timevals = { copy_timevals, run_times, -EPERM, false };
const struct act act_seconds = { copy_seconds, run_times, -EPERM, false };
const struct act act_setxattr = { copy_xattr, run_setxattr, -EPERM, false };
const struct act act_setxattrat = { copy_xattrat, run_setxattr, -EPERM, false };
const struct act act_removexattr = { copy_only_name, run_removexattr, -EPERM, false };
const struct act act_watch = { copy_watch, run_watch, -EACCES, true };
