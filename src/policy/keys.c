#include "policy/keys.h"

#define FIELD(member) offsetof(struct policy, member)

const struct key policy_keys[] = {
	{
		.name = "isolation",
		.type = KEY_ISOLATION,
		.offset = FIELD(isolation),
		.flags = { { "isolation", NULL, "TIER", "how the sandbox is walled off" } },
		.initial = "auto",
		.summary = "the tier that runs the code: process, container, gvisor, vm, wasm, "
			   "script or auto",
		.more = "auto takes the strongest tier that this version has, this host can give "
			"and the "
			"floor allows, and says why.",
	},
	{
		.name = "floor",
		.type = KEY_ISOLATION,
		.offset = FIELD(floor),
		.flags = { { "floor", NULL, "TIER", "the weakest tier that is acceptable" } },
		.initial = "process",
		.summary = "the weakest tier that is acceptable; below it nothing starts",
	},
	{
		.name = "image",
		.type = KEY_TEXT,
		.offset = FIELD(image),
		.flags = { { "image", NULL, "DIR",
			     "directory to use as the root of the sandbox" } },
		.initial = "host",
		.summary = "what the sandbox sees as its root: host, or a directory",
		.more = "host is the programs of this machine with a made-up /etc. With a "
			"directory the "
			"shipped rules for system files mean its own files; the working directory "
			"and "
			"rules of your own are mounted into it. Changes are gone at the end. Needs "
			"the container tier.",
	},
	{
		.name = "system",
		.type = KEY_SYSTEM,
		.offset = FIELD(system),
		.flags = { { "system", NULL, "WHAT", "sealed, or own: root inside changes it" } },
		.initial = "sealed",
		.summary = "whether the sandbox's root may change the system that it sees: sealed, "
			   "or own",
		.more = "own: /, /etc, /var and the system folders that fs shows as overlay are "
			"the "
			"sandbox's own, to change for its root; "
			"a file in /etc that fs shows as overlay is a copy. Nothing of it "
			"reaches the host. Where brig is run by root the sandbox has root and all "
			"other users; else it has one user, who owns its root directory and /etc, "
			"and the system folders stay read-only. Needs the container tier.",
	},
	{
		.name = "fs",
		.type = KEY_PATHS,
		.offset = FIELD(fs),
		.flags = { { "allow-read", "read", "PATH",
			     "let the sandbox read and execute PATH" },
			   { "allow-write", "write", "PATH", "let the sandbox change PATH" },
			   { "overlay", "overlay", "PATH", "show PATH, keep changes apart" },
			   { "deny", "none", "PATH", "hide PATH" } },
		.initial = "nothing",
		.summary = "a map from path to none, read (and execute), overlay or write",
		.more = "The nearest rule above a path decides; what no rule covers is closed. "
			"\".\" is the "
			"working directory, \"~\" the caller's home. Rules hold for paths that "
			"appear later. "
			"Paths named by a flag must exist; what a file names may be missing. "
			"overlay shows a folder and keeps changes apart (--diff, --commit, "
			"--export). "
			"overlay needs the container tier. In the process tier, where something "
			"is hidden inside an open folder, a program that is made directly in that "
			"folder cannot be executed.",
	},
	{
		.name = "net.allow",
		.type = KEY_HOSTS_ALLOWED,
		.offset = FIELD(net_allow),
		.flags = { { "allow-net", NULL, "HOST:PORT",
			     "let the sandbox connect to HOST:PORT" } },
		.initial = "nothing",
		.summary =
			"connections that are allowed: host:port, *.host:port, address/prefix:port",
		.more = "\"*:443\" is every name and every public address. \"raw\" behind a rule "
			"allows protocols other than TLS and HTTP, \"public\" behind addresses "
			"leaves out the special ones among them. Without any rule "
			"there is no network at all. On the process tier it needs Linux 6.7.",
	},
	{
		.name = "net.ask",
		.type = KEY_HOSTS_ASKED,
		.offset = FIELD(net_ask),
		.flags = { { "ask-net", NULL, "HOST:PORT", "ask a person before HOST:PORT" } },
		.initial = "nothing",
		.summary = "connections that a person is asked about",
		.needs = "approvals",
	},
	{
		.name = "net.deny",
		.type = KEY_HOSTS_DENIED,
		.offset = FIELD(net_deny),
		.flags = { { "deny-net", NULL, "HOST:PORT",
			     "refuse HOST:PORT whatever allows it" } },
		.initial = "nothing",
		.summary = "connections that are refused, whatever else allows them",
	},
	{
		.name = "net.publish",
		.type = KEY_PORTS,
		.offset = FIELD(net_publish),
		.flags = { { "publish", NULL, "[ADDR:]PORT[:PORT]",
			     "reach a port of the sandbox on the host's loopback" } },
		.initial = "nothing",
		.summary = "ports of the sandbox that the host listens for: OUTSIDE:INSIDE, one "
			   "number "
			   "for both, ADDRESS:OUTSIDE:INSIDE",
		.more = "Without an address it is the host's loopback alone (127.0.0.1); 0 outside "
			"is any port "
			"that is free, and is told. On the process tier both ports are the same, "
			"at "
			"loopback.",
	},
	{
		.name = "net.inspect",
		.type = KEY_BOOL,
		.offset = FIELD(net_inspect),
		.initial = "false",
		.summary = "end TLS at the gate and judge method and path",
		.needs = "inspection at the gate",
	},
	{
		.name = "env",
		.type = KEY_ENV,
		.offset = FIELD(env),
		.flags = { { "env", NULL, "NAME[=VALUE]",
			     "pass a variable of the caller, or set one" } },
		.initial = "nothing",
		.summary = "variables that are passed: NAME, NAME* for a prefix, NAME=value to set "
			   "one",
		.more = "HOME and TMPDIR are folders of the sandbox unless they are named here; in "
			"a "
			"container USER and LOGNAME are user.",
	},
	{
		.name = "limits.wall",
		.type = KEY_DURATION,
		.offset = FIELD(limits.wall),
		.flags = { { "wall", NULL, "TIME", "end the sandbox after TIME (30s, 5m)" } },
		.initial = "none",
		.summary = "time from start to end, after which the whole sandbox is killed",
	},
	{
		.name = "limits.cpu",
		.type = KEY_CPUS,
		.offset = FIELD(limits.cpu),
		.flags = { { "cpu", NULL, "N", "CPUs at the same time (0.5, 2)" } },
		.initial = "none",
		.summary = "CPUs that the sandbox may use at the same time: 1.5",
		.more = "By cgroup; without one a whole number holds by CPU affinity and a "
			"fraction is "
			"refused.",
	},
	{
		.name = "limits.cpu_time",
		.type = KEY_DURATION,
		.offset = FIELD(limits.cpu_time),
		.flags = { { "cpu-time", NULL, "TIME", "CPU time of all processes together" } },
		.initial = "none",
		.summary = "CPU time of all processes of the sandbox together",
	},
	{
		.name = "limits.memory",
		.type = KEY_SIZE,
		.offset = FIELD(limits.memory),
		.flags = { { "memory", NULL, "SIZE", "memory of all processes together (512M)" } },
		.initial = "none",
		.summary = "memory of all processes of the sandbox together, without swap",
		.more = "By cgroup; without one by a limit on each process and a watch over their "
			"sum.",
	},
	{
		.name = "limits.pids",
		.type = KEY_COUNT,
		.offset = FIELD(limits.pids),
		.flags = { { "pids", NULL, "N", "processes and threads" } },
		.initial = "none",
		.summary = "processes and threads of the sandbox at the same time",
	},
	{
		.name = "limits.disk",
		.type = KEY_SIZE,
		.offset = FIELD(limits.disk),
		.flags = { { "disk", NULL, "SIZE", "bytes that it may write" } },
		.initial = "none",
		.summary = "bytes of files that the sandbox may write",
		.more = "In a container it is the size of all that is written to its own folders "
			"and "
			"in overlays. In the process tier, and in folders of the host, it bounds "
			"each "
			"file, not their sum; the report says so.",
	},
	{
		.name = "limits.files",
		.type = KEY_COUNT,
		.offset = FIELD(limits.files),
		.flags = { { "files", NULL, "N", "open files of a process" } },
		.initial = "none",
		.summary = "open files of one process",
	},
	{
		.name = "limits.output",
		.type = KEY_SIZE,
		.offset = FIELD(limits.output),
		.flags = { { "output", NULL, "SIZE",
			     "bytes on standard output and error together" } },
		.initial = "none",
		.summary = "bytes on standard output and standard error together",
	},
	{
		.name = "allow",
		.type = KEY_EXTENSIONS,
		.offset = FIELD(allow),
		.flags = { { "allow", NULL, "NAME", "open a named set of system calls" } },
		.initial = "nothing",
		.summary = "named sets of system calls that are open beyond the usual ones",
	},
	{
		.name = "on_deny",
		.type = KEY_ON_DENY,
		.offset = FIELD(on_deny),
		.flags = { { "on-deny", NULL, "WHAT", "fail, ask or record" } },
		.initial = "fail",
		.summary =
			"what happens at a refused action: fail, ask a person, or only record it",
	},
	{
		.name = "record",
		.type = KEY_RECORD,
		.offset = FIELD(record),
		.flags = { { "record", NULL, "WHAT", "all, writes, denied or off" } },
		.initial = "all",
		.summary = "which actions become events: all, writes, denied or off",
	},
	{
		.name = "secrets",
		.type = KEY_SECRETS,
		.offset = FIELD(secrets),
		.initial = "nothing",
		.summary =
			"credentials that the gate puts into requests and the sandbox never sees",
		.needs = "injection at the gate",
	},
	{
		.name = "output.strip",
		.type = KEY_STRIP,
		.offset = FIELD(output_strip),
		.initial = "nothing",
		.summary = "what is taken out of the output: terminal, bidi",
		.needs = "output scanning",
	},
	{
		.name = "output.flag",
		.type = KEY_FLAG,
		.offset = FIELD(output_flag),
		.initial = "nothing",
		.summary = "what in the output is marked: executable, script, encoded, secret",
		.needs = "output scanning",
	},
	{
		.name = "output.max",
		.type = KEY_SIZE,
		.offset = FIELD(output_max),
		.initial = "none",
		.summary = "bytes of output that are handed to the caller",
		.needs = "output scanning",
	},
	{
		.name = "tools",
		.type = KEY_TOOLS,
		.offset = FIELD(tools),
		.initial = "nothing",
		.summary = "narrower policies for single tools",
		.needs = "tool manifests",
	},
};

const size_t policy_key_count = ARRAY_SIZE(policy_keys);

const struct key *key_find(const char *name)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (str_equal(policy_keys[i].name, name))
			return &policy_keys[i];
	return NULL;
}

const struct key *key_of_flag(const char *flag, const struct key_flag **ret_flag)
{
	for (size_t i = 0; i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++)
			if (str_equal(policy_keys[i].flags[k].name, flag)) {
				*ret_flag = &policy_keys[i].flags[k];
				return &policy_keys[i];
			}
	return NULL;
}
