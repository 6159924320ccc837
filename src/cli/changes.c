#include "cli/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "jail/changes.h"
#include "jail/tarball.h"

#define EXPORT_FILE_MAX  (16 * GIB)
#define EXPORT_TOTAL_MAX (256 * GIB)

/* In the root itself: what is the sandbox's own and no result. */
static const char *const not_exported[] = { "tmp", "var/tmp", "dev", "proc", "run", NULL };

static bool has_overlay(const struct policy *policy)
{
	for (size_t i = 0; i < policy->fs.count; i++)
		if (policy->fs.items[i].access == ACCESS_OVERLAY)
			return true;
	return false;
}

static bool is_tar(const char *path)
{
	return str_ends(path, ".tar");
}

int export_check(const char *path, struct err *err)
{
	char parent[PATH_MAX], *slash;
	struct stat st;

	if (path[0] == '\0')
		return err_set(err, -EINVAL, "the name is empty");
	if (lstat(path, &st) == 0)
		return err_set(err, -EEXIST, "\"%s\" exists already: name a new one", path);
	if (errno != ENOENT)
		return err_errno(err, -errno, "\"%s\"", path);
	/* A longer one would not have been looked up. */
	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = '\0';
	if (access(slash ? parent : ".", W_OK | X_OK) < 0)
		return err_errno(err, -errno, "nothing can be made in \"%s\"",
				 slash ? parent : ".");
	return 0;
}

/* Whether there is anything in an image that would have to come back first. */
static bool overlays_from_image(const struct image_layers *from)
{
	for (size_t i = 0; from && i < from->count; i++)
		for (size_t k = 0; k < from->items[i].tree_count; k++)
			if (str_starts(from->items[i].trees[k].name, "overlay"))
				return true;
	return false;
}

int changes_check(struct run_changes *wanted, const struct tier *tier, const struct policy *policy,
		  struct err *err)
{
	int r = 0;

	if (changes_need_container(wanted) && tier->isolation != ISOLATION_CONTAINER)
		return err_set(err, -EOPNOTSUPP,
			       "--diff, --commit and --export need the container tier");
	if ((wanted->diff || wanted->commit) && !has_overlay(policy))
		return err_set(
			err, -EINVAL,
			"--%s needs a folder whose changes are kept apart: add --overlay PATH",
			wanted->diff ? "diff" : "commit");
	if (wanted->commit && overlays_from_image(wanted->from))
		return err_set(err, -EINVAL,
			       "--commit: image \"%s\" has changes of overlays itself, which are "
			       "not on the host: use --export",
			       wanted->from->name);
	if (wanted->export)
		r = export_check(wanted->export, err);
	if (r < 0)
		return err_prefix(err, "--export");
	if (r == 0 && wanted->keep)
		r = snapshot_check(wanted->keep, err);
	if (r == 0 && clock_gettime(CLOCK_REALTIME_COARSE, &wanted->started) < 0)
		return err_errno(err, -errno, "cannot read the clock");
	return r;
}

static int open_upper(const struct image_source *source, size_t number)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), UPPER_PREFIX "%zu", number);
	fd = openat(source->store, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Everything about one overlay, and what was said about it. */
struct folder {
	const char *path;
	int upper, lower;
	struct changes changes;
	struct changes_outcome outcome;
	bool is_committed;
};

static void folder_done(struct folder *folder)
{
	fd_close(folder->upper);
	fd_close(folder->lower);
	changes_done(&folder->changes);
	changes_outcome_done(&folder->outcome);
}

/* On top of an image the host's folder is not what was there before. */
static int look_at_folder(const struct run_changes *wanted, const struct image_source *source,
			  size_t number, struct folder *folder, struct err *err)
{
	folder->path = source->overlays->items[number - 1];
	folder->upper = open_upper(source, number);
	if (folder->upper < 0)
		return err_errno(err, folder->upper, "the changes of \"%s\"", folder->path);
	folder->lower = sys_openat2(AT_FDCWD, source->overlay_sources->items[number - 1],
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
	if (folder->lower < 0)
		return err_errno(err, folder->lower, "\"%s\"", folder->path);
	return wanted->from && image_newest_tree(wanted->from, folder->path)
		       ? changes_find_marked(folder->upper, &folder->changes, err)
		       : changes_find(folder->upper, folder->lower, &folder->changes, err);
}

static int folder_node(const struct folder *folder, struct node *list)
{
	_cleanup_(node_freep) struct node *map = node_map(), *changes = NULL, *problems = NULL,
					  *outcome = NULL;
	int r = map ? changes_to_node(&folder->changes, &changes) : -ENOMEM;

	r = r < 0 ? r : change_notes_to_node(&folder->changes.problems, &problems);
	r = r < 0 ? r : node_set(map, "folder", node_string(folder->path));
	r = r < 0 ? r : node_set(map, "changes", take_ptr(&changes));
	r = r < 0 ? r : node_set(map, "problems", take_ptr(&problems));
	if (r == 0 && folder->is_committed) {
		r = changes_outcome_to_node(&folder->outcome, &outcome);
		r = r < 0 ? r : node_set(map, "commit", take_ptr(&outcome));
	}
	return r < 0 ? r : node_add(list, take_ptr(&map));
}

static void print_folder(const struct run_changes *wanted, const struct folder *folder,
			 bool is_alone)
{
	if (wanted->diff) {
		if (!is_alone)
			printf("%s:\n", folder->path);
		changes_print(stdout, &folder->changes);
		fflush(stdout);
	}
	change_notes_print(stderr, &folder->changes.problems);
	change_notes_print(stderr, &folder->outcome.notes);
	if (folder->is_committed)
		fprintf(stderr, "brig: %zu of %zu changes are in \"%s\" now\n",
			folder->outcome.applied, folder->changes.count, folder->path);
}

/* One overlay: what changed, brought back where that is wanted, told. Returns how many notes. */
static int finish_folder(const struct run_changes *wanted, const struct image_source *source,
			 size_t number, bool commits, struct node *list, struct err *err)
{
	_cleanup_(folder_done) struct folder folder = { .upper = -EBADF,
							.lower = -EBADF,
							.changes = CHANGES_NONE,
							.outcome = CHANGES_OUTCOME_NONE };
	int r = look_at_folder(wanted, source, number, &folder, err);

	if (r == 0 && commits) {
		r = changes_commit(&folder.changes, folder.upper, folder.lower, &wanted->started,
				   &folder.outcome, err);
		folder.is_committed = r == 0;
	}
	if (r < 0)
		return r;
	if (list)
		r = folder_node(&folder, list);
	else
		print_folder(wanted, &folder, source->overlays->count == 1);
	if (r < 0)
		return r;
	return (int)MIN(folder.changes.problems.count + folder.outcome.notes.count, (size_t)100000);
}

/* Where results go: a folder or a tar file that did not exist. */
struct destination {
	int dir; /* -EBADF: the tar file instead */
	struct tarball tar;
	struct changes_outcome outcome;
	const struct layer_progress *progress;
	struct err *err;
};

static int export_tree(struct destination *to, int upper, const char *prefix,
		       const char *const *skip)
{
	const struct changes_export how = { .skip = skip,
					    .max_file = EXPORT_FILE_MAX,
					    .max_total = EXPORT_TOTAL_MAX,
					    .progress = to->progress };

	if (upper < 0)
		return err_errno(to->err, upper, "the files of the sandbox cannot be read");
	return to->dir < 0
		       ? changes_export_tar(upper, prefix, &to->tar, &how, &to->outcome, to->err)
		       : changes_export_dir(upper, prefix, to->dir, &how, &to->outcome, to->err);
}

/* The root's own changes, the home, the overlays: each under its path. */
static int export_all(struct destination *to, const struct image_source *source)
{
	_cleanup_close_ int root = -EBADF, home = -EBADF;
	int r, missing;

	if (source->isolation != ISOLATION_CONTAINER)
		return export_tree(to, source->store, "home/user", NULL);
	root = open_upper(source, 0);
	home = openat(source->store, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	missing = home < 0 ? -errno : 0;
	r = export_tree(to, root, "", not_exported);
	/* An image of the policy may have a home of its own, which is part of the root then. */
	if (r == 0 && missing != -ENOENT)
		r = export_tree(to, missing < 0 ? missing : home, "home/user", NULL);
	for (size_t i = 0; i < source->overlays->count && r == 0; i++) {
		_cleanup_close_ int upper = open_upper(source, i + 1);

		r = export_tree(to, upper, source->overlays->items[i] + 1, NULL);
	}
	return r;
}

static int export_to_tar(const char *path, const struct image_source *source,
			 struct destination *to)
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	int r;

	if (fd < 0)
		return err_errno(to->err, -errno, "\"%s\"", path);
	to->tar = TARBALL(fd);
	r = export_all(to, source);
	if (r < 0)
		return r;
	r = tarball_finish(&to->tar);
	return r < 0 ? err_errno(to->err, r, "\"%s\"", path) : 0;
}

static int export_to_folder(const char *path, const struct image_source *source,
			    struct destination *to)
{
	int r;

	if (mkdir(path, 0777) < 0)
		return err_errno(to->err, -errno, "\"%s\"", path);
	to->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to->dir < 0)
		return err_errno(to->err, -errno, "\"%s\"", path);
	r = export_all(to, source);
	to->dir = fd_close(to->dir);
	return r;
}

int export_state(const char *path, const struct image_source *source, struct node **ret_outcome,
		 struct err *err)
{
	struct destination to = { .dir = -EBADF, .outcome = CHANGES_OUTCOME_NONE, .err = err };
	struct progress progress;
	int r;

	to.progress = progress_begin(&progress, "exported");
	r = is_tar(path) ? export_to_tar(path, source, &to) : export_to_folder(path, source, &to);
	progress_end(&progress);
	if (r == 0 && ret_outcome)
		r = changes_outcome_to_node(&to.outcome, ret_outcome);
	else if (r == 0)
		change_notes_print(stderr, &to.outcome.notes);
	if (r == 0)
		r = (int)MIN(to.outcome.notes.count, (size_t)100000);
	changes_outcome_done(&to.outcome);
	return r;
}

static int finish_export(const char *path, const struct image_source *source, struct node *report,
			 struct err *err)
{
	_cleanup_(node_freep) struct node *node = NULL;
	int r = export_state(path, source, report ? &node : NULL, err);

	if (r < 0 && err->code)
		err_prefix(err, "--export");
	if (r >= 0 && report && node_set(report, "export", take_ptr(&node)) < 0)
		return -ENOMEM;
	return r;
}

static int finish_keep(const char *name, const struct image_source *source, struct node *report,
		       struct err *err)
{
	_cleanup_(node_freep) struct node *node = NULL;
	int r = snapshot_make(name, source, report ? &node : NULL, err);

	return r < 0 || !report ? r : node_set(report, "kept", take_ptr(&node));
}

/* How many things were left out, added up; a failure wins. */
static int add_up(int sum, int more)
{
	return sum < 0 ? sum : more < 0 ? more : sum + more;
}

/* The overlays, one after the other, and what is to be said of them. Returns how many notes. */
static int finish_folders(const struct run_changes *wanted, const struct image_source *source,
			  bool commits, struct node *report, struct err *err)
{
	_cleanup_(node_freep) struct node *list = report ? node_list() : NULL;
	int left = report && !list ? -ENOMEM : 0;

	for (size_t i = 1; i <= source->overlays->count; i++)
		left = add_up(left, finish_folder(wanted, source, i, commits, list, err));
	if (left >= 0 && report && node_set(report, "folders", take_ptr(&list)) < 0)
		return -ENOMEM;
	return left;
}

int changes_finish(const struct run_changes *wanted, const struct tier_jail *tj,
		   bool command_failed, struct node *report, struct err *err)
{
	_cleanup_(strv_done) struct strv made = { 0 };
	const struct image_source source = tier_jail_source(tj, &made);
	int left = 0;

	if (!changes_are_wanted(wanted))
		return 0;
	if (tier_jail_made(tj, &made) < 0)
		return err_errno(err, -ENOMEM, "changes");
	if (source.store < 0)
		return err_set(err, -EIO, "the sandbox ended before it could be looked at");
	if (wanted->commit && command_failed && !report)
		fprintf(stderr, "brig: the command failed: nothing was brought back\n");
	if (wanted->diff || wanted->commit)
		left = finish_folders(wanted, &source, wanted->commit && !command_failed, report,
				      err);
	if (wanted->export)
		left = left < 0 ? left
				: add_up(left, finish_export(wanted->export, &source, report, err));
	if (wanted->keep)
		left = left < 0 ? left
				: add_up(left, finish_keep(wanted->keep, &source, report, err));
	if (left < 0 && !err->code)
		return err_errno(err, left, "changes");
	/* Conflicts and refusals were told one by one; the status has to say it too. */
	if (left > 0)
		return err_set(err, -EBUSY, "%d things were left out, see above", left);
	return MIN(left, 0);
}
