/* run.c - brig run: one command in a sandbox, in the foreground */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/changes.h"
#include "cli/cli.h"
#include "cli/grant.h"
#include "data/schema.h"
#include "tier/tier.h"
#include "warden/warden.h"

#define PRINTED_DENIALS 10

static const struct option run_options[] = {
	GRANT_POLICY,
	{ 0, "json", NULL, "print one JSON object with the result, output included" },
	{ 0, "raw", NULL, "do not make the output harmless for the terminal" },
	GRANT_WEAKEN,
	GRANT_BOUNDS,
	{ 0, "dry-run", NULL, "print every step of the set-up, and do none" },
	{ 0, "diff", NULL, "print what was changed in overlays" },
	{ 0, "commit", NULL, "bring the changes in overlays back when the command succeeded" },
	{ 0, "export", "DIR|FILE.tar", "write what the sandbox made to a new folder or tar file" },
	{ 0, "keep", "NAME",
	  "keep what the sandbox wrote as image NAME, for others to start from" },
	{ 0, "from", "NAME", "start from image NAME: its files are there, and stay as they are" },
	{ 'v', "verbose", NULL, "say which tier was chosen and what it enforces" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints (also with --dry-run)" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

struct run {
	struct grant grant;
	const char *from;
	struct image_layers layers; /* held until the end */
	bool json, is_raw, verbose, schema, help, dry_run;
	struct run_changes changes;
	char **command;
};

static int set_option(struct run *run, const char *name, const char *value, struct err *err)
{
	const struct {
		const char *name;
		bool *place;
	} switches[] = {
		{ "json", &run->json },         { "raw", &run->is_raw },
		{ "verbose", &run->verbose },   { "schema", &run->schema },
		{ "help", &run->help },         { "dry-run", &run->dry_run },
		{ "diff", &run->changes.diff }, { "commit", &run->changes.commit },
	};
	const struct {
		const char *name, **place;
	} texts[] = {
		{ "export", &run->changes.export },
		{ "keep", &run->changes.keep },
		{ "from", &run->from },
	};

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		if (str_equal(name, switches[i].name)) {
			*switches[i].place = true;
			return 0;
		}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (str_equal(name, texts[i].name)) {
			*texts[i].place = value;
			return 0;
		}
	return grant_set(&run->grant, name, value, err);
}

static int parse_options(int argc, char **argv, struct run *run, struct err *err)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	const char *name, *value;
	int r;

	while ((r = args_next(&args, &verb_run, &name, &value, err)) > 0) {
		r = set_option(run, name, value, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	run->command = argv + args.at;
	if (args.at >= argc && !run->help && !run->schema)
		return err_set(err, -EINVAL,
			       "run: what should run? (brig run [options] -- COMMAND)");
	if (args.at < argc && argv[args.at][0] == '\0')
		return err_set(err, -EINVAL, "run: the command is empty");
	return 0;
}

static void print_report(const struct tier *tier, const char *why, const struct result *result)
{
	fprintf(stderr, "brig: %s tier (%s), sandbox %s, policy %s\n",
		isolation_names[tier->isolation], why, result->sandbox, result->policy);
	for (size_t i = 0; i < result->report->count; i++) {
		const struct wall *wall = &result->report->walls[i];

		fprintf(stderr, "brig:   %-12s %-24s %s\n", wall->name, wall->mechanism,
			wall->value);
	}
}

/* What every program of a C library, or every runtime, looks for, and does well without. */
static bool is_usual(const struct denial *d)
{
	static const char *const trees[] = { "/etc/host.conf",
					     "/etc/ld.so.preload",
					     "/etc/gai.conf",
					     "/etc/nsswitch.conf",
					     "/sys",
					     "/run",
					     "/var/run",
					     "/var/lib/sss",
					     "/dev" };

	if (!str_equal(d->action, "read") || d->rule_source[0])
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (path_is_below(d->object, trees[i]))
			return true;
	return false;
}

/* One short line for each, for a person or a model to act on. */
static void print_denials(const struct result *result)
{
	uint64_t printed = 0, more = result->denials_left_out;
	char line[sizeof(struct denial) + 64];

	for (size_t i = 0; i < result->denial_count; i++) {
		const struct denial *d = &result->denials[i];

		if (is_usual(d))
			continue;
		if (printed == PRINTED_DENIALS) {
			more++;
			continue;
		}
		printed++;
		snprintf(line, sizeof(line), "%s %s: %s%s%s", d->action, d->object, d->reason,
			 d->allow_with[0] ? "; allow with " : "", d->allow_with);
		str_make_printable(line);
		fprintf(stderr, "brig: refused: %s\n", line);
	}
	if (more > 0)
		fprintf(stderr, "brig: refused: %llu more (brig events %s --denied)\n",
			(unsigned long long)more, result->sandbox);
}

/* Said on standard error when the end was not the program's own doing, unless --json says it. */
static void print_reason(const struct result *result, bool with_denials)
{
	static const char *const texts[REASON_COUNT] = {
		[REASON_TIMEOUT] = "ended at its time limit (wall)",
		[REASON_MEMORY] = "ran into its memory limit",
		[REASON_PIDS] = "ran into its limit of processes (pids)",
		[REASON_CPU] = "used up its CPU time (cpu_time)",
		[REASON_DISK] = "wrote a file larger than its limit (disk)",
		[REASON_OUTPUT] = "printed more than its limit (output)",
		[REASON_RECORD] = "was ended: what it does could not be recorded any more",
		[REASON_LOST] = "was ended: a protected path was replaced on the host",
	};

	if (texts[result->reason])
		fprintf(stderr, "brig: the sandbox %s\n", texts[result->reason]);
	if (with_denials)
		print_denials(result);
}

/* What --dry-run --json prints. */
static int dry_run_schema(struct node **ret_schema)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig plan");
	int r = schema_add(document, "isolation", schema_type("string"), true);

	r = r < 0 ? r : schema_add(document, "operations", plan_schema(), true);
	if (r == 0)
		*ret_schema = take_ptr(&document);
	return r;
}

static int print_schema(const struct run *run)
{
	_cleanup_(node_freep) struct node *schema = NULL;
	int r = run->dry_run ? dry_run_schema(&schema) : result_schema(&schema);

	return r < 0 ? complain_text("out of memory") : print_json(schema);
}

/* The changes come last: what was printed before is the program's. */
static int finish(const struct run *run, const struct result *result, const struct tier_jail *tj,
		  const struct err *err)
{
	_cleanup_(node_freep) struct node *node = NULL;
	struct err changes = ERR_NONE;
	int r;

	if (err->code)
		complain(err);
	/* A command that could not be executed has been explained. */
	if (!run->json)
		print_reason(result, !err->code || result->reason == REASON_RECORD);
	else if (result_to_node(result, &node) < 0)
		return complain_text("out of memory");
	r = changes_finish(&run->changes, tj, result->exit_code != 0, node, &changes);
	if (node && print_json(node))
		return EXIT_BRIG;
	if (r < 0)
		return complain(&changes);
	return result->exit_code;
}

static int print_plan(const struct run *run, const struct tier *tier, const struct plan *plan)
{
	_cleanup_(node_freep) struct node *root = NULL, *list = NULL;
	char text[2048];
	int r;

	if (!run->json) {
		for (size_t i = 0; i < plan->count; i++) {
			op_describe(&plan->ops[i], text, sizeof(text));
			printf("%-13s %s\n", stage_names[plan->ops[i].stage], text);
		}
		return 0;
	}
	root = node_map();
	r = root ? plan_to_node(plan, &list) : -ENOMEM;
	r = r < 0 ? r : node_set(root, "isolation", node_string(isolation_names[tier->isolation]));
	r = r < 0 ? r : node_set(root, "operations", take_ptr(&list));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

static int show_plan(const struct run *run, const struct warden_request *request, struct err *err)
{
	static struct tier_jail tj;
	int r = warden_plan(request, &tj, err);

	if (r < 0)
		return complain(err);
	r = print_plan(run, request->tier, &tj.plan);
	tier_jail_abandon(&tj);
	return r;
}

static int run_tier(const struct run *run, struct warden_request *request, struct tier_jail *tj,
		    struct result *result, struct err *err)
{
	int r = warden_run(request, tj, result, err);
	const struct tier *instead;

	/* Bad input stays bad input: only what the kernel refused is worth another try. */
	if (r >= 0 || request->tier->isolation == ISOLATION_PROCESS)
		return r;
	instead = grant_instead(request->policy, request->tier, err);
	if (!instead)
		return r;
	if (changes_need_container(&run->changes))
		return err_set(err, -EOPNOTSUPP,
			       "--diff, --commit and --export need the container tier");
	*err = ERR_NONE;
	request->tier = instead;
	return warden_run(request, tj, result, err);
}

static int run_policy(struct run *run, const struct policy *policy, const struct policy_env *env,
		      struct err *err)
{
	static struct tier_jail tj;
	struct result result = { 0 };
	const char *why;
	struct warden_request request = {
		.policy = policy,
		.env = env,
		.weaken = run->grant.weaken,
		.capture = run->json,
		.is_raw = run->is_raw,
		.keeps_store = changes_are_wanted(&run->changes),
		.argv = run->command,
		.environ = environ,
		.temporary = grant_temporary(),
	};
	int r = tier_choose(policy, &request.tier, &why, err);

	if (r == 0 && run->from) {
		r = grant_from(run->from, &run->layers, err);
		request.from = run->changes.from = &run->layers;
	}
	r = r < 0 ? r : changes_check(&run->changes, request.tier, policy, err);
	/* Only where somebody reads it: the canonical form costs as much as the walls. */
	if (r == 0 && (run->json || run->verbose))
		r = policy_digest(policy, result.policy);
	if (r < 0)
		return err->code ? complain(err) : complain_text("out of memory");
	if (run->dry_run)
		return show_plan(run, &request, err);
	r = run_tier(run, &request, &tj, &result, err);
	if (r < 0)
		return complain(err);
	result.isolation = isolation_names[request.tier->isolation];
	if (run->verbose)
		print_report(request.tier, why, &result);
	r = finish(run, &result, &tj, err);
	buf_done(&result.out);
	buf_done(&result.err);
	warden_leave(&tj);
	return r;
}

static int verb_run_main(int argc, char **argv)
{
	static struct run run;
	struct err err = ERR_NONE;
	struct policy_env env;
	struct policy policy;
	int r = parse_options(argc, argv, &run, &err);

	if (r == 0 && run.help) {
		print_help(&verb_run);
		return 0;
	}
	if (r == 0 && run.schema)
		return print_schema(&run);
	r = r < 0 ? r : policy_env_here(&env, &err);
	r = r < 0 ? r : grant_load(&run.grant, &env, &policy, &err);
	if (r < 0)
		return complain(&err);
	r = run_policy(&run, &policy, &env, &err);
	policy_done(&policy);
	grant_done(&run.grant);
	image_layers_done(&run.layers);
	return r;
}

const struct verb verb_run = {
	.name = "run",
	.usage = "[options] -- COMMAND [ARGUMENT...]",
	.summary = "run a command in a sandbox",
	.text = "Runs COMMAND inside the walls that the policy asks for, waits for it, and ends "
		"everything that it "
		"started. If a wall cannot be had on this host, nothing starts.\n\n"
		"The policy is --policy, or the file policy.yaml in your configuration folder "
		"($XDG_CONFIG_HOME/brig or ~/.config/brig), or the shipped policy base. Options "
		"add to it. A file "
		".brig.yaml in the working directory and the operator's /etc/brig/policy.yaml can "
		"only narrow the "
		"result.\n\n"
		"The exit status is that of COMMAND; 128+n when signal n ended it, 124 at the time "
		"limit, 126 or "
		"127 when it could not be executed or found, 125 for an error of brig itself.\n\n"
		"At a terminal the command gets a terminal of its own. A command that ignores "
		"Ctrl-C is "
		"ended by it. In a pipeline (brig run -- ls | less) its standard input is empty "
		"instead of the "
		"terminal, and output to a pipe is relayed.",
	.example = "brig run -- python3 script.py\n"
		   "brig run --allow-write . --memory 512M --wall 30s -- make test\n"
		   "brig run --policy policy.yaml --json -- ./a.out < input",
	.options = run_options,
	.takes_policy = true,
	.run = verb_run_main,
};
