#include "policy/extension.h"

const struct extension_info extensions[EXTENSION_COUNT] = {
	[EXT_DEBUG] = { "debug", "ptrace and process_vm_* of the sandbox's own processes" },
	[EXT_NESTED] = { "nested", "namespaces and mounts, for a sandbox inside the sandbox" },
	[EXT_MEMFD_EXEC] = { "memfd-exec", "execution of a file that has no path" },
};
