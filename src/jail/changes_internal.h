/*
 * changes_internal.h - what the parts of changes.h share
 *
 * changes_tree.c opens, lists and copies by descriptors; changes_find.c, changes_rename.c,
 * changes_commit.c and changes_export.c are built on it; changes_text.c says it in words.
 */
#ifndef BRIG_JAIL_CHANGES_INTERNAL_H
#define BRIG_JAIL_CHANGES_INTERNAL_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/changes.h"
#include "jail/changes_tree.h"

#define OPEN_DIR  (O_RDONLY | O_DIRECTORY)
#define OPEN_FILE (O_RDONLY | O_NONBLOCK | O_NOCTTY)

/*
 * As tree_open for a file or directory of the upper layer, also where its mode keeps us out as its
 * owner. ret_st has the mode that the sandbox left.
 */
int upper_open(int upper, const char *path, int flags, struct stat *ret_st);

/* A regular file of the upper layer, for reading; -EBADMSG when it is something else. */
int upper_open_file(int upper, const char *path, struct stat *ret_st);

/* The target of a symbolic link of the upper layer. The caller frees it. */
int upper_readlink(int upper, const char *path, char **ret_target);

/* Paths that still have to be dealt with. */
struct todo {
	struct todo_item {
		char *path;
		bool is_new; /* nothing of it was in the lower layer */
		mode_t mode;
	} * items;
	size_t count, room;
	size_t bytes; /* of all that was ever added */
};
int todo_add(struct todo *todo, const char *path, bool is_new, mode_t mode); /* -E2BIG */
void todo_done(struct todo *todo);

/* What overlayfs wrote on a directory of an upper layer. */
enum mark {
	MARK_NONE,
	MARK_OPAQUE,   /* what the lower layer has in it is hidden */
	MARK_WHITEOUTS /* empty files in it may be whiteouts, by attribute */
};
enum mark upper_mark(int dir);
bool upper_is_whiteout(int upper, const char *path, const struct stat *st, enum mark mark);

/* 1, 0 or -errno. budget may be NULL; otherwise -EDQUOT when it is used up. */
int content_equal(int a, int b, uint64_t size, uint64_t *budget);

/* Copies with its holes. room: bytes of content that may still be written; -EFBIG beyond. */
int content_copy(int from, int to, uint64_t size, uint64_t *room);

/* Turns deletions and additions of equal content into renames. The list is sorted. */
int changes_pair(int upper, int lower, struct changes *changes);

/* Deletion and addition of one path are next to each other in a sorted list. */
static inline bool change_replaces(const struct changes *changes, size_t i)
{
	return i + 1 < changes->count &&
	       strcmp(changes->items[i].path, changes->items[i + 1].path) == 0;
}

void change_notes_done(struct change_notes *notes);

#endif
