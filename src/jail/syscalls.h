/*
 * syscalls.h - what each system call may do: the table that workload filters are made from
 *
 * One row per system call, by number. A row is a verdict: allowed (0), or the errno that the caller
 * gets. A row may name conditions of the filter's spec that open it, or a rule that decides by
 * the arguments. A number without a row gets ENOSYS.
 *
 * A rule is a list of clauses, read from the top: the first whose tests all hold decides, and if
 * none does, the rule's own verdict stands. A clause with a condition that the spec does not meet
 * is not there. A test looks at one half of one argument, because that is what a filter can load:
 * most arguments are ints, of which the kernel drops the high half, so looking there would only
 * let TIOCSTI | 1 << 32 through. Where the kernel takes all 64 bits there is a test for each half.
 *
 * Nothing behind a pointer is ever looked at: a filter cannot, and the caller could change it.
 */
#ifndef BRIG_JAIL_SYSCALLS_H
#define BRIG_JAIL_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "jail/seccomp.h"

/* As a verdict, which is otherwise an errno. */
#define ALLOW   0
#define MEDIATE 255 /* the keeper answers (mediate.h) */
#define TELL    254 /* the keeper records it (record.h), and refuses it as the rest of the rule says */
#define PRETEND 253 /* the caller is told that it succeeded, and nothing happens */

/* What a spec can say, as bits. The extensions come first, with the bits they have in the spec. */
enum condition {
	WITH_DEBUG = 1 << EXT_DEBUG,
	WITH_NESTED = 1 << EXT_NESTED,
	WITH_MEMFD_EXEC = 1 << EXT_MEMFD_EXEC,
	WITH_PRIVATE_IPC = 1 << EXTENSION_COUNT,
	WITH_FREE_AFFINITY = 2 << EXTENSION_COUNT,
	WITH_UNIX = 4 << EXTENSION_COUNT,
	WITH_INET = 8 << EXTENSION_COUNT,
	WITH_METADATA = 16 << EXTENSION_COUNT,
	WITH_MODES = 32 << EXTENSION_COUNT, /* with any mediation at all */
	WITH_NAMES = 64 << EXTENSION_COUNT,
	WITH_TELL = 128 << EXTENSION_COUNT,    /* what tells of an attack is recorded */
	WITH_CHANGES = 256 << EXTENSION_COUNT, /* and what changes or executes files */
	WITH_READS = 512 << EXTENSION_COUNT,   /* and every other open */
	WITH_GATE = 2048 << EXTENSION_COUNT,   /* connections are the gate's to make */
	WITH_PASS = 1024 << EXTENSION_COUNT,   /* an execve with the pass is not recorded */
	WITH_SHARED = 4096 << EXTENSION_COUNT, /* the network is the host's: senders wait */
	WITH_CARRY = 8192 << EXTENSION_COUNT,  /* what changes files may be carried out (carry.h) */
	WITH_CARRY_READS = 16384 << EXTENSION_COUNT, /* and every other open */
};

struct arg_test {
	uint8_t arg;
	bool high;              /* the upper 32 bits of it, not the lower */
	uint8_t count;          /* 0 behind the last test of a clause */
	uint32_t mask;          /* applied to the argument first */
	const uint32_t *values; /* holds if it is one of these */
};

#define CLAUSE_TESTS 3

struct arg_clause {
	uint32_t when;                       /* conditions that must all hold, or 0 for always */
	uint8_t verdict;                     /* ALLOW, MEDIATE, TELL, PRETEND or an errno */
	struct arg_test tests[CLAUSE_TESTS]; /* none: whatever the arguments */
};

enum arg_rule_id {
	RULE_NONE,
	RULE_CLONE,
	RULE_UNSHARE,
	RULE_SOCKET,
	RULE_SOCKETPAIR,
	RULE_SETSOCKOPT,
	RULE_IOCTL,
	RULE_PRCTL,
	RULE_PERSONALITY,
	RULE_SECCOMP,
	RULE_PRLIMIT,
	RULE_MKNOD,
	RULE_MKNODAT,
	RULE_EXECVEAT,
	RULE_FCNTL,
	RULE_OPEN,
	RULE_OPENAT,
	RULE_OPENAT2,
	RULE_CREAT,
	RULE_CHMOD,
	RULE_CHMODAT,
	RULE_METADATA,
	RULE_NAME,
	RULE_REMOVE,
	RULE_EXECVE,
	RULE_CONNECT,
	RULE_SENDTO,
	RULE_SENDMSG,
	RULE_SENDMMSG,
	RULE_SHARED,
	RULE_TELL,
	RULE_LANDLOCK,
	RULE_SCHEDULE,
	RULE_AFFINITY,
	RULE_PRIORITY,
	RULE_IO_PRIORITY,
	RULE_COUNT,
};

struct arg_rule {
	const struct arg_clause *clauses;
	uint8_t count;
	uint8_t verdict; /* when no clause decided */
};

struct syscall_row {
	const char *name; /* NULL for a number that no call has */
	uint8_t verdict;  /* ALLOW or an errno; not looked at when there is a rule */
	uint32_t opens;   /* conditions, each of which allows the call whatever its arguments */
	uint8_t rule;     /* enum arg_rule_id */
};

/* What stands in execve's last argument, which the kernel does not look at: low and high half. */
extern uint32_t exec_pass[2];

extern const struct arg_rule arg_rules[RULE_COUNT];
extern const struct syscall_row syscall_table[];
extern const unsigned int syscall_count; /* the highest number with a row, plus one */

/* What a filter says to a call, of which TELL and MEDIATE are for the keeper to know. */
unsigned int syscall_verdict(unsigned int conditions, uint32_t number, const uint64_t *args);

/* The name of a call of the native ABI, or NULL. */
const char *syscall_name(uint32_t number);

#endif
