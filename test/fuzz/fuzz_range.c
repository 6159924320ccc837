/* Conditions and parts, one field a line: whatever they say, what is sent lies in the file. */
#include <stdlib.h>
#include <string.h>

#include "http/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE     1000
#define MODIFIED (784111777ull * 1000000000)

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {
		"Range",    "If-Range",          "If-None-Match",
		"If-Match", "If-Modified-Since", "If-Unmodified-Since"
	};
	static struct head head; /* a large one */
	struct range r;
	uint64_t seconds;
	enum range_verdict verdict;

	head.field_count = 0;
	head.method = METHOD_GET;
	for (size_t at = 0; at < size && head.field_count < ARRAY_SIZE(names);) {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t len = end ? (size_t)(end - data) - at : size - at;
		const char *name = names[head.field_count];

		head.fields[head.field_count++] =
			(struct head_field){ { name, strlen(name) },
					     { (const char *)data + at, len } };
		if (http_date_read(&head.fields[head.field_count - 1].value, &seconds) == 0) {
			char text[HTTP_DATE_SIZE];

			http_date(seconds, text);
			check(strlen(text) == HTTP_DATE_SIZE - 1);
		}
		at += len + 1;
	}
	range_init(&r, SIZE, MODIFIED, MODIFIED + 60000000000ull);
	verdict = range_judge(&r, &head);
	check(verdict == RANGE_WHOLE || verdict == RANGE_PART || verdict == RANGE_UNCHANGED ||
	      verdict == RANGE_CHANGED || verdict == RANGE_NONE);
	check(r.first <= SIZE && r.len <= SIZE - r.first);
	check(verdict != RANGE_PART || (r.len > 0 && r.content_range[0]));
	return 0;
}
