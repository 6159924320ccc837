/*
 * warden.h - supervision of one sandbox, in the foreground
 *
 * The warden prepares the jail, starts the keeper, and then waits for whichever comes first: news
 *of the keeper, a signal of the caller, a deadline, output to relay, a limit to watch. It ends the
 *sandbox in two steps: the signal that a program expects (SIGTERM, or what the caller sent), and
 *after a short grace the end of everything.
 *
 *	start --> running --> ending (grace) --> killed --> finished
 *
 * A warden that dies leaves nothing: the keeper notices and ends the sandbox.
 */
#ifndef BRIG_WARDEN_WARDEN_H
#define BRIG_WARDEN_WARDEN_H

#include "policy/policy.h"
#include "tier/process.h"
#include "warden/result.h"

struct warden_request {
	const struct policy *policy;
	const char *temporary; /* folder for temporary files */
	unsigned int weaken;
	bool capture, is_raw;
	char *const *argv;
	char *const *environ; /* the caller's */
};

/*
 * Runs it to its end. -errno only when brig itself failed and nothing ran; a program that cannot be
 * executed is a result (126, 127), with err saying why in words and err->code set.
 */
[[nodiscard]] int warden_run(const struct warden_request *request, struct process_jail *pj,
			     struct result *ret_result, struct err *err);

#endif
