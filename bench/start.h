/*
 * start.h - one start of a case: spawned, waited for, and how long it took
 */
#ifndef BRIG_BENCH_START_H
#define BRIG_BENCH_START_H

#include <sys/types.h>

#include "cases.h"

#define GIVE_UP_AFTER 60 /* seconds; a command that hangs is killed and counted as a failure */

struct manner {
	int home;        /* our own mount namespace, to come back to */
	bool until_gone; /* not to the end of the command, but of all that held its output */
};

double now_ms(void);
void sleep_ms(long ms);

/* Kills what runs when GIVE_UP_AFTER has passed. Once per process. */
void start_prepare(void);

/* Standard streams are /dev/null, but the output is out when that is not negative. */
[[nodiscard]] int start_case(const struct bench_case *item, int out, pid_t *ret_pid);

/* Waits for the end. True for exit status 0. */
bool start_succeeded(pid_t pid);

/* One start and end. A command that cannot be started is a mistake of the bench; one that fails is
 * counted. Changing the mount namespace is not part of the time. */
[[nodiscard]] int start_and_wait(struct bench_case *item, const struct manner *manner,
				 double *ret_ms, struct err *err);

/* Reads one byte, -ETIMEDOUT after ms, or -EPIPE at the end of the pipe. */
[[nodiscard]] int pipe_wait(int fd, int ms);

/* Starts a command and waits until a byte says that it runs (see nothing.c), or until it ends. */
[[nodiscard]] int start_and_see(const struct bench_case *item, pid_t *ret_pid, struct err *err);

#endif
