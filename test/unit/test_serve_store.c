/* Rows that come back as they went in, keys, templates, answers, and what names may be. */
#include "store_case.h"

#include "base/fd.h"

static void nobody_else_reads_the_file(void **state)
{
	static const char *const names[] = { "state.db", "state.db-wal", "state.db-shm" };
	mode_t mask = umask(0);
	struct store *store = store_opened();
	struct stat st;

	(void)state;
	store_tenant(store, "acme");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(stat(store_file(names[i]), &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	assert_int_equal(stat(store_file("."), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	store_close(store);
	/* What somebody opened to others is closed again. */
	assert_int_equal(chmod(store_file("state.db"), 0644), 0);
	store_close(store_opened());
	assert_int_equal(stat(store_file("state.db"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	umask(mask);
}

static void an_existing_one_is_not_made(void **state)
{
	struct store *store = NULL;
	struct err err = ERR_NONE;
	struct stat st;
	char path[128];

	(void)state;
	assert_int_equal(store_open_existing(&store, &err), -ENOENT);
	snprintf(path, sizeof(path), "%s/brig", store_home);
	assert_int_equal(stat(path, &st), -1);
	store_close(store_opened());
	assert_int_equal(store_open_existing(&store, &err), 0);
	store_close(store);
}

static void a_tenant_is_made_and_changed(void **state)
{
	struct tenant tenant = { .name = "acme",
				 .max_sandboxes = 50,
				 .max_memory = 8 * GIB,
				 .max_disk = UINT64_MAX,
				 .max_cpu = 2.5,
				 .create_rate = 0.25,
				 .policy = "/etc/brig/acme.yaml",
				 .floor = "container" };
	struct store *store = store_opened();
	struct tenant found, *all = NULL;
	struct err err = ERR_NONE;
	size_t count = 0;
	int64_t number;

	(void)state;
	assert_int_equal(store_get_tenant(store, "acme", &found), -ENOENT);
	assert_int_equal(store_put_tenant(store, &tenant, &err), 0);
	assert_int_equal(store_get_tenant(store, "acme", &found), 0);
	assert_string_equal(found.name, "acme");
	assert_int_equal(found.max_sandboxes, 50);
	assert_int_equal(found.max_memory, 8 * GIB);
	assert_int_equal(found.max_disk, INT64_MAX);
	assert_true(found.max_cpu == 2.5 && found.create_rate == 0.25);
	assert_string_equal(found.policy, "/etc/brig/acme.yaml");
	assert_string_equal(found.floor, "container");
	assert_true(found.created > 1700000000000 && found.number > 0);
	number = found.number;

	store_tenant(store, "other");
	tenant.max_sandboxes = 60;
	assert_int_equal(store_put_tenant(store, &tenant, &err), 0);
	assert_int_equal(store_get_tenant(store, "acme", &found), 0);
	assert_int_equal(found.max_sandboxes, 60);
	assert_int_equal(found.number, number);
	assert_int_equal(store_list_tenants(store, &all, &count), 0);
	assert_int_equal(count, 2);
	assert_string_equal(all[0].name, "acme");
	assert_string_equal(all[1].name, "other");
	assert_true(all[1].number > number);
	free(all);
	store_close(store);
}

static void hostile_names_are_no_tenants(void **state)
{
	static const char *const bad[] = { "",     ".",   "..",
					   ".a",   "-a",  "_a",
					   "a/b",  "a b", "a\n",
					   "a'--", "ä",   "a\x1b[1m",
					   "a*",   "a:b", "a\"; DROP TABLE keys; --",
					   "a%s%n" };
	static const char *const good[] = { "a", "Acme-1.eu_west", "0" };
	struct store *store = store_opened();
	struct err err = ERR_NONE;
	struct tenant tenant;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		tenant = (struct tenant){ 0 };
		snprintf(tenant.name, sizeof(tenant.name), "%s", bad[i]);
		assert_int_equal(store_put_tenant(store, &tenant, &err), -EINVAL);
		assert_null(strpbrk(err.text, "\n\x1b"));
		assert_int_equal(store_get_tenant(store, bad[i], &tenant), -ENOENT);
	}
	memset(tenant.name, 'a', TENANT_NAME_MAX);
	tenant.name[TENANT_NAME_MAX] = '\0';
	assert_true(tenant_name_is_valid(tenant.name));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		store_tenant(store, good[i]);
	tenant.max_cpu = -1;
	assert_int_equal(store_put_tenant(store, &tenant, &err), -EINVAL);
	tenant.max_cpu = 0.0 / 0.0;
	assert_int_equal(store_put_tenant(store, &tenant, &err), -EINVAL);
	store_close(store);
}

/* --- keys --- */

static bool file_has(const char *name, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF(16 * MIB);
	_cleanup_close_ int fd = open(store_file(name), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_read_all(fd, &b), 0);
	return memmem(b.data, b.len, text, strlen(text)) != NULL;
}

static void a_key_is_kept_as_its_digest_only(void **state)
{
	struct store *store = store_opened();
	char text[KEY_TEXT_SIZE], digest[SHA256_HEX_SIZE];
	struct err err = ERR_NONE;
	struct key key;

	(void)state;
	store_tenant(store, "acme");
	assert_int_equal(store_make_key(store, "nobody", KEY_USER, &key, text, &err), -ENOENT);
	assert_int_equal(store_make_key(store, "acme", KEY_USER, &key, text, &err), 0);
	assert_int_equal(strlen(text), KEY_TEXT_SIZE - 1);
	assert_int_equal(strncmp(text, "e2b_", 4), 0);
	assert_int_equal(strspn(text + 4, "0123456789abcdef"), 40);
	assert_int_equal(strlen(key.id), KEY_ID_SIZE - 1);
	assert_true(str_starts(text, key.shown) && strlen(key.shown) < 16);
	sha256_hex(text, strlen(text), digest);
	/* The file, with the log that is not yet in it. */
	assert_true(file_has("state.db-wal", digest));
	assert_false(file_has("state.db-wal", text));
	assert_false(file_has("state.db-wal", text + strlen(key.shown)));
	store_close(store);
	assert_true(file_has("state.db", digest));
	assert_false(file_has("state.db", text + strlen(key.shown)));
}

static int check(struct store *store, const char *text, struct key *ret_key,
		 const struct tenant **ret_tenant)
{
	return store_check_key(store, text, strlen(text), ret_key, ret_tenant);
}

static void a_key_is_good_until_it_is_revoked(void **state)
{
	struct store *store = store_opened();
	char first[KEY_TEXT_SIZE], second[KEY_TEXT_SIZE], wrong[KEY_TEXT_SIZE + 1];
	const struct tenant *tenant = NULL;
	struct err err = ERR_NONE;
	struct key key, made, gone;

	(void)state;
	assert_int_equal(check(store, "e2b_0000000000000000000000000000000000000000", &key,
			       &tenant),
			 -EACCES);
	store_tenant(store, "acme");
	assert_int_equal(store_make_key(store, "acme", KEY_ADMIN, &made, first, &err), 0);
	assert_int_equal(store_make_key(store, "acme", KEY_REVIEWER, &key, second, &err), 0);
	assert_int_equal(check(store, first, &key, &tenant), 0);
	assert_string_equal(key.id, made.id);
	assert_int_equal(key.kind, KEY_ADMIN);
	assert_string_equal(tenant->name, "acme");
	assert_int_equal(check(store, second, &key, &tenant), 0);
	assert_int_equal(key.kind, KEY_REVIEWER);

	for (size_t i = 0; i < KEY_TEXT_SIZE - 1; i++) {
		memcpy(wrong, first, sizeof(first));
		wrong[i] = wrong[i] == '0' ? '1' : '0';
		assert_int_equal(check(store, wrong, &key, &tenant), -EACCES);
		assert_int_equal(store_check_key(store, first, i, &key, &tenant), -EACCES);
	}
	snprintf(wrong, sizeof(wrong), "%s0", first);
	assert_int_equal(check(store, wrong, &key, &tenant), -EACCES);
	assert_int_equal(store_check_key(store, "\0\0\0", 3, &key, &tenant), -EACCES);

	assert_int_equal(store_revoke_key(store, made.id, &gone, &err), 0);
	assert_true(gone.revoked > 0);
	assert_int_equal(check(store, first, &key, &tenant), -EACCES);
	assert_int_equal(check(store, second, &key, &tenant), 0);
	/* Again: as it was. */
	assert_int_equal(store_revoke_key(store, made.id, &key, &err), 0);
	assert_int_equal(key.revoked, gone.revoked);
	store_close(store);
}

static void a_key_is_named_by_what_is_enough(void **state)
{
	struct store *store = store_opened();
	char texts[40][KEY_TEXT_SIZE], word[KEY_TEXT_SIZE];
	struct err err = ERR_NONE;
	struct key keys[40], found;

	(void)state;
	store_tenant(store, "acme");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_int_equal(store_make_key(store, "acme", KEY_USER, &keys[i], texts[i], &err),
				 0);
	/* Of 40 ids two begin alike, with 32 letters to begin with. */
	for (size_t i = 0;; i++) {
		int r;

		assert_true(i < ARRAY_SIZE(keys));
		snprintf(word, sizeof(word), "%.1s", keys[i].id);
		r = store_revoke_key(store, word, &found, &err);
		if (r == -ENOTUNIQ)
			break;
		assert_int_equal(r, 0);
	}
	assert_non_null(strstr(err.text, "write more"));
	for (size_t i = 0; i < 4; i++) {
		snprintf(word, sizeof(word), i % 2 ? "%.11s" : "%s", keys[i].id);
		assert_int_equal(store_revoke_key(store, word, &found, &err), 0);
		assert_string_equal(found.id, keys[i].id);
	}
	assert_int_equal(store_revoke_key(store, texts[5], &found, &err), 0);
	assert_string_equal(found.id, keys[5].id);
	assert_int_equal(store_revoke_key(store, keys[6].shown, &found, &err), 0);
	assert_string_equal(found.id, keys[6].id);
	static const char *const bad[] = {
		"", "%", "e2b_", "' OR 1=1 --", "zzzzzzzzzzzzzzzzzzzz", "\x1b[31m"
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(store_revoke_key(store, bad[i], &found, &err), -ENOENT);
		assert_null(strchr(err.text, '\x1b'));
	}
	store_close(store);
}

static void the_last_use_is_noted_to_the_minute(void **state)
{
	struct store *store = store_opened();
	char text[KEY_TEXT_SIZE];
	const struct tenant *tenant;
	struct err err = ERR_NONE;
	struct key key, *all = NULL;
	size_t count = 0;

	(void)state;
	store_tenant(store, "acme");
	assert_int_equal(store_make_key(store, "acme", KEY_USER, &key, text, &err), 0);
	assert_int_equal(store_list_keys(store, &all, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(all[0].used, 0);
	free(all);
	assert_int_equal(check(store, text, &key, &tenant), 0);
	assert_int_equal(store_list_keys(store, &all, &count), 0);
	assert_true(all[0].used > 1700000000000);
	assert_int_equal(all[0].used % 60000, 0);
	free(all);
	store_close(store);
}

static void many_keys_are_all_found(void **state)
{
	enum { MANY = 300 };
	struct store *store = store_opened();
	char(*texts)[KEY_TEXT_SIZE] = calloc(MANY, sizeof(*texts)), name[16];
	const struct tenant *tenant;
	struct err err = ERR_NONE;
	struct key key;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "t%zu", i % 7);
		store_tenant(store, name);
		assert_int_equal(store_make_key(store, name, KEY_USER, &key, texts[i], &err), 0);
		if (i % 3 == 0)
			assert_int_equal(store_revoke_key(store, key.id, &key, &err), 0);
	}
	for (size_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "t%zu", i % 7);
		assert_int_equal(check(store, texts[i], &key, &tenant), i % 3 ? 0 : -EACCES);
		if (i % 3)
			assert_string_equal(tenant->name, name);
	}
	free(texts);
	store_close(store);
}

/* --- sandboxes --- */

static void assert_same_held(const struct held *a, const struct held *b)
{
	assert_string_equal(a->id, b->id);
	assert_string_equal(a->tenant, b->tenant);
	assert_int_equal(a->state, b->state);
	assert_string_equal(a->template_id, b->template_id);
	assert_string_equal(a->alias, b->alias);
	assert_string_equal(a->metadata, b->metadata);
	assert_string_equal(a->env, b->env);
	assert_string_equal(a->network, b->network);
	assert_string_equal(a->extra, b->extra);
	assert_string_equal(a->token, b->token);
	assert_string_equal(a->traffic_token, b->traffic_token);
	assert_int_equal(a->started, b->started);
	assert_int_equal(a->ends, b->ends);
	assert_int_equal(a->pauses, b->pauses);
	assert_int_equal(a->resumes, b->resumes);
	assert_true(a->cpu == b->cpu);
	assert_int_equal(a->memory, b->memory);
	assert_int_equal(a->disk, b->disk);
}

static void a_sandbox_comes_back_as_it_was(void **state)
{
	struct store *store = store_opened();
	struct held one = store_held_of("abc", "it's \"quoted\" %s ä"), copy, *all = NULL;
	struct err err = ERR_NONE;
	size_t count = 0;

	(void)state;
	assert_int_equal(store_put_held(store, &one, &err), 0);
	assert_int_equal(held_copy(&one, &copy), 0);
	assert_same_held(&copy, &one);
	assert_ptr_not_equal(copy.env, one.env);
	store_close(store);

	store = store_opened();
	assert_int_equal(store_list_held(store, &all, &count), 0);
	assert_int_equal(count, 1);
	assert_same_held(&all[0], &one);
	store_free_held(all, count);

	/* As a whole, in place. */
	copy.state = HELD_RUNNING;
	copy.pauses = false;
	copy.resumes = true;
	copy.ends = 0;
	free(copy.extra);
	copy.extra = NULL;
	assert_int_equal(store_put_held(store, &copy, &err), 0);
	copy.extra = strdup("");
	assert_int_equal(store_list_held(store, &all, &count), 0);
	assert_int_equal(count, 1);
	assert_same_held(&all[0], &copy);
	store_free_held(all, count);

	assert_int_equal(store_delete_held(store, "abc"), 0);
	assert_int_equal(store_delete_held(store, "abc"), 0);
	assert_int_equal(store_list_held(store, &all, &count), 0);
	assert_int_equal(count, 0);
	free(all);
	held_done(&copy);
	held_done(&one);
	store_close(store);
}

/* --- templates --- */

static char *text_of(const char *text)
{
	return strdup(text);
}

static void put_template(struct store *store, const char *id, const char *tenant, const char *name,
			 const char *tags, uint64_t updated)
{
	struct template t = { .kind = TEMPLATE_SNAPSHOT,
			      .name = text_of(name),
			      .tags = text_of(tags),
			      .image = text_of("image"),
			      .env = text_of("{}"),
			      .workdir = text_of("/w"),
			      .user = text_of("user"),
			      .start = text_of("start"),
			      .ready = text_of("ready"),
			      .source = text_of("source"),
			      .cpu = 2,
			      .memory = 1 * GIB,
			      .disk = 2 * GIB,
			      .created = updated,
			      .updated = updated };
	struct err err = ERR_NONE;

	snprintf(t.id, sizeof(t.id), "%s", id);
	snprintf(t.tenant, sizeof(t.tenant), "%s", tenant);
	assert_int_equal(store_put_template(store, &t, &err), 0);
	template_done(&t);
}

/* The id of what a tenant gets for a word; "": nothing. */
static const char *found_as(struct store *store, const char *tenant, const char *word)
{
	static char id[33];
	struct template t;
	int r = store_get_template(store, tenant, word, &t);

	if (r == -ENOENT)
		return "";
	assert_int_equal(r, 0);
	memcpy(id, t.id, sizeof(id));
	template_done(&t);
	return id;
}

static void templates_are_found_by_what_clients_say(void **state)
{
	static const struct {
		const char *tenant, *word, *id;
	} cases[] = {
		{ "acme", "t1", "t1" },
		{ "acme", "base", "t1" },
		{ "acme", "base:default", "t1" },
		{ "acme", "t1:default", "t1" },
		{ "acme", "t1:nosuch", "" },
		{ "acme", "web", "t3" }, /* the one with "default", though another is newer */
		{ "acme", "web:v2", "t4" },
		{ "acme", "web:", "" },
		{ "acme", "odd", "t6" }, /* without tags: "default" */
		{ "acme", "odd:default", "t6" },
		{ "acme", "bad", "t7" },
		{ "acme", "", "" },
		{ "acme", ":", "" },
		{ "acme", ":default", "" },
		{ "acme", "t5", "" }, /* of another tenant */
		{ "acme", "web:other", "" },
		{ "beta", "base", "t8" }, /* its own goes before everybody's */
		{ "beta", "t1", "t1" },
		{ "beta", "web", "t5" },
		{ "beta", "b%", "" },
		{ "beta", "' OR '1'='1", "" },
		{ "gamma", "web", "" },
		{ "acme", "a:b", "t9" }, /* a name with a colon, whole */
	};
	struct store *store = store_opened();

	(void)state;
	put_template(store, "t1", "", "base", "[\"default\"]", 1);
	put_template(store, "t2", "acme", "", "[]", 2);
	put_template(store, "t3", "acme", "web", "[\"default\",\"v1\"]", 3);
	put_template(store, "t4", "acme", "web", "[\"v2\"]", 4);
	put_template(store, "t5", "beta", "web", "[\"default\",\"other\"]", 5);
	put_template(store, "t6", "acme", "odd", "[]", 6);
	put_template(store, "t7", "acme", "bad", "{not json", 7);
	put_template(store, "t8", "beta", "base", "[\"default\"]", 8);
	put_template(store, "t9", "acme", "a:b", "[\"default\"]", 9);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *id = found_as(store, cases[i].tenant, cases[i].word);

		if (!str_equal(id, cases[i].id))
			fail_msg("%s of %s: \"%s\", not \"%s\"", cases[i].word, cases[i].tenant, id,
				 cases[i].id);
	}
	store_close(store);
}

static void templates_come_back_and_go(void **state)
{
	struct store *store = store_opened();
	struct template *all = NULL;
	size_t count = 0;

	(void)state;
	put_template(store, "t1", "", "base", "[]", 1);
	put_template(store, "t2", "acme", "web", "[\"default\"]", 2);
	put_template(store, "t3", "beta", "web", "[\"default\"]", 3);
	assert_int_equal(store_list_templates(store, "acme", &all, &count), 0);
	assert_int_equal(count, 2);
	assert_string_equal(all[0].id, "t2");
	assert_string_equal(all[1].id, "t1");
	assert_string_equal(all[0].name, "web");
	assert_string_equal(all[0].tags, "[\"default\"]");
	assert_string_equal(all[0].image, "image");
	assert_string_equal(all[0].env, "{}");
	assert_string_equal(all[0].workdir, "/w");
	assert_string_equal(all[0].user, "user");
	assert_string_equal(all[0].start, "start");
	assert_string_equal(all[0].ready, "ready");
	assert_string_equal(all[0].source, "source");
	assert_int_equal(all[0].kind, TEMPLATE_SNAPSHOT);
	assert_true(all[0].cpu == 2 && all[0].memory == 1 * GIB && all[0].disk == 2 * GIB);
	assert_true(all[0].created == 2 && all[0].updated == 2);
	for (size_t i = 0; i < count; i++)
		template_done(&all[i]);
	free(all);
	assert_int_equal(store_list_templates(store, NULL, &all, &count), 0);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < count; i++)
		template_done(&all[i]);
	free(all);
	assert_int_equal(store_delete_template(store, "t2"), 0);
	assert_int_equal(store_delete_template(store, "t2"), -ENOENT);
	assert_string_equal(found_as(store, "acme", "web"), "");
	store_close(store);
}

/* --- answers --- */

static void a_repeated_request_is_told_the_same(void **state)
{
	struct store *store = store_opened();
	unsigned int status = 0;
	char *body = NULL;

	(void)state;
	assert_int_equal(store_claim_answer(store, "acme", "k", "h1", &status, &body), 0);
	assert_int_equal(store_claim_answer(store, "acme", "k", "h1", &status, &body), -EBUSY);
	assert_int_equal(store_claim_answer(store, "acme", "k", "h2", &status, &body), -EEXIST);
	/* Another tenant's is another. */
	assert_int_equal(store_claim_answer(store, "beta", "k", "h1", &status, &body), 0);
	store_drop_answer(store, "beta", "k");
	assert_int_equal(store_claim_answer(store, "beta", "k", "h2", &status, &body), 0);
	assert_int_equal(store_keep_answer(store, "acme", "k", 201, "{\"a\":1}"), 0);
	assert_int_equal(store_keep_answer(store, "acme", "k", 201, "{\"a\":2}"), -ENOENT);
	store_close(store);

	store = store_opened();
	assert_int_equal(store_claim_answer(store, "acme", "k", "h1", &status, &body), 1);
	assert_int_equal(status, 201);
	assert_string_equal(body, "{\"a\":1}");
	free(body);
	body = NULL;
	assert_int_equal(store_claim_answer(store, "acme", "k", "h2", &status, &body), -EEXIST);
	/* The claim went with the process. */
	assert_int_equal(store_claim_answer(store, "beta", "k", "h3", &status, &body), 0);
	assert_null(body);
	store_close(store);
}

static void a_tenant_keeps_a_bounded_number_of_answers(void **state)
{
	_cleanup_free_ char *large = calloc(1, 1 * MIB + 1);
	struct store *store = store_opened();
	char key[16], *body = NULL;
	unsigned int status;
	size_t there = 0;

	(void)state;
	memset(large, 'x', 1 * MIB);
	for (int i = 0; i < 64; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(store_claim_answer(store, "acme", key, "h", &status, &body), 0);
		assert_int_equal(store_keep_answer(store, "acme", key, 200, large), 0);
	}
	for (int i = 0; i < 64; i++) {
		int r;

		snprintf(key, sizeof(key), "k%d", i);
		r = store_claim_answer(store, "acme", key, "h", &status, &body);
		assert_true(r == 0 || r == 1);
		there += (size_t)r;
		/* Only the oldest are gone. */
		assert_true(r == 1 || there == 0);
		if (r == 1)
			free(body);
	}
	assert_true(there >= 32 && there <= 48);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_case(nobody_else_reads_the_file),
		store_case(an_existing_one_is_not_made),
		store_case(a_tenant_is_made_and_changed),
		store_case(hostile_names_are_no_tenants),
		store_case(a_key_is_kept_as_its_digest_only),
		store_case(a_key_is_good_until_it_is_revoked),
		store_case(a_key_is_named_by_what_is_enough),
		store_case(the_last_use_is_noted_to_the_minute),
		store_case(many_keys_are_all_found),
		store_case(a_sandbox_comes_back_as_it_was),
		store_case(templates_are_found_by_what_clients_say),
		store_case(templates_come_back_and_go),
		store_case(a_repeated_request_is_told_the_same),
		store_case(a_tenant_keeps_a_bounded_number_of_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
