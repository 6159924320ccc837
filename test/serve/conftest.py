"""Fixtures of the tests of the daemon.

The programs under test are those of $BRIG's folder, or of build-test: brig, brig-serve, and the release's brig-init. As
root every test runs twice, with a daemon of root's and with one of an ordinary user that is made for the purpose.

    def test_x(daemon):         a daemon that all tests of a file share
    def test_y(own_daemon):     one of its own, for tests that kill it or change its state as a whole

After the last test of a file nothing may be left: no process, no sandbox, no sanitizer report.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import harness  # noqa: E402

# Not that of test/e2e, which may run at the same time.
USER = "brigserve"


def pytest_generate_tests(metafunc):
    if "who" in metafunc.fixturenames:
        metafunc.parametrize("who", ["root", "user"] if os.geteuid() == 0 else ["user"], indirect=True, scope="module")


@pytest.fixture(scope="session")
def exe():
    """Copies that everybody can read and execute: the repository may be closed to the other user."""
    source = Path(os.environ.get("BRIG", ROOT / "build-test" / "brig")).absolute()
    if not source.exists():
        pytest.exit(f"{source} does not exist: build it, or set BRIG", 1)
    root = Path(tempfile.mkdtemp(prefix="brig-serve-", dir="/var/tmp"))
    root.chmod(0o755)
    for name, place in (("brig", source), ("brig-serve", source.parent / "brig-serve"),
                        # Sanitizers need more than a sandbox gives.
                        ("brig-init", ROOT / "build" / "brig-init")):
        shutil.copy(place, root / name)
        (root / name).chmod(0o755)
    yield root / "brig"

    def left():
        return [pid for pid in harness.pids() if harness.link(pid, "exe").startswith(str(root))]

    try:
        harness.wait_until(lambda: not left(), lambda: f"brig still runs after the last test: {left()}")
    finally:
        for pid in left():
            harness.kill(pid)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def accounts():
    with harness.accounts(USER) as found:
        yield found


@pytest.fixture(scope="module")
def who(request, accounts):
    return accounts[request.param]


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:500]!r}"


class Daemon:
    """One "brig serve" with a state directory of its own, at a port that the kernel chose and that stays the same."""

    def __init__(self, who, exe, options=()):
        self.who, self.exe, self.options = who, exe, list(options)
        self.folder = who.mkdir(exe.parent / f"daemon-{uuid.uuid4().hex[:8]}")
        self.home = who.mkdir(self.folder / "home", 0o700)
        self.tmp = who.mkdir(self.folder / "tmp", 0o700)
        self.work = who.mkdir(self.folder / "work")
        self.reports = who.mkdir(self.folder / "log", 0o700)
        self.state = self.folder / "state"
        who.mkdir(self.state, 0o700)
        self.log_path = self.folder / "serve.log"
        self.process = self.key = self.port = None

    def environment(self):
        return {"PATH": harness.PATH, "HOME": str(self.home), "TMPDIR": str(self.tmp), "LANG": "C.UTF-8",
                "XDG_STATE_HOME": str(self.state),
                "ASAN_OPTIONS": f"log_path={self.reports}/asan:detect_leaks=1", "UBSAN_OPTIONS": f"log_path={self.reports}/ubsan:print_stacktrace=1"}

    def start(self, extra=(), env=None, listen=None):
        """Until it says where it is."""
        words = [*self.who.prefix(), str(self.exe), "serve", "--json", "--listen", listen or f"127.0.0.1:{self.port or 0}",
                 *self.options, *extra]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(words, cwd=self.work, env={**self.environment(), **(env or {})},
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            start_new_session=True)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(harness.HANG)
            raise RuntimeError(f"brig serve ended with {self.process.returncode}: {self.log()[-2000:]}")
        self.ready = json.loads(line)
        self.url = self.ready["url"]
        self.key = self.ready["key"] or self.key
        if ":" in self.url[7:] and not self.url.startswith("http://unix"):
            self.port = int(self.url.rsplit(":", 1)[1])
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self, number=signal.SIGTERM):
        if not self.process:
            return None
        self.process.send_signal(number)
        self.process.wait(harness.HANG)
        self.process.stdout.close()
        code, self.process = self.process.returncode, None
        return code

    def kill9(self):
        return self.stop(signal.SIGKILL)

    def restart(self, extra=(), env=None):
        if self.process:
            self.kill9()
        return self.start(extra, env)

    def brig(self, *words, **more):
        """Another command of brig's with the same state, as the same user."""
        return subprocess.run([*self.who.prefix(), str(self.exe), *words], cwd=self.work, env=self.environment(),
                              capture_output=True, timeout=harness.HANG, check=False, **more)

    def ask(self, method, path, body=None, headers=None, key=True, raw=None):
        """One request. body: what becomes JSON; raw: bytes as they are. key: False for none, or another one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.HANG)
        fields = {"X-API-Key": self.key if key is True else key} if key else {}
        if body is not None:
            raw, fields["Content-Type"] = json.dumps(body).encode(), "application/json"
        try:
            try:
                connection.request(method, path, raw, {**fields, **(headers or {})})
            except (BrokenPipeError, ConnectionResetError):
                pass  # It did not want to hear all of it; what it said is there all the same.
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def make(self, **body):
        """A sandbox by the way of the field's clients; its answer."""
        answer = self.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, **body})
        assert answer.status == 201, answer
        return answer.json

    def inside(self, sandbox, method, path, body=None, headers=None, raw=None, port=49983):
        """A request to a sandbox, by the headers. sandbox: what make() gave."""
        return self.ask(method, path, body, {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": str(port),
                                             "X-Access-Token": sandbox.get("envdAccessToken") or "", **(headers or {})},
                        key=False, raw=raw)

    def raw(self, data, timeout=harness.HANG):
        """Bytes as they are; everything that comes back until the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as sock:
            sock.sendall(data)
            parts = []
            try:
                while part := sock.recv(65536):
                    parts.append(part)
            except ConnectionResetError:
                pass
            return b"".join(parts)

    def sdk(self):
        """The environment of a client's program."""
        return {"PATH": harness.PATH, "HOME": str(self.home), "E2B_API_KEY": self.key, "E2B_API_URL": self.url,
                "E2B_SANDBOX_URL": self.url}

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self):
        if self.process and self.process.poll() is None:
            self.stop()
        self.brig("kill", "--all")
        reports = harness.sanitizer_reports(self.reports)
        subprocess.run(["chmod", "-R", "u+rwx", self.folder], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", self.folder], check=True)
        assert not reports, "\n".join(reports)


@pytest.fixture(scope="module")
def daemon(who, exe):
    daemon = Daemon(who, exe).start()
    yield daemon
    daemon.end()


@pytest.fixture
def own_daemon(who, exe):
    daemon = Daemon(who, exe)
    yield daemon
    daemon.end()


@pytest.fixture
def sandbox(daemon):
    made = daemon.make()
    yield made
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")


def wait_for(condition, what="it"):
    """Until it is so. A slow machine is no failure, a hanging one is."""
    end = time.monotonic() + harness.HANG
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.02)
    return value


@pytest.fixture(scope="session")
def python_sdk():
    """A Python with the field's client in it (scripts/clients makes it)."""
    python = ROOT / "build-clients" / "python" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the clients: scripts/clients")
    return python


@pytest.fixture(scope="session")
def node_sdk():
    folder = ROOT / "build-clients" / "node"
    if not (folder / "node_modules" / "e2b").exists():
        pytest.skip("needs the clients: scripts/clients")
    return folder
