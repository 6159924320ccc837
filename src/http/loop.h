/*
 * loop.h - what a daemon of one thread waits for: descriptors, times, and what is to be done soon
 *
 *	static void on_ready(void *of, uint32_t events) ...
 *
 *	r = loop_watch(loop, fd, EPOLLIN, on_ready, client, &client->watch);
 *	...
 *	client->watch = loop_forget(loop, client->watch);
 *
 * A watch and a timer are named by a number that holds a place and a generation, never by a pointer: an
 * event that was already fetched for something that is gone meets nobody. 0 is the name of nothing, and
 * may be given to every function here.
 *
 * Callbacks may do whatever they like: watch, forget (themselves too), stop. They must not wait.
 */
#ifndef BRIG_HTTP_LOOP_H
#define BRIG_HTTP_LOOP_H

#include <stdint.h>
#include <sys/epoll.h>

#include "base/macro.h"

struct loop; /* opaque: one for each process */

typedef uint64_t loop_id;
typedef void (*loop_ready)(void *of, uint32_t events);
typedef void (*loop_call)(void *of);

[[nodiscard]] int loop_new(struct loop **ret_loop);
void loop_free(struct loop *loop); /* NULL allowed; descriptors that are watched stay open */

/* The descriptor stays the caller's, who forgets it before he closes it. events: EPOLLIN, EPOLLOUT, or 0
 * (errors and hang-ups are told in any case). */
[[nodiscard]] int loop_watch(struct loop *loop, int fd, uint32_t events, loop_ready ready, void *of,
			     loop_id *ret_watch);
[[nodiscard]] int loop_change(struct loop *loop, loop_id watch,
			      uint32_t events);        /* no call if same */
loop_id loop_forget(struct loop *loop, loop_id watch); /* 0, to be stored */

/* Once, in ms from now. */
[[nodiscard]] int loop_after(struct loop *loop, uint64_t ms, loop_call call, void *of,
			     loop_id *ret_timer);
loop_id loop_cancel(struct loop *loop, loop_id timer); /* 0, to be stored */

/* Once, before the loop waits again: for what must not happen inside of a callback. */
[[nodiscard]] int loop_soon(struct loop *loop, loop_call call, void *of, loop_id *ret_timer);

/* The time of this turn (CLOCK_MONOTONIC, ms): cheap. */
uint64_t loop_now(const struct loop *loop);

[[nodiscard]] int loop_run(struct loop *loop); /* until loop_stop(); 0 or -errno */
void loop_stop(struct loop *loop);

/* One turn of it, for tests: what is due, then what became ready within max_ms (-1: for ever). */
[[nodiscard]] int loop_turn(struct loop *loop, int max_ms);

#endif
