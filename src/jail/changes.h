/*
 * changes.h - what a sandbox changed in a folder of the host: find it, take it over, carry it away
 *
 * A folder that a policy shows as "overlay" is the lower layer of an overlayfs; all that the
 * sandbox writes goes to the upper layer, a tmpfs that is thrown away. Three things can be done
 * with an upper layer after the sandbox has ended, all through two directory descriptors and never
 * by path:
 *
 *	_cleanup_(changes_done) struct changes changes = CHANGES_NONE;
 *	_cleanup_(changes_outcome_done) struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
 *
 *	r = changes_find(upper, lower, &changes, err);
 *	changes_print(stdout, &changes);
 *	r = changes_commit(&changes, upper, lower, &started, &outcome, err);
 *
 * The upper layer is hostile. Names are any bytes, depth is whatever the file system takes, a file
 * of a terabyte may hold one block, and everything can be a link. Nothing here follows a symbolic
 * link, recurses, or opens what is not a regular file or a directory; directories are worked off
 * from a list, two or three descriptors at a time, each opened from the top with openat2. What lies
 * deeper than a path can say (4095 bytes), cannot be read, or lies on another file system, is a
 * note with words, and the rest is dealt with. A directory of the upper layer that its owner may
 * not enter is made accessible to its owner (mode | 0700) and stays so. Nobody may write to the
 * upper layer meanwhile; to the host's folder anybody may.
 *
 * What is a change:
 *
 *	added       not in the lower layer; a directory, and by itself each thing in it
 *	changed     both are files (symbolic links) and the content (target) differs; also the mode
 *	mode        only the mode differs; also of a directory
 *	deleted     in the lower layer, and hidden by the upper one; a directory once, for all of it
 *	renamed     a regular file that is not empty was deleted, and one of equal content added;
 *	            one change for both. Directories are not paired
 *
 * Copied up and not changed is no change. Where the type differs (a file became a directory), it is
 * one deletion and one addition of the same path, in this order. Owners, times and extended
 * attributes are not compared. The top directory itself is not looked at.
 */
#ifndef BRIG_JAIL_CHANGES_H
#define BRIG_JAIL_CHANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

struct node;
struct tarball;
struct layer_progress;

#define CHANGES_MAX       1000000     /* changes, and entries of one directory */
#define CHANGES_NAMES_MAX (1UL << 28) /* bytes of paths in all */
#define CHANGE_NOTES_MAX  10000

enum change_kind {
	CHANGE_ADDED,
	CHANGE_CHANGED,
	CHANGE_DELETED,
	CHANGE_RENAMED,
	CHANGE_MODE,
	CHANGE_KIND_COUNT
};

struct change {
	enum change_kind kind;
	char *path;                /* below the top, without a slash in front; any bytes */
	char *from;                /* renamed: the path that it had, else NULL */
	mode_t old_mode, new_mode; /* as st_mode, with the type; 0 where there was or is nothing */
	uint64_t size; /* in bytes: of the new file; of the old one when it was deleted */
};

/* Something that a person must be told about one path. */
enum change_what {
	CHANGE_PROBLEM,  /* could not be looked at, so that the list may lack something */
	CHANGE_CONFLICT, /* the host's own changes came first: left alone */
	CHANGE_REFUSED,  /* not allowed to leave a sandbox: left out */
	CHANGE_DROPPED,  /* applied, without its setuid or setgid bit */
	CHANGE_FAILED,   /* the system refused */
	CHANGE_WHAT_COUNT
};

struct change_note {
	enum change_what what;
	char *path; /* any bytes */
	char *why;  /* one line of words */
};

struct change_notes {
	struct change_note *items;
	size_t count, room;
	size_t more; /* that did not go into the list */
};

struct changes {
	struct change *items; /* sorted by the bytes of their paths */
	size_t count, room;
	struct change_notes problems;
	bool truncated; /* there were more than CHANGES_MAX; the list is of no use for a commit */
};

#define CHANGES_NONE ((struct changes){ 0 })

/*
 * lower: the folder that was the lower layer, or -EBADF where there was none. Fails when the top
 * cannot be read and when memory is short; everything else that goes wrong is in problems.
 */
[[nodiscard]] int changes_find(int upper, int lower, struct changes *ret_changes, struct err *err);

/*
 * Where several trees lie below the upper layer, or one that is not at hand: what overlayfs wrote on
 * it tells. A whiteout is a deletion, what was copied up is changed (or only its mode, owner or times
 * are), all else is added. Needs a kernel whose tmpfs keeps attributes (6.6); with an older one what
 * was copied up counts as added.
 */
[[nodiscard]] int changes_find_marked(int upper, struct changes *ret_changes, struct err *err);

void changes_done(struct changes *changes);

struct changes_outcome {
	size_t applied; /* changes that are on the host now; exported: files, links, directories */
	struct change_notes notes;
};

#define CHANGES_OUTCOME_NONE ((struct changes_outcome){ 0 })

void changes_outcome_done(struct changes_outcome *outcome);

/*
 * Brings the changes to the host: target is the folder that was the lower layer, since the time
 * (CLOCK_REALTIME_COARSE) from before the sandbox started. Adds to outcome, and returns 0 also when
 * some changes could not be applied: each of those has a note.
 *
 * Conflicts: what the sandbox changed or deleted and the host touched since then (ctime), removed
 * or replaced; a deleted directory with anything in it that was touched; an added path that exists
 * by now. All of them are looked for before the first change is applied, because our own changes
 * touch directories and hard links too; right before each change the file is compared once more
 * with what was seen (inode, size, mtime). Between that and the rename or unlink a last moment is
 * left in which a host process that writes by path can lose what it wrote. Where both made the same
 * new directory, the host's stays as it is, and what is in it is judged entry by entry.
 *
 * Refused: symbolic links that are absolute, climb out of the folder, or have ".." behind a name
 * (which a link in the middle can turn into a way out); devices, pipes, sockets; whatever is behind
 * a mount point of the host. What such a thing would replace stays as it is. setuid and setgid bits
 * are dropped and noted, except a directory's setgid bit that the host itself gave. A file with
 * several hard links in the upper layer comes as several files, up to CHANGES_LINKED_MAX bytes in
 * all.
 *
 * No file of the host is ever written to: the new one is made beside it (".brig-" and a random
 * name) and renamed over it, so another hard link keeps the old content. It gets the old one's
 * owner, group and ACL, or is not put there; a new file made by root gets the owner of its
 * directory. Times of files are kept, holes stay holes, extended attributes are left behind: some
 * of them mean owner and mode to other programs. Where only the mode differs and the file has no
 * other name, it is set on the file itself.
 *
 * Each parent directory is resolved anew below target, without links and mount points, and then
 * held by its descriptor: a swapped directory or a link in its place leads to an error, never out.
 * A directory that somebody moves out of target in just this moment still receives the one file.
 */
#define CHANGES_LINKED_MAX (1ULL << 30)
[[nodiscard]] int changes_commit(const struct changes *changes, int upper, int target,
				 const struct timespec *since, struct changes_outcome *outcome,
				 struct err *err);

struct changes_export {
	const char *const *skip; /* paths below the top that are left out with all that is in them;
				    NULL behind the last; may be NULL */
	uint64_t max_file;       /* tar: a larger file is refused, holes counted as bytes */
	uint64_t max_total;      /* bytes of content that one call writes */
	const struct layer_progress *progress; /* or NULL (layer.h) */
};

/*
 * Writes what is in the upper layer, without the whiteouts, under prefix ("home/user"; "" for none)
 * of a directory or of a tar stream. Several calls may write to the same one. The rules are those
 * of a commit, with links judged from the top of what is exported, prefix included. Nothing that
 * exists in target is replaced: a conflict; directories are shared. Hard links become files. In a
 * directory holes stay holes; a tar stream has none, hence max_file. Files that were copied up and
 * not changed are exported too. Paths in notes begin with the prefix.
 */
[[nodiscard]] int changes_export_dir(int upper, const char *prefix, int target,
				     const struct changes_export *how,
				     struct changes_outcome *outcome, struct err *err);
[[nodiscard]] int changes_export_tar(int upper, const char *prefix, struct tarball *tar,
				     const struct changes_export *how,
				     struct changes_outcome *outcome, struct err *err);

/*
 * One line each: "A path", "M path", "D path", "R old -> new", "m path 0644 -> 0755"; directories
 * with a slash behind. The names are escaped, see below; problems are not printed.
 */
void changes_print(FILE *file, const struct changes *changes);

/* The same with a path in front of each name: "A /home/user/file" for "/home/user". */
void changes_print_below(FILE *file, const struct changes *changes, const char *top);

/* "conflict: path: why", one line each. */
void change_notes_print(FILE *file, const struct change_notes *notes);

/*
 * A name as text that a terminal cannot misread and that no two names share: control bytes, bytes
 * that are not UTF-8, characters that turn the direction of writing, the backslash itself, and the
 * ">" of "->" become \n, \t, \r, \\ or \x1b.
 */
[[nodiscard]] int change_name_escape(const char *name, struct buf *out);

/*
 * For JSON. A list of { "kind", "path", "type", "from", "size", "old_mode", "mode" }, those that
 * do not apply left out, modes as "0644"; a list of { "what", "path", "why" }; and { "applied",
 * "notes", "more" }. Texts are valid UTF-8; where a path is not, it has U+FFFD in it, and
 * "path_base64" ("from_base64") holds the exact bytes.
 */
[[nodiscard]] int changes_to_node(const struct changes *changes, struct node **ret_node);
[[nodiscard]] int change_notes_to_node(const struct change_notes *notes, struct node **ret_node);
[[nodiscard]] int changes_outcome_to_node(const struct changes_outcome *outcome,
					  struct node **ret_node);

#endif
