#include "unit.h"

#include <errno.h>

#include "cli/dockerfile.h"
#include "cli/expand.h"
#include "cli/ignore.h"

static int read_text(const char *text, struct build_plan *plan, struct err *err)
{
	return dockerfile_read("Dockerfile", text, strlen(text), plan, err);
}

static void steps(void **state)
{
	static const char text[] = "# first\nARG V=base\nFROM ${V} AS it\n"
				   "RUN echo a && \\\n  # between\n\n  echo b\n"
				   "run [\"ls\", \"-l\"]\n"
				   "COPY --chown=u:g --chmod=0644 a* \"b c\" /x/\n"
				   "ENV A=1 B=\"$A x\" C='$A'\nENV OLD all of this\n"
				   "LABEL x=y\nWORKDIR /w\nUSER user\n"
				   "ENTRYPOINT [\"serve\", \"it's\"]\nCMD [\"-p\"]\n";
	_cleanup_(build_plan_done) struct build_plan plan = BUILD_PLAN;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(read_text(text, &plan, &err), 0);
	assert_string_equal(plan.from, "base");
	assert_int_equal(plan.count, 7);
	assert_int_equal(plan.steps[0].kind, STEP_RUN);
	assert_string_equal(plan.steps[0].args.items[0], "echo a &&   echo b");
	assert_int_equal(plan.steps[0].line, 4);
	assert_true(plan.steps[1].is_exec);
	assert_string_equal(plan.steps[1].args.items[1], "-l");
	assert_string_equal(plan.steps[2].owner, "u:g");
	assert_string_equal(plan.steps[2].mode, "0644");
	assert_int_equal(plan.steps[2].args.count, 3);
	assert_string_equal(plan.steps[2].args.items[1], "b c");
	assert_string_equal(plan.steps[3].args.items[3], "$A x");
	assert_string_equal(plan.steps[3].args.items[5], "\\$A");
	assert_string_equal(plan.steps[4].args.items[1], "all of this");
	assert_string_equal(plan.start, "serve 'it'\\''s' -p");
	assert_int_equal(plan.notes.count, 1);
}

static void refused(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "RUN x\n", "before FROM" },
		{ "FROM a\nFROM b\n", "several stages" },
		{ "FROM a\nRUN <<EOF\nx\nEOF\n", "heredoc" },
		{ "FROM a\nCOPY --from=b x y\n", "COPY --from" },
		{ "FROM a\nCOPY x\n", "where to" },
		{ "FROM a\nADD https://x/y /z\n", "network" },
		{ "FROM a\nENV =x\n", "NAME=VALUE" },
		{ "FROM a\nENV A=\"x\n", "no end" },
		{ "FROM a\nSHELL [\"x\"]\n", "not supported" },
		{ "FROM a\nCOPY --chmod=u+x a b\n", "octal" },
		{ "FROM a\nNOPE x\n", "no instruction" },
		{ "# nothing\n", "no FROM" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(build_plan_done) struct build_plan plan = BUILD_PLAN;
		struct err err = ERR_NONE;

		assert_int_equal(read_text(rows[i].text, &plan, &err), -EINVAL);
		if (!strstr(err.text, rows[i].words))
			fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].words);
	}
}

static void ignored(void **state)
{
	static const struct {
		const char *path;
		bool is_out;
	} rows[] = {
		{ "a.key", true },          { "sub/a.key", false }, { "deep/x.log", true },
		{ "deep/er/x.log", true },  { "keep.log", false },  { "node_modules/a/b", true },
		{ "node_modules2", false }, { ".git", true },       { ".git/config", true },
	};
	struct ignore *ignore = NULL;

	(void)state;
	assert_int_equal(ignore_parse("# c\n*.key\n**/*.log\r\n!keep.log\n/node_modules/\n.git\n",
				      &ignore),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (ignore_has(ignore, rows[i].path) != rows[i].is_out)
			fail_msg("%s", rows[i].path);
	assert_true(ignore_covers("sub/*.txt", "sub/b.txt"));
	assert_false(ignore_covers("sub/*.txt", "sub/x/b.txt"));
	assert_true(ignore_covers(".", "x"));
	ignore_free(ignore);
}

static void expanded(void **state)
{
	static const struct {
		const char *text, *result;
	} rows[] = {
		{ "a$A-${A}b", "a1-1b" },
		{ "\\$A", "$A" },
		{ "$NONE|", "|" },
		{ "${NONE:-else}", "else" },
		{ "${A:+is}", "is" },
		{ "${A:-x}", "1" },
		{ "$", "$" },
		{ "${A", "${A" },
		{ "$1", "$1" },
	};
	_cleanup_(node_freep) struct node *map = node_map();

	(void)state;
	assert_int_equal(node_set(map, "A", node_string("1")), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *made = NULL;

		assert_int_equal(expand_text(rows[i].text, (const struct node *const[]){ map }, 1,
					     &made),
				 0);
		assert_string_equal(made, rows[i].result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps),
		cmocka_unit_test(refused),
		cmocka_unit_test(ignored),
		cmocka_unit_test(expanded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
