"""The stage on which attacks are played: a process in namespaces of its own that lays out canaries, runs one
probe with or without walls, and reports what really changed.

Started by conftest.py under "unshare" as pid 1 of a pid namespace, so that kill(-1), mounts, host names and packets of
a control stay here. It reads requests as lines of JSON from standard input and answers each with one line.

Everything that an attack could change is in the picture that is taken before and after: trees of files with modes,
owners, times, links, attributes and content; a victim process; sockets that listen; System V and POSIX objects; keys;
mounts; names of the host; processes that are left. An answer's "effects" are the differences, and "leak" when the
secret word of this scene is among what the probe printed.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import pty
import pwd
import resource
import select
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p

SYS_KEYCTL, KEYCTL_INVALIDATE = 250, 21
SYS_IOPRIO_SET, SYS_IOPRIO_GET = 251, 252
TIMEOUT = 20
LOOPBACK4, LOOPBACK6 = "127.0.0.1", "::1"
SECRETS_AT_HOME = [".ssh/id_ed25519", ".aws/credentials", ".docker/config.json", ".netrc"]
CALLER_DESCRIPTOR, CALLER_FOLDER = 7, 8
NAMESPACES = ["mnt", "pid", "net", "ipc", "uts", "cgroup", "user", "time"]
# CAP_DAC_OVERRIDE, permitted and effective, as the kernel keeps it in an attribute.
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 1, 0, 0, 0)

# Where policy and place differ, below the writable folder: guards.c says what each is.
GUARDED = ["guarded", "GUARDED", "nest", "nest/guarded", "protected", "kept", "kept/deep", "kept/deep/file",
           "kept/deep/new", "hidden", "closet", "closet/skeleton", "closet/new", "linked"]
GUARDS = """version: 1
extends: [base]
fs:
  {work}: write
  {work}/guarded: read
  {work}/nest/guarded: read
  {work}/protected: read
  {work}/kept/deep: read
  {work}/hidden: none
  {work}/closet: none
  {work}/linked: read
"""


def describe(path):
    """All that is to know about one file, without changing its times."""
    st = os.lstat(path)
    info = [st.st_dev, st.st_ino, oct(st.st_mode), st.st_uid, st.st_gid, st.st_size, st.st_nlink, st.st_rdev,
            st.st_mtime_ns, st.st_ctime_ns]
    if stat.S_ISREG(st.st_mode):
        info.append(hashlib.sha256(Path(path).read_bytes()).hexdigest())
    if stat.S_ISLNK(st.st_mode):
        info.append(os.readlink(path))
    else:
        info += [(name, os.getxattr(path, name).hex()) for name in sorted(os.listxattr(path))]
    return info


def describe_tree(root):
    return {str(path): describe(path) for path in [root, *sorted(root.rglob("*"))]}


def describe_name(path):
    """What a name leads to, without what changes around it."""
    if not os.path.lexists(path):
        return None
    st = os.lstat(path)
    return [st.st_ino, oct(st.st_mode)] if stat.S_ISDIR(st.st_mode) else describe(path)


def find_dangers(root, owner):
    """What a writable folder must not hold afterwards: devices, setuid files, capabilities, foreign owners."""
    dangers = {}
    for path in sorted(root.rglob("*") if not os.path.ismount(root / "mnt") else root.glob("*")):
        st = os.lstat(path)
        if path.name in ("of-root", "of-another", "planted"):
            dangers[str(path)] = describe(path)
        elif stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode) or st.st_uid != owner or (
                stat.S_ISREG(st.st_mode) and st.st_mode & (stat.S_ISUID | stat.S_ISGID)):
            dangers[str(path)] = [oct(st.st_mode), st.st_uid]
        elif stat.S_ISREG(st.st_mode) and "security.capability" in os.listxattr(path):
            dangers[str(path)] = "capabilities"
    return dangers


class Listeners:
    """Sockets of the host, and a sniffer on the loopback interface."""

    def __init__(self, folder, visible):
        self.sockets = {}
        self.words = {}
        self.add("tcp4", socket.AF_INET, socket.SOCK_STREAM, (LOOPBACK4, 0))
        self.add("tcp6", socket.AF_INET6, socket.SOCK_STREAM, (LOOPBACK6, 0))
        self.add("udp4", socket.AF_INET, socket.SOCK_DGRAM, (LOOPBACK4, 0))
        self.add("udp6", socket.AF_INET6, socket.SOCK_DGRAM, (LOOPBACK6, 0))
        self.add("unix_stream", socket.AF_UNIX, socket.SOCK_STREAM, f"{folder}/stream")
        self.add("unix_datagram", socket.AF_UNIX, socket.SOCK_DGRAM, f"{folder}/datagram")
        self.add("visible_stream", socket.AF_UNIX, socket.SOCK_STREAM, f"{visible}/stream")
        self.add("visible_datagram", socket.AF_UNIX, socket.SOCK_DGRAM, f"{visible}/datagram")
        self.add("abstract_stream", socket.AF_UNIX, socket.SOCK_STREAM, "\0brig-attack-stream")
        self.add("abstract_datagram", socket.AF_UNIX, socket.SOCK_DGRAM, "\0brig-attack-datagram")
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.sniffer.bind(("lo", 0))
        self.sniffer.setblocking(False)

    def add(self, name, family, kind, address):
        sock = socket.socket(family, kind)
        sock.bind(address)
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            sock.listen(16)
        if isinstance(address, str):
            if address[0] != "\0":
                os.chmod(address, 0o666)
            self.words[name] = address.replace("\0", "@")
        else:
            self.words[name] = sock.getsockname()[1]
        self.sockets[name] = sock

    def heard(self):
        """Names of the listeners that got something since the last time."""
        names = []
        for name, sock in self.sockets.items():
            with contextlib.suppress(BlockingIOError):
                while True:
                    if sock.type == socket.SOCK_STREAM:
                        sock.accept()[0].close()
                    else:
                        sock.recv(4096)
                    names.append(name)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sniffer.recv(4096)
                names.append("packets")
        return sorted(set(names))


class Objects:
    """System V and POSIX objects, owned by whoever is the effective user when they are made."""

    def __init__(self, word, mqueues):
        text = word.encode()
        self.mqueues = mqueues
        self.segment = libc.shmget(0, 4096, 0o1600)
        address = libc.shmat(self.segment, None, 0)
        ctypes.memmove(address, text, len(text))
        libc.shmdt(ctypes.c_void_p(address))
        self.semaphore = libc.semget(0, 1, 0o1600)
        self.queue = libc.msgget(0, 0o1600)
        message = struct.pack("l", 1) + text
        libc.msgsnd(self.queue, message, len(text), 0)
        self.mqueue = f"brig-attack-{os.getpid()}"
        fd = os.open(mqueues / self.mqueue, os.O_CREAT | os.O_RDWR, 0o600)
        libc.mq_send(fd, text, len(text), 0)
        os.close(fd)
        self.memory = Path("/dev/shm") / f"brig-{word[-8:]}"
        self.memory.write_text(word)

    def words(self):
        return {"segment": self.segment, "semaphore": self.semaphore, "queue": self.queue, "mqueue": self.mqueue,
                "shm": self.memory}

    def picture(self):
        address = libc.shmat(self.segment, None, 0o10000)
        gone = ctypes.c_void_p(-1).value
        content = None if address == gone else ctypes.string_at(address, 64).hex()
        if content:
            libc.shmdt(ctypes.c_void_p(address))
        info = ctypes.create_string_buffer(512)
        libc.msgctl(self.queue, 2, info)
        queues = {path.name: path.read_text() for path in self.mqueues.iterdir()}
        return {
            "segment": content,
            "segments": len(Path("/proc/sysvipc/shm").read_text().splitlines()),
            "semaphore": libc.semctl(self.semaphore, 0, 12),
            "message queue": Path("/proc/sysvipc/msg").read_text().split("\n")[1].split()[3:5],
            "POSIX queues": queues,
            "shared memory": sorted(path.name for path in Path("/dev/shm").iterdir()),
        }

    def done(self):
        libc.shmctl(self.segment, 0, None)
        libc.semctl(self.semaphore, 0, 0)
        libc.msgctl(self.queue, 0, None)
        for path in [*self.mqueues.iterdir(), *Path("/dev/shm").iterdir()]:
            path.unlink()


class Victim:
    """A process outside, of the same user."""

    def __init__(self, program, file, key, word, identity):
        self.process = subprocess.Popen(
            [program, "victim", file, key, word], stdout=subprocess.PIPE, cwd=file.parent, start_new_session=True,
            preexec_fn=identity, env={"TOKEN": word}, text=True)
        self.pid, self.address, self.key = self.process.stdout.readline().split()
        while self.picture()["state"] == "R":
            time.sleep(0.001)

    def picture(self):
        proc = Path("/proc") / self.pid
        try:
            fields = (proc / "stat").read_text().rpartition(")")[2].split()
            limits = [line for line in (proc / "limits").read_text().splitlines() if "open files" in line]
            with open(proc / "mem", "rb") as memory:
                memory.seek(int(self.address, 16))
                secret = memory.read(64).hex()
            affinity = sorted(os.sched_getaffinity(int(self.pid)))
            return {"state": fields[0], "nice": fields[16], "policy": fields[38], "limits": limits, "memory": secret,
                    "affinity": affinity, "io priority": libc.syscall(SYS_IOPRIO_GET, 1, int(self.pid)),
                    "oom score": (proc / "oom_score_adj").read_text()}
        except OSError:
            return {"state": "gone"}

    def done(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.pid), signal.SIGKILL)
        self.process.stdout.close()
        self.process.wait()


class Scene:
    def __init__(self, stage, number, user, with_key):
        self.stage = stage
        self.user = user
        self.word = "secret-" + os.urandom(12).hex()
        self.root = stage.base / str(number)
        self.root.mkdir()
        self.make_files()
        self.make_root_files()
        with self.as_user():
            self.objects = Objects(self.word, stage.mqueues)
        self.key = f"brig-key-{self.word[-8:]}"
        self.victim = Victim(stage.attack, self.folder("outside") / "secret", self.key if with_key else "", self.word,
                             self.become_user)
        self.master, slave = pty.openpty()
        self.slave = slave
        self.terminal = os.ttyname(slave)
        os.chown(self.terminal, user.pw_uid, user.pw_gid)
        os.set_blocking(self.master, False)
        stage.listeners.heard()

    def folder(self, name):
        return self.root / name

    def become_user(self):
        os.setgroups([])
        os.setresgid(*[self.user.pw_gid] * 3)
        os.setresuid(*[self.user.pw_uid] * 3)

    @contextlib.contextmanager
    def as_user(self):
        os.setegid(self.user.pw_gid)
        os.seteuid(self.user.pw_uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def make_files(self):
        outside, readable = self.folder("outside"), self.folder("readable")
        for name in ("outside", "outside/empty", "outside/mounted", "readable", "work", "work/mnt", "home", "tmp"):
            self.folder(name).mkdir()
        for path in [outside / "secret", outside / "victim", outside / f"name-{self.word}", readable / "file",
                     readable / "other", *(self.folder("home") / name for name in SECRETS_AT_HOME)]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.word + "\n")
            path.chmod(0o600)
            os.setxattr(path, "user.note", self.word.encode())
        (outside / "pointer").symlink_to(self.word)
        program = outside / "program"
        program.write_text(f"#!/bin/sh\nexec /bin/cat {outside}/secret\n")
        program.chmod(0o700)
        self.make_guarded()
        for path in [self.root, *self.root.rglob("*")]:
            os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)

    def make_guarded(self):
        work = self.folder("work")
        for name in ("nest", "kept", "kept/deep", "closet"):
            (work / name).mkdir()
        for name in ("protected", "kept/deep/file", "hidden", "closet/skeleton"):
            (work / name).write_text(self.word + "\n")
        (work / "linked").symlink_to(self.folder("readable") / "file")
        (self.root / "guards.yaml").write_text(GUARDS.format(work=work))

    def make_root_files(self):
        """In the writable folder, but not the user's: what setuid programs and capabilities would open."""
        other = 12345
        for name, uid in (("of-root", 0), ("of-another", other)):
            path = self.folder("work") / name
            path.write_text("untouched")
            path.chmod(0o600)
            os.chown(path, uid, uid)
        foreign = self.folder("foreign")
        foreign.mkdir()
        (foreign / "of-root").write_text(self.word)
        (foreign / "of-root").chmod(0o600)
        os.chown(foreign, other, other)
        random = self.root / "device"
        os.mknod(random, stat.S_IFCHR | 0o666, os.makedev(1, 9))
        os.chmod(random, 0o666)
        device = self.folder("work") / "planted"
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 11))
        os.chown(device, self.user.pw_uid, self.user.pw_gid)
        source, target = f"mount-{self.word}".encode(), str(self.folder("outside/mounted")).encode()
        assert libc.mount(source, target, b"tmpfs", 0, None) == 0

    def words(self):
        words = {name: self.folder(name) for name in ("outside", "readable", "work", "home", "foreign", "device")}
        words |= {"victim": self.victim.pid, "address": self.victim.address, "key": self.key,
                  "terminal": self.terminal, "setuid": self.stage.setuid, "capable": self.stage.capable,
                  "mounted": f"mount-{self.word[:12]}", "hostname": os.uname().nodename,
                  "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                  "uptime": int(time.clock_gettime(time.CLOCK_BOOTTIME))}
        words |= {f"ns_{name}": os.stat(f"/proc/self/ns/{name}").st_ino for name in NAMESPACES}
        return [f"{key}={value}" for key, value in (words | self.stage.listeners.words | self.objects.words()).items()]

    def keys(self):
        with self.as_user():
            return f"new-{self.key}" in Path("/proc/keys").read_text()

    def others(self):
        """Processes besides the stage, the victim, and what is dead already."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name not in ("1", self.victim.pid):
                with contextlib.suppress(OSError):
                    text = (entry / "stat").read_text()
                    if text.rpartition(")")[2].split()[0] not in "ZX":
                        found.append(text.split(")")[0])
        return found

    def kill_others(self):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name not in ("1", self.victim.pid):
                with contextlib.suppress(OSError):
                    os.kill(int(entry.name), signal.SIGKILL)

    def typed(self):
        """Bytes that wait at either end of the host's terminal."""
        waiting = bytearray(4)
        fcntl.ioctl(self.slave, termios.FIONREAD, waiting)
        return struct.unpack("i", waiting)[0] + bool(select.select([self.master], [], [], 0)[0])

    def picture(self):
        uname = os.uname()
        picture = {
            "files": {**describe_tree(self.folder("outside")), **describe_tree(self.folder("readable")),
                      **describe_tree(self.folder("home"))},
            "writable folder": find_dangers(self.folder("work"), self.user.pw_uid),
            "guarded names": {name: describe_name(self.folder("work") / name) for name in GUARDED},
            "temporary folder": sorted(path.name for path in self.folder("tmp").iterdir()),
            "victim": self.victim.picture(),
            "mounts": Path("/proc/self/mountinfo").read_text(),
            "names": [uname.nodename, Path("/proc/sys/kernel/domainname").read_text()],
            "mtu": self.stage.mtu(),
            "keys": self.keys(),
            "terminal": self.typed(),
        }
        with self.as_user():
            picture |= self.objects.picture()
        return picture

    def done(self):
        self.kill_others()
        with self.as_user():
            libc.syscall(SYS_KEYCTL, KEYCTL_INVALIDATE, int(self.victim.key))
        self.victim.done()
        os.close(self.master)
        os.close(self.slave)
        self.objects.done()
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(f"{self.root}/"):
                libc.umount2(line.split()[4].encode(), 2)
        shutil.rmtree(self.root)


class Stage:
    def __init__(self, build, user):
        self.user = pwd.getpwnam(user)
        self.base = Path(os.environ["ATTACK_BASE"])
        self.brig = build / "brig"
        self.attack = self.base / "tool" / "attack"
        self.setuid = self.base / "tool" / "setuid"
        self.capable = self.base / "tool" / "capable"
        self.mqueues = self.base / "mqueues"
        self.number = 0
        self.prepare(build)
        self.listeners = Listeners(self.base / "sockets", self.base / "tool")

    def prepare(self, build):
        self.base.chmod(0o755)
        for name in ("tool", "mqueues", "sockets", "state"):
            (self.base / name).mkdir()
        os.chown(self.base / "state", self.user.pw_uid, self.user.pw_gid)
        shutil.copy(build / "test" / "attack" / "attack", self.attack)
        shutil.copy(self.attack, self.setuid)
        self.setuid.chmod(0o4755)
        shutil.copy(self.attack, self.capable)
        os.setxattr(self.capable, "security.capability", CAPABILITY)
        shadow = self.base / "shadow"
        shutil.copy("/etc/passwd", shadow)
        shadow.chmod(0o600)
        self.shadow = shadow
        for command in (["mount", "--bind", shadow, "/etc/shadow"], ["mount", "-t", "mqueue", "none", self.mqueues],
                        ["mount", "-t", "tmpfs", "none", "/dev/shm"], ["ip", "link", "set", "lo", "up"],
                        ["sysctl", "-qw", "net.ipv4.ping_group_range=0 2147483647"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        Path("/dev/shm").chmod(0o1777)
        self.mqueues.chmod(0o1777)

    def mtu(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            return struct.unpack("16si12x", fcntl.ioctl(sock, 0x8921, struct.pack("16s16x", b"lo")))[1]

    def command(self, request, scene):
        probe = [str(self.attack), "run", request["name"], *scene.words()]
        if request["mode"] == "control":
            return [str(self.attack), "keep", *probe]
        walls = ["--allow-read", self.base / "tool", "--allow-read", scene.folder("readable"),
                 "--allow-write", scene.folder("work"), "--wall", "15s",
                 *(option.format(scene=scene.root) for option in request["options"])]
        if request["guards"]:
            walls += ["--policy", scene.root / "guards.yaml"]
        if request["mode"] == "own":
            return self.as_its_root(walls, probe)
        return [str(self.brig), "run", "--isolation", request["mode"], *map(str, walls), "--", *probe]

    def as_its_root(self, walls, probe):
        """In a sandbox that lives and whose system is its own, as its root."""
        brig = shlex.quote(str(self.brig))
        # An init with sanitizers has much memory that it does not use.
        return ["/bin/sh", "-c", f"id=$({brig} create --policy interpreter --memory 100T {shlex.join(map(str, walls))}) || exit 125\n"
                f"{brig} exec -u root $id -- {shlex.join(probe)}\ncode=$?\n{brig} kill $id >/dev/null 2>&1\nexit $code"]

    def environment(self, request, scene):
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(scene.folder("home")),
            "TMPDIR": str(scene.folder("tmp")), "LANG": "C.UTF-8", "API_TOKEN": scene.word,
            "XDG_STATE_HOME": str(self.base / "state"),
            "PYTHONSTARTUP": "/nonexistent", "NODE_OPTIONS": "--no-warnings", "BASH_ENV": "/nonexistent",
            "ASAN_OPTIONS": "detect_leaks=0", "BRIG_TEST_WITHOUT": ",".join(request["without"]),
        }

    def start(self, request, scene):
        inherits = request["name"].startswith("inherited_")
        secret = os.open(scene.folder("outside") / "secret", os.O_RDONLY)
        folder = os.open(scene.folder("outside"), os.O_RDONLY)
        master, slave = pty.openpty() if request["tty"] else (None, None)
        family = {"stdin_udp": socket.AF_INET, "stdin_unix": socket.AF_UNIX}.get(request["name"])
        given = socket.socket(family, socket.SOCK_DGRAM) if family else subprocess.DEVNULL

        def prepare():
            if inherits:
                os.dup2(secret, CALLER_DESCRIPTOR)
                os.dup2(folder, CALLER_FOLDER)
                signal.signal(signal.SIGUSR2, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
                resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            else:
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            if slave is not None:
                os.fchown(slave, self.user.pw_uid, self.user.pw_gid)
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            scene.become_user()

        process = subprocess.Popen(
            self.command(request, scene), stdin=slave if slave is not None else given,
            # In a pipeline brig does not hand a terminal on.
            stdout=subprocess.PIPE if slave is None else subprocess.DEVNULL,
            stderr=subprocess.PIPE, cwd=scene.folder("work"), start_new_session=True,
            env=self.environment(request, scene), preexec_fn=prepare,
            pass_fds=(CALLER_DESCRIPTOR, CALLER_FOLDER) if inherits else (), close_fds=True)
        os.close(secret)
        os.close(folder)
        if family:
            given.close()
        return process, master, slave

    def play(self, request):
        self.number += 1
        scene = Scene(self, self.number, self.user, "key" in request["name"])
        self.shadow.write_text(f"root:{scene.word}:1::::::\n")
        try:
            return self.judge(request, scene)
        finally:
            scene.done()
            self.restore()

    def judge(self, request, scene):
        before = scene.picture()
        process, master, slave = self.start(request, scene)
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            scene.kill_others()
            out, err = process.communicate()
        out = out or b""
        typed = 0
        if slave is not None:
            waiting = bytearray(4)
            fcntl.ioctl(slave, termios.FIONREAD, waiting)
            typed = struct.unpack("i", waiting)[0]
            os.close(slave)
            os.close(master)
        heard = self.listeners.heard()
        left = self.left(scene, request)
        after = scene.picture()
        effects = [name for name in before if before[name] != after[name]]
        effects += [f"heard by {name}" for name in heard]
        effects += ["leak"] if scene.word.encode() in out else []
        effects += ["processes left"] if left else []
        effects += ["typed"] if typed else []
        return {"code": process.returncode, "effects": effects, "left": left,
                "text": err.decode(errors="replace")[-600:], "out": len(out)}

    def left(self, scene, request):
        """Who is still there. Children of a control get a moment to end, brig's own processes what a slow machine needs."""
        is_control = request["mode"] == "control"
        end = time.monotonic() + (0.2 if is_control else TIMEOUT)
        while (left := scene.others()) and (is_control or all("brig" in name for name in left)) and time.monotonic() < end:
            time.sleep(0.002)
        return left

    def restore(self):
        """What a control may have done to the stage itself."""
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        libc.syscall(SYS_IOPRIO_SET, 1, 0, 0)
        if self.mtu() != 65536:
            subprocess.run(["ip", "link", "set", "lo", "mtu", "65536"], check=True)
        if os.uname().nodename != "stage":
            libc.sethostname(b"stage", 5)
        libc.setdomainname(b"stage", 5)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def main():
    stage = Stage(Path(sys.argv[1]), sys.argv[2])
    stage.restore()
    for line in sys.stdin:
        try:
            answer = stage.play(json.loads(line))
        except Exception as error:
            answer = {"error": repr(error), "code": None, "effects": [], "text": "", "left": [], "out": 0}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
