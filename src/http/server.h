/*
 * server.h - HTTP/1.1 to clients that nobody trusts
 *
 * A server listens and reads requests; each becomes an exchange, which is given to the one callback that
 * the server was made with as soon as its head is there. From then on until its gone() was called, exactly
 * once, the exchange can be used, by whoever got it. gone() comes when the answer has been sent to its last
 * byte, or the client has left, or took too long; whichever it is, nothing of the exchange may be touched
 * afterwards.
 *
 *	static void on_request(void *of, struct exchange *x)
 *	{
 *		exchange_collect(x, 64 * KIB, on_body);         // whole body, then:
 *	}
 *	static void on_body(struct exchange *x, const char *body, size_t len)
 *	{
 *		exchange_header(x, "X-Next-Token", token);
 *		exchange_answer(x, 200, "application/json", json, json_len);
 *	}
 *
 * An answer of unknown length is begun, written piece by piece and ended; each turn of the loop sends what
 * was written. Who writes much looks at exchange_is_full() and goes on when drained() is called: buffers
 * are bounded, and a client that reads nothing for SERVER_STALL_MS loses its connection.
 *
 * The body of a request is read only when it was asked for (collect or stream). One that nobody asked for is
 * thrown away if it is short, and else the connection is closed after the answer.
 *
 * TLS is behind the same functions.
 */
#ifndef BRIG_HTTP_SERVER_H
#define BRIG_HTTP_SERVER_H

#include <sys/socket.h>

#include "base/err.h"
#include "http/head.h"
#include "http/loop.h"

#define SERVER_HEAD_MS     10000   /* from the first byte of a head to its last */
#define SERVER_BODY_MS     60000   /* without a byte of a body that is waited for */
#define SERVER_PATIENT_MS  3600000 /* likewise, of one that may rest (exchange_be_patient) */
#define SERVER_STALL_MS    60000   /* without a byte taken by the client */
#define SERVER_IDLE_MS     300000 /* between requests (the clients of the field keep theirs as long) */
#define SERVER_CONNECTIONS 16384
#define SERVER_MEMORY      (64 * MIB)
#define EXCHANGE_FULL      (512 * KIB)
#define EXCHANGE_MAX       (8 * MIB) /* of what waits to be sent: beyond, the connection is closed */

struct server;
struct tls; /* http/tls.h */

struct exchange {
	struct server *server;
	struct loop *loop;
	uint64_t number;  /* of the request, for logs */
	struct head head; /* as long as the exchange lives */
	bool is_secure;   /* TLS */
	char peer[64];    /* "127.0.0.1:4711", "unix" */
	uint64_t began;   /* loop_now() */

	/* Whoever handles it: set these before returning from the callback. */
	void *of;
	void (*gone)(struct exchange *x);    /* NULL: nothing to be cleared up */
	void (*drained)(struct exchange *x); /* may be written to again; NULL: not interesting */
	unsigned int status;                 /* of the answer, once it was begun; 0 */
	uint64_t sent;                       /* bytes of the answer's body */
};

struct server_setup {
	void (*request)(void *of, struct exchange *x);
	void (*logged)(void *of, const struct exchange *x); /* right before gone(); NULL: none */
	void *of;
};

[[nodiscard]] int server_new(struct loop *loop, const struct server_setup *setup,
			     struct server **ret_server);
/* Takes the listening socket (TCP or UNIX). tls: NULL for none, else held as long as the server. */
[[nodiscard]] int server_listen(struct server *server, int listener, struct tls *tls);
/* For the connections that come from now on, where there was one already. */
void server_set_tls(struct server *server, struct tls *tls);
void server_set_limit(struct server *server, size_t connections); /* else SERVER_CONNECTIONS */
/*
 * For collected bodies and unsent output of all connections together; else SERVER_MEMORY. From the half on,
 * exchange_is_full() comes sooner. Once all is used up, a body is refused with 503, and where an answer must
 * wait all the same, the connection with the most unsent is broken. Short answers always find room.
 */
void server_set_memory(struct server *server, size_t bytes);
size_t server_held(const struct server *server); /* of it */
/* No new connections, none is kept alive; drained() once the last exchange has ended. */
void server_drain(struct server *server, loop_call drained, void *of);
size_t server_connections(const struct server *server);
void server_free(struct server *server); /* closes everything; gone() is called for what is open */

/* --- the body of the request --- */

/* All of it, then body(). Longer than max: answered with 413, or 503 where there is no memory for it. The memory lasts until gone(). */
void exchange_collect(struct exchange *x, size_t max,
		      void (*body)(struct exchange *x, const char *data, size_t len));
/* As it comes; then end(). What was given must be used up at once: exchange_hold() keeps more from coming
 * until exchange_go_on(). */
void exchange_stream(struct exchange *x,
		     void (*data)(struct exchange *x, const char *data, size_t len),
		     void (*end)(struct exchange *x));
/* A body that is a conversation: its bytes come when there is something to say. */
void exchange_be_patient(struct exchange *x);
/* What somebody keeps of it for later counts among what the server holds: *counted so far, and now so much. Zero
 * before gone() has returned. */
void exchange_count(struct exchange *x, size_t *counted, size_t now);
void exchange_hold(struct exchange *x);
void exchange_go_on(struct exchange *x);

/* --- the answer --- */

/* Before it is begun. The name must be a token; a value with odd bytes is dropped whole. What frames the answer
 * (Content-Length, Transfer-Encoding, Connection, Keep-Alive) is the server's own, and dropped too. */
void exchange_header(struct exchange *x, const char *name, const char *value);
void exchange_field(struct exchange *x, const struct text *name, const struct text *value);

/* Whole. type NULL: no body, no Content-Type (Content-Length: 0, but for 204 and 304). */
void exchange_answer(struct exchange *x, unsigned int status, const char *type, const void *body,
		     size_t len);

/* Piece by piece: chunked, or as long as `length` says (-1: unknown). */
void exchange_begin(struct exchange *x, unsigned int status, const char *type, int64_t length);
void exchange_write(struct exchange *x, const void *data, size_t len);
void exchange_end(struct exchange *x);
bool exchange_is_begun(const struct exchange *x);
bool exchange_is_full(const struct exchange *x); /* wait for drained() */

/* Breaks the connection, so that the client sees that the answer is not whole. gone() is called soon. */
void exchange_abort(struct exchange *x);

/* The connection is closed after the answer: for when its state is unsure. */
void exchange_close(struct exchange *x);

/*
 * From here on bytes go both ways as they are (after 101, with the headers set before, or with status 0
 * nothing at all is sent first). data() gets what the client sends, also what came behind the head already;
 * end() is the end of that direction. exchange_write() sends; exchange_end() ends our direction.
 */
void exchange_tunnel(struct exchange *x, unsigned int status,
		     void (*data)(struct exchange *x, const char *data, size_t len),
		     void (*end)(struct exchange *x));

#endif
