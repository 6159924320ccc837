/*
 * What is accepted has a template to begin with, and steps with as many words as they need; what is refused says
 * why. The same bytes as patterns of .dockerignore and as a text with variables must do no harm.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/dockerfile.h"
#include "cli/expand.h"
#include "cli/ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_step(const struct build_step *step)
{
	static const size_t least[STEP_KINDS] = {
		[STEP_RUN] = 1, [STEP_COPY] = 2,    [STEP_ENV] = 2,
		[STEP_ARG] = 2, [STEP_WORKDIR] = 1, [STEP_USER] = 1
	};

	check(step->kind < STEP_KINDS && step->args.count >= least[step->kind] && step->line > 0);
	if (step->kind == STEP_ENV || step->kind == STEP_ARG)
		check(step->args.count % 2 == 0 && !strchr(step->args.items[0], '='));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(build_plan_done) struct build_plan plan = BUILD_PLAN;
	_cleanup_free_ char *text = strndup((const char *)data, size), *expanded = NULL;
	struct ignore *ignore = NULL;
	struct err err = ERR_NONE;
	int r = dockerfile_read("fuzz", (const char *)data, size, &plan, &err);

	if (r < 0)
		check(err.code && err.text[0] && !plan.count);
	else
		check(plan.from != NULL);
	for (size_t i = 0; i < plan.count; i++)
		check_step(&plan.steps[i]);
	check(text != NULL);
	if (ignore_parse(text, &ignore) == 0)
		(void)ignore_has(ignore, "a/b/c.txt");
	ignore_free(ignore);
	r = expand_text(text, (const struct node *const[]){ NULL }, 1, &expanded);
	check(r < 0 || expanded);
	return 0;
}
