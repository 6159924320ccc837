/* carry_open.c - opening a file, a directory or a fifo in the target's place */
#include "jail/carry_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"

#define GO_ROUND_AGAIN (-ERESTART) /* a link was followed, or something changed on the way */
#define ROUNDS_MAX     64          /* more than links are followed */
#define NAMELESS_FILE  (O_TMPFILE & ~O_DIRECTORY)

static enum access needed(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_TRUNC | NAMELESS_FILE)) ? ACCESS_WRITE
										      : ACCESS_READ;
}

/* The fourth mode neither reads nor writes, and Landlock has nothing against it. */
static bool is_for_control(int flags)
{
	return (flags & O_ACCMODE) == O_ACCMODE && !(flags & (O_TRUNC | O_CREAT));
}

bool carry_open_concerns(const struct carry *c, int flags)
{
	if ((flags & O_PATH) || is_for_control(flags) ||
	    ((flags & O_CREAT) && (flags & O_DIRECTORY)))
		return false;
	return c->reads || (flags & O_CREAT) || needed(flags) == ACCESS_WRITE;
}

static int make_nameless(const struct name_request *rq, int folder)
{
	long fd = syscall(SYS_openat, folder, ".", rq->flags | O_CLOEXEC, rq->mode);

	return fd < 0 ? -errno : (int)fd;
}

/* What exists, and is pinned. */
static int open_object(const struct carry_request *rq, int object)
{
	const struct carry_place *place;
	int flags = rq->name.flags;
	char path[PATH_MAX];
	struct stat st;

	if (fstat(object, &st) < 0 || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ||
	    S_ISLNK(st.st_mode) || (S_ISDIR(st.st_mode) && (flags & O_CREAT)) ||
	    carry_locate(object, path) < 0)
		return TO_THE_KERNEL;
	place = carry_place_of(rq->carry, path);
	if (!place || place->access < needed(flags) || place->sure >= needed(flags))
		return TO_THE_KERNEL;
	if (flags & NAMELESS_FILE)
		return S_ISDIR(st.st_mode) ? make_nameless(&rq->name, object) : TO_THE_KERNEL;
	return name_reopen(&rq->name, object);
}

static int make_file(const struct carry_request *rq)
{
	const struct walk *walk = &rq->name.new;
	struct spot spot;
	long fd;
	int r;

	if (carry_spot(rq, walk, &spot) < 0)
		return TO_THE_KERNEL;
	r = carry_check_new(rq, walk, &spot, APPEARS_LEAF);
	if (r < 0)
		return r;
	fd = syscall(SYS_openat, walk->dir, walk->path, rq->name.flags | O_EXCL | O_CLOEXEC,
		     rq->name.mode);
	if (fd < 0 && errno == EEXIST && !(rq->name.flags & O_EXCL))
		return GO_ROUND_AGAIN;
	return fd < 0 ? -errno : (int)fd;
}

/* A slash behind the name means the directory that it leads to. */
static int go_into(struct walk *walk)
{
	size_t len = strlen(walk->path);

	if (len + 1 >= sizeof(walk->path))
		return TO_THE_KERNEL;
	memcpy(walk->path + len, ".", 2);
	return GO_ROUND_AGAIN;
}

static int open_last(struct carry_request *rq)
{
	struct walk *walk = &rq->name.new;
	_cleanup_close_ int object = -EBADF;
	int flags = rq->name.flags;
	struct stat st;

	if (strchr(walk->path, '/'))
		return flags & O_CREAT ? TO_THE_KERNEL : go_into(walk);
	object = openat(walk->dir, walk->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (object < 0)
		return errno == ENOENT && (flags & O_CREAT) ? make_file(rq) : TO_THE_KERNEL;
	/* There is an error for this, and the kernel has it. */
	if (fstat(object, &st) < 0 || ((flags & O_CREAT) && (flags & O_EXCL)) ||
	    (S_ISLNK(st.st_mode) && (flags & O_NOFOLLOW)))
		return TO_THE_KERNEL;
	if (S_ISLNK(st.st_mode))
		return walk_follow(walk) < 0 ? TO_THE_KERNEL : GO_ROUND_AGAIN;
	return open_object(rq, object);
}

int carry_open(struct carry_request *rq)
{
	struct walk *walk = &rq->name.new;
	int r = GO_ROUND_AGAIN;

	for (int i = 0; i < ROUNDS_MAX && r == GO_ROUND_AGAIN; i++) {
		if (walk->object < 0 && walk_parent(walk) < 0)
			return TO_THE_KERNEL;
		r = walk->object >= 0 ? open_object(rq, walk->object) : open_last(rq);
	}
	return r == GO_ROUND_AGAIN ? TO_THE_KERNEL : r;
}
