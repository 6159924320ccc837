"""The container tier: own namespaces, own root, own ids; what of the host shows, and what is left when it does not start."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pexpect
import pytest

import harness

pytestmark = pytest.mark.tier("container")

NAMESPACES = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"]


def sh(brig, script, *options, **more):
    return brig.run(*options, "--", "sh", "-c", script, **more)


def lines(brig, script, *options, **more):
    done = sh(brig, script, *options, **more)
    assert done.code == 0, done
    return done.text.splitlines()


# Namespaces


def links(pid="self"):
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}


def test_every_namespace_is_its_own(brig):
    """As the sandbox says, and as the kernel says from outside: of the program, a child and the keeper."""
    process = brig.start("run", "--", "sh", "-c", "for n in /proc/self/ns/*; do readlink $n; done; sleep 60 & echo ready; wait")
    inside = {line.decode().strip() for line in harness.wait_for_line(process, b"ready")}
    host = links()
    assert not inside & set(host.values())
    found = harness.wait_until(lambda: (f := harness.descendants(process.pid)) and len(f) == 3 and f, "three processes")
    keeper = harness.keeper_of(process.pid)
    for pid in found:
        if pid == keeper and os.geteuid() != 0:
            continue  # nobody but root may look into it
        shared = {name for name, link in links(pid).items() if link == host[name]}
        if pid == keeper:
            shared.discard("time")  # the kernel puts only children into a new one
        assert not shared, f"{harness.cmdline(pid)} shares {shared} with the host"
    assert {links(found[-1])[name] for name in NAMESPACES} <= inside | {links(found[-1])["user"]}
    process.terminate()
    harness.finish(process)


@pytest.mark.parametrize("wall,name", [("netns", "net"), ("ipcns", "ipc"), ("utsns", "uts"),
                                       ("cgroupns", "cgroup"), ("timens", "time")])
def test_the_judge_sees_a_namespace_that_is_missing(brig, hooks, wall, name):
    assert lines(brig, f"readlink /proc/self/ns/{name}", env={"BRIG_TEST_WITHOUT": wall}) == [links()[name]]


def test_host_name_and_clock_are_its_own(brig):
    name, uptime, boot = lines(brig, "uname -n; cut -d. -f1 /proc/uptime; python3 -c 'import time; print(int(time.clock_gettime(7)))'")
    assert name == "brig" != os.uname().nodename
    assert int(uptime) < harness.HANG and int(boot) < harness.HANG


def test_it_sees_its_own_processes_only(brig):
    text = sh(brig, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done").text
    shown = [line.strip() for line in text.splitlines() if line.strip()]
    assert shown[0] == "brig-keeper" and len(shown) <= 3, shown
    assert all(line.startswith(("brig-keeper", "sh -c", "tr")) for line in shown)


def test_pid_1_tells_nothing_of_the_host(brig):
    """Neither arguments nor environment nor descriptors, memory, root or working directory of the keeper."""
    script = ("tr '\\0' '\\n' < /proc/1/cmdline | grep -v '^$'; cat /proc/1/environ; ls -l /proc/1/fd /proc/1/cwd /proc/1/root /proc/1/exe;"
              "head -c 1 /proc/1/mem; cat /proc/1/maps; readlink /proc/1/cwd; ls /proc/1/root/; ls /proc/1/map_files")
    done = sh(brig, script, env={"CANARY": "leak-of-the-host"})
    assert "leak-of-the-host" not in done.text and str(brig.folder) not in done.text
    assert done.text.splitlines()[0].strip() == "brig-keeper"
    assert not re.search(r"[0-9a-f]+-[0-9a-f]+ r", done.text) and "->" not in done.text, done.text


# What it sees


def test_etc_is_made_up(brig):
    text = sh(brig, "cat /etc/passwd /etc/group /etc/hosts /etc/resolv.conf /etc/hostname; ls /etc").text
    assert "user:x:1000:1000:user:/home/user:" in text and "127.0.0.1\tlocalhost" in text
    host = [line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines()]
    assert not [name for name in host if name not in ("root", "nobody", "user") and re.search(rf"^{name}:", text, re.M)]
    assert "shadow" not in text.splitlines() and "gshadow" not in text.splitlines()
    for name in ("shadow", "gshadow", "sudoers", "ssh", "machine-id", "crontab"):
        assert sh(brig, f"ls -d /etc/{name}").code != 0
    nameservers = re.findall(r"^nameserver (\S+)", text, re.M)
    assert nameservers in ([], ["127.0.0.1"])


def test_users_can_be_looked_up(brig):
    assert lines(brig, "id -un; id -gn; whoami; id -u; id -G; echo $USER $LOGNAME $HOME; getent passwd 1000 | cut -d: -f6; echo ~user") == [
        "user", "user", "user", "1000", "1000", "user user /home/user", "/home/user", "/home/user"]


def test_devices_are_those_without_a_memory(brig):
    listing = lines(brig, "cd /dev; for f in *; do stat -c '%n %F %t:%T' $f; done")
    found = {line.split()[0]: line for line in listing}
    assert set(found) == {"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
    assert [n for n, line in found.items() if "character special" in line] == ["full", "null", "random", "tty", "urandom", "zero"]
    assert found["null"].endswith("1:3") and found["zero"].endswith("1:5") and found["full"].endswith("1:7")
    assert lines(brig, "echo x > /dev/null && head -c 3 /dev/zero | wc -c; head -c 9 /dev/urandom | wc -c; echo x > /dev/full || echo full") == ["3", "9", "full"]


def test_no_device_can_be_made_or_replaced(brig):
    code = """
import os, stat
for path, kind, major, minor in (("/tmp/mem", stat.S_IFCHR, 1, 1), ("/dev/mem", stat.S_IFCHR, 1, 1), ("/tmp/vda", stat.S_IFBLK, 254, 0),
                                 ("/tmp/null", stat.S_IFCHR, 1, 3)):
    try: os.mknod(path, kind | 0o666, os.makedev(major, minor)); print("made", path)
    except OSError: pass
for call in (lambda: os.unlink("/dev/null"), lambda: os.rename("/dev/null", "/dev/gone"), lambda: os.chmod("/dev/null", 0),
             lambda: os.symlink("/etc", "/dev/x"), lambda: os.utime("/dev/null", (1, 1))):
    try: call(); print("done")
    except OSError: pass
print("over")
"""
    before = os.stat("/dev/null")
    assert brig.python(code).text == "over\n"
    after = os.stat("/dev/null")
    assert (before.st_mode, before.st_ino, before.st_uid) == (after.st_mode, after.st_ino, after.st_uid)


def test_terminals_are_private(brig):
    """At a terminal the program sits on the first one of a devpts that holds no other."""
    master, slave = os.openpty()
    try:
        child = pexpect.spawn(brig.command("run", "--", "true")[0], brig.command("run", "--", "sh", "-c", "tty; ls /dev/pts; echo over")[1:],
                              env=brig.env({"TERM": "dumb"}), cwd=str(brig.work), timeout=harness.HANG)
        child.expect_exact(b"over")
        assert child.before.split() == [b"/dev/pts/0", b"0", b"ptmx"]
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    finally:
        os.close(master)
        os.close(slave)
    assert lines(brig, "ls /dev/pts") == ["ptmx"]


def test_programs_can_make_terminals(brig):
    code = "import os, pty; m, s = os.openpty(); print(os.ttyname(s), flush=True); pid, fd = pty.fork()\nif pid == 0: print(os.ttyname(0), flush=True); os._exit(0)\nprint(open(fd, 'rb').readline())"
    assert brig.python(code).text.splitlines() == ["/dev/pts/0", "b'/dev/pts/1\\r\\n'"]


def octal(text):
    return re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), text)


def test_mounts_tell_nothing_but_what_the_policy_shows(brig):
    """The root of every mount is a place that the policy names, or the sandbox's own."""
    other = brig.who.mkdir(brig.folder / "other name")
    brig.who.mkdir(brig.folder / "hidden")
    script = "cat /proc/self/mountinfo /proc/self/mounts /proc/1/mountinfo; cat /proc/self/mountinfo | wc -l"
    text = sh(brig, script, "--allow-read", other).text
    assert "hidden" not in text and str(brig.home) not in text and str(brig.tmp) not in text
    for line in sh(brig, "cat /proc/self/mountinfo", "--allow-read", other).text.splitlines():
        fields = line.split()
        kind, root, point = fields[fields.index("-") + 1], octal(fields[3]), octal(fields[4])
        if kind in ("overlay", "tmpfs", "proc", "devpts"):
            continue
        assert root == point or root == point.removeprefix("/dev") or point.startswith("/sys/"), line
        assert "ro" in fields[5].split(","), line
        assert "nosuid" in fields[5].split(",") and ("nodev" in fields[5].split(",") or point.startswith("/dev/")), line


def test_there_is_nothing_above_the_root(brig):
    """Neither ".." nor a descriptor nor the keeper leads to what was the root before."""
    code = """
import os
def names(path): return sorted(os.listdir(path))
root = names("/")
assert os.stat("/").st_ino == os.stat("/..").st_ino == os.stat("/../../..").st_ino
assert names("/..") == root == names("/proc/self/root") == names("/proc/self/root/..")
fd = os.open("/", os.O_RDONLY)
for _ in range(20): fd = os.open("..", os.O_RDONLY, dir_fd=fd)
assert names(fd) == root
for path in ("/proc/1/root", "/proc/1/cwd"):
    try: print(names(path))
    except OSError: pass
for call in (lambda: os.chroot("/tmp"), lambda: os.listdir("/proc/1/root/..")):
    try: call(); print("done")
    except OSError: pass
print(*root)
"""
    done = brig.python(code)
    assert done.code == 0, done.error
    allowed = {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var"}
    assert set(done.text.split()) <= allowed


def test_the_root_itself_cannot_be_written(brig):
    """What is written of the sandbox's own goes to its home and its temporary folders."""
    done = sh(brig, "touch /x /etc/x /usr/x /root/x /run/x /var/x /home/x /bin/x; mkdir /y; echo z >> /etc/passwd; rm /etc/hosts; mv /etc /etc2; "
              "chmod 777 /etc /; ls /; grep -c z: /etc/passwd; ls /etc/hosts")
    assert done.text.splitlines()[-1] == "/etc/hosts" and done.text.splitlines()[-2] == "0"
    assert not {"x", "y", "etc2"} & set(done.text.splitlines())


def test_proc_is_masked_and_what_rules_the_machine_is_read_only(brig):
    for name in ("kcore", "kallsyms", "keys", "kmsg", "timer_list", "sysrq-trigger", "scsi", "acpi"):
        if not os.path.exists(f"/proc/{name}"):
            continue
        done = sh(brig, f"if [ -d /proc/{name} ]; then ls -A /proc/{name}; else cat /proc/{name}; fi")
        assert done.out == b"", f"/proc/{name} shows something"
    script = ("for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger /proc/sys/kernel/hostname /proc/irq/default_smp_affinity; do"
              " (echo 1 > $f) 2>/dev/null && echo wrote $f; done; umount /proc/kcore; umount /proc/sys; mount -o remount,rw /proc/sys; echo over")
    assert sh(brig, script).out == b"over\n"


def test_no_mount_and_no_namespace_can_be_made_inside(brig):
    script = ("mount -t tmpfs x /tmp && echo mounted; mount --bind / /tmp && echo bound; umount /tmp && echo unmounted;"
              "unshare -U true && echo user; unshare -r true && echo root; unshare -m true && echo mount; chroot /tmp true && echo chroot; echo over")
    assert sh(brig, script).out == b"over\n"


# Ids and privileges


def tree_of(brig, owner):
    """A folder in the working directory whose owner is somebody else than who runs brig."""
    folder = brig.work / f"of-{owner}"
    folder.mkdir()
    os.chown(folder, owner, owner)
    return folder


def test_files_in_a_writable_folder_belong_to_its_owner(brig, accounts):
    """Run by root in a user's tree, what is made is the user's; in root's tree it is root's."""
    owners = [0, accounts["user"].uid] if brig.who.is_root else [brig.who.uid]
    for owner in owners:
        folder = tree_of(brig, owner) if brig.who.is_root else brig.who.mkdir(brig.work / "out")
        done = sh(brig, f"cd {folder.name} && touch file && mkdir dir && ln -s file link && mkfifo pipe && echo x > dir/deep && stat -c %U . file dir/deep | sort -u",
                  "--allow-write", folder)
        assert (done.code, done.out) == (0, b"user\n"), done
        for path in (folder / "file", folder / "dir", folder / "link", folder / "pipe", folder / "dir" / "deep"):
            st = path.lstat()
            assert st.st_uid == owner, f"{path} belongs to {st.st_uid}"
            assert st.st_gid == folder.stat().st_gid


def test_a_rule_reads_what_its_owner_may_read(brig):
    """0600 of the folder's owner: the caller can read it, and the rule says read."""
    brig.who.write(brig.work / "private", "mine", 0o600)
    assert sh(brig, "cat private; stat -c %U private").text == "mineuser\n"


def test_files_of_root_stay_closed_to_a_sandbox_of_root(brig):
    """Without a rule for it there is no way; with a rule for a folder around, only its owner's files are mapped."""
    if not brig.who.is_root:
        pytest.skip("needs root to own a file of its own in another's tree")
    folder = tree_of(brig, 12345)
    secret = folder / "of-root"
    secret.write_text("SECRET")
    secret.chmod(0o600)
    done = sh(brig, f"cat {folder.name}/of-root; echo x > {folder.name}/of-root; rm -f {folder.name}/other", "--allow-write", folder)
    assert b"SECRET" not in done.out and secret.read_text() == "SECRET"


def test_ids_on_the_host(brig):
    """Seen from outside: a range of its own for each sandbox of root, the caller's own id for everybody else's."""
    started = [brig.start("run", "--", "sh", "-c", "sleep 60 & echo ready; wait") for _ in range(2)]
    flat = []
    for process in started:
        harness.wait_for_line(process, b"ready")
        keeper = harness.keeper_of(process.pid)
        # What was born in the set-up may end while it is looked at.
        harness.wait_until(lambda: len(harness.descendants(keeper)) == 2, "the program and its child")
        flat.append({int(uid) for pid in [keeper, *harness.descendants(keeper)] for uid in harness.status(pid)["Uid"].split()})
    for process in started:
        process.terminate()
        harness.finish(process)
    if brig.who.is_root:
        assert all(uid >= 65536 for uids in flat for uid in uids), flat
        assert not flat[0] & flat[1]
    else:
        assert flat == [{brig.who.uid}] * 2


def test_two_sandboxes_do_not_see_each_other(brig, mark):
    one = brig.start("run", "--", "sh", "-c", f"echo {mark} > /tmp/file; echo ready; sleep 60; : {mark}")
    harness.wait_for_line(one, b"ready")
    done = sh(brig, "ls /tmp; cat /proc/*/cmdline | tr '\\0' ' '; kill -9 -1; ls /dev/shm")
    assert mark not in done.text and "file" not in done.text.split()
    assert harness.marked(mark)
    one.terminate()
    harness.finish(one)


THREADS = """
import os, subprocess, threading
def look(task):
    text = open(f"/proc/self/task/{task}/status").read()
    return " ".join(line.split()[1] for line in text.splitlines() if line.split(":")[0] in ("NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapAmb"))
def thread(): print(look(threading.get_native_id()), flush=True)
t = threading.Thread(target=thread); t.start(); t.join()
print(look(os.getpid()), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: print(look(os.getpid()), flush=True)
    else: os.wait()
    os._exit(0)
os.wait()
print(subprocess.run(["sh", "-c", "exec grep -E '^(NoNewPrivs|Seccomp|CapInh|CapPrm|CapEff|CapAmb):' /proc/self/status"], capture_output=True, text=True).stdout.split()[1::2])
"""


def test_no_thread_and_no_descendant_has_privileges(brig):
    none = "0000000000000000"
    done = brig.python(THREADS)
    assert done.text.splitlines()[:3] == [f"{none} {none} {none} {none} 1 2"] * 3, done
    assert done.text.splitlines()[3] == str([none] * 4 + ["1", "2"])


@pytest.mark.parametrize("kind", ["threads", "children", "after exec"])
def test_privileges_are_gone_as_seen_from_outside(brig, kind):
    script = {"threads": "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
              "children": "import os, time; os.fork() and os.fork()",
              "after exec": "import os; print('ready', flush=True); os.execvp('sleep', ['sleep', '60'])"}[kind]
    process = brig.start("run", "--", "python3", "-c", script + "\nimport time; print('ready', flush=True); time.sleep(60)")
    harness.wait_for_line(process, b"ready")
    keeper = harness.keeper_of(process.pid)
    # What was born in the set-up may end while it is looked at.
    count = 3 if kind == "children" else 1
    harness.wait_until(lambda: len(harness.descendants(keeper)) == count, "the program and its children")
    tasks = [(pid, task) for pid in harness.descendants(keeper) for task in os.listdir(f"/proc/{pid}/task")]
    assert tasks
    for pid, task in tasks:
        status = harness.status(f"{pid}/task/{task}")
        assert [int(status[c], 16) for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0] * 4, harness.cmdline(pid)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        if kind != "after exec":
            assert set(status["Uid"].split()) == set(status["Gid"].split()) or not brig.who.is_root
    process.terminate()
    harness.finish(process)


def test_a_setuid_program_gives_nothing(brig):
    programs = [p for p in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newgrp") if os.path.exists(p) and os.stat(p).st_mode & stat.S_ISUID]
    if not programs:
        pytest.skip("no setuid program is installed")
    code = "import os, subprocess, sys\np = subprocess.Popen([sys.argv[1], '--help'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); p.wait(); print(os.statvfs(sys.argv[1]).f_flag & os.ST_NOSUID)"
    for program in programs:
        assert brig.python(code, program).text.strip() == str(os.ST_NOSUID)


# Dry run


def plan(brig, *options, **more):
    done = brig.run("--dry-run", *options, "--", "touch", "canary", **more)
    assert done.code == 0 and done.err == b"", done
    return done.text.splitlines()


@pytest.mark.tier("process", "container")
def test_a_dry_run_prints_every_step_and_does_none(brig):
    """One line for each, who does it in front; the same as a list with --json."""
    options = ["--allow-write", ".", "--memory", "100M", "--pids", "50", "--wall", "10s"]
    before = harness.cgroups()
    text = plan(brig, *options)
    # Those of others come and go; what it had made would stay, and be empty.
    made = {path for path in harness.cgroups() - before if harness.is_empty_cgroup(path)}
    harness.wait_until(lambda: not any(map(harness.is_empty_cgroup, made)), lambda: f"left: {made}")
    done = brig.run("--dry-run", "--json", *options, "--", "touch", "canary")
    said = json.loads(done.out)
    assert said["isolation"] == brig.tier
    assert len(text) == len(said["operations"]) > 5
    for line, op in zip(text, said["operations"]):
        assert line.split()[0] == op["by"].split()[0] and op["operation"] and op["text"]
        if "map ids" not in line:
            assert line.endswith(op["text"])
    assert not (brig.work / "canary").exists() and list(brig.tmp.iterdir()) == []


@pytest.mark.tier("process", "container")
def test_the_stages_of_a_dry_run_are_in_order(brig):
    """The first process comes last, and the program is the last thing that it does."""
    by = [line[:13].strip() for line in plan(brig)]
    assert set(by) <= {"warden", "keeper", "first process"}
    first = by.index("first process")
    assert set(by[first:]) == {"first process"} and "executing" in plan(brig)[-1]
    text = plan(brig)
    at = {word: next(i for i, line in enumerate(text) if word in line) for word in
          ("privileges", "system call filter", "executing")}
    assert at["privileges"] < at["system call filter"] < at["executing"]
    if brig.is_container:
        assert by[0] == "warden" and "namespaces" in text[0]
        order = [next(i for i, line in enumerate(text) if word in line) for word in
                 ("namespaces", "keep mounts from spreading", "make the store", "overlay store:/base", "change to the new root", "allow by Landlock", "nothing of the old root")]
        assert order == sorted(order)


@pytest.mark.tier("process", "container")
def test_a_dry_run_executes_and_mounts_nothing(brig):
    """By what strace sees; what it makes to find something out is gone at the end. The leak check of a sanitizer does not work under it."""
    if not os.path.exists("/usr/bin/strace"):
        pytest.skip("needs strace")
    log = brig.log.parent / "trace"
    env = {"ASAN_OPTIONS": "detect_leaks=0", "LSAN_OPTIONS": "detect_leaks=0"}
    done = brig("run", "--dry-run", "--memory", "100M", "--allow-write", ".", "--", "true", env=env,
                before=["/usr/bin/strace", "-f", "-o", log, "-e", "trace=clone,clone3,fork,vfork,unshare,setns,mount,move_mount,pivot_root,mkdirat,unlinkat,rmdir,execve,seccomp"])
    assert done.code == 0, done
    calls = [line.split(" ", 1)[1].strip() for line in log.read_text().splitlines() if "(" in line]
    # Root needs a user namespace to find out whether a file system can map ids, which a start would refuse.
    made = [c for c in calls if not c.startswith(("mkdirat", "unlinkat", "rmdir", "clone(child_stack=NULL, flags=CLONE_NEWUSER|SIGCHLD)"))]
    assert len(made) == 1 and made[0].startswith("execve"), made
    folders = {re.search(r'"([^"]*)"', c)[1] for c in calls if c.startswith("mkdirat") and c.endswith("= 0")}
    removed = {os.path.basename(re.search(r'"([^"]*)"', c)[1]) for c in calls if c.startswith(("unlinkat", "rmdir"))}
    assert folders <= removed


def test_a_dry_run_refuses_what_a_run_refuses(brig):
    for options in (["--allow-read", "nowhere"], ["--floor", "vm"], ["--export", "."]):
        assert brig.refused("run", "--dry-run", *options, "--", "true") == brig.refused("run", *options, "--", "true")


def test_the_plan_names_what_rules_come_to(brig):
    for name in ("sub", "sub/secret"):
        brig.who.mkdir(brig.work / name)
    text = "\n".join(plan(brig, "--allow-write", ".", "--deny", "sub/secret"))
    assert f"bind {brig.work} on {brig.work}" in text
    assert f"hold {brig.work}/sub, in its place" in text and f"mask {brig.work}/sub/secret" in text


# Operations that fail

# What is made to fail, and a word of the operation that the line must name.
OPERATIONS = [
    ("clone=1", "namespaces"), ("clone=11", "namespaces"), ("clone=28", "namespaces"), ("clone=12", "namespaces"),
    ("mount_private=1", "keep mounts from spreading"), ("mount=1", "make the store"), ("mount=12", "make the store"),
    ("open_tree=1", "bind "), ("open_tree=24", "bind "), ("move_mount=1", "bind "), ("mount_setattr=1", '"'),
    ("mount_setattr=38", '"'), ("pivot_root=1", "new root"), ("pivot_root=22", "new root"), ("umount=1", "old root"),
    ("unshare=1", "namespace"), ("unshare=28", "namespace"), ("landlock_add_rule=22", "Landlock"),
    ("landlock_create_ruleset=22", "Landlock"), ("landlock_restrict_self=7", "Landlock"), ("seccomp=22", "seccomp filters"),
    ("no_new_privs=1", "restriction is refused"),  # the host is asked again, and fails by the same hook
     ("capset=1", "privileges"), ("close_range=38", "closing descriptors"),
]


def host_state():
    """Everything that a sandbox could leave on the host: its own is looked at by the fixture."""
    mounts = {line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines() if "brig" in line}
    run = sorted(os.listdir("/run/brig")) if os.path.isdir("/run/brig") else []
    return mounts, run


@pytest.mark.parametrize("fail,words", OPERATIONS, ids=[o[0] for o in OPERATIONS])
def test_an_operation_that_fails_is_named_and_leaves_nothing(brig, hooks, fail, words):
    out = brig.who.mkdir(brig.work / "out")
    brig.run("--", "true")  # /run/brig is there from the first sandbox of root on
    before = host_state()
    options = ["--isolation", "container", "--memory", "200M", "--allow-write", out, "--", "touch", out / "canary"]
    said = brig.refused("run", *options, env={"BRIG_TEST_FAIL": fail})
    # For root the warden maps ids of trees before there is a plan: then the reason has to be there.
    assert words in said or (brig.who.is_root and os.strerror(int(fail.split("=")[1])) in said), said
    assert not (out / "canary").exists() and list(out.iterdir()) == []
    assert host_state() == before
    assert list(brig.tmp.iterdir()) == [] and list(brig.home.iterdir()) == []


@pytest.mark.parametrize("fail", ["landlock_create_ruleset=38", "landlock_restrict_self=1", "seccomp=38", "landlock_abi=38", "landlock_abi=1"])
def test_no_weaker_tier_is_promised_that_cannot_start_either(brig, hooks, fail):
    """Without Landlock or seccomp no tier is left: one line about that, and none about a tier that would be taken."""
    said = brig.refused("run", "--", "touch", brig.tmp / "canary", env={"BRIG_TEST_FAIL": fail})
    assert "instead of" not in said
    assert not (brig.tmp / "canary").exists()


@pytest.mark.parametrize("feature,fail", [("userns", "clone=1"), ("mountns", "mount_private=1"), ("netns", "unshare=1"),
                                          ("overlay", "mount=19"), ("procfs", "mount=1")])
def test_a_host_that_lacks_something_falls_back_in_words_or_refuses(brig, hooks, feature, fail):
    env = {"BRIG_TEST_FAIL": f"host_{feature}=1,{fail}"}
    done = brig.run("--", "echo", "ran", env=env)
    assert (done.code, done.out) == (0, b"ran\n"), done
    assert done.error.startswith("brig: process tier instead of container: ") and done.error.count("\n") == 1
    said = brig.refused("run", "--isolation", "container", "--", "touch", brig.tmp / "canary", env=env)
    assert "container tier needs" in said
    assert "container" in brig.refused("run", "--floor", "container", "--", "true", env=env)
    result = brig.json("--", "true", env=env)
    assert result["isolation"] == "process"


def test_the_landlock_of_old_kernels_is_refused_in_words_and_known_to_doctor(brig, hooks):
    """What a run refuses, doctor must not call ready; and the line says which kernel would do."""
    env = {"BRIG_TEST_FAIL": "landlock_abi=1"}
    report = json.loads(brig("doctor", "--json", env=env).out)
    assert next(t for t in report["tiers"] if t["tier"] == "container")["state"] != "ready"
    assert "kernel" in brig.refused("run", "--isolation", "container", "--", "true", env=env)


# Names


@pytest.mark.parametrize("length", [200, 255])
def test_long_names_and_deep_folders_work(brig, length):
    deep = brig.work / "deep"
    path = "/".join(["x" * length] * 8)
    subprocess.run([*brig.who.prefix(), "mkdir", "-p", deep / path], check=True)
    assert brig.run("--allow-write", deep / path, "--", "touch", deep / path / "made", cwd=deep / path).code == 0
    assert (deep / path / "made").exists()


def test_names_that_are_too_long_are_one_line(brig):
    for flag in ("--allow-read", "--allow-write", "--deny", "--overlay", "--image"):
        for path in ("/" + "x" * 300, "/" + "x/" * 2100, "x" * 5000):
            done = brig("run", flag, path, "--", "true")
            assert done.code == 125 and done.error.count("\n") == 1 or (flag, done.code) == ("--deny", 0), (flag, done)


@pytest.mark.parametrize("name", ["a b", "a\nb", "a\\b", "a\tb", "a,b", "a:b", "ä漢", "a#b", "'\"$(x)"], ids=ascii)
def test_odd_names_work_as_rules(brig, name):
    """Overlay options, mountinfo and the plan have characters of their own; a name may have them too."""
    folder = brig.who.mkdir(brig.work / name)
    brig.who.write(folder / "file", "x")
    assert brig.run("--allow-write", folder, "--", "sh", "-c", "cat file; echo y > new", cwd=folder).out == b"x"
    assert (folder / "new").read_text() == "y\n"
    done = brig.run("--overlay", folder, "--diff", "--", "sh", "-c", "echo z > over", cwd=folder)
    assert (done.code, done.out) == (0, b"A over\n"), done
    assert not (folder / "over").exists()
