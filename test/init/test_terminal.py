"""A terminal of a process: made inside or given, stopped and continued, resized, gone."""

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pytest

from conftest import children, until
from speaker import FLAGS

TERMINAL, KEPT, GROUP, FOLLOW = (FLAGS[name] for name in ("START_TERMINAL", "START_KEPT", "SIGNAL_GROUP",
                                                          "ATTACH_FOLLOW"))


# Not a shell: one that stops while it starts a program (vfork) does so only when that runs.
CONTINUED = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
os.write(1, b"ready")
for _ in range(3):
    signal.sigwait([signal.SIGCONT])
    os.write(1, b"continued")
os.write(1, b"got " + os.read(0, 100))
"""


class Screen:
    """The master of a terminal, and all that was written to it."""

    def __init__(self, fd):
        self.fd, self.text = fd, b""

    def expect(self, word, seconds=60):
        deadline = time.monotonic() + seconds
        while word not in self.text:
            assert select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0], self.text
            self.text += os.read(self.fd, 65536)
        before, _, self.text = self.text.partition(word)
        return before + word

    def to_end(self):
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError as error:
                assert error.errno == errno.EIO
                data = b""
            if not data:
                return self.text
            self.text += data

    def type(self, text):
        os.write(self.fd, text)


@pytest.fixture(params=["made inside", "given"])
def terminal(request, init):
    """terminal(argv, ...): starts at a terminal; the call, the number and a screen."""
    open_ones = []

    def start(*argv, **fields):
        if request.param == "given":
            master, slave = pty.openpty()
            os.set_inheritable(master, False)
            size = struct.pack("HHHH", fields.pop("ROWS", 24), fields.pop("COLUMNS", 80), 0, 0)
            fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
            if os.geteuid() == 0:
                os.fchown(slave, init.uid, -1)
            started = init.start(*argv, descriptors=[slave], FLAGS=TERMINAL, **fields)
            os.close(slave)
            assert not started.descriptors
        else:
            started = init.start(*argv, FLAGS=TERMINAL, **fields)
            (master,) = started.descriptors
        open_ones.append(master)
        return started, Screen(master)

    yield start
    for fd in open_ones:
        try:
            os.close(fd)
        except OSError:
            pass


@pytest.mark.over("unix")
class TestPassed:
    def test_it_is_one(self, init, terminal):
        started, screen = terminal("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && "
                                   "echo hello >/dev/tty && ls -1 /proc/self/fd && exit 3", ROWS=33, COLUMNS=101)
        assert init.wait(started.call, "EXITED")["STATUS"] == 3 << 8
        assert screen.to_end() == b"33 101\r\nhello\r\n0\r\n1\r\n2\r\n3\r\n"
        assert init.list() == []
        until(lambda: not children(init.pid))

    def test_may_be_opened_again(self, init, terminal):
        """The file of the terminal belongs to who works at it."""
        started, screen = terminal("sh", "-c", "echo again >$(tty)")
        assert init.wait(started.call, "EXITED")["STATUS"] == 0
        assert screen.to_end() == b"again\r\n"

    def test_groups(self, init, terminal):
        """The program is not the leader, but alone in its group, in the foreground."""
        started, screen = terminal("sh", "-c", "exec ps -o pid=,pgid=,sid=,tpgid= -p $$")
        assert init.wait(started.call, "EXITED")["STATUS"] == 0
        pid, group, session, foreground = screen.to_end().split()
        assert int(pid) == started["PID"] and pid == group == foreground and session != pid

    def test_interrupt(self, init, terminal):
        started, screen = terminal("sh", "-c", "echo ready; exec sleep 1000")
        screen.expect(b"ready")
        screen.type(b"\x03")
        assert init.wait(started.call, "EXITED")["STATUS"] == signal.SIGINT

    def test_stop_and_go_on(self, init, terminal):
        started, screen = terminal("/usr/bin/python3", "-c", CONTINUED)
        screen.expect(b"ready")
        for _ in range(3):
            screen.type(b"\x1a")
            stopped = init.wait(started.call, "STOPPED")
            assert stopped.fields == {"PROCESS": started["PROCESS"], "SIGNAL": signal.SIGTSTP}
            init.ask("SIGNAL", PROCESS=started["PROCESS"], SIGNAL=signal.SIGCONT, FLAGS=GROUP)
            screen.expect(b"continued")
        screen.type(b"hello\n")
        screen.expect(b"got hello")
        assert init.wait(started.call, "EXITED")["STATUS"] == 0

    def test_killed_while_stopped(self, init, terminal):
        started, screen = terminal("sh", "-c", "echo ready; exec sleep 1000")
        screen.expect(b"ready")
        screen.type(b"\x1a")
        init.wait(started.call, "STOPPED")
        init.ask("SIGNAL", PROCESS=started["PROCESS"], SIGNAL=signal.SIGKILL)
        assert init.wait(started.call, "EXITED")["STATUS"] == signal.SIGKILL

    def test_resize(self, init, terminal):
        started, screen = terminal("sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
        screen.expect(b"ready")
        init.ask("RESIZE", PROCESS=started["PROCESS"], ROWS=44, COLUMNS=123)
        screen.expect(b"44 123")
        init.ask("SIGNAL", PROCESS=started["PROCESS"], SIGNAL=9)
        init.wait(started.call, "EXITED")
        assert init.fail("RESIZE", PROCESS=started["PROCESS"], ROWS=1, COLUMNS=1)[0] == errno.ESRCH

    def test_gone(self, init, terminal):
        """Who closes the terminal hangs up: the program gets SIGHUP, and its end is told."""
        started, screen = terminal("sh", "-c", "echo ready; exec sleep 1000")
        screen.expect(b"ready")
        os.close(screen.fd)
        assert init.wait(started.call, "EXITED")["STATUS"] == signal.SIGHUP
        until(lambda: not children(init.pid))

    def test_gone_and_survived(self, init, terminal):
        started, screen = terminal("sh", "-c", "trap '' HUP; echo ready; sleep 0.2; exit 6")
        screen.expect(b"ready")
        os.close(screen.fd)
        assert init.wait(started.call, "EXITED")["STATUS"] == 6 << 8

    def test_the_leader_is_killed(self, init, terminal):
        started, screen = terminal("sh", "-c", "trap 'exit 8' HUP; echo ready; while :; do sleep 0.05; done")
        screen.expect(b"ready")
        (leader,) = children(init.pid)
        assert leader != started["PID"]
        os.kill(leader, signal.SIGKILL)
        assert init.wait(started.call, "EXITED")["STATUS"] == 8 << 8
        until(lambda: not children(init.pid))

    def test_fails(self, init, terminal):
        call = init.send("START", ARGUMENT=["no-such-tool"], FLAGS=TERMINAL)
        error = init.wait(call, "ERROR")
        assert (error["CODE"], error["TEXT"]) == (errno.ENOENT, '"no-such-tool" was not found in PATH')
        assert init.fail("START", ARGUMENT=["true"], FLAGS=TERMINAL, DIRECTORY="nowhere")[0] == errno.ENOTDIR
        assert init.list() == []
        until(lambda: not children(init.pid))

    def test_background_processes_go_with_it(self, init, terminal):
        started, screen = terminal("sh", "-c", "sleep 1000 & echo pid $!; sleep 0.05")
        other = int(screen.expect(b"\n").split()[1])
        assert init.wait(started.call, "EXITED")["STATUS"] == 0
        screen.to_end()
        # In the foreground's group it gets the SIGHUP of the session's end.
        until(lambda: not os.path.exists(f"/proc/{other}"))

    def test_another_user(self, init, terminal):
        if not init.may_be_users:
            pytest.skip("there is one user only")
        started, screen = terminal("sh", "-c", "id -u", USER="daemon")
        assert init.wait(started.call, "EXITED")["STATUS"] == 0
        assert screen.to_end() == b"1\r\n"


def kept_terminal(init, *argv, **fields):
    flags = TERMINAL | (KEPT if init.passes else 0)
    started = init.start(*argv, FLAGS=flags, **fields)
    assert not started.descriptors
    return started, started["PROCESS"]


def test_kept(init):
    started, process = kept_terminal(init, "sh", "-c", "stty -echo; stty size; read a; echo got $a; read b || echo end; "
                                     "exit 3", ROWS=11, COLUMNS=22)
    call = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW)
    seen = b""
    while b"11 22" not in seen:
        seen += init.wait(call, "DATA")["DATA"]
    init.ask("INPUT", PROCESS=process, DATA=b"word\n")
    while b"got word" not in seen:
        seen += init.wait(call, "DATA")["DATA"]
    init.ask("RESIZE", PROCESS=process, ROWS=5, COLUMNS=6)
    init.ask("INPUT_END", PROCESS=process)
    out, err, exited = init.read_call(call)
    assert (seen + out, err) == (b"11 22\r\ngot word\r\nend\r\n", b"")
    assert exited["STATUS"] == 3 << 8
    assert init.wait(started.call, "EXITED")["STATUS"] == 3 << 8
    shown = init.list()[0]
    assert shown["FLAGS"] == FLAGS["PROCESS_KEPT"] | FLAGS["PROCESS_TERMINAL"]
    assert init.fail("RESIZE", PROCESS=process, ROWS=1, COLUMNS=1) == \
        (errno.ENOTTY, f"process {process} has no terminal: it has ended")


def test_kept_stops(init):
    started, process = kept_terminal(init, "sh", "-c", "echo ready; exec sleep 1000")
    until(lambda: init.read(process, follow=False)[0] == b"ready\r\n")
    init.ask("INPUT", PROCESS=process, DATA=b"\x1a")
    assert init.wait(started.call, "STOPPED")["SIGNAL"] == signal.SIGTSTP
    init.ask("SIGNAL", PROCESS=process, SIGNAL=signal.SIGCONT, FLAGS=GROUP)
    init.ask("INPUT", PROCESS=process, DATA=b"\x03")
    assert init.wait(started.call, "EXITED")["STATUS"] == signal.SIGINT


FLOOD = """
import os, signal, sys, time
def state():
    return open(f"/proc/{me}/stat").read().rpartition(")")[2].split()[0]
def stop():
    os.kill(me, signal.SIGSTOP)
    while state() != "T":
        pass
    time.sleep(0.001)  # so that it is seen
me, (go, done) = os.getpid(), sys.argv[1:]
while not os.path.exists(go):
    time.sleep(0.01)
if os.fork() == 0:
    for _ in range(300):
        stop()
        os.kill(me, signal.SIGCONT)
    stop()
    open(done, "w").close()
    os._exit(0)
os.wait()
sys.exit(7)
"""


@pytest.mark.over("unix")
def test_stops_that_nobody_hears_of(init):
    go, done = init.home / "go", init.home / "done"
    started, _ = kept_terminal(init, "/usr/bin/python3", "-c", FLOOD, str(go), str(done))
    much, _ = init.kept("sh", "-c", "head -c 250000 /dev/zero")
    for _ in range(8):
        init.send("ATTACH", PROCESS=much)
    # The socket is full, and more waits in init.
    until(lambda: struct.unpack("i", fcntl.ioctl(init.sock, termios.FIONREAD, b"1234"))[0] > 100000)
    go.touch()
    until(done.exists)
    stops = 0
    while (told := init.wait(started.call, "STOPPED", "EXITED")).kind == "STOPPED":
        assert told["SIGNAL"] == signal.SIGSTOP
        stops += 1
        if stops == 1:
            init.send("SIGNAL", PROCESS=started["PROCESS"], SIGNAL=signal.SIGCONT)
    assert told["STATUS"] == 7 << 8
    assert 1 <= stops < 100


def test_all_of_it_is_there(init):
    for _ in range(20):
        started, process = kept_terminal(init, "sh", "-c", "printf %030000d 7")
        init.wait(started.call, "EXITED")
        assert len(init.read(process)[0]) == 30000
