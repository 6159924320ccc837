"""A narrower rule inside a wider one, on the process tier: what the keeper carries out must be what the kernel would have done.

test_rules.py has what the rules mean, in both tiers; here are the calls. The yardstick is the same program under the same
policy without the narrower rule, where Landlock grants the tree and the kernel does everything by itself.
"""

import json
import os
import subprocess
import textwrap

import harness
import pytest

from test_rules import errors, make, policy

pytestmark = pytest.mark.tier("process")

NARROWER = {"read": {".git/hooks": "read"}, "none": {".git/hooks": "read", "secret": "none"}, "absent": {"later/on": "none"}}

PROLOGUE = """
import errno, fcntl, json, os, resource, socket, stat, sys, threading
results = []
def said(call, *args, **kw):
    try: r = call(*args, **kw)
    except OSError as e: r = errno.errorcode[e.errno]
    results.append(r if isinstance(r, (int, str, list, type(None), bool)) else str(r))
    return r
def mode(p): return oct(os.lstat(p).st_mode)
def opened(path, flags, m=0o666, keep=False, **kw):
    fd = said(lambda: os.open(path, flags, m, **kw)) if keep else None
    if keep: results.pop(); return fd
    try: fd = os.open(path, flags, m, **kw)
    except OSError as e: results.append(errno.errorcode[e.errno]); return
    known = os.O_APPEND | os.O_NONBLOCK | os.O_ACCMODE | os.O_DIRECTORY | os.O_SYNC
    results.append([fcntl.fcntl(fd, fcntl.F_GETFL) & known, fcntl.fcntl(fd, fcntl.F_GETFD), oct(os.fstat(fd).st_mode), os.fstat(fd).st_size])
    os.close(fd)
O = os
"""

SCRIPTS = {
    "opening": """
os.umask(0o027)
opened("new", O.O_CREAT | O.O_WRONLY); said(mode, "new")
opened("new", O.O_CREAT | O.O_WRONLY | O.O_EXCL); opened("new", O.O_RDWR | O.O_APPEND); opened("new", O.O_WRONLY | O.O_DIRECTORY)
open("new", "w").write("12345"); opened("new", O.O_WRONLY); opened("new", O.O_RDONLY | O.O_TRUNC); opened("new/", O.O_WRONLY); opened("absent/", O.O_CREAT | O.O_WRONLY)
opened("absent", O.O_WRONLY); opened("absent/x", O.O_CREAT | O.O_WRONLY); opened("new/x", O.O_CREAT | O.O_WRONLY)
opened("d", O.O_RDONLY); opened("d", O.O_RDONLY | O.O_DIRECTORY); opened("d", O.O_WRONLY); opened("d", O.O_CREAT | O.O_RDONLY); opened("d/", O.O_RDONLY); opened("d/", O.O_CREAT)
opened(".", O.O_RDONLY); opened("..", O.O_WRONLY); opened(".", O.O_CREAT); opened("", O.O_WRONLY); opened("/", O.O_WRONLY)
opened("ro", O.O_WRONLY | O.O_CREAT, 0o444); said(mode, "ro"); opened("x", O.O_CREAT | O.O_WRONLY, 0o4755); opened("x", O.O_CREAT | O.O_WRONLY, 0o1777); said(mode, "x")
opened("x" * 255, O.O_CREAT | O.O_WRONLY); opened("x" * 256, O.O_CREAT | O.O_WRONLY); opened("sync", O.O_CREAT | O.O_WRONLY | O.O_SYNC)
opened("nb", O.O_CREAT | O.O_WRONLY | O.O_NONBLOCK); opened("new", O.O_WRONLY | O.O_NONBLOCK); opened("new", O.O_PATH); opened("new", 3)
""",
    "links": """
os.symlink("target", "dangling"); opened("dangling", O.O_WRONLY); opened("dangling", O.O_WRONLY | O.O_CREAT | O.O_EXCL)
opened("dangling", O.O_WRONLY | O.O_CREAT | O.O_NOFOLLOW); opened("dangling", O.O_WRONLY | O.O_CREAT); said(mode, "target")
os.symlink(os.getcwd() + "/d", "absolute"); opened("absolute/f", O.O_CREAT | O.O_WRONLY); said(os.listdir, "absolute"); opened("absolute", O.O_WRONLY); opened("absolute/", O.O_RDONLY)
os.symlink("one", "two"); os.symlink("two", "one"); opened("one", O.O_WRONLY | O.O_CREAT); said(os.mkdir, "one/x")
os.symlink("d/../d/./f", "winding"); opened("winding", O.O_RDWR); opened("winding", O.O_WRONLY | O.O_NOFOLLOW)
said(os.unlink, "winding"); said(os.path.exists, "d/f"); said(os.mkdir, "absolute"); said(os.mkdir, "dangling"); said(os.rmdir, "absolute"); said(os.rename, "absolute", "moved"); said(os.readlink, "moved") and None
results.pop()
said(os.symlink, "", "empty"); said(os.symlink, "x", "d"); said(os.symlink, "x", "new/"); said(os.symlink, "/etc/passwd", "out"); opened("out", O.O_WRONLY); opened("out", O.O_RDONLY)
""",
    "names": """
os.umask(0o022)
said(os.mkdir, "a", 0o777); said(mode, "a"); said(os.mkdir, "a"); said(os.mkdir, "b/c"); said(os.mkdir, "s/"); said(os.mkdir, "t", 0o4777); said(mode, "t"); said(os.mkdir, "."); said(os.mkdir, "..")
said(os.rmdir, "d"); os.mkdir("d"); open("d/f", "w").close(); said(os.rmdir, "d"); said(os.unlink, "d"); said(os.rmdir, "d/f"); said(os.unlink, "d/f/"); said(os.unlink, "absent"); said(os.rmdir, "."); said(os.rmdir, "a/..")
said(os.rename, "a", "a2"); said(os.rename, "absent", "x"); said(os.rename, "d/f", "a2/f"); said(os.rename, "a2", "a2/in"); said(os.rename, "a2/f", "t"); said(os.rename, "t", "a2/f"); said(os.rename, "a2/", "a3/"); said(os.rename, ".", "x")
open("f", "w").write("f"); said(os.link, "f", "g"); said(lambda: os.stat("g").st_nlink); said(os.link, "f", "g"); said(os.link, "a3", "h"); said(os.link, "absent", "h"); said(os.link, "f/", "h")
os.symlink("f", "l"); said(os.link, "l", "l2", follow_symlinks=False); said(mode, "l2"); said(os.link, "l", "l3"); said(os.rename, "f", "g"); said(os.unlink, "g"); said(os.path.lexists, "f")
said(os.mkfifo, "p", 0o666); said(mode, "p"); said(os.mkfifo, "p"); said(os.mknod, "n", stat.S_IFREG | 0o640); said(mode, "n"); said(os.mknod, "sock", stat.S_IFSOCK | 0o600); said(os.mknod, "suid", stat.S_IFREG | 0o4755)
said(os.mknod, "dev", stat.S_IFCHR | 0o600, os.makedev(1, 3)); opened("sock", O.O_WRONLY)
said(os.truncate, "n", 100); said(os.path.getsize, "n"); said(os.truncate, "n", 0); said(os.truncate, "d", 0); said(os.truncate, "absent", 0); said(os.truncate, "p", 0)
said(sorted, os.listdir("."))
""",
    "descriptors": """
fd = os.open("d", os.O_RDONLY)
opened("f", O.O_CREAT | O.O_WRONLY, dir_fd=fd); said(os.mkdir, "sub", dir_fd=fd); said(os.unlink, "f", dir_fd=fd); said(os.rename, "sub", "sub2", src_dir_fd=fd, dst_dir_fd=fd); said(os.symlink, "x", "l", dir_fd=fd)
opened("../back", O.O_CREAT | O.O_WRONLY, dir_fd=fd); said(os.path.exists, "back"); said(os.mkdir, "x", dir_fd=99); opened("x", O.O_WRONLY | O.O_CREAT, dir_fd=99)
f = os.open("d/file", os.O_CREAT | os.O_RDWR); said(os.mkdir, "x", dir_fd=f)
for text in (f"/proc/self/fd/{f}", f"/proc/thread-self/fd/{f}", f"/proc/{os.getpid()}/fd/{f}", f"/dev/fd/{f}"):
    opened(text, O.O_WRONLY); opened(text, O.O_WRONLY | O.O_TRUNC | O.O_CREAT); opened(text, O.O_WRONLY | O.O_NOFOLLOW); opened(text, O.O_WRONLY | O.O_CREAT | O.O_EXCL)
said(os.mkdir, f"/proc/self/fd/{fd}/y"); said(os.mkdir, "/proc/self/cwd/z"); said(os.rename, f"/proc/self/fd/{f}", "q"); opened("/proc/self/fd/77", O.O_WRONLY)
opened("/proc/self/comm", O.O_WRONLY); opened("/proc/self/status", O.O_RDONLY); opened("/dev/null", O.O_WRONLY); opened("/dev/null", O.O_WRONLY | O.O_CREAT | O.O_TRUNC); opened("/dev/zero", O.O_RDONLY)
t = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640); said(os.write, t, b"tmp"); said(os.link, f"/proc/self/fd/{t}", "linked"); said(mode, "linked"); opened("d/file", O.O_TMPFILE | O.O_RDWR); opened("d", O.O_TMPFILE | O.O_RDONLY)
opened(".", O.O_TMPFILE | O.O_RDWR, 0o4755); opened("absent", O.O_TMPFILE | O.O_RDWR)
gone = os.open("gone", os.O_CREAT | os.O_RDWR); os.write(gone, b"gone"); os.unlink("gone"); opened(f"/proc/self/fd/{gone}", O.O_RDWR)
os.mkdir("left"); left = os.open("left", os.O_RDONLY); os.rmdir("left"); opened("x", O.O_CREAT | O.O_WRONLY, dir_fd=left); said(os.mkdir, "x", dir_fd=left)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); held = []
try:
    while True: held.append(os.open("d/file", os.O_WRONLY))
except OSError as e: results.append([errno.errorcode[e.errno], len(held)])
""",
    "writing": """
with open("f", "w") as f: f.write("hello"); f.flush(); said(os.ftruncate, f.fileno(), 3); said(os.ftruncate, f.fileno(), 10)
with open("f", "ab") as f: f.seek(0); f.write(b"end")
said(lambda: open("f", "rb").read().hex()); said(os.chmod, "f", 0o600); said(mode, "f"); said(os.utime, "f", (1, 2)); said(lambda: os.stat("f").st_mtime_ns); said(os.setxattr, "f", "user.a", b"x"); said(os.chmod, "f", 0o4755)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
said(os.truncate, "f", 5000); said(os.truncate, "f", 1000); said(os.path.getsize, "f"); said(os.truncate, "f", -1)
import mmap
with open("m", "w+b") as f:
    f.write(b"0" * 100); f.flush()
    m = mmap.mmap(f.fileno(), 100); m[0:3] = b"abc"; m.flush()
said(lambda: open("m").read(3)); import fcntl
with open("m", "r+") as f: said(fcntl.flock, f, fcntl.LOCK_EX); said(os.posix_fallocate, f.fileno(), 0, 200)
""",
}


def play(brig, options, script):
    done = brig.python(PROLOGUE + script + "\nprint(json.dumps(results))", options=options)
    assert done.code == 0, done.error
    return json.loads(done.text)


@pytest.mark.parametrize("narrower", NARROWER)
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_keeper_does_what_the_kernel_would(brig, name, narrower):
    answers = []
    for rules in ({".": "write"}, {".": "write", **NARROWER[narrower]}):
        brig.who.mkdir(brig.work / "d")
        answers.append(play(brig, policy(brig, rules), SCRIPTS[name]))
        subprocess.run(["find", brig.work, "-mindepth", "1", "-delete"], check=True)
    for i, (kernel, keeper) in enumerate(zip(*answers)):
        assert kernel == keeper, f"answer {i}: {kernel} by the kernel, {keeper} by the keeper, before it {answers[1][max(0, i - 3):i]}"
    assert len(answers[0]) == len(answers[1]) > 15


@pytest.mark.parametrize("record", ["all", "writes", "denied", "off"])
def test_it_holds_whatever_is_recorded(brig, record):
    make(brig, ".git/hooks/f", "secret/key")
    options = [*policy(brig, {".": "write", ".git/hooks": "read", "secret": "none"}), "--record", record]
    assert errors(brig, options, "open('new', 'w').close()", "open('.git/hooks/f', 'w')", "open('secret/key')", "open('new')", "os.mkdir('d')", "os.rename('d', 'e')",
                  "os.rename('.git', 'e')", "os.unlink('new')") == ["ok", "EACCES", "EACCES", "ok", "ok", "ok", "EBUSY", "ok"]


def test_every_refusal_names_its_rule(brig):
    make(brig, ".git/hooks/f", "secret/key", "ok")
    options = policy(brig, {".": "write", ".git/hooks": "read", "secret": "none"})
    script = "echo x > .git/hooks/f; cat secret/key; mv .git other; ln .git/hooks/f l; ln -s ok secret; mkdir .git/hooks/d; rm .git/hooks/f; chmod 777 .git/hooks/f; touch -d @1 .git/hooks/f; echo 'exit 0' > prog; chmod 755 prog; ./prog; true"
    told = {(d["action"], os.path.relpath(d["object"], brig.work)): d for d in brig.json(*options, "--", "sh", "-c", script)["denials"] if d["object"].startswith(str(brig.work))}
    line = {".git/hooks": 5, "secret": 6}
    for key, rule in {("write", ".git/hooks/f"): ".git/hooks", ("read", "secret/key"): "secret", ("rename", ".git"): ".git/hooks", ("link", ".git/hooks/f"): ".git/hooks",
                      ("mkdir", ".git/hooks/d"): ".git/hooks", ("remove", ".git/hooks/f"): ".git/hooks", ("chmod", ".git/hooks/f"): ".git/hooks"}.items():
        assert told[key]["rule"]["line"] == line[rule], (key, told.get(key))
    assert "stays in its place" in told[("rename", ".git")]["reason"]
    assert told[("exec", "prog")]["allow_with"] == "--isolation container" and "existed at the start" in told[("exec", "prog")]["reason"]
    assert not [key for key in told if key[1] in ("ok", "l")]


def test_programs_that_were_there_are_executed_and_later_ones_refused(brig):
    """Landlock cannot take "secret" out of what it lets execute: only what existed is granted by itself."""
    make(brig, "secret/key", "sub/", "deep/er/")
    brig.who.write(brig.work / "run", "#!/bin/sh\necho run\n", 0o755)
    brig.who.write(brig.work / "deep/run", "#!/bin/sh\necho deep\n", 0o755)
    brig.who.write(brig.work / "secret/run", "#!/bin/sh\necho hidden\n", 0o755)
    options = policy(brig, {".": "write", "secret": "none", "deep/hidden": "none"})
    done = brig.run(*options, "--", "sh", "-c", "./run; deep/run; secret/run; cp run new; ./new; cp run sub/new; sub/new; cp run deep/er/new; deep/er/new; cp run deep/new; deep/new; cat new | head -1")
    assert done.text.splitlines() == ["run", "deep", "run", "run", "#!/bin/sh"], done


def test_a_fifo_waits_and_does_not_stall_the_keeper(brig):
    code = """
import os, threading, time
os.mkfifo("p")
got = []
def read(): got.append(open("p").read())
t = threading.Thread(target=read); t.start()
time.sleep(0.3)
for i in range(50): open(f"f{i}", "w").close()   # meanwhile the keeper answers others
try: os.open("q", os.O_WRONLY | os.O_NONBLOCK)
except OSError as e: print(e.errno)
with open("p", "w") as f: f.write("through")
t.join(); print(got, len(os.listdir(".")))
os.mkfifo("lonely"); threading.Thread(target=lambda: open("lonely", "w"), daemon=True).start(); time.sleep(0.2)
open("last", "w").close(); print("last", flush=True); os._exit(0)
"""
    for rules in ({".git/hooks": "read"}, {"secret": "none"}):
        done = brig.python(code, options=policy(brig, {".": "write", **rules}))
        assert done.text == "2\n['through'] 51\nlast\n", done
        subprocess.run(["find", brig.work, "-mindepth", "1", "-delete"], check=True)


def test_a_process_that_would_be_undumpable_has_what_it_had(brig):
    make(brig, "secret/key", "f")
    code = ("import ctypes, errno, os\nctypes.CDLL(None).prctl(4, 0)\n"
            "for call in (lambda: open('f', 'w'), lambda: open('secret/key'), lambda: os.mkdir('d'), lambda: open(os.environ['TMPDIR'] + '/x', 'w')):\n"
            "  try: call(); print('ok')\n  except OSError as e: print(errno.errorcode[e.errno])\n")
    assert brig.python(code, options=policy(brig, {".": "write", "secret": "none"})).text.split() == ["ok", "EACCES", "ok", "ok"]


def test_standard_output_can_be_opened_by_name(brig):
    done = brig.run(*policy(brig, {".": "write", "secret": "none"}), "--", "sh", "-c", "echo a > /dev/stderr; echo b > out; exec 3> out2; echo c > /dev/fd/3; cat out out2")
    assert done.text == "b\nc\n" and "a\n" in done.error, done


def test_a_folder_with_a_rule_of_its_own_can_be_made_anew(brig):
    """What Landlock granted was the folder that was there."""
    make(brig, "out/f", "out/sub/f", "secret/key")
    options = policy(brig, {".": "write", "out": "write", "out/sub": "write", "secret": "none"})
    done = brig.run(*options, "--", "sh", "-ec", "rm -rf out/sub; mkdir out/sub; echo a > out/sub/g; rm -rf out; mkdir -p out/sub; echo b > out/g; echo c > out/sub/g; mv out/g out/h; cat out/h out/sub/g")
    assert (done.code, done.text) == (0, "b\nc\n"), done


@pytest.mark.parametrize("record", ["all", "writes", "off"])
def test_it_holds_beside_the_gate(brig, record):
    """There more opens wait, for another reason."""
    make(brig, "ro/f", "secret/key")
    options = [*policy(brig, {".": "write", "ro": "read", "secret": "none"}), "--record", record, "--allow-net", "example.com:443"]
    assert errors(brig, options, "open('new', 'w').close()", "open('ro/f', 'w')", "open('secret/key')", "open('new').close()", "open('/etc/resolv.conf').close()",
                  "os.rename('new', 'ro/new')") == ["ok", "EACCES", "EACCES", "ok", "ok", "EACCES"]


# Links and descriptors between narrow and wide


def test_no_way_leads_around_a_narrower_rule(brig):
    make(brig, "ro/f", "ro/d/", "secret/key", "w/f", "f")
    (brig.work / "w/to-ro").symlink_to("../ro")
    (brig.work / "w/to-secret").symlink_to(brig.work / "secret/key")
    (brig.work / "ro/back").symlink_to("../w")
    (brig.work / "ro/out").symlink_to("../f")
    options = policy(brig, {".": "write", "ro": "read", "secret": "none"})
    got = errors(brig, options, "open('w/to-ro/f', 'w')", "open('w/to-ro/new', 'w')", "open('w/to-secret')", "open('w/../secret/key')", "os.mkdir('x', dir_fd=os.open('ro/d', os.O_RDONLY))",
                 "open(f\"/proc/self/fd/{os.open('ro/f', os.O_RDONLY)}\", 'w')", "open(f\"/proc/self/fd/{os.open('secret/key', os.O_PATH)}\")",
                 "os.open('key', os.O_RDONLY, dir_fd=os.open('secret', os.O_PATH))", "os.chdir('secret') or open('key')", "os.chdir('..')",
                 "os.link('ro/f', 'w/linked')", "os.link('secret/key', 'linked')", "os.rename('secret/key', 'key')", "os.rename('f', 'ro/f')", "os.rename('ro', 'w/ro')",
                 "os.rename('ro/d', 'd')", "os.truncate('ro/f', 0)", "os.truncate('w/to-ro/f', 0)", "os.unlink('ro/f')", "os.chmod('ro/f', 0o666)", "os.utime('secret/key')",
                 "os.open('ro', os.O_TMPFILE | os.O_RDWR)", "os.open('ro/f', os.O_RDONLY | os.O_TRUNC)", "os.symlink('x', 'ro/x')", "os.mkfifo('ro/p')", "os.rmdir('ro/d')")
    assert "ok" not in got[:9] + got[10:] and set(got) <= {"ok", "EACCES", "EPERM", "EBUSY", "EXDEV"}, got
    assert errors(brig, options, "open('ro/back/new', 'w').close()", "open('ro/out', 'w').close()", "open('ro/f')", "os.listdir('ro')", "open('w/../w/f', 'w').close()",
                  "os.link('f', 'w/g')", "os.rename('w/g', 'g')", "open('/proc/self/cwd/h', 'w').close()") == ["ok"] * 8
    assert (brig.work / "ro/f").read_text() == "ro/f" and (brig.work / "secret/key").read_text() == "secret/key" and sorted(os.listdir(brig.work / "ro")) == ["back", "d", "f", "out"]


def test_what_is_hidden_and_appears_later_is_hidden(brig):
    """Made by the host while the sandbox runs."""
    code = "import os, sys, time\nprint('up', flush=True)\nsys.stdin.readline()\n" + "".join(
        f"try: {c}; print('ok')\nexcept OSError as e: print(e.strerror)\n" for c in ("open('secret').read()", "open('sub/secret/key').read()", "open('sub/other').read()", "open('secret', 'w')"))
    brig.who.mkdir(brig.work / "sub")
    with brig.start("run", *policy(brig, {".": "write", "secret": "none", "sub/secret": "none"}), "--", "python3", "-c", code, stdin=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"up\n"
        make(brig, "secret", "sub/secret/key", "sub/other")
        out, _ = p.communicate(b"go\n", timeout=harness.HANG)
    assert out.decode().splitlines() == ["Permission denied", "Permission denied", "ok", "Permission denied"]


def test_a_race_for_the_path_never_gets_inside(brig):
    """A second thread rewrites the path, a third swaps a folder and a link to the narrower one."""
    make(brig, "ro/f", "secret/key", "w/d/", "w/f")
    code = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(b"w/f\\0..........................")
stop = False
def rewrite():
    while not stop:
        for text in (b"w/f\\0", b"ro/f\\0", b"ro/n\\0", b"secret/key\\0", b"w/d/f\\0"): ctypes.memmove(path, text, len(text))
def swap():
    os.symlink("../ro", "w/l")
    while not stop:
        libc.syscall(316, -100, b"w/d", -100, b"w/l", 2)
for t in (rewrite, swap): threading.Thread(target=t, daemon=True).start()
leaks, end, rounds = 0, time.monotonic() + SECONDS, 0
while rounds < 200 or time.monotonic() < end:
    rounds += 1
    fd = libc.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    if fd >= 0:
        leaks += os.readlink(f"/proc/self/fd/{fd}").split("/")[-2] in ("ro", "secret"); os.write(fd, b"evil"); os.close(fd)
    fd = libc.open(path, os.O_RDONLY)
    if fd >= 0: leaks += b"secret/key" in os.read(fd, 100); os.close(fd)
    libc.mkdir(b"w/d/new", 0o755); libc.rmdir(b"w/d/new"); libc.rename(b"w/f", b"w/d/moved"); libc.rename(b"w/d/moved", b"w/f"); libc.truncate(path, 0)
    libc.link(path, b"w/stolen"); libc.unlink(b"w/stolen")
stop = True
print(leaks, rounds)
""".replace("SECONDS", os.environ.get("BRIG_RACE_SECONDS", "5"))
    done = brig.python(code, options=policy(brig, {".": "write", "ro": "read", "secret": "none"}))
    assert done.code == 0 and done.text.split()[0] == "0" and int(done.text.split()[1]) > 100, done
    assert os.listdir(brig.work / "ro") == ["f"] and (brig.work / "ro/f").read_text() == "ro/f" and (brig.work / "secret/key").read_text() == "secret/key"


# Programs


def test_compiling_and_running_beside_protected_hooks(brig):
    make(brig, ".git/hooks/f")
    brig.who.write(brig.work / "main.c", '#include <stdio.h>\nint main(void) { return puts("built") < 0; }\n')
    brig.who.write(brig.work / "Makefile", "main: main.o\n\t$(CC) -o $@ $<\nlib.a: main.o\n\tar rcs $@ $<\n")
    done = brig.run(*policy(brig, {".": "write", ".git/hooks": "read"}), "--", "sh", "-ec", "make -s main lib.a; ./main; strip main; ./main; ls lib.a; rm main main.o lib.a; ls")
    assert (done.code, done.text.split()) == (0, ["built", "built", "lib.a", "Makefile", "main.c"]), done


@pytest.mark.parametrize("narrower", ["read", "none"])
def test_a_tree_as_package_managers_make_it(brig, narrower):
    code = """
import os, shutil, tarfile, tempfile
for i in range(60):
    os.makedirs(f"stage/pkg{i}/lib/deep", exist_ok=True)
    for k in range(4):
        with tempfile.NamedTemporaryFile("w", dir=f"stage/pkg{i}/lib", delete=False) as f: f.write(str(k))
        os.replace(f.name, f"stage/pkg{i}/lib/{k}.js"); os.chmod(f"stage/pkg{i}/lib/{k}.js", 0o755)
    os.symlink("../lib/0.js", f"stage/pkg{i}/bin")
os.rename("stage", "node_modules")
with tarfile.open("t.tar.gz", "w:gz") as t: t.add("node_modules")
with tarfile.open("t.tar.gz") as t: t.extractall("copy")
shutil.copytree("copy", "copy2", symlinks=True); shutil.move("copy2", "copy3"); shutil.rmtree("node_modules"); shutil.rmtree("copy")
print(sum(len(f) for _, _, f in os.walk("copy3")), sorted(os.listdir(".")))
"""
    done = brig.python(code, options=policy(brig, {".": "write", **NARROWER[narrower]}))
    assert done.text == "300 ['copy3', 't.tar.gz']\n", done


def test_git_in_a_fresh_repository(brig):
    env = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=a@b; "
    script = ("git init -q -b main --template= sub; cd sub; echo x > f; git add f; git commit -qm one; git checkout -q -b side; echo y >> f; git commit -qam two; git checkout -q main;"
              "git merge -q side; git gc -q; git stash list; git log --format=%s; cd ..; git clone -q sub clone; ls clone")
    done = brig.run(*policy(brig, {".": "write", ".git/hooks": "read", "secret": "none"}), "--", "sh", "-ec", textwrap.dedent(env + script))
    assert (done.code, done.text.split()) == (0, ["two", "one", "f"]), done


def test_sqlite_keeps_its_journal(brig):
    code = ("import sqlite3\nfor mode in ('delete', 'wal'):\n  c = sqlite3.connect('db'); c.execute(f'pragma journal_mode={mode}'); c.execute('create table if not exists t(x)')\n"
            "  c.executemany('insert into t values (?)', [(i,) for i in range(100)]); c.commit(); print(c.execute('select count(*) from t').fetchone()[0]); c.close()\n")
    assert brig.python(code, options=policy(brig, {".": "write", "secret": "none"})).text.split() == ["100", "200"]
