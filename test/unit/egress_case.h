/* egress_case.h - addresses out of text, for the tests of egress/ */
#ifndef BRIG_TEST_EGRESS_CASE_H
#define BRIG_TEST_EGRESS_CASE_H

#include "unit.h"

#include <arpa/inet.h>

#include "egress/address.h"

static inline struct address case_address(const char *text, unsigned int port)
{
	struct address address = { .port = port };
	unsigned char v4[4];

	if (inet_pton(AF_INET, text, v4) == 1)
		address_from_ipv4(v4, port, &address);
	else if (inet_pton(AF_INET6, text, address.ip) != 1)
		fail_msg("not an address: %s", text);
	return address;
}

#endif
