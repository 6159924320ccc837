#include "unit.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>

#include "base/str.h"
#include "serve/openapi.h"

static const char *const colours[] = { "red", "green", NULL };
static const struct doc_field item = { "item", DOC_TEXT, .min = 1, .max = 3 };
static const struct doc_field inner[] = {
	{ "deep", DOC_WHOLE, .is_required = true, .min = -2, .max = 2 },
	DOC_END,
};
static const struct doc_field fields[] = {
	{ "text", DOC_TEXT, .min = 2, .max = 4, .pattern = "^[a-z\xc3\xa9]+$" },
	{ "colour", DOC_TEXT, .names = colours },
	{ "whole", DOC_WHOLE, .min = 1, .max = 100 },
	{ "number", DOC_NUMBER, .min = 0.5, .max = 2.5 },
	{ .name = "flag", .kind = DOC_BOOL },
	{ "list", DOC_LIST, .min = 1, .max = 2, .of = &item },
	{ "map", DOC_MAP, .max = 2, .of = &item },
	{ "object", DOC_OBJECT, .of = inner },
	{ "maybe", DOC_WHOLE, .or_null = true },
	{ "needed", DOC_BOOL, .is_required = true },
	DOC_END,
};

/* With "needed" put in. */
static int check(const char *text, struct err *err)
{
	_cleanup_(node_freep) struct node *body = NULL;
	char all[512];

	*err = ERR_NONE;
	snprintf(all, sizeof(all), "{\"needed\":true%s%s}", text[0] ? "," : "", text);
	assert_int_equal(json_read(all, strlen(all), NULL, &body, err), 0);
	return doc_check(fields, body, err);
}

static void accepts(void **state)
{
	static const char *const good[] = {
		"",
		"\"text\":\"ab\"",
		"\"text\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"", /* four characters, eight bytes */
		"\"colour\":\"green\"",
		"\"whole\":1",
		"\"whole\":100.0",
		"\"number\":0.5",
		"\"number\":2",
		"\"flag\":false",
		"\"list\":[\"a\",\"abc\"]",
		"\"map\":{\"any name\":\"a\"}",
		"\"map\":{}",
		"\"object\":{\"deep\":-2}",
		"\"maybe\":null",
		"\"maybe\":-9007199254740993",
	};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (check(good[i], &err) < 0)
			fail_msg("%s: %s", good[i], err.text);
}

static void refuses(void **state)
{
	static const struct {
		const char *text, *word; /* in the message */
	} bad[] = {
		{ "\"text\":\"a\"", "1 characters" },
		{ "\"text\":\"abcde\"", "5 characters" },
		{ "\"text\":\"aB\"", "does not match" },
		{ "\"text\":\"ab\\ncd\"", "text" },
		{ "\"text\":12", "a text is wanted" },
		{ "\"text\":null", "text" },
		{ "\"colour\":\"blue\"", "\"green\"" },
		{ "\"colour\":\"\"", "none of" },
		{ "\"whole\":0", "within" },
		{ "\"whole\":101", "within" },
		{ "\"whole\":1.5", "a whole number" },
		{ "\"whole\":\"1\"", "a whole number" },
		{ "\"whole\":true", "a whole number" },
		{ "\"number\":0.49", "within" },
		{ "\"number\":1e300", "within" },
		{ "\"flag\":0", "a boolean" },
		{ "\"list\":[]", "entries" },
		{ "\"list\":[\"a\",\"b\",\"c\"]", "entries" },
		{ "\"list\":[\"a\",1]", "list[1]" },
		{ "\"list\":{}", "a list" },
		{ "\"map\":{\"a\":\"\"}", "map.a" },
		{ "\"map\":{\"a\":\"x\",\"b\":\"x\",\"c\":\"x\"}", "entries" },
		{ "\"map\":[]", "an object" },
		{ "\"object\":{}", "object.deep" },
		{ "\"object\":{\"deep\":3}", "object.deep" },
		{ "\"object\":{\"deep\":0,\"other\":1}", "object.other" },
		{ "\"objekt\":{}", "\"object\"" }, /* the nearest is named */
		{ "\"zzzzzzz\":{}", "no field" },
	};
	_cleanup_(node_freep) struct node *body = NULL;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (check(bad[i].text, &err) != -EINVAL)
			fail_msg("%s was accepted", bad[i].text);
		if (!strstr(err.text, bad[i].word))
			fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].text, err.text,
				 bad[i].word);
	}
	assert_int_equal(json_read("{}", 2, NULL, &body, &err), 0);
	err = ERR_NONE;
	assert_int_equal(doc_check(fields, body, &err), -EINVAL);
	assert_non_null(strstr(err.text, "needed"));
	err = ERR_NONE;
	assert_int_equal(doc_check(fields, NULL, &err), -EINVAL);
}

static const struct doc_field query_fields[] = {
	{ "path", DOC_TEXT, .is_required = true, .min = 1, .max = 3 },
	{ "limit", DOC_WHOLE, .min = 1, .max = 100 },
	{ "part", DOC_NUMBER, .max = 1 },
	{ .name = "flag", .kind = DOC_BOOL },
	DOC_END,
};

static int check_query(const char *text)
{
	const struct text query = { text, strlen(text) };
	struct err err = ERR_NONE;

	return doc_check_query(query_fields, &query, &err);
}

static void queries(void **state)
{
	static const char *const good[] = { "path=a", "limit=7&path=%c3%a9", "path=a+b&flag=true",
					    "path=a&part=0.25", "&&path=a&" };
	static const char *const bad[] = { "",
					   "limit=1",
					   "path=",
					   "path=abcd",
					   "path=a&path=b",
					   "path=%ff",
					   "path=%00",
					   "path=%4",
					   "path=a&other=1",
					   "path=a&limit=0",
					   "path=a&limit=101",
					   "path=a&limit=1.5",
					   "path=a&limit=+1",
					   "path=a&limit=%201",
					   "path=a&limit=0x1",
					   "path=a&limit=01",
					   "path=a&limit=1e1",
					   "path=a&limit=",
					   "path=a&limit=99999999999999999999999",
					   "path=a&part=.5",
					   "path=a&part=5.",
					   "path=a&part=nan",
					   "path=a&flag=1",
					   "path=a&flag=True" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (check_query(good[i]) < 0)
			fail_msg("%s was refused", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (check_query(bad[i]) != -EINVAL)
			fail_msg("%s was accepted", bad[i]);
}

static void check_rows(const struct doc_field *rows)
{
	for (; rows && rows->name; rows++) {
		regex_t regex;

		assert_true(rows->max >= rows->min || rows->max == 0);
		/* A table that bounds nothing lets a client choose how much. */
		if (rows->kind == DOC_TEXT)
			assert_true(rows->max > 0 || rows->names);
		if (rows->kind == DOC_LIST || rows->kind == DOC_MAP) {
			assert_true(rows->max > 0);
			assert_non_null(rows->of);
		}
		if (!rows->pattern)
			continue;
		assert_int_equal(regcomp(&regex, rows->pattern, REG_EXTENDED | REG_NOSUB), 0);
		regfree(&regex);
		/* Both ends, or it says nothing of the whole. */
		assert_true(rows->pattern[0] == '^' && str_ends(rows->pattern, "$"));
	}
}

/* Every row of the table can be checked, is bounded, and has words and a name of its own. */
static void rows(void **state)
{
	size_t count = 0;

	(void)state;
	for (const struct route *route = v1_routes; route->handle; route++, count++) {
		const struct route_doc *doc = route->doc;

		assert_ptr_equal(route->handle, openapi_handle);
		assert_non_null(doc);
		assert_non_null(doc->handle);
		assert_true(doc->summary && doc->summary[0] && doc->name && doc->tag);
		assert_true(doc->answers[0].status != 0);
		/* A body that is checked is collected, and one that is not has no table. */
		assert_int_equal(doc->body != NULL, route->body > 0);
		assert_int_equal(doc->body_type != NULL, route->streams);
		assert_int_equal(doc->is_of_sandbox, strstr(route->path, "{id}") != NULL);
		check_rows(doc->query);
		check_rows(doc->headers);
		check_rows(doc->body);
		for (const struct route *other = v1_routes; other < route; other++) {
			assert_string_not_equal(other->doc->name, doc->name);
			assert_false(other->method == route->method &&
				     str_equal(other->path, route->path));
		}
	}
	assert_true(count > 20);
}

/* The document has all rows, and no others. */
static void document(void **state)
{
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *paths;
	size_t wanted = 0, found = 0;

	(void)state;
	assert_int_equal(openapi_make(v1_routes, &node), 0);
	paths = node_get(node, "paths");
	assert_non_null(paths);
	for (const struct route *route = v1_routes; route->handle; route++, wanted++)
		assert_non_null(node_get(paths, route->path));
	for (size_t i = 0; i < paths->count; i++)
		found += paths->entries[i].value->count;
	assert_int_equal(found, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts), cmocka_unit_test(refuses),  cmocka_unit_test(queries),
		cmocka_unit_test(rows),    cmocka_unit_test(document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
