"""process.Process: commands and terminals over the wire of the field's clients, in raw bytes."""

import base64
import json
import re
import socket
import threading
import time

import pytest

from conftest import wait_for
from connect_wire import Broken, Stream, command, pack

START, CONNECT, LIST = "process.Process/Start", "process.Process/Connect", "/process.Process/List"


def start(daemon, sandbox, script, headers=None, **more):
    return Stream(daemon, sandbox, START, command(script, **more), headers)


def run(daemon, sandbox, script, headers=None, **more):
    """Output, error and the end of a command."""
    with start(daemon, sandbox, script, headers, **more) as stream:
        _, got, end = stream.run()
        assert stream.end == {}, stream.end
        return got["stdout"].decode(), got["stderr"].decode(), end


def refused(daemon, sandbox, message, headers=None, method=START):
    """The error in the last envelope, which is the only one."""
    with Stream(daemon, sandbox, method, message, headers) as stream:
        assert stream.message() is None and stream.status == 200
        return stream.end["error"]["code"], stream.end["error"]["message"]


def unary(daemon, sandbox, method, body, headers=None):
    return daemon.inside(sandbox, "POST", "/process.Process/" + method, body, headers)


def processes(daemon, sandbox):
    answer = unary(daemon, sandbox, "List", {})
    assert answer.status == 200, answer
    return answer.json["processes"]


def is_alive(daemon, sandbox, pid):
    """As somebody inside sees it."""
    return run(daemon, sandbox, f"kill -0 {pid}")[2]["exitCode"] == 0


# --- Start ---

def test_events_of_a_command(daemon, sandbox):
    with start(daemon, sandbox, "echo $$; echo err >&2; exit 3", stdin=False) as stream:
        name, value = stream.event()
        assert name == "start" and list(value) == ["pid"]
        assert (stream.status, stream.head["content-type"]) == (200, "application/connect+json")
        got = {}
        while (event := stream.event())[0] in ("stdout", "stderr"):
            got[event[0]] = event[1]
        # The pid is the one inside.
        assert got == {"stdout": b"%d\n" % value["pid"], "stderr": b"err\n"}
        assert event == ("end", {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"})
        assert stream.event() == (None, {})
        # The connection is good for another one.
        stream.sock.sendall(b"POST /process.Process/List HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
                            b"Content-Type: application/json\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: %s\r\n\r\n{}" %
                            (sandbox["sandboxID"].encode(), (sandbox.get("envdAccessToken") or "").encode()))
        stream.head, stream.is_over = None, False
        assert json.loads(stream.rest()) == {"processes": []}


@pytest.mark.parametrize("script,end", [
    ("true", {"exitCode": 0, "exited": True, "status": "exit status 0"}),
    ("exit 255", {"exitCode": 255, "exited": True, "status": "exit status 255", "error": "exit status 255"}),
    ("kill -KILL $$", {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}),
    ("kill -TERM $$", {"exitCode": -1, "exited": False, "status": "signal: terminated", "error": "signal: terminated"}),
    ("kill -USR1 $$", {"exitCode": -1, "exited": False, "status": "signal: user defined signal 1",
                       "error": "signal: user defined signal 1"}),
    ("kill -40 $$", {"exitCode": -1, "exited": False, "status": "signal: signal 40", "error": "signal: signal 40"}),
])
def test_ends(daemon, sandbox, script, end):
    assert run(daemon, sandbox, script)[2] == end


def test_a_core_dump_is_told(daemon, sandbox):
    end = run(daemon, sandbox, "ulimit -c 0; kill -SEGV $$")[2]
    assert (end["exitCode"], end["exited"]) == (-1, False) and end["status"].startswith("signal: segmentation fault")


def test_environment(daemon):
    sandbox = daemon.make(envVars={"FROM_SANDBOX": "yes", "BOTH": "sandbox", "ODD": "a\nb =☃"})
    script = "printf '%s|' \"$FROM_SANDBOX\" \"$BOTH\" \"$ODD\" \"$OWN\" \"$USER\" \"$LOGNAME\" \"$HOME\"; type env >&2"
    out, err, _ = run(daemon, sandbox, script, config={"envs": {"BOTH": "request", "OWN": "1"}})
    parts = out.split("|")
    assert parts[:4] == ["yes", "request", "a\nb =☃", "1"]
    assert parts[4] == parts[5] != "" and parts[6].startswith("/") and "env is /" in err
    # One request's are not another's.
    assert run(daemon, sandbox, "echo $BOTH$OWN")[0] == "sandbox\n"
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")


def test_directory(daemon, sandbox):
    home = run(daemon, sandbox, "echo $HOME; mkdir -p $HOME/below; cd; pwd")[0].split()
    assert home[0] == home[1]
    assert run(daemon, sandbox, "pwd", config={"cwd": "/usr"})[0] == "/usr\n"
    assert run(daemon, sandbox, "pwd", config={"cwd": "below"})[0] == home[0] + "/below\n"
    assert run(daemon, sandbox, "pwd", config={"cwd": "~/below"})[0] == home[0] + "/below\n"
    assert run(daemon, sandbox, "pwd", config={"cwd": ""})[0] == home[0] + "\n"
    assert refused(daemon, sandbox, command("true", config={"cwd": "/no/where"})) == \
        ("invalid_argument", "cwd '/no/where' does not exist")


def test_users(daemon, sandbox, who):
    def headers(name):
        return {"Authorization": "Basic " + base64.b64encode(name.encode() + b":").decode()}

    me = run(daemon, sandbox, "id -un")[0].strip()
    assert run(daemon, sandbox, "id -un", headers(me))[0].strip() == me
    for name in ("nobody-of-that-name", "x" * 200, "a'b"):
        assert refused(daemon, sandbox, command("true"), headers(name)) == \
            ("unauthenticated", f"invalid username: '{name}'")
    assert refused(daemon, sandbox, command("true"), {"Authorization": "Basic ***"})[0] == "unauthenticated"
    if who.name == "root":
        assert run(daemon, sandbox, "id -un; pwd; echo $HOME", headers("root"))[0].split()[:3] == ["root", "/root", "/root"]


@pytest.mark.parametrize("message", [
    {}, {"process": {}}, {"process": {"cmd": ""}}, {"process": {"cmd": 5}}, {"process": {"cmd": "/bin/sh", "args": "x"}},
    {"process": {"cmd": "/bin/sh", "args": [5]}}, {"process": {"cmd": "/bin/sh", "envs": []}},
    {"process": {"cmd": "/bin/sh", "envs": {"A=B": "x"}}}, {"process": {"cmd": "/bin/sh", "envs": {"A": 1}}},
    {"process": {"cmd": "/bin/sh", "envs": {"": "x"}}}, {"process": {"cmd": "/bin/sh", "cwd": 1}},
    {"process": {"cmd": "/bin/sh"}, "tag": 7}, {"process": {"cmd": "/bin/sh"}, "tag": "x" * 2000},
    {"process": {"cmd": "/bin/sh"}, "pty": {"size": {"cols": -1, "rows": 2}}},
    {"process": {"cmd": "/bin/sh"}, "pty": {"size": {"cols": "x", "rows": 2}}},
    {"process": {"cmd": "/no/such/program"}}, {"process": {"cmd": "no-such-program"}}, {"process": {"cmd": "/etc"}},
    {"process": {"cmd": "/bin/sh", "args": ["x" * 300000]}},
])
def test_what_cannot_be_started(daemon, sandbox, message):
    code, text = refused(daemon, sandbox, message)
    assert code == "invalid_argument" and text
    assert processes(daemon, sandbox) == []


@pytest.mark.parametrize("body", [
    b"", b"\0\0\0", b"\0\0\0\0\5{}", pack({}) + pack({}), pack({}) + b"x", pack(b"{"), pack(b"[]"), pack(b"null"),
    pack(b'{"process":{"cmd":"/bin/sh","cmd":"/bin/sh"}}'), pack(b'{"process":{"cmd":"/bin/\\u0000sh"}}'),
    pack({"process": {"cmd": "/bin/sh"}}, 1), pack({"process": {"cmd": "/bin/sh"}}, 0x40), b"\0\xff\xff\xff\xff{}",
    b"{}", pack(b"[" * 100000),
])
def test_what_is_no_message(daemon, sandbox, body):
    with Stream(daemon, sandbox, START, body=body) as stream:
        assert stream.message() is None
        assert stream.end["error"]["code"] == "invalid_argument"


def test_other_types_are_refused(daemon, sandbox):
    for method, kind in (("Start", "application/json"), ("Start", "application/connect+proto"), ("Connect", ""),
                         ("StreamInput", "application/grpc"), ("List", "application/proto"),
                         ("SendInput", "application/connect+json"), ("SendSignal", "text/plain"), ("Update", "x"),
                         ("CloseStdin", "application/jsonx")):
        answer = daemon.inside(sandbox, "POST", "/process.Process/" + method, raw=b"{}", headers={"Content-Type": kind})
        assert answer.status == 415 and isinstance(answer.json["code"], str), answer
    answer = daemon.inside(sandbox, "POST", LIST, raw=b"{}", headers={"Content-Type": "application/JSON; charset=utf-8"})
    assert answer.status == 200
    assert daemon.inside(sandbox, "POST", "/process.Process/Nothing", {}).status == 404


def test_who_has_no_token(daemon, sandbox):
    stranger = {**sandbox, "envdAccessToken": "x" * 40}
    with Stream(daemon, stranger, START, command("true")) as stream:
        assert stream.read_head() == 401
        assert json.loads(stream.rest())["code"] == "unauthenticated"
    assert unary(daemon, stranger, "List", {}).status == 401


# --- output ---

def counted(count):
    return b"".join(b"%d-is-a-line-of-some-length\n" % i for i in range(count))


def test_much_output_and_no_byte_lost(daemon, sandbox):
    """100 MB, in pieces that are no larger than the field's clients are used to."""
    with start(daemon, sandbox, "seq -f %.0f-is-a-line-of-some-length 0 3099999", stdin=False) as stream:
        assert stream.event()[0] == "start"
        parts, largest = [], 0
        while (event := stream.event())[0] == "stdout":
            parts.append(event[1])
            largest = max(largest, len(event[1]))
        assert event[0] == "end" and event[1]["exitCode"] == 0
    assert largest <= 32768
    out = b"".join(parts)
    assert len(out) > 100000000 and out == counted(3100000)


def test_a_client_that_reads_slowly(daemon, sandbox):
    """Its command waits; nobody else does; the daemon does not grow; nothing is lost."""
    script = "seq -f %.0f-is-a-line-of-some-length 0 999999; echo done >&2"
    with Stream(daemon, sandbox, START, command(script, stdin=False), receive=4096) as stream:
        assert stream.event()[0] == "start"
        (listed,) = processes(daemon, sandbox)
        size = run(daemon, sandbox, f"sleep 1; grep -c . /proc/{listed['pid']}/status; cat /proc/{listed['pid']}/wchan")[0]
        assert size
        time.sleep(1)
        assert [p["pid"] for p in processes(daemon, sandbox)] == [listed["pid"]]
        grown = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{daemon.process.pid}/status").read())[1])
        assert grown < 400000, "the daemon keeps what a client does not read"
        parts = {"stdout": [], "stderr": []}
        while (event := stream.event())[0] in parts:
            parts[event[0]].append(event[1])
        assert event[0] == "end"
    assert b"".join(parts["stdout"]) == counted(1000000) and b"".join(parts["stderr"]) == b"done\n"


def test_fifty_at_once(daemon, sandbox):
    streams = [start(daemon, sandbox, f"read x; seq {i} 1000 {i + 20000}; echo e{i} >&2; exit {i}") for i in range(50)]
    pids = [stream.event()[1]["pid"] for stream in streams]
    assert len(set(pids)) == 50
    assert sorted(p["pid"] for p in processes(daemon, sandbox)) == sorted(pids)
    for pid in pids:
        answer = unary(daemon, sandbox, "SendInput", {"process": {"pid": pid},
                                                      "input": {"stdin": base64.b64encode(b"go\n").decode()}})
        assert (answer.status, answer.json) == (200, {})
    for i, stream in enumerate(streams):
        got = {"stdout": b"", "stderr": b""}
        while (event := stream.event())[0] in got:
            got[event[0]] += event[1]
        assert got["stdout"] == b"".join(b"%d\n" % n for n in range(i, i + 20001, 1000))
        assert got["stderr"] == b"e%d\n" % i and event[1]["exitCode"] == i
        stream.close()


def test_flush_of_each_event(daemon, sandbox):
    with start(daemon, sandbox, "echo one; read x; echo two; read x") as stream:
        pid = stream.event()[1]["pid"]
        assert stream.event() == ("stdout", b"one\n")
        assert stream.is_silent(0.2)
        give(daemon, sandbox, pid, b"\n")
        assert stream.event() == ("stdout", b"two\n")


def test_heirs_of_the_pipes(daemon, sandbox):
    """What a command leaves running is heard, as with the field's servers; but not of one that is killed."""
    out, _, end = run(daemon, sandbox, "(sleep 0.5; echo later) & echo now; exit 4")
    assert out == "now\nlater\n" and end["exitCode"] == 4
    with start(daemon, sandbox, "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000") as stream:
        pid = stream.event()[1]["pid"]
        heir = int(stream.event()[1])
        assert unary(daemon, sandbox, "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}).json == {}
        assert stream.event()[1]["status"] == "signal: killed"
    assert is_alive(daemon, sandbox, heir)


def test_keepalive(daemon, sandbox):
    begin = time.monotonic()
    with start(daemon, sandbox, "echo hi; read x", {"Keepalive-Ping-Interval": "1"}) as stream:
        assert stream.event()[0] == "start" and stream.event()[0] == "stdout"
        for _ in range(2):
            assert stream.message() == {"event": {"keepalive": {}}}
        assert time.monotonic() - begin > 1.5


# --- time ---

def test_time_is_over(daemon, sandbox):
    begin = time.monotonic()
    with start(daemon, sandbox, "echo $$; sleep 1000; echo not so", {"Connect-Timeout-Ms": "4000"}) as stream:
        pid, got, _ = stream.run()
        assert stream.end["error"]["code"] == "deadline_exceeded"
        assert got["stdout"] == b"%d\n" % pid and 0.6 < time.monotonic() - begin
    wait_for(lambda: not is_alive(daemon, sandbox, pid), "the end of the command")


def test_time_is_over_for_one_that_nobody_watches(daemon, sandbox):
    with start(daemon, sandbox, "sleep 1000", {"Connect-Timeout-Ms": "6000"}) as stream:
        pid = stream.event()[1]["pid"]
    assert is_alive(daemon, sandbox, pid)
    wait_for(lambda: not is_alive(daemon, sandbox, pid), "the end of the command")


def test_no_time(daemon, sandbox):
    for value in ("0", None):
        with start(daemon, sandbox, "sleep 1; echo done", {"Connect-Timeout-Ms": value} if value else {}) as stream:
            assert stream.run()[1]["stdout"] == b"done\n"
    for value in ("x", "-1", "1.5", "99999999999", ""):
        assert refused(daemon, sandbox, command("true"), {"Connect-Timeout-Ms": value})[0] == "invalid_argument"


# --- input ---

def give(daemon, sandbox, pid, data, kind="stdin"):
    answer = unary(daemon, sandbox, "SendInput", {"process": {"pid": pid},
                                                  "input": {kind: base64.b64encode(data).decode()}})
    assert (answer.status, answer.json) == (200, {}), answer


def test_input(daemon, sandbox):
    with start(daemon, sandbox, "cat; echo end") as stream:
        pid = stream.event()[1]["pid"]
        give(daemon, sandbox, pid, b"one")
        assert stream.event() == ("stdout", b"one")
        give(daemon, sandbox, pid, b"")
        give(daemon, sandbox, pid, bytes(range(256)))
        assert stream.event() == ("stdout", bytes(range(256)))
        assert unary(daemon, sandbox, "CloseStdin", {"process": {"pid": pid}}).json == {}
        assert stream.event() == ("stdout", b"end\n")
        assert stream.event()[1]["exitCode"] == 0
    answer = unary(daemon, sandbox, "SendInput", {"process": {"pid": pid}, "input": {"stdin": "eA=="}})
    assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert answer.json["message"] == f"process with pid {pid} not found"


def test_much_input(daemon, sandbox):
    data = counted(250000)
    with start(daemon, sandbox, "cksum") as stream:
        pid = stream.event()[1]["pid"]
        for at in range(0, len(data), 3000000):
            give(daemon, sandbox, pid, data[at:at + 3000000])
        unary(daemon, sandbox, "CloseStdin", {"process": {"pid": pid}})
        assert stream.event()[1].split()[1] == b"%d" % len(data)


def test_input_that_is_not_wanted(daemon, sandbox):
    with start(daemon, sandbox, "echo $(cat | wc -c); sleep 1000", stdin=False) as stream:
        pid = stream.event()[1]["pid"]
        assert stream.event() == ("stdout", b"0\n")
        answer = unary(daemon, sandbox, "SendInput", {"process": {"pid": pid}, "input": {"stdin": "eA=="}})
        assert (answer.status, answer.json["code"]) == (500, "internal")
    with start(daemon, sandbox, "sleep 1000") as stream:
        pid = stream.event()[1]["pid"]
        for body, code in (({"process": {"pid": pid}, "input": {"pty": "eA=="}}, "internal"),
                           ({"process": {"pid": pid}, "input": {"stdin": "***"}}, "invalid_argument"),
                           ({"process": {"pid": pid}, "input": {}}, "invalid_argument"),
                           ({"process": {"pid": pid}}, "invalid_argument"),
                           ({"process": {}, "input": {"stdin": "eA=="}}, "invalid_argument"),
                           ({"process": {"pid": -1}, "input": {"stdin": "eA=="}}, "invalid_argument"),
                           ({"input": {"stdin": "eA=="}}, "invalid_argument")):
            answer = unary(daemon, sandbox, "SendInput", body)
            assert answer.json["code"] == code, (body, answer)
        # One who does not read: the call ends with its time, the command goes on.
        answer = unary(daemon, sandbox, "SendInput", {"process": {"pid": pid}, "input": {
            "stdin": base64.b64encode(b"x" * 1000000).decode()}}, {"Connect-Timeout-Ms": "500"})
        assert (answer.status, answer.json["code"]) == (504, "deadline_exceeded")
        assert is_alive(daemon, sandbox, pid)


def test_stream_of_input(daemon, sandbox):
    with start(daemon, sandbox, "cat") as stream:
        pid = stream.event()[1]["pid"]
        with Stream(daemon, sandbox, "process.Process/StreamInput", chunked=True) as feed:
            feed.send({"start": {"process": {"pid": pid}}}, {"data": {"input": {"stdin": "b25l"}}}, {"keepalive": {}})
            assert stream.event() == ("stdout", b"one")
            # Each is acted on as it comes, however it is cut.
            whole = pack({"data": {"input": {"stdin": "dHdv"}}})
            for part in (whole[:3], whole[3:20], whole[20:]):
                feed.sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
                time.sleep(0.05)
            assert stream.event() == ("stdout", b"two")
            assert feed.is_silent(0.2)
            feed.send_end()
            assert feed.message() == {} and feed.message() is None and feed.end == {}
        # It is the stream that has ended, not the input.
        give(daemon, sandbox, pid, b"three")
        assert stream.event() == ("stdout", b"three")


def test_stream_of_much_input(daemon, sandbox):
    """Far more than may wait anywhere, to a command that takes its time."""
    data = counted(600000)
    with start(daemon, sandbox, "sleep 1; cksum") as stream:
        pid = stream.event()[1]["pid"]
        with Stream(daemon, sandbox, "process.Process/StreamInput", chunked=True) as feed:
            feed.send({"start": {"process": {"pid": pid}}})
            for at in range(0, len(data), 100000):
                feed.send({"data": {"input": {"stdin": base64.b64encode(data[at:at + 100000]).decode()}}})
            feed.send_end()
            assert feed.message() == {} and feed.message() is None
        unary(daemon, sandbox, "CloseStdin", {"process": {"pid": pid}})
        assert stream.event()[1].split()[1] == b"%d" % len(data)


@pytest.mark.parametrize("messages,code", [
    ([], "invalid_argument"), ([{"data": {"input": {"stdin": "eA=="}}}], "invalid_argument"),
    ([{"start": {"process": {"pid": 99999}}}], "not_found"), ([{"start": {}}], "invalid_argument"),
    ([{"start": {"process": {"pid": "PID"}}}, {"start": {"process": {"pid": "PID"}}}], "invalid_argument"),
    ([{"start": {"process": {"pid": "PID"}}}, {"data": {"input": {"stdin": "*"}}}], "invalid_argument"),
    ([{"start": {"process": {"pid": "PID"}}}, {"data": {"input": {"pty": "eA=="}}}], "internal"),
    ([{"start": {"process": {"pid": "PID"}}}, {"data": {"input": {"stdin": "eA=="}}}, "cut"], "invalid_argument"),
])
def test_streams_of_input_that_fail(daemon, sandbox, messages, code):
    with start(daemon, sandbox, "cat") as stream:
        pid = stream.event()[1]["pid"]
        body = b"".join(b"\0\0\0\0\5{" if m == "cut" else
                        pack(json.dumps(m).replace('"PID"', str(pid)).encode()) for m in messages)
        with Stream(daemon, sandbox, "process.Process/StreamInput", body=body) as feed:
            assert feed.message() is None
            assert feed.end["error"]["code"] == code
        unary(daemon, sandbox, "CloseStdin", {"process": {"pid": pid}})
        while stream.event()[0] != "end":
            pass


# --- terminals ---

def test_terminal(daemon, sandbox):
    message = {"process": {"cmd": "/bin/sh", "args": ["-i"], "envs": {"PS1": "", "TERM": "xterm"}},
               "pty": {"size": {"cols": 91, "rows": 33}}}
    with Stream(daemon, sandbox, START, message) as stream:
        pid = stream.event()[1]["pid"]
        seen = b""

        def until(word):
            nonlocal seen
            while word not in seen:
                name, data = stream.event()
                assert name == "pty", (name, data, seen)
                assert len(data) <= 16384
                seen += data
            seen = seen[seen.index(word) + len(word):]

        give(daemon, sandbox, pid, b"stty -echo; stty size; tty; id -u\n", "pty")
        until(b"33 91\r\n")
        until(b"/dev/pts/")
        answer = unary(daemon, sandbox, "Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 20, "rows": 10}}})
        assert answer.json == {}
        give(daemon, sandbox, pid, b"stty size\n", "pty")
        until(b"10 20\r\n")
        # Ctrl-C is the terminal's business.
        give(daemon, sandbox, pid, b"sleep 1000\n", "pty")
        time.sleep(0.3)
        give(daemon, sandbox, pid, b"\3", "pty")
        give(daemon, sandbox, pid, b"echo after $((40+2))\n", "pty")
        until(b"after 42\r\n")
        with Stream(daemon, sandbox, "process.Process/StreamInput", chunked=True) as feed:
            feed.send({"start": {"process": {"pid": pid}}},
                      {"data": {"input": {"pty": base64.b64encode(b"seq -f %.0f-is-a-line 0 9999; exit 7\n").decode()}}})
            feed.send_end()
            assert feed.message() == {}
        rest = b""
        while (event := stream.event())[0] == "pty":
            rest += event[1]
        assert event[1]["exitCode"] == 7
        assert b"".join(b"%d-is-a-line\r\n" % i for i in range(10000)) in rest
    answer = unary(daemon, sandbox, "Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 1, "rows": 1}}})
    assert answer.json["code"] == "not_found"


def test_what_is_no_terminal(daemon, sandbox):
    with start(daemon, sandbox, "sleep 1000") as stream:
        pid = stream.event()[1]["pid"]
        answer = unary(daemon, sandbox, "Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 1, "rows": 1}}})
        assert answer.json["code"] == "failed_precondition"
        for body in ({"process": {"pid": pid}}, {"process": {"pid": pid}, "pty": {"size": {"cols": 70000, "rows": 1}}}):
            assert unary(daemon, sandbox, "Update", body).json["code"] == "invalid_argument"


# --- signals and lists ---

def test_signals(daemon, sandbox):
    with start(daemon, sandbox, "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done") as stream:
        pid = stream.event()[1]["pid"]
        assert stream.event() == ("stdout", b"ready\n")
        assert unary(daemon, sandbox, "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"}).json == {}
        assert stream.event() == ("stdout", b"caught\n")
        assert stream.event()[1]["exitCode"] == 5
    # What a shell started for it goes with it.
    with start(daemon, sandbox, "sleep 1000 & echo $!; wait; true") as stream:
        pid, child = stream.event()[1]["pid"], int(stream.event()[1])
        assert unary(daemon, sandbox, "SendSignal", {"process": {"pid": str(pid)}, "signal": 9}).json == {}
        assert stream.event()[1] == {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}
    wait_for(lambda: not is_alive(daemon, sandbox, child), "the end of the child")
    for body, status, code in (({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
                               ({"process": {"pid": 4000000000}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
                               ({"process": {"tag": "none"}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
                               ({"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
                               ({"process": {"pid": pid}, "signal": "SIGNAL_SIGHUP"}, 501, "unimplemented"),
                               ({"process": {"pid": pid}}, 501, "unimplemented"),
                               ({"process": {"pid": 5000000000}, "signal": "SIGNAL_SIGKILL"}, 400, "invalid_argument")):
        answer = unary(daemon, sandbox, "SendSignal", body)
        assert (answer.status, answer.json["code"]) == (status, code), (body, answer)


def test_list(daemon, sandbox):
    assert processes(daemon, sandbox) == []
    message = {"process": {"cmd": "/bin/sleep", "args": ["1000"], "envs": {"A": "☃"}, "cwd": "/tmp"}, "tag": "a tag"}
    with Stream(daemon, sandbox, START, message) as one, start(daemon, sandbox, "sleep 1000 # " + "x" * 20000) as two:
        first, second = one.event()[1]["pid"], two.event()[1]["pid"]
        listed = processes(daemon, sandbox)
        assert listed[0] == {"config": message["process"], "pid": first, "tag": "a tag"}
        # More than is worth being kept: what it is, without the words.
        assert listed[1]["pid"] == second and listed[1]["config"] == {"cmd": "/bin/sh"}
        # A sleep of somebody else's is not listed.
        run(daemon, sandbox, "sleep 1000 >/dev/null 2>&1 &")
        assert len(processes(daemon, sandbox)) == 2
        assert unary(daemon, sandbox, "SendSignal", {"process": {"tag": "a tag"}, "signal": "SIGNAL_SIGKILL"}).json == {}
        assert one.event()[0] == "end"


# --- who leaves, and who comes ---

def test_a_client_that_leaves(daemon, sandbox):
    with start(daemon, sandbox, "echo one; read x; echo two; read x; echo three; exit 9") as stream:
        pid = stream.event()[1]["pid"]
        assert stream.event() == ("stdout", b"one\n")
    assert is_alive(daemon, sandbox, pid)
    give(daemon, sandbox, pid, b"\n")
    time.sleep(0.5)
    with Stream(daemon, sandbox, CONNECT, {"process": {"pid": pid}}) as again:
        assert again.event() == ("start", {"pid": pid})
        # What came while nobody was there is not lost.
        assert again.event() == ("stdout", b"two\n")
        give(daemon, sandbox, pid, b"\n")
        assert again.event() == ("stdout", b"three\n")
        assert again.event() == ("end", {"exitCode": 9, "exited": True, "status": "exit status 9", "error": "exit status 9"})
    # Its end is kept for a while.
    with Stream(daemon, sandbox, CONNECT, {"process": {"pid": pid}}) as late:
        assert late.run()[2]["exitCode"] == 9


def test_two_who_watch(daemon, sandbox):
    with start(daemon, sandbox, "read x; seq 100000; exit 2", tag="shared") as one:
        pid = one.event()[1]["pid"]
        with Stream(daemon, sandbox, CONNECT, {"process": {"tag": "shared"}}) as two:
            assert two.event() == ("start", {"pid": pid})
            give(daemon, sandbox, pid, b"\n")
            results = {}

            def watch(name, stream):
                parts = []
                while (event := stream.event())[0] == "stdout":
                    parts.append(event[1])
                results[name] = b"".join(parts), event[1]["exitCode"]

            threads = [threading.Thread(target=watch, args=pair) for pair in (("one", one), ("two", two))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            expected = b"".join(b"%d\n" % i for i in range(1, 100001)), 2
            assert results == {"one": expected, "two": expected}


def test_one_who_leaves_in_the_midst(daemon, sandbox):
    """While its pipes are full: the command is not held up by somebody who is gone."""
    with Stream(daemon, sandbox, START, command("seq 10000000; exit 3", stdin=False), receive=4096) as stream:
        pid = stream.event()[1]["pid"]
        time.sleep(0.3)
    wait_for(lambda: not is_alive(daemon, sandbox, pid), "the end of the command")
    with Stream(daemon, sandbox, CONNECT, {"process": {"pid": pid}}) as late:
        got = late.run()
        assert got[2]["exitCode"] == 3 and got[1]["stdout"].endswith(b"9999999\n10000000\n")


def test_what_cannot_be_connected_to(daemon, sandbox):
    for selector, code in (({"pid": 4000000}, "not_found"), ({"tag": "none"}, "not_found"), ({"pid": 1}, "not_found"),
                           ({}, "invalid_argument"), ({"pid": "x"}, "invalid_argument"), (None, "invalid_argument")):
        assert refused(daemon, sandbox, {"process": selector}, method=CONNECT)[0] == code, selector


def test_connect_has_a_time_of_its_own(daemon, sandbox):
    with start(daemon, sandbox, "sleep 1000") as stream:
        pid = stream.event()[1]["pid"]
        with Stream(daemon, sandbox, CONNECT, {"process": {"pid": pid}}, {"Connect-Timeout-Ms": "3000"}) as other:
            assert other.run() == (pid, {"stdout": b"", "stderr": b"", "pty": b""}, other.end)
            assert other.end["error"]["code"] == "deadline_exceeded"
        time.sleep(1)
        assert is_alive(daemon, sandbox, pid)


# --- the end of the sandbox, and of the daemon ---

def test_the_end_of_the_sandbox(daemon):
    sandbox = daemon.make()
    with start(daemon, sandbox, "echo one; sleep 1000") as stream, start(daemon, sandbox, "seq 100000000") as busy:
        assert stream.event()[0] == "start" and stream.event() == ("stdout", b"one\n")
        assert busy.event()[0] == "start"
        assert daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}").status == 204
        # When the stream breaks, the health says why already.
        with pytest.raises((Broken, ConnectionResetError)):
            stream.event()
        answer = daemon.inside(sandbox, "GET", "/health")
        assert answer.status == 502 and "was not found" in answer.json["message"]
        with pytest.raises((Broken, ConnectionResetError)):
            while True:
                busy.event()
    with Stream(daemon, sandbox, START, command("true")) as stream:
        assert stream.read_head() == 502 and "was not found" in json.loads(stream.rest())["message"]


def test_the_daemon_is_killed(own_daemon):
    """Commands live on; the next daemon finds them by pid and by tag, with what they wrote meanwhile."""
    daemon = own_daemon.start()
    sandbox = daemon.make()
    message = command("echo before; read x; echo after; read x; exit 6", tag="mine")
    stream = Stream(daemon, sandbox, START, message)
    pid = stream.event()[1]["pid"]
    assert stream.event() == ("stdout", b"before\n")
    quick = Stream(daemon, sandbox, START, command("read x; exit 8", tag="quick"))
    quick_pid = quick.event()[1]["pid"]
    bound = Stream(daemon, sandbox, START, command("sleep 1000"), {"Connect-Timeout-Ms": "5000"})
    bound_pid = bound.event()[1]["pid"]
    give(daemon, sandbox, quick_pid, b"\n")
    daemon.restart()
    for one in (stream, quick, bound):
        one.close()
    listed = {p["pid"]: p for p in processes(daemon, sandbox)}
    assert listed[pid]["tag"] == "mine" and listed[pid]["config"]["cmd"] == "/bin/sh"
    give(daemon, sandbox, pid, b"\n")
    wait_for(lambda: bound_pid not in {p["pid"] for p in processes(daemon, sandbox)}, "the end by time")
    with Stream(daemon, sandbox, CONNECT, {"process": {"tag": "mine"}}) as again:
        assert again.event() == ("start", {"pid": pid})
        assert again.event() == ("stdout", b"after\n")
        give(daemon, sandbox, pid, b"\n")
        assert again.event()[1]["exitCode"] == 6
    with Stream(daemon, sandbox, CONNECT, {"process": {"pid": quick_pid}}) as late:
        assert late.run()[2]["exitCode"] == 8


def test_nothing_is_left_open(daemon, sandbox):
    """Descriptors of the daemon, after commands that ended, were left, failed and were killed."""
    run(daemon, sandbox, "true")
    before = daemon.descriptors()
    for i in range(20):
        run(daemon, sandbox, "echo hi")
        refused(daemon, sandbox, command("true", config={"cwd": "/none"}))
        with start(daemon, sandbox, "sleep 1000") as stream:
            pid = stream.event()[1]["pid"]
        unary(daemon, sandbox, "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        with socket.create_connection(("127.0.0.1", daemon.port)) as sock:
            sock.sendall(b"POST /process.Process/StreamInput HTTP/1.1\r\nHost: localhost\r\n")
    wait_for(lambda: daemon.descriptors() <= before + 1, "closing")
