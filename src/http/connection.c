/* connection.c - what happens to a connection, all in connection_work() */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/server_internal.h"
#include "http/tls.h"

/* --- lists --- */

static struct list *list_of(struct connection *c)
{
	return c->is_idle_listed ? &c->server->idle : &c->server->busy;
}

static void unlist(struct connection *c)
{
	struct list *list = list_of(c);

	*(c->previous ? &c->previous->next : &list->first) = c->next;
	*(c->next ? &c->next->previous : &list->last) = c->previous;
}

static void enlist(struct connection *c)
{
	struct list *list = list_of(c);

	c->next = NULL;
	c->previous = list->last;
	*(list->last ? &list->last->next : &list->first) = c;
	list->last = c;
}

/*
 * Where there is no room for more, the first of the idle ones goes. A connection whose head is not whole
 * counts as idle and does not win time with each byte, so whoever comes new has a chance even while
 * somebody fills all places with beginnings.
 */
static void relist(struct connection *c)
{
	bool is_idle = c->stage == STAGE_IDLE || c->stage == STAGE_HEAD;

	if (c->is_idle_listed == is_idle && (!c->next || c->stage != STAGE_IDLE))
		return;
	unlist(c);
	c->is_idle_listed = is_idle;
	enlist(c);
}

/* --- requests --- */

static bool wants_input(const struct connection *c)
{
	switch (c->stage) {
	case STAGE_IDLE:
	case STAGE_HEAD:
	case STAGE_LINGER:
		return !c->is_ended;
	case STAGE_EXCHANGE:
		return body_wants_input(c->inner) && !c->is_ended;
	case STAGE_LAST:
		break;
	}
	return false;
}

static unsigned int status_of(int code)
{
	static const struct {
		int code;
		unsigned int status;
	} table[] = {
		{ -EMSGSIZE, 431 }, { -ENAMETOOLONG, 414 }, { -ENOTSUP, 505 },
		{ -ENOSYS, 501 },   { -ENOMEM, 503 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].status;
	return 400;
}

static int inner_take_head(struct inner *i, const char *data, size_t len, const char **ret_why)
{
	if (len > i->text_room) {
		size_t room = len < 2 * KIB ? 2 * KIB : len;
		char *text = realloc(i->text, room);

		*ret_why = "there is no memory for the head";
		if (!text)
			return -ENOMEM;
		i->text = text;
		i->text_room = room;
	}
	memcpy(i->text, data, len);
	return head_parse_request(i->text, len, &i->x.head, ret_why);
}

static void begin_exchange(struct connection *c, struct inner *i)
{
	struct server *server = c->server;

	i->c = c;
	c->inner = i;
	c->stage = STAGE_EXCHANGE;
	c->closes = !i->x.head.keep_alive || server->is_draining;
	c->is_greeted = false;
	server->exchange_count++;
	i->x.server = server;
	i->x.loop = server->loop;
	i->x.number = ++server->number;
	i->x.is_secure = c->tls != NULL;
	memcpy(i->x.peer, c->peer, sizeof(i->x.peer));
	i->x.began = loop_now(server->loop);
	body_begin(i);
	server->setup.request(server->setup.of, &i->x);
}

/* A client that sends byte by byte makes us look at each line once, not at all of them each time. */
static long measure(struct connection *c, const char *data, size_t len, const char **ret_why)
{
	size_t known = MIN(c->measured, len);
	long n;

	if (len < HEAD_MAX && !memchr(data + known, '\n', len - known))
		n = 0;
	else
		n = head_measure(data, len, ret_why);
	c->measured = n == 0 ? (uint32_t)len : 0;
	return n;
}

/* False: more of it must come first. */
static bool take_head(struct connection *c)
{
	struct server *server = c->server;
	const char *data = server->input + server->input_from;
	size_t len = server->input_end - server->input_from;
	const char *why = "";
	struct inner *i;
	long n;
	int r;

	if (len >= 2 && data[0] == '\r' && data[1] == '\n' && !c->is_greeted) {
		/* An empty line before a request, and one only: some clients end a body with it. */
		c->is_greeted = true;
		c->measured = 0;
		server->input_from += 2;
		return true;
	}
	if (len == 0) {
		/* A handshake is part of the first head. */
		c->stage = c->tls && !c->is_secured ? STAGE_HEAD : STAGE_IDLE;
		return false;
	}
	c->is_secured = true;
	c->stage = STAGE_HEAD;
	n = measure(c, data, len, &why);
	if (n == 0)
		return false;
	i = n > 0 ? inner_new(server) : NULL;
	r = n < 0 ? (int)n : i ? inner_take_head(i, data, (size_t)n, &why) : -ENOMEM;
	if (r < 0) {
		inner_free(server, i);
		connection_refuse(c, status_of(r), why);
		return true;
	}
	server->input_from += (size_t)n;
	begin_exchange(c, i);
	return true;
}

static void end_exchange(struct connection *c)
{
	struct server *server = c->server;
	struct inner *i = c->inner;

	if (!i)
		return;
	if (server->setup.logged)
		server->setup.logged(server->setup.of, &i->x);
	if (i->x.gone)
		i->x.gone(&i->x);
	c->inner = NULL;
	inner_free(server, i);
	server->exchange_count--;
	server_look_drained(server);
}

/* Our direction ends first and the client's is read away, or it might not see the last bytes. */
static void begin_end(struct connection *c)
{
	if (c->is_ended) {
		c->is_broken = true;
		return;
	}
	output_shut(c);
	c->stage = STAGE_LINGER;
	c->server->input_from = c->server->input_end = 0;
	c->kept_len = 0;
}

static bool end_tunnel(struct connection *c, struct inner *i)
{
	if (!i->is_shut) {
		i->is_shut = true;
		output_shut(c);
	}
	if (i->body != BODY_TOLD)
		return false;
	end_exchange(c);
	c->is_broken = true;
	return true;
}

/* What the state of the output means for the exchange. True: something happened. */
static bool exchange_work(struct connection *c)
{
	struct inner *i = c->inner;

	if (i->was_full && connection_waiting(c) < server_full_at(c->server) / 2 &&
	    i->answer == ANSWER_BEGUN) {
		i->was_full = false;
		c->patience -= PATIENCE / 4;
		if (i->x.drained)
			i->x.drained(&i->x);
		return true;
	}
	if (i->answer != ANSWER_ENDED || connection_waiting(c) > 0)
		return false;
	if (i->is_tunnel)
		return end_tunnel(c, i);
	if (!i->is_whole && !c->closes)
		return false;
	end_exchange(c);
	c->stage = STAGE_IDLE;
	if (c->closes || c->server->is_draining)
		begin_end(c);
	return true;
}

/* --- times --- */

/* What is waited for, for how long, and whether bytes that come or go begin it anew. */
static const struct {
	uint64_t ms;
	bool is_renewed;
} waits[] = {
	[WAIT_NOTHING] = { 0, false },
	[WAIT_IDLE] = { SERVER_IDLE_MS, true },
	[WAIT_HEAD] = { SERVER_HEAD_MS, false },
	[WAIT_BODY] = { SERVER_BODY_MS, true },
	[WAIT_PATIENT] = { SERVER_PATIENT_MS, true },
	[WAIT_DISCARD] = { DISCARD_MS, false },
	[WAIT_STALL] = { SERVER_STALL_MS, true },
	[WAIT_LINGER] = { LINGER_MS, false },
};

static enum wait waits_for(const struct connection *c)
{
	const struct inner *i = c->inner;

	if (c->stage == STAGE_LINGER)
		return WAIT_LINGER;
	if (connection_waiting(c) > 0)
		return WAIT_STALL;
	if (c->stage == STAGE_IDLE)
		return WAIT_IDLE;
	if (c->stage == STAGE_HEAD)
		return WAIT_HEAD;
	if (!i || !body_wants_input(i))
		return WAIT_NOTHING;
	if (i->body == BODY_DISCARD)
		return WAIT_DISCARD;
	/* A tunnel may be silent as long as it likes, but for one that we have ended. */
	if (i->is_tunnel && !i->is_shut)
		return WAIT_NOTHING;
	return i->is_patient ? WAIT_PATIENT : WAIT_BODY;
}

static void on_time(void *of);

static void set_deadline(struct connection *c)
{
	struct loop *loop = c->server->loop;
	uint64_t now = loop_now(loop);
	enum wait wait = waits_for(c);

	if (wait != c->wait || (c->has_moved && waits[wait].is_renewed))
		c->deadline = waits[wait].ms ? now + waits[wait].ms : 0;
	c->wait = wait;
	c->has_moved = false;
	/* A timer that is too early is set anew when it comes: once in a long while, not with each byte. */
	if (!c->deadline || (c->timer && c->timer_at <= c->deadline))
		return;
	loop_cancel(loop, c->timer);
	c->timer = 0;
	c->timer_at = c->deadline;
	if (loop_after(loop, c->deadline - MIN(now, c->deadline), on_time, c, &c->timer) < 0)
		c->is_broken = true;
}

static void timed_out(struct connection *c)
{
	switch (c->wait) {
	case WAIT_HEAD:
		if (c->kept_len > 0)
			connection_refuse(c, 408, "the head took too long");
		else
			c->is_broken = true;
		return;
	case WAIT_BODY:
	case WAIT_PATIENT:
		if (!c->inner->is_tunnel)
			exchange_refuse(&c->inner->x, 408, "the body took too long");
		else
			c->is_broken = true;
		return;
	case WAIT_DISCARD:
		c->closes = true;
		return;
	case WAIT_NOTHING:
	case WAIT_IDLE:
	case WAIT_STALL:
	case WAIT_LINGER:
		c->is_broken = true;
		return;
	}
}

/* --- turns --- */

static void on_ready(void *of, uint32_t events);

/* EPOLLIN and EPOLLRDHUP are left on until they come unwanted: most never do. */
static void set_watch(struct connection *c)
{
	uint32_t events = 0;
	bool wants = wants_input(c);

	c->reads |= wants;
	c->hears_end |= leaves_if_ended(c);
	events |= c->reads ? EPOLLIN : 0;
	events |= c->hears_end ? EPOLLRDHUP : 0;
	events |= c->is_blocked || c->tls_wants_write ? EPOLLOUT : 0;
	if (!c->watch && (wants || events & EPOLLOUT)) {
		if (loop_watch(c->server->loop, c->fd, events, on_ready, c, &c->watch) < 0)
			c->is_broken = true;
	} else if (loop_change(c->server->loop, c->watch, events) < 0) {
		c->is_broken = true;
	}
	if (c->tls_has_more && wants)
		connection_touch(c);
}

static bool step(struct connection *c)
{
	struct server *server = c->server;
	bool again = false;

	if (wants_input(c) || c->is_ended)
		input_load(c);
	switch (c->stage) {
	case STAGE_IDLE:
	case STAGE_HEAD:
		again = take_head(c);
		if (!again && c->is_ended)
			c->is_broken = true;
		break;
	case STAGE_EXCHANGE:
		again = body_work(c->inner);
		break;
	case STAGE_LINGER:
		c->lingered += (uint32_t)(server->input_end - server->input_from);
		server->input_from = server->input_end = 0;
		c->is_broken |= c->is_ended || c->lingered > LINGER_MAX;
		break;
	case STAGE_LAST:
		break;
	}
	output_flush(c);
	if (c->stage == STAGE_EXCHANGE && !c->is_broken)
		again |= exchange_work(c);
	else if (c->stage == STAGE_LAST && connection_waiting(c) == 0)
		begin_end(c);
	return again && !c->is_broken;
}

static void work(struct connection *c, bool is_readable)
{
	struct server *server = c->server;
	bool again;

	c->is_working = true;
	server->input_from = server->input_end = 0;
	if (is_readable && wants_input(c) && !c->is_broken) {
		input_load(c);
		input_read(c);
	}
	c->patience = PATIENCE;
	again = !c->is_broken;
	while (again && c->patience-- > 0)
		again = step(c);
	input_keep(c);
	c->is_working = false;
	/* The others' turn first: one client could keep us busy for as long as it is quick. */
	if (again)
		connection_touch(c);
	/* A client that has left while nothing was expected of it. */
	if (c->is_ended && leaves_if_ended(c))
		c->is_broken = true;
	if (!c->is_broken) {
		set_deadline(c);
		relist(c);
	}
	if (!c->is_broken)
		set_watch(c);
	if (c->is_broken)
		connection_free(c);
}

static void on_ready(void *of, uint32_t events)
{
	struct connection *c = of;
	bool wants = wants_input(c);

	if (events & EPOLLOUT)
		c->is_blocked = c->tls_wants_write = false;
	if (events & EPOLLERR)
		c->is_broken = true;
	if (!wants && events & EPOLLIN)
		c->reads = false;
	if (events & EPOLLRDHUP) {
		if (leaves_if_ended(c))
			c->is_broken = true;
		c->hears_end = false;
	}
	if (!wants && events & EPOLLHUP) {
		/* Told again and again; a held tunnel still has what came before it. */
		if (c->inner && c->inner->is_tunnel && c->inner->is_held)
			c->watch = loop_forget(c->server->loop, c->watch);
		else
			c->is_broken = true;
	}
	work(c, events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP) || c->tls);
}

static void on_time(void *of)
{
	struct connection *c = of;

	c->timer = 0;
	if (c->deadline && loop_now(c->server->loop) >= c->deadline)
		timed_out(c);
	work(c, false);
}

static void undirty(struct connection *c)
{
	if (!c->dirty_at)
		return;
	*c->dirty_at = c->next_dirty;
	if (c->next_dirty)
		c->next_dirty->dirty_at = c->dirty_at;
	c->dirty_at = NULL;
}

static void dirty_add(struct connection **first, struct connection *c)
{
	c->next_dirty = *first;
	if (*first)
		(*first)->dirty_at = &c->next_dirty;
	c->dirty_at = first;
	*first = c;
}

/* Those that become dirty on the way have their turn in the next one. */
static void on_soon(void *of)
{
	struct server *server = of;
	struct connection *first = server->dirty;

	server->soon = 0;
	server->dirty = NULL;
	if (first)
		first->dirty_at = &first;
	while (first) {
		struct connection *c = first;

		undirty(c);
		work(c, c->tls_has_more);
	}
}

void connection_touch(struct connection *c)
{
	struct server *server = c->server;

	if (c->is_working || c->dirty_at)
		return;
	dirty_add(&server->dirty, c);
	if (server->soon || loop_soon(server->loop, on_soon, server, &server->soon) == 0)
		return;
	/* No memory: the socket itself will tell, as it can be written to. */
	undirty(c);
	if (loop_change(server->loop, c->watch, EPOLLIN | EPOLLOUT) < 0)
		(void)!shutdown(c->fd, SHUT_RDWR);
}

int connection_new(struct server *server, int fd, void *tls, const char *peer)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->server = server;
	c->fd = fd;
	c->tls = tls;
	c->stage = tls ? STAGE_HEAD : STAGE_IDLE;
	c->is_idle_listed = true;
	c->reads = c->hears_end = true;
	snprintf(c->peer, sizeof(c->peer), "%s", peer);
	if (loop_watch(server->loop, fd, EPOLLIN | EPOLLRDHUP, on_ready, c, &c->watch) < 0) {
		free(c);
		return -ENOMEM;
	}
	enlist(c);
	server->connection_count++;
	set_deadline(c);
	if (c->is_broken) {
		c->tls = NULL;
		c->fd = -EBADF;
		connection_free(c);
		return -ENOMEM;
	}
	return 0;
}

void connection_free(struct connection *c)
{
	struct server *server = c->server;

	end_exchange(c);
	undirty(c);
	loop_forget(server->loop, c->watch);
	loop_cancel(server->loop, c->timer);
	unlist(c);
	server->connection_count--;
	tls_end(c->tls);
	fd_close(c->fd);
	output_done(c);
	input_drop(c);
	free(c);
	server_look_roomy(server);
}
