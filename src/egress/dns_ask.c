/*
 * dns_ask.c - the conversation with the upstream server, see dns.h
 *
 * An answer is read twice: once to find the chain of aliases, one pass over the records for each
 * link (servers may list them in any order), then once for the addresses of the name at its end. A
 * message has at most 64 KiB and a chain DNS_CHAIN_MAX links, so the work is bounded.
 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/str.h"
#include "egress/dns_wire.h"

#define TTL_MAX 86400u /* a day; more is nobody's business, and above 2^31 means 0 */

int dns_ask_init(struct dns_ask *ret_ask, unsigned int id, const char *name, unsigned int type,
		 uint64_t case_bits)
{
	struct dns_ask ask = { .id = id & 0xffff, .type = type & 0xffff };
	struct address address;
	char text[NAME_SIZE];
	size_t len = strlen(name), label = 0;

	if (name_read(name, len, text, &address) != NAME_HOST || !str_equal(name, text))
		return -EINVAL;
	/* Each label's length stands where the dot before it was. */
	for (size_t i = 0; i <= len; i++) {
		bool upper = text[i] >= 'a' && text[i] <= 'z' && (case_bits >> i % 64 & 1);

		if (text[i] != '.' && text[i] != '\0') {
			ask.question[i + 1] =
				(unsigned char)(upper ? text[i] - 'a' + 'A' : text[i]);
			continue;
		}
		ask.question[label] = (unsigned char)(i - label);
		label = i + 1;
	}
	wire_put_u16(ask.question + len + 2, ask.type);
	wire_put_u16(ask.question + len + 4, DNS_CLASS_IN);
	ask.question_len = len + 6;
	*ret_ask = ask;
	return 0;
}

size_t dns_ask_message(const struct dns_ask *ask, unsigned char out[static DNS_ASK_MAX])
{
	size_t at = DNS_HEADER + ask->question_len;

	memset(out, 0, DNS_ASK_MAX);
	wire_put_u16(out, ask->id);
	wire_put_u16(out + 2, DNS_FLAG_RD);
	wire_put_u16(out + 4, 1);
	wire_put_u16(out + 10, 1);
	memcpy(out + DNS_HEADER, ask->question, ask->question_len);
	wire_put_u16(out + at + 1, DNS_OPT);
	wire_put_u16(out + at + 3, DNS_UDP_MAX);
	return at + 11;
}

/* One record of the answer section; its data starts at data in the message. */
struct record {
	char name[NAME_SIZE];
	unsigned int type, class;
	uint32_t ttl;
	size_t data, len;
};

static void read_record(struct wire *wire, struct record *ret_record)
{
	uint32_t ttl;

	wire_name(wire, true, ret_record->name);
	ret_record->type = wire_u16(wire);
	ret_record->class = wire_u16(wire);
	ttl = wire_u32(wire);
	ret_record->ttl = ttl > INT32_MAX ? 0 : MIN(ttl, TTL_MAX);
	ret_record->len = wire_u16(wire);
	ret_record->data = wire->at;
	wire_skip(wire, ret_record->len);
}

static bool is_about(const struct record *record, const char *name, unsigned int type)
{
	return record->type == type && record->class == DNS_CLASS_IN &&
	       str_equal(record->name, name);
}

/* The target of an alias: exactly the record's data, and a name that can be asked for. */
static bool read_target(const struct wire *wire, const struct record *record,
			char ret_name[static NAME_SIZE])
{
	struct wire part = { .data = wire->data,
			     .len = record->data + record->len,
			     .at = record->data };
	struct address address;
	char text[NAME_SIZE];

	wire_name(&part, true, text);
	return !part.failed && part.at == part.len &&
	       name_read(text, strlen(text), ret_name, &address) == NAME_HOST;
}

/* 1: name is an alias, the next link is in the answer. 0: it is not. Negative: no use. */
static int find_alias(struct wire wire, unsigned int records, const char *name,
		      struct dns_answer *answer)
{
	char target[NAME_SIZE];
	struct record record;

	for (unsigned int i = 0; i < records; i++) {
		read_record(&wire, &record);
		if (wire.failed)
			return -EBADMSG;
		if (!is_about(&record, name, DNS_CNAME))
			continue;
		if (!read_target(&wire, &record, target))
			return -EBADMSG;
		if (answer->alias_count == DNS_CHAIN_MAX)
			return -ELOOP;
		strcpy(answer->alias[answer->alias_count++], target);
		answer->ttl = MIN(answer->ttl, record.ttl);
		return 1;
	}
	return 0;
}

static int follow_aliases(const struct wire *wire, unsigned int records, const char *asked,
			  struct dns_answer *answer)
{
	const char *name = asked;
	int r;

	while ((r = find_alias(*wire, records, name, answer)) > 0) {
		name = answer->alias[answer->alias_count - 1];
		if (str_equal(name, asked))
			return -ELOOP;
		for (size_t i = 0; i + 1 < answer->alias_count; i++)
			if (str_equal(name, answer->alias[i]))
				return -ELOOP;
	}
	return r;
}

static int collect_addresses(struct wire wire, unsigned int records, unsigned int type,
			     const char *name, struct dns_answer *answer)
{
	size_t size = type == DNS_A ? 4 : ADDRESS_BYTES;
	struct record record;
	struct address v4;

	for (unsigned int i = 0; i < records; i++) {
		read_record(&wire, &record);
		if (wire.failed)
			return -EBADMSG;
		if (!is_about(&record, name, type))
			continue;
		if (record.len != size)
			return -EBADMSG;
		answer->ttl = MIN(answer->ttl, record.ttl);
		if (answer->count == DNS_ADDRESSES_MAX)
			continue;
		if (size == 4) {
			address_from_ipv4(wire.data + record.data, 0, &v4);
			memcpy(answer->addresses[answer->count++], v4.ip, ADDRESS_BYTES);
		} else {
			memcpy(answer->addresses[answer->count++], wire.data + record.data, size);
		}
	}
	return 0;
}

/*
 * Behind an alias without an address stands either nothing (ask for the target) or the SOA of the
 * zone that knows there is none. A forged one could only make the answer empty.
 */
static bool has_soa(struct wire wire, const struct dns_header *header)
{
	struct record record;

	for (unsigned int i = 0; i < header->answers + header->authorities; i++) {
		read_record(&wire, &record);
		if (wire.failed)
			return false;
		if (i >= header->answers && record.type == DNS_SOA)
			return true;
	}
	return false;
}

static enum dns_outcome outcome_of(const struct wire *wire, const struct dns_header *header,
				   const struct dns_answer *answer)
{
	if (answer->rcode == DNS_NXDOMAIN)
		return DNS_NO_NAME;
	if (answer->count > 0)
		return DNS_FOUND;
	return answer->alias_count > 0 && !has_soa(*wire, header) ? DNS_FOLLOW : DNS_NO_RECORD;
}

/* The answer section of a message that is known to be the answer to this question. */
static int read_answers(const struct wire *wire, const struct dns_header *header,
			const struct dns_ask *ask, const char *asked, struct dns_answer *answer)
{
	const char *name = asked;
	int r = follow_aliases(wire, header->answers, asked, answer);

	if (r < 0)
		return r;
	if (answer->alias_count > 0)
		name = answer->alias[answer->alias_count - 1];
	if (answer->rcode == DNS_NOERROR && (ask->type == DNS_A || ask->type == DNS_AAAA))
		r = collect_addresses(*wire, header->answers, ask->type, name, answer);
	if (r < 0)
		return r;
	answer->outcome = outcome_of(wire, header, answer);
	if (answer->ttl == UINT32_MAX)
		answer->ttl = 0;
	return 0;
}

/* The question must come back byte by byte; *ret_name is its name as text. */
static bool is_echo(struct wire *wire, const struct dns_header *header, const struct dns_ask *ask,
		    char ret_name[static NAME_SIZE])
{
	size_t start = wire->at;

	if (header->id != ask->id || header->questions != 1 || !(header->flags & DNS_FLAG_QR) ||
	    (header->flags & DNS_FLAG_OPCODE))
		return false;
	wire_name(wire, false, ret_name);
	wire_skip(wire, 4);
	return !wire->failed && wire->at - start == ask->question_len &&
	       memcmp(wire->data + start, ask->question, ask->question_len) == 0;
}

int dns_answer_parse(const struct dns_ask *ask, const void *data, size_t len,
		     struct dns_answer *ret_answer)
{
	struct wire wire = { .data = data, .len = len };
	struct dns_answer answer = { .outcome = DNS_FAILED, .ttl = UINT32_MAX };
	struct dns_header header;
	char asked[NAME_SIZE];
	int r;

	wire_header(&wire, &header);
	/* Longer than any message can be. */
	if (len > UINT16_MAX)
		return -EBADMSG;
	if (wire.failed || !is_echo(&wire, &header, ask, asked))
		return -EBADMSG;
	answer.rcode = header.flags & DNS_FLAG_RCODE;
	if (header.flags & DNS_FLAG_TC) {
		answer.outcome = DNS_TRUNCATED;
		answer.ttl = 0;
	} else if (answer.rcode == DNS_NOERROR || answer.rcode == DNS_NXDOMAIN) {
		r = read_answers(&wire, &header, ask, asked, &answer);
		if (r < 0)
			return r;
	} else {
		answer.ttl = 0;
	}
	*ret_answer = answer;
	return 0;
}
