#include "serve/signature.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/buf.h"
#include "http/decode.h"

#define PREFIX          "v1_"
#define DIGITS          43 /* of 32 bytes */
#define MESSAGE_MAX_LEN (16 * KIB)

/* What is signed, but for the token and what is behind it. */
static int compose(const struct signature *s, struct buf *buf)
{
	return buf_printf(buf, "%s:%s:%s:", s->path, s->operation, s->user);
}

static bool decode(const char *given, unsigned char digest[static SHA256_DIGEST_LENGTH + 3])
{
	return strlen(given) == strlen(PREFIX) + DIGITS &&
	       memcmp(given, PREFIX, strlen(PREFIX)) == 0 &&
	       base64_read(given + strlen(PREFIX), DIGITS, true, digest) == SHA256_DIGEST_LENGTH;
}

/* buf holds what is before the token, and does so again afterwards. */
static bool fits(const struct signature *s, struct buf *buf, const char *token,
		 const unsigned char *wanted)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	size_t before = buf->len;

	buf_str(buf, token);
	if (s->expiration)
		buf_printf(buf, ":%s", s->expiration);
	if (buf_failed(buf) < 0)
		return false;
	SHA256((const unsigned char *)buf->data, buf->len, digest);
	buf->len = before;
	return CRYPTO_memcmp(digest, wanted, sizeof(digest)) == 0;
}

/* Digits alone: what follows them would be signed, and not looked at. */
static bool is_late(const char *expiration, uint64_t now)
{
	uint64_t value = 0;

	if (!*expiration)
		return true;
	for (; *expiration; expiration++) {
		if (*expiration < '0' || *expiration > '9' || value > UINT64_MAX / 10 - 10)
			return true;
		value = value * 10 + (uint64_t)(*expiration - '0');
	}
	return value < now;
}

int signature_check(const struct signature *s, const char *token, uint64_t now)
{
	_cleanup_(buf_done) struct buf buf = BUF(MESSAGE_MAX_LEN);
	unsigned char wanted[SHA256_DIGEST_LENGTH + 3];

	if (!token[0] || !decode(s->given, wanted) || compose(s, &buf) < 0 ||
	    !fits(s, &buf, token, wanted))
		return -EACCES;
	return s->expiration && is_late(s->expiration, now) ? -ETIME : 0;
}

struct held *signature_find(struct registry *registry, const struct signature *s)
{
	_cleanup_(buf_done) struct buf buf = BUF(MESSAGE_MAX_LEN);
	unsigned char wanted[SHA256_DIGEST_LENGTH + 3];
	struct held *found = NULL, *held;

	if (!decode(s->given, wanted) || compose(s, &buf) < 0)
		return NULL;
	for (size_t i = 0; (held = registry_at(registry, i)); i++)
		if (held->token[0] && fits(s, &buf, held->token, wanted))
			found = held;
	return found;
}
