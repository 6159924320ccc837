/* procfs.c - other processes, and the kernel, as /proc and /sys show them */
#include "probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *of_victim(const char *name)
{
	return path_of("/proc/%s/%s", scene("victim"), name);
}

ATTACK(victim_environment, HOST_LEAK, "read the environment of a process outside")
{
	leak_file(of_victim("environ"));
}

ATTACK(victim_descriptor, HOST_LEAK, "read by a descriptor of a process outside")
{
	leak_file(of_victim("fd/9"));
}

ATTACK(victim_root, HOST_LEAK, "read a file outside by the root of another process")
{
	leak_file(path_of("/proc/%s/root%s", scene("victim"), outside("secret")));
}

ATTACK(victim_cwd, HOST_LEAK, "read a file outside by the working folder of another process")
{
	leak_file(of_victim("cwd/secret"));
}

ATTACK(victim_memory, HOST_LEAK, "read the memory of a process outside")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, of_victim("mem"), O_RDONLY), EACCES,
				    EPERM);
	char data[64];
	long n = expect_denied(raw(SYS_pread64, fd, data, sizeof(data), scene_number("address")),
			       EACCES, EPERM, EIO);

	leak(data, (size_t)n);
}

ATTACK(victim_memory_write, LATERAL, "write to the memory of a process outside")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, of_victim("mem"), O_RDWR), EACCES,
				    EPERM);

	expect_denied(raw(SYS_pwrite64, fd, "x", 1, scene_number("address")), EACCES, EPERM, EIO);
}

ATTACK(victim_maps, HOST_LEAK, "read the address space of a process outside")
{
	leak_file(of_victim("maps"));
}

ATTACK(victim_pagemap, HOST_LEAK, "read the page table of a process outside")
{
	leak_file(of_victim("pagemap"));
}

ATTACK(victim_auxv, HOST_LEAK, "read the auxiliary vector of a process outside")
{
	leak_file(of_victim("auxv"));
}

ATTACK(victim_thread_memory, HOST_LEAK, "open the memory of a process outside by its thread")
{
	leak_file(path_of("/proc/%s/task/%s/environ", scene("victim"), scene("victim")));
}

ATTACK(victim_program, HOST_LEAK, "read the program of a process outside by /proc/PID/exe")
{
	leak_file(of_victim("exe"));
}

ATTACK(victim_oom_score, PEER_DOS, "make a process outside the first to die when memory is short")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, of_victim("oom_score_adj"), O_WRONLY),
				    EACCES, EPERM, EROFS);

	expect_denied(raw(SYS_write, fd, "1000", 4), EACCES, EPERM);
}

ATTACK(victim_command_line, HOST_LEAK, "read the command line of a process outside")
{
	leak_file(of_victim("cmdline"));
}

ATTACK(keeper_memory, ESCAPE, "open the memory of the parent process for writing")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, path_of("/proc/%d/mem", getppid()), O_RDWR), EACCES,
		      EPERM, EROFS);
}

ATTACK(keeper_descriptors, ESCAPE, "open the descriptors of the parent process")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, path_of("/proc/%d/fd", getppid()),
			  O_RDONLY | O_DIRECTORY),
		      EACCES, EPERM, EROFS);
	expect_denied(raw(SYS_openat, AT_FDCWD, path_of("/proc/%d/fd/0", getppid()), O_RDONLY),
		      EACCES, EPERM, ENOENT);
}

/* Opened only: a byte written there would act on the machine. */
static void open_for_writing(const char *path)
{
	expect_denied(raw(SYS_openat, AT_FDCWD, path, O_WRONLY), EACCES, EPERM, EROFS, ENOENT);
}

ATTACK(sysrq, HOST_DOS, "open /proc/sysrq-trigger for writing")
{
	open_for_writing("/proc/sysrq-trigger");
}

ATTACK(core_pattern, ESCAPE, "open /proc/sys/kernel/core_pattern for writing")
{
	open_for_writing("/proc/sys/kernel/core_pattern");
}

ATTACK(modprobe_path, ESCAPE, "open /proc/sys/kernel/modprobe for writing")
{
	open_for_writing("/proc/sys/kernel/modprobe");
}

ATTACK(binfmt_misc, ESCAPE, "open the registry of program formats for writing")
{
	open_for_writing("/proc/sys/fs/binfmt_misc/register");
}

ATTACK(last_pid, PEER_DOS, "open /proc/sys/kernel/ns_last_pid for writing")
{
	open_for_writing("/proc/sys/kernel/ns_last_pid");
}

ATTACK(hotplug_helper, ESCAPE, "open /sys/kernel/uevent_helper for writing")
{
	open_for_writing("/sys/kernel/uevent_helper");
}

ATTACK(cgroup_move, ESCAPE, "leave the cgroup: open the root's cgroup.procs for writing")
{
	open_for_writing("/sys/fs/cgroup/pids/cgroup.procs");
}

ATTACK(kernel_memory, HOST_LEAK, "read /proc/kcore")
{
	leak_file("/proc/kcore");
}

ATTACK(kernel_log, HOST_LEAK, "open /proc/kmsg")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, "/proc/kmsg", O_RDONLY | O_NONBLOCK), EACCES, EPERM,
		      ENOENT);
}

ATTACK(kernel_symbols, HOST_LEAK, "read addresses from /proc/kallsyms")
{
	char line[17] = { 0 };
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, "/proc/kallsyms", O_RDONLY), EACCES,
				    EPERM, ENOENT);

	need(raw(SYS_read, fd, line, 16), "read");
	if (strtoull(line, NULL, 16) == 0)
		denied(EPERM);
}

ATTACK(kernel_page_counts, HOST_LEAK, "read /proc/kpagecount")
{
	leak_file("/proc/kpagecount");
}

ATTACK(kernel_page_flags, HOST_LEAK, "read /proc/kpageflags")
{
	leak_file("/proc/kpageflags");
}

ATTACK(kernel_page_cgroups, HOST_LEAK, "read /proc/kpagecgroup")
{
	leak_file("/proc/kpagecgroup");
}

ATTACK(kernel_timers, HOST_LEAK, "read /proc/timer_list")
{
	leak_file("/proc/timer_list");
}

ATTACK(kernel_slabs, HOST_LEAK, "read /proc/slabinfo")
{
	leak_file("/proc/slabinfo");
}

ATTACK(kernel_allocations, HOST_LEAK, "read /proc/vmallocinfo")
{
	leak_file("/proc/vmallocinfo");
}

ATTACK(kernel_keys, HOST_LEAK, "read the keys of the user in /proc/keys")
{
	leak_file("/proc/keys");
}

ATTACK(sys_tables, HOST_LEAK, "list /sys/firmware")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, "/sys/firmware", O_RDONLY | O_DIRECTORY), EACCES,
		      EPERM, ENOENT);
}

ATTACK(sys_block, HOST_LEAK, "list /sys/block")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, "/sys/block", O_RDONLY | O_DIRECTORY), EACCES,
		      EPERM, ENOENT);
}
