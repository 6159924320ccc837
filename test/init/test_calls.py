"""Everything else that init is asked, and what it must not be bothered by."""

import errno
import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from conftest import children, until
from speaker import FLAGS, TYPES, End, pack

KEPT, INPUT = FLAGS["START_KEPT"], FLAGS["START_INPUT"]


def test_what_it_looks_like(init):
    proc = Path("/proc", str(init.pid))
    assert (proc / "comm").read_text() == "brig-init\n"
    assert (proc / "cmdline").read_bytes().rstrip(b"\0") == b"brig-init"
    assert "3" in os.listdir(proc / "fd") if os.geteuid() == 0 else True


def test_the_end(make_init):
    """The channel ends, and so does init, whatever is still going on."""
    init = make_init("unix", "user")
    init.start("sleep", "1000", FLAGS=KEPT)
    init.start("sleep", "1000", FLAGS=1)
    init.send("ATTACH", PROCESS=1, FLAGS=1)
    assert init.end() == 0 and init.said() == ""


def test_signals_do_not_matter(init):
    for number in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP}:
        os.kill(init.pid, number)
    assert init.kept("true")[1] == 0


def switches(pid):
    """How often a process went to sleep or was interrupted."""
    status = Path("/proc", str(pid), "status").read_text()
    return [line for line in status.splitlines() if "ctxt_switches" in line]


def test_idle(init):
    """With processes, readers and connections open, init does nothing."""
    started = init.start("sleep", "1000", FLAGS=KEPT)
    init.send("ATTACH", PROCESS=started["PROCESS"], FLAGS=1)
    init.list()
    # Once it has come to rest it stays there: two looks that are apart find the same.
    until(lambda: (switches(init.pid), time.sleep(0.5))[0] == switches(init.pid))


def test_list(init):
    assert init.list() == []
    before = time.time() * 1000
    started = init.start("sh", "-c", "sleep 1000", "x" * 1000, "y", FLAGS=KEPT)
    (shown,) = init.list()
    assert shown["PROCESS"] == 1 and shown["PID"] == started["PID"]
    assert shown["FLAGS"] == FLAGS["PROCESS_RUNNING"] | FLAGS["PROCESS_KEPT"]
    assert before - 2000 < shown["TIME"] < before + 60000
    # Cut off: a list of many is not to be larger than what can be sent.
    assert shown["ARGUMENT"][:3] == ["sh", "-c", "sleep 1000"] and len("".join(shown["ARGUMENT"])) <= 512
    assert "STATUS" not in shown.fields and shown["SIZE"] == 0
    init.ask("SIGNAL", PROCESS=1, SIGNAL=9)
    init.wait(started.call, "EXITED")
    (shown,) = init.list()
    assert shown["FLAGS"] == FLAGS["PROCESS_KEPT"] and shown["STATUS"] == 9


def test_usage(init):
    usage = init.ask("USAGE", "USAGE_IS")
    assert usage["COUNT_OF"] == 0 and usage["MEMORY"] == 0
    assert 0 < usage["DISK"] <= usage["DISK_SIZE"]
    started = init.start("sh", "-c", "sleep 1000 & sleep 1000 & wait", FLAGS=KEPT)
    until(lambda: init.ask("USAGE", "USAGE_IS")["COUNT_OF"] == 3)
    assert init.ask("USAGE", "USAGE_IS")["MEMORY"] > 100000
    init.ask("SIGNAL", PROCESS=1, SIGNAL=9, FLAGS=1)
    init.wait(started.call, "EXITED")
    until(lambda: init.ask("USAGE", "USAGE_IS")["COUNT_OF"] == 0)
    # Of what has ended, too.
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    init.kept("/usr/bin/python3", "-c", busy)
    assert init.ask("USAGE", "USAGE_IS")["CPU"] >= 300000
    # Of what runs, in steps of the clock.
    running = init.start("/usr/bin/python3", "-c", busy + "\nprint('done', flush=True)\ntime.sleep(1000)", FLAGS=KEPT)
    until(lambda: init.read(running["PROCESS"], follow=False)[0])
    assert init.ask("USAGE", "USAGE_IS")["CPU"] >= 560000


def test_init_s_own_processes_do_not_count(init):
    started = init.start("sleep", "1000", FLAGS=1)
    assert len(children(init.pid)) == 1
    assert init.ask("USAGE", "USAGE_IS")["COUNT_OF"] == 1
    for fd in started.descriptors:
        os.close(fd)


# Ports.

class Server:
    """Echoes in capitals, once, and then ends its side."""

    def __init__(self, family=socket.AF_INET, address="127.0.0.1"):
        self.sock = socket.socket(family)
        self.sock.bind((address, 0))
        self.sock.listen()
        self.port = self.sock.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        conn, _ = self.sock.accept()
        with conn:
            while data := conn.recv(65536):
                conn.sendall(data.upper())
        self.sock.close()


@pytest.mark.parametrize("family, address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_dial(init, family, address):
    server = Server(family, address)
    call = init.send("DIAL", PORT=server.port)
    connected = init.wait(call, "CONNECTED")
    if init.passes:
        with socket.socket(fileno=connected.descriptors[0]) as conn:
            conn.settimeout(60)
            conn.sendall(b"hello")
            conn.shutdown(socket.SHUT_WR)
            assert conn.recv(100) == b"HELLO" and conn.recv(100) == b""
        assert init.is_silent()
        return
    assert not connected.descriptors
    init.send("DATA", call=call, DATA=b"hello")
    got = {message.kind: message for message in (init.wait(call), init.wait(call))}
    assert got["CREDIT"]["SIZE"] == 5 and got["DATA"]["DATA"] == b"HELLO"
    init.send("DATA_END", call=call)
    init.wait(call, "DATA_END")
    init.wait(call, "DONE")


@pytest.mark.over("tcp")
def test_dial_much(init):
    """More than a window in both directions, which only credit lets through."""
    server = Server()
    call = init.send("DIAL", PORT=server.port)
    init.wait(call, "CONNECTED")
    total, sent, credit, got = 3_000_000, 0, 256 * 1024, b""
    while len(got) < total:
        while sent < total and credit >= 30000:
            n = min(30000, total - sent)
            init.send("DATA", call=call, DATA=b"x" * n)
            sent, credit = sent + n, credit - n
        message = init.wait(call, "DATA", "CREDIT")
        if message.kind == "CREDIT":
            credit += message["SIZE"]
        else:
            got += message["DATA"]
            init.send("CREDIT", call=call, SIZE=len(message["DATA"]))
    assert got == b"X" * total
    init.send("DATA_END", call=call)
    while init.wait(call, "CREDIT", "DATA_END").kind != "DATA_END":
        pass
    init.wait(call, "DONE")


@pytest.mark.over("tcp")
def test_dial_beyond_the_window(init):
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = init.send("DIAL", PORT=server.getsockname()[1])
        conn, _ = server.accept()
        with conn:
            init.wait(call, "CONNECTED")
            # Nobody reads there, and all that the kernel takes is taken: then the window, and then it is over.
            for _ in range(1000):
                init.send("DATA", call=call, DATA=b"x" * 30000)
            while (message := init.wait(call, "CREDIT", "ERROR")).kind == "CREDIT":
                pass
            assert message["CODE"] == errno.EMSGSIZE


@pytest.mark.over("tcp")
def test_dial_is_not_told_more_than_the_window(init):
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = init.send("DIAL", PORT=server.getsockname()[1])
        conn, _ = server.accept()
        conn.settimeout(60)
        init.wait(call, "CONNECTED")
        sender = threading.Thread(target=lambda: (conn.sendall(b"x" * 1_000_000), conn.close()), daemon=True)
        sender.start()
        got = 0
        while got < 256 * 1024:
            got += len(init.wait(call, "DATA")["DATA"])
        assert got == 256 * 1024 and init.is_silent()
        init.send("CREDIT", call=call, SIZE=1)
        assert len(init.wait(call, "DATA")["DATA"]) == 1
        init.send("CANCEL", call=call)
        # Closed with what was not read: the other side sees that.
        sender.join(60)
        assert not sender.is_alive()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_dial_nobody(init):
    port = free_port()
    assert init.fail("DIAL", PORT=port) == (errno.ECONNREFUSED, f"cannot connect to port {port} inside: Connection refused")
    for port in (0, 65536, 2**64 - 1):
        assert init.fail("DIAL", PORT=port) == (errno.EINVAL, f"{port} is not a port")


def test_dials_have_a_bound(init):
    """A server whose queue is full lets others wait; so many may."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        calls = [init.send("DIAL", PORT=port) for _ in range(300)]
        assert init.wait(calls[-1], "ERROR")["TEXT"] == "256 connections are made at once already"
        for call in calls:
            init.send("CANCEL", call=call)
        init.list()
    for message in init.later:
        for fd in message.descriptors:
            os.close(fd)
    init.later.clear()


# What a warden does not do, and a broken one might.

GARBAGE = {
    "noise": b"GET / HTTP/1.1\r\n\r\n",
    "another version": pack("PROCESSES", 1, version=2),
    "too long": struct.pack("<IHBBI", 2**32 - 1, TYPES["DATA"], 1, 0, 1),
    "unknown type": pack(999, 1),
    "type zero": pack(0, 1),
    "of init itself": pack("READY", 0),
    "of a client only": pack("STATUS", 1),
    "missing field": pack("START", 1),
    "wrong field": pack("PROCESSES", 1, [("PORT", 80)]),
    "number": pack("DIAL", 1, [("PORT", b"80")]),
    "text": pack("START", 1, [("ARGUMENT", b"a\0b\0")]),
    "no end of text": pack("START", 1, [("ARGUMENT", b"ab")]),
    "descriptors that did not come": pack("START", 1, [("ARGUMENT", "true")], descriptors=3),
}


@pytest.mark.parametrize("over", ["unix", "tcp"])
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage(make_init, over, name):
    init = make_init(over, "user")
    call = init.send("PROCESSES")
    init.send_raw(GARBAGE[name])
    # What was asked before is answered; then it is over, with a word about why.
    assert init.wait(call).kind == "DONE"
    with pytest.raises((End, ConnectionResetError)):
        init.next()
    assert init.end() == 1
    assert init.said().startswith("brig-init: ") and init.said().count("\n") == 1


def test_descriptors_that_belong_to_nothing(make_init):
    init = make_init("unix", "user")
    init.send_raw(pack("PROCESSES", 1), [0, 1])
    assert init.wait(1).kind == "DONE"
    with pytest.raises(End):
        init.next()
    assert init.end() == 1


def test_half_a_message(make_init):
    init = make_init("unix", "user")
    init.send_raw(pack("PROCESSES", 1)[:7])
    assert init.is_silent()
    assert init.end() == 0


def test_a_byte_at_a_time(init):
    for byte in pack("START", 1, [("ARGUMENT", "true"), ("FLAGS", KEPT)]):
        init.send_raw(bytes([byte]))
    init.wait(1, "STARTED")
    assert init.wait(1, "EXITED")["STATUS"] == 0


def test_the_same_number_twice(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    for kind, fields in (("START", {"ARGUMENT": ["true"], "FLAGS": KEPT}), ("ATTACH", {"PROCESS": 1}),
                         ("PROCESSES", {}), ("DIAL", {"PORT": 1}), ("STAT", {"PATH": "/"})):
        init.send(kind, call=started.call, **fields)
        error = init.wait(started.call, "ERROR")
        assert (error["CODE"], error["TEXT"]) == (errno.EINVAL, "there is a call with this number already")
    # The first one goes on.
    init.ask("INPUT_END", PROCESS=1)
    assert init.wait(started.call, "EXITED")["STATUS"] == 0


def test_what_belongs_to_no_call(init):
    for call in (0, 1, 77, 2**32 - 1):
        init.send("DATA", call=call, DATA=b"x")
        init.send("DATA_END", call=call)
        init.send("CREDIT", call=call, SIZE=2**64 - 1)
        init.send("CANCEL", call=call)
        # Answers, which a warden gives to clients.
        init.send("DONE", call=call)
        init.send("ERROR", call=call, CODE=1, TEXT="no")
        init.send("EXITED", call=call, STATUS=0)
        init.send("CONNECTED", call=call)
    started = init.start("cat", FLAGS=KEPT | INPUT)
    init.send("DATA", call=started.call, DATA=b"not its input")
    init.send("CREDIT", call=started.call, SIZE=5)
    init.ask("INPUT_END", PROCESS=1)
    assert init.wait(started.call, "EXITED")["STATUS"] == 0
    assert init.read(1)[0] == b""
    assert init.is_silent()


def test_a_flood_of_calls(init):
    """Ten thousand calls before the first answer is read: init stops to listen, and answers them all in the end."""
    wanted = 10000
    sender = threading.Thread(target=lambda: [init.send("SIGNAL", call=i, PROCESS=12345, SIGNAL=9)
                                              for i in range(wanted)], daemon=True)
    sender.start()
    sender.join(0.5)
    resident = int(Path("/proc", str(init.pid), "statm").read_text().split()[1]) * 4096
    for i in range(wanted):
        message = init.next()
        assert (message.kind, message.call) == ("ERROR", i)
    sender.join(60)
    assert resident < 200 * 1024 * 1024
    assert init.kept("true")[1] == 0


def test_a_flood_of_starts(init):
    calls = [init.send("START", ARGUMENT=["true"], FLAGS=KEPT) for _ in range(500)]
    for call in calls:
        init.wait(call, "STARTED")
        assert init.wait(call, "EXITED")["STATUS"] == 0
    until(lambda: not children(init.pid))
    assert len(init.list()) == 64


def test_descriptors_do_not_run_out(make_init):
    """With few to be had, calls are refused, and the channel lives."""
    init = make_init("unix", "user", files=64)
    calls = [init.send("START", ARGUMENT=["sleep", "1000"], FLAGS=KEPT) for _ in range(50)]
    refused = [m for m in (init.wait(call) for call in calls) if m.kind == "ERROR"]
    assert 0 < len(refused) < 50
    assert {m["TEXT"] for m in refused} == {"too much is open in the sandbox at once"}
    null = os.open("/dev/null", os.O_RDWR)
    assert init.fail("START", ARGUMENT=["true"], descriptors=[null] * 3)[0] == errno.EMFILE
    assert init.fail("ATTACH", PROCESS=1, descriptors=[null] * 2)[0] == errno.EMFILE
    os.close(null)
    init.ask("SIGNAL", PROCESS=1, SIGNAL=9)
    init.wait(calls[0], "EXITED")
    assert init.end() == 0
