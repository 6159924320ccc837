"""brig's own API: runs, sandboxes, commands, files, records, keys, and the daemon itself.

Every JSON answer is compared with the schema that the daemon's own document has for it (api.check), so a test that asks for
something tests the document as well.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import re
import socket
import subprocess
import threading
import time

import jsonschema
import pytest

import harness
import v1_wire
from conftest import wait_for


class Api:
    """Requests to /v1, with answers checked against the document."""

    def __init__(self, daemon, key=True):
        self.daemon, self.key = daemon, key
        self.document = daemon.ask("GET", "/v1/openapi.json", key=False).json

    def schema_of(self, method, path, status, kind):
        for pattern, item in self.document["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", re.escape(pattern).replace(r"\{", "{").replace(r"\}", "}")),
                            path.split("?")[0]) and method.lower() in item:
                responses = item[method.lower()]["responses"]
                assert str(status) in responses, f"{method} {path}: {status} is not in the document"
                response = responses[str(status)]
                if "$ref" in response:
                    response = self.document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
                return response.get("content", {}).get(kind, {}).get("schema")
        return None

    def check(self, method, path, answer):
        kind = answer.headers.get("Content-Type", "").split(";")[0]
        schema = self.schema_of(method, path, answer.status, kind)
        if schema is not None:
            jsonschema.Draft202012Validator({**schema, "components": self.document["components"]}).validate(answer.json)
        return answer

    def ask(self, method, path, body=None, **more):
        more.setdefault("key", self.key)
        return self.check(method, path, self.daemon.ask(method, path, body, **more))

    def run(self, **body):
        answer = self.ask("POST", "/v1/run", body)
        assert answer.status == 200, answer
        return answer.json

    def create(self, **body):
        answer = self.ask("POST", "/v1/sandboxes", body)
        assert answer.status == 201, answer
        return answer.json["id"]

    def exec(self, sandbox, *command, **body):
        answer = self.ask("POST", f"/v1/sandboxes/{sandbox}/exec", {"command": list(command), **body})
        assert answer.status == 200, answer
        return answer.json

    def ids(self):
        return [s["id"] for s in self.ask("GET", "/v1/sandboxes").json["sandboxes"]]


@pytest.fixture(scope="module")
def api(daemon):
    return Api(daemon)


@pytest.fixture
def box(api):
    made = api.create(timeout=300)
    yield made
    api.ask("DELETE", f"/v1/sandboxes/{made}")


@pytest.fixture(scope="module")
def other(api):
    """The key of another tenant."""
    answer = api.ask("POST", "/v1/keys", {"tenant": "other"})
    assert answer.status == 201
    return Api(api.daemon, answer.json["key"])


# --- runs ---

def test_the_line_of_the_readme(daemon):
    """curl -d says that the body is a form; it is JSON all the same."""
    out = subprocess.run(["curl", "-sS", f"127.0.0.1:{daemon.port}/v1/run", "-H", f"X-API-Key: {daemon.key}",
                          "-d", '{"command":["python3","-c","print(1)"]}'],
                         capture_output=True, timeout=harness.HANG, check=True).stdout
    result = json.loads(out)
    assert result["stdout"] == "1\n" and result["exit_code"] == 0 and result["reason"] == "exit"


def test_a_result_has_the_words_of_brig_run(api):
    result = api.run(command=["sh", "-c", "echo out; echo err >&2; exit 3"])
    schema = json.loads(api.daemon.brig("run", "--schema").stdout)
    jsonschema.Draft202012Validator(schema).validate(result)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 3)
    assert result["isolation"] == "container" and {w["name"] for w in result["enforcement"]} >= {"files", "syscalls"}
    assert result["policy"].startswith("sha256:")


def test_nothing_is_left_of_a_run(api):
    sandbox = api.run(command=["true"])["sandbox"]
    assert sandbox not in api.ids()
    assert sandbox not in api.daemon.brig("ps", "--json").stdout.decode()


@pytest.mark.parametrize("body, want", [
    ({"code": "import sys; print(sys.stdin.read() * 2)", "stdin": "né"}, "néné\n"),
    ({"code": "echo $A $0", "language": "bash", "env": {"A": "b c"}}, "b c bash\n"),
    ({"command": ["pwd"], "cwd": "/tmp"}, "/tmp\n"),
    ({"command": ["od", "-An", "-tx1"], "stdin_base64": "AP+A"}, " 00 ff 80\n"),
    ({"command": ["cat", "d/a.txt", "b"], "files": [{"path": "d/a.txt", "text": "A"}, {"path": "b", "base64": "Qg=="}]}, "AB"),
    ({"command": ["./x"], "files": [{"path": "x", "text": "#!/bin/sh\necho ran\n", "mode": "755"}]}, "ran\n"),
    ({"command": ["printf", "%s.", "a b", "", "$HOME"]}, "a b..$HOME."),
])
def test_what_a_run_takes(api, body, want):
    result = api.run(**body)
    assert (result["stdout"], result["exit_code"]) == (want, 0), result["stderr"]


def test_files_longer_than_a_window(api):
    data = base64.b64encode(bytes(range(256)) * 2800).decode()
    result = api.run(command=["sha256sum", "x"], files=[{"path": "x", "base64": data}])
    assert result["stdout"].split()[0] == hashlib.sha256(base64.b64decode(data)).hexdigest()


def test_bytes_that_are_no_text_are_exact(api):
    result = api.run(command=["printf", "a\\377"])
    assert result["stdout"] == "a�" and base64.b64decode(result["stdout_base64"]) == b"a\xff"


def test_output_is_bounded_and_the_command_goes_on(api):
    result = api.run(command=["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2"])
    assert len(result["stdout"]) == 1 << 20 and result["truncated"] and result["stderr"] == "end\n"


@pytest.mark.parametrize("command, code, signal, reason", [
    (["sleep", "100"], 124, "SIGKILL", "timeout"),
    (["sh", "-c", "kill -TERM $$"], 143, "SIGTERM", "signal"),
    (["no-such-program"], 127, None, "exit"),
    (["/etc/passwd"], 126, None, "exit"),
])
def test_ends(api, command, code, signal, reason):
    result = api.run(command=command, timeout=2 if reason == "timeout" else 60)
    assert (result["exit_code"], result["signal"], result["reason"]) == (code, signal, reason)
    assert bool(result["stderr"]) == (code in (126, 127))


def test_too_much_memory_is_the_reason(api):
    result = api.run(code="x = bytearray(400 << 20)\nimport time; time.sleep(20)", limits={"memory": "96M"})
    assert result["exit_code"] != 0
    # Where nobody gives memory to a process that asks for more, Python says so itself.
    assert result["reason"] == "memory" or "MemoryError" in result["stderr"]


def test_what_was_refused_is_in_the_result(api):
    result = api.run(command=["curl", "-sS", "-m", "10", "http://169.254.169.254/latest"])
    assert result["exit_code"] != 0
    assert any("169.254.169.254" in d["object"] and d["action"] == "connect" for d in result["denials"]), result["denials"]


def test_a_stream_of_events(api):
    """Text as text, also where a character is cut in two; bytes as base64; the result at last, without the output."""
    command = ["sh", "-c", r"printf 'h\303'; sleep 0.3; printf '\251\n'; echo err >&2; sleep 0.3; printf '\377'; exit 4"]
    pieces = [{"text": "h"}, {"base64": "/w=="}]
    # On a busy machine two of them may come together.
    events = harness.in_time(lambda: v1_wire.events(api.daemon, "POST", "/v1/run", {"command": command}),
                             lambda events: all(piece in [d for _, _, d in events] for piece in pieces))
    names = [name for name, _, _ in events]
    assert names[0] == "started" and names[-1] == "result" and set(names[1:-1]) == {"stdout", "stderr"}
    out = b"".join(d["text"].encode() if "text" in d else base64.b64decode(d["base64"])
                   for name, _, d in events if name == "stdout")
    assert out == b"h\xc3\xa9\n\xff"
    assert all(piece in [d for _, _, d in events] for piece in pieces)
    result = events[-1][2]
    assert result["exit_code"] == 4 and "stdout" not in result and result["sandbox"] == events[0][2]["sandbox"]


def test_a_stream_comes_as_it_happens(api):
    with v1_wire.Stream(api.daemon, "POST", "/v1/run", {"command": ["sh", "-c", "echo one; sleep 1000"]}) as stream:
        assert next(stream)[0] == "started"
        assert next(stream)[2] == {"text": "one\n"}
    # The client has left: so has the run.
    wait_for(lambda: not api.ids(), "the end of a run whose client left")


def test_what_fails_before_the_stream_has_a_status(api):
    answer = api.ask("POST", "/v1/run", {"command": ["true"], "policy": "none-such"},
                     headers={"Accept": "text/event-stream"})
    assert answer.status == 422
    events = v1_wire.events(api.daemon, "POST", "/v1/run", {"command": ["true"], "cwd": "/none-such"})
    assert [e[0] for e in events] == ["error"] and events[0][2]["code"] == 422


def test_a_client_that_leaves_takes_its_run_along(api):
    before = set(api.ids())
    sock = v1_wire.begin(api.daemon, "POST", "/v1/run", {"command": ["sleep", "1000"], "timeout": 1000})
    wait_for(lambda: set(api.ids()) - before, "the sandbox of a run")
    sock.close()
    wait_for(lambda: not set(api.ids()) - before, "the end of it")


def test_a_slow_reader_of_a_stream_loses_nothing(api):
    with v1_wire.Stream(api.daemon, "POST", "/v1/run", {"command": ["sh", "-c", "seq 1 400000"], "timeout": 120},
                        buffer=4096) as stream:
        time.sleep(1.5)
        out = "".join(d["text"] for name, _, d in stream if name == "stdout")
    assert out == "".join(f"{i}\n" for i in range(1, 400001))


# --- once ---

def test_a_run_is_done_once(api):
    key = {"Idempotency-Key": f"run-{time.monotonic_ns()}"}
    body = {"command": ["cat", "/proc/sys/kernel/random/uuid"]}
    first = api.ask("POST", "/v1/run", body, headers=key)
    again = api.ask("POST", "/v1/run", body, headers=key)
    assert first.status == again.status == 200 and first.json == again.json
    assert again.headers["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first.headers
    assert api.ask("POST", "/v1/run", {"command": ["true"]}, headers=key).status == 422


def test_a_key_is_its_tenants_own(api, other):
    key = {"Idempotency-Key": f"own-{time.monotonic_ns()}"}
    body = {"command": ["cat", "/proc/sys/kernel/random/uuid"]}
    assert api.ask("POST", "/v1/run", body, headers=key).json["stdout"] != \
        other.ask("POST", "/v1/run", body, headers=key).json["stdout"]


def test_who_left_gets_the_answer_when_he_asks_again(api):
    key = f"left-{time.monotonic_ns()}"
    body = {"command": ["sh", "-c", "sleep 5; cat /proc/sys/kernel/random/uuid"]}
    before = set(api.ids())
    sock = v1_wire.begin(api.daemon, "POST", "/v1/run", body, {"Idempotency-Key": key})
    wait_for(lambda: set(api.ids()) - before, "the sandbox of a run")
    assert api.ask("POST", "/v1/run", body, headers={"Idempotency-Key": key}).status == 409
    sock.close()

    def ask():
        answer = api.ask("POST", "/v1/run", body, headers={"Idempotency-Key": key})
        return answer if answer.status != 409 else None

    answer = wait_for(ask, "the answer of a run whose client left")
    assert answer.status == 200 and answer.headers["Idempotent-Replayed"] == "true"
    assert len(answer.json["stdout"]) == 37


def test_a_sandbox_is_made_once(api):
    key = {"Idempotency-Key": f"make-{time.monotonic_ns()}"}
    before = len(api.ids())
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(api.ask("POST", "/v1/sandboxes", {}, headers=key)))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = {a.json["id"] for a in answers if a.status == 201}
    assert len(made) == 1 and {a.status for a in answers} <= {201, 409}
    assert len(api.ids()) == before + 1
    api.ask("DELETE", f"/v1/sandboxes/{made.pop()}")


def test_a_daemon_that_was_killed_does_it_again(own_daemon):
    """What it had begun is gone with it: neither the key nor a sandbox stays behind."""
    api = Api(own_daemon.start())
    headers = {"Idempotency-Key": "again"}
    sock = v1_wire.begin(own_daemon, "POST", "/v1/run", {"command": ["sleep", "5"]}, headers)
    wait_for(api.ids, "the sandbox of a run")
    own_daemon.restart()
    sock.close()
    answer = api.ask("POST", "/v1/run", {"command": ["sleep", "5"]}, headers=headers)
    assert answer.status == 200 and answer.json["exit_code"] == 0 and "Idempotent-Replayed" not in answer.headers
    assert not api.ids() and not json.loads(own_daemon.brig("ps", "--json").stdout)["sandboxes"]


def test_what_failed_may_be_tried_again(api):
    key = {"Idempotency-Key": f"fail-{time.monotonic_ns()}"}
    body = {"command": ["true"], "cwd": "/none-such"}
    assert api.ask("POST", "/v1/run", body, headers=key).status == 422
    assert "Idempotent-Replayed" not in api.ask("POST", "/v1/run", body, headers=key).headers


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü"])
def test_keys_that_are_none(api, key):
    answer = api.ask("POST", "/v1/run", {"command": ["true"]}, headers={"Idempotency-Key": key.encode()})
    assert answer.status == 400


# --- sandboxes ---

def test_a_life(api):
    answer = api.ask("POST", "/v1/sandboxes", {"metadata": {"a": "ü"}, "env": {"X": "y"}, "timeout": 100})
    made = answer.json
    path = f"/v1/sandboxes/{made['id']}"
    assert answer.status == 201 and made["state"] == "running" and made["metadata"] == {"a": "ü"}
    assert api.exec(made["id"], "sh", "-c", "echo $X; echo kept > f")["stdout"] == "y\n"
    got = api.ask("GET", path).json
    assert got["usage"]["memory"] > 0 and got["id"] == made["id"]
    changed = api.ask("PATCH", path, {"timeout": 1000, "metadata": {}, "on_timeout": "pause"}).json
    assert changed["ends"] > made["ends"] and changed["metadata"] == {} and changed["on_timeout"] == "pause"
    assert api.ask("POST", f"{path}/pause").json["state"] == "paused"
    assert api.ask("POST", f"{path}/pause").status == 409
    assert api.ask("POST", f"{path}/exec", {"command": ["true"]}).status == 409
    assert api.ask("GET", f"{path}/files").status == 409
    assert api.ask("POST", f"{path}/resume", {"timeout": 50}).json["state"] == "running"
    assert api.ask("POST", f"{path}/resume").status == 409
    assert api.exec(made["id"], "cat", "f")["stdout"] == "kept\n"
    assert api.ask("DELETE", path).status == 204
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/events"), ("GET", "/report")):
        assert api.ask(method, path + rest).status == 404


def test_a_sandbox_ends_in_time(api):
    made = api.create(timeout=1)
    wait_for(lambda: api.ask("GET", f"/v1/sandboxes/{made}").status == 404, "the end of its time")


def test_pages(api):
    made = [api.create(metadata={"n": str(i)}) for i in range(5)]
    seen, after = [], ""
    while True:
        page = api.ask("GET", f"/v1/sandboxes?limit=2&usage=true{after}").json
        assert len(page["sandboxes"]) <= 2
        seen += page["sandboxes"]
        if not page["next"]:
            break
        after = f"&after={page['next']}"
    assert [s["id"] for s in seen if s["id"] in made] == made[::-1]
    assert all(s["usage"]["processes"] == 0 for s in seen if s["id"] in made)
    api.ask("POST", f"/v1/sandboxes/{made[0]}/pause")
    assert api.ask("GET", "/v1/sandboxes?state=paused").json["sandboxes"][0]["id"] == made[0]
    assert made[0] not in [s["id"] for s in api.ask("GET", "/v1/sandboxes?state=running").json["sandboxes"]]
    for sandbox in made:
        assert api.ask("DELETE", f"/v1/sandboxes/{sandbox}").status == 204


def test_another_tenants_sandbox_is_none(api, other, box):
    """Whatever is asked of it, the answer is that of an id that never was."""
    assert box not in other.ids()
    asked = [("GET", ""), ("PATCH", "", {"timeout": 5}), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"),
             ("POST", "/exec", {"command": ["true"]}), ("GET", "/terminal"), ("GET", "/processes"),
             ("POST", "/processes/1/signal"), ("GET", "/files"), ("PUT", "/files?path=x"), ("DELETE", "/files?path=x"),
             ("GET", "/report"), ("GET", "/events")]
    for method, rest, *body in asked:
        foreign = other.ask(method, f"/v1/sandboxes/{box}{rest}", *body)
        never = other.ask(method, f"/v1/sandboxes/aaaaaaaaaaaa{rest}", *body)
        assert foreign.status == never.status == 404, (method, rest)
        assert foreign.body.replace(box.encode(), b"") == never.body.replace(b"aaaaaaaaaaaa", b"")
    assert api.ask("GET", f"/v1/sandboxes/{box}").status == 200


def test_a_quota_is_told(api):
    key = api.ask("POST", "/v1/keys", {"tenant": "small", "max_sandboxes": 1}).json["key"]
    small = Api(api.daemon, key)
    made = small.create()
    for path, body in (("/v1/sandboxes", {}), ("/v1/run", {"command": ["true"]})):
        answer = small.ask("POST", path, body)
        assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 0 and "1" in answer.json["message"]
    small.ask("DELETE", f"/v1/sandboxes/{made}")
    assert small.run(command=["true"])["exit_code"] == 0


def test_a_policy_only_narrows(api):
    """The tenant's ceiling holds, whatever the client names."""
    key = api.ask("POST", "/v1/keys", {"tenant": "closed", "policy": "offline"}).json["key"]
    closed = Api(api.daemon, key)
    code = "import socket\ntry: socket.create_connection(('1.1.1.1', 80), 3); print('out')\nexcept OSError: print('no')"
    assert closed.run(code=code, policy="interpreter")["stdout"] == "no\n"


@pytest.mark.parametrize("net, verdict", [
    ({"allow": []}, "deny"),
    ({"allow": ["example.com:443"]}, "deny"),
    ({"allow": ["11.22.33.7:80"]}, "allow"),
    ({"allow": ["11.22.33.0/24:*"], "deny": ["11.22.33.7:80"]}, "deny"),
    ({"deny": ["11.22.33.8:*"]}, "allow"),
    ({}, "allow"),
])
def test_the_network_that_was_asked_for(api, net, verdict):
    """The record tells: whether there is an answer from there is another question."""
    box = api.create(net=net)
    api.exec(box, "python3", "-c", "import socket; s = socket.socket(); s.settimeout(1); s.connect_ex(('11.22.33.7', 80))",
             timeout=20)
    path = f"/v1/sandboxes/{box}/events?kind=net"
    events = wait_for(lambda: [e for e in api.ask("GET", path).json["events"] if e["action"] == "connect"],
                      "the attempt in the record")
    assert [(e["object"], e["verdict"]) for e in events] == [("11.22.33.7:80", verdict)]
    assert api.ask("GET", f"/v1/sandboxes/{box}/report").json["network"] == net
    api.ask("DELETE", f"/v1/sandboxes/{box}")


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "169.254.169.254"])
def test_a_client_opens_no_private_address(api, address):
    """Not even by its exact name, which is how somebody on this host would."""
    result = api.run(code=f"import socket; print(socket.socket().connect_ex(('{address}', 80)))", net={"allow": [f"{address}:80"]})
    assert result["stdout"] == "13\n" and address in result["denials"][0]["object"]


# --- commands ---

def test_exec_is_as_brig_exec_says(api, box):
    result = api.exec(box, "sh", "-c", "echo $A; cat; exit 5", env={"A": "b"}, stdin="in")
    assert (result["stdout"], result["exit_code"], result["reason"], result["process"]) == ("b\nin", 5, "exit", 1)
    schema = json.loads(api.daemon.brig("exec", "--schema").stdout)
    schema["properties"]["reason"] = {"type": "string"}
    jsonschema.Draft202012Validator(schema).validate(result)
    assert api.exec(box, "sleep", "100", timeout=0.5)["reason"] == "timeout"
    assert api.exec(box, "nope")["exit_code"] == 127


def test_exec_as_a_stream(api, box):
    events = v1_wire.events(api.daemon, "POST", f"/v1/sandboxes/{box}/exec", {"command": ["sh", "-c", "echo a; exit 3"]})
    assert [e[0] for e in events] == ["started", "stdout", "result"]
    assert events[-1][2]["exit_code"] == 3 and "stdout" not in events[-1][2]


def test_a_client_that_leaves_ends_its_command(api, box):
    sock = v1_wire.begin(api.daemon, "POST", f"/v1/sandboxes/{box}/exec", {"command": ["sleep", "4711"]})
    wait_for(lambda: "4711" in str(processes(api, box)), "the start of a command")
    sock.close()
    wait_for(lambda: "4711" not in str(processes(api, box)), "the end of a command whose client left")


def test_the_end_of_the_sandbox_ends_the_command(api):
    made = api.create()
    done = []
    thread = threading.Thread(target=lambda: done.append(
        api.ask("POST", f"/v1/sandboxes/{made}/exec", {"command": ["sleep", "1000"]})))
    thread.start()
    wait_for(lambda: "sleep" in str(processes(api, made)), "the start of a command")
    api.ask("DELETE", f"/v1/sandboxes/{made}")
    thread.join(harness.HANG)
    # It is seen on the host before the daemon is told that it has started.
    if done[0].status == 502:
        assert "has ended" in done[0].json["message"]
    else:
        assert done[0].json["reason"] == "killed" and done[0].json["exit_code"] == 137


def processes(api, box):
    return api.ask("GET", f"/v1/sandboxes/{box}/processes").json["processes"]


HIDES = """
import os, subprocess, threading, time
threading.Thread(target=lambda: subprocess.run(["sleep", "1003"])).start()
if os.getuid() == 0:
    os.setgroups(range(2000))
    subprocess.Popen(["sleep", "1004"])
time.sleep(1000)
"""


def test_no_process_hides(api):
    """Neither who was started by another thread, nor who has more groups than anybody reads."""
    made = api.create(policy="interpreter")
    command = ["sudo", "python3", "-c", HIDES]
    assert api.ask("POST", f"/v1/sandboxes/{made}/exec", {"command": command, "detach": True}).status == 202
    wanted = [["1003"], ["1004"]] if api.daemon.who.is_root else [["1003"]]
    wait_for(lambda: all(w in [p["command"][-1:] for p in processes(api, made)] for w in wanted), "all of its processes")
    assert HIDES in [p["command"][-1] for p in processes(api, made) if p["command"][:1] == ["python3"]]


def test_processes_as_a_tree(api, box):
    answer = api.ask("POST", f"/v1/sandboxes/{box}/exec",
                     {"command": ["sh", "-c", "sleep 1001 & sleep 1002; true"], "detach": True})
    assert answer.status == 202
    found = wait_for(lambda: str(p := processes(api, box)).count("sleep', '") == 2 and p, "both of its children")
    by_command = {p["command"][-1]: p for p in found}
    shell = next(p for p in found if p["command"][0] == "sh")
    assert shell["number"] == answer.json["process"] and shell["pid"] == answer.json["pid"] and shell["parent"] is None
    assert by_command["1001"]["parent"] == by_command["1002"]["parent"] == shell["pid"]
    assert by_command["1001"]["number"] is None and by_command["1001"]["memory"] > 0
    path = f"/v1/sandboxes/{box}/processes/{shell['number']}/signal"
    assert api.ask("POST", path, {"signal": "KILL"}).status == 204
    # What has ended and is not reaped yet has no arguments any more.
    wait_for(lambda: not any(p["command"][:1] == ["sh"] for p in processes(api, box)), "the end of the shell")
    wait_for(lambda: api.ask("POST", path).status == 404, "its end to be known")
    assert api.ask("POST", f"/v1/sandboxes/{box}/processes/x/signal").status == 404


# --- files ---

def test_files(api, box):
    path = f"/v1/sandboxes/{box}/files"
    data = bytes(range(256)) * 9000
    assert api.ask("PUT", f"{path}?path=d/e/blob", raw=data).status == 200
    got = api.ask("GET", f"{path}?path=d/e/blob")
    assert got.body == data and got.headers["Content-Type"] == "application/octet-stream"
    entries = api.ask("GET", f"{path}?depth=3").json["entries"]
    assert {(e["path"], e["kind"]) for e in entries} >= {("d", "directory"), ("d/e", "directory"), ("d/e/blob", "file")}
    assert next(e for e in entries if e["path"] == "d/e/blob")["size"] == len(data)
    assert api.exec(box, "sha256sum", "d/e/blob")["exit_code"] == 0
    assert api.ask("DELETE", f"{path}?path=d").status == 409
    assert api.ask("DELETE", f"{path}?path=d&recursive=true").status == 204
    assert api.ask("DELETE", f"{path}?path=d").status == 404
    assert api.ask("GET", f"{path}?path=/dev/null").status == 422
    assert api.ask("PUT", path, raw=b"x").status == 400


def test_a_folder_without_end_is_listed_up_to_a_bound(api, box):
    code = "import os\nos.mkdir('many')\nfor i in range(16000): open(f'many/{i:0200}', 'w').close()"
    assert api.exec(box, "python3", "-c", code)["exit_code"] == 0
    answer = api.ask("GET", f"/v1/sandboxes/{box}/files?path=many")
    assert answer.json["truncated"] and 3 << 20 < len(answer.body) < 5 << 20
    assert not api.ask("GET", f"/v1/sandboxes/{box}/files").json["truncated"]


def test_a_link_leads_nowhere_out(api, box):
    """A path means what it means inside."""
    api.exec(box, "ln", "-s", "/etc/hostname", "link")
    inside = api.exec(box, "cat", "/etc/hostname")["stdout"].encode()
    path = f"/v1/sandboxes/{box}/files"
    assert api.ask("GET", f"{path}?path=link").body == inside
    assert api.ask("GET", f"{path}?path=../../../../etc/hostname").body == inside
    entries = api.ask("GET", path).json["entries"]
    assert next(e for e in entries if e["path"] == "link")["target"] == "/etc/hostname"


# --- the record ---

def test_events_in_pages(api, box):
    for i in range(3):
        api.exec(box, "sh", "-c", f"cat /none/{i}; true")
    path = f"/v1/sandboxes/{box}/events"
    wait_for(lambda: len(api.ask("GET", f"{path}?kind=exec&limit=1000").json["events"]) >= 6, "events on disk")
    every = api.ask("GET", f"{path}?limit=1000").json
    assert every["next"] is None and [e["seq"] for e in every["events"]] == list(range(1, len(every["events"]) + 1))
    seen, after = [], 0
    while after is not None:
        page = api.ask("GET", f"{path}?limit=7&after={after}").json
        assert len(page["events"]) <= 7
        seen += page["events"]
        after = page["next"]
    assert seen[:len(every["events"])] == every["events"]
    some = api.ask("GET", f"{path}?kind=exec&verdict=allow").json["events"]
    assert some and all(e["kind"] == "exec" and e["verdict"] == "allow" for e in some)


def test_events_as_they_happen(api):
    box = api.create()
    path = f"/v1/sandboxes/{box}/events?kind=exec"
    with v1_wire.Stream(api.daemon, "GET", path) as stream:
        api.exec(box, "/usr/bin/true")
        for name, number, event in stream:
            assert name == "message" and number == str(event["seq"]) and event["kind"] == "exec"
            if event["object"] == "/usr/bin/true":
                break
    # Taken up again behind the last one seen, until the end of the sandbox.
    api.exec(box, "/usr/bin/uname")
    with v1_wire.Stream(api.daemon, "GET", path, headers={"Last-Event-ID": number}) as stream:
        name, _, event = next(stream)
        assert event["seq"] > int(number)
        api.ask("DELETE", f"/v1/sandboxes/{box}")
        rest = list(stream)
    assert rest[-1][0] == "end"


def test_only_the_head_of_a_stream(api, box):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", api.daemon.port, timeout=harness.HANG)) as connection:
        headers = {"X-API-Key": api.daemon.key, "Accept": "text/event-stream"}
        connection.request("HEAD", f"/v1/sandboxes/{box}/events", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.read() == b""
        # Its answer has ended: the next one comes on the same connection.
        connection.request("GET", "/v1/health")
        assert connection.getresponse().status == 200


def test_the_last_event_is_the_end_of_the_record(api):
    box = api.create()
    with v1_wire.Stream(api.daemon, "GET", f"/v1/sandboxes/{box}/events?kind=sandbox") as stream:
        assert next(stream)[2]["action"] == "start"
        api.ask("DELETE", f"/v1/sandboxes/{box}")
        rest = list(stream)
    assert [e[0] for e in rest] == ["message", "end"] and rest[0][2]["action"] == "end" and rest[0][2]["reason"] == "killed"


def test_followers_are_bounded(api, box):
    path, headers = f"/v1/sandboxes/{box}/events", {"Accept": "text/event-stream"}
    socks = [v1_wire.begin(api.daemon, "GET", path, headers=headers) for _ in range(512)]
    assert all(b" 200 " in sock.recv(4096) for sock in socks)
    assert api.ask("GET", path).status == 503
    for sock in socks:
        sock.close()
    wait_for(lambda: api.ask("GET", path).status == 200, "room for others")


def test_the_report(api, box):
    report = api.ask("GET", f"/v1/sandboxes/{box}/report").json
    assert report["id"] == box and report["isolation"] == "container"
    assert {"files", "network", "syscalls"} <= {wall["name"] for wall in report["enforcement"]}
    assert str(api.daemon.state) not in json.dumps(report)


# --- the terminal ---

def test_a_terminal(api, box):
    with v1_wire.WebSocket(api.daemon, f"/v1/sandboxes/{box}/terminal?rows=30&columns=90",
                           protocols=["brig.terminal", f"brig.key.{api.daemon.key}"]) as ws:
        assert ws.headers["sec-websocket-protocol"] == "brig.terminal"
        ws.send(2, b"stty size; tty\n")
        ws.read_until(b"30 90")
        ws.send(1, b'{"resize":{"rows":40,"columns":100}}')
        ws.send(9, b"are you there")
        ws.send(2, b"until stty size | grep -q '^40 1'; do sleep 0.05; done; stty size; exit 7\n")
        ws.read_until(b"40 100")
        assert (10, b"are you there") in ws.others
        assert json.loads(ws.read_kind(1)) == {"exited": {"exit_code": 7, "signal": None}}
        assert ws.read_kind(8)[:2] == (1000).to_bytes(2, "big")
        assert ws.at_end()


def test_a_terminal_is_fed_what_was_typed_together(api, box):
    with v1_wire.WebSocket(api.daemon, f"/v1/sandboxes/{box}/terminal?shell=sh", key=api.daemon.key) as ws:
        ws.send(2, b"cat > typed\n")
        time.sleep(0.5)
        for i in range(200):
            ws.send(2, b"line %d\n" % i)
        ws.send(2, b"\x04")
        ws.send(2, b"wc -l < typed; echo do''ne\n")
        assert b"200" in ws.read_until(b"done")


def test_the_shell_goes_with_its_client(api, box):
    ws = v1_wire.WebSocket(api.daemon, f"/v1/sandboxes/{box}/terminal", key=api.daemon.key)
    ws.send(2, b"sleep 4712\n")
    wait_for(lambda: "4712" in str(processes(api, box)), "the start of a command")
    ws.close()
    wait_for(lambda: "bash" not in str(processes(api, box)), "the end of the shell")


@pytest.mark.parametrize("frame, code", [
    (b"\x82\x01x", 1002),                       # without a mask
    (b"\x83\x80\0\0\0\0", 1002),                # a kind that is none
    (b"\x81\x81\0\0\0\0\xff", 1007),            # no UTF-8
    (b"\x81\x82\0\0\0\0{}", 1008),              # no such order
    (b"\x82\xff\0\0\0\0\x7f\xff\xff\xff\0\0\0\0", 1009),
])
def test_a_terminal_is_strict(api, box, frame, code):
    with v1_wire.WebSocket(api.daemon, f"/v1/sandboxes/{box}/terminal", key=api.daemon.key) as ws:
        ws.sock.sendall(frame)
        assert ws.read_kind(8)[:2] == code.to_bytes(2, "big")


def test_what_is_no_websocket(api, box):
    answer = api.ask("GET", f"/v1/sandboxes/{box}/terminal")
    assert answer.status == 426 and answer.headers["Sec-WebSocket-Version"] == "13"


# --- policies, keys, host ---

def test_policies(api):
    answer = api.ask("GET", "/v1/policies").json
    assert {"base", "offline", "interpreter"} <= set(answer["policies"]) and answer["default"] == "interpreter"
    for name in answer["policies"]:
        policy = api.ask("GET", f"/v1/policies/{name}").json
        assert policy["name"] == name and policy["rules"]["fs"]
    for name in ("none", "..", "%2e%2e%2fx", "base.yaml"):
        assert api.ask("GET", f"/v1/policies/{name}").status == 404


def test_keys(api):
    answer = api.ask("POST", "/v1/keys", {"tenant": "acme", "max_sandboxes": 3})
    key = answer.json
    assert answer.status == 201 and re.fullmatch("e2b_[0-9a-f]{40}", key["key"]) and key["key"].startswith(key["shown"])
    mine = Api(api.daemon, key["key"])
    assert mine.ask("GET", "/v1/sandboxes").status == 200
    # An ordinary key makes and lists none.
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", f"/v1/keys/{key['id']}"), ("GET", "/metrics")):
        assert mine.ask(method, path).status == 403
    listed = api.ask("GET", "/v1/keys")
    assert key["id"] in [k["id"] for k in listed.json["keys"]] and key["key"] not in listed.body.decode()
    assert api.ask("DELETE", f"/v1/keys/{key['id'][:6]}").status == 404
    assert api.ask("DELETE", f"/v1/keys/{key['id']}").json["revoked"]
    assert mine.ask("GET", "/v1/sandboxes").status == 401
    assert api.ask("DELETE", "/v1/keys/zzzzzzzzzzzz").status == 404
    assert api.ask("POST", "/v1/keys", {"tenant": "acme", "policy": "none-such"}).status == 422


def test_who_asks(api):
    assert api.ask("GET", "/v1/sandboxes", key=False).status == 401
    assert api.ask("GET", "/v1/sandboxes", key="e2b_" + "0" * 40).status == 401
    assert api.ask("GET", "/v1/sandboxes", key=False,
                   headers={"Authorization": f"Bearer {api.daemon.key}"}).status == 200
    for path in ("/v1/health", "/v1/ready", "/v1/openapi.json"):
        assert api.ask("GET", path, key=False).status == 200


def test_the_host(api):
    first = api.ask("GET", "/v1/host").json
    assert {t["tier"] for t in first["tiers"]} >= {"container", "process"} and first["kernel"]
    assert first["root"] == (api.daemon.who.name == "root")
    # Many who ask at once are told by one look.
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(api.ask("GET", "/v1/host").json)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(a["kernel"] == first["kernel"] for a in answers)


# --- what is wrong ---

@pytest.mark.parametrize("body, word", [
    ({}, "command"),
    ({"command": ["a"], "code": "b"}, "exactly one"),
    ({"command": []}, "command"),
    ({"command": "ls"}, "a list"),
    ({"command": ["a", 1]}, "command[1]"),
    ({"command": ["a"], "comand": 1}, '"command"'),
    ({"command": ["a"], "timeout": 0}, "timeout"),
    ({"command": ["a"], "timeout": "5"}, "a number"),
    ({"command": ["a"], "limits": {"memory": 5}}, "limits.memory"),
    ({"command": ["a"], "limits": {"memory": "5X"}}, "limits.memory"),
    ({"command": ["a"], "env": {"A": 1}}, "env.A"),
    ({"command": ["a"], "env": {"": "x"}}, "env"),
    ({"command": ["a"], "env": {"A=B": "x"}}, "env"),
    ({"command": ["a"], "policy": "../x"}, "policy"),
    ({"command": ["a"], "net": {"allow": ["a b"]}}, "net.allow[0]"),
    ({"command": ["a"], "files": [{"text": "x"}]}, "files[0].path"),
    ({"code": "x", "language": "cobol"}, "language"),
])
def test_bodies_that_are_refused_in_words(api, body, word):
    answer = api.ask("POST", "/v1/run", body)
    assert answer.status == 400 and word in answer.json["message"], answer


@pytest.mark.parametrize("body", [
    {"command": ["a"], "files": [{"path": "x"}]},
    {"command": ["a"], "files": [{"path": "x", "base64": "!"}]},
    {"command": ["a"], "stdin_base64": "A"},
    {"command": ["a"], "stdin": "a", "stdin_base64": "QQ=="},
    {"command": [""]},
    {"command": ["a"], "language": "python"},
    {"command": ["a"], "template": "none-such"},
    {"command": ["a"], "user": "none-such"},
    {"command": ["a"], "net": {"allow": ["a:99999"]}},
])
def test_bodies_that_cannot_be_done(api, body):
    answer = api.ask("POST", "/v1/run", body)
    assert answer.status == 422 and answer.json["message"], answer


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"1", b'{"command":["a"],"command":["b"]}', b'{"a":' * 200,
                                 b'{"command":["a\\u0000b"]}', b'{"command":["\xff"]}', b'{"timeout":1e999}'])
def test_bodies_that_are_no_json(api, raw):
    assert api.ask("POST", "/v1/run", raw=raw).status == 400


def test_a_body_that_is_too_long(api):
    assert api.ask("POST", "/v1/run", {"command": ["a" * (2 << 20)]}).status == 413


def test_other_methods(api):
    answer = api.daemon.ask("PUT", "/v1/run")
    assert answer.status == 405 and answer.headers["Allow"] == "POST"
    assert api.daemon.ask("GET", "/v1/none").status == 404


@pytest.mark.parametrize("query", ["?limit=0", "?limit=x", "?limit=5&limit=6", "?limt=5", "?after=x", "?state=dead"])
def test_queries_that_are_refused(api, query):
    assert api.ask("GET", f"/v1/sandboxes{query}").status == 400


# --- counters ---

UNITS = {"ms": "seconds", "milliseconds": "seconds", "us": "seconds", "minutes": "seconds", "hours": "seconds",
         "kb": "bytes", "kib": "bytes", "mb": "bytes", "mib": "bytes", "gb": "bytes", "bits": "bytes", "percent": "ratio"}


def lint(text):
    """What "promtool check metrics" finds: the rules of the field's linter."""
    problems, kinds, helps, seen, samples = [], {}, {}, set(), {}
    for line in text.splitlines():
        if match := re.fullmatch(r"# (HELP|TYPE) (\S+) (.+)", line):
            (helps if match[1] == "HELP" else kinds)[match[2]] = match[3]
            continue
        match = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)', line)
        assert match, f"no line of the format: {line!r}"
        assert (match[1], match[2]) not in seen, f"twice: {line!r}"
        seen.add((match[1], match[2]))
        float(match[3])
        family = match[1]
        for suffix in ("_bucket", "_sum", "_count"):
            if family.endswith(suffix) and kinds.get(family[:-len(suffix)]) == "histogram":
                family = family[:-len(suffix)]
        samples.setdefault(family, []).append((match[1], match[2] or "", float(match[3])))
    for name, lines in samples.items():
        kind = kinds.get(name)
        if not kind or not helps.get(name):
            problems.append(f"{name}: no TYPE or no HELP")
        if (kind == "counter") != name.endswith("_total"):
            problems.append(f"{name}: counters end in _total, and nothing else does")
        if kind != "histogram" and re.search(r"_(bucket|count|sum)$", name):
            problems.append(f"{name}: a suffix of histograms")
        if kind != "histogram" and any('le="' in labels for _, labels, _ in lines):
            problems.append(f"{name}: a label of histograms")
        if re.search(r"[A-Z:]", name) or any(part in UNITS for part in name.split("_")):
            problems.append(f"{name}: not in base units, or not in the usual letters")
        if re.search(r"(gauge|counter|histogram|summary)", name):
            problems.append(f"{name}: names its type")
        if kind == "histogram":
            buckets = [value for sample, labels, value in lines if sample.endswith("_bucket")]
            count = next(value for sample, _, value in lines if sample.endswith("_count"))
            if buckets != sorted(buckets) or buckets[-1] != count or 'le="+Inf"' not in str(lines):
                problems.append(f"{name}: buckets that do not add up")
    return problems, samples


def test_metrics(api):
    api.run(command=["true"])
    api.ask("GET", "/v1/sandboxes/none")
    for path in ("/a", "/b", "/v1/zz"):
        api.daemon.ask("GET", path)
    answer = api.ask("GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    problems, samples = lint(answer.body.decode())
    assert not problems
    assert any('route="/v1/run",code="200"' in labels for _, labels, _ in samples["brig_http_requests_total"])
    assert not any("/zz" in labels for _, labels, _ in samples["brig_http_requests_total"])
    assert {labels for _, labels, _ in samples["brig_sandboxes"]} == {'{state="running"}', '{state="paused"}'}
    assert samples["process_resident_memory_bytes"][0][2] > 1 << 20
    made = next(v for n, _, v in samples["brig_sandbox_create_duration_seconds"] if n.endswith("_count"))
    api.run(command=["true"])
    _, later = lint(api.ask("GET", "/metrics").body.decode())
    assert next(v for n, _, v in later["brig_sandbox_create_duration_seconds"] if n.endswith("_count")) == made + 1


def test_the_linter_finds_what_is_wrong():
    """Each rule of it, knocked once."""
    good = '# HELP a_total x\n# TYPE a_total counter\na_total{b="c"} 1\n'
    assert not lint(good)[0]
    for bad in (good.replace("_total", ""), good.replace("counter", "gauge"), good.replace("# HELP a_total x\n", ""),
                good.replace("a_total", "a_ms_total"), good.replace("a_total", "aB_total"), good.replace('b="c"', 'le="c"')):
        assert lint(bad)[0], bad
    with pytest.raises(AssertionError):
        lint(good + 'a_total{b="c"} 2\n')


# --- the daemon stops ---

def test_not_ready_while_it_stops(own_daemon):
    daemon = own_daemon.start()
    sock = v1_wire.begin(daemon, "POST", "/v1/run", {"command": ["sleep", "5"]})
    kept = socket.create_connection(("127.0.0.1", daemon.port), harness.HANG)
    head = b"GET /v1/ready HTTP/1.1\r\nHost: x.localhost\r\n"
    kept.sendall(head + b"\r\n")
    assert b" 200 " in kept.recv(4096)
    wait_for(lambda: daemon.ask("GET", "/v1/sandboxes").json["sandboxes"], "the run")
    daemon.process.terminate()
    wait_for(lambda: "stopping" in daemon.log(), "the beginning of the end")
    assert b'"stdout":""' in v1_wire.rest(sock)
    assert daemon.process.wait(harness.HANG) == 0
    kept.close()
