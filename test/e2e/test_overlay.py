"""Overlays: work on a copy, see what changed, bring it back or carry it away."""

import json
import os
import stat
import subprocess
import tarfile
import time

import jsonschema
import pytest

import harness

pytestmark = pytest.mark.tier("container")


def sh(brig, script, *options, **more):
    return brig.run(*options, "--", "sh", "-c", script, **more)


def snapshot(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        st = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), content)
    return found


@pytest.fixture
def tree(brig):
    """A project with a bit of everything, older than the run."""
    who, work = brig.who, brig.work
    for name in ("src", "src/deep", "old"):
        who.mkdir(work / name)
    for name in ("README", "src/a.c", "src/deep/b.c", "old/x", "old/y"):
        who.write(work / name, f"content of {name}\n")
    (work / "link").symlink_to("README")
    who.own(work / "link")
    past = time.time() - 1000
    for path in work.rglob("*"):
        os.utime(path, (past, past), follow_symlinks=False)
    time.sleep(0.02)  # ctime has to lie before the start
    return work


EDIT = "echo new > src/new.c; echo more >> README; rm src/a.c; mv src/deep/b.c src/moved.c; chmod 755 old/x; rm -r old/y; mkdir -p made/dir; ln -s src made/link"
EDITED = ["A made/", "A made/dir/", "A made/link", "D src/a.c", "D old/y", "M README", "A src/new.c", "R src/deep/b.c -> src/moved.c", "m old/x 0644 -> 0755"]


def test_nothing_on_the_host_changes(brig, tree):
    before = snapshot(tree)
    done = sh(brig, EDIT + "; cat README src/moved.c; ls", "--overlay", ".")
    assert done.code == 0 and "more" in done.text and "made" in done.text.split(), done
    assert snapshot(tree) == before


def test_diff_lists_every_change(brig, tree):
    done = sh(brig, EDIT, "--overlay", ".", "--diff")
    assert done.code == 0, done
    assert sorted(done.text.splitlines()) == sorted(EDITED)


def test_diff_of_a_failed_command_is_told_too(brig, tree):
    done = sh(brig, "echo x > new; exit 3", "--overlay", ".", "--diff")
    assert (done.code, done.out) == (3, b"A new\n")


def test_diff_without_a_change_is_empty(brig, tree):
    assert sh(brig, "cat README > /dev/null; touch README; echo x > ~/file", "--overlay", ".", "--diff").out == b""


def test_diff_as_json_fits_the_schema(brig, tree):
    result = brig.json("--overlay", ".", "--diff", "--", "sh", "-c", EDIT)
    (folder,) = result["folders"]
    assert folder["folder"] == str(brig.work) and folder["problems"] == []
    kinds = {(c["kind"], c["path"]) for c in folder["changes"]}
    assert {("added", "src/new.c"), ("changed", "README"), ("deleted", "src/a.c"), ("renamed", "src/moved.c"), ("mode", "old/x")} <= kinds
    renamed = next(c for c in folder["changes"] if c["kind"] == "renamed")
    assert renamed["from"] == "src/deep/b.c"


def test_diff_and_commit_need_an_overlay(brig):
    for flag in ("--diff", "--commit"):
        assert "--overlay" in brig.refused("run", flag, "--", "touch", brig.tmp / "canary")


@pytest.mark.tier("process")
def test_the_process_tier_has_no_overlays(brig):
    for options in (["--overlay", "."], ["--export", "out"]):
        assert "container tier" in brig.refused("run", *options, "--", "true")


# Commit


def test_commit_brings_everything_back(brig, tree):
    done = sh(brig, EDIT, "--overlay", ".", "--commit")
    assert done.code == 0, done
    found = snapshot(tree)
    assert found["README"][2] == b"content of README\nmore\n" and found["src/new.c"][2] == b"new\n"
    assert found["src/moved.c"][2] == b"content of src/deep/b.c\n" and found["old/x"][1] == 0o755 and found["made/link"][2] == "src"
    assert not {"src/a.c", "old/y", "src/deep/b.c"} & set(found) and "src/deep" in found
    for path in tree.rglob("*"):
        assert path.lstat().st_uid == brig.who.uid
        assert not path.name.startswith(".brig-")


def test_commit_after_a_failing_command_brings_nothing_back(brig, tree):
    before = snapshot(tree)
    done = sh(brig, EDIT + "; exit 3", "--overlay", ".", "--commit")
    assert done.code == 3 and "nothing was brought back" in done.error
    assert snapshot(tree) == before
    assert sh(brig, EDIT + "; kill -9 $$", "--overlay", ".", "--commit").code == 137
    assert sh(brig, EDIT + "; sleep 60", "--overlay", ".", "--commit", "--wall", "500ms").code == 124
    assert snapshot(tree) == before


def test_commit_of_a_cancelled_run_brings_nothing_back(brig, tree):
    before = snapshot(tree)
    process = brig.start("run", "--overlay", ".", "--commit", "--", "sh", "-c", EDIT + "; echo ready; sleep 60")
    harness.wait_for_line(process, b"ready")
    process.terminate()
    assert harness.finish(process).code == 143
    assert snapshot(tree) == before


def test_deleted_folders_and_changed_types_come_back(brig, tree):
    done = sh(brig, "rm -r src; rm -r old; echo file > old; rm README; mkdir README; echo x > README/f; rm link; ln -s old link", "--overlay", ".", "--commit")
    assert done.code == 0, done
    assert snapshot(tree) == {"README": (stat.S_IFDIR, 0o755, None), "README/f": (stat.S_IFREG, 0o644, b"x\n"),
                              "link": (stat.S_IFLNK, 0o777, "old"), "old": (stat.S_IFREG, 0o644, b"file\n")}


def test_a_folder_that_was_deleted_and_made_again_has_only_the_new(brig, tree):
    done = sh(brig, "rm -r src; mkdir src; echo only > src/only", "--overlay", ".", "--diff", "--commit")
    assert done.code == 0, done
    assert os.listdir(tree / "src") == ["only"]


def during(brig, script, act, *options):
    """Runs a script up to "ready", acts on the host, lets it end."""
    process = brig.start("run", "--overlay", ".", *options, "--", "sh", "-c", script + "; echo ready; read x", stdin=-1)
    harness.wait_for_line(process, b"ready")
    act()
    out, err = process.communicate(b"go\n", timeout=harness.HANG)
    return harness.Done(process.returncode, out, err)


@pytest.mark.parametrize("kind", ["changed", "deleted", "added", "replaced", "mode"])
def test_what_the_host_changed_meanwhile_is_left_alone(brig, tree, kind):
    act = {"changed": lambda: (tree / "README").write_text("of the host"), "deleted": lambda: (tree / "README").unlink(),
           "added": lambda: brig.who.write(tree / "new", "of the host"),
           "replaced": lambda: ((tree / "README").unlink(), brig.who.mkdir(tree / "README")),
           "mode": lambda: (tree / "README").chmod(0o600)}[kind]
    done = during(brig, "echo sandbox > README; echo sandbox > new; echo fine > other", act, "--commit")
    assert done.code != 0 and b"conflict" in done.err, done
    assert (tree / "other").read_text() == "fine\n", "what is no conflict is brought back all the same"
    if kind == "added":
        assert (tree / "new").read_text() == "of the host" and (tree / "README").read_text() == "sandbox\n"
    elif kind == "changed":
        assert (tree / "README").read_text() == "of the host"
    elif kind == "deleted":
        assert not (tree / "README").exists()
    elif kind == "mode":
        assert stat.S_IMODE((tree / "README").stat().st_mode) == 0o600 and (tree / "README").read_text() == "content of README\n"


def test_a_conflict_is_in_the_json(brig, tree):
    process = brig.start("run", "--json", "--overlay", ".", "--commit", "--allow-write", brig.tmp, "--", "sh", "-c",
                         f"echo sandbox > README; touch {brig.tmp}/up; while [ ! -e {brig.tmp}/go ]; do sleep 0.05; done")
    harness.wait_until(lambda: (brig.tmp / "up").exists(), "the command to start")
    (tree / "README").write_text("of the host")
    brig.who.write(brig.tmp / "go")
    done = harness.finish(process)
    result = json.loads(done.out)
    jsonschema.Draft202012Validator(brig.schema("run")).validate(result)
    notes = result["folders"][0]["commit"]["notes"]
    assert [(n["what"], n["path"]) for n in notes] == [("conflict", "README")] and done.code != 0


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "src/../../outside", "/proc/self/root", ".."])
def test_links_that_lead_out_are_refused(brig, tree, target):
    done = sh(brig, f"ln -s {target} evil; ln -sf {target} link; echo fine > other", "--overlay", ".", "--commit")
    assert done.code != 0 and "refused" in done.error, done
    assert not os.path.lexists(tree / "evil") and os.readlink(tree / "link") == "README" and (tree / "other").exists()


def test_devices_pipes_and_sockets_are_refused(brig, tree):
    done = sh(brig, "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; echo fine > other", "--overlay", ".", "--commit")
    assert done.code != 0 and "refused" in done.error
    assert not os.path.lexists(tree / "pipe") and not os.path.lexists(tree / "socket") and (tree / "other").exists()


def test_setuid_bits_do_not_come_back(brig, tree):
    sh(brig, "cp /bin/true suid; chmod 4755 suid; chmod 6755 README; mkdir d; chmod 2777 d", "--overlay", ".", "--commit")
    for path in tree.rglob("*"):
        assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID), path


def test_another_hard_link_on_the_host_is_not_written_through(brig, tree):
    other = brig.folder / "other-name"
    os.link(tree / "README", other)
    time.sleep(0.02)
    done = sh(brig, "echo changed > README", "--overlay", ".", "--commit")
    assert done.code == 0, done
    assert (tree / "README").read_text() == "changed\n" and other.read_text() == "content of README\n"


def test_hostile_names_come_back_as_they_are_and_print_harmlessly(brig, tree):
    code = "import os\nfor n in [b'-rf', b'a b', b'\\xff\\xfe', b'new\\nline', b'\\x1b]0;x\\x07', b'..x', b'a -> b', b'x' * 255]: open(n, 'w').write('x')"
    done = brig.run("--overlay", ".", "--diff", "--commit", "--", "python3", "-c", code)
    assert done.code == 0, done
    assert {b"-rf", b"a b", b"\xff\xfe", b"new\nline", b"\x1b]0;x\x07", b"..x", b"a -> b", b"x" * 255} <= set(os.listdir(os.fsencode(tree)))
    assert b"\x1b" not in done.out and done.out.count(b"\n") == 8


def test_a_thousand_files_come_back(brig, tree):
    done = brig.run("--overlay", ".", "--commit", "--", "python3", "-c",
                    "import os\nfor i in range(1000): os.makedirs(f'many/d{i % 10}', exist_ok=True); open(f'many/d{i % 10}/f{i}', 'w').write(str(i))")
    assert done.code == 0, done
    assert sum(len(files) for _, _, files in os.walk(tree / "many")) == 1000 and (tree / "many/d7/f7").read_text() == "7"


def test_root_brings_changes_back_to_a_users_tree(brig, accounts):
    if not brig.who.is_root:
        pytest.skip("needs root")
    user = accounts["user"]
    folder = brig.work / "theirs"
    folder.mkdir()
    (folder / "f").write_text("old")
    for path in (folder, folder / "f"):
        os.chown(path, user.uid, user.gid)
    time.sleep(0.02)
    done = sh(brig, "cd theirs; echo new > f; echo x > g; mkdir d", "--overlay", folder, "--commit")
    assert done.code == 0, done
    assert (folder / "f").read_text() == "new\n"
    assert {p.stat().st_uid for p in folder.rglob("*")} == {user.uid}


# Export


def test_export_to_a_folder(brig, tree):
    before = snapshot(tree)
    done = sh(brig, "echo result > out.txt; echo home > ~/file; echo tmp > /tmp/file; mkdir d; echo x > d/f", "--overlay", ".", "--export", "../result")
    assert done.code == 0, done
    found = {k: v[2] for k, v in snapshot(brig.folder / "result").items() if v[2] is not None}
    inside = str(brig.work)[1:]
    assert found == {"home/user/file": b"home\n", f"{inside}/out.txt": b"result\n", f"{inside}/d/f": b"x\n"}
    assert snapshot(tree) == before
    assert {p.lstat().st_uid for p in (brig.folder / "result").rglob("*")} == {brig.who.uid}


def test_export_to_a_tar_file(brig, tree):
    done = sh(brig, "echo result > out.txt; ln -s out.txt l; echo home > ~/file; chmod 750 out.txt", "--overlay", ".", "--export", brig.folder / "r.tar")
    assert done.code == 0, done
    with tarfile.open(brig.folder / "r.tar") as tar:
        names = {m.name: m for m in tar.getmembers()}
        inside = str(brig.work)[1:]
        assert tar.extractfile(f"{inside}/out.txt").read() == b"result\n" and names[f"{inside}/out.txt"].mode == 0o750
        assert tar.extractfile("home/user/file").read() == b"home\n" and names[f"{inside}/l"].linkname == "out.txt"
        assert all(not n.startswith(("/", "..")) for n in names)


def test_export_needs_no_overlay(brig):
    assert sh(brig, "echo home > ~/file", "--export", brig.folder / "r").code == 0
    assert (brig.folder / "r/home/user/file").read_text() == "home\n"


def test_export_of_a_failed_command_is_made_too(brig):
    """A report of a failure is what one wants most."""
    assert sh(brig, "echo log > ~/log; exit 3", "--export", brig.folder / "r").code == 3
    assert (brig.folder / "r/home/user/log").read_text() == "log\n"


@pytest.mark.parametrize("kind", ["folder", "file", "link", "dangling", "missing parent", "empty", "long"])
def test_an_export_that_cannot_be_is_refused_before_the_start(brig, kind):
    target = brig.folder / "target"
    {"folder": target.mkdir, "file": target.touch, "link": lambda: target.symlink_to(brig.work), "dangling": lambda: target.symlink_to("nowhere"),
     "missing parent": lambda: None, "empty": lambda: None, "long": lambda: None}[kind]()
    name = {"missing parent": target / "x" / "y", "empty": "", "long": "x" * 5000}.get(kind, target)
    said = brig.refused("run", "--allow-write", ".", "--export", name, "--", "touch", "canary")
    assert "--export" in said
    assert not (brig.work / "canary").exists()


def test_export_refuses_what_leads_out(brig):
    done = sh(brig, "ln -s /etc/passwd ~/evil; ln -s ../../.. ~/up; mkfifo ~/pipe; echo x > ~/fine", "--export", brig.folder / "r")
    assert done.code != 0 and "refused" in done.error
    assert os.listdir(brig.folder / "r/home/user") == ["fine"]


def test_export_in_json(brig):
    """The object tells of the command; the status of brig says besides that something was left out."""
    done = brig.run("--json", "--export", brig.folder / "r", "--", "sh", "-c", "echo x > ~/f; mkfifo ~/p; exit 0")
    result = json.loads(done.out)
    jsonschema.Draft202012Validator(brig.schema("run")).validate(result)
    assert (result["exit_code"], done.code) == (0, 125)
    assert [n["what"] for n in result["export"]["notes"]] == ["refused"] and result["export"]["applied"] >= 1


# Several, and with other rules


def test_several_overlays(brig):
    for name in ("one", "two"):
        brig.who.mkdir(brig.work / name)
        brig.who.write(brig.work / name / "f", name)
    time.sleep(0.02)
    done = sh(brig, "echo x > one/f; echo y > two/g; echo z > h", "--overlay", "one", "--overlay", "two", "--diff")
    assert done.out == f"{brig.work}/one:\nM f\n{brig.work}/two:\nA g\n".encode(), done
    assert not (brig.work / "two/g").exists()
    assert sh(brig, "echo x > one/f; echo y > two/g", "--overlay", "one", "--overlay", "two", "--commit").code == 0
    assert (brig.work / "one/f").read_text() == "x\n" and (brig.work / "two/g").read_text() == "y\n"


def test_an_overlay_inside_a_writable_tree(brig):
    brig.who.mkdir(brig.work / "copy")
    brig.who.write(brig.work / "copy" / "f", "old")
    time.sleep(0.02)
    done = sh(brig, "echo x > direct; echo y > copy/f; cat copy/f; mv copy elsewhere; true", "--allow-write", ".", "--overlay", "copy", "--diff")
    assert (done.code, done.out) == (0, b"y\nM f\n"), done
    assert (brig.work / "direct").read_text() == "x\n" and (brig.work / "copy/f").read_text() == "old" and not (brig.work / "elsewhere").exists()


def test_a_writable_tree_inside_an_overlay(brig):
    brig.who.mkdir(brig.work / "out")
    time.sleep(0.02)
    done = sh(brig, "echo x > out/direct; echo y > copied", "--overlay", ".", "--allow-write", "out", "--diff")
    assert (done.code, done.out) == (0, b"A copied\n"), done
    assert (brig.work / "out/direct").read_text() == "x\n" and not (brig.work / "copied").exists()
    assert sh(brig, "echo z > out/again; echo w > copied", "--overlay", ".", "--allow-write", "out", "--commit").code == 0
    assert (brig.work / "out/again").read_text() == "z\n" and (brig.work / "copied").read_text() == "w\n"


def test_a_hidden_and_a_protected_folder_inside_an_overlay(brig):
    for name in ("secret", "ro"):
        brig.who.mkdir(brig.work / name)
        brig.who.write(brig.work / name / "f", name)
    time.sleep(0.02)
    done = sh(brig, "cat secret/f; cat ro/f; echo x > ro/f; rm -rf secret ro; echo y > new", "--overlay", ".", "--deny", "secret", "--allow-read", "ro", "--diff", "--commit")
    assert b"secret" not in done.out.replace(b"ro", b"") and (brig.work / "secret/f").read_text() == "secret" and (brig.work / "ro/f").read_text() == "ro"
    assert (done.code, done.out) == (0, b"roA new\n"), done


def test_an_overlay_of_a_file_is_refused(brig):
    brig.who.write(brig.work / "f", "x")
    assert "directory" in brig.refused("run", "--overlay", "f", "--", "true")


def test_an_overlay_of_somebody_elses_folder_is_told(brig):
    """An ordinary user has only one id to give to copies."""
    if brig.who.is_root or not brig.who.is_switched:
        pytest.skip("needs a user, and root to give a folder away")
    folder = brig.folder / "theirs"
    folder.mkdir(mode=0o755)
    assert "chown" in brig.refused("run", "--overlay", folder, "--", "true")


def test_a_full_disk_in_an_overlay_is_reason_disk_and_commits_nothing(brig, tree):
    result = brig.json("--overlay", ".", "--disk", "64K", "--commit", "--", "sh", "-c", "head -c 1000000 /dev/zero > big")
    assert result["reason"] == "disk" and result["exit_code"] != 0
    assert not (tree / "big").exists()


def test_git_works_in_an_overlay_and_its_commit_comes_back(brig):
    subprocess.run([*brig.who.prefix(), "git", "init", "-q", "-b", "main", brig.work], check=True, env=brig.env())
    time.sleep(0.02)
    script = "echo x > f; git add f; git -c user.name=n -c user.email=a@b commit -qm one; git log --format=%s"
    done = sh(brig, script, "--overlay", ".", "--commit")
    assert (done.code, done.text) == (0, "one\n"), done
    log = subprocess.run([*brig.who.prefix(), "git", "-C", brig.work, "log", "--format=%s"], capture_output=True, text=True, env=brig.env())
    assert log.stdout == "one\n", log.stderr
    fsck = subprocess.run([*brig.who.prefix(), "git", "-C", brig.work, "fsck"], capture_output=True, env=brig.env())
    assert fsck.returncode == 0


def test_a_folder_behind_a_link_is_committed_where_it_is(brig):
    """The path inside is the one that was named; what comes back goes to the real folder."""
    real = brig.who.mkdir(brig.folder / "real")
    brig.who.mkdir(real / "project")
    (brig.folder / "link").symlink_to("real")
    brig.who.write(brig.folder / "p.yaml", f'version: 1\nextends: [base]\nfs:\n  "{brig.folder}/link/project": overlay\n')
    time.sleep(0.02)
    done = sh(brig, f"echo x > {brig.folder}/link/project/new", "--policy", brig.folder / "p.yaml", "--commit")
    assert done.code == 0, done
    assert (real / "project" / "new").read_text() == "x\n"
