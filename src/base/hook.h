/*
 * hook.h - what a test build can switch off
 *
 * A wall is proven by knocking it out: a test build (meson option test_hooks, never in a release)
 * reads BRIG_TEST_WITHOUT, a comma-separated list of walls to leave down, and BRIG_TEST_FAIL, a
 * list of call=errno pairs that make a system call of sys.h fail; and BRIG_TEST_DIE, the name of a point
 * at which the process that comes there is killed. In a release build the questions
 * are constants and the code behind them is gone; "brig version" says which build it is, and
 * "strings" on a release finds neither name.
 */
#ifndef BRIG_BASE_HOOK_H
#define BRIG_BASE_HOOK_H

#include <stdbool.h>

#ifdef BRIG_TEST_HOOKS
#define BRIG_HAS_TEST_HOOKS true
bool hook_without(const char *wall);
int hook_errno(const char *call);  /* 0, or the errno that the call must fail with */
void hook_point(const char *name); /* BRIG_TEST_DIE: the process is killed here, as by kill -9 */
#else
#define BRIG_HAS_TEST_HOOKS false
static inline bool hook_without(const char *wall)
{
	(void)wall;
	return false;
}
static inline int hook_errno(const char *call)
{
	(void)call;
	return 0;
}
static inline void hook_point(const char *name)
{
	(void)name;
}
#endif

#endif
