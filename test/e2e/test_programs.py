"""Everyday programs, unchanged."""

import os
import shutil

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
    """Its semaphores live in /dev/shm, which belongs to all; a person can open it by name."""
    code = "import concurrent.futures as f\nwith f.ProcessPoolExecutor(2) as p: print(sum(p.map(abs, range(-5, 0))))"
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


def test_java(brig):
    need("java", "javac")
    brig.who.write(brig.work / "A.java", 'public class A { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join(); } }')
    assert sh(brig, "javac -J-Xmx200m A.java && java -Xmx200m A") == "thread\n"


def test_go(brig):
    go = shutil.which("go", path=harness.PATH + ":/usr/local/go/bin")
    if not go:
        pytest.skip("go is not installed")
    brig.who.write(brig.work / "a.go", 'package main\nimport "os"\nfunc main() { c := make(chan string); go func() { c <- "42\\n" }(); os.Stdout.WriteString(<-c) }\n')
    text = sh(brig, f"GOFLAGS=-mod=mod GOCACHE=$TMPDIR/cache GOTOOLCHAIN=local {go} build -o a a.go; ./a")
    assert text == "42\n"


def test_a_program_under_gdb_or_strace_needs_its_extension(brig):
    need("strace")
    assert brig.run("--", "strace", "-o", "/dev/null", "true").code != 0
    assert brig.run("--allow", "debug", "--", "strace", "-o", "/dev/null", "sh", "-c", "exit 5").code == 5
