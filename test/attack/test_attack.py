"""Plays every probe of "attack list" without walls, behind all walls, and with each wall left down in turn.

A probe counts when it succeeds without walls, as seen from outside; what this host (or this user) cannot do anyway is
skipped and counted apart, but must not succeed inside either. The twins must work inside.
"""

import subprocess

import pytest
from stage_client import BUILD, score

USERS = ["root", "user"]
TIERS = ["process", "container"]
FILES = ["--files", "64"]
OPTIONS = {
    "fork_bomb": ["--pids", "30"], "thread_bomb": ["--pids", "30"], "memory_bomb": ["--memory", "64M"],
    "shared_memory_bomb": ["--memory", "64M"], "memory_without_mapping": ["--memory", "64M"],
    "file_bomb": ["--disk", "1M"], "descriptor_bomb": FILES, "eventfd_bomb": FILES, "timerfd_bomb": FILES,
    "epoll_bomb": FILES, "inotify_bomb": FILES, "pidfd_bomb": FILES, "raise_limits": FILES,
    "rewrite_call": ["--allow", "debug"], "trace_victim": ["--allow", "debug"], "trace_keeper": ["--allow", "debug"],
    "read_victim": ["--allow", "debug"], "write_victim": ["--allow", "debug"],
    "take_descriptor": ["--allow", "debug"], "compare_victim": ["--allow", "debug"],
    "twin_debug": ["--allow", "debug"], "device_control": ["--allow-read", "{scene}/device"],
    "read_of_root": ["--allow-read", "{scene}/foreign"], "read_keeper": ["--allow", "debug"],
    "take_keepers_descriptor": ["--allow", "debug"], "compare_keeper": ["--allow", "debug"],
    "twin_limits": ["--pids", "30", "--memory", "64M", "--disk", "1M", "--files", "64"],
}
DENIED, NOT_THERE, REFUSED, KILLED, BAD_CALL = 1, 3, 125, 128 + 9, 128 + 31

# The process starts and stays inside: only who is left afterwards tells.
JUDGED_BY_EFFECT = {"outlive", "outlive_stopped", "outlive_undumpable", "kill_everybody"}
KILLS_THE_CALLER = {"kill_everybody", "kill_keeper", "kill_warden"}

# A success that leaves no trace outside the probe: its return value must do.
TRACELESS_FILES = {"devices.c", "identity.c", "inherited.c", "keeper.c", "limits.c", "namespaces.c", "procfs.c", "syscalls.c"}
TRACELESS = {
    "key_request", "kernel_crypto", "lease_readable", "listen_tcp", "mark_outside", "mark_outside_unprivileged",
    "netlink_audit", "netlink_filter", "netlink_route", "netlink_uevent", "open_planted_device", "own_io_realtime",
    "own_priority", "own_realtime", "pair_of_inet", "socket_all_families", "socket_high_half", "stat_outside",
    "stop_keeper", "unix_bind", "victim_advice", "vsock", "watch_outside", "keeper_limits", "victim_pages",
}

# These work in a container, on something of its own: a network without a way out, its own terminals, shared memory
# and process numbers. Only what is seen from outside counts.
HARMLESS = {
    "process": set(),
    "container": {
        "device_ptmx", "device_shm", "listen_tcp", "netlink_route", "posix_memory_make", "segment_make",
        "socket_high_half", "udp4", "udp6", "udp_many", "unix_bind", "user_io_priority", "user_priority",
    },
}

# What a tier does not close: these must succeed inside, so that the list stays true. A row here is an open hole that
# somebody decided to live with, not a pass.
NO_NAMESPACES = "the tier has no namespaces, and /proc shows the host's"
LIMITS = {
    "process": {
        "stat_outside": "Landlock has no right for looking at size, times and owner",
        "read_link_outside": "Landlock has no right for readlink",
        "read_attribute_outside": "Landlock has no right for extended attributes",
        "victim_command_line": "/proc is readable, and command lines are open to every user",
        "kernel_keys": "/proc is readable: names of the user's keys, not their content",
        "user_names": "/etc/passwd is readable",
        **dict.fromkeys(
            ["boot_identity", "cgroup_names", "disk_names", "domain_name", "host_name", "ipc_names", "kernel_command_line",
             "list_processes", "mount_names", "mount_names_old", "network_names", "partition_names",
             "same_cgroup_namespace", "same_ipc_namespace", "same_mnt_namespace", "same_net_namespace",
             "same_pid_namespace", "same_time_namespace", "same_user_namespace", "same_uts_namespace",
             "time_since_boot", "unix_names"], NO_NAMESPACES),
    },
    "container": {
        "boot_identity": "/proc/sys/kernel/random/boot_id is the kernel's",
        "kernel_command_line": "/proc/cmdline is the kernel's",
        "partition_names": "/proc/partitions is the kernel's",
        "disk_names": "a bind mount shows in mountinfo with the disk that it is on",
        "unix_visible_stream": "mounts do not keep anybody from connecting to a socket in a readable folder",
        "unix_visible_datagram": "as above",
        "guard_socket": "bind makes a name, and its path is behind a pointer",
        "protected_link_replaced": "a link has nothing to mount on: it can be removed, though not replaced",
        **dict.fromkeys(["keeper_affinity", "keeper_io_priority", "keeper_priority", "keeper_scheduler"],
                        "the keeper has the sandbox's user: at most this sandbox ends late, see test_scenes.py"),
    },
}
LIMITS_OF_ROOT = {
    "process": dict.fromkeys(
        ["kernel_allocations", "kernel_page_cgroups", "kernel_page_counts", "kernel_page_flags", "kernel_slabs",
         "kernel_timers"], "/proc is readable, and the file belongs to root, which the sandbox still is"),
    "container": {},
}
LIMITS_OF_ROOT["process"]["read_of_root"] = "the sandbox is still root, only without capabilities"
WITHOUT_CGROUP = {"memory_without_mapping": "without a cgroup only mapped memory is counted"}
LIMITS_OF_USER = {"process": WITHOUT_CGROUP, "container": WITHOUT_CGROUP}

# Where the question makes no sense: in a container of root's the files of a folder's owner are the sandbox's; the process
# tier has no UNIX sockets to bind.
SENSELESS = {("container", "root", "setuid_program"), ("process", "root", "guard_socket"), ("process", "user", "guard_socket")}

# A refusal of brig itself, before anything ran.
REFUSED_AT_START = ("stdin_",)

# Capabilities that root has and the sandbox has not hold these as well.
HELD_BY_CAPABILITIES = {"victim_priority"}
# So do ids of its own, which a container of root's has.
HELD_BY_IDS = {"segment_read", "segment_remove", "semaphore_change"}

# Each of these must succeed when the wall is left down ("+": when all of these are).
KNOCK_OUTS = {
    "process": {
        "files": ["read_secret", "write_outside", "create_outside", "remove_file", "truncate_outside", "symlink_write",
                  "alias_root", "read_ssh_key", "device_shm"],
        "signals": ["kill_victim", "stop_victim", "tgkill_victim", "pidfd_kill_victim", "queue_to_victim"],
        "syscalls": ["unshare_user", "ring_setup", "segment_read", "segment_remove", "udp4", "i386_call", "own_listener",
                     "pair_sendto", "memfd_execute"],
        "limits": ["file_bomb", "descriptor_bomb"],
        "descriptors": ["inherited_descriptor", "inherited_any_descriptor"],
        "metadata": ["chmod_outside", "fchmod_readable", "utimensat_outside", "setxattr_outside", "setuid_file_openat",
                     "victim_priority", "watch_outside"],
        "narrower": ["protected_write", "protected_truncate", "guard_open", "guard_mkdir", "guard_rename", "hidden_read"],
        "privileges": ["write_of_another", "become_other_user"],  # root only: others have none to drop
        "environment": ["inherited_environment"],
    },
    "container": {
        "netns": ["same_net_namespace", "tcp4", "udp4", "unix_abstract", "network_names"],
        "ipcns": ["same_ipc_namespace", "ipc_names", "segment_read", "segment_remove", "semaphore_change"],
        "utsns": ["same_uts_namespace", "host_name"],
        "cgroupns": ["same_cgroup_namespace"],
        "timens": ["same_time_namespace", "time_since_boot"],
        "masks": ["kernel_keys"],
        "attributes": ["protected_write", "protected_truncate", "protected_write_creating"],
        "detach+landlock+ids": ["root_by_dots", "root_of_descriptor"],
        "landlock": ["device_control"],
        "metadata": ["setuid_file_openat", "setuid_file_chmod", "setgid_file_chmod", "guard_open", "guard_rename"],
        "syscalls": ["unshare_user", "ring_setup", "i386_call", "own_listener", "memfd_execute"],
        "ids": ["read_of_root", "kernel_slabs"],
        "descriptors": ["inherited_any_descriptor"],
        "limits": ["descriptor_bomb"],
        "environment": ["inherited_environment"],
    },
}

# Knock-outs that no probe sees. They count against the score.
UNSEEN = {
    ("container", "pidns"): "a procfs of its own needs a pid namespace of its own: without one brig does not start",
    ("container", "privileges"): "the program is not uid 0, so that execve takes every capability away as well",
}

# Two walls stand before these: with one left down, the other holds.
TWO_WALLS = {
    "process": {
        "tcp4": ["syscalls", "files"], "listen_tcp": ["syscalls", "files"],
        "unix_abstract": ["syscalls", "signals"], "unix_abstract_datagram": ["syscalls", "signals"],
        "trace_victim": ["syscalls", "files"], "victim_environment": ["files", "syscalls"],
        "victim_memory": ["files", "syscalls"], "kill_victim": ["files", "syscalls"],
        "mount_tmpfs": ["syscalls", "files"], "setuid_program": ["syscalls", "metadata"],
        "mknod_disk": ["syscalls", "files"],
    },
    "container": {
        "kill_victim": ["syscalls", "landlock"],
        "trace_victim": ["syscalls", "landlock"], "read_victim": ["syscalls", "landlock"],
        "victim_memory": ["syscalls", "landlock"], "victim_environment": ["syscalls", "landlock"],
        "keeper_memory": ["landlock", "syscalls"], "trace_keeper": ["landlock", "syscalls"],
        "keeper_environment": ["landlock", "syscalls"],
        "mount_tmpfs": ["syscalls", "landlock", "privileges"], "mount_bind": ["syscalls", "landlock", "privileges"],
        "read_secret": ["landlock", "syscalls", "metadata"], "write_outside": ["landlock", "syscalls"],
        "write_readable": ["landlock", "syscalls"], "write_of_another": ["ids", "privileges"],
        "fresh_proc": ["syscalls", "landlock"], "fresh_tmpfs": ["syscalls", "landlock"],
        "mknod_disk": ["syscalls", "landlock"], "open_planted_device": ["landlock", "syscalls"],
        "setuid_program": ["syscalls", "privileges"], "capability_program": ["syscalls", "privileges"],
        "root_by_dots": ["detach", "landlock"], "root_of_descriptor": ["detach", "landlock"],
        "sysrq": ["masks", "landlock"], "core_pattern": ["masks", "landlock"],
    },
}


def read_list():
    lines = subprocess.run([BUILD / "test/attack/attack", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in lines.splitlines()]


LIST = read_list()
FILE_OF = {name: file for name, _, file, _ in LIST}
ATTACKS = [name for name, kind, _, _ in LIST if kind != "Twin"]
TWINS = [name for name, kind, _, _ in LIST if kind == "Twin" and name != "twin_orphans"]  # that one is in test_container.py


def play(stages, user, name, mode, without=()):
    """On both stages at once, as the other user's turn comes anyway."""
    request = name, mode, OPTIONS.get(name, ()) if mode != "control" else (), without
    for stage in stages.values():
        stage.ask(*request)
    answer = stages[user].play(*request)
    assert "error" not in answer, answer
    return answer


def succeeded(name, answer, tier=None):
    """Whether an attack worked, by what is seen from outside; a bare return value counts where nothing can be seen."""
    if name in JUDGED_BY_EFFECT or (tier and name in HARMLESS[tier]):
        return bool(answer["effects"])
    if answer["code"] in (KILLED, -9) and name in KILLS_THE_CALLER:
        return True
    return answer["code"] == 0 or bool(answer["effects"])


def limits_of(tier, user):
    return {**LIMITS[tier], **(LIMITS_OF_ROOT if user == "root" else LIMITS_OF_USER)[tier]}


def ways_to_fail(tier, name):
    """The exit codes of a probe that a wall has stopped."""
    allowed = {DENIED}
    # The kernel links a file without a name only for whoever opened it, and that was the keeper.
    if tier == "container" or name == "guard_tmpfile_empty":
        allowed.add(NOT_THERE)
    if name in JUDGED_BY_EFFECT or name in HARMLESS[tier]:
        allowed.add(0)
    if FILE_OF[name] == "limits.c":
        allowed.add(KILLED)
    if name.startswith(REFUSED_AT_START):
        allowed.add(REFUSED)
    if name.startswith(("i386_", "x32_")):
        allowed.add(BAD_CALL)
    return allowed


CASES = [(tier, name) for name in ATTACKS for tier in TIERS]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier, name", CASES)
def test_attack(stages, user, tier, name):
    if (tier, user, name) in SENSELESS:
        pytest.skip("makes no sense here")
    control, jail = play(stages, user, name, "control"), play(stages, user, name, tier)
    works = succeeded(name, control)
    if works and name not in TRACELESS and FILE_OF[name] not in TRACELESS_FILES and name not in KILLS_THE_CALLER:
        assert control["effects"], f"says that it worked, but nothing happened: {control}"
    if works and name in limits_of(tier, user):
        assert succeeded(name, jail), f"no longer open: take it off the list ({jail})"
        score["limits"].setdefault(tier, set()).add(name)
        pytest.xfail(limits_of(tier, user)[name])
    assert not succeeded(name, jail, tier), f"control {control}\njail {jail}"
    if not works:
        score["absent"][f"{user} {name}"] = control["text"].strip().rpartition("\n")[2]
        pytest.skip(f"host lacks it: {control['text'].strip()}")
    assert jail["code"] in ways_to_fail(tier, name), f"failed, but not by a wall: {jail}"


# What root of a sandbox may do in it whose system is its own: be its other users, write to its root, open the empty
# files that lie over others, harm its init (which only ends the sandbox). Nothing of it is seen from outside.
OWN_ROOTS = {
    "become_other_group", "become_other_user", "capabilities_take", "keeper_any_file", "keeper_oom_score", "kernel_keys",
    "kernel_log", "kernel_timers", "kill_everybody", "kill_keeper", "kill_warden", "stop_keeper", "write_own_root",
}
# "Not tried", since there is nothing to try it with: he is root already; has no terminal; cannot make files in a folder
# of the host, which are another user's.
OWN_UNTRIED = 2


@pytest.mark.parametrize("name", [name for name in ATTACKS if FILE_OF[name] not in ("guards.c", "limits.c")])
def test_attack_as_its_root(stages, name):
    """The same from the root of a sandbox with a system of its own, who has some capabilities there. An ordinary user's
    has no root."""
    answer = stages["root"].play(name, "own", OPTIONS.get(name, ()), ())
    assert "error" not in answer, answer
    if name in OWN_ROOTS:
        assert not answer["effects"] and not answer["out"], answer
        return
    if name in limits_of("container", "root"):
        pytest.xfail(limits_of("container", "root")[name])
    assert not succeeded(name, answer, "container"), answer
    assert answer["code"] in ways_to_fail("container", name) | {OWN_UNTRIED}, f"failed, but not by a wall: {answer}"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", TWINS)
def test_twin(stages, user, tier, name):
    jail = play(stages, user, name, tier)
    assert jail["code"] == 0 and not jail["effects"], jail


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier, wall", [(tier, wall) for tier in TIERS for wall in KNOCK_OUTS[tier]])
def test_knock_out(stages, user, tier, wall):
    seen = score["walls"].setdefault(f"{tier} {wall}", set())
    missed = []
    for name in KNOCK_OUTS[tier][wall]:
        if not succeeded(name, play(stages, user, name, "control")):
            continue
        if succeeded(name, play(stages, user, name, tier, wall.split("+"))):
            seen.add(name)
        elif user != "root" or name not in HELD_BY_CAPABILITIES | HELD_BY_IDS:
            missed.append(name)
    assert seen, f"nobody notices when \"{wall}\" is left down"
    assert not missed, f"still denied without \"{wall}\""


@pytest.mark.parametrize("tier, wall", UNSEEN)
def test_unseen_knock_out(stages, tier, wall):
    """Fails as soon as somebody sees it: then it has a place in KNOCK_OUTS."""
    score["walls"].setdefault(f"{tier} {wall}", set())
    names = ["same_pid_namespace"] if wall == "pidns" else ["descriptor_bomb", "mount_tmpfs"]
    for user in USERS:
        assert not any(succeeded(name, play(stages, user, name, tier, [wall])) for name in names)
    pytest.xfail(UNSEEN[tier, wall])


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier, name", [(tier, name) for tier in TIERS for name in TWO_WALLS[tier]])
def test_two_walls(stages, user, tier, name):
    if not succeeded(name, play(stages, user, name, "control")):
        pytest.skip("host lacks it")
    for wall in TWO_WALLS[tier][name]:
        answer = play(stages, user, name, tier, [wall])
        assert not succeeded(name, answer), f"open without \"{wall}\": {answer}"
