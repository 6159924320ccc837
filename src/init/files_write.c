/*
 * files_write.c - WRITE: a file, from a pipe or from DATA
 *
 * The bytes go into a new file beside the old one, which takes its name when all are there: nobody
 * ever reads half a file, and a call that fails, is cancelled or meets a full disk leaves nothing
 * behind. Where that would change more than the content, the file is written in place: other names
 * of it (hard links), another owner, something mounted on it, a directory that nothing can be made
 * in. What is appended goes in place too, and is taken back when the call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <linux/stat.h>
#include <unistd.h>

#include "init/files_internal.h"

#define PIPE_SIZE   (1 * MIB)
#define NS_PER_S    1000000000
#define SET_ID_BITS (S_ISUID | S_ISGID)

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

struct output {
	struct task *task;
	struct place place;
	bool is_there;
	bool in_place;
	bool is_roots; /* the user may not write to it, and root may */
	int old;       /* open for writing where it is there; else, or when it runs, -EBADF */
	struct stat st;
	struct fresh fresh;
	struct sink sink;
	uint64_t begin; /* of what is appended */
};

static void output_done(struct output *o)
{
	fresh_done(&o->fresh);
	o->old = fd_close(o->old);
	place_done(&o->place);
}

static bool wants(const struct output *o, enum write_flag flag)
{
	return task_flags(o->task) & flag;
}

static int fail(struct output *o, int code)
{
	return task_fail(o->task, code, task_path(o->task));
}

static int fail_kind(struct output *o, mode_t mode)
{
	return task_fail_kind(o->task, mode, task_path(o->task));
}

static int look(const struct place *place, struct stat *ret_st)
{
	return fstatat(place->dir, place->name, ret_st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int open_at(const struct place *place, int flags)
{
	int fd = openat(place->dir, place->name, flags);

	return fd < 0 ? -errno : fd;
}

/* Opening the old file is how its permission is asked for, also when another takes its name. */
static int open_old(struct output *o)
{
	int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC;

	int r = AS_EITHER(o->task, look(&o->place, &o->st));

	if (r < 0)
		return r == -ENOENT ? 0 : fail(o, r);
	if (wants(o, WRITE_EXCLUSIVE))
		return fail(o, -EEXIST);
	if (!S_ISREG(o->st.st_mode))
		return fail_kind(o, o->st.st_mode);
	o->is_there = true;
	flags |= wants(o, WRITE_APPEND) ? O_APPEND : 0;
	o->old = open_at(&o->place, flags);
	if (o->old == -EACCES || o->old == -EPERM) {
		o->is_roots = o->task->is_lent;
		o->old = AS_EITHER(o->task, open_at(&o->place, flags));
	}
	if (o->old < 0)
		return o->old == -ETXTBSY && !wants(o, WRITE_APPEND) ? 0 : fail(o, o->old);
	if (fstat(o->old, &o->st) < 0)
		return fail(o, -errno);
	return S_ISREG(o->st.st_mode) ? 0 : fail_kind(o, o->st.st_mode);
}

static bool is_mounted(int fd)
{
	struct statx stx;

	return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0u, &stx) == 0 &&
	       (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* Whether the new file can be to others what the old one is: same owner, same attributes. */
static bool is_alike(const struct output *o)
{
	struct stat st;

	return fstat(o->fresh.fd, &st) == 0 && st.st_uid == o->st.st_uid &&
	       st.st_gid == o->st.st_gid && files_copy_attributes(o->old, o->fresh.fd) == 0;
}

static int begin_in_place(struct output *o)
{
	o->in_place = true;
	o->sink = (struct sink){ .fd = o->old, .appends = wants(o, WRITE_APPEND) };
	if (o->sink.appends)
		o->begin = o->sink.at = (uint64_t)o->st.st_size;
	else if (ftruncate(o->old, 0) < 0)
		return fail(o, -errno);
	return 0;
}

static int begin_beside(struct output *o)
{
	int r = fresh_make(o->task, &o->place, &o->fresh);

	if (r < 0)
		return r;
	/* What only root could write to becomes the user's. */
	if (o->old >= 0 && !o->is_roots && !is_alike(o)) {
		fresh_done(&o->fresh);
		return -EPERM;
	}
	o->sink = (struct sink){ .fd = o->fresh.fd };
	return 0;
}

/* Early, so that nobody copies for minutes in vain. What a file that is written in place has now is
 * given back first. */
static int check_space(struct output *o)
{
	uint64_t size = message_number(&o->task->call, FIELD_SIZE, 0), room;
	int fd = o->fresh.fd < 0 ? o->old : o->fresh.fd;
	struct statvfs fs;

	if (size == 0 || fstatvfs(fd, &fs) < 0 || fs.f_blocks == 0)
		return 0;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (o->fresh.fd < 0 && !wants(o, WRITE_APPEND))
		room += (uint64_t)o->st.st_blocks * 512;
	return size > room ? fail(o, -ENOSPC) : 0;
}

static int begin(struct output *o)
{
	bool stays =
		o->old >= 0 && (wants(o, WRITE_APPEND) || o->st.st_nlink > 1 || is_mounted(o->old));
	int r = stays ? 1 : begin_beside(o);

	if (r < 0 && o->old >= 0 && (r == -EACCES || r == -EPERM || r == -EROFS))
		r = 1;
	if (r < 0)
		return fail(o, r);
	if (check_space(o) < 0)
		return -ENOSPC;
	return r == 1 ? begin_in_place(o) : 0;
}

static int put(struct output *o, const void *data, size_t len)
{
	int r = sink_put(&o->sink, data, len);

	if (r < 0)
		return fail(o, r);
	o->task->moved += len;
	return 0;
}

static int fill_from_pipe(struct output *o, int in)
{
	_cleanup_free_ char *data = malloc(FILES_BUFFER);
	int r = data ? 1 : fail(o, -ENOMEM);

	(void)!fcntl(in, F_SETPIPE_SZ, (int)PIPE_SIZE);
	task_tick(true);
	while (r > 0) {
		ssize_t n;

		r = task_wait(o->task, in, POLLIN, -1);
		if (r < 0)
			break;
		n = read(in, data, FILES_BUFFER);
		if (n == 0)
			r = 0;
		else if (n > 0)
			r = put(o, data, (size_t)n) < 0 ? o->task->err.code : 1;
		else if (errno != EINTR && errno != EAGAIN)
			r = err_errno(&o->task->err, -errno, "the pipe for \"%s\" cannot be read",
				      task_path(o->task));
	}
	task_tick(false);
	return r;
}

/* The sender may have sent so much more; said in lumps. */
static int give_credit(struct output *o, uint64_t *used)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CREDIT, o->task->call.call);

	if (*used < MESSAGE_WINDOW / 4)
		return 0;
	draft_number(&d, FIELD_SIZE, *used);
	*used = 0;
	/* Not task_send(), which lets pass what comes meanwhile; at its end the channel says so. */
	return channel_send(o->task->channel, &d, NULL, 0) == -ENOMEM ? fail(o, -ENOMEM) : 0;
}

static int fill_from_data(struct output *o)
{
	uint64_t used = 0;
	struct message m;
	int r;

	while ((r = task_take(o->task, &m)) > 0) {
		size_t len = 0;
		const void *data =
			m.type == MESSAGE_DATA ? message_bytes(&m, FIELD_DATA, &len) : NULL;
		bool is_end = m.type == MESSAGE_DATA_END;

		r = len > 0 ? put(o, data, len) : 0;
		message_done(&m);
		used += len;
		r = r < 0 || is_end ? r : give_credit(o, &used);
		if (r < 0 || is_end)
			return r;
	}
	return r;
}

/* Who copies what has no size says that it was all. */
static int await_end(struct output *o)
{
	struct message m;
	int r = 1;

	while (r > 0 && !o->task->has_end) {
		r = task_take(o->task, &m);
		if (r > 0)
			message_done(&m);
	}
	return MIN(r, 0);
}

/* A pipe ends when its writer dies, too. Where it was said how much it is, that is not taken for
 * all. */
static int check_whole(struct output *o)
{
	uint64_t size = message_number(&o->task->call, FIELD_SIZE, 0);

	if (o->task->moved >= size)
		return 0;
	return err_set(&o->task->err, -EPIPE, "\"%s\": only %llu of %llu bytes came",
		       task_path(o->task), (unsigned long long)o->task->moved,
		       (unsigned long long)size);
}

static mode_t own_mask(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return mask;
}

static int set_mode(struct output *o)
{
	bool is_given = message_has(&o->task->call, FIELD_MODE);
	mode_t mode = (mode_t)message_number(&o->task->call, FIELD_MODE, 0) & 07777;

	if (o->is_there && !(is_given && wants(o, WRITE_MODE))) {
		if (o->in_place)
			return 0;
		/* As when it is written to by whoever is not root. */
		mode = o->st.st_mode & 07777 & ~(mode_t)SET_ID_BITS;
	} else if (!is_given) {
		mode = 0666 & ~own_mask();
	}
	return fchmod(o->sink.fd, mode) < 0 ? fail(o, -errno) : 0;
}

static int set_time(struct output *o)
{
	uint64_t ns = message_number(&o->task->call, FIELD_MODIFIED, 0);
	struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
				    { .tv_sec = (time_t)(ns / NS_PER_S),
				      .tv_nsec = (long)(ns % NS_PER_S) } };

	if (!message_has(&o->task->call, FIELD_MODIFIED))
		return 0;
	return futimens(o->sink.fd, times) < 0 ? fail(o, -errno) : 0;
}

static int finish(struct output *o)
{
	int r = check_whole(o);

	if (r == 0) {
		r = sink_finish(&o->sink);
		r = r < 0 ? fail(o, r) : 0;
	}
	r = r < 0 ? r : set_mode(o);
	r = r < 0 ? r : files_replace_attributes(o->task, o->sink.fd);
	r = r < 0 ? r : set_time(o);
	/* The last moment at which it can still be taken back. */
	r = r < 0 ? r : task_look(o->task);
	if (r < 0 || o->in_place)
		return r;
	r = fresh_keep(&o->fresh, wants(o, WRITE_EXCLUSIVE));
	return r < 0 ? fail(o, r) : 0;
}

int files_write(struct task *t)
{
	int in = task_descriptor(t);
	_cleanup_(output_done) struct output o = {
		.task = t, .place = PLACE_NONE, .old = -EBADF, .fresh = FRESH_NONE
	};
	int r = wants(&o, WRITE_PARENTS) ? files_make_parents(t, task_path(t)) : 0;

	r = r < 0 ? r
		  : AS_EITHER(t, place_find(task_path(t), !wants(&o, WRITE_EXCLUSIVE), &o.place));
	if (r < 0)
		return fail(&o, r);
	r = open_old(&o);
	r = r < 0 ? r : begin(&o);
	if (r < 0)
		return r;
	r = in < 0 ? fill_from_data(&o) : fill_from_pipe(&o, in);
	if (r >= 0 && in >= 0 && wants(&o, WRITE_ENDED))
		r = await_end(&o);
	r = r < 0 ? r : finish(&o);
	if (r < 0 && o.in_place && o.sink.appends)
		(void)!ftruncate(o.old, (off_t)o.begin);
	return r;
}
