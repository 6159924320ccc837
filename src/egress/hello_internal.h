/* hello_internal.h - what the files behind hello.h share */
#ifndef BRIG_EGRESS_HELLO_INTERNAL_H
#define BRIG_EGRESS_HELLO_INTERNAL_H

#include "egress/hello.h"

/* Each sets the fields of first, which is zeroed. data begins as its protocol does. */
void first_bytes_tls(const unsigned char *data, size_t len, struct first_bytes *first);
void first_bytes_http(const unsigned char *data, size_t len, struct first_bytes *first);

void first_bytes_more(struct first_bytes *first, size_t need);
void first_bytes_bad(struct first_bytes *first, const char *wrong);
void first_bytes_other(struct first_bytes *first, const char *wrong);

#endif
