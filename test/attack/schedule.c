/* schedule.c - priorities, CPUs and limits of processes outside */
#include "probe.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define SCHEDULE_WALL EPERM, EACCES, ESRCH
#define CLASS_IDLE    (3 << 13)

ATTACK(victim_priority, PEER_DOS, "lower the priority of a process outside")
{
	expect_denied(raw(SYS_setpriority, PRIO_PROCESS, scene_number("victim"), 19),
		      SCHEDULE_WALL);
}

ATTACK(user_priority, PEER_DOS, "lower the priority of all processes of the user")
{
	expect_denied(raw(SYS_setpriority, PRIO_USER, 0, 15), SCHEDULE_WALL);
}

ATTACK(group_priority, PEER_DOS, "lower the priority of a process group outside")
{
	expect_denied(raw(SYS_setpriority, PRIO_PGRP, scene_number("victim"), 19), SCHEDULE_WALL);
}

ATTACK(victim_scheduler, PEER_DOS, "make a process outside run only when nobody else does")
{
	const struct sched_param param = { 0 };

	expect_denied(raw(SYS_sched_setscheduler, scene_number("victim"), SCHED_IDLE, &param),
		      SCHEDULE_WALL);
}

ATTACK(victim_scheduler_attr, PEER_DOS, "the same by sched_setattr")
{
	/* The first size of struct sched_attr: its header and that of the libc exclude each other.
	 */
	const struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = 48, .policy = SCHED_BATCH };

	expect_denied(raw(SYS_sched_setattr, scene_number("victim"), &attr, 0), SCHEDULE_WALL);
}

ATTACK(victim_affinity, PEER_DOS, "pin a process outside to one CPU")
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	expect_denied(raw(SYS_sched_setaffinity, scene_number("victim"), sizeof(one), &one),
		      SCHEDULE_WALL);
}

ATTACK(victim_io_priority, PEER_DOS, "lower the I/O priority of a process outside")
{
	expect_denied(raw(SYS_ioprio_set, 1, scene_number("victim"), CLASS_IDLE), SCHEDULE_WALL);
}

ATTACK(user_io_priority, PEER_DOS, "lower the I/O priority of all processes of the user")
{
	expect_denied(raw(SYS_ioprio_set, 3, getuid(), CLASS_IDLE), SCHEDULE_WALL);
}

ATTACK(victim_limits, PEER_DOS, "give a process outside no CPU time (prlimit)")
{
	const struct rlimit none = { 0, 0 };

	expect_denied(raw(SYS_prlimit64, scene_number("victim"), RLIMIT_NOFILE, &none, NULL),
		      SCHEDULE_WALL);
}

ATTACK(keeper_limits, ESCAPE, "take the descriptors of the parent away (prlimit)")
{
	const struct rlimit none = { 3, 3 };

	expect_denied(raw(SYS_prlimit64, getppid(), RLIMIT_NOFILE, &none, NULL), SCHEDULE_WALL);
}

ATTACK(own_priority, HOST_DOS, "raise the own priority")
{
	expect_denied(raw(SYS_setpriority, PRIO_PROCESS, 0, -15), SCHEDULE_WALL);
}

ATTACK(own_realtime, HOST_DOS, "run before everybody else (SCHED_FIFO)")
{
	const struct sched_param param = { .sched_priority = 10 };

	expect_denied(raw(SYS_sched_setscheduler, 0, SCHED_FIFO, &param), SCHEDULE_WALL);
}

ATTACK(own_io_realtime, HOST_DOS, "read and write before everybody else")
{
	expect_denied(raw(SYS_ioprio_set, 1, 0, 1 << 13), SCHEDULE_WALL);
}

ATTACK(victim_pages, PEER_DOS, "move the pages of a process outside")
{
	expect_denied(raw(SYS_migrate_pages, scene_number("victim"), 0, NULL, NULL), SCHEDULE_WALL,
		      ENOSYS);
}

ATTACK(victim_advice, PEER_DOS, "push the memory of a process outside to swap (process_madvise)")
{
	const struct {
		void *base;
		size_t len;
	} range = { (void *)(scene_number("address") & ~4095L), 4096 };
	int fd = (int)expect_denied(raw(SYS_pidfd_open, scene_number("victim"), 0), SCHEDULE_WALL);

	expect_denied(raw(SYS_process_madvise, fd, &range, 1, MADV_COLD, 0), SCHEDULE_WALL, ENOSYS);
}
