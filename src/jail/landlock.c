#include "jail/landlock.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/sys.h"

#define READ_FILE_RIGHTS (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE)
#define READ_RIGHTS      (READ_FILE_RIGHTS | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_FILE_RIGHTS \
	(READ_FILE_RIGHTS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
/* Devices are never made: MAKE_CHAR and MAKE_BLOCK are handled and not granted to anyone. */
#define WRITE_RIGHTS                                                       \
	(READ_RIGHTS | WRITE_FILE_RIGHTS | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |    \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |      \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define ALL_RIGHTS (WRITE_RIGHTS | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* The attribute struct grew with the ABI; an older kernel refuses bytes that it does not know. */
static size_t attr_size(int abi)
{
	if (abi >= LANDLOCK_ABI_SIGNALS)
		return sizeof(struct sys_landlock_attr);
	return abi >= LANDLOCK_ABI_TCP ? offsetof(struct sys_landlock_attr, scoped)
				       : offsetof(struct sys_landlock_attr, handled_access_net);
}

/*
 * Every domain denies moving and linking files to another directory unless it says otherwise, also
 * one that handles nothing else of the file system. A domain for signals alone says so for all that
 * is below the root.
 */
static int allow_moves(const struct landlock *ll)
{
	_cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -errno : sys_landlock_add_path(ll->fd, LANDLOCK_ACCESS_FS_REFER, root);
}

int landlock_open(unsigned int parts, struct landlock *ret_ll, struct err *err)
{
	struct sys_landlock_attr attr = { 0 };
	struct landlock ll = { .abi = sys_landlock_abi() };
	int r;

	if (ll.abi < (parts & LANDLOCK_BEHIND_MOUNTS ? LANDLOCK_ABI_MOVES : LANDLOCK_ABI_FILES))
		return err_set(err, -EOPNOTSUPP,
			       "this kernel has %s: boot a kernel from %s on with \"landlock\" in "
			       "the lsm= list",
			       ll.abi ? "an old Landlock" : "no Landlock",
			       parts & LANDLOCK_BEHIND_MOUNTS ? "5.19" : "6.2");
	attr.handled_access_fs = LANDLOCK_ACCESS_FS_REFER;
	if (parts & LANDLOCK_FILES) {
		attr.handled_access_fs = ALL_RIGHTS;
		if (ll.abi < LANDLOCK_ABI_FILES)
			attr.handled_access_fs &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
		if (ll.abi >= LANDLOCK_ABI_IOCTL)
			attr.handled_access_fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	}
	if ((parts & LANDLOCK_TCP) && ll.abi >= LANDLOCK_ABI_TCP)
		attr.handled_access_net =
			LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (parts & LANDLOCK_SIGNALS) {
		if (ll.abi < LANDLOCK_ABI_SIGNALS)
			return err_set(err, -EOPNOTSUPP,
				       "this kernel's Landlock (ABI %d) cannot confine signals: "
				       "use a kernel "
				       "from 6.12 on, or accept it with --weaken signals",
				       ll.abi);
		attr.scoped = LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET;
	}
	ll.handled = attr.handled_access_fs;
	ll.fd = sys_landlock_create_ruleset(&attr, attr_size(ll.abi), 0);
	if (ll.fd < 0)
		return err_errno(err, ll.fd, "landlock_create_ruleset");
	r = parts & LANDLOCK_FILES ? 0 : allow_moves(&ll);
	if (r < 0) {
		landlock_done(&ll);
		return err_errno(err, r, "landlock_add_rule");
	}
	*ret_ll = ll;
	return 0;
}

int landlock_grant(const struct landlock *ll, int path_fd, bool is_directory,
		   enum landlock_grant grant)
{
	static const uint64_t rights[][2] = {
		[LANDLOCK_READ] = { READ_FILE_RIGHTS, READ_RIGHTS },
		[LANDLOCK_WRITE] = { WRITE_FILE_RIGHTS, WRITE_RIGHTS },
		[LANDLOCK_WRITE_DEVICE] = { WRITE_FILE_RIGHTS | LANDLOCK_ACCESS_FS_IOCTL_DEV,
					    WRITE_FILE_RIGHTS | LANDLOCK_ACCESS_FS_IOCTL_DEV },
	};

	return sys_landlock_add_path(ll->fd, rights[grant][is_directory] & ll->handled, path_fd);
}

int landlock_enter(const struct landlock *ll)
{
	return sys_landlock_restrict_self(ll->fd, 0);
}

void landlock_done(struct landlock *ll)
{
	ll->fd = fd_close(ll->fd);
}
