#include "proto/message.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"

#define FIELD_HEADER 6

#define F(name) ((uint64_t)1 << FIELD_##name)

/* How a field looks, whichever message it is in. */
static const struct {
	enum field_kind kind;
	bool is_repeated;
} kinds[FIELD_COUNT] = {
	[FIELD_ARGUMENT] = { .kind = KIND_TEXT, .is_repeated = true },
	[FIELD_VARIABLE] = { .kind = KIND_TEXT, .is_repeated = true },
	[FIELD_DIRECTORY] = { .kind = KIND_TEXT },
	[FIELD_USER] = { .kind = KIND_TEXT },
	[FIELD_DATA] = { .kind = KIND_BYTES },
	[FIELD_PATH] = { .kind = KIND_TEXT },
	[FIELD_TO] = { .kind = KIND_TEXT },
	[FIELD_TARGET] = { .kind = KIND_TEXT },
	[FIELD_NAME] = { .kind = KIND_TEXT },
	[FIELD_TEXT] = { .kind = KIND_TEXT },
	[FIELD_LABEL] = { .kind = KIND_TEXT },
	[FIELD_ALLOW] = { .kind = KIND_TEXT, .is_repeated = true },
	[FIELD_DENY] = { .kind = KIND_TEXT, .is_repeated = true },
};

#define ASKED    (FROM_CLIENT | FROM_WARDEN) /* by a client, of init, through the warden */
#define ANSWERED (FROM_INIT | FROM_WARDEN)   /* the same way back */
#define ALL      (FROM_CLIENT | FROM_WARDEN | FROM_INIT)

/* One row for each type: who may send it, with which fields, and with how many descriptors. */
static const struct row {
	const char *name;
	unsigned int from;
	uint64_t required, optional;
	unsigned int descriptors; /* as a bit set: 1 << 0 for none, 1 << 3 for three */
} rows[MESSAGE_TYPE_COUNT] = {
	[MESSAGE_START] = { "START", ASKED, F(ARGUMENT),
			    F(VARIABLE) | F(DIRECTORY) | F(USER) | F(FLAGS) | F(ROWS) | F(COLUMNS) |
				    F(LABEL) | F(LEFT),
			    1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 },
	[MESSAGE_STARTED] = { "STARTED", ANSWERED, F(PROCESS) | F(PID), 0, 1 << 0 | 1 << 1 },
	[MESSAGE_EXITED] = { "EXITED", ANSWERED, F(STATUS), F(PROCESS) | F(DROPPED), 1 << 0 },
	[MESSAGE_STOPPED] = { "STOPPED", ANSWERED, F(PROCESS) | F(SIGNAL), 0, 1 << 0 },
	[MESSAGE_ATTACH] = { "ATTACH", ASKED, F(PROCESS), F(FLAGS) | F(OFFSET), 1 << 0 | 1 << 2 },
	[MESSAGE_INPUT] = { "INPUT", ASKED, F(PROCESS) | F(DATA), 0, 1 << 0 },
	[MESSAGE_INPUT_END] = { "INPUT_END", ASKED, F(PROCESS), 0, 1 << 0 },
	[MESSAGE_SIGNAL] = { "SIGNAL", ASKED, F(PROCESS) | F(SIGNAL), F(FLAGS), 1 << 0 },
	[MESSAGE_RESIZE] = { "RESIZE", ASKED, F(PROCESS) | F(ROWS) | F(COLUMNS), 0, 1 << 0 },
	[MESSAGE_PROCESSES] = { "PROCESSES", ASKED, 0, 0, 1 << 0 },
	[MESSAGE_PROCESS_IS] = { "PROCESS_IS", ANSWERED, F(PROCESS) | F(PID) | F(FLAGS) | F(TIME),
				 F(ARGUMENT) | F(STATUS) | F(USER) | F(SIZE) | F(DROPPED) |
					 F(LABEL) | F(ENDED),
				 1 << 0 },
	[MESSAGE_USAGE] = { "USAGE", ASKED, 0, 0, 1 << 0 },
	[MESSAGE_USAGE_IS] = { "USAGE_IS", ANSWERED, F(COUNT_OF) | F(MEMORY) | F(CPU),
			       F(DISK) | F(DISK_SIZE) | F(PEAK) | F(LIMIT), 1 << 0 },
	[MESSAGE_STAT] = { "STAT", ASKED, F(PATH), F(USER) | F(FLAGS) | F(NAME) | F(BY_ROOT),
			   1 << 0 },
	[MESSAGE_LIST] = { "LIST", ASKED, F(PATH),
			   F(USER) | F(DEPTH) | F(FLAGS) | F(NAME) | F(BY_ROOT), 1 << 0 },
	[MESSAGE_ENTRY] = { "ENTRY", ANSWERED,
			    F(PATH) | F(MODE) | F(UID) | F(GID) | F(SIZE) | F(MODIFIED),
			    F(TARGET) | F(FLAGS) | F(TO) | F(LEADS) | F(VARIABLE), 1 << 0 },
	[MESSAGE_READ] = { "READ", ASKED, F(PATH), F(USER) | F(OFFSET) | F(SIZE) | F(BY_ROOT),
			   1 << 0 | 1 << 1 },
	[MESSAGE_WRITE] = { "WRITE", ASKED, F(PATH),
			    F(USER) | F(MODE) | F(FLAGS) | F(SIZE) | F(MODIFIED) | F(NAME) |
				    F(VARIABLE) | F(BY_ROOT),
			    1 << 0 | 1 << 1 },
	[MESSAGE_MOVE] = { "MOVE", ASKED, F(PATH) | F(TO), F(USER) | F(FLAGS) | F(BY_ROOT),
			   1 << 0 },
	[MESSAGE_REMOVE] = { "REMOVE", ASKED, F(PATH), F(USER) | F(FLAGS) | F(BY_ROOT), 1 << 0 },
	[MESSAGE_MAKE] = { "MAKE", ASKED, F(PATH),
			   F(USER) | F(MODE) | F(FLAGS) | F(TARGET) | F(MODIFIED) | F(BY_ROOT),
			   1 << 0 },
	[MESSAGE_WATCH] = { "WATCH", ASKED, F(PATH), F(USER) | F(FLAGS) | F(BY_ROOT), 1 << 0 },
	[MESSAGE_CHANGE_IS] = { "CHANGE_IS", ANSWERED, F(CHANGE) | F(PATH), F(TO) | F(MODE),
				1 << 0 },
	[MESSAGE_ATTRIBUTES] = { "ATTRIBUTES", ASKED, F(PATH), F(USER), 1 << 0 },
	[MESSAGE_ATTRIBUTE_IS] = { "ATTRIBUTE_IS", ANSWERED, F(NAME) | F(DATA), 0, 1 << 0 },
	[MESSAGE_ATTRIBUTE_SET] = { "ATTRIBUTE_SET", ASKED, F(PATH) | F(NAME), F(USER) | F(DATA),
				    1 << 0 },
	[MESSAGE_DIAL] = { "DIAL", ASKED, F(PORT), 0, 1 << 0 },
	[MESSAGE_CONNECTED] = { "CONNECTED", ANSWERED, 0, 0, 1 << 0 | 1 << 1 },
	[MESSAGE_DATA] = { "DATA", ALL, F(DATA), F(STREAM) | F(DROPPED), 1 << 0 },
	[MESSAGE_DATA_END] = { "DATA_END", ALL, 0, F(STREAM), 1 << 0 },
	[MESSAGE_CREDIT] = { "CREDIT", ALL, F(SIZE), 0, 1 << 0 },
	[MESSAGE_CANCEL] = { "CANCEL", ASKED, 0, 0, 1 << 0 },
	[MESSAGE_DONE] = { "DONE", ANSWERED, 0, F(SIZE) | F(DROPPED) | F(PATH), 1 << 0 },
	[MESSAGE_ERROR] = { "ERROR", ANSWERED | FROM_FORGE, F(CODE) | F(TEXT), 0, 1 << 0 },
	[MESSAGE_STATUS] = { "STATUS", FROM_CLIENT, 0, 0, 1 << 0 },
	[MESSAGE_STATUS_IS] = { "STATUS_IS", FROM_WARDEN, F(STATE) | F(TIME),
				F(LEFT) | F(CPU) | F(MEMORY) | F(PEAK) | F(LIMIT) | F(COUNT_OF) |
					F(DISK) | F(DISK_SIZE) | F(NAME) | F(HITS),
				1 << 0 },
	[MESSAGE_PAUSE] = { "PAUSE", FROM_CLIENT, 0, 0, 1 << 0 },
	[MESSAGE_RESUME] = { "RESUME", FROM_CLIENT, 0, 0, 1 << 0 },
	[MESSAGE_EXTEND] = { "EXTEND", FROM_CLIENT, F(LEFT), 0, 1 << 0 },
	[MESSAGE_KILL] = { "KILL", FROM_CLIENT, 0, 0, 1 << 0 },
	[MESSAGE_HOLD] = { "HOLD", FROM_CLIENT, 0, 0, 1 << 0 },
	[MESSAGE_HELD] = { "HELD", FROM_WARDEN, 0, 0, 1 << 1 },
	[MESSAGE_PORT] = { "PORT", FROM_CLIENT, F(PORT), 0, 1 << 1 },
	[MESSAGE_PORTS] = { "PORTS", FROM_CLIENT, 0, 0, 1 << 0 },
	[MESSAGE_PORT_IS] = { "PORT_IS", FROM_WARDEN, F(PORT) | F(TEXT), 0, 1 << 0 },
	[MESSAGE_NETWORK] = { "NETWORK", FROM_CLIENT, 0, F(ALLOW) | F(DENY), 1 << 0 },
	[MESSAGE_READY] = { "READY", FROM_INIT, 0, 0, 1 << 0 },
	[MESSAGE_FORGE] = { "FORGE", FROM_DAEMON, F(ARGUMENT), 0, 1 << 0 },
	[MESSAGE_FORGED] = { "FORGED", FROM_FORGE, F(TEXT), 0, 1 << 0 },
};

const char *const change_seen_names[SEEN_COUNT] = {
	[SEEN_MADE] = "made",   [SEEN_CHANGED] = "changed",       [SEEN_REMOVED] = "removed",
	[SEEN_MOVED] = "moved", [SEEN_ATTRIBUTES] = "attributes", [SEEN_LOST] = "lost",
	[SEEN_GONE] = "gone",
};

const char *const sandbox_state_names[STATE_COUNT] = {
	[STATE_RUNNING] = "running",
	[STATE_PAUSED] = "paused",
	[STATE_ENDING] = "ending",
};

static uint64_t load(const unsigned char *p, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = bytes; i-- > 0;)
		value = value << 8 | p[i];
	return value;
}

static void store(unsigned char *p, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++, value >>= 8)
		p[i] = (unsigned char)value;
}

const char *message_name(unsigned int type)
{
	return type < MESSAGE_TYPE_COUNT && rows[type].name ? rows[type].name : "?";
}

bool message_is_from(unsigned int type, enum speaker speaker)
{
	return type < MESSAGE_TYPE_COUNT && (rows[type].from & speaker);
}

struct piece {
	unsigned int field;
	const unsigned char *content;
	size_t len;
};

/* The field at *at. False at the end, and where the rest is none; then *at is not the length. */
static bool next_piece(const unsigned char *fields, size_t len, size_t *at, struct piece *ret_piece)
{
	size_t size;

	if (len - *at < FIELD_HEADER)
		return false;
	size = load(fields + *at + 2, 4);
	if (size > len - *at - FIELD_HEADER)
		return false;
	*ret_piece = (struct piece){ .field = (unsigned int)load(fields + *at, 2),
				     .content = fields + *at + FIELD_HEADER,
				     .len = size };
	*at += FIELD_HEADER + size;
	return true;
}

static const char *find_fault(const struct piece *piece, const struct row *row, uint64_t seen)
{
	if (piece->field == 0 || piece->field >= FIELD_COUNT ||
	    !((row->required | row->optional) >> piece->field & 1))
		return "a field that does not belong there";
	if ((seen >> piece->field & 1) && !kinds[piece->field].is_repeated)
		return "a field twice";
	if (kinds[piece->field].kind == KIND_NUMBER && piece->len != 8)
		return "a number that is none";
	if (kinds[piece->field].kind == KIND_TEXT &&
	    (piece->len == 0 ||
	     memchr(piece->content, '\0', piece->len) != piece->content + piece->len - 1))
		return "a text that is none";
	return NULL;
}

int message_check(unsigned int type, enum speaker speaker, const unsigned char *fields, size_t len,
		  size_t descriptors, const char **ret_why)
{
	const struct row *row = &rows[type < MESSAGE_TYPE_COUNT ? type : 0];
	struct piece piece;
	uint64_t seen = 0;
	size_t at = 0;

	*ret_why = NULL;
	if (!message_is_from(type, speaker))
		*ret_why = "a message that is not for it to send";
	else if (descriptors > MESSAGE_DESCRIPTORS || !(row->descriptors >> descriptors & 1))
		*ret_why = "descriptors where none belong, or too few";
	while (!*ret_why && at < len) {
		if (!next_piece(fields, len, &at, &piece))
			*ret_why = "a field that is cut off";
		else
			*ret_why = find_fault(&piece, row, seen);
		if (!*ret_why)
			seen |= (uint64_t)1 << piece.field;
	}
	if (!*ret_why && (row->required & ~seen))
		*ret_why = "a field is missing";
	return *ret_why ? -EPROTO : 0;
}

static bool find(const struct message *m, enum field field, size_t *at, struct piece *ret_piece)
{
	while (next_piece(m->fields, m->len, at, ret_piece))
		if (ret_piece->field == field)
			return true;
	return false;
}

bool message_has(const struct message *m, enum field field)
{
	struct piece piece;
	size_t at = 0;

	return find(m, field, &at, &piece);
}

uint64_t message_number(const struct message *m, enum field field, uint64_t fallback)
{
	struct piece piece;
	size_t at = 0;

	return find(m, field, &at, &piece) ? load(piece.content, 8) : fallback;
}

const char *message_text(const struct message *m, enum field field, const char *fallback)
{
	size_t at = 0;

	return message_next_text(m, field, &at) ?: fallback;
}

const void *message_bytes(const struct message *m, enum field field, size_t *ret_len)
{
	struct piece piece;
	size_t at = 0;

	*ret_len = 0;
	if (!find(m, field, &at, &piece))
		return NULL;
	*ret_len = piece.len;
	return piece.content;
}

const char *message_next_text(const struct message *m, enum field field, size_t *at)
{
	struct piece piece;

	return find(m, field, at, &piece) ? (const char *)piece.content : NULL;
}

int message_take_descriptor(struct message *m, size_t index)
{
	return index < m->descriptor_count ? take_fd(&m->descriptors[index]) : -EBADF;
}

void message_done(struct message *m)
{
	for (size_t i = 0; i < m->descriptor_count; i++)
		fd_close(m->descriptors[i]);
	m->descriptor_count = 0;
}

void draft_bytes(struct draft *d, enum field field, const void *data, size_t len)
{
	unsigned char header[FIELD_HEADER];

	store(header, field, 2);
	store(header + 2, len, 4);
	buf_add(&d->fields, header, sizeof(header));
	buf_add(&d->fields, data, len);
}

void draft_number(struct draft *d, enum field field, uint64_t value)
{
	unsigned char bytes[8];

	store(bytes, value, sizeof(bytes));
	draft_bytes(d, field, bytes, sizeof(bytes));
}

void draft_text(struct draft *d, enum field field, const char *text)
{
	if (text)
		draft_bytes(d, field, text, strlen(text) + 1);
}

void draft_copy(struct draft *d, const struct message *m)
{
	buf_add(&d->fields, m->fields, m->len);
}

void draft_done(struct draft *d)
{
	buf_done(&d->fields);
}
