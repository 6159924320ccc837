/* make_order.c - what is to be made: from a template, or like another; and what its row says */
#include <errno.h>
#include <stdio.h>

#include "serve/extra.h"
#include "serve/make_internal.h"

void make_order_done(struct make_order *order)
{
	held_done(&order->held);
	rules_done(&order->rules);
	strv_done(&order->options);
	free(order->policy);
	free(order->image);
	free(order->start);
	free(order->ready);
	free(order->user);
	free(order->workdir);
	free(order->env);
	*order = MAKE_ORDER;
}

static int copy_text(char **to, const char *from)
{
	if (*to || !from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

int make_from_template(struct make_order *order, const struct template *t)
{
	struct held *held = &order->held;
	int r = copy_text(&held->template_id, t->id);

	r = r < 0 ? r : copy_text(&held->alias, t->name);
	r = r < 0 ? r : copy_text(&order->image, t->image);
	r = r < 0 ? r : copy_text(&order->start, t->start);
	r = r < 0 ? r : copy_text(&order->ready, t->ready);
	r = r < 0 ? r : copy_text(&order->user, t->user);
	r = r < 0 ? r : copy_text(&order->workdir, t->workdir);
	r = r < 0 ? r : copy_text(&order->env, t->env);
	held->cpu = held->cpu > 0 ? held->cpu : t->cpu;
	held->memory = held->memory ? held->memory : t->memory;
	held->disk = held->disk ? held->disk : t->disk;
	return r;
}

static int base_template(struct template *ret_template)
{
	struct template t = { .kind = TEMPLATE_BUILT, .id = MAKE_BASE };
	char **const texts[] = { &t.tags, &t.image, &t.env,   &t.workdir,
				 &t.user, &t.start, &t.ready, &t.source };
	int r = copy_text(&t.name, MAKE_BASE);

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = copy_text(texts[i], "");
	if (r < 0)
		template_done(&t);
	else
		*ret_template = t;
	return r;
}

int make_find_template(struct serve *serve, const char *tenant, const char *word,
		       struct template *ret_template)
{
	size_t own = strlen(tenant);
	char short_word[256];
	int r;

	if (strncmp(word, tenant, own) == 0 && word[own] == '/')
		word += own + 1;
	r = store_get_template(serve->store, tenant, word, ret_template);
	if (r != -ENOENT)
		return r;
	if (str_ends(word, ":default") && strlen(word) < sizeof(short_word)) {
		snprintf(short_word, sizeof(short_word), "%.*s",
			 (int)(strlen(word) - strlen(":default")), word);
		word = short_word;
		r = store_get_template(serve->store, tenant, word, ret_template);
	}
	return r == -ENOENT && str_equal(word, MAKE_BASE) ? base_template(ret_template) : r;
}

/* Texts of a held are never NULL. */
static int fill_texts(struct held *held)
{
	char **const texts[] = { &held->template_id, &held->alias,   &held->metadata,
				 &held->env,         &held->network, &held->extra };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = copy_text(texts[i], "");
	return r;
}

static bool is_set(const char *text)
{
	return text && text[0];
}

/* The variables of the template, and those of the client over them. */
static int merge_env(struct make_order *order)
{
	_cleanup_(node_freep) struct node *all = NULL, *own = NULL;
	_cleanup_(buf_done) struct buf text = BUF(2 * SERVE_JSON_MAX);
	char *json;
	int r = 0;

	if (!is_set(order->env))
		return 0;
	all = extra_json(order->env);
	own = extra_json(order->held.env);
	if (!all || all->kind != NODE_MAP)
		return -EINVAL;
	for (size_t i = 0; own && i < own->count && r == 0; i++)
		r = node_set(all, own->entries[i].key, node_copy(own->entries[i].value));
	r = r < 0 ? r : json_write(all, true, &text);
	json = r < 0 ? NULL : buf_take(&text);
	if (!json)
		return r < 0 ? r : -ENOMEM;
	free(order->held.env);
	order->held.env = json;
	return 0;
}

int make_keep_rules(struct held *held, const struct rules *rules)
{
	_cleanup_(node_freep) struct node *map = rules ? node_map() : node_null();
	int r = map ? 0 : -ENOMEM;

	if (r == 0 && rules) {
		r = node_set(map, "allow", extra_list(&rules->allow));
		r = r < 0 ? r : node_set(map, "deny", extra_list(&rules->deny));
	}
	return r < 0 ? r : extra_set(held, "rules", take_ptr(&map));
}

static int copy_grants(struct make_order *order, const struct node *extra)
{
	const struct node *policy = node_get(extra, "policy"), *rules = node_get(extra, "rules");
	int r = policy && policy->kind == NODE_STRING ? copy_text(&order->policy, policy->text) : 0;

	r = r < 0 ? r : extra_strings(node_get(extra, "options"), &order->options);
	r = r < 0 ? r : extra_strings(node_get(rules, "allow"), &order->rules.allow);
	r = r < 0 ? r : extra_strings(node_get(rules, "deny"), &order->rules.deny);
	order->has_rules = rules && rules->kind == NODE_MAP;
	return r;
}

int make_like(struct make_order *order, const struct held *held)
{
	_cleanup_(node_freep) struct node *extra = extra_json(held->extra);
	int r = held_copy(held, &order->held);

	if (r < 0)
		return r;
	order->held.id[0] = '\0';
	order->held.token[0] = '\0';
	order->held.traffic_token[0] = '\0';
	order->held.state = HELD_RUNNING;
	if (held->extra[0] && !extra)
		return -ENOMEM;
	r = extra_set(&order->held, "idempotency", node_null());
	return r < 0 ? r : copy_grants(order, extra);
}

/* What others of the daemon's parts will want to know of it. */
int make_fill_held(struct make_order *order)
{
	struct held *held = &order->held;
	int r = fill_texts(held);

	r = r < 0 ? r : merge_env(order);
	if (r == 0 && is_set(order->user))
		r = extra_set(held, "user", node_string(order->user));
	if (r == 0 && is_set(order->workdir))
		r = extra_set(held, "workdir", node_string(order->workdir));
	if (r == 0 && is_set(order->policy))
		r = extra_set(held, "policy", node_string(order->policy));
	if (r == 0 && order->options.count > 0)
		r = extra_set(held, "options", extra_list(&order->options));
	if (r == 0 && order->has_rules)
		r = make_keep_rules(held, &order->rules);
	return r;
}
