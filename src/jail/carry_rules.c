/* carry_rules.c - which rule decides, and what is left for Landlock to grant: no system calls */
#include "jail/carry.h"

#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/str.h"

/* Whether a path of so many bytes can be one below a tree of so many: it ends or goes on there. */
static bool has_end_at(const char *path, size_t path_len, size_t len)
{
	return len == 1 || (len <= path_len && (path[len] == '/' || path[len] == '\0'));
}

/* As path_is_below(), for directories that do not know the difference between letters. */
static bool is_below_in_any_case(const char *path, size_t path_len, const char *tree, size_t len)
{
	return has_end_at(path, path_len, len) && (len == 1 || strncasecmp(path, tree, len) == 0);
}

static const struct carry_place *nearest(const struct carry *c, const char *path)
{
	const struct carry_place *found = NULL;
	size_t len = strlen(path);

	/* Of two that a path lies below, the later in the order is the nearer. */
	for (size_t i = 0; i < c->count; i++)
		if (has_end_at(path, len, c->places[i].len) &&
		    path_is_below(path, c->places[i].path))
			found = &c->places[i];
	return found;
}

const struct carry_place *carry_place_of(const struct carry *c, const char *path)
{
	const struct carry_place *found = nearest(c, path);
	size_t nearest_len = found ? found->len : 0, len = strlen(path);

	for (size_t i = 0; found && i < c->count; i++) {
		const struct carry_place *place = &c->places[i];

		if (place->access < found->access && place->len > nearest_len &&
		    is_below_in_any_case(path, len, place->path, place->len))
			found = place;
	}
	return found;
}

enum access carry_access(const struct carry *c, const char *path)
{
	const struct carry_place *place = carry_place_of(c, path);

	return place ? place->access : ACCESS_NONE;
}

enum access carry_floor(const struct carry *c, const char *path)
{
	enum access floor = carry_access(c, path);
	size_t len = strlen(path);

	for (size_t i = 0; i < c->count; i++)
		if (is_below_in_any_case(c->places[i].path, c->places[i].len, path, len))
			floor = MIN(floor, c->places[i].access);
	return floor;
}

bool carry_leads_to_guard(const struct carry *c, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < c->guarded_count; i++)
		if (is_below_in_any_case(c->guarded[i], strlen(c->guarded[i]), path, len))
			return true;
	return false;
}

/* Keeps of the places those that count, and says which are guarded. */
static void sift(struct carry *c)
{
	struct carry kept = { .places = c->places };

	for (size_t i = 0; i < c->count; i++) {
		struct carry_place place = c->places[i];
		const struct carry_place *around = nearest(&kept, place.path);

		place.is_guarded = around && place.access < around->access;
		if (!place.exists && !place.is_guarded)
			continue;
		kept.places[kept.count++] = place;
		if (place.is_guarded)
			c->guarded[c->guarded_count++] = place.path;
	}
	c->count = kept.count;
}

/* A folder that the sandbox may replace in the one around it is then no better than that: a grant
 * is for the folder that was there. */
static enum access sure_grant(const struct carry *c, size_t i)
{
	const struct carry before = { .places = c->places, .count = i };
	const struct carry_place *place = &c->places[i], *around = nearest(&before, place->path);

	return around && around->access == ACCESS_WRITE && place->access == ACCESS_WRITE
		       ? MIN(place->grant, around->sure)
		       : place->grant;
}

bool carry_plan(struct carry *c)
{
	c->guarded_count = 0;
	c->reads = c->changes = false;
	for (size_t i = 0; i < c->count; i++)
		c->places[i].len = strlen(c->places[i].path);
	sift(c);
	for (size_t i = 0; i < c->count; i++) {
		struct carry_place *place = &c->places[i];

		place->grant = carry_floor(c, place->path);
		place->sure = sure_grant(c, i);
		c->changes |= place->access == ACCESS_WRITE && place->grant < ACCESS_WRITE;
		c->reads |= place->access >= ACCESS_READ && place->grant < ACCESS_READ;
	}
	return c->reads || c->changes;
}
