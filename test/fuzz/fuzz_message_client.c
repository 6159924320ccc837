/*
 * fuzz_message_client.c - any bytes from a client, as the warden hears it
 */
#include "message_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return message_case(FROM_CLIENT, data, size);
}
