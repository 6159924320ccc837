/* v1_command.c - a command of a body: what to start, and what to feed it */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http/decode.h"
#include "serve/v1.h"

/* How code in a language becomes a command. */
static const struct {
	const char *language, *program, *option;
} languages[] = {
	{ "python", "python3", "-c" },
	{ "javascript", "node", "-e" },
	{ "bash", "bash", "-c" },
	{ "sh", "sh", "-c" },
};

static int add_command(const struct node *list, struct strv *argv, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < list->count && r == 0; i++)
		r = strv_add(argv, list->entries[i].value->text);
	if (r == 0 && list->entries[0].value->text[0] == '\0')
		return err_set(err, -EINVAL, "command[0]: there is no program with an empty name");
	return r;
}

static int add_code(const char *code, const char *language, struct strv *argv)
{
	size_t i = 0;
	int r;

	while (i < ARRAY_SIZE(languages) - 1 && strcmp(languages[i].language, language) != 0)
		i++;
	r = strv_add(argv, languages[i].program);
	r = r < 0 ? r : strv_add(argv, languages[i].option);
	return r < 0 ? r : strv_add(argv, code);
}

static int read_argv(const struct node *body, struct strv *argv, struct err *err)
{
	const struct node *command = node_get(body, "command");
	const char *code = doc_text(body, "code", NULL);

	if (command && node_get(body, "language"))
		return err_set(err, -EINVAL, "language: it belongs to \"code\"");
	return command ? add_command(command, argv, err)
		       : add_code(code, doc_text(body, "language", "python"), argv);
}

static int add_variables(const struct node *map, struct strv *env)
{
	int r = 0;

	for (size_t i = 0; map && i < map->count && r == 0; i++) {
		const struct node_entry *entry = &map->entries[i];
		_cleanup_(buf_done) struct buf text = BUF(MESSAGE_MAX);

		r = buf_printf(&text, "%s=%s", entry->key, entry->value->text);
		r = r < 0 ? r : strv_add(env, buf_text(&text));
	}
	return r;
}

static int read_input(const struct node *body, struct v1_command *command, struct err *err)
{
	const struct node *text = node_get(body, "stdin"), *code = node_get(body, "stdin_base64");
	_cleanup_free_ char *bytes = NULL;
	long len;

	if (text && code)
		return err_set(err, -EINVAL, "one of \"stdin\" and \"stdin_base64\" is wanted");
	command->has_input = text || code;
	if (text)
		return buf_add(&command->input, text->text, text->len);
	if (!code)
		return 0;
	bytes = malloc(code->len / 4 * 3 + 3);
	len = bytes ? base64_read(code->text, code->len, false, bytes) : -ENOMEM;
	if (len == -EINVAL)
		return err_set(err, -EINVAL, "stdin_base64: it is no base64");
	return len < 0 ? (int)len : buf_add(&command->input, bytes, (size_t)len);
}

void v1_command_done(struct v1_command *command)
{
	strv_done(&command->argv);
	strv_done(&command->env);
	buf_done(&command->input);
}

int v1_command_read(struct serve *serve, const struct node *body, const struct held *held,
		    uint64_t default_timeout_s, struct v1_command *ret_command, struct err *err)
{
	struct v1_command command = {
		.cwd = doc_text(body, "cwd", NULL),
		.user = doc_text(body, "user", NULL),
		.input = BUF(SERVE_JSON_MAX),
		.timeout_ms =
			(uint64_t)(doc_number(body, "timeout", (double)default_timeout_s) * 1000),
	};
	int r = read_argv(body, &command.argv, err);

	r = r < 0 || !held ? r : exec_environment(serve, held, &command.env);
	r = r < 0 ? r : add_variables(node_get(body, "env"), &command.env);
	r = r < 0 ? r : read_input(body, &command, err);
	if (r < 0) {
		v1_command_done(&command);
		return err->code ? r : err_errno(err, r, "the command cannot be read");
	}
	*ret_command = command;
	return 0;
}
