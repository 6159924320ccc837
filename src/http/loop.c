#include "http/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define EVENTS_AT_ONCE 128
#define NOWHERE        UINT32_MAX

/*
 * Watches, timers and what is to be done soon live in one table of places; an id is the generation of a
 * place and its index plus one, so 0 names nothing. Whoever lets go of a place raises its generation.
 */
enum place_kind { PLACE_FREE, PLACE_WATCH, PLACE_TIMER, PLACE_SOON };

struct place {
	enum place_kind kind;
	uint32_t generation;
	void *of;
	union {
		struct {
			loop_ready ready;
			int fd;
			uint32_t events;
		} watch;
		struct {
			loop_call call;
			uint64_t at;
			uint32_t heap; /* where it stands in the heap */
		} timer;
		uint32_t next_free;
	};
};

struct ids {
	loop_id *items;
	size_t count, room;
};

struct loop {
	int epoll;
	uint64_t now;
	bool is_stopped;
	struct place *places;
	uint32_t place_count, place_room, first_free;
	uint32_t *heap; /* of timers, the earliest first */
	uint32_t heap_count, heap_room;
	struct ids soon, running;
};

static loop_id id_of(const struct loop *loop, uint32_t index)
{
	return (uint64_t)loop->places[index].generation << 32 | (index + 1);
}

static struct place *find(const struct loop *loop, loop_id id, uint32_t *ret_index)
{
	uint32_t index = (uint32_t)id - 1;

	if ((uint32_t)id == 0 || index >= loop->place_count)
		return NULL;
	if (loop->places[index].kind == PLACE_FREE ||
	    loop->places[index].generation != (uint32_t)(id >> 32))
		return NULL;
	*ret_index = index;
	return &loop->places[index];
}

static int grow(void *array, uint32_t *room, size_t size)
{
	uint32_t more = *room > 0 ? *room * 2 : 64;
	void *moved;

	if (more < *room)
		return -ENOMEM;
	moved = reallocarray(*(void **)array, more, size);
	if (!moved)
		return -ENOMEM;
	*(void **)array = moved;
	*room = more;
	return 0;
}

static int take_place(struct loop *loop, enum place_kind kind, void *of, uint32_t *ret_index)
{
	uint32_t index = loop->first_free;
	struct place *place;

	if (index == NOWHERE) {
		if (loop->place_count == loop->place_room) {
			int r = grow(&loop->places, &loop->place_room, sizeof(*loop->places));

			if (r < 0)
				return r;
		}
		index = loop->place_count++;
		loop->places[index].generation = 0;
	} else {
		loop->first_free = loop->places[index].next_free;
	}
	place = &loop->places[index];
	place->kind = kind;
	place->of = of;
	*ret_index = index;
	return 0;
}

static void give_back(struct loop *loop, uint32_t index)
{
	struct place *place = &loop->places[index];

	place->kind = PLACE_FREE;
	place->generation++;
	place->next_free = loop->first_free;
	loop->first_free = index;
}

int loop_new(struct loop **ret_loop)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->first_free = NOWHERE;
	loop->now = clock_ms();
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0) {
		free(loop);
		return -errno;
	}
	*ret_loop = loop;
	return 0;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	fd_close(loop->epoll);
	free(loop->places);
	free(loop->heap);
	free(loop->soon.items);
	free(loop->running.items);
	free(loop);
}

/* --- descriptors --- */

int loop_watch(struct loop *loop, int fd, uint32_t events, loop_ready ready, void *of,
	       loop_id *ret_watch)
{
	struct epoll_event event = { .events = events };
	uint32_t index;
	int r = take_place(loop, PLACE_WATCH, of, &index);

	if (r < 0)
		return r;
	loop->places[index].watch.ready = ready;
	loop->places[index].watch.fd = fd;
	loop->places[index].watch.events = events;
	event.data.u64 = id_of(loop, index);
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		r = -errno;
		give_back(loop, index);
		return r;
	}
	*ret_watch = event.data.u64;
	return 0;
}

int loop_change(struct loop *loop, loop_id watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = watch };
	uint32_t index;
	struct place *place = find(loop, watch, &index);

	if (!place || place->kind != PLACE_WATCH)
		return watch == 0 ? 0 : -ENOENT;
	if (place->watch.events == events)
		return 0;
	if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, place->watch.fd, &event) < 0)
		return -errno;
	place->watch.events = events;
	return 0;
}

loop_id loop_forget(struct loop *loop, loop_id watch)
{
	uint32_t index;
	struct place *place = find(loop, watch, &index);

	if (place && place->kind == PLACE_WATCH) {
		(void)!epoll_ctl(loop->epoll, EPOLL_CTL_DEL, place->watch.fd, NULL);
		give_back(loop, index);
	}
	return 0;
}

/* --- times --- */

static void heap_put(struct loop *loop, uint32_t at, uint32_t index)
{
	loop->heap[at] = index;
	loop->places[index].timer.heap = at;
}

static uint64_t heap_time(const struct loop *loop, uint32_t at)
{
	return loop->places[loop->heap[at]].timer.at;
}

static void heap_up(struct loop *loop, uint32_t at)
{
	uint32_t index = loop->heap[at];

	while (at > 0 && heap_time(loop, (at - 1) / 2) > loop->places[index].timer.at) {
		heap_put(loop, at, loop->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(loop, at, index);
}

static void heap_down(struct loop *loop, uint32_t at)
{
	uint32_t index = loop->heap[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= loop->heap_count)
			break;
		if (child + 1 < loop->heap_count &&
		    heap_time(loop, child + 1) < heap_time(loop, child))
			child++;
		if (heap_time(loop, child) >= loop->places[index].timer.at)
			break;
		heap_put(loop, at, loop->heap[child]);
		at = child;
	}
	heap_put(loop, at, index);
}

static void heap_remove(struct loop *loop, uint32_t at)
{
	uint32_t last = loop->heap[--loop->heap_count];

	if (at == loop->heap_count)
		return;
	heap_put(loop, at, last);
	heap_up(loop, at);
	heap_down(loop, loop->places[last].timer.heap);
}

int loop_after(struct loop *loop, uint64_t ms, loop_call call, void *of, loop_id *ret_timer)
{
	uint32_t index;
	int r;

	if (loop->heap_count == loop->heap_room) {
		r = grow(&loop->heap, &loop->heap_room, sizeof(*loop->heap));
		if (r < 0)
			return r;
	}
	r = take_place(loop, PLACE_TIMER, of, &index);
	if (r < 0)
		return r;
	loop->places[index].timer.call = call;
	/* From now, not from when this turn began: a turn may be long. */
	loop->places[index].timer.at = ms > UINT64_MAX / 2 ? UINT64_MAX : clock_ms() + ms;
	heap_put(loop, loop->heap_count, index);
	heap_up(loop, loop->heap_count++);
	*ret_timer = id_of(loop, index);
	return 0;
}

loop_id loop_cancel(struct loop *loop, loop_id timer)
{
	uint32_t index;
	struct place *place = find(loop, timer, &index);

	if (!place || place->kind == PLACE_WATCH)
		return 0;
	if (place->kind == PLACE_TIMER)
		heap_remove(loop, place->timer.heap);
	give_back(loop, index);
	return 0;
}

int loop_soon(struct loop *loop, loop_call call, void *of, loop_id *ret_timer)
{
	struct ids *soon = &loop->soon;
	uint32_t index;
	int r;

	if (soon->count == soon->room) {
		size_t room = soon->room > 0 ? soon->room * 2 : 64;
		loop_id *items = reallocarray(soon->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		soon->items = items;
		soon->room = room;
	}
	r = take_place(loop, PLACE_SOON, of, &index);
	if (r < 0)
		return r;
	loop->places[index].timer.call = call;
	soon->items[soon->count++] = id_of(loop, index);
	*ret_timer = id_of(loop, index);
	return 0;
}

uint64_t loop_now(const struct loop *loop)
{
	return loop->now;
}

/* --- a turn --- */

/* The table may move while a callback runs, so nothing of a place is looked at afterwards. */
static void run_soon(struct loop *loop)
{
	struct ids running = loop->soon;

	loop->soon = loop->running;
	loop->soon.count = 0;
	loop->running = running;
	for (size_t i = 0; i < running.count && !loop->is_stopped; i++) {
		uint32_t index;
		struct place *place = find(loop, running.items[i], &index);
		loop_call call;
		void *of;

		if (!place)
			continue;
		call = place->timer.call;
		of = place->of;
		give_back(loop, index);
		call(of);
	}
}

static void run_timers(struct loop *loop)
{
	/* Those that a callback sets for "in 0 ms" wait for the next turn: descriptors come in between. */
	uint64_t until = loop->now;

	while (loop->heap_count > 0 && heap_time(loop, 0) <= until && !loop->is_stopped) {
		uint32_t index = loop->heap[0];
		loop_call call = loop->places[index].timer.call;
		void *of = loop->places[index].of;

		heap_remove(loop, 0);
		give_back(loop, index);
		call(of);
	}
}

static int wait_ms(const struct loop *loop, int max_ms)
{
	uint64_t now = clock_ms(), at;

	if (loop->soon.count > 0 || loop->is_stopped)
		return 0;
	if (loop->heap_count == 0)
		return max_ms;
	at = heap_time(loop, 0);
	if (at <= now)
		return 0;
	at -= now;
	if (max_ms >= 0 && at > (uint64_t)max_ms)
		return max_ms;
	return at > INT32_MAX ? INT32_MAX : (int)at;
}

int loop_turn(struct loop *loop, int max_ms)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int count;

	run_soon(loop);
	run_timers(loop);
	count = epoll_wait(loop->epoll, events, EVENTS_AT_ONCE, wait_ms(loop, max_ms));
	if (count < 0 && errno != EINTR)
		return -errno;
	loop->now = clock_ms();
	for (int i = 0; i < count && !loop->is_stopped; i++) {
		uint32_t index;
		struct place *place = find(loop, events[i].data.u64, &index);

		if (place)
			place->watch.ready(place->of, events[i].events);
	}
	return 0;
}

int loop_run(struct loop *loop)
{
	loop->is_stopped = false;
	loop->now = clock_ms();
	while (!loop->is_stopped) {
		int r = loop_turn(loop, -1);

		if (r < 0)
			return r;
	}
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopped = true;
}
