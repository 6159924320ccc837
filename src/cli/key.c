/* key.c - brig key: who may use the daemon, and how much of it */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/serve.h"
#include "data/schema.h"

/* Of a file of state (serve/store.h). */
#define POLICY_NAME_MAX 255

static const struct option key_options[] = {
	{ 0, "tenant", "NAME", "whose key it is (default: default); a new name is a new tenant" },
	{ 0, "kind", "user|reviewer|admin", "what the key may do (default: user)" },
	{ 0, "max-sandboxes", "N|none", "sandboxes that the tenant may have at once" },
	{ 0, "max-cpu", "N|none", "CPUs of all of them together" },
	{ 0, "max-memory", "SIZE|none", "memory of all of them together" },
	{ 0, "max-disk", "SIZE|none", "disk of all of them together" },
	{ 0, "create-rate", "N|none", "sandboxes a second, in the long run" },
	{ 0, "policy", "FILE|NAME", "no sandbox of the tenant gets more than this policy grants" },
	{ 0, "floor", "TIER|none", "no sandbox of the tenant gets a weaker tier" },
	{ 0, "json", NULL, "print JSON" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

#define NONE "none"

/* --- values, as the request wants them; "none" takes a quota away --- */

static struct node *number_node(const char *text, uint64_t number, struct err *err)
{
	if (number == 0 || number > INT64_MAX) {
		err_set(err, -EINVAL, "\"%.40s\" is out of range (\"" NONE "\": no limit)", text);
		return NULL;
	}
	return node_int((int64_t)number);
}

static struct node *take_count(const char *text, struct err *err)
{
	uint64_t count;

	return parse_count(text, &count, err) < 0 ? NULL : number_node(text, count, err);
}

static struct node *take_size(const char *text, struct err *err)
{
	uint64_t bytes;

	return parse_size(text, &bytes, err) < 0 ? NULL : number_node(text, bytes, err);
}

static struct node *take_cpus(const char *text, struct err *err)
{
	uint64_t milli;

	if (parse_cpus(text, &milli, err) < 0)
		return NULL;
	return node_float((double)milli / 1000);
}

static struct node *take_rate(const char *text, struct err *err)
{
	char *end;
	double rate = strtod(text, &end);

	if (text[strspn(text, "0123456789.")] || end == text || *end || !(rate >= 0.001) ||
	    rate > 1e6) {
		err_set(err, -EINVAL, "\"%.40s\" is no rate: sandboxes a second, such as 5 or 0.5",
			text);
		return NULL;
	}
	return node_float(rate);
}

static struct node *take_name(const char *text, struct err *err)
{
	/* Its form is the store's to check, which names it. */
	if (text[0] == '\0') {
		err_set(err, -EINVAL, "is empty");
		return NULL;
	}
	return node_string(text);
}

static struct node *take_kind(const char *text, struct err *err)
{
	static const char *const kinds[] = { "user", "reviewer", "admin" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_equal(text, kinds[i]))
			return node_string(text);
	err_set(err, -EINVAL, "\"%.40s\" is none of: user, reviewer, admin", text);
	return NULL;
}

static struct node *take_floor(const char *text, struct err *err)
{
	for (size_t i = ISOLATION_UNSET + 1; i < ISOLATION_AUTO; i++)
		if (str_equal(text, isolation_names[i]))
			return node_string(text);
	err_set(err, -EINVAL, "\"%.40s\" is no tier (process, container, vm, ...)", text);
	return NULL;
}

/* Read now, so that a mistake is told to who makes it; a file by its whole path, as the daemon may be elsewhere. */
static struct node *take_policy(const char *text, struct err *err)
{
	struct policy_env env;
	struct policy policy;
	char path[PATH_MAX];

	if (policy_env_here(&env, err) < 0 || policy_load(text, &env, &policy, err) < 0)
		return NULL;
	policy_done(&policy);
	if (strchr(text, '/') || str_ends(text, ".yaml") || str_ends(text, ".json")) {
		if (!realpath(text, path)) {
			err_errno(err, -errno, "\"%s\"", text);
			return NULL;
		}
		text = path;
	}
	if (strlen(text) > POLICY_NAME_MAX) {
		err_set(err, -ENAMETOOLONG, "the path is longer than %d bytes", POLICY_NAME_MAX);
		return NULL;
	}
	return node_string(text);
}

/* is_text: "none" is the empty text, else 0. */
static const struct value {
	const char *option, *field;
	struct node *(*take)(const char *text, struct err *err);
	bool may_be_none, is_text;
} values[] = {
	{ "tenant", "tenant", take_name, false, true },
	{ "kind", "kind", take_kind, false, true },
	{ "max-sandboxes", "max_sandboxes", take_count, true, false },
	{ "max-cpu", "max_cpu", take_cpus, true, false },
	{ "max-memory", "max_memory", take_size, true, false },
	{ "max-disk", "max_disk", take_size, true, false },
	{ "create-rate", "create_rate", take_rate, true, false },
	{ "policy", "policy", take_policy, true, true },
	{ "floor", "floor", take_floor, true, true },
};

static const struct value *find_value(const char *option)
{
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		if (str_equal(values[i].option, option))
			return &values[i];
	return NULL;
}

static int add_value(struct node *request, const struct value *value, const char *text,
		     struct err *err)
{
	struct node *node;

	if (value->may_be_none && str_equal(text, NONE))
		node = value->is_text ? node_string("") : node_int(0);
	else
		node = value->take(text, err);
	if (!node && err->code)
		return err_prefix(err, "--%s", value->option);
	return node_set(request, value->field, node);
}

/* --- the request --- */

struct key_request {
	struct node *node;
	bool is_json, is_schema, is_help;
	const char *option; /* the first that only "create" takes */
};

static int take_option(struct key_request *request, const char *name, const char *text,
		       struct err *err)
{
	const struct {
		const char *name;
		bool *place;
	} switches[] = {
		{ "json", &request->is_json },
		{ "schema", &request->is_schema },
		{ "help", &request->is_help },
	};
	const struct value *value = find_value(name);

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		if (str_equal(name, switches[i].name)) {
			*switches[i].place = true;
			return 0;
		}
	request->option = request->option ?: value->option;
	return add_value(request->node, value, text, err);
}

/* --- schemas --- */

#define KEY_PARTS                                                                              \
	{ "id", "string", false }, { "tenant", "string", false }, { "kind", "string", false }, \
		{ "shown", "string", false }, { "created_ms", "integer", false },              \
		{ "used_ms", "integer|null", false },                                          \
	{                                                                                      \
		"revoked_ms", "integer|null", false                                            \
	}

static const struct schema_part key_parts[] = { KEY_PARTS };
static const struct schema_part tenant_parts[] = {
	{ "name", "string", false },           { "number", "integer", false },
	{ "created_ms", "integer", false },    { "max_sandboxes", "integer|null", false },
	{ "max_cpu", "number|null", false },   { "max_memory", "integer|null", false },
	{ "max_disk", "integer|null", false }, { "create_rate", "number|null", false },
	{ "policy", "string|null", false },    { "floor", "string|null", false },
};

static int add_parts(struct node *document, const struct schema_part *parts, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = schema_add(document, parts[i].name, schema_type(parts[i].type), true);
	return r;
}

static int key_schema(struct node *document)
{
	return add_parts(document, key_parts, ARRAY_SIZE(key_parts));
}

static int create_schema(struct node *document)
{
	int r = key_schema(document);

	return r < 0 ? r : schema_add(document, "key", schema_type("string"), true);
}

static int list_schema(struct node *document)
{
	struct node *keys = schema_parts(key_parts, ARRAY_SIZE(key_parts));
	struct node *tenants = schema_parts(tenant_parts, ARRAY_SIZE(tenant_parts));
	int r = schema_add(document, "keys", schema_list(keys), true);

	if (r < 0) {
		node_free(tenants);
		return r;
	}
	return schema_add(document, "tenants", schema_list(tenants), true);
}

/* --- the parts of the verb --- */

static const struct part {
	const char *name, *verb; /* as brig-serve knows it */
	int words;
	bool takes_values;
	int (*schema)(struct node *document);
} parts[] = {
	{ "create", "key-create", 0, true, create_schema },
	{ "list", "key-list", 0, false, list_schema },
	{ "revoke", "key-revoke", 1, false, key_schema },
};

static int print_schema(const struct part *part)
{
	char title[32];
	_cleanup_(node_freep) struct node *document = NULL;

	snprintf(title, sizeof(title), "brig key %s", part->name);
	document = schema_document(title);
	return !document || part->schema(document) < 0 ? complain_text("out of memory")
						       : print_json(document);
}

static int hand_over(struct key_request *request, const struct part *part, const char *id)
{
	int r = node_set(request->node, "verb", node_string(part->verb));

	if (r == 0 && part->words > 0)
		r = node_set(request->node, "id", node_string(id));
	if (r == 0)
		r = node_set(request->node, "json", node_bool(request->is_json));
	return r < 0 ? complain_text("out of memory") : serve_exec(request->node);
}

/* words[0] is the part's name. */
static int run(struct key_request *request, char **words, int count)
{
	const struct part *part = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && count > 0; i++)
		if (str_equal(words[0], parts[i].name))
			part = &parts[i];
	if (count == 0)
		return complain_text("key: create, list or revoke? (brig help key)");
	if (!part)
		return complain_text("key: \"%.40s\" is none of: create, list, revoke", words[0]);
	if (request->is_schema)
		return print_schema(part);
	if (request->option && !part->takes_values)
		return complain_text("key %s takes no --%s", part->name, request->option);
	if (count - 1 < part->words)
		return complain_text("key %s: which key? (brig key list)", part->name);
	if (count - 1 > part->words)
		return complain_text("key %s: too many words: \"%.40s\"", part->name,
				     words[part->words + 1]);
	return hand_over(request, part, words[part->words]);
}

/* Options may stand before, between and behind the words, which move to the front. */
static int verb_key_main(int argc, char **argv)
{
	_cleanup_(node_freep) struct node *map = node_map();
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	struct key_request request = { .node = map };
	const char *name, *text;
	struct err err = ERR_NONE;
	int count = 0, r;

	if (!map)
		return complain_text("out of memory");
	while (args.at < argc) {
		r = args_next(&args, &verb_key, &name, &text, &err);
		if (r > 0)
			r = take_option(&request, name, text, &err);
		else if (r == 0 && args.at < argc)
			argv[count++] = argv[args.at++];
		if (r < 0)
			return err.code ? complain(&err) : complain_text("out of memory");
	}
	if (request.is_help) {
		print_help(&verb_key);
		return 0;
	}
	return run(&request, argv, count);
}

const struct verb verb_key = {
	.name = "key",
	.usage = "create [options] | list | revoke ID [--json]",
	.summary = "make, list and revoke the keys with which clients use \"brig serve\"",
	.text = "A key belongs to a tenant. Each tenant has its own sandboxes, which no other "
		"tenant sees, and quotas; where the daemon runs as root also user ids and a cgroup "
		"of its own. The key itself is printed once, by create; brig keeps a digest of it. "
		"All options but --json are of create. Quotas that it names hold for the tenant as "
		"a whole from then on, for its "
		"older keys too; those that it does not name stay as they are, and \"none\" takes "
		"one away.\n\n"
		"A user's key makes and uses the sandboxes of its tenant. A reviewer's key is for "
		"reviews alone: it makes and runs nothing. An admin's is good for everything, keys "
		"and tenants too.\n\n"
		"revoke takes an id, the beginning of one, or the key itself, and holds from the "
		"next request on, without a restart of the daemon. All work on the state directory "
		"($XDG_STATE_HOME/brig, else ~/.local/state/brig, for root /var/lib/brig): run "
		"them as the user who runs the daemon.",
	.example = "brig key create --tenant acme --max-sandboxes 50 --max-memory 16G\n"
		   "export E2B_API_KEY=$(brig key create)\n"
		   "brig key list\n"
		   "brig key revoke k3x",
	.options = key_options,
	.run = verb_key_main,
};
