/*
 * live.c - a sandbox that lives: made once, used by many calls, ended when somebody says so
 *
 * The same warden as that of one command, with three differences. The first process is init, which
 * starts what clients ask for (desk.h). The sandbox stands in the roster, so that it is found. And
 * the warden shuts itself in (seclude.h) before it reads the first byte of anybody, as it will read
 * many.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hook.h"
#include "jail/pause.h"
#include "jail/tree.h"
#include "warden/manifest.h"
#include "warden/network.h"
#include "warden/program.h"
#include "warden/roster.h"
#include "warden/seclude.h"
#include "warden/usage.h"
#include "warden/watch.h"
#include "warden/warden_internal.h"

#define READY_MS          30000 /* for init to say that it is there */
#define STIR_MS           2000  /* for init to start what it was asked for */
#define QUIET_INTERVAL_MS 1000  /* between looks at an init that is alone, and may not be itself */
#define EXTEND_MAX        (100ull * 365 * 24 * 3600 * 1000)

/* One sandbox is all that a warden has. */
static struct live {
	struct warden w;
	struct roster_place place;
	uint64_t made; /* ms since 1970 */
	bool is_paused;
	unsigned int holds;
} live;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* To the deadline, as the keeper counts it. */
static uint64_t time_left(const struct warden *w)
{
	uint64_t now = clock_ms();

	if (w->wall_deadline == UINT64_MAX)
		return UINT64_MAX;
	return w->wall_deadline > now ? w->wall_deadline - now : 0;
}

static void add_known(struct draft *answer, enum field field, uint64_t value)
{
	if (value != USAGE_UNKNOWN)
		draft_number(answer, field, value);
}

static void give_status(void *of, struct draft *answer)
{
	const struct warden *w = of;
	struct usage usage;

	usage_read(&w->tj->jail.cgroup, w->keeper.pid, &usage);
	draft_number(answer, FIELD_STATE,
		     w->phase != PHASE_RUNNING ? STATE_ENDING
		     : live.is_paused          ? STATE_PAUSED
					       : STATE_RUNNING);
	draft_number(answer, FIELD_TIME, live.made);
	draft_text(answer, FIELD_NAME, w->request->name);
	if (w->wall_deadline != UINT64_MAX)
		draft_number(answer, FIELD_LEFT, time_left(w));
	add_known(answer, FIELD_CPU, usage.cpu_us);
	add_known(answer, FIELD_MEMORY, usage.memory);
	add_known(answer, FIELD_PEAK, usage.memory_peak);
	add_known(answer, FIELD_LIMIT, usage.memory_limit);
	draft_number(answer, FIELD_HITS, warden_hits(w));
	add_known(answer, FIELD_COUNT_OF, usage.processes);
}

/* From now on there is something to watch again. */
static void stir(void *of)
{
	struct warden *w = of;

	w->quiet_after = clock_ms() + STIR_MS;
	w->next_watch = MIN(w->next_watch, clock_ms() + WATCH_INTERVAL_MS);
}

static int set_frozen(struct warden *w, bool frozen, struct err *err)
{
	const struct cgroup *cgroup = &w->tj->jail.cgroup;
	int r = frozen ? pause_begin(cgroup, &w->keeper, err)
		       : pause_end(cgroup, &w->keeper, time_left(w), err);

	if (r == 0)
		w->is_frozen = frozen;
	/* init goes on to what it was asked for before, or meanwhile. */
	if (r == 0 && !frozen)
		stir(w);
	return r;
}

/* What ends must not stand still on the way. */
static int check_running(const struct warden *w, struct err *err)
{
	return w->phase == PHASE_RUNNING ? 0 : err_set(err, -EBUSY, "the sandbox is ending");
}

/* Frozen as long as somebody paused it, or holds it. */
static int pause_sandbox(void *of, struct err *err)
{
	int r = check_running(of, err);

	if (r < 0)
		return r;
	if (live.is_paused)
		return err_set(err, -EALREADY, "it is paused already");
	r = live.holds ? 0 : set_frozen(of, true, err);
	live.is_paused = r == 0;
	return r;
}

static int resume_sandbox(void *of, struct err *err)
{
	int r;

	if (!live.is_paused)
		return err_set(err, -EALREADY, "it is not paused");
	r = live.holds ? 0 : set_frozen(of, false, err);
	live.is_paused = r < 0;
	return r;
}

static int extend(void *of, uint64_t ms, struct err *err)
{
	struct warden *w = of;

	if (ms != UINT64_MAX && ms > EXTEND_MAX)
		return err_set(err, -EINVAL, "that is longer than a deadline can be");
	w->wall_deadline = ms == UINT64_MAX ? UINT64_MAX : clock_ms() + ms;
	/* Where the keeper stands still too, it is told when it goes on. */
	if (!w->is_frozen)
		(void)!keeper_deadline(&w->keeper, ms);
	return 0;
}

static int set_network(void *of, const struct message *rules, struct err *err)
{
	struct warden *w = of;

	if (!w->tj->is_contained || !w->tj->has_gate)
		return err_set(
			err, -ENOTSUP,
			"the network of this sandbox cannot be changed: it has no gate of its own "
			"(the container tier has one, unless nested is allowed)");
	return network_change(&w->door, rules, err);
}

static void end_sandbox(void *of)
{
	struct warden *w = of;

	warden_set_reason(w, REASON_KILLED);
	warden_kill_now(w);
	hook_point("destroy:ordered");
}

static int hold(void *of, int *ret_store, struct err *err)
{
	struct warden *w = of;
	int store = w->tj->is_contained ? w->tj->store : w->tj->jail.scratch.dir;
	int r = check_running(w, err);

	if (r < 0)
		return r;
	store = fcntl(store, F_DUPFD_CLOEXEC, 3);
	if (store < 0)
		return err_errno(err, -errno, "cannot hand out what the sandbox wrote");
	r = live.is_paused || live.holds ? 0 : set_frozen(w, true, err);
	if (r < 0) {
		close(store);
		return r;
	}
	live.holds++;
	*ret_store = store;
	return 0;
}

static void release(void *of)
{
	const struct warden *w = of;

	live.holds--;
	if (!live.holds && !live.is_paused && w->is_frozen)
		(void)!set_frozen(of, false, NULL);
}

static int open_port(void *of, int listener, uint16_t port, struct err *err)
{
	struct warden *w = of;

	return publish_add(&w->publish, listener, port, err);
}

static bool tell_port(void *of, size_t index, uint16_t *ret_port, char *address, size_t size)
{
	const struct warden *w = of;
	const struct published *port = publish_port(&w->publish, index);
	struct address at = { 0 };
	char text[ADDRESS_AT_TEXT_SIZE];

	if (!port)
		return false;
	memcpy(at.ip, port->ip, sizeof(at.ip));
	at.port = port->outside;
	address_at_text(&at, text);
	snprintf(address, size, "%s", text);
	*ret_port = port->inside;
	return true;
}

/* Somebody came to a port of a sandbox that is paused: it goes on. */
static void wake(void *of)
{
	if (live.is_paused)
		(void)!resume_sandbox(of, NULL);
}

static const char *refuse(void *of)
{
	const struct warden *w = of;

	if (w->phase != PHASE_RUNNING)
		return "the sandbox is ending";
	return live.is_paused ? "the sandbox is paused (brig resume)" : NULL;
}

static const struct desk_ops ops = {
	.status = give_status,
	.pause = pause_sandbox,
	.resume = resume_sandbox,
	.extend = extend,
	.network = set_network,
	.kill = end_sandbox,
	.hold = hold,
	.release = release,
	.port = open_port,
	.ports = tell_port,
	.refuse = refuse,
	.stir = stir,
};

/* By what the kernel says, not by what init does. */
static bool is_only_init(const struct warden *w)
{
	static pid_t pids[TREE_MAX];

	return tree_below(w->keeper.pid, pids) <= 1;
}

/*
 * In a container of one user the workload may write to init's memory, and init may start anything then,
 * unasked. Where there is a sudo, somebody may ask and be gone. Elsewhere it starts what it was asked for.
 */
static bool may_stir_itself(const struct warden *w)
{
	return w->tj->is_contained &&
	       (!w->tj->jail.ids.first || w->request->policy->system == SYSTEM_OWN);
}

uint64_t warden_next_watch(const struct warden *w, uint64_t now)
{
	if (!w->request->lives || now < w->quiet_after || !is_only_init(w))
		return now + WATCH_INTERVAL_MS;
	return may_stir_itself(w) ? now + QUIET_INTERVAL_MS : UINT64_MAX;
}

/* Nobody waits for anything, and nothing runs but init. */
static bool is_idle(const struct warden *w)
{
	return !desk_is_busy(&w->desk) && !live.is_paused && is_only_init(w);
}

void warden_check_idle(struct warden *w, uint64_t now)
{
	uint64_t due = w->desk.served + w->request->idle_ms;

	if (w->phase != PHASE_RUNNING)
		return;
	if (now >= due && is_idle(w)) {
		warden_set_reason(w, REASON_IDLE);
		warden_kill_now(w);
		return;
	}
	w->idle_deadline = now >= due ? now + w->request->idle_ms : due;
}

/* The two ends of the channel to init, and init. */
static int open_channel(struct warden *w, struct err *err)
{
	int pair[2], r;

	w->program = program_open_init(w->tj->is_contained && !w->tj->jail.ids.first,
				       &w->program_is_file, err);
	if (w->program < 0)
		return w->program;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, -errno, "cannot make a socket pair");
	w->channel = pair[1];
	r = desk_open(&w->desk, pair[0], &ops, w);
	return r < 0 ? err_errno(err, r, "cannot wait for clients") : 0;
}

static void close_channel(struct warden *w)
{
	w->program = fd_close(w->program);
	w->channel = fd_close(w->channel);
}

static int shut_in(const struct warden *w, struct err *err)
{
	const struct seclusion seclusion = { .cgroup = &w->tj->jail.cgroup,
					     .scratch = w->tj->jail.scratch.dir };
	int r = seclude(&seclusion);

	return r < 0 ? err_errno(err, r, "the warden cannot shut itself in") : 0;
}

/* Until init is there, or it is clear that it never will be. */
static int await_init(struct warden *w, struct err *err)
{
	uint64_t end = clock_ms() + READY_MS;

	while (!w->desk.is_ready && !w->desk.broken && w->phase == PHASE_RUNNING &&
	       w->failure.news != KEEPER_FAILED && clock_ms() < end)
		warden_wait(w, MIN(end, w->wall_deadline));
	if (w->desk.is_ready)
		return 0;
	if (w->failure.news != KEEPER_FAILED)
		err_set(err, -EPROTO, "the sandbox was not started: its init %s",
			w->desk.broken ? "does not keep to the protocol" : "did not come up");
	return -EPROTO;
}

/* The sandbox as it is now, for whoever asked for it. */
static int introduce(struct warden *w, struct node **ret_manifest, struct err *err)
{
	int r;

	live.made = now_ms();
	/* Clients take some; the sandbox has got its own limit by now. */
	fd_raise_limit();
	r = manifest_make(w, live.made, ret_manifest);
	if (r < 0)
		return err_errno(err, r, "cannot describe the sandbox");
	r = roster_enter(w->result->sandbox, w->request->name, *ret_manifest, &live.place, err);
	hook_point("create:entered");
	r = r < 0 ? r : shut_in(w, err);
	r = r < 0 ? r : await_init(w, err);
	hook_point("create:ready");
	if (r == 0 && desk_listen(&w->desk, live.place.socket) < 0)
		r = err_set(err, -ENOMEM, "cannot wait for clients");
	return r;
}

/* What did not come to life is ended; a wall that did not come up is told in its own words. */
static int give_up(struct warden *w, int code, struct err *err)
{
	struct err outcome = ERR_NONE;

	warden_kill_now(w);
	warden_supervise(w);
	if (warden_end(w, &outcome) < 0 || !err->code)
		*err = outcome.code ? outcome : *err;
	return code;
}

/*
 * Where programs begin that say nothing else: in the caller's folder if they may write there, else at
 * home. A container sees to that itself (tier/view.c).
 */
static void go_home(const struct warden *w)
{
	const struct path_rule *rule;

	if (!w->tj->is_contained &&
	    policy_path_access(&w->request->policy->fs, w->request->env->cwd, &rule) <
		    ACCESS_OVERLAY)
		(void)!fchdir(w->tj->jail.scratch.dir);
}

int warden_live(const struct warden_request *request, struct tier_jail *tj,
		struct result *ret_result,
		void (*told)(void *arg, const struct node *manifest, const struct err *err),
		void *arg, struct err *err)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	struct warden *w = &live.w;
	struct tier_request prepare = warden_tier_request(request, ret_result->sandbox);
	char sudo[PATH_MAX];
	bool has_begun = false;
	int r = program_find("brig-init", sudo, err);

	if (r < 0)
		return r;
	/* The same program, by another name. */
	prepare.sudo = sudo;

	live = (struct live){ .w = WARDEN(request, tj, ret_result), .place = ROSTER_PLACE_NONE };
	w->publish.arrived = wake;
	w->publish.of = w;
	ret_result->report = &tj->report;
	r = warden_make_id(ret_result->sandbox, err);
	r = r < 0 ? r : warden_open_signals(w, err);
	r = r < 0 ? r : request->tier->prepare(&prepare, tj, err);
	if (r < 0) {
		warden_close(w);
		return r;
	}
	hook_point("create:prepared");
	go_home(w);
	r = open_channel(w, err);
	r = r < 0 ? r : warden_begin(w, err);
	has_begun = r == 0;
	hook_point("create:begun");
	close_channel(w);
	if (request->idle_ms)
		w->idle_deadline = clock_ms() + request->idle_ms;
	r = r < 0 ? r : introduce(w, &manifest, err);
	if (r == 0) {
		told(arg, manifest, NULL);
		hook_point("create:told");
		warden_supervise(w);
		hook_point("destroy:finished");
		(void)!warden_end(w, err);
		hook_point("destroy:recorded");
	} else if (has_begun) {
		r = give_up(w, r, err);
	}
	if (!w->keeper.pid)
		(void)!scratch_remove(&tj->jail.scratch);
	roster_leave(&live.place);
	hook_point("destroy:left");
	desk_close(&w->desk);
	desk_done(&w->desk);
	warden_close(w);
	warden_leave_keeper(w);
	if (r < 0)
		tier_jail_done(tj);
	return r;
}
