/*
 * signature.h - addresses that are signed: one path of one sandbox, for who has no token
 *
 *	v1_ + base64(SHA-256(path:operation:user:token[:expiration])), without padding
 *
 * path, user and expiration are as they are in the query, decoded. Such an address names no sandbox: it is the
 * one whose token fits, and all of them are tried, each in the same time.
 */
#ifndef BRIG_SERVE_SIGNATURE_H
#define BRIG_SERVE_SIGNATURE_H

#include "http/head.h"
#include "serve/registry.h"

struct signature {
	const char *path, *operation, *user; /* operation: "read", "write" */
	const char *expiration;              /* seconds since 1970 in decimal; NULL: none */
	const char *given;                   /* "v1_..." */
};

/* 0; -EACCES: it does not fit; -ETIME: it does, and it is too late. now: seconds. */
[[nodiscard]] int signature_check(const struct signature *s, const char *token, uint64_t now);

/* The sandbox whose token it was made with, whether or not it is too late; NULL: none. */
struct held *signature_find(struct registry *registry, const struct signature *s);

#endif
