#include "unit.h"

#include <stdio.h>

#include "egress/tunnel.h"

#define APEX "example.com"

static struct tunnel tunnel;

/* What programs ask for in a session, many times over: never refused. */
static void ordinary_names_pass(void **state)
{
	static const char *const hosts[] = {
		"www",
		"api",
		"cdn-1",
		"registry",
		"static",
		"d111111abcdef8",
		"bucket-name.s3.eu-central-1",
		"docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56",
		"objects-origin",
	};
	char name[NAME_SIZE];

	(void)state;
	tunnel_init(&tunnel);
	for (int round = 0; round < 1000; round++)
		for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
			snprintf(name, sizeof(name), "%s." APEX, hosts[i]);
			assert_int_equal(tunnel_ask(&tunnel, APEX, name, 0), TUNNEL_FINE);
		}
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "tile-%d.maps." APEX, i);
		assert_int_equal(tunnel_ask(&tunnel, APEX, name, 0), TUNNEL_FINE);
	}
}

/* How many bytes of random labels get out before the first refusal. */
static size_t leak(const char *before, uint64_t now_ms)
{
	char name[NAME_SIZE];
	size_t bytes = 0;

	for (unsigned int i = 0;; i++) {
		snprintf(name, sizeof(name), "%s%08x%08x%08x%08x.%s", before, 0x9e3779b9u * i,
			 0x85ebca6bu * (i + 1), 0xc2b2ae35u * (i + 2), 0x27d4eb2fu * (i + 3), APEX);
		if (tunnel_ask(&tunnel, APEX, name, now_ms) != TUNNEL_FINE)
			return bytes;
		bytes += 16;
		assert_true(i < 1000);
	}
}

static void data_is_stopped(void **state)
{
	char longer[NAME_SIZE];
	size_t first;

	(void)state;
	tunnel_init(&tunnel);
	first = leak("", 0);
	assert_in_range(first, 16, 1024);
	/* Refused again, also for a name of one letter more; another wildcard has its own. */
	assert_int_equal(leak("b", 0), 0);
	assert_int_equal(tunnel_ask(&tunnel, "example.org", "a.example.org", 0), TUNNEL_FINE);
	/* The allowance comes back, slowly and not beyond its size. */
	assert_in_range(leak("c", 60000), 16, 160);
	assert_in_range(leak("d", 86400000), first / 2, first);

	tunnel_init(&tunnel);
	memset(longer, 'a', TUNNEL_LONG + 1);
	longer[60] = longer[120] = '.';
	strcpy(longer + TUNNEL_LONG, "." APEX);
	assert_int_equal(tunnel_ask(&tunnel, APEX, longer, 0), TUNNEL_FINE);
	longer[TUNNEL_LONG] = 'a';
	strcpy(longer + TUNNEL_LONG + 1, "." APEX);
	assert_int_equal(tunnel_ask(&tunnel, APEX, longer, 0), TUNNEL_TOO_LONG);
}

static void clock_that_goes_back(void **state)
{
	(void)state;
	tunnel_init(&tunnel);
	leak("", 1000000);
	assert_int_equal(leak("b", 0), 0);
	assert_int_equal(leak("b", 1000000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_names_pass),
		cmocka_unit_test(data_is_stopped),
		cmocka_unit_test(clock_that_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
