#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "data/yaml.h"
#include "policy/keys.h"
#include "policy_case.h"

/* A folder of the user's own policies, as config_home. */
static char folder[] = "/tmp/brig-test-load-XXXXXX";
static struct policy_env folder_env = { .cwd = "/srv/project", .home = "/home/u" };
static struct strv made;

static int make_folder(void **state)
{
	char path[100];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/policies", folder);
	folder_env.config_home = folder;
	return mkdir(path, 0700);
}

static int remove_folder(void **state)
{
	char path[100];

	(void)state;
	for (size_t i = 0; i < made.count; i++)
		unlink(made.items[i]);
	strv_done(&made);
	snprintf(path, sizeof(path), "%s/policies", folder);
	return rmdir(path) || rmdir(folder);
}

static void write_policy(const char *name, const char *text, size_t len)
{
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/policies/%s.yaml", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, len), 0);
	close(fd);
	assert_int_equal(strv_add(&made, path), 0);
}

static void write_text(const char *name, const char *text)
{
	write_policy(name, text, strlen(text));
}

static void load(const char *name, struct policy *ret_policy)
{
	struct err err = ERR_NONE;

	if (policy_load(name, &folder_env, ret_policy, &err) < 0)
		fail_msg("%s: %s", name, err.text);
}

static void load_refused(const char *name, int code, const char *expected)
{
	struct policy untouched, policy;
	struct err err = ERR_NONE;
	int r;

	memset(&policy, 0x5a, sizeof(policy));
	memcpy(&untouched, &policy, sizeof(policy));
	r = policy_load(name, &folder_env, &policy, &err);
	if (r != code || err.code != code || !strstr(err.text, expected))
		fail_msg("%s: %d, \"%s\" instead of \"%s\"", name, r, err.text, expected);
	assert_memory_equal(&policy, &untouched, sizeof(policy));
	/* Nobody has to want the words. */
	assert_int_equal(policy_load(name, &folder_env, &policy, NULL), code);
}

static void documents(void **state)
{
	(void)state;
	case_refused("", "test");
	case_refused("[version]\n", "test:1:1: a policy is a map of keys, found a list");
	case_refused("text\n", "found text");
	case_refused("{}", "test:1:1: version: is missing: begin with \"version: 1\"");
	case_refused("fs: {}\n", "test:1:1: version: is missing");
	case_refused("version: 2\n", "test:1:10: version: must be 1");
	case_refused("version: \"1\"\n", "version: must be 1");
	case_refused("version: 1.0\n", "version: must be 1");
	case_refused("version:\n", "version: must be 1");
	case_refused("version: true\n", "version: must be 1");
	case_refused("version: 1\nversion: 1\n", "test:2:1");
}

static void unknown_keys(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "isolaton: vm\n",
		  "test:2:1: isolaton: unknown key, did you mean \"isolation\"?" },
		{ "extend: [base]\n", "test:2:1: extend: unknown key, did you mean \"extends\"?" },
		{ "Version: 1\n", "did you mean \"version\"?" },
		{ "limit: {}\n", "did you mean \"limits\"?" },
		{ "limits: { memry: 1G }\n",
		  "test:2:11: limits.memry: unknown key, did you mean \"memory\"?" },
		{ "limits: { allow: 1G }\n", "test:2:11: limits.allow: unknown key" },
		{ "net:\n  alow: [a:1]\n",
		  "test:3:3: net.alow: unknown key, did you mean \"allow\"?" },
		{ "zzzzzzzzzz: 1\n", "test:2:1: zzzzzzzzzz: unknown key" },
		{ "\"\": 1\n", "unknown key" },
		{ "memory: 1G\n", "memory: unknown key" },
		{ "net: { version: 1 }\n", "net.version: unknown key" },
		{ "net: { extends: [base] }\n", "net.extends: unknown key" },
		{ "fs.: {}\n", "unknown key" },
		/* The name of a key in messages is no key in a file. */
		{ "limits.memory: 1G\n", "test:2:1: limits.memory: unknown key" },
		{ "net.allow: [a:1]\n", "test:2:1: net.allow: unknown key" },
		{ "limits: { limits.memory: 1G }\n", "limits.limits.memory: unknown key" },
		{ "limits: 1\n", "test:2:9: limits: expected a map, found a whole number" },
		{ "limits:\n", "limits: expected a map, found nothing" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[200];

		snprintf(text, sizeof(text), "version: 1\n%s", rows[i].text);
		case_refused(text, rows[i].expected);
	}
}

/* A long key is shortened in words and never taken for a shorter one. */
static void long_keys(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * KIB);

	(void)state;
	buf_str(&text, "version: 1\nisolation");
	for (int i = 0; i < 900; i++)
		buf_char(&text, 'n');
	buf_str(&text, ": vm\n");
	case_refused(buf_text(&text), "test:2:1: isolationnnn");
}

/* One value of every kind: each key takes some of them and refuses the others in words. */
static void wrong_kinds(void **state)
{
	static const struct {
		enum node_kind kind;
		const char *text;
	} kinds[] = {
		{ NODE_NULL, "null" },       { NODE_BOOL, "true" },
		{ NODE_INT, "7" },           { NODE_FLOAT, "1.5" },
		{ NODE_STRING, "\"\x7e\"" }, { NODE_LIST, "[[]]" },
		{ NODE_LIST, "[null]" },     { NODE_LIST, "[{}]" },
		{ NODE_MAP, "{ x: [] }" },   { NODE_MAP, "{ x: }" },
		{ NODE_MAP, "{ x: 7 }" },    { NODE_MAP, "{ x: { y: z } }" },
	};
	static const struct {
		enum key_type type;
		const char *good;
	} good[] = { { KEY_BOOL, "true" }, { KEY_SIZE, "7" },  { KEY_CPUS, "7" },
		     { KEY_CPUS, "1.5" },  { KEY_COUNT, "7" }, { KEY_TEXT, "\"\x7e\"" } };

	(void)state;
	for (size_t i = 0; i < policy_key_count; i++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			const char *name = policy_keys[i].name, *dot = strchr(name, '.');
			char text[200], place[80];
			bool is_good = false;

			for (size_t m = 0; m < ARRAY_SIZE(good); m++)
				is_good |= good[m].type == policy_keys[i].type &&
					   str_equal(good[m].good, kinds[k].text);
			if (is_good)
				continue;
			if (dot)
				snprintf(text, sizeof(text), "version: 1\n%.*s: { %s: %s }\n",
					 (int)(dot - name), name, dot + 1, kinds[k].text);
			else
				snprintf(text, sizeof(text), "version: 1\n%s: %s\n", name,
					 kinds[k].text);
			/* Inside a tool it is the tool's key that is wrong. */
			snprintf(place, sizeof(place), "test:2:");
			case_refused(text, place);
			snprintf(place, sizeof(place), ": %s: ", name);
			if (policy_keys[i].type != KEY_TOOLS)
				case_refused(text, place);
		}
}

static void shipped_policies_are_ready(void **state)
{
	(void)state;
	assert_int_equal(shipped_policy_count, 7);
	for (size_t i = 0; i < shipped_policy_count; i++) {
		struct err err = ERR_NONE;
		struct policy policy;

		if (i > 0)
			assert_true(strcmp(shipped_policies[i - 1].name, shipped_policies[i].name) <
				    0);
		load(shipped_policies[i].name, &policy);
		if (policy_check_built(&policy, &err) < 0)
			fail_msg("%s: %s", shipped_policies[i].name, err.text);
		/* One is a machine of its own with the internet; the others have no network. */
		if (str_equal(shipped_policies[i].name, "interpreter")) {
			assert_int_equal(policy.floor, ISOLATION_CONTAINER);
			assert_int_equal(policy.system, SYSTEM_OWN);
			assert_int_equal(policy.net_allow.count, 1);
			assert_string_equal(policy.net_allow.items[0].text, "*:* raw");
		} else {
			assert_int_equal(policy.floor, ISOLATION_PROCESS);
			assert_int_equal(policy.system, SYSTEM_UNSET);
			assert_int_equal(policy.net_allow.count + policy.net_ask.count, 0);
		}
		policy_done(&policy);
	}
}

/* A service may have no home: then there is nothing of it to open or to close. */
static void shipped_policies_need_no_home(void **state)
{
	const struct policy_env env = { .cwd = "/srv/project" };

	(void)state;
	for (size_t i = 0; i < shipped_policy_count; i++) {
		struct err err = ERR_NONE;
		struct policy policy;

		if (policy_load(shipped_policies[i].name, &env, &policy, &err) < 0)
			fail_msg("%s: %s", shipped_policies[i].name, err.text);
		assert_true(policy.fs.count > 0);
		policy_done(&policy);
	}
}

static void what_is_not_built_is_refused(void **state)
{
	static const struct {
		const char *text, *expected; /* NULL: ready */
	} rows[] = {
		{ "on_deny: fail", NULL },
		{ "net: { deny: [a:1] }", NULL },
		{ "net: { allow: [] }", NULL },
		{ "limits: { memory: 1G }", NULL },
		{ "net: { allow: [a:1] }", NULL },
		{ "record: denied", NULL },
		{ "net: { ask: [a:1] }", "net.ask needs approvals" },
		{ "net: { publish: [\"80\"] }", NULL },
		{ "net: { inspect: true }", "net.inspect needs" },
		{ "secrets: { A: { from: env } }", "secrets needs" },
		{ "output: { strip: [bidi] }", "output.strip needs" },
		{ "output: { flag: [secret] }", "output.flag needs" },
		{ "output: { max: 1M }", "output.max needs" },
		{ "tools: { x: { floor: vm } }", "tools needs" },
		{ "on_deny: ask", "on_deny other than fail needs approvals" },
		{ "on_deny: record", "on_deny other than fail" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_NONE;
		struct policy policy;
		char text[100];
		int r;

		snprintf(text, sizeof(text), "version: 1\n%s\n", rows[i].text);
		case_parse(text, &policy);
		r = policy_check_built(&policy, &err);
		assert_int_equal(r, rows[i].expected ? -EOPNOTSUPP : 0);
		if (rows[i].expected && !strstr(err.text, rows[i].expected))
			fail_msg("%s", err.text);
		policy_done(&policy);
	}
}

static void extending(void **state)
{
	const struct path_rule *rule;
	struct policy policy;

	(void)state;
	write_text("one", "version: 1\n"
			  "floor: container\n"
			  "fs: { /a: read, /b: read }\n"
			  "env: [A, X=1]\n"
			  "net: { deny: [one:1] }\n"
			  "limits: { pids: 1, files: 1 }\n");
	write_text("two", "version: 1\n"
			  "fs: { /b: write, /c: write }\n"
			  "env: [B, X=2]\n"
			  "net: { deny: [] }\n"
			  "limits: { pids: 2 }\n");
	write_text("both", "version: 1\nextends: [one, two]\nfs: { /c: none }\n");
	write_text("reverse", "version: 1\nextends: [two, one]\n");
	write_text("cleared", "version: 1\nextends: [both]\nfs: {}\nenv: []\n");
	write_text("again", "version: 1\nextends: [cleared, two]\n");

	load("both", &policy);
	assert_int_equal(policy.floor, ISOLATION_CONTAINER);
	assert_int_equal(policy_path_access(&policy.fs, "/a", &rule), ACCESS_READ);
	assert_int_equal(policy_path_access(&policy.fs, "/b", &rule), ACCESS_WRITE);
	assert_int_equal(policy_path_access(&policy.fs, "/c", &rule), ACCESS_NONE);
	assert_true(str_ends(rule->origin.source, "/policies/both.yaml"));
	assert_int_equal(policy.limits.pids, 2);
	assert_int_equal(policy.limits.files, 1);
	assert_int_equal(policy.env.list.count, 3);
	assert_true(strv_has(&policy.env.list, "X=2"));
	assert_int_equal(policy.net_deny.count, 1);
	policy_done(&policy);

	load("reverse", &policy);
	assert_int_equal(policy_path_access(&policy.fs, "/b", &rule), ACCESS_READ);
	assert_int_equal(policy.limits.pids, 1);
	assert_true(strv_has(&policy.env.list, "X=1"));
	policy_done(&policy);

	load("cleared", &policy);
	assert_int_equal(policy.fs.count, 0);
	assert_int_equal(policy.env.list.count, 0);
	assert_int_equal(policy.limits.pids, 2);
	policy_done(&policy);

	load("again", &policy);
	assert_int_equal(policy.fs.count, 2);
	assert_int_equal(policy.env.list.count, 2);
	policy_done(&policy);
}

/* What is extended twice and cleared once in between is cleared there only. */
static void clearing_drops_what_came_before(void **state)
{
	struct policy policy;

	(void)state;
	write_text("clears", "version: 1\nfs: {}\nenv: []\nnet: { allow: [] }\n");
	write_text("grants", "version: 1\nfs: { /g: read }\nenv: [G]\nnet: { allow: [g:1] }\n");
	write_text("grants-clears", "version: 1\nextends: [grants, clears]\n");
	write_text("clears-grants", "version: 1\nextends: [clears, grants]\n");
	load("grants-clears", &policy);
	assert_int_equal(policy.fs.count + policy.env.list.count + policy.net_allow.count, 0);
	policy_done(&policy);
	load("clears-grants", &policy);
	assert_int_equal(policy.fs.count + policy.env.list.count + policy.net_allow.count, 3);
	policy_done(&policy);
}

static void extending_nonsense(void **state)
{
	_cleanup_(buf_done) struct buf often = BUF(4 * KIB);
	char name[16], text[60];
	struct policy policy;

	(void)state;
	case_refused("version: 1\nextends: base\n",
		     "test:2:10: extends: expected a list of names, found text");
	case_refused("version: 1\nextends:\n", "extends: expected a list");
	case_refused("version: 1\nextends: [bse]\n",
		     "test:2:11: extends: there is no policy \"bse\", did you mean \"base\"?");
	case_refused("version: 1\nextends: [xxxxxxxx]\n", "there is no policy \"xxxxxxxx\"");
	case_refused("version: 1\nextends: [base, 1]\n", "test:2:17: extends: must be the name");
	case_refused("version: 1\nextends: [\"\"]\n", "must be the name");
	case_refused("version: 1\nextends: [./x]\n", "must be the name");
	case_refused("version: 1\nextends: [/etc/passwd]\n", "must be the name");
	case_refused("version: 1\nextends: [..]\n", "must be the name");
	case_refused("version: 1\nextends: [base.yaml]\n", "must be the name");
	case_refused("version: 1\nextends: [[base]]\n", "must be the name");

	write_text("self", "version: 1\nextends: [self]\n");
	load_refused("self", -EINVAL, "more than 8 levels, or a circle");
	write_text("ping", "version: 1\nextends: [pong]\n");
	write_text("pong", "version: 1\nextends: [ping]\n");
	load_refused("ping", -EINVAL, "a circle");

	for (int i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "deep%d", i);
		snprintf(text, sizeof(text), "version: 1\nextends: [deep%d]\n", i + 1);
		write_text(name, text);
	}
	write_text("deep9", "version: 1\n");
	load("deep1", &policy);
	policy_done(&policy);
	load_refused("deep0", -EINVAL, "more than 8 levels");

	/* Nor as often as one likes. */
	buf_str(&often, "version: 1\nextends: [base");
	for (int i = 0; i < 64; i++)
		buf_str(&often, ", base");
	buf_str(&often, "]\n");
	case_refused(buf_text(&often), "more than 64 policies in all");

	/* An error in what is extended names the place there. */
	write_text("wrong", "version: 1\nfloor: high\n");
	write_text("extends-wrong", "version: 1\nextends: [wrong]\n");
	load_refused("extends-wrong", -EINVAL, "/policies/wrong.yaml:2:8: floor: ");
	write_text("missing", "version: 1\nextends: [nowhere-to-be-found]\n");
	load_refused("missing", -EINVAL, "/policies/missing.yaml:2:11: extends: ");
}

static void names_and_files(void **state)
{
	_cleanup_free_ char *large = malloc(YAML_MAX_BYTES + 1);
	char path[100];
	struct policy policy;

	(void)state;
	write_text("own", "version: 1\nfloor: vm\n");
	load("own", &policy);
	assert_int_equal(policy.floor, ISOLATION_VM);
	policy_done(&policy);
	/* Shipped ones cannot be replaced. */
	write_text("base", "version: 1\nfloor: vm\n");
	load("base", &policy);
	assert_int_equal(policy.floor, ISOLATION_PROCESS);
	policy_done(&policy);

	snprintf(path, sizeof(path), "%s/policies/own.yaml", folder);
	load(path, &policy);
	policy_done(&policy);
	load_refused("", -EINVAL, "the name of the policy is empty");
	load_refused("onw", -ENOENT, "there is no policy \"onw\"");
	load_refused("no-such-file.yaml", -ENOENT, "cannot read the policy \"no-such-file.yaml\"");
	load_refused("./own", -ENOENT, "cannot read the policy");
	load_refused(folder, -EINVAL, "is not a regular file");
	load_refused("/dev/null", -EINVAL, "is not a regular file");
	write_text("empty", "");
	load_refused("empty", -EINVAL, "is empty: begin with \"version: 1\"");
	write_text("broken", "version: 1\nfs: [\n");
	load_refused("broken", -EINVAL, "/policies/broken.yaml:");

	assert_non_null(large);
	memset(large, '#', YAML_MAX_BYTES + 1);
	write_policy("large", large, YAML_MAX_BYTES + 1);
	load_refused("large", -EFBIG, "is larger than 1M");
	write_policy("nul", "version: 1\0", 11);
	load_refused("nul", -EINVAL, "/policies/nul.yaml:1:11");
}

static void a_fifo_does_not_block(void **state)
{
	char path[100];

	(void)state;
	snprintf(path, sizeof(path), "%s/policies/fifo.yaml", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(strv_add(&made, path), 0);
	load_refused("fifo", -EINVAL, "is not a regular file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents),
		cmocka_unit_test(unknown_keys),
		cmocka_unit_test(long_keys),
		cmocka_unit_test(wrong_kinds),
		cmocka_unit_test(shipped_policies_are_ready),
		cmocka_unit_test(shipped_policies_need_no_home),
		cmocka_unit_test(what_is_not_built_is_refused),
		cmocka_unit_test(extending),
		cmocka_unit_test(clearing_drops_what_came_before),
		cmocka_unit_test(extending_nonsense),
		cmocka_unit_test(names_and_files),
		cmocka_unit_test(a_fifo_does_not_block),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
