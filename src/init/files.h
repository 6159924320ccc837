/*
 * files.h - the calls for files, each carried out by a process of its own
 *
 * A call for a file may take long (a large file, a deep tree, a pipe that nobody reads) and has to be
 * made with the rights of a user. So init forks for each: the child has become that user, has his home
 * as its working directory, and speaks over a channel of its own, whose messages init hands on under
 * the same number. What it does there cannot harm init or another call; when the call is cancelled, or
 * the channel ends, so does the child.
 */
#ifndef BRIG_INIT_FILES_H
#define BRIG_INIT_FILES_H

#include "proto/channel.h"

/* Whether a message begins such a call: STAT, LIST, READ, WRITE, MOVE, REMOVE, MAKE, WATCH, ATTRIBUTES,
 * ATTRIBUTE_SET. */
bool files_has(enum message_type type);

/*
 * In the child. The channel's peer is FROM_WARDEN; DATA, DATA_END, CREDIT and CANCEL of this call come
 * over it. Relative paths are below the working directory. Does not return.
 */
_Noreturn void files_serve(struct message *m, struct channel *channel);

#endif
