/*
 * listen.h - the socket that the daemon serves: made by itself, or handed over by systemd
 */
#ifndef BRIG_SERVE_LISTEN_H
#define BRIG_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define LISTEN_TEXT_SIZE 128

/*
 * "127.0.0.1:7070", "[::1]:7070", "localhost:7070", ":7070" (loopback), "unix:/path"; port 0 is any that is
 * free. A socket that came from systemd (LISTEN_FDS) is taken instead. address: where it is now, as clients
 * write it. *ret_is_loopback: nobody else's machine reaches it.
 */
[[nodiscard]] int listen_open(const char *text, char ret_address[static LISTEN_TEXT_SIZE],
			      bool *ret_is_loopback, struct err *err);

/* Tells systemd (NOTIFY_SOCKET), where there is one: "READY=1", "STOPPING=1". */
void listen_notify(const char *state);

#endif
