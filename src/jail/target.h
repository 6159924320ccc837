/*
 * target.h - what may be taken from a thread that waits in a seccomp notification
 *
 * The thread, and every other of its process, is hostile, and its number may already belong to
 * somebody else. So everything is copied exactly once and kept in memory or in a descriptor of our
 * own, and the caller asks SECCOMP_IOCTL_NOTIF_ID_VALID after the last of these calls and before it
 * acts on any of it.
 *
 * All of it works without privilege because the keeper is an ancestor of the thread (Yama) and
 * stands in an outer Landlock domain. A thread that runs a program which its user may execute and
 * not read is out of reach, as the kernel makes it undumpable: -EPERM, and its call fails. (To ask
 * for that by prctl() has no effect, says the filter.)
 */
#ifndef BRIG_JAIL_TARGET_H
#define BRIG_JAIL_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/macro.h"

#define TARGET_READ_MAX (64 * KIB)

/* All of len bytes (at most TARGET_READ_MAX), or -EFAULT. */
[[nodiscard]] int target_read(pid_t tid, uint64_t address, void *data, size_t len);

/* Whether its memory, descriptors and directories are closed to us. */
bool target_is_closed(pid_t tid);

/* Writes into it what a call returns by a pointer; only where the thread itself could. */
[[nodiscard]] int target_write(pid_t tid, uint64_t address, const void *data, size_t len);

/* A string with its NUL; -ENAMETOOLONG when it does not end within size, which is at most
 * PATH_MAX. */
[[nodiscard]] int target_string(pid_t tid, uint64_t address, char *text, size_t size);

/* The object behind a descriptor or the working directory (AT_FDCWD), opened O_PATH. */
[[nodiscard]] int target_open(pid_t tid, int fd);

/* Its root directory, opened O_PATH. */
[[nodiscard]] int target_root(pid_t tid);

/* A duplicate of the descriptor itself. -EPERM where pidfd_getfd is forbidden (Docker's profile).
 */
[[nodiscard]] int target_duplicate(pid_t tid, int fd);

/* The process that a thread belongs to. */
[[nodiscard]] int target_process(pid_t tid, pid_t *ret_pid);

[[nodiscard]] int target_parent(pid_t pid, pid_t *ret_parent);

/* Whether the kernel would let it change the mode of a file that this user has: his, or by its rights. */
bool target_may_own(pid_t tid, uid_t owner);

/* Both at once, and soon. */
[[nodiscard]] int target_origin(pid_t tid, pid_t *ret_process, pid_t *ret_parent);

/* A number that is another one after an execve: made of where the kernel put things in its memory,
 * which it chooses anew each time. */
[[nodiscard]] int target_image(pid_t pid, uint64_t *ret_image);

/* The path of its working directory (AT_FDCWD) or of what a descriptor is open on. */
[[nodiscard]] int target_place(pid_t tid, int fd, char *text, size_t size);

/* Whether a signal that it does not block waits for it. */
bool target_has_signal(pid_t tid);

[[nodiscard]] int target_umask(pid_t tid, mode_t *ret_mask);

/* The number of its controlling terminal; -ENXIO when it has none. */
[[nodiscard]] int target_terminal(pid_t tid, dev_t *ret_terminal);

/* 1 when a process or thread descends from ancestor, 0 when not, -ESRCH when there is none. */
/*
 * The same question for a caller whose Landlock domain lets signals reach its descendants and
 * nobody else: one call, whatever the depth of the tree.
 */
[[nodiscard]] int target_is_reachable(pid_t pid);

[[nodiscard]] int target_descends(pid_t pid, pid_t ancestor);

#endif
