#include "serve/entry.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/str.h"
#include "data/node.h"

#define NS_PER_S 1000000000ull

void entry_ask(struct draft *d, unsigned int flags)
{
	draft_number(d, FIELD_FLAGS, flags | STAT_LEADS);
	draft_text(d, FIELD_NAME, ENTRY_ATTRIBUTES);
}

void entry_permissions(unsigned int mode, char ret[static ENTRY_PERMISSIONS])
{
	/* In Go's order. */
	const struct {
		bool is_set;
		char letter;
	} marks[] = {
		{ S_ISDIR(mode), 'd' },
		{ S_ISLNK(mode), 'L' },
		{ S_ISBLK(mode) || S_ISCHR(mode), 'D' },
		{ S_ISFIFO(mode), 'p' },
		{ S_ISSOCK(mode), 'S' },
		{ mode & S_ISUID, 'u' },
		{ mode & S_ISGID, 'g' },
		{ S_ISCHR(mode), 'c' },
		{ mode & S_ISVTX, 't' },
	};
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (marks[i].is_set)
			ret[at++] = marks[i].letter;
	if (at == 0)
		ret[at++] = '-';
	for (int bit = 8; bit >= 0; bit--)
		ret[at++] = mode >> bit & 1 ? "xwr"[bit % 3] : '-';
	ret[at] = '\0';
}

void entry_time(uint64_t ns, char ret[static ENTRY_TIME])
{
	time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm tm;
	size_t len;

	gmtime_r(&seconds, &tm);
	len = strftime(ret, ENTRY_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + len, ENTRY_TIME - len, ".%09uZ", (unsigned int)(ns % NS_PER_S));
}

void entry_owner(uint64_t id, char ret[static 24])
{
	if (id == 0)
		snprintf(ret, 24, "root");
	else if (id == 1000)
		snprintf(ret, 24, "user");
	else
		snprintf(ret, 24, "%llu", (unsigned long long)id);
}

const char *entry_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void add_text(struct buf *buf, const char *key, const char *text)
{
	buf_printf(buf, "%s\"%s\":", buf->data[buf->len - 1] == '{' ? "" : ",", key);
	(void)!json_write_string(text, strlen(text), buf);
}

static const char *type_name(unsigned int mode)
{
	if (S_ISREG(mode))
		return "FILE_TYPE_FILE";
	if (S_ISDIR(mode))
		return "FILE_TYPE_DIRECTORY";
	return "FILE_TYPE_UNSPECIFIED";
}

/* What a link leads to has its type and mode; one that leads nowhere has none. */
static void add_kind(const struct message *m, const char *path, struct buf *buf)
{
	unsigned int mode = (unsigned int)message_number(m, FIELD_MODE, 0);
	bool is_link = S_ISLNK(mode);

	if (is_link) {
		add_text(buf, "symlinkTarget", message_text(m, FIELD_TO, path));
		buf_str(buf, ",\"isSymlink\":true");
		mode = (unsigned int)message_number(m, FIELD_LEADS, 0);
	}
	add_text(buf, "type", type_name(mode));
	buf_printf(buf, ",\"mode\":%u", mode & 0777);
}

static void add_metadata(const struct message *m, struct buf *buf)
{
	const char *text;
	size_t at = 0, count = 0;

	while ((text = message_next_text(m, FIELD_VARIABLE, &at))) {
		const char *equals = strchr(text, '=');

		if (!equals || !str_starts(text, ENTRY_ATTRIBUTES))
			continue;
		buf_str(buf, count++ ? "," : ",\"metadata\":{");
		text += strlen(ENTRY_ATTRIBUTES);
		(void)!json_write_string(text, (size_t)(equals - text), buf);
		buf_char(buf, ':');
		(void)!json_write_string(equals + 1, strlen(equals + 1), buf);
	}
	if (count > 0)
		buf_char(buf, '}');
}

int entry_write(const struct message *m, const char *path, struct buf *buf)
{
	char permissions[ENTRY_PERMISSIONS], time[ENTRY_TIME], owner[24], group[24];

	entry_permissions((unsigned int)message_number(m, FIELD_MODE, 0), permissions);
	entry_time(message_number(m, FIELD_MODIFIED, 0), time);
	entry_owner(message_number(m, FIELD_UID, 0), owner);
	entry_owner(message_number(m, FIELD_GID, 0), group);
	if (buf_char(buf, '{') < 0)
		return buf_failed(buf);
	add_text(buf, "name", entry_name(path));
	add_text(buf, "path", path);
	add_kind(m, path, buf);
	/* Of 64 bits, so a text. */
	buf_printf(buf, ",\"size\":\"%lld\"",
		   (long long)MIN(message_number(m, FIELD_SIZE, 0), (uint64_t)INT64_MAX));
	add_text(buf, "permissions", permissions);
	add_text(buf, "owner", owner);
	add_text(buf, "group", group);
	add_text(buf, "modifiedTime", time);
	add_metadata(m, buf);
	buf_char(buf, '}');
	return buf_failed(buf);
}
