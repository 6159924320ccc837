/*
 * fuzz_dns_query.c - any bytes as a query from inside: what is replied fits, echoes the question and
 * has no record more than it may
 */
#include <stdlib.h>
#include <string.h>

#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void try_reply(const struct dns_query *query, const struct dns_reply *reply, size_t limit)
{
	unsigned char *out = malloc(limit);
	int len;

	require(out);
	len = dns_reply(query, reply, out, limit);
	if (len >= 0) {
		require((size_t)len <= limit && len >= DNS_HEADER);
		require((out[0] << 8 | out[1]) == (int)query->id && out[2] & 0x80 && out[3] & 0x80);
		require(memcmp(out + DNS_HEADER, query->question, query->question_len) == 0);
	}
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char addresses[3][ADDRESS_BYTES] = {
		{ [10] = 0xff, 0xff, 8, 8, 8, 8 },
		{ 0x26, [15] = 1 },
		{ [10] = 0xff, 0xff, 9, 9, 9, 9 }
	};
	struct dns_query query;
	struct address address;
	char name[NAME_SIZE];
	size_t len;

	if (dns_tcp_look(data, size, &len) == 1)
		require(len <= size - 2);
	if (dns_query_parse(data, size, &query) < 0)
		return 0;
	require(query.udp_size >= DNS_UDP_PLAIN && query.udp_size <= DNS_UDP_MAX);
	require(query.question_len <= DNS_QUESTION_MAX);
	if (query.rcode == DNS_NOERROR)
		require(name_read(query.name, strlen(query.name), name, &address) == NAME_HOST &&
			strcmp(name, query.name) == 0 && query.question_len == strlen(name) + 6);
	else
		require(query.name[0] == '\0');
	for (size_t limit = 1; limit <= DNS_REPLY_MAX; limit += 41)
		try_reply(&query, &(struct dns_reply){ query.rcode, addresses, 3, (uint32_t)size },
			  limit);
	return 0;
}
