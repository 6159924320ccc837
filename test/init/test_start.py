"""START: how a program is started, and what it finds."""

import errno
import os
import signal

import pytest

from conftest import children, until
from speaker import FLAGS

KEPT, INPUT = FLAGS["START_KEPT"], FLAGS["START_INPUT"]


def pipe():
    r, w = os.pipe()
    return r, w


def drain(fd):
    data = b""
    while True:
        try:
            more = os.read(fd, 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            more = b""
        if not more:
            os.close(fd)
            return data
        data += more


def test_status(init):
    assert init.kept("true")[1] == 0
    assert init.kept("sh", "-c", "exit 7")[1] == 7 << 8
    assert init.kept("sh", "-c", "kill -9 $$")[1] == signal.SIGKILL
    assert init.kept("sh", "-c", "kill -TERM $$")[1] == signal.SIGTERM


@pytest.mark.over("unix")
def test_descriptors(init):
    (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipe(), pipe(), pipe()
    call = init.send("START", descriptors=[in_r, out_w, err_w],
                     ARGUMENT=["sh", "-c", "cat; echo wrong >&2; ls /proc/self/fd; exit 3"])
    started = init.wait(call, "STARTED")
    for fd in (in_r, out_w, err_w):
        os.close(fd)
    assert started["PROCESS"] == 1 and started["PID"] > 1 and not started.descriptors
    os.write(in_w, b"through\n")
    os.close(in_w)
    # Nothing but its own, and that of the directory that ls reads.
    assert drain(out_r) == b"through\n0\n1\n2\n3\n"
    assert drain(err_r) == b"wrong\n"
    exited = init.wait(call, "EXITED")
    assert (exited["STATUS"], exited["PROCESS"]) == (3 << 8, 1)
    assert init.list() == []


@pytest.mark.over("tcp")
def test_no_descriptors_to_be_had(init):
    assert init.fail("START", ARGUMENT=["true"])[0] == errno.EINVAL
    assert init.fail("START", ARGUMENT=["true"], FLAGS=INPUT)[0] == errno.EINVAL


@pytest.mark.over("unix")
def test_descriptors_that_do_not_go_together(init):
    r, w = pipe()
    for count, flags in ((0, 0), (1, 0), (3, KEPT), (3, 1), (1, KEPT), (1, KEPT | 1)):
        code, _ = init.fail("START", ARGUMENT=["true"], descriptors=[w] * count, FLAGS=flags)
        assert code == errno.EINVAL, (count, flags)
    assert init.fail("START", ARGUMENT=["true"], descriptors=[w], FLAGS=1) == \
        (errno.ENOTTY, "the descriptor is no terminal")
    os.close(w)
    # All of them are closed on the other side.
    assert drain(r) == b""


def test_arguments_and_environment(init):
    odd = ["", " ", "a b", "\"'\\$`", "\n", "ä", "-c"]
    script = "import sys, os; print(sys.argv[1:] == %r, os.environ.get('SANDBOX'), os.environ.get('A'), " \
             "os.environ.get('B'))" % (odd,)
    status, out, err = init.run("/usr/bin/python3", "-c", script, *odd,
                                VARIABLE=["A=1", "SANDBOX=no", "B=", "A=2"])
    assert (out, err, status) == ("True no 2 \n", "", 0)
    assert init.sh("echo $SANDBOX; env | grep -c SANDBOX=") == "yes\n1\n"
    for wrong in ("", "=", "=a", "A"):
        assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, VARIABLE=[wrong])[0] == errno.EINVAL
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, VARIABLE=["A=b"] * 5000)[0] == errno.E2BIG


def test_directory(init):
    (init.home / "sub").mkdir()
    assert init.sh("pwd") == f"{init.home}\n"
    assert init.sh("pwd", DIRECTORY="sub") == f"{init.home}/sub\n"
    assert init.sh("pwd", DIRECTORY="/") == "/\n"
    # The next one is not there because of the one before.
    assert init.sh("pwd") == f"{init.home}\n"
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, DIRECTORY="nowhere") == \
        (errno.ENOTDIR, 'the directory "nowhere" does not exist')
    code, words = init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, DIRECTORY="/etc/passwd")
    assert code == errno.ENOTDIR and '"/etc/passwd"' in words


def test_lookup(init):
    one, two = init.home / "one", init.home / "two"
    for folder in (one, two):
        folder.mkdir()
        folder.chmod(0o755)
    (one / "tool").write_text("not for you")
    (two / "tool").write_text("echo script $0 $*\n")
    (two / "tool").chmod(0o755)
    path = f"PATH={one}:{two}:/usr/bin:/bin"
    # What may not be executed is passed over; a script without "#!" is one for sh.
    assert init.run("tool", "a", "b c", VARIABLE=[path])[1] == f"script {two}/tool a b c\n"
    assert init.run("two/tool")[1] == "script two/tool\n"
    assert init.run("tool", VARIABLE=["PATH=:"], DIRECTORY="two")[1] == "script tool\n"
    assert init.run("tool", VARIABLE=["PATH="], DIRECTORY="two")[1] == "script tool\n"
    assert init.fail("START", ARGUMENT=["tool"], FLAGS=KEPT, VARIABLE=[f"PATH={one}"]) == \
        (errno.EACCES, 'cannot execute "tool": Permission denied')
    assert init.fail("START", ARGUMENT=["no-such-tool"], FLAGS=KEPT) == \
        (errno.ENOENT, '"no-such-tool" was not found in PATH')
    assert init.fail("START", ARGUMENT=[""], FLAGS=KEPT) == (errno.ENOENT, '"" was not found in PATH')
    assert init.fail("START", ARGUMENT=["./nothing"], FLAGS=KEPT) == \
        (errno.ENOENT, 'cannot execute "./nothing": No such file or directory')
    assert init.fail("START", ARGUMENT=["/etc"], FLAGS=KEPT)[0] == errno.EACCES
    assert init.fail("START", ARGUMENT=["x" * 5000], FLAGS=KEPT)[0] in (errno.ENOENT, errno.ENAMETOOLONG)
    # A name cannot write to a terminal.
    assert init.fail("START", ARGUMENT=["\x1b[2J"], FLAGS=KEPT)[1] == '"?[2J" was not found in PATH'
    # Neither is there anything left of those that failed.
    assert children(init.pid) == []
    assert all(p.get("STATUS") == 0 for p in init.list())


def test_lookup_beyond_a_closed_folder(init):
    if not init.may_be_users:
        pytest.skip("who is the only user can open his own folders")
    closed = init.home / "closed"
    closed.mkdir(mode=0o700)
    assert init.fail("START", ARGUMENT=["no-such-tool"], FLAGS=KEPT, VARIABLE=[f"PATH={closed}:/bin"])[0] == errno.ENOENT


def test_a_process_of_its_own(init):
    """No signal blocked or ignored, a session of its own, and the limits that init itself was given."""
    out = init.sh("grep -E '^Sig(Blk|Ign|Cgt)|^Cap(Inh|Prm|Eff|Amb)|^Groups' /proc/self/status; ulimit -Sn; "
                  "ps -o pid=,pgid=,sid= -p $$")
    lines = out.splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    for name in ("SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(values[name], 16) == 0, name
    assert values["Groups"].strip() == ""
    assert lines[-2] == str(os.sysconf("SC_OPEN_MAX"))
    pid, group, session = lines[-1].split()
    assert pid == group == session


def test_who(init):
    assert init.sh("id -u") == f"{init.uid}\n"
    assert init.sh("id -u", USER=str(init.uid)) == f"{init.uid}\n"
    assert init.sh("echo $HOME") == f"{init.home}\n"
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, USER="no such user") == \
        (errno.EINVAL, 'there is no user "no such user" in the sandbox')


@pytest.mark.who("root")
def test_another_user(init):
    assert init.sh("id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL", USER="daemon") == \
        "1\n1\n1\n/usr/sbin daemon daemon /usr/sbin/nologin\n"
    assert init.sh("echo $USER $HOME", USER="daemon", VARIABLE=["USER=me"]) == "me /usr/sbin\n"
    assert init.sh("id -u; id -g; echo $HOME $USER", USER="54321") == "54321\n54321\n/ 54321\n"
    # root is a name, not a right.
    out = init.sh("id -u; grep CapEff /proc/self/status; cat /etc/shadow 2>&1 || true", USER="root")
    assert out.startswith("0\nCapEff:\t0000000000000000\n")
    assert [p["USER"] for p in init.list()] == ["daemon", "daemon", "54321", "root"]


@pytest.mark.who("user")
def test_one_user_only(init):
    for other in ("root", "0", "daemon", "54321"):
        assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, USER=other) == \
            (errno.EPERM, f'this sandbox has one user only, not "{other}"')


def test_orphans_are_reaped(init):
    out = init.sh("for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.1 & echo $!); done")
    orphans = [int(pid) for pid in out.split()]
    assert len(orphans) == 10
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in orphans))
    assert children(init.pid) == []


def test_cancel_forgets_only_the_call(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    init.send("CANCEL", call=started.call)
    assert [p["PROCESS"] for p in init.list()] == [1]
    # The number can be used again, for another one.
    again = init.send("START", call=started.call, ARGUMENT=["true"], FLAGS=KEPT)
    assert init.wait(again, "STARTED")["PROCESS"] == 2
    assert init.wait(again, "EXITED")["PROCESS"] == 2
    init.ask("INPUT_END", PROCESS=1)
    until(lambda: not init.list()[0]["FLAGS"] & FLAGS["PROCESS_RUNNING"])
    assert init.is_silent()


def test_signals(init):
    ready = "echo ready; while :; do sleep 0.05; done"
    started = init.start("sh", "-c", f"trap 'exit 9' USR1; {ready}", FLAGS=KEPT)
    process = started["PROCESS"]
    until(lambda: init.read(process, follow=False)[0] == b"ready\n")
    init.ask("SIGNAL", PROCESS=process, SIGNAL=0)
    assert init.fail("SIGNAL", PROCESS=process, SIGNAL=65) == (errno.EINVAL, "there is no signal 65")
    assert init.fail("SIGNAL", PROCESS=process, SIGNAL=2**63)[0] == errno.EINVAL
    init.ask("SIGNAL", PROCESS=process, SIGNAL=signal.SIGUSR1)
    assert init.wait(started.call, "EXITED")["STATUS"] == 9 << 8
    assert init.fail("SIGNAL", PROCESS=process, SIGNAL=9) == (errno.ESRCH, f"process {process} has ended")
    assert init.fail("SIGNAL", PROCESS=0, SIGNAL=9) == (errno.ESRCH, "there is no process 0")
    assert init.fail("SIGNAL", PROCESS=99, SIGNAL=9) == (errno.ESRCH, "there is no process 99")


def test_signal_to_the_group(init):
    started = init.start("sh", "-c", "sleep 1000 & echo $!; wait", FLAGS=KEPT)
    other = int(until(lambda: init.read(started["PROCESS"], follow=False)[0]))
    init.ask("SIGNAL", PROCESS=started["PROCESS"], SIGNAL=signal.SIGTERM, FLAGS=FLAGS["SIGNAL_GROUP"])
    assert init.wait(started.call, "EXITED")["STATUS"] == signal.SIGTERM
    until(lambda: not os.path.exists(f"/proc/{other}"))


@pytest.mark.over("unix")
def test_so_many_and_no_more(init):
    call = None
    for _ in range(1024):
        call = init.send("START", ARGUMENT=["sleep", "1000"], FLAGS=KEPT)
    init.wait(call, "STARTED")
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT) == \
        (errno.EAGAIN, "1024 processes run already: no more can be started")
    assert len(init.list()) == 1024
    init.ask("SIGNAL", PROCESS=5, SIGNAL=9)
    assert init.wait(5, "STARTED")["PROCESS"] == 5
    assert init.wait(5, "EXITED")["STATUS"] == 9
    # One that has ended makes room.
    assert init.start("true", FLAGS=KEPT)["PROCESS"] == 1026 - 1
