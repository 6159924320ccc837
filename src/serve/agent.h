/*
 * agent.h - what the routes to a sandbox's files have in common
 *
 * They are E2B's: port 49983 of a sandbox, where its own agent (envd) would listen. Here the daemon answers, and
 * asks the sandbox's init; nothing is ever done with a path outside of the sandbox.
 *
 * envd acts as root and gives what it made to the user. Here the user acts, and where he has no right to, root of
 * the sandbox, if it has one (FIELD_BY_ROOT).
 */
#ifndef BRIG_SERVE_AGENT_H
#define BRIG_SERVE_AGENT_H

#include <limits.h>

#include "http/connect.h"
#include "serve/serve.h"

#define AGENT_USER 64

/* Who acts, on what. */
struct agent_place {
	char user[AGENT_USER]; /* "": the sandbox's own */
	char path[PATH_MAX];
};

/* The user that the request names: ?username=, or Basic authentication; else the template's. -EINVAL: none that
 * can be one. */
[[nodiscard]] int agent_user(const struct request *q, char ret[static AGENT_USER]);

/*
 * As envd reads paths: "" is the working directory of the template, "~" and what is not absolute begins at the
 * user's home, which init knows; the rest without "..", as if there were no links. -EINVAL with words.
 */
[[nodiscard]] int agent_path(const struct request *q, const char *given, char ret[static PATH_MAX],
			     struct err *err);

/* PATH, USER and BY_ROOT of a call. */
void agent_address(struct draft *d, const struct agent_place *place);

/* What an ERROR says; -EPROTO of any other message. Returns the code. */
int agent_error(const struct message *m, struct err *err);

/* Its meaning in Connect's words. A user that the sandbox has not is "unauthenticated". */
enum connect_code agent_code(const struct err *err, const char *user);

/* In the form of the request, Connect's or the plain one. */
void agent_fail(struct request *q, const struct err *err, const char *user);
void agent_refuse(struct request *q, int code, const char *fmt, ...) _printf_(3, 4); /* -errno */

/* Of the body of a request: either name of a field, as JSON of protobuf has both. */
const struct node *agent_field(const struct node *body, const char *name, const char *other_name);
bool agent_flag(const struct node *body, const char *name, const char *other_name);
const char *agent_text(const struct node *body, const char *name, const char *other_name);
/* A number, also one in quotes; fallback where there is none that is. */
uint64_t agent_number(const struct node *body, const char *name, uint64_t fallback);

#endif
