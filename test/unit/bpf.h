/*
 * bpf.h - a small machine for the classic BPF that seccomp takes
 *
 * Knows the instructions that the kernel can also run when it fills its bitmap of allowed numbers
 * (loads of words, masks, comparisons, jumps, returns); another one makes a program not well
 * formed.
 */
#ifndef BRIG_TEST_BPF_H
#define BRIG_TEST_BPF_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

/* NULL, or what is wrong with the program: each jump goes forward to an instruction, each way ends
 * in a return, each load is one of a word of struct seccomp_data, nothing is unreachable. */
const char *bpf_fault(const struct sock_filter *code, unsigned int len);

/* The returned value of a well-formed program, and whether it looked at an argument for it. */
uint32_t bpf_run(const struct sock_filter *code, const struct seccomp_data *data,
		 bool *ret_looked_at_arguments);

#endif
