/*
 * paths.c - rules for files: a map from path to none, read, overlay or write
 *
 * The rule of the nearest ancestor decides. Rules are kept sorted so that a path stands directly
 * before what lies below it: '/' sorts before every other byte. Rules hold for paths that do not
 * exist yet, because nothing here looks at the file system.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "data/schema.h"
#include "policy/types.h"

#define PATHS_MAX 2048 /* in one file */

int policy_path_order(const char *a, const char *b)
{
	for (;; a++, b++) {
		unsigned char x = (unsigned char)*a, y = (unsigned char)*b;

		if (x == y && x == '\0')
			return 0;
		if (x == y)
			continue;
		if (x == '\0' || y == '\0')
			return x == '\0' ? -1 : 1;
		if (x == '/' || y == '/')
			return x == '/' ? -1 : 1;
		return x < y ? -1 : 1;
	}
}

/* Takes the last component off an absolute path. */
static void path_pop(struct buf *path)
{
	while (path->len > 0 && path->data[path->len - 1] != '/')
		path->len--;
	if (path->len > 0)
		path->len--;
	if (path->data)
		path->data[path->len] = '\0';
}

/*
 * Adds the components of rest to path. ".." is taken literally only where no other component came
 * before it: behind a name that may be a symbolic link it would mean different things to us and to
 * the kernel.
 */
static const char *path_append(struct buf *path, const char *rest, bool may_climb)
{
	while (*rest) {
		size_t len = strcspn(rest, "/");

		if (len > NAME_MAX)
			return "has a component of more than 255 bytes";
		if (len == 2 && rest[0] == '.' && rest[1] == '.') {
			if (!may_climb)
				return "has \"..\" behind a name: write the path without it";
			path_pop(path);
		} else if (len > 0 && !(len == 1 && rest[0] == '.')) {
			may_climb = false;
			buf_char(path, '/');
			buf_add(path, rest, len);
		}
		rest += len;
		rest += *rest == '/';
	}
	if (buf_failed(path))
		return "is longer than a path can be";
	/* The digest is of text: two names that are not would look the same in it. */
	return is_utf8(buf_text(path), path->len) ? NULL : "is not valid UTF-8";
}

/* Makes a path of a policy absolute; NULL, or what is wrong with it. */
static const char *path_bind(const char *text, const struct policy_env *env, struct buf *path)
{
	const char *base = "";

	if (*text == '\0')
		return "is empty";
	if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
		if (!env->home || env->home[0] != '/')
			return "needs a home directory, and HOME is not set";
		base = env->home;
		text++;
	} else if (text[0] == '~') {
		return "names another user's home: write the path out";
	} else if (text[0] != '/') {
		base = env->cwd;
		return path_append(path, base, false) ?: path_append(path, text, true);
	}
	return path_append(path, base, false) ?: path_append(path, text, false);
}

static size_t rules_find(const struct path_rules *rules, const char *path, bool *ret_found)
{
	size_t low = 0, high = rules->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = policy_path_order(rules->items[middle].path, path);

		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = false;
	return low;
}

static void rule_done(struct path_rule *rule)
{
	free(rule->path);
	free(rule->origin.source);
}

/* Takes over the rule, also on failure; replaces one for the same path. */
static int rules_put(struct path_rules *rules, struct path_rule rule)
{
	struct path_rule *items;
	bool found;
	size_t at = rules_find(rules, rule.path, &found);

	if (found) {
		assert(rules->items);
		rule_done(&rules->items[at]);
		rules->items[at] = rule;
		return 0;
	}
	items = rules->items;
	if (rules->count == rules->room) {
		size_t room = rules->room ? rules->room * 2 : 64;

		items = realloc(items, room * sizeof(*items));
		if (!items) {
			rule_done(&rule);
			return -ENOMEM;
		}
		rules->items = items;
		rules->room = room;
	}
	memmove(items + at + 1, items + at, (rules->count - at) * sizeof(*items));
	items[at] = rule;
	rules->count++;
	return 0;
}

static int rule_copy(const struct path_rule *from, struct path_rule *ret_rule)
{
	struct path_rule rule = { .path = strdup(from->path), .access = from->access };

	if (!rule.path || origin_copy(&from->origin, &rule.origin) < 0) {
		free(rule.path);
		return -ENOMEM;
	}
	*ret_rule = rule;
	return 0;
}

static int parse_access(const struct place *place, const struct node *node, enum access *ret_access,
			struct err *err)
{
	const char *nearest;

	if (node->kind != NODE_STRING)
		return place_error(place, node, err,
				   "expected none, read, overlay or write, found %s",
				   node_kind_name(node->kind));
	for (size_t i = 0; i < ACCESS_COUNT; i++)
		if (str_equal(node->text, access_names[i])) {
			*ret_access = (enum access)i;
			return 0;
		}
	nearest = str_nearest(node->text, access_names, ACCESS_COUNT);
	if (nearest)
		return place_error(place, node, err,
				   "\"%s\" is not an access, did you mean \"%s\"?", node->text,
				   nearest);
	return place_error(place, node, err,
			   "\"%s\" is not an access, use none, read, overlay or write", node->text);
}

/* at: the node whose line an error names. */
static int add_path(const struct place *place, const struct node *at, const char *text,
		    enum access access, struct path_rules *rules, struct err *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX - 1);
	const char *wrong = path_bind(text, place->env, &path);
	struct path_rule rule = { .access = access };
	bool found;
	size_t other;

	/* Without a home there is nothing there to open or to close; only a person's own rule must
	 * be heard. */
	if (text[0] == '~' && !place->env->home && place->is_shipped)
		return 0;

	if (buf_failed(&path) == -ENOMEM)
		return -ENOMEM;
	if (wrong)
		return place_error(place, at, err, "the path \"%.200s\" %s", text, wrong);
	if (path.len == 0)
		buf_char(&path, '/');
	other = rules_find(rules, buf_text(&path), &found);
	if (found && !place->is_flag)
		return place_error(place, at, err, "\"%s\" is the same path as in line %u", text,
				   rules->items[other].origin.line);
	if (buf_failed(&path) || origin_make(place, at, &rule.origin) < 0)
		return -ENOMEM;
	rule.path = buf_take(&path);
	if (!rule.path) {
		rule_done(&rule);
		return -ENOMEM;
	}
	return rules_put(rules, rule);
}

static int parse_paths(const struct place *place, const struct node *node, void *field,
		       struct err *err)
{
	struct path_rules *rules = field;

	if (place->is_flag) {
		const struct node value = { .kind = NODE_STRING,
					    .text = (char *)(uintptr_t)place->value };
		enum access access = ACCESS_NONE;
		int r = parse_access(place, &value, &access, err);

		return r < 0 ? r : add_path(place, node, node->text, access, rules, err);
	}
	if (node->kind != NODE_MAP)
		return place_error(place, node, err, "expected a map from path to access, found %s",
				   node_kind_name(node->kind));
	if (node->count == 0)
		rules->cleared = true;
	if (node->count > PATHS_MAX)
		return place_error(place, node, err, "has more than %d entries", PATHS_MAX);
	for (size_t i = 0; i < node->count; i++) {
		const struct node_entry *entry = &node->entries[i];
		const struct node at = { .line = entry->line, .column = entry->column };
		enum access access = ACCESS_NONE;
		int r = parse_access(place, entry->value, &access, err);

		r = r < 0 ? r : add_path(place, &at, entry->key, access, rules, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void done_paths(void *field)
{
	struct path_rules *rules = field;

	for (size_t i = 0; i < rules->count; i++)
		rule_done(&rules->items[i]);
	free(rules->items);
	*rules = (struct path_rules){ 0 };
}

static int merge_paths(void *field, const void *later)
{
	struct path_rules *into = field;
	const struct path_rules *from = later;

	if (from->cleared) {
		done_paths(into);
		into->cleared = true;
	}
	for (size_t i = 0; i < from->count; i++) {
		struct path_rule rule;
		int r = rule_copy(&from->items[i], &rule);

		r = r < 0 ? r : rules_put(into, rule);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Adds the smaller access of both at every path that one of them names. */
static int narrow_side(struct path_rules *both, const struct path_rules *side,
		       const struct path_rules *other)
{
	for (size_t i = 0; i < side->count; i++) {
		const struct path_rule *decisive = NULL;
		enum access access = policy_path_access(other, side->items[i].path, &decisive);
		struct path_rule rule;
		int r;

		/* The origin is that of the stricter side, which is the one to ask. */
		if (!decisive || access >= side->items[i].access)
			decisive = &side->items[i];
		r = rule_copy(&side->items[i], &rule);
		if (r < 0)
			return r;
		rule.access = MIN(access, side->items[i].access);
		free(rule.origin.source);
		rule.origin.source = NULL;
		r = origin_copy(&decisive->origin, &rule.origin);
		if (r < 0) {
			rule_done(&rule);
			return r;
		}
		r = rules_put(both, rule);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * At a path that either side names, the smaller of both; in between, the nearest such path decides,
 * and there both sides decide by the same or a higher path. So this is the smaller of both
 * everywhere.
 */
static int narrow_paths(void *field, const void *by)
{
	struct path_rules *into = field;
	struct path_rules both = { 0 };
	int r = narrow_side(&both, into, by);

	r = r < 0 ? r : narrow_side(&both, by, into);
	if (r < 0) {
		done_paths(&both);
		return r;
	}
	done_paths(into);
	*into = both;
	return 0;
}

static int paths_to_node(const void *field, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map();
	const struct path_rules *rules = field;

	if (!map)
		return -ENOMEM;
	for (size_t i = 0; i < rules->count; i++) {
		int r = node_set_new(map, rules->items[i].path,
				     node_string(access_names[rules->items[i].access]));

		if (r < 0)
			return r;
	}
	*ret_node = take_ptr(&map);
	return 0;
}

static int schema_paths(struct node *schema)
{
	_cleanup_(node_freep) struct node *values = node_map();
	int r = values ? schema_names(values, "enum", access_names, ACCESS_COUNT) : -ENOMEM;

	r = r < 0 ? r : node_set(schema, "type", node_string("object"));
	return r < 0 ? r : node_set(schema, "additionalProperties", take_ptr(&values));
}

static bool is_set_paths(const void *field)
{
	const struct path_rules *rules = field;

	return rules->count > 0;
}

static void init_paths(void *field)
{
	*(struct path_rules *)field = (struct path_rules){ 0 };
}

const struct type_ops paths_ops = { parse_paths,  merge_paths,  narrow_paths, paths_to_node,
				    schema_paths, is_set_paths, init_paths,   done_paths };

enum access policy_path_access(const struct path_rules *rules, const char *path,
			       const struct path_rule **ret_rule)
{
	char prefix[PATH_MAX];
	size_t len = strlen(path);

	*ret_rule = NULL;
	if (len >= sizeof(prefix))
		return ACCESS_NONE;
	memcpy(prefix, path, len + 1);
	for (;;) {
		bool found;
		size_t at = rules_find(rules, prefix[0] ? prefix : "/", &found);

		if (found) {
			*ret_rule = &rules->items[at];
			return rules->items[at].access;
		}
		if (len <= 1)
			return ACCESS_NONE;
		while (len > 0 && prefix[len - 1] != '/')
			len--;
		len -= len > 0;
		prefix[len] = '\0';
	}
}

static enum access around(const struct path_rules *rules, const struct path_rule *rule,
			  const struct path_rule **ret_around)
{
	const char *slash = strrchr(rule->path, '/');
	size_t len = slash ? (size_t)(slash - rule->path) : 0;
	char parent[PATH_MAX];

	*ret_around = NULL;
	if (rule->path[1] == '\0')
		return ACCESS_NONE;
	memcpy(parent, rule->path, len);
	strcpy(parent + len, len ? "" : "/");
	return policy_path_access(rules, parent, ret_around);
}

enum access policy_path_around(const struct path_rules *rules, const struct path_rule *rule)
{
	const struct path_rule *above;

	return around(rules, rule, &above);
}

/*
 * Looking at the nearest ancestor is enough: as long as none takes rights away, rights only grow on
 * the way down, so the nearest ancestor has the most.
 */
const struct path_rule *policy_path_conflict(const struct path_rules *rules,
					     const struct path_rule **ret_wider)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct path_rule *above;

		if (around(rules, &rules->items[i], &above) > rules->items[i].access) {
			*ret_wider = above;
			return &rules->items[i];
		}
	}
	return NULL;
}
