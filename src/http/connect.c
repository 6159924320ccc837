#include "http/connect.h"

#include <errno.h>
#include <string.h>

#include "data/node.h"

void connect_reader_init(struct connect_reader *r, size_t max)
{
	*r = (struct connect_reader){ .max = max, .message = BUF(max) };
}

void connect_reader_done(struct connect_reader *r)
{
	buf_done(&r->message);
}

static uint32_t length_of(const unsigned char head[static CONNECT_HEAD])
{
	return (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
}

/* 1: the head is there, and allowed. */
static int read_head(struct connect_reader *r, const char **data, size_t *len)
{
	size_t n = MIN(CONNECT_HEAD - r->head_len, *len);

	if (n > 0)
		memcpy(r->head + r->head_len, *data, n);
	r->head_len += n;
	*data += n;
	*len -= n;
	if (r->head_len > 0 && r->head[0] != 0)
		return -EPROTO;
	if (r->head_len < CONNECT_HEAD)
		return 0;
	return length_of(r->head) > r->max ? -EMSGSIZE : 1;
}

static void advance(const char **data, size_t *len, size_t n)
{
	*data += n;
	*len -= n;
}

int connect_read(struct connect_reader *r, const char **data, size_t *len, struct text *ret_message)
{
	size_t size, missing;
	int code;

	if (r->is_given) {
		buf_reset(&r->message);
		r->is_given = false;
	}
	code = read_head(r, data, len);
	if (code <= 0)
		return code;
	size = length_of(r->head);
	missing = size - r->message.len;
	if (*len < missing) {
		code = buf_add(&r->message, *data, *len);
		advance(data, len, *len);
		return code;
	}
	if (r->message.len == 0) {
		*ret_message = (struct text){ *data, size };
	} else {
		code = buf_add(&r->message, *data, missing);
		if (code < 0)
			return code;
		*ret_message = (struct text){ r->message.data, size };
		r->is_given = true;
	}
	advance(data, len, missing);
	r->head_len = 0;
	return 1;
}

int connect_finish(const struct connect_reader *r)
{
	return r->head_len > 0 ? -EPROTO : 0;
}

void connect_head(unsigned int flags, size_t len, unsigned char ret[static CONNECT_HEAD])
{
	ret[0] = (unsigned char)flags;
	ret[1] = (unsigned char)(len >> 24);
	ret[2] = (unsigned char)(len >> 16);
	ret[3] = (unsigned char)(len >> 8);
	ret[4] = (unsigned char)len;
}

int connect_frame(struct buf *buf, unsigned int flags, const void *data, size_t len)
{
	unsigned char head[CONNECT_HEAD];

	if (len > UINT32_MAX)
		return -EMSGSIZE;
	connect_head(flags, len, head);
	buf_add(buf, head, sizeof(head));
	buf_add(buf, data, len);
	return buf_failed(buf);
}

static const struct {
	const char *name;
	unsigned int status;
} codes[CONNECT_CODE_COUNT] = {
	[CONNECT_OK] = { "ok", 200 },
	[CONNECT_CANCELED] = { "canceled", 499 },
	[CONNECT_UNKNOWN] = { "unknown", 500 },
	[CONNECT_INVALID_ARGUMENT] = { "invalid_argument", 400 },
	[CONNECT_DEADLINE_EXCEEDED] = { "deadline_exceeded", 504 },
	[CONNECT_NOT_FOUND] = { "not_found", 404 },
	[CONNECT_ALREADY_EXISTS] = { "already_exists", 409 },
	[CONNECT_PERMISSION_DENIED] = { "permission_denied", 403 },
	[CONNECT_RESOURCE_EXHAUSTED] = { "resource_exhausted", 429 },
	[CONNECT_FAILED_PRECONDITION] = { "failed_precondition", 400 },
	[CONNECT_ABORTED] = { "aborted", 409 },
	[CONNECT_OUT_OF_RANGE] = { "out_of_range", 400 },
	[CONNECT_UNIMPLEMENTED] = { "unimplemented", 501 },
	[CONNECT_INTERNAL] = { "internal", 500 },
	[CONNECT_UNAVAILABLE] = { "unavailable", 503 },
	[CONNECT_DATA_LOSS] = { "data_loss", 500 },
	[CONNECT_UNAUTHENTICATED] = { "unauthenticated", 401 },
};

const char *connect_name(enum connect_code code)
{
	return codes[code < CONNECT_CODE_COUNT ? code : CONNECT_UNKNOWN].name;
}

unsigned int connect_status(enum connect_code code)
{
	return codes[code < CONNECT_CODE_COUNT ? code : CONNECT_UNKNOWN].status;
}

/* Where several codes have one status, and for statuses that no code has. */
static const struct {
	unsigned int status;
	enum connect_code code;
} statuses[] = {
	{ 400, CONNECT_INVALID_ARGUMENT },   { 401, CONNECT_UNAUTHENTICATED },
	{ 403, CONNECT_PERMISSION_DENIED },  { 404, CONNECT_NOT_FOUND },
	{ 405, CONNECT_UNIMPLEMENTED },      { 408, CONNECT_DEADLINE_EXCEEDED },
	{ 409, CONNECT_ALREADY_EXISTS },     { 412, CONNECT_FAILED_PRECONDITION },
	{ 413, CONNECT_RESOURCE_EXHAUSTED }, { 415, CONNECT_UNIMPLEMENTED },
	{ 422, CONNECT_INVALID_ARGUMENT },   { 429, CONNECT_RESOURCE_EXHAUSTED },
	{ 431, CONNECT_RESOURCE_EXHAUSTED }, { 499, CONNECT_CANCELED },
	{ 500, CONNECT_INTERNAL },           { 501, CONNECT_UNIMPLEMENTED },
	{ 502, CONNECT_UNAVAILABLE },        { 503, CONNECT_UNAVAILABLE },
	{ 504, CONNECT_DEADLINE_EXCEEDED },  { 507, CONNECT_RESOURCE_EXHAUSTED },
};

enum connect_code connect_of_status(unsigned int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].code;
	return status < 500 ? CONNECT_INVALID_ARGUMENT : CONNECT_UNKNOWN;
}

static const struct {
	int code;
	enum connect_code meaning;
} errnos[] = {
	{ ENOENT, CONNECT_NOT_FOUND },
	{ ENXIO, CONNECT_NOT_FOUND },
	{ ESRCH, CONNECT_UNAVAILABLE },
	{ EPIPE, CONNECT_UNAVAILABLE },
	{ EEXIST, CONNECT_ALREADY_EXISTS },
	{ EACCES, CONNECT_PERMISSION_DENIED },
	{ EPERM, CONNECT_PERMISSION_DENIED },
	{ EROFS, CONNECT_PERMISSION_DENIED },
	{ EINVAL, CONNECT_INVALID_ARGUMENT },
	{ ENOTDIR, CONNECT_INVALID_ARGUMENT },
	{ EISDIR, CONNECT_INVALID_ARGUMENT },
	{ ENAMETOOLONG, CONNECT_INVALID_ARGUMENT },
	{ ELOOP, CONNECT_INVALID_ARGUMENT },
	{ EXDEV, CONNECT_INVALID_ARGUMENT },
	{ EMSGSIZE, CONNECT_INVALID_ARGUMENT },
	{ EPROTO, CONNECT_INVALID_ARGUMENT },
	{ EBADF, CONNECT_INVALID_ARGUMENT },
	{ ENOTEMPTY, CONNECT_FAILED_PRECONDITION },
	{ EBUSY, CONNECT_FAILED_PRECONDITION },
	{ ETXTBSY, CONNECT_FAILED_PRECONDITION },
	{ ENOSPC, CONNECT_RESOURCE_EXHAUSTED },
	{ EDQUOT, CONNECT_RESOURCE_EXHAUSTED },
	{ EFBIG, CONNECT_RESOURCE_EXHAUSTED },
	{ E2BIG, CONNECT_RESOURCE_EXHAUSTED },
	{ EAGAIN, CONNECT_RESOURCE_EXHAUSTED },
	{ ENOBUFS, CONNECT_RESOURCE_EXHAUSTED },
	{ EMFILE, CONNECT_RESOURCE_EXHAUSTED },
	{ ENFILE, CONNECT_RESOURCE_EXHAUSTED },
	{ ENOMEM, CONNECT_RESOURCE_EXHAUSTED },
	{ ETOOMANYREFS, CONNECT_RESOURCE_EXHAUSTED },
	{ ETIMEDOUT, CONNECT_DEADLINE_EXCEEDED },
	{ ECANCELED, CONNECT_CANCELED },
	{ EOPNOTSUPP, CONNECT_UNIMPLEMENTED },
	{ ENOSYS, CONNECT_UNIMPLEMENTED },
};

enum connect_code connect_of_errno(int code)
{
	if (code == 0)
		return CONNECT_OK;
	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++)
		if (errnos[i].code == -code)
			return errnos[i].meaning;
	return CONNECT_INTERNAL;
}

int connect_error(struct buf *buf, enum connect_code code, const char *message)
{
	buf_printf(buf, "{\"code\":\"%s\",\"message\":", connect_name(code));
	(void)!json_write_string(message, strlen(message), buf);
	buf_char(buf, '}');
	return buf_failed(buf);
}

int connect_end(struct buf *buf, enum connect_code code, const char *message)
{
	_cleanup_(buf_done) struct buf body = BUF(64 * KIB);
	int r;

	buf_char(&body, '{');
	if (code != CONNECT_OK) {
		buf_str(&body, "\"error\":");
		(void)!connect_error(&body, code, message);
	}
	buf_char(&body, '}');
	r = buf_failed(&body);
	return r < 0 ? r : connect_frame(buf, CONNECT_END, body.data, body.len);
}
