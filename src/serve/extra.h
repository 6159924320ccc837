/*
 * extra.h - texts of a row that are JSON, and what a sandbox's row says beyond its columns (held.extra)
 *
 *	internet     what the client said about it; not there: nothing
 *	user         of its programs; the template's
 *	workdir      where they start; the template's
 *	idempotency  the key of the request that made it
 *	policy       a shipped one within the tenant's, that it was made with
 *	options      of "brig create" that it was made with
 *	rules        of its network: {"allow": [], "deny": []}; not there: the policy's own
 */
#ifndef BRIG_SERVE_EXTRA_H
#define BRIG_SERVE_EXTRA_H

#include "base/str.h"
#include "data/node.h"
#include "serve/store.h"

/* A tree again; NULL: "", or out of memory. */
struct node *extra_json(const char *json);

[[nodiscard]] int extra_text(const struct held *held, const char *key, char *ret, size_t size);
int64_t extra_number(const struct held *held, const char *key, int64_t fallback);
/* Takes over the value; NULL: out of memory. held->extra may be NULL. */
[[nodiscard]] int extra_set(struct held *held, const char *key, struct node *value);

/* Lists of texts. */
struct node *extra_list(const struct strv *list);
[[nodiscard]] int extra_strings(const struct node *list, struct strv *ret_list);

#endif
