/*
 * proxy.c - a request for a port of a sandbox, to the program that listens there
 *
 *	client  <-- exchange -->  here  <-- a socket from inside (DIAL) -->  program
 *
 * One connection inside for each request. Both messages are taken apart and written anew (proxy_head.c),
 * so nothing of one client's can be read as another's. Bodies flow as they come: who cannot send stops
 * reading, on both sides. After 101 the bytes go through as they are.
 *
 * The program is hostile, and so is what passes us its socket: whatever comes instead of a connection is
 * refused; and as the other side shares it and can make it wait, no call here relies on it not to.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "http/chunked.h"
#include "serve/proxy_head.h"
#include "serve/serve.h"

#define DIAL_MS  20000
#define BREAK_MS 100
#define READ     (64 * KIB)
#define PENDING  (256 * KIB) /* of what goes inside: a head, or a piece that the exchange gave */
#define KEPT     (16 * KIB)  /* of its room, once all of it is sent */

enum stage { STAGE_DIALS, STAGE_HEAD, STAGE_BODY, STAGE_TUNNEL };

struct proxy {
	struct request *q;
	enum stage stage;
	call_id call;
	loop_id timer, watch;
	registry_watch ends;
	int fd;
	bool upgrades;
	bool is_deaf;         /* the program reads no more; it may answer all the same */
	bool is_silent;       /* it says no more: of a tunnel */
	bool is_waiting;      /* for the client to read */
	bool ends_out;        /* once all is sent */
	struct buf out;       /* for the program */
	size_t sent, counted; /* counted: of its room, among what the server holds */
	struct buf head;
	enum framing framing; /* of its answer */
	uint64_t left;
	struct chunked chunked;
};

static struct proxy *proxy_of(struct exchange *x)
{
	return ((struct request *)x->of)->of;
}

static void on_ready(void *of, uint32_t events);

/* Nothing is to be sent: any more, or for now. */
static void empty_out(struct proxy *p, bool is_kept)
{
	if (is_kept && p->out.room <= KEPT)
		buf_reset(&p->out);
	else
		buf_done(&p->out);
	p->sent = 0;
	exchange_count(p->q->x, &p->counted, p->out.room);
}

/* The connection inside is over; the exchange may go on, and drops what still comes. */
static void hang_up(struct proxy *p)
{
	struct serve *serve = p->q->serve;

	p->call = call_cancel(serve->fleet, p->call);
	p->timer = loop_cancel(serve->loop, p->timer);
	p->watch = loop_forget(serve->loop, p->watch);
	p->ends = registry_forget(serve->registry, p->ends);
	p->fd = fd_close(p->fd);
	p->is_deaf = true;
	empty_out(p, false);
}

static void proxy_gone(struct request *q)
{
	struct proxy *p = q->of;

	hang_up(p);
	buf_done(&p->head);
	free(p);
}

static void fail(struct proxy *p, const char *words)
{
	struct request *q = p->q;

	hang_up(p);
	answer_error(q, 502, "the program at port %u of the sandbox %s", q->port, words);
}

/* --- to the program --- */

static void expect(struct proxy *p)
{
	struct loop *loop = p->q->serve->loop;
	uint32_t events = 0;
	int r;

	if (!p->is_waiting && !p->is_silent)
		events |= EPOLLIN;
	if (p->sent < p->out.len)
		events |= EPOLLOUT;
	if (p->watch || !events)
		r = loop_change(loop, p->watch, events);
	else
		r = loop_watch(loop, p->fd, events, on_ready, p, &p->watch);
	if (r < 0)
		fail(p, "cannot be waited for");
}

/* How many bytes were taken; is_deaf when none ever will be. */
static size_t send_some(struct proxy *p, const char *data, size_t len)
{
	ssize_t n;

	do
		n = send(p->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
		p->is_deaf = true;
		empty_out(p, false);
	}
	return n > 0 ? (size_t)n : 0;
}

static void flush(struct proxy *p)
{
	while (p->sent < p->out.len) {
		size_t n = send_some(p, p->out.data + p->sent, p->out.len - p->sent);

		p->sent += n;
		if (n == 0 && !p->is_deaf)
			return;
	}
	empty_out(p, true);
	if (p->ends_out && p->fd >= 0)
		(void)!shutdown(p->fd, SHUT_WR);
	exchange_go_on(p->q->x);
}

static void give(struct proxy *p, const void *data, size_t len)
{
	if (p->is_deaf || len == 0)
		return;
	if (buf_add(&p->out, data, len) < 0)
		fail(p, "does not read what is sent to it");
	else
		exchange_count(p->q->x, &p->counted, p->out.room);
}

/* Most goes at once, and is not kept at all. */
static void give_now(struct proxy *p, const char *data, size_t len)
{
	size_t sent = p->out.len == 0 && !p->is_deaf ? send_some(p, data, len) : 0;

	give(p, data + sent, len - sent);
}

/* What was given goes out at once as far as it can; with the rest, the client waits. */
static void push(struct proxy *p)
{
	if (p->is_deaf)
		return;
	flush(p);
	if (p->sent < p->out.len)
		exchange_hold(p->q->x);
	if (p->fd >= 0)
		expect(p);
}

static void on_data(struct exchange *x, const char *data, size_t len)
{
	struct proxy *p = proxy_of(x);

	if (x->head.framing == FRAMING_CHUNKED && p->stage != STAGE_TUNNEL) {
		char size[24];
		int n = snprintf(size, sizeof(size), "%zx\r\n", len);

		give(p, size, (size_t)n);
		give(p, data, len);
		give(p, "\r\n", 2);
	} else {
		give_now(p, data, len);
	}
	push(p);
}

static void on_data_end(struct exchange *x)
{
	struct proxy *p = proxy_of(x);

	if (x->head.framing == FRAMING_CHUNKED)
		give(p, "0\r\n\r\n", 5);
	push(p);
}

static void on_tunnel_end(struct exchange *x)
{
	struct proxy *p = proxy_of(x);

	p->ends_out = true;
	if (!p->is_deaf)
		push(p);
	/* Nobody is left to whom anything could be said. */
	if (p->is_deaf && !p->is_silent)
		exchange_abort(x);
}

/* --- from the program --- */

static void finish(struct proxy *p)
{
	struct exchange *x = p->q->x;

	hang_up(p);
	exchange_end(x);
}

static void give_body(struct proxy *p, const char *data, size_t len)
{
	struct exchange *x = p->q->x;

	if (len > 0)
		exchange_write(x, data, len);
	p->is_waiting = exchange_is_full(x);
}

static void take_chunks(struct proxy *p, const char *data, size_t len)
{
	while (len > 0 && !p->chunked.is_done) {
		struct text piece;
		long n = chunked_take(&p->chunked, data, len, &piece);

		if (n < 0) {
			hang_up(p);
			exchange_abort(p->q->x);
			return;
		}
		give_body(p, piece.data, piece.len);
		data += n;
		len -= (size_t)n;
	}
	if (p->chunked.is_done)
		finish(p);
}

static void take_body(struct proxy *p, const char *data, size_t len)
{
	switch (p->framing) {
	case FRAMING_LENGTH:
		len = MIN(len, p->left);
		p->left -= len;
		give_body(p, data, len);
		if (p->left == 0)
			finish(p);
		return;
	case FRAMING_CHUNKED:
		take_chunks(p, data, len);
		return;
	case FRAMING_UNTIL_END:
		give_body(p, data, len);
		return;
	case FRAMING_NONE:
		finish(p);
		return;
	}
}

/* How long the body is that is announced: -1 where only its end will tell. */
static int64_t length_of(const struct head *head)
{
	if (head->framing == FRAMING_LENGTH)
		return (int64_t)head->length;
	if (head->framing == FRAMING_NONE &&
	    (head->length > 0 || head_find(head, "content-length")))
		return (int64_t)head->length;
	return head->framing == FRAMING_NONE ? 0 : -1;
}

static void begin_answer(struct proxy *p, const struct head *head)
{
	struct exchange *x = p->q->x;

	proxy_response_fields(x, head);
	if (head->status == 101) {
		p->stage = STAGE_TUNNEL;
		exchange_tunnel(x, 101, on_data, on_tunnel_end);
		return;
	}
	p->stage = STAGE_BODY;
	p->framing = head->framing;
	p->left = head->length;
	p->chunked = (struct chunked){ 0 };
	exchange_begin(x, head->status, NULL, length_of(head));
}

/* Whether the answer can be begun: one that only tells of another that follows is left out. */
static bool judge_head(struct proxy *p, const struct head *head)
{
	if (head->status == 101 && !(p->upgrades && head->upgrade)) {
		fail(p, "changed the protocol, and nobody had asked for it");
		return false;
	}
	return head->status >= 200 || head->status == 101;
}

static void take_rest(struct proxy *p, const char *data, size_t len)
{
	if (p->stage == STAGE_TUNNEL)
		give_body(p, data, len);
	else
		take_body(p, data, len);
}

static void take_head(struct proxy *p, const char *data, size_t len)
{
	bool is_for_head = p->q->x->head.method == METHOD_HEAD;
	_cleanup_(buf_done) struct buf all = BUF(0);
	static struct head head;
	const char *why = NULL;
	size_t used = 0;
	long n = 0;

	if (buf_add(&p->head, data, len) < 0) {
		fail(p, "answered with a head that is too long");
		return;
	}
	while (p->stage == STAGE_HEAD && p->fd >= 0) {
		n = head_measure(p->head.data + used, p->head.len - used, &why);
		if (n == 0)
			break;
		if (n < 0 || head_parse_response(p->head.data + used, (size_t)n, is_for_head, &head,
						 &why) < 0) {
			fail(p, "answered with something that is not HTTP");
			return;
		}
		if (judge_head(p, &head))
			begin_answer(p, &head);
		used += (size_t)n;
	}
	if (p->fd < 0)
		return;
	if (p->stage != STAGE_HEAD) {
		all = p->head;
		p->head = BUF(p->head.max);
		take_rest(p, all.data + used, all.len - used);
		return;
	}
	memmove(p->head.data, p->head.data + used, p->head.len - used);
	p->head.len -= used;
}

static void on_broken(void *of)
{
	struct proxy *p = of;

	p->timer = 0;
	if (p->stage == STAGE_HEAD) {
		fail(p, p->head.len > 0 ? "ended the connection within the head of its answer"
					: "ended the connection without an answer");
		return;
	}
	hang_up(p);
	exchange_abort(p->q->x);
}

/* Connections break when a sandbox ends, and then that is what is to be told: it is known in a moment. */
static void break_off(struct proxy *p)
{
	struct loop *loop = p->q->serve->loop;

	p->is_deaf = p->is_silent = true;
	p->watch = loop_forget(loop, p->watch);
	p->fd = fd_close(p->fd);
	if (loop_after(loop, BREAK_MS, on_broken, p, &p->timer) < 0)
		on_broken(p);
}

/* The end of what the program says; is_reset: and not as an end is told. */
static void take_end(struct proxy *p, bool is_reset)
{
	if (is_reset || p->stage == STAGE_HEAD) {
		break_off(p);
	} else if (p->stage == STAGE_TUNNEL) {
		p->is_silent = true;
		exchange_end(p->q->x);
	} else if (p->framing == FRAMING_UNTIL_END) {
		finish(p);
	} else {
		break_off(p);
	}
}

static void receive(struct proxy *p)
{
	static char data[READ];
	ssize_t n;

	do
		n = recv(p->fd, data, sizeof(data), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0)
		take_end(p, n < 0);
	else if (p->stage == STAGE_HEAD)
		take_head(p, data, (size_t)n);
	else
		take_rest(p, data, (size_t)n);
}

static void on_drained(struct exchange *x)
{
	struct proxy *p = proxy_of(x);

	p->is_waiting = false;
	if (p->fd >= 0)
		expect(p);
}

static void on_ready(void *of, uint32_t events)
{
	struct proxy *p = of;

	if (events & EPOLLOUT)
		flush(p);
	if (!p->is_waiting && !p->is_silent && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		receive(p);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		/* Told again and again. What is unread is read once the client has room for it. */
		if (p->is_silent)
			hang_up(p);
		else if (events & EPOLLERR)
			take_end(p, true);
		else
			p->watch = loop_forget(p->q->serve->loop, p->watch);
	}
	if (p->fd >= 0)
		expect(p);
}

/* --- the connection --- */

/* What comes from inside as a connection must be one: nothing else that can be passed has these. */
static bool is_connection(int fd)
{
	int type = 0, domain = 0, listens = 1;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       (domain == AF_INET || domain == AF_INET6) &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && !listens;
}

static void on_sandbox_end(void *of)
{
	struct proxy *p = of;
	struct request *q = p->q;

	p->ends = 0;
	hang_up(p);
	answer_gone(q, q->sandbox, 0);
}

static void begin_request(struct proxy *p)
{
	struct request *q = p->q;
	struct exchange *x = q->x;

	p->stage = STAGE_HEAD;
	p->upgrades = proxy_upgrades(&x->head);
	p->out = BUF(PENDING);
	p->head = BUF(HEAD_MAX + READ);
	q->held = registry_find(q->serve->registry, q->sandbox, NULL);
	if (proxy_request_head(q, p->upgrades, &p->out) < 0 ||
	    loop_watch(q->serve->loop, p->fd, EPOLLIN, on_ready, p, &p->watch) < 0) {
		hang_up(p);
		answer_error(q, 503, "out of memory");
		return;
	}
	exchange_count(x, &p->counted, p->out.room);
	x->drained = on_drained;
	if (x->head.framing != FRAMING_NONE)
		exchange_stream(x, on_data, on_data_end);
	push(p);
}

/* What init or the warden said instead of a connection. */
static void dial_failed(struct proxy *p, int code, const char *text)
{
	struct request *q = p->q;
	struct err err = ERR_NONE;

	hang_up(p);
	err_set(&err, -EIO, "%s", text);
	switch (code) {
	case ECONNREFUSED:
		answer_gone(q, q->sandbox, q->port);
		return;
	case ESRCH:
		answer_gone(q, q->sandbox, 0);
		return;
	case EAGAIN:
	case EUSERS:
	case ENOMEM:
	case ENOBUFS:
	case EMFILE:
	case ENFILE:
	case ETOOMANYREFS:
		exchange_header(q->x, "Retry-After", "1");
		answer_error(q, 503, "%s", err.text);
		return;
	case EACCES:
	case EPERM:
	case EAFNOSUPPORT:
		answer_error(q, 502,
			     "%s: only a sandbox with a network of its own (the container tier) "
			     "has ports that can be reached",
			     err.text);
		return;
	default:
		answer_error(q, 502, "port %u of this sandbox cannot be reached: %s", q->port,
			     err.text);
		return;
	}
}

static void on_message(void *of, struct message *m, bool is_last)
{
	struct proxy *p = of;

	if (is_last)
		p->call = 0;
	p->timer = loop_cancel(p->q->serve->loop, p->timer);
	if (m->type != MESSAGE_CONNECTED) {
		dial_failed(p, (int)message_number(m, FIELD_CODE, EIO),
			    message_text(m, FIELD_TEXT, ""));
		return;
	}
	p->fd = message_take_descriptor(m, 0);
	if (p->fd < 0 || !is_connection(p->fd)) {
		hang_up(p);
		answer_error(p->q, 502, "the sandbox did not give a connection");
		return;
	}
	begin_request(p);
}

static void on_dial_time(void *of)
{
	struct proxy *p = of;

	p->timer = 0;
	hang_up(p);
	answer_error(p->q, 504, "port %u of the sandbox does not answer", p->q->port);
}

static void dial(struct proxy *p)
{
	struct request *q = p->q;
	struct draft d = DRAFT(MESSAGE_DIAL, 0);
	struct err err = ERR_NONE;
	int r;

	draft_number(&d, FIELD_PORT, q->port);
	r = call_start(q->serve->fleet, q->sandbox, &d, NULL, 0, on_message, p, &p->call, &err);
	if (r == 0)
		r = registry_on_end(q->serve->registry, q->sandbox, on_sandbox_end, p, &p->ends);
	if (r == 0)
		r = loop_after(q->serve->loop, DIAL_MS, on_dial_time, p, &p->timer);
	if (r < 0)
		dial_failed(p, -r, err.text[0] ? err.text : "out of memory");
}

bool proxy_may(struct request *q)
{
	const struct text *token = head_find(&q->x->head, "e2b-traffic-access-token");

	if (!q->held->traffic_token[0] || secret_is(token, q->held->traffic_token))
		return true;
	answer_error(q, 403, "%s",
		     token ? "this traffic access token is not that of the sandbox"
			   : "ports of this sandbox need the header e2b-traffic-access-token");
	return false;
}

void proxy_handle(struct request *q)
{
	struct proxy *p = calloc(1, sizeof(*p));

	if (!p) {
		answer_error(q, 503, "out of memory");
		return;
	}
	p->q = q;
	p->fd = -EBADF;
	q->of = p;
	q->gone = proxy_gone;
	dial(p);
}
