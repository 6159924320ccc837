/*
 * multipart.h - multipart/form-data (RFC 7578), read as it comes
 *
 * A reader that is pulled: bytes are given, and events come out until they are used up. Nothing of a part's
 * content is kept but what could be the beginning of a boundary; the heads of parts are bounded.
 *
 *	r = multipart_init(&m, content_type);
 *	...
 *	while ((event = multipart_next(&m, &data, &len, &piece)) > 0)
 *		switch (event) {
 *		case MULTIPART_PART: ...m.name, m.filename, m.has_filename
 *		case MULTIPART_DATA: ...piece
 *		case MULTIPART_PART_END: ...
 *		case MULTIPART_END: ...what follows is thrown away
 *		}
 *
 * Who cannot take more stops asking, keeps what is left of data, and goes on with it later.
 */
#ifndef BRIG_HTTP_MULTIPART_H
#define BRIG_HTTP_MULTIPART_H

#include "base/buf.h"
#include "http/head.h"

#define MULTIPART_BOUNDARY 70 /* RFC 2046 */
#define MULTIPART_HEAD     (16 * KIB)
#define MULTIPART_PARTS    1000
#define MULTIPART_NAME     256
#define MULTIPART_FILENAME 4096

enum multipart_event {
	MULTIPART_PART = 1,
	MULTIPART_DATA,
	MULTIPART_PART_END,
	MULTIPART_END,
};

struct multipart {
	char delimiter[4 + MULTIPART_BOUNDARY + 1]; /* with CR, LF and the two dashes before it */
	size_t delimiter_len;
	int state;
	size_t matched; /* bytes of the delimiter that were seen, and are not given yet */
	size_t unreal;  /* and how many of these belong to what is before the content */
	size_t parts;
	struct buf head; /* of the part */
	char name[MULTIPART_NAME];
	char filename
		[MULTIPART_FILENAME]; /* "%22", "%0D" and "%0A" are decoded, as browsers mean it */
	bool has_filename;
	const char *why; /* of a failure */
};

/* content_type: the whole field. -EINVAL: another type, or no boundary that is one. */
[[nodiscard]] int multipart_init(struct multipart *m, const struct text *content_type);
void multipart_done(struct multipart *m);

/*
 * The next event, with *data and *len moved on; 0: all was used. ret_piece: MULTIPART_DATA, good until the next
 * call. -EPROTO, -EMSGSIZE with m->why; then the reader is of no use any more.
 */
[[nodiscard]] int multipart_next(struct multipart *m, const char **data, size_t *len,
				 struct text *ret_piece);
/* At the end of the bytes: -EPROTO unless the last boundary was there. */
[[nodiscard]] int multipart_finish(struct multipart *m);

/* A parameter of a field like Content-Type, Content-Disposition: its length, unquoted; -ENOENT; -EMSGSIZE; -EINVAL. */
[[nodiscard]] long field_parameter(const struct text *value, const char *name, char *ret,
				   size_t size);

#endif
