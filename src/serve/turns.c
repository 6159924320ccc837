#include "serve/turns.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/str.h"
#include "serve/id_table.h"

struct lane { /* of one sandbox, while it has any */
	struct id_link link;
	struct turns *turns;
	size_t running;
	struct turn *first, **last; /* those that wait */
	bool is_due;
	struct lane *next_due;
};

struct turns {
	struct serve *serve;
	struct id_table lanes;
	struct lane *due; /* with room for the next */
	loop_id soon;
};

struct turn {
	struct lane *lane;
	struct turn *next;
	call_id call; /* 0: it waits */
	struct draft draft;
	int descriptor;
	bool has_ended; /* DATA_END is to be sent when it runs */
	call_message on_message;
	void *of;
};

static struct turns *turns_of(struct serve *serve)
{
	struct turns *turns = serve->turn_state;

	if (!turns) {
		turns = calloc(1, sizeof(*turns));
		if (!turns)
			return NULL;
		turns->serve = serve;
		serve->turn_state = turns;
	}
	return turns;
}

static struct lane *lane_of(struct turns *turns, const char *sandbox)
{
	struct lane *lane = (struct lane *)(void *)id_table_find(&turns->lanes, sandbox);

	if (lane)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	snprintf(lane->link.id, sizeof(lane->link.id), "%s", sandbox);
	lane->turns = turns;
	lane->last = &lane->first;
	if (id_table_add(&turns->lanes, &lane->link) < 0) {
		free(lane);
		return NULL;
	}
	return lane;
}

static void lane_tidy(struct lane *lane)
{
	if (lane->running > 0 || lane->first || lane->is_due)
		return;
	id_table_remove(&lane->turns->lanes, &lane->link);
	free(lane);
}

static void turn_free(struct turn *turn)
{
	draft_done(&turn->draft);
	fd_close(turn->descriptor);
	free(turn);
}

static void on_message(void *of, struct message *m, bool is_last);

static int turn_run(struct turn *turn, struct err *err)
{
	struct serve *serve = turn->lane->turns->serve;
	int descriptor = take_fd(&turn->descriptor);
	int r = call_start(serve->fleet, turn->lane->link.id, &turn->draft, &descriptor,
			   descriptor >= 0, on_message, turn, &turn->call, err);

	turn->draft.fields = BUF(0);
	if (r == 0 && turn->has_ended)
		r = turn_end(turn);
	return r;
}

/* The one who waited is told as if init had said so. */
static void tell_failure(struct turn *turn, const struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ERROR, 0);
	struct message m = { .type = MESSAGE_ERROR };
	call_message tell = turn->on_message;
	void *of = turn->of;

	draft_number(&d, FIELD_CODE, (uint64_t)-err->code);
	draft_text(&d, FIELD_TEXT, err->text);
	m.fields = (const unsigned char *)d.fields.data;
	m.len = d.fields.len;
	turn_free(turn);
	tell(of, &m, true);
}

static void lane_serve(struct lane *lane)
{
	while (lane->first && lane->running < TURNS_MAX) {
		struct turn *turn = lane->first;
		struct err err = ERR_NONE;

		lane->first = turn->next;
		if (!lane->first)
			lane->last = &lane->first;
		if (turn_run(turn, &err) < 0) {
			call_cancel(lane->turns->serve->fleet, turn->call);
			if (err.code == 0)
				err_set(&err, -EIO, "the sandbox cannot be asked");
			/* Which may cancel others, or begin new ones. */
			tell_failure(turn, &err);
		} else {
			lane->running++;
		}
	}
}

static void on_soon(void *of)
{
	struct turns *turns = of;

	turns->soon = 0;
	while (turns->due) {
		struct lane *lane = turns->due;

		turns->due = lane->next_due;
		/* It stays due meanwhile, so nobody frees it. */
		lane_serve(lane);
		lane->is_due = false;
		lane_tidy(lane);
	}
}

/* One is over. Not at once: whoever is told now has nothing to do with whoever is next. */
static void lane_leave(struct lane *lane)
{
	struct turns *turns = lane->turns;

	lane->running--;
	if (lane->first && !lane->is_due) {
		lane->is_due = true;
		lane->next_due = turns->due;
		turns->due = lane;
	}
	if (turns->due && !turns->soon &&
	    loop_soon(turns->serve->loop, on_soon, turns, &turns->soon) < 0)
		on_soon(turns);
	else
		lane_tidy(lane);
}

static void on_message(void *of, struct message *m, bool is_last)
{
	struct turn *turn = of;
	struct lane *lane = turn->lane;
	call_message tell = turn->on_message;
	void *whom = turn->of;

	if (is_last)
		turn_free(turn);
	tell(whom, m, is_last);
	/* Before that it is still counted, so that the lane is there. */
	if (is_last)
		lane_leave(lane);
}

int turn_start(struct serve *serve, const char *sandbox, struct draft *d, int descriptor,
	       call_message on_message_of, void *of, struct turn **ret_turn, struct err *err)
{
	struct turns *turns = turns_of(serve);
	struct lane *lane = turns ? lane_of(turns, sandbox) : NULL;
	struct turn *turn = lane ? calloc(1, sizeof(*turn)) : NULL;
	int r;

	if (!turn) {
		draft_done(d);
		fd_close(descriptor);
		if (lane)
			lane_tidy(lane);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*turn = (struct turn){ .lane = lane,
			       .draft = *d,
			       .descriptor = descriptor,
			       .on_message = on_message_of,
			       .of = of };
	d->fields = BUF(0);
	if (lane->running >= TURNS_MAX || lane->first) {
		*lane->last = turn;
		lane->last = &turn->next;
		*ret_turn = turn;
		return 0;
	}
	r = turn_run(turn, err);
	if (r < 0) {
		turn_free(turn);
		lane_tidy(lane);
		return r;
	}
	lane->running++;
	*ret_turn = turn;
	return 0;
}

struct turn *turn_cancel(struct turn *turn)
{
	struct lane *lane = turn ? turn->lane : NULL;

	if (!turn)
		return NULL;
	if (turn->call) {
		call_cancel(lane->turns->serve->fleet, turn->call);
		turn_free(turn);
		lane_leave(lane);
		return NULL;
	}
	for (struct turn **at = &lane->first; *at; at = &(*at)->next)
		if (*at == turn) {
			*at = turn->next;
			if (lane->last == &turn->next)
				lane->last = at;
			break;
		}
	turn_free(turn);
	lane_tidy(lane);
	return NULL;
}

int turn_end(struct turn *turn)
{
	struct draft d = DRAFT(MESSAGE_DATA_END, 0);

	if (turn->call)
		return call_send(turn->lane->turns->serve->fleet, turn->call, &d);
	turn->has_ended = true;
	return 0;
}

void turns_done(struct serve *serve)
{
	struct turns *turns = serve->turn_state;
	struct lane *lane;

	if (!turns)
		return;
	loop_cancel(serve->loop, turns->soon);
	while ((lane = (struct lane *)(void *)id_table_any(&turns->lanes))) {
		id_table_remove(&turns->lanes, &lane->link);
		free(lane);
	}
	id_table_done(&turns->lanes);
	free(turns);
	serve->turn_state = NULL;
}
