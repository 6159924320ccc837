/*
 * alloc.h - allocations that fail on request
 *
 * A test that is linked with alloc.c and with --wrap for its functions (meson.build) sends the
 * calls of brig's code, and only those, through it.
 */
#ifndef BRIG_TEST_ALLOC_H
#define BRIG_TEST_ALLOC_H

/* How many allocations still succeed; negative: all. */
extern int alloc_left;

#endif
