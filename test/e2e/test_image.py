"""--image: a folder with a system of its own as the root, and folders that are none."""

import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.tier("container")

PROGRAMS = ["sh", "ls", "cat", "id", "touch", "mkdir", "echo", "rm", "stat", "env", "mv", "readlink"]


@pytest.fixture
def image(brig):
    """A system of one static program."""
    busybox = shutil.which("busybox", path="/bin:/usr/bin")
    if not busybox or subprocess.run(["ldd", busybox], capture_output=True).returncode == 0:
        pytest.skip("needs busybox-static")
    folder = brig.who.mkdir(brig.folder / "image")
    brig.who.mkdir(folder / "bin")
    shutil.copy(busybox, folder / "bin" / "busybox")
    brig.who.own(folder / "bin" / "busybox")
    for name in PROGRAMS:
        (folder / "bin" / name).symlink_to("busybox")
    brig.who.mkdir(folder / "srv", 0o777)  # an image of root keeps root's files, and the sandbox is not root
    brig.who.write(folder / "srv" / "data", "of the image", 0o666)
    return folder


def listing(folder):
    return sorted((str(p.relative_to(folder)), p.lstat().st_mode, p.lstat().st_mtime_ns) for p in folder.rglob("*"))


def test_the_root_is_the_image(brig, image):
    done = brig.run("--image", image, "--", "sh", "-c", "cat /srv/data; id -u; ls /; ls /bin | wc -l; pwd")
    assert done.code == 0, done
    assert done.text.startswith("of the image1000\n")
    assert {"bin", "dev", "etc", "proc", "srv", "tmp"} <= set(done.text.split()) and "usr" not in done.text.split()


def test_what_is_written_to_the_image_is_gone_afterwards(brig, image):
    before = listing(image)
    done = brig.run("--image", image, "--", "sh", "-c", "echo x > /srv/data; echo y > /new; rm /srv/data; mkdir /srv/d; echo x > /srv/data; cat /srv/data /new")
    assert done.out == b"x\ny\n", done
    assert listing(image) == before
    assert brig.run("--image", image, "--", "cat", "/srv/data").out == b"of the image"


def test_the_host_is_not_there(brig, image):
    brig.who.write(brig.folder / "secret", "SECRET")
    done = brig.run("--image", image, "--", "sh", "-c", f"cat {brig.folder}/secret /etc/shadow; ls /usr /root/.ssh; ls /var/tmp; echo over")
    assert "SECRET" not in done.text and done.text.splitlines()[-1] == "over"


def test_the_working_directory_shows_in_an_image(brig, image):
    brig.who.write(brig.work / "mine", "work")
    done = brig.run("--image", image, "--", "sh", "-c", "pwd; cat mine; touch mine2")
    assert done.out == f"{brig.work}\nwork".encode(), done
    assert brig.run("--image", image, "--allow-write", ".", "--", "touch", "made").code == 0
    assert (brig.work / "made").exists()


def test_names_and_users_of_an_image(brig, image):
    """The names of the network are ours; an image without users gets ours, and keeps its own."""
    done = brig.run("--image", image, "--", "cat", "/etc/passwd", "/etc/hosts", "/etc/hostname")
    assert "user:x:1000" in done.text and "localhost" in done.text
    brig.who.mkdir(image / "etc")
    brig.who.write(image / "etc" / "passwd", "own:x:1000:1000::/home/own:/bin/sh\n")
    brig.who.write(image / "etc" / "hosts", "10.0.0.1 of-the-image\n")
    done = brig.run("--image", image, "--", "sh", "-c", "cat /etc/passwd /etc/hosts; id -un")
    assert "own:x:1000" in done.text and "of-the-image" not in done.text and done.text.splitlines()[-1] == "own"


def test_a_program_that_the_image_lacks_is_not_found(brig, image):
    for program in ("python3", "/usr/bin/python3", "bash"):
        done = brig.run("--image", image, "--", program)
        assert done.code == 127 and done.error.count("\n") == 1 and program in done.error, done


def test_an_image_without_a_shell_is_told_in_one_line(brig, image):
    (image / "bin" / "sh").unlink()
    done = brig.run("--image", image, "--", "sh", "-c", "true")
    assert done.code == 127 and done.error.count("\n") == 1 and "sh" in done.error
    brig.who.write(image / "bin" / "script", "#!/bin/sh\necho ran\n", 0o755)
    done = brig.run("--image", image, "--", "/bin/script")
    assert done.code in (126, 127) and done.error.count("\n") == 1, done


def test_an_interpreter_that_an_image_lacks_is_told(brig, image):
    """A program of the host that needs the host's loader."""
    shutil.copy("/bin/true", image / "bin" / "dynamic")
    done = brig.run("--image", image, "--", "/bin/dynamic")
    assert done.code in (126, 127) and done.error.count("\n") == 1, done


BAD = {
    "missing": lambda i: None,
    "file": lambda i: i.write_text("x"),
    "empty folder": lambda i: i.mkdir(),
    "loop": lambda i: i.symlink_to(i.name),
    "dangling": lambda i: i.symlink_to("nowhere"),
    "fifo": os.mkfifo,
    "link to a file": lambda i: i.symlink_to("/etc/hostname"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_image_is_refused_in_one_line(brig, kind):
    path = brig.folder / "bad"
    BAD[kind](path)
    for name in (path, "../bad"):
        assert "image" in brig.refused("run", "--image", name, "--", "touch", brig.tmp / "canary")
    assert not (brig.tmp / "canary").exists()


@pytest.mark.parametrize("name", ["", "x" * 5000, "/" + "y/" * 3000, "z" * 256], ids=["empty", "long", "deep", "256"])
def test_a_name_that_cannot_be_is_refused_in_one_line(brig, name):
    brig.refused("run", "--image", name, "--", "true")


def test_a_link_to_an_image_is_followed(brig, image):
    (brig.folder / "link").symlink_to("image")
    assert brig.run("--image", brig.folder / "link", "--", "cat", "/srv/data").out == b"of the image"


@pytest.mark.parametrize("point", ["dev", "proc", "etc", "tmp", "sys", "etc/resolv.conf", "etc/hosts", "dev/pts", "home", "home/user", "var/tmp"])
@pytest.mark.parametrize("target", ["/srv", "../../../../../../../../tmp", "loop"], ids=["inside", "outside", "loop"])
def test_a_mount_point_that_is_a_link_is_refused_or_replaced(brig, image, point, target):
    """Nothing of ours may land elsewhere: not on the host, and not in another place of the image."""
    path = image / point
    for parent in reversed(path.relative_to(image).parents[:-1]):
        if not (image / parent).exists():
            brig.who.mkdir(image / parent)
    path.symlink_to(path.name if target == "loop" else target)
    before = listing(image)
    done = brig.run("--image", image, "--", "sh", "-c", f"[ -L /{point} ] || echo plain; ls -A /srv; ls /proc/self/fd | wc -l")
    if done.code == 125:
        assert done.error.count("\n") == 1 and "symbolic link" in done.error and f"/{point}" in done.error, done
    else:
        assert done.text.split() == ["plain", "data", "4"], done
    assert listing(image) == before


@pytest.mark.parametrize("point", ["dev", "proc", "tmp", "etc"])
def test_a_mount_point_that_is_a_file_is_told_or_replaced(brig, image, point):
    brig.who.write(image / point, "a file")
    done = brig.run("--image", image, "--", "sh", "-c", f"[ -d /{point} ] && echo plain")
    assert done.out == b"plain\n" or (done.code == 125 and done.error.count("\n") == 1 and point in done.error), done
    assert (image / point).read_text() == "a file"


def test_links_of_an_image_stay_inside(brig, image):
    """An absolute link leads to the image's own file, never to the host's."""
    (image / "srv" / "passwd").symlink_to("/etc/passwd")
    (image / "srv" / "host").symlink_to(brig.folder)
    (image / "srv" / "up").symlink_to("../../../../../..")
    brig.who.write(brig.folder / "secret", "SECRET")
    done = brig.run("--image", image, "--", "sh", "-c", "cat /srv/passwd; cat /srv/host/secret; ls /srv/up; cat /srv/up/srv/data")
    assert "root:x:0:0" in done.text and "SECRET" not in done.text and done.text.endswith("of the image")


def test_devices_and_setuid_files_of_an_image_are_dead(brig, image):
    if not brig.who.is_root:
        pytest.skip("needs root to make a device")
    os.mknod(image / "srv" / "mem", 0o20666, os.makedev(1, 1))
    os.chmod(image / "srv" / "mem", 0o666)
    os.chmod(image / "bin" / "busybox", 0o4755)
    done = brig.run("--image", image, "--", "sh", "-c", "cat /srv/mem | head -c 1; id -u; stat -c %u /bin/busybox")
    assert done.text.splitlines()[0] == "1000"


def test_a_full_disk_in_an_image(brig, image):
    result = brig.json("--image", image, "--disk", "64K", "--", "sh", "-c", "cat /bin/busybox > /srv/copy")
    assert result["exit_code"] != 0 and result["reason"] == "disk"


def test_overlay_and_rules_inside_an_image(brig, image):
    brig.who.write(brig.work / "f", "old")
    done = brig.run("--image", image, "--overlay", ".", "--diff", "--", "sh", "-c", "echo new > f; cat f")
    assert done.out == b"new\nM f\n" and (brig.work / "f").read_text() == "old"


def test_what_is_hidden_of_an_image(brig, image):
    """A rule to hide means the image's file where no tree of the host is around."""
    brig.who.mkdir(image / "opt")
    brig.who.write(image / "opt" / "key", "SECRET")
    brig.who.write(brig.folder / "p.yaml", 'version: 1\nextends: [base]\nfs:\n  /srv/data: none\n  /opt: none\n  /not/there: none\n')
    done = brig.run("--policy", brig.folder / "p.yaml", "--image", image, "--", "sh", "-c", "cat /srv/data; ls /opt; cat /opt/key; mv /opt /opt2; rm -r /srv; cat /opt2/key /srv/data; echo over")
    assert done.code == 0 and done.text.endswith("over\n"), done
    assert "of the image" not in done.text and "SECRET" not in done.text and "key" not in done.text.replace("/key", ""), done
