#include "cli/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "cli/expand.h"

#define WORDS_MAX 4096 /* of one line */

const char *const step_names[STEP_KINDS] = {
	[STEP_RUN] = "RUN", [STEP_COPY] = "COPY",       [STEP_ENV] = "ENV",
	[STEP_ARG] = "ARG", [STEP_WORKDIR] = "WORKDIR", [STEP_USER] = "USER",
};

static void step_done(struct build_step *step)
{
	strv_done(&step->args);
	free(step->user);
	free(step->owner);
	free(step->mode);
	free(step->archive);
}

void build_plan_done(struct build_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		step_done(&plan->steps[i]);
	free(plan->steps);
	free(plan->from);
	free(plan->start);
	free(plan->ready);
	strv_done(&plan->notes);
	*plan = BUILD_PLAN;
}

/* Takes the step. */
static int plan_add(struct build_plan *plan, struct build_step *step)
{
	struct build_step *steps =
		plan->count >= BUILD_STEPS_MAX
			? NULL
			: reallocarray(plan->steps, plan->count + 1, sizeof(*steps));

	if (!steps) {
		step_done(step);
		return plan->count >= BUILD_STEPS_MAX ? -E2BIG : -ENOMEM;
	}
	plan->steps = steps;
	plan->steps[plan->count++] = *step;
	return 0;
}

/* --- words --- */

struct reader {
	const char *name; /* of the file */
	unsigned int line;
	struct build_plan *plan;
	struct node *args;            /* ARG before FROM */
	struct node *entry, *command; /* ENTRYPOINT and CMD: text, or a list of words */
	bool has_from;
	struct err *err;
};

static int wrong(struct reader *r, const char *fmt, ...) _printf_(2, 3);
static int wrong(struct reader *r, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	str_make_printable(text);
	return err_set(r->err, -EINVAL, "%s:%u: %s", r->name, r->line, text);
}

/*
 * One word with its quotes taken away. Within '...' nothing is a variable, so a dollar there becomes "\$"; other
 * backslashes before a dollar stay for when variables are put in. -ENOENT: there is none.
 */
static int next_word(struct reader *r, const char **at, struct buf *word)
{
	const char *p = *at + strspn(*at, " \t");
	char quote = 0;

	buf_reset(word);
	if (!*p)
		return -ENOENT;
	for (; *p && (quote || (*p != ' ' && *p != '\t')); p++) {
		if (!quote && (*p == '"' || *p == '\''))
			quote = *p;
		else if (*p == quote)
			quote = 0;
		else if (*p == '\\' && quote != '\'' && p[1] && p[1] != '$')
			buf_char(word, *++p);
		else if (*p == '\\' && quote != '\'' && p[1] == '$')
			buf_add(word, p++, 2);
		else if (*p == '$' && quote == '\'')
			buf_str(word, "\\$");
		else
			buf_char(word, *p);
	}
	*at = p;
	if (quote)
		return wrong(r, "a %s has no end", quote == '"' ? "\" quote" : "' quote");
	return buf_failed(word);
}

static int take_words(struct reader *r, const char *text, struct strv *words)
{
	_cleanup_(buf_done) struct buf word = BUF(DOCKERFILE_MAX);
	int n;

	while ((n = next_word(r, &text, &word)) == 0) {
		if (words->count >= WORDS_MAX)
			return wrong(r, "more than %d words", WORDS_MAX);
		n = strv_add(words, buf_text(&word));
		if (n < 0)
			return n;
	}
	return n == -ENOENT ? 0 : n;
}

/* The form ["a", "b"]; -ENOENT: it is not that. */
static int take_list(const char *text, struct strv *words)
{
	_cleanup_(node_freep) struct node *list = NULL;
	struct err err = ERR_NONE;
	int r = 0;

	if (text[0] != '[' || json_read(text, strlen(text), NULL, &list, &err) < 0)
		return -ENOENT;
	for (size_t i = 0; i < list->count; i++)
		if (list->entries[i].value->kind != NODE_STRING)
			return -ENOENT;
	for (size_t i = 0; i < list->count && r == 0; i++)
		r = strv_add(words, list->entries[i].value->text);
	return r;
}

/* "--name=value" in front; *at is behind it then. */
static int take_flag(struct reader *r, const char **at, const char *name, char **ret_value)
{
	_cleanup_(buf_done) struct buf word = BUF(DOCKERFILE_MAX);
	const char *p = *at;
	size_t len = strlen(name);
	int n;

	if (!str_starts(p, "--") || strncmp(p + 2, name, len) != 0 || p[2 + len] != '=')
		return 0;
	n = next_word(r, &p, &word);
	if (n < 0)
		return n;
	free(*ret_value);
	*ret_value = strdup(buf_text(&word) + 3 + len);
	*at = p + strspn(p, " \t");
	return *ret_value ? 1 : -ENOMEM;
}

static bool is_variable(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return len > 0 && !isdigit((unsigned char)text[0]);
}

static bool has_heredoc(const char *text)
{
	for (const char *p = text; (p = strstr(p, "<<")); p += 2) {
		const char *q = p + 2 + (p[2] == '-');

		if (p[2] == '<') { /* of bash: a word, not lines */
			p++;
			continue;
		}
		q += *q == '"' || *q == '\'';
		if (isalpha((unsigned char)*q) || *q == '_')
			return true;
	}
	return false;
}

/* --- instructions --- */

static int add_step(struct reader *r, struct build_step *step)
{
	int n;

	step->line = r->line;
	n = plan_add(r->plan, step);
	return n == -E2BIG ? wrong(r, "more than %d steps", BUILD_STEPS_MAX) : n;
}

static int take_from(struct reader *r, const char *text)
{
	_cleanup_(strv_done) struct strv words = { 0 };
	int n;

	if (r->has_from)
		return wrong(r, "a second FROM: builds in several stages are not supported");
	if (str_starts(text, "--platform="))
		text += strcspn(text, " \t");
	n = take_words(r, text, &words);
	if (n < 0)
		return n;
	if (words.count != 1 && !(words.count == 3 && strcasecmp(words.items[1], "AS") == 0))
		return wrong(r, "FROM wants one name: a template, or \"" BUILD_BASE "\"");
	r->has_from = true;
	return expand_text(words.items[0], (const struct node *const[]){ r->args }, 1,
			   &r->plan->from);
}

static int take_run(struct reader *r, const char *text)
{
	struct build_step step = { .kind = STEP_RUN };
	int n;

	if (str_starts(text, "--"))
		return wrong(r, "RUN takes no \"%.*s\" here", (int)strcspn(text, " \t="), text);
	if (has_heredoc(text))
		return wrong(r, "RUN with a heredoc (<<) is not supported: put the lines into a "
				"file and COPY it");
	n = take_list(text, &step.args);
	step.is_exec = n == 0;
	if (n == -ENOENT)
		n = strv_add(&step.args, text);
	if (n == 0 && (step.args.count == 0 || !step.args.items[0][0]))
		n = wrong(r, "RUN without a command");
	if (n == 0)
		return add_step(r, &step);
	step_done(&step);
	return n;
}

static int take_copy_flags(struct reader *r, const char **at, struct build_step *step)
{
	int n = 1;

	while (n > 0 && str_starts(*at, "--")) {
		n = take_flag(r, at, "chown", &step->owner);
		n = n == 0 ? take_flag(r, at, "chmod", &step->mode) : n;
		if (n == 0 && str_starts(*at, "--from"))
			return wrong(r,
				     "COPY --from: other images and stages cannot be copied from");
		if (n == 0)
			return wrong(r, "COPY takes no \"%.*s\" here", (int)strcspn(*at, " \t="),
				     *at);
	}
	if (n >= 0 && step->mode && step->mode[strspn(step->mode, "01234567")])
		return wrong(r, "--chmod wants an octal number such as 0644, not \"%.20s\"",
			     step->mode);
	return n < 0 ? n : 0;
}

static int fill_copy(struct reader *r, const char *text, struct build_step *step)
{
	int n = take_copy_flags(r, &text, step);

	if (n < 0)
		return n;
	if (has_heredoc(text))
		return wrong(r, "COPY with a heredoc (<<) is not supported");
	n = take_list(text, &step->args);
	n = n == -ENOENT ? take_words(r, text, &step->args) : n;
	if (n == 0 && step->args.count < 2)
		return wrong(r, "COPY wants what to copy, and where to");
	return n;
}

static int take_copy(struct reader *r, const char *text)
{
	struct build_step step = { .kind = STEP_COPY };
	int n = fill_copy(r, text, &step);

	if (n == 0)
		return add_step(r, &step);
	step_done(&step);
	return n;
}

static int take_add(struct reader *r, const char *text)
{
	if (strstr(text, "://") || strstr(text, "git@"))
		return wrong(r, "ADD from the network is not supported: fetch it with RUN");
	return take_copy(r, text);
}

static int split_variable(struct reader *r, const char *word, struct strv *args, bool needs_value)
{
	size_t len = strcspn(word, "=");
	_cleanup_free_ char *name = strndup(word, len);
	int n;

	if (!name)
		return -ENOMEM;
	if (!is_variable(word, len) || (needs_value && word[len] != '='))
		return wrong(r, "\"%.40s\" is not NAME=VALUE", word);
	n = strv_add(args, name);
	return n < 0 ? n : strv_add(args, word[len] ? word + len + 1 : "");
}

/* "ENV a=1 b=2", and the old form "ENV a all of this". */
static int fill_env(struct reader *r, const char *text, struct strv *args)
{
	_cleanup_(strv_done) struct strv words = { 0 };
	size_t len = strcspn(text, " \t=");
	int n = 0;

	if (text[len] == ' ' || text[len] == '\t') {
		_cleanup_free_ char *name = strndup(text, len);

		if (!is_variable(text, len))
			return wrong(r, "\"%.*s\" cannot be a variable's name",
				     (int)MIN(len, (size_t)40), text);
		n = name ? strv_add(args, name) : -ENOMEM;
		return n < 0 ? n : strv_add(args, text + len + strspn(text + len, " \t"));
	}
	n = take_words(r, text, &words);
	for (size_t i = 0; i < words.count && n == 0; i++)
		n = split_variable(r, words.items[i], args, true);
	return n == 0 && args->count == 0 ? wrong(r, "ENV wants NAME=VALUE") : n;
}

static int take_env(struct reader *r, const char *text)
{
	struct build_step step = { .kind = STEP_ENV };
	int n = fill_env(r, text, &step.args);

	if (n == 0)
		return add_step(r, &step);
	step_done(&step);
	return n;
}

static int take_arg(struct reader *r, const char *text)
{
	struct build_step step = { .kind = STEP_ARG };
	_cleanup_(strv_done) struct strv words = { 0 };
	int n = take_words(r, text, &words);

	for (size_t i = 0; i < words.count && n == 0; i++)
		n = split_variable(r, words.items[i], &step.args, false);
	/* As it is written: a value may be of another ARG. */
	for (size_t i = 0; !r->has_from && i + 1 < step.args.count && n == 0; i += 2)
		n = node_set(r->args, step.args.items[i], node_string(step.args.items[i + 1]));
	if (n == 0 && step.args.count == 0)
		n = wrong(r, "ARG wants NAME or NAME=VALUE");
	if (n == 0 && r->has_from)
		return add_step(r, &step);
	step_done(&step);
	return n;
}

static int take_one(struct reader *r, const char *text, enum step_kind kind)
{
	struct build_step step = { .kind = kind };
	int n = take_words(r, text, &step.args);

	if (n == 0 && (step.args.count != 1 || !step.args.items[0][0]))
		n = wrong(r, "%s wants one word", step_names[kind]);
	if (n == 0)
		return add_step(r, &step);
	step_done(&step);
	return n;
}

static int take_workdir(struct reader *r, const char *text)
{
	return take_one(r, text, STEP_WORKDIR);
}

static int take_user(struct reader *r, const char *text)
{
	return take_one(r, text, STEP_USER);
}

/* --- what is started --- */

/* A word as a shell reads it back. */
static int quote(const char *word, struct buf *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_@%+=:,./-";

	if (word[0] && !word[strspn(word, plain)])
		return buf_str(text, word);
	buf_char(text, '\'');
	for (; *word; word++)
		if (*word == '\'')
			buf_str(text, "'\\''");
		else
			buf_char(text, *word);
	return buf_char(text, '\'');
}

static int take_command(const char *text, struct node **place)
{
	_cleanup_(strv_done) struct strv words = { 0 };
	_cleanup_(buf_done) struct buf line = BUF(2 * DOCKERFILE_MAX);
	int n = take_list(text, &words);

	if (n < 0 && n != -ENOENT)
		return n;
	for (size_t i = 0; n == 0 && i < words.count; i++) {
		if (i > 0)
			buf_char(&line, ' ');
		(void)!quote(words.items[i], &line);
	}
	if (n == -ENOENT)
		buf_str(&line, text);
	node_free(*place);
	*place = buf_failed(&line) ? NULL : node_string(buf_text(&line));
	if (*place && n == 0)
		(*place)->number = 1; /* words, which others may follow */
	return *place ? 0 : -ENOMEM;
}

static int take_cmd(struct reader *r, const char *text)
{
	return take_command(text, &r->command);
}

static int take_entrypoint(struct reader *r, const char *text)
{
	return take_command(text, &r->entry);
}

/* The command's words are the entry point's arguments where both are lists. */
static int set_start(struct reader *r)
{
	_cleanup_(buf_done) struct buf line = BUF(4 * DOCKERFILE_MAX);
	const struct node *first = r->entry ? r->entry : r->command;

	if (!first || !first->text[0])
		return 0;
	buf_str(&line, first->text);
	if (r->entry && r->command && r->entry->number && r->command->number)
		buf_printf(&line, " %s", r->command->text);
	r->plan->start = buf_failed(&line) ? NULL : buf_take(&line);
	return r->plan->start ? 0 : -ENOMEM;
}

static int take_nothing(struct reader *r, const char *text)
{
	char note[96];

	(void)text;
	snprintf(note, sizeof(note), "line %u changes nothing here, and is passed over", r->line);
	return strv_add(&r->plan->notes, note);
}

static int take_refused(struct reader *r, const char *text)
{
	(void)text;
	return wrong(r, "this instruction is not supported");
}

static const struct instruction {
	const char *name;
	int (*take)(struct reader *r, const char *text);
} instructions[] = {
	{ "FROM", take_from },
	{ "RUN", take_run },
	{ "COPY", take_copy },
	{ "ADD", take_add },
	{ "ENV", take_env },
	{ "ARG", take_arg },
	{ "WORKDIR", take_workdir },
	{ "USER", take_user },
	{ "CMD", take_cmd },
	{ "ENTRYPOINT", take_entrypoint },
	{ "EXPOSE", take_nothing },
	{ "LABEL", take_nothing },
	{ "MAINTAINER", take_nothing },
	{ "VOLUME", take_nothing },
	{ "STOPSIGNAL", take_nothing },
	{ "HEALTHCHECK", take_nothing },
	{ "SHELL", take_refused },
	{ "ONBUILD", take_refused },
};

static int take_line(struct reader *r, const char *text)
{
	size_t len = strcspn(text, " \t");
	const char *rest = text + len + strspn(text + len, " \t");

	for (size_t i = 0; i < ARRAY_SIZE(instructions); i++) {
		if (strlen(instructions[i].name) != len ||
		    strncasecmp(text, instructions[i].name, len) != 0)
			continue;
		if (!r->has_from && instructions[i].take != take_from &&
		    instructions[i].take != take_arg)
			return wrong(r, "%s before FROM", instructions[i].name);
		if (!*rest)
			return wrong(r, "%s has nothing behind it", instructions[i].name);
		return instructions[i].take(r, rest);
	}
	return wrong(r, "\"%.*s\" is no instruction of a Dockerfile", (int)MIN(len, (size_t)40),
		     text);
}

/* --- lines --- */

static bool is_comment(const char *line, size_t len)
{
	size_t i = 0;

	while (i < len && (line[i] == ' ' || line[i] == '\t'))
		i++;
	return i < len && line[i] == '#';
}

static size_t trimmed(const char *line, size_t len)
{
	while (len > 0 && strchr(" \t\r", line[len - 1]) && line[len - 1])
		len--;
	return len;
}

/* One line of the file behind what is there; true: the instruction goes on in the next one. */
static bool join(struct buf *text, const char *line, size_t len)
{
	size_t end = trimmed(line, len), begin = 0;
	bool goes_on = end > 0 && line[end - 1] == '\\';

	if (text->len == 0)
		while (begin < end && (line[begin] == ' ' || line[begin] == '\t'))
			begin++;
	if (goes_on)
		end--;
	buf_add(text, line + begin, end > begin ? end - begin : 0);
	return goes_on;
}

static int read_lines(struct reader *r, const char *text, size_t len)
{
	_cleanup_(buf_done) struct buf joined = BUF(DOCKERFILE_MAX);
	const char *end = text + len;
	unsigned int number = 0;
	bool goes_on = false;
	int n = 0;

	for (const char *line = text; line < end && n == 0;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t size = (size_t)((stop ? stop : end) - line);

		number++;
		if (!goes_on)
			r->line = number;
		/* Comments and empty lines do not end what goes on. */
		if (!is_comment(line, size) && trimmed(line, size) > 0) {
			goes_on = join(&joined, line, size);
			n = buf_failed(&joined);
		}
		line = stop ? stop + 1 : end;
		if (n == 0 && joined.len > 0 && (!goes_on || line == end)) {
			n = take_line(r, buf_text(&joined));
			buf_reset(&joined);
			goes_on = false;
		}
	}
	return n;
}

int dockerfile_read(const char *name, const char *text, size_t len, struct build_plan *ret_plan,
		    struct err *err)
{
	struct build_plan plan = BUILD_PLAN;
	struct reader r = {
		.name = name, .line = 1, .plan = &plan, .args = node_map(), .err = err
	};
	int n = r.args ? 0 : -ENOMEM;

	if (memchr(text, '\0', len) || len > DOCKERFILE_MAX)
		n = wrong(&r, "this is no Dockerfile: %s",
			  len > DOCKERFILE_MAX ? "it is too long" : "it has a NUL in it");
	n = n < 0 ? n : read_lines(&r, text, len);
	if (n == 0 && !r.has_from)
		n = wrong(&r, "there is no FROM");
	n = n < 0 ? n : set_start(&r);
	node_free(r.args);
	node_free(r.entry);
	node_free(r.command);
	if (n < 0) {
		build_plan_done(&plan);
		return err->code ? n : err_errno(err, n, "%s", name);
	}
	*ret_plan = plan;
	return 0;
}
