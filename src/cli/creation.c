#include "cli/creation.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/title.h"
#include "jail/cgroup.h"
#include "jail/ids.h"
#include "proto/message.h"
#include "trace/home.h"
#include "warden/warden.h"

const struct option creation_options[] = {
	GRANT_POLICY,
	{ 0, "name", "NAME", "a name for it, as good as its id" },
	{ 0, "tag", "NAME", "kept in its description, for whoever makes many to tell his own" },
	{ 0, "from", "NAME", "start from image NAME: its files are there, and stay as they are" },
	{ 0, "idle", "DURATION", "end it when nobody wanted anything of it for so long" },
	{ 0, "json", NULL, "print one JSON object that describes it" },
	GRANT_WEAKEN,
	GRANT_BOUNDS,
	{ 0, "slice", "NAME", "whose it is: a slice has its own cgroup and, of root, its own ids" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

static int set_name(char place[static ROSTER_NAME_MAX + 1], const char *value, struct err *err)
{
	if (!roster_name_is_valid(value))
		return err_set(
			err, -EINVAL,
			"\"%s\" cannot be a name: letters, digits, \".\", \"_\" and \"-\", %d "
			"at most",
			value, ROSTER_NAME_MAX);
	snprintf(place, ROSTER_NAME_MAX + 1, "%s", value);
	return 0;
}

/* Two state directories may have slices of the same name. */
static int set_slice(struct creation *c, const char *value, struct err *err)
{
	char home[PATH_MAX];
	int r = trace_home_path(home, err);

	if (r < 0)
		return r;
	if (!cgroup_slice_is_valid(value))
		return err_set(err, -EINVAL,
			       "--slice: \"%s\" is no name: letters, digits, \".\", \"_\" and "
			       "\"-\", %d at most",
			       value, CREATION_SLICE_SIZE - 1);
	snprintf(c->slice, sizeof(c->slice), "%s", value);
	c->owner = ids_owner(home, value);
	return 0;
}

static int set_option(struct creation *c, const char *name, const char *value, struct err *err)
{
	if (str_equal(name, "json"))
		c->json = true;
	else if (str_equal(name, "schema"))
		c->schema = true;
	else if (str_equal(name, "help"))
		c->help = true;
	else if (str_equal(name, "from"))
		c->from = value;
	else if (str_equal(name, "idle"))
		return parse_duration(value, &c->idle_ms, err);
	else if (str_equal(name, "name"))
		return set_name(c->name, value, err);
	else if (str_equal(name, "tag"))
		return set_name(c->tag, value, err);
	else if (str_equal(name, "slice"))
		return set_slice(c, value, err);
	else
		return grant_set(&c->grant, name, value, err);
	return 0;
}

int creation_read(struct creation *c, int argc, char **argv, struct err *err)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	const char *name, *value;
	int r;

	while ((r = args_next(&args, &verb_create, &name, &value, err)) > 0) {
		r = set_option(c, name, value, err);
		if (r < 0)
			return r;
	}
	if (r == 0 && args.at < argc)
		return err_set(err, -EINVAL,
			       "create: \"%s\" is too much: start programs with \"brig exec\"",
			       argv[args.at]);
	return r;
}

int creation_load(struct creation *c, const struct policy_env *env, struct err *err)
{
	const char *why;
	int r = grant_load(&c->grant, env, &c->policy, err);

	c->env = env;
	c->has_policy = r == 0;
	r = r < 0 ? r : tier_choose(&c->policy, &c->tier, &why, err);
	r = r < 0 || !c->from ? r : grant_from(c->from, &c->layers, err);
	/* Only where somebody reads it: the canonical form costs as much as the walls. */
	if (r == 0 && c->json)
		r = policy_digest(&c->policy, c->digest);
	if (r < 0 && !err->code)
		err_errno(err, r, "cannot load the policy");
	return r;
}

/* From the warden to who waits for it: the manifest, or the words of an error behind a '!'. */
static void tell(void *arg, const struct node *manifest, const struct err *err)
{
	_cleanup_(buf_done) struct buf text = BUF(CREATION_NEWS_MAX);
	int *news = arg, r;

	r = err ? buf_printf(&text, "!%s", err->text) : json_write(manifest, true, &text);
	r = r < 0 ? r : fd_write_all(*news, buf_text(&text), text.len);
	*news = fd_close(*news);
	/* As if somebody had asked for its end. */
	if (r < 0 && !err)
		(void)!kill(getpid(), SIGTERM);
}

/* Nothing of the caller's stays with us but where we tell how it went. */
static void detach(int news, const struct image_layers *layers)
{
	int null, keep[1 + 2 * IMAGE_LAYERS_MAX] = { news };
	size_t count = 1;

	for (size_t i = 0; layers && i < layers->count; i++) {
		keep[count++] = layers->items[i].dir;
		keep[count++] = layers->items[i].lock;
	}
	setsid();
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	fd_close_others(keep, count);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	title_set("brig-warden");
}

_Noreturn static void be_warden(const struct creation *c, int news)
{
	static char *const plain[] = { (char *)(uintptr_t) "brig-init", NULL };
	static char *const with_sudo[] = { (char *)(uintptr_t) "brig-init",
					   (char *)(uintptr_t) "--sudo",
					   (char *)(uintptr_t)INIT_SUDO_NAME, NULL };
	const struct warden_request request = { .policy = &c->policy,
						.env = c->env,
						.tier = c->tier,
						.weaken = c->grant.weaken,
						.lives = true,
						.name = c->name[0] ? c->name : NULL,
						.tag = c->tag[0] ? c->tag : NULL,
						.slice = c->slice[0] ? c->slice : NULL,
						.owner = c->owner,
						.idle_ms = c->idle_ms,
						.from = c->from ? &c->layers : NULL,
						.argv = c->policy.system == SYSTEM_OWN ? with_sudo
										       : plain,
						.environ = environ,
						.temporary = grant_temporary() };
	/* Of the one sandbox that this process makes. */
	static struct result result;
	static struct tier_jail tj;
	struct err err = ERR_NONE;
	int r;

	detach(news, request.from);
	result.isolation = isolation_names[c->tier->isolation];
	memcpy(result.policy, c->digest, sizeof(c->digest));
	r = warden_live(&request, &tj, &result, tell, &news, &err);
	if (news >= 0)
		tell(&news, NULL, &err);
	if (r == 0)
		warden_leave(&tj);
	_exit(r < 0 ? EXIT_BRIG : 0);
}

int creation_start(struct creation *c, int *ret_news)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	pid = sys_fork();
	if (pid < 0)
		return (int)pid;
	if (pid == 0)
		be_warden(c, theirs);
	*ret_news = take_fd(&ours);
	return 0;
}

int creation_judge(struct creation *c, const struct buf *news, struct err *err)
{
	const char *text = buf_text(news);
	const struct tier *instead;

	if (text[0] != '!' && news->len > 0)
		return 0;
	/* In a weaker tier, where the policy leaves the choice and this host cannot give the one that
	 * was tried. */
	if (c->tier->isolation != ISOLATION_PROCESS) {
		instead = grant_instead(&c->policy, c->tier, err);
		if (instead) {
			c->tier = instead;
			return -EAGAIN;
		}
		if (err->code)
			return err->code;
	}
	return err_set(err, -EIO, "%s",
		       news->len > 0 ? text + 1
				     : "the warden was killed before the sandbox was there");
}

void creation_done(struct creation *c)
{
	if (c->has_policy)
		policy_done(&c->policy);
	c->has_policy = false;
	grant_done(&c->grant);
	image_layers_done(&c->layers);
}
