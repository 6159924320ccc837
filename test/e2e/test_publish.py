"""Published ports: who reaches the program inside, and who does not, seen from the host."""

import contextlib
import hashlib
import json
import os
import pty
import re
import select
import socket
import subprocess
import threading
import time
from pathlib import Path

import harness
import jsonschema
import pytest

BIG = 16 << 20

# One server for all of it: argv is HOST PORT; the first line of a client says what is wanted.
SERVER = r"""
import hashlib, socket, sys, threading
host, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((host, port))
s.listen(64)
print("ready", flush=True)

def serve(c):
    f = c.makefile("rwb")
    word = f.readline().split()
    if word[0] == b"echo":
        while data := f.read1(65536):
            c.sendall(data)
    elif word[0] == b"hash":
        c.sendall(hashlib.sha256(f.read()).hexdigest().encode())
    elif word[0] == b"send":
        c.sendall(bytes(range(256)) * (int(word[1]) // 256))
    elif word[0] == b"last":
        c.sendall(b"x" * int(word[1]))
        c.close()
        import os
        os._exit(0)
    elif word[0] == b"peer":
        c.sendall(repr(c.getpeername()).encode())
    f.close()
    c.close()

while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


def is_free(port, address="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((address, port))
            s.listen(1)
        except OSError:
            return False
    return True


def listeners(port):
    """Addresses of this host that are listened at, of both families, as the kernel writes them."""
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            words = line.split()
            address, number = words[1].split(":")
            if words[3] == "0A" and int(number, 16) == port:
                found.add(address)
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


@contextlib.contextmanager
def running(brig, *words, ready=True, **options):
    """brig in the background; it is ended by a signal, if it has not ended by itself."""
    process = brig.start("run", *words, **options)
    try:
        if ready:
            line = process.stdout.readline()
            assert line == b"ready\n", (line, process.stderr.read())
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.out, process.err = process.communicate(timeout=harness.HANG)
        assert not any(mark in process.err for mark in harness.SANITIZER_MARKS), process.err


def server(brig, port, *options, inside=None, host="0.0.0.0", **more):
    """The server inside, published as port."""
    spelled = f"{port}:{inside}" if inside else str(port)
    return running(brig, "--publish", spelled, *options, "--", "python3", "-c", SERVER, host, str(inside or port), **more)


def connect(port, address="127.0.0.1"):
    return socket.create_connection((address, port), timeout=20)


def everything(s):
    data = bytearray()
    while piece := s.recv(1 << 20):
        data += piece
    return bytes(data)


def ask(port, word, body=b"", address="127.0.0.1"):
    with connect(port, address) as s:
        s.sendall(word + b"\n" + body)
        s.shutdown(socket.SHUT_WR)
        return everything(s)


# it works


def test_a_server_inside_is_reached_at_loopback_and_nowhere_else(brig):
    port = harness.free_port()
    brig.who.write(brig.work / "hello.txt", "from inside\n")
    with running(brig, "--publish", port, "--", "python3", "-u", "-m", "http.server", port, ready=False):
        harness.wait_until(lambda: subprocess.run(["curl", "-sf", "-m", "5", f"http://127.0.0.1:{port}/hello.txt"],
                                                  capture_output=True, check=False).stdout == b"from inside\n", "no answer")
        found = listeners(port)
        assert found and found <= LOOPBACK, found
    assert listeners(port) == set()


@pytest.mark.tier("container")
def test_a_port_below_1024_inside(brig):
    port = harness.free_port()
    brig.who.write(brig.work / "hello.txt", "from inside\n")
    with running(brig, "--publish", f"{port}:80", "--", "python3", "-u", "-m", "http.server", "80", ready=False):
        harness.wait_until(lambda: subprocess.run(["curl", "-sf", "-m", "5", f"http://127.0.0.1:{port}/hello.txt"],
                                                  capture_output=True, check=False).stdout == b"from inside\n", "no answer")


def test_many_at_once(brig):
    """More than the stock of sockets, all open at the same time."""
    port, count = harness.free_port(), 60
    with server(brig, port):
        clients = [connect(port) for _ in range(count)]
        for i, s in enumerate(clients):
            s.sendall(b"echo\n%d" % i)
        for i, s in enumerate(clients):
            assert s.recv(64) == b"%d" % i
        for s in clients:
            s.close()


def test_the_end_of_one_direction_is_passed_on(brig):
    port = harness.free_port()
    with server(brig, port):
        assert ask(port, b"hash", b"half").decode() == hashlib.sha256(b"half").hexdigest()


def test_much_in_both_directions(brig):
    port = harness.free_port()
    data = os.urandom(1 << 20) * (BIG >> 20)
    with server(brig, port):
        assert ask(port, b"hash", data).decode() == hashlib.sha256(data).hexdigest()
        assert ask(port, b"send %d" % BIG) == bytes(range(256)) * (BIG // 256)
        with connect(port) as s:
            got = []
            reader = threading.Thread(target=lambda: got.append(everything(s)))
            reader.start()
            s.sendall(b"echo\n" + data)
            s.shutdown(socket.SHUT_WR)
            reader.join(harness.HANG)
            assert got and got[0] == data


def test_a_server_that_is_not_there_yet(brig):
    """Whoever comes too soon is told at once, and later ones are served."""
    port = harness.free_port()
    code = "import sys; print('ready', flush=True); sys.stdin.readline()\n" + SERVER
    with running(brig, "--publish", port, "--", "python3", "-c", code, "0.0.0.0", port,
                 stdin=subprocess.PIPE) as process:
        for _ in range(5):
            began = time.monotonic()
            with pytest.raises((ConnectionError, BrokenPipeError)):
                with connect(port) as s:
                    s.sendall(b"echo\nx")
                    if s.recv(1) == b"":
                        raise ConnectionResetError
            assert time.monotonic() - began < 20
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert ask(port, b"echo", b"now") == b"now"


def test_without_a_record(brig):
    port = harness.free_port()
    with server(brig, port, "--record", "off"):
        assert ask(port, b"echo", b"silent") == b"silent"


def test_at_a_terminal(brig):
    port = harness.free_port()
    master, slave = pty.openpty()
    try:
        with running(brig, "--publish", port, "--", "python3", "-c", SERVER, "0.0.0.0", port, ready=False,
                     stdin=slave, stdout=slave, stderr=subprocess.PIPE, start_new_session=True):
            assert select.select([master], [], [], harness.HANG)[0] and b"ready" in os.read(master, 100)
            assert ask(port, b"echo", b"typed") == b"typed"
    finally:
        os.close(master)
        os.close(slave)


def test_the_result_says_which_ports(brig):
    port = harness.free_port()
    result = brig.json("--publish", port, "--", "true")
    assert result["published"] == [{"address": "127.0.0.1", "port": port, "inside": port}]
    assert brig.json("--", "true")["published"] == []


@pytest.mark.tier("container")
def test_any_port_that_is_free(brig):
    """It is told when it is there, not when it is over; and the result has it as well."""
    with running(brig, "--json", "--publish", "0:8080", "--", "python3", "-c", SERVER, "127.0.0.1", "8080", ready=False) as process:
        said = process.stderr.readline().decode()
        port = int(re.fullmatch(r"brig: published 127\.0\.0\.1:(\d+):8080\n", said)[1])
        harness.wait_until(lambda: reached(port), "not reached")
    result = json.loads(process.out)
    assert result["published"] == [{"address": "127.0.0.1", "port": port, "inside": 8080}]


def reached(port, address="127.0.0.1"):
    with contextlib.suppress(OSError):
        return ask(port, b"echo", b"here", address) == b"here"
    return False


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as s:
        s.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="needs IPv6 on the host's loopback")
@pytest.mark.tier("container")
def test_ipv6_on_both_sides(brig):
    port = harness.free_port("::1")
    with running(brig, "--publish", f"[::1]:{port}:8080", "--", "python3", "-c", SERVER, "::1", "8080"):
        assert ask(port, b"echo", b"six", "::1") == b"six"
        assert listeners(port) == {"00000000000000000000000001000000"}


@pytest.mark.skipif(not has_ipv6(), reason="needs IPv6 on the host's loopback")
@pytest.mark.tier("process")
def test_ipv6_at_loopback(brig):
    port = harness.free_port("::1")
    with running(brig, "--publish", f"[::1]:{port}", "--", "python3", "-c", SERVER, "::", port):
        assert ask(port, b"echo", b"six", "::1") == b"six"
        assert listeners(port) == {"00000000000000000000000001000000"}


@pytest.mark.tier("container")
def test_another_address_only_where_it_is_written(brig):
    port = harness.free_port()
    with running(brig, "--publish", f"0.0.0.0:{port}:8080", "--", "python3", "-c", SERVER, "127.0.0.1", "8080"):
        assert listeners(port) == {"00000000"}
        assert ask(port, b"echo", b"wide", "127.0.0.2") == b"wide"
    with running(brig, "--publish", f"127.0.0.2:{port}:8080", "--", "python3", "-c", SERVER, "127.0.0.1", "8080"):
        assert listeners(port) == {"0200007F"}


@pytest.mark.tier("container")
@pytest.mark.parametrize("options", [["--allow-net", "good.test:443"], ["--allow", "nested"]])
def test_with_a_gate_and_without_a_listener(brig, options):
    port = harness.free_port()
    with server(brig, port, *options, inside=8080):
        assert ask(port, b"echo", b"both") == b"both"


@pytest.mark.tier("container")
def test_the_last_words_of_a_server_arrive(brig):
    """It sends, closes and is gone, and with it the sandbox; what was sent is still on its way."""
    port = harness.free_port()
    for _ in range(2):
        with server(brig, port) as process:
            with connect(port) as s:
                # Slow, so that there is something on its way: 200 ms for each few KiB.
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(b"last 100000\n")
                assert len(everything(s)) == 100000
            assert process.wait(harness.HANG) == 0


# the start


def test_a_port_in_use_refuses_the_start(brig):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        port = s.getsockname()[1]
        said = brig.refused("run", "--publish", port, "--", "touch", brig.tmp / "canary")
        assert f"127.0.0.1:{port} is in use" in said and "0:" in said
    assert not (brig.tmp / "canary").exists()


def test_a_second_port_that_cannot_be_had_gives_the_first_one_back(brig):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        first = harness.free_port()
        brig.refused("run", "--publish", first, "--publish", s.getsockname()[1], "--", "true")
    assert is_free(first)


@pytest.mark.tier("container")
def test_one_port_of_the_host_twice(brig):
    port = harness.free_port()
    assert "the same port" in brig.refused("run", "--publish", f"{port}:80", "--publish", f"127.0.0.1:{port}:81", "--", "true")


@pytest.mark.tier("container")
def test_a_port_of_roots(brig):
    if brig.who.is_root:
        return
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 81:
        pytest.skip("needs a host where ports below 1024 are root's")
    said = brig.refused("run", "--publish", "81:80", "--", "true")
    assert "127.0.0.1:81 is a port for root alone" in said and "8081:80" in said


@pytest.mark.tier("container")
@pytest.mark.parametrize("port,words", [
    ("192.0.2.99:8080:80", "no address of this host"), ("18053:53", "the resolver's"),
])
def test_what_cannot_be_published_is_refused_in_words(brig, port, words):
    assert words in brig.refused("run", "--publish", port, "--", "true")


@pytest.mark.tier("process")
@pytest.mark.parametrize("port", ["18080:8080", "0:8080", "0.0.0.0:18080", "[::]:18080", "192.0.2.1:18080", "80"])
def test_what_the_process_tier_cannot_publish_is_refused_in_words(brig, port):
    assert "use --isolation container" in brig.refused("run", "--publish", port, "--", "true")


def test_a_project_can_only_take_ports_away(brig):
    one, two = harness.free_port(), harness.free_port()
    words = ["--publish", one, "--publish", two, "--", "true"]
    brig.who.write(brig.work / ".brig.yaml", f"version: 1\nextends: [base]\nnet: {{ publish: ['0.0.0.0:{one}:{one}', '12345'] }}\n")
    assert brig.json(*words)["published"] == [{"address": "127.0.0.1", "port": one, "inside": one}]


# the end


def test_the_port_is_free_when_the_sandbox_has_ended(brig):
    port = harness.free_port()
    with server(brig, port):
        assert ask(port, b"echo", b"x") == b"x"
        assert not is_free(port)
    assert is_free(port)


def test_a_killed_brig_leaves_the_port(brig):
    port = harness.free_port()
    with server(brig, port) as process:
        with connect(port) as s:
            s.sendall(b"echo\nx")
            assert s.recv(1) == b"x"
            process.kill()
            with contextlib.suppress(ConnectionResetError):
                assert s.recv(1) == b""
        process.wait()
        harness.wait_until(lambda: is_free(port), "the port is still taken")


# the record


@pytest.mark.tier("container")
def test_every_client_is_an_event(brig):
    port = harness.free_port()
    with server(brig, port, inside=8080):
        with connect(port) as s:
            own = "%s:%d" % s.getsockname()
            s.sendall(b"echo\nx")
            assert s.recv(1) == b"x"
    with running(brig, "--publish", f"{port}:8080", "--", "sh", "-c", "echo ready; sleep 20"):
        with contextlib.suppress(OSError), connect(port) as s:
            s.recv(1)
    late, first = [[json.loads(line) for line in brig("events", each["sandbox"], "--json").out.splitlines()]
                   for each in sorted(json.loads(brig("events", "list", "--json").out), key=lambda e: e["started"], reverse=True)]
    came = [e for e in first if e["action"] == "accept"]
    assert [(e["kind"], e["object"], e["publish"], e["verdict"]) for e in came] == [("net", own, f"127.0.0.1:{port}:8080", "allow")]
    came = [e for e in late if e["action"] == "accept"]
    assert [(e["verdict"], e["reason"]) for e in came] == [("allow", "nobody listens at port 8080 inside")]
    schema = json.loads(brig("events", "schema").out)
    for event in first + late:
        jsonschema.Draft202012Validator(schema).validate(event)
    assert brig("events", "verify").code == 0


# nothing else opens


INSIDE_OUT = r"""
import socket, sys
port = int(sys.argv[1])
for address in sys.argv[2:]:
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.settimeout(5)
    try:
        s.connect((address, port))
        print(address, "connected", s.recv(100))
    except OSError as e:
        print(address, "refused")
"""


@pytest.mark.tier("container")
def test_the_port_of_the_host_is_no_way_out(brig):
    """The sandbox asks for the published port of the host by every address, as another host would; none leads to it, and
    the host's socket is in no table of the sandbox's."""
    port = harness.free_port()
    host = subprocess.run(["hostname", "-I"], capture_output=True, check=False, text=True).stdout.split()
    done = brig.json("--publish", f"0.0.0.0:{port}:8080", "--allow-net", "good.test:443", "--", "python3", "-c", INSIDE_OUT, port,
                     "127.0.0.1", "127.0.0.2", "0.0.0.0", "192.0.2.1", "::1", *host)
    assert "connected" not in done["stdout"] and done["stdout"].count("refused") == 5 + len(host)
    events = [json.loads(line) for line in brig("events", "--json").out.splitlines()]
    assert not [e for e in events if e["action"] == "accept"]
    seen = brig.run("--publish", f"{port}:8080", "--", "sh", "-c", "cat /proc/net/tcp; ls /proc/self/fd | wc -l")
    assert f":{port:04X} " not in seen.text and seen.text.split()[-1] in ("3", "4")


@pytest.mark.tier("container")
def test_what_comes_in_never_reaches_the_hosts_loopback(brig):
    """A listener of the host at the very port: inside nobody listens, and so nobody is reached."""
    port = harness.free_port()
    with socket.socket() as canary:
        canary.bind(("127.0.0.1", 0))
        canary.listen(8)
        canary.settimeout(1)
        with running(brig, "--publish", f"{port}:{canary.getsockname()[1]}", "--", "sh", "-c", "echo ready; sleep 20"):
            for _ in range(20):
                with contextlib.suppress(OSError), connect(port) as s:
                    assert s.recv(1) == b""
        with pytest.raises(TimeoutError):
            canary.accept()


LISTENERS = r"""
import errno, socket, sys
published = int(sys.argv[1])

def attempt(name, family, kind, address, listens=True):
    s = socket.socket(family, kind)
    try:
        if address is not None:
            s.bind(address)
        if listens:
            s.listen(1)
        print(name, "listens", s.getsockname()[0], s.getsockname()[1])
    except OSError as e:
        print(name, errno.errorcode[e.errno])
    return s

kept = [
    attempt("unbound", socket.AF_INET, socket.SOCK_STREAM, None),
    attempt("unbound6", socket.AF_INET6, socket.SOCK_STREAM, None),
    attempt("chosen", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
    attempt("other", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", published + 1)),
    attempt("address", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.2", published)),
    attempt("six", socket.AF_INET6, socket.SOCK_STREAM, ("::1", published)),
    attempt("datagram", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", published), False),
    attempt("any", socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", published)),
]
sys.stdout.flush()
sys.stdin.readline()
"""


@pytest.mark.tier("process")
def test_a_program_listens_at_its_port_and_nowhere_else(brig):
    """The judge is the host's own table of listeners."""
    port = harness.free_port()
    before = all_listeners()
    with running(brig, "--publish", port, "--", "python3", "-u", "-c", LISTENERS, port, ready=False, stdin=subprocess.PIPE) as process:
        said = dict(process.stdout.readline().decode().strip().split(" ", 1) for _ in range(8))
        new = {a for a in all_listeners() - before if a[1] == port or a[2] in sockets_of(process)}
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert said.pop("any") == f"listens 127.0.0.1 {port}"
    assert set(said.values()) == {"EACCES"}, said
    assert {a[:2] for a in new} == {("0100007F", port)}


RACE = r"""
import os, socket, sys, threading, time
port, end = int(sys.argv[1]), time.monotonic() + 4
bound, fd = socket.socket(), os.dup(0)
bound.bind(("127.0.0.1", port))
over = False

def swap():
    while not over:
        with socket.socket() as other:
            os.dup2(other.fileno(), fd)
            os.dup2(bound.fileno(), fd)

threading.Thread(target=swap, daemon=True).start()
rounds = refused = 0
libc = __import__("ctypes").CDLL(None, use_errno=True)
while rounds < 200 or time.monotonic() < end:
    rounds += 1
    if libc.listen(fd, 1) < 0:
        refused += 1
print(rounds, refused, flush=True)
sys.stdin.readline()
"""


@pytest.mark.tier("process")
def test_a_socket_that_is_swapped_does_not_listen(brig):
    """One thread puts another socket behind the number while listen() is judged."""
    port = harness.free_port()
    stop, seen = threading.Event(), set()
    with running(brig, "--publish", port, "--", "python3", "-u", "-c", RACE, port, ready=False, stdin=subprocess.PIPE) as process:
        def look():
            while not stop.is_set():
                held = sockets_of(process)
                seen.update(a[:2] for a in all_listeners() if a[2] in held)
        watcher = threading.Thread(target=look)
        watcher.start()
        rounds, refused = map(int, process.stdout.readline().split())
        stop.set()
        watcher.join()
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert rounds > 100 and 0 < refused < rounds
    assert seen == {("0100007F", port)}


def all_listeners():
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                address, number = words[1].split(":")
                found.add((address, int(number, 16), words[9]))
    return found


def sockets_of(process):
    """Inodes of the sockets that the sandbox holds: all below brig, but for what brig has itself (the gate's resolver,
    which its child has too until it has closed what it inherited)."""
    below = [sockets_in(pid) for pid in harness.descendants(process.pid)]
    return set().union(*below) - sockets_in(process.pid)


def sockets_in(pid):
    found = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            found.add(harness.link(pid, f"fd/{fd}").removeprefix("socket:[").removesuffix("]"))
    return found
