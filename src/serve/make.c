#include "serve/make.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "http/decode.h"
#include "serve/make_internal.h"
#include "serve/metrics.h"

static void make_free(struct make *make)
{
	make->call = call_cancel(make->serve->fleet, make->call);
	make->timer = loop_cancel(make->serve->loop, make->timer);
	make->bound = loop_cancel(make->serve->loop, make->bound);
	make_order_done(&make->order);
	free(make);
}

int make_token(char ret_token[static TOKEN_SIZE])
{
	unsigned char bytes[(TOKEN_SIZE - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	hex_write(bytes, sizeof(bytes), ret_token);
	return 0;
}

int make_word(char *ret_word, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char byte;

	for (size_t i = 0; i + 1 < size;) {
		if (getrandom(&byte, 1, 0) != 1)
			return -EIO;
		/* The same chance for each. */
		if (byte < 252)
			ret_word[i++] = letters[byte % 36];
	}
	ret_word[size - 1] = '\0';
	return 0;
}

/* --- the way of one sandbox --- */

static void ignore(void *of, struct message *m, bool is_last)
{
	(void)of;
	(void)m;
	(void)is_last;
}

/* One that no client will hear of. If its warden does not listen it is gone already. */
static void end_sandbox(struct serve *serve, const char *id)
{
	struct draft d = DRAFT(MESSAGE_KILL, 0);
	struct err err = ERR_NONE;
	call_id call;

	if (call_start(serve->fleet, id, &d, NULL, 0, ignore, NULL, &call, &err) < 0)
		log_line(LOG_WARNING, "sandbox %s cannot be ended: %s", id, err.text);
}

static void give_room_back(const struct make *make)
{
	registry_unreserve(make->serve->registry, make->tenant, make->cpu, make->memory,
			   make->disk);
}

void make_fail(struct make *make, const struct err *err)
{
	if (make->id[0])
		end_sandbox(make->serve, make->id);
	give_room_back(make);
	counters_made(make->serve->counters, 0, false);
	if (make->done)
		make->done(make->of, NULL, err);
	make_free(make);
}

void make_finish(struct make *make)
{
	struct registry *registry = make->serve->registry;
	struct held *held = &make->order.held;
	struct err err = ERR_NONE;

	if (!make->done) {
		make_fail(make, &err);
		return;
	}
	snprintf(held->id, sizeof(held->id), "%s", make->id);
	held->started = time_now();
	held->ends = held->started + make->order.timeout_ms;
	/* Takes the texts, whether it succeeds or not. */
	if (registry_add(registry, held, &err) < 0) {
		make_fail(make, &err);
		return;
	}
	give_room_back(make);
	counters_made(make->serve->counters, loop_now(make->serve->loop) - make->began, true);
	make->done(make->of, registry_find(registry, make->id, NULL), &err);
	make_free(make);
}

static void on_network(void *of, struct message *m, bool is_last)
{
	struct make *make = of;
	struct err err = ERR_NONE;

	if (!is_last)
		return;
	make->call = 0;
	if (m->type != MESSAGE_ERROR) {
		make_start(make);
		return;
	}
	err_set(&err, -(int)message_number(m, FIELD_CODE, EIO), "network: %s",
		message_text(m, FIELD_TEXT, "the warden refused"));
	make_fail(make, &err);
}

static void set_network(struct make *make)
{
	struct draft d = DRAFT(MESSAGE_NETWORK, 0);
	struct err err = ERR_NONE;

	make_draft_rules(&make->order.rules, &d);
	if (call_start(make->serve->fleet, make->id, &d, NULL, 0, on_network, make, &make->call,
		       &err) < 0)
		make_fail(make, &err);
}

static void on_made(void *of, const struct node *manifest, const struct err *err)
{
	const struct node *id = node_get(manifest, "id");
	struct make *make = of;

	if (!manifest || !id || id->kind != NODE_STRING) {
		make_fail(make, err);
		return;
	}
	snprintf(make->id, sizeof(make->id), "%s", id->text);
	if (!make->done)
		make_fail(make, err);
	else if (make->order.has_rules)
		set_network(make);
	else
		make_start(make);
}

static int add_option(struct strv *words, const char *name, const char *value)
{
	int r = strv_add(words, name);

	return r < 0 ? r : strv_add(words, value);
}

int make_size_options(const struct held *held, struct strv *words)
{
	char text[32];
	int r = 0;

	if (held->cpu > 0) {
		format_cpus((uint64_t)(held->cpu * 1000 + 0.5), text, sizeof(text));
		r = add_option(words, "--cpu", text);
	}
	if (held->memory && r == 0) {
		format_size(held->memory, text, sizeof(text));
		r = add_option(words, "--memory", text);
	}
	if (held->disk && r == 0) {
		format_size(held->disk, text, sizeof(text));
		r = add_option(words, "--disk", text);
	}
	return r;
}

/* The tenant's policy itself, or another within it. */
static int add_policy(const struct make *make, const struct tenant *tenant, struct strv *words)
{
	const char *ceiling = make_policy_name(make->serve, tenant), *own = make->order.policy;
	int r = add_option(words, "--policy", own && own[0] ? own : ceiling);

	return r < 0 ? r : add_option(words, "--within", ceiling);
}

static int make_options(const struct make *make, const struct tenant *tenant, struct strv *words)
{
	int r = add_policy(make, tenant, words);

	for (size_t i = 0; i < make->order.options.count && r == 0; i++)
		r = strv_add(words, make->order.options.items[i]);
	r = r < 0 ? r : make_size_options(&make->order.held, words);
	if (r == 0 && tenant->floor[0])
		r = add_option(words, "--at-least", tenant->floor);
	r = r < 0 ? r : add_option(words, "--slice", tenant->name);
	if (r == 0 && make->order.image && make->order.image[0])
		r = add_option(words, "--from", make->order.image);
	return r;
}

static int begin(struct make *make, const struct tenant *tenant, unsigned int *ret_wait_s,
		 struct err *err)
{
	_cleanup_(strv_done) struct strv words = { 0 };
	const struct held *held = &make->order.held;
	int r = make_bound(make, tenant, err);

	r = r < 0 ? r : make_options(make, tenant, &words);
	if (r < 0)
		return err->code ? r : err_set(err, r, "out of memory");
	r = registry_reserve(make->serve->registry, tenant, held->cpu, held->memory, held->disk,
			     ret_wait_s, err);
	if (r < 0)
		return r;
	make->cpu = held->cpu;
	make->memory = held->memory;
	make->disk = held->disk;
	r = fleet_make(make->serve->fleet, words.items, on_made, make, err);
	if (r < 0)
		give_room_back(make);
	return r;
}

int make_begin(struct serve *serve, const struct tenant *tenant, struct make_order *order,
	       make_done done, void *of, struct make **ret_make, unsigned int *ret_wait_s,
	       struct err *err)
{
	struct make *make = calloc(1, sizeof(*make));
	int r;

	if (!make) {
		make_order_done(order);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*make = (struct make){ .serve = serve,
			       .order = *order,
			       .done = done,
			       .of = of,
			       .began = loop_now(serve->loop) };
	*order = MAKE_ORDER;
	snprintf(make->tenant, sizeof(make->tenant), "%s", tenant->name);
	snprintf(make->order.held.tenant, sizeof(make->order.held.tenant), "%s", tenant->name);
	r = begin(make, tenant, ret_wait_s, err);
	if (r < 0)
		make_free(make);
	else
		*ret_make = make;
	return r;
}

void make_leave(struct make *make)
{
	if (make)
		make->done = NULL;
}

void make_draft_rules(const struct rules *rules, struct draft *d)
{
	for (size_t i = 0; i < rules->allow.count; i++)
		draft_text(d, FIELD_ALLOW, rules->allow.items[i]);
	for (size_t i = 0; i < rules->deny.count; i++)
		draft_text(d, FIELD_DENY, rules->deny.items[i]);
}
