/*
 * fuzz_proxy.c - a hostile program at a port of a sandbox: any bytes as its answer
 *
 * The first byte chooses what the client had asked. Whatever the program says, the client gets one answer
 * that a strict reader takes for one, or a connection that breaks; never a byte that could be read as the
 * answer to something else. And it is the same however the bytes of the program arrive.
 */
#define CASE_PAIRS
#include "proxy_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ANSWER_MAX (64 * KIB)

struct outcome {
	unsigned int status;
	bool is_whole, is_tunnel;
	struct buf body;
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static const char *const questions[] = {
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
};

static void hear(int fd, struct buf *heard)
{
	char block[16384];
	ssize_t n;

	while ((n = recv(fd, block, sizeof(block), MSG_DONTWAIT)) > 0)
		require(buf_add(heard, block, (size_t)n) == 0);
}

static void turn(int client, struct buf *heard)
{
	require(loop_turn(scene.loop, 0) == 0);
	hear(client, heard);
}

static void decode(struct outcome *o, const char *data, size_t len)
{
	struct chunked chunked = { 0 };

	while (len > 0 && !chunked.is_done) {
		struct text piece;
		long n = chunked_take(&chunked, data, len, &piece);

		require(n > 0);
		buf_add(&o->body, piece.data, piece.len);
		data += n;
		len -= (size_t)n;
	}
	require(len == 0);
	o->is_whole = chunked.is_done;
}

/* What a strict client makes of it. */
static void judge(const struct buf *heard, size_t question, struct outcome *o)
{
	static struct head head;
	const char *why, *data = heard->data;
	size_t len = heard->len;
	long n = len > 0 ? head_measure(data, len, &why) : 0;

	if (n == 0)
		return;
	require(n > 0 && head_parse_response(data, (size_t)n, question == 1, &head, &why) == 0);
	data += n;
	len -= (size_t)n;
	o->status = head.status;
	o->is_tunnel = head.status == 101;
	require(!o->is_tunnel || question == 3);
	require(head.status >= 200 || o->is_tunnel);
	if (head.framing == FRAMING_CHUNKED) {
		decode(o, data, len);
	} else if (head.framing == FRAMING_LENGTH) {
		require(len <= head.length);
		o->is_whole = len == head.length;
		buf_add(&o->body, data, len);
	} else if (head.framing == FRAMING_UNTIL_END || o->is_tunnel) {
		require(o->is_tunnel || question == 4);
		buf_add(&o->body, data, len);
	} else {
		require(len == 0);
		o->is_whole = true;
	}
}

static void run(size_t question, const char *data, size_t size, size_t step, struct outcome *ret_o)
{
	_cleanup_(buf_done) struct buf heard = BUF(16 * MIB);
	int client = case_client(questions[question], strlen(questions[question]));
	int ours, program;
	size_t at = 0;

	require(client >= 0 && case_connection(&ours, &program));
	while (!scene.on_message)
		turn(client, &heard);
	case_connected(ours);
	while (at < size) {
		ssize_t n =
			send(program, data + at, MIN(step, size - at), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			at += (size_t)n;
		else if (errno != EAGAIN)
			break;
		turn(client, &heard);
	}
	shutdown(program, SHUT_WR);
	for (int i = 0; i < 6; i++)
		turn(client, &heard);
	close(program);
	for (int i = 0; i < 4; i++)
		turn(client, &heard);
	shutdown(client, SHUT_WR);
	for (int i = 0; i < 50 && server_connections(scene.server) > 0; i++)
		turn(client, &heard);
	hear(client, &heard);
	require(scene.requests == scene.gones);
	require(server_connections(scene.server) == 0);
	close(client);
	judge(&heard, question, ret_o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole = { .body = BUF(16 * MIB) }, parts = { .body = BUF(16 * MIB) };
	static bool is_open;
	size_t question;

	if (size < 1 || size > ANSWER_MAX)
		return 0;
	if (!is_open)
		require((is_open = case_open()));
	question = data[0] % ARRAY_SIZE(questions);
	run(question, (const char *)data + 1, size - 1, size, &whole);
	run(question, (const char *)data + 1, size - 1, 1 + size / 20, &parts);
	require(whole.status == parts.status && whole.is_whole == parts.is_whole &&
		whole.is_tunnel == parts.is_tunnel);
	if (whole.is_whole) {
		require(whole.body.len == parts.body.len);
		require(whole.body.len == 0 ||
			memcmp(whole.body.data, parts.body.data, whole.body.len) == 0);
	}
	buf_done(&whole.body);
	buf_done(&parts.body);
	return 0;
}
