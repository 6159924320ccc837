/* attach.c - brig attach: back to a process that was left alone (brig exec -d) */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/kept.h"

static const struct option attach_options[] = {
	{ 'i', "interactive", NULL, "give the process your standard input" },
	{ 0, "raw", NULL, "do not make the output harmless for the terminal" },
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

struct attach {
	bool has_input, is_raw;
	const char *words[2]; /* sandbox, process */
};

static int parse(int argc, char **argv, struct attach *a, uint64_t *ret_process, struct err *err)
{
	struct args args = { .argc = argc, .argv = argv, .at = 1 };
	const char *name, *value;
	int r, count = 0;

	while (args.at < argc) {
		r = args_next(&args, &verb_attach, &name, &value, err);
		if (r < 0)
			return r;
		if (r > 0 && str_equal(name, "help"))
			return 1;
		if (r > 0) {
			a->has_input |= str_equal(name, "interactive");
			a->is_raw |= str_equal(name, "raw");
		} else if (args.at < argc && count == 2) {
			return err_set(err, -EINVAL, "attach: too many words: \"%.40s\"",
				       argv[args.at]);
		} else if (args.at < argc) {
			a->words[count++] = argv[args.at++];
		}
	}
	if (count < 2)
		return err_set(err, -EINVAL,
			       "attach: to what? (brig attach SANDBOX PROCESS, as \"brig exec -d\" "
			       "printed it)");
	r = parse_count(a->words[1], ret_process, err);
	return r < 0 ? err_prefix(err, "attach: process") : 0;
}

/* What the process is, before it is attached to. */
static int look(struct session *s, uint64_t process, uint64_t *ret_flags, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_PROCESSES, client_number(&s->client));
	bool is_there = false, is_over = false;
	struct message m;
	int r = client_call(&s->client, &d, NULL, 0, &m, err);

	for (; r == 0 && !is_over; r = is_over ? 0 : client_next(&s->client, d.call, &m, err)) {
		if (m.type == MESSAGE_PROCESS_IS &&
		    message_number(&m, FIELD_PROCESS, 0) == process) {
			*ret_flags = message_number(&m, FIELD_FLAGS, 0);
			is_there = true;
		}
		is_over = m.type != MESSAGE_PROCESS_IS;
		message_done(&m);
	}
	if (r == 0 && !is_there)
		return err_set(err, -ESRCH, "sandbox %s has no process %" PRIu64, s->client.id,
			       process);
	if (r == 0 && !(*ret_flags & PROCESS_KEPT))
		return err_set(err, -EINVAL,
			       "process %" PRIu64
			       " was not started by \"brig exec -d\": its output "
			       "went elsewhere",
			       process);
	return r;
}

/* Keys go to a terminal inside as they are typed. */
static void enter_terminal(struct kept *kept, uint64_t flags)
{
	struct session *s = kept->session;

	s->has_terminal = flags & PROCESS_TERMINAL;
	for (int fd = 2; fd >= 0; fd--)
		if (isatty(fd))
			s->terminal.outer = fd;
	if (!s->has_terminal || s->terminal.outer < 0 || !(flags & PROCESS_RUNNING))
		return;
	session_resize(s);
	kept->is_interactive =
		kept->has_input && s->terminal.outer == 0 && tcgetattr(0, &s->terminal.saved) == 0;
	s->terminal.is_interactive = kept->is_interactive;
	terminal_enter(&s->terminal);
}

/* One line where the end was not the process's own. */
static int finish(const struct kept *kept, const struct err *err)
{
	const struct session *s = kept->session;

	if (s->end == SESSION_LOST) {
		fprintf(stderr, "brig: %s, and the process with it\n", err->text);
	} else if (kept->has_failed) {
		return EXIT_BRIG;
	} else if (kept->failure < 0 && kept->failure != -EPIPE) {
		return complain_text("cannot write the output: %s", strerror(-kept->failure));
	} else if (s->end == SESSION_LEFT || kept->failure < 0) {
		fprintf(stderr, "brig: process %" PRIu64 " of sandbox %s goes on\n", s->process,
			s->client.id);
		return s->status ? 128 + s->status : 0;
	}
	return session_exit_code(s, err);
}

static int attach(const struct attach *a, uint64_t process, struct err *err)
{
	_cleanup_(session_done) struct session s = SESSION_NONE;
	struct kept kept = {
		.session = &s, .is_raw = a->is_raw, .is_following = true, .has_input = a->has_input
	};
	uint64_t flags = 0;
	int r = client_open(a->words[0], &s.client, err);

	s.is_attached = true;
	r = r < 0 ? r : look(&s, process, &flags, err);
	r = r < 0 ? r : kept_open(&kept, err);
	if (r == 0 && kept_add(&kept, process, "", true) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r == 0) {
		s.process = process;
		enter_terminal(&kept, flags);
		kept_run(&kept, err);
	}
	kept_done(&kept);
	terminal_done(&s.terminal);
	return r < 0 ? complain(err) : finish(&kept, err);
}

static int verb_attach_main(int argc, char **argv)
{
	struct attach a = { 0 };
	struct err err = ERR_NONE;
	uint64_t process = 0;
	int r = parse(argc, argv, &a, &process, &err);

	if (r < 0)
		return complain(&err);
	if (r > 0) {
		print_help(&verb_attach);
		return 0;
	}
	return attach(&a, process, &err);
}

const struct verb verb_attach = {
	.name = "attach",
	.usage = "[options] SANDBOX PROCESS",
	.summary = "go back to a process that \"brig exec -d\" started",
	.text = "Prints what the process wrote so far, as far as it was kept, and goes on with it "
		"until it ends. PROCESS is the number that \"brig exec -d\" printed. If some of "
		"the "
		"output is gone, a line on standard error says how much. Any number of clients may "
		"be attached.\n\n"
		"With -i standard input goes to a process that was started with -i, and its end is "
		"the end of the process's. A process that was started with -t gets the "
		"keys as they are typed; Ctrl-] leaves it.\n\n"
		"SIGINT (Ctrl-C), SIGTERM and SIGQUIT are sent on to the process and all of its "
		"process group; the second one, and any SIGHUP, ends brig attach, and the process "
		"goes "
		"on.\n\n"
		"The exit status is that of the process, as for \"brig exec\"; 0 after Ctrl-].",
	.example = "brig attach k3x 2\nbrig exec -dit k3x bash; brig attach -i k3x 3",
	.options = attach_options,
	.run = verb_attach_main,
};
