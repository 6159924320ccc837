/*
 * address.c - see address.h
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "egress/address.h"

#define V4(a, b, c, d)                                                       \
	{                                                                    \
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, (a), (b), (c), (d) \
	}
#define V6(...)             \
	{                   \
		__VA_ARGS__ \
	}

const char *const address_class_names[ADDRESS_CLASS_COUNT] = {
	[ADDRESS_PUBLIC] = "a public address",
	[ADDRESS_DOCUMENTATION] = "an address for documentation",
	[ADDRESS_BENCHMARK] = "an address for benchmarks",
	[ADDRESS_RESERVED] = "a reserved address",
	[ADDRESS_TRANSLATION] = "an address of a tunnel or translator",
	[ADDRESS_SHARED] = "an address of a carrier's shared range",
	[ADDRESS_PRIVATE] = "an address of a private network",
	[ADDRESS_MULTICAST] = "a multicast address",
	[ADDRESS_BROADCAST] = "the broadcast address",
	[ADDRESS_LINK_LOCAL] = "a link-local address",
	[ADDRESS_UNSPECIFIED] = "an unspecified address, which means this host",
	[ADDRESS_LOOPBACK] = "a loopback address of the host",
	[ADDRESS_OWN] = "an address of the host itself",
	[ADDRESS_METADATA] = "a cloud metadata endpoint, which gives out credentials",
};

/*
 * The registries of special-purpose addresses (RFC 6890 and its updates), multicast, and what is
 * not given out at all: of IPv6 only 2000::/3 is, so everything else is reserved unless a row says
 * otherwise. The longest prefix decides. Ranges that are reachable from everywhere but serve the
 * infrastructure (AS112, AMT, anycast for PCP and TURN) are reserved too: no program asks for them.
 */
static const struct range {
	unsigned char net[ADDRESS_BYTES];
	unsigned int prefix;
	enum address_class class;
} ranges[] = {
	{ V4(0, 0, 0, 0), 96, ADDRESS_PUBLIC },
	{ V4(0, 0, 0, 0), 96 + 8, ADDRESS_UNSPECIFIED },
	{ V4(10, 0, 0, 0), 96 + 8, ADDRESS_PRIVATE },
	{ V4(100, 64, 0, 0), 96 + 10, ADDRESS_SHARED },
	{ V4(127, 0, 0, 0), 96 + 8, ADDRESS_LOOPBACK },
	{ V4(169, 254, 0, 0), 96 + 16, ADDRESS_LINK_LOCAL },
	{ V4(172, 16, 0, 0), 96 + 12, ADDRESS_PRIVATE },
	{ V4(192, 0, 0, 0), 96 + 24, ADDRESS_RESERVED },
	{ V4(192, 0, 2, 0), 96 + 24, ADDRESS_DOCUMENTATION },
	{ V4(192, 31, 196, 0), 96 + 24, ADDRESS_RESERVED },
	{ V4(192, 52, 193, 0), 96 + 24, ADDRESS_RESERVED },
	{ V4(192, 88, 99, 0), 96 + 24, ADDRESS_TRANSLATION },
	{ V4(192, 168, 0, 0), 96 + 16, ADDRESS_PRIVATE },
	{ V4(192, 175, 48, 0), 96 + 24, ADDRESS_RESERVED },
	{ V4(198, 18, 0, 0), 96 + 15, ADDRESS_BENCHMARK },
	{ V4(198, 51, 100, 0), 96 + 24, ADDRESS_DOCUMENTATION },
	{ V4(203, 0, 113, 0), 96 + 24, ADDRESS_DOCUMENTATION },
	{ V4(224, 0, 0, 0), 96 + 4, ADDRESS_MULTICAST },
	{ V4(240, 0, 0, 0), 96 + 4, ADDRESS_RESERVED },
	{ V4(255, 255, 255, 255), 96 + 32, ADDRESS_BROADCAST },

	{ V6(0), 0, ADDRESS_RESERVED },
	{ V6(0), 96, ADDRESS_TRANSLATION }, /* IPv4-compatible */
	{ V6(0), 128, ADDRESS_UNSPECIFIED },
	{ V6([15] = 1), 128, ADDRESS_LOOPBACK },
	{ V6([8] = 0xff, [9] = 0xff), 96, ADDRESS_TRANSLATION }, /* IPv4-translated */
	{ V6(0, 0x64, 0xff, 0x9b), 96, ADDRESS_PUBLIC },         /* NAT64: the inner one counts */
	{ V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, ADDRESS_TRANSLATION },
	{ V6(0x01), 64, ADDRESS_RESERVED },                               /* 100::, discard */
	{ V6(0x01, [7] = 1), 64, ADDRESS_RESERVED },                      /* 100:0:0:1:: */
	{ V6(0x20), 3, ADDRESS_PUBLIC },                                  /* 2000::, unicast */
	{ V6(0x20, 0x01), 23, ADDRESS_RESERVED },                         /* protocols */
	{ V6(0x20, 0x01), 32, ADDRESS_TRANSLATION },                      /* Teredo */
	{ V6(0x20, 0x01, 0, 0x02), 48, ADDRESS_BENCHMARK },               /* 2001:2:: */
	{ V6(0x20, 0x01, 0x0d, 0xb8), 32, ADDRESS_DOCUMENTATION },        /* 2001:db8:: */
	{ V6(0x20, 0x02), 16, ADDRESS_TRANSLATION },                      /* 6to4 */
	{ V6(0x26, 0x20, 0x00, 0x4f, 0x80, 0x00), 48, ADDRESS_RESERVED }, /* AS112 */
	{ V6(0x3f, 0xff), 20, ADDRESS_DOCUMENTATION },                    /* 3fff:: */
	{ V6(0x5f), 16, ADDRESS_RESERVED },                               /* 5f00::, SRv6 */
	{ V6(0xfc), 7, ADDRESS_PRIVATE },                                 /* unique local */
	{ V6(0xfe, 0x80), 10, ADDRESS_LINK_LOCAL },
	{ V6(0xfe, 0xc0), 10, ADDRESS_PRIVATE }, /* site-local, withdrawn but not reused */
	{ V6(0xff), 8, ADDRESS_MULTICAST },
};

/* Where a virtual machine, a container or a function gets credentials or its configuration. */
static const unsigned char metadata[][ADDRESS_BYTES] = {
	V4(169, 254, 169, 254), /* AWS, Google, Azure, OpenStack, Oracle, IBM, Hetzner ... */
	V4(169, 254, 169, 252), /* Google, on a Kubernetes node */
	V4(169, 254, 169, 255), /* Linode */
	V4(169, 254, 170, 2),   /* AWS, tasks of a container */
	V4(169, 254, 170, 23),  /* AWS, identity of a pod */
	V4(169, 254, 0, 23),    /* Tencent */
	V4(169, 254, 42, 42),   /* Scaleway */
	V4(168, 63, 129, 16),   /* Azure, the wire server */
	V4(100, 100, 100, 200), /* Alibaba */
	V4(100, 96, 0, 96),     /* Volcano Engine */
	V4(192, 0, 0, 192),     /* Oracle, of old */
	V6(0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54),      /* AWS fd00:ec2::254 */
	V6(0xfd, 0x00, 0x0e, 0xc2, [15] = 0x23),                   /* AWS fd00:ec2::23 */
	V6(0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54),      /* Google fd20:ce::254 */
	V6(0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe), /* Oracle */
	V6(0xfd, 0x00, 0x00, 0x42, [15] = 0x42),                   /* Scaleway */
	V6(0xfd, 0x00, 0xa9, 0xfe, 0xa9, 0xfe, [15] = 0x01),       /* Linode */
	V6(0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe),             /* OpenStack */
};

/*
 * Where an IPv4 address stands in an IPv6 one, byte by byte. The local NAT64 prefix leaves open how
 * long the prefix really is (RFC 6052), so every length is looked at; byte 8 is skipped by all.
 */
static const struct embedding {
	unsigned char net[ADDRESS_BYTES];
	unsigned int prefix;
	unsigned char at[4];
	unsigned char flip;
} embeddings[] = {
	{ V6(0), 96, { 12, 13, 14, 15 }, 0 },
	{ V6([8] = 0xff, [9] = 0xff), 96, { 12, 13, 14, 15 }, 0 },
	{ V6(0, 0x64, 0xff, 0x9b), 96, { 12, 13, 14, 15 }, 0 },
	{ V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, { 6, 7, 9, 10 }, 0 },
	{ V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, { 7, 9, 10, 11 }, 0 },
	{ V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, { 9, 10, 11, 12 }, 0 },
	{ V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, { 12, 13, 14, 15 }, 0 },
	{ V6(0x20, 0x02), 16, { 2, 3, 4, 5 }, 0 },
	{ V6(0x20, 0x01), 32, { 4, 5, 6, 7 }, 0 },
	{ V6(0x20, 0x01), 32, { 12, 13, 14, 15 }, 0xff },
};

/* With its scope: an IPv6 address that means another place on another interface. */
static bool needs_scope(const unsigned char ip[ADDRESS_BYTES])
{
	return (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80) ||
	       (ip[0] == 0xff && ((ip[1] & 0x0f) == 1 || (ip[1] & 0x0f) == 2));
}

int address_from_sockaddr(const void *data, size_t len, struct address *ret_address)
{
	struct sockaddr_in6 v6 = { 0 };
	struct sockaddr_in v4;
	sa_family_t family;

	if (len < sizeof(family))
		return -EINVAL;
	memcpy(&family, data, sizeof(family));
	if (family == AF_INET) {
		if (len < sizeof(v4))
			return -EINVAL;
		memcpy(&v4, data, sizeof(v4));
		address_from_ipv4((const unsigned char *)&v4.sin_addr, ntohs(v4.sin_port),
				  ret_address);
		return 0;
	}
	if (family != AF_INET6)
		return -EAFNOSUPPORT;
	if (len < offsetof(struct sockaddr_in6, sin6_scope_id))
		return -EINVAL;
	memcpy(&v6, data, MIN(len, sizeof(v6)));
	/* A scope that is cut short is none, as in the kernel. */
	if (len < sizeof(v6))
		v6.sin6_scope_id = 0;
	*ret_address = (struct address){ .port = ntohs(v6.sin6_port) };
	memcpy(ret_address->ip, &v6.sin6_addr, ADDRESS_BYTES);
	if (needs_scope(ret_address->ip))
		ret_address->scope = v6.sin6_scope_id;
	return 0;
}

socklen_t address_to_sockaddr(const struct address *address, struct sockaddr_storage *ret_sockaddr)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)address->port),
				   .sin6_scope_id = address->scope };
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)address->port) };

	memset(ret_sockaddr, 0, sizeof(*ret_sockaddr));
	if (address_is_ipv4(address->ip)) {
		memcpy(&v4.sin_addr, address->ip + 12, 4);
		memcpy(ret_sockaddr, &v4, sizeof(v4));
		return sizeof(v4);
	}
	memcpy(&v6.sin6_addr, address->ip, ADDRESS_BYTES);
	memcpy(ret_sockaddr, &v6, sizeof(v6));
	return sizeof(v6);
}

void address_from_ipv4(const unsigned char v4[4], unsigned int port, struct address *ret_address)
{
	*ret_address = (struct address){ .ip = V4(v4[0], v4[1], v4[2], v4[3]), .port = port };
}

bool address_is_ipv4(const unsigned char ip[ADDRESS_BYTES])
{
	static const unsigned char mapped[ADDRESS_BYTES] = V4(0, 0, 0, 0);

	return address_has_prefix(ip, mapped, 96);
}

bool address_has_prefix(const unsigned char ip[ADDRESS_BYTES],
			const unsigned char net[ADDRESS_BYTES], unsigned int prefix)
{
	unsigned int whole = prefix / 8, bits = prefix % 8;

	if (prefix > 8 * ADDRESS_BYTES || memcmp(ip, net, whole) != 0)
		return false;
	return bits == 0 || (ip[whole] ^ net[whole]) >> (8 - bits) == 0;
}

static const struct range *find_range(const unsigned char ip[ADDRESS_BYTES])
{
	const struct range *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (address_has_prefix(ip, ranges[i].net, ranges[i].prefix) &&
		    (!found || ranges[i].prefix > found->prefix))
			found = &ranges[i];
	return found;
}

unsigned int address_range_prefix(const unsigned char ip[ADDRESS_BYTES])
{
	const struct range *range = find_range(ip);

	return range && range->class == address_classify(ip, NULL) ? range->prefix : 0;
}

static bool list_has(const unsigned char (*items)[ADDRESS_BYTES], size_t count,
		     const unsigned char ip[ADDRESS_BYTES])
{
	for (size_t i = 0; i < count; i++)
		if (memcmp(items[i], ip, ADDRESS_BYTES) == 0)
			return true;
	return false;
}

/* Of one address, whatever hides in it. */
static enum address_class classify_outer(const unsigned char ip[ADDRESS_BYTES],
					 const struct address_list *own)
{
	const struct range *range = find_range(ip);

	if (list_has(metadata, ARRAY_SIZE(metadata), ip))
		return ADDRESS_METADATA;
	if (own && list_has(own->items, own->count, ip))
		return ADDRESS_OWN;
	return range ? range->class : ADDRESS_RESERVED;
}

enum address_class address_classify(const unsigned char ip[ADDRESS_BYTES],
				    const struct address_list *own)
{
	unsigned char inner[ADDRESS_INNER_MAX][ADDRESS_BYTES];
	enum address_class class = classify_outer(ip, own);
	size_t count = address_inner(ip, inner);

	for (size_t i = 0; i < count; i++)
		class = MAX(class, classify_outer(inner[i], own));
	return class;
}

static void put_inner(const unsigned char ip[ADDRESS_BYTES], const unsigned char at[4],
		      unsigned char flip, unsigned char ret_inner[ADDRESS_BYTES])
{
	static const unsigned char mapped[ADDRESS_BYTES] = V4(0, 0, 0, 0);

	memcpy(ret_inner, mapped, ADDRESS_BYTES);
	for (size_t i = 0; i < 4; i++)
		ret_inner[12 + i] = ip[at[i]] ^ flip;
}

/* ISATAP puts 5efe before the address in the lower half, below any prefix. */
static bool is_isatap(const unsigned char ip[ADDRESS_BYTES])
{
	return (ip[8] & 0xfd) == 0 && ip[9] == 0 && ip[10] == 0x5e && ip[11] == 0xfe;
}

size_t address_inner(const unsigned char ip[ADDRESS_BYTES],
		     unsigned char ret_inner[ADDRESS_INNER_MAX][ADDRESS_BYTES])
{
	static const unsigned char last[4] = { 12, 13, 14, 15 };
	static const unsigned char zero[ADDRESS_BYTES - 1];
	size_t count = 0;

	/* :: and ::1 would pass for IPv4-compatible ones. */
	if (memcmp(ip, zero, sizeof(zero)) == 0 && ip[15] <= 1)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(embeddings); i++) {
		const struct embedding *e = &embeddings[i];

		if (count < ADDRESS_INNER_MAX && address_has_prefix(ip, e->net, e->prefix))
			put_inner(ip, e->at, e->flip, ret_inner[count++]);
	}
	if (count < ADDRESS_INNER_MAX && is_isatap(ip))
		put_inner(ip, last, 0, ret_inner[count++]);
	return count;
}

static void bare_text(const unsigned char ip[ADDRESS_BYTES], char *text, socklen_t size)
{
	if (address_is_ipv4(ip))
		inet_ntop(AF_INET, ip + 12, text, size);
	else
		inet_ntop(AF_INET6, ip, text, size);
}

void address_text(const struct address *address, char text[static ADDRESS_TEXT_SIZE])
{
	size_t len;

	bare_text(address->ip, text, INET6_ADDRSTRLEN);
	len = strlen(text);
	if (address->scope)
		snprintf(text + len, ADDRESS_TEXT_SIZE - len, "%%%u", address->scope);
}

void address_at_text(const struct address *address, char text[static ADDRESS_AT_TEXT_SIZE])
{
	char bare[INET6_ADDRSTRLEN];

	bare_text(address->ip, bare, sizeof(bare));
	snprintf(text, ADDRESS_AT_TEXT_SIZE, address_is_ipv4(address->ip) ? "%s:%u" : "[%s]:%u",
		 bare, address->port & 0xffff);
}
