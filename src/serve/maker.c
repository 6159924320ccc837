/*
 * maker.c - new sandboxes, by a forge
 *
 * The forge (cli/forge.h) is brig, started once, on demand: it forks a warden for each request without a
 * start of a program. So many requests are under way, the others wait here for their turn.
 *
 * When the forge is lost it is started anew, and what was under way is asked for once more. A warden that
 * was not ready by then finds nobody to tell, and ends by itself. One that was ready is alive, and the
 * forge could not say so any more: it bears the tag of that forge, and is ended here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "serve/fleet_internal.h"
#include "warden/roster.h"

#define UNDER_WAY_MAX 64 /* the forge reads no more than it can do (cli/forge.c) */
#define WAITING_MAX   4096
#define MESSAGES      64
#define TRIES_MAX     2
#define TAG_SIZE      (FLEET_TAG_SIZE + 12)

struct making {
	struct making *next;
	struct strv words;
	fleet_made made;
	void *of;
	uint32_t number; /* 0: it waits for its turn */
	unsigned int tries;
};

struct maker {
	struct fleet *fleet;
	struct channel forge; /* fd -EBADF: there is none */
	loop_id watch, soon, send;
	uint32_t last;
	char tag[TAG_SIZE]; /* of what this forge makes */
	unsigned int forges;
	struct making *first; /* all, those that are under way before those that wait */
	size_t under_way, count;
};

static void send_waiting(struct maker *maker);

static void making_free(struct making *making)
{
	strv_done(&making->words);
	free(making);
}

/* Out of the list; NULL: no such one. */
static struct making *take_making(struct maker *maker, uint32_t number)
{
	for (struct making **at = &maker->first; *at; at = &(*at)->next) {
		struct making *making = *at;

		if (making->number != number)
			continue;
		*at = making->next;
		maker->count--;
		maker->under_way -= number != 0;
		return making;
	}
	return NULL;
}

static void give(struct maker *maker, struct making *making, const struct node *manifest,
		 const struct err *err)
{
	(void)maker;
	making->made(making->of, manifest, err);
	making_free(making);
}

static int read_manifest(struct fleet *fleet, const char *text, struct node **ret_manifest,
			 struct err *err)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	const struct json_bounds bounds = JSON_BOUNDS;
	const struct node *id;
	int r = json_read(text, strlen(text), &bounds, &manifest, err);

	if (r < 0)
		return err_prefix(err, "the manifest of a new sandbox");
	id = node_get(manifest, "id");
	if (!id || id->kind != NODE_STRING)
		return err_set(err, -EPROTO, "a new sandbox has no id");
	r = fleet_watch(fleet, id->text);
	if (r < 0)
		return err_set(err, r, "sandbox %s has ended already", id->text);
	*ret_manifest = take_ptr(&manifest);
	return 0;
}

/* --- what nobody knows of --- */

static void swept(void *of, struct message *m, bool is_last)
{
	(void)of;
	(void)m;
	(void)is_last;
}

static bool is_of_another_life(const struct fleet *fleet, const char *tag)
{
	return str_starts(tag, FLEET_TAG) && !str_starts(tag, fleet->tag);
}

static bool is_of_forge(const struct fleet *fleet, const char *tag)
{
	return str_equal(tag, fleet->maker->tag);
}

/* Whether it lives and has such a tag. */
static bool is_tagged(const struct fleet *fleet, const char *id,
		      bool (*is_such)(const struct fleet *fleet, const char *tag))
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	const struct node *tag;
	bool is_alive;

	if (roster_read_at(fleet->home, id, &manifest, &is_alive) < 0 || !is_alive)
		return false;
	tag = node_get(manifest, "tag");
	return tag && tag->kind == NODE_STRING && is_such(fleet, tag->text);
}

/* Ends those of a kind that nobody knows of. */
static size_t sweep(struct fleet *fleet,
		    bool (*is_such)(const struct fleet *fleet, const char *tag),
		    bool (*is_held)(void *of, const char *id), void *of)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	size_t count = 0;

	if (fleet->home < 0)
		fleet->home = roster_open();
	if (fleet->home < 0 || roster_ids(&ids, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ids.count; i++) {
		struct draft d = DRAFT(MESSAGE_KILL, 0);
		call_id call;

		if (!is_held(of, ids.items[i]) && is_tagged(fleet, ids.items[i], is_such))
			count += call_start(fleet, ids.items[i], &d, NULL, 0, swept, NULL, &call,
					    NULL) == 0;
	}
	return count;
}

size_t fleet_sweep(struct fleet *fleet, bool (*is_held)(void *of, const char *id), void *of)
{
	return sweep(fleet, is_of_another_life, is_held, of);
}

/* --- what the forge says --- */

static void answered(struct maker *maker, const struct message *m)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	struct making *making = take_making(maker, m->call);
	struct err err = ERR_NONE;

	if (!making || !m->call)
		return;
	if (m->type == MESSAGE_FORGED) {
		hook_point("serve:create:made");
		(void)!read_manifest(maker->fleet, message_text(m, FIELD_TEXT, ""), &manifest,
				     &err);
	} else {
		err_set(&err, -(int)MIN(message_number(m, FIELD_CODE, EIO), 4095u), "%s",
			message_text(m, FIELD_TEXT, "it failed"));
	}
	give(maker, making, manifest, &err);
}

/* Those that were under way are tried once more, those that had their chance are told. */
static void forge_lost(struct maker *maker)
{
	struct making *given_up = NULL, *making;
	struct err err = ERR_NONE;

	err_set(&err, -EIO, "what makes sandboxes has ended unexpectedly");
	(void)sweep(maker->fleet, is_of_forge, fleet_knows, maker->fleet);
	maker->watch = loop_forget(maker->fleet->loop, maker->watch);
	maker->soon = loop_cancel(maker->fleet->loop, maker->soon);
	channel_done(&maker->forge);
	maker->forge = CHANNEL_NONE;
	maker->under_way = 0;
	for (struct making **at = &maker->first; *at;) {
		making = *at;
		making->number = 0;
		if (making->tries < TRIES_MAX) {
			at = &making->next;
			continue;
		}
		*at = making->next;
		maker->count--;
		making->next = given_up;
		given_up = making;
	}
	while ((making = given_up)) {
		given_up = making->next;
		give(maker, making, NULL, &err);
	}
	send_waiting(maker);
}

static void forge_expect(struct maker *maker)
{
	(void)!loop_change(maker->fleet->loop, maker->watch,
			   (uint32_t)channel_events(&maker->forge));
}

static void forge_read(void *of)
{
	struct maker *maker = of;
	struct message m;
	int r = 1;

	maker->soon = loop_cancel(maker->fleet->loop, maker->soon);
	(void)!channel_flush(&maker->forge);
	for (int i = 0; i < MESSAGES && r > 0; i++) {
		r = channel_receive(&maker->forge, &m);
		if (r <= 0)
			break;
		answered(maker, &m);
		message_done(&m);
	}
	if (r < 0) {
		forge_lost(maker);
		return;
	}
	send_waiting(maker);
	if (channel_has_message(&maker->forge) && !maker->soon)
		(void)!loop_soon(maker->fleet->loop, forge_read, maker, &maker->soon);
}

static void forge_ready(void *of, uint32_t events)
{
	(void)events;
	forge_read(of);
}

/* --- what it is asked for --- */

static int forge_start(struct maker *maker)
{
	static char forge[] = "forge", option[] = "--socket", three[] = "3";
	char *const words[] = { forge, option, three, NULL };
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	r = loop_watch(maker->fleet->loop, ours, EPOLLIN, forge_ready, maker, &maker->watch);
	r = r < 0 ? r : runner_start_helper(maker->fleet, words, theirs);
	if (r < 0) {
		maker->watch = loop_forget(maker->fleet->loop, maker->watch);
		return r;
	}
	channel_init(&maker->forge, take_fd(&ours), FROM_FORGE, true);
	snprintf(maker->tag, sizeof(maker->tag), "%s.%u", maker->fleet->tag, ++maker->forges);
	return 0;
}

static int send_making(struct maker *maker, struct making *making)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_FORGE, 0);
	int r = maker->forge.fd < 0 ? forge_start(maker) : 0;

	if (r < 0)
		return r;
	maker->last = maker->last == UINT32_MAX ? 1 : maker->last + 1;
	d.call = maker->last;
	draft_text(&d, FIELD_ARGUMENT, "--json");
	draft_text(&d, FIELD_ARGUMENT, "--tag");
	draft_text(&d, FIELD_ARGUMENT, maker->tag);
	for (size_t i = 0; i < making->words.count; i++)
		draft_text(&d, FIELD_ARGUMENT, making->words.items[i]);
	r = channel_send(&maker->forge, &d, NULL, 0);
	/* A forge that is gone is noticed when it is read. */
	if (r < 0 && r != -EPIPE)
		return r;
	making->number = d.call;
	making->tries++;
	maker->under_way++;
	return 0;
}

static void refuse(struct maker *maker, struct making *making, int code)
{
	struct err err = ERR_NONE;

	if (code == -EMSGSIZE)
		err_set(&err, code, "the options are too long (%llu KiB at most)",
			(unsigned long long)(MESSAGE_MAX / KIB));
	else
		err_errno(&err, code, "cannot ask for a sandbox");
	give(maker, making, NULL, &err);
}

static void send_waiting(struct maker *maker)
{
	struct making *making = maker->first;

	while (making && maker->under_way < UNDER_WAY_MAX) {
		struct making *next = making->next;
		int r = making->number ? 0 : send_making(maker, making);

		if (r < 0) {
			/* Whoever is told may ask for another one: begin anew. */
			refuse(maker, take_making(maker, 0), r);
			next = maker->first;
		}
		making = next;
	}
	if (maker->forge.fd >= 0)
		forge_expect(maker);
}

static void send_soon(void *of)
{
	struct maker *maker = of;

	maker->send = 0;
	send_waiting(maker);
}

static struct making *making_new(char *const options[])
{
	struct making *making = calloc(1, sizeof(*making));
	int r = making ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && options[i]; i++)
		r = strv_add(&making->words, options[i]);
	if (r < 0 && making)
		making_free(making);
	return r < 0 ? NULL : making;
}

int fleet_make(struct fleet *fleet, char *const options[], fleet_made made, void *of,
	       struct err *err)
{
	struct maker *maker = fleet->maker;
	struct making *making, **at;
	int r;

	if (maker->count >= UNDER_WAY_MAX + WAITING_MAX)
		return err_set(err, -EAGAIN, "too many sandboxes are being made at once");
	making = making_new(options);
	if (!making)
		return err_set(err, -ENOMEM, "out of memory");
	making->made = made;
	making->of = of;
	r = maker->send ? 0 : loop_soon(fleet->loop, send_soon, maker, &maker->send);
	if (r < 0) {
		making_free(making);
		return err_errno(err, r, "cannot ask for a sandbox");
	}
	for (at = &maker->first; *at; at = &(*at)->next)
		;
	*at = making;
	maker->count++;
	hook_point("serve:create:intent");
	return 0;
}

int maker_new(struct fleet *fleet)
{
	struct maker *maker = calloc(1, sizeof(*maker));

	if (!maker)
		return -ENOMEM;
	maker->fleet = fleet;
	maker->forge = CHANNEL_NONE;
	fleet->maker = maker;
	return 0;
}

void maker_free(struct maker *maker)
{
	if (!maker)
		return;
	maker->watch = loop_forget(maker->fleet->loop, maker->watch);
	maker->soon = loop_cancel(maker->fleet->loop, maker->soon);
	maker->send = loop_cancel(maker->fleet->loop, maker->send);
	while (maker->first) {
		struct making *making = maker->first;

		maker->first = making->next;
		making_free(making);
	}
	channel_done(&maker->forge);
	free(maker);
}
