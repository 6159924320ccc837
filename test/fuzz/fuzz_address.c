/*
 * fuzz_address.c - any bytes as a socket address and as a name: reading, classing and writing agree
 * with each other, and no name is an address to the C library
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "egress/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void try_sockaddr(const uint8_t *data, size_t size)
{
	unsigned char inner[ADDRESS_INNER_MAX][ADDRESS_BYTES], back[ADDRESS_BYTES];
	struct address address, again;
	struct sockaddr_storage storage;
	char text[ADDRESS_TEXT_SIZE], at[ADDRESS_AT_TEXT_SIZE];
	enum address_class class;
	size_t count;

	if (address_from_sockaddr(data, size, &address) < 0)
		return;
	require(address_from_sockaddr(&storage, address_to_sockaddr(&address, &storage), &again) ==
		0);
	require(memcmp(address.ip, again.ip, ADDRESS_BYTES) == 0 && address.port == again.port &&
		address.scope == again.scope);

	class = address_classify(address.ip, NULL);
	require(class < ADDRESS_CLASS_COUNT && address_class_names[class]);
	count = address_inner(address.ip, inner);
	require(count <= ADDRESS_INNER_MAX);
	for (size_t i = 0; i < count; i++)
		require(address_is_ipv4(inner[i]) && class >= address_classify(inner[i], NULL));

	address_at_text(&address, at);
	address.scope = 0;
	address_text(&address, text);
	if (!address_is_ipv4(address.ip))
		require(inet_pton(AF_INET6, text, back) == 1 &&
			memcmp(back, address.ip, ADDRESS_BYTES) == 0);
	else
		require(inet_pton(AF_INET, text, back) == 1 &&
			memcmp(back, address.ip + 12, 4) == 0);
}

static void try_name(const char *text, size_t len)
{
	char name[NAME_SIZE], again[NAME_SIZE];
	struct address address;
	struct in_addr v4;

	if (name_read(text, len, name, &address) != NAME_HOST)
		return;
	require(strlen(name) > 0 && strlen(name) < NAME_SIZE);
	require(name_read(name, strlen(name), again, &address) == NAME_HOST);
	require(strcmp(name, again) == 0);
	require(inet_aton(name, &v4) == 0);
	require(name_classify(name) < ADDRESS_CLASS_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_sockaddr(data, size);
	try_name((const char *)data, size);
	return 0;
}
