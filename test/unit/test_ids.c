#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/ids.h"

static void take(struct ids *ids)
{
	struct err err = ERR_NONE;

	if (!ids_possible()) {
		print_message("needs root whose ids reach far enough\n");
		skip();
	}
	if (ids_take(0, ids, &err) < 0)
		fail_msg("%s", err.text);
}

/* Every range is there once, whole, and far from what people and other programs have. */
static void ranges_do_not_meet(void **state)
{
	struct ids ids[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		take(&ids[i]);
		assert_int_equal(ids[i].first % IDS_COUNT, 0);
		assert_in_range(ids[i].first, 0x70000000, 0x7ffd0000);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(ids[i].first, ids[k].first);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids_done(&ids[i]);
}

/* A range is held by whoever has the descriptor, also when the one who took it is gone. */
static void a_range_is_free_when_its_last_holder_is_gone(void **state)
{
	struct ids ids = IDS_NONE;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int pipes[2], other, status;
	pid_t pid;

	(void)state;
	take(&ids);
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
	}
	lock.l_start = (ids.first - 0x70000000) / IDS_COUNT;
	ids_done(&ids);
	other = open("/run/brig/ids", O_RDWR | O_CLOEXEC);
	assert_true(other >= 0);
	assert_int_equal(fcntl(other, F_OFD_SETLK, &lock), -1);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(fcntl(other, F_OFD_SETLK, &lock), 0);
	close(other);
}

/* --- ranges of slices, with a file of their own: /run of nobody else --- */

#define ONES     20u
#define BLOCK_OF 8u
#define ALL      (BLOCK_OF * 511u)

static struct ids taken(uint64_t owner)
{
	struct ids ids = IDS_NONE;
	struct err err = ERR_NONE;

	if (ids_take(owner, &ids, &err) < 0)
		fail_msg("%s", err.text);
	return ids;
}

static uint32_t block_of(const struct ids *ids)
{
	return (ids->first - 0x70000000) / IDS_COUNT / BLOCK_OF;
}

/* Takes so many and gives them back; which blocks they were of. */
static void note_blocks(uint64_t owner, bool blocks[static 512])
{
	struct ids ids[ONES];

	for (size_t i = 0; i < ONES; i++) {
		ids[i] = taken(owner);
		blocks[block_of(&ids[i])] = true;
	}
	for (size_t i = 0; i < ONES; i++)
		ids_done(&ids[i]);
}

static void check_owners_apart(void)
{
	bool blocks[3][512] = { 0 };
	const uint64_t owners[3] = { 0, ids_owner("/state", "acme"), ids_owner("/state", "beta") };

	assert_true(owners[1] && owners[2] && owners[1] != owners[2]);
	assert_true(owners[1] != ids_owner("/other", "acme"));
	for (int round = 0; round < 10; round++)
		for (size_t i = 0; i < 3; i++)
			note_blocks(owners[i], blocks[i]);
	for (size_t b = 0; b < 512; b++)
		assert_true(blocks[0][b] + blocks[1][b] + blocks[2][b] <= 1);
}

/* When all blocks have an owner: an empty one changes hands, never one that somebody lives in. */
static void check_all_owned(void)
{
	struct ids living = taken(2), other;

	for (uint64_t owner = 3; owner < 1200; owner++) {
		other = taken(owner);
		assert_int_not_equal(block_of(&other), block_of(&living));
		ids_done(&other);
	}
	/* What has no slice needs one, too. */
	other = taken(0);
	assert_int_not_equal(block_of(&other), block_of(&living));
	ids_done(&other);
	ids_done(&living);
}

/* Three take until each is refused; what is lost is less than a block of each. */
static void check_all_in_use(void)
{
	_cleanup_free_ struct ids *ids = calloc(ALL, sizeof(*ids));
	_cleanup_free_ bool *seen = calloc(ALL, sizeof(*seen));
	const uint64_t owners[3] = { 0, ids_owner("/state", "acme"), ids_owner("/state", "beta") };
	struct ids more = IDS_NONE;
	size_t count = 0, refused = 0, last_of_first = 0;

	fd_raise_limit();
	for (size_t i = 0; refused < 3; i++) {
		uint32_t range;
		int r = ids_take(owners[i % 3], &more, NULL);

		refused = r < 0 ? refused + 1 : 0;
		if (r < 0) {
			assert_int_equal(r, -EUSERS);
			continue;
		}
		range = (more.first - 0x70000000) / IDS_COUNT;
		assert_true(range < ALL && !seen[range]);
		seen[range] = true;
		last_of_first = i % 3 == 0 ? count : last_of_first;
		ids[count++] = more;
	}
	assert_in_range(count, ALL - 3 * BLOCK_OF, ALL);
	ids_done(&ids[last_of_first]);
	assert_int_equal(ids_take(owners[1], &more, NULL), -EUSERS);
	more = taken(owners[0]);
	assert_int_equal(more.first, ids[last_of_first].first);
}

static void with_own_run(void (*check)(void))
{
	int status;
	pid_t pid;

	if (!ids_possible()) {
		print_message("needs root whose ids reach far enough\n");
		skip();
	}
	pid = fork();
	if (pid == 0) {
		if (sys_unshare(CLONE_NEWNS) < 0 || sys_mount_private() < 0 ||
		    sys_mount("tmpfs", "/run", 0, "mode=0755") < 0)
			_exit(1);
		check();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void slices_never_have_the_same_ids(void **state)
{
	(void)state;
	with_own_run(check_owners_apart);
}

static void a_block_changes_hands_only_when_it_is_empty(void **state)
{
	(void)state;
	with_own_run(check_all_owned);
}

static void every_range_can_be_used_and_then_no_more(void **state)
{
	struct rlimit limit;

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < ALL + 100)
		skip();
	with_own_run(check_all_in_use);
}

/* What an owner has shows as the user's, and what the user makes is the owner's. */
static void a_mapped_tree(void **state)
{
	char folder[] = "/tmp/brig-test-ids-XXXXXX", path[64];
	_cleanup_close_ int tree = -EBADF, mapping = -EBADF, dir = -EBADF;
	struct ids ids = IDS_NONE;
	struct stat st;

	(void)state;
	take(&ids);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(chown(folder, 4711, 4712), 0);
	assert_int_equal(chown(path, 4711, 4712), 0);
	mapping = ids_mapping(&ids, 4711, 4712, false);
	assert_true(mapping >= 0);
	dir = open(folder, O_PATH | O_CLOEXEC);
	tree = sys_open_tree(dir, "");
	assert_true(tree >= 0);
	if (sys_mount_attributes(tree, MOUNT_ATTR_NOSUID, 0, mapping) == -EINVAL) {
		print_message("the file system of /tmp cannot map ids\n");
	} else {
		assert_int_equal(fstatat(tree, "file", &st, 0), 0);
		assert_int_equal(st.st_uid, ids.first + IDS_USER);
		assert_int_equal(st.st_gid, ids.first + IDS_USER);
		/* Somebody else's are nobody's, and nobody can make them. */
		assert_int_equal(mknodat(tree, "root", S_IFREG | 0600, 0), -1);
		assert_int_equal(errno, EOVERFLOW);
	}
	unlink(path);
	rmdir(folder);
	ids_done(&ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_do_not_meet),
		cmocka_unit_test(a_range_is_free_when_its_last_holder_is_gone),
		cmocka_unit_test(slices_never_have_the_same_ids),
		cmocka_unit_test(a_block_changes_hands_only_when_it_is_empty),
		cmocka_unit_test(every_range_can_be_used_and_then_no_more),
		cmocka_unit_test(a_mapped_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
