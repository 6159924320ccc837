"""Scenes about the container tier: protected names, neighbours, images, bombs, and what is brought back afterwards."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from ground import processes_with
from stage_client import BUILD

ATTACK = BUILD / "test/attack/attack"
BUSYBOX = Path("/bin/busybox")
FOREIGN = 12345


@pytest.fixture
def tier():
    return "container"


def policy(ground, **rules):
    """A policy with ".: write" and these rules below it."""
    text = "version: 1\nextends: [base]\nfs:\n  \".\": write\n"
    text += "".join(f"  {name}: {access}\n" for name, access in rules.items())
    (ground.root / "policy.yaml").write_text(text)
    return ["--policy", ground.root / "policy.yaml"]


def wait_for(condition, timeout=120):
    deadline = time.monotonic() + timeout
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


# Protected names


@pytest.mark.parametrize("access", ["none", "read"])
def test_host_replaces_a_protected_file(ground, access):
    """An editor of the user's saves by renaming. What was mounted on the old file must not go with it."""
    protected = ground.work / "settings"
    protected.write_text("old secret")
    ground.give(ground.work)
    script = "touch ready; while [ ! -e go ]; do sleep 0.02; done; cat settings; echo spoiled > settings"
    with ground.start(*policy(ground, settings=access), "--wall", "10s", "--", "/bin/sh", "-c", script) as process:
        assert wait_for((ground.work / "ready").exists)
        (ground.work / "new").write_text("new secret")
        os.rename(ground.work / "new", protected)
        os.chown(protected, ground.user.pw_uid, ground.user.pw_gid)
        (ground.work / "go").touch()
        out = process.communicate(timeout=15)[0]
    assert protected.read_text() == "new secret"
    assert access == "read" or "secret" not in out


def test_guard_below_a_missing_folder(ground):
    """.git/hooks where there is no .git: the folder may be made, the guarded name may not."""
    result = ground.run(*policy(ground, **{".git/hooks": "read"}), "--", "/bin/sh", "-c",
                        "mkdir .git && echo made; mkdir .git/hooks; mkdir -p x/hooks; rmdir .git; mv x .git; ln -s x .git")
    assert result.stdout == "made\n", result.stderr
    assert not os.path.lexists(ground.work / ".git/hooks")
    assert not os.path.lexists(ground.work / ".git")


def test_folder_of_a_guarded_name_as_a_file(ground):
    """A file called .git says where the repository is, with hooks of its own."""
    (ground.work / ".git").mkdir()
    ground.give(ground.work)
    ground.run(*policy(ground, **{".git/hooks": "read"}), "--", "/bin/sh", "-c",
               "mv .git away; rmdir .git; echo 'gitdir: evil' > .git")
    assert (ground.work / ".git").is_dir()


# Who is who on the host


def test_owner_of_new_files(ground):
    """Files in a granted folder belong to the folder's owner; nothing is left with rights that others lack."""
    owner, group = (FOREIGN, FOREIGN) if ground.is_root else (ground.user.pw_uid, ground.user.pw_gid)
    os.chown(ground.work, owner, group)
    script = "umask 0; touch file; mkdir folder; mkfifo fifo; ln -s file link; chmod 4777 file; chmod 2777 folder; ls > file"
    ground.sh(script)
    for name in ("file", "folder", "fifo", "link"):
        st = os.lstat(ground.work / name)
        assert (st.st_uid, st.st_gid) == (owner, group), name
        assert not st.st_mode & stat.S_ISUID and (stat.S_ISDIR(st.st_mode) or not st.st_mode & stat.S_ISGID), name


def host_ids(mark):
    """The user ids of processes, as the host sees them."""
    found = set()
    for pid in processes_with(mark):
        with contextlib.suppress(FileNotFoundError):
            found.add(Path(f"/proc/{pid}").stat().st_uid)
    return found


NEIGHBOUR = """
import os, socket, time
listener = socket.socket(socket.AF_UNIX); listener.bind("\\0brig-neighbour"); listener.listen()
tcp = socket.socket(); tcp.bind(("127.0.0.1", 38391)); tcp.listen()
for name in ("/tmp/mark", "/dev/shm/mark", os.environ["HOME"] + "/mark", "/var/tmp/mark"):
    open(name, "w").write("secret of a neighbour")
os.openpty()
open("ready", "w")
time.sleep(31.{number})
"""
VISITOR = """
import glob, os, signal, socket
found = []
for path in ("/tmp/mark", "/dev/shm/mark", os.environ["HOME"] + "/mark", "/var/tmp/mark"):
    found += [path] if os.path.exists(path) else []
for address, family in (("\\0brig-neighbour", socket.AF_UNIX), (("127.0.0.1", 38391), socket.AF_INET)):
    try:
        socket.socket(family).connect(address); found.append(repr(address))
    except OSError:
        pass
found += [pid for pid in os.listdir("/proc") if pid.isdigit() and b"31.{number}" in open(f"/proc/{pid}/cmdline", "rb").read()
          and int(pid) != os.getpid()]
found += [name for name in os.listdir("/dev/pts") if name != "ptmx"]
for number in range(2, 3000):
    if number != os.getpid():
        try:
            os.kill(number, signal.SIGKILL); found.append(str(number))
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass
print("found", found)
"""


def test_two_sandboxes_side_by_side(ground):
    number = os.getpid()
    neighbour = ground.root / "neighbour"
    neighbour.mkdir()
    ground.give(neighbour)
    script = NEIGHBOUR.replace("{number}", str(number))
    with ground.start("--allow-write", neighbour, "--", "/usr/bin/python3", "-c", script, cwd=neighbour) as process:
        try:
            assert wait_for((neighbour / "ready").exists), process.communicate()
            first = host_ids(f"31.{number}") - {ground.user.pw_uid}
            result = ground.run("--", "/usr/bin/python3", "-c",
                                "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                + VISITOR.replace("{number}", str(number)))
            assert result.stdout == "found []\n", result
            assert process.poll() is None
            if ground.is_root:
                with ground.start("--", "/bin/sleep", f"32.{number}") as other:
                    assert wait_for(lambda: len(host_ids(f"32.{number}") - {0}) == 1)
                    second = host_ids(f"32.{number}") - {0}
                    other.kill()
                assert first and not first & second and min(first | second) >= 0x70000000
        finally:
            process.kill()
    assert wait_for(lambda: not processes_with(f"31.{number}"))


# The end


def janitors():
    """Of this brig: other tests run copies of it."""
    found = set()
    for pid in processes_with("brig-janitor"):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{pid}/exe", BUILD / "brig"):
                found.add(pid)
    return found


def test_killed_warden_leaves_nothing(ground):
    mark = f"33.{os.getpid()}"
    others = janitors()
    script = f"(setsid sleep {mark} &); echo x > ~/file; exec sleep {mark}"
    with ground.start("--allow-write", ground.work, "--", "/bin/sh", "-c", script) as process:
        assert wait_for(lambda: len(processes_with(mark)) >= 3)
        process.kill()
    assert wait_for(lambda: not processes_with(mark))
    assert wait_for(lambda: not janitors() - others)
    assert list(ground.temporary.iterdir()) == []


STARVED = """
import os
os.setpriority(os.PRIO_PROCESS, 1, 19)
os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))
os.sched_setaffinity(1, {0})
for _ in range(6):
    if os.fork() == 0:
        break
os.sched_setaffinity(0, {0})
while True:
    pass
"""


def test_starved_keeper_keeps_the_deadline(ground):
    """The sandbox may take all of the keeper's time: it ends all the same, a little later."""
    (ground.work / "starve.py").write_text("import time; time.sleep(0.1)\n" + STARVED)
    started = time.monotonic()
    result = ground.run("--wall", "1s", "--", "/usr/bin/python3", "starve.py", timeout=60)
    assert result.returncode == 124, result.stderr
    assert time.monotonic() - started < 50
    assert wait_for(lambda: not processes_with("starve.py"))


FLOOD = """
import os, signal, time
first = os.getpid()
if os.fork() == 0:
    open("ready", "w")
    while not os.path.exists("go"):
        time.sleep(0.01)
    for _ in range(2000):
        os.kill(first, signal.SIGSTOP); time.sleep(0.0003)
        os.kill(first, signal.SIGCONT); time.sleep(0.0003)
time.sleep(600)
"""


def test_stopped_warden_and_a_flood_of_news(ground):
    """While brig is stopped the keeper keeps the deadline, whatever the program does."""
    (ground.work / "flood.py").write_text(FLOOD)
    with ground.start("--allow-write", ground.work, "--wall", "5s", "--", "/usr/bin/python3", "flood.py") as process:
        assert wait_for((ground.work / "ready").exists)
        process.send_signal(signal.SIGSTOP)
        (ground.work / "go").touch()
        try:
            assert wait_for(lambda: not processes_with("flood.py\0") or len(processes_with("flood.py")) == 1, timeout=60)
        finally:
            process.send_signal(signal.SIGCONT)
            process.wait(timeout=60)


def test_orphans(ground):
    """Twenty thousand in turn, and never more than a few at a time."""
    options = ["--pids", "64"] if ground.is_root else []
    result = ground.run("--allow-read", ATTACK, *options, "--", ATTACK, "run", "twin_orphans", timeout=60)
    assert result.returncode == 0, result.stderr


# Bombs


def test_inode_bomb(ground):
    script = """
import os
os.chdir(os.environ["HOME"])
try:
    for number in range(100000):
        os.close(os.open(str(number), os.O_CREAT))
except OSError as error:
    print(error.errno, number < 20000)
    raise SystemExit(1)
"""
    result = ground.run("--disk", "4M", "--json", "--", "/usr/bin/python3", "-c", script)
    report = json.loads(result.stdout)
    assert report["stdout"] == "28 True\n"
    assert report["reason"] == "disk"


def test_block_bomb(ground):
    script = "for f in ~/x /tmp/x /dev/shm/x /var/tmp/x; do head -c 3M /dev/zero > $f; done; du -cm ~ /tmp /dev/shm /var/tmp"
    result = ground.sh(script, "--disk", "4M")
    assert int(result.stdout.split()[-2]) <= 5, result.stdout


def test_sparse_file_is_exported_sparsely(ground):
    out = ground.root / "out"
    started = time.monotonic()
    result = ground.run("--export", out, "--", "/bin/sh", "-c", "truncate -s 1T ~/huge && echo x >> ~/huge")
    assert result.returncode == 0, result.stderr
    st = (out / "home/user/huge").stat()
    assert st.st_size > 1 << 40 and st.st_blocks < 1000
    result = ground.run("--export", f"{out}.tar", "--", "/bin/sh", "-c", "truncate -s 1T ~/huge")
    assert result.returncode != 0 and Path(f"{out}.tar").stat().st_size < 1 << 20
    assert time.monotonic() - started < 60


DEEP = """
import os
for folder in (os.environ["HOME"], "/tmp", os.getcwd()):
    os.chdir(folder)
    for _ in range(3000):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)
    open("bottom", "w")
"""


def test_deep_folders(ground):
    out = ground.root / "out"
    started = time.monotonic()
    result = ground.run("--overlay", ground.work, "--diff", "--export", out, "--", "/usr/bin/python3", "-c", DEEP)
    assert "too deep" in result.stderr or "too long" in result.stderr
    assert time.monotonic() - started < 60
    subprocess.run(["rm", "-rf", out], check=True)


def test_reader_that_never_reads(ground):
    """A program that floods its output is held back, and ends at its deadline."""
    with ground.start("--wall", "1s", "--", "/bin/cat", "/dev/zero") as process:
        assert process.wait(timeout=60) == 124
        process.stdout.close()


def test_flood_of_output_is_bounded(ground):
    result = ground.run("--json", "--output", "1M", "--", "/bin/cat", "/dev/zero", timeout=20)
    report = json.loads(result.stdout)
    assert len(report["stdout"]) <= 2 << 20 and report["reason"] == "output"


# What is brought back

HOSTILE_NAMES = [b"new\nline", b"esc\x1b]0;title\x07\x1b[2J", b"-rf", b"--", b"x" * 255, b"not-utf8\xff\xfe", b"a -> b",
                 b"\xe2\x80\xaertl", b"c1\xc2\x9b31m", b"tab\tback\\slash", b" ", b"..."]
HOSTILE = """
import os, socket
names = {names!r}
for name in names:
    open(name, "w").write("x")
    os.mkdir(b"dir-" + name[:200])
    open(b"dir-" + name[:200] + b"/" + name[:200], "w").write("y")
os.symlink("{outside}", "link")
os.symlink("{outside}/canary", "file-link")
os.symlink("../../../../../../../../..{outside}", "dots-link")
os.symlink("dir---/../../../outside", "late-dots")
os.mkdir("chain"); os.symlink("..", "chain/up"); os.symlink("chain/up/../outside", "chain-link")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
open("one", "w").write("z"); os.link("one", "two")
open("changed", "w").write("new"); os.remove("gone")
os.rename("moved", "moved-too")
os.remove("was-file"); os.mkdir("was-file"); open("was-file/x", "w").write("x")
for name in os.listdir("was-folder"):
    os.remove("was-folder/" + name)
os.rmdir("was-folder"); os.symlink("{outside}", "was-folder")
os.mkdir("many")
for number in range(3000):
    open(f"many/{{number}}", "w").write("x")
"""


def prepare_hostile(ground):
    for name in ("changed", "gone", "moved", "was-file"):
        (ground.work / name).write_text(f"old {name}")
    (ground.work / "was-folder").mkdir()
    (ground.work / "was-folder/x").write_text("old")
    ground.give(ground.work)
    (ground.root / "hostile.py").write_text(HOSTILE.format(names=HOSTILE_NAMES, outside=ground.outside))
    return ["--allow-read", ground.root / "hostile.py", "--overlay", ground.work]


def leads_out(root):
    return [path for path in root.rglob("*") if path.is_symlink() and not
            Path(os.path.realpath(path)).is_relative_to(root)]


def specials(root):
    return [path for path in root.rglob("*") if not (path.is_symlink() or path.is_dir() or path.is_file())]


def test_hostile_tree_is_told_harmlessly(ground):
    options = prepare_hostile(ground)
    result = ground.run(*options, "--diff", "--", "/usr/bin/python3", ground.root / "hostile.py", text=False)
    lines = result.stdout.split(b"\n")
    assert all(byte >= 0x20 and byte != 0x7F for line in lines + result.stderr.split(b"\n") for byte in line)
    assert b"\xc2\x9b" not in result.stdout and b"\xe2\x80\xae" not in result.stdout
    assert all(line[:2] in (b"A ", b"M ", b"D ", b"R ", b"m ") for line in lines[:-1])
    assert (ground.work / "gone").exists() and ground.intact()
    result = ground.run(*options, "--diff", "--json", "--", "/usr/bin/python3", ground.root / "hostile.py")
    assert "\x1b" not in result.stdout and json.loads(result.stdout)["exit_code"] == 0


def test_hostile_tree_is_committed_harmlessly(ground):
    options = prepare_hostile(ground)
    ground.run(*options, "--commit", "--", "/usr/bin/python3", ground.root / "hostile.py")
    assert ground.intact()
    assert leads_out(ground.work) == [] and specials(ground.work) == []
    assert (ground.work / "changed").read_text() == "new" and not (ground.work / "gone").exists()
    assert (ground.work / "was-folder").is_dir(), "what a refused link would replace stays"
    assert len(list((ground.work / "many").iterdir())) == 3000
    for path in ground.work.rglob("*"):
        assert os.lstat(path).st_uid == ground.user.pw_uid, path


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_hostile_tree_is_exported_harmlessly(ground, name):
    options = prepare_hostile(ground)
    out = ground.root / name
    ground.run(*options, "--export", out, "--", "/usr/bin/python3", ground.root / "hostile.py")
    if name.endswith(".tar"):
        unpacked = ground.root / "unpacked"
        unpacked.mkdir()
        listing = subprocess.run(["tar", "-tvf", out], capture_output=True, text=True, check=True).stdout
        assert not any(line[0] in "hcbps" for line in listing.splitlines())
        subprocess.run(["tar", "-xf", out, "-C", unpacked], check=True)
        out = unpacked
    assert ground.intact() and leads_out(out) == [] and specials(out) == []
    assert any(path.name == "2999" for path in out.rglob("*"))


def test_overlay_attributes_planted_before(ground):
    """A run that may write leaves marks of overlayfs in the folder; the next one shows it as an overlay."""
    plant = """
import os
os.mkdir("sub"); open("sub/file", "w").write("x")
for name, value in (("opaque", b"y"), ("redirect", b"/../../outside"), ("metacopy", b""), ("origin", b"x")):
    for path in (".", "sub", "sub/file"):
        try:
            os.setxattr(path, "user.overlay." + name, value)
        except OSError as error:
            pass
"""
    assert ground.run("--allow-write", ground.work, "--", "/usr/bin/python3", "-c", plant).returncode == 0
    result = ground.run("--overlay", ground.work, "--", "/bin/sh", "-c", "ls -R . ; cat sub/* sub/*/* 2>&1")
    assert "canary" not in result.stdout and "alive" not in result.stdout


def test_commit_while_a_folder_is_swapped_for_a_link(ground):
    """Another process exchanges a folder for a link to the outside, as fast as it can."""
    sub, away = ground.work / "sub", ground.work / "away"
    script = "for i in $(seq 400); do echo spoiled > sub/$i; done; echo spoiled > sub/canary; rm sub/old*"
    for _ in range(4):
        sub.mkdir(exist_ok=True)
        for number in range(100):
            (sub / f"old{number}").write_text("old")
        ground.give(ground.work)
        swap = f"""
import os, time
end = time.monotonic() + 2
while time.monotonic() < end:
    try:
        os.rename({str(sub)!r}, {str(away)!r}); os.symlink({str(ground.outside)!r}, {str(sub)!r})
        os.remove({str(sub)!r}); os.rename({str(away)!r}, {str(sub)!r})
    except OSError:
        pass
"""
        with subprocess.Popen(["python3", "-c", f"import time; time.sleep(0.05)\n{swap}"]) as swapper:
            ground.run("--overlay", ground.work, "--commit", "--", "/bin/sh", "-c", script)
            swapper.kill()
        if sub.is_symlink():
            sub.unlink()
        if away.exists() and not sub.exists():
            away.rename(sub)
        assert ground.intact()


# Images


def make_image(ground):
    image = ground.root / "image"
    for name in ("bin", "etc", "dev", "proc", "sys", "tmp", "usr/bin"):
        (image / name).mkdir(parents=True)
    (image / "bin/busybox").write_bytes(BUSYBOX.read_bytes())
    (image / "bin/busybox").chmod(0o755)
    (image / "bin/sh").symlink_to("busybox")
    return image


IMAGE_LINKS = ["dev", "dev/null", "dev/tty", "dev/pts", "dev/ptmx", "dev/shm", "dev/stdin", "proc", "sys", "etc",
               "etc/resolv.conf", "etc/hosts", "etc/hostname", "etc/passwd", "etc/group", "home", "home/user", "tmp",
               "var", "var/tmp", "run", "root", "proc/self", "proc/sys"]


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox for an image")
@pytest.mark.parametrize("climbs", [False, True])
@pytest.mark.parametrize("name", IMAGE_LINKS)
def test_image_with_a_link(ground, name, climbs):
    """Where brig puts something, the image has a link to the host: nothing is made or read there."""
    image = make_image(ground)
    link = image / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        link.rmdir()
    target = f"../../../../../../../../..{ground.outside}" if climbs else str(ground.outside)
    link.symlink_to(target if name.count("/") == 0 or name in ("dev/pts", "dev/shm", "home/user", "var/tmp", "proc/sys")
                    else f"{target}/canary")
    ground.give(image)
    result = ground.run("--image", image, "--", "/bin/busybox", "sh", "-c",
                        f"busybox echo spoiled > /{name}; busybox touch /{name}/made /home/user/made /tmp/made; "
                        f"[ -c /{name} ] || busybox cat /{name} /{name}/canary; true")
    assert ground.intact()
    assert "alive" not in result.stdout
    assert {path.name for path in image.iterdir()} == {"bin", "etc", "dev", "proc", "sys", "tmp", "usr", name.split("/")[0]}


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox for an image")
def test_image_with_devices_and_setuid(ground):
    image = make_image(ground)
    ground.give(image)
    os.mknod(image / "disk", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.chmod(image / "disk", 0o666)
    (image / "bin/id").write_bytes(BUSYBOX.read_bytes())
    os.chown(image / "bin/id", 0, 0)
    (image / "bin/id").chmod(0o6755)
    result = ground.run("--image", image, "--", "/bin/busybox", "sh", "-c",
                        "busybox head -c1 /disk && echo opened; exec /bin/id -u")
    assert "opened" not in result.stdout and result.stdout.strip() == "1000", result


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox for an image")
def test_image_stays_as_it_was(ground):
    image = make_image(ground)
    ground.give(image)
    before = sorted((str(path), os.lstat(path).st_ctime_ns) for path in image.rglob("*"))
    ground.run("--image", image, "--", "/bin/busybox", "sh", "-c",
               "busybox rm -rf /bin/sh /etc; busybox mkdir /new; echo x > /bin/busybox; busybox mv /usr /usr2")
    assert sorted((str(path), os.lstat(path).st_ctime_ns) for path in image.rglob("*")) == before


# The working folder


@pytest.mark.parametrize("how", ["removed", "descriptor", "dots"])
def test_working_folder_by_a_detour(ground, how):
    """By a descriptor or "..", the sandbox gets the folder that it names by now, or none."""
    folder = ground.root / "detour"
    folder.mkdir()
    ground.give(folder)
    descriptor = os.open(ground.outside, os.O_RDONLY)

    def enter():
        ground.prepare()
        if how == "removed":
            os.chdir(folder)
            os.rmdir(folder)
        elif how == "descriptor":
            os.chdir(f"/proc/self/fd/{descriptor}")
        else:
            os.chdir(folder)
            os.chdir("/proc/self/cwd/../..")

    environment = {"PATH": "/usr/bin:/bin", "PWD": f"/proc/self/fd/{descriptor}", "HOME": "/", "ASAN_OPTIONS": "detect_leaks=0"}
    result = subprocess.run([BUILD / "brig", "run", "--", "/bin/sh", "-c", "pwd -P; echo spoiled > canary; ls -d /proc/self/cwd/.."],
                            preexec_fn=enter, env=environment, capture_output=True, text=True, timeout=20,
                            pass_fds=[descriptor])
    os.close(descriptor)
    assert ground.canary.read_text() == "alive"
    assert how != "removed" or result.returncode == 125
    assert "/proc" not in result.stdout.splitlines()[0] if result.stdout else True


# Programs that cannot be looked at


def test_program_that_may_only_be_executed(ground):
    program = ground.work / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    os.chown(program, FOREIGN, FOREIGN)
    program.chmod(0o711)
    # With a record of all it could open nothing: its memory is closed (test/e2e/test_record.py).
    result = ground.run("--record", "denied", "--", program)
    assert result.returncode == 0, result.stderr


def test_hidden_names_of_the_host(ground):
    """Neither the user's name nor the host's is anywhere in what a program usually prints."""
    script = "id; env; cat /etc/passwd /etc/group /etc/hosts /etc/hostname /proc/self/cgroup /proc/self/status; uname -n; hostname"
    out = ground.run("--", "/bin/sh", "-c", script).stdout
    assert os.uname().nodename not in out.split() or os.uname().nodename == "brig"
    if not ground.is_root:
        assert ground.user.pw_name not in out.replace(str(ground.root), "")


def test_network_of_its_own_on_a_busy_machine(ground):
    """Whoever makes the network, and whenever: no program ever runs in the host's."""
    host = os.readlink("/proc/self/ns/net")
    seen = []
    for _ in range(10):
        with contextlib.ExitStack() as stack:
            runs = [stack.enter_context(ground.start("--", "/bin/readlink", "/proc/self/ns/net")) for _ in range(20)]
            seen += [run.communicate(timeout=120)[0].strip() for run in runs]
    assert host not in seen, f"{seen.count(host)} of {len(seen)} are in the host's network"
    assert all(seen)


def test_many_starts_leave_nothing(ground):
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(ground.start("--", "/bin/true")) for _ in range(30)]
        codes = [run.wait(timeout=120) for run in runs]
    assert codes == [0] * 30
    assert list(ground.temporary.iterdir()) == []
