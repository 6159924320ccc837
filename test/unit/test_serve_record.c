#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "serve/denials.h"
#include "serve/record.h"

#define ID "abcdefghijk2"

static char home[64];

static int open_home(void **state)
{
	char path[256];

	(void)state;
	snprintf(home, sizeof(home), "/tmp/brig-record-XXXXXX");
	if (!mkdtemp(home))
		return -1;
	setenv("XDG_STATE_HOME", home, 1);
	for (const char *const *part = (const char *const[]){ "/brig", "/brig/sandboxes",
							      "/brig/sandboxes/" ID, NULL };
	     *part; part++) {
		snprintf(path, sizeof(path), "%s%s", home, *part);
		if (mkdir(path, 0700) < 0)
			return -1;
	}
	return 0;
}

static int close_home(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "%s/brig/sandboxes/" ID "/events.ndjson", home);
	unlink(command);
	for (const char *const *part =
		     (const char *const[]){ "/brig/sandboxes/" ID, "/brig/sandboxes", "/brig", "",
					    NULL };
	     *part; part++) {
		snprintf(command, sizeof(command), "%s%s", home, *part);
		rmdir(command);
	}
	return 0;
}

static int stream_for(int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/brig/sandboxes/" ID "/events.ndjson", home);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
	assert_true(fd >= 0);
	return fd;
}

static void put(int fd, uint64_t seq, enum trace_kind kind, enum verdict verdict,
		const char *action, const char *object, const char *reason)
{
	const struct trace_event event = { .kind = kind,
					   .verdict = verdict,
					   .action = action,
					   .object = object,
					   .reason = reason };
	const struct trace_end end = { .exit_code = 3, .denied = 9 };
	const struct trace_line line = {
		.event = &event,
		.sandbox = ID,
		.time = "2026-01-31T23:59:59.123456Z",
		.prev = "0000000000000000000000000000000000000000000000000000000000000000",
		.seq = seq,
		.mono = seq,
		.end = strcmp(action, "end") == 0 ? &end : NULL,
	};
	static char text[TRACE_LINE_MAX];
	ssize_t len = trace_line_write(&line, text, sizeof(text));

	assert_true(len > 0);
	assert_int_equal(fd_write_all(fd, text, (size_t)len), 0);
}

static size_t count(struct recording *r, uint64_t *ret_last)
{
	const char *line;
	uint64_t seq = 0;
	size_t len, n = 0;
	int got;

	while ((got = record_next(r, &line, &len, &seq)) != 0) {
		if (got == -EAGAIN) {
			record_new_slice(r);
			continue;
		}
		assert_int_equal(got, 1);
		*ret_last = seq;
		n++;
	}
	return n;
}

/* What an object says is never taken for a field. */
static void choosing(void **state)
{
	static const char trap[] =
		"x\",\"verdict\":\"deny\",\"seq\":99999,\"kind\":\"net\",\"y\":\"";
	_cleanup_close_ int fd = stream_for(O_TRUNC);
	struct recording r;
	struct err err = ERR_NONE;
	uint64_t last = 0;

	(void)state;
	put(fd, 1, TRACE_SANDBOX, VERDICT_ALLOW, "start", "sh", NULL);
	put(fd, 2, TRACE_FILE, VERDICT_ALLOW, "open", trap, NULL);
	put(fd, 3, TRACE_FILE, VERDICT_DENY, "open", "/etc/shadow", "no rule");
	put(fd, 4, TRACE_NET, VERDICT_DENY, "connect", "1.2.3.4:80", "no rule");
	put(fd, 5, TRACE_EXEC, VERDICT_ALLOW, "exec", "/bin/sh", NULL);
	assert_int_equal(record_open(ID, &r, &err), 0);
	assert_int_equal(count(&r, &last), 5);
	assert_int_equal(last, 5);
	/* It goes on where it was. */
	put(fd, 6, TRACE_NET, VERDICT_ALLOW, "connect", "1.2.3.4:443", NULL);
	assert_int_equal(count(&r, &last), 1);
	assert_int_equal(last, 6);
	record_done(&r);
	assert_int_equal(record_open(ID, &r, &err), 0);
	r.verdict = "deny";
	assert_int_equal(count(&r, &last), 2);
	record_done(&r);
	assert_int_equal(record_open(ID, &r, &err), 0);
	r.kinds = 1u << TRACE_NET | 1u << TRACE_EXEC;
	r.after = 4;
	assert_int_equal(count(&r, &last), 2);
	record_done(&r);
	assert_false(r.has_ended);
	put(fd, 7, TRACE_SANDBOX, VERDICT_ALLOW, "end", "", "killed");
	assert_int_equal(record_open(ID, &r, &err), 0);
	r.kinds = 1u << TRACE_NET;
	assert_int_equal(count(&r, &last), 2);
	assert_true(r.has_ended);
	record_done(&r);
	/* Half a line is none yet. */
	assert_int_equal(fd_write_all(fd, "{\"action\":", 10), 0);
	assert_int_equal(record_open(ID, &r, &err), 0);
	assert_int_equal(count(&r, &last), 7);
	record_done(&r);
}

static void absent(void **state)
{
	struct recording r;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(record_open("zzzzzzzzzzz2", &r, &err), -ENOENT);
	err = ERR_NONE;
	assert_int_equal(record_open("../" ID, &r, &err), -ENOENT);
}

/* A long stream is read in slices; each says that there is more. */
static void slices(void **state)
{
	_cleanup_close_ int fd = stream_for(O_TRUNC);
	struct denials *d = calloc(1, sizeof(*d));
	char object[64];
	unsigned int steps = 1;
	int r;

	(void)state;
	assert_non_null(d);
	for (unsigned int i = 1; i <= 6000; i++) {
		snprintf(object, sizeof(object), "/object/%u", i % 100);
		put(fd, i, TRACE_FILE, i % 3 ? VERDICT_ALLOW : VERDICT_DENY, "open", object,
		    "no rule");
	}
	put(fd, 6001, TRACE_SANDBOX, VERDICT_ALLOW, "end", "", "memory");
	assert_int_equal(denials_open(ID, d), 0);
	while ((r = denials_step(d)) > 0)
		steps++;
	assert_int_equal(r, 0);
	assert_true(steps > 2);
	assert_int_equal(d->count, RESULT_MAX_DENIALS);
	assert_true(d->left_out > 0);
	assert_true(d->has_ended && d->reason == REASON_MEMORY);
	assert_string_equal(d->items[0].action, "open");
	assert_string_equal(d->items[0].object, "/object/3");
	assert_string_equal(d->items[0].reason, "no rule");
	denials_done(d);
	free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choosing),
		cmocka_unit_test(absent),
		cmocka_unit_test(slices),
	};

	return cmocka_run_group_tests(tests, open_home, close_home);
}
