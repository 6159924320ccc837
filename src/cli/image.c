/* image.c - brig image: what sandboxes left for others to start from */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "data/schema.h"
#include "tier/image.h"
#include "trace/home.h"

static const struct option image_options[] = {
	{ 0, "json", NULL, "print JSON" },
	{ 0, "schema", NULL, "print the JSON Schema of what ls --json prints" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

struct image_request {
	int home; /* -EBADF: there is no state directory yet */
	bool is_json;
	char **names;
	int count;
};

static void format_time(uint64_t ms, char *text, size_t size)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(text, size, "%Y-%m-%d %H:%M", &tm) == 0)
		snprintf(text, size, "?");
}

static void print_line(const struct image_info *info)
{
	char when[32], amount[32];

	if (info->created == 0) {
		printf("%-20s damaged\n", info->name);
		return;
	}
	format_time(info->created, when, sizeof(when));
	format_amount(info->bytes, amount, sizeof(amount));
	printf("%-20s %s  %-9s  %9s  %zu %s\n", info->name, when, isolation_names[info->isolation],
	       amount, info->layers.count, info->layers.count == 1 ? "layer" : "layers");
}

static int list_node(const struct image_info *images, size_t count, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map(), *list = node_list();
	int r = map && list ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++) {
		struct node *item = NULL;

		r = image_info_to_node(&images[i], &item);
		r = r < 0 ? r : node_add(list, item);
	}
	r = r < 0 ? r : node_set(map, "images", take_ptr(&list));
	if (r == 0)
		*ret_node = take_ptr(&map);
	return r;
}

static int print_list(const struct image_request *request, const struct image_info *images,
		      size_t count)
{
	_cleanup_(node_freep) struct node *node = NULL;

	if (request->is_json)
		return list_node(images, count, &node) < 0 ? complain_text("out of memory")
							   : print_json(node);
	for (size_t i = 0; i < count; i++)
		print_line(&images[i]);
	return 0;
}

static int image_ls(const struct image_request *request)
{
	struct image_info *images = NULL;
	struct err err = ERR_NONE;
	size_t count = 0;
	int r;

	if (request->home >= 0 && image_list(request->home, &images, &count, &err) < 0)
		return complain(&err);
	r = print_list(request, images, count);
	image_list_free(images, count);
	return r;
}

static void print_layers(const struct image_info *info, const struct image_layers *layers)
{
	char amount[32];

	print_line(info);
	if (info->base)
		printf("  on the system %s\n", info->base);
	for (size_t i = 0; i < layers->count; i++) {
		const struct image_layer *layer = &layers->items[i];

		format_amount(layer->bytes, amount, sizeof(amount));
		printf("  layer %s: %s, %" PRIu64 " files:", layer->id, amount, layer->files);
		for (size_t k = 0; k < layer->tree_count; k++)
			printf(" %s", layer->trees[k].path);
		putchar('\n');
	}
}

static int image_show(const struct image_request *request)
{
	_cleanup_(image_layers_done) struct image_layers layers = IMAGE_LAYERS_NONE;
	_cleanup_(image_info_done) struct image_info info = IMAGE_INFO_NONE;
	struct err err = ERR_NONE;
	_cleanup_(node_freep) struct node *node = NULL;

	if (image_look(request->home, request->names[0], &info, &err) < 0 ||
	    image_open(request->home, request->names[0], &layers, &err) < 0)
		return complain(&err);
	if (request->is_json)
		return image_info_to_node(&info, &node) < 0 ? complain_text("out of memory")
							    : print_json(node);
	print_layers(&info, &layers);
	return 0;
}

static int image_rm(const struct image_request *request)
{
	int status = 0;

	for (int i = 0; i < request->count; i++) {
		struct err err = ERR_NONE;
		bool is_in_use = false;

		if (image_remove(request->home, request->names[i], &is_in_use, &err) < 0)
			status = complain(&err);
		else if (is_in_use)
			fprintf(stderr,
				"brig: image \"%s\" has no name any more; its files stay until the "
				"last sandbox that was started from it ends\n",
				request->names[i]);
	}
	return status;
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig images");
	int r = schema_add(document, "images", schema_list(image_info_schema()), true);

	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int run(struct image_request *request, const char *word)
{
	static const struct {
		const char *name;
		int (*run)(const struct image_request *request);
		int min, max;
	} parts[] = {
		{ "ls", image_ls, 0, 0 },
		{ "show", image_show, 1, 1 },
		{ "rm", image_rm, 1, INT32_MAX },
	};
	_cleanup_close_ int home = -EBADF;
	struct err err = ERR_NONE;
	size_t i = 0;

	while (i < ARRAY_SIZE(parts) && !str_equal(word, parts[i].name))
		i++;
	if (i == ARRAY_SIZE(parts))
		return complain_text("image: \"%.40s\" is none of: ls, show, rm", word);
	if (request->count < parts[i].min)
		return complain_text("image %s: of which image? (brig image ls)", word);
	if (request->count > parts[i].max)
		return complain_text("image %s: too many words: \"%.40s\"", word,
				     request->names[parts[i].max]);
	home = trace_home_open(NULL, false, &err);
	if (home < 0 && home != -ENOENT)
		return complain(&err);
	if (home < 0 && request->count > 0)
		return complain_text("there is no image \"%.80s\" (there are none at all yet)",
				     request->names[0]);
	request->home = home;
	return parts[i].run(request);
}

/* Options may stand before, between and behind the words, which move to the front. */
static int verb_image_main(int argc, char **argv)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	struct image_request request = { .home = -EBADF, .names = argv + 1 };
	const char *name, *value;
	struct err err = ERR_NONE;
	bool is_schema = false;
	int r, count = 0;

	while (args.at < argc) {
		r = args_next(&args, &verb_image, &name, &value, &err);
		if (r < 0)
			return complain(&err);
		if (r > 0 && str_equal(name, "help")) {
			print_help(&verb_image);
			return 0;
		}
		if (r > 0) {
			request.is_json |= str_equal(name, "json");
			is_schema |= str_equal(name, "schema");
		} else if (args.at < argc) {
			argv[count++] = argv[args.at++];
		}
	}
	if (is_schema)
		return print_schema();
	request.names = argv + 1;
	request.count = MAX(count - 1, 0);
	return run(&request, count > 0 ? argv[0] : "ls");
}

const struct verb verb_image = {
	.name = "image",
	.usage = "ls | show NAME | rm NAME... [--json]",
	.summary = "list, show and remove what sandboxes left for others to start from",
	.text = "An image is what a sandbox wrote, under a name: its home, /tmp, /var/tmp, the "
		"changes in overlays and, with an image of the policy, in the system. \"brig run "
		"--keep NAME\" makes one, \"brig run --from NAME\" starts from it. What is "
		"started from an image and kept again adds a layer; layers are shared.\n\n"
		"rm takes the name away, and the files that no other image and no sandbox that "
		"runs needs. Images are in the state directory ($XDG_STATE_HOME/brig, else "
		"~/.local/state/brig, for root /var/lib/brig), which no sandbox sees.",
	.example = "brig run --keep tools -- pip install --user requests\nbrig run --from tools -- "
		   "python3 script.py\nbrig image ls\nbrig image rm tools",
	.options = image_options,
	.run = verb_image_main,
};
