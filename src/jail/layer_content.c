#include "jail/layer_internal.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/hook.h"

#define STEP (4 * MIB) /* between two words about the progress */

void layer_tell(const struct layer_how *how)
{
	if (how->progress)
		how->progress->tell(how->progress->arg, how->bytes, how->files);
}

static bool is_impossible(int code)
{
	return code == -EXDEV || code == -EOPNOTSUPP || code == -EINVAL || code == -ENOSYS ||
	       code == -ENOTTY || code == -EPERM;
}

/* All of it at once, holes and all, without a byte being moved. */
static int clone_all(int from, int to, struct content_ways *ways)
{
	int r;

	if (ways->no_clone)
		return -EOPNOTSUPP;
	r = ioctl(to, FICLONE, from) < 0 ? -errno : 0;
	ways->no_clone = r < 0 && is_impossible(r);
	return r;
}

static int write_block(int to, const char *data, size_t len, off_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(to, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

/* Some bytes of data from the same place to the same place; how many. */
static ssize_t copy_some(int from, int to, off_t at, size_t len, struct content_ways *ways)
{
	char block[64 * KIB];
	ssize_t n;
	int r = -hook_errno("layer_write");

	if (r < 0)
		return r;
	if (!ways->no_range) {
		off_t in = at, out = at;

		n = copy_file_range(from, &in, to, &out, len, 0);
		if (n > 0)
			return n;
		/* 0 before the end: a kernel that says so where it should refuse. */
		if (n < 0 && !is_impossible(-errno))
			return -errno;
		ways->no_range = true;
	}
	do
		n = pread(from, block, MIN(len, sizeof(block)), at);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	r = write_block(to, block, (size_t)n, at);
	return r < 0 ? r : n;
}

static int copy_data(int from, int to, uint64_t at, uint64_t end, struct content_ways *ways,
		     struct layer_how *how)
{
	while (at < end) {
		ssize_t n = copy_some(from, to, (off_t)at, (size_t)MIN(end - at, STEP), ways);

		if (n < 0)
			return (int)n;
		at += (uint64_t)n;
		how->bytes += (uint64_t)n;
		layer_tell(how);
	}
	return 0;
}

int layer_content(int from, int to, uint64_t size, struct content_ways *ways, struct layer_how *how)
{
	uint64_t at = 0;
	struct stat st;
	int r;

	if (size > 0 && clone_all(from, to, ways) == 0) {
		how->bytes += fstat(to, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
		return 0;
	}
	while (at < size) {
		off_t data = lseek(from, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		at = data < 0 ? at : (uint64_t)data;
		hole = lseek(from, (off_t)at, SEEK_HOLE);
		r = copy_data(from, to, at, MIN(hole < 0 ? size : (uint64_t)hole, size), ways, how);
		if (r < 0)
			return r;
		/* What cannot tell holes was all data. */
		at = hole < 0 ? size : (uint64_t)hole;
	}
	return ftruncate(to, (off_t)size) < 0 ? -errno : 0;
}
