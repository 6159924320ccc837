/*
 * What is taken comes back equal from the JSON that is written of it; and what is taken as JSON is YAML of the
 * same meaning, wherever YAML's reader takes it too.
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
	struct json_bounds bounds = JSON_BOUNDS;

	bounds.bytes = 64 * MIB;
	check(json_write(node, canonical, &first) == 0);
	check(json_read(buf_text(&first), first.len, &bounds, &again, NULL) == 0);
	check(node_equal(node, again));
	check(json_write(again, canonical, &second) == 0);
	check(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_(node_freep) struct node *yaml = NULL;
	struct err err = ERR_NONE;
	int r = json_read((const char *)data, size, NULL, &node, &err);

	if (r < 0) {
		check(err.code == r && err.text[0] && !node);
		return 0;
	}
	round_trip(node, true);
	round_trip(node, false);
	if (yaml_parse("fuzz", (const char *)data, size, &yaml, NULL) == 0)
		check(node_equal(node, yaml));
	return 0;
}
