/*
 * runner.c - brig itself, run by the daemon for what needs a process of its own
 *
 * Copies, images and whatever else reads and writes files for long is not done in the loop. At most so
 * many run at once; others wait for their turn. A run is over when its process is, whoever else still
 * has an end of its pipes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "serve/fleet_internal.h"

#define RUNNING_MAX 32
#define WAITING_MAX 4096
#define OUTPUT_MAX  (1 * MIB)
#define READ_SIZE   (16 * KIB)
#define READS_MAX   8 /* of one pipe in one go */

enum { OUT, ERR, STREAMS };

struct run {
	struct fleet *fleet;
	struct run *next;
	uint64_t number;
	struct strv words;
	fleet_ran ran; /* NULL: nobody wants to know any more */
	void *of;
	bool is_helper;
	pid_t pid; /* 0: it waits for its turn */
	int pidfd;
	loop_id end;
	struct stream {
		struct run *run;
		int fd;
		loop_id watch;
		struct buf text; /* what goes beyond is dropped */
	} streams[STREAMS];
};

int runner_find_brig(const char *given, char **ret_path, struct err *err)
{
	static const char *const places[] = { "brig", "../../bin/brig" };
	char self[PATH_MAX], path[PATH_MAX + 32], *slash;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places) && slash && !given; i++) {
		snprintf(path, sizeof(path), "%s%s", self, places[i]);
		if (access(path, X_OK) == 0)
			given = path;
	}
	if (!given || access(given, X_OK) < 0)
		return err_set(err, -ENOENT, "there is no program \"brig\" beside this one, in %s",
			       self);
	*ret_path = strdup(given);
	return *ret_path ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static void stream_close(struct stream *stream)
{
	stream->watch = loop_forget(stream->run->fleet->loop, stream->watch);
	stream->fd = fd_close(stream->fd);
}

static void run_free(struct run *run)
{
	run->end = loop_forget(run->fleet->loop, run->end);
	for (size_t i = 0; i < STREAMS; i++) {
		stream_close(&run->streams[i]);
		buf_done(&run->streams[i].text);
	}
	fd_close(run->pidfd);
	strv_done(&run->words);
	free(run);
}

static void stream_ready(void *of, uint32_t events)
{
	struct stream *stream = of;
	char bytes[READ_SIZE];

	(void)events;
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t n = read(stream->fd, bytes, sizeof(bytes));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			stream_close(stream);
			return;
		}
		if (stream->text.len < OUTPUT_MAX)
			buf_add(&stream->text, bytes,
				MIN((size_t)n, OUTPUT_MAX - stream->text.len));
	}
}

/* Without "brig: " in front and the newline behind. */
static const char *complaint(struct buf *text)
{
	const char *words = buf_text(text);

	while (text->len > 0 && text->data[text->len - 1] == '\n')
		text->data[--text->len] = '\0';
	return str_starts(words, "brig: ") ? words + strlen("brig: ") : words;
}

static void start_waiting(struct fleet *fleet);

static void run_ended(void *of, uint32_t events)
{
	struct run *run = of, **at;
	struct fleet *fleet = run->fleet;
	struct fleet_output output = { 0 };

	(void)events;
	for (size_t i = 0; i < STREAMS; i++)
		while (run->streams[i].fd >= 0 && run->streams[i].text.len < OUTPUT_MAX) {
			size_t before = run->streams[i].text.len;

			stream_ready(&run->streams[i], 0);
			if (run->streams[i].text.len == before)
				break;
		}
	(void)!waitpid(run->pid, &output.status, 0);
	for (at = &fleet->runs.first; *at != run; at = &(*at)->next)
		;
	*at = run->next;
	fleet->runs.running -= !run->is_helper;
	output.out = buf_text(&run->streams[OUT].text);
	output.out_len = run->streams[OUT].text.len;
	output.err = complaint(&run->streams[ERR].text);
	if (run->ran)
		run->ran(run->of, &output);
	run_free(run);
	start_waiting(fleet);
}

/*
 * Signals as a program expects them; a session of its own, so that no key at our terminal ends it halfway;
 * nothing open but these: input, output, error and so on, -EBADF for /dev/null. *ret_pid or -errno.
 */
static int spawn(const struct fleet *fleet, char *const words[], const int *open, int count,
		 pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int r = 0;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETSID);
	posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < count && r == 0; i++)
		r = open[i] < 0
			    ? posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0)
			    : posix_spawn_file_actions_adddup2(&actions, open[i], i);
	r = r ?: posix_spawn_file_actions_addclosefrom_np(&actions, count);
	/* A child has the limits that we have at this moment. */
	fd_lower_limit();
	r = r ?: posix_spawn(ret_pid, fleet->brig, &actions, &attributes, words, environ);
	fd_raise_limit();
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

/* Ours does not wait; theirs is a program's standard output, which does. */
static int stream_open(struct stream *stream, int *ret_theirs)
{
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	stream->fd = pair[0];
	*ret_theirs = pair[1];
	r = fd_set_nonblock(stream->fd, 1);
	return r < 0 ? r
		     : loop_watch(stream->run->fleet->loop, stream->fd, EPOLLIN, stream_ready,
				  stream, &stream->watch);
}

static int run_watch(struct run *run)
{
	int r;

	/* Nobody has waited for it, so the number is still its own. */
	run->pidfd = sys_pidfd_open(run->pid);
	r = run->pidfd < 0
		    ? run->pidfd
		    : loop_watch(run->fleet->loop, run->pidfd, EPOLLIN, run_ended, run, &run->end);
	if (r < 0) {
		/* What cannot be waited for must not be there. */
		kill(run->pid, SIGKILL);
		(void)!waitpid(run->pid, NULL, 0);
		return r;
	}
	run->next = run->fleet->runs.first;
	run->fleet->runs.first = run;
	return 0;
}

static int run_start(struct run *run)
{
	_cleanup_close_ int out = -EBADF, err = -EBADF;
	int r = stream_open(&run->streams[OUT], &out);

	r = r < 0 ? r : stream_open(&run->streams[ERR], &err);
	r = r < 0 ? r
		  : spawn(run->fleet, run->words.items, (int[]){ -EBADF, out, err }, 3, &run->pid);
	r = r < 0 ? r : run_watch(run);
	if (r == 0)
		run->fleet->runs.running++;
	return r;
}

static void tell_failure(struct run *run, int code)
{
	struct fleet_output output = { .status = 125 << 8, .out = "" };
	char text[128];

	snprintf(text, sizeof(text), "cannot start brig: %s", strerror(-code));
	output.err = text;
	if (run->ran)
		run->ran(run->of, &output);
}

static void start_waiting(struct fleet *fleet)
{
	struct runs *runs = &fleet->runs;

	while (runs->waiting && runs->running < RUNNING_MAX) {
		struct run *run = runs->waiting;
		int r;

		runs->waiting = run->next;
		if (!runs->waiting)
			runs->last_waiting = NULL;
		runs->waiting_count--;
		r = run_start(run);
		if (r < 0) {
			tell_failure(run, r);
			run_free(run);
		}
	}
}

static struct run *run_new(struct fleet *fleet, char *const words[])
{
	struct run *run = calloc(1, sizeof(*run));
	int r = 0;

	if (!run)
		return NULL;
	run->fleet = fleet;
	run->pidfd = -EBADF;
	for (size_t i = 0; i < STREAMS; i++)
		run->streams[i] =
			(struct stream){ .run = run, .fd = -EBADF, .text = BUF(OUTPUT_MAX) };
	r = strv_add(&run->words, "brig");
	for (size_t i = 0; words[i] && r == 0; i++)
		r = strv_add(&run->words, words[i]);
	if (r < 0) {
		run_free(run);
		return NULL;
	}
	return run;
}

static int run_wait(struct run *run)
{
	struct runs *runs = &run->fleet->runs;

	if (runs->waiting_count == WAITING_MAX)
		return -EAGAIN;
	if (runs->last_waiting)
		*runs->last_waiting = run;
	else
		runs->waiting = run;
	runs->last_waiting = &run->next;
	runs->waiting_count++;
	return 0;
}

int fleet_run(struct fleet *fleet, char *const words[], fleet_ran ran, void *of, uint64_t *ret_run,
	      struct err *err)
{
	struct run *run = run_new(fleet, words);
	int r;

	if (!run)
		return err_set(err, -ENOMEM, "out of memory");
	run->ran = ran;
	run->of = of;
	run->number = ++fleet->runs.last;
	r = fleet->runs.running < RUNNING_MAX ? run_start(run) : run_wait(run);
	if (r < 0) {
		run_free(run);
		return err_errno(err, r, "cannot start brig");
	}
	if (ret_run)
		*ret_run = run->number;
	return 0;
}

/* Its end is waited for as that of any other, but it takes nobody's turn. */
int runner_start_helper(struct fleet *fleet, char *const words[], int socket)
{
	_cleanup_close_ int high = fcntl(socket, F_DUPFD_CLOEXEC, 4);
	struct run *run = high < 0 ? NULL : run_new(fleet, words);
	int r = high < 0 ? -errno : run ? 0 : -ENOMEM;

	if (r == 0 && run) {
		run->is_helper = true;
		r = spawn(fleet, run->words.items, (int[]){ -EBADF, -EBADF, 2, high }, 4,
			  &run->pid);
		r = r < 0 ? r : run_watch(run);
		if (r < 0)
			run_free(run);
	}
	return r;
}

uint64_t fleet_forget_run(struct fleet *fleet, uint64_t number)
{
	struct run *const lists[] = { fleet->runs.first, fleet->runs.waiting };

	for (size_t i = 0; i < ARRAY_SIZE(lists) && number; i++)
		for (struct run *run = lists[i]; run; run = run->next)
			if (run->number == number)
				run->ran = NULL;
	return 0;
}

/* What runs is nobody's child then, and goes on to its end. */
void runner_done(struct fleet *fleet)
{
	struct run *const lists[] = { fleet->runs.first, fleet->runs.waiting };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (struct run *run = lists[i], *next; run; run = next) {
			next = run->next;
			run_free(run);
		}
	fleet->runs = (struct runs){ 0 };
}
