#include "serve/e2b_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "serve/e2b_control.h"
#include "serve/snapshot.h"
#include "serve/wish.h"
#include "trace/home.h"

#define KEPT_S      86400
#define RUNNING_MAX 8 /* builds; each is a child of the daemon, and others need theirs */
#define TAGS_MAX    32
#define STEPS_MAX   1024
#define PLAN_MAX    (16 * MIB)

struct building {
	struct building *next;
	struct serve *serve;
	char id[BUILD_ID_SIZE];
	char tenant[TENANT_NAME_MAX + 1];
	char image[SNAPSHOT_IMAGE_SIZE];
	double cpu; /* what was reserved */
	uint64_t memory, disk;
	struct node *meta;
};

struct builds *builds_of(struct serve *serve)
{
	struct builds *builds = serve->build_state;

	if (builds)
		return builds;
	builds = calloc(1, sizeof(*builds));
	if (builds && make_token(builds->secret) < 0) {
		free(builds);
		builds = NULL;
	}
	serve->build_state = builds;
	return builds;
}

void builds_done(struct serve *serve)
{
	struct builds *builds = serve->build_state;

	while (builds && builds->first) {
		struct building *b = builds->first;

		builds->first = b->next;
		node_free(b->meta);
		free(b);
	}
	free(builds);
	serve->build_state = NULL;
}

bool build_is_running(struct serve *serve, const char *id)
{
	const struct builds *builds = serve->build_state;

	for (const struct building *b = builds ? builds->first : NULL; b; b = b->next)
		if (str_equal(b->id, id))
			return true;
	return false;
}

/* --- files --- */

bool build_id_is_valid(const char *id)
{
	return strlen(id) == BUILD_ID_SIZE - 1 && !id[strspn(id, "0123456789abcdef-")];
}

bool build_hash_is_valid(const char *hash)
{
	return strlen(hash) == BUILD_HASH_SIZE - 1 && !hash[strspn(hash, "0123456789abcdef")];
}

int build_path(const char *folder, const char *name, const char *ending,
	       char ret_path[static PATH_MAX], struct err *err)
{
	char home[PATH_MAX];
	int r = trace_home_path(home, err), len;

	if (r < 0)
		return r;
	len = snprintf(ret_path, PATH_MAX, "%.3800s/serve/%s", home, folder);
	if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, -errno, "\"%s\"", ret_path);
	snprintf(ret_path + len, (size_t)(PATH_MAX - len), "/%s%s", name, ending);
	return 0;
}

int build_upload_path(const char *tenant, const char *hash, char ret_path[static PATH_MAX],
		      struct err *err)
{
	char name[BUILD_HASH_SIZE + TENANT_NAME_MAX + 2];

	snprintf(name, sizeof(name), "%s-%s", hash, tenant);
	return build_path("uploads", name, "", ret_path, err);
}

static void sweep_folder(const char *folder)
{
	char path[PATH_MAX];
	struct err err = ERR_NONE;
	const struct dirent *entry;
	struct stat st;
	DIR *dir;

	if (build_path(folder, "", "", path, &err) < 0)
		return;
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && (uint64_t)st.st_mtime + KEPT_S < time_now() / 1000)
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

void build_sweep(void)
{
	sweep_folder("builds");
	sweep_folder("uploads");
}

static int write_file(const char *path, const struct node *node, struct err *err)
{
	_cleanup_(buf_done) struct buf text = BUF(PLAN_MAX);
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : node ? json_write(node, true, &text) : 0;

	r = r < 0 ? r : fd_write_all(fd, buf_text(&text), text.len);
	return r < 0 ? err_errno(err, r, "the build cannot be written down") : 0;
}

static const char *text_of(const struct node *map, const char *key)
{
	const struct node *value = node_get(map, key);

	return value && value->kind == NODE_STRING ? value->text : "";
}

static int64_t number_of(const struct node *map, const char *key)
{
	const struct node *value = node_get(map, key);

	return value && value->kind == NODE_INT ? value->number : 0;
}

int build_find(const struct request *q, const char *template_id, const char *id,
	       struct node **ret_meta)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * KIB);
	_cleanup_(node_freep) struct node *meta = NULL;
	_cleanup_close_ int fd = -EBADF;
	struct err err = ERR_NONE;
	char path[PATH_MAX];

	if (!build_id_is_valid(id) || build_path("builds", id, ".json", path, &err) < 0)
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fd_read_all(fd, &text) < 0 ||
	    json_read(buf_text(&text), text.len, NULL, &meta, &err) < 0)
		return -ENOENT;
	if (!str_equal(text_of(meta, "tenant"), q->tenant_name) ||
	    !str_equal(text_of(meta, "template"), template_id))
		return -ENOENT;
	*ret_meta = take_ptr(&meta);
	return 0;
}

void build_uuid(const char *words, char ret_id[static BUILD_ID_SIZE])
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(words, strlen(words), hex);
	snprintf(ret_id, BUILD_ID_SIZE, "%.8s-%.4s-4%.3s-8%.3s-%.12s", hex, hex + 8, hex + 13,
		 hex + 17, hex + 20);
}

/* --- a new one --- */

/* What the client calls it, without "tenant/" before it. */
static int read_word(const struct request *q, const char **ret_word, struct err *err)
{
	const size_t most = (size_t)3 * TEMPLATE_NAME_MAX, own = strlen(q->tenant_name);
	const char *name = NULL, *alias = NULL;
	int r = wish_text(q->body, "name", most, &name, err);

	r = r < 0 ? r : wish_text(q->body, "alias", most, &alias, err);
	if (r < 0)
		return r;
	name = name ? name : alias;
	if (!name)
		return err_set(err, -EINVAL, "\"name\" is missing");
	if (strncmp(name, q->tenant_name, own) == 0 && name[own] == '/')
		name += own + 1;
	*ret_word = name;
	return 0;
}

static int add_tag(const struct node *value, struct node *tags, struct err *err)
{
	char name[TEMPLATE_NAME_MAX + 1], tag[TEMPLATE_NAME_MAX + 1];
	int r;

	if (value->kind != NODE_STRING)
		return err_set(err, -EINVAL, "a tag is no text");
	r = template_read_name(value->text, name, tag, err);
	if (r == 0 && strchr(value->text, ':'))
		r = err_set(err, -EINVAL, "\"%.40s\" is no tag", value->text);
	return r < 0 ? r : node_add(tags, node_string(value->text));
}

/* The name, and all tags: one that stands behind it, and those of the list; never none. */
static int read_names(const struct request *q, char *name, struct node *tags, struct err *err)
{
	const char *word = "";
	char tag[TEMPLATE_NAME_MAX + 1];
	const struct node *more = NULL;
	int r = read_word(q, &word, err);

	r = r < 0 ? r : wish_list(q->body, "tags", &more, err);
	r = r < 0 ? r : template_read_name(word, name, tag, err);
	if (r == 0 && str_equal(name, MAKE_BASE))
		r = err_set(err, -EINVAL, "\"" MAKE_BASE "\" is always there, and stays as it is");
	if (r == 0 && more && more->count > TAGS_MAX)
		r = err_set(err, -EINVAL, "more than %d tags", TAGS_MAX);
	if (r == 0 && (strchr(word, ':') || !more || more->count == 0))
		r = node_add(tags, node_string(tag));
	for (size_t i = 0; more && i < more->count && r == 0; i++)
		r = add_tag(more->entries[i].value, tags, err);
	return r;
}

/* What is built again under the same name and tag keeps its id. */
static int choose_id(const struct request *q, const char *name, const char *tag,
		     char ret_id[static 33])
{
	_cleanup_(template_done) struct template t = { 0 };
	char word[2 * TEMPLATE_NAME_MAX + 8];

	snprintf(word, sizeof(word), "%s:%s", name, tag);
	if (store_get_template(q->serve->store, q->tenant_name, word, &t) == 0 &&
	    str_equal(t.tenant, q->tenant_name) && t.kind == TEMPLATE_BUILT) {
		snprintf(ret_id, 33, "%s", t.id);
		return 0;
	}
	return template_new_id(ret_id);
}

static int read_sizes(const struct request *q, struct node *meta, struct err *err)
{
	int64_t cpu = 0, memory = 0;
	int r = wish_number(q->body, "cpuCount", 0, 1024, &cpu, err);

	r = r < 0 ? r : wish_number(q->body, "memoryMB", 0, (int64_t)1 << 24, &memory, err);
	r = r < 0 ? r : node_set(meta, "cpu", node_int(cpu));
	return r < 0 ? r : node_set(meta, "memory", node_int(memory * (int64_t)MIB));
}

static struct node *shape_begun(const char *id, const char *build, const char *name,
				const struct node *tags)
{
	_cleanup_(node_freep) struct node *map = node_map(), *names = node_list();
	int r = map && names ? node_add(names, node_string(name)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "templateID", node_string(id));
	r = r < 0 ? r : node_set(map, "buildID", node_string(build));
	r = r < 0 ? r : node_set(map, "public", node_bool(false));
	r = r < 0 ? r : node_set(map, "names", node_copy(names));
	r = r < 0 ? r : node_set(map, "tags", node_copy(tags));
	r = r < 0 ? r : node_set(map, "aliases", take_ptr(&names));
	return r < 0 ? NULL : take_ptr(&map);
}

void template_begin(struct request *q)
{
	_cleanup_(node_freep) struct node *meta = node_map(), *tags = node_list();
	char name[TEMPLATE_NAME_MAX + 1], id[33], build[BUILD_ID_SIZE], token[TOKEN_SIZE];
	char path[PATH_MAX];
	struct err err = ERR_NONE;
	int r = meta && tags ? read_names(q, name, tags, &err) : -ENOMEM;

	r = r < 0 ? r : read_sizes(q, meta, &err);
	r = r < 0 ? r : choose_id(q, name, tags->entries[0].value->text, id);
	r = r < 0 ? r : make_token(token);
	if (r == 0) {
		build_uuid(token, build);
		build_sweep();
		r = build_path("builds", build, ".json", path, &err);
	}
	r = r < 0 ? r : node_set(meta, "tenant", node_string(q->tenant_name));
	r = r < 0 ? r : node_set(meta, "template", node_string(id));
	r = r < 0 ? r : node_set(meta, "name", node_string(name));
	r = r < 0 ? r : node_set(meta, "tags", node_copy(tags));
	r = r < 0 ? r : write_file(path, meta, &err);
	if (r < 0) {
		if (!err.code)
			err_errno(&err, r, "build");
		refuse_err(q, &err);
		return;
	}
	answer_take_json(q, 202, shape_begun(id, build, name, tags));
}

/* --- its end --- */

static void finish(struct building *b, const char *message, const char *step)
{
	struct node *line = node_map();
	int r = line ? node_set(line, "status", node_string(message ? "error" : "ready")) : -1;

	r = r < 0 || !message ? r : node_set(line, "message", node_string(message));
	r = r < 0 || !message ? r : node_set(line, "step", node_string(step));
	if (r < 0) {
		node_free(line);
		line = NULL;
	}
	build_append(b->id, line);
}

static int text_to(char **place, const char *text)
{
	*place = strdup(text);
	return *place ? 0 : -ENOMEM;
}

static int fill_row(const struct building *b, const struct node *result, struct template *t)
{
	const struct node *env = node_get(result, "env"), *tags = node_get(b->meta, "tags");
	char *json = env ? wish_json(env) : NULL;
	int r = text_to(&t->name, text_of(b->meta, "name"));

	snprintf(t->id, sizeof(t->id), "%s", text_of(b->meta, "template"));
	snprintf(t->tenant, sizeof(t->tenant), "%s", b->tenant);
	t->env = json ? json : strdup("");
	t->tags = wish_json(tags);
	t->bytes = (uint64_t)number_of(result, "bytes");
	t->cpu = (double)number_of(b->meta, "cpu");
	t->memory = (uint64_t)number_of(b->meta, "memory");
	r = r < 0 ? r : text_to(&t->image, b->image);
	r = r < 0 ? r : text_to(&t->workdir, text_of(result, "workdir"));
	r = r < 0 ? r : text_to(&t->user, text_of(result, "user"));
	r = r < 0 ? r : text_to(&t->start, text_of(result, "start"));
	r = r < 0 ? r : text_to(&t->ready, text_of(result, "ready"));
	r = r < 0 ? r : text_to(&t->source, "");
	return r < 0 || !t->env || !t->tags ? -ENOMEM : 0;
}

static int put_row(const struct building *b, const struct node *result, struct err *err)
{
	_cleanup_(template_done) struct template t = { .kind = TEMPLATE_BUILT };
	_cleanup_(strv_done) struct strv old = { 0 };
	struct tenant tenant;
	int r = fill_row(b, result, &t);

	if (r == 0 && store_get_tenant(b->serve->store, b->tenant, &tenant) == 0)
		r = registry_check_image(b->serve->registry, &tenant, t.bytes, err);
	r = r < 0 ? r : template_put(b->serve->store, &t, &old, err);
	for (size_t i = 0; i < old.count; i++)
		snapshot_remove_image(b->serve, old.items[i]);
	return r < 0 && !err->code ? err_errno(err, r, "template") : r;
}

static void building_free(struct building *b)
{
	struct builds *builds = b->serve->build_state;
	struct building **at = &builds->first;

	while (*at && *at != b)
		at = &(*at)->next;
	if (*at) {
		*at = b->next;
		builds->count--;
	}
	registry_unreserve(b->serve->registry, b->tenant, b->cpu, b->memory, b->disk);
	node_free(b->meta);
	free(b);
}

static void on_built(void *of, const struct fleet_output *output)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	_cleanup_(node_freep) struct node *result = NULL;
	struct building *b = of;
	struct err err = ERR_NONE;
	char path[PATH_MAX];

	if (build_read_log(b->id, &text) == 0)
		result = build_last_line(&text, "result");
	if (!result || result->kind != NODE_MAP) {
		finish(b, output->err[0] ? output->err : "the build was cut short", "finalize");
		snapshot_remove_image(b->serve, b->image);
	} else if (text_of(result, "error")[0]) {
		finish(b, text_of(result, "error"), text_of(result, "step"));
	} else if (put_row(b, result, &err) < 0) {
		finish(b, err.text, "finalize");
		snapshot_remove_image(b->serve, b->image);
	} else {
		finish(b, NULL, NULL);
	}
	if (build_path("builds", b->id, ".plan", path, &err) == 0)
		unlink(path);
	building_free(b);
}

/* --- its steps --- */

/* What clients call the base image is what is always here. */
static bool is_base(const char *image)
{
	static const char *const names[] = { "e2bdev/base", "e2bdev/base:latest",
					     "docker.io/e2bdev/base:latest", MAKE_BASE };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_equal(image, names[i]))
			return true;
	return false;
}

/* The template that it begins with, into the plan. -ENOENT with words: nothing can be built. */
static int begin_with(const struct request *q, struct node *plan, struct err *err)
{
	_cleanup_(template_done) struct template t = { 0 };
	const char *image = body_text_of(q, "fromImage", "");
	const char *word = body_text_of(q, "fromTemplate", image);

	if (!word[0] || is_base(word))
		word = MAKE_BASE;
	if (make_find_template(q->serve, q->tenant_name, word, &t) < 0)
		return err_set(err, -ENOENT,
			       "\"%.200s\" is no template here, and images are not fetched from "
			       "registries: begin with \"base\", or build it with \"brig template "
			       "build\"",
			       word);
	return node_set(plan, "template", template_to_node(&t));
}

static int copy_step(const struct request *q, const struct node *from, struct node *steps,
		     struct err *err)
{
	_cleanup_(node_freep) struct node *step = node_map();
	const struct node *args = node_get(from, "args");
	const char *hash = text_of(from, "filesHash");
	char path[PATH_MAX];
	int r = step ? node_set(step, "type", node_string(text_of(from, "type"))) : -ENOMEM;

	if (r == 0 && args && args->kind != NODE_NULL)
		r = node_set(step, "args", node_copy(args));
	if (r == 0 && hash[0]) {
		if (!build_hash_is_valid(hash))
			return err_set(err, -EINVAL, "\"filesHash\" is no SHA-256");
		r = build_upload_path(q->tenant_name, hash, path, err);
		r = r < 0 ? r : node_set(step, "archive", node_string(path));
	}
	return r < 0 ? r : node_add(steps, take_ptr(&step));
}

static int copy_steps(const struct request *q, struct node *plan, struct err *err)
{
	const char *const commands[] = { "startCmd", "readyCmd" };
	struct node *steps = node_list();
	const struct node *list = NULL;
	int r = steps ? wish_list(q->body, "steps", &list, err) : -ENOMEM;

	if (r == 0 && list && list->count > STEPS_MAX)
		r = err_set(err, -EINVAL, "more than %d steps", STEPS_MAX);
	for (size_t i = 0; list && i < list->count && r == 0; i++)
		r = copy_step(q, list->entries[i].value, steps, err);
	if (r < 0) {
		node_free(steps);
		return r;
	}
	r = node_set(plan, "steps", steps);
	for (size_t i = 0; i < ARRAY_SIZE(commands) && r == 0; i++)
		if (body_text_of(q, commands[i], "")[0])
			r = node_set(plan, commands[i],
				     node_string(body_text_of(q, commands[i], "")));
	return r;
}

/* The sandbox of the build is bounded as any other of the tenant's. */
static int add_options(const struct request *q, const struct held *held, struct node *plan)
{
	const char *policy = make_policy_name(q->serve, q->tenant);
	const char *const words[] = { "--policy", policy,
				      "--within", policy,
				      "--slice",  q->tenant_name,
				      "--tag",    fleet_tag(q->serve->fleet) };
	_cleanup_(strv_done) struct strv options = { 0 };
	_cleanup_(node_freep) struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		r = strv_add(&options, words[i]);
	r = r < 0 ? r : make_size_options(held, &options);
	if (r == 0 && q->tenant->floor[0]) {
		r = strv_add(&options, "--at-least");
		r = r < 0 ? r : strv_add(&options, q->tenant->floor);
	}
	for (size_t i = 0; i < options.count && r == 0; i++)
		r = node_add(list, node_string(options.items[i]));
	return r < 0 ? r : node_set(plan, "options", take_ptr(&list));
}

/* Makes the files; the child finds the log there. */
static int write_plan(struct building *b, struct node *plan, char path[static PATH_MAX],
		      struct err *err)
{
	char log[PATH_MAX];
	int r = build_path("builds", b->id, ".log", log, err);

	r = r < 0 ? r : build_path("builds", b->id, ".plan", path, err);
	r = r < 0 ? r : node_set(plan, "log", node_string(log));
	r = r < 0 ? r : node_set(plan, "image", node_string(b->image));
	r = r < 0 ? r : write_file(path, plan, err);
	return r < 0 ? r : write_file(log, NULL, err);
}

static int run(struct building *b, struct node *plan, struct err *err)
{
	char path[PATH_MAX];
	char *words[] = { (char *)(uintptr_t) "template", (char *)(uintptr_t) "build",
			  (char *)(uintptr_t) "--plan", path, NULL };
	int r = snapshot_image_name(SNAPSHOT_BUILD_PREFIX, b->image);

	r = r < 0 ? r : write_plan(b, plan, path, err);
	return r < 0 ? r : fleet_run(b->serve->fleet, words, on_built, b, NULL, err);
}

static int start(struct request *q, const char *id, struct node **meta, struct err *err,
		 unsigned int *wait_s)
{
	_cleanup_(node_freep) struct node *plan = node_map();
	struct builds *builds = builds_of(q->serve);
	struct building *b = calloc(1, sizeof(*b));
	struct held held = { .cpu = (double)number_of(*meta, "cpu"),
			     .memory = (uint64_t)number_of(*meta, "memory") };
	int r = plan && builds && b ? copy_steps(q, plan, err) : -ENOMEM;
	struct err why = ERR_NONE;
	bool has_base;

	r = r < 0 ? r : make_sizes(q->serve, q->tenant, &held, err);
	r = r < 0 ? r : add_options(q, &held, plan);
	if (r == 0 && builds->count >= RUNNING_MAX) {
		*wait_s = 10;
		r = err_set(err, -EDQUOT, "%d builds run already: try again later", RUNNING_MAX);
	}
	r = r < 0 ? r
		  : registry_reserve(q->serve->registry, q->tenant, held.cpu, held.memory,
				     held.disk, wait_s, err);
	if (r < 0) {
		free(b);
		return r;
	}
	*b = (struct building){ .next = builds->first,
				.serve = q->serve,
				.cpu = held.cpu,
				.memory = held.memory,
				.disk = held.disk,
				.meta = take_ptr(meta) };
	snprintf(b->id, sizeof(b->id), "%s", id);
	snprintf(b->tenant, sizeof(b->tenant), "%s", q->tenant_name);
	builds->first = b;
	builds->count++;
	has_base = begin_with(q, plan, &why) == 0;
	if (has_base) {
		r = run(b, plan, err);
	} else {
		/* That is told as the end of the build: clients look there. */
		finish(b, why.text[0] ? why.text : "out of memory", "base");
	}
	if (r < 0 || !has_base)
		building_free(b);
	return r;
}

void template_start(struct request *q)
{
	_cleanup_(node_freep) struct node *meta = NULL;
	_cleanup_(buf_done) struct buf log = BUF(64 * MIB);
	const char *id = q->parameter[1];
	struct err err = ERR_NONE;
	unsigned int wait_s = 0;
	int r;

	if (build_find(q, q->parameter[0], id, &meta) < 0) {
		refuse(q, 404, "there is no build \"%.40s\" of this template", id);
		return;
	}
	if (build_read_log(id, &log) == 0) {
		refuse(q, 409, "this build has begun already");
		return;
	}
	r = start(q, id, &meta, &err, &wait_s);
	if (r == 0)
		answer_empty(q, 202);
	else if (err.code == -EDQUOT)
		refuse_full(q, wait_s, &err);
	else
		refuse_err(q, err.code ? &err : (err_errno(&err, r, "build"), &err));
}
