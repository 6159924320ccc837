/* registry_quota.c - what a tenant may still have, and how fast */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "serve/registry_internal.h"

#define BURST_S  10 /* what a tenant may make at once, after a pause: so many seconds' worth */
#define WAIT_MAX 60 /* for room: sandboxes end earlier than they must */

static struct account *account_of(struct registry *registry, const char *tenant)
{
	struct account *account = registry->accounts;

	while (account && !str_equal(account->tenant, tenant))
		account = account->next;
	if (account)
		return account;
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	snprintf(account->tenant, sizeof(account->tenant), "%s", tenant);
	account->next = registry->accounts;
	registry->accounts = account;
	return account;
}

static void usage_add(struct usage *usage, double cpu, uint64_t memory, uint64_t disk)
{
	usage->sandboxes++;
	usage->cpu += cpu;
	if (__builtin_add_overflow(usage->memory, memory, &usage->memory))
		usage->memory = UINT64_MAX;
	if (__builtin_add_overflow(usage->disk, disk, &usage->disk))
		usage->disk = UINT64_MAX;
}

/* One that is paused keeps its memory and its files; it counts until it has ended. */
static struct usage held_by(const struct registry *registry, const char *tenant)
{
	struct usage usage = { 0 };

	for (size_t i = 0; i < registry->count; i++) {
		const struct held *held = &registry->sorted[i]->held;

		if (str_equal(held->tenant, tenant))
			usage_add(&usage, held->cpu, held->memory, held->disk);
	}
	return usage;
}

void registry_usage(struct registry *registry, const char *tenant, struct usage *ret_usage)
{
	const struct account *account = registry->accounts;
	struct usage usage = held_by(registry, tenant);

	while (account && !str_equal(account->tenant, tenant))
		account = account->next;
	if (account) {
		usage.sandboxes += account->promised.sandboxes;
		usage.cpu += account->promised.cpu;
		usage.memory += account->promised.memory;
		usage.disk += account->promised.disk;
	}
	*ret_usage = usage;
}

/* Until one of the tenant's must end; it may well do so before. */
static unsigned int wait_for_room(const struct registry *registry, const char *tenant)
{
	uint64_t now = registry_now(), wait = (uint64_t)WAIT_MAX * 1000;

	for (size_t i = 0; i < registry->count; i++) {
		const struct held *held = &registry->sorted[i]->held;

		if (held->ends && held->state == HELD_RUNNING && !held->pauses &&
		    str_equal(held->tenant, tenant))
			wait = MIN(wait, held->ends > now ? held->ends - now : 0);
	}
	return (unsigned int)(wait / 1000) + 1;
}

/* The sum as it would be, against each quota that there is. */
static int check_room(const struct tenant *tenant, const struct usage *sum, struct err *err)
{
	char most[32];

	if (tenant->max_sandboxes && sum->sandboxes > tenant->max_sandboxes)
		return err_set(err, -EDQUOT,
			       "tenant \"%s\" has as many sandboxes as it may have (%llu)",
			       tenant->name, (unsigned long long)tenant->max_sandboxes);
	if (tenant->max_cpu > 0 && sum->cpu > tenant->max_cpu + 1e-6)
		return err_set(err, -EDQUOT, "tenant \"%s\" may use %g CPUs in all", tenant->name,
			       tenant->max_cpu);
	if (tenant->max_memory && sum->memory > tenant->max_memory) {
		format_size(tenant->max_memory, most, sizeof(most));
		return err_set(err, -EDQUOT, "tenant \"%s\" may use %s of memory in all",
			       tenant->name, most);
	}
	if (tenant->max_disk && sum->disk > tenant->max_disk) {
		format_size(tenant->max_disk, most, sizeof(most));
		return err_set(err, -EDQUOT, "tenant \"%s\" may use %s of disk in all",
			       tenant->name, most);
	}
	return 0;
}

/* A bucket of tokens: filled at the rate, up to a burst. */
static int take_token(struct registry *registry, struct account *account,
		      const struct tenant *tenant, unsigned int *ret_wait_s, struct err *err)
{
	double rate = tenant->create_rate, most = MAX(1.0, rate * BURST_S);
	uint64_t now = loop_now(registry->serve->loop);

	if (rate <= 0)
		return 0;
	if (!account->has_begun)
		account->tokens = most;
	else
		account->tokens = MIN(
			most, account->tokens + rate * (double)(now - account->refilled) / 1000.0);
	account->has_begun = true;
	account->refilled = now;
	if (account->tokens < 1) {
		*ret_wait_s = (unsigned int)MIN((1 - account->tokens) / rate, 3600.0) + 1;
		return err_set(err, -EDQUOT, "tenant \"%s\" makes sandboxes too fast (%g a second)",
			       tenant->name, rate);
	}
	account->tokens -= 1;
	return 0;
}

/* Templates and snapshots lie on the same disk. */
static uint64_t image_bytes(const struct registry *registry, const struct tenant *tenant)
{
	uint64_t bytes = 0;

	/* A store that cannot say it will not take the sandbox either. */
	if (tenant->max_disk)
		(void)!store_template_bytes(registry->serve->store, tenant->name, &bytes);
	return bytes;
}

int registry_check_image(struct registry *registry, const struct tenant *tenant, uint64_t bytes,
			 struct err *err)
{
	struct tenant named = { .max_disk = tenant->max_disk };
	struct usage sum;

	snprintf(named.name, sizeof(named.name), "%s", tenant->name);
	registry_usage(registry, tenant->name, &sum);
	sum.disk += image_bytes(registry, tenant) + bytes;
	return check_room(&named, &sum, err);
}

int registry_reserve(struct registry *registry, const struct tenant *tenant, double cpu,
		     uint64_t memory, uint64_t disk, unsigned int *ret_wait_s, struct err *err)
{
	struct account *account = account_of(registry, tenant->name);
	struct usage sum;
	int r;

	if (!account)
		return err_set(err, -ENOMEM, "out of memory");
	registry_usage(registry, tenant->name, &sum);
	usage_add(&sum, cpu, memory, disk);
	sum.disk += image_bytes(registry, tenant);
	r = check_room(tenant, &sum, err);
	if (r < 0)
		*ret_wait_s = wait_for_room(registry, tenant->name);
	r = r < 0 ? r : take_token(registry, account, tenant, ret_wait_s, err);
	if (r == 0)
		usage_add(&account->promised, cpu, memory, disk);
	return r;
}

void registry_unreserve(struct registry *registry, const char *tenant, double cpu, uint64_t memory,
			uint64_t disk)
{
	struct account *account = account_of(registry, tenant);
	struct usage *promised = account ? &account->promised : NULL;

	if (!promised || promised->sandboxes == 0)
		return;
	promised->sandboxes--;
	promised->cpu = promised->sandboxes ? promised->cpu - cpu : 0;
	promised->memory -= MIN(promised->memory, memory);
	promised->disk -= MIN(promised->disk, disk);
}

void quota_done(struct registry *registry)
{
	while (registry->accounts) {
		struct account *account = registry->accounts;

		registry->accounts = account->next;
		free(account);
	}
}
