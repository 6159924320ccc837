/*
 * store.c - the file: opening it, its tables, its statements
 *
 * WAL with synchronous=NORMAL: a commit is in the kernel's hands when it returns, so no death of this
 * process loses it, and no commit waits for the disk but one in a thousand pages (a checkpoint). The machine's own crash
 * may take the last commits, never half of one. Keys are the exception: store_set_durable().
 *
 * The file is ours alone (0600, in a directory of 0700), but not to be trusted to be whole: it is checked
 * when it is opened, triggers and views in it are not run, and rows are read with their bounds.
 *
 * A descriptor of the file must never be closed while SQLite has it open in the same process: its locks
 * would go. So it is looked at through O_PATH, and made before SQLite sees it.
 */
#include "serve/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "serve/store_internal.h"
#include "trace/home.h"

#define FOLDER      "serve"
#define FILE_NAME   "state.db"
#define APPLICATION 0x62726967 /* "brig", in the file's head */

/*
 * How the file became what it is. A row is never changed once it was in a release; what is new is a new row.
 * Its place, from 1, is the file's version. done: has a row where the file is further than its version says.
 */
static const struct {
	const char *sql, *done;
} migrations[] = {
	{ "CREATE TABLE tenants ("
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
	  "CREATE INDEX answers_by_age ON answers (created);",
	  NULL },
	/* For a while files were made with it that called themselves the first version. */
	{ "ALTER TABLE templates ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
	  "SELECT 1 FROM pragma_table_info('templates') WHERE name = 'bytes'" },
};

/* ?1 to ?n are the columns of the struct's shape in their order, where there is one. */
static const char *const statements[STATEMENT_COUNT] = {
	[STATEMENT_DATA_VERSION] = "PRAGMA data_version",

	[STATEMENT_PUT_TENANT] =
		"INSERT INTO tenants (name, max_sandboxes, max_memory, max_disk, max_cpu,"
		" create_rate, policy, floor, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
		" ON CONFLICT (name) DO UPDATE SET max_sandboxes = ?2, max_memory = ?3,"
		" max_disk = ?4, max_cpu = ?5, create_rate = ?6, policy = ?7, floor = ?8",
	[STATEMENT_GET_TENANT] =
		"SELECT name, max_sandboxes, max_memory, max_disk, max_cpu, create_rate, policy,"
		" floor, created, number FROM tenants WHERE name = ?1",
	[STATEMENT_LIST_TENANTS] =
		"SELECT name, max_sandboxes, max_memory, max_disk, max_cpu, create_rate, policy,"
		" floor, created, number FROM tenants ORDER BY number",

	[STATEMENT_PUT_KEY] =
		"INSERT INTO keys (id, tenant, kind, shown, created, used, revoked, digest)"
		" SELECT ?1, number, ?3, ?4, ?5, ?6, ?7, ?8 FROM tenants WHERE name = ?2",
	[STATEMENT_LIST_KEYS] =
		"SELECT id, name, kind, shown, keys.created, used, revoked, digest"
		" FROM keys JOIN tenants ON tenant = number ORDER BY keys.created, id",
	[STATEMENT_REVOKE_KEY] = "UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked = 0",
	[STATEMENT_USE_KEY] = "UPDATE keys SET used = ?2 WHERE id = ?1",

	[STATEMENT_PUT_HELD] =
		"INSERT OR REPLACE INTO held (id, tenant, state, template_id, alias, metadata,"
		" env, network, extra, token, traffic_token, started, ends, pauses, resumes, cpu,"
		" memory, disk) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
		" ?14, ?15, ?16, ?17, ?18)",
	[STATEMENT_DELETE_HELD] = "DELETE FROM held WHERE id = ?1",
	[STATEMENT_LIST_HELD] =
		"SELECT id, tenant, state, template_id, alias, metadata, env, network, extra,"
		" token, traffic_token, started, ends, pauses, resumes, cpu, memory, disk"
		" FROM held ORDER BY started, id",

	[STATEMENT_PUT_TEMPLATE] =
		"INSERT OR REPLACE INTO templates (id, tenant, kind, name, tags, image, env,"
		" workdir, user, start, ready, source, cpu, memory, disk, bytes, created, updated)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,"
		" ?17, ?18)",
	[STATEMENT_DELETE_TEMPLATE] = "DELETE FROM templates WHERE id = ?1",
	[STATEMENT_TEMPLATE_BYTES] =
		"SELECT coalesce(sum(bytes), 0) FROM templates WHERE tenant = ?1",
	/* ?2: id or name; ?3: tag, and ?4 whether it must have it. A template without tags is as good as one with "default". */
	[STATEMENT_GET_TEMPLATE] =
		"SELECT id, tenant, kind, name, tags, image, env, workdir, user, start, ready,"
		" source, cpu, memory, disk, bytes, created, updated,"
		" EXISTS (SELECT 1 FROM json_each(CASE WHEN NOT json_valid(tags) THEN "
		"'[\"default\"]'"
		" WHEN json_array_length(tags) = 0 THEN '[\"default\"]' ELSE tags END)"
		" WHERE value = ?3) AS has_tag"
		" FROM templates WHERE (id = ?2 OR name = ?2) AND tenant IN (?1, '')"
		" AND (has_tag OR NOT ?4)"
		" ORDER BY id = ?2 DESC, tenant DESC, has_tag DESC, updated DESC, id LIMIT 1",
	/* ?1 may be NULL: everybody's. */
	[STATEMENT_LIST_TEMPLATES] =
		"SELECT id, tenant, kind, name, tags, image, env, workdir, user, start, ready,"
		" source, cpu, memory, disk, bytes, created, updated FROM templates"
		" WHERE ?1 IS NULL OR tenant IN (?1, '') ORDER BY created DESC, id",

	[STATEMENT_PUT_ANSWER] =
		"INSERT OR REPLACE INTO answers (tenant, key, request, status, body, size, created)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[STATEMENT_GET_ANSWER] = "SELECT request, status, body FROM answers"
				 " WHERE tenant = ?1 AND key = ?2 AND created > ?3",
	[STATEMENT_FORGET_ANSWERS] = "DELETE FROM answers WHERE created <= ?1",
	/* The oldest of a tenant beyond so many, or so many bytes. */
	[STATEMENT_FORGET_MANY_ANSWERS] =
		"DELETE FROM answers WHERE number IN (SELECT number FROM (SELECT number,"
		" count(*) OVER newer AS places, sum(size) OVER newer AS bytes FROM answers"
		" WHERE tenant = ?1 WINDOW newer AS (ORDER BY number DESC))"
		" WHERE places > ?2 OR bytes > ?3)",
};

uint64_t store_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- failures --- */

/* By SQLite's code, the whole one before the family. EDQUOT of a disk is no quota of a tenant's. */
static const struct failure {
	int code, number;
	const char *words;
} failures[] = {
	{ SQLITE_READONLY_DBMOVED, -ESTALE, "was moved or removed while it was open" },
	{ SQLITE_FULL, -ENOSPC, "the disk is full" },
	{ SQLITE_BUSY, -EBUSY, "another process keeps it locked" },
	{ SQLITE_LOCKED, -EBUSY, "another process keeps it locked" },
	{ SQLITE_CORRUPT, -EBADMSG,
	  "is damaged: move it away, and brig begins with an empty one (keys have to be made "
	  "anew)" },
	{ SQLITE_NOTADB, -EBADMSG,
	  "is no database: move it away, and brig begins with an empty one" },
	{ SQLITE_READONLY, -EROFS, "cannot be written" },
	{ SQLITE_PERM, -EACCES, "cannot be opened" },
	{ SQLITE_CANTOPEN, -EACCES, "cannot be opened" },
	{ SQLITE_NOMEM, -ENOMEM, "out of memory" },
	{ SQLITE_TOOBIG, -E2BIG, "a value is too large" },
	{ SQLITE_CONSTRAINT, -EEXIST, "there is such a row already" },
};

static const struct failure *failure_of(int code)
{
	for (int mask = -1; mask; mask = mask == -1 ? 0xff : 0)
		for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
			if (failures[i].code == (code & mask))
				return &failures[i];
	return NULL;
}

int store_failure(struct store *store, int code, struct err *err)
{
	const struct failure *f = failure_of(code);
	int number = sqlite3_system_errno(store->db);

	if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE)
		return 0;
	if ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN) {
		if (number == ENOSPC || number == EDQUOT)
			f = failure_of(SQLITE_FULL);
		else if (number != 0)
			return err_errno(err, -number, "the daemon's state \"%s\"", store->path);
	}
	if (!f)
		return err_set(err, -EIO, "the daemon's state \"%s\": %s", store->path,
			       sqlite3_errmsg(store->db));
	return err_set(err, f->number, "the daemon's state \"%s\": %s", store->path, f->words);
}

/* --- statements --- */

int store_statement(struct store *store, enum statement which, sqlite3_stmt **ret, struct err *err)
{
	int code;

	if (!store->statements[which]) {
		code = sqlite3_prepare_v3(store->db, statements[which], -1,
					  SQLITE_PREPARE_PERSISTENT, &store->statements[which],
					  NULL);
		if (code != SQLITE_OK)
			return store_failure(store, code == SQLITE_ERROR ? SQLITE_CORRUPT : code,
					     err);
	}
	*ret = store->statements[which];
	return 0;
}

void store_reset(sqlite3_stmt *s)
{
	if (!s)
		return;
	(void)sqlite3_reset(s);
	(void)sqlite3_clear_bindings(s);
}

int store_next(struct store *store, sqlite3_stmt *s, struct err *err)
{
	int code = sqlite3_step(s), r;

	if (code == SQLITE_ROW)
		return 1;
	r = store_failure(store, code, err);
	store_reset(s);
	return r;
}

int store_change(struct store *store, sqlite3_stmt *s, struct err *err)
{
	int r = store_next(store, s, err);

	store_reset(s);
	return r < 0 ? r : 0;
}

int store_run(struct store *store, const char *sql, struct err *err)
{
	return store_failure(store, sqlite3_exec(store->db, sql, NULL, NULL, NULL), err);
}

void store_set_durable(struct store *store, bool is_durable)
{
	(void)store_run(store, is_durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
			NULL);
}

/* --- opening --- */

/* Whose file this is, before anything is written to it: in one statement, as another may be making it now. */
static int check_owner(struct store *store, int64_t *ret_version, struct err *err)
{
	static const char sql[] = "SELECT application_id, user_version,"
				  " (SELECT count(*) FROM sqlite_schema)"
				  " FROM pragma_application_id, pragma_user_version";
	int64_t application = 0, version = 0, tables = 0;
	sqlite3_stmt *s = NULL;
	int r, code = sqlite3_prepare_v2(store->db, sql, -1, &s, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	if (code == SQLITE_ROW) {
		application = sqlite3_column_int64(s, 0);
		version = sqlite3_column_int64(s, 1);
		tables = sqlite3_column_int64(s, 2);
	}
	r = store_failure(store, code, err);
	sqlite3_finalize(s);
	if (r < 0)
		return r;
	if (application != APPLICATION && (application != 0 || version != 0 || tables != 0))
		return err_set(err, -EBADMSG,
			       "the daemon's state \"%s\" is another program's database: move it "
			       "away, and brig begins with an empty one",
			       store->path);
	if (version < 0 || version > (int64_t)ARRAY_SIZE(migrations))
		return err_set(err, -EPROTONOSUPPORT,
			       "the daemon's state \"%s\" has version %lld, and this brig knows "
			       "no more than %zu: use the newer brig that wrote it",
			       store->path, (long long)version, ARRAY_SIZE(migrations));
	*ret_version = version;
	return 0;
}

/* Whether the statement has a row. */
static int has_row(struct store *store, const char *sql, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int r, code = sqlite3_prepare_v2(store->db, sql, -1, &s, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	r = store_failure(store, code, err);
	sqlite3_finalize(s);
	return r < 0 ? r : code == SQLITE_ROW;
}

static int apply(struct store *store, int64_t version, struct err *err)
{
	char text[96];
	int r = 0;

	for (size_t i = (size_t)version; i < ARRAY_SIZE(migrations) && r >= 0; i++) {
		r = migrations[i].done ? has_row(store, migrations[i].done, err) : 0;
		if (r == 0)
			r = store_run(store, migrations[i].sql, err);
	}
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "PRAGMA application_id=%d; PRAGMA user_version=%zu",
		 APPLICATION, ARRAY_SIZE(migrations));
	return store_run(store, text, err);
}

/* Two that open it at once: the second finds it done. */
static int migrate(struct store *store, struct err *err)
{
	int64_t version = 0;
	int r = check_owner(store, &version, err);

	if (r < 0 || version == (int64_t)ARRAY_SIZE(migrations))
		return r;
	r = store_run(store, "BEGIN IMMEDIATE", err);
	if (r < 0)
		return r;
	r = check_owner(store, &version, err);
	if (r == 0)
		r = apply(store, version, err);
	if (r == 0)
		r = store_run(store, "COMMIT", err);
	if (r < 0)
		(void)store_run(store, "ROLLBACK", NULL);
	return r;
}

static int check_whole(struct store *store, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int code = sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &s, NULL);
	const char *text = NULL;
	bool is_whole;

	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	if (code == SQLITE_ROW)
		text = (const char *)sqlite3_column_text(s, 0);
	is_whole = text && str_equal(text, "ok");
	sqlite3_finalize(s);
	if (code != SQLITE_ROW)
		return store_failure(store, code, err);
	return is_whole ? 0 : store_failure(store, SQLITE_CORRUPT, err);
}

/* The switch to WAL is refused at once where two do it at once: SQLite does not wait there. */
static int use_wal(struct store *store, struct err *err)
{
	struct err own = ERR_NONE;
	int r, left = STORE_BUSY_MS / 10;

	while ((r = store_run(store, "PRAGMA journal_mode=WAL", &own)) == -EBUSY && left-- > 0)
		(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	return r < 0 ? err_set(err, r, "%s", own.text) : 0;
}

/* What a file says of itself must not run: triggers, views, functions in its schema. */
static void distrust(sqlite3 *db)
{
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	(void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

static int open_file(struct store *store, struct err *err)
{
	int code = sqlite3_open_v2(store->path, &store->db,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW |
					   SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOMUTEX,
				   NULL);
	int64_t version;
	int r;

	if (!store->db)
		return err_set(err, -ENOMEM, "the daemon's state: out of memory");
	r = store_failure(store, code, err);
	if (r < 0)
		return r;
	distrust(store->db);
	(void)sqlite3_busy_timeout(store->db, STORE_BUSY_MS);
	r = check_owner(store, &version, err);
	if (r == 0)
		r = use_wal(store, err);
	if (r == 0)
		r = store_run(store,
			      "PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY;"
			      "PRAGMA cell_size_check=ON",
			      err);
	if (r == 0)
		r = migrate(store, err);
	return r == 0 ? check_whole(store, err) : r;
}

/* Where the folder really is: links on the way to the state directory are the user's own business. */
static int path_of(int folder, char **ret_path)
{
	char link[32], path[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
	len = readlink(link, path, sizeof(path));
	if (len < 0)
		return -errno;
	if (len >= (ssize_t)sizeof(path))
		return -ENAMETOOLONG;
	return asprintf(ret_path, "%.*s/" FILE_NAME, (int)len, path) < 0 ? -ENOMEM : 0;
}

static int check_plain(int file, struct err *err)
{
	char link[32];
	struct stat st;

	if (fstat(file, &st) < 0)
		return err_errno(err, -errno,
				 "\"" FOLDER "/" FILE_NAME "\" in the state directory");
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, -EBADMSG,
			       "\"" FOLDER "/" FILE_NAME
			       "\" in the state directory is no plain file of yours");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	if ((st.st_mode & 07777) != 0600 && chmod(link, 0600) < 0)
		return err_errno(err, -errno,
				 "\"" FOLDER "/" FILE_NAME "\" in the state directory");
	return 0;
}

/* The file, made where it is missing; what SQLite makes beside it gets the same mode. */
static int prepare_file(int folder, bool make, struct err *err)
{
	_cleanup_close_ int file = -EBADF;
	int made;

	if (make) {
		made = trace_file_make(folder, FILE_NAME, O_RDWR);
		if (made < 0 && made != -EEXIST)
			return err_errno(err, made,
					 "\"" FOLDER "/" FILE_NAME "\" in the state directory");
		fd_close(made);
	}
	file = sys_openat2(folder, FILE_NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_BENEATH);
	if (file < 0)
		return err_errno(err, file, "\"" FOLDER "/" FILE_NAME "\" in the state directory");
	return check_plain(file, err);
}

static int open_folder(bool make, struct err *err)
{
	_cleanup_close_ int home = trace_home_open(NULL, make, err), folder = -EBADF;
	struct stat st;

	if (home < 0)
		return home;
	if (make && mkdirat(home, FOLDER, 0700) < 0 && errno != EEXIST)
		return err_errno(err, -errno, "\"" FOLDER "\" in the state directory");
	folder = sys_openat2(home, FOLDER, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (folder < 0)
		return err_errno(err, folder, "\"" FOLDER "\" in the state directory");
	if (fstat(folder, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(err, -EPERM,
			       "\"" FOLDER "\" in the state directory is not yours alone: run "
			       "\"chmod 700\" on it, or move it away");
	return take_fd(&folder);
}

static int open_store(bool make, struct store **ret_store, struct err *err)
{
	_cleanup_close_ int folder = open_folder(make, err);
	struct store *store;
	int r = folder < 0 ? folder : prepare_file(folder, make, err);

	if (r < 0)
		return r;
	store = calloc(1, sizeof(*store));
	if (!store)
		return err_set(err, -ENOMEM, "the daemon's state: out of memory");
	r = path_of(folder, &store->path);
	if (r < 0)
		(void)err_errno(err, r, "the daemon's state");
	else
		r = open_file(store, err);
	if (r < 0) {
		store_close(store);
		return r;
	}
	*ret_store = store;
	return 0;
}

int store_open(struct store **ret_store, struct err *err)
{
	return open_store(true, ret_store, err);
}

int store_open_existing(struct store **ret_store, struct err *err)
{
	return open_store(false, ret_store, err);
}

void store_close(struct store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close(store->db);
	ring_done(&store->ring);
	claims_done(store);
	free(store->path);
	free(store);
}
