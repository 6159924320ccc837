/*
 * registry_life.c - time, pause, resume, and the end
 *
 * A change is written to the store first and then asked of the warden; if the warden refuses, the store
 * gets back what it had. If the daemon dies in between, the next one finds the change in the store and
 * asks for it then (life_renew): asking twice does no harm.
 *
 * The end of a sandbox's time is watched twice. The daemon has a timer, and the warden a deadline a
 * moment later, so that no sandbox outlives its time because no daemon was there. One that is to be
 * paused has no deadline at its warden: without a daemon it goes on, and is paused by the next.
 *
 * A kill is the other way round: the daemon knows nothing of the sandbox any more before its warden is
 * told, so nobody is ever sent to one that is going. If the daemon dies in between, the sandbox bears the
 * tag of its life and is in no store: the next one ends it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hook.h"
#include "serve/registry_internal.h"

#define GRACE_MS    1000   /* the warden's deadline behind ours */
#define RESUME_MS   300000 /* at least, of one that goes on without anybody saying for how long */
#define AGAIN_MS    5000   /* after a pause that failed */
#define KILLS_MAX   5
#define STEPS_MAX   2
#define TIMER_MAX   86400000ull /* the clock may be set meanwhile: look again */
#define TIMEOUT_MAX (100ull * 365 * 24 * 3600 * 1000)

static void op_step(struct entry *entry);

/* --- what each kind of change does --- */

static int prepare_pause(struct entry *entry, const struct op *op, struct err *err)
{
	(void)op;
	if (entry->held.state == HELD_PAUSED)
		return err_set(err, -EALREADY, "sandbox %s is paused already", entry->held.id);
	entry->held.state = HELD_PAUSED;
	return 0;
}

/* Of one that runs it only makes the time longer. */
static int prepare_resume(struct entry *entry, const struct op *op, struct err *err)
{
	struct held *held = &entry->held;
	uint64_t ends = registry_now() + op->timeout_ms;

	(void)err;
	if (held->state == HELD_RUNNING) {
		if (held->ends && op->timeout_ms)
			held->ends = MAX(held->ends, ends);
		return 0;
	}
	held->state = HELD_RUNNING;
	if (op->timeout_ms)
		held->ends = ends;
	else if (held->ends)
		held->ends = MAX(held->ends, ends + RESUME_MS);
	return 0;
}

static int prepare_timeout(struct entry *entry, const struct op *op, struct err *err)
{
	if (entry->held.state == HELD_PAUSED)
		return err_set(err, -EBUSY, "sandbox %s is paused: its time stands still",
			       entry->held.id);
	entry->held.ends = registry_now() + op->timeout_ms;
	return 0;
}

static const struct {
	const char *stored, *done; /* points at which a test ends the daemon */
	int (*prepare)(struct entry *entry, const struct op *op, struct err *err);
	enum message_type steps[STEPS_MAX]; /* what is asked of the warden, in this order */
} kinds[OP_COUNT] = {
	[OP_PAUSE] = { "serve:pause:stored",
		       "serve:pause:done",
		       prepare_pause,
		       { MESSAGE_EXTEND, MESSAGE_PAUSE } },
	[OP_RESUME] = { "serve:resume:stored",
			"serve:resume:done",
			prepare_resume,
			{ MESSAGE_EXTEND, MESSAGE_RESUME } },
	[OP_TIMEOUT] = { "serve:timeout:stored",
			 "serve:timeout:done",
			 prepare_timeout,
			 { MESSAGE_EXTEND } },
};

/* --- one change after the other --- */

static void restore(struct entry *entry, const struct op *op)
{
	struct err err = ERR_NONE;

	entry->held.state = op->before.state;
	entry->held.ends = op->before.ends;
	if (registry_save(entry->registry, &entry->held, &err) < 0)
		log_line(LOG_ERROR, "sandbox %s: %s", entry->link.id, err.text);
	/* The deadline that it was given must go, too. */
	if (op->step > 0)
		life_renew(entry, true);
}

static int op_begin(struct entry *entry, struct op *op, struct err *err)
{
	int r;

	op->before.state = entry->held.state;
	op->before.ends = entry->held.ends;
	r = op->is_renewal ? 0 : kinds[op->kind].prepare(entry, op, err);
	r = r < 0 || op->is_renewal ? r : registry_save(entry->registry, &entry->held, err);
	if (r < 0) {
		entry->held.state = op->before.state;
		entry->held.ends = op->before.ends;
		return r;
	}
	hook_point(kinds[op->kind].stored);
	return 0;
}

/* Whoever asked is told soon, out of whatever is going on now. */
static void op_put_aside(struct registry *registry, struct op *op)
{
	struct op **at = &registry->finished;

	while (*at)
		at = &(*at)->next;
	op->next = NULL;
	*at = op;
	registry_tell_soon(registry);
}

/* The next one, until one is under way or none is left. */
static void go_on(struct entry *entry)
{
	while (entry->ops) {
		struct op *op = entry->ops;

		if (op_begin(entry, op, &op->err) == 0) {
			op_step(entry);
			return;
		}
		entry->ops = op->next;
		op_put_aside(entry->registry, op);
	}
}

static void op_finish(struct entry *entry)
{
	struct op *op = entry->ops;

	entry->ops = op->next;
	if (op->err.code == 0)
		hook_point(kinds[op->kind].done);
	else if (op->is_renewal)
		log_line(LOG_WARNING, "sandbox %s: %s", entry->link.id, op->err.text);
	else
		restore(entry, op);
	op_put_aside(entry->registry, op);
	/* What gives the deadline back may be under way. */
	if (!entry->call)
		go_on(entry);
}

/* What it had already does not matter. */
static bool is_refusal(const struct message *m)
{
	return m->type == MESSAGE_ERROR && message_number(m, FIELD_CODE, EIO) != EALREADY;
}

static void answered(void *of, struct message *m, bool is_last)
{
	struct entry *entry = of;
	struct op *op = entry->ops;

	(void)is_last;
	entry->call = 0;
	if (is_refusal(m)) {
		err_set(&op->err, -(int)MIN(message_number(m, FIELD_CODE, EIO), 4095u), "%s",
			message_text(m, FIELD_TEXT, "it failed"));
		op_finish(entry);
		return;
	}
	op->step++;
	if (op->step < STEPS_MAX && kinds[op->kind].steps[op->step])
		op_step(entry);
	else
		op_finish(entry);
}

/* How long the warden is to wait before it ends the sandbox by itself. */
static uint64_t left(const struct held *held)
{
	uint64_t now = registry_now();

	if (held->state == HELD_PAUSED || held->pauses || held->ends == 0)
		return EXTEND_NEVER;
	return MIN(held->ends > now ? held->ends - now : 0, TIMEOUT_MAX - GRACE_MS) + GRACE_MS;
}

static void op_step(struct entry *entry)
{
	struct op *op = entry->ops;
	struct draft d = DRAFT(kinds[op->kind].steps[op->step], 0);

	if (d.type == MESSAGE_EXTEND)
		draft_number(&d, FIELD_LEFT, left(&entry->held));
	if (call_start(entry->registry->serve->fleet, entry->link.id, &d, NULL, 0, answered, entry,
		       &entry->call, &op->err) < 0)
		op_finish(entry);
}

static int op_add(struct registry *registry, const char *id, const struct op *wanted,
		  struct err *err)
{
	struct entry *entry = registry_entry(registry, id);
	struct op *op = entry ? malloc(sizeof(*op)) : NULL, **at;
	int r;

	if (!op)
		return entry ? err_set(err, -ENOMEM, "out of memory")
			     : err_set(err, -ESRCH, "there is no sandbox \"%s\"", id);
	*op = *wanted;
	if (entry->ops) {
		for (at = &entry->ops; *at; at = &(*at)->next)
			;
		*at = op;
		return 0;
	}
	r = op_begin(entry, op, err);
	if (r < 0) {
		free(op);
		return r;
	}
	entry->ops = op;
	op_step(entry);
	return 0;
}

int registry_pause(struct registry *registry, const char *id, registry_done done, void *of,
		   struct err *err)
{
	return op_add(registry, id, &(struct op){ .kind = OP_PAUSE, .done = done, .of = of }, err);
}

int registry_resume(struct registry *registry, const char *id, uint64_t timeout_ms,
		    registry_done done, void *of, struct err *err)
{
	const uint64_t bounded = MIN(timeout_ms, TIMEOUT_MAX);
	const struct op op = { .kind = OP_RESUME, .timeout_ms = bounded, .done = done, .of = of };

	return op_add(registry, id, &op, err);
}

int registry_set_timeout(struct registry *registry, const char *id, uint64_t timeout_ms,
			 registry_done done, void *of, struct err *err)
{
	const uint64_t bounded = MIN(timeout_ms, TIMEOUT_MAX);
	const struct op op = { .kind = OP_TIMEOUT, .timeout_ms = bounded, .done = done, .of = of };

	return op_add(registry, id, &op, err);
}

void life_renew(struct entry *entry, bool is_new)
{
	const struct op op = { .kind = entry->held.state == HELD_PAUSED ? OP_PAUSE
				       : is_new                         ? OP_TIMEOUT
									: OP_RESUME,
			       .is_renewal = true };

	if (op_add(entry->registry, entry->link.id, &op, NULL) < 0)
		log_line(LOG_WARNING, "sandbox %s cannot be told its deadline", entry->link.id);
}

void life_end_ops(struct entry *entry)
{
	entry->call = call_cancel(entry->registry->serve->fleet, entry->call);
	while (entry->ops) {
		struct op *op = entry->ops;

		entry->ops = op->next;
		op->err = ERR_NONE;
		err_set(&op->err, -ESRCH, "sandbox %s has ended", entry->link.id);
		op_put_aside(entry->registry, op);
	}
}

void life_tell_finished(struct registry *registry)
{
	struct op *op;

	while ((op = registry->finished)) {
		registry->finished = op->next;
		if (op->done)
			op->done(op->of, &op->err);
		free(op);
	}
}

/* --- the end of its time --- */

static void time_is_over(void *of);

static void set_timer(struct entry *entry, uint64_t ms)
{
	struct loop *loop = entry->registry->serve->loop;

	entry->timer = loop_cancel(loop, entry->timer);
	/* Without a timer the warden's deadline is left. */
	(void)!loop_after(loop, MIN(ms, TIMER_MAX), time_is_over, entry, &entry->timer);
}

static void paused_in_time(void *of, const struct err *err)
{
	if (err->code)
		log_line(LOG_WARNING, "a sandbox could not be paused at the end of its time: %s",
			 err->text);
	(void)of;
}

static void time_is_over(void *of)
{
	struct entry *entry = of;
	struct registry *registry = entry->registry;
	uint64_t now = registry_now();
	struct err err = ERR_NONE;

	entry->timer = 0;
	if (entry->held.ends > now) {
		set_timer(entry, entry->held.ends - now);
		return;
	}
	if (!entry->held.pauses) {
		(void)!registry_kill(registry, entry->link.id, NULL, NULL, &err);
		return;
	}
	/* What was asked for before may change the time. */
	if (entry->ops || registry_pause(registry, entry->link.id, paused_in_time, NULL, &err) < 0)
		set_timer(entry, AGAIN_MS);
}

void life_set_timer(struct entry *entry)
{
	const struct held *held = &entry->held;
	uint64_t now = registry_now();

	if (held->ends && held->state == HELD_RUNNING)
		set_timer(entry, held->ends > now ? held->ends - now : 0);
	else
		entry->timer = loop_cancel(entry->registry->serve->loop, entry->timer);
}

/* --- the end --- */

static void killing_free(struct killing *killing)
{
	struct serve *serve = killing->registry->serve;

	killing->call = call_cancel(serve->fleet, killing->call);
	killing->timer = loop_cancel(serve->loop, killing->timer);
	*killing->at = killing->next;
	if (killing->next)
		killing->next->at = killing->at;
	free(killing);
}

static void kill_over(struct killing *killing, const struct err *err)
{
	registry_done done = killing->done;
	void *of = killing->of;

	if (err->code)
		log_line(LOG_WARNING, "sandbox %s: %s", killing->id, err->text);
	killing_free(killing);
	if (done)
		done(of, err);
}

static void kill_once_more(void *of);

static void kill_answered(void *of, struct message *m, bool is_last)
{
	struct killing *killing = of;
	struct err err = ERR_NONE;

	(void)is_last;
	killing->call = 0;
	if (m->type == MESSAGE_ERROR)
		err_set(&err, -(int)MIN(message_number(m, FIELD_CODE, EIO), 4095u), "%s",
			message_text(m, FIELD_TEXT, "it failed"));
	/* The line was lost, the sandbox is still there. */
	if (err.code == -ECONNRESET && killing->tries < KILLS_MAX &&
	    loop_after(killing->registry->serve->loop, 1, kill_once_more, killing,
		       &killing->timer) == 0)
		return;
	kill_over(killing, &err);
}

static int kill_now(struct killing *killing, struct err *err)
{
	struct draft d = DRAFT(MESSAGE_KILL, 0);

	killing->tries++;
	return call_start(killing->registry->serve->fleet, killing->id, &d, NULL, 0, kill_answered,
			  killing, &killing->call, err);
}

/* One that is gone already is as well. */
static void kill_once_more(void *of)
{
	struct killing *killing = of;
	struct err err = ERR_NONE;
	int r;

	killing->timer = 0;
	r = kill_now(killing, &err);
	if (r == -EAGAIN && killing->tries < KILLS_MAX &&
	    loop_after(killing->registry->serve->loop, 100, kill_once_more, killing,
		       &killing->timer) == 0)
		return;
	if (r == -ESRCH)
		err = ERR_NONE;
	if (r < 0)
		kill_over(killing, &err);
}

int registry_kill(struct registry *registry, const char *id, registry_done done, void *of,
		  struct err *err)
{
	struct entry *entry = registry_entry(registry, id);
	struct killing *killing = entry ? calloc(1, sizeof(*killing)) : NULL;
	struct err why = ERR_NONE;

	if (!killing)
		return entry ? err_set(err, -ENOMEM, "out of memory")
			     : err_set(err, -ESRCH, "there is no sandbox \"%s\"", id);
	*killing = (struct killing){ .next = registry->killings,
				     .at = &registry->killings,
				     .registry = registry,
				     .done = done,
				     .of = of };
	snprintf(killing->id, sizeof(killing->id), "%s", id);
	if (killing->next)
		killing->next->at = &killing->next;
	registry->killings = killing;
	registry_bury(entry);
	hook_point("serve:kill:removed");
	/* A failure is told later, as an answer would be. */
	if (kill_now(killing, &why) < 0 &&
	    loop_after(registry->serve->loop, 0, kill_once_more, killing, &killing->timer) < 0) {
		killing_free(killing);
		return err_set(err, why.code, "%s", why.text);
	}
	return 0;
}

void life_done(struct registry *registry)
{
	while (registry->killings)
		killing_free(registry->killings);
	while (registry->finished) {
		struct op *op = registry->finished;

		registry->finished = op->next;
		free(op);
	}
}
