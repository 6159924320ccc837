/*
 * bytes.h - which bytes may stand where in HTTP (RFC 9110, RFC 9112)
 */
#ifndef BRIG_HTTP_BYTES_H
#define BRIG_HTTP_BYTES_H

#include <stdbool.h>

enum {
	BYTE_TOKEN = 1,  /* of methods and names of fields */
	BYTE_VALUE = 2,  /* of values: visible, blank, tab, and beyond ASCII */
	BYTE_TARGET = 4, /* of targets: visible ASCII but '#' */
	BYTE_HOST = 8,   /* of a host and its port */
};

extern const unsigned char byte_classes[256];

static inline bool byte_is(char c, unsigned int classes)
{
	return (byte_classes[(unsigned char)c] & classes) != 0;
}

#endif
