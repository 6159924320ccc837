/*
 * waiter.h - processes that wait in the kernel so that the keeper does not
 *
 * A mediated call may have to wait: for the other end of a fifo, for room in a socket. The keeper
 * answers everybody and waits for nobody. It starts a process for that one call, which waits, answers
 * and ends; WAITERS_MAX of them at a time.
 */
#ifndef BRIG_JAIL_WAITER_H
#define BRIG_JAIL_WAITER_H

#include <sys/types.h>

#define WAITERS_MAX 32

/*
 * As fork(): 0 in the new process, which dies with the keeper and cannot be looked into; -EAGAIN
 * when too many wait already. It has all descriptors of the keeper, and should close what it does not
 * need (fd_close_others): pipes must not stay open here.
 */
[[nodiscard]] pid_t waiter_fork(void);

#endif
