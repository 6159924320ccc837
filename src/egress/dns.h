/*
 * dns.h - the DNS messages that the gate reads and writes, without the sockets
 *
 * Two conversations. Inside: dns_query_parse() reads what a program asked, dns_reply() writes what
 * it is told. Outside: dns_ask_init() and dns_ask_message() write the question for the upstream
 * server, dns_answer_parse() reads its answer strictly against that question. Both readers take any
 * bytes: every length is checked, a compression pointer only goes backwards, nothing recurses.
 *
 * What programs inside are told, chosen so that no resolver library waits or retries:
 *
 *	name not allowed        NXDOMAIN. musl ignores REFUSED and waits for its time-out; glibc, Go
 *	                        and c-ares ask again; NXDOMAIN ends the matter everywhere.
 *	allowed, not A or AAAA  NOERROR without records ("there is no such record"): HTTPS and SVCB
 *	                        would bring ECH keys and addresses past the gate; the others have no
 *	                        use here. The program goes on with A and AAAA.
 *	upstream broken         SERVFAIL
 *	malformed               FORMERR; other opcode: NOTIMP; other class: REFUSED
 *	not a query             silence
 *
 * Replies say RA, without which glibc and Go take an empty answer for a lame server and go on to the
 * next, and carry no SOA, so that no negative answer is cached and a new rule holds at once.
 */
#ifndef BRIG_EGRESS_DNS_H
#define BRIG_EGRESS_DNS_H

#include "egress/name.h"

#define DNS_HEADER        12
#define DNS_WIRE_NAME_MAX 255
#define DNS_QUESTION_MAX  (DNS_WIRE_NAME_MAX + 4)
#define DNS_UDP_PLAIN     512  /* without EDNS */
#define DNS_UDP_MAX       1232 /* what we say and use with EDNS: fits every path unfragmented */
#define DNS_ASK_MAX       (DNS_HEADER + DNS_QUESTION_MAX + 11)
#define DNS_ADDRESSES_MAX 32
#define DNS_REPLY_MAX     (DNS_HEADER + DNS_QUESTION_MAX + DNS_ADDRESSES_MAX * 28 + 11)
#define DNS_CHAIN_MAX     12 /* aliases between a name and its addresses, over all messages */

enum dns_type { DNS_A = 1, DNS_CNAME = 5, DNS_SOA = 6, DNS_AAAA = 28, DNS_OPT = 41 };

enum dns_rcode {
	DNS_NOERROR,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_REFUSED,
};

/* A query from inside. */
struct dns_query {
	unsigned int id, type;
	bool wants_recursion, checking_disabled, has_edns;
	size_t udp_size;      /* the largest reply over UDP, from 512 to DNS_UDP_MAX */
	enum dns_rcode rcode; /* NOERROR: judge the name. Else: reply with this and nothing more. */
	char name[NAME_SIZE]; /* as name_read gives it; "" when rcode is not NOERROR */
	char text[NAME_SIZE]; /* for the event, also when refused: what is not a letter is '?' */
	unsigned char question[DNS_QUESTION_MAX]; /* byte for byte, for the echo */
	size_t question_len;                      /* 0 when there was none to echo */
};

/*
 * 0: reply, with query->rcode or after the verdict. -EBADMSG: not even a header, or itself a
 * response; stay silent (and record it). A name with bytes that no host name has, or one that is
 * really an address, comes back with rcode NXDOMAIN and an empty name.
 */
[[nodiscard]] int dns_query_parse(const void *data, size_t len, struct dns_query *ret_query);

/* What is said inside. Only addresses of the family that was asked for are written. */
struct dns_reply {
	enum dns_rcode rcode;
	const unsigned char (*addresses)[ADDRESS_BYTES];
	size_t count;
	uint32_t ttl;
};

/*
 * Writes a reply of at most limit bytes (query->udp_size for UDP, DNS_REPLY_MAX for TCP) and gives
 * its length. What does not fit is left out and the message marked as truncated. -ENOSPC when not
 * even the question fits.
 */
[[nodiscard]] int dns_reply(const struct dns_query *query, const struct dns_reply *reply,
			    unsigned char *out, size_t limit);

/* The two bytes before a message on TCP. */
void dns_tcp_prefix(size_t len, unsigned char ret_prefix[static 2]);

/*
 * Looks at the start of a TCP stream. 1: a whole message of *ret_len bytes starts at data + 2. 0:
 * not yet. -EBADMSG: too short to be a message (less than a header), hang up.
 */
[[nodiscard]] int dns_tcp_look(const void *data, size_t len, size_t *ret_len);

/* A question to an upstream server. */
struct dns_ask {
	unsigned int id, type;
	unsigned char question[DNS_QUESTION_MAX];
	size_t question_len;
};

/*
 * name as name_read gives it. The id must come from a good random source, as must case_bits: a set
 * bit writes that letter of the name (by position modulo 64) in upper case, and an answer must bring
 * the same bytes back, which makes forging harder. 0 for servers that do not keep the case.
 * -EINVAL: not a name.
 */
[[nodiscard]] int dns_ask_init(struct dns_ask *ret_ask, unsigned int id, const char *name,
			       unsigned int type, uint64_t case_bits);

/* The length of the message. */
size_t dns_ask_message(const struct dns_ask *ask, unsigned char out[static DNS_ASK_MAX]);

enum dns_outcome {
	DNS_FOUND,     /* addresses */
	DNS_FOLLOW,    /* an alias whose target is not in this message: ask for the last alias */
	DNS_NO_NAME,   /* NXDOMAIN */
	DNS_NO_RECORD, /* the name has no address of this type */
	DNS_TRUNCATED, /* ask again over TCP */
	DNS_FAILED,    /* SERVFAIL, REFUSED ...: see rcode */
};

struct dns_answer {
	enum dns_outcome outcome;
	unsigned int rcode;
	uint32_t ttl; /* the smallest on the way, in seconds */
	unsigned char addresses[DNS_ADDRESSES_MAX][ADDRESS_BYTES];
	size_t count;
	/* The names behind the one that was asked, in order. Judge each: a deny rule may name it. */
	char alias[DNS_CHAIN_MAX][NAME_SIZE];
	size_t alias_count;
};

/*
 * -EBADMSG: malformed, or not the answer to this question (wrong id, question, opcode); ignore it
 * and keep waiting, since anybody can send one. -ELOOP: the aliases go round or are too many.
 * Records of names that are not in the chain do not count.
 */
[[nodiscard]] int dns_answer_parse(const struct dns_ask *ask, const void *data, size_t len,
				   struct dns_answer *ret_answer);

#endif
