"""Attacks on the daemon: by who has no key, by one tenant on another, by a program inside, by a page of another origin."""

import socket
import threading
import time

import pytest

from conftest import wait_for
from connect_wire import Stream


def begin(daemon, method, path, length, headers):
    """A request whose body is yet to come."""
    sock = socket.create_connection(("127.0.0.1", daemon.port), 60)
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n".encode())
    return sock


def rest(sock, data):
    sock.sendall(data)
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    sock.close()
    return b"".join(parts)


def agent(sandbox, **more):
    return {"E2b-Sandbox-Id": sandbox["sandboxID"], "X-Access-Token": sandbox["envdAccessToken"],
            "Content-Type": "application/json", **more}


@pytest.mark.parametrize("call", ["Stat", "ListDir", "MakeDir", "Remove", "CreateWatcher"])
def test_sandbox_ends_while_a_body_comes(daemon, call):
    """The sandbox that was found by the head is gone when the body is there."""
    made = daemon.make()
    body = b'{"path":""}'
    sock = begin(daemon, "POST", f"/filesystem.Filesystem/{call}", len(body), agent(made))
    time.sleep(0.2)
    assert daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204
    answer = rest(sock, body)
    assert answer.startswith(b"HTTP/1.1 502 "), answer
    assert daemon.ask("GET", "/v1/health").status == 200


@pytest.mark.parametrize("path", ["/v1/sandboxes", "/v1/run"])
def test_own_api_gives_no_open_agent(daemon, path):
    """Who knows the id of a sandbox, and has no key and no token, does nothing in it."""
    if path == "/v1/run":
        def run():
            daemon.ask("POST", "/v1/run", {"command": ["sleep", "100"]})
        thread = threading.Thread(target=run)
        thread.start()
        name = wait_for(lambda: [s["id"] for s in daemon.ask("GET", "/v1/sandboxes").json["sandboxes"]], "the run")[0]
    else:
        thread, name = None, daemon.ask("POST", path, {}).json["id"]
    try:
        bare = {"E2b-Sandbox-Id": name, "Content-Type": "application/json"}
        for where, body in (("/filesystem.Filesystem/ListDir", {"path": "/"}), ("/process.Process/List", {})):
            assert daemon.ask("POST", where, body, bare, key=False).status == 401
        assert daemon.ask("GET", "/files?path=/etc/passwd", headers=bare, key=False).status == 401
        assert daemon.ask("GET", "/envs", headers=bare, key=False).status == 401
        # Its owner gets the token as for any other.
        token = daemon.ask("POST", f"/sandboxes/{name}/connect", {"timeout": 60}).json["envdAccessToken"]
        assert daemon.ask("GET", "/envs", headers={**bare, "X-Access-Token": token}, key=False).status == 200
    finally:
        daemon.ask("DELETE", f"/v1/sandboxes/{name}")
        if thread:
            thread.join()


SERVER = """
import socket
listener = socket.create_server(("", 8081))
while True:
    sock = listener.accept()[0]
    sock.recv(65536)
    sock.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\nCache-Control: public, max-age=31536000\\r\\n"
                 b"Content-Length: 4\\r\\n\\r\\nevil")
    sock.close()
"""


def test_browser_keeps_no_page_of_a_sandbox_as_ours(daemon):
    """A page of another origin asks for our "/" with the header of a sandbox that answers "keep this for a year"."""
    made = daemon.make()
    start = {"process": {"cmd": "python3", "args": ["-c", SERVER]}}
    with Stream(daemon, made, "process.Process/Start", start) as stream:
        stream.message()
        headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "8081"}
        answer = wait_for(lambda: (a := daemon.ask("GET", "/", headers=headers, key=False)).status == 200 and a, "the server")
        assert answer.body == b"evil"
        varies = {word.strip().lower() for line in answer.headers.get_all("Vary") or [] for word in line.split(",")}
        assert {"e2b-sandbox-id", "e2b-sandbox-port"} <= varies
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_page_of_a_sandbox_stays_there(daemon):
    """At the name of one sandbox, no header leads to another: scripts of its pages set what headers they like."""
    one, other = daemon.make(), daemon.make()
    raw = daemon.raw(f"GET /envs HTTP/1.1\r\nHost: 49983-{one['sandboxID']}.localhost:{daemon.port}\r\nConnection: close\r\n"
                     f"E2b-Sandbox-Id: {other['sandboxID']}\r\nX-Access-Token: {other['envdAccessToken']}\r\n\r\n".encode())
    assert raw.startswith(b"HTTP/1.1 401 "), raw
    for made in (one, other):
        daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")
