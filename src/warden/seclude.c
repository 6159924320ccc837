#include "warden/seclude.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"
#include "jail/landlock.h"
#include "jail/seccomp.h"
#include "trace/home.h"

static int grant_path(const struct landlock *ll, const char *path, enum landlock_grant rights)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	/* What is not there need not be read. */
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return landlock_grant(ll, fd, true, rights);
}

static int give_up_files(const struct seclusion *seclusion)
{
	struct landlock ll = LANDLOCK_NONE;
	char home[PATH_MAX];
	int r = landlock_open(LANDLOCK_FILES, &ll, NULL);

	r = r < 0 ? r : grant_path(&ll, "/etc", LANDLOCK_READ);
	r = r < 0 ? r : grant_path(&ll, "/proc", LANDLOCK_READ);
	if (r == 0 && trace_home_path(home, NULL) == 0)
		r = grant_path(&ll, home, LANDLOCK_WRITE);
	for (int i = 0; i < CGROUP_CONTROL_COUNT && r == 0; i++)
		if (seclusion->cgroup->parent[i] >= 0)
			r = landlock_grant(&ll, seclusion->cgroup->parent[i], true, LANDLOCK_WRITE);
	/* The folder itself stays, empty, if the keeper is lost: nothing else below its parent is
	 * ours. */
	if (r == 0 && seclusion->scratch >= 0)
		r = landlock_grant(&ll, seclusion->scratch, true, LANDLOCK_WRITE);
	r = r < 0 ? r : landlock_enter(&ll);
	landlock_done(&ll);
	return r;
}

/* The keeper of a container that root started has other ids, and may have to be killed. */
static int give_up_capabilities(void)
{
	const uint64_t needed = 1ull << CAP_KILL;
	int r = sys_drop_capabilities(needed);

	/* Who does not have it cannot keep it. */
	return r == -EPERM ? sys_drop_capabilities(0) : r < 0 ? r : sys_raise_capabilities(needed);
}

/* The warden never executes anything, and nothing that takes it over shall. */
static int give_up_exec(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return sys_seccomp_set_filter(0, &program);
}

static int give_up_calls(void)
{
	static struct filter filter;
	int r = filter_build(&(struct filter_spec){ .sockets = SOCKETS_INET }, &filter, NULL);

	r = r < 0 ? r : filter_load(&filter);
	return r < 0 ? r : give_up_exec();
}

#ifdef __SANITIZE_ADDRESS__
/* The search for leaks traces its own process, which is over then. */
static bool is_secluded;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return is_secluded;
}
#endif

int seclude(const struct seclusion *seclusion)
{
	static bool is_done; /* the gate and the published ports ask for it, whichever is first */
	int r = is_done ? 0 : sys_no_new_privs();

	if (is_done || hook_without("seclusion"))
		return r;
#ifdef __SANITIZE_ADDRESS__
	is_secluded = true;
#endif
	if (!seclusion->keeps_files) {
		r = r < 0 ? r : give_up_files(seclusion);
		r = r < 0 ? r : give_up_capabilities();
	}
	r = r < 0 ? r : give_up_calls();
	is_done = r == 0;
	return r;
}
