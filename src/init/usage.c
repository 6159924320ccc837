/*
 * usage.c - USAGE: what the processes inside use together
 *
 * Seen from inside, through /proc, where other processes may be: only init's descendants count, and not
 * those of them that are init's own. In a container the warden knows more from the cgroup.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/str.h"
#include "init/process.h"

#define SEEN_MAX 32768

struct seen {
	pid_t pid, parent;
	uint64_t cpu_us, memory;
	enum { UNKNOWN, INSIDE, OUTSIDE } place;
};

struct survey {
	struct seen *seen;
	size_t count, room;
};

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The name is in parentheses, and may have anything in it, so the last one counts. */
static bool read_stat(int proc, const char *pid, struct seen *ret_seen)
{
	unsigned long utime, stime, ticks = (unsigned long)sysconf(_SC_CLK_TCK);
	char path[32], text[1024];
	const char *p;
	char state;
	long resident;
	int parent;

	snprintf(path, sizeof(path), "%.16s/stat", pid);
	if (file_read_at(proc, path, text, sizeof(text)) < 0)
		return false;
	p = strrchr(text, ')');
	if (!p ||
	    sscanf(p + 1,
		   " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d "
		   "%*d %*d %*u %*u %ld",
		   &state, &parent, &utime, &stime, &resident) != 5 ||
	    state == 'Z')
		return false;
	*ret_seen = (struct seen){ .pid = (pid_t)strtol(pid, NULL, 10),
				   .parent = parent,
				   .cpu_us = (uint64_t)(utime + stime) * 1000000 / ticks,
				   .memory = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) };
	return true;
}

static bool add(struct survey *survey, const struct seen *seen)
{
	if (survey->count == survey->room) {
		size_t room = survey->room ? survey->room * 2 : 64;
		struct seen *more = realloc(survey->seen, room * sizeof(*more));

		if (!more)
			return false;
		survey->seen = more;
		survey->room = room;
	}
	survey->seen[survey->count++] = *seen;
	return true;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct seen *)a)->pid, y = ((const struct seen *)b)->pid;

	return x < y ? -1 : x > y;
}

static void look(struct survey *survey)
{
	_cleanup_(closedirp) DIR *dir = opendir("/proc");
	const struct dirent *entry;
	struct seen seen;

	while (dir && survey->count < SEEN_MAX && (entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    read_stat(dirfd(dir), entry->d_name, &seen) && !add(survey, &seen))
			break;
	if (survey->count > 0)
		qsort(survey->seen, survey->count, sizeof(*survey->seen), by_pid);
}

static struct seen *find(struct survey *survey, pid_t pid)
{
	const struct seen key = { .pid = pid };

	return survey->count == 0
		       ? NULL
		       : bsearch(&key, survey->seen, survey->count, sizeof(*survey->seen), by_pid);
}

/* Up to one that is known, then the same way again. Parents change while we look: bounded. */
static void place(struct survey *survey, struct seen *from, pid_t self)
{
	struct seen *at = from;
	size_t steps = 0;

	while (at && at->place == UNKNOWN && at->parent != self && steps++ < survey->count)
		at = find(survey, at->parent);
	for (struct seen *p = from; p && p->place == UNKNOWN; p = find(survey, p->parent)) {
		p->place = at && (at->place == INSIDE || at->parent == self) ? INSIDE : OUTSIDE;
		if (p == at)
			break;
	}
}

static bool is_own(const struct init *init, pid_t pid)
{
	for (size_t i = 0; i < init->process_count; i++)
		if (init->processes[i]->leader == pid)
			return true;
	return errand_is_own(init, pid);
}

static uint64_t microseconds(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

static void add_disk(struct draft *d)
{
	struct statvfs fs;

	if (statvfs(getenv("HOME") ?: ".", &fs) < 0 && statvfs(".", &fs) < 0)
		return;
	draft_number(d, FIELD_DISK, (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize);
	draft_number(d, FIELD_DISK_SIZE, (uint64_t)fs.f_blocks * fs.f_frsize);
}

void usage_tell(struct init *init, struct message *m)
{
	struct draft d = DRAFT(MESSAGE_USAGE_IS, m->call);
	struct survey survey = { 0 };
	uint64_t count = 0, memory = 0, cpu = 0;
	pid_t self = getpid();
	struct rusage reaped;

	if (getrusage(RUSAGE_CHILDREN, &reaped) == 0)
		cpu = microseconds(&reaped.ru_utime) + microseconds(&reaped.ru_stime);
	look(&survey);
	for (size_t i = 0; i < survey.count; i++) {
		struct seen *seen = &survey.seen[i];

		place(&survey, seen, self);
		if (seen->pid == self || seen->place != INSIDE || is_own(init, seen->pid))
			continue;
		count++;
		memory += seen->memory;
		cpu += seen->cpu_us;
	}
	free(survey.seen);
	draft_number(&d, FIELD_COUNT_OF, count);
	draft_number(&d, FIELD_MEMORY, memory);
	draft_number(&d, FIELD_CPU, cpu);
	add_disk(&d);
	answer_send(init, &d);
}
