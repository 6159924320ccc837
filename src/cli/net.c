/*
 * net.c - brig net: other rules for the network of a sandbox that lives
 *
 * The person may widen, as when the sandbox was made; what the operator's file and the project's forbid is taken
 * out here, where their rights are, and the warden gets what is left.
 */
#include <errno.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/grant.h"
#include "cli/live.h"
#include "data/schema.h"

static const struct option net_options[] = {
	{ 0, "deny", "HOST:PORT,...", "refuse these, whatever else allows them" },
	{ 0, "none", NULL, "no network" },
	LIVE_OPTIONS,
};

struct request {
	const char *word, *deny;
	char **allow;
	size_t allow_count;
	bool none, json;
};

/* One rule, by the flag that has it elsewhere. What is wrong with it is said of the rule, as that flag is none of ours. */
static int read_rule(const char *flag, const char *rule, const struct policy_env *env,
		     struct policy *policy, struct err *err)
{
	struct err inner = ERR_NONE;
	int r = policy_set_flag(policy, flag, rule, env, &inner);
	const char *colon = strstr(inner.text, ": ");

	return r < 0 ? err_set(err, r, "net: %s", colon ? colon + 2 : inner.text) : 0;
}

static int read_denied(const char *list, const struct policy_env *env, struct policy *policy,
		       struct err *err)
{
	int r = 0;

	while (list && *list && r == 0) {
		size_t len = strcspn(list, ",");
		_cleanup_free_ char *rule = strndup(list, len);

		r = rule ? read_rule("deny-net", rule, env, policy, err)
			 : err_set(err, -ENOMEM, "out of memory");
		list += len + (list[len] == ',');
	}
	return r;
}

static int read_rules(const struct request *request, const struct policy_env *env,
		      struct policy *policy, struct err *err)
{
	int r = read_denied(request->deny, env, policy, err);

	for (size_t i = 0; i < request->allow_count && r == 0; i++)
		r = read_rule("allow-net", request->allow[i], env, policy, err);
	return r < 0 ? r : grant_narrow(policy, env, err);
}

static int list_of(const struct host_rules *rules, struct node **ret_list)
{
	_cleanup_(node_freep) struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < rules->count && r == 0; i++)
		r = node_add(list, node_string(rules->items[i].text));
	if (r == 0)
		*ret_list = take_ptr(&list);
	return r;
}

/* What holds now, which can be less than was asked for. */
static int print_rules(const char *id, const struct policy *policy)
{
	_cleanup_(node_freep) struct node *root = node_map(), *allow = NULL, *deny = NULL;
	int r = root ? list_of(&policy->net_allow, &allow) : -ENOMEM;

	r = r < 0 ? r : list_of(&policy->net_deny, &deny);
	r = r < 0 ? r : node_set(root, "sandbox", node_string(id));
	r = r < 0 ? r : node_set(root, "allow", take_ptr(&allow));
	r = r < 0 ? r : node_set(root, "deny", take_ptr(&deny));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

static int run(const struct request *request, const struct policy *policy)
{
	_cleanup_(client_done) struct client client = CLIENT_NONE;
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_NETWORK, 0);
	struct err err = ERR_NONE;
	int r = client_open(request->word, &client, &err);

	if (r < 0)
		return complain(&err);
	d.call = client_number(&client);
	for (size_t i = 0; i < policy->net_allow.count; i++)
		draft_text(&d, FIELD_ALLOW, policy->net_allow.items[i].text);
	for (size_t i = 0; i < policy->net_deny.count; i++)
		draft_text(&d, FIELD_DENY, policy->net_deny.items[i].text);
	if (client_do(&client, &d, NULL, 0, &err) < 0)
		return complain(&err);
	if (request->json)
		return print_rules(client.id, policy);
	printf("%s\n", client.id);
	return 0;
}

static int change(const struct request *request)
{
	struct policy_env env;
	struct policy policy;
	struct err err = ERR_NONE;
	int r = policy_env_here(&env, &err), code;

	if (r < 0)
		return complain(&err);
	policy_init(&policy);
	r = read_rules(request, &env, &policy, &err);
	code = r < 0 ? complain(&err) : run(request, &policy);
	policy_done(&policy);
	return code;
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig net");
	int r = schema_add(document, "sandbox", schema_type("string"), true);

	r = r < 0 ? r : schema_add(document, "allow", schema_list(schema_type("string")), true);
	r = r < 0 ? r : schema_add(document, "deny", schema_list(schema_type("string")), true);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int verb_net_main(int argc, char **argv)
{
	struct request request = { 0 };
	bool schema = false, help = false;
	const struct live_option options[] = { { "deny", NULL, &request.deny },
					       { "none", &request.none, NULL },
					       { "json", &request.json, NULL },
					       { "schema", &schema, NULL },
					       { "help", &help, NULL } };
	struct err err = ERR_NONE;
	int words = live_arguments(argc, argv, &verb_net, options, ARRAY_SIZE(options), &err);

	if (words < 0)
		return complain(&err);
	if (help) {
		print_help(&verb_net);
		return 0;
	}
	if (schema)
		return print_schema();
	if (words == 0)
		return complain_text("net: which sandbox? (see \"brig help net\")");
	if ((words == 1) != request.none)
		return complain_text(
			request.none ? "net: --none is no network, and there are rules beside it"
				     : "net: which rules? (HOST:PORT, \"*:443\", or --none for no "
				       "network)");
	request.word = argv[1];
	request.allow = argv + 2;
	request.allow_count = (size_t)words - 1;
	return change(&request);
}

const struct verb verb_net = {
	.name = "net",
	.usage = "SANDBOX HOST:PORT... [--deny HOST:PORT,...] | SANDBOX --none",
	.summary = "other rules for the network of a sandbox",
	.text = "The rules (as --allow-net of \"brig create\" has them) take the place of those "
		"that "
		"the sandbox has, at once: connections that they refuse are reset. They may be "
		"wider "
		"than those before, but for what the operator's file and the project's narrow; "
		"--json prints what holds then.\n\n"
		"In the process tier, and where nested is allowed, rules cannot be changed later.",
	.example =
		"brig net k3x api.example.com:443\nbrig net k3x '*:443' --deny '*.ads.example:*'\n"
		"brig net k3x --none",
	.options = net_options,
	.run = verb_net_main,
};
