#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "proto/message.h"

/* The table once more, in another shape: who may send what. A change has to be made twice, and meant. */
#define C FROM_CLIENT
#define W FROM_WARDEN
#define I FROM_INIT
#define D FROM_DAEMON
#define F FROM_FORGE

static const struct expected {
	enum message_type type;
	const char *name;
	unsigned int from;
	const char *required, *optional; /* names, with spaces around them */
	const char *descriptors;         /* the numbers of them */
} expected[] = {
	{ MESSAGE_START, "START", C | W, " ARGUMENT ",
	  " VARIABLE DIRECTORY USER FLAGS ROWS COLUMNS LABEL LEFT ", "0123" },
	{ MESSAGE_STARTED, "STARTED", W | I, " PROCESS PID ", "", "01" },
	{ MESSAGE_EXITED, "EXITED", W | I, " STATUS ", " PROCESS DROPPED ", "0" },
	{ MESSAGE_STOPPED, "STOPPED", W | I, " PROCESS SIGNAL ", "", "0" },
	{ MESSAGE_ATTACH, "ATTACH", C | W, " PROCESS ", " FLAGS OFFSET ", "02" },
	{ MESSAGE_INPUT, "INPUT", C | W, " PROCESS DATA ", "", "0" },
	{ MESSAGE_INPUT_END, "INPUT_END", C | W, " PROCESS ", "", "0" },
	{ MESSAGE_SIGNAL, "SIGNAL", C | W, " PROCESS SIGNAL ", " FLAGS ", "0" },
	{ MESSAGE_RESIZE, "RESIZE", C | W, " PROCESS ROWS COLUMNS ", "", "0" },
	{ MESSAGE_PROCESSES, "PROCESSES", C | W, "", "", "0" },
	{ MESSAGE_PROCESS_IS, "PROCESS_IS", W | I, " PROCESS PID FLAGS TIME ",
	  " ARGUMENT STATUS USER SIZE DROPPED LABEL ENDED ", "0" },
	{ MESSAGE_USAGE, "USAGE", C | W, "", "", "0" },
	{ MESSAGE_USAGE_IS, "USAGE_IS", W | I, " COUNT_OF MEMORY CPU ",
	  " DISK DISK_SIZE PEAK LIMIT ", "0" },
	{ MESSAGE_STAT, "STAT", C | W, " PATH ", " USER FLAGS NAME BY_ROOT ", "0" },
	{ MESSAGE_LIST, "LIST", C | W, " PATH ", " USER DEPTH FLAGS NAME BY_ROOT ", "0" },
	{ MESSAGE_ENTRY, "ENTRY", W | I, " PATH MODE UID GID SIZE MODIFIED ",
	  " TARGET FLAGS TO LEADS VARIABLE ", "0" },
	{ MESSAGE_READ, "READ", C | W, " PATH ", " USER OFFSET SIZE BY_ROOT ", "01" },
	{ MESSAGE_WRITE, "WRITE", C | W, " PATH ",
	  " USER MODE FLAGS SIZE MODIFIED NAME VARIABLE BY_ROOT ", "01" },
	{ MESSAGE_MOVE, "MOVE", C | W, " PATH TO ", " USER FLAGS BY_ROOT ", "0" },
	{ MESSAGE_REMOVE, "REMOVE", C | W, " PATH ", " USER FLAGS BY_ROOT ", "0" },
	{ MESSAGE_MAKE, "MAKE", C | W, " PATH ", " USER MODE FLAGS TARGET MODIFIED BY_ROOT ", "0" },
	{ MESSAGE_WATCH, "WATCH", C | W, " PATH ", " USER FLAGS BY_ROOT ", "0" },
	{ MESSAGE_CHANGE_IS, "CHANGE_IS", W | I, " CHANGE PATH ", " TO MODE ", "0" },
	{ MESSAGE_ATTRIBUTES, "ATTRIBUTES", C | W, " PATH ", " USER ", "0" },
	{ MESSAGE_ATTRIBUTE_IS, "ATTRIBUTE_IS", W | I, " NAME DATA ", "", "0" },
	{ MESSAGE_ATTRIBUTE_SET, "ATTRIBUTE_SET", C | W, " PATH NAME ", " USER DATA ", "0" },
	{ MESSAGE_DIAL, "DIAL", C | W, " PORT ", "", "0" },
	{ MESSAGE_CONNECTED, "CONNECTED", W | I, "", "", "01" },
	{ MESSAGE_DATA, "DATA", C | W | I, " DATA ", " STREAM DROPPED ", "0" },
	{ MESSAGE_DATA_END, "DATA_END", C | W | I, "", " STREAM ", "0" },
	{ MESSAGE_CREDIT, "CREDIT", C | W | I, " SIZE ", "", "0" },
	{ MESSAGE_CANCEL, "CANCEL", C | W, "", "", "0" },
	{ MESSAGE_DONE, "DONE", W | I, "", " SIZE DROPPED PATH ", "0" },
	{ MESSAGE_ERROR, "ERROR", W | I | F, " CODE TEXT ", "", "0" },
	{ MESSAGE_STATUS, "STATUS", C, "", "", "0" },
	{ MESSAGE_STATUS_IS, "STATUS_IS", W, " STATE TIME ",
	  " LEFT CPU MEMORY PEAK LIMIT COUNT_OF DISK DISK_SIZE NAME HITS ", "0" },
	{ MESSAGE_PAUSE, "PAUSE", C, "", "", "0" },
	{ MESSAGE_RESUME, "RESUME", C, "", "", "0" },
	{ MESSAGE_EXTEND, "EXTEND", C, " LEFT ", "", "0" },
	{ MESSAGE_KILL, "KILL", C, "", "", "0" },
	{ MESSAGE_HOLD, "HOLD", C, "", "", "0" },
	{ MESSAGE_HELD, "HELD", W, "", "", "1" },
	{ MESSAGE_PORT, "PORT", C, " PORT ", "", "1" },
	{ MESSAGE_PORTS, "PORTS", C, "", "", "0" },
	{ MESSAGE_PORT_IS, "PORT_IS", W, " PORT TEXT ", "", "0" },
	{ MESSAGE_NETWORK, "NETWORK", C, "", " ALLOW DENY ", "0" },
	{ MESSAGE_READY, "READY", I, "", "", "0" },
	{ MESSAGE_FORGE, "FORGE", D, " ARGUMENT ", "", "0" },
	{ MESSAGE_FORGED, "FORGED", F, " TEXT ", "", "0" },
};

#define NUMBER(name) [FIELD_##name] = { " " #name " ", 'n' }
#define TEXT(name)   [FIELD_##name] = { " " #name " ", 't' }
#define MANY(name)   [FIELD_##name] = { " " #name " ", 'r' }
#define BYTES(name)  [FIELD_##name] = { " " #name " ", 'b' }

static const struct {
	const char *name;
	char kind; /* number, text, repeated text, bytes */
} fields[FIELD_COUNT] = {
	MANY(ARGUMENT),   MANY(VARIABLE),  TEXT(DIRECTORY),   TEXT(USER),       NUMBER(FLAGS),
	NUMBER(ROWS),     NUMBER(COLUMNS), NUMBER(PROCESS),   NUMBER(PID),      NUMBER(SIGNAL),
	NUMBER(STATUS),   NUMBER(STREAM),  BYTES(DATA),       NUMBER(DROPPED),  TEXT(PATH),
	TEXT(TO),         TEXT(TARGET),    NUMBER(DEPTH),     NUMBER(OFFSET),   NUMBER(SIZE),
	NUMBER(MODE),     NUMBER(UID),     NUMBER(GID),       NUMBER(MODIFIED), TEXT(NAME),
	NUMBER(CHANGE),   NUMBER(PORT),    NUMBER(CODE),      TEXT(TEXT),       NUMBER(STATE),
	NUMBER(TIME),     NUMBER(LEFT),    NUMBER(CPU),       NUMBER(MEMORY),   NUMBER(PEAK),
	NUMBER(COUNT_OF), NUMBER(DISK),    NUMBER(DISK_SIZE), NUMBER(LIMIT),    NUMBER(LEADS),
	NUMBER(BY_ROOT),  NUMBER(HITS),    NUMBER(ENDED),     TEXT(LABEL),      MANY(ALLOW),
	MANY(DENY),
};

static void add(struct draft *d, unsigned int field)
{
	if (fields[field].kind == 'n')
		draft_number(d, (enum field)field, 0x0102030405060708);
	else if (fields[field].kind == 'b')
		draft_bytes(d, (enum field)field, "\0\xff", 2);
	else
		draft_text(d, (enum field)field, "a text");
}

static bool is_in(const char *names, unsigned int field)
{
	return strstr(names, fields[field].name) != NULL;
}

static struct draft smallest(const struct expected *e, unsigned int but)
{
	struct draft d = DRAFT(e->type, 1);

	for (unsigned int field = 1; field < FIELD_COUNT; field++)
		if (field != but && is_in(e->required, field))
			add(&d, field);
	return d;
}

static const char *check(const struct draft *d, unsigned int speaker, size_t descriptors)
{
	const char *why = "not set";
	int r = message_check(d->type, (enum speaker)speaker,
			      (const unsigned char *)buf_text(&d->fields), d->fields.len,
			      descriptors, &why);

	assert_int_equal(r, why ? -EPROTO : 0);
	return why;
}

static unsigned int someone(const struct expected *e)
{
	/* The lowest bit. */
	return e->from & -e->from;
}

static size_t few(const struct expected *e)
{
	return (size_t)(e->descriptors[0] - '0');
}

static void every_type_is_known(void **state)
{
	bool seen[MESSAGE_TYPE_COUNT] = { 0 };

	(void)state;
	assert_int_equal(ARRAY_SIZE(expected), MESSAGE_TYPE_COUNT - 1);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_false(seen[expected[i].type]);
		seen[expected[i].type] = true;
		assert_string_equal(message_name(expected[i].type), expected[i].name);
	}
	assert_string_equal(message_name(0), "?");
	assert_string_equal(message_name(MESSAGE_TYPE_COUNT), "?");
	assert_string_equal(message_name(~0u), "?");
	for (unsigned int field = 1; field < FIELD_COUNT; field++)
		assert_non_null(fields[field].name);
}

static void who_may_send(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		struct draft d = smallest(&expected[i], 0);

		for (unsigned int speaker = C; speaker <= F; speaker *= 2) {
			bool may = expected[i].from & speaker;
			const char *why = check(&d, speaker, few(&expected[i]));

			assert_int_equal(message_is_from(d.type, (enum speaker)speaker), may);
			if (may)
				assert_null(why);
			else
				assert_string_equal(why, "a message that is not for it to send");
		}
		draft_done(&d);
	}
	assert_false(message_is_from(0, FROM_CLIENT));
	assert_false(message_is_from(MESSAGE_TYPE_COUNT, FROM_CLIENT));
	assert_false(message_is_from(0xffff, FROM_INIT));
}

static void how_many_descriptors(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		struct draft d = smallest(&expected[i], 0);

		for (size_t count = 0; count <= 2 * MESSAGE_DESCRIPTORS; count++) {
			const char *why = check(&d, someone(&expected[i]), count);

			if (strchr(expected[i].descriptors, (char)('0' + count)))
				assert_null(why);
			else
				assert_string_equal(why,
						    "descriptors where none belong, or too few");
		}
		/* Shifted by that many, a set would look as if it had it. */
		assert_non_null(check(&d, someone(&expected[i]), 64));
		assert_non_null(check(&d, someone(&expected[i]), 255));
		draft_done(&d);
	}
}

static void what_is_required(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		for (unsigned int field = 1; field < FIELD_COUNT; field++) {
			struct draft d = smallest(&expected[i], field);
			const char *why = check(&d, someone(&expected[i]), few(&expected[i]));

			if (is_in(expected[i].required, field))
				assert_string_equal(why, "a field is missing");
			else
				assert_null(why);
			draft_done(&d);
		}
}

static void what_is_allowed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		for (unsigned int field = 1; field < FIELD_COUNT; field++) {
			const struct expected *e = &expected[i];
			struct draft d = smallest(e, 0);
			bool is_required = is_in(e->required, field);
			const char *why;

			add(&d, field);
			why = check(&d, someone(e), few(e));
			if (!is_required && !is_in(e->optional, field))
				assert_string_equal(why, "a field that does not belong there");
			else if (is_required && fields[field].kind != 'r')
				assert_string_equal(why, "a field twice");
			else
				assert_null(why);
			draft_done(&d);
		}
}

static const char *check_bytes(unsigned int type, const char *bytes, size_t len)
{
	struct draft d = DRAFT((enum message_type)type, 1);
	const char *why;

	buf_add(&d.fields, bytes, len);
	why = check(&d, FROM_CLIENT, 0);
	draft_done(&d);
	return why;
}

#define CHECK(type, bytes) check_bytes(MESSAGE_##type, bytes, sizeof(bytes) - 1)

static void fields_that_are_none(void **state)
{
	(void)state;
	_Static_assert(FIELD_PORT < 256 && FIELD_PATH < 256, "one byte below");
	for (size_t len = 1; len < 6; len++)
		assert_string_equal(check_bytes(MESSAGE_PAUSE, "\x1b\0\0\0\0\0", len),
				    "a field that is cut off");
	assert_string_equal(CHECK(PAUSE, "\x1b\0\x01\0\0\0"), "a field that is cut off");
	assert_string_equal(CHECK(PAUSE, "\x1b\0\xff\xff\xff\xff"
					 "12345678"),
			    "a field that is cut off");
	assert_string_equal(CHECK(PAUSE, "\0\0\0\0\0\0"), "a field that does not belong there");
	assert_string_equal(CHECK(PAUSE, "\xff\xff\0\0\0\0"), "a field that does not belong there");
	/* 64 more than one that may be there. */
	assert_string_equal(CHECK(DIAL, "\x5b\0\x08\0\0\0"
					"12345678"),
			    "a field that does not belong there");
	assert_string_equal(CHECK(DIAL, "\x1b\0\x07\0\0\0"
					"1234567"),
			    "a number that is none");
	assert_string_equal(CHECK(DIAL, "\x1b\0\x09\0\0\0"
					"123456789"),
			    "a number that is none");
	assert_string_equal(CHECK(DIAL, "\x1b\0\0\0\0\0"), "a number that is none");
	assert_null(CHECK(DIAL, "\x1b\0\x08\0\0\0"
				"12345678"));
	assert_string_equal(CHECK(STAT, "\x0f\0\0\0\0\0"), "a text that is none");
	assert_string_equal(CHECK(STAT, "\x0f\0\x01\0\0\0a"), "a text that is none");
	assert_string_equal(CHECK(STAT, "\x0f\0\x02\0\0\0\0\0"), "a text that is none");
	assert_string_equal(CHECK(STAT, "\x0f\0\x04\0\0\0a\0b\0"), "a text that is none");
	assert_null(CHECK(STAT, "\x0f\0\x01\0\0\0\0"));
	assert_null(CHECK(STAT, "\x0f\0\x02\0\0\0a\0"));
	/* A good one before it does not help. */
	assert_string_equal(CHECK(STAT, "\x0f\0\x02\0\0\0a\0\x0f\0\x02\0\0\0a\0"), "a field twice");
	assert_string_equal(CHECK(STAT, "\x0f\0\x02\0\0\0a\0\x05\0\x08\0"),
			    "a field that is cut off");
}

static struct message received(const struct draft *d)
{
	return (struct message){ .type = d->type,
				 .call = d->call,
				 .fields = (const unsigned char *)d->fields.data,
				 .len = d->fields.len };
}

static void what_was_put_in_comes_out(void **state)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_START, 7),
					   copy = DRAFT(MESSAGE_START, 8);
	struct message m;
	size_t at = 0, len = 99;

	(void)state;
	draft_text(&d, FIELD_ARGUMENT, "one");
	draft_number(&d, FIELD_ROWS, UINT64_MAX);
	draft_text(&d, FIELD_ARGUMENT, "");
	draft_text(&d, FIELD_USER, NULL);
	draft_bytes(&d, FIELD_DATA, "\0x", 2);
	draft_text(&d, FIELD_ARGUMENT, "three");
	draft_number(&d, FIELD_COLUMNS, 0x0807060504030201);
	assert_int_equal(buf_failed(&d.fields), 0);
	m = received(&d);
	assert_string_equal(message_text(&m, FIELD_ARGUMENT, NULL), "one");
	assert_string_equal(message_next_text(&m, FIELD_ARGUMENT, &at), "one");
	assert_string_equal(message_next_text(&m, FIELD_ARGUMENT, &at), "");
	assert_string_equal(message_next_text(&m, FIELD_ARGUMENT, &at), "three");
	assert_null(message_next_text(&m, FIELD_ARGUMENT, &at));
	assert_true(message_number(&m, FIELD_ROWS, 1) == UINT64_MAX);
	assert_true(message_number(&m, FIELD_COLUMNS, 1) == 0x0807060504030201);
	assert_true(message_number(&m, FIELD_FLAGS, 5) == 5);
	assert_null(message_text(&m, FIELD_USER, NULL));
	assert_string_equal(message_text(&m, FIELD_USER, "none"), "none");
	assert_false(message_has(&m, FIELD_USER));
	assert_true(message_has(&m, FIELD_DATA));
	assert_memory_equal(message_bytes(&m, FIELD_DATA, &len), "\0x", 2);
	assert_int_equal(len, 2);
	assert_null(message_bytes(&m, FIELD_PATH, &len));
	assert_int_equal(len, 0);
	/* Little-endian, wherever it is built. */
	assert_memory_equal(d.fields.data + d.fields.len - 14,
			    "\x07\0\x08\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08", 14);
	draft_copy(&copy, &m);
	assert_int_equal(copy.fields.len, d.fields.len);
	assert_memory_equal(copy.fields.data, d.fields.data, d.fields.len);
}

static void too_long_sticks(void **state)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DATA, 7);
	static char much[MESSAGE_MAX];

	(void)state;
	draft_bytes(&d, FIELD_DATA, much, sizeof(much) - 6);
	assert_int_equal(buf_failed(&d.fields), 0);
	draft_number(&d, FIELD_STREAM, 1);
	assert_int_equal(buf_failed(&d.fields), -ENOSPC);
}

static void descriptors_have_one_owner(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct message m = { .descriptors = { fd, other }, .descriptor_count = 2 };

	(void)state;
	assert_int_equal(message_take_descriptor(&m, 1), other);
	assert_int_equal(message_take_descriptor(&m, 1), -EBADF);
	assert_int_equal(message_take_descriptor(&m, 2), -EBADF);
	message_done(&m);
	message_done(&m);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_not_equal(fcntl(other, F_GETFD), -1);
	close(other);
}

static void states_have_names(void **state)
{
	(void)state;
	for (int i = 0; i < SEEN_COUNT; i++)
		assert_non_null(change_seen_names[i]);
	for (int i = 0; i < STATE_COUNT; i++)
		assert_non_null(sandbox_state_names[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_is_known),
		cmocka_unit_test(who_may_send),
		cmocka_unit_test(how_many_descriptors),
		cmocka_unit_test(what_is_required),
		cmocka_unit_test(what_is_allowed),
		cmocka_unit_test(fields_that_are_none),
		cmocka_unit_test(what_was_put_in_comes_out),
		cmocka_unit_test(too_long_sticks),
		cmocka_unit_test(descriptors_have_one_owner),
		cmocka_unit_test(states_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
