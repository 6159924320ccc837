#include "cli/forge.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/creation.h"
#include "proto/channel.h"

#define JOBS_MAX  64   /* sandboxes that come to be at once, on a machine of any size */
#define QUIET_MS  1000 /* without a request: then it looks after what killed wardens left */
#define SWEEP_MAX 64

/* One request. Its words are the options' values until the warden is forked. */
struct job {
	uint32_t call; /* 0: the place is free */
	int news;
	struct strv words;
	struct creation creation;
	struct buf text;
};

struct forge {
	struct channel daemon;
	struct policy_env env;
	struct job *jobs[JOBS_MAX];
	size_t count;
	size_t most; /* more requests are not read yet */
};

/*
 * No more than the processors have work with: it would be no faster, and every warden begins as a copy of us, with the memory
 * that the largest crowd has left behind.
 */
static size_t most_jobs(void)
{
	long wanted = 2 * sysconf(_SC_NPROCESSORS_ONLN) + 2;

	wanted = MAX(wanted, 4L);
	return (size_t)MIN(wanted, (long)JOBS_MAX);
}

static void job_free(struct forge *forge, size_t place)
{
	struct job *job = forge->jobs[place];

	fd_close(job->news);
	creation_done(&job->creation);
	strv_done(&job->words);
	buf_done(&job->text);
	free(job);
	forge->jobs[place] = NULL;
	forge->count--;
}

static void answer_made(struct forge *forge, const struct job *job)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_FORGED, job->call);

	draft_text(&d, FIELD_TEXT, buf_text(&job->text));
	(void)!channel_send(&forge->daemon, &d, NULL, 0);
}

static void answer_failed(struct forge *forge, const struct job *job, const struct err *err)
{
	channel_answer_error(&forge->daemon, job->call, err->code ? err->code : -EIO, "%s",
			     err->text);
}

/*
 * The kernel clears up after wardens, as nobody waits for them. What asks the host something by children of
 * its own does wait for those: meanwhile it is as everywhere, and who ended in between is waited for here.
 */
static void wait_for_children(bool is_on)
{
	signal(SIGCHLD, is_on ? SIG_DFL : SIG_IGN);
	while (!is_on && waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static int read_words(struct job *job, const struct message *m)
{
	const char *word;
	size_t at = 0;
	int r = strv_add(&job->words, "create");

	while (r == 0 && (word = message_next_text(m, FIELD_ARGUMENT, &at)))
		r = strv_add(&job->words, word);
	return r;
}

static int begin(struct forge *forge, struct job *job, const struct message *m, struct err *err)
{
	int r = read_words(job, m);

	if (r < 0)
		return err_set(err, r, "out of memory");
	r = creation_read(&job->creation, (int)job->words.count, job->words.items, err);
	if (r == 0 && (job->creation.help || job->creation.schema))
		r = err_set(err, -EINVAL, "create: nothing is made with --help or --schema");
	wait_for_children(true);
	r = r < 0 ? r : creation_load(&job->creation, &forge->env, err);
	wait_for_children(false);
	if (r < 0)
		return err->code ? r : err_errno(err, r, "create");
	r = creation_start(&job->creation, &job->news);
	return r < 0 ? err_errno(err, r, "cannot start a warden") : 0;
}

static void take_request(struct forge *forge, const struct message *m)
{
	struct job *job = calloc(1, sizeof(*job));
	struct err err = ERR_NONE;
	size_t place = 0;

	if (!job) {
		channel_answer_error(&forge->daemon, m->call, -ENOMEM, "out of memory");
		return;
	}
	while (forge->jobs[place])
		place++;
	*job = (struct job){ .call = m->call, .news = -EBADF, .text = BUF(CREATION_NEWS_MAX) };
	forge->jobs[place] = job;
	forge->count++;
	if (begin(forge, job, m, &err) < 0) {
		answer_failed(forge, job, &err);
		job_free(forge, place);
	}
}

/* The warden has told all that it had to tell. */
static void finish(struct forge *forge, size_t place)
{
	struct job *job = forge->jobs[place];
	struct err err = ERR_NONE;
	int r;

	wait_for_children(true);
	r = creation_judge(&job->creation, &job->text, &err);
	wait_for_children(false);
	if (r == -EAGAIN && !err.code) {
		job->news = fd_close(job->news);
		buf_reset(&job->text);
		r = creation_start(&job->creation, &job->news);
		if (r == 0)
			return;
		err_errno(&err, r, "cannot start a warden");
	}
	if (r < 0)
		answer_failed(forge, job, &err);
	else
		answer_made(forge, job);
	job_free(forge, place);
}

static void read_news(struct forge *forge, size_t place)
{
	struct job *job = forge->jobs[place];
	char bytes[16 * KIB];
	ssize_t n = read(job->news, bytes, sizeof(bytes));

	if (n < 0 && errno == EINTR)
		return;
	/* Too much of it is cut off, and not a manifest then. */
	if (n > 0)
		buf_add(&job->text, bytes, (size_t)n);
	else
		finish(forge, place);
}

/* 0, or -errno when the daemon is gone. */
static int read_daemon(struct forge *forge)
{
	struct message m;
	int r = 1;

	while (forge->count < forge->most && (r = channel_receive(&forge->daemon, &m)) > 0) {
		if (m.type == MESSAGE_FORGE)
			take_request(forge, &m);
		message_done(&m);
	}
	return r < 0 ? r : 0;
}

static bool is_full(const struct forge *forge)
{
	return forge->count == forge->most;
}

/* One turn; -errno at the end. */
static int turn(struct forge *forge, bool *is_quiet)
{
	struct pollfd fds[1 + JOBS_MAX] = { { .fd = forge->daemon.fd,
					      .events = channel_events(&forge->daemon) } };
	size_t places[JOBS_MAX], count = 0;
	int n;

	if (is_full(forge))
		fds[0].events &= ~POLLIN;
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (forge->jobs[i]) {
			places[count++] = i;
			fds[count] =
				(struct pollfd){ .fd = forge->jobs[i]->news, .events = POLLIN };
		}
	n = poll(fds, (nfds_t)count + 1, *is_quiet || count > 0 ? -1 : QUIET_MS);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0) {
		roster_sweep(SWEEP_MAX);
		*is_quiet = true;
		return 0;
	}
	*is_quiet = false;
	for (size_t i = 0; i < count; i++)
		if (fds[i + 1].revents)
			read_news(forge, places[i]);
	n = channel_flush(&forge->daemon);
	return n < 0 ? n : is_full(forge) ? 0 : read_daemon(forge);
}

int forge_main(int argc, char **argv)
{
	static struct forge forge;
	struct err err = ERR_NONE;
	bool is_quiet = true;
	int r;

	if (argc != 3 || !str_equal(argv[1], "--socket") || !str_equal(argv[2], "3"))
		return complain_text("forge: is for brig serve, which starts it");
	r = policy_env_here(&forge.env, &err);
	if (r < 0)
		return complain(&err);
	forge.most = most_jobs();
	wait_for_children(false);
	/* A daemon that is gone is seen where it is written to. */
	signal(SIGPIPE, SIG_IGN);
	channel_init(&forge.daemon, 3, FROM_DAEMON, true);
	do
		r = turn(&forge, &is_quiet);
	while (r == 0);
	/* Those that come to be now find nobody to tell, and end (creation.h). */
	return r == -EPIPE ? 0 : EXIT_BRIG;
}
