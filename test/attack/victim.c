/*
 * victim.c - a process of the same user that holds secrets in every place where one can look: its
 * environment (put there by whoever started it), a descriptor, its memory, the user's keyring.
 */
#include "probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define KEYRING_OF_USER (-4)
#define KEYCTL_TIMEOUT  15

static char secret[64];

int victim_main(char **arguments)
{
	const char *file = arguments[0], *key = arguments[1], *word = arguments[2];
	long id = 0;

	snprintf(secret, sizeof(secret), "%s", word);
	/* Where Yama would keep siblings from tracing each other, it is not the wall under test. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (dup2(open(file, O_RDONLY), 9) < 0)
		return 2;
	/* A user has few keys, and the kernel forgets them slowly: none unless a probe asks for it.
	 */
	if (key[0])
		id = raw(SYS_add_key, "user", key, word, strlen(word), KEYRING_OF_USER);
	if (id > 0)
		raw(SYS_keyctl, KEYCTL_TIMEOUT, id, 30);
	printf("%d %p %ld\n", getpid(), (void *)secret, id);
	fflush(stdout);
	for (;;)
		pause();
}
