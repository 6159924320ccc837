/*
 * dns.c - the conversation with the programs inside, see dns.h
 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "egress/dns_wire.h"

#define OPT_LEN 11

/* The question as it is asked, for the echo. 0 or the error code. */
static enum dns_rcode read_question(struct wire *wire, struct dns_query *query)
{
	size_t start = wire->at;
	struct address address;
	unsigned int class;

	wire_name(wire, false, query->text);
	query->type = wire_u16(wire);
	class = wire_u16(wire);
	if (wire->failed || wire->at - start > DNS_QUESTION_MAX)
		return DNS_FORMERR;
	query->question_len = wire->at - start;
	memcpy(query->question, wire->data + start, query->question_len);
	if (class != DNS_CLASS_IN)
		return DNS_REFUSED;
	if (name_read(query->text, strlen(query->text), query->name, &address) != NAME_HOST) {
		query->name[0] = '\0';
		return DNS_NXDOMAIN;
	}
	return DNS_NOERROR;
}

/*
 * What may stand behind the question: one OPT record, whose options do not matter here. A version
 * of EDNS that does not exist yet is answered as version 0.
 */
static enum dns_rcode read_edns(struct wire *wire, unsigned int records, struct dns_query *query)
{
	unsigned int type;
	size_t size;

	if (records > 1)
		return DNS_FORMERR;
	if (records == 1) {
		if (wire_u8(wire) != 0)
			return DNS_FORMERR;
		type = wire_u16(wire);
		size = wire_u16(wire);
		wire_u32(wire);
		wire_skip(wire, wire_u16(wire));
		if (wire->failed || type != DNS_OPT)
			return DNS_FORMERR;
		query->has_edns = true;
		query->udp_size = MAX(size, (size_t)DNS_UDP_PLAIN);
		query->udp_size = MIN(query->udp_size, (size_t)DNS_UDP_MAX);
	}
	return wire->at == wire->len ? DNS_NOERROR : DNS_FORMERR;
}

static enum dns_rcode read_query(struct wire *wire, const struct dns_header *header,
				 struct dns_query *query)
{
	enum dns_rcode rcode, edns;

	if (header->flags & DNS_FLAG_OPCODE)
		return DNS_NOTIMP;
	if (header->questions != 1 || header->answers || header->authorities ||
	    (header->flags & (DNS_FLAG_TC | DNS_FLAG_RCODE)))
		return DNS_FORMERR;
	rcode = read_question(wire, query);
	if (rcode == DNS_FORMERR)
		return rcode;
	edns = read_edns(wire, header->additionals, query);
	return edns == DNS_NOERROR ? rcode : edns;
}

int dns_query_parse(const void *data, size_t len, struct dns_query *ret_query)
{
	struct wire wire = { .data = data, .len = len };
	struct dns_query query = { .udp_size = DNS_UDP_PLAIN };
	struct dns_header header;

	wire_header(&wire, &header);
	if (wire.failed || (header.flags & DNS_FLAG_QR))
		return -EBADMSG;
	query.id = header.id;
	query.wants_recursion = header.flags & DNS_FLAG_RD;
	query.checking_disabled = header.flags & DNS_FLAG_CD;
	query.rcode = read_query(&wire, &header, &query);
	if (query.rcode != DNS_NOERROR)
		query.name[0] = '\0';
	*ret_query = query;
	return 0;
}

static bool fits_type(const struct dns_query *query, const unsigned char ip[ADDRESS_BYTES])
{
	return query->type == (address_is_ipv4(ip) ? DNS_A : DNS_AAAA);
}

/* One address record, its name a pointer to the question. Its length, or 0 when it does not fit. */
static size_t put_record(const struct dns_query *query, const unsigned char ip[ADDRESS_BYTES],
			 uint32_t ttl, unsigned char *out, size_t room)
{
	size_t len = query->type == DNS_A ? 4 : ADDRESS_BYTES;

	if (room < 12 + len)
		return 0;
	wire_put_u16(out, 0xc000 | DNS_HEADER);
	wire_put_u16(out + 2, query->type);
	wire_put_u16(out + 4, DNS_CLASS_IN);
	wire_put_u32(out + 6, ttl);
	wire_put_u16(out + 10, (unsigned int)len);
	memcpy(out + 12, ip + ADDRESS_BYTES - len, len);
	return 12 + len;
}

static void put_opt(unsigned char *out)
{
	memset(out, 0, OPT_LEN);
	wire_put_u16(out + 1, DNS_OPT);
	wire_put_u16(out + 3, DNS_UDP_MAX);
}

static void put_header(const struct dns_query *query, enum dns_rcode rcode, unsigned int answers,
		       bool truncated, unsigned char out[DNS_HEADER])
{
	unsigned int flags = DNS_FLAG_QR | DNS_FLAG_RA | (unsigned int)rcode;

	flags |= query->wants_recursion ? DNS_FLAG_RD : 0;
	flags |= query->checking_disabled ? DNS_FLAG_CD : 0;
	flags |= truncated ? DNS_FLAG_TC : 0;
	wire_put_u16(out, query->id);
	wire_put_u16(out + 2, flags);
	wire_put_u16(out + 4, query->question_len ? 1 : 0);
	wire_put_u16(out + 6, answers);
	wire_put_u16(out + 8, 0);
	wire_put_u16(out + 10, query->has_edns ? 1 : 0);
}

int dns_reply(const struct dns_query *query, const struct dns_reply *reply, unsigned char *out,
	      size_t limit)
{
	size_t opt = query->has_edns ? OPT_LEN : 0, at = DNS_HEADER + query->question_len;
	size_t count = reply->rcode == DNS_NOERROR && query->question_len ? reply->count : 0;
	unsigned int written = 0;
	bool truncated = false;

	limit = MIN(limit, (size_t)DNS_REPLY_MAX);
	if (at + opt > limit)
		return -ENOSPC;
	memcpy(out + DNS_HEADER, query->question, query->question_len);
	for (size_t i = 0; i < count && !truncated; i++) {
		size_t len;

		if (!fits_type(query, reply->addresses[i]))
			continue;
		len = put_record(query, reply->addresses[i], reply->ttl, out + at,
				 limit - opt - at);
		truncated = len == 0;
		written += len > 0;
		at += len;
	}
	if (opt)
		put_opt(out + at);
	put_header(query, reply->rcode, written, truncated, out);
	return (int)(at + opt);
}

void dns_tcp_prefix(size_t len, unsigned char ret_prefix[static 2])
{
	wire_put_u16(ret_prefix, (unsigned int)MIN(len, (size_t)UINT16_MAX));
}

int dns_tcp_look(const void *data, size_t len, size_t *ret_len)
{
	const unsigned char *bytes = data;
	size_t message;

	if (len < 2)
		return 0;
	message = (size_t)bytes[0] << 8 | bytes[1];
	if (message < DNS_HEADER)
		return -EBADMSG;
	if (len - 2 < message)
		return 0;
	*ret_len = message;
	return 1;
}
