/*
 * hello.c - which protocol a connection begins with, see hello.h
 */
#include <string.h>

#include "egress/hello_internal.h"

void first_bytes_more(struct first_bytes *first, size_t need)
{
	first->kind = FIRST_MORE;
	first->need = need;
}

static void set_wrong(struct first_bytes *first, enum first_kind kind, const char *wrong)
{
	*first = (struct first_bytes){ .kind = kind, .wrong = wrong };
}

void first_bytes_bad(struct first_bytes *first, const char *wrong)
{
	set_wrong(first, FIRST_BAD, wrong);
}

void first_bytes_other(struct first_bytes *first, const char *wrong)
{
	set_wrong(first, FIRST_OTHER, wrong);
}

/* A length with its top bit set and a client hello behind it: servers took these until recently. */
static void look_at_sslv2(const unsigned char *data, size_t len, struct first_bytes *first)
{
	if (len < 3)
		first_bytes_more(first, 3);
	else if (data[2] == 1)
		first_bytes_bad(first,
				"the TLS hello is in the form of SSL 2, which names no host");
	else
		first_bytes_other(first, "neither TLS nor HTTP");
}

void first_bytes_look(const void *data, size_t len, struct first_bytes *ret_first)
{
	const unsigned char *bytes = data;

	*ret_first = (struct first_bytes){ .kind = FIRST_MORE, .need = 1 };
	if (len == 0)
		return;
	ret_first->need = 0;
	if (bytes[0] == 22)
		first_bytes_tls(bytes, len, ret_first);
	else if (bytes[0] >= 'A' && bytes[0] <= 'Z')
		first_bytes_http(bytes, len, ret_first);
	else if (bytes[0] & 0x80)
		look_at_sslv2(bytes, len, ret_first);
	else
		first_bytes_other(ret_first, "neither TLS nor HTTP");
}
