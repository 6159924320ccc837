#include "serve/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "trace/home.h"

int record_open(const char *id, struct recording *ret_record, struct err *err)
{
	_cleanup_close_ int home = trace_home_open(NULL, false, err), fd = -EBADF;
	struct recording record = RECORDING_NONE;
	char path[TRACE_PATH_SIZE];
	int r;

	if (home < 0)
		return home;
	if (!trace_id_is_valid(id))
		return err_set(err, -ENOENT, "there is no such record");
	trace_stream_path(id, path);
	fd = trace_file_open(home, path, err);
	if (fd < 0)
		return fd;
	r = reader_init(&record.reader, fd);
	if (r < 0)
		return err_errno(err, r, "the record cannot be read");
	record.fd = take_fd(&fd);
	record_new_slice(&record);
	*ret_record = record;
	return 0;
}

void record_done(struct recording *record)
{
	if (record->fd < 0)
		return;
	reader_done(&record->reader);
	record->fd = fd_close(record->fd);
}

void record_new_slice(struct recording *record)
{
	record->slice_end = record->reader.read + RECORD_SLICE;
}

/*
 * A line is canonical JSON, so a name with its quotes and colon behind a brace or comma is that of a field:
 * within a text the quotes would have backslashes.
 */
static const char *find_value(const char *line, size_t len, const char *name)
{
	char needle[40];
	size_t size = strlen(name);
	const char *at;

	if (size + 4 > sizeof(needle))
		return NULL;
	needle[0] = ',';
	needle[1] = '"';
	memcpy(needle + 2, name, size);
	needle[size + 2] = '"';
	needle[size + 3] = ':';
	at = memmem(line, len, needle, size + 4);
	if (!at && len > size + 4 && line[0] == '{' && memcmp(line + 1, needle + 1, size + 3) == 0)
		at = line;
	return at ? at + size + 4 : NULL;
}

bool record_field(const char *line, size_t len, const char *name, const char **ret_text,
		  size_t *ret_len)
{
	const char *at = find_value(line, len, name), *end;

	if (!at || at >= line + len || *at != '"')
		return false;
	for (end = ++at; end < line + len && *end != '"'; end++)
		end += *end == '\\';
	if (end >= line + len)
		return false;
	*ret_text = at;
	*ret_len = (size_t)(end - at);
	return true;
}

static bool field_is(const char *line, size_t len, const char *name, const char *value)
{
	const char *text;
	size_t size;

	return record_field(line, len, name, &text, &size) && size == strlen(value) &&
	       memcmp(text, value, size) == 0;
}

static uint64_t seq_of(const char *line, size_t len)
{
	const char *at = find_value(line, len, "seq");

	/* A digit, a comma or a brace is always behind it: strtoull() stops there. */
	return at && at < line + len ? strtoull(at, NULL, 10) : 0;
}

static bool is_wanted(const struct recording *record, const char *line, size_t len)
{
	if (record->verdict && !field_is(line, len, "verdict", record->verdict))
		return false;
	if (!record->kinds)
		return true;
	for (unsigned int i = 0; i < TRACE_KIND_COUNT; i++)
		if ((record->kinds >> i & 1) && field_is(line, len, "kind", trace_kind_names[i]))
			return true;
	return false;
}

/* In canonical JSON the action stands first. */
static bool is_end(const char *line, size_t len)
{
	static const char begin[] = "{\"action\":\"end\",";

	return len >= sizeof(begin) - 1 && memcmp(line, begin, sizeof(begin) - 1) == 0 &&
	       field_is(line, len, "kind", trace_kind_names[TRACE_SANDBOX]);
}

int record_next(struct recording *record, const char **ret_line, size_t *ret_len, uint64_t *ret_seq)
{
	for (;;) {
		uint64_t seq;
		int r;

		if (record->reader.read > record->slice_end)
			return -EAGAIN;
		r = reader_next(&record->reader, ret_line, ret_len);
		if (r == -EMSGSIZE)
			continue;
		if (r <= 0)
			return r;
		record->has_ended |= is_end(*ret_line, *ret_len);
		seq = seq_of(*ret_line, *ret_len);
		if (seq <= record->after || !is_wanted(record, *ret_line, *ret_len))
			continue;
		*ret_seq = seq;
		return 1;
	}
}
