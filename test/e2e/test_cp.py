"""brig cp, in both directions. Out of a sandbox everything is hostile: what a workload can make is made by one, and what
no init of ours would ever say is said by a warden of the test's own."""

import json
import os
import re
import signal
import stat
import subprocess
import time

import jsonschema
import pexpect
import pytest

import harness
import standin


@pytest.fixture
def sandbox(brig):
    """A sandbox that lives, with a working directory that has nothing to do with the files of a test."""
    place = brig.who.mkdir(brig.folder / "place")
    made = brig("create", cwd=place)
    assert made.code == 0, made
    yield made.text.strip()
    assert brig("kill", made.text.strip()).code == 0


@pytest.fixture
def inside(brig, sandbox):
    """Runs a shell line in the home of the sandbox."""

    def run(line):
        done = brig("exec", sandbox, "--", "sh", "-c", f"cd && {line}")
        assert done.code == 0, done
        return done.text

    return run


def tree(path):
    """What is in a directory: relative path -> (kind, mode, content or target)."""
    found = {}
    for folder, names, files in os.walk(path):
        for name in names + files:
            full = os.path.join(folder, name)
            st = os.lstat(full)
            content = (os.readlink(full) if stat.S_ISLNK(st.st_mode)
                       else open(full, "rb").read() if stat.S_ISREG(st.st_mode) else None)
            found[os.path.relpath(full, path)] = (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), content)
    return found


def make_tree(brig):
    top = brig.who.mkdir(brig.work / "tree")
    sub = brig.who.mkdir(top / "sub")
    brig.who.write(top / "plain", "one")
    brig.who.write(top / "program", "#!/bin/sh\n", 0o755)
    brig.who.write(sub / "deep ünd\nodd", b"\0\xff" * 1000, 0o600)
    brig.who.write(sub / "empty")
    brig.who.mkdir(sub / "closed")
    os.symlink("../plain", sub / "link")
    brig.who.own(sub / "link")
    (sub / "closed").chmod(0o555)
    for path in (top / "plain", sub):
        os.utime(path, (1, 981173106.5))
    return top


def test_a_tree_goes_in_and_comes_out_the_same(brig, sandbox):
    top = make_tree(brig)
    assert brig("cp", top, f"{sandbox}:") == harness.Done(0, b"", b"")
    assert brig("cp", f"{sandbox}:tree", "back") == harness.Done(0, b"", b"")
    assert tree(brig.work / "back") == tree(top)
    for path in ("plain", "sub"):
        assert os.stat(brig.work / "back" / path).st_mtime == 981173106.5


def test_the_destination_decides_about_the_name_as_with_cp(brig, sandbox, inside):
    brig.who.write(brig.work / "a", "A")
    brig.who.write(brig.work / "b", "B")
    top = brig.who.mkdir(brig.work / "dir")
    brig.who.write(top / "x", "X")
    assert brig("cp", "a", f"{sandbox}:renamed").code == 0
    inside("mkdir there")
    assert brig("cp", "a", "b", f"{sandbox}:there").code == 0
    assert brig("cp", "dir", f"{sandbox}:there/").code == 0
    assert brig("cp", "dir", f"{sandbox}:new").code == 0
    assert brig("cp", "dir/.", f"{sandbox}:there").code == 0
    assert inside("cat renamed there/a there/b there/dir/x new/x there/x") == "AABXXX"

    brig.who.mkdir(brig.work / "out")
    assert brig("cp", f"{sandbox}:renamed", "named").code == 0
    assert brig("cp", f"{sandbox}:there/a", f"{sandbox}:there/b", "out").code == 0
    assert brig("cp", f"{sandbox}:there/dir", "out/").code == 0
    assert brig("cp", f"{sandbox}:there/dir/.", "out").code == 0
    assert brig("cp", f"{sandbox}:there/dir", "fresh").code == 0
    read = lambda *names: "".join((brig.work / name).read_text() for name in names)
    assert read("named", "out/a", "out/b", "out/dir/x", "out/x", "fresh/x") == "AABXXX"


@pytest.mark.parametrize("words,told", [
    (["a", "b", "{}:nosuch"], "several"),
    (["a", "{}:nosuch/"], "is no directory"),
    (["{}:one", "nosuch/"], "is no directory"),
    (["{}:one", "{}:one", "nosuch"], "several"),
    (["a", "b"], "no side"),
    (["{}:one", "{}:two"], "both sides"),
    (["{}:one", "a", "out"], "same place"),
    (["a"], "where to"),
    (["nobody:one", "out"], "no sandbox"),
    (["{}:one", "nosuch/deeper"], "nosuch"),
])
def test_what_makes_no_sense_is_refused_in_one_line(brig, sandbox, inside, words, told):
    inside("echo 1 > one")
    brig.who.write(brig.work / "a", "A")
    brig.who.write(brig.work / "b", "B")
    assert told in brig.refused("cp", *[word.format(sandbox) for word in words])
    assert sorted(os.listdir(brig.work)) == ["a", "b"]


def test_standard_input_and_output(brig, sandbox, inside):
    data = os.urandom(300_000)
    assert brig("cp", "-", f"{sandbox}:stream", stdin=data).code == 0
    assert brig("cp", f"{sandbox}:stream", "-").out == data
    assert "a directory" in brig.refused("cp", "-", f"{sandbox}:.")
    assert inside("wc -c < stream").strip() == "300000"


def test_large_files_are_whole(brig, sandbox):
    data = os.urandom(1 << 20) * 24
    brig.who.write(brig.work / "large", data)
    assert brig("cp", "large", f"{sandbox}:large").code == 0
    assert brig("cp", f"{sandbox}:large", "again").code == 0
    assert (brig.work / "again").read_bytes() == data


def test_many_files_in_one_directory(brig, sandbox, inside):
    """More than one turn of anybody on the way takes."""
    inside("mkdir many && cd many && i=0 && while [ $i -lt 300 ]; do echo $i > file$i; i=$((i + 1)); done")
    assert brig("cp", f"{sandbox}:many", ".").code == 0
    assert {p.name: p.read_text() for p in (brig.work / "many").iterdir()} == {f"file{i}": f"{i}\n" for i in range(300)}


def test_a_file_that_tells_no_size_comes_whole(brig, sandbox):
    assert brig("cp", f"{sandbox}:/proc/self/status", "status").code == 0
    assert "Name:" in (brig.work / "status").read_text()


def test_existing_files_are_replaced_and_never_written_to(brig, sandbox, inside):
    inside("echo new > file")
    old = brig.who.write(brig.work / "file", "old", 0o600)
    os.link(old, brig.work / "other name")
    assert brig("cp", f"{sandbox}:file", ".").code == 0
    assert old.read_text() == "new\n" and (brig.work / "other name").read_text() == "old"
    assert sorted(os.listdir(brig.work)) == ["file", "other name"]


@pytest.mark.parametrize("to", ["link", "folder-link", "folder-link/", "folder-link/file", "./folder-link/new"])
def test_no_link_on_the_way_to_the_destination_is_followed(brig, sandbox, inside, to):
    """A sandbox that may write here could have made it: what it leads to stays as it is."""
    inside("echo new > file")
    other = brig.who.mkdir(brig.folder / "other")
    brig.who.write(other / "file", "old")
    os.symlink(other / "file", brig.work / "link")
    os.symlink(other, brig.work / "folder-link")
    assert "symbolic link" in brig.refused("cp", f"{sandbox}:file", to)
    assert (other / "file").read_text() == "old" and os.listdir(other) == ["file"]
    assert (brig.work / "link").is_symlink() and (brig.work / "folder-link").is_symlink()
    # Who writes where it leads to is understood.
    assert brig("cp", f"{sandbox}:file", other / "file").code == 0 and (other / "file").read_text() == "new\n"


def test_a_device_that_was_named_is_written_to(brig, sandbox, inside):
    inside("echo new > file")
    assert brig("cp", f"{sandbox}:file", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(brig.work / "fifo")
    brig.who.own(brig.work / "fifo")
    process = brig.start("cp", f"{sandbox}:file", "fifo")
    assert (brig.work / "fifo").read_text() == "new\n"
    assert harness.finish(process).code == 0 and stat.S_ISFIFO(os.stat(brig.work / "fifo").st_mode)


def test_what_cannot_be_copied_is_one_line_and_the_rest_is_copied(brig, sandbox, inside):
    inside("mkdir tree tree/sub && echo 1 > tree/one && mkfifo tree/fifo && ln -s /etc/passwd tree/abs && "
           "ln -s ../../up tree/sub/up && ln -s ../one tree/sub/fine && ln -s sub/../../x tree/behind && "
           "chmod 755 tree/one && : > tree/sub/locked && chmod 0 tree/sub/locked")
    done = brig("cp", f"{sandbox}:tree", "out")
    lines = done.error.splitlines()
    assert done.code == 1 and done.out == b""
    assert "refused: out/fifo: a device, pipe or socket" in lines
    for name in ("abs", "behind", "sub/up"):
        assert f"refused: out/{name}: a symbolic link that leads out of what is copied" in lines
    assert "failed: out/sub/locked: permission denied" in lines
    assert lines[-1] == "brig: cp: 5 left out (see above), 4 copied" and len(lines) == 6
    assert tree(brig.work / "out") == {
        "one": (stat.S_IFREG, 0o755, b"1\n"),
        "sub": (stat.S_IFDIR, 0o755, None),
        "sub/fine": (stat.S_IFLNK, 0o777, "../one"),
    }


def test_nothing_is_written_through_links_that_are_there(brig, sandbox, inside):
    """A link on the host below the destination, whoever put it there, leads nowhere."""
    inside("mkdir -p tree/sub && echo evil > tree/sub/file && echo evil > tree/name")
    outside = brig.who.mkdir(brig.folder / "outside")
    canary = brig.who.write(outside / "canary", "safe")
    out = brig.who.mkdir(brig.work / "tree")
    os.symlink(outside, out / "sub")
    os.symlink(canary, out / "name")
    done = brig("cp", f"{sandbox}:tree", ".")
    assert done.code == 1 and "conflict: tree/sub: something that is no directory is there already" in done.error
    assert canary.read_text() == "safe" and os.listdir(outside) == ["canary"]
    assert (out / "name").read_text() == "evil\n" and not (out / "name").is_symlink()


def test_a_directory_is_not_replaced_by_a_file_nor_the_other_way(brig, sandbox, inside):
    inside("mkdir tree tree/dir && echo 1 > tree/file")
    out = brig.who.mkdir(brig.work / "tree")
    brig.who.mkdir(out / "file")
    brig.who.write(out / "dir", "kept")
    done = brig("cp", f"{sandbox}:tree", ".")
    assert done.code == 1 and done.error.count("conflict: ") == 2
    assert (out / "dir").read_text() == "kept" and (out / "file").is_dir()
    # And into the sandbox.
    back = brig.who.mkdir(brig.work / "back")
    brig.who.write(back / "dir", "x")
    brig.who.mkdir(back / "file")
    done = brig("cp", "back/.", f"{sandbox}:tree")
    assert done.code == 1 and done.error.count("\n") == 3, done
    assert inside("test -d tree/dir && cat tree/file") == "1\n"


def test_links_replace_links_inside(brig, sandbox, inside):
    inside("mkdir tree && ln -s old tree/link")
    top = brig.who.mkdir(brig.work / "tree")
    os.symlink("/new/target", top / "link")
    assert brig("cp", "tree", f"{sandbox}:").code == 0
    assert inside("readlink tree/link") == "/new/target\n"


def test_devices_and_pipes_of_the_host_stay_there(brig, sandbox, inside):
    top = brig.who.mkdir(brig.work / "tree")
    os.mkfifo(top / "fifo")
    brig.who.write(top / "file", "1")
    done = brig("cp", "tree", f"{sandbox}:")
    assert done.code == 1 and "refused: tree/fifo: a device, pipe or socket\n" in done.error
    assert inside("ls tree") == "file\n"


def test_what_the_disk_of_the_sandbox_cannot_hold_is_told(brig):
    if not brig.is_container:
        pytest.skip("the process tier has no disk of its own")
    place = brig.who.mkdir(brig.folder / "place")
    sandbox = brig("create", "--disk", "4M", cwd=place).text.strip()
    brig.who.write(brig.work / "large", b"x" * (8 << 20))
    done = brig("cp", "large", f"{sandbox}:")
    assert done.code == 1 and "full" in done.error and done.error.count("\n") == 1
    assert brig("exec", sandbox, "--", "sh", "-c", "ls -A ~").text == ""
    assert brig("kill", sandbox).code == 0


def test_the_rights_are_those_of_the_user_inside(brig, sandbox):
    brig.who.write(brig.work / "file", "1")
    done = brig("cp", "file", f"{sandbox}:/etc/file")
    assert done.code == 1 and done.error.count("\n") == 1
    assert "no user" in (denied := brig("cp", "-u", "nosuch", "file", f"{sandbox}:x").error) or "nosuch" in denied


@pytest.mark.tier("container")
def test_files_belong_to_the_user_that_was_named(brig, sandbox):
    if not brig.who.is_root:
        pytest.skip("needs a sandbox of root's: others have one user only")
    brig.who.write(brig.work / "file", "1")
    (brig.work / "file").chmod(0o600)
    assert brig("cp", "-u", "root", "file", f"{sandbox}:/tmp/file").code == 0
    assert brig("exec", "-u", "root", sandbox, "--", "stat", "-c", "%u", "/tmp/file").text == "0\n"
    assert brig("cp", f"{sandbox}:/tmp/file", "mine").error == "failed: mine: permission denied\n"
    assert brig("cp", "-u", "root", f"{sandbox}:/tmp/file", "mine").code == 0


def test_json_fits_its_schema(brig, sandbox, inside):
    inside(r"mkdir tree && : > tree/one && mkfifo $(printf 'tree/\377')")
    done = brig("cp", "--json", f"{sandbox}:tree", "out")
    result = json.loads(done.out)
    jsonschema.Draft202012Validator(brig.schema("cp")).validate(result)
    assert done.code == 1 and done.err == b"" and result["applied"] == 2 and result["sandbox"] == sandbox
    assert result["notes"][0]["what"] == "refused" and "path_base64" in result["notes"][0]


def test_interrupted_it_leaves_no_half_file(brig, sandbox, inside):
    """Both directions: what was begun is gone, what was whole stays."""
    process = brig.start("cp", "-", f"{sandbox}:stream", stdin=subprocess.PIPE)
    process.stdin.write(b"x" * 100_000)
    process.stdin.flush()
    harness.wait_until(lambda: brig("exec", sandbox, "--", "sh", "-c", "ls -A ~").text, "the beginning of the file")
    process.send_signal(signal.SIGINT)
    assert process.wait(harness.HANG) == -signal.SIGINT
    assert b"interrupted" in process.stderr.read()
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()
    harness.wait_until(lambda: not brig("exec", sandbox, "--", "sh", "-c", "ls -A ~").text, "the half file to go")


def test_the_end_of_the_sandbox_is_told(brig):
    place = brig.who.mkdir(brig.folder / "place")
    sandbox = brig("create", cwd=place).text.strip()
    process = brig.start("cp", "-", f"{sandbox}:stream", stdin=subprocess.PIPE)
    harness.wait_until(lambda: brig("exec", sandbox, "--", "sh", "-c", "ls -A ~").text, "the beginning of the file")
    assert brig("kill", sandbox).code == 0
    done = harness.finish(process)
    assert done.code == 125 and b"has ended" in done.err


# What no init of ours would say.


def hostile(brig, answer):
    return standin.Warden(brig, answer)


def copy(brig, warden, *words):
    done = brig("cp", *words, f"{warden.id}:tree", "out")
    return done, done.error.splitlines()


@pytest.mark.tier("container")
@pytest.mark.parametrize("name", ["../evil", "..", ".", "a/b", "/etc/evil", "", "sub/../../evil", "/"])
def test_names_that_lead_away_are_refused(brig, name):
    listed = standin.Tree({"tree": [(name, {"size": 4}), ("good", {"size": 4})]},
                          {"tree/good": b"good", f"tree/{name}": b"evil"})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 1 and len(lines) == 2 and lines[0].startswith("refused: out"), done
    assert "a name that no file can have" in lines[0]
    assert tree(brig.work) == {"out": (stat.S_IFDIR, 0o755, None), "out/good": (stat.S_IFREG, 0o644, b"good")}


@pytest.mark.tier("container")
@pytest.mark.parametrize("first,second", [("link", "dir"), ("dir", "link"), ("link", "file")])
def test_a_name_that_is_told_twice_leads_nowhere(brig, first, second):
    """A link and then a directory of the same name, with files in it: the files do not go through the link."""
    outside = brig.who.mkdir(brig.work / "outside")
    kinds = {"link": {"mode": 0o120777, "target": "real"}, "dir": {"mode": 0o40755}, "file": {"size": 4}}
    listed = standin.Tree(
        {"tree": [("real", {"mode": 0o40755}), ("x", kinds[first]), ("x", kinds[second])],
         "tree/x": [("evil", {"size": 4})], "tree/real": []},
        {"tree/x/evil": b"evil", "tree/x": b"file"})
    with hostile(brig, listed) as warden:
        done, _ = copy(brig, warden)
    assert not (brig.work / "out" / "real" / "evil").exists() and os.listdir(outside) == []
    assert done.code == (0 if second == "file" else 1), done


@pytest.mark.tier("container")
@pytest.mark.parametrize("target", ["/etc", "..", "../..", "a/../..", "a/..", "", None])
def test_links_that_lead_out_are_refused(brig, target):
    listed = standin.Tree({"tree": [("x", {"mode": 0o120777, "target": target})]})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 1 and "leads out" in lines[0] and os.listdir(brig.work / "out") == []


@pytest.mark.tier("container")
@pytest.mark.parametrize("mode", [0o10644, 0o20644, 0o60644, 0o140644, 0o644, 0o170644, 0xffffffff, 1 << 40])
def test_what_is_no_file_directory_or_link_is_refused(brig, mode):
    listed = standin.Tree({"tree": [("x", {"mode": mode, "size": 1})]}, {"tree/x": b"x"})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 1 and lines[0] == "refused: out/x: a device, pipe or socket"
    assert os.listdir(brig.work / "out") == []


@pytest.mark.tier("container")
def test_no_bit_that_gives_rights_comes_out(brig):
    listed = standin.Tree({"tree": [("x", {"mode": 0o106755, "size": 1}), ("dir", {"mode": 0o43777})], "tree/dir": []},
                          {"tree/x": b"x"})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 0 and set(lines) == {f"dropped: out/{name}: without its setuid or setgid bit"
                                             for name in ("x", "dir")}
    assert tree(brig.work / "out") == {"x": (stat.S_IFREG, 0o755, b"x"), "dir": (stat.S_IFDIR, 0o1777, None)}


@pytest.mark.tier("container")
def test_more_bytes_than_were_told_of_are_refused(brig):
    class Endless(standin.Tree):
        def read(self, one, m):
            if m["PATH"] != "tree/endless":
                return super().read(one, m)
            try:
                with os.fdopen(m.descriptors[0], "wb", buffering=0) as pipe:
                    while True:
                        pipe.write(b"x" * 65536)
            except BrokenPipeError:
                return None

    listed = Endless({"tree": [("endless", {"size": 100_000}), ("good", {"size": 4})]}, {"tree/good": b"good"})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 1 and lines[0] == "failed: out/endless: it has more than the 100000 bytes that it said"
    assert tree(brig.work / "out") == {"good": (stat.S_IFREG, 0o644, b"good")}


@pytest.mark.tier("container")
@pytest.mark.parametrize("size", [1 << 60, (1 << 64) - 1, 1 << 63])
def test_more_bytes_than_there_is_room_for_are_refused_before_one_is_read(brig, size):
    asked = []

    class Asked(standin.Tree):
        def read(self, one, m):
            asked.append(m["PATH"])
            super().read(one, m)

    listed = Asked({"tree": [("huge", {"size": size})]}, {"tree/huge": b"x"})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 1 and f"it says it has {size} bytes" in lines[0] and not asked
    assert os.listdir(brig.work / "out") == []


@pytest.mark.tier("container")
def test_a_directory_without_end_is_given_up(brig):
    def answer(one, m):
        if m.kind == "STAT":
            standin.entry(one, m.call, m["PATH"], 0o40755)
        while m.kind == "LIST":
            block = b"".join(standin.speaker.pack("ENTRY", m.call, [("PATH", f"n{i}"), ("MODE", 0o100644), ("UID", 0),
                                                                    ("GID", 0), ("SIZE", 0), ("MODIFIED", 0)])
                             for i in range(5000))
            one.send_raw(block)

    with hostile(brig, answer) as warden:
        done = brig("cp", f"{warden.id}:tree", "out", timeout=harness.LONG)
    assert done.code == 125 and "more than 1000000 entries" in done.error
    assert os.listdir(brig.work / "out") == []


@pytest.mark.tier("container")
def test_directories_without_end_below_each_other_are_given_up(brig):
    class Deep(standin.Tree):
        def __call__(self, one, m):
            if m.kind == "LIST":
                standin.entry(one, m.call, "d" * 200, 0o40755)
                one.send("DONE", m.call)
            else:
                super().__call__(one, m)

    with hostile(brig, Deep({"tree": []})) as warden:
        done, lines = copy(brig, warden)
    assert done.code == 1 and "deeper than a path can say" in lines[0]
    subprocess.run(["rm", "-rf", brig.work / "out"], check=True)


@pytest.mark.tier("container")
def test_a_file_that_is_shorter_than_told_and_a_call_that_fails_late(brig):
    class Failing(standin.Tree):
        def read(self, one, m):
            with os.fdopen(m.descriptors[0], "wb") as pipe:
                pipe.write(b"part")
            standin.error(one, m.call, 5, '"tree/x": the disk failed')

    brig.who.mkdir(brig.work / "out")
    old = brig.who.write(brig.work / "out" / "tree", "old")
    with hostile(brig, Failing({}, {"tree": b"x" * 100})) as warden:
        done = brig("cp", f"{warden.id}:tree", "out")
    assert done.code == 1 and done.error == "failed: tree: the disk failed\n"
    assert old.read_text() == "old" and os.listdir(brig.work / "out") == ["tree"]


@pytest.mark.tier("container")
@pytest.mark.parametrize("kind", ["STARTED", "EXITED", "PORT_IS", "garbage", "ENTRY"])
def test_answers_that_do_not_fit_end_the_copy_in_words(brig, kind):
    def answer(one, m):
        if kind == "garbage":
            one.send_raw(b"\xff" * 64)
        elif kind == "ENTRY" and m.kind == "READ":
            standin.entry(one, m.call, "x")
        elif kind == "ENTRY":
            standin.entry(one, m.call, "tree", size=10)
        else:
            fields = {"STARTED": {"PROCESS": 1, "PID": 1}, "EXITED": {"STATUS": 0}, "PORT_IS": {"PORT": 1, "TEXT": "x"}}
            one.send(kind, m.call, **fields[kind])

    with hostile(brig, answer) as warden:
        done = brig("cp", f"{warden.id}:tree", "out")
    assert done.code in (1, 125) and done.error.count("\n") == 1, done
    assert not (brig.work / "out").exists() and os.listdir(brig.work) == []


@pytest.mark.tier("container")
def test_no_descriptor_of_a_file_goes_into_a_sandbox(brig):
    """All that comes along with a call is one end of a pipe."""
    seen = []

    def answer(one, m):
        for fd in m.descriptors:
            seen.append((m.kind, stat.S_ISFIFO(os.fstat(fd).st_mode)))
            if m.kind == "WRITE":
                with os.fdopen(fd, "rb") as pipe:
                    pipe.read()
        if m.kind == "STAT":
            return standin.error(one, m.call, 2, "does not exist")
        return one.send("DONE", m.call)

    top = make_tree(brig)
    with hostile(brig, answer) as warden:
        assert brig("cp", top, f"{warden.id}:x").code == 0
    assert len(seen) == 4 and set(seen) == {("WRITE", True)}


@pytest.mark.tier("container")
@pytest.mark.parametrize("words", [[], ["-q"]])
def test_how_far_it_is_shows_at_a_terminal_and_goes(brig, words):
    """A file that comes slowly: the line is there meanwhile, and nothing is left of it at the end."""
    class Slow(standin.Tree):
        def read(self, one, m):
            with os.fdopen(m.descriptors[0], "wb", buffering=0) as pipe:
                for _ in range(8):
                    pipe.write(b"x" * 1024)
                    time.sleep(0.1)
            one.send("DONE", m.call)

    with hostile(brig, Slow({"tree": [("slow", {"size": 8192})]})) as warden:
        command = brig.command("cp", *words, f"{warden.id}:tree", "out")
        child = pexpect.spawn(command[0], command[1:], env=brig.env({"TERM": "xterm"}), cwd=str(brig.work),
                              encoding="utf-8", timeout=harness.HANG)
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 0
    if words:
        assert child.before == ""
    else:
        assert re.search(r"copied [\d.]+ K?i?B, \d files, [\d.]+ \w+/s", child.before), child.before
        assert child.before.endswith("\r\x1b[K") and "\n" not in child.before


@pytest.mark.tier("container")
def test_names_are_harmless_to_a_terminal(brig):
    listed = standin.Tree({"tree": [("\x1b]0;evil\x07\n..", {"mode": 0o10644})]})
    with hostile(brig, listed) as warden:
        done, lines = copy(brig, warden)
    assert len(lines) == 2 and all(c.isprintable() for c in "".join(lines)), lines
