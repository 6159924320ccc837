/*
 * files_lend.c - what the user has no right to do, and root of the sandbox has
 *
 * A call with BY_ROOT is made as the user; refused, it is made again as root, which has no capability either, but
 * owns what belongs to the system. What changes something goes step by step, as a path may lead through folders of
 * both. Its process holds root as its saved uid, and nothing else of it.
 *
 * What is made is to be the user's, and nobody here may give files away. So root makes a folder beside the place,
 * open to all; the user makes the thing in it; root moves it to its name. Users of one sandbox are no wall against
 * each other, so that folder is none of their secrets.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "init/files_internal.h"

#define OPEN_TO_ALL 0777

bool task_has_root(void)
{
	uid_t real, effective, saved;

	return getresuid(&real, &effective, &saved) == 0 && saved == 0 && effective != 0;
}

void task_be(struct task *t, enum identity who)
{
	uid_t uid = who == AS_ROOT ? 0 : getuid();

	if (!t->has_root || geteuid() == uid)
		return;
	/* It was this process's right from the start, so it cannot fail but by an error of ours. */
	if (syscall(SYS_setresuid, -1, uid, -1) < 0)
		_exit(1);
	/* Both are lost with the ids. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
}

int lend(int parent, struct lent *ret_lent)
{
	struct lent l = { .parent = parent };
	int r;

	files_fresh_name(l.name);
	if (mkdirat(parent, l.name, 0700) < 0)
		return -errno;
	l.dir = openat(parent, l.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = l.dir < 0 || fchmod(l.dir, OPEN_TO_ALL) < 0 ? -errno : 0;
	if (r < 0) {
		fd_close(l.dir);
		(void)!unlinkat(parent, l.name, AT_REMOVEDIR);
		return r;
	}
	*ret_lent = l;
	return 0;
}

void lent_done(struct lent *l)
{
	if (l->dir < 0)
		return;
	(void)!unlinkat(l->dir, LENT_NAME, 0);
	(void)!unlinkat(l->dir, LENT_NAME, AT_REMOVEDIR);
	l->dir = fd_close(l->dir);
	(void)!unlinkat(l->parent, l->name, AT_REMOVEDIR);
}

/* Where a directory has another parent then, whoever moves it must be able to write to it: so it is open to all
 * until it is there. */
int lend_directory(struct task *t, const struct place *place, mode_t mode)
{
	struct lent l = LENT_NONE;
	int r;

	task_be(t, AS_ROOT);
	r = lend(place->dir, &l);
	task_be(t, AS_USER);
	if (r < 0)
		return r;
	if (mkdirat(l.dir, LENT_NAME, mode) < 0 || fchmodat(l.dir, LENT_NAME, OPEN_TO_ALL, 0) < 0)
		r = -errno;
	task_be(t, AS_ROOT);
	if (r == 0)
		r = sys_rename_noreplace(l.dir, LENT_NAME, place->dir, place->name);
	lent_done(&l);
	task_be(t, AS_USER);
	return r < 0 ? r : fchmodat(place->dir, place->name, mode, 0) < 0 ? -errno : 0;
}

struct handover {
	const struct place *from, *to;
	bool exclusive;
	enum identity giver, taker;
};

/* By whoever of the two it belongs to. */
static int set_mode(struct task *t, const struct place *place, mode_t mode)
{
	int r = -EPERM;

	for (int i = 0; i < 2 && r < 0; i++) {
		task_be(t, i == 0 ? AS_USER : AS_ROOT);
		r = fchmodat(place->dir, place->name, mode, 0) < 0 ? -errno : 0;
	}
	return r;
}

/* One renames into the lent folder, the other out of it; back where it was if it cannot be. */
static int hand_over(struct task *t, struct lent *l, const struct handover *h)
{
	int r;

	task_be(t, h->giver);
	if (renameat(h->from->dir, h->from->name, l->dir, LENT_NAME) < 0)
		return -errno;
	task_be(t, h->taker);
	if (h->exclusive)
		r = sys_rename_noreplace(l->dir, LENT_NAME, h->to->dir, h->to->name);
	else
		r = renameat(l->dir, LENT_NAME, h->to->dir, h->to->name) < 0 ? -errno : 0;
	task_be(t, h->giver);
	if (r < 0)
		(void)!renameat(l->dir, LENT_NAME, h->from->dir, h->from->name);
	return r;
}

/* A directory is opened for that, as above. */
static int hand_over_opened(struct task *t, struct lent *l, const struct handover *h)
{
	struct stat st;
	int r;

	if (fstatat(h->from->dir, h->from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return hand_over(t, l, h);
	r = set_mode(t, h->from, (st.st_mode & 07777) | OPEN_TO_ALL);
	if (r < 0)
		return r;
	r = hand_over(t, l, h);
	(void)!set_mode(t, r < 0 ? h->from : h->to, st.st_mode & 07777);
	return r;
}

int lend_move(struct task *t, const struct place *from, const struct place *to, bool exclusive)
{
	struct handover h = { .from = from, .to = to, .exclusive = exclusive };
	int r = -EACCES;

	for (int i = 0; i < 2 && (r == -EACCES || r == -EPERM); i++) {
		struct lent l = LENT_NONE;

		h.taker = i == 0 ? AS_ROOT : AS_USER;
		h.giver = i == 0 ? AS_USER : AS_ROOT;
		task_be(t, h.taker);
		r = lend(to->dir, &l);
		r = r < 0 ? r : hand_over_opened(t, &l, &h);
		task_be(t, h.taker);
		lent_done(&l);
	}
	task_be(t, AS_USER);
	return r;
}
