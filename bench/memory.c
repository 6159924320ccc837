#include "memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#include "base/str.h"

/* One process of the host. */
struct process {
	pid_t pid, parent;
	long resident_kib, peak_kib;
	char name[32];
	bool ours;
};

struct processes {
	struct process *items;
	size_t count;
};

static void processes_done(struct processes *list)
{
	free(list->items);
}

/* The number behind a name in a file of such lines; missing when there is none. */
static long number_in(const char *path, const char *name, long missing)
{
	char line[256];
	long number = missing;
	FILE *file = fopen(path, "re");

	if (!file)
		return missing;
	while (number == missing && fgets(line, sizeof(line), file))
		if (str_starts(line, name))
			number = strtol(line + strlen(name), NULL, 10);
	fclose(file);
	return number;
}

static bool read_process(pid_t pid, struct process *ret_process)
{
	struct process process = { .pid = pid };
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (str_starts(line, "Name:\t"))
			snprintf(process.name, sizeof(process.name), "%.*s",
				 (int)strcspn(line + 6, "\n"), line + 6);
		else if (str_starts(line, "PPid:"))
			process.parent = (pid_t)strtol(line + 5, NULL, 10);
		else if (str_starts(line, "VmHWM:"))
			process.peak_kib = strtol(line + 6, NULL, 10);
		else if (str_starts(line, "VmRSS:"))
			process.resident_kib = strtol(line + 6, NULL, 10);
	}
	fclose(file);
	*ret_process = process;
	return true;
}

static int add_process(struct processes *list, const struct process *process)
{
	struct process *items = list->items;

	if ((list->count & (list->count + 1)) == 0) /* full at 0, 1, 3, 7, ... */
		items = realloc(items, (2 * list->count + 1) * sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	items[list->count++] = *process;
	return 0;
}

static int read_processes(struct processes *list)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc");
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir))) {
		struct process process;

		if (isdigit((unsigned char)entry->d_name[0]) &&
		    read_process((pid_t)strtol(entry->d_name, NULL, 10), &process))
			r = add_process(list, &process);
	}
	closedir(dir);
	return r;
}

/* Marks the command and, as often as that finds more, the children of what is marked. A workload is
 * not marked, nor are its children. */
static void mark_ours(struct processes *list, pid_t pid, const char *name)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < list->count; i++) {
			struct process *process = &list->items[i];
			bool is_ours = process->pid == pid;

			for (size_t k = 0; k < list->count && !is_ours; k++)
				is_ours = list->items[k].ours &&
					  list->items[k].pid == process->parent &&
					  str_starts(process->name, name);
			more |= is_ours && !process->ours;
			process->ours |= is_ours;
		}
	}
}

long memory_peak(pid_t pid)
{
	struct process process;

	return read_process(pid, &process) ? process.peak_kib : 0;
}

int memory_footprint(pid_t pid, struct footprint *ret_footprint)
{
	_cleanup_(processes_done) struct processes list = { 0 };
	struct footprint footprint = { 0 };
	struct process root;
	int r = read_processes(&list);

	if (r == 0 && !read_process(pid, &root))
		r = -ESRCH;
	if (r < 0)
		return r;
	mark_ours(&list, pid, root.name);
	for (size_t i = 0; i < list.count; i++) {
		char path[64];
		long share;

		if (!list.items[i].ours)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)list.items[i].pid);
		share = number_in(path, "Pss:", -1);
		footprint.processes++;
		footprint.resident_kib += list.items[i].resident_kib;
		if (share < 0 || footprint.proportional_kib < 0)
			footprint.proportional_kib = -1;
		else
			footprint.proportional_kib += share;
	}
	*ret_footprint = footprint;
	return 0;
}

long memory_available(void)
{
	return number_in("/proc/meminfo", "MemAvailable:", 0);
}
