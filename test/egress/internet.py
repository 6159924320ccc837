"""The network that the gate's tests believe to be the world: run in a network namespace of its own.

    internet.py CONTROL INTERFACE CERTIFICATE

Servers for DNS (UDP and TCP), HTTP, TLS and a few protocols of one line each, on every address; and a sink that sees
every packet which arrives on INTERFACE. CONTROL is a UNIX socket: one word in, one JSON document out.
"""

import functools
import hashlib
import http.server
import json
import os
import select
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time

HOST, OTHER, DEAD = "93.184.216.34", "93.184.216.35", "93.184.216.99"
HOST6, DEAD6 = "2600:1::34", "2600:1::dead"
NAMES = {
    "good.test": [HOST],
    "other.test": [OTHER],
    "dual.test": [HOST, DEAD6],
    "six.test": [HOST6],
    "silent.test": [DEAD],
    "slow.test": [HOST],
    "rebind.test": ["169.254.169.254", "127.0.0.1", "10.0.0.1"],
    "half.test": ["10.0.0.1", HOST],
    "many.test": [HOST] + [f"93.184.217.{i}" for i in range(1, 31)],
    "x.wild.test": [HOST],
    "denied.wild.test": [HOST],
}
ALIASES = {"alias.test": "good.test", "chain.test": "alias.test", "evil.test": "denied.wild.test"}
BLOCK = bytes(range(256)) * 4096
queries, packets, lock = [], {}, threading.Lock()
flows, old_flows = set(), set()  # TCP connections by both ends: those made since the last reset, and those before
caught_up = threading.Event()    # every packet that has arrived is counted


def read_name(data, at):
    labels = []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]])
        at += 1 + data[at]
    return b".".join(labels).decode().lower(), at + 1


def wire_name(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def dns_answer(query, is_tcp):
    name, end = read_name(query, 12)
    kind, = struct.unpack_from("!H", query, end)
    with lock:
        queries.append([name, kind])
    if name == "lame.test":
        return None
    if name == "slow.test":
        time.sleep(0.5)
    records, at = [], name
    while at in ALIASES:
        target = ALIASES[at]
        records.append(wire_name(at) + struct.pack("!HHIH", 5, 1, 60, len(wire_name(target))) + wire_name(target))
        at = target
        if name in ("chain.test", "evil.test"):         # only the first step: the asker has to follow
            break
    if at not in ALIASES:
        for address in NAMES.get(at, []):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if kind == (28 if family == socket.AF_INET6 else 1):
                raw = socket.inet_pton(family, address)
                records.append(wire_name(at) + struct.pack("!HHIH", kind, 1, 60, len(raw)) + raw)
    known = at in NAMES or at in ALIASES
    flags = 0x8180 | (0 if known else 3)
    truncated = not is_tcp and len(records) > 20
    if truncated:
        records, flags = [], flags | 0x0200
    return query[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + query[12:end + 4] + b"".join(records)


class DnsUdp(socketserver.BaseRequestHandler):
    def handle(self):
        answer = dns_answer(self.request[0], False)
        if answer:
            self.request[1].sendto(answer, self.client_address)


class DnsTcp(socketserver.BaseRequestHandler):
    def handle(self):
        size, = struct.unpack("!H", self.request.recv(2, socket.MSG_WAITALL))
        answer = dns_answer(self.request.recv(size, socket.MSG_WAITALL), True)
        self.request.sendall(struct.pack("!H", len(answer)) + answer)


class Http(socketserver.StreamRequestHandler):
    """GET /N sends N bytes, a multiple of 256; PUT takes the body and says its hash, PUT /drop only takes it."""

    def handle(self):
        line = self.rfile.readline().decode().split()
        if len(line) < 2:
            return
        length = 0
        while (header := self.rfile.readline().strip()):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        if line[0] == "PUT":
            digest = hashlib.sha256()
            while length and line[1] == "/drop":
                length -= len(self.rfile.read1(1 << 20)) or length
            while length:
                block = self.rfile.read(min(length, 1 << 20))
                if not block:
                    break
                digest.update(block)
                length -= len(block)
            body = digest.hexdigest().encode()
            length = len(body)
        else:
            body, length = BLOCK, int(line[1][1:] or 0)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % length)
        while length:
            self.connection.sendall(memoryview(body)[:length])
            length -= min(length, len(body))


class Https(Http):
    def setup(self):
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()


class Banner(socketserver.StreamRequestHandler):
    """The server speaks first, then repeats what it hears."""

    def handle(self):
        self.wfile.write(b"welcome\n")
        for line in self.rfile:
            self.wfile.write(line)


class Sum(socketserver.StreamRequestHandler):
    """Reads to the end, which is a half-close, and only then answers."""

    def handle(self):
        self.wfile.write(hashlib.sha256(self.rfile.read()).hexdigest().encode())


class Files(http.server.SimpleHTTPRequestHandler):
    """What lies in the folder "files" beside the control socket: git, pip and npm get their things there."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


class Accept(socketserver.BaseRequestHandler):
    def handle(self):
        pass


class Reset(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1)
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()


class Quiet:
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass


class Tcp4(Quiet, socketserver.ThreadingTCPServer):
    pass


class Tcp6(Tcp4):
    address_family = socket.AF_INET6


class Udp4(Quiet, socketserver.ThreadingUDPServer):
    pass


def is_of_an_earlier_test(flow, flags):
    """The last words of a connection come when this end closes it, which may be late: they are not the next test's."""
    if flags & 0x12 == 0x02:  # SYN without ACK
        old_flows.discard(flow)
        flows.add(flow)
    return flow in old_flows


def watch_packets(interface):
    """Every IP packet that reaches this network, by protocol, address and port."""
    sink = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    sink.bind((interface, 3))
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    while True:
        if not select.select([sink], [], [], 0.01)[0]:
            caught_up.set()
            continue
        data, (_, kind, direction, *_) = sink.recvfrom(128)
        if direction == 4:
            continue
        if kind == 0x0800:
            protocol, ends, start = data[9], data[12:20], (data[0] & 15) * 4
            target = socket.inet_ntop(socket.AF_INET, data[16:20])
        elif kind == 0x86DD:
            protocol, ends, start = data[6], data[8:40], 40
            target = socket.inet_ntop(socket.AF_INET6, data[24:40])
        else:
            continue
        if protocol in (58, 0) or target.startswith("ff"):       # neighbours
            continue
        port = struct.unpack_from("!H", data, start + 2)[0] if protocol in (6, 17) else 0
        with lock:
            if protocol == 6 and is_of_an_earlier_test(ends + data[start:start + 4], data[start + 13]):
                continue
            key = f"{protocol} {target} {port}"
            packets[key] = packets.get(key, 0) + 1


def control(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    while True:
        client, _ = server.accept()
        word = client.recv(64).decode()
        time.sleep(0.05)                # what is on its way arrives
        caught_up.clear()
        caught_up.wait(60)
        with lock:
            if word == "reset":
                queries.clear()
                packets.clear()
                old_flows.update(flows)
                flows.clear()
            client.sendall(json.dumps({"queries": queries, "packets": packets}).encode())
        client.close()


def main():
    path, interface, certificate = sys.argv[1:]
    servers = [Udp4(("", 53), DnsUdp), Tcp4(("", 53), DnsTcp), Tcp4(("", 80), Http), Tcp6(("::", 8080), Http),
               Tcp4(("", 443), Https), Tcp4(("", 7001), Banner), Tcp4(("", 7002), Sum), Tcp4(("", 7003), Accept),
               Tcp4(("", 7004), Reset)]
    folder = os.path.join(os.path.dirname(path), "files")
    os.makedirs(folder, exist_ok=True)
    servers.append(Tcp4(("", 8001), functools.partial(Files, directory=folder)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    for server in servers:
        server.context = context
        threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True).start()
    threading.Thread(target=watch_packets, args=(interface,), daemon=True).start()
    control(path)


if __name__ == "__main__":
    main()
