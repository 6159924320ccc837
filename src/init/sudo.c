#include "init/sudo.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/title.h"

#define ASKERS_MAX 32
#define BACKLOG    64
#define GRACE_MS   2000 /* for a porter to end by itself when its time is over */
#define RETRY_MS   200

/* A porter that has not started anything yet. */
struct asker {
	struct asker *next;
	pid_t porter;
	struct source reports;
	uint64_t deadline;
	bool is_taken;
};

socklen_t sudo_address(const char *name, struct sockaddr_un *ret_address)
{
	size_t len = strlen(name);

	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (len == 0 || len + 1 > sizeof(ret_address->sun_path))
		return 0;
	memcpy(ret_address->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* One after the other: who comes while somebody is being let in would be seen again and again. */
static void expect(struct init *init)
{
	bool is_open = !init->sudo.is_taking && init->sudo.count < ASKERS_MAX &&
		       !init->sudo.retry && init->process_count < PROCESSES_MAX;

	(void)!source_watch(init, &init->sudo.listener, is_open ? EPOLLIN : 0);
}

static void asker_free(struct init *init, struct asker *a)
{
	for (struct asker **p = &init->sudo.askers; *p; p = &(*p)->next)
		if (*p == a) {
			*p = a->next;
			break;
		}
	init->sudo.count--;
	if (!a->is_taken)
		init->sudo.is_taking = false;
	source_close(init, &a->reports);
	free(a);
	expect(init);
}

/* In the list with the others. Its porter stands where a terminal has its leader (process.c). */
static void enlist(struct init *init, const struct asker *a, const struct porter_report *report)
{
	struct err err = ERR_NONE;
	struct process *p = process_new(init, &err);
	size_t len = MIN(report->arguments_len, sizeof(report->arguments));

	if (!p)
		return;
	p->state = PROCESS_LIVING;
	p->pid = report->pid;
	p->leader = a->porter;
	memcpy(p->user, report->user, sizeof(p->user));
	p->user[sizeof(p->user) - 1] = '\0';
	p->arguments = malloc(len + 1);
	if (p->arguments) {
		memcpy(p->arguments, report->arguments, len);
		/* Whoever reads them looks for the NUL of the last. */
		p->arguments[len] = '\0';
		p->arguments_len = len;
	}
}

/* Whether the asker is still there. */
static bool read_report(struct init *init, struct asker *a)
{
	struct porter_report report;
	ssize_t n = recv(a->reports.fd, &report, sizeof(report), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == sizeof(report) && report.news == PORTER_TAKEN && !a->is_taken) {
		a->is_taken = true;
		init->sudo.is_taking = false;
		expect(init);
		return true;
	}
	if (n == sizeof(report) && report.news == PORTER_STARTED && report.pid > 1)
		enlist(init, a, &report);
	asker_free(init, a);
	return false;
}

static void on_report(struct init *init, struct source *source, uint32_t events)
{
	(void)events;
	read_report(init, container_of(source, struct asker, reports));
}

void sudo_read_reports(struct init *init)
{
	struct asker *next;

	for (struct asker *a = init->sudo.askers; a; a = next) {
		next = a->next;
		/* Two at most: that it was taken, and what was started. */
		if (read_report(init, a))
			read_report(init, a);
	}
}

static int fork_porter(struct init *init)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	struct asker *a;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	a = malloc(sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct asker){ .next = init->sudo.askers,
			     .reports = SOURCE(on_report),
			     .deadline = clock_ms() + ASK_MS + GRACE_MS };
	a->porter = fork();
	if (a->porter == 0)
		porter_run(init, init->sudo.listener.fd, theirs);
	if (a->porter < 0) {
		free(a);
		return -errno;
	}
	a->reports.fd = take_fd(&ours);
	init->sudo.askers = a;
	init->sudo.count++;
	init->sudo.is_taking = true;
	return source_watch(init, &a->reports, EPOLLIN);
}

static void on_listener(struct init *init, struct source *source, uint32_t events)
{
	struct err err = ERR_NONE;

	(void)source;
	(void)events;
	/* Later: what is in the way now (a limit of processes, of descriptors) may go. */
	if (init_has_room(&err) < 0 || fork_porter(init) < 0)
		init->sudo.retry = clock_ms() + RETRY_MS;
	expect(init);
}

int sudo_time_left(const struct init *init)
{
	uint64_t first = init->sudo.retry ?: UINT64_MAX, now;

	for (const struct asker *a = init->sudo.askers; a; a = a->next)
		first = MIN(first, a->deadline);
	if (first == UINT64_MAX)
		return -1;
	now = clock_ms();
	return first > now ? (int)MIN(first - now, (uint64_t)ASK_MS) : 0;
}

/* The listener is closed while the list of processes is full: a place may be free again. */
void sudo_end_late(struct init *init)
{
	struct asker *next;
	uint64_t now;

	if (init->sudo.listener.fd < 0)
		return;
	now = init->sudo.askers || init->sudo.retry ? clock_ms() : 0;
	for (struct asker *a = init->sudo.askers; a; a = next) {
		next = a->next;
		if (now < a->deadline)
			continue;
		/* It is our child until it is reaped, so the pid is its own. */
		kill(a->porter, SIGKILL);
		asker_free(init, a);
	}
	if (init->sudo.retry && now >= init->sudo.retry)
		init->sudo.retry = 0;
	expect(init);
}

int sudo_open(struct init *init, const char *name)
{
	struct sockaddr_un address;
	socklen_t len = sudo_address(name, &address);

	if (len == 0)
		return -ENAMETOOLONG;
	init->sudo.listener = SOURCE(on_listener);
	init->sudo.listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (init->sudo.listener.fd < 0 ||
	    bind(init->sudo.listener.fd, (struct sockaddr *)&address, len) < 0 ||
	    listen(init->sudo.listener.fd, BACKLOG) < 0)
		return -errno;
	/* Without root to become, the one user is what root means. */
	init->rights.is_root = !init->rights.has_users;
	expect(init);
	return 0;
}
