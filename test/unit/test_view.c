/* The plan of a container is a pure function of what was found on the host: compared as text. */
#include "unit.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>

#include "tier/view.h"

static struct plan plan;
static struct view_result result;
static char text[65536];

static struct view_rule rule(const char *path, enum access access, enum view_kind kind)
{
	return (struct view_rule){ .path = path, .source = path, .access = access, .kind = kind };
}

static struct view_rule system_rule(const char *path, enum view_kind kind)
{
	struct view_rule r = rule(path, ACCESS_READ, kind);

	r.is_shipped = r.is_system = true;
	return r;
}

static struct view_request request_of(const struct view_rule *rules, size_t count)
{
	return (struct view_request){ .rules = rules,
				      .rule_count = count,
				      .cwd = "/w",
				      .shell = "/bin/sh",
				      .uid = 500,
				      .gid = 600 };
}

static int make(const struct view_request *request, struct err *err)
{
	size_t len = 0;
	int r;

	plan = (struct plan){ 0 };
	result = (struct view_result){ 0 };
	r = view_plan(request, &plan, &result, err);
	text[0] = '\0';
	for (size_t i = 0; i < plan.count; i++) {
		char line[1024];

		op_describe(&plan.ops[i], line, sizeof(line));
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s: %s\n",
					stage_names[plan.ops[i].stage], line);
		assert_true(len < sizeof(text));
	}
	return r;
}

static void unmake(void)
{
	plan_done(&plan);
	strv_done(&result.guarded);
	strv_done(&result.overlays);
	strv_done(&result.overlay_sources);
}

/* Where a line begins, which must be there exactly once. */
static const char *line(const char *words)
{
	const char *at = strstr(text, words);

	if (!at)
		fail_msg("no \"%s\" in:\n%s", words, text);
	if (strstr(at + 1, words))
		fail_msg("\"%s\" twice in:\n%s", words, text);
	return at;
}

static void no_line(const char *words)
{
	if (strstr(text, words))
		fail_msg("\"%s\" in:\n%s", words, text);
}

static void in_order(const char *const *words, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (line(words[i - 1]) >= line(words[i]))
			fail_msg("\"%s\" does not come before \"%s\":\n%s", words[i - 1], words[i],
				 text);
}

#define IN_ORDER(...)                                                \
	do {                                                         \
		static const char *const _words[] = { __VA_ARGS__ }; \
		in_order(_words, ARRAY_SIZE(_words));                \
	} while (0)

static void make_rules(const struct view_rule *rules, size_t count)
{
	struct view_request request = request_of(rules, count);
	struct err err = ERR_NONE;

	assert_int_equal(make(&request, &err), 0);
}

/* The frame that every container has, whatever the rules. */
static void the_frame(void **state)
{
	(void)state;
	make_rules(NULL, 0);
	IN_ORDER("warden: make namespaces: user mount pid ipc uts",
		 "keeper: make a cgroup namespace", "keeper: make a time namespace",
		 "keeper: begin to make a network namespace",
		 "keeper: map ids: user 1000 500 1, group 1000 600 1",
		 "keeper: set the host name to brig", "keeper: keep mounts from spreading",
		 "keeper: make the store, a tmpfs of half the memory", "keeper: make the base",
		 "keeper: make file store:/etc/passwd", "keeper: overlay store:/base on /,",
		 "keeper: mount a new proc on /proc", "keeper: mask /proc/kcore, if there",
		 "keeper: make read-only what is mounted below /proc",
		 "keeper: bind /dev/null on /dev/null", "keeper: mount new terminals on /dev/pts",
		 "keeper: make read-only what is mounted below /etc, and itself",
		 "keeper: bind store: /tmp on /tmp", "keeper: change to the new root",
		 "keeper: allow by Landlock /: read and execute",
		 "keeper: see that nothing of the old root can be reached",
		 "keeper: change to /home/user", "keeper: enter the network namespace",
		 "first process: dropping privileges",
		 "first process: loading the system call filter", "first process: making a session",
		 "first process: entering the Landlock domain",
		 "first process: executing the program");
	no_line("become user");
	no_line("cgroup;");
	unmake();
}

static void as_root_with_limits(void **state)
{
	struct view_request request = request_of(NULL, 0);
	struct err err = ERR_NONE;

	(void)state;
	request.ids = 0x70000000;
	request.has_cgroup = true;
	request.disk = 64 * MIB;
	assert_int_equal(make(&request, &err), 0);
	IN_ORDER("warden: make namespaces", "warden: begin the keeper in the sandbox's cgroup",
		 "warden: map ids: user 0 1879048192 65536, group 0 1879048192 65536",
		 "keeper: make a time namespace", "keeper: become root of these ids",
		 "keeper: make the store, a tmpfs of 64M", "first process: become user 1000",
		 "first process: dropping privileges");
	unmake();
}

/* Trees of the system are bound by path before anything that can be written, and sealed. */
static void system_trees(void **state)
{
	const struct view_rule rules[] = {
		{ .path = "/bin",
		  .source = "/bin",
		  .link = "usr/bin",
		  .kind = VIEW_LINK,
		  .access = ACCESS_READ,
		  .is_shipped = true },
		system_rule("/etc/alternatives", VIEW_DIRECTORY),
		system_rule("/etc/hosts", VIEW_FILE), /* made up instead */
		system_rule("/etc/ld.so.cache", VIEW_FILE),
		system_rule("/proc", VIEW_DIRECTORY),
		system_rule("/usr", VIEW_DIRECTORY),
		rule("/w", ACCESS_WRITE, VIEW_DIRECTORY),
	};

	(void)state;
	make_rules(rules, ARRAY_SIZE(rules));
	IN_ORDER("make link base:/bin to usr/bin", "make file store:/etc/ld.so.cache",
		 "make directory base:/w", "make file store:/etc/hosts", "overlay store:/base on /",
		 "bind /etc/alternatives on /etc/alternatives, read-only",
		 "bind /usr on /usr, read-only", "make read-only what is mounted below /etc,",
		 "bind /w on /w\n", "change to the new root", "allow by Landlock /w: write",
		 "change to /w");
	no_line("bind /proc");
	no_line("bind /etc/hosts");
	unmake();
}

/* Its root changes the system: folders of the host under a veil, files copied below an image's. */
static void a_system_of_its_own(void **state)
{
	struct view_rule rules[] = {
		{ .path = "/bin",
		  .source = "/bin",
		  .link = "usr/bin",
		  .kind = VIEW_LINK,
		  .access = ACCESS_OVERLAY,
		  .is_shipped = true },
		{ .path = "/etc/localtime",
		  .source = "/etc/localtime",
		  .link = "/usr/share/zoneinfo/UTC",
		  .kind = VIEW_LINK,
		  .access = ACCESS_OVERLAY,
		  .is_shipped = true },
		rule("/etc/profile", ACCESS_OVERLAY, VIEW_FILE),
		rule("/etc/ssl/certs", ACCESS_OVERLAY, VIEW_DIRECTORY),
		rule("/etc/ssl/openssl.cnf", ACCESS_OVERLAY, VIEW_FILE),
		rule("/opt", ACCESS_READ, VIEW_DIRECTORY),
		rule("/usr", ACCESS_OVERLAY, VIEW_DIRECTORY),
	};
	struct view_request request = request_of(rules, ARRAY_SIZE(rules));
	struct err err = ERR_NONE;

	(void)state;
	rules[2].is_copied = rules[4].is_copied = true;
	rules[3].is_veiled = rules[6].is_veiled = true;
	request.owns_system = request.lives = true;
	request.ids = 0x70000000;
	assert_int_equal(make(&request, &err), 0);
	IN_ORDER("make directory store:/upper0, mode 0755\n", "make directory store:/system, mode",
		 "make directory base:/srv", "make link base:/bin to usr/bin",
		 "make directory store:/system/etc, ",
		 "make link store:/system/etc/localtime to /usr/share/zoneinfo/UTC",
		 "copy /etc/profile to store:/system/etc/profile",
		 "make directory store:/system/etc/ssl, ",
		 "copy /etc/ssl/openssl.cnf to store:/system/etc/ssl/openssl.cnf",
		 "make file base:/etc/hosts", "make file store:/system/etc/passwd",
		 "overlay store:/base:system on /, changes in store:/upper0",
		 "show what everybody may read of store:/lower1 at store:/veil1",
		 "overlay store:/veil1 on /etc/ssl/certs, changes in store:/upper1",
		 "make directory store:/upper2, mode 0755\n",
		 "show what everybody may read of store:/lower2 at store:/veil2",
		 "overlay store:/veil2 on /usr, changes in store:/upper2",
		 "allow by Landlock /: write", "rights but to start processes as any user");
	/* Neither sealed nor bound over: it could not be replaced. */
	no_line("mounted below /etc");
	no_line("bind store: /etc");
	no_line("on /etc/profile");
	unmake();

	/* In a sandbox that is sealed nothing of this. */
	request.owns_system = false;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		rules[i] = rule(rules[i].path, ACCESS_READ, VIEW_DIRECTORY);
	assert_int_equal(make(&request, &err), 0);
	no_line("store:/system");
	no_line("everybody may read");
	unmake();
}

/* The rules of the README, in one. */
static void narrower_rules(void **state)
{
	const struct view_rule rules[] = {
		rule("/w", ACCESS_WRITE, VIEW_DIRECTORY),
		rule("/w/.envrc", ACCESS_READ, VIEW_ABSENT),
		rule("/w/.git/hooks", ACCESS_READ, VIEW_DIRECTORY),
		rule("/w/.git/info/x", ACCESS_NONE, VIEW_ABSENT),
		rule("/w/a/b/secret", ACCESS_NONE, VIEW_DIRECTORY),
		rule("/w/a/b/secret/public", ACCESS_READ, VIEW_DIRECTORY),
		rule("/w/file", ACCESS_NONE, VIEW_FILE),
		rule("/w/same", ACCESS_WRITE, VIEW_DIRECTORY),
	};

	(void)state;
	make_rules(rules, ARRAY_SIZE(rules));
	IN_ORDER("bind /w on /w\n", "hold /w/.git, in its place", "hold /w/.git/hooks, read-only",
		 "hold /w/.git/info, in its place", "hold /w/a, in its place",
		 "hold /w/a/b, in its place", "make directory store:/.masks/1/public",
		 "mask /w/a/b/secret",
		 "bind /w/a/b/secret/public on /w/a/b/secret/public, read-only", "mask /w/file",
		 "guard a name that must not appear: /w/.envrc",
		 "guard a name that must not appear: /w/.git/info/x");
	no_line("/w/same on");
	assert_int_equal(result.guarded.count, 2);
	assert_int_equal(result.masks, 2);
	unmake();
}

/* Rights that grow on the way down; what is closed anyway needs no mask. */
static void wider_rules(void **state)
{
	const struct view_rule rules[] = {
		rule("/closed", ACCESS_NONE, VIEW_DIRECTORY),
		rule("/closed/open", ACCESS_READ, VIEW_DIRECTORY),
		rule("/w", ACCESS_READ, VIEW_DIRECTORY),
		rule("/w/gone", ACCESS_READ, VIEW_ABSENT),
		rule("/w/out", ACCESS_WRITE, VIEW_DIRECTORY),
		rule("/w/out/log", ACCESS_OVERLAY, VIEW_DIRECTORY),
	};

	(void)state;
	make_rules(rules, ARRAY_SIZE(rules));
	IN_ORDER("make directory base:/closed/open", "bind /closed/open on /closed/open, read-only",
		 "bind /w on /w, read-only", "bind /w/out on /w/out\n",
		 "bind /w/out/log on store:/lower1, read-only",
		 "overlay store:/lower1 on /w/out/log, changes in store:/upper1");
	no_line("mask /closed");
	no_line("hold /w");
	assert_int_equal(result.guarded.count, 0);
	assert_int_equal(result.overlays.count, 1);
	assert_string_equal(result.overlays.items[0], "/w/out/log");
	unmake();
}

/* A working directory below a folder that the sandbox has of its own. */
static void below_tmp(void **state)
{
	const struct view_rule rules[] = { rule("/tmp/p/w", ACCESS_READ, VIEW_DIRECTORY) };
	struct view_request request = request_of(rules, 1);
	struct err err = ERR_NONE;

	(void)state;
	request.cwd = "/tmp/p/w/sub";
	assert_int_equal(make(&request, &err), 0);
	IN_ORDER("make directory store:/tmp/p, mode 0755, the user's",
		 "make directory store:/tmp/p/w, mode 0755", "bind store: /tmp on /tmp",
		 "bind /tmp/p/w on /tmp/p/w, read-only", "change to /tmp/p/w/sub");
	unmake();
}

static void an_image(void **state)
{
	const struct view_rule rules[] = {
		system_rule("/usr", VIEW_DIRECTORY),
		rule("/usr/hidden", ACCESS_NONE, VIEW_ABSENT),
		rule("/usr/hidden/not", ACCESS_READ, VIEW_FILE),
		rule("/w", ACCESS_READ, VIEW_DIRECTORY),
	};
	struct view_request request = request_of(rules, ARRAY_SIZE(rules));
	struct err err = ERR_NONE;

	(void)state;
	request.image = "/img";
	request.image_has_users = true;
	assert_int_equal(make(&request, &err), 0);
	IN_ORDER("bind /img on store:/image, read-only", "make file base:/etc/resolv.conf",
		 "overlay store:/base:image on /", "make file store:/.masks/1/not",
		 "mask /usr/hidden", "bind /usr/hidden/not on /usr/hidden/not, read-only",
		 "bind /w on /w, read-only", "allow by Landlock /: write");
	no_line("bind /usr on");
	no_line("/etc/passwd");
	unmake();
}

static void a_sandbox_inside(void **state)
{
	struct view_request request = request_of(NULL, 0);
	struct err err = ERR_NONE;

	(void)state;
	request.is_nested = true;
	assert_int_equal(make(&request, &err), 0);
	no_line("mask /proc");
	no_line("Landlock /");
	unmake();
}

/* Layers of two sandboxes: the newest on top, and every place as it was. */
static void from_layers(void **state)
{
	struct image_tree older[] = { { (char[]){ "home" }, (char[]){ VIEW_HOME }, 0711 },
				      { (char[]){ "overlay1" }, (char[]){ "/w" }, 0755 } },
			  newer[] = { { (char[]){ "home" }, (char[]){ VIEW_HOME }, 0700 },
				      { (char[]){ "vartmp" }, (char[]){ "/var/tmp" }, 01777 } };
	struct image_layers from = {
		.name = "tools",
		.count = 2,
		.items = { { .path = (char[]){ "/s/layers/a" }, .trees = older, .tree_count = 2 },
			   { .path = (char[]){ "/s/layers/b" }, .trees = newer, .tree_count = 2 } }
	};
	const struct view_rule rules[] = { rule("/w", ACCESS_OVERLAY, VIEW_DIRECTORY) };
	struct view_request request = request_of(rules, 1);
	struct err err = ERR_NONE;

	(void)state;
	request.from = &from;
	assert_int_equal(make(&request, &err), 0);
	IN_ORDER("bind /s/layers/a on store:/l1, read-only",
		 "bind /s/layers/b on store:/l2, read-only", "overlay store:/base on /,",
		 "overlay store:/l2/home:l1/home on /home/user, changes in store:/home\n",
		 "bind store: /tmp on /tmp",
		 "overlay store:/l2/vartmp on /var/tmp, changes in store:/var-tmp\n",
		 "overlay store:/l1/overlay1:lower1 on /w, changes in store:/upper1");
	line("make directory store:/home, mode 0700, the user's");
	line("make directory store:/work-home, mode 0700");
	line("make directory store:/tmp, mode 1777");
	no_line("bind store: /home on");
	unmake();
	/* What has no place is not silently left out. */
	request.rule_count = 0;
	assert_int_equal(make(&request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--overlay /w"));
	plan_done(&plan);
	/* What is mounted on stays on top of what another sandbox left. */
	older[1] = (struct image_tree){ (char[]){ "root" }, (char[]){ "/" }, 0755 };
	request.image = "/image";
	assert_int_equal(make(&request, &err), 0);
	line("overlay store:/base:l1/root:image on /,");
	unmake();
}

static void bad_rules(void **state)
{
	const struct view_rule file = rule("/w/f", ACCESS_OVERLAY, VIEW_FILE);
	struct view_request request = request_of(&file, 1);
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(make(&request, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, "an overlay shows a directory"));
	unmake();
}

/* What a container has of its own can be hidden too, but not all of it. */
static void of_its_own(void **state)
{
	const struct view_rule rules[] = {
		rule("/dev/tty", ACCESS_NONE, VIEW_DEVICE),
		rule("/proc/meminfo", ACCESS_NONE, VIEW_FILE),
		rule("/proc/stat", ACCESS_READ, VIEW_FILE),
	};

	(void)state;
	make_rules(rules, ARRAY_SIZE(rules));
	IN_ORDER("bind /dev/tty on /dev/tty", "mask /dev/tty, if there",
		 "mask /proc/meminfo, if there");
	no_line("/proc/stat");
	unmake();
	for (size_t i = 0; i < 2; i++) {
		const struct view_rule bad =
			rule(i ? "/proc" : "/dev", ACCESS_NONE, VIEW_DIRECTORY);
		struct view_request request = request_of(&bad, 1);
		struct err err = ERR_NONE;

		assert_int_equal(make(&request, &err), -EINVAL);
		assert_non_null(strstr(err.text, "no program runs without it"));
		unmake();
	}
}

/* More than can be watched: said in words, before anything is done. */
static void too_many(void **state)
{
	static struct view_rule rules[PROTECTIONS_MAX + 2];
	static char names[PROTECTIONS_MAX + 2][16];
	struct view_request request = request_of(rules, PROTECTIONS_MAX + 1);
	struct err err = ERR_NONE;

	(void)state;
	rules[0] = rule("/w", ACCESS_WRITE, VIEW_DIRECTORY);
	for (size_t i = 1; i < ARRAY_SIZE(rules); i++) {
		snprintf(names[i], sizeof(names[i]), "/w/%04zu", i);
		rules[i] = rule(names[i], ACCESS_READ, VIEW_FILE);
	}
	assert_int_equal(make(&request, &err), 0);
	unmake();
	request.rule_count++;
	assert_int_equal(make(&request, &err), -E2BIG);
	assert_non_null(strstr(err.text, "257 mounts are needed"));
	unmake();
}

/* Each wall that a test can leave out is out of the plan, and only that. */
static void knocked_out(void **state)
{
	struct view_request request = request_of(NULL, 0);
	struct err err = ERR_NONE;

	(void)state;
	request.without = CLONE_NEWNET | CLONE_NEWTIME | CLONE_NEWUTS;
	assert_int_equal(make(&request, &err), 0);
	no_line("network namespace");
	no_line("time namespace");
	no_line("host name");
	line("make namespaces: user mount pid ipc\n");
	unmake();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_frame),    cmocka_unit_test(as_root_with_limits),
		cmocka_unit_test(system_trees), cmocka_unit_test(narrower_rules),
		cmocka_unit_test(wider_rules),  cmocka_unit_test(below_tmp),
		cmocka_unit_test(an_image),     cmocka_unit_test(a_sandbox_inside),
		cmocka_unit_test(bad_rules),    cmocka_unit_test(knocked_out),
		cmocka_unit_test(of_its_own),   cmocka_unit_test(too_many),
		cmocka_unit_test(from_layers),  cmocka_unit_test(a_system_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
