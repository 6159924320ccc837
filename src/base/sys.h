/*
 * sys.h - a thin seam over the system calls that build walls
 *
 * Each returns 0 or a positive value, or -errno, and leaves errno alone; each can be made to fail
 * by a test (hook.h), so that a test can show that every missing feature refuses the start.
 * Constants that Debian 12's kernel headers do not have yet are here too, named as the kernel names
 * them.
 */
#ifndef BRIG_BASE_SYS_H
#define BRIG_BASE_SYS_H

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Landlock, as of ABI 7. The attribute struct is our own so that old headers do not shorten it. */
struct sys_landlock_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;             /* ABI 6 */
};

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
#ifndef LANDLOCK_ACCESS_NET_BIND_TCP
#define LANDLOCK_ACCESS_NET_BIND_TCP    (1ULL << 0)
#define LANDLOCK_ACCESS_NET_CONNECT_TCP (1ULL << 1)
#endif
#ifndef LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define LANDLOCK_SCOPE_SIGNAL               (1ULL << 1)
#endif

int sys_landlock_abi(void); /* 0 when the kernel has none or it is switched off */
int sys_landlock_create_ruleset(const struct sys_landlock_attr *attr, size_t size, uint32_t flags);
int sys_landlock_add_path(int ruleset, uint64_t access, int path_fd);
int sys_landlock_restrict_self(int ruleset, uint32_t flags);

int sys_seccomp_set_filter(unsigned int flags,
			   const struct sock_fprog *prog); /* a listener with NEW_LISTENER */
int sys_no_new_privs(void);

/* With a number in an argument that the kernel does not look at, but a filter can. Returns only to
 * fail. */
int sys_execve(const char *path, char *const *argv, char *const *envp, uint64_t pass);

pid_t sys_fork(void); /* as fork, with -errno; clone3 is what container profiles refuse first */

/*
 * As fork, into new namespaces (CLONE_NEW...), and born in a cgroup of v2 where its directory is
 * given (else -EBADF). The libc does not know of it: the child must not use threads or raise().
 */
pid_t sys_fork_into(uint64_t namespaces, int cgroup);
int sys_pidfd_open(pid_t pid);
int sys_pidfd_send_signal(int pidfd, int signal);
int sys_close_range(unsigned int first, unsigned int last, unsigned int flags);
int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);

/*
 * Mounts. By path, from the working directory, where no name on the way can be somebody else's:
 * this is several times as fast. By descriptor everywhere else: a tree is detached until
 * sys_move_mount() puts it on the directory or file behind a descriptor.
 */
int sys_mount(const char *type, const char *target, unsigned long flags, const char *data);
int sys_bind(const char *source, const char *target); /* with all that is mounted below */
int sys_mount_set(const char *target, bool recursive, uint64_t set, uint64_t clear);
int sys_open_tree(int dirfd, const char *path); /* a copy with all that is mounted below */
int sys_mount_attributes(int tree, uint64_t set, uint64_t clear, int idmap); /* recursive */
int sys_move_mount(int tree, int target);
int sys_mount_private(void); /* no mount spreads to or from where we came from */
int sys_pivot_root(void);    /* the working directory becomes the root, under the old one */
int sys_detach_here(void);   /* what is mounted on the working directory, with all below it */
int sys_mount_id(const char *path, uint64_t *ret_id);
int sys_unshare(int namespaces);

int sys_rename_noreplace(int from_dir, const char *from, int to_dir, const char *to);

/*
 * Drops every capability, and what uid 0 means at execve; uid and gid stay. Those in keep (bit set)
 * can be raised again by this process, and by nothing that it executes.
 */
int sys_drop_capabilities(uint64_t keep);
int sys_raise_capabilities(uint64_t kept);

/*
 * Drops every other, and hands these on to what is executed: it can give them up, and get no more. roots:
 * they are root's, and who becomes another user has them no longer.
 */
int sys_pass_capabilities(uint64_t passed, bool roots);

/*
 * Of those that one has, only these, for what is executed as well. until_exec: besides, to have and not to
 * use, until something is executed.
 */
int sys_limit_capabilities(uint64_t kept, uint64_t until_exec);

/*
 * Of init: the rights that change ids, inside the sandbox's user namespace, and that signal any of them.
 */
#define SYS_INIT_RIGHTS (1ull << CAP_SETUID | 1ull << CAP_SETGID | 1ull << CAP_KILL)

/*
 * Of root, where the system is the sandbox's own: besides, over files of its ids. Without these he could not
 * chown, chmod or remove what another user of his has, nor unpack an archive. None of them reaches
 * beyond the ids of the sandbox, or opens a part of the kernel.
 */
#define SYS_ROOT_RIGHTS \
	(SYS_INIT_RIGHTS | 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER)

/*
 * What init has and that root has not: a right that means nothing in a user namespace. The kernel lets nobody
 * trace a process, or read its memory, that has a capability which he has not.
 */
#define SYS_INIT_MARK (1ull << CAP_BLOCK_SUSPEND)

/* uid and gid of this task alone, no other groups. */
int sys_become(unsigned int id);

/*
 * For files alone, until 0 gives root its own back: with another id the rights of root over files
 * rest as well. -EPERM: it could not be.
 */
int sys_borrow_ids(unsigned int id);

#endif
