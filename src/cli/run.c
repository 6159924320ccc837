/* run.c - brig run: one command in a sandbox, in the foreground */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/changes.h"
#include "cli/cli.h"
#include "cli/hide.h"
#include "data/schema.h"
#include "tier/tier.h"
#include "warden/warden.h"

#define PRINTED_DENIALS 10
#define OPERATOR_POLICY "/etc/brig/policy.yaml"
#define PROJECT_POLICY  ".brig.yaml"
#define DEFAULT_POLICY  "base"

static const struct option run_options[] = {
	{ "policy", "FILE|NAME", "policy to start from (default: your policy.yaml, else base)" },
	{ "json", NULL, "print one JSON object with the result, output included" },
	{ "raw", NULL, "do not make the output harmless for the terminal" },
	{ "weaken", "WALL", "start although this host cannot give WALL (signals)" },
	{ "dry-run", NULL, "print every step of the set-up, and do none" },
	{ "diff", NULL, "print what was changed in overlays" },
	{ "commit", NULL, "bring the changes in overlays back when the command succeeded" },
	{ "export", "DIR|FILE.tar", "write what the sandbox made to a new folder or tar file" },
	{ "verbose", NULL, "say which tier was chosen and what it enforces" },
	{ "schema", NULL, "print the JSON Schema of what --json prints (also with --dry-run)" },
	{ "help", NULL, "this text" },
	{ 0 },
};

struct flag {
	const char *name, *value;
};

struct run {
	const char *policy_name;
	bool json, is_raw, verbose, schema, help, dry_run;
	struct run_changes changes;
	unsigned int weaken;
	struct flag flags[128]; /* of the policy, in their order */
	size_t flag_count;
	char **command;
};

static int set_weaken(struct run *run, const char *wall, struct err *err)
{
	if (!str_equal(wall, "signals"))
		return err_set(err, -EINVAL, "--weaken: \"%s\" cannot be given up (only: signals)",
			       wall);
	run->weaken |= WEAKEN_SIGNALS;
	return 0;
}

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

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		if (str_equal(name, switches[i].name)) {
			*switches[i].place = true;
			return 0;
		}
	if (str_equal(name, "weaken"))
		return set_weaken(run, value, err);
	if (str_equal(name, "export")) {
		run->changes.export = value;
		return 0;
	}
	if (str_equal(name, "policy")) {
		run->policy_name = value;
		return 0;
	}
	if (run->flag_count == ARRAY_SIZE(run->flags))
		return err_set(err, -E2BIG, "more than %zu options: write a policy file",
			       run->flag_count);
	/* The name is in args_next's own memory; the table's copy lives on. */
	run->flags[run->flag_count++] = (struct flag){ strdup(name), value };
	return run->flags[run->flag_count - 1].name ? 0 : -ENOMEM;
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

static bool exists(const char *path)
{
	struct stat st;

	/* Only a clean "not there" counts as absent: a policy that cannot be looked at must not be
	 * skipped. */
	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* The person's choice: --policy, or the user's file, or base. */
static int load_granted(const struct run *run, const struct policy_env *env,
			struct policy *ret_policy, struct err *err)
{
	char path[PATH_MAX];

	if (run->policy_name)
		return policy_load(run->policy_name, env, ret_policy, err);
	if (env->config_home) {
		snprintf(path, sizeof(path), "%.4000s/policy.yaml", env->config_home);
		if (exists(path))
			return policy_load(path, env, ret_policy, err);
	}
	return policy_load(DEFAULT_POLICY, env, ret_policy, err);
}

static int narrow_by_file(struct policy *policy, const char *path, const struct policy_env *env,
			  struct err *err)
{
	struct policy by;
	int r;

	if (!exists(path))
		return 0;
	r = policy_load(path, env, &by, err);
	if (r < 0)
		return r;
	r = policy_narrow(policy, &by, err);
	policy_done(&by);
	return r;
}

static int load_policy(const struct run *run, const struct policy_env *env,
		       struct policy *ret_policy, struct err *err)
{
	struct policy policy;
	int r = load_granted(run, env, &policy, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < run->flag_count && r == 0; i++)
		r = policy_set_flag(&policy, run->flags[i].name, run->flags[i].value, env, err);
	r = r < 0 ? r : narrow_by_file(&policy, OPERATOR_POLICY, env, err);
	r = r < 0 ? r : narrow_by_file(&policy, "./" PROJECT_POLICY, env, err);
	r = r < 0 ? r : policy_check_built(&policy, err);
	r = r < 0 ? r : hide_state(&policy, env, err);
	if (r < 0) {
		policy_done(&policy);
		return err->code ? r : err_errno(err, r, "policy");
	}
	*ret_policy = policy;
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

/*
 * Where the private folder goes: the caller's TMPDIR; else memory, which is ten times as fast to
 * make and remove, if there is enough of it and programs may run there; else /tmp.
 */
static const char *temporary_folder(void)
{
	const char *named = getenv("TMPDIR");
	struct statvfs fs;

	if (named && named[0] == '/')
		return named;
	if (statvfs("/dev/shm", &fs) == 0 && !(fs.f_flag & ST_NOEXEC) &&
	    (uint64_t)fs.f_bavail * fs.f_frsize >= 1 * GIB)
		return "/dev/shm";
	return "/tmp";
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

/*
 * The start failed. If it was because this host lacks what the tier needs, the person is told the
 * remedy; and where the policy left the choice to us and the floor allows it, a weaker tier takes
 * over, in words.
 */
static const struct tier *take_instead(const struct policy *policy, const struct tier *failed,
				       struct err *err)
{
	static struct host host;
	enum host_feature missing;
	const struct tier *instead;

	host_probe(&host);
	instead = tier_instead(policy, failed, &host, &missing);
	if (missing == HOST_FEATURE_COUNT)
		return NULL;
	if (instead)
		fprintf(stderr,
			"brig: %s tier instead of %s: this host does not give %s (%s; brig doctor "
			"tells more)\n",
			isolation_names[instead->isolation], isolation_names[failed->isolation],
			host_features[missing].title, host.facts[missing].detail);
	else
		err_set(err, -EOPNOTSUPP,
			"the %s tier needs %s, which this host does not give: %s%s%s",
			isolation_names[failed->isolation], host_features[missing].title,
			host.facts[missing].detail, host.facts[missing].remedy[0] ? "; " : "",
			host.facts[missing].remedy);
	return instead;
}

static int run_tier(const struct run *run, struct warden_request *request, struct tier_jail *tj,
		    struct result *result, struct err *err)
{
	int r = warden_run(request, tj, result, err);
	const struct tier *instead;

	/* Bad input stays bad input: only what the kernel refused is worth another try. */
	if (r >= 0 || request->tier->isolation == ISOLATION_PROCESS)
		return r;
	instead = take_instead(request->policy, request->tier, err);
	if (!instead)
		return r;
	if (changes_are_wanted(&run->changes))
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
		.weaken = run->weaken,
		.capture = run->json,
		.is_raw = run->is_raw,
		.keeps_store = changes_are_wanted(&run->changes),
		.argv = run->command,
		.environ = environ,
		.temporary = temporary_folder(),
	};
	int r = tier_choose(policy, &request.tier, &why, err);

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
	r = r < 0 ? r : load_policy(&run, &env, &policy, &err);
	if (r < 0)
		return complain(&err);
	r = run_policy(&run, &policy, &env, &err);
	policy_done(&policy);
	for (size_t i = 0; i < run.flag_count; i++)
		free((char *)(uintptr_t)run.flags[i].name);
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
