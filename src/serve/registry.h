/*
 * registry.h - the sandboxes that the daemon answers for, in memory, by id, by tenant, by token
 *
 * What the store has on disk, plus what need not be there (timers). Every change goes to the store first; a
 * change that the store refused has not happened. Pointers are good within one turn of the loop: what is
 * needed later is looked up again by id.
 */
#ifndef BRIG_SERVE_REGISTRY_H
#define BRIG_SERVE_REGISTRY_H

#include "serve/fleet.h"
#include "serve/store.h"

struct registry;
struct serve;

[[nodiscard]] int registry_new(struct serve *serve, struct registry **ret_registry,
			       struct err *err);
void registry_free(struct registry *registry);

/* At the start: reads the store, adopts those that live, removes those that do not, sets the timers. */
[[nodiscard]] int registry_load(struct registry *registry, size_t *ret_adopted, size_t *ret_dropped,
				struct err *err);

/* NULL: no such one, or not of this tenant (NULL: of any). */
struct held *registry_find(struct registry *registry, const char *id, const char *tenant);

/* Takes over the texts of held, also when it fails: they are NULL afterwards. The sandbox gets its deadline. */
[[nodiscard]] int registry_add(struct registry *registry, struct held *held, struct err *err);
/* What was changed in a held that registry_find() gave: written to the store, timers set anew. If the store
 * refuses it, held is as it was before. */
[[nodiscard]] int registry_save(struct registry *registry, struct held *held, struct err *err);
/* It has ended (fleet_setup.ended): forgotten here and in the store; those who watch it are told. */
void registry_remove(struct registry *registry, const char *id);

/* In the order of their start, the newest first; index from 0, NULL behind the last. */
struct held *registry_at(struct registry *registry, size_t index);
size_t registry_count(const struct registry *registry, const char *tenant);

/* What a tenant's sandboxes use of its quota, those that are being made included (registry_reserve). */
struct usage {
	size_t sandboxes;
	double cpu;
	uint64_t memory, disk;
};
void registry_usage(struct registry *registry, const char *tenant, struct usage *ret_usage);

/*
 * Room for one more: -EDQUOT with words, and *ret_wait_s for Retry-After. Given back by registry_unreserve(),
 * also after registry_add() has counted it.
 */
[[nodiscard]] int registry_reserve(struct registry *registry, const struct tenant *tenant,
				   double cpu, uint64_t memory, uint64_t disk,
				   unsigned int *ret_wait_s, struct err *err);
/* Room on the disk for one more image of a tenant's: -EDQUOT with words. */
[[nodiscard]] int registry_check_image(struct registry *registry, const struct tenant *tenant,
				       uint64_t bytes, struct err *err);
void registry_unreserve(struct registry *registry, const char *tenant, double cpu, uint64_t memory,
			uint64_t disk);

/*
 * Life: what control plane, data plane and timers all do. done(): err->code is 0, or -errno with words; NULL
 * where nobody waits. It is called in a later turn, and not at all where the function itself failed (-ESRCH:
 * there is none; -EALREADY: it is paused already; -EBUSY: of one that is paused).
 */
typedef void (*registry_done)(void *of, const struct err *err);
[[nodiscard]] int registry_kill(struct registry *registry, const char *id, registry_done done,
				void *of, struct err *err);
[[nodiscard]] int registry_pause(struct registry *registry, const char *id, registry_done done,
				 void *of, struct err *err);
/* timeout_ms: from now; 0 leaves what is left of it, five minutes at least. Of one that runs, the time is only
 * made longer. Several at once are well: each is told. */
[[nodiscard]] int registry_resume(struct registry *registry, const char *id, uint64_t timeout_ms,
				  registry_done done, void *of, struct err *err);
[[nodiscard]] int registry_set_timeout(struct registry *registry, const char *id,
				       uint64_t timeout_ms, registry_done done, void *of,
				       struct err *err);

/* Those who stream from a sandbox want to know when it ends: called once, then forgotten. */
typedef uint64_t registry_watch;
[[nodiscard]] int registry_on_end(struct registry *registry, const char *id, loop_call call,
				  void *of, registry_watch *ret_watch);
registry_watch registry_forget(struct registry *registry, registry_watch watch);

#endif
