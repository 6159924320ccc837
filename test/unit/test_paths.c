#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "policy_case.h"
#include "random.h"

/* What the tests think a set of rules is: no order, no tree, a plain list. */
struct model {
	struct {
		char path[80];
		enum access access;
	} rules[8];
	size_t count;
};

/* "/a" is above "/a" and "/a/b" and not above "/ab": every component is followed by a slash. */
static bool is_above(const char *rule, const char *path)
{
	char x[200], y[200];

	snprintf(x, sizeof(x), "%s%s", rule, str_equal(rule, "/") ? "" : "/");
	snprintf(y, sizeof(y), "%s%s", path, str_equal(path, "/") ? "" : "/");
	return strncmp(x, y, strlen(x)) == 0;
}

static enum access slow_access(const struct model *model, const char *path, const char **ret_rule)
{
	enum access access = ACCESS_NONE;
	size_t longest = 0;

	*ret_rule = NULL;
	for (size_t i = 0; i < model->count; i++)
		if (is_above(model->rules[i].path, path) &&
		    strlen(model->rules[i].path) > longest) {
			longest = strlen(model->rules[i].path);
			access = model->rules[i].access;
			*ret_rule = model->rules[i].path;
		}
	return access;
}

/* Names that begin like each other, and bytes that sort before and behind the slash. */
static void random_path(struct random *random, char *path, size_t size)
{
	static const char *const names[] = { "a", "ab", "a.b", "a-b", "b", "a b", "abc", "..a" };
	unsigned int depth = random_below(random, 5);
	size_t len = 0;

	if (depth == 0)
		snprintf(path, size, "/");
	for (unsigned int i = 0; i < depth; i++)
		len += (size_t)snprintf(path + len, size - len, "/%s",
					names[random_below(random, ARRAY_SIZE(names))]);
}

static void random_rules(struct random *random, struct model *model, struct policy *policy)
{
	static const char *const flags[] = { "deny", "allow-read", "overlay", "allow-write" };
	unsigned int count = random_below(random, 9);

	model->count = 0;
	policy_init(policy);
	for (unsigned int i = 0; i < count; i++) {
		enum access access = (enum access)random_below(random, ACCESS_COUNT);
		char path[80];
		size_t at = 0;

		random_path(random, path, sizeof(path));
		while (at < model->count && !str_equal(model->rules[at].path, path))
			at++;
		/* The later flag for the same path wins. */
		model->count += at == model->count;
		strcpy(model->rules[at].path, path);
		model->rules[at].access = access;
		case_flag(policy, flags[access], path);
	}
}

/* A path stands before what lies below it, and nothing else stands between them. */
static void check_order(const struct path_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		bool left = false;

		for (size_t k = i + 1; k < rules->count; k++) {
			bool below = is_above(rules->items[i].path, rules->items[k].path);

			if (is_above(rules->items[k].path, rules->items[i].path) || (below && left))
				fail_msg("%s stands before %s", rules->items[i].path,
					 rules->items[k].path);
			left |= !below;
		}
	}
}

static void access_is_that_of_the_nearest_rule(void **state)
{
	struct random random = { 1 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct policy policy;
		struct model model;

		random_rules(&random, &model, &policy);
		assert_int_equal(policy.fs.count, model.count);
		check_order(&policy.fs);
		for (int k = 0; k < 12; k++) {
			const struct path_rule *rule;
			const char *expected;
			char path[80];
			enum access want, got;

			random_path(&random, path, sizeof(path));
			want = slow_access(&model, path, &expected);
			got = policy_path_access(&policy.fs, path, &rule);
			if (want != got || !expected != !rule ||
			    (rule && !str_equal(rule->path, expected)))
				fail_msg("case %d: %s: %s instead of %s", i, path,
					 access_names[got], access_names[want]);
		}
		policy_done(&policy);
	}
}

static void narrowing_is_the_smaller_at_every_path(void **state)
{
	struct random random = { 2 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct policy a, b;
		struct model x, y;

		random_rules(&random, &x, &a);
		random_rules(&random, &y, &b);
		case_narrow(&a, &b);
		check_order(&a.fs);
		for (int k = 0; k < 12; k++) {
			const struct path_rule *rule;
			const char *unused;
			char path[80];
			enum access want, got;

			random_path(&random, path, sizeof(path));
			want = MIN(slow_access(&x, path, &unused), slow_access(&y, path, &unused));
			got = policy_path_access(&a.fs, path, &rule);
			if (want != got)
				fail_msg("case %d: %s: %s instead of %s", i, path,
					 access_names[got], access_names[want]);
		}
		policy_done(&a);
		policy_done(&b);
	}
}

static bool takes_away(const struct path_rule *narrower, const struct path_rule *wider)
{
	return narrower->access < wider->access && is_above(wider->path, narrower->path);
}

static void conflicts_are_found(void **state)
{
	struct random random = { 3 };
	int found = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		const struct path_rule *first = NULL, *wider = NULL, *narrower;
		struct policy policy;
		struct model model;

		random_rules(&random, &model, &policy);
		for (size_t k = 0; k < policy.fs.count && !first; k++)
			for (size_t m = 0; m < policy.fs.count; m++)
				if (takes_away(&policy.fs.items[k], &policy.fs.items[m]))
					first = &policy.fs.items[k];
		narrower = policy_path_conflict(&policy.fs, &wider);
		assert_ptr_equal(narrower, first);
		if (narrower)
			assert_true(takes_away(narrower, wider));
		found += narrower != NULL;
		policy_done(&policy);
	}
	/* Both answers were asked for. */
	assert_in_range(found, 1000, 19000);
}

static void paths_become_absolute(void **state)
{
	static const struct {
		const char *text, *path; /* NULL: refused, */
		const char *wrong;       /* with these words */
	} rows[] = {
		{ ".", "/srv/project", NULL },
		{ "./", "/srv/project", NULL },
		{ "./x", "/srv/project/x", NULL },
		{ "x", "/srv/project/x", NULL },
		{ "x//y/", "/srv/project/x/y", NULL },
		{ "x/./y/.", "/srv/project/x/y", NULL },
		{ "...", "/srv/project/...", NULL },
		{ "..x", "/srv/project/..x", NULL },
		{ ".x", "/srv/project/.x", NULL },
		{ "..", "/srv", NULL },
		{ "../x", "/srv/x", NULL },
		{ "./../x", "/srv/x", NULL },
		{ "..//../x", "/x", NULL },
		{ "../..", "/", NULL },
		{ "../../../..", "/", NULL },
		{ "/", "/", NULL },
		{ "//", "/", NULL },
		{ "/./", "/", NULL },
		{ "//a///b//", "/a/b", NULL },
		{ "/a b", "/a b", NULL },
		{ "~", "/home/u", NULL },
		{ "~/", "/home/u", NULL },
		{ "~/x", "/home/u/x", NULL },
		{ "x/~", "/srv/project/x/~", NULL },
		{ "./~", "/srv/project/~", NULL },
		{ "", NULL, "is empty" },
		{ "~other", NULL, "another user's home" },
		{ "~other/x", NULL, "another user's home" },
		{ "~~", NULL, "another user's home" },
		{ "a/../b", NULL, "has \"..\" behind a name" },
		{ "../a/..", NULL, "has \"..\" behind a name" },
		{ "/..", NULL, "has \"..\" behind a name" },
		{ "/a/../b", NULL, "has \"..\" behind a name" },
		{ "~/..", NULL, "has \"..\" behind a name" },
		{ "~/../x", NULL, "has \"..\" behind a name" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy;

		if (!rows[i].path) {
			case_flag_refused("allow-read", rows[i].text, rows[i].wrong);
			continue;
		}
		policy_init(&policy);
		case_flag(&policy, "allow-read", rows[i].text);
		assert_int_equal(policy.fs.count, 1);
		assert_string_equal(policy.fs.items[0].path, rows[i].path);
		policy_done(&policy);
	}
}

static void other_homes_and_working_directories(void **state)
{
	static const struct {
		const char *cwd, *home, *text, *path;
	} rows[] = {
		{ "/", "/", "~", "/" },        { "/", "/", "~/x", "/x" },
		{ "/", "/h/", "~/x", "/h/x" }, { "/", "/h", ".", "/" },
		{ "/", "/h", "x", "/x" },      { "/", "/h", "..", "/" },
		{ "/w", NULL, "~", NULL },     { "/w", "", "~/x", NULL },
		{ "/w", "h", "~/x", NULL },    { "/w", NULL, "./~", "/w/~" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct policy_env env = { .cwd = rows[i].cwd, .home = rows[i].home };
		struct err err = ERR_NONE;
		struct policy policy;
		int r;

		policy_init(&policy);
		r = policy_set_flag(&policy, "deny", rows[i].text, &env, &err);
		assert_int_equal(r, rows[i].path ? 0 : -EINVAL);
		if (rows[i].path)
			assert_string_equal(policy.fs.items[0].path, rows[i].path);
		else
			assert_non_null(strstr(err.text, "HOME is not set"));
		policy_done(&policy);
	}
}

static void lengths_are_bounded(void **state)
{
	char text[PATH_MAX + 2];
	struct policy policy;

	(void)state;
	policy_init(&policy);
	memset(text, 'x', sizeof(text));
	text[0] = '/';
	text[NAME_MAX + 1] = '\0';
	case_flag(&policy, "allow-read", text);
	text[NAME_MAX + 1] = 'x';
	text[NAME_MAX + 2] = '\0';
	case_flag_refused("allow-read", text, "component of more than 255 bytes");

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(text); i += 200)
		text[i] = '/';
	text[PATH_MAX - 1] = '\0';
	case_flag(&policy, "allow-read", text);
	text[PATH_MAX - 1] = 'x';
	text[PATH_MAX] = '\0';
	case_flag_refused("allow-read", text, "longer than a path can be");
	/* Relative, it is the sum that counts. */
	text[PATH_MAX - 10] = '\0';
	case_flag_refused("allow-read", text + 1, "longer than a path can be");
	assert_int_equal(policy.fs.count, 2);
	policy_done(&policy);
}

/* A path that no kernel takes has no access, also where a rule is above it. */
static void a_path_too_long_to_exist_is_closed(void **state)
{
	const struct path_rule *rule = NULL;
	struct policy policy;
	char path[PATH_MAX + 1];

	(void)state;
	policy_init(&policy);
	case_flag(&policy, "allow-write", "/");
	memset(path, '/', sizeof(path));
	path[PATH_MAX] = '\0';
	assert_int_equal(policy_path_access(&policy.fs, path, &rule), ACCESS_NONE);
	assert_null(rule);
	policy_done(&policy);
}

static void one_path_has_one_rule(void **state)
{
	static const char *const spellings[] = { "/a", "/a/", "//a", "/a/.", "/./a", "\"/a\"" };
	const struct path_rule *rule;
	struct policy policy;

	(void)state;
	for (size_t i = 1; i < ARRAY_SIZE(spellings) - 1; i++) {
		char text[100];

		snprintf(text, sizeof(text), "version: 1\nfs:\n  /a: read\n  %s: write\n",
			 spellings[i]);
		case_refused(text, "test:4:3: fs: ");
		case_refused(text, "is the same path as in line 3");
	}
	case_refused("version: 1\nfs:\n  ~/x: read\n  /home/u/x: read\n", "as in line 3");
	case_refused("version: 1\nfs:\n  \".\": read\n  ../project: read\n", "test:4:3: fs: ");

	/* On the command line the last word counts. */
	case_parse("version: 1\nfs: { /a: read }\n", &policy);
	case_flag(&policy, "allow-write", "/a/");
	case_flag(&policy, "deny", "//a");
	assert_int_equal(policy.fs.count, 1);
	assert_int_equal(policy_path_access(&policy.fs, "/a/b", &rule), ACCESS_NONE);
	assert_string_equal(rule->origin.source, "--deny");
	policy_done(&policy);
}

static void wrong_values_are_refused(void **state)
{
	(void)state;
	case_refused("version: 1\nfs: { /a: wirte }\n",
		     "test:2:11: fs: \"wirte\" is not an access, did you mean \"write\"?");
	case_refused("version: 1\nfs: { /a: everything }\n", "use none, read, overlay or write");
	case_refused("version: 1\nfs: { /a: }\n", "found nothing");
	case_refused("version: 1\nfs: { /a: 1 }\n", "found a whole number");
	case_refused("version: 1\nfs: { /a: [read] }\n", "found a list");
	case_refused("version: 1\nfs: { /a: READ }\n", "is not an access");
	case_refused("version: 1\nfs: [/a]\n", "expected a map from path to access, found a list");
	case_refused("version: 1\nfs: { \"\": read }\n", "test:2:7: fs: the path \"\" is empty");
}

static void later_rules_win_and_an_empty_map_clears(void **state)
{
	const struct path_rule *rule;
	struct policy policy;

	(void)state;
	case_parse("version: 1\nextends: [base]\nfs:\n  /usr: none\n  /usr/x: write\n", &policy);
	assert_int_equal(policy_path_access(&policy.fs, "/usr/lib", &rule), ACCESS_NONE);
	assert_string_equal(rule->origin.source, "test");
	assert_int_equal(rule->origin.line, 4);
	assert_false(rule->origin.is_shipped);
	assert_int_equal(policy_path_access(&policy.fs, "/usr/x/y", &rule), ACCESS_WRITE);
	assert_int_equal(policy_path_access(&policy.fs, "/lib", &rule), ACCESS_READ);
	assert_true(rule->origin.is_shipped);
	assert_string_equal(rule->origin.source, "base");
	assert_true(rule->origin.line > 0);
	policy_done(&policy);

	case_parse("version: 1\nextends: [base]\nfs: {}\n", &policy);
	assert_int_equal(policy.fs.count, 0);
	policy_done(&policy);

	/* The clearing of one that is extended holds for what it extends, not for its neighbour. */
	case_parse("version: 1\nextends: [build, agent]\n", &policy);
	assert_int_equal(policy_path_access(&policy.fs, "/srv/project/x", &rule), ACCESS_WRITE);
	assert_string_equal(rule->origin.source, "build");
	assert_int_equal(policy_path_access(&policy.fs, "/srv/project/.git/hooks/x", &rule),
			 ACCESS_READ);
	assert_string_equal(rule->origin.source, "agent");
	policy_done(&policy);
}

static void a_narrowed_rule_names_the_stricter_side(void **state)
{
	const struct path_rule *rule;
	struct policy a, b;
	struct err err = ERR_NONE;
	const char *text = "version: 1\nfs: { /: read, /a/b: write }\n";

	(void)state;
	policy_init(&a);
	case_flag(&a, "allow-write", "/a");
	assert_int_equal(policy_parse("operator", text, strlen(text), &case_env, &b, &err), 0);
	case_narrow(&a, &b);
	assert_int_equal(policy_path_access(&a.fs, "/a", &rule), ACCESS_READ);
	assert_string_equal(rule->origin.source, "operator");
	assert_int_equal(policy_path_access(&a.fs, "/a/b", &rule), ACCESS_WRITE);
	assert_int_equal(policy_path_access(&a.fs, "/b", &rule), ACCESS_NONE);
	policy_done(&a);
	policy_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_is_that_of_the_nearest_rule),
		cmocka_unit_test(narrowing_is_the_smaller_at_every_path),
		cmocka_unit_test(conflicts_are_found),
		cmocka_unit_test(paths_become_absolute),
		cmocka_unit_test(other_homes_and_working_directories),
		cmocka_unit_test(lengths_are_bounded),
		cmocka_unit_test(a_path_too_long_to_exist_is_closed),
		cmocka_unit_test(one_path_has_one_rule),
		cmocka_unit_test(wrong_values_are_refused),
		cmocka_unit_test(later_rules_win_and_an_empty_map_clears),
		cmocka_unit_test(a_narrowed_rule_names_the_stricter_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
