/*
 * hello_tls.c - the name in a TLS ClientHello
 *
 * The hello is a message of the handshake protocol, cut into records at any place. A cursor reads
 * through the record headers, so nothing is put together in a second buffer; its fields are only
 * read when the whole message is there. Each field with a length narrows the cursor's end, so an
 * inner length can never reach past an outer one.
 */
#include <string.h>

#include "base/macro.h"
#include "egress/hello_internal.h"

#define RECORD_HEADER    5
#define RECORD_HANDSHAKE 22
#define RECORD_MAX       16384
#define MESSAGE_HEADER   4
#define MESSAGE_HELLO    1
#define EXTENSION_NAME   0
#define EXTENSION_ECH    0xfe0d
#define EXTENSION_ESNI   0xffce /* the draft before ECH */
#define EXTENSIONS_MAX   256
#define NAME_TYPE_HOST   0

struct hello {
	const unsigned char *data;
	size_t at;     /* in data */
	size_t record; /* bytes left in the record at hand */
	size_t left;   /* bytes left in the field at hand */
	bool failed;
};

static unsigned int u16_at(const unsigned char *p)
{
	return (unsigned int)p[0] << 8 | p[1];
}

/* The records are known to be whole and to hold enough. */
static unsigned int take(struct hello *hello)
{
	if (hello->failed || hello->left == 0) {
		hello->failed = true;
		return 0;
	}
	if (hello->record == 0) {
		hello->record = u16_at(hello->data + hello->at + 3);
		hello->at += RECORD_HEADER;
	}
	hello->record--;
	hello->left--;
	return hello->data[hello->at++];
}

static unsigned int take16(struct hello *hello)
{
	unsigned int high = take(hello);

	return high << 8 | take(hello);
}

/* Enters a field of len bytes; what is left of the outer one is given back for leave(). */
static size_t enter(struct hello *hello, size_t len)
{
	size_t outer;

	if (hello->failed || len > hello->left) {
		hello->failed = true;
		return 0;
	}
	outer = hello->left - len;
	hello->left = len;
	return outer;
}

/* A field must be read to its end. */
static void leave(struct hello *hello, size_t outer)
{
	hello->failed |= hello->left != 0;
	hello->left = outer;
}

static void skip(struct hello *hello, size_t len)
{
	size_t outer = enter(hello, len);

	while (!hello->failed && hello->left > 0)
		take(hello);
	leave(hello, outer);
}

/* The list of server names: one entry, of the one kind that there is. */
static const char *read_server_name(struct hello *hello, struct first_bytes *first)
{
	size_t list = enter(hello, take16(hello)), entry, len = 0;
	unsigned int kind = take(hello);
	char text[NAME_SIZE];

	entry = enter(hello, take16(hello));
	if (hello->failed || kind != NAME_TYPE_HOST || hello->left == 0 || hello->left >= NAME_SIZE)
		return "the server_name of the TLS hello is malformed";
	while (hello->left > 0)
		text[len++] = (char)take(hello);
	leave(hello, entry);
	leave(hello, list);
	if (hello->failed)
		return "the TLS hello has more than one server_name";
	/* A trailing dot is against RFC 6066, and servers differ in what they make of it. */
	if (text[len - 1] == '.' || name_read(text, len, first->name, &first->address) != NAME_HOST)
		return "the server_name of the TLS hello is not a host name";
	return NULL;
}

static const char *read_extension(struct hello *hello, unsigned int type, struct first_bytes *first)
{
	if (type == EXTENSION_NAME)
		return read_server_name(hello, first);
	if (type == EXTENSION_ECH || type == EXTENSION_ESNI)
		first->has_ech = true;
	skip(hello, hello->left);
	return NULL;
}

static bool was_seen(unsigned int type, unsigned int *seen, size_t *count)
{
	for (size_t i = 0; i < *count; i++)
		if (seen[i] == type)
			return true;
	seen[(*count)++] = type;
	return false;
}

static const char *read_extensions(struct hello *hello, struct first_bytes *first)
{
	unsigned int seen[EXTENSIONS_MAX];
	size_t count = 0;

	while (!hello->failed && hello->left > 0) {
		unsigned int type = take16(hello);
		size_t outer = enter(hello, take16(hello));
		const char *wrong;

		if (hello->failed)
			break;
		if (count == EXTENSIONS_MAX || was_seen(type, seen, &count))
			return "the TLS hello has an extension twice, or too many";
		wrong = read_extension(hello, type, first);
		if (wrong)
			return wrong;
		leave(hello, outer);
	}
	return hello->failed ? "the extensions of the TLS hello are malformed" : NULL;
}

/* The fields of a whole ClientHello. NULL, or what is wrong. */
static const char *read_hello(struct hello *hello, struct first_bytes *first)
{
	static const char malformed[] = "the TLS hello is malformed";
	unsigned int version = take16(hello);
	const char *wrong = NULL;
	size_t outer;

	skip(hello, 32);          /* random */
	skip(hello, take(hello)); /* session */
	skip(hello, take16(hello));
	skip(hello, take(hello)); /* compression */
	if (hello->failed || version >> 8 != 3)
		return malformed;
	if (hello->left > 0) {
		outer = enter(hello, take16(hello));
		wrong = hello->failed ? malformed : read_extensions(hello, first);
		leave(hello, outer);
	}
	if (!wrong && (hello->failed || hello->left != 0))
		return malformed;
	return wrong;
}

/*
 * The bytes of the handshake protocol in whole records, as far as the message needs them. Sets need
 * when a record is not there yet, wrong when one is not as it must be.
 */
struct records {
	size_t payload; /* handshake bytes in records that are whole */
	size_t message; /* of them, how many the first message has; 0 while not known */
	size_t need;
	const char *wrong;
};

/* The header of the record at p, which is whole. */
static const char *check_record(const unsigned char *p, size_t nth)
{
	if (p[0] != RECORD_HANDSHAKE)
		return "the TLS hello is broken off by another record";
	if (p[1] != 3)
		return "the TLS record has an unknown version";
	if (u16_at(p + 3) == 0 || u16_at(p + 3) > RECORD_MAX)
		return "the TLS record has a length that is not allowed";
	return nth >= FIRST_RECORDS_MAX ? "the TLS hello is split into too many records" : NULL;
}

/* The first four handshake bytes, which may be spread over four records. */
static void read_message_header(const unsigned char *data, struct records *records)
{
	struct hello hello = { .data = data, .left = MESSAGE_HEADER };
	unsigned int kind = take(&hello);
	size_t len = (size_t)take(&hello) << 16;

	len |= take16(&hello);
	if (kind != MESSAGE_HELLO)
		records->wrong = "the TLS handshake does not begin with a client hello";
	else if (len > FIRST_HELLO_MAX)
		records->wrong = "the TLS hello is too large";
	records->message = MESSAGE_HEADER + len;
}

static void walk_records(const unsigned char *data, size_t len, struct records *records)
{
	size_t at = 0;

	for (size_t nth = 0; !records->wrong; nth++) {
		size_t room = len - at, size;

		if (room < RECORD_HEADER) {
			records->need = at + RECORD_HEADER;
			return;
		}
		records->wrong = check_record(data + at, nth);
		if (records->wrong)
			return;
		size = u16_at(data + at + 3);
		if (room - RECORD_HEADER < size) {
			records->need = at + RECORD_HEADER + size;
			return;
		}
		at += RECORD_HEADER + size;
		records->payload += size;
		if (!records->message && records->payload >= MESSAGE_HEADER)
			read_message_header(data, records);
		if (records->message && records->payload >= records->message)
			return;
	}
}

void first_bytes_tls(const unsigned char *data, size_t len, struct first_bytes *first)
{
	struct records records = { 0 };
	struct hello hello = { .data = data };

	walk_records(data, len, &records);
	if (!records.wrong && records.need) {
		first_bytes_more(first, records.need);
		return;
	}
	/* What else stands in the hello's last record a server may take for a second hello. */
	if (!records.wrong && records.payload != records.message)
		records.wrong = "the TLS hello is followed by another message in its record";
	if (!records.wrong) {
		hello.left = records.message;
		skip(&hello, MESSAGE_HEADER);
		records.wrong = read_hello(&hello, first);
	}
	if (records.wrong)
		first_bytes_bad(first, records.wrong);
	else
		first->kind = first->name[0] ? FIRST_TLS : FIRST_TLS_NO_NAME;
}
