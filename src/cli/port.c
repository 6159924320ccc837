/*
 * port.c - brig port: a port of the host that leads to one of a sandbox
 *
 * The socket that listens is made here, with the rights of whoever asks, and given to the warden, who
 * accepts and has init dial inside. In the process tier there is no network to dial in; there a port
 * is published when the sandbox is made, or not at all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "cli/client.h"
#include "cli/live.h"
#include "data/schema.h"
#include "warden/roster.h"

#define BACKLOG   128
#define PORTS_MAX 65536 /* that a warden may tell of */

static const struct option port_options[] = {
	LIVE_OPTIONS,
};

static const struct schema_part row_parts[] = {
	{ "port", "integer", false },
	{ "address", "string", false },
};

struct request {
	const char *word;
	bool wants_port, json;
	uint16_t port, outside; /* outside 0: any that is free */
};

static int parse_port(const char *text, size_t len, uint16_t *ret_port, struct err *err)
{
	unsigned long value = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || value > 65535)
			len = 0;
		value = value * 10 + (unsigned long)(text[i] - '0');
	}
	if (len == 0 || value == 0 || value > 65535)
		return err_set(err, -EINVAL, "\"%s\" is not PORT or PORT:OUTSIDE (1 to 65535)",
			       text);
	*ret_port = (uint16_t)value;
	return 0;
}

static int parse_ports(const char *text, struct request *request, struct err *err)
{
	size_t len = strcspn(text, ":");
	int r = parse_port(text, len, &request->port, err);

	if (r < 0 || text[len] == '\0')
		return r;
	return parse_port(text + len + 1, strlen(text + len + 1), &request->outside, err);
}

static int add_port(struct node *ports, uint16_t port, const char *address)
{
	_cleanup_(node_freep) struct node *row = node_map();
	int r = row ? node_set(row, "port", node_int(port)) : -ENOMEM;

	r = r < 0 ? r : node_set(row, "address", node_string(address));
	return r < 0 ? r : node_add(ports, take_ptr(&row));
}

/* A socket at the host's loopback address, and where that is. */
static int make_listener(uint16_t outside, char address[static 32], struct err *err)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(outside),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	const int on = 1;

	if (fd < 0)
		return err_errno(err, -errno, "cannot make a socket");
	/* A port whose last connection ended a moment ago is as good as another. */
	(void)!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, BACKLOG) < 0)
		return errno == EADDRINUSE
			       ? err_set(err, -EADDRINUSE, "port %u of this host is taken", outside)
			       : err_errno(err, -errno, "cannot listen at 127.0.0.1:%u", outside);
	if (getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return err_errno(err, -errno, "cannot tell the port");
	snprintf(address, 32, "127.0.0.1:%u", ntohs(in.sin_port));
	return take_fd(&fd);
}

static int open_port(struct client *client, const struct request *request, struct node *ports,
		     struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_PORT, client_number(client));
	char address[32];
	int listener = make_listener(request->outside, address, err), r;

	if (listener < 0)
		return listener;
	draft_number(&d, FIELD_PORT, request->port);
	r = client_do(client, &d, &listener, 1, err);
	return r < 0 ? r : add_port(ports, request->port, address);
}

static int list_ports(struct client *client, struct node *ports, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_PORTS, client_number(client));
	struct message m;
	int r = client_call(client, &d, NULL, 0, &m, err);

	while (r == 0 && m.type == MESSAGE_PORT_IS && ports->count < PORTS_MAX) {
		r = add_port(ports, (uint16_t)message_number(&m, FIELD_PORT, 0),
			     message_text(&m, FIELD_TEXT, ""));
		message_done(&m);
		r = r < 0 ? r : client_next(client, d.call, &m, err);
	}
	if (r == 0)
		message_done(&m);
	return r;
}

/* Those that the policy published when the sandbox was made. */
static int list_published(const struct node *manifest, const struct request *request,
			  struct node *ports)
{
	const struct node *list = node_get(manifest, "published");
	int r = 0;

	for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count && r == 0; i++) {
		const struct node *row = list->entries[i].value;
		const struct node *port = node_get(row, "port"), *inside = node_get(row, "inside");
		const char *address = manifest_text(row, "address");
		char text[128];

		if (!address || !port || !inside || port->kind != NODE_INT ||
		    inside->kind != NODE_INT ||
		    (request->wants_port && inside->number != request->port))
			continue;
		snprintf(text, sizeof(text), strchr(address, ':') ? "[%s]:%lld" : "%s:%lld",
			 address, (long long)port->number);
		r = add_port(ports, (uint16_t)inside->number, text);
	}
	return r;
}

static int ask_manifest(const struct node *manifest, const struct request *request, const char *id,
			struct node *ports, struct err *err)
{
	int r = list_published(manifest, request, ports);

	if (r < 0)
		return err_errno(err, r, "the ports of sandbox %s", id);
	if (request->wants_port && ports->count == 0)
		return err_set(err, -EOPNOTSUPP,
			       "sandbox %s is in the process tier, where no port can be opened "
			       "later: create it with --publish %u",
			       id, request->port);
	return 0;
}

static int print_ports(const struct request *request, const char *id, struct node *ports)
{
	_cleanup_(node_freep) struct node *root = NULL;
	_cleanup_(table_done) struct table table = { .columns = request->wants_port ? 1 : 2 };
	_cleanup_(buf_done) struct buf text = BUF(16 * MIB);
	int r;

	if (request->json) {
		root = node_map();
		r = root ? node_set(root, "sandbox", node_string(id)) : -ENOMEM;
		r = r < 0 ? r : node_set(root, "ports", node_copy(ports));
		return r < 0 ? complain_text("out of memory") : print_json(root);
	}
	for (size_t i = 0; i < ports->count; i++) {
		const struct node *row = ports->entries[i].value;
		char port[16];

		snprintf(port, sizeof(port), "%lld", (long long)node_get(row, "port")->number);
		if (!request->wants_port)
			table_add(&table, port);
		table_add(&table, node_get(row, "address")->text);
	}
	table_print(&table, &text);
	r = table.failure ?: put_text(&text);
	return r < 0 ? complain_text("cannot write the ports: %s", strerror(-r)) : 0;
}

static int run(const struct request *request)
{
	_cleanup_(client_done) struct client client = CLIENT_NONE;
	_cleanup_(node_freep) struct node *manifest = NULL, *ports = node_list();
	struct err err = ERR_NONE;
	const char *isolation;
	bool is_alive;
	int r = ports ? client_open(request->word, &client, &err) : -ENOMEM;

	r = r < 0 ? r : roster_read(client.id, &manifest, &is_alive, &err);
	if (r < 0)
		return err.code ? complain(&err) : complain_text("out of memory");
	isolation = manifest_text(manifest, "isolation");
	if (isolation && str_equal(isolation, "process"))
		r = ask_manifest(manifest, request, client.id, ports, &err);
	else
		r = request->wants_port ? open_port(&client, request, ports, &err)
					: list_ports(&client, ports, &err);
	if (r < 0)
		return err.code ? complain(&err) : complain_text("out of memory");
	return print_ports(request, client.id, ports);
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig port");
	int r = schema_add(document, "sandbox", schema_type("string"), true);

	r = r < 0 ? r
		  : schema_add(document, "ports",
			       schema_list(schema_parts(row_parts, ARRAY_SIZE(row_parts))), true);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int verb_port_main(int argc, char **argv)
{
	struct request request = { 0 };
	bool schema = false, help = false;
	const struct live_option options[] = { { "json", &request.json, NULL },
					       { "schema", &schema, NULL },
					       { "help", &help, NULL } };
	struct err err = ERR_NONE;
	int words = live_arguments(argc, argv, &verb_port, options, ARRAY_SIZE(options), &err);

	if (words < 0)
		return complain(&err);
	if (help) {
		print_help(&verb_port);
		return 0;
	}
	if (schema)
		return print_schema();
	if (words == 0)
		return complain_text("port: which sandbox? (see \"brig help port\")");
	if (words > 2)
		return complain_text("port: too many words: \"%.40s\" (see \"brig help port\")",
				     argv[3]);
	request.word = argv[1];
	request.wants_port = words == 2;
	if (request.wants_port && parse_ports(argv[2], &request, &err) < 0)
		return complain(&err);
	return run(&request);
}

const struct verb verb_port = {
	.name = "port",
	.usage = "SANDBOX [PORT[:OUTSIDE]] [--json]",
	.summary = "open a port of a sandbox at 127.0.0.1, or list those that are open",
	.text = "Whoever connects to the address that is printed reaches PORT inside, until the "
		"sandbox ends. OUTSIDE is the port of this host; without it, one that is free is "
		"taken. Without PORT those that are open are listed, each with its address.\n\n"
		"In the process tier nothing can be opened later: there it prints the address of a "
		"port that was published when the sandbox was made (--publish).",
	.example = "brig port k3x 8080\nbrig port k3x 8080:80\nbrig port k3x",
	.options = port_options,
	.run = verb_port_main,
};
