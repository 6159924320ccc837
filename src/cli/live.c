#include "cli/live.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "cli/grant.h"
#include "jail/scratch.h"
#include "trace/text.h"
#include "warden/roster.h"

static void put_option(const struct live_option *options, size_t count, const char *name,
		       const char *value)
{
	for (size_t i = 0; i < count; i++) {
		if (!str_equal(options[i].name, name))
			continue;
		if (options[i].place)
			*options[i].place = true;
		if (options[i].value)
			*options[i].value = value;
	}
}

int live_arguments(int argc, char **argv, const struct verb *verb,
		   const struct live_option *options, size_t count, struct err *err)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	bool only_words = false;
	int words = 0;

	while (args.at < argc) {
		const char *name, *value;
		int r = 0;

		if (!only_words && args.letter == 0 && str_equal(argv[args.at], "--")) {
			only_words = true;
			args.at++;
			continue;
		}
		if (!only_words)
			r = args_next(&args, verb, &name, &value, err);
		if (r < 0)
			return r;
		if (r > 0)
			put_option(options, count, name, value);
		else
			argv[1 + words++] = argv[args.at++];
	}
	return words;
}

void table_add(struct table *table, const char *cell)
{
	_cleanup_(buf_done) struct buf text = BUF(MIB);
	int r = trace_safe_text(cell && *cell ? cell : "-", &text);

	r = r < 0 ? r : strv_add(&table->cells, buf_text(&text));
	table->failure = table->failure ?: r;
}

/* Characters, not bytes: what is no UTF-8 did not come through. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static size_t column_width(const struct table *table, size_t column)
{
	size_t width = 0;

	for (size_t i = column; i < table->cells.count; i += table->columns)
		width = MAX(width, width_of(table->cells.items[i]));
	return width;
}

void table_print(const struct table *table, struct buf *out)
{
	size_t widths[16] = { 0 };

	if (table->columns == 0 || table->columns > ARRAY_SIZE(widths))
		return;
	for (size_t i = 0; i < table->columns; i++)
		widths[i] = column_width(table, i);
	for (size_t i = 0; i < table->cells.count; i++) {
		const char *cell = table->cells.items[i];
		size_t column = i % table->columns;

		buf_str(out, cell);
		if (column + 1 == table->columns)
			buf_char(out, '\n');
		else
			buf_printf(out, "%*s", (int)(widths[column] - width_of(cell) + 2), "");
	}
}

void table_done(struct table *table)
{
	strv_done(&table->cells);
}

void figure_bytes(uint64_t bytes, char text[static FIGURE_SIZE])
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	/* As it will be printed: 1023.6 would be "1024". */
	while (value >= 1023.5 && unit + 2 < sizeof(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(text, FIGURE_SIZE, unit == 0 || value >= 99.95 ? "%.0f%c" : "%.1f%c", value,
		 units[unit]);
}

void figure_age(uint64_t ms, char text[static FIGURE_SIZE])
{
	static const struct {
		uint64_t below, ms;
		char unit;
	} steps[] = { { 60000, 1000, 's' },
		      { 3600000, 60000, 'm' },
		      { 48 * 3600000ull, 3600000, 'h' },
		      { UINT64_MAX, 24 * 3600000ull, 'd' } };
	size_t i = 0;

	while (ms >= steps[i].below && i + 1 < ARRAY_SIZE(steps))
		i++;
	snprintf(text, FIGURE_SIZE, "%llu%c", (unsigned long long)(ms / steps[i].ms),
		 steps[i].unit);
}

const char *manifest_text(const struct node *manifest, const char *key)
{
	const struct node *node = manifest ? node_get(manifest, key) : NULL;

	return node && node->kind == NODE_STRING ? node->text : NULL;
}

int put_text(const struct buf *text)
{
	int r = buf_failed(text);

	r = r < 0 ? r : fd_write_all(1, buf_text(text), text->len);
	return r == -EPIPE ? 0 : r;
}

int set_known(struct node *map, const char *key, uint64_t value)
{
	return node_set(map, key, value == UINT64_MAX ? node_null() : node_int((int64_t)value));
}

void live_sweep(void)
{
	(void)roster_sweep(0);
	(void)scratch_sweep(grant_temporary());
}
