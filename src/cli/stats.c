/* stats.c - brig stats: what sandboxes use */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/census.h"
#include "cli/live.h"
#include "data/schema.h"
#include "warden/roster.h"

#define LOOK_MS 1000 /* between two looks */

static const struct option stats_options[] = {
	{ 'f', "follow", NULL, "look again every second, until the sandboxes have ended" },
	{ 0, "json", NULL, "print JSON; with --follow one object per line and look" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

static const struct schema_part row_parts[] = {
	{ "sandbox", "string", false },
	{ "name", "string|null", false },
	{ "state", "string", false },
	{ "cpu_ms", "integer|null", false },
	{ "cpu_percent", "number|null", false },
	{ "memory", "integer|null", false },
	{ "memory_limit", "integer|null", false },
	{ "memory_peak", "integer|null", false },
	{ "processes", "integer|null", false },
	{ "disk", "integer|null", false },
	{ "disk_size", "integer|null", false },
};

struct stats {
	bool json, follow;
	struct strv ids;      /* none: all that live */
	struct census before; /* the look before this one */
	uint64_t before_ms;   /* when it was */
	size_t lines;         /* that stand on the terminal from then */
	bool is_to_terminal;
};

static const struct look *find_look(const struct census *census, const char *id)
{
	for (size_t i = 0; i < census->count; i++)
		if (str_equal(census->looks[i].id, id))
			return &census->looks[i];
	return NULL;
}

/* Of one CPU, since the look before; negative: not known. */
static double percent_of(const struct stats *stats, const struct look *look, uint64_t now)
{
	const struct look *before = find_look(&stats->before, look->id);

	if (!before || before->cpu == UNKNOWN || look->cpu == UNKNOWN || look->cpu < before->cpu ||
	    now <= stats->before_ms)
		return -1;
	return (double)(look->cpu - before->cpu) / 10.0 / (double)(now - stats->before_ms);
}

static int add_row(struct node *rows, const struct look *look, double percent)
{
	_cleanup_(node_freep) struct node *row = node_map();
	const char *name = manifest_text(look->manifest, "name");
	int r = row ? node_set(row, "sandbox", node_string(look->id)) : -ENOMEM;

	r = r < 0 ? r : node_set(row, "name", name && *name ? node_string(name) : node_null());
	r = r < 0 ? r : node_set(row, "state", node_string(look_word(look)));
	r = r < 0 ? r : set_known(row, "cpu_ms", look->cpu == UNKNOWN ? UNKNOWN : look->cpu / 1000);
	r = r < 0 ? r
		  : node_set(row, "cpu_percent", percent < 0 ? node_null() : node_float(percent));
	r = r < 0 ? r : set_known(row, "memory", look->memory);
	r = r < 0 ? r : set_known(row, "memory_limit", look->limit);
	r = r < 0 ? r : set_known(row, "memory_peak", look->peak);
	r = r < 0 ? r : set_known(row, "processes", look->processes);
	r = r < 0 ? r : set_known(row, "disk", look->disk);
	r = r < 0 ? r : set_known(row, "disk_size", look->disk_size);
	return r < 0 ? r : node_add(rows, take_ptr(&row));
}

static int print_object(const struct stats *stats, const struct census *census, uint64_t now)
{
	_cleanup_(node_freep) struct node *root = node_map(), *rows = node_list();
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	int r = root && rows ? 0 : -ENOMEM;

	for (size_t i = 0; i < census->count && r == 0; i++)
		r = add_row(rows, &census->looks[i], percent_of(stats, &census->looks[i], now));
	r = r < 0 ? r : node_set(root, "sandboxes", take_ptr(&rows));
	r = r < 0 ? r : json_write(root, stats->follow, &text);
	r = r < 0 ? r : buf_char(&text, '\n');
	return r < 0 ? r : fd_write_all(1, buf_text(&text), text.len);
}

static void add_bytes(struct table *table, uint64_t bytes)
{
	char text[FIGURE_SIZE] = "";

	if (bytes != UNKNOWN)
		figure_bytes(bytes, text);
	table_add(table, text);
}

static void add_line(struct table *table, const struct look *look, double percent)
{
	char text[FIGURE_SIZE] = "";

	table_add(table, look->id);
	table_add(table, manifest_text(look->manifest, "name"));
	table_add(table, look_word(look));
	if (look->cpu != UNKNOWN)
		snprintf(text, sizeof(text), "%.2fs", (double)look->cpu / 1e6);
	table_add(table, text);
	text[0] = '\0';
	if (percent >= 0)
		snprintf(text, sizeof(text), "%.1f%%", percent);
	table_add(table, text);
	add_bytes(table, look->memory);
	add_bytes(table, look->limit);
	add_bytes(table, look->peak);
	text[0] = '\0';
	if (look->processes != UNKNOWN)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)look->processes);
	table_add(table, text);
	add_bytes(table, look->disk);
	add_bytes(table, look->disk_size);
}

/* On a terminal a look takes the place of the one before. */
static int print_table(struct stats *stats, const struct census *census, uint64_t now)
{
	static const char *const titles[] = { "SANDBOX",   "NAME",   "STATE", "CPU",
					      "CPU%",      "MEMORY", "LIMIT", "PEAK",
					      "PROCESSES", "DISK",   "SIZE" };
	_cleanup_(table_done) struct table table = { .columns = ARRAY_SIZE(titles) };
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);

	for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
		table_add(&table, titles[i]);
	for (size_t i = 0; i < census->count; i++)
		add_line(&table, &census->looks[i], percent_of(stats, &census->looks[i], now));
	if (stats->is_to_terminal && stats->lines > 0)
		buf_printf(&text, "\x1b[%zuA\x1b[J", stats->lines);
	stats->lines = census->count + 1;
	table_print(&table, &text);
	if (table.failure < 0 || buf_failed(&text) < 0)
		return -ENOMEM;
	return fd_write_all(1, buf_text(&text), text.len);
}

/* Whether one of those that were asked for has not ended. */
static bool is_any_left(const struct census *census)
{
	for (size_t i = 0; i < census->count; i++)
		if (census->looks[i].state == LOOK_ANSWERED ||
		    census->looks[i].state == LOOK_SILENT)
			return true;
	return false;
}

static int look_once(struct stats *stats, bool *ret_is_any_left, struct err *err)
{
	_cleanup_(census_done) struct census census = { 0 };
	int r = census_take(stats->ids.count ? &stats->ids : NULL, true, &census, err);
	uint64_t now = clock_ms();

	if (r < 0)
		return r;
	r = stats->json ? print_object(stats, &census, now) : print_table(stats, &census, now);
	if (r < 0 && r != -EPIPE)
		return err_errno(err, r, "cannot write the figures");
	*ret_is_any_left = is_any_left(&census) && r != -EPIPE;
	census_done(&stats->before);
	stats->before = census;
	stats->before_ms = now;
	census = (struct census){ 0 };
	return 0;
}

/* Waits a moment; false when nobody reads our output any more. */
static bool pause_and_listen(void)
{
	struct pollfd out = { .fd = 1 };

	return poll(&out, 1, LOOK_MS) <= 0 || !(out.revents & (POLLERR | POLLNVAL));
}

static int look(struct stats *stats)
{
	struct err err = ERR_NONE;
	bool more = true;

	for (;;) {
		if (look_once(stats, &more, &err) < 0)
			return complain(&err);
		if (!stats->follow || !more || !pause_and_listen())
			return 0;
	}
}

static int find_ids(struct stats *stats, char *const *words, int count, struct err *err)
{
	for (int i = 0; i < count; i++) {
		char id[TRACE_ID_SIZE];
		int r = roster_find(words[i], id, err);

		if (r == 0 && !strv_has(&stats->ids, id) && strv_add(&stats->ids, id) < 0)
			return err_errno(err, -ENOMEM, "the list of sandboxes");
		if (r < 0)
			return r;
	}
	return 0;
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig stats");
	struct node *row = schema_parts(row_parts, ARRAY_SIZE(row_parts));
	int r = schema_add(document, "sandboxes", schema_list(row), true);

	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int verb_stats_main(int argc, char **argv)
{
	struct stats stats = { .is_to_terminal = isatty(1) };
	bool schema = false, help = false;
	const struct live_option options[] = { { "follow", &stats.follow, NULL },
					       { "json", &stats.json, NULL },
					       { "schema", &schema, NULL },
					       { "help", &help, NULL } };
	struct err err = ERR_NONE;
	int r = live_arguments(argc, argv, &verb_stats, options, ARRAY_SIZE(options), &err);

	if (r < 0)
		return complain(&err);
	if (help) {
		print_help(&verb_stats);
		return 0;
	}
	if (schema)
		return print_schema();
	r = find_ids(&stats, argv + 1, r, &err);
	r = r < 0 ? complain(&err) : look(&stats);
	strv_done(&stats.ids);
	census_done(&stats.before);
	return r;
}

const struct verb verb_stats = {
	.name = "stats",
	.usage = "[SANDBOX...] [-f] [--json]",
	.summary = "show what sandboxes use: CPU, memory, processes, disk",
	.text = "Shows for each sandbox (of those named, else of all that live) the CPU time it "
		"has used, its memory now, at most and so far, its processes, and the bytes of "
		"its own files and how many there can be. All come from the kernel, as its "
		"warden sees them, but the disk, which is asked for inside: a sandbox that is "
		"paused does not tell it. What is not known is \"-\".\n\n"
		"With --follow the figures come every second, with the share of one CPU since "
		"the look before, until no sandbox is left.",
	.example = "brig stats\nbrig stats k3x --follow\nbrig stats --json",
	.options = stats_options,
	.run = verb_stats_main,
};
