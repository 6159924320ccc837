/*
 * v1_show.h - a sandbox as brig's own API shows it
 */
#ifndef BRIG_SERVE_V1_SHOW_H
#define BRIG_SERVE_V1_SHOW_H

#include "serve/openapi.h"
#include "serve/serve.h"

extern const struct doc_schema show_sandbox_schema;

/* usage: of what a warden said; taken over. NULL: it was not asked, and the field is null. NULL: out of memory. */
struct node *show_sandbox(const struct held *held, struct node *usage);
struct node *show_usage(const struct message *status); /* of STATUS_IS */

#endif
