/* load.c - from a file, a shipped policy or flags to a struct policy */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "data/yaml.h"
#include "policy/types.h"

/* extends may be this deep, which finds cycles, and name this many in all, which bounds what a few
 * files can cost. */
#define EXTENDS_DEPTH 8
#define EXTENDS_COUNT 64

const struct type_ops *type_ops_of(enum key_type type)
{
	static const struct type_ops *const table[KEY_TYPE_COUNT] = {
		[KEY_ISOLATION] = &isolation_ops,
		[KEY_ON_DENY] = &on_deny_ops,
		[KEY_RECORD] = &record_ops,
		[KEY_SYSTEM] = &system_ops,
		[KEY_TEXT] = &text_ops,
		[KEY_BOOL] = &bool_ops,
		[KEY_SIZE] = &size_ops,
		[KEY_DURATION] = &duration_ops,
		[KEY_CPUS] = &cpus_ops,
		[KEY_COUNT] = &count_ops,
		[KEY_PATHS] = &paths_ops,
		[KEY_HOSTS_ALLOWED] = &hosts_allow_ops,
		[KEY_HOSTS_ASKED] = &hosts_ask_ops,
		[KEY_HOSTS_DENIED] = &hosts_denied_ops,
		[KEY_ENV] = &env_ops,
		[KEY_PORTS] = &ports_ops,
		[KEY_EXTENSIONS] = &extensions_ops,
		[KEY_STRIP] = &strip_ops,
		[KEY_FLAG] = &flag_ops,
		[KEY_SECRETS] = &secrets_ops,
		[KEY_TOOLS] = &tools_ops,
	};

	return table[type];
}

void policy_init(struct policy *policy)
{
	*policy = (struct policy){ 0 };
	for (size_t i = 0; i < policy_key_count; i++)
		type_ops_of(policy_keys[i].type)->init(key_field(&policy_keys[i], policy));
}

void policy_done(struct policy *policy)
{
	for (size_t i = 0; i < policy_key_count; i++)
		type_ops_of(policy_keys[i].type)->done(key_field(&policy_keys[i], policy));
}

static int policy_merge(struct policy *policy, const struct policy *later)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *key = &policy_keys[i];
		int r = type_ops_of(key->type)->merge(key_field(key, policy),
						      key_field_const(key, later));

		if (r < 0)
			return r;
	}
	return 0;
}

int policy_narrow(struct policy *policy, const struct policy *by, struct err *err)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *key = &policy_keys[i];
		int r = type_ops_of(key->type)->narrow(key_field(key, policy),
						       key_field_const(key, by));

		if (r < 0)
			return err_errno(err, r, "%s", key->name);
	}
	return 0;
}

/* Names a wrong key and the nearest right one; the candidates are the keys at this level. */
static int unknown_key(const struct place *place, const struct node_entry *entry,
		       const char *section, struct err *err)
{
	const struct node at = { .line = entry->line, .column = entry->column };
	const char *names[64];
	char heads[64][24];
	size_t count = 0, prefix = section ? strlen(section) + 1 : 0;
	struct place here = *place;
	char full[128];

	if (!section && !place->is_tool) {
		names[count++] = "version";
		names[count++] = "extends";
	}
	for (size_t i = 0; i < policy_key_count && count < ARRAY_SIZE(names); i++) {
		const char *name = policy_keys[i].name;

		if (section && (strncmp(name, section, prefix - 1) != 0 || name[prefix - 1] != '.'))
			continue;
		snprintf(heads[count], sizeof(heads[count]), "%.*s",
			 (int)strcspn(name + prefix, "."), name + prefix);
		names[count] = heads[count];
		count++;
	}
	snprintf(full, sizeof(full), "%s%s%.80s", section ? section : "", section ? "." : "",
		 entry->key);
	here.key = full;
	if (str_nearest(entry->key, names, count))
		return place_error(&here, &at, err, "unknown key, did you mean \"%s\"?",
				   str_nearest(entry->key, names, count));
	return place_error(&here, &at, err, "unknown key");
}

static bool is_section(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < policy_key_count; i++)
		if (strncmp(policy_keys[i].name, name, len) == 0 && policy_keys[i].name[len] == '.')
			return true;
	return false;
}

static int read_key(const struct place *place, const struct node_entry *entry, const char *section,
		    struct policy *policy, struct err *err)
{
	struct place here = *place;
	const struct key *key;
	char full[128];

	snprintf(full, sizeof(full), "%s%s%.80s", section ? section : "", section ? "." : "",
		 entry->key);
	/* A section is a map, never a dot in a name: "limits.memory" at the top is no key. */
	key = section || !strchr(full, '.') ? key_find(full) : NULL;
	if (!key)
		return unknown_key(place, entry, section, err);
	here.key = key->name;
	if (entry->value->kind == NODE_NULL)
		return place_error(&here, entry->value, err, "has no value");
	return type_ops_of(key->type)->parse(&here, entry->value, key_field(key, policy), err);
}

/* version and extends say how to read the rest; they are no keys of the table. */
static bool is_header(const char *name)
{
	return str_equal(name, "version") || str_equal(name, "extends");
}

int policy_read_keys(const struct place *place, const struct node *map, struct policy *policy,
		     struct err *err)
{
	for (size_t i = 0; i < map->count; i++) {
		const struct node_entry *entry = &map->entries[i];
		struct place here = *place;
		int r = 0;

		if (!place->is_tool && is_header(entry->key))
			continue;
		if (!is_section(entry->key)) {
			r = read_key(place, entry, NULL, policy, err);
			if (r < 0)
				return r;
			continue;
		}
		here.key = entry->key;
		if (entry->value->kind != NODE_MAP)
			return place_error(&here, entry->value, err, "expected a map, found %s",
					   node_kind_name(entry->value->kind));
		for (size_t k = 0; k < entry->value->count && r == 0; k++)
			r = read_key(place, &entry->value->entries[k], entry->key, policy, err);
		if (r < 0)
			return r;
	}
	return 0;
}

struct loading {
	const struct policy_env *env;
	unsigned int depth, count;
};

static int load_named(struct loading *loading, const char *name, struct policy *ret_policy,
		      struct err *err);

static int read_version(const struct place *place, const struct node *map, struct err *err)
{
	const struct node *version = node_get(map, "version");
	struct place here = *place;

	here.key = "version";
	if (!version)
		return place_error(&here, map, err, "is missing: begin with \"version: 1\"");
	if (version->kind != NODE_INT || version->number != 1)
		return place_error(&here, version, err, "must be 1");
	return 0;
}

static int read_extends(struct loading *loading, const struct place *place, const struct node *map,
			struct policy *policy, struct err *err)
{
	const struct node *extends = node_get(map, "extends");
	struct place here = *place;

	here.key = "extends";
	if (!extends)
		return 0;
	if (extends->kind != NODE_LIST)
		return place_error(&here, extends, err, "expected a list of names, found %s",
				   node_kind_name(extends->kind));
	for (size_t i = 0; i < extends->count; i++) {
		const struct node *name = extends->entries[i].value;
		struct policy parent;
		int r;

		if (name->kind != NODE_STRING || strpbrk(name->text, "/.") || name->len == 0)
			return place_error(
				&here, name, err,
				"must be the name of a shipped policy or of one of yours");
		if (loading->depth >= EXTENDS_DEPTH)
			return place_error(&here, name, err,
					   "\"%s\": more than %d levels, or a circle", name->text,
					   EXTENDS_DEPTH);
		if (++loading->count > EXTENDS_COUNT)
			return place_error(&here, name, err, "\"%s\": more than %d policies in all",
					   name->text, EXTENDS_COUNT);
		loading->depth++;
		r = load_named(loading, name->text, &parent, err);
		loading->depth--;
		if (r == -ENOENT)
			return place_error(&here, name, err, "%s", err ? err->text : "");
		if (r < 0)
			return r;
		r = policy_merge(policy, &parent);
		policy_done(&parent);
		if (r < 0)
			return err_errno(err, r, "%s", place->source);
	}
	return 0;
}

/* Reads the file's own keys over what it extends. Without "extends" they go straight in: nothing to
 * merge. */
static int read_own(const struct place *place, const struct node *map, struct policy *policy,
		    struct err *err)
{
	struct policy own;
	int r;

	if (!node_get(map, "extends"))
		return policy_read_keys(place, map, policy, err);
	policy_init(&own);
	r = policy_read_keys(place, map, &own, err);
	r = r < 0 ? r : policy_merge(policy, &own);
	policy_done(&own);
	return r;
}

static int parse_tree(struct loading *loading, const struct place *place, const struct node *map,
		      struct policy *ret_policy, struct err *err)
{
	struct policy policy;
	int r;

	if (map->kind != NODE_MAP)
		return err_set(err, -EINVAL, "%s:%u:%u: a policy is a map of keys, found %s",
			       place->source, map->line, map->column, node_kind_name(map->kind));
	policy_init(&policy);
	r = read_version(place, map, err);
	r = r < 0 ? r : read_extends(loading, place, map, &policy, err);
	r = r < 0 ? r : read_own(place, map, &policy, err);
	if (r < 0) {
		policy_done(&policy);
		return err && err->code ? r : err_errno(err, r, "%s", place->source);
	}
	*ret_policy = policy;
	return 0;
}

static int parse_text(struct loading *loading, const struct place *place, const char *text,
		      size_t len, struct policy *ret_policy, struct err *err)
{
	_cleanup_(node_freep) struct node *map = NULL;
	int r = yaml_parse(place->source, text, len, &map, err);

	return r < 0 ? r : parse_tree(loading, place, map, ret_policy, err);
}

static int load_shipped(struct loading *loading, const struct shipped_policy *shipped,
			struct policy *ret_policy, struct err *err)
{
	const struct place place = { .source = shipped->name,
				     .is_shipped = true,
				     .env = loading->env };

	return parse_tree(loading, &place, shipped->tree, ret_policy, err);
}

static int load_file(struct loading *loading, const char *path, struct policy *ret_policy,
		     struct err *err)
{
	const struct place place = { .source = path, .env = loading->env };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_(buf_done) struct buf text = BUF(YAML_MAX_BYTES);
	struct stat st;
	int r;

	if (fd < 0)
		return err_errno(err, -errno, "cannot read the policy \"%s\"", path);
	if (fstat(fd, &st) < 0)
		return err_errno(err, -errno, "cannot read the policy \"%s\"", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the policy \"%s\" is not a regular file", path);
	r = fd_read_all(fd, &text);
	if (r == -EFBIG)
		return err_set(err, r, "the policy \"%s\" is larger than 1M", path);
	if (r < 0)
		return err_errno(err, r, "cannot read the policy \"%s\"", path);
	if (text.len == 0)
		return err_set(err, -EINVAL,
			       "the policy \"%s\" is empty: begin with \"version: 1\"", path);
	return parse_text(loading, &place, text.data, text.len, ret_policy, err);
}

static int unknown_policy(const char *name, struct err *err)
{
	const char *names[32];
	size_t count = MIN(shipped_policy_count, ARRAY_SIZE(names));
	_cleanup_(buf_done) struct buf all = BUF(400);
	const char *nearest;

	for (size_t i = 0; i < count; i++) {
		names[i] = shipped_policies[i].name;
		buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
	}
	nearest = str_nearest(name, names, count);
	if (nearest)
		return err_set(err, -ENOENT, "there is no policy \"%s\", did you mean \"%s\"?",
			       name, nearest);
	return err_set(err, -ENOENT,
		       "there is no policy \"%s\" (shipped: %s; a file needs a / or .yaml)", name,
		       buf_text(&all));
}

static int load_named(struct loading *loading, const char *name, struct policy *ret_policy,
		      struct err *err)
{
	_cleanup_(buf_done) struct buf path = BUF(4096);
	const char *home = loading->env->config_home;
	struct stat st;

	for (size_t i = 0; i < shipped_policy_count; i++)
		if (str_equal(shipped_policies[i].name, name))
			return load_shipped(loading, &shipped_policies[i], ret_policy, err);
	if (home && buf_printf(&path, "%s/policies/%s.yaml", home, name) == -ENOMEM)
		return err_errno(err, -ENOMEM, "cannot read the policy \"%s\"", name);
	if (home && !buf_failed(&path) && stat(buf_text(&path), &st) == 0)
		return load_file(loading, buf_text(&path), ret_policy, err);
	return unknown_policy(name, err);
}

int policy_load(const char *name, const struct policy_env *env, struct policy *ret_policy,
		struct err *err)
{
	struct loading loading = { .env = env };

	if (*name == '\0')
		return err_set(err, -EINVAL, "the name of the policy is empty");
	if (strchr(name, '/') || str_ends(name, ".yaml") || str_ends(name, ".yml") ||
	    str_ends(name, ".json"))
		return load_file(&loading, name, ret_policy, err);
	return load_named(&loading, name, ret_policy, err);
}

int policy_parse(const char *name, const char *text, size_t len, const struct policy_env *env,
		 struct policy *ret_policy, struct err *err)
{
	struct loading loading = { .env = env };
	const struct place place = { .source = name, .env = env };

	return parse_text(&loading, &place, text, len, ret_policy, err);
}

int policy_set_flag(struct policy *policy, const char *flag, const char *text,
		    const struct policy_env *env, struct err *err)
{
	char *copy = (char *)(uintptr_t)text;
	const struct node node = { .kind = NODE_STRING, .text = copy, .len = strlen(text) };
	const struct key_flag *which;
	const struct key *key = key_of_flag(flag, &which);
	char name[40];
	const struct place place = {
		.is_flag = true, .key = name, .env = env, .value = key ? which->value : NULL
	};

	if (!key)
		return err_set(err, -EINVAL, "unknown flag \"--%s\"", flag);
	snprintf(name, sizeof(name), "--%s", flag);
	return type_ops_of(key->type)->parse(&place, &node, key_field(key, policy), err);
}

int policy_check_built(const struct policy *policy, struct err *err)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *key = &policy_keys[i];

		if (key->needs && type_ops_of(key->type)->is_set(key_field_const(key, policy)))
			return err_set(err, -EOPNOTSUPP,
				       "%s needs %s, which this version of brig does not have yet",
				       key->name, key->needs);
	}
	if (policy->on_deny > ON_DENY_FAIL)
		return err_set(err, -EOPNOTSUPP,
			       "on_deny other than fail needs approvals, which this version of "
			       "brig does not "
			       "have yet");
	return 0;
}
