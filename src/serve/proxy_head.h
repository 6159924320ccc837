/*
 * proxy_head.h - heads on their way through the daemon (proxy.c)
 *
 * What is passed on is written anew from what was understood: what was only for the next program on the way
 * stays behind (RFC 9110, 7.6.1), the framing is our own on both sides, and what opens doors of the daemon
 * is nothing to a program in a sandbox.
 */
#ifndef BRIG_SERVE_PROXY_HEAD_H
#define BRIG_SERVE_PROXY_HEAD_H

#include "serve/serve.h"

/* The head of the request as the program inside gets it. upgrades: it may change the protocol. */
[[nodiscard]] int proxy_request_head(const struct request *q, bool upgrades, struct buf *buf);

/* The fields of its answer, as headers of ours. */
void proxy_response_fields(struct exchange *x, const struct head *head);

/* Whether the request wants another protocol, and one that is passed on. */
bool proxy_upgrades(const struct head *head);

#endif
