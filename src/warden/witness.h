/*
 * witness.h - judges what was recorded, and tells it (private to warden/)
 *
 * The keeper copies what a program asks for (jail/record.h); the kernel decides. The witness says
 * afterwards what the policy thinks of it: which rule allows it, or which refuses it and what would
 * allow it. Every call becomes an event of the sandbox's stream, every distinct refusal also a
 * denial of its result.
 *
 * A verdict here opens and closes nothing. It is about the path as it was asked for, made absolute
 * without looking at any file: a symbolic link on the way can make it say "allow" where the walls
 * refuse, or the reverse; the event has the words that the program used. What the policy forbids but
 * the host does not have is no refusal: the program would not have found it anyway.
 */
#ifndef BRIG_WARDEN_WITNESS_H
#define BRIG_WARDEN_WITNESS_H

#include "egress/gate.h"
#include "jail/outlet.h"
#include "jail/record.h"
#include "policy/policy.h"
#include "tier/jail.h"
#include "trace/trace.h"
#include "warden/result.h"

struct witness {
	const struct policy *policy;
	const struct tier_jail *tj;
	struct result *result;
	struct trace *trace; /* NULL: nothing is recorded */
	int failure;         /* -errno: the stream cannot be written any more */
};

void witness_take(struct witness *witness, const struct record_taken *taken);

/* What the gate decided. exec: which execve its caller comes from. */
void witness_gate(struct witness *witness, const struct gate_event *event, uint32_t exec);

/*
 * The flag that would allow a path, in the words of a shell: the path is the sandbox's, and a person
 * may paste them. None where it would not be that path: too long, or not printable.
 */
void witness_offer(struct denial *denial, const char *flag, const char *path);

/* What the keeper refused on a network that is shared. object: the address, "" where none was said. */
void witness_refused(struct witness *witness, const struct outlet_message *message,
		     const char *object);

/*
 * Somebody outside came to a published port ("127.0.0.1:8080:80"). reason: why nobody inside was
 * reached, or "". Not a denial of the result, as the sandbox asked for nothing.
 */
void witness_accept(struct witness *witness, const char *peer, const char *port, const char *reason,
		    bool is_denied);

/* A refusal that somebody else saw: told once, however often it is repeated. */
void witness_deny(struct witness *witness, const struct denial *denial);

#endif
