#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "init/sudo_options.h"

#define WORDS_MAX 16

/* The words of a line, apart by spaces; at most so many. */
static int parse(const char *line, struct sudo_options *ret_options, struct err *err)
{
	static char text[512];
	static char *argv[WORDS_MAX + 1];
	int argc = 0;

	snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok(text, " "); word && argc < WORDS_MAX; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	return sudo_parse(argc, argv, ret_options, err);
}

static void what_runs(void **state)
{
	static const struct {
		const char *line, *user, *first;
		size_t variables;
		enum sudo_action action;
	} rows[] = {
		{ "sudo id", NULL, "id", 0, SUDO_RUN },
		{ "sudo -n -S id -n", NULL, "id", 0, SUDO_RUN },
		{ "sudo -u bob -- -odd", "bob", "-odd", 0, SUDO_RUN },
		{ "sudo -ubob A=1 B= id C=2", "bob", "id", 2, SUDO_RUN },
		{ "sudo --user=bob id", "bob", "id", 0, SUDO_RUN },
		{ "sudo -nEHu bob id", "bob", "id", 0, SUDO_RUN },
		{ "sudo 1A=2", NULL, "1A=2", 0, SUDO_RUN },
		{ "sudo =2", NULL, "=2", 0, SUDO_RUN },
		{ "sudo -i", NULL, NULL, 0, SUDO_RUN },
		{ "sudo -s ls -l", NULL, "ls", 0, SUDO_RUN },
		{ "sudo -v", NULL, NULL, 0, SUDO_NOTHING },
		{ "sudo -k", NULL, NULL, 0, SUDO_NOTHING },
		{ "sudo -k id", NULL, "id", 0, SUDO_RUN },
		{ "sudo -p prompt: id", NULL, "id", 0, SUDO_RUN },
		{ "sudo -l", NULL, NULL, 0, SUDO_LIST },
		{ "sudo -V", NULL, NULL, 0, SUDO_VERSION },
		{ "sudo --help", NULL, NULL, 0, SUDO_HELP },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sudo_options o;
		struct err err = ERR_NONE;

		if (parse(rows[i].line, &o, &err) < 0)
			fail_msg("%s: %s", rows[i].line, err.text);
		assert_int_equal(o.action, rows[i].action);
		assert_int_equal(o.variable_count, rows[i].variables);
		assert_true(rows[i].user ? o.user && str_equal(o.user, rows[i].user) : !o.user);
		assert_true(rows[i].first ? o.command[0] && str_equal(o.command[0], rows[i].first)
					  : !o.command[0]);
	}
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *line, *words;
	} rows[] = {
		{ "sudo", "what should run?" },
		{ "sudo A=1", "what should run?" },
		{ "sudo -g wheel id", "-g is not known here" },
		{ "sudo --group=wheel id", "-g is not known here" },
		{ "sudo -b id", "the shell's &" },
		{ "sudo -e file", "start an editor" },
		{ "sudo -x id", "does not have" },
		{ "sudo --nonsense id", "does not have" },
		{ "sudo -u", "no value" },
		{ "sudo -i -s", "two kinds" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sudo_options o;
		struct err err = ERR_NONE;

		assert_int_equal(parse(rows[i].line, &o, &err), -EINVAL);
		if (!strstr(err.text, rows[i].words))
			fail_msg("%s: %s", rows[i].line, err.text);
	}
}

static void what_is_kept(void **state)
{
	static const struct {
		const char *line, *variable;
		bool kept;
	} rows[] = {
		{ "sudo id", "TERM=xterm", true },
		{ "sudo id", "LC_ALL=C", true },
		{ "sudo id", "SECRET=1", false },
		{ "sudo id", "HOME=/home/user", false },
		{ "sudo id", "PATH=/x", false },
		{ "sudo -E id", "SECRET=1", true },
		{ "sudo -E id", "HOME=/home/user", true },
		{ "sudo -EH id", "HOME=/home/user", false },
		{ "sudo -E id", "USER=user", false },
		{ "sudo -E id", "SUDO_UID=0", false },
		{ "sudo -E id", "nothing", false },
		{ "sudo -E id", "=x", false },
		{ "sudo --preserve-env id", "SECRET=1", true },
		{ "sudo --preserve-env=A,SECRET id", "SECRET=1", true },
		{ "sudo --preserve-env=A,SECRET id", "SECRE=1", false },
		{ "sudo --preserve-env=A,SECRET id", "OTHER=1", false },
		{ "sudo -i", "LANG=C", false },
		{ "sudo -i", "TERM=xterm", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sudo_options o;
		struct err err = ERR_NONE;

		assert_int_equal(parse(rows[i].line, &o, &err), 0);
		if (sudo_keeps(&o, rows[i].variable) != rows[i].kept)
			fail_msg("%s: %s", rows[i].line, rows[i].variable);
	}
}

static void a_line_for_a_shell(void **state)
{
	char *const words[] = { (char *)(uintptr_t) "echo", (char *)(uintptr_t) "a b;c",
				(char *)(uintptr_t) "$X", NULL };
	_cleanup_(buf_done) struct buf line = BUF(100), little = BUF(4);

	(void)state;
	assert_int_equal(sudo_join(words, &line), 0);
	assert_string_equal(buf_text(&line), "echo a\\ b\\;c $X");
	assert_true(sudo_join(words, &little) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_runs),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(what_is_kept),
		cmocka_unit_test(a_line_for_a_shell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
