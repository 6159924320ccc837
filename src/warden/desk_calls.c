#include "warden/desk_calls.h"

#include <errno.h>
#include <stdlib.h>

#define PLACE_BITS 12
_Static_assert(DESK_CALLS_MAX <= 1 << PLACE_BITS, "a number has room for the place");

static int grow(struct desk *desk)
{
	size_t room = desk->call_room ? desk->call_room * 2 : 16;
	struct desk_call *calls;

	if (room > DESK_CALLS_MAX)
		return -EAGAIN;
	calls = realloc(desk->calls, room * sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (size_t i = desk->call_room; i < room; i++)
		calls[i] = (struct desk_call){ 0 };
	desk->calls = calls;
	desk->call_room = room;
	return 0;
}

struct desk_call *desk_call_begin(struct desk *desk, struct guest *guest, const struct message *m)
{
	struct desk_call *call = NULL;

	if (guest->calls == GUEST_CALLS_MAX ||
	    (desk->call_count == desk->call_room && grow(desk) < 0))
		return NULL;
	for (size_t i = 0; !call || call->number; i++) {
		desk->next_call = (desk->next_call + 1) % desk->call_room;
		call = &desk->calls[desk->next_call];
	}
	/* Never 0: the generation begins with 1, and after its end begins anew there. */
	desk->generation = desk->generation % (UINT32_MAX >> PLACE_BITS) + 1;
	*call = (struct desk_call){ .number = desk->generation << PLACE_BITS |
					      (uint32_t)desk->next_call,
				    .theirs = m->call,
				    .guest = guest,
				    .answering = { .type = m->type } };
	desk->call_count++;
	guest->calls++;
	return call;
}

void desk_call_end(struct desk *desk, struct desk_call *call)
{
	call->guest->calls--;
	desk->call_count--;
	call->number = 0;
}

struct desk_call *desk_call_find(struct desk *desk, uint32_t number)
{
	size_t place = number & ((1u << PLACE_BITS) - 1);

	return number && place < desk->call_room && desk->calls[place].number == number
		       ? &desk->calls[place]
		       : NULL;
}

struct desk_call *desk_call_of(struct desk *desk, const struct guest *guest, uint32_t theirs)
{
	for (size_t i = 0; i < desk->call_room && guest->calls > 0; i++)
		if (desk->calls[i].number && desk->calls[i].guest == guest &&
		    desk->calls[i].theirs == theirs)
			return &desk->calls[i];
	return NULL;
}
