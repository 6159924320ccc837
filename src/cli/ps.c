/* ps.c - brig ps: the sandboxes that live, and those that ended */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/census.h"
#include "cli/live.h"
#include "data/schema.h"
#include "trace/catalog.h"
#include "trace/home.h"
#include "trace/text.h"
#include "warden/roster.h"

static const struct option ps_options[] = {
	{ 'a', "all", NULL, "also those that have ended, and those of \"brig run\"" },
	{ 'q', "quiet", NULL, "print the ids alone" },
	LIVE_OPTIONS,
};

/* What there is about one sandbox: a map with these keys, for JSON and for the table alike. */
static const struct schema_part row_parts[] = {
	{ "sandbox", "string", false },
	{ "name", "string|null", false },
	{ "state", "string", false },
	{ "isolation", "string|null", false },
	{ "created_ms", "integer|null", false },
	{ "left_ms", "integer|null", false },
	{ "processes", "integer|null", false },
	{ "memory", "integer|null", false },
	{ "image", "string|null", false },
	{ "command", "string|null", false },
	{ "reason", "string|null", false },
	{ "exit_code", "integer|null", false },
};

static int set_text(struct node *row, const char *key, const char *text)
{
	return node_set(row, key, text && *text ? node_string(text) : node_null());
}

static const struct node *find(const struct node *row, const char *key)
{
	const struct node *node = node_get(row, key);

	return node && node->kind != NODE_NULL ? node : NULL;
}

/* A list of words, or text. */
static int set_command(struct node *row, const struct node *command)
{
	_cleanup_(buf_done) struct buf text = BUF(MIB);

	if (command && command->kind == NODE_STRING)
		return set_text(row, "command", command->text);
	for (size_t i = 0; command && command->kind == NODE_LIST && i < command->count; i++)
		if (command->entries[i].value->kind == NODE_STRING)
			buf_printf(&text, "%s%s", i ? " " : "", command->entries[i].value->text);
	return buf_failed(&text) ?: set_text(row, "command", buf_text(&text));
}

static int set_created(struct node *row, const struct look *look)
{
	const struct node *created = look->manifest ? node_get(look->manifest, "created") : NULL;

	if (look->time == UNKNOWN && created && created->kind == NODE_INT)
		return node_set(row, "created_ms", node_int(created->number));
	return set_known(row, "created_ms", look->time);
}

static int add_living(struct node *rows, const struct look *look)
{
	_cleanup_(node_freep) struct node *row = node_map();
	int r = row ? node_set(row, "sandbox", node_string(look->id)) : -ENOMEM;

	r = r < 0 ? r : set_text(row, "name", manifest_text(look->manifest, "name"));
	r = r < 0 ? r : set_text(row, "state", look_word(look));
	r = r < 0 ? r : set_text(row, "isolation", manifest_text(look->manifest, "isolation"));
	r = r < 0 ? r : set_created(row, look);
	r = r < 0 ? r : set_known(row, "left_ms", look->left);
	r = r < 0 ? r : set_known(row, "processes", look->processes);
	r = r < 0 ? r : set_known(row, "memory", look->memory);
	r = r < 0 ? r : set_text(row, "image", manifest_text(look->manifest, "image"));
	r = r < 0 ? r
		  : set_command(row, look->manifest ? node_get(look->manifest, "command") : NULL);
	r = r < 0 ? r : node_set(row, "reason", node_null());
	r = r < 0 ? r : node_set(row, "exit_code", node_null());
	return r < 0 ? r : node_add(rows, take_ptr(&row));
}

/* The last line of a stream, if it is its end. */
static struct node *read_end(int home, const char *id)
{
	_cleanup_(node_freep) struct node *line = NULL;
	_cleanup_close_ int stream = -EBADF;
	char path[TRACE_PATH_SIZE], text[4096], *begin;
	struct stat st;
	ssize_t n;

	trace_stream_path(id, path);
	stream = trace_file_open(home, path, NULL);
	if (stream < 0 || fstat(stream, &st) < 0)
		return NULL;
	n = pread(stream, text, sizeof(text) - 1,
		  MAX(st.st_size - (off_t)sizeof(text) + 1, (off_t)0));
	if (n <= 1 || text[n - 1] != '\n')
		return NULL;
	text[n - 1] = '\0';
	begin = strrchr(text, '\n');
	begin = begin ? begin + 1 : text;
	if (trace_line_parse(begin, strlen(begin), &line, NULL) < 0 ||
	    !trace_is(line, "sandbox", "end"))
		return NULL;
	return take_ptr(&line);
}

/* "2026-01-31T23:59:59" as ms since 1970; UNKNOWN when it is none. */
static uint64_t ms_of_time(const char *text)
{
	struct tm tm = { 0 };
	time_t seconds;

	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return UNKNOWN;
	seconds = timegm(&tm);
	return seconds < 0 ? UNKNOWN : (uint64_t)seconds * 1000;
}

static int add_ended(struct node *rows, int home, const struct stream_summary *s)
{
	_cleanup_(node_freep) struct node *row = node_map(),
					  *end = s->is_alive ? NULL : read_end(home, s->id);
	static const char *const unknown[] = { "isolation", "left_ms", "processes", "memory",
					       "image" };
	const char *state = s->is_alive ? "running" : end ? "ended" : "lost";
	int r = row ? node_set(row, "sandbox", node_string(s->id)) : -ENOMEM;

	r = r < 0 ? r : node_set(row, "name", node_null());
	r = r < 0 ? r : set_text(row, "state", state);
	r = r < 0 ? r : set_known(row, "created_ms", ms_of_time(s->time));
	for (size_t i = 0; i < ARRAY_SIZE(unknown) && r == 0; i++)
		r = node_set(row, unknown[i], node_null());
	r = r < 0 ? r : set_text(row, "command", s->command);
	r = r < 0 ? r : set_text(row, "reason", end ? trace_text(end, "reason") : NULL);
	r = r < 0 ? r
		  : node_set(row, "exit_code",
			     end ? node_int(trace_number(end, "exit_code")) : node_null());
	return r < 0 ? r : node_add(rows, take_ptr(&row));
}

static bool has_row(const struct census *census, const char *id)
{
	for (size_t i = 0; i < census->count; i++)
		if (str_equal(census->looks[i].id, id) && census->looks[i].state != LOOK_GONE)
			return true;
	return false;
}

static int add_all_ended(struct node *rows, const struct census *census)
{
	_cleanup_(catalog_done) struct catalog catalog = { 0 };
	_cleanup_close_ int home = trace_home_open(NULL, false, NULL);
	int r = home < 0 ? 0 : catalog_read(home, &catalog);

	for (size_t i = 0; i < catalog.count && r == 0; i++)
		if (!has_row(census, catalog.items[i].id))
			r = add_ended(rows, home, &catalog.items[i]);
	return r;
}

/* What is not known comes first. */
static int64_t created_of(const struct node *row)
{
	const struct node *created = find(row, "created_ms");

	return created ? created->number : 0;
}

static int by_age(const void *a, const void *b)
{
	const struct node *left = ((const struct node_entry *)a)->value,
			  *right = ((const struct node_entry *)b)->value;
	int64_t x = created_of(left), y = created_of(right);

	return x != y ? (x > y) - (x < y)
		      : strcmp(find(left, "sandbox")->text, find(right, "sandbox")->text);
}

static int make_rows(bool all, struct node **ret_rows, struct err *err)
{
	_cleanup_(census_done) struct census census = { 0 };
	_cleanup_(node_freep) struct node *rows = node_list();
	int r = census_take(NULL, false, &census, err);

	if (r < 0)
		return r;
	r = rows ? 0 : -ENOMEM;
	for (size_t i = 0; i < census.count && r == 0; i++)
		if (census.looks[i].state != LOOK_GONE)
			r = add_living(rows, &census.looks[i]);
	if (r == 0 && all)
		r = add_all_ended(rows, &census);
	if (r < 0)
		return err_errno(err, r, "cannot list the sandboxes");
	if (rows->count)
		qsort(rows->entries, rows->count, sizeof(*rows->entries), by_age);
	*ret_rows = take_ptr(&rows);
	return 0;
}

static void add_figure(struct table *table, const struct node *value,
		       void (*format)(uint64_t, char *))
{
	char text[FIGURE_SIZE] = "";

	if (value)
		format((uint64_t)MAX(value->number, (int64_t)0), text);
	table_add(table, text);
}

static void plain_number(uint64_t value, char text[static FIGURE_SIZE])
{
	snprintf(text, FIGURE_SIZE, "%llu", (unsigned long long)value);
}

static void add_age(struct table *table, const struct node *created)
{
	char text[FIGURE_SIZE] = "";
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (created)
		figure_age((uint64_t)MAX(now.tv_sec * 1000 - created->number, (int64_t)0), text);
	table_add(table, text);
}

static void add_text(struct table *table, const struct node *row, const char *key)
{
	const struct node *value = find(row, key);

	table_add(table, value ? value->text : NULL);
}

/* With the reason of the end, where there is one: "ended (timeout)". */
static void add_state(struct table *table, const struct node *row)
{
	const struct node *reason = find(row, "reason"), *code = find(row, "exit_code");
	char text[128];

	if (!reason && !code) {
		add_text(table, row, "state");
		return;
	}
	snprintf(text, sizeof(text), "%s (%s %lld)", find(row, "state")->text,
		 reason ? reason->text : "exit", code ? (long long)code->number : 0);
	table_add(table, text);
}

static void add_what(struct table *table, const struct node *row)
{
	const struct node *image = find(row, "image"), *command = find(row, "command");
	_cleanup_(buf_done) struct buf text = BUF(2 * MIB);

	buf_printf(&text, "%s%s%s", image ? image->text : "", image && command ? " " : "",
		   command ? command->text : "");
	table_add(table, buf_text(&text));
}

static int print_table(const struct node *rows)
{
	static const char *const titles[] = { "SANDBOX", "NAME",      "STATE",  "TIER",   "AGE",
					      "LEFT",    "PROCESSES", "MEMORY", "COMMAND" };
	_cleanup_(table_done) struct table table = { .columns = ARRAY_SIZE(titles) };
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);

	for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
		table_add(&table, titles[i]);
	for (size_t i = 0; i < rows->count; i++) {
		const struct node *row = rows->entries[i].value;

		add_text(&table, row, "sandbox");
		add_text(&table, row, "name");
		add_state(&table, row);
		add_text(&table, row, "isolation");
		add_age(&table, find(row, "created_ms"));
		add_figure(&table, find(row, "left_ms"), figure_age);
		add_figure(&table, find(row, "processes"), plain_number);
		add_figure(&table, find(row, "memory"), figure_bytes);
		add_what(&table, row);
	}
	table_print(&table, &text);
	return table.failure ?: put_text(&text);
}

static int print_ids(const struct node *rows)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);

	for (size_t i = 0; i < rows->count; i++)
		buf_printf(&text, "%s\n", find(rows->entries[i].value, "sandbox")->text);
	return put_text(&text);
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig ps");
	struct node *row = schema_parts(row_parts, ARRAY_SIZE(row_parts));
	int r = schema_add(document, "sandboxes", schema_list(row), true);

	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int print_rows_json(struct node *rows)
{
	_cleanup_(node_freep) struct node *root = node_map();

	if (!root) {
		node_free(rows);
		return complain_text("out of memory");
	}
	return node_set(root, "sandboxes", rows) < 0 ? complain_text("out of memory")
						     : print_json(root);
}

static int verb_ps_main(int argc, char **argv)
{
	bool all = false, quiet = false, json = false, schema = false, help = false;
	const struct live_option options[] = { { "all", &all, NULL },
					       { "quiet", &quiet, NULL },
					       { "json", &json, NULL },
					       { "schema", &schema, NULL },
					       { "help", &help, NULL } };
	_cleanup_(node_freep) struct node *rows = NULL;
	struct err err = ERR_NONE;
	int r = live_arguments(argc, argv, &verb_ps, options, ARRAY_SIZE(options), &err);

	if (r < 0)
		return complain(&err);
	if (help) {
		print_help(&verb_ps);
		return 0;
	}
	if (schema)
		return print_schema();
	if (r > 0)
		return complain_text("ps: too many words: \"%.40s\" (see \"brig help ps\")",
				     argv[1]);
	r = make_rows(all, &rows, &err);
	if (r < 0 || !rows)
		return complain(&err);
	if (json)
		r = print_rows_json(take_ptr(&rows));
	else if ((r = quiet ? print_ids(rows) : print_table(rows)) < 0)
		r = complain_text("cannot write the list: %s", strerror(-r));
	/* The lost ones were told of once. */
	live_sweep();
	return r;
}

const struct verb verb_ps = {
	.name = "ps",
	.usage = "[-a] [-q] [--json]",
	.summary = "list the sandboxes that live",
	.text = "Lists the sandboxes that live, the newest at the end: id, name, state, tier, age, "
		"time that is left, processes, memory, and what it was made from. The state is "
		"running, paused or ending; \"?\" when its warden does not answer within a "
		"second; and lost when its warden was killed, and the sandbox with it: such a "
		"line is shown once, and what is left is removed.\n\n"
		"-a lists those that have ended as well, as long as their events are kept, with "
		"the reason and the status of their end, and those that \"brig run\" has in the "
		"foreground.",
	.example = "brig ps\nbrig ps -aq\nbrig ps --json",
	.options = ps_options,
	.run = verb_ps_main,
};
