/*
 * desk.h - where the clients of a sandbox that lives are served (private to warden/)
 *
 * Clients come over the sandbox's socket (roster.h) and speak messages (proto/message.h). What is
 * about the sandbox as a whole the warden answers itself (desk_ops); everything else goes on to init
 * under a number of ours, and init's answers go back under the client's. So one table of calls says
 * for each whose it is and what may be answered.
 *
 *	client 7, call 3   <->   call 0x2001   <->   init
 *
 * Only the owner of the sandbox and root are let in, by the kernel's word about who connected. A
 * client that breaks the rules, or does not read its answers, loses its connection. init lives with
 * the workload and is as hostile: whatever it sends is checked against the table and against the call
 * that it claims to answer; an answer to a call that is gone is dropped, and a breach is the end of
 * the sandbox (desk_broken).
 *
 * A client that leaves cancels its calls. What it started goes on.
 *
 * All descriptors are in one epoll, which the warden waits for beside its own.
 */
#ifndef BRIG_WARDEN_DESK_H
#define BRIG_WARDEN_DESK_H

#include "base/err.h"
#include "proto/channel.h"

#define DESK_GUESTS_MAX 512  /* clients at once */
#define DESK_CALLS_MAX  4096 /* open calls of all of them */

/* What only the warden can do. Each: 0, or -errno with words for the client. */
struct desk_ops {
	void (*status)(void *of, struct draft *answer);
	int (*pause)(void *of, struct err *err);
	int (*resume)(void *of, struct err *err);
	int (*extend)(void *of, uint64_t ms, struct err *err);
	int (*network)(void *of, const struct message *rules, struct err *err);
	void (*kill)(void *of);
	/* Freezes it, and gives a descriptor of what it wrote; release is called once for each. */
	int (*hold)(void *of, int *ret_store, struct err *err);
	void (*release)(void *of);
	int (*port)(void *of, int listener, uint16_t port, struct err *err); /* takes the socket */
	/* The port at an index, and where it is reached; false behind the last. */
	bool (*ports)(void *of, size_t index, uint16_t *ret_port, char *address, size_t size);
	/* Somebody wants something: why not now (paused, ending), or NULL. */
	const char *(*refuse)(void *of);
	void (*stir)(void *of); /* something was started */
};

struct guest;
struct desk_call;

struct desk {
	int epoll;    /* -EBADF: there is no desk */
	int listener; /* the roster's */
	const struct desk_ops *ops;
	void *of;
	struct channel init;
	bool is_ready;      /* init has said so */
	const char *broken; /* the breach of init, in words; NULL: none */
	bool is_alone;      /* init is gone */
	struct guest **guests;
	size_t guest_room, guest_count;
	struct desk_call *calls;
	size_t call_room, call_count, next_call;
	uint32_t generation;
	bool is_init_full;   /* clients are not read until it has taken what waits */
	bool has_more;       /* messages that were received, and wait for their turn */
	uint64_t stalled_at; /* when a client's answers began to pile up; 0: none */
	uint64_t served;     /* when somebody last wanted something (clock_ms) */
};

#define DESK_NONE ((struct desk){ .epoll = -EBADF, .listener = -EBADF, .init = CHANNEL_NONE })

/* Takes the channel to init. The listener stays the caller's and may come later (desk_listen). */
[[nodiscard]] int desk_open(struct desk *desk, int init, const struct desk_ops *ops, void *of);
[[nodiscard]] int desk_listen(struct desk *desk, int listener);

/* Acts on whatever there is. */
void desk_poll(struct desk *desk);
int desk_timeout(const struct desk *desk); /* ms, -1: for ever */

/* Calls, or holders. A client that is connected and asks for nothing is nobody to wait for. */
bool desk_is_busy(const struct desk *desk);

/* The sandbox has ended: those who asked for it are told, the others lose their connection. */
void desk_close(struct desk *desk);

void desk_done(struct desk *desk);

#endif
