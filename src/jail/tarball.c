#include "jail/tarball.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#define BLOCK     512
#define OCTAL_MAX 077777777777ULL /* eleven digits */

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

struct member {
	const char *path, *target; /* target: NULL unless a link */
	char type;
	mode_t mode;
	uint64_t size;
	struct timespec mtime;
};

static int put(struct tarball *tar, const void *data, size_t len)
{
	if (!tar->failure) {
		tar->failure = fd_write_all(tar->fd, data, len);
		tar->written += len;
	}
	return tar->failure;
}

static int put_padding(struct tarball *tar, uint64_t size)
{
	static const char zeros[BLOCK];

	return size % BLOCK ? put(tar, zeros, BLOCK - size % BLOCK) : tar->failure;
}

/* Digits that fill the field up to a NUL. */
static void octal(char *field, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

/* Puts the path into name, or into prefix and name at a slash; false when it does not fit. */
static bool split(struct header *header, const char *path)
{
	size_t len = strlen(path);

	if (len <= sizeof(header->name)) {
		memcpy(header->name, path, len);
		return true;
	}
	/* From the right, but not at the slash behind a directory's name. */
	for (size_t at = MIN(len - 2, sizeof(header->prefix)); at > 0; at--) {
		if (len - at - 1 > sizeof(header->name))
			return false;
		if (path[at] != '/')
			continue;
		memcpy(header->prefix, path, at);
		memcpy(header->name, path + at + 1, len - at - 1);
		return true;
	}
	return false;
}

static int put_header(struct tarball *tar, struct header *header)
{
	const unsigned char *bytes = (const unsigned char *)header;
	unsigned int sum = 0;

	memcpy(header->magic, "ustar", 6);
	memcpy(header->version, "00", 2);
	octal(header->uid, sizeof(header->uid), 0);
	octal(header->gid, sizeof(header->gid), 0);
	memset(header->sum, ' ', sizeof(header->sum));
	for (size_t i = 0; i < sizeof(*header); i++)
		sum += bytes[i];
	octal(header->sum, 7, sum);
	return put(tar, header, sizeof(*header));
}

/* "30 mtime=1350244992.023960108\n": the number counts itself. */
static void add_record(struct buf *records, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
	char number[24];

	while (rest + (size_t)snprintf(number, sizeof(number), "%zu", len) > len)
		len++;
	buf_printf(records, "%zu %s=%s\n", len, key, value);
}

static bool time_fits(const struct timespec *mtime)
{
	return mtime->tv_sec >= 0 && (uint64_t)mtime->tv_sec <= OCTAL_MAX;
}

static int put_records(struct tarball *tar, const struct buf *records)
{
	struct header header = { .name = "PaxHeader", .type = 'x' };
	int r;

	octal(header.mode, sizeof(header.mode), 0644);
	octal(header.size, sizeof(header.size), records->len);
	octal(header.mtime, sizeof(header.mtime), 0);
	r = put_header(tar, &header);
	r = r < 0 ? r : put(tar, records->data, records->len);
	return r < 0 ? r : put_padding(tar, records->len);
}

static int put_member(struct tarball *tar, const struct member *member)
{
	_cleanup_(buf_done) struct buf records = BUF(64 * KIB);
	struct header header = { .type = member->type };
	size_t target_len = member->target ? strlen(member->target) : 0;
	bool long_path = !split(&header, member->path);
	bool long_target = target_len > sizeof(header.link);
	char number[32];
	int r;

	/* Records are UTF-8 unless they say otherwise. */
	if ((long_path && !is_utf8(member->path, strlen(member->path))) ||
	    (long_target && !is_utf8(member->target, target_len)))
		add_record(&records, "hdrcharset", "BINARY");
	if (long_path) {
		add_record(&records, "path", member->path);
		memcpy(header.name, member->path, sizeof(header.name));
	}
	if (long_target)
		add_record(&records, "linkpath", member->target);
	if (member->target)
		memcpy(header.link, member->target, MIN(target_len, sizeof(header.link)));
	if (member->size > OCTAL_MAX) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)member->size);
		add_record(&records, "size", number);
	}
	if (!time_fits(&member->mtime)) {
		snprintf(number, sizeof(number), "%lld", (long long)member->mtime.tv_sec);
		add_record(&records, "mtime", number);
	}
	octal(header.mode, sizeof(header.mode), member->mode & 07777);
	octal(header.size, sizeof(header.size), member->size > OCTAL_MAX ? 0 : member->size);
	octal(header.mtime, sizeof(header.mtime),
	      time_fits(&member->mtime) ? (uint64_t)member->mtime.tv_sec : 0);
	r = buf_failed(&records);
	if (r == 0 && records.len > 0)
		r = put_records(tar, &records);
	return r < 0 ? r : put_header(tar, &header);
}

int tarball_dir(struct tarball *tar, const char *path, mode_t mode, const struct timespec *mtime)
{
	_cleanup_(buf_done) struct buf name = BUF(8 * KIB);
	int r = buf_printf(&name, "%s/", path);

	return r < 0 ? r
		     : put_member(tar, &(struct member){ .path = buf_text(&name),
							 .type = '5',
							 .mode = mode,
							 .mtime = *mtime });
}

int tarball_symlink(struct tarball *tar, const char *path, const char *target,
		    const struct timespec *mtime)
{
	return put_member(tar, &(struct member){ .path = path,
						 .target = target,
						 .type = '2',
						 .mode = 0777,
						 .mtime = *mtime });
}

int tarball_file(struct tarball *tar, const char *path, mode_t mode, const struct timespec *mtime,
		 uint64_t size, int from)
{
	char block[64 * KIB];
	int failure = 0;
	int r = put_member(
		tar,
		&(struct member){
			.path = path, .type = '0', .mode = mode, .size = size, .mtime = *mtime });

	for (uint64_t at = 0; at < size && r == 0;) {
		size_t len = (size_t)MIN(size - at, (uint64_t)sizeof(block));
		ssize_t n = failure ? 0 : pread(from, block, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			failure = -EIO;
			memset(block, 0, sizeof(block));
			n = (ssize_t)len;
		}
		r = put(tar, block, (size_t)n);
		at += (uint64_t)n;
	}
	r = r < 0 ? r : put_padding(tar, size);
	return r < 0 ? r : failure;
}

int tarball_finish(struct tarball *tar)
{
	static const char zeros[2 * BLOCK];

	return put(tar, zeros, sizeof(zeros));
}
