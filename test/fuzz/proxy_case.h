/*
 * proxy_case.h - the way through the daemon to a port, with a program and an init that a test plays
 *
 * proxy.c is compiled into the test, and what it asks of the fleet and the registry is asked of these
 * here: a dial is answered with whatever socket the test gives.
 */
#ifndef BRIG_TEST_PROXY_CASE_H
#define BRIG_TEST_PROXY_CASE_H

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/chunked.h"
#include "serve/serve.h"

static struct {
	struct loop *loop;
	struct server *server;
	struct serve serve;
	struct held held;
	call_message on_message; /* of the dial that waits for an answer */
	void *of;
	loop_call on_end;
	void *on_end_of;
	unsigned int requests, gones;
	int listener;
	struct sockaddr_in address;
	struct sockaddr_un door;
	socklen_t door_len;
} scene;

static int fake_call_start(struct draft *d, call_message on_message, void *of, call_id *ret_call)
{
	draft_done(d);
	scene.on_message = on_message;
	scene.of = of;
	*ret_call = 1;
	return 0;
}

static int fake_on_end(loop_call call, void *of, registry_watch *ret_watch)
{
	scene.on_end = call;
	scene.on_end_of = of;
	*ret_watch = 1;
	return 0;
}

#define call_start(fleet, id, d, descriptors, count, on_message, of, ret_call, err) \
	((void)(err), fake_call_start(d, on_message, of, ret_call))
#define call_cancel(fleet, call)                     (scene.on_message = NULL, (call_id)0)
#define registry_on_end(registry, id, call, of, ret) fake_on_end(call, of, ret)
#define registry_forget(registry, watch)             (scene.on_end = NULL, (registry_watch)0)
#define registry_find(registry, id, tenant)          (&scene.held)
/* What is waited for is over at once. */
#define loop_after(loop, ms, call, of, ret_timer)    loop_after(loop, 0, call, of, ret_timer)
#ifdef CASE_PAIRS
/* Pairs of sockets instead of connections, of which the kernel has only so many in a minute. */
#undef AF_INET6
#define AF_INET6 AF_UNIX
#endif
#include "serve/proxy.c"
#undef loop_after
#undef registry_find

static inline void case_gone(struct exchange *x)
{
	struct request *q = x->of;

	scene.gones++;
	if (q->gone)
		q->gone(q);
	free(q);
}

static inline void case_request(void *of, struct exchange *x)
{
	struct request *q = calloc(1, sizeof(*q));

	(void)of;
	scene.requests++;
	q->serve = &scene.serve;
	q->x = x;
	q->held = &scene.held;
	q->port = 8080;
	snprintf(q->sandbox, sizeof(q->sandbox), "asandbox");
	x->of = q;
	x->gone = case_gone;
	if (proxy_may(q))
		proxy_handle(q);
}

static inline int case_listen(int family, struct sockaddr *address, socklen_t len,
			      socklen_t *ret_len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, address, len) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, address, ret_len) < 0)
		return fd_close(fd);
	return fd;
}

static inline bool case_open(void)
{
	static const struct server_setup setup = { .request = case_request };
	static char none[1];
	socklen_t len = sizeof(scene.address);

	scene.held.network = none;
	scene.address = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	scene.listener = case_listen(AF_INET, (struct sockaddr *)&scene.address, len, &len);
	/* The kernel finds a name. */
	scene.door = (struct sockaddr_un){ .sun_family = AF_UNIX };
	scene.door_len = sizeof(scene.door);
	if (scene.listener < 0 || loop_new(&scene.loop) < 0 ||
	    server_new(scene.loop, &setup, &scene.server) < 0 ||
	    server_listen(scene.server,
			  case_listen(AF_UNIX, (struct sockaddr *)&scene.door, sizeof(sa_family_t),
				      &scene.door_len),
			  NULL) < 0)
		return false;
	scene.serve.loop = scene.loop;
	scene.serve.server = scene.server;
	return true;
}

static inline void case_close(void)
{
	server_free(scene.server);
	loop_free(scene.loop);
	fd_close(scene.listener);
}

/* Two ends of a connection: ours, as init would pass it, and the program's. */
static inline bool case_connection(int *ret_ours, int *ret_programs)
{
#ifdef CASE_PAIRS
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	*ret_ours = pair[0];
	*ret_programs = pair[1];
	return true;
#else
	*ret_ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(*ret_ours, (struct sockaddr *)&scene.address, sizeof(scene.address)) < 0)
		return false;
	*ret_programs = accept4(scene.listener, NULL, NULL, SOCK_CLOEXEC);
	return *ret_programs >= 0;
#endif
}

/* init's answer to the dial that waits. Takes the descriptor. */
static inline void case_connected(int fd)
{
	struct message m = { .type = MESSAGE_CONNECTED,
			     .descriptors = { fd },
			     .descriptor_count = 1 };
	call_message answer = scene.on_message;

	scene.on_message = NULL;
	answer(scene.of, &m, true);
	message_done(&m);
}

/* A client with a request on its way. */
static inline int case_client(const char *text, size_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&scene.door, scene.door_len) < 0 ||
	    send(fd, text, len, 0) != (ssize_t)len)
		return fd_close(fd);
	return fd;
}

#endif
