/*
 * network.h - other rules for the network of a sandbox that lives (private to warden/)
 *
 * Who may ask is who may start a sandbox (desk.h), so the new rules may be wider than the old ones. What an operator's
 * file or a tenant's ceiling forbids was taken out by the client, which knows those, as it is at a start.
 *
 * They hold for every name and connection from now on, and for the connections that there are: what they refuse is
 * reset. The change is an event of the record, and so is each connection that it ended.
 */
#ifndef BRIG_WARDEN_NETWORK_H
#define BRIG_WARDEN_NETWORK_H

#include "proto/message.h"
#include "warden/door.h"

/* -EINVAL in words, and nothing has changed. */
[[nodiscard]] int network_change(struct door *door, const struct message *rules, struct err *err);

#endif
