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

/* Before anything runs: hours of work should not end here. */
static int check_destination(const char *path, struct err *err)
{
	char parent[PATH_MAX], *slash;
	struct stat st;

	if (path[0] == '\0')
		return err_set(err, -EINVAL, "--export: the name is empty");
	if (lstat(path, &st) == 0)
		return err_set(err, -EEXIST, "--export: \"%s\" exists already: name a new one",
			       path);
	if (errno != ENOENT)
		return err_errno(err, -errno, "--export: \"%s\"", path);
	/* A longer one would not have been looked up. */
	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = '\0';
	if (access(slash ? parent : ".", W_OK | X_OK) < 0)
		return err_errno(err, -errno, "--export: nothing can be made in \"%s\"",
				 slash ? parent : ".");
	return 0;
}

int changes_check(struct run_changes *wanted, const struct tier *tier, const struct policy *policy,
		  struct err *err)
{
	int r = 0;

	if (changes_are_wanted(wanted) && tier->isolation != ISOLATION_CONTAINER)
		return err_set(err, -EOPNOTSUPP,
			       "--diff, --commit and --export need the container tier");
	if ((wanted->diff || wanted->commit) && !has_overlay(policy))
		return err_set(
			err, -EINVAL,
			"--%s needs a folder whose changes are kept apart: add --overlay PATH",
			wanted->diff ? "diff" : "commit");
	if (wanted->export)
		r = check_destination(wanted->export, err);
	if (r == 0 && clock_gettime(CLOCK_REALTIME_COARSE, &wanted->started) < 0)
		return err_errno(err, -errno, "cannot read the clock");
	return r;
}

static int open_upper(const struct tier_jail *tj, size_t number)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), UPPER_PREFIX "%zu", number);
	fd = openat(tj->store, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
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

static int look_at_folder(const struct tier_jail *tj, size_t number, struct folder *folder,
			  struct err *err)
{
	folder->path = tj->overlays.items[number - 1];
	folder->upper = open_upper(tj, number);
	if (folder->upper < 0)
		return err_errno(err, folder->upper, "the changes of \"%s\"", folder->path);
	folder->lower = sys_openat2(AT_FDCWD, tj->overlay_sources.items[number - 1],
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
	if (folder->lower < 0)
		return err_errno(err, folder->lower, "\"%s\"", folder->path);
	return changes_find(folder->upper, folder->lower, &folder->changes, err);
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
static int finish_folder(const struct run_changes *wanted, const struct tier_jail *tj,
			 size_t number, bool commits, struct node *list, struct err *err)
{
	_cleanup_(folder_done) struct folder folder = { .upper = -EBADF,
							.lower = -EBADF,
							.changes = CHANGES_NONE,
							.outcome = CHANGES_OUTCOME_NONE };
	int r = look_at_folder(tj, number, &folder, err);

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
		print_folder(wanted, &folder, tj->overlays.count == 1);
	if (r < 0)
		return r;
	return (int)MIN(folder.changes.problems.count + folder.outcome.notes.count, (size_t)100000);
}

/* Where results go: a folder or a tar file that did not exist. */
struct destination {
	int dir; /* -EBADF: the tar file instead */
	struct tarball tar;
	struct changes_outcome outcome;
	struct err *err;
};

static int export_tree(struct destination *to, int upper, const char *prefix,
		       const char *const *skip)
{
	const struct changes_export how = { .skip = skip,
					    .max_file = EXPORT_FILE_MAX,
					    .max_total = EXPORT_TOTAL_MAX };

	if (upper < 0)
		return err_errno(to->err, upper, "--export");
	return to->dir < 0
		       ? changes_export_tar(upper, prefix, &to->tar, &how, &to->outcome, to->err)
		       : changes_export_dir(upper, prefix, to->dir, &how, &to->outcome, to->err);
}

/* The root's own changes, the home, the overlays: each under its path. */
static int export_all(struct destination *to, const struct tier_jail *tj)
{
	_cleanup_close_ int root = open_upper(tj, 0);
	_cleanup_close_ int home =
		openat(tj->store, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = export_tree(to, root, "", not_exported);

	r = r < 0 ? r : export_tree(to, home < 0 ? -errno : home, "home/user", NULL);
	for (size_t i = 0; i < tj->overlays.count && r == 0; i++) {
		_cleanup_close_ int upper = open_upper(tj, i + 1);

		r = export_tree(to, upper, tj->overlays.items[i] + 1, NULL);
	}
	return r;
}

static int export_to_tar(const char *path, const struct tier_jail *tj, struct destination *to)
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	int r;

	if (fd < 0)
		return err_errno(to->err, -errno, "--export: \"%s\"", path);
	to->tar = TARBALL(fd);
	r = export_all(to, tj);
	if (r < 0)
		return r;
	r = tarball_finish(&to->tar);
	return r < 0 ? err_errno(to->err, r, "--export: \"%s\"", path) : 0;
}

static int export_to_folder(const char *path, const struct tier_jail *tj, struct destination *to)
{
	int r;

	if (mkdir(path, 0777) < 0)
		return err_errno(to->err, -errno, "--export: \"%s\"", path);
	to->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to->dir < 0)
		return err_errno(to->err, -errno, "--export: \"%s\"", path);
	r = export_all(to, tj);
	to->dir = fd_close(to->dir);
	return r;
}

static int finish_export(const char *path, const struct tier_jail *tj, struct node *report,
			 struct err *err)
{
	struct destination to = { .dir = -EBADF, .outcome = CHANGES_OUTCOME_NONE, .err = err };
	_cleanup_(node_freep) struct node *node = NULL;
	int r = is_tar(path) ? export_to_tar(path, tj, &to) : export_to_folder(path, tj, &to);

	if (r == 0 && report) {
		r = changes_outcome_to_node(&to.outcome, &node);
		r = r < 0 ? r : node_set(report, "export", take_ptr(&node));
	} else if (r == 0) {
		change_notes_print(stderr, &to.outcome.notes);
	}
	if (r == 0)
		r = (int)MIN(to.outcome.notes.count, (size_t)100000);
	changes_outcome_done(&to.outcome);
	return r;
}

/* How many things were left out, added up; a failure wins. */
static int add_up(int sum, int more)
{
	return sum < 0 ? sum : more < 0 ? more : sum + more;
}

/* The overlays, one after the other, and what is to be said of them. Returns how many notes. */
static int finish_folders(const struct run_changes *wanted, const struct tier_jail *tj,
			  bool commits, struct node *report, struct err *err)
{
	_cleanup_(node_freep) struct node *list = report ? node_list() : NULL;
	int left = report && !list ? -ENOMEM : 0;

	for (size_t i = 1; i <= tj->overlays.count; i++)
		left = add_up(left, finish_folder(wanted, tj, i, commits, list, err));
	if (left >= 0 && report && node_set(report, "folders", take_ptr(&list)) < 0)
		return -ENOMEM;
	return left;
}

int changes_finish(const struct run_changes *wanted, const struct tier_jail *tj,
		   bool command_failed, struct node *report, struct err *err)
{
	int left = 0;

	if (!changes_are_wanted(wanted))
		return 0;
	if (tj->store < 0)
		return err_set(err, -EIO, "the sandbox ended before it could be looked at");
	if (wanted->commit && command_failed && !report)
		fprintf(stderr, "brig: the command failed: nothing was brought back\n");
	if (wanted->diff || wanted->commit)
		left = finish_folders(wanted, tj, wanted->commit && !command_failed, report, err);
	if (wanted->export)
		left = left < 0 ? left
				: add_up(left, finish_export(wanted->export, tj, report, err));
	if (left < 0 && !err->code)
		return err_errno(err, left, "changes");
	/* Conflicts and refusals were told one by one; the status has to say it too. */
	if (left > 0)
		return err_set(err, -EBUSY, "%d things were left out, see above", left);
	return MIN(left, 0);
}
