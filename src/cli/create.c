/* create.c - brig create: a sandbox that lives, with a warden of its own in the background */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/creation.h"
#include "data/yaml.h"
#include "warden/manifest.h"

#define SWEEP_EVERY 8
#define SWEEP_MAX   64 /* other sandboxes that such a start looks after */

static int print_created(const struct creation *c, const struct buf *text)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	struct err err = ERR_NONE;
	const struct node *id;

	if (yaml_parse("the manifest", buf_text(text), text->len, &manifest, &err) < 0)
		return complain(&err);
	if (c->json)
		return print_json(manifest);
	id = node_get(manifest, "id");
	if (!id || id->kind != NODE_STRING)
		return complain_text("the warden did not tell the id of the sandbox");
	return printf("%s\n", id->text) < 0 || fflush(stdout) != 0
		       ? complain_text("cannot print the id %s", id->text)
		       : 0;
}

/* A warden in the background, and what it told: about the sandbox, or why there is none. */
static int start_warden(struct creation *c, struct buf *news, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	int r = creation_start(c, &fd);

	buf_reset(news);
	r = r < 0 ? r : fd_read_all(fd, news);
	return r < 0 ? err_errno(err, r, "cannot start a warden") : creation_judge(c, news, err);
}

static int create_sandbox(struct creation *c)
{
	_cleanup_(buf_done) struct buf text = BUF(CREATION_NEWS_MAX);
	struct err err = ERR_NONE;
	int r;

	do
		r = start_warden(c, &text, &err);
	while (r == -EAGAIN && !err.code);
	r = r < 0 ? complain(&err) : print_created(c, &text);
	/* One in so many: among a thousand sandboxes a look around takes as long as a start. */
	if (getpid() % SWEEP_EVERY == 0)
		roster_sweep(SWEEP_MAX);
	return r;
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *schema = NULL;

	return manifest_schema(&schema) < 0 ? complain_text("out of memory") : print_json(schema);
}

static int verb_create_main(int argc, char **argv)
{
	static struct creation creation;
	struct err err = ERR_NONE;
	struct policy_env env;
	int r = creation_read(&creation, argc, argv, &err);

	if (r == 0 && creation.help) {
		print_help(&verb_create);
		return 0;
	}
	if (r == 0 && creation.schema)
		return print_schema();
	r = r < 0 ? r : policy_env_here(&env, &err);
	r = r < 0 ? r : creation_load(&creation, &env, &err);
	r = r < 0 ? complain(&err) : create_sandbox(&creation);
	creation_done(&creation);
	return r;
}

const struct verb verb_create = {
	.name = "create",
	.usage = "[options]",
	.summary = "make a sandbox that lives, and print its id",
	.text = "Makes a sandbox with the walls that the policy asks for and leaves it there, with "
		"nothing running in it. A warden of its own looks after it in the background; no "
		"daemon is needed. Programs are started in it with \"brig exec\", files go in and "
		"out with \"brig cp\", and it ends with \"brig kill\", at its time limit (--wall), "
		"when nobody wanted anything of it for the time of --idle, or with its warden.\n\n"
		"Whoever makes sandboxes for several parties keeps them apart with --slice: all "
		"cgroups of a slice are below one directory, \"brig-slice-NAME\", and no two "
		"slices of root's are given the same user ids while the machine runs (as long as "
		"there are fewer than 500). --within and --at-least are bounds for what others "
		"ask for: no option and no policy widens them.\n\n"
		"The policy is found as by \"brig run\". The id, its beginning, and the name are "
		"good for every other command.",
	.example = "id=$(brig create --allow-net api.github.com:443)\n"
		   "brig exec $id -- python3 -c 'print(6 * 7)'\n"
		   "brig kill $id",
	.options = creation_options,
	.takes_policy = true,
	.run = verb_create_main,
};
