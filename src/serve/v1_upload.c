#include "serve/v1_upload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/decode.h"
#include "serve/agent.h"
#include "serve/openapi.h"

#define CONTENT_MAX (1 * MIB)
#define FILE_MODE   0644

static int read_content(const struct node *file, size_t index, struct buf *content, struct err *err)
{
	const struct node *text = node_get(file, "text"), *code = node_get(file, "base64");
	_cleanup_free_ char *bytes = NULL;
	long len;

	if (!text == !code)
		return err_set(err, -EINVAL, "files[%zu]: one of \"text\" and \"base64\" is wanted",
			       index);
	if (text)
		return buf_add(content, text->text, text->len);
	bytes = malloc(code->len / 4 * 3 + 3);
	len = bytes ? base64_read(code->text, code->len, false, bytes) : -ENOMEM;
	if (len == -EINVAL)
		return err_set(err, -EINVAL, "files[%zu].base64: it is no base64", index);
	return len < 0 ? (int)len : buf_add(content, bytes, (size_t)len);
}

int upload_check(const struct node *files, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < files->count && r == 0; i++) {
		_cleanup_(buf_done) struct buf content = BUF(CONTENT_MAX);

		r = read_content(files->entries[i].value, i, &content, err);
	}
	return r < 0 && !err->code ? err_errno(err, r, "files") : r;
}

void upload_done(struct upload *upload)
{
	if (upload->fleet)
		upload->call = call_cancel(upload->fleet, upload->call);
	buf_done(&upload->content);
}

static void finish(struct upload *upload, const struct err *err)
{
	buf_done(&upload->content);
	upload->done(upload->of, err);
}

/* As much as the window lets through, and then the end. */
static int send_more(struct upload *upload)
{
	int r = 0;

	while (r == 0 && upload->sent < upload->content.len && upload->window > 0) {
		size_t left = upload->content.len - upload->sent;
		size_t most = MIN(upload->window, (size_t)MESSAGE_DATA_MAX);
		size_t len = MIN(left, most);
		struct draft d = DRAFT(MESSAGE_DATA, 0);

		draft_bytes(&d, FIELD_DATA, upload->content.data + upload->sent, len);
		r = call_send(upload->fleet, upload->call, &d);
		upload->sent += len;
		upload->window -= len;
		if (r == 0 && upload->sent == upload->content.len) {
			struct draft end = DRAFT(MESSAGE_DATA_END, 0);

			r = call_send(upload->fleet, upload->call, &end);
		}
	}
	return r;
}

static void on_message(void *of, struct message *m, bool is_last)
{
	struct upload *upload = of;
	struct err err = ERR_NONE;

	if (is_last)
		upload->call = 0;
	if (m->type == MESSAGE_ERROR) {
		(void)agent_error(m, &err);
		err_prefix(&err, "files[%zu]", upload->index);
		finish(upload, &err);
		return;
	}
	if (is_last) {
		upload->index++;
		upload_start(upload);
		return;
	}
	if (m->type != MESSAGE_CREDIT)
		return;
	/* init is foreign: it cannot make us send more than there is. */
	upload->window =
		MIN(upload->window + message_number(m, FIELD_SIZE, 0), (uint64_t)MESSAGE_WINDOW);
	if (send_more(upload) < 0) {
		upload->call = call_cancel(upload->fleet, upload->call);
		err_set(&err, -EPIPE, "files[%zu]: the sandbox does not listen", upload->index);
		finish(upload, &err);
	}
}

static int begin(struct upload *upload, const struct node *file, struct err *err)
{
	struct draft d = DRAFT(MESSAGE_WRITE, 0);
	const char *mode = doc_text(file, "mode", NULL);
	int r;

	draft_text(&d, FIELD_PATH, doc_text(file, "path", ""));
	draft_text(&d, FIELD_USER, upload->user);
	draft_number(&d, FIELD_MODE, mode ? strtoull(mode, NULL, 8) : FILE_MODE);
	draft_number(&d, FIELD_FLAGS, WRITE_PARENTS | (mode ? WRITE_MODE : 0));
	draft_number(&d, FIELD_SIZE, upload->content.len);
	r = call_start(upload->fleet, upload->sandbox, &d, NULL, 0, on_message, upload,
		       &upload->call, err);
	if (r < 0)
		return r;
	if (upload->content.len == 0) {
		struct draft end = DRAFT(MESSAGE_DATA_END, 0);

		return call_send(upload->fleet, upload->call, &end);
	}
	return send_more(upload);
}

void upload_start(struct upload *upload)
{
	const struct node *file;
	struct err err = ERR_NONE;
	int r;

	if (upload->index >= upload->files->count) {
		finish(upload, &err);
		return;
	}
	file = upload->files->entries[upload->index].value;
	buf_done(&upload->content);
	upload->content = BUF(CONTENT_MAX);
	upload->sent = 0;
	upload->window = MESSAGE_WINDOW;
	r = read_content(file, upload->index, &upload->content, &err);
	r = r < 0 ? r : begin(upload, file, &err);
	if (r < 0) {
		upload->call = call_cancel(upload->fleet, upload->call);
		if (!err.code)
			err_errno(&err, r, "files[%zu]", upload->index);
		finish(upload, &err);
	}
}
