#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "policy/keys.h"

const struct verb *const verb_table[] = {
	&verb_run,        &verb_create, &verb_exec,     &verb_attach,   &verb_logs,   &verb_ps,
	&verb_stats,      &verb_cp,     &verb_port,     &verb_net,      &verb_pause,  &verb_resume,
	&verb_extend,     &verb_kill,   &verb_snapshot, &verb_image,    &verb_diff,   &verb_export,
	&verb_events,     &verb_serve,  &verb_key,      &verb_template, &verb_policy, &verb_doctor,
	&verb_completion, &verb_manual, &verb_version,  &verb_help,
};

int complain(const struct err *err)
{
	fprintf(stderr, "brig: %s\n", err->text);
	return EXIT_BRIG;
}

int complain_text(const char *fmt, ...)
{
	struct err err = ERR_NONE;
	char text[sizeof(err.text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&err, -EINVAL, "%s", text);
	return complain(&err);
}

int print_json(const struct node *node)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	int r = json_write(node, false, &text);

	r = r < 0 ? r : buf_char(&text, '\n');
	r = r < 0 ? r : fd_write_all(1, buf_text(&text), text.len);
	if (r == -EPIPE)
		return 0;
	return r < 0 ? complain_text("cannot write the result: %s", strerror(-r)) : 0;
}

static const struct option *find_option(const struct verb *verb, const char *name)
{
	for (const struct option *o = verb->options; o && o->name; o++)
		if (str_equal(o->name, name))
			return o;
	return NULL;
}

static int unknown_option(const struct verb *verb, const char *name, struct err *err)
{
	const char *names[96], *nearest;
	size_t count = 0;

	for (const struct option *o = verb->options; o && o->name; o++)
		names[count++] = o->name;
	for (size_t i = 0; verb->takes_policy && i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++)
			names[count++] = policy_keys[i].flags[k].name;
	nearest = str_nearest(name, names, count);
	if (nearest)
		return err_set(err, -EINVAL, "unknown option \"--%s\", did you mean \"--%s\"?",
			       name, nearest);
	return err_set(err, -EINVAL, "unknown option \"--%s\" (see \"brig help %s\")", name,
		       verb->name);
}

/* One option as both forms come to it: what a person wrote, and what may stand behind it. */
struct written {
	const char *name, *text; /* "user"; "--user" or "-u" */
	const char *argument;    /* NULL: a switch */
	const char *joined;      /* a value in the same word, or NULL */
};

static int take_value(struct args *args, const struct written *w, const char **ret_name,
		      const char **ret_value, struct err *err)
{
	const char *value = NULL;

	if (!w->argument && w->joined)
		return err_set(err, -EINVAL, "%s takes no value", w->text);
	if (w->argument) {
		value = w->joined ?: args->at < args->argc ? args->argv[args->at++] : NULL;
		if (!value)
			return err_set(err, -EINVAL, "%s needs %s", w->text, w->argument);
	}
	*ret_name = w->name;
	*ret_value = value;
	return 1;
}

static int take_long(struct args *args, const struct verb *verb, const char **ret_name,
		     const char **ret_value, struct err *err)
{
	static char text[64];
	const char *word = args->argv[args->at], *equal = strchr(word, '=');
	const struct key_flag *flag = NULL;
	const struct option *option;
	struct written w = { .name = text + 2, .text = text, .joined = equal ? equal + 1 : NULL };

	snprintf(text, sizeof(text), "%.*s", equal ? (int)(equal - word) : (int)sizeof(text), word);
	option = find_option(verb, w.name);
	if (!option && !(verb->takes_policy && key_of_flag(w.name, &flag)))
		return unknown_option(verb, w.name, err);
	w.argument = option ? option->argument : flag->argument;
	args->at++;
	return take_value(args, &w, ret_name, ret_value, err);
}

static const struct option *find_letter(const struct verb *verb, char letter)
{
	for (const struct option *o = verb->options; o && o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static int take_letter(struct args *args, const struct verb *verb, const char **ret_name,
		       const char **ret_value, struct err *err)
{
	const char *rest = args->argv[args->at] + 1 + args->letter;
	const char text[] = { '-', rest[0], '\0' };
	const struct option *option = find_letter(verb, rest[0]);
	struct written w = { .text = text };

	if (!option && args->letter == 0)
		return err_set(err, -EINVAL, "unknown option \"%s\" (see \"brig help %s\")",
			       args->argv[args->at], verb->name);
	if (!option)
		return err_set(err, -EINVAL, "unknown option \"%s\" in \"%s\"", text,
			       args->argv[args->at]);
	w.name = option->name;
	w.argument = option->argument;
	if (!w.argument && rest[1]) {
		args->letter++;
	} else {
		w.joined = rest[1] ? rest + 1 : NULL;
		args->letter = 0;
		args->at++;
	}
	return take_value(args, &w, ret_name, ret_value, err);
}

int args_next(struct args *args, const struct verb *verb, const char **ret_name,
	      const char **ret_value, struct err *err)
{
	const char *word = args->at < args->argc ? args->argv[args->at] : NULL;

	if (!word || word[0] != '-' || word[1] == '\0')
		return 0;
	if (str_equal(word, "--")) {
		args->at++;
		return 0;
	}
	return word[1] == '-' ? take_long(args, verb, ret_name, ret_value, err)
			      : take_letter(args, verb, ret_name, ret_value, err);
}

bool is_help(const char *word)
{
	return str_equal(word, "--help") || str_equal(word, "-h");
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verb_table); i++)
		if (str_equal(verb_table[i]->name, name))
			return verb_table[i];
	return NULL;
}

const struct verb *verb_find(const char *name, struct err *err)
{
	const struct verb *verb = find_verb(name);
	const char *names[ARRAY_SIZE(verb_table)], *nearest;

	if (verb)
		return verb;
	for (size_t i = 0; i < ARRAY_SIZE(verb_table); i++)
		names[i] = verb_table[i]->name;
	nearest = str_nearest(name, names, ARRAY_SIZE(names));
	if (nearest)
		err_set(err, -EINVAL, "unknown command \"%s\", did you mean \"%s\"?", name,
			nearest);
	else
		err_set(err, -EINVAL, "unknown command \"%s\" (see \"brig help\")", name);
	return NULL;
}

size_t verb_list(const struct verb *const **ret_verbs)
{
	*ret_verbs = verb_table;
	return ARRAY_SIZE(verb_table);
}

/* HOME may be unset or wrong; the rules that protect a home must hold all the same. */
static bool home_of_user(char path[static PATH_MAX])
{
	const struct passwd *user = getpwuid(geteuid());

	return user && user->pw_dir && user->pw_dir[0] == '/' && realpath(user->pw_dir, path);
}

int policy_env_here(struct policy_env *ret_env, struct err *err)
{
	static char cwd[PATH_MAX], home[PATH_MAX], config[PATH_MAX];
	const char *value = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	struct policy_env env = { .cwd = cwd };

	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		return err_errno(err, -errno, "cannot tell the working directory");
	/* Resolved, so that rules for a home behind a symbolic link mean the same files as the
	 * working directory. */
	if ((value && value[0] == '/' && realpath(value, home)) || home_of_user(home))
		env.home = home;
	if (xdg && xdg[0] == '/')
		snprintf(config, sizeof(config), "%s/brig", xdg);
	else if (env.home)
		snprintf(config, sizeof(config), "%.4000s/.config/brig", home);
	env.config_home = config[0] ? config : NULL;
	*ret_env = env;
	return 0;
}
