/*
 * progress.h - "copied 120 MiB, 3000 files, 80 MiB/s", at a terminal, while something takes its time
 *
 *	struct progress progress;
 *
 *	r = image_make(home, name, &source, progress_begin(&progress, "copied"), &info, err);
 *	progress_end(&progress);
 *
 * On standard error, at most ten times a second, and gone at the end. Not at a terminal: nothing.
 */
#ifndef BRIG_CLI_PROGRESS_H
#define BRIG_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "jail/layer.h"

struct progress {
	struct layer_progress hook;
	const char *verb;
	uint64_t began, next; /* when it did, and when something may be said again */
	bool is_said;
};

/* NULL where there is no terminal, which is what those who report want then. */
const struct layer_progress *progress_begin(struct progress *progress, const char *verb);
void progress_end(struct progress *progress);

/* "12 MiB": for people, rounded; a size that is not needed exactly. */
void format_amount(uint64_t bytes, char *text, size_t size);

#endif
