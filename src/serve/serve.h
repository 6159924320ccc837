/*
 * serve.h - the daemon: what its parts share, and the tables of routes
 *
 * One process, one loop. A request is looked at once (route.c): which plane it is for (control, a sandbox's
 * own agent, a port of a sandbox, brig's own API, the dashboard), whose key it bears, which row of which
 * table it fits. The row's handler gets a request and answers it, now or later.
 *
 *	{ METHOD_POST, "/sandboxes/{id}/timeout", KEY_USER, set_timeout, ... },
 *
 * Handlers never wait. What they begin elsewhere (a call to a warden, a child) is ended in gone().
 */
#ifndef BRIG_SERVE_SERVE_H
#define BRIG_SERVE_SERVE_H

#include "data/node.h"
#include "http/server.h"
#include "serve/fleet.h"
#include "serve/registry.h"
#include "serve/store.h"

#define SERVE_PARAMETERS 4
#define SERVE_JSON_MAX   (1 * MIB)

/* How it was started: one JSON object from "brig serve" (cli/serve.c), checked there. */
struct settings {
	char listen[128]; /* "127.0.0.1:7070", "[::1]:7070", "unix:/path" */
	char domain
		[256]; /* of Host routing and of the "domain" in answers; "": the address itself */
	char cert[4096], key[4096]; /* TLS: files; "" with is_secure: from brig's own CA */
	bool is_secure;
	bool is_open; /* no key is asked for (loopback only) */
	bool logs_json, is_quiet;
	bool prints_json;  /* what it says when it is ready */
	char policy[4096]; /* of sandboxes, unless the tenant has its own; "": "interpreter" */
	const char *brig;  /* the program beside this one */
};

struct serve {
	struct settings settings;
	struct loop *loop;
	struct server *server;
	struct store *store;
	struct fleet *fleet;
	struct registry *registry;
	uint64_t began; /* ms since 1970 */
	bool is_draining;
	struct tenant open_tenant; /* whose everything is where no key is asked for */
	char address[128];         /* where it listens, as a client writes it: "127.0.0.1:7070" */
	struct counters *counters; /* serve/metrics.h */
	void *process_state, *watch_state, *build_state, *proxy_state,
		*turn_state; /* of the parts of these names */
};

struct request;
typedef void (*route_handler)(struct request *q);

enum route_need {
	NEED_NOTHING,  /* health, the dashboard's files */
	NEED_KEY,      /* a user's key; the request has a tenant */
	NEED_REVIEWER, /* a reviewer's or admin's */
	NEED_ADMIN,    /* of the daemon as a whole */
	NEED_SANDBOX,  /* data plane: a sandbox, by header or Host, with its token */
	NEED_SANDBOX_OPEN, /* data plane, and the route's may() says who (files with signatures, health) */
};

struct route {
	enum method method;
	const char *path; /* parts in braces match one part of the path: "/sandboxes/{id}" */
	enum route_need need;
	route_handler handle;
	bool (*may)(struct request *q); /* NEED_SANDBOX_OPEN. False: it was answered */
	size_t body; /* 0: none is wanted; else a JSON body of at most so many bytes is collected first */
	bool body_is_optional; /* an empty one is no error: q->body is NULL */
	bool streams;  /* the handler takes the body itself (exchange_stream, exchange_collect) */
	bool is_quiet; /* not worth a line in the log unless it fails */
	const struct route_doc *doc; /* of brig's own API: serve/openapi.h; NULL for the others */
};

struct request {
	struct serve *serve;
	struct exchange *x;
	const struct route *route;
	struct text parameters[SERVE_PARAMETERS]; /* in the order of the path; still encoded */
	char parameter[SERVE_PARAMETERS]
		      [256];     /* decoded; too long or odd: the request was refused */
	const struct node *body; /* the parsed JSON, or NULL */
	const char *body_text;
	size_t body_len;
	struct key key;              /* NEED_KEY and above */
	const struct tenant *tenant; /* as it was when the key was checked */
	struct tenant whose;         /* its place */
	char tenant_name[TENANT_NAME_MAX + 1];
	struct held *
		held; /* NEED_SANDBOX: in the registry, may be gone in a later turn: look again by id */
	char sandbox[TRACE_ID_SIZE];
	unsigned int port; /* data plane */
	bool is_connect;   /* errors have the Connect form (text codes) */

	/* How a failure is told where the request is not the field's; NULL: as the field's clients want it. */
	void (*refuse)(struct request *q, const struct err *err);

	/* Of the handler: freed in gone, which is called before the request is freed. */
	void *of;
	void (*gone)(struct request *q);
	struct node *parsed;
};

/* The tables, each ended by a row without a handler. */
extern const struct route
	control_routes[]; /* e2b_control.c and others: control plane of the field */
extern const struct route template_routes[]; /* e2b_template.c */
extern const struct route process_routes[];  /* e2b_process.c: data plane, port 49983 */
extern const struct route file_routes[];     /* e2b_files.c */
extern const struct route v1_routes[];       /* v1.c */
extern const struct route ui_routes[];       /* ui.c */

/* Any other port of a sandbox: HTTP and WebSocket, relayed (proxy.c). */
void proxy_handle(struct request *q);
bool proxy_may(struct request *q); /* the traffic token, before that; false: it was answered */

/* --- daemon.c --- */
int daemon_main(const struct node *request); /* the status to exit with */

/* --- v1_run.c --- */
/* At the start: ends the sandboxes of runs that the daemon before had begun. Their clients are gone. */
void v1_sweep(struct serve *serve);

/* --- route.c --- */
void route_request(void *of, struct exchange *x);
/* To the agent of a sandbox, for who found out only now which one it is; its handler is called anew. */
void route_to_sandbox(struct request *q, const char *id);
void route_logged(void *of, const struct exchange *x); /* counts and logs it */
/* Whether two secrets are the same, in a time that says nothing of where they differ. */
bool secret_is(const struct text *given, const char *secret);

/* --- answer.c: one way to say each thing --- */

void answer_json(struct request *q, unsigned int status, const struct node *node);
void answer_take_json(struct request *q, unsigned int status,
		      struct node *node); /* frees it; NULL: 500 */
void answer_empty(struct request *q, unsigned int status);
/* {"code": status, "message": text}; in the Connect form where the request is one. Also once an answer has
 * been begun: then the connection breaks off. */
void answer_error(struct request *q, unsigned int status, const char *fmt, ...) _printf_(3, 4);
/* The same from -errno and words, as a warden or the store gave them: ENOENT 404, EACCES 403, EEXIST 409,
 * ENOSPC 507, EDQUOT 429, ESRCH 502 (data plane) or 404, EINVAL 400, ... */
void answer_err(struct request *q, const struct err *err);
/* 502 as the field's clients want to see it: the sandbox is gone (or its port is closed: port != 0). */
void answer_gone(struct request *q, const char *id, unsigned int port);

/* Values of a query, decoded into ret (cut off: -EMSGSIZE). -ENOENT: not there. n-th of that name from 0. */
[[nodiscard]] int query_get(const struct request *q, const char *name, size_t n, char *ret,
			    size_t size);

/* A text of the body, or fallback. */
const char *body_text_of(const struct request *q, const char *key, const char *fallback);

/* --- log.c: one line each, text or JSON --- */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
void log_line(enum log_level level, const char *fmt, ...) _printf_(2, 3);
void log_request(const struct exchange *x);
void log_set_json(bool json);
void log_set_quiet(bool quiet); /* no requests */

/* Times, as everybody writes them: ms since 1970, and "2026-01-31T12:00:00.000Z". */
#define TIME_TEXT_SIZE 72 /* of which 25 are used, whatever the compiler fears */
uint64_t time_now(void);
void time_text(uint64_t ms, char ret_text[static TIME_TEXT_SIZE]);

#endif
