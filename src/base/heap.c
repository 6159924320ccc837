/*
 * heap.c - malloc for a process that lives for milliseconds (built on musl only)
 *
 * musl's own allocator maps and unmaps a page for every few objects, and every page is a fault: in
 * a virtual machine a tenth of a start of brig. This one takes memory from one arena that is
 * populated in a single call, and keeps a list of free blocks for each size. It is for a single
 * thread: brig has no other, and the keeper is a process of its own.
 *
 * A block's header tells its size and whether it is in use; freeing what is not a block in use ends
 * the process. Sanitizer builds use the system's allocator, which finds more.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STEP         16u /* alignment, and the step of the small sizes */
#define SMALL_MAX    1024u
#define LARGE_MAX    (64u << 10) /* what is larger has a mapping of its own */
#define ARENA_FIRST  (32u << 10) /* what a start needs, populated at once */
#define ARENA_NEXT   (1024u << 10)
#define SMALL_COUNT  (SMALL_MAX / STEP)
#define CLASS_COUNT  (SMALL_COUNT + 6) /* 2K, 4K, ... 64K */
#define CLASS_MAPPED 0xffffu

#define IN_USE 0x62726967u
#define FREED  0x66726565u

struct block {
	uint32_t state;
	uint32_t class;
	size_t size;          /* of the content; of a mapping: of all of it */
	struct block *next[]; /* while it is free: in place of the content */
};

static struct block *free_blocks[CLASS_COUNT];
static char *arena, *arena_end;

static unsigned int class_of(size_t size, size_t *ret_room)
{
	unsigned int class = SMALL_COUNT;
	size_t room = (size_t)SMALL_MAX * 2;

	if (size <= SMALL_MAX) {
		*ret_room = size ? (size + STEP - 1) / STEP * STEP : STEP;
		return (unsigned int)(*ret_room / STEP) - 1;
	}
	for (; room < size; room *= 2)
		class ++;
	*ret_room = room;
	return class;
}

static void *map(size_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
		       0);

	return p == MAP_FAILED ? NULL : p;
}

static struct block *map_block(size_t size)
{
	size_t all = size + sizeof(struct block);
	struct block *block = all < size ? NULL : map(all, 0);

	if (block)
		*block = (struct block){ .state = IN_USE, .class = CLASS_MAPPED, .size = all };
	return block;
}

static struct block *cut_block(unsigned int class, size_t room)
{
	size_t all = room + sizeof(struct block);
	struct block *block;

	if ((size_t)(arena_end - arena) < all) {
		size_t size = arena || all > ARENA_FIRST ? ARENA_NEXT : ARENA_FIRST;
		char *more = map(size, arena ? 0 : MAP_POPULATE);

		if (!more)
			return NULL;
		arena = more;
		arena_end = more + size;
	}
	block = (struct block *)(void *)arena;
	arena += all;
	block->class = class;
	block->size = room;
	return block;
}

/* Under another name, or the compiler would turn calloc() below, malloc() and memset(), into a call
 * of calloc(). */
static void *take(size_t size)
{
	struct block *block;
	unsigned int class;
	size_t room;

	if (size > LARGE_MAX) {
		block = map_block(size);
	} else {
		class = class_of(size, &room);
		block = free_blocks[class];
		if (block)
			free_blocks[class] = block->next[0];
		else
			block = cut_block(class, room);
	}
	if (!block) {
		errno = ENOMEM;
		return NULL;
	}
	block->state = IN_USE;
	return block + 1;
}

void *malloc(size_t size)
{
	return take(size);
}

static struct block *block_of(void *p)
{
	struct block *block = (struct block *)p - 1;

	if (block->state != IN_USE)
		abort();
	return block;
}

void free(void *p)
{
	int saved = errno;
	struct block *block;

	if (!p)
		return;
	block = block_of(p);
	block->state = FREED;
	if (block->class == CLASS_MAPPED) {
		munmap(block, block->size);
		errno = saved;
		return;
	}
	block->next[0] = free_blocks[block->class];
	free_blocks[block->class] = block;
}

void *calloc(size_t count, size_t size)
{
	size_t all;
	void *p;

	if (__builtin_mul_overflow(count, size, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	p = take(all);
	return p ? memset(p, 0, all) : NULL;
}

void *realloc(void *p, size_t size)
{
	struct block *block;
	size_t room;
	void *moved;

	if (!p)
		return take(size);
	block = block_of(p);
	room = block->class == CLASS_MAPPED ? block->size - sizeof(*block) : block->size;
	if (size <= room)
		return p;
	moved = take(size);
	if (!moved)
		return NULL;
	memcpy(moved, p, room);
	free(p);
	return moved;
}
