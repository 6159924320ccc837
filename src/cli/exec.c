/* exec.c - brig exec: a command in a sandbox that lives */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/session.h"
#include "data/schema.h"
#include "warden/result.h"
#include "warden/roster.h"

static const struct option exec_options[] = {
	{ 'i', "interactive", NULL, "give the command your standard input (else it is empty)" },
	{ 't', "terminal", NULL, "give the command a terminal" },
	{ 'd', "detach", NULL, "start it, print its number, and leave it alone" },
	{ 'e', "env", "NAME[=VALUE]", "set a variable; without a value: to the one you have" },
	{ 'w', "workdir", "DIR", "start in this directory of the sandbox" },
	{ 'u', "user", "USER", "run as this user of the sandbox, a name or a number" },
	{ 0, "json", NULL, "print one JSON object with the result, output included" },
	{ 0, "raw", NULL, "do not make the output harmless for the terminal" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints (also with -d)" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

struct exec {
	bool has_input, has_terminal, is_detached, json, is_raw, schema, help;
	bool has_term; /* TERM is among the variables */
	const char *workdir, *user, *sandbox;
	char **command;
	struct draft start;
	struct buf out, err;
	uint64_t started;
};

/* "NAME" alone is the caller's, and nothing where he has none. */
static int add_variable(struct exec *x, const char *text, struct err *err)
{
	size_t len = strcspn(text, "=");
	_cleanup_(buf_done) struct buf assignment = BUF(MESSAGE_MAX);
	const char *value;

	if (len == 0)
		return err_set(err, -EINVAL, "--env: \"%s\" is not NAME=VALUE", text);
	x->has_term |= len == 4 && strncmp(text, "TERM", 4) == 0;
	if (text[len] == '=') {
		draft_text(&x->start, FIELD_VARIABLE, text);
		return 0;
	}
	value = getenv(text);
	if (!value)
		return 0;
	if (buf_printf(&assignment, "%s=%s", text, value) < 0)
		return err_set(err, -E2BIG, "--env: the value of %s is too long", text);
	draft_text(&x->start, FIELD_VARIABLE, buf_text(&assignment));
	return 0;
}

static int set_option(struct exec *x, const char *name, const char *value, struct err *err)
{
	const struct {
		const char *name;
		bool *place;
		const char **text;
	} places[] = {
		{ "interactive", &x->has_input, NULL },
		{ "terminal", &x->has_terminal, NULL },
		{ "detach", &x->is_detached, NULL },
		{ "json", &x->json, NULL },
		{ "raw", &x->is_raw, NULL },
		{ "schema", &x->schema, NULL },
		{ "help", &x->help, NULL },
		{ "workdir", NULL, &x->workdir },
		{ "user", NULL, &x->user },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (str_equal(name, places[i].name)) {
			if (places[i].place)
				*places[i].place = true;
			else
				*places[i].text = value;
			return 0;
		}
	return add_variable(x, value, err);
}

static int take_options(struct args *args, struct exec *x, struct err *err)
{
	const char *name, *value;
	int r;

	while ((r = args_next(args, &verb_exec, &name, &value, err)) > 0) {
		r = set_option(x, name, value, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* Options stand before and behind the sandbox, but never behind the command's name. */
static int parse(int argc, char **argv, struct exec *x, struct err *err)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	int r = take_options(&args, x, err);

	if (r == 0 && args.at < argc) {
		x->sandbox = argv[args.at++];
		r = take_options(&args, x, err);
	}
	if (r < 0 || x->help || x->schema)
		return r;
	if (!x->sandbox || args.at >= argc)
		return err_set(err, -EINVAL,
			       "exec: what should run, and where? (brig exec SANDBOX COMMAND)");
	if (argv[args.at][0] == '\0')
		return err_set(err, -EINVAL, "exec: the command is empty");
	if (x->json && x->has_terminal && !x->is_detached)
		return err_set(err, -EINVAL, "exec: --json and -t do not go together");
	x->command = argv + args.at;
	return 0;
}

static void complete_start(struct exec *x)
{
	uint64_t flags = x->has_terminal ? START_TERMINAL : 0;
	char term[64];

	if (x->is_detached)
		flags |= START_KEPT | (x->has_input ? START_INPUT : 0);
	for (char **word = x->command; word && *word; word++)
		draft_text(&x->start, FIELD_ARGUMENT, *word);
	/* What the terminal is, only this side knows. */
	if (x->has_terminal && !x->has_term && getenv("TERM")) {
		snprintf(term, sizeof(term), "TERM=%.50s", getenv("TERM"));
		draft_text(&x->start, FIELD_VARIABLE, term);
	}
	draft_text(&x->start, FIELD_DIRECTORY, x->workdir);
	draft_text(&x->start, FIELD_USER, x->user);
	draft_number(&x->start, FIELD_FLAGS, flags);
}

/* Who makes the terminal: where programs have a /dev of their own, it is one of there. */
static int find_terminal_maker(const struct client *client, bool *ret_is_made_inside,
			       struct err *err)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	const struct node *isolation;
	bool is_alive;
	int r = roster_read(client->id, &manifest, &is_alive, err);

	if (r < 0)
		return r;
	isolation = node_get(manifest, "isolation");
	*ret_is_made_inside = !isolation || isolation->kind != NODE_STRING ||
			      !str_equal(isolation->text, "process");
	return 0;
}

/* What --json prints: the row gives the value and its place in the schema. */
struct outcome {
	const struct exec *x;
	const struct session *s;
	const struct err *err;
};

typedef struct node *(*field_value)(const struct outcome *o);

static struct node *value_sandbox(const struct outcome *o)
{
	return node_string(o->s->client.id);
}

static struct node *value_process(const struct outcome *o)
{
	return o->s->process ? node_int((int64_t)o->s->process) : node_null();
}

static struct node *value_exit_code(const struct outcome *o)
{
	return node_int(session_exit_code(o->s, o->err));
}

static struct node *value_signal(const struct outcome *o)
{
	const struct session *s = o->s;
	int signal = 0;
	char text[16];

	if (s->end == SESSION_LOST && s->process)
		signal = SIGKILL;
	else if (s->end == SESSION_EXITED && WIFSIGNALED(s->status))
		signal = WTERMSIG(s->status);
	return signal ? node_string(signal_name(signal, text, sizeof(text))) : node_null();
}

static struct node *value_stdout(const struct outcome *o)
{
	return result_text(&o->x->out);
}

static struct node *value_stderr(const struct outcome *o)
{
	return result_text(&o->x->err);
}

static struct node *value_stdout_base64(const struct outcome *o)
{
	return result_base64(&o->x->out);
}

static struct node *value_stderr_base64(const struct outcome *o)
{
	return result_base64(&o->x->err);
}

static struct node *value_truncated(const struct outcome *o)
{
	return node_bool(o->s->streams.truncated);
}

static struct node *value_duration(const struct outcome *o)
{
	return node_int((int64_t)(clock_ms() - o->x->started));
}

static const struct shown {
	const char *name, *type;
	field_value value;
	const char *summary;
	bool is_always; /* also with -d */
} fields[] = {
	{ "sandbox", "string", value_sandbox, "id of the sandbox", true },
	{ "process", "integer|null", value_process,
	  "the command's number in the sandbox; null: it did not start", true },
	{ "exit_code", "integer", value_exit_code,
	  "as a shell says it: the command's own, 128+n for signal n, 126 and 127 when it cannot "
	  "be "
	  "executed or found",
	  false },
	{ "signal", "string|null", value_signal, "the signal that ended the command, or null",
	  false },
	{ "stdout", "string", value_stdout,
	  "standard output; bytes that are not UTF-8 replaced by U+FFFD", false },
	{ "stderr", "string", value_stderr, "standard error, likewise", false },
	{ "stdout_base64", "string|null", value_stdout_base64,
	  "the exact bytes of standard output where stdout is not exact, else null", false },
	{ "stderr_base64", "string|null", value_stderr_base64, "likewise for standard error",
	  false },
	{ "truncated", "boolean", value_truncated, "some output is missing: it was too long",
	  false },
	{ "duration_ms", "integer", value_duration, "from start to end", false },
};

static int print_result(const struct exec *x, const struct session *s, const struct err *err)
{
	_cleanup_(node_freep) struct node *map = node_map();
	const struct outcome outcome = { x, s, err };
	int r = map ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
		if (fields[i].is_always || !x->is_detached)
			r = node_set(map, fields[i].name, fields[i].value(&outcome));
	return r < 0 ? complain_text("out of memory") : print_json(map);
}

static int print_schema(const struct exec *x)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig exec");
	int r = document ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
		if (fields[i].is_always || !x->is_detached)
			r = schema_add(document, fields[i].name,
				       schema_described(schema_type(fields[i].type),
							fields[i].summary),
				       true);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int detach(struct exec *x, struct session *s, struct err *err)
{
	bool is_made_inside = true;
	struct message m;
	int r = x->has_terminal ? find_terminal_maker(&s->client, &is_made_inside, err) : 0;

	if (r == 0 && !is_made_inside)
		r = err_set(
			err, -EOPNOTSUPP,
			"exec: a process that is left alone has no terminal in the process tier: "
			"leave out -t, or -d");
	r = r < 0 ? r : client_call(&s->client, &x->start, NULL, 0, &m, err);
	if (r < 0) {
		complain(err);
		return session_exit_code(s, err);
	}
	s->process = message_number(&m, FIELD_PROCESS, 0);
	message_done(&m);
	if (x->json)
		return print_result(x, s, err);
	printf("%llu\n", (unsigned long long)s->process);
	return 0;
}

/* One line where the end was not the command's own. */
static void explain(const struct session *s, const struct err *err)
{
	if (s->end == SESSION_LEFT && s->process)
		fprintf(stderr, "brig: process %llu of sandbox %s goes on without its client\n",
			(unsigned long long)s->process, s->client.id);
	else if (s->end == SESSION_LOST && s->process)
		fprintf(stderr, "brig: %s, and the command with it\n", err->text);
	else if (s->end == SESSION_LOST || s->end == SESSION_FAILED)
		complain(err);
}

static int run_here(struct exec *x, struct session *s, struct err *err)
{
	struct session_request request = {
		.has_terminal = x->has_terminal,
		.has_input = x->has_input,
		.streams = { .capture = x->json,
			     .is_raw = x->is_raw,
			     .has_no_input = !x->has_input,
			     .has_no_terminal = true,
			     .limit = UINT64_MAX,
			     .out = &x->out,
			     .err = &x->err },
	};
	int r = x->has_terminal ? find_terminal_maker(&s->client, &request.is_made_inside, err) : 0;

	r = r < 0 ? r : session_open(s, &request, err);
	r = r < 0 ? r : session_start(s, &request, &x->start, err);
	if (r < 0)
		return complain(err);
	session_run(s, err);
	/* The terminal is the person's again before something is said there. */
	streams_done(&s->streams);
	terminal_done(&s->terminal);
	explain(s, err);
	r = session_exit_code(s, err);
	return x->json && print_result(x, s, err) ? EXIT_BRIG : r;
}

static int verb_exec_main(int argc, char **argv)
{
	_cleanup_(session_done) struct session s = SESSION_NONE;
	struct exec x = { .start = DRAFT(MESSAGE_START, 0),
			  .out = BUF(CAPTURE_MAX),
			  .err = BUF(CAPTURE_MAX),
			  .started = clock_ms() };
	struct err err = ERR_NONE;
	int r = parse(argc, argv, &x, &err);

	if (r == 0 && x.help) {
		print_help(&verb_exec);
		r = 0;
	} else if (r == 0 && x.schema) {
		r = print_schema(&x);
	} else if (r == 0) {
		complete_start(&x);
		r = client_open(x.sandbox, &s.client, &err);
		if (r == 0) {
			x.start.call = client_number(&s.client);
			r = x.is_detached ? detach(&x, &s, &err) : run_here(&x, &s, &err);
		} else {
			r = complain(&err);
		}
	} else {
		r = complain(&err);
	}
	draft_done(&x.start);
	buf_done(&x.out);
	buf_done(&x.err);
	return r;
}

const struct verb verb_exec = {
	.name = "exec",
	.usage = "[options] SANDBOX [--] COMMAND [ARGUMENT...]",
	.summary = "run a command in a sandbox that lives",
	.text = "Runs COMMAND in the sandbox that \"brig create\" made, inside its walls, with its "
		"environment and in its working directory, and waits for it. SANDBOX is an id, the "
		"beginning of one, or a name.\n\n"
		"Standard input is empty unless -i is given. With -t the command has a terminal of "
		"the sandbox; -it is what a shell wants. With -d the command is on its own: its "
		"output is kept for \"brig attach\" and \"brig logs\", and with -i it can be fed "
		"by "
		"\"brig attach -i\". What processes in the background write after the end of the "
		"command is not waited for.\n\n"
		"SIGINT, SIGTERM, SIGHUP and SIGQUIT are sent on to the command and all of its "
		"process "
		"group; the second one ends brig exec, and the command goes on. At a terminal of "
		"its own (-it) keys do this instead, and Ctrl-Z stops the command and brig "
		"exec.\n\n"
		"The exit status is that of COMMAND; 128+n when signal n ended it, 126 or 127 when "
		"it could not be executed or found, 137 when the sandbox was ended, 125 for an "
		"error of "
		"brig itself.",
	.example = "brig exec k3x make test\n"
		   "brig exec -it k3x bash\n"
		   "tar c src | brig exec -i k3x tar x\n"
		   "brig exec -d -e PORT=8000 -w /srv k3x python3 server.py",
	.options = exec_options,
	.run = verb_exec_main,
};
