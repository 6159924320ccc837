#include "cli/census.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fd.h"
#include "proto/channel.h"
#include "warden/roster.h"

#define IN_AIR_MAX    4096 /* conversations at a time */
#define OWN_FILES     64   /* descriptors that are not conversations */
#define CALL_STATUS   1
#define CALL_USAGE    2
#define AWAITS_STATUS 1
#define AWAITS_USAGE  2

/* Fields of an answer, and where they go. */
static const struct {
	enum field field;
	size_t offset;
} figures[] = {
	{ FIELD_STATE, offsetof(struct look, sandbox_state) },
	{ FIELD_TIME, offsetof(struct look, time) },
	{ FIELD_LEFT, offsetof(struct look, left) },
	{ FIELD_CPU, offsetof(struct look, cpu) },
	{ FIELD_MEMORY, offsetof(struct look, memory) },
	{ FIELD_PEAK, offsetof(struct look, peak) },
	{ FIELD_LIMIT, offsetof(struct look, limit) },
	{ FIELD_COUNT_OF, offsetof(struct look, processes) },
	{ FIELD_DISK, offsetof(struct look, disk) },
	{ FIELD_DISK_SIZE, offsetof(struct look, disk_size) },
};

/* One conversation. */
struct asked {
	struct look *look;
	struct channel channel;
	unsigned int awaits;
};

struct round {
	struct asked *asked;
	struct pollfd *fds;
	size_t count, room;
	int home; /* the state directory */
	bool with_usage;
};

static uint64_t *figure_of(struct look *look, size_t i)
{
	return (uint64_t *)(void *)((char *)look + figures[i].offset);
}

static void take_status(struct look *look, const struct message *m)
{
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		*figure_of(look, i) = message_number(m, figures[i].field, UNKNOWN);
	look->state = LOOK_ANSWERED;
}

/* Of what is said inside, only that counts which the warden cannot know. */
static void take_usage(struct look *look, const struct message *m)
{
	look->disk = message_number(m, FIELD_DISK, look->disk);
	look->disk_size = message_number(m, FIELD_DISK_SIZE, look->disk_size);
}

static void ask(struct round *round, struct look *look)
{
	struct asked *asked = &round->asked[round->count];
	_cleanup_(draft_done) struct draft status = DRAFT(MESSAGE_STATUS, CALL_STATUS);
	_cleanup_(draft_done) struct draft usage = DRAFT(MESSAGE_USAGE, CALL_USAGE);
	int fd = roster_connect_at(round->home, look->id), r;

	if (fd < 0)
		return;
	*asked = (struct asked){ .look = look, .awaits = AWAITS_STATUS };
	channel_init(&asked->channel, fd, FROM_WARDEN, true);
	r = channel_send(&asked->channel, &status, NULL, 0);
	if (r == 0 && round->with_usage) {
		r = channel_send(&asked->channel, &usage, NULL, 0);
		asked->awaits |= AWAITS_USAGE;
	}
	if (r < 0) {
		channel_done(&asked->channel);
		return;
	}
	round->count++;
}

/* Whether the conversation is over. */
static bool listen_to(struct asked *asked)
{
	struct message m;
	int r;

	(void)!channel_flush(&asked->channel); /* what it said before it left still counts */
	while ((r = channel_receive(&asked->channel, &m)) > 0) {
		if (m.call == CALL_STATUS && m.type == MESSAGE_STATUS_IS)
			take_status(asked->look, &m);
		if (m.call == CALL_USAGE && m.type == MESSAGE_USAGE_IS)
			take_usage(asked->look, &m);
		if (m.call == CALL_STATUS)
			asked->awaits &= ~(unsigned int)AWAITS_STATUS;
		if (m.call == CALL_USAGE)
			asked->awaits &= ~(unsigned int)AWAITS_USAGE;
		message_done(&m);
	}
	/* Who is paused does not answer for what is inside. */
	if (asked->look->sandbox_state == STATE_PAUSED)
		asked->awaits &= ~(unsigned int)AWAITS_USAGE;
	return r < 0 || asked->awaits == 0;
}

static void hang_up(struct round *round, size_t i)
{
	channel_done(&round->asked[i].channel);
	round->asked[i] = round->asked[--round->count];
}

static void listen_to_all(struct round *round, int timeout)
{
	for (size_t i = 0; i < round->count; i++)
		round->fds[i] =
			(struct pollfd){ .fd = round->asked[i].channel.fd,
					 .events = channel_events(&round->asked[i].channel) };
	if (poll(round->fds, round->count, timeout) <= 0)
		return;
	/* From behind: what takes the place of one that is gone was looked at. */
	for (size_t i = round->count; i-- > 0;)
		if (round->fds[i].revents && listen_to(&round->asked[i]))
			hang_up(round, i);
}

/* As many as there may be descriptors. */
static size_t room_for(size_t count)
{
	struct rlimit limit = { .rlim_cur = 256, .rlim_max = 256 };
	size_t room = IN_AIR_MAX;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)(IN_AIR_MAX + OWN_FILES));
		(void)!setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur < IN_AIR_MAX + OWN_FILES)
		room = limit.rlim_cur > OWN_FILES ? (size_t)limit.rlim_cur - OWN_FILES : 1;
	return MIN(count, room);
}

static void ask_in_rounds(struct census *census, struct round *round)
{
	uint64_t end = clock_ms() + CENSUS_MS;
	size_t next = 0;

	for (;;) {
		uint64_t now = clock_ms();

		for (; next < census->count && round->count < round->room; next++)
			if (census->looks[next].state == LOOK_SILENT)
				ask(round, &census->looks[next]);
		if (round->count == 0 || now >= end)
			break;
		listen_to_all(round, (int)(end - now));
	}
	while (round->count > 0)
		hang_up(round, round->count - 1);
}

static void round_done(struct round *round)
{
	free(round->asked);
	free(round->fds);
}

static int ask_all(struct census *census, int home, bool with_usage)
{
	_cleanup_(round_done) struct round round = { .room = room_for(census->count),
						     .home = home,
						     .with_usage = with_usage };

	round.asked = calloc(round.room, sizeof(*round.asked));
	round.fds = calloc(round.room, sizeof(*round.fds));
	if (!round.asked || !round.fds)
		return -ENOMEM;
	ask_in_rounds(census, &round);
	return 0;
}

static void look_at(int home, const char *id, struct look *look)
{
	bool is_alive = false;
	int r;

	*look = (struct look){ .state = LOOK_SILENT };
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		*figure_of(look, i) = UNKNOWN;
	snprintf(look->id, sizeof(look->id), "%s", id);
	r = roster_read_at(home, id, &look->manifest, &is_alive);
	if (r == -ESRCH)
		look->state = LOOK_GONE;
	else if (!is_alive)
		look->state = LOOK_LOST;
}

int census_take(const struct strv *ids, bool with_usage, struct census *ret_census, struct err *err)
{
	_cleanup_(strv_done) struct strv all = { 0 };
	_cleanup_(census_done) struct census census = { 0 };
	_cleanup_close_ int home = roster_open();
	int r = ids ? 0 : roster_ids(&all, err);

	if (r < 0)
		return r;
	ids = ids ?: &all;
	if (ids->count == 0)
		return 0;
	census.looks = calloc(ids->count, sizeof(*census.looks));
	if (!census.looks)
		return err_errno(err, -ENOMEM, "the list of sandboxes");
	for (; census.count < ids->count; census.count++)
		look_at(home, ids->items[census.count], &census.looks[census.count]);
	r = ask_all(&census, home, with_usage);
	if (r < 0)
		return err_errno(err, r, "the list of sandboxes");
	*ret_census = census;
	census = (struct census){ 0 };
	return 0;
}

void census_done(struct census *census)
{
	for (size_t i = 0; i < census->count; i++)
		node_free(census->looks[i].manifest);
	free(census->looks);
	*census = (struct census){ 0 };
}

const char *look_word(const struct look *look)
{
	static const char *const words[] = {
		[LOOK_SILENT] = "?",
		[LOOK_LOST] = "lost",
		[LOOK_GONE] = "gone",
	};

	if (look->state != LOOK_ANSWERED)
		return words[look->state];
	return look->sandbox_state < STATE_COUNT ? sandbox_state_names[look->sandbox_state] : "?";
}
