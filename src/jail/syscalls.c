#include "jail/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "jail/numbers.h"

/* Constants of which one of the libcs, or the headers that go with it, lacks the name. */
enum {
	AT_EMPTY_PATH_FLAG = 0x1000,
	PR_SCHED_CORE_OPTION = 62,
	USERFAULTFD_NEW = 0xaa00, /* the ioctl of /dev/userfaultfd that does what the call does */
	FAT_SET_ATTRIBUTES = 0x40047211,
	LEASE_SET = 1024, /* of fcntl */
	LIFETIME_HINT_SET = 1036,
	DELEGATION_SET = 1040,
	TMPFILE_BIT = 020000000, /* O_TMPFILE without O_DIRECTORY, which alone makes nothing */
	IOPRIO_OF_PROCESS = 1,
	IOPRIO_OF_GROUP = 2,
	IOPRIO_OF_USER = 3,
	NETLINK_ROUTE_PROTOCOL = 0,
	LEVEL_NETLINK = 270,
	OPT_BIND_TO_DEVICE = 25,
	OPT_BIND_TO_INDEX = 62,
	OPT_IP_PACKET_INFO_IF = 50, /* IP_UNICAST_IF; IPV6_PKTINFO has the same number */
	OPT_IPV6_UNICAST_IF = 76,
	OPT_IPV6_2292RTHDR = 5,
	OPT_ATTACH_BPF = 50,
	OPT_ATTACH_REUSEPORT_EBPF = 52,
	OPT_TCP_REPAIR = 19,
	OPT_TCP_ULP = 31,
	OPT_UDP_ENCAP = 100,
	OPT_IP_OPTIONS = 4,
	OPT_IP_IPSEC_POLICY = 16,
	OPT_IP_XFRM_POLICY = 17,
	OPT_IPV6_ADDRFORM = 1,
	OPT_IPV6_2292PKTOPTIONS = 6,
	OPT_IPV6_IPSEC_POLICY = 34,
	OPT_IPV6_XFRM_POLICY = 35,
	OPT_IPV6_HOPOPTS = 54,
	OPT_IPV6_RTHDRDSTOPTS = 55,
	OPT_IPV6_RTHDR = 57,
	OPT_IPV6_DSTOPTS = 59,
	OPT_IP_TABLES_REPLACE = 64, /* IPv6 uses the same two */
	OPT_IP_TABLES_COUNTERS = 65,
	OPT_ARP_TABLES_REPLACE = 96,
	OPT_ARP_TABLES_COUNTERS = 97,
	OPT_EB_TABLES_ENTRIES = 128,
	OPT_EB_TABLES_COUNTERS = 129,
};

#define WORDS(...)                                   \
	.values = (const uint32_t[]){ __VA_ARGS__ }, \
	.count = sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)
#define MASKED(n, bits, ...)                                   \
	{                                                      \
		.arg = (n), .mask = (bits), WORDS(__VA_ARGS__) \
	}
#define ARG(n, ...) MASKED(n, UINT32_MAX, __VA_ARGS__)
#define HIGH_HALF_ZERO(n)                                              \
	{                                                              \
		.arg = (n), .high = true, .mask = UINT32_MAX, WORDS(0) \
	}
#define CLEAR(n, bits) MASKED(n, bits, 0)
#define NO_TEST            \
	{                  \
		.count = 0 \
	}

/* CLONE_NEWTIME is part of the exit signal in clone(), where no valid signal has that bit. */
#define NEW_NAMESPACES                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME)

static const struct arg_clause clone_clauses[] = {
	{ .verdict = ALLOW, .tests = { CLEAR(0, NEW_NAMESPACES) } },
	{ WITH_TELL, TELL, { NO_TEST } },
};

/* By what is known to be harmless: a later kernel may give unshare bits that clone has for other
 * things. The kernel looks at all 64. */
static const struct arg_clause unshare_clauses[] = {
	{ .verdict = ALLOW,
	  .tests = { CLEAR(0, ~(uint32_t)(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
					  CLONE_THREAD | CLONE_SYSVSEM)),
		     HIGH_HALF_ZERO(0) } },
	{ WITH_TELL, TELL, { NO_TEST } },
};

#define SOCKET_FLAGS     (SOCK_NONBLOCK | SOCK_CLOEXEC)
#define SOCKET_TYPE(...) MASKED(1, ~(uint32_t)SOCKET_FLAGS, __VA_ARGS__)

/*
 * A family that is not allowed is one that the kernel does not know, and a protocol likewise
 * (EPROTONOSUPPORT makes a program that prefers MPTCP or SCTP fall back to TCP). Raw sockets fail
 * as they do for everybody who has no CAP_NET_RAW.
 */
static const struct arg_clause socket_clauses[] = {
	{ WITH_UNIX, ALLOW, { ARG(0, AF_UNIX) } },
	{ WITH_INET,
	  ALLOW,
	  { ARG(0, AF_INET, AF_INET6), SOCKET_TYPE(SOCK_STREAM), ARG(2, 0, IPPROTO_TCP) } },
	{ WITH_INET,
	  ALLOW,
	  { ARG(0, AF_INET, AF_INET6), SOCKET_TYPE(SOCK_DGRAM), ARG(2, 0, IPPROTO_UDP) } },
	{ WITH_INET,
	  EPROTONOSUPPORT,
	  { ARG(0, AF_INET, AF_INET6), SOCKET_TYPE(SOCK_STREAM, SOCK_DGRAM) } },
	{ WITH_INET | WITH_TELL, TELL, { ARG(0, AF_INET, AF_INET6) } },
	{ WITH_INET, EPERM, { ARG(0, AF_INET, AF_INET6) } },
	{ WITH_INET,
	  ALLOW,
	  { ARG(0, AF_NETLINK), SOCKET_TYPE(SOCK_RAW, SOCK_DGRAM),
	    ARG(2, NETLINK_ROUTE_PROTOCOL) } },
	{ WITH_INET, EPROTONOSUPPORT, { ARG(0, AF_NETLINK) } },
	/* Whoever only looks which families there are does not mean to send anything. */
	{ WITH_TELL, TELL, { ARG(0, AF_INET, AF_INET6, AF_PACKET) } },
};

/*
 * One end of a datagram pair can still send to, and connect to, any socket that has a path: without
 * socket(AF_UNIX) a pair must be of a kind that stays connected to its twin. SOCK_RAW is another
 * name for a datagram here.
 */
static const struct arg_clause socketpair_clauses[] = {
	{ 0, ALLOW, { ARG(0, AF_UNIX), SOCKET_TYPE(SOCK_STREAM, SOCK_SEQPACKET) } },
	{ WITH_UNIX, ALLOW, { ARG(0, AF_UNIX) } },
	{ 0, EPERM, { ARG(0, AF_UNIX) } },
};

/*
 * Closed: packet filters of the host (they need a capability, but have been the way to root more
 * than once), upper layer protocols and encapsulations, eBPF, and what would send packets along a
 * route, or from a family, other than the one that was judged.
 */
static const struct arg_clause setsockopt_clauses[] = {
	/* On a network that others use too, the keeper and the gate say by which interface. */
	{ WITH_SHARED,
	  EPERM,
	  { ARG(1, SOL_SOCKET), ARG(2, OPT_BIND_TO_DEVICE, OPT_BIND_TO_INDEX) } },
	{ WITH_SHARED, EPERM, { ARG(1, IPPROTO_IP), ARG(2, OPT_IP_PACKET_INFO_IF) } },
	{ WITH_SHARED,
	  EPERM,
	  { ARG(1, IPPROTO_IPV6),
	    ARG(2, OPT_IP_PACKET_INFO_IF, OPT_IPV6_UNICAST_IF, OPT_IPV6_2292RTHDR) } },
	{ 0, EPERM, { ARG(1, SOL_SOCKET), ARG(2, OPT_ATTACH_BPF, OPT_ATTACH_REUSEPORT_EBPF) } },
	{ 0, EPERM, { ARG(1, IPPROTO_TCP), ARG(2, OPT_TCP_ULP, OPT_TCP_REPAIR) } },
	{ 0, EPERM, { ARG(1, IPPROTO_UDP), ARG(2, OPT_UDP_ENCAP) } },
	{ 0,
	  EPERM,
	  { ARG(1, IPPROTO_IP),
	    ARG(2, OPT_IP_OPTIONS, OPT_IP_IPSEC_POLICY, OPT_IP_XFRM_POLICY, OPT_IP_TABLES_REPLACE,
		OPT_IP_TABLES_COUNTERS, OPT_ARP_TABLES_REPLACE, OPT_ARP_TABLES_COUNTERS,
		OPT_EB_TABLES_ENTRIES, OPT_EB_TABLES_COUNTERS) } },
	{ 0,
	  EPERM,
	  { ARG(1, IPPROTO_IPV6),
	    ARG(2, OPT_IPV6_ADDRFORM, OPT_IPV6_2292PKTOPTIONS, OPT_IPV6_IPSEC_POLICY,
		OPT_IPV6_XFRM_POLICY, OPT_IPV6_HOPOPTS, OPT_IPV6_RTHDRDSTOPTS, OPT_IPV6_RTHDR,
		OPT_IPV6_DSTOPTS, OPT_IP_TABLES_REPLACE, OPT_IP_TABLES_COUNTERS) } },
	{ 0,
	  ALLOW,
	  { ARG(1, SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6,
		LEVEL_NETLINK) } },
};

/*
 * Typing into a terminal, taking the console's output, loading a line discipline, locking others
 * out of the terminal (TIOCEXCL stays when the sandbox is gone). TIOCSCTTY stays open: script, tmux
 * and every shell in a pty of their own need it, and to take a terminal from another session needs
 * CAP_SYS_ADMIN. Inode flags and attributes, because a project id moves a file out of its quota.
 * Ioctls of devices are for Landlock and the view of /dev to refuse.
 *
 * Those of file systems are nobody's to refuse, and some change a file or a folder that is only
 * open for reading: a subvolume is made or set read-only (btrfs), a file is sealed for good
 * (fs-verity), an empty folder gets a key (fscrypt). So of the families that file systems use only
 * what asks, or what needs a descriptor for writing, goes through. Deduplication wants no such
 * descriptor from an owner, but changes no byte.
 */
static const struct arg_clause ioctl_clauses[] = {
	{ 0,
	  EPERM,
	  { ARG(1, TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, TIOCEXCL, TIOCVHANGUP,
		(uint32_t)FS_IOC_SETFLAGS, (uint32_t)FS_IOC32_SETFLAGS, (uint32_t)FS_IOC_SETVERSION,
		(uint32_t)FS_IOC32_SETVERSION, (uint32_t)FS_IOC_FSSETXATTR, (uint32_t)FIFREEZE,
		(uint32_t)FITHAW, FAT_SET_ATTRIBUTES, USERFAULTFD_NEW) } },
	{ 0,
	  ALLOW,
	  { ARG(1, (uint32_t)FS_IOC_GETFLAGS, (uint32_t)FS_IOC32_GETFLAGS, (uint32_t)FICLONE,
		(uint32_t)FICLONERANGE, (uint32_t)FIDEDUPERANGE, (uint32_t)FS_IOC_FIEMAP,
		(uint32_t)FS_IOC_FSGETXATTR, (uint32_t)FS_IOC_MEASURE_VERITY) } },
	{ 0, ENOTTY, { MASKED(1, 0xff00, 'f' << 8, 'X' << 8, 0x94 << 8, 0xf5 << 8) } },
};

/*
 * A lease or delegation on a file that can be read makes whoever opens it for writing wait for the
 * best part of a minute, a hint is kept in the inode. Locks are left: flock and fcntl on a file
 * that can be read hold up those who lock the same file, but package managers, git and SQLite need
 * them, also on files that they only read.
 */
static const struct arg_clause fcntl_clauses[] = {
	{ 0, EPERM, { ARG(1, LEASE_SET, LIFETIME_HINT_SET, DELEGATION_SET) } },
};

/* What Landlock does not know, and mounts do. */
static const struct arg_clause metadata_clauses[] = {
	{ WITH_METADATA, MEDIATE, { NO_TEST } },
};

/*
 * A file with the setuid or setgid bit would belong to the caller's own user on the host, and stay.
 * Where mounts hold the rest, only a mode that has one of these bits is the keeper's business.
 */
#define SET_ID_BITS (S_ISUID | S_ISGID)
#define SETS_ID(n)  MASKED(n, SET_ID_BITS, S_ISUID, S_ISGID, SET_ID_BITS)

static const struct arg_clause chmod_clauses[] = {
	{ WITH_METADATA, MEDIATE, { NO_TEST } },
	{ WITH_MODES | WITH_NESTED, EPERM, { SETS_ID(1) } },
	{ WITH_MODES, MEDIATE, { SETS_ID(1) } },
};
static const struct arg_clause chmodat_clauses[] = {
	{ WITH_METADATA, MEDIATE, { NO_TEST } },
	{ WITH_MODES | WITH_NESTED, EPERM, { SETS_ID(2) } },
	{ WITH_MODES, MEDIATE, { SETS_ID(2) } },
};

/*
 * The mode of an open means something only when a file is made. A temporary file has no name, and
 * with O_PATH the kernel forgets O_CREAT. openat2 has its flags in memory, where no filter can
 * look; programs that use it fall back to openat, as on an older kernel. mkdir drops set-id bits by
 * itself.
 */
#define MAKES_NONE(n) CLEAR(n, O_CREAT | TMPFILE_BIT)
#define READS_FILE(n) CLEAR(n, O_DIRECTORY | O_PATH)
/* O_TRUNC empties a file that is opened for reading, too; the fourth mode is for ioctl() alone. */
#define WRITES(n)                                                                       \
	MASKED(n, O_ACCMODE | O_TRUNC, O_WRONLY, O_RDWR, O_ACCMODE, O_TRUNC | O_RDONLY, \
	       O_TRUNC | O_WRONLY, O_TRUNC | O_RDWR, O_TRUNC | O_ACCMODE)
#define ONLY_READS(n) CLEAR(n, O_ACCMODE | O_CREAT | TMPFILE_BIT | O_DIRECTORY | O_PATH)
#define NAMELESS(n)   MASKED(n, O_PATH | TMPFILE_BIT, O_PATH, TMPFILE_BIT, O_PATH | TMPFILE_BIT)

static const struct arg_clause open_clauses[] = {
	{ WITH_READS, MEDIATE, { MAKES_NONE(1), READS_FILE(1) } },
	{ WITH_SHARED, MEDIATE, { ONLY_READS(1) } },
	{ WITH_CHANGES, MEDIATE, { MAKES_NONE(1), READS_FILE(1), WRITES(1) } },
	{ WITH_CARRY_READS, MEDIATE, { MAKES_NONE(1), CLEAR(1, O_PATH) } },
	{ WITH_CARRY, MEDIATE, { MAKES_NONE(1), READS_FILE(1), WRITES(1) } },
	{ WITH_MODES, ALLOW, { MAKES_NONE(1) } },
	{ WITH_MODES, EPERM, { SETS_ID(2) } },
	{ WITH_CHANGES, MEDIATE, { NO_TEST } },
	{ WITH_CARRY, MEDIATE, { NO_TEST } },
	{ WITH_CARRY_READS, MEDIATE, { NO_TEST } },
	{ WITH_NAMES, ALLOW, { NAMELESS(1) } },
	{ WITH_NAMES, MEDIATE, { NO_TEST } },
};
static const struct arg_clause openat_clauses[] = {
	{ WITH_READS, MEDIATE, { MAKES_NONE(2), READS_FILE(2) } },
	{ WITH_SHARED, MEDIATE, { ONLY_READS(2) } },
	{ WITH_CHANGES, MEDIATE, { MAKES_NONE(2), READS_FILE(2), WRITES(2) } },
	{ WITH_CARRY_READS, MEDIATE, { MAKES_NONE(2), CLEAR(2, O_PATH) } },
	{ WITH_CARRY, MEDIATE, { MAKES_NONE(2), READS_FILE(2), WRITES(2) } },
	{ WITH_MODES, ALLOW, { MAKES_NONE(2) } },
	{ WITH_MODES, EPERM, { SETS_ID(3) } },
	{ WITH_CHANGES, MEDIATE, { NO_TEST } },
	{ WITH_CARRY, MEDIATE, { NO_TEST } },
	{ WITH_CARRY_READS, MEDIATE, { NO_TEST } },
	{ WITH_NAMES, ALLOW, { NAMELESS(2) } },
	{ WITH_NAMES, MEDIATE, { NO_TEST } },
};
static const struct arg_clause creat_clauses[] = {
	{ WITH_MODES, EPERM, { SETS_ID(1) } },
	{ WITH_CHANGES, MEDIATE, { NO_TEST } },
	{ WITH_CARRY, MEDIATE, { NO_TEST } },
	{ WITH_NAMES, MEDIATE, { NO_TEST } },
};
static const struct arg_clause openat2_clauses[] = {
	{ WITH_MODES, ENOSYS, { NO_TEST } },
};

/* A name that must not come into existence can be made by any of these (guard.h). Binding a socket
 * makes one too, but nothing that could be read, run or gone into. */
static const struct arg_clause name_clauses[] = {
	{ WITH_NAMES, MEDIATE, { NO_TEST } },
	{ WITH_CHANGES, MEDIATE, { NO_TEST } },
	{ WITH_CARRY, MEDIATE, { NO_TEST } },
};

/* For the record, or where Landlock grants less than the rules do: the walls for files decide. */
static const struct arg_clause remove_clauses[] = {
	{ WITH_CHANGES, MEDIATE, { NO_TEST } },
	{ WITH_CARRY, MEDIATE, { NO_TEST } },
};

/*
 * The first process executes the command while nobody is there to answer: the keeper waits for it.
 * That one execve is known by a number that nobody can guess.
 */
uint32_t exec_pass[2];

static const struct arg_clause execve_clauses[] = {
	{ WITH_PASS,
	  ALLOW,
	  { { .arg = 5, .mask = UINT32_MAX, .values = &exec_pass[0], .count = 1 },
	    { .arg = 5, .high = true, .mask = UINT32_MAX, .values = &exec_pass[1], .count = 1 } } },
	{ WITH_CHANGES, MEDIATE, { NO_TEST } },
};
static const struct arg_clause connect_clauses[] = {
	{ WITH_GATE, MEDIATE, { NO_TEST } },
	{ WITH_TELL, MEDIATE, { NO_TEST } },
};

/*
 * Landlock knows TCP alone, and a datagram socket cannot be tamed by binding it: a control message
 * takes its packet past the interface that it is bound to. So on the host's own network the keeper
 * carries out whatever might have an address with it. A descriptor that is a harmless pair in one
 * moment can be another the next, so which socket it is never decides here. A connection that
 * begins with its first bytes is one more way to connect: programs fall back.
 */
#define FAST_OPEN(n) MASKED(n, MSG_FASTOPEN, MSG_FASTOPEN)

static const struct arg_clause sendto_clauses[] = {
	{ WITH_SHARED, EOPNOTSUPP, { FAST_OPEN(3) } },
	{ WITH_SHARED, ALLOW, { ARG(4, 0), HIGH_HALF_ZERO(4) } },
	{ WITH_SHARED, MEDIATE, { NO_TEST } },
};
static const struct arg_clause sendmsg_clauses[] = {
	{ WITH_SHARED, EOPNOTSUPP, { FAST_OPEN(2) } },
	{ WITH_SHARED, MEDIATE, { NO_TEST } },
};
static const struct arg_clause sendmmsg_clauses[] = {
	{ WITH_SHARED, EOPNOTSUPP, { FAST_OPEN(3) } },
	{ WITH_SHARED, MEDIATE, { NO_TEST } },
};
static const struct arg_clause shared_clauses[] = {
	{ WITH_SHARED, MEDIATE, { NO_TEST } },
};

/* Nobody calls these by mistake. */
static const struct arg_clause tell_clauses[] = {
	{ WITH_TELL, TELL, { NO_TEST } },
};

/* The keeper would make names, or open files, for a program that had put them out of its own reach: better no such
 * wall, as on a host where it is switched off, than one with a hole. */
static const struct arg_clause landlock_clauses[] = {
	{ WITH_NAMES, EOPNOTSUPP, { NO_TEST } },
	{ WITH_CARRY, EOPNOTSUPP, { NO_TEST } },
	{ WITH_CARRY_READS, EOPNOTSUPP, { NO_TEST } },
};

/*
 * Scheduling of a process needs no more than the same user id, and neither Landlock nor anything
 * else stands between. 0 is the caller itself; of another number the keeper says whether it is one
 * of the sandbox's. Groups and users are never only the sandbox's.
 */
static const struct arg_clause schedule_clauses[] = {
	{ WITH_METADATA, ALLOW, { ARG(0, 0) } },
	{ WITH_METADATA, MEDIATE, { NO_TEST } },
};
static const struct arg_clause affinity_clauses[] = {
	{ WITH_FREE_AFFINITY | WITH_METADATA, ALLOW, { ARG(0, 0) } },
	{ WITH_FREE_AFFINITY | WITH_METADATA, MEDIATE, { NO_TEST } },
	{ WITH_FREE_AFFINITY, ALLOW, { NO_TEST } },
};
static const struct arg_clause priority_clauses[] = {
	{ WITH_METADATA, ALLOW, { ARG(0, PRIO_PROCESS), ARG(1, 0) } },
	{ WITH_METADATA, MEDIATE, { ARG(0, PRIO_PROCESS) } },
	{ WITH_METADATA, EPERM, { ARG(0, PRIO_PGRP, PRIO_USER) } },
};
static const struct arg_clause io_priority_clauses[] = {
	{ WITH_METADATA, ALLOW, { ARG(0, IOPRIO_OF_PROCESS), ARG(1, 0) } },
	{ WITH_METADATA, MEDIATE, { ARG(0, IOPRIO_OF_PROCESS) } },
	{ WITH_METADATA, EPERM, { ARG(0, IOPRIO_OF_GROUP, IOPRIO_OF_USER) } },
};

/*
 * PR_SET_MM can make a process look like another program; core scheduling cookies are how an
 * operator keeps tenants off each other's hyperthreads. What the others change is the caller's.
 *
 * A program that is not dumpable closes its memory to the keeper too, and none of its calls could
 * be answered. Those that ask for it (agents with keys) want to be safe from their neighbours, and
 * give up when they are refused; inside a sandbox all neighbours are one.
 */
static const struct arg_clause prctl_clauses[] = {
	{ 0, EPERM, { ARG(0, PR_SET_MM, PR_SCHED_CORE_OPTION) } },
	{ WITH_MODES, PRETEND, { ARG(0, PR_SET_DUMPABLE), ARG(1, 0), HIGH_HALF_ZERO(1) } },
};

/* Plain, 32-bit execution domain, either with an old version number, and the question. */
static const struct arg_clause personality_clauses[] = {
	{ 0,
	  ALLOW,
	  { ARG(0, PER_LINUX, PER_LINUX32, UNAME26, UNAME26 | PER_LINUX32, UINT32_MAX) } },
};

/* A narrower filter is welcome. A listener would answer for calls in place of the one outside; the
 * kernel itself says EBUSY where the sandbox is mediated. So a sandbox inside the sandbox has
 * namespaces and mounts, but no mediation of its own. */
static const struct arg_clause seccomp_clauses[] = {
	{ WITH_NESTED, ALLOW, { NO_TEST } },
	{ 0, ALLOW, { CLEAR(1, SECCOMP_FILTER_FLAG_NEW_LISTENER) } },
};

/* A limit of 0 s of CPU kills, and the kernel asks only for the same user id, so no limit of
 * another process may be set: neither Landlock nor anything else stands between. Reading is open.
 */
static const struct arg_clause prlimit_clauses[] = {
	{ 0, ALLOW, { ARG(0, 0) } },
	{ 0, ALLOW, { ARG(2, 0), HIGH_HALF_ZERO(2) } },
};

/* The mode is 16 bits wide. No type means a regular file. */
#define NODE_TYPE(n) MASKED(n, S_IFMT, 0, S_IFREG, S_IFIFO, S_IFSOCK)

static const struct arg_clause mknod_clauses[] = {
	{ WITH_MODES, EPERM, { SETS_ID(1) } },
	{ WITH_NAMES, MEDIATE, { NODE_TYPE(1) } },
	{ WITH_CHANGES, MEDIATE, { NODE_TYPE(1) } },
	{ WITH_CARRY, MEDIATE, { NODE_TYPE(1) } },
	{ 0, ALLOW, { NODE_TYPE(1) } },
};
static const struct arg_clause mknodat_clauses[] = {
	{ WITH_MODES, EPERM, { SETS_ID(2) } },
	{ WITH_NAMES, MEDIATE, { NODE_TYPE(2) } },
	{ WITH_CHANGES, MEDIATE, { NODE_TYPE(2) } },
	{ WITH_CARRY, MEDIATE, { NODE_TYPE(2) } },
	{ 0, ALLOW, { NODE_TYPE(2) } },
};

static const struct arg_clause execveat_clauses[] = {
	{ WITH_CHANGES | WITH_MEMFD_EXEC, MEDIATE, { NO_TEST } },
	{ WITH_MEMFD_EXEC, ALLOW, { NO_TEST } },
	{ WITH_CHANGES, MEDIATE, { CLEAR(4, AT_EMPTY_PATH_FLAG) } },
	{ 0, ALLOW, { CLEAR(4, AT_EMPTY_PATH_FLAG) } },
};

#define RULE(list, otherwise)                     \
	{                                         \
		list, ARRAY_SIZE(list), otherwise \
	}

const struct arg_rule arg_rules[RULE_COUNT] = {
	[RULE_CLONE] = RULE(clone_clauses, EPERM),
	[RULE_UNSHARE] = RULE(unshare_clauses, EPERM),
	[RULE_SOCKET] = RULE(socket_clauses, EAFNOSUPPORT),
	[RULE_SOCKETPAIR] = RULE(socketpair_clauses, EAFNOSUPPORT),
	[RULE_SETSOCKOPT] = RULE(setsockopt_clauses, ENOPROTOOPT),
	[RULE_IOCTL] = RULE(ioctl_clauses, ALLOW),
	[RULE_PRCTL] = RULE(prctl_clauses, ALLOW),
	[RULE_PERSONALITY] = RULE(personality_clauses, EPERM),
	[RULE_SECCOMP] = RULE(seccomp_clauses, EPERM),
	[RULE_PRLIMIT] = RULE(prlimit_clauses, EPERM),
	[RULE_MKNOD] = RULE(mknod_clauses, EPERM),
	[RULE_MKNODAT] = RULE(mknodat_clauses, EPERM),
	[RULE_EXECVEAT] = RULE(execveat_clauses, EPERM),
	[RULE_FCNTL] = RULE(fcntl_clauses, ALLOW),
	[RULE_OPEN] = RULE(open_clauses, ALLOW),
	[RULE_OPENAT] = RULE(openat_clauses, ALLOW),
	[RULE_OPENAT2] = RULE(openat2_clauses, ALLOW),
	[RULE_CREAT] = RULE(creat_clauses, ALLOW),
	[RULE_CHMOD] = RULE(chmod_clauses, ALLOW),
	[RULE_CHMODAT] = RULE(chmodat_clauses, ALLOW),
	[RULE_METADATA] = RULE(metadata_clauses, ALLOW),
	[RULE_NAME] = RULE(name_clauses, ALLOW),
	[RULE_REMOVE] = RULE(remove_clauses, ALLOW),
	[RULE_EXECVE] = RULE(execve_clauses, ALLOW),
	[RULE_CONNECT] = RULE(connect_clauses, ALLOW),
	[RULE_SENDTO] = RULE(sendto_clauses, ALLOW),
	[RULE_SENDMSG] = RULE(sendmsg_clauses, ALLOW),
	[RULE_SENDMMSG] = RULE(sendmmsg_clauses, ALLOW),
	[RULE_SHARED] = RULE(shared_clauses, ALLOW),
	[RULE_TELL] = RULE(tell_clauses, EPERM),
	[RULE_LANDLOCK] = RULE(landlock_clauses, ALLOW),
	[RULE_SCHEDULE] = RULE(schedule_clauses, ALLOW),
	[RULE_AFFINITY] = RULE(affinity_clauses, EPERM),
	[RULE_PRIORITY] = RULE(priority_clauses, ALLOW),
	[RULE_IO_PRIORITY] = RULE(io_priority_clauses, ALLOW),
};

#define OPEN(call)                            [__NR_##call] = { #call, ALLOW, 0, RULE_NONE }
#define SHUT(call)                            [__NR_##call] = { #call, EPERM, 0, RULE_NONE }
#define ABSENT(call)                          [__NR_##call] = { #call, ENOSYS, 0, RULE_NONE }
#define SHUT_UNLESS(condition, call)          [__NR_##call] = { #call, EPERM, condition, RULE_NONE }
#define BY_RULE(rule, call)                   [__NR_##call] = { #call, EPERM, 0, rule }
#define MEDIATED(call)                        [__NR_##call] = { #call, EPERM, 0, RULE_METADATA }
#define MAKES_NAME(call)                      [__NR_##call] = { #call, EPERM, 0, RULE_NAME }
#define REMOVES(call)                         [__NR_##call] = { #call, EPERM, 0, RULE_REMOVE }
#define TOLD(call)                            [__NR_##call] = { #call, EPERM, 0, RULE_TELL }
#define TOLD_UNLESS(condition, call)          [__NR_##call] = { #call, EPERM, condition, RULE_TELL }
#define BY_RULE_UNLESS(condition, rule, call) [__NR_##call] = { #call, EPERM, condition, rule }

/* A number that stands here twice is a warning of the compiler, which is an error. */
/* clang-format off */
const struct syscall_row syscall_table[] = {
	/* Descriptors and their bytes. What a descriptor may do was decided when it was opened. */
	OPEN(read), OPEN(write), OPEN(close), OPEN(close_range), OPEN(lseek), OPEN(fstat),
	OPEN(pread64), OPEN(pwrite64), OPEN(readv), OPEN(writev), OPEN(preadv), OPEN(pwritev),
	OPEN(preadv2), OPEN(pwritev2), OPEN(dup), OPEN(dup3), OPEN(flock),
	OPEN(fsync), OPEN(fdatasync), OPEN(sync), OPEN(syncfs), OPEN(sync_file_range),
	REMOVES(truncate), OPEN(ftruncate), OPEN(fallocate), OPEN(fadvise64), OPEN(readahead),
	OPEN(cachestat), OPEN(copy_file_range), OPEN(sendfile), OPEN(splice), OPEN(tee),
	OPEN(vmsplice), OPEN(pipe2), OPEN(memfd_create), OPEN(getdents64),
	BY_RULE(RULE_IOCTL, ioctl), BY_RULE(RULE_FCNTL, fcntl),

	/* Paths: Landlock and the mounts decide. */
	OPEN(getcwd), OPEN(chdir), OPEN(fchdir), REMOVES(unlinkat), OPEN(readlinkat), OPEN(faccessat), OPEN(faccessat2), OPEN(newfstatat), OPEN(statx),
	OPEN(statfs), OPEN(fstatfs), OPEN(umask), OPEN(file_getattr),
	OPEN(getxattr), OPEN(lgetxattr), OPEN(fgetxattr), OPEN(getxattrat),
	OPEN(listxattr), OPEN(llistxattr), OPEN(flistxattr), OPEN(listxattrat),
	OPEN(inotify_init1), OPEN(inotify_rm_watch),
	BY_RULE(RULE_OPENAT, openat), BY_RULE(RULE_OPENAT2, openat2),

	/* What makes a name: where there are guarded ones, the sandbox's keeper decides. */
	MAKES_NAME(mkdirat), MAKES_NAME(renameat), MAKES_NAME(renameat2), MAKES_NAME(linkat),
	MAKES_NAME(symlinkat), BY_RULE(RULE_MKNODAT, mknodat),

	/* Landlock does not know these: without mounts of its own, the sandbox's keeper decides. */
	BY_RULE(RULE_CHMOD, fchmod), BY_RULE(RULE_CHMODAT, fchmodat),
	BY_RULE(RULE_CHMODAT, fchmodat2), MEDIATED(fchown), MEDIATED(fchownat),
	MEDIATED(utimensat), MEDIATED(setxattr), MEDIATED(lsetxattr), MEDIATED(fsetxattr),
	MEDIATED(setxattrat), MEDIATED(removexattr), MEDIATED(lremovexattr),
	MEDIATED(fremovexattr), MEDIATED(removexattrat), MEDIATED(inotify_add_watch),

	/* The twin of FS_IOC_FSSETXATTR; a handle reaches files past every directory check; fanotify
	 * sees, and can hold up, what others open. */
	SHUT(file_setattr), SHUT(name_to_handle_at), TOLD(open_by_handle_at),
	TOLD(fanotify_init), SHUT(fanotify_mark),

	/* Waiting for things, and asynchronous reads and writes on descriptors. */
	OPEN(pselect6), OPEN(ppoll), OPEN(epoll_create1), OPEN(epoll_ctl), OPEN(epoll_pwait),
	OPEN(epoll_pwait2), OPEN(eventfd2), OPEN(signalfd4), OPEN(timerfd_create),
	OPEN(timerfd_settime), OPEN(timerfd_gettime), OPEN(io_setup), OPEN(io_destroy),
	OPEN(io_getevents), OPEN(io_submit), OPEN(io_cancel), OPEN(io_pgetevents),

	/* The operations of a ring do not pass the filter. Programs have a fallback. */
	ABSENT(io_uring_setup), ABSENT(io_uring_enter), ABSENT(io_uring_register),

	/* Memory of the caller. */
	OPEN(mmap), OPEN(mprotect), OPEN(munmap), OPEN(brk), OPEN(mremap), OPEN(msync),
	OPEN(mincore), OPEN(madvise), OPEN(mlock), OPEN(mlock2), OPEN(munlock), OPEN(mlockall),
	OPEN(munlockall), OPEN(remap_file_pages), OPEN(pkey_mprotect), OPEN(pkey_alloc),
	OPEN(pkey_free), OPEN(mseal), OPEN(map_shadow_stack), OPEN(membarrier),

	/* Memory of others and faults answered in user space, the favourite of those who need to win
	 * a race in the kernel. */
	TOLD(userfaultfd), SHUT(process_madvise), SHUT(move_pages), SHUT(migrate_pages),
	SHUT(process_mrelease),

	/* Placement of memory is the operator's. libnuma takes ENOSYS for "no NUMA here". */
	ABSENT(mbind), ABSENT(get_mempolicy), ABSENT(set_mempolicy), ABSENT(set_mempolicy_home_node),

	/* A host with secret memory in use cannot hibernate. */
	ABSENT(memfd_secret),

	/* Processes and threads. clone3 has its flags in memory, where no filter can look, and every
	 * libc falls back to clone. */
	BY_RULE_UNLESS(WITH_NESTED, RULE_CLONE, clone), ABSENT(clone3),
	BY_RULE(RULE_EXECVEAT, execveat),
	BY_RULE(RULE_EXECVE, execve), OPEN(exit), OPEN(exit_group), OPEN(wait4), OPEN(waitid), OPEN(getpid),
	OPEN(gettid), OPEN(getppid), OPEN(setpgid), OPEN(getpgid), OPEN(getsid), OPEN(setsid),
	OPEN(set_tid_address), OPEN(set_robust_list), OPEN(get_robust_list), OPEN(rseq),
	OPEN(restart_syscall), OPEN(futex), OPEN(futex_waitv), OPEN(futex_wake), OPEN(futex_wait),
	OPEN(futex_requeue), OPEN(pidfd_open),
	BY_RULE(RULE_PRCTL, prctl), BY_RULE(RULE_PERSONALITY, personality),

	/* Signals: Landlock keeps them inside, or the pid namespace does. */
	OPEN(kill), OPEN(tkill), OPEN(tgkill), OPEN(pidfd_send_signal), OPEN(rt_sigaction),
	OPEN(rt_sigprocmask), OPEN(rt_sigreturn), OPEN(rt_sigpending), OPEN(rt_sigtimedwait),
	OPEN(rt_sigqueueinfo), OPEN(rt_tgsigqueueinfo), OPEN(rt_sigsuspend), OPEN(sigaltstack),

	/* Limits and scheduling: the kernel bounds what is asked by the hard limits. */
	OPEN(getrlimit), OPEN(setrlimit), OPEN(getrusage), OPEN(times), OPEN(getpriority),
	OPEN(ioprio_get), OPEN(getcpu), OPEN(sched_yield), OPEN(sched_getparam),
	OPEN(sched_getscheduler), OPEN(sched_getattr), OPEN(sched_get_priority_max),
	OPEN(sched_get_priority_min), OPEN(sched_rr_get_interval), OPEN(sched_getaffinity),
	BY_RULE(RULE_PRIORITY, setpriority), BY_RULE(RULE_IO_PRIORITY, ioprio_set),
	BY_RULE(RULE_SCHEDULE, sched_setparam), BY_RULE(RULE_SCHEDULE, sched_setscheduler),
	BY_RULE(RULE_SCHEDULE, sched_setattr), BY_RULE(RULE_AFFINITY, sched_setaffinity),
	BY_RULE(RULE_PRLIMIT, prlimit64),

	/* Clocks and timers; nobody sets the time. Whether adjtimex only asks stands in memory. */
	OPEN(nanosleep), OPEN(clock_nanosleep), OPEN(clock_gettime), OPEN(clock_getres),
	OPEN(gettimeofday), OPEN(getitimer), OPEN(setitimer), OPEN(timer_create),
	OPEN(timer_settime), OPEN(timer_gettime), OPEN(timer_getoverrun), OPEN(timer_delete),
	TOLD(clock_settime), TOLD(settimeofday), SHUT(adjtimex), TOLD(clock_adjtime),

	/* Ids and capabilities: there are none to gain, and no_new_privs keeps it so. */
	OPEN(getuid), OPEN(geteuid), OPEN(getgid), OPEN(getegid), OPEN(getresuid), OPEN(getresgid),
	OPEN(getgroups), OPEN(setuid), OPEN(setgid), OPEN(setreuid), OPEN(setregid),
	OPEN(setresuid), OPEN(setresgid), OPEN(setfsuid), OPEN(setfsgid), OPEN(setgroups),
	OPEN(capget), OPEN(capset),

	/* Walls that a program puts around itself. */
	BY_RULE(RULE_LANDLOCK, landlock_create_ruleset), BY_RULE(RULE_LANDLOCK, landlock_add_rule),
	BY_RULE(RULE_LANDLOCK, landlock_restrict_self), BY_RULE(RULE_SECCOMP, seccomp),
	OPEN(lsm_get_self_attr), OPEN(lsm_list_modules), SHUT(lsm_set_self_attr),

	/* The machine, to look at. */
	OPEN(uname), OPEN(sysinfo), OPEN(getrandom),

	/* Sockets: what a socket may reach is decided where it is made and by the gate. */
	BY_RULE(RULE_SOCKET, socket), BY_RULE(RULE_SOCKETPAIR, socketpair),
	BY_RULE(RULE_SETSOCKOPT, setsockopt), OPEN(getsockopt), BY_RULE(RULE_CONNECT, connect), BY_RULE(RULE_SHARED, bind),
	BY_RULE(RULE_SHARED, listen), OPEN(accept), OPEN(accept4), OPEN(getsockname), OPEN(getpeername),
	BY_RULE(RULE_SENDTO, sendto), OPEN(recvfrom), BY_RULE(RULE_SENDMSG, sendmsg), OPEN(recvmsg),
	BY_RULE(RULE_SENDMMSG, sendmmsg), OPEN(recvmmsg), OPEN(shutdown),

	/* Objects with a number instead of a path: without an IPC namespace they are the host's. */
	SHUT_UNLESS(WITH_PRIVATE_IPC, shmget), SHUT_UNLESS(WITH_PRIVATE_IPC, shmat),
	SHUT_UNLESS(WITH_PRIVATE_IPC, shmctl), SHUT_UNLESS(WITH_PRIVATE_IPC, shmdt),
	SHUT_UNLESS(WITH_PRIVATE_IPC, semget), SHUT_UNLESS(WITH_PRIVATE_IPC, semop),
	SHUT_UNLESS(WITH_PRIVATE_IPC, semtimedop), SHUT_UNLESS(WITH_PRIVATE_IPC, semctl),
	SHUT_UNLESS(WITH_PRIVATE_IPC, msgget), SHUT_UNLESS(WITH_PRIVATE_IPC, msgsnd),
	SHUT_UNLESS(WITH_PRIVATE_IPC, msgrcv), SHUT_UNLESS(WITH_PRIVATE_IPC, msgctl),
	SHUT_UNLESS(WITH_PRIVATE_IPC, mq_open), SHUT_UNLESS(WITH_PRIVATE_IPC, mq_unlink),
	SHUT_UNLESS(WITH_PRIVATE_IPC, mq_timedsend), SHUT_UNLESS(WITH_PRIVATE_IPC, mq_timedreceive),
	SHUT_UNLESS(WITH_PRIVATE_IPC, mq_notify), SHUT_UNLESS(WITH_PRIVATE_IPC, mq_getsetattr),

	/* Looking into and steering other processes. */
	TOLD_UNLESS(WITH_DEBUG, ptrace), SHUT_UNLESS(WITH_DEBUG, kcmp),
	/* A keeper inside needs these for what it records and carries out. */
	TOLD_UNLESS(WITH_DEBUG | WITH_NESTED, process_vm_readv),
	TOLD_UNLESS(WITH_DEBUG | WITH_NESTED, process_vm_writev),
	TOLD_UNLESS(WITH_DEBUG | WITH_NESTED, pidfd_getfd),

	/* Namespaces and mounts, the old calls and the new. */
	BY_RULE_UNLESS(WITH_NESTED, RULE_UNSHARE, unshare), TOLD_UNLESS(WITH_NESTED, setns),
	TOLD_UNLESS(WITH_NESTED, mount), TOLD_UNLESS(WITH_NESTED, umount2),
	TOLD_UNLESS(WITH_NESTED, pivot_root), TOLD_UNLESS(WITH_NESTED, chroot),
	TOLD_UNLESS(WITH_NESTED, open_tree), TOLD_UNLESS(WITH_NESTED, open_tree_attr),
	TOLD_UNLESS(WITH_NESTED, move_mount), TOLD_UNLESS(WITH_NESTED, mount_setattr),
	TOLD_UNLESS(WITH_NESTED, fsopen), SHUT_UNLESS(WITH_NESTED, fsconfig),
	TOLD_UNLESS(WITH_NESTED, fsmount), TOLD_UNLESS(WITH_NESTED, fspick),
	TOLD_UNLESS(WITH_NESTED, sethostname), TOLD_UNLESS(WITH_NESTED, setdomainname),

	/* These tell what a masked or absent /proc/self/mountinfo does not; libmount falls back. */
	ABSENT(statmount), ABSENT(listmount),

	/* The kernel's own extension points, and keys, which no namespace divides. */
	TOLD(bpf), TOLD(perf_event_open), TOLD(add_key), TOLD(request_key), TOLD(keyctl),
	TOLD(init_module), TOLD(finit_module), TOLD(delete_module), TOLD(kexec_load),
	TOLD(kexec_file_load),

	/* Administration of the machine. */
	TOLD(reboot), TOLD(swapon), TOLD(swapoff), TOLD(acct), TOLD(quotactl), TOLD(quotactl_fd),
	TOLD(syslog), SHUT(vhangup), SHUT(lookup_dcookie), SHUT(nfsservctl),

#ifdef __x86_64__
	/* Forms that newer architectures left out. */
	OPEN(stat), OPEN(lstat), OPEN(access), OPEN(pipe), OPEN(dup2),
	OPEN(getdents), MAKES_NAME(rename), MAKES_NAME(mkdir), REMOVES(rmdir), MAKES_NAME(link),
	REMOVES(unlink), MAKES_NAME(symlink), OPEN(readlink), OPEN(poll), OPEN(select), OPEN(epoll_create),
	OPEN(epoll_wait), OPEN(eventfd), OPEN(signalfd), OPEN(inotify_init), OPEN(fork),
	OPEN(vfork), OPEN(getpgrp), OPEN(pause), OPEN(alarm), OPEN(time), OPEN(arch_prctl),
	BY_RULE(RULE_CHMOD, chmod), MEDIATED(chown), MEDIATED(lchown), MEDIATED(utime),
	MEDIATED(utimes), MEDIATED(futimesat), BY_RULE(RULE_OPEN, open), BY_RULE(RULE_CREAT, creat),
	BY_RULE(RULE_MKNOD, mknod),

	/* Ports, segments and probes of this architecture; leftovers of old kernels. */
	TOLD(iopl), TOLD(ioperm), SHUT(modify_ldt), SHUT(uretprobe), SHUT(uprobe), SHUT(uselib),
	SHUT(ustat), SHUT(sysfs), SHUT(_sysctl), SHUT(create_module), SHUT(get_kernel_syms),
	SHUT(query_module),

	/* Numbers that were given out and never had, or have no longer, a call behind them. */
	ABSENT(set_thread_area), ABSENT(get_thread_area), ABSENT(epoll_ctl_old),
	ABSENT(epoll_wait_old), ABSENT(getpmsg), ABSENT(putpmsg), ABSENT(afs_syscall),
	ABSENT(tuxcall), ABSENT(security), ABSENT(vserver),
#endif
};
/* clang-format on */

const unsigned int syscall_count = ARRAY_SIZE(syscall_table);

static bool test_holds(const struct arg_test *test, const uint64_t *args)
{
	uint32_t value = (uint32_t)(args[test->arg] >> (test->high ? 32 : 0)) & test->mask;

	for (unsigned int i = 0; i < test->count; i++)
		if (value == test->values[i])
			return true;
	return false;
}

static bool clause_holds(const struct arg_clause *clause, unsigned int conditions,
			 const uint64_t *args)
{
	if ((conditions & clause->when) != clause->when)
		return false;
	for (unsigned int i = 0; i < CLAUSE_TESTS && clause->tests[i].count; i++)
		if (!test_holds(&clause->tests[i], args))
			return false;
	return true;
}

unsigned int syscall_verdict(unsigned int conditions, uint32_t number, const uint64_t *args)
{
	const struct syscall_row *row = number < syscall_count ? &syscall_table[number] : NULL;

	if (!row || !row->name)
		return ENOSYS;
	if (row->opens & conditions)
		return ALLOW;
	if (!row->rule)
		return row->verdict;
	for (unsigned int i = 0; i < arg_rules[row->rule].count; i++)
		if (clause_holds(&arg_rules[row->rule].clauses[i], conditions, args))
			return arg_rules[row->rule].clauses[i].verdict;
	return arg_rules[row->rule].verdict;
}

const char *syscall_name(uint32_t number)
{
	return number < syscall_count ? syscall_table[number].name : NULL;
}
