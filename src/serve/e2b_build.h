/*
 * e2b_build.h - builds of templates for the field's clients (private to e2b_build*.c and e2b_template*.c)
 *
 *	POST /v3/templates              a build: an id, and a file that says what for        waiting
 *	PUT  .../upload                 files for it, as tars, by the client's own hash
 *	POST /v2/.../builds/ID          its steps: a child does them (brig template build)   building
 *	GET  .../status                 what the child has logged so far                     ready, error
 *
 * All there is to know about a build lies in files below the state directory, so that it is still known when the
 * daemon was killed: serve/builds/ID.json (for whom), ID.plan (for the child), ID.log (lines of JSON; the last one is
 * the daemon's, and says how it ended). One that is not in memory and has no such line was cut short. Uploads are
 * serve/uploads/HASH-TENANT. Files are kept for a day.
 */
#ifndef BRIG_SERVE_E2B_BUILD_H
#define BRIG_SERVE_E2B_BUILD_H

#include <limits.h>

#include "serve/serve.h"
#include "serve/templates.h"

#define BUILD_ID_SIZE   37 /* a UUID */
#define BUILD_HASH_SIZE 65

struct building;

struct builds {
	struct building *first; /* that run */
	size_t count;
	char secret[TOKEN_SIZE]; /* of addresses for uploads, in this life of the daemon */
};

/* NULL: out of memory. */
struct builds *builds_of(struct serve *serve);
void builds_done(struct serve *serve); /* at the end of the daemon; children notice it themselves */
bool build_is_running(struct serve *serve, const char *id);

/* Removes what is too old, and uploads that never ended. At the start of the daemon, and before each build. */
void build_sweep(void);

/* "builds" or "uploads", and a name in it. */
[[nodiscard]] int build_path(const char *folder, const char *name, const char *ending,
			     char ret_path[static PATH_MAX], struct err *err);
bool build_id_is_valid(const char *id);
bool build_hash_is_valid(const char *hash);
[[nodiscard]] int build_upload_path(const char *tenant, const char *hash,
				    char ret_path[static PATH_MAX], struct err *err);
/* The file that says for whom: 0 if it is this tenant's build of this template. */
[[nodiscard]] int build_find(const struct request *q, const char *template_id, const char *id,
			     struct node **ret_meta);

/* --- e2b_build_log.c --- */
[[nodiscard]] int build_read_log(const char *id, struct buf *text); /* -ENOENT: it has not begun */
struct node *build_last_line(const struct buf *text, const char *key); /* the value of that key */
void build_append(const char *id, struct node *line);                  /* takes it */

/* A UUID for what has none: the same for the same words. */
void build_uuid(const char *words, char ret_id[static BUILD_ID_SIZE]);

/* --- the handlers --- */
void template_begin(struct request *q);  /* POST /v3/templates */
void template_start(struct request *q);  /* POST /v2/templates/{id}/builds/{build} */
void template_status(struct request *q); /* GET .../status */
void template_logs(struct request *q);
void template_files(struct request *q);  /* GET /templates/{id}/files/{hash} */
void template_upload(struct request *q); /* PUT .../upload */
void template_add_tags(struct request *q);
void template_delete_tags(struct request *q);
void template_tags(struct request *q);

#endif
