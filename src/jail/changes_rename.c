#include "jail/changes_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

/*
 * A rename is only a nicer way to say "deleted and added", so the work for it is bounded: files of
 * one size are sorted out by a hash of their beginning, the few that are left are compared byte by
 * byte, and when a sandbox has arranged for more than this, the rest stays two changes.
 */
#define HEAD_SIZE    4096
#define TRIES_MAX    16
#define SCANNED_MAX  ((size_t)1024)
#define COMPARED_MAX (4 * GIB)

struct candidate {
	size_t index; /* of the change */
	uint64_t size, head;
	bool added;
	bool out; /* paired, or cannot be read */
};

static int by_size(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

static int by_head(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->head != right->head)
		return left->head < right->head ? -1 : 1;
	if (left->added != right->added)
		return left->added ? 1 : -1;
	return left->index < right->index ? -1 : left->index > right->index;
}

static size_t collect(const struct changes *changes, struct candidate *list)
{
	size_t count = 0;

	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->items[i];
		bool added = change->kind == CHANGE_ADDED;

		if (change->size == 0 || (!added && change->kind != CHANGE_DELETED) ||
		    !S_ISREG(added ? change->new_mode : change->old_mode))
			continue;
		/* The deletion that makes place for something else of the same name must stay. */
		if (!added && change_replaces(changes, i))
			continue;
		list[count++] =
			(struct candidate){ .index = i, .size = change->size, .added = added };
	}
	return count;
}

static int open_candidate(int upper, int lower, const struct changes *changes,
			  const struct candidate *c)
{
	const char *path = changes->items[c->index].path;
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	if (c->added)
		return upper_open_file(upper, path, &st);
	fd = tree_open(lower, path, OPEN_FILE);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(&fd) : -EBADMSG;
}

static void hash_head(int upper, int lower, const struct changes *changes, struct candidate *c)
{
	_cleanup_close_ int fd = open_candidate(upper, lower, changes, c);
	unsigned char head[HEAD_SIZE];
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
	uint64_t hash = 0xcbf29ce484222325;

	c->out = n < 0;
	for (ssize_t i = 0; i < n; i++)
		hash = (hash ^ head[i]) * 0x100000001b3;
	c->head = hash;
}

/* The first of the deleted files that the added one is equal to, or NULL. */
static struct candidate *find_source(int upper, int lower, const struct changes *changes,
				     const struct candidate *added, struct candidate *deleted,
				     size_t count, uint64_t *budget)
{
	_cleanup_close_ int fd = open_candidate(upper, lower, changes, added);
	int tries = 0;

	for (size_t i = 0; fd >= 0 && i < MIN(count, SCANNED_MAX) && tries < TRIES_MAX; i++) {
		_cleanup_close_ int other = -EBADF;

		if (deleted[i].out)
			continue;
		other = open_candidate(upper, lower, changes, &deleted[i]);
		tries++;
		if (other >= 0 && content_equal(fd, other, added->size, budget) == 1)
			return &deleted[i];
	}
	return NULL;
}

/* All of one size and one beginning, the deleted ones first. */
static void pair_group(int upper, int lower, struct changes *changes, struct candidate *group,
		       size_t count, uint64_t *budget)
{
	size_t first = 0, deleted = 0;

	while (deleted < count && !group[deleted].added)
		deleted++;
	for (size_t i = deleted; i < count; i++) {
		struct candidate *source;
		struct change *from, *to;

		while (first < deleted && group[first].out)
			first++;
		if (group[i].out)
			continue;
		source = find_source(upper, lower, changes, &group[i], group + first,
				     deleted - first, budget);
		if (!source)
			continue;
		source->out = true;
		from = &changes->items[source->index];
		to = &changes->items[group[i].index];
		to->kind = CHANGE_RENAMED;
		to->from = take_ptr(&from->path);
		to->old_mode = from->old_mode;
	}
}

static void pair_size(int upper, int lower, struct changes *changes, struct candidate *group,
		      size_t count, uint64_t *budget)
{
	size_t added = 0;

	for (size_t i = 0; i < count; i++)
		added += group[i].added;
	if (added == 0 || added == count)
		return;
	for (size_t i = 0; i < count; i++)
		hash_head(upper, lower, changes, &group[i]);
	qsort(group, count, sizeof(*group), by_head);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && group[end].head == group[i].head;)
			end++;
		pair_group(upper, lower, changes, group + i, end - i, budget);
	}
}

int changes_pair(int upper, int lower, struct changes *changes)
{
	_cleanup_free_ struct candidate *list = calloc(changes->count + 1, sizeof(*list));
	uint64_t budget = COMPARED_MAX;
	size_t count, kept = 0;

	if (!list)
		return -ENOMEM;
	count = collect(changes, list);
	if (count)
		qsort(list, count, sizeof(*list), by_size);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && list[end].size == list[i].size;)
			end++;
		pair_size(upper, lower, changes, list + i, end - i, &budget);
	}
	for (size_t i = 0; i < changes->count; i++)
		if (changes->items[i].path)
			changes->items[kept++] = changes->items[i];
	changes->count = kept;
	return 0;
}
