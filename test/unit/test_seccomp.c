/*
 * The generated program against the table that it was made from: reference() reads the table in the
 * slowest and most obvious way, and a small BPF machine runs the program, for every spec, number
 * and corner of the arguments. That the table itself says the right thing is the business of the
 * hand-written cases, of the golden list, and of a child that runs under a loaded filter.
 */
#include "unit.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sys.h"
#include "bpf.h"
#include "jail/seccomp.h"
#include "jail/syscalls.h"

#ifdef __x86_64__
#define NATIVE_ARCH  AUDIT_ARCH_X86_64
#define FOREIGN_ARCH AUDIT_ARCH_I386
#else
#define NATIVE_ARCH  AUDIT_ARCH_AARCH64
#define FOREIGN_ARCH AUDIT_ARCH_ARM
#endif

#define ERRNO(e)   (SECCOMP_RET_ERRNO | (e))
#define HIGH_BIT   ((uint64_t)1 << 32)
#define ALL_ONES   UINT64_MAX
#define NUMBERS    1101u
#define X32        0x40000000u
#define SPEC_COUNT ((1u << EXTENSION_COUNT) * 4 * 2 * 2 * 4 * 4)

static struct filter_spec spec_of(unsigned int i)
{
	struct filter_spec spec = { .extensions = i % (1u << EXTENSION_COUNT) };

	i >>= EXTENSION_COUNT;
	spec.sockets = (enum sockets)(i % 4);
	i /= 4;
	spec.private_ipc = i & 1;
	spec.fixed_affinity = i & 2;
	spec.mediation = (enum mediation)(i / 4 % 4);
	spec.record = (enum record)(RECORD_OFF + i / 16 % 4);
	spec.has_gate = i % 7 < 3;
	spec.carries = spec.mediation == MEDIATE_METADATA && i % 11 < 4;
	spec.carries_reads = spec.mediation == MEDIATE_METADATA && i % 13 < 5;
	/* Both halves, each alone, neither. */
	spec.pass = (uint64_t)(i % 3) << 32 | (i % 5);
	return spec;
}

static bool is_refused(const struct filter_spec *spec)
{
	if ((spec->carries || spec->carries_reads) && spec->mediation != MEDIATE_METADATA)
		return true;
	if (spec->sockets == SOCKETS_SHARED &&
	    (!spec->has_gate || spec->mediation == MEDIATE_NOTHING))
		return true;
	return spec->mediation == MEDIATE_NAMES && (spec->extensions & (1u << EXT_NESTED));
}

static bool condition_holds(const struct filter_spec *spec, unsigned int condition)
{
	switch (condition) {
	case WITH_DEBUG:
		return spec->extensions & (1u << EXT_DEBUG);
	case WITH_NESTED:
		return spec->extensions & (1u << EXT_NESTED);
	case WITH_MEMFD_EXEC:
		return spec->extensions & (1u << EXT_MEMFD_EXEC);
	case WITH_PRIVATE_IPC:
		return spec->private_ipc;
	case WITH_FREE_AFFINITY:
		return !spec->fixed_affinity;
	case WITH_UNIX:
		return spec->sockets == SOCKETS_UNIX || spec->sockets == SOCKETS_INET;
	case WITH_INET:
		return spec->sockets == SOCKETS_INET || spec->sockets == SOCKETS_SHARED;
	case WITH_SHARED:
		return spec->sockets == SOCKETS_SHARED;
	case WITH_METADATA:
		return spec->mediation == MEDIATE_METADATA;
	case WITH_MODES:
		return spec->mediation == MEDIATE_MODES || spec->mediation == MEDIATE_NAMES ||
		       spec->mediation == MEDIATE_METADATA;
	case WITH_NAMES:
		return spec->mediation == MEDIATE_NAMES;
	case WITH_TELL:
		return spec->record == RECORD_DENIED || spec->record == RECORD_WRITES ||
		       spec->record == RECORD_ALL;
	case WITH_CHANGES:
		return spec->record == RECORD_WRITES || spec->record == RECORD_ALL;
	case WITH_READS:
		return spec->record == RECORD_ALL;
	case WITH_PASS:
		return spec->pass != 0;
	case WITH_GATE:
		return spec->has_gate;
	case WITH_CARRY:
		return spec->carries;
	case WITH_CARRY_READS:
		return spec->carries_reads;
	default:
		fail_msg("unknown condition %u", condition);
		return false;
	}
}

static bool conditions_hold(const struct filter_spec *spec, unsigned int conditions)
{
	for (unsigned int bit = 1; bit <= conditions; bit <<= 1)
		if ((conditions & bit) && !condition_holds(spec, bit))
			return false;
	return true;
}

static bool one_holds(const struct filter_spec *spec, unsigned int conditions)
{
	for (unsigned int bit = 1; bit <= conditions; bit <<= 1)
		if ((conditions & bit) && condition_holds(spec, bit))
			return true;
	return false;
}

static bool test_holds(const struct arg_test *test, const __u64 *args)
{
	uint32_t word = (uint32_t)(test->high ? args[test->arg] >> 32 : args[test->arg]);

	for (unsigned int i = 0; i < test->count; i++)
		if ((word & test->mask) == test->values[i])
			return true;
	return false;
}

static unsigned int rule_verdict(const struct filter_spec *spec, const struct arg_rule *rule,
				 const __u64 *args)
{
	for (unsigned int i = 0; i < rule->count; i++) {
		const struct arg_clause *clause = &rule->clauses[i];
		bool all = conditions_hold(spec, clause->when);

		for (unsigned int t = 0; all && t < CLAUSE_TESTS && clause->tests[t].count; t++)
			all = test_holds(&clause->tests[t], args);
		if (all)
			return clause->verdict;
	}
	return rule->verdict;
}

static unsigned int row_verdict(const struct filter_spec *spec, const struct seccomp_data *data)
{
	const struct syscall_row *row = &syscall_table[data->nr];

	if (one_holds(spec, row->opens))
		return ALLOW;
	return row->rule ? rule_verdict(spec, &arg_rules[row->rule], data->args) : row->verdict;
}

static uint32_t reference(const struct filter_spec *spec, const struct seccomp_data *data)
{
	uint32_t number = (uint32_t)data->nr;
	unsigned int verdict;

	if (data->arch != NATIVE_ARCH)
		return SECCOMP_RET_KILL_PROCESS;
#ifdef __x86_64__
	if (number >= X32 && number < 0x80000000)
		return SECCOMP_RET_KILL_PROCESS;
#endif
	if (number >= syscall_count || !syscall_table[number].name)
		return ERRNO(ENOSYS);
	verdict = row_verdict(spec, data);
	/* The keeper asks the same question. */
	assert_int_equal(syscall_verdict(filter_conditions(spec), number,
					 (const uint64_t *)data->args),
			 verdict);
	if (verdict == MEDIATE || verdict == TELL)
		return SECCOMP_RET_USER_NOTIF;
	if (verdict == PRETEND)
		return ERRNO(0);
	return verdict == ALLOW ? SECCOMP_RET_ALLOW : ERRNO(verdict);
}

static struct filter build(const struct filter_spec *spec)
{
	struct err err = ERR_NONE;
	struct filter filter;
	const char *fault;

	/* A length of 0 stands for a spec that is refused, as it should be. */
	if (is_refused(spec)) {
		assert_int_equal(filter_build(spec, &filter, &err), -EOPNOTSUPP);
		filter.len = 0;
		return filter;
	}
	assert_int_equal(filter_build(spec, &filter, &err), 0);
	fault = bpf_fault(filter.code, filter.len);
	if (fault)
		fail_msg("%s", fault);
	return filter;
}

/* Runs the program on data; whether it looked at the arguments. */
static bool compare(const struct filter *filter, const struct filter_spec *spec,
		    const struct seccomp_data *data)
{
	bool looked;
	uint32_t got = bpf_run(filter->code, data, &looked), want = reference(spec, data);

	if (got != want)
		fail_msg("call %#x arch %#x (%#llx, %#llx, %#llx, %#llx, %#llx): %#x, not %#x",
			 (unsigned int)data->nr, data->arch, data->args[0], data->args[1],
			 data->args[2], data->args[3], data->args[4], got, want);
	return looked;
}

static void compare_numbers(const struct filter *filter, const struct filter_spec *spec,
			    uint32_t arch, uint64_t argument)
{
	static const uint32_t bases[] = { 0, X32, 0x80000000 - NUMBERS, 0x80000000, 0u - NUMBERS };
	struct seccomp_data data = { .arch = arch };

	for (unsigned int a = 0; a < 6; a++)
		data.args[a] = argument;
	for (unsigned int b = 0; b < ARRAY_SIZE(bases); b++)
		for (uint32_t n = 0; n < NUMBERS; n++) {
			data.nr = (int)(bases[b] + n);
			compare(filter, spec, &data);
		}
}

static void every_number_in_every_spec(void **state)
{
	static const uint64_t arguments[] = { 0, 1, HIGH_BIT, ALL_ONES };

	(void)state;
	for (unsigned int s = 0; s < SPEC_COUNT; s++) {
		struct filter_spec spec = spec_of(s);
		const struct filter filter = build(&spec);

		if (filter.len == 0)
			continue;

		compare_numbers(&filter, &spec, FOREIGN_ARCH, 0);
		compare_numbers(&filter, &spec, 0, 0);
		for (unsigned int a = 0; a < ARRAY_SIZE(arguments); a++)
			compare_numbers(&filter, &spec, NATIVE_ARCH, arguments[a]);
	}
}

/* Only calls with a rule may depend on arguments: the others belong into the kernel's bitmap. */
static void calls_without_a_rule_do_not_look_at_arguments(void **state)
{
	(void)state;
	for (unsigned int s = 0; s < SPEC_COUNT; s++) {
		struct filter_spec spec = spec_of(s);
		const struct filter filter = build(&spec);

		if (filter.len == 0)
			continue;
		unsigned int allowed = 0;

		for (uint32_t n = 0; n < syscall_count; n++) {
			struct seccomp_data data = { .nr = (int)n, .arch = NATIVE_ARCH };
			bool looked = compare(&filter, &spec, &data);

			if (looked)
				assert_int_not_equal(syscall_table[n].rule, RULE_NONE);
			if (looked || reference(&spec, &data) == SECCOMP_RET_ALLOW ||
			    (reference(&spec, &data) == SECCOMP_RET_USER_NOTIF &&
			     row_verdict(&spec, &data) != TELL))
				allowed++;
		}
		assert_int_equal(filter.allowed, allowed);
	}
}

#define CORNERS_MAX 512

struct corners {
	uint64_t values[CORNERS_MAX];
	unsigned int count;
};

static void add_corner(struct corners *corners, uint64_t value)
{
	for (unsigned int i = 0; i < corners->count; i++)
		if (corners->values[i] == value)
			return;
	assert_true(corners->count < CORNERS_MAX);
	corners->values[corners->count++] = value;
}

static void add_corners_of_test(struct corners *corners, const struct arg_test *test)
{
	static const uint32_t extra_bits[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC, 1u << 31 };

	for (unsigned int i = 0; i < test->count; i++) {
		uint64_t value = test->high ? (uint64_t)test->values[i] << 32 : test->values[i];

		add_corner(corners, value - 1);
		add_corner(corners, value + 1);
		add_corner(corners, value | HIGH_BIT);
		add_corner(corners, value | ALL_ONES << 32);
		for (unsigned int b = 0; b < ARRAY_SIZE(extra_bits); b++)
			add_corner(corners, value | extra_bits[b]);
	}
	/* A test that bits are clear: each bit by itself. */
	if (test->mask != UINT32_MAX && test->values && test->values[0] == 0)
		for (unsigned int bit = 0; bit < 64; bit++)
			add_corner(corners, (uint64_t)1 << bit);
}

static struct corners corners_of(const struct arg_rule *rule, unsigned int arg)
{
	struct corners corners = { .values = { 0, ALL_ONES }, .count = 2 };

	for (unsigned int i = 0; i < rule->count; i++)
		for (unsigned int t = 0; t < CLAUSE_TESTS; t++)
			if (rule->clauses[i].tests[t].arg == arg)
				add_corners_of_test(&corners, &rule->clauses[i].tests[t]);
	return corners;
}

/* The corners of the first three arguments in every combination; no rule needs more but openat,
 * with its third and fourth, sendto, with its fourth and fifth, and execveat, with its fifth. */
static void compare_corners(const struct filter *filter, const struct filter_spec *spec,
			    uint32_t number, const struct corners *of)
{
	struct seccomp_data data = { .nr = (int)number, .arch = NATIVE_ARCH };

	for (unsigned int i = 0; i < of[0].count; i++)
		for (unsigned int j = 0; j < of[1].count; j++)
			for (unsigned int k = 0; k < of[2].count; k++) {
				data.args[0] = of[0].values[i];
				data.args[1] = of[1].values[j];
				data.args[2] = of[2].values[k];
				compare(filter, spec, &data);
			}
	for (unsigned int i = 0; i < of[2].count; i++)
		for (unsigned int j = 0; j < of[3].count; j++) {
			data.args[2] = of[2].values[i];
			data.args[3] = of[3].values[j];
			compare(filter, spec, &data);
		}
	for (unsigned int i = 0; i < of[4].count; i++)
		for (unsigned int j = 0; j < of[3].count; j++) {
			data.args[4] = of[4].values[i];
			data.args[3] = of[3].values[j];
			compare(filter, spec, &data);
		}
	for (unsigned int i = 0; i < 4; i++) {
		data.args[5] = spec->pass ^ (i & 1) ^ (uint64_t)(i & 2) << 31;
		compare(filter, spec, &data);
	}
}

static void every_corner_of_the_arguments(void **state)
{
	static struct corners corners[RULE_COUNT][6];

	(void)state;
	for (unsigned int rule = 1; rule < RULE_COUNT; rule++)
		for (unsigned int arg = 0; arg < 6; arg++)
			corners[rule][arg] = corners_of(&arg_rules[rule], arg);
	for (unsigned int s = 0; s < SPEC_COUNT; s++) {
		struct filter_spec spec = spec_of(s);
		const struct filter filter = build(&spec);

		if (filter.len == 0)
			continue;

		for (uint32_t n = 0; n < syscall_count; n++)
			if (syscall_table[n].rule)
				compare_corners(&filter, &spec, n, corners[syscall_table[n].rule]);
	}
}

static void rules_fit_their_form(void **state)
{
	bool used[RULE_COUNT] = { true };

	(void)state;
	for (uint32_t n = 0; n < syscall_count; n++)
		used[syscall_table[n].rule] = true;
	for (unsigned int id = 1; id < RULE_COUNT; id++) {
		const struct arg_rule *rule = &arg_rules[id];
		bool allows = rule->verdict == ALLOW;

		assert_true(used[id]);
		assert_true(rule->count > 0);
		for (unsigned int i = 0; i < rule->count; i++) {
			allows |= rule->clauses[i].verdict == ALLOW ||
				  rule->clauses[i].verdict == MEDIATE;
			/* A value outside the mask could never be met. */
			for (unsigned int t = 0; t < CLAUSE_TESTS; t++)
				for (unsigned int v = 0; v < rule->clauses[i].tests[t].count; v++)
					assert_int_equal(rule->clauses[i].tests[t].values[v] &
								 ~rule->clauses[i].tests[t].mask,
							 0);
		}
		/* filter.allowed counts each call that is decided by its arguments. */
		assert_true(allows || id == RULE_TELL);
	}
}

static void an_impossible_spec_is_refused(void **state)
{
	struct filter filter = { .len = 7 };
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(filter_build(&(struct filter_spec){ .extensions = 1 << EXTENSION_COUNT },
				      &filter, &err),
			 -EINVAL);
	err = ERR_NONE;
	assert_int_equal(filter_build(&(struct filter_spec){ .sockets = (enum sockets)4 }, &filter,
				      &err),
			 -EINVAL);
	err = ERR_NONE;
	assert_int_equal(filter_build(&(struct filter_spec){ .mediation = (enum mediation)4 },
				      &filter, &err),
			 -EINVAL);
	err = ERR_NONE;
	assert_int_equal(filter_build(&(struct filter_spec){ .mediation = MEDIATE_NAMES,
							     .extensions = 1 << EXT_NESTED },
				      &filter, &err),
			 -EOPNOTSUPP);
	err = ERR_NONE;
	assert_int_equal(filter_build(&(struct filter_spec){ .sockets = SOCKETS_SHARED,
							     .mediation = MEDIATE_METADATA },
				      &filter, &err),
			 -EOPNOTSUPP);
	assert_int_equal(filter.len, 7);
}

/* What the table must say, by hand. */
#define SPEC(...)           \
	{                   \
		__VA_ARGS__ \
	}

struct expectation {
	const char *what;
	struct filter_spec spec;
	long number;
	uint64_t args[6];
	uint32_t ret;
};

#define PLAIN        SPEC(.extensions = 0)
#define DEBUG        SPEC(.extensions = 1 << EXT_DEBUG)
#define NESTED       SPEC(.extensions = 1 << EXT_NESTED)
#define MEMFD        SPEC(.extensions = 1 << EXT_MEMFD_EXEC)
#define UNIX         SPEC(.sockets = SOCKETS_UNIX)
#define INET         SPEC(.sockets = SOCKETS_INET)
#define SHARED       SPEC(.sockets = SOCKETS_SHARED, .mediation = MEDIATE_METADATA, .has_gate = true)
#define IPC          SPEC(.private_ipc = true)
#define FIXED        SPEC(.fixed_affinity = true)
#define MEDIATED     SPEC(.mediation = MEDIATE_METADATA)
#define MODES        SPEC(.mediation = MEDIATE_MODES)
#define NAMES        SPEC(.mediation = MEDIATE_NAMES)
#define NESTED_MODES SPEC(.mediation = MEDIATE_MODES, .extensions = 1 << EXT_NESTED)
#define BOTH         SPEC(.mediation = MEDIATE_METADATA, .fixed_affinity = true)
#define RECORDED     SPEC(.mediation = MEDIATE_MODES, .record = RECORD_ALL, .has_gate = true)
#define REFUSALS     SPEC(.mediation = MEDIATE_MODES, .record = RECORD_DENIED)
#define YES          SECCOMP_RET_ALLOW
#define NO           ERRNO(EPERM)
#define NOT_BUILT_IN ERRNO(ENOSYS)
#define FAMILY       ERRNO(EAFNOSUPPORT)
#define PROTO        ERRNO(EPROTONOSUPPORT)
#define ASK          SECCOMP_RET_USER_NOTIF

/* clang-format off */
static const struct expectation expectations[] = {
	{ "read", PLAIN, __NR_read, { 0 }, YES },
	{ "a thread", PLAIN, __NR_clone, { 0x3d0f00 }, YES },
	{ "fork by clone", PLAIN, __NR_clone, { 0x1200011 }, YES },
	{ "user namespace", PLAIN, __NR_clone, { CLONE_NEWUSER | SIGCHLD }, NO },
	{ "user namespace, high bits", PLAIN, __NR_clone, { CLONE_NEWUSER | HIGH_BIT }, NO },
	{ "cgroup namespace", PLAIN, __NR_clone, { CLONE_NEWCGROUP }, NO },
	{ "nested clone", NESTED, __NR_clone, { CLONE_NEWUSER }, YES },
	{ "clone3", NESTED, __NR_clone3, { 0 }, NOT_BUILT_IN },
	{ "unshare files", PLAIN, __NR_unshare, { CLONE_FILES | CLONE_FS }, YES },
	{ "unshare mounts", PLAIN, __NR_unshare, { CLONE_FILES | CLONE_NEWNS }, NO },
	{ "unshare time", PLAIN, __NR_unshare, { CLONE_NEWTIME }, NO },
	{ "unshare a later bit", PLAIN, __NR_unshare, { 0x100000 }, NO },
	{ "unshare a high bit", PLAIN, __NR_unshare, { HIGH_BIT }, NO },
	{ "setns", DEBUG, __NR_setns, { 3 }, NO },
	{ "setns nested", NESTED, __NR_setns, { 3 }, YES },
	{ "mount", PLAIN, __NR_mount, { 0 }, NO },
	{ "mount nested", NESTED, __NR_mount, { 0 }, YES },
	{ "open_tree_attr", PLAIN, 467, { 0 }, NO },
	{ "keyctl nested", NESTED, __NR_keyctl, { 0 }, NO },
	{ "ptrace", PLAIN, __NR_ptrace, { 0 }, NO },
	{ "ptrace in debug", DEBUG, __NR_ptrace, { 0 }, YES },
	{ "perf in debug", DEBUG, __NR_perf_event_open, { 0 }, NO },
	{ "bpf", DEBUG, __NR_bpf, { 0 }, NO },
	{ "io_uring", PLAIN, __NR_io_uring_setup, { 0 }, NOT_BUILT_IN },
	{ "file_setattr", PLAIN, 469, { 0 }, NO },
	{ "a later call", PLAIN, 470, { 0 }, NOT_BUILT_IN },
	{ "call 600", PLAIN, 600, { 0 }, NOT_BUILT_IN },
	{ "call -1", PLAIN, -1, { 0 }, NOT_BUILT_IN },

	{ "window size", PLAIN, __NR_ioctl, { 0, TIOCGWINSZ }, YES },
	{ "controlling terminal", PLAIN, __NR_ioctl, { 0, TIOCSCTTY }, YES },
	{ "typing", PLAIN, __NR_ioctl, { 0, TIOCSTI }, NO },
	{ "typing, high bit", PLAIN, __NR_ioctl, { 0, TIOCSTI | HIGH_BIT }, NO },
	{ "pasting", PLAIN, __NR_ioctl, { 0, TIOCLINUX }, NO },
	{ "line discipline", PLAIN, __NR_ioctl, { 0, TIOCSETD }, NO },
	{ "console", PLAIN, __NR_ioctl, { 0, TIOCCONS }, NO },
	{ "locking others out", PLAIN, __NR_ioctl, { 0, TIOCEXCL }, NO },
	{ "hanging up", PLAIN, __NR_ioctl, { 0, TIOCVHANGUP }, NO },
	{ "a userfault descriptor", PLAIN, __NR_ioctl, { 0, 0xaa00 }, NO },
	{ "inode flags", PLAIN, __NR_ioctl, { 0, FS_IOC_SETFLAGS }, NO },
	{ "inode flags, sign extended", PLAIN, __NR_ioctl,
	  { 0, FS_IOC_SETFLAGS | ALL_ONES << 32 }, NO },
	{ "project id", PLAIN, __NR_ioctl, { 0, FS_IOC_FSSETXATTR }, NO },

	{ "unix socket without", PLAIN, __NR_socket, { AF_UNIX, SOCK_STREAM, 0 }, FAMILY },
	{ "unix socket", UNIX, __NR_socket, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0 }, YES },
	{ "inet without", UNIX, __NR_socket, { AF_INET, SOCK_STREAM, 0 }, FAMILY },
	{ "tcp", INET, __NR_socket, { AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP }, YES },
	{ "tcp6", INET, __NR_socket, { AF_INET6 | HIGH_BIT, SOCK_STREAM, 0 }, YES },
	{ "udp", INET, __NR_socket, { AF_INET, SOCK_DGRAM, IPPROTO_UDP }, YES },
	{ "ping", INET, __NR_socket, { AF_INET, SOCK_DGRAM, IPPROTO_ICMP }, PROTO },
	{ "mptcp", INET, __NR_socket, { AF_INET, SOCK_STREAM, 262 }, PROTO },
	{ "sctp", INET, __NR_socket, { AF_INET, SOCK_STREAM, IPPROTO_SCTP }, PROTO },
	{ "raw", INET, __NR_socket, { AF_INET, SOCK_RAW, IPPROTO_ICMP }, NO },
	{ "raw, high bit", INET, __NR_socket, { AF_INET, SOCK_RAW | HIGH_BIT, 0 }, NO },
	{ "another flag", INET, __NR_socket, { AF_INET, SOCK_STREAM | 0x10, 0 }, NO },
	{ "route netlink", INET, __NR_socket, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0 }, YES },
	{ "netfilter netlink", INET, __NR_socket, { AF_NETLINK, SOCK_RAW, 12 }, PROTO },
	{ "packet", INET, __NR_socket, { AF_PACKET, SOCK_RAW, 0 }, FAMILY },
	{ "alg", INET, __NR_socket, { 38, SOCK_SEQPACKET, 0 }, FAMILY },
	{ "alg, high bit", INET, __NR_socket, { 38 | HIGH_BIT, SOCK_SEQPACKET, 0 }, FAMILY },
	{ "vsock", INET, __NR_socket, { 40, SOCK_STREAM, 0 }, FAMILY },
	{ "a pair", PLAIN, __NR_socketpair, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC }, YES },
	{ "a pair that can leave", PLAIN, __NR_socketpair, { AF_UNIX, SOCK_DGRAM }, NO },
	{ "the same by its other name", PLAIN, __NR_socketpair, { AF_UNIX, SOCK_RAW }, NO },
	{ "a datagram pair", UNIX, __NR_socketpair, { AF_UNIX, SOCK_DGRAM }, YES },
	{ "a tipc pair", INET, __NR_socketpair, { 30, SOCK_STREAM }, FAMILY },
	{ "reuse", INET, __NR_setsockopt, { 3, SOL_SOCKET, SO_REUSEADDR }, YES },
	{ "no delay", INET, __NR_setsockopt, { 3, IPPROTO_TCP, 1 }, YES },
	{ "ebpf filter", INET, __NR_setsockopt, { 3, SOL_SOCKET, 50 }, NO },
	{ "upper layer", INET, __NR_setsockopt, { 3, IPPROTO_TCP | HIGH_BIT, 31 }, NO },
	{ "iptables", INET, __NR_setsockopt, { 3, IPPROTO_IP, 64 | HIGH_BIT }, NO },
	{ "ip6tables", INET, __NR_setsockopt, { 3, IPPROTO_IPV6, 64 }, NO },
	{ "source route", INET, __NR_setsockopt, { 3, IPPROTO_IP, 4 }, NO },
	{ "routing header", INET, __NR_setsockopt, { 3, IPPROTO_IPV6, 57 }, NO },
	{ "another family", INET, __NR_setsockopt, { 3, IPPROTO_IPV6, 1 }, NO },
	{ "ipsec policy", INET, __NR_setsockopt, { 3, IPPROTO_IP, 17 }, NO },
	{ "encapsulation", INET, __NR_setsockopt, { 3, IPPROTO_UDP, 100 }, NO },
	{ "reuseport ebpf", INET, __NR_setsockopt, { 3, SOL_SOCKET, 52 }, NO },
	{ "packet ring", INET, __NR_setsockopt, { 3, 263, 5 }, ERRNO(ENOPROTOOPT) },

	{ "unix socket on the host's network", SHARED, __NR_socket, { AF_UNIX, SOCK_STREAM, 0 }, FAMILY },
	{ "tcp on the host's network", SHARED, __NR_socket, { AF_INET, SOCK_STREAM, 0 }, YES },
	{ "udp on the host's network", SHARED, __NR_socket, { AF_INET6, SOCK_DGRAM, 0 }, YES },
	{ "ping on the host's network", SHARED, __NR_socket, { AF_INET, SOCK_DGRAM, 1 }, PROTO },
	{ "raw on the host's network", SHARED, __NR_socket, { AF_INET, SOCK_RAW, 1 }, NO },
	{ "datagram pair, host's network", SHARED, __NR_socketpair, { AF_UNIX, SOCK_DGRAM }, NO },
	{ "connect by the gate", SHARED, __NR_connect, { 3 }, ASK },
	{ "send without an address", SHARED, __NR_sendto, { 3, 1, 1, 0, 0, 16 }, YES },
	{ "send to an address", SHARED, __NR_sendto, { 3, 1, 1, 0, 1, 16 }, ASK },
	{ "send to a high address", SHARED, __NR_sendto, { 3, 1, 1, 0, HIGH_BIT, 16 }, ASK },
	{ "fast open", SHARED, __NR_sendto, { 3, 1, 1, MSG_FASTOPEN | 64, 0 }, ERRNO(EOPNOTSUPP) },
	{ "fast open, message", SHARED, __NR_sendmsg, { 3, 1, MSG_FASTOPEN | HIGH_BIT }, ERRNO(EOPNOTSUPP) },
	{ "fast open, messages", SHARED, __NR_sendmmsg, { 3, 1, 1, MSG_FASTOPEN }, ERRNO(EOPNOTSUPP) },
	{ "message", SHARED, __NR_sendmsg, { 3 }, ASK },
	{ "messages", SHARED, __NR_sendmmsg, { 3 }, ASK },
	{ "message in a container", INET, __NR_sendmsg, { 3 }, YES },
	{ "send in a container", INET, __NR_sendto, { 3, 1, 1, MSG_FASTOPEN, 1, 16 }, YES },
	{ "bind", SHARED, __NR_bind, { 3 }, ASK },
	{ "listen", SHARED, __NR_listen, { 3 }, ASK },
	{ "listen in a container", INET, __NR_listen, { 3 }, YES },
	{ "device", SHARED, __NR_setsockopt, { 3, SOL_SOCKET, 25 }, NO },
	{ "device by number", SHARED, __NR_setsockopt, { 3, SOL_SOCKET, 62 }, NO },
	{ "device in a container", INET, __NR_setsockopt, { 3, SOL_SOCKET, 25 }, YES },
	{ "old routing header", SHARED, __NR_setsockopt, { 3, IPPROTO_IPV6, 5 }, NO },
	{ "open, perhaps of resolv.conf", SHARED, __NR_openat, { 0, 0, O_CLOEXEC }, ASK },
	{ "open of a folder", SHARED, __NR_openat, { 0, 0, O_DIRECTORY }, YES },
	{ "open to write", SHARED, __NR_openat, { 0, 0, O_RDWR }, YES },

	/* What is not told of costs no more than its errno, however much is recorded. */
	{ "refused and told", RECORDED, __NR_mount, { 0 }, ASK },
	{ "refused and told, with less", REFUSALS, __NR_keyctl, { 0 }, ASK },
	{ "refused without a record", RECORDED, __NR_vhangup, { 0 }, NO },
	{ "a comparison of processes", RECORDED, __NR_kcmp, { 0 }, NO },
	{ "another ioctl", RECORDED, __NR_ioctl, { 0, TIOCSTI }, NO },
	{ "a ring, recorded", RECORDED, __NR_io_uring_setup, { 0 }, NOT_BUILT_IN },
	{ "a family, recorded", RECORDED, __NR_socket, { AF_VSOCK, SOCK_STREAM, 0 }, FAMILY },
	{ "a number of nobody's, recorded", RECORDED, 1000, { 0 }, NOT_BUILT_IN },
	{ "an open, with refusals only", REFUSALS, __NR_openat, { 0, 0, O_RDWR }, YES },
	{ "a look, recorded", RECORDED, __NR_newfstatat, { 0 }, YES },

	{ "name of a thread", PLAIN, __NR_prctl, { PR_SET_NAME }, YES },
	{ "another face", NESTED, __NR_prctl, { PR_SET_MM | HIGH_BIT }, NO },
	{ "core scheduling", NESTED, __NR_prctl, { 62 }, NO },
	{ "closed memory without a keeper", PLAIN, __NR_prctl, { PR_SET_DUMPABLE, 0 }, YES },
	{ "closed memory", MEDIATED, __NR_prctl, { PR_SET_DUMPABLE, 0 }, ERRNO(0) },
	{ "closed memory, high bit", MODES, __NR_prctl, { PR_SET_DUMPABLE | HIGH_BIT, 0 }, ERRNO(0) },
	{ "open memory", MEDIATED, __NR_prctl, { PR_SET_DUMPABLE, 1 }, YES },
	{ "neither", MEDIATED, __NR_prctl, { PR_SET_DUMPABLE, HIGH_BIT }, YES },
	{ "ask personality", PLAIN, __NR_personality, { UINT32_MAX }, YES },
	{ "no randomization", DEBUG, __NR_personality, { 0x40000 }, NO },
	{ "read implies exec", PLAIN, __NR_personality, { 0x400000 }, NO },
	{ "a filter", PLAIN, __NR_seccomp, { SECCOMP_SET_MODE_FILTER, 1 }, YES },
	{ "a listener", NESTED, __NR_seccomp,
	  { SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER }, YES },
	{ "own limit", PLAIN, __NR_prlimit64, { 0, RLIMIT_CPU, 0x7ffc00000000 }, YES },
	{ "own limit, high bit", PLAIN, __NR_prlimit64, { HIGH_BIT, RLIMIT_CPU, 1 }, YES },
	{ "limit of another", PLAIN, __NR_prlimit64, { 1, RLIMIT_CPU, 0x7ffc00000000 }, NO },
	{ "reading it", PLAIN, __NR_prlimit64, { 1, RLIMIT_CPU, 0 }, YES },
	{ "fifo", PLAIN, __NR_mknodat, { 0, 0, S_IFIFO | 0600 }, YES },
	{ "file", PLAIN, __NR_mknodat, { 0, 0, 0600 }, YES },
	{ "device", PLAIN, __NR_mknodat, { 0, 0, S_IFCHR | 0600 | HIGH_BIT }, NO },
	{ "device, bits above the mode", PLAIN, __NR_mknodat, { 0, 0, S_IFBLK | 0x30000 }, NO },
	{ "execveat", PLAIN, __NR_execveat, { 3, 0, 0, 0, 0x100 }, YES },
	{ "execveat of a descriptor", PLAIN, __NR_execveat, { 3, 0, 0, 0, 0x1000 }, NO },
	{ "execveat of a descriptor, open", MEMFD, __NR_execveat, { 3, 0, 0, 0, 0x1000 }, YES },
	{ "shared memory", PLAIN, __NR_shmget, { 0 }, NO },
	{ "private shared memory", IPC, __NR_shmget, { 0 }, YES },
	{ "host queue", PLAIN, __NR_mq_open, { 0 }, NO },
	{ "affinity", PLAIN, __NR_sched_setaffinity, { 0 }, YES },
	{ "fixed affinity", FIXED, __NR_sched_setaffinity, { 0 }, NO },

	{ "mode", PLAIN, __NR_fchmodat, { 0 }, YES },
	{ "mode, mediated", MEDIATED, __NR_fchmodat, { 0 }, ASK },
	{ "mode with flags", MEDIATED, 452, { 0 }, ASK },
	{ "mode of a descriptor", MEDIATED, __NR_fchmod, { 0 }, ASK },
	{ "owner", MEDIATED, __NR_fchownat, { 0 }, ASK },
	{ "owner of a descriptor", MEDIATED, __NR_fchown, { 0 }, ASK },
	{ "times", MEDIATED, __NR_utimensat, { 0 }, ASK },
	{ "attribute", MEDIATED, __NR_fsetxattr, { 0 }, ASK },
	{ "attribute at", MEDIATED, 463, { 0 }, ASK },
	{ "reading an attribute", MEDIATED, __NR_fgetxattr, { 0 }, YES },
	{ "attribute removed", MEDIATED, __NR_lremovexattr, { 0 }, ASK },
	{ "attribute removed at", MEDIATED, 466, { 0 }, ASK },
	{ "watch", MEDIATED, __NR_inotify_add_watch, { 0 }, ASK },
	{ "own priority", MEDIATED, __NR_setpriority, { PRIO_PROCESS, HIGH_BIT }, YES },
	{ "priority of another", MEDIATED, __NR_setpriority, { PRIO_PROCESS, 7 }, ASK },
	{ "priority of a group", MEDIATED, __NR_setpriority, { PRIO_PGRP | HIGH_BIT }, NO },
	{ "priority of a user", MEDIATED, __NR_setpriority, { PRIO_USER }, NO },
	{ "priority, not mediated", PLAIN, __NR_setpriority, { PRIO_USER }, YES },
	{ "own I/O priority", MEDIATED, __NR_ioprio_set, { 1, 0 }, YES },
	{ "I/O priority of another", MEDIATED, __NR_ioprio_set, { 1, 7 }, ASK },
	{ "I/O priority of a user", MEDIATED, __NR_ioprio_set, { 3, 0 }, NO },
	{ "own scheduler", MEDIATED, __NR_sched_setscheduler, { 0 }, YES },
	{ "scheduler of another", MEDIATED, __NR_sched_setscheduler, { 7 }, ASK },
	{ "parameters of another", MEDIATED, __NR_sched_setparam, { 7 }, ASK },
	{ "attributes of another", MEDIATED, __NR_sched_setattr, { 7 }, ASK },
	{ "own affinity", MEDIATED, __NR_sched_setaffinity, { 0 }, YES },
	{ "affinity of another", MEDIATED, __NR_sched_setaffinity, { 7 }, ASK },
	{ "own affinity, fixed", BOTH, __NR_sched_setaffinity, { 0 }, NO },
	{ "affinity of another, fixed", BOTH, __NR_sched_setaffinity, { 7 }, NO },

	{ "open", MEDIATED, __NR_openat, { 0, 0, O_RDONLY, 06755 }, YES },
	{ "file", MEDIATED, __NR_openat, { 0, 0, O_CREAT | O_RDWR, 01755 }, YES },
	{ "setuid file", MEDIATED, __NR_openat, { 0, 0, O_CREAT | O_RDWR, 04755 | HIGH_BIT }, NO },
	{ "setgid file", MEDIATED, __NR_openat, { 0, 0, O_CREAT | HIGH_BIT, 02755 }, NO },
	{ "setuid file, not mediated", PLAIN, __NR_openat, { 0, 0, O_CREAT, 06755 }, YES },
	{ "setuid file without a name", MEDIATED, __NR_openat,
	  { 0, 0, O_TMPFILE | O_RDWR, 04700 }, NO },
	{ "setuid by mknodat", MEDIATED, __NR_mknodat, { 0, 0, S_IFREG | 04755 }, NO },
	{ "openat2", PLAIN, __NR_openat2, { 0 }, YES },
	{ "openat2, mediated", MEDIATED, __NR_openat2, { 0 }, NOT_BUILT_IN },

	{ "mode in a container", MODES, __NR_fchmodat, { 0, 0, 01777 }, YES },
	{ "setuid in a container", MODES, __NR_fchmodat, { 0, 0, 04755 }, ASK },
	{ "setgid in a container", NAMES, __NR_fchmodat, { 0, 0, 02755 | HIGH_BIT }, ASK },
	{ "both, with flags", MODES, 452, { 0, 0, 06755 }, ASK },
	{ "bits in the wrong place", MODES, 452, { 06000, 06000, 0755, 06000 }, YES },
	{ "setuid of a descriptor", MODES, __NR_fchmod, { 3, 04755 }, ASK },
	{ "mode of a descriptor in a container", MODES, __NR_fchmod, { 06000, 0755, 06000 }, YES },
	{ "owner in a container", MODES, __NR_fchownat, { 0 }, YES },
	{ "times in a container", NAMES, __NR_utimensat, { 0 }, YES },
	{ "attribute in a container", NAMES, __NR_setxattr, { 0 }, YES },
	{ "watch in a container", NAMES, __NR_inotify_add_watch, { 0 }, YES },
	{ "priority in a container", NAMES, __NR_setpriority, { PRIO_USER, 7 }, YES },
	{ "affinity in a container", NAMES, __NR_sched_setaffinity, { 7 }, YES },
	{ "file in a container", MODES, __NR_openat, { 0, 0, O_CREAT, 0755 }, YES },
	{ "setuid file in a container", MODES, __NR_openat, { 0, 0, O_CREAT, 04755 }, NO },
	{ "setgid temporary file", NAMES, __NR_openat, { 0, 0, O_TMPFILE | O_RDWR, 02755 }, NO },
	{ "openat2 in a container", MODES, __NR_openat2, { 0 }, NOT_BUILT_IN },
	{ "setuid by mknodat in a container", MODES, __NR_mknodat, { 0, 0, 04755 }, NO },
	{ "directory in a container", MODES, __NR_mkdirat, { 0 }, YES },
	{ "move in a container", MODES, __NR_renameat2, { 0 }, YES },
	{ "landlock in a container", MODES, __NR_landlock_create_ruleset, { 0 }, YES },

	{ "open with guards", NAMES, __NR_openat, { 0, 0, O_WRONLY | O_TRUNC, 04755 }, YES },
	{ "file with guards", NAMES, __NR_openat, { 0, 0, O_CREAT | HIGH_BIT, 0755 }, ASK },
	{ "setuid file with guards", NAMES, __NR_openat, { 0, 0, O_CREAT, 04755 }, NO },
	{ "temporary file with guards", NAMES, __NR_openat, { 0, 0, O_TMPFILE | O_RDWR, 0700 }, YES },
	{ "O_PATH forgets", NAMES, __NR_openat, { 0, 0, O_PATH | O_CREAT, 0700 }, YES },
	{ "openat2 with guards", NAMES, __NR_openat2, { 0 }, NOT_BUILT_IN },
	{ "directory with guards", NAMES, __NR_mkdirat, { 0 }, ASK },
	{ "fifo with guards", NAMES, __NR_mknodat, { 0, 0, S_IFIFO | 0600 }, ASK },
	{ "setgid fifo with guards", NAMES, __NR_mknodat, { 0, 0, S_IFIFO | 02600 }, NO },
	{ "device with guards", NAMES, __NR_mknodat, { 0, 0, S_IFCHR | 0600 }, NO },
	{ "symbolic link with guards", NAMES, __NR_symlinkat, { 0 }, ASK },
	{ "link with guards", NAMES, __NR_linkat, { 0 }, ASK },
	{ "move with guards", NAMES, __NR_renameat, { 0 }, ASK },
	{ "exchange with guards", NAMES, __NR_renameat2, { 0, 0, 0, 0, 2 }, ASK },
	{ "removal with guards", NAMES, __NR_unlinkat, { 0 }, YES },
	{ "landlock with guards", NAMES, __NR_landlock_create_ruleset, { 0 }, ERRNO(EOPNOTSUPP) },
	{ "landlock rule with guards", NAMES, __NR_landlock_add_rule, { 0 }, ERRNO(EOPNOTSUPP) },
	{ "landlock domain with guards", NAMES, __NR_landlock_restrict_self, { 0 },
	  ERRNO(EOPNOTSUPP) },
	{ "directory without guards", PLAIN, __NR_mkdirat, { 0 }, YES },
	{ "move, process tier", MEDIATED, __NR_renameat2, { 0 }, YES },

	{ "nested unshare", NESTED_MODES, __NR_unshare, { CLONE_NEWUSER | CLONE_NEWTIME }, YES },
	{ "nested clone of all", NESTED_MODES, __NR_clone,
	  { CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | SIGCHLD }, YES },
	{ "nested clone3", NESTED_MODES, __NR_clone3, { 0 }, NOT_BUILT_IN },
	{ "nested setns", NESTED_MODES, __NR_setns, { 3 }, YES },
	{ "nested mount", NESTED_MODES, __NR_mount, { 0 }, YES },
	{ "nested umount2", NESTED_MODES, __NR_umount2, { 0 }, YES },
	{ "nested pivot_root", NESTED_MODES, __NR_pivot_root, { 0 }, YES },
	{ "nested chroot", NESTED_MODES, __NR_chroot, { 0 }, YES },
	{ "nested fsopen", NESTED_MODES, __NR_fsopen, { 0 }, YES },
	{ "nested fsconfig", NESTED_MODES, __NR_fsconfig, { 0 }, YES },
	{ "nested fsmount", NESTED_MODES, __NR_fsmount, { 0 }, YES },
	{ "nested fspick", NESTED_MODES, __NR_fspick, { 0 }, YES },
	{ "nested move_mount", NESTED_MODES, __NR_move_mount, { 0 }, YES },
	{ "nested open_tree", NESTED_MODES, __NR_open_tree, { 0 }, YES },
	{ "nested open_tree_attr", NESTED_MODES, 467, { 0 }, YES },
	{ "nested mount_setattr", NESTED_MODES, __NR_mount_setattr, { 0 }, YES },
	{ "nested sethostname", NESTED_MODES, __NR_sethostname, { 0 }, YES },
	{ "nested setgroups", NESTED_MODES, __NR_setgroups, { 0 }, YES },
	{ "nested setresuid", NESTED_MODES, __NR_setresuid, { 0 }, YES },
	{ "nested interface", NESTED_MODES, __NR_ioctl, { 3, 0x8914 /* SIOCSIFFLAGS */ }, YES },
	{ "nested listener", NESTED_MODES, __NR_seccomp,
	  { SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER }, YES },
	{ "nested setuid", NESTED_MODES, __NR_fchmodat, { 0, 0, 04755 }, NO },
	{ "nested openat2", NESTED_MODES, __NR_openat2, { 0 }, NOT_BUILT_IN },
	{ "a descriptor's flags", PLAIN, __NR_fcntl, { 0, F_SETFL }, YES },
	{ "lease", PLAIN, __NR_fcntl, { 0, F_SETLEASE | HIGH_BIT }, NO },
	{ "clone of a file", PLAIN, __NR_ioctl, { 0, FICLONE }, YES },
	{ "subvolume", PLAIN, __NR_ioctl, { 0, _IOW(0x94, 14, char[4096]) }, ERRNO(ENOTTY) },
	{ "verity", PLAIN, __NR_ioctl, { 0, 0x40806685 }, ERRNO(ENOTTY) },
	{ "asking for inode flags", PLAIN, __NR_ioctl, { 0, FS_IOC_GETFLAGS }, YES },
	{ "memory of a dying process", PLAIN, __NR_process_mrelease, { 0 }, NO },
#ifdef __x86_64__
	{ "old open", MEDIATED, __NR_open, { 0, O_CREAT, 04755 }, NO },
	{ "old open of a file that is there", MEDIATED, __NR_open, { 0, 0, 04755 }, YES },
	{ "creat", MEDIATED, __NR_creat, { 0, 02755 }, NO },
	{ "creat of a plain file", MEDIATED, __NR_creat, { 0, 0755 }, YES },
	{ "setuid by mknod", MEDIATED, __NR_mknod, { 0, S_IFREG | 02755 }, NO },
	{ "old mode", MEDIATED, __NR_chmod, { 0 }, ASK },
	{ "old owner", MEDIATED, __NR_lchown, { 0 }, ASK },
	{ "old mode in a container", MODES, __NR_chmod, { 06000, 0755, 06000 }, YES },
	{ "old setgid in a container", MODES, __NR_chmod, { 0, 02755 }, ASK },
	{ "old open with guards", NAMES, __NR_open, { 0, O_CREAT, 0755 }, ASK },
	{ "old open of what is there, with guards", NAMES, __NR_open, { 0, O_RDWR, 0755 }, YES },
	{ "old temporary file with guards", NAMES, __NR_open, { 0, O_TMPFILE, 0700 }, YES },
	{ "creat with guards", NAMES, __NR_creat, { 0, 0755 }, ASK },
	{ "setgid creat with guards", NAMES, __NR_creat, { 0, 02755 }, NO },
	{ "mkdir with guards", NAMES, __NR_mkdir, { 0 }, ASK },
	{ "mknod with guards", NAMES, __NR_mknod, { 0, S_IFIFO }, ASK },
	{ "symlink with guards", NAMES, __NR_symlink, { 0 }, ASK },
	{ "old link with guards", NAMES, __NR_link, { 0 }, ASK },
	{ "rename with guards", NAMES, __NR_rename, { 0 }, ASK },
	{ "rmdir with guards", NAMES, __NR_rmdir, { 0 }, YES },
	{ "old times", MEDIATED, __NR_futimesat, { 0 }, ASK },
#endif
};
/* clang-format on */

static void the_table_says_what_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expectations); i++) {
		const struct expectation *e = &expectations[i];
		const struct filter filter = build(&e->spec);
		struct seccomp_data data = { .nr = (int)e->number, .arch = NATIVE_ARCH };
		uint32_t got;
		bool looked;

		for (unsigned int a = 0; a < 6; a++)
			data.args[a] = e->args[a];
		got = bpf_run(filter.code, &data, &looked);
		if (got != e->ret)
			fail_msg("%s: %#x, not %#x", e->what, got, e->ret);
	}
}

#ifdef __x86_64__
enum golden { REFUSED, BY_ARGUMENTS, BY_KEEPER, FREE };

static const char *const golden_notes[] = {
	[BY_ARGUMENTS] = " (by its arguments)", [BY_KEEPER] = " (by the keeper)", [FREE] = ""
};

static enum golden golden_of(const struct filter *filter, uint32_t number)
{
	struct seccomp_data data = { .nr = (int)number, .arch = NATIVE_ARCH };
	bool looked;
	uint32_t ret = bpf_run(filter->code, &data, &looked);

	if (looked)
		return BY_ARGUMENTS;
	if (ret == SECCOMP_RET_USER_NOTIF)
		return BY_KEEPER;
	return ret == SECCOMP_RET_ALLOW ? FREE : REFUSED;
}

/* The calls that spec allows in another way than plain does; all that it allows without a plain. */
static void add_golden(struct buf *out, const char *title, const struct filter_spec *spec,
		       const struct filter *plain)
{
	const struct filter filter = build(spec);

	buf_printf(out, "%s: %u system calls\n", title, filter.allowed);
	for (uint32_t n = 0; n < syscall_count; n++) {
		enum golden golden = golden_of(&filter, n);

		if (golden != REFUSED && !(plain && golden_of(plain, n) == golden))
			buf_printf(out, "%s%s\n", syscall_name(n), golden_notes[golden]);
	}
}

/*
 * The allowed calls of the plainest spec, one to a line, and what each extension adds, so that a
 * change of the table shows in review. After a change that is meant, the new list is what this test
 * prints.
 */
static void golden_list_of_allowed_calls(void **state)
{
	_cleanup_(buf_done) struct buf want = BUF(64 * KIB), got = BUF(64 * KIB),
				       path = BUF(4 * KIB);
	const char *root = getenv("BRIG_SOURCE_ROOT");
	const struct filter_spec spec = PLAIN;
	const struct filter plain = build(&spec);
	_cleanup_close_ int fd = -EBADF;

	(void)state;
	add_golden(&got, "process", &spec, NULL);
	add_golden(&got, "\nwith debug", &(struct filter_spec)DEBUG, &plain);
	add_golden(&got, "\nwith nested", &(struct filter_spec)NESTED, &plain);
	add_golden(&got, "\nwith memfd-exec", &(struct filter_spec)MEMFD, &plain);
	add_golden(&got, "\nwith unix sockets", &(struct filter_spec)UNIX, &plain);
	add_golden(&got, "\nwith internet sockets", &(struct filter_spec)INET, &plain);
	add_golden(&got, "\nwith the host's network", &(struct filter_spec)SHARED, &plain);
	add_golden(&got, "\nwith private ipc", &(struct filter_spec)IPC, &plain);
	add_golden(&got, "\nwith fixed affinity", &(struct filter_spec)FIXED, &plain);
	add_golden(&got, "\nmediated", &(struct filter_spec)MEDIATED, &plain);
	add_golden(&got, "\nmediated modes", &(struct filter_spec)MODES, &plain);
	add_golden(&got, "\nmediated names", &(struct filter_spec)NAMES, &plain);
	assert_int_equal(buf_failed(&got), 0);
	buf_printf(&path, "%s/test/unit/golden/syscalls_process.txt", root ? root : ".");
	fd = open(buf_text(&path), O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, &want) < 0 || strcmp(buf_text(&want), buf_text(&got)) != 0) {
		(void)fputs(buf_text(&got), stderr);
		fail_msg("\"%s\" is not the list above", buf_text(&path));
	}
}
#endif

/* Raw calls under a loaded filter. Each refused one would get another answer without the filter;
 * where it does not (an outer filter, say), the case tells nothing and is left out. */
struct attempt {
	const char *what;
	long number;
	uint64_t args[6];
	int error;      /* under the filter */
	bool goes_free; /* allowed: the same answer without the filter */
};

/* clang-format off */
static const struct attempt attempts[] = {
	{ "getppid", __NR_getppid, { 0 }, 0, true },
	{ "clone3", __NR_clone3, { 0 }, ENOSYS, false },
	{ "io_uring_setup", __NR_io_uring_setup, { 0 }, ENOSYS, false },
	{ "set_mempolicy", __NR_set_mempolicy, { 99 }, ENOSYS, false },
	{ "keyctl", __NR_keyctl, { 0xffff }, EPERM, false },
	{ "unshare", __NR_unshare, { CLONE_NEWNS | 1 }, EPERM, false },
	{ "unshare nothing", __NR_unshare, { 0 }, 0, true },
	{ "setns", __NR_setns, { ALL_ONES }, EPERM, false },
	{ "clone of a namespace", __NR_clone, { CLONE_NEWNS | CLONE_FS }, EPERM, false },
	{ "ptrace", __NR_ptrace, { 2, 0 }, EPERM, false },
	{ "process_vm_readv", __NR_process_vm_readv, { 0, 0, 0, 0, 0, 1 }, EPERM, false },
	{ "personality", __NR_personality, { 0x40000 }, EPERM, false },
	{ "TIOCSTI", __NR_ioctl, { ALL_ONES, TIOCSTI }, EPERM, false },
	{ "TIOCSTI with a high bit", __NR_ioctl, { ALL_ONES, TIOCSTI | HIGH_BIT }, EPERM, false },
	{ "TIOCGWINSZ", __NR_ioctl, { ALL_ONES, TIOCGWINSZ }, EBADF, true },
	{ "socket", __NR_socket, { AF_UNIX, 0xf00, 0 }, EAFNOSUPPORT, false },
	{ "datagram pair", __NR_socketpair, { AF_UNIX, SOCK_DGRAM, 0, 0 }, EPERM, false },
	{ "stream pair", __NR_socketpair, { AF_UNIX, SOCK_STREAM, 0, 0 }, EFAULT, true },
	{ "mknodat of a device", __NR_mknodat, { ALL_ONES, 0, S_IFCHR }, EPERM, false },
	{ "mknodat of a fifo", __NR_mknodat, { ALL_ONES, 0, S_IFIFO }, EFAULT, true },
	{ "shmget", __NR_shmget, { 0, 0, 0 }, EPERM, false },
	{ "PR_SET_MM", __NR_prctl, { PR_SET_MM, 0, 0, 0, 1 }, EPERM, false },
	{ "listener", __NR_seccomp, { 1, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0 }, EPERM, false },
	{ "action", __NR_seccomp, { SECCOMP_GET_ACTION_AVAIL, 0, 0 }, EFAULT, true },
	{ "limit of another", __NR_prlimit64, { 1, 999, 1 }, EPERM, false },
	{ "own limit", __NR_prlimit64, { 0, 999, 0 }, EINVAL, true },
	{ "execveat", __NR_execveat, { ALL_ONES, 0, 0, 0, 0x1000 }, EPERM, false },
	{ "call 600", 600, { 0 }, ENOSYS, true },
	{ "call 1000", 1000, { 0 }, ENOSYS, true },
	{ "call -1", -1, { 0 }, ENOSYS, true },
};
/* clang-format on */

static int attempt_errno(const struct attempt *attempt)
{
	const uint64_t *a = attempt->args;

	errno = 0;
	return syscall(attempt->number, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? errno : 0;
}

/* Does everything in a child of its own, because a filter stays; the child's wait status. */
static int in_child(void (*body)(const struct filter *, int *), const struct filter *filter,
		    int *shared)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		body(filter, shared);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void enter(const struct filter *filter)
{
	if (sys_no_new_privs() < 0 || filter_load(filter) < 0)
		_exit(99);
}

static void try_attempts(const struct filter *filter, int *errors)
{
	int found[ARRAY_SIZE(attempts)];

	if (filter)
		enter(filter);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		found[i] = attempt_errno(&attempts[i]);
	if (write(errors[1], found, sizeof(found)) != sizeof(found))
		_exit(98);
}

static void collect_attempts(const struct filter *filter, int *ret_errors)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(in_child(try_attempts, filter, ends), 0);
	assert_int_equal(read(ends[0], ret_errors, ARRAY_SIZE(attempts) * sizeof(int)),
			 ARRAY_SIZE(attempts) * sizeof(int));
	close(ends[0]);
	close(ends[1]);
}

static void a_loaded_filter_answers_as_stated(void **state)
{
	const struct filter_spec spec = { .sockets = SOCKETS_NONE };
	const struct filter filter = build(&spec);
	int control[ARRAY_SIZE(attempts)], found[ARRAY_SIZE(attempts)];
	unsigned int telling = 0;

	(void)state;
	collect_attempts(NULL, control);
	collect_attempts(&filter, found);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		const struct attempt *a = &attempts[i];

		if ((control[i] == a->error) != a->goes_free) {
			print_message("%s tells nothing here: %s without a filter\n", a->what,
				      strerror(control[i]));
			continue;
		}
		telling++;
		if (found[i] != a->error)
			fail_msg("%s: %s, not %s", a->what, strerror(found[i]), strerror(a->error));
	}
	assert_true(telling > 0);
}

static void narrow_further(const struct filter *filter, int *unused)
{
	(void)unused;
	enter(filter);
	enter(filter);
	_exit(7);
}

static void a_second_filter_can_be_loaded(void **state)
{
	const struct filter filter = build(&(struct filter_spec){ .sockets = SOCKETS_NONE });
	int status = in_child(narrow_further, &filter, NULL);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

#ifdef __x86_64__
static void call_i386(const struct filter *filter, int *unused)
{
	long r = 20; /* getpid there, writev here */

	(void)unused;
	enter(filter);
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory");
}

static void call_x32(const struct filter *filter, int *unused)
{
	(void)unused;
	enter(filter);
	syscall(X32 + __NR_getpid);
}

static void a_foreign_abi_kills(void **state)
{
	void (*const bodies[])(const struct filter *, int *) = { call_i386, call_x32 };
	const struct filter filter = build(&(struct filter_spec){ .sockets = SOCKETS_NONE });

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		int status = in_child(bodies[i], &filter, NULL);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fit_their_form),
		cmocka_unit_test(every_number_in_every_spec),
		cmocka_unit_test(calls_without_a_rule_do_not_look_at_arguments),
		cmocka_unit_test(every_corner_of_the_arguments),
		cmocka_unit_test(an_impossible_spec_is_refused),
		cmocka_unit_test(the_table_says_what_it_should),
		cmocka_unit_test(a_loaded_filter_answers_as_stated),
		cmocka_unit_test(a_second_filter_can_be_loaded),
#ifdef __x86_64__
		cmocka_unit_test(golden_list_of_allowed_calls),
		cmocka_unit_test(a_foreign_abi_kills),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
