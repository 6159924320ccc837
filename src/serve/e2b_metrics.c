/*
 * e2b_metrics.c - GET /sandboxes/{id}/metrics and /sandboxes/metrics: what sandboxes use
 *
 * The warden counts (STATUS); only the files are counted inside (USAGE), where an answer may never come, so it
 * is not waited for for long. A percentage needs two looks: those of the last minutes are kept for sandboxes that
 * somebody asked about, and taken every few seconds for as long as somebody goes on asking. All others cost nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "serve/e2b_control.h"

#define LOOK_EVERY_MS 5000
#define LOOK_FOR_MS   60000 /* after the last question */
#define LOOKS_KEPT    64
#define FILES_MS      2000 /* for an answer from inside */
#define SHORTEST_MS   500  /* between two looks that are compared */
#define METERS_MAX    4096
#define MANY_MAX      100

struct look {
	uint64_t at;     /* ms since 1970 */
	uint64_t cpu_us; /* so far */
	double percent;  /* of all its CPUs, since a look before */
	uint64_t memory, memory_size, disk, disk_size;
};

/* The looks at one sandbox, the oldest overwritten. */
struct meter {
	char id[TRACE_ID_SIZE];
	uint64_t asked; /* ms since 1970 */
	struct look looks[LOOKS_KEPT];
	size_t count; /* so far; the next one goes to count % LOOKS_KEPT */
};

static struct {
	struct meter **items;
	size_t count;
	loop_id timer;
} meters;

/* --- one look --- */

struct probe {
	struct serve *serve;
	char id[TRACE_ID_SIZE];
	struct look look;
	call_id call;
	loop_id timer;
	void (*done)(void *of, const struct look *look); /* NULL look: there is none */
	void *of;
};

static struct meter *find_meter(const char *id)
{
	for (size_t i = 0; i < meters.count; i++)
		if (str_equal(meters.items[i]->id, id))
			return meters.items[i];
	return NULL;
}

static const struct look *look_before(const struct meter *meter, size_t back)
{
	if (!meter || back > meter->count || back > LOOKS_KEPT || back == 0)
		return NULL;
	return &meter->looks[(meter->count - back) % LOOKS_KEPT];
}

/* Since the last look that is long enough ago, else since the start. */
static double percent_of(const struct probe *probe, const struct held *held)
{
	const struct meter *meter = find_meter(probe->id);
	const struct look *look = &probe->look, *before = look_before(meter, 1);
	uint64_t since = held->started, used = 0;

	for (size_t back = 2; before && look->at - before->at < SHORTEST_MS; back++)
		before = look_before(meter, back);
	if (before && before->cpu_us <= look->cpu_us) {
		since = before->at;
		used = before->cpu_us;
	}
	if (look->at <= since)
		return 0;
	return (double)(look->cpu_us - used) / 10.0 / (double)(look->at - since) / shape_cpus(held);
}

static void probe_end(struct probe *probe, bool is_known)
{
	struct serve *serve = probe->serve;
	const struct held *held = registry_find(serve->registry, probe->id, NULL);
	struct meter *meter = find_meter(probe->id);

	probe->call = call_cancel(serve->fleet, probe->call);
	probe->timer = loop_cancel(serve->loop, probe->timer);
	if (is_known && held) {
		probe->look.percent = percent_of(probe, held);
		if (meter)
			meter->looks[meter->count++ % LOOKS_KEPT] = probe->look;
	}
	if (probe->done)
		probe->done(probe->of, is_known && held ? &probe->look : NULL);
	free(probe);
}

static void on_files(void *of, struct message *m, bool is_last)
{
	struct probe *probe = of;

	if (!is_last)
		return;
	probe->call = 0;
	if (m->type == MESSAGE_USAGE_IS) {
		probe->look.disk = message_number(m, FIELD_DISK, 0);
		probe->look.disk_size = message_number(m, FIELD_DISK_SIZE, probe->look.disk_size);
	}
	probe_end(probe, true);
}

static void on_late(void *of)
{
	struct probe *probe = of;

	probe->timer = 0;
	probe_end(probe, true);
}

static void ask_files(struct probe *probe)
{
	struct draft d = DRAFT(MESSAGE_USAGE, 0);
	struct err err = ERR_NONE;

	if (call_start(probe->serve->fleet, probe->id, &d, NULL, 0, on_files, probe, &probe->call,
		       &err) < 0 ||
	    loop_after(probe->serve->loop, FILES_MS, on_late, probe, &probe->timer) < 0)
		probe_end(probe, true);
}

static void on_status(void *of, struct message *m, bool is_last)
{
	struct probe *probe = of;

	if (!is_last)
		return;
	probe->call = 0;
	if (m->type != MESSAGE_STATUS_IS) {
		probe_end(probe, false);
		return;
	}
	probe->look.at = time_now();
	probe->look.cpu_us = message_number(m, FIELD_CPU, 0);
	probe->look.memory = message_number(m, FIELD_MEMORY, 0);
	probe->look.memory_size = message_number(m, FIELD_LIMIT, probe->look.memory_size);
	/* Nobody inside a paused one answers. */
	if (message_number(m, FIELD_STATE, STATE_RUNNING) == STATE_RUNNING)
		ask_files(probe);
	else
		probe_end(probe, true);
}

/* done() is never called from within. */
static int probe_begin(struct serve *serve, const struct held *held,
		       void (*done)(void *of, const struct look *look), void *of,
		       struct probe **ret_probe)
{
	struct draft d = DRAFT(MESSAGE_STATUS, 0);
	struct probe *probe = calloc(1, sizeof(*probe));
	const struct look *before = look_before(find_meter(held->id), 1);
	struct err err = ERR_NONE;
	int r;

	if (!probe)
		return -ENOMEM;
	*probe = (struct probe){ .serve = serve, .done = done, .of = of };
	snprintf(probe->id, sizeof(probe->id), "%s", held->id);
	probe->look.memory_size = shape_memory(held);
	probe->look.disk_size = shape_disk(held);
	probe->look.disk = before ? before->disk : 0;
	r = call_start(serve->fleet, held->id, &d, NULL, 0, on_status, probe, &probe->call, &err);
	if (r < 0)
		free(probe);
	else if (ret_probe)
		*ret_probe = probe;
	return r;
}

static void probe_leave(struct probe *probe)
{
	if (probe)
		probe->done = NULL;
}

/* --- looks without a question --- */

static void on_tick(void *of);

static void tick_later(struct serve *serve)
{
	if (!meters.timer && meters.count > 0)
		(void)!loop_after(serve->loop, LOOK_EVERY_MS, on_tick, serve, &meters.timer);
}

static void on_tick(void *of)
{
	struct serve *serve = of;
	uint64_t now = time_now();

	meters.timer = 0;
	for (size_t i = meters.count; i-- > 0;) {
		struct meter *meter = meters.items[i];
		const struct held *held = registry_find(serve->registry, meter->id, NULL);

		if (!held || now > meter->asked + LOOK_FOR_MS) {
			free(meter);
			meters.items[i] = meters.items[--meters.count];
		} else if (held->state == HELD_RUNNING) {
			(void)!probe_begin(serve, held, NULL, NULL, NULL);
		}
	}
	tick_later(serve);
}

/* From now on looks at it are kept. Without memory, or with too many, an answer is still there. */
static void mind(struct serve *serve, const char *id)
{
	struct meter *meter = find_meter(id), **items;

	if (!meter) {
		if (meters.count == METERS_MAX)
			return;
		items = realloc(meters.items, (meters.count + 1) * sizeof(struct meter *));
		if (!items)
			return;
		meters.items = items;
		meter = calloc(1, sizeof(*meter));
		if (!meter)
			return;
		snprintf(meter->id, sizeof(meter->id), "%s", id);
		items[meters.count++] = meter;
	}
	meter->asked = time_now();
	tick_later(serve);
}

/* --- answers --- */

static struct node *shape_look(const struct look *look, const struct held *held)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "timestamp", shape_time(look->at)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "timestampUnix", node_int((int64_t)(look->at / 1000)));
	r = r < 0 ? r : node_set(map, "cpuCount", node_int(shape_cpus(held)));
	r = r < 0 ? r : node_set(map, "cpuUsedPct", node_float(look->percent));
	r = r < 0 ? r : node_set(map, "memUsed", node_int((int64_t)look->memory));
	r = r < 0 ? r : node_set(map, "memTotal", node_int((int64_t)look->memory_size));
	/* What the kernel keeps of files is not told apart. */
	r = r < 0 ? r : node_set(map, "memCache", node_int(0));
	r = r < 0 ? r : node_set(map, "diskUsed", node_int((int64_t)look->disk));
	r = r < 0 ? r : node_set(map, "diskTotal", node_int((int64_t)look->disk_size));
	return r < 0 ? NULL : take_ptr(&map);
}

/* One question, of one sandbox or of many. */
struct question {
	struct request *q;
	bool is_many;
	uint64_t start, end; /* s since 1970 */
	struct node *found;  /* of many: id to metric */
	size_t pending;
	struct asked {
		struct question *question;
		struct probe *probe;
		char id[TRACE_ID_SIZE];
	} asked[MANY_MAX];
};

static void question_free(struct question *question)
{
	node_free(question->found);
	free(question);
}

static void question_leave(struct request *q)
{
	struct question *question = q->of;

	for (size_t i = 0; i < MANY_MAX; i++)
		probe_leave(question->asked[i].probe);
	question_free(question);
}

/* Those that are kept, and the one that was just taken where none are. */
static struct node *history(const struct question *question, const struct held *held,
			    const struct look *look)
{
	struct node *list = node_list();
	const struct meter *meter = find_meter(held->id);
	size_t kept = meter ? MIN(meter->count, (size_t)LOOKS_KEPT) : 0;
	int r = list ? 0 : -ENOMEM;

	for (size_t back = kept ? kept : look != NULL; back > 0 && r == 0; back--) {
		const struct look *one = kept ? look_before(meter, back) : look;

		if (one->at / 1000 >= question->start && one->at / 1000 <= question->end)
			r = node_add(list, shape_look(one, held));
	}
	if (r == 0)
		return list;
	node_free(list);
	return NULL;
}

static void answer_question(struct question *question, const struct look *look)
{
	struct request *q = question->q;
	const struct held *held = registry_find(q->serve->registry, question->asked[0].id, NULL);
	struct node *map;

	q->of = NULL;
	q->gone = NULL;
	if (question->is_many) {
		map = node_map();
		if (!map || node_set(map, "sandboxes", take_ptr(&question->found)) < 0) {
			node_free(map);
			map = NULL;
		}
		answer_take_json(q, 200, map);
	} else if (!held) {
		refuse_sandbox(q, question->asked[0].id);
	} else {
		answer_take_json(q, 200, history(question, held, look));
	}
	question_free(question);
}

static void on_look(void *of, const struct look *look)
{
	struct asked *asked = of;
	struct question *question = asked->question;
	const struct held *held = registry_find(question->q->serve->registry, asked->id, NULL);

	asked->probe = NULL;
	if (question->is_many && look && held)
		(void)node_set(question->found, asked->id, shape_look(look, held));
	if (--question->pending == 0)
		answer_question(question, look);
}

static struct question *question_new(struct request *q)
{
	struct question *question = calloc(1, sizeof(*question));

	if (question)
		question->found = node_map();
	if (!question || !question->found) {
		free(question);
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	question->q = q;
	question->end = UINT64_MAX;
	return question;
}

static void ask(struct question *question, size_t index, const struct held *held)
{
	struct asked *asked = &question->asked[index];

	asked->question = question;
	snprintf(asked->id, sizeof(asked->id), "%s", held->id);
	mind(question->q->serve, held->id);
	if (probe_begin(question->q->serve, held, on_look, asked, &asked->probe) == 0)
		question->pending++;
}

static void question_wait(struct question *question)
{
	struct request *q = question->q;

	q->of = question;
	q->gone = question_leave;
	if (question->pending == 0)
		answer_question(question, NULL);
}

void control_metrics(struct request *q)
{
	const struct held *held = own_sandbox(q);
	struct question *question = held ? question_new(q) : NULL;

	if (!question)
		return;
	if (!query_number(q, "start", INT64_MAX, &question->start) ||
	    !query_number(q, "end", INT64_MAX, &question->end)) {
		question_free(question);
		return;
	}
	ask(question, 0, held);
	question_wait(question);
}

/* Ids of nobody, and of others, are left out: the same as those of sandboxes that have ended. */
void control_metrics_many(struct request *q)
{
	char text[MANY_MAX * (TRACE_ID_SIZE + 1)], *rest, *id;
	struct question *question;
	size_t count = 0;
	int r = 0;

	question = question_new(q);
	if (!question)
		return;
	question->is_many = true;
	for (size_t n = 0; (r = query_get(q, "sandbox_ids", n, text, sizeof(text))) == 0; n++) {
		for (rest = text; (id = strsep(&rest, ",")) && count < MANY_MAX;) {
			const struct held *held;

			id[strcspn(id, "-")] = '\0';
			held = registry_find(q->serve->registry, id, q->tenant_name);
			if (held)
				ask(question, count++, held);
		}
	}
	if (r != -ENOENT) {
		/* Nobody was told yet: as if the client had left. */
		q->of = question;
		question_leave(q);
		q->of = NULL;
		refuse(q, 400, "\"sandbox_ids\" must be at most %d ids with commas between",
		       MANY_MAX);
		return;
	}
	question_wait(question);
}
