"""cgroup v2 is what holds: seen in the kernel's files, log and trace, not in what brig says of itself."""

import contextlib
import ctypes
import json
import os
import re
import subprocess
import time
from pathlib import Path

import harness
import pytest

TREE = Path("/sys/fs/cgroup")
SLEEP = ("sh", "-c", "echo ready; sleep 600; :")


def place(brig):
    """Where "guest" lets this user make cgroups; the session is a leaf in it."""
    return TREE / brig.who.name


def wall(result, name):
    return next(w for w in result["enforcement"] if w["name"] == name)


def read(cgroup, name):
    return (cgroup / name).read_text().strip()


def wait_for(kernel, file, *words):
    return harness.wait_until(lambda: kernel.lines(file, *words), lambda: f"{words} in {kernel.lines(file)[-20:]}")


def names_in(cgroup):
    """What its processes execute: a child of a shell is a shell until it does."""
    names = []
    for pid in pids_in(cgroup):
        with contextlib.suppress(OSError):
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return names


class Writes:
    """Whether a file was written to, by inotify."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        path.chmod(0o600)  # who watches a file must be able to read it
        assert libc.inotify_add_watch(self.fd, os.fsencode(path), 0x2) >= 0, os.strerror(ctypes.get_errno())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def seen(self):
        try:
            return bool(os.read(self.fd, 4096))
        except BlockingIOError:
            return False


@contextlib.contextmanager
def running(brig, tier, *options):
    """A sandbox that runs, and its cgroup."""
    process = brig.start("run", "--isolation", tier, *options, "--", *SLEEP)
    try:
        harness.wait_for_line(process, b"ready")
        found = list(place(brig).glob("brig-*"))
        assert len(found) == 1, found
        yield process, found[0]
    finally:
        process.terminate()
        harness.finish(process)


def pids_in(cgroup):
    return {int(pid) for path in cgroup.glob("**/cgroup.procs") for pid in path.read_text().split()}


def is_asleep(cgroup):
    """Whether one of its processes waits for a clock."""
    for pid in pids_in(cgroup):
        with contextlib.suppress(OSError):
            if "nanosleep" in Path(f"/proc/{pid}/wchan").read_text():
                return True
    return False


def test_the_machine_has_only_v2(brig, kernel):
    assert " - cgroup2 " in Path("/proc/self/mountinfo").read_text()
    assert " - cgroup " not in Path("/proc/self/mountinfo").read_text()
    facts = {f["name"]: f for f in json.loads(brig("doctor", "--json").out)["host"]}
    for name in ("memory", "pids", "cpu", "kill"):
        assert facts[f"cgroup_{name}"]["ok"], facts[f"cgroup_{name}"]


@pytest.mark.tier("container")
def test_a_tier_runs_or_is_refused_in_words(brig, kernel):
    """Also on a kernel that is too old for it: never a tier with fewer walls."""
    for tier in json.loads(brig("doctor", "--json").out)["tiers"]:
        canary = brig.who.mkdir(brig.work / tier["tier"]) / "canary"
        command = ("run", "--isolation", tier["tier"], "--allow-write", canary.parent, "--", "touch", canary)
        assert tier["state"] in ("ready", "not built") or kernel.is_old, tier
        if tier["state"] == "ready":
            assert brig(*command).code == 0
        else:
            brig.refused(*command)
        assert canary.exists() == (tier["state"] == "ready")


def test_the_report_says_v2(brig, kernel, tier):
    result = brig.json("--isolation", tier, "--memory", "200M", "--pids", "50", "--cpu", "0.5", "--cpu-time", "20s", "--", "true")
    for name in ("memory", "pids", "cpu", "cpu_time"):
        assert "cgroup v2" in wall(result, name)["mechanism"]


def test_the_limits_are_in_the_kernels_files(brig, kernel, tier):
    with running(brig, tier, "--memory", "200M", "--pids", "50", "--cpu", "0.5") as (_, cgroup):
        assert read(cgroup, "memory.max") == str(200 << 20)
        assert read(cgroup, "memory.oom.group") == "1"
        brigs_own = [pid for pid in pids_in(cgroup) if Path(f"/proc/{pid}/comm").read_text().startswith("brig")]
        assert int(read(cgroup, "pids.max")) == 50 + len(brigs_own)
        quota, period = map(int, read(cgroup, "cpu.max").split())
        assert quota * 2 == period
    harness.wait_until(lambda: not cgroup.exists(), "the janitor")


def test_the_sandbox_is_inside_and_its_warden_is_not(brig, kernel, tier):
    with running(brig, tier, "--memory", "200M") as (warden, cgroup):
        sleeping = harness.wait_until(
            lambda: {pid for pid in harness.pids() if harness.cmdline(pid) == b"sleep\x00600\x00"}, "the sleeping program")
        assert sleeping <= pids_in(cgroup)
        assert warden.pid not in pids_in(cgroup)


def test_memory_is_ended_by_the_kernel_and_told_from_its_count(brig, kernel, tier):
    result = brig.json("--isolation", tier, "--memory", "60M", "--", "python3", "-c", "x = b'x' * (200 << 20)")
    assert result["reason"] == "memory"
    assert wait_for(kernel, "kmsg", "oom-kill:constraint=CONSTRAINT_MEMCG", f"brig-{result['sandbox']}")
    assert result["peak_memory"] <= 61 << 20


def test_memory_that_many_share_is_summed(brig, kernel, tier):
    code = ("import os, time\n"
            "for i in range(4):\n"
            "  if os.fork() == 0: x = b'x' * (30 << 20); time.sleep(600)\n"
            "time.sleep(600)")
    result = brig.json("--isolation", tier, "--memory", "80M", "--wall", "25s", "--", "python3", "-c", code)
    assert result["reason"] == "memory"
    assert wait_for(kernel, "kmsg", "CONSTRAINT_MEMCG", f"brig-{result['sandbox']}")


def test_forks_are_refused_by_the_kernel_and_told_from_its_count(brig, kernel, tier):
    code = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 20 & done; exit 3"
    result = brig.json("--isolation", tier, "--pids", "10", "--", "sh", "-c", code)
    assert result["reason"] == "pids"
    assert wait_for(kernel, "kmsg", "fork rejected by pids controller", f"brig-{result['sandbox']}")


def test_a_fork_bomb_ends_whole(brig, kernel, tier, mark):
    bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    result = brig.json("--isolation", tier, "--pids", "40", "--wall", "3s", "--", "python3", "-c", bomb, mark)
    assert result["reason"] in ("timeout", "pids")
    assert not harness.marked(mark)


def test_a_fraction_of_a_cpu(brig, kernel, tier):
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    result = brig.json("--isolation", tier, "--cpu", "0.2", "--", "python3", "-c", burn)
    assert result["exit_code"] == 0
    assert result["duration_ms"] > 1300


def test_cpu_time_is_the_sum_of_all(brig, kernel, tier):
    code = "import os\nfor i in range(3): os.fork()\nwhile True: pass"
    begin = time.monotonic()
    result = brig.json("--isolation", tier, "--cpu-time", "2s", "--wall", "25s", "--", "python3", "-c", code)
    assert result["reason"] == "cpu"
    assert result["cpu_ms"] >= 2000
    assert time.monotonic() - begin < 20


def test_what_its_keeper_cannot_end_is_ended_by_cgroup_kill(brig, kernel, tier):
    """A write to the file is seen by inotify. Only cgroup.kill sends SIGKILL to single threads as if by a user: kill()
    sends to groups, tgkill() and the kernel's own reasons have other codes."""
    with running(brig, tier, "--memory", "200M") as (warden, cgroup), Writes(cgroup / "cgroup.kill") as writes:
        # One that only starts would end by itself: without a keeper its files cannot be opened.
        harness.wait_until(lambda: "sleep" in names_in(cgroup) and is_asleep(cgroup), "the sleeping program")
        harness.kill(harness.keeper_of(warden.pid))
        warden.wait(harness.HANG)
        assert writes.seen()
    if tier == "process":
        wait_for(kernel, "trace", "brig-", "signal_generate", "sig=9 errno=0 code=0", "comm=sleep", "grp=0")


@pytest.mark.tier("container")
def test_the_first_process_is_born_inside(brig, kernel, tier):
    """The kernel's trace names everyone who is moved into a cgroup. Who is born there was not moved."""
    control = place(brig) / f"control-{os.getpid()}"
    control.mkdir()
    subprocess.run(["sh", "-c", f"echo 0 >{control}/cgroup.procs"], check=True)
    wait_for(kernel, "trace", "cgroup_attach_task", control.name)
    control.rmdir()

    with running(brig, tier, "--memory", "200M") as (_, cgroup):
        wait_for(kernel, "trace", "cgroup_mkdir", cgroup.name)
        assert pids_in(cgroup)
    assert not kernel.lines("trace", "cgroup_attach_task", cgroup.name)


def test_alone_in_a_delegated_cgroup(brig, kernel, tier):
    """As "systemd-run --user --scope -p Delegate=yes brig ..." starts it: no ancestor can be used."""
    own = place(brig) / "session" / f"scope-{os.getpid()}"
    own.mkdir()
    try:
        if brig.who.is_root:
            pytest.skip("root always finds an ancestor")
        enter = ["sh", "-c", f'echo 0 >{own}/cgroup.procs && exec "$@"', "sh"]
        done = brig("run", "--json", "--isolation", tier, "--memory", "200M", "--pids", "50", "--", "true", before=enter)
        assert done.code == 0, done
        assert "cgroup v2" in wall(json.loads(done.out), "memory")["mechanism"]
    finally:
        harness.wait_until(lambda: not read(own, "cgroup.procs"), "processes in the scope")
        own.rmdir()


def test_many_at_once_leave_nothing(brig, kernel, tier):
    running = [brig.start("run", "--isolation", tier, "--memory", "100M", "--pids", "20", "--", "true") for _ in range(8)]
    for process in running:
        assert harness.finish(process).code == 0
    # The caller does not wait for the janitor, but it always comes.
    harness.wait_until(lambda: not list(place(brig).glob("brig-*")), lambda: list(place(brig).glob("brig-*")))
    assert len({re.sub(r".*(brig-\w+).*", r"\1", line) for line in wait_for(kernel, "trace", "cgroup_mkdir", "/brig-")}) >= 8
