#include "cli/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/expand.h"

#define CAPTURED_MAX (1 * MIB)
#define RAW_SHELL    "/bin/bash"

static int set_text(char **place, const char *text)
{
	char *made = strdup(text);

	if (!made)
		return -ENOMEM;
	free(*place);
	*place = made;
	return 0;
}

int build_expand(const struct build *build, const char *text, char **ret_text)
{
	const struct node *const scopes[] = { build->args, build->env, build->inside };

	return expand_text(text, scopes, ARRAY_SIZE(scopes), ret_text);
}

/* --- commands in the sandbox --- */

static int add_words(struct strv *words, const char *const *more)
{
	int r = 0;

	for (; *more && r == 0; more++)
		r = strv_add(words, *more);
	return r;
}

static int add_variables(struct strv *words, const struct node *map)
{
	int r = 0;

	for (size_t i = 0; map && i < map->count && r == 0; i++) {
		_cleanup_(buf_done) struct buf text = BUF(EXPAND_MAX);

		r = buf_printf(&text, "%s=%s", map->entries[i].key, map->entries[i].value->text);
		r = r < 0 ? r
			  : add_words(words, (const char *const[]){ "-e", buf_text(&text), NULL });
	}
	return r;
}

int build_words(struct build *build, const char *user, const char *workdir, bool has_input,
		char *const *command, struct strv *words)
{
	int r = add_words(words, (const char *const[]){ "brig", "exec", "--raw", NULL });

	if (r == 0 && has_input)
		r = strv_add(words, "-i");
	if (r == 0 && user && !(build->has_one_user && str_equal(user, "root")))
		r = add_words(words, (const char *const[]){ "-u", user, NULL });
	if (r == 0 && workdir)
		r = add_words(words, (const char *const[]){ "-w", workdir, NULL });
	r = r < 0 ? r : add_variables(words, build->env);
	r = r < 0 ? r : add_variables(words, build->args);
	r = r < 0 ? r : add_words(words, (const char *const[]){ build->id, "--", NULL });
	return r < 0 ? r : add_words(words, (const char *const *)command);
}

int build_script(struct build *build, const char *user, const char *script,
		 const char *const *arguments, struct err *err)
{
	_cleanup_(strv_done) struct strv words = { 0 }, command = { 0 };
	int r = add_words(&command,
			  (const char *const[]){ RAW_SHELL, "-c", script, "build", NULL });

	r = r < 0 ? r : add_words(&command, arguments);
	r = r < 0 ? r : build_words(build, user, "/", false, command.items, &words);
	return r < 0 ? err_set(err, r, "out of memory")
		     : build_child(build, NULL, words.items, -EBADF, NULL, err);
}

static int failed(int status, const char *what, struct err *err)
{
	if (status < 0)
		return status;
	return status == 0 ? 0 : err_set(err, -EINVAL, "%s: exit status %d", what, status);
}

/* --- steps --- */

static int do_run(struct build *build, const struct build_step *step, struct err *err)
{
	_cleanup_(strv_done) struct strv words = { 0 }, command = { 0 };
	int r = 0;

	if (step->is_exec)
		r = add_words(&command, (const char *const *)step->args.items);
	else
		r = add_words(&command, (const char *const[]){ build->shell, "-c",
							       step->args.items[0], NULL });
	r = r < 0 ? r
		  : build_words(build, step->user ? step->user : build->user, build->workdir, false,
				command.items, &words);
	if (r < 0)
		return err_set(err, r, "out of memory");
	return failed(build_child(build, NULL, words.items, -EBADF, NULL, err),
		      "the command failed", err);
}

/* Values are looked up before the first one of the step is set. */
static int set_variables(struct build *build, const struct build_step *step, struct node *map)
{
	_cleanup_(strv_done) struct strv values = { 0 };
	int r = 0;

	for (size_t i = 1; i < step->args.count && r == 0; i += 2) {
		_cleanup_free_ char *value = NULL;

		r = build_expand(build, step->args.items[i], &value);
		r = r < 0 ? r : strv_add(&values, value);
	}
	for (size_t i = 0; i < values.count && r == 0; i++)
		r = node_set(map, step->args.items[2 * i], node_string(values.items[i]));
	return r;
}

static int do_env(struct build *build, const struct build_step *step, struct err *err)
{
	int r = set_variables(build, step, build->env);

	return r < 0 ? err_errno(err, r, "ENV") : 0;
}

static int do_arg(struct build *build, const struct build_step *step, struct err *err)
{
	int r = set_variables(build, step, build->args);

	return r < 0 ? err_errno(err, r, "ARG") : 0;
}

/* A sandbox whose root may give nothing away has no other way to let somebody write there. */
static const char make_dir[] = "[ -d \"$1\" ] && exit 0\n"
			       "mkdir -p -- \"$1\" || exit 1\n"
			       "[ \"$2\" = root ] || chown -- \"$2\" \"$1\" 2>/dev/null || "
			       "chmod 777 -- \"$1\"\n";

static int do_workdir(struct build *build, const struct build_step *step, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	char path[4096];
	int r = build_expand(build, step->args.items[0], &text);

	if (r < 0)
		return err_errno(err, r, "WORKDIR");
	if (!path_resolve(build->workdir, text, path, sizeof(path)))
		return err_set(err, -EINVAL, "WORKDIR: the path is too long");
	/* Root inside has no power over what is another's, so whose it will be tries first. */
	r = build_script(build, build->user, "mkdir -p -- \"$1\" 2>/dev/null",
			 (const char *const[]){ path, NULL }, err);
	if (r > 0)
		r = build_script(build, "root", make_dir,
				 (const char *const[]){ path, build->user, NULL }, err);
	r = failed(r, "the directory cannot be made", err);
	build->has_workdir = true;
	return r < 0 ? r : set_text(&build->workdir, path);
}

static int do_user(struct build *build, const struct build_step *step, struct err *err)
{
	_cleanup_free_ char *user = NULL;
	int r = build_expand(build, step->args.items[0], &user);

	if (r < 0)
		return err_errno(err, r, "USER");
	user[strcspn(user, ":")] = '\0';
	r = build_script(
		build, "root",
		"case $1 in *[!0-9]*) id -u -- \"$1\" >/dev/null;; ?*) :;; *) exit 1;; esac",
		(const char *const[]){ user, NULL }, err);
	if (r > 0)
		return err_set(err, -EINVAL, "there is no user \"%.40s\"", user);
	build->has_user = true;
	return r < 0 ? r : set_text(&build->user, user);
}

static int (*const doers[STEP_KINDS])(struct build *build, const struct build_step *step,
				      struct err *err) = {
	[STEP_RUN] = do_run, [STEP_COPY] = build_copy,    [STEP_ENV] = do_env,
	[STEP_ARG] = do_arg, [STEP_WORKDIR] = do_workdir, [STEP_USER] = do_user,
};

static void announce(struct build *build, const struct build_step *step, size_t number)
{
	_cleanup_(buf_done) struct buf text = BUF(2048);

	for (size_t i = 0; i < step->args.count; i++)
		if (buf_printf(&text, " %.400s", step->args.items[i]) < 0)
			break;
	build_say(build, "info", "[%zu/%zu] %s%s", number, build->plan->count,
		  step_names[step->kind], buf_text(&text));
}

static int do_steps(struct build *build, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < build->plan->count && r == 0; i++) {
		const struct build_step *step = &build->plan->steps[i];

		snprintf(build->step, sizeof(build->step), "%zu", i + 1);
		announce(build, step, i + 1);
		r = doers[step->kind](build, step, err);
		if (r < 0 && r != -ECANCELED)
			err_prefix(err, "step %zu (%s)", i + 1, step_names[step->kind]);
	}
	return r;
}

/* --- before and after --- */

static int make_sandbox(struct build *build, struct err *err)
{
	_cleanup_(strv_done) struct strv words = { 0 };
	_cleanup_(buf_done) struct buf out = BUF(CAPTURED_MAX);
	_cleanup_(node_freep) struct node *manifest = NULL;
	const struct node *id;
	int r = add_words(&words, (const char *const[]){ "brig", "create", "--json", "--wall",
							 BUILD_WALL, NULL });

	r = r < 0 || !build->options.items
		    ? r
		    : add_words(&words, (const char *const *)build->options.items);
	if (r == 0 && build->from_image && build->from_image[0])
		r = add_words(&words, (const char *const[]){ "--from", build->from_image, NULL });
	if (r < 0)
		return err_set(err, r, "out of memory");
	r = build_child(build, NULL, words.items, -EBADF, &out, err);
	r = r < 0 ? r : json_read(buf_text(&out), out.len, NULL, &manifest, err);
	if (r < 0)
		return r;
	id = node_get(manifest, "id");
	if (!id || id->kind != NODE_STRING || strlen(id->text) >= sizeof(build->id))
		return err_set(err, -EIO, "brig create told no id");
	snprintf(build->id, sizeof(build->id), "%s", id->text);
	return 0;
}

/* What variables mean that nobody has set: PATH, HOME. */
static int look_inside(struct build *build, struct err *err)
{
	static const char *const command[] = { "/usr/bin/env", "-0", NULL };
	_cleanup_(strv_done) struct strv words = { 0 };
	_cleanup_(buf_done) struct buf out = BUF(CAPTURED_MAX);
	int r = build_words(build, NULL, NULL, false, (char *const *)(uintptr_t)command, &words);

	r = r < 0 ? err_set(err, r, "out of memory")
		  : build_child(build, NULL, words.items, -EBADF, &out, err);
	for (const char *p = buf_text(&out), *end = p + out.len; r == 0 && p < end;
	     p += strlen(p) + 1) {
		_cleanup_free_ char *name = strndup(p, strcspn(p, "="));
		const char *value = strchr(p, '=');

		if (!name || !value || !is_utf8(p, strlen(p)))
			continue;
		r = node_set(build->inside, name, node_string(value + 1));
	}
	return r;
}

/* The one user that there is does then what root would do, as far as he may. */
static int look_for_root(struct build *build, struct err *err)
{
	char *words[] = { (char *)(uintptr_t) "brig",
			  (char *)(uintptr_t) "exec",
			  (char *)(uintptr_t) "-u",
			  (char *)(uintptr_t) "root",
			  build->id,
			  (char *)(uintptr_t) "true",
			  NULL };
	_cleanup_(buf_done) struct buf out = BUF(CAPTURED_MAX);
	struct err why = ERR_NONE;
	int r = build_child(build, NULL, words, -EBADF, &out, &why);

	if (r == -ECANCELED) {
		*err = why;
		return r;
	}
	build->has_one_user = r != 0;
	if (build->has_one_user)
		build_say(build, "warn",
			  "there is no root in this sandbox, so its user does all steps: %s",
			  why.text);
	return 0;
}

static int keep(struct build *build, struct err *err)
{
	char *words[] = { (char *)(uintptr_t) "brig",
			  (char *)(uintptr_t) "snapshot",
			  build->id,
			  build->image,
			  (char *)(uintptr_t) "--json",
			  NULL };
	_cleanup_(buf_done) struct buf out = BUF(CAPTURED_MAX);
	_cleanup_(node_freep) struct node *info = NULL;
	const struct node *bytes;
	int r;

	snprintf(build->step, sizeof(build->step), "finalize");
	build_say(build, "info", "keeping what is there");
	r = build_child(build, NULL, words, -EBADF, &out, err);
	r = r < 0 ? r : json_read(buf_text(&out), out.len, NULL, &info, err);
	if (r < 0)
		return r;
	bytes = node_get(info, "bytes");
	build->bytes = bytes && bytes->kind == NODE_INT ? (uint64_t)bytes->number : 0;
	return 0;
}

static void end_sandbox(struct build *build)
{
	char *words[] = { (char *)(uintptr_t) "brig", (char *)(uintptr_t) "kill", build->id, NULL };
	_cleanup_(buf_done) struct buf out = BUF(CAPTURED_MAX);
	struct err err = ERR_NONE;

	if (build->id[0] && build_child(build, NULL, words, -EBADF, &out, &err) < 0)
		build_say(build, "warn", "the sandbox of the build was not ended: %s", err.text);
	build->id[0] = '\0';
}

static void drop_image(struct build *build)
{
	char *words[] = { (char *)(uintptr_t) "brig", (char *)(uintptr_t) "image",
			  (char *)(uintptr_t) "rm", build->image, NULL };
	_cleanup_(buf_done) struct buf out = BUF(CAPTURED_MAX);
	struct err err = ERR_NONE;

	/* Usually there is none. */
	(void)!build_child(build, NULL, words, -EBADF, &out, &err);
}

static int prepare(struct build *build)
{
	build->env = build->env ? build->env : node_map();
	build->args = node_map();
	build->inside = node_map();
	return build->env && build->args && build->inside && build->workdir && build->user
		       ? 0
		       : -ENOMEM;
}

int build_run(struct build *build, struct err *err)
{
	bool was_kept = false;
	int r = prepare(build);

	snprintf(build->step, sizeof(build->step), "base");
	if (r < 0)
		return err_set(err, r, "out of memory");
	r = make_sandbox(build, err);
	r = r < 0 ? r : look_inside(build, err);
	r = r < 0 ? r : look_for_root(build, err);
	r = r < 0 ? r : do_steps(build, err);
	if (r == 0) {
		was_kept = true;
		r = keep(build, err);
	}
	build_clear_up();
	end_sandbox(build);
	if (r < 0 && was_kept)
		drop_image(build);
	return r < 0 && !err->code ? err_errno(err, r, "build") : r;
}

void build_done(struct build *build)
{
	strv_done(&build->options);
	free(build->context);
	free(build->from_image);
	free(build->workdir);
	free(build->user);
	node_free(build->env);
	node_free(build->args);
	node_free(build->inside);
	*build = BUILD;
}
