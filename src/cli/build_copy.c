/*
 * build_copy.c - COPY: a tar that is unpacked inside, and put where it belongs as Docker would put it
 *
 * The tar is a client's, or made here of the context. In the context no link is followed: a link is copied as what
 * it is, and what lies behind one is not in the context.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/build.h"
#include "cli/ignore.h"
#include "jail/tarball.h"

#define DEPTH_MAX 128

/* --- the context --- */

struct walk {
	struct tarball tar;
	const struct strv *sources; /* patterns */
	bool *found;                /* one for each */
	struct ignore *ignore;
	struct err *err;
};

/* Itself, or something above it. */
static bool is_wanted(struct walk *walk, const char *path)
{
	bool is_found = false;

	for (size_t i = 0; i < walk->sources->count; i++)
		if (ignore_covers(walk->sources->items[i], path)) {
			walk->found[i] = true;
			is_found = true;
		}
	return is_found;
}

static int walk_dir(struct walk *walk, int taken, const char *path, unsigned int depth);

static int add_file(struct walk *walk, int dir, const char *name, const char *path,
		    const struct stat *st)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_errno(walk->err, -errno, "%s", path);
	return tarball_file(&walk->tar, path, st->st_mode & 0777, &st->st_mtim,
			    (uint64_t)st->st_size, fd);
}

static int add_link(struct walk *walk, int dir, const char *name, const char *path,
		    const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);

	if (len < 0)
		return err_errno(walk->err, -errno, "%s", path);
	target[len] = '\0';
	return tarball_symlink(&walk->tar, path, target, &st->st_mtim);
}

static int walk_entry(struct walk *walk, int dir, const char *name, const char *path,
		      unsigned int depth)
{
	bool is_taken = !ignore_has(walk->ignore, path) && is_wanted(walk, path);
	struct stat st;
	int fd, r = 0;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(walk->err, -errno, "%s", path);
	if (S_ISDIR(st.st_mode)) {
		if (is_taken)
			r = tarball_dir(&walk->tar, path, st.st_mode & 0777, &st.st_mtim);
		if (r < 0 || (!is_taken && !ignore_may_have_below(walk->ignore, path)))
			return r;
		fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return fd < 0 ? err_errno(walk->err, -errno, "%s", path)
			      : walk_dir(walk, fd, path, depth + 1);
	}
	if (!is_taken)
		return 0;
	if (S_ISREG(st.st_mode))
		return add_file(walk, dir, name, path, &st);
	return S_ISLNK(st.st_mode) ? add_link(walk, dir, name, path, &st) : 0;
}

static int walk_dir(struct walk *walk, int taken, const char *path, unsigned int depth)
{
	DIR *dir = fdopendir(taken);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		fd_close(taken);
		return err_set(walk->err, -ENOMEM, "out of memory");
	}
	if (depth > DEPTH_MAX)
		r = err_set(walk->err, -ELOOP, "%s: too deep", path);
	while (r == 0 && !build_is_ended() && (entry = readdir(dir))) {
		char below[PATH_MAX];

		if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
			continue;
		if (snprintf(below, sizeof(below), "%s%s%s", path, path[0] ? "/" : "",
			     entry->d_name) >= (int)sizeof(below))
			r = err_set(walk->err, -ENAMETOOLONG, "%.200s: the path is too long", path);
		r = r < 0 ? r : walk_entry(walk, dirfd(dir), entry->d_name, below, depth);
	}
	closedir(dir);
	return r;
}

struct feed {
	struct build *build;
	const struct strv *sources;
};

static int check_found(const struct walk *walk)
{
	for (size_t i = 0; i < walk->sources->count; i++)
		if (!walk->found[i] && !str_equal(walk->sources->items[i], "."))
			return err_set(
				walk->err, -ENOENT,
				"\"%.200s\" is not in the context (or .dockerignore leaves it out)",
				walk->sources->items[i]);
	return 0;
}

static int write_context(void *of, int to, struct err *err)
{
	const struct feed *feed = of;
	struct walk walk = { .tar = TARBALL(to), .sources = feed->sources, .err = err };
	int dir = open(feed->build->context, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (dir < 0)
		return err_errno(err, -errno, "%s", feed->build->context);
	walk.found = calloc(MAX(feed->sources->count, (size_t)1), sizeof(bool));
	r = walk.found ? ignore_read(dir, &walk.ignore, err) : -ENOMEM;
	if (r < 0)
		fd_close(dir);
	r = r < 0 ? r : walk_dir(&walk, dir, "", 0);
	/* Whole in any case: tar has nothing to say about it then. */
	r = r < 0 ? r : tarball_finish(&walk.tar);
	r = r < 0 ? r : check_found(&walk);
	ignore_free(walk.ignore);
	free(walk.found);
	return r < 0 && !err->code && r != -EPIPE ? err_errno(err, r, "the context") : r;
}

/* --- inside --- */

/*
 * $1 where to, $2 who owns it, $3 mode or nothing, then the sources. The tar is on standard input. A sandbox whose
 * root may give nothing away cannot change an owner: then everybody may do what the owner may.
 */
static const char merge[] =
	"set -e; shopt -s nullglob dotglob globstar; umask 022\n"
	"to=$1 owner=$2 mode=$3; shift 3\n"
	"t=$(mktemp -d /tmp/brig-copy.XXXXXX); trap 'rm -rf -- \"$t\"' EXIT\n"
	"cat >\"$t/tar\"; mkdir \"$t/f\"\n"
	"tar -x -f \"$t/tar\" -C \"$t/f\" --no-same-owner; rm -f -- \"$t/tar\"\n"
	"case $owner in *:*) ;; *[!0-9]*) owner=$owner: ;; esac\n"
	"me=$(id -un)\n"
	"give() {\n"
	"  [ -z \"$mode\" ] || find \"$t/f\" -type f -exec chmod \"$mode\" {} +\n"
	"  [ \"${owner%%:*}\" = \"$me\" ] || [ \"${owner%%:*}\" = \"$(id -u)\" ] || "
	"chown -Rh -- \"$owner\" \"$t/f\" 2>/dev/null || chmod -R a+rwX -- \"$t/f\"\n"
	"}\n"
	"give; cd \"$t/f\"; found=(); IFS=\n"
	"for s; do got=($s); [ ${#got[@]} -gt 0 ] && [ -e \"${got[0]}\" -o -L \"${got[0]}\" ] || "
	"{ echo \"$s: there is no such file\" >&2; exit 1; }; found+=(\"${got[@]}\"); done\n"
	"[ ${#found[@]} -eq 1 ] || to=${to%/}/\n"
	"make() { [ -d \"$1\" ] || { mkdir -p -- \"$1\"; [ -z \"$2\" ] || chmod a+rwX -- \"$1\"; "
	"}; }\n"
	"open=; [ \"${owner%%:*}\" = \"$me\" ] || open=1\n"
	"for f in \"${found[@]}\"; do\n"
	"  if [ -d \"$f\" ] && [ ! -L \"$f\" ]; then\n"
	"    make \"$to\" $open; all=(\"$f\"/*); [ ${#all[@]} -eq 0 ] || "
	"cp -a -t \"$to\" -- \"${all[@]}\"\n"
	"  else case $to in\n"
	"    */) make \"$to\" $open; cp -a -t \"$to\" -- \"$f\" ;;\n"
	"    *) if [ -d \"$to\" ]; then cp -a -t \"$to\" -- \"$f\"\n"
	"       else make \"$(dirname -- \"$to\")\" $open; cp -a -T -- \"$f\" \"$to\"; fi ;;\n"
	"  esac; fi\n"
	"done\n";

/* Whether that user could make it himself. */
static const char may_write[] =
	"d=$1; while [ ! -e \"$d\" ]; do d=$(dirname -- \"$d\"); done; [ -d \"$1\" ] || "
	"d=$(dirname -- \"$1\")\n"
	"while [ ! -e \"$d\" ]; do d=$(dirname -- \"$d\"); done; [ -w \"$d\" ]\n";

static int source_of(const struct build *build, const char *word, struct strv *sources)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int r = build_expand(build, word, &text);

	if (r < 0)
		return r;
	if (!path_resolve("/", text, path, sizeof(path)))
		return -ENAMETOOLONG;
	return strv_add(sources, path[1] ? path + 1 : ".");
}

static int target_of(const struct build *build, const char *word, struct strv *command)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX + 1];
	size_t len;
	int r = build_expand(build, word, &text);

	if (r < 0)
		return r;
	if (!path_resolve(build->workdir, text, path, PATH_MAX))
		return -ENAMETOOLONG;
	len = strlen(text);
	/* What ends like a directory is one. */
	if (path[1] && len > 0 &&
	    (text[len - 1] == '/' || str_equal(text, ".") || str_ends(text, "/.")))
		strcat(path, "/");
	return strv_add(command, path);
}

static int feed_archive(struct build *build, const struct build_step *step, struct strv *words,
			struct err *err)
{
	int fd = open(step->archive, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? err_set(err, -ENOENT, "its files were not uploaded")
		      : build_child(build, NULL, words->items, fd, NULL, err);
}

static const char *owner_of(const struct build *build, const struct build_step *step)
{
	if (step->owner)
		return step->owner;
	return build->copies_as ? build->copies_as : build->user;
}

/* The owner himself, where he may write there; else root. */
static int choose_user(struct build *build, const char *owner, const char *to, char *ret_user,
		       size_t size, struct err *err)
{
	int r;

	snprintf(ret_user, size, "%.*s", (int)strcspn(owner, ":"), owner);
	if (str_equal(ret_user, "root") || str_equal(ret_user, "0"))
		return 0;
	r = build_script(build, ret_user, may_write, (const char *const[]){ to, NULL }, err);
	if (r > 0)
		snprintf(ret_user, size, "root");
	return r < 0 ? r : 0;
}

static int add_all(struct strv *words, const char *const *more, const struct strv *sources)
{
	int r = 0;

	for (; *more && r == 0; more++)
		r = strv_add(words, *more);
	for (size_t i = 0; i < sources->count && r == 0; i++)
		r = strv_add(words, sources->items[i]);
	return r;
}

int build_copy(struct build *build, const struct build_step *step, struct err *err)
{
	_cleanup_(strv_done) struct strv sources = { 0 }, words = { 0 }, command = { 0 },
					 to = { 0 };
	const char *owner = owner_of(build, step);
	size_t last = step->args.count - 1;
	char user[256];
	int r = target_of(build, step->args.items[last], &to);

	for (size_t i = 0; i < last && r == 0; i++)
		r = source_of(build, step->args.items[i], &sources);
	if (r < 0)
		return err_errno(err, r, "COPY");
	r = choose_user(build, owner, to.items[0], user, sizeof(user), err);
	if (r < 0)
		return r;
	r = add_all(&command,
		    (const char *const[]){ "/bin/bash", "-c", merge, "copy", to.items[0], owner,
					   step->mode ? step->mode : "", NULL },
		    &sources);
	r = r < 0 ? r : build_words(build, user, "/", true, command.items, &words);
	if (r < 0)
		return err_set(err, r, "out of memory");
	r = step->archive    ? feed_archive(build, step, &words, err)
	    : build->context ? build_child_fed(build, words.items, write_context,
					       &(struct feed){ build, &sources }, err)
			     : err_set(err, -ENOENT, "its files were not uploaded");
	return r > 0 ? err_set(err, -EINVAL, "the files cannot be copied: exit status %d", r) : r;
}
