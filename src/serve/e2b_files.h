/*
 * e2b_files.h - the handlers behind the rows of e2b_files.c, each in the file of its kind
 */
#ifndef BRIG_SERVE_E2B_FILES_H
#define BRIG_SERVE_E2B_FILES_H

#include "serve/agent.h"

/* e2b_filesystem.c */
void e2b_stat(struct request *q);
void e2b_make(struct request *q);
void e2b_move(struct request *q);
void e2b_list(struct request *q);
void e2b_remove(struct request *q);

/* e2b_watch.c */
void e2b_watch(struct request *q);
void e2b_create_watcher(struct request *q);
void e2b_watcher_events(struct request *q);
void e2b_remove_watcher(struct request *q);
void e2b_watch_done(struct serve *serve); /* at the end of the daemon, before the fleet's */

/* e2b_download.c, e2b_upload.c: once the request may. */
void e2b_download(struct request *q, const struct agent_place *place);
/* path: as the client gave it; "": the form's files have names. */
void e2b_upload(struct request *q, const char *user, const char *path);

#endif
