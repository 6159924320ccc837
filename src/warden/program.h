/*
 * program.h - where brig's other programs are, and the file that init is executed from
 *
 * A process reaches the file that another one of its own user is executed from through /proc/PID/exe.
 * Landlock keeps it from being written; but where the owner of that file is who the workload is on the
 * host, and nobody mediates changes of mode and times (a container of an ordinary user's, with a brig in
 * his home), the workload could change those of the host's file. There init is executed from a copy in
 * memory, which nothing can change and which is no file of anybody's. Everywhere else all sandboxes
 * share the one file, and its pages.
 */
#ifndef BRIG_WARDEN_PROGRAM_H
#define BRIG_WARDEN_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

/* One of brig's own programs, from beside brig or from where an installation has it. -ENOENT in words. */
[[nodiscard]] int program_find(const char *name, char ret_path[static PATH_MAX], struct err *err);

/*
 * brig-init, from beside brig or from where an installation has it: a descriptor to execute, or -errno.
 * is_owned: the workload may be the owner of the file. *ret_is_file: it is the file itself.
 */
[[nodiscard]] int program_open_init(bool is_owned, bool *ret_is_file, struct err *err);

#endif
