/* inherited.c - what the caller had open, set or ignored must not reach the workload */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

#define CALLER_DESCRIPTOR 7

ATTACK(inherited_descriptor, HOST_LEAK, "read by a descriptor that the caller left open")
{
	if (raw(SYS_fcntl, CALLER_DESCRIPTOR, F_GETFD) < 0)
		denied(errno);
	leak_fd(CALLER_DESCRIPTOR);
}

ATTACK(inherited_any_descriptor, ESCAPE, "find any descriptor besides 0, 1 and 2")
{
	for (int fd = 3; fd < 1024; fd++)
		if (raw(SYS_fcntl, fd, F_GETFD) >= 0)
			return;
	denied(EBADF);
}

ATTACK(inherited_environment, HOST_LEAK, "find a secret of the caller's in the environment")
{
	for (char **entry = environ; *entry; entry++)
		leak(*entry, strlen(*entry) + 1);
	if (!getenv("API_TOKEN"))
		denied(ENODATA);
}

ATTACK(inherited_preload, ESCAPE, "find LD_PRELOAD or the like in the environment")
{
	static const char *const names[] = { "LD_PRELOAD",    "LD_AUDIT",     "LD_LIBRARY_PATH",
					     "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV",
					     "PERL5OPT",      "RUBYOPT" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			return;
	denied(ENODATA);
}

ATTACK(inherited_mask, PEER_DOS, "find a signal blocked that the caller had blocked")
{
	sigset_t mask;

	need(sigprocmask(SIG_BLOCK, NULL, &mask), "sigprocmask");
	for (int signal = 1; signal < 32; signal++)
		if (sigismember(&mask, signal))
			return;
	denied(ENODATA);
}

ATTACK(inherited_ignored, PEER_DOS, "find a signal ignored that the caller ignored")
{
	for (int signal = 1; signal < 32; signal++) {
		struct sigaction now;

		if (sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
			return;
	}
	denied(ENODATA);
}

ATTACK(inherited_core, HOST_LEAK, "have a core dump written where the kernel is told to")
{
	struct rlimit limit;

	need(getrlimit(RLIMIT_CORE, &limit), "getrlimit");
	if (limit.rlim_max <= 1)
		denied(EPERM);
}
