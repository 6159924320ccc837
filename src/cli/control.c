/*
 * control.c - brig pause, resume, extend and kill: one word to each of several wardens
 *
 * All are asked before the first answer is waited for: killing a hundred takes as long as the slowest.
 * On success the id is printed, and nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/client.h"
#include "cli/live.h"
#include "data/schema.h"
#include "warden/roster.h"

#define AT_A_TIME 256 /* conversations */

static const struct option control_options[] = {
	LIVE_OPTIONS,
};

static const struct option kill_options[] = {
	{ 'a', "all", NULL, "all sandboxes that live" },
	LIVE_OPTIONS,
};

static const struct schema_part row_parts[] = {
	{ "sandbox", "string", false },
	{ "ok", "boolean", false },
	{ "error", "string|null", false },
};

/* What is said, and to whom. */
struct order {
	const struct verb *verb;
	enum message_type type;
	bool has_left;
	uint64_t left; /* of EXTEND */
};

struct target {
	const char *word;
	struct client client;
	uint32_t call;
	struct err err;
};

static bool is_kill(const struct order *order)
{
	return order->type == MESSAGE_KILL;
}

/* A sandbox that is not there any more is what a kill wants. */
static bool is_over(const struct order *order, const struct target *target)
{
	return is_kill(order) && target->err.code == -ESRCH && target->client.id[0];
}

static void give(const struct order *order, struct target *target)
{
	_cleanup_(draft_done) struct draft d = DRAFT(order->type, 0);
	int r = roster_find(target->word, target->client.id, &target->err), fd;

	if (r < 0) {
		target->client.id[0] = '\0';
		return;
	}
	fd = roster_connect(target->client.id, &target->err);
	if (fd < 0)
		return;
	channel_init(&target->client.channel, fd, FROM_WARDEN, true);
	d.call = target->call = client_number(&target->client);
	if (order->has_left)
		draft_number(&d, FIELD_LEFT, order->left);
	r = channel_send(&target->client.channel, &d, NULL, 0);
	if (r < 0 && r != -EPIPE)
		(void)client_lost(&target->client, r, &target->err);
}

static void await(struct target *target)
{
	struct message m;
	int r;

	if (target->err.code || target->client.channel.fd < 0)
		return;
	r = client_next(&target->client, target->call, &m, &target->err);
	if (r == 0)
		message_done(&m);
	else if (r == -EALREADY) /* that is what was wanted */
		target->err = ERR_NONE;
	else if (r != -ESRCH)
		err_prefix(&target->err, "sandbox %s", target->client.id);
}

static int add_row(struct node *rows, const struct target *target, bool ok)
{
	_cleanup_(node_freep) struct node *row = node_map();
	const char *id = target->client.id[0] ? target->client.id : target->word;
	int r = row ? node_set(row, "sandbox", node_string(id)) : -ENOMEM;

	r = r < 0 ? r : node_set(row, "ok", node_bool(ok));
	r = r < 0 ? r : node_set(row, "error", ok ? node_null() : node_string(target->err.text));
	return r < 0 ? r : node_add(rows, take_ptr(&row));
}

/* How many failed. */
static int tell(const struct order *order, const struct target *targets, size_t count, bool json)
{
	_cleanup_(node_freep) struct node *root = node_map(), *rows = node_list();
	int failed = 0, r = root && rows ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++) {
		bool ok = !targets[i].err.code || is_over(order, &targets[i]);

		failed += !ok;
		if (json)
			r = add_row(rows, &targets[i], ok);
		else if (ok)
			printf("%s\n", targets[i].client.id);
		else
			(void)complain(&targets[i].err);
	}
	r = r < 0 ? r : node_set(root, "sandboxes", take_ptr(&rows));
	if (r < 0)
		return complain_text("out of memory");
	if (json && print_json(root))
		return EXIT_BRIG;
	return failed ? EXIT_BRIG : 0;
}

/* As many as one process can speak to. */
static void give_to_some(const struct order *order, struct target *targets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		give(order, &targets[i]);
	for (size_t i = 0; i < count; i++) {
		await(&targets[i]);
		channel_done(&targets[i].client.channel);
	}
}

static int give_to_all(const struct order *order, char *const *words, size_t count, bool json)
{
	struct target *targets = calloc(MAX(count, (size_t)1), sizeof(*targets));
	bool is_sweeping = count == 0;
	int r;

	if (!targets)
		return complain_text("out of memory");
	for (size_t i = 0; i < count; i++)
		targets[i] = (struct target){ .word = words[i], .client = CLIENT_NONE };
	for (size_t i = 0; i < count; i += AT_A_TIME)
		give_to_some(order, targets + i, MIN(count - i, (size_t)AT_A_TIME));
	r = tell(order, targets, count, json);
	for (size_t i = 0; i < count; i++)
		is_sweeping |= targets[i].err.code != 0;
	free(targets);
	/* Where everybody answered there is nothing to look for. */
	if (is_kill(order) && is_sweeping)
		live_sweep();
	return r;
}

static int give_to_living(const struct order *order, bool json)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	struct err err = ERR_NONE;

	if (roster_ids(&ids, &err) < 0)
		return complain(&err);
	return give_to_all(order, ids.items, ids.count, json);
}

static int print_schema(const struct verb *verb)
{
	_cleanup_(node_freep) struct node *document = NULL;
	char title[32];
	int r;

	snprintf(title, sizeof(title), "brig %s", verb->name);
	document = schema_document(title);
	r = schema_add(document, "sandboxes",
		       schema_list(schema_parts(row_parts, ARRAY_SIZE(row_parts))), true);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

/* The last word of extend: a duration from now, or "never". */
static int take_duration(struct order *order, const char *word, struct err *err)
{
	order->has_left = true;
	order->left = EXTEND_NEVER;
	return str_equal(word, "never") ? 0 : parse_duration(word, &order->left, err);
}

static int control(struct order *order, int argc, char **argv)
{
	bool all = false, json = false, schema = false, help = false;
	const struct live_option options[] = { { "all", &all, NULL },
					       { "json", &json, NULL },
					       { "schema", &schema, NULL },
					       { "help", &help, NULL } };
	bool extends = order->type == MESSAGE_EXTEND;
	struct err err = ERR_NONE;
	int words = live_arguments(argc, argv, order->verb, options, ARRAY_SIZE(options), &err);

	if (words < 0)
		return complain(&err);
	if (help) {
		print_help(order->verb);
		return 0;
	}
	if (schema)
		return print_schema(order->verb);
	if (all && words > 0)
		return complain_text("kill: --all and \"%.40s\" do not go together", argv[1]);
	if (all)
		return give_to_living(order, json);
	if (words < (extends ? 2 : 1))
		return complain_text("%s: %s (see \"brig help %s\")", order->verb->name,
				     extends && words == 1 ? "until when?" : "which sandbox?",
				     order->verb->name);
	if (extends && words > 2)
		return complain_text("extend: too many words: \"%.40s\" (see \"brig help extend\")",
				     argv[3]);
	if (extends && take_duration(order, argv[words--], &err) < 0)
		return complain(&err);
	return give_to_all(order, argv + 1, (size_t)words, json);
}

static int verb_pause_main(int argc, char **argv)
{
	return control(&(struct order){ .verb = &verb_pause, .type = MESSAGE_PAUSE }, argc, argv);
}

static int verb_resume_main(int argc, char **argv)
{
	return control(&(struct order){ .verb = &verb_resume, .type = MESSAGE_RESUME }, argc, argv);
}

static int verb_extend_main(int argc, char **argv)
{
	return control(&(struct order){ .verb = &verb_extend, .type = MESSAGE_EXTEND }, argc, argv);
}

static int verb_kill_main(int argc, char **argv)
{
	return control(&(struct order){ .verb = &verb_kill, .type = MESSAGE_KILL }, argc, argv);
}

const struct verb verb_pause = {
	.name = "pause",
	.usage = "SANDBOX... [--json]",
	.summary = "stop all processes of a sandbox where they are",
	.text = "No process of the sandbox runs until \"brig resume\"; memory and files stay as "
		"they are, and the deadline stays where it is. A sandbox that is paused already "
		"stays so. "
		"Prints the id.",
	.example = "brig pause k3x",
	.options = control_options,
	.run = verb_pause_main,
};

const struct verb verb_resume = {
	.name = "resume",
	.usage = "SANDBOX... [--json]",
	.summary = "let a paused sandbox go on",
	.text = "All processes go on where they were stopped. A sandbox that is not paused goes on "
		"anyway. Prints the id.",
	.example = "brig resume k3x",
	.options = control_options,
	.run = verb_resume_main,
};

const struct verb verb_extend = {
	.name = "extend",
	.usage = "SANDBOX TIME|never [--json]",
	.summary = "move the deadline of a sandbox",
	.text = "The deadline is then as far from now as TIME says (90s, 30m, 2h, 1d), which may "
		"also be sooner than it was. \"never\" removes it. Prints the id.",
	.example = "brig extend k3x 30m\nbrig extend k3x never",
	.options = control_options,
	.run = verb_extend_main,
};

const struct verb verb_kill = {
	.name = "kill",
	.usage = "SANDBOX... | --all [--json]",
	.summary = "end sandboxes, with all that is in them",
	.text = "Ends every process of the sandbox and removes its files, and returns when nothing "
		"is left of it. One whose warden was killed is dead already: what is left of it is "
		"removed. Prints the ids.",
	.example = "brig kill k3x\nbrig kill $(brig ps -q)\nbrig kill --all",
	.options = kill_options,
	.run = verb_kill_main,
};
