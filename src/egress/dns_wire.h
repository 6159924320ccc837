/*
 * dns_wire.h - reading the pieces of a DNS message (for dns.c and dns_ask.c)
 *
 * A cursor over the whole message: whatever runs past the end sets failed and gives zeroes, so that
 * a reader may ask for several pieces and look once.
 */
#ifndef BRIG_EGRESS_DNS_WIRE_H
#define BRIG_EGRESS_DNS_WIRE_H

#include "egress/dns.h"

struct wire {
	const unsigned char *data;
	size_t len, at;
	bool failed;
};

struct dns_header {
	unsigned int id, flags, questions, answers, authorities, additionals;
};

#define DNS_FLAG_QR     0x8000u
#define DNS_FLAG_OPCODE 0x7800u
#define DNS_FLAG_TC     0x0200u
#define DNS_FLAG_RD     0x0100u
#define DNS_FLAG_RA     0x0080u
#define DNS_FLAG_CD     0x0010u
#define DNS_FLAG_RCODE  0x000fu
#define DNS_CLASS_IN    1u

unsigned int wire_u8(struct wire *wire);
unsigned int wire_u16(struct wire *wire);
uint32_t wire_u32(struct wire *wire);
void wire_skip(struct wire *wire, size_t len);
void wire_header(struct wire *wire, struct dns_header *ret_header);

/*
 * A name, in lower case, dots between its labels. What cannot stand in a host name (a dot inside a
 * label, a space) is '?' in the text, so that no two different names look alike as a valid one.
 * With pointers false, compression is a failure. "" for the root.
 */
void wire_name(struct wire *wire, bool pointers, char ret_name[static NAME_SIZE]);

void wire_put_u16(unsigned char *out, unsigned int value);
void wire_put_u32(unsigned char *out, uint32_t value);

#endif
