#include "http/chunked.h"

#include <errno.h>

#include "http/bytes.h"

/* Each is what may come next. */
enum state {
	SIZE, /* a digit; after one also the rest of its line */
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER,       /* the first byte of a line */
	TRAILER_NAME,  /* more of a name, or its colon */
	TRAILER_VALUE, /* or the end of the line */
	TRAILER_LF,
	LAST_LF,
};

#define DIGITS_MAX 15 /* of a size: it cannot overflow */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int take_size(struct chunked *k, char c)
{
	int digit = hex_digit(c);

	if (digit >= 0) {
		if (++k->digits > DIGITS_MAX)
			return -EMSGSIZE;
		k->left = k->left << 4 | (unsigned int)digit;
		return 0;
	}
	if (k->digits == 0 || (c != ';' && c != '\r'))
		return -EPROTO;
	k->state = c == ';' ? EXTENSION : SIZE_LF;
	return 0;
}

static int take_extra(struct chunked *k, char c, unsigned int at_end)
{
	if (c == '\r')
		k->state = at_end;
	else if (!byte_is(c, BYTE_VALUE))
		return -EPROTO;
	return ++k->extra > CHUNKED_EXTRA_MAX ? -EMSGSIZE : 0;
}

static int take_trailer(struct chunked *k, char c)
{
	if (c == '\r' && k->state == TRAILER) {
		k->state = LAST_LF;
		return 0;
	}
	if (c == ':' && k->state == TRAILER_NAME)
		k->state = TRAILER_VALUE;
	else if (byte_is(c, BYTE_TOKEN))
		k->state = TRAILER_NAME;
	else
		return -EPROTO;
	return ++k->extra > CHUNKED_EXTRA_MAX ? -EMSGSIZE : 0;
}

static int expect(struct chunked *k, char c, char wanted, unsigned int next)
{
	if (c != wanted)
		return -EPROTO;
	k->state = next;
	return 0;
}

static int take_byte(struct chunked *k, char c)
{
	int r;

	switch ((enum state)k->state) {
	case SIZE:
		return take_size(k, c);
	case EXTENSION:
		return take_extra(k, c, SIZE_LF);
	case SIZE_LF:
		r = expect(k, c, '\n', k->left > 0 ? DATA : TRAILER);
		k->digits = 0;
		return r;
	case DATA_CR:
		return expect(k, c, '\r', DATA_LF);
	case DATA_LF:
		return expect(k, c, '\n', SIZE);
	case TRAILER:
	case TRAILER_NAME:
		return take_trailer(k, c);
	case TRAILER_VALUE:
		return take_extra(k, c, TRAILER_LF);
	case TRAILER_LF:
		return expect(k, c, '\n', TRAILER);
	case LAST_LF:
		k->is_done = true;
		return expect(k, c, '\n', LAST_LF);
	case DATA:
		break;
	}
	return -EPROTO;
}

long chunked_take(struct chunked *k, const char *data, size_t len, struct text *ret_piece)
{
	size_t used = 0;

	*ret_piece = (struct text){ data, 0 };
	while (used < len && !k->is_done) {
		int r;

		if (k->state == DATA) {
			size_t part = MIN(k->left, len - used);

			*ret_piece = (struct text){ data + used, part };
			k->left -= part;
			if (k->left == 0)
				k->state = DATA_CR;
			return (long)(used + part);
		}
		r = take_byte(k, data[used++]);
		if (r < 0)
			return r;
	}
	return (long)used;
}
