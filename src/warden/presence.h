/*
 * presence.h - whether the host has a path that a sandbox asked for (private to warden/)
 *
 * The path is the sandbox's choice, and we look at it with our own rights. A look must not wait, or a
 * dead file server takes the deadlines along; and it must not ask anybody: the name of a path below an
 * automounter (/net/HOST) or a user's own mount goes over the network. So what the kernel has in its
 * cache is taken from there, and beyond it only file systems of this machine are read. Of any other
 * path the answer is yes: a refusal that is told too often is better than one that is lost.
 */
#ifndef BRIG_WARDEN_PRESENCE_H
#define BRIG_WARDEN_PRESENCE_H

#include <stdbool.h>

bool presence_of(const char *path);

/* Whether a path leads to what it names without a symbolic link; false when that takes long to say. */
bool presence_is_plain(const char *path);

#endif
