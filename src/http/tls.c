#include "http/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct tls {
	SSL_CTX *context;
	unsigned int references;
};

/* The first of what OpenSSL has to say; the rest is forgotten, so that it is not said of something else. */
static int tls_error(struct err *err, int code, const char *what)
{
	unsigned long error = ERR_get_error();
	char text[256] = "no reason given";

	if (error)
		ERR_error_string_n(error, text, sizeof(text));
	ERR_clear_error();
	return err_set(err, code, "%s: %s", what, text);
}

/*
 * The socket of a connection, as OpenSSL wants it. Its own would raise SIGPIPE, and what this process does
 * with signals is inherited by the programs that it starts.
 */
static int socket_write(BIO *bio, const char *data, int len)
{
	ssize_t n;

	BIO_clear_retry_flags(bio);
	do
		n = send((int)(intptr_t)BIO_get_data(bio), data, (size_t)len,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_write(bio);
	return (int)n;
}

static int socket_read(BIO *bio, char *data, int len)
{
	ssize_t n;

	BIO_clear_retry_flags(bio);
	do
		n = recv((int)(intptr_t)BIO_get_data(bio), data, (size_t)len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_read(bio);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

/* Made once and never given back: it is a table of functions. */
static const BIO_METHOD *socket_method(void)
{
	static BIO_METHOD *method;

	if (method)
		return method;
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
	if (!method)
		return NULL;
	BIO_meth_set_write(method, socket_write);
	BIO_meth_set_read(method, socket_read);
	BIO_meth_set_ctrl(method, socket_control);
	return method;
}

/* "http/1.1" or nothing: a client that wants only something else is refused. */
static int choose_protocol(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
			   const unsigned char *offered, unsigned int len, void *of)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *name;

	(void)ssl;
	(void)of;
	if (SSL_select_next_proto(&name, ret_len, ours, sizeof(ours) - 1, offered, len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret_name = name;
	return SSL_TLSEXT_ERR_OK;
}

static int load(SSL_CTX *context, const char *certificate, const char *key, struct err *err)
{
	if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
		return tls_error(err, -EINVAL, certificate);
	if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		return tls_error(err, -EINVAL, key);
	if (SSL_CTX_check_private_key(context) != 1)
		return tls_error(err, -EINVAL, "the key is not that of the certificate");
	return 0;
}

int tls_new(const char *certificate, const char *key, struct tls **ret_tls, struct err *err)
{
	struct tls *tls = calloc(1, sizeof(*tls));
	int r;

	if (!tls)
		return err_errno(err, -ENOMEM, "tls");
	tls->references = 1;
	tls->context = SSL_CTX_new(TLS_server_method());
	if (!tls->context) {
		free(tls);
		return tls_error(err, -ENOMEM, "tls");
	}
	SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
	/* A peer that leaves without a word is at its end, as without TLS: HTTP says itself what is whole. */
	SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
						  SSL_OP_IGNORE_UNEXPECTED_EOF |
						  SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					       SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(tls->context, choose_protocol, NULL);
	r = load(tls->context, certificate, key, err);
	if (r < 0) {
		tls_free(tls);
		return r;
	}
	*ret_tls = tls;
	return 0;
}

struct tls *tls_ref(struct tls *tls)
{
	if (tls)
		tls->references++;
	return tls;
}

void tls_free(struct tls *tls)
{
	if (!tls || --tls->references > 0)
		return;
	SSL_CTX_free(tls->context);
	free(tls);
}

int tls_accept(struct tls *tls, int fd, void **ret_session)
{
	const BIO_METHOD *method = socket_method();
	BIO *bio = method ? BIO_new(method) : NULL;
	SSL *ssl = SSL_new(tls->context);

	if (!bio || !ssl) {
		BIO_free(bio);
		SSL_free(ssl);
		ERR_clear_error();
		return -ENOMEM;
	}
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	SSL_set_accept_state(ssl);
	*ret_session = ssl;
	return 0;
}

static ssize_t result(SSL *ssl, int n, bool *ret_wants_write)
{
	int saved = errno;

	*ret_wants_write = false;
	if (n > 0)
		return n;
	switch (SSL_get_error(ssl, n)) {
	case SSL_ERROR_WANT_READ:
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*ret_wants_write = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return saved > 0 ? -saved : -ECONNRESET;
	default:
		return -EPROTO;
	}
}

ssize_t tls_read(void *session, void *data, size_t len, bool *ret_wants_write)
{
	size_t got = 0;

	/* A record at a time is little: as much as is there. */
	for (;;) {
		ssize_t n;

		ERR_clear_error();
		errno = 0;
		n = SSL_read(session, (char *)data + got,
			     (int)(len - got > INT_MAX ? INT_MAX : len - got));
		n = result(session, (int)n, ret_wants_write);
		if (n <= 0)
			return got > 0 ? (ssize_t)got : n;
		got += (size_t)n;
		if (got == len || SSL_pending(session) == 0)
			return (ssize_t)got;
	}
}

ssize_t tls_write(void *session, const void *data, size_t len, bool *ret_wants_write)
{
	int n;

	ERR_clear_error();
	errno = 0;
	n = SSL_write(session, data, (int)(len > INT_MAX ? INT_MAX : len));
	return result(session, n, ret_wants_write);
}

bool tls_has_more(void *session)
{
	return SSL_pending(session) > 0;
}

void tls_shut(void *session)
{
	ERR_clear_error();
	if (SSL_is_init_finished(session))
		(void)!SSL_shutdown(session);
	ERR_clear_error();
}

void tls_end(void *session)
{
	SSL_free(session);
}
