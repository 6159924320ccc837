"""The gate, from inside a program and from the other end of the wire."""

import pytest

import internet
from conftest import BUILD

HTTP = "good.test:80"
FETCH = """
import socket, sys
def fetch(name, port=80, host=None, path="/512"):
    s = socket.create_connection((name, port), 10)
    s.sendall(f"GET {path} HTTP/1.1\\r\\nHost: {host or name}\\r\\n\\r\\n".encode())
    data = bytearray()
    while block := s.recv(1 << 20):
        data += block
    return data.split(b"\\r\\n\\r\\n", 1)[1]
"""


def ok(result):
    assert result.code == 0, result.out + result.err + repr(result.events)
    assert "Sanitizer" not in result.err
    return result


def only(result, *places):
    assert result.reached() <= {(a, str(p)) for a, p in places}, result.reached()


def test_blocking(gate):
    result = ok(gate.python([HTTP], FETCH + "print(len(fetch('good.test')))"))
    assert result.out.strip() == "512"
    assert result.queries == {"good.test"}
    only(result, (internet.HOST, 80))
    assert ["close", "allow", "93.184.216.34:80"] in [event[:3] for event in result.events]


def test_aliases_are_followed(gate):
    result = ok(gate.python(["alias.test:80", "chain.test:80"],
                            FETCH + "print(len(fetch('alias.test')), len(fetch('chain.test')))"))
    assert result.out.split() == ["512", "512"]


def test_a_denied_alias_is_not_asked_for(gate):
    result = gate.python(["evil.test:80"], FETCH + "fetch('evil.test')", deny=["denied.wild.test:*"])
    assert "gaierror" in result.err
    assert result.denied("resolve")
    assert result.queries == {"evil.test"}
    only(result)


def test_a_truncated_answer_comes_over_tcp(gate):
    result = ok(gate.python(["many.test:80"], """
import socket
print(len({a[4][0] for a in socket.getaddrinfo("many.test", 80, type=socket.SOCK_STREAM)}))"""))
    assert int(result.out) >= 30


def test_names_that_are_not_allowed_are_not_asked(gate):
    result = gate.python([HTTP], FETCH + "fetch('other.test')")
    assert "gaierror" in result.err
    assert result.queries == set() and result.packets == {}
    assert result.denied("resolve")


def test_addresses_without_a_name(gate):
    code = """
import socket
for target in TARGETS:
    s = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET)
    try:
        s.connect((target, 80))
        print("connected", target)
    except PermissionError:
        pass
    except OSError as e:
        print(target, e)
"""
    targets = ["93.184.216.34", "169.254.169.254", "10.0.0.1", "192.168.0.1", "93.184.216.2", "8.8.8.8", "2600:1::34",
               "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "2002:7f00:1::1", "fe80::1", "fd00:ec2::254", "2002:a9fe:a9fe::1"]
    if gate.tier == "process":
        targets += ["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"]
    result = ok(gate.python([HTTP], code.replace("TARGETS", repr(targets))))
    assert result.out == ""
    assert result.packets == {}
    assert len(result.denied("connect")) == len(targets)


def test_another_port(gate):
    result = gate.python([HTTP], FETCH + "fetch('good.test', 7003)")
    assert "PermissionError" in result.err
    only(result)


def test_rebinding(gate):
    result = gate.python(["rebind.test:80", "half.test:80"], FETCH + """
try:
    fetch("rebind.test")
except socket.gaierror:
    print("no", len(fetch("half.test")))
""")
    assert result.out.split() == ["no", "512"], result.err
    only(result, (internet.HOST, 80))
    assert len(result.denied("resolve")) == 4


def test_a_range_that_is_named(gate):
    result = ok(gate.python(["93.184.216.34/32:7003 raw"], """
import socket
socket.create_connection(("93.184.216.34", 7003)).recv(1)"""))
    only(result, (internet.HOST, 7003))


def test_wrong_host(gate):
    result = gate.python([HTTP], FETCH + "print(fetch('good.test', host='other.test'))")
    assert result.code != 0
    assert result.denied("first bytes")
    # The handshake reached the server; not a byte of the request did.
    assert [event for event in result.events if event[0] == "close"][0][5] == "0"


TLS = """
import socket, ssl
context = ssl._create_unverified_context()
def tls(name, sni):
    s = context.wrap_socket(socket.create_connection((name, 443), 10), server_hostname=sni)
    s.sendall(b"GET /256 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    data = b""
    while block := s.recv(65536):
        data += block
    return len(data)
"""


def test_tls(gate):
    result = ok(gate.python(["good.test:443"], TLS + "print(tls('good.test', 'good.test') > 256)"))
    assert result.out.strip() == "True"


@pytest.mark.parametrize("sni", ["other.test", None])
def test_wrong_sni(gate, sni):
    result = gate.python(["good.test:443"], TLS + f"tls('good.test', {sni!r})")
    assert result.code != 0
    assert result.denied("first bytes")
    assert [event for event in result.events if event[0] == "close"][0][5] == "0"


def test_a_hello_in_pieces(gate):
    result = ok(gate.python([HTTP], """
import socket, time
s = socket.create_connection(("good.test", 80))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for byte in b"GET /256 HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n":
    s.sendall(bytes([byte]))
    time.sleep(0.002)
print(len(s.recv(65536, socket.MSG_WAITALL)) > 256)"""))
    assert result.out.strip() == "True"


def test_raw_and_server_first(gate):
    code = """
import socket
s = socket.create_connection(("good.test", 7001))
f = s.makefile("rwb")
print(f.readline())
f.write(b"echo\\n")
f.flush()
print(f.readline())"""
    result = ok(gate.python(["good.test:7001 raw"], code))
    assert "welcome" in result.out and "echo" in result.out
    # Without "raw" the server may speak, and the client's words are refused.
    result = gate.python(["good.test:7001"], code)
    assert "welcome" in result.out and "b'echo" not in result.out
    assert result.denied("first bytes")


def test_a_silent_client_times_out(gate):
    result = ok(gate.python([HTTP], """
import socket
s = socket.create_connection(("good.test", 80))
try:
    print(s.recv(1))
except ConnectionResetError:
    print("reset")""", options=["first_ms=300"]))
    assert result.out.strip() == "reset"
    assert "in time" in result.denied("first bytes")[0][3]


def test_refused_port(gate):
    result = ok(gate.python(["good.test:81 raw"], """
import errno, select, socket
try:
    socket.create_connection(("good.test", 81))
except ConnectionRefusedError:
    print("refused")
s = socket.socket()
s.setblocking(False)
assert s.connect_ex(("93.184.216.34", 81)) == errno.EINPROGRESS
select.select([], [s], [], 5)
print(errno.errorcode[s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])"""))
    assert result.out.split()[0] == "refused"
    assert result.out.split()[1] in ("ECONNREFUSED", "ECONNRESET")


def test_silent_host(gate):
    """Non-blocking it is pending, as in life; killed meanwhile, nothing is left."""
    result = ok(gate.python(["silent.test:80"], """
import errno, os, select, socket
s = socket.socket()
s.setblocking(False)
target = socket.getaddrinfo("silent.test", 80, type=socket.SOCK_STREAM)[0][4]
assert s.connect_ex(target) == errno.EINPROGRESS
assert s.connect_ex(target) == errno.EALREADY
assert select.select([s], [s], [s], 0.3) == ([], [], [])
if os.fork() == 0:
    socket.create_connection(target)     # waits, and is killed
import time
time.sleep(0.1)
print("pending")
os._exit(0)"""))
    assert result.out.strip() == "pending"
    only(result, (internet.DEAD, 80))


def test_a_caller_with_little_patience(gate):
    result = ok(gate.python(["silent.test:80"], """
import errno, socket, struct, time
target = socket.getaddrinfo("silent.test", 80, type=socket.SOCK_STREAM)[0][4]
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300000))
start = time.monotonic()
print(errno.errorcode[s.connect_ex(target)], 0.2 < time.monotonic() - start < 10)"""))
    assert result.out.split() == ["EINPROGRESS", "True"]


def test_happy_eyeballs(gate):
    result = ok(gate.python(["dual.test:80"], """
import asyncio, time
async def main():
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    async def dead_one_first(*args, **rest):
        return sorted(await resolve(*args, **rest), key=lambda a: -a[0])
    loop.getaddrinfo = dead_one_first
    start = time.monotonic()
    r, w = await asyncio.open_connection("dual.test", 80, happy_eyeballs_delay=0.2)
    w.write(b"GET /256 HTTP/1.1\\r\\nHost: dual.test\\r\\n\\r\\n")
    print(len(await r.read()) > 256, time.monotonic() - start < 5)
asyncio.run(main())"""))
    assert result.out.split() == ["True", "True"]
    assert (internet.DEAD6, "80") in result.reached()


def test_ipv6(gate):
    result = ok(gate.python(["six.test:8080"], FETCH + "print(len(fetch('six.test', 8080)))"))
    assert result.out.strip() == "512"
    only(result, (internet.HOST6, 8080))


def test_mapped_addresses(gate):
    """As Java does: an IPv6 socket and an IPv4 address in it."""
    result = ok(gate.python([HTTP], """
import socket
socket.getaddrinfo("good.test", 80)
s = socket.socket(socket.AF_INET6)
s.connect(("::ffff:93.184.216.34", 80))
s.sendall(b"GET /256 HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n")
print(len(s.recv(65536, socket.MSG_WAITALL)) > 256)"""))
    assert result.out.strip() == "True"


def test_epoll_and_dup_before_connect(gate):
    result = ok(gate.python([HTTP], """
import errno, os, select, socket
target = socket.getaddrinfo("good.test", 80, type=socket.SOCK_STREAM)[0][4]
s = socket.socket()
s.setblocking(False)
e = select.epoll()
e.register(s, select.EPOLLOUT | select.EPOLLET)
e.poll(0)
twin = s.dup()
assert s.connect_ex(target) == errno.EINPROGRESS
assert e.poll(5)[0][1] & select.EPOLLOUT
assert s.connect_ex(target) in (0, errno.EISCONN)
twin.setblocking(True)
twin.sendall(b"GET /256 HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n")
print(len(twin.recv(65536, socket.MSG_WAITALL)) > 256)"""))
    assert result.out.strip() == "True"


def test_states_of_a_socket(gate):
    result = ok(gate.python(["good.test:7001 raw"], """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
target = socket.getaddrinfo("good.test", 7001, type=socket.SOCK_STREAM)[0][4]
s = socket.socket()
s.connect(target)
assert s.connect_ex(target) == errno.EISCONN, s.connect_ex(target)
assert libc.connect(s.fileno(), b"\\0" * 16, 16) == 0        # AF_UNSPEC
s.connect(target)
assert s.recv(8) == b"welcome\\n"
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
assert u.connect_ex(("93.184.216.35", 9)) == errno.EACCES
assert u.connect_ex(target) == 0
try:
    u.send(b"x")
    raise SystemExit("sent")
except OSError as e:
    assert e.errno == errno.EDESTADDRREQ
def raw(s, data):
    r = libc.connect(s.fileno(), data, len(data))
    return ctypes.get_errno() if r else 0
t = socket.socket()
assert raw(t, b"\\2\\0") == errno.EINVAL
assert raw(t, b"\\2") == errno.EINVAL
assert raw(t, b"\\x0a\\0" + b"\\0" * 26) == errno.EAFNOSUPPORT
assert raw(t, b"\\xff\\xff" + b"\\0" * 26) == errno.EAFNOSUPPORT
print("done")"""))
    assert result.out.strip() == "done"
    only(result, (internet.HOST, 7001))


def test_half_close(gate):
    result = ok(gate.python(["good.test:7002 raw"], """
import hashlib, os, socket
data = os.urandom(3 << 20)
s = socket.create_connection(("good.test", 7002))
s.sendall(data)
s.shutdown(socket.SHUT_WR)
print(s.recv(64, socket.MSG_WAITALL).decode() == hashlib.sha256(data).hexdigest(), s.recv(1))"""))
    assert result.out.split() == ["True", "b''"]


def test_large_transfers(gate):
    result = ok(gate.python([HTTP], FETCH + """
import hashlib, os
size = 64 << 20
assert fetch("good.test", path=f"/{size}") == bytes(range(256)) * (size // 256)
data = os.urandom(1 << 20)
digest = hashlib.sha256()
s = socket.create_connection(("good.test", 80))
s.sendall(f"PUT / HTTP/1.1\\r\\nHost: good.test\\r\\nContent-Length: {size}\\r\\n\\r\\n".encode())
for _ in range(64):
    s.sendall(data)
    digest.update(data)
answer = b""
while block := s.recv(65536):
    answer += block
print(answer.split(b"\\r\\n\\r\\n")[1].decode() == digest.hexdigest())"""))
    assert result.out.strip() == "True"


def test_reset_is_passed_on(gate):
    result = ok(gate.python(["good.test:7004 raw"], """
import socket
s = socket.create_connection(("good.test", 7004))
s.sendall(b"xx")
try:
    print(s.recv(1))
except ConnectionResetError:
    print("reset")"""))
    assert result.out.strip() == "reset"


def test_500_in_parallel(gate):
    result = ok(gate.python([HTTP], """
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
async def one(address):
    r, w = await asyncio.open_connection(address, 80)
    w.write(b"GET /256 HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n")
    data = await r.read()
    w.close()
    return len(data) > 256
async def main():
    address = (await asyncio.get_running_loop().getaddrinfo("good.test", 80))[0][4][0]
    print(sum(await asyncio.gather(*[one(address) for _ in range(500)])))
asyncio.run(main())""", timeout=120))
    assert result.out.strip() == "500"


def test_too_many_connections(gate):
    result = ok(gate.python(["good.test:7001 raw"] if gate.tier == "container" else ["good.test:80"], """
import errno, socket, sys
port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
target = socket.getaddrinfo("good.test", port, type=socket.SOCK_STREAM)[0][4]
held = [socket.socket() for _ in range(20)]
print([s.connect_ex(target) for s in held].count(errno.EAGAIN))"""
        .replace("PORT", "7001" if gate.tier == "container" else "80"), options=["connections=8"]))
    assert result.out.strip() == "12"
    assert len(result.denied("limit")) == 12


def test_loopback_inside(gate):
    if gate.tier != "container":
        pytest.skip("the process tier has no loopback of its own")
    result = ok(gate.python([], """
import socket
l = socket.create_server(("127.0.0.1", 0))
s = socket.create_connection(l.getsockname())
l.accept()[0].sendall(b"inside")
print(s.recv(10))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("127.0.0.1", 0))
v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v.connect(u.getsockname())
v.send(b"datagram")
print(u.recv(10))
l6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
socket.create_connection(l6.getsockname()[:2])
try:
    socket.create_connection(("127.0.0.1", 1))
except ConnectionRefusedError:
    print("refused")"""))
    assert result.out.split() == ["b'inside'", "b'datagram'", "refused"]
    assert result.packets == {}


def test_names_over_tcp_and_malformed_ones(gate):
    result = ok(gate.python([HTTP], """
import os, socket, struct
def name(n): return b"".join(bytes([len(p)]) + p for p in n.split(b".")) + b"\\0"
def query(n, kind=1): return os.urandom(2) + bytes.fromhex("01000001000000000000") + name(n) + struct.pack("!HH", kind, 1)
s = socket.create_connection(("9.9.9.9", 53))       # whoever is asked, the gate's own server answers
for n, code in ((b"good.test", 0), (b"other.test", 3), (b"GOOD.tesT", 0)):
    q = query(n)
    s.sendall(struct.pack("!H", len(q)) + q)
    size, = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))
    a = s.recv(size, socket.MSG_WAITALL)
    assert a[:2] == q[:2] and a[3] & 15 == code, a
    assert q[12:] in a
pair = query(b"good.test"), query(b"good.test", 28)
s.sendall(b"".join(struct.pack("!H", len(q)) + q for q in pair))
for q in pair:
    size, = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))
    assert s.recv(size, socket.MSG_WAITALL)[:2] == q[:2]
s.sendall(b"\\0\\1x")
assert s.recv(1) == b""
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(5)
u.connect(("9.9.9.9", 53))
for junk in (b"", b"x", os.urandom(300), query(b"good.test")[:-3], query(b"127.0.0.1"), query(b"good.test", 255)):
    u.send(junk)
q = query(b"good.test")
u.send(q)
while u.recv(2000)[:2] != q[:2]:
    pass
print("done")"""))
    assert result.out.strip() == "done"
    assert result.queries == {"good.test"}
    assert result.reached() == set()
    # The one over TCP, and those that are no datagrams to ask a question with.
    assert len([event for event in result.denied("resolve") if event[2] == "a malformed question"]) >= 6, result.events


@pytest.mark.parametrize("port, head", [
    (80, b"GET / HTTP/1.1\r\nHost: good.test\r\nHost: other.test\r\n\r\n"),
    (80, b"GET / HTTP/1.1\r\n Host: good.test\r\n\r\n"),
    (80, b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff"),
    (443, b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff"),
    (443, b"\x16\x03\x01\x00\x00"),
])
def test_malformed_first_bytes_are_told(gate, port, head):
    result = ok(gate.python([f"good.test:{port}"], f"""
import socket
s = socket.create_connection(("good.test", {port}))
try:
    s.sendall({head!r})
    s.shutdown(socket.SHUT_WR)
    print(s.recv(1))
except OSError as e:
    print("reset")""", options=["first_ms=2000"]))
    assert result.out.strip() == "reset"
    assert len(result.denied("first bytes")) == 1
    assert [event for event in result.events if event[0] == "close"][0][5] == "0"


def test_malformed_addresses_are_told(gate):
    result = ok(gate.python([HTTP], """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for family, address, length in ((2, b"\\2\\0\\0\\x50\\x5d\\xb8", 6), (2, b"\\2", 1), (2, b"", 0), (10, b"\\x0a\\0" + bytes(20), 22), (2, b"\\x77\\x77" + bytes(14), 16)):
    s = socket.socket(family)
    libc.connect(s.fileno(), address, length)
    print(errno.errorcode[ctypes.get_errno()])"""))
    assert set(result.out.split()) <= {"EINVAL", "EAFNOSUPPORT"} and len(result.out.split()) == 5, result.out
    assert len([event for event in result.denied("connect") if event[2] == "a malformed address"]) == 5, result.events
    assert result.reached() == set()


def test_names_that_carry_data_are_stopped_and_told(gate):
    """Random labels under a wildcard: a few leave, then each is refused and an event; a long one at once."""
    result = ok(gate.python(["*.wild.test:80"], """
import os, socket
def ask(name):
    try: socket.getaddrinfo(name, 80, socket.AF_INET)
    except OSError: pass
ask(".".join(["a" * 50] * 3) + ".wild.test")
for i in range(120): ask(os.urandom(12).hex() + ".wild.test")"""))
    refused = [event for event in result.denied("resolve") if "data" in event[3] or "long" in event[3]]
    assert len(refused) > 80, result.events[-3:]
    assert 0 < len(result.queries) < 40 and not [name for name in result.queries if len(name) > 100]


def test_a_lame_server_does_not_hang(gate):
    result = gate.python(["lame.test:80"], FETCH + "fetch('lame.test')", timeout=30)
    assert "gaierror" in result.err


RACES = {"race": 4000, "swap": 4000, "flags": 4000}


@pytest.mark.parametrize("how", RACES)
def test_races(gate, how):
    result = ok(gate(["93.184.216.34:7003 raw"] if gate.tier == "container" else ["93.184.216.34:80"],
                     BUILD / "gate_workload", how, internet.HOST, internet.OTHER,
                     "7003" if gate.tier == "container" else "80", str(RACES[how]), timeout=180))
    assert int(result.out) > 0
    assert not [place for place in result.reached() if place[0] != internet.HOST], result.reached()


def test_the_race_is_real(gate):
    """Without the gate, with the kernel reading the address again, the same program gets through."""
    if gate.tier != "process":
        pytest.skip("in a container the namespace stands behind the gate")
    for _ in range(20):
        result = gate(["93.184.216.34:80"], BUILD / "gate_workload", "race", internet.HOST, internet.OTHER, "80", "2000",
                      options=["unsafe=1"], timeout=120)
        if internet.OTHER in {place[0] for place in result.reached()}:
            return
    pytest.fail("the control never reached the forbidden address: the race tests prove nothing")


def test_killed_while_it_waits(gate):
    result = ok(gate.python(["silent.test:80", HTTP], FETCH + """
import os, signal, time
target = socket.getaddrinfo("silent.test", 80, type=socket.SOCK_STREAM)[0][4]
for blocking in (True, False) * 5:
    child = os.fork()
    if child == 0:
        s = socket.socket()
        s.setblocking(blocking)
        s.connect_ex(target)
        time.sleep(60)
    time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
print(len(fetch("good.test")))"""))
    assert result.out.strip() == "512"
    only(result, (internet.HOST, 80), (internet.DEAD, 80))


SOURCE_ROUTE = """
import socket, threading, time
route = bytes([131, 7, 4]) + socket.inet_aton("93.184.216.35") + b"\\0"
def set_route(s):
    s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, route)
target = socket.getaddrinfo("good.test", 80, type=socket.SOCK_STREAM)[0][4]
before = socket.socket()
set_route(before)
before.setblocking(False)
before.connect_ex(target)
after = socket.socket()
after.connect(target)
set_route(after)
after.setblocking(False)
for _ in range(20):
    try:
        after.send(b"secret" * 1000)
    except OSError:
        pass
for _ in range(300):
    s = socket.socket()
    s.setblocking(False)
    t = threading.Thread(target=set_route, args=(s,))
    t.start()
    s.connect_ex(target)
    t.join()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect_ex(("9.9.9.9", 53))
set_route(u)
try:
    u.send(b"secret")
except OSError:
    pass
time.sleep(0.3)
print("done")"""


def test_source_routes_lead_nowhere(gate):
    result = ok(gate.python([HTTP], SOURCE_ROUTE))
    assert result.out.strip() == "done"
    only(result, (internet.HOST, 80))


def test_source_routes_without_the_tie(gate, monkeypatch):
    if gate.tier != "process":
        pytest.skip("in a container there is no route")
    monkeypatch.setenv("BRIG_TEST_WITHOUT", "confine")
    result = gate.python([HTTP], SOURCE_ROUTE)
    assert internet.OTHER in {place[0] for place in result.reached()}


def test_raw_goes_straight_where_it_may(gate):
    if gate.tier != "process":
        pytest.skip("a container has no way of its own")
    result = ok(gate.python(["good.test:7001 raw"], """
import socket
s = socket.create_connection(("good.test", 7001))
print(s.getpeername()[0], s.recv(8))""", options=["straight=1"]))
    assert result.out.split()[0] == internet.HOST


def test_closed_during_the_dial(gate):
    result = ok(gate(["93.184.216.34:7003", "93.184.216.99:80"], BUILD / "gate_workload", "close", internet.HOST, "7003",
                     "2000", timeout=120))
    assert result.out.strip() == "2000"


def test_a_change_of_names_needs_no_answer_twice(gate):
    """The second lookup comes from the cache, and the address stays allowed."""
    result = ok(gate.python([HTTP], FETCH + "print(len(fetch('good.test')) + len(fetch('good.test')))"))
    assert result.out.strip() == "1024"
    assert len([1 for key in result.packets if key.endswith(" 53")]) == 1
