/*
 * init_files_case.h - a call for a file, as init makes it: a process of its own behind a channel
 *
 * Every test has a folder of its own, which is the working directory too. As root, a call can be
 * made by nobody instead.
 */
#ifndef BRIG_TEST_INIT_FILES_CASE_H
#define BRIG_TEST_INIT_FILES_CASE_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"
#include "base/sys.h"
#include "init/files.h"
#include "init/files_internal.h"

#define NOBODY      65534
#define CALL        7
#define PATIENCE_MS 60000 /* until a test is given up */

struct call {
	pid_t pid;
	struct channel ch;
};

static bool as_nobody;
static bool
	with_root; /* nobody, with root in reserve, as a call with BY_ROOT has it; without capabilities */
static bool is_held; /* the next call begins only with call_release() */
static char base[64];

/* The child receives its call over the channel, as any other message. */
__attribute__((noreturn)) static void serve(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct channel ch;
	struct message m;

	if (as_nobody && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
		_exit(99);
	if (with_root && (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP) < 0 ||
			  setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			  setresuid(NOBODY, NOBODY, 0) < 0 || sys_drop_capabilities(0) < 0))
		_exit(98);
	if (is_held)
		raise(SIGSTOP);
	channel_init(&ch, fd, FROM_WARDEN, true);
	while (channel_receive(&ch, &m) == 0)
		poll(&p, 1, -1);
	files_serve(&m, &ch);
}

/* descriptor: taken; -EBADF for none. */
static void call_begin(struct call *c, struct draft *d, int descriptor)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fflush(NULL);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		/* No end of a pipe but what comes with the call. */
		fd_close_others(&pair[1], 1);
		serve(pair[1]);
	}
	close(pair[1]);
	channel_init(&c->ch, pair[0], FROM_INIT, true);
	assert_int_equal(channel_send(&c->ch, d, &descriptor, descriptor >= 0), 0);
	draft_done(d);
}

static inline void call_release(struct call *c)
{
	int status;

	is_held = false;
	assert_int_equal(waitpid(c->pid, &status, WUNTRACED), c->pid);
	assert_true(WIFSTOPPED(status));
	kill(c->pid, SIGCONT);
}

/* 1 with a message, 0 when nothing comes for that long, or -EPIPE. */
static int call_next_in(struct call *c, struct message *ret_message, int ms)
{
	for (;;) {
		struct pollfd p = { .fd = c->ch.fd, .events = channel_events(&c->ch) };
		int r = channel_receive(&c->ch, ret_message);

		if (r != 0)
			return r;
		if (poll(&p, 1, ms) == 0)
			return 0;
		if (p.revents & POLLOUT)
			(void)!channel_flush(&c->ch);
	}
}

static void call_next(struct call *c, struct message *ret_message)
{
	int r = call_next_in(c, ret_message, PATIENCE_MS);

	if (r != 1)
		fail_msg("no answer: %d (%s)", r, c->ch.why ? c->ch.why : "nothing came");
	assert_int_equal(ret_message->call, CALL);
}

static void call_expect(struct call *c, struct message *m, enum message_type type)
{
	call_next(c, m);
	if (m->type == MESSAGE_ERROR && type != MESSAGE_ERROR)
		fail_msg("an error: %s", message_text(m, FIELD_TEXT, ""));
	assert_string_equal(message_name(m->type), message_name(type));
}

static void call_say(struct call *c, enum message_type type)
{
	_cleanup_(draft_done) struct draft d = DRAFT(type, CALL);

	assert_int_equal(channel_send(&c->ch, &d, NULL, 0), 0);
}

/* The process is gone, by itself. */
static void call_end(struct call *c)
{
	int status;

	channel_done(&c->ch);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_int_equal(status, 0);
}

static uint64_t expect_done(struct call *c)
{
	struct message m;
	uint64_t size;

	call_expect(c, &m, MESSAGE_DONE);
	size = message_number(&m, FIELD_SIZE, 0);
	assert_int_equal(call_next_in(c, &m, PATIENCE_MS), -EPIPE);
	call_end(c);
	return size;
}

/* Skips what was said before. */
static void expect_error(struct call *c, int code, const char *words)
{
	struct message m;

	do
		call_next(c, &m);
	while (m.type == MESSAGE_ENTRY || m.type == MESSAGE_DATA || m.type == MESSAGE_CREDIT ||
	       m.type == MESSAGE_CHANGE_IS);
	assert_string_equal(message_name(m.type), "ERROR");
	if (message_number(&m, FIELD_CODE, 0) != (uint64_t)code ||
	    !strstr(message_text(&m, FIELD_TEXT, ""), words))
		fail_msg("%d %s", (int)message_number(&m, FIELD_CODE, 0),
			 message_text(&m, FIELD_TEXT, ""));
	call_end(c);
}

static struct draft draft_of(enum message_type type, const char *path)
{
	struct draft d = DRAFT(type, CALL);

	draft_text(&d, FIELD_PATH, path);
	return d;
}

/* A whole call that has a path and flags, and an answer. */
static void call_simple(struct call *c, enum message_type type, const char *path, uint64_t flags)
{
	struct draft d = draft_of(type, path);

	if (flags)
		draft_number(&d, FIELD_FLAGS, flags);
	call_begin(c, &d, -EBADF);
}

static inline void make_file(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, len), 0);
	close(fd);
}

static inline void expect_content(const char *path, const void *data, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF(256 * MIB);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_read_all(fd, &b), 0);
	close(fd);
	assert_int_equal(b.len, len);
	if (len > 0)
		assert_memory_equal(b.data, data, len);
}

static inline bool is_there(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Bytes that repeat nowhere near, and have no zero blocks. */
static inline char *make_bytes(size_t len)
{
	char *data = malloc(len);
	uint64_t state = 88172645463325252u;

	assert_non_null(data);
	for (size_t i = 0; i < len; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		data[i] = (char)state;
	}
	return data;
}

static int enter_base(void **state)
{
	(void)state;
	as_nobody = with_root = is_held = false;
	umask(022);
	snprintf(base, sizeof(base), "/tmp/brig-test-files-XXXXXX");
	return !mkdtemp(base) || chmod(base, 0777) < 0 || chdir(base) < 0 ? -1 : 0;
}

/* By the very call that is tested elsewhere. */
static int leave_base(void **state)
{
	struct call c;

	(void)state;
	as_nobody = with_root = false;
	if (chdir("/") < 0)
		return -1;
	call_simple(&c, MESSAGE_REMOVE, base, TREE_RECURSIVE);
	expect_done(&c);
	return is_there(base) ? -1 : 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter_base, leave_base)

#endif
