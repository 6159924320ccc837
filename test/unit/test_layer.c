#include "changes_case.h"

#include <dirent.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/str.h"
#include "jail/layer.h"
#include "random.h"

#define test(name) cmocka_unit_test_setup_teardown(name, layers_make, layers_remove)

static struct layer_how copy_how(struct layer_how how)
{
	struct err err = ERR_NONE;
	int r = layer_copy(t.scratch.dir, "upper", t.scratch.dir, "copy", &how, &err);

	if (r < 0)
		fail_msg("%d: %s", r, err.text);
	return how;
}

static int open_copy(void)
{
	int fd = openat(t.scratch.dir, "copy", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static const char *mark_of(int at, const char *path, const char *name)
{
	static char value[64];
	_cleanup_close_ int fd = openat(at, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fgetxattr(fd, name, value, sizeof(value) - 1);

	if (n < 0)
		return "(none)";
	value[n] = '\0';
	return value;
}

static void set_times(int at, const char *path, time_t seconds)
{
	const struct timespec times[] = { { .tv_sec = seconds, .tv_nsec = 123456789 },
					  { .tv_sec = seconds + 1, .tv_nsec = 987654321 } };

	assert_int_equal(utimensat(at, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void add_socket(int at, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", at, name);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static void test_everything_is_kept(void **state)
{
	_cleanup_close_ int copy = -EBADF;
	struct layer_how how;
	struct stat st;
	char target[64];

	(void)state;
	add_dir(t.upper, "dir", 0750);
	add_file(t.upper, "dir/file", "content", 0640);
	add_file(t.upper, "dir/setuid", "x", 06755);
	add_file(t.upper, "dir/empty", "", 0);
	assert_int_equal(symlinkat("/nowhere/../x", t.upper, "dir/link"), 0);
	assert_int_equal(mkfifoat(t.upper, "dir/pipe", 0604), 0);
	add_socket(t.upper, "socket");
	add_file(t.upper, "\xff\n\x1b[31m", "bytes", 0600);
	set_times(t.upper, "dir/file", 1000);
	set_times(t.upper, "dir/link", 2000);
	set_times(t.upper, "dir/pipe", 3000);
	set_times(t.upper, "dir", 4000);
	how = copy_how((struct layer_how){ 0 });
	copy = open_copy();
	assert_int_equal(stat_of(copy, "dir/file").st_atim.tv_sec, 1000);
	assert_string_equal(read_text(copy, "dir/file"), "content");
	assert_string_equal(read_text(copy, "\xff\n\x1b[31m"), "bytes");
	assert_int_equal(stat_of(copy, "dir").st_mode, S_IFDIR | 0750);
	assert_int_equal(stat_of(copy, "dir/file").st_mode, S_IFREG | 0640);
	assert_int_equal(stat_of(copy, "dir/setuid").st_mode, S_IFREG | 06755);
	assert_int_equal(stat_of(copy, "dir/empty").st_mode, S_IFREG);
	assert_int_equal(stat_of(copy, "dir/pipe").st_mode, S_IFIFO | 0604);
	assert_int_equal(readlinkat(copy, "dir/link", target, sizeof(target)), 13);
	assert_memory_equal(target, "/nowhere/../x", 13);
	assert_false(exists(copy, "socket"));
	assert_int_equal(stat_of(copy, "dir/file").st_mtim.tv_sec, 1001);
	assert_int_equal(stat_of(copy, "dir/file").st_mtim.tv_nsec, 987654321);
	assert_int_equal(stat_of(copy, "dir/link").st_mtim.tv_sec, 2001);
	assert_int_equal(stat_of(copy, "dir/pipe").st_mtim.tv_sec, 3001);
	assert_int_equal(stat_of(copy, "dir").st_mtim.tv_sec, 4001);
	assert_int_equal(fstat(copy, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(how.files, 7);
	assert_int_equal(how.left_out, 1);
	assert_int_equal(how.bytes, strlen("content") + strlen("bytes") + 1);
}

static void test_hard_links_stay_together(void **state)
{
	_cleanup_close_ int copy = -EBADF;

	(void)state;
	add_dir(t.upper, "a", 0755);
	add_dir(t.upper, "b", 0755);
	add_file(t.upper, "a/one", "shared", 0644);
	assert_int_equal(linkat(t.upper, "a/one", t.upper, "b/two", 0), 0);
	assert_int_equal(linkat(t.upper, "a/one", t.upper, "three", 0), 0);
	assert_int_equal(symlinkat("x", t.upper, "a/link"), 0);
	assert_int_equal(linkat(t.upper, "a/link", t.upper, "b/link", 0), 0);
	/* One of two names is outside of what is copied. */
	add_file(t.outside, "half", "half", 0644);
	assert_int_equal(linkat(t.outside, "half", t.upper, "half", 0), 0);
	copy_how((struct layer_how){ 0 });
	copy = open_copy();
	assert_int_equal(stat_of(copy, "a/one").st_ino, stat_of(copy, "b/two").st_ino);
	assert_int_equal(stat_of(copy, "a/one").st_ino, stat_of(copy, "three").st_ino);
	assert_int_equal(stat_of(copy, "three").st_nlink, 3);
	assert_int_equal(stat_of(copy, "a/link").st_ino, stat_of(copy, "b/link").st_ino);
	assert_int_equal(stat_of(copy, "half").st_nlink, 1);
	assert_true(stat_of(copy, "half").st_ino != stat_of(t.outside, "half").st_ino);
}

static void test_holes_stay_holes(void **state)
{
	_cleanup_close_ int copy = -EBADF;
	int fd = openat(t.upper, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct layer_how how;
	struct stat st;
	char text[4];

	(void)state;
	assert_int_equal(pwrite(fd, "in", 2, 1 << 30), 2);
	assert_int_equal(ftruncate(fd, (off_t)3 << 30), 0);
	close(fd);
	how = copy_how((struct layer_how){ 0 });
	copy = open_copy();
	st = stat_of(copy, "sparse");
	assert_int_equal(st.st_size, (off_t)3 << 30);
	assert_true(st.st_blocks * 512 < 1 << 20);
	assert_true(how.bytes < 1 << 20);
	fd = openat(copy, "sparse", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, text, 2, 1 << 30), 2);
	assert_memory_equal(text, "in", 2);
	close(fd);
}

static void test_owners_are_shifted(void **state)
{
	_cleanup_close_ int copy = -EBADF;
	const uint32_t first = 0x70000000;
	struct layer_how how = { .ids = LAYER_IDS_SHIFT, .first = first };
	struct err err = ERR_NONE;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root: an ordinary user has one id\n");
		return;
	}
	add_dir(t.upper, "dir", 0755);
	add_file(t.upper, "dir/user", "", 06755);
	add_file(t.upper, "dir/foreign", "", 0644);
	assert_int_equal(symlinkat("x", t.upper, "dir/link"), 0);
	assert_int_equal(fchownat(t.upper, "dir", first, first + 5, 0), 0);
	assert_int_equal(fchownat(t.upper, "dir/user", first + 1000, first + 65535, 0), 0);
	assert_int_equal(fchmodat(t.upper, "dir/user", 06755, 0), 0);
	assert_int_equal(fchownat(t.upper, "dir/foreign", first - 1, first + 65536, 0), 0);
	assert_int_equal(fchownat(t.upper, "dir/link", first + 7, first + 8, AT_SYMLINK_NOFOLLOW),
			 0);
	copy_how(how);
	copy = open_copy();
	assert_int_equal(stat_of(copy, "dir").st_uid, 0);
	assert_int_equal(stat_of(copy, "dir").st_gid, 5);
	assert_int_equal(stat_of(copy, "dir/user").st_uid, 1000);
	assert_int_equal(stat_of(copy, "dir/user").st_gid, 65535);
	assert_int_equal(stat_of(copy, "dir/user").st_mode & 07777, 06755);
	assert_int_equal(stat_of(copy, "dir/foreign").st_uid, 65534);
	assert_int_equal(stat_of(copy, "dir/foreign").st_gid, 65534);
	assert_int_equal(stat_of(copy, "dir/link").st_uid, 7);
	how = (struct layer_how){ .ids = LAYER_IDS_ONE, .first = 1000 };
	assert_int_equal(layer_copy(t.scratch.dir, "copy", t.scratch.dir, "one", &how, &err), 0);
	assert_int_equal(stat_of(t.scratch.dir, "one/dir/foreign").st_uid, 1000);
	assert_int_equal(stat_of(t.scratch.dir, "one/dir/link").st_gid, 1000);
}

static void test_marks_of_an_upper_layer(void **state)
{
	_cleanup_close_ int copy = -EBADF;

	(void)state;
	add_dir(t.upper, "opaque", 0755);
	add_dir(t.upper, "up", 0555);
	add_file(t.upper, "file", "x", 0444);
	if (!add_mark(t.upper, "opaque", "user.overlay.opaque", "y"))
		return;
	add_mark(t.upper, "opaque", "user.overlay.redirect", "/etc");
	add_mark(t.upper, "opaque", "user.overlay.overlay.opaque", "inner");
	add_mark(t.upper, "opaque", "user.mine", "1");
	if (geteuid() == 0)
		add_mark(t.upper, "up", "user.overlay.origin", "handle");
	if (geteuid() == 0)
		add_mark(t.upper, "file", "user.overlay.metacopy", "");
	add_dir(t.upper, "holed", 0755);
	add_whiteout(t.upper, "holed/gone");
	copy_how((struct layer_how){ 0 });
	copy = open_copy();
	assert_string_equal(mark_of(copy, "opaque", "user.overlay.opaque"), "y");
	assert_string_equal(mark_of(copy, "opaque", "user.overlay.redirect"), "(none)");
	assert_string_equal(mark_of(copy, "opaque", "user.overlay.overlay.opaque"), "inner");
	assert_string_equal(mark_of(copy, "opaque", "user.mine"), "1");
	if (geteuid() == 0)
		assert_string_equal(mark_of(copy, "up", "user.overlay.origin"), "");
	assert_string_equal(mark_of(copy, "file", "user.overlay.metacopy"), "(none)");
	assert_true(S_ISCHR(stat_of(copy, "holed/gone").st_mode));
	assert_int_equal(stat_of(copy, "holed/gone").st_rdev, 0);
	/* Or overlayfs would list it. */
	assert_string_equal(mark_of(copy, "holed", "user.overlay.origin"), "");
}

/* A program in a plain folder can write what looks like a mark. It must come back as it was, and mean
 * nothing meanwhile. */
static void test_forged_marks_mean_nothing(void **state)
{
	_cleanup_close_ int copy = -EBADF;
	struct err err = ERR_NONE;
	struct layer_how how;

	(void)state;
	add_dir(t.upper, "dir", 0755);
	add_file(t.upper, "file", "x", 0400);
	add_whiteout(t.upper, "device");
	if (!add_mark(t.upper, "dir", "user.overlay.opaque", "y"))
		return;
	assert_int_equal(fchmodat(t.upper, "file", 0600, 0), 0);
	add_mark(t.upper, "file", "user.overlay.whiteout", "1");
	assert_int_equal(fchmodat(t.upper, "file", 0400, 0), 0);
	how = copy_how((struct layer_how){ .is_plain = true });
	copy = open_copy();
	assert_string_equal(mark_of(copy, "dir", "user.overlay.opaque"), "(none)");
	assert_string_equal(mark_of(copy, "dir", "user.overlay.overlay.opaque"), "y");
	assert_string_equal(mark_of(copy, "file", "user.overlay.whiteout"), "(none)");
	assert_false(exists(copy, "device"));
	assert_int_equal(how.left_out, 1);
	assert_int_equal(layer_prune(t.scratch.dir, "copy", &err), 0);
	assert_string_equal(mark_of(copy, "dir", "user.overlay.opaque"), "y");
	assert_string_equal(mark_of(copy, "dir", "user.overlay.overlay.opaque"), "(none)");
	assert_string_equal(mark_of(copy, "file", "user.overlay.whiteout"), "1");
	assert_int_equal(stat_of(copy, "file").st_mode, S_IFREG | 0400);
}

static void test_prune_takes_marks_out(void **state)
{
	struct err err = ERR_NONE;

	(void)state;
	add_dir(t.upper, "dir", 0755);
	if (!add_mark(t.upper, "dir", "user.overlay.opaque", "y"))
		return;
	add_mark(t.upper, "dir", "user.overlay.overlay.opaque", "own");
	add_whiteout(t.upper, "dir/gone");
	add_file(t.upper, "dir/stays", "x", 0444);
	set_times(t.upper, "dir", 5000);
	assert_int_equal(fchmodat(t.upper, "dir", 0, 0), 0);
	assert_int_equal(layer_prune(t.scratch.dir, "upper", &err), 0);
	assert_int_equal(stat_of(t.upper, "dir").st_mode, S_IFDIR);
	assert_int_equal(stat_of(t.upper, "dir").st_mtim.tv_sec, 5001);
	assert_int_equal(fchmodat(t.upper, "dir", 0700, 0), 0);
	assert_false(exists(t.upper, "dir/gone"));
	assert_true(exists(t.upper, "dir/stays"));
	assert_string_equal(mark_of(t.upper, "dir", "user.overlay.opaque"), "own");
}

static int visit_remove(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

/* Runs a test as an ordinary user, in a folder of that user. */
static void as_user(void (*run)(int dir))
{
	char path[] = "/tmp/brig-layer-XXXXXX";
	int status, dir;
	pid_t pid;

	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (geteuid() == 0)
		assert_int_equal(fchown(dir, 65534, 65534), 0);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 &&
		    (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
			_exit(99);
		run(dir);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(dir);
	nftw(path, visit_remove, 16, FTW_DEPTH | FTW_PHYS);
	if (WIFEXITED(status) && WEXITSTATUS(status) > 0)
		fail_msg("check %d failed", WEXITSTATUS(status));
	assert_true(WIFEXITED(status));
}

static void closed_folders(int dir)
{
	struct layer_how how = { 0 };
	struct err err = ERR_NONE;
	struct stat st;
	int fd;

	if (mkdirat(dir, "from", 0700) < 0 || mkdirat(dir, "from/closed", 0700) < 0 ||
	    mkdirat(dir, "from/closed/deeper", 0700) < 0)
		_exit(1);
	fd = openat(dir, "from/closed/deeper/file", O_WRONLY | O_CREAT, 0);
	if (fd < 0 || write(fd, "secret", 6) != 6 || close(fd) < 0)
		_exit(2);
	if (fchmodat(dir, "from/closed/deeper", 0100, 0) < 0 ||
	    fchmodat(dir, "from/closed", 0, 0) < 0 || fchmodat(dir, "from", 0300, 0) < 0)
		_exit(3);
	if (layer_copy(dir, "from", dir, "to", &how, &err) < 0)
		_exit(4);
	/* As they were, and so is the copy. */
	if (fstatat(dir, "from", &st, 0) < 0 || (st.st_mode & 07777) != 0300 ||
	    fstatat(dir, "from/closed", &st, 0) < 0 || (st.st_mode & 07777) != 0 ||
	    fstatat(dir, "to/closed", &st, 0) < 0 || (st.st_mode & 07777) != 0)
		_exit(5);
	how.is_below = true;
	if (layer_copy(dir, "from", dir, "to", &how, &err) < 0 ||
	    fstatat(dir, "to/closed", &st, 0) < 0 || (st.st_mode & 07777) != 0)
		_exit(6);
	if (fchmodat(dir, "to", 0700, 0) < 0 || fchmodat(dir, "to/closed", 0700, 0) < 0 ||
	    fstatat(dir, "to/closed/deeper/file", &st, 0) < 0 || st.st_size != 6 ||
	    (st.st_mode & 07777) != 0)
		_exit(7);
	for (const char *const *p =
		     (const char *const[]){ "from", "from/closed", "from/closed/deeper",
					    "to/closed/deeper", NULL };
	     *p; p++)
		if (fchmodat(dir, *p, 0700, 0) < 0)
			_exit(8);
}

static void test_closed_folders_of_a_user(void **state)
{
	(void)state;
	as_user(closed_folders);
}

/* Deeper than any path, with few descriptors. */
static void test_any_depth(void **state)
{
	struct rlimit before, few;
	_cleanup_close_ int copy = -EBADF;
	char name[201];
	int fd = dup(t.upper);

	(void)state;
	memset(name, 'd', 200);
	name[200] = '\0';
	for (int i = 0; i < 3000; i++) {
		int next;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	add_file(fd, "bottom", "reached", 0644);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ 24, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	copy_how((struct layer_how){ 0 });
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	copy = open_copy();
	fd = dup(copy);
	for (int i = 0; i < 3000; i++) {
		int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	assert_string_equal(read_text(fd, "bottom"), "reached");
	close(fd);
	assert_int_equal(layer_remove(t.scratch.dir, "copy"), 0);
}

static void test_links_are_not_followed(void **state)
{
	_cleanup_close_ int copy = -EBADF;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t.outside);
	assert_int_equal(symlinkat(path, t.upper, "way-out"), 0);
	assert_int_equal(symlinkat("/etc/shadow", t.upper, "file"), 0);
	copy_how((struct layer_how){ 0 });
	copy = open_copy();
	assert_true(S_ISLNK(stat_of(copy, "way-out").st_mode));
	assert_true(S_ISLNK(stat_of(copy, "file").st_mode));
	/* Nor does a target that is one. */
	assert_int_equal(symlinkat("outside", t.scratch.dir, "link"), 0);
	assert_true(layer_copy(t.scratch.dir, "upper", t.scratch.dir, "link",
			       &(struct layer_how){ .is_below = true }, NULL) < 0);
	assert_false(exists(t.outside, "file"));
	assert_int_equal(unlinkat(t.scratch.dir, "link", 0), 0);
}

static void test_a_full_disk_is_told(void **state)
{
	const struct rlimit small = { 4096, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };
	struct layer_how how = { 0 };
	struct err err = ERR_NONE;
	char big[8192];
	int fd, r;

	(void)state;
	memset(big, 'x', sizeof(big));
	add_dir(t.upper, "dir", 0755);
	fd = openat(t.upper, "dir/big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_all(fd, big, sizeof(big)), 0);
	close(fd);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = layer_copy(t.scratch.dir, "upper", t.scratch.dir, "copy", &how, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(err.text, "upper/dir/big"));
}

static void count_calls(void *arg, uint64_t bytes, uint64_t files)
{
	uint64_t *seen = arg;

	assert_true(bytes >= seen[0] && files >= seen[1]);
	seen[0] = bytes;
	seen[1] = files;
}

static void test_progress_is_told(void **state)
{
	uint64_t seen[2] = { 0 };
	const struct layer_progress progress = { count_calls, seen };

	(void)state;
	add_file(t.upper, "a", "12345", 0600);
	add_file(t.upper, "b", "12345", 0600);
	copy_how((struct layer_how){ .progress = &progress });
	assert_int_equal(seen[0], 10);
	assert_int_equal(seen[1], 2);
}

static void test_written(void **state)
{
	(void)state;
	assert_int_equal(layer_is_written(t.scratch.dir, "upper", 0755), 0);
	assert_int_equal(layer_is_written(t.scratch.dir, "upper", 0700), 1);
	add_file(t.upper, "a", "", 0600);
	assert_int_equal(layer_is_written(t.scratch.dir, "upper", 0755), 1);
	assert_int_equal(layer_is_written(t.scratch.dir, "none", 0755), -ENOENT);
}

/*
 * The judge of a merge is overlayfs itself: layers made at random, mounted as they are, and merged
 * and mounted; both must show the same.
 */
#define LAYERS 4
#define ROUNDS 60

static void fill_randomly(struct random *rng, int dir, int depth, bool has_marks)
{
	static const char *const names[] = { "a", "b", "c", "d" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char text[32];

		switch (random_below(rng, 6)) {
		case 0:
		case 1:
			snprintf(text, sizeof(text), "%u",
				 (unsigned int)random_below(rng, 1000000));
			add_file(dir, names[i], text, random_below(rng, 2) ? 0644 : 0600);
			break;
		case 2:
			if (has_marks)
				add_whiteout(dir, names[i]);
			break;
		case 3:
		case 4:
			if (depth > 0) {
				int below =
					make_dir(dir, names[i], random_below(rng, 2) ? 0755 : 0700);

				fill_randomly(rng, below, depth - 1, has_marks);
				close(below);
				if (has_marks && random_below(rng, 4) == 0)
					add_mark(dir, names[i], "user.overlay.opaque", "y");
			}
			break;
		default:
			break;
		}
	}
}

/* Whiteouts in a directory that nothing is below of are listed, unless it says that it has some: a
 * layer that was copied does. */
static void make_layer(struct random *rng, unsigned int number)
{
	char raw[16], name[16];
	struct layer_how how = { 0 };
	struct err err = ERR_NONE;
	int dir;

	snprintf(raw, sizeof(raw), "raw%u", number);
	snprintf(name, sizeof(name), "layer%u", number);
	dir = make_dir(t.scratch.dir, raw, 0755);
	fill_randomly(rng, dir, 3, true);
	close(dir);
	assert_int_equal(layer_copy(t.scratch.dir, raw, t.scratch.dir, name, &how, &err), 0);
	assert_int_equal(layer_remove(t.scratch.dir, raw), 0);
}

static void list_into(struct buf *text, int dir, const char *path)
{
	char *names[64];
	size_t count = 0;
	DIR *stream = fdopendir(dup(dir));
	struct dirent *entry;

	assert_non_null(stream);
	rewinddir(stream);
	while ((entry = readdir(stream)))
		if (entry->d_name[0] != '.')
			names[count++] = strdup(entry->d_name);
	closedir(stream);
	for (size_t i = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++)
			if (strcmp(names[i], names[k]) > 0) {
				char *other = names[i];

				names[i] = names[k];
				names[k] = other;
			}
	for (size_t i = 0; i < count; i++) {
		struct stat st = stat_of(dir, names[i]);

		buf_printf(text, "%s/%s %o", path, names[i], st.st_mode);
		if (S_ISDIR(st.st_mode)) {
			int below = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			char deeper[256];

			snprintf(deeper, sizeof(deeper), "%s/%s", path, names[i]);
			buf_char(text, '\n');
			list_into(text, below, deeper);
			close(below);
		} else {
			buf_printf(text, " %s\n", read_text(dir, names[i]));
		}
		free(names[i]);
	}
}

static char *list_mounted(const char *lowers)
{
	struct buf text = BUF(1 << 20);
	char data[256];
	int dir;

	snprintf(data, sizeof(data), "lowerdir=%s,userxattr", lowers);
	if (mount("overlay", "shown", "overlay", MS_RDONLY, data) < 0)
		fail_msg("overlay of %s: %s", lowers, strerror(errno));
	dir = open("shown", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	list_into(&text, dir, "");
	close(dir);
	assert_int_equal(umount("shown"), 0);
	return buf_take(&text);
}

static bool enter_namespaces(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	(void)!file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (file_write_at(AT_FDCWD, "/proc/self/uid_map", map) < 0)
		return false;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return file_write_at(AT_FDCWD, "/proc/self/gid_map", map) == 0;
}

static void merge_round(struct random *rng)
{
	struct layer_how how = { 0 }, below = { .is_below = true };
	struct err err = ERR_NONE;
	char *expected, *merged, *alone, name[16];
	int base = make_dir(t.scratch.dir, "base", 0755);

	fill_randomly(rng, base, 3, false);
	close(base);
	for (unsigned int i = 1; i <= LAYERS; i++)
		make_layer(rng, i);
	snprintf(name, sizeof(name), "layer%u", LAYERS);
	assert_int_equal(layer_copy(t.scratch.dir, name, t.scratch.dir, "merged", &how, &err), 0);
	for (unsigned int i = LAYERS - 1; i > 0; i--) {
		snprintf(name, sizeof(name), "layer%u", i);
		if (layer_copy(t.scratch.dir, name, t.scratch.dir, "merged", &below, &err) < 0)
			fail_msg("%s", err.text);
	}
	expected = list_mounted("layer4:layer3:layer2:layer1:base");
	merged = list_mounted("merged:base");
	assert_string_equal(merged, expected);
	free(expected);
	free(merged);
	/* And with nothing below, as a plain folder. */
	expected = list_mounted("layer4:layer3:layer2:layer1");
	assert_int_equal(layer_prune(t.scratch.dir, "merged", &err), 0);
	{
		struct buf text = BUF(1 << 20);
		_cleanup_close_ int dir =
			openat(t.scratch.dir, "merged", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		list_into(&text, dir, "");
		alone = buf_take(&text);
	}
	assert_string_equal(alone, expected);
	free(expected);
	free(alone);
	for (unsigned int i = 1; i <= LAYERS; i++) {
		snprintf(name, sizeof(name), "layer%u", i);
		assert_int_equal(layer_remove(t.scratch.dir, name), 0);
	}
	assert_int_equal(layer_remove(t.scratch.dir, "merged"), 0);
	assert_int_equal(layer_remove(t.scratch.dir, "base"), 0);
}

static void test_a_merge_shows_what_overlayfs_shows(void **state)
{
	struct random rng = { 1 };
	pid_t pid;
	int status;

	(void)state;
	add_dir(t.scratch.dir, "shown", 0755);
	add_file(t.outside, "file", "", 0600);
	if (!add_mark(t.outside, "file", "user.a", "b"))
		return;
	pid = fork();
	if (pid == 0) {
		if (!enter_namespaces())
			_exit(77);
		/* By path: what was opened before is of another mount namespace. */
		if (chdir(t.scratch.path) < 0)
			_exit(1);
		for (int i = 0; i < ROUNDS; i++)
			merge_round(&rng);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("no user namespaces here\n");
		return;
	}
	assert_int_equal(status, 0);
}

static void test_newer_directories_keep_what_they_are(void **state)
{
	struct layer_how below = { .is_below = true };
	struct err err = ERR_NONE;
	_cleanup_close_ int copy = -EBADF;

	(void)state;
	add_dir(t.upper, "dir", 0511);
	set_times(t.upper, "dir", 6000);
	copy_how((struct layer_how){ 0 });
	add_dir(t.lower, "dir", 0755);
	add_file(t.lower, "dir/old", "x", 0644);
	assert_int_equal(layer_copy(t.scratch.dir, "lower", t.scratch.dir, "copy", &below, &err),
			 0);
	copy = open_copy();
	assert_string_equal(read_text(copy, "dir/old"), "x");
	assert_int_equal(stat_of(copy, "dir").st_mode, S_IFDIR | 0511);
	assert_int_equal(stat_of(copy, "dir").st_mtim.tv_sec, 6001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_everything_is_kept),
		test(test_hard_links_stay_together),
		test(test_holes_stay_holes),
		test(test_owners_are_shifted),
		test(test_marks_of_an_upper_layer),
		test(test_forged_marks_mean_nothing),
		test(test_prune_takes_marks_out),
		test(test_closed_folders_of_a_user),
		test(test_any_depth),
		test(test_links_are_not_followed),
		test(test_a_full_disk_is_told),
		test(test_progress_is_told),
		test(test_written),
		test(test_a_merge_shows_what_overlayfs_shows),
		test(test_newer_directories_keep_what_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
