/*
 * The parsers against tables, then real cgroups where this host lets us make them. What a limit
 * does is judged from outside: by the files of the cgroup and by how a child ended.
 */
#include "unit.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/cgroup.h"
#include "jail/cgroup_find.h"

#define BIT(control) (1u << CGROUP_##control)

#define HYBRID                       \
	"9:name=systemd:/\n"         \
	"4:memory:/process_api/77\n" \
	"2:cpu,cpuacct:/a:b/c d\n"   \
	"0::/user.slice/x.scope\n"

static void own_line_is_found(void **state)
{
	static const struct {
		const char *text, *controller;
		int result;
		unsigned int id;
		const char *path;
	} table[] = {
		{ HYBRID, "memory", 0, 4, "/process_api/77" },
		{ HYBRID, "cpu", 0, 2, "/a:b/c d" },
		{ HYBRID, "cpuacct", 0, 2, "/a:b/c d" },
		{ HYBRID, "", 0, 0, "/user.slice/x.scope" },
		{ HYBRID, "pids", -ENOENT, 0, NULL },
		{ HYBRID, "mem", -ENOENT, 0, NULL },
		{ HYBRID, "systemd", -ENOENT, 0, NULL },
		{ "0::/", "", 0, 0, "/" },
		{ "0::/\n", "memory", -ENOENT, 0, NULL },
		{ "1:memory:/only\n", "", -ENOENT, 0, NULL },
		/* Not lines of this file: passed over, and the good one behind is found. */
		{ "x:memory:/no\n:memory:/no\n4memory:/no\n4:memory\n4:memory:\n4:memory:no\n\n"
		  "99999999999:memory:/no\n7:memory:/yes\n",
		  "memory", 0, 7, "/yes" },
		{ "1::/named-without-controllers\n", "", -ENOENT, 0, NULL },
		{ "", "", -ENOENT, 0, NULL },
		/* Outside our cgroup namespace. */
		{ "0::/../other\n", "", -EXDEV, 0, NULL },
		{ "0::/a/..\n", "", -EXDEV, 0, NULL },
		{ "0::/..a/b..\n", "", 0, 0, "/..a/b.." },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct cgroup_line line = { .id = 12345 };

		assert_int_equal(cgroup_line_find(table[i].text, table[i].controller, &line),
				 table[i].result);
		assert_int_equal(line.id, table[i].result == 0 ? table[i].id : 12345);
		if (table[i].path)
			assert_string_equal(line.path, table[i].path);
	}
}

static void own_path_that_is_too_long_is_refused(void **state)
{
	static char text[PATH_MAX + 64];
	struct cgroup_line line;

	(void)state;
	memcpy(text, "0::/", 4);
	memset(text + 4, 'a', PATH_MAX - 1);
	assert_int_equal(cgroup_line_find(text, "", &line), -ENAMETOOLONG);
	text[3 + PATH_MAX - 1] = '\0';
	assert_int_equal(cgroup_line_find(text, "", &line), 0);
	assert_int_equal(strlen(line.path), PATH_MAX - 1);
}

static void mount_lines_are_parsed(void **state)
{
	static const struct {
		const char *line;
		int result;
		bool is_v2;
		const char *root, *point, *controller;
	} table[] = {
		{ "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw", 0, true,
		  "/", "/sys/fs/cgroup/unified", "" },
		{ "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:7 - cgroup2 cgroup2 "
		  "rw,nsdelegate,memory_recursiveprot",
		  0, true, "/", "/sys/fs/cgroup", "" },
		{ "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory", 0,
		  false, "/docker/ab", "/sys/fs/cgroup/memory", "memory" },
		{ "35 31 0:32 / /c rw - cgroup cgroup rw,cpu,cpuacct", 0, false, "/", "/c",
		  "cpuacct" },
		{ "35 31 0:32 /../.. /a\\040b\\134c rw - cgroup cgroup rw,pids\n", 0, false,
		  "/../..", "/a b\\c", "pids" },
		{ "23 1 0:20 / /sys rw - sysfs sysfs rw", -ENOENT, false, NULL, NULL, NULL },
		{ "23 1 0:20 / /x rw - cgroupfoo x rw", -ENOENT, false, NULL, NULL, NULL },
		{ "", -EINVAL, false, NULL, NULL, NULL },
		{ "35 31 0:32 / /c rw cgroup cgroup rw,cpu", -EINVAL, false, NULL, NULL, NULL },
		{ "35 31 0:32 / /c rw - cgroup", -EINVAL, false, NULL, NULL, NULL },
		{ "35 31 0:32 / /c rw - cgroup cgroup", -EINVAL, false, NULL, NULL, NULL },
		{ "35 31 0:32 / /c\\04 rw - cgroup cgroup rw,cpu", -EINVAL, false, NULL, NULL,
		  NULL },
		{ "35 31 0:32 / /c\\000 rw - cgroup cgroup rw,cpu", -EINVAL, false, NULL, NULL,
		  NULL },
		{ "35 31 0:32 / /c\\777 rw - cgroup cgroup rw,cpu", -EINVAL, false, NULL, NULL,
		  NULL },
		{ "35 31 0:32 / /c\\", -EINVAL, false, NULL, NULL, NULL },
		{ "35 31 0:32 relative /c rw - cgroup cgroup rw,cpu", -EINVAL, false, NULL, NULL,
		  NULL },
		{ "35 31 0:32  /c rw - cgroup cgroup rw,cpu", -EINVAL, false, NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		static struct cgroup_mount mount;

		strcpy(mount.root, "untouched");
		assert_int_equal(cgroup_mount_parse(table[i].line, &mount), table[i].result);
		assert_string_equal(mount.root, table[i].root ? table[i].root : "untouched");
		if (table[i].result < 0)
			continue;
		assert_string_equal(mount.point, table[i].point);
		assert_int_equal(mount.is_v2, table[i].is_v2);
		assert_true(cgroup_mount_has(&mount, table[i].controller));
		assert_false(cgroup_mount_has(&mount, "freezer"));
		assert_int_equal(cgroup_mount_has(&mount, ""), table[i].is_v2);
	}
}

static void the_root_of_a_mount_is_stripped(void **state)
{
	static const struct {
		const char *path, *root, *rest;
	} table[] = {
		{ "/", "/", "" },
		{ "/a/b", "/", "a/b" },
		{ "/docker/ab", "/docker/ab", "" },
		{ "/docker/ab/c", "/docker/ab", "c" },
		{ "/docker/abc", "/docker/ab", NULL },
		{ "/docker", "/docker/ab", NULL },
		{ "/", "/docker/ab", NULL },
		{ "/a", "/../..", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const char *rest = cgroup_path_below(table[i].path, table[i].root);

		if (table[i].rest)
			assert_string_equal(rest, table[i].rest);
		else
			assert_null(rest);
	}
}

static void bad_ids_are_refused(void **state)
{
	static const char *const bad[] = {
		"",    ".",   "a/b", "../x",
		"a b", "a\n", "a_b", "0123456789012345678901234567890123456789012345678"
	};
	struct cgroup cg = CGROUP_NONE;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = ERR_NONE;

		assert_int_equal(cgroup_make(BIT(PIDS), bad[i], &cg, &err), -EINVAL);
		assert_true(*err.text);
		assert_int_equal(cg.dir[CGROUP_PIDS], -EBADF);
	}
	assert_int_equal(cgroup_make(1u << CGROUP_CONTROL_COUNT, "x", &cg, NULL), -EINVAL);
}

static void nothing_has_nothing(void **state)
{
	struct cgroup cg = CGROUP_NONE;
	struct err err = ERR_NONE;
	uint64_t value = 7;

	(void)state;
	assert_int_equal(cgroup_v2_fd(&cg), -EBADF);
	assert_int_equal(cgroup_hits(&cg, CGROUP_MEMORY, &value), -ENODATA);
	assert_int_equal(cgroup_cpu_used(&cg, &value), -ENODATA);
	assert_int_equal(cgroup_memory_peak(&cg, &value), -ENODATA);
	assert_int_equal(cgroup_limit(&cg, CGROUP_PIDS, 10, &err), -EINVAL);
	assert_int_equal(cgroup_enter(&cg), 0);
	assert_int_equal(cgroup_kill(&cg), 0);
	assert_string_equal(cgroup_mechanism(&cg, CGROUP_PIDS), "none");
	cgroup_done(&cg);
	assert_int_equal(value, 7);
}

/* ---- live ---- */

static uint32_t available;

static void need(uint32_t controls)
{
	if ((available & controls) == controls)
		return;
	print_message("SKIP: cgroup controls %#x of %#x cannot be made here\n",
		      controls & ~available, controls);
	skip();
}

static const char *fresh_id(void)
{
	static char id[40];
	static int n;

	snprintf(id, sizeof(id), "test-%d-%d", getpid(), n++);
	return id;
}

static char strange_place[] = "/tmp/brig test-XXXXXX";

/* What a test that failed half way would leave behind. */
static struct cgroup kept[8];
static size_t kept_count;

static int clean_up(void **state)
{
	(void)state;
	signal(SIGCHLD, SIG_DFL);
	while (kept_count > 0)
		cgroup_done(&kept[--kept_count]);
	(void)rmdir(strange_place);
	return 0;
}

static void forget(const struct cgroup *cg)
{
	for (size_t i = 0; i < kept_count; i++)
		if (str_equal(kept[i].name, cg->name))
			kept[i--] = kept[--kept_count];
}

static struct cgroup make_in(const char *slice, uint32_t controls)
{
	struct cgroup cg = CGROUP_NONE;
	struct err err = ERR_NONE;

	if (cgroup_make_in(slice, controls, fresh_id(), &cg, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(kept_count < ARRAY_SIZE(kept));
	kept[kept_count++] = cg;
	return cg;
}

static struct cgroup make(uint32_t controls)
{
	return make_in(NULL, controls);
}

static void limit(const struct cgroup *cg, enum cgroup_control control, uint64_t value)
{
	struct err err = ERR_NONE;

	if (cgroup_limit(cg, control, value, &err) < 0)
		fail_msg("%s", err.text);
}

static uint64_t hits(const struct cgroup *cg, enum cgroup_control control)
{
	uint64_t count = UINT64_MAX;

	assert_int_equal(cgroup_hits(cg, control, &count), 0);
	return count;
}

static void assert_file(const struct cgroup *cg, enum cgroup_control control, const char *v1,
			const char *v1_text, const char *v2, const char *v2_text)
{
	char text[256];
	bool is_v2 = cg->is_v2[control];

	assert_int_equal(file_read_at(cg->dir[control], is_v2 ? v2 : v1, text, sizeof(text)), 0);
	assert_string_equal(text, is_v2 ? v2_text : v1_text);
}

/* Runs f in a child inside the cgroup; the child's exit status, or -signal. */
static int run_inside(const struct cgroup *cg, int (*f)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (cgroup_enter(cg) < 0)
			_exit(99);
		_exit(f());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Only what this process made: others may be testing beside us. */
static size_t count_dirs(int parent)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fdopendir(fd);
	const struct dirent *entry;
	char prefix[40];
	size_t count = 0;

	assert_non_null(list);
	snprintf(prefix, sizeof(prefix), "brig-test-%d-", getpid());
	while ((entry = readdir(list)))
		count += str_starts(entry->d_name, prefix);
	closedir(list);
	return count;
}

static size_t count_fds(void)
{
	DIR *list = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(list);
	while (readdir(list))
		count++;
	closedir(list);
	return count;
}

/* Ends the cgroup and looks from its parents whether anything is left. */
static void end(struct cgroup *cg)
{
	int parents[CGROUP_CONTROL_COUNT];

	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		parents[i] = cg->parent[i] < 0 ? -EBADF : dup(cg->parent[i]);
		if (cg->parent[i] >= 0)
			assert_true(count_dirs(cg->parent[i]) > 0);
	}
	forget(cg);
	cgroup_done(cg);
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		assert_int_equal(cg->dir[i], -EBADF);
		if (parents[i] >= 0)
			assert_int_equal(count_dirs(parents[i]), 0);
		fd_close(parents[i]);
	}
}

static void made_and_removed_without_a_trace(void **state)
{
	size_t fds = count_fds();
	struct cgroup cg;

	(void)state;
	need(BIT(MEMORY) | BIT(PIDS) | BIT(CPU) | BIT(CPUACCT));
	cg = make(available);
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		assert_int_equal(cgroup_has(&cg, i), (available >> i) & 1);
	end(&cg);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(cgroup_available(), available);
	assert_int_equal(count_fds(), fds);
}

/* Where the first of its directories is. */
static const char *place_of(const struct cgroup *cg)
{
	static char path[PATH_MAX];
	char link[32];
	ssize_t len;

	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (cg->dir[i] >= 0) {
			snprintf(link, sizeof(link), "/proc/self/fd/%d", cg->dir[i]);
			len = readlink(link, path, sizeof(path) - 1);
			assert_true(len > 0);
			path[len] = '\0';
			return path;
		}
	fail();
	return NULL;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int fork_once(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? 1 : waitpid(pid, NULL, 0) == pid ? 0 : 2;
}

static void a_slice_lives_as_long_as_one_is_in_it(void **state)
{
	char slice[64], other[64], path[PATH_MAX];
	size_t fds = count_fds();
	struct cgroup a, b, c;

	(void)state;
	need(BIT(MEMORY) | BIT(PIDS));
	snprintf(slice, sizeof(slice), "test.%d_a-b", getpid());
	snprintf(other, sizeof(other), "test.%d_other", getpid());
	a = make_in(slice, available);
	b = make_in(slice, available);
	c = make_in(other, available);
	assert_non_null(strstr(place_of(&a), slice));
	assert_non_null(strstr(place_of(&c), other));
	snprintf(path, sizeof(path), "%s", place_of(&b));
	assert_non_null(strstr(path, slice));
	*strrchr(path, '/') = '\0';
	/* Walls are as good as without. */
	limit(&b, CGROUP_MEMORY, 64 * MIB);
	limit(&b, CGROUP_PIDS, 1);
	assert_int_equal(run_inside(&b, fork_once), 1);
	assert_int_equal(run_inside(&a, fork_once), 0);
	assert_true(hits(&b, CGROUP_PIDS) > 0);

	forget(&a);
	cgroup_done(&a);
	assert_true(is_dir(path));
	forget(&b);
	cgroup_done(&b);
	assert_false(is_dir(path));
	assert_true(is_dir(place_of(&c)));
	/* And again. */
	a = make_in(slice, available);
	assert_true(is_dir(path));
	forget(&a);
	cgroup_done(&a);
	forget(&c);
	cgroup_done(&c);
	assert_int_equal(count_fds(), fds);
}

/* The last one goes while another comes. */
static void a_slice_is_made_and_removed_by_many_at_once(void **state)
{
	enum { COUNT = 4 };
	char slice[64], id[40];
	pid_t pids[COUNT];
	int status;

	(void)state;
	need(BIT(PIDS));
	snprintf(slice, sizeof(slice), "test-%d-many", getpid());
	for (int p = 0; p < COUNT; p++) {
		pids[p] = fork();
		for (int i = 0; pids[p] == 0 && i < 100; i++) {
			struct cgroup cg = CGROUP_NONE;
			struct err err = ERR_NONE;

			snprintf(id, sizeof(id), "test-%d-%d", getpid(), i);
			if (cgroup_make_in(slice, BIT(PIDS), id, &cg, &err) < 0) {
				fprintf(stderr, "%s\n", err.text);
				_exit(1);
			}
			cgroup_done(&cg);
		}
		if (pids[p] == 0)
			_exit(0);
	}
	for (int p = 0; p < COUNT; p++) {
		assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
		assert_int_equal(status, 0);
	}
}

static void bad_slices_are_refused(void **state)
{
	static const char long_one[] =
		"01234567890123456789012345678901234567890123456789012345678901234";
	static const char *const bad[] = { "", "a/b", "../x", "a b", "a\n", "\x1b", long_one };
	struct cgroup cg = CGROUP_NONE;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = ERR_NONE;

		assert_int_equal(cgroup_make_in(bad[i], BIT(PIDS), "x", &cg, &err), -EINVAL);
		assert_null(strpbrk(err.text, "\n\x1b"));
	}
}

static void limits_are_in_the_files(void **state)
{
	struct err err = ERR_NONE;
	struct cgroup cg;

	(void)state;
	need(BIT(MEMORY) | BIT(PIDS) | BIT(CPU));
	cg = make(BIT(MEMORY) | BIT(PIDS) | BIT(CPU));
	limit(&cg, CGROUP_MEMORY, 64 * MIB);
	limit(&cg, CGROUP_PIDS, 20);
	limit(&cg, CGROUP_CPU, 1500);
	assert_file(&cg, CGROUP_MEMORY, "memory.limit_in_bytes", "67108864", "memory.max",
		    "67108864");
	assert_file(&cg, CGROUP_PIDS, "pids.max", "20", "pids.max", "20");
	assert_file(&cg, CGROUP_CPU, "cpu.cfs_quota_us", "150000", "cpu.max", "150000 100000");
	/* Both ways: v1 ties two limits together. */
	limit(&cg, CGROUP_MEMORY, 128 * MIB);
	assert_file(&cg, CGROUP_MEMORY, "memory.limit_in_bytes", "134217728", "memory.max",
		    "134217728");
	limit(&cg, CGROUP_MEMORY, 32 * MIB);
	assert_file(&cg, CGROUP_MEMORY, "memory.limit_in_bytes", "33554432", "memory.max",
		    "33554432");
	if (cg.is_v2[CGROUP_MEMORY] ||
	    faccessat(cg.dir[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", F_OK, 0) == 0)
		assert_file(&cg, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", "33554432",
			    "memory.oom.group", "1");
	limit(&cg, CGROUP_CPU, 10);
	assert_int_equal(cgroup_limit(&cg, CGROUP_CPU, 9, &err), -EINVAL);
	assert_non_null(strstr(err.text, "0.009"));
	assert_non_null(strstr(err.text, "0.01)"));
	assert_file(&cg, CGROUP_CPU, "cpu.cfs_quota_us", "1000", "cpu.max", "1000 100000");
	assert_int_equal(cgroup_limit(&cg, CGROUP_CPU, UINT64_MAX / 2, NULL), -ERANGE);
	assert_int_equal(cgroup_limit(&cg, CGROUP_PIDS, 0, NULL), -EINVAL);
	assert_true(cgroup_limit(&cg, CGROUP_PIDS, UINT64_MAX, NULL) < 0);
	assert_int_equal(cgroup_limit(&cg, CGROUP_KILL, 1, NULL), -EINVAL);
	end(&cg);
}

static int touch_memory(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 98;
	for (size_t i = 0; i < size; i += 4096)
		((volatile char *)p)[i] = 1;
	return 0;
}

static int touch_8M(void)
{
	return touch_memory(8 * MIB);
}

static int touch_200M(void)
{
	return touch_memory(200 * MIB);
}

static void memory_over_the_limit_is_killed_and_counted(void **state)
{
	struct cgroup cg;
	uint64_t peak = 0;

	(void)state;
	need(BIT(MEMORY));
	cg = make(BIT(MEMORY));
	limit(&cg, CGROUP_MEMORY, 64 * MIB);
	assert_int_equal(run_inside(&cg, touch_8M), 0);
	assert_int_equal(hits(&cg, CGROUP_MEMORY), 0);
	assert_int_equal(run_inside(&cg, touch_200M), -SIGKILL);
	assert_true(hits(&cg, CGROUP_MEMORY) >= 1);
	/* Linux 5.19 was the first to have it on v2. */
	if (cgroup_memory_peak(&cg, &peak) == 0) {
		assert_true(peak > 60 * MIB);
		assert_true(peak <= 64 * MIB);
	} else {
		assert_true(cg.is_v2[CGROUP_MEMORY]);
	}
	end(&cg);
}

static int fork_ten(void)
{
	int made = 0;

	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		made += pid > 0;
	}
	return made;
}

static void forks_over_the_limit_are_refused_and_counted(void **state)
{
	struct cgroup cg;

	(void)state;
	need(BIT(PIDS));
	cg = make(BIT(PIDS));
	limit(&cg, CGROUP_PIDS, 5);
	assert_int_equal(hits(&cg, CGROUP_PIDS), 0);
	assert_int_equal(run_inside(&cg, fork_ten), 4);
	assert_true(hits(&cg, CGROUP_PIDS) > 0);
	/* The four are still there: the end takes them. */
	end(&cg);
}

static uint64_t clock_ms(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* By its own CPU clock, so that a busy host changes nothing. */
static int burn_60ms(void)
{
	while (clock_ms(CLOCK_PROCESS_CPUTIME_ID) < 60)
		;
	return 0;
}

static void cpu_time_is_counted_and_held(void **state)
{
	static const uint32_t sets[] = { BIT(CPU) | BIT(CPUACCT),
					 BIT(CPU) | BIT(CPUACCT) | BIT(KILL) };

	(void)state;
	need(BIT(CPU) | BIT(CPUACCT));
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		uint64_t before = UINT64_MAX, after = 0, begin;
		struct cgroup cg;

		if (sets[i] & ~available)
			continue;
		cg = make(sets[i]);
		assert_int_equal(cgroup_cpu_used(&cg, &before), 0);
		assert_int_equal(run_inside(&cg, burn_60ms), 0);
		assert_int_equal(cgroup_cpu_used(&cg, &after), 0);
		assert_true(after > before + 50000);
		assert_int_equal(hits(&cg, CGROUP_CPU), 0);

		/* A tenth of a CPU gives 10 ms in each tenth of a second. */
		limit(&cg, CGROUP_CPU, 100);
		begin = clock_ms(CLOCK_MONOTONIC);
		assert_int_equal(run_inside(&cg, burn_60ms), 0);
		assert_true(clock_ms(CLOCK_MONOTONIC) - begin > 300);
		assert_true(hits(&cg, CGROUP_CPU) > 0);
		end(&cg);
	}
}

static void bomb(void)
{
	signal(SIGTERM, SIG_IGN);
	for (;;)
		if (fork() < 0)
			usleep(100);
}

/* How many processes the kernel still lists in the directory. */
static size_t listed(int dir)
{
	char text[4096];
	size_t count = 0;

	assert_int_equal(file_read_at(dir, "cgroup.procs", text, sizeof(text)), 0);
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
		count++;
	return count;
}

static struct cgroup make_bomb(uint32_t controls)
{
	struct cgroup cg = make(controls);
	pid_t pid;

	limit(&cg, CGROUP_PIDS, 64);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* Out of our session, so that nothing but the cgroup holds it together. */
		setsid();
		if (cgroup_enter(&cg) == 0)
			bomb();
		_exit(99);
	}
	for (int i = 0; i < 2000 && listed(cg.dir[CGROUP_PIDS]) < 60; i++)
		usleep(1000);
	assert_true(listed(cg.dir[CGROUP_PIDS]) >= 60);
	/* Leave the reaping to init: a zombie of ours would not show in the list. */
	signal(SIGCHLD, SIG_IGN);
	return cg;
}

static void a_fork_bomb_is_killed_whole(void **state)
{
	static const uint32_t sets[] = { BIT(PIDS), BIT(PIDS) | BIT(KILL) };

	(void)state;
	need(BIT(PIDS));
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct cgroup cg;

		if (sets[i] & ~available)
			continue;
		cg = make_bomb(sets[i]);
		assert_int_equal(cgroup_kill(&cg), 0);
		for (int n = 0; n < 2000 && listed(cg.dir[CGROUP_PIDS]) > 0; n++)
			usleep(1000);
		assert_int_equal(listed(cg.dir[CGROUP_PIDS]), 0);
		/* A kill is not the end of it: the limit is as before. */
		assert_file(&cg, CGROUP_PIDS, "pids.max", "64", "pids.max", "64");
		end(&cg);

		cg = make_bomb(sets[i]);
		end(&cg);
		signal(SIGCHLD, SIG_DFL);
	}
}

static void the_end_takes_directories_made_inside(void **state)
{
	struct cgroup cg;
	pid_t pid;
	int inner;

	(void)state;
	need(BIT(PIDS));
	cg = make(BIT(PIDS));
	assert_int_equal(mkdirat(cg.dir[CGROUP_PIDS], "a", 0755), 0);
	assert_int_equal(mkdirat(cg.dir[CGROUP_PIDS], "a/b", 0755), 0);
	inner = openat(cg.dir[CGROUP_PIDS], "a/b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(inner >= 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (file_write_at(inner, "cgroup.procs", "0") == 0)
			pause();
		_exit(99);
	}
	for (int i = 0; i < 1000 && listed(inner) == 0; i++)
		usleep(1000);
	assert_int_equal(listed(inner), 1);
	fd_close(inner);
	signal(SIGCHLD, SIG_IGN);
	end(&cg);
	signal(SIGCHLD, SIG_DFL);
}

static void a_name_that_is_taken_is_refused_and_kept(void **state)
{
	struct cgroup first, second = CGROUP_NONE;
	struct err err = ERR_NONE;
	struct stat st;

	(void)state;
	need(BIT(PIDS) | BIT(MEMORY));
	first = make(BIT(PIDS));
	/* memory comes first and is made; it must be gone again, and pids must still be there. */
	assert_int_equal(cgroup_make(BIT(MEMORY) | BIT(PIDS), first.name + strlen("brig-"), &second,
				     &err),
			 -EEXIST);
	assert_non_null(strstr(err.text, first.name));
	assert_int_equal(second.dir[CGROUP_MEMORY], -EBADF);
	assert_int_equal(fstatat(first.parent[CGROUP_PIDS], first.name, &st, 0), 0);
	if (!first.is_v2[CGROUP_PIDS]) {
		second = make(BIT(MEMORY));
		assert_int_equal(count_dirs(second.parent[CGROUP_MEMORY]), 1);
		end(&second);
	}
	end(&first);
}

static void what_took_our_name_is_not_removed(void **state)
{
	char name[sizeof(((struct cgroup *)0)->name)];
	struct cgroup cg;
	int parent;

	(void)state;
	need(BIT(PIDS));
	cg = make(BIT(PIDS));
	memcpy(name, cg.name, sizeof(name));
	parent = dup(cg.parent[CGROUP_PIDS]);
	assert_int_equal(unlinkat(parent, cg.name, AT_REMOVEDIR), 0);
	assert_int_equal(mkdirat(parent, cg.name, 0755), 0);
	forget(&cg);
	cgroup_done(&cg);
	assert_int_equal(count_dirs(parent), 1);
	assert_int_equal(unlinkat(parent, name, AT_REMOVEDIR), 0);
	fd_close(parent);
}

static void a_child_is_born_inside(void **state)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	struct cgroup cg;
	int status;
	pid_t pid;

	(void)state;
	need(BIT(KILL));
	cg = make(BIT(KILL));
	assert_true(cgroup_v2_fd(&cg) >= 0);
	args.cgroup = (uint64_t)cgroup_v2_fd(&cg);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	assert_true(pid >= 0);
	if (pid == 0) {
		pause();
		_exit(99);
	}
	assert_int_equal(listed(cg.dir[CGROUP_KILL]), 1);
	assert_int_equal(cgroup_kill(&cg), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	end(&cg);
}

/*
 * As in a container: a cgroup namespace, and the tree mounted from our own directory on, at a place
 * that nobody would guess. Only mountinfo can tell where it is. Exit status 0 when all is well.
 */
static enum cgroup_control strange_control;

static int in_a_container(void)
{
	static const char *const data[CGROUP_CONTROL_COUNT] = {
		[CGROUP_MEMORY] = "memory", [CGROUP_PIDS] = "pids"
	};
	const char *type = data[strange_control] ? "cgroup" : "cgroup2";
	struct cgroup cg = CGROUP_NONE;
	struct stat inside, made;
	int place;

	if (unshare(CLONE_NEWNS | CLONE_NEWCGROUP) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 80;
	if (mount("none", strange_place, type, 0, data[strange_control]) < 0)
		return 81;
	if (umount2("/sys/fs/cgroup", MNT_DETACH) < 0)
		return 82;
	if (cgroup_make(1u << strange_control, fresh_id(), &cg, NULL) < 0)
		return 83;
	/* It stands right below the mount point, which is our own cgroup. */
	if (stat(strange_place, &inside) < 0 || fstat(cg.parent[strange_control], &made) < 0 ||
	    inside.st_ino != made.st_ino || inside.st_dev != made.st_dev)
		return 84;
	if (cgroup_enter(&cg) < 0 || listed(cg.dir[strange_control]) != 1)
		return 85;
	if (file_write_at(cg.parent[strange_control], "cgroup.procs", "0") < 0)
		return 86;
	cgroup_done(&cg);
	place = open(strange_place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return count_dirs(place) == 0 ? 0 : 87;
}

static void a_tree_in_a_strange_place_is_found(void **state)
{
	static const enum cgroup_control tried[] = { CGROUP_KILL, CGROUP_PIDS, CGROUP_MEMORY };
	struct cgroup none = CGROUP_NONE;
	int results[ARRAY_SIZE(tried)] = { 0 };

	(void)state;
	if (geteuid() != 0) {
		print_message("SKIP: only root may mount\n");
		skip();
	}
	need(BIT(KILL));
	assert_non_null(mkdtemp(strange_place));
	for (size_t i = 0; i < ARRAY_SIZE(tried); i++) {
		struct cgroup cg;
		bool is_v2;

		if (!(available & 1u << tried[i]))
			continue;
		cg = make(1u << tried[i]);
		is_v2 = cg.is_v2[tried[i]];
		end(&cg);
		/* With controllers our own directory would have to be empty. */
		if (is_v2 && tried[i] != CGROUP_KILL)
			continue;
		strange_control = tried[i];
		results[i] = run_inside(&none, in_a_container);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tried); i++)
		assert_int_equal(results[i], 0);
}

static void a_host_without_cgroups_refuses_with_a_remedy(void **state)
{
	struct cgroup cg = CGROUP_NONE;
	struct err err = ERR_NONE;

	(void)state;
	if (!BRIG_HAS_TEST_HOOKS) {
		print_message("SKIP: built without test hooks\n");
		skip();
	}
	setenv("BRIG_TEST_FAIL", "cgroup=30", 1);
	assert_int_equal(cgroup_available(), 0);
	assert_int_equal(cgroup_make(BIT(PIDS) | BIT(CPU), "x", &cg, &err), -EOPNOTSUPP);
	unsetenv("BRIG_TEST_FAIL");
	assert_non_null(strstr(err.text, "pids: "));
	assert_non_null(strstr(err.text, "systemd-run"));
}

/* In a child that is nobody: 0 when all is as it should be. */
static int as_nobody(void)
{
	struct cgroup cg = CGROUP_NONE;
	struct err err = ERR_NONE;

	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 90;
	if (cgroup_available() != 0)
		return 91;
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		if (cgroup_make(1u << i, "x", &cg, &err) != -EOPNOTSUPP)
			return 92;
		if (!strstr(err.text, "as root"))
			return 93;
	}
	return 0;
}

static void an_ordinary_user_is_told_what_would_help(void **state)
{
	struct cgroup none = CGROUP_NONE;

	(void)state;
	if (geteuid() != 0) {
		print_message("SKIP: only root can become nobody\n");
		skip();
	}
	assert_int_equal(run_inside(&none, as_nobody), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_line_is_found),
		cmocka_unit_test(own_path_that_is_too_long_is_refused),
		cmocka_unit_test(mount_lines_are_parsed),
		cmocka_unit_test(the_root_of_a_mount_is_stripped),
		cmocka_unit_test(bad_ids_are_refused),
		cmocka_unit_test(bad_slices_are_refused),
		cmocka_unit_test(nothing_has_nothing),
		cmocka_unit_test_teardown(made_and_removed_without_a_trace, clean_up),
		cmocka_unit_test_teardown(a_slice_lives_as_long_as_one_is_in_it, clean_up),
		cmocka_unit_test_teardown(a_slice_is_made_and_removed_by_many_at_once, clean_up),
		cmocka_unit_test_teardown(limits_are_in_the_files, clean_up),
		cmocka_unit_test_teardown(memory_over_the_limit_is_killed_and_counted, clean_up),
		cmocka_unit_test_teardown(forks_over_the_limit_are_refused_and_counted, clean_up),
		cmocka_unit_test_teardown(cpu_time_is_counted_and_held, clean_up),
		cmocka_unit_test_teardown(a_fork_bomb_is_killed_whole, clean_up),
		cmocka_unit_test_teardown(the_end_takes_directories_made_inside, clean_up),
		cmocka_unit_test_teardown(a_name_that_is_taken_is_refused_and_kept, clean_up),
		cmocka_unit_test_teardown(what_took_our_name_is_not_removed, clean_up),
		cmocka_unit_test_teardown(a_child_is_born_inside, clean_up),
		cmocka_unit_test_teardown(a_tree_in_a_strange_place_is_found, clean_up),
		cmocka_unit_test_teardown(a_host_without_cgroups_refuses_with_a_remedy, clean_up),
		cmocka_unit_test_teardown(an_ordinary_user_is_told_what_would_help, clean_up),
	};

	available = cgroup_available();
	print_message("cgroup controls that can be made here: %#x\n", available);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
