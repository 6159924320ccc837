#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "base/fd.h"
#include "policy_case.h"
#include "trace/event.h"
#include "warden/environment.h"
#include "warden/result.h"

/* Every type of key, with what makes each of them copy, merge and sort. */
static const char full[] = "version: 1\n"
			   "extends: [base, parent]\n"
			   "isolation: auto\n"
			   "floor: process\n"
			   "image: x\n"
			   "fs: { \".\": write, ~/x: read, /a/b: none, /a: overlay }\n"
			   "net:\n"
			   "  allow: [b:443, \"*.b:443\", 10.0.0.0/8:22 raw, \"[::1]:*\"]\n"
			   "  ask: [a:1]\n"
			   "  deny: [c:1]\n"
			   "  publish: [\"80\", 81:80]\n"
			   "  inspect: true\n"
			   "env: [B, A, C=1, C=2, D*]\n"
			   "limits: { wall: 1m, cpu: 1, memory: 1G, pids: 3 }\n"
			   "allow: [nested, debug]\n"
			   "on_deny: ask\n"
			   "record: off\n"
			   "secrets: { A: { from: a, inject: { host: b, header: c } } }\n"
			   "output: { strip: [bidi], flag: [secret], max: 1M }\n"
			   "tools: { a: { isolate: call, fs: { /t: read } } }\n";
static const char parent[] = "version: 1\n"
			     "fs: { /a/b: read }\n"
			     "net: { allow: [], deny: [d:1] }\n"
			     "env: []\n"
			     "image: y\n"
			     "secrets: { A: { from: z } }\n"
			     "tools: {}\n";

static char folder[] = "/tmp/brig-test-alloc-XXXXXX", policies[60], parent_file[80], full_file[80];
static struct policy_env env = { .cwd = "/work", .home = "/home/u" };

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

	fd_close(fd);
	return r;
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	env.config_home = folder;
	snprintf(policies, sizeof(policies), "%s/policies", folder);
	snprintf(parent_file, sizeof(parent_file), "%s/parent.yaml", policies);
	snprintf(full_file, sizeof(full_file), "%s/full.yaml", policies);
	return mkdir(policies, 0700) || write_file(parent_file, parent) ||
	       write_file(full_file, full);
}

static int remove_folder(void **state)
{
	(void)state;
	return unlink(parent_file) || unlink(full_file) || rmdir(policies) || rmdir(folder);
}

/* The sum of it: load, flags, narrow, write, digest. 0 or the first failure. */
static int use_policy(struct policy *policy, const struct policy *by, struct err *err)
{
	static const struct {
		const char *flag, *text;
	} flags[] = {
		{ "allow-write", "/f/g" }, { "deny", "/f" },     { "allow-net", "f:1" },
		{ "env", "C=3" },          { "env", "F" },       { "image", "z" },
		{ "memory", "2G" },        { "allow", "debug" }, { "publish", "90" },
	};
	_cleanup_(node_freep) struct node *node = NULL;
	char digest[POLICY_DIGEST_SIZE];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(flags) && r == 0; i++)
		r = policy_set_flag(policy, flags[i].flag, flags[i].text, &env, err);
	r = r < 0 ? r : policy_narrow(policy, by, err);
	r = r < 0 ? r : policy_to_node(policy, &node);
	return r < 0 ? r : policy_digest(policy, digest);
}

static int use_everything(int n, const char *name, const struct policy *by)
{
	struct err err = ERR_NONE;
	struct policy policy;
	int r;

	alloc_left = n;
	r = policy_load(name, &env, &policy, &err);
	if (r < 0) {
		alloc_left = -1;
		/* A person is told, whatever happened. */
		assert_int_equal(err.code, r);
		assert_true(err.text[0]);
		return r;
	}
	r = use_policy(&policy, by, &err);
	alloc_left = -1;
	policy_done(&policy);
	return r;
}

static void every_allocation_may_fail(void **state)
{
	const char *const names[] = { "full", full_file };
	struct policy by;

	(void)state;
	assert_int_equal(policy_load("full", &env, &by, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int n = 0, r;

		while ((r = use_everything(n, names[i], &by)) < 0) {
			if (r != -ENOMEM)
				fail_msg("allocation %d: %d", n, r);
			n++;
		}
		/* Fewer would mean that the wrapping does not work and nothing was tested. */
		assert_in_range(n, 500, 20000);
	}
	policy_done(&by);
}

static void schemas_need_memory_too(void **state)
{
	int (*const make[])(struct node **) = { policy_schema, trace_schema, result_schema };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(make); i++) {
		int n = 0, r;

		do {
			struct node *schema = NULL;

			alloc_left = n++;
			r = make[i](&schema);
			alloc_left = -1;
			assert_int_equal(r, schema ? 0 : -ENOMEM);
			node_free(schema);
		} while (r < 0);
		assert_in_range(n, 100, 5000);
	}
}

static void so_does_an_environment(void **state)
{
	static const struct environment_own own = { "/scratch", "/scratch", NULL };
	char a[] = "A=1", b[] = "B=1", *const caller[] = { a, b, NULL };
	struct policy policy;
	int n = 0, r;

	(void)state;
	case_parse("version: 1\nenv: [A, B=2]\n", &policy);
	do {
		struct strv made = { 0 };

		alloc_left = n++;
		r = environment_make(&policy, caller, &own, &made);
		alloc_left = -1;
		assert_int_equal(r, made.items ? 0 : -ENOMEM);
		strv_done(&made);
	} while (r < 0);
	assert_in_range(n, 4, 100);
	policy_done(&policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(schemas_need_memory_too),
		cmocka_unit_test(so_does_an_environment),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
