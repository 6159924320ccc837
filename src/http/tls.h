/*
 * tls.h - TLS for the server: 1.2 and 1.3, HTTP/1.1 alone
 *
 * A struct tls is a certificate with its key. New files mean a new struct tls for the connections that
 * come (server_set_tls); those that are open keep the one they began with.
 */
#ifndef BRIG_HTTP_TLS_H
#define BRIG_HTTP_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct tls;

/* Files in PEM: the certificate with those of its issuers behind it, and its key. */
[[nodiscard]] int tls_new(const char *certificate, const char *key, struct tls **ret_tls,
			  struct err *err);
struct tls *tls_ref(struct tls *tls); /* NULL allowed */
void tls_free(struct tls *tls);       /* once for tls_new() and each tls_ref(); NULL allowed */

/* One connection. The socket stays the caller's. */
[[nodiscard]] int tls_accept(struct tls *tls, int fd, void **ret_session);
/* As read() and write(), with -errno; -EAGAIN: when the socket is readable again, or writable with
 * *ret_wants_write. The handshake happens on the way. */
ssize_t tls_read(void *session, void *data, size_t len, bool *ret_wants_write);
ssize_t tls_write(void *session, const void *data, size_t len, bool *ret_wants_write);
bool tls_has_more(void *session); /* that no event will tell of */
void tls_shut(void *session);     /* says that nothing more comes from us */
void tls_end(void *session);      /* NULL allowed */

#endif
