/* A filter by metadata: what is found lies in the text, and is a C string of it. */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "serve/pairs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[PAIRS_TEXT_MAX];
	struct pairs pairs;

	if (size >= sizeof(text) || memchr(data, 0, size))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (!pairs_read(text, &pairs))
		return 0;
	check(pairs.count <= PAIRS_MAX);
	for (size_t i = 0; i < pairs.count; i++) {
		check(pairs.items[i].key >= text && pairs.items[i].key < text + size);
		check(pairs.items[i].value > pairs.items[i].key &&
		      pairs.items[i].value <= text + size);
		check(pairs.items[i].value + strlen(pairs.items[i].value) <= text + size);
	}
	return 0;
}
