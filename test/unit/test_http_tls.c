#include "http_case.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

/* --- certificates of our own --- */

static char cert_path[] = "/tmp/brig-test-cert-XXXXXX", key_path[] = "/tmp/brig-test-key-XXXXXX";
static char other_cert_path[] = "/tmp/brig-test-cert-XXXXXX",
	    other_key_path[] = "/tmp/brig-test-key-XXXXXX";

static void make_certificate(const char *name, char *cert, char *key)
{
	EVP_PKEY *pair = EVP_EC_gen("P-256");
	X509 *x509 = X509_new();
	X509_NAME *subject = X509_get_subject_name(x509);
	FILE *file;

	X509_set_version(x509, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
	X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
	X509_set_pubkey(x509, pair);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
				   0);
	X509_set_issuer_name(x509, subject);
	assert_true(X509_sign(x509, pair, EVP_sha256()) > 0);
	file = fdopen(mkstemp(cert), "w");
	assert_int_equal(PEM_write_X509(file, x509), 1);
	fclose(file);
	file = fdopen(mkstemp(key), "w");
	assert_int_equal(PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	X509_free(x509);
	EVP_PKEY_free(pair);
}

/* --- the server --- */

static char *big;

static void count_gone(struct exchange *x)
{
	web.gones++;
	if (web.last == x)
		web.last = NULL;
}

static void on_body(struct exchange *x, const char *data, size_t len)
{
	exchange_answer(x, 200, "text/plain", data, len);
}

static void on_echo(struct exchange *x, const char *data, size_t len)
{
	exchange_write(x, data, len);
}

static void on_request(void *of, struct exchange *x)
{
	(void)of;
	web.requests++;
	x->gone = count_gone;
	assert_true(x->is_secure);
	if (text_is(&x->head.path, "/big")) {
		exchange_answer(x, 200, "a/b", big, 4 * MIB);
	} else if (text_is(&x->head.path, "/later")) {
		web.last = x;
	} else if (text_is(&x->head.path, "/tunnel")) {
		web.last = x;
		exchange_tunnel(x, 101, on_echo, exchange_end);
	} else {
		exchange_collect(x, 4 * MIB, on_body);
	}
}

static void count_log(void *of, const struct exchange *x)
{
	(void)of;
	(void)x;
	web.logs++;
}

static int open_web(void **state)
{
	static const struct server_setup setup = { .request = on_request, .logged = count_log };
	struct err err = ERR_NONE;
	struct tls *tls;

	(void)state;
	clock_forward_ms = 0;
	assert_int_equal(tls_new(cert_path, key_path, &tls, &err), 0);
	web_open(&setup, tls);
	tls_free(tls);
	return 0;
}

static int close_web(void **state)
{
	(void)state;
	web_close();
	return 0;
}

/* --- clients --- */

struct secure {
	struct client c;
	SSL_CTX *context;
	SSL *ssl;
	bool is_ended;
};

static void secure_init(struct secure *s)
{
	*s = (struct secure){ .c = client_open(), .context = SSL_CTX_new(TLS_client_method()) };
	s->ssl = SSL_new(s->context);
	SSL_set_fd(s->ssl, s->c.fd);
	SSL_set_connect_state(s->ssl);
}

/* 1 when it is done, 0 when it failed. */
static int handshake(struct secure *s)
{
	uint64_t until = real_ms() + 5000;

	for (;;) {
		int r = SSL_do_handshake(s->ssl), error = SSL_get_error(s->ssl, r);

		if (r == 1)
			return 1;
		if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
			return 0;
		assert_true(real_ms() < until);
		turn(1);
	}
}

static void secure_open(struct secure *s)
{
	secure_init(s);
	assert_int_equal(handshake(s), 1);
}

static void secure_close(struct secure *s)
{
	SSL_free(s->ssl);
	SSL_CTX_free(s->context);
	client_close(&s->c);
}

static void secure_listen(struct secure *s)
{
	char block[16384];
	int n;

	while ((n = SSL_read(s->ssl, block, sizeof(block))) > 0)
		assert_int_equal(buf_add(&s->c.heard, block, (size_t)n), 0);
	if (SSL_get_error(s->ssl, n) != SSL_ERROR_WANT_READ &&
	    SSL_get_error(s->ssl, n) != SSL_ERROR_WANT_WRITE)
		s->is_ended = true;
}

static void secure_say(struct secure *s, const char *data, size_t len)
{
	uint64_t until = real_ms() + 5000;

	while (len > 0) {
		size_t part = MIN(len, (size_t)16384);
		int n = SSL_write(s->ssl, data, (int)part);

		assert_true(real_ms() < until);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else {
			assert_int_equal(SSL_get_error(s->ssl, n), SSL_ERROR_WANT_WRITE);
			turn(1);
		}
	}
}

static void secure_hear(struct secure *s, const char *text, size_t len)
{
	uint64_t until = real_ms() + 10000;

	for (;;) {
		secure_listen(s);
		if (s->c.heard.len >= len && has_heard(&s->c, text))
			return;
		if (real_ms() > until || s->is_ended)
			fail_msg("%zu bytes: %.200s", s->c.heard.len, buf_text(&s->c.heard));
		turn(1);
	}
}

static void requests(void **state)
{
	static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
	struct secure s;

	(void)state;
	secure_open(&s);
	for (int i = 0; i < 3; i++) {
		secure_say(&s, text, sizeof(text) - 1);
		secure_hear(&s, "\r\n\r\nhello", 0);
		buf_reset(&s.c.heard);
	}
	/* Two in one record. */
	secure_say(&s, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 54);
	secure_hear(&s, "Content-Length: 0\r\n", 100);
	assert_int_equal(web.requests, 5);
	/* And an end with a word. */
	SSL_shutdown(s.ssl);
	turn(4);
	assert_int_equal(server_connections(web.server), 0);
	secure_close(&s);
}

static void much_both_ways(void **state)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n";
	struct secure s;

	(void)state;
	secure_open(&s);
	secure_say(&s, head, sizeof(head) - 1);
	secure_say(&s, big, 4 * MIB);
	secure_hear(&s, "\r\n\r\n", 4 * MIB);
	assert_memory_equal(strstr(buf_text(&s.c.heard), "\r\n\r\n") + 4, big, 4 * MIB);
	buf_reset(&s.c.heard);
	secure_say(&s, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", 30);
	turn(50);
	secure_hear(&s, "\r\n\r\n", 4 * MIB);
	secure_close(&s);
}

static void tunnels(void **state)
{
	static const char head[] =
		"GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly";
	struct secure s;

	(void)state;
	secure_open(&s);
	secure_say(&s, head, sizeof(head) - 1);
	secure_hear(&s, "\r\n\r\nearly", 0);
	secure_say(&s, "more", 4);
	secure_hear(&s, "earlymore", 0);
	exchange_end(web.last);
	while (!s.is_ended) {
		turn(1);
		secure_listen(&s);
	}
	assert_int_equal(SSL_get_shutdown(s.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
	assert_non_null(web.last);
	SSL_shutdown(s.ssl);
	turn(4);
	assert_null(web.last);
	secure_close(&s);
}

static void clients_that_leave(void **state)
{
	struct secure s;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct linger linger = { 1, 0 };

		secure_open(&s);
		secure_say(&s, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n", 32);
		while (!web.last)
			turn(1);
		if (i == 1)
			setsockopt(s.c.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		if (i == 2) {
			/* With a word, and the connection stays open. */
			SSL_shutdown(s.ssl);
			shutdown(s.c.fd, SHUT_WR);
		} else {
			s.c.fd = fd_close(s.c.fd);
		}
		turn(4);
		assert_null(web.last);
		secure_close(&s);
	}
	assert_int_equal(server_connections(web.server), 0);
}

static void versions_and_protocols(void **state)
{
	static const struct {
		const char *protocols;
		int max, works;
		const char *chosen;
	} table[] = {
		{ "\x08http/1.1", TLS1_3_VERSION, 1, "http/1.1" },
		{ "\x02h2\x08http/1.1", TLS1_2_VERSION, 1, "http/1.1" },
		{ "\x02h2", TLS1_3_VERSION, 0, NULL },
		{ NULL, TLS1_3_VERSION, 1, "" },
		{ NULL, TLS1_1_VERSION, 0, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const unsigned char *chosen = NULL;
		unsigned int len = 0;
		struct secure s;

		secure_init(&s);
		SSL_set_security_level(s.ssl, 0);
		SSL_set_max_proto_version(s.ssl, table[i].max);
		if (table[i].protocols)
			SSL_set_alpn_protos(s.ssl, (const unsigned char *)table[i].protocols,
					    (unsigned int)strlen(table[i].protocols));
		assert_int_equal(handshake(&s), table[i].works);
		if (table[i].works) {
			SSL_get0_alpn_selected(s.ssl, &chosen, &len);
			assert_int_equal(len, strlen(table[i].chosen));
			assert_memory_equal(chosen ? (const char *)chosen : "", table[i].chosen,
					    len);
		}
		secure_close(&s);
		ERR_clear_error();
	}
}

static void no_tls_at_all(void **state)
{
	struct client c = client_open(), d = client_open();

	(void)state;
	say(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	hear_end(&c);
	/* A handshake has no more time than a head. */
	later(SERVER_HEAD_MS - 1000);
	assert_int_equal(server_connections(web.server), 1);
	later(2000);
	assert_int_equal(server_connections(web.server), 0);
	client_close(&c);
	client_close(&d);
}

static void certificate_of(struct secure *s, char *name, int size)
{
	X509 *x509 = SSL_get1_peer_certificate(s->ssl);

	X509_NAME_get_text_by_NID(X509_get_subject_name(x509), NID_commonName, name, size);
	X509_free(x509);
}

static void another_certificate(void **state)
{
	struct secure before, after;
	struct err err = ERR_NONE;
	struct tls *tls;
	char name[64];

	(void)state;
	secure_open(&before);
	certificate_of(&before, name, sizeof(name));
	assert_string_equal(name, "first");
	assert_int_equal(tls_new(other_cert_path, other_key_path, &tls, &err), 0);
	server_set_tls(web.server, tls);
	tls_free(tls);
	secure_open(&after);
	certificate_of(&after, name, sizeof(name));
	assert_string_equal(name, "second");
	/* The one that was open goes on. */
	secure_say(&before, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
	secure_hear(&before, "200 OK", 0);
	secure_close(&before);
	secure_close(&after);
}

static void files_that_are_none(void **state)
{
	struct err err = ERR_NONE;
	struct tls *tls = NULL;

	(void)state;
	assert_true(tls_new("/nonexistent", key_path, &tls, &err) < 0);
	assert_non_null(strstr(err.text, "/nonexistent"));
	err = ERR_NONE;
	assert_true(tls_new(cert_path, cert_path, &tls, &err) < 0);
	assert_true(tls_new(cert_path, other_key_path, &tls, &err) < 0);
	assert_null(tls);
	tls_free(tls);
}

#define WEB(test) cmocka_unit_test_setup_teardown(test, open_web, close_web)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WEB(requests),
		WEB(much_both_ways),
		WEB(tunnels),
		WEB(clients_that_leave),
		WEB(versions_and_protocols),
		WEB(no_tls_at_all),
		WEB(another_certificate),
		cmocka_unit_test(files_that_are_none),
	};
	int failed;

	make_certificate("first", cert_path, key_path);
	make_certificate("second", other_cert_path, other_key_path);
	big = malloc(4 * MIB);
	for (size_t i = 0; i < 4 * MIB; i++)
		big[i] = (char)('a' + i % 23);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(big);
	unlink(cert_path);
	unlink(key_path);
	unlink(other_cert_path);
	unlink(other_key_path);
	return failed;
}
