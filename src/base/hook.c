#include "base/hook.h"

#ifdef BRIG_TEST_HOOKS

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds name in the comma-separated list of an environment variable; returns what follows it, or
 * NULL. */
static const char *list_find(const char *variable, const char *name)
{
	const char *p = getenv(variable);
	size_t len = strlen(name);

	while (p && *p) {
		const char *end = p + strcspn(p, ",");

		if ((size_t)(end - p) >= len && memcmp(p, name, len) == 0 &&
		    (p[len] == ',' || p[len] == '=' || p[len] == '\0'))
			return p + len;
		p = *end ? end + 1 : end;
	}
	return NULL;
}

bool hook_without(const char *wall)
{
	return list_find("BRIG_TEST_WITHOUT", wall);
}

int hook_errno(const char *call)
{
	const char *rest = list_find("BRIG_TEST_FAIL", call);

	return rest && *rest == '=' ? atoi(rest + 1) : 0;
}

void hook_point(const char *name)
{
	if (list_find("BRIG_TEST_DIE", name))
		kill(getpid(), SIGKILL);
}

#endif
