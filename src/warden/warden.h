/*
 * warden.h - supervision of one sandbox, in the foreground
 *
 * The warden prepares the jail, starts the keeper, and then waits for whichever comes first: news
 * of the keeper, a signal of the caller, a deadline, output to relay, a limit to watch. It ends the
 * sandbox in two steps: the signal that a program expects (SIGTERM, or what the caller sent), and
 * after a short grace the end of everything.
 *
 *	start --> running --> ending (grace) --> killed --> finished
 *
 * A warden that dies leaves nothing: the keeper notices and ends the sandbox.
 */
#ifndef BRIG_WARDEN_WARDEN_H
#define BRIG_WARDEN_WARDEN_H

#include "policy/policy.h"
#include "tier/jail.h"
#include "tier/tier.h"
#include "warden/result.h"

struct warden_request {
	const struct tier *tier;
	const struct policy *policy;
	const struct policy_env *env;
	const char *temporary; /* folder for temporary files */
	unsigned int weaken;
	bool capture, is_raw;
	bool keeps_store; /* tj->store (the private folder) is wanted afterwards */
	const struct image_layers
		*from;     /* what another sandbox left; held until it ends; or NULL */
	bool lives;        /* warden_live() */
	const char *name;  /* of one that lives, or NULL */
	const char *tag;   /* likewise: who made it, in words of his own */
	const char *slice; /* whose cgroups it goes to, or NULL; and whose ids it gets */
	uint64_t owner;
	uint64_t idle_ms; /* it ends when nobody wanted anything for so long; 0: never */
	char *const *argv;
	char *const *environ; /* the caller's */
};

/* The plan of a start, without a start. The caller frees it with tier_jail_abandon(). */
[[nodiscard]] int warden_plan(const struct warden_request *request, struct tier_jail *ret_tj,
			      struct err *err);

/*
 * Runs it to its end; the caller ends with warden_leave(). -errno only when brig itself failed and
 * nothing ran; a program that cannot be executed is a result (126, 127), with err saying why in
 * words and err->code set.
 */
[[nodiscard]] int warden_run(const struct warden_request *request, struct tier_jail *tj,
			     struct result *ret_result, struct err *err);

/*
 * A sandbox that lives, in this process, until its end. When it can be used, or cannot, told() says
 * so once: with the manifest (JSON, its file in the roster), or with err->code set. The caller is
 * somebody's child by then and has nothing to return to: ends with warden_leave().
 */
[[nodiscard]] int warden_live(const struct warden_request *request, struct tier_jail *tj,
			      struct result *ret_result,
			      void (*told)(void *arg, const struct node *manifest,
					   const struct err *err),
			      void *arg, struct err *err);

/* Gives back all that the sandbox held; what takes time is left to a process in the background. */
void warden_leave(struct tier_jail *tj);

#endif
