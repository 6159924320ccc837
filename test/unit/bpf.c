#include "bpf.h"

#include <stddef.h>
#include <string.h>

#define MAX_LEN 4096

/* Marks what follows instruction i; false if that is not inside the program. */
static bool mark_next(const struct sock_filter *code, unsigned int len, unsigned int i, bool *seen)
{
	uint32_t jumps[2] = { 0, 0 };

	switch (code[i].code) {
	case BPF_RET | BPF_K:
		return true;
	case BPF_JMP | BPF_JA:
		jumps[0] = jumps[1] = code[i].k;
		break;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_K:
		jumps[0] = code[i].jt;
		jumps[1] = code[i].jf;
		break;
	default:
		break;
	}
	for (unsigned int j = 0; j < 2; j++) {
		if (jumps[j] >= len - i - 1)
			return false;
		seen[i + 1 + jumps[j]] = true;
	}
	return true;
}

static bool is_known(const struct sock_filter *insn)
{
	switch (insn->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return insn->k % 4 == 0 && insn->k < sizeof(struct seccomp_data);
	case BPF_ALU | BPF_AND | BPF_K:
	case BPF_JMP | BPF_JA:
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_K:
	case BPF_RET | BPF_K:
		return true;
	default:
		return false;
	}
}

const char *bpf_fault(const struct sock_filter *code, unsigned int len)
{
	bool seen[MAX_LEN] = { true };

	if (len == 0 || len > MAX_LEN)
		return "bad length";
	for (unsigned int i = 0; i < len; i++) {
		if (!is_known(&code[i]))
			return "unknown instruction";
		if (!seen[i])
			return "unreachable instruction";
		if (!mark_next(code, len, i, seen))
			return "way out of the program";
	}
	return NULL;
}

uint32_t bpf_run(const struct sock_filter *code, const struct seccomp_data *data,
		 bool *ret_looked_at_arguments)
{
	const struct sock_filter *pc = code;
	uint32_t a = 0;
	bool looked = false, holds;

	for (;; pc++) {
		switch (pc->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + pc->k, sizeof(a));
			looked |= pc->k >= offsetof(struct seccomp_data, instruction_pointer);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= pc->k;
			continue;
		case BPF_JMP | BPF_JA:
			pc += pc->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			holds = a == pc->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			holds = a > pc->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			holds = a >= pc->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			holds = (a & pc->k) != 0;
			break;
		default:
			*ret_looked_at_arguments = looked;
			return pc->k;
		}
		pc += holds ? pc->jt : pc->jf;
	}
}
