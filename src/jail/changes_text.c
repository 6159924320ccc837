#include "jail/changes_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "data/node.h"

static const struct {
	const char *name;
	char letter;
} kinds[CHANGE_KIND_COUNT] = {
	[CHANGE_ADDED] = { "added", 'A' },     [CHANGE_CHANGED] = { "changed", 'M' },
	[CHANGE_DELETED] = { "deleted", 'D' }, [CHANGE_RENAMED] = { "renamed", 'R' },
	[CHANGE_MODE] = { "mode", 'm' },
};

static const char *const whats[CHANGE_WHAT_COUNT] = {
	[CHANGE_PROBLEM] = "problem", [CHANGE_CONFLICT] = "conflict", [CHANGE_REFUSED] = "refused",
	[CHANGE_DROPPED] = "dropped", [CHANGE_FAILED] = "failed",
};

static const struct {
	mode_t type;
	const char *name;
} types[] = {
	{ S_IFREG, "file" },         { S_IFDIR, "directory" }, { S_IFLNK, "symlink" },
	{ S_IFIFO, "pipe" },         { S_IFSOCK, "socket" },   { S_IFCHR, "character device" },
	{ S_IFBLK, "block device" },
};

static const char *type_name(mode_t mode)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((mode & S_IFMT) == types[i].type)
			return types[i].name;
	return "unknown";
}

/* The type now, or of what is gone. */
static mode_t mode_of(const struct change *change)
{
	return change->new_mode ? change->new_mode : change->old_mode;
}

int change_notes_add(struct change_notes *notes, enum change_what what, const char *path,
		     const char *fmt, ...)
{
	_cleanup_free_ char *copy = NULL, *words = NULL;
	char why[256];
	va_list ap;

	if (notes->count >= CHANGE_NOTES_MAX) {
		notes->more++;
		return 0;
	}
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (notes->count == notes->room) {
		size_t room = notes->room ? notes->room * 2 : 16;
		struct change_note *items = reallocarray(notes->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		notes->items = items;
		notes->room = room;
	}
	copy = strdup(path);
	words = strdup(why);
	if (!copy || !words)
		return -ENOMEM;
	notes->items[notes->count++] =
		(struct change_note){ what, take_ptr(&copy), take_ptr(&words) };
	return 0;
}

void change_notes_done(struct change_notes *notes)
{
	for (size_t i = 0; i < notes->count; i++) {
		free(notes->items[i].path);
		free(notes->items[i].why);
	}
	free(notes->items);
	*notes = (struct change_notes){ 0 };
}

void changes_outcome_done(struct changes_outcome *outcome)
{
	change_notes_done(&outcome->notes);
	outcome->applied = 0;
}

/* Characters that a terminal shows as something else than what they are: the C1 controls, line and
 * paragraph separators, and those that change the direction of writing. */
static bool is_deceiving(const unsigned char *p, size_t len)
{
	if (len == 2)
		return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c);
	if (len == 3 && p[0] == 0xe2)
		return (p[1] == 0x80 &&
			((p[2] >= 0x8b && p[2] <= 0x8f) || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
		       (p[1] == 0x81 && p[2] >= 0xa0 && p[2] <= 0xaf);
	return len == 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf;
}

int change_name_escape(const char *name, struct buf *out)
{
	static const char letters[] = { ['\n'] = 'n', ['\t'] = 't', ['\r'] = 'r' };
	const unsigned char *p = (const unsigned char *)name;
	size_t left = strlen(name);
	unsigned char before = 0;

	while (left > 0) {
		size_t n = utf8_sequence(p, left);
		size_t step = n ? n : 1;

		if (*p == '\\')
			buf_str(out, "\\\\");
		else if (*p < sizeof(letters) && letters[*p])
			buf_printf(out, "\\%c", letters[*p]);
		else if (n == 0 || *p < 0x20 || *p == 0x7f || (*p == '>' && before == '-') ||
			 is_deceiving(p, n))
			for (size_t i = 0; i < step; i++)
				buf_printf(out, "\\x%02x", p[i]);
		else
			buf_add(out, p, step);
		before = *p;
		p += step;
		left -= step;
	}
	return buf_failed(out);
}

/* At most four bytes for one, and the path is bounded. */
#define NAME_BUF BUF(64 * KIB)

static void print_name(FILE *file, const char *top, const char *name, mode_t mode)
{
	_cleanup_(buf_done) struct buf text = NAME_BUF;

	if ((*top && (change_name_escape(top, &text) < 0 ||
		      (!str_ends(top, "/") && buf_char(&text, '/') < 0))) ||
	    change_name_escape(name, &text) < 0)
		buf_reset(&text);
	fprintf(file, "%s%s", buf_text(&text), S_ISDIR(mode) ? "/" : "");
}

void changes_print(FILE *file, const struct changes *changes)
{
	changes_print_below(file, changes, "");
}

void changes_print_below(FILE *file, const struct changes *changes, const char *top)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->items[i];

		fprintf(file, "%c ", kinds[change->kind].letter);
		if (change->kind == CHANGE_RENAMED) {
			print_name(file, top, change->from, change->old_mode);
			fputs(" -> ", file);
		}
		print_name(file, top, change->path, mode_of(change));
		if (change->kind == CHANGE_MODE)
			fprintf(file, " %04o -> %04o", change->old_mode & 07777,
				change->new_mode & 07777);
		fputc('\n', file);
	}
}

void change_notes_print(FILE *file, const struct change_notes *notes)
{
	for (size_t i = 0; i < notes->count; i++) {
		fprintf(file, "%s: ", whats[notes->items[i].what]);
		if (*notes->items[i].path) {
			print_name(file, "", notes->items[i].path, 0);
			fputs(": ", file);
		}
		fprintf(file, "%s\n", notes->items[i].why);
	}
	if (notes->more)
		fprintf(file, "and %zu more\n", notes->more);
}

static int set_base64(struct node *map, const char *key, const char *bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)bytes;
	_cleanup_(buf_done) struct buf text = NAME_BUF;

	for (size_t left = strlen(bytes); left > 0;) {
		size_t n = MIN(left, (size_t)3);
		unsigned int group = (unsigned int)p[0] << 16 |
				     (n > 1 ? (unsigned int)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);

		for (size_t i = 0; i < 4; i++)
			buf_char(&text, i <= n ? digits[group >> (18 - 6 * i) & 63] : '=');
		p += n;
		left -= n;
	}
	return buf_failed(&text) ?: node_set_new(map, key, node_string(buf_text(&text)));
}

/* As the result of a run does it with output: U+FFFD for what is not UTF-8, and a twin in base64.
 */
static int set_path(struct node *map, const char *key, const char *twin, const char *path)
{
	_cleanup_(buf_done) struct buf text = NAME_BUF;
	const unsigned char *p = (const unsigned char *)path;
	int r;

	if (is_utf8(path, strlen(path)))
		return node_set_new(map, key, node_string(path));
	for (size_t left = strlen(path); left > 0;) {
		size_t n = utf8_sequence(p, left);

		if (n)
			buf_add(&text, p, n);
		else
			buf_str(&text, "\xef\xbf\xbd");
		n = n ? n : 1;
		p += n;
		left -= n;
	}
	r = buf_failed(&text) ?: node_set_new(map, key, node_string(buf_text(&text)));
	return r < 0 ? r : set_base64(map, twin, path);
}

static int set_mode(struct node *map, const char *key, mode_t mode)
{
	char text[16];

	snprintf(text, sizeof(text), "%04o", mode & 07777);
	return node_set_new(map, key, node_string(text));
}

static int change_to_node(const struct change *change, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map();
	mode_t mode = mode_of(change);
	int r = map ? 0 : -ENOMEM;

	r = r < 0 ? r : node_set_new(map, "kind", node_string(kinds[change->kind].name));
	r = r < 0 ? r : set_path(map, "path", "path_base64", change->path);
	r = r < 0 || !change->from ? r : set_path(map, "from", "from_base64", change->from);
	r = r < 0 ? r : node_set_new(map, "type", node_string(type_name(mode)));
	if (S_ISREG(mode))
		r = r < 0 ? r : node_set_new(map, "size", node_int((int64_t)change->size));
	if (change->old_mode && !S_ISLNK(change->old_mode))
		r = r < 0 ? r : set_mode(map, "old_mode", change->old_mode);
	if (change->new_mode && !S_ISLNK(change->new_mode))
		r = r < 0 ? r : set_mode(map, "mode", change->new_mode);
	if (r < 0)
		return r;
	*ret_node = take_ptr(&map);
	return 0;
}

int changes_to_node(const struct changes *changes, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *list = node_list();

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < changes->count; i++) {
		struct node *item = NULL;
		int r = change_to_node(&changes->items[i], &item);

		r = r < 0 ? r : node_add(list, item);
		if (r < 0)
			return r;
	}
	*ret_node = take_ptr(&list);
	return 0;
}

int change_notes_to_node(const struct change_notes *notes, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *list = node_list();

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < notes->count; i++) {
		const struct change_note *note = &notes->items[i];
		_cleanup_(node_freep) struct node *map = node_map();
		int r = map ? 0 : -ENOMEM;

		r = r < 0 ? r : node_set_new(map, "what", node_string(whats[note->what]));
		r = r < 0 ? r : set_path(map, "path", "path_base64", note->path);
		r = r < 0 ? r : node_set_new(map, "why", node_string(note->why));
		r = r < 0 ? r : node_add(list, take_ptr(&map));
		if (r < 0)
			return r;
	}
	*ret_node = take_ptr(&list);
	return 0;
}

int changes_outcome_to_node(const struct changes_outcome *outcome, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map(), *notes = NULL;
	int r = map ? change_notes_to_node(&outcome->notes, &notes) : -ENOMEM;

	r = r < 0 ? r : node_set_new(map, "applied", node_int((int64_t)outcome->applied));
	r = r < 0 ? r : node_set_new(map, "notes", take_ptr(&notes));
	r = r < 0 ? r : node_set_new(map, "more", node_int((int64_t)outcome->notes.more));
	if (r < 0)
		return r;
	*ret_node = take_ptr(&map);
	return 0;
}
