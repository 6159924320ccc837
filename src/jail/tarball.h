/*
 * tarball.h - writes a tar stream that every tar reads
 *
 * POSIX ustar headers; what does not fit into them (names and targets of more than 100 bytes that
 * cannot be split, files of 8 GiB and more, times outside of 1970 to 2242) goes into a pax header
 * before. Names are written as the bytes that they are. All members belong to 0/0, without names: a
 * stream says nothing about the host that wrote it. The descriptor can be a pipe, and stays the
 * caller's.
 *
 *	struct tarball tar = TARBALL(fd);
 *	r = tarball_dir(&tar, "src", 0755, &mtime);
 *	r = tarball_file(&tar, "src/main.c", 0644, &mtime, size, from);
 *	r = tarball_finish(&tar);
 *
 * Paths are taken as they are: the caller has made sure that they begin with no slash and have no
 * ".." in them. When a write has failed, the stream is broken, and every later call fails likewise.
 */
#ifndef BRIG_JAIL_TARBALL_H
#define BRIG_JAIL_TARBALL_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct tarball {
	int fd;
	int failure;      /* the first -errno of a write */
	uint64_t written; /* bytes */
};

#define TARBALL(descriptor) ((struct tarball){ .fd = (descriptor) })

[[nodiscard]] int tarball_dir(struct tarball *tar, const char *path, mode_t mode,
			      const struct timespec *mtime);
[[nodiscard]] int tarball_symlink(struct tarball *tar, const char *path, const char *target,
				  const struct timespec *mtime);

/*
 * The first size bytes of the file from. When it has fewer, the rest of the member is zeros, so
 * that the stream stays whole, and -EIO is returned.
 */
[[nodiscard]] int tarball_file(struct tarball *tar, const char *path, mode_t mode,
			       const struct timespec *mtime, uint64_t size, int from);

/* The two empty blocks behind the last member. */
[[nodiscard]] int tarball_finish(struct tarball *tar);

#endif
