#include "http/range.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define FRESH_NS  (2 * NS_PER_S) /* no clock of a file system is coarser */
#define YEAR_9999 253402300799ull

static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
				      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

void http_date(uint64_t seconds, char ret[static HTTP_DATE_SIZE])
{
	time_t t = (time_t)MIN(seconds, YEAR_9999);
	struct tm tm;

	gmtime_r(&t, &tm);
	snprintf(ret, HTTP_DATE_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday],
		 (unsigned int)tm.tm_mday % 100, months[tm.tm_mon],
		 ((unsigned int)tm.tm_year + 1900) % 10000, (unsigned int)tm.tm_hour % 100,
		 (unsigned int)tm.tm_min % 100, (unsigned int)tm.tm_sec % 100);
}

/* Digits, all of them, of a number. */
static bool take_number(const char **p, int digits, int *ret_value)
{
	*ret_value = 0;
	for (int i = 0; i < digits; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		*ret_value = *ret_value * 10 + (**p - '0');
	}
	return true;
}

static bool take_month(const char **p, int *ret_month)
{
	for (int i = 0; i < (int)ARRAY_SIZE(months); i++)
		if (strncmp(*p, months[i], 3) == 0) {
			*p += 3;
			*ret_month = i;
			return true;
		}
	return false;
}

static bool take_time(const char **p, struct tm *tm)
{
	return take_number(p, 2, &tm->tm_hour) && *(*p)++ == ':' &&
	       take_number(p, 2, &tm->tm_min) && *(*p)++ == ':' && take_number(p, 2, &tm->tm_sec);
}

static bool take_word(const char **p, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*p, word, len) != 0)
		return false;
	*p += len;
	return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" and "Sunday, 06-Nov-94 08:49:37 GMT", behind the comma. */
static bool read_new(const char *p, const char *dash, int year_digits, struct tm *tm)
{
	if (!take_word(&p, " ") || !take_number(&p, 2, &tm->tm_mday) || !take_word(&p, dash) ||
	    !take_month(&p, &tm->tm_mon) || !take_word(&p, dash) ||
	    !take_number(&p, year_digits, &tm->tm_year) || !take_word(&p, " ") ||
	    !take_time(&p, tm) || !take_word(&p, " GMT") || *p)
		return false;
	/* Two digits mean what is not more than 50 years ahead. */
	tm->tm_year += year_digits == 4 ? -1900 : tm->tm_year < 76 ? 100 : 0;
	return true;
}

/* "Sun Nov  6 08:49:37 1994", behind the first space. */
static bool read_asctime(const char *p, struct tm *tm)
{
	if (!take_month(&p, &tm->tm_mon) || !take_word(&p, " ") ||
	    !take_number(&p, take_word(&p, " ") ? 1 : 2, &tm->tm_mday) || !take_word(&p, " ") ||
	    !take_time(&p, tm) || !take_word(&p, " ") || !take_number(&p, 4, &tm->tm_year) || *p)
		return false;
	tm->tm_year -= 1900;
	return true;
}

int http_date_read(const struct text *text, uint64_t *ret_seconds)
{
	struct tm tm = { 0 };
	char copy[40];
	const char *comma, *space;
	time_t t;

	if (text->len >= sizeof(copy) || text->len < 10)
		return -EINVAL;
	memcpy(copy, text->data, text->len);
	copy[text->len] = '\0';
	comma = strchr(copy, ',');
	space = strchr(copy, ' ');
	if (!(comma && (read_new(comma + 1, " ", 4, &tm) || read_new(comma + 1, "-", 2, &tm))) &&
	    !(space && read_asctime(space + 1, &tm)))
		return -EINVAL;
	if (tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60 || tm.tm_mday < 1 ||
	    tm.tm_mday > 31)
		return -EINVAL;
	t = timegm(&tm);
	if (t < 0)
		return -EINVAL;
	*ret_seconds = (uint64_t)t;
	return 0;
}

void range_init(struct range *r, uint64_t size, uint64_t modified_ns, uint64_t now_ns)
{
	bool is_fresh = modified_ns + FRESH_NS > now_ns;

	*r = (struct range){ .size = size, .modified_s = modified_ns / NS_PER_S, .len = size };
	snprintf(r->etag, sizeof(r->etag), "%s\"%llx-%llx\"", is_fresh ? "W/" : "",
		 (unsigned long long)modified_ns, (unsigned long long)size);
	http_date(r->modified_s, r->last_modified);
}

static bool is_weak(const char *tag)
{
	return strncmp(tag, "W/", 2) == 0;
}

/* The next tag of a list, with its quotes and mark. */
static bool next_tag(struct text *rest, struct text *ret_tag)
{
	const char *end;
	size_t mark;

	while (rest->len > 0 && strchr(" \t,", *rest->data)) {
		rest->data++;
		rest->len--;
	}
	mark = rest->len > 2 && memcmp(rest->data, "W/", 2) == 0 ? 2 : 0;
	if (rest->len < mark + 2 || rest->data[mark] != '"')
		return false;
	end = memchr(rest->data + mark + 1, '"', rest->len - mark - 1);
	if (!end)
		return false;
	*ret_tag = (struct text){ rest->data, (size_t)(end - rest->data) + 1 };
	rest->data += ret_tag->len;
	rest->len -= ret_tag->len;
	return true;
}

/* strong: weak tags are equal to nothing. */
static bool tag_is(const struct text *tag, const char *own, bool strong)
{
	struct text other = *tag;
	bool other_is_weak = other.len > 2 && memcmp(other.data, "W/", 2) == 0;

	if (strong && (other_is_weak || is_weak(own)))
		return false;
	if (other_is_weak)
		other = (struct text){ other.data + 2, other.len - 2 };
	return text_is(&other, is_weak(own) ? own + 2 : own);
}

static bool has_tag(const struct text *list, const char *own, bool strong)
{
	struct text rest = *list, tag;

	if (text_is(list, "*"))
		return true;
	while (next_tag(&rest, &tag))
		if (tag_is(&tag, own, strong))
			return true;
	return false;
}

static bool is_since(const struct text *date, uint64_t modified, bool *ret_is_since)
{
	uint64_t seconds;

	if (http_date_read(date, &seconds) < 0)
		return false;
	*ret_is_since = modified > seconds;
	return true;
}

/* If-Range: the part is wanted only of what the client has the rest of. */
static bool is_same(const struct range *r, const struct text *condition)
{
	uint64_t seconds;
	struct text rest = *condition, tag;

	if (next_tag(&rest, &tag))
		return tag_is(&tag, r->etag, true);
	/* A date is exact only where nothing could have changed within its second. */
	return http_date_read(condition, &seconds) == 0 && seconds == r->modified_s &&
	       !is_weak(r->etag);
}

static bool take_decimal(const char **p, const char *end, uint64_t *ret_value)
{
	const char *begin = *p;
	uint64_t value = 0;

	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value))
			value = UINT64_MAX;
	*ret_value = value;
	return *p > begin;
}

/* "bytes=1-2", "bytes=1-", "bytes=-2". Of anything else, and of several, the whole is sent. */
static enum range_verdict read_range(struct range *r, const struct text *text)
{
	const char *p = text->data, *end = p + text->len;
	uint64_t first = 0, last = UINT64_MAX;
	bool has_first, has_last;

	if (text->len < 6 || memcmp(p, "bytes=", 6) != 0 || r->size == 0)
		return RANGE_WHOLE;
	p += 6;
	has_first = take_decimal(&p, end, &first);
	if (p == end || *p++ != '-')
		return RANGE_WHOLE;
	has_last = take_decimal(&p, end, &last);
	if (p != end || (!has_first && !has_last) || (has_first && has_last && last < first))
		return RANGE_WHOLE;
	if (!has_first) {
		first = r->size - MIN(last, r->size);
		last = UINT64_MAX;
	}
	if (first >= r->size) {
		snprintf(r->content_range, sizeof(r->content_range), "bytes */%llu",
			 (unsigned long long)r->size);
		return RANGE_NONE;
	}
	last = has_last || !has_first ? MIN(last, r->size - 1) : r->size - 1;
	r->first = first;
	r->len = last - first + 1;
	snprintf(r->content_range, sizeof(r->content_range), "bytes %llu-%llu/%llu",
		 (unsigned long long)first, (unsigned long long)last, (unsigned long long)r->size);
	return RANGE_PART;
}

/* In the order of RFC 9110, 13.2.2. */
static enum range_verdict judge_conditions(const struct range *r, const struct head *head)
{
	const struct text *match = head_find(head, "If-Match");
	const struct text *unmodified = head_find(head, "If-Unmodified-Since");
	const struct text *none_match = head_find(head, "If-None-Match");
	const struct text *modified = head_find(head, "If-Modified-Since");
	bool since;

	if (match && !has_tag(match, r->etag, true))
		return RANGE_CHANGED;
	if (!match && unmodified && is_since(unmodified, r->modified_s, &since) && since)
		return RANGE_CHANGED;
	if (none_match)
		return has_tag(none_match, r->etag, false) ? RANGE_UNCHANGED : RANGE_WHOLE;
	if (modified && is_since(modified, r->modified_s, &since) && !since)
		return RANGE_UNCHANGED;
	return RANGE_WHOLE;
}

enum range_verdict range_judge(struct range *r, const struct head *head)
{
	enum range_verdict verdict = judge_conditions(r, head);
	const struct text *range = head_find(head, "Range");
	const struct text *condition = head_find(head, "If-Range");

	if (verdict != RANGE_WHOLE || head->method != METHOD_GET || !range ||
	    (condition && !is_same(r, condition)))
		return verdict;
	return read_range(r, range);
}
