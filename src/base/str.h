/*
 * str.h - strings: questions, lists, units, suggestions
 */
#ifndef BRIG_BASE_STR_H
#define BRIG_BASE_STR_H

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/macro.h"

static inline bool str_equal(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);

/* Whether an absolute path is tree itself or lies in it; tree has no slash behind, but "/". */
bool path_is_below(const char *path, const char *tree);

/*
 * Puts a path behind a base, both without a look at any file: "." and empty components go, ".." takes
 * the one before it along. False when it does not fit, or is not absolute then.
 */
bool path_resolve(const char *base, const char *path, char *text, size_t size);

/* Replaces every control byte and every byte that is not part of valid UTF-8 by '?', in place. */
void str_make_printable(char *text);

/* The length of the valid UTF-8 sequence at p (1 to 4), or 0. Overlong forms and surrogates are not
 * valid. */
size_t utf8_sequence(const unsigned char *p, size_t len);

bool is_utf8(const char *text, size_t len);

/* The nearest of count names to text, or NULL when none is near enough to suggest. */
const char *str_nearest(const char *text, const char *const *names, size_t count);

/*
 * Units. Each takes the whole string, refuses signs, overflow, trailing bytes and nonsense, and
 * says what would be right. A size is bytes with K, M, G or T (powers of 1024, "KiB" and "KB" mean
 * the same), a duration is milliseconds out of ms, s, m, h, d; both take one fraction ("1.5G"). The
 * number of CPUs is in thousandths.
 */
[[nodiscard]] int parse_size(const char *text, uint64_t *ret_bytes, struct err *err);
[[nodiscard]] int parse_duration(const char *text, uint64_t *ret_ms, struct err *err);
[[nodiscard]] int parse_cpus(const char *text, uint64_t *ret_milli, struct err *err);
[[nodiscard]] int parse_count(const char *text, uint64_t *ret_count, struct err *err);

/* The shortest exact way to write a value so that the parser above reads it back. size >= 24. */
void format_size(uint64_t bytes, char *text, size_t size);
void format_duration(uint64_t ms, char *text, size_t size);
void format_cpus(uint64_t milli, char *text, size_t size);

/* A growing list of owned strings, NULL behind the last. */
struct strv {
	char **items;
	size_t count;
};

[[nodiscard]] int strv_add(struct strv *list, const char *text);
bool strv_has(const struct strv *list, const char *text);
void strv_done(struct strv *list);

#endif
