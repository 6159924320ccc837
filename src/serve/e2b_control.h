/*
 * e2b_control.h - what the files of the field's control plane share (private to e2b_*.c of that plane)
 *
 * The shapes are those that the unmodified clients of the field want: an error is {"code", "message"}, a success has
 * exactly the status that its route names, fields that are called required are always there.
 *
 * Most of what is begun for a request ends in a later turn, when the client may have left. An errand stands
 * between the two:
 *
 *	struct errand *errand = errand_begin(q, held->id, on_killed);
 *	if (errand)
 *		errand_check(errand, registry_kill(registry, errand->id, errand_done, errand, &err), &err);
 *
 * on_killed() is called with the request if that is still there, and answers it.
 */
#ifndef BRIG_SERVE_E2B_CONTROL_H
#define BRIG_SERVE_E2B_CONTROL_H

#include "serve/extra.h"
#include "serve/make.h"
#include "serve/serve.h"

#define E2B_VERSION \
	"0.6.13" /* of the agent inside, as clients compare it: all they know is there */
#define E2B_CLIENT     "brig" /* clientID, which nobody uses any more and all require */
#define E2B_DOMAIN_MAX 320
#define E2B_PAGE_MAX   100 /* entries of a list */

/* --- e2b_answer.c --- */

/* {"code", "message"}; it is final: nobody has to ask again. */
void refuse(struct request *q, unsigned int status, const char *fmt, ...) _printf_(3, 4);
void refuse_err(struct request *q, const struct err *err);
void refuse_full(struct request *q, unsigned int wait_s, const struct err *err); /* 429 */
void refuse_sandbox(struct request *q, const char *id); /* 404: none, or another tenant's */
unsigned int status_of(const struct err *err);

/* The id of the path without what old clients put behind a dash. "": it cannot be one. */
void sandbox_id(const struct request *q, char ret_id[static TRACE_ID_SIZE]);

/* The sandbox of the path, if it is this tenant's; else NULL, and it was answered. */
struct held *own_sandbox(struct request *q);

struct errand {
	struct request *q; /* NULL: the client has left */
	struct serve *serve;
	char id[TRACE_ID_SIZE], tenant[TENANT_NAME_MAX + 1];
	void (*then)(struct request *q, const char *id);
};

/* NULL: out of memory, and it was answered. From here until then() the request's gone() is the errand's. */
struct errand *errand_begin(struct request *q, const char *id,
			    void (*then)(struct request *q, const char *id));
void errand_done(void *of, const struct err *err); /* a registry_done; frees it */
void errand_check(struct errand *errand, int r,
		  const struct err *err); /* r < 0: it did not begin */

/* --- pages: what comes behind what a client has seen --- */

struct page {
	size_t limit;
	uint64_t time; /* of the last one seen; has_token */
	char id[40];
	bool has_token;
	bool is_oldest_first; /* else the newest */
};

/* limit and nextToken of the query. False: it was answered. */
bool page_read(struct request *q, struct page *ret_page);
/* Whether this one comes behind the last one seen; and which of two comes first, as qsort() wants it. */
bool page_is_behind(const struct page *page, uint64_t time, const char *id);
int page_order(bool is_oldest_first, uint64_t time_a, const char *a, uint64_t time_b,
	       const char *b);
void page_next(struct request *q, uint64_t time, const char *id); /* x-next-token */

/* A whole number of the query; absent: *value stays. False: it was answered. */
bool query_number(struct request *q, const char *name, uint64_t most, uint64_t *value);

/* --- e2b_shape.c --- */

/* What the client puts behind "PORT-ID.": the daemon's domain, else the Host that it used itself. */
void shape_domain(const struct request *q, char ret_domain[static E2B_DOMAIN_MAX]);

struct node *shape_sandbox(const struct held *held,
			   const char *domain); /* of create, connect, fork */
struct node *shape_listed(const struct held *held);
struct node *shape_detail(const struct held *held, const char *domain);
struct node *shape_time(uint64_t ms);

/* What is reported where nothing limits a sandbox is the host's. */
unsigned int shape_cpus(const struct held *held);
uint64_t shape_memory(const struct held *held);
uint64_t shape_disk(const struct held *held);

/* --- the handlers, by file --- */

/* e2b_create.c */
void control_create(struct request *q);    /* POST /sandboxes */
void control_create_v2(struct request *q); /* POST /v2/sandboxes */

/* e2b_life.c */
void control_connect(struct request *q);
void control_connect_v2(struct request *q);
void control_info(struct request *q);
void control_kill(struct request *q);
void control_timeout(struct request *q);
void control_refresh(struct request *q);
void control_pause(struct request *q);
void control_resume(struct request *q);

/* e2b_list.c */
void control_list(struct request *q);
void control_list_v2(struct request *q);

/* e2b_network.c */
void control_network(struct request *q);

/* e2b_snapshot.c, e2b_fork.c */
void control_snapshot(struct request *q);
void control_snapshots(struct request *q);
void control_delete_template(struct request *q);
void control_fork(struct request *q);

/* e2b_metrics.c, e2b_logs.c */
void control_metrics(struct request *q);
void control_metrics_many(struct request *q);
void control_logs(struct request *q);
void control_logs_v2(struct request *q);

#endif
