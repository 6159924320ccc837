#include "serve/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "egress/address.h"
#include "serve/wish.h"

/* Every public name and address, with any protocol. */
static const char anything[] = "*:* raw";

/* Addresses that begin alike; IPv4 as ::ffff:a.b.c.d. */
struct block {
	unsigned char ip[ADDRESS_BYTES];
	unsigned int prefix; /* of 128 */
};

struct blocks {
	struct block items[RULES_MAX];
	size_t count;
};

static const struct block all_ipv4 = { .ip = { [10] = 0xff, [11] = 0xff }, .prefix = 96 };

void rules_done(struct rules *rules)
{
	strv_done(&rules->allow);
	strv_done(&rules->deny);
}

static void clear_host_bits(struct block *block)
{
	for (unsigned int bit = block->prefix; bit < 128; bit++)
		block->ip[bit / 8] &= (unsigned char)~(0x80 >> bit % 8);
}

static bool read_prefix(const char *text, unsigned int most, unsigned int *ret_prefix)
{
	size_t len = strlen(text);

	if (len == 0 || len > 3 || strspn(text, "0123456789") != len)
		return false;
	*ret_prefix = (unsigned int)strtoul(text, NULL, 10);
	return *ret_prefix <= most;
}

/* "1.2.3.4", "1.2.3.0/24", "2001:db8::/32". */
static bool read_block(const char *text, struct block *ret_block)
{
	char copy[INET6_ADDRSTRLEN + 8], *slash;
	struct block block = all_ipv4;
	bool is_v4;
	unsigned int prefix;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	is_v4 = inet_pton(AF_INET, copy, block.ip + 12) == 1;
	if (!is_v4 && inet_pton(AF_INET6, copy, block.ip) != 1)
		return false;
	prefix = is_v4 ? 32 : 128;
	if (slash && !read_prefix(slash, prefix, &prefix))
		return false;
	block.prefix = is_v4 ? 96 + prefix : prefix;
	clear_host_bits(&block);
	*ret_block = block;
	return true;
}

static bool covers(const struct block *a, const struct block *b)
{
	return a->prefix <= b->prefix && address_has_prefix(b->ip, a->ip, a->prefix);
}

static int add_block(struct blocks *blocks, const struct block *block, struct err *err)
{
	if (blocks->count == RULES_MAX)
		return err_set(err, -EINVAL,
			       "network: allowOut and denyOut together need more than %d rules: "
			       "name wider ranges",
			       RULES_MAX);
	blocks->items[blocks->count++] = *block;
	return 0;
}

/* What is left of a block without a hole that lies in it: the other half at each step towards it. */
static int add_around(struct blocks *blocks, const struct block *block, const struct block *hole,
		      struct err *err)
{
	int r = 0;

	for (unsigned int prefix = block->prefix; prefix < hole->prefix && r == 0; prefix++) {
		struct block half = *hole;

		half.prefix = prefix + 1;
		clear_host_bits(&half);
		half.ip[prefix / 8] ^= (unsigned char)(0x80 >> prefix % 8);
		r = add_block(blocks, &half, err);
	}
	return r;
}

static int cut_out(struct blocks *blocks, const struct block *hole, struct err *err)
{
	struct blocks before = *blocks;
	int r = 0;

	blocks->count = 0;
	for (size_t i = 0; i < before.count && r == 0; i++) {
		const struct block *block = &before.items[i];

		if (covers(hole, block))
			continue;
		r = covers(block, hole) ? add_around(blocks, block, hole, err)
					: add_block(blocks, block, err);
	}
	return r;
}

static void block_text(const struct block *block, char *text, size_t size)
{
	char ip[INET6_ADDRSTRLEN];
	bool is_v4 = covers(&all_ipv4, block);

	inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? block->ip + 12 : block->ip, ip, sizeof(ip));
	snprintf(text, size, is_v4 ? "%s/%u:*" : "[%s]/%u:*", ip,
		 is_v4 ? block->prefix - 96 : block->prefix);
}

/* A range that has public addresses in it opens these, and no others. */
static int check_public(const char *key, const char *text, const struct block *block,
			struct err *err)
{
	unsigned int range = address_range_prefix(block->ip);
	enum address_class class = address_classify(block->ip, NULL);

	if (class == ADDRESS_PUBLIC ||
	    (block->prefix < 128 && (range == 0 || block->prefix < range)))
		return 0;
	return err_set(err, -EINVAL,
		       "network.%s: \"%s\" is %s: only public addresses can be opened", key, text,
		       address_class_names[class]);
}

/* Of what the client gave, while it is read. */
struct reading {
	const struct node *allow, *deny, *servers;
	struct blocks holes, closed; /* of allowOut, of denyOut */
	bool has_names, is_closed;   /* by 0.0.0.0/0 or no internet */
	struct rules rules;
};

static int text_of(const struct node *list, size_t index, const char *key, const char **ret_text,
		   struct err *err)
{
	const struct node *item = list->entries[index].value;

	if (item->kind != NODE_STRING || !item->text || strlen(item->text) != item->len)
		return err_set(err, -EINVAL, "network.%s[%zu] must be text, not %s", key, index,
			       node_kind_name(item->kind));
	*ret_text = item->text;
	return 0;
}

static int allow_block(struct reading *reading, const char *key, const char *text,
		       const struct block *block, struct err *err)
{
	char rule[INET6_ADDRSTRLEN + 40];
	int r = check_public(key, text, block, err);

	r = r < 0 ? r : add_block(&reading->holes, block, err);
	if (r < 0)
		return r;
	block_text(block, rule, sizeof(rule) - sizeof(" public raw"));
	strcat(rule, " public raw");
	return strv_add(&reading->rules.allow, rule);
}

/* The policy knows what a name is. */
static int allow_name(struct reading *reading, const char *text, struct err *err)
{
	const struct policy_env env = { .cwd = "/" };
	struct policy policy;
	struct err wrong = ERR_NONE;
	char rule[300];
	int r;

	if (strlen(text) > 255)
		return err_set(err, -EINVAL, "network.allowOut: \"%.64s...\" is too long", text);
	snprintf(rule, sizeof(rule), "%s:*", text);
	policy_init(&policy);
	r = policy_set_flag(&policy, "allow-net", rule, &env, &wrong);
	policy_done(&policy);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || str_equal(text, "*"))
		return err_set(err, -EINVAL,
			       "network.allowOut: \"%s\" is neither an address (1.2.3.4), a range "
			       "(1.2.3.0/24) nor a name (example.com, *.example.com)",
			       text);
	reading->has_names = true;
	return strv_add(&reading->rules.allow, rule);
}

static int read_allowed(struct reading *reading, struct err *err)
{
	const struct node *list = reading->allow;
	const char *text = "";
	struct block block;
	int r = 0;

	for (size_t i = 0; list && i < list->count && r == 0; i++) {
		r = text_of(list, i, "allowOut", &text, err);
		if (r == 0)
			r = read_block(text, &block)
				    ? allow_block(reading, "allowOut", text, &block, err)
				    : allow_name(reading, text, err);
	}
	return r;
}

static int read_denied(struct reading *reading, struct err *err)
{
	const struct node *list = reading->deny;
	const char *text = "";
	struct block block;
	int r = 0;

	for (size_t i = 0; list && i < list->count && r == 0; i++) {
		r = text_of(list, i, "denyOut", &text, err);
		if (r < 0)
			return r;
		if (!read_block(text, &block))
			return err_set(err, -EINVAL,
				       "network.denyOut: \"%.64s\" is neither an address nor a "
				       "range; names cannot be denied",
				       text);
		if (covers(&block, &all_ipv4) && block.prefix == all_ipv4.prefix)
			reading->is_closed = true;
		r = add_block(&reading->closed, &block, err);
	}
	return r;
}

/* Servers that the client wants to ask itself, which makes sense only where names are what is open. */
static int read_servers(struct reading *reading, struct err *err)
{
	const struct node *list = reading->servers;
	const char *text = "";
	struct block block;
	int r = 0;

	for (size_t i = 0; list && i < list->count && r == 0; i++) {
		r = text_of(list, i, "dnsServers", &text, err);
		if (r < 0)
			return r;
		if (!read_block(text, &block) || block.prefix != 128 || strchr(text, ':'))
			return err_set(err, -EINVAL,
				       "network.dnsServers: \"%.64s\" is not an IPv4 address",
				       text);
		if (reading->has_names)
			r = allow_block(reading, "dnsServers", text, &block, err);
	}
	return r;
}

/* IPv4 lies inside IPv6 here, and who denies ::/0 does not mean it. */
static int leave_ipv4(struct reading *reading, struct err *err)
{
	struct blocks v4 = { .count = 0 };
	int r = 0;

	for (size_t i = 0; i < reading->closed.count && r == 0; i++)
		if (covers(&all_ipv4, &reading->closed.items[i]))
			r = add_block(&v4, &reading->closed.items[i], err);
	r = r < 0 ? r : cut_out(&reading->closed, &all_ipv4, err);
	for (size_t i = 0; i < v4.count && r == 0; i++)
		r = add_block(&reading->closed, &v4.items[i], err);
	return r;
}

/* Anything public but for what is closed, in which allowOut makes holes. */
static int open_rest(struct reading *reading, struct err *err)
{
	char rule[INET6_ADDRSTRLEN + 40];
	int r = leave_ipv4(reading, err);

	for (size_t i = 0; i < reading->holes.count && r == 0; i++)
		r = cut_out(&reading->closed, &reading->holes.items[i], err);
	r = r < 0 ? r : strv_add(&reading->rules.allow, anything);
	for (size_t i = 0; i < reading->closed.count && r == 0; i++) {
		block_text(&reading->closed.items[i], rule, sizeof(rule));
		r = strv_add(&reading->rules.deny, rule);
	}
	return r;
}

static bool is_filled(const struct node *node)
{
	return (node->kind != NODE_LIST && node->kind != NODE_MAP) || node->count > 0;
}

bool rules_are_asked(const struct node *network, bool internet)
{
	const struct node *allow = wish_find(network, "allowOut");
	const struct node *deny = wish_find(network, "denyOut");

	return !internet || (allow && is_filled(allow)) || (deny && is_filled(deny));
}

/* What the field has and brig has not. An empty one asks for nothing. */
static int check_known(const struct node *network, struct err *err)
{
	static const struct {
		const char *key, *why;
	} unknown[] = {
		{ "rules", "headers are not put into requests" },
		{ "egressProxy", "connections are not sent through a proxy" },
		{ "httpsPorts", "ports of a sandbox are reached by plain HTTP" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		const struct node *node = wish_find(network, unknown[i].key);

		if (node && is_filled(node))
			return err_set(err, -EINVAL,
				       "network.%s cannot be done by brig: %s; leave it out",
				       unknown[i].key, unknown[i].why);
	}
	return 0;
}

static int read_all(struct reading *reading, const struct node *network, struct err *err)
{
	int r = check_known(network, err);

	r = r < 0 ? r : wish_list(network, "allowOut", &reading->allow, err);
	r = r < 0 ? r : wish_list(network, "denyOut", &reading->deny, err);
	r = r < 0 ? r : wish_list(network, "dnsServers", &reading->servers, err);
	r = r < 0 ? r : read_allowed(reading, err);
	r = r < 0 ? r : read_denied(reading, err);
	r = r < 0 ? r : read_servers(reading, err);
	if (r < 0)
		return r;
	if (reading->has_names && !reading->is_closed)
		return err_set(err, -EINVAL,
			       "network.allowOut has names: then denyOut must have \"0.0.0.0/0\", "
			       "as all else would be open");
	return reading->is_closed ? 0 : open_rest(reading, err);
}

int rules_read(const struct node *network, bool internet, struct rules *ret_rules, struct err *err)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	int r;

	if (!reading)
		return -ENOMEM;
	reading->is_closed = !internet;
	r = read_all(reading, network, err);
	if (r < 0)
		rules_done(&reading->rules);
	else
		*ret_rules = reading->rules;
	free(reading);
	return r;
}

static int set_all(struct policy *policy, const char *flag, const struct strv *list,
		   struct err *err)
{
	const struct policy_env env = { .cwd = "/" };
	int r = 0;

	for (size_t i = 0; i < list->count && r == 0; i++)
		r = policy_set_flag(policy, flag, list->items[i], &env, err);
	return r;
}

static int take_all(const struct host_rules *from, struct strv *list)
{
	int r = 0;

	strv_done(list);
	for (size_t i = 0; i < from->count && r == 0; i++)
		r = strv_add(list, from->items[i].text);
	return r;
}

int rules_within(struct rules *rules, const struct policy *ceiling, struct err *err)
{
	struct policy policy;
	int r;

	policy_init(&policy);
	r = set_all(&policy, "allow-net", &rules->allow, err);
	r = r < 0 ? r : set_all(&policy, "deny-net", &rules->deny, err);
	r = r < 0 ? r : policy_narrow(&policy, ceiling, err);
	r = r < 0 ? r : take_all(&policy.net_allow, &rules->allow);
	r = r < 0 ? r : take_all(&policy.net_deny, &rules->deny);
	policy_done(&policy);
	return r;
}

static bool is_list(const struct strv *list, const struct host_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		if (!strv_has(list, rules->items[i].text))
			return false;
	return list->count == rules->count;
}

bool rules_are_of(const struct rules *rules, const struct policy *policy)
{
	return is_list(&rules->allow, &policy->net_allow) &&
	       is_list(&rules->deny, &policy->net_deny);
}
