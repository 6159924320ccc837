/*
 * mediate_reply.h - what goes back to a thread that waits in a seccomp notification
 */
#ifndef BRIG_JAIL_MEDIATE_REPLY_H
#define BRIG_JAIL_MEDIATE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the thread still waits, and so its number is still its own. */
bool reply_is_awaited(int listener, uint64_t id);

/* The call returns r, or fails where r is -errno. */
[[nodiscard]] int reply_result(int listener, uint64_t id, int r);

/* The call is let through: only where no pointer was read, or what was read is for the record. */
[[nodiscard]] int reply_continue(int listener, uint64_t id);

/*
 * The call returns a new descriptor of the thread's, for what fd is open on: in one step, so that
 * neither comes without the other (Linux 5.14). It stays ours to close. Fails as the call itself
 * would (-EMFILE), and then nothing was sent.
 */
[[nodiscard]] int reply_descriptor(int listener, uint64_t id, int fd, bool cloexec);

#endif
