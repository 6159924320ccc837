#include "warden/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "data/schema.h"
#include "tier/image.h"
#include "warden/warden_internal.h"

enum shape { SHAPE_TEXT, SHAPE_TEXT_OR_NULL, SHAPE_NUMBER, SHAPE_TEXTS, SHAPE_PORTS, SHAPE_WALLS };

enum key {
	KEY_ID,
	KEY_NAME,
	KEY_TAG,
	KEY_CREATED,
	KEY_ISOLATION,
	KEY_POLICY,
	KEY_BASE,
	KEY_FROM,
	KEY_PID,
	KEY_START_TIME,
	KEY_IDS_FIRST,
	KEY_HOME,
	KEY_OVERLAYS,
	KEY_OVERLAY_SOURCES,
	KEY_LAYERS,
	KEY_MADE,
	KEY_PUBLISHED,
	KEY_ENFORCEMENT,
	KEY_COUNT,
};

static const struct {
	const char *name;
	enum shape shape;
	const char *summary;
} keys[KEY_COUNT] = {
	[KEY_ID] = { "id", SHAPE_TEXT, "of the sandbox" },
	[KEY_NAME] = { "name", SHAPE_TEXT_OR_NULL, "by --name" },
	[KEY_TAG] = { "tag", SHAPE_TEXT_OR_NULL, "by --tag" },
	[KEY_CREATED] = { "created", SHAPE_NUMBER, "ms since 1970" },
	[KEY_ISOLATION] = { "isolation", SHAPE_TEXT, "the tier" },
	[KEY_POLICY] = { "policy", SHAPE_TEXT_OR_NULL,
			 "digest of the policy; only where --json asked for it" },
	[KEY_BASE] = { "base", SHAPE_TEXT_OR_NULL, "the directory of --image" },
	[KEY_FROM] = { "from", SHAPE_TEXT_OR_NULL, "the image that it was started from" },
	[KEY_PID] = { "pid", SHAPE_NUMBER, "of the warden" },
	[KEY_START_TIME] = { "start_time", SHAPE_NUMBER,
			     "of the warden, as in /proc: another one of this pid has another" },
	[KEY_IDS_FIRST] = { "ids_first", SHAPE_NUMBER,
			    "the first host id of its range; 0: the caller's own id" },
	[KEY_HOME] = { "home", SHAPE_TEXT, "inside" },
	[KEY_OVERLAYS] = { "overlays", SHAPE_TEXTS, "paths inside whose changes are kept apart" },
	[KEY_OVERLAY_SOURCES] = { "overlay_sources", SHAPE_TEXTS, "the same on the host" },
	[KEY_LAYERS] = { "layers", SHAPE_TEXTS, "of the image, the oldest first" },
	[KEY_MADE] = { "made", SHAPE_TEXTS, "names in its files that were made to mount on" },
	[KEY_PUBLISHED] = { "published", SHAPE_PORTS, "ports of the policy" },
	[KEY_ENFORCEMENT] = { "enforcement", SHAPE_WALLS, "each wall, and what really holds it" },
};

/* Whoever else has this pid later was started at another time. */
static int64_t start_time(void)
{
	char text[1024], *p;

	if (file_read_at(AT_FDCWD, "/proc/self/stat", text, sizeof(text)) < 0)
		return 0;
	p = strrchr(text, ')');
	for (int i = 0; p && i < 20; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoll(p, NULL, 10) : 0;
}

static struct node *text_or_null(const char *text)
{
	return text && text[0] ? node_string(text) : node_null();
}

static struct node *list_of(const struct strv *list)
{
	struct node *node = node_list();

	for (size_t i = 0; node && i < list->count; i++)
		if (node_add(node, node_string(list->items[i])) < 0) {
			node_free(node);
			return NULL;
		}
	return node;
}

/* Takes the values over, also when it fails. */
static int collect(struct node *values[static KEY_COUNT], struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? 0 : -ENOMEM;

	for (size_t i = 0; i < KEY_COUNT; i++) {
		int failed = -ENOMEM;

		if (map)
			failed = node_set_new(map, keys[i].name, values[i]);
		else
			node_free(values[i]);
		r = r < 0 ? r : failed;
	}
	if (r == 0)
		*ret_node = take_ptr(&map);
	return r;
}

int manifest_make(const struct warden *w, uint64_t created, struct node **ret_node)
{
	_cleanup_(strv_done) struct strv made = { 0 };
	const struct image_layers *from = w->request->from;
	const struct tier_jail *tj = w->tj;
	struct node *values[KEY_COUNT];
	int r = tier_jail_made(tj, &made);

	if (r < 0)
		return r;
	values[KEY_ID] = node_string(w->result->sandbox);
	values[KEY_NAME] = text_or_null(w->request->name);
	values[KEY_TAG] = text_or_null(w->request->tag);
	values[KEY_CREATED] = node_int((int64_t)created);
	values[KEY_ISOLATION] = node_string(w->result->isolation);
	values[KEY_POLICY] = text_or_null(w->result->policy);
	values[KEY_BASE] = text_or_null(tj->image);
	values[KEY_FROM] = text_or_null(from ? from->name : NULL);
	values[KEY_PID] = node_int(getpid());
	values[KEY_START_TIME] = node_int(start_time());
	values[KEY_IDS_FIRST] = node_int(tj->jail.ids.first);
	values[KEY_HOME] = node_string(tj->home);
	values[KEY_OVERLAYS] = list_of(&tj->overlays);
	values[KEY_OVERLAY_SOURCES] = list_of(&tj->overlay_sources);
	values[KEY_LAYERS] = list_of(&tj->layers);
	values[KEY_MADE] = list_of(&made);
	values[KEY_PUBLISHED] = result_published(w->result);
	values[KEY_ENFORCEMENT] = result_enforcement(w->result);
	return collect(values, ret_node);
}

static struct node *schema_of(enum shape shape)
{
	switch (shape) {
	case SHAPE_TEXT:
		return schema_type("string");
	case SHAPE_TEXT_OR_NULL:
		return schema_type("string|null");
	case SHAPE_NUMBER:
		return schema_type("integer");
	case SHAPE_TEXTS:
		return schema_list(schema_type("string"));
	case SHAPE_PORTS:
		return result_published_schema();
	case SHAPE_WALLS:
		return result_enforcement_schema();
	}
	return NULL;
}

int manifest_schema(struct node **ret_node)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig sandbox");
	int r = document ? 0 : -ENOMEM;

	for (size_t i = 0; i < KEY_COUNT && r == 0; i++)
		r = schema_add(document, keys[i].name,
			       schema_described(schema_of(keys[i].shape), keys[i].summary), true);
	if (r == 0)
		*ret_node = take_ptr(&document);
	return r;
}
