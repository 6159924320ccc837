"""Plays every probe of "attack list" without walls, behind all walls, and with each wall left down in turn.

A probe counts when it succeeds without walls, as seen from outside; what this host (or this user) cannot do anyway is
skipped and counted apart, but must not succeed inside either. The twins must work inside.
"""

import subprocess

import pytest
from stage_client import BUILD, score

USERS = ["root", "user"]
FILES = ["--files", "64"]
OPTIONS = {
    "fork_bomb": ["--pids", "30"], "thread_bomb": ["--pids", "30"], "memory_bomb": ["--memory", "64M"],
    "shared_memory_bomb": ["--memory", "64M"], "memory_without_mapping": ["--memory", "64M"],
    "file_bomb": ["--disk", "1M"], "descriptor_bomb": FILES, "eventfd_bomb": FILES, "timerfd_bomb": FILES,
    "epoll_bomb": FILES, "inotify_bomb": FILES, "pidfd_bomb": FILES, "raise_limits": FILES,
    "rewrite_call": ["--allow", "debug"], "trace_victim": ["--allow", "debug"], "trace_keeper": ["--allow", "debug"],
    "read_victim": ["--allow", "debug"], "write_victim": ["--allow", "debug"],
    "take_descriptor": ["--allow", "debug"], "compare_victim": ["--allow", "debug"],
    "twin_debug": ["--allow", "debug"],
    "twin_limits": ["--pids", "30", "--memory", "64M", "--disk", "1M", "--files", "64"],
}
DENIED, REFUSED, KILLED, BAD_CALL = 1, 125, 128 + 9, 128 + 31

# The process starts and stays inside: only who is left afterwards tells.
JUDGED_BY_EFFECT = {"outlive", "outlive_stopped", "outlive_undumpable", "kill_everybody"}
KILLS_THE_CALLER = {"kill_everybody", "kill_keeper", "kill_warden"}

# A success that leaves no trace outside the probe: its return value must do.
TRACELESS_FILES = {"devices.c", "identity.c", "inherited.c", "limits.c", "procfs.c", "syscalls.c"}
TRACELESS = {
    "key_request", "kernel_crypto", "lease_readable", "listen_tcp", "mark_outside", "mark_outside_unprivileged",
    "netlink_audit", "netlink_filter", "netlink_route", "netlink_uevent", "open_planted_device", "own_io_realtime",
    "own_priority", "own_realtime", "pair_of_inet", "socket_all_families", "socket_high_half", "stat_outside",
    "stop_keeper", "unix_bind", "victim_advice", "vsock", "watch_outside", "keeper_limits", "victim_pages",
}

# What the process tier does not close: these must succeed inside, so that the list stays true. A row here is an open
# hole that somebody decided to live with, not a pass.
LIMITS = {
    "stat_outside": "Landlock has no right for looking at size, times and owner",
    "read_link_outside": "Landlock has no right for readlink",
    "read_attribute_outside": "Landlock has no right for extended attributes",
    "victim_command_line": "/proc is readable, and command lines are open to every user",
    "kernel_keys": "/proc is readable: names of the user's keys, not their content",
}
LIMITS_OF_ROOT = dict.fromkeys(
    ["kernel_allocations", "kernel_page_cgroups", "kernel_page_counts", "kernel_page_flags", "kernel_slabs",
     "kernel_timers"], "/proc is readable, and the file belongs to root, which the sandbox still is")

LIMITS_OF_USER = {
    "memory_without_mapping": "without a cgroup only mapped memory is counted",
}

# Capabilities that root has and the sandbox has not hold these as well.
HELD_BY_CAPABILITIES = {"victim_priority"}

# Each of these must succeed when the wall is left down.
KNOCK_OUTS = {
    "files": ["read_secret", "write_outside", "create_outside", "remove_file", "truncate_outside", "symlink_write",
              "alias_root", "read_ssh_key", "device_shm"],
    "signals": ["kill_victim", "stop_victim", "tgkill_victim", "pidfd_kill_victim", "queue_to_victim"],
    "syscalls": ["unshare_user", "ring_setup", "segment_read", "segment_remove", "udp4", "i386_call", "own_listener",
                 "pair_sendto", "memfd_execute"],
    "limits": ["file_bomb", "descriptor_bomb"],
    "descriptors": ["inherited_descriptor", "inherited_any_descriptor"],
    "metadata": ["chmod_outside", "fchmod_readable", "utimensat_outside", "setxattr_outside", "setuid_file_openat",
                 "victim_priority", "watch_outside"],
    "privileges": ["write_of_another", "become_other_user"],  # root only: others have none to drop
    "environment": ["inherited_environment"],
}

# Two walls stand before these: with one left down, the other holds.
TWO_WALLS = {
    "tcp4": ["syscalls", "files"], "listen_tcp": ["syscalls", "files"],
    "unix_abstract": ["syscalls", "signals"], "unix_abstract_datagram": ["syscalls", "signals"],
    "trace_victim": ["syscalls", "files"], "victim_environment": ["files", "syscalls"],
    "victim_memory": ["files", "syscalls"], "kill_victim": ["files", "syscalls"], "mount_tmpfs": ["syscalls", "files"],
    "setuid_program": ["syscalls", "metadata"], "mknod_disk": ["syscalls", "files"],
}


def read_list():
    lines = subprocess.run([BUILD / "test/attack/attack", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in lines.splitlines()]


LIST = read_list()
FILE_OF = {name: file for name, _, file, _ in LIST}
ATTACKS = [name for name, kind, _, _ in LIST if kind != "Twin"]
TWINS = [name for name, kind, _, _ in LIST if kind == "Twin"]


def play(stages, user, name, mode, without=()):
    """On both stages at once, as the other user's turn comes anyway."""
    request = name, mode, OPTIONS.get(name, ()) if mode == "jail" else (), without
    for stage in stages.values():
        stage.ask(*request)
    answer = stages[user].play(*request)
    assert "error" not in answer, answer
    return answer


def succeeded(name, answer):
    """Whether an attack worked, by what is seen from outside; a bare return value counts where nothing can be seen."""
    if name in JUDGED_BY_EFFECT:
        return bool(answer["effects"])
    if answer["code"] in (KILLED, -9) and name in KILLS_THE_CALLER:
        return True
    return answer["code"] == 0 or bool(answer["effects"])


def limits_of(user):
    return {**LIMITS, **(LIMITS_OF_ROOT if user == "root" else LIMITS_OF_USER)}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", ATTACKS)
def test_attack(stages, user, name):
    control, jail = play(stages, user, name, "control"), play(stages, user, name, "jail")
    works = succeeded(name, control)
    if works and name not in TRACELESS and FILE_OF[name] not in TRACELESS_FILES and name not in KILLS_THE_CALLER:
        assert control["effects"], f"says that it worked, but nothing happened: {control}"
    if works and name in limits_of(user):
        assert succeeded(name, jail), f"no longer open: take it off the list ({jail})"
        score["limits"].add(name)
        pytest.xfail(limits_of(user)[name])
    assert not succeeded(name, jail), f"control {control}\njail {jail}"
    allowed = {DENIED} | ({0} if name in JUDGED_BY_EFFECT else set())
    allowed |= {KILLED} if FILE_OF[name] == "limits.c" else set()
    allowed |= {REFUSED} if name.startswith("stdin_") else set()  # brig does not start with such a descriptor
    allowed |= {BAD_CALL} if name.startswith(("i386_", "x32_")) else set()
    if not works:
        score["absent"][f"{user} {name}"] = control["text"].strip().rpartition("\n")[2]
        pytest.skip(f"host lacks it: {control['text'].strip()}")
    assert jail["code"] in allowed, f"failed, but not by a wall: {jail}"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", TWINS)
def test_twin(stages, user, name):
    jail = play(stages, user, name, "jail")
    assert jail["code"] == 0 and not jail["effects"], jail


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("wall", KNOCK_OUTS)
def test_knock_out(stages, user, wall):
    seen = score["walls"].setdefault(wall, set())
    missed = []
    for name in KNOCK_OUTS[wall]:
        if not succeeded(name, play(stages, user, name, "control")):
            continue
        if succeeded(name, play(stages, user, name, "jail", [wall])):
            seen.add(name)
        elif user != "root" or name not in HELD_BY_CAPABILITIES:
            missed.append(name)
    assert seen, f"nobody notices when \"{wall}\" is left down"
    assert not missed, f"still denied without \"{wall}\""


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", TWO_WALLS)
def test_two_walls(stages, user, name):
    if not succeeded(name, play(stages, user, name, "control")):
        pytest.skip("host lacks it")
    for wall in TWO_WALLS[name]:
        answer = play(stages, user, name, "jail", [wall])
        assert not succeeded(name, answer), f"open without \"{wall}\": {answer}"
