/*
 * daemon.c - "brig serve" from its start to its end
 *
 * The order matters: the lock before anything is read (one daemon a state directory), the sandboxes of the
 * one before are adopted before the first request is answered, and the address is told last: who sees it
 * can use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "http/tls.h"
#include "serve/ca.h"
#include "serve/e2b_build.h"
#include "serve/e2b_files.h"
#include "serve/listen.h"
#include "serve/metrics.h"
#include "serve/serve.h"
#include "serve/turns.h"
#include "serve/snapshot.h"
#include "trace/home.h"

#define EXIT_BRIG      125
#define DRAIN_MS       10000
#define DEFAULT_LISTEN "127.0.0.1:7070"
#define DEFAULT_TENANT "default"
#define FOLDER         "serve"

struct daemon {
	struct serve serve;
	char folder[PATH_MAX]; /* of its state */
	int lock, listener, signals;
	bool is_loopback;
	struct tls *tls;
	struct ca_files files; /* "" where the certificate was given */
	loop_id signal_watch, drain_timer;
	unsigned int stops; /* how often it was asked to */
};

/* --- settings --- */

static void set_text(const struct node *request, const char *key, const char *fallback, char *ret,
		     size_t size)
{
	const struct node *value = node_get(request, key);

	snprintf(ret, size, "%s", value && value->kind == NODE_STRING ? value->text : fallback);
}

static bool is_set(const struct node *request, const char *key)
{
	const struct node *value = node_get(request, key);

	return value && value->kind == NODE_BOOL && value->number;
}

static void read_settings(const struct node *request, struct settings *s)
{
	char log[8];

	set_text(request, "listen", DEFAULT_LISTEN, s->listen, sizeof(s->listen));
	set_text(request, "domain", "", s->domain, sizeof(s->domain));
	set_text(request, "cert", "", s->cert, sizeof(s->cert));
	set_text(request, "key", "", s->key, sizeof(s->key));
	set_text(request, "policy", "", s->policy, sizeof(s->policy));
	set_text(request, "log", "text", log, sizeof(log));
	s->is_secure = is_set(request, "tls");
	s->is_open = is_set(request, "open");
	s->is_quiet = is_set(request, "quiet");
	s->prints_json = is_set(request, "json");
	s->logs_json = str_equal(log, "json");
	log_set_json(s->logs_json);
	log_set_quiet(s->is_quiet);
}

/* --- its folder --- */

/* Of one daemon at a time: the lock goes with the process. */
static int lock_folder(struct daemon *d, struct err *err)
{
	char path[PATH_MAX];
	_cleanup_close_ int home = -EBADF;
	int r = trace_home_path(path, err);

	if (r < 0)
		return r;
	home = trace_home_open(NULL, true, err);
	if (home < 0)
		return home;
	if (snprintf(d->folder, sizeof(d->folder), "%s/" FOLDER, path) >= (int)sizeof(d->folder))
		return err_set(err, -ENAMETOOLONG, "the state directory has too long a name");
	if (mkdirat(home, FOLDER, 0700) < 0 && errno != EEXIST)
		return err_errno(err, -errno, "cannot make \"%s\"", d->folder);
	d->lock = openat(home, FOLDER "/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock < 0)
		return err_errno(err, -errno, "cannot open \"%s/lock\"", d->folder);
	if (flock(d->lock, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, -EBUSY,
			       "another brig serve has this state directory (XDG_STATE_HOME names "
			       "another)");
	return 0;
}

/* --- keys --- */

/* The first start makes a key; it is told once. text: "" when there are keys already. */
static int ready_keys(struct serve *serve, char *text, struct err *err)
{
	struct tenant tenant = { .name = DEFAULT_TENANT };
	struct key *keys = NULL, made;
	size_t count = 0, good = 0;
	int r = store_get_tenant(serve->store, DEFAULT_TENANT, &tenant);

	if (r == -ENOENT) {
		r = store_put_tenant(serve->store, &tenant, err);
		r = r < 0 ? r : store_get_tenant(serve->store, DEFAULT_TENANT, &tenant);
	}
	if (r < 0)
		return err->code ? r : err_errno(err, r, "cannot read the tenants");
	serve->open_tenant = tenant;
	text[0] = '\0';
	if (serve->settings.is_open)
		return 0;
	r = store_list_keys(serve->store, &keys, &count);
	for (size_t i = 0; r == 0 && i < count; i++)
		good += keys[i].revoked == 0;
	free(keys);
	if (r < 0)
		return err_errno(err, r, "cannot read the keys");
	return good > 0 ? 0
			: store_make_key(serve->store, DEFAULT_TENANT, KEY_ADMIN, &made, text, err);
}

/* --- TLS --- */

static void domain_name(const struct settings *s, char *name, size_t size)
{
	snprintf(name, size, "%s", s->domain[0] ? s->domain : "localhost");
	name[strcspn(name, ":")] = '\0';
}

static int load_tls(struct daemon *d, struct tls **ret_tls, struct err *err)
{
	const struct settings *s = &d->serve.settings;
	char name[sizeof(s->domain)];
	int r;

	if (s->cert[0])
		return tls_new(s->cert, s->key, ret_tls, err);
	domain_name(s, name, sizeof(name));
	r = ca_ready(d->folder, name, &d->files, err);
	return r < 0 ? r : tls_new(d->files.cert, d->files.key, ret_tls, err);
}

static void reload(struct daemon *d)
{
	struct err err = ERR_NONE;
	struct tls *tls = NULL;
	int r;

	if (!d->serve.settings.is_secure) {
		log_line(LOG_INFO, "reload: nothing to read anew");
		return;
	}
	r = load_tls(d, &tls, &err);
	if (r < 0) {
		log_line(LOG_ERROR, "reload: %s: the old certificate stays", err.text);
		return;
	}
	server_set_tls(d->serve.server, tls);
	tls_free(d->tls);
	d->tls = tls;
	log_line(LOG_INFO, "reload: the certificate was read anew");
}

/* --- signals --- */

static void on_drained(void *of)
{
	struct daemon *d = of;

	loop_stop(d->serve.loop);
}

/* The first time: what is under way may end. The second time, or when that takes too long: now. */
static void stop(struct daemon *d)
{
	if (d->stops++ > 0) {
		loop_stop(d->serve.loop);
		return;
	}
	log_line(LOG_INFO, "stopping: requests under way have %d s, sandboxes live on",
		 DRAIN_MS / 1000);
	listen_notify("STOPPING=1");
	d->serve.is_draining = true;
	if (loop_after(d->serve.loop, DRAIN_MS, on_drained, d, &d->drain_timer) < 0)
		loop_stop(d->serve.loop);
	server_drain(d->serve.server, on_drained, d);
}

static void on_signal(void *of, uint32_t events)
{
	struct daemon *d = of;
	struct signalfd_siginfo info;

	(void)events;
	while (read(d->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			reload(d);
		else
			stop(d);
	}
}

static int open_signals(struct daemon *d, struct err *err)
{
	static const int wanted[] = { SIGTERM, SIGINT, SIGHUP };
	sigset_t set;
	int r;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		sigaddset(&set, wanted[i]);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = d->signals < 0 ? -errno
			   : loop_watch(d->serve.loop, d->signals, EPOLLIN, on_signal, d,
					&d->signal_watch);
	return r < 0 ? err_errno(err, r, "cannot wait for signals") : 0;
}

/* --- the words at the start --- */

static void client_address(const struct daemon *d, char *text, size_t size)
{
	const struct settings *s = &d->serve.settings;
	const char *address = d->serve.address;

	/* All addresses are none to connect to. */
	if (str_starts(address, "0.0.0.0:"))
		snprintf(text, size, "%s://127.0.0.1:%s", s->is_secure ? "https" : "http",
			 address + 8);
	else if (str_starts(address, "[::]:"))
		snprintf(text, size, "%s://[::1]:%s", s->is_secure ? "https" : "http", address + 5);
	else
		snprintf(text, size, "%s://%s", s->is_secure ? "https" : "http", address);
}

static int print_ready_json(const struct daemon *d, const char *url, const char *key)
{
	_cleanup_(node_freep) struct node *map = node_map();
	_cleanup_(buf_done) struct buf text = BUF(64 * KIB);
	int r = map ? 0 : -ENOMEM;

	r = r < 0 ? r : node_set(map, "url", node_string(url));
	r = r < 0 ? r : node_set(map, "key", key[0] ? node_string(key) : node_null());
	r = r < 0 ? r
		  : node_set(map, "ca", d->files.ca[0] ? node_string(d->files.ca) : node_null());
	r = r < 0 ? r : json_write(map, true, &text);
	return r < 0 || printf("%s\n", buf_text(&text)) < 0 || fflush(stdout) != 0 ? -EIO : 0;
}

static void print_ready_text(const struct daemon *d, const char *url, const char *key)
{
	const struct settings *s = &d->serve.settings;
	const char *port = strrchr(d->serve.address, ':');

	printf("brig serves at %s (dashboard: %s/)\n\n", url, url);
	printf("export E2B_API_KEY=%s\n",
	       key[0]       ? key
	       : s->is_open ? "e2b_0000"
			    : "e2b_...        # the one that you were shown, or: brig key create");
	if (s->is_secure && s->domain[0]) {
		printf("export E2B_DOMAIN=%s%s\n", s->domain,
		       strchr(s->domain, ':') || !port ? "" : port);
	} else {
		printf("export E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", url, url);
	}
	if (d->files.ca[0])
		printf("export SSL_CERT_FILE=%s NODE_EXTRA_CA_CERTS=%s\n", d->files.ca,
		       d->files.ca);
	if (key[0])
		printf("\nThe key is not shown again. It may do everything here; \"brig key create "
		       "--tenant NAME\" makes lesser ones.\n");
	fflush(stdout);
}

static int print_ready(const struct daemon *d, const char *key)
{
	char url[LISTEN_TEXT_SIZE + 16];

	client_address(d, url, sizeof(url));
	if (d->serve.settings.prints_json)
		return print_ready_json(d, url, key);
	print_ready_text(d, url, key);
	return 0;
}

/* --- start and end --- */

static void on_ended(void *of, const char *id)
{
	struct serve *serve = of;

	registry_remove(serve->registry, id);
}

static int open_parts(struct daemon *d, struct err *err)
{
	struct serve *serve = &d->serve;
	size_t adopted, dropped;
	int r = loop_new(&serve->loop);

	if (r < 0)
		return err_errno(err, r, "cannot make an event loop");
	r = store_open(&serve->store, err);
	if (r < 0)
		return r;
	r = counters_new(&serve->counters);
	if (r < 0)
		return err_errno(err, r, "cannot make counters");
	r = fleet_new(serve->loop, &(struct fleet_setup){ .ended = on_ended, .of = serve },
		      &serve->fleet, err);
	r = r < 0 ? r : registry_new(serve, &serve->registry, err);
	r = r < 0 ? r : registry_load(serve->registry, &adopted, &dropped, err);
	if (r < 0)
		return r;
	snapshot_sweep(serve);
	v1_sweep(serve);
	build_sweep();
	if (adopted + dropped > 0)
		log_line(LOG_INFO, "sandboxes: %zu live on, %zu have ended meanwhile", adopted,
			 dropped);
	return r;
}

static int open_doors(struct daemon *d, struct err *err)
{
	struct serve *serve = &d->serve;
	const struct server_setup setup = { .request = route_request,
					    .logged = route_logged,
					    .of = serve };
	int r;

	d->listener = listen_open(serve->settings.listen, serve->address, &d->is_loopback, err);
	if (d->listener < 0)
		return d->listener;
	if (serve->settings.is_open && !d->is_loopback)
		return err_set(err, -EINVAL,
			       "--open is for loopback: at %s everybody could run programs here",
			       serve->address);
	if (!d->is_loopback && !serve->settings.is_secure)
		log_line(LOG_WARNING, "keys go over the network in the clear: --tls speaks TLS");
	if (serve->settings.is_secure) {
		r = load_tls(d, &d->tls, err);
		if (r < 0)
			return r;
	}
	r = server_new(serve->loop, &setup, &serve->server);
	r = r < 0 ? r : server_listen(serve->server, take_fd(&d->listener), d->tls);
	return r < 0 ? err_errno(err, r, "cannot serve") : 0;
}

static int run(struct daemon *d, const struct node *request, struct err *err)
{
	char key[KEY_TEXT_SIZE] = "";
	int r;

	read_settings(request, &d->serve.settings);
	d->serve.began = time_now();
	fd_raise_limit();
	r = lock_folder(d, err);
	r = r < 0 ? r : open_parts(d, err);
	r = r < 0 ? r : open_signals(d, err);
	r = r < 0 ? r : open_doors(d, err);
	r = r < 0 ? r : ready_keys(&d->serve, key, err);
	if (r == 0 && print_ready(d, key) < 0)
		r = err_set(err, -EIO, "cannot print where it serves");
	explicit_bzero(key, sizeof(key));
	if (r < 0)
		return r;
	listen_notify("READY=1");
	r = loop_run(d->serve.loop);
	return r < 0 ? err_errno(err, r, "the event loop") : 0;
}

static void close_parts(struct daemon *d)
{
	struct serve *serve = &d->serve;

	/* Requests that are open still use what is freed after them. */
	server_free(serve->server);
	e2b_watch_done(serve);
	turns_done(serve);
	builds_done(serve);
	registry_free(serve->registry);
	fleet_free(serve->fleet);
	counters_free(serve->counters);
	store_close(serve->store);
	if (serve->loop) {
		loop_forget(serve->loop, d->signal_watch);
		loop_cancel(serve->loop, d->drain_timer);
	}
	loop_free(serve->loop);
	tls_free(d->tls);
	fd_close(d->listener);
	fd_close(d->signals);
	fd_close(d->lock);
}

int daemon_main(const struct node *request)
{
	static struct daemon d = { .lock = -EBADF, .listener = -EBADF, .signals = -EBADF };
	struct err err = ERR_NONE;
	int r = run(&d, request, &err);

	close_parts(&d);
	if (r < 0) {
		fprintf(stderr, "brig: %s\n", err.text);
		return EXIT_BRIG;
	}
	return 0;
}
