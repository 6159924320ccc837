/*
 * ports.c - what an entry of net.publish means: [ADDRESS:]OUTSIDE[:INSIDE]
 *
 * The same port can be written in several ways, so entries are compared by what they mean. The
 * address is the host's; where none is written it is loopback, and never anything wider.
 */
#include <arpa/inet.h>
#include <string.h>

#include "policy/policy.h"

#define IPV4_PREFIX 12

static const unsigned char loopback[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 };
static const unsigned char any_ipv4[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0 };
static const unsigned char any_ipv6[16];

/* A number without signs, white space and leading zeros. What follows it, or NULL. */
static const char *read_port(const char *text, uint16_t *ret_port)
{
	size_t len = strspn(text, "0123456789");
	unsigned long value = 0;

	if (len == 0 || len > 5 || (text[0] == '0' && len > 1))
		return NULL;
	for (size_t i = 0; i < len; i++)
		value = value * 10 + (unsigned long)(text[i] - '0');
	if (value > UINT16_MAX)
		return NULL;
	*ret_port = (uint16_t)value;
	return text + len;
}

/* len characters as an address; ip is what it was where they are none. */
static bool read_ip(const char *text, size_t len, int family, unsigned char ip[static 16])
{
	char copy[INET6_ADDRSTRLEN];
	unsigned char bytes[16];

	if (len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (inet_pton(family, copy, bytes) != 1)
		return false;
	if (family == AF_INET) {
		memcpy(ip, any_ipv4, IPV4_PREFIX);
		memcpy(ip + IPV4_PREFIX, bytes, 4);
	} else {
		memcpy(ip, bytes, 16);
	}
	return true;
}

/* The address in front, if there is one. What follows its colon, or NULL. */
static const char *read_address(const char *text, unsigned char ip[static 16])
{
	const char *end = strchr(text, ']');
	size_t len = strcspn(text, ":");

	memcpy(ip, loopback, sizeof(loopback));
	if (text[0] == '[')
		return end && end[1] == ':' &&
				       read_ip(text + 1, (size_t)(end - text - 1), AF_INET6, ip)
			       ? end + 2
			       : NULL;
	if (!memchr(text, '.', len))
		return text;
	return text[len] == ':' && read_ip(text, len, AF_INET, ip) ? text + len + 1 : NULL;
}

bool policy_port_read(const char *text, struct published *ret_port)
{
	struct published port = { 0 };
	const char *p = read_address(text, port.ip);

	p = p ? read_port(p, &port.outside) : NULL;
	if (!p)
		return false;
	port.inside = port.outside;
	if (*p == ':')
		p = read_port(p + 1, &port.inside);
	if (!p || *p || port.inside == 0)
		return false;
	*ret_port = port;
	return true;
}

bool policy_port_covers(const struct published *a, const struct published *b)
{
	bool is_ipv4 = memcmp(b->ip, any_ipv4, IPV4_PREFIX) == 0;

	if (a->outside != b->outside || a->inside != b->inside)
		return false;
	return memcmp(a->ip, b->ip, sizeof(a->ip)) == 0 ||
	       memcmp(a->ip, is_ipv4 ? any_ipv4 : any_ipv6, sizeof(a->ip)) == 0;
}
