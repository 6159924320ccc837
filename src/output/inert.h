/*
 * inert.h - makes what a sandbox prints harmless to a terminal
 *
 * A terminal obeys its input. Output of untrusted code is passed through this filter when it goes
 * to a terminal: text, colours, cursor movement, erasing, scrolling, the alternate screen, cursor
 * visibility and the mouse and paste modes stay, so that editors, pagers and progress bars work.
 * Dropped are: sequences that make the terminal answer (device attributes and status, DECRQSS,
 * DECRQM, window reports, answerback, colour queries), set titles, write the clipboard (OSC 52),
 * start downloads or notifications, define keys, load fonts, print, change the character set of the
 * terminal as a whole, resize or move windows, erase the lines that scrolled away before the
 * sandbox began (CSI 3 J and the full reset, ESC c); all of OSC, DCS, APC, PM and SOS; C1 controls
 * as raw bytes and as UTF-8; bytes that are not UTF-8 (replaced by U+FFFD); bidirectional overrides
 * and isolates (replaced by U+FFFD). Hyperlinks (OSC 8) lose the link and keep their text. Unknown
 * sequences are dropped: the list is what may pass. Invisible characters that scripts and emoji
 * need (joiners, direction marks, variation selectors) stay: a terminal does nothing on them.
 *
 * The filter keeps its state between calls, because a sequence may be split at any byte, and holds
 * back less than INERT_HOLD bytes; a longer sequence is dropped. Nothing of a string (OSC, DCS,
 *...) is held. One that never ends swallows what follows it up to the next ESC, CAN or SUB (BEL for
 * OSC), as it would in a terminal.
 *
 * What passes can leave a terminal in a state that its owner did not choose: mouse reports typed
 * into his shell, text in the colour of the background, no cursor. inert_finish() takes that back.
 *
 *	struct inert inert = INERT_START;
 *	while ((n = read(...)) > 0)
 *		r = inert_feed(&inert, data, n, &out);
 *	r = inert_finish(&inert, &out);
 */
#ifndef BRIG_OUTPUT_INERT_H
#define BRIG_OUTPUT_INERT_H

#include "base/buf.h"

#define INERT_HOLD       64
#define INERT_FINISH_MAX 256 /* inert_finish() appends no more */

struct inert {
	unsigned char hold[INERT_HOLD];
	unsigned int held;
	int state;
	unsigned int dropped; /* sequences and characters that did not pass, saturating */
	uint32_t modes;       /* those that are not as a terminal has them at first */
	uint32_t undo;        /* other settings that inert_finish() has to take back */
};

#define INERT_START ((struct inert){ 0 })

/* Appends the harmless form of data to out: at most 3 * len + INERT_HOLD bytes. When out is too
 * small, an error; what did not fit is lost. */
[[nodiscard]] int inert_feed(struct inert *inert, const void *data, size_t len, struct buf *out);

/* Drops what an unfinished sequence held, and appends what puts the terminal back as it was:
 * nothing, where nothing was changed. The filter is as new afterwards, but for the count. */
[[nodiscard]] int inert_finish(struct inert *inert, struct buf *out);

#endif
