#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "init/user.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "# a comment\n"
			     "\n"
			     "daemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n"
			     "user:x:1000:1001:A User,,,:/home/user:/bin/sh\n"
			     "twin:x:1000:1002::/home/twin:/bin/sh\n"
			     "1000:x:7:7::/home/number:/bin/sh\n"
			     "last:x:4294967294:4294967294::/:";

static bool look(const char *text, const char *name, struct user *user)
{
	/* Without room to spare, so that a sanitizer sees a read one byte too far. */
	size_t len = strlen(text);
	char *exact = malloc(len ? len : 1);
	bool found;

	assert_non_null(exact);
	memcpy(exact, text, len);
	found = passwd_find(exact, len, name, user);
	free(exact);
	return found;
}

static void by_name_and_number(void **state)
{
	struct user user;

	(void)state;
	assert_true(look(passwd, "root", &user));
	assert_int_equal(user.uid, 0);
	assert_string_equal(user.home, "/root");
	assert_string_equal(user.shell, "/bin/bash");
	assert_true(look(passwd, "user", &user));
	assert_int_equal(user.uid, 1000);
	assert_int_equal(user.gid, 1001);
	assert_string_equal(user.home, "/home/user");
	/* A name that looks like a number goes before the number; else the first of it counts. */
	assert_true(look(passwd, "1000", &user));
	assert_int_equal(user.uid, 7);
	assert_true(look(passwd, "1", &user));
	assert_string_equal(user.name, "daemon");
	assert_true(look("a:x:5:1::/:\nb:x:5:2::/:\n", "5", &user));
	assert_string_equal(user.name, "a");
	assert_true(look(passwd, "last", &user));
	assert_true(user.uid == 4294967294);
	assert_string_equal(user.shell, "");
	assert_false(look(passwd, "roo", &user));
	assert_false(look(passwd, "root:", &user));
	assert_false(look(passwd, "", &user));
	assert_false(look(passwd, "9", &user));
	assert_false(look("", "root", &user));
	assert_false(look("\n", "root", &user));
}

static void lines_that_are_none(void **state)
{
	static const char *const lines[] = {
		"root",
		"root:",
		"root:x:0:0:root:/root",
		"root:x:0:0:root:/root:/bin/sh:more",
		"root:x::0::/:",
		"root:x:0:::/:",
		"root:x:-1:0::/:",
		"root:x:+0:0::/:",
		"root:x: 0:0::/:",
		"root:x:0x0:0::/:",
		"root:x:4294967295:0::/:",
		"root:x:4294967296:0::/:",
		"root:x:0:4294967295::/:",
		"root:x:00000000000:0::/:",
		"root:x:99999999999999999999:0::/:",
		" root:x:0:0::/:",
		"root :x:0:0::/:",
	};
	struct user user = { .uid = 77 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		char text[512];

		assert_false(look(lines[i], "root", &user));
		/* It does not hide the one behind it. */
		snprintf(text, sizeof(text), "%s\nroot:x:12:0::/:\n", lines[i]);
		assert_true(look(text, "root", &user));
		assert_int_equal(user.uid, 12);
		user.uid = 77;
	}
}

/* What does not fit is no entry; it is never cut. */
static void long_fields(void **state)
{
	static char text[5000];
	struct user user;

	(void)state;
	for (size_t len = 0; len < 1000; len++) {
		bool fits = len > 0 && len < sizeof(user.name);
		char name[1001];

		memset(name, 'n', len);
		name[len] = '\0';
		snprintf(text, sizeof(text), "%s:x:5:5::/:\n", name);
		assert_int_equal(look(text, name, &user), fits);
		snprintf(text, sizeof(text), "a:x:5:5::/%s:\n", name);
		assert_int_equal(look(text, "a", &user), len + 1 < sizeof(user.home));
		snprintf(text, sizeof(text), "a:x:5:5::/:/%s\n", name);
		assert_int_equal(look(text, "a", &user), len + 1 < sizeof(user.shell));
	}
	assert_false(passwd_find("a\0:x:5:5::/:\n", 13, "a", &user));
	assert_false(passwd_find("a:x:5:5::/\0b:\n", 14, "a", &user));
}

static void numbers(void **state)
{
	uid_t uid = 77;

	(void)state;
	assert_true(parse_uid("0", 1, &uid) && uid == 0);
	assert_true(parse_uid("4294967294", 10, &uid) && uid == 4294967294);
	assert_false(parse_uid("4294967295", 10, &uid));
	assert_false(parse_uid("", 0, &uid));
	assert_false(parse_uid("1a", 2, &uid));
	assert_false(parse_uid("-1", 2, &uid));
	assert_int_equal(uid, 4294967294);
}

/* Here, with the passwd file of this machine: who we are is all that there is. */
static void one_user_only(void **state)
{
	const struct rights one = { 0 }, root = { .is_root = true };
	struct user user;
	struct err err;
	char own[16];

	(void)state;
	snprintf(own, sizeof(own), "%u", geteuid());
	assert_int_equal(user_choose(NULL, &one, &user, &err), 0);
	assert_int_equal(user.uid, geteuid());
	assert_int_equal(user.gid, getegid());
	assert_true(user.is_default);
	assert_int_equal(user.home[0], '/');
	assert_int_equal(user.shell[0], '/');
	assert_int_equal(user_choose(own, &one, &user, &err), 0);
	assert_int_equal(user_choose("54321", &one, &user, &err), -EPERM);
	assert_string_equal(err.text, "this sandbox has one user only, not \"54321\"");
	assert_int_equal(user_choose("no such user", &one, &user, &err), -EINVAL);
	assert_string_equal(err.text, "there is no user \"no such user\" in the sandbox");
	/* Where there is a sudo he is who root means, by his own name. */
	assert_int_equal(user_choose("root", &root, &user, &err), 0);
	assert_int_equal(user.uid, geteuid());
	assert_int_equal(user_choose("0", &root, &user, &err), 0);
	assert_int_equal(user.uid, geteuid());
	assert_int_equal(user_choose("54321", &root, &user, &err), -EPERM);
}

static void any_user(void **state)
{
	const struct rights many = { .has_users = true };
	struct user user;
	struct err err;

	(void)state;
	assert_int_equal(user_choose(NULL, &many, &user, &err), 0);
	assert_int_equal(user.uid, USER_DEFAULT);
	assert_true(user.is_default);
	assert_int_equal(user_choose("root", &many, &user, &err), 0);
	assert_int_equal(user.uid, 0);
	assert_false(user.is_default);
	assert_string_equal(user.home, "/root");
	/* A number without an entry. */
	assert_int_equal(user_choose("54321", &many, &user, &err), 0);
	assert_int_equal(user.uid, 54321);
	assert_int_equal(user.gid, 54321);
	assert_string_equal(user.name, "54321");
	assert_string_equal(user.home, "/");
	assert_int_equal(user_choose("4294967295", &many, &user, &err), -EINVAL);
	assert_int_equal(user_choose("", &many, &user, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_name_and_number), cmocka_unit_test(lines_that_are_none),
		cmocka_unit_test(long_fields),        cmocka_unit_test(numbers),
		cmocka_unit_test(one_user_only),      cmocka_unit_test(any_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
