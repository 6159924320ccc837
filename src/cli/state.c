/*
 * state.c - brig snapshot, brig diff, brig export: what a sandbox that lives wrote
 *
 * The warden freezes the sandbox and hands out a descriptor of its files; all work on them is done
 * here, with the rights of the person at the keyboard, through descriptors. When the conversation
 * ends, in whatever way, the sandbox goes on.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/changes.h"
#include "cli/client.h"
#include "cli/live.h"
#include "cli/snapshot.h"
#include "data/schema.h"
#include "tier/image.h"
#include "trace/home.h"
#include "warden/roster.h"

static const struct option state_options[] = {
	LIVE_OPTIONS,
};

/* A sandbox that is held, and all that is known about its files. */
struct held {
	struct client client;
	struct node *manifest;
	struct strv overlays, overlay_sources, layers, made;
	int store;
	struct image_source source;
};

#define HELD_NONE ((struct held){ .client = CLIENT_NONE, .store = -EBADF })

static void held_done(struct held *held)
{
	client_done(&held->client);
	node_free(held->manifest);
	strv_done(&held->overlays);
	strv_done(&held->overlay_sources);
	strv_done(&held->layers);
	strv_done(&held->made);
	fd_close(held->store);
}

static int read_list(const struct node *manifest, const char *key, struct strv *ret_list)
{
	const struct node *list = node_get(manifest, key);
	int r = list && list->kind == NODE_LIST ? 0 : -EBADMSG;

	for (size_t i = 0; r == 0 && i < list->count; i++) {
		const struct node *item = list->entries[i].value;

		r = item->kind == NODE_STRING ? strv_add(ret_list, item->text) : -EBADMSG;
	}
	return r;
}

static int read_manifest(struct held *held, struct err *err)
{
	const char *isolation;
	const struct node *first;
	bool is_alive;
	int r = roster_read(held->client.id, &held->manifest, &is_alive, err);

	if (r < 0)
		return r;
	r = read_list(held->manifest, "overlays", &held->overlays);
	r = r < 0 ? r : read_list(held->manifest, "overlay_sources", &held->overlay_sources);
	r = r < 0 ? r : read_list(held->manifest, "layers", &held->layers);
	r = r < 0 ? r : read_list(held->manifest, "made", &held->made);
	isolation = manifest_text(held->manifest, "isolation");
	first = node_get(held->manifest, "ids_first");
	if (r < 0 || !isolation || !first || first->kind != NODE_INT)
		return err_set(err, r < 0 ? r : -EBADMSG, "the manifest of sandbox %s is damaged",
			       held->client.id);
	held->source = (struct image_source){ .isolation = str_equal(isolation, "process")
								   ? ISOLATION_PROCESS
								   : ISOLATION_CONTAINER,
					      .ids_first = (uint32_t)first->number,
					      .overlays = &held->overlays,
					      .overlay_sources = &held->overlay_sources,
					      .image = manifest_text(held->manifest, "base"),
					      .layers = &held->layers,
					      .made = &held->made };
	return 0;
}

/* From here until held_done() the sandbox stands still. */
static int hold(const char *word, struct held *ret_held, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_HOLD, 0);
	struct message m;
	struct stat st;
	int r = client_open(word, &ret_held->client, err);

	r = r < 0 ? r : read_manifest(ret_held, err);
	if (r < 0)
		return r;
	d.call = client_number(&ret_held->client);
	r = client_call(&ret_held->client, &d, NULL, 0, &m, err);
	if (r < 0)
		return r;
	ret_held->store = m.type == MESSAGE_HELD ? message_take_descriptor(&m, 0) : -EBADF;
	message_done(&m);
	if (fstat(ret_held->store, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, -EPROTO, "the warden of sandbox %s handed out no folder",
			       ret_held->client.id);
	ret_held->source.store = ret_held->store;
	return 0;
}

/* What the three verbs have in common: options, words, and the end. */
struct state_verb {
	const struct verb *verb;
	int words;
	const char *usage;
	int (*check)(char **words, struct err *err); /* before the sandbox stands still */
	int (*work)(struct held *held, char **words, struct node **json, struct err *err);
	int (*schema)(struct node **ret_schema);
};

static int run_state(const struct state_verb *of, int argc, char **argv)
{
	_cleanup_(held_done) struct held held = HELD_NONE;
	_cleanup_(node_freep) struct node *json = NULL;
	bool is_json = false, schema = false, help = false;
	const struct live_option options[] = { { .name = "json", .place = &is_json },
					       { .name = "schema", .place = &schema },
					       { .name = "help", .place = &help } };
	struct err err = ERR_NONE;
	int count = live_arguments(argc, argv, of->verb, options, ARRAY_SIZE(options), &err), r;

	if (count < 0)
		return complain(&err);
	if (help) {
		print_help(of->verb);
		return 0;
	}
	if (schema) {
		r = of->schema(&json);
		return r < 0 ? complain_text("out of memory") : print_json(json);
	}
	if (count != of->words)
		return complain_text("%s: %s (see \"brig help %s\")", of->verb->name, of->usage,
				     of->verb->name);
	r = of->check ? of->check(argv + 1, &err) : 0;
	r = r < 0 ? r : hold(argv[1], &held, &err);
	r = r < 0 ? r : of->work(&held, argv + 1, is_json ? &json : NULL, &err);
	if (json && print_json(json))
		return EXIT_BRIG;
	if (r < 0)
		return err.code ? complain(&err) : complain_text("out of memory");
	return r > 0 ? EXIT_BRIG : 0;
}

static int snapshot_check_words(char **words, struct err *err)
{
	return snapshot_check(words[1], err);
}

static int snapshot_work(struct held *held, char **words, struct node **json, struct err *err)
{
	return snapshot_make(words[1], &held->source, json, err);
}

static int snapshot_schema(struct node **ret_schema)
{
	*ret_schema = image_info_schema();
	return *ret_schema ? 0 : -ENOMEM;
}

static int diff_work(struct held *held, char **words, struct node **json, struct err *err)
{
	_cleanup_close_ int home = trace_home_open(NULL, true, err);
	int r;

	(void)words;
	if (home < 0)
		return home;
	if (held->source.isolation == ISOLATION_PROCESS)
		return err_set(
			err, -EOPNOTSUPP,
			"the process tier keeps nothing apart: what its sandbox may write, it "
			"writes there (its private folder: brig export)");
	if (json) {
		*json = node_list();
		if (!*json)
			return -ENOMEM;
	}
	r = diff_state(home, &held->source, json ? *json : NULL, err);
	return r;
}

static int diff_schema_of(struct node **ret_schema)
{
	*ret_schema = diff_schema();
	return *ret_schema ? 0 : -ENOMEM;
}

static int export_check_words(char **words, struct err *err)
{
	return export_check(words[1], err);
}

static int export_work(struct held *held, char **words, struct node **json, struct err *err)
{
	return export_state(words[1], &held->source, json, err);
}

static int export_schema_of(struct node **ret_schema)
{
	static const struct schema_part notes[] = { { "what", "string", false },
						    { "path", "string", false },
						    { "why", "string", false },
						    { "path_base64", "string", true } };
	_cleanup_(node_freep) struct node *document = schema_document("brig export");
	int r = schema_add(document, "applied", schema_type("integer"), true);

	r = r < 0 ? r
		  : schema_add(document, "notes",
			       schema_list(schema_parts(notes, ARRAY_SIZE(notes))), true);
	r = r < 0 ? r : schema_add(document, "more", schema_type("integer"), true);
	if (r == 0)
		*ret_schema = take_ptr(&document);
	return r;
}

static int verb_snapshot_main(int argc, char **argv)
{
	static const struct state_verb of = { .verb = &verb_snapshot,
					      .words = 2,
					      .usage = "a sandbox, and a name for the image",
					      .check = snapshot_check_words,
					      .work = snapshot_work,
					      .schema = snapshot_schema };

	return run_state(&of, argc, argv);
}

static int verb_diff_main(int argc, char **argv)
{
	static const struct state_verb of = { .verb = &verb_diff,
					      .words = 1,
					      .usage = "which sandbox?",
					      .work = diff_work,
					      .schema = diff_schema_of };

	return run_state(&of, argc, argv);
}

static int verb_export_main(int argc, char **argv)
{
	static const struct state_verb of = { .verb = &verb_export,
					      .words = 2,
					      .usage = "a sandbox, and a new folder or tar file",
					      .check = export_check_words,
					      .work = export_work,
					      .schema = export_schema_of };

	return run_state(&of, argc, argv);
}

const struct verb verb_snapshot = {
	.name = "snapshot",
	.usage = "[options] SANDBOX NAME",
	.summary = "keep what a sandbox wrote as an image",
	.text = "Freezes the sandbox, copies all that it wrote of its own into an image, and lets "
		"it "
		"go on. Others start from the image with \"brig create --from NAME\" or \"brig run "
		"--from NAME\": they see the files as they were, and change only their own copy. "
		"Owners, modes, times, attributes, deletions, links and holes are kept; programs "
		"that "
		"run are not.\n\n"
		"\"brig image ls\" lists images, \"brig image rm\" removes them.",
	.example = "brig snapshot $id before-migration\n"
		   "other=$(brig create --from before-migration)",
	.options = state_options,
	.run = verb_snapshot_main,
};

const struct verb verb_diff = {
	.name = "diff",
	.usage = "[options] SANDBOX",
	.summary = "list what a sandbox wrote",
	.text = "All that the sandbox added (A), changed (M), deleted (D), renamed (R), or changed "
		"the "
		"mode of (m), under the path that it has inside: its home, /tmp, overlays, and "
		"changes of its image. It stands still meanwhile. In the process tier there is "
		"nothing to compare: what a sandbox may write, it writes there.",
	.example = "brig diff $id",
	.options = state_options,
	.run = verb_diff_main,
};

const struct verb verb_export = {
	.name = "export",
	.usage = "[options] SANDBOX DIR|FILE.tar",
	.summary = "write what a sandbox made to a new folder or tar file",
	.text = "The home of the sandbox, its overlays, and what it changed in its image, each "
		"under "
		"its path inside, as by \"brig run --export\". Links that lead out, devices and "
		"setuid bits are left out, and told. It stands still meanwhile.",
	.example = "brig export $id out.tar",
	.options = state_options,
	.run = verb_export_main,
};
