"""Runs brig as a given user, in folders of its own, and looks from outside at what is left.

Nothing here trusts what a sandbox prints: processes are found in /proc by a mark in their arguments, files and
cgroups are looked up on the host.
"""

import contextlib
import json
import os
import pwd
import random
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HANG = 120  # seconds after which something that should have ended counts as hanging, on a slow and busy machine too
LONG = 600  # for a compiler or a package manager
SANITIZER_MARKS = (b"Sanitizer", b"runtime error:")


def sanitizer_reports(folder):
    """All but that of one whose search for leaks was cut short, and that says no more."""
    found = [path.read_text(errors="replace") for path in folder.iterdir()]
    return [text for text in found if not re.fullmatch(r"(==\d+==Unable to get registers from thread \d+\.\s*)+", text)]


@dataclass
class Who:
    name: str
    uid: int
    gid: int
    is_switched: bool  # the tests run as root and change to this user

    @property
    def is_root(self):
        return self.uid == 0

    def prefix(self):
        if not self.is_switched:
            return []
        return ["/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups"]

    def own(self, path):
        if self.is_switched:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return path

    def mkdir(self, path, mode=0o755):
        path.mkdir()
        path.chmod(mode)
        return self.own(path)

    def write(self, path, content="", mode=0o644):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return self.own(path)


@contextlib.contextmanager
def accounts(name):
    """Who the tests can be. The ordinary user of that name is made once and removed by whoever made it."""
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid())
        yield {"user": Who(me.pw_name, me.pw_uid, me.pw_gid, False)}
        return
    made = False
    try:
        pwd.getpwnam(name)
    except KeyError:
        subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", f"/home/{name}",
                        "--shell", "/bin/sh", name], check=True)
        made = True
    user = pwd.getpwnam(name)
    yield {"root": Who("root", 0, 0, False), "user": Who(name, user.pw_uid, user.pw_gid, True)}
    if made:
        subprocess.run(["userdel", name], check=False, stderr=subprocess.DEVNULL)


@dataclass
class Done:
    code: int
    out: bytes
    err: bytes

    @property
    def text(self):
        return self.out.decode()

    @property
    def error(self):
        return self.err.decode()


class Brig:
    """One user, one working directory, one TMPDIR, one home: all of them belong to a single test."""

    def __init__(self, who, tier, exe, folder, version):
        self.who, self.tier, self.exe, self.folder, self.version = who, tier, exe, folder, version
        who.mkdir(folder)
        self.work = who.mkdir(folder / "work")
        self.tmp = who.mkdir(folder / "tmp", 0o700)
        self.home = who.mkdir(folder / "home", 0o700)
        self.log = who.mkdir(folder / "log", 0o700)
        self.cgroups = cgroups()
        self.schemas = {}
        self.sandboxes = []
        self.outer = []  # a command in front of all others, with the rights of the tests: nsenter

    @property
    def is_container(self):
        return self.tier == "container"

    def env(self, more=None):
        sanitizer = f"detect_leaks=1:abort_on_error=0:log_path={self.log}/sanitizer"
        env = {
            "PATH": PATH, "HOME": str(self.home), "TMPDIR": str(self.tmp), "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "ASAN_OPTIONS": sanitizer, "UBSAN_OPTIONS": sanitizer + ":print_stacktrace=1",
        }
        for name, value in (more or {}).items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = str(value)
        return env

    @property
    def tier_options(self):
        """The container tier is the default, and stays untold so that the default is what is tested."""
        return [] if self.is_container else ["--isolation", self.tier]

    def words(self, *args):
        """Arguments with the tier of this test behind "run" and "create"."""
        words = [a if isinstance(a, bytes) else str(a) for a in args]
        return [words[0], *self.tier_options, *words[1:]] if words[:1] in (["run"], ["create"]) else words

    @property
    def typed(self):
        """What a person types at a shell: brig run, in the tier of this test."""
        return " ".join([str(self.exe), "run", *self.tier_options])

    def command(self, *args):
        return [*self.outer, *self.who.prefix(), str(self.exe), *self.words(*args)]

    def start(self, *args, env=None, cwd=None, before=(), **popen):
        """Starts brig without waiting. before: a command that is put in front of it."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        command = self.command(*args)
        at = len(self.outer) + len(self.who.prefix())
        command[at:at] = [str(b) for b in before]
        return subprocess.Popen(command, env=self.env(env), cwd=cwd or self.work, **popen)

    def __call__(self, *args, stdin=b"", timeout=HANG, **options):
        with self.start(*args, stdin=subprocess.PIPE, **options) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert not any(mark in (err or b"") for mark in SANITIZER_MARKS), err.decode(errors="replace")
        return Done(process.returncode, out, err)

    def run(self, *args, **options):
        return self("run", *args, **options)

    def refused(self, *args, **options):
        """brig itself says no: status 125, one line on standard error, nothing on standard output."""
        done = self(*args, **options)
        assert done.code == 125, done
        assert done.out == b"", done
        assert done.error.startswith("brig: ") and done.error.count("\n") == 1, done.error
        assert done.error.endswith("\n") and all(c.isprintable() for c in done.error[:-1]), repr(done.error)
        return done.error

    def json(self, *args, **options):
        """The result of "brig run --json", checked against the schema that this brig prints."""
        done = self("run", "--json", *args, **options)
        assert done.out, done
        result = json.loads(done.out.decode("utf-8", "strict"))
        jsonschema.Draft202012Validator(self.schema("run")).validate(result)
        assert result["exit_code"] == done.code
        return result

    def schema(self, *verb):
        if verb not in self.schemas:
            words = {"policy": ["policy", "schema"]}.get(verb[0], [*verb, "--schema"])
            self.schemas[verb] = json.loads(self(*words).out)
        return self.schemas[verb]

    def create(self, *options, **more):
        """A sandbox that lives until the end of the test."""
        done = self("create", *options, **more)
        assert done.code == 0, done
        sandbox = Sandbox(self, done.text.strip())
        self.sandboxes.append(sandbox)
        return sandbox

    def end_sandboxes(self):
        for sandbox in self.sandboxes:
            self("kill", sandbox.id)
        self.sandboxes = []

    def python(self, code, *args, options=(), **more):
        return self.run(*options, "--", "python3", "-c", code, *args, **more)

    def settle(self):
        """Waits until nothing is left. What appears when no process of ours is there any more is somebody else's."""
        wait_until(lambda: not processes_of(self), lambda: f"left behind: {self.leftovers()}")
        left = set(self.leftovers())
        wait_until(lambda: not left & set(self.leftovers()), lambda: f"left behind: {left & set(self.leftovers())}")

    def may_own(self, path):
        """By the streams of this test; where nothing is recorded, any could be."""
        streams = self.folder / "state" / "brig" / "sandboxes"
        names = os.listdir(streams) if streams.is_dir() else []
        return not names or os.path.basename(path).removeprefix("brig-") in names

    def leftovers(self):
        """What should not be there when everything is over."""
        found = [f"process {pid}: {cmdline(pid)!r}" for pid in processes_of(self)]
        found += [f"folder {p}" for p in self.tmp.glob("brig-*")]
        found += [f"cgroup {path}" for path in cgroups() - self.cgroups if is_empty_cgroup(path) and self.may_own(path)]
        return found


@dataclass
class Sandbox:
    """One that "brig create" made."""
    brig: Brig
    id: str

    def exec(self, *args, options=(), **more):
        return self.brig("exec", *options, self.id, *args, **more)

    def json(self, *args, options=(), **more):
        """The result of "brig exec --json", checked against the schema that this brig prints."""
        done = self.exec(*args, options=("--json", *options), **more)
        assert done.out, done
        result = json.loads(done.out.decode("utf-8", "strict"))
        jsonschema.Draft202012Validator(self.brig.schema("exec", *(["-d"] if "-d" in options else []))).validate(result)
        assert result.get("exit_code", 0) == done.code
        return result

    def detach(self, *args, options=()):
        """The number of a process that was left alone."""
        done = self.exec(*args, options=("-d", *options))
        assert done.code == 0, done
        return int(done.text)

    def attach(self, process, *options, **more):
        return self.brig("attach", *options, self.id, process, **more)

    def logs(self, *words, options=(), **more):
        return self.brig("logs", *options, self.id, *words, **more)


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def link(pid, name):
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def environ(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def runs(pid, exe):
    """By what the program is, not by its name: a keeper in a root of its own has another one."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", exe)
    except OSError:
        return False


def processes_of(brig):
    """Processes of a test: they run its brig (the keeper of a container, and nothing inside outlives that), or their
    working directory or environment lies in its folder."""
    folder = str(brig.folder)
    return [
        pid for pid in pids()
        if pid != os.getpid() and state(pid) != "Z"
        and (runs(pid, brig.exe) or (link(pid, "cwd") + "/").startswith(folder + "/")
             or os.fsencode(folder) in environ(pid))
    ]


def marked(mark):
    """Processes whose arguments contain the mark, without brig's own (whose arguments contain it as well)."""
    # The program is looked at first: a brig that ends in between has no arguments any more.
    return [pid for pid in pids() if not link(pid, "exe").endswith("/brig") and os.fsencode(mark) in cmdline(pid)]


def descendants(pid):
    """All processes below one, children first."""
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def children(pid):
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def status(pid):
    """/proc/PID/status as a map."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def keeper_of(pid):
    """The keeper is brig's only child that still runs brig's program."""
    return next((c for c in children(pid) if comm(c) == "brig-keeper\n"), None)


def cgroups():
    """Those of sandboxes, not of slices; without what is made below the cgroups of other sessions on this machine."""
    own = [line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    found = set()
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        if any(folder.endswith(path) for path in own) or folder.count("/") <= 4:
            found |= {os.path.join(folder, name) for name in names if name.startswith("brig-") and not name.startswith("brig-slice-")}
    return found


def is_empty_cgroup(path):
    """One with processes belongs to a sandbox that runs: of somebody else, or found by its processes."""
    try:
        return not Path(path, "cgroup.procs").read_text()
    except OSError:
        return False


def rounds(brig):
    """Of a race; in each, every call is made once. Fewer with sanitizers, which are slow."""
    return os.environ.get("BRIG_TEST_ROUNDS", "5000" if brig.version["test_build"] else "10000")


def wait_until(question, what, timeout=HANG):
    """Asks until the answer is true. The time is a guard against hanging, not a promise."""
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, f"still waiting after {timeout} s: {what() if callable(what) else what}"
        time.sleep(0.01)


def with_room(run, is_up):
    """For what ends at a deadline: run(wall) with ever more room, until the program was up before it."""
    for wall in ("1500ms", "6s", "30s"):
        done = run(wall)
        if is_up(done):
            break
    return done


def free_port(address="127.0.0.1"):
    """Below those that the kernel gives to whoever asks for any."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        for port in random.sample(range(20000, 32000), 50):
            with contextlib.suppress(OSError):
                s.bind((address, port))
                return port
    raise AssertionError("no port is free")


def in_time(run, is_in_time):
    """For what has to be done within a grace that brig gives: a busy machine may need another try."""
    for _ in range(5):
        done = run()
        if is_in_time(done):
            break
    return done


def wait_for_line(process, expected):
    """Reads the sandbox's standard output up to a line; what was said before it is returned."""
    lines = []
    for line in process.stdout:
        if line.strip() == expected:
            return lines
        lines.append(line)
    raise AssertionError(f"ended before saying {expected!r}: {lines}, {process.stderr and process.stderr.read()}")


def finish(process, timeout=HANG):
    """Waits for a process that was started; its status as a shell would say it."""
    out, err = process.communicate(timeout=timeout)
    code = process.returncode
    return Done(128 - code if code < 0 else code, out, err)


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
