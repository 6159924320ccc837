/* doctor.c - brig doctor: what this host can enforce, and what would help where it cannot */
#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "data/schema.h"
#include "tier/tier.h"

static const struct option doctor_options[] = {
	{ 0, "json", NULL, "print JSON" },
	{ 0, "schema", NULL, "print the JSON Schema of what --json prints" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

enum tier_state { TIER_READY, TIER_MISSING, TIER_NOT_BUILT };
static const char *const state_names[] = { "ready", "missing", "not built" };

static enum tier_state state_of(const struct tier *tier, const struct host *host,
				enum host_feature *ret_missing)
{
	*ret_missing = tier_missing(tier, host);
	if (!tier->prepare)
		return TIER_NOT_BUILT;
	return *ret_missing == HOST_FEATURE_COUNT ? TIER_READY : TIER_MISSING;
}

/* The tier that "brig run" takes without being told. */
static const struct tier *default_tier(void)
{
	struct policy policy;
	struct err err = ERR_NONE;
	const struct tier *tier = NULL;
	const char *why;

	policy_init(&policy);
	if (tier_choose(&policy, &tier, &why, &err) < 0)
		tier = NULL;
	policy_done(&policy);
	return tier;
}

static void print_tier(const struct tier *tier, const struct host *host,
		       const struct tier *standard)
{
	enum host_feature missing;
	enum tier_state state = state_of(tier, host, &missing);

	printf("  %-10s %-10s %s%s\n", isolation_names[tier->isolation], state_names[state],
	       tier->walls, tier == standard ? " (default)" : "");
	if (state == TIER_NOT_BUILT)
		printf("  %-10s %-10s this version of brig does not have it yet; the host %s%s\n",
		       "", "", missing == HOST_FEATURE_COUNT ? "has what it needs" : "also lacks: ",
		       missing == HOST_FEATURE_COUNT ? "" : host_features[missing].title);
	else if (state == TIER_MISSING)
		printf("  %-10s %-10s missing: %s, %s\n", "", "", host_features[missing].title,
		       host->facts[missing].remedy[0] ? host->facts[missing].remedy
						      : "nothing on this host helps");
}

static bool is_user(const struct host *host)
{
	return !host->root;
}

static bool is_root(const struct host *host)
{
	return host->root;
}

static bool lacks_memory(const struct host *host)
{
	return !host->facts[HOST_CGROUP_MEMORY].ok;
}

static bool lacks_cpu(const struct host *host)
{
	return !host->facts[HOST_CGROUP_CPU].ok;
}

static bool is_user_lacking_pids(const struct host *host)
{
	return !host->root && !host->facts[HOST_CGROUP_PIDS].ok;
}

#define DELEGATE                                                                          \
	"run it in a cgroup of its own: systemd-run --user --scope -p Delegate=yes brig " \
	"run ... (cgroup v2), or as root"

/* Where a sandbox of this caller's is weaker than another's, and what would make them equal. */
static const struct difference {
	const char *wall, *here, *remedy;
	bool (*is)(const struct host *host);
} differences[] = {
	{ "ids", "container: the caller's own id and groups on the host; root's have a range each",
	  "run brig as root, which gives each sandbox 65536 ids of its own", is_user },
	{ "ids", "process tier: keeps uid 0, without capabilities",
	  "use the container tier, or run brig as an ordinary user", is_root },
	{ "memory", "a limit on each process and a watch over the sum, no cgroup", DELEGATE,
	  lacks_memory },
	{ "cpu", "whole CPUs by affinity, no fraction, no cgroup", DELEGATE, lacks_cpu },
	{ "pids", "process tier: shared with the caller's other tasks", DELEGATE,
	  is_user_lacking_pids },
	{ NULL, NULL, NULL, NULL },
};

static void print_differences(const struct host *host)
{
	bool any = false;

	for (size_t i = 0; differences[i].wall; i++) {
		const struct difference *d = &differences[i];

		if (!d->is(host))
			continue;
		printf("%s  %-12s %s\n  %-12s remedy: %s\n",
		       any ? "" : "\nWhat a sandbox of this caller's lacks\n", d->wall, d->here, "",
		       d->remedy);
		any = true;
	}
}

static void print_text(const struct host *host, const struct tier *standard)
{
	printf("Linux %s, %s%s\n\nTiers\n", host->kernel, host->root ? "root" : "an ordinary user",
	       host->container ? ", inside a container" : "");
	for (size_t i = 0; i < tier_count; i++)
		print_tier(&tiers[i], host, standard);
	printf("\nHost\n");
	for (size_t i = 0; i < HOST_FEATURE_COUNT; i++) {
		const struct host_fact *fact = &host->facts[i];

		printf("  %-3s %-28s %s\n", fact->ok ? "yes" : "no", host_features[i].title,
		       fact->detail);
		if (!fact->ok && fact->remedy[0])
			printf("      %-28s remedy: %s\n", "", fact->remedy);
	}
	print_differences(host);
}

static struct node *tier_node(const struct tier *tier, const struct host *host,
			      const struct tier *standard)
{
	_cleanup_(node_freep) struct node *map = node_map();
	enum host_feature missing;
	enum tier_state state = state_of(tier, host, &missing);
	bool lacks = missing != HOST_FEATURE_COUNT;
	int r = map ? node_set(map, "tier", node_string(isolation_names[tier->isolation]))
		    : -ENOMEM;

	r = r < 0 ? r : node_set(map, "state", node_string(state_names[state]));
	r = r < 0 ? r : node_set(map, "default", node_bool(tier == standard));
	r = r < 0 ? r : node_set(map, "walls", node_string(tier->walls));
	r = r < 0 ? r
		  : node_set(map, "missing",
			     lacks ? node_string(host_features[missing].name) : node_null());
	r = r < 0 ? r
		  : node_set(map, "remedy", node_string(lacks ? host->facts[missing].remedy : ""));
	return r < 0 ? NULL : take_ptr(&map);
}

static struct node *fact_node(enum host_feature feature, const struct host_fact *fact)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "name", node_string(host_features[feature].name)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "title", node_string(host_features[feature].title));
	r = r < 0 ? r : node_set(map, "why", node_string(host_features[feature].why));
	r = r < 0 ? r : node_set(map, "ok", node_bool(fact->ok));
	r = r < 0 ? r : node_set(map, "detail", node_string(fact->detail));
	r = r < 0 ? r : node_set(map, "remedy", node_string(fact->remedy));
	return r < 0 ? NULL : take_ptr(&map);
}

static struct node *difference_node(const struct difference *d)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "wall", node_string(d->wall)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "here", node_string(d->here));
	r = r < 0 ? r : node_set(map, "remedy", node_string(d->remedy));
	return r < 0 ? NULL : take_ptr(&map);
}

static int print_as_json(const struct host *host, const struct tier *standard, bool ready)
{
	_cleanup_(node_freep) struct node *root = node_map(), *tier_list = node_list(),
					  *facts = node_list(), *lacks = node_list();
	int r = root && tier_list && facts && lacks ? 0 : -ENOMEM;

	for (size_t i = 0; i < tier_count && r == 0; i++)
		r = node_add(tier_list, tier_node(&tiers[i], host, standard));
	for (size_t i = 0; i < HOST_FEATURE_COUNT && r == 0; i++)
		r = node_add(facts, fact_node((enum host_feature)i, &host->facts[i]));
	for (size_t i = 0; differences[i].wall && r == 0; i++)
		if (differences[i].is(host))
			r = node_add(lacks, difference_node(&differences[i]));
	r = r < 0 ? r : node_set(root, "ready", node_bool(ready));
	r = r < 0 ? r : node_set(root, "kernel", node_string(host->kernel));
	r = r < 0 ? r : node_set(root, "root", node_bool(host->root));
	r = r < 0 ? r : node_set(root, "container", node_bool(host->container));
	r = r < 0 ? r : node_set(root, "tiers", take_ptr(&tier_list));
	r = r < 0 ? r : node_set(root, "host", take_ptr(&facts));
	r = r < 0 ? r : node_set(root, "differences", take_ptr(&lacks));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

/* The schema is what print_as_json() writes: one row per field. */
static const struct {
	const char *list, *name, *type; /* list: NULL for the object itself */
} schema_fields[] = {
	{ NULL, "ready", "boolean" },          { NULL, "kernel", "string" },
	{ NULL, "root", "boolean" },           { NULL, "container", "boolean" },
	{ "tiers", "tier", "string" },         { "tiers", "state", "string" },
	{ "tiers", "default", "boolean" },     { "tiers", "walls", "string" },
	{ "tiers", "missing", "string|null" }, { "tiers", "remedy", "string" },
	{ "host", "name", "string" },          { "host", "title", "string" },
	{ "host", "why", "string" },           { "host", "ok", "boolean" },
	{ "host", "detail", "string" },        { "host", "remedy", "string" },
	{ "differences", "wall", "string" },   { "differences", "here", "string" },
	{ "differences", "remedy", "string" },
};

/* Adds the fields of one list (NULL: of the object itself), all of them required. */
static int add_fields(const char *list, struct node *object)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(schema_fields) && r == 0; i++) {
		const char *of = schema_fields[i].list;

		if (of == list || (of && list && str_equal(of, list)))
			r = schema_add(object, schema_fields[i].name,
				       schema_type(schema_fields[i].type), true);
	}
	return r;
}

static int add_list(const char *list, struct node *document)
{
	_cleanup_(node_freep) struct node *item = schema_object();
	int r = add_fields(list, item);

	return r < 0 ? r : schema_add(document, list, schema_list(take_ptr(&item)), true);
}

static int print_schema(void)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig host report");
	int r = add_fields(NULL, document);

	r = r < 0 ? r : add_list("tiers", document);
	r = r < 0 ? r : add_list("host", document);
	r = r < 0 ? r : add_list("differences", document);
	return r < 0 ? complain_text("out of memory") : print_json(document);
}

static int verb_doctor_main(int argc, char **argv)
{
	static struct host host;
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	const struct tier *standard = default_tier();
	struct err err = ERR_NONE;
	const char *name, *value;
	bool json = false, ready;
	int r;

	while ((r = args_next(&args, &verb_doctor, &name, &value, &err)) > 0) {
		if (str_equal(name, "help")) {
			print_help(&verb_doctor);
			return 0;
		}
		if (str_equal(name, "schema"))
			return print_schema();
		json = true;
	}
	if (r < 0)
		return complain(&err);
	if (args.at < argc)
		return complain_text("doctor takes no argument, found \"%s\"", argv[args.at]);
	host_probe(&host);
	ready = standard && tier_missing(standard, &host) == HOST_FEATURE_COUNT;
	if (json)
		return print_as_json(&host, standard, ready) ?: !ready;
	print_text(&host, standard);
	return ready ? 0 : 1;
}

const struct verb verb_doctor = {
	.name = "doctor",
	.usage = "[--json]",
	.summary = "tell what this host can enforce, and what would help",
	.text = "Tries every kernel feature that a tier stands on, as this user, and prints for "
		"each tier whether it "
		"is ready, and for each thing missing the exact remedy; then where a sandbox of "
		"this caller's is weaker than one of root's or of another user's, and what would "
		"make "
		"them equal. Leaves nothing behind.\n\n"
		"The exit status is 0 when the default tier is ready, 1 when it is not.",
	.example = "brig doctor\nbrig doctor --json",
	.options = doctor_options,
	.run = verb_doctor_main,
};
