/*
 * files_internal.h - what the calls for files share
 *
 * A task is one call in its own process. It may wait as long as it likes, but only here, where it
 * hears at the same time whether it was cancelled, or whether its channel is at its end: then every
 * function below fails, and the call unwinds, removing what it made by halves.
 *
 * A call that fails has said why in words (task_fail), with the path in quotes.
 */
#ifndef BRIG_INIT_FILES_INTERNAL_H
#define BRIG_INIT_FILES_INTERNAL_H

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "init/files.h"

#define FILES_BUFFER (256 * KIB)

/* How far a call goes; a test sets them lower. */
struct files_bounds {
	uint64_t entries;     /* of one list */
	uint64_t depth;       /* of a list */
	uint64_t directories; /* of one watch */
	uint64_t path;        /* bytes of a path inside a watched tree */
	uint64_t unsized;     /* bytes of a file that says it has none, as those in /proc */
};
extern struct files_bounds files_bounds;

struct task {
	struct channel *channel;
	struct message call; /* its fields are the task's own */
	uint64_t credit;     /* bytes of DATA that may be sent */
	uint64_t moved;      /* bytes read or written */
	unsigned int sent;
	bool has_end;  /* DATA_END has come */
	bool is_over;  /* the channel is at its end: nobody hears an answer */
	bool has_root; /* BY_ROOT: what the user has no right to do root can do for him */
	bool is_lent;  /* step by step, and what is made is the user's */
	struct err err;
};

/* Looks without waiting: 0, -ECANCELED, or -EPIPE when the channel is at its end. */
[[nodiscard]] int task_look(struct task *t);

/* Waits until fd is ready (1), or ms have passed (0; -1: for ever). fd -EBADF: for time alone. */
[[nodiscard]] int task_wait(struct task *t, int fd, short events, int ms);

/* The next message for a call that takes some: waits. */
[[nodiscard]] int task_take(struct task *t, struct message *ret_message);

/* Waits while much is queued, so that nothing is ever refused for want of room. */
[[nodiscard]] int task_send(struct task *t, struct draft *d);

/* Waits until DATA may be sent. */
[[nodiscard]] int task_await_credit(struct task *t);

/* Words for a -errno about a path, unless there are some, or nobody hears them. Returns code. */
int task_fail(struct task *t, int code, const char *path);

/* As task_fail, for a file that is not of the kind that is needed. */
int task_fail_kind(struct task *t, mode_t mode, const char *path);

const char *task_path(const struct task *t);

/* A path without a look at it: absolute, without ".." and the like. False when it does not fit. */
bool task_absolute(const char *path, char text[static PATH_MAX]);
uint64_t task_flags(const struct task *t);

/* The pipe that came with the call, or -EBADF. The call's: it may be made twice. */
int task_descriptor(const struct task *t);

/*
 * While a clock ticks no call waits for ever: it fails with EINTR now and then. For reading and
 * writing descriptors that came with the call, whose mode is their owner's.
 */
void task_tick(bool on);

/* The calls: 0, or -errno once the words are said. */
int files_stat(struct task *t);
int files_list(struct task *t);
int files_read(struct task *t);
int files_write(struct task *t);
int files_move(struct task *t);
int files_remove(struct task *t);
int files_make(struct task *t);
int files_watch(struct task *t);
int files_attributes(struct task *t);
int files_attribute_set(struct task *t);

/* A file that is told of, by two ways to it. */
struct seen {
	int dir;          /* AT_FDCWD allowed */
	const char *name; /* in dir */
	const char *path;
	struct stat st;
};

/* The fields of an ENTRY but its path. */
void files_describe(const struct task *t, struct draft *d, const struct seen *seen);

/*
 * A name in a directory that is held, so that several steps mean the same place.
 */
struct place {
	int dir; /* O_PATH */
	char name[NAME_MAX + 1];
};
#define PLACE_NONE ((struct place){ .dir = -EBADF })

/* follow: of a symbolic link the place that it leads to, which need not exist. -EISDIR for what can
 * only be a directory ("a/", "..", "/"). Says nothing. */
[[nodiscard]] int place_find(const char *path, bool follow, struct place *ret_place);
void place_done(struct place *p);

/* Makes the directories that a path lies in; the user's, in any case. */
[[nodiscard]] int files_make_parents(struct task *t, const char *path);
[[nodiscard]] int files_make_directory(struct task *t, const char *path, mode_t mode);
[[nodiscard]] int place_make_directory(struct task *t, const struct place *place, mode_t mode);

/* A name that nobody has: ".brig-" and random digits. */
#define FRESH_SIZE 23
void files_fresh_name(char name[static FRESH_SIZE]);
bool files_is_fresh_name(const char *name);

/* Whether this process has root in reserve, and who it is from now on. */
enum identity { AS_USER, AS_ROOT };
bool task_has_root(void);
void task_be(struct task *t, enum identity who);

/* A step of a call that is lent to: by the user, and refused, by root. The expression is -errno when it fails. */
#define AS_EITHER(t, expression)                                       \
	({                                                             \
		int _r = (expression);                                 \
		if ((t)->is_lent && (_r == -EACCES || _r == -EPERM)) { \
			task_be((t), AS_ROOT);                         \
			_r = (expression);                             \
			task_be((t), AS_USER);                         \
		}                                                      \
		_r;                                                    \
	})

/*
 * A folder that one identity makes beside a place, in which the other makes or puts LENT_NAME, for the first one
 * to move it from there. lend() and lent_done() are called as who makes it.
 */
#define LENT_NAME "new"
struct lent {
	int parent; /* borrowed */
	int dir;    /* -EBADF: there is none */
	char name[FRESH_SIZE];
};
#define LENT_NONE ((struct lent){ .dir = -EBADF })
[[nodiscard]] int lend(int parent, struct lent *ret_lent);
void lent_done(struct lent *l); /* with what is still in it */

/* The two things to do with it, called and left as the user. */
[[nodiscard]] int lend_directory(struct task *t, const struct place *place, mode_t mode);
[[nodiscard]] int lend_move(struct task *t, const struct place *from, const struct place *to,
			    bool exclusive);

/*
 * Where bytes go: a file from an offset on. Blocks of zeros are left out, as holes, unless it is
 * appended to; sink_finish() then gives it its length.
 */
struct sink {
	int fd; /* borrowed */
	uint64_t at;
	bool appends;
};
[[nodiscard]] int sink_put(struct sink *s, const void *data, size_t len);
[[nodiscard]] int sink_finish(const struct sink *s);

/* A new file beside a place, which becomes that place when it is whole. */
struct fresh {
	struct task *task;
	const struct place *place; /* borrowed */
	int fd;
	char name[FRESH_SIZE]; /* "" when there is none (any more) */
	struct lent lent;      /* where it is, until it is kept */
};
#define FRESH_NONE ((struct fresh){ .fd = -EBADF, .lent.dir = -EBADF })
[[nodiscard]] int fresh_make(struct task *t, const struct place *place, struct fresh *ret_fresh);
[[nodiscard]] int fresh_keep(struct fresh *f, bool exclusive);
void fresh_done(struct fresh *f); /* removes it unless it was kept */

/* A directory, to be read: not through a link at its end. NULL with errno. */
void *files_open_directory(int dir, const char *name);

/* Those that a user may set, access lists among them. -errno where one cannot be had or set. */
[[nodiscard]] int files_copy_attributes(int from, int to);

/* Those that begin with the call's NAME, by its VARIABLEs; nothing without a NAME. */
[[nodiscard]] int files_replace_attributes(struct task *t, int fd);

#endif
