"""Readers that lose nothing: the process waits for them, and goes on without them when they are gone."""

import errno
import os
import select
import signal
import threading
import time

import pytest

from conftest import until
from speaker import FLAGS, WINDOW

KEPT, INPUT, READ = FLAGS["START_KEPT"], FLAGS["START_INPUT"], FLAGS["START_READ"]
START_CLOSED, TERMINAL = FLAGS["START_CLOSED"], FLAGS["START_TERMINAL"]
FOLLOW, WHOLE, REST, CLOSED = (FLAGS["ATTACH_" + name] for name in ("FOLLOW", "WHOLE", "REST", "CLOSED"))
RING = 256 * 1024
# A line for each number, so that a gap shows wherever it is.
COUNT = "seq -f %.0f-is-a-line-of-some-length 0 99999"
COUNTED = b"".join(b"%d-is-a-line-of-some-length\n" % i for i in range(100000))


class Reader:
    """START with descriptors, or ATTACH: the pipes, and the call."""

    def __init__(self, init, kind="START", **fields):
        (self.out, out_w), (self.err, err_w) = os.pipe(), os.pipe()
        self.init = init
        self.call = init.send(kind, descriptors=[out_w, err_w], **fields)
        os.close(out_w)
        os.close(err_w)
        self.streams = {self.out: b"", self.err: b""}
        if kind == "START":
            self.process = init.wait(self.call, "STARTED")["PROCESS"]

    def read(self, limit=None, pause=0, size=65536):
        """Both pipes to their ends, or so many bytes."""
        open_ones = [fd for fd in self.streams]
        while open_ones and (limit is None or sum(map(len, self.streams.values())) < limit):
            for fd in select.select(open_ones, [], [], 60)[0]:
                data = os.read(fd, size)
                self.streams[fd] += data
                if not data:
                    open_ones.remove(fd)
            if pause:
                time.sleep(pause)
        return self.streams[self.out], self.streams[self.err]

    def close(self):
        os.close(self.out)
        os.close(self.err)


def is_blocked(init, process):
    """The process sleeps, and what was heard of it does not grow."""
    sizes = []
    for _ in range(2):
        shown = [p for p in init.list() if p["PROCESS"] == process][0]
        state = open(f"/proc/{shown['PID']}/stat").read().rpartition(")")[2].split()[0]
        sizes.append((shown["SIZE"], state))
        time.sleep(0.1)
    return sizes[0] == sizes[1] and sizes[0][1] == "S"


@pytest.mark.over("unix")
def test_start_and_read_at_once(init):
    reader = Reader(init, ARGUMENT=["sh", "-c", "echo out; echo err >&2; exit 3"], FLAGS=KEPT | READ)
    assert init.wait(reader.call, "EXITED").fields == {"STATUS": 3 << 8, "PROCESS": 1}
    # The end of the pipes came before it, and nothing has to be waited for any more.
    assert reader.read() == (b"out\n", b"err\n")
    reader.close()
    # It was kept as well.
    assert init.read(1)[:2] == (b"out\n", b"err\n")


@pytest.mark.over("unix")
@pytest.mark.parametrize("size,pause", [(65536, 0), (1000000, 0.01), (700, 0)])
def test_nothing_is_lost(init, size, pause):
    """More than ten rings, read in large pieces, slowly, and in pieces that fit nothing."""
    reader = Reader(init, ARGUMENT=["sh", "-c", COUNT + "; " + COUNT + " >&2"], FLAGS=KEPT | READ)
    out, err = reader.read(size=size, pause=pause)
    assert out == COUNTED and err == COUNTED
    assert init.wait(reader.call, "EXITED").fields == {"STATUS": 0, "PROCESS": 1}
    reader.close()


@pytest.mark.over("unix")
def test_a_slow_reader_holds_the_process_up(init):
    reader = Reader(init, ARGUMENT=["sh", "-c", COUNT], FLAGS=KEPT | READ)
    until(lambda: is_blocked(init, 1))
    # Nobody else is held up by that.
    assert init.sh("echo hi") == "hi\n"
    shown = init.list()[0]
    assert shown["FLAGS"] & FLAGS["PROCESS_RUNNING"] and shown["SIZE"] < len(COUNTED)
    assert reader.read()[0] == COUNTED
    assert init.wait(reader.call, "EXITED")["STATUS"] == 0
    reader.close()


@pytest.mark.over("unix")
@pytest.mark.parametrize("way", ["pipes", "cancel"])
def test_a_slow_reader_leaves(init, way):
    """The process goes on alone, and what it writes is kept with drops, as always."""
    reader = Reader(init, ARGUMENT=["sh", "-c", COUNT + "; echo done"], FLAGS=KEPT | READ)
    until(lambda: is_blocked(init, 1))
    if way == "cancel":
        init.send("CANCEL", call=reader.call)
    else:
        reader.close()
        assert init.wait(reader.call, "EXITED")["STATUS"] == 0
    until(lambda: not init.list()[0]["FLAGS"] & FLAGS["PROCESS_RUNNING"])
    shown = init.list()[0]
    assert shown["SIZE"] == len(COUNTED) + 5 and shown["SIZE"] - shown["DROPPED"] <= RING
    assert init.read(1)[0].endswith(b"99999-is-a-line-of-some-length\ndone\n")
    if way == "cancel":
        reader.close()


@pytest.mark.over("unix")
def test_a_reader_of_nothing_leaves(init):
    """Told at once, not with the next byte: one that has the pipes of others may never write any."""
    reader = Reader(init, ARGUMENT=["sleep", "1000"], FLAGS=KEPT | READ)
    call = init.send("ATTACH", PROCESS=1, FLAGS=FOLLOW | WHOLE)
    other = Reader(init, "ATTACH", PROCESS=1, FLAGS=FOLLOW | WHOLE)
    other.close()
    assert init.wait(other.call, "ERROR")["CODE"] == errno.EPIPE
    reader.close()
    init.ask("SIGNAL", PROCESS=1, SIGNAL=signal.SIGKILL)
    assert init.wait(reader.call, "EXITED")["STATUS"] == 9
    assert init.wait(call, "EXITED")["STATUS"] == 9


def test_by_messages(init):
    """The same without descriptors: what is beyond the window stays in the pipe of the process."""
    call = init.send("START", ARGUMENT=["sh", "-c", COUNT], FLAGS=KEPT | READ)
    init.wait(call, "STARTED")
    until(lambda: is_blocked(init, 1))
    got = b""
    while True:
        message = init.wait(call, "DATA", "EXITED")
        if message.kind == "EXITED":
            break
        got += message["DATA"]
        if len(got) == WINDOW:
            assert init.is_silent()
        if len(got) >= WINDOW:
            init.send("CREDIT", call=call, SIZE=len(message["DATA"]))
    assert got == COUNTED and message.fields == {"STATUS": 0, "PROCESS": 1}


def test_attach_by_messages(init):
    started = init.start("sh", "-c", "read go; " + COUNT, FLAGS=KEPT | INPUT)
    call = init.send("ATTACH", PROCESS=1, FLAGS=FOLLOW | WHOLE)
    init.ask("INPUT", PROCESS=1, DATA=b"go\n")
    out, _, last = init.read_call(call)
    assert out == COUNTED and last.fields == {"STATUS": 0, "PROCESS": 1}
    init.wait(started.call, "EXITED")


@pytest.mark.over("unix")
def test_two_readers(init):
    """It goes at the pace of the slower one, and both get everything."""
    first = Reader(init, ARGUMENT=["sh", "-c", "read go; " + COUNT], FLAGS=KEPT | INPUT | READ)
    second = Reader(init, "ATTACH", PROCESS=1, FLAGS=FOLLOW | WHOLE)
    init.ask("INPUT", PROCESS=1, DATA=b"go\n")
    thread = threading.Thread(target=first.read)
    thread.start()
    assert second.read(pause=0.001)[0] == COUNTED
    thread.join()
    assert first.streams[first.out] == COUNTED
    assert init.wait(first.call, "EXITED")["STATUS"] == 0
    assert init.wait(second.call, "EXITED").fields == {"STATUS": 0, "PROCESS": 1}
    first.close()
    second.close()


@pytest.mark.over("unix")
def test_one_who_may_lose_and_one_who_may_not(init):
    """An ordinary reader that does not read holds up nobody, and is told what it missed."""
    whole = Reader(init, ARGUMENT=["sh", "-c", "read go; " + COUNT], FLAGS=KEPT | INPUT | READ)
    lazy = Reader(init, "ATTACH", PROCESS=1, FLAGS=FOLLOW)
    init.ask("INPUT", PROCESS=1, DATA=b"go\n")
    assert whole.read()[0] == COUNTED
    assert init.wait(whole.call, "EXITED")["STATUS"] == 0
    late = lazy.read()[0]
    exited = init.wait(lazy.call, "EXITED")
    assert exited["DROPPED"] > 0 and len(late) + exited["DROPPED"] == len(COUNTED)
    whole.close()
    lazy.close()


def test_the_rest(init):
    """Who comes next gets what nobody got."""
    call = init.send("START", ARGUMENT=["cat"], FLAGS=KEPT | INPUT | READ)
    process = init.wait(call, "STARTED")["PROCESS"]
    init.ask("INPUT", PROCESS=process, DATA=b"one")
    assert init.wait(call, "DATA")["DATA"] == b"one"
    # One beside it gets what is to come.
    beside = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW | REST)
    init.ask("INPUT", PROCESS=process, DATA=b"two")
    assert init.wait(call, "DATA")["DATA"] == b"two"
    assert init.wait(beside, "DATA")["DATA"] == b"two"
    init.send("CANCEL", call=call)
    init.ask("INPUT", PROCESS=process, DATA=b"three")
    assert init.wait(beside, "DATA")["DATA"] == b"three"
    init.send("CANCEL", call=beside)
    # That one was not one who must lose nothing: what it got does not count.
    init.ask("INPUT_END", PROCESS=process)
    until(lambda: not init.list()[0]["FLAGS"] & FLAGS["PROCESS_RUNNING"])
    call = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW | WHOLE | REST)
    assert init.read_call(call)[0] == b"three"
    call = init.send("ATTACH", PROCESS=process, FLAGS=FOLLOW | WHOLE | REST)
    assert init.read_call(call)[0] == b""
    assert init.read(process)[0] == b"onetwothree"


def test_heirs_of_the_pipes(init):
    """Without CLOSED its exit is the end; with it, the end is when they have closed the pipes, too."""
    os.mkfifo(init.home / "fifo")
    (init.home / "fifo").chmod(0o666)
    script = "sh -c 'read line <fifo; echo later' & echo now; exit 4"
    call = init.send("START", ARGUMENT=["sh", "-c", script], FLAGS=KEPT | READ)
    init.wait(call, "STARTED")
    out, _, last = init.read_call(call)
    assert out == b"now\n" and last["STATUS"] == 4 << 8
    with open(init.home / "fifo", "w") as fifo:
        fifo.write("go\n")
    until(lambda: init.read(1)[0] == b"now\nlater\n")
    call = init.send("START", ARGUMENT=["sh", "-c", script], FLAGS=KEPT | READ | START_CLOSED)
    init.wait(call, "STARTED")
    beside = init.send("ATTACH", PROCESS=2, FLAGS=FOLLOW | CLOSED)
    assert init.wait(call, "DATA")["DATA"] == b"now\n"
    assert init.wait(beside, "DATA")["DATA"] == b"now\n"
    until(lambda: not [p for p in init.list() if p["PROCESS"] == 2][0]["FLAGS"] & FLAGS["PROCESS_RUNNING"])
    assert init.is_silent()
    with open(init.home / "fifo", "w") as fifo:
        fifo.write("go\n")
    out, _, last = init.read_call(call)
    assert out == b"later\n" and last.fields == {"STATUS": 4 << 8, "PROCESS": 2}
    assert init.read_call(beside)[0] == b"later\n"


def test_nobody_waits_for_the_heirs_of_one_that_was_killed(init):
    script = "sleep 1000 & echo now; exec sleep 1000"
    for number, signals in enumerate(([signal.SIGTERM], [signal.SIGKILL]), 1):
        call = init.send("START", ARGUMENT=["sh", "-c", script], FLAGS=KEPT | READ | START_CLOSED)
        init.wait(call, "STARTED")
        assert init.wait(call, "DATA")["DATA"] == b"now\n"
        init.ask("SIGNAL", PROCESS=number, SIGNAL=signals[0])
        assert init.wait(call, "EXITED")["STATUS"] == signals[0]
    # One that has ended in order, and whose heirs are waited for: now they are not.
    call = init.send("START", ARGUMENT=["sh", "-c", "sleep 1000 & exit 5"], FLAGS=KEPT | READ | START_CLOSED)
    init.wait(call, "STARTED")
    until(lambda: not init.list()[2]["FLAGS"] & FLAGS["PROCESS_RUNNING"])
    init.ask("SIGNAL", PROCESS=3, SIGNAL=signal.SIGTERM)
    assert init.wait(call, "EXITED")["STATUS"] == 5 << 8
    assert init.fail("SIGNAL", PROCESS=3, SIGNAL=signal.SIGTERM)[0] == errno.ESRCH


@pytest.mark.over("unix")
def test_all_of_one_that_ends_while_it_waits(init):
    """Killed with both pipes full: what it wrote before is not lost."""
    reader = Reader(init, ARGUMENT=["sh", "-c", COUNT], FLAGS=KEPT | READ)
    until(lambda: is_blocked(init, 1))
    init.ask("SIGNAL", PROCESS=1, SIGNAL=signal.SIGKILL, FLAGS=FLAGS["SIGNAL_GROUP"])
    until(lambda: not init.list()[0]["FLAGS"] & FLAGS["PROCESS_RUNNING"])
    out = reader.read()[0]
    assert len(out) >= 2 * 65536 and COUNTED.startswith(out)
    assert init.wait(reader.call, "EXITED")["STATUS"] == 9
    reader.close()


@pytest.mark.parametrize("who_reads", ["pipes", "messages"])
def test_a_terminal(init, who_reads):
    script = "stty raw; i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done; exit 6"
    expected = b"".join(b"line %d\n" % i for i in range(60000))
    flags = KEPT | READ | TERMINAL
    if who_reads == "messages":
        call = init.send("START", ARGUMENT=["sh", "-c", script], FLAGS=flags)
        init.wait(call, "STARTED")
        out, _, last = init.read_call(call)
    elif not init.passes:
        pytest.skip("this channel passes no descriptors")
    else:
        reader = Reader(init, ARGUMENT=["sh", "-c", script], FLAGS=flags)
        out, last = reader.read(pause=0.0001)[0], init.wait(reader.call, "EXITED")
        reader.close()
    assert out == expected
    assert last["STATUS"] == 6 << 8


@pytest.mark.over("unix")
def test_what_cannot_be_read(init):
    words = "a process has three descriptors, or a terminal, or its output is kept"
    null = os.open("/dev/null", os.O_RDWR)
    for flags in (KEPT, 0, TERMINAL):
        assert init.fail("START", ARGUMENT=["true"], FLAGS=flags, descriptors=[null] * 2) == (errno.EINVAL, words)
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT | READ, descriptors=[null] * 3) == (errno.EINVAL, words)
    os.close(null)
    assert init.fail("START", ARGUMENT=["true"], FLAGS=READ) == (errno.EINVAL, "only output that is kept can be read")
    # One that does not start leaves nothing open.
    (r, w) = os.pipe()
    assert init.fail("START", ARGUMENT=["./none"], FLAGS=KEPT | READ, descriptors=[w, w])[0] == errno.ENOENT
    assert init.fail("START", ARGUMENT=["./none"], FLAGS=KEPT | READ | TERMINAL, descriptors=[w, w])[0] == errno.ENOENT
    os.close(w)
    assert os.read(r, 1) == b""
    os.close(r)
    assert init.list() == []


def test_label_and_time_of_the_end(init):
    init.kept("true", LABEL="who knows ☃")
    init.kept("true", LABEL="x" * 20000)
    init.kept("true")
    before = time.time() * 1000
    shown = init.list()
    assert [p.get("LABEL") for p in shown] == ["who knows ☃", "x" * 8191, None]
    assert all(before - 60000 < p["ENDED"] <= before and p["ENDED"] >= p["TIME"] for p in shown)
    init.start("sleep", "1000", FLAGS=KEPT)
    assert "ENDED" not in init.list()[3].fields


def is_over(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("flags", [KEPT, KEPT | TERMINAL])
def test_deadline(init, flags):
    """Its whole group is killed, whoever is still there; one that is far away is none."""
    begin = time.monotonic()
    started = init.start("sh", "-c", "sleep 1000 & echo $!; sleep 1000; echo not so", FLAGS=flags, LEFT=2000)
    later = init.start("sleep", "1000", FLAGS=KEPT, LEFT=3000)
    init.start("sleep", "1000", FLAGS=KEPT, LEFT=2**64 - 1)
    init.start("true", FLAGS=KEPT, LEFT=1)
    init.send("CANCEL", call=later.call)
    assert init.wait(started.call, "EXITED")["STATUS"] == 9
    assert 0.25 < time.monotonic() - begin < 30
    heir = int(init.read(1)[0])
    if not flags & TERMINAL:
        until(lambda: is_over(heir))
    until(lambda: [bool(p["FLAGS"] & FLAGS["PROCESS_RUNNING"]) for p in init.list()] == [False, False, True, False])
    assert [p.get("STATUS") for p in init.list()][:2] == [9, 9]


def test_home_as_directory(init):
    (init.home / "sub").mkdir(0o755)
    (init.home / "~odd").mkdir(0o755)
    assert init.sh("cd /; pwd", DIRECTORY="~") == "/\n"
    assert init.sh("pwd", DIRECTORY="~") == f"{init.home}\n"
    assert init.sh("pwd", DIRECTORY="~/sub") == f"{init.home}/sub\n"
    assert init.sh("pwd", DIRECTORY="~odd") == f"{init.home}/~odd\n"
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, DIRECTORY="~/none") == \
        (errno.ENOTDIR, f'the directory "{init.home}/none" does not exist')
    assert init.fail("START", ARGUMENT=["true"], FLAGS=KEPT, DIRECTORY="~/" + "x" * 5000)[0] == errno.ENAMETOOLONG
    if init.may_be_users:
        assert init.sh("pwd", DIRECTORY="~", USER="daemon") == "/usr/sbin\n"


def test_a_pipe_of_ones_own(init):
    """/dev/stdout and the others can be opened by whoever the process is."""
    script = "echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin; exec 3</proc/self/fd/0"
    started = init.start("sh", "-c", script, FLAGS=KEPT | INPUT)
    init.ask("INPUT", PROCESS=1, DATA=b"in\n")
    init.ask("INPUT_END", PROCESS=1)
    assert init.wait(started.call, "EXITED")["STATUS"] == 0
    assert init.read(1)[:2] == (b"out\nin\n", b"err\n")
