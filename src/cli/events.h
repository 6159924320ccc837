/* events.h - the parts of brig events (private to cli/) */
#ifndef BRIG_CLI_EVENTS_H
#define BRIG_CLI_EVENTS_H

#include <stdbool.h>

struct events_request {
	int home;            /* the state directory */
	const char *sandbox; /* id or its beginning; NULL: none was named */
	bool is_denied, is_following, is_json;
};

/* Each returns the status to exit with. */
int events_show(const struct events_request *request);   /* a stream, or the newest */
int events_list(const struct events_request *request);   /* one line per stream */
int events_verify(const struct events_request *request); /* one stream, or all */

#endif
