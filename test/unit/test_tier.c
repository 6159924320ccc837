#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "policy_case.h"
#include "tier/tier.h"

static void every_tier_has_a_row(void **state)
{
	(void)state;
	for (int i = ISOLATION_PROCESS; i < ISOLATION_AUTO; i++) {
		const struct tier *tier = tier_find((enum isolation)i);

		assert_non_null(tier);
		assert_int_equal(tier->isolation, i);
		assert_true(tier->walls[0] && tier->purpose[0]);
	}
	assert_null(tier_find(ISOLATION_UNSET));
	assert_null(tier_find(ISOLATION_AUTO));
	assert_int_equal(tier_count, ISOLATION_AUTO - ISOLATION_PROCESS);
	assert_non_null(tier_find(ISOLATION_PROCESS)->prepare);
	assert_non_null(tier_find(ISOLATION_CONTAINER)->prepare);
}

/* Every list of needs has an end, and the first that is missing is named. */
static void what_is_missing(void **state)
{
	static struct host all, none;

	(void)state;
	for (size_t i = 0; i < HOST_FEATURE_COUNT; i++)
		all.facts[i].ok = true;
	for (size_t i = 0; i < tier_count; i++) {
		size_t count = 0;

		while (count < TIER_MAX_NEEDS && tiers[i].needs[count] != HOST_FEATURE_COUNT)
			count++;
		assert_in_range(count, 1, TIER_MAX_NEEDS - 1);
		assert_int_equal(tier_missing(&tiers[i], &all), HOST_FEATURE_COUNT);
		assert_int_equal(tier_missing(&tiers[i], &none), tiers[i].needs[0]);
		for (size_t k = 0; k < count; k++) {
			all.facts[tiers[i].needs[k]].ok = false;
			assert_int_equal(tier_missing(&tiers[i], &all), tiers[i].needs[k]);
			all.facts[tiers[i].needs[k]].ok = true;
		}
	}
}

/* What this version has is known here: a new tier changes these rows. */
static void choosing(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *words;
	} rows[] = {
		{ "", 0, "auto" },
		{ "isolation: auto", 0, "auto" },
		{ "floor: auto", 0, "auto" },
		{ "floor: process", 0, "auto" },
		{ "isolation: process", 0, "asked for" },
		{ "isolation: process\nfloor: process", 0, "asked for" },
		{ "isolation: process\nfloor: auto", 0, "asked for" },
		{ "isolation: process\nfloor: container", -EPERM,
		  "the process tier is below the policy's floor, container" },
		{ "isolation: process\nfloor: script", -EPERM, "below the policy's floor, script" },
		{ "isolation: container\nfloor: vm", -EPERM, "below the policy's floor, vm" },
		{ "isolation: container", 0, "asked for" },
		{ "floor: container", 0, "auto" },
		{ "isolation: vm\nfloor: container", -EOPNOTSUPP, "does not have the vm tier" },
		{ "isolation: script", -EOPNOTSUPP, "does not have the script tier" },
		{ "floor: vm", -EOPNOTSUPP, "the policy's floor is vm" },
		{ "isolation: auto\nfloor: gvisor", -EOPNOTSUPP, "the policy's floor is gvisor" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct tier *tier = NULL;
		const char *why = NULL;
		struct err err = ERR_NONE;
		struct policy policy;
		char text[100];
		int r;

		snprintf(text, sizeof(text), "version: 1\n%s\n", rows[i].text);
		case_parse(text, &policy);
		r = tier_choose(&policy, &tier, &why, &err);
		policy_done(&policy);
		assert_int_equal(r, rows[i].code);
		if (!strstr(r < 0 ? err.text : why, rows[i].words))
			fail_msg("%s: %s", rows[i].text, r < 0 ? err.text : why);
		if (r < 0)
			assert_null(tier);
		else
			assert_int_equal(tier->isolation, strstr(rows[i].text, "isolation: process")
								  ? ISOLATION_PROCESS
								  : ISOLATION_CONTAINER);
	}
}

/* What takes over when this host cannot give a tier: only where the policy leaves the choice. */
static void instead(void **state)
{
	static const struct {
		const char *text;
		bool host_lacks, takes_over;
	} rows[] = {
		{ "", true, true },
		{ "isolation: auto\nfloor: process", true, true },
		{ "floor: container", true, false },
		{ "isolation: container", true, false },
		{ "", false, false },
	};
	static struct host host;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum host_feature missing;
		const struct tier *tier;
		struct policy policy;
		char text[100];

		for (size_t k = 0; k < HOST_FEATURE_COUNT; k++)
			host.facts[k].ok = true;
		host.facts[HOST_USERNS].ok = !rows[i].host_lacks;
		snprintf(text, sizeof(text), "version: 1\n%s\n", rows[i].text);
		case_parse(text, &policy);
		tier = tier_instead(&policy, tier_find(ISOLATION_CONTAINER), &host, &missing);
		policy_done(&policy);
		assert_int_equal(missing, rows[i].host_lacks ? HOST_USERNS : HOST_FEATURE_COUNT);
		assert_ptr_equal(tier, rows[i].takes_over ? tier_find(ISOLATION_PROCESS) : NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_tier_has_a_row),
		cmocka_unit_test(what_is_missing),
		cmocka_unit_test(choosing),
		cmocka_unit_test(instead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
