/* diff.c - all that a sandbox wrote, tree by tree: changes.h has the interface */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "cli/changes.h"
#include "data/schema.h"
#include "jail/changes.h"
#include "tier/view.h"

/* A place that can be written, and what was there before. */
struct tree {
	const char *in_store, *path;
	const char *below; /* on the host; NULL: nothing */
};

struct diff {
	const struct image_source *source;
	struct image_layers from;
	struct node *list; /* NULL: printed */
	int problems;
	struct err *err;
};

static int find(struct diff *diff, const struct tree *tree, struct changes *ret_changes)
{
	_cleanup_close_ int upper = openat(diff->source->store, tree->in_store,
					   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int lower = -EBADF;

	if (upper < 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(diff->err, -errno, "the changes of \"%s\"", tree->path);
	if (image_newest_tree(&diff->from, tree->path))
		return changes_find_marked(upper, ret_changes, diff->err);
	if (tree->below) {
		lower = sys_openat2(AT_FDCWD, tree->below, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
				    RESOLVE_NO_SYMLINKS);
		if (lower < 0)
			return err_errno(diff->err, lower, "\"%s\"", tree->below);
	}
	return changes_find(upper, lower, ret_changes, diff->err);
}

static int add_node(struct node *list, const char *path, const struct changes *changes)
{
	_cleanup_(node_freep) struct node *map = node_map(), *items = NULL, *problems = NULL;
	int r = map ? changes_to_node(changes, &items) : -ENOMEM;

	r = r < 0 ? r : change_notes_to_node(&changes->problems, &problems);
	r = r < 0 ? r : node_set(map, "folder", node_string(path));
	r = r < 0 ? r : node_set(map, "changes", take_ptr(&items));
	r = r < 0 ? r : node_set(map, "problems", take_ptr(&problems));
	return r < 0 ? r : node_add(list, take_ptr(&map));
}

/* Made for a mount, and not by the sandbox. */
static bool is_made(const struct diff *diff, const struct tree *tree, const struct change *change)
{
	const struct strv *made = diff->source->made;
	size_t len = strlen(tree->in_store);

	for (size_t i = 0; made && change->kind == CHANGE_ADDED && i < made->count; i++)
		if (str_starts(made->items[i], tree->in_store) && made->items[i][len] == '/' &&
		    str_equal(made->items[i] + len + 1, change->path))
			return true;
	return false;
}

static void leave_out_made(const struct diff *diff, const struct tree *tree,
			   struct changes *changes)
{
	size_t kept = 0;

	for (size_t i = 0; i < changes->count; i++)
		if (is_made(diff, tree, &changes->items[i]))
			free(changes->items[i].path);
		else
			changes->items[kept++] = changes->items[i];
	changes->count = kept;
}

static int show(struct diff *diff, const struct tree *tree)
{
	_cleanup_(changes_done) struct changes changes = CHANGES_NONE;
	int r = find(diff, tree, &changes);

	if (r < 0)
		return r;
	leave_out_made(diff, tree, &changes);
	diff->problems += (int)MIN(changes.problems.count, (size_t)100000);
	if (diff->list)
		return changes.count || changes.problems.count
			       ? add_node(diff->list, tree->path, &changes)
			       : 0;
	changes_print_below(stdout, &changes, tree->path);
	fflush(stdout);
	change_notes_print(stderr, &changes.problems);
	return 0;
}

static int show_container(struct diff *diff)
{
	const struct image_source *source = diff->source;
	const struct tree own[] = {
		{ UPPER_PREFIX "0", "/", source->image },
		{ "home", VIEW_HOME, NULL },
		{ "tmp", VIEW_TMP, NULL },
		{ "var-tmp", "/var/tmp", NULL },
	};
	int r = 0;

	/* Without an image of the policy nothing of the root can be written. */
	for (size_t i = source->image ? 0 : 1; i < ARRAY_SIZE(own) && r == 0; i++)
		r = show(diff, &own[i]);
	for (size_t i = 0; source->overlays && i < source->overlays->count && r == 0; i++) {
		char name[32];

		snprintf(name, sizeof(name), UPPER_PREFIX "%zu", i + 1);
		r = show(diff, &(struct tree){ name, source->overlays->items[i],
					       source->overlay_sources->items[i] });
	}
	return r;
}

/* Its path inside is that on the host. */
static int show_private(struct diff *diff)
{
	char link[40], path[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", diff->source->store);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return err_errno(diff->err, -errno, "the private folder of the sandbox");
	path[len] = '\0';
	return show(diff, &(struct tree){ ".", path, NULL });
}

int diff_state(int home, const struct image_source *source, struct node *list, struct err *err)
{
	struct diff diff = { .source = source, .list = list, .err = err };
	int r = 0;

	if (source->isolation == ISOLATION_CONTAINER)
		r = image_open_layers(home, source->layers, &diff.from, err);
	if (r == 0)
		r = source->isolation == ISOLATION_CONTAINER ? show_container(&diff)
							     : show_private(&diff);
	image_layers_done(&diff.from);
	if (r < 0 && !err->code)
		return err_errno(err, r, "the changes of the sandbox");
	return r < 0 ? r : diff.problems;
}

struct node *diff_schema(void)
{
	static const struct schema_part parts[] = { { .name = "folder", .type = "string" },
						    { .name = "changes", .type = "array" },
						    { .name = "problems", .type = "array" } };

	return schema_list(schema_parts(parts, ARRAY_SIZE(parts)));
}
