/*
 * client.h - a conversation with the warden of a sandbox that lives
 *
 *	_cleanup_(client_done) struct client client = CLIENT_NONE;
 *	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_STAT, client_number(&client));
 *	struct message m;
 *
 *	r = client_open(word, &client, err);
 *	draft_text(&d, FIELD_PATH, path);
 *	r = client_call(&client, &d, NULL, 0, &m, err);
 *	... message_number(&m, FIELD_SIZE, 0) ...
 *	message_done(&m);
 *
 * Here one call is made at a time, and waited for. Who has several things to wait for (brig exec) uses
 * the channel itself.
 */
#ifndef BRIG_CLI_CLIENT_H
#define BRIG_CLI_CLIENT_H

#include "base/err.h"
#include "proto/channel.h"
#include "trace/event.h"

struct client {
	struct channel channel;
	char id[TRACE_ID_SIZE];
	uint32_t last; /* number of a call */
};

#define CLIENT_NONE ((struct client){ .channel = CHANNEL_NONE })

/* word: an id, the beginning of one, or a name. */
[[nodiscard]] int client_open(const char *word, struct client *ret_client, struct err *err);
void client_done(struct client *client);

/* The number of a new call. */
uint32_t client_number(struct client *client);

/*
 * Sends and waits for the first answer. An ERROR is -errno with its words. Takes the descriptors. The
 * message is the caller's to end with message_done(), before the next call.
 */
[[nodiscard]] int client_call(struct client *client, struct draft *d, int *descriptors,
			      size_t count, struct message *ret_message, struct err *err);

/* The same where the answer is no more than DONE. */
[[nodiscard]] int client_do(struct client *client, struct draft *d, int *descriptors, size_t count,
			    struct err *err);

/* Ends an answer that must be DONE. */
[[nodiscard]] int client_expect_done(struct message *m, struct err *err);

/* The next answer of a call that has several. */
[[nodiscard]] int client_next(struct client *client, uint32_t call, struct message *ret_message,
			      struct err *err);

/* An ERROR as it was received, as -errno with its words, made printable. */
int client_error(const struct client *client, const struct message *m, struct err *err);

/* The channel failed: in words. */
int client_lost(const struct client *client, int code, struct err *err);

#endif
