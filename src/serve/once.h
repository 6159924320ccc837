/*
 * once.h - a request that is done once, however often it is asked ("Idempotency-Key")
 *
 *	if (once_begin(q, &once) != 0)
 *		return;                         // answered: as before, or that it is under way
 *	...
 *	once_end(&once, 201, text);             // kept for who asks again
 *	once_drop(&once);                       // it was not done: who asks again may try
 *
 * What bears such a key goes on when its client leaves: it will ask again, and get the answer.
 */
#ifndef BRIG_SERVE_ONCE_H
#define BRIG_SERVE_ONCE_H

#include "serve/serve.h"

#define ONCE_KEY_MAX 255

struct once {
	struct store *store;
	char tenant[TENANT_NAME_MAX + 1];
	char key[ONCE_KEY_MAX + 1]; /* "": none, or it is over */
};

/* 0: it is to be done; 1: it was answered. */
[[nodiscard]] int once_begin(struct request *q, struct once *ret_once);
bool once_is_kept(const struct once *once);
void once_end(struct once *once, unsigned int status, const struct node *body);
void once_drop(struct once *once);

#endif
