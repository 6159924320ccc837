#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "data/yaml.h"

/* Every document is parsed from a block of exactly its size, so that a sanitizer sees a read too
 * far. */
static int parse(const char *text, size_t len, struct node **ret_node, struct err *err)
{
	char *exact = malloc(len ? len : 1);
	int r;

	assert_non_null(exact);
	memcpy(exact, text, len);
	r = yaml_parse("p.yaml", exact, len, ret_node, err);
	free(exact);
	return r;
}

struct good {
	const char *text, *json;
};

static void check_good(const struct good *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		_cleanup_(node_freep) struct node *node = NULL;
		_cleanup_(buf_done) struct buf buf = BUF(MIB);
		struct err err = ERR_NONE;

		if (parse(rows[i].text, strlen(rows[i].text), &node, &err) < 0)
			fail_msg("<<%s>> is refused: %s", rows[i].text, err.text);
		assert_int_equal(json_write(node, true, &buf), 0);
		if (!str_equal(buf_text(&buf), rows[i].json))
			fail_msg("<<%s>> gives %s", rows[i].text, buf_text(&buf));
	}
}

static void block_collections(void **state)
{
	static const struct good rows[] = {
		{ "a: 1\nb: two\n", "{\"a\":1,\"b\":\"two\"}" },
		{ "a: 1", "{\"a\":1}" },
		{ "a:\n", "{\"a\":null}" },
		{ "a:\nb:", "{\"a\":null,\"b\":null}" },
		{ "a :  1  \n", "{\"a\":1}" },
		{ "a:\t1\t\n", "{\"a\":1}" },
		{ "'a': 1\n\"b\" : 2\n", "{\"a\":1,\"b\":2}" },
		{ "- a\n- b\n", "[\"a\",\"b\"]" },
		{ "-\n- b\n-", "[null,\"b\",null]" },
		{ "- - a\n  - b\n- - - c\n", "[[\"a\",\"b\"],[[\"c\"]]]" },
		{ "-   a: 1\n    b: 2\n- c: 3\n", "[{\"a\":1,\"b\":2},{\"c\":3}]" },
		{ "-\n  a: 1\n", "[{\"a\":1}]" },
		{ "key:\n- a\n- b\nnext: 1\n", "{\"key\":[\"a\",\"b\"],\"next\":1}" },
		{ "key:\n  - a\nnext: 1\n", "{\"key\":[\"a\"],\"next\":1}" },
		{ "- k:\n  - a\n  m: 1\n- b\n", "[{\"k\":[\"a\"],\"m\":1},\"b\"]" },
		{ "- k:\n- b\n", "[{\"k\":null},\"b\"]" },
		{ "a:\n  b:\n    c: 1\n  d: 2\ne: 3\n",
		  "{\"a\":{\"b\":{\"c\":1},\"d\":2},\"e\":3}" },
		{ "a:\n  x\nb:\n  'y'\n", "{\"a\":\"x\",\"b\":\"y\"}" },
		{ "  a: 1\n  b: 2\n", "{\"a\":1,\"b\":2}" },
		{ "a: 1\n\n  \n# c\n   # d\nb: 2 # e\n", "{\"a\":1,\"b\":2}" },
		{ "a: # c\n  # d\n  b: 1\n", "{\"a\":{\"b\":1}}" },
		{ "a: 1\n\t\n  \t \nb: 2\n", "{\"a\":1,\"b\":2}" },
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
}

static void flow_collections_and_json(void **state)
{
	static const struct good rows[] = {
		{ "{}", "{}" },
		{ "[]", "[]" },
		{ "{\"a\":1}", "{\"a\":1}" },
		{ "{\"a\":{\"b\":[1,2,{}]},\"c\":[]}", "{\"a\":{\"b\":[1,2,{}]},\"c\":[]}" },
		{ "{a: 1, b: [x, y z], c: {d: }}",
		  "{\"a\":1,\"b\":[\"x\",\"y z\"],\"c\":{\"d\":null}}" },
		{ "{a:, b:}", "{\"a\":null,\"b\":null}" },
		{ "[a, b, ]", "[\"a\",\"b\"]" },
		{ "{a: 1, }", "{\"a\":1}" },
		{ "a: {\n  b: 1,\n}\nc: [\n1\n, 2\n]\n", "{\"a\":{\"b\":1},\"c\":[1,2]}" },
		{ "[ # c\n a, # d\n # e\n b ]", "[\"a\",\"b\"]" },
		{ "[-1, --x, -a]", "[-1,\"--x\",\"-a\"]" },
		{ "{\"a\"\n:\n1}", "{\"a\":1}" },
		{ "{\n\t\"a\":\t[\n\t\t1,\r\n\t\t2\r\t]\n}\n\t\n", "{\"a\":[1,2]}" },
		{ "\t{\"a\":1}", "{\"a\":1}" },
		{ " \t[1]", "[1]" },
		{ "\"x\"", "\"x\"" },
		{ " -1.5e3 ", "-1500.0" },
		{ "[1E5,1e+2,1e-2,0.5,-0,0,-0.0]", "[100000.0,100.0,0.01,0.5,0,0,0.0]" },
		{ "[9223372036854775807,-9223372036854775808]",
		  "[9223372036854775807,-9223372036854775808]" },
		{ "\"\\u00e4\\u20AC\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
		  "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80/\\b\\f\\n\\r\\t\\\\\\\"\"" },
		{ "{\"\":\"\"}", "{\"\":\"\"}" },
		/* JSON allows these as they are, inside quotes. */
		{ "\"\x7f\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\xef\xbf\xbf\"",
		  "\"\\u007f\\u0085\xe2\x80\xa8\xef\xbb\xbf\xef\xbf\xbf\"" },
		{ "{example.com:443: allow}", "{\"example.com:443\":\"allow\"}" },
		{ "net: { allow: [api.github.com:443, \"*.x.com:443\", http://a/b?c#d] }",
		  "{\"net\":{\"allow\":[\"api.github.com:443\",\"*.x.com:443\",\"http://a/"
		  "b?c#d\"]}}" },
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
}

static void plain_scalars(void **state)
{
	static const struct good rows[] = {
		{ "[null, Null, NULL, ~]", "[null,null,null,null]" },
		{ "[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]" },
		{ "[yes, no, on, off, y, n, Yes, nUll, tRue]",
		  "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\",\"Yes\",\"nUll\",\"tRue\"]" },
		{ "[0, -0, +7, 0x1F, 0o17, -12]", "[0,0,7,31,15,-12]" },
		{ "[0x7fffffffffffffff]", "[9223372036854775807]" },
		{ "[1.5, .5, 1., -1.5, +1.5, 00.5]", "[1.5,0.5,1.0,-1.5,1.5,0.5]" },
		{ "[1_000, 12:30:45, 1.2.3, 0x, 0xg, 0o8, -0o7, 0b2, 1e, e1, ., +, 0-1, "
		  "2001-12-14]",
		  "[\"1_000\",\"12:30:45\",\"1.2.3\",\"0x\",\"0xg\",\"0o8\",\"-0o7\",\"0b2\","
		  "\"1e\","
		  "\"e1\",\".\",\"+\",\"0-1\",\"2001-12-14\"]" },
		{ "a: example.com:443", "{\"a\":\"example.com:443\"}" },
		{ "a: b#c # d", "{\"a\":\"b#c\"}" },
		{ "a: it's \"so\" [x], {y}, & * ! | > % @ `",
		  "{\"a\":\"it's \\\"so\\\" [x], {y}, & * ! | > % @ `\"}" },
		{ "a: :b\nc: ?d\ne: -f\n", "{\"a\":\":b\",\"c\":\"?d\",\"e\":\"-f\"}" },
		{ "~/.ssh: none\n/a b: x\n", "{\"/a b\":\"x\",\"~/.ssh\":\"none\"}" },
		{ "---x", "\"---x\"" },
		{ "a: ---\n", "{\"a\":\"---\"}" },
		{ "a:b", "\"a:b\"" },
		{ "text", "\"text\"" },
		{ "no: on\n", "{\"no\":\"on\"}" },
		{ "a: \xc3\xa4\xf0\x9f\x98\x80", "{\"a\":\"\xc3\xa4\xf0\x9f\x98\x80\"}" },
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
}

static void quoted_and_block_scalars(void **state)
{
	static const struct good rows[] = {
		{ "'it''s \\n'", "\"it's \\\\n\"" },
		{ "''", "\"\"" },
		{ "'1'", "\"1\"" },
		{ "\"null\"", "\"null\"" },
		{ "\"\\x41\\u0042\\U00000043\\e\\a\\v\\ \\_\\N\\L\\P\\\t\"",
		  "\"ABC\\u001b\\u0007\\u000b \xc2\xa0\\u0085\xe2\x80\xa8\xe2\x80\xa9\\t\"" },
		{ "\"a\tb\"", "\"a\\tb\"" },
		{ "a: |\n  x\n  y\nb: 1\n", "{\"a\":\"x\\ny\\n\",\"b\":1}" },
		{ "a: |-\n  x\n\n", "{\"a\":\"x\"}" },
		{ "a: |+\n  x\n\n\nb: 1", "{\"a\":\"x\\n\\n\\n\",\"b\":1}" },
		{ "a: |\n\n  x\n   y\n     \n\n", "{\"a\":\"\\nx\\n y\\n   \\n\"}" },
		{ "a: |2\n   x\n", "{\"a\":\" x\\n\"}" },
		{ "a: |+2 # c\n   x\n", "{\"a\":\" x\\n\"}" },
		{ "a:\n  b: |1-\n    x\n", "{\"a\":{\"b\":\" x\"}}" },
		{ "a: |\nb: 1", "{\"a\":\"\",\"b\":1}" },
		{ "a: |+\n\n\nb: 1", "{\"a\":\"\\n\\n\",\"b\":1}" },
		{ "a: |\n  x", "{\"a\":\"x\"}" },
		{ "- |\n x\n- >\n y\n", "[\"x\\n\",\"y\\n\"]" },
		{ "k:\n- |\n x # no comment\n # nor this\n# but this\n",
		  "{\"k\":[\"x # no comment\\n# nor this\\n\"]}" },
		{ "- k: |\n    x\n  m: 1\n", "[{\"k\":\"x\\n\",\"m\":1}]" },
		{ "a: >\n  x\n  y\n\n  z\n", "{\"a\":\"x y\\nz\\n\"}" },
		{ "a: >\n  x\n   y\n  z\n", "{\"a\":\"x\\n y\\nz\\n\"}" },
		{ "a: >\n\n  x\n\n\n   y\n\n  z\n  w\n",
		  "{\"a\":\"\\nx\\n\\n\\n y\\n\\nz w\\n\"}" },
		{ "a: >-\n  x\n  \ty\n  z\n", "{\"a\":\"x\\n\\ty\\nz\"}" },
		{ "|\n  x\n  --- y\n", "\"x\\n--- y\\n\"" },
		{ "--- |\n x\n...\n", "\"x\\n\"" },
		{ "a: |\r\n  x\r\n  y\r\nb: 1\r\n", "{\"a\":\"x\\ny\\n\",\"b\":1}" },
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
}

static void documents(void **state)
{
	static const struct good rows[] = {
		{ "---\na: 1\n...\n", "{\"a\":1}" },
		{ "--- # c\n- 1\n", "[1]" },
		{ "--- {a: 1}\n", "{\"a\":1}" },
		{ "--- text # c\n... # d\n# e\n", "\"text\"" },
		{ "---\ttext", "\"text\"" },
		{ "# c\n\n---\n1", "1" },
		{ "~", "null" },
		{ "\xef\xbb\xbf"
		  "a: 1",
		  "{\"a\":1}" },
		{ "\xef\xbb\xbf# c\n[]", "[]" },
		{ "a: 1\r\nb:\r\n- 2\r\n", "{\"a\":1,\"b\":[2]}" },
		{ "a: 1\rb: 2\r", "{\"a\":1,\"b\":2}" },
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
}

/* The place and a piece of the message. */
static void what_is_refused_says_where_and_why(void **state)
{
	static const struct {
		const char *text, *place, *message;
	} rows[] = {
		{ "", "1:1", "a value is expected" },
		{ "# only\n\n", "3:1", "a value is expected" },
		{ "---\n", "2:1", "a value is expected" },
		{ "---\n...\n", "2:1", "a value is expected" },
		{ "...\n", "1:1", "a value is expected" },
		{ "a: &x 1", "1:4", "anchors are not allowed in a policy" },
		{ "- &x\n", "1:3", "anchors" },
		{ "&x a: 1", "1:1", "anchors" },
		{ "a: 1\nb: *x", "2:4", "aliases are not allowed in a policy" },
		{ "allow: [*.example.com]", "1:9", "\"*\" needs quotes" },
		{ "a: !!str 1", "1:4", "tags are not allowed in a policy" },
		{ "!x\na: 1", "1:1", "tags" },
		{ "a: 1\n<<: {b: 2}", "2:1", "merge keys" },
		{ "{<<: 1}", "1:2", "merge keys" },
		{ "%YAML 1.2\n---\na: 1", "1:1", "directives" },
		{ "a: %x", "1:4", "needs quotes" },
		{ "a: @x", "1:4", "needs quotes" },
		{ "a: `x", "1:4", "needs quotes" },
		{ "? a\n: b", "1:1", "\"?\" keys" },
		{ "a: 1\n? b", "2:1", "\"?\" keys" },
		{ "{? a: b}", "1:2", "\"?\" keys" },
		{ ": b", "1:1", "a key is missing" },
		{ "{: b}", "1:2", "a key is missing" },
		{ "a: 1\n---\nb: 2", "2:1", "only one document" },
		{ "a: 1\n...\nb: 2", "3:1", "only one document" },
		{ "a: 1\n...\n---\n", "3:1", "only one document" },
		{ "a: 1\n... x", "2:5", "unexpected text" },
		{ "--- a: 1", "1:5", "the line below \"---\"" },
		{ "--- - a", "1:5", "the line below \"---\"" },
		{ "a: 1\n\tb: 2", "2:1", "a tab in the indentation: use spaces" },
		{ "a:\n \tb: 2", "2:2", "a tab in the indentation" },
		{ "a:\n\tb", "2:1", "a tab in the indentation" },
		{ "\ta: 1", "1:1", "a tab in the indentation" },
		{ "\t- a", "1:1", "a tab in the indentation" },
		{ "-\ta: 1", "1:2", "a tab in the indentation" },
		{ "- \t- 1", "1:3", "a tab in the indentation" },
		{ "a: |\n  x\n\t\n", "3:1", "a tab in the indentation" },
		{ "a: |\n\tx\n", "2:1", "a tab in the indentation" },
		{ "a: b\tc", "1:5", "a tab in a plain value" },
		{ "x: 1\n\nmemory: 1\ncpu: 1\nmemory: 2", "5:1",
		  "duplicate key \"memory\" (first at line 3)" },
		{ "{a: 1, \"a\": 2}", "1:8", "duplicate key \"a\" (first at line 1)" },
		{ "{\"\":1,'':2}", "1:7", "duplicate key \"\"" },
		{ "c: 1\nb: 1\na: 1\nb: 2\na: 2\nb: 3\n", "4:1", "\"b\" (first at line 2)" },
		{ "{\"a\":1,\"\\u0061\":2}", "1:8", "duplicate key \"a\"" },
		{ "a: b: c", "1:5", "\"a: b\" in a plain value: put it in quotes" },
		{ "- a: b: c", "1:7", "\"a: b\" in a plain value" },
		{ "a: b:", "1:5", "\"a: b\" in a plain value" },
		{ "{a: b: c}", "1:6", "\"a: b\" in a plain value" },
		{ "[a: b]", "1:3", "\"a: b\" in a list: put it in braces" },
		{ "[\"a\":1]", "1:5", "\"a: b\" in a list" },
		{ "{a:1}", "1:2", "with a space behind the colon" },
		{ "{a:[1]}", "1:4", "a space is missing behind the colon" },
		{ "{a}", "1:2", "\"a\" has no value" },
		{ "{\"a\", b: 1}", "1:2", "\"a\" has no value" },
		{ "{a\n: 1}", "1:2", "\"a\" has no value" },
		{ "\"a\":1", "1:4", "a colon behind a value" },
		{ "a: 1\n\"b\":1", "2:1", "with a space behind the colon" },
		{ "a: 1\nb:2", "2:1", "with a space behind the colon" },
		{ "a: 1\nb", "2:1", "expected \"key: value\"" },
		{ "a:1\nb: 2", "2:1", "is a space missing" },
		{ "a: - b", "1:4", "a list must begin on the line below its key" },
		{ "a: 1\n- b", "2:1", "a list item where a key" },
		{ "- a\nb: 1", "2:1", "the indentation fits no line above" },
		{ "a:\n  - b\n  c: 1", "3:3", "the indentation fits no line above" },
		{ "a:\n    b: 1\n  c: 2", "3:3", "the indentation fits no line above" },
		{ "  a: 1\nb: 2", "2:1", "the indentation fits no line above" },
		{ "a: 1\n  b: 2", "2:3", "check the indentation" },
		{ "a: one\n  two", "2:3", "several lines needs | or >" },
		{ "- one\n  two", "2:3", "several lines" },
		{ "one\ntwo", "2:1", "several lines" },
		{ "[one\ntwo]", "2:1", "a comma is missing" },
		{ "\"one\n two\"", "1:1", "not closed on its line" },
		{ "a: 'one\n two'", "1:4", "not closed on its line" },
		{ "a: \"one\\\n two\"", "1:4", "not closed on its line" },
		{ "a: \"one", "1:4", "never closed" },
		{ "\"one\\", "1:1", "never closed" },
		{ "'", "1:1", "never closed" },
		{ "a: \"x\" y", "1:8", "unexpected text" },
		{ "a: \"x\"#y", "1:7", "a comment needs a space" },
		{ "[a]#c", "1:4", "a comment needs a space" },
		{ "[a,#c\n]", "1:4", "a comment needs a space" },
		{ "[a, b", "1:1", "\"[\" is never closed" },
		{ "x: {a: [1,\n2", "1:8", "\"[\" is never closed" },
		{ "{a: 1", "1:1", "\"{\" is never closed" },
		{ "{a: ", "1:1", "\"{\" is never closed" },
		{ "[a}", "1:3", "expected \",\" or \"]\"" },
		{ "{a: 1]", "1:6", "expected \",\" or \"}\"" },
		{ "[\"a\" b]", "1:6", "expected \",\" or \"]\"" },
		{ "[,]", "1:2", "a value is missing" },
		{ "[a,,b]", "1:4", "a value is missing" },
		{ "[a]]", "1:4", "unexpected text" },
		{ "]", "1:1", "without \"[\"" },
		{ "a: }", "1:4", "without \"{\"" },
		{ "[- a]", "1:2", "\"- \" item" },
		{ "[-]", "1:2", "\"- \" item" },
		{ "[|\n x]", "1:2", "inside brackets" },
		{ "[a,\n---\n]", "2:1", "document marker" },
		{ "[a]: 1", "1:4", "a key must be text" },
		{ "{[a]: 1}", "1:2", "a key must be text" },
		{ "a: 1\n{b: 1}: 2", "2:1", "a key must be text" },
		{ "1: a", "1:1", "needs quotes" },
		{ "{true: a}", "1:2", "needs quotes" },
		{ "~: a", "1:1", "needs quotes" },
		{ "a: 010", "1:4", "\"010\" is not the same number to all readers" },
		{ "a: -08", "1:4", "not the same number" },
		{ "a: 00", "1:4", "not the same number" },
		{ "a: -0x1F", "1:4", "not the same number" },
		{ "a: 0b11", "1:4", "not the same number" },
		{ "a: .inf", "1:4", "not a finite number" },
		{ "a: -.Inf", "1:4", "not a finite number" },
		{ "a: .nan", "1:4", "not a finite number" },
		{ "a: 1e999", "1:4", "too large" },
		{ "a: 9223372036854775808", "1:4", "beyond 64 bits" },
		{ "a: -9223372036854775809", "1:4", "beyond 64 bits" },
		{ "a: 0xffffffffffffffff", "1:4", "beyond 64 bits" },
		{ "\"\\q\"", "1:2", "unknown escape" },
		{ "\"\\u12g4\"", "1:2", "4 hexadecimal digits" },
		{ "\"\\u12\"", "1:2", "4 hexadecimal digits" },
		{ "\"\\x1", "1:2", "2 hexadecimal digits" },
		{ "\"a\\ud800\"", "1:3", "surrogate" },
		{ "\"\\udc00\\ud800\"", "1:2", "surrogate" },
		{ "\"\\ud800\\u0041\"", "1:2", "surrogate" },
		{ "\"\\U0000d800\\udc00\"", "1:2", "surrogate" },
		{ "\"\\U00110000\"", "1:2", "no such character" },
		{ "\"a\\u0000\"", "1:3", "NUL" },
		{ "\"\\0\"", "1:2", "NUL" },
		{ "\"\\x00\"", "1:2", "NUL" },
		{ "a: |x\n", "1:4", "needs quotes" },
		{ "a: |10\n x", "1:4", "needs quotes" },
		{ "a: |++\n x", "1:4", "needs quotes" },
		{ "a: | x\n", "1:6", "unexpected text" },
		{ "a: |\n    \n  x", "3:3", "less indented than the blank lines" },
		{ "--- |1\n x", "1:5", "outermost" },
		{ "--- |\nx", "2:1", "several lines" },
		{ "a: |\n   x\n  y\n", "3:3", "check the indentation" },
		{ "a: \x1b[0m", "1:4", "a control byte (0x1b)" },
		{ "# \x01", "1:3", "a control byte" },
		{ "a\n\x80", "2:1", "not UTF-8 (0x80)" },
		{ "\"\xed\xa0\x80\"", "1:2", "not UTF-8" },
		{ "\xc3\xa4: \xff", "1:4", "not UTF-8" },
		/* Columns count characters. */
		{ "\xc3\xa4\xf0\x9f\x98\x80: &x", "1:5", "anchors" },
		{ "[\"\xc3\xa4\", \xc3\xa4, *x]", "1:10", "aliases" },
		/* Line ends to some readers: nothing may hide behind them. */
		{ "a: 1 # c\xe2\x80\xa8"
		  "b: 2",
		  "1:9", "U+2028" },
		{ "a: b\xc2\x85", "1:5", "U+0085" },
		{ "a: 'b\xe2\x80\xa9'", "1:6", "U+2029" },
		{ "a: |\n  x\x7f", "2:4", "U+007F" },
		{ "a: \xef\xbb\xbf"
		  "b",
		  "1:4", "U+FEFF" },
		{ "[a # \xc2\x9b\n]", "1:6", "U+009B" },
		{ "a: 1\r\nb: &x", "2:4", "anchors" },
		{ "a: 1\rb: &x", "2:4", "anchors" },
		{ "\xef\xbb\xbf"
		  "&x",
		  "1:1", "anchors" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node *node = NULL;
		struct err err = ERR_NONE;
		char start[64];

		if (parse(rows[i].text, strlen(rows[i].text), &node, &err) != -EINVAL)
			fail_msg("<<%s>> is accepted", rows[i].text);
		snprintf(start, sizeof(start), "p.yaml:%s: ", rows[i].place);
		if (!str_starts(err.text, start) || !strstr(err.text, rows[i].message))
			fail_msg("<<%s>> at %s: \"%s\" expected, got \"%s\"", rows[i].text,
				 rows[i].place, rows[i].message, err.text);
		assert_null(node);
	}
}

static void bytes_that_c_strings_cannot_hold(void **state)
{
	struct node *node = NULL;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(parse("a: b\0c", 6, &node, &err), -EINVAL);
	assert_string_equal(err.text, "p.yaml:1:5: a control byte (0x00)");
	assert_int_equal(yaml_parse("p.yaml", NULL, 0, &node, &err), -EINVAL);
	assert_int_equal(yaml_parse("p.yaml", "&x", 2, &node, NULL), -EINVAL);
}

static void nodes_know_their_places(void **state)
{
	static const char text[] = "a: 0x10\n"
				   "list:\n"
				   "  - x\n"
				   "  - {\xc3\xa4: \"y\", z: 1.50}\n"
				   "empty:\n";
	_cleanup_(node_freep) struct node *root = NULL;
	const struct node *list, *map;

	(void)state;
	assert_int_equal(parse(text, strlen(text), &root, NULL), 0);
	assert_int_equal(root->line, 1);
	assert_int_equal(root->column, 1);
	assert_string_equal(node_get(root, "a")->text, "0x10");
	assert_int_equal(node_get(root, "a")->number, 16);
	assert_int_equal(node_get(root, "a")->column, 4);
	assert_int_equal(root->entries[1].line, 2);
	list = node_get(root, "list");
	assert_int_equal(list->line, 3);
	assert_int_equal(list->column, 3);
	map = list->entries[1].value;
	assert_int_equal(map->line, 4);
	assert_int_equal(map->column, 5);
	assert_int_equal(map->entries[1].column, 14);
	assert_int_equal(map->entries[1].value->column, 17);
	assert_string_equal(map->entries[1].value->text, "1.50");
	assert_int_equal(node_get(root, "empty")->line, 5);
	assert_int_equal(node_get(root, "empty")->column, 7);
}

static const char everything[] =
	"\xef\xbb\xbf# c\r\n---\r\nversion: 1\nextends: [base, 'x''y']\nfs: { \".\": write, "
	"\"~/.ssh\":none}\n"
	"list:\n- a: |+2\n     x\n\n    y\n  b: >-\n    one\n    two\n\n     three\n- - - -1.5e3\n"
	"- \"\\ud83d\\ude00\\x41\\L\" # c\n-\n\xc3\xa4:\n  deep: {a: [b, {c: }, ], \"d\"\n: "
	"0x1F}\n...\n";

static void every_truncation_and_change_is_survived(void **state)
{
	size_t len = sizeof(everything) - 1;
	char changed[sizeof(everything)];

	(void)state;
	for (size_t n = 0; n <= len; n++) {
		_cleanup_(node_freep) struct node *node = NULL;
		struct err err = ERR_NONE;
		int r = parse(everything, n, &node, &err);

		assert_int_equal(r, err.code);
		assert_int_equal(r == 0, node != NULL);
		if (n == len && r < 0)
			fail_msg("%s", err.text);
	}
	memcpy(changed, everything, sizeof(everything));
	for (size_t n = 0; n < len; n++) {
		for (const char *c = " \n\t:-#{}[],'\"\\|>&\x80"
				     "0a";
		     *c; c++) {
			_cleanup_(node_freep) struct node *node = NULL;

			changed[n] = *c;
			(void)!parse(changed, len, &node, NULL);
		}
		changed[n] = everything[n];
	}
}

static int parse_nested(const char *unit, const char *tail, int levels)
{
	_cleanup_(buf_done) struct buf buf = BUF(MIB);
	_cleanup_(node_freep) struct node *node = NULL;
	struct err err = ERR_NONE;
	int r;

	for (int i = 0; i < levels; i++)
		buf_str(&buf, unit);
	for (int i = 0; *tail && i < levels; i++)
		buf_str(&buf, tail);
	r = parse(buf_text(&buf), buf.len, &node, &err);
	if (r < 0)
		assert_non_null(strstr(err.text, "nested more than 64 levels"));
	return r;
}

static int parse_staircase(int levels)
{
	_cleanup_(buf_done) struct buf buf = BUF(MIB);
	_cleanup_(node_freep) struct node *node = NULL;

	for (int i = 0; i < levels; i++)
		buf_printf(&buf, "%*sa:\n", i, "");
	return parse(buf_text(&buf), buf.len, &node, NULL);
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(parse_nested("[", "]", YAML_MAX_DEPTH), 0);
	assert_int_equal(parse_nested("[", "]", YAML_MAX_DEPTH + 1), -EINVAL);
	assert_int_equal(parse_nested("[", "", 500000), -EINVAL);
	assert_int_equal(parse_nested("{\"a\":", "", 150000), -EINVAL);
	assert_int_equal(parse_nested("- ", "", YAML_MAX_DEPTH), 0);
	assert_int_equal(parse_nested("- ", "", YAML_MAX_DEPTH + 1), -EINVAL);
	assert_int_equal(parse_nested("- ", "", 500000), -EINVAL);
	assert_int_equal(parse_staircase(YAML_MAX_DEPTH), 0);
	assert_int_equal(parse_staircase(YAML_MAX_DEPTH + 1), -EINVAL);
}

static void size_is_bounded(void **state)
{
	size_t len = YAML_MAX_BYTES + 1;
	char *text = malloc(len);
	struct node *node = NULL;
	struct err err = ERR_NONE;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', len);
	assert_int_equal(yaml_parse("p", text, len, &node, &err), -EFBIG);
	assert_int_equal(yaml_parse("p", text, len - 1, &node, &err), 0);
	assert_int_equal(node->len, len - 1);
	node_free(node);
	free(text);
}

/*
 * Shapes that make a careless reader quadratic or deep. Each fills 1 MiB with head, many times the
 * unit (where %d counts), and tail. A linear reader is done with all of them in a moment; a
 * quadratic one does not come back before the runner gives up.
 */
static void a_million_bytes_of_any_shape_are_survived(void **state)
{
	static const struct {
		const char *head, *unit, *tail;
	} shapes[] = {
		{ "", "k%06d: 1\n", "" },
		{ "{", "k%06d: 1, ", "}" },
		{ "{", "\"%07d\":1,", "}" },
		{ "[", "1,", "]" },
		{ "[", "{},", "]" },
		{ "[", "\xc3\xa4,", "]" },
		{ "", "- a\n", "" },
		{ "", "- - a\n", "" },
		{ "", "\n", "a" },
		{ "a", "\n", "b" },
		{ "a:", "\n", "" },
		{ "", "#\n", "a" },
		{ "", " ", "a" },
		{ "a:", " ", "b: 1" },
		{ "a:", "\t", "b: 1" },
		{ "a", " ", ": 1" },
		{ "a: ", "b ", "" },
		{ "a: ", "b:c#", "" },
		{ "a: \"", "\\u00e4", "\"" },
		{ "a: \"", "\\\\", "\"" },
		{ "a: '", "''", "'" },
		{ "a: |\n", "  x\n", "" },
		{ "a: |\n", " \n", "" },
		{ "a: |+\n x\n", "\n", "b: 1" },
		{ "a: >\n", "  x\n\n", "" },
		{ "a: >\n", "  x\n", "" },
		{ "a: 1.", "0", "1" },
		{ "a: ", "9", "" },
		{ "", "[", "" },
		{ "", "{a: ", "" },
		{ "", "\"", "" },
		{ "", "'", "" },
		{ "", "- ", "" },
		{ "", "a: ", "" },
		{ "", "\xc3\xa4: [", "" },
		{ "[", "\n", "]" },
		{ "[", "a #\n,", "]" },
		{ "{\"a\"", "\n", ":1}" },
		{ "", "---\n", "" },
		{ "[", "x, &", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		_cleanup_(buf_done) struct buf buf = BUF(YAML_MAX_BYTES);
		_cleanup_(node_freep) struct node *node = NULL;

		buf_str(&buf, shapes[i].head);
		for (int k = 0; buf.len < YAML_MAX_BYTES - 64; k++) {
			char unit[32];

/* The units are the constants above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(unit, sizeof(unit), shapes[i].unit, k);
#pragma GCC diagnostic pop
			buf_str(&buf, unit);
		}
		buf_str(&buf, shapes[i].tail);
		(void)!yaml_parse("p", buf_text(&buf), buf.len, &node, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_collections),
		cmocka_unit_test(flow_collections_and_json),
		cmocka_unit_test(plain_scalars),
		cmocka_unit_test(quoted_and_block_scalars),
		cmocka_unit_test(documents),
		cmocka_unit_test(what_is_refused_says_where_and_why),
		cmocka_unit_test(bytes_that_c_strings_cannot_hold),
		cmocka_unit_test(nodes_know_their_places),
		cmocka_unit_test(every_truncation_and_change_is_survived),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(size_is_bounded),
		cmocka_unit_test(a_million_bytes_of_any_shape_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
