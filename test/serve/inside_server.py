"""Runs inside of a sandbox: one port, many ways to answer, good ones and others. inside_server.py PORT [ADDRESS]

Every connection is a thread; the path says what happens. Nothing but the standard library.
"""

import base64
import hashlib
import json
import socket
import struct
import sys
import threading
import time

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
counts = {"sent": 0, "left": 0, "waiting": 0}


class Peer:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def more(self):
        part = self.sock.recv(65536)
        if not part:
            raise EOFError
        self.buffer += part

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, n):
        while len(self.buffer) < n:
            self.more()
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part

    def head(self):
        words = self.line().decode("latin-1").split(" ")
        fields = []
        while line := self.line():
            name, value = line.decode("latin-1").split(":", 1)
            fields.append((name, value.strip()))
        return words, fields

    def say(self, text, body=b""):
        self.sock.sendall(text.replace("\n", "\r\n").encode("latin-1") + body)


def get(fields, name):
    return next((value for key, value in fields if key.lower() == name), None)


def bodies(peer, fields):
    """The pieces of the body as they are framed."""
    if (length := get(fields, "content-length")) is not None:
        left = int(length)
        while left:
            if not peer.buffer:
                peer.more()
            part = peer.take(min(left, len(peer.buffer)))
            left -= len(part)
            yield part
    elif get(fields, "transfer-encoding") == "chunked":
        while size := int(peer.line(), 16):
            yield peer.take(size)
            peer.take(2)
        peer.take(2)


def seen(peer, words, fields):
    """What came, as JSON."""
    digest, length, pieces = hashlib.sha256(), 0, 0
    for piece in bodies(peer, fields):
        digest.update(piece)
        length += len(piece)
        pieces += 1
    body = json.dumps({"words": words, "fields": fields, "length": length, "pieces": pieces,
                       "sha256": digest.hexdigest(), "counts": counts}).encode()
    peer.say(f"HTTP/1.1 200 Fine\nContent-Type: application/json\nX-Two: a\nX-Two: b\nConnection: X-Hop, close\n"
             f"X-Hop: 1\nKeep-Alive: timeout=5\nContent-Length: {len(body)}\n\n", body)


def echo(peer, words, fields):
    """Each piece at once."""
    peer.say("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")
    for piece in bodies(peer, fields):
        peer.say(f"{len(piece):x}\n", piece + b"\r\n")
    peer.say("0\nX-Trailer: 1\n\n")


def slow(peer, words, fields):
    peer.say("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")
    for i in range(5):
        peer.say(f"6;ext=1\npiece{i}\n")
        time.sleep(0.2)
    peer.say("0\n\n")


def endless(peer, words, fields):
    """Until nobody takes it; how much that was is told by /seen."""
    counts["sent"] = 0
    block = b"x" * 65536
    peer.say("HTTP/1.1 200 OK\nContent-Length: 999999999999\n\n")
    try:
        while True:
            peer.sock.sendall(block)
            counts["sent"] += len(block)
    except OSError:
        counts["left"] += 1


def big(peer, words, fields):
    peer.say("HTTP/1.0 200 OK\n\n")
    for i in range(320):
        peer.sock.sendall(bytes([i % 256]) * 65536)


def deaf(peer, words, fields):
    """Reads nothing, and hangs up after a while."""
    time.sleep(4)


def wait(peer, words, fields):
    """Until the client has left."""
    counts["waiting"] += 1
    try:
        peer.more()
    except (EOFError, OSError):
        counts["left"] += 1


def early(peer, words, fields):
    """An answer before the body was read."""
    peer.say("HTTP/1.1 413 No\nContent-Length: 2\nConnection: close\n\nno")
    time.sleep(0.5)


def frame(opcode, data):
    if len(data) < 126:
        return struct.pack("!BB", 0x80 | opcode, len(data)) + data
    if len(data) < 65536:
        return struct.pack("!BBH", 0x80 | opcode, 126, len(data)) + data
    return struct.pack("!BBQ", 0x80 | opcode, 127, len(data)) + data


def websocket(peer, words, fields):
    key = get(fields, "sec-websocket-key")
    if (get(fields, "upgrade") or "").lower() != "websocket" or not key:
        peer.say("HTTP/1.1 400 Bad\nContent-Length: 0\n\n")
        return
    accept = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
    peer.say(f"HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Accept: {accept}\n\n")
    peer.sock.sendall(frame(1, b"welcome"))
    while True:
        first, size = peer.take(2)
        size &= 127
        if size == 126:
            size = struct.unpack("!H", peer.take(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", peer.take(8))[0]
        mask = peer.take(4)
        data = peer.take(size)
        data = bytes(a ^ b for a, b in zip(data, (mask * (size // 4 + 1))[:size]))
        peer.sock.sendall(frame(first & 15, data))
        if first & 15 == 8:
            return


TEXTS = {
    "/204": "HTTP/1.1 204 None\nX-A: b\n\n",
    "/304": "HTTP/1.1 304 Same\nETag: x\nContent-Length: 99\n\n",
    "/length": "HTTP/1.1 200 OK\nContent-Length: 99\n\n",
    "/continue": "HTTP/1.1 100 Continue\n\nHTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 4\n\nlate",
    "/old": "HTTP/1.0 200 OK\nContent-Type: text/plain\n\nuntil the end",
    "/nothing": "",
    "/half": "HTTP/1.1 200 OK\nContent-",
    "/garbage": "\x16\x03\x01 garbage\n\n",
    "/lf": "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",  # sent as it is, see below
    "/both": "HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n",
    "/twice": "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6\n\nhello!",
    "/fold": "HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 2\n\nhi",
    "/gzip": "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\nhi",
    "/h2": "HTTP/2.0 200 OK\nContent-Length: 2\n\nhi",
    "/101": "HTTP/1.1 101 Now\nConnection: upgrade\nUpgrade: x\n\nhi",
    "/600": "HTTP/1.1 600 OK\nContent-Length: 2\n\nhi",
    "/short": "HTTP/1.1 200 OK\nContent-Length: 10\n\nhello",
    "/shortchunk": "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n5\nhel",
    "/badchunk": "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\nxyz\n",
    "/long": "HTTP/1.1 200 OK\nContent-Length: 5\n\nhelloHTTP/1.1 200 OK\nContent-Length: 5\n\nworld",
    "/evil": "HTTP/1.1 200 OK\nX-A: b\rX-Evil: c\nContent-Length: 2\n\nhi",
    "/redirect": "HTTP/1.1 302 Found\nLocation: /elsewhere\nSet-Cookie: a=b\nSet-Cookie: c=d\nContent-Length: 0\n\n",
    "/teapot": "HTTP/1.1 418 I'm a teapot\nContent-Length: 2\n\nhi",
}
HANDLERS = {"/seen": seen, "/echo": echo, "/slow": slow, "/endless": endless, "/big": big, "/deaf": deaf, "/wait": wait,
            "/early": early, "/ws": websocket}


def serve(sock):
    peer = Peer(sock)
    try:
        words, fields = peer.head()
        path = words[1].split("?")[0]
        if path == "/lf":
            sock.sendall(TEXTS[path].encode())
        elif path == "/hugehead":
            peer.say("HTTP/1.1 200 OK\nA: " + "a" * 200000 + "\n\n")
        elif path in TEXTS:
            peer.say(TEXTS[path])
        else:
            HANDLERS.get(path, seen)(peer, words, fields)
    except (EOFError, OSError):
        pass
    finally:
        sock.close()


def main():
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    listener = socket.create_server((address, int(sys.argv[1])), family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                                    backlog=128)
    print("ready", flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


main()
