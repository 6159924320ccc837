/*
 * entry.h - a file of a sandbox, as E2B's clients want to be told of it (EntryInfo)
 *
 * Out of an ENTRY that init sent, of which nothing is believed: names become valid UTF-8, numbers are bounded.
 * The name and the size are the link's own, mode and type those of what it leads to. Go writes the permissions:
 * a letter for each thing that is special, then nine for the rights.
 */
#ifndef BRIG_SERVE_ENTRY_H
#define BRIG_SERVE_ENTRY_H

#include "proto/message.h"

#define ENTRY_ATTRIBUTES  "user.e2b." /* the attributes that are a file's metadata */
#define ENTRY_PERMISSIONS 24
#define ENTRY_TIME        40

/* Asks for all that entry_write() tells: for the draft of a STAT or a LIST. */
void entry_ask(struct draft *d, unsigned int flags);

/* The JSON object. path: as the client is to see it, its last part is the name. */
[[nodiscard]] int entry_write(const struct message *m, const char *path, struct buf *buf);

/* "-rw-r--r--", "drwxr-xr-x", "dtrwxrwxrwx", "Lrwxrwxrwx" */
void entry_permissions(unsigned int mode, char ret[static ENTRY_PERMISSIONS]);
/* "2026-01-31T12:00:00.123456789Z" */
void entry_time(uint64_t ns, char ret[static ENTRY_TIME]);
/* "user" and "root"; others by number. */
void entry_owner(uint64_t id, char ret[static 24]);

/* The last part of a path; "/" of the root. */
const char *entry_name(const char *path);

#endif
