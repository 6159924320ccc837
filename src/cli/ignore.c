#include "cli/ignore.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/str.h"

#define FILE_MAX (1 * MIB)
#define PART_MAX 256

struct ignore {
	struct strv patterns; /* with "!" in front, if it was there */
	bool has_exceptions;
};

void ignore_free(struct ignore *ignore)
{
	if (!ignore)
		return;
	strv_done(&ignore->patterns);
	free(ignore);
}

static size_t part_length(const char *text)
{
	return strcspn(text, "/");
}

static const char *next_part(const char *text)
{
	text += part_length(text);
	return *text ? text + 1 : text;
}

static bool part_fits(const char *pattern, const char *path)
{
	char p[PART_MAX], t[PART_MAX];
	size_t plen = part_length(pattern), tlen = part_length(path);

	if (plen >= sizeof(p) || tlen >= sizeof(t))
		return false;
	memcpy(p, pattern, plen);
	p[plen] = '\0';
	memcpy(t, path, tlen);
	t[tlen] = '\0';
	return fnmatch(p, t, 0) == 0;
}

static bool is_any(const char *pattern)
{
	return part_length(pattern) == 2 && pattern[0] == '*' && pattern[1] == '*';
}

/* At "**" it is tried with one part more each time; only the last one has to be gone back to. */
bool ignore_covers(const char *pattern, const char *path)
{
	const char *star = NULL, *behind = NULL;

	if (str_equal(pattern, "."))
		return true;
	while (*path) {
		if (!*pattern)
			return true; /* the rest is below */
		if (is_any(pattern)) {
			star = pattern = next_part(pattern);
			behind = path;
		} else if (part_fits(pattern, path)) {
			pattern = next_part(pattern);
			path = next_part(path);
		} else if (star) {
			behind = next_part(behind);
			path = behind;
			pattern = star;
		} else {
			return false;
		}
	}
	return !*pattern || (is_any(pattern) && !*next_part(pattern));
}

bool ignore_has(const struct ignore *ignore, const char *path)
{
	bool is_out = false;

	for (size_t i = 0; ignore && i < ignore->patterns.count; i++) {
		const char *pattern = ignore->patterns.items[i];

		if (ignore_covers(pattern + (pattern[0] == '!'), path))
			is_out = pattern[0] != '!';
	}
	return is_out;
}

bool ignore_may_have_below(const struct ignore *ignore, const char *path)
{
	return !ignore_has(ignore, path) || ignore->has_exceptions;
}

static int add_pattern(struct ignore *ignore, const char *line, size_t len)
{
	char text[PATH_MAX], path[PATH_MAX], whole[PATH_MAX + 1];
	bool is_exception;

	while (len > 0 && strchr(" \t\r", line[len - 1]))
		len--;
	while (len > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		len--;
	}
	if (len == 0 || *line == '#')
		return 0;
	is_exception = *line == '!';
	if (len - is_exception >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, line + is_exception, len - is_exception);
	text[len - is_exception] = '\0';
	if (!path_resolve("/", text, path, sizeof(path)))
		return -ENAMETOOLONG;
	if (!path[1])
		return 0;
	snprintf(whole, sizeof(whole), "%s%s", is_exception ? "!" : "", path + 1);
	ignore->has_exceptions |= is_exception;
	return strv_add(&ignore->patterns, whole);
}

int ignore_parse(const char *text, struct ignore **ret_ignore)
{
	struct ignore *ignore = calloc(1, sizeof(*ignore));
	int r = ignore ? 0 : -ENOMEM;

	while (*text && r == 0) {
		size_t len = strcspn(text, "\n");

		r = add_pattern(ignore, text, len);
		text += len + (text[len] == '\n');
	}
	if (r < 0) {
		ignore_free(ignore);
		return r;
	}
	*ret_ignore = ignore;
	return 0;
}

int ignore_read(int dir, struct ignore **ret_ignore, struct err *err)
{
	_cleanup_close_ int fd =
		openat(dir, ".dockerignore", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_(buf_done) struct buf text = BUF(FILE_MAX);
	int r = fd >= 0 ? fd_read_all(fd, &text) : errno == ENOENT ? 0 : -errno;

	r = r < 0 ? r : ignore_parse(buf_text(&text), ret_ignore);
	return r < 0 ? err_errno(err, r, ".dockerignore") : 0;
}
