#include "unit.h"

#include "base/macro.h"
#include "proto/answer.h"

/* A conversation as it may go, to its end: the last answer ends the call, and no other does. */
static const struct {
	enum message_type call, answers[5];
} stories[] = {
	{ MESSAGE_START, { MESSAGE_STARTED, MESSAGE_STOPPED, MESSAGE_EXITED } },
	{ MESSAGE_START, { MESSAGE_STARTED, MESSAGE_ERROR } },
	{ MESSAGE_START, { MESSAGE_ERROR } },
	{ MESSAGE_ATTACH, { MESSAGE_DATA, MESSAGE_DATA_END, MESSAGE_EXITED } },
	{ MESSAGE_ATTACH, { MESSAGE_DATA, MESSAGE_DONE } },
	{ MESSAGE_INPUT, { MESSAGE_DONE } },
	{ MESSAGE_SIGNAL, { MESSAGE_DONE } },
	{ MESSAGE_PROCESSES, { MESSAGE_PROCESS_IS, MESSAGE_PROCESS_IS, MESSAGE_DONE } },
	{ MESSAGE_USAGE, { MESSAGE_USAGE_IS } },
	{ MESSAGE_STAT, { MESSAGE_ENTRY } },
	{ MESSAGE_LIST, { MESSAGE_ENTRY, MESSAGE_ENTRY, MESSAGE_DONE } },
	{ MESSAGE_READ, { MESSAGE_DATA, MESSAGE_DATA_END, MESSAGE_DONE } },
	{ MESSAGE_WRITE, { MESSAGE_CREDIT, MESSAGE_DONE } },
	{ MESSAGE_MOVE, { MESSAGE_DONE } },
	{ MESSAGE_WATCH, { MESSAGE_DONE, MESSAGE_CHANGE_IS, MESSAGE_CHANGE_IS, MESSAGE_DONE } },
	{ MESSAGE_ATTRIBUTES, { MESSAGE_ATTRIBUTE_IS, MESSAGE_DONE } },
	{ MESSAGE_DIAL, { MESSAGE_CONNECTED, MESSAGE_DATA, MESSAGE_DATA_END, MESSAGE_DONE } },
	{ MESSAGE_STATUS, { MESSAGE_STATUS_IS } },
	{ MESSAGE_PAUSE, { MESSAGE_DONE } },
	{ MESSAGE_EXTEND, { MESSAGE_ERROR } },
	{ MESSAGE_KILL, { MESSAGE_DONE } },
	{ MESSAGE_PORT, { MESSAGE_DONE } },
	{ MESSAGE_PORTS, { MESSAGE_PORT_IS, MESSAGE_DONE } },
	{ MESSAGE_FORGE, { MESSAGE_FORGED } },
};

static void each_story_ends_where_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(stories); i++) {
		struct answering call = { .type = stories[i].call };

		for (size_t j = 0; stories[i].answers[j]; j++) {
			const struct message m = { .type = stories[i].answers[j] };
			bool is_last = j + 1 == ARRAY_SIZE(stories[i].answers) ||
				       !stories[i].answers[j + 1];

			assert_true(answer_fits(&call, &m));
			assert_int_equal(answer_is_last(&call, &m), is_last);
		}
	}
}

static void what_does_not_fit(void **state)
{
	static const struct {
		enum message_type call, answer;
		bool is_confirmed;
	} rows[] = {
		{ MESSAGE_START, MESSAGE_STARTED, true }, { MESSAGE_START, MESSAGE_EXITED, false },
		{ MESSAGE_START, MESSAGE_DONE, true },    { MESSAGE_STAT, MESSAGE_DONE, false },
		{ MESSAGE_STAT, MESSAGE_DATA, false },    { MESSAGE_KILL, MESSAGE_EXITED, false },
		{ MESSAGE_PAUSE, MESSAGE_HELD, false },   { MESSAGE_HOLD, MESSAGE_DONE, false },
		{ MESSAGE_STATUS, MESSAGE_DONE, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct answering call = { .type = rows[i].call,
						.is_confirmed = rows[i].is_confirmed };
		const struct message m = { .type = rows[i].answer };

		assert_false(answer_fits(&call, &m));
	}
}

/* A connection that comes as a descriptor says nothing more; what is held is held until CANCEL. */
static void descriptors(void **state)
{
	const struct message connected = { .type = MESSAGE_CONNECTED, .descriptor_count = 1 };
	const struct message held = { .type = MESSAGE_HELD, .descriptor_count = 1 };
	struct answering dial = { .type = MESSAGE_DIAL }, hold = { .type = MESSAGE_HOLD };

	(void)state;
	assert_true(answer_is_last(&dial, &connected));
	assert_true(answer_fits(&hold, &held));
	assert_false(answer_is_last(&hold, &held));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_story_ends_where_it_should),
		cmocka_unit_test(what_does_not_fit),
		cmocka_unit_test(descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
