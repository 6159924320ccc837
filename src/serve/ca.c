#include "serve/ca.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define DAY          86400L
#define CA_DAYS      3650
#define CERT_DAYS    90
#define RENEW_DAYS   30
#define BACKDATE     DAY /* clocks of clients */
#define SERIAL_BYTES 16

struct pair {
	X509 *cert;
	EVP_PKEY *key;
};

static void pair_done(struct pair *pair)
{
	X509_free(pair->cert);
	EVP_PKEY_free(pair->key);
}

static void ca_name(const char *domain, char *text, size_t size)
{
	snprintf(text, size, "brig CA for %.40s", domain);
}

/* --- files --- */

static int read_pair(const char *cert_path, const char *key_path, struct pair *ret)
{
	FILE *cert = fopen(cert_path, "re"), *key = fopen(key_path, "re");
	struct pair pair = { 0 };

	if (cert)
		pair.cert = PEM_read_X509(cert, NULL, NULL, NULL);
	if (key)
		pair.key = PEM_read_PrivateKey(key, NULL, NULL, NULL);
	if (cert)
		fclose(cert);
	if (key)
		fclose(key);
	if (!pair.cert || !pair.key || X509_check_private_key(pair.cert, pair.key) != 1) {
		pair_done(&pair);
		return -ENOENT;
	}
	*ret = pair;
	return 0;
}

/* Under another name first: who reads it meanwhile sees the old one or the new one. */
static FILE *open_new(const char *path, char ret_temporary[static PATH_MAX])
{
	int fd;

	if (snprintf(ret_temporary, PATH_MAX, "%s.new", path) >= PATH_MAX)
		return NULL;
	(void)!unlink(ret_temporary);
	fd = open(ret_temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? NULL : fdopen(fd, "w");
}

static int close_new(FILE *file, bool is_good, const char *temporary, const char *path)
{
	is_good &= fflush(file) == 0 && fsync(fileno(file)) == 0;
	is_good &= fclose(file) == 0;
	if (is_good && rename(temporary, path) == 0)
		return 0;
	(void)!unlink(temporary);
	return -EIO;
}

/* The key first: a certificate without its key is made anew. chain: a second certificate, or NULL. */
static int write_pair(const char *cert_path, const char *key_path, const struct pair *pair,
		      X509 *chain)
{
	char temporary[PATH_MAX];
	FILE *file = open_new(key_path, temporary);
	int r;

	if (!file)
		return errno ? -errno : -EIO;
	r = close_new(file, PEM_write_PrivateKey(file, pair->key, NULL, NULL, 0, NULL, NULL) == 1,
		      temporary, key_path);
	if (r < 0)
		return r;
	file = open_new(cert_path, temporary);
	if (!file)
		return errno ? -errno : -EIO;
	return close_new(file,
			 PEM_write_X509(file, pair->cert) == 1 &&
				 (!chain || PEM_write_X509(file, chain) == 1),
			 temporary, cert_path);
}

/* --- certificates --- */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;
	bool added;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	added = extension && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return added;
}

static bool set_serial(X509 *cert)
{
	BIGNUM *number = BN_new();
	bool set = number &&
		   BN_rand(number, SERIAL_BYTES * 8 - 1, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
		   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));

	BN_free(number);
	return set;
}

struct extension {
	int nid;
	const char *value;
};

/* issuer: NULL for one that vouches for itself. */
static int make_pair(const char *name, long days, const struct pair *issuer,
		     const struct extension *extensions, size_t count, struct pair *ret)
{
	struct pair pair = { X509_new(), EVP_EC_gen("P-256") };
	X509_NAME *subject = pair.cert ? X509_get_subject_name(pair.cert) : NULL;
	bool good = subject && pair.key && X509_set_version(pair.cert, X509_VERSION_3) == 1 &&
		    set_serial(pair.cert) &&
		    X509_gmtime_adj(X509_getm_notBefore(pair.cert), -BACKDATE) &&
		    X509_gmtime_adj(X509_getm_notAfter(pair.cert), days * DAY) &&
		    X509_set_pubkey(pair.cert, pair.key) == 1 &&
		    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
					       (const unsigned char *)name, -1, -1, 0) == 1 &&
		    X509_set_issuer_name(pair.cert, issuer ? X509_get_subject_name(issuer->cert)
							   : subject) == 1;

	for (size_t i = 0; i < count && good; i++)
		good = add_extension(pair.cert, issuer ? issuer->cert : pair.cert,
				     extensions[i].nid, extensions[i].value);
	good = good && X509_sign(pair.cert, issuer ? issuer->key : pair.key, EVP_sha256()) > 0;
	if (!good) {
		pair_done(&pair);
		return -ENOMEM;
	}
	*ret = pair;
	return 0;
}

static int make_ca(const char *domain, struct pair *ret)
{
	char name[64], names[512];
	const struct extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_name_constraints, names },
	};

	ca_name(domain, name, sizeof(name));
	snprintf(names, sizeof(names),
		 "critical,permitted;DNS:%.255s,permitted;DNS:localhost,"
		 "permitted;IP:127.0.0.0/255.0.0.0,"
		 "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		 domain);
	return make_pair(name, CA_DAYS, NULL, extensions, ARRAY_SIZE(extensions), ret);
}

static int make_cert(const char *domain, const struct pair *ca, struct pair *ret)
{
	char names[768];
	const struct extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid" },
		{ NID_subject_alt_name, names },
	};
	char name[64];

	snprintf(name, sizeof(name), "%.63s", domain);
	snprintf(names, sizeof(names), "DNS:%.255s,DNS:*.%.255s,DNS:localhost,IP:127.0.0.1,IP:::1",
		 domain, domain);
	return make_pair(name, CERT_DAYS, ca, extensions, ARRAY_SIZE(extensions), ret);
}

static bool lasts(const X509 *cert, long days)
{
	time_t then = time(NULL) + days * DAY;

	return X509_cmp_time(X509_get0_notAfter(cert), &then) > 0;
}

static bool is_ca_of(X509 *cert, const char *domain)
{
	char wanted[64], name[64] = "";

	ca_name(domain, wanted, sizeof(wanted));
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof(name));
	return str_equal(name, wanted) && lasts(cert, RENEW_DAYS);
}

static bool is_cert_of(X509 *cert, const char *domain, const struct pair *ca)
{
	return X509_check_host(cert, domain, 0, 0, NULL) == 1 && lasts(cert, RENEW_DAYS) &&
	       X509_verify(cert, ca->key) == 1;
}

/* What stands in a certificate's list of names, and nothing else could be meant by it. */
static bool domain_is_valid(const char *domain)
{
	size_t len = strlen(domain);

	return len > 0 && len < 200 && domain[0] != '.' && domain[0] != '-' &&
	       strspn(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len;
}

static int ready_ca(const struct ca_files *files, const char *dir, const char *domain,
		    struct pair *ret_ca, struct err *err)
{
	char key[PATH_MAX];
	struct pair ca;
	int r;

	if (snprintf(key, sizeof(key), "%s/ca.key", dir) >= (int)sizeof(key))
		return err_set(err, -ENAMETOOLONG, "the state directory has too long a name");
	if (read_pair(files->ca, key, &ca) == 0) {
		if (is_ca_of(ca.cert, domain)) {
			*ret_ca = ca;
			return 0;
		}
		pair_done(&ca);
	}
	r = make_ca(domain, &ca);
	if (r < 0)
		return err_set(err, r, "cannot make a CA for \"%s\"", domain);
	r = write_pair(files->ca, key, &ca, NULL);
	if (r < 0) {
		pair_done(&ca);
		return err_errno(err, r, "cannot write \"%s\"", files->ca);
	}
	*ret_ca = ca;
	return 0;
}

static int ready_cert(const struct ca_files *files, const char *domain, const struct pair *ca,
		      struct err *err)
{
	_cleanup_(pair_done) struct pair cert = { 0 };
	int r;

	if (read_pair(files->cert, files->key, &cert) == 0 && is_cert_of(cert.cert, domain, ca))
		return 0;
	pair_done(&cert);
	cert = (struct pair){ 0 };
	r = make_cert(domain, ca, &cert);
	if (r < 0)
		return err_set(err, r, "cannot make a certificate for \"%s\"", domain);
	r = write_pair(files->cert, files->key, &cert, ca->cert);
	return r < 0 ? err_errno(err, r, "cannot write \"%s\"", files->cert) : 0;
}

int ca_ready(const char *dir, const char *domain, struct ca_files *ret_files, struct err *err)
{
	_cleanup_(pair_done) struct pair ca = { 0 };
	struct ca_files files;
	int r;

	if (!domain_is_valid(domain))
		return err_set(
			err, -EINVAL,
			"--domain: \"%s\" is not a name (letters in lower case, digits, \"-\", "
			"\".\")",
			domain);
	if (snprintf(files.ca, PATH_MAX, "%s/ca.pem", dir) >= PATH_MAX ||
	    snprintf(files.cert, PATH_MAX, "%s/tls.pem", dir) >= PATH_MAX ||
	    snprintf(files.key, PATH_MAX, "%s/tls.key", dir) >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the state directory has too long a name");
	r = ready_ca(&files, dir, domain, &ca, err);
	r = r < 0 ? r : ready_cert(&files, domain, &ca, err);
	if (r == 0)
		*ret_files = files;
	return r;
}
