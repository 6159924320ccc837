#include "http/websocket.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/str.h"
#include "output/text.h"

#define KEY_LEN 24 /* 16 bytes in base64 */
#define NO_CODE 1005

static bool is_white(char c)
{
	return c == ' ' || c == '\t';
}

/* Whether a list with commas has this element; case counts only where is_exact. */
static bool list_has(const struct text *list, const char *element, bool is_exact)
{
	size_t at = 0;

	while (list && at < list->len) {
		struct text word;
		size_t end = at;

		while (end < list->len && list->data[end] != ',')
			end++;
		word = (struct text){ list->data + at, end - at };
		at = end + 1;
		while (word.len && is_white(word.data[0]))
			word = (struct text){ word.data + 1, word.len - 1 };
		while (word.len && is_white(word.data[word.len - 1]))
			word.len--;
		if (is_exact ? text_is(&word, element) : text_is_nocase(&word, element))
			return true;
	}
	return false;
}

bool websocket_offers(const struct head *head, const char *protocol)
{
	for (size_t i = 0; i < head->field_count; i++)
		if (text_is_nocase(&head->fields[i].name, "Sec-WebSocket-Protocol") &&
		    list_has(&head->fields[i].value, protocol, true))
			return true;
	return false;
}

static bool is_base64(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '+' || c == '/';
}

/* 16 bytes in base64 end in "==", and leave four bits of the character before unused. */
static bool is_key(const struct text *key)
{
	if (!key || key->len != KEY_LEN || key->data[22] != '=' || key->data[23] != '=')
		return false;
	for (size_t i = 0; i < 22; i++)
		if (!is_base64(key->data[i]))
			return false;
	return strchr("AQgw", key->data[21]) != NULL;
}

static int make_accept(const struct text *key, char ret_accept[static WEBSOCKET_ACCEPT_SIZE])
{
	static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	_cleanup_(buf_done) struct buf code = BUF(64);
	char joined[KEY_LEN + sizeof(suffix) - 1];
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	memcpy(joined, key->data, KEY_LEN);
	memcpy(joined + KEY_LEN, suffix, sizeof(suffix) - 1);
	if (EVP_Digest(joined, sizeof(joined), digest, &len, EVP_sha1(), NULL) != 1 || len != 20 ||
	    base64_encode((const char *)digest, len, &code) < 0 ||
	    code.len != WEBSOCKET_ACCEPT_SIZE - 1)
		return -EIO;
	memcpy(ret_accept, buf_text(&code), WEBSOCKET_ACCEPT_SIZE);
	return 0;
}

int websocket_check(const struct head *head, char ret_accept[static WEBSOCKET_ACCEPT_SIZE],
		    const char **ret_why)
{
	const struct text *key = head_find(head, "Sec-WebSocket-Key");

	*ret_why = NULL;
	if (head->method != METHOD_GET || !head->upgrade ||
	    !list_has(head_find(head, "Upgrade"), "websocket", false)) {
		*ret_why = "this is a WebSocket: ask for it with \"Upgrade: websocket\"";
		return -EINVAL;
	}
	if (!text_is(head_find(head, "Sec-WebSocket-Version"), "13")) {
		*ret_why = "the version of WebSocket spoken here is 13";
		return -EPROTONOSUPPORT;
	}
	if (head->framing != FRAMING_NONE || !is_key(key)) {
		*ret_why = "no Sec-WebSocket-Key of 16 bytes, or a body where none belongs";
		return -EINVAL;
	}
	if (make_accept(key, ret_accept) < 0) {
		*ret_why = "the answer to the key could not be made";
		return -EIO;
	}
	return 0;
}

void websocket_init(struct websocket *ws, size_t max)
{
	*ws = (struct websocket){ .message = BUF(max), .control = BUF(WEBSOCKET_CONTROL_MAX + 1) };
}

void websocket_done(struct websocket *ws)
{
	buf_done(&ws->message);
	buf_done(&ws->control);
}

enum websocket_code websocket_code(int r)
{
	static const struct {
		int r;
		enum websocket_code code;
	} codes[] = {
		{ -EPROTO, WEBSOCKET_PROTOCOL },
		{ -EILSEQ, WEBSOCKET_NO_TEXT },
		{ -EMSGSIZE, WEBSOCKET_TOO_BIG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].r == r)
			return codes[i].code;
	return WEBSOCKET_FAILED;
}

static bool is_control(enum websocket_kind kind)
{
	return kind >= WEBSOCKET_CLOSE;
}

/* The head of a frame, as long as it is known: how many bytes it has in all. */
static size_t head_size(const struct websocket *ws)
{
	unsigned int length = ws->head_len >= 2 ? ws->head[1] & 0x7f : 0;

	if (ws->head_len < 2)
		return 2;
	return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + 4;
}

/* The length that the head says; -EPROTO where a shorter form would have said it. */
static int read_length(const struct websocket *ws, uint64_t *ret_length)
{
	unsigned int length = ws->head[1] & 0x7f;
	size_t bytes = length == 126 ? 2 : length == 127 ? 8 : 0;
	uint64_t value = bytes ? 0 : length;

	for (size_t i = 0; i < bytes; i++)
		value = value << 8 | ws->head[2 + i];
	if ((bytes == 2 && value < 126) || (bytes == 8 && (value <= UINT16_MAX || value >> 63)))
		return -EPROTO;
	*ret_length = value;
	return 0;
}

/* Whether a frame of this kind may come now. */
static bool is_in_order(const struct websocket *ws, enum websocket_kind frame)
{
	switch (frame) {
	case WEBSOCKET_MORE:
		return ws->kind != WEBSOCKET_MORE;
	case WEBSOCKET_TEXT:
	case WEBSOCKET_BINARY:
		return ws->kind == WEBSOCKET_MORE;
	case WEBSOCKET_CLOSE:
	case WEBSOCKET_PING:
	case WEBSOCKET_PONG:
		return true;
	}
	return false;
}

/* What the first two bytes say already: who waits for more of a bad head may wait for ever. */
static int check_begin(const struct websocket *ws)
{
	bool is_bad = (ws->head[0] & 0x70) || !(ws->head[1] & 0x80) ||
		      !is_in_order(ws, ws->head[0] & 0x0f);

	return is_bad ? -EPROTO : 0;
}

/* A whole head: the frame begins. */
static int begin_frame(struct websocket *ws)
{
	enum websocket_kind frame = ws->head[0] & 0x0f;
	uint64_t length;
	int r = read_length(ws, &length);

	ws->is_final = ws->head[0] & 0x80;
	if (r < 0)
		return r;
	if (is_control(frame) && (!ws->is_final || length > WEBSOCKET_CONTROL_MAX))
		return -EPROTO;
	if (!is_control(frame) && length > ws->message.max - ws->message.len)
		return -EMSGSIZE;
	if (frame == WEBSOCKET_TEXT || frame == WEBSOCKET_BINARY)
		ws->kind = frame;
	memcpy(ws->mask, ws->head + head_size(ws) - 4, 4);
	ws->frame = frame;
	ws->left = length;
	ws->at = 0;
	ws->is_inside = true;
	ws->head_len = 0;
	return 0;
}

static int take_content(struct websocket *ws, const char *data, size_t len)
{
	struct buf *to = is_control(ws->frame) ? &ws->control : &ws->message;
	size_t before = to->len;
	int r = buf_add(to, data, len);

	if (r < 0)
		return r == -ENOSPC ? -EMSGSIZE : r;
	for (size_t i = 0; i < len; i++, ws->at++)
		to->data[before + i] ^= (char)ws->mask[ws->at & 3];
	ws->left -= len;
	return 0;
}

static bool is_code(unsigned int code)
{
	return (code >= 1000 && code <= 1014 && (code < 1004 || code > 1006)) ||
	       (code >= 3000 && code <= 4999);
}

static int give_close(struct websocket *ws, struct websocket_message *ret_message)
{
	const unsigned char *content = (const unsigned char *)buf_text(&ws->control);
	size_t len = ws->control.len;

	ws->is_closed = true;
	*ret_message =
		(struct websocket_message){ .kind = WEBSOCKET_CLOSE, .data = "", .code = NO_CODE };
	if (len == 0)
		return 1;
	if (len < 2)
		return -EPROTO;
	ret_message->code = (unsigned int)content[0] << 8 | content[1];
	ret_message->data = (const char *)content + 2;
	ret_message->len = len - 2;
	if (!is_code(ret_message->code))
		return -EPROTO;
	return is_utf8(ret_message->data, ret_message->len) ? 1 : -EILSEQ;
}

/* The frame is whole: 1 if a message is, too. */
static int end_frame(struct websocket *ws, struct websocket_message *ret_message)
{
	const struct buf *from = is_control(ws->frame) ? &ws->control : &ws->message;

	ws->is_inside = false;
	if (ws->frame == WEBSOCKET_CLOSE)
		return give_close(ws, ret_message);
	if (!ws->is_final)
		return 0;
	*ret_message =
		(struct websocket_message){ .kind = is_control(ws->frame) ? ws->frame : ws->kind,
					    .data = buf_text(from),
					    .len = from->len };
	ws->is_given = true;
	if (is_control(ws->frame))
		return 1;
	ws->kind = WEBSOCKET_MORE;
	return ret_message->kind != WEBSOCKET_TEXT || is_utf8(from->data, from->len) ? 1 : -EILSEQ;
}

/* What was given before is done with. */
static void forget_given(struct websocket *ws)
{
	if (ws->is_given)
		buf_reset(is_control(ws->frame) ? &ws->control : &ws->message);
	ws->is_given = false;
}

int websocket_next(struct websocket *ws, const char **data, size_t *len,
		   struct websocket_message *ret_message)
{
	int r = 0;

	forget_given(ws);
	while (r == 0 && !ws->is_closed && (*len > 0 || (ws->is_inside && ws->left == 0))) {
		size_t part;

		if (ws->is_inside) {
			part = MIN(ws->left, (uint64_t)*len);
			r = take_content(ws, *data, part);
			if (r == 0 && ws->left == 0)
				r = end_frame(ws, ret_message);
		} else {
			part = MIN(head_size(ws) - ws->head_len, *len);
			memcpy(ws->head + ws->head_len, *data, part);
			ws->head_len += part;
			if (ws->head_len == 2)
				r = check_begin(ws);
			if (r == 0 && ws->head_len > 2 && ws->head_len == head_size(ws))
				r = begin_frame(ws);
		}
		*data += part;
		*len -= part;
	}
	if (r < 0 || ws->is_closed) {
		ws->is_closed = true;
		*len = 0;
	}
	return r;
}

size_t websocket_head(enum websocket_kind kind, uint64_t len,
		      unsigned char ret_head[static WEBSOCKET_HEAD_MAX])
{
	size_t bytes = len < 126 ? 0 : len <= UINT16_MAX ? 2 : 8;

	ret_head[0] = (unsigned char)(0x80 | kind);
	ret_head[1] = (unsigned char)(bytes == 0 ? len : bytes == 2 ? 126 : 127);
	for (size_t i = 0; i < bytes; i++)
		ret_head[2 + i] = (unsigned char)(len >> (8 * (bytes - 1 - i)));
	return 2 + bytes;
}

size_t websocket_goodbye(enum websocket_code code, const char *words,
			 char ret_content[static WEBSOCKET_CONTROL_MAX])
{
	size_t len = 0, step;

	/* Cut between characters. */
	while (words[len] &&
	       (step = utf8_sequence((const unsigned char *)words + len, strlen(words + len))) >
		       0 &&
	       len + step <= WEBSOCKET_CONTROL_MAX - 2)
		len += step;
	ret_content[0] = (char)((unsigned int)code >> 8);
	ret_content[1] = (char)((unsigned int)code & 0xff);
	memcpy(ret_content + 2, words, len);
	return 2 + len;
}
