/* words.c - keys that are a list of words: environment variables, ports, extensions, kinds of
 * output */
#include <errno.h>
#include <stdio.h>

#include "data/schema.h"
#include "policy/types.h"

#define WORDS_MAX \
	1024 /* in one list: a policy is written by people, and the work grows with the square */

/* Keeps the list sorted and free of duplicates, so that equal sets have equal canonical forms. */
static int words_add(struct words *words, const char *text)
{
	size_t name = strcspn(text, "=");
	int r;

	if (strv_has(&words->list, text))
		return 0;
	if (words->list.count >= WORDS_MAX)
		return -E2BIG;
	/* A variable has one value, the later one, which sorts where the earlier one did. */
	for (size_t i = 0; text[name] && i < words->list.count; i++) {
		char **item = &words->list.items[i], *copy;

		if (strncmp(*item, text, name + 1) != 0)
			continue;
		copy = strdup(text);
		if (!copy)
			return -ENOMEM;
		free(*item);
		*item = copy;
		return 0;
	}
	r = strv_add(&words->list, text);
	if (r < 0)
		return r;
	for (size_t i = words->list.count - 1; i > 0; i--) {
		char **a = &words->list.items[i - 1], **b = &words->list.items[i], *swap = *a;

		if (strcmp(*a, *b) <= 0)
			break;
		*a = *b;
		*b = swap;
	}
	return 0;
}

typedef int (*word_check)(const struct place *place, const struct node *node, struct err *err);

static int parse_words(const struct place *place, const struct node *node, struct words *words,
		       word_check check, struct err *err)
{
	/* A flag gives one word at a time. */
	const struct node_entry single = { .value = (struct node *)(uintptr_t)node };
	const struct node_entry *entries = node->kind == NODE_LIST ? node->entries : &single;
	size_t count = node->kind == NODE_LIST ? node->count : 1;

	if (node->kind != NODE_LIST && !place->is_flag)
		return place_error(place, node, err, "expected a list, found %s",
				   node_kind_name(node->kind));
	if (count == 0)
		words->cleared = true;
	for (size_t i = 0; i < count; i++) {
		const struct node *word = entries[i].value;
		int r;

		if (word->kind != NODE_STRING)
			return place_error(place, word, err, "expected text, found %s",
					   node_kind_name(word->kind));
		r = check(place, word, err);
		if (r < 0)
			return r;
		r = words_add(words, word->text);
		if (r == -E2BIG)
			return place_error(place, word, err, "has more than %d entries", WORDS_MAX);
		if (r < 0)
			return r;
	}
	return 0;
}

static int merge_words(void *field, const void *later)
{
	struct words *into = field;
	const struct words *from = later;

	if (from->cleared) {
		strv_done(&into->list);
		into->cleared = true;
	}
	for (size_t i = 0; i < from->list.count; i++) {
		int r = words_add(into, from->list.items[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int narrow_words(void *field, const void *by)
{
	struct words *into = field;
	const struct words *other = by;
	struct words both = { 0 };

	for (size_t i = 0; i < into->list.count; i++)
		if (strv_has(&other->list, into->list.items[i]) &&
		    words_add(&both, into->list.items[i]) < 0) {
			strv_done(&both.list);
			return -ENOMEM;
		}
	strv_done(&into->list);
	*into = both;
	return 0;
}

static int words_to_node(const void *field, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *list = node_list();
	const struct words *words = field;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < words->list.count; i++) {
		int r = node_add(list, node_string(words->list.items[i]));

		if (r < 0)
			return r;
	}
	*ret_node = take_ptr(&list);
	return 0;
}

static bool is_set_words(const void *field)
{
	return ((const struct words *)field)->list.count > 0;
}

static void init_words(void *field)
{
	*(struct words *)field = (struct words){ 0 };
}

static void done_words(void *field)
{
	strv_done(&((struct words *)field)->list);
}

static int schema_words(struct node *schema, struct node *item)
{
	int r = node_set(schema, "type", node_string("array"));

	if (r < 0) {
		node_free(item);
		return r;
	}
	return node_set(schema, "items", item);
}

static struct node *schema_pattern(const char *pattern)
{
	_cleanup_(node_freep) struct node *item = node_map();

	if (!item || node_set(item, "type", node_string("string")) < 0 ||
	    node_set(item, "pattern", node_string(pattern)) < 0)
		return NULL;
	return take_ptr(&item);
}

/* Environment: NAME, NAME* or NAME=value. */

static bool is_name_char(char c, bool first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (!first && c >= '0' && c <= '9');
}

static int check_env(const struct place *place, const struct node *node, struct err *err)
{
	const char *p = node->text;

	while (is_name_char(*p, p == node->text))
		p++;
	if (p > node->text && (*p == '\0' || *p == '=' || str_equal(p, "*")))
		return 0;
	return place_error(place, node, err,
			   "\"%s\" is not a variable (write NAME, NAME* or NAME=value)",
			   node->text);
}

static int parse_env(const struct place *place, const struct node *node, void *field,
		     struct err *err)
{
	return parse_words(place, node, field, check_env, err);
}

static size_t env_name_len(const char *entry)
{
	return strcspn(entry, "=*");
}

/* The one entry of the other list that covers this one entirely, if there is one. */
static bool env_covered(const struct words *other, const char *entry)
{
	size_t len = env_name_len(entry);

	for (size_t i = 0; i < other->list.count; i++) {
		const char *o = other->list.items[i];
		size_t olen = env_name_len(o);

		if (str_equal(o, entry))
			return true;
		/* "LC_*" covers LC_ALL, LC_A* and LC_ALL=x; NAME covers NAME=x: whoever may read it
		 * may set it. */
		if (len >= olen && o[olen] == '*' && memcmp(o, entry, olen) == 0)
			return true;
		if (o[olen] == '\0' && entry[len] == '=' && len == olen &&
		    memcmp(o, entry, len) == 0)
			return true;
	}
	return false;
}

/* What both let through: each side's entries that the other covers. */
static int narrow_env(void *field, const void *by)
{
	struct words *into = field;
	const struct words *other = by;
	struct words both = { 0 };
	int r = 0;

	for (size_t i = 0; i < into->list.count && r == 0; i++)
		if (env_covered(other, into->list.items[i]))
			r = words_add(&both, into->list.items[i]);
	for (size_t i = 0; i < other->list.count && r == 0; i++)
		if (env_covered(into, other->list.items[i]))
			r = words_add(&both, other->list.items[i]);
	if (r < 0) {
		strv_done(&both.list);
		return r;
	}
	strv_done(&into->list);
	*into = both;
	return 0;
}

static int schema_env(struct node *schema)
{
	return schema_words(schema, schema_pattern("^[A-Za-z_][A-Za-z0-9_]*(\\*|=.*)?$"));
}

const struct type_ops env_ops = { parse_env,  merge_words,  narrow_env, words_to_node,
				  schema_env, is_set_words, init_words, done_words };

bool policy_env_allows(const struct words *env, const char *name)
{
	size_t len = strcspn(name, "=");

	for (size_t i = 0; i < env->list.count; i++) {
		const char *entry = env->list.items[i];
		size_t elen = env_name_len(entry);

		if (entry[elen] == '\0' && elen == len && memcmp(entry, name, len) == 0)
			return true;
		if (len >= elen && entry[elen] == '*' && memcmp(entry, name, elen) == 0)
			return true;
	}
	return false;
}

/* Ports to publish: [ADDRESS:]OUTSIDE[:INSIDE], see ports.c. */

static int check_port(const struct place *place, const struct node *node, struct err *err)
{
	struct published port;

	if (!policy_port_read(node->text, &port))
		return place_error(place, node, err,
				   "\"%s\" is not a port (write 8080, 8080:80 or "
				   "127.0.0.1:8080:80; 0:80 for any that is free)",
				   node->text);
	return 0;
}

/* What both grant, in whichever words say less: loopback out of all addresses. */
static int narrow_ports(void *field, const void *by)
{
	struct words *into = field, both = { 0 };
	const struct words *other = by;
	int r = 0;

	for (size_t i = 0; i < into->list.count && r == 0; i++)
		for (size_t k = 0; k < other->list.count && r == 0; k++) {
			struct published a, b;

			if (!policy_port_read(into->list.items[i], &a) ||
			    !policy_port_read(other->list.items[k], &b))
				continue;
			if (policy_port_covers(&b, &a))
				r = words_add(&both, into->list.items[i]);
			else if (policy_port_covers(&a, &b))
				r = words_add(&both, other->list.items[k]);
		}
	if (r < 0) {
		strv_done(&both.list);
		return r;
	}
	strv_done(&into->list);
	*into = both;
	return 0;
}

static int parse_ports(const struct place *place, const struct node *node, void *field,
		       struct err *err)
{
	return parse_words(place, node, field, check_port, err);
}

static int schema_ports(struct node *schema)
{
	return schema_words(schema,
			    schema_pattern("^((\\[[0-9a-fA-F:.]+\\]|[0-9]+(\\.[0-9]+){3}):)?"
					   "[0-9]{1,5}(:[0-9]{1,5})?$"));
}

const struct type_ops ports_ops = { parse_ports,  merge_words,  narrow_ports, words_to_node,
				    schema_ports, is_set_words, init_words,   done_words };

/* Words out of a fixed list. */

static int check_known(const struct place *place, const struct node *node, const char *const *names,
		       size_t count, struct err *err)
{
	_cleanup_(buf_done) struct buf all = BUF(256);
	const char *nearest;

	for (size_t i = 0; i < count; i++)
		if (str_equal(node->text, names[i]))
			return 0;
	nearest = str_nearest(node->text, names, count);
	if (nearest)
		return place_error(place, node, err, "\"%s\" is not known, did you mean \"%s\"?",
				   node->text, nearest);
	for (size_t i = 0; i < count; i++)
		buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
	return place_error(place, node, err, "\"%s\" is not known, use any of %s", node->text,
			   buf_text(&all));
}

static int schema_known(struct node *schema, const char *const *names, size_t count)
{
	_cleanup_(node_freep) struct node *item = node_map();
	int r = item ? schema_names(item, "enum", names, count) : -ENOMEM;

	return r < 0 ? r : schema_words(schema, take_ptr(&item));
}

static void extension_names(const char *names[static EXTENSION_COUNT])
{
	for (size_t i = 0; i < EXTENSION_COUNT; i++)
		names[i] = extensions[i].name;
}

static int check_extension(const struct place *place, const struct node *node, struct err *err)
{
	const char *names[EXTENSION_COUNT];

	extension_names(names);
	return check_known(place, node, names, EXTENSION_COUNT, err);
}

static int parse_extensions(const struct place *place, const struct node *node, void *field,
			    struct err *err)
{
	return parse_words(place, node, field, check_extension, err);
}

static int schema_extensions(struct node *schema)
{
	const char *names[EXTENSION_COUNT];

	extension_names(names);
	return schema_known(schema, names, EXTENSION_COUNT);
}

const struct type_ops extensions_ops = { parse_extensions, merge_words,       narrow_words,
					 words_to_node,    schema_extensions, is_set_words,
					 init_words,       done_words };

static const char *const strip_names[] = { "terminal", "bidi" };
static const char *const flag_names[] = { "executable", "script", "encoded", "secret" };

static int check_strip(const struct place *place, const struct node *node, struct err *err)
{
	return check_known(place, node, strip_names, ARRAY_SIZE(strip_names), err);
}

static int parse_strip(const struct place *place, const struct node *node, void *field,
		       struct err *err)
{
	return parse_words(place, node, field, check_strip, err);
}

static int schema_strip(struct node *schema)
{
	return schema_known(schema, strip_names, ARRAY_SIZE(strip_names));
}

/* What is stripped or flagged is a restriction: the union is the narrower. */
static int narrow_by_adding(void *field, const void *by)
{
	struct words other = *(const struct words *)by;

	other.cleared = false;
	return merge_words(field, &other);
}

const struct type_ops strip_ops = { parse_strip,  merge_words,  narrow_by_adding, words_to_node,
				    schema_strip, is_set_words, init_words,       done_words };

static int check_flag(const struct place *place, const struct node *node, struct err *err)
{
	return check_known(place, node, flag_names, ARRAY_SIZE(flag_names), err);
}

static int parse_flag(const struct place *place, const struct node *node, void *field,
		      struct err *err)
{
	return parse_words(place, node, field, check_flag, err);
}

static int schema_flag(struct node *schema)
{
	return schema_known(schema, flag_names, ARRAY_SIZE(flag_names));
}

const struct type_ops flag_ops = { parse_flag,  merge_words,  narrow_by_adding, words_to_node,
				   schema_flag, is_set_words, init_words,       done_words };
