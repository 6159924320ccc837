/*
 * e2b_files.c - the routes of E2B's agent that are about files, and who may use them
 *
 * GET and POST /files can be used without a token by an address that is signed (signature.h), which need not even
 * say which sandbox it is for. All others need the token, and health nothing at all: that it is answered says
 * that the sandbox lives. Only where it would have to be woken for that, the token is needed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "serve/e2b_files.h"
#include "serve/signature.h"

#define SIGNATURE_SIZE 64
#define SAMPLE_MS      100

/* --- who may --- */

struct claim {
	struct agent_place place;
	char given_path[PATH_MAX]; /* as in the query: that is what is signed */
	char signed_user[AGENT_USER];
	char signature[SIGNATURE_SIZE], expiration[24];
	bool has_signature, has_expiration;
};

static int optional(const struct request *q, const char *name, char *ret, size_t size,
		    bool *ret_is_there)
{
	int r = query_get(q, name, 0, ret, size);

	*ret_is_there = r == 0;
	if (r < 0)
		ret[0] = '\0';
	return r == -ENOENT ? 0 : r;
}

/* False: it was answered. */
static bool read_claim(struct request *q, struct claim *c)
{
	bool has_path, has_user;

	if (optional(q, "path", c->given_path, sizeof(c->given_path), &has_path) < 0 ||
	    optional(q, "signature", c->signature, sizeof(c->signature), &c->has_signature) < 0 ||
	    optional(q, "signature_expiration", c->expiration, sizeof(c->expiration),
		     &c->has_expiration) < 0) {
		answer_error(q, 400, "the query is not properly coded, or too long");
		return false;
	}
	if (optional(q, "username", c->signed_user, sizeof(c->signed_user), &has_user) < 0 ||
	    agent_user(q, c->place.user) < 0) {
		answer_error(q, 401, "invalid username: '%s'", c->signed_user);
		return false;
	}
	return true;
}

static struct signature signature_of(const struct claim *c, const char *operation)
{
	return (struct signature){ .path = c->given_path,
				   .operation = operation,
				   .user = c->signed_user,
				   .expiration = c->has_expiration ? c->expiration : NULL,
				   .given = c->signature };
}

/* False: it was answered, or goes another way. */
static bool may(struct request *q, const struct claim *c, const char *operation)
{
	const struct text *token = head_find(&q->x->head, "x-access-token");
	struct signature s = signature_of(c, operation);
	struct held *held;
	int r;

	if (!q->held) {
		held = signature_find(q->serve->registry, &s);
		if (!held)
			answer_error(q, 401, "invalid signature");
		else
			route_to_sandbox(q, held->id);
		return false;
	}
	if (!q->held->token[0])
		return true;
	if (token) {
		if (secret_is(token, q->held->token))
			return true;
		answer_error(q, 401, "access token present in header but does not match");
		return false;
	}
	if (!c->has_signature) {
		answer_error(q, 401, "missing signature query parameter");
		return false;
	}
	r = signature_check(&s, q->held->token, time_now() / 1000);
	if (r < 0)
		answer_error(q, 401, "%s",
			     r == -ETIME ? "signature is already expired" : "invalid signature");
	return r == 0;
}

static bool may_read(struct request *q)
{
	struct claim c;

	return read_claim(q, &c) && may(q, &c, "read");
}

static bool may_write(struct request *q)
{
	struct claim c;

	return read_claim(q, &c) && may(q, &c, "write");
}

static bool may_look(struct request *q)
{
	const struct held *held = q->held;

	if (held->state != HELD_PAUSED || !held->token[0] ||
	    secret_is(head_find(&q->x->head, "x-access-token"), held->token))
		return true;
	answer_error(q, 401, "the sandbox is paused: its access token is needed to wake it");
	return false;
}

/* --- /files --- */

static bool find_place(struct request *q, struct claim *c)
{
	struct err err = ERR_NONE;

	if (agent_path(q, c->given_path, c->place.path, &err) == 0)
		return true;
	agent_fail(q, &err, "");
	return false;
}

static void get_files(struct request *q)
{
	struct claim c;

	if (read_claim(q, &c) && find_place(q, &c))
		e2b_download(q, &c.place);
}

static void post_files(struct request *q)
{
	struct claim c;

	if (read_claim(q, &c))
		e2b_upload(q, c.place.user, c.given_path);
}

/* --- /health, /envs, /metrics --- */

static void get_health(struct request *q)
{
	answer_empty(q, 204);
}

static void get_envs(struct request *q)
{
	const char *env = q->held->env && q->held->env[0] ? q->held->env : "{}";

	exchange_answer(q->x, 200, "application/json", env, strlen(env));
}

/* Two looks a moment apart: how much of the processors is used now. */
struct sampling {
	struct request *q;
	call_id call;
	loop_id timer;
	bool has_first;
	uint64_t first_cpu, first_at; /* us, ms */
};

static void sampling_gone(struct request *q)
{
	struct sampling *s = q->of;

	call_cancel(q->serve->fleet, s->call);
	loop_cancel(q->serve->loop, s->timer);
	free(s);
}

static void answer_metrics(struct sampling *s, const struct message *m)
{
	struct request *q = s->q;
	const struct held *held = registry_find(q->serve->registry, q->sandbox, NULL);
	uint64_t cpu = message_number(m, FIELD_CPU, 0), now = loop_now(q->serve->loop);
	uint64_t used = message_number(m, FIELD_MEMORY, 0);
	uint64_t total = held && held->memory ? held->memory : message_number(m, FIELD_LIMIT, 0);
	double count = held && held->cpu > 0 ? held->cpu : 1;
	double busy = 0;
	char text[512];

	if (cpu > s->first_cpu && now > s->first_at)
		busy = (double)(cpu - s->first_cpu) / 10 / (double)(now - s->first_at) / count;
	snprintf(text, sizeof(text),
		 "{\"ts\":%llu,\"cpu_count\":%u,\"cpu_used_pct\":%.2f,\"mem_total\":%llu,"
		 "\"mem_used\":%llu,\"mem_cache\":0,\"mem_total_mib\":%llu,\"mem_used_mib\":%llu,"
		 "\"disk_used\":%llu,\"disk_total\":%llu}",
		 (unsigned long long)(time_now() / 1000), (unsigned int)(count < 1 ? 1 : count),
		 busy, (unsigned long long)total, (unsigned long long)used,
		 (unsigned long long)(total / MIB), (unsigned long long)(used / MIB),
		 (unsigned long long)message_number(m, FIELD_DISK, 0),
		 (unsigned long long)message_number(m, FIELD_DISK_SIZE, held ? held->disk : 0));
	exchange_answer(q->x, 200, "application/json", text, strlen(text));
}

static void sample(void *of);

static void on_status(void *of, struct message *m, bool is_last)
{
	struct sampling *s = of;
	struct err err = ERR_NONE;

	if (is_last)
		s->call = 0;
	if (m->type != MESSAGE_STATUS_IS) {
		(void)agent_error(m, &err);
		agent_fail(s->q, &err, "");
	} else if (s->has_first) {
		answer_metrics(s, m);
	} else {
		s->has_first = true;
		s->first_cpu = message_number(m, FIELD_CPU, 0);
		s->first_at = loop_now(s->q->serve->loop);
		if (loop_after(s->q->serve->loop, SAMPLE_MS, sample, s, &s->timer) < 0)
			agent_refuse(s->q, -ENOMEM, "out of memory");
	}
}

static void sample(void *of)
{
	struct sampling *s = of;
	struct draft d = DRAFT(MESSAGE_STATUS, 0);
	struct err err = ERR_NONE;

	s->timer = 0;
	if (call_start(s->q->serve->fleet, s->q->sandbox, &d, NULL, 0, on_status, s, &s->call,
		       &err) < 0)
		agent_fail(s->q, &err, "");
}

static void get_metrics(struct request *q)
{
	struct sampling *s = calloc(1, sizeof(*s));

	if (!s) {
		agent_refuse(q, -ENOMEM, "out of memory");
		return;
	}
	s->q = q;
	q->of = s;
	q->gone = sampling_gone;
	sample(s);
}

#define RPC(name, handler)                                                        \
	{                                                                         \
		.method = METHOD_POST, .path = "/filesystem.Filesystem/" name,    \
		.need = NEED_SANDBOX, .handle = (handler), .body = SERVE_JSON_MAX \
	}
#define GET(where, handler)                                                                      \
	{                                                                                        \
		.method = METHOD_GET, .path = (where), .need = NEED_SANDBOX, .handle = (handler) \
	}
#define OPEN(verb, where, check, handler)                                                    \
	.method = METHOD_##verb, .path = (where), .need = NEED_SANDBOX_OPEN, .may = (check), \
	.handle = (handler)

const struct route file_routes[] = {
	{ OPEN(GET, "/files", may_read, get_files) },
	{ OPEN(POST, "/files", may_write, post_files), .streams = true },
	{ OPEN(GET, "/health", may_look, get_health) },
	GET("/envs", get_envs),
	GET("/metrics", get_metrics),
	RPC("Stat", e2b_stat),
	RPC("MakeDir", e2b_make),
	RPC("Move", e2b_move),
	RPC("ListDir", e2b_list),
	RPC("Remove", e2b_remove),
	RPC("CreateWatcher", e2b_create_watcher),
	RPC("GetWatcherEvents", e2b_watcher_events),
	RPC("RemoveWatcher", e2b_remove_watcher),
	{ .method = METHOD_POST,
	  .path = "/filesystem.Filesystem/WatchDir",
	  .need = NEED_SANDBOX,
	  .handle = e2b_watch,
	  .streams = true },
	{ 0 },
};
