/*
 * ui.h - the dashboard's files, which are part of the program (ui/, embed.c)
 */
#ifndef BRIG_SERVE_UI_H
#define BRIG_SERVE_UI_H

#include <stddef.h>

struct ui_file {
	const char *name; /* NULL behind the last */
	const char *etag;
	const unsigned char *data;
	size_t len;
};

extern const struct ui_file ui_files[];

#endif
