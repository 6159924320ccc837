/*
 * cases.h - what a bench run compares, read from a file of one word and its value per line
 *
 *	section static program, as root
 *	case bare
 *	walls none
 *	is zero
 *	arg /path/to/nothing
 *
 * "case" begins a case, "arg" adds to its command line, "walls" says what it isolates. "is zero"
 * and "is peer" name those that the others are compared with: of several peers the fastest, once all
 * have run. "mounts" is the path of a mount namespace to start it in. "is living" makes the last
 * case one that is not measured, but lives meanwhile. "section" is the heading. Empty lines and
 * lines with # are skipped.
 */
#ifndef BRIG_BENCH_CASES_H
#define BRIG_BENCH_CASES_H

#include <stdbool.h>

#include "base/str.h"
#include "memory.h"

#define CASES_MAX 16

struct bench_case {
	char *name, *walls, *mounts;
	struct strv argv;
	int mount_fd; /* the open mount namespace, -EBADF for our own */
	bool can_be_peer;

	double *values; /* milliseconds or starts per second, in the order of the rounds */
	size_t failures;
	long peak_kib; /* the most resident memory of the command itself; 0 when not measured */
	struct footprint footprint;
};

struct cases {
	char *section;
	struct bench_case items[CASES_MAX];
	size_t count;
	const struct bench_case *zero, *peer; /* NULL when there is none */
	struct bench_case *living;            /* behind the last of the items, or NULL */
};

[[nodiscard]] int cases_load(const char *path, size_t rounds, struct cases *ret_cases,
			     struct err *err);
void cases_done(struct cases *cases);

#endif
