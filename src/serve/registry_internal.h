/* registry_internal.h - what the files of the registry share (private to registry*.c) */
#ifndef BRIG_SERVE_REGISTRY_INTERNAL_H
#define BRIG_SERVE_REGISTRY_INTERNAL_H

#include "serve/id_table.h"
#include "serve/registry.h"
#include "serve/serve.h"

/* Those who want to know of an end: in the list of their sandbox, later in that of what has ended. */
struct watcher {
	struct watcher *next, **at; /* at: what points to this one */
	registry_watch id;
	loop_call call;
	void *of;
};

enum op_kind { OP_PAUSE, OP_RESUME, OP_TIMEOUT, OP_COUNT };

/* A change of a sandbox's life: one after the other, in the order in which they were asked for. */
struct op {
	struct op *next;
	enum op_kind kind;
	bool is_renewal; /* what the store says already, once more to the warden */
	uint64_t timeout_ms;
	registry_done done; /* NULL: nobody waits */
	void *of;
	size_t step;
	struct {
		enum held_state state;
		uint64_t ends;
	} before;
	struct err err;
};

struct entry {
	struct id_link link;
	struct registry *registry;
	struct held held;  /* as everybody sees and changes it */
	struct held saved; /* as the store has it */
	loop_id timer;     /* the end of its time */
	struct op *ops;    /* the first one is under way */
	call_id call;      /* of that one */
	struct watcher *watchers;
};

/* One that is gone for everybody but its warden. */
struct killing {
	struct killing *next, **at;
	struct registry *registry;
	char id[TRACE_ID_SIZE];
	registry_done done;
	void *of;
	call_id call;
	loop_id timer;
	unsigned int tries;
};

/* What a tenant has been promised, and how fast it may go on. */
struct account {
	struct account *next;
	char tenant[TENANT_NAME_MAX + 1];
	struct usage promised;
	double tokens;     /* sandboxes that may be made at once */
	uint64_t refilled; /* loop_now() */
	bool has_begun;
};

struct registry {
	struct serve *serve;
	struct id_table entries;
	struct entry **sorted; /* the oldest first */
	size_t count, room;
	struct account *accounts;
	struct watcher **watchers; /* by place */
	uint32_t watcher_room, watcher_next;
	uint64_t watcher_generation;
	struct watcher *ended; /* to be called soon */
	struct op *finished;   /* likewise, in their order */
	struct killing *killings;
	loop_id soon, sweep;
};

uint64_t registry_now(void); /* ms since 1970 */
struct entry *registry_entry(struct registry *registry, const char *id);

/* From memory and from the store; those who wait for something are told soon. */
void registry_bury(struct entry *entry);

/* Watchers of what has ended, and those who asked for changes that are over. */
void registry_tell_soon(struct registry *registry);

/* --- registry_life.c --- */

/* The timer of what is now in held. */
void life_set_timer(struct entry *entry);
/* Makes the warden do what the store says. is_new: it was made just now, and runs. */
void life_renew(struct entry *entry, bool is_new);
void life_end_ops(struct entry *entry); /* of an entry that is being buried */
void life_tell_finished(struct registry *registry);
void life_done(struct registry *registry);

/* --- registry_quota.c --- */
void quota_done(struct registry *registry);

#endif
