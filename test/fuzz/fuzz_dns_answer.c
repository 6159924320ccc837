/*
 * fuzz_dns_answer.c - any bytes as an upstream answer: once as they are, once with the id and the
 * question that were asked put in front, so that the fuzzer need not guess them
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void try_answer(const struct dns_ask *ask, const uint8_t *data, size_t size)
{
	struct dns_answer answer;
	struct dns_ask next;
	int r = dns_answer_parse(ask, data, size, &answer);

	require(r == 0 || r == -EBADMSG || r == -ELOOP);
	if (r < 0)
		return;
	require(answer.count <= DNS_ADDRESSES_MAX && answer.alias_count <= DNS_CHAIN_MAX);
	require((answer.outcome == DNS_FOUND) == (answer.count > 0));
	require(answer.outcome != DNS_FOLLOW || answer.alias_count > 0);
	require(answer.ttl <= 86400);
	for (size_t i = 0; i < answer.count; i++)
		require(ask->type == DNS_AAAA || address_is_ipv4(answer.addresses[i]));
	/* Whatever is to be asked next can be asked. */
	for (size_t i = 0; i < answer.alias_count; i++)
		require(dns_ask_init(&next, 1, answer.alias[i], ask->type, 0) == 0);
}

/* data is the header without its id, then what stands behind the question. */
static void try_with_question(const struct dns_ask *ask, const uint8_t *data, size_t size)
{
	size_t len = size + 2 + ask->question_len;
	uint8_t *message = malloc(len);

	require(message);
	message[0] = (uint8_t)(ask->id >> 8);
	message[1] = (uint8_t)ask->id;
	memcpy(message + 2, data, 10);
	message[2] |= 0x80;
	message[4] = 0;
	message[5] = 1;
	memcpy(message + DNS_HEADER, ask->question, ask->question_len);
	memcpy(message + DNS_HEADER + ask->question_len, data + 10, size - 10);
	try_answer(ask, message, len);
	free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum dns_type types[] = { DNS_A, DNS_AAAA };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct dns_ask ask;

		require(dns_ask_init(&ask, 0x1234, "www.example.com", types[i], 0) == 0);
		try_answer(&ask, data, size);
		if (size >= 10)
			try_with_question(&ask, data, size);
	}
	return 0;
}
