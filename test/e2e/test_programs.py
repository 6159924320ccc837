"""Everyday programs, unchanged."""

import os
import shutil
import zipfile

import pytest

import harness


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=harness.PATH):
            pytest.skip(f"{program} is not installed")


def sh(brig, script, *options, **more):
    done = brig.run("--allow-write", ".", *options, "--", "bash", "-ec", script, **more)
    assert done.code == 0, done
    return done.text


def test_python_threads_processes_and_pools(brig):
    code = """
import multiprocessing, subprocess, threading, concurrent.futures, tempfile, sqlite3, ssl, json, hashlib, asyncio
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
with concurrent.futures.ThreadPoolExecutor(2) as pool: print(sum(pool.map(abs, range(-5, 0))))
with tempfile.NamedTemporaryFile() as f: f.write(b"x"); print("temporary")
print(asyncio.run(asyncio.sleep(0, "async")))
"""
    done = brig.python(code)
    assert done.text.split() == ["thread", "child", "15", "temporary", "async"], done


def test_a_pool_of_processes_needs_shared_memory(brig):
    """Its semaphores live in /dev/shm. A container has its own; else it belongs to all, and a person can open it by name."""
    code = "import concurrent.futures as f\nwith f.ProcessPoolExecutor(2) as p: print(sum(p.map(abs, range(-5, 0))))"
    if brig.is_container:
        assert brig.python(code).out == b"15\n"
        return
    assert brig.python(code).code == 1
    assert brig.python(code, options=["--allow-write", "/dev/shm"]).out == b"15\n"


def test_sqlite_in_a_file(brig):
    code = """
import sqlite3
for mode in ("delete", "wal"):
    c = sqlite3.connect("data.db"); c.execute(f"pragma journal_mode={mode}")
    c.execute("create table if not exists t(x)"); c.executemany("insert into t values(?)", [(i,) for i in range(100)]); c.commit()
    print(c.execute("select sum(x) from t").fetchone()[0]); c.close()
"""
    assert brig.python(code, options=["--allow-write", "."]).text.split() == ["4950", "9900"]


def test_a_virtual_environment_in_the_private_folder(brig):
    if not os.path.exists("/usr/lib/python3/dist-packages") or not shutil.which("python3", path="/usr/bin"):
        pytest.skip("needs Debian's python3")
    text = sh(brig, "cd $TMPDIR; python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'")
    assert text == "True\n"


def test_bash_pipes_substitutions_and_here_documents(brig):
    text = sh(brig, "set -o pipefail; seq 5 | sort -r | head -1; cat <(echo substituted); cat <<E\nhere\nE\nx=$(date +%Y); [ $x -gt 2000 ]; sleep 0.01 & wait; echo $((2**10))")
    assert text == "5\nsubstituted\nhere\n1024\n"


def test_perl(brig):
    need("perl")
    assert sh(brig, "perl -e 'use POSIX; my $p = fork; if (!$p) { exit 3 } waitpid($p, 0); print $? >> 8, \"\\n\"'") == "3\n"


def test_git_makes_a_repository_and_commits(brig):
    need("git")
    text = sh(brig, "git init -q -b main r; cd r; git config user.email a@b; git config user.name n; echo x > f; git add f; "
              "git commit -qm one; echo y > f; git commit -qam two; git checkout -q -b side HEAD~1; git merge -q main; git gc -q; git fsck; git log --format=%s")
    assert text.split() == ["two", "one"]


def test_git_clones_locally(brig):
    need("git")
    text = sh(brig, "git init -q -b main r; cd r; git -c user.email=a@b -c user.name=n commit -q --allow-empty -m one; cd ..; git clone -q r s; cd s; git log --format=%s")
    assert text == "one\n"


def test_gcc_and_make_build_a_program(brig):
    need("gcc", "make", "ar")
    brig.who.write(brig.work / "a.c", '#include <stdio.h>\nint f(void);\nint main(void) { printf("%d\\n", f()); return 0; }\n')
    brig.who.write(brig.work / "f.c", "int f(void) { return 42; }\n")
    brig.who.write(brig.work / "Makefile", "a: a.o libf.a\n\t$(CC) -o $@ a.o libf.a\nlibf.a: f.o\n\t$(AR) rcs $@ $^\n")
    assert sh(brig, "make -j2 -s CC=gcc; ./a").splitlines()[-1] == "42"


def test_tar_keeps_modes_and_times(brig):
    need("tar", "gzip")
    text = sh(brig, "mkdir -p s/d; echo x > s/d/f; chmod 751 s/d/f; touch -d @1000000000 s/d/f; tar czf a.tgz s; rm -r s; "
              "tar xzf a.tgz; stat -c '%a %Y' s/d/f; cp -a s t; stat -c '%a %Y' t/d/f")
    assert text == "751 1000000000\n" * 2


def test_files_move_and_link_between_folders(brig):
    """Without the copy that mv falls back to."""
    code = "import os\nos.makedirs('a/b'); os.mkdir('c'); os.rename('a/b', 'c/b'); open('a/f', 'w').close(); os.link('a/f', 'c/g'); os.replace('a/f', 'c/g2')"
    done = brig.python(code, options=["--allow-write", "."])
    assert done.code == 0, done.error


def test_find_sort_sed_awk_and_friends(brig):
    brig.who.write(brig.work / "data", "b 2\na 1\nc 3\n")
    text = sh(brig, "sort data | awk '{ s += $2 } END { print s }'; sed -i s/a/z/ data; grep -c z data; find . -type f | wc -l; xargs -n1 < data | wc -l; sha256sum data | wc -w")
    assert text.split() == ["6", "1", "1", "6", "2"]


def test_node(brig):
    need("node")
    code = "const fs = require('fs'), cp = require('child_process'); fs.writeFileSync('out', 'x'); console.log(cp.execSync('echo child').toString().trim()); Promise.resolve('async').then(console.log)"
    brig.who.write(brig.work / "a.js", code)
    assert sh(brig, "node a.js").split() == ["child", "async"]


def test_node_under_a_memory_limit(brig):
    need("node")
    done = brig.run("--memory", "512M", "--", "node", "-e", "console.log('up')")
    assert done.out == b"up\n", done


@pytest.mark.tier("container")
def test_npm_installs_a_local_package(brig):
    need("npm", "node")
    package = brig.who.mkdir(brig.work / "package")
    brig.who.write(package / "package.json", '{ "name": "tiny", "version": "1.0.0", "main": "i.js" }')
    brig.who.write(package / "i.js", "module.exports = () => 42")
    project = brig.who.mkdir(brig.work / "project")
    brig.who.write(project / "package.json", '{ "name": "p", "version": "1.0.0" }')
    text = sh(brig, "cd package; npm pack --silent --offline >/dev/null; cd ../project; npm install --silent --offline --no-audit --no-fund ../package/tiny-1.0.0.tgz; "
              "node -e \"console.log(require('tiny')())\"", timeout=harness.LONG)
    assert text.splitlines()[-1] == "42"


def test_java(brig):
    need("java", "javac")
    brig.who.write(brig.work / "A.java", 'public class A { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join(); } }')
    assert sh(brig, "javac -J-Xmx200m A.java && java -Xmx200m A") == "thread\n"


@pytest.mark.tier("container")
def test_go(brig):
    go = shutil.which("go", path=harness.PATH + ":/usr/local/go/bin")
    if not go:
        pytest.skip("go is not installed")
    brig.who.write(brig.work / "a.go", 'package main\nimport "os"\nfunc main() { c := make(chan string); go func() { c <- "42\\n" }(); os.Stdout.WriteString(<-c) }\n')
    text = sh(brig, f"GOFLAGS=-mod=mod GOPROXY=off GOCACHE=$HOME/cache GOTOOLCHAIN=local {go} build -o a a.go; ./a", timeout=harness.LONG)
    assert text == "42\n"


def test_a_program_under_gdb_or_strace_needs_its_extension(brig):
    need("strace")
    assert brig.run("--", "strace", "-o", "/dev/null", "true").code != 0
    assert brig.run("--allow", "debug", "--", "strace", "-o", "/dev/null", "sh", "-c", "exit 5").code == 5


# What a container gives besides


@pytest.mark.tier("container")
def test_pip_installs_a_local_wheel_into_a_virtual_environment(brig):
    need("python3")
    if not os.path.exists("/usr/lib/python3/dist-packages/pip") and not os.path.isdir("/usr/share/python-wheels"):
        pytest.skip("needs python3-venv")
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(brig.work / name, "w") as wheel:
        wheel.writestr("tiny.py", "def answer(): return 42\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n")
    brig.who.own(brig.work / name)
    text = sh(brig, f"cd; /usr/bin/python3 -m venv v; v/bin/pip install -q --no-index --disable-pip-version-check $OLDPWD/{name}; "
              "v/bin/python -c 'import tiny; print(tiny.answer())'", timeout=harness.LONG)
    assert text == "42\n"


@pytest.mark.tier("container")
def test_git_work_trees(brig):
    need("git")
    text = sh(brig, "git init -q -b main r; cd r; git config user.email a@b; git config user.name n; echo x > f; git add f; git commit -qm one; "
              "git worktree add -q ../w -b side; cd ../w; echo y > f; git commit -qam two; git log --format=%s; git worktree list | wc -l; "
              "git clone -q --bare . ../b.git; git push -q ../b.git side:other; git --git-dir ../b.git branch --list other | wc -l")
    assert text.split() == ["two", "one", "2", "1"]


@pytest.mark.tier("container")
def test_sqlite_shell(brig):
    need("sqlite3")
    assert sh(brig, "sqlite3 a.db 'pragma journal_mode=wal; create table t(x); insert into t values(1),(2); select sum(x) from t'").split() == ["wal", "3"]


@pytest.mark.tier("container")
def test_tmux(brig):
    need("tmux")
    text = sh(brig, "export TERM=xterm; tmux -f /dev/null new-session -d -s s 'echo from inside; tty > ~/t; sleep 600'; "
              "until [ -s ~/t ] && tmux capture-pane -p -t s | grep -q .; do sleep 0.05; done; cat ~/t; tmux capture-pane -p -t s | head -1; tmux kill-server")
    assert text.splitlines() == ["/dev/pts/0", "from inside"]


@pytest.mark.tier("container")
def test_script_records_a_terminal(brig):
    need("script")
    text = sh(brig, "script -qec 'tty; echo typed' /dev/null < /dev/null")
    assert text.split() == ["/dev/pts/0", "typed"]


@pytest.mark.tier("container")
def test_shared_memory_and_semaphores(brig):
    code = """
import ctypes, multiprocessing as m
from multiprocessing import shared_memory
def work(lock, value, name):
    with lock: value.value += 1
    block = shared_memory.SharedMemory(name); block.buf[0] += 1; block.close()
if __name__ == "__main__":
    lock, value = m.Lock(), m.Value("i", 0)
    block = shared_memory.SharedMemory(create=True, size=100)
    for _ in range(4):
        p = m.Process(target=work, args=(lock, value, block.name)); p.start(); p.join()
    print(value.value, block.buf[0]); block.close(); block.unlink()
    q = m.Queue(); p = m.Process(target=q.put, args=("queued",)); p.start(); print(q.get()); p.join()
    libc = ctypes.CDLL(None); i = libc.shmget(0, 4096, 0o1600); print(i >= 0, libc.shmctl(i, 0, None), libc.semget(0, 1, 0o1600) >= 0, libc.msgget(0, 0o1600) >= 0)
"""
    brig.who.write(brig.work / "a.py", code)
    assert brig.run("--", "python3", "a.py").text.splitlines() == ["4 4", "queued", "True 0 True True"]


@pytest.mark.tier("container")
def test_epoll_inotify_memfd_signals_and_timers(brig):
    code = """
import ctypes, mmap, os, select, signal, socket, threading
r, w = os.pipe(); e = select.epoll(); e.register(r, select.EPOLLIN); os.write(w, b"x"); print(len(e.poll(1)))
libc = ctypes.CDLL(None, use_errno=True)
i = libc.inotify_init1(0); print(libc.inotify_add_watch(i, b"/tmp", 0x100) >= 0); open("/tmp/new", "w").close(); print(len(os.read(i, 100)) > 0)
f = os.memfd_create("m"); os.write(f, b"memory"); print(mmap.mmap(f, 6)[:])
print(os.eventfd_read(os.eventfd(3)), libc.timerfd_create(1, 0) >= 0, libc.signalfd(-1, bytes(128), 0) >= 0)
signal.signal(signal.SIGALRM, lambda *a: print("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
a, b = socket.socketpair(); socket.send_fds(a, [b"x"], [f]); print(len(socket.recv_fds(b, 1, 1)[1]))
l = threading.Lock(); [t.start() or t.join() for t in [threading.Thread(target=lambda: l.acquire() and l.release()) for _ in range(20)]]
print(os.readlink("/proc/self/exe").split("/")[-1][:6], int(os.readlink("/proc/self")) == os.getpid(), os.cpu_count() > 0, os.getloadavg() is not None)
"""
    done = brig.python(code)
    assert done.text.splitlines() == ["1", "True", "True", "b'memory'", "3 True True", "alarm", "1", "python True True True"], done


@pytest.mark.tier("container")
def test_a_server_and_its_client_inside(brig):
    code = """
import http.server, threading, urllib.request
s = http.server.ThreadingHTTPServer(("localhost", 8000), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:8000/").status)
"""
    assert brig.python(code).out == b"200\n"


@pytest.mark.tier("container")
def test_a_name_that_cannot_be_resolved_fails_and_does_not_hang(brig):
    code = ("import socket\n"
            "for name in ('example.com', 'no-such-host.invalid', 'api.github.com'):\n"
            "  try: socket.getaddrinfo(name, 443); print('resolved')\n"
            "  except socket.gaierror: print('no')\n"
            "print(socket.gethostbyname('localhost'), socket.gethostbyname(socket.gethostname()))\n")
    done = brig.python(code)
    assert done.text.splitlines() == ["no"] * 3 + ["127.0.0.1 127.0.0.1"], done


@pytest.mark.tier("container")
def test_users_are_looked_up(brig):
    code = ("import getpass, grp, os, pathlib, pwd\n"
            "p = pwd.getpwuid(os.getuid()); print(p.pw_name, p.pw_dir, grp.getgrgid(os.getgid()).gr_name, getpass.getuser(), pathlib.Path.home(), os.path.expanduser('~user'), os.access(p.pw_shell, os.X_OK))")
    assert brig.python(code).text.split() == ["user", "/home/user", "user", "user", "/home/user", "/home/user", "True"]


@pytest.mark.tier("container")
@pytest.mark.parametrize("inner", ["container", "process"])
def test_brig_in_brig(brig, inner):
    """With --allow nested a sandbox can be made inside, and it is only narrower."""
    brig.who.write(brig.work / "mine", "mine")
    brig.who.write(brig.folder / "secret", "SECRET")
    options = ["--allow", "nested", "--allow-read", brig.exe, "--env", "ASAN_OPTIONS=detect_leaks=0"]
    script = f"{brig.exe} run --isolation {inner} --allow-read {brig.folder.parent} --allow-write . -- sh -c 'cat mine; cat {brig.folder}/secret; touch {brig.work}/new; id -u'"
    done = brig.run(*options, "--", "sh", "-c", script)
    assert done.code == 0 and done.text == "mine1000\n", done
    assert not (brig.work / "new").exists()


@pytest.mark.tier("container")
def test_without_the_extension_a_sandbox_inside_is_refused_in_words(brig):
    done = brig.run("--allow-read", brig.exe, "--env", "ASAN_OPTIONS=detect_leaks=0", "--", brig.exe, "run", "--isolation", "container", "--", "true")
    said, *refused = done.error.splitlines()
    assert done.code == 125 and said.startswith("brig: ") and "namespaces" in said, done
    assert all(line.startswith("brig: refused: ") for line in refused), done
    assert [line for line in refused if " syscall clone: " in line and "--allow nested" in line], done
