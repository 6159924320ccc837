#include "warden/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "jail/numbers.h"
#include "jail/syscalls.h"
#include "tier/view.h"
#include "warden/presence.h"

/* What a call asks for. */
enum wish {
	WISH_OPEN, /* flags in an argument say what */
	WISH_READ,
	WISH_CHANGE,
	WISH_METADATA, /* told only when it is refused */
	WISH_CONNECT,
	WISH_SOCKET,
};

/* One row per call that is recorded: what it is called in an event. */
static const struct deed {
	int number;
	enum wish wish;
	const char *action;
	int8_t flags;   /* which argument, of an open */
	bool is_second; /* of two paths the second is the one that appears */
} deeds[] = {
	{ __NR_openat, WISH_OPEN, "open", 2, false },
	{ __NR_execve, WISH_READ, "exec", 0, false },
	{ __NR_execveat, WISH_READ, "exec", 0, false },
	{ __NR_connect, WISH_CONNECT, "connect", 0, false },
	{ __NR_socket, WISH_SOCKET, "socket", 0, false },
	{ __NR_mkdirat, WISH_CHANGE, "mkdir", 0, false },
	{ __NR_mknodat, WISH_CHANGE, "mknod", 0, false },
	{ __NR_unlinkat, WISH_CHANGE, "remove", 0, false },
	{ __NR_truncate, WISH_CHANGE, "truncate", 0, false },
	{ __NR_renameat, WISH_CHANGE, "rename", 0, true },
	{ __NR_renameat2, WISH_CHANGE, "rename", 0, true },
	{ __NR_linkat, WISH_CHANGE, "link", 0, true },
	{ __NR_symlinkat, WISH_CHANGE, "symlink", 0, true },
	{ __NR_fchmodat, WISH_METADATA, "chmod", 0, false },
	{ __NR_fchmodat2, WISH_METADATA, "chmod", 0, false },
	{ __NR_fchownat, WISH_METADATA, "chown", 0, false },
	{ __NR_utimensat, WISH_METADATA, "utime", 0, false },
#ifdef __x86_64__
	{ __NR_open, WISH_OPEN, "open", 1, false },
	{ __NR_creat, WISH_CHANGE, "create", 0, false },
	{ __NR_mkdir, WISH_CHANGE, "mkdir", 0, false },
	{ __NR_mknod, WISH_CHANGE, "mknod", 0, false },
	{ __NR_unlink, WISH_CHANGE, "remove", 0, false },
	{ __NR_rmdir, WISH_CHANGE, "remove", 0, false },
	{ __NR_rename, WISH_CHANGE, "rename", 0, true },
	{ __NR_link, WISH_CHANGE, "link", 0, true },
	{ __NR_symlink, WISH_CHANGE, "symlink", 0, true },
	{ __NR_chmod, WISH_METADATA, "chmod", 0, false },
	{ __NR_chown, WISH_METADATA, "chown", 0, false },
#endif
};

static const struct deed *find_deed(uint32_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(deeds); i++)
		if (deeds[i].number == (int)number)
			return &deeds[i];
	return NULL;
}

static const char closed_reason[] =
	"the program's file can be executed and not read, so what it asks "
	"for cannot be read either: make the file readable";

static const char *const made_up_trees[] = { VIEW_HOME, VIEW_TMP, "/var/tmp", "/dev", "/proc" };

/* What a sandbox has of its own, whatever the rules say. */
static bool is_its_own(const struct witness *w, const char *path)
{
	const struct jail *jail = &w->tj->jail;

	if (w->tj->is_contained) {
		for (size_t i = 0; i < ARRAY_SIZE(made_up_trees); i++)
			if (path_is_below(path, made_up_trees[i]))
				return true;
		return view_makes_up(path) || policy_has_image(w->policy) ||
		       w->policy->system == SYSTEM_OWN;
	}
	for (size_t i = 0; i < jail->writable_count; i++)
		if (path_is_below(path, jail->writable[i]))
			return true;
	return false;
}

/* Whether the policy refuses a path, and by which rule. */
static bool is_refused(const struct witness *w, const char *path, bool changes,
		       const struct path_rule **ret_rule)
{
	enum access access = policy_path_access(&w->policy->fs, path, ret_rule);

	if (!w->tj->is_contained && w->tj->has_gate && !changes &&
	    str_equal(path, OUTLET_RESOLV_CONF)) {
		*ret_rule = NULL;
		return false;
	}
	if (*ret_rule &&
	    !(w->tj->is_contained && policy_has_image(w->policy) && (*ret_rule)->origin.is_shipped))
		return access < (changes ? ACCESS_OVERLAY : ACCESS_READ) &&
		       (changes || presence_of(path));
	*ret_rule = NULL;
	return !is_its_own(w, path) && (changes || presence_of(path));
}

/*
 * On the process tier a folder that leads to a narrower rule stays where it is, and nothing is put
 * in its place but what is made there. The rule that says so, or NULL.
 */
static const struct path_rule *rule_inside(const struct witness *w, const char *path)
{
	const struct path_rules *rules = &w->policy->fs;

	for (size_t i = 0; w->tj->granted.is_carried && i < rules->count; i++) {
		const struct path_rule *rule = &rules->items[i];

		if (path_is_below(rule->path, path) && !str_equal(rule->path, path) &&
		    rule->access < policy_path_around(rules, rule))
			return rule;
	}
	return NULL;
}

/* Whether it is a program that the keeper could open, and that nobody can execute (carry.h). */
static bool is_beyond_exec(const struct witness *w, const char *path)
{
	const struct files_granted *granted = &w->tj->granted;
	const struct carry_place *place;

	if (!granted->is_carried || !granted->carry.reads)
		return false;
	place = carry_place_of(&granted->carry, path);
	if (!place || place->access < ACCESS_READ || place->grant >= ACCESS_READ)
		return false;
	for (size_t i = 0; i < granted->executable.count; i++)
		if (path_is_below(path, granted->executable.items[i]))
			return false;
	/* Where a link leads is not known here. */
	return presence_is_plain(path);
}

static const char *reason_of(const struct path_rule *rule)
{
	if (!rule)
		return "no rule of the policy covers this path";
	return rule->access == ACCESS_NONE
		       ? "the policy hides this path"
		       : "the policy lets the sandbox read this path, not change it";
}

/* As much of a text as fits. */
static void put(char *to, size_t size, const char *text)
{
	size_t len = MIN(strlen(text), size - 1);

	memcpy(to, text, len);
	to[len] = '\0';
}

/* The event has all of the object, the denial what fits. */
static void tell(struct witness *w, const struct record_entry *entry, enum trace_kind kind,
		 struct denial *d, const char *object, bool is_denied)
{
	const struct trace_event event = {
		.kind = kind,
		.verdict = is_denied ? VERDICT_DENY : VERDICT_ALLOW,
		.action = d->action,
		.object = object,
		.exec = entry->exec,
		.parent = entry->parent,
		.pid = entry->pid,
		.rule = { d->rule_source[0] ? d->rule_source : NULL, d->rule_key, d->rule_line },
		.reason = d->reason,
		.allow_with = d->allow_with,
		.at = entry->time,
	};

	put(d->object, sizeof(d->object), object);
	if (is_denied)
		witness_deny(w, d);
	if (w->trace && w->failure == 0)
		w->failure = trace_add(w->trace, &event);
}

static void name_rule(struct denial *d, const struct path_rule *rule)
{
	if (!rule)
		return;
	put(d->rule_source, sizeof(d->rule_source), rule->origin.source);
	put(d->rule_key, sizeof(d->rule_key), "fs");
	d->rule_line = rule->origin.line;
}

/* What the path alone does not tell. True when it is a refusal, with its words. */
static bool judge_more(const struct witness *w, const struct deed *deed, const char *path,
		       const struct path_rule **rule, struct denial *d)
{
	const struct path_rule *inside = deed->is_second ? rule_inside(w, path) : NULL;

	if (inside) {
		*rule = inside;
		put(d->reason, sizeof(d->reason),
		    "a rule of the policy protects something inside: it stays in its place");
		return true;
	}
	if (!str_equal(deed->action, "exec") || !is_beyond_exec(w, path))
		return false;
	put(d->reason, sizeof(d->reason),
	    "the policy hides something in this folder: on the process tier a program can be "
	    "executed there only if it existed at the start");
	put(d->allow_with, sizeof(d->allow_with), "--isolation container");
	return true;
}

static bool open_changes(const struct record_taken *t, const struct deed *deed)
{
	unsigned int flags = (unsigned int)t->entry.args[deed->flags];

	return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

static const char *path_action(const struct record_taken *t, const struct deed *deed)
{
	if (deed->wish != WISH_OPEN)
		return deed->action;
	return open_changes(t, deed) ? "write" : "read";
}

/* A path and what is to be done with it. */
static void judge_path(struct witness *w, const struct record_taken *t, const struct deed *deed,
		       int base, bool changes)
{
	const char *path = t->texts[base + 1];
	const struct path_rule *rule = NULL;
	struct denial d = { 0 };
	char absolute[RECORD_TEXT_MAX * 2];
	bool is_denied = false;

	put(d.action, sizeof(d.action), path_action(t, deed));
	if (path_resolve(t->texts[base], path, absolute, sizeof(absolute)))
		is_denied = is_refused(w, absolute, changes, &rule);
	else
		put(absolute, sizeof(absolute),
		    t->entry.is_unread ? "a path that could not be read" : path);
	if (is_denied) {
		put(d.reason, sizeof(d.reason), reason_of(rule));
		witness_offer(&d, changes ? "--allow-write" : "--allow-read", absolute);
	} else {
		is_denied = judge_more(w, deed, absolute, &rule, &d);
	}
	if (rule)
		name_rule(&d, rule);
	tell(w, &t->entry, str_equal(deed->action, "exec") ? TRACE_EXEC : TRACE_FILE, &d, absolute,
	     is_denied);
}

static bool is_loopback(const char *text)
{
	return str_starts(text, "127.") || str_starts(text, "[::1]:") ||
	       str_starts(text, "unix:") || str_starts(text, "[::ffff:127.");
}

static void judge_connect(struct witness *w, const struct record_taken *t)
{
	const char *address = t->texts[RECORD_PATH];
	bool is_denied = !is_loopback(address);
	struct denial d = { .action = "connect" };

	if (is_denied)
		put(d.reason, sizeof(d.reason), "the sandbox has no network but its own loopback");
	tell(w, &t->entry, TRACE_NET, &d, address[0] ? address : "an unknown address", is_denied);
}

/* What could not be copied was not let through, whatever the policy would have said. */
static void judge_unread(struct witness *w, const struct record_taken *t, const struct deed *deed)
{
	bool is_connect = deed->wish == WISH_CONNECT;
	struct denial d = { 0 };

	put(d.action, sizeof(d.action), path_action(t, deed));
	put(d.reason, sizeof(d.reason),
	    t->entry.answer == -EACCES         ? closed_reason
	    : t->entry.answer == -ENAMETOOLONG ? "it is longer than any path can be"
					       : "nothing is where the program says it is");
	tell(w, &t->entry,
	     is_connect                        ? TRACE_NET
	     : str_equal(deed->action, "exec") ? TRACE_EXEC
					       : TRACE_FILE,
	     &d, is_connect ? "an unknown address" : "a path that could not be read", true);
}

static void judge_socket(struct witness *w, const struct record_taken *t)
{
	struct denial d = { .action = "socket" };
	char object[64];

	snprintf(object, sizeof(object), "a socket of family %d and type %d", (int)t->entry.args[0],
		 (int)t->entry.args[1] & 0xf);
	put(d.reason, sizeof(d.reason),
	    w->tj->is_contained ? "raw and packet sockets are for nobody inside"
				: "this sandbox has no network");
	tell(w, &t->entry, TRACE_NET, &d, object, true);
}

/* A call that the filter refuses in every sandbox, or in those that are not allowed it. */
static void judge_call(struct witness *w, const struct record_taken *t)
{
	const char *name = syscall_name(t->entry.number);
	struct denial d = { .action = "syscall" };
	unsigned int opens = name ? syscall_table[t->entry.number].opens : 0;
	/* Those that are told are refused whatever they ask for. */
	bool is_closed =
		name && t->entry.is_unread && syscall_table[t->entry.number].rule != RULE_TELL;
	char object[RECORD_TEXT_MAX + 64];

	snprintf(object, sizeof(object), "%s%s%s", name ? name : "an unknown call",
		 t->texts[RECORD_PATH][0] ? " " : "", t->texts[RECORD_PATH]);
	put(d.reason, sizeof(d.reason),
	    is_closed ? closed_reason
	    : opens   ? "the system call filter refuses it where the policy does not allow it"
		      : "the system call filter refuses it in every sandbox");
	if (opens & WITH_DEBUG)
		snprintf(d.allow_with, sizeof(d.allow_with), "--allow debug");
	else if (opens & WITH_NESTED)
		snprintf(d.allow_with, sizeof(d.allow_with), "--allow nested");
	tell(w, &t->entry, TRACE_SYSCALL, &d, object, true);
}

/* By the path where there is one and the policy closes it; else it is the kind of change. */
static void judge_metadata(struct witness *w, const struct record_taken *t, const struct deed *deed)
{
	char absolute[RECORD_TEXT_MAX * 2];
	const struct path_rule *rule;

	if (t->texts[RECORD_PATH][0] &&
	    path_resolve(t->texts[RECORD_BASE], t->texts[RECORD_PATH], absolute,
			 sizeof(absolute)) &&
	    is_refused(w, absolute, true, &rule))
		judge_path(w, t, deed, RECORD_BASE, true);
	else
		judge_call(w, t);
}

void witness_take(struct witness *w, const struct record_taken *t)
{
	const struct deed *deed = find_deed(t->entry.number);

	if (!deed) {
		judge_call(w, t);
		return;
	}
	if (t->entry.is_unread && t->entry.answer != RECORD_CONTINUED) {
		judge_unread(w, t, deed);
		return;
	}
	switch (deed->wish) {
	case WISH_OPEN:
		judge_path(w, t, deed, RECORD_BASE, open_changes(t, deed));
		break;
	case WISH_READ:
		judge_path(w, t, deed, RECORD_BASE, false);
		break;
	case WISH_CHANGE:
		judge_path(w, t, deed, deed->is_second ? RECORD_BASE_TWO : RECORD_BASE, true);
		/* What moves away goes where it was; what is linked can be written by its new name. */
		if (str_equal(deed->action, "rename") ||
		    (str_equal(deed->action, "link") && w->tj->granted.is_carried))
			judge_path(w, t, deed, RECORD_BASE, true);
		break;
	case WISH_METADATA:
		judge_metadata(w, t, deed);
		break;
	case WISH_CONNECT:
		judge_connect(w, t);
		break;
	case WISH_SOCKET:
		judge_socket(w, t);
		break;
	}
}

static const char *net_key(const struct policy *policy, const struct host_rule *rule)
{
	const struct {
		const struct host_rules *rules;
		const char *key;
	} lists[] = { { &policy->net_allow, "net.allow" },
		      { &policy->net_ask, "net.ask" },
		      { &policy->net_deny, "net.deny" } };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (rule >= lists[i].rules->items &&
		    rule < lists[i].rules->items + lists[i].rules->count)
			return lists[i].key;
	return "net";
}

void witness_gate(struct witness *w, const struct gate_event *event, uint32_t exec)
{
	const struct judgement *j = event->judgement;
	const struct record_entry entry = { .exec = exec, .parent = exec, .pid = event->pid };
	struct denial d = { 0 };
	enum trace_kind kind = event->action == GATE_NAME    ? TRACE_DNS
			       : event->action == GATE_LIMIT ? TRACE_LIMIT
							     : TRACE_NET;

	put(d.action, sizeof(d.action), gate_action_names[event->action]);
	put(d.reason, sizeof(d.reason), j->reason);
	put(d.allow_with, sizeof(d.allow_with), j->allow_with);
	if (j->rule) {
		put(d.rule_source, sizeof(d.rule_source), j->rule->origin.source);
		put(d.rule_key, sizeof(d.rule_key), net_key(w->policy, j->rule));
		d.rule_line = j->rule->origin.line;
	}
	tell(w, &entry, kind, &d, j->object, !j->is_allowed);
}

/* Whether a shell takes every byte as it is. */
static bool is_plain(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789_-./:=,+@%") == strlen(text);
}

void witness_offer(struct denial *d, const char *flag, const char *path)
{
	char printable[sizeof(d->allow_with)];
	int len;

	len = snprintf(printable, sizeof(printable), is_plain(path) ? "%s %s" : "%s '%s'", flag,
		       path);
	if (len >= (int)sizeof(printable))
		return;
	str_make_printable(printable);
	if (strchr(path, '\'') || !strstr(printable, path))
		return;
	put(d->allow_with, sizeof(d->allow_with), printable);
}

void witness_refused(struct witness *w, const struct outlet_message *message, const char *object)
{
	static const struct {
		const char *action, *object, *reason;
	} words[OUTLET_REFUSAL_COUNT] = {
		[OUTLET_REFUSED_SEND] = { "datagram", "an address",
					  "datagrams leave only for the resolver (port 53)" },
		[OUTLET_REFUSED_CONTROL] = { "datagram", "a control message",
					     "it could send a packet past the gate" },
		[OUTLET_REFUSED_BIND] = { "bind", "an address",
					  "the process tier has no network of its own: only "
					  "loopback without a port and published ports can "
					  "be bound" },
		[OUTLET_REFUSED_LISTEN] = { "listen", "a port",
					    "the process tier has no network of its own: others on "
					    "this host could connect where nothing is published" },
		/* Any call of the network: by its name. */
		[OUTLET_REFUSED_CLOSED] = { NULL, "an unknown address", closed_reason },
		[OUTLET_REFUSED_ADDRESS] = { NULL, "an unknown address",
					     "no address is where the program says it is" },
	};
	const struct record_entry entry = { .exec = message->exec,
					    .parent = message->exec,
					    .pid = message->pid };
	const unsigned int refusal = message->refusal;
	const char *name = syscall_name(message->number);
	struct denial d = { 0 };

	put(d.action, sizeof(d.action),
	    words[refusal].action ? words[refusal].action
	    : name                ? name
				  : "syscall");
	put(d.reason, sizeof(d.reason), words[refusal].reason);
	if (refusal == OUTLET_REFUSED_BIND || refusal == OUTLET_REFUSED_LISTEN)
		put(d.allow_with, sizeof(d.allow_with), "--isolation container");
	tell(w, &entry, TRACE_NET, &d,
	     object[0] && refusal != OUTLET_REFUSED_CONTROL ? object : words[refusal].object, true);
}

void witness_accept(struct witness *w, const char *peer, const char *port, const char *reason,
		    bool is_denied)
{
	const struct trace_event event = {
		.kind = is_denied ? TRACE_LIMIT : TRACE_NET,
		.verdict = is_denied ? VERDICT_DENY : VERDICT_ALLOW,
		.action = "accept",
		.object = peer,
		.publish = port,
		.reason = reason[0] ? reason : NULL,
	};

	if (w->trace && w->failure == 0)
		w->failure = trace_add(w->trace, &event);
}

void witness_deny(struct witness *w, const struct denial *denial)
{
	struct result *result = w->result;

	for (size_t i = 0; i < result->denial_count; i++)
		if (str_equal(result->denials[i].action, denial->action) &&
		    str_equal(result->denials[i].object, denial->object))
			return;
	if (result->denial_count == RESULT_MAX_DENIALS) {
		result->denials_left_out++;
		return;
	}
	result->denials[result->denial_count++] = *denial;
}
