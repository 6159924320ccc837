/*
 * fuzz_judge.c - any name, address and first bytes before a policy with every kind of rule: what may
 * never be allowed is not, and a refusal always has its words
 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "egress/judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
	"version: 1\nnet:\n"
	"  allow: [\"example.com:443\", \"*.wild.org:443\", \"*.wild.org:80 raw\", \"a.b:*\",\n"
	"    \"8.8.0.0/16:443\", \"0.0.0.0/0:99\", \"[::]/0:99\", \"10.0.0.0/8:5432\",\n"
	"    \"127.0.0.1:8080\", \"*.google.internal:80\", \"localhost:80\"]\n"
	"  ask: [\"ask.wild.org:443\"]\n"
	"  deny: [\"bad.wild.org:*\", \"8.8.4.4:*\", \"[2600::]/16:99\"]\n";

static struct policy policy;
static struct answers answers;
static struct tunnel tunnel;

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void set_up(void)
{
	const struct policy_env env = { .cwd = "/", .home = "/" };
	struct err err = ERR_NONE;
	static bool done;

	answers_init(&answers);
	tunnel_init(&tunnel);
	if (done)
		return;
	require(policy_parse("fuzz", text, strlen(text), &env, &policy, &err) == 0);
	done = true;
}

static void check(const struct judgement *j)
{
	char copy[256];

	require(j->is_allowed == (j->cause == JUDGE_ALLOWED));
	require(j->is_allowed == (j->reason[0] == '\0') &&
		j->is_allowed == (j->rule_text[0] == '\0'));
	require(!j->is_allowed || j->allow_with[0] == '\0');
	require(!j->is_raw || (j->is_allowed && j->rule && j->rule->is_raw));
	strcpy(copy, j->reason);
	str_make_printable(copy);
	require(strcmp(copy, j->reason) == 0);
	strcpy(copy, j->object);
	str_make_printable(copy);
	require(strcmp(copy, j->object) == 0);
}

/* By an address rule, a special place is only open as it is named. */
static void check_place(const struct judgement *j, const struct address *address)
{
	enum address_class class = address_classify(address->ip, NULL);

	require(j->class == class);
	if (!j->is_allowed || class == ADDRESS_PUBLIC)
		return;
	require(j->rule && j->rule->kind == HOST_ADDRESS);
	require(j->rule->prefix == 128 || (class == ADDRESS_PRIVATE && j->rule->prefix == 96 + 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct judge judge = { .policy = &policy, .answers = &answers };
	struct judgement j;
	struct first_bytes first;
	struct address address = { 0 };
	char name[300] = "";
	size_t len;

	if (size < 20)
		return 0;
	set_up();
	memcpy(address.ip, data, ADDRESS_BYTES);
	address.port = (unsigned int)data[16] << 8 | data[17];
	len = MIN((size_t)data[18], size - 19);
	memcpy(name, data + 19, len);
	first_bytes_look(data + 19 + len, size - 19 - len, &first);

	judge_question(&judge, name, &tunnel, size, &j);
	check(&j);
	judge_address(&judge, &address, 1, &j);
	check(&j);
	check_place(&j, &address);
	judge_question(&judge, name, NULL, size, &j);
	if (j.is_allowed) {
		memcpy(name, j.name, NAME_SIZE);
		judge_answer(&judge, name, address.ip, &j);
		check(&j);
		/* Also when it may not be told: the connection must hold by itself. */
		answers_add(&answers, address.ip, name, 1, 0);
	}
	judge_alias(&judge, "example.com", name, &j);
	check(&j);
	judge_address(&judge, &address, 1, &j);
	check(&j);
	check_place(&j, &address);
	judge_first(&judge, &address, 1, &first, &j);
	check(&j);
	require(!j.is_allowed || j.is_raw ||
		(first.kind != FIRST_BAD && first.kind != FIRST_OTHER));
	if (j.is_allowed && !j.is_raw && j.rule->kind != HOST_ADDRESS)
		require(strcmp(first.name, name) == 0);
	return 0;
}
