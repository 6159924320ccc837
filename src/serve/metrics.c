#include "serve/metrics.h"

#include <fcntl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <dirent.h>

#include "base/fd.h"
#include "base/str.h"
#include "config.h"

#define CLASSES \
	6 /* of statuses: index is the first digit; 0: the client left before there was one */

/* Seconds; the last bucket is everything. */
static const double bounds[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
				 0.25,  0.5,    1,     2.5,  5,     10,   60 };

struct histogram {
	uint64_t buckets[ARRAY_SIZE(bounds) + 1];
	double sum;
};

struct line {
	const char *route; /* of a table: lives as long as the program */
	enum method method;
	unsigned int status;
	uint64_t count;
};

struct tenant_line {
	char name[TENANT_NAME_MAX + 1];
	uint64_t counts[CLASSES];
};

struct counters {
	struct line lines[COUNTERS_LINES];
	size_t line_count;
	struct tenant_line tenants[COUNTERS_TENANTS + 1]; /* the last: all others */
	size_t tenant_count;
	struct histogram requests, made;
	uint64_t failed, sent;
};

int counters_new(struct counters **ret_counters)
{
	struct counters *counters = calloc(1, sizeof(*counters));

	if (!counters)
		return -ENOMEM;
	snprintf(counters->tenants[COUNTERS_TENANTS].name, sizeof(counters->tenants[0].name), "%s",
		 "");
	*ret_counters = counters;
	return 0;
}

void counters_free(struct counters *counters)
{
	free(counters);
}

static void observe(struct histogram *h, uint64_t ms)
{
	double seconds = (double)ms / 1000;
	size_t i = 0;

	while (i < ARRAY_SIZE(bounds) && seconds > bounds[i])
		i++;
	h->buckets[i]++;
	h->sum += seconds;
}

/* Two tables may have a row of the same path: they are one line. */
static struct line *find_line(struct counters *c, const char *route, enum method method,
			      unsigned int status)
{
	for (size_t i = 0; i < c->line_count; i++)
		if (c->lines[i].status == status && c->lines[i].method == method &&
		    (c->lines[i].route == route || str_equal(c->lines[i].route, route)))
			return &c->lines[i];
	/* The last place is for all that find none. */
	if (c->line_count == COUNTERS_LINES) {
		c->lines[COUNTERS_LINES - 1].route = "";
		c->lines[COUNTERS_LINES - 1].status = 0;
		return &c->lines[COUNTERS_LINES - 1];
	}
	c->lines[c->line_count] =
		(struct line){ .route = route, .method = method, .status = status };
	return &c->lines[c->line_count++];
}

static struct tenant_line *find_tenant(struct counters *c, const char *name)
{
	for (size_t i = 0; i < c->tenant_count; i++)
		if (str_equal(c->tenants[i].name, name))
			return &c->tenants[i];
	if (c->tenant_count == COUNTERS_TENANTS)
		return &c->tenants[COUNTERS_TENANTS];
	snprintf(c->tenants[c->tenant_count].name, sizeof(c->tenants[0].name), "%s", name);
	return &c->tenants[c->tenant_count++];
}

void counters_request(struct counters *counters, const struct exchange *x, const struct request *q)
{
	const struct route *route = q ? q->route : NULL;
	unsigned int class = x->status / 100 < CLASSES ? x->status / 100 : 0;

	/* What no row knows has no method of its own either: there are as many as clients can think of. */
	find_line(counters, route ? route->path : "", route ? route->method : METHOD_OTHER,
		  x->status)
		->count++;
	if (q && q->tenant_name[0])
		find_tenant(counters, q->tenant_name)->counts[class]++;
	observe(&counters->requests, loop_now(x->loop) - x->began);
	counters->sent += x->sent;
}

void counters_made(struct counters *counters, uint64_t ms, bool is_made)
{
	if (is_made)
		observe(&counters->made, ms);
	else
		counters->failed++;
}

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
	(void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_label(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			(void)buf_char(out, '\\');
		if (*text == '\n')
			(void)buf_str(out, "\\n");
		else
			(void)buf_char(out, *text);
	}
}

static void put_histogram(struct buf *out, const char *name, const char *help,
			  const struct histogram *h)
{
	uint64_t sum = 0;

	family(out, name, "histogram", help);
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		sum += h->buckets[i];
		(void)buf_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], sum);
	}
	sum += h->buckets[ARRAY_SIZE(bounds)];
	(void)buf_printf(out,
			 "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.6f\n%s_count %" PRIu64 "\n",
			 name, sum, name, h->sum, name, sum);
}

static void put_one(struct buf *out, const char *name, const char *type, const char *help,
		    double value)
{
	family(out, name, type, help);
	(void)buf_printf(out, "%s %.15g\n", name, value);
}

static void put_requests(struct buf *out, const struct counters *c)
{
	family(out, "brig_http_requests_total", "counter",
	       "Requests by the route that they fitted (empty: none) and the status of the "
	       "answer.");
	for (size_t i = 0; i < c->line_count; i++) {
		const struct line *line = &c->lines[i];

		(void)buf_printf(out, "brig_http_requests_total{method=\"%s\",route=\"",
				 line->method < METHOD_OTHER ? method_names[line->method] : "");
		put_label(out, line->route);
		(void)buf_printf(out, "\",code=\"%u\"} %" PRIu64 "\n", line->status, line->count);
	}
	put_histogram(out, "brig_http_request_duration_seconds",
		      "From the head of a request to the last byte of its answer.", &c->requests);
	put_one(out, "brig_http_response_bytes_total", "counter", "Bytes of bodies of answers.",
		(double)c->sent);
}

static void put_tenant_requests(struct buf *out, const struct counters *c)
{
	family(out, "brig_tenant_requests_total", "counter",
	       "Requests with a good key, by tenant (empty: those beyond the first hundred) and "
	       "class of "
	       "the answer.");
	for (size_t i = 0; i <= c->tenant_count && i <= COUNTERS_TENANTS; i++) {
		/* Behind those that have names of their own. */
		const struct tenant_line *line =
			&c->tenants[i == c->tenant_count ? COUNTERS_TENANTS : i];

		for (unsigned int class = 0; class < CLASSES; class ++) {
			if (!line->counts[class])
				continue;
			(void)buf_str(out, "brig_tenant_requests_total{tenant=\"");
			put_label(out, line->name);
			(void)buf_printf(out, "\",class=\"%uxx\"} %" PRIu64 "\n", class,
					 line->counts[class]);
		}
	}
}

/* Sandboxes by state, and by tenant as far as it has a line. */
static void put_sandboxes(struct buf *out, struct serve *serve)
{
	static const char *const states[HELD_COUNT] = {
		[HELD_RUNNING] = "running", [HELD_PAUSED] = "paused"
	};
	struct counters *c = serve->counters;
	uint64_t by_state[HELD_COUNT] = { 0 }, by_tenant[COUNTERS_TENANTS + 1] = { 0 };
	const struct held *held;

	for (size_t i = 0; (held = registry_at(serve->registry, i)); i++) {
		by_state[held->state]++;
		by_tenant[find_tenant(c, held->tenant) - c->tenants]++;
	}
	family(out, "brig_sandboxes", "gauge", "Sandboxes that there are, by state.");
	for (size_t i = 0; i < HELD_COUNT; i++)
		(void)buf_printf(out, "brig_sandboxes{state=\"%s\"} %" PRIu64 "\n", states[i],
				 by_state[i]);
	family(out, "brig_tenant_sandboxes", "gauge",
	       "Sandboxes that there are, by tenant (empty: those beyond the first hundred).");
	for (size_t i = 0; i <= COUNTERS_TENANTS; i++) {
		if (i < c->tenant_count || by_tenant[i]) {
			(void)buf_str(out, "brig_tenant_sandboxes{tenant=\"");
			put_label(out, c->tenants[i].name);
			(void)buf_printf(out, "\"} %" PRIu64 "\n", by_tenant[i]);
		}
	}
}

static double count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	double count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 3; /* ".", ".." and the one that reads */
}

static double resident_bytes(void)
{
	char text[128];
	unsigned long long size, resident;

	if (file_read_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) < 0 ||
	    sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double cpu_seconds(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		return 0;
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* By the names that every exporter of a process has. */
static void put_process(struct buf *out, const struct serve *serve)
{
	put_one(out, "process_start_time_seconds", "gauge",
		"When the daemon was started, since 1970.", (double)serve->began / 1000);
	put_one(out, "process_cpu_seconds_total", "counter", "CPU time of the daemon.",
		cpu_seconds());
	put_one(out, "process_resident_memory_bytes", "gauge", "Memory of the daemon.",
		resident_bytes());
	put_one(out, "process_open_fds", "gauge", "Open descriptors of the daemon.",
		count_descriptors());
}

void counters_write(const struct counters *counters, struct buf *out)
{
	put_histogram(out, "brig_sandbox_create_duration_seconds",
		      "How long a sandbox took to be made, as its client saw it.", &counters->made);
	put_one(out, "brig_sandbox_create_failures_total", "counter",
		"Sandboxes that could not be made.", (double)counters->failed);
	put_requests(out, counters);
	put_tenant_requests(out, counters);
}

int metrics_write(struct serve *serve, struct buf *out)
{
	family(out, "brig_build_info", "gauge", "The version that runs; always 1.");
	(void)buf_str(out, "brig_build_info{version=\"" BRIG_VERSION "\"} 1\n");
	put_one(out, "brig_http_connections", "gauge", "Connections that are open.",
		(double)server_connections(serve->server));
	put_one(out, "brig_http_held_bytes", "gauge",
		"Bodies that are collected or wait to go inside, and output that is not sent yet.",
		(double)server_held(serve->server));
	put_one(out, "brig_draining", "gauge", "1 while the daemon is stopping.",
		serve->is_draining);
	put_sandboxes(out, serve);
	counters_write(serve->counters, out);
	put_process(out, serve);
	return buf_failed(out);
}
