/*
 * make.h - a sandbox for a tenant, from the question whether there is room to the line in the store
 *
 *	room       registry_reserve(): the tenant's quota
 *	sandbox    fleet_make() with the policy, the limits and the image
 *	network    the rules that the client asked for, told to the warden before anything runs inside
 *	start      the template's start command, and its ready command until that succeeds
 *	store      registry_add(): from here on the sandbox survives the daemon
 *
 * and only then is anybody told. What fails on the way is ended, and nothing of it is left. Whoever waits
 * may leave (make_leave): then the sandbox is ended as soon as it is there, since nobody knows its id.
 *
 *	struct make_order order = MAKE_ORDER;
 *	order.held.template_id = strdup("base");
 *	order.timeout_ms = 300000;
 *	r = make_begin(serve, tenant, &order, on_made, request, &request->make, &wait_s, err);
 */
#ifndef BRIG_SERVE_MAKE_H
#define BRIG_SERVE_MAKE_H

#include "serve/rules.h"
#include "serve/serve.h"

#define MAKE_POLICY   "interpreter" /* where neither tenant nor daemon have one */
#define MAKE_BASE     "base"        /* the template that is always there */
#define MAKE_READY_MS 20000         /* for the template's ready command to succeed */
#define MAKE_START_MS 300000        /* for an attempt of it to end, or the sandbox's timeout */

/* All of it is taken over by make_begin(), also when it fails. */
struct make_order {
	struct held held;    /* all but tenant, id, started, ends; texts that are NULL become "" */
	uint64_t timeout_ms; /* from when it is there */
	char *policy;        /* a shipped one that narrows the tenant's; NULL or "": none */
	struct strv options; /* of "brig create", beside those that are made from the rest */
	char *image;         /* to start from; NULL or "": none */
	bool has_rules;      /* else the policy's own hold */
	struct rules rules;
	char *start, *ready;  /* commands; NULL or "": none */
	char *user, *workdir; /* of these commands, and of others that do not say */
	char *env;            /* JSON: variables beneath those of held */
};

#define MAKE_ORDER ((struct make_order){ 0 })
void make_order_done(struct make_order *order);

/* Texts, image, sizes and commands of a template. What the order has already stays. */
[[nodiscard]] int make_from_template(struct make_order *order, const struct template *t);

/* All that a sandbox was made with, for another like it: texts, sizes, policy, rules; neither image nor tokens. */
[[nodiscard]] int make_like(struct make_order *order, const struct held *held);

/* By what a client calls it, also "name:default" and "tenant/name"; "base" is always there. -ENOENT. */
[[nodiscard]] int make_find_template(struct serve *serve, const char *tenant, const char *word,
				     struct template *ret_template);

struct make;

/* held: in the registry, good in this turn; or NULL, and the words. */
typedef void (*make_done)(void *of, const struct held *held, const struct err *err);

/*
 * -EDQUOT: over quota, with *ret_wait_s for Retry-After. When it has begun, done() is called once, never
 * from within, unless make_leave() came before it.
 */
[[nodiscard]] int make_begin(struct serve *serve, const struct tenant *tenant,
			     struct make_order *order, make_done done, void *of,
			     struct make **ret_make, unsigned int *ret_wait_s, struct err *err);
void make_leave(struct make *make); /* NULL allowed */

/* The policy that bounds a tenant's sandboxes: by name, and read. */
const char *make_policy_name(const struct serve *serve, const struct tenant *tenant);
[[nodiscard]] int make_ceiling(const struct serve *serve, const struct tenant *tenant,
			       struct policy *ret_policy, struct err *err);

/* How large a sandbox of this tenant becomes: what held asks for, within the ceiling. */
[[nodiscard]] int make_sizes(const struct serve *serve, const struct tenant *tenant,
			     struct held *held, struct err *err);
/* The same as options of "brig create". */
[[nodiscard]] int make_size_options(const struct held *held, struct strv *words);

/* Other rules from now on: in the row, for make_like(). NULL: the policy's own. */
[[nodiscard]] int make_keep_rules(struct held *held, const struct rules *rules);
/* A NETWORK message: these rules instead of those that a sandbox has. */
void make_draft_rules(const struct rules *rules, struct draft *d);

/* 64 random hexadecimal digits. */
[[nodiscard]] int make_token(char ret_token[static TOKEN_SIZE]);
/* Random small letters and digits. */
[[nodiscard]] int make_word(char *ret_word, size_t size);

#endif
