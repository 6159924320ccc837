#include "serve/agent.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "http/decode.h"
#include "serve/extra.h"

#define CODE_MAX 4095

/* "Basic " and base64 of "user:password", of which the password means nothing. */
static int basic_user(const struct text *field, char ret[static AGENT_USER])
{
	char text[2 * AGENT_USER + 8];
	long len;
	char *colon;

	ret[0] = '\0';
	if (!field || field->len < 6 || strncasecmp(field->data, "Basic ", 6) != 0)
		return 0;
	if (field->len - 6 > sizeof(text) / 2)
		return -EINVAL;
	len = base64_read(field->data + 6, field->len - 6, true, text);
	if (len < 0 || memchr(text, '\0', (size_t)len))
		return -EINVAL;
	text[len] = '\0';
	colon = strchr(text, ':');
	if (colon)
		*colon = '\0';
	if (strlen(text) >= AGENT_USER)
		return -EINVAL;
	snprintf(ret, AGENT_USER, "%.*s", AGENT_USER - 1, text);
	return 0;
}

int agent_user(const struct request *q, char ret[static AGENT_USER])
{
	const struct held *held = registry_find(q->serve->registry, q->sandbox, NULL);
	int r = query_get(q, "username", 0, ret, AGENT_USER);

	if (r == -ENOENT)
		r = basic_user(head_find(&q->x->head, "authorization"), ret);
	if (r < 0)
		return -EINVAL;
	for (const char *p = ret; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == ':' || *p == '/')
			return -EINVAL;
	if (!ret[0] && held && extra_text(held, "user", ret, AGENT_USER) < 0)
		ret[0] = '\0';
	return 0;
}

/* Of the template; else the user's home. */
static void default_directory(const struct request *q, char ret[static PATH_MAX])
{
	const struct held *held = registry_find(q->serve->registry, q->sandbox, NULL);

	if (!held || extra_text(held, "workdir", ret, PATH_MAX) < 0 || ret[0] != '/')
		snprintf(ret, PATH_MAX, ".");
}

int agent_path(const struct request *q, const char *given, char ret[static PATH_MAX],
	       struct err *err)
{
	if (!*given) {
		default_directory(q, ret);
		return 0;
	}
	if (given[0] == '~') {
		if (given[1] && given[1] != '/')
			return err_set(err, -EINVAL,
				       "\"%.100s\": the home of another user is not known here",
				       given);
		given += 1 + strspn(given + 1, "/");
		if (!*given)
			given = ".";
	}
	if (strlen(given) >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the path is too long");
	if (given[0] != '/')
		snprintf(ret, PATH_MAX, "%.*s", PATH_MAX - 1, given);
	else if (!path_resolve("/", given, ret, PATH_MAX))
		return err_set(err, -ENAMETOOLONG, "the path is too long");
	return 0;
}

void agent_address(struct draft *d, const struct agent_place *place)
{
	draft_text(d, FIELD_PATH, place->path);
	if (place->user[0])
		draft_text(d, FIELD_USER, place->user);
	draft_number(d, FIELD_BY_ROOT, 1);
}

int agent_error(const struct message *m, struct err *err)
{
	uint64_t code = message_number(m, FIELD_CODE, EIO);

	if (m->type != MESSAGE_ERROR)
		return err_set(err, -EPROTO, "the sandbox's init answers with %s",
			       message_name(m->type));
	return err_set(err, code == 0 || code > CODE_MAX ? -EIO : -(int)code, "%s",
		       message_text(m, FIELD_TEXT, "it failed"));
}

/* By init's words: it has no number of its own for it. */
static bool is_unknown_user(const struct err *err, const char *user)
{
	return user[0] &&
	       ((err->code == -EINVAL && str_starts(err->text, "there is no user ")) ||
		(err->code == -EPERM && str_starts(err->text, "this sandbox has one user")));
}

enum connect_code agent_code(const struct err *err, const char *user)
{
	if (err->code == -EKEYREJECTED || is_unknown_user(err, user))
		return CONNECT_UNAUTHENTICATED;
	return connect_of_errno(err->code);
}

static void answer_connect(struct request *q, enum connect_code code, const char *text)
{
	_cleanup_(buf_done) struct buf body = BUF(8 * KIB);

	if (connect_error(&body, code, text) < 0)
		exchange_abort(q->x);
	else
		exchange_answer(q->x, connect_status(code), "application/json", body.data,
				body.len);
}

void agent_fail(struct request *q, const struct err *err, const char *user)
{
	if (exchange_is_begun(q->x)) {
		exchange_abort(q->x);
		return;
	}
	if (q->refuse) {
		q->refuse(q, err);
		return;
	}
	if (agent_code(err, user) == CONNECT_UNAUTHENTICATED) {
		answer_error(q, 401, "invalid username: '%s'", user);
		return;
	}
	if (q->is_connect && err->code != -ESRCH)
		answer_connect(q, agent_code(err, user), err->text);
	else
		answer_err(q, err);
}

void agent_refuse(struct request *q, int code, const char *fmt, ...)
{
	struct err err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.text, sizeof(err.text), fmt, ap);
	va_end(ap);
	agent_fail(q, &err, "");
}

const struct node *agent_field(const struct node *body, const char *name, const char *other_name)
{
	const struct node *field = node_get(body, name);

	return field || !other_name ? field : node_get(body, other_name);
}

bool agent_flag(const struct node *body, const char *name, const char *other_name)
{
	const struct node *field = agent_field(body, name, other_name);

	return field && field->kind == NODE_BOOL && field->number;
}

const char *agent_text(const struct node *body, const char *name, const char *other_name)
{
	const struct node *field = agent_field(body, name, other_name);

	return field && field->kind == NODE_STRING ? field->text : "";
}

uint64_t agent_number(const struct node *body, const char *name, uint64_t fallback)
{
	const struct node *field = node_get(body, name);
	uint64_t value;

	if (field && field->kind == NODE_INT && field->number >= 0)
		return (uint64_t)field->number;
	if (field && field->kind == NODE_STRING && parse_count(field->text, &value, NULL) == 0)
		return value;
	return fallback;
}
