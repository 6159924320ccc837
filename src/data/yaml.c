#include "data/yaml.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "data/node_internal.h"
#include "data/yaml_internal.h"

/* Where a block node stands: only on a line of its own (or behind "- ") may it be a collection. */
enum position { ON_OWN_LINE, BEHIND_KEY, BEHIND_MARKER };

/* --- looking ahead --- */

static int end_line(struct yaml *y)
{
	int r = yaml_finish_line(y);

	return r < 0 ? r : yaml_next_content(y);
}

/* Whether only white space or a comment is left on this line. */
static bool line_is_over(const struct yaml *y)
{
	const char *p = y->p;

	while (p < y->end && is_blank(*p))
		p++;
	return p == y->end || is_break(*p) || *p == '#';
}

/* The ": " that makes a key of the scalar before the cursor, or NULL. */
static const char *colon_ahead(const struct yaml *y)
{
	const char *p = y->p;

	while (p < y->end && is_blank(*p))
		p++;
	if (p == y->end || *p != ':')
		return NULL;
	return p + 1 == y->end || is_gap(p[1]) ? p : NULL;
}

static bool at_item(const struct yaml *y)
{
	return peek(y, 0) == '-' && is_gap(peek(y, 1));
}

/* --- building --- */

static void set_place(struct node *node, struct place place)
{
	node->line = place.line;
	node->column = place.column;
}

static int new_node(struct yaml *y, struct node *node, struct place place, struct node **ret_node)
{
	if (!node)
		return yaml_no_memory(y);
	set_place(node, place);
	*ret_node = node;
	return 0;
}

static int add_item(struct yaml *y, struct node *list, struct node *child)
{
	return node_add(list, child) < 0 ? yaml_no_memory(y) : 0;
}

static int add_entry(struct yaml *y, struct node *map, struct scalar *key, struct node *child)
{
	if (node_append(map, take_ptr(&key->text), child) < 0)
		return yaml_no_memory(y);
	map->entries[map->count - 1].line = key->place.line;
	map->entries[map->count - 1].column = key->place.column;
	return 0;
}

/* Looks for the first key that was there before. Sorting keeps a million hostile keys cheap. */
static int check_duplicates(struct yaml *y, const struct node *map)
{
	_cleanup_free_ const struct node_entry **sorted = NULL;
	const struct node_entry *again = NULL, *first = NULL;

	if (node_sorted(map, &sorted) < 0)
		return yaml_no_memory(y);
	for (size_t i = 1; i < map->count; i++) {
		if (!str_equal(sorted[i - 1]->key, sorted[i]->key) || (again && sorted[i] > again))
			continue;
		first = sorted[i - 1];
		again = sorted[i];
	}
	if (!again)
		return 0;
	return yaml_fail_at(y, (struct place){ again->line, again->column },
			    "duplicate key \"%.40s\" (first at line %u)", again->key, first->line);
}

static int enter(struct yaml *y)
{
	if (y->depth == YAML_MAX_DEPTH)
		return yaml_fail(y, y->p, "nested more than %d levels deep", YAML_MAX_DEPTH);
	y->depth++;
	return 0;
}

/* --- flow: [a, b] and {a: b} --- */

static int flow_node(struct yaml *y, struct node **ret_node);

/* Over everything that may stand between two tokens of a flow collection. */
static int flow_space(struct yaml *y)
{
	for (;;) {
		bool spaced = yaml_blanks(y) || y->p == y->line_start;
		int r = 0;

		if (yaml_at_marker(y, "---") || yaml_at_marker(y, "..."))
			return yaml_fail(y, y->p, "a document marker inside brackets");
		if (y->p < y->end && is_break(*y->p))
			yaml_newline(y);
		else if (peek(y, 0) != '#')
			return 0;
		else
			r = yaml_comment(y, spaced);
		if (r < 0)
			return r;
	}
}

/* Behind an entry: over a comma, or up to the closing bracket. */
static int flow_separator(struct yaml *y, char closing, unsigned int entry_line)
{
	int r = flow_space(y);

	if (r < 0 || y->p == y->end || *y->p == closing)
		return r;
	if (*y->p == ',') {
		y->p++;
		return 0;
	}
	if (*y->p == ':' && closing == ']')
		return yaml_fail(y, y->p, "\"a: b\" in a list: put it in braces, or in quotes");
	if (*y->p == ':')
		return yaml_fail(y, y->p, "\"a: b\" in a plain value: put it in quotes");
	if (y->line != entry_line)
		return yaml_fail(y, y->p, "a comma is missing (or a value over several lines)");
	return yaml_fail(y, y->p, "expected \",\" or \"%c\"", closing);
}

/* At an entry (1) or behind the closing bracket (0). */
static int flow_more(struct yaml *y, char closing, struct place opened)
{
	int r = flow_space(y);

	if (r < 0)
		return r;
	if (y->p == y->end)
		return yaml_fail_at(y, opened, "\"%c\" is never closed",
				    closing == ']' ? '[' : '{');
	if (*y->p == ',')
		return yaml_fail(y, y->p, "a value is missing before \",\"");
	if (*y->p != closing)
		return 1;
	y->p++;
	return 0;
}

static int flow_list(struct yaml *y, struct node *list, struct place opened)
{
	int r;

	while ((r = flow_more(y, ']', opened)) > 0) {
		struct node *child;

		r = flow_node(y, &child);
		if (r < 0)
			return r;
		r = add_item(y, list, child);
		if (r < 0)
			return r;
		r = flow_separator(y, ']', y->line);
		if (r < 0)
			return r;
	}
	return r;
}

/* A key and its colon. Behind a quoted key (as JSON has it) the colon may stand anywhere. */
static int flow_key(struct yaml *y, struct scalar *ret_key)
{
	int r;

	if (*y->p == '[' || *y->p == '{')
		return yaml_fail(y, y->p, "a key must be text, not a list or a map");
	r = yaml_scan_scalar(y, true, ret_key);
	if (r < 0)
		return r;
	if (ret_key->quoted) {
		r = flow_space(y);
		if (r < 0)
			return r;
	} else {
		yaml_blanks(y);
	}
	if (peek(y, 0) != ':')
		return yaml_fail_at(y, ret_key->place,
				    "\"%.40s\" has no value: write \"key: value\"%s", ret_key->text,
				    !ret_key->quoted && strchr(ret_key->text, ':')
					    ? ", with a space behind the colon"
					    : "");
	y->p++;
	if (!ret_key->quoted && !is_gap(peek(y, 0)) && peek(y, 0) != ',' && peek(y, 0) != '}')
		return yaml_fail(y, y->p, "a space is missing behind the colon");
	return yaml_check_key(y, ret_key);
}

static int flow_value(struct yaml *y, struct node **ret_node)
{
	struct place place = yaml_place(y, y->p);
	int r = flow_space(y);

	if (r < 0)
		return r;
	if (peek(y, 0) == ',' || peek(y, 0) == '}' || y->p == y->end)
		return new_node(y, node_null(), place, ret_node);
	return flow_node(y, ret_node);
}

static int flow_map(struct yaml *y, struct node *map, struct place opened)
{
	int r;

	while ((r = flow_more(y, '}', opened)) > 0) {
		_cleanup_(scalar_done) struct scalar key = { 0 };
		struct node *child;

		r = flow_key(y, &key);
		if (r < 0)
			return r;
		r = flow_value(y, &child);
		if (r < 0)
			return r;
		r = add_entry(y, map, &key, child);
		if (r < 0)
			return r;
		r = flow_separator(y, '}', y->line);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : check_duplicates(y, map);
}

static int flow_collection(struct yaml *y, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *node = NULL;
	struct place opened = yaml_place(y, y->p);
	bool is_map = *y->p == '{';
	int r = enter(y);

	if (r < 0)
		return r;
	r = new_node(y, is_map ? node_map() : node_list(), opened, &node);
	if (r < 0)
		return r;
	y->p++;
	r = is_map ? flow_map(y, node, opened) : flow_list(y, node, opened);
	if (r < 0)
		return r;
	y->depth--;
	*ret_node = take_ptr(&node);
	return 0;
}

static int flow_node(struct yaml *y, struct node **ret_node)
{
	_cleanup_(scalar_done) struct scalar scalar = { 0 };
	int r;

	if (*y->p == '[' || *y->p == '{')
		return flow_collection(y, ret_node);
	r = yaml_scan_scalar(y, true, &scalar);
	return r < 0 ? r : yaml_resolve(y, &scalar, ret_node);
}

/* --- block: indentation --- */

static int block_node(struct yaml *y, int parent, enum position position, struct node **ret_node);

/* The next line fits nothing; before is what was read last. */
static int fail_indentation(struct yaml *y, const struct node *before)
{
	if (before->kind == NODE_LIST || before->kind == NODE_MAP)
		return yaml_fail(y, y->p, "the indentation fits no line above");
	if (before->kind == NODE_STRING && strchr(before->text, ':'))
		return yaml_fail(y, y->p,
				 "unexpected line behind a value (is a space missing behind a "
				 "colon above? text over several lines needs | or >)");
	return yaml_fail(y, y->p,
			 "unexpected line behind a value: check the indentation (text over several "
			 "lines needs | or >)");
}

/* What belongs to the "- " or "key:" before the cursor, in a collection indented by indent. */
static int entry_value(struct yaml *y, int indent, bool in_map, struct node **ret_node)
{
	struct place place = yaml_place(y, y->p);
	const char *from = y->p;
	int r;

	if (!line_is_over(y)) {
		yaml_blanks(y);
		/* Behind "- " the white space is indentation of what begins there. */
		if (!in_map && memchr(from, '\t', (size_t)(y->p - from)))
			return yaml_fail_tab(y, memchr(from, '\t', (size_t)(y->p - from)));
		return block_node(y, indent, in_map ? BEHIND_KEY : ON_OWN_LINE, ret_node);
	}
	r = end_line(y);
	if (r < 0)
		return r;
	/* A list may be indented as little as the key that it belongs to. */
	if (y->indent > indent || (in_map && y->indent == indent && at_item(y)))
		return block_node(y, indent, ON_OWN_LINE, ret_node);
	return new_node(y, node_null(), place, ret_node);
}

static int block_list(struct yaml *y, int indent, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *list = NULL;
	int r = enter(y);

	if (r < 0)
		return r;
	r = new_node(y, node_list(), yaml_place(y, y->p), &list);
	if (r < 0)
		return r;
	do {
		struct node *child;

		if (y->tab)
			return yaml_fail_tab(y, y->tab);
		y->p++;
		r = entry_value(y, indent, false, &child);
		if (r < 0)
			return r;
		r = add_item(y, list, child);
		if (r < 0)
			return r;
		if (y->indent > indent)
			return fail_indentation(y, child);
	} while (y->indent == indent && at_item(y));
	y->depth--;
	*ret_node = take_ptr(&list);
	return 0;
}

/* Reads "key" up to its colon, on a line of a map that has begun before. */
static int block_key(struct yaml *y, struct scalar *ret_key)
{
	int r;

	if (y->tab)
		return yaml_fail_tab(y, y->tab);
	if (at_item(y))
		return yaml_fail(y, y->p, "a list item where a key of the map above is expected");
	if (*y->p == '[' || *y->p == '{')
		return yaml_fail(y, y->p, "a key must be text, not a list or a map");
	r = yaml_scan_scalar(y, false, ret_key);
	if (r < 0)
		return r;
	if (!colon_ahead(y))
		return yaml_fail_at(y, ret_key->place, "expected \"key: value\"%s",
				    strchr(ret_key->text, ':') || peek(y, 0) == ':'
					    ? ", with a space behind the colon"
					    : "");
	return 0;
}

static int block_entry(struct yaml *y, int indent, struct node *map, struct scalar *key)
{
	struct node *child;
	int r = yaml_check_key(y, key);

	if (r < 0)
		return r;
	y->p = colon_ahead(y) + 1;
	r = entry_value(y, indent, true, &child);
	if (r < 0)
		return r;
	r = add_entry(y, map, key, child);
	if (r < 0)
		return r;
	return y->indent > indent ? fail_indentation(y, child) : 0;
}

/* The first key has been read: only the colon behind it told that this is a map. */
static int block_map(struct yaml *y, int indent, struct scalar *first, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = NULL;
	int r = enter(y);

	if (r < 0)
		return r;
	if (y->tab)
		return yaml_fail_tab(y, y->tab);
	r = new_node(y, node_map(), first->place, &map);
	if (r < 0)
		return r;
	r = block_entry(y, indent, map, first);
	while (r >= 0 && y->indent == indent) {
		_cleanup_(scalar_done) struct scalar key = { 0 };

		r = block_key(y, &key);
		if (r >= 0)
			r = block_entry(y, indent, map, &key);
	}
	if (r >= 0)
		r = check_duplicates(y, map);
	if (r < 0)
		return r;
	y->depth--;
	*ret_node = take_ptr(&map);
	return 0;
}

static int fail_position(struct yaml *y, enum position position, const struct scalar *key)
{
	if (position == BEHIND_MARKER)
		return yaml_fail_at(y, key ? key->place : yaml_place(y, y->p),
				    "a list or map must begin on the line below \"---\"");
	if (!key)
		return yaml_fail(y, y->p, "a list must begin on the line below its key");
	return yaml_fail(y, colon_ahead(y), "\"a: b\" in a plain value: put it in quotes");
}

static int block_flow(struct yaml *y, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *node = NULL;
	int r = flow_collection(y, &node);

	if (r < 0)
		return r;
	if (colon_ahead(y))
		return yaml_fail(y, y->p, "a key must be text, not a list or a map");
	r = end_line(y);
	if (r < 0)
		return r;
	*ret_node = take_ptr(&node);
	return 0;
}

static int block_node(struct yaml *y, int parent, enum position position, struct node **ret_node)
{
	_cleanup_(scalar_done) struct scalar scalar = { 0 };
	_cleanup_(node_freep) struct node *node = NULL;
	int indent = (int)(y->p - y->line_start);
	int r;

	/* Only the value that is the whole document may stand behind a tab, as in JSON. */
	if (y->tab && parent >= 0)
		return yaml_fail_tab(y, y->tab);
	if (at_item(y))
		return position == ON_OWN_LINE ? block_list(y, indent, ret_node)
					       : fail_position(y, position, NULL);
	if (*y->p == '[' || *y->p == '{')
		return block_flow(y, ret_node);
	if (*y->p == '|' || *y->p == '>')
		return yaml_block_scalar(y, parent, ret_node);
	r = yaml_scan_scalar(y, false, &scalar);
	if (r < 0)
		return r;
	if (colon_ahead(y))
		return position == ON_OWN_LINE ? block_map(y, indent, &scalar, ret_node)
					       : fail_position(y, position, &scalar);
	r = yaml_resolve(y, &scalar, &node);
	if (r < 0)
		return r;
	r = end_line(y);
	if (r < 0)
		return r;
	*ret_node = take_ptr(&node);
	return 0;
}

/* --- the document --- */

/* To the first content, over "---"; says whether that stands on the same line. */
static int document_start(struct yaml *y, enum position *ret_position)
{
	enum position position = ON_OWN_LINE;
	int r = yaml_next_content(y);

	if (r < 0)
		return r;
	if (yaml_at_marker(y, "---")) {
		y->p += 3;
		if (line_is_over(y)) {
			r = end_line(y);
			if (r < 0)
				return r;
		} else {
			yaml_blanks(y);
			position = BEHIND_MARKER;
		}
	}
	if (y->indent < 0 && position == ON_OWN_LINE)
		return yaml_fail(y, y->p, "nothing here: a value is expected");
	*ret_position = position;
	return 0;
}

static int document_end(struct yaml *y, const struct node *root)
{
	if (y->indent >= 0)
		return fail_indentation(y, root);
	if (yaml_at_marker(y, "...")) {
		int r;

		y->p += 3;
		r = end_line(y);
		if (r < 0)
			return r;
	}
	return y->p < y->end ? yaml_fail(y, y->p, "only one document is allowed") : 0;
}

static int parse(struct yaml *y, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *root = NULL;
	enum position position = ON_OWN_LINE;
	int r = document_start(y, &position);

	if (r < 0)
		return r;
	r = block_node(y, -1, position, &root);
	if (r < 0)
		return r;
	r = document_end(y, root);
	if (r < 0)
		return r;
	*ret_node = take_ptr(&root);
	return 0;
}

static void rewind_to(struct yaml *y, const char *start)
{
	y->p = y->line_start = y->column_at = start;
	y->line = y->column = 1;
}

int yaml_parse(const char *name, const char *text, size_t len, struct node **ret_node,
	       struct err *err)
{
	static const char byte_order_mark[] = "\xef\xbb\xbf";
	struct yaml y = { .name = name, .err = err };
	int r;

	if (len > YAML_MAX_BYTES)
		return err_set(err, -EFBIG, "%s: larger than %d bytes", name, (int)YAML_MAX_BYTES);
	if (len == 0)
		text = ""; /* so that no arithmetic is done on NULL */
	if (len >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
		text += 3;
		len -= 3;
	}
	y.end = text + len;
	rewind_to(&y, text);
	r = yaml_check_bytes(&y);
	if (r < 0)
		return r;
	rewind_to(&y, text);
	return parse(&y, ret_node);
}
