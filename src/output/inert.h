/*
 * inert.h - makes what a sandbox prints harmless to a terminal
 *
 * A terminal obeys its input. Output of untrusted code is passed through this filter when it goes
 * to a terminal: text, colours, cursor movement, erasing, scrolling, the alternate screen, cursor
 * visibility and the mouse and paste modes stay, so that editors, pagers and progress bars work.
 * Dropped are: sequences that make the terminal answer (device attributes and status, DECRQSS,
 * DECRQM, window reports, answerback, colour queries), set titles, write the clipboard (OSC 52),
 * start downloads or notifications, define keys, load fonts, print, change the character set of the
 * terminal as a whole, resize or move windows; all of OSC, DCS, APC, PM and SOS; C1 controls as raw
 * bytes and as UTF-8; bytes that are not UTF-8 (replaced by U+FFFD); bidirectional overrides and
 * isolates (replaced by U+FFFD). Hyperlinks (OSC 8) lose the link and keep their text. Unknown
 * sequences are dropped: the list is what may pass.
 *
 * The filter keeps its state between calls, because a sequence may be split at any byte, and holds
 * back at most INERT_HOLD bytes. What an unfinished sequence held is dropped at the end.
 */
#ifndef BRIG_OUTPUT_INERT_H
#define BRIG_OUTPUT_INERT_H

#include "base/buf.h"

#define INERT_HOLD 64

struct inert {
	unsigned char hold[INERT_HOLD];
	unsigned int held;
	int state;
	unsigned int dropped; /* sequences that were dropped so far, saturating */
};

#define INERT_START ((struct inert){ 0 })

/* Appends the harmless form of data to out. */
[[nodiscard]] int inert_feed(struct inert *inert, const void *data, size_t len, struct buf *out);

#endif
