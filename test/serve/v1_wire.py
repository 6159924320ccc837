"""Clients of brig's own API that the library has not: events as they come, requests that are left, WebSocket frames."""

import base64
import hashlib
import json
import os
import socket
import struct

import harness


def begin(daemon, method, path, body=None, headers=None, buffer=None):
    """A request of which nobody has read the answer yet; its socket."""
    raw = b"" if body is None else json.dumps(body).encode()
    fields = {"Host": f"127.0.0.1:{daemon.port}", "X-API-Key": daemon.key, "Content-Length": str(len(raw)), **(headers or {})}
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(harness.HANG)
    sock.connect(("127.0.0.1", daemon.port))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    sock.sendall(head.encode() + raw)
    return sock


def rest(sock):
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    sock.close()
    return b"".join(parts)


class Stream:
    """Server-sent events, each as (event, id, data); ends with the answer."""

    def __init__(self, daemon, method, path, body=None, headers=None, buffer=None):
        self.sock = begin(daemon, method, path, body, {"Accept": "text/event-stream", **(headers or {})}, buffer)
        self.file = self.sock.makefile("rb")
        status = self.file.readline()
        assert b" 200 " in status, status
        fields = {}
        while (line := self.file.readline()) != b"\r\n":
            name, value = line.decode().split(":", 1)
            fields[name.lower()] = value.strip()
        assert fields["content-type"] == "text/event-stream" and fields["transfer-encoding"] == "chunked"
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def _more(self):
        size = int(self.file.readline(), 16)
        self.text += self.file.read(size)
        assert self.file.read(2) == b"\r\n"
        return size > 0

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            while b"\n\n" not in self.text:
                if not self._more():
                    assert not self.text
                    raise StopIteration
            block, self.text = self.text.split(b"\n\n", 1)
            event = {"event": "message", "id": None}
            for line in block.decode().split("\n"):
                name, _, value = line.partition(":")
                event[name] = value.removeprefix(" ")
            if "data" in event:
                return event["event"], event["id"], json.loads(event["data"])


def events(daemon, method, path, body=None):
    with Stream(daemon, method, path, body) as stream:
        return list(stream)


class WebSocket:
    """A client that says what it is told to, also what it must not."""

    def __init__(self, daemon, path, protocols=(), key=None):
        nonce = base64.b64encode(os.urandom(16)).decode()
        fields = {"Host": f"127.0.0.1:{daemon.port}", "Connection": "Upgrade", "Upgrade": "websocket",
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": nonce}
        if protocols:
            fields["Sec-WebSocket-Protocol"] = ", ".join(protocols)
        if key:
            fields["X-API-Key"] = key
        self.sock = socket.create_connection(("127.0.0.1", daemon.port), harness.HANG)
        self.sock.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in fields.items()) + "\r\n").encode())
        self.file = self.sock.makefile("rb")
        status = self.file.readline()
        assert b" 101 " in status, status + self.file.read(500)
        self.headers = {}
        while (line := self.file.readline()) != b"\r\n":
            name, value = line.decode().split(":", 1)
            self.headers[name.lower()] = value.strip()
        want = base64.b64encode(hashlib.sha1((nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        assert self.headers["sec-websocket-accept"] == want
        self.output, self.others = b"", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, kind, data):
        mask = os.urandom(4)
        length = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0xfe]) + struct.pack(">H", len(data))
        self.sock.sendall(bytes([0x80 | kind]) + length + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(data)))

    def receive(self):
        head = self.file.read(2)
        assert len(head) == 2, "the connection has ended"
        assert head[0] & 0xf0 == 0x80 and head[1] < 0x80, "a frame that is none of a server's"
        length = head[1]
        if length == 126:
            length = struct.unpack(">H", self.file.read(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.file.read(8))[0]
        return head[0] & 15, self.file.read(length)

    def read_until(self, text):
        """Output of the terminal, until it has this in it."""
        while text not in self.output:
            kind, data = self.receive()
            if kind == 2:
                self.output += data
            else:
                self.others.append((kind, data))
        return self.output

    def read_kind(self, kind):
        """The next frame of a kind."""
        for i, (other, data) in enumerate(self.others):
            if other == kind:
                del self.others[i]
                return data
        while True:
            other, data = self.receive()
            if other == kind:
                return data
            self.others.append((other, data))

    def at_end(self):
        return self.file.read(1) == b""
