#include "warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/environment.h"
#include "warden/janitor.h"
#include "warden/warden_internal.h"
#include "warden/watch.h"

#define EXIT_NOT_RECORDED 125

/* Twelve characters of an alphabet without lookalikes: 60 bits that nobody guesses. */
int warden_make_id(char id[static RESULT_ID_SIZE], struct err *err)
{
	static const char alphabet[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char bytes[12];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return err_errno(err, -errno, "cannot get random numbers");
	for (size_t i = 0; i < sizeof(bytes); i++)
		id[i] = alphabet[bytes[i] % 32];
	id[sizeof(bytes)] = '\0';
	return 0;
}

/* Signals that the caller may send us. What he ignores (nohup) stays ignored. */
int warden_open_signals(struct warden *w, struct err *err)
{
	static const int wanted[] = { SIGINT,   SIGTERM, SIGHUP,  SIGQUIT,
				      SIGWINCH, SIGTSTP, SIGCONT, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct sigaction now;

		if (sigaction(wanted[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN &&
		    wanted[i] != SIGCHLD)
			continue;
		sigaddset(&set, wanted[i]);
	}
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	/* A limit on the size of files is an error of the write to the record, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	/* We may write to the terminal from the background, as the program could without brig. */
	signal(SIGTTOU, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_errno(err, -errno, "cannot block signals");
	w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signals < 0 ? err_errno(err, -errno, "cannot wait for signals") : 0;
}

/* The pipes that we made: whoever holds one may also open it again (/dev/stdout). */
static void give_pipes(const struct warden *w)
{
	uint32_t user = w->tj->jail.ids.first ? w->tj->jail.ids.first + IDS_USER : 0;

	for (int i = 0; i < 3 && user; i++)
		if (w->streams.owned[i])
			(void)!fchown(w->streams.stdio[i], user, user);
}

/* In memory of our own: the keeper overwrites what was the command line. */
static int copy_arguments(char *const *argv, struct strv *ret_argv)
{
	int r = 0;

	for (size_t i = 0; argv[i] && r == 0; i++)
		r = strv_add(ret_argv, argv[i]);
	return r;
}

static int start(struct warden *w, const struct strv *env, struct err *err)
{
	_cleanup_(strv_done) struct strv argv = { 0 };
	_cleanup_free_ char **script_argv = NULL;
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct jail_command command = {
		.envp = env->items,
		.search = w->search,
		.stdio = { w->streams.stdio[0], w->streams.stdio[1], w->streams.stdio[2] },
		.null = null,
		.terminal = w->terminal.slave,
		.pass = w->tj->pass,
		.program = w->program,
		.program_is_file = w->program_is_file,
		.channel = w->channel,
	};
	int r = null < 0 ? -errno : copy_arguments(w->request->argv, &argv);

	if (null < 0)
		return err_errno(err, r, "\"/dev/null\"");
	if (r == 0)
		script_argv = calloc(argv.count + 2, sizeof(*script_argv));
	if (!script_argv)
		return err_errno(err, -ENOMEM, "cannot start a process");
	command.argv = argv.items;
	command.script_argv = script_argv;
	give_pipes(w);
	r = keeper_start(&w->tj->jail, &command, &w->keeper, err);
	streams_started(&w->streams, &w->terminal);
	return r;
}

static bool has_cgroup(const struct tier_jail *tj)
{
	for (int i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (tj->jail.cgroup.dir[i] >= 0)
			return true;
	return false;
}

/*
 * A cgroup has to be removed by somebody who survives us, and has the rights: a warden that has shut
 * itself in has not, and a container's keeper neither.
 */
static int hire_janitor(struct tier_jail *tj, struct err *err)
{
	if (!has_cgroup(tj) || !(tj->is_contained || tj->lives || tj->has_gate))
		return 0;
	tj->janitor = janitor_start(&tj->jail.cgroup, err);
	return MIN(tj->janitor, 0);
}

/* Before the keeper is forked, as both have it. */
static int open_ring(struct warden *w, struct err *err)
{
	int r;

	w->witness =
		(struct witness){ .policy = w->request->policy, .tj = w->tj, .result = w->result };
	if (w->tj->record == RECORD_OFF || !w->tj->jail.filter)
		return 0;
	r = record_ring_new(&w->ring);
	if (r < 0)
		return err_errno(err, r, "cannot make room for the record");
	w->tj->jail.ring = w->ring;
	return 0;
}

/* The same for the ways to the network and in from there, where the plan has them. */
static int open_door(struct warden *w, struct err *err)
{
	const struct seclusion seclusion = { .cgroup = &w->tj->jail.cgroup,
					     .scratch = w->tj->jail.scratch.dir,
					     .keeps_files = w->request->keeps_store };
	int r = publish_open(&w->witness, &seclusion, w->request->lives, &w->publish,
			     &w->tj->jail.supply, err);

	if (r < 0 || !w->tj->has_gate)
		return r;
	r = door_open(&w->witness, &seclusion, &w->door, &w->tj->jail.outlet, err);
	if (r < 0 || w->tj->is_contained)
		return r;
	return door_share(&w->door, &w->tj->jail.resolver, err);
}

/*
 * While the sandbox sets itself up, so that nobody waits for the file system. Until then what
 * happens inside waits in the ring; if there is nowhere to write it, the sandbox ends.
 */
static int open_stream(struct warden *w, struct err *err)
{
	const struct trace_request request = { .sandbox = w->result->sandbox,
					       .policy = w->result->policy,
					       .isolation = w->result->isolation,
					       .argv = w->request->argv };
	int r = w->ring ? trace_open(&request, &w->witness.trace, err) : 0;

	if (r < 0)
		warden_kill_keeper(w);
	return r;
}

/* A record that is not whole is told, and is never a success. */
static void close_stream(struct warden *w, struct err *err)
{
	struct trace *trace = w->witness.trace;
	int r = w->witness.failure;

	w->witness.trace = NULL;
	if (!trace)
		return;
	if (r < 0)
		trace_free(trace);
	else
		r = trace_close(trace, reason_names[w->result->reason], w->result->exit_code);
	if (r == 0)
		return;
	w->result->reason = REASON_RECORD;
	if (w->result->exit_code == 0)
		w->result->exit_code = EXIT_NOT_RECORDED;
	err_errno(err, r, "the record of the sandbox could not be written");
}

int warden_begin(struct warden *w, struct err *err)
{
	struct strv *env = &w->env;
	const struct limits *limits = &w->request->policy->limits;
	const struct environment_own own = { w->tj->home, w->tj->temporary, w->tj->user };
	int r = environment_make(w->request->policy, w->request->environ, &own, env);

	if (r < 0)
		return err_errno(err, r, "cannot make the environment");
	report_add(&w->tj->report, "environment", "allow list", "%zu variables", env->count);
	w->started = clock_ms();
	w->wall_deadline = limits->wall == LIMIT_UNSET ? UINT64_MAX : w->started + limits->wall;
	w->next_watch = w->started + WATCH_INTERVAL_MS;
	w->search = environment_get(env, "PATH", "");
	r = hire_janitor(w->tj, err);
	r = r < 0 ? r : open_ring(w, err);
	r = r < 0 ? r : open_door(w, err);
	r = r < 0 ? r : start(w, env, err);
	w->tj->jail.outlet = fd_close(w->tj->jail.outlet);
	w->tj->jail.supply = fd_close(w->tj->jail.supply);
	return r < 0 ? r : open_stream(w, err);
}

int warden_end(struct warden *w, struct err *err)
{
	int r;

	warden_read_record(w);
	r = warden_find_outcome(w, err);
	if (r == 0)
		close_stream(w, err);
	return r;
}

/* From the first open descriptor to the last process. The jail was prepared. */
static int run_prepared(struct warden *w, struct err *err)
{
	int r = warden_begin(w, err);

	if (r < 0)
		return r;
	warden_await_terminal(w);
	terminal_enter(&w->terminal);
	warden_supervise(w);
	terminal_leave(&w->terminal);
	return warden_end(w, err);
}

void warden_close(struct warden *w)
{
	streams_done(&w->streams);
	strv_done(&w->env);
	terminal_done(&w->terminal);
	w->signals = fd_close(w->signals);
	w->keeper.control = fd_close(w->keeper.control);
	door_done(&w->door);
	publish_done(&w->publish);
	trace_free(w->witness.trace);
	record_ring_free(w->ring);
	w->witness.trace = NULL;
	w->ring = NULL;
}

static int open_ends(struct warden *w, struct err *err)
{
	const struct warden_request *request = w->request;
	uint64_t limit = request->policy->limits.output;
	const struct streams_request streams = {
		.capture = request->capture,
		.is_raw = request->is_raw,
		.limit = limit == LIMIT_UNSET ? UINT64_MAX : limit,
		.out = &w->result->out,
		.err = &w->result->err,
	};
	uint64_t capture = limit == LIMIT_UNSET ? CAPTURE_MAX : limit;
	int r = warden_open_signals(w, err);

	w->result->out = BUF(capture);
	w->result->err = BUF(capture);
	r = r < 0 ? r : terminal_open(request->capture ? 0 : 7, &w->terminal, err);
	return r < 0 ? r : streams_open(&streams, &w->terminal, &w->streams, err);
}

struct tier_request warden_tier_request(const struct warden_request *request, const char *id)
{
	return (struct tier_request){ .policy = request->policy,
				      .env = request->env,
				      .id = id,
				      .temporary = request->temporary,
				      .weaken = request->weaken,
				      .keeps_store = request->keeps_store,
				      .lives = request->lives,
				      .slice = request->slice,
				      .owner = request->owner,
				      .from = request->from,
				      .terminal = -EBADF };
}

int warden_plan(const struct warden_request *request, struct tier_jail *ret_tj, struct err *err)
{
	struct tier_request prepare;
	char id[RESULT_ID_SIZE];
	int r = warden_make_id(id, err);

	if (r < 0)
		return r;
	prepare = warden_tier_request(request, id);
	return request->tier->prepare(&prepare, ret_tj, err);
}

/*
 * Programs that are often made the first process of a container and do not reap what is left to
 * them: there a dead child would stay for good.
 */
static bool init_reaps(void)
{
	static const char *const others[] = {
		"sleep", "tail", "cat", "node", "java", "ruby", "php"
	};
	char name[32];

	if (file_read_at(AT_FDCWD, "/proc/1/comm", name, sizeof(name)) < 0 ||
	    str_starts(name, "python"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (str_equal(name, others[i]))
			return false;
	return true;
}

/* Its exit takes its namespaces along, which takes time that nobody has to wait for. */
void warden_leave_keeper(const struct warden *w)
{
	if (w->keeper.pid && (!w->tj->is_contained || !init_reaps()))
		waitpid(w->keeper.pid, NULL, 0);
}

int warden_run(const struct warden_request *request, struct tier_jail *tj,
	       struct result *ret_result, struct err *err)
{
	static struct warden w;
	struct tier_request prepare = warden_tier_request(request, ret_result->sandbox);
	int r;

	w = WARDEN(request, tj, ret_result);
	ret_result->report = &tj->report;
	r = warden_make_id(ret_result->sandbox, err);
	r = r < 0 ? r : open_ends(&w, err);
	if (r == 0) {
		prepare.terminal = w.terminal.slave;
		r = request->tier->prepare(&prepare, tj, err);
	}
	if (r < 0) {
		warden_close(&w);
		return r;
	}
	r = run_prepared(&w, err);
	warden_close(&w);
	/* Last, so that its exit and our tear-down overlap; and always, because not every init
	 * reaps. */
	warden_leave_keeper(&w);
	/* The keeper has removed the private folder, unless that is wanted; if there never was one,
	 * or nothing ran, it is ours to remove. */
	if (!w.keeper.pid || r < 0)
		(void)!scratch_remove(&tj->jail.scratch);
	if (r < 0)
		tier_jail_done(tj);
	return r;
}

/* Old streams are removed when nobody waits for us any more. */
static bool tidy_streams(void)
{
	pid_t pid;

	if (!trace_is_untidy(NULL, 0))
		return false;
	pid = fork();
	if (pid != 0)
		return pid > 0;
	/* Nothing of the caller's stays open: somebody may wait for the end of a pipe. */
	setsid();
	fd_close_others(NULL, 0);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	(void)!trace_tidy(NULL, 0);
	_exit(0);
}

void warden_leave(struct tier_jail *tj)
{
	bool is_tidying = tj->record != RECORD_OFF && tidy_streams();
	bool has_left = (tj->jail.ids.first || is_tidying) && !init_reaps();

	if (tj->jail.keeps_store)
		(void)!scratch_remove(&tj->jail.scratch);
	tier_jail_done(tj);
	/* Who mapped ids, and the janitor: where nobody else would reap them, we have to. */
	while (has_left && waitpid(-1, NULL, 0) > 0)
		;
}
