"""A warden of nobody's sandbox: it says to brig's clients what no warden of ours would.

    with standin.Warden(brig, answer) as warden:
        brig("cp", f"{warden.id}:tree", "out")

answer(speaker, message) is called for each message of each client, in a thread.
"""

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
import time

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "init"))
import speaker  # noqa: E402

ID = "standinaaaaa"


def silent(_speaker, _message):
    """Never a word."""


class Warden:
    def __init__(self, brig, answer=silent, id=ID, name=None, isolation="container", locks=True, text=None, **more):
        self.id, self.brig, self.answer = id, brig, answer
        self.failures = []
        home = brig.folder / "state" / "brig"
        for folder in (home.parent, home, home / "live", home / "names"):
            if not folder.exists():
                brig.who.mkdir(folder, 0o700)
        self.path = home / "live" / id
        manifest = {"id": id, "name": name, "created": int(time.time() * 1000), "isolation": isolation, **more}
        brig.who.write(self.path, text or json.dumps(manifest), 0o600)
        self.lock = open(self.path, "rb")
        if locks:
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.folder = os.open(self.path.parent, os.O_PATH)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"/proc/self/fd/{self.folder}/{id}.socket")
        brig.who.own(self.path.with_name(f"{id}.socket"))
        if locks:
            self.listener.listen(64)
        self.thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(harness.HANG)
        self.lock.close()
        os.close(self.folder)
        for path in (self.path, self.path.with_name(f"{self.id}.socket")):
            path.unlink(missing_ok=True)
        assert not self.failures, self.failures

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        one = speaker.Speaker(sock)
        try:
            while True:
                self.answer(one, one.next(harness.HANG))
        except (speaker.End, ConnectionError, BrokenPipeError):
            pass
        except Exception as error:  # pylint: disable=broad-except
            self.failures.append(repr(error))
        finally:
            one.close()


def entry(one, call, path, mode=0o100644, size=0, target=None, modified=0):
    fields = {"PATH": path, "MODE": mode, "UID": 0, "GID": 0, "SIZE": size, "MODIFIED": modified}
    one.send("ENTRY", call, **fields, **({"TARGET": target} if target is not None else {}))


def error(one, call, code, text):
    one.send("ERROR", call, CODE=code, TEXT=text)


class Tree:
    """Answers the calls for files out of a list of entries: path of a directory -> [(name, fields, content)]."""

    def __init__(self, directories, contents=None):
        self.directories, self.contents = directories, contents or {}

    def __call__(self, one, m):
        if m.kind == "STAT" and m["PATH"] in self.directories:
            entry(one, m.call, m["PATH"], 0o40755)
        elif m.kind == "STAT" and m["PATH"] in self.contents:
            entry(one, m.call, m["PATH"], size=len(self.contents[m["PATH"]]))
        elif m.kind == "STAT":
            error(one, m.call, 2, f'"{m["PATH"]}": does not exist')
        elif m.kind == "LIST":
            for name, fields in self.directories.get(m["PATH"], []):
                entry(one, m.call, name, **fields)
            one.send("DONE", m.call)
        elif m.kind == "READ":
            self.read(one, m)
        else:
            error(one, m.call, 38, "not here")

    def read(self, one, m):
        content = self.contents.get(m["PATH"], b"")
        with os.fdopen(m.descriptors[0], "wb") as pipe, contextlib.suppress(BrokenPipeError):
            pipe.write(content)
        one.send("DONE", m.call, SIZE=len(content))
