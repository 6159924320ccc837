/* What the store has said yes to is there after kill -9; what is damaged, foreign, locked or full is said in words. */
#include "store_case.h"

#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"

static pid_t forked(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	return pid;
}

static int status_of(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void wait_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* --- the end of a writer --- */

/* Puts, changes and deletes without end; each number is said only after the store has said yes. */
static void write_without_end(int out, uint32_t first)
{
	struct store *store = store_opened();
	struct held held = store_held_of("x", "word");
	struct err err = ERR_NONE;
	char other[TRACE_ID_SIZE];

	for (uint32_t i = first;; i++) {
		snprintf(held.id, sizeof(held.id), "s%u", i);
		held.started = i;
		if (store_put_held(store, &held, &err) < 0)
			_exit(3);
		/* The one before is changed, the one before that is gone. */
		snprintf(held.id, sizeof(held.id), "s%u", i - 1);
		held.ends = i - 1;
		if (i > first && store_put_held(store, &held, &err) < 0)
			_exit(4);
		snprintf(other, sizeof(other), "s%u", i - 2);
		if (i > first + 1 && i % 2 && store_delete_held(store, other) < 0)
			_exit(5);
		if (write(out, &i, sizeof(i)) != sizeof(i))
			_exit(6);
	}
}

/* Whether a row must be there after the last number that was said, or must not; later ones may be. */
static bool must_be_there(uint32_t row, uint32_t first, uint32_t last)
{
	return row + 2 > last || (row + 2) % 2 == 0 || row < first;
}

static void check_rows(uint32_t first, uint32_t last)
{
	struct store *store = store_opened();
	bool *is_there = calloc(last + 2, sizeof(bool));
	struct held *all = NULL;
	size_t count = 0;

	assert_int_equal(store_list_held(store, &all, &count), 0);
	for (size_t i = 0; i < count; i++) {
		unsigned long row = strtoul(all[i].id + 1, NULL, 10);

		/* One more at most had begun. */
		assert_true(row <= last + 1);
		is_there[row] = true;
		assert_string_equal(all[i].extra, "{\"5\":\"word\"}");
		if (row > first && row < last)
			assert_int_equal(all[i].ends, row);
	}
	for (uint32_t row = first; row <= last; row++) {
		bool may_be_gone = row + 2 == last + 1;

		if (is_there[row] != must_be_there(row, first, last) && !may_be_gone)
			fail_msg("row %u of %u to %u", row, first, last);
	}
	for (size_t i = 0; i < count; i++)
		assert_int_equal(store_delete_held(store, all[i].id), 0);
	store_free_held(all, count);
	free(is_there);
	store_close(store);
}

static void what_was_said_is_there_after_a_kill(void **state)
{
	uint32_t number, first = 0, said = 0;

	(void)state;
	for (int round = 0; round < 25; round++) {
		uint32_t last = UINT32_MAX;
		int pipes[2];
		pid_t pid;

		assert_int_equal(pipe(pipes), 0);
		pid = forked();
		if (pid == 0)
			write_without_end(pipes[1], first);
		close(pipes[1]);
		/* From its first steps on, and so that the log is also carried over into the file. */
		wait_ms(round < 10 ? 3 * round : 20 + round * 4);
		assert_int_equal(kill(pid, SIGKILL), 0);
		while (read(pipes[0], &number, sizeof(number)) == sizeof(number))
			last = number;
		close(pipes[0]);
		assert_true(WIFSIGNALED(status_of(pid)));
		if (last == UINT32_MAX)
			last = first;
		else
			check_rows(first, last);
		said += last - first;
		first = last + 2;
	}
	assert_true(said > 200);
}

/* --- two at once --- */

static void all_who_come_first_open_it(void **state)
{
	enum { COUNT = 8 };
	pid_t pids[COUNT];
	int start[2];
	char c;

	(void)state;
	assert_int_equal(pipe(start), 0);
	for (int i = 0; i < COUNT; i++) {
		pids[i] = forked();
		if (pids[i] == 0) {
			struct tenant tenant = { .name = "acme" };
			struct store *store = NULL;
			struct err err = ERR_NONE;
			int r;

			close(start[1]);
			(void)!read(start[0], &c, 1);
			r = store_open(&store, &err);
			if (r == 0)
				r = store_put_tenant(store, &tenant, &err);
			if (r < 0)
				fprintf(stderr, "%s\n", err.text);
			store_close(store);
			_exit(r < 0);
		}
	}
	close(start[1]);
	close(start[0]);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(status_of(pids[i]), 0);
}

static void two_processes_write_beside_each_other(void **state)
{
	enum { ROWS = 300 };
	struct store *store;
	struct held *all = NULL;
	pid_t pids[2];
	size_t count = 0;

	(void)state;
	for (int p = 0; p < 2; p++) {
		pids[p] = forked();
		if (pids[p] == 0) {
			char id[TRACE_ID_SIZE];

			store = store_opened();
			for (int i = 0; i < ROWS; i++) {
				snprintf(id, sizeof(id), "%c%d", 'a' + p, i);
				store_put_one(store, id, "w");
			}
			store_close(store);
			_exit(0);
		}
	}
	for (int p = 0; p < 2; p++)
		assert_int_equal(status_of(pids[p]), 0);
	store = store_opened();
	assert_int_equal(store_list_held(store, &all, &count), 0);
	assert_int_equal(count, 2 * ROWS);
	store_free_held(all, count);
	store_close(store);
}

static void revoke_in_another_process(const char *id)
{
	pid_t pid = forked();

	if (pid == 0) {
		struct store *store = store_opened();
		struct tenant tenant = { .name = "acme", .max_sandboxes = 7 };
		struct err err = ERR_NONE;
		struct key key;

		_exit(store_revoke_key(store, id, &key, &err) < 0 ||
		      store_put_tenant(store, &tenant, &err) < 0);
	}
	assert_int_equal(status_of(pid), 0);
}

static void a_running_daemon_sees_a_revocation_at_once(void **state)
{
	char first[KEY_TEXT_SIZE], second[KEY_TEXT_SIZE];
	struct store *store = store_opened();
	const struct tenant *tenant = NULL;
	struct err err = ERR_NONE;
	struct key key, made;

	(void)state;
	store_tenant(store, "acme");
	assert_int_equal(store_make_key(store, "acme", KEY_USER, &made, first, &err), 0);
	assert_int_equal(store_make_key(store, "acme", KEY_USER, &key, second, &err), 0);
	assert_int_equal(store_check_key(store, first, strlen(first), &key, &tenant), 0);
	assert_int_equal(tenant->max_sandboxes, 0);
	revoke_in_another_process(made.id);
	assert_int_equal(store_check_key(store, first, strlen(first), &key, &tenant), -EACCES);
	assert_int_equal(store_check_key(store, second, strlen(second), &key, &tenant), 0);
	assert_int_equal(tenant->max_sandboxes, 7);
	store_close(store);
}

/* --- another hand in the file --- */

static void change_file(const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(store_file("state.db"), &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void write_file(const void *data, size_t len)
{
	_cleanup_close_ int fd =
		open(store_file("state.db"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, len), 0);
}

static void who_holds_it_locked_is_not_waited_for_long(void **state)
{
	struct tenant tenant = { .name = "acme" };
	struct store *store = store_opened();
	struct held held = store_held_of("abc", "w");
	char text[KEY_TEXT_SIZE];
	const struct tenant *owner;
	struct err err = ERR_NONE;
	sqlite3 *other = NULL;
	struct key key;
	uint64_t began;

	(void)state;
	store_tenant(store, "acme");
	assert_int_equal(store_make_key(store, "acme", KEY_USER, &key, text, &err), 0);
	assert_int_equal(sqlite3_open(store_file("state.db"), &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	began = clock_ms();
	assert_int_equal(store_put_held(store, &held, &err), -EBUSY);
	assert_non_null(strstr(err.text, "locked"));
	assert_int_equal(store_put_tenant(store, &tenant, &err), -EBUSY);
	assert_in_range(clock_ms() - began, 500, 5000);
	/* A key is good all the same, without waiting. */
	began = clock_ms();
	assert_int_equal(store_check_key(store, text, strlen(text), &key, &owner), 0);
	assert_in_range(clock_ms() - began, 0, 200);
	assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	assert_int_equal(store_put_held(store, &held, &err), 0);
	held_done(&held);
	store_close(store);
}

/* --- files of before --- */

/* Of the first version, as the first daemon made it. */
static const char first_form[] =
	"CREATE TABLE tenants ("
	" number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
	" max_sandboxes INTEGER NOT NULL, max_memory INTEGER NOT NULL, max_disk INTEGER NOT NULL,"
	" max_cpu REAL NOT NULL, create_rate REAL NOT NULL, policy TEXT NOT NULL,"
	" floor TEXT NOT NULL, created INTEGER NOT NULL) STRICT;"
	"CREATE TABLE keys ("
	" id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE,"
	" tenant INTEGER NOT NULL REFERENCES tenants (number), kind INTEGER NOT NULL,"
	" shown TEXT NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,"
	" revoked INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE held ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state INTEGER NOT NULL,"
	" template_id TEXT NOT NULL, alias TEXT NOT NULL, metadata TEXT NOT NULL,"
	" env TEXT NOT NULL, network TEXT NOT NULL, extra TEXT NOT NULL, token TEXT NOT NULL,"
	" traffic_token TEXT NOT NULL, started INTEGER NOT NULL, ends INTEGER NOT NULL,"
	" pauses INTEGER NOT NULL, resumes INTEGER NOT NULL, cpu REAL NOT NULL,"
	" memory INTEGER NOT NULL, disk INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE templates ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL,"
	" tags TEXT NOT NULL, image TEXT NOT NULL, env TEXT NOT NULL, workdir TEXT NOT NULL,"
	" user TEXT NOT NULL, start TEXT NOT NULL, ready TEXT NOT NULL, source TEXT NOT NULL,"
	" cpu REAL NOT NULL, memory INTEGER NOT NULL, disk INTEGER NOT NULL,"
	" created INTEGER NOT NULL, updated INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE INDEX templates_by_name ON templates (name, tenant);"
	"CREATE TABLE answers ("
	" number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, key TEXT NOT NULL,"
	" request TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL,"
	" size INTEGER NOT NULL, created INTEGER NOT NULL, UNIQUE (tenant, key)) STRICT;"
	"CREATE INDEX answers_by_age ON answers (created);"
	"INSERT INTO tenants VALUES (1, 'acme', 1, 2, 3, 4, 5, '', '', 6);"
	"INSERT INTO templates VALUES ('old', 'acme', 0, 'box', '[]', 'image', '', '', '', '', '',"
	" '', 1, 2, 3, 4, 5);"
	"PRAGMA application_id=0x62726967; PRAGMA user_version=1";

/* Of the template "box", and all of the tenant's. */
static void expect_bytes(struct store *store, uint64_t of_box, uint64_t of_all)
{
	struct template t;
	uint64_t sum = 0;

	assert_int_equal(store_get_template(store, "acme", "box", &t), 0);
	assert_int_equal(t.bytes, of_box);
	assert_int_equal(t.created, 4);
	template_done(&t);
	assert_int_equal(store_template_bytes(store, "acme", &sum), 0);
	assert_int_equal(sum, of_all);
}

static void an_older_file_is_brought_forward(void **state)
{
	struct template t = { .id = "new", .tenant = "acme", .bytes = 7 };
	struct err err = ERR_NONE;
	struct store *store;

	(void)state;
	store_close(store_opened());
	assert_int_equal(unlink(store_file("state.db")), 0);
	change_file(first_form);
	assert_int_equal(chmod(store_file("state.db"), 0600), 0);
	store = store_opened();
	expect_bytes(store, 0, 0);
	assert_int_equal(store_put_template(store, &t, &err), 0);
	expect_bytes(store, 0, 7);
	store_close(store);

	/* One that is further than it says. */
	change_file("UPDATE templates SET bytes = 5 WHERE id = 'old'; PRAGMA user_version=1");
	store = store_opened();
	expect_bytes(store, 5, 12);
	store_close(store);
	change_file("PRAGMA user_version=3");
	assert_non_null(strstr(store_refusal(-EPROTONOSUPPORT), "newer brig"));
}

static void what_is_not_ours_is_left_alone(void **state)
{
	struct store *store = NULL;
	struct err err = ERR_NONE;
	struct stat st;
	char target[128];

	(void)state;
	store_close(store_opened());
	change_file("PRAGMA user_version=1000");
	assert_non_null(strstr(store_refusal(-EPROTONOSUPPORT), "newer brig"));
	change_file("PRAGMA user_version=-1");
	(void)store_refusal(-EPROTONOSUPPORT);

	assert_int_equal(unlink(store_file("state.db")), 0);
	change_file("CREATE TABLE songs (name)");
	assert_int_equal(chmod(store_file("state.db"), 0600), 0);
	assert_non_null(strstr(store_refusal(-EBADMSG), "another program"));
	change_file("SELECT name FROM songs");

	assert_int_equal(unlink(store_file("state.db")), 0);
	write_file("this is a letter to a friend, not a database, and a long one", 60);
	assert_non_null(strstr(store_refusal(-EBADMSG), "no database"));

	assert_int_equal(unlink(store_file("state.db")), 0);
	assert_int_equal(mkfifo(store_file("state.db"), 0600), 0);
	assert_non_null(strstr(store_refusal(-EBADMSG), "no plain file"));

	assert_int_equal(unlink(store_file("state.db")), 0);
	snprintf(target, sizeof(target), "%s/elsewhere", store_home);
	assert_int_equal(symlink(target, store_file("state.db")), 0);
	assert_true(store_open(&store, &err) < 0);
	assert_int_equal(stat(target, &st), -1);

	assert_int_equal(unlink(store_file("state.db")), 0);
	assert_int_equal(chmod(store_file("."), 0777), 0);
	assert_non_null(strstr(store_refusal(-EPERM), "chmod 700"));
	assert_int_equal(chmod(store_file("."), 0700), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(store_file("."), 12345, 12345), 0);
		(void)store_refusal(-EPERM);
		assert_int_equal(chown(store_file("."), 0, 0), 0);
	}
}

static void what_the_file_would_run_is_not_run(void **state)
{
	struct store *store = store_opened();
	struct held *all = NULL;
	size_t count = 0;

	(void)state;
	store_tenant(store, "acme");
	store_close(store);
	change_file("CREATE TRIGGER bad AFTER INSERT ON held BEGIN DELETE FROM held; END");
	store = store_opened();
	store_put_one(store, "abc", "w");
	assert_int_equal(store_list_held(store, &all, &count), 0);
	assert_int_equal(count, 1);
	store_free_held(all, count);
	store_close(store);
	/* A table that is missing, or a view in its place. */
	change_file("DROP TRIGGER bad; DROP TABLE held");
	store = store_opened();
	assert_int_equal(store_list_held(store, &all, &count), -EBADMSG);
	store_close(store);
	change_file("CREATE VIEW held AS SELECT name AS id, name AS tenant FROM tenants");
	store = store_opened();
	assert_int_equal(store_list_held(store, &all, &count), -EBADMSG);
	store_close(store);
}

static void values_that_cannot_be_are_damage(void **state)
{
	static const char *const changes[] = {
		"UPDATE held SET state=7",
		"UPDATE held SET state=-1",
		"UPDATE held SET memory=-1",
		"UPDATE held SET id='an id that is much longer than any' WHERE id='abc'",
		"UPDATE held SET tenant=printf('%.*c', 200, 'a')",
		"UPDATE held SET token=printf('%.*c', 100000, 'a')",
		"UPDATE held SET tenant='a' || char(0) || 'b'",
	};
	struct held *all = NULL;
	size_t count = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct store *store = store_opened();

		store_put_one(store, "good", "w");
		store_put_one(store, "abc", "w");
		store_close(store);
		change_file(changes[i]);
		store = store_opened();
		assert_int_equal(store_list_held(store, &all, &count), -EBADMSG);
		store_close(store);
		change_file("DELETE FROM held");
	}
}

/* Everything that reads, whatever it says. */
static void read_all_of(struct store *store, const char *text)
{
	struct template *templates = NULL;
	struct tenant *tenants = NULL;
	const struct tenant *tenant;
	struct held *held = NULL;
	struct key *keys = NULL, key;
	size_t count = 0;

	if (store_list_held(store, &held, &count) == 0)
		store_free_held(held, count);
	if (store_list_templates(store, NULL, &templates, &count) == 0) {
		for (size_t i = 0; i < count; i++)
			template_done(&templates[i]);
		free(templates);
	}
	if (store_list_keys(store, &keys, &count) == 0)
		free(keys);
	if (store_list_tenants(store, &tenants, &count) == 0)
		free(tenants);
	(void)!store_check_key(store, text, strlen(text), &key, &tenant);
}

static void a_damaged_file_is_an_error_in_words(void **state)
{
	_cleanup_(buf_done) struct buf whole = BUF(4 * MIB);
	struct store *store = store_opened();
	_cleanup_close_ int fd = -EBADF;
	char text[KEY_TEXT_SIZE], id[TRACE_ID_SIZE];
	struct err err = ERR_NONE;
	unsigned int refused = 0, seed = 1;
	struct key key;

	(void)state;
	store_tenant(store, "acme");
	assert_int_equal(store_make_key(store, "acme", KEY_USER, &key, text, &err), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		store_put_one(store, id, "some words so that there are several pages of them");
	}
	store_close(store);
	fd = open(store_file("state.db"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(fd_read_all(fd, &whole), 0);
	for (int round = 0; round < 150; round++) {
		_cleanup_free_ char *bad = malloc(whole.len);
		size_t len = round % 5 ? whole.len : (size_t)rand_r(&seed) % whole.len;
		int r;

		memcpy(bad, whole.data, whole.len);
		for (int i = 0; i < 1 + round % 40; i++)
			bad[(size_t)rand_r(&seed) % (round % 3 ? whole.len : 4096)] =
				(char)rand_r(&seed);
		write_file(bad, len);
		(void)unlink(store_file("state.db-wal"));
		(void)unlink(store_file("state.db-shm"));
		err = ERR_NONE;
		r = store_open(&store, &err);
		if (r < 0) {
			refused++;
			assert_true(err.text[0] != '\0' && !strchr(err.text, '\n'));
			continue;
		}
		read_all_of(store, text);
		store_close(store);
	}
	assert_true(refused > 30);
	/* A log of a writer that is damaged counts for nothing; a moved file begins anew. */
	(void)unlink(store_file("state.db-wal"));
	(void)unlink(store_file("state.db-shm"));
	assert_int_equal(unlink(store_file("state.db")), 0);
	store = store_opened();
	store_tenant(store, "acme");
	store_close(store);
}

/* --- no room --- */

/* A disk of our own, of so many bytes, where this process may mount. */
static bool mount_small(void)
{
	char path[128], map[32], group[32];

	snprintf(group, sizeof(group), "0 %u 1", getegid());
	snprintf(map, sizeof(map), "0 %u 1", geteuid());
	if (unshare(CLONE_NEWNS) < 0 &&
	    (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
	     file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
	     file_write_at(AT_FDCWD, "/proc/self/uid_map", map) < 0 ||
	     file_write_at(AT_FDCWD, "/proc/self/gid_map", group) < 0))
		return false;
	snprintf(path, sizeof(path), "%s/small", store_home);
	if (mkdir(path, 0700) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", path, "tmpfs", 0, "size=320k,mode=0700") < 0)
		return false;
	return setenv("XDG_STATE_HOME", path, 1) == 0;
}

/* 0: all was as it must be; 77: no mount here. */
static int fill_disk(void)
{
	struct err err = ERR_NONE;
	struct store *store = NULL;
	struct held held = store_held_of("x", "a word that takes some room, again and again");
	struct held *all = NULL;
	int put = 0, r = 0;
	size_t count = 0;
	char path[192];

	if (!mount_small())
		return 77;
	if (store_open(&store, &err) < 0)
		return 10;
	while (r == 0 && put < 100000) {
		snprintf(held.id, sizeof(held.id), "s%d", put);
		r = store_put_held(store, &held, &err);
		put += r == 0;
	}
	if (r != -ENOSPC || !strstr(err.text, "disk is full"))
		return 11;
	if (store_list_held(store, &all, &count) < 0 || count != (size_t)put)
		return 12;
	store_free_held(all, count);
	/* Deleting needs a little room too; then it goes on. */
	snprintf(path, sizeof(path), "%s/small", store_home);
	if (mount("none", path, "tmpfs", MS_REMOUNT, "size=4m") < 0)
		return 13;
	if (store_put_held(store, &held, &err) < 0)
		return 14;
	store_close(store);
	if (store_open(&store, &err) < 0 || store_list_held(store, &all, &count) < 0 ||
	    count != (size_t)put + 1)
		return 15;
	store_free_held(all, count);
	store_close(store);
	held_done(&held);
	return 0;
}

static void a_full_disk_is_said_and_recovers(void **state)
{
	pid_t pid = forked();
	int status;

	(void)state;
	if (pid == 0)
		_exit(fill_disk());
	status = status_of(pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("no mount namespace here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Nothing can be made at all. */
static void no_room_for_the_file_is_said(void **state)
{
	pid_t pid = forked();
	int status;

	(void)state;
	if (pid == 0) {
		char path[192], fill[4096] = { 1 };
		struct store *store = NULL;
		struct err err = ERR_NONE;
		int fd, r;

		if (!mount_small())
			_exit(77);
		snprintf(path, sizeof(path), "%s/small/fill", store_home);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		while (write(fd, fill, sizeof(fill)) > 0)
			;
		r = store_open(&store, &err);
		if (r != -ENOSPC || !err.text[0])
			fprintf(stderr, "%d %s\n", r, err.text);
		_exit(r == -ENOSPC && err.text[0] ? 0 : 1);
	}
	status = status_of(pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_case(what_was_said_is_there_after_a_kill),
		store_case(all_who_come_first_open_it),
		store_case(two_processes_write_beside_each_other),
		store_case(a_running_daemon_sees_a_revocation_at_once),
		store_case(who_holds_it_locked_is_not_waited_for_long),
		store_case(an_older_file_is_brought_forward),
		store_case(what_is_not_ours_is_left_alone),
		store_case(what_the_file_would_run_is_not_run),
		store_case(values_that_cannot_be_are_damage),
		store_case(a_damaged_file_is_an_error_in_words),
		store_case(a_full_disk_is_said_and_recovers),
		store_case(no_room_for_the_file_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
