#include "changes_case.h"

#include "base/str.h"
#include "cli/changes.h"
#include "data/node.h"

static struct strv overlays, sources, made;

static int finish(void **state)
{
	strv_done(&overlays);
	strv_done(&sources);
	strv_done(&made);
	return layers_remove(state);
}

#define test(name) cmocka_unit_test_setup_teardown(name, layers_make, finish)

/* The store of a container, with the lower folder of changes_case.h as an overlay. */
static struct image_source make_store(void)
{
	static const char *const folders[] = { "home", "tmp", "var-tmp", "upper0", "upper1" };
	char path[4200];

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		add_dir(t.upper, folders[i], 0755);
	snprintf(path, sizeof(path), "%s/lower", t.scratch.path);
	assert_int_equal(strv_add(&overlays, "/srv/w"), 0);
	assert_int_equal(strv_add(&sources, path), 0);
	return (struct image_source){ .store = t.upper,
				      .isolation = ISOLATION_CONTAINER,
				      .overlays = &overlays,
				      .overlay_sources = &sources,
				      .made = &made };
}

/* "folder: kind path, ..." of every folder, in their order. */
static const char *diff_text(const struct image_source *source)
{
	static char text[4096];
	_cleanup_(node_freep) struct node *list = node_list();
	struct err err = ERR_NONE;
	size_t len = 0;
	int r = diff_state(t.outside, source, list, &err);

	if (r != 0)
		fail_msg("%d: %s", r, err.text);
	text[0] = '\0';
	for (size_t i = 0; i < list->count; i++) {
		const struct node *folder = list->entries[i].value;
		const struct node *changes = node_get(folder, "changes");

		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s:", node_get(folder, "folder")->text);
		for (size_t k = 0; k < changes->count; k++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, " %s %s",
						node_get(changes->entries[k].value, "kind")->text,
						node_get(changes->entries[k].value, "path")->text);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "\n");
	}
	return text;
}

static void test_all_that_was_written(void **state)
{
	struct image_source source = make_store();

	(void)state;
	assert_string_equal(diff_text(&source), "");
	add_file(t.lower, "old", "1", 0644);
	add_file(t.lower, "gone", "1", 0644);
	add_file(t.upper, "upper1/old", "2", 0644);
	add_whiteout(t.upper, "upper1/gone");
	add_file(t.upper, "home/made", "x", 0644);
	add_dir(t.upper, "tmp/dir", 0755);
	add_dir(t.upper, "tmp/dir/mount", 0755);
	add_file(t.upper, "tmp/dir/file", "x", 0644);
	assert_int_equal(strv_add(&made, "tmp/dir"), 0);
	assert_int_equal(strv_add(&made, "tmp/dir/mount"), 0);
	/* Nothing of the root can be written without an image of the policy. */
	add_file(t.upper, "upper0/strange", "x", 0644);
	assert_string_equal(diff_text(&source), "/home/user: added made\n/tmp: added dir/file\n"
						"/srv/w: deleted gone changed old\n");
}

/* On top of layers only overlayfs knows what was there. */
static void test_on_top_of_an_image(void **state)
{
	struct image_source source = make_store();
	struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;

	(void)state;
	add_file(t.upper, "home/a", "1", 0644);
	assert_int_equal(image_make(t.outside, "i", &source, NULL, &info, &err), 0);
	source.layers = &info.layers;
	add_whiteout(t.upper, "home/deleted");
	add_dir(t.upper, "home/dir", 0755);
	add_file(t.upper, "home/dir/new", "1", 0644);
	if (add_mark(t.upper, "home/a", "user.overlay.origin", "") &&
	    add_mark(t.upper, "home/dir", "user.overlay.origin", ""))
		assert_string_equal(diff_text(&source),
				    "/home/user: changed a deleted deleted added dir/new\n");
	image_info_done(&info);
}

static void test_the_private_folder(void **state)
{
	const struct image_source source = { .store = t.upper, .isolation = ISOLATION_PROCESS };
	char expected[4300], path[4200];
	struct err err = ERR_NONE;

	(void)state;
	add_file(t.upper, "made", "x", 0644);
	snprintf(expected, sizeof(expected), "%s/upper: added made\n", t.scratch.path);
	assert_string_equal(diff_text(&source), expected);
	snprintf(path, sizeof(path), "%s/out", t.scratch.path);
	assert_int_equal(export_check(path, &err), 0);
	assert_int_equal(export_state(path, &source, NULL, &err), 0);
	assert_string_equal(read_text(t.scratch.dir, "out/home/user/made"), "x");
	assert_int_equal(export_check(path, &err), -EEXIST);
	assert_true(export_state(path, &source, NULL, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_all_that_was_written),
		test(test_on_top_of_an_image),
		test(test_the_private_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
