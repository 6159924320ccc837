/*
 * dns_wire.c - see dns_wire.h
 */
#include <string.h>

#include "egress/dns_wire.h"

void wire_skip(struct wire *wire, size_t len)
{
	if (wire->failed || wire->at > wire->len || len > wire->len - wire->at)
		wire->failed = true;
	else
		wire->at += len;
}

unsigned int wire_u8(struct wire *wire)
{
	size_t at = wire->at;

	wire_skip(wire, 1);
	return wire->failed ? 0 : wire->data[at];
}

unsigned int wire_u16(struct wire *wire)
{
	unsigned int high = wire_u8(wire);

	return high << 8 | wire_u8(wire);
}

uint32_t wire_u32(struct wire *wire)
{
	uint32_t high = wire_u16(wire);

	return high << 16 | wire_u16(wire);
}

void wire_header(struct wire *wire, struct dns_header *ret_header)
{
	ret_header->id = wire_u16(wire);
	ret_header->flags = wire_u16(wire);
	ret_header->questions = wire_u16(wire);
	ret_header->answers = wire_u16(wire);
	ret_header->authorities = wire_u16(wire);
	ret_header->additionals = wire_u16(wire);
}

static char text_byte(unsigned int c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')
		return (char)c;
	return '?';
}

/* The way through one name: its labels may lie in several parts of the message. */
struct walk {
	struct wire wire;
	size_t start; /* of the part that is being read */
	size_t end;   /* of the name for whoever reads on behind it: behind the first pointer */
	size_t jumps;
};

#define JUMPS_MAX 32

/*
 * A pointer must go to before the place where the part that it ends began, so every jump goes
 * further back and the walk has an end. A message could still hold thousands of pointers, each to
 * the one before, for every record to walk along; honest ones need a handful.
 */
static void follow_pointers(struct walk *walk, bool pointers)
{
	struct wire *wire = &walk->wire;

	while (!wire->failed && wire->at < wire->len && wire->data[wire->at] >= 0xc0) {
		size_t to = wire_u16(wire) & 0x3fff;

		if (wire->failed || !pointers || to < DNS_HEADER || to >= walk->start ||
		    walk->jumps++ == JUMPS_MAX) {
			wire->failed = true;
			return;
		}
		if (walk->end == 0)
			walk->end = wire->at;
		wire->at = walk->start = to;
	}
}

static void put_label(struct wire *wire, unsigned int len, char *name, size_t *used)
{
	if (*used + (*used > 0) + len >= NAME_SIZE) {
		wire->failed = true;
		return;
	}
	if (*used > 0)
		name[(*used)++] = '.';
	for (unsigned int i = 0; i < len; i++)
		name[(*used)++] = text_byte(wire_u8(wire));
}

void wire_name(struct wire *wire, bool pointers, char ret_name[static NAME_SIZE])
{
	struct walk walk = { .wire = *wire, .start = wire->at };
	char name[NAME_SIZE];
	size_t used = 0;
	unsigned int len;

	do {
		follow_pointers(&walk, pointers);
		len = wire_u8(&walk.wire);
		if (len > 63)
			walk.wire.failed = true;
		else if (len > 0)
			put_label(&walk.wire, len, name, &used);
	} while (len > 0 && !walk.wire.failed);
	wire->failed = walk.wire.failed;
	ret_name[0] = '\0';
	if (wire->failed)
		return;
	wire->at = walk.end ? walk.end : walk.wire.at;
	memcpy(ret_name, name, used);
	ret_name[used] = '\0';
}

void wire_put_u16(unsigned char *out, unsigned int value)
{
	out[0] = (unsigned char)(value >> 8);
	out[1] = (unsigned char)value;
}

void wire_put_u32(unsigned char *out, uint32_t value)
{
	wire_put_u16(out, value >> 16);
	wire_put_u16(out + 2, value & 0xffff);
}
