/* events.c - brig events: what sandboxes tried, and whether the record of it is whole */
#include "cli/events.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "trace/event.h"
#include "trace/home.h"

static const struct option events_options[] = {
	{ 0, "denied", NULL, "only what was refused" },
	{ 'f', "follow", NULL, "wait for more until the sandbox ends" },
	{ 0, "json", NULL, "print JSON; events as they stand in the stream, one per line" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *schema = NULL;

	return trace_schema(&schema) < 0 ? complain_text("out of memory") : print_json(schema);
}

/* Sets what an option asks for; help is answered by the caller. */
static void take_option(struct events_request *request, const char *name)
{
	request->is_denied |= str_equal(name, "denied");
	request->is_following |= str_equal(name, "follow");
	request->is_json |= str_equal(name, "json");
}

static int run(struct events_request *request, int count, const char *const words[])
{
	static const struct {
		const char *name;
		int (*run)(const struct events_request *request);
		int max_words;
		bool is_filtering;
	} parts[] = {
		{ "list", events_list, 1, false },
		{ "verify", events_verify, 2, false },
		{ NULL, events_show, 1, true },
	};
	_cleanup_close_ int home = -EBADF;
	struct err err = ERR_NONE;
	size_t i = 0;

	while (parts[i].name && !(count > 0 && str_equal(words[0], parts[i].name)))
		i++;
	if (count > parts[i].max_words)
		return complain_text("events: too many words: \"%.40s\" (see \"brig help events\")",
				     words[count - 1]);
	if (!parts[i].is_filtering && (request->is_denied || request->is_following))
		return complain_text("events %s: --denied and --follow are for showing events",
				     parts[i].name);
	request->sandbox = count > (parts[i].name != NULL) ? words[count - 1] : NULL;
	if (request->sandbox && !trace_id_is_valid(request->sandbox))
		return complain_text(
			"\"%.40s\" is not the id of a sandbox (see \"brig events list\")",
			request->sandbox);
	home = trace_home_open(NULL, false, &err);
	/* Before the first sandbox there is nothing, which is not an error of a list. */
	if (home == -ENOENT && (request->sandbox || parts[i].is_filtering))
		return complain_text("no sandbox has left events yet (\"brig run\" records them)");
	if (home < 0 && home != -ENOENT)
		return complain(&err);
	request->home = home;
	return parts[i].run(request);
}

static int verb_events_main(int argc, char **argv)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	struct events_request request = { .home = -EBADF };
	const char *words[3] = { 0 }, *name, *value;
	struct err err = ERR_NONE;
	int r, count = 0;

	/* Options may stand before, between and behind the words. */
	while (args.at < argc) {
		r = args_next(&args, &verb_events, &name, &value, &err);
		if (r < 0)
			return complain(&err);
		if (r > 0 && str_equal(name, "help")) {
			print_help(&verb_events);
			return 0;
		}
		if (r > 0)
			take_option(&request, name);
		else if (args.at < argc && count < 3)
			words[count++] = argv[args.at++];
		else if (args.at < argc)
			break;
	}
	if (count == 1 && str_equal(words[0], "schema"))
		return print_schema();
	return run(&request, count, words);
}

const struct verb verb_events = {
	.name = "events",
	.usage = "[SANDBOX] [--denied] [--follow] [--json] | list | verify [SANDBOX] | schema",
	.summary = "show what a sandbox tried; verify that the record is whole",
	.text = "Shows the events of a sandbox, one per line: the time, the number of the execve "
		"that the process came from, the verdict, what was tried on what, and for a "
		"refusal the rule, the reason and what would allow it. The beginning of an id is "
		"enough; without one it is the sandbox that was started last. --follow goes on "
		"until the sandbox ends.\n\n"
		"list names the sandboxes, the newest at the end, with the state of their stream. "
		"verify checks a stream (or every one) against its chain of hashes and the head "
		"that is kept apart, and says the first line that was changed, cut, added or "
		"moved; it exits with 1 then. A warden that was killed leaves a stream that is "
		"interrupted, which is not a break. schema prints the JSON Schema of an event.\n\n"
		"The streams are in $XDG_STATE_HOME/brig, else ~/.local/state/brig, for root in "
		"/var/lib/brig. When there are more than 1000, the oldest are removed, never one "
		"of a sandbox that runs.",
	.example = "brig events --denied\nbrig events k3x --follow\nbrig events list\nbrig events "
		   "verify",
	.options = events_options,
	.run = verb_events_main,
};
