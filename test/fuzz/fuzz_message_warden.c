/*
 * fuzz_message_warden.c - any bytes from the warden, as init hears it (and a client)
 */
#include "message_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return message_case(FROM_WARDEN, data, size);
}
