/*
 * errand.c - the calls for files (files.h), each in a process of its own
 *
 * The child has the rights of the user that the call names, and could be at the mercy of the workload, if
 * that is the same user. So what it says is checked like anything from inside, and only what answers a
 * call for files is handed on.
 *
 * A call that is cancelled is told so, and has a moment to clean up; then the child is killed.
 */
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/title.h"
#include "init/files.h"
#include "init/init.h"
#include "init/user.h"

#define GRACE_MS     1000
#define MESSAGES_MAX 16 /* in one turn */
/* Who has its answer may send the next call at once, before we have seen the end of the child that gave it. */
#define PAST_MAX     256

struct errand {
	struct call call; /* open until the answer that ends it */
	struct errand *next;
	enum message_type type;
	pid_t pid;        /* 0: it was reaped */
	bool is_watching; /* WATCH has had its DONE: more follows */
	struct source socket;
	struct channel channel;
	uint64_t deadline; /* to be killed at; 0: none */
};

/* Its call is answered, or cancelled. */
static void close_call(struct init *init, struct errand *e)
{
	if (!e->call.kind)
		return;
	call_close(init, &e->call);
	(void)!source_watch(init, &e->socket, 0);
	channel_done(&e->channel);
	e->socket.fd = -EBADF;
	init->errand_count--;
	init->errand_past++;
}

static void errand_free(struct init *init, struct errand *e)
{
	close_call(init, e);
	init->errand_past--;
	for (struct errand **p = &init->errands; *p; p = &(*p)->next)
		if (*p == e) {
			*p = e->next;
			break;
		}
	free(e);
}

/* Nobody waits for an answer now. It ends by itself, as its channel does, or is killed later. The errand
 * may be gone then. */
static void let_go(struct init *init, struct errand *e)
{
	if (e->pid == 0) {
		errand_free(init, e);
		return;
	}
	close_call(init, e);
	e->deadline = clock_ms() + GRACE_MS;
}

static void fail(struct init *init, struct errand *e, const char *why)
{
	channel_answer_error(&init->channel, e->call.number, -EIO, "the call was ended: %s", why);
	let_go(init, e);
}

/* What answers a call for files. */
static bool is_answer(enum message_type type)
{
	switch (type) {
	case MESSAGE_ENTRY:
	case MESSAGE_CHANGE_IS:
	case MESSAGE_ATTRIBUTE_IS:
	case MESSAGE_DATA:
	case MESSAGE_DATA_END:
	case MESSAGE_CREDIT:
	case MESSAGE_DONE:
	case MESSAGE_ERROR:
		return true;
	default:
		return false;
	}
}

static bool ends_call(struct errand *e, const struct message *m)
{
	if (e->type == MESSAGE_WATCH && m->type == MESSAGE_DONE && !e->is_watching) {
		e->is_watching = true;
		return false;
	}
	return m->type == MESSAGE_ERROR || m->type == MESSAGE_DONE ||
	       (e->type == MESSAGE_STAT && m->type == MESSAGE_ENTRY) ||
	       (m->type == MESSAGE_CHANGE_IS &&
		message_number(m, FIELD_CHANGE, SEEN_COUNT) == SEEN_GONE);
}

/* Whether the call goes on. */
static bool hand_back(struct init *init, struct errand *e, struct message *m)
{
	struct draft d = DRAFT(m->type, e->call.number);

	if (!is_answer(m->type) || m->call != e->call.number) {
		fail(init, e, "what came back was no answer");
		return false;
	}
	draft_copy(&d, m);
	answer_send(init, &d);
	if (!ends_call(e, m))
		return true;
	let_go(init, e);
	return false;
}

static void watch(struct init *init, struct errand *e)
{
	uint32_t events = (uint32_t)channel_events(&e->channel);

	if (init->is_congested)
		events &= ~(uint32_t)EPOLLIN;
	(void)!source_watch(init, &e->socket, events);
}

/* In turns: one that lists a large tree must not fill the channel alone. */
static void listen_to(struct init *init, struct errand *e)
{
	for (int i = 0; i < MESSAGES_MAX && !init->is_congested; i++) {
		struct message m;
		int r = channel_receive(&e->channel, &m);
		bool goes_on;

		if (r == 0)
			break;
		if (r < 0) {
			fail(init, e, e->channel.why ?: "it is gone");
			return;
		}
		goes_on = hand_back(init, e, &m);
		message_done(&m);
		if (!goes_on)
			return;
		loop_check_queue(init);
	}
	/* Also an end that was seen with the last of them: nobody tells it again. */
	init->has_news |= channel_has_message(&e->channel) || e->channel.failure < 0;
	watch(init, e);
}

static void on_socket(struct init *init, struct source *source, uint32_t events)
{
	struct errand *e = container_of(source, struct errand, socket);

	if (events & EPOLLOUT)
		(void)!channel_flush(&e->channel);
	listen_to(init, e);
}

void errands_resume(struct init *init)
{
	struct errand *next;

	init->has_news = false;
	for (struct errand *e = init->errands; e; e = next) {
		next = e->next;
		if (e->call.kind)
			listen_to(init, e);
	}
}

static void receive(struct init *init, struct call *call, struct message *m)
{
	struct errand *e = container_of(call, struct errand, call);
	struct draft d = DRAFT(m->type, m->call);
	int r;

	draft_copy(&d, m);
	r = channel_send(&e->channel, &d, NULL, 0);
	draft_done(&d);
	if (r == -ENOBUFS)
		fail(init, e, "more came than there was credit for");
	else
		watch(init, e);
}

static void cancel(struct init *init, struct call *call)
{
	struct errand *e = container_of(call, struct errand, call);
	struct draft d = DRAFT(MESSAGE_CANCEL, call->number);

	(void)!channel_send(&e->channel, &d, NULL, 0);
	draft_done(&d);
	let_go(init, e);
}

static const struct call_kind errand_call = { .receive = receive, .cancel = cancel };

void errand_reaped(struct init *init, pid_t pid)
{
	for (struct errand *e = init->errands; e; e = e->next)
		if (e->pid == pid) {
			e->pid = 0;
			/* Its last words are read in their turn, and then the end of its channel. */
			if (!e->call.kind)
				errand_free(init, e);
			return;
		}
}

bool errand_is_own(const struct init *init, pid_t pid)
{
	for (const struct errand *e = init->errands; e; e = e->next)
		if (e->pid == pid)
			return true;
	return false;
}

int errand_time_left(const struct init *init)
{
	uint64_t first = UINT64_MAX, now;

	for (const struct errand *e = init->errands; e; e = e->next)
		if (e->deadline)
			first = MIN(first, e->deadline);
	if (first == UINT64_MAX)
		return -1;
	now = clock_ms();
	return first > now ? (int)(first - now) : 0;
}

void errands_end(struct init *init)
{
	for (struct errand *e = init->errands; e; e = e->next)
		if (e->deadline && clock_ms() >= e->deadline) {
			/* It is our child until it is reaped, so the pid is its own. */
			if (e->pid > 0)
				kill(e->pid, SIGKILL);
			e->deadline = 0;
		}
}

/* The home that relative paths are below. */
static const char *home_of(const struct user *user)
{
	const char *home = getenv("HOME");

	return user->is_default && home && home[0] == '/' ? home : user->home;
}

static bool is_relative(const struct message *m, enum field field)
{
	return message_text(m, field, "/")[0] != '/';
}

_Noreturn static void serve(const struct init *init, struct message *m, const struct user *user,
			    int socket)
{
	int keep[MESSAGE_DESCRIPTORS + 1] = { socket };
	struct channel channel;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "brig-init-file");
	title_set("brig-init: file");
	for (size_t i = 0; i < MESSAGE_DESCRIPTORS; i++)
		keep[i + 1] = i < m->descriptor_count ? m->descriptors[i] : -EBADF;
	fd_close_others(keep, ARRAY_SIZE(keep));
	channel_init(&channel, socket, FROM_WARDEN, true);
	r = user_become_backed(user, message_number(m, FIELD_BY_ROOT, 0) ? 0 : user->uid,
			       &init->rights);
	if (r < 0) {
		channel_answer_error(&channel, m->call, r, "cannot become the user \"%s\": %s",
				     user->name, strerror(-r));
		_exit(1);
	}
	/* Both are lost with the ids. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	if (chdir(home_of(user)) < 0 && (is_relative(m, FIELD_PATH) || is_relative(m, FIELD_TO))) {
		channel_answer_error(&channel, m->call, -errno, "the home \"%s\": %s",
				     home_of(user), strerror(errno));
		_exit(1);
	}
	files_serve(m, &channel);
}

static int send_out(struct init *init, struct message *m, const struct user *user, struct err *err)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	struct errand *e;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, -errno, "cannot make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	e = malloc(sizeof(*e));
	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	pid = fork();
	if (pid == 0)
		serve(init, m, user, theirs);
	if (pid < 0) {
		free(e);
		return err_errno(err, -errno, "cannot start a process");
	}
	*e = (struct errand){
		.next = init->errands, .type = m->type, .pid = pid, .socket = SOURCE(on_socket)
	};
	/* It has no descriptor to give. */
	channel_init(&e->channel, take_fd(&ours), FROM_INIT, false);
	e->socket.fd = e->channel.fd;
	init->errands = e;
	init->errand_count++;
	call_open(init, &e->call, m->call, &errand_call);
	watch(init, e);
	return 0;
}

void errand_start(struct init *init, struct message *m)
{
	struct err err = ERR_NONE;
	struct user user;
	int r = init_has_room(&err);

	if (r == 0 && (init->errand_count >= ERRANDS_MAX || init->errand_past >= PAST_MAX))
		r = err_set(&err, -EAGAIN, "%d calls for files are at work already", ERRANDS_MAX);
	r = r < 0 ? r : user_choose(message_text(m, FIELD_USER, NULL), &init->rights, &user, &err);
	r = r < 0 ? r : send_out(init, m, &user, &err);
	if (r < 0)
		answer_err(init, m->call, &err);
}
