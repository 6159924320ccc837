/*
 * replay - gives every file of the folders named to a fuzz target that it is linked with
 *
 * The corpus of a parser is a unit test this way, with any compiler. A folder that is missing or
 * empty is a failure: a test of nothing proves nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int replay_file(int dirfd, const char *name)
{
	_cleanup_(buf_done) struct buf buf = BUF(16 * MIB);
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	uint8_t *exact;
	int r;

	if (fd < 0)
		return -errno;
	r = fd_read_all(fd, &buf);
	if (r < 0)
		return r;
	/* Without room to spare, so that a sanitizer sees a read one byte too far. */
	exact = malloc(buf.len ? buf.len : 1);
	if (!exact)
		return -ENOMEM;
	memcpy(exact, buf_text(&buf), buf.len);
	LLVMFuzzerTestOneInput(exact, buf.len);
	free(exact);
	return 0;
}

/* How many files there were, or -errno. */
static int replay_folder(const char *path)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;
	int count = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		int r;

		if (entry->d_name[0] == '.')
			continue;
		r = replay_file(dirfd(dir), entry->d_name);
		if (r < 0)
			return r;
		count++;
	}
	return count ? count : -ENOENT;
}

int main(int argc, char **argv)
{
	int failed = argc < 2;

	for (int i = 1; i < argc; i++) {
		int r = replay_folder(argv[i]);

		if (r < 0)
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-r));
		else
			printf("%s: %d files\n", argv[i], r);
		failed |= r < 0;
	}
	return failed;
}
