/*
 * The program is written from its end to its beginning: classic BPF jumps only forward, so every
 * target is known when the jump to it is written, and no label has to be patched. A jump reaches
 * 255 instructions; reach() puts a copy of a far return, or a long jump, right behind the place
 * that needs it.
 *
 * The kernel keeps a bitmap of the numbers that are allowed whatever their arguments, and fills it
 * by running the program with only the number and the architecture known. It understands loads of
 * these two, comparisons and masks, nothing else: shifting the number and testing bits of a word
 * would make a shorter program, and every call slower.
 */
#include "jail/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/sys.h"
#include "jail/syscalls.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define X32_FIRST   0x40000000u /* numbers of the x32 ABI, which shares the architecture */
#define X32_END     0x80000000u
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call table for this architecture"
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the halves of an argument are the other way round here"
#endif

#define JUMP_MAX 254 /* one less than BPF's, for the detour of the other branch */

struct assembler {
	struct sock_filter code[FILTER_MAX];
	unsigned int at;                /* the first instruction; FILTER_MAX while there is none */
	unsigned int conditions;        /* enum condition that hold */
	bool full;                      /* did not fit: the program is worthless */
	unsigned int rules[RULE_COUNT]; /* where a rule starts, 0 while it is not written */
};

/* What happens from one number up to the next range: a return value, or a rule that finds it. */
struct range {
	uint32_t first, ret;
	enum arg_rule_id rule;
	bool is_told; /* refused, though by the keeper */
};

/* A change at most at every number, the numbers behind the table, x32 and the negative ones. */
#define RANGES_MAX 512

static uint32_t verdict_ret(unsigned int verdict)
{
	if (verdict == MEDIATE || verdict == TELL)
		return SECCOMP_RET_USER_NOTIF;
	if (verdict == PRETEND)
		return SECCOMP_RET_ERRNO;
	return verdict == ALLOW ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | verdict;
}

static unsigned int emit(struct assembler *as, uint16_t code, uint32_t k)
{
	if (as->at == 0) {
		as->full = true;
		return 0;
	}
	as->code[--as->at] = (struct sock_filter)BPF_STMT(code, k);
	return as->at;
}

/* A place from where a jump written next comes to target. */
static unsigned int reach(struct assembler *as, unsigned int target)
{
	const struct sock_filter *to = &as->code[target];

	if (target - as->at <= JUMP_MAX)
		return target;
	if (BPF_CLASS(to->code) == BPF_RET)
		return emit(as, to->code, to->k);
	return emit(as, BPF_JMP | BPF_JA, target - as->at);
}

static unsigned int emit_jump(struct assembler *as, uint16_t test, uint32_t k, unsigned int yes,
			      unsigned int no)
{
	unsigned int at;

	yes = reach(as, yes);
	no = reach(as, no);
	at = emit(as, BPF_JMP | test | BPF_K, k);
	if (!as->full) {
		as->code[at].jt = (uint8_t)(yes - at - 1);
		as->code[at].jf = (uint8_t)(no - at - 1);
	}
	return at;
}

static unsigned int emit_load(struct assembler *as, size_t offset)
{
	return emit(as, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

/* The nearest return of this value, a new one if none is near. */
static unsigned int emit_return(struct assembler *as, uint32_t ret)
{
	for (unsigned int i = as->at; i < FILTER_MAX && i - as->at < JUMP_MAX; i++)
		if (as->code[i].code == (BPF_RET | BPF_K) && as->code[i].k == ret)
			return i;
	return emit(as, BPF_RET | BPF_K, ret);
}

static unsigned int emit_test(struct assembler *as, const struct arg_test *test, unsigned int yes,
			      unsigned int no)
{
	size_t offset = offsetof(struct seccomp_data, args[0]) + sizeof(uint64_t) * test->arg +
			(test->high ? sizeof(uint32_t) : 0);

	if (test->count == 1 && test->values[0] == 0) {
		emit_jump(as, BPF_JSET, test->mask, no, yes);
		return emit_load(as, offset);
	}
	for (unsigned int i = test->count; i-- > 0;)
		no = emit_jump(as, BPF_JEQ, test->values[i], yes, no);
	if (test->mask != UINT32_MAX)
		emit(as, BPF_ALU | BPF_AND | BPF_K, test->mask);
	return emit_load(as, offset);
}

static bool clause_lives(const struct assembler *as, const struct arg_clause *clause)
{
	return (as->conditions & clause->when) == clause->when;
}

static unsigned int emit_clause(struct assembler *as, const struct arg_clause *clause,
				unsigned int next)
{
	unsigned int yes = emit_return(as, verdict_ret(clause->verdict));
	unsigned int count = 0;

	while (count < CLAUSE_TESTS && clause->tests[count].count)
		count++;
	while (count-- > 0)
		yes = emit_test(as, &clause->tests[count], yes, next);
	return yes;
}

/* A clause without a test ends its rule: how many stand before the first, and the verdict then. */
static unsigned int rule_end(const struct assembler *as, const struct arg_rule *rule,
			     unsigned int *ret_verdict)
{
	for (unsigned int i = 0; i < rule->count; i++)
		if (clause_lives(as, &rule->clauses[i]) && !rule->clauses[i].tests[0].count) {
			*ret_verdict = rule->clauses[i].verdict;
			return i;
		}
	*ret_verdict = rule->verdict;
	return rule->count;
}

static unsigned int emit_rule(struct assembler *as, enum arg_rule_id id)
{
	const struct arg_rule *rule = &arg_rules[id];

	if (!as->rules[id]) {
		unsigned int verdict, count = rule_end(as, rule, &verdict);
		unsigned int at = emit_return(as, verdict_ret(verdict));

		for (unsigned int i = count; i-- > 0;)
			if (clause_lives(as, &rule->clauses[i]))
				at = emit_clause(as, &rule->clauses[i], at);
		as->rules[id] = at;
	}
	return as->rules[id];
}

/* A balanced search over ranges, which are sorted. */
static unsigned int emit_search(struct assembler *as, const struct range *ranges,
				unsigned int count)
{
	unsigned int half = count / 2, above, below;

	if (count == 1)
		return ranges->rule ? emit_rule(as, ranges->rule) : emit_return(as, ranges->ret);
	above = emit_search(as, ranges + half, count - half);
	below = emit_search(as, ranges, half);
	return emit_jump(as, BPF_JGE, ranges[half].first, above, below);
}

static void emit_program(struct assembler *as, const struct range *ranges, unsigned int count)
{
	unsigned int native, foreign;

	emit_search(as, ranges, count);
	native = emit_load(as, offsetof(struct seccomp_data, nr));
	foreign = emit_return(as, SECCOMP_RET_KILL_PROCESS);
	emit_jump(as, BPF_JEQ, NATIVE_ARCH, native, foreign);
	emit_load(as, offsetof(struct seccomp_data, arch));
}

static const unsigned int socket_conditions[] = {
	[SOCKETS_NONE] = 0,
	[SOCKETS_UNIX] = WITH_UNIX,
	[SOCKETS_INET] = WITH_UNIX | WITH_INET,
	[SOCKETS_SHARED] = WITH_INET | WITH_SHARED,
};

unsigned int filter_conditions(const struct filter_spec *spec)
{
	unsigned int conditions = spec->extensions;

	if (spec->private_ipc)
		conditions |= WITH_PRIVATE_IPC;
	if (!spec->fixed_affinity)
		conditions |= WITH_FREE_AFFINITY;
	conditions |= socket_conditions[spec->sockets];
	if (spec->mediation != MEDIATE_NOTHING)
		conditions |= WITH_MODES;
	if (spec->mediation == MEDIATE_NAMES)
		conditions |= WITH_NAMES;
	if (spec->mediation == MEDIATE_METADATA)
		conditions |= WITH_METADATA;
	if (spec->record >= RECORD_DENIED)
		conditions |= WITH_TELL;
	if (spec->record >= RECORD_WRITES)
		conditions |= WITH_CHANGES;
	if (spec->record >= RECORD_ALL)
		conditions |= WITH_READS;
	if (spec->carries)
		conditions |= WITH_CARRY;
	if (spec->carries_reads)
		conditions |= WITH_CARRY_READS;
	if (spec->has_gate)
		conditions |= WITH_GATE;
	if (spec->pass)
		conditions |= WITH_PASS;
	return conditions;
}

/* Whether the arguments decide; if not, only *ret_verdict is left of the rule. */
static bool rule_lives(const struct assembler *as, const struct arg_rule *rule,
		       unsigned int *ret_verdict)
{
	unsigned int count = rule_end(as, rule, ret_verdict);

	for (unsigned int i = 0; i < count; i++)
		if (clause_lives(as, &rule->clauses[i]))
			return true;
	return false;
}

static struct range row_range(const struct assembler *as, uint32_t number)
{
	const struct syscall_row *row = &syscall_table[number];
	struct range range = { .first = number };
	unsigned int verdict = row->verdict;

	if (!row->name)
		verdict = ENOSYS;
	else if (as->conditions & row->opens)
		verdict = ALLOW;
	else if (row->rule && rule_lives(as, &arg_rules[row->rule], &verdict))
		range.rule = row->rule;
	if (!range.rule)
		range.ret = verdict_ret(verdict);
	range.is_told = !range.rule && verdict == TELL;
	return range;
}

/* Adds a range, or lets the last one go on when nothing changes; the new count. */
static unsigned int add_range(struct range *ranges, unsigned int count, struct range range)
{
	if (count && ranges[count - 1].ret == range.ret && ranges[count - 1].rule == range.rule)
		return count;
	ranges[count] = range;
	return count + 1;
}

static unsigned int make_ranges(const struct assembler *as, struct range *ranges,
				unsigned int *ret_allowed)
{
	unsigned int count = 0, allowed = 0;

	for (uint32_t number = 0; number < syscall_count; number++) {
		struct range range = row_range(as, number);

		/* Every rule that lives allows something. */
		if (range.rule || range.ret == SECCOMP_RET_ALLOW ||
		    (range.ret == SECCOMP_RET_USER_NOTIF && !range.is_told))
			allowed++;
		count = add_range(ranges, count, range);
	}
	count = add_range(ranges, count,
			  (struct range){ .first = syscall_count, .ret = verdict_ret(ENOSYS) });
#ifdef X32_FIRST
	count = add_range(ranges, count,
			  (struct range){ .first = X32_FIRST, .ret = SECCOMP_RET_KILL_PROCESS });
	count = add_range(ranges, count,
			  (struct range){ .first = X32_END, .ret = verdict_ret(ENOSYS) });
#endif
	*ret_allowed = allowed;
	return count;
}

static int check_spec(const struct filter_spec *spec, struct err *err)
{
	if (spec->extensions >> EXTENSION_COUNT)
		return err_set(err, -EINVAL, "no such extension of the system call filter: %#x",
			       spec->extensions);
	if ((unsigned int)spec->sockets > SOCKETS_SHARED)
		return err_set(err, -EINVAL, "no such set of sockets: %u",
			       (unsigned int)spec->sockets);
	if ((unsigned int)spec->record > RECORD_ALL)
		return err_set(err, -EINVAL, "no such record: %u", (unsigned int)spec->record);
	if ((unsigned int)spec->mediation > MEDIATE_METADATA)
		return err_set(err, -EINVAL, "no such mediation: %u",
			       (unsigned int)spec->mediation);
	/* An overlay of the sandbox's own makes files in its upper directory by itself, where the
	 * keeper does not see the name. */
	if (spec->mediation == MEDIATE_NAMES && (spec->extensions & 1u << EXT_NESTED))
		return err_set(err, -EOPNOTSUPP,
			       "allow: nested cannot be had with rules for paths that do not exist "
			       "yet: mounts of the sandbox's own would go around them");
	if ((spec->carries || spec->carries_reads) && spec->mediation != MEDIATE_METADATA)
		return err_set(err, -EOPNOTSUPP, "files are opened by a keeper that mediates");
	if (spec->sockets == SOCKETS_SHARED &&
	    (!spec->has_gate || spec->mediation == MEDIATE_NOTHING))
		return err_set(err, -EOPNOTSUPP,
			       "sockets on the host's network need a gate and a keeper");
	if (syscall_count + 3 > RANGES_MAX)
		return err_set(err, -E2BIG, "system call table has %u rows, at most %u fit",
			       syscall_count, RANGES_MAX - 3);
	return 0;
}

int filter_build(const struct filter_spec *spec, struct filter *ret_filter, struct err *err)
{
	struct range ranges[RANGES_MAX];
	struct assembler as;
	unsigned int count, allowed;
	int r = check_spec(spec, err);

	if (r < 0)
		return r;
	as.at = FILTER_MAX;
	as.full = false;
	as.conditions = filter_conditions(spec);
	exec_pass[0] = (uint32_t)spec->pass;
	exec_pass[1] = (uint32_t)(spec->pass >> 32);
	memset(as.rules, 0, sizeof(as.rules));
	count = make_ranges(&as, ranges, &allowed);
	emit_program(&as, ranges, count);
	if (as.full)
		return err_set(err, -E2BIG, "system call filter is over %u instructions",
			       FILTER_MAX);

	ret_filter->len = (unsigned short)(FILTER_MAX - as.at);
	ret_filter->allowed = allowed;
	memcpy(ret_filter->code, as.code + as.at, ret_filter->len * sizeof(as.code[0]));
	return 0;
}

/*
 * No flags. LOG would write a line into the host's log for every refused call, and the sandbox
 * decides how many it makes; a killed process is logged without it. SPEC_ALLOW would give up the
 * branch predictor and store bypass barriers that older kernels tie to a filter: they protect the
 * host from the sandbox, and where the kernel no longer ties them there is nothing to gain. TSYNC
 * is for programs with threads, which a launcher is not.
 */
static int load(const struct filter *filter, unsigned int flags)
{
	struct sock_fprog prog = {
		.len = filter->len,
		.filter = (struct sock_filter *)(uintptr_t)filter->code,
	};

	return sys_seccomp_set_filter(flags, &prog);
}

int filter_load(const struct filter *filter)
{
	return load(filter, 0);
}

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      _IOW('!', 4, uint64_t)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/*
 * WAIT_KILLABLE_RECV (Linux 5.19): a signal does not interrupt a call that is being answered, so a
 * chmod is not carried out twice. SYNC_WAKE_UP (6.6): the two sides take turns on one CPU, 8 us a
 * call instead of 45. Older kernels do without.
 */
int filter_listen(const struct filter *filter)
{
	int fd = load(filter,
		      SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	if (fd == -EINVAL)
		fd = load(filter, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (fd >= 0)
		(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	return fd;
}
