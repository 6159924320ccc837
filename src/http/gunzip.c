#include "http/gunzip.h"

#include <errno.h>
#include <stdlib.h>

#define ZLIB_CONST
#include <zlib.h>

#define PIECE       (128 * KIB)
#define GZIP_WINDOW (15 + 16) /* the largest window, and a gzip head */

struct gunzip {
	z_stream stream;
	bool is_whole; /* the last member has ended */
	bool has_more; /* the last piece was full: there may be more without more input */
	char piece[PIECE];
};

int gunzip_new(struct gunzip **ret_gunzip)
{
	struct gunzip *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	if (inflateInit2(&g->stream, GZIP_WINDOW) != Z_OK) {
		free(g);
		return -ENOMEM;
	}
	*ret_gunzip = g;
	return 0;
}

void gunzip_free(struct gunzip *g)
{
	if (!g)
		return;
	inflateEnd(&g->stream);
	free(g);
}

/* One step. Several members one behind the other are one text. */
static int step(struct gunzip *g, const char **data, size_t *len, struct text *ret_piece)
{
	uInt given = (uInt)MIN(*len, (size_t)1 << 30);
	int r;

	g->stream.next_in = (const Bytef *)*data;
	g->stream.avail_in = given;
	g->stream.next_out = (Bytef *)g->piece;
	g->stream.avail_out = PIECE;
	r = inflate(&g->stream, Z_NO_FLUSH);
	*data += given - g->stream.avail_in;
	*len -= given - g->stream.avail_in;
	g->is_whole = r == Z_STREAM_END;
	g->has_more = r == Z_OK && g->stream.avail_out == 0;
	*ret_piece = (struct text){ g->piece, PIECE - g->stream.avail_out };
	if (r == Z_STREAM_END && inflateReset(&g->stream) != Z_OK)
		return -ENOMEM;
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return r == Z_MEM_ERROR ? -ENOMEM : -EPROTO;
	return ret_piece->len > 0;
}

int gunzip_next(struct gunzip *g, const char **data, size_t *len, struct text *ret_piece)
{
	int r = 0;

	while (r == 0 && (*len > 0 || g->has_more))
		r = step(g, data, len, ret_piece);
	return r;
}

int gunzip_finish(const struct gunzip *g)
{
	return g->is_whole ? 0 : -EPROTO;
}
