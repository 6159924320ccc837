#include "unit.h"

#include "jail/carry.h"
#include "policy/policy.h"

#define MAX_PLACES 8

/* Places in their order: access, path, and what Landlock grants there in the end; -1: dropped. */
struct plan_case {
	struct {
		enum access access;
		const char *path;
		bool is_absent;
		int grant;
		bool is_guarded;
	} places[MAX_PLACES];
	bool reads, changes;
};

static const struct carry_place *exact(const struct carry *c, const char *path)
{
	for (size_t i = 0; i < c->count; i++)
		if (str_equal(c->places[i].path, path))
			return &c->places[i];
	return NULL;
}

static void check(const struct plan_case *pc)
{
	struct carry_place places[MAX_PLACES];
	const char *guarded[MAX_PLACES];
	struct carry c = { .places = places, .guarded = guarded };
	size_t guards = 0;

	for (; c.count < MAX_PLACES && pc->places[c.count].path; c.count++)
		places[c.count] = (struct carry_place){ .path = pc->places[c.count].path,
							.access = pc->places[c.count].access,
							.exists = !pc->places[c.count].is_absent };
	assert_int_equal(carry_plan(&c), pc->reads || pc->changes);
	assert_int_equal(c.reads, pc->reads);
	assert_int_equal(c.changes, pc->changes);
	for (size_t i = 0; i < MAX_PLACES && pc->places[i].path; i++) {
		const struct carry_place *place = exact(&c, pc->places[i].path);

		if (pc->places[i].grant < 0) {
			assert_null(place);
			continue;
		}
		assert_non_null(place);
		assert_int_equal(place->grant, pc->places[i].grant);
		assert_int_equal(place->is_guarded, pc->places[i].is_guarded);
		guards += place->is_guarded;
	}
	assert_int_equal(c.guarded_count, guards);
}

static void what_landlock_grants(void **state)
{
	static const struct plan_case cases[] = {
		{ { { ACCESS_WRITE, "/w", false, ACCESS_WRITE, false },
		    { ACCESS_WRITE, "/w/a", false, ACCESS_WRITE, false } },
		  false,
		  false },
		{ { { ACCESS_READ, "/w", false, ACCESS_READ, false },
		    { ACCESS_WRITE, "/w/a", false, ACCESS_WRITE, false } },
		  false,
		  false },
		{ { { ACCESS_WRITE, "/w", false, ACCESS_READ, false },
		    { ACCESS_READ, "/w/a", false, ACCESS_READ, true } },
		  false,
		  true },
		{ { { ACCESS_WRITE, "/w", false, ACCESS_NONE, false },
		    { ACCESS_NONE, "/w/a", false, ACCESS_NONE, true },
		    { ACCESS_WRITE, "/w/a/b", false, ACCESS_WRITE, false } },
		  true,
		  true },
		/* A rule between does not hide the narrowest from the widest. */
		{ { { ACCESS_WRITE, "/w", false, ACCESS_NONE, false },
		    { ACCESS_READ, "/w/a", false, ACCESS_NONE, true },
		    { ACCESS_NONE, "/w/a/b", false, ACCESS_NONE, true } },
		  true,
		  true },
		{ { { ACCESS_READ, "/", false, ACCESS_NONE, false },
		    { ACCESS_NONE, "/home/u/.ssh", true, ACCESS_NONE, true } },
		  true,
		  false },
		/* What does not exist matters only where it takes away. */
		{ { { ACCESS_READ, "/w", false, ACCESS_READ, false },
		    { ACCESS_WRITE, "/w/a", true, -1, false },
		    { ACCESS_READ, "/w/a/b", true, -1, false },
		    { ACCESS_NONE, "/z", true, -1, false } },
		  false,
		  false },
		/* A name that begins like another is not inside it. */
		{ { { ACCESS_WRITE, "/w", false, ACCESS_WRITE, false },
		    { ACCESS_NONE, "/wx", false, ACCESS_NONE, false } },
		  false,
		  false },
		/* Letters count for a grant as little as they may for the file system. */
		{ { { ACCESS_WRITE, "/W/a", false, ACCESS_NONE, false },
		    { ACCESS_WRITE, "/w", false, ACCESS_NONE, false },
		    { ACCESS_NONE, "/w/a/b", false, ACCESS_NONE, true } },
		  true,
		  true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(&cases[i]);
}

/* "out: write" inside ".: write": granted by itself, but only the folder that is there now. */
static void a_grant_is_for_what_was_there(void **state)
{
	struct carry_place places[] = {
		{ .path = "/w", .access = ACCESS_WRITE, .exists = true },
		{ .path = "/w/no", .access = ACCESS_NONE, .exists = true },
		{ .path = "/w/no/in", .access = ACCESS_WRITE, .exists = true },
		{ .path = "/w/out", .access = ACCESS_WRITE, .exists = true },
		{ .path = "/w/ro", .access = ACCESS_READ, .exists = true },
		{ .path = "/z", .access = ACCESS_WRITE, .exists = true },
	};
	static const enum access sure[] = { ACCESS_NONE, ACCESS_NONE, ACCESS_WRITE,
					    ACCESS_NONE, ACCESS_READ, ACCESS_WRITE };
	const char *guarded[ARRAY_SIZE(places)];
	struct carry c = { .places = places, .count = ARRAY_SIZE(places), .guarded = guarded };

	(void)state;
	assert_true(carry_plan(&c));
	assert_int_equal(c.places[3].grant, ACCESS_WRITE);
	for (size_t i = 0; i < ARRAY_SIZE(sure); i++)
		assert_int_equal(c.places[i].sure, sure[i]);
}

static void the_nearest_decides(void **state)
{
	struct carry_place places[] = {
		{ .path = "/w", .access = ACCESS_WRITE, .exists = true },
		{ .path = "/w/a", .access = ACCESS_NONE, .exists = true },
		{ .path = "/w/a/b", .access = ACCESS_WRITE, .exists = true },
		{ .path = "/w/a/b/c", .access = ACCESS_READ, .exists = true },
	};
	const char *guarded[ARRAY_SIZE(places)];
	struct carry c = { .places = places, .count = ARRAY_SIZE(places), .guarded = guarded };
	static const struct {
		const char *path;
		enum access access, floor;
		bool leads;
	} asked[] = {
		{ "/", ACCESS_NONE, ACCESS_NONE, true },
		{ "/w", ACCESS_WRITE, ACCESS_NONE, true },
		{ "/w/x", ACCESS_WRITE, ACCESS_WRITE, false },
		{ "/w/ab", ACCESS_WRITE, ACCESS_WRITE, false },
		{ "/w/a", ACCESS_NONE, ACCESS_NONE, true },
		{ "/w/A", ACCESS_NONE, ACCESS_NONE, true },
		{ "/w/A/x", ACCESS_NONE, ACCESS_NONE, false },
		{ "/w/a/b", ACCESS_WRITE, ACCESS_READ, true },
		{ "/w/a/b/C", ACCESS_READ, ACCESS_READ, true },
		{ "/w/a/b/d", ACCESS_WRITE, ACCESS_WRITE, false },
		{ "/elsewhere", ACCESS_NONE, ACCESS_NONE, false },
	};

	(void)state;
	assert_true(carry_plan(&c));
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		assert_int_equal(carry_access(&c, asked[i].path), asked[i].access);
		assert_int_equal(carry_floor(&c, asked[i].path), asked[i].floor);
		assert_int_equal(carry_leads_to_guard(&c, asked[i].path), asked[i].leads);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_landlock_grants),
		cmocka_unit_test(a_grant_is_for_what_was_there),
		cmocka_unit_test(the_nearest_decides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
