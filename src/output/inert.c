#include "output/inert.h"

#include <limits.h>
#include <string.h>

#include "base/str.h"
#include "output/text.h"

/*
 * The states are those of a DEC terminal, less what only an executing terminal needs. A sequence is
 * collected from its ESC on and written in one piece when its last byte has shown that it may pass;
 * nothing is written while that is open, so the terminal never sees a beginning without an end.
 */
enum state {
	GROUND,
	UTF8,
	ESCAPE,  /* ESC, then intermediate bytes */
	CSI,     /* ESC [, then parameters and intermediate bytes */
	OSC,     /* a string that BEL ends too */
	OSC_NEW, /* its first byte */
	PALETTE, /* the Linux console's ESC ] P, which has seven digits and no end */
	STRING,
};

enum {
	BEL = 0x07,
	SO = 0x0e,
	SI = 0x0f,
	CAN = 0x18,
	SUB = 0x1a,
	ESC = 0x1b,
	DEL = 0x7f,
};

#define BIT(n) (UINT32_C(1) << (n))

/* BEL BS HT LF VT FF CR. Not ENQ: a terminal answers it with a text that can be set. */
#define C0_PLAIN (BIT(0x07) | BIT(0x08) | BIT(0x09) | BIT(0x0a) | BIT(0x0b) | BIT(0x0c) | BIT(0x0d))

enum undo {
	UNDO_NOTHING,
	UNDO_REGION,
	UNDO_SHAPE,
	UNDO_KEYPAD,
	UNDO_CHARSET,
	UNDO_SHIFT,
	UNDO_SGR,
	UNDO_COUNT,
};

/* Setting the scroll region moves the cursor, so that is saved around it. */
static const char *const undo_text[UNDO_COUNT] = {
	/* clang-format off */
	[UNDO_REGION]  = "\0337\033[r\0338",
	[UNDO_SHAPE]   = "\033[0 q",
	[UNDO_KEYPAD]  = "\033>",
	[UNDO_CHARSET] = "\033(B",
	[UNDO_SHIFT]   = "\017",
	[UNDO_SGR]     = "\033[m",
	/* clang-format on */
};

/*
 * What may follow ESC. Line drawing (0) and ASCII (B) are what curses designates; other sets,
 * single shifts and locking shifts stay out. ESC c would erase what scrolled away in most terminals
 * and take modes from the user's shell; CSI ! p resets what a program can have broken. G1 is not
 * put back: it is seen only after SO, and that is.
 */
static const struct esc_row {
	const char *tail;
	enum undo undo;
	bool changes; /* what undo takes back; otherwise it is as before */
} esc_rows[] = {
	/* clang-format off */
	{ "7",  UNDO_NOTHING, false },	/* save the cursor */
	{ "8",  UNDO_NOTHING, false },	/* restore it */
	{ "D",  UNDO_NOTHING, false },	/* down a line */
	{ "E",  UNDO_NOTHING, false },	/* next line */
	{ "M",  UNDO_NOTHING, false },	/* up a line */
	{ "H",  UNDO_NOTHING, false },	/* set a tab stop */
	{ "=",  UNDO_KEYPAD,  true },	/* application keypad */
	{ ">",  UNDO_KEYPAD,  false },	/* numeric keypad */
	{ "(0", UNDO_CHARSET, true },	/* G0: line drawing */
	{ "(B", UNDO_CHARSET, false },	/* G0: ASCII */
	{ ")0", UNDO_NOTHING, false },	/* G1 */
	{ ")B", UNDO_NOTHING, false },
	/* clang-format on */
};

#define MAX_VALUE  99999 /* no terminal is larger; larger numbers have overflowed some of them */
#define MAX_PARAMS 32
#define MODES      true

/*
 * What may follow ESC [: marker before the parameters, intermediate byte, final byte, how many
 * parameters and how large. All markers but '?' and all other final bytes ask, report, print, move
 * windows or change keys.
 */
static const struct csi_row {
	char marker, inter, final;
	unsigned char params;
	unsigned int value;
	enum undo undo;
	bool modes; /* every parameter must be in the table below */
} csi_rows[] = {
	/* clang-format off */
	{ 0, 0, '@', 1, MAX_VALUE, UNDO_NOTHING, false },	/* insert characters */
	{ 0, 0, 'A', 1, MAX_VALUE, UNDO_NOTHING, false },	/* cursor up, down, right, left */
	{ 0, 0, 'B', 1, MAX_VALUE, UNDO_NOTHING, false },
	{ 0, 0, 'C', 1, MAX_VALUE, UNDO_NOTHING, false },
	{ 0, 0, 'D', 1, MAX_VALUE, UNDO_NOTHING, false },
	{ 0, 0, 'E', 1, MAX_VALUE, UNDO_NOTHING, false },	/* lines down, up */
	{ 0, 0, 'F', 1, MAX_VALUE, UNDO_NOTHING, false },
	{ 0, 0, 'G', 1, MAX_VALUE, UNDO_NOTHING, false },	/* to a column */
	{ 0, 0, 'H', 2, MAX_VALUE, UNDO_NOTHING, false },	/* to a place */
	{ 0, 0, 'I', 1, MAX_VALUE, UNDO_NOTHING, false },	/* tabs forward */
	{ 0, 0, 'J', 1, 2,         UNDO_NOTHING, false },	/* erase; 3 is what scrolled away */
	{ 0, 0, 'K', 1, MAX_VALUE, UNDO_NOTHING, false },	/* erase in the line */
	{ 0, 0, 'L', 1, MAX_VALUE, UNDO_NOTHING, false },	/* insert, delete lines */
	{ 0, 0, 'M', 1, MAX_VALUE, UNDO_NOTHING, false },
	{ 0, 0, 'P', 1, MAX_VALUE, UNDO_NOTHING, false },	/* delete characters */
	{ 0, 0, 'S', 1, MAX_VALUE, UNDO_NOTHING, false },	/* scroll up, down; with five */
	{ 0, 0, 'T', 1, MAX_VALUE, UNDO_NOTHING, false },	/* parameters T tracks the mouse */
	{ 0, 0, 'X', 1, MAX_VALUE, UNDO_NOTHING, false },	/* erase characters */
	{ 0, 0, 'Z', 1, MAX_VALUE, UNDO_NOTHING, false },	/* tabs backward */
	{ 0, 0, '`', 1, MAX_VALUE, UNDO_NOTHING, false },	/* to a column */
	{ 0, 0, 'a', 1, MAX_VALUE, UNDO_NOTHING, false },	/* right */
	{ 0, 0, 'b', 1, 999,       UNDO_NOTHING, false },	/* repeat: a line, not a flood */
	{ 0, 0, 'd', 1, MAX_VALUE, UNDO_NOTHING, false },	/* to a line */
	{ 0, 0, 'e', 1, MAX_VALUE, UNDO_NOTHING, false },	/* down */
	{ 0, 0, 'f', 2, MAX_VALUE, UNDO_NOTHING, false },	/* to a place */
	{ 0, 0, 'g', 1, MAX_VALUE, UNDO_NOTHING, false },	/* clear tab stops */
	{ 0, 0, 'h', MAX_PARAMS, MAX_VALUE, UNDO_NOTHING, MODES },
	{ 0, 0, 'l', MAX_PARAMS, MAX_VALUE, UNDO_NOTHING, MODES },
	{ 0, 0, 'm', MAX_PARAMS, MAX_VALUE, UNDO_SGR, false },	/* colours and weight */
	{ 0, 0, 'r', 2, MAX_VALUE, UNDO_REGION, false },	/* scroll region */
	{ 0, 0, 's', 0, 0,         UNDO_NOTHING, false },	/* save the cursor */
	{ 0, 0, 'u', 0, 0,         UNDO_NOTHING, false },	/* restore it */
	{ 0, ' ', 'q', 1, MAX_VALUE, UNDO_SHAPE, false },	/* shape of the cursor */
	{ 0, '!', 'p', 0, 0,       UNDO_NOTHING, false },	/* soft reset */
	{ '?', 0, 'h', MAX_PARAMS, MAX_VALUE, UNDO_NOTHING, MODES },
	{ '?', 0, 'l', MAX_PARAMS, MAX_VALUE, UNDO_NOTHING, MODES },
	/* clang-format on */
};

/*
 * Modes that may be set and reset. Those of mouse and focus make the terminal report what its user
 * does, which is what the program was started for. Left out, though harmless at a glance: 3
 * (resizes the window), 1001 (the terminal waits for an answer), 1034 (the keyboard sends bytes
 * that are not UTF-8), 2031 and 2048 (reports that nobody's hand causes). usual: 'h' or 'l', what a
 * terminal starts with; 0 where users choose it, or where there is nothing to take back.
 */
static const struct mode_row {
	unsigned short number;
	char marker;
	char usual;
} mode_rows[] = {
	/* clang-format off */
	{ 2026, '?', 'l' },	/* hold the picture */
	{ 1,    '?', 'l' },	/* application cursor keys */
	{ 5,    '?', 'l' },	/* reverse video: the visible bell */
	{ 6,    '?', 'l' },	/* origin at the scroll region */
	{ 7,    '?', 'h' },	/* wrap lines */
	{ 12,   '?', 0 },	/* blinking cursor */
	{ 25,   '?', 'h' },	/* cursor */
	{ 1000, '?', 'l' },	/* mouse: buttons, drag, motion */
	{ 1002, '?', 'l' },
	{ 1003, '?', 'l' },
	{ 1004, '?', 'l' },	/* focus */
	{ 1005, '?', 'l' },	/* mouse: encodings */
	{ 1006, '?', 'l' },
	{ 1015, '?', 'l' },
	{ 2004, '?', 'l' },	/* bracketed paste */
	{ 47,   '?', 'l' },	/* alternate screen */
	{ 1047, '?', 'l' },
	{ 1048, '?', 0 },	/* save, restore the cursor */
	{ 1049, '?', 'l' },
	{ 4,    0,   'l' },	/* insert */
	{ 20,   0,   'l' },	/* line feed returns */
	{ 34,   0,   0 },	/* screen's normal cursor */
	/* clang-format on */
};

_Static_assert(ARRAY_SIZE(mode_rows) <= 32, "a bit of inert.modes for each");

struct csi {
	char marker, inter, final;
	bool colons;
	unsigned int count;
	unsigned int values[MAX_PARAMS];
};

static void step_ground(struct inert *inert, unsigned char c, struct buf *out);

static void count_drop(struct inert *inert)
{
	if (inert->dropped < UINT_MAX)
		inert->dropped++;
}

static void enter(struct inert *inert, enum state state)
{
	inert->state = (int)state;
	inert->held = 0;
}

/* A full hold stands for a sequence that is too long: it is followed to its end and dropped. */
static void hold_add(struct inert *inert, unsigned char c)
{
	if (inert->held < INERT_HOLD)
		inert->hold[inert->held++] = c;
}

static void begin_sequence(struct inert *inert)
{
	enter(inert, ESCAPE);
	hold_add(inert, ESC);
}

static void replace(struct inert *inert, struct buf *out)
{
	count_drop(inert);
	buf_str(out, TEXT_REPLACEMENT);
}

static void note_undo(struct inert *inert, enum undo undo, bool changes)
{
	if (undo == UNDO_NOTHING)
		return;
	if (changes)
		inert->undo |= BIT(undo);
	else
		inert->undo &= ~BIT(undo);
}

/* What passes as it is and changes nothing but the picture. */
static bool is_plain(unsigned char c)
{
	return c < 0x20 ? C0_PLAIN & BIT(c) : c < DEL;
}

static void step_ground(struct inert *inert, unsigned char c, struct buf *out)
{
	static const unsigned char lead_first = 0xc2, lead_last = 0xf4;

	if (is_plain(c)) {
		buf_char(out, (char)c);
	} else if (c == ESC) {
		begin_sequence(inert);
	} else if (c == SO || c == SI) {
		note_undo(inert, UNDO_SHIFT, c == SO);
		buf_char(out, (char)c);
	} else if (c >= lead_first && c <= lead_last) {
		enter(inert, UTF8);
		hold_add(inert, c);
	} else if (c >= 0xa0) {
		replace(inert, out);
	} else {
		/* A C1 byte begins no sequence here: in text of an old code page 0x98 or 0x9d is a
		 * letter or a quotation mark, and would swallow the rest. */
		count_drop(inert);
	}
}

static bool is_bidi_control(const unsigned char *p, size_t len)
{
	if (len != 3 || p[0] != 0xe2)
		return false;
	return (p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) || /* U+202A to U+202E */
	       (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);   /* U+2066 to U+2069 */
}

static void emit_character(struct inert *inert, struct buf *out)
{
	const unsigned char *p = inert->hold;
	size_t len = inert->held;

	if (is_bidi_control(p, len))
		replace(inert, out);
	else if (len == 2 && p[0] == 0xc2 && p[1] < 0xa0)
		count_drop(inert);
	else
		buf_add(out, p, len);
}

static void step_utf8(struct inert *inert, unsigned char c, struct buf *out)
{
	hold_add(inert, c);
	if (utf8_sequence(inert->hold, inert->held) == inert->held) {
		emit_character(inert, out);
		enter(inert, GROUND);
	} else if (text_partial(inert->hold, inert->held) < inert->held) {
		replace(inert, out);
		enter(inert, GROUND);
		step_ground(inert, c, out);
	}
}

/*
 * Control bytes inside a sequence: a terminal obeys them at once and goes on with the sequence, and
 * so do we. ESC, CAN, SUB and bytes that are not ASCII end it.
 */
static bool step_control(struct inert *inert, unsigned char c, struct buf *out)
{
	if (c >= 0x20 && c < DEL)
		return false;
	if (c == ESC || c == CAN || c == SUB || c > DEL) {
		count_drop(inert);
		enter(inert, GROUND);
		if (c == CAN || c == SUB)
			return true;
	}
	step_ground(inert, c, out);
	return true;
}

static void end_escape(struct inert *inert, struct buf *out)
{
	const char *tail = (const char *)inert->hold + 1;
	size_t len = inert->held - 1;

	for (size_t i = 0; i < ARRAY_SIZE(esc_rows); i++) {
		const struct esc_row *row = &esc_rows[i];

		if (strlen(row->tail) != len || memcmp(row->tail, tail, len) != 0)
			continue;
		note_undo(inert, row->undo, row->changes);
		buf_add(out, inert->hold, inert->held);
		return;
	}
	/* ESC \ is the end of a string that was counted when it began. */
	if (len != 1 || *tail != '\\')
		count_drop(inert);
}

static bool begin_string(struct inert *inert, unsigned char c)
{
	/* DCS, SOS, PM, APC, and the title of screen and tmux; c is no control byte here. */
	if (strchr("PX^_k", c))
		enter(inert, STRING);
	else if (c == ']')
		enter(inert, OSC_NEW);
	else
		return false;
	count_drop(inert);
	return true;
}

static void step_escape(struct inert *inert, unsigned char c, struct buf *out)
{
	bool first = inert->held == 1;

	if (step_control(inert, c, out) || (first && begin_string(inert, c)))
		return;
	hold_add(inert, c);
	if (first && c == '[') {
		inert->state = CSI;
	} else if (c >= 0x30) {
		end_escape(inert, out);
		enter(inert, GROUND);
	}
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* One number of at most MAX_VALUE; none is 0. */
static bool parse_number(const unsigned char **p, unsigned int *ret_value)
{
	unsigned int value = 0;

	for (; is_digit(**p); (*p)++) {
		value = value * 10 + (unsigned int)(**p - '0');
		if (value > MAX_VALUE)
			return false;
	}
	*ret_value = value;
	return true;
}

/*
 * Takes apart what is held: ESC [ marker parameters intermediate final. The final byte stops every
 * loop, since it is neither a digit nor a separator.
 */
static bool parse_csi(const struct inert *inert, struct csi *ret_csi)
{
	const unsigned char *p = inert->hold + 2;
	struct csi csi = { .final = (char)inert->hold[inert->held - 1] };

	if (*p >= '<' && *p <= '?')
		csi.marker = (char)*p++;
	if (is_digit(*p) || *p == ';' || *p == ':') {
		for (;;) {
			if (csi.count == MAX_PARAMS || !parse_number(&p, &csi.values[csi.count++]))
				return false;
			if (*p != ';' && *p != ':')
				break;
			csi.colons |= *p++ == ':';
		}
	}
	if (*p >= 0x20 && *p <= 0x2f)
		csi.inter = (char)*p++;
	if (p != inert->hold + inert->held - 1)
		return false;
	*ret_csi = csi;
	return true;
}

static const struct csi_row *find_csi(const struct csi *csi)
{
	for (size_t i = 0; i < ARRAY_SIZE(csi_rows); i++) {
		const struct csi_row *row = &csi_rows[i];

		if (row->final == csi->final && row->marker == csi->marker &&
		    row->inter == csi->inter)
			return row;
	}
	return NULL;
}

static bool find_mode(char marker, unsigned int number, size_t *ret_index)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_rows); i++) {
		if (mode_rows[i].marker == marker && mode_rows[i].number == number) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

/* The modes as they are after csi; false when one of them may not be touched. */
static bool apply_modes(const struct csi *csi, uint32_t *modes)
{
	uint32_t after = *modes;

	for (unsigned int k = 0; k < csi->count; k++) {
		size_t i;

		if (!find_mode(csi->marker, csi->values[k], &i))
			return false;
		if (!mode_rows[i].usual || mode_rows[i].usual == csi->final)
			after &= ~BIT(i);
		else
			after |= BIT(i);
	}
	*modes = after;
	return csi->count > 0;
}

static bool csi_may_pass(const struct csi *csi, const struct csi_row *row, uint32_t *modes)
{
	if (csi->count > row->params || (csi->colons && csi->final != 'm'))
		return false;
	for (unsigned int k = 0; k < csi->count; k++)
		if (csi->values[k] > row->value)
			return false;
	return !row->modes || apply_modes(csi, modes);
}

/* For each setting that can be undone, 0 or no parameter is its usual state. */
static bool csi_changes(const struct csi *csi)
{
	for (unsigned int k = 0; k < csi->count; k++)
		if (csi->values[k] > 0)
			return true;
	return false;
}

static void end_csi(struct inert *inert, struct buf *out)
{
	const struct csi_row *row = NULL;
	struct csi csi;

	if (inert->held < INERT_HOLD && parse_csi(inert, &csi))
		row = find_csi(&csi);
	if (!row || !csi_may_pass(&csi, row, &inert->modes)) {
		count_drop(inert);
		return;
	}
	note_undo(inert, row->undo, csi_changes(&csi));
	buf_add(out, inert->hold, inert->held);
}

static void step_csi(struct inert *inert, unsigned char c, struct buf *out)
{
	if (step_control(inert, c, out))
		return;
	hold_add(inert, c);
	if (c >= 0x40) {
		end_csi(inert, out);
		enter(inert, GROUND);
	}
}

static void step_string(struct inert *inert, unsigned char c, struct buf *out)
{
	(void)out;
	if (c == ESC)
		begin_sequence(inert);
	else if (c == CAN || c == SUB)
		enter(inert, GROUND);
}

static void step_osc(struct inert *inert, unsigned char c, struct buf *out)
{
	if (c == BEL)
		enter(inert, GROUND);
	else
		step_string(inert, c, out);
}

/* The Linux console's palette commands are not ended: without this they would take the text that
 * follows with them. */
static void step_osc_new(struct inert *inert, unsigned char c, struct buf *out)
{
	enter(inert, c == 'R' ? GROUND : c == 'P' ? PALETTE : OSC);
	if (inert->state == OSC)
		step_osc(inert, c, out);
}

static void step_palette(struct inert *inert, unsigned char c, struct buf *out)
{
	if (!is_digit(c) && !((c | 0x20) >= 'a' && (c | 0x20) <= 'f')) {
		enter(inert, OSC);
		step_osc(inert, c, out);
	} else if (++inert->held == 7) {
		enter(inert, GROUND);
	}
}

static void (*const steps[])(struct inert *, unsigned char, struct buf *) = {
	[GROUND] = step_ground, [UTF8] = step_utf8,       [ESCAPE] = step_escape,
	[CSI] = step_csi,       [OSC_NEW] = step_osc_new, [PALETTE] = step_palette,
	[OSC] = step_osc,       [STRING] = step_string,
};

static size_t plain_run(const unsigned char *p, size_t len)
{
	size_t n = 0;

	while (n < len && is_plain(p[n]))
		n++;
	return n;
}

int inert_feed(struct inert *inert, const void *data, size_t len, struct buf *out)
{
	const unsigned char *p = data;
	size_t i = 0;

	while (i < len) {
		size_t run = inert->state == GROUND ? plain_run(p + i, len - i) : 0;

		if (run > 0)
			buf_add(out, p + i, run);
		else
			steps[inert->state](inert, p[i], out);
		i += MAX(run, (size_t)1);
	}
	return buf_failed(out);
}

int inert_finish(struct inert *inert, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_rows); i++)
		if (inert->modes & BIT(i))
			buf_printf(out, "\033[%s%u%c", mode_rows[i].marker ? "?" : "",
				   (unsigned int)mode_rows[i].number, mode_rows[i].usual);
	for (size_t i = 0; i < UNDO_COUNT; i++)
		if (inert->undo & BIT(i))
			buf_str(out, undo_text[i]);
	*inert = (struct inert){ .dropped = inert->dropped };
	return buf_failed(out);
}
