"""The Connect protocol in JSON, as a second opinion: envelopes over a socket of one's own, read as they come."""

import base64
import json
import select
import socket
import struct

HANG = 120


def pack(message, flags=0):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


class Broken(Exception):
    """The connection ended before the answer did."""


class Stream:
    """One request whose body may go on, and its answer, message by message."""

    def __init__(self, daemon, sandbox, method, message=None, headers=None, body=None, chunked=False, receive=None):
        self.sock = socket.socket()
        if receive:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.sock.settimeout(HANG)
        self.sock.connect(("127.0.0.1", daemon.port))
        self.bytes, self.body, self.head, self.is_over = b"", b"", None, False
        self.end = None
        fields = {"Host": f"127.0.0.1:{daemon.port}", "E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": "49983",
                  "X-Access-Token": sandbox.get("envdAccessToken") or "", "Connect-Protocol-Version": "1",
                  "Content-Type": "application/connect+json", **(headers or {})}
        body = pack(message) if message is not None else body
        fields["Transfer-Encoding" if chunked else "Content-Length"] = "chunked" if chunked else str(len(body))
        head = f"POST /{method} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n"
        self.sock.sendall(head.encode() + (b"" if chunked else body))

    # The request, where it is chunked.
    def send(self, *messages):
        data = b"".join(map(pack, messages))
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def send_end(self):
        self.sock.sendall(b"0\r\n\r\n")

    # The answer.
    def _more(self):
        data = self.sock.recv(1 << 20)
        if not data:
            raise Broken
        self.bytes += data

    def _line(self):
        while b"\r\n" not in self.bytes:
            self._more()
        line, _, self.bytes = self.bytes.partition(b"\r\n")
        return line

    def _exactly(self, count):
        while len(self.bytes) < count:
            self._more()
        data, self.bytes = self.bytes[:count], self.bytes[count:]
        return data

    def read_head(self):
        if self.head is None:
            status = int(self._line().split()[1])
            self.head = {}
            while line := self._line():
                name, _, value = line.decode().partition(":")
                self.head[name.lower()] = value.strip()
            self.status = status
            self.left = int(self.head.get("content-length", -1))
        return self.status

    def _take_body(self):
        """Another piece of the body; False at its end."""
        self.read_head()
        if self.is_over:
            return False
        if self.left >= 0:
            self.body += self._exactly(self.left)
            self.is_over = True
            return True
        size = int(self._line(), 16)
        self.body += self._exactly(size)
        assert self._line() == b""
        self.is_over = size == 0
        return size > 0

    def rest(self):
        """A body that is no stream."""
        while self._take_body():
            pass
        return self.body

    def message(self):
        """The next one; None at the end, which is then in .end."""
        while len(self.body) < 5 or len(self.body) < 5 + struct.unpack(">I", self.body[1:5])[0]:
            if not self._take_body():
                assert self.body == b"", f"cut off: {self.body[:200]}"
                assert self.end is not None, "no end of the stream"
                return None
        flags, length = struct.unpack(">BI", self.body[:5])
        data, self.body = self.body[5:5 + length], self.body[5 + length:]
        if flags == 2:
            assert self.end is None
            self.end = json.loads(data)
            return self.message()
        assert flags == 0 and self.end is None
        return json.loads(data)

    def event(self):
        """The name of the next event of a process, and what it says; keepalives are left out."""
        while (message := self.message()) is not None:
            (name, value), = message["event"].items()
            if name == "data":
                (kind, text), = value.items()
                return kind, base64.b64decode(text, validate=True)
            if name != "keepalive":
                return name, value
        return None, self.end

    def run(self, limit=None):
        """To its end: pid, output, error or terminal's, and what the end said."""
        got = {"stdout": b"", "stderr": b"", "pty": b""}
        name, value = self.event()
        if name is None:
            return None, got, None
        assert name == "start"
        pid = value["pid"]
        parts = {key: [] for key in got}
        total = 0
        while True:
            name, value = self.event()
            if name not in got:
                break
            parts[name].append(value)
            total += len(value)
            if limit and total >= limit:
                break
        got = {key: b"".join(value) for key, value in parts.items()}
        if name == "end":
            assert self.message() is None
        return pid, got, value

    def is_silent(self, seconds=0.5):
        return not self.bytes and not select.select([self.sock], [], [], seconds)[0]

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def command(script, **more):
    """The message of Start, for a shell."""
    config = {"cmd": "/bin/sh", "args": ["-c", script]}
    config.update(more.pop("config", {}))
    return {"process": config, **more}
