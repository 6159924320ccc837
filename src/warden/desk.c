#include "warden/desk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hook.h"
#include "warden/desk_calls.h"

#define ACCEPTS_MAX  32
#define EVENTS_MAX   32
#define MESSAGES_MAX 64 /* of one peer in one go */
#define INIT_FULL    (1 * MIB)
#define GUEST_FULL   (1 * MIB)
#define STALL_MS     2000 /* that others wait for one who does not read */
#define FAREWELL_MS  1000
#define SPARE_FDS    32 /* that clients leave for what init hands out, and for everything else */

/* What an event of the epoll is about: a guest's place, or one of these. */
#define ABOUT_LISTENER UINT32_MAX
#define ABOUT_INIT     (UINT32_MAX - 1)

static int expect(const struct desk *desk, int op, int fd, uint32_t events, uint32_t about)
{
	struct epoll_event event = { .events = events, .data.u32 = about };

	return epoll_ctl(desk->epoll, op, fd, &event) < 0 ? -errno : 0;
}

static uint32_t wanted(const struct desk *desk, const struct channel *ch)
{
	uint32_t events = (uint32_t)channel_events(ch);

	/* POLLIN and POLLOUT are EPOLLIN and EPOLLOUT. */
	if (ch == &desk->init ? desk->stalled_at : desk->is_init_full)
		events &= ~(uint32_t)EPOLLIN;
	return events;
}

static void expect_guest(const struct desk *desk, struct guest *guest)
{
	uint32_t events = wanted(desk, &guest->channel);

	if (events != guest->expected &&
	    expect(desk, EPOLL_CTL_MOD, guest->channel.fd, events, guest->place) == 0)
		guest->expected = events;
}

int desk_open(struct desk *desk, int init, const struct desk_ops *ops, void *of)
{
	*desk = DESK_NONE;
	channel_init(&desk->init, init, FROM_INIT, true);
	desk->ops = ops;
	desk->of = of;
	desk->served = clock_ms();
	desk->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (desk->epoll < 0)
		return -errno;
	return expect(desk, EPOLL_CTL_ADD, init, EPOLLIN, ABOUT_INIT);
}

int desk_listen(struct desk *desk, int listener)
{
	int r = expect(desk, EPOLL_CTL_ADD, listener, EPOLLIN, ABOUT_LISTENER);

	if (r == 0)
		desk->listener = listener;
	return r;
}

/* Ends a conversation. What init still does for it is cancelled. */
static void dismiss(struct desk *desk, struct guest *guest)
{
	for (size_t i = 0; i < desk->call_room; i++) {
		struct desk_call *call = &desk->calls[i];
		_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CANCEL, call->number);

		if (!call->number || call->guest != guest)
			continue;
		(void)!channel_send(&desk->init, &d, NULL, 0);
		desk_call_end(desk, call);
	}
	for (; guest->holds > 0; guest->holds--)
		desk->ops->release(desk->of);
	(void)!epoll_ctl(desk->epoll, EPOLL_CTL_DEL, guest->channel.fd, NULL);
	desk->guests[guest->place] = NULL;
	desk->guest_count--;
	channel_done(&guest->channel);
	free(guest);
}

static int grow_guests(struct desk *desk)
{
	size_t room = desk->guest_room ? desk->guest_room * 2 : 4;
	struct guest **guests;

	if (room > DESK_GUESTS_MAX)
		return -EMFILE;
	guests = realloc(desk->guests, room * sizeof(struct guest *));
	if (!guests)
		return -ENOMEM;
	for (size_t i = desk->guest_room; i < room; i++)
		guests[i] = NULL;
	desk->guests = guests;
	desk->guest_room = room;
	return 0;
}

static int welcome(struct desk *desk, int fd)
{
	struct guest *guest;
	uint32_t place = 0;
	int r = desk->guest_count == desk->guest_room ? grow_guests(desk) : 0;

	if (r < 0)
		return r;
	while (desk->guests[place])
		place++;
	guest = calloc(1, sizeof(*guest));
	if (!guest)
		return -ENOMEM;
	r = expect(desk, EPOLL_CTL_ADD, fd, EPOLLIN, place);
	if (r < 0) {
		free(guest);
		return r;
	}
	channel_init(&guest->channel, fd, FROM_CLIENT, true);
	guest->place = place;
	guest->expected = EPOLLIN;
	desk->guests[place] = guest;
	desk->guest_count++;
	return 0;
}

/* The kernel says who connected. */
static bool is_owner(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0 || hook_without("owner"));
}

/* The kernel gives the lowest number, so the high ones are the last. Without any left we could neither
 * let somebody in nor turn him away, and what init hands out would be lost. */
static bool is_among_last(int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd + SPARE_FDS >= limit.rlim_cur;
}

static void accept_guests(struct desk *desk)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(desk->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (is_among_last(fd) || !is_owner(fd) || welcome(desk, fd) < 0)
			fd_close(fd);
	}
}

static void refuse(struct guest *guest, uint32_t call, int code, const char *text)
{
	channel_answer_error(&guest->channel, call, code, "%s", text);
}

/* A directory would lead the sandbox to the host's root. */
static bool may_pass(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && !(flags & O_PATH) && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) &&
	       !S_ISBLK(st.st_mode);
}

/* To init, under a number of ours. A refused sending is the client's business, not the sandbox's. */
static int hand_on(struct desk *desk, struct guest *guest, struct message *m, uint32_t number)
{
	_cleanup_(draft_done) struct draft d = DRAFT(m->type, number);
	size_t count = m->descriptor_count;
	int r;

	draft_copy(&d, m);
	m->descriptor_count = 0;
	r = channel_send(&desk->init, &d, m->descriptors, count);
	desk->is_init_full = channel_waiting(&desk->init) > INIT_FULL;
	if (r < 0)
		refuse(guest, m->call, r, "the sandbox does not listen");
	return r;
}

static void begin_call(struct desk *desk, struct guest *guest, struct message *m)
{
	const char *why = desk->ops->refuse(desk->of);
	struct desk_call *call;

	for (size_t i = 0; i < m->descriptor_count && !why; i++)
		if (!may_pass(m->descriptors[i]))
			why = "a directory or a disk cannot be handed to a sandbox";
	if (!why && desk_call_of(desk, guest, m->call))
		why = "the number of the call is in use";
	if (why) {
		refuse(guest, m->call, -EBUSY, why);
		return;
	}
	call = desk_call_begin(desk, guest, m);
	if (!call) {
		refuse(guest, m->call, -EAGAIN, "too many calls at once");
		return;
	}
	if (hand_on(desk, guest, m, call->number) < 0) {
		desk_call_end(desk, call);
		return;
	}
	if (m->type != MESSAGE_START)
		return;
	desk->ops->stir(desk->of);
	hook_point("exec:asked");
}

/* More about a call that is there. What comes late for one that has ended is nobody's fault. */
static void continue_call(struct desk *desk, struct guest *guest, struct message *m)
{
	struct desk_call *call = desk_call_of(desk, guest, m->call);

	if (!call)
		return;
	(void)!hand_on(desk, guest, m, call->number);
	if (m->type == MESSAGE_CANCEL)
		desk_call_end(desk, call);
}

static void answer_result(struct guest *guest, uint32_t call, int r, const struct err *err)
{
	if (r < 0)
		refuse(guest, call, r, err->text);
	else
		channel_answer_done(&guest->channel, call);
}

static void answer_status(struct desk *desk, struct guest *guest, struct message *m)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_STATUS_IS, m->call);

	desk->ops->status(desk->of, &d);
	(void)!channel_send(&guest->channel, &d, NULL, 0);
}

static void answer_pause(struct desk *desk, struct guest *guest, struct message *m)
{
	struct err err = ERR_NONE;

	answer_result(guest, m->call, desk->ops->pause(desk->of, &err), &err);
}

static void answer_resume(struct desk *desk, struct guest *guest, struct message *m)
{
	struct err err = ERR_NONE;

	answer_result(guest, m->call, desk->ops->resume(desk->of, &err), &err);
}

static void answer_network(struct desk *desk, struct guest *guest, struct message *m)
{
	struct err err = ERR_NONE;

	answer_result(guest, m->call, desk->ops->network(desk->of, m, &err), &err);
}

static void answer_extend(struct desk *desk, struct guest *guest, struct message *m)
{
	struct err err = ERR_NONE;
	uint64_t left = message_number(m, FIELD_LEFT, 0);

	answer_result(guest, m->call, desk->ops->extend(desk->of, left, &err), &err);
}

static void answer_kill(struct desk *desk, struct guest *guest, struct message *m)
{
	guest->awaits_end = true;
	guest->end_call = m->call;
	desk->ops->kill(desk->of);
}

static void answer_hold(struct desk *desk, struct guest *guest, struct message *m)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_HELD, m->call);
	struct err err = ERR_NONE;
	int store = -EBADF, r;

	if (guest->holds > 0) {
		refuse(guest, m->call, -EBUSY, "it is held already");
		return;
	}
	r = desk->ops->hold(desk->of, &store, &err);
	if (r < 0) {
		refuse(guest, m->call, r, err.text);
		return;
	}
	guest->holds++;
	guest->hold_call = m->call;
	(void)!channel_send(&guest->channel, &d, &store, 1);
}

static void answer_port(struct desk *desk, struct guest *guest, struct message *m)
{
	uint64_t port = message_number(m, FIELD_PORT, 0);
	struct err err = ERR_NONE;
	int r = -EINVAL;

	if (port == 0 || port > UINT16_MAX)
		err_set(&err, r, "there is no port %llu", (unsigned long long)port);
	else
		r = desk->ops->port(desk->of, message_take_descriptor(m, 0), (uint16_t)port, &err);
	answer_result(guest, m->call, r, &err);
}

static void answer_ports(struct desk *desk, struct guest *guest, struct message *m)
{
	char address[64];
	uint16_t port;

	for (size_t i = 0; desk->ops->ports(desk->of, i, &port, address, sizeof(address)); i++) {
		_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_PORT_IS, m->call);

		draft_number(&d, FIELD_PORT, port);
		draft_text(&d, FIELD_TEXT, address);
		(void)!channel_send(&guest->channel, &d, NULL, 0);
	}
	channel_answer_done(&guest->channel, m->call);
}

/* What the warden answers, and what is said about calls; every other message begins a call. */
static const struct {
	enum message_type type;
	void (*take)(struct desk *desk, struct guest *guest, struct message *m);
} takers[] = {
	{ MESSAGE_STATUS, answer_status },   { MESSAGE_PAUSE, answer_pause },
	{ MESSAGE_RESUME, answer_resume },   { MESSAGE_EXTEND, answer_extend },
	{ MESSAGE_KILL, answer_kill },       { MESSAGE_HOLD, answer_hold },
	{ MESSAGE_PORT, answer_port },       { MESSAGE_PORTS, answer_ports },
	{ MESSAGE_NETWORK, answer_network }, { MESSAGE_DATA, continue_call },
	{ MESSAGE_DATA_END, continue_call }, { MESSAGE_CREDIT, continue_call },
	{ MESSAGE_CANCEL, continue_call },
};

static void take_from_guest(struct desk *desk, struct guest *guest, struct message *m)
{
	if (m->type == MESSAGE_CANCEL && guest->holds > 0 && m->call == guest->hold_call) {
		guest->holds--;
		desk->ops->release(desk->of);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(takers); i++)
		if (takers[i].type == m->type) {
			takers[i].take(desk, guest, m);
			return;
		}
	begin_call(desk, guest, m);
}

static void read_guest(struct desk *desk, struct guest *guest)
{
	struct message m;
	int r = 1;

	(void)!channel_flush(&guest->channel);
	for (int i = 0; i < MESSAGES_MAX && r > 0 && !desk->is_init_full; i++) {
		r = channel_receive(&guest->channel, &m);
		if (r <= 0)
			break;
		desk->served = clock_ms();
		take_from_guest(desk, guest, &m);
		message_done(&m);
	}
	if (r < 0)
		dismiss(desk, guest);
	else
		expect_guest(desk, guest);
}

/* The answer goes to whoever asked. Who does not read it for long is let go. */
static void hand_back(struct desk *desk, struct guest *guest, struct desk_call *call,
		      struct message *m)
{
	_cleanup_(draft_done) struct draft d = DRAFT(m->type, call->theirs);
	size_t count = m->descriptor_count;
	bool is_last = answer_is_last(&call->answering, m);
	int r;

	draft_copy(&d, m);
	m->descriptor_count = 0;
	if (is_last)
		desk_call_end(desk, call);
	r = channel_send(&guest->channel, &d, m->descriptors, count);
	if (r == -ENOBUFS) {
		dismiss(desk, guest);
		return;
	}
	if (channel_waiting(&guest->channel) > GUEST_FULL && !desk->stalled_at)
		desk->stalled_at = clock_ms();
	expect_guest(desk, guest);
}

static void break_with(struct desk *desk, const char *why)
{
	if (!desk->broken)
		desk->broken = why;
	desk->is_alone = true;
	(void)!epoll_ctl(desk->epoll, EPOLL_CTL_DEL, desk->init.fd, NULL);
}

static void take_from_init(struct desk *desk, struct message *m)
{
	struct desk_call *call;

	if (m->type == MESSAGE_READY) {
		if (desk->is_ready || m->call != 0)
			break_with(desk, "a second beginning");
		desk->is_ready = true;
		return;
	}
	call = desk_call_find(desk, m->call);
	if (!call)
		return;
	if (!answer_fits(&call->answering, m)) {
		break_with(desk, "an answer that does not fit its call");
		return;
	}
	hand_back(desk, call->guest, call, m);
	if (m->type == MESSAGE_STARTED)
		hook_point("exec:started");
}

static void read_init(struct desk *desk)
{
	struct message m;
	int r = 1;

	(void)!channel_flush(&desk->init);
	if (desk->is_init_full && channel_waiting(&desk->init) <= INIT_FULL / 2)
		desk->is_init_full = false;
	for (int i = 0; i < MESSAGES_MAX && !desk->is_alone && !desk->stalled_at; i++) {
		r = channel_receive(&desk->init, &m);
		if (r <= 0)
			break;
		take_from_init(desk, &m);
		message_done(&m);
	}
	/* Its end is the keeper's to tell. */
	if (r < 0)
		break_with(desk, r == -EPROTO ? desk->init.why : NULL);
}

/* Those who do not take their answers hold the others up, for a while. */
static void look_at_stalled(struct desk *desk)
{
	bool is_over = clock_ms() >= desk->stalled_at + STALL_MS, is_left = false;

	if (!desk->stalled_at)
		return;
	for (size_t i = 0; i < desk->guest_room; i++) {
		struct guest *guest = desk->guests[i];

		if (!guest || channel_waiting(&guest->channel) <= GUEST_FULL)
			continue;
		if (is_over)
			dismiss(desk, guest);
		else
			is_left = true;
	}
	if (!is_left)
		desk->stalled_at = 0;
}

/* What is waited for follows from how full the channels are. */
static void expect_all(struct desk *desk)
{
	if (!desk->is_alone)
		(void)!expect(desk, EPOLL_CTL_MOD, desk->init.fd, wanted(desk, &desk->init),
			      ABOUT_INIT);
	for (size_t i = 0; i < desk->guest_room; i++)
		if (desk->guests[i])
			expect_guest(desk, desk->guests[i]);
}

static bool init_has_more(const struct desk *desk)
{
	return !desk->is_alone && !desk->stalled_at && channel_has_message(&desk->init);
}

static bool guest_has_more(const struct desk *desk, size_t i)
{
	return desk->guests[i] && !desk->is_init_full &&
	       channel_has_message(&desk->guests[i]->channel);
}

/* Those that are in memory already: the kernel does not tell of them again. */
static void read_rest(struct desk *desk)
{
	if (init_has_more(desk))
		read_init(desk);
	for (size_t i = 0; i < desk->guest_room; i++)
		if (guest_has_more(desk, i))
			read_guest(desk, desk->guests[i]);
	desk->has_more = init_has_more(desk);
	for (size_t i = 0; i < desk->guest_room && !desk->has_more; i++)
		desk->has_more = guest_has_more(desk, i);
}

void desk_poll(struct desk *desk)
{
	struct epoll_event events[EVENTS_MAX];
	int n = desk->epoll < 0 ? 0 : epoll_wait(desk->epoll, events, EVENTS_MAX, 0);
	bool was_full = desk->is_init_full, was_stalled = desk->stalled_at;

	for (int i = 0; i < n; i++) {
		uint32_t about = events[i].data.u32;

		if (about == ABOUT_LISTENER)
			accept_guests(desk);
		else if (about == ABOUT_INIT)
			read_init(desk);
		else if (about < desk->guest_room && desk->guests[about])
			read_guest(desk, desk->guests[about]);
	}
	look_at_stalled(desk);
	if (desk->epoll >= 0)
		read_rest(desk);
	if (desk->epoll >= 0 && (n > 0 || was_full != desk->is_init_full || was_stalled))
		expect_all(desk);
}

int desk_timeout(const struct desk *desk)
{
	uint64_t now, end;

	if (desk->has_more)
		return 0;
	if (!desk->stalled_at)
		return -1;
	now = clock_ms();
	end = desk->stalled_at + STALL_MS;
	return now >= end ? 0 : (int)(end - now);
}

bool desk_is_busy(const struct desk *desk)
{
	for (size_t i = 0; i < desk->guest_room; i++)
		if (desk->guests[i] && (desk->guests[i]->calls > 0 || desk->guests[i]->holds > 0))
			return true;
	return false;
}

/* Sends what waits, for as long as is polite. */
static void say_farewell(struct guest *guest)
{
	uint64_t end = clock_ms() + FAREWELL_MS;

	while (channel_waiting(&guest->channel) > 0 && channel_flush(&guest->channel) == 0 &&
	       clock_ms() < end) {
		struct pollfd fd = { .fd = guest->channel.fd, .events = POLLOUT };

		(void)!poll(&fd, 1, 100);
	}
}

void desk_close(struct desk *desk)
{
	for (size_t i = 0; i < desk->guest_room; i++) {
		struct guest *guest = desk->guests[i];

		if (!guest)
			continue;
		if (guest->awaits_end)
			channel_answer_done(&guest->channel, guest->end_call);
		say_farewell(guest);
		dismiss(desk, guest);
	}
}

void desk_done(struct desk *desk)
{
	for (size_t i = 0; i < desk->guest_room; i++)
		if (desk->guests[i])
			dismiss(desk, desk->guests[i]);
	free(desk->guests);
	free(desk->calls);
	channel_done(&desk->init);
	fd_close(desk->epoll);
	*desk = DESK_NONE;
}
