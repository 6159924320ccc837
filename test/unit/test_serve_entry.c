#include "unit.h"

#include <sys/stat.h>

#include "data/node.h"
#include "serve/entry.h"

static void permissions(void **state)
{
	static const struct {
		unsigned int mode;
		const char *text;
	} rows[] = {
		{ S_IFREG | 0644, "-rw-r--r--" },     { S_IFREG | 0, "----------" },
		{ S_IFDIR | 0755, "drwxr-xr-x" },     { S_IFDIR | 01777, "dtrwxrwxrwx" },
		{ S_IFLNK | 0777, "Lrwxrwxrwx" },     { S_IFCHR | 0666, "Dcrw-rw-rw-" },
		{ S_IFBLK | 0660, "Drw-rw----" },     { S_IFIFO | 0600, "prw-------" },
		{ S_IFSOCK | 0755, "Srwxr-xr-x" },    { S_IFREG | 04755, "urwxr-xr-x" },
		{ S_IFREG | 02755, "grwxr-xr-x" },    { S_IFREG | 06711, "ugrwx--x--x" },
		{ S_IFDIR | 07777, "dugtrwxrwxrwx" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[ENTRY_PERMISSIONS];

		entry_permissions(rows[i].mode, text);
		assert_string_equal(text, rows[i].text);
	}
	for (unsigned int mode = 0; mode < 1u << 16; mode++) {
		char text[ENTRY_PERMISSIONS];

		entry_permissions(mode, text);
		assert_true(strlen(text) >= 10);
	}
}

static void times(void **state)
{
	char text[ENTRY_TIME];

	(void)state;
	entry_time(0, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000000000Z");
	entry_time(784111777000000042, text);
	assert_string_equal(text, "1994-11-06T08:49:37.000000042Z");
	entry_time(UINT64_MAX, text);
	assert_string_equal(text, "2554-07-21T23:34:33.709551615Z");
}

static void names(void **state)
{
	char text[24];

	(void)state;
	assert_string_equal(entry_name("/a/b"), "b");
	assert_string_equal(entry_name("/"), "/");
	assert_string_equal(entry_name("a"), "a");
	entry_owner(0, text);
	assert_string_equal(text, "root");
	entry_owner(1000, text);
	assert_string_equal(text, "user");
	entry_owner(UINT64_MAX, text);
	assert_string_equal(text, "18446744073709551615");
}

static void check(struct draft *d, const char *path, const char *wanted)
{
	_cleanup_(buf_done) struct buf buf = BUF(10000);
	_cleanup_(node_freep) struct node *node = NULL;
	struct message m = { .type = MESSAGE_ENTRY,
			     .fields = (unsigned char *)d->fields.data,
			     .len = d->fields.len };

	assert_int_equal(entry_write(&m, path, &buf), 0);
	assert_string_equal(buf_text(&buf), wanted);
	assert_int_equal(json_read(buf.data, buf.len, NULL, &node, NULL), 0);
	draft_done(d);
}

static struct draft draft_of(unsigned int mode)
{
	struct draft d = DRAFT(MESSAGE_ENTRY, 0);

	draft_number(&d, FIELD_MODE, mode);
	draft_number(&d, FIELD_UID, 1000);
	draft_number(&d, FIELD_GID, 0);
	draft_number(&d, FIELD_SIZE, 5);
	draft_number(&d, FIELD_MODIFIED, 1);
	return d;
}

#define END                                                                              \
	",\"owner\":\"user\",\"group\":\"root\",\"modifiedTime\":\"1970-01-01T00:00:00." \
	"000000001Z\""

static void entries(void **state)
{
	struct draft d = draft_of(S_IFREG | 0644);

	(void)state;
	check(&d, "/a/b",
	      "{\"name\":\"b\",\"path\":\"/a/b\",\"type\":\"FILE_TYPE_FILE\",\"mode\":420,"
	      "\"size\":\"5\",\"permissions\":\"-rw-r--r--\"" END "}");
	/* Foreign bytes, and attributes: those that are another's, or no pair, are left out. */
	d = draft_of(S_IFDIR | 01777);
	draft_text(&d, FIELD_VARIABLE, "user.e2b.k=v=\"");
	draft_text(&d, FIELD_VARIABLE, "user.other=x");
	draft_text(&d, FIELD_VARIABLE, "user.e2b.none");
	draft_text(&d, FIELD_VARIABLE, "user.e2b.\xff=");
	check(&d, "/\x1b\xff",
	      "{\"name\":\"\\u001b\xef\xbf\xbd\",\"path\":\"/\\u001b\xef\xbf\xbd\",\"type\":"
	      "\"FILE_TYPE_DIRECTORY\",\"mode\":511,\"size\":\"5\",\"permissions\":"
	      "\"dtrwxrwxrwx\"" END ",\"metadata\":{\"k\":\"v=\\\"\",\"\xef\xbf\xbd\":\"\"}}");
	/* A link has the kind of what it leads to. */
	d = draft_of(S_IFLNK | 0777);
	draft_text(&d, FIELD_TARGET, "b");
	draft_text(&d, FIELD_TO, "/a/b");
	draft_number(&d, FIELD_LEADS, S_IFDIR | 0700);
	check(&d, "/a/l",
	      "{\"name\":\"l\",\"path\":\"/a/l\",\"symlinkTarget\":\"/a/b\",\"isSymlink\":true,"
	      "\"type\":\"FILE_TYPE_DIRECTORY\",\"mode\":448,\"size\":\"5\",\"permissions\":"
	      "\"Lrwxrwxrwx\"" END "}");
	d = draft_of(S_IFLNK | 0777);
	check(&d, "/a/l",
	      "{\"name\":\"l\",\"path\":\"/a/l\",\"symlinkTarget\":\"/a/l\",\"isSymlink\":true,"
	      "\"type\":\"FILE_TYPE_UNSPECIFIED\",\"mode\":0,\"size\":\"5\",\"permissions\":"
	      "\"Lrwxrwxrwx\"" END "}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permissions),
		cmocka_unit_test(times),
		cmocka_unit_test(names),
		cmocka_unit_test(entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
