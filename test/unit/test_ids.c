#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
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
	if (ids_take(ids, &err) < 0)
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
		cmocka_unit_test(a_mapped_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
