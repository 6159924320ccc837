"""sudo: a program inside asks init, through a porter, to start another as root. Hostile ones do everything else."""

import array
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import uuid

import pytest

from conftest import children, until
from speaker import FLAGS, Speaker, pack

pytestmark = [pytest.mark.over("unix")]

TERMINAL = FLAGS["START_TERMINAL"]
ASKERS_MAX = 32
ASK_SECONDS = 10


@pytest.fixture
def name():
    return f"brig-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def init(make_init, exe, over, who, name):
    made = make_init(over, who, words=("--sudo", name))
    made.exe, made.name = exe, name
    try:
        yield made
    finally:
        code = made.end()
        said = made.said()
    assert (code, said) == (0, "")


def sudo(init, *words, env=None, **more):
    """The client, as a user of the sandbox would start it."""
    def become():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(init.uid, init.uid, init.uid)
            os.setresuid(init.uid, init.uid, init.uid)

    env = {"PATH": "/usr/bin:/bin", "BRIG_SUDO": init.name, "HOME": "/nowhere", "OWN": "yes",
           "ASAN_OPTIONS": "detect_leaks=0", **(env or {})}
    return subprocess.Popen(["sudo", *words], executable=init.exe, env=env, preexec_fn=become,
                            stdin=more.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def run(init, *words, **more):
    with sudo(init, *words, **more) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def connect(init):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect("\0" + init.name)
    return sock


def porters(init):
    found = []
    for pid in children(init.pid):
        try:
            if open(f"/proc/{pid}/comm").read() == "brig-init-sudo\n":
                found.append(pid)
        except OSError:
            pass
    return found


def running(init):
    return [p for p in init.list() if p["FLAGS"] & FLAGS["PROCESS_RUNNING"]]


def works(init):
    """Whoever is honest is served, also after all that."""
    assert run(init, "echo", "served") == (0, "served\n", "")
    assert init.sh("echo alive") == "alive\n"


def test_a_command_as_root(init):
    uid = 0 if init.may_be_users else init.uid
    assert run(init, "sh", "-c", "id -u; echo wrong >&2; exit 3") == (3, f"{uid}\n", "wrong\n")
    until(lambda: not running(init))


def test_what_it_finds(init):
    code, out, err = run(init, "env", cwd="/tmp")
    env = dict(line.split("=", 1) for line in out.splitlines())
    assert (code, err) == (0, "")
    assert env["SUDO_UID"] == str(init.uid) and "SUDO_USER" in env and env["SANDBOX"] == "yes"
    assert "OWN" not in env and env["HOME"] != "/nowhere"
    assert run(init, "-E", "env", cwd="/tmp")[1].count("OWN=yes") == 1
    assert run(init, "A=b", "sh", "-c", "echo $A; pwd", cwd="/tmp")[1] == "b\n/tmp\n"
    assert run(init, "-D", "/usr", "pwd")[1] == "/usr\n"


@pytest.mark.who("root")
def test_other_users(init):
    assert run(init, "-u", "1234", "id", "-u")[1] == "1234\n"
    assert run(init, "-u", "nobody", "sh", "-c", "echo $USER $SUDO_UID")[1] == "nobody 1000\n"
    code, out, err = run(init, "-u", "no-such-user", "id")
    assert (code, out) == (1, "") and err == 'sudo: there is no user "no-such-user" in the sandbox\n'


@pytest.mark.who("user")
def test_one_user_is_who_root_means(init):
    assert run(init, "-u", "root", "id", "-u")[1] == f"{init.uid}\n"
    code, out, err = run(init, "-u", "1", "id")
    assert (code, out) == (1, "") and err == 'sudo: this sandbox has one user only, not "1"\n'


def test_what_cannot_be_started(init):
    assert run(init, "no-such-program") == (1, "", 'sudo: "no-such-program" was not found in PATH\n')
    assert run(init, "-D", "/no/such", "true") == (1, "", 'sudo: the directory "/no/such" does not exist\n')
    works(init)


def test_input_and_much_output(init):
    with sudo(init, "cat", stdin=subprocess.PIPE) as process:
        out, _ = process.communicate(b"x" * 3_000_000, timeout=60)
    assert len(out) == 3_000_000 and process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_are_handed_on(init, number):
    with sudo(init, "sh", "-c", f"trap 'echo got; exit 5' {int(number)}; echo ready; while :; do sleep 0.05; done") as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"got\n"
        assert process.wait(60) == 5


def test_its_end_by_a_signal_is_that_of_the_client(init):
    assert run(init, "sh", "-c", "kill -TERM $$")[0] == -signal.SIGTERM
    assert run(init, "sh", "-c", "kill -KILL $$")[0] == -signal.SIGKILL


def test_it_is_listed_signalled_and_reaped(init):
    with sudo(init, "sleep", "1000") as process:
        (found,) = until(lambda: running(init))
        assert found["ARGUMENT"] == ["sleep", "1000"] and found["USER"] == ("root" if init.may_be_users else found["USER"])
        init.ask("SIGNAL", PROCESS=found["PROCESS"], SIGNAL=int(signal.SIGTERM))
        assert process.wait(60) == -signal.SIGTERM
    until(lambda: not running(init))
    until(lambda: not children(init.pid))


def test_many_that_end_at_once(init):
    """What was reaped before its report was read would stay in the list for good."""
    started = [sudo(init, "true") for _ in range(60)]
    for process in started:
        with process:
            process.communicate(timeout=60)
            assert process.returncode == 0
    until(lambda: not running(init))
    until(lambda: not children(init.pid))


def test_a_killed_client_takes_its_command_along(init):
    with sudo(init, "sh", "-c", "sleep 1000 & echo $$; wait") as process:
        pid = int(process.stdout.readline())
        process.kill()
        until(lambda: not os.path.exists(f"/proc/{pid}"))
    until(lambda: not running(init) and not children(init.pid))
    works(init)


def test_a_killed_porter_leaves_the_command_to_init(init):
    with sudo(init, "sh", "-c", "echo $$; sleep 1000") as process:
        pid = int(process.stdout.readline())
        until(lambda: len(running(init)) == 1)
        (porter,) = porters(init)
        os.kill(porter, signal.SIGKILL)
        assert process.wait(60) == 1
        assert os.path.exists(f"/proc/{pid}")
        os.killpg(pid, signal.SIGKILL)
    until(lambda: not running(init) and not children(init.pid))
    works(init)


# Hostile ones


def test_half_requests_wait_for_their_time_and_no_longer(init):
    frame = pack("START", 1, [("ARGUMENT", "true")], 3)
    socks = [connect(init) for _ in range(ASKERS_MAX + 8)]
    for i, sock in enumerate(socks):
        sock.sendall(frame[:i % len(frame)])
    until(lambda: len(porters(init)) == ASKERS_MAX)
    assert init.sh("echo alive") == "alive\n"
    # Honest ones wait behind them, and are served when the time of those is over.
    began = time.monotonic()
    works(init)
    assert time.monotonic() - began < 3 * ASK_SECONDS
    for sock in socks:
        sock.close()
    until(lambda: not porters(init))


def test_ten_thousand_connections(init):
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                sock.connect("\0" + init.name)
                counted.append(1)
            except OSError:
                pass
            sock.close()

    counted = []
    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    while len(counted) < 10_000 and time.monotonic() < end:
        assert init.sh("echo alive") == "alive\n"
    stop.set()
    for thread in threads:
        thread.join()
    works(init)
    until(lambda: not porters(init) and not running(init))


@pytest.mark.parametrize("what", ["garbage", "huge", "other", "answer", "second"])
def test_what_is_no_request(init, what):
    sock = connect(init)
    fd = os.open("/dev/null", os.O_RDWR)
    frames = {
        "garbage": os.urandom(4096),
        "huge": struct.pack("<IHBBI", 0xffffffff, 1, 1, 0, 1),
        "other": pack("STAT", 1, [("PATH", "/etc/passwd")]),
        "answer": pack("DONE", 1),
        "second": pack("KILL", 1),
    }
    sock.sendall(frames[what])
    sock.settimeout(60)
    answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"root:" not in answer
    sock.close()
    os.close(fd)
    works(init)


def test_descriptors_where_none_belong(init):
    fds = [os.open("/dev/null", os.O_RDWR) for _ in range(64)]
    for count in (1, 2, 4, 5, 64):
        sock = connect(init)
        frame = pack("START", 1, [("ARGUMENT", "true")], count)
        sock.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds[:count]))])
        sock.settimeout(60)
        while sock.recv(65536):
            pass
        sock.close()
    for fd in fds:
        os.close(fd)
    works(init)


@pytest.mark.parametrize("sent", ["read", "unread"])
def test_a_descriptor_that_takes_its_time_to_close(init, sent):
    """A socket with SO_LINGER and bytes that nobody takes: to be the last one to close it takes a minute."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
        slow.setblocking(False)
        try:
            while True:
                slow.send(b"x" * 65536)
        except BlockingIOError:
            pass
        sock = connect(init)
        frame = pack("START", 1, [("ARGUMENT", "true")], 2)
        # "unread": before anybody accepts it, and gone at once.
        sock.sendmsg([frame if sent == "read" else frame[:3]],
                     [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [slow.fileno()] * 2))])
        slow.close()
        if sent == "read":
            sock.settimeout(0.5)
            try:
                sock.recv(100)
            except TimeoutError:
                pass
        sock.close()
        began = time.monotonic()
        for _ in range(5):
            works(init)
            init.list()
        assert time.monotonic() - began < 50
        peer.close()


def test_a_client_that_does_not_read(init):
    """The porter waits, alone."""
    sock = connect(init)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    null = os.open("/dev/null", os.O_RDWR)
    sock.sendmsg([pack("START", 1, [("ARGUMENT", "sleep"), ("ARGUMENT", "1000")], 3)],
                 [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 3))])
    until(lambda: len(running(init)) == 1)
    resize = pack("SIGNAL", 2, [("PROCESS", 1), ("SIGNAL", 0)])
    sock.settimeout(60)
    for _ in range(20_000):
        sock.sendall(resize)
    works(init)
    sock.close()
    os.close(null)
    until(lambda: not running(init))


def test_a_terminal(init):
    sock = Speaker(connect(init))
    call = sock.send("START", ARGUMENT=["sh", "-c", "test -t 0 && tty && stty size && read x && echo got $x"], FLAGS=TERMINAL, ROWS=33, COLUMNS=44)
    started = sock.wait(call, "STARTED")
    (master,) = started.descriptors
    os.set_blocking(master, True)
    seen = b""
    while b"33 44" not in seen:
        seen += os.read(master, 4096)
    sock.send("RESIZE", PROCESS=started["PROCESS"], ROWS=5, COLUMNS=6)
    os.write(master, b"word\n")
    assert sock.wait(call, "EXITED")["STATUS"] == 0
    os.close(master)
    sock.close()
    until(lambda: not running(init) and not children(init.pid))


def test_ctrl_z_is_told_and_goes_on(init):
    sock = Speaker(connect(init))
    call = sock.send("START", ARGUMENT=["sh", "-c", "echo ready; read x; echo on"], FLAGS=TERMINAL)
    started = sock.wait(call, "STARTED")
    (master,) = started.descriptors
    os.set_blocking(master, True)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(master, 4096)
    os.write(master, b"\x1a")
    assert sock.wait(call, "STOPPED")["SIGNAL"] == signal.SIGTSTP
    sock.send("SIGNAL", PROCESS=started["PROCESS"], SIGNAL=int(signal.SIGCONT))
    os.write(master, b"\n")
    assert sock.wait(call, "EXITED")["STATUS"] == 0
    os.close(master)
    sock.close()


def test_without_the_word_nobody_listens(make_init, exe, name):
    init = make_init("unix", "root" if os.geteuid() == 0 else "user")
    init.exe, init.name = exe, name
    assert run(init, "id") == (1, "", "sudo: nobody is there to be asked in this sandbox\n")
    init.end()
