/* run.c - brig run: one command in a sandbox, in the foreground */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/cli.h"
#include "tier/tier.h"
#include "warden/warden.h"

#define OPERATOR_POLICY "/etc/brig/policy.yaml"
#define PROJECT_POLICY  ".brig.yaml"
#define DEFAULT_POLICY  "base"

static const struct option run_options[] = {
	{ "policy", "FILE|NAME", "policy to start from (default: your policy.yaml, else base)" },
	{ "json", NULL, "print one JSON object with the result, output included" },
	{ "raw", NULL, "do not make the output harmless for the terminal" },
	{ "weaken", "WALL", "start although this host cannot give WALL (signals)" },
	{ "verbose", NULL, "say which tier was chosen and what it enforces" },
	{ "schema", NULL, "print the JSON Schema of what --json prints" },
	{ "help", NULL, "this text" },
	{ 0 },
};

struct flag {
	const char *name, *value;
};

struct run {
	const char *policy_name;
	bool json, is_raw, verbose, schema, help;
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
		{ "json", &run->json },     { "raw", &run->is_raw }, { "verbose", &run->verbose },
		{ "schema", &run->schema }, { "help", &run->help },
	};

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		if (str_equal(name, switches[i].name)) {
			*switches[i].place = true;
			return 0;
		}
	if (str_equal(name, "weaken"))
		return set_weaken(run, value, err);
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

/* Said on standard error when the end was not the program's own doing, unless --json says it. */
static void print_reason(const struct result *result, const struct policy *policy)
{
	static const char *const texts[REASON_COUNT] = {
		[REASON_TIMEOUT] = "ended at its time limit (wall)",
		[REASON_MEMORY] = "ran into its memory limit",
		[REASON_PIDS] = "ran into its limit of processes (pids)",
		[REASON_CPU] = "used up its CPU time (cpu_time)",
		[REASON_DISK] = "wrote a file larger than its limit (disk)",
		[REASON_OUTPUT] = "printed more than its limit (output)",
	};

	(void)policy;
	if (texts[result->reason])
		fprintf(stderr, "brig: the sandbox %s\n", texts[result->reason]);
	for (size_t i = 0; i < result->denial_count; i++)
		if (str_equal(result->denials[i].action, "syscall"))
			fprintf(stderr, "brig: refused: %s\n", result->denials[i].object);
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *schema = NULL;

	return result_schema(&schema) < 0 ? complain_text("out of memory") : print_json(schema);
}

static int finish(const struct run *run, const struct result *result, const struct policy *policy,
		  const struct err *err)
{
	_cleanup_(node_freep) struct node *node = NULL;

	if (err->code)
		complain(err);
	if (!run->json) {
		print_reason(result, policy);
		return result->exit_code;
	}
	if (result_to_node(result, &node) < 0)
		return complain_text("out of memory");
	return print_json(node) ?: result->exit_code;
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

static int run_policy(const struct run *run, const struct policy *policy, struct err *err)
{
	static struct process_jail pj;
	struct result result = { 0 };
	const char *why;
	const struct tier *tier;
	struct warden_request request = {
		.policy = policy,
		.weaken = run->weaken,
		.capture = run->json,
		.is_raw = run->is_raw,
		.argv = run->command,
		.environ = environ,
		.temporary = temporary_folder(),
	};
	int r = tier_choose(policy, &tier, &why, err);

	/* Only where somebody reads it: the canonical form costs as much as the walls. */
	if (r == 0 && (run->json || run->verbose))
		r = policy_digest(policy, result.policy);
	if (r < 0)
		return err->code ? complain(err) : complain_text("out of memory");
	result.isolation = isolation_names[tier->isolation];
	r = warden_run(&request, &pj, &result, err);
	if (r < 0)
		return complain(err);
	if (run->verbose)
		print_report(tier, why, &result);
	r = finish(run, &result, policy, err);
	buf_done(&result.out);
	buf_done(&result.err);
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
		return print_schema();
	r = r < 0 ? r : policy_env_here(&env, &err);
	r = r < 0 ? r : load_policy(&run, &env, &policy, &err);
	if (r < 0)
		return complain(&err);
	r = run_policy(&run, &policy, &err);
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
