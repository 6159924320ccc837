/* store_case.h - a state directory of its own, and a store in it */
#ifndef BRIG_TEST_STORE_CASE_H
#define BRIG_TEST_STORE_CASE_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "serve/store.h"

static char store_home[64];

static inline int store_remove_one(const char *path, const struct stat *st, int type,
				   struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline int store_setup(void **state)
{
	(void)state;
	snprintf(store_home, sizeof(store_home), "/tmp/test-store-XXXXXX");
	if (!mkdtemp(store_home))
		return -1;
	return setenv("XDG_STATE_HOME", store_home, 1);
}

static inline int store_teardown(void **state)
{
	(void)state;
	return nftw(store_home, store_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#define store_case(f) cmocka_unit_test_setup_teardown(f, store_setup, store_teardown)

static inline char *store_file(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/brig/serve/%s", store_home, name);
	return path;
}

static inline struct store *store_opened(void)
{
	struct store *store = NULL;
	struct err err = ERR_NONE;
	int r = store_open(&store, &err);

	if (r < 0)
		fail_msg("store_open: %d %s", r, err.text);
	return store;
}

/* The words with which it cannot be opened. */
static inline const char *store_refusal(int code)
{
	static struct err err;
	struct store *store = NULL;

	err = ERR_NONE;
	assert_int_equal(store_open(&store, &err), code);
	assert_null(store);
	assert_int_equal(err.code, code);
	assert_null(strchr(err.text, '\n'));
	return err.text;
}

static inline void store_tenant(struct store *store, const char *name)
{
	struct tenant tenant = { 0 };
	struct err err = ERR_NONE;

	snprintf(tenant.name, sizeof(tenant.name), "%s", name);
	assert_int_equal(store_put_tenant(store, &tenant, &err), 0);
}

/* A row whose every text says which one it is; of literals, so nothing of it is freed. */
static inline struct held store_held_of(const char *id, const char *word)
{
	struct held held = { .state = HELD_PAUSED,
			     .started = 1700000000123,
			     .ends = 1700000300456,
			     .pauses = true,
			     .resumes = false,
			     .cpu = 1.5,
			     .memory = 512 * MIB,
			     .disk = 10 * GIB };
	char **texts[] = { &held.template_id, &held.alias,   &held.metadata,
			   &held.env,         &held.network, &held.extra };

	snprintf(held.id, sizeof(held.id), "%s", id);
	snprintf(held.tenant, sizeof(held.tenant), "acme");
	snprintf(held.token, sizeof(held.token), "token-%s", word);
	snprintf(held.traffic_token, sizeof(held.traffic_token), "traffic-%s", word);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (asprintf(texts[i], "{\"%zu\":\"%s\"}", i, word) < 0)
			fail();
	return held;
}

static inline void store_put_one(struct store *store, const char *id, const char *word)
{
	struct held held = store_held_of(id, word);
	struct err err = ERR_NONE;

	if (store_put_held(store, &held, &err) < 0)
		fail_msg("%s", err.text);
	held_done(&held);
}

static inline void store_free_held(struct held *held, size_t count)
{
	for (size_t i = 0; i < count; i++)
		held_done(&held[i]);
	free(held);
}

#endif
