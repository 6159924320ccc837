/*
 * v1_processes.c - what runs in a sandbox, and signals to it
 *
 * Two sources: init knows what it was asked to start, with a number for each; the host's /proc knows all that came
 * of it, as a tree below the warden. The latter is read from outside, so nothing inside can hide from it. Names and arguments
 * are what the programs say of themselves.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "serve/agent.h"
#include "serve/v1.h"
#include "warden/roster.h"

#define PROCESSES_MAX 256 /* that are looked at: each takes some calls, and others wait meanwhile */
#define THREADS_MAX   4096
#define COMMAND_MAX   4096
#define STARTED_MAX   1024
#define DEPTH_MAX     2 /* warden, keeper, init: below are the sandbox's own */

struct started {
	uint64_t number, pid;
};

struct asking {
	struct request *q;
	call_id call;
	struct started started[STARTED_MAX];
	size_t count;
};

static void asking_gone(struct request *q)
{
	struct asking *asking = q->of;

	asking->call = call_cancel(q->serve->fleet, asking->call);
	free(asking);
}

/* --- the tree --- */

struct process {
	pid_t pid, parent; /* of the host */
	uint64_t inside;   /* the pid that the sandbox knows */
};

struct tree {
	struct process items[PROCESSES_MAX];
	size_t count, threads;
	bool is_truncated;
};

static int read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return file_read_at(AT_FDCWD, path, text, size);
}

/*
 * The last number of NSpid: that of the innermost namespace. Not from its status, where as many groups as it likes
 * stand before.
 */
static uint64_t inner_pid(pid_t pid)
{
	_cleanup_close_ int fd = sys_pidfd_open(pid);
	char path[48], text[4096], *line, *last;
	long number;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fd < 0 || file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0 ||
	    !(line = strstr(text, "\nNSpid:")))
		return 0;
	line++;
	line[strcspn(line, "\n")] = '\0';
	last = strrchr(line, '\t');
	number = last ? strtol(last + 1, NULL, 10) : 0;
	return number > 0 ? (uint64_t)number : 0;
}

static void add_children(struct tree *tree, pid_t parent, unsigned int above);

/* Children are listed by the thread that started them. */
static void add_children_of(struct tree *tree, pid_t parent, const char *thread, unsigned int above)
{
	char name[64], text[16 * 1024], *at = text, *end;

	snprintf(name, sizeof(name), "task/%.20s/children", thread);
	if (read_proc(parent, name, text, sizeof(text)) < 0)
		return;
	for (;;) {
		pid_t pid = (pid_t)strtol(at, &end, 10);

		if (end == at)
			return;
		at = end;
		if (above > 0)
			add_children(tree, pid, above - 1);
		else if (tree->count == PROCESSES_MAX)
			tree->is_truncated = true;
		else
			tree->items[tree->count++] =
				(struct process){ .pid = pid, .parent = parent };
	}
}

/* Breadth first; the list is its own queue. Levels above the sandbox's own are passed through. */
static void add_children(struct tree *tree, pid_t parent, unsigned int above)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
	dir = opendir(path);
	while (dir && !tree->is_truncated && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (tree->threads++ == THREADS_MAX)
			tree->is_truncated = true;
		else
			add_children_of(tree, parent, entry->d_name, above);
	}
	if (dir)
		closedir(dir);
}

static void read_tree(struct tree *tree, pid_t warden)
{
	add_children(tree, warden, DEPTH_MAX);
	for (size_t i = 0; i < tree->count; i++) {
		tree->items[i].inside = inner_pid(tree->items[i].pid);
		add_children(tree, tree->items[i].pid, 0);
	}
}

static uint64_t inside_of(const struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->items[i].pid == pid)
			return tree->items[i].inside;
	return 0;
}

/* Arguments with NULs between them, made fit for JSON by its writer. */
static struct node *command_node(pid_t pid)
{
	_cleanup_close_ int fd = -EBADF;
	struct node *list = node_list();
	char path[64], text[COMMAND_MAX + 1];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, COMMAND_MAX);
	text[len > 0 ? len : 0] = '\0';
	for (const char *at = text; len > 0 && at < text + len; at += strlen(at) + 1) {
		char argument[COMMAND_MAX + 1];

		snprintf(argument, sizeof(argument), "%s", at);
		if (!is_utf8(argument, strlen(argument)))
			str_make_printable(argument);
		if (node_add(list, node_string(argument)) < 0) {
			node_free(list);
			return NULL;
		}
	}
	return list;
}

struct figures {
	char state;
	uint64_t cpu_ms, memory;
};

/* Behind the name, which may have any bytes: fields 3, 14, 15 and 24. */
static bool read_figures(pid_t pid, struct figures *ret)
{
	unsigned long long user, system;
	long long resident;
	char text[1024], *p;

	if (read_proc(pid, "stat", text, sizeof(text)) < 0 || !(p = strrchr(text, ')')))
		return false;
	if (sscanf(p + 1,
		   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d "
		   "%*d %*u %*u %lld",
		   &ret->state, &user, &system, &resident) != 4)
		return false;
	ret->cpu_ms = (user + system) * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK);
	ret->memory = resident < 0 ? 0 : (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

static struct node *number_of(const struct asking *asking, uint64_t pid)
{
	for (size_t i = 0; i < asking->count; i++)
		if (asking->started[i].pid == pid)
			return node_int((int64_t)asking->started[i].number);
	return node_null();
}

static struct node *process_node(const struct asking *asking, const struct tree *tree,
				 const struct process *p, const struct figures *figures)
{
	struct node *map = node_map();
	uint64_t parent = inside_of(tree, p->parent);
	const char state[2] = { figures->state, '\0' };
	int r = node_set(map, "pid", node_int((int64_t)p->inside));

	r = r < 0 ? r : node_set(map, "parent", parent ? node_int((int64_t)parent) : node_null());
	r = r < 0 ? r : node_set(map, "number", number_of(asking, p->inside));
	r = r < 0 ? r : node_set(map, "command", command_node(p->pid));
	r = r < 0 ? r : node_set(map, "state", node_string(state));
	r = r < 0 ? r : node_set(map, "cpu_ms", node_int((int64_t)figures->cpu_ms));
	r = r < 0 ? r : node_set(map, "memory", node_int((int64_t)figures->memory));
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

static struct node *tree_node(const struct asking *asking, const struct tree *tree)
{
	_cleanup_(node_freep) struct node *list = node_list();
	struct node *map = node_map();

	for (size_t i = 0; i < tree->count; i++) {
		struct figures figures;

		/* It may have ended since. */
		if (!tree->items[i].inside || !read_figures(tree->items[i].pid, &figures))
			continue;
		if (node_add(list, process_node(asking, tree, &tree->items[i], &figures)) < 0) {
			node_free(map);
			return NULL;
		}
	}
	if (node_set(map, "processes", take_ptr(&list)) == 0 &&
	    node_set(map, "truncated", node_bool(tree->is_truncated)) == 0)
		return map;
	node_free(map);
	return NULL;
}

/* The pid of the warden, if it is still the one that wrote its manifest. */
static pid_t find_warden(const char *id)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	struct err err = ERR_NONE;
	bool is_alive = false;

	if (roster_read(id, &manifest, &is_alive, &err) < 0 || !is_alive)
		return 0;
	return (pid_t)doc_number(manifest, "pid", 0);
}

static void finish(struct asking *asking)
{
	struct request *q = asking->q;
	_cleanup_free_ struct tree *tree = NULL;
	pid_t warden = find_warden(q->sandbox);

	if (!warden) {
		answer_error(q, 502, "the sandbox ended meanwhile");
		return;
	}
	tree = calloc(1, sizeof(*tree));
	if (!tree) {
		answer_error(q, 503, "out of memory");
		return;
	}
	read_tree(tree, warden);
	answer_take_json(q, 200, tree_node(asking, tree));
}

static void on_found(void *of, struct message *m, bool is_last)
{
	struct asking *asking = of;

	if (m->type == MESSAGE_PROCESS_IS && asking->count < STARTED_MAX &&
	    (message_number(m, FIELD_FLAGS, 0) & PROCESS_RUNNING))
		asking->started[asking->count++] =
			(struct started){ .number = message_number(m, FIELD_PROCESS, 0),
					  .pid = message_number(m, FIELD_PID, 0) };
	if (!is_last)
		return;
	asking->call = 0;
	finish(asking);
}

static struct asking *asking_begin(struct request *q)
{
	struct asking *asking = calloc(1, sizeof(*asking));

	if (!asking) {
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	asking->q = q;
	q->of = asking;
	q->gone = asking_gone;
	return asking;
}

void v1_processes(struct request *q)
{
	struct asking *asking = asking_begin(q);
	struct draft d = DRAFT(MESSAGE_PROCESSES, 0);
	struct err err = ERR_NONE;

	if (!asking)
		return;
	/* init of a sandbox that is paused cannot answer; the tree is there all the same. */
	if (q->held->state == HELD_PAUSED || call_start(q->serve->fleet, q->sandbox, &d, NULL, 0,
							on_found, asking, &asking->call, &err) < 0)
		finish(asking);
}

/* --- signals --- */

static const struct {
	const char *name;
	int signal;
} signals[] = {
	{ "TERM", SIGTERM }, { "KILL", SIGKILL }, { "INT", SIGINT },
	{ "HUP", SIGHUP },   { "QUIT", SIGQUIT }, { "USR1", SIGUSR1 },
	{ "USR2", SIGUSR2 }, { "STOP", SIGSTOP }, { "CONT", SIGCONT },
};

static void on_signalled(void *of, struct message *m, bool is_last)
{
	struct asking *asking = of;
	struct err err = ERR_NONE;

	if (!is_last)
		return;
	asking->call = 0;
	if (m->type != MESSAGE_ERROR) {
		answer_empty(asking->q, 204);
		return;
	}
	(void)agent_error(m, &err);
	if (err.code == -ESRCH || err.code == -ENOENT)
		answer_error(asking->q, 404, "%s", err.text);
	else
		v1_refuse(asking->q, &err);
}

void v1_signal(struct request *q)
{
	const char *name = doc_text(q->body, "signal", "TERM");
	struct draft d = DRAFT(MESSAGE_SIGNAL, 0);
	struct asking *asking;
	struct err err = ERR_NONE;
	uint64_t number;
	char *end;
	size_t i = 0;

	number = strtoull(q->parameter[1], &end, 10);
	if (*end || q->parameter[1][0] < '0' || q->parameter[1][0] > '9') {
		draft_done(&d);
		answer_error(q, 404, "there is no process \"%.20s\"", q->parameter[1]);
		return;
	}
	while (i < ARRAY_SIZE(signals) - 1 && !str_equal(signals[i].name, name))
		i++;
	draft_number(&d, FIELD_PROCESS, number);
	draft_number(&d, FIELD_SIGNAL, (uint64_t)signals[i].signal);
	draft_number(&d, FIELD_FLAGS, SIGNAL_GROUP);
	asking = asking_begin(q);
	if (!asking) {
		draft_done(&d);
		return;
	}
	if (call_start(q->serve->fleet, q->sandbox, &d, NULL, 0, on_signalled, asking,
		       &asking->call, &err) < 0)
		v1_refuse(q, &err);
}
