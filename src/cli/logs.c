/* logs.c - brig logs: what processes wrote that were left alone (brig exec -d) */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/kept.h"
#include "data/schema.h"

static const struct option logs_options[] = {
	{ 'f', "follow", NULL, "go on until the processes end" },
	{ 0, "json", NULL, "print JSON, one object per line" },
	{ 0, "raw", NULL, "do not make the output harmless for the terminal" },
	{ 0, "schema", NULL, "print the JSON Schema of a line of --json" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

struct logs {
	bool is_following, json, is_raw, schema, help;
	const char *words[2]; /* sandbox, process */
	uint64_t process;     /* 0: all */
};

static void take_option(struct logs *l, const char *name)
{
	const struct {
		const char *name;
		bool *place;
	} switches[] = {
		{ "follow", &l->is_following }, { "json", &l->json }, { "raw", &l->is_raw },
		{ "schema", &l->schema },       { "help", &l->help },
	};

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		*switches[i].place |= str_equal(name, switches[i].name);
}

static int parse(int argc, char **argv, struct logs *l, struct err *err)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	const char *name, *value;
	int r, count = 0;

	while (args.at < argc) {
		r = args_next(&args, &verb_logs, &name, &value, err);
		if (r < 0)
			return r;
		if (r > 0)
			take_option(l, name);
		else if (args.at < argc && count == 2)
			return err_set(err, -EINVAL, "logs: too many words: \"%.40s\"",
				       argv[args.at]);
		else if (args.at < argc)
			l->words[count++] = argv[args.at++];
	}
	if (count == 0 && !l->help && !l->schema)
		return err_set(err, -EINVAL, "logs: of what? (brig logs SANDBOX [PROCESS])");
	r = count == 2 ? parse_count(l->words[1], &l->process, err) : 0;
	return r < 0 ? err_prefix(err, "logs: process") : 0;
}

static int print_schema(void)
{
	static const char *const streams[] = { "stdout", "stderr" };
	_cleanup_(node_freep) struct node *document = schema_document("brig logs line");
	int r = schema_add(document, "process",
			   schema_described(schema_type("integer"), "whose output it is"), true);

	r = r < 0 ? r : schema_add(document, "stream", schema_enum(streams, 2), true);
	r = r < 0 ? r
		  : schema_add(document, "text",
			       schema_described(schema_type("string"),
						"a piece of the output; bytes that are not UTF-8 "
						"replaced by U+FFFD"),
			       true);
	r = r < 0 ? r
		  : schema_add(document, "base64",
			       schema_described(schema_type("string|null"),
						"the exact bytes where text is not exact"),
			       true);
	r = r < 0 ? r
		  : schema_add(document, "dropped",
			       schema_described(schema_type("integer"),
						"bytes of output that are gone before this"),
			       true);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int add(struct kept *kept, const struct logs *l, const struct message *m)
{
	uint64_t process = message_number(m, FIELD_PROCESS, 0);
	uint64_t flags = message_number(m, FIELD_FLAGS, 0);
	char title[sizeof(kept->sources->title)] = "";
	const char *word;
	size_t at = 0, len = 0;

	if (!(flags & PROCESS_KEPT) || (l->process && process != l->process))
		return 0;
	while ((word = message_next_text(m, FIELD_ARGUMENT, &at)) && len < sizeof(title) - 1) {
		snprintf(title + len, sizeof(title) - len, "%s%s", len ? " " : "", word);
		len = strlen(title);
	}
	return kept_add(kept, process, title, flags & PROCESS_RUNNING);
}

static int find_sources(struct kept *kept, const struct logs *l, struct err *err)
{
	struct client *client = &kept->session->client;
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_PROCESSES, client_number(client));
	struct message m;
	bool is_over = false;
	int r = client_call(client, &d, NULL, 0, &m, err);

	while (r == 0 && !is_over) {
		is_over = m.type != MESSAGE_PROCESS_IS;
		if (!is_over && add(kept, l, &m) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
		message_done(&m);
		if (r == 0 && !is_over)
			r = client_next(client, d.call, &m, err);
	}
	if (r == 0 && l->process && kept->count == 0)
		return err_set(err, -ESRCH,
			       "sandbox %s has kept no output of a process %" PRIu64
			       " (only of those of \"brig exec -d\")",
			       client->id, l->process);
	kept->has_headers = kept->count > 1 && !l->json;
	return r;
}

static int finish(const struct kept *kept, const struct err *err)
{
	const struct session *s = kept->session;

	if (s->end == SESSION_LOST)
		return complain(err);
	if (kept->failure < 0 && kept->failure != -EPIPE)
		return complain_text("cannot write the output: %s", strerror(-kept->failure));
	if (s->end == SESSION_LEFT)
		return 128 + s->status;
	return kept->has_failed ? EXIT_BRIG : 0;
}

static int show(const struct logs *l, struct err *err)
{
	_cleanup_(session_done) struct session s = SESSION_NONE;
	struct kept kept = {
		.session = &s, .is_raw = l->is_raw, .json = l->json, .is_following = l->is_following
	};
	int r = client_open(l->words[0], &s.client, err);

	s.is_attached = true;
	r = r < 0 ? r : find_sources(&kept, l, err);
	r = r < 0 ? r : kept_open(&kept, err);
	if (r == 0)
		kept_run(&kept, err);
	kept_done(&kept);
	return r < 0 ? complain(err) : finish(&kept, err);
}

static int verb_logs_main(int argc, char **argv)
{
	struct logs l = { 0 };
	struct err err = ERR_NONE;
	int r = parse(argc, argv, &l, &err);

	if (r < 0)
		return complain(&err);
	if (l.schema)
		return print_schema();
	if (l.help) {
		print_help(&verb_logs);
		return 0;
	}
	return show(&l, &err);
}

const struct verb verb_logs = {
	.name = "logs",
	.usage = "[options] SANDBOX [PROCESS]",
	.summary = "print what processes wrote that \"brig exec -d\" started",
	.text = "Prints the output that was kept of one process, or of all in the order of their "
		"numbers, each under a line with its number and its words. What went to standard "
		"error goes to standard error. Of each process the newest 256 KiB are kept, also "
		"after its end for a while; if some are gone, a line on standard error says how "
		"many.\n\n"
		"With -f it goes on until all of these processes have ended, and what they write "
		"is printed as it comes.",
	.example = "brig logs k3x\nbrig logs -f k3x 2\nbrig logs --json k3x | jq -r .text",
	.options = logs_options,
	.run = verb_logs_main,
};
