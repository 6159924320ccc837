/* serve.c - brig serve: the daemon that speaks HTTP */
#include "cli/serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "warden/program.h"

#define REQUEST_MAX (64 * KIB)

int serve_exec(const struct node *request)
{
	_cleanup_(buf_done) struct buf text = BUF(REQUEST_MAX);
	char path[PATH_MAX], *argv[3] = { NULL };
	struct err err = ERR_NONE;

	if (program_find("brig-serve", path, &err) < 0)
		return complain(&err);
	if (json_write(request, true, &text) < 0)
		return complain_text("the request is too long");
	argv[0] = path;
	argv[1] = (char *)(uintptr_t)buf_text(&text);
	execv(path, argv);
	return complain_text("cannot execute \"%s\": %s", path, strerror(errno));
}

static const struct option serve_options[] = {
	{ 0, "listen", "ADDRESS",
	  "where to listen: ADDRESS:PORT (default 127.0.0.1:7070) or unix:PATH" },
	{ 0, "tls", NULL, "speak TLS, with a certificate from a CA that brig makes, or --cert" },
	{ 0, "domain", "NAME", "the domain whose names lead here: api.NAME, PORT-SANDBOX.NAME" },
	{ 0, "cert", "FILE", "certificate chain for --tls (PEM)" },
	{ 0, "key", "FILE", "its private key (PEM)" },
	{ 0, "policy", "FILE|NAME", "policy of the sandboxes (default: interpreter)" },
	{ 0, "open", NULL, "ask nobody for a key: for loopback alone" },
	{ 0, "log", "FORM", "how to log: text (default) or json" },
	{ 0, "quiet", NULL, "log no requests, only what happens to the daemon" },
	{ 0, "json", NULL, "print one JSON object when it is ready, instead of words" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

/* The options are the fields of the request, under the same names. */
static int add_option(struct node *request, const char *name, const char *value, struct err *err)
{
	int r;

	if (value && value[0] == '\0')
		return err_set(err, -EINVAL, "serve: --%s is empty", name);
	if (str_equal(name, "log") && value && !str_equal(value, "text") &&
	    !str_equal(value, "json"))
		return err_set(err, -EINVAL, "serve: --log is text or json, not \"%s\"", value);
	r = node_set(request, name, value ? node_string(value) : node_bool(true));
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

/* Files are named from where the person is; the daemon may be elsewhere. */
static int check(const struct node *request, struct err *err)
{
	bool has_cert = node_get(request, "cert") != NULL;
	bool has_key = node_get(request, "key") != NULL;

	if (has_cert != has_key)
		return err_set(err, -EINVAL, "serve: --cert and --key go together");
	if (has_cert && !node_get(request, "tls"))
		return err_set(err, -EINVAL, "serve: --cert without --tls");
	return 0;
}

static int verb_serve_main(int argc, char **argv)
{
	_cleanup_(node_freep) struct node *request = node_map();
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	struct err err = ERR_NONE;
	const char *name, *value;
	int r = request ? node_set(request, "verb", node_string("serve")) : -ENOMEM;

	if (r < 0)
		return complain_text("out of memory");
	while ((r = args_next(&args, &verb_serve, &name, &value, &err)) > 0) {
		if (str_equal(name, "help")) {
			print_help(&verb_serve);
			return 0;
		}
		r = add_option(request, name, value, &err);
		if (r < 0)
			return complain(&err);
	}
	if (r == 0 && args.at < argc)
		r = err_set(&err, -EINVAL, "serve: \"%s\" is too much", argv[args.at]);
	r = r < 0 ? r : check(request, &err);
	return r < 0 ? complain(&err) : serve_exec(request);
}

const struct verb verb_serve = {
	.name = "serve",
	.usage = "[options]",
	.summary = "serve sandboxes over HTTP, to the clients of E2B and to curl",
	.text = "One process that answers for many sandboxes: what E2B's clients for Python and "
		"JavaScript ask for, unmodified; brig's own API under /v1 (described by "
		"/v1/openapi.json); and a dashboard for the browser at /. Sandboxes have wardens "
		"of their "
		"own: they live on when the daemon is killed, and the next one finds them again. "
		"What it "
		"must remember is in the state directory.\n\n"
		"At its first start it makes a key and prints it, once. Further keys, and tenants "
		"with "
		"quotas, are made by \"brig key\". It listens at loopback only, unless told "
		"otherwise.\n\n"
		"With --tls and --domain the clients need nothing but E2B_DOMAIN: names below the "
		"domain "
		"must lead here. Without --cert the certificate is from a CA that brig makes in "
		"the state "
		"directory.\n\n"
		"SIGTERM lets requests end and stops; SIGHUP reads the certificate anew. A socket "
		"handed "
		"over by systemd is used instead of --listen.",
	.example = "brig serve\n"
		   "brig serve --listen 0.0.0.0:7070 --tls --domain brig.test\n"
		   "curl -s 127.0.0.1:7070/v1/run -H \"X-API-Key: $E2B_API_KEY\" "
		   "-d '{\"command\":[\"python3\",\"-c\",\"print(1)\"]}'",
	.options = serve_options,
	.run = verb_serve_main,
};
