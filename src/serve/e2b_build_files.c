/*
 * e2b_build_files.c - files for a build: tars, as clients pack them
 *
 * They are never unpacked here, but in the sandbox of the build. The address for an upload is signed, since clients
 * send no key to it; it is good for an hour, and for one file of one tenant.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/decode.h"
#include "serve/e2b_build.h"
#include "serve/e2b_control.h"

#define GOOD_FOR_S 3600
#define UPLOAD_MAX (1 * GIB)
#define TENANT_MAX (4 * GIB) /* of all that it has uploaded */

static int sign(struct serve *serve, const char *tenant, const char *hash, const char *expires,
		char ret_token[static 65])
{
	const struct builds *builds = builds_of(serve);
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	char text[512];

	if (!builds)
		return -ENOMEM;
	snprintf(text, sizeof(text), "%s\n%s\n%s", hash, expires, tenant);
	if (!HMAC(EVP_sha256(), builds->secret, (int)strlen(builds->secret),
		  (const unsigned char *)text, strlen(text), digest, &len) ||
	    len != 32)
		return -EIO;
	hex_write(digest, 32, ret_token);
	return 0;
}

static int add_url(struct request *q, const char *hash, struct node *map)
{
	const struct text *host = head_find(&q->x->head, "host");
	char expires[24], token[65], url[1024];
	int r;

	snprintf(expires, sizeof(expires), "%" PRIu64, time_now() / 1000 + GOOD_FOR_S);
	r = sign(q->serve, q->tenant_name, hash, expires, token);
	if (r < 0)
		return r;
	/* Names of templates and tenants have nothing in them that a query needs coded. */
	snprintf(url, sizeof(url),
		 "%s://%.*s/templates/files/%s/upload?tenant=%s&expires=%s&token=%s",
		 q->x->is_secure ? "https" : "http", host ? (int)MIN(host->len, (size_t)300) : 0,
		 host ? host->data : "", hash, q->tenant_name, expires, token);
	return node_set(map, "url", node_string(url));
}

void template_files(struct request *q)
{
	_cleanup_(node_freep) struct node *map = node_map();
	const char *hash = q->parameter[1];
	char path[PATH_MAX];
	struct err err = ERR_NONE;
	bool is_there;
	int r;

	if (!build_hash_is_valid(hash)) {
		refuse(q, 400, "\"%.80s\" is no SHA-256 in small letters", hash);
		return;
	}
	r = build_upload_path(q->tenant_name, hash, path, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return;
	}
	/* It is wanted still. */
	is_there = utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0;
	r = map ? node_set(map, "present", node_bool(is_there)) : -ENOMEM;
	r = r < 0 ? r : add_url(q, hash, map);
	answer_take_json(q, 201, r < 0 ? NULL : take_ptr(&map));
}

/* --- the upload --- */

struct upload {
	int fd;
	uint64_t bytes, max;
	int failure;
	char path[PATH_MAX], part[PATH_MAX];
};

static void upload_free(struct request *q)
{
	struct upload *upload = q->of;

	if (!upload)
		return;
	fd_close(upload->fd);
	if (upload->part[0])
		unlink(upload->part);
	free(upload);
	q->of = NULL;
}

static bool is_allowed(struct request *q, const char *hash, char tenant[static TENANT_NAME_MAX + 1])
{
	char expires[24], given[80], token[65];
	struct text text;

	if (query_get(q, "tenant", 0, tenant, TENANT_NAME_MAX + 1) < 0 ||
	    query_get(q, "expires", 0, expires, sizeof(expires)) < 0 ||
	    query_get(q, "token", 0, given, sizeof(given)) < 0 || !tenant_name_is_valid(tenant) ||
	    sign(q->serve, tenant, hash, expires, token) < 0)
		return false;
	text = (struct text){ .data = given, .len = strlen(given) };
	return secret_is(&text, token) && strtoull(expires, NULL, 10) >= time_now() / 1000;
}

/* What this tenant has there, unfinished ones too. */
static uint64_t used_by(const char *tenant)
{
	char path[PATH_MAX];
	struct err err = ERR_NONE;
	const struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;
	DIR *dir;

	if (build_path("uploads", "", "", path, &err) < 0)
		return TENANT_MAX;
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		const char *dash = strchr(entry->d_name, '-');
		size_t len = strlen(tenant);

		if (dash && strncmp(dash + 1, tenant, len) == 0 &&
		    (dash[1 + len] == '\0' || dash[1 + len] == '~') &&
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			bytes += (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	return bytes;
}

static void on_data(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct upload *upload = q->of;

	if (!upload || upload->failure)
		return;
	if (len > upload->max - upload->bytes)
		upload->failure = -EFBIG;
	else
		upload->failure = fd_write_all(upload->fd, data, len);
	upload->bytes += len;
	if (!upload->failure)
		return;
	if (upload->failure == -EFBIG)
		refuse(q, 413, "an upload has at most %" PRIu64 " bytes", upload->max);
	else
		answer_error(q, 507, "the upload cannot be kept: %s", strerror(-upload->failure));
	exchange_close(x);
}

static void on_end(struct exchange *x)
{
	struct request *q = x->of;
	struct upload *upload = q->of;

	if (!upload || upload->failure)
		return;
	if (rename(upload->part, upload->path) < 0) {
		answer_error(q, 507, "the upload cannot be kept: %s", strerror(errno));
		return;
	}
	upload->part[0] = '\0';
	answer_empty(q, 200);
}

static int open_upload(struct upload *upload, const char *tenant, const char *hash, struct err *err)
{
	char word[13];
	int r = build_upload_path(tenant, hash, upload->path, err);

	r = r < 0 ? r : make_word(word, sizeof(word));
	if (r < 0)
		return r;
	if (snprintf(upload->part, sizeof(upload->part), "%s~%s", upload->path, word) >=
	    (int)sizeof(upload->part))
		return -ENAMETOOLONG;
	upload->fd = open(upload->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return upload->fd < 0 ? err_errno(err, -errno, "the upload cannot be kept") : 0;
}

void template_upload(struct request *q)
{
	const char *hash = q->parameter[0];
	char tenant[TENANT_NAME_MAX + 1];
	struct err err = ERR_NONE;
	struct upload *upload;
	uint64_t used;
	int r;

	if (!build_hash_is_valid(hash) || !is_allowed(q, hash, tenant)) {
		refuse(q, 403, "this address is not good, or not any more: ask for a new one");
		return;
	}
	used = used_by(tenant);
	upload = used < TENANT_MAX ? calloc(1, sizeof(*upload)) : NULL;
	if (!upload) {
		refuse(q, 507, "there is no room for more uploads of this tenant");
		return;
	}
	upload->fd = -EBADF;
	upload->max = MIN((uint64_t)UPLOAD_MAX, TENANT_MAX - used);
	q->of = upload;
	q->gone = upload_free;
	r = open_upload(upload, tenant, hash, &err);
	if (r < 0) {
		refuse_err(q, err.code ? &err : (err_errno(&err, r, "upload"), &err));
		return;
	}
	exchange_stream(q->x, on_data, on_end);
}
