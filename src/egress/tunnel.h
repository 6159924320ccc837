/*
 * tunnel.h - when questions below a wildcard carry data out
 *
 * "*.example.com" lets a program ask for any label below example.com, and whoever runs that domain
 * reads the labels. Every wildcard has an allowance of bytes: a name that was not asked lately costs
 * what stands before the wildcard's domain, four times that where a label looks random; the
 * allowance fills up again slowly. An ordinary program asks for a few dozen short names and never
 * notices; a tunnel gets some hundred bytes out, is refused, and is an event. A name of more than
 * TUNNEL_LONG bytes before the domain is refused at once.
 *
 * A name that was asked lately is free, so that a program may connect as often as it likes. That
 * holds only together with the resolver's cache: below a wildcard it must keep an answer, a negative
 * one too, for TUNNEL_CACHE_MS at least, or the order of free questions would be the tunnel.
 *
 * The state is bounded: more wildcards than TUNNEL_SLOTS share slots, and a name that is forgotten
 * only costs again.
 */
#ifndef BRIG_EGRESS_TUNNEL_H
#define BRIG_EGRESS_TUNNEL_H

#include "egress/name.h"

#define TUNNEL_SLOTS     16
#define TUNNEL_SEEN      128
#define TUNNEL_ALLOWANCE 2048 /* bytes at once */
#define TUNNEL_PER_MS    100  /* a byte comes back every so many: 10 a second */
#define TUNNEL_LONG      128
#define TUNNEL_CACHE_MS  60000
#define TUNNEL_RANDOM    4 /* how much more a random label costs */

struct tunnel {
	struct tunnel_slot {
		uint64_t spent, since_ms;   /* since_ms: up to when spent was reduced */
		uint64_t seen[TUNNEL_SEEN]; /* of the names asked last, a part of their hash */
		size_t next;
	} slots[TUNNEL_SLOTS];
};

enum tunnel_verdict {
	TUNNEL_FINE,
	TUNNEL_TOO_LONG,
	TUNNEL_TOO_MANY,
};

void tunnel_init(struct tunnel *tunnel);

/*
 * name (as name_read gives it) is about to be asked upstream because "*.apex" allows it. A refused
 * name costs nothing, and asking for it again is refused again until the allowance is back.
 */
enum tunnel_verdict tunnel_ask(struct tunnel *tunnel, const char *apex, const char *name,
			       uint64_t now_ms);

#endif
