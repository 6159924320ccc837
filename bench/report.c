#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/fd.h"
#include "stats.h"

static const struct {
	const char *name;
	unsigned int per_mille;
} ranks[] = { { "min", 0 }, { "p50", 500 }, { "p90", 900 }, { "p99", 990 }, { "max", 1000 } };

struct row {
	const struct bench_case *item;
	double at[ARRAY_SIZE(ranks)];
	bool has_zero, has_peer;
	struct interval to_zero, to_peer;
};

void machine_read(struct machine *ret_machine)
{
	struct machine machine = { 0 };
	char text[128], stat[4096] = "";

	if (file_read_at(AT_FDCWD, "/proc/loadavg", text, sizeof(text)) >= 0)
		machine.load = strtod(text, NULL);
	/* "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guest time is
	 * part of user time already. Other lines follow, so the file may be longer than stat. */
	_cleanup_close_ int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);

	if (n > 5) {
		char *p = stat + strlen("cpu ");

		for (int field = 1; field <= 8; field++) {
			uint64_t ticks = strtoull(p, &p, 10);

			machine.ticks += ticks;
			if (field == 8)
				machine.steal = ticks;
		}
	}
	*ret_machine = machine;
}

static double steal_percent(const struct conditions *conditions)
{
	uint64_t ticks = conditions->after.ticks - conditions->before.ticks;
	uint64_t steal = conditions->after.steal - conditions->before.steal;

	return ticks ? 100.0 * (double)steal / (double)ticks : 0;
}

/* The median of the ratios of each round: what disturbed a round disturbed both of its halves. */
static int compare_cases(const struct bench_case *item, const struct bench_case *other,
			 const struct conditions *conditions, struct interval *ret_interval)
{
	_cleanup_free_ double *ratios = calloc(conditions->rounds, sizeof(*ratios));
	struct random random = { conditions->seed };

	if (!ratios)
		return -ENOMEM;
	for (size_t i = 0; i < conditions->rounds; i++)
		ratios[i] = item->values[i] / other->values[i];
	return stats_median(ratios, conditions->rounds, &random, ret_interval);
}

static int make_row(const struct cases *cases, const struct bench_case *item,
		    const struct conditions *conditions, struct row *ret_row)
{
	_cleanup_free_ double *sorted = calloc(conditions->rounds, sizeof(*sorted));
	struct row row = { .item = item };
	int r = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, item->values, conditions->rounds * sizeof(*sorted));
	stats_sort(sorted, conditions->rounds);
	for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
		row.at[i] = stats_rank(sorted, conditions->rounds, ranks[i].per_mille);
	row.has_zero = cases->zero != NULL;
	row.has_peer = cases->peer != NULL;
	if (row.has_zero)
		r = compare_cases(item, cases->zero, conditions, &row.to_zero);
	if (r == 0 && row.has_peer)
		r = compare_cases(item, cases->peer, conditions, &row.to_peer);
	if (r < 0)
		return r;
	*ret_row = row;
	return 0;
}

static int make_rows(const struct cases *cases, const struct conditions *conditions,
		     struct row *rows, struct err *err)
{
	for (size_t i = 0; i < cases->count; i++) {
		int r = make_row(cases, &cases->items[i], conditions, &rows[i]);

		if (r < 0)
			return err_errno(err, r, "case \"%s\"", cases->items[i].name);
	}
	return 0;
}

int report_choose_peer(struct cases *cases, const struct conditions *conditions, struct err *err)
{
	const size_t middle = 1;
	double best = 0;

	for (size_t i = 0; i < cases->count; i++) {
		struct row row;
		int r;

		if (!cases->items[i].can_be_peer)
			continue;
		r = make_row(cases, &cases->items[i], conditions, &row);
		if (r < 0)
			return err_errno(err, r, "case \"%s\"", cases->items[i].name);
		if (!cases->peer ||
		    (conditions->callers ? row.at[middle] > best : row.at[middle] < best)) {
			best = row.at[middle];
			cases->peer = &cases->items[i];
		}
	}
	return 0;
}

static int name_width(const struct cases *cases)
{
	size_t width = strlen("command");

	for (size_t i = 0; i < cases->count; i++)
		width = MAX(width, strlen(cases->items[i].name));
	return (int)width;
}

static void print_interval(FILE *out, bool has, const struct interval *interval)
{
	char text[64] = "-";

	if (has)
		snprintf(text, sizeof(text), "%.2f (%.2f-%.2f)", interval->median, interval->low,
			 interval->high);
	fprintf(out, "  %19s", text);
}

static void print_row(FILE *out, int width, int decimals, const struct row *row)
{
	fprintf(out, "  %-*s", width, row->item->name);
	for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
		fprintf(out, " %9.*f", decimals, row->at[i]);
	fprintf(out, " %8zu", row->item->failures);
	print_interval(out, row->has_zero, &row->to_zero);
	print_interval(out, row->has_peer, &row->to_peer);
	fprintf(out, "  %s\n", row->item->walls ? row->item->walls : "");
}

static const char *unit_of(const struct conditions *conditions)
{
	return conditions->callers ? "/s" : "ms";
}

static void print_head(FILE *out, int width, const struct cases *cases, const char *unit)
{
	char zero[64] = "-", peer[64] = "-";

	if (cases->zero)
		snprintf(zero, sizeof(zero), "x %s", cases->zero->name);
	if (cases->peer)
		snprintf(peer, sizeof(peer), "x %s", cases->peer->name);
	fprintf(out, "  %-*s", width, "command");
	for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
		fprintf(out, " %6s %s", ranks[i].name, unit);
	fprintf(out, " %8s  %19s  %19s  %s\n", "failures", zero, peer, "walls");
}

static void print_conditions(FILE *out, const struct conditions *conditions)
{
	const struct living *living = &conditions->living;

	fprintf(out, "  %zu rounds after %zu to warm up", conditions->rounds, conditions->warmup);
	if (conditions->callers)
		fprintf(out, ", slices of %zu ms, %zu callers at once; more is better",
			conditions->slice_ms, conditions->callers);
	fprintf(out, "; load %.2f before, %.2f after; steal %.1f %%\n", conditions->before.load,
		conditions->after.load, steal_percent(conditions));
	if (living->taken_kib)
		fprintf(out,
			"  each of the %zu took %ld KiB of the available memory and gave back "
			"%ld\n",
			living->count, living->taken_kib, living->returned_kib);
}

int report_table(FILE *out, const struct cases *cases, const struct conditions *conditions,
		 struct err *err)
{
	struct row rows[CASES_MAX] = { 0 };
	int width = name_width(cases);
	size_t failures = 0;
	int r = make_rows(cases, conditions, rows, err);

	if (r < 0)
		return r;
	fprintf(out, "%s\n", cases->section ? cases->section : "bench");
	print_conditions(out, conditions);
	print_head(out, width, cases, unit_of(conditions));
	for (size_t i = 0; i < cases->count; i++) {
		print_row(out, width, conditions->callers ? 1 : 3, &rows[i]);
		failures += rows[i].item->failures;
	}
	if (failures > 0)
		fprintf(out, "  commands failed: the times of such a row are of failures, not of "
			     "starts\n");
	fputc('\n', out);
	return 0;
}

static void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (const char *p = text ? text : ""; *p; p++) {
		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if ((unsigned char)*p < 0x20)
			fprintf(out, "\\u%04x", (unsigned int)*p);
		else
			fputc(*p, out);
	}
	fputc('"', out);
}

static void json_member(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\":", name);
	json_string(out, value);
}

static void json_interval(FILE *out, const char *name, bool has, const struct interval *interval)
{
	if (has)
		fprintf(out, ",\"%s\":{\"median\":%.6f,\"low\":%.6f,\"high\":%.6f}", name,
			interval->median, interval->low, interval->high);
}

static void json_row(FILE *out, const struct row *row, const struct conditions *conditions)
{
	const char *unit = conditions->callers ? "per_s" : "ms";

	fputc('{', out);
	json_member(out, "name", row->item->name);
	fputc(',', out);
	json_member(out, "walls", row->item->walls);
	for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
		fprintf(out, ",\"%s_%s\":%.6f", ranks[i].name, unit, row->at[i]);
	fprintf(out, ",\"failures\":%zu", row->item->failures);
	json_interval(out, "to_zero", row->has_zero, &row->to_zero);
	json_interval(out, "to_peer", row->has_peer, &row->to_peer);
	fprintf(out, ",\"%s\":[", unit);
	for (size_t i = 0; i < conditions->rounds; i++)
		fprintf(out, "%s%.6f", i ? "," : "", row->item->values[i]);
	fputs("]}", out);
}

int report_json(FILE *out, const struct cases *cases, const struct conditions *conditions,
		struct err *err)
{
	struct row rows[CASES_MAX] = { 0 };
	int r = make_rows(cases, conditions, rows, err);

	if (r < 0)
		return r;
	fputc('{', out);
	json_member(out, "section", cases->section);
	fprintf(out,
		",\"rounds\":%zu,\"warmup\":%zu,\"ahead\":%zu,\"seed\":%" PRIu64
		",\"load_before\":%.2f,\"load_after\":%.2f,\"steal_percent\":%.3f,",
		conditions->rounds, conditions->warmup, conditions->ahead, conditions->seed,
		conditions->before.load, conditions->after.load, steal_percent(conditions));
	if (conditions->callers)
		fprintf(out, "\"callers\":%zu,\"slice_ms\":%zu,", conditions->callers,
			conditions->slice_ms);
	if (conditions->living.count)
		fprintf(out, "\"living\":%zu,\"taken_kib\":%ld,\"returned_kib\":%ld,",
			conditions->living.count, conditions->living.taken_kib,
			conditions->living.returned_kib);
	fprintf(out, "\"until_gone\":%s,", conditions->until_gone ? "true" : "false");
	json_member(out, "zero", cases->zero ? cases->zero->name : NULL);
	fputc(',', out);
	json_member(out, "peer", cases->peer ? cases->peer->name : NULL);
	fputs(",\"cases\":[", out);
	for (size_t i = 0; i < cases->count; i++) {
		fputs(i ? "," : "", out);
		json_row(out, &rows[i], conditions);
	}
	fputs("]}\n", out);
	return 0;
}

void report_memory(FILE *out, const struct cases *cases)
{
	int width = name_width(cases);

	fprintf(out, "%s\n", cases->section ? cases->section : "memory");
	fprintf(out, "  %-*s %9s %10s %13s %8s %9s\n", width, "command", "peak KiB", "processes",
		"resident KiB", "Pss KiB", "failures");
	for (size_t i = 0; i < cases->count; i++) {
		const struct bench_case *item = &cases->items[i];
		char share[32] = "-";

		if (item->footprint.proportional_kib >= 0)
			snprintf(share, sizeof(share), "%ld", item->footprint.proportional_kib);
		fprintf(out, "  %-*s %9ld %10zu %13ld %8s %9zu\n", width, item->name,
			item->peak_kib, item->footprint.processes, item->footprint.resident_kib,
			share, item->failures);
	}
	fputc('\n', out);
}

void report_memory_json(FILE *out, const struct cases *cases)
{
	fputc('{', out);
	json_member(out, "section", cases->section);
	fputs(",\"cases\":[", out);
	for (size_t i = 0; i < cases->count; i++) {
		const struct bench_case *item = &cases->items[i];

		fputs(i ? ",{" : "{", out);
		json_member(out, "name", item->name);
		fprintf(out, ",\"peak_kib\":%ld,\"processes\":%zu,\"resident_kib\":%ld",
			item->peak_kib, item->footprint.processes, item->footprint.resident_kib);
		if (item->footprint.proportional_kib >= 0)
			fprintf(out, ",\"pss_kib\":%ld", item->footprint.proportional_kib);
		fprintf(out, ",\"failures\":%zu}", item->failures);
	}
	fputs("]}\n", out);
}
