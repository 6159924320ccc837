/*
 * name.c - see name.h
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/macro.h"
#include "base/str.h"
#include "egress/name.h"

/*
 * The names under which clouds answer inside a machine. Those on public domains are here because a
 * wildcard could take them in; most resolve to an address that is refused anyway.
 */
static const struct special {
	const char *name;
	enum address_class class;
	bool with_below;
} specials[] = {
	{ "localhost", ADDRESS_LOOPBACK, true },
	{ "localhost.localdomain", ADDRESS_LOOPBACK, false },
	{ "localhost6.localdomain6", ADDRESS_LOOPBACK, false },
	{ "localhost6", ADDRESS_LOOPBACK, false },
	{ "ip6-localhost", ADDRESS_LOOPBACK, false },
	{ "ip6-loopback", ADDRESS_LOOPBACK, false },
	{ "metadata", ADDRESS_METADATA, false },
	{ "metadata.google.internal", ADDRESS_METADATA, true },
	{ "metadata.goog", ADDRESS_METADATA, true },
	{ "instance-data", ADDRESS_METADATA, false },
	{ "instance-data.ec2.internal", ADDRESS_METADATA, false },
	{ "metadata.ec2.internal", ADDRESS_METADATA, false },
	{ "metadata.azure.internal", ADDRESS_METADATA, true },
	{ "metadata.azure.com", ADDRESS_METADATA, false },
	{ "metadata.tencentyun.com", ADDRESS_METADATA, false },
	{ "metadata.packet.net", ADDRESS_METADATA, false },
	{ "metadata.platformequinix.com", ADDRESS_METADATA, false },
	{ "metadata.oraclecloud.com", ADDRESS_METADATA, false },
	{ "rancher-metadata", ADDRESS_METADATA, false },
	{ "rancher-metadata.rancher.internal", ADDRESS_METADATA, false },
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

/*
 * Letters of other widths that libraries fold to ASCII before they read a number: full-width forms
 * (U+FF01 to U+FF5E), the ideographic full stops (U+3002, U+FF61) and circled digits (U+2460...).
 * Gives the ASCII byte, or '?' for any other character; *ret_len is its length.
 */
static char fold(const char *text, size_t len, size_t *ret_len)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = utf8_sequence(p, len);
	unsigned int c;

	*ret_len = n ? n : 1;
	if (n == 1)
		return lower(*text);
	if (n != 3)
		return '?';
	c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	if (c >= 0xff01 && c <= 0xff5e)
		return lower((char)(c - 0xff01 + '!'));
	if (c == 0x3002 || c == 0xff61)
		return '.';
	if (c >= 0x2460 && c <= 0x2468)
		return (char)(c - 0x2460 + '1');
	return '?';
}

/* The text in ASCII and lower case, one trailing dot removed. False when it is too long. */
static bool fold_all(const char *text, size_t len, char *copy, size_t size, bool *ret_changed)
{
	size_t at = 0, n;

	*ret_changed = false;
	for (size_t i = 0; i < len; i += n) {
		if (at + 1 >= size)
			return false;
		copy[at++] = fold(text + i, len - i, &n);
		*ret_changed |= n != 1;
	}
	if (at > 1 && copy[at - 1] == '.')
		at--;
	copy[at] = '\0';
	return true;
}

/* A last label that is a number makes many readers take the whole for an IPv4 address. */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
	size_t n = 0;

	if (last[0] == '0' && last[1] == 'x') {
		for (last += 2; is_hex(last[n]); n++)
			;
		return last[n] == '\0';
	}
	while (is_digit(last[n]))
		n++;
	return n > 0 && last[n] == '\0';
}

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

static bool is_name(const char *name)
{
	size_t label = 0;

	if (strlen(name) >= NAME_SIZE)
		return false;
	for (const char *p = name;; p++) {
		if (*p != '.' && *p != '\0') {
			if (!is_name_byte(*p) || ++label > 63)
				return false;
			continue;
		}
		if (label == 0 || p[-1] == '-' || p[-(ptrdiff_t)label] == '-')
			return false;
		label = 0;
		if (*p == '\0')
			return true;
	}
}

/* In its usual spelling: dotted decimal, or IPv6 with or without brackets, without a scope. */
static bool read_address(const char *text, struct address *ret_address)
{
	struct address address = { 0 };
	char inside[INET6_ADDRSTRLEN];
	unsigned char v4[4];
	size_t len = strlen(text);

	if (inet_pton(AF_INET, text, v4) == 1) {
		address_from_ipv4(v4, 0, ret_address);
		return true;
	}
	if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (len >= sizeof(inside))
		return false;
	memcpy(inside, text, len);
	inside[len] = '\0';
	if (inet_pton(AF_INET6, inside, address.ip) != 1)
		return false;
	*ret_address = address;
	return true;
}

enum name_kind name_read(const char *text, size_t len, char ret_name[static NAME_SIZE],
			 struct address *ret_address)
{
	char copy[NAME_SIZE + 8];
	bool changed;

	if (len == 0 || memchr(text, '\0', len) ||
	    !fold_all(text, len, copy, sizeof(copy), &changed))
		return NAME_INVALID;
	if (!changed && read_address(copy, ret_address))
		return NAME_ADDRESS;
	if (copy[0] == '[' || strchr(copy, ':') || ends_in_number(copy))
		return NAME_ODD_ADDRESS;
	if (changed || !is_name(copy))
		return NAME_INVALID;
	strcpy(ret_name, copy);
	return NAME_HOST;
}

bool name_is_under(const char *name, const char *apex)
{
	size_t a = strlen(name), b = strlen(apex);

	return a > b + 1 && name[a - b - 1] == '.' && str_equal(name + a - b, apex);
}

enum address_class name_classify(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
		const struct special *s = &specials[i];

		if (str_equal(name, s->name) || (s->with_below && name_is_under(name, s->name)))
			return s->class;
	}
	return ADDRESS_PUBLIC;
}
