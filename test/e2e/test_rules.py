"""Rules that lie in each other: the nearest one decides, also for what does not exist yet. In the container by mounts, in the
process tier by what Landlock does not grant and the keeper carries out."""

import os
import subprocess

import pytest

pytestmark = pytest.mark.tier("process", "container")


def policy(brig, rules):
    brig.who.write(brig.folder / "p.yaml", "version: 1\nextends: [base]\nfs:\n" + "".join(f'  "{p}": {a}\n' for p, a in rules.items()))
    return ["--policy", brig.folder / "p.yaml"]


def make(brig, *names):
    """Folders end in a slash; every file holds its own name."""
    for name in names:
        path = brig.work / name
        missing = [p for p in reversed(path.parents) if not p.exists()]
        for parent in missing:
            brig.who.mkdir(parent)
        if name.endswith("/"):
            if not path.exists():
                brig.who.mkdir(path)
        else:
            brig.who.write(path, name)


# What a path allows, told by errno from inside.
LOOK = """
import errno, os, sys
def attempt(call):
    try: call()
    except OSError as e: return errno.errorcode[e.errno]
    return "ok"
def list_(p): os.listdir(p) if os.path.isdir(p) else open(p).read()
def write(p):
    if os.path.isdir(p):
        os.close(os.open(p + "/.made", os.O_CREAT | os.O_WRONLY)); os.unlink(p + "/.made")
    else:
        os.close(os.open(p, os.O_WRONLY))
for p in sys.argv[1:]:
    r, w = attempt(lambda: list_(p)), attempt(lambda: write(p))
    if r == "ok" and os.path.isdir(p) and not {"file", "f"} & set(os.listdir(p)): print(p, "way")  # a folder of ours, with what is open in it
    else: print(p, "write" if (r, w) == ("ok", "ok") else "read" if r == "ok" and w in ("EROFS", "EACCES", "EPERM") else "none" if r in ("EACCES", "ENOENT", "EPERM") else (r, w))
"""


def look(brig, options, *paths):
    done = brig.python(LOOK, *paths, options=options)
    assert done.code == 0, done.error
    return dict(line.split(" ", 1) for line in done.text.splitlines())


NESTINGS = {
    "narrower and narrower": {".": "write", "a": "read", "a/b": "none"},
    "wider and wider": {".": "none", "a": "read", "a/b": "write"},
    "read, write, read": {".": "read", "a": "write", "a/b": "read", "a/b/c": "write"},
    "write, none, read, write": {".": "write", "a": "none", "a/b": "read", "a/b/c": "write"},
    "none in the middle": {".": "read", "a": "none", "a/b": "write", "a/b/c": "none"},
    "siblings": {".": "write", "a": "none", "d": "read", "a/b": "read"},
    "deep without rules between": {".": "write", "a/b/c": "none", "d/e": "read"},
    "the same again": {".": "write", "a": "write", "a/b": "read", "a/b/c": "read"},
    "files": {".": "write", "a/file": "read", "a/b/file": "none", "d/file": "read"},
    "files in what is closed": {".": "none", "a/file": "read", "a/b/file": "write"},
    "a file in what is hidden": {".": "write", "a": "none", "a/b/file": "read", "a/file": "write"},
    "write in read in none": {".": "none", "a": "none", "a/b": "read", "a/b/file": "write"},
    "all four": {".": "write", "a": "read", "a/b": "none", "a/b/c": "write", "d": "none", "d/file": "read"},
}
PATHS = ["a", "a/file", "a/b", "a/b/file", "a/b/c", "a/b/c/file", "d", "d/file", "d/e", "d/e/file", "file"]


def nearest(rules, path):
    while path and path not in rules:
        path = os.path.dirname(path)
    return rules.get(path or ".", "none")


@pytest.mark.parametrize("name", NESTINGS)
def test_the_nearest_rule_decides(brig, name):
    make(brig, *[p if "file" in p else p + "/" for p in PATHS])
    rules = NESTINGS[name]
    options = policy(brig, rules)
    brig.who.write(brig.work / "a" / "hidden", "x")
    found = look(brig, options, *[str(brig.work / p) for p in PATHS])
    expected = {str(brig.work / p): nearest(rules, p) for p in PATHS}
    # A closed folder with something open inside is one of ours, which leads there and shows nothing else.
    own = {p for p, access in expected.items() if access == "none" and os.path.isdir(p)}
    assert {p: a for p, a in found.items() if p not in own} == {p: a for p, a in expected.items() if p not in own}
    for path in own:
        shown = brig.run(*options, "--", "ls", "-A", path).text.split()
        assert not [n for n in shown if not any((path + "/" + n + "/").startswith(f"{brig.work}/{r}/") or
                                                f"{brig.work}/{r}/".startswith(path + "/" + n + "/") for r, a in rules.items() if a != "none")]
    assert not (brig.work / "a" / ".made").exists()
    for path in PATHS:
        if "file" in path:
            assert (brig.work / path).read_text() == path


def test_the_example_of_an_agent(brig):
    make(brig, ".git/hooks/pre-commit", ".git/config", "secret/key", "secret/public/doc", "src/main.c", "log")
    options = policy(brig, {".": "write", ".git/hooks": "read", "secret": "none", "secret/public": "read", "log": "read", "src": "write"})
    script = ("cat .git/hooks/pre-commit secret/public/doc log src/main.c; echo; echo x > .git/hooks/pre-commit; echo x > .git/hooks/new; echo x > log; rm -f log;"
              "cat secret/key; ls secret; echo y > secret/public/doc; echo z > secret/new; echo w > src/main.c; echo w > new; echo w >> .git/config;"
              "rm -rf secret .git/hooks; chmod 777 .git/hooks log; ln src/main.c .git/hooks/l; true")
    done = brig.run(*options, "--", "sh", "-c", script)
    assert done.text.splitlines() == [".git/hooks/pre-commitsecret/public/doclogsrc/main.c"], done
    assert (brig.work / ".git/hooks/pre-commit").read_text() == ".git/hooks/pre-commit"
    assert os.listdir(brig.work / ".git/hooks") == ["pre-commit"]
    assert (brig.work / "log").read_text() == "log" and (brig.work / "secret/key").read_text() == "secret/key"
    assert (brig.work / "secret/public/doc").read_text() == "secret/public/doc" and sorted(os.listdir(brig.work / "secret")) == ["key", "public"]
    assert (brig.work / "src/main.c").read_text() == "w\n" and (brig.work / "new").read_text() == "w\n"
    assert (brig.work / ".git/config").read_text().endswith("w\n")


def errors(brig, options, *statements):
    """The names of the errno that Python statements end with; "ok" for none."""
    code = "import errno, os, sys, socket\n" + "".join(
        f"try:\n    {s}\n    print('ok')\nexcept OSError as e: print(errno.errorcode[e.errno])\n" for s in statements)
    done = brig.python(code, options=options)
    assert done.code == 0, done.error
    return done.text.split()


def test_what_is_hidden_is_closed_and_what_is_protected_read_only(brig):
    make(brig, "secret/key", "file", "ro/f")
    options = policy(brig, {".": "write", "secret": "none", "file": "none", "ro": "read"})
    got = errors(brig, options, "os.listdir('secret')", "open('secret/key')", "open('secret/new', 'w')", "open('file')", "open('file', 'w')",
                 "os.mkdir('secret/d')", "open('ro/f', 'w')", "os.unlink('ro/f')", "os.mkdir('ro/d')", "os.chmod('ro/f', 0o777)", "open('ro/f')")
    assert got[4] in ("EACCES", "EROFS") and got[:4] + got[5:6] == ["EACCES"] * 5 and set(got[6:9]) <= {"EROFS", "EACCES"} and got[10] == "ok", got
    assert got[9] in ("EROFS", "EPERM"), got


def test_the_parent_of_a_protected_path_cannot_be_renamed_away(brig):
    """Else another could be put in its place: mv .git x; mkdir -p .git/hooks."""
    make(brig, "a/b/c/hooks/f", "a/b/other", "x/")
    options = policy(brig, {".": "write", "a/b/c/hooks": "read"})
    got = errors(brig, options, "os.rename('a', 'z')", "os.rename('a/b', 'z')", "os.rename('a/b/c', 'z')", "os.rename('a/b/c/hooks', 'z')",
                 "os.rename('x', 'a/b/c/hooks')", "os.rmdir('a/b/c/hooks')", "os.rename('a/b/other', 'a/b/c/moved')", "os.rename('x', 'y')")
    assert got[0] == "EBUSY" and set(got[1:3]) <= {"EBUSY", "EXDEV"} and set(got[3:6]) <= {"EBUSY", "EROFS", "EACCES", "EXDEV", "ENOTEMPTY"}, got
    # In a container each of them is a mount point by now, so between two of them a name does not move either.
    assert got[6:] == ["EXDEV" if brig.tier == "container" else "ok", "ok"], got
    assert (brig.work / "a/b/c/hooks/f").exists() and not (brig.work / "z").exists()


def test_exchanging_a_protected_path_is_refused(brig):
    make(brig, "a/hooks/f", "evil/hooks/g")
    options = policy(brig, {".": "write", "a/hooks": "read"})
    code = ("import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "for one, two in ((b'a', b'evil'), (b'a/hooks', b'evil/hooks'), (b'evil', b'a')):\n"
            "  r = libc.syscall(316, -100, one, -100, two, 2); print(errno.errorcode[ctypes.get_errno()] if r else 'ok')\n")
    done = brig.python(code, options=options)
    assert "ok" not in done.text.split() and len(done.text.split()) == 3, done
    assert (brig.work / "a/hooks/f").exists()


# Names that are not there yet


GUARDS = [
    "os.mkdir('.git/hooks')", "os.makedirs('.git/hooks/x')", "open('.git/hooks', 'w')", "os.symlink('evil', '.git/hooks')",
    "os.link('file', '.git/hooks')", "os.mkfifo('.git/hooks')", "os.rename('evil', '.git/hooks')", "os.rename('file', '.git/hooks')",
    "os.replace('evil', '.git/hooks')", pytest.param("socket.socket(socket.AF_UNIX).bind('.git/hooks')", marks=pytest.mark.xfail(
        reason="bind can leave a socket at a guarded name (docs/container.md)", strict=True)), "os.mkdir('.git/./hooks')",
    "os.mkdir('x/../.git/hooks')", "os.chdir('.git') or os.mkdir('hooks')", "os.mkdir('hooks', dir_fd=os.open('.git', os.O_RDONLY))",
    "os.open('.git/hooks', os.O_CREAT | os.O_RDONLY)", "os.mkdir('/proc/self/cwd/.git/hooks')", "os.mkdir('link/hooks')",
    "os.mknod('.git/hooks')", "os.mkdir(b'.git//hooks/')",
]


@pytest.mark.parametrize("call", GUARDS)
def test_a_protected_name_cannot_appear(brig, call):
    make(brig, ".git/", "evil/f", "x/", "file")
    (brig.work / "link").symlink_to(".git")
    got = errors(brig, policy(brig, {".": "write", ".git/hooks": "read"}), call)
    assert got == ["EACCES"], got
    assert not os.path.lexists(brig.work / ".git/hooks")


def test_a_protected_name_cannot_come_with_its_parent(brig):
    """The folder above is not there either: it may be made, empty; not brought along."""
    make(brig, "evil/hooks/f", "file")
    options = policy(brig, {".": "write", ".git/hooks": "read"})
    got = errors(brig, options, "os.rename('evil', '.git')", "os.symlink('evil', '.git')", "os.mkdir('.git')", "os.rename('evil/hooks', '.git/hooks')",
                 "os.mkdir('.git/hooks')", "os.mkdir('.git/objects')", "open('.git/HEAD', 'w')")
    assert got == ["EACCES", "EACCES", "ok", "EACCES", "EACCES", "ok", "ok"], got
    assert sorted(os.listdir(brig.work / ".git")) == ["HEAD", "objects"] and (brig.work / "evil/hooks/f").exists()


def test_other_names_are_made_as_always(brig):
    make(brig, ".git/", "d/")
    options = policy(brig, {".": "write", ".git/hooks": "read", ".envrc": "none"})
    got = errors(brig, options, "os.mkdir('hooks')", "os.mkdir('d/.git')", "os.mkdir('d/.git/hooks')", "open('.git/config', 'w')", "os.rename('d', 'e')",
                 "os.symlink('x', 'y')", "os.link('.git/config', '.git/z')", "os.mkfifo('p')", "open('.envrc', 'w')", "os.mkdir('.envrc')", "open('d2', 'x')", "open('d2', 'x')")
    assert got == ["ok"] * 8 + ["EACCES", "EACCES", "ok", "EEXIST"], got


def test_many_names_are_made_under_a_guard(brig):
    """Every one of them waits for the keeper: modes, umask and errors must be those of the kernel."""
    code = """
import os, stat, threading
os.umask(0o027)
def work(k):
    for i in range(100):
        with open(f"f{k}-{i}", "w") as f: f.write("x")
        os.mkdir(f"d{k}-{i}", 0o777); os.rename(f"f{k}-{i}", f"d{k}-{i}/g")
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(os.listdir(".")), oct(stat.S_IMODE(os.stat("d0-0").st_mode)), oct(stat.S_IMODE(os.stat("d0-0/g").st_mode)))
"""
    done = brig.python(code, options=policy(brig, {".": "write", ".git/hooks": "read"}))
    assert done.text == "400 0o750 0o640\n", done


# The shipped policy for agents


def git(brig, script, *options):
    env = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=a@b; "
    return brig.run("--policy", "agent", *options, "--", "sh", "-ec", env + script)


def test_the_agent_policy_works_in_a_git_work_tree(brig):
    subprocess.run([*brig.who.prefix(), "git", "init", "-q", "-b", "main", brig.work], check=True, env=brig.env())
    brig.who.write(brig.work / "f", "x\n")
    done = git(brig, "git add f; git commit -qm one; echo y > f; git commit -qam two; git checkout -q -b side; git log --format=%s; git status --short; git stash list")
    assert (done.code, done.text.split()) == (0, ["two", "one"]), done
    for script in ("echo evil > .git/hooks/pre-commit", "git config core.hooksPath evil", "echo x > .git/config", "echo x > .envrc", "mkdir .vscode",
                   "echo x > .gitmodules", "mv .git git2", "rm -rf .git/hooks", "echo x > .brig.yaml", "mkdir .idea"):
        assert git(brig, script).code != 0, script
    log = subprocess.run([*brig.who.prefix(), "git", "log", "--format=%s"], cwd=brig.work, env=brig.env(), capture_output=True, text=True)
    assert log.stdout.split() == ["two", "one"]
    assert not (brig.work / ".envrc").exists() and not (brig.work / ".vscode").exists() and not (brig.work / ".git/hooks/pre-commit").exists()


def test_the_agent_policy_works_where_there_is_no_repository(brig):
    done = git(brig, "echo x > f; mkdir d; cat f")
    assert (done.code, done.out) == (0, b"x\n"), done
    assert git(brig, "mkdir -p .git/hooks").code != 0
    assert not (brig.work / ".git" / "hooks").exists()


def test_git_makes_repositories_elsewhere_under_the_agent_policy(brig):
    done = git(brig, "git init -q -b main sub; cd sub; echo x > f; git add f; git commit -qm one; git log --format=%s; git worktree add -q ../tree -b side; ls ../tree")
    assert (done.code, done.text.split()) == (0, ["one", "f"]), done


# Rules for odd places


def test_a_rule_for_the_root_shows_the_host_and_hides_what_others_hide(brig):
    brig.who.write(brig.folder / "seen", "seen")
    ssh = brig.who.mkdir(brig.home / ".ssh")
    brig.who.write(ssh / "key", "KEY")
    done = brig.run("--allow-read", "/", "--", "sh", "-c", f"cat {brig.folder}/seen; cat {ssh}/key; echo x > {brig.folder}/new; cat /proc/self/comm")
    assert done.text == "seencat\n", done
    assert not (brig.folder / "new").exists()


@pytest.mark.tier("container")
def test_rules_for_what_a_container_has_of_its_own_open_nothing(brig):
    done = brig.run("--allow-write", "/proc", "--allow-write", "/dev", "--allow-read", "/sys", "--", "sh", "-c",
                    "ls /proc | grep -c '^[0-9]'; ls /dev | grep -c 'vda\\|mem\\|kvm'; (echo 1 > /proc/sys/vm/drop_caches) 2>/dev/null && echo wrote; true")
    assert done.code == 0, done
    assert int(done.text.split()[0]) < 8 and done.text.split()[1] == "0" and "wrote" not in done.text


def test_a_rule_for_a_file_of_etc_shows_the_hosts(brig):
    done = brig.run("--allow-read", "/etc/passwd", "--", "cat", "/etc/passwd")
    assert done.text == open("/etc/passwd").read()


def test_two_hundred_rules(brig):
    names = [f"d{i}/sub{k}" for i in range(20) for k in range(10)]
    make(brig, *[n + "/f" for n in names])
    options = policy(brig, {".": "write", **{n: ("read", "none")[i % 2] for i, n in enumerate(names)}})
    found = look(brig, options, *[str(brig.work / n) for n in names])
    assert list(found.values()) == ["read", "none"] * 100


def test_rules_that_lie_in_each_other_seventy_deep(brig):
    """More than a plan can hold is refused in words, not cut off."""
    rules, path = {".": "write"}, ""
    for i in range(70):
        path += f"d{i}/"
        rules[path.rstrip("/")] = ("read", "write")[i % 2]
    make(brig, path)
    done = brig.run(*policy(brig, rules), "--", "true")
    assert done.code == 0 or (done.code == 125 and done.error.count("\n") == 1 and "rules" in done.error), done


def test_a_mount_of_the_host_inside_a_tree_is_as_read_only_as_the_tree(brig):
    """A rule is for all that is mounted below, too."""
    if not brig.who.is_root:
        pytest.skip("needs root to mount")
    make(brig, "tree/mounted/")
    point = brig.work / "tree/mounted"
    subprocess.run(["mount", "-t", "tmpfs", "x", point], check=True)
    try:
        (point / "f").write_text("x")
        done = brig.run("--", "sh", "-c", "cat tree/mounted/f; echo y > tree/mounted/f; touch tree/mounted/g")
        assert done.out == b"x" and os.listdir(point) == ["f"] and (point / "f").read_text() == "x"
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.mark.tier("container")
def test_what_a_container_has_of_its_own_can_be_hidden(brig):
    script = "cat /proc/meminfo; echo x > /dev/full; cat /proc/version > /dev/null && echo over"
    done = brig.run(*policy(brig, {"/proc/meminfo": "none", "/dev/full": "none"}), "--", "sh", "-c", script)
    assert done.text.endswith("over\n") and "MemTotal" not in done.text and "No space" not in done.error, done
    assert "meminfo: Permission denied" in done.error and "cannot create /dev/full: Read-only" in done.error, done
    for path in ("/proc", "/dev"):
        done = brig.run(*policy(brig, {path: "none"}), "--", "true")
        assert done.code == 125 and done.error.count("\n") == 1 and "no program runs without it" in done.error, done
