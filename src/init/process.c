#include "init/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define REAP_MAX 256 /* in one turn */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct process *process_find(struct init *init, const struct message *m)
{
	uint64_t number = message_number(m, FIELD_PROCESS, 0);

	for (size_t i = 0; i < init->process_count; i++)
		if (init->processes[i]->number == number &&
		    init->processes[i]->state != PROCESS_STARTING)
			return init->processes[i];
	if (number > 0 && number <= init->last_number)
		channel_answer_error(&init->channel, m->call, -ESRCH, "process %llu has ended",
				     (unsigned long long)number);
	else
		channel_answer_error(&init->channel, m->call, -ESRCH, "there is no process %llu",
				     (unsigned long long)number);
	return NULL;
}

/* The oldest that has ended and is not being read. */
static bool evict(struct init *init)
{
	for (size_t i = 0; i < init->process_count; i++) {
		struct process *p = init->processes[i];

		if (p->state == PROCESS_ENDED && p->reader_count == 0) {
			process_free(p);
			return true;
		}
	}
	return false;
}

void processes_shrink(struct init *init)
{
	while (init->ring_bytes > RINGS_MANY && evict(init))
		;
}

struct process *process_new(struct init *init, struct err *err)
{
	struct process *p;

	if (init->process_count == PROCESSES_MAX && !evict(init)) {
		err_set(err, -EAGAIN, "%d processes run already: no more can be started",
			PROCESSES_MAX);
		return NULL;
	}
	if (init->process_count == init->process_room) {
		size_t room = init->process_room ? init->process_room * 2 : 8;
		struct process **more = realloc(init->processes, room * sizeof(struct process *));

		if (!more) {
			err_set(err, -ENOMEM, "out of memory");
			return NULL;
		}
		init->processes = more;
		init->process_room = room;
	}
	p = malloc(sizeof(*p));
	if (!p) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	*p = (struct process){ .init = init,
			       .number = ++init->last_number,
			       .since = now_ms(),
			       .reports = SOURCE(process_take_report),
			       .input = SOURCE(input_ready),
			       .pending = BUF(INPUT_MAX),
			       .terminal = -EBADF,
			       .master = -EBADF };
	for (unsigned int i = 0; i < ARRAY_SIZE(p->streams); i++)
		p->streams[i] = (struct stream){ .from = SOURCE(process_take_output),
						 .process = p,
						 .number = i + 1,
						 .left = STREAM_ENDLESS };
	init->processes[init->process_count++] = p;
	return p;
}

void process_free(struct process *p)
{
	struct init *init = p->init;

	for (size_t i = 0; i < init->process_count; i++)
		if (init->processes[i] == p) {
			init->process_count--;
			memmove(&init->processes[i], &init->processes[i + 1],
				(init->process_count - i) * sizeof(struct process *));
			break;
		}
	if (p->first)
		reader_free(p->first);
	call_close(init, &p->call);
	input_close(p);
	process_close_streams(p);
	source_close(init, &p->reports);
	fd_close(p->terminal);
	fd_close(p->master);
	ring_done(&p->ring, &init->ring_bytes);
	free(p->arguments);
	free(p->label);
	free(p);
}

void process_review(struct process *p)
{
	struct init *init = p->init;
	size_t ended = 0;

	if (p->state != PROCESS_ENDED || p->reader_count > 0)
		return;
	if (!(p->flags & START_KEPT)) {
		process_free(p);
		return;
	}
	for (size_t i = 0; i < init->process_count; i++)
		ended += init->processes[i]->state == PROCESS_ENDED;
	while (ended-- > PROCESSES_ENDED && evict(init))
		;
}

void process_tell_end(struct process *p)
{
	struct draft d = DRAFT(MESSAGE_EXITED, p->call.number);

	if (!p->call.kind)
		return;
	draft_number(&d, FIELD_STATUS, (unsigned int)p->status);
	draft_number(&d, FIELD_PROCESS, p->number);
	if (p->dropped > 0)
		draft_number(&d, FIELD_DROPPED, p->dropped);
	answer_send(p->init, &d);
	call_close(p->init, &p->call);
}

static void end(struct process *p, int status)
{
	p->state = PROCESS_ENDED;
	p->status = status;
	p->ended = now_ms();
	p->was_killed |= WIFSIGNALED(status);
	/* Holds it, as a reader that is over would free it. */
	p->reader_count++;
	process_drain(p);
	source_close(p->init, &p->reports);
	p->terminal = fd_close(p->terminal);
	input_close(p);
	if (!p->first)
		process_tell_end(p);
	readers_pump(p);
	p->reader_count--;
	process_review(p);
}

static void fail(struct process *p, const struct err *err)
{
	if (p->call.kind)
		answer_err(p->init, p->call.number, err);
	process_free(p);
}

/* Nobody would have its terminal. */
static void end_unheard(struct process *p)
{
	kill(-p->pid, SIGKILL);
	channel_answer_error(&p->init->channel, p->call.number, -EAGAIN,
			     "the terminal of \"%s\" could not be passed on", p->arguments);
	call_close(p->init, &p->call);
}

void process_started(struct process *p)
{
	struct draft d = DRAFT(MESSAGE_STARTED, p->call.number);
	int r = 0;

	p->state = PROCESS_LIVING;
	process_listen(p);
	draft_number(&d, FIELD_PROCESS, p->number);
	draft_number(&d, FIELD_PID, (uint64_t)p->pid);
	if (p->call.kind)
		r = channel_send(&p->init->channel, &d, &p->master, p->master >= 0 ? 1 : 0);
	draft_done(&d);
	p->master = fd_close(p->master);
	/* Not because the channel is gone: then all is over anyway. */
	if (r == -ENOBUFS || r == -ETOOMANYREFS)
		end_unheard(p);
}

/* A program can stop as often as it likes: what is not read yet is told once, or no end could be told any more. */
static void tell_stop(struct process *p)
{
	struct draft d = DRAFT(MESSAGE_STOPPED, p->call.number);

	if (!p->call.kind || p->init->is_congested)
		return;
	draft_number(&d, FIELD_PROCESS, p->number);
	draft_number(&d, FIELD_SIGNAL, (unsigned int)p->stopped);
	p->stopped = 0;
	answer_send(p->init, &d);
}

void processes_resume(struct init *init)
{
	for (size_t i = 0; i < init->process_count; i++)
		if (init->processes[i]->stopped && init->processes[i]->state == PROCESS_LIVING)
			tell_stop(init->processes[i]);
}

/* Whether p is still there. */
static bool take_report(struct process *p, const struct leader_report *report)
{
	switch (report->news) {
	case LEADER_STARTED:
		p->pid = report->value;
		process_started(p);
		return true;
	case LEADER_STOPPED:
		p->stopped = report->value;
		tell_stop(p);
		return true;
	case LEADER_EXITED:
		end(p, report->value);
		return false;
	case LEADER_FAILED:
	default:
		fail(p, &report->err);
		return false;
	}
}

/* Whether p is still there, and more may come. */
static bool receive_report(struct process *p)
{
	struct leader_report report;
	ssize_t n = recv(p->reports.fd, &report, sizeof(report), MSG_DONTWAIT);

	if (n == sizeof(report))
		return take_report(p, &report);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		source_close(p->init, &p->reports);
	return false;
}

void process_take_report(struct init *init, struct source *source, uint32_t events)
{
	(void)init;
	(void)events;
	receive_report(container_of(source, struct process, reports));
}

/* The program is ours to reap from now on; unless it never was there, or nobody knows of its end. */
static void lose_leader(struct process *p, int status)
{
	struct err err;
	uint64_t number = p->number;
	struct init *init = p->init;

	while (p->reports.fd >= 0 && receive_report(p))
		;
	for (size_t i = 0; i < init->process_count; i++)
		if (init->processes[i]->number == number) {
			p = init->processes[i];
			if (p->state == PROCESS_STARTING) {
				err_set(&err, -EINTR, "\"%s\" was ended before it ran",
					p->arguments ?: "");
				fail(p, &err);
			} else if (p->state == PROCESS_LIVING && kill(p->pid, 0) < 0 &&
				   errno == ESRCH) {
				end(p, status);
			}
			return;
		}
}

static void reaped(struct init *init, pid_t pid, int status)
{
	if (init->sudo.askers)
		sudo_read_reports(init);
	for (size_t i = 0; i < init->process_count; i++) {
		struct process *p = init->processes[i];

		if (p->leader == pid && p->state != PROCESS_ENDED) {
			lose_leader(p, status);
			return;
		}
		if (p->pid == pid && p->state == PROCESS_LIVING) {
			end(p, status);
			return;
		}
	}
	errand_reaped(init, pid);
}

void process_reap(struct init *init)
{
	for (int i = 0; i < REAP_MAX; i++) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid <= 0) {
			init->has_children = false;
			return;
		}
		reaped(init, pid, status);
	}
}

static void explain_signal(struct init *init, const struct message *m, const struct process *p,
			   int code)
{
	if (code == -ESRCH)
		channel_answer_error(&init->channel, m->call, code, "process %llu has ended",
				     (unsigned long long)p->number);
	else if (code == -EPERM)
		channel_answer_error(&init->channel, m->call, code,
				     "process %llu may not be signalled: it became another user",
				     (unsigned long long)p->number);
	else
		channel_answer_error(&init->channel, m->call, code, "there is no signal %llu",
				     (unsigned long long)message_number(m, FIELD_SIGNAL, 0));
}

void process_set_deadline(struct process *p, uint64_t ms)
{
	struct init *init = p->init;

	/* A deadline that far away is none. */
	if (ms > UINT32_MAX)
		return;
	p->deadline = clock_ms() + ms;
	if (!init->first_deadline || p->deadline < init->first_deadline)
		init->first_deadline = p->deadline;
}

void processes_end(struct init *init)
{
	uint64_t now;

	if (!init->first_deadline)
		return;
	now = clock_ms();
	if (now < init->first_deadline)
		return;
	init->first_deadline = 0;
	for (size_t i = 0; i < init->process_count; i++) {
		struct process *p = init->processes[i];

		if (p->deadline && p->deadline <= now && p->state == PROCESS_LIVING) {
			kill(-p->pid, SIGKILL);
			p->was_killed = true;
		}
		/* One at a terminal that is not there yet is waited for. */
		if (p->deadline && p->deadline <= now)
			p->deadline = p->state == PROCESS_STARTING ? now + 10 : 0;
		if (p->deadline && (!init->first_deadline || p->deadline < init->first_deadline))
			init->first_deadline = p->deadline;
	}
}

/* Who waits for others to close its pipes does not any more. Whether somebody did. */
static bool release_waiting(struct process *p)
{
	if (p->state != PROCESS_ENDED || p->was_killed || p->reader_count == 0)
		return false;
	p->was_killed = true;
	p->reader_count++;
	readers_pump(p);
	p->reader_count--;
	process_review(p);
	return true;
}

void process_signal(struct init *init, struct message *m)
{
	struct process *p = process_find(init, m);
	uint64_t signal = message_number(m, FIELD_SIGNAL, 0);
	bool is_group = message_number(m, FIELD_FLAGS, 0) & SIGNAL_GROUP;
	bool is_end = signal == SIGKILL || signal == SIGTERM;
	int r = 0;

	if (!p)
		return;
	if (signal > 64)
		r = -EINVAL;
	else if (p->state == PROCESS_ENDED)
		r = -ESRCH;
	else if (kill(is_group ? -p->pid : p->pid, (int)signal) < 0)
		r = -errno;
	p->was_killed |= r == 0 && is_end;
	if (r == -ESRCH && is_end && release_waiting(p))
		r = 0;
	if (r < 0)
		explain_signal(init, m, p, r);
	else
		channel_answer_done(&init->channel, m->call);
}

void process_resize(struct init *init, struct message *m)
{
	const struct process *p = process_find(init, m);
	const struct winsize size = {
		.ws_row = (unsigned short)message_number(m, FIELD_ROWS, 0),
		.ws_col = (unsigned short)message_number(m, FIELD_COLUMNS, 0),
	};

	if (!p)
		return;
	if (p->terminal < 0)
		channel_answer_error(&init->channel, m->call, -ENOTTY,
				     "process %llu has no terminal%s",
				     (unsigned long long)p->number,
				     p->state == PROCESS_ENDED ? ": it has ended" : "");
	else if (ioctl(p->terminal, TIOCSWINSZ, &size) < 0)
		channel_answer_error(&init->channel, m->call, -errno, "cannot resize: %s",
				     strerror(errno));
	else
		channel_answer_done(&init->channel, m->call);
}

static void tell_process(struct process *p, uint32_t call)
{
	struct draft d = DRAFT(MESSAGE_PROCESS_IS, call);
	unsigned int flags = p->state == PROCESS_ENDED ? 0 : PROCESS_RUNNING;

	flags |= p->flags & START_KEPT ? PROCESS_KEPT : 0;
	flags |= p->flags & START_TERMINAL ? PROCESS_TERMINAL : 0;
	draft_number(&d, FIELD_PROCESS, p->number);
	draft_number(&d, FIELD_PID, (uint64_t)p->pid);
	draft_number(&d, FIELD_FLAGS, flags);
	draft_number(&d, FIELD_TIME, p->since);
	for (size_t at = 0; at < p->arguments_len; at += strlen(p->arguments + at) + 1)
		draft_text(&d, FIELD_ARGUMENT, p->arguments + at);
	if (p->state == PROCESS_ENDED) {
		draft_number(&d, FIELD_STATUS, (unsigned int)p->status);
		draft_number(&d, FIELD_ENDED, p->ended);
	}
	draft_text(&d, FIELD_USER, p->user);
	draft_text(&d, FIELD_LABEL, p->label);
	if (p->flags & START_KEPT) {
		draft_number(&d, FIELD_SIZE, p->ring.end);
		draft_number(&d, FIELD_DROPPED, p->ring.begin);
	}
	answer_send(p->init, &d);
}

void process_list(struct init *init, struct message *m)
{
	for (size_t i = 0; i < init->process_count; i++)
		if (init->processes[i]->state != PROCESS_STARTING)
			tell_process(init->processes[i], m->call);
	channel_answer_done(&init->channel, m->call);
}
