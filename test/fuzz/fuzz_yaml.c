/*
 * What the YAML reader accepts must come back equal from the JSON that is written of it, and
 * canonical JSON must be written the same again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "data/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void round_trip(const struct node *node, bool canonical)
{
	_cleanup_(node_freep) struct node *again = NULL;
	_cleanup_(buf_done) struct buf first = BUF(64 * MIB);
	_cleanup_(buf_done) struct buf second = BUF(64 * MIB);

	check(json_write(node, canonical, &first) == 0);
	/* Escapes and indentation make JSON longer than what it was read from. */
	if (first.len > YAML_MAX_BYTES)
		return;
	check(yaml_parse("json", buf_text(&first), first.len, &again, NULL) == 0);
	check(node_equal(node, again));
	check(json_write(again, canonical, &second) == 0);
	check(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_(node_freep) struct node *copy = NULL;
	struct err err = ERR_NONE;
	int r = yaml_parse("fuzz", (const char *)data, size, &node, &err);

	if (r < 0) {
		check(err.code == r && err.text[0] && !node);
		return 0;
	}
	copy = node_copy(node);
	check(copy && node_equal(node, copy));
	round_trip(node, true);
	round_trip(node, false);
	return 0;
}
