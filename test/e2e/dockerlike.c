/*
 * dockerlike.c - runs a command as in a default Docker container: without the system calls that its
 * seccomp profile refuses
 *
 *	dockerlike COMMAND [ARGUMENT...]
 *
 * Refused with EPERM: unshare, setns, mount and its family, clone with a new namespace,
 * pidfd_getfd, keyctl and its family, bpf, perf_event_open. clone3 gets ENOSYS, as Docker does for a
 * caller without CAP_SYS_ADMIN, because its flags lie in memory where a filter cannot see them.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field)         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(error)       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define REFUSE(call, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), ANSWER(error)

#define NEW_NAMESPACES                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		LOAD(nr),
		REFUSE(unshare, EPERM),
		REFUSE(setns, EPERM),
		REFUSE(mount, EPERM),
		REFUSE(umount2, EPERM),
		REFUSE(pivot_root, EPERM),
		REFUSE(open_tree, EPERM),
		REFUSE(move_mount, EPERM),
		REFUSE(fsopen, EPERM),
		REFUSE(fsmount, EPERM),
		REFUSE(mount_setattr, EPERM),
		REFUSE(pidfd_getfd, EPERM),
		REFUSE(keyctl, EPERM),
		REFUSE(add_key, EPERM),
		REFUSE(request_key, EPERM),
		REFUSE(bpf, EPERM),
		REFUSE(perf_event_open, EPERM),
		REFUSE(clone3, ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1),
		ANSWER(EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (argc < 2)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		perror("dockerlike");
		return 2;
	}
	execv(argv[1], argv + 1);
	perror(argv[1]);
	return 2;
}
