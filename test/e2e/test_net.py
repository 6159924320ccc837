"""The gate: real programs through it, and what they may not reach, seen from the other end of the wire."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import harness
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "egress"))
import internet  # noqa: E402
from world import World  # noqa: E402


@pytest.fixture(scope="session")
def world():
    if os.geteuid() != 0:
        pytest.skip("needs root to make a network that both users can be in")
    folder = tempfile.mkdtemp(prefix="brig-net-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    made = World(folder, is_root=True)
    try:
        if not made.works:
            pytest.skip(f"needs network namespaces: {made.why()}")
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


class Net:
    def __init__(self, brig, world):
        self.brig, self.world = brig, world
        brig.outer = world.shell(work=brig.work)
        brig.who.write(brig.work / "ca.pem", (world.dir / "crt.pem").read_text())
        world.quiet()

    def allow(self, *rules):
        return [word for rule in rules for word in ("--allow-net", rule)]

    def run(self, rules, *command, **options):
        return self.brig.run(*self.allow(*rules), "--", *command, **options)

    def json(self, rules, *command, **options):
        return self.brig.json(*self.allow(*rules), "--", *command, **options)

    def reached(self):
        """Where packets went, DNS to the host's own server aside."""
        return {tuple(key.split(" ")[1:]) for key in self.world.ask("look")["packets"]} - {("93.184.216.1", "53")}

    def queries(self):
        return {name for name, _ in self.world.ask("look")["queries"]}


@pytest.fixture
def net(brig, world):
    return Net(brig, world)


WEB = (internet.HOST, "80")
TLS = (internet.HOST, "443")

PROGRAMS = {
    "curl": ("good.test:80", ["curl", "-sS", "-m", "20", "http://good.test/512"], WEB),
    "curl tls": ("good.test:443", ["curl", "-sS", "-m", "20", "--cacert", "ca.pem", "https://good.test/512"], TLS),
    "wget": ("good.test:80", ["wget", "-q", "-T", "20", "-O", "-", "http://good.test/512"], WEB),
    "urllib": ("good.test:80", ["python3", "-c", "import urllib.request as u, sys; sys.stdout.buffer.write(u.urlopen('http://good.test/512').read())"], WEB),
    "asyncio": ("good.test:80", ["python3", "-c", """
import asyncio, sys
async def main():
    r, w = await asyncio.open_connection("good.test", 80)
    w.write(b"GET /512 HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n")
    data = await r.read()
    sys.stdout.buffer.write(data.split(b"\\r\\n\\r\\n", 1)[1])
asyncio.run(main())"""], WEB),
    "node": ("good.test:80", ["node", "-e", "fetch('http://good.test/512').then(r => r.arrayBuffer()).then(b => process.stdout.write(Buffer.from(b)))"], WEB),
    "wildcard": ("*.wild.test:80", ["curl", "-sS", "-m", "20", "http://x.wild.test/512"], WEB),
    "by address": (f"{internet.HOST}/32:80", ["curl", "-sS", "-m", "20", f"http://{internet.HOST}/512"], WEB),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_reaches_what_is_allowed(net, name):
    rule, command, place = PROGRAMS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    done = net.run([rule], *command)
    assert done.code == 0 and len(done.out) == 512, done
    assert net.reached() == {place}


GO = """
package main

import ("io"; "net/http"; "os")

func main() {
	answer, err := http.Get("http://good.test/512")
	if err != nil { panic(err) }
	io.Copy(os.Stdout, answer.Body)
}
"""
JAVA = """
import java.net.URI;
import java.net.http.*;

public class Get {
	public static void main(String[] a) throws Exception {
		var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
		var answer = client.send(HttpRequest.newBuilder(URI.create("http://good.test/512")).build(), HttpResponse.BodyHandlers.ofByteArray());
		System.out.write(answer.body(), 0, answer.body().length);
		System.out.flush();
	}
}
"""
FILES = (internet.HOST, "8001")


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=harness.PATH):
            pytest.skip(f"{program} is not installed")


def as_user(net, *command):
    subprocess.run([*net.brig.who.prefix(), *map(str, command)], check=True, cwd=net.brig.work, env=net.brig.env(), capture_output=True)


@pytest.fixture(scope="session")
def go_program(tmp_path_factory):
    """Built once: that takes longer than all the rest."""
    go = shutil.which("go", path=harness.PATH + ":/usr/local/go/bin")
    if not go:
        pytest.skip("go is not installed")
    folder = tmp_path_factory.mktemp("go")
    (folder / "get.go").write_text(GO)
    subprocess.run([go, "build", "-o", "get", "get.go"], cwd=folder, check=True, capture_output=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "GOCACHE": str(folder / "cache")})
    return (folder / "get").read_bytes()


def test_a_static_go_program(net, go_program):
    """Its resolver and its sockets are its own, without any C library."""
    program = net.brig.work / "get"
    program.write_bytes(go_program)
    program.chmod(0o755)
    done = net.run(["good.test:80"], "./get")
    assert done.code == 0 and len(done.out) == 512, done
    assert net.reached() == {WEB}


def test_a_java_program(net):
    need("java", "javac")
    net.brig.who.write(net.brig.work / "Get.java", JAVA)
    as_user(net, "javac", "Get.java")
    done = net.run(["good.test:80"], "java", "-cp", ".", "Get")
    assert done.code == 0 and len(done.out) == 512, done
    assert net.reached() == {WEB}


def test_requests(net):
    if subprocess.run(["/usr/bin/python3", "-c", "import requests"], capture_output=True).returncode:
        pytest.skip("needs python3-requests")
    done = net.run(["good.test:80"], "/usr/bin/python3", "-c", "import requests, sys; sys.stdout.buffer.write(requests.get('http://good.test/512').content)")
    assert done.code == 0 and len(done.out) == 512, done


def test_git_clones(net):
    need("git")
    repo = net.world.dir / "files" / "repo"
    if not repo.exists():
        git = ["git", "-c", "user.name=n", "-c", "user.email=a@b", "-C", str(repo)]
        subprocess.run(["git", "init", "-q", "-b", "main", repo], check=True)
        (repo / "file").write_text("content\n")
        for command in (["add", "."], ["commit", "-qm", "one"], ["update-server-info"]):
            subprocess.run([*git, *command], check=True)
        subprocess.run(["chmod", "-R", "a+rX", repo], check=True)
    done = net.run(["good.test:8001"], "sh", "-c", "git clone -q http://good.test:8001/repo/.git $TMPDIR/r && cat $TMPDIR/r/file")
    assert (done.code, done.out) == (0, b"content\n"), done
    assert net.reached() == {FILES}


def test_pip_installs(net):
    simple = net.world.dir / "files" / "simple" / "thing"
    if not simple.exists():
        simple.mkdir(parents=True)
        with zipfile.ZipFile(simple / "thing-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("thing.py", "word = 'installed'\n")
            wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
            wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("thing-1.0.dist-info/RECORD", "thing.py,,\nthing-1.0.dist-info/METADATA,,\nthing-1.0.dist-info/WHEEL,,\nthing-1.0.dist-info/RECORD,,\n")
        (simple / "index.html").write_text('<a href="thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>')
    script = ("/usr/bin/python3 -m venv $TMPDIR/v && $TMPDIR/v/bin/pip install -q --disable-pip-version-check --trusted-host good.test"
              " --index-url http://good.test:8001/simple thing && $TMPDIR/v/bin/python -c 'import thing; print(thing.word)'")
    done = net.run(["good.test:8001"], "sh", "-c", script, timeout=harness.LONG)
    assert (done.code, done.out) == (0, b"installed\n"), done
    assert net.reached() == {FILES}


def test_npm_installs(net):
    need("npm", "node")
    files = net.world.dir / "files"
    if not (files / "thing").exists():
        source = files / "package"
        source.mkdir()
        (source / "package.json").write_text('{"name":"thing","version":"1.0.0","main":"i.js"}')
        (source / "i.js").write_text("module.exports = 'installed'\n")
        subprocess.run(["tar", "-czf", files / "thing-1.0.0.tgz", "-C", files, "package"], check=True)
        (files / "thing").write_text(json.dumps({"name": "thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "thing", "version": "1.0.0", "dist": {"tarball": "http://good.test:8001/thing-1.0.0.tgz"}}}}))
    script = "mkdir $TMPDIR/n && cd $TMPDIR/n && npm install --no-audit --no-fund --silent --registry http://good.test:8001/ thing && node -p \"require('thing')\""
    done = net.run(["good.test:8001"], "sh", "-c", script, timeout=harness.LONG)
    assert (done.code, done.out) == (0, b"installed\n"), done
    assert net.reached() == {FILES}


@pytest.mark.tier("container")
def test_without_a_rule_nothing_is_asked_and_nothing_leaves(net):
    """No packet, no query; the result says what was tried and what would allow it."""
    result = net.json([], "curl", "-sS", "-m", "20", "http://good.test/")
    assert result["exit_code"] == 6
    said = [d for d in result["denials"] if d["action"] == "resolve"]
    assert said and said[0]["object"].startswith("good.test") and "--allow-net good.test:" in said[0]["allow_with"]
    assert net.reached() == set() and net.queries() == set()


@pytest.mark.parametrize("target", ["169.254.169.254:80", "127.0.0.1:80", "10.0.0.1:80", "93.184.216.35:80", "[::ffff:169.254.169.254]:80",
                                    "[2002:a9fe:a9fe::]:80", "[64:ff9b::a9fe:a9fe]:80", "93.184.216.2:80", "100.100.100.200:80"])
def test_addresses_that_no_rule_names_stay_out_of_reach(net, target):
    """At once, by an errno; in a container loopback is the sandbox's own, where nobody listens."""
    result = net.json(["good.test:80", "*.wild.test:*"], "curl", "-sS", "-m", "20", "-g", f"http://{target}/")
    assert result["exit_code"] == 7, result
    assert net.reached() == set()
    if not target.startswith("127."):
        assert [d for d in result["denials"] if d["action"] == "connect"], result["denials"]


@pytest.mark.parametrize("name", ["rebind.test", "denied.wild.test", "wild.test", "unknown.test"])
def test_names_that_lead_astray(net, name):
    result = net.brig.json("--deny-net", "denied.wild.test:*", *net.allow("rebind.test:80", "*.wild.test:80"), "--", "curl", "-sS", "-m", "20", f"http://{name}/")
    assert result["exit_code"] == 6, result
    assert net.reached() == set()


def test_the_wrong_name_in_the_first_bytes_is_reset(net):
    """The address is right, but what is asked there is another's."""
    http = net.json(["good.test:80"], "curl", "-sS", "-m", "20", "-H", "Host: other.test", "http://good.test/512")
    assert http["exit_code"] != 0 and http["stdout"] == ""
    tls = net.json(["good.test:443"], "curl", "-sSk", "-m", "20", "--connect-to", "other.test:443:good.test:443", "https://other.test/512")
    assert tls["exit_code"] != 0 and tls["stdout"] == ""
    plain = net.json(["good.test:7001"], "python3", "-c", "import socket; s=socket.create_connection(('good.test',7001)); s.settimeout(60); s.sendall(b'SSH-2.0-x\\r\\n'); print(s.recv(9)); print(s.recv(99))")
    assert plain["exit_code"] != 0 or "SSH-2.0" not in plain["stdout"]
    for result in (http, tls, plain):
        assert [d for d in result["denials"] if d["action"] == "first bytes"], result["denials"]


def test_raw_is_any_protocol(net):
    done = net.run(["good.test:7001 raw"], "python3", "-c", "import socket; s=socket.create_connection(('good.test',7001)); f=s.makefile('rwb'); print(f.readline()); f.write(b'hello\\n'); f.flush(); print(f.readline())")
    assert done.text.split() == ["b'welcome\\n'", "b'hello\\n'"], done


def test_a_refused_port_and_a_dead_name_fail_at_once(net):
    done = net.run(["good.test:81", "nothing.test:80"], "python3", "-c", """
import socket
for name, port in ("good.test", 81), ("nothing.test", 80):
    try: socket.create_connection((name, port))
    except OSError as e: print(type(e).__name__)""")
    assert done.text.split() == ["ConnectionRefusedError", "gaierror"], done


def test_many_connections_and_large_transfers(net):
    code = """
import concurrent.futures, hashlib, urllib.request as u
def get(i): return len(u.urlopen("http://good.test/65536", timeout=60).read())
with concurrent.futures.ThreadPoolExecutor(50) as pool: print(sum(pool.map(get, range(200))))
data = bytes(range(256)) * 80000
print(u.urlopen(u.Request("http://good.test/x", data, method="PUT"), timeout=60).read().decode() == hashlib.sha256(data).hexdigest())
print(hashlib.sha256(u.urlopen("http://good.test/33554432", timeout=60).read()).hexdigest())"""
    done = net.run(["good.test:80"], "python3", "-c", code)
    import hashlib
    assert done.text.split() == [str(200 * 65536), "True", hashlib.sha256(internet.BLOCK * 32).hexdigest()], done


def test_a_dual_stack_socket_reaches_ipv4_again_and_again(net):
    code = f"""
import socket
for i in range(50):
    s = socket.socket(socket.AF_INET6)
    s.connect(("::ffff:{internet.HOST}", 80))
    s.close()
print("all")
"""
    done = net.run([f"{internet.HOST}/32:80"], "/usr/bin/python3", "-c", code)
    assert done.text == "all\n", done


def test_as_many_connections_at_once_as_there_are_threads(net, mark):
    """All of them are on their way before the first is made: the warden is stopped until every thread waits in connect()."""
    code = """
import os, socket, threading, time
target, done = (socket.gethostbyname("good.test"), 80), []
def get():
    with socket.socket() as s:
        s.settimeout(60)
        s.connect(target)
        s.sendall(b"GET /512 HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n")
        done.append(b"200 OK" in s.recv(100))
threads = [threading.Thread(target=get) for _ in range(100)]
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
for t in threads: t.start()
for t in threads: t.join()
print(done.count(True))"""
    process = net.brig.start("run", *net.allow("good.test:80"), "--", "python3", "-c", code, mark)
    harness.wait_for_line(process, b"ready")
    process.send_signal(signal.SIGSTOP)

    def connecting():
        tasks = [task for pid in harness.marked(mark) for task in Path(f"/proc/{pid}/task").iterdir()]
        return sum((task / "syscall").read_text().startswith("42 ") for task in tasks)

    try:
        harness.wait_until(lambda: harness.state(process.pid) == "T", "brig to stop")
        net.brig.who.write(net.brig.work / "go")
        harness.wait_until(lambda: connecting() == 100, lambda: f"{connecting()} threads of 100 to connect")
    finally:
        process.send_signal(signal.SIGCONT)
    done = harness.finish(process)
    assert done.text.split() == ["100"], done


def test_many_ask_for_one_name_at_once(net):
    """More than the gate asks upstream at a time: it asks once."""
    code = """
import socket, threading
query = bytes.fromhex("123401000001000000000000") + b"\\4slow\\4test\\0" + b"\\0\\1\\0\\1"
askers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
for s in askers: s.settimeout(60); s.connect(("192.0.2.53", 53)); s.send(query)
print(sum(socket.inet_aton("93.184.216.34") in s.recv(512) for s in askers))"""
    done = net.run(["slow.test:80"], "python3", "-c", code)
    assert (done.text, done.err) == ("200\n", b""), done
    assert net.queries() == {"slow.test"}


@pytest.mark.parametrize("limit", range(34, 44))
def test_without_a_free_descriptor_a_connect_fails(net, limit):
    """At once, whichever descriptor is the one that the gate has no room for."""
    code = """
import errno, socket
held, seen = [], set()
for i in range(60):
    held.append(socket.socket())
    held[-1].setblocking(False)
    seen.add(held[-1].connect_ex(("93.184.216.99", 9)))
print(seen <= {errno.EINPROGRESS, errno.EMFILE, errno.ENETUNREACH, errno.EAGAIN})"""
    done = net.run(["93.184.216.99/32:9 raw"], "sh", "-c", 'ulimit -Sn 200; exec python3 -c "$0"', code, before=["sh", "-c", f'ulimit -Sn {limit}; exec "$@"', "-"])
    # With fewer still, nothing starts, and that is said.
    assert done.out == b"True\n" or (done.code == 125 and done.err), done


def test_epoll_dup_and_half_close(net):
    code = """
import hashlib, os, select, socket
s = socket.socket(); s.setblocking(False)
e = select.epoll(); e.register(s, select.EPOLLOUT)
copy = s.dup()
assert s.connect_ex((socket.gethostbyname("good.test"), 7002)) == 115
assert e.poll(20)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
copy.setblocking(True); copy.sendall(b"x" * 100000); copy.shutdown(socket.SHUT_WR)
s.setblocking(True); answer = b""
while block := s.recv(999): answer += block
print(answer.decode() == hashlib.sha256(b"x" * 100000).hexdigest())"""
    done = net.run(["good.test:7002 raw"], "python3", "-c", code)
    assert done.text == "True\n", done


def test_a_signal_interrupts_a_connect_that_waits(net):
    code = """
import signal, socket
def late(*a): raise SystemExit(7)
signal.signal(signal.SIGALRM, late); signal.alarm(1)
socket.create_connection(("silent.test", 80))"""
    done = net.run(["silent.test:80"], "python3", "-c", code)
    assert done.code == 7, done


def test_a_connect_that_was_interrupted_goes_on(net):
    """As POSIX has it: after EINTR the socket is connecting. Python polls for it."""
    code = """
import errno, select, signal, socket, time
signal.signal(signal.SIGALRM, lambda *a: None); signal.siginterrupt(signal.SIGALRM, False); signal.setitimer(signal.ITIMER_REAL, 0.3)
s = socket.socket(); start = time.monotonic()
s.settimeout(None)
try: s.connect(("93.184.216.99", 9)); print("connected")
except OSError as e: print(e)"""
    done = net.run(["93.184.216.99/32:9 raw"], "timeout", "2", "python3", "-c", code)
    assert (done.code, done.out) == (124, b""), done


def test_other_ways_out_are_closed(net):
    """UDP beyond names, ICMP, raw sockets: nothing reaches the wire."""
    code = """
import socket
def tried(f):
    try: f(); print("sent")
    except OSError as e: print("refused")
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("93.184.216.34", 53)); s.connect(("93.184.216.34", 9)); s.send(b"x")
tried(udp)
tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP))
tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))"""
    done = net.run(["good.test:80"], "python3", "-c", code)
    assert done.text.split() == ["refused"] * 4, done
    assert net.reached() == set()


def test_the_events_tell_of_names_and_connections(net):
    net.run(["good.test:80"], "curl", "-sS", "-m", "20", "http://good.test/512")
    done = net.brig("events", "--json")
    events = [json.loads(line) for line in done.text.splitlines()]
    kinds = {(e["kind"], e["action"], e["verdict"]) for e in events}
    assert ("dns", "resolve", "allow") in kinds and ("net", "connect", "allow") in kinds, kinds
    connect = next(e for e in events if e["action"] == "connect" and e["object"].endswith(":80"))
    assert connect["rule"]["key"] == "net.allow" and connect["pid"] > 0
    assert net.brig("events", "verify").code == 0


@pytest.mark.parametrize("option", [[], ["--overlay", ".", "--diff"]], ids=["", "diff"])
def test_the_warden_is_shut_in_from_the_first_connection_on(net, option):
    """By its own filter, without capabilities but to end the sandbox; with --diff it goes on to need files."""
    if option and net.brig.tier == "process":
        pytest.skip("overlays need the container tier")
    code = "import socket, sys; s = socket.create_connection(('good.test', 7001)); print(s.recv(9), flush=True); sys.stdin.read()"
    process = net.brig.start("run", *option, *net.allow("good.test:7001 raw"), "--", "python3", "-c", code, stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"b'welcome\\n'\n"
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if ":\t" in line)
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
        if not option:
            assert int(status["CapEff"], 16) == (1 << 5 if net.brig.who.is_root else 0)
    finally:
        process.communicate(b"")
    assert process.returncode == 0
