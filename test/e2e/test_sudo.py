"""sudo in a sandbox whose system is its own: init starts the command, and no_new_privs stays."""

import os
import signal
import subprocess

import pexpect
import pytest

import harness
from test_terminal import Terminal, end

pytestmark = pytest.mark.tier("container")


@pytest.fixture
def box(brig):
    return brig.create("--policy", "interpreter")


@pytest.fixture
def terminal(brig):
    terminal = Terminal(brig)
    yield terminal
    if terminal.child:
        terminal.child.close(force=True)


def sh(box, script, **more):
    return box.exec("sh", "-c", script, **more)


def at_terminal(terminal, box, *words):
    return terminal.start(terminal.brig.command("exec", "-it", box.id, *words))


def test_the_user_becomes_root(brig, box):
    done = sh(box, "id -u; sudo id -u; sudo -n sh -c 'echo $HOME $USER $LOGNAME $SUDO_USER $SUDO_UID'; grep NoNewPrivs /proc/self/status; sudo grep NoNewPrivs /proc/self/status")
    root = ["0", "/root root root user 1000"] if brig.who.is_root else ["1000", "/home/user user user user 1000"]
    assert done.text.splitlines() == ["1000", *root, "NoNewPrivs:\t1", "NoNewPrivs:\t1"], done


def test_what_people_do_with_it(brig, box):
    if not brig.who.is_root:
        pytest.skip("an ordinary user's sandbox has no root: run the tests as root")
    done = sh(box, """set -e
echo 127.0.0.9 there | sudo tee -a /etc/hosts >/dev/null; tail -n 1 /etc/hosts
printf '#!/bin/sh\\necho tool\\n' > tool; sudo install -m 755 tool /usr/local/bin/tool; tool
mkdir mine; chmod 700 mine; touch mine/file; sudo chown -R www-data mine; sudo ls -l mine | grep -c www-data
sudo rm -r mine; ls -d mine 2>/dev/null || echo gone
touch closed; chmod 000 closed; sudo cat closed; sudo chmod 644 closed
sleep 600 & sudo kill $!; wait $! || echo killed
sudo useradd -m other; sudo -u other sh -c 'id -un; touch ~/own; ls ~'
tar -C /tmp -cf t.tar --owner=1234 --group=1234 --files-from /dev/null; mkdir t; echo x > t/x; tar --owner=1234 --group=1234 -cf t.tar t
sudo tar -C /srv -xf t.tar; stat -c %u /srv/t/x
cd /; sudo pwd; sudo -i pwd; sudo -s echo 'a  b'
""")
    assert done.text.splitlines() == ["127.0.0.9 there", "tool", "1", "gone", "killed", "other", "own", "1234", "/", "/root", "a  b"], done


def test_a_package_is_installed(brig, box):
    if not brig.who.is_root or not os.path.isdir("/var/lib/dpkg"):
        pytest.skip("needs root and a host with dpkg")
    done = sh(box, """set -e
mkdir -p p/DEBIAN p/usr/bin p/etc
printf 'Package: brig-test\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n' > p/DEBIAN/control
printf '#!/bin/sh\\necho installed\\n' > p/usr/bin/brig-test; chmod 755 p/usr/bin/brig-test; echo c > p/etc/brig-test
printf '#!/bin/sh\\nset -e\\nchown www-data:adm /etc/brig-test\\n' > p/DEBIAN/postinst; chmod 755 p/DEBIAN/postinst
dpkg-deb --root-owner-group -b p p.deb >/dev/null
sudo dpkg -i p.deb >log 2>&1 || cat log; brig-test; stat -c %U:%G /etc/brig-test""")
    assert done.text == "installed\nwww-data:adm\n", done
    assert not os.path.exists("/usr/bin/brig-test")


def test_rights_are_those_over_the_sandbox(brig, box):
    """SETUID, SETGID, KILL, CHOWN, DAC_OVERRIDE, FOWNER of the sandbox's own ids; nobody else has any, nor keeps them."""
    if not brig.who.is_root:
        assert sh(box, "sudo grep CapEff /proc/self/status").text == "CapEff:\t0000000000000000\n"
        return
    cap = "grep -h -E 'CapPrm|CapEff|CapInh|CapAmb' /proc/self/status"
    none, some = "0000000000000000", "00000000000000eb"
    for words, expected in ((cap, none), (f"sudo {cap}", some), (f"sudo -u nobody {cap}", none),
                            (f"sudo setpriv --reuid 1000 --regid 1000 --clear-groups {cap}", none)):
        lines = dict(line.split(":\t") for line in sh(box, words).text.splitlines())
        assert set(lines.values()) - ({some} if "setpriv" in words else set()) == {expected}, (words, lines)
        assert lines["CapEff"] == expected
    assert brig("exec", "-u", "root", box.id, "sh", "-c", "grep CapEff /proc/self/status").text == f"CapEff:\t{some}\n"
    # A sandbox whose system is sealed has nobody with any.
    other = brig.create()
    assert brig("exec", "-u", "root", other.id, "grep", "CapEff", "/proc/self/status").text == f"CapEff:\t{none}\n"
    assert "sudo" not in brig("exec", other.id, "sh", "-c", "ls /usr/bin/sudo 2>/dev/null; true").text or os.path.exists("/usr/bin/sudo")


@pytest.mark.parametrize("words,line", [
    ("sudo -g adm id", "sudo: -g is not known here"), ("sudo", "sudo: what should run?"),
    ("sudo no-such-program", 'sudo: "no-such-program" was not found in PATH'),
    ("sudo -u nobody-there id", 'sudo: there is no user "nobody-there"'),
])
def test_what_is_refused(box, words, line):
    done = sh(box, words)
    assert done.code == 1 and done.out == b"" and done.error.startswith(line) and done.error.count("\n") == 1, done


def test_what_has_nothing_to_do(box):
    assert sh(box, "sudo -v && sudo -k && sudo -K && sudo -l && sudo -V && sudo -h").code == 0


def test_another_user_where_there_is_one_only(brig, box):
    if brig.who.is_root:
        pytest.skip("root's sandboxes have all users")
    done = sh(box, "sudo -u daemon id")
    assert (done.code, done.out, done.error) == (1, b"", 'sudo: this sandbox has one user only, not "daemon"\n')
    assert brig("exec", "-u", "root", box.id, "id", "-u").text == "1000\n"


def test_it_is_read_only_and_not_the_hosts(brig, box):
    done = sh(box, "sudo sh -c 'echo x > /usr/bin/sudo; chmod 4755 /usr/bin/sudo; touch /usr/bin/sudo; rm -f /usr/bin/sudo'; sudo id -u")
    assert done.code == 0 and done.error.count("\n") >= 3
    assert subprocess.run([brig.exe.parent / "brig-init"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 1


def test_a_sandbox_from_an_image_has_it(brig, box):
    assert sh(box, "echo x > ~/file").code == 0
    assert brig("snapshot", box.id, "kept").code == 0
    other = brig.create("--policy", "interpreter", "--from", "kept")
    assert sh(other, "sudo cat ~/file").text == "x\n"
    assert brig("diff", box.id).text.count("sudo") == 0


def test_it_works_after_a_pause(brig, box):
    assert brig("pause", box.id).code == 0 and brig("resume", box.id).code == 0
    assert sh(box, "sudo echo on").text == "on\n"


def test_many_at_once(box):
    # What carries them ends after them.
    done = sh(box, "for i in $(seq 40); do sudo echo $i & done | sort -n | tail -n 1\n"
                   "while ps -eo comm | grep -q brig-init-sudo; do sleep 0.05; done; echo none")
    assert done.text == "40\nnone\n"


def test_the_end_of_the_sandbox_is_that_of_its_commands(brig, box, mark):
    box.detach("sudo", "sh", "-c", f"sleep 600; : {mark}")
    harness.wait_until(lambda: len(harness.marked(mark)) >= 2, lambda: "it did not start")
    assert brig("kill", box.id).code == 0
    assert not harness.marked(mark)


# At a terminal


def test_a_shell_of_root_has_a_terminal_and_jobs(brig, terminal, box):
    child = at_terminal(terminal, box, "sudo", "PS1=in> ", "bash", "--norc", "--noprofile", "-i")
    child.expect_exact(b"in> ")
    child.send(b"tty; id -u\r")
    child.expect_exact(b"/dev/pts/")
    child.expect_exact(b"0" if brig.who.is_root else b"1000")
    child.expect_exact(b"in> ")
    child.send(b"sh -c 'echo up; exec sleep 500'\r")
    child.expect_exact(b"\nup\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.send(b"exit 4; exit 4\r")
    child.expect_exact(b"in> ")
    child.send(b"exit 4\r")
    assert end(child)[0] == 4


def test_ctrl_c_reaches_the_command(terminal, box):
    child = at_terminal(terminal, box, "sudo", "sh", "-c", "echo ready; exec sleep 600")
    child.expect_exact(b"ready")
    child.send(b"\x03")
    assert end(child)[0] == 128 + signal.SIGINT


def test_ctrl_c_where_it_has_no_terminal_of_its_own(terminal, box):
    child = at_terminal(terminal, box, "sh", "-c", "sudo sh -c 'echo ready >&2; exec sleep 600' | cat")
    child.expect_exact(b"ready")
    child.send(b"\x03")
    end(child)
    harness.wait_until(lambda: sh(box, "ps -eo args | grep -c '[s]leep 600'").text == "0\n", "the command to end")


def test_ctrl_z_and_fg(terminal, box):
    child = at_terminal(terminal, box, "env", "PS1=out> ", "bash", "--norc", "--noprofile", "-i")
    child.expect_exact(b"out> ")
    child.send(b"sudo sh -c 'echo ready; read x; echo got $x'\r")
    child.expect_exact(b"ready\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.expect_exact(b"out> ")
    child.send(b"echo here\r")
    child.expect_exact(b"here\r\n")
    child.send(b"fg\r")
    child.expect_exact(b"sudo sh -c")
    child.send(b"word\r")
    child.expect_exact(b"got word")
    child.expect_exact(b"out> ")
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


def test_the_size_is_passed(terminal, box):
    child = terminal.start(terminal.brig.command("exec", "-it", box.id, "sudo", "stty", "size"), size=(31, 77))
    child.expect_exact(b"31 77")
    assert end(child)[0] == 0


# Opens the memory of whatever is init's: what it starts shares it until the program is executed, and to
# look for that one takes longer than to find the process.
READER = """
import os, subprocess, sys
path = ":".join(f"/tmp/{i}" for i in range(1000))
asks = subprocess.Popen(["sudo", "PATH=" + path, "nothing"], stderr=subprocess.DEVNULL)
met = 0
while asks.poll() is None:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if not open(f"/proc/{pid}/comm").read().startswith("brig-init-sudo"):
                continue
            met += 1
            os.open(f"/proc/{pid}/mem", os.O_RDWR)
        except OSError:
            continue
        print("open", open(f"/proc/{pid}/status").read())
        sys.exit(1)
print("closed" if met else "not met")
"""


def test_what_becomes_root_shares_no_memory_with_root(brig):
    if not brig.who.is_root:
        pytest.skip("an ordinary user's sandbox has no root: run the tests as root")
    # As the first there is: when init has started something as another user, its memory is closed by that.
    done = harness.in_time(lambda: brig.create("--policy", "interpreter").exec("python3", "-c", READER, options=("-u", "root")),
                           lambda done: done.text != "not met\n")
    assert done.text == "closed\n", done
