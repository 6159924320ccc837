/*
 * extension.h - named extensions of what a sandbox may ask the kernel for
 *
 * The policy key "allow" and the flag --allow take these names; jail/syscalls.c says which calls
 * each one opens.
 */
#ifndef BRIG_POLICY_EXTENSION_H
#define BRIG_POLICY_EXTENSION_H

enum extension {
	EXT_DEBUG,      /* ptrace and process_vm_* of the sandbox's own processes */
	EXT_NESTED,     /* namespaces and mounts, for a sandbox inside the sandbox */
	EXT_MEMFD_EXEC, /* execveat of a descriptor without a path */
	EXTENSION_COUNT,
};

struct extension_info {
	const char *name, *summary;
};
extern const struct extension_info extensions[EXTENSION_COUNT];

#endif
