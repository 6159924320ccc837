"""What a sandbox tries is recorded: by the kernel's notifications, judged by the policy, written outside."""

import json
import os
import signal
import subprocess
from pathlib import Path

import harness
import pytest


def events(brig, *args):
    return [json.loads(line) for line in brig("events", "--json", *args).text.splitlines()]


def denials(result, action):
    return {d["object"]: d for d in result["denials"] if d["action"] == action}


@pytest.fixture
def secret():
    """A file that everybody may read, and no policy shows. Not in a folder that a container has of its own."""
    return Path("/etc/login.defs")


def test_every_refusal_has_its_rule_and_its_remedy(brig, secret):
    script = f"cat {secret}; echo x > new; echo x > /usr/new; {secret}; true"
    result = brig.json("--", "sh", "-c", script)
    assert result["exit_code"] == 0
    read = denials(result, "read")[str(secret)]
    assert read["rule"] is None and read["allow_with"] == f"--allow-read {secret}" and "no rule" in read["reason"]
    write = denials(result, "write")[str(brig.work / "new")]
    assert write["rule"]["source"] == "base" and write["rule"]["key"] == "fs" and write["rule"]["line"] > 0
    assert write["allow_with"] == f"--allow-write {brig.work}/new"
    assert denials(result, "write")["/usr/new"]["rule"]["source"] == "base"
    assert str(secret) in denials(result, "exec")
    # What is said is true: with the remedy it works.
    done = brig.run("--allow-read", secret, "--allow-write", brig.work, "--", "sh", "-c", f"cat {secret}; echo x > new")
    assert (done.code, done.out, done.err) == (0, secret.read_bytes(), b"")


def test_a_short_line_for_each_refusal(brig, secret):
    done = brig.run("--", "sh", "-c", f"for i in 1 2 3; do cat {secret}; done 2>/dev/null")
    lines = [line for line in done.error.splitlines() if line.startswith("brig: refused: ")]
    assert lines == [f"brig: refused: read {secret}: no rule of the policy covers this path; allow with --allow-read {secret}"], done


def test_more_refusals_than_there_is_room_for(brig):
    """The one that the warden adds by itself finds no room either."""
    code = """
import os, signal
for i in range(100):
    try: os.open(f"/nowhere/{i}", os.O_WRONLY | os.O_CREAT)
    except OSError: pass
os.kill(os.getpid(), signal.SIGSYS)"""
    result = brig.json("--", "python3", "-c", code)
    assert result["exit_code"] == 128 + signal.SIGSYS and result["reason"] == "signal", result
    assert len(result["denials"]) == 64 and result["denials_left_out"] >= 37


def test_what_is_printed_of_a_refusal_is_harmless(brig):
    """Nothing for the terminal to obey, no line that looks like ours, nothing that a shell would run when it is pasted."""
    names = ["/nowhere/\x1b]0;title\x07\x1b[2J", "/nowhere/x\nbrig: refused: nothing", "/nowhere/\udcff", "/nowhere/$(id);id", "/nowhere/a'b", "/nowhere/" + "long/" * 80]
    code = f"""
import os
for name in {names!r}:
    try: os.open(name, os.O_WRONLY | os.O_CREAT)
    except OSError: pass"""
    done = brig.run("--", "python3", "-c", code)
    lines = [line for line in done.err.split(b"\n") if b"/nowhere" in line]
    assert len(lines) == len(names) and all(line.startswith(b"brig: refused: write /nowhere/") for line in lines), done
    assert not any(byte < 32 or byte > 126 for line in lines for byte in line), lines
    assert [line.partition(b"; allow with ")[2] for line in lines] == [b"", b"", b"", b"--allow-write '/nowhere/$(id);id'", b"", b""]


def test_a_reader_that_sleeps_does_not_stop_the_clock(brig):
    """The keeper waits for room in the ring, though not past its own deadline."""
    code = "import os\nos.write(1, b'go')\nwhile True: os.close(os.open('/dev/null', os.O_RDONLY))"
    process = brig.start("run", "--wall", "2s", "--", "python3", "-c", code)
    process.stdout.read(2)
    process.send_signal(signal.SIGSTOP)
    keeper = harness.keeper_of(process.pid)
    try:
        harness.wait_until(lambda: harness.state(keeper) in ("Z", ""), "the keeper's end")
    finally:
        process.send_signal(signal.SIGCONT)
        process.communicate()
    assert process.returncode == 124


def test_calls_that_tell_of_an_attack(brig):
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for number, args in ((165, (b"none", b"/mnt", b"tmpfs", 0, 0)), (101, (16, 1, 0, 0)), (321, (0, 0, 0)), (250, (0, 0, 0)), (272, (0x10000000,))):
    print(libc.syscall(number, *args), ctypes.get_errno())"""
    result = brig.json("--", "python3", "-c", code)
    assert result["stdout"].splitlines() == ["-1 1"] * 5, result["stdout"]
    seen = denials(result, "syscall")
    assert {"mount /mnt", "ptrace", "bpf", "keyctl", "unshare"} <= set(seen), set(seen)
    assert seen["ptrace"]["allow_with"] == "--allow debug" and seen["bpf"]["allow_with"] == ""


def test_a_tree_of_programs_can_be_rebuilt(brig):
    brig.run("--", "sh", "-c", "sh -c 'cat /dev/null; true'; cat /dev/null")
    seen = events(brig)
    assert seen[0]["action"] == "start" and seen[-1]["action"] == "end"
    programs = [(e["exec"], e["parent"], os.path.basename(e["object"])) for e in seen if e["kind"] == "exec"]
    numbers = {name: (exec_id, parent) for exec_id, parent, name in programs}
    inner = next(exec_id for exec_id, parent, name in programs if name in ("sh", "dash"))
    cats = [(exec_id, parent) for exec_id, parent, name in programs if name == "cat"]
    assert numbers and len({n for n, _, _ in programs}) == len(programs)
    assert [parent for _, parent in cats] == [inner, 0], programs


@pytest.mark.tier("container")
@pytest.mark.parametrize("limit", [None, 64])
def test_many_programs_at_once(brig, limit):
    """Each has its own number; where the keeper has no descriptor for more, its other work goes on."""
    code = """
import os, socket, subprocess
children = [subprocess.Popen(["sh", "-c", "read x; exec 3</etc/debian_version"], stdin=subprocess.PIPE, close_fds=True) for _ in range(COUNT)]
os.mkdir("d"); os.chmod("d", 0o2755)
with socket.socket() as s: print(s.connect_ex(("127.0.0.1", 1)))
for child in children: child.communicate(b"\\n")"""
    count = 200 if limit is None else 50
    brig.who.mkdir(brig.work / "out", 0o777)
    before = [] if limit is None else ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "-"]
    done = brig.run("--allow-write", ".", "--", "python3", "-c", code.replace("COUNT", str(count)), before=before, cwd=brig.work / "out")
    assert (done.code, done.text) == (0, "111\n"), done
    numbers = [e["exec"] for e in events(brig) if e["object"] == "/etc/debian_version"]
    assert len(numbers) == count and (limit or len(set(numbers)) == count), numbers


@pytest.mark.parametrize("record,kinds", [("off", None), ("denied", {"syscall"}), ("writes", {"syscall", "exec", "file"}), ("all", {"syscall", "exec", "file"})])
def test_what_is_recorded(brig, record, kinds):
    brig.who.mkdir(brig.work / "out", 0o777)
    brig.who.write(brig.work / "out" / "emptied", "x", 0o666)
    options = ["--record", record, "--allow-write", brig.work / "out", "--"]
    result = brig.json(*options, "sh", "-c", "cat /etc/debian_version > out/f; unshare -r true; mkdir out/d; rm out/f; python3 -c 'import os; os.open(\"out/emptied\", os.O_RDONLY | os.O_TRUNC)'")
    assert [w for w in result["enforcement"] if w["name"] == "record"] or record == "off"
    if record == "off":
        assert result["denials"] == [] and "no sandbox has left events" in brig("events").error
        return
    seen = [e for e in events(brig) if e["kind"] != "sandbox"]
    assert {e["kind"] for e in seen} == kinds, seen
    reads = [e for e in seen if e["action"] == "read"]
    assert bool(reads) == (record == "all")
    if record != "denied":
        assert [e for e in seen if e["action"] == "write" and e["object"].endswith("out/emptied")]
        assert {"write", "mkdir", "remove"} <= {e["action"] for e in seen}


def test_nothing_is_lost_in_a_flood(brig):
    """What is not in the stream is counted in it."""
    code = "import os\nfor i in range(30000): os.close(os.open('/dev/null', os.O_RDONLY))"
    result = brig.json("--", "python3", "-c", code)
    assert result["exit_code"] == 0
    seen = events(brig)
    opened = sum(e.get("count", 1) for e in seen if e["object"] == "/dev/null")
    dropped = sum(e.get("dropped", 0) for e in seen)
    assert opened + dropped >= 30000 and opened > 0, (opened, dropped)
    assert brig("events", "verify").code == 0


def test_a_killed_brig_leaves_a_record_that_verifies(brig):
    process = brig.start("run", "--", "sh", "-c", "cat /etc/debian_version; sleep 1000")
    process.stdout.readline()
    home = brig.folder / "state" / "brig"
    harness.wait_until(lambda: any(b'"object":"/etc/debian_version"' in f.read_bytes() for f in home.rglob("*.ndjson")), "the record of it")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = brig("events", "verify")
    assert done.code == 0, done
    assert [e for e in events(brig) if e["object"] == "/etc/debian_version"]


def test_an_ordinary_reader_sees_it_while_it_runs(brig):
    process = brig.start("run", "--", "sh", "-c", "cat /etc/debian_version; sleep 1000")
    process.stdout.readline()
    follow = brig.start("events", "--follow", "--json")
    try:
        for line in follow.stdout:
            if json.loads(line)["object"] == "/etc/debian_version":
                break
        else:
            pytest.fail("the stream ended without it")
    finally:
        follow.kill()
        process.terminate()
        process.communicate()
        follow.communicate()


@pytest.mark.tier("container")
@pytest.mark.parametrize("there", [True, False])
def test_the_record_is_out_of_the_sandboxs_reach(brig, there):
    """However wide the rules are. Also on the first run, when its folder is only just made."""
    state = brig.home / ".local" / "state"
    env = {"XDG_STATE_HOME": None}
    if brig.who.is_root:
        env = {"XDG_STATE_HOME": state}
    if there:
        assert brig.run("--", "true", env=env).code == 0
    script = "sleep 0.2; ls .local/state/brig; cat .local/state/brig/*/*; rm -rf .local; mv .local other; echo x > .local/state/brig/x; true"
    done = brig.run("--allow-write", ".", "--", "sh", "-c", script, cwd=brig.home, env=env)
    assert done.code == 0 and done.out == b"", done
    assert brig("events", "verify", env=env).code == 0
    assert len(list((state / "brig" / "sandboxes").iterdir())) == (2 if there else 1)


@pytest.mark.tier("container")
@pytest.mark.parametrize("spelling", ["link", "//real//state", "real/../real/state"])
def test_the_record_is_hidden_where_it_really_lies(brig, spelling):
    """Whatever XDG_STATE_HOME calls the place: rules are about real paths."""
    state = brig.who.mkdir(brig.who.mkdir(brig.home / "real") / "state")
    (brig.home / "link").symlink_to(state)
    env = {"XDG_STATE_HOME": f"{brig.home}/{spelling}"}
    done = brig.run("--allow-write", "real", "--", "sh", "-c", "sleep 0.2; cat real/state/brig/*/*; true", cwd=brig.home, env=env)
    assert done.code == 0 and done.out == b"", done
    assert brig("events", "verify", env=env).code == 0


def test_nowhere_to_record_refuses_the_start(brig):
    bad = brig.who.mkdir(brig.folder / "bad")
    brig.who.write(bad / "brig", "a file")
    said = brig.refused("run", "--", "touch", brig.work / "ran", env={"XDG_STATE_HOME": bad})
    assert str(bad / "brig") in said
    assert brig.run("--record", "off", "--", "true", env={"XDG_STATE_HOME": bad}).code == 0


def test_a_full_disk_ends_the_sandbox_with_a_reason(brig):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    full = brig.who.mkdir(brig.folder / "full")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256k,uid={brig.who.uid},gid={brig.who.gid},mode=700", "tmpfs", full], check=True)
    try:
        code = "import os\nwhile True: os.close(os.open('/dev/null', os.O_RDONLY))"
        result = brig.json("--", "python3", "-c", code, env={"XDG_STATE_HOME": full})
        assert result["reason"] == "record" and result["exit_code"] != 0, result
    finally:
        subprocess.run(["umount", full], check=True)


@pytest.mark.tier("container")
def test_a_full_disk_ends_also_who_only_connects(brig):
    """Connections are told by the gate: the end does not wait for an event of another kind."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    full = brig.who.mkdir(brig.folder / "full")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=128k,uid={brig.who.uid},gid={brig.who.gid},mode=700", "tmpfs", full], check=True)
    try:
        code = """
import socket, time
for port in range(1, 2000):
    with socket.socket() as s:
        s.connect_ex(("192.0.2.77", port))
time.sleep(1000)"""
        result = brig.json("--wall", "100s", "--", "python3", "-c", code, env={"XDG_STATE_HOME": full})
        assert result["reason"] == "record", result
    finally:
        subprocess.run(["umount", full], check=True)


DEAD_SERVER = """
import ctypes, os, subprocess, sys
server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"dead", b"/srv", b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % server): sys.exit(77)
sys.exit(subprocess.run(sys.argv[1:]).returncode)"""


def test_a_dead_file_server_does_not_stop_the_clock(brig):
    """The path is the sandbox's choice: nobody outside asks a file server for it, nor waits for one."""
    if not brig.who.is_root or not os.path.exists("/dev/fuse"):
        pytest.skip("needs root and /dev/fuse")
    before = ["unshare", "--mount", "/usr/bin/python3", "-c", DEAD_SERVER]
    done = harness.with_room(lambda wall: brig.run("--wall", wall, "--", "sh", "-c", "cat /srv/secret; sleep 1000", before=before),
                             lambda done: done.code == 77 or "refused" in done.error)
    if done.code == 77:
        pytest.skip("needs to mount a FUSE file system")
    assert done.code == 124 and "refused: read /srv/secret" in done.error, done


def answers(text):
    """What closed.c said: the errno of each call."""
    return {name: os.strerror(int(number)) if int(number) else "" for name, number in (line.rsplit(" ", 1) for line in text.splitlines())}


@pytest.fixture
def closed(brig, helper):
    """A copy of closed.c's program in a folder that the sandbox may write, with a file to ask for."""
    folder = brig.who.mkdir(brig.work / "out", 0o777)
    brig.who.write(folder / "file", "x", 0o666)
    brig.who.write(folder / "relative", "x", 0o666)
    return brig.who.write(folder / "closed", helper("closed").read_bytes(), 0o755)


def ask(brig, closed, how, *options, **more):
    folder = closed.parent
    return brig.json("--allow-write", folder, *options, "--", closed, how, folder / "file", folder / "other", "127.0.0.1", "9", cwd=folder, **more)


CLOSED = "Permission denied"


@pytest.mark.parametrize("record", ["all", "writes", "denied", "off"])
@pytest.mark.parametrize("net", [False, True])
def test_who_asks_for_closed_memory_is_seen_all_the_same(brig, closed, record, net):
    """prctl(PR_SET_DUMPABLE, 0) succeeds and changes nothing: what is done then is the same, and told the same."""
    options = ["--record", record, *(["--allow-net", "example.com:443"] if net else [])]
    plain = ask(brig, closed, "try", *options)
    (closed.parent / "other").rmdir()
    asked = ask(brig, closed, "ask", *options)
    said = answers(asked["stdout"])
    assert said.pop("prctl") == "" and said == answers(plain["stdout"])
    assert said["read"] == said["exec"] == said["relative"] == ""
    assert sorted((d["action"], d["object"]) for d in asked["denials"]) == sorted((d["action"], d["object"]) for d in plain["denials"])
    assert not [d for d in asked["denials"] if "could not be read" in d["object"]]


@pytest.mark.parametrize("record", ["all", "writes"])
@pytest.mark.parametrize("first", [True, False])
def test_a_program_that_cannot_be_read_does_nothing_unseen(brig, closed, record, first):
    """Its memory is closed, for the keeper as well: what it asks for cannot be told, so it is not let through."""
    closed.chmod(0o111)
    options = ["--record", record, "--allow-write", closed.parent, "--allow-net", "example.com:443", "--"]
    words = [str(w) for w in (closed, "try", closed.parent / "file", closed.parent / "other", "127.0.0.1", "9")]
    result = brig.json(*options, *(words if first else ["sh", "-c", '"$@"; true', "-", *words]), cwd=closed.parent)
    said = answers(result["stdout"])
    seen = {d["action"]: d for d in result["denials"] if "can be executed and not read" in d["reason"]}
    refused = {"write", "mkdir", "rename", "exec", "connect"} | ({"read"} if record == "all" else set())
    assert {name for name, error in said.items() if error == CLOSED} >= refused, said
    assert said["chmod"] in (CLOSED, "Operation not permitted")
    assert refused <= set(seen), result["denials"]
    assert sorted(p.name for p in closed.parent.iterdir()) == ["closed", "file", "relative"]
    told = [e for e in events(brig) if e["verdict"] == "deny" and "can be executed and not read" in e["reason"]]
    assert {e["action"] for e in told} >= refused
    if not brig.is_container:
        assert said["send"] == CLOSED and "sendto" in seen


def test_names_in_odd_places_of_memory(brig, closed):
    """Each is told as it was asked for, or answered as the kernel would and told as that."""
    result = brig.json("--allow-write", closed.parent, "--", closed, "places", closed.parent / "file")
    said = answers(result["stdout"])
    bad, long = "Bad address", "File name too long"
    assert said == {"before a hole": "", "across": "", "without an end": bad, "in the hole": bad, "too long": long, "closed page": bad, "opened page": "",
                    "nowhere": bad, "kernel": bad, "mkdir": bad, "rename": bad, "exec": bad}
    seen = events(brig)
    reads = [e for e in seen if e["action"] == "read"]
    assert len([e for e in reads if e["object"] == str(closed.parent / "file") and e["verdict"] == "allow"]) == 3
    unread = [e for e in seen if e["object"] == "a path that could not be read"]
    assert {e["verdict"] for e in unread} == {"deny"} and sum(e.get("count", 1) for e in unread if e["action"] == "read") == 6
    assert {e["action"] for e in unread} == {"read", "mkdir", "rename", "exec"}


def test_a_page_that_comes_and_goes(brig, closed):
    """Nothing is made whose name could not be read."""
    assert brig.run("--allow-write", closed.parent, "--", closed, "toggle", closed.parent / "made", "4000", timeout=harness.HANG).code == 0
    seen = events(brig)
    assert not [e for e in seen if e.get("dropped")]
    made = {str(p) for p in closed.parent.glob("made*")}
    told = {e["object"] for e in seen if e["action"] == "write"}
    assert made and not made - told, (len(made), len(made - told))
    assert [e for e in seen if e["object"] == "a path that could not be read"]


def test_an_execve_that_fails_is_another_number_for_nobody(brig, closed):
    """The program goes on as what it was, and so do its children; what it becomes at last is the next."""
    brig.json("--allow-write", closed.parent, "--", "sh", "-c", f"{closed} fail {closed.parent}/file; true")
    seen = events(brig)
    execs = [(e["exec"], e["parent"], e["object"]) for e in seen if e["kind"] == "exec"]
    own = next(number for number, _, name in execs if name == str(closed))
    tried = [(number, parent) for number, parent, name in execs if name in ("/nowhere/missing", "/dev", "/bin/true", "/nowhere/thread")]
    last = next((number, parent) for number, parent, name in execs if name == "/proc/self/exe")
    assert len(tried) == 5 and {parent for _, parent in tried} == {own} and last[1] == own, execs
    reads = [e["exec"] for e in seen if e["action"] == "read" and e["object"] == str(closed.parent / "file")]
    assert reads == [own, own] + [last[0]] * 3, (reads, execs)
    assert len({number for number, _, _ in execs}) == len(execs)


@pytest.mark.parametrize("what", [".", "brig", "brig/sandboxes", "brig/heads", "brig/spares"])
def test_the_record_under_another_name(brig, what):
    """A tree that is shown is a bind mount of the state directory, of one above it or of one in it."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    state = brig.folder / "state"
    assert brig.run("--", "true").code == 0
    alias = brig.who.mkdir(brig.work / "alias")
    brig.outer = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1"; shift; exec "$@"', state / what, alias]
    before = {p: p.stat().st_size for p in state.rglob("*") if p.is_file()}
    script = f"find {alias} -type f -exec cat {{}} + ; find {alias} -type f -delete; find {alias} -type d -exec touch {{}}/forged \\;"
    done = brig.run("--allow-write", alias, "--", "sh", "-c", script)
    assert done.out == b"" and "forged" not in [p.name for p in (state / "brig").rglob("*")], done
    assert done.code != 125, done
    assert all(p.stat().st_size == size for p, size in before.items())


@pytest.mark.parametrize("how", ["link", "standard input", "another descriptor"])
def test_the_record_by_other_ways(brig, how):
    """A symbolic link in a tree that is shown, or a directory that is open when brig starts."""
    state = brig.folder / "state"
    assert brig.run("--", "true").code == 0
    os.symlink(state, brig.work / "link")
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    code = """
import os, sys
for start in ("link", 9, int(sys.argv[1])):
    for name in (".", "..", "brig", "../state/brig", "brig/sandboxes", "../../../../../etc/shadow"):
        try: print(os.listdir(os.open(name, os.O_RDONLY, dir_fd=start) if isinstance(start, int) else f"{start}/{name}"))
        except OSError: pass"""
    try:
        options = {"link": {}, "standard input": {"stdin": folder}, "another descriptor": {"pass_fds": [folder]}}[how]
        process = brig.start("run", "--allow-write", brig.work, "--", "sh", "-c", 'exec 9<&0 </dev/null; exec python3 -c "$@"', "-", code, str(folder), **options)
        out, err = process.communicate(timeout=harness.HANG)
    finally:
        os.close(folder)
    assert out == b"" and process.returncode == (125 if how == "standard input" else 0), (process.returncode, out, err)


def test_a_line_tells_when_it_was_tried(brig):
    """Not when it was written down, some of which is done together. The program sleeps between the two."""
    code = "import time; open('/etc/passwd'); time.sleep(0.01); open('/etc/group')"
    assert brig.run("--", "python3", "-c", code).code == 0
    first, second = (next(e for e in events(brig) if e["object"] == name) for name in ("/etc/passwd", "/etc/group"))
    assert second["mono"] - first["mono"] >= 10_000_000 and second["time"] > first["time"]
