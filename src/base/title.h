/*
 * title.h - what others see of a process's command line
 *
 * A helper is a fork of brig, and its command line would be the caller's, with the caller's paths
 * in it, for whoever can read /proc.
 */
#ifndef BRIG_BASE_TITLE_H
#define BRIG_BASE_TITLE_H

/* Once, by main, before anything is forked. */
void title_init(int argc, char **argv);

/* Overwrites the command line of this process; what was in argv is gone. Async-signal-safe. */
void title_set(const char *title);

#endif
