/*
 * base64.c - base64 as fast as the output of a sandbox comes
 *
 * What a program prints goes to clients as base64 in JSON, so this is on the way of every byte. On x86 with
 * AVX2, 24 bytes become 32 characters in a dozen instructions:
 *
 *	a shuffle puts the 3 bytes of each group into a lane of 4 bytes; two multiplications, each shifting
 *	two of the four numbers of 6 bits at once, put one number into each byte; another shuffle finds for
 *	each number how far it is from its character (five ranges of the alphabet), which is added.
 *
 * Everywhere else 12 bits at a time are looked up in a table.
 */
#include <errno.h>
#include <string.h>

#include "http/decode.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Two characters for each 12 bits; made at the first use, by the one thread there is. */
static char pairs[4096][2];

static void make_pairs(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		pairs[i][0] = alphabet[i >> 6];
		pairs[i][1] = alphabet[i & 63];
	}
}

/* Whole groups of three; returns how many bytes were used. */
static size_t write_by_table(const unsigned char *p, size_t len, char *out)
{
	size_t at = 0;

	if (pairs[0][0] == '\0')
		make_pairs();
	for (; len - at >= 3; at += 3, out += 4) {
		unsigned int bits =
			(unsigned int)p[at] << 16 | (unsigned int)p[at + 1] << 8 | p[at + 2];

		memcpy(out, pairs[bits >> 12], 2);
		memcpy(out + 2, pairs[bits & 4095], 2);
	}
	return at;
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))

/* 12 bytes in each half, as they are in memory, to 16 numbers of 6 bits in each. */
AVX2 static __m256i split_bits(__m256i bytes)
{
	const __m256i order = _mm256_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10, 1,
					       0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
	__m256i lanes = _mm256_shuffle_epi8(bytes, order);
	/* The first and third number are shifted down to their places, the second and fourth up. */
	__m256i down = _mm256_mulhi_epu16(_mm256_and_si256(lanes, _mm256_set1_epi32(0x0fc0fc00)),
					  _mm256_set1_epi32(0x04000040));
	__m256i up = _mm256_mullo_epi16(_mm256_and_si256(lanes, _mm256_set1_epi32(0x003f03f0)),
					_mm256_set1_epi32(0x01000010));

	return _mm256_or_si256(down, up);
}

/*
 * Numbers to characters. Which range of the alphabet: 0 for lower case, 1 to 10 for the digits, 11 and 12 for
 * '+' and '/', 13 for upper case; and then what has to be added there.
 */
AVX2 static __m256i to_characters(__m256i numbers)
{
	const __m256i offsets =
		_mm256_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
				 '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '+' - 62,
				 '/' - 63, 'A', 0, 0, 'a' - 26, '0' - 52, '0' - 52, '0' - 52,
				 '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
				 '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0);
	__m256i range = _mm256_subs_epu8(numbers, _mm256_set1_epi8(51));
	__m256i is_upper = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), numbers);

	range = _mm256_or_si256(range, _mm256_and_si256(is_upper, _mm256_set1_epi8(13)));
	return _mm256_add_epi8(numbers, _mm256_shuffle_epi8(offsets, range));
}

AVX2 static size_t write_by_avx2(const unsigned char *p, size_t len, char *out)
{
	size_t at = 0;

	/* Two loads of 16 bytes each, of which 12 are used: the last one reads 4 beyond. */
	for (; len - at >= 28; at += 24, out += 32) {
		__m128i low = _mm_loadu_si128((const __m128i *)(const void *)(p + at));
		__m128i high = _mm_loadu_si128((const __m128i *)(const void *)(p + at + 12));
		__m256i bytes = _mm256_set_m128i(high, low);

		_mm256_storeu_si256((__m256i *)(void *)out, to_characters(split_bits(bytes)));
	}
	return at;
}
#endif

/* One or two bytes that are left. */
static char *write_rest(const unsigned char *p, size_t len, char *out)
{
	unsigned int bits = (unsigned int)p[0] << 16 | (len > 1 ? (unsigned int)p[1] << 8 : 0);

	*out++ = alphabet[bits >> 18];
	*out++ = alphabet[bits >> 12 & 63];
	*out++ = len > 1 ? alphabet[bits >> 6 & 63] : '=';
	*out++ = '=';
	return out;
}

size_t base64_write(const void *data, size_t len, char *ret)
{
	const unsigned char *p = data;
	size_t at = 0;

#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		at = write_by_avx2(p, len, ret);
#endif
	at += write_by_table(p + at, len - at, ret + at / 3 * 4);
	if (at < len)
		write_rest(p + at, len - at, ret + at / 3 * 4);
	return BASE64_SIZE(len);
}

enum { NO_DIGIT = 0x40, WEB_DIGIT = 0x80 };

/* Its number, with a mark at those that the web's alphabet has in addition. */
static unsigned int number_of(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned int)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned int)(c - 'a' + 26);
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0' + 52);
	switch (c) {
	case '+':
		return 62;
	case '/':
		return 63;
	case '-':
		return WEB_DIGIT | 62;
	case '_':
		return WEB_DIGIT | 63;
	default:
		return NO_DIGIT;
	}
}

static unsigned char numbers[256]; /* of both alphabets, made like the pairs */

static void make_numbers(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(numbers); i++)
		numbers[i] = (unsigned char)number_of((unsigned char)i);
}

/* The last two or three characters of a text whose padding was taken off. */
static long read_rest(const unsigned char *p, size_t len, unsigned int bad, unsigned char *out)
{
	unsigned int a = numbers[p[0]], b = numbers[p[1]], c = len == 3 ? numbers[p[2]] : 0;
	unsigned int bits = (a & 63) << 18 | (b & 63) << 12 | (c & 63) << 6;

	if ((a | b | c) & bad || (len == 3 ? bits & 0xff : bits & 0xffff))
		return -EINVAL;
	out[0] = (unsigned char)(bits >> 16);
	if (len == 3)
		out[1] = (unsigned char)(bits >> 8);
	return (long)len - 1;
}

/* Without the padding; -EINVAL where it is not as it must be. */
static long cut_padding(const char *text, size_t len, bool web)
{
	size_t cut = 0;

	while (cut < 2 && cut < len && text[len - 1 - cut] == '=')
		cut++;
	if ((cut > 0 || !web) && len % 4 != 0)
		return -EINVAL;
	return (len - cut) % 4 == 1 ? -EINVAL : (long)(len - cut);
}

long base64_read(const char *text, size_t len, bool web, void *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char *out = ret;
	unsigned int bad = web ? NO_DIGIT : NO_DIGIT | WEB_DIGIT, seen = 0;
	long rest = 0, cut = cut_padding(text, len, web);

	if (cut < 0)
		return cut;
	if (numbers[0] == 0)
		make_numbers();
	for (len = (size_t)cut; len >= 4; len -= 4, p += 4, out += 3) {
		unsigned int a = numbers[p[0]], b = numbers[p[1]], c = numbers[p[2]],
			     d = numbers[p[3]];
		unsigned int bits = (a & 63) << 18 | (b & 63) << 12 | (c & 63) << 6 | (d & 63);

		seen |= a | b | c | d;
		out[0] = (unsigned char)(bits >> 16);
		out[1] = (unsigned char)(bits >> 8);
		out[2] = (unsigned char)bits;
	}
	if (seen & bad)
		return -EINVAL;
	if (len > 0)
		rest = read_rest(p, len, bad, out);
	return rest < 0 ? rest : out - (unsigned char *)ret + rest;
}
