/*
 * cp.c - brig cp: files and directories into a sandbox and out of it
 */
#include "cli/cp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "cli/live.h"
#include "data/schema.h"
#include "jail/changes_tree.h"

static const struct option cp_options[] = {
	{ 'u', "user", "USER", "with the rights of this user inside" },
	{ 'r', "recursive", NULL,
	  "changes nothing: directories are copied with all that is in them" },
	{ 'q', "quiet", NULL, "do not show how far it is" },
	LIVE_OPTIONS,
};

/* What ^C does: the conversation ends, and with it the copy, which clears up after itself. */
static volatile sig_atomic_t interrupted;
static int conversation = -1;

static void on_signal(int number)
{
	interrupted = number;
	(void)shutdown(conversation, SHUT_RDWR);
}

static void catch_signals(int fd)
{
	const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = on_signal };

	conversation = fd;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaction(numbers[i], &act, NULL);
	act.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &act, NULL);
}

/* Whoever waits for us sees what it was. */
static void die_of_signal(void)
{
	signal(interrupted, SIG_DFL);
	raise(interrupted);
}

void far_entry_done(struct far_entry *entry)
{
	free(entry->name);
	free(entry->target);
	*entry = (struct far_entry){ 0 };
}

int far_entry_take(const struct message *m, struct far_entry *ret_entry)
{
	const char *target = message_text(m, FIELD_TARGET, NULL);
	struct far_entry entry = { .name = strdup(message_text(m, FIELD_PATH, "")),
				   .target = target ? strdup(target) : NULL,
				   .mode = (mode_t)message_number(m, FIELD_MODE, 0),
				   .size = message_number(m, FIELD_SIZE, 0),
				   .modified = message_number(m, FIELD_MODIFIED, 0) };

	if (!entry.name || (target && !entry.target)) {
		far_entry_done(&entry);
		return -ENOMEM;
	}
	*ret_entry = entry;
	return 0;
}

void copy_address(const struct copy *copy, struct draft *d, const char *path)
{
	draft_text(d, FIELD_PATH, path);
	draft_text(d, FIELD_USER, copy->user);
}

int copy_stat(struct copy *copy, const char *path, bool follow, struct far_entry *ret_entry,
	      struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_STAT, client_number(&copy->client));
	struct message m;
	int r;

	copy_address(copy, &d, path);
	if (follow)
		draft_number(&d, FIELD_FLAGS, STAT_FOLLOW);
	r = client_call(&copy->client, &d, NULL, 0, &m, err);
	if (r < 0)
		return r;
	r = m.type == MESSAGE_ENTRY
		    ? far_entry_take(&m, ret_entry)
		    : err_set(err, -EPROTO, "unexpected answer %s", message_name(m.type));
	message_done(&m);
	return r;
}

void copy_moved(struct copy *copy, uint64_t bytes, uint64_t files)
{
	copy->bytes += bytes;
	copy->files += files;
	if (copy->progress)
		copy->progress->tell(copy->progress->arg, copy->bytes, copy->files);
}

bool copy_is_over(const struct copy *copy)
{
	return interrupted || copy->client.channel.failure < 0 || copy->client.channel.is_deaf;
}

/* The note has the path; words that begin with it as well lose it. */
static const char *words_of(const struct err *err)
{
	const char *words = err->text[0] == '"' ? strstr(err->text, "\": ") : NULL;

	return words ? words + 3 : err->text;
}

int copy_failed(struct copy *copy, const char *path, int code, const struct err *err)
{
	if (code == -ENOMEM || code == -E2BIG || copy_is_over(copy))
		return code;
	return change_notes_add(&copy->outcome.notes,
				code == -EEXIST ? CHANGE_CONFLICT : CHANGE_FAILED, path, "%s",
				err->code ? words_of(err) : strerror(-code));
}

/* One side of a copy, as it was written. */
struct place {
	const char *word; /* all of it */
	char *sandbox;    /* owned; NULL: this host */
	const char *path; /* "-": standard input or output */
};

static bool is_stream(const struct place *place)
{
	return !place->sandbox && str_equal(place->path, "-");
}

/* "SANDBOX:PATH"; what has a slash before its colon is a file of the host. */
static int parse_place(const char *word, struct place *ret_place)
{
	size_t len = strcspn(word, ":/");

	*ret_place = (struct place){ .word = word, .path = word };
	if (word[len] != ':' || len == 0)
		return 0;
	ret_place->sandbox = strndup(word, len);
	/* Nothing behind it is the home. */
	ret_place->path = word[len + 1] ? word + len + 1 : ".";
	return ret_place->sandbox ? 0 : -ENOMEM;
}

static bool ends_in_slash(const char *path)
{
	return str_ends(path, "/") || str_ends(path, "/.") || str_equal(path, ".") ||
	       str_ends(path, "/..") || str_equal(path, "..");
}

/*
 * The name that a path gives what it leads to, or NULL where it gives none ("/", ".", "a/."): then
 * what is in the directory goes into the destination itself.
 */
static char *name_of(const char *path)
{
	size_t len = strlen(path), begin;

	while (len > 0 && path[len - 1] == '/')
		len--;
	begin = len;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	path += begin;
	len -= begin;
	if (len == 0 || (len == 1 && *path == '.') || (len == 2 && memcmp(path, "..", 2) == 0))
		return NULL;
	return strndup(path, len);
}

struct request {
	struct place *sources;
	size_t count;
	struct place to;
	bool json;
};

static int no_directory(const struct request *request, const char *path, struct err *err)
{
	return request->count > 1
		       ? err_set(err, -ENOTDIR,
				 "\"%s\" is no directory: several sources go into one", path)
		       : err_set(err, -ENOTDIR, "\"%s\" is no directory", path);
}

/* What the destination inside is: 1 a directory, 0 something else, or nothing. */
static int look_inside(struct copy *copy, const struct request *request, struct err *err)
{
	_cleanup_(far_entry_done) struct far_entry entry = { 0 };
	const char *path = request->to.path;
	int r = copy_stat(copy, path, true, &entry, err);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && S_ISDIR(entry.mode))
		return 1;
	/* A directory can be made under a name that ends in a slash, a file cannot. */
	if (request->count > 1 || (r == 0 && ends_in_slash(path)))
		return no_directory(request, path, err);
	*err = ERR_NONE;
	return 0;
}

static int put_source(struct copy *copy, const struct request *request, size_t i, bool into,
		      struct err *err)
{
	const struct place *source = &request->sources[i];
	_cleanup_free_ char *name = name_of(source->path), *to = NULL;
	const char *path = request->to.path;
	struct stat st;

	if (is_stream(source))
		return into || ends_in_slash(path)
			       ? err_set(err, -EISDIR, "\"%s\" is a directory: name a file in it",
					 path)
			       : copy_in_stdin(copy, path, err);
	if (!into && ends_in_slash(path) && stat(source->path, &st) == 0 && !S_ISDIR(st.st_mode))
		return no_directory(request, path, err);
	if (into && name && asprintf(&to, "%s%s%s", path, str_ends(path, "/") ? "" : "/", name) < 0)
		return err_errno(err, -ENOMEM, "cannot copy");
	return copy_in(copy, source->path, to ?: path, err);
}

static int put_all(struct copy *copy, const struct request *request, struct err *err)
{
	int into = look_inside(copy, request, err), r = 0;

	for (size_t i = 0; into >= 0 && i < request->count && r == 0; i++)
		r = put_source(copy, request, i, into, err);
	return into < 0 ? into : r;
}

/* The directory on the host that things go into, and whether it is the destination itself. */
struct target {
	int dir;
	bool into;
	char *name; /* owned: in dir, where it is not into */
};

static void target_done(struct target *target)
{
	fd_close(target->dir);
	free(target->name);
}

/*
 * A sandbox that may write here could have made a link of any name, to anywhere. So what is named is no
 * link itself, and below the working directory nothing on the way to it is. Whoever writes a whole path
 * knows the folders in it.
 */
static int open_destination(const char *path, int flags)
{
	char text[PATH_MAX];
	size_t len = strlen(path);

	/* A slash behind it would follow the link all the same. */
	while (len > 1 && path[len - 1] == '/')
		len--;
	if (len >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, path, len);
	text[len] = '\0';
	return sys_openat2(AT_FDCWD, text, (uint64_t)flags | O_NOFOLLOW | O_CLOEXEC, 0,
			   path[0] == '/' ? 0 : RESOLVE_NO_SYMLINKS);
}

static int refuse_destination(const char *path, int code, struct err *err)
{
	return code == -ELOOP
		       ? err_set(err, code,
				 "\"%s\" is or goes through a symbolic link, which a sandbox may "
				 "have made: write where it leads to",
				 path)
		       : err_errno(err, code, "\"%s\"", path);
}

/* What is there, without a look behind a link: 0, -ENOENT, -ELOOP or another. */
static int look_at_destination(const char *path, struct stat *ret_st)
{
	_cleanup_close_ int fd = open_destination(path, O_PATH);

	if (fd < 0)
		return fd;
	if (fstat(fd, ret_st) < 0)
		return -errno;
	return S_ISLNK(ret_st->st_mode) ? -ELOOP : 0;
}

/* A name that does not exist yet, or a file: in its directory. */
static int open_parent(const char *path, struct target *target, struct err *err)
{
	_cleanup_free_ char *parent = NULL;
	const char *slash;

	target->name = name_of(path);
	if (!target->name)
		return err_set(err, -ENOENT, "\"%s\" is not there", path);
	slash = path + strlen(path);
	while (slash > path && slash[-1] == '/')
		slash--;
	slash -= strlen(target->name);
	parent = slash > path ? strndup(path, (size_t)(slash - path)) : strdup(".");
	if (!parent)
		return err_errno(err, -ENOMEM, "cannot copy");
	target->dir = open_destination(parent, O_RDONLY | O_DIRECTORY);
	return target->dir < 0 ? refuse_destination(parent, target->dir, err) : 0;
}

static int open_target(const struct request *request, struct target *target, struct err *err)
{
	const char *path = request->to.path;
	struct stat st;
	int r = look_at_destination(path, &st);

	if (r == 0 && S_ISDIR(st.st_mode)) {
		target->into = true;
		target->dir = open_destination(path, O_RDONLY | O_DIRECTORY);
		return target->dir < 0 ? refuse_destination(path, target->dir, err) : 0;
	}
	if (r < 0 && r != -ENOENT)
		return refuse_destination(path, r, err);
	if (request->count > 1)
		return no_directory(request, path, err);
	return open_parent(path, target, err);
}

/* A device or pipe that was named is written to, never replaced. */
static bool is_special(const char *path)
{
	struct stat st;

	return look_at_destination(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static int get_into_special(struct copy *copy, const struct request *request,
			    const struct far_entry *entry, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	if (S_ISDIR(entry->mode))
		return no_directory(request, request->to.path, err);
	fd = open_destination(request->to.path, O_WRONLY | O_NOCTTY);
	if (fd < 0)
		return refuse_destination(request->to.path, fd, err);
	if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode))
		return err_set(err, -EAGAIN, "\"%s\" was replaced just now", request->to.path);
	return copy_out_to(copy, request->sources[0].path, fd, err);
}

/* What is in a directory goes into the destination itself, as with cp -r a/. b. */
static int get_source(struct copy *copy, const struct request *request, size_t i,
		      const struct target *target, struct err *err)
{
	_cleanup_(far_entry_done) struct far_entry entry = { 0 };
	const char *path = request->sources[i].path;
	_cleanup_free_ char *name = name_of(path);
	int r = copy_stat(copy, path, true, &entry, err);

	if (r < 0)
		return copy_failed(copy, path, r, err);
	if (target->dir < 0)
		return get_into_special(copy, request, &entry, err);
	if (target->into)
		return copy_out(copy, path, &entry, target->dir, name ?: ".", err);
	if (!S_ISDIR(entry.mode) && ends_in_slash(request->to.path))
		return no_directory(request, request->to.path, err);
	return copy_out(copy, path, &entry, target->dir, target->name, err);
}

static int get_all(struct copy *copy, const struct request *request, struct err *err)
{
	_cleanup_(target_done) struct target target = { .dir = -EBADF };
	int r = 0;

	if (is_stream(&request->to))
		return request->count > 1
			       ? err_set(err, -EINVAL, "only one file goes to standard output")
			       : copy_out_to(copy, request->sources[0].path, 1, err);
	if (!is_special(request->to.path) || request->count > 1)
		r = open_target(request, &target, err);
	for (size_t i = 0; i < request->count && r == 0; i++)
		r = get_source(copy, request, i, &target, err);
	return r;
}

/* All sources are on one side, the destination on the other. */
static const char *check_sides(const struct request *request, struct err *err)
{
	const char *sandbox = request->sources[0].sandbox;

	for (size_t i = 0; i < request->count; i++) {
		const struct place *source = &request->sources[i];

		if (!source->sandbox != !sandbox ||
		    (sandbox && !str_equal(source->sandbox, sandbox)))
			err_set(err, -EINVAL, "all sources must be of the same place: \"%s\"",
				source->word);
	}
	if (!sandbox && !request->to.sandbox)
		err_set(err, -EINVAL, "no side is a sandbox: write SANDBOX:PATH");
	if (sandbox && request->to.sandbox)
		err_set(err, -EINVAL,
			"both sides are a sandbox: copy to this host first, or write ./%s for a "
			"file with a colon",
			request->to.word);
	return sandbox ?: request->to.sandbox;
}

static size_t count_left_out(const struct copy *copy)
{
	size_t count = copy->outcome.notes.more;

	for (size_t i = 0; i < copy->outcome.notes.count; i++)
		count += copy->outcome.notes.items[i].what != CHANGE_DROPPED;
	return count;
}

static int print_outcome(const struct copy *copy, const struct err *err)
{
	_cleanup_(node_freep) struct node *root = NULL;
	int r = changes_outcome_to_node(&copy->outcome, &root);

	r = r < 0 ? r : node_set(root, "sandbox", node_string(copy->client.id));
	r = r < 0 ? r : node_set(root, "bytes", node_int((int64_t)copy->bytes));
	r = r < 0 ? r : node_set(root, "error", err->code ? node_string(err->text) : node_null());
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

/* What is left out was told one by one; the status says it too. */
static int finish(struct copy *copy, const struct request *request, int r, struct err *err)
{
	size_t left_out = count_left_out(copy);
	bool is_partial = copy->outcome.applied > 0;

	progress_end(&copy->line);
	if (interrupted)
		err_set(err, -EINTR, "interrupted");
	if (r < 0 && !err->code)
		err_errno(err, r, "cannot copy");
	if (r < 0 && is_partial)
		err_prefix(err, "cp: %zu copied, then", copy->outcome.applied);
	if (r == 0)
		*err = ERR_NONE;
	if (request->json && print_outcome(copy, err))
		return EXIT_BRIG;
	if (!request->json) {
		change_notes_print(stderr, &copy->outcome.notes);
		if (r < 0)
			complain(err);
		else if (left_out > 0 && is_partial)
			fprintf(stderr, "brig: cp: %zu left out (see above), %zu copied\n",
				left_out, copy->outcome.applied);
	}
	if (r < 0)
		return EXIT_BRIG;
	return left_out > 0 ? 1 : 0;
}

static int run(struct request *request, const char *user, bool quiet)
{
	struct copy copy = { .client = CLIENT_NONE, .user = user };
	struct err err = ERR_NONE;
	const char *sandbox = check_sides(request, &err);
	int r = err.code;

	r = r < 0 ? r : client_open(sandbox, &copy.client, &err);
	if (r < 0)
		return complain(&err);
	catch_signals(copy.client.channel.fd);
	if (!quiet && !request->json)
		copy.progress = progress_begin(&copy.line, "copied");
	r = request->to.sandbox ? put_all(&copy, request, &err) : get_all(&copy, request, &err);
	r = finish(&copy, request, r, &err);
	changes_outcome_done(&copy.outcome);
	conversation = -1;
	client_done(&copy.client);
	if (interrupted)
		die_of_signal();
	return r;
}

static int print_schema(void)
{
	static const struct schema_part note_parts[] = { { "what", "string", false },
							 { "path", "string", false },
							 { "path_base64", "string", true },
							 { "why", "string", false } };
	_cleanup_(node_freep) struct node *document = schema_document("brig cp");
	int r = schema_add(document, "sandbox", schema_type("string"), true);

	r = r < 0 ? r : schema_add(document, "applied", schema_type("integer"), true);
	r = r < 0 ? r : schema_add(document, "bytes", schema_type("integer"), true);
	r = r < 0 ? r
		  : schema_add(document, "notes",
			       schema_list(schema_parts(note_parts, ARRAY_SIZE(note_parts))), true);
	r = r < 0 ? r : schema_add(document, "more", schema_type("integer"), true);
	r = r < 0 ? r : schema_add(document, "error", schema_type("string|null"), true);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int copy_words(char *const *words, size_t count, struct request *request, const char *user,
		      bool quiet)
{
	int r = 0;

	request->sources = calloc(count, sizeof(*request->sources));
	if (!request->sources)
		return complain_text("out of memory");
	request->count = count - 1;
	for (size_t i = 0; i < request->count && r == 0; i++)
		r = parse_place(words[i], &request->sources[i]);
	r = r < 0 ? r : parse_place(words[count - 1], &request->to);
	r = r < 0 ? complain_text("out of memory") : run(request, user, quiet);
	for (size_t i = 0; i < request->count; i++)
		free(request->sources[i].sandbox);
	free(request->to.sandbox);
	free(request->sources);
	return r;
}

static int verb_cp_main(int argc, char **argv)
{
	struct request request = { 0 };
	bool schema = false, help = false, quiet = false;
	const char *user = NULL;
	const struct live_option options[] = { { "user", NULL, &user },
					       { "quiet", &quiet, NULL },
					       { "json", &request.json, NULL },
					       { "schema", &schema, NULL },
					       { "help", &help, NULL } };
	struct err err = ERR_NONE;
	int words = live_arguments(argc, argv, &verb_cp, options, ARRAY_SIZE(options), &err);

	if (words < 0)
		return complain(&err);
	if (help) {
		print_help(&verb_cp);
		return 0;
	}
	if (schema)
		return print_schema();
	if (words < 2)
		return complain_text("cp: from where, and where to? (see \"brig help cp\")");
	return copy_words(argv + 1, (size_t)words, &request, user, quiet);
}

const struct verb verb_cp = {
	.name = "cp",
	.usage = "[-u USER] SOURCE... SANDBOX:PATH | SANDBOX:PATH... DESTINATION",
	.summary = "copy files and directories into a sandbox, or out of it",
	.text = "Copies as cp -r does: into a destination that is a directory, else under its "
		"name; SOURCE/. means what is in a directory. A path inside is absolute, or below "
		"the home of the user. \"-\" is standard input or output. Modes and times are "
		"kept, owners are not; a symbolic link that is named is followed, and links in a "
		"directory are copied as links. A file that exists is replaced at once, when the "
		"new one is whole.\n\n"
		"Nothing that comes out of a sandbox is trusted: symbolic links that are absolute "
		"or lead out of what is copied, devices, pipes and sockets are left out, setuid "
		"and "
		"setgid bits are dropped, nothing is written through a link that is there already, "
		"a file brings no more bytes than it had when it was looked at, and none that is "
		"larger than the room that is left. Each such thing is one line on standard error; "
		"the rest is copied, and the status is 1.",
	.example = "brig cp src k3x:work/\nbrig cp k3x:work/result.json .\nbrig cp k3x:all.tar - | "
		   "tar t\n"
		   "tar c . | brig cp - k3x:all.tar",
	.options = cp_options,
	.run = verb_cp_main,
};
