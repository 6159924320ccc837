#include "init/sudo_options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

/* What has no short form. */
enum { LONG_KEEP = 256 };

/* What a letter sets, or why it is refused; "" and no action: it has nothing to say here. */
static const struct row {
	int letter;
	const char *name; /* the long form */
	bool has_value;
	enum sudo_action action;
	const char *refusal;
} rows[] = {
	{ 'A', "askpass", false, SUDO_RUN, NULL },
	{ 'B', "bell", false, SUDO_RUN, NULL },
	{ 'b', "background", false, SUDO_RUN, "-b is not known here: use the shell's &" },
	{ 'C', "close-from", true, SUDO_RUN, NULL },
	{ 'D', "chdir", true, SUDO_RUN, NULL },
	{ 'E', "preserve-env", false, SUDO_RUN, NULL },
	{ 'e', "edit", false, SUDO_RUN, "-e is not known here: start an editor" },
	{ 'g', "group", true, SUDO_RUN,
	  "-g is not known here: a command has the group of its user, and no other" },
	{ 'H', "set-home", false, SUDO_RUN, NULL },
	{ 'h', "help", false, SUDO_HELP, NULL },
	{ 'i', "login", false, SUDO_RUN, NULL },
	{ 'K', "remove-timestamp", false, SUDO_NOTHING, NULL },
	{ 'k', "reset-timestamp", false, SUDO_NOTHING, NULL },
	{ 'l', "list", false, SUDO_LIST, NULL },
	{ 'n', "non-interactive", false, SUDO_RUN, NULL },
	{ 'P', "preserve-groups", false, SUDO_RUN, NULL },
	{ 'p', "prompt", true, SUDO_RUN, NULL },
	{ 'R', "chroot", true, SUDO_RUN, "-R is not known here" },
	{ 'S', "stdin", false, SUDO_RUN, NULL },
	{ 's', "shell", false, SUDO_RUN, NULL },
	{ 'T', "command-timeout", true, SUDO_RUN, "-T is not known here: use timeout" },
	{ 'U', "other-user", true, SUDO_RUN, NULL },
	{ 'u', "user", true, SUDO_RUN, NULL },
	{ 'V', "version", false, SUDO_VERSION, NULL },
	{ 'v', "validate", false, SUDO_NOTHING, NULL },
};

static const struct row *find(int letter)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].letter == letter)
			return &rows[i];
	return NULL;
}

/* The letters and the long forms, out of the table. */
static void describe(char letters[static 3 * ARRAY_SIZE(rows) + 3],
		     struct option longs[static ARRAY_SIZE(rows) + 1])
{
	size_t len = 0;

	letters[len++] = '+';
	letters[len++] = ':';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_keep = rows[i].letter == 'E';

		letters[len++] = (char)rows[i].letter;
		if (rows[i].has_value)
			letters[len++] = ':';
		longs[i] = (struct option){ .name = rows[i].name,
					    .has_arg = is_keep             ? optional_argument
						       : rows[i].has_value ? required_argument
									   : no_argument,
					    .val = is_keep ? LONG_KEEP : rows[i].letter };
	}
	letters[len] = '\0';
	longs[ARRAY_SIZE(rows)] = (struct option){ 0 };
}

static int take(struct sudo_options *o, int letter, struct err *err)
{
	const struct row *row = find(letter == LONG_KEEP ? 'E' : letter);

	if (!row)
		return err_set(err, -EINVAL,
			       letter == ':' ? "an option has no value"
					     : "an option that sudo does not have (sudo -h)");
	if (row->refusal)
		return err_set(err, -EINVAL, "%s", row->refusal);
	if (row->action != SUDO_RUN)
		o->action = row->action;
	o->keeps_all |= row->letter == 'E' && !(letter == LONG_KEEP && optarg);
	o->sets_home |= letter == 'H';
	o->is_login |= letter == 'i';
	o->is_shell |= letter == 's';
	if (letter == 'u')
		o->user = optarg;
	else if (letter == 'D')
		o->directory = optarg;
	else if (letter == LONG_KEEP && optarg)
		o->kept = optarg;
	return 0;
}

static bool is_variable(const char *word)
{
	const char *p = word;

	while (isalnum((unsigned char)*p) || *p == '_')
		p++;
	return p > word && *p == '=' && !isdigit((unsigned char)word[0]);
}

/* What contradicts itself, or has nothing to run. */
static int check(struct sudo_options *o, struct err *err)
{
	bool has_command = o->command[0] || o->is_login || o->is_shell;

	/* "sudo -k command" forgets what was never known, and runs it. */
	if (o->action == SUDO_NOTHING && has_command)
		o->action = SUDO_RUN;
	if (o->action == SUDO_RUN && o->is_login && o->is_shell)
		return err_set(err, -EINVAL, "-i and -s are two kinds of a shell: say one");
	if (o->action == SUDO_RUN && !has_command)
		return err_set(err, -EINVAL, "what should run? (sudo -h)");
	return 0;
}

int sudo_parse(int argc, char **argv, struct sudo_options *ret_options, struct err *err)
{
	char letters[3 * ARRAY_SIZE(rows) + 3];
	struct option longs[ARRAY_SIZE(rows) + 1];
	struct sudo_options o = { .action = SUDO_RUN };
	int letter, r = 0;

	describe(letters, longs);
	/* From the beginning: 0 also resets what the libcs keep. */
	optind = 0;
	opterr = 0;
	while (r == 0 && (letter = getopt_long(argc, argv, letters, longs, NULL)) != -1)
		r = take(&o, letter, err);
	if (r < 0)
		return r;
	o.variables = argv + optind;
	while (optind < argc && is_variable(argv[optind])) {
		o.variable_count++;
		optind++;
	}
	o.command = argv + optind;
	r = check(&o, err);
	if (r == 0)
		*ret_options = o;
	return r;
}

static bool is_named(const char *list, const char *name, size_t len)
{
	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");

		if (n == len && strncmp(p, name, len) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

bool sudo_keeps(const struct sudo_options *options, const char *variable)
{
	/* What a terminal and a language are does not depend on who one is. */
	static const char always[] = "TERM,COLORTERM,LANG,LANGUAGE,TZ,DISPLAY,NO_COLOR,FORCE_COLOR,"
				     "LS_COLORS,DEBIAN_FRONTEND";
	/* What says who one is comes with that. */
	static const char never[] = "USER,LOGNAME,SUDO_USER,SUDO_UID,SUDO_GID,SHELL";
	size_t len = strcspn(variable, "=");

	if (variable[len] != '=' || len == 0 || is_named(never, variable, len) ||
	    (options->sets_home && is_named("HOME", variable, len)))
		return false;
	if (is_named(options->kept, variable, len))
		return true;
	if (options->is_login)
		return is_named("TERM", variable, len);
	return options->keeps_all || is_named(always, variable, len) || str_starts(variable, "LC_");
}

int sudo_join(char *const *words, struct buf *out)
{
	for (char *const *word = words; *word; word++) {
		if (word > words)
			buf_char(out, ' ');
		for (const char *p = *word; *p; p++) {
			if (!isalnum((unsigned char)*p) && !strchr("_-$", *p))
				buf_char(out, '\\');
			buf_char(out, *p);
		}
	}
	return buf_failed(out);
}
