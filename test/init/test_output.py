"""What is kept of a process, who reads it, and what it reads itself."""

import errno
import os
import select
import signal

import pytest

from conftest import until
from speaker import FLAGS, WINDOW

KEPT, INPUT, FOLLOW = FLAGS["START_KEPT"], FLAGS["START_INPUT"], FLAGS["ATTACH_FOLLOW"]
RING = 256 * 1024
READERS = 1024
LINES = "i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done"


def test_in_order(init):
    """Both streams in the order in which they were heard."""
    started = init.start("sh", "-c", "echo one; read a; echo two >&2; read b; echo three; exit 5", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    for so_far in (b"one\n", b"one\ntwo\n"):
        until(lambda: b"".join(init.read(process, follow=False)[:2]) == so_far)
        init.ask("INPUT", PROCESS=process, DATA=b"go on\n")
    init.wait(started.call, "EXITED")
    call = init.send("ATTACH", PROCESS=process)
    pieces = [init.wait(call, "DATA") for _ in range(3)]
    assert [(piece["STREAM"], piece["DATA"]) for piece in pieces] == [(1, b"one\n"), (2, b"two\n"), (1, b"three\n")]
    assert init.wait(call, "DONE").fields == {"SIZE": 14}
    assert init.read(process)[2].fields == {"STATUS": 5 << 8, "PROCESS": process}
    assert init.read(process, OFFSET=4)[:2] == (b"three\n", b"two\n")
    assert init.read(process, OFFSET=5)[:2] == (b"three\n", b"wo\n")
    assert init.read(process, OFFSET=99)[:2] == (b"", b"")


def test_dropped(init):
    process, _ = init.kept("sh", "-c", "head -c 300000 /dev/zero; printf end")
    call = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW)
    first = init.wait(call, "DATA")
    assert first["DROPPED"] == 300003 - RING
    got = len(first["DATA"])
    last = first
    while True:
        init.send("CREDIT", call=call, SIZE=len(last["DATA"]))
        message = init.wait(call, "DATA", "EXITED")
        if message.kind == "EXITED":
            break
        assert "DROPPED" not in message.fields
        got += len(message["DATA"])
        last = message
    assert got == RING and last["DATA"].endswith(b"end")
    assert message["DROPPED"] == 300003 - RING
    shown = init.list()[0]
    assert (shown["SIZE"], shown["DROPPED"]) == (300003, 300003 - RING)


def test_window(init):
    """No more than a window is on the way, until there is credit for it."""
    process, _ = init.kept("head", "-c", str(RING), "/dev/zero")
    started = init.start("sh", "-c", "head -c 1000 /dev/zero; cat", FLAGS=KEPT | INPUT)
    call = init.send("ATTACH", PROCESS=process)
    got = 0
    while got < WINDOW:
        data = init.wait(call, "DATA")["DATA"]
        assert len(data) <= 32 * 1024
        got += len(data)
    assert got == WINDOW
    init.wait(call, "DONE")
    # One that goes on: after the window, silence.
    follow = init.send("ATTACH", PROCESS=started["PROCESS"], FLAGS=FOLLOW)
    got = 0
    for _ in range(40):
        init.ask("INPUT", PROCESS=started["PROCESS"], DATA=b"x" * 10000)
    init.ask("INPUT_END", PROCESS=started["PROCESS"])
    init.wait(started.call, "EXITED")
    while got < WINDOW:
        got += len(init.wait(follow, "DATA")["DATA"])
    assert got == WINDOW and init.is_silent()
    init.send("CREDIT", call=follow, SIZE=100)
    message = init.wait(follow, "DATA")
    assert len(message["DATA"]) == 100
    # As much as one likes, and never more than a window.
    init.send("CREDIT", call=follow, SIZE=2**64 - 1)
    rest, dropped = 0, message.get("DROPPED", 0)
    while True:
        message = init.wait(follow, "DATA", "EXITED")
        if message.kind == "EXITED":
            break
        rest += len(message["DATA"])
        dropped += message.get("DROPPED", 0)
    assert got + 100 + rest + dropped == 401000
    assert message.get("DROPPED", 0) == dropped


def test_follow(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    call = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW)
    for word in (b"one", b"two", b"three"):
        init.ask("INPUT", PROCESS=process, DATA=word)
        assert init.wait(call, "DATA")["DATA"] == word
    init.ask("INPUT_END", PROCESS=process)
    assert init.wait(call, "EXITED")["STATUS"] == 0
    assert init.wait(started.call, "EXITED")["STATUS"] == 0
    assert init.fail("INPUT", PROCESS=process, DATA=b"more") == (errno.EPIPE, f"process {process} has ended")


def test_cancel_a_reader(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    call = init.send("ATTACH", PROCESS=started["PROCESS"], FLAGS=FOLLOW)
    init.send("CANCEL", call=call)
    init.ask("INPUT", PROCESS=started["PROCESS"], DATA=b"unheard")
    init.ask("INPUT_END", PROCESS=started["PROCESS"])
    init.wait(started.call, "EXITED")
    assert init.is_silent()
    assert init.read(started["PROCESS"])[0] == b"unheard"


@pytest.mark.over("unix")
def test_readers_with_descriptors(init):
    process, _ = init.kept("sh", "-c", "echo out; echo err >&2; exit 2")
    (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe()
    call = init.send("ATTACH", descriptors=[out_w, err_w], PROCESS=process, FLAGS=FOLLOW)
    os.close(out_w)
    os.close(err_w)
    # The end of the pipes comes before that of the call.
    assert init.wait(call, "EXITED").fields == {"STATUS": 2 << 8, "PROCESS": process}
    assert (os.read(out_r, 100), os.read(err_r, 100)) == (b"out\n", b"err\n")
    assert (os.read(out_r, 100), os.read(err_r, 100)) == (b"", b"")
    os.close(out_r)
    os.close(err_r)


@pytest.mark.over("unix")
def test_a_file_as_descriptor(init):
    process, _ = init.kept("sh", "-c", "echo out; echo err >&2")
    path = init.folder / "log"
    with open(path, "wb") as log:
        init.wait(init.send("ATTACH", descriptors=[log.fileno(), log.fileno()], PROCESS=process), "DONE")
    assert path.read_bytes() == b"out\nerr\n"


@pytest.mark.over("unix")
def test_a_slow_reader_holds_up_nobody(init):
    """One that never reads, one that does: the process runs to its end, and the first has lost what did not fit."""
    gate = init.start("cat", FLAGS=KEPT | INPUT)
    process = gate["PROCESS"]
    r, w = os.pipe()
    slow = init.send("ATTACH", descriptors=[w, w], PROCESS=process, FLAGS=FOLLOW)
    os.close(w)
    quick = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW)
    sent = got = 0
    while sent < 2 * 1024 * 1024:
        init.ask("INPUT", PROCESS=process, DATA=b"x" * 100000)
        sent += 100000
        while got < sent:
            message = init.wait(quick, "DATA")
            got += len(message["DATA"]) + message.get("DROPPED", 0)
            init.send("CREDIT", call=quick, SIZE=len(message["DATA"]))
    init.ask("INPUT_END", PROCESS=process)
    assert init.wait(gate.call, "EXITED")["STATUS"] == 0
    assert init.wait(quick, "EXITED").get("DROPPED", 0) == 0
    assert got == sent
    # Now it reads, and is told what it missed.
    late = 0
    while True:
        data = os.read(r, 65536)
        if not data:
            break
        late += len(data)
    os.close(r)
    exited = init.wait(slow, "EXITED")
    assert exited["DROPPED"] > 0 and late + exited["DROPPED"] == sent


@pytest.mark.over("unix")
def test_readers_that_leave(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe()
    call = init.send("ATTACH", descriptors=[out_w, err_w], PROCESS=process, FLAGS=FOLLOW)
    for fd in (out_w, err_w, out_r, err_r):
        os.close(fd)
    init.ask("INPUT", PROCESS=process, DATA=b"x")
    init.ask("INPUT_END", PROCESS=process)
    # Only what was written to is known to be gone: the other might have been read to the end.
    assert init.wait(call, "EXITED", "ERROR")
    assert init.wait(started.call, "EXITED")["STATUS"] == 0
    both, _ = init.kept("sh", "-c", "echo out; echo err >&2; echo more")
    r, w = os.pipe()
    call = init.send("ATTACH", descriptors=[w, w], PROCESS=both, FLAGS=FOLLOW)
    os.close(r)
    os.close(w)
    message = init.wait(call)
    if message.kind == "ERROR":
        assert (message["CODE"], message["TEXT"]) == (errno.EPIPE, "nobody reads the output")


def test_a_hundred_readers(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    calls = [init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW) for _ in range(100)]
    text = b"".join(b"line %d\n" % i for i in range(10000))
    for at in range(0, len(text), 30000):
        init.ask("INPUT", PROCESS=process, DATA=text[at:at + 30000])
    init.ask("INPUT_END", PROCESS=process)
    assert init.wait(started.call, "EXITED")["STATUS"] == 0
    for call in calls:
        out, err, last = init.read_call(call)
        assert (out == text, err, last.kind, last.get("DROPPED")) == (True, b"", "EXITED", None)


def test_so_many_readers_and_no_more(init):
    started = init.start("cat", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    calls = [init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW) for _ in range(READERS)]
    assert init.fail("ATTACH", PROCESS=process) == (errno.EAGAIN, f"{READERS} readers are attached already")
    init.send("CANCEL", call=calls[7])
    assert init.read(process, follow=False)[2].kind == "DONE"
    init.ask("SIGNAL", PROCESS=process, SIGNAL=9)
    for call in calls[:7] + calls[8:]:
        assert init.wait(call, "EXITED")["STATUS"] == 9


def test_what_cannot_be_attached(init):
    assert init.fail("ATTACH", PROCESS=1) == (errno.ESRCH, "there is no process 1")
    if init.passes:
        null = os.open("/dev/null", os.O_RDWR)
        started = init.start("sleep", "1000", descriptors=[null] * 3)
        os.close(null)
        assert init.fail("ATTACH", PROCESS=started["PROCESS"]) == (errno.EINVAL, "the output of process 1 is not kept")
        assert init.fail("INPUT", PROCESS=1, DATA=b"") == (errno.EPIPE, "process 1 takes no input by messages")
        assert init.fail("RESIZE", PROCESS=1, ROWS=1, COLUMNS=1) == (errno.ENOTTY, "process 1 has no terminal")
        init.ask("SIGNAL", PROCESS=1, SIGNAL=signal.SIGKILL)
        init.wait(started.call, "EXITED")
        assert init.fail("ATTACH", PROCESS=1) == (errno.ESRCH, "process 1 has ended")


def test_the_end_does_not_wait_for_others(init):
    """A process in the background that has the pipes does not delay the end, and goes on being heard."""
    os.mkfifo(init.home / "fifo")
    (init.home / "fifo").chmod(0o666)
    process, status = init.kept("sh", "-c", "sh -c 'read line <fifo; echo later' & echo now; exit 4")
    assert status == 4 << 8
    assert init.read(process)[0] == b"now\n"
    with open(init.home / "fifo", "w") as fifo:
        fifo.write("go\n")
    assert until(lambda: init.read(process)[0] == b"now\nlater\n")


def test_all_output_is_there_at_the_end(init):
    for _ in range(20):
        process, _ = init.kept("sh", "-c", "printf %060000d 7; printf %05000d 8 >&2")
        out, err, _ = init.read(process)
        assert (len(out), len(err)) == (60000, 5000)


def test_input(init):
    status, out, _ = init.run("cat")
    assert (status, out) == (0, "")
    started = init.start("wc", "-c", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    for _ in range(30):
        init.ask("INPUT", PROCESS=process, DATA=b"x" * 200000)
    init.ask("INPUT_END", PROCESS=process)
    assert init.fail("INPUT", PROCESS=process, DATA=b"more")[0] == errno.EPIPE
    assert init.wait(started.call, "EXITED")["STATUS"] == 0
    assert init.read(process)[0] == b"6000000\n"


def test_input_that_nobody_reads(init):
    started = init.start("sleep", "1000", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    calls = []
    for _ in range(100):
        calls.append(init.send("INPUT", PROCESS=process, DATA=b"x" * 30000))
    # What is in the pipe is done with, what is behind it waits, and what does not fit is refused.
    assert init.wait(calls[-1], "ERROR")["CODE"] == errno.EAGAIN
    done = [message for message in init.later if message.kind == "DONE"]
    assert [message.call for message in done] == calls[:len(done)] and 1 <= len(done) < 10
    small = [init.send("INPUT", PROCESS=process, DATA=b"") for _ in range(100)]
    assert init.wait(small[-1], "ERROR")["CODE"] == errno.EAGAIN
    init.ask("SIGNAL", PROCESS=process, SIGNAL=9)
    init.wait(started.call, "EXITED")
    waiting = init.wait(calls[len(done)], "ERROR")
    assert (waiting["CODE"], waiting["TEXT"]) == (errno.EPIPE, f"process {process} does not read its input any more")


def test_input_closed_by_the_process(init):
    started = init.start("sh", "-c", "exec <&-; echo closed; sleep 1000", FLAGS=KEPT | INPUT)
    process = started["PROCESS"]
    until(lambda: init.read(process, follow=False)[0] == b"closed\n")
    assert init.fail("INPUT", PROCESS=process, DATA=b"x")[0] == errno.EPIPE
    assert init.fail("INPUT", PROCESS=process, DATA=b"x") == \
        (errno.EPIPE, f"process {process} takes no input by messages")


def test_ended_ones_are_kept_for_a_while(init):
    for _ in range(70):
        init.kept("true")
    numbers = [p["PROCESS"] for p in init.list()]
    assert numbers == list(range(7, 71))
    assert init.fail("ATTACH", PROCESS=6) == (errno.ESRCH, "process 6 has ended")


def test_one_that_is_read_stays(init):
    started = init.start("sh", "-c", "head -c 1000000 /dev/zero", FLAGS=KEPT)
    call = init.send("ATTACH", PROCESS=1, FLAGS=FOLLOW)
    init.wait(started.call, "EXITED")
    for _ in range(70):
        init.kept("true")
    out, _, last = init.read_call(call)
    assert len(out) + last.get("DROPPED", 0) == 1000000
    # And goes when it was read, and another comes.
    assert 1 in [p["PROCESS"] for p in init.list()]
    init.kept("true")
    assert 1 not in [p["PROCESS"] for p in init.list()]


def test_memory_has_a_bound(init):
    """Far more output than may be kept: the oldest of those that ended go, and init stays small."""
    for _ in range(130):
        init.kept("head", "-c", str(RING), "/dev/zero")
    assert 32 < len(init.list()) <= 64
    for _ in range(200):
        init.start("sh", "-c", f"head -c {RING} /dev/zero; sleep 1000", FLAGS=KEPT)
    until(lambda: all(p["SIZE"] == RING for p in init.list()), 120)
    shown = init.list()
    assert all(p["FLAGS"] & FLAGS["PROCESS_RUNNING"] for p in shown) and len(shown) == 200
    assert sum(p["SIZE"] - p["DROPPED"] for p in shown) <= 32 * 1024 * 1024
    # What there was no memory for is counted.
    assert any(p["DROPPED"] > 0 for p in shown)


@pytest.mark.over("unix")
def test_who_does_not_read_is_not_told_more(init):
    """The channel is full: init makes no more, and takes no more; when it is read, all is there."""
    started = init.start("sh", "-c", LINES % 1000, FLAGS=KEPT)
    init.wait(started.call, "EXITED")
    sent = 0
    while select.select([], [init.sock], [], 0.5)[1]:
        init.send("ATTACH", PROCESS=1)
        sent += 1
        if sent > 20000:
            pytest.fail("it takes everything")
    calls = list(range(started.call + 1, started.call + sent + 1))
    refused = 0
    for call in calls:
        message = init.wait(call, "DATA", "ERROR")
        if message.kind == "ERROR":
            assert message["CODE"] == errno.EAGAIN
            refused += 1
            continue
        while message.kind == "DATA":
            message = init.wait(call, "DATA", "DONE")
    assert refused < sent
