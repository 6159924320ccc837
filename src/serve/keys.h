/*
 * keys.h - "brig key": makes, lists and revokes keys, beside a daemon that runs or without one
 *
 * The request is what cli/key.c made out of the person's words, checked. A daemon that has the same state
 * directory sees the change at its next request (serve/store.h).
 */
#ifndef BRIG_SERVE_KEYS_H
#define BRIG_SERVE_KEYS_H

#include "data/node.h"
#include "serve/store.h"

/* Each prints, and returns the status to exit with. */
int keys_create(const struct node *request);
int keys_list(const struct node *request);
int keys_revoke(const struct node *request);

/* As --json and the API show them; NULL: out of memory. What is none is null. */
struct node *key_to_node(const struct key *key);
struct node *tenant_to_node(const struct tenant *tenant);

#endif
