/* v1_docs.c - what the routes of brig's own API take and give: runs, sandboxes and what is in them */
#include "serve/v1.h"
#include "serve/v1_result.h"
#include "serve/v1_show.h"
#include "trace/event.h"

#define JSON   "application/json"
#define EVENTS "text/event-stream"
#define BYTES  "application/octet-stream"

/* What can go wrong whenever a sandbox is asked for something. */
#define OF_SANDBOX (DOC_404 | DOC_502 | DOC_503)

#define SIZE_PATTERN     "^[0-9]+([.][0-9]+)?([KMGT](i?B)?)?$"
#define VARIABLE_PATTERN "^[A-Za-z_][A-Za-z0-9_]*$"
#define NAME_PATTERN     "^[a-z][a-z0-9-]*$"

static const struct doc_field any_text = { "value", DOC_TEXT, .max = 32000 };
/* No spaces: what stands behind one in a policy is for its author alone. */
static const struct doc_field any_rule = { "rule", DOC_TEXT, .min = 1, .max = 255,
					   .pattern = "^[!-~]+$" };
static const char *const languages[] = { "python", "javascript", "bash", "sh", NULL };
static const char *const ends[] = { "kill", "pause", NULL };
static const char *const states[] = { "running", "paused", NULL };

/* --- what a new sandbox may be --- */

static const struct doc_field net_fields[] = {
	{ "allow", DOC_LIST, .max = 256, .of = &any_rule,
	  .summary =
		  "what may be connected to, as in net.allow of a policy: \"api.example.com:443\", "
		  "\"*.example.com:*\", \"1.2.3.0/24:443\"; public addresses only. An empty list "
		  "is nothing; "
		  "left out: what the policy allows" },
	{ "deny", DOC_LIST, .max = 256, .of = &any_rule,
	  .summary = "what may not, whatever is allowed" },
	DOC_END,
};

static const struct doc_field limit_fields[] = {
	{ "memory", DOC_TEXT, .min = 1, .max = 24, .pattern = SIZE_PATTERN,
	  .summary = "\"512M\", \"2G\", or bytes" },
	{ "disk", DOC_TEXT, .min = 1, .max = 24, .pattern = SIZE_PATTERN, .summary = "likewise" },
	{ "cpu", DOC_NUMBER, .min = 0.01, .max = 1024, .summary = "CPUs, or a part of one" },
	{ "pids", DOC_WHOLE, .min = 1, .max = 4194304, .summary = "processes and threads at once" },
	{ "files", DOC_WHOLE, .min = 16, .max = 1048576, .summary = "open files of a process" },
	{ "cpu_time", DOC_TEXT, .min = 2, .max = 24, .pattern = "^[0-9]+([.][0-9]+)?(ms|s|m|h|d)$",
	  .summary = "of all processes together: \"90s\", \"2m\"" },
	DOC_END,
};

#define WISH_FIELDS                                                                              \
	{ "template",                                                                            \
	  DOC_TEXT,                                                                              \
	  .min = 1,                                                                              \
	  .max = 256,                                                                            \
	  .fallback = "base",                                                                    \
	  .summary = "what it starts from: a template or snapshot, by id or name" },             \
		{ "policy",                                                                      \
		  DOC_TEXT,                                                                      \
		  .min = 1,                                                                      \
		  .max = 64,                                                                     \
		  .pattern = NAME_PATTERN,                                                       \
		  .summary = "a shipped policy (GET /v1/policies); it can only narrow what the " \
			     "tenant may do" },                                                  \
		{ "net", DOC_OBJECT, .of = net_fields,                                           \
		  .summary = "connections; left out: as the policy says" },                      \
		{ "limits", DOC_OBJECT, .of = limit_fields,                                      \
		  .summary = "as in limits of a policy; at most what the tenant may have" },     \
	{                                                                                        \
		"env", DOC_MAP, .max = 256, .keys = VARIABLE_PATTERN, .of = &any_text,           \
				.summary = "variables"                                           \
	}

#define COMMAND_FIELDS                                                                           \
	{                                                                                        \
		"command",       DOC_LIST,                                                       \
		.min = 1,        .max = 1024,                                                    \
		.of = &any_text, .summary = "program and arguments; no shell looks at them"      \
	},                                                                                       \
		{ "code", DOC_TEXT, .min = 1, .max = 32000,                                      \
		  .summary = "in place of command: a program" },                                 \
		{ "language", DOC_TEXT, .names = languages,                                      \
		  .summary = "of code; python where it is left out" },                           \
		{ "cwd", DOC_TEXT, .min = 1, .max = 4096, .summary = "the folder to start in" }, \
		{ "user", DOC_TEXT, .min = 1, .max = 64,                                         \
		  .summary = "of the sandbox, by name or number" },                              \
		{ "stdin", DOC_TEXT, .max = 1048576,                                             \
		  .summary = "standard input; else it is empty" },                               \
	{                                                                                        \
		"stdin_base64", DOC_TEXT, .max = 1048576, .summary = "the same for any bytes"    \
	}

/* What stands where COMMAND_FIELDS do. */
static const char *const command_or_code[] = { "command", "code", NULL };

/* --- run --- */

static const struct doc_field file_fields[] = {
	{ "path", DOC_TEXT, .is_required = true, .min = 1, .max = 4096,
	  .summary = "absolute, or below the home; folders on the way are made" },
	{ "text", DOC_TEXT, .max = 1048576, .summary = "its content; or" },
	{ "base64", DOC_TEXT, .max = 1048576, .summary = "any bytes" },
	{ "mode", DOC_TEXT, .min = 3, .max = 4, .pattern = "^0?[0-7]{3}$",
	  .summary = "octal; 644 where it is left out" },
	DOC_END,
};
static const struct doc_field a_file = { "file", DOC_OBJECT, .of = file_fields };

static const struct doc_field run_body[] = {
	COMMAND_FIELDS,
	WISH_FIELDS,
	{ "files", DOC_LIST, .max = 256, .of = &a_file,
	  .summary = "that are there before the command starts" },
	{ "timeout", DOC_NUMBER, .min = 0.1, .max = V1_TIMEOUT_MAX, .fallback = "60",
	  .summary = "seconds, after which everything is ended: reason timeout, exit code 124" },
	DOC_END,
};
static const struct doc_schema run_result = { .name = "RunResult", .make = result_run_schema };

const struct route_doc v1_doc_run = {
	.name = "run",
	.tag = "run",
	.summary = "Runs one command in a sandbox of its own",
	.text = "The sandbox is made for the command and is gone when the answer comes. With "
		"\"Accept: "
		"text/event-stream\" the answer is a stream: started {sandbox, process}, stdout "
		"and stderr with "
		"{text} or, for bytes that are no UTF-8, {base64}, at last result (the same object "
		"without the "
		"output) or error {code, message}. A client that leaves takes its run along, "
		"unless it gave an "
		"Idempotency-Key to ask for the result again.",
	.handle = v1_run,
	.has_key = true,
	.body = run_body,
	.one_of = command_or_code,
	.answers = { { 200, JSON, &run_result, "what it came to, as \"brig run --json\" says it" },
		     { 200, EVENTS, NULL, "what it came to, as \"brig run --json\" says it" } },
	.errors = DOC_409 | DOC_422 | DOC_429 | DOC_502 | DOC_503 | DOC_504 | DOC_507,
};

/* --- sandboxes --- */

static const struct doc_field create_body[] = {
	WISH_FIELDS,
	{ "metadata", DOC_MAP, .max = 256, .of = &any_text,
	  .summary = "whatever its client wants to know again" },
	{ "timeout", DOC_NUMBER, .min = 1, .max = V1_LIFE_MAX, .fallback = "300",
	  .summary = "seconds that it lives" },
	{ "on_timeout", DOC_TEXT, .names = ends, .fallback = "kill",
	  .summary = "what happens then" },
	DOC_END,
};

const struct route_doc v1_doc_create = {
	.name = "createSandbox",
	.tag = "sandboxes",
	.summary = "Makes a sandbox that lives",
	.handle = v1_create,
	.makes_sandbox = true,
	.has_key = true,
	.body = create_body,
	.answers = { { 201, JSON, &show_sandbox_schema, "it runs" } },
	.errors = DOC_409 | DOC_422 | DOC_429 | DOC_502 | DOC_503 | DOC_504 | DOC_507,
};

static const struct doc_field list_query[] = {
	{ "limit", DOC_WHOLE, .min = 1, .max = 100, .fallback = "100",
	  .summary = "how many at most" },
	{ "after", DOC_TEXT, .min = 1, .max = 48, .pattern = "^[0-9]{1,18}[.][a-z0-9]{1,15}$",
	  .summary = "what the page before gave as next" },
	{ "state", DOC_TEXT, .names = states, .summary = "only these" },
	{ "usage", DOC_BOOL, .fallback = "false", .summary = "ask each what it uses" },
	DOC_END,
};
static const struct doc_field a_sandbox = { "sandbox", DOC_OBJECT, .schema = &show_sandbox_schema };
static const struct doc_field list_fields[] = {
	{ "sandboxes", DOC_LIST, .is_required = true, .of = &a_sandbox,
	  .summary = "the newest first" },
	{ "next", DOC_TEXT, .is_required = true, .or_null = true,
	  .summary = "where the next page begins; null: this was the last" },
	DOC_END,
};
static const struct doc_schema list_schema = { .name = "SandboxList", .fields = list_fields };

const struct route_doc v1_doc_list = {
	.name = "listSandboxes",
	.tag = "sandboxes",
	.summary = "The tenant's sandboxes, the newest first",
	.handle = v1_list,
	.query = list_query,
	.answers = { { 200, JSON, &list_schema, "a page of them" } },
	.errors = DOC_503,
};

const struct route_doc v1_doc_get = {
	.name = "getSandbox",
	.tag = "sandboxes",
	.summary = "One sandbox, with what it uses",
	.handle = v1_get,
	.is_of_sandbox = true,
	.answers = { { 200, JSON, &show_sandbox_schema, "it lives" } },
	.errors = OF_SANDBOX,
};

static const struct doc_field change_body[] = {
	{ "timeout", DOC_NUMBER, .min = 1, .max = V1_LIFE_MAX,
	  .summary = "seconds from now, longer or shorter" },
	{ "on_timeout", DOC_TEXT, .names = ends, .summary = "what happens then" },
	{ "metadata", DOC_MAP, .max = 256, .of = &any_text,
	  .summary = "in place of what there was" },
	DOC_END,
};
const struct route_doc v1_doc_change = {
	.name = "changeSandbox",
	.tag = "sandboxes",
	.summary = "Changes the time that it has, and what its client notes about it",
	.handle = v1_change,
	.is_of_sandbox = true,
	.body = change_body,
	.answers = { { 200, JSON, &show_sandbox_schema, "as it is now" } },
	.errors = OF_SANDBOX | DOC_409 | DOC_422 | DOC_507,
};

const struct route_doc v1_doc_delete = {
	.name = "deleteSandbox",
	.tag = "sandboxes",
	.summary = "Ends it, whatever it does",
	.handle = v1_delete,
	.is_of_sandbox = true,
	.answers = { { 204, NULL, NULL, "nothing is left of it" } },
	.errors = OF_SANDBOX,
};

const struct route_doc v1_doc_pause = {
	.name = "pauseSandbox",
	.tag = "sandboxes",
	.summary = "Stops every process in it, until it is resumed",
	.handle = v1_pause,
	.is_of_sandbox = true,
	.answers = { { 200, JSON, &show_sandbox_schema, "it is paused" } },
	.errors = OF_SANDBOX | DOC_409 | DOC_422 | DOC_507,
};

static const struct doc_field resume_body[] = {
	{ "timeout", DOC_NUMBER, .min = 1, .max = V1_LIFE_MAX,
	  .summary = "seconds from now; left out: what it had left" },
	DOC_END,
};
const struct route_doc v1_doc_resume = {
	.name = "resumeSandbox",
	.tag = "sandboxes",
	.summary = "Lets it go on",
	.handle = v1_resume,
	.is_of_sandbox = true,
	.body = resume_body,
	.answers = { { 200, JSON, &show_sandbox_schema, "it runs" } },
	.errors = OF_SANDBOX | DOC_409 | DOC_422 | DOC_429 | DOC_507,
};

/* --- in a sandbox --- */

static const struct doc_field exec_body[] = {
	COMMAND_FIELDS,
	{ "env", DOC_MAP, .max = 256, .keys = VARIABLE_PATTERN, .of = &any_text,
	  .summary = "variables, over the sandbox's own" },
	{ "timeout", DOC_NUMBER, .min = 0.1, .max = V1_TIMEOUT_MAX,
	  .summary = "seconds, after which it is killed; left out: as long as the sandbox lives" },
	{ "detach", DOC_BOOL, .fallback = "false",
	  .summary = "start it, and answer at once with 202" },
	DOC_END,
};
static const struct doc_schema exec_result = { .name = "ExecResult", .make = result_exec_schema };
static const struct doc_field started_fields[] = {
	{ "sandbox", DOC_TEXT, .is_required = true, .summary = "its id" },
	{ "process", DOC_WHOLE, .is_required = true,
	  .summary = "the command's number, for signals" },
	{ "pid", DOC_WHOLE, .is_required = true, .summary = "inside" },
	DOC_END,
};
static const struct doc_schema started_schema = { .name = "Started", .fields = started_fields };

const struct route_doc v1_doc_exec = {
	.name = "exec",
	.tag = "sandboxes",
	.summary = "Runs a command in a sandbox that lives",
	.text = "With \"Accept: text/event-stream\" the answer is a stream as that of /v1/run. A "
		"client that leaves ends "
		"its command; one that is detached goes on by itself.",
	.handle = v1_exec,
	.is_of_sandbox = true,
	.body = exec_body,
	.one_of = command_or_code,
	.answers = { { 200, JSON, &exec_result,
		       "what it came to, as \"brig exec --json\" says it" },
		     { 200, EVENTS, NULL, "what it came to, as \"brig exec --json\" says it" },
		     { 202, JSON, &started_schema, "it was started, and is on its own" } },
	.errors = OF_SANDBOX | DOC_409 | DOC_422,
};

static const struct doc_field terminal_query[] = {
	{ "rows", DOC_WHOLE, .min = 1, .max = 1000, .fallback = "24", .summary = "of the window" },
	{ "columns", DOC_WHOLE, .min = 1, .max = 1000, .fallback = "80",
	  .summary = "of the window" },
	{ "user", DOC_TEXT, .min = 1, .max = 60, .summary = "of the sandbox" },
	{ "shell", DOC_TEXT, .min = 1, .max = 200, .fallback = "bash",
	  .summary = "what is started, with -l" },
	DOC_END,
};
const struct route_doc v1_doc_terminal = {
	.name = "terminal",
	.tag = "sandboxes",
	.summary = "A shell in it, over a WebSocket",
	.text = "Binary messages are the terminal's bytes, both ways. A text message {\"resize\": "
		"{\"rows\", \"columns\"}} "
		"changes the size of the window; {\"exited\": {\"exit_code\", \"signal\"}} is the "
		"last one that comes. A browser, "
		"which cannot set headers, offers the protocols \"brig.terminal\" and "
		"\"brig.key.KEY\".",
	.handle = v1_terminal,
	.is_of_sandbox = true,
	.query = terminal_query,
	.answers = { { 101, NULL, NULL, "from here on it is a WebSocket" } },
	.errors = OF_SANDBOX | DOC_409 | DOC_422 | DOC_426,
};

static const struct doc_field process_fields[] = {
	{ "pid", DOC_WHOLE, .is_required = true, .summary = "inside" },
	{ "parent", DOC_WHOLE, .is_required = true, .or_null = true,
	  .summary = "its pid; null: it was started from outside, or is an orphan" },
	{ "number", DOC_WHOLE, .is_required = true, .or_null = true,
	  .summary = "of what was started from outside, for signals" },
	{ "command", DOC_LIST, .is_required = true, .of = &any_text,
	  .summary = "its arguments, as it shows them" },
	{ "state", DOC_TEXT, .is_required = true, .summary = "as ps says it: R, S, D, T, Z" },
	{ "cpu_ms", DOC_WHOLE, .is_required = true, .summary = "CPU time" },
	{ "memory", DOC_WHOLE, .is_required = true, .summary = "bytes that are resident" },
	DOC_END,
};
static const struct doc_field a_process = { "process", DOC_OBJECT, .of = process_fields };
static const struct doc_field processes_fields[] = {
	{ "processes", DOC_LIST, .is_required = true, .of = &a_process,
	  .summary = "parents before their children" },
	{ "truncated", DOC_BOOL, .is_required = true, .summary = "there are more than are listed" },
	DOC_END,
};
static const struct doc_schema processes_schema = { .name = "Processes",
						    .fields = processes_fields };

const struct route_doc v1_doc_processes = {
	.name = "listProcesses",
	.tag = "sandboxes",
	.summary = "What runs in it, as the host sees it",
	.handle = v1_processes,
	.is_of_sandbox = true,
	.answers = { { 200, JSON, &processes_schema, "all of them, 256 at most" } },
	.errors = OF_SANDBOX,
};

static const char *const signal_words[] = { "TERM", "KILL", "INT",  "HUP",  "QUIT",
					    "USR1", "USR2", "STOP", "CONT", NULL };
static const struct doc_field signal_body[] = {
	{ "signal", DOC_TEXT, .names = signal_words, .fallback = "TERM", .summary = "without SIG" },
	DOC_END,
};
const struct route_doc v1_doc_signal = {
	.name = "signalProcess",
	.tag = "sandboxes",
	.summary = "Sends a signal to a command and its group",
	.handle = v1_signal,
	.is_of_sandbox = true,
	.body = signal_body,
	.answers = { { 204, NULL, NULL, "it was sent" } },
	.errors = OF_SANDBOX | DOC_409 | DOC_422,
};

/* --- files --- */

static const struct doc_field read_query[] = {
	{ "path", DOC_TEXT, .min = 1, .max = 4000, .fallback = ".",
	  .summary = "absolute, or below the home" },
	{ "user", DOC_TEXT, .min = 1, .max = 60, .summary = "of the sandbox, whose rights count" },
	{ "depth", DOC_WHOLE, .min = 1, .max = 16, .fallback = "1",
	  .summary = "of the list of a folder" },
	DOC_END,
};
static const char *const file_kinds[] = { "file", "directory", "link", "other", NULL };
static const struct doc_field entry_fields[] = {
	{ "path", DOC_TEXT, .is_required = true, .summary = "below the folder that was asked for" },
	{ "kind", DOC_TEXT, .is_required = true, .names = file_kinds, .summary = "what it is" },
	{ "size", DOC_WHOLE, .is_required = true, .summary = "bytes" },
	{ "mode", DOC_TEXT, .is_required = true, .summary = "octal" },
	{ "uid", DOC_WHOLE, .is_required = true, .summary = "inside" },
	{ "gid", DOC_WHOLE, .is_required = true, .summary = "inside" },
	{ "modified", DOC_TEXT, .is_required = true, .or_null = true, .summary = "when" },
	{ "target", DOC_TEXT, .is_required = true, .or_null = true, .summary = "of a link" },
	DOC_END,
};
static const struct doc_field an_entry = { "entry", DOC_OBJECT, .of = entry_fields };
static const struct doc_field folder_fields[] = {
	{ "entries", DOC_LIST, .is_required = true, .of = &an_entry, .summary = "of the folder" },
	{ "truncated", DOC_BOOL, .is_required = true, .summary = "there are more than are listed" },
	DOC_END,
};
static const struct doc_schema folder_schema = { .name = "Folder", .fields = folder_fields };

const struct route_doc v1_doc_read_file = {
	.name = "readFile",
	.tag = "files",
	.summary = "A file's content, or what is in a folder",
	.handle = v1_read_file,
	.is_of_sandbox = true,
	.query = read_query,
	.answers = { { 200, BYTES, NULL, "the file; of a folder, a list as JSON" },
		     { 200, JSON, &folder_schema, "the file; of a folder, a list as JSON" } },
	.errors = OF_SANDBOX | DOC_403 | DOC_406 | DOC_409 | DOC_416 | DOC_422 | DOC_504,
};

static const struct doc_field write_query[] = {
	{ "path", DOC_TEXT, .is_required = true, .min = 1, .max = 4000,
	  .summary = "absolute, or below the home" },
	{ "user", DOC_TEXT, .min = 1, .max = 60, .summary = "of the sandbox, whose it will be" },
	DOC_END,
};
static const struct doc_field written_fields[] = {
	{ "name", DOC_TEXT, .is_required = true, .summary = "the last part of the path" },
	{ "path", DOC_TEXT, .is_required = true, .summary = "where it is" },
	{ "type", DOC_TEXT, .is_required = true, .summary = "file" },
	{ "metadata", DOC_MAP, .of = &any_text, .summary = "by X-Metadata-NAME of the request" },
	DOC_END,
};
static const struct doc_field a_written = { "file", DOC_OBJECT, .of = written_fields };
static const struct doc_schema written_schema = { .name = "Written", .item = &a_written };
const struct route_doc v1_doc_write_file = {
	.name = "writeFile",
	.tag = "files",
	.summary = "Writes a file, of any length; folders on the way are made",
	.handle = v1_write_file,
	.is_of_sandbox = true,
	.query = write_query,
	.body_type = BYTES,
	.answers = { { 200, JSON, &written_schema, "it is there, whole" } },
	.errors = OF_SANDBOX | DOC_403 | DOC_409 | DOC_415 | DOC_422 | DOC_504 | DOC_507,
};

static const struct doc_field remove_query[] = {
	{ "path", DOC_TEXT, .is_required = true, .min = 1, .max = 4000,
	  .summary = "absolute, or below the home" },
	{ "user", DOC_TEXT, .min = 1, .max = 60, .summary = "of the sandbox, whose rights count" },
	{ "recursive", DOC_BOOL, .fallback = "false",
	  .summary = "a folder with all that is in it" },
	DOC_END,
};
const struct route_doc v1_doc_remove_file = {
	.name = "removeFile",
	.tag = "files",
	.summary = "Removes a file, or a folder",
	.handle = v1_remove_file,
	.is_of_sandbox = true,
	.query = remove_query,
	.answers = { { 204, NULL, NULL, "it is gone" } },
	.errors = OF_SANDBOX | DOC_403 | DOC_409 | DOC_422,
};
