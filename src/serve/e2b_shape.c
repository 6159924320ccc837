/* e2b_shape.c - a sandbox as the field's clients want to read it */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "serve/e2b_control.h"

/* --- where clients find it --- */

/* An address has no names below it; "localhost" has, at least in browsers. */
static bool is_loopback(const char *host)
{
	return str_starts(host, "127.") || str_equal(host, "[::1]");
}

static void host_of_client(const struct request *q, char *text, size_t size)
{
	const struct text *host = head_find(&q->x->head, "host");
	int len = host && host->len < 256 ? (int)host->len : 0;
	const char *port;
	char name[260];

	snprintf(name, sizeof(name), "%.*s", len, len ? host->data : "");
	port = strrchr(name, ':');
	if (port && strchr(port, ']'))
		port = NULL;
	if (is_loopback(name) || str_starts(name, "[::1]"))
		snprintf(text, size, "localhost%s", port ? port : "");
	else
		snprintf(text, size, "%s", str_starts(name, "api.") ? name + 4 : name);
}

void shape_domain(const struct request *q, char ret_domain[static E2B_DOMAIN_MAX])
{
	const char *domain = q->serve->settings.domain, *port;
	char host[E2B_DOMAIN_MAX];

	host_of_client(q, host, sizeof(host));
	if (!domain[0]) {
		snprintf(ret_domain, E2B_DOMAIN_MAX, "%s", host);
		return;
	}
	/* The port that the client came by is the one that leads here again. */
	port = strchr(domain, ':') ? NULL : strrchr(host, ':');
	snprintf(ret_domain, E2B_DOMAIN_MAX, "%s%s", domain,
		 port && !strchr(port, ']') ? port : "");
}

/* --- how large it is --- */

unsigned int shape_cpus(const struct held *held)
{
	long all = sysconf(_SC_NPROCESSORS_ONLN);

	if (held->cpu > 0)
		return (unsigned int)held->cpu + (held->cpu > (unsigned int)held->cpu);
	return all > 0 ? (unsigned int)all : 1;
}

uint64_t shape_memory(const struct held *held)
{
	struct sysinfo info;

	if (held->memory)
		return held->memory;
	return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}

uint64_t shape_disk(const struct held *held)
{
	struct statvfs fs;

	if (held->disk)
		return held->disk;
	return statvfs("/tmp", &fs) == 0 ? (uint64_t)fs.f_blocks * fs.f_frsize : 0;
}

struct node *shape_time(uint64_t ms)
{
	char text[TIME_TEXT_SIZE];

	time_text(ms, text);
	return node_string(text);
}

/* --- the shapes --- */

static struct node *text_or_null(const char *text)
{
	return text[0] ? node_string(text) : node_null();
}

/* One after the other; the first failure stays. */
static void set(struct node *map, const char *key, struct node *value, int *r)
{
	int failed = map ? node_set(map, key, value) : -ENOMEM;

	if (!map)
		node_free(value);
	*r = *r < 0 ? *r : failed;
}

static void set_names(struct node *map, const struct held *held, int *r)
{
	set(map, "templateID", node_string(held->template_id), r);
	if (held->alias[0])
		set(map, "alias", node_string(held->alias), r);
	set(map, "sandboxID", node_string(held->id), r);
	set(map, "clientID", node_string(E2B_CLIENT), r);
	set(map, "envdVersion", node_string(E2B_VERSION), r);
}

static struct node *finish(struct node *map, int r)
{
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

struct node *shape_sandbox(const struct held *held, const char *domain)
{
	struct node *map = node_map();
	int r = 0;

	set_names(map, held, &r);
	if (held->token[0])
		set(map, "envdAccessToken", node_string(held->token), &r);
	set(map, "trafficAccessToken", text_or_null(held->traffic_token), &r);
	set(map, "domain", text_or_null(domain), &r);
	return finish(map, r);
}

static uint64_t in_mib(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB;
}

static void set_listed(struct node *map, const struct held *held, int *r)
{
	struct node *metadata = extra_json(held->metadata);

	set_names(map, held, r);
	set(map, "startedAt", shape_time(held->started), r);
	/* Never: as far away as all clients can read. */
	set(map, "endAt",
	    held->ends ? shape_time(held->ends) : node_string("9999-12-31T23:59:59.000Z"), r);
	set(map, "cpuCount", node_int(shape_cpus(held)), r);
	set(map, "memoryMB", node_int((int64_t)in_mib(shape_memory(held))), r);
	set(map, "diskSizeMB", node_int((int64_t)in_mib(shape_disk(held))), r);
	set(map, "state", node_string(held->state == HELD_PAUSED ? "paused" : "running"), r);
	set(map, "metadata", metadata ? metadata : node_map(), r);
	set(map, "volumeMounts", node_list(), r);
}

struct node *shape_listed(const struct held *held)
{
	struct node *map = node_map();
	int r = 0;

	set_listed(map, held, &r);
	return finish(map, r);
}

static struct node *lifecycle(const struct held *held)
{
	struct node *map = node_map();
	int r = 0;

	set(map, "autoResume", node_bool(held->resumes), &r);
	set(map, "onTimeout", node_string(held->pauses ? "pause" : "kill"), &r);
	return finish(map, r);
}

struct node *shape_detail(const struct held *held, const char *domain)
{
	struct node *map = node_map(), *network = extra_json(held->network);
	int64_t internet = extra_number(held, "internet", -1);
	int r = 0;

	set_listed(map, held, &r);
	if (held->token[0])
		set(map, "envdAccessToken", node_string(held->token), &r);
	set(map, "allowInternetAccess", internet < 0 ? node_null() : node_bool(internet != 0), &r);
	set(map, "domain", text_or_null(domain), &r);
	if (network)
		set(map, "network", network, &r);
	set(map, "lifecycle", lifecycle(held), &r);
	if (held->state == HELD_PAUSED)
		set(map, "pauseMode", node_string("full"), &r);
	return finish(map, r);
}
