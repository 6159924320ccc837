"""Commands in a sandbox that lives: brig exec, brig attach, brig logs."""

import array
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import tty

import jsonschema
import pexpect
import pytest

import harness
from test_terminal import Terminal, end


@pytest.fixture
def box(brig):
    return brig.create()


@pytest.fixture
def terminal(brig):
    terminal = Terminal(brig)
    yield terminal
    if terminal.child:
        terminal.child.close(force=True)


def at_terminal(terminal, box, *words, **options):
    """brig exec with words behind it, at a terminal."""
    return terminal.start(terminal.brig.command("exec", *words[:-1], box.id, *words[-1]), **options)


# The command


def test_a_command_runs_and_its_output_comes(box):
    done = box.exec("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.out, done.err) == (3, b"out\n", b"err\n")


def test_the_beginning_of_an_id_and_a_name_are_enough(brig):
    box = brig.create("--name", "workshop")
    assert brig("exec", box.id[:-1], "echo", "a").text == "a\n"
    assert brig("exec", "workshop", "--", "echo", "b").text == "b\n"


@pytest.mark.parametrize("words,code,line", [
    (["no-such-program"], 127, '"no-such-program"'),
    (["/no/such/program"], 127, '"/no/such/program"'),
    (["/etc/passwd"], 126, '"/etc/passwd"'),
    (["/etc"], 126, '"/etc"'),
])
def test_what_cannot_be_executed(box, words, code, line):
    done = box.exec(*words)
    assert done.code == code and done.out == b""
    assert done.error.startswith("brig: ") and done.error.count("\n") == 1 and line in done.error


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_128_and_its_number(box, number):
    assert box.exec("sh", "-c", f"kill -{int(number)} $$").code == 128 + number


def test_one_command_sees_what_another_left(box):
    assert box.exec("sh", "-c", "echo kept > ~/file").code == 0
    assert box.exec("sh", "-c", "cat ~/file").text == "kept\n"


def test_bad_words_are_refused(brig, box):
    assert "what should run" in brig.refused("exec", box.id)
    assert "what should run" in brig.refused("exec")
    assert "empty" in brig.refused("exec", box.id, "")
    assert "needs USER" in brig.refused("exec", "-u")
    assert '"-x" in "-itx"' in brig.refused("exec", "-itx", box.id, "true")
    assert "NAME=VALUE" in brig.refused("exec", "-e", "=x", box.id, "true")
    assert "do not go together" in brig.refused("exec", "-t", "--json", box.id, "true")
    assert "no sandbox" in brig.refused("exec", "zzzzzz", "true")
    assert "too long" in brig.refused("exec", box.id, "true", *["x" * 1000] * 300)


def test_a_word_with_a_dash_is_the_commands(box):
    assert box.exec("printf", "%s.", "-i", "--help").out == b"-i.--help."
    assert box.exec("--", "echo", "-i").out == b"-i\n"


# What it gets


def test_variables(box):
    done = box.exec("sh", "-c", "echo $A-$B-${C-unset}-$HOME", options=["-e", "A=1", "--env", "B", "-eC", "-e", "HOME=/x"],
                    env={"B": "of the caller"})
    assert done.text == "1-of the caller-unset-/x\n"


def test_the_working_directory(box):
    assert box.exec("pwd", options=["-w", "/usr"]).text == "/usr\n"
    done = box.exec("pwd", options=["-w", "/no/such"])
    assert done.code in (126, 127) and done.out == b"" and '"/no/such"' in done.error


@pytest.mark.tier("container")
def test_the_user(box, who):
    if who.is_root:
        assert box.exec("id", "-u").text == "1000\n"
        assert box.exec("id", "-u", options=["-u", "root"]).text == "0\n"
        assert box.exec("id", "-u", options=["--user=0"]).text == "0\n"
    done = box.exec("id", "-u", options=["-u", "no-such-user"])
    assert done.code == 125 and "no-such-user" in done.error and done.error.count("\n") == 1


def test_standard_input_only_if_asked_for(box):
    assert box.exec("cat", stdin=b"data").out == b""
    assert box.exec("cat", stdin=b"data", options=["-i"]).out == b"data"


def test_what_the_command_does_not_read_stays(brig, box):
    """The next command of a shell reads on where it ended: nobody has read ahead."""
    words = " ".join(brig.command("exec", "-i", box.id, "sh", "-c", "'read x; echo got $x'"))
    done = subprocess.run(["sh", "-c", f"printf 'one\\ntwo\\n' | {{ {words}; cat; }}"], cwd=brig.work, env=brig.env(),
                          capture_output=True, timeout=harness.HANG, check=False)
    assert done.stdout == b"got one\ntwo\n", done


@pytest.mark.parametrize("size", [1, 70_000, 5_000_000])
def test_bulk_comes_through_unchanged(box, size):
    data = os.urandom(size)
    assert box.exec("cat", stdin=data, options=["-i"]).out == data


def test_files_are_passed_as_they_are(brig, box):
    source = brig.who.write(brig.work / "in", "content")
    target = brig.who.write(brig.work / "out")
    with open(source, "rb") as stdin, open(target, "wb") as stdout:
        process = brig.start("exec", "-i", box.id, "sh", "-c", "cat; test -f /proc/self/fd/1", stdin=stdin, stdout=stdout)
        assert harness.finish(process).code == 0
    assert target.read_text() == "content"


def test_a_directory_is_no_standard_output(brig, box):
    fd = os.open(brig.work, os.O_RDONLY)
    try:
        process = brig.start("exec", "-i", box.id, "true", stdin=fd)
        done = harness.finish(process)
        assert done.code == 125 and b"directory" in done.err
        assert harness.finish(brig.start("exec", box.id, "true", stdin=fd)).code == 0
        process = brig.start("exec", box.id, "true", stdout=fd)
        assert process.wait(harness.HANG) == 125
        process.stderr.close()
    finally:
        os.close(fd)


def test_a_socket_is_relayed(brig, box):
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            process = brig.start("exec", box.id, "sh", "-c", "test -p /proc/self/fd/1 && echo through", stdout=client.fileno())
            assert process.wait(harness.HANG) == 0
            process.stderr.close()
            assert peer.recv(100) == b"through\n"
        done = harness.finish(brig.start("exec", "-i", box.id, "cat", stdin=listener.fileno()))
        assert done.code == 125 and b"socket" in done.err


def test_both_outputs_in_one_pipe_keep_their_order(brig, box):
    process = brig.start("exec", box.id, "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done",
                         stderr=subprocess.STDOUT)
    assert process.communicate(timeout=harness.HANG)[0].split() == [b"%c%d" % (c, i) for i in range(1, 10) for c in b"oe"]


def test_outputs_can_be_opened_again(box):
    done = box.exec("sh", "-c", "echo a > /dev/stdout; echo b > /dev/stderr")
    assert (done.code, done.out, done.err) == (0, b"a\n", b"b\n")


def test_the_callers_pipe_stays_the_callers(brig, box):
    """Whoever holds one end of a pipe could open the other and read what others write there."""
    process = brig.start("exec", box.id, "readlink", "/proc/self/fd/1", "/proc/self/fd/2")
    ours = os.fstat(process.stdout.fileno()).st_ino, os.fstat(process.stderr.fileno()).st_ino
    out = harness.finish(process).out
    assert b"pipe:" in out and not any(b"[%d]" % ino in out for ino in ours)


def test_processes_in_the_background_are_not_waited_for(box, mark):
    done = box.exec("sh", "-c", f"echo first; sleep 600 & : {mark}; echo last")
    assert (done.code, done.out) == (0, b"first\nlast\n")


def test_one_that_writes_for_ever_in_the_background_is_not_waited_for(box):
    done = harness.in_time(lambda: box.exec("sh", "-c", "yes & sleep 0.2; exit 4"), lambda done: done.out)
    assert done.code == 4 and done.out.startswith(b"y\ny\n")


def test_a_reader_that_goes_away_ends_the_command(brig, box):
    process = brig.start("exec", box.id, "yes")
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(harness.HANG) == 128 + signal.SIGPIPE
    process.stderr.close()


# JSON


def test_json(box):
    result = box.json("sh", "-c", "echo out; printf '\\377' >&2; kill -TERM $$")
    assert (result["exit_code"], result["signal"], result["stdout"]) == (143, "SIGTERM", "out\n")
    assert (result["stderr"], result["stderr_base64"], result["truncated"]) == ("\ufffd", "/w==", False)
    assert result["process"] > 0 and result["sandbox"] == box.id


def test_json_of_what_did_not_start(box):
    result = box.json("no-such-program")
    assert (result["exit_code"], result["process"], result["signal"]) == (127, None, None)


def test_json_says_what_is_missing(box):
    result = box.json("head", "-c", "2000000", "/dev/zero")
    assert result["truncated"] and len(result["stdout"]) == 1 << 20 and result["exit_code"] == 0


def test_json_of_one_that_is_left_alone(box):
    assert box.json("true", options=["-d"]).keys() == {"sandbox", "process"}


# Signals


# Waits for the signal itself: a handler of Python's runs after the call that it came before, be it a sleep.
GROUP = """
import os, signal, sys
child = os.fork()
signal.pthread_sigmask(signal.SIG_BLOCK, [int(sys.argv[1])])
os.write(1, b"ready\\n")
signal.sigwait([int(sys.argv[1])])
if child: os.waitpid(child, 0)
os.write(1, b"parent\\n" if child else b"child\\n")
os._exit(7)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_is_sent_on_to_the_whole_group(brig, box, number):
    process = brig.start("exec", box.id, "python3", "-c", GROUP, int(number))
    harness.wait_for_line(process, b"ready")
    harness.wait_for_line(process, b"ready")
    process.send_signal(number)
    done = harness.finish(process)
    assert (done.code, done.out) == (7, b"child\nparent\n")


def test_the_second_signal_ends_the_client_alone(brig, box, mark):
    process = brig.start("exec", box.id, "sh", "-c", f"trap 'echo heard' INT; echo ready; while :; do sleep 0.05; done; : {mark}")
    harness.wait_for_line(process, b"ready")
    process.send_signal(signal.SIGINT)
    harness.wait_for_line(process, b"heard")
    process.send_signal(signal.SIGINT)
    done = harness.finish(process)
    assert done.code == 128 + signal.SIGINT and b"goes on" in done.err
    assert harness.marked(mark)


def test_a_signal_before_the_client_knows_that_it_runs(brig, box, mark):
    """The command may be there already, and must not go on behind the back of who wanted its end."""
    # Not a shell: it keeps an interrupt that comes while it starts a program until that has ended.
    seconds = f"600.{int(mark.removeprefix('brigmark'), 16)}"
    about = json.loads((brig.folder / "state" / "brig" / "live" / box.id).read_text())
    (init,) = [pid for pid in harness.descendants(about["pid"]) if harness.comm(pid).strip() == "brig-init"]
    os.kill(init, signal.SIGSTOP)
    try:
        process = brig.start("exec", box.id, "sleep", seconds)
        # Blocked, so that the client reads it when it waits for an answer.
        harness.wait_until(lambda: int(harness.status(process.pid).get("SigBlk", "0"), 16) >> (signal.SIGINT - 1) & 1,
                           "the client to take signals")
        process.send_signal(signal.SIGINT)
    finally:
        os.kill(init, signal.SIGCONT)
    assert harness.finish(process).code == 128 + signal.SIGINT
    assert box.exec("true").code == 0
    assert not harness.marked(seconds)


def test_a_client_that_is_killed_leaves_the_sandbox_alone(brig, box, mark):
    process = brig.start("exec", box.id, "sh", "-c", f"echo ready; sleep 600; : {mark}")
    harness.wait_for_line(process, b"ready")
    process.kill()
    harness.finish(process)
    assert box.exec("echo", "alive").text == "alive\n"


def test_stopping_the_client_stops_the_command(brig, box, mark):
    # In a group of its own, as a shell's job is: nothing stops a group that nobody would continue.
    process = brig.start("exec", box.id, "sh", "-c", f"echo ready; while :; do sleep 0.05; done; : {mark}",
                         preexec_fn=os.setpgrp)
    harness.wait_for_line(process, b"ready")
    inside = harness.marked(mark)
    process.send_signal(signal.SIGTSTP)
    harness.wait_until(lambda: harness.state(process.pid) == "T", "the client to stop")
    # D: a shell whose child was stopped between vfork and execve.
    harness.wait_until(lambda: all(harness.state(pid) in "TD" for pid in inside), "the command to stop")
    process.send_signal(signal.SIGCONT)
    harness.wait_until(lambda: all(harness.state(pid) in "SR" for pid in inside), "the command to go on")
    process.send_signal(signal.SIGTERM)
    assert harness.finish(process).code == 128 + signal.SIGTERM


def test_the_end_of_the_sandbox_is_one_clear_line(brig, box):
    process = brig.start("exec", box.id, "sh", "-c", "echo ready; sleep 600")
    harness.wait_for_line(process, b"ready")
    brig.end_sandboxes()
    done = harness.finish(process)
    assert done.code == 137 and done.error == f"brig: sandbox {box.id} has ended, and the command with it\n"
    assert "no sandbox" in brig.refused("exec", box.id, "true")


def test_a_hundred_clients_at_once(brig, box):
    processes = [brig.start("exec", "-i", box.id, "sh", "-c", f"read x; echo {i} $x; exit {i}", stdin=subprocess.PIPE)
                 for i in range(100)]
    results = [None] * 100

    def talk(i):
        out, err = processes[i].communicate(b"%d\n" % (i * i), harness.HANG)
        results[i] = processes[i].returncode, out, err

    threads = [threading.Thread(target=talk, args=[i]) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(i, b"%d %d\n" % (i, i * i), b"") for i in range(100)]


# Left alone


def test_a_process_that_is_left_alone_is_attached_to(box):
    number = box.detach("sh", "-c", "echo early; read x; echo late $x; echo bad >&2; exit 9", options=["-i"])
    done = box.attach(number, "-i", stdin=b"word\n")
    assert (done.code, done.out, done.err) == (9, b"early\nlate word\n", b"bad\n")
    again = box.attach(number)
    assert (again.code, again.out, again.err) == (9, b"early\nlate word\n", b"bad\n")


def test_without_i_it_has_no_input(box):
    number = box.detach("sh", "-c", "cat; echo over")
    assert box.attach(number).out == b"over\n"
    done = box.attach(number, "-i", stdin=b"nobody reads this")
    assert (done.code, done.out) == (0, b"over\n")


def test_several_are_attached_at_once(brig, box):
    number = box.detach("sh", "-c", "echo begin; read x; seq 1 20000; exit 2", options=["-i"])
    clients = [brig.start("attach", box.id, number) for _ in range(5)]
    for client in clients:
        harness.wait_for_line(client, b"begin")
    assert box.attach(number, "-i", stdin=b"\n").code == 2
    expected = b"".join(b"%d\n" % i for i in range(1, 20001))
    for client in clients:
        done = harness.finish(client)
        assert (done.code, done.out) == (2, expected)


def test_input_waits_for_its_reader(brig, box):
    """More than pipes and buffers hold: it comes through whole, at the reader's speed."""
    number = box.detach("sh", "-c", "read x; wc -c", options=["-i"])
    data = b"x\n" + bytes(3_000_000)
    assert box.attach(number, "-i", stdin=data).text.strip() == "3000000"


def test_a_slow_reader_of_attach_misses_nothing_that_is_kept(brig, box):
    number = box.detach("sh", "-c", "seq 1 30000; exit 1")
    client = brig.start("attach", box.id, number)
    lines = os.read(client.stdout.fileno(), 10)
    harness.wait_until(lambda: box.logs(number).out.endswith(b"30000\n"), "all of it to be written")
    done = harness.finish(client)
    assert lines + done.out == b"".join(b"%d\n" % i for i in range(1, 30001)) and done.code == 1


def test_what_is_gone_is_counted(box):
    number = box.detach("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; exit 3")
    done = harness.finish(box.brig.start("attach", box.id, number))
    seen = box.attach(number)
    assert done.code == seen.code == 3
    gone = int(seen.error.split("brig: ")[1].split(" bytes")[0])
    assert seen.error.count("\n") == 1 and gone > 0 and gone + len(seen.out) == 1000000
    line = [json.loads(x) for x in box.logs(number, options=["--json"]).out.splitlines()]
    assert sum(x["dropped"] for x in line) == gone and sum(len(x["text"]) for x in line) == len(seen.out)


def test_signals_go_to_an_attached_process(brig, box):
    number = box.detach("sh", "-c", "trap 'echo heard; exit 6' INT; echo ready; while :; do sleep 0.05; done")
    client = brig.start("attach", box.id, number)
    harness.wait_for_line(client, b"ready")
    client.send_signal(signal.SIGINT)
    done = harness.finish(client)
    assert (done.code, done.out) == (6, b"heard\n")


def test_a_hang_up_leaves_an_attached_process_alone(brig, box, mark):
    number = box.detach("sh", "-c", f"echo ready; sleep 600; : {mark}")
    client = brig.start("attach", box.id, number)
    harness.wait_for_line(client, b"ready")
    client.send_signal(signal.SIGHUP)
    done = harness.finish(client)
    assert done.code == 128 + signal.SIGHUP and b"goes on" in done.err and harness.marked(mark)


def test_there_is_nothing_to_attach_to(brig, box):
    assert "no process 99" in brig.refused("attach", box.id, "99")
    assert "process" in brig.refused("attach", box.id, "x")
    assert "to what?" in brig.refused("attach", box.id)
    assert "too many" in brig.refused("attach", box.id, "1", "2")
    process = brig.start("exec", box.id, "sh", "-c", "echo ready; sleep 600")
    harness.wait_for_line(process, b"ready")
    number = box.json("true")["process"] - 1
    assert "was not started by" in brig.refused("attach", box.id, number)
    process.send_signal(signal.SIGTERM)
    harness.finish(process)


# Logs


def test_logs_of_one_and_of_all(box):
    first = box.detach("sh", "-c", "echo one; echo bad >&2")
    second = box.detach("echo", "two\x1b[2J")
    assert box.attach(first).code == 0 and box.attach(second).code == 0
    done = box.logs(first)
    assert (done.code, done.out, done.err) == (0, b"one\n", b"bad\n")
    done = box.logs()
    assert done.text == f"==> {first} sh -c echo one; echo bad >&2 <==\none\n\n==> {second} echo two?[2J <==\ntwo\x1b[2J\n"
    assert done.err == b"bad\n"


def test_logs_of_nothing(brig, box):
    assert box.logs() == harness.Done(0, b"", b"")
    assert "no output" in brig.refused("logs", box.id, "5")
    assert "of what?" in brig.refused("logs")


def test_logs_follow_until_the_end(brig, box):
    first = box.detach("sh", "-c", "echo a1; read x; echo a2", options=["-i"])
    second = box.detach("sh", "-c", "echo b1; read x; echo b2", options=["-i"])
    client = brig.start("logs", "-f", box.id)
    harness.wait_for_line(client, b"b1")
    assert box.attach(first, "-i", stdin=b"\n").code == 0
    harness.wait_for_line(client, b"a2")
    assert box.attach(second, "-i", stdin=b"\n").code == 0
    done = harness.finish(client)
    assert done.code == 0 and done.out.endswith(b"<==\nb2\n") and b"==> %d sh" % second in done.out


def test_logs_as_json(brig, box):
    number = box.detach("sh", "-c", "printf 'a\\303'; sleep 0.2; printf '\\244\\377'; echo e >&2")
    assert box.attach(number).code == 0
    lines = [json.loads(line) for line in box.logs(options=["--json"]).out.splitlines()]
    schema = jsonschema.Draft202012Validator(brig.schema("logs"))
    for line in lines:
        schema.validate(line)
    assert "".join(x["text"] for x in lines if x["stream"] == "stdout") == "a\u00e4\ufffd"
    assert [x["text"] for x in lines if x["stream"] == "stderr"] == ["e\n"]
    assert all(x["process"] == number and x["dropped"] == 0 for x in lines)


def test_logs_to_a_reader_that_goes_away(brig, box):
    number = box.detach("sh", "-c", "while :; do echo line; done")
    client = brig.start("logs", "-f", box.id, number)
    client.stdout.readline()
    client.stdout.close()
    assert client.wait(harness.HANG) == 0
    client.stderr.close()


# At a terminal


def test_with_a_terminal(terminal, box):
    child = at_terminal(terminal, box, "-it", ["sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && echo $TERM; exit 6"],
                        env={"TERM": "vt100"})
    status, text = end(child)
    assert status == 6 and b"/dev/pts/" in text and b"vt100\r\n" in text


def test_without_t_there_is_none(terminal, box):
    child = at_terminal(terminal, box, "-i", ["sh", "-c", "test -t 0 || test -t 1 || test -t 2 || echo none; read x; echo got $x; cat"])
    child.expect_exact(b"none")
    child.send(b"word\r")
    child.expect_exact(b"got word")
    child.send(b"line\r")
    child.expect_exact(b"line\r\nline\r\n")
    child.send(b"\x04")
    assert end(child)[0] == 0


def test_output_to_a_terminal_is_inert(terminal, box):
    script = r"printf '\033]0;evil\007shown\n'; printf '\033]52;c;eA==\007\033[31mred' >&2"
    for options in (["-t"], ["-it"], ["-i"], []):
        status, text = end(at_terminal(terminal, box, *options, ["sh", "-c", script]))
        assert status == 0 and b"shown" in text and b"\x1b[31mred" in text and b"\x1b]" not in text, options
        assert text.rstrip().endswith(b"\x1b[0m") or b"\x1b[m" in text, options
        status, text = end(at_terminal(terminal, box, "--raw", *options, ["sh", "-c", script]))
        assert b"\x1b]0;evil\x07" in text and b"\x1b]52;c;eA==\x07" in text
    number = box.detach("sh", "-c", script)
    for verb in (["attach", box.id, number], ["logs", box.id]):
        status, text = end(terminal.start(terminal.brig.command(*verb)))
        assert status == 0 and b"shown" in text and b"\x1b[31mred" in text and b"\x1b]" not in text


def test_the_size_is_passed_and_followed(terminal, box):
    code = ("import os, signal\nprint(os.get_terminal_size(), flush=True)\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
            "print('ready', flush=True)\nsignal.sigwait([signal.SIGWINCH])\nprint('now', os.get_terminal_size())")
    child = at_terminal(terminal, box, "-it", ["python3", "-c", code], size=(33, 101))
    child.expect_exact(b"columns=101, lines=33")
    child.expect_exact(b"ready")
    child.setwinsize(44, 122)
    child.expect_exact(b"now os.terminal_size(columns=122, lines=44)")
    assert end(child)[0] == 0


def test_ctrl_c_ends_a_sleeping_program(terminal, box):
    child = at_terminal(terminal, box, "-it", ["sh", "-c", "echo ready; exec sleep 600"])
    child.expect_exact(b"ready")
    child.send(b"\x03")
    assert end(child)[0] == 128 + signal.SIGINT


def test_ctrl_c_without_a_terminal_inside(terminal, box):
    child = at_terminal(terminal, box, ["sh", "-c", "trap 'echo heard; exit 5' INT; echo ready; while :; do sleep 0.05; done"])
    child.expect_exact(b"ready")
    child.send(b"\x03")
    child.expect_exact(b"heard")
    assert end(child)[0] == 5


@pytest.mark.parametrize("options", ["-it", "-i", ""])
def test_ctrl_z_stops_and_fg_continues(terminal, box, options):
    child = terminal.shell()
    # Not a sleep: it may be over, and a shell that is stopped while it starts a program is so only when that runs.
    wait = "read x" if options else "until [ -e ~/go ]; do :; done"
    child.send(f"{terminal.brig.exe} exec {options} {box.id} sh -c 'echo ready; {wait}; echo got $x'\r".encode())
    child.expect_exact(b"ready\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.expect_exact(b"$ ")
    child.send(b"echo shell is here\r")
    child.expect_exact(b"\nshell is here")
    child.send(b"fg\r")
    child.expect_exact(b" exec ")
    if options:
        child.send(b"word\r")
    else:
        assert box.exec("sh", "-c", "touch ~/go").code == 0
    child.expect_exact(b"got word" if options else b"got ")
    child.expect_exact(b"$ ")
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


def test_a_shell_with_jobs(terminal, box):
    child = at_terminal(terminal, box, "-it", "-e", "PS1=in> ", ["bash", "--norc", "--noprofile", "-i"])
    child.expect_exact(b"in> ")
    child.send(b"sh -c 'echo up; read x; echo on; exec sleep 500'\r")
    child.expect_exact(b"\nup\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.expect_exact(b"in> ")
    child.send(b"jobs\r")
    child.expect(rb"\[1\]\+ +Stopped +sh -c .*sleep 500'\r\n")
    child.send(b"fg\r")
    child.expect_exact(b"sleep 500'\r\n")
    child.send(b"x\r")
    child.expect_exact(b"\non\r\n")
    child.send(b"\x03")
    child.expect_exact(b"in> ")
    child.send(b"exit 9\r")
    assert end(child)[0] == 9


def test_the_settings_of_the_terminal_come_back(terminal, box):
    child = terminal.shell()
    child.send(b"stty -g\r")
    child.expect(rb"\n([0-9a-f:]{20,})\r")
    before = child.match.group(1)
    for command in ("sh -c 'stty raw -echo; kill -9 $$'", "true", "no-such"):
        child.expect_exact(b"$ ")
        child.send(f"{terminal.brig.exe} exec -it {box.id} {command}; stty -g\r".encode())
        child.expect(rb"\n([0-9a-f:]{20,})\r")
        assert child.match.group(1) == before, command
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


def test_closing_the_terminal_hangs_up_inside(terminal, box, mark):
    child = at_terminal(terminal, box, "-it", ["sh", "-c", f"echo ready; while :; do sleep 1; done; : {mark}"])
    child.expect_exact(b"ready")
    assert harness.marked(mark)
    os.close(child.child_fd)
    child.closed = True
    terminal.child = None
    harness.wait_until(lambda: not harness.marked(mark), "the command to end with its terminal")
    harness.wait_until(lambda: os.waitpid(child.pid, os.WNOHANG)[0], "brig to end")


CURSES = ("import curses\n"
          "def main(screen):\n"
          "    screen.addstr(2, 3, 'full screen'); screen.refresh()\n"
          "    while (key := screen.getkey()) != 'q':\n"
          "        screen.addstr(5, 5, 'key ' + key); screen.refresh()\n"
          "curses.wrapper(main)\nprint('left')")


def test_a_program_of_the_whole_screen(terminal, box):
    child = at_terminal(terminal, box, "-it", ["python3", "-c", CURSES], env={"TERM": "xterm"})
    child.expect_exact(b"full screen")
    child.send(b"a")
    child.expect_exact(b"key a")
    child.send(b"q")
    child.expect_exact(b"left")
    assert end(child)[0] == 0


def test_a_terminal_needs_a_terminal_for_keys(brig, box):
    assert "not a terminal" in brig.refused("exec", "-it", box.id, "true")
    done = box.exec("sh", "-c", "tty; stty size", options=["-t"])
    assert done.code == 0 and done.out.endswith(b"24 80\r\n")


def test_json_reads_nothing_from_a_terminal(terminal, box):
    status, text = end(at_terminal(terminal, box, "-i", "--json", ["cat"]))
    assert status == 0 and b'"stdout": ""' in text


@pytest.mark.tier("process")
def test_in_the_process_tier_a_terminal_is_not_left(brig, box):
    assert "process tier" in brig.refused("exec", "-dt", box.id, "true")


@pytest.mark.tier("container")
def test_a_terminal_that_is_left_and_attached_to(terminal, box):
    number = box.detach("sh", "-c", "stty -echo; echo ready; read x; stty size; echo got $x; exit 8", options=["-it"])
    child = terminal.start(terminal.brig.command("attach", "-i", box.id, number), size=(31, 91))
    child.expect_exact(b"ready")
    child.send(b"\x1d")
    status, text = end(child)
    assert status == 0 and b"goes on" in text
    child = terminal.start(terminal.brig.command("attach", "-i", box.id, number), size=(32, 92))
    child.expect_exact(b"ready")
    child.send(b"word\r")
    child.expect_exact(b"32 92")
    child.expect_exact(b"got word")
    assert end(child)[0] == 8


# A hostile sandbox

START, STARTED, EXITED = 1, 2, 3
STATUS, PROCESS, PID = 11, 8, 9


class Impostor:
    """Listens in the place of a warden, and answers as a sandbox might that wants to harm the client."""

    ID = "abcdefghjk"

    def __init__(self, brig, answer):
        who, state = brig.who, brig.folder / "state"
        for folder in (state, state / "brig", state / "brig" / "live"):
            who.mkdir(folder, 0o700)
        manifest = who.write(state / "brig" / "live" / self.ID, '{"isolation": "container"}', 0o600)
        self.manifest = os.open(manifest, os.O_RDWR)
        fcntl.flock(self.manifest, fcntl.LOCK_EX)
        self.listener, self.answer, self.is_over = socket.socket(socket.AF_UNIX), answer, threading.Event()
        live = os.open(state / "brig" / "live", os.O_PATH)
        self.listener.bind(f"/proc/self/fd/{live}/{self.ID}.socket")  # the whole path may be too long
        os.close(live)
        who.own(state / "brig" / "live" / f"{self.ID}.socket")
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        self.connection, _ = self.listener.accept()
        header = self.connection.recv(12, socket.MSG_WAITALL)
        length, kind, _, _, self.call = struct.unpack("<IHBBI", header)
        assert kind == START
        self.connection.recv(length, socket.MSG_WAITALL)
        self.answer(self)

    def send(self, kind, fields, descriptors=()):
        body = b"".join(struct.pack("<HIQ", tag, 8, value) for tag, value in fields.items())
        message = struct.pack("<IHBBI", len(body), kind, 1, len(descriptors), self.call) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.connection.sendmsg([message], rights)

    def close(self):
        self.is_over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.connection.close()
        self.listener.close()
        os.close(self.manifest)


@contextlib.contextmanager
def impostor(brig, answer):
    it = Impostor(brig, answer)
    try:
        yield it
    finally:
        it.close()


@pytest.mark.tier("container")
@pytest.mark.parametrize("kind", ["pipe", "slave", "null", "file"])
def test_what_is_no_terminal_is_not_taken_for_one(brig, terminal, kind):
    master, slave = os.openpty()
    ends = os.pipe()
    files = {"pipe": ends[0], "slave": slave, "null": os.open("/dev/null", os.O_RDWR), "file": os.open(__file__, os.O_RDONLY)}

    def answer(it):
        it.send(STARTED, {PROCESS: 1, PID: 1}, [files[kind]])

    try:
        with impostor(brig, answer) as it:
            status, text = end(terminal.start(brig.command("exec", "-it", it.ID, "true")))
        assert status == 125 and b"not a terminal" in text
    finally:
        for fd in {master, *ends, *files.values()}:
            os.close(fd)


@pytest.mark.tier("container")
@pytest.mark.parametrize("status", [0x7fff_ffff_ffff_ffff, 0xffff, 0x1_0000_0000, 0x7f, 0x80])
def test_any_number_is_a_status(brig, status):
    with impostor(brig, lambda it: (it.send(STARTED, {PROCESS: 1, PID: 1}), it.send(EXITED, {STATUS: status}))) as it:
        done = brig("exec", it.ID, "true")
    assert 0 <= done.code <= 255 and done.err == b""


@pytest.mark.tier("container")
def test_a_terminal_that_is_made_to_block_does_not_hold_the_client(brig, terminal):
    """Both ends share its description: whoever sent it can take the flag away that keeps us from waiting."""
    master, slave = os.openpty()
    tty.setraw(slave)

    def answer(it):
        it.send(STARTED, {PROCESS: 1, PID: 1}, [master])
        while not it.is_over.is_set():
            os.set_blocking(master, True)
            time.sleep(0.0005)

    try:
        with impostor(brig, answer) as it:
            child = terminal.start(brig.command("exec", "-it", it.ID, "true"))
            os.write(slave, b"ready")
            child.expect_exact(b"ready")
            # One at a time, and more than there is room for: one of them fits in part, and has to wait.
            os.set_blocking(child.child_fd, False)
            for _ in range(20):
                with contextlib.suppress(BlockingIOError):
                    os.write(child.child_fd, b"x" * 4000)
                time.sleep(0.05)
            os.set_blocking(child.child_fd, True)
            # A second one ends it at once; two that come together are one.
            harness.wait_until(lambda: not child.isalive() or os.kill(child.pid, signal.SIGTERM), "the client to end")
            assert end(child)[0] == 128 + signal.SIGTERM
    finally:
        os.close(master)
        os.close(slave)
