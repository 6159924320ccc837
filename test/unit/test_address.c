#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/macro.h"
#include "egress_case.h"

static enum address_class class_of(const char *text)
{
	return address_classify(case_address(text, 0).ip, NULL);
}

static void assert_class(const char *text, enum address_class class)
{
	if (class_of(text) != class)
		fail_msg("%s is \"%s\", not \"%s\"", text, address_class_names[class_of(text)],
			 address_class_names[class]);
}

/* One above or below, over all 128 bits. */
static void step(unsigned char ip[ADDRESS_BYTES], int by)
{
	for (int i = ADDRESS_BYTES - 1; i >= 0; i--) {
		ip[i] = (unsigned char)(ip[i] + by);
		if (ip[i] != (by > 0 ? 0 : 0xff))
			return;
	}
}

/* The first and the last address of every special range, and the neighbours outside. */
static void ranges_have_edges(void **state)
{
	static const struct {
		const char *first, *last;
		enum address_class class, before, after;
	} rows[] = {
		{ "0.0.0.0", "0.255.255.255", ADDRESS_UNSPECIFIED, ADDRESS_RESERVED,
		  ADDRESS_PUBLIC },
		{ "10.0.0.0", "10.255.255.255", ADDRESS_PRIVATE, ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "100.64.0.0", "100.127.255.255", ADDRESS_SHARED, ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "127.0.0.0", "127.255.255.255", ADDRESS_LOOPBACK, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "169.254.0.0", "169.254.255.255", ADDRESS_LINK_LOCAL, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "172.16.0.0", "172.31.255.255", ADDRESS_PRIVATE, ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "192.0.0.0", "192.0.0.255", ADDRESS_RESERVED, ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "192.0.2.0", "192.0.2.255", ADDRESS_DOCUMENTATION, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "192.31.196.0", "192.31.196.255", ADDRESS_RESERVED, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "192.52.193.0", "192.52.193.255", ADDRESS_RESERVED, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "192.88.99.0", "192.88.99.255", ADDRESS_TRANSLATION, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "192.168.0.0", "192.168.255.255", ADDRESS_PRIVATE, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "192.175.48.0", "192.175.48.255", ADDRESS_RESERVED, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "198.18.0.0", "198.19.255.255", ADDRESS_BENCHMARK, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "198.51.100.0", "198.51.100.255", ADDRESS_DOCUMENTATION, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "203.0.113.0", "203.0.113.255", ADDRESS_DOCUMENTATION, ADDRESS_PUBLIC,
		  ADDRESS_PUBLIC },
		{ "224.0.0.0", "239.255.255.255", ADDRESS_MULTICAST, ADDRESS_PUBLIC,
		  ADDRESS_RESERVED },
		{ "240.0.0.0", "255.255.255.254", ADDRESS_RESERVED, ADDRESS_MULTICAST,
		  ADDRESS_BROADCAST },
		{ "255.255.255.255", "255.255.255.255", ADDRESS_BROADCAST, ADDRESS_RESERVED,
		  ADDRESS_RESERVED },

		{ "::1", "::1", ADDRESS_LOOPBACK, ADDRESS_UNSPECIFIED, ADDRESS_UNSPECIFIED },
		{ "::808:808", "::808:808", ADDRESS_TRANSLATION, ADDRESS_TRANSLATION,
		  ADDRESS_TRANSLATION },
		{ "64:ff9b:1::", "64:ff9b:1::", ADDRESS_UNSPECIFIED, ADDRESS_RESERVED,
		  ADDRESS_UNSPECIFIED },
		{ "64:ff9b:2::", "64:ff9b:2::", ADDRESS_RESERVED, ADDRESS_BROADCAST,
		  ADDRESS_RESERVED },
		{ "100::", "100::ffff:ffff:ffff:ffff", ADDRESS_RESERVED, ADDRESS_RESERVED,
		  ADDRESS_RESERVED },
		{ "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", ADDRESS_BENCHMARK,
		  ADDRESS_RESERVED, ADDRESS_RESERVED },
		{ "2001:1::", "2001:1:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_RESERVED,
		  ADDRESS_UNSPECIFIED, ADDRESS_BENCHMARK },
		{ "2001:3::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_RESERVED,
		  ADDRESS_RESERVED, ADDRESS_PUBLIC },
		{ "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_DOCUMENTATION,
		  ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", ADDRESS_RESERVED,
		  ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_DOCUMENTATION,
		  ADDRESS_PUBLIC, ADDRESS_PUBLIC },
		{ "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_RESERVED,
		  ADDRESS_RESERVED, ADDRESS_RESERVED },
		{ "4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_RESERVED,
		  ADDRESS_PUBLIC, ADDRESS_PRIVATE },
		{ "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_PRIVATE,
		  ADDRESS_RESERVED, ADDRESS_RESERVED },
		{ "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_LINK_LOCAL,
		  ADDRESS_RESERVED, ADDRESS_PRIVATE },
		{ "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_PRIVATE,
		  ADDRESS_LINK_LOCAL, ADDRESS_MULTICAST },
		{ "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_MULTICAST,
		  ADDRESS_PRIVATE, ADDRESS_UNSPECIFIED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct address before = case_address(rows[i].first, 0);
		struct address after = case_address(rows[i].last, 0);

		assert_class(rows[i].first, rows[i].class);
		assert_class(rows[i].last, rows[i].class);
		step(before.ip, -1);
		step(after.ip, 1);
		if (address_classify(before.ip, NULL) != rows[i].before ||
		    address_classify(after.ip, NULL) != rows[i].after)
			fail_msg("the neighbours of %s to %s", rows[i].first, rows[i].last);
	}
}

static void metadata_endpoints(void **state)
{
	static const char *const endpoints[] = {
		"169.254.169.254", "169.254.170.2",      "169.254.170.23",  "168.63.129.16",
		"100.100.100.200", "192.0.0.192",        "169.254.0.23",    "fd00:ec2::254",
		"fd00:ec2::23",    "fe80::a9fe:a9fe",    "fd20:ce::254",    "169.254.42.42",
		"100.96.0.96",     "fd00:c1::a9fe:a9fe", "169.254.169.252",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++)
		assert_class(endpoints[i], ADDRESS_METADATA);
	assert_class("169.254.169.253", ADDRESS_LINK_LOCAL);
	assert_class("168.63.129.17", ADDRESS_PUBLIC);
	assert_class("100.100.100.201", ADDRESS_SHARED);
	assert_class("fd00:ec2::253", ADDRESS_PRIVATE);
}

/* The strictest of the outer address and of every inner one. */
static void embeddings(void **state)
{
	static const struct {
		const char *text;
		enum address_class class;
	} rows[] = {
		{ "::ffff:127.0.0.1", ADDRESS_LOOPBACK },
		{ "::ffff:8.8.8.8", ADDRESS_PUBLIC },
		{ "::127.0.0.1", ADDRESS_LOOPBACK },
		{ "::169.254.169.254", ADDRESS_METADATA },
		{ "::ffff:0:169.254.169.254", ADDRESS_METADATA },
		{ "::ffff:0:8.8.8.8", ADDRESS_TRANSLATION },
		{ "2002:a9fe:a9fe::", ADDRESS_METADATA },
		{ "2002:7f00:1::1", ADDRESS_LOOPBACK },
		{ "2002:808:808::1", ADDRESS_TRANSLATION },
		{ "2002:a00:1::1", ADDRESS_PRIVATE },
		{ "64:ff9b::169.254.169.254", ADDRESS_METADATA },
		{ "64:ff9b::10.0.0.1", ADDRESS_PRIVATE },
		{ "64:ff9b::8.8.8.8", ADDRESS_PUBLIC },
		{ "64:ff9b:0:0:0:1:808:808", ADDRESS_RESERVED },
		/* RFC 6052: prefixes of 48, 56, 64 and 96 bits */
		{ "64:ff9b:1:a9fe:a9:fe08:808:808", ADDRESS_METADATA },
		{ "64:ff9b:1:8a9:fe:a9fe:808:808", ADDRESS_METADATA },
		{ "64:ff9b:1:808:a9:fea9:fe08:808", ADDRESS_METADATA },
		{ "64:ff9b:1:808:8:808:a9fe:a9fe", ADDRESS_METADATA },
		{ "64:ff9b:1:808:8:808:808:808", ADDRESS_TRANSLATION },
		/* Teredo: the server, and the client with its bits turned */
		{ "2001:0:a9fe:a9fe::f7f7:f7f7", ADDRESS_METADATA },
		{ "2001:0:808:808::5601:5601", ADDRESS_METADATA },
		{ "2001:0:808:808::80ff:fffe", ADDRESS_LOOPBACK },
		{ "2001:0:808:808::f7f7:f7f7", ADDRESS_TRANSLATION },
		/* ISATAP below any prefix */
		{ "fe80::5efe:127.0.0.1", ADDRESS_LOOPBACK },
		{ "2600::5efe:10.0.0.1", ADDRESS_PRIVATE },
		{ "2600::200:5efe:169.254.169.254", ADDRESS_METADATA },
		{ "2600::5efe:8.8.8.8", ADDRESS_PUBLIC },
		{ "2600::1:5efe:10.0.0.1", ADDRESS_PUBLIC },
		{ "2606:4700::1111", ADDRESS_PUBLIC },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_class(rows[i].text, rows[i].class);
}

static void own_addresses(void **state)
{
	unsigned char items[2][ADDRESS_BYTES];
	const struct address_list own = { (const unsigned char(*)[ADDRESS_BYTES])items, 2 };
	static const char *const spellings[] = { "8.8.4.4", "2600::7", "64:ff9b::8.8.4.4",
						 "2002:808:404::", "::ffff:8.8.4.4" };

	(void)state;
	memcpy(items[0], case_address("8.8.4.4", 0).ip, ADDRESS_BYTES);
	memcpy(items[1], case_address("2600::7", 0).ip, ADDRESS_BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		assert_int_equal(address_classify(case_address(spellings[i], 0).ip, &own),
				 ADDRESS_OWN);
	assert_int_equal(address_classify(case_address("8.8.4.5", 0).ip, &own), ADDRESS_PUBLIC);
	assert_int_equal(address_classify(case_address("169.254.169.254", 0).ip, &own),
			 ADDRESS_METADATA);
}

/* From a copy of just that size, so that reading beyond it is seen. */
static int read_exactly(const void *data, size_t len, struct address *ret_address)
{
	void *copy = malloc(len ? len : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, data, len);
	r = address_from_sockaddr(copy, len, ret_address);
	free(copy);
	return r;
}

static void socket_addresses(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(443),
				  .sin_addr.s_addr = htonl(0x01020304) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(80),
				   .sin6_scope_id = 7 };
	struct address address = { .port = 9 };
	struct sockaddr_storage back;
	char text[ADDRESS_TEXT_SIZE];

	(void)state;
	for (size_t len = 0; len < sizeof(v4); len++)
		assert_int_equal(read_exactly(&v4, len, &address), -EINVAL);
	assert_int_equal(address.port, 9);
	assert_int_equal(read_exactly(&v4, sizeof(v4), &address), 0);
	assert_int_equal(address.port, 443);
	address_text(&address, text);
	assert_string_equal(text, "1.2.3.4");
	assert_int_equal(address_to_sockaddr(&address, &back), sizeof(v4));
	assert_memory_equal(&back, &v4, sizeof(v4));

	/* The kernel takes an address without its scope, and one that is too long. */
	inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr);
	assert_int_equal(read_exactly(&v6, 23, &address), -EINVAL);
	assert_int_equal(read_exactly(&v6, 24, &address), 0);
	assert_int_equal(address.scope, 0);
	assert_int_equal(read_exactly(&v6, 26, &address), 0);
	assert_int_equal(address.scope, 0);
	assert_int_equal(read_exactly(&v6, sizeof(v6), &address), 0);
	assert_int_equal(address.scope, 7);
	address_text(&address, text);
	assert_string_equal(text, "fe80::1%7");
	assert_int_equal(address_to_sockaddr(&address, &back), sizeof(v6));
	assert_memory_equal(&back, &v6, sizeof(v6));
	memset(&back, 0, sizeof(back));
	memcpy(&back, &v6, sizeof(v6));
	assert_int_equal(read_exactly(&back, sizeof(back), &address), 0);

	/* Elsewhere a scope means nothing, and must not tell two spellings apart. */
	inet_pton(AF_INET6, "::ffff:1.2.3.4", &v6.sin6_addr);
	assert_int_equal(read_exactly(&v6, sizeof(v6), &address), 0);
	assert_int_equal(address.scope, 0);
	assert_true(address_is_ipv4(address.ip));
	assert_int_equal(address_to_sockaddr(&address, &back), sizeof(v4));

	v4.sin_family = AF_UNSPEC;
	assert_int_equal(read_exactly(&v4, sizeof(v4), &address), -EAFNOSUPPORT);
	v4.sin_family = 0xffff;
	assert_int_equal(read_exactly(&v4, sizeof(v4), &address), -EAFNOSUPPORT);
}

static void texts(void **state)
{
	char text[ADDRESS_AT_TEXT_SIZE];
	struct address address = case_address("2001:db8::1", 65535);

	(void)state;
	address_at_text(&address, text);
	assert_string_equal(text, "[2001:db8::1]:65535");
	address = case_address("255.255.255.255", 1);
	address_at_text(&address, text);
	assert_string_equal(text, "255.255.255.255:1");
	address = case_address("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", 1);
	address.scope = UINT32_MAX;
	address_text(&address, text);
	assert_string_equal(text, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295");
}

static void prefixes(void **state)
{
	struct address a = case_address("10.1.2.3", 0), b = case_address("10.1.2.2", 0);

	(void)state;
	assert_true(address_has_prefix(a.ip, b.ip, 0));
	assert_true(address_has_prefix(a.ip, b.ip, 127));
	assert_false(address_has_prefix(a.ip, b.ip, 128));
	assert_false(address_has_prefix(a.ip, a.ip, 129));
	assert_int_equal(address_range_prefix(a.ip), 96 + 8);
	assert_int_equal(address_range_prefix(case_address("64:ff9b::10.0.0.1", 0).ip), 0);
	assert_int_equal(address_range_prefix(case_address("4000::1", 0).ip), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_have_edges), cmocka_unit_test(metadata_endpoints),
		cmocka_unit_test(embeddings),        cmocka_unit_test(own_addresses),
		cmocka_unit_test(socket_addresses),  cmocka_unit_test(texts),
		cmocka_unit_test(prefixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
