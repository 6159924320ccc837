/* policy.c - brig policy: check a file, explain what it comes to, print the schema */
#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "egress/publish.h"
#include "jail/seccomp.h"
#include "tier/tier.h"

static const struct option policy_options[] = {
	{ 0, "json", NULL, "print JSON" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

static int print_check(const char *name, const struct policy *policy, bool json)
{
	_cleanup_(node_freep) struct node *root = node_map();
	char digest[POLICY_DIGEST_SIZE];
	int r = policy_digest(policy, digest);

	if (r < 0 || !root)
		return complain_text("out of memory");
	if (!json) {
		printf("%s: ok, %s\n", name, digest);
		return 0;
	}
	r = node_set(root, "ok", node_bool(true));
	r = r < 0 ? r : node_set(root, "policy", node_string(name));
	r = r < 0 ? r : node_set(root, "digest", node_string(digest));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

static int check_failed(const char *name, const struct err *err, bool json)
{
	_cleanup_(node_freep) struct node *root = NULL;
	int r;

	if (!json)
		return complain(err);
	root = node_map();
	r = root ? node_set(root, "ok", node_bool(false)) : -ENOMEM;
	r = r < 0 ? r : node_set(root, "policy", node_string(name));
	r = r < 0 ? r : node_set(root, "error", node_string(err->text));
	if (r == 0)
		(void)!print_json(root);
	return EXIT_BRIG;
}

static void print_origin(const struct origin *origin)
{
	if (origin->line)
		printf("  (%s:%u)\n", origin->source, origin->line);
	else
		printf("  (%s)\n", origin->source);
}

static void explain_paths(const struct path_rules *rules)
{
	printf("files\n");
	for (size_t i = 0; i < rules->count; i++) {
		printf("  %-8s %s", access_names[rules->items[i].access], rules->items[i].path);
		print_origin(&rules->items[i].origin);
	}
	printf("  none     everything else\n");
}

static void explain_hosts(const char *verdict, const struct host_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		printf("  %-8s %s", verdict, rules->items[i].text);
		print_origin(&rules->items[i].origin);
	}
}

static void explain_limit(const char *name, uint64_t value,
			  void (*format)(uint64_t, char *, size_t))
{
	char text[32] = "none";

	if (value != LIMIT_UNSET && format)
		format(value, text, sizeof(text));
	else if (value != LIMIT_UNSET)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	printf("  %-8s %s\n", name, text);
}

static void explain_limits(const struct limits *l)
{
	printf("limits\n");
	explain_limit("wall", l->wall, format_duration);
	explain_limit("cpu", l->cpu, format_cpus);
	explain_limit("cpu_time", l->cpu_time, format_duration);
	explain_limit("memory", l->memory, format_size);
	explain_limit("pids", l->pids, NULL);
	explain_limit("disk", l->disk, format_size);
	explain_limit("files", l->files, NULL);
	explain_limit("output", l->output, format_size);
}

static void explain_words(const char *title, const struct words *words)
{
	printf("%s\n ", title);
	for (size_t i = 0; i < words->list.count; i++)
		printf(" %s", words->list.items[i]);
	printf(words->list.count ? "\n" : " none\n");
}

static void explain_ports(const struct words *words)
{
	for (size_t i = 0; i < words->list.count; i++) {
		struct published port;
		char text[PUBLISH_TEXT_SIZE];

		if (policy_port_read(words->list.items[i], &port))
			printf("  publish  %s%s\n", published_text(&port, text),
			       port.outside ? "" : "  (0: any port that is free)");
	}
}

static void explain_syscalls(const struct policy *policy)
{
	static struct filter filter;
	struct filter_spec spec = { .sockets = SOCKETS_NONE };

	for (size_t i = 0; i < EXTENSION_COUNT; i++)
		if (strv_has(&policy->allow.list, extensions[i].name))
			spec.extensions |= 1u << i;
	if (filter_build(&spec, &filter, NULL) == 0)
		printf("system calls\n  default deny, %u allowed in the process tier\n",
		       filter.allowed);
	for (size_t i = 0; i < EXTENSION_COUNT; i++)
		if (spec.extensions & 1u << i)
			printf("  %-8s %s\n", extensions[i].name, extensions[i].summary);
}

/* What holds a rule inside a wider one, where Landlock alone could not. */
static void explain_narrower(const struct path_rules *rules)
{
	const struct path_rule *wider, *narrower = policy_path_conflict(rules, &wider);
	bool hides = false;

	if (!narrower)
		return;
	printf("  \"%s\" (%s) lies inside \"%s\" (%s): the keeper carries out what changes files "
	       "around it\n",
	       narrower->path, access_names[narrower->access], wider->path,
	       access_names[wider->access]);
	for (size_t i = 0; i < rules->count; i++)
		hides |= rules->items[i].access == ACCESS_NONE &&
			 policy_path_around(rules, &rules->items[i]) > ACCESS_NONE;
	if (hides)
		printf("  something is hidden inside an open folder: a program that is made "
		       "directly "
		       "in it cannot be executed\n");
}

/* Whether it could start here, in this version: the same questions that a start asks. */
static void explain_start(const struct policy *policy)
{
	struct err err = ERR_NONE;
	const struct tier *tier;
	const char *why;

	printf("start\n");
	if (policy_check_built(policy, &err) < 0 || tier_choose(policy, &tier, &why, &err) < 0) {
		printf("  refused: %s\n", err.text);
		return;
	}
	printf("  %s tier (%s)\n", isolation_names[tier->isolation], why);
	if (tier->isolation == ISOLATION_PROCESS)
		explain_narrower(&policy->fs);
}

static int explain_text(const char *name, const struct policy *policy)
{
	char digest[POLICY_DIGEST_SIZE];

	if (policy_digest(policy, digest) < 0)
		return complain_text("out of memory");
	printf("policy %s\n  %s\n", name, digest);
	explain_start(policy);
	explain_paths(&policy->fs);
	printf("network\n");
	explain_hosts("deny", &policy->net_deny);
	explain_hosts("ask", &policy->net_ask);
	explain_hosts("allow", &policy->net_allow);
	printf("  deny     everything else\n");
	explain_ports(&policy->net_publish);
	explain_words("environment", &policy->env);
	explain_limits(&policy->limits);
	explain_syscalls(policy);
	return 0;
}

static int explain_json(const char *name, const struct policy *policy)
{
	_cleanup_(node_freep) struct node *root = node_map(), *manifest = NULL;
	char digest[POLICY_DIGEST_SIZE];
	int r = root ? policy_digest(policy, digest) : -ENOMEM;

	r = r < 0 ? r : policy_to_node(policy, &manifest);
	r = r < 0 ? r : node_set(root, "policy", node_string(name));
	r = r < 0 ? r : node_set(root, "digest", node_string(digest));
	r = r < 0 ? r : node_set(root, "manifest", take_ptr(&manifest));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *schema = NULL;

	return policy_schema(&schema) < 0 ? complain_text("out of memory") : print_json(schema);
}

static int with_policy(const char *action, const char *name, bool json)
{
	bool check = str_equal(action, "check");
	struct err err = ERR_NONE;
	struct policy_env env;
	struct policy policy;
	int r = policy_env_here(&env, &err);

	r = r < 0 ? r : policy_load(name, &env, &policy, &err);
	if (r < 0)
		return check_failed(name, &err, json);
	r = check  ? print_check(name, &policy, json)
	    : json ? explain_json(name, &policy)
		   : explain_text(name, &policy);
	policy_done(&policy);
	return r;
}

static int print_list(bool json)
{
	_cleanup_(node_freep) struct node *list = node_list();

	for (size_t i = 0; i < shipped_policy_count; i++) {
		if (!json)
			printf("%s\n", shipped_policies[i].name);
		else if (!list || node_add(list, node_string(shipped_policies[i].name)) < 0)
			return complain_text("out of memory");
	}
	return json ? print_json(list) : 0;
}

static int verb_policy_main(int argc, char **argv)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	const char *words[3] = { 0 }, *name, *value;
	struct err err = ERR_NONE;
	bool json = false;
	int r, count = 0;

	/* Options may stand before, between and behind the words. */
	while (args.at < argc) {
		r = args_next(&args, &verb_policy, &name, &value, &err);
		if (r < 0)
			return complain(&err);
		if (r > 0 && str_equal(name, "help")) {
			print_help(&verb_policy);
			return 0;
		}
		json |= r > 0;
		if (r == 0 && args.at < argc && count < 3)
			words[count++] = argv[args.at++];
		else if (r == 0 && args.at < argc)
			break;
	}
	if (count == 1 && str_equal(words[0], "schema"))
		return print_schema();
	if (count == 1 && str_equal(words[0], "list"))
		return print_list(json);
	if (count == 2 && (str_equal(words[0], "check") || str_equal(words[0], "explain")))
		return with_policy(words[0], words[1], json);
	return complain_text(
		"policy: use \"check FILE\", \"explain FILE\", \"list\" or \"schema\"");
}

const struct verb verb_policy = {
	.name = "policy",
	.usage = "check FILE|NAME | explain FILE|NAME | list | schema",
	.summary = "check or explain a policy, list the shipped ones, print the schema",
	.text = "check reads a policy with everything that it extends and prints its digest, or "
		"the first error "
		"with file, line and column. explain prints what it comes to in the working "
		"directory, each rule "
		"with the place that it comes from. list names the shipped policies. schema prints "
		"the JSON Schema "
		"of a policy file.",
	.example = "brig policy check policy.yaml\nbrig policy explain agent\nbrig policy schema > "
		   "policy.schema.json",
	.options = policy_options,
	.run = verb_policy_main,
};
