"""What the workload can do to init, which may be of its own user, and through it: neither the host's files nor the
limits are to be had that way."""

import json
import os
import platform
import shutil
import socket
import sys
import time

import pytest

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "init"))
import speaker  # noqa: E402

pytestmark = pytest.mark.skipif(not (harness.ROOT / "build" / "brig-init").exists(), reason="needs the release build")


@pytest.fixture
def installed(brig):
    """A brig that belongs to the user who runs it, as in a home directory."""
    folder = brig.who.mkdir(brig.folder / "bin")
    for name in ("brig", "brig-init"):
        shutil.copy(brig.exe.with_name(name), folder / name)
        os.chown(folder / name, brig.who.uid, brig.who.gid)
    brig.exe = folder / "brig"
    return folder


def picture(path):
    st = path.stat()
    return st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, path.read_bytes()


def test_the_file_that_init_is_executed_from_is_out_of_reach(brig, installed):
    before = picture(installed / "brig-init")
    sandbox = brig("create").text.strip()
    brig("exec", sandbox, "--", "sh", "-c",
         "chmod 777 /proc/$PPID/exe; touch -d 2001-01-01 /proc/$PPID/exe; chgrp 0 /proc/$PPID/exe;"
         "echo x >> /proc/$PPID/exe; exec 9< /proc/$PPID/exe && chmod 0 /proc/self/fd/9")
    assert brig("exec", sandbox, "--", "echo", "there").text == "there\n"
    brig("kill", sandbox)
    assert picture(installed / "brig-init") == before


def connect(brig, sandbox):
    """A client of the warden, with the words of test/init."""
    folder = os.open(brig.folder / "state" / "brig" / "live", os.O_PATH)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(f"/proc/self/fd/{folder}/{sandbox}.socket")
    os.close(folder)
    return speaker.Speaker(sock)


def create_watched(brig):
    """One whose memory no cgroup counts: what is shared is in no resource limit, only in the warden's sum."""
    made = json.loads(brig("create", "--memory", "64M", "--json").text)
    memory = next(wall for wall in made["enforcement"] if wall["name"] == "memory")
    if "watch" not in memory["mechanism"]:
        brig("kill", made["id"])
        pytest.skip("a cgroup counts the memory")
    return made["id"]


def reason(brig, sandbox):
    harness.wait_until(lambda: not (brig.folder / "state/brig/live" / sandbox).exists(), "the sandbox to end")
    return json.loads(brig("events", sandbox, "--json").text.splitlines()[-1])["reason"]


GREEDY = """
import mmap, time
memory = mmap.mmap(-1, 1 << 28)
for at in range(0, 1 << 28, 4096):
    memory[at] = 1
time.sleep(600)
"""

# Longer than init is given to start something, after which an init that is alone is not looked at so often.
LONG_HOLD = 3


def test_what_was_asked_for_while_it_stood_still_is_watched_as_well(brig):
    sandbox = create_watched(brig)
    holder, client = connect(brig, sandbox), connect(brig, sandbox)
    holder.ask("HOLD", "HELD")
    client.send("START", ARGUMENT=["python3", "-c", GREEDY], FLAGS=speaker.FLAGS["START_KEPT"])
    time.sleep(LONG_HOLD)
    holder.close()
    assert reason(brig, sandbox) == "memory"
    client.close()


# Into init, where it waits in the kernel: be alone; let time pass; take memory that is shared; and wait for ever.
SHELLCODE = bytes.fromhex(
    "b83d000000" "bfffffffff" "31f6" "31d2" "4531d2" "0f05"  # wait4(-1, NULL, 0, NULL)
    "b807000000" "31ff" "31f6" "ba70170000" "0f05"  # poll(NULL, 0, 6000)
    "b809000000" "31ff" "be00000010" "ba03000000" "41ba21800000" "49c7c0ffffffff" "4531c9" "0f05"  # mmap
    "b807000000" "31ff" "31f6" "ba10270000" "0f05" "ebee")  # poll(NULL, 0, 10000), again

TAKE_OVER = f"""
import os
init = os.getppid()
at = int(open(f"/proc/{{init}}/syscall").read().split()[-1], 16)
memory = os.open(f"/proc/{{init}}/mem", os.O_RDWR)
os.pwrite(memory, bytes.fromhex("{SHELLCODE.hex()}"), at)
"""


@pytest.mark.tier("container")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code")
def test_an_init_that_was_taken_over_is_watched_as_well(brig):
    sandbox = create_watched(brig)
    # It gets no answer: who would give it is another one now, and waits until nobody looks.
    client = brig.start("exec", sandbox, "--", "python3", "-c", TAKE_OVER)
    assert reason(brig, sandbox) == "memory"
    client.communicate(timeout=harness.LONG)


def test_what_ends_does_not_stand_still_on_the_way(brig):
    for order in ("PAUSE", "HOLD"):
        sandbox = brig("create").text.strip()
        client = connect(brig, sandbox)
        # In one go, so that the sandbox is on its way to the end and not there yet.
        client.send_raw(speaker.pack("KILL", 1) + speaker.pack(order, 2))
        assert client.wait(2).kind == "ERROR"
        client.wait(1)
        client.close()


def test_a_call_that_was_refused_takes_no_place(brig):
    """More than can wait for an init that stands still are refused; when it goes on, there is room for all again."""
    sandbox = brig("create").text.strip()
    holder, client = connect(brig, sandbox), connect(brig, sandbox)
    null = os.open("/dev/null", os.O_RDWR)
    holder.ask("HOLD", "HELD")
    first = [client.send("START", descriptors=[null] * 3, ARGUMENT=["true"], VARIABLE=["A=" + "a" * 4096]) for _ in range(200)]
    assert client.wait(first[-1]).kind == "ERROR"
    holder.close()
    os.close(null)
    for call in first[:-1]:
        while client.wait(call).kind not in ("ERROR", "EXITED"):
            pass
    again = [client.send("USAGE") for _ in range(250)]
    assert {client.wait(call).kind for call in again} == {"USAGE_IS"}
    client.close()
    brig("kill", sandbox)


@pytest.mark.tier("container")
def test_clients_leave_descriptors_for_the_sandbox(brig):
    """A warden that has few: clients are turned away before it has none left for a terminal that init hands out."""
    brig.outer, before = ["/usr/bin/prlimit", "--nofile=128:128"], brig.outer
    sandbox = brig("create").text.strip()
    brig.outer = before
    clients = [connect(brig, sandbox) for _ in range(200)]
    started = clients[0].ask("START", "STARTED", ARGUMENT=["true"], FLAGS=speaker.FLAGS["START_TERMINAL"])
    assert len(started.descriptors) == 1
    clients[0].later.append(started)
    with pytest.raises((speaker.End, OSError)):
        clients[-1].ask("STATUS", "STATUS_IS")
    for client in clients:
        client.close()
    brig("kill", sandbox)
