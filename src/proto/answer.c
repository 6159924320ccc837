#include "proto/answer.h"

#define BIT(type) ((uint64_t)1 << MESSAGE_##type)
_Static_assert(MESSAGE_TYPE_COUNT <= 64, "types fit a bit set");

/* What each call may be answered with, besides ERROR, and which of these ends it. */
static const struct kind {
	uint64_t answers, last;
} kinds[MESSAGE_TYPE_COUNT] = {
	[MESSAGE_START] = { BIT(STARTED) | BIT(STOPPED) | BIT(DATA) | BIT(EXITED), BIT(EXITED) },
	[MESSAGE_ATTACH] = { BIT(DATA) | BIT(DATA_END) | BIT(DONE) | BIT(EXITED),
			     BIT(DONE) | BIT(EXITED) },
	[MESSAGE_PROCESSES] = { BIT(PROCESS_IS) | BIT(DONE), BIT(DONE) },
	[MESSAGE_USAGE] = { BIT(USAGE_IS), BIT(USAGE_IS) },
	[MESSAGE_STAT] = { BIT(ENTRY), BIT(ENTRY) },
	[MESSAGE_LIST] = { BIT(ENTRY) | BIT(DONE), BIT(DONE) },
	[MESSAGE_READ] = { BIT(DATA) | BIT(DATA_END) | BIT(DONE), BIT(DONE) },
	[MESSAGE_WRITE] = { BIT(CREDIT) | BIT(DONE), BIT(DONE) },
	/* The first DONE says that it watches. */
	[MESSAGE_WATCH] = { BIT(DONE) | BIT(CHANGE_IS), BIT(DONE) },
	[MESSAGE_ATTRIBUTES] = { BIT(ATTRIBUTE_IS) | BIT(DONE), BIT(DONE) },
	/* With a descriptor there is nothing more to say. */
	[MESSAGE_DIAL] = { BIT(CONNECTED) | BIT(DATA) | BIT(DATA_END) | BIT(CREDIT) | BIT(DONE),
			   BIT(DONE) },
	[MESSAGE_STATUS] = { BIT(STATUS_IS), BIT(STATUS_IS) },
	/* It is held until CANCEL. */
	[MESSAGE_HOLD] = { BIT(HELD), 0 },
	[MESSAGE_FORGE] = { BIT(FORGED), BIT(FORGED) },
	[MESSAGE_PORTS] = { BIT(PORT_IS) | BIT(DONE), BIT(DONE) },
};

static const struct kind *kind_of(enum message_type type)
{
	static const struct kind plain = { BIT(DONE), BIT(DONE) };

	return kinds[type].answers ? &kinds[type] : &plain;
}

bool answer_fits(const struct answering *call, const struct message *m)
{
	if (m->type == MESSAGE_ERROR)
		return true;
	if (!(kind_of(call->type)->answers >> m->type & 1))
		return false;
	if (call->type == MESSAGE_START)
		return (m->type == MESSAGE_STARTED) != call->is_confirmed;
	return true;
}

bool answer_is_last(struct answering *call, const struct message *m)
{
	bool was_confirmed = call->is_confirmed;

	if (m->type == MESSAGE_ERROR)
		return true;
	if (m->type == MESSAGE_STARTED || (call->type == MESSAGE_WATCH && m->type == MESSAGE_DONE))
		call->is_confirmed = true;
	if (call->type == MESSAGE_WATCH && m->type == MESSAGE_DONE)
		return was_confirmed;
	if (m->type == MESSAGE_CONNECTED)
		return m->descriptor_count > 0;
	return kind_of(call->type)->last >> m->type & 1;
}
