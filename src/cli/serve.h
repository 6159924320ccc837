/*
 * serve.h - how brig hands over to brig-serve, the program that needs more than the C library
 *
 * What a person writes is read and checked here; the other program gets one JSON object whose "verb" says
 * what to do, and prints what there is to print.
 */
#ifndef BRIG_CLI_SERVE_H
#define BRIG_CLI_SERVE_H

#include "data/node.h"

/* Becomes brig-serve. Returns only when that fails: the status to exit with, after a line about it. */
int serve_exec(const struct node *request);

#endif
