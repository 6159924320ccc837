"""A system of the sandbox's own (system: own, the shipped policy "interpreter"): its root changes all of it, the host's stays."""

import errno
import json
import os
import subprocess

import pytest

import harness

pytestmark = pytest.mark.tier("container")

CHANGES = """set -e
mkdir /0; echo own > /0/file
echo 'echo tool' > /usr/local/bin/brig-tool; chmod 755 /usr/local/bin/brig-tool
rm /usr/bin/yes
echo '# more' >> /etc/profile
echo 'other:x:1234:1234::/home/other:/bin/sh' >> /etc/passwd
touch /etc/new /srv/new /var/lib/new /root/new
"""
SEEN = "cat /0/file; brig-tool; test -e /usr/bin/yes || echo gone; tail -n 1 /etc/profile; id -u other; ls /etc/new /srv/new /var/lib/new /root/new"
EXPECTED = "own\ntool\ngone\n# more\n1234\n/etc/new\n/root/new\n/srv/new\n/var/lib/new\n"


@pytest.fixture
def box(brig):
    return brig.create("--policy", "interpreter")


def sh(box, script, *options, **more):
    return box.brig("exec", *options, box.id, "--", "sh", "-c", script, **more)


def root_sh(box, script):
    """As root, where there is one; else the one user owns what root would."""
    return sh(box, script, *(["-u", "root"] if box.brig.who.is_root else []))


def host_system():
    """What a sandbox that reaches the host would change."""
    return [os.path.lexists(p) for p in ("/0", "/usr/local/bin/brig-tool", "/usr/bin/yes", "/etc/new", "/srv/new", "/var/lib/new")], \
        os.stat("/etc/profile").st_mtime_ns, os.stat("/etc/passwd").st_mtime_ns, os.stat("/usr/bin").st_mtime_ns


def only_root(brig):
    if not brig.who.is_root:
        pytest.skip("needs users of the sandbox's own: run the tests as root")


def test_root_changes_everything_and_the_host_nothing(brig, box):
    only_root(brig)
    before = host_system()
    done = sh(box, CHANGES, "-u", "root")
    assert (done.code, done.error) == (0, "")
    done = sh(box, SEEN)
    assert done.text == EXPECTED.replace("/root/new\n", "") or done.text == EXPECTED, done
    assert host_system() == before
    # Gone with it: the next one begins anew.
    other = brig.create("--policy", "interpreter")
    assert sh(other, "ls /0 /usr/local/bin/brig-tool").code == 2


def test_the_user_changes_what_is_his(brig, box):
    done = sh(box, "id -un; pwd; touch ~/a /tmp/b && echo ok; (touch /usr/x) 2>/dev/null || echo closed")
    assert done.text == "user\n/home/user\nok\nclosed\n"
    if brig.who.is_root:
        assert sh(box, "touch /x /etc/x").code != 0


def test_files_belong_to_root_as_on_the_host(brig, box):
    only_root(brig)
    done = sh(box, "stat -c '%u:%g %a %n' / /usr /usr/bin /usr/bin/env /etc /etc/passwd /etc/ssl/certs /opt /home/user")
    for line in done.text.splitlines():
        owner, mode, path = line.split()
        assert owner == ("1000:1000" if path == "/home/user" else "0:0"), line
        if path.startswith("/usr"):
            assert int(mode, 8) == os.stat(path).st_mode & 0o7777


def test_what_is_kept_has_the_system_too(brig, box):
    only_root(brig)
    assert sh(box, CHANGES, "-u", "root").code == 0
    assert brig("snapshot", box.id, "changed").code == 0
    other = brig.create("--policy", "interpreter", "--from", "changed")
    assert sh(other, SEEN, "-u", "root").text == EXPECTED
    # Once more, on top: a layer of a layer.
    assert sh(other, "rm /etc/new; echo second > /0/file; echo x > /usr/bin/yes", "-u", "root").code == 0
    assert brig("snapshot", other.id, "twice").code == 0
    third = brig.create("--policy", "interpreter", "--from", "twice")
    assert sh(third, "cat /0/file /usr/bin/yes; ls /etc/new", "-u", "root").text == "second\nx\n"
    # A sandbox that cannot show it is refused.
    assert "--system own" in brig.refused("create", "--from", "changed") or "overlay" in brig.refused("create", "--from", "changed")


def test_an_ordinary_user_owns_the_root_directory(brig, box):
    if brig.who.is_root:
        pytest.skip("root has users of the sandbox's own")
    assert sh(box, "mkdir /0 && echo x >> /etc/profile && touch /srv/a && id -u").text == "1000\n"
    walls = json.loads(brig("create", "--policy", "interpreter", "--json").text)
    brig.sandboxes.append(harness.Sandbox(brig, walls["id"]))
    assert any(w["name"] == "root" and "stay read-only" in w["value"] for w in walls["enforcement"])
    assert brig("snapshot", box.id, "mine").code == 0
    assert sh(brig.create("--policy", "interpreter", "--from", "mine"), "ls -d /0 /srv/a").text == "/0\n/srv/a\n"


def test_python_makes_environments_and_installs(brig, box):
    done = sh(box, "python3 -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix)'")
    assert done.text == "/home/user/env\n", done


def test_the_process_tier_refuses_it(brig):
    assert "needs the container tier" in brig.refused("create", "--isolation", "process", "--floor", "process", "--system", "own")


def test_a_narrower_file_seals_it(brig):
    brig.who.write(brig.work / ".brig.yaml", "version: 1\nextends: [base]\nisolation: container\n")
    box = brig.create("--policy", "interpreter")
    assert sh(box, "touch /etc/x", *(["-u", "root"] if brig.who.is_root else [])).code != 0


def test_files_that_cannot_map_ids_stay_read_only(brig, hooks):
    only_root(brig)
    made = brig("create", "--policy", "interpreter", "--json", env={"BRIG_TEST_FAIL": f"idmap={errno.EINVAL}"})
    assert made.code == 0, made
    walls = json.loads(made.text)
    box = harness.Sandbox(brig, walls["id"])
    brig.sandboxes.append(box)
    assert any("cannot map ids" in w["value"] for w in walls["enforcement"])
    assert sh(box, "mkdir /0 && touch /etc/x && (touch /usr/x || touch /opt/x) 2>/dev/null || echo closed", "-u", "root").text == "closed\n"
    # A person who asks for it is told.
    assert "cannot map ids" in brig.refused("create", "--system", "own", "--overlay", "/usr", env={"BRIG_TEST_FAIL": f"idmap={errno.EINVAL}"})


@pytest.mark.parametrize("call", ["setfsuid", "idmap"])
def test_a_veil_that_does_not_come_up_is_no_start(brig, hooks, call):
    only_root(brig)
    error = brig.refused("create", "--policy", "interpreter", env={"BRIG_TEST_FAIL": f"{call}={errno.ENOSYS}"})
    assert "was not started" in error


@pytest.fixture
def opt(brig):
    """An /opt of the test's own, with something that only root may read on the host."""
    only_root(brig)
    folder = brig.folder / "opt"
    (folder / "closed").mkdir(parents=True)
    (folder / "open").write_text("open\n")
    (folder / "secret").write_text("secret\n")
    (folder / "closed" / "file").write_text("secret\n")
    os.chmod(folder / "secret", 0o600)
    os.chmod(folder / "closed", 0o700)
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                           f"mount --bind {folder} /opt && echo ready && exec cat"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "ready\n"
        brig.outer = ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt"]
        yield folder
        brig.end_sandboxes()
        brig.outer = []
        holder.stdin.close()


READS = ("cat /opt/open /opt/secret /opt/closed/file; cp /opt/secret /tmp/copy; chmod 644 /opt/secret; cat /opt/secret; "
         "chown 1000 /opt/secret; su_cat() { setpriv --reuid 1000 --regid 1000 --clear-groups cat /opt/secret; }; su_cat; "
         "ln /opt/secret /opt/link; cat /opt/link; chmod 755 /opt/closed; cat /opt/closed/file; mv /opt/secret /opt/moved; cat /opt/moved")


def test_roots_secrets_are_not_for_its_root(brig, opt):
    """Files of the host's root look as if they were the sandbox's root's; what others may not read stays closed."""
    box = brig.create("--policy", "interpreter")
    done = sh(box, "stat -c %u /opt/secret; " + READS, "-u", "root")
    assert done.text == "0\nopen\n", done
    assert (opt / "secret").read_text() == "secret\n"
    # It can be replaced, as everything.
    assert sh(box, "rm /opt/secret; echo mine > /opt/secret; cat /opt/secret", "-u", "root").text == "mine\n"
    assert (opt / "secret").read_text() == "secret\n"


@pytest.mark.parametrize(("owner", "group", "mode"), [(65534, 65534, 0o600), (0, 65534, 0o640), (65534, 0, 0o400)])
def test_what_the_hosts_nobody_alone_may_read_stays_closed(brig, opt, owner, group, mode):
    """Services run as nobody, too: the veil is nobody of the host's."""
    os.chown(opt / "secret", owner, group)
    os.chmod(opt / "secret", mode)
    done = sh(brig.create("--policy", "interpreter"), READS, "-u", "root")
    assert done.text == "open\n", done


def test_files_of_others_in_a_folder_that_is_shown(brig, opt):
    """Rights over files are those of the sandbox's ids: a folder of the host maps its owner alone."""
    (brig.work / "of-root").write_text("secret\n")
    os.chmod(brig.work / "of-root", 0o600)
    os.chown(brig.work, 12345, 12345)
    box = brig.create("--policy", "interpreter", "--allow-write", brig.work)
    path = brig.work / "of-root"
    done = sh(box, f"cat {path}; chown 0 {path}; chmod 666 {path}; cat {path}; stat -c %u {brig.work}", "-u", "root")
    assert done.text == "1000\n", done
    assert os.stat(path).st_uid == 0 and os.stat(path).st_mode & 0o777 == 0o600


def test_without_the_veil_they_would_be(brig, opt, hooks):
    box = brig.create("--policy", "interpreter", env={"BRIG_TEST_WITHOUT": "veil"})
    assert "secret" in sh(box, READS, "-u", "root").text


def test_a_user_gets_no_setgid_bit_on_what_is_not_his(brig, box):
    """Modes with such a bit are set by the keeper, who is user 1000: not for others who could not do it."""
    only_root(brig)
    assert sh(box, "mkdir -m 700 his && mkdir -m 777 /tmp/all").code == 0
    done = sh(box, "chmod 2777 /home/user/his; chmod 2777 /tmp/all", "-u", "33")
    assert done.err.count(b"not permitted") == 2, done
    assert sh(box, "stat -c %a /home/user/his /tmp/all", "-u", "root").text == "700\n777\n"
    assert sh(box, "chmod 2700 /home/user/his; stat -c %a /home/user/his").text == "2700\n"
    assert sh(box, "chmod 2750 /home/user/his; stat -c %a /home/user/his", "-u", "root").text == "2750\n"
