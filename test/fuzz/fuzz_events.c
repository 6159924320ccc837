/*
 * A head (its first HEAD_SIZE bytes) and a stream behind it, as anyone may have left them. Whatever
 * they are: reading ends, text for a person is one harmless line per event, and a stream that counts
 * as complete is so no longer when a byte of it is changed or its last one is gone.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "trace/reader.h"
#include "trace/text.h"
#include "trace/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void show(const char *line, size_t len)
{
	_cleanup_(node_freep) struct node *event = NULL;
	_cleanup_(buf_done) struct buf out = BUF(4 * MIB);
	struct err err = ERR_NONE;

	if (trace_line_parse(line, len, &event, &err) < 0) {
		check(err.text[0] && !event);
		return;
	}
	check(trace_event_text(event, &out) == 0);
	for (size_t i = 0; i + 1 < out.len; i++)
		check((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
}

/* Through the reader, from a file. */
static struct verdict_of_stream judge(const uint8_t *data, size_t size, const struct head *head,
				      bool is_shown)
{
	_cleanup_(reader_done) struct reader reader = { 0 };
	_cleanup_close_ int fd = memfd_create("stream", MFD_CLOEXEC);
	struct verdict_of_stream verdict;
	struct verify verify;
	const char *line;
	size_t len = 0;
	int r;

	check(fd >= 0 && fd_write_all(fd, data, size) == 0);
	check(reader_init(&reader, fd) == 0);
	verify_init(&verify, head ? head->sandbox : "abc", head, false);
	while ((r = reader_next(&reader, &line, &len)) != 0) {
		check(r > 0 || r == -EMSGSIZE);
		if (r > 0 && is_shown)
			show(line, len);
		(void)verify_line(&verify, r > 0 ? line : NULL, len);
	}
	check(reader.offset + reader_tail(&reader) == size);
	verify_end(&verify, reader_tail(&reader), &verdict);
	check(verdict.text[0]);
	return verdict;
}

/* With the right sum in front, or the fuzzer would never get behind it. */
static bool read_head(const uint8_t *data, struct head *head)
{
	char text[HEAD_SIZE];
	size_t len = HEAD_SIZE - 1, from = SHA256_HEX_SIZE;
	char sum[SHA256_HEX_SIZE];

	memcpy(text, data, sizeof(text));
	while (len > from && text[len - 1] == ' ')
		len--;
	sha256_hex(text + from, len - from, sum);
	memcpy(text, sum, sizeof(sum) - 1);
	return head_parse(text, sizeof(text), head, NULL) == 0;
}

static void damage(const uint8_t *data, size_t size, const struct head *head)
{
	uint8_t *copy = malloc(size);

	check(copy && size > 0);
	memcpy(copy, data, size);
	copy[(size_t)data[size / 2] * 7 % size] ^= 1;
	check(judge(copy, size, head, false).state == VERIFY_BROKEN);
	free(copy);
	if (head->state == HEAD_CLOSED)
		check(judge(data, size - 1, head, false).state == VERIFY_BROKEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head head;
	struct verdict_of_stream verdict;

	if (size < HEAD_SIZE || !read_head(data, &head)) {
		verdict = judge(data, size, NULL, true);
		check(verdict.state == VERIFY_BROKEN || size == 0);
		return 0;
	}
	verdict = judge(data + HEAD_SIZE, size - HEAD_SIZE, &head, true);
	if (verdict.state == VERIFY_COMPLETE && head.state != HEAD_REMOVED)
		damage(data + HEAD_SIZE, size - HEAD_SIZE, &head);
	return 0;
}
