/*
 * catalog.h - which streams there are, and what each is about
 */
#ifndef BRIG_TRACE_CATALOG_H
#define BRIG_TRACE_CATALOG_H

#include <dirent.h>

#include "base/str.h"
#include "trace/head.h"

/* What the first line and the head tell. */
struct stream_summary {
	char id[TRACE_ID_SIZE];
	char time[TRACE_TIME_SIZE]; /* of the start; "" when the first line cannot be read */
	char *command;              /* owned */
	bool is_alive, has_head;
	struct head head;
};

/* A folder of the state directory, to be read. */
[[nodiscard]] int catalog_open(int home, const char *folder, DIR **ret_dir);
void catalog_closep(DIR **dir);

/* The ids in a folder of the state directory ("sandboxes", "heads"), sorted; none when it is not
 * there. */
[[nodiscard]] int catalog_ids(int home, const char *folder, struct strv *ret_ids);

/*
 * The id that begins with prefix, or with NULL the sandbox that was started last. What is no id,
 * matches nothing or several is an error in words.
 */
[[nodiscard]] int catalog_find(int home, const char *prefix, char ret_id[static TRACE_ID_SIZE],
			       struct err *err);

/* Also for a stream that is damaged: what cannot be read is left empty. */
[[nodiscard]] int catalog_summary(int home, const char *id, struct stream_summary *ret_summary);

/* All of them, the oldest first. */
struct catalog {
	struct stream_summary *items;
	size_t count;
};
[[nodiscard]] int catalog_read(int home, struct catalog *ret_catalog);
void catalog_done(struct catalog *catalog);

#endif
