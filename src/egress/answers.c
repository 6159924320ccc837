/*
 * answers.c - see answers.h
 */
#include <string.h>

#include "base/macro.h"
#include "base/str.h"
#include "egress/answers.h"

void answers_init(struct answers *answers)
{
	answers->count = 0;
}

/* The entry of this pair, else one that is free, has ended, or ends before all others. */
static size_t find_place(const struct answers *answers, const unsigned char ip[ADDRESS_BYTES],
			 const char *name)
{
	size_t first = 0;

	for (size_t i = 0; i < answers->count; i++) {
		if (memcmp(answers->keys[i].ip, ip, ADDRESS_BYTES) == 0 &&
		    str_equal(answers->names[i], name))
			return i;
		if (answers->keys[i].until_ms < answers->keys[first].until_ms)
			first = i;
	}
	return answers->count < ANSWERS_MAX ? answers->count : first;
}

void answers_add(struct answers *answers, const unsigned char ip[ADDRESS_BYTES], const char *name,
		 uint32_t ttl, uint64_t now_ms)
{
	uint64_t hold = MAX(ttl * 1000ull, ANSWERS_HOLD_MIN_MS);
	size_t place;

	if (strlen(name) >= NAME_SIZE)
		return;
	place = find_place(answers, ip, name);
	if (place == answers->count)
		answers->count++;
	memcpy(answers->keys[place].ip, ip, ADDRESS_BYTES);
	answers->keys[place].until_ms = now_ms + MIN(hold, ANSWERS_HOLD_MAX_MS);
	strcpy(answers->names[place], name);
}

const char *answers_next(const struct answers *answers, const unsigned char ip[ADDRESS_BYTES],
			 uint64_t now_ms, size_t *cursor)
{
	while (*cursor < answers->count) {
		size_t i = (*cursor)++;

		if (memcmp(answers->keys[i].ip, ip, ADDRESS_BYTES) == 0 &&
		    answers->keys[i].until_ms > now_ms)
			return answers->names[i];
	}
	return NULL;
}

bool answers_has(const struct answers *answers, const unsigned char ip[ADDRESS_BYTES],
		 const char *name, uint64_t now_ms)
{
	const char *found;
	size_t cursor = 0;

	while ((found = answers_next(answers, ip, now_ms, &cursor)))
		if (str_equal(found, name))
			return true;
	return false;
}
