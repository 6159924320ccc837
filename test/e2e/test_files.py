"""What a command can read and change, what it inherits, and what is left of it."""

import os
import resource
import shutil
import socket
import stat
import subprocess

import pytest

import harness


def sh(brig, script, *options, **more):
    return brig.run(*options, "--", "sh", "-c", script, **more)


def test_the_working_directory_is_read_only_by_default(brig):
    brig.who.write(brig.work / "file", "content")
    done = sh(brig, "cat file; echo x > file; touch new; rm file; mkdir d; mv file g; ln -s a b; ln file h")
    assert done.out == b"content"
    assert [p.name for p in brig.work.iterdir()] == ["file"]
    assert (brig.work / "file").read_text() == "content"


def test_allow_write_opens_a_tree_and_nothing_else(brig):
    out = brig.who.mkdir(brig.work / "out")
    script = "mkdir out/a && echo x > out/a/b && mv out/a/b out/c && ln -s c out/l && rm out/l; touch beside"
    assert sh(brig, script, "--allow-write", "out").code == 1
    assert (out / "c").read_text() == "x\n"
    assert sorted(p.name for p in brig.work.iterdir()) == ["out"]


def test_a_single_file_can_be_opened_for_writing(brig):
    brig.who.write(brig.work / "log", "a\n")
    assert sh(brig, "echo b >> log; touch other; true", "--allow-write", "log").code == 0
    assert (brig.work / "log").read_text() == "a\nb\n"
    assert not (brig.work / "other").exists()


def test_secrets_of_the_home_are_out_of_reach(brig):
    ssh = brig.who.mkdir(brig.home / ".ssh", 0o700)
    key = brig.who.write(ssh / "id_rsa", "CANARY-KEY", 0o600)
    brig.who.write(brig.home / ".netrc", "CANARY-NET", 0o600)
    for script in (f"cat {key}", f"cat {brig.home}/.netrc", f"ls {brig.home}", f"cat /proc/1/environ",
                   f"cat {brig.work}/../home/.ssh/id_rsa"):
        done = sh(brig, script)
        assert done.code != 0 and b"CANARY" not in done.out


def test_system_secrets_are_out_of_reach(brig):
    """A container has a /root of its own, with nothing in it but the toolchains that the policy shows."""
    for path in ("/etc/shadow", "/etc/gshadow", "/root", "/var/log", "/etc/ssh", "/proc/kcore", "/dev/mem", "/boot"):
        if os.path.exists(path):
            done = sh(brig, f"if [ -d {path} ]; then ls -A {path}; else cat {path}; fi")
            is_own = brig.is_container and path in ("/root", "/proc/kcore")
            assert done.out == b"" and (done.code != 0 or is_own), path


def test_deny_closes_what_the_policy_opens(brig):
    other = brig.who.mkdir(brig.folder / "other")
    brig.who.write(other / "file", "x")
    assert sh(brig, f"cat {other}/file", "--allow-read", other).out == b"x"
    assert sh(brig, f"cat {other}/file", "--allow-read", other, "--deny", other).code != 0


def test_a_path_of_a_flag_must_exist(brig):
    for flag in ("--allow-read", "--allow-write"):
        assert "does not exist (create it first)" in brig.refused("run", flag, "nowhere", "--", "true")
    assert brig.run("--deny", "/nowhere", "--", "true").code == 0


# test_rules.py has rules that lie in each other.


def secrets(brig):
    """A home with secrets, some of them not there yet."""
    ssh = brig.who.mkdir(brig.home / ".ssh", 0o700)
    brig.who.write(ssh / "id_rsa", "CANARY-KEY", 0o600)
    brig.who.write(brig.home / ".netrc", "CANARY-NET", 0o600)
    brig.who.write(brig.home / "notes", "notes")


@pytest.mark.parametrize("how", [[], ["--allow-write", "."]], ids=["read", "write"])
def test_running_in_the_home_itself_hides_its_secrets(brig, how):
    """The nearest rule decides: the folder is open, .ssh in it is not, and nothing can come in its place."""
    secrets(brig)
    script = ("cat notes; cat .ssh/id_rsa; ls .ssh; cat .netrc; mv .ssh away; rm -rf .ssh .netrc; mv .netrc away; mkdir .kube .aws;"
              "echo x > .npmrc; ln -s notes .pypirc; true")
    done = brig.run(*how, "--", "sh", "-c", script, cwd=brig.home)
    assert (done.code, done.out) == (0, b"notes"), done
    assert sorted(p.name for p in brig.home.iterdir()) == [".netrc", ".ssh", "notes"]
    assert (brig.home / ".ssh" / "id_rsa").read_text() == "CANARY-KEY"


def test_a_home_behind_a_link_is_still_hidden(brig):
    secrets(brig)
    link = brig.folder / "link"
    link.symlink_to(brig.home)
    for cwd in (brig.home, link):
        done = sh(brig, "cat notes .ssh/id_rsa .netrc", cwd=cwd, env={"HOME": link})
        assert done.out == b"notes"


# Symbolic links


def test_a_link_inside_a_writable_tree_is_refused_as_a_rule(brig):
    """An earlier run could have put it there, to get its target opened."""
    victim = brig.who.mkdir(brig.folder / "victim")
    (brig.work / "link").symlink_to(victim)
    said = brig.refused("run", "--allow-write", ".", "--allow-write", "link", "--", "touch", "link/canary")
    assert "symbolic link" in said
    brig.refused("run", "--allow-write", ".", "--allow-read", "link", "--", "true")
    if brig.is_container:
        assert "symbolic link" in brig.refused("run", "--overlay", ".", "--allow-read", "link", "--", "true")
    (brig.work / "way").symlink_to(brig.folder)
    assert "symbolic link" in brig.refused("run", "--allow-write", ".", "--allow-write", "way/victim", "--", "true")
    assert list(victim.iterdir()) == []


def test_a_link_made_inside_leads_nowhere(brig):
    victim = brig.who.write(brig.folder / "victim", "old")
    done = sh(brig, f"ln -s {victim} l && ln -s {brig.folder} d; cat l; echo new > l; touch d/x; true", "--allow-write", ".")
    assert done.out == b"" and victim.read_text() == "old"
    assert not (brig.folder / "x").exists()


def test_a_link_outside_writable_trees_is_followed(brig):
    real = brig.who.mkdir(brig.folder / "real")
    brig.who.write(real / "file", "x")
    (brig.folder / "name").symlink_to(real)
    brig.who.own(brig.folder / "name")
    assert sh(brig, f"cat {brig.folder}/name/file", "--allow-read", brig.folder / "name").out == b"x"


def test_dangling_and_circular_links_are_refused(brig):
    (brig.folder / "circle").symlink_to("circle")
    (brig.folder / "dangling").symlink_to("nowhere")
    for name in ("circle", "dangling"):
        brig.refused("run", "--allow-read", brig.folder / name, "--", "true")


# TMPDIR and HOME


def base_is_a_link(brig):
    path = brig.folder / "t"
    path.symlink_to(brig.tmp)
    return path


def base_behind_a_link(brig):
    brig.who.mkdir(brig.tmp / "sub")
    path = brig.folder / "t"
    path.symlink_to(brig.tmp)
    return path / "sub"


def base_is_open_to_all(brig):
    return brig.who.mkdir(brig.folder / "t", 0o777)


def base_is_open_to_the_group(brig):
    return brig.who.mkdir(brig.folder / "t", 0o770)


def base_is_a_file(brig):
    return brig.who.write(brig.folder / "t")


def base_is_read_only(brig):
    if brig.who.is_root:
        pytest.skip("root can write everywhere")
    return brig.who.mkdir(brig.folder / "t", 0o555)


def base_belongs_to_another(brig):
    if not brig.who.is_root:
        pytest.skip("needs root to give a folder away")
    path = brig.who.mkdir(brig.folder / "t")
    os.chown(path, 12345, 12345)
    return path


@pytest.mark.tier("process")
@pytest.mark.parametrize("make", [
    lambda brig: brig.folder / "missing", base_is_a_link, base_behind_a_link, base_is_open_to_all,
    base_is_open_to_the_group, base_is_a_file, base_is_read_only, base_belongs_to_another,
    lambda brig: "/" + "x/" * 3000], ids=["missing", "link", "behind a link", "open to all", "open to the group", "file",
                                           "read-only", "of another", "too long"])
def test_a_folder_for_temporary_files_that_cannot_be_trusted_is_refused(brig, make):
    base = make(brig)
    said = brig.refused("run", "--", "touch", "canary", env={"TMPDIR": base})
    assert "TMPDIR" in said or "Not a directory" in said or str(base)[:100] in said
    assert not list(brig.tmp.glob("brig-*")) and not list(brig.folder.glob("t/brig-*"))


@pytest.mark.tier("process")
def test_a_sticky_folder_for_temporary_files_is_fine(brig):
    base = brig.who.mkdir(brig.folder / "t", 0o1777)
    assert brig.run("--", "true", env={"TMPDIR": base}).code == 0
    assert list(base.iterdir()) == []


@pytest.mark.tier("container")
def test_a_container_does_not_care_where_the_callers_temporary_files_are(brig):
    for base in (brig.folder / "missing", brig.who.mkdir(brig.folder / "open", 0o777), "/" + "x/" * 3000, "relative", ""):
        assert sh(brig, "echo $TMPDIR", env={"TMPDIR": base}).out == b"/tmp\n"


@pytest.mark.tier("container")
def test_a_container_has_a_home_of_its_own(brig):
    """Home, temporary folders and shared memory are empty, the user's own, and gone afterwards."""
    script = ('echo $HOME $TMPDIR; stat -c "%a %U" ~ /tmp /var/tmp /dev/shm; find ~ /tmp /var/tmp /dev/shm -mindepth 1 | '
              'grep -v "^${PWD%/*/*}\\|^/var/tmp/brig"; for d in ~ /tmp /var/tmp /dev/shm; do echo x > $d/file && cat $d/file; done; cd; pwd')
    done = sh(brig, script)
    assert done.text.splitlines() == ["/home/user /tmp", "755 user", "1777 user", "1777 user", "1777 user",
                                      *["x"] * 4, "/home/user"], done
    assert not os.path.exists("/home/user/file") and not os.path.exists("/dev/shm/file")
    assert sh(brig, "ls ~ /dev/shm").out == b"/dev/shm:\n\n/home/user:\n"


@pytest.mark.tier("process")
def test_home_and_tmpdir_are_private_and_go_away(brig):
    done = sh(brig, 'echo $HOME; [ "$HOME" = "$TMPDIR" ]; stat -c "%a %u" $HOME; echo x > ~/file; cat ~/file; cd; pwd')
    home = done.text.splitlines()[0]
    assert done.text.splitlines() == [home, f"700 {brig.who.uid}", "x", home]
    assert home.startswith(f"{brig.tmp}/brig-")
    assert not os.path.exists(home)


def test_the_callers_home_can_be_passed_by_name(brig):
    assert sh(brig, "echo $HOME", "--env", "HOME").text.strip() == str(brig.home)


HOSTILE = {
    "names": "import os\nfor n in [b'-rf', b'a b', b'\\xff\\xfe', b'new\\nline', b'*', b'..x', b'.hidden', b'$(x)', b'\\\\', b'.brig-0',"
             " b'x' * 255]:\n  os.mkdir(n)\n  open(n + b'/' + n, 'w').close()",
    "deep": "import os\nfor i in range(1000): os.mkdir('d'); os.chdir('d')",
    "deep with long names": "import os\nfor i in range(300): os.mkdir('d' * 255); os.chdir('d' * 255)",
    "closed": "import os\nos.makedirs('a/b/c')\nopen('a/b/c/f', 'w').close()\n"
              "os.chmod('a/b/c', 0)\nos.chmod('a/b', 0o100)\nos.chmod('a', 0)\nos.chmod('.', 0o500)",
    "many": "import os\nfor i in range(5000): open(f'f{i}', 'w').close()",
    "wide and deep": "import os\nfor i in range(30):\n  for k in range(30): os.makedirs(f'd{i}/e{k}/f')\n",
    "links": "import os\nos.symlink('/', 'root'); os.symlink('..', 'up'); os.symlink('self', 'self'); os.mkdir('d'); os.symlink('/etc', 'd/etc')",
    "special": "import os, socket\nos.mkfifo('fifo'); a, b = socket.socketpair(); os.mkdir('d'); os.mkfifo('d/fifo')",
    "hard links": "import os\nopen('f', 'w').close()\nos.mkdir('d')\nfor i in range(100): os.link('f', f'd/l{i}')",
    "open and deleted": "import os\nf = open('f', 'w'); os.unlink('f'); os.mkdir('d'); os.chdir('d'); os.rmdir('../d')",
    "moved away": "import os\nos.makedirs('a/b')\nos.rename('a/b', 'c')\nos.mkdir('c/d')",
}


@pytest.mark.tier("process")  # a container's folders are memory that vanishes
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_private_folder_goes_away_whatever_is_in_it(brig, kind):
    code = "import os; os.chdir(os.environ['TMPDIR'])\n" + HOSTILE[kind]
    done = brig.python(code)
    assert done.code == 0, done.error
    assert list(brig.tmp.iterdir()) == []


def test_what_links_in_the_private_folder_point_at_stays(brig):
    victim = brig.who.mkdir(brig.folder / "victim")
    brig.who.write(victim / "file", "x", 0o600)
    out = brig.who.mkdir(brig.work / "out")
    brig.who.write(out / "kept", "y", 0o640)
    script = f"ln -s {victim} $TMPDIR/a; ln -s {victim}/file $TMPDIR/b; ln -s $PWD/out $TMPDIR/c; mkdir $TMPDIR/d; ln -s {victim} $TMPDIR/d/e"
    assert sh(brig, script, "--allow-write", "out").code == 0
    assert (victim / "file").read_text() == "x" and (out / "kept").read_text() == "y"
    assert stat.S_IMODE((victim / "file").stat().st_mode) == 0o600


# Environment, descriptors, cores


def test_only_allowed_variables_pass(brig):
    env = {"CANARY_TOKEN": "leak", "AWS_SECRET_ACCESS_KEY": "leak", "LD_PRELOAD": "", "LC_ALL": "C", "TERM": "dumb",
           "SSH_AUTH_SOCK": "/leak", "PYTHONPATH": "/leak", "BASH_ENV": "/leak"}
    lines = brig.run("--", "env", env=env).text.splitlines()
    names = {line.split("=")[0] for line in lines}
    assert names <= {"PATH", "LANG", "LC_ALL", "TERM", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL"}
    assert "LC_ALL=C" in lines and "TERM=dumb" in lines and "leak" not in "\n".join(lines)


def test_env_passes_a_variable_and_sets_one(brig):
    env = {"TOKEN": "from outside", "OTHER": "no"}
    text = brig.run("--env", "TOKEN", "--env", "SET=a=b c", "--env", "EMPTY=", "--env", "ABSENT", "--", "env", env=env).text
    lines = text.splitlines()
    assert {"TOKEN=from outside", "SET=a=b c", "EMPTY="} <= set(lines)
    assert "OTHER" not in text and "ABSENT" not in text
    assert "TOKEN=mine" in brig.run("--env", "TOKEN=mine", "--", "env", env=env).text.splitlines()


def test_odd_variables_of_the_caller_do_no_harm(brig):
    done = brig("run", "--env", "A*", "--", "env", before=["env", "-i", "A1=x\ny", "=nothing", "A2=\udcff", f"TMPDIR={brig.tmp}", f"HOME={brig.home}"])
    assert done.code == 0 and "A1=x\ny" in done.out.decode(errors="replace")


def test_without_a_home_a_command_runs_and_has_its_private_one(brig):
    own = "/home/user" if brig.is_container else f"{brig.tmp}/brig-"
    assert sh(brig, "echo $HOME", env={"HOME": None}).text.startswith(own)


def test_inherited_descriptors_are_closed(brig):
    secret = brig.who.write(brig.folder / "secret", "SECRET", 0o600)
    with open(secret) as file:
        fd = file.fileno()
        inside = brig.start("run", "--", "sh", "-c", "ls /proc/self/fd; cat <&7", pass_fds=[fd],
                            before=["bash", "-c", f'exec 7<&{fd}; exec "$@"', "bash"])
        done = harness.finish(inside)
    assert done.out.split() == [b"0", b"1", b"2", b"3"]  # 3 is ls's own


def test_nothing_dumps_core(brig):
    assert sh(brig, "ulimit -c; ulimit -Hc").out.split() in ([b"0", b"0"], [b"1", b"1"])
    done = sh(brig, "cd $TMPDIR; sh -c 'kill -SEGV $$'; ls -a | grep -c core", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2))
    assert done.out.split()[-1] == b"0"


def test_privileges_are_gone(brig):
    """Through a second execve: that is where uid 0 would get capabilities back from the bounding set."""
    done = brig.run("--", "sh", "-c", "exec cat /proc/self/status")
    status = dict(line.split(":\t", 1) for line in done.text.splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0
    assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2"


@pytest.mark.tier("container")
def test_the_network_of_a_container_leads_nowhere(brig):
    """Sockets can be made; there is one device, loopback, and nobody of the host behind it. 192.0.2.1 is an address of its own,
    and a question to any name server is one to the gate's."""
    with socket.create_server(("127.0.0.1", 0)) as host, socket.create_server(("::1", 0), family=socket.AF_INET6) as six:
        code = """
import errno, os, socket, sys
print([name for _, name in socket.if_nameindex()])
for family, address in ((socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), (socket.AF_INET6, ("::1", int(sys.argv[2]))),
                        (socket.AF_INET, ("192.0.2.1", 80)), (socket.AF_INET, ("8.8.8.8", 53)),
                        (socket.AF_INET, ("169.254.169.254", 80)), (socket.AF_INET6, ("2001:db8::1", 80))):
    s = socket.socket(family); s.settimeout(5)
    try: s.connect(address); print("connected")
    except OSError as e: print(errno.errorcode.get(e.errno, e))
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname()); server.accept()[0].send(b"inside"); print(client.recv(9))
for family in ("AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH"):
    try: socket.socket(getattr(socket, family), socket.SOCK_RAW if family == "AF_PACKET" else socket.SOCK_DGRAM); print(family, "open")
    except OSError: pass
try: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); print("raw")
except OSError: pass
"""
        done = brig.python(code, host.getsockname()[1], six.getsockname()[1])
    assert done.text.splitlines() == ["['lo']", *["ECONNREFUSED"] * 3, "connected", "EACCES", "EACCES", "b'inside'"], done


@pytest.mark.tier("container")
def test_sockets_of_the_host_are_out_of_reach(brig):
    """By name, where the policy shows their folder to read; and abstract ones, which have no folder."""
    path, abstract = brig.work / "socket", f"\0{brig.folder.name}"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(str(path))
        path.chmod(0o777)
        one.listen(1)
        two.bind(abstract)
        two.listen(1)
        code = ("import socket, sys\n"
                "for a in ('socket', '\\0' + sys.argv[1]):\n"
                "  try: socket.socket(socket.AF_UNIX).connect(a); print('connected', repr(a))\n"
                "  except OSError: print('refused')\n"
                "s = socket.socket(socket.AF_UNIX); s.bind('/tmp/own'); s.listen(1); socket.socket(socket.AF_UNIX).connect('/tmp/own'); print('own')\n")
        done = brig.python(code, abstract[1:])
    assert done.text.splitlines()[1:] == ["refused", "own"], done
    if done.text.splitlines()[0] != "refused":
        pytest.xfail("a UNIX socket of the host in a folder that the policy shows can be connected to (README: honest limits)")


@pytest.mark.tier("process")
def test_there_is_no_network(brig):
    code = ("import socket\n"
            "for f in ('AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_PACKET', 'AF_VSOCK', 'AF_UNIX'):\n"
            "  try: socket.socket(getattr(socket, f), socket.SOCK_DGRAM); print(f, 'open')\n"
            "  except OSError: pass\n"
            "socket.socketpair(); print('pair')\n")
    assert brig.python(code).out == b"pair\n"


# Modes, owners, times: Landlock does not know them, so brig answers itself.

CHANGES = {
    "chmod": "os.chmod(p, 0o777)",
    "fchmod": "os.fchmod(os.open(p, os.O_RDONLY), 0o777)",
    "chown": "os.chown(p, os.getuid(), os.getgid())",
    "utime": "os.utime(p, (1, 1))",
    "futime": "os.utime(os.open(p, os.O_RDONLY), (1, 1))",
    "setxattr": "os.setxattr(p, 'user.canary', b'x')",
    "chmod by proc": "os.chmod('/proc/self/fd/%d' % os.open(p, os.O_RDONLY), 0o777)",
}


def attributes(path):
    st = path.stat()
    try:
        names = os.listxattr(path)
    except OSError:
        names = []
    return stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, names


@pytest.mark.parametrize("change", CHANGES)
def test_attributes_outside_writable_trees_do_not_change(brig, change):
    canary = brig.who.write(brig.work / "canary", "x", 0o640)
    before, ctime = attributes(canary), canary.stat().st_ctime_ns
    code = f"import os, sys\np = sys.argv[1]\n{CHANGES[change]}"
    # It works without the walls: the same user owns the file.
    twin = brig.who.write(brig.work / "twin", "x", 0o640)
    subprocess.run([*brig.who.prefix(), "/usr/bin/python3", "-c", code, twin], check=True)
    done = brig.python(code, canary, options=["--allow-write", brig.who.mkdir(brig.work / "out")])
    assert done.code == 1 and ("PermissionError" in done.error or "OSError" in done.error), done
    assert attributes(canary) == before and canary.stat().st_ctime_ns == ctime


@pytest.mark.parametrize("change", CHANGES)
def test_attributes_inside_writable_trees_change(brig, change):
    out = brig.who.mkdir(brig.work / "out")
    canary = brig.who.write(out / "canary", "x", 0o640)
    code = f"import os, sys\np = sys.argv[1]\n{CHANGES[change]}"
    done = brig.python(code, canary, options=["--allow-write", out])
    assert done.code == 0, done.error
    if "chmod" in change:
        assert stat.S_IMODE(canary.stat().st_mode) == 0o777
    if "utime" in change:
        assert canary.stat().st_mtime == 1
    if change == "setxattr":
        assert os.getxattr(canary, "user.canary") == b"x"


def test_the_private_folder_takes_changes_of_mode(brig):
    assert sh(brig, "cd; touch f; chmod 751 f; stat -c %a f; touch -d @5 f; stat -c %Y f").out == b"751\n5\n"


def test_chmod_through_a_link_or_a_swapped_directory_reaches_nothing(brig):
    victim = brig.who.write(brig.folder / "victim", "x", 0o600)
    out = brig.who.mkdir(brig.work / "out")
    done = sh(brig, f"ln -s {victim} out/l; chmod 777 out/l; chmod 777 out/../../victim; true", "--allow-write", out)
    assert done.code == 0
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_no_setuid_file_is_left_on_the_host(brig):
    out = brig.who.mkdir(brig.work / "out")
    sh(brig, "cp /bin/true out/x; chmod 4755 out/x; chmod u+s out/x", "--allow-write", out)
    assert not (out / "x").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_gcc_links_an_executable(brig):
    brig.who.write(brig.work / "a.c", 'int puts(const char *); int main(void) { return puts("made") < 0; }\n')
    assert sh(brig, "gcc -o a a.c && ./a", "--allow-write", ".").out == b"made\n"
    assert os.access(brig.work / "a", os.X_OK)
