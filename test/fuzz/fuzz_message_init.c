/*
 * fuzz_message_init.c - any bytes from init, as the warden hears it
 */
#include "message_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return message_case(FROM_INIT, data, size);
}
