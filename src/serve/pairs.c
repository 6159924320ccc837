#include "serve/pairs.h"

#include <string.h>

#include "http/decode.h"

/* What is decoded is never longer. */
static bool decode(char *text)
{
	const struct text encoded = { text, strlen(text) };
	char copy[PAIRS_TEXT_MAX];
	long len = percent_decode(&encoded, true, copy, sizeof(copy));

	if (len < 0)
		return false;
	memcpy(text, copy, (size_t)len + 1);
	return true;
}

bool pairs_read(char text[PAIRS_TEXT_MAX], struct pairs *ret_pairs)
{
	struct pairs pairs = { .count = 0 };
	char *rest = text, *pair;

	if (!decode(text))
		return false;
	while ((pair = strsep(&rest, "&"))) {
		char *equal = strchr(pair, '=');

		if (!*pair)
			continue;
		if (!equal || pairs.count == PAIRS_MAX)
			return false;
		*equal = '\0';
		if (!decode(pair) || !decode(equal + 1))
			return false;
		pairs.items[pairs.count++] = (struct pair){ pair, equal + 1 };
	}
	*ret_pairs = pairs;
	return true;
}
