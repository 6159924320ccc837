#include "trace/head.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "data/yaml.h"
#include "trace/home.h"

#define SUM_LEN    (SHA256_HEX_SIZE - 1)
#define TORN_TRIES 20

const char *const head_state_names[HEAD_STATE_COUNT] = {
	[HEAD_OPEN] = "open",
	[HEAD_CLOSED] = "closed",
	[HEAD_FAILED] = "failed",
	[HEAD_REMOVED] = "removed",
};

#define PLACE "{\"bytes\":%" PRIu64 ",\"hash\":\"%s\",\"seq\":%" PRIu64 "}"

/* "SUM JSON", and spaces up to the newline that ends it. */
void head_format(const struct head *h, char text[static HEAD_SIZE])
{
	char *json = text + SUM_LEN + 1;
	int len = snprintf(json, HEAD_SIZE - SUM_LEN - 1,
			   "{\"acked\":" PLACE ",\"denied\":%" PRIu64 ",\"lost\":%" PRIu64
			   ",\"next\":" PLACE
			   ",\"sandbox\":\"%s\",\"state\":\"%s\",\"tail\":%" PRIu64 "}",
			   h->acked.bytes, h->acked.hash, h->acked.seq, h->denied, h->lost,
			   h->next.bytes, h->next.hash, h->next.seq, h->sandbox,
			   head_state_names[h->state], h->tail);

	sha256_hex(json, (size_t)len, text);
	text[SUM_LEN] = ' ';
	memset(json + len, ' ', HEAD_SIZE - SUM_LEN - 1 - (size_t)len);
	text[HEAD_SIZE - 1] = '\n';
}

static bool get_number(const struct node *map, const char *name, uint64_t *ret)
{
	const struct node *value = node_get(map, name);

	if (!value || value->kind != NODE_INT || value->number < 0)
		return false;
	*ret = (uint64_t)value->number;
	return true;
}

static bool get_text(const struct node *map, const char *name, char *text, size_t size)
{
	const struct node *value = node_get(map, name);

	return value && value->kind == NODE_STRING &&
	       snprintf(text, size, "%s", value->text) < (int)size;
}

static bool get_place(const struct node *map, const char *name, struct head_place *ret)
{
	const struct node *place = node_get(map, name);

	return place && get_number(place, "bytes", &ret->bytes) &&
	       get_number(place, "seq", &ret->seq) &&
	       get_text(place, "hash", ret->hash, sizeof(ret->hash)) &&
	       strlen(ret->hash) == SUM_LEN;
}

static bool get_state(const struct node *map, enum head_state *ret)
{
	for (size_t i = 0; i < HEAD_STATE_COUNT; i++)
		if (str_equal(trace_text(map, "state"), head_state_names[i])) {
			*ret = (enum head_state)i;
			return true;
		}
	return false;
}

int head_parse(const char *text, size_t len, struct head *ret_head, struct err *err)
{
	_cleanup_(node_freep) struct node *map = NULL;
	char sum[SHA256_HEX_SIZE];
	struct head h = { 0 };

	if (len != HEAD_SIZE || text[SUM_LEN] != ' ' || text[len - 1] != '\n')
		return err_set(err, -EBADMSG, "the head is not one that brig wrote");
	for (len--; len > SUM_LEN && text[len - 1] == ' ';)
		len--;
	sha256_hex(text + SUM_LEN + 1, MAX(len, (size_t)SUM_LEN + 1) - SUM_LEN - 1, sum);
	if (memcmp(sum, text, SUM_LEN) != 0)
		return err_set(err, -EBADMSG, "the head was changed");
	if (yaml_parse("head", text + SUM_LEN + 1, len - SUM_LEN - 1, &map, NULL) < 0 ||
	    !get_place(map, "acked", &h.acked) || !get_place(map, "next", &h.next) ||
	    !get_number(map, "denied", &h.denied) || !get_number(map, "lost", &h.lost) ||
	    !get_number(map, "tail", &h.tail) || !get_state(map, &h.state) ||
	    !get_text(map, "sandbox", h.sandbox, sizeof(h.sandbox)) ||
	    h.next.bytes < h.acked.bytes || h.next.seq < h.acked.seq)
		return err_set(err, -EBADMSG, "the head is not one that brig wrote");
	*ret_head = h;
	return 0;
}

int head_write(int fd, const struct head *head)
{
	char text[HEAD_SIZE];
	ssize_t n;

	head_format(head, text);
	do
		n = pwrite(fd, text, sizeof(text), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == sizeof(text) ? 0 : -ENOSPC;
}

static int read_once(int fd, struct head *ret_head, struct err *err)
{
	char text[HEAD_SIZE + 1]; /* one more, to notice what is too long */
	ssize_t n;

	do
		n = pread(fd, text, sizeof(text), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, -errno, "cannot read the head");
	if (n == 0)
		return err_set(err, -ENODATA, "the head is empty");
	return head_parse(text, (size_t)n, ret_head, err);
}

int head_read(int home, const char *id, struct head *ret_head, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	char path[TRACE_PATH_SIZE];
	int r;

	trace_head_path(id, path);
	fd = trace_file_open(home, path, err);
	if (fd < 0)
		return fd;
	/* While it is written, both old and new bytes may be seen. */
	for (int i = 0; i < TORN_TRIES; i++) {
		r = read_once(fd, ret_head, err);
		if (r != -EBADMSG)
			return r;
		usleep(500);
	}
	return r;
}
