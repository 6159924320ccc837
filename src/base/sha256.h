/*
 * sha256.h - SHA-256 (FIPS 180-4), for digests of manifests and files and for chains of
 * events
 *
 * Small and portable; the inputs here are a few kilobytes. What hashes streams links OpenSSL in a
 * program of its own.
 */
#ifndef BRIG_BASE_SHA256_H
#define BRIG_BASE_SHA256_H

#include "base/macro.h"

#define SHA256_HEX_SIZE 65

/* The digest of data in lower-case hexadecimal, with the NUL. */
void sha256_hex(const void *data, size_t len, char text[static SHA256_HEX_SIZE]);

#endif
