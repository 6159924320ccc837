"""Whatever ends a sandbox ends all of it. Judged from outside, by a mark in the arguments of its processes."""

import os
import signal
import subprocess

import pytest

import harness

# Starts a tree of each awkward kind, waits until every process of it is up, says "ready" and sleeps.
TREE = r"""
import ctypes, os, signal, sys, time
kind = sys.argv[2]
ready_r, ready_w = os.pipe()

def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)

def stay():
    os.write(ready_w, b"x")
    while True: time.sleep(100)

def child(work):
    if os.fork() == 0:
        work()
        stay()

def setsid_and_fork_twice():
    os.setsid()
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
    deaf()

def stop():
    deaf()
    os.write(ready_w, b"x")
    os.kill(os.getpid(), signal.SIGSTOP)

def trace():
    deaf()
    tracee = os.fork()
    if tracee == 0:
        deaf()
        if ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0) < 0: os._exit(3)
        os.kill(os.getpid(), signal.SIGSTOP)
        stay()
    if not os.WIFSTOPPED(os.waitpid(tracee, os.WUNTRACED)[1]): os._exit(3)

kinds = {
    "plain": [lambda: None],
    "deaf": [deaf],
    "daemon": [setsid_and_fork_twice],
    "stopped": [stop],
    "traced": [trace],
    "many": [deaf] * 40,
    "all": [deaf, setsid_and_fork_twice, stop, trace],
}
for work in kinds[kind]: child(work)
if kind != "plain": deaf()
for _ in kinds[kind]: os.read(ready_r, 1)
print("ready", flush=True)
if len(sys.argv) > 3 and sys.argv[3] == "exit": os._exit(5)
while True: time.sleep(100)
"""
KINDS = ["plain", "deaf", "daemon", "stopped", "traced", "many", "all"]


def grow(brig, mark, kind, *options, more=()):
    debug = ["--allow", "debug"] if kind in ("traced", "all") else []
    return brig.start("run", *debug, *options, "--", "python3", "-c", TREE, mark, kind, *more)


def assert_all_dead(mark):
    harness.wait_until(lambda: not harness.marked(mark),
                       lambda: [(p, harness.state(p)) for p in harness.marked(mark)])


def ready(process, mark):
    harness.wait_for_line(process, b"ready")
    assert harness.marked(mark), "the tree should be visible from outside while it lives"


def test_the_mark_finds_a_process_without_brig(brig, mark):
    """The judge can see: a tree outside of a sandbox is found, and still there when its parent is gone."""
    process = subprocess.Popen([*brig.who.prefix(), "/usr/bin/python3", "-c", TREE, mark, "daemon"],
                               stdout=subprocess.PIPE, env=brig.env(), cwd="/")
    ready(process, mark)
    process.kill()
    process.wait(harness.HANG)
    left = harness.marked(mark)
    for pid in left:
        harness.kill(pid)
    process.stdout.close()
    assert left
    assert_all_dead(mark)


@pytest.mark.parametrize("kind", ["plain", "many", "all"])
def test_the_deadline_ends_the_whole_tree(brig, mark, kind):
    done = harness.with_room(lambda wall: harness.finish(grow(brig, mark, kind, "--wall", wall)), lambda done: done.out)
    assert (done.code, done.out) == (124, b"ready\n"), done
    assert not harness.marked(mark)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_to_brig_ends_the_whole_tree(brig, mark, kind, number):
    process = grow(brig, mark, kind)
    ready(process, mark)
    process.send_signal(number)
    assert harness.finish(process).code == 128 + number
    assert not harness.marked(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_killing_brig_ends_the_whole_tree(brig, mark, kind):
    process = grow(brig, mark, kind)
    ready(process, mark)
    process.kill()
    process.communicate(timeout=harness.HANG)
    assert_all_dead(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_killing_the_keeper_ends_the_whole_tree(brig, mark, kind):
    process = grow(brig, mark, kind)
    ready(process, mark)
    harness.kill(harness.keeper_of(process.pid))
    done = harness.finish(process)
    assert done.code == 128 + signal.SIGKILL
    assert_all_dead(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_behind_dies_with_the_main_program(brig, mark, kind):
    done = harness.finish(grow(brig, mark, kind, more=["exit"]))
    assert done.code == 5
    assert not harness.marked(mark)


BOMB = r"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
"""


@pytest.mark.parametrize("how", ["deadline", "SIGTERM", "SIGINT", "kill brig", "kill keeper"])
def test_a_fork_bomb_in_full_flight_ends(brig, mark, how):
    process = brig.start("run", "--pids", "60", "--wall", "1500ms" if how == "deadline" else "1h", "--",
                         "python3", "-c", BOMB, mark)
    if how != "deadline":
        harness.wait_for_line(process, b"ready")
        harness.wait_until(lambda: len(harness.marked(mark)) > 30, "the bomb to grow")
    if how.startswith("SIG"):
        process.send_signal(getattr(signal, how))
    elif how == "kill brig":
        process.kill()
    elif how == "kill keeper":
        harness.kill(harness.keeper_of(process.pid))
    harness.finish(process)
    assert_all_dead(mark)


def test_a_fork_bomb_ends_without_a_cgroup(brig, mark, hooks):
    """Without a limit of processes there is no cgroup; the bomb bounds itself."""
    many = 60 if brig.is_container else len(harness.pids()) + 200  # in a container it sees only itself
    code = BOMB.replace("os.fork()", f"os.fork() if sum(n.isdigit() for n in os.listdir('/proc')) < {many} else time.sleep(0.01)")
    process = brig.start("run", "--", "python3", "-c", code, mark, env={"BRIG_TEST_FAIL": "cgroup=1"})
    harness.wait_until(lambda: len(harness.marked(mark)) > 30, "the bomb to grow")
    process.send_signal(signal.SIGTERM)
    harness.finish(process)
    assert not harness.marked(mark)


def test_a_second_signal_ends_without_grace(brig, mark):
    process = grow(brig, mark, "deaf")
    ready(process, mark)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert harness.finish(process).code in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert not harness.marked(mark)


def test_the_signal_of_the_caller_reaches_the_program(brig):
    """What it does about it has to fit into the grace."""
    def signalled():
        process = brig.start("run", "--", "sh", "-c", "trap 'echo got it; exit 3' TERM; echo ready; sleep 600 & wait")
        harness.wait_for_line(process, b"ready")
        process.send_signal(signal.SIGTERM)
        return harness.finish(process)

    done = harness.in_time(signalled, lambda done: done.out)
    assert (done.code, done.out) == (128 + signal.SIGTERM, b"got it\n")


def test_a_program_that_closes_its_output_does_not_confuse_the_end(brig, mark):
    result = brig.json("--wall", "500ms", "--", "sh", "-c", f"exec >&- 2>&-; sleep 60; : {mark}")
    assert result["reason"] == "timeout"
    assert not harness.marked(mark)


def test_output_of_a_background_process_does_not_hold_up_the_end(brig, mark):
    done = brig.run("--", "sh", "-c", f"(sleep 600; : {mark}) & echo over")
    assert (done.code, done.out) == (0, b"over\n")
    assert not harness.marked(mark)


def test_the_sandbox_cannot_signal_brig_the_keeper_or_its_neighbours(brig, mark):
    """Of the same user, and out of reach all the same. In a container nobody else has a number at all; the keeper has,
    and it is the init of its namespace, which the kernel keeps from signals of its children."""
    neighbour = subprocess.Popen([*brig.who.prefix(), "/bin/sleep", "600"], cwd="/", env={"X": mark})
    try:
        code = ("import os, sys\n"
                "for pid in [os.getppid(), int(sys.argv[1]), int(sys.argv[2])]:\n"
                "  try: os.kill(pid, 9); print('sent to', pid)\n"
                "  except PermissionError: print('refused')\n"
                "  except ProcessLookupError: print('nobody')\n"
                "print('alive', os.getppid())\n")
        done = brig.python(code, neighbour.pid, os.getpid())
        lines = done.text.splitlines()
        if brig.is_container:
            assert lines[0] in ("refused", "sent to 1") and lines[1:] == ["nobody", "nobody", "alive 1"]
        else:
            assert lines[:3] == ["refused"] * 3 and lines[3].startswith("alive ")
        assert done.code == 0 and neighbour.poll() is None
    finally:
        neighbour.kill()
        neighbour.wait()


def test_stopping_and_continuing_brig_itself(brig):
    process = brig.start("run", "--", "sh", "-c", "echo ready; read x; echo over", stdin=subprocess.PIPE)
    harness.wait_for_line(process, b"ready")
    process.send_signal(signal.SIGSTOP)
    harness.wait_until(lambda: harness.state(process.pid) == "T", "brig to stop")
    process.send_signal(signal.SIGCONT)
    process.stdin.write(b"go\n")
    assert harness.finish(process).out == b"over\n"


def test_ignored_signals_of_the_caller_stay_ignored(brig):
    """nohup brig run: a hangup is not for us."""
    process = brig.start("run", "--", "sh", "-c", "echo ready; read x; echo over", stdin=subprocess.PIPE,
                         before=["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"])
    harness.wait_for_line(process, b"ready")
    process.send_signal(signal.SIGHUP)
    process.stdin.write(b"go\n")
    done = harness.finish(process)
    assert (done.code, done.out) == (0, b"over\n")


# Nothing is left of a container


def spaces():
    """Every namespace that a process of this host is in."""
    found = set()
    for pid in harness.pids():
        found |= {harness.link(pid, f"ns/{name}") for name in ("mnt", "pid", "net", "ipc", "uts", "cgroup", "user", "time")}
    return found


@pytest.mark.tier("container")
def test_a_hundred_quick_runs_leave_nothing(brig):
    """Processes and cgroups are counted by the fixture; here mounts, namespaces, locks, and files of /run."""
    def state():
        mounts = [line for line in open("/proc/self/mountinfo") if "brig" in line or "overlay" in line]
        locks = [line for line in open("/proc/locks") if os.path.isdir("/run/brig") and f":{os.stat('/run/brig/ids').st_ino} " in line] \
            if os.path.exists("/run/brig/ids") else []
        return len(mounts), {line.split(":", 1)[1] for line in locks}, sorted(os.listdir("/run/brig")) if os.path.isdir("/run/brig") else []

    brig.run("--", "true")
    before, known = state(), spaces()
    for i in range(100):
        options = ["--memory", "200M", "--pids", "50"] if i % 10 == 0 else []
        assert brig.run(*options, "--", "true").code == 0
    # The last keeper's exit takes its namespaces along, and brig does not wait for that.
    harness.wait_until(lambda: not [pid for pid in harness.pids() if harness.runs(pid, brig.exe)], "the last keeper")
    # Whoever else has one now may keep it as long as he likes, but hardly as long as this.
    left = state()[1] - before[1]
    harness.wait_until(lambda: state()[0] == before[0] and not left & state()[1] and state()[2] == before[2],
                       lambda: f"mounts, locks of id ranges, files of /run: {before}, now {state()}")
    assert not {s for s in spaces() - known if s and any(harness.link(p, "exe").startswith(str(brig.exe)) for p in harness.pids())}


@pytest.mark.tier("container")
def test_twenty_sandboxes_at_once(brig):
    started = [brig.start("run", "--", "sh", "-c", f"echo {i} > /tmp/x; sleep 0.2; cat /tmp/x") for i in range(20)]
    assert [harness.finish(p).out for p in started] == [f"{i}\n".encode() for i in range(20)]


@pytest.mark.tier("container")
@pytest.mark.parametrize("how", ["brig", "keeper", "deadline", "SIGTERM"])
def test_however_it_ends_cgroups_and_ids_are_given_back(brig, mark, how):
    """With limits, so that there is a cgroup where one can be had."""
    wall = ["--wall", "700ms"] if how == "deadline" else []
    process = brig.start("run", "--memory", "200M", "--pids", "50", *wall, "--", "sh", "-c", f"(setsid sleep 600; : {mark}) & echo ready; wait; : {mark}")
    if how != "deadline":
        harness.wait_for_line(process, b"ready")
    if how == "brig":
        process.kill()
    elif how == "keeper":
        harness.kill(harness.keeper_of(process.pid))
    elif how == "SIGTERM":
        process.terminate()
    harness.finish(process)
    assert_all_dead(mark)


@pytest.mark.tier("container")
def test_the_keeper_reaps_and_is_not_seen_as_a_parent_of_zombies(brig):
    """Orphans go to pid 1, which has to take their status: a thousand of them must not pile up."""
    script = "for i in $(seq 200); do (true &) ; done; while ps -eo stat | grep -q Z; do sleep 0.05; done; echo none"
    assert brig.run("--", "sh", "-c", script).text.strip() == "none"
