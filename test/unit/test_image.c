#include "changes_case.h"

#include <dirent.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/hook.h"
#include "base/str.h"
#include "tier/image.h"

#define test(name) cmocka_unit_test_setup_teardown(name, layers_make, finish)

/* The upper layer of changes_case.h is the store, the outside one the state directory. */
static struct strv overlays, sources, parents;

static struct image_source source_here(void)
{
	return (struct image_source){ .store = t.upper,
				      .isolation = ISOLATION_CONTAINER,
				      .overlays = &overlays,
				      .overlay_sources = &sources,
				      .layers = &parents };
}

/* What a container's store has to begin with. */
static void make_store(void)
{
	add_dir(t.upper, "home", 0755);
	add_dir(t.upper, "tmp", 01777);
	add_dir(t.upper, "var-tmp", 01777);
	add_dir(t.upper, "shm", 01777);
	add_dir(t.upper, "upper0", 0755);
}

static void empty_store(void)
{
	close(t.upper);
	assert_int_equal(layer_remove(t.scratch.dir, "upper"), 0);
	t.upper = make_dir(t.scratch.dir, "upper", 0755);
	make_store();
}

static struct image_info keep_as(const char *name)
{
	const struct image_source source = source_here();
	struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;
	int r = image_make(t.outside, name, &source, NULL, &info, &err);

	if (r < 0)
		fail_msg("%d: %s", r, err.text);
	return info;
}

static void keep(const char *name)
{
	struct image_info info = keep_as(name);

	image_info_done(&info);
}

/* The next store is that of a sandbox that was started from this image. */
static void start_from(const char *name)
{
	struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;

	assert_int_equal(image_look(t.outside, name, &info, &err), 0);
	strv_done(&parents);
	for (size_t i = 0; i < info.layers.count; i++)
		assert_int_equal(strv_add(&parents, info.layers.items[i]), 0);
	image_info_done(&info);
	empty_store();
}

static size_t count_names(const char *folder)
{
	_cleanup_close_ int fd = openat(t.outside, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t count = 0;

	while (stream && (entry = readdir(stream)))
		count += !str_equal(entry->d_name, ".") && !str_equal(entry->d_name, "..") &&
			 !str_equal(entry->d_name, ".lock") && !str_equal(entry->d_name, ".sweep");
	if (stream) {
		take_fd(&fd);
		closedir(stream);
	}
	return count;
}

static const char *text_in(const char *name, const char *path, const char *file)
{
	static char text[256];
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct err err = ERR_NONE;
	_cleanup_close_ int to = -EBADF;

	if (image_open(t.outside, name, &layers, &err) < 0)
		fail_msg("%s", err.text);
	to = make_dir(t.scratch.dir, "unpacked", 0700);
	if (image_unpack(&layers, path, to, &err) < 0)
		fail_msg("%s", err.text);
	snprintf(text, sizeof(text), "%s", read_text(to, file));
	image_layers_done(&layers);
	assert_int_equal(layer_remove(t.scratch.dir, "unpacked"), 0);
	return text;
}

static int finish(void **state)
{
	strv_done(&overlays);
	strv_done(&sources);
	strv_done(&parents);
	return layers_remove(state);
}

static void test_names(void **state)
{
	static const char *const good[] = { "a", "A.b_c-9", "0", "_x" };
	static const char *const bad[] = { "",    ".",   "..",       ".a", "-a",  "a/b",
					   "a b", "a\n", "\xc3\xa4", "~",  "a:b", "a,b" };
	char name[IMAGE_NAME_MAX + 2];
	struct err err = ERR_NONE;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(image_name_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(image_name_is_valid(bad[i]));
	memset(name, 'n', sizeof(name));
	name[IMAGE_NAME_MAX] = '\0';
	assert_true(image_name_is_valid(name));
	name[IMAGE_NAME_MAX] = 'n';
	name[IMAGE_NAME_MAX + 1] = '\0';
	assert_false(image_name_is_valid(name));
	assert_int_equal(image_check_new(t.outside, "../x", &err), -EINVAL);
	assert_int_equal(image_look(t.outside, "none", &(struct image_info){ 0 }, &err), -ENOENT);
}

static void test_an_image_has_what_was_written(void **state)
{
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct image_info info;
	struct err err = ERR_NONE;

	(void)state;
	make_store();
	assert_int_equal(strv_add(&overlays, "/srv/work"), 0);
	assert_int_equal(strv_add(&sources, "/srv/work"), 0);
	add_dir(t.upper, "upper1", 0755);
	add_file(t.upper, "upper1/changed", "o", 0644);
	add_whiteout(t.upper, "upper1/deleted");
	add_file(t.upper, "home/file", "hello", 0644);
	add_file(t.upper, "shm/gone", "x", 0644);
	info = keep_as("first");
	assert_int_equal(info.bytes, 6);
	assert_int_equal(info.layers.count, 1);
	assert_int_equal(info.overlays.count, 1);
	assert_string_equal(info.overlays.items[0], "/srv/work");
	image_info_done(&info);
	assert_int_equal(image_open(t.outside, "first", &layers, &err), 0);
	assert_int_equal(layers.count, 1);
	/* /tmp and /var/tmp were not written, the root cannot be, and shared memory is nobody's. */
	assert_int_equal(layers.items[0].tree_count, 2);
	assert_non_null(image_newest_tree(&layers, "/home/user"));
	assert_non_null(image_newest_tree(&layers, "/srv/work"));
	assert_null(image_newest_tree(&layers, "/tmp"));
	assert_true(S_ISCHR(stat_of(layers.items[0].dir, "overlay1/deleted").st_mode));
	assert_int_equal(stat_of(t.outside, "layers").st_mode & 07777, 0700);
	assert_int_equal(stat_of(t.outside, "images").st_mode & 07777, 0700);
	image_layers_done(&layers);
	assert_string_equal(text_in("first", "/home/user", "file"), "hello");
	assert_int_equal(image_check_new(t.outside, "first", &err), -EEXIST);
}

/* What was made to mount something on is nothing that the sandbox wrote. */
static void test_mount_points_are_left_out(void **state)
{
	struct strv made = { 0 };
	struct image_source source = source_here();
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;

	(void)state;
	make_store();
	for (const char *const *p = (const char *const[]){ "tmp/a", "tmp/a/b", "home/x", "home/x/y",
							   "home/x/file", NULL };
	     *p; p++) {
		assert_int_equal(strv_add(&made, *p), 0);
		if (str_ends(*p, "file"))
			add_file(t.upper, *p, "", 0644);
		else
			add_dir(t.upper, *p, 0755);
	}
	add_file(t.upper, "home/x/mine", "1", 0644);
	source.made = &made;
	assert_int_equal(image_make(t.outside, "m", &source, NULL, &info, &err), 0);
	image_info_done(&info);
	assert_int_equal(image_open(t.outside, "m", &layers, &err), 0);
	assert_null(image_newest_tree(&layers, "/tmp"));
	assert_true(exists(layers.items[0].dir, "home/x/mine"));
	assert_false(exists(layers.items[0].dir, "home/x/y"));
	assert_false(exists(layers.items[0].dir, "home/x/file"));
	assert_false(exists(layers.items[0].dir, "tmp"));
	image_layers_done(&layers);
	strv_done(&made);
}

static void test_a_mode_alone_is_kept(void **state)
{
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct err err = ERR_NONE;

	(void)state;
	make_store();
	assert_int_equal(fchmodat(t.upper, "home", 0711, 0), 0);
	keep("mode");
	assert_int_equal(image_open(t.outside, "mode", &layers, &err), 0);
	assert_int_equal(layers.items[0].tree_count, 1);
	assert_int_equal(image_newest_tree(&layers, "/home/user")->mode, 0711);
	image_layers_done(&layers);
	/* Started from there it is what nothing was done to. */
	start_from("mode");
	assert_int_equal(fchmodat(t.upper, "home", 0711, 0), 0);
	keep("again");
	assert_int_equal(image_open(t.outside, "again", &layers, &err), 0);
	assert_int_equal(layers.items[1].tree_count, 0);
	image_layers_done(&layers);
}

static void test_layers_are_shared(void **state)
{
	struct image_info info;

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	keep("one");
	start_from("one");
	add_file(t.upper, "home/b", "2", 0644);
	add_whiteout(t.upper, "home/a");
	info = keep_as("two");
	assert_int_equal(info.layers.count, 2);
	assert_string_equal(info.layers.items[0], parents.items[0]);
	image_info_done(&info);
	assert_int_equal(count_names("layers"), 2);
	assert_string_equal(text_in("two", "/home/user", "b"), "2");
	assert_string_equal(text_in("two", "/home/user", "a"), "(none)");
	assert_string_equal(text_in("one", "/home/user", "a"), "1");
}

static void test_the_ninth_layer_is_all_of_them(void **state)
{
	struct image_info info = IMAGE_INFO_NONE;
	char name[16], before[16] = "";

	(void)state;
	make_store();
	for (int i = 1; i <= IMAGE_LAYERS_MAX + 2; i++) {
		char path[32], text[8];

		snprintf(name, sizeof(name), "i%d", i);
		if (before[0])
			start_from(before);
		snprintf(path, sizeof(path), "home/f%d", i);
		snprintf(text, sizeof(text), "%d", i);
		add_file(t.upper, path, text, 0644);
		add_file(t.upper, "tmp/last", text, 0644);
		if (i == 5)
			add_whiteout(t.upper, "home/f2");
		image_info_done(&info);
		info = keep_as(name);
		snprintf(before, sizeof(before), "%s", name);
		assert_int_equal(info.layers.count,
				 i <= IMAGE_LAYERS_MAX ? i : i - IMAGE_LAYERS_MAX);
	}
	image_info_done(&info);
	assert_string_equal(text_in(name, "/home/user", "f1"), "1");
	assert_string_equal(text_in(name, "/home/user", "f2"), "(none)");
	assert_string_equal(text_in(name, "/home/user", "f9"), "9");
	assert_string_equal(text_in(name, "/home/user", "f10"), "10");
	assert_string_equal(text_in(name, "/tmp", "last"), "10");
}

/* Whiteouts of overlays hide files of the host: they outlive the merge, those of a home do not. */
static void test_a_merge_keeps_what_hides_the_host(void **state)
{
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct err err = ERR_NONE;
	char name[16], before[16] = "";
	int dir;

	(void)state;
	make_store();
	assert_int_equal(strv_add(&overlays, "/w"), 0);
	assert_int_equal(strv_add(&sources, "/w"), 0);
	for (int i = 1; i <= IMAGE_LAYERS_MAX + 1; i++) {
		snprintf(name, sizeof(name), "i%d", i);
		if (before[0])
			start_from(before);
		add_dir(t.upper, "upper1", 0755);
		if (i == 1) {
			add_whiteout(t.upper, "upper1/of-the-host");
			add_file(t.upper, "home/x", "x", 0644);
		}
		if (i == 2)
			add_whiteout(t.upper, "home/x");
		keep(name);
		snprintf(before, sizeof(before), "%s", name);
		/* The last one does not show the folder at all, and loses nothing by that. */
		if (i == IMAGE_LAYERS_MAX)
			strv_done(&overlays);
	}
	assert_int_equal(image_open(t.outside, name, &layers, &err), 0);
	assert_int_equal(layers.count, 1);
	dir = layers.items[0].dir;
	assert_non_null(image_newest_tree(&layers, "/w"));
	assert_true(S_ISCHR(stat_of(dir, "overlay1/of-the-host").st_mode));
	assert_true(exists(dir, "home"));
	assert_false(exists(dir, "home/x"));
	image_layers_done(&layers);
}

static void test_removal_leaves_what_others_need(void **state)
{
	struct err err = ERR_NONE;
	bool in_use = true;

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	keep("one");
	start_from("one");
	add_file(t.upper, "home/b", "2", 0644);
	keep("two");
	assert_int_equal(image_remove(t.outside, "one", &in_use, &err), 0);
	assert_false(in_use);
	assert_int_equal(count_names("layers"), 2);
	assert_string_equal(text_in("two", "/home/user", "a"), "1");
	assert_int_equal(image_remove(t.outside, "one", &in_use, &err), -ENOENT);
	assert_int_equal(image_remove(t.outside, "two", &in_use, &err), 0);
	assert_int_equal(count_names("layers"), 0);
	assert_int_equal(count_names("images"), 0);
}

static void test_a_layer_in_use_stays(void **state)
{
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct err err = ERR_NONE;
	bool in_use = false;
	int status;
	pid_t pid;

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	keep("one");
	pid = fork();
	if (pid == 0) {
		if (image_open(t.outside, "one", &layers, &err) < 0)
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	/* Its name is free at once, and the sandbox keeps what it stands on. */
	assert_int_equal(image_remove(t.outside, "one", &in_use, &err), 0);
	assert_true(in_use);
	assert_int_equal(count_names("images"), 0);
	assert_int_equal(count_names("layers"), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(image_sweep(t.outside, &err), 0);
	assert_int_equal(count_names("layers"), 0);
}

/* A sandbox whose image lost its name can still be kept: its layers are known by their ids. */
static void test_a_nameless_parent_gets_a_name_again(void **state)
{
	struct image_layers layers = IMAGE_LAYERS_NONE;
	struct err err = ERR_NONE;
	bool in_use = false;

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	keep("one");
	start_from("one");
	assert_int_equal(image_open(t.outside, "one", &layers, &err), 0);
	assert_int_equal(image_remove(t.outside, "one", &in_use, &err), 0);
	keep("one");
	image_layers_done(&layers);
	assert_int_equal(image_sweep(t.outside, &err), 0);
	assert_string_equal(text_in("one", "/home/user", "a"), "1");
	/* And one whose layers are gone is told so. */
	assert_int_equal(image_remove(t.outside, "one", &in_use, &err), 0);
	{
		const struct image_source source = source_here();
		struct image_info info = IMAGE_INFO_NONE;

		assert_int_equal(image_make(t.outside, "late", &source, NULL, &info, &err),
				 -ENOENT);
		assert_non_null(strstr(err.text, "layer"));
	}
	assert_int_equal(count_names("layers"), 0);
}

static void test_the_sweep_takes_leftovers_only(void **state)
{
	struct err err = ERR_NONE;
	int lock;

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	keep("stays");
	add_dir(t.outside, "layers/.new-dead", 0700);
	add_file(t.outside, "layers/.new-dead/lock", "", 0600);
	add_dir(t.outside, "layers/.new-dead/home", 0);
	add_dir(t.outside, "layers/.new-young", 0700);
	add_dir(t.outside, "layers/.gone-old", 0700);
	add_dir(t.outside, "layers/nameless", 0700);
	add_file(t.outside, "layers/nameless/lock", "", 0600);
	add_dir(t.outside, "images/.new-x", 0700);
	add_dir(t.outside, "layers/.new-alive", 0700);
	add_file(t.outside, "layers/.new-alive/lock", "", 0600);
	lock = openat(t.outside, "layers/.new-alive/lock", O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX), 0);
	assert_int_equal(image_sweep(t.outside, &err), 0);
	assert_true(exists(t.outside, "layers/.new-alive"));
	assert_int_equal(count_names("layers"), 2);
	assert_int_equal(count_names("images"), 1);
	close(lock);
	assert_int_equal(image_sweep(t.outside, &err), 0);
	assert_int_equal(count_names("layers"), 1);
	assert_string_equal(text_in("stays", "/home/user", "a"), "1");
}

/* Who cannot read which layers an image has removes none. */
static void test_a_damaged_manifest_protects_all_layers(void **state)
{
	struct image_info *images;
	struct err err = ERR_NONE;
	bool in_use;
	size_t count;

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	keep("bad");
	keep("good");
	add_file(t.outside, "images/bad/manifest", "{ \"layers\": [\"../../etc\"] }", 0600);
	assert_int_equal(image_open(t.outside, "bad", &(struct image_layers){ 0 }, &err), -EBADMSG);
	assert_int_equal(image_list(t.outside, &images, &count, &err), 0);
	assert_int_equal(count, 2);
	assert_string_equal(images[0].name, "bad");
	assert_int_equal(images[0].created, 0);
	image_list_free(images, count);
	assert_int_equal(image_remove(t.outside, "good", &in_use, &err), 0);
	assert_int_equal(count_names("layers"), 2);
	assert_int_equal(image_remove(t.outside, "bad", &in_use, &err), 0);
	assert_int_equal(count_names("layers"), 0);
}

static void test_a_failure_leaves_nothing(void **state)
{
	const struct rlimit small = { 4096, RLIM_INFINITY },
			    none = { RLIM_INFINITY, RLIM_INFINITY };
	const struct image_source source = source_here();
	struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;
	char big[8192];
	int fd, r;

	(void)state;
	make_store();
	memset(big, 'x', sizeof(big));
	add_file(t.upper, "home/small", "1", 0644);
	fd = openat(t.upper, "home/z", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_all(fd, big, sizeof(big)), 0);
	close(fd);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = image_make(t.outside, "big", &source, NULL, &info, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(err.text, "home/z"));
	assert_int_equal(count_names("layers"), 0);
	assert_int_equal(count_names("images"), 0);
}

/* Killed at any point: the name leads to nothing, and the next one cleans up. */
static void test_a_kill_leaves_no_image(void **state)
{
	static const char *const points[] = { "die_in_copy=1", "die_after_copy=1",
					      "die_before_image=1", "die_before_name=1" };
	struct err err = ERR_NONE;

	(void)state;
	if (!BRIG_HAS_TEST_HOOKS) {
		print_message("needs a test build\n");
		return;
	}
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			const struct image_source source = source_here();
			struct image_info info = IMAGE_INFO_NONE;

			setenv("BRIG_TEST_FAIL", points[i], 1);
			(void)!image_make(t.outside, "killed", &source, NULL, &info, &err);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(image_check_new(t.outside, "killed", &err), 0);
		assert_true(count_names("layers") == 1);
		assert_int_equal(image_sweep(t.outside, &err), 0);
		assert_int_equal(count_names("layers"), 0);
		assert_int_equal(count_names("images"), 0);
	}
	keep("killed");
	assert_string_equal(text_in("killed", "/home/user", "a"), "1");
}

static void test_the_private_folder_is_a_home(void **state)
{
	const struct image_source source = { .store = t.upper, .isolation = ISOLATION_PROCESS };
	struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;

	(void)state;
	add_file(t.upper, "file", "mine", 0644);
	assert_int_equal(image_make(t.outside, "p", &source, NULL, &info, &err), 0);
	assert_int_equal(info.isolation, ISOLATION_PROCESS);
	image_info_done(&info);
	assert_string_equal(text_in("p", "/home/user", "file"), "mine");
}

static void test_strange_manifests(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{ \"trees\": 1 }",
		"{ \"trees\": [ 1 ] }",
		"{ \"trees\": [ { \"name\": \"../x\", \"path\": \"/home/user\" } ] }",
		"{ \"trees\": [ { \"name\": \"a,b\", \"path\": \"/home/user\" } ] }",
		"{ \"trees\": [ { \"name\": \"lock\", \"path\": \"/home/user\" } ] }",
		"{ \"trees\": [ { \"name\": \"home\", \"path\": \"relative\" } ] }",
		"{ \"trees\": [ { \"name\": \"none\", \"path\": \"/home/user\" } ] }",
	};
	struct buf many = BUF(1 << 20);
	struct image_layers none = IMAGE_LAYERS_NONE;
	struct image_info info;
	struct err err = ERR_NONE;
	char path[64];

	(void)state;
	make_store();
	add_file(t.upper, "home/a", "1", 0644);
	info = keep_as("x");
	snprintf(path, sizeof(path), "layers/%s/manifest", info.layers.items[0]);
	image_info_done(&info);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct image_layers layers = IMAGE_LAYERS_NONE;

		add_file(t.outside, path, texts[i], 0600);
		assert_true(image_open(t.outside, "x", &layers, &err) < 0);
		assert_int_equal(layers.count, 0);
	}
	buf_str(&many, "{ \"trees\": [");
	for (int i = 0; i <= IMAGE_TREES_MAX; i++)
		buf_printf(&many, "%s{ \"name\": \"home\", \"path\": \"/p%d\" }", i ? ", " : "", i);
	buf_str(&many, "] }");
	add_file(t.outside, path, buf_text(&many), 0600);
	assert_true(image_open(t.outside, "x", &none, &err) < 0);
	buf_done(&many);
	/* And one that is good, to see that the others failed for what they are. */
	add_file(t.outside, path, "{ \"trees\": [ { \"name\": \"home\", \"path\": \"/p\" } ] }",
		 0600);
	assert_int_equal(image_open(t.outside, "x", &none, &err), 0);
	image_layers_done(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_names),
		test(test_an_image_has_what_was_written),
		test(test_a_mode_alone_is_kept),
		test(test_mount_points_are_left_out),
		test(test_layers_are_shared),
		test(test_the_ninth_layer_is_all_of_them),
		test(test_a_merge_keeps_what_hides_the_host),
		test(test_removal_leaves_what_others_need),
		test(test_a_layer_in_use_stays),
		test(test_a_nameless_parent_gets_a_name_again),
		test(test_the_sweep_takes_leftovers_only),
		test(test_a_damaged_manifest_protects_all_layers),
		test(test_a_failure_leaves_nothing),
		test(test_a_kill_leaves_no_image),
		test(test_the_private_folder_is_a_home),
		test(test_strange_manifests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
