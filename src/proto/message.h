/*
 * message.h - what client, warden and init say to each other
 *
 *	client  --(socket of the sandbox)-->  warden  --(socket pair, or a machine's channel)-->  init
 *
 * A message is a type, the number of the call that it belongs to, fields, and sometimes descriptors.
 * Whoever asks chooses the number of the call, and every answer bears it. One table (message.c) says
 * for each type who may send it, which fields it must and may have and how many descriptors; both
 * sides check what they receive against it before they look at it, so code behind the check can rely
 * on it: a text ends with its one NUL, a number is 8 bytes, what is required is there.
 *
 *	calls     START            -> STARTED, later EXITED; with START_READ what an ATTACH has between them
 *	          LIST, PROCESSES  -> ENTRY, PROCESS_IS (any number), then DONE
 *	          READ, ATTACH     -> DATA (any number), then DONE or EXITED
 *	          all others       -> DONE, or the one answer that the table names
 *	any call may be answered by ERROR instead, which ends it, and be ended by CANCEL.
 *
 * On the wire, little-endian: a header of 12 bytes (length of the fields, type, version, number of
 * descriptors, call), then the fields: tag (16 bits), length (32 bits), content. Nothing needs to be
 * aligned.
 *
 * Bulk goes through descriptors where the channel passes them (a READ or a START brings pipes along).
 * Where it does not (the channel of a virtual machine), the same calls without descriptors send DATA;
 * then the sender may have WINDOW bytes on the way for a call, and CREDIT gives it more.
 */
#ifndef BRIG_PROTO_MESSAGE_H
#define BRIG_PROTO_MESSAGE_H

#include <stdbool.h>

#include "base/buf.h"

#define MESSAGE_VERSION     1
#define MESSAGE_HEADER      12
#define MESSAGE_MAX         (256 * KIB) /* of the fields */
#define MESSAGE_DATA_MAX    (32 * KIB)  /* of one DATA */
#define MESSAGE_WINDOW      (256 * KIB)
#define MESSAGE_DESCRIPTORS 4

/* The abstract socket at which init can be asked from inside, where it can be (init/sudo.h). */
#define INIT_SUDO_NAME "brig-sudo"

/* Who speaks; a bit set, as the warden hands much on. */
enum speaker {
	FROM_CLIENT = 1,
	FROM_WARDEN = 2,
	FROM_INIT = 4,
	FROM_DAEMON = 8, /* to a forge */
	FROM_FORGE = 16,
};

enum message_type {
	/* Processes: asked by a client, handed on by the warden, answered by init. */
	/* Descriptors: standard input, output and error; or the slave of a terminal; or with START_READ
	 * those of an ATTACH. */
	MESSAGE_START = 1,
	MESSAGE_STARTED, /* descriptor: the master of a terminal made inside */
	MESSAGE_EXITED,
	MESSAGE_STOPPED, /* at its terminal, on the call of START: SIGNAL with SIGCONT goes on */
	/* Output that was kept, from OFFSET on; descriptors: for output and error, pipes of one's own, as
	 * they are made non-blocking. */
	MESSAGE_ATTACH,
	MESSAGE_INPUT, /* answered when all of it was taken: wait for that, and none is refused */
	MESSAGE_INPUT_END,
	MESSAGE_SIGNAL,
	MESSAGE_RESIZE,
	MESSAGE_PROCESSES,
	MESSAGE_PROCESS_IS,
	MESSAGE_USAGE,
	MESSAGE_USAGE_IS,

	/* Files, with the rights of a user of the sandbox. */
	MESSAGE_STAT, /* answered by one ENTRY; of a STAT and a LIST with NAME, ENTRY has attributes, too */
	MESSAGE_LIST,
	MESSAGE_ENTRY, /* with TO and LEADS where STAT_LEADS asked for it: where a link ends, and its mode */
	MESSAGE_READ, /* descriptor: a pipe to write to; else DATA follow. DONE says how much it was */
	MESSAGE_WRITE, /* descriptor: a pipe to read from; else DATA and DATA_END follow. With SIZE:
			* less is a failure, and so is a disk that has no room for it. With NAME: the
			* attributes that it names are replaced by the VARIABLEs */
	MESSAGE_MOVE,
	MESSAGE_REMOVE,
	MESSAGE_MAKE,  /* a directory; with TARGET a symbolic link */
	MESSAGE_WATCH, /* answered by DONE once it watches, then CHANGE_IS until CANCEL */
	MESSAGE_CHANGE_IS,
	MESSAGE_ATTRIBUTES,
	MESSAGE_ATTRIBUTE_IS,
	MESSAGE_ATTRIBUTE_SET, /* without DATA: removed */

	/* Ports: init dials inside. */
	MESSAGE_DIAL,      /* answered by CONNECTED */
	MESSAGE_CONNECTED, /* descriptor: the connection; else DATA go both ways, and DATA_END */

	/* Any call. */
	MESSAGE_DATA,
	MESSAGE_DATA_END,
	MESSAGE_CREDIT,
	MESSAGE_CANCEL,
	MESSAGE_DONE,
	MESSAGE_ERROR,

	/* The sandbox as a whole: answered by the warden. */
	MESSAGE_STATUS,
	MESSAGE_STATUS_IS,
	MESSAGE_PAUSE,
	MESSAGE_RESUME,
	MESSAGE_EXTEND,
	MESSAGE_KILL, /* answered by DONE when nothing is left of it */
	MESSAGE_HOLD, /* frozen until CANCEL or the end of the client; answered by HELD */
	MESSAGE_HELD, /* descriptor: the tree of all that the sandbox wrote */
	MESSAGE_PORT, /* descriptor: a socket that listens, for connections to PORT inside */
	MESSAGE_PORTS,
	MESSAGE_PORT_IS,
	MESSAGE_NETWORK, /* rules of the network, ALLOW and DENY, instead of those that there are */

	MESSAGE_READY, /* of init, once: it is there. Call 0 */

	/* Between a daemon and what makes sandboxes for it (cli/forge.c). */
	MESSAGE_FORGE,  /* the options of "brig create", as ARGUMENTs */
	MESSAGE_FORGED, /* TEXT: the manifest */
	MESSAGE_TYPE_COUNT,
};

/* Kinds: how the content of a field looks. */
enum field_kind { KIND_NUMBER, KIND_TEXT, KIND_BYTES };

enum field {
	FIELD_ARGUMENT = 1, /* repeated */
	FIELD_VARIABLE, /* "NAME=value", repeated: set over the sandbox's own environment; of a file: attributes */
	FIELD_DIRECTORY, /* to start in; relative: below the sandbox's working directory; "~" and "~/x": the
			  * home of the user */
	FIELD_USER, /* name or number; none: the sandbox's own user */
	FIELD_FLAGS,
	FIELD_ROWS,
	FIELD_COLUMNS,
	FIELD_PROCESS, /* init's number for what it started, from 1; never used again */
	FIELD_PID,     /* inside */
	FIELD_SIGNAL,
	FIELD_STATUS,  /* as from wait */
	FIELD_STREAM,  /* 1: output, 2: error */
	FIELD_DATA,    /* bytes */
	FIELD_DROPPED, /* bytes of output that are gone, before this */
	FIELD_PATH, /* absolute, or below the home of the user; of a list or watch: below its PATH */
	FIELD_TO,   /* likewise */
	FIELD_TARGET, /* of a symbolic link */
	FIELD_DEPTH,  /* of a list: 1 is the directory itself alone */
	FIELD_OFFSET,
	FIELD_SIZE,
	FIELD_MODE, /* as st_mode, with the type in an ENTRY */
	FIELD_UID,
	FIELD_GID,
	FIELD_MODIFIED, /* ns since 1970 */
	FIELD_NAME,     /* of files: how the names of attributes begin */
	FIELD_CHANGE,   /* enum change_seen */
	FIELD_PORT,
	FIELD_CODE, /* of an ERROR: errno, positive */
	FIELD_TEXT,
	FIELD_STATE, /* of a sandbox: enum sandbox_state */
	FIELD_TIME,  /* ms since 1970: when it was made, or started */
	FIELD_LEFT, /* ms until the deadline; not there: there is none; see EXTEND_NEVER. Of a START: its
			  * group is killed then, whoever is still there */
	FIELD_CPU,       /* us used */
	FIELD_MEMORY,    /* bytes in use now */
	FIELD_PEAK,      /* most bytes so far */
	FIELD_COUNT_OF,  /* of processes */
	FIELD_DISK,      /* bytes used of the sandbox's own files */
	FIELD_DISK_SIZE, /* and how many there can be */
	FIELD_LIMIT,     /* bytes of memory that there can be */
	FIELD_HITS,      /* bit set of enum limit_hit */
	FIELD_LABEL, /* whatever who started a process wants to know again; cut off at LABEL_MAX */
	FIELD_ENDED, /* ms since 1970 */
	FIELD_LEADS, /* the mode of what a link leads to */
	FIELD_BY_ROOT, /* of a call for files, 1: what the user has no right to do root does for him,
			  * where there is one; what is made is the user's */
	FIELD_ALLOW,   /* repeated: a rule as in net.allow */
	FIELD_DENY,    /* repeated: a rule as in net.deny */
	FIELD_COUNT,
};

enum start_flag {
	START_TERMINAL = 1, /* a terminal of its own: made inside, or the descriptor given */
	START_KEPT = 2,     /* no descriptors: output is kept for ATTACH, input comes by INPUT */
	START_INPUT = 4,    /* of a kept one: it has an input at all; else /dev/null */
	/* Of a kept one: its first reader is this call, as if ATTACH with FOLLOW and WHOLE had come before
	 * its first byte. EXITED comes when that reader has all of it, or is gone. */
	START_READ = 8,
	START_CLOSED = 16, /* that reader has ATTACH_CLOSED, too */
};
enum limit_hit { HIT_MEMORY = 1, HIT_PIDS = 2, HIT_DISK = 4 }; /* what the kernel refused so far */
enum process_flag { PROCESS_RUNNING = 1, PROCESS_KEPT = 2, PROCESS_TERMINAL = 4 };
enum signal_flag { SIGNAL_GROUP = 1 }; /* the whole group, not the process alone */
enum attach_flag {
	ATTACH_FOLLOW = 1, /* until it exits; else DONE after what is there */
	ATTACH_WHOLE = 2,  /* nothing is dropped: while this reader is behind, the process waits */
	ATTACH_REST = 4,   /* not from OFFSET on, but from where the last one with WHOLE got to */
	/* With FOLLOW: until nobody can write any more, heirs of its pipes included; but not so if it was
	 * killed. */
	ATTACH_CLOSED = 8,
};
enum write_flag {
	WRITE_EXCLUSIVE = 1, /* it must be new */
	WRITE_PARENTS = 2,   /* directories on the way are made */
	WRITE_MODE = 4,      /* MODE also where the file exists */
	WRITE_APPEND = 8,
	WRITE_ENDED = 16, /* from a pipe: whole when DATA_END has come, too. A pipe ends with its
			   * writer as well, however that ended */
};
enum stat_flag {
	STAT_FOLLOW = 1, /* what a symbolic link leads to */
	STAT_LEADS =
		2, /* of a LIST, too: of a link also where it ends; and PATH is absolute in a STAT */
};
enum entry_flag { ENTRY_CLOSED = 1 }; /* of a list: a directory that could not be gone into */
enum move_flag {
	MOVE_EXCLUSIVE = 1, /* TO must be new */
	MOVE_PARENTS = 2,   /* directories on the way to it are made */
};
enum tree_flag {
	TREE_RECURSIVE = 1,
	TREE_PARENTS = 2,
	TREE_OPTIONAL = 4, /* no error if absent/there */
	TREE_MODE = 8,     /* MODE also where the directory exists */
};

/* LEFT of an EXTEND that removes the deadline. */
#define EXTEND_NEVER UINT64_MAX

/* Of FIELD_LABEL, with its NUL. */
#define LABEL_MAX (8 * KIB)

enum change_seen {
	SEEN_MADE,
	SEEN_CHANGED,
	SEEN_REMOVED,
	SEEN_MOVED, /* PATH is the old name, TO the new one */
	SEEN_ATTRIBUTES,
	SEEN_LOST, /* more happened than could be told: look anew */
	SEEN_GONE, /* the watched tree itself; nothing more comes */
	SEEN_COUNT,
};
extern const char *const change_seen_names[SEEN_COUNT];

enum sandbox_state { STATE_RUNNING, STATE_PAUSED, STATE_ENDING, STATE_COUNT };
extern const char *const sandbox_state_names[STATE_COUNT];

/* What was received: the fields are in memory of the channel, until the next one is taken. */
struct message {
	enum message_type type;
	uint32_t call;
	const unsigned char *fields;
	size_t len;
	int descriptors[MESSAGE_DESCRIPTORS]; /* the receiver's to close, see message_done() */
	size_t descriptor_count;
};

const char *message_name(unsigned int type); /* "START"; "?" */

/* Whether a speaker may send this type at all. */
bool message_is_from(unsigned int type, enum speaker speaker);

/*
 * The check of all that was received: type, fields, number of descriptors. 0 or -EPROTO, with a few
 * words about what is wrong.
 */
[[nodiscard]] int message_check(unsigned int type, enum speaker speaker,
				const unsigned char *fields, size_t len, size_t descriptors,
				const char **ret_why);

/* After the check. Fallbacks stand for a field that is not there. */
bool message_has(const struct message *m, enum field field);
uint64_t message_number(const struct message *m, enum field field, uint64_t fallback);
const char *message_text(const struct message *m, enum field field, const char *fallback);
const void *message_bytes(const struct message *m, enum field field, size_t *ret_len);

/* Repeated texts, in their order: NULL behind the last. *at begins with 0. */
const char *message_next_text(const struct message *m, enum field field, size_t *at);

int message_take_descriptor(struct message *m, size_t index); /* -EBADF where there is none */
void message_done(struct message *m);                         /* closes those that nobody took */

/*
 * To be sent. Additions that fail (out of memory, too long) stick, and the sending fails.
 *
 *	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_STAT, call);
 *	draft_text(&d, FIELD_PATH, path);
 *	r = channel_send(channel, &d, NULL, 0);
 */
struct draft {
	enum message_type type;
	uint32_t call;
	struct buf fields;
};

#define DRAFT(message_type, number) \
	((struct draft){ .type = (message_type), .call = (number), .fields = BUF(MESSAGE_MAX) })

void draft_number(struct draft *d, enum field field, uint64_t value);
void draft_text(struct draft *d, enum field field, const char *text); /* NULL adds nothing */
void draft_bytes(struct draft *d, enum field field, const void *data, size_t len);
void draft_done(struct draft *d);

/* A message as it was received, to be handed on under another number. */
void draft_copy(struct draft *d, const struct message *m);

#endif
