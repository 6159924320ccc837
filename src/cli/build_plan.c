/* build_plan.c - the steps of a build as a client of the daemon says them */
#include <errno.h>

#include "cli/dockerfile.h"

static const char *text_of(const struct node *map, const char *key)
{
	const struct node *value = node_get(map, key);

	return value && value->kind == NODE_STRING ? value->text : NULL;
}

static int copy_text(const char *text, char **place)
{
	if (!text || !text[0])
		return 0;
	*place = strdup(text);
	return *place ? 0 : -ENOMEM;
}

static int take_args(const struct node *list, struct strv *args, struct err *err)
{
	int r = 0;

	for (size_t i = 0; list && i < list->count && r == 0; i++) {
		const struct node *value = list->entries[i].value;

		if (value->kind != NODE_STRING)
			return err_set(err, -EINVAL, "an argument is no text");
		r = strv_add(args, value->text);
	}
	return r;
}

static void drop_last(struct strv *args)
{
	free(args->items[--args->count]);
	args->items[args->count] = NULL;
}

static int finish_run(struct build_step *step, struct err *err)
{
	if (step->args.count < 1 || step->args.count > 2 || !step->args.items[0][0])
		return err_set(err, -EINVAL, "wants a command, and perhaps a user");
	if (step->args.count == 2) {
		int r = copy_text(step->args.items[1], &step->user);

		if (r < 0)
			return r;
		drop_last(&step->args);
	}
	return 0;
}

/* source, destination, owner, mode */
static int finish_copy(struct build_step *step, struct err *err)
{
	struct strv *args = &step->args;
	int r = 0;

	if (args->count < 2 || args->count > 4)
		return err_set(err, -EINVAL, "wants a source and a destination");
	if (args->count == 4) {
		if (args->items[3][strspn(args->items[3], "01234567")])
			return err_set(err, -EINVAL, "the mode is no octal number");
		r = copy_text(args->items[3], &step->mode);
		drop_last(args);
	}
	if (args->count == 3 && r == 0) {
		r = copy_text(args->items[2], &step->owner);
		drop_last(args);
	}
	return r;
}

static int finish_env(struct build_step *step, struct err *err)
{
	if (step->args.count == 0 || step->args.count % 2)
		return err_set(err, -EINVAL, "wants names and values");
	for (size_t i = 0; i < step->args.count; i += 2)
		if (!step->args.items[i][0] || strchr(step->args.items[i], '='))
			return err_set(err, -EINVAL, "\"%.40s\" cannot be a variable's name",
				       step->args.items[i]);
	return 0;
}

static int finish_one(struct build_step *step, struct err *err)
{
	return step->args.count == 1 && step->args.items[0][0]
		       ? 0
		       : err_set(err, -EINVAL, "wants one word");
}

static int (*const finish[STEP_KINDS])(struct build_step *step, struct err *err) = {
	[STEP_RUN] = finish_run, [STEP_COPY] = finish_copy,   [STEP_ENV] = finish_env,
	[STEP_ARG] = finish_env, [STEP_WORKDIR] = finish_one, [STEP_USER] = finish_one,
};

static int read_step(const struct node *node, struct build_step *step, struct err *err)
{
	const char *type = text_of(node, "type");
	size_t kind = 0;
	int r;

	while (kind < STEP_KINDS && !(type && str_equal(type, step_names[kind])))
		kind++;
	if (kind == STEP_KINDS)
		return err_set(err, -EINVAL, "\"%.40s\" is no kind of step", type ? type : "");
	step->kind = (enum step_kind)kind;
	r = take_args(node_get(node, "args"), &step->args, err);
	r = r < 0 ? r : copy_text(text_of(node, "archive"), &step->archive);
	r = r < 0 ? r : finish[kind](step, err);
	return r < 0 && err->code ? err_prefix(err, "%s", step_names[kind]) : r;
}

static int read_steps(const struct node *list, struct build_plan *plan, struct err *err)
{
	int r = 0;

	if (!list || list->kind != NODE_LIST || list->count == 0)
		return 0;
	if (list->count > BUILD_STEPS_MAX)
		return err_set(err, -E2BIG, "more than %d steps", BUILD_STEPS_MAX);
	plan->steps = calloc(list->count, sizeof(*plan->steps));
	if (!plan->steps)
		return -ENOMEM;
	plan->count = list->count;
	for (size_t i = 0; i < list->count && r == 0; i++) {
		r = read_step(list->entries[i].value, &plan->steps[i], err);
		if (r < 0 && err->code)
			err_prefix(err, "step %zu", i + 1);
	}
	return r;
}

int build_plan_read(const struct node *node, struct build_plan *ret_plan, struct err *err)
{
	struct build_plan plan = BUILD_PLAN;
	int r = copy_text(text_of(node, "from") ?: BUILD_BASE, &plan.from);

	r = r < 0 ? r : copy_text(text_of(node, "startCmd"), &plan.start);
	r = r < 0 ? r : copy_text(text_of(node, "readyCmd"), &plan.ready);
	r = r < 0 ? r : read_steps(node_get(node, "steps"), &plan, err);
	if (r < 0) {
		build_plan_done(&plan);
		return err->code ? r : err_errno(err, r, "plan");
	}
	*ret_plan = plan;
	return 0;
}
