#include "unit.h"

#include <errno.h>
#include <stdbool.h>

#include "output/inert.h"

#define R    "\xef\xbf\xbd"
#define ST   "\033\\"
#define ROOM 65536

struct filtered {
	const char *name, *in, *out;
};

/* What programs print, recorded from them at a terminal: none of it may change. */
static const char *const untouched[] = {
	"plain text\r\n\ttab\b\v\f bell\a",
	"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 "
	"\xe2\x80\x8f\xd7\x90",
	/* git diff --color */
	"\033[1mdiff --git a/f b/f\033[m\n\033[36m@@ -1,2 +1,2 @@\033[m\n"
	" a\033[m\n\033[31m-b\033[m\n\033[32m+\033[m\033[32mc\033[m\n",
	/* colours of 8, 16, 256 and 24 bits, underline styles with colons */
	"\033[0m\033[1;31mx\033[91;102my\033[38;5;208;48;5;17mz\033[38;2;255;0;128;48;2;1;2;3mw"
	"\033[38:2::255:0:128m\033[4:3;58:2::1:2:3mcurl\033[24;59m\033[m",
	/* npm's and cargo's progress */
	"\033[?25l\033[2K\033[1G\xe2\xa0\x8b idealTree: "
	"timing\033[0K\033[K\r\033[J\033[1A\033[2K\033[?25h",
	/* apt's progress bar at the bottom */
	"\n\0337\033[0;23r\0338\033[1A\0337\033[24;0f\033[42m\033[30mProgress: [ "
	"20%]\033[49m\033[39m "
	"[##....] \0338\0337\033[0;24r\0338\033[J",
	/* htop: curses on the alternate screen, mouse, line drawing, repeat */
	"\033[?1049h\033[1;24r\033(B\033[m\033[4l\033[?7h\033[?1h\033=\033[?25l\033[39;49m\033["
	"H\033[2J"
	"\033[?1000h\033[?1006h\033[3d\033[36m1\033[1m[\033[32m|\033[25b\033[30m\033[39G0.0%\033("
	"0lqk\033(B"
	"\033[5;10HTasks\033[K\033[10X\033[2P\033[3@\033[2L\033[2M\033[6S\033[6T\033[Z\033[4I\033["
	"3`\033[2a\033[2e"
	"\033[24;1H\033[?1006l\033[?1000l\033[?12l\033[?25h\033[?1049l\r\033[?1l\033>",
	/* SO and SI as TERM=screen draws lines */
	"\033(B\033)0\016lqqk\017\033)B\033[34l\033[34h",
	/* dialog at start and end, tput flash, reset, tabs */
	"\0337\033[?47h\033[?5h\033[?5l\033[2J\033[?47l\0338\033D\033E\033M\033H\033[3g\033[!p\033["
	"20l\033[?6l",
	/* fish, zsh, readline: paste, cursor shape, save and restore */
	"\033[?2004h\033[6 q\033[ q\033[s\033[u\033[?2004l\033[?12;25h",
	/* a redraw in one piece, focus, every mouse mode */
	"\033[?2026h\033[?1004h\033[?1002;1003;1005;1015h\033[?1002;1003;1005;1015l\033[?1004l\033["
	"?2026l",
	"\033[?1047h\033[?1048h\033[?1048l\033[?1047l",
};

static const struct filtered table[] = {
	/* recorded, with what they ask of the terminal taken out */
	{ "less",
	  "\033[?1049h\033[22;0;0t\033[?1h\033=\rint main(void)\r\n\033[7ma.c "
	  "(END)\033[27m\033[K\r\033[K"
	  "\033[?1l\033>\033[?1049l\033[23;0;0t",
	  "\033[?1049h\033[?1h\033=\rint main(void)\r\n\033[7ma.c "
	  "(END)\033[27m\033[K\r\033[K\033[?1l\033>"
	  "\033[?1049l" },
	{ "vim",
	  "\033[?1049h\033[22;0;0t\033[>4;2m\033[?1h\033=\033[?2004h\033[?1004h\033[1;12r\033[?"
	  "12h\033[?12l"
	  "\033[22;2t\033[22;1t\033[27m\033[m\033[H\033[2J\033[?25l\033[12;1H\"a.c\" "
	  "4L\033[2;1H\xe2\x96\xbd"
	  "\033[6n\033[2;1H  "
	  "\033[3;1H\033Pzz\033\\\033[0%m\033[6n\033[3;1H\033[1;1H\033[>c\033]10;?\007"
	  "\033]11;?\007\033[?25h\033[>4;m\033[?2004l",
	  "\033[?1049h\033[?1h\033=\033[?2004h\033[?1004h\033[1;12r\033[?12h\033[?12l\033[27m\033["
	  "m\033[H"
	  "\033[2J\033[?25l\033[12;1H\"a.c\" 4L\033[2;1H\xe2\x96\xbd\033[2;1H  "
	  "\033[3;1H\033[3;1H\033[1;1H"
	  "\033[?25h\033[?2004l" },
	{ "tmux",
	  "\033[?1049h\033[22;0;0t\033[H\033[2J\033(B\033[m\033[1;8r\033[>c\033[>q\033[1;1H\033[?"
	  "25lhi\033[K\r\n"
	  "\033[30m\033[42m[0] \033(B\033[m\033[?7727l\033[?1049l\033[23;0;0t[exited]\r\n",
	  "\033[?1049h\033[H\033[2J\033(B\033[m\033[1;8r\033[1;1H\033[?25lhi\033[K\r\n\033[30m\033["
	  "42m[0] "
	  "\033(B\033[m\033[?1049l[exited]\r\n" },
	{ "clear keeps the scrollback", "\033[H\033[2J\033[3J", "\033[H\033[2J" },
	{ "hyperlink keeps its text", "\033]8;;http://x/\033\\text\033]8;;\033\\!", "text!" },

	/* what makes a terminal answer */
	{ "DA1", "a\033[cb\033[0cc", "abc" },
	{ "DA2, DA3", "a\033[>cb\033[>0c\033[=cc", "abc" },
	{ "DECID", "a\033Zb", "ab" },
	{ "DSR, CPR", "a\033[5n\033[6n\033[?6n\033[?15n\033[?26nb", "ab" },
	{ "XTVERSION", "a\033[>q\033[>0qb", "ab" },
	{ "DECREQTPARM", "a\033[x\033[1xb", "ab" },
	{ "DECRQM", "a\033[?2026$p\033[4$pb", "ab" },
	{ "DECRQSS", "a\033P$qm\033\\b", "ab" },
	{ "XTGETTCAP", "a\033P+q544e\033\\b", "ab" },
	{ "DECRQCRA", "a\033[1;1;1;1;1;1*yb", "ab" },
	{ "window reports", "a\033[14t\033[18t\033[21tb", "ab" },
	{ "keyboard protocol", "a\033[?u\033[>1u\033[<u\033[=1;1u\033[>4;1m\033[?4m\033[>4nb",
	  "ab" },
	{ "sixel query", "a\033[?1;1;0Sb", "ab" },
	{ "reports of the palette and of size", "a\033[?2031h\033[?2048h\033[?996nb", "ab" },
	{ "answerback", "a\005b", "ab" },
	{ "colour queries", "a\033]10;?\007\033]11;?\033\\\033]4;1;?\007b", "ab" },
	{ "font query", "a\033]50;?\007b", "ab" },
	{ "highlight mouse tracking", "a\033[?1001h\033[1;1;1;1;1Tb", "ab" },
	{ "media copy", "a\033[5i\033[4i\033[?5ib", "ab" },
	{ "locator", "a\033[1;2'z\033['|b", "ab" },

	/* what writes where a program has no business */
	{ "title", "a\033]0;rm -rf\007\033]2;x\033\\\033kscreen\033\\b", "ab" },
	{ "clipboard", "a\033]52;c;cm0gLXJm\007\033]52;c;?\033\\b", "ab" },
	{ "iTerm2 file", "a\033]1337;File=inline=1:AAAA\nBBBB\007b", "ab" },
	{ "notifications", "a\033]777;notify;t;b\007\033]9;hi\007\033]99;;x\033\\b", "ab" },
	{ "sixel", "a\033Pq#0;2;0;0;0~~@@vv\n$-\033\\b", "ab" },
	{ "kitty graphics", "a\033_Ga=T,f=24;AAAA\033\\b", "ab" },
	{ "SOS, PM", "a\033Xs\033\\\033^p\033\\b", "ab" },
	{ "user-defined keys", "a\033P1;1|17/17\033\\b", "ab" },
	{ "resize, move, minimize", "a\033[8;1;1t\033[3;0;0t\033[2t\033[?3hb", "ab" },
	{ "character sets of the terminal",
	  "a\033%@\033%G\033 G\033*0\033(K\033n\033o\033~\033N\033Ob", "ab" },
	{ "full reset", "a\033cb", "ab" },
	{ "alignment test, memory lock", "a\033#8\033l\033mb", "ab" },
	{ "saved modes", "a\033[?1000s\033[?1000r\033[5;10sb", "ab" },
	{ "rectangles", "a\033[1;1;9;9$x\033[65;1;1;9;9$x\033[1;2$zb", "ab" },
	{ "a mode among allowed ones", "a\033[?25;3hb\033[?hc\033[hd\033[?;25he", "abcde" },
	{ "unknown private mode", "a\033[?9999h\033[?1034hb", "ab" },
	{ "unknown final bytes", "a\033[1y\033[1|\033[1{\033[1~\033[[Ab", "aAb" },
	{ "palette of the Linux console", "a\033]Rb\033]P0123456c\033]P0x\007d", "abcd" },
	{ "tmux passthrough", "a\033Ptmux;\033\033]52;c;eA==\007\033\\b", "ab" },

	/* shapes that a lax parser gets wrong */
	{ "string ended by ESC", "\033]0;x\033[31mred", "\033[31mred" },
	{ "string ended by CAN, SUB", "a\033]0;x\030b\033Pq\032c", "abc" },
	{ "BEL ends OSC only", "a\033Pq\007x\033\\b\033_\007x\033\\c", "abc" },
	{ "string without an end", "a\033]0;x\ny\nz", "a" },
	{ "CSI without an end", "a\033[31", "a" },
	{ "nested ESC", "a\033\033\033[1mb\033[3\033[4mc", "a\033[1mb\033[4mc" },
	{ "CSI cut by CAN, SUB", "a\033[31\030mb\033[31\032mc\033\032mD", "ambmcmD" },
	{ "CSI cut by text", "a\033[31\xc3\xa4mb", "a\xc3\xa4mb" },
	{ "line feed inside", "a\033[3\n1mb\033\r[1mc", "a\n\033[31mb\r\033[1mc" },
	{ "NUL and DEL inside", "a\033[3\1771m\033\001[1mb", "a\033[31m\033[1mb" },
	{ "ENQ inside", "a\033[3\0051mb", "a\033[31mb" },
	{ "marker in the middle", "a\033[1?25h\033[1>c\033[??25hb", "ab" },
	{ "digits after an intermediate", "a\033[1 1q\033[0%mb", "ab" },
	{ "intermediates", "a\033[1$m\033[1  q\033[ m\033[1!pb", "ab" },
	{ "colons elsewhere than in colours", "a\033[1:2H\033[?25:25hb", "ab" },
	{ "too many parameters", "a\033[1;2;3H\033[1;2A\033[1sb", "ab" },
	{ "huge numbers", "a\033[100000A\033[4294967297A\033[99999999999999999999B\033[99999Cb",
	  "a\033[99999Cb" },
	{ "huge repeat", "a\033[1000b\033[999bb", "a\033[999bb" },
	{ "other control bytes",
	  "a\001\002\003\004\006\020\021\022\023\024\025\026\027\031\034\035\036\037\177b", "ab" },

	/* bytes and characters */
	{ "C1 bytes",
	  "a\x9b"
	  "31mb\x9d"
	  "0;t\x07"
	  "c\x90q\x9c",
	  "a31mb0;t\ac"
	  "q" },
	{ "C1 as UTF-8",
	  "a\xc2\x9b"
	  "6nb\xc2\x9d"
	  "52;c;x\xc2\x9c\xc2\x85"
	  "c",
	  "a6nb52;c;xc" },
	{ "C1 inside a letter stays", "\xc3\x9b\xe2\x9b\x9b", "\xc3\x9b\xe2\x9b\x9b" },
	{ "not UTF-8", "a\xff\xc0\xaf\xe2\x82x\xf0\x9fy\xa4", "a" R R R R "x" R "y" R },
	{ "overlong ESC and C1", "\xc0\x9b\xe0\x82\x9b\xf0\x80\x80\x9b", R R R },
	{ "surrogate", "\xed\xa0\x80", R R },
	{ "ESC in a character", "\xe2\x82\033[6n\xacz", R R "z" },
	{ "bidi embeddings and overrides",
	  "a\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad\xe2\x80\xae", "a" R R R R R },
	{ "bidi isolates", "\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9", R R R R },
	{ "neighbours of bidi controls", "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
	  "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa" },
};

static void feed(struct inert *inert, const char *in, size_t len, struct buf *out)
{
	/* A copy of just that size, so that reading beyond it is seen. */
	_cleanup_free_ char *copy = malloc(len + !len);

	assert_non_null(copy);
	memcpy(copy, in, len);
	assert_int_equal(inert_feed(inert, copy, len, out), 0);
}

static void filter(const char *in, size_t len, struct buf *out)
{
	struct inert inert = INERT_START;

	feed(&inert, in, len, out);
}

static void assert_same(const struct buf *a, const struct buf *b)
{
	assert_int_equal(a->len, b->len);
	assert_string_equal(buf_text(a), buf_text(b));
}

/*
 * Finds what may not be there by another way than the filter does: it knows no states and no list
 * of what may pass, only what an ESC must not be followed by and which bytes must not occur.
 */
static const char *forbidden_after_escape(const unsigned char *p, const unsigned char *end)
{
	size_t n;

	if (p == end || !strchr("[78DEMH=>()", *p))
		return "ESC and something else";
	if (*p != '[')
		return NULL;
	p++;
	n = strspn((const char *)p, "<=>?0123456789;:");
	if (memchr(p, '<', n) || memchr(p, '=', n) || memchr(p, '>', n))
		return "a private marker";
	p += n;
	if (p == end)
		return "a sequence without an end";
	if (strchr("cntxyiz{|}~vwo\\]^_NOQRUVWY[jk", *p))
		return "a report, query or command";
	if (strchr("\"#$%&'()*+,-./", *p))
		return "an intermediate byte";
	return NULL;
}

static const char *forbidden_character(const unsigned char *p, size_t left)
{
	static const char *const sequences[] = { "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac",
						 "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6",
						 "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9" };

	if (left >= 2 && p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
		return "a C1 control";
	for (size_t i = 0; i < ARRAY_SIZE(sequences); i++)
		if (left >= 3 && !memcmp(p, sequences[i], 3))
			return "a bidi control";
	return NULL;
}

static const char *forbidden(const struct buf *buf)
{
	const unsigned char *p = (const unsigned char *)buf_text(buf), *end = p + buf->len;
	const char *found = NULL;
	int follow = 0; /* bytes of a character that are still to come */

	for (; p < end && !found; p++) {
		if (*p >= 0x80 && *p < 0xc0 && --follow < 0)
			return "a byte that is not UTF-8";
		if ((*p < 0x80 || *p >= 0xc0) && follow > 0)
			return "half a character";
		if (*p >= 0xc0)
			follow = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
		if ((*p < 0x20 && !strchr("\a\b\t\n\v\f\r\016\017\033", *p)) || *p == 0 ||
		    *p == 0x7f)
			return "a control byte";
		found = *p == 033 ? forbidden_after_escape(p + 1, end)
				  : forbidden_character(p, (size_t)(end - p));
	}
	return found;
}

/* The properties that hold for every input. */
static void check_properties(const char *in, size_t len)
{
	_cleanup_(buf_done) struct buf whole = BUF(ROOM);
	_cleanup_(buf_done) struct buf again = BUF(ROOM);
	_cleanup_(buf_done) struct buf single = BUF(ROOM);
	struct inert bytewise = INERT_START;

	filter(in, len, &whole);
	assert_null(forbidden(&whole));
	assert_true(whole.len <= 3 * len);
	filter(buf_text(&whole), whole.len, &again);
	assert_same(&whole, &again);
	for (size_t i = 0; i < len; i++)
		feed(&bytewise, in + i, 1, &single);
	assert_same(&whole, &single);
}

static void check_every_split(const char *in, size_t len)
{
	_cleanup_(buf_done) struct buf whole = BUF(ROOM);
	struct inert one = INERT_START;

	feed(&one, in, len, &whole);
	for (size_t at = 0; at <= len; at++) {
		_cleanup_(buf_done) struct buf parts = BUF(ROOM);
		struct inert two = INERT_START;

		feed(&two, in, at, &parts);
		feed(&two, in + at, len - at, &parts);
		assert_same(&whole, &parts);
		assert_int_equal(one.dropped, two.dropped);
		assert_int_equal(one.modes, two.modes);
		assert_int_equal(one.undo, two.undo);
	}
}

static void harmless_output_is_untouched(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(untouched); i++) {
		_cleanup_(buf_done) struct buf out = BUF(ROOM);
		struct inert inert = INERT_START;
		size_t len = strlen(untouched[i]);

		feed(&inert, untouched[i], len, &out);
		assert_string_equal(buf_text(&out), untouched[i]);
		assert_int_equal(inert.dropped, 0);
		check_properties(untouched[i], len);
		check_every_split(untouched[i], len);
	}
}

static void only_the_list_passes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_(buf_done) struct buf out = BUF(ROOM);
		size_t len = strlen(table[i].in);

		filter(table[i].in, len, &out);
		if (strcmp(buf_text(&out), table[i].out))
			print_message("%s\n", table[i].name);
		assert_string_equal(buf_text(&out), table[i].out);
		check_properties(table[i].in, len);
		check_every_split(table[i].in, len);
	}
}

static void the_scanner_of_this_test_finds_what_is_forbidden(void **state)
{
	static const char *const bad[] = { "\033]0;x\a",   "\033[6n",      "\033[>c",  "\033P",
					   "\033[1",       "\033c",        "\x9b",     "\xc2\x9b",
					   "\xe2\x80\xae", "\xe2\x81\xa6", "\005",     "\177",
					   "\xe2\x82x",    "\033[?1$p",    "\033[22t", "\033" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(buf_done) struct buf buf = BUF(ROOM);

		assert_int_equal(buf_printf(&buf, "a%s", bad[i]), 0);
		assert_non_null(forbidden(&buf));
	}
}

static void nul_is_dropped(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(ROOM);

	(void)state;
	filter("a\0b\033[3\0001mc", 10, &out);
	assert_int_equal(out.len, 8);
	assert_string_equal(buf_text(&out), "ab\033[31mc");
}

static void a_sequence_longer_than_the_hold_is_dropped(void **state)
{
	char in[INERT_HOLD * 3] = "\033[";
	_cleanup_(buf_done) struct buf out = BUF(ROOM);
	struct inert inert = INERT_START;

	(void)state;
	/* One byte less than the hold passes: ESC [ 1;1;... m with 63 bytes in all. */
	for (size_t i = 2; i < INERT_HOLD - 2; i++)
		in[i] = i % 2 ? ';' : '1';
	in[INERT_HOLD - 2] = 'm';
	feed(&inert, in, INERT_HOLD - 1, &out);
	assert_int_equal(out.len, INERT_HOLD - 1);

	/* One byte more does not, and neither does a list that is short in bytes only. */
	buf_reset(&out);
	in[INERT_HOLD - 2] = '1';
	in[INERT_HOLD - 1] = 'm';
	feed(&inert, in, INERT_HOLD, &out);
	memset(in + 2, ';', INERT_HOLD - 4);
	in[INERT_HOLD - 2] = 'm';
	feed(&inert, in, INERT_HOLD - 1, &out);
	assert_int_equal(out.len, 0);
	assert_int_equal(inert.dropped, 2);

	memset(in + 2, '0', sizeof(in) - 2);
	in[2] = '1';
	in[3] = ';';
	in[sizeof(in) - 3] = 'm';
	in[sizeof(in) - 2] = 'o';
	in[sizeof(in) - 1] = 'k';
	feed(&inert, in, sizeof(in), &out);
	assert_string_equal(buf_text(&out), "ok");
	assert_int_equal(inert.dropped, 3);

	buf_reset(&out);
	memset(in + 1, ' ', sizeof(in) - 1);
	in[sizeof(in) - 2] = 'B';
	in[sizeof(in) - 1] = '.';
	feed(&inert, in, sizeof(in), &out);
	assert_string_equal(buf_text(&out), ".");
}

static void what_was_dropped_is_counted(void **state)
{
	static const struct {
		const char *in;
		unsigned int dropped;
	} cases[] = {
		{ "text\033[1m", 0 },
		{ "\033]0;t\033\\", 1 },
		{ "\033]0;t\007\033[6n\005\xc2\x9b\xff\xe2\x80\xae\x9b", 7 },
		{ "\033P1\033P2\030", 2 },
		{ "\033[1\033[1m", 1 },
	};
	_cleanup_(buf_done) struct buf out = BUF(ROOM);
	struct inert full = { .dropped = UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inert inert = INERT_START;

		feed(&inert, cases[i].in, strlen(cases[i].in), &out);
		assert_int_equal(inert.dropped, cases[i].dropped);
	}
	feed(&full, "\005", 1, &out);
	assert_int_equal(full.dropped, UINT32_MAX);
}

static void the_end_puts_the_terminal_back(void **state)
{
	static const struct filtered cases[] = {
		{ "nothing changed", "text\033[H\033[2J", "" },
		{ "all put back by the program",
		  "\033[?1049h\033[?25l\033[1;31mx\033[0m\033(0q\033(B\033=\033>\016\017\033[5;"
		  "9r\033[r"
		  "\033[?7l\033[?7h\033[3 q\033[0 q\033[?25h\033[?1049l",
		  "" },
		{ "colours", "\033[8mhidden", "\033[m" },
		{ "mouse and cursor", "\033[?1003;1006h\033[?25l",
		  "\033[?25h\033[?1003l\033[?1006l" },
		{ "line drawing", "\033(0\016", "\033(B\017" },
		{ "region, shape and keypad",
		  "\033[2;5r\033[5 q\033=", "\0337\033[r\0338\033[0 q\033>" },
		{ "insert mode, no wrap", "\033[4h\033[?7l", "\033[?7h\033[4l" },
		{ "an unfinished sequence", "\033[?1000", "" },
		{ "half a character", "\xe2\x82", "" },
		{ "a refused mode", "\033[?1000;3h", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf out = BUF(ROOM);
		struct inert inert = INERT_START;

		feed(&inert, cases[i].in, strlen(cases[i].in), &out);
		buf_reset(&out);
		assert_int_equal(inert_finish(&inert, &out), 0);
		if (strcmp(buf_text(&out), cases[i].out))
			print_message("%s\n", cases[i].name);
		assert_string_equal(buf_text(&out), cases[i].out);
		/* As new: what comes is judged from the beginning. */
		buf_reset(&out);
		feed(&inert, "1000h", 5, &out);
		assert_string_equal(buf_text(&out), "1000h");
		assert_int_equal(inert_finish(&inert, &out), 0);
		assert_int_equal(out.len, 5);
	}
}

static void the_end_has_a_bound(void **state)
{
	static const char everything[] =
		"\033[?1;5;6;12;25;47;1000;1002;1003h\033[?1004;1005;1006;1015;1047;1048;1049h"
		"\033[?2004;2026h\033[?7;25l\033[4;20h\033[31m\033(0\016\033=\033[2;3r\033[1 q";
	_cleanup_(buf_done) struct buf out = BUF(ROOM);
	struct inert inert = INERT_START;

	(void)state;
	feed(&inert, everything, strlen(everything), &out);
	assert_int_equal(inert.dropped, 0);
	buf_reset(&out);
	assert_int_equal(inert_finish(&inert, &out), 0);
	assert_true(out.len > 100);
	assert_true(out.len <= INERT_FINISH_MAX);
	assert_null(forbidden(&out));
	check_properties(buf_text(&out), out.len);
}

static void a_full_buffer_is_an_error(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(4);
	struct inert inert = INERT_START;

	(void)state;
	assert_int_equal(inert_feed(&inert, "\033[31m", 5, &out), -ENOSPC);
	assert_int_equal(out.len, 0);
	assert_int_equal(inert_finish(&inert, &out), -ENOSPC);
}

/* Pieces of sequences in any order, and any bytes: what no table thinks of. */
static void random_input_keeps_the_properties(void **state)
{
	static const char *const pieces[] = { "\033",     "[",    "]",     "P",    "\\",   "\a",
					      "1",        ";",    "?",     "25",   "h",    "m",
					      "c",        "n",    "\xc2",  "\x9b", "\xe2", "\x80",
					      "\xae",     "\x9c", " ",     "q",    "$",    "p",
					      "\030",     "\n",   "R",     "(",    "0",    "k",
					      "\xf0\x9f", ">",    "99999", ":",    "\016", "J" };
	uint64_t seed = 20240607;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char in[128];
		size_t len = 0;

		while (len < sizeof(in) - 8) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			if (seed >> 60 == 0) {
				in[len++] = (char)(seed >> 40);
			} else {
				const char *piece = pieces[(seed >> 33) % ARRAY_SIZE(pieces)];

				memcpy(in + len, piece, strlen(piece));
				len += strlen(piece);
			}
		}
		check_properties(in, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(harmless_output_is_untouched),
		cmocka_unit_test(only_the_list_passes),
		cmocka_unit_test(the_scanner_of_this_test_finds_what_is_forbidden),
		cmocka_unit_test(nul_is_dropped),
		cmocka_unit_test(a_sequence_longer_than_the_hold_is_dropped),
		cmocka_unit_test(what_was_dropped_is_counted),
		cmocka_unit_test(the_end_puts_the_terminal_back),
		cmocka_unit_test(the_end_has_a_bound),
		cmocka_unit_test(a_full_buffer_is_an_error),
		cmocka_unit_test(random_input_keeps_the_properties),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
