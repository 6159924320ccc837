/*
 * yaml.h - reads a strict subset of YAML 1.2, of which JSON is a part
 *
 * Read: block and flow maps and lists, plain, single- and double-quoted scalars, literal (|) and
 * folded (>) blocks, comments, one document with an optional "---". Plain scalars follow the core
 * schema: null, ~, true, false, whole numbers (decimal, 0x, 0o), floats; everything else is text
 * ("no" and "on" are text).
 *
 * Refused with line and column: anchors, aliases, tags, merge keys, directives, "? " keys, several
 * documents, tabs in indentation, duplicate keys, keys that are not text (1 and true need quotes as
 * a key), "[a: b]" and "{a}", plain or quoted scalars over several lines (JSON has none either: use
 * | or >), NUL (also as an escape) and other control bytes, invalid UTF-8, what ends a line only in
 * YAML 1.1 (outside double quotes), numbers that YAML 1.1 and 1.2 read differently (010, -0x1F,
 * 0b11), infinities, whole numbers beyond 64 bits, nesting beyond YAML_MAX_DEPTH, and input without
 * any value. What is read means the same to every YAML parser.
 *
 * Bytes come from anyone: the parser is linear in the input, recursion is bounded, and nothing is
 * printed.
 */
#ifndef BRIG_DATA_YAML_H
#define BRIG_DATA_YAML_H

#include "data/node.h"

#define YAML_MAX_DEPTH 64
#define YAML_MAX_BYTES (1 * MIB)

/*
 * name stands before line and column in messages ("policy.yaml:3:7: ..."). On failure err says what
 * would be right.
 */
[[nodiscard]] int yaml_parse(const char *name, const char *text, size_t len, struct node **ret_node,
			     struct err *err);

#endif
