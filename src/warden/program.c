#include "warden/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int program_find(const char *name, char ret_path[static PATH_MAX], struct err *err)
{
	static const char *const places[] = { "", "../libexec/brig/" };
	char self[PATH_MAX], path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[MAX(len, 0)] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
		int n = snprintf(path, sizeof(path), "%.*s/%s%s", (int)(slash - self), self,
				 places[i], name);

		if (n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0) {
			memcpy(ret_path, path, sizeof(path));
			return 0;
		}
	}
	return err_set(err, -ENOENT,
		       "\"%s\" is not where brig is, nor in ../libexec/brig: install brig again, "
		       "with all its programs",
		       name);
}

static int make_memory(void)
{
	int fd = memfd_create("brig-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	/* Before Linux 6.3 there is no such flag, and nothing that it would say. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("brig-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

static int copy_all(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return -errno;
	while (at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return errno ? -errno : -EIO;
	return fchmod(to, 0555) < 0 || fcntl(to, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

/* By another descriptor: what is open for writing cannot be executed. */
static int open_anew(int fd)
{
	char path[40];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_PATH | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

int program_open_init(bool is_owned, bool *ret_is_file, struct err *err)
{
	_cleanup_close_ int file = -EBADF, memory = -EBADF;
	char path[PATH_MAX];
	struct stat st;
	int r = program_find("brig-init", path, err);

	if (r < 0)
		return r;
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0)
		return err_errno(err, -errno, "\"brig-init\"");
	*ret_is_file = !is_owned || st.st_uid != geteuid();
	if (*ret_is_file)
		return take_fd(&file);
	memory = make_memory();
	if (memory < 0)
		return err_errno(err, memory,
				 "no program can be executed from memory (the sysctl "
				 "vm.memfd_noexec must not be 2)");
	r = copy_all(file, memory);
	r = r < 0 ? r : open_anew(memory);
	return r < 0 ? err_errno(err, r, "cannot copy \"brig-init\"") : r;
}
