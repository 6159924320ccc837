/*
 * inside.h - the keeper of a container: pid 1 of namespaces that it sets up itself
 *
 * Born with every namespace of the plan, the keeper first waits until the warden has mapped its
 * ids and put it into its cgroup, where that is the warden's part; then it carries out its part of
 * the plan. As pid 1 it needs no Landlock domain to end the sandbox: kill(-1) reaches exactly its
 * pid namespace, and its own death takes everything along. It dies with the warden, by the kernel's
 * hand.
 *
 * Nothing of the host is left in it afterwards but the control socket and what the program gets as
 * standard input and output.
 */
#ifndef BRIG_JAIL_INSIDE_H
#define BRIG_JAIL_INSIDE_H

#include "jail/execute.h"
#include "jail/keeper.h"

/* Whether the plan makes namespaces, that is, whether the keeper is one of a container. */
bool plan_has_namespaces(const struct plan *plan);

/* Waits for the warden and carries out the plan. -errno with the operation, or -1 where none. */
[[nodiscard]] int inside_set_up(const struct jail *jail, int control, struct executor *executor,
				int *ret_op);

/*
 * Gives the sandbox a terminal of its own devpts, with the settings of the one that the warden
 * made, which it replaces under the same number; the master goes to the warden.
 */
[[nodiscard]] int inside_terminal(const struct jail *jail, const struct jail_command *command,
				  int control);

/* Once the program runs: nothing more to be than it, and less than it could do to us. */
[[nodiscard]] int inside_settle(const struct jail *jail);

/* In the warden: the child's part that only we can do. On failure the operation is named. */
[[nodiscard]] int inside_admit(const struct jail *jail, pid_t keeper, int control, bool in_v2,
			       struct err *err);

/* Sends an event, with a descriptor unless that is negative. */
void keeper_tell(int control, const struct keeper_event *event, int descriptor);

#endif
