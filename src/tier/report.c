#include "tier/report.h"

#include <stdarg.h>
#include <stdio.h>

void report_add(struct report *report, const char *name, const char *mechanism, const char *fmt,
		...)
{
	struct wall *wall = &report->walls[report->count];
	va_list ap;

	if (report->count == REPORT_MAX)
		return;
	report->count++;
	wall->name = name;
	snprintf(wall->mechanism, sizeof(wall->mechanism), "%s", mechanism);
	va_start(ap, fmt);
	vsnprintf(wall->value, sizeof(wall->value), fmt, ap);
	va_end(ap);
}
