#include "cli/snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"
#include "cli/progress.h"
#include "trace/home.h"

int snapshot_check(const char *name, struct err *err)
{
	_cleanup_close_ int home = -EBADF;

	if (!image_name_is_valid(name))
		return image_check_new(-EBADF, name, err);
	home = trace_home_open(NULL, true, err);
	return home < 0 ? home : image_check_new(home, name, err);
}

static void say(const struct image_info *info)
{
	char amount[32];

	format_amount(info->bytes, amount, sizeof(amount));
	fprintf(stderr, "brig: image \"%s\": %s, %" PRIu64 " files, %zu %s\n", info->name, amount,
		info->files, info->layers.count, info->layers.count == 1 ? "layer" : "layers");
	if (info->left_out > 0)
		fprintf(stderr, "brig: %" PRIu64 " sockets or devices were left out\n",
			info->left_out);
}

int snapshot_make(const char *name, const struct image_source *source, struct node **ret_node,
		  struct err *err)
{
	_cleanup_(image_info_done) struct image_info info = IMAGE_INFO_NONE;
	_cleanup_close_ int home = trace_home_open(NULL, true, err);
	struct progress progress;
	int r;

	if (home < 0)
		return home;
	r = image_make(home, name, source, progress_begin(&progress, "copied"), &info, err);
	progress_end(&progress);
	if (r < 0)
		return r;
	if (ret_node)
		return image_info_to_node(&info, ret_node);
	say(&info);
	return 0;
}
