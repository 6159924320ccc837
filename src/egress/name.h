/*
 * name.h - a host name from foreign bytes, in the one form in which names are compared
 *
 * Lower case, without a trailing dot, labels of 1 to 63 letters, digits, hyphens and underscores,
 * 253 bytes at most. International names are left as they are on the wire ("xn--..."). The question
 * that matters most: is it a name at all? "127.1", "0x7f.1", "2130706433", "[::1]" and digits in
 * full width are read as addresses by one library or another; such a text is never looked up and
 * never allowed as a name.
 */
#ifndef BRIG_EGRESS_NAME_H
#define BRIG_EGRESS_NAME_H

#include "egress/address.h"

#define NAME_SIZE 254 /* with the NUL */

enum name_kind {
	NAME_HOST,        /* ret_name is set */
	NAME_ADDRESS,     /* an address in its usual spelling: ret_address is set, its port is 0 */
	NAME_ODD_ADDRESS, /* somebody's idea of an address */
	NAME_INVALID,
};

/* Outputs that the kind does not name are untouched. */
enum name_kind name_read(const char *text, size_t len, char ret_name[static NAME_SIZE],
			 struct address *ret_address);

/* Is name (as name_read gave it) below apex, and not the apex itself? */
bool name_is_under(const char *name, const char *apex);

/*
 * What an address class is to addresses: ADDRESS_METADATA for the names under which clouds give out
 * credentials, ADDRESS_LOOPBACK for localhost and what is below it, ADDRESS_PUBLIC for all others
 * (which may still resolve to anything).
 */
enum address_class name_classify(const char *name);

#endif
