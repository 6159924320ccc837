/*
 * facts.h - what the rules of a policy find on this host (private to tier/)
 *
 * Each rule of the policy leads somewhere: to a folder or file, through links, to nothing, to a file system that
 * cannot map ids. The container tier looks once, opens what it will mount, and from then on works with
 * what it has open: a name that changes later leads nowhere else. The result goes into a view_request.
 */
#ifndef BRIG_TIER_FACTS_H
#define BRIG_TIER_FACTS_H

#include "tier/jail.h"
#include "tier/view.h"

#define MAPPINGS_MAX 8 /* owners of trees; more are refused */

/* What was found on the host, on its way to a view_request. */
struct facts {
	const struct tier_request *request;
	struct tier_jail *tj;
	struct view_rule *rules;
	size_t count, room;
	struct mapping {
		uid_t owner;
		gid_t group;
		bool whole;
		int fd;
	} mappings[MAPPINGS_MAX];
	size_t mapping_count;
	bool mapping_failed;   /* the namespace for it could not be made */
	unsigned int unmapped; /* trees on a file system that cannot map ids */
	unsigned int sealed;   /* folders of the system that stay read-only */
};

/* Whether the sandbox has a root of its own who may change the system that it sees. */
bool facts_owns_system(const struct facts *facts);
[[nodiscard]] int facts_look_at_image(struct facts *facts, struct view_request *view,
				      struct err *err);
/* The layers of a snapshot or template that it starts from. */
[[nodiscard]] int facts_look_at_from(struct facts *facts, struct view_request *view,
				     struct err *err);
[[nodiscard]] int facts_look_at_sudo(struct facts *facts, struct view_request *view,
				     struct err *err);
[[nodiscard]] int facts_look_at_rules(struct facts *facts, struct err *err);
/* What is planned is closed with the plan, else here. */
void facts_done(struct facts *facts, bool is_planned);

#endif
