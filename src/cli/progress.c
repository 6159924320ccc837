#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"

#define INTERVAL_MS 100
#define FIRST_MS    300 /* what is over by then needs no words */

void format_amount(uint64_t bytes, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;
	uint64_t rest = 0;

	while (bytes >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		rest = bytes % 1024;
		bytes /= 1024;
		unit++;
	}
	if (bytes < 10 && unit > 0)
		snprintf(text, size, "%" PRIu64 ".%" PRIu64 " %s", bytes, rest * 10 / 1024,
			 units[unit]);
	else
		snprintf(text, size, "%" PRIu64 " %s", bytes, units[unit]);
}

static void tell(void *arg, uint64_t bytes, uint64_t files)
{
	struct progress *progress = arg;
	uint64_t now = clock_ms();
	char amount[32], rate[32];

	if (now < progress->next)
		return;
	progress->next = now + INTERVAL_MS;
	progress->is_said = true;
	format_amount(bytes, amount, sizeof(amount));
	format_amount(bytes * 1000 / MAX(now - progress->began, (uint64_t)1), rate, sizeof(rate));
	fprintf(stderr, "\r\033[Kbrig: %s %s, %" PRIu64 " files, %s/s", progress->verb, amount,
		files, rate);
	fflush(stderr);
}

const struct layer_progress *progress_begin(struct progress *progress, const char *verb)
{
	*progress = (struct progress){ .hook = { .tell = tell, .arg = progress },
				       .verb = verb,
				       .began = clock_ms(),
				       .next = clock_ms() + FIRST_MS };
	return isatty(STDERR_FILENO) ? &progress->hook : NULL;
}

void progress_end(struct progress *progress)
{
	if (progress->is_said)
		fputs("\r\033[K", stderr);
	progress->is_said = false;
}
