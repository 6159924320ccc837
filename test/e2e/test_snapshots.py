"""Images: what a sandbox wrote is kept (--keep), and others start from it (--from)."""

import json
import os
import shutil
import signal
import stat
import subprocess

import jsonschema
import pytest

import harness

BOTH = pytest.mark.tier("process", "container")
CONTAINER = pytest.mark.tier("container")
PROCESS = pytest.mark.tier("process")


def sh(brig, script, *options, **more):
    """In the home of the sandbox."""
    return brig.run(*options, "--", "sh", "-c", "cd; " + script, **more)


def keep(brig, name, script, *options, **more):
    done = sh(brig, script, "--keep", name, *options, **more)
    assert done.code == 0, done
    return done


def state(brig, *names):
    return brig.folder.joinpath("state", "brig", *names)


def layers(brig):
    """Those that are there, finished or not; as whoever made them, since the folder is closed to others."""
    return sorted(n for n in os.listdir(state(brig, "layers")) if n != ".sweep")


def images(brig):
    done = brig("image", "ls", "--json")
    assert done.code == 0, done
    found = json.loads(done.text)
    jsonschema.Draft202012Validator(brig.schema("image")).validate(found)
    return {image["name"]: image for image in found["images"]}


@BOTH
def test_what_is_kept_is_there_again(brig):
    done = keep(brig, "tools", "mkdir -p bin && echo 'echo run' > bin/tool && chmod 755 bin/tool && ln -s bin/tool link && ln bin/tool twin")
    assert 'image "tools"' in done.error
    done = sh(brig, "./link; stat -c %h bin/tool; touch mine bin/mine; ls", "--from", "tools")
    assert (done.code, done.text.splitlines()) == (0, ["run", "2", "bin", "link", "mine", "twin"]), done
    # Nobody changes it: the next one finds it as it was.
    assert sh(brig, "ls bin; echo changed > bin/tool; rm twin; cat bin/tool", "--from", "tools").text == "tool\nchanged\n"
    assert sh(brig, "bin/tool; ls", "--from", "tools").text == "run\nbin\nlink\ntwin\n"


@BOTH
def test_without_from_there_is_nothing(brig):
    keep(brig, "x", "echo secret > file")
    assert sh(brig, "ls").out == b""


@BOTH
def test_a_chain_longer_than_the_bound(brig):
    keep(brig, "i1", "echo 1 > f1; mkdir d; echo x > d/x")
    for i in range(2, 12):
        more = {3: "; rm f2", 4: "; rm -r d", 5: "; mkdir d; echo new > d/new", 10: "; rm f3"}.get(i, "")
        keep(brig, f"i{i}", f"echo {i} > f{i}{more}", "--from", f"i{i - 1}")
    found = images(brig)
    counts = [len(found[f"i{i}"]["layers"]) for i in range(1, 12)]
    assert counts == ([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3] if brig.is_container else [1] * 11)
    for name, expected in (("i2", "d f1 f2"), ("i4", "f1 f3 f4"), ("i9", "d f1 f3 f4 f5 f6 f7 f8 f9"), ("i11", "d f1 f10 f11 f4 f5 f6 f7 f8 f9")):
        done = sh(brig, "echo *; test ! -d d || ls d", "--from", name)
        words = done.text.split("\n")
        assert words[0] == expected, (name, done)
        if name in ("i9", "i11"):
            assert words[1] == "new", done


@BOTH
def test_owners_modes_times_and_attributes_stay(brig):
    script = """
import os
os.makedirs("dir/closed")
open("dir/file", "w").write("x")
os.setxattr("dir", "user.mine", b"of a directory")
os.setxattr("dir/file", "user.overlay.opaque", b"y")
os.mkfifo("pipe", 0o604)
os.symlink("/etc/passwd", "link")
with open("sparse", "wb") as f:
    f.seek(1 << 30)
    f.write(b"end")
for path, mode in (("dir/file", 0o640), ("dir/closed", 0), ("dir", 0o511), ("sparse", 0o200)):
    os.chmod(path, mode)
os.utime("dir", (1000, 2000))
os.utime("dir/file", (3000, 4000))
"""
    look = """
import os, stat
for path in ("dir", "dir/file", "dir/closed", "pipe", "link", "sparse"):
    st = os.lstat(path)
    print(path, oct(st.st_mode), st.st_uid == os.getuid(), st.st_gid == os.getgid(), int(st.st_mtime) if "dir" in path and "closed" not in path else "-")
print(os.getxattr("dir", "user.mine"), os.readlink("link"), os.lstat("sparse").st_size, os.lstat("sparse").st_blocks < 1000)
print([n for n in os.listxattr("dir/file")])
"""
    done = brig.python("import os; os.chdir(os.environ['HOME'])\n" + script, options=["--keep", "a", "--allow-read", "/usr"])
    assert done.code == 0, done
    for name, after in (("a", "b"), ("b", None)):
        options = ["--from", name] + (["--keep", after] if after else [])
        done = brig.python("import os; os.chdir(os.environ['HOME'])\n" + look, options=options)
        assert done.code == 0, done
        assert done.text.splitlines()[:7] == [
            "dir 0o40511 True True 2000", "dir/file 0o100640 True True 4000", "dir/closed 0o40000 True True -",
            "pipe 0o10604 True True -", "link 0o120777 True True -", "sparse 0o100200 True True -",
            f"b'of a directory' /etc/passwd {(1 << 30) + 3} True"], done


@CONTAINER
def test_other_places_are_kept_too(brig):
    keep(brig, "x", "echo a > /tmp/a; echo b > /var/tmp/b; echo c > /dev/shm/c; chmod 700 /home/user")
    done = sh(brig, "cat /tmp/a /var/tmp/b; ls /dev/shm; stat -c %a /home/user /tmp; echo ok > /tmp/new", "--from", "x")
    assert done.text == "a\nb\n700\n1777\n", done
    paths = brig("image", "show", "x").text
    assert "/tmp" in paths and "/var/tmp" in paths


@CONTAINER
def test_nothing_of_the_host_is_told(brig):
    keep(brig, "x", "echo a > a")
    done = sh(brig, "cat /proc/self/mountinfo", "--from", "x")
    assert done.code == 0 and "lowerdir=l1/home" in done.text, done
    assert str(state(brig)) not in done.text


@CONTAINER
def test_overlays_and_deletions_through_layers(brig):
    who, work = brig.who, brig.work
    for name in ("one", "two", "three"):
        who.write(work / name, f"host {name}")
    who.mkdir(work / "dir")
    who.write(work / "dir" / "inner", "host inner")
    before = sorted((p, p.lstat().st_mtime_ns) for p in work.rglob("*"))
    here = ["--overlay", "."]
    keep(brig, "a", f"cd {work}; rm one; echo changed > two; rm -r dir; mkdir dir; echo own > dir/own", *here)
    done = keep(brig, "b", f"cd {work}; cat two; ls . dir; echo again > one; rm three", "--from", "a", *here)
    assert done.text == "changed\n.:\ndir\nthree\ntwo\n\ndir:\nown\n", done
    done = sh(brig, f"cd {work}; cat one two dir/own; ls", "--from", "b", *here)
    assert done.text == "again\nchanged\nown\ndir\none\ntwo\n", done
    assert sorted((p, p.lstat().st_mtime_ns) for p in work.rglob("*")) == before
    # What has no place is refused, in words; and what could not be brought back as well.
    assert f"--overlay {work}" in brig.refused("run", "--from", "b", "--", "true")
    assert "--export" in brig.refused("run", "--from", "b", *here, "--commit", "--", "true")
    # A diff is about this run.
    done = sh(brig, f"cd {work}; echo more >> two; rm dir/own; echo x > x", "--from", "b", *here, "--diff")
    assert sorted(done.text.splitlines()) == ["A x", "D dir/own", "M two"], done


@CONTAINER
def test_what_the_host_removed_leaves_no_name_behind(brig):
    """A whiteout of something that is not there any more is not listed."""
    who, work = brig.who, brig.work
    who.mkdir(work / "dir")
    who.write(work / "dir" / "gone", "x")
    keep(brig, "a", f"rm {work}/dir/gone; echo x > {work}/dir/new", "--overlay", ".")
    shutil.rmtree(work / "dir")
    done = sh(brig, f"ls -la {work}/dir", "--from", "a", "--overlay", ".")
    assert done.code == 0 and "new" in done.text and "gone" not in done.text, done


@CONTAINER
def test_changes_of_a_system(brig, tmp_path):
    busybox = shutil.which("busybox", path="/bin:/usr/bin")
    if not busybox or subprocess.run(["ldd", busybox], capture_output=True).returncode == 0:
        pytest.skip("needs busybox-static")
    system = brig.who.mkdir(brig.folder / "system")
    brig.who.mkdir(system / "bin")
    shutil.copy(busybox, system / "bin" / "busybox")
    brig.who.own(system / "bin" / "busybox")
    for name in ("sh", "cat", "rm", "ls", "echo", "mkdir", "ln", "mv"):
        (system / "bin" / name).symlink_to("busybox")
    brig.who.mkdir(system / "srv", 0o777)
    brig.who.write(system / "srv" / "data", "of the system", 0o666)
    keep(brig, "s", "rm /srv/data; echo x > /srv/new; echo home > mine", "--image", system)
    done = sh(brig, "ls /srv; cat mine", "--image", system, "--from", "s")
    assert done.text == "new\nhome\n", done
    assert (system / "srv" / "data").read_text() == "of the system"
    assert str(system) in brig.refused("run", "--from", "s", "--", "true")
    assert images(brig)["s"]["image"] == str(system)


@CONTAINER
def test_the_disk_limit_is_about_what_is_new(brig):
    keep(brig, "big", "head -c 20000000 /dev/zero > big")
    done = sh(brig, "stat -c %s big; head -c 1000000 /dev/zero > small && echo fits", "--from", "big", "--disk", "8M")
    assert done.text == "20000000\nfits\n", done
    done = sh(brig, "echo x >> big", "--from", "big", "--disk", "8M")
    assert done.code != 0, done
    # What does not fit is not kept by accident either: the copy is as large as what was written.
    assert images(brig)["big"]["bytes"] == 20000000


@BOTH
def test_names_that_are_none_and_names_that_are_taken(brig, mark):
    for name in ("", ".", "..", "../x", "a/b", "-a", "x" * 65, "a b", "\x1b[31m"):
        assert "name" in brig.refused("run", f"--keep={name}", "--", "touch", brig.tmp / mark)
        assert "name" in brig.refused("run", f"--from={name}", "--", "touch", brig.tmp / mark)
    keep(brig, "taken", "echo 1 > f")
    assert "already" in brig.refused("run", "--keep", "taken", "--", "touch", brig.tmp / mark)
    assert "no image" in brig.refused("run", "--from", "none", "--", "true")
    assert not (brig.tmp / mark).exists()
    assert "no image" in brig.refused("image", "rm", "none")
    assert "no image" in brig.refused("image", "show", "none")


@BOTH
def test_a_failing_command_is_kept_too(brig):
    done = sh(brig, "echo x > f; exit 3", "--keep", "x")
    assert done.code == 3 and 'image "x"' in done.error
    assert sh(brig, "cat f", "--from", "x").out == b"x\n"


@BOTH
def test_as_json(brig):
    result = brig.json("--keep", "x", "--", "sh", "-c", "echo hello > ~/f")
    assert result["kept"]["name"] == "x" and result["kept"]["bytes"] == 6 and result["kept"]["isolation"] == brig.tier
    assert brig.json("--", "true")["kept"] is None
    assert images(brig)["x"] == result["kept"]
    assert json.loads(brig("image", "show", "x", "--json").out) == result["kept"]


@PROCESS
def test_from_one_tier_to_the_other(brig):
    """A home is a home; what the process tier has no place for is refused."""
    keep(brig, "home", "mkdir d; echo mine > d/f")
    done = brig("run", "--isolation", "container", "--from", "home", "--keep", "second", "--", "sh", "-c", "cd; cat d/f; id -u; rm d/f; echo 2 > d/g")
    assert (done.code, done.out) == (0, b"mine\n1000\n"), done
    done = sh(brig, "ls d; cat d/g; ls -la . > all; cat all; touch d/writable", "--from", "second")
    assert done.code == 0 and done.text.startswith("g\n2\n"), done
    assert brig("run", "--isolation", "container", "--keep", "more", "--", "sh", "-c", "echo x > /tmp/f").code == 0
    assert "/tmp" in brig.refused("run", "--isolation", "process", "--from", "more", "--", "true")


@BOTH
def test_removal_while_in_use(brig):
    keep(brig, "x", "echo alive > f; mkdir d; echo deep > d/f")
    process = brig.start("run", "--from", "x", "--", "sh", "-c", "cd; echo ready; read line; cat f d/f", stdin=-1)
    harness.wait_for_line(process, b"ready")
    done = brig("image", "rm", "x")
    assert done.code == 0 and "until the last sandbox" in done.error, done
    assert not images(brig) and len(layers(brig)) == 1
    out, _ = process.communicate(b"go\n", timeout=harness.HANG)
    assert out == b"alive\ndeep\n"
    # The next one that is made sweeps.
    keep(brig, "y", "echo y > y")
    assert len(layers(brig)) == 1 and list(images(brig)) == ["y"]


@BOTH
def test_a_warden_that_was_killed_holds_nothing(brig):
    keep(brig, "x", "echo alive > f")
    process = brig.start("run", "--from", "x", "--", "sh", "-c", "echo ready; sleep 600")
    harness.wait_for_line(process, b"ready")
    # As an ordinary user the first child is brig itself.
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    harness.wait_until(lambda: not harness.processes_of(brig), "the sandbox to end")
    assert brig("image", "rm", "x").code == 0
    assert layers(brig) == []


@BOTH
def test_removal_leaves_layers_that_others_share(brig):
    keep(brig, "a", "echo a > a")
    keep(brig, "b", "echo b > b", "--from", "a")
    keep(brig, "c", "echo c > c", "--from", "b")
    assert brig("image", "rm", "a", "b").code == 0
    assert sh(brig, "cat a b c", "--from", "c").out == b"a\nb\nc\n"
    assert brig("image", "rm", "c").code == 0
    assert layers(brig) == []


@BOTH
@pytest.mark.parametrize("point", ["die_in_copy", "die_after_copy", "die_before_image", "die_before_name"])
def test_killed_in_the_middle(brig, hooks, point):
    """At most something without a name is left, and the next one removes it."""
    done = sh(brig, "echo x > f; echo y > g", "--keep", "x", env={"BRIG_TEST_FAIL": f"{point}=1"})
    assert done.code in (-9, 137), done
    assert not images(brig) and len(layers(brig)) == 1
    assert "no image" in brig.refused("run", "--from", "x", "--", "true")
    for folder in brig.tmp.glob("brig-*"):  # a private folder that nobody was left to remove
        shutil.rmtree(folder)
    keep(brig, "x", "echo x > f")
    assert len(layers(brig)) == 1 and not [n for n in os.listdir(state(brig, "images")) if n.startswith(".new")]
    assert sh(brig, "cat f", "--from", "x").out == b"x\n"


@BOTH
def test_a_full_disk(brig, hooks):
    """28: no space left on the device."""
    done = sh(brig, "echo content > file", "--keep", "x", env={"BRIG_TEST_FAIL": "layer_write=28"})
    assert done.code == 125 and "No space left" in done.error and "file" in done.error, done
    assert not images(brig) and layers(brig) == []
    assert sh(brig, "ls", "--keep", "x").code == 0


@CONTAINER
def test_a_full_disk_in_earnest(brig):
    if not brig.who.is_root:
        pytest.skip("needs root: mounts a small file system")
    small = brig.who.mkdir(brig.folder / "state")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    try:
        done = sh(brig, "head -c 8000000 /dev/zero | tr '\\0' x > file", "--keep", "x")
        assert done.code == 125 and "No space left" in done.error, done
        assert layers(brig) == [] and not images(brig)
        keep(brig, "y", "echo fits > file")
        assert sh(brig, "cat file", "--from", "y").out == b"fits\n"
    finally:
        subprocess.run(["umount", small], check=True)


@CONTAINER
def test_a_state_directory_that_cannot_map_ids(brig, hooks):
    """22: what a file system says that has no such mounts."""
    if not brig.who.is_root:
        pytest.skip("needs root: an ordinary user maps nothing")
    keep(brig, "x", "echo x > f")
    error = brig.refused("run", "--from", "x", "--", "true", env={"BRIG_TEST_FAIL": "mount_setattr=22"})
    assert 'image "x"' in error and "XDG_STATE_HOME" in error, error


@CONTAINER
def test_a_hostile_home(brig):
    """Deep, closed, with names of any bytes and links that lead out: it is kept, and nothing else is touched."""
    script = r"""
import os, socket
os.chdir(os.environ["HOME"])
top = os.getcwd()
for i in range(400):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
open("bottom", "w").write("deep")
os.chdir(top)
os.symlink("/proc/self/root/etc", "out")
os.symlink("../../../../../../etc/passwd", "up")
open(b"\xff\n\x1b[31m", "w").write("bytes")
os.mkdir("closed"); open("closed/f", "w").write("f"); os.chmod("closed/f", 0); os.chmod("closed", 0)
socket.socket(socket.AF_UNIX).bind("socket")
for name in ("user.overlay.whiteout", "user.overlay.redirect", "user.overlay.metacopy"):
    os.setxattr("closed" if False else "d" * 100, name, b"/etc")
"""
    look = r"""
import os
os.chdir(os.environ["HOME"])
top = os.getcwd()
print(sorted(os.listdir(b".")))
for i in range(400):
    os.chdir("d" * 100)
print(open("bottom").read())
os.chdir(top)
print(os.readlink("out"), open(b"\xff\n\x1b[31m").read(), oct(os.stat("closed").st_mode))
os.chmod("closed", 0o700); os.chmod("closed/f", 0o600)
print(open("closed/f").read())
"""
    done = brig.python(script, options=["--keep", "h"])
    assert done.code == 0 and "1 sockets" in done.error, done
    done = brig.python(look, options=["--from", "h"])
    assert done.code == 0, done
    assert "deep" in done.text and "/proc/self/root/etc bytes 0o40000" in done.text and "socket" not in done.text, done
    assert brig("image", "rm", "h").code == 0
    assert layers(brig) == []


@BOTH
def test_no_sandbox_sees_images(brig):
    keep(brig, "x", "echo SECRET > f")
    for option in (["--allow-read", str(brig.folder)], ["--allow-write", str(brig.folder)]):
        done = brig.run(*option, "--", "sh", "-c", f"ls {state(brig)}/images {state(brig)}/layers; cat {state(brig)}/layers/*/home/f; echo over")
        assert "SECRET" not in done.text and done.text.splitlines()[-1] == "over", done


@CONTAINER
def test_stored_layers_are_closed_to_others(brig):
    keep(brig, "x", "echo x > f")
    for folder in (state(brig), state(brig, "images"), state(brig, "layers")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    if brig.who.is_root:
        (layer,) = layers(brig)
        assert state(brig, "layers", layer, "home", "f").stat().st_uid == 1000


@CONTAINER
def test_the_plan_shows_it(brig):
    keep(brig, "x", "echo x > f")
    done = brig.run("--from", "x", "--dry-run", "--", "true")
    assert "overlay store:/l1/home on /home/user, changes in store:/home" in done.text, done
    assert "overlay store:/l1" not in brig.run("--dry-run", "--", "true").text
