/*
 * http_smuggling.h - requests that two programs could read in two ways, and what brig says to each
 *
 * The table is read by the parser's test alone and by the server's, which also shows that nothing behind such
 * a request is taken for another one.
 */
#ifndef BRIG_TEST_HTTP_SMUGGLING_H
#define BRIG_TEST_HTTP_SMUGGLING_H

#include <errno.h>

#define H    "Host: a\r\n"
#define POST "POST /stream HTTP/1.1\r\n" H
#define TE   "Transfer-Encoding: chunked\r\n"

/* head: what the parser of heads says; 0: the head is fine and the body is not. */
struct smuggling {
	const char *name, *text;
	size_t len; /* 0: as long as the string */
	int head;
	unsigned int status;
};

static const struct smuggling smuggling[] = {
	/* clang-format off */
	{ "CL.TE", POST "Content-Length: 6\r\n" TE "\r\n0\r\n\r\nG", 0, -EPROTO, 400 },
	{ "TE.CL", POST TE "Content-Length: 3\r\n\r\n1\r\nG\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE.TE, doubled", POST TE "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE.TE, the same twice", POST TE TE "\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE list", POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE chunked, identity", POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE quoted", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE identity", POST "Transfer-Encoding: identity\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE empty", POST "Transfer-Encoding:\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE with parameters", POST "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n", 0, -ENOSYS, 501 },
	{ "TE behind a vertical tab", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE with a blank before the colon", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE with a tab before the colon", POST "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE folded", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE behind a blank", POST " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE behind a bare CR", POST "A: b\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE behind a bare LF", POST "A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "TE in HTTP/1.0", "POST /stream HTTP/1.0\r\n" H TE "\r\n0\r\n\r\n", 0, -EPROTO, 400 },
	{ "CL twice, equal", POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL twice, different", POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 0, -EPROTO, 400 },
	{ "CL as a list", POST "Content-Length: 3, 3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL with plus", POST "Content-Length: +3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL with minus", POST "Content-Length: -3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL in hex", POST "Content-Length: 0x3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL with a blank in it", POST "Content-Length: 1 3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL with a fraction", POST "Content-Length: 3.0\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL empty", POST "Content-Length:\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL of words", POST "Content-Length: abc\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL that overflows", POST "Content-Length: 18446744073709551619\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL with a blank before the colon", POST "Content-Length : 3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "CL in digits of another script", POST "Content-Length: \xd9\xa3\r\n\r\nabc", 0, -EPROTO, 400 },
	{ "bare LF", "GET /stream HTTP/1.1\nHost: a\n\n", 0, -EPROTO, 400 },
	{ "bare LF in the middle", "GET /stream HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", 0, -EPROTO, 400 },
	{ "bare LF at the end", "GET /stream HTTP/1.1\r\nHost: a\r\n\n", 0, -EPROTO, 400 },
	{ "bare CR", "GET /stream HTTP/1.1\rHost: a\r\n\r\n", 0, -EPROTO, 400 },
	{ "CR CR LF", "GET /stream HTTP/1.1\r\nHost: a\r\r\n\r\n", 0, -EPROTO, 400 },
	{ "folded line", "GET /stream HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n", 0, -EPROTO, 400 },
	{ "folded first line", "GET /stream HTTP/1.1\r\n Host: a\r\n\r\n", 0, -EPROTO, 400 },
	{ "NUL in a value", POST "A: b\0c\r\n\r\n", sizeof(POST "A: b\0c\r\n\r\n") - 1, -EPROTO, 400 },
	{ "NUL in a name", POST "A\0: b\r\n\r\n", sizeof(POST "A\0: b\r\n\r\n") - 1, -EPROTO, 400 },
	{ "NUL in the target", "GET /\0 HTTP/1.1\r\n" H "\r\n", sizeof("GET /\0 HTTP/1.1\r\n" H "\r\n") - 1, -EPROTO, 400 },
	{ "DEL in a value", POST "A: b\177\r\n\r\n", 0, -EPROTO, 400 },
	{ "no colon", POST "A\r\n\r\n", 0, -EPROTO, 400 },
	{ "no name", POST ": b\r\n\r\n", 0, -EPROTO, 400 },
	{ "a name in quotes", POST "\"A\": b\r\n\r\n", 0, -EPROTO, 400 },
	{ "a name beyond ASCII", POST "\xc3\xa4: b\r\n\r\n", 0, -EPROTO, 400 },
	{ "no Host", "GET /stream HTTP/1.1\r\n\r\n", 0, -EPROTO, 400 },
	{ "two Hosts", "GET /stream HTTP/1.1\r\n" H H "\r\n", 0, -EPROTO, 400 },
	{ "empty Host", "GET /stream HTTP/1.1\r\nHost:\r\n\r\n", 0, -EPROTO, 400 },
	{ "two names in Host", "GET /stream HTTP/1.1\r\nHost: a, b\r\n\r\n", 0, -EPROTO, 400 },
	{ "user in Host", "GET /stream HTTP/1.1\r\nHost: b@a\r\n\r\n", 0, -EPROTO, 400 },
	{ "path in Host", "GET /stream HTTP/1.1\r\nHost: a/b\r\n\r\n", 0, -EPROTO, 400 },
	{ "port of words in Host", "GET /stream HTTP/1.1\r\nHost: a:b\r\n\r\n", 0, -EPROTO, 400 },
	{ "two ports in Host", "GET /stream HTTP/1.1\r\nHost: a:1:2\r\n\r\n", 0, -EPROTO, 400 },
	{ "open bracket in Host", "GET /stream HTTP/1.1\r\nHost: [::1\r\n\r\n", 0, -EPROTO, 400 },
	{ "no target", "GET HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "two blanks", "GET  /stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "blank in the target", "GET /a b HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "tab instead of a blank", "GET\t/stream\tHTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "blank behind the version", "GET /stream HTTP/1.1 \r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "blank before the method", " GET /stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "fragment", "GET /stream#a HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "target beyond ASCII", "GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "target without a slash", "GET stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "target of authority", "CONNECT a:80 HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "star without OPTIONS", "GET * HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "absolute target of another host", "GET http://b/stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "absolute target of another port", "GET http://a:81/stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "absolute target with a user", "GET http://b@a/stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "absolute target of another scheme", "GET ftp://a/stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "absolute target without a Host", "GET http://a/stream HTTP/1.0\r\n\r\n", 0, -EPROTO, 400 },
	{ "HTTP/0.9", "GET /stream\r\n\r\n", 0, -EPROTO, 400 },
	{ "HTTP/2.0", "GET /stream HTTP/2.0\r\n" H "\r\n", 0, -ENOTSUP, 505 },
	{ "HTTP/1.2", "GET /stream HTTP/1.2\r\n" H "\r\n", 0, -ENOTSUP, 505 },
	{ "HTTP/1.10", "GET /stream HTTP/1.10\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "http/1.1", "GET /stream http/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, -ENOTSUP, 505 },
	{ "two empty lines before", "\r\n\r\nGET /stream HTTP/1.1\r\n" H "\r\n", 0, -EPROTO, 400 },
	{ "an Expect that nobody knows", POST "Expect: 200-ok\r\n\r\n", 0, -EPROTO, 400 },

	{ "size that overflows", POST TE "\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "size with too many zeroes", POST TE "\r\n0000000000000000003\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "size with 0x", POST TE "\r\n0x3\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "size with plus", POST TE "\r\n+3\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "size with minus", POST TE "\r\n-3\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "size behind a blank", POST TE "\r\n 3\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "blank behind a size", POST TE "\r\n3 \r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "no size", POST TE "\r\n\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "only an extension", POST TE "\r\n;a\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "size ended by a bare LF", POST TE "\r\n3\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "extension ended by a bare LF", POST TE "\r\n3;a\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "extension with a bare CR", POST TE "\r\n3;a\rb\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "chunk longer than its size", POST TE "\r\n3\r\nabcd\r\n0\r\n\r\n", 0, 0, 400 },
	{ "chunk shorter than its size", POST TE "\r\n5\r\nabc\r\n0\r\n\r\n", 0, 0, 400 },
	{ "chunk ended by a bare LF", POST TE "\r\n3\r\nabc\n0\r\n\r\n", 0, 0, 400 },
	{ "chunk ended by nothing", POST TE "\r\n3\r\nabc0\r\n\r\n", 0, 0, 400 },
	{ "trailer without a colon", POST TE "\r\n0\r\nabc\r\n\r\n", 0, 0, 400 },
	{ "trailer without a name", POST TE "\r\n0\r\n: b\r\n\r\n", 0, 0, 400 },
	{ "trailer with a blank before the colon", POST TE "\r\n0\r\na : b\r\n\r\n", 0, 0, 400 },
	{ "folded trailer", POST TE "\r\n0\r\na: b\r\n c\r\n\r\n", 0, 0, 400 },
	{ "trailer ended by a bare LF", POST TE "\r\n0\r\na: b\n\r\n", 0, 0, 400 },
	{ "last chunk ended by a bare LF", POST TE "\r\n0\r\n\n", 0, 0, 400 },
	/* clang-format on */
};

#undef H
#undef POST
#undef TE

static inline size_t smuggling_len(const struct smuggling *s)
{
	return s->len ? s->len : strlen(s->text);
}

#endif
