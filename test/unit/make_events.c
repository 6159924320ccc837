/*
 * make_events - writes an event stream as a warden would, on order from standard input
 *
 * make_events HOME ID [ARGUMENT...]: opens the stream with the arguments as its command, says "open"
 * and then takes orders, one a line, each answered by "ok" or an error:
 *
 *	a OBJECT	an open that was allowed
 *	d OBJECT	a connect that was refused
 *	f		flush
 *	c CODE		close with this exit code, and go
 *
 * At the end of the input it goes without closing, as if it had been killed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "trace/trace.h"

static int obey(struct trace *trace, const char *order)
{
	const struct trace_event denied = {
		.kind = TRACE_NET,
		.verdict = VERDICT_DENY,
		.action = "connect",
		.object = order + 2,
		.exec = 2,
		.parent = 1,
		.pid = 42,
		.rule = { "policy.yaml", "net.allow", 3 },
		.reason = "no rule allows this host",
		.allow_with = "--allow-net example.com:443",
	};
	const struct trace_event allowed = {
		.kind = TRACE_FILE,
		.verdict = VERDICT_ALLOW,
		.action = "open",
		.object = order + 2,
		.exec = 2,
		.parent = 1,
		.pid = 42,
	};

	switch (order[0]) {
	case 'a':
		return trace_add(trace, &allowed);
	case 'd':
		return trace_add(trace, &denied);
	default:
		return trace_flush(trace);
	}
}

static void answer(int r)
{
	if (r < 0)
		printf("%s\n", strerror(-r));
	else
		puts("ok");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	_cleanup_(trace_freep) struct trace *trace = NULL;
	struct trace_request request = { .policy = "sha256:0", .isolation = "container" };
	struct err err = ERR_NONE;
	char order[8192];

	if (argc < 3)
		return 2;
	request.home = argv[1];
	request.sandbox = argv[2];
	request.argv = argv + 3;
	if (trace_open(&request, &trace, &err) < 0) {
		puts(err.text);
		return 1;
	}
	puts("open");
	fflush(stdout);
	while (fgets(order, sizeof(order), stdin)) {
		order[strcspn(order, "\n")] = '\0';
		if (order[0] == 'c') {
			answer(trace_close(take_ptr(&trace), "exit",
					   (int)strtol(order + 1, NULL, 10)));
			return 0;
		}
		if (strlen(order) < 2)
			order[2] = '\0';
		answer(obey(trace, order));
	}
	return 0;
}
