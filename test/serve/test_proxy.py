"""Ports of sandboxes through the daemon: real servers inside, real sockets outside."""

import base64
import hashlib
import http.client
import json
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import harness
import pytest
from conftest import wait_for

SCRIPT = (Path(__file__).parent / "inside_server.py").read_text()
PORT = 8080


def start(daemon, sandbox, *words):
    """A program in the sandbox that says "ready" on its first line, and goes on."""
    process = subprocess.Popen([*daemon.who.prefix(), str(daemon.exe), "exec", sandbox["sandboxID"], *words], cwd=daemon.work,
                               env=daemon.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = process.stdout.readline()
    assert line == b"ready\n", (line, process.stderr.read())
    return process


def stop(process):
    process.kill()
    process.wait(harness.HANG)
    process.stdout.close()
    process.stderr.close()


@pytest.fixture(scope="module")
def inside(daemon):
    """A sandbox with inside_server.py at PORT, which all tests share."""
    made = daemon.make()
    process = start(daemon, made, "python3", "-c", SCRIPT, str(PORT))
    yield made
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")
    stop(process)


def ask(daemon, sandbox, method, path, port=PORT, headers=None, body=None):
    return daemon.ask(method, path, raw=body, key=False,
                      headers={"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": str(port), **(headers or {})})


def connect(daemon, sandbox, path, method="GET", fields="", port=PORT):
    """A connection with a request on it; nothing of the answer was read."""
    sock = socket.create_connection(("127.0.0.1", daemon.port), harness.HANG)
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nE2b-Sandbox-Id: {sandbox['sandboxID']}\r\n"
                 f"E2b-Sandbox-Port: {port}\r\n{fields}\r\n".encode())
    return sock


def read_until(sock, end):
    data = b""
    while not data.endswith(end) if end else True:
        part = sock.recv(65536)
        if not part:
            assert not end, data
            break
        data += part
    return data


def fields_of(answer, name):
    return [value for key, value in answer.json["fields"] if key.lower() == name]


# --- what is passed on ---


def test_a_request_arrives_as_it_was(daemon, inside):
    answer = ask(daemon, inside, "POST", "/seen/a%20b?c=d&e", headers={"X-Mine": "1", "Cookie": "a=b", "Authorization": "Bearer mine"},
                 body=b"hello")
    assert answer.status == 200
    assert answer.json["words"] == ["POST", "/seen/a%20b?c=d&e", "HTTP/1.1"]
    assert answer.json["length"] == 5 and answer.json["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert fields_of(answer, "x-mine") == ["1"]
    assert fields_of(answer, "cookie") == ["a=b"]
    assert fields_of(answer, "authorization") == ["Bearer mine"]
    assert fields_of(answer, "host") == [f"127.0.0.1:{daemon.port}"]
    assert fields_of(answer, "x-forwarded-for") == ["127.0.0.1"]
    assert fields_of(answer, "x-forwarded-proto") == ["http"]
    assert fields_of(answer, "x-forwarded-host") == [f"127.0.0.1:{daemon.port}"]
    assert fields_of(answer, "content-length") == ["5"]


def test_what_is_between_client_and_daemon_stays_there(daemon, inside):
    answer = ask(daemon, inside, "GET", "/seen", headers={
        "X-API-Key": daemon.key, "X-Access-Token": "secret", "E2b-Traffic-Access-Token": "secret",
        "Authorization": f"Bearer {daemon.key}", "Connection": "X-Named, keep-alive", "X-Named": "1", "TE": "trailers",
        "Proxy-Authorization": "x", "Keep-Alive": "3", "X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https"})
    assert answer.status == 200
    text = json.dumps(answer.json)
    assert daemon.key not in text and "secret" not in text
    for name in ("x-named", "te", "proxy-authorization", "keep-alive", "e2b-sandbox-id", "e2b-sandbox-port", "authorization"):
        assert fields_of(answer, name) == [], name
    assert fields_of(answer, "connection") == ["close"]
    assert fields_of(answer, "x-forwarded-for") == ["1.2.3.4, 127.0.0.1"]
    assert fields_of(answer, "x-forwarded-proto") == ["http"]


def test_an_answer_arrives_as_it_was(daemon, inside):
    answer = ask(daemon, inside, "GET", "/seen")
    assert answer.headers.get_all("x-two") == ["a", "b"]
    assert answer.headers["x-hop"] is None and answer.headers["keep-alive"] is None
    answer = ask(daemon, inside, "GET", "/redirect")
    assert answer.status == 302 and answer.headers["location"] == "/elsewhere"
    assert answer.headers.get_all("set-cookie") == ["a=b", "c=d"]
    answer = ask(daemon, inside, "GET", "/teapot")
    assert answer.status == 418 and answer.body == b"hi"
    answer = ask(daemon, inside, "GET", "/old")
    assert answer.status == 200 and answer.body == b"until the end"
    answer = ask(daemon, inside, "GET", "/continue")
    assert answer.status == 200 and answer.body == b"late"
    answer = ask(daemon, inside, "GET", "/long")
    assert answer.body == b"hello"


@pytest.mark.parametrize("method, path, status", [("GET", "/204", 204), ("GET", "/304", 304), ("HEAD", "/length", 200),
                                                  ("HEAD", "/seen", 200)])
def test_answers_without_a_body_leave_the_connection_usable(daemon, inside, method, path, status):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
    fields = {"E2b-Sandbox-Id": inside["sandboxID"], "E2b-Sandbox-Port": str(PORT)}
    for _ in range(2):
        connection.request(method, path, headers=fields)
        answer = connection.getresponse()
        assert answer.status == status and answer.read() == b""
    if path == "/length":
        assert answer.headers["content-length"] == "99"
    connection.request("GET", "/seen", headers=fields)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_any_method(daemon, inside, method):
    assert ask(daemon, inside, method, "/seen").json["words"][0] == method


def test_many_requests_on_one_connection(daemon, inside):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
    for i in range(30):
        connection.request("POST", f"/seen/{i}", body=b"x" * i,
                           headers={"E2b-Sandbox-Id": inside["sandboxID"], "E2b-Sandbox-Port": str(PORT)})
        seen = json.loads(connection.getresponse().read())
        assert seen["words"][1] == f"/seen/{i}" and seen["length"] == i
    connection.close()


def test_many_at_once(daemon, inside):
    answers = []

    def one(i):
        answers.append(ask(daemon, inside, "POST", f"/seen/{i}", body=os.urandom(1000 * i)).status)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 60


# --- which sandbox, which port ---


def test_by_the_name_of_the_host(daemon, inside):
    host = f"{PORT}-{inside['sandboxID']}.localhost:{daemon.port}"
    answer = daemon.ask("GET", "/seen", key=False, headers={"Host": host})
    assert answer.status == 200
    assert fields_of(answer, "host") == [host]


@pytest.mark.parametrize("address, port", [("::1", 8081), ("0.0.0.0", 8082)])
def test_servers_at_other_addresses(daemon, inside, address, port):
    process = start(daemon, inside, "python3", "-c", SCRIPT, str(port), address)
    assert ask(daemon, inside, "GET", "/seen", port=port).status == 200
    stop(process)


def test_the_server_of_the_library(daemon, inside):
    text = ("import http.server\n"
            "class H(http.server.SimpleHTTPRequestHandler):\n"
            "    protocol_version = 'HTTP/1.1'\n"
            "s = http.server.ThreadingHTTPServer(('127.0.0.1', 8083), H)\n"
            "print('ready', flush=True)\n"
            "s.serve_forever()")
    process = start(daemon, inside, "python3", "-c", text)
    answer = ask(daemon, inside, "GET", "/", port=8083)
    assert answer.status == 200 and b"Directory listing" in answer.body
    assert ask(daemon, inside, "GET", "/nowhere", port=8083).status == 404
    stop(process)


def test_a_closed_port(daemon, inside):
    answer = ask(daemon, inside, "GET", "/", port=9)
    assert answer.status == 502
    assert "port is not open" in answer.json["message"]
    assert answer.json["port"] == 9 and answer.json["sandboxId"] == inside["sandboxID"]


def test_nobodys_sandbox(daemon):
    answer = ask(daemon, {"sandboxID": "brigdoesnotexist"}, "GET", "/")
    assert answer.status == 502 and "was not found" in answer.json["message"]


# --- bodies ---


@pytest.mark.parametrize("is_chunked", [False, True])
def test_much_in_both_directions(daemon, inside, is_chunked):
    data = os.urandom(1 << 20) * 12
    body = (data[i:i + 100000] for i in range(0, len(data), 100000)) if is_chunked else data
    answer = ask(daemon, inside, "POST", "/seen", body=body)
    assert answer.json["length"] == len(data) and answer.json["sha256"] == hashlib.sha256(data).hexdigest()
    body = (data[i:i + 100000] for i in range(0, len(data), 100000)) if is_chunked else data
    assert ask(daemon, inside, "POST", "/echo", body=body).body == data
    answer = ask(daemon, inside, "GET", "/big")
    assert answer.body == b"".join(bytes([i % 256]) * 65536 for i in range(320))


def test_pieces_come_when_they_are_sent(daemon, inside):
    def look():
        sock = connect(daemon, inside, "/slow")
        times, data = [], b""
        while not data.endswith(b"0\r\n\r\n"):
            part = sock.recv(65536)
            assert part
            data += part
            times.append(time.monotonic())
        sock.close()
        return times, data

    times, data = harness.in_time(look, lambda seen: seen[0][-1] - seen[0][0] > 0.5)
    assert [f"piece{i}".encode() in data for i in range(5)] == [True] * 5
    assert times[-1] - times[0] > 0.5


def test_pieces_go_in_when_they_are_sent(daemon, inside):
    sock = connect(daemon, inside, "/echo", "POST", "Transfer-Encoding: chunked\r\n")
    assert b"200 OK" in read_until(sock, b"\r\n\r\n")
    for word in (b"one", b"two", b"three"):
        sock.sendall(b"%x\r\n%s\r\n" % (len(word), word))
        assert word in read_until(sock, word + b"\r\n")
    sock.sendall(b"0\r\n\r\n")
    assert read_until(sock, b"0\r\n\r\n")
    sock.close()


def test_a_client_that_waits_for_100(daemon, inside):
    sock = connect(daemon, inside, "/seen", "POST", "Content-Length: 2\r\nExpect: 100-continue\r\n")
    assert read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    sock.sendall(b"hi")
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    seen = json.loads(answer.read())
    assert seen["length"] == 2 and "expect" not in [name.lower() for name, _ in seen["fields"]]
    sock.close()


def test_an_answer_before_the_body_was_read(daemon, inside):
    sock = connect(daemon, inside, "/early", "POST", "Content-Length: 100000000\r\n")
    try:
        while True:
            sock.sendall(b"x" * 65536)
            sock.setblocking(False)
            try:
                data = sock.recv(65536)
                break
            except BlockingIOError:
                pass
            finally:
                sock.setblocking(True)
                sock.settimeout(harness.HANG)
    except (BrokenPipeError, ConnectionResetError):
        data = sock.recv(65536)
    assert b"413" in data
    sock.close()


# --- slow ones ---


def test_a_client_that_does_not_read_stops_the_program(daemon, inside):
    sock = connect(daemon, inside, "/endless")

    def sent():
        return ask(daemon, inside, "GET", "/seen").json["counts"]["sent"]

    wait_for(lambda: sent() > 0)
    before = -1
    while (now := sent()) != before:
        before = now
        time.sleep(0.3)
    assert now < 64 << 20
    left = ask(daemon, inside, "GET", "/seen").json["counts"]["left"]
    sock.close()
    wait_for(lambda: ask(daemon, inside, "GET", "/seen").json["counts"]["left"] == left + 1, "the end")


def held(daemon):
    """Bytes that the daemon holds for all clients."""
    text = daemon.ask("GET", "/metrics").body.decode()
    return float(next(line for line in text.splitlines() if line.startswith("brig_http_held_bytes ")).split()[1])


def test_a_program_that_does_not_read_stops_the_client(daemon, inside):
    wait_for(lambda: held(daemon) == 0)
    before = daemon.descriptors()
    sock = connect(daemon, inside, "/deaf", "POST", "Content-Length: 9999999999\r\n")
    sock.setblocking(False)
    sent, still = 0, 0
    while still < 10:
        try:
            sent += sock.send(b"x" * 65536)
            still = 0
        except BlockingIOError:
            still += 1
            time.sleep(0.05)
    assert 0 < sent < 64 << 20
    # What waits for the program is counted, and given back.
    assert 0 < held(daemon) <= 256 << 10
    sock.close()
    # The end of the client is behind what nobody reads: it shows when the program hangs up.
    wait_for(lambda: daemon.descriptors() <= before)
    wait_for(lambda: held(daemon) == 0, "that nothing is held")


def test_a_client_that_leaves(daemon, inside):
    def count(what):
        return ask(daemon, inside, "GET", "/seen").json["counts"][what]

    left, waiting = count("left"), count("waiting")
    before = daemon.descriptors()
    socks = [connect(daemon, inside, "/wait") for _ in range(10)]
    wait_for(lambda: count("waiting") == waiting + 10, "all of them to arrive")
    for sock in socks:
        sock.close()
    wait_for(lambda: count("left") == left + 10, "the program's end")
    wait_for(lambda: daemon.descriptors() <= before)


# --- WebSocket ---


def shake(daemon, sandbox, path="/ws", more=""):
    key = base64.b64encode(os.urandom(16)).decode()
    sock = connect(daemon, sandbox, path, fields=f"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                                                 f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}")
    head = b""
    while b"\r\n\r\n" not in head:
        part = sock.recv(1)
        assert part, head
        head += part
    return sock, key, head.decode()


def send_frame(sock, opcode, data):
    mask = os.urandom(4)
    size = len(data)
    head = struct.pack("!BB", 0x80 | opcode, 0x80 | size) if size < 126 else \
        struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size) if size < 65536 else \
        struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    sock.sendall(head + mask + bytes(a ^ b for a, b in zip(data, (mask * (size // 4 + 1))[:size])))


def take(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        assert part
        data += part
    return data


def take_frame(sock):
    first, size = take(sock, 2)
    if size == 126:
        size = struct.unpack("!H", take(sock, 2))[0]
    elif size == 127:
        size = struct.unpack("!Q", take(sock, 8))[0]
    return first & 15, take(sock, size)


def test_websocket(daemon, inside):
    sock, key, head = shake(daemon, inside)
    accept = base64.b64encode(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    assert head.startswith("HTTP/1.1 101 ") and f"Sec-WebSocket-Accept: {accept}\r\n" in head
    assert "Upgrade: websocket\r\n" in head and "Connection: Upgrade\r\n" in head
    assert take_frame(sock) == (1, b"welcome")
    for data in (b"hello", b"x" * 1000, os.urandom(300000)):
        send_frame(sock, 2, data)
        assert take_frame(sock) == (2, data)
    send_frame(sock, 8, b"")
    assert take_frame(sock) == (8, b"")
    assert sock.recv(1) == b""
    sock.close()


def test_an_upgrade_that_is_refused(daemon, inside):
    sock, _, head = shake(daemon, inside, "/204")
    assert head.startswith("HTTP/1.1 204 ")
    sock.close()


def test_http2_is_not_upgraded_to(daemon, inside):
    answer = ask(daemon, inside, "GET", "/seen", headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAA"})
    assert answer.status == 200
    assert fields_of(answer, "upgrade") == [] and fields_of(answer, "http2-settings") == []


# --- programs that do not answer as they should ---


@pytest.mark.parametrize("path", ["/nothing", "/half", "/garbage", "/lf", "/both", "/twice", "/fold", "/gzip", "/h2", "/101", "/600",
                                  "/hugehead", "/evil"])
def test_what_is_no_answer_is_none(daemon, inside, path):
    answer = ask(daemon, inside, "GET", path)
    assert answer.status == 502, answer
    assert f"port {PORT}" in answer.json["message"]
    assert "evil" not in str(answer.headers).lower()


@pytest.mark.parametrize("path", ["/short", "/shortchunk", "/badchunk"])
def test_what_is_cut_off_looks_so(daemon, inside, path):
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        ask(daemon, inside, "GET", path)


# --- who may ---


def test_tokens_for_traffic(daemon):
    made = daemon.make(network={"allowPublicTraffic": False})
    token = made["trafficAccessToken"]
    process = start(daemon, made, "python3", "-c", SCRIPT, str(PORT))
    assert ask(daemon, made, "GET", "/seen").status == 403
    assert ask(daemon, made, "GET", "/seen", headers={"e2b-traffic-access-token": token[:-1] + "x"}).status == 403
    assert ask(daemon, made, "GET", "/seen", headers={"e2b-traffic-access-token": ""}).status == 403
    answer = ask(daemon, made, "GET", "/seen", headers={"E2b-Traffic-Access-Token": token})
    assert answer.status == 200
    assert token not in json.dumps(answer.json)
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")
    stop(process)


def test_another_host_for_the_program(daemon):
    made = daemon.make(network={"maskRequestHost": "localhost:${PORT}"})
    process = start(daemon, made, "python3", "-c", SCRIPT, str(PORT))
    answer = ask(daemon, made, "GET", "/seen")
    assert fields_of(answer, "host") == [f"localhost:{PORT}"]
    assert fields_of(answer, "x-forwarded-host") == [f"127.0.0.1:{daemon.port}"]
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")
    stop(process)


# --- the end ---


def test_a_sandbox_that_ends_in_the_middle(daemon):
    made = daemon.make()
    process = start(daemon, made, "python3", "-c", SCRIPT, str(PORT))
    stream = connect(daemon, made, "/echo", "POST", "Transfer-Encoding: chunked\r\n")
    assert b"200 OK" in stream.recv(65536)
    waiting = connect(daemon, made, "/wait")
    tunnel, _, _ = shake(daemon, made)
    time.sleep(0.2)
    assert daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204
    rest = b""
    try:
        while part := stream.recv(65536):
            rest += part
    except ConnectionResetError:
        pass
    assert not rest.endswith(b"0\r\n\r\n")
    answer = http.client.HTTPResponse(waiting)
    answer.begin()
    assert answer.status == 502 and b"was not found" in answer.read()
    try:
        while tunnel.recv(65536):
            pass
    except ConnectionResetError:
        pass
    assert ask(daemon, made, "GET", "/seen").status == 502
    for sock in (stream, waiting, tunnel):
        sock.close()
    stop(process)
