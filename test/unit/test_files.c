#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "policy_case.h"
#include "tier/files.h"

/*
 *	base/
 *	  open/ data/ data/sub/ work/      folders, each with a file
 *	  open/to-data -> base/data        a link where the sandbox cannot write
 *	  open/to-sub -> ../data/sub
 *	  open/to-file -> ../data/file
 *	  open/round -> around, open/around -> round
 *	  open/dangling -> ../nowhere
 *	  work/planted -> base/data        a link where it can
 */
static char base[] = "/tmp/brig-test-files-XXXXXX";
static const char *const folders[] = { "open", "data", "data/sub", "work" };
static const struct {
	const char *name, *target;
} links[] = {
	{ "open/to-data", "../data" },      { "open/to-sub", "../data/sub" },
	{ "open/to-file", "../data/file" }, { "open/round", "around" },
	{ "open/around", "round" },         { "open/dangling", "../nowhere" },
	{ "work/planted", "../data" },
};

static const char *in_base(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return path;
}

static int make_base(void **state)
{
	(void)state;
	if (!mkdtemp(base))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char file[100];

		if (mkdir(in_base(folders[i]), 0755) < 0)
			return -1;
		snprintf(file, sizeof(file), "%s/file", folders[i]);
		fd_close(open(in_base(file), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlink(links[i].target, in_base(links[i].name)) < 0)
			return -1;
	return 0;
}

static int remove_base(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		unlink(in_base(links[i].name));
	for (size_t i = ARRAY_SIZE(folders); i-- > 0;) {
		char file[100];

		snprintf(file, sizeof(file), "%s/file", folders[i]);
		unlink(in_base(file));
		rmdir(in_base(folders[i]));
	}
	return rmdir(base);
}

#define MAX_RULES 4

/* Rules of a case: "read open", of a file unless is_flag. */
struct rules_case {
	const char *rules[MAX_RULES];
	bool is_flag;
	int code;
	const char *words; /* of the error, or */
	struct {
		unsigned int readable, writable, absent; /* trees of each kind */
	} count;
	const char *readable; /* a file that can be read inside, */
	const char *closed;   /* and one that cannot */
};

static void build(const struct rules_case *c, struct policy *policy)
{
	_cleanup_(buf_done) struct buf text = BUF(4 * KIB);

	policy_init(policy);
	buf_str(&text, "version: 1\nfs:\n");
	for (size_t i = 0; i < MAX_RULES && c->rules[i]; i++) {
		const char *space = strchr(c->rules[i], ' ');
		char word[20];

		snprintf(word, sizeof(word), "%.*s", (int)(space - c->rules[i]), c->rules[i]);
		buf_printf(&text, "  %s: %s\n", in_base(space + 1), word);
		if (c->is_flag)
			case_flag(policy,
				  str_equal(word, "write")  ? "allow-write"
				  : str_equal(word, "read") ? "allow-read"
							    : "deny",
				  in_base(space + 1));
	}
	if (!c->is_flag)
		case_parse(buf_text(&text), policy);
}

static int can_read(const char *name)
{
	int fd = open(in_base(name), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int look_inside(const struct rules_case *c, const struct landlock *ll)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (sys_no_new_privs() < 0 || landlock_enter(ll) < 0)
			_exit(1);
		if (c->readable && can_read(c->readable) != 0)
			_exit(2);
		_exit(c->closed && can_read(c->closed) != EACCES ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void run_case(const struct rules_case *c)
{
	struct landlock ll = LANDLOCK_NONE;
	struct files_granted granted = { .absent = 77 };
	struct err err = ERR_NONE;
	struct policy policy;
	int r;

	if (landlock_open(LANDLOCK_FILES, &ll, &err) < 0) {
		print_message("%s\n", err.text);
		skip();
	}
	build(c, &policy);
	r = files_grant(&policy.fs, &ll, &granted, &err);
	if (r != c->code || (r < 0 && !strstr(err.text, c->words)))
		fail_msg("%s ...: %d, \"%s\"", c->rules[0], r, err.text);
	if (r < 0) {
		assert_int_equal(granted.absent, 77);
	} else {
		/* What is writable stands in both lists. */
		assert_int_equal(granted.readable.count, c->count.readable + c->count.writable);
		assert_int_equal(granted.writable.count, c->count.writable);
		assert_int_equal(granted.absent, c->count.absent);
		assert_int_equal(look_inside(c, &ll), 0);
		files_granted_done(&granted);
	}
	policy_done(&policy);
	landlock_done(&ll);
}

static void trees(void **state)
{
	static const struct rules_case cases[] = {
		{ { "read open", "write work" },
		  false,
		  0,
		  NULL,
		  { 1, 1, 0 },
		  "open/file",
		  "data/file" },
		{ { "read data/file" }, false, 0, NULL, { 1, 0, 0 }, "data/file", "data/sub/file" },
		{ { "read data", "write data/sub" },
		  false,
		  0,
		  NULL,
		  { 1, 1, 0 },
		  "data/sub/file",
		  "open/file" },
		{ { "none data", "read data/sub" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  "data/sub/file",
		  "data/file" },
		/* What a file names may be missing. */
		{ { "read nowhere", "none nothing", "read open/file/below" },
		  false,
		  0,
		  NULL,
		  { 0, 0, 2 },
		  NULL,
		  "open/file" },
		{ { "none nothing" }, true, 0, NULL, { 0, 0, 0 }, NULL, "open/file" },
		{ { "read nowhere" }, true, -EINVAL, "--allow-read \"", { 0 }, NULL, NULL },
		{ { "write open/file/below" },
		  true,
		  -EINVAL,
		  "does not exist (create it first)",
		  { 0 },
		  NULL,
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run_case(&cases[i]);
}

static void what_landlock_cannot_say(void **state)
{
	static const struct rules_case cases[] = {
		/* The wider tree gets what the narrower rule leaves; the rest is the keeper's. */
		{ { "write data", "read data/sub" },
		  false,
		  0,
		  NULL,
		  { 1, 1, 0 },
		  "data/file",
		  "open/file" },
		{ { "read data", "none data/sub" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  NULL,
		  "data/file" },
		{ { "read data", "none data/file" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  "data/sub/file",
		  "data/file" },
		/* Also where the path does not exist yet. */
		{ { "read data", "none data/sub/later" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  NULL,
		  "data/sub/file" },
		/* What is open again inside is granted by itself. */
		{ { "write data", "none data/sub", "read data/sub/file" },
		  false,
		  0,
		  NULL,
		  { 1, 1, 0 },
		  "data/sub/file",
		  "data/file" },
		{ { "overlay data" },
		  false,
		  -EOPNOTSUPP,
		  "overlay needs the container tier",
		  { 0 },
		  NULL,
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run_case(&cases[i]);
}

static void symbolic_links(void **state)
{
	static const struct rules_case cases[] = {
		{ { "read open/to-data" }, false, 0, NULL, { 1, 0, 0 }, "data/file", "open/file" },
		{ { "read open/to-file" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  "data/file",
		  "data/sub/file" },
		{ { "read open/to-data/sub" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  "data/sub/file",
		  "data/file" },
		/* Already granted by what it leads to. */
		{ { "read open/to-sub", "read data" },
		  false,
		  0,
		  NULL,
		  { 1, 0, 0 },
		  "data/sub/file",
		  "open/file" },
		{ { "read open/dangling" }, false, 0, NULL, { 0, 0, 1 }, NULL, "open/file" },
		{ { "read open/round" },
		  false,
		  -ELOOP,
		  "too many or too long symbolic links",
		  { 0 },
		  NULL,
		  NULL },
		/* The sandbox could have made it. */
		{ { "write work", "write work/planted" },
		  false,
		  -ELOOP,
		  "a symbolic link that the sandbox could have made",
		  { 0 },
		  NULL,
		  NULL },
		{ { "write work", "write work/planted/sub" },
		  false,
		  -ELOOP,
		  "name the real path",
		  { 0 },
		  NULL,
		  NULL },
		{ { "write open/to-data" },
		  false,
		  -ELOOP,
		  "name the real path",
		  { 0 },
		  NULL,
		  NULL },
		/* A link is no way around another rule. */
		{ { "read open/to-data", "none data" },
		  false,
		  -EPERM,
		  "treats differently",
		  { 0 },
		  NULL,
		  NULL },
		{ { "read open/to-data", "none data/sub" },
		  false,
		  -EPERM,
		  "something that another rule closes",
		  { 0 },
		  NULL,
		  NULL },
		{ { "none open/to-data", "read data" },
		  false,
		  -EPERM,
		  "treats differently",
		  { 0 },
		  NULL,
		  NULL },
		{ { "read open/to-sub", "write data" },
		  false,
		  -EPERM,
		  "treats differently",
		  { 0 },
		  NULL,
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run_case(&cases[i]);
}

/* What is told to others is where the files really are. */
static void paths_are_canonical(void **state)
{
	static const struct rules_case by_link = { .rules = { "read open/to-data/sub",
							      "write work" } };
	struct landlock ll = LANDLOCK_NONE;
	struct files_granted granted;
	struct err err = ERR_NONE;
	struct policy policy;

	(void)state;
	if (landlock_open(LANDLOCK_FILES, &ll, &err) < 0) {
		print_message("%s\n", err.text);
		skip();
	}
	build(&by_link, &policy);
	assert_int_equal(files_grant(&policy.fs, &ll, &granted, &err), 0);
	assert_true(strv_has(&granted.readable, in_base("data/sub")));
	assert_true(strv_has(&granted.readable, in_base("work")));
	assert_true(strv_has(&granted.writable, in_base("work")));
	files_granted_done(&granted);
	policy_done(&policy);
	landlock_done(&ll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees),
		cmocka_unit_test(what_landlock_cannot_say),
		cmocka_unit_test(symbolic_links),
		cmocka_unit_test(paths_are_canonical),
	};

	return cmocka_run_group_tests(tests, make_base, remove_base);
}
