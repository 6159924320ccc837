#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

bool str_starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix)
{
	size_t a = strlen(text), b = strlen(suffix);

	return a >= b && memcmp(text + a - b, suffix, b) == 0;
}

bool path_is_below(const char *path, const char *tree)
{
	size_t len = strlen(tree);

	if (len == 1)
		return path[0] == '/';
	return strncmp(path, tree, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Adds the components of a path to what is there; the length, or size when it does not fit. */
static size_t add_components(const char *path, char *text, size_t len, size_t size)
{
	while (*path) {
		size_t part = strcspn(path, "/");

		if (part == 2 && path[0] == '.' && path[1] == '.') {
			while (len > 0 && text[--len] != '/')
				;
		} else if (part > 0 && !(part == 1 && path[0] == '.')) {
			if (len + 1 + part >= size)
				return size;
			text[len] = '/';
			memcpy(text + len + 1, path, part);
			len += 1 + part;
		}
		path += part;
		path += strspn(path, "/");
	}
	return len;
}

bool path_resolve(const char *base, const char *path, char *text, size_t size)
{
	size_t len = 0;

	if (path[0] != '/' && base[0] != '/')
		return false;
	if (path[0] != '/')
		len = add_components(base, text, 0, size);
	if (len < size)
		len = add_components(path, text, len, size);
	if (len + 1 > size || size < 2)
		return false;
	if (len == 0)
		text[len++] = '/';
	text[len] = '\0';
	return true;
}

size_t utf8_sequence(const unsigned char *p, size_t len)
{
	static const struct {
		unsigned char first, last, low, high;
		size_t len;
	} forms[] = {
		/* clang-format off */
		{ 0x00, 0x7f, 0x00, 0x00, 1 },
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
		/* clang-format on */
	};

	if (len == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (p[0] < forms[i].first || p[0] > forms[i].last)
			continue;
		if (forms[i].len > len)
			return 0;
		if (forms[i].len > 1 && (p[1] < forms[i].low || p[1] > forms[i].high))
			return 0;
		for (size_t k = 2; k < forms[i].len; k++)
			if (p[k] < 0x80 || p[k] > 0xbf)
				return 0;
		return forms[i].len;
	}
	return 0;
}

bool is_utf8(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;

	while (len > 0) {
		size_t n = utf8_sequence(p, len);

		if (n == 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

void str_make_printable(char *text)
{
	unsigned char *p = (unsigned char *)text;
	size_t left = strlen(text);

	while (left > 0) {
		size_t n = utf8_sequence(p, left);
		/* U+0080 to U+009F are control characters too, and some terminals obey them. */
		bool c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;

		if (n == 0 || c1 || (n == 1 && (*p < 0x20 || *p == 0x7f))) {
			n = n ? n : 1;
			memset(p, '?', n);
		}
		p += n;
		left -= n;
	}
}

/* Edit distance with transpositions, on names of at most 63 bytes. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	size_t rows[3][64];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	if (la > 63 || lb > 63)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		last[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			best = MIN(best, last[j] + 1);
			best = MIN(best, now[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN(best, before[j - 2] + 1);
			now[j] = best;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[lb];
}

const char *str_nearest(const char *text, const char *const *names, size_t count)
{
	size_t best = SIZE_MAX;
	const char *name = NULL;

	for (size_t i = 0; i < count; i++) {
		size_t d = edit_distance(text, names[i]);

		if (d < best) {
			best = d;
			name = names[i];
		}
	}
	/* A suggestion must share most of the word. */
	return name && best <= 1 + strlen(name) / 4 ? name : NULL;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 },      { "B", 1 },    { "K", KIB },   { "KB", KIB },  { "KiB", KIB },
	{ "M", MIB },   { "MB", MIB }, { "MiB", MIB }, { "G", GIB },   { "GB", GIB },
	{ "GiB", GIB }, { "T", TIB },  { "TB", TIB },  { "TiB", TIB },
};

static const struct unit duration_units[] = {
	{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

static const struct unit cpu_units[] = { { "", 1000 } };
static const struct unit count_units[] = { { "", 1 } };

/* value + fraction / scale */
struct decimal {
	uint64_t value, fraction, scale;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* number[.fraction] at the start of a text; *text is left behind it. */
static int read_decimal(const char **text, struct decimal *ret_decimal)
{
	struct decimal d = { .scale = 1 };
	const char *p = *text;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(d.value, 10u, &d.value) ||
		    __builtin_add_overflow(d.value, (uint64_t)(*p - '0'), &d.value))
			return -ERANGE;
	if (*p == '.' && !is_digit(*++p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		if (d.scale >= 1000000000u)
			return -EINVAL;
		d.fraction = d.fraction * 10 + (uint64_t)(*p - '0');
		d.scale *= 10;
	}
	*text = p;
	*ret_decimal = d;
	return 0;
}

/* Exact: a fraction that does not come out even, or a product that does not fit, is refused. */
static int multiply(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
	uint64_t product, rest;

	if (__builtin_mul_overflow(d->value, factor, &product) ||
	    __builtin_mul_overflow(d->fraction, factor, &rest))
		return -ERANGE;
	if (rest % d->scale)
		return -EINVAL;
	/* The largest value is kept free: it stands for "no limit" elsewhere. */
	if (__builtin_add_overflow(product, rest / d->scale, &product) || product > INT64_MAX)
		return -ERANGE;
	*ret = product;
	return 0;
}

static int parse_with_units(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
	struct decimal decimal;
	int r = read_decimal(&text, &decimal);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (str_equal(text, units[i].name))
			return multiply(&decimal, units[i].factor, ret);
	return -EINVAL;
}

static int parse_unit_error(int code, const char *text, const char *what, const char *example,
			    struct err *err)
{
	if (code == -ERANGE)
		return err_set(err, code, "\"%s\" is too large", text);
	return err_set(err, code, "\"%s\" is not %s (write it like %s)", text, what, example);
}

int parse_size(const char *text, uint64_t *ret_bytes, struct err *err)
{
	int r = parse_with_units(text, size_units, ARRAY_SIZE(size_units), ret_bytes);

	return r < 0 ? parse_unit_error(r, text, "a size", "512M or 1.5G", err) : 0;
}

int parse_duration(const char *text, uint64_t *ret_ms, struct err *err)
{
	int r = parse_with_units(text, duration_units, ARRAY_SIZE(duration_units), ret_ms);

	return r < 0 ? parse_unit_error(r, text, "a time with a unit", "500ms, 30s, 5m or 2h", err)
		     : 0;
}

int parse_cpus(const char *text, uint64_t *ret_milli, struct err *err)
{
	int r = parse_with_units(text, cpu_units, ARRAY_SIZE(cpu_units), ret_milli);

	return r < 0 ? parse_unit_error(r, text, "a number of CPUs", "2 or 0.5", err) : 0;
}

int parse_count(const char *text, uint64_t *ret_count, struct err *err)
{
	int r = strchr(text, '.')
			? -EINVAL
			: parse_with_units(text, count_units, ARRAY_SIZE(count_units), ret_count);

	return r < 0 ? parse_unit_error(r, text, "a whole number", "128", err) : 0;
}

static void format_with_units(uint64_t value, const struct unit *units, size_t count, char *text,
			      size_t size)
{
	const struct unit *best = &units[0];

	for (size_t i = 0; i < count; i++)
		if (value && value % units[i].factor == 0 && units[i].factor > best->factor)
			best = &units[i];
	snprintf(text, size, "%" PRIu64 "%s", value / best->factor, best->name);
}

void format_size(uint64_t bytes, char *text, size_t size)
{
	format_with_units(bytes, size_units, ARRAY_SIZE(size_units), text, size);
}

void format_duration(uint64_t ms, char *text, size_t size)
{
	format_with_units(ms, duration_units, ARRAY_SIZE(duration_units), text, size);
}

void format_cpus(uint64_t milli, char *text, size_t size)
{
	int digits = 3;
	uint64_t fraction = milli % 1000;

	if (fraction == 0) {
		snprintf(text, size, "%" PRIu64, milli / 1000);
		return;
	}
	while (fraction % 10 == 0) {
		fraction /= 10;
		digits--;
	}
	snprintf(text, size, "%" PRIu64 ".%0*" PRIu64, milli / 1000, digits, fraction);
}

int strv_add(struct strv *list, const char *text)
{
	char **items = realloc(list->items, (list->count + 2) * sizeof(*items));

	if (!items)
		return -ENOMEM;
	list->items = items;
	items[list->count] = strdup(text);
	if (!items[list->count])
		return -ENOMEM;
	items[++list->count] = NULL;
	return 0;
}

bool strv_has(const struct strv *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (str_equal(list->items[i], text))
			return true;
	return false;
}

void strv_done(struct strv *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct strv){ 0 };
}
