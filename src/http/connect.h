/*
 * connect.h - the Connect protocol: messages in a stream, and the words for errors
 *
 * A stream is a row of envelopes, in either direction: a byte of flags, the length of the message in four
 * bytes (big-endian), the message. The last one of an answer has CONNECT_END and says how it ended.
 *
 *	connect_reader_init(&r, 1 * MIB);
 *	...
 *	while ((got = connect_read(&r, &data, &len, &message)) > 0)       // as bytes come
 *		take(message.data, message.len);
 *	...
 *	got = connect_finish(&r);                                         // at their end
 *
 * A message that came in one piece is given where it lies; only one that is cut is put together in memory of
 * the reader's, which is bounded.
 */
#ifndef BRIG_HTTP_CONNECT_H
#define BRIG_HTTP_CONNECT_H

#include "base/buf.h"
#include "http/head.h"

#define CONNECT_HEAD 5

enum connect_flag { CONNECT_COMPRESSED = 1, CONNECT_END = 2 };

struct connect_reader {
	size_t max; /* bytes of one message */
	unsigned char head[CONNECT_HEAD];
	size_t head_len; /* bytes of it that came */
	struct buf message;
	bool is_given; /* message was handed out whole */
};

void connect_reader_init(struct connect_reader *r, size_t max);
void connect_reader_done(struct connect_reader *r);

/*
 * Moves *data and *len on. 1 with a message, which is good until the next call and as long as data is; 0: all
 * was used. -EMSGSIZE: a message longer than max; -EPROTO: flags that a client cannot send (compression was
 * never agreed on).
 */
[[nodiscard]] int connect_read(struct connect_reader *r, const char **data, size_t *len,
			       struct text *ret_message);
[[nodiscard]] int connect_finish(const struct connect_reader *r); /* -EPROTO: in the midst of one */

void connect_head(unsigned int flags, size_t len, unsigned char ret[static CONNECT_HEAD]);
[[nodiscard]] int connect_frame(struct buf *buf, unsigned int flags, const void *data, size_t len);

/* Codes, in the order of their numbers elsewhere; 0 is no error. */
enum connect_code {
	CONNECT_OK,
	CONNECT_CANCELED,
	CONNECT_UNKNOWN,
	CONNECT_INVALID_ARGUMENT,
	CONNECT_DEADLINE_EXCEEDED,
	CONNECT_NOT_FOUND,
	CONNECT_ALREADY_EXISTS,
	CONNECT_PERMISSION_DENIED,
	CONNECT_RESOURCE_EXHAUSTED,
	CONNECT_FAILED_PRECONDITION,
	CONNECT_ABORTED,
	CONNECT_OUT_OF_RANGE,
	CONNECT_UNIMPLEMENTED,
	CONNECT_INTERNAL,
	CONNECT_UNAVAILABLE,
	CONNECT_DATA_LOSS,
	CONNECT_UNAUTHENTICATED,
	CONNECT_CODE_COUNT
};

const char *connect_name(enum connect_code code); /* "not_found" */
unsigned int connect_status(enum connect_code code);
enum connect_code connect_of_status(unsigned int status); /* any status from 400 on */
enum connect_code connect_of_errno(int code);             /* -errno, as a call for files gives it */

/* {"code":"not_found","message":"..."}: the body of an answer that is no stream. */
[[nodiscard]] int connect_error(struct buf *buf, enum connect_code code, const char *message);
/* The last envelope of a stream; CONNECT_OK: it ended well. */
[[nodiscard]] int connect_end(struct buf *buf, enum connect_code code, const char *message);

#endif
