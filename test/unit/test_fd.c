#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int memory_file(const void *data, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void closing(void **state)
{
	int fd = memory_file("", 0), other;

	(void)state;
	errno = EXDEV;
	assert_int_equal(fd_close(-EBADF), -EBADF);
	assert_int_equal(fd_close(-1), -EBADF);
	assert_int_equal(fd_close(fd), -EBADF);
	assert_int_equal(errno, EXDEV);
	assert_false(is_open(fd));

	{
		_cleanup_close_ int scoped = memory_file("", 0);

		fd = scoped;
	}
	assert_false(is_open(fd));
	{
		_cleanup_close_ int scoped = memory_file("", 0);

		other = take_fd(&scoped);
		assert_int_equal(scoped, -EBADF);
	}
	assert_true(is_open(other));
	fd_close(other);
}

static void reading_to_a_bound(void **state)
{
	static char data[10000];
	_cleanup_(buf_done) struct buf room = BUF(sizeof(data)), tight = BUF(sizeof(data) - 1);
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	fd = memory_file(data, sizeof(data));
	assert_int_equal(fd_read_all(fd, &room), 0);
	assert_int_equal(room.len, sizeof(data));
	assert_memory_equal(room.data, data, sizeof(data));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(fd_read_all(fd, &tight), -EFBIG);
	fd_close(fd);
	assert_int_equal(fd_read_all(-1, &room), -EBADF);
	fd = open("/", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fd_read_all(fd, &room), -EISDIR);
	fd_close(fd);
}

/* More than a pipe holds, while the other side reads slowly: short writes are part of it. */
static void writing_all_of_it(void **state)
{
	static char data[300000];
	_cleanup_(buf_done) struct buf got = BUF(sizeof(data));
	int ends[2], status;
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i % 251);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		_exit(fd_write_all(ends[1], data, sizeof(data)) ? 1 : 0);
	}
	close(ends[1]);
	assert_int_equal(fd_read_all(ends[0], &got), 0);
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(got.len, sizeof(data));
	assert_memory_equal(got.data, data, sizeof(data));

	assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
	assert_int_equal(fd_write_all(-1, "", 0), 0);
}

static void a_closed_pipe_is_an_error(void **state)
{
	int ends[2];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	assert_int_equal(fd_write_all(ends[1], "x", 1), -EPIPE);
	close(ends[1]);
	signal(SIGPIPE, SIG_DFL);
}

static void small_files(void **state)
{
	char folder[] = "/tmp/brig-test-fd-XXXXXX", text[8];
	int dir;

	(void)state;
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	assert_int_equal(file_read_at(dir, "f", text, sizeof(text)), -ENOENT);
	/* What does not exist is not made. */
	assert_int_equal(file_write_at(dir, "f", "x"), -ENOENT);
	close(openat(dir, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(file_read_at(dir, "f", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(file_write_at(dir, "f", "abc\n"), 0);
	assert_int_equal(file_read_at(dir, "f", text, sizeof(text)), 0);
	assert_string_equal(text, "abc");
	assert_int_equal(file_write_at(dir, "f", "ab\n\n"), 0);
	assert_int_equal(file_read_at(dir, "f", text, sizeof(text)), 0);
	assert_string_equal(text, "ab\n");
	assert_int_equal(file_write_at(dir, "f", "0123456789"), 0);
	assert_int_equal(file_read_at(dir, "f", text, sizeof(text)), 0);
	assert_string_equal(text, "0123456");
	assert_int_equal(file_read_at(dir, ".", text, sizeof(text)), -EISDIR);
	assert_int_equal(unlinkat(dir, "f", 0), 0);
	close(dir);
	assert_int_equal(rmdir(folder), 0);
}

static void nonblocking(void **state)
{
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fd_set_nonblock(ends[0], true), 0);
	assert_true(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(read(ends[0], &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fd_set_nonblock(ends[0], false), 0);
	assert_false(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_nonblock(-1, true), -EBADF);
	close(ends[0]);
	close(ends[1]);
}

static int lowest_free(void)
{
	int fd = dup(STDIN_FILENO);

	close(fd);
	return fd;
}

static void passing_descriptors(void **state)
{
	int pair[2], given[2], got[FD_PASS_MAX], word = 7, lowest;
	struct stat a, b;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_receive(pair[1], &word, sizeof(word), got), -EAGAIN);
	given[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	given[1] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fd_send(pair[0], &word, sizeof(word), given, 2), 0);
	assert_int_equal(fd_send(pair[0], &word, sizeof(word), NULL, 0), 0);
	assert_int_equal(fd_send(pair[0], "x", 1, given, 2), 0);
	assert_int_equal(fd_send(pair[0], "x", 1, given, FD_PASS_MAX + 1), -E2BIG);
	word = 0;
	assert_int_equal(fd_receive(pair[1], &word, sizeof(word), got), 0);
	assert_int_equal(word, 7);
	for (int i = 0; i < 2; i++) {
		assert_true(got[i] >= 0 && got[i] != given[i]);
		assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
		assert_int_equal(fstat(given[i], &a), 0);
		assert_int_equal(fstat(got[i], &b), 0);
		assert_true(a.st_rdev == b.st_rdev && a.st_ino == b.st_ino);
		close(got[i]);
	}
	assert_int_equal(got[2], -EBADF);
	assert_int_equal(fd_receive(pair[1], &word, sizeof(word), got), 0);
	assert_int_equal(got[0], -EBADF);
	/* A message of another length is none, and what came with it does not stay open. */
	lowest = lowest_free();
	assert_int_equal(fd_receive(pair[1], &word, sizeof(word), got), -EPIPE);
	assert_int_equal(lowest_free(), lowest);
	close(given[0]);
	close(given[1]);
	close(pair[1]);
	assert_int_equal(fd_send(pair[0], &word, sizeof(word), NULL, 0), -EPIPE);
	close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closing),
		cmocka_unit_test(reading_to_a_bound),
		cmocka_unit_test(writing_all_of_it),
		cmocka_unit_test(a_closed_pipe_is_an_error),
		cmocka_unit_test(small_files),
		cmocka_unit_test(nonblocking),
		cmocka_unit_test(passing_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
