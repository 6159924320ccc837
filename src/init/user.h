/*
 * user.h - who a process inside is to be
 *
 * Where init has the capabilities for it (a container that root started), a process is any user of the
 * sandbox, by default uid 1000; everywhere else there is one user only. Where the system is the sandbox's
 * own, its root keeps what init has (files, users and signals of the sandbox), or the one user stands for
 * root. Names come from /etc/passwd
 * inside, a file that the workload may have written: it is read with a bound, and lines that are none
 * are passed over.
 */
#ifndef BRIG_INIT_USER_H
#define BRIG_INIT_USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define USER_DEFAULT 1000
#define PASSWD_MAX   MIB

struct user {
	uid_t uid;
	gid_t gid;
	bool is_default; /* its HOME, USER, LOGNAME and SHELL are those of the sandbox */
	char name[64];   /* the number, where it has none */
	char home[512];
	char shell[256];
};

/* What init found itself with. */
struct rights {
	bool has_users;        /* it may become another user */
	bool has_capabilities; /* any at all, which its children must not have */
	bool has_root;         /* but for root, who has some (SYS_ROOT_RIGHTS) */
	bool is_root;          /* of the one user: he is who root means */
};

/* The entry of a name, else of a number, in what a passwd file says; else false. Pure. */
bool passwd_find(const char *text, size_t len, const char *name, struct user *ret_user);

/* Decimal digits alone, and a uid that can be one. */
bool parse_uid(const char *text, size_t len, uid_t *ret_uid);

/* wanted: a name or a number, NULL for the default. */
[[nodiscard]] int user_choose(const char *wanted, const struct rights *rights,
			      struct user *ret_user, struct err *err);

/* What is made from now on belongs to this user; NULL: to us again. */
void user_act_as(const struct user *user, bool has_users);

/*
 * Becomes that user, without groups and capabilities, for good. Raw system calls, for a child that
 * shares the memory of its parent.
 */
[[nodiscard]] int user_become(const struct user *user, const struct rights *rights);

/* The same, with another uid to go back to. */
[[nodiscard]] int user_become_backed(const struct user *user, uid_t saved,
				     const struct rights *rights);

#endif
