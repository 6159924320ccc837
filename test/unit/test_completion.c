#include "unit.h"

#include "cli/completion.h"

static void check(const char *usage, unsigned int kinds, const char *words)
{
	const struct verb verb = { .name = "x", .usage = usage };
	_cleanup_(offers_done) struct offers offers = { 0 };
	char all[256] = "";

	assert_int_equal(offers_of_verb(&verb, &offers), 0);
	for (size_t i = 0; i < offers.words.count; i++) {
		strcat(all, i ? " " : "");
		strcat(all, offers.words.items[i]);
	}
	assert_string_equal(all, words);
	assert_int_equal(offers.kinds, kinds);
}

/* What a usage says is what is offered. */
static void usages(void **state)
{
	(void)state;
	check("[options]", 0, "");
	check("[options] -- COMMAND [ARGUMENT...]", OFFER_COMMANDS, "");
	check("[options] SANDBOX [--] COMMAND [ARGUMENT...]", OFFER_SANDBOXES, "");
	check("SANDBOX... | --all [--json]", OFFER_SANDBOXES, "");
	check("SANDBOX TIME|never [--json]", OFFER_SANDBOXES, "never");
	check("check FILE|NAME | explain FILE|NAME | list | schema", OFFER_FILES | OFFER_POLICIES,
	      "check explain list schema");
	check("[man | keys | tiers | events]", 0, "man keys tiers events");
	check("[-u USER] SOURCE... SANDBOX:PATH | SANDBOX:PATH... DESTINATION",
	      OFFER_FILES | OFFER_PLACES, "");
	check("[-d DIR] [-q] list", 0, "list");
}

/* Of every verb, each option is told of once, and none that is not there. */
static void options(void **state)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct completed_option o;
		bool has_help = false;
		size_t n = 0;

		for (; completed_option(list[i], n, &o); n++) {
			assert_true(o.name && *o.name && o.summary && *o.summary);
			has_help |= str_equal(o.name, "help");
		}
		assert_true(has_help);
		assert_int_equal(list[i]->takes_policy, n > 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usages),
		cmocka_unit_test(options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
