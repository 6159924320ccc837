/*
 * server_internal.h - connections and exchanges from within
 *
 * One connection has at most one exchange at a time; what a client sends ahead stays where it is. All that
 * happens to a connection happens in connection_work(): events, times and the exchange's own functions only
 * note something and see to it that it is called. So the functions of an exchange never call back into
 * whoever called them, and gone() is called with nothing of ours on the stack that needs the exchange.
 *
 * An idle connection holds no buffer: the server has one to read into, and what was not used of it at the
 * end of a turn is copied away.
 */
#ifndef BRIG_HTTP_SERVER_INTERNAL_H
#define BRIG_HTTP_SERVER_INTERNAL_H

#include <sys/uio.h>

#include "base/buf.h"
#include "http/chunked.h"
#include "http/server.h"

#define INPUT_READ    (64 * KIB) /* at once */
#define INPUT_LEAN    (4 * KIB)  /* likewise, where much is kept already */
#define INPUT_ROOM    (HEAD_MAX + INPUT_READ)
#define OUTPUT_ROOM   (16 * KIB) /* of a buffer that is kept for the next */
#define KEPT_MAX      (64 * MIB) /* of heads that are not whole, all together */
#define DISCARD_MAX   (64 * KIB) /* of a body that nobody asked for */
#define DISCARD_MS    5000
#define LINGER_MS     2000
#define LINGER_MAX    (1 * MIB)
#define PATIENCE      512 /* steps with one connection in one turn */
#define SPARE_COUNT   64  /* exchanges and buffers that are kept for the next */
#define HEADERS_MAX   (64 * KIB)
#define LISTENERS_MAX 8

enum body {
	BODY_UNASKED,
	BODY_COLLECT,
	BODY_STREAM,
	BODY_TUNNEL,
	BODY_DISCARD,
	BODY_TOLD, /* its end was told, or it is no longer of interest */
};

enum answer { ANSWER_NONE, ANSWER_BEGUN, ANSWER_ENDED };

/* An exchange as it really is. */
struct inner {
	struct exchange x; /* first: the address is the same */
	struct connection *c;
	struct inner *next_spare;
	char *text; /* of the head */
	size_t text_room;

	enum body body;
	bool is_whole; /* nothing more of the body will come */
	bool is_held, is_patient, wants_continue;
	uint64_t body_left; /* FRAMING_LENGTH */
	struct chunked chunked;
	size_t collect_max, discarded;
	struct buf collected;
	void (*on_body)(struct exchange *x, const char *data, size_t len);
	void (*on_data)(struct exchange *x, const char *data, size_t len);
	void (*on_end)(struct exchange *x);

	enum answer answer;
	bool is_tunnel, is_shut; /* is_shut: our direction of it */
	bool is_chunked;         /* the answer */
	bool is_bodyless;        /* HEAD, 204, 304: what is written is dropped */
	bool has_date, was_full;
	int64_t answer_left; /* -1: of unknown length */
	struct buf headers;
};

enum wait {
	WAIT_NOTHING,
	WAIT_IDLE,
	WAIT_HEAD,
	WAIT_BODY,
	WAIT_PATIENT,
	WAIT_DISCARD,
	WAIT_STALL,
	WAIT_LINGER,
};

enum stage {
	STAGE_IDLE, /* between requests, nothing of the next one is there */
	STAGE_HEAD, /* a part of a head is there, or a handshake is going on */
	STAGE_EXCHANGE,
	STAGE_LAST,   /* no exchange, but something is still to be sent, then it is closed */
	STAGE_LINGER, /* our direction has ended, so that the client can read what we sent */
};

struct connection {
	struct server *server;
	struct connection *next, *previous;        /* of the list of its stage: idle or busy */
	struct connection *next_dirty, **dirty_at; /* NULL: not among them */
	struct inner *inner;                       /* NULL: none */
	void *tls;                                 /* SSL, NULL: plain */
	char *kept;                                /* input that was not used yet */
	char *out;
	uint32_t kept_len, kept_room;
	uint32_t measured; /* so much of a head was looked at, and is not whole */
	uint32_t out_from, out_end, out_room;
	uint64_t deadline, timer_at; /* 0: none */
	loop_id watch, timer;
	uint32_t lingered;
	int patience;
	int fd;
	enum stage stage;
	enum wait wait;
	bool is_idle_listed, is_working;
	bool is_ended;         /* the client's direction */
	bool is_broken;        /* nothing more can be done with it */
	bool is_blocked;       /* the kernel takes no more for now */
	bool has_moved;        /* since the last look at the time: bytes came or went */
	bool closes;           /* after this exchange */
	bool reads, hears_end; /* what the watch tells, when wanted and for a while after */
	bool tls_wants_write, tls_has_more;
	bool is_secured; /* a byte came through, so the handshake is over */
	bool is_greeted; /* by an empty line */
	char peer[64];
};

struct list {
	struct connection *first, *last;
};

struct server {
	struct loop *loop;
	struct server_setup setup;
	struct listener {
		struct server *server;
		int fd;
		struct tls *tls;
		loop_id watch;
		bool is_unix;
	} listeners[LISTENERS_MAX];
	size_t listener_count;
	loop_id accept_again;

	struct list idle, busy; /* idle: the one that would have to go next first */
	size_t connection_count, exchange_count, limit;
	size_t kept_room; /* of all connections */
	size_t held;      /* bytes of collected bodies and of unsent output, of all connections */
	size_t memory;    /* that may be held */
	uint64_t number;

	struct connection *dirty;
	loop_id soon;

	struct inner *spare_inners;
	size_t spare_inner_count;
	char *spare_outs[SPARE_COUNT];
	size_t spare_out_count;

	bool is_draining;
	loop_call drained;
	void *drained_of;
	loop_id drained_soon;

	uint64_t date_second;
	char date[40];

	size_t input_from, input_end; /* what of the input is not used yet, in a turn */
	char input[INPUT_ROOM];
};

static inline struct inner *inner_of(const struct exchange *x)
{
	return (struct inner *)(uintptr_t)x;
}

/* Room for so many bytes more among what is held for all connections. */
static inline bool server_has_room(const struct server *server, size_t len)
{
	return server->held <= server->memory && len <= server->memory - server->held;
}

/* So much may wait for one client. Less once the half is used: the rest is for what others ask. */
static inline size_t server_full_at(const struct server *server)
{
	return server->held < server->memory / 2 ? EXCHANGE_FULL : OUTPUT_ROOM;
}

static inline size_t connection_waiting(const struct connection *c)
{
	return c->out_end - c->out_from;
}

/* --- connection.c --- */

[[nodiscard]] int connection_new(struct server *server, int fd, void *tls, const char *peer);
void connection_free(struct connection *c); /* gone() for what is open */
/* Soon: something was written, asked for, broken. */
void connection_touch(struct connection *c);
/* The end of the client's direction means that it has left: it asked, and waits for the answer. */
static inline bool leaves_if_ended(const struct connection *c)
{
	return c->inner && !c->inner->is_tunnel && c->inner->is_whole &&
	       c->inner->answer != ANSWER_ENDED;
}

/* --- server.c --- */

void server_look_drained(struct server *server);
void server_look_roomy(struct server *server); /* a connection has ended */

/* --- input.c --- */

void input_load(struct connection *c); /* what was kept, into the server's input */
void input_read(struct connection *c); /* behind it, what the client sent since */
void input_keep(struct connection *c); /* what nobody used, for later */
void input_drop(struct connection *c);

/* --- output.c --- */

/* Behind what waits already, sent at once where that saves a copy. max: more than so many bytes waiting
 * breaks the connection; so does a large answer for which the server has no memory left. */
void output_add(struct connection *c, const struct iovec *parts, size_t count, size_t max);
void output_flush(struct connection *c);
void output_done(struct connection *c); /* gives the buffer back */
/* The end of our direction. */
void output_shut(struct connection *c);

/* --- body.c: of requests --- */

/* Uses up of the server's input what can be used. True: something happened, look again. */
bool body_work(struct inner *i);
bool body_wants_input(const struct inner *i);
void body_begin(struct inner *i);

/* --- exchange.c --- */

struct inner *inner_new(struct server *server);
void inner_free(struct server *server, struct inner *i); /* NULL allowed */
/* An answer of the server itself; the exchange may have begun one, then the connection breaks. */
void exchange_refuse(struct exchange *x, unsigned int status, const char *words);
#define NO_MEMORY "the server has no memory left for the body; try again soon"
/* The same without an exchange. */
void connection_refuse(struct connection *c, unsigned int status, const char *words);
const char *server_date(struct server *server);

#endif
