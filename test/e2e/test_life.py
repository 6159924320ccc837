"""The life of a sandbox: made, used, left, found again, ended; and what is left when somebody is killed on the way."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "init"))
import speaker  # noqa: E402
from test_hostile_init import connect  # noqa: E402


@pytest.fixture
def sandbox(brig):
    """A sandbox that lives, and its end."""
    made = brig("create")
    assert made.code == 0, made
    yield made.text.strip()
    brig("kill", made.text.strip())


def live(brig):
    folder = brig.folder / "state" / "brig" / "live"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def manifest(brig, sandbox):
    return json.loads((brig.folder / "state" / "brig" / "live" / sandbox).read_text())


def last_event(brig, sandbox):
    return json.loads(brig("events", sandbox, "--json").text.splitlines()[-1])


def test_it_is_made_used_by_many_calls_and_ended(brig):
    sandbox = brig("create").text.strip()
    assert len(sandbox) == 12 and sandbox.isalnum()
    assert brig("exec", sandbox, "--", "sh", "-c", "echo one > $HOME/file").code == 0
    assert brig("exec", sandbox, "--", "sh", "-c", "cat $HOME/file").text == "one\n"
    assert brig("kill", sandbox).code == 0
    assert live(brig) == []
    assert last_event(brig, sandbox)["reason"] == "killed"


def test_json_describes_it_with_its_walls(brig):
    made = json.loads(brig("create", "--json", "--name", "one").text)
    jsonschema.Draft202012Validator(brig.schema("create")).validate(made)
    assert live(brig) == [made["id"], f"{made['id']}.socket"], "asking for the schema makes no sandbox"
    assert made["policy"].startswith("sha256:")
    assert made["name"] == "one" and made["isolation"] == brig.tier
    assert {"files" if not brig.is_container else "namespaces", "syscalls"} <= {w["name"] for w in made["enforcement"]}
    assert brig("exec", "one", "--", "true").code == 0
    assert brig("kill", "one").code == 0


def test_a_name_and_the_beginning_of_an_id_are_as_good_as_the_id(brig):
    first = brig("create", "--name", "first").text.strip()
    assert brig("exec", "first", "--", "true").code == 0
    assert brig("exec", first[:6], "--", "true").code == 0
    assert "is taken" in brig.refused("create", "--name", "first")
    assert "no sandbox" in brig.refused("exec", "nosuch", "--", "true")
    assert "no sandbox" in brig.refused("exec", "../../etc", "--", "true")
    assert brig("kill", "first").code == 0
    again = brig("create", "--name", "first").text.strip()
    assert again != first
    assert brig("kill", again).code == 0


@pytest.mark.tier("container")
def test_only_one_gets_a_name(brig):
    for _ in range(10):
        makers = [brig.start("create", "--name", "wanted") for _ in range(6)]
        made = [(maker.communicate(timeout=harness.LONG)[0].decode().strip(), maker.returncode) for maker in makers]
        winners = [sandbox for sandbox, code in made if code == 0]
        assert len(winners) == 1, made
        brig("kill", winners[0])
    assert live(brig) == []


def test_one_that_ends_takes_no_name_along_that_is_not_its_own(brig):
    first, second = brig("create", "--name", "wanted").text.strip(), brig("create").text.strip()
    link = brig.folder / "state" / "brig" / "names" / "wanted"
    link.unlink()
    link.symlink_to(second)
    brig("kill", first)
    assert os.readlink(link) == second
    assert brig("kill", "wanted").text.strip() == second


@pytest.mark.parametrize("name", ["", ".x", "-x", "a/b", "a b", "x" * 65, "a\nb"])
def test_what_cannot_be_a_name_is_refused(brig, name):
    assert "name" in brig.refused("create", "--name", name)


def test_nothing_of_the_caller_stays_with_it(brig):
    """The caller's pipes end when he does: nobody waits for a warden in the background."""
    client = brig.start("create")
    pipes = {f"pipe:[{os.fstat(pipe.fileno()).st_ino}]" for pipe in (client.stdout, client.stderr)}
    sandbox = client.communicate()[0].decode().strip()
    warden = manifest(brig, sandbox)["pid"]
    for pid in (warden, *harness.descendants(warden)):
        # One of those that set it up may be gone.
        with contextlib.suppress(FileNotFoundError):
            assert not pipes & {harness.link(pid, f"fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    for fd in range(3):
        assert harness.link(warden, f"fd/{fd}") == "/dev/null"
    brig("kill", sandbox)


def test_the_warden_has_shut_itself_in(brig, sandbox):
    status = harness.status(manifest(brig, sandbox)["pid"])
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) in (0, 1 << 5)  # of root: to signal


def test_it_ends_at_its_deadline(brig):
    sandbox = brig("create", "--wall", "2s").text.strip()
    harness.wait_until(lambda: live(brig) == [], "the deadline")
    assert last_event(brig, sandbox)["reason"] == "timeout"


def test_a_deadline_is_extended_and_shortened(brig):
    sandbox = brig("create", "--wall", "1h").text.strip()
    assert brig("extend", sandbox, "2h").code == 0
    assert brig("exec", sandbox, "--", "true").code == 0
    assert brig("extend", sandbox, "100ms").code == 0
    harness.wait_until(lambda: live(brig) == [], "the new deadline")
    assert last_event(brig, sandbox)["reason"] == "timeout"


def test_it_ends_when_nobody_wants_anything(brig):
    sandbox = brig("create", "--idle", "300ms").text.strip()
    harness.wait_until(lambda: live(brig) == [], "the end of an idle sandbox")
    assert last_event(brig, sandbox)["reason"] == "idle"


def test_it_is_not_idle_while_something_runs(brig, mark):
    def start():
        sandbox = brig("create", "--idle", "500ms").text.strip()
        return sandbox, brig("exec", "-d", sandbox, "--", "sh", "-c", f"sleep 2; : {mark}").code

    sandbox, code = harness.in_time(start, lambda started: started[1] == 0)
    assert code == 0
    harness.wait_until(lambda: not harness.marked(mark) or live(brig) == [], "the program to end")
    assert not harness.marked(mark)
    harness.wait_until(lambda: live(brig) == [], "the end of an idle sandbox")
    assert last_event(brig, sandbox)["reason"] == "idle"


def test_a_client_that_is_killed_changes_nothing(brig, sandbox, mark):
    client = brig.start("exec", sandbox, "--", "sh", "-c", f"echo up; sleep 100; : {mark}")
    harness.wait_for_line(client, b"up")
    client.kill()
    client.communicate()
    assert brig("exec", sandbox, "--", "echo", "still here").text == "still here\n"
    assert harness.marked(mark), "what it started goes on"


def test_a_warden_that_is_killed_takes_its_sandbox_along(brig, mark):
    sandbox = brig("create").text.strip()
    assert brig("exec", "-d", sandbox, "--", "sh", "-c", f"sleep 100; : {mark}").code == 0
    harness.wait_until(lambda: harness.marked(mark), "the program to run")
    os.kill(manifest(brig, sandbox)["pid"], signal.SIGKILL)
    harness.wait_until(lambda: not harness.marked(mark), "the end of the sandbox")
    assert "lost" in brig("ps").text
    assert live(brig) == [], "the next command sweeps what is left"
    assert brig("events", sandbox).code == 0


def test_init_that_is_killed_from_inside_is_the_end_with_a_reason(brig, sandbox):
    brig("exec", sandbox, "--", "sh", "-c", "kill -9 $PPID")
    if brig.who.is_root and brig.is_container:
        # Another user's, there: it is out of reach.
        assert brig("exec", sandbox, "--", "true").code == 0
        return
    harness.wait_until(lambda: live(brig) == [], "the end")
    assert last_event(brig, sandbox)["reason"] == "init"


STRANGER = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_PATH)
s = socket.socket(socket.AF_UNIX)
s.connect(f"/proc/self/fd/{folder}/{sys.argv[2]}")
print("connected", flush=True)
try:
    s.sendall(bytes.fromhex(sys.argv[3]))
    print(len(s.recv(1)))
except OSError:
    print(0)
"""


@pytest.mark.parametrize("wall", ["up", "down"])
def test_other_users_are_not_let_in(brig, hooks, wall):
    """The way to the socket is opened here, to see that it is not the way alone that keeps strangers out."""
    if not brig.who.is_switched:
        pytest.skip("needs an owner other than root, and somebody else")
    sandbox = brig("create", env={"BRIG_TEST_WITHOUT": "owner"} if wall == "down" else None).text.strip()
    state = brig.folder / "state"
    folders = (state, state / "brig", state / "brig" / "live")
    for path in folders:
        path.chmod(0o755)
    os.chmod(folders[-1] / f"{sandbox}.socket", 0o777)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c",
                           STRANGER, str(folders[-1]), f"{sandbox}.socket", speaker.pack("STATUS", 1).hex()],
                          capture_output=True, text=True, check=False)
    for path in folders:
        path.chmod(0o700)
    assert done.stdout == ("connected\n0\n" if wall == "up" else "connected\n1\n"), done
    brig("kill", sandbox)


@pytest.mark.parametrize("flags", [os.O_RDONLY | os.O_DIRECTORY, os.O_PATH])
def test_a_way_to_the_hosts_files_is_not_handed_in(brig, sandbox, flags):
    client = connect(brig, sandbox)
    null, odd = os.open("/dev/null", os.O_RDWR), os.open("/", flags)
    refused = client.ask("START", "ERROR", ARGUMENT=["true"], descriptors=[odd, null, null])
    assert "cannot be handed" in refused["TEXT"]
    started = client.ask("START", "STARTED", ARGUMENT=["true"], descriptors=[null, null, null])
    assert started["PROCESS"] == 1
    for fd in (null, odd):
        os.close(fd)
    client.close()


POINTS = ["create:prepared", "create:begun", "create:entered", "create:ready", "create:told"]


@pytest.mark.parametrize("point", POINTS)
def test_a_warden_that_is_killed_while_it_makes_one_leaves_nothing(brig, hooks, point):
    done = brig("create", env={"BRIG_TEST_DIE": point})
    if point == "create:told":
        assert done.code == 0
    else:
        assert done.code == 125 and "killed" in done.error, done
    harness.wait_until(lambda: not harness.processes_of(brig), "all processes to end")
    brig("ps")
    assert live(brig) == []
    # A cgroup that nobody was put in charge of yet is removed by the end of a later sandbox, after some seconds.
    harness.wait_until(lambda: not brig.leftovers() or brig("kill", brig("create").text.strip()).code, "the cgroup")


@pytest.mark.parametrize("point", ["exec:asked", "exec:started"])
def test_a_warden_that_is_killed_during_exec_leaves_nothing(brig, hooks, mark, point):
    sandbox = brig("create", env={"BRIG_TEST_DIE": point}).text.strip()
    done = brig("exec", sandbox, "--", "sh", "-c", f"sleep 100; : {mark}")
    assert done.code in (125, 137) and done.error.startswith("brig: "), done
    harness.wait_until(lambda: not harness.marked(mark), "the program to end")
    brig("ps")
    assert live(brig) == []


@pytest.mark.parametrize("point", ["destroy:ordered", "destroy:finished", "destroy:recorded", "destroy:left"])
def test_a_warden_that_is_killed_while_it_ends_one_leaves_nothing(brig, hooks, point):
    sandbox = brig("create", env={"BRIG_TEST_DIE": point}).text.strip()
    brig("kill", sandbox)
    harness.wait_until(lambda: not harness.processes_of(brig), "all processes to end")
    brig("ps")
    assert live(brig) == []


def test_a_hundred_clients_at_once(brig, sandbox):
    clients = [brig.start("exec", sandbox, "--", "sh", "-c", f"echo {i}") for i in range(100)]
    for i, client in enumerate(clients):
        out, err = client.communicate(timeout=harness.LONG)
        assert (client.returncode, out) == (0, f"{i}\n".encode()), err


def test_an_idle_sandbox_does_not_wake_up(brig):
    # Where a workload could take init over, and no cgroup counts, limits are looked at once a second.
    has_watch = brig.is_container and not brig.who.is_root
    sandbox = brig("create", *([] if has_watch else ["--memory", "256M"])).text.strip()
    brig("exec", sandbox, "--", "true")
    about = manifest(brig, sandbox)

    def switches():
        try:
            return [(pid, harness.status(pid)["voluntary_ctxt_switches"])
                    for pid in (about["pid"], *harness.descendants(about["pid"]))]
        except FileNotFoundError:  # one of those that set it up, gone meanwhile: no rest yet
            return object()

    # Once it has come to rest it stays there: two looks that are apart find the same.
    harness.wait_until(lambda: is_same_twice(switches), "the sandbox to come to rest")
    brig("kill", sandbox)


def is_same_twice(look):
    before = look()
    subprocess.run(["sleep", "0.5"], check=True)
    return look() == before


def test_one_leaves_nothing_after_many_lives(brig):
    """Processes, descriptors, mounts, cgroups, namespaces and files: as many afterwards as before."""
    count = int(os.environ.get("BRIG_TEST_LIVES", "25"))
    born = set()
    for _ in range(count):
        sandbox = brig("create").text.strip()
        assert brig("exec", sandbox, "--", "true").code == 0
        warden = manifest(brig, sandbox)["pid"]
        born |= births([warden, *harness.descendants(warden)])
        assert brig("kill", sandbox).code == 0
    brig.settle()
    assert live(brig) == []
    # A namespace goes with its last process.
    harness.wait_until(lambda: not [pid for pid, _ in born & births(harness.pids()) if harness.state(pid) != "Z"],
                       "its processes to go")


def births(pids):
    """Processes, with the time when each began: numbers are used again."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add((pid, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]))
    return found


def test_programs_start_where_they_may_write(brig):
    at_home, at_work = brig("create").text.strip(), brig("create", "--allow-write", ".").text.strip()
    assert brig("exec", at_home, "--", "sh", "-c", 'test "$PWD" = "$HOME" && python3 -m venv --without-pip env').code == 0
    assert brig("exec", at_work, "--", "pwd").text == f"{brig.work}\n"
    assert brig("kill", at_home, at_work).code == 0
