/*
 * start.c - from a START to a process: whose it is, and its descriptors
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "init/process.h"
#include "init/starting.h"

/* Words for a list of processes: a few of them, each with its NUL. */
static int keep_arguments(struct process *p, char **argv)
{
	_cleanup_(buf_done) struct buf words = BUF((size_t)2 * ARGUMENTS_SHOWN);

	for (size_t i = 0; argv[i] && words.len < ARGUMENTS_SHOWN; i++) {
		buf_add(&words, argv[i], MIN(strlen(argv[i]), ARGUMENTS_SHOWN - words.len));
		buf_add(&words, "", 1);
	}
	if (buf_failed(&words) < 0)
		return buf_failed(&words);
	p->arguments_len = words.len;
	p->arguments = buf_take(&words);
	return p->arguments ? 0 : -ENOMEM;
}

/* The terminal's descriptors: where each end goes depends on who speaks with the process. */
static int plan_terminal(struct process *p, struct message *m, struct starting *s, struct err *err)
{
	_cleanup_close_ int master = -EBADF;
	int slave, r;

	if (m->descriptor_count == 1) {
		slave = m->descriptors[0];
		if (!isatty(slave))
			return err_set(err, -ENOTTY, "the descriptor is no terminal");
	} else {
		r = starting_make_terminal(s, m, &master, err);
		if (r < 0)
			return r;
		slave = s->to_close[0];
	}
	s->spawn.has_terminal = true;
	for (int i = 0; i < 3; i++)
		s->spawn.stdio[i] = slave;
	p->terminal = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	if (p->terminal < 0)
		return err_errno(err, -errno, "cannot keep the terminal");
	if (master >= 0 && !p->init->channel.passes)
		p->flags |= START_KEPT;
	if (!(p->flags & START_KEPT)) {
		if (master >= 0)
			(void)!fd_set_nonblock(master, 0);
		p->master = take_fd(&master);
		return 0;
	}
	p->input.fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
	p->streams[0].from.fd = take_fd(&master);
	return p->input.fd < 0 ? err_errno(err, -errno, "cannot keep the terminal") : 0;
}

/* One pipe: our end does not block. It belongs to the user, who may want to open /dev/stdout. */
static int make_pipe(const struct spawn *spawn, int *ours, int *theirs, bool is_input,
		     struct err *err)
{
	int pair[2], r;

	user_act_as(&spawn->user, spawn->rights.has_users);
	r = pipe2(pair, O_CLOEXEC) < 0 ? -errno : 0;
	user_act_as(NULL, spawn->rights.has_users);
	if (r < 0)
		return err_errno(err, r, "cannot make a pipe");
	*ours = pair[is_input];
	*theirs = pair[!is_input];
	return fd_set_nonblock(*ours, 1);
}

static int plan_kept(struct process *p, struct starting *s, struct err *err)
{
	int *ends = s->to_close;
	int r = 0;

	if (p->flags & START_INPUT)
		r = make_pipe(&s->spawn, &p->input.fd, &ends[0], true, err);
	else
		ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (r == 0 && ends[0] < 0)
		r = err_errno(err, -errno, "cannot open /dev/null");
	for (int i = 0; i < 2 && r == 0; i++)
		r = make_pipe(&s->spawn, &p->streams[i].from.fd, &ends[1 + i], false, err);
	memcpy(s->spawn.stdio, ends, sizeof(s->spawn.stdio));
	return r;
}

static int plan_descriptors(struct process *p, struct message *m, struct starting *s,
			    struct err *err)
{
	bool is_terminal = p->flags & START_TERMINAL, is_kept = p->flags & START_KEPT;
	size_t for_reader = p->flags & START_READ ? 2 : 0;

	if (p->flags & START_READ && !is_kept)
		return err_set(err, -EINVAL, "only output that is kept can be read");
	if (is_kept && (m->descriptor_count == 0 || m->descriptor_count == for_reader))
		return is_terminal ? plan_terminal(p, m, s, err) : plan_kept(p, s, err);
	if (m->descriptor_count == 3 && !is_terminal && !is_kept) {
		memcpy(s->spawn.stdio, m->descriptors, sizeof(s->spawn.stdio));
		return 0;
	}
	if (is_terminal && !is_kept && m->descriptor_count <= 1)
		return plan_terminal(p, m, s, err);
	return err_set(err, -EINVAL,
		       "a process has three descriptors, or a terminal, or its output is kept");
}

/* It goes on: only the call is forgotten, and who read by it is gone. */
static void leave(struct init *init, struct call *call)
{
	struct process *p = container_of(call, struct process, call);

	call_close(init, call);
	if (p->first)
		reader_free(p->first);
}

static void receive(struct init *init, struct call *call, struct message *m)
{
	struct process *p = container_of(call, struct process, call);

	(void)init;
	if (p->first && m->type == MESSAGE_CREDIT)
		reader_credit(p->first, m);
}

static const struct call_kind start_call = { .receive = receive, .cancel = leave };

static int keep_label(struct process *p, const struct message *m)
{
	const char *label = message_text(m, FIELD_LABEL, NULL);

	if (!label)
		return 0;
	p->label = strndup(label, LABEL_MAX - 1);
	return p->label ? 0 : -ENOMEM;
}

static int prepare(struct process *p, struct message *m, struct starting *s, struct err *err)
{
	int r = starting_read(s, m, NULL, err);

	if (r < 0)
		return r;
	r = keep_arguments(p, s->spawn.argv);
	r = r < 0 ? r : keep_label(p, m);
	if (r < 0)
		return err_set(err, r, "out of memory");
	memcpy(p->user, s->spawn.user.name, sizeof(p->user));
	r = plan_descriptors(p, m, s, err);
	return r < 0 || !(p->flags & START_READ) ? r : reader_start(p, m, err);
}

static int go(struct process *p, struct message *m, struct starting *s, struct err *err)
{
	int r = prepare(p, m, s, err);
	pid_t pid;

	if (r < 0)
		return r;
	if (s->spawn.has_terminal) {
		pid = leader_start(&s->spawn, &p->reports.fd, err);
		if (pid < 0)
			return pid;
		p->leader = pid;
		r = source_watch(p->init, &p->reports, EPOLLIN);
		return r < 0 ? err_errno(err, r, "cannot wait for the terminal") : 0;
	}
	pid = spawn(&s->spawn, err);
	if (pid < 0)
		return pid;
	p->pid = pid;
	process_started(p);
	return 0;
}

void process_start(struct init *init, struct message *m)
{
	_cleanup_(starting_done) struct starting s = STARTING(init);
	struct process *p = NULL;
	struct err err = ERR_NONE;

	if (init_has_room(&err) == 0)
		p = process_new(init, &err);
	if (!p) {
		answer_err(init, m->call, &err);
		return;
	}
	p->flags = (unsigned int)message_number(m, FIELD_FLAGS, 0);
	if (message_has(m, FIELD_LEFT))
		process_set_deadline(p, message_number(m, FIELD_LEFT, 0));
	call_open(init, &p->call, m->call, &start_call);
	if (go(p, m, &s, &err) < 0) {
		answer_err(init, m->call, &err);
		process_free(p);
	}
}
