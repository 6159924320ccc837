/* trace_case.h - a state directory of its own, streams in it, and their files as bytes */
#ifndef BRIG_TEST_TRACE_CASE_H
#define BRIG_TEST_TRACE_CASE_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "trace/home.h"
#include "trace/trace.h"
#include "trace/verify.h"

static char trace_home[64] __attribute__((unused));

static inline int trace_remove_one(const char *path, const struct stat *st, int type,
				   struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline int trace_setup(void **state)
{
	(void)state;
	snprintf(trace_home, sizeof(trace_home), "/tmp/test-trace-XXXXXX");
	return mkdtemp(trace_home) ? 0 : -1;
}

static inline int trace_teardown(void **state)
{
	(void)state;
	return nftw(trace_home, trace_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#define trace_case(f) cmocka_unit_test_setup_teardown(f, trace_setup, trace_teardown)

static inline struct trace_request trace_request_of(const char *id)
{
	static char program[] = "python3", word[] = "it's";
	static char *argv[] = { program, word, NULL };

	return (struct trace_request){ .home = trace_home,
				       .sandbox = id,
				       .policy = "sha256:00",
				       .isolation = "container",
				       .argv = argv };
}

static inline struct trace *trace_begin(const char *id)
{
	struct trace_request request = trace_request_of(id);
	struct trace *trace = NULL;
	struct err err = ERR_NONE;

	if (trace_open(&request, &trace, &err) < 0)
		fail_msg("%s", err.text);
	return trace;
}

static inline struct trace_event trace_allowed(const char *object)
{
	return (struct trace_event){ .kind = TRACE_FILE,
				     .verdict = VERDICT_ALLOW,
				     .action = "open",
				     .object = object,
				     .exec = 2,
				     .parent = 1,
				     .pid = 77 };
}

static inline struct trace_event trace_denied(const char *object)
{
	return (struct trace_event){ .kind = TRACE_NET,
				     .verdict = VERDICT_DENY,
				     .action = "connect",
				     .object = object,
				     .exec = 2,
				     .parent = 1,
				     .pid = 77,
				     .rule = { "policy.yaml", "net.allow", 3 },
				     .reason = "no rule allows it",
				     .allow_with = "--allow-net x:1" };
}

static inline void trace_must_add(struct trace *trace, struct trace_event event)
{
	assert_int_equal(trace_add(trace, &event), 0);
}

/* A file below the state directory. */
static inline void trace_load(const char *path, struct buf *ret)
{
	char whole[256];
	int fd;

	snprintf(whole, sizeof(whole), "%s/%s", trace_home, path);
	fd = open(whole, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	buf_reset(ret);
	assert_int_equal(fd_read_all(fd, ret), 0);
	close(fd);
}

static inline void trace_store(const char *path, const char *data, size_t len)
{
	char whole[256];
	int fd;

	snprintf(whole, sizeof(whole), "%s/%s", trace_home, path);
	fd = open(whole, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, len), 0);
	close(fd);
}

static inline struct verdict_of_stream trace_verify(const char *id)
{
	struct verdict_of_stream verdict = { 0 };
	struct err err = ERR_NONE;
	int home = trace_home_open(trace_home, false, &err), r;

	if (home < 0)
		fail_msg("%s", err.text);
	r = verify_stream(home, id, &verdict, &err);
	close(home);
	if (r < 0)
		fail_msg("%s", err.text);
	return verdict;
}

/* The lines of a stream as trees; how many. */
static inline size_t trace_lines(const char *id, struct node **nodes, size_t room)
{
	struct buf text = BUF(64 * MIB);
	char path[TRACE_PATH_SIZE];
	struct err err = ERR_NONE;
	size_t count = 0;

	trace_stream_path(id, path);
	trace_load(path, &text);
	for (const char *p = buf_text(&text), *end; (end = strchr(p, '\n')); p = end + 1) {
		assert_true(count < room);
		if (trace_line_parse(p, (size_t)(end - p), &nodes[count++], &err) < 0)
			fail_msg("%s: %.*s", err.text, (int)(end - p), p);
	}
	buf_done(&text);
	return count;
}

static inline void trace_lines_free(struct node **nodes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		node_free(nodes[i]);
}

#endif
