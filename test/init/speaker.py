"""Speaks the protocol of src/proto in the place of the warden. The numbers are read from the header, so that the two
cannot differ; how a frame looks is written down here once more, as a second opinion."""

import array
import os
import re
import select
import socket
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = 12
WINDOW = 256 * 1024


def enum(text, name):
    """The names and numbers of one enum of the header."""
    body = re.search(r"enum %s \{(.*?)\n?\}" % name, text, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    numbers, value = {}, 0
    for part in body.split(","):
        word, _, given = part.strip().partition("=")
        if not word.strip():
            continue
        value = int(given) if given.strip() else value
        numbers[word.strip()] = value
        value += 1
    return numbers


TEXT = (ROOT / "src" / "proto" / "message.h").read_text()
TYPES = {name.removeprefix("MESSAGE_"): n for name, n in enum(TEXT, "message_type").items()}
FIELDS = {name.removeprefix("FIELD_"): n for name, n in enum(TEXT, "field").items()}
FLAGS = {}
for group in ("start_flag", "process_flag", "signal_flag", "attach_flag", "write_flag", "tree_flag"):
    FLAGS.update(enum(TEXT, group))
TYPE_NAMES = {n: name for name, n in TYPES.items()}
FIELD_NAMES = {n: name for name, n in FIELDS.items()}
TEXTS = {"ARGUMENT", "VARIABLE", "DIRECTORY", "USER", "PATH", "TO", "TARGET", "NAME", "TEXT", "LABEL"}
REPEATED = {"ARGUMENT", "VARIABLE"}


def pack(kind, call, fields=(), descriptors=0, version=1):
    """A frame. fields: pairs of a name and a number, a text, or bytes."""
    body = b""
    for name, value in fields:
        if isinstance(value, int):
            value = struct.pack("<Q", value)
        elif isinstance(value, str):
            value = os.fsencode(value) + b"\0"
        body += struct.pack("<HI", FIELDS[name], len(value)) + value
    number = TYPES[kind] if isinstance(kind, str) else kind
    return struct.pack("<IHBBI", len(body), number, version, descriptors, call) + body


class Message:
    def __init__(self, kind, call, fields, descriptors):
        self.kind, self.call, self.fields, self.descriptors = kind, call, fields, descriptors

    def __getitem__(self, name):
        return self.fields[name]

    def get(self, name, other=None):
        return self.fields.get(name, other)

    def __repr__(self):
        return f"{self.kind}({self.call}, {self.fields}, {self.descriptors})"


def unpack(body):
    fields = {}
    while body:
        number, length = struct.unpack_from("<HI", body)
        name, value, body = FIELD_NAMES[number], body[6:6 + length], body[6 + length:]
        assert len(value) == length, "cut off"
        if name in TEXTS:
            assert value.endswith(b"\0") and b"\0" not in value[:-1]
            value = os.fsdecode(value[:-1])
        elif name != "DATA":
            assert length == 8
            value = struct.unpack("<Q", value)[0]
        if name in REPEATED:
            fields.setdefault(name, []).append(value)
        else:
            assert name not in fields, f"{name} twice"
            fields[name] = value
    return fields


class End(Exception):
    pass


class Speaker:
    """One end of a channel. Messages of other calls than the one that is waited for are kept for later."""

    def __init__(self, sock, timeout=60):
        self.sock, self.timeout = sock, timeout
        self.passes = sock.family == socket.AF_UNIX
        self.bytes, self.arrived, self.later = bytearray(), [], []
        self.last = 0

    def send(self, kind, call=None, descriptors=(), **fields):
        """Sends, and says under which number. A list is a repeated field; descriptors stay open here."""
        if call is None:
            self.last += 1
            call = self.last
        pairs = []
        for name, value in fields.items():
            pairs += [(name, one) for one in value] if isinstance(value, list) else [(name, value)]
        self.send_raw(pack(kind, call, pairs, len(descriptors)), descriptors)
        return call

    def send_raw(self, data, descriptors=()):
        self.sock.settimeout(self.timeout)
        if descriptors:
            sent = self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])
            data = data[sent:]
        # Not even nothing can be sent to one that has ended already.
        if data:
            self.sock.sendall(data)

    def _read(self, timeout):
        ready, _, _ = select.select([self.sock], [], [], timeout)
        if not ready:
            raise TimeoutError("nothing came")
        data, control, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4 * 64) if self.passes else 0)
        for level, kind, content in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.arrived += array.array("i", content[:len(content) // 4 * 4])
        if not data:
            raise End
        self.bytes += data

    def _take(self):
        if len(self.bytes) < HEADER:
            return None
        length, kind, version, descriptors, call = struct.unpack_from("<IHBBI", self.bytes)
        if len(self.bytes) < HEADER + length:
            return None
        assert version == 1
        body = bytes(self.bytes[HEADER:HEADER + length])
        del self.bytes[:HEADER + length]
        mine, self.arrived = self.arrived[:descriptors], self.arrived[descriptors:]
        assert len(mine) == descriptors
        return Message(TYPE_NAMES[kind], call, unpack(body), mine)

    def _receive(self, timeout):
        while not (message := self._take()):
            self._read(timeout)
        return message

    def next(self, timeout=None):
        """The next message of any call."""
        return self.later.pop(0) if self.later else self._receive(self.timeout if timeout is None else timeout)

    def wait(self, call, *kinds):
        """The next message of this call, which has to be of one of these kinds."""
        for i, message in enumerate(self.later):
            if message.call == call:
                del self.later[i]
                break
        else:
            while (message := self._receive(self.timeout)).call != call:
                self.later.append(message)
        assert not kinds or message.kind in kinds, message
        return message

    def ask(self, kind, *answers, descriptors=(), **fields):
        return self.wait(self.send(kind, descriptors=descriptors, **fields), *(answers or ("DONE",)))

    def is_silent(self, seconds=0.2):
        """Whether nothing comes. For the absence of something there is no other way than to wait."""
        try:
            self.later.append(self.next(seconds))
            return False
        except TimeoutError:
            return True

    def close(self):
        for fd in self.arrived + [fd for m in self.later for fd in m.descriptors]:
            os.close(fd)
        self.sock.close()
