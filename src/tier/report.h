/*
 * report.h - the enforcement report: one line per wall, with the mechanism that really holds it
 */
#ifndef BRIG_TIER_REPORT_H
#define BRIG_TIER_REPORT_H

#include "base/macro.h"

#define REPORT_MAX 32

struct wall {
	const char *name;   /* "memory" */
	char mechanism[48]; /* "cgroup v1" */
	char value[160];    /* "512M" */
};

struct report {
	struct wall walls[REPORT_MAX];
	size_t count;
};

void report_add(struct report *report, const char *name, const char *mechanism, const char *fmt,
		...) _printf_(4, 5);

#endif
