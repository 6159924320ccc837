/*
 * seclude.h - the warden shuts itself in before it reads what strangers sent (private to warden/)
 *
 * From the first name or connection on, the warden parses bytes of the sandbox's programs, of name
 * servers and of servers outside. Before that it gives up what it no longer needs:
 *
 *	stage          still needed                                  no longer possible
 *	Landlock       /etc and /proc to read, the state directory,  any other file, and so the user's
 *	               the sandbox's cgroup and folder
 *	capabilities   of root: to signal the sandbox                the rest of root's
 *	filter         what the workload's own filter allows, for    mounts, namespaces, tracing, bpf,
 *	               sockets, files, signals                       modules, and every execve
 *
 * Whoever takes the warden over by its parsers has the sandbox's network and the record, and the
 * rights of an ordinary process of the user without his files.
 *
 * With --diff, --commit and --export the warden goes on to work on the user's folders: then files and
 * capabilities stay as they are, and only the filter is there. The report says which it will be.
 */
#ifndef BRIG_WARDEN_SECLUDE_H
#define BRIG_WARDEN_SECLUDE_H

#include <stdbool.h>

#include "jail/cgroup.h"

struct seclusion {
	const struct cgroup *cgroup;
	int scratch;      /* the sandbox's private folder on the host, or -EBADF */
	bool keeps_files; /* they are needed afterwards */
};

/* All of it, or -errno: then nothing of strangers must be read. What is done already stays done. */
[[nodiscard]] int seclude(const struct seclusion *seclusion);

#endif
