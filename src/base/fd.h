/*
 * fd.h - descriptors: owning, reading and writing them whole
 *
 * A descriptor variable starts at -EBADF and is closed when it goes out of scope. Files that
 * someone else may have written are read once, with a bound.
 */
#ifndef BRIG_BASE_FD_H
#define BRIG_BASE_FD_H

#include <errno.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/macro.h"

/* Closes fd unless it is negative; keeps errno. Always returns -EBADF, so that one can write fd =
 * fd_close(fd). */
int fd_close(int fd);

static inline void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}
#define _cleanup_close_ _cleanup_(fd_closep)

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -EBADF;
	return v;
}

/* Writes all of it, through short writes and EINTR. */
[[nodiscard]] int fd_write_all(int fd, const void *data, size_t len);

/* Reads to the end of the file into buf. More than buf's maximum is -EFBIG. */
[[nodiscard]] int fd_read_all(int fd, struct buf *buf);

/* The whole of a small file below dirfd (AT_FDCWD allowed), without a trailing newline, as a string
 * in text. */
[[nodiscard]] int file_read_at(int dirfd, const char *path, char *text, size_t size);

/* Writes text into an existing file in one write, as cgroup and proc files want it. */
[[nodiscard]] int file_write_at(int dirfd, const char *path, const char *text);

/* Closes every descriptor from 3 on but these, which are sorted on the way; negative ones count for
 * nothing. Async-signal-safe. */
void fd_close_others(int *keep, size_t count);

[[nodiscard]] int fd_set_nonblock(int fd, int on);

/* As many open descriptors as this process may have at all. */
void fd_raise_limit(void);
/* As many as before, for what is started now: a program counts on the usual number. */
void fd_lower_limit(void);

#define FD_PASS_MAX 8

/* One message over a UNIX socket, with descriptors. Waits only if the socket does. */
[[nodiscard]] int fd_send(int socket, const void *data, size_t len, const int *descriptors,
			  size_t count);

/* One message of exactly len bytes, without waiting; another length is -EPIPE. Room for
 * FD_PASS_MAX descriptors: those that came, closed at the next execve, and then -EBADF. */
[[nodiscard]] int fd_receive(int socket, void *data, size_t len,
			     int ret_descriptors[static FD_PASS_MAX]);

#endif
