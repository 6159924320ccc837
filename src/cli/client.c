#include "cli/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "warden/roster.h"

int client_open(const char *word, struct client *ret_client, struct err *err)
{
	struct client client = CLIENT_NONE;
	int r = roster_find(word, client.id, err), fd;

	if (r < 0)
		return r;
	fd = roster_connect(client.id, err);
	if (fd < 0)
		return fd;
	channel_init(&client.channel, fd, FROM_WARDEN, true);
	*ret_client = client;
	return 0;
}

void client_done(struct client *client)
{
	channel_done(&client->channel);
}

uint32_t client_number(struct client *client)
{
	return ++client->last;
}

int client_lost(const struct client *client, int code, struct err *err)
{
	if (code == -EPIPE)
		return err_set(err, -ESRCH, "sandbox %s has ended", client->id);
	if (code == -EMSGSIZE)
		return err_set(err, code, "the request is too long (%llu KiB at most)",
			       (unsigned long long)(MESSAGE_MAX / KIB));
	if (code == -EPROTO)
		return err_set(err, code, "the warden of sandbox %s sent %s", client->id,
			       client->channel.why ?: "nonsense");
	return err_errno(err, code, "the conversation with sandbox %s", client->id);
}

int client_error(const struct client *client, const struct message *m, struct err *err)
{
	uint64_t code = message_number(m, FIELD_CODE, EIO);

	(void)client;
	return err_set(err, code > 0 && code < 4096 ? -(int)code : -EIO, "%s",
		       message_text(m, FIELD_TEXT, "it failed"));
}

/* One step of the conversation: sends what waits, waits for something to read. */
static int wait_for_more(struct client *client)
{
	struct pollfd fd = { .fd = client->channel.fd, .events = channel_events(&client->channel) };
	int r;

	if (poll(&fd, 1, -1) < 0 && errno != EINTR)
		return -errno;
	r = channel_flush(&client->channel);
	/* The end shows when all that came before it was read. */
	return r == -EPIPE ? 0 : r;
}

int client_next(struct client *client, uint32_t call, struct message *ret_message, struct err *err)
{
	for (;;) {
		struct message m;
		int r = channel_receive(&client->channel, &m);

		if (r > 0 && m.call != call) {
			message_done(&m);
			continue;
		}
		if (r > 0 && m.type == MESSAGE_ERROR)
			return client_error(client, &m, err);
		if (r > 0) {
			*ret_message = m;
			return 0;
		}
		r = r < 0 ? r : wait_for_more(client);
		if (r < 0)
			return client_lost(client, r, err);
	}
}

int client_call(struct client *client, struct draft *d, int *descriptors, size_t count,
		struct message *ret_message, struct err *err)
{
	int r = channel_send(&client->channel, d, descriptors, count);

	return r < 0 && r != -EPIPE ? client_lost(client, r, err)
				    : client_next(client, d->call, ret_message, err);
}

int client_expect_done(struct message *m, struct err *err)
{
	int r = m->type == MESSAGE_DONE
			? 0
			: err_set(err, -EPROTO, "unexpected answer %s", message_name(m->type));

	message_done(m);
	return r;
}

int client_do(struct client *client, struct draft *d, int *descriptors, size_t count,
	      struct err *err)
{
	struct message m = { 0 };
	int r = client_call(client, d, descriptors, count, &m, err);

	return r < 0 ? r : client_expect_done(&m, err);
}
