/* template.c - brig template: build, list and remove what sandboxes are made from by name */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/build.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/serve.h"
#include "data/schema.h"
#include "warden/program.h"

#define IMAGE_PREFIX "template."
#define PLAN_MAX     (16 * MIB)
#define ANSWER_MAX   (16 * MIB)

static const struct option template_options[] = {
	{ 0, "name", "NAME", "what clients call it; one of this name is replaced" },
	{ 0, "from", "TEMPLATE", "begin with this template, whatever FROM says" },
	{ 0, "tenant", "NAME", "for this tenant alone (default: for all)" },
	{ 0, "plan", "FILE", "of brig serve: the steps as JSON; what happens is told as JSON" },
	{ 0, "json", NULL, "print JSON" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

struct request {
	const char *name, *from, *tenant, *plan;
	bool is_json, is_schema, is_help;
	char **words;
	int count;
};

static const char *text_of(const struct node *map, const char *key, const char *fallback)
{
	const struct node *value = node_get(map, key);

	return value && value->kind == NODE_STRING ? value->text : fallback;
}

static int copy_text(char **place, const char *text)
{
	free(*place);
	*place = strdup(text);
	return *place ? 0 : -ENOMEM;
}

/* --- brig-serve, which has the store --- */

/* Takes the request; ret_answer: what it printed. */
static int ask(struct build *build, const char *verb, struct node *taken, struct node **ret_answer,
	       struct err *err)
{
	_cleanup_(node_freep) struct node *request = taken;
	_cleanup_(buf_done) struct buf text = BUF(ANSWER_MAX), out = BUF(ANSWER_MAX);
	const struct json_bounds bounds = { .bytes = ANSWER_MAX, .values = 1 << 20, .depth = 16 };
	char path[PATH_MAX], *argv[3] = { path };
	int r = request ? node_set(request, "verb", node_string(verb)) : -ENOMEM;

	r = r < 0 ? r : json_write(request, true, &text);
	if (r < 0)
		return err_set(err, r, "the request is too long");
	r = program_find("brig-serve", path, err);
	if (r < 0)
		return r;
	argv[1] = (char *)(uintptr_t)buf_text(&text);
	r = build_child(build, path, argv, -EBADF, &out, err);
	return r < 0 ? r : json_read(buf_text(&out), out.len, &bounds, ret_answer, err);
}

static struct node *request_for(const struct request *request, const char *name)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "tenant", node_string(request->tenant ? request->tenant : ""))
		    : -ENOMEM;

	r = r < 0 ? r : node_set(map, "name", node_string(name));
	return r < 0 ? NULL : take_ptr(&map);
}

/* --- build --- */

/* "base" is the host as it is. */
static int begin_with(struct build *build, const struct request *request, const char *from,
		      struct node **ret_template, struct err *err)
{
	struct err why = ERR_NONE;
	int r;

	if (str_equal(from, BUILD_BASE))
		return 0;
	r = ask(build, "template-get", request_for(request, from), ret_template, &why);
	if (r < 0)
		return err_set(err, -ENOENT,
			       "FROM %.100s: there is no template of this name here (brig template "
			       "ls), and images are not fetched from registries; \"" BUILD_BASE
			       "\" is always there",
			       from);
	return copy_text(&build->from_image, text_of(*ret_template, "image", ""));
}

static int take_template(struct build *build, const struct node *t)
{
	const struct node *env = node_get(t, "env");
	int r = 0;

	if (env && env->kind == NODE_MAP) {
		node_free(build->env);
		build->env = node_copy(env);
		r = build->env ? 0 : -ENOMEM;
	}
	if (r == 0 && text_of(t, "workdir", "")[0])
		r = copy_text(&build->workdir, t ? text_of(t, "workdir", "") : "");
	if (r == 0 && text_of(t, "user", "")[0])
		r = copy_text(&build->user, text_of(t, "user", ""));
	return r;
}

static int name_image(struct build *build, const char *prefix)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char bytes[20];
	size_t len = strlen(prefix);

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	snprintf(build->image, sizeof(build->image), "%s", prefix);
	for (size_t i = 0; i < sizeof(bytes); i++)
		build->image[len + i] = letters[bytes[i] % 32];
	build->image[len + sizeof(bytes)] = '\0';
	return 0;
}

/* What a sandbox from it has to know. base: the template that it began with, or NULL. */
static struct node *describe(const struct build *build, const struct node *base)
{
	_cleanup_(node_freep) struct node *map = node_map();
	const struct build_plan *plan = build->plan;
	const char *start = plan->start ? plan->start : text_of(base, "start", "");
	const char *ready = plan->ready ? plan->ready : text_of(base, "ready", "");
	int r = map ? node_set(map, "image", node_string(build->image)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "bytes", node_int((int64_t)build->bytes));
	r = r < 0 ? r : node_set(map, "env", node_copy(build->env));
	r = r < 0 ? r
		  : node_set(map, "workdir",
			     node_string(build->has_workdir ? build->workdir
							    : text_of(base, "workdir", "")));
	r = r < 0 ? r
		  : node_set(map, "user",
			     node_string(build->has_user ? build->user
							 : text_of(base, "user", "")));
	r = r < 0 ? r : node_set(map, "start", node_string(start));
	r = r < 0 ? r : node_set(map, "ready", node_string(ready));
	return r < 0 ? NULL : take_ptr(&map);
}

static int put(struct build *build, const struct request *request, const struct node *base,
	       struct node **ret_answer, struct err *err)
{
	struct node *row = describe(build, base);
	int r = row ? node_set(row, "name", node_string(request->name)) : -ENOMEM;

	r = r < 0 ? r
		  : node_set(row, "tenant", node_string(request->tenant ? request->tenant : ""));
	if (r < 0) {
		node_free(row);
		return err_set(err, r, "out of memory");
	}
	return ask(build, "template-put", row, ret_answer, err);
}

static void remove_image(struct build *build, const char *image)
{
	char *words[] = { (char *)(uintptr_t) "brig", (char *)(uintptr_t) "image",
			  (char *)(uintptr_t) "rm", (char *)(uintptr_t)image, NULL };
	_cleanup_(buf_done) struct buf out = BUF(64 * KIB);
	struct err err = ERR_NONE;

	if (image[0] && build_child(build, NULL, words, -EBADF, &out, &err) < 0)
		build_say(build, "warn", "brig: image %s was not removed: %s", image, err.text);
}

/* A directory with a Dockerfile in it, or a Dockerfile, whose directory is the context. */
static int find_file(struct build *build, const char *word, char path[static PATH_MAX],
		     struct err *err)
{
	struct stat st;
	char *slash;
	int r;

	if (stat(word, &st) < 0)
		return err_errno(err, -errno, "\"%s\"", word);
	if (snprintf(path, PATH_MAX, "%s%s", word, S_ISDIR(st.st_mode) ? "/Dockerfile" : "") >=
	    PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "\"%.100s\": the path is too long", word);
	if (S_ISDIR(st.st_mode))
		return copy_text(&build->context, word);
	r = copy_text(&build->context, word);
	if (r < 0)
		return r;
	slash = strrchr(build->context, '/');
	if (slash)
		slash[slash == build->context] = '\0';
	return slash ? 0 : copy_text(&build->context, ".");
}

static int read_file(const char *path, size_t max, struct buf *text, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	text->max = max;
	r = r < 0 ? r : fd_read_all(fd, text);
	return r < 0 ? err_errno(err, r, "\"%s\"", path) : 0;
}

static int read_plan(struct build *build, const char *word, struct build_plan *plan,
		     struct err *err)
{
	_cleanup_(buf_done) struct buf text = BUF(0);
	char path[PATH_MAX];
	int r = find_file(build, word, path, err);

	r = r < 0 ? r : read_file(path, DOCKERFILE_MAX, &text, err);
	r = r < 0 ? r : dockerfile_read(path, buf_text(&text), text.len, plan, err);
	for (size_t i = 0; i < plan->notes.count && r == 0; i++)
		build_say(build, "info", "brig: %s: %s", path, plan->notes.items[i]);
	return r;
}

/* As in an image of Docker's: root in "/", unless the file says otherwise. */
static int prepare(struct build *build, const struct request *request,
		   const struct build_plan *plan, struct node **ret_base, struct err *err)
{
	int r = copy_text(&build->user, "root");

	r = r < 0 ? r : copy_text(&build->workdir, "/");
	r = r < 0 ? r : strv_add(&build->options, "--policy");
	r = r < 0 ? r : strv_add(&build->options, "interpreter");
	r = r < 0 ? r : name_image(build, IMAGE_PREFIX);
	if (r < 0)
		return err_errno(err, r, "template");
	build->plan = plan;
	build->copies_as = "root";
	r = begin_with(build, request, request->from ? request->from : plan->from, ret_base, err);
	return r < 0 || !*ret_base ? r : take_template(build, *ret_base);
}

static int print_built(const struct request *request, const struct build *build,
		       const struct node *row)
{
	char amount[32];

	if (request->is_json)
		return print_json(row);
	format_amount(build->bytes, amount, sizeof(amount));
	printf("%s  %s\n", request->name, amount);
	return fflush(stdout) == 0 ? 0 : complain_text("cannot write");
}

static int template_build(const struct request *request)
{
	_cleanup_(build_plan_done) struct build_plan plan = BUILD_PLAN;
	_cleanup_(build_done) struct build build = BUILD;
	_cleanup_(node_freep) struct node *base = NULL, *answer = NULL;
	struct err err = ERR_NONE;
	int r;

	if (!request->name)
		return complain_text("template build: under which name? (--name NAME)");
	build_watch_signals();
	r = read_plan(&build, request->words[0], &plan, &err);
	r = r < 0 ? r : prepare(&build, request, &plan, &base, &err);
	r = r < 0 ? r : build_run(&build, &err);
	if (r == 0) {
		r = put(&build, request, base, &answer, &err);
		remove_image(&build, r < 0 ? build.image : text_of(answer, "old_image", ""));
	}
	return r < 0 ? complain(&err) : print_built(request, &build, node_get(answer, "template"));
}

/* --- build for the daemon --- */

static int take_options(struct build *build, const struct node *options)
{
	int r = 0;

	for (size_t i = 0; options && options->kind == NODE_LIST && i < options->count && r == 0;
	     i++)
		if (options->entries[i].value->kind == NODE_STRING)
			r = strv_add(&build->options, options->entries[i].value->text);
	return r;
}

static int prepare_plan(struct build *build, const struct node *plan)
{
	const struct node *base = node_get(plan, "template");
	int r = copy_text(&build->user, BUILD_DEFAULT_USER);

	r = r < 0 ? r : copy_text(&build->workdir, "/home/" BUILD_DEFAULT_USER);
	r = r < 0 ? r : take_options(build, node_get(plan, "options"));
	r = r < 0 ? r : copy_text(&build->from_image, text_of(base, "image", ""));
	r = r < 0 || !base ? r : take_template(build, base);
	build->shell = "/bin/bash";
	snprintf(build->image, sizeof(build->image), "%s", text_of(plan, "image", ""));
	return r;
}

static void tell_result(struct build *build, const struct node *plan, int code,
			const struct err *err)
{
	struct node *result;

	if (code == 0) {
		result = describe(build, node_get(plan, "template"));
	} else {
		build_say(build, "error", "%s", err->text);
		result = node_map();
		if (result && (node_set(result, "error", node_string(err->text)) < 0 ||
			       node_set(result, "step", node_string(build->step)) < 0)) {
			node_free(result);
			result = NULL;
		}
	}
	build_result(build, result ? result : node_null());
}

/* The daemon may be gone before we asked to be told. */
static void end_with_parent(void)
{
	pid_t parent = getppid();

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (parent == 1 || getppid() != parent)
		raise(SIGTERM);
}

static int template_plan(const struct request *request)
{
	const struct json_bounds bounds = { .bytes = PLAN_MAX, .values = 1 << 18, .depth = 32 };
	_cleanup_(build_plan_done) struct build_plan plan = BUILD_PLAN;
	_cleanup_(build_done) struct build build = BUILD;
	_cleanup_(buf_done) struct buf text = BUF(0);
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_close_ int log = -EBADF;
	struct err err = ERR_NONE;
	const char *path;
	int r;

	build_watch_signals();
	end_with_parent();
	r = read_file(request->plan, PLAN_MAX, &text, &err);
	r = r < 0 ? r : json_read(buf_text(&text), text.len, &bounds, &node, &err);
	if (r < 0)
		return complain(&err);
	path = text_of(node, "log", NULL);
	log = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
		   : fcntl(1, F_DUPFD_CLOEXEC, 3);
	if (log < 0)
		return complain_text("the log cannot be opened");
	build.log = log;
	build.plan = &plan;
	snprintf(build.step, sizeof(build.step), "base");
	r = build_plan_read(node, &plan, &err);
	r = r < 0 ? r : prepare_plan(&build, node);
	if (r == 0 && !build.image[0])
		r = name_image(&build, IMAGE_PREFIX);
	r = r < 0 ? r : build_run(&build, &err);
	if (r < 0 && !err.code)
		err_errno(&err, r, "build");
	tell_result(&build, node, r, &err);
	return r < 0 ? EXIT_BRIG : 0;
}

/* --- ls, rm --- */

static int print_list(const struct node *list)
{
	for (size_t i = 0; list && i < list->count; i++) {
		const struct node *t = list->entries[i].value, *bytes = node_get(t, "bytes");
		const struct node *updated = node_get(t, "updated_ms");
		time_t seconds = updated ? (time_t)(updated->number / 1000) : 0;
		char when[32] = "?", amount[32];
		struct tm tm;

		format_amount(bytes ? (uint64_t)bytes->number : 0, amount, sizeof(amount));
		if (localtime_r(&seconds, &tm))
			strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
		printf("%-24s %-12s %-8s  %s  %9s  %s\n", text_of(t, "name", ""),
		       text_of(t, "tenant", "")[0] ? text_of(t, "tenant", "") : "(all)",
		       text_of(t, "kind", ""), when, amount, text_of(t, "id", ""));
	}
	return fflush(stdout) == 0 ? 0 : complain_text("cannot write");
}

static int template_ls(const struct request *request)
{
	_cleanup_(build_done) struct build build = BUILD;
	_cleanup_(node_freep) struct node *answer = NULL;
	struct err err = ERR_NONE;

	if (ask(&build, "template-list", request_for(request, ""), &answer, &err) < 0)
		return complain(&err);
	return request->is_json ? print_json(answer) : print_list(node_get(answer, "templates"));
}

static int template_rm(const struct request *request)
{
	_cleanup_(build_done) struct build build = BUILD;
	int status = 0;

	for (int i = 0; i < request->count; i++) {
		_cleanup_(node_freep) struct node *answer = NULL;
		struct err err = ERR_NONE;

		if (ask(&build, "template-delete", request_for(request, request->words[i]), &answer,
			&err) < 0)
			status = complain(&err);
		else
			remove_image(&build, text_of(answer, "old_image", ""));
	}
	return status;
}

static const struct schema_part row_parts[] = {
	{ "id", "string", false },          { "name", "string", false },
	{ "tenant", "string", false },      { "kind", "string", false },
	{ "image", "string", false },       { "workdir", "string", false },
	{ "user", "string", false },        { "start", "string", false },
	{ "ready", "string", false },       { "bytes", "integer", false },
	{ "created_ms", "integer", false }, { "updated_ms", "integer", false },
};

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig template ls");
	int r = schema_add(document, "templates",
			   schema_list(schema_parts(row_parts, ARRAY_SIZE(row_parts))), true);

	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int run(struct request *request, const char *word)
{
	static const struct {
		const char *name;
		int (*run)(const struct request *request);
		int min, max;
		const char *missing;
	} parts[] = {
		{ "build", template_build, 1, 1, "from which directory, or Dockerfile?" },
		{ "ls", template_ls, 0, 0, "" },
		{ "rm", template_rm, 1, INT32_MAX, "which template? (brig template ls)" },
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(parts) && !str_equal(word, parts[i].name))
		i++;
	if (i == ARRAY_SIZE(parts))
		return complain_text("template: \"%.40s\" is none of: build, ls, rm", word);
	if (i == 0 && request->plan && request->count == 0)
		return template_plan(request);
	if (request->count < parts[i].min)
		return complain_text("template %s: %s", word, parts[i].missing);
	if (request->count > parts[i].max)
		return complain_text("template %s: too many words: \"%.40s\"", word,
				     request->words[parts[i].max]);
	return parts[i].run(request);
}

static void take_option(struct request *request, const char *name, const char *value)
{
	const struct {
		const char *name;
		const char **text;
		bool *flag;
	} places[] = {
		{ "name", &request->name, NULL },     { "from", &request->from, NULL },
		{ "tenant", &request->tenant, NULL }, { "plan", &request->plan, NULL },
		{ "json", NULL, &request->is_json },  { "schema", NULL, &request->is_schema },
		{ "help", NULL, &request->is_help },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (str_equal(name, places[i].name)) {
			if (places[i].text)
				*places[i].text = value;
			else
				*places[i].flag = true;
		}
}

/* Options may stand before, between and behind the words, which move to the front. */
static int verb_template_main(int argc, char **argv)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	struct request request = { .words = argv + 1 };
	const char *name, *value;
	struct err err = ERR_NONE;
	int r, count = 0;

	while (args.at < argc) {
		r = args_next(&args, &verb_template, &name, &value, &err);
		if (r < 0)
			return complain(&err);
		if (r > 0)
			take_option(&request, name, value);
		else if (args.at < argc)
			argv[count++] = argv[args.at++];
	}
	if (request.is_help) {
		print_help(&verb_template);
		return 0;
	}
	if (request.is_schema)
		return print_schema();
	request.count = MAX(count - 1, 0);
	return run(&request, count > 0 ? argv[0] : "ls");
}

const struct verb verb_template = {
	.name = "template",
	.usage = "build DIR|FILE --name NAME [options] | ls | rm NAME... [--json]",
	.summary = "build, list and remove what clients of \"brig serve\" make sandboxes from",
	.text = "A template is an image with a name, variables, a directory, a user and a start "
		"command. build does the steps of a Dockerfile in a sandbox of its own, with the "
		"policy \"interpreter\", and keeps what they left; at the first that fails it "
		"ends, and nothing is left. FROM names another template, or \"base\": this host's "
		"programs. Images of registries are not fetched.\n\n"
		"RUN, COPY, ADD (of files), ENV, ARG, WORKDIR, USER, CMD and ENTRYPOINT are done; "
		"EXPOSE, LABEL and their like are passed over; several stages, heredocs and COPY "
		"--from are refused. .dockerignore is honoured, and links out of the directory are "
		"not followed. CMD and ENTRYPOINT become the start command, which is started in "
		"each sandbox when it is made.\n\n"
		"No daemon is needed. One that runs on the same state directory offers the "
		"template at once. rm takes the name away; sandboxes that run keep their files.",
	.example = "brig template build . --name tools\nbrig template ls\nbrig template rm tools",
	.options = template_options,
	.run = verb_template_main,
};
