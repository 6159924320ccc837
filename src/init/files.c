#include "init/files.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "init/files_internal.h"

struct files_bounds files_bounds = {
	.entries = 1000000,
	.depth = 64,
	.directories = 8192,
	.path = 32 * KIB,
	.unsized = 64 * MIB,
};

/* What a call says when it succeeded: some have said all already, some say how much it was. */
enum ending { END_DONE, END_SIZE, END_SAID };

static const struct handler {
	int (*run)(struct task *t);
	enum ending ending;
	bool changes; /* what is there; else it can be made once more as somebody else */
} handlers[MESSAGE_TYPE_COUNT] = {
	[MESSAGE_STAT] = { files_stat, END_SAID, false },
	[MESSAGE_LIST] = { files_list, END_DONE, false },
	[MESSAGE_READ] = { files_read, END_SIZE, false },
	[MESSAGE_WRITE] = { files_write, END_SIZE, true },
	[MESSAGE_MOVE] = { files_move, END_DONE, true },
	[MESSAGE_REMOVE] = { files_remove, END_DONE, true },
	[MESSAGE_MAKE] = { files_make, END_DONE, true },
	[MESSAGE_WATCH] = { files_watch, END_DONE, false },
	[MESSAGE_ATTRIBUTES] = { files_attributes, END_DONE, false },
	[MESSAGE_ATTRIBUTE_SET] = { files_attribute_set, END_DONE, false },
};

bool files_has(enum message_type type)
{
	return (size_t)type < ARRAY_SIZE(handlers) && handlers[type].run;
}

/* What init arranged for itself is not for here; a reader that left, or a limit that was reached,
 * is an error and no death. */
static void set_signals(void)
{
	static const int defaults[] = { SIGTERM, SIGINT, SIGHUP, SIGCHLD };
	static const int ignored[] = { SIGPIPE, SIGXFSZ };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		signal(defaults[i], SIG_DFL);
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The fields live until the next message is taken, and the call is needed longer. */
static int keep_call(struct task *t, struct message *m)
{
	unsigned char *fields = malloc(MAX(m->len, (size_t)1));

	t->call = *m;
	m->descriptor_count = 0;
	if (!fields) {
		t->call.len = 0;
		return err_set(&t->err, -ENOMEM, "out of memory");
	}
	memcpy(fields, m->fields, m->len);
	t->call.fields = fields;
	return 0;
}

static int run(struct task *t)
{
	static const enum field paths[] = { FIELD_PATH, FIELD_TO };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (*message_text(&t->call, paths[i], "/") == '\0')
			return err_set(&t->err, -EINVAL, "the path is empty");
	t->is_lent = t->has_root && handlers[t->call.type].changes;
	r = handlers[t->call.type].run(t);
	if ((r != -EACCES && r != -EPERM) || !t->has_root || t->is_lent || t->sent > 0 ||
	    t->moved > 0)
		return r;
	t->err = ERR_NONE;
	task_be(t, AS_ROOT);
	return handlers[t->call.type].run(t);
}

static void answer(struct task *t, int r)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DONE, t->call.call);
	char absolute[PATH_MAX];

	if (r < 0) {
		(void)task_fail(t, r, task_path(t));
		channel_answer_error(t->channel, t->call.call, r, "%s", t->err.text);
	} else if (handlers[t->call.type].ending != END_SAID) {
		if (handlers[t->call.type].ending == END_SIZE)
			draft_number(&d, FIELD_SIZE, t->moved);
		/* Only here it is known where the home is. */
		if (task_path(t)[0] != '/' && task_absolute(task_path(t), absolute))
			draft_text(&d, FIELD_PATH, absolute);
		(void)!channel_send(t->channel, &d, NULL, 0);
	}
}

/* Until the last word is sent, or nobody is there to hear it. What still comes is nothing to us. */
static void flush(struct task *t)
{
	while (!t->is_over && channel_waiting(t->channel) > 0) {
		int r = task_wait(t, -EBADF, 0, -1);

		if (r < 0 && r != -ECANCELED)
			return;
	}
}

void files_serve(struct message *m, struct channel *channel)
{
	struct task t = { .channel = channel,
			  .credit = MESSAGE_WINDOW,
			  .has_root = task_has_root() };
	int r;

	set_signals();
	r = keep_call(&t, m);
	r = r < 0 ? r : run(&t);
	/* The reader of a pipe sees its end no later than the answer. */
	message_done(&t.call);
	if (!t.is_over)
		answer(&t, r);
	flush(&t);
	_exit(0);
}
