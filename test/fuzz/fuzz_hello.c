/*
 * fuzz_hello.c - any bytes as the first of a connection: an answer does not change with what comes
 * later, "need" never asks for too much, and a name is always one that can be judged
 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "egress/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static struct first_bytes look(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct first_bytes first;

	require(copy);
	memcpy(copy, data, len);
	first_bytes_look(copy, len, &first);
	free(copy);
	return first;
}

static void require_same(const struct first_bytes *a, const struct first_bytes *b)
{
	require(a->kind == b->kind && strcmp(a->name, b->name) == 0 && a->port == b->port &&
		a->is_address == b->is_address && a->has_ech == b->has_ech &&
		memcmp(a->address.ip, b->address.ip, ADDRESS_BYTES) == 0);
}

static void check(const struct first_bytes *first, size_t size)
{
	struct address address;
	char name[NAME_SIZE];

	require((first->kind == FIRST_MORE) == (first->need > size));
	require(first->kind != FIRST_MORE || size < FIRST_BYTES_MAX);
	require((first->kind == FIRST_BAD || first->kind == FIRST_OTHER) == (first->wrong != NULL));
	require(first->kind != FIRST_TLS || first->name[0]);
	require(first->kind != FIRST_HTTP || first->is_address == (first->name[0] == '\0'));
	if (first->name[0])
		require(name_read(first->name, strlen(first->name), name, &address) == NAME_HOST &&
			strcmp(first->name, name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct first_bytes whole = look(data, size), part;
	size_t at = 0, looks = 0;

	check(&whole, size);
	/* As the relay does: a byte at first, then as many as are asked for. */
	do {
		part = look(data, at);
		check(&part, at);
		at = part.need;
		looks++;
	} while (part.kind == FIRST_MORE && at <= size && looks < 4096);
	if (part.kind != FIRST_MORE)
		require_same(&whole, &part);
	else if (looks < 4096)
		require(whole.kind == FIRST_MORE && whole.need == part.need);

	/* A place that depends on all of the data: the fuzzer moves it with any byte. */
	at = 0;
	for (size_t i = 0; i < size; i++)
		at = at * 31 + data[i];
	part = look(data, at % (size + 1));
	if (part.kind != FIRST_MORE)
		require_same(&whole, &part);
	else
		require(part.need <= size || whole.kind == FIRST_MORE);
	return 0;
}
