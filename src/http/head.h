/*
 * head.h - the head of an HTTP/1.1 request or response, strictly
 *
 * A head that two programs could read in two ways is refused: bare LF, white space before a colon or
 * around a folded line, a name or value with odd bytes, two lengths, a length and a coding, a coding other
 * than chunked, a missing or doubled Host, a target that is not one, HTTP/1.0 with a coding, a version of
 * another kind. So a request that came through brig means to the next program what it meant to brig.
 *
 * Everything in a head points into the text that was given, which therefore stays until the head is done
 * with. Names are compared without regard to case.
 */
#ifndef BRIG_HTTP_HEAD_H
#define BRIG_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

#define HEAD_MAX    (32 * KIB) /* bytes of a head, with its first line */
#define HEAD_FIELDS 100
#define HEAD_TARGET (16 * KIB)

struct text { /* not terminated */
	const char *data;
	size_t len;
};

enum method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_PATCH,
	METHOD_DELETE,
	METHOD_OPTIONS,
	METHOD_OTHER,
	METHOD_COUNT
};
extern const char *const method_names[METHOD_COUNT];

enum framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_UNTIL_END };

struct head {
	enum method method; /* of a request */
	struct text method_text, target;
	struct text path, query; /* of the target, as they came (encoded); query without '?' */
	unsigned int status;     /* of a response */
	unsigned int minor;      /* HTTP/1.minor */
	struct head_field {
		struct text name, value;
	} fields[HEAD_FIELDS];
	size_t field_count;
	enum framing framing;
	uint64_t length;  /* FRAMING_LENGTH */
	bool keep_alive;  /* what version and Connection say */
	bool upgrade;     /* Connection: upgrade, and an Upgrade field */
	bool expects;     /* Expect: 100-continue */
	struct text host; /* of a request: without the port */
};

/*
 * How long the head at the beginning of data is, with the empty line behind it: 0 when it is not whole yet;
 * -EMSGSIZE, -ENAMETOOLONG (of the first line), -EPROTO, with a few words, when it never will be.
 */
[[nodiscard]] long head_measure(const char *data, size_t len, const char **ret_why);

/* A whole head. -EPROTO, -EMSGSIZE, -ENAMETOOLONG (target), -ENOTSUP (version), -ENOSYS (coding), with words. */
[[nodiscard]] int head_parse_request(const char *data, size_t len, struct head *ret_head,
				     const char **ret_why);
/* is_for_head: the answer to HEAD has no body whatever it says. */
[[nodiscard]] int head_parse_response(const char *data, size_t len, bool is_for_head,
				      struct head *ret_head, const char **ret_why);

/* The value of the first field of this name; NULL when there is none. */
const struct text *head_find(const struct head *head, const char *name);
bool text_is(const struct text *text, const char *other); /* exact; a NULL text is nothing */
bool text_is_nocase(const struct text *text, const char *other);

#endif
