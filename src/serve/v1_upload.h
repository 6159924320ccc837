/*
 * v1_upload.h - files that came in the body of a request, into a sandbox, one after the other
 *
 *	[{"path": "data/in.csv", "text": "a,b\n"}, {"path": "x.bin", "base64": "AAEC", "mode": "755"}]
 */
#ifndef BRIG_SERVE_V1_UPLOAD_H
#define BRIG_SERVE_V1_UPLOAD_H

#include "serve/fleet.h"

struct upload {
	struct fleet *fleet;
	char sandbox[TRACE_ID_SIZE];
	const struct node *files; /* the caller's, until done() */
	const char *user;
	void (*done)(void *of, const struct err *err); /* once; err->code 0: all are there */
	void *of;

	size_t index;
	struct buf content;
	size_t sent, window;
	call_id call;
};

/* What the schema cannot say of such a list: one content each, base64 that is. */
[[nodiscard]] int upload_check(const struct node *files, struct err *err);

void upload_start(struct upload *upload); /* done() may be called at once */
void upload_done(struct upload *upload);  /* at any time, also one that was never started */

#endif
