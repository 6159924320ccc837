#include "jail/layer_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

/* The right to list and pass, and to add, for the owner; root needs none. */
static bool lacks(mode_t mode, bool writes)
{
	mode_t need = writes ? 0700 : 0500;

	return geteuid() != 0 && (mode & need) != need;
}

static int add_step(struct trail *trail, const struct stat *st, bool is_lent)
{
	if (trail->count >= LAYER_DEPTH_MAX)
		return -ELOOP;
	if (trail->count == trail->room) {
		size_t room = trail->room ? trail->room * 2 : 32;
		struct trail_step *steps = reallocarray(trail->steps, room, sizeof(*steps));

		if (!steps)
			return -ENOMEM;
		trail->steps = steps;
		trail->room = room;
	}
	trail->steps[trail->count++] = (struct trail_step){
		.device = st->st_dev,
		.inode = st->st_ino,
		.mode = st->st_mode & 07777,
		.is_lent = is_lent,
	};
	return 0;
}

static int enter(struct trail *trail, int dir, const char *name, bool writes, struct stat *ret_st)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	bool is_lent;
	int r;

	fd = upper_open(dir, name, OPEN_DIR, &st);
	if (fd < 0)
		return fd;
	is_lent = lacks(st.st_mode, writes);
	if (is_lent && fchmod(fd, (st.st_mode & 07777) | 0700) < 0)
		return -errno;
	r = add_step(trail, &st, is_lent);
	if (r < 0) {
		if (is_lent)
			(void)fchmod(fd, st.st_mode & 07777);
		return r;
	}
	*ret_st = st;
	fd_close(trail->dir);
	trail->dir = take_fd(&fd);
	return 0;
}

int trail_begin(struct trail *trail, int dir, const char *name, bool writes, struct stat *ret_st)
{
	return enter(trail, dir, name, writes, ret_st);
}

int trail_down(struct trail *trail, const char *name, bool writes, struct stat *ret_st)
{
	return enter(trail, trail->dir, name, writes, ret_st);
}

int trail_up(struct trail *trail, int *ret_left)
{
	const struct trail_step *step = &trail->steps[--trail->count], *above = step - 1;
	_cleanup_close_ int left = take_fd(&trail->dir), fd = -EBADF;
	struct stat st;

	if (trail->count > 0) {
		fd = openat(left, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			return -errno;
		if (st.st_dev != above->device || st.st_ino != above->inode)
			return -ESTALE;
	}
	if (ret_left)
		*ret_left = take_fd(&left);
	else if (step->is_lent && fchmod(left, step->mode) < 0)
		return -errno;
	trail->dir = take_fd(&fd);
	return 0;
}

void trail_done(struct trail *trail)
{
	while (trail->dir >= 0 && trail->count > 0 && trail_up(trail, NULL) == 0)
		;
	trail->dir = fd_close(trail->dir);
	free(trail->steps);
	*trail = TRAIL_NONE;
}
