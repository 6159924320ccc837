/*
 * hello.h - the first bytes of a connection: which host does the client say it wants?
 *
 * A connection was allowed for a name; its first bytes must say the same name, or an allowed address
 * would serve as a door to whatever else is hosted there. TLS says it in the server_name of the
 * ClientHello, HTTP/1 in the Host header. The bytes arrive in pieces: the caller keeps them in one
 * buffer and looks again whenever it holds at least ret->need bytes, until the answer is not
 * FIRST_MORE; only then does a byte go out. The reader keeps nothing, allocates nothing, and its
 * work is bounded by the size of the buffer times the number of pieces that need asks for.
 *
 * Readers on the other side differ in what they forgive, so nothing is forgiven here: a bare line
 * feed, a folded or doubled Host, a request target that disagrees with Host, a space before a colon,
 * a doubled extension, a name that is an address are all FIRST_BAD.
 *
 * What this does not see, and the caller must not promise: only the first request of an HTTP
 * connection is read, so a later one on the same connection may name another Host; after TLS is up,
 * nothing at all is seen (HTTP inside may name any Host, and a second ClientHello after a retry
 * request is not compared). In both cases the bytes still go to the vetted address and to no other.
 * Only the inspecting gate judges every request. With ECH the outer name counts: the real one is
 * encrypted to whoever owns the outer name; has_ech says so.
 */
#ifndef BRIG_EGRESS_HELLO_H
#define BRIG_EGRESS_HELLO_H

#include "egress/name.h"

#define FIRST_HELLO_MAX   65536 /* of a ClientHello, without record headers */
#define FIRST_RECORDS_MAX 1024  /* that a ClientHello may be split into */
#define FIRST_HEAD_MAX    16384 /* of an HTTP request line and headers */
/* A buffer of this size always gets an answer. */
#define FIRST_BYTES_MAX   (FIRST_HELLO_MAX + 4 + 5 * FIRST_RECORDS_MAX + 16384)

enum first_kind {
	FIRST_MORE,
	FIRST_TLS,         /* with a name */
	FIRST_TLS_NO_NAME, /* a good ClientHello without server_name */
	FIRST_HTTP,        /* with a Host: a name, or (is_address) an address */
	FIRST_HTTP_NO_NAME, /* HTTP/1.0 without Host, or HTTP/2 without TLS, whose names are packed */
	FIRST_OTHER,        /* neither TLS nor HTTP */
	FIRST_BAD,          /* looks like one of them and is not: see wrong */
};

struct first_bytes {
	enum first_kind kind;
	size_t need;          /* FIRST_MORE: looking again before there are so many is in vain */
	char name[NAME_SIZE]; /* as name_read gives it; "" when there is none */
	bool is_address;      /* FIRST_HTTP: Host is an address, in address */
	struct address address;
	unsigned int port; /* that Host names, or 0 */
	bool has_ech;      /* there is an encrypted hello inside, or (as browsers do) a fake one */
	const char *wrong; /* FIRST_BAD and FIRST_OTHER: what is wrong, for the event; static */
};

/* Always sets all of *ret_first. */
void first_bytes_look(const void *data, size_t len, struct first_bytes *ret_first);

#endif
