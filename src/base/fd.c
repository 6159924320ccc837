#include "base/fd.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"

int fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return -EBADF;
}

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, struct buf *buf)
{
	char block[4096];

	for (;;) {
		ssize_t n = read(fd, block, sizeof(block));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		r = buf_add(buf, block, (size_t)n);
		if (r < 0)
			return r == -ENOSPC ? -EFBIG : r;
	}
}

int file_read_at(int dirfd, const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t n = read(fd, text + len, size - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len > 0 && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return 0;
}

int file_write_at(int dirfd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int fd_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

void fd_close_others(int *keep, size_t count)
{
	unsigned int from = 3;

	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k > 0 && keep[k - 1] > keep[k]; k--) {
			int swap = keep[k];

			keep[k] = keep[k - 1];
			keep[k - 1] = swap;
		}
	for (size_t i = 0; i < count; i++) {
		if (keep[i] < 3)
			continue;
		if ((unsigned int)keep[i] > from)
			(void)!sys_close_range(from, (unsigned int)keep[i] - 1, 0);
		from = (unsigned int)keep[i] + 1;
	}
	(void)!sys_close_range(from, ~0u, 0);
}

/* Room for descriptors, aligned as the kernel wants it. */
union passed {
	struct cmsghdr header;
	char room[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

int fd_send(int socket, const void *data, size_t len, const int *descriptors, size_t count)
{
	union passed passed = { .room = { 0 } };
	struct iovec part = { (void *)(uintptr_t)data, len };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (count > FD_PASS_MAX)
		return -E2BIG;
	if (count > 0) {
		message.msg_control = passed.room;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		passed.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&passed.header), descriptors, count * sizeof(int));
	}
	do
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int fd_receive(int socket, void *data, size_t len, int ret_descriptors[static FD_PASS_MAX])
{
	union passed passed = { .room = { 0 } };
	struct iovec part = { data, len };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = passed.room,
				  .msg_controllen = sizeof(passed.room) };
	int descriptors[FD_PASS_MAX];
	const struct cmsghdr *header;
	size_t count = 0;
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len > CMSG_LEN(0))
		count = MIN((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)FD_PASS_MAX);
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		descriptors[i] = -EBADF;
	if (count > 0)
		memcpy(descriptors, CMSG_DATA(header), count * sizeof(int));
	if ((size_t)n != len) {
		for (size_t i = 0; i < count; i++)
			close(descriptors[i]);
		return -EPIPE;
	}
	memcpy(ret_descriptors, descriptors, sizeof(descriptors));
	return 0;
}

/* What it was before it was raised first; 0: it was not. */
static rlim_t usual_limit;

void fd_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (!usual_limit)
		usual_limit = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	(void)!setrlimit(RLIMIT_NOFILE, &limit);
}

void fd_lower_limit(void)
{
	struct rlimit limit;

	if (!usual_limit || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = usual_limit;
	(void)!setrlimit(RLIMIT_NOFILE, &limit);
}
