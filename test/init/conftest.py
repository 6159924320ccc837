"""brig-init alone: an ordinary process with a channel on descriptor 3, and speaker.py in the place of the warden.

Every test runs over a socket that passes descriptors and over one that does not, as root (where init may become any
user) and as an ordinary user. A test that is about one of them names it:

    @pytest.mark.over("unix")       or "tcp"
    @pytest.mark.who("root")        or "user"

After each test init has ended by itself and in order, and what it left behind is killed: there is no keeper here.
"""

import ctypes
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from speaker import ROOT, Speaker

NOBODY = 65534
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_configure(config):
    config.addinivalue_line("markers", "over(name): the test is about this kind of channel")
    config.addinivalue_line("markers", "who(name): the test is about this user")


def pytest_generate_tests(metafunc):
    if "init" not in metafunc.fixturenames:
        return
    for name, values in (("over", ["unix", "tcp"]), ("who", ["root", "user"] if os.geteuid() == 0 else ["user"])):
        mark = metafunc.definition.get_closest_marker(name)
        metafunc.parametrize(name, mark.args if mark else values)


@pytest.fixture(scope="session")
def exe():
    """A copy that everybody can execute: the repository may be closed to the other user."""
    source = Path(os.environ.get("BRIG_INIT", ROOT / "build-test" / "brig-init")).absolute()
    if not source.exists():
        pytest.exit(f"{source} does not exist: build it, or set BRIG_INIT", 1)
    folder = Path(tempfile.mkdtemp(prefix="brig-init-", dir="/var/tmp"))
    folder.chmod(0o755)
    shutil.copy(source, folder / "brig-init")
    (folder / "brig-init").chmod(0o755)
    yield folder / "brig-init"
    shutil.rmtree(folder)


def children(pid):
    """Of a process, from all that there are: a zombie counts."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry))
    return found


def until(question, seconds=30):
    """Waits until something is true, which it has to become."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def pair(over):
    """Our end of a channel, and init's."""
    if over == "unix":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


class Init(Speaker):
    """A running brig-init, and what one needs to speak with it."""

    def __init__(self, exe, over, who, folder, files=None, words=("a long title",)):
        ours, theirs = pair(over)
        super().__init__(ours)
        self.who, self.folder = who, folder
        self.home = folder / "home"
        self.home.mkdir(mode=0o777)
        self.home.chmod(0o777)
        self.errors = open(folder / "errors", "w+b")
        self.may_be_users = who == "root"
        self.uid = 1000 if self.may_be_users else (NOBODY if os.geteuid() == 0 else os.geteuid())

        def become():
            # High enough not to be in the way, then in place.
            fd = os.dup(theirs.fileno())
            os.dup2(fd, 3)
            if fd != 3:
                os.close(fd)
            os.chdir(self.home)
            os.umask(0o022)
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            if os.geteuid() == 0:
                os.setgroups([])
                if who == "user":
                    os.setresgid(NOBODY, NOBODY, NOBODY)
                    os.setresuid(NOBODY, NOBODY, NOBODY)

        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "SANDBOX": "yes", "LANG": "C.UTF-8",
               # A process that may not be traced cannot look for its leaks.
               "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"}
        self.process = subprocess.Popen(["brig-init", *words], executable=exe, env=env, pass_fds=(3,),
                                        preexec_fn=become, stdin=subprocess.DEVNULL, stdout=self.errors,
                                        stderr=self.errors)
        theirs.close()
        self.pid = self.process.pid
        ready = self.next()
        assert (ready.kind, ready.call, ready.fields) == ("READY", 0, {})

    def said(self):
        self.errors.flush()
        return (self.folder / "errors").read_text()

    def start(self, *argv, descriptors=(), **fields):
        """STARTED, which has the call in .call."""
        return self.ask("START", "STARTED", descriptors=descriptors, ARGUMENT=list(argv), **fields)

    def kept(self, *argv, **fields):
        """Runs to the end with its output kept; the number and the status."""
        flags = fields.pop("FLAGS", 0) | 2
        started = self.start(*argv, FLAGS=flags, **fields)
        return started["PROCESS"], self.wait(started.call, "EXITED")["STATUS"]

    def read(self, process, follow=True, **fields):
        """All that is kept: bytes of output, of error, and the last message."""
        call = self.send("ATTACH", PROCESS=process, FLAGS=1 if follow else 0, **fields)
        return self.read_call(call)

    def read_call(self, call):
        streams = {1: b"", 2: b""}
        while True:
            message = self.wait(call, "DATA", "EXITED", "DONE")
            if message.kind != "DATA":
                return streams[1], streams[2], message
            streams[message["STREAM"]] += message["DATA"]
            self.send("CREDIT", call=call, SIZE=len(message["DATA"]))

    def run(self, *argv, **fields):
        """Runs a program; its status, and what it wrote to both streams."""
        process, status = self.kept(*argv, **fields)
        out, err, _ = self.read(process)
        return status, out.decode(), err.decode()

    def sh(self, script, **fields):
        status, out, err = self.run("sh", "-c", script, **fields)
        assert status == 0, (status, out, err)
        return out

    def list(self):
        call, found = self.send("PROCESSES"), []
        while True:
            message = self.wait(call, "PROCESS_IS", "DONE")
            if message.kind == "DONE":
                return found
            found.append(message)

    def fail(self, kind, **fields):
        """The words and the number of the refusal that has to come."""
        error = self.ask(kind, "ERROR", **fields)
        return error["CODE"], error["TEXT"]

    def end(self):
        self.close()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            for _ in range(100):
                left = [pid for pid in children(os.getpid())]
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                if not left:
                    break
        return code


@pytest.fixture
def make_init(exe):
    """For tests in which init ends otherwise."""
    folders = []

    def make(over, who, **more):
        folder = Path(tempfile.mkdtemp(prefix="brig-init-", dir="/var/tmp"))
        folder.chmod(0o755)
        folders.append(folder)
        return Init(exe, over, who, folder, **more)

    yield make
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture
def init(make_init, over, who):
    made = make_init(over, who)
    try:
        yield made
    finally:
        code = made.end()
        said = made.said()
    assert (code, said) == (0, "")
