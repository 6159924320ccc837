#include "warden/presence.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* Linux 5.12 */
#endif

#define MOUNTS_MAX   (1 * MIB)
#define MOUNTS_FRESH 1 /* seconds */

/* Where others have to be asked for a name. */
static struct strv foreign;
static time_t read_at;

/* File systems that answer by themselves. */
static bool is_local(const char *type, size_t len)
{
	static const char *const types[] = {
		"ext2",    "ext3",   "ext4",   "xfs",       "btrfs",   "f2fs",     "bcachefs",
		"zfs",     "tmpfs",  "ramfs",  "proc",      "sysfs",   "erofs",    "devtmpfs",
		"overlay", "vfat",   "exfat",  "ntfs3",     "iso9660", "squashfs", "cgroup",
		"cgroup2", "mqueue", "devpts", "securityfs"
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i]) == len && memcmp(types[i], type, len) == 0)
			return true;
	return false;
}

static bool is_octal(const char *p)
{
	return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' &&
	       p[2] <= '7';
}

/* Blanks and backslashes stand there as \040 and the like. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; to++) {
		if (p[0] == '\\' && is_octal(p + 1)) {
			*to = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 4;
		} else {
			*to = *p++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /where options ... - type source options" */
static int add_mount(char *line)
{
	char *place = line, *end;
	const char *type = strstr(line, " - ");

	for (int i = 0; i < 4 && place; i++) {
		place = strchr(place, ' ');
		place += place ? 1 : 0;
	}
	end = place ? strchr(place, ' ') : NULL;
	if (!type || !end)
		return -EINVAL;
	type += strlen(" - ");
	*end = '\0';
	/* Whatever the root is on, nothing goes without it. */
	if (str_equal(place, "/") || is_local(type, strcspn(type, " ")))
		return 0;
	unescape(place);
	return strv_add(&foreign, place);
}

static int read_mounts(void)
{
	_cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	_cleanup_(buf_done) struct buf text = BUF(MOUNTS_MAX);
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	r = r < 0 ? r : buf_add(&text, "", 1);
	strv_done(&foreign);
	foreign = (struct strv){ 0 };
	for (char *line = r < 0 ? NULL : text.data, *next; r == 0 && line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r = add_mount(line);
	}
	return r;
}

/* What cannot be told is foreign. */
static bool is_foreign(const char *path)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (read_at == 0 || now.tv_sec - read_at >= MOUNTS_FRESH) {
		read_at = read_mounts() < 0 ? 0 : now.tv_sec;
		if (read_at == 0)
			return true;
	}
	for (size_t i = 0; i < foreign.count; i++)
		if (path_is_below(path, foreign.items[i]))
			return true;
	return false;
}

static int look(const char *path, uint64_t how)
{
	int fd = sys_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, how);

	fd_close(fd);
	return MIN(fd, 0);
}

bool presence_of(const char *path)
{
	int r = look(path, RESOLVE_CACHED | RESOLVE_NO_MAGICLINKS);

	if (r != -EAGAIN && r != -EINVAL)
		return r == 0;
	if (is_foreign(path))
		return true;
	/* A link on the way may lead anywhere. */
	r = look(path, RESOLVE_NO_SYMLINKS);
	return r == 0 || r == -ELOOP;
}

bool presence_is_plain(const char *path)
{
	return look(path, RESOLVE_CACHED | RESOLVE_NO_SYMLINKS) == 0;
}
