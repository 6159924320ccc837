/*
 * tunnel.c - see tunnel.h
 */
#include <string.h>

#include "base/macro.h"
#include "base/sha256.h"
#include "egress/tunnel.h"

void tunnel_init(struct tunnel *tunnel)
{
	memset(tunnel, 0, sizeof(*tunnel));
}

/* Not one that a program inside can make collide at will, to ask many names for the price of one. */
static uint64_t hash(const char *text)
{
	char hex[SHA256_HEX_SIZE];
	uint64_t value = 0;

	sha256_hex(text, strlen(text), hex);
	for (size_t i = 0; i < 16; i++)
		value = value << 4 | (uint64_t)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
	return value ? value : 1; /* 0 is an empty place */
}

static bool was_seen(const struct tunnel_slot *slot, uint64_t value)
{
	for (size_t i = 0; i < TUNNEL_SEEN; i++)
		if (slot->seen[i] == value)
			return true;
	return false;
}

static void refill(struct tunnel_slot *slot, uint64_t now_ms)
{
	uint64_t back = now_ms > slot->since_ms ? (now_ms - slot->since_ms) / TUNNEL_PER_MS : 0;

	if (back >= slot->spent) {
		slot->spent = 0;
		slot->since_ms = MAX(now_ms, slot->since_ms);
		return;
	}
	slot->spent -= back;
	slot->since_ms += back * TUNNEL_PER_MS; /* the rest of a byte's time is not lost */
}

static unsigned int kind_of(char c)
{
	if (c >= '0' && c <= '9')
		return 1;
	return c == '-' || c == '_' ? 2 : 0;
}

static bool is_vowel(char c)
{
	return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y';
}

/*
 * What encoders make: a long run without hyphens that switches often between letters and digits
 * (hexadecimal, base32), or letters that nobody can pronounce. Words and numbered hosts have few
 * switches. A wrong guess only changes the price.
 */
static bool looks_random(const char *label, size_t len)
{
	size_t switches = 0, letters = 0, vowels = 0;

	if (len < 16)
		return false;
	for (size_t i = 0; i < len; i++) {
		switches += i > 0 && kind_of(label[i]) != kind_of(label[i - 1]) &&
			    kind_of(label[i]) < 2 && kind_of(label[i - 1]) < 2;
		letters += kind_of(label[i]) == 0;
		vowels += is_vowel(label[i]);
	}
	return switches >= len / 5 || (letters >= 16 && vowels * 5 < letters);
}

static uint64_t price(const char *name, size_t len)
{
	uint64_t sum = 0;

	for (size_t at = 0, end; at < len; at = end + 1) {
		for (end = at; end < len && name[end] != '.'; end++)
			;
		sum += (end - at) * (looks_random(name + at, end - at) ? TUNNEL_RANDOM : 1);
	}
	/* A name of one letter tells something too: that it was asked, and when. */
	return sum + 4;
}

enum tunnel_verdict tunnel_ask(struct tunnel *tunnel, const char *apex, const char *name,
			       uint64_t now_ms)
{
	struct tunnel_slot *slot = &tunnel->slots[hash(apex) % TUNNEL_SLOTS];
	uint64_t value = hash(name), cost;
	size_t len;

	if (!name_is_under(name, apex))
		return TUNNEL_FINE;
	len = strlen(name) - strlen(apex) - 1;
	if (len > TUNNEL_LONG)
		return TUNNEL_TOO_LONG;
	if (was_seen(slot, value))
		return TUNNEL_FINE;
	refill(slot, now_ms);
	cost = price(name, len);
	if (slot->spent + cost > TUNNEL_ALLOWANCE)
		return TUNNEL_TOO_MANY;
	slot->spent += cost;
	slot->seen[slot->next] = value;
	slot->next = (slot->next + 1) % TUNNEL_SEEN;
	return TUNNEL_FINE;
}
