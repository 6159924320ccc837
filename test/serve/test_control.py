"""The control plane as the field's clients know it: raw requests, and what must hold when something goes wrong.

What the unmodified clients make of it is in test_control_clients.py.
"""

import base64
import concurrent.futures
import contextlib
import datetime
import hashlib
import http.client
import json
import socket
import sqlite3
import subprocess
import time
import urllib.parse

import harness
import pytest
from conftest import wait_for

LISTED = {"templateID", "sandboxID", "clientID", "startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "state",
          "envdVersion"}
METRIC = {"timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed", "diskTotal"}


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def left(daemon, sandbox):
    """Seconds until its end, by what the daemon says."""
    info = daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}").json
    return when(info["endAt"]) - time.time()


def refused(answer, status, *words):
    """In the one form that all clients read, and final."""
    assert answer.status == status, answer
    assert set(answer.json) == {"code", "message"}, answer
    assert answer.json["code"] == status and answer.json["message"], answer
    for word in words:
        assert word in answer.json["message"], answer
    if status in (429, 503):
        assert int(answer.headers["Retry-After"]) >= 1
    else:
        assert answer.headers["Should-Retry"] == "false", answer
    return answer


def ids(answer):
    assert answer.status == 200, answer
    return [item["sandboxID"] for item in answer.json]


def inside(daemon, sandbox, *words):
    """A command in it, by brig's own way."""
    done = daemon.brig("exec", sandbox["sandboxID"], "--", *words)
    assert done.returncode == 0, done
    return done.stdout.decode()


def live(daemon):
    """All sandboxes of this daemon's user, whoever knows of them."""
    return {row["sandbox"] for row in json.loads(daemon.brig("ps", "--json").stdout)["sandboxes"]}


def images(daemon):
    return {row["name"] for row in json.loads(daemon.brig("image", "ls", "--json").stdout)["images"]}


def tenant_key(daemon, tenant, *options):
    done = daemon.brig("key", "create", "--tenant", tenant, "--json", *options)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["key"]


@pytest.fixture
def made(daemon):
    """Makes sandboxes that are ended with the test."""
    sandboxes = []

    def make(key=True, path="/v2/sandboxes", **body):
        answer = daemon.ask("POST", path, {"templateID": "base", "timeout": 300, **body}, key=key)
        assert answer.status == 201, answer
        sandboxes.append((answer.json["sandboxID"], key))
        return answer.json

    yield make
    for sandbox, key in sandboxes:
        daemon.ask("DELETE", f"/sandboxes/{sandbox}", key=key)


# --- create ---

@pytest.mark.parametrize("path, seconds", [("/sandboxes", 15), ("/v2/sandboxes", 300)])
def test_create(daemon, path, seconds):
    answer = daemon.ask("POST", path, {"templateID": "base", "whatever": {"comes": "next"}})
    assert answer.status == 201, answer
    sandbox = answer.json
    assert sandbox["templateID"] == sandbox["alias"] == "base" and sandbox["envdVersion"] == "0.6.13"
    assert sandbox["sandboxID"].isalnum() and sandbox["sandboxID"].islower() and sandbox["clientID"]
    assert len(sandbox["envdAccessToken"]) == 64 and sandbox["trafficAccessToken"] is None
    assert sandbox["domain"] == f"localhost:{daemon.port}"
    info = daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}").json
    assert LISTED <= set(info) and info["state"] == "running"
    assert when(info["endAt"]) - when(info["startedAt"]) == seconds
    assert info["envdAccessToken"] == sandbox["envdAccessToken"]
    assert info["lifecycle"] == {"autoResume": False, "onTimeout": "kill"} and info["allowInternetAccess"] is None
    assert inside(daemon, sandbox, "echo", "hi") == "hi\n"
    assert daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}").status == 204


def test_create_keeps_what_was_said(daemon, made):
    sandbox = made(metadata={"a": "1", "ü ": "x&y=z"}, envVars={"A": "b"}, autoPause=True, autoResume={"enabled": True},
                   network={"allowPublicTraffic": False}, timeout=77)
    assert len(sandbox["trafficAccessToken"]) == 64
    info = daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}").json
    assert info["metadata"] == {"a": "1", "ü ": "x&y=z"} and info["network"] == {"allowPublicTraffic": False}
    assert info["lifecycle"] == {"autoResume": True, "onTimeout": "pause"}
    assert when(info["endAt"]) - when(info["startedAt"]) == 77


def test_create_of_old_without_a_token(daemon, made):
    assert "envdAccessToken" in made(path="/sandboxes", secure=True)
    assert "envdAccessToken" not in made(path="/sandboxes", secure=False)


@pytest.mark.parametrize("body, status, word", [
    ({}, 400, "templateID"),
    ({"templateID": 7}, 400, "templateID"),
    ({"templateID": "nobody-has-this"}, 404, "nobody-has-this"),
    ({"templateID": "base", "timeout": "10"}, 400, "timeout"),
    ({"templateID": "base", "timeout": 1.5}, 400, "timeout"),
    ({"templateID": "base", "timeout": -1}, 400, "timeout"),
    ({"templateID": "base", "timeout": 10**9}, 400, "timeout"),
    ({"templateID": "base", "timeout": 10**30}, 400, "timeout"),
    ({"templateID": "base", "metadata": ["a"]}, 400, "metadata"),
    ({"templateID": "base", "metadata": {"a": 1}}, 400, "metadata"),
    ({"templateID": "base", "metadata": {"a" * 257: "1"}}, 400, "metadata"),
    ({"templateID": "base", "metadata": {"a": "x" * 20000}}, 400, "metadata"),
    ({"templateID": "base", "envVars": {"a": "x" * 70000}}, 400, "envVars"),
    ({"templateID": "base", "envVars": {"a=b": "1"}}, 400, "envVars"),
    ({"templateID": "base", "envVars": {"": "1"}}, 400, "envVars"),
    ({"templateID": "base", "autoPause": "yes"}, 400, "autoPause"),
    ({"templateID": "base", "autoPause": True, "autoPauseMemory": False}, 400, "autoPauseMemory"),
    ({"templateID": "base", "autoResume": True}, 400, "autoResume"),
    ({"templateID": "base", "volumeMounts": [{"name": "v", "path": "/v"}]}, 400, "volumeMounts"),
    ({"templateID": "base", "iam": {"tokens": {"x": {"audience": "y"}}}}, 400, "iam"),
    ({"templateID": "base", "network": []}, 400, "network"),
    ({"templateID": "base", "network": {"allowPublicTraffic": 1}}, 400, "allowPublicTraffic"),
    ({"templateID": "base", "network": {"allowOut": ["example.com"]}}, 400, "0.0.0.0/0"),
    ({"templateID": "base", "network": {"allowOut": ["10.0.0.1"]}}, 400, "private"),
    ({"templateID": "base", "network": {"allowOut": ["127.0.0.1"]}}, 400, "loopback"),
    ({"templateID": "base", "network": {"denyOut": ["example.com"]}}, 400, "denyOut"),
    ({"templateID": "base", "network": {"rules": {"example.com": [{"transform": {"headers": {"a": "b"}}}]}}}, 400, "rules"),
    ({"templateID": "base", "network": {"egressProxy": {"address": "127.0.0.1:1080"}}}, 400, "egressProxy"),
])
def test_create_refused(daemon, body, status, word):
    before = live(daemon)
    for path in ("/sandboxes", "/v2/sandboxes"):
        refused(daemon.ask("POST", path, body), status, word)
    assert live(daemon) == before


def test_create_takes_nulls_and_chunks(daemon):
    """As the clients send them: Python null for what was not said, JavaScript a body without a length."""
    body = json.dumps({"templateID": "base", "timeout": None, "metadata": None, "envVars": None, "network": None,
                       "autoResume": None, "volumeMounts": [], "iam": None, "mcp": None}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
    connection.request("POST", "/v2/sandboxes", iter([body[:7], body[7:]]), {"X-API-Key": daemon.key},
                       encode_chunked=True)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == 201, answer
    assert daemon.ask("DELETE", f"/sandboxes/{answer['sandboxID']}").status == 204


def test_domain_is_where_the_client_came_by(daemon):
    for host, domain in (("localhost:7070", "localhost:7070"), ("127.0.0.1", "localhost"), ("[::1]:99", "localhost:99"),
                         ("192.0.2.7:80", "192.0.2.7:80")):
        answer = daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, {"Host": host})
        assert answer.json["domain"] == domain
        daemon.ask("DELETE", f"/sandboxes/{answer.json['sandboxID']}")


def test_a_client_that_leaves_leaves_nothing(daemon):
    before = live(daemon)
    body = b'{"templateID":"base","timeout":600}'
    head = (f"POST /v2/sandboxes HTTP/1.1\r\nHost: x.localhost\r\nX-API-Key: {daemon.key}\r\nContent-Length: {len(body)}"
            "\r\n\r\n").encode()
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", daemon.port)) as sock:
            sock.sendall(head + body)
    # One that stays is made behind them, so theirs have been begun.
    sandbox = daemon.make()
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
    wait_for(lambda: live(daemon) == before, "the end of what nobody knows")
    assert set(ids(daemon.ask("GET", "/v2/sandboxes"))) <= before


# --- the same request again ---

def test_idempotency(daemon):
    def create(key, **body):
        return daemon.ask("POST", "/v2/sandboxes", {"templateID": "base", **body}, {"Idempotency-Key": key})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: create("same-key-1"), range(8)))
    first = next(a for a in answers if a.status == 201)
    for answer in answers:
        if answer.status != 201:
            refused(answer, 503)
    again = create("same-key-1")
    assert again.status == 201 and again.json == first.json
    assert {a.json["sandboxID"] for a in answers if a.status == 201} == {first.json["sandboxID"]}
    refused(create("same-key-1", timeout=5), 422)
    refused(daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, {"Idempotency-Key": "a b"}), 400)
    # A refusal is nothing to be kept.
    refused(create("same-key-2", timeout="x"), 400)
    second = create("same-key-2")
    assert second.status == 201 and second.json["sandboxID"] != first.json["sandboxID"]
    for answer in (first, second):
        assert daemon.ask("DELETE", f"/sandboxes/{answer.json['sandboxID']}").status == 204


def test_idempotency_when_the_client_leaves(daemon):
    body = b'{"templateID":"base","timeout":600}'
    head = (f"POST /v2/sandboxes HTTP/1.1\r\nHost: x.localhost\r\nX-API-Key: {daemon.key}\r\nIdempotency-Key: left-alone"
            f"\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    before = live(daemon)
    with socket.create_connection(("127.0.0.1", daemon.port)) as sock:
        sock.sendall(head + body)

    def again():
        answer = daemon.ask("POST", "/v2/sandboxes", raw=body, headers={"Idempotency-Key": "left-alone"})
        return answer if answer.status != 503 else None

    sandbox = wait_for(again, "an answer").json
    assert live(daemon) - before == {sandbox["sandboxID"]}
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")


@pytest.mark.parametrize("point, stays", [("serve:create:intent", False), ("serve:create:made", False),
                                          ("serve:create:stored", True)])
def test_killed_while_it_makes(own_daemon, point, stays):
    """kill -9 at a point of the making: what is in the store is found again, by the same key as the same sandbox; what is
    not is ended."""
    own_daemon.start(env={"BRIG_TEST_DIE": point})
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        own_daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, {"Idempotency-Key": "k"})
    own_daemon.process.wait(harness.HANG)
    own_daemon.restart()
    if stays:
        held = ids(own_daemon.ask("GET", "/v2/sandboxes"))
        assert len(held) == 1 and live(own_daemon) == set(held)
    else:
        wait_for(lambda: not live(own_daemon), "the end of what nobody knows")
    answer = own_daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, {"Idempotency-Key": "k"})
    assert answer.status == 201, answer
    assert ids(own_daemon.ask("GET", "/v2/sandboxes")) == [answer.json["sandboxID"]]
    if stays:
        assert held == [answer.json["sandboxID"]]


def test_all_is_there_after_kill9(own_daemon):
    own_daemon.start()
    sandbox = own_daemon.make(metadata={"a": "b"}, envVars={"C": "d"}, autoPause=True, timeout=1000)
    paused = own_daemon.make()
    assert own_daemon.ask("POST", f"/sandboxes/{paused['sandboxID']}/pause", {}).status == 204
    before = [own_daemon.ask("GET", f"/sandboxes/{s['sandboxID']}").json for s in (sandbox, paused)]
    own_daemon.restart()
    assert [own_daemon.ask("GET", f"/sandboxes/{s['sandboxID']}").json for s in (sandbox, paused)] == before
    assert own_daemon.ask("POST", f"/v2/sandboxes/{paused['sandboxID']}/connect", {}).status == 201
    assert inside(own_daemon, paused, "echo", "hi") == "hi\n"


# --- one sandbox ---

def test_unknown_ids(daemon):
    sandbox = daemon.make()
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
    for name in (sandbox["sandboxID"], "x" * 12, "x" * 200, "UPPER", "a%00b", "%2e%2e", "%2F", "ü", "-", "a.b"):
        path = f"/sandboxes/{urllib.parse.quote(name, safe='%')}"
        for method, rest, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/pause", {}),
                                   ("POST", "/timeout", {"timeout": 5}), ("GET", "/metrics", None)):
            answer = daemon.ask(method, path + rest, body)
            assert answer.status == (400 if "%00" in name else 404), (name, answer)
            assert set(answer.json) == {"code", "message"}


def test_ids_of_old_clients(daemon, made):
    sandbox = made()
    assert daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}-{sandbox['clientID']}").status == 200


def test_connect(daemon, made):
    sandbox = made(timeout=100)
    v1, v2 = f"/sandboxes/{sandbox['sandboxID']}/connect", f"/v2/sandboxes/{sandbox['sandboxID']}/connect"
    answer = daemon.ask("POST", v1, {"timeout": 10})
    assert answer.status == 200 and answer.json == sandbox
    assert 90 < left(daemon, sandbox) <= 100  # never shorter
    assert daemon.ask("POST", v2, {"timeout": 200}).status == 200
    assert 190 < left(daemon, sandbox) <= 200
    assert daemon.ask("POST", v2).status == 200  # no body at all
    assert 290 < left(daemon, sandbox) <= 300
    refused(daemon.ask("POST", v1, {}), 400, "timeout")
    refused(daemon.ask("POST", v2, {"timeout": True}), 400, "timeout")
    refused(daemon.ask("POST", v2, {"memory": False}), 400, "memory")


def test_pause_and_resume(daemon, made):
    sandbox = made(timeout=100)
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert daemon.ask("POST", path + "/pause", {}).status == 204
    refused(daemon.ask("POST", path + "/pause", {}), 409, "paused")
    info = daemon.ask("GET", path).json
    assert info["state"] == "paused" and info["pauseMode"] == "full"
    assert daemon.brig("exec", sandbox["sandboxID"], "--", "true").returncode == 125
    assert daemon.inside(sandbox, "GET", "/health").status == 502
    refused(daemon.ask("POST", path + "/timeout", {"timeout": 5}), 409, "paused")
    refused(daemon.ask("POST", path + "/refreshes", {}), 409, "paused")
    answer = daemon.ask("POST", f"/v2{path}/connect", {"timeout": 50})
    assert answer.status == 201 and answer.json == sandbox
    assert 40 < left(daemon, sandbox) <= 50
    assert inside(daemon, sandbox, "echo", "on") == "on\n"
    refused(daemon.ask("POST", path + "/resume", {"timeout": 20}), 409, "running")
    assert daemon.ask("POST", path + "/pause").status == 204
    answer = daemon.ask("POST", path + "/resume", {"timeout": 60, "autoPause": True})
    assert answer.status == 201 and answer.json == sandbox
    assert daemon.ask("GET", path).json["lifecycle"]["onTimeout"] == "pause"
    refused(daemon.ask("POST", path + "/pause", {"memory": False}), 400, "memory")
    assert daemon.ask("POST", path + "/pause", {"memory": True}).status == 204
    assert daemon.ask("DELETE", path).status == 204  # a paused one
    refused(daemon.ask("DELETE", path), 404)
    assert sandbox["sandboxID"] not in live(daemon)


def test_timeout(daemon, made):
    sandbox = made(timeout=100)
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert daemon.ask("POST", path + "/timeout", {"timeout": 50}).status == 204
    assert 40 < left(daemon, sandbox) <= 50
    for body in ({}, {"timeout": "5"}, {"timeout": -1}, {"timeout": None}):
        refused(daemon.ask("POST", path + "/timeout", body), 400, "timeout")
    assert daemon.ask("POST", path + "/refreshes", {"duration": 10}).status == 204
    assert 40 < left(daemon, sandbox) <= 50
    assert daemon.ask("POST", path + "/refreshes", {"duration": 120}).status == 204
    assert 110 < left(daemon, sandbox) <= 120
    refused(daemon.ask("POST", path + "/refreshes", {"duration": 3601}), 400, "duration")
    assert daemon.ask("POST", path + "/timeout", {"timeout": 0}).status == 204
    wait_for(lambda: daemon.ask("GET", path).status == 404, "the end")
    assert daemon.inside(sandbox, "GET", "/health").status == 502
    wait_for(lambda: sandbox["sandboxID"] not in live(daemon), "the end of its warden")


def test_time_is_over(daemon, made):
    killed, paused = made(timeout=1), made(timeout=1, autoPause=True)
    wait_for(lambda: daemon.ask("GET", f"/sandboxes/{killed['sandboxID']}").status == 404, "the end of its time")
    wait_for(lambda: daemon.ask("GET", f"/sandboxes/{paused['sandboxID']}").json["state"] == "paused", "its pause")
    assert daemon.inside(paused, "GET", "/health").status == 502
    assert daemon.ask("GET", f"/sandboxes/{paused['sandboxID']}").json["state"] == "paused"


def test_traffic_resumes(daemon, made):
    sandbox = made(autoPause=True, autoResume={"enabled": True})
    assert daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/pause", {}).status == 204
    daemon.inside(sandbox, "GET", "/health")
    assert daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}").json["state"] == "running"


def signed(sandbox, path, expiration):
    digest = hashlib.sha256(f"{path}:read::{sandbox['envdAccessToken']}:{expiration}".encode()).digest()
    return "/files?" + urllib.parse.urlencode({"path": path, "signature_expiration": expiration,
                                               "signature": "v1_" + base64.b64encode(digest).decode().rstrip("=")})


def test_a_stranger_wakes_nobody(daemon, made):
    sandbox = made(autoPause=True, autoResume={"enabled": True}, network={"allowPublicTraffic": False})
    path = f"/sandboxes/{sandbox['sandboxID']}"

    def state():
        return daemon.ask("GET", path).json["state"]

    def strangers():
        wrong, address = {"X-Access-Token": "0" * 64}, {"E2b-Sandbox-Id": sandbox["sandboxID"]}
        for headers in (address, {**address, **wrong}):
            for method, where, body in (("GET", "/health", None), ("GET", "/envs", None), ("GET", "/metrics", None),
                                        ("GET", "/files?path=/etc/hostname", None), ("POST", "/files?path=/tmp/a", b"a"),
                                        ("POST", "/process.Process/List", b"{}"), ("POST", "/filesystem.Filesystem/Stat", b"{}")):
                yield 401, daemon.ask(method, where, headers=headers, raw=body, key=False)
        yield 404, daemon.ask("GET", "/no-such-path", headers=address, key=False)
        yield 401, daemon.ask("GET", "/files?path=/etc/hostname&signature=v1_none", headers=address, key=False)
        yield 401, daemon.ask("GET", signed(sandbox, "/etc/hostname", int(time.time()) - 10), key=False)
        yield 403, daemon.inside(sandbox, "GET", "/", port=8000)
        yield 403, daemon.inside(sandbox, "GET", "/", port=8000, headers={"E2b-Traffic-Access-Token": "0" * 64})

    assert daemon.ask("POST", path + "/pause", {}).status == 204
    for status, answer in strangers():
        assert answer.status == status, answer
        assert state() == "paused", answer
    # Whoever may does.
    for status, wake in ((200, lambda: daemon.inside(sandbox, "GET", "/envs")),
                         (200, lambda: daemon.ask("GET", signed(sandbox, "/etc/hostname", int(time.time()) + 600), key=False)),
                         (502, lambda: daemon.inside(sandbox, "GET", "/", port=8000, headers={
                             "E2b-Traffic-Access-Token": sandbox["trafficAccessToken"]}))):
        answer = wake()
        assert answer.status == status and state() == "running", answer
        assert daemon.ask("POST", path + "/pause", {}).status == 204


# --- lists ---

def by_metadata(pairs):
    """As both clients write it: each part encoded, all of it as a query, and that as a value."""
    quoted = {urllib.parse.quote(k): urllib.parse.quote(v) for k, v in pairs.items()}
    return urllib.parse.quote(urllib.parse.urlencode(quoted))


@pytest.fixture
def key(daemon):
    """Of a tenant that has nothing yet."""
    key.count = getattr(key, "count", 0) + 1
    return tenant_key(daemon, f"list-{daemon.who.name}-{key.count}")


def test_list(daemon, made, key):
    first = made(key, metadata={"k a": "v&b", "é": "=%"})
    second = made(key, metadata={"k a": "v&b"})
    third = made(key, network={"allowPublicTraffic": True})
    assert daemon.ask("POST", f"/sandboxes/{second['sandboxID']}/pause", {}, key=key).status == 204
    a, b, c = (s["sandboxID"] for s in (first, second, third))

    def get(query="", path="/v2/sandboxes"):
        return daemon.ask("GET", path + query, key=key)

    answer = get()
    assert ids(answer) == [c, b, a] and answer.headers["X-Total-Running"] == "2"
    assert answer.headers["X-Next-Token"] is None
    assert all(LISTED <= set(item) for item in answer.json)
    assert [item["state"] for item in answer.json] == ["running", "paused", "running"]
    assert answer.json[2]["metadata"] == {"k a": "v&b", "é": "=%"}
    assert not any("envdAccessToken" in item for item in answer.json)
    assert ids(get(path="/sandboxes")) == [c, a]
    assert ids(get("?state=paused")) == [b] and ids(get("?state=running")) == [c, a]
    assert ids(get("?state=paused,running")) == ids(get("?state=paused&state=running")) == [c, b, a]
    assert ids(get("?order=asc")) == [a, b, c]
    assert ids(get(f"?metadata={by_metadata({'k a': 'v&b'})}")) == [b, a]
    assert ids(get(f"?metadata={by_metadata({'k a': 'v&b', 'é': '=%'})}")) == [a]
    assert ids(get(f"?metadata={by_metadata({'k a': 'v'})}")) == []
    assert ids(get(f"?metadata={by_metadata({'k a': 'v&b'})}", "/sandboxes")) == [a]
    assert ids(get("?template=base")) == [c, b, a] and ids(get("?template=nobody-has-this")) == []
    assert ids(get("?startedAfter=2999-01-01T00:00:00Z")) == []
    assert ids(get("?startedAfter=2020-01-01T00:00:00.5%2B02:00")) == [c, b, a]
    for query in ("?state=dead", "?order=up", "?limit=0", "?limit=x", "?limit=-1", "?nextToken=x", "?nextToken=1-",
                  "?metadata=a", "?metadata=%25zz%3D1", "?startedAfter=now"):
        if query == "?nextToken=1-":
            assert ids(get(query)) == []
        else:
            refused(get(query), 400, query[1:].split("=")[0])


def test_pages(daemon, made, key):
    wanted = [made(key)["sandboxID"] for _ in range(7)][::-1]
    seen, token, pages = [], "", 0
    while True:
        answer = daemon.ask("GET", f"/v2/sandboxes?limit=3&nextToken={token}", key=key)
        seen += ids(answer)
        assert answer.headers["X-Total-Running"] == str(7 + pages)
        token = answer.headers["X-Next-Token"]
        pages += 1
        if not token:
            break
        # What comes meanwhile is newer, and moves nothing.
        made(key)
    assert seen == wanted and pages == 3
    daemon.ask("DELETE", f"/sandboxes/{wanted[2]}", key=key)
    token = daemon.ask("GET", "/v2/sandboxes?order=asc&limit=2", key=key).headers["X-Next-Token"]
    # The last one that was seen may be gone.
    daemon.ask("DELETE", f"/sandboxes/{wanted[5]}", key=key)
    assert ids(daemon.ask("GET", f"/v2/sandboxes?order=asc&limit=2&nextToken={token}", key=key)) == wanted[3:5][::-1]


# --- snapshots and copies ---

def test_snapshot(daemon, made):
    sandbox = made(envVars={"A": "b"})
    path = f"/sandboxes/{sandbox['sandboxID']}/snapshots"
    inside(daemon, sandbox, "sh", "-c", "echo one > ~/f")
    answer = daemon.ask("POST", path, {})
    assert answer.status == 201 and answer.json["names"] == [], answer
    snapshot = answer.json["snapshotID"]
    inside(daemon, sandbox, "sh", "-c", "echo two > ~/f")
    copy = made(templateID=snapshot)
    assert inside(daemon, copy, "sh", "-c", "cat ~/f") == "one\n"
    assert inside(daemon, sandbox, "sh", "-c", "cat ~/f") == "two\n"
    listed = daemon.ask("GET", f"/snapshots?sandboxID={sandbox['sandboxID']}")
    assert listed.json == [answer.json]
    assert daemon.ask("GET", f"/snapshots?sandboxID={copy['sandboxID']}").json == []
    assert ids(daemon.ask("GET", f"/v2/sandboxes?template={urllib.parse.quote(snapshot)}")) == [copy["sandboxID"]]
    quoted = urllib.parse.quote(snapshot, safe="")
    assert daemon.ask("DELETE", f"/templates/{quoted}").status == 204
    refused(daemon.ask("DELETE", f"/templates/{quoted}"), 404)
    refused(daemon.ask("POST", "/v2/sandboxes", {"templateID": snapshot}), 404)
    wait_for(lambda: not images(daemon), "the end of the image")
    assert inside(daemon, copy, "sh", "-c", "cat ~/f") == "one\n"


def test_snapshot_with_a_name(daemon, made):
    sandbox = made()
    path = f"/sandboxes/{sandbox['sandboxID']}/snapshots"
    for content in ("one", "two"):
        inside(daemon, sandbox, "sh", "-c", f"echo {content} > ~/f")
        answer = daemon.ask("POST", path, {"name": "mine"})
        assert answer.status == 201 and answer.json == {"snapshotID": "mine:default", "names": ["mine:default"]}
        for word in ("mine", "mine:default"):
            assert inside(daemon, made(templateID=word), "sh", "-c", "cat ~/f") == f"{content}\n"
    inside(daemon, sandbox, "sh", "-c", "echo three > ~/f")
    assert daemon.ask("POST", path, {"name": "mine:v3"}).json["snapshotID"] == "mine:v3"
    assert inside(daemon, made(templateID="mine:v3"), "sh", "-c", "cat ~/f") == "three\n"
    assert inside(daemon, made(templateID="mine:default"), "sh", "-c", "cat ~/f") == "two\n"
    names = [s["snapshotID"] for s in daemon.ask("GET", "/snapshots?name=mine").json]
    assert names == ["mine:v3", "mine:default"]
    first = daemon.ask("GET", "/snapshots?limit=1")
    assert [s["snapshotID"] for s in first.json] == names[:1]
    second = daemon.ask("GET", f"/snapshots?limit=1&nextToken={first.headers['X-Next-Token']}")
    assert [s["snapshotID"] for s in second.json] == names[1:] and second.headers["X-Next-Token"] is None
    assert len(images(daemon)) == 2  # the one that was replaced is gone
    for body in ({"name": "a/b"}, {"name": ""}, {"name": "x" * 200}, {"name": 5}, {"memory": True}, {"name": "a:b:c"}):
        refused(daemon.ask("POST", path, body), 400)
    refused(daemon.ask("DELETE", "/templates/base"), 404)
    for name in names:
        assert daemon.ask("DELETE", f"/templates/{name}").status == 204
    wait_for(lambda: not images(daemon), "the end of the images")


def test_snapshot_of_a_paused_one(daemon, made):
    sandbox = made()
    path = f"/sandboxes/{sandbox['sandboxID']}"
    inside(daemon, sandbox, "sh", "-c", "echo one > ~/f")
    assert daemon.ask("POST", path + "/pause", {}).status == 204
    snapshot = daemon.ask("POST", path + "/snapshots", {})
    fork = daemon.ask("POST", path + "/fork", {"timeout": 60})
    assert snapshot.status == fork.status == 201, (snapshot, fork)
    assert daemon.ask("GET", path).json["state"] == "paused"
    for copy in (made(templateID=snapshot.json["snapshotID"]), fork.json[0]["sandbox"]):
        assert inside(daemon, copy, "sh", "-c", "cat ~/f") == "one\n"
    daemon.ask("DELETE", f"/sandboxes/{fork.json[0]['sandbox']['sandboxID']}")
    assert daemon.ask("DELETE", f"/templates/{snapshot.json['snapshotID']}").status == 204


def put_template(daemon, **row):
    """A row of the store, as a build leaves it."""
    row = {"id": "t" + row["name"], "tenant": "default", "kind": 0, "tags": '["default"]', "image": "", "env": "", "workdir": "",
           "user": "", "start": "", "ready": "", "source": "", "cpu": 0, "memory": 0, "disk": 0, "bytes": 0, "created": 1, "updated": 1, **row}
    with contextlib.closing(sqlite3.connect(daemon.state / "brig" / "serve" / "state.db")) as db, db:
        db.execute(f"INSERT INTO templates ({','.join(row)}) VALUES ({','.join('?' * len(row))})", list(row.values()))


def test_template_with_a_start_command(own_daemon):
    own_daemon.start()
    put_template(own_daemon, name="started", env='{"A":"theirs","B":"b"}', memory=256 << 20,
                 start="sleep 0.5; echo $A $B $PWD > ~/started; exec sleep 1000", ready="test -s ~/started", workdir="/tmp")
    put_template(own_daemon, name="broken", start="true", user="nobody-has-this")
    sandbox = own_daemon.make(templateID="started", envVars={"A": "mine"})
    assert inside(own_daemon, sandbox, "sh", "-c", "cat ~/started") == "mine b /tmp\n"
    assert "sleep 1000" in inside(own_daemon, sandbox, "sh", "-c", "cat /proc/*/cmdline | tr '\\0' ' '")
    info = own_daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}").json
    assert info["memoryMB"] == 256 and info["templateID"] == "tstarted" and info["alias"] == "started"
    fork = own_daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/fork", {"timeout": 60}).json[0]["sandbox"]
    assert "sleep 1000" in inside(own_daemon, fork, "sh", "-c", "cat /proc/*/cmdline | tr '\\0' ' '")
    answer = own_daemon.ask("POST", "/v2/sandboxes", {"templateID": "broken"})
    assert answer.status >= 400 and "nobody-has-this" in answer.json["message"], answer
    wait_for(lambda: live(own_daemon) == {sandbox["sandboxID"], fork["sandboxID"]}, "the end of what cannot start")


def test_leftover_images_are_swept(own_daemon):
    """Of a daemon that was killed between the image and its row."""
    own_daemon.start()
    sandbox = own_daemon.make()
    for name in ("serve.snapshot.abc", "serve.fork.abc", "somebodys"):
        assert own_daemon.brig("snapshot", sandbox["sandboxID"], name).returncode == 0
    kept = own_daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/snapshots", {"name": "kept"})
    assert kept.status == 201 and len(images(own_daemon)) == 4
    own_daemon.restart()
    wait_for(lambda: len(images(own_daemon)) == 2, "the end of what is left over")
    assert "somebodys" in images(own_daemon)
    assert own_daemon.ask("POST", "/v2/sandboxes", {"templateID": "kept"}).status == 201


def test_fork(daemon, made):
    sandbox = made(metadata={"a": "b"}, envVars={"C": "d"}, timeout=100)
    path = f"/sandboxes/{sandbox['sandboxID']}/fork"
    inside(daemon, sandbox, "sh", "-c", "echo one > ~/f")
    answer = daemon.ask("POST", path, {"count": 3, "timeout": 60})
    assert answer.status == 201 and len(answer.json) == 3, answer
    copies = [item["sandbox"] for item in answer.json]
    assert len({s["sandboxID"] for s in copies} | {sandbox["sandboxID"]}) == 4
    assert len({s["envdAccessToken"] for s in copies} | {sandbox["envdAccessToken"]}) == 4
    for copy in copies:
        assert set(copy) == set(sandbox) and copy["templateID"] == "base"
        assert inside(daemon, copy, "sh", "-c", "cat ~/f; echo more >> ~/f") == "one\n"
        info = daemon.ask("GET", f"/sandboxes/{copy['sandboxID']}").json
        assert info["metadata"] == {"a": "b"} and 50 < left(daemon, copy) <= 60
    assert inside(daemon, sandbox, "sh", "-c", "cat ~/f") == "one\n"
    wait_for(lambda: not images(daemon), "the end of the image")
    assert len(daemon.ask("POST", path).json) == 1
    for count in (0, 21, -1, "2", 1.5):
        refused(daemon.ask("POST", path, {"count": count}), 400, "count")
    for item in ids(daemon.ask("GET", f"/v2/sandboxes?metadata={by_metadata({'a': 'b'})}")):
        if item != sandbox["sandboxID"]:
            daemon.ask("DELETE", f"/sandboxes/{item}")


def test_fork_over_quota(daemon, made):
    key = tenant_key(daemon, "three", "--max-sandboxes", "3")
    sandbox = made(key)
    answer = daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/fork", {"count": 4, "timeout": 60}, key=key)
    assert answer.status == 201 and [list(item) for item in answer.json] == [["sandbox"]] * 2 + [["error"]] * 2
    assert answer.json[3]["error"]["code"] == 429 and "3" in answer.json[3]["error"]["message"]
    for item in answer.json[:2]:
        assert daemon.ask("DELETE", f"/sandboxes/{item['sandbox']['sandboxID']}", key=key).status == 204


# --- what it uses, what it did ---

def test_metrics(daemon, made):
    sandbox, other = made(), made()
    path = f"/sandboxes/{sandbox['sandboxID']}/metrics"
    answer = daemon.ask("GET", path)
    assert answer.status == 200 and len(answer.json) == 1, answer
    with subprocess.Popen([*daemon.who.prefix(), daemon.exe, "exec", sandbox["sandboxID"], "--", "sh", "-c",
                           "head -c 8000000 /dev/zero > ~/big; echo; while :; do :; done"], stdout=subprocess.PIPE,
                          env=daemon.environment()) as busy:
        busy.stdout.readline()
        used = wait_for(lambda: next((m for m in daemon.ask("GET", path).json if m["cpuUsedPct"] > 20 and m["diskUsed"] >= 8000000), None), "work")
        busy.kill()
    assert set(used) == METRIC and used["diskUsed"] >= 8000000 and used["memUsed"] > 0
    assert used["cpuUsedPct"] <= 110 and used["memTotal"] >= used["memUsed"] and used["diskTotal"] >= used["diskUsed"]
    assert abs(used["timestampUnix"] - when(used["timestamp"])) < 1
    history = daemon.ask("GET", path).json
    assert len(history) > 1 and history == sorted(history, key=lambda m: m["timestamp"])
    assert daemon.ask("GET", f"{path}?start=0&end=5").json == []
    assert daemon.ask("GET", f"{path}?start={int(time.time()) - 60}").json
    refused(daemon.ask("GET", f"{path}?start=x"), 400, "start")
    many = daemon.ask("GET", f"/sandboxes/metrics?sandbox_ids={sandbox['sandboxID']},{other['sandboxID']},nobody")
    assert many.status == 200 and set(many.json["sandboxes"]) == {sandbox["sandboxID"], other["sandboxID"]}
    assert all(set(metric) == METRIC for metric in many.json["sandboxes"].values())
    assert daemon.ask("GET", "/sandboxes/metrics").json == {"sandboxes": {}}
    refused(daemon.ask("GET", "/sandboxes/metrics?sandbox_ids=" + "x," * 2000), 400, "sandbox_ids")
    daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/pause", {})
    assert daemon.ask("GET", path).status == 200


def test_logs(daemon, made):
    sandbox = made()
    inside(daemon, sandbox, "sh", "-c", "cat /etc/shadow; true")
    path = f"/sandboxes/{sandbox['sandboxID']}/logs"

    def entries(query=""):
        answer = daemon.ask("GET", f"/v2{path}{query}")
        assert answer.status == 200, answer
        return answer.json["logs"]

    wait_for(lambda: any("cat" in e["message"] for e in entries()), "the record of a program")
    found = entries()
    assert all(set(e) == {"timestamp", "level", "message", "fields"} for e in found)
    assert all(isinstance(value, str) for e in found for value in e["fields"].values())
    assert {e["level"] for e in found} <= {"info", "warn", "error"}

    def settled():
        now = entries("?level=debug")
        time.sleep(0.3)
        return any("/etc/shadow" in e["message"] for e in now) and now == entries("?level=debug") and now

    everything, found = wait_for(settled, "the record of a file"), entries()
    assert len(everything) > len(found)
    assert entries("?level=debug&direction=backward") == everything[::-1]
    assert entries("?level=debug&limit=3") == everything[:3]
    assert entries("?level=debug&direction=backward&limit=3") == everything[:-4:-1]
    assert entries("?limit=0") == []
    middle = everything[len(everything) // 2]
    cursor = int(when(middle["timestamp"]) * 1000)
    later = entries(f"?level=debug&cursor={cursor}")
    assert middle in later and everything[-1] in later and later == everything[len(everything) - len(later):]
    only = entries("?level=debug&search=%2Fetc%2Fshadow")
    assert only and all("/etc/shadow" in e["message"] for e in only)
    old = daemon.ask("GET", path).json
    assert set(old) == {"logs", "logEntries"} and [e["line"] for e in old["logs"]] == [e["message"] for e in old["logEntries"]]
    for query in ("?level=loud", "?direction=up", "?limit=x", "?cursor=-1", "?search=" + "x" * 300):
        refused(daemon.ask("GET", f"/v2{path}{query}"), 400, query[1:].split("=")[0])


# --- the way out ---

REACH = """
import errno, socket, sys
for place in sys.argv[1:]:
    sock = socket.socket(socket.AF_INET)
    sock.settimeout(0.2)
    try:
        code = sock.connect_ex((place, 443))
    except OSError:
        code = 0
    print(place, "closed" if code == errno.EACCES else "open")
"""


def reach(daemon, sandbox, *places):
    """Where the gate lets it go: whether anybody answers there is another thing."""
    lines = inside(daemon, sandbox, "python3", "-c", REACH, *places).split("\n")
    return {line.split()[0] for line in lines if line.endswith("open")}


PLACES = ("1.1.1.1", "8.8.8.8", "8.8.8.9", "10.0.0.1", "169.254.169.254")
PUBLIC = {"1.1.1.1", "8.8.8.8", "8.8.8.9"}


@pytest.mark.parametrize("body, open_places", [
    ({}, PUBLIC),
    ({"allow_internet_access": True}, PUBLIC),
    ({"allow_internet_access": False}, set()),
    ({"network": {"denyOut": ["0.0.0.0/0"]}}, set()),
    ({"network": {"denyOut": ["0.0.0.0/0"], "allowOut": ["8.8.8.8"]}}, {"8.8.8.8"}),
    ({"network": {"allowOut": ["8.8.8.8", "example.com"]}, "allow_internet_access": False}, {"8.8.8.8"}),
    ({"network": {"denyOut": ["8.8.8.0/24"], "allowOut": ["8.8.8.8"]}}, {"1.1.1.1", "8.8.8.8"}),
    ({"network": {"denyOut": ["8.8.8.9"]}}, {"1.1.1.1", "8.8.8.8"}),
    ({"network": {"denyOut": ["10.0.0.0/8"]}}, PUBLIC),
    ({"network": {"allowOut": ["0.0.0.0/0"]}}, PUBLIC),  # what is private stays closed
])
def test_network(daemon, made, body, open_places):
    sandbox = made(**body)
    assert reach(daemon, sandbox, *PLACES) == open_places
    info = daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}").json
    assert info["allowInternetAccess"] == body.get("allow_internet_access")
    assert info.get("network") == body.get("network")
    # A copy has the same rules.
    fork = daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/fork", {"timeout": 60}).json[0]["sandbox"]
    assert reach(daemon, fork, *PLACES) == open_places
    daemon.ask("DELETE", f"/sandboxes/{fork['sandboxID']}")


def test_network_changes(daemon, made):
    sandbox = made(network={"denyOut": ["0.0.0.0/0"], "allowPublicTraffic": False})
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert reach(daemon, sandbox, *PLACES) == set()
    for body, open_places in (({}, PUBLIC), ({"denyOut": ["8.8.8.0/24"]}, {"1.1.1.1"}),
                              ({"allow_internet_access": False}, set()),
                              ({"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1"]}, {"1.1.1.1"})):
        assert daemon.ask("PUT", path + "/network", body).status == 204
        assert reach(daemon, sandbox, *PLACES) == open_places
        info = daemon.ask("GET", path).json
        assert info["allowInternetAccess"] == body.get("allow_internet_access")
        assert info["network"] == {"allowPublicTraffic": False,
                                   **{k: v for k, v in body.items() if k != "allow_internet_access"}}
    for body in ({"allowOut": ["example.com"]}, {"allowOut": ["192.168.1.1"]}, {"denyOut": "x"}, {"rules": {"a.example": [{}]}},
                 {"egressProxy": {"address": "1.1.1.1:1080"}}, {"allow_internet_access": 1}):
        refused(daemon.ask("PUT", path + "/network", body), 400)
    assert reach(daemon, sandbox, *PLACES) == {"1.1.1.1"}


def test_network_of_a_paused_one(daemon, made):
    sandbox = made()
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert daemon.ask("POST", path + "/pause", {}).status == 204
    assert daemon.ask("PUT", path + "/network", {"allow_internet_access": False}).status == 204
    assert daemon.ask("POST", f"/v2{path}/connect", {}).status == 201
    assert reach(daemon, sandbox, *PLACES) == set()


def test_network_outlives_the_daemon(own_daemon):
    own_daemon.start()
    sandbox = own_daemon.make(network={"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1"]})
    own_daemon.restart()
    assert reach(own_daemon, sandbox, *PLACES) == {"1.1.1.1"}


def test_network_within_the_tenants_policy(daemon, made):
    key = tenant_key(daemon, "offline", "--policy", "offline")
    sandbox = made(key, network={"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1", "example.com"]})
    assert reach(daemon, sandbox, *PLACES) == set()
    assert daemon.ask("PUT", f"/sandboxes/{sandbox['sandboxID']}/network", {}, key=key).status == 204
    assert reach(daemon, sandbox, *PLACES) == set()


# --- tenants ---

EVERYTHING = [
    ("GET", "/sandboxes/{id}", None), ("DELETE", "/sandboxes/{id}", None),
    ("POST", "/sandboxes/{id}/connect", {"timeout": 5}), ("POST", "/v2/sandboxes/{id}/connect", {}),
    ("POST", "/sandboxes/{id}/timeout", {"timeout": 5}), ("POST", "/sandboxes/{id}/refreshes", {}),
    ("POST", "/sandboxes/{id}/pause", {}), ("POST", "/sandboxes/{id}/resume", {}),
    ("PUT", "/sandboxes/{id}/network", {}), ("POST", "/sandboxes/{id}/fork", {}),
    ("POST", "/sandboxes/{id}/snapshots", {}), ("GET", "/sandboxes/{id}/metrics", None),
    ("GET", "/sandboxes/{id}/logs", None), ("GET", "/v2/sandboxes/{id}/logs", None),
]


@pytest.mark.parametrize("method, path, body", EVERYTHING)
def test_another_tenants_sandbox_is_not_there(daemon, made, method, path, body):
    mine, theirs = tenant_key(daemon, "mine"), tenant_key(daemon, "theirs")
    sandbox = made(mine)
    assert made(theirs)
    foreign = daemon.ask(method, path.format(id=sandbox["sandboxID"]), body, key=theirs)
    nobodys = daemon.ask(method, path.format(id="n" * 12), body, key=theirs)
    refused(foreign, 404)
    assert foreign.body.replace(sandbox["sandboxID"].encode(), b"n" * 12) == nobodys.body
    assert sorted(h for h in foreign.headers if h != "X-Request-Id") == sorted(h for h in nobodys.headers if h != "X-Request-Id")
    info = daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}", key=mine).json
    assert info["state"] == "running" and 290 < left_of(info) <= 300
    own = daemon.ask(method, path.format(id=sandbox["sandboxID"]), body, key=mine)
    assert own.status < 300 or own.status == 409, own  # it was the tenant, not the request


def left_of(info):
    return when(info["endAt"]) - time.time()


def test_tenants_see_their_own(daemon, made):
    mine, theirs = tenant_key(daemon, "ours"), tenant_key(daemon, "others")
    sandbox, other = made(mine, metadata={"t": "1"}), made(theirs, metadata={"t": "1"})
    for path in ("/sandboxes", "/v2/sandboxes", f"/v2/sandboxes?metadata={by_metadata({'t': '1'})}"):
        assert other["sandboxID"] not in ids(daemon.ask("GET", path, key=mine))
        assert sandbox["sandboxID"] in ids(daemon.ask("GET", path, key=mine))
    many = f"/sandboxes/metrics?sandbox_ids={sandbox['sandboxID']},{other['sandboxID']}"
    assert set(daemon.ask("GET", many, key=mine).json["sandboxes"]) == {sandbox["sandboxID"]}
    snapshot = daemon.ask("POST", f"/sandboxes/{sandbox['sandboxID']}/snapshots", {"name": "secret"}, key=mine).json
    assert daemon.ask("GET", "/snapshots", key=theirs).json == []
    refused(daemon.ask("POST", "/v2/sandboxes", {"templateID": "secret"}, key=theirs), 404)
    refused(daemon.ask("POST", "/v2/sandboxes", {"templateID": "ours/secret"}, key=theirs), 404)
    refused(daemon.ask("DELETE", "/templates/secret", key=theirs), 404)
    assert daemon.ask("GET", "/snapshots", key=mine).json == [snapshot]
    # The same name is another one's own, and so is the same Idempotency-Key.
    assert daemon.ask("POST", f"/sandboxes/{other['sandboxID']}/snapshots", {"name": "secret"}, key=theirs).status == 201
    assert made(mine, templateID="ours/secret") and made(theirs, templateID="secret")
    answers = [daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, {"Idempotency-Key": "shared"}, key=key)
               for key in (mine, theirs)]
    assert answers[0].json["sandboxID"] != answers[1].json["sandboxID"]
    for answer, key in zip(answers, (mine, theirs)):
        daemon.ask("DELETE", f"/sandboxes/{answer.json['sandboxID']}", key=key)
        assert daemon.ask("DELETE", "/templates/secret", key=key).status == 204
    assert daemon.ask("GET", "/teams", key=mine).json[0]["teamID"] == "ours"


def test_quota(daemon, made):
    key = tenant_key(daemon, "two", "--max-sandboxes", "2")
    made(key)
    second = made(key)
    answer = daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key=key)
    refused(answer, 429, "2")
    assert answer.headers["Should-Retry"] == "false"
    assert daemon.ask("DELETE", f"/sandboxes/{second['sandboxID']}", key=key).status == 204
    made(key)


def test_quota_of_memory(daemon):
    """What is asked for counts, also while it is being made."""
    key = tenant_key(daemon, "small", "--max-memory", "5G")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key=key), range(6)))
    held = [a.json for a in answers if a.status == 201]
    sizes = [daemon.ask("GET", f"/sandboxes/{s['sandboxID']}", key=key).json["memoryMB"] for s in held]
    assert sizes == [2048, 2048]
    for answer in answers:
        if answer.status != 201:
            refused(answer, 429, "memory")
    for sandbox in held:
        daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}", key=key)


def test_quota_below_the_policys_limit(daemon, made):
    key = tenant_key(daemon, "tiny", "--max-memory", "300M")
    sandbox = made(key)
    assert daemon.ask("GET", f"/sandboxes/{sandbox['sandboxID']}", key=key).json["memoryMB"] == 300
    refused(daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key=key), 429, "300M")


def test_quota_of_disk(daemon, made):
    """Snapshots count as well."""
    key = tenant_key(daemon, "disk", "--max-disk", "1030M")
    sandbox = made(key)
    path = f"/sandboxes/{sandbox['sandboxID']}/snapshots"
    inside(daemon, sandbox, "sh", "-c", "head -c 4000000 /dev/urandom > ~/big")
    assert daemon.ask("POST", path, {"name": "first"}, key=key).status == 201
    before = images(daemon)
    refused(daemon.ask("POST", path, {"name": "second"}, key=key), 429, "1030M")
    assert [s["snapshotID"] for s in daemon.ask("GET", "/snapshots", key=key).json] == ["first:default"]
    wait_for(lambda: images(daemon) == before, "the end of the image")
    assert daemon.ask("DELETE", "/templates/first", key=key).status == 204
    assert daemon.ask("POST", path, {"name": "second"}, key=key).status == 201
    daemon.ask("DELETE", "/templates/second", key=key)


def test_quota_of_rate(daemon, made):
    key = tenant_key(daemon, "slow", "--create-rate", "0.1")
    made(key)
    answer = daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key=key)
    refused(answer, 429, "fast")
    assert 1 <= int(answer.headers["Retry-After"]) <= 11


# --- the rest ---

def test_health_and_teams(daemon):
    answer = daemon.ask("GET", "/health", key=False)
    assert answer.status == 204 and answer.body == b""
    assert daemon.ask("GET", "/teams", headers={"Authorization": f"Bearer {daemon.key}"}, key=False).json == [
        {"teamID": "default", "name": "default", "apiKey": daemon.ask("GET", "/teams").json[0]["apiKey"], "isDefault": True}]
    assert daemon.key not in daemon.ask("GET", "/teams").body.decode()


def test_without_a_key(daemon):
    for method, path, body in [*EVERYTHING, ("POST", "/v2/sandboxes", {"templateID": "base"}), ("GET", "/v2/sandboxes", None)]:
        for key in (False, "e2b_" + "0" * 40):
            answer = daemon.ask(method, path.format(id="n" * 12), body, key=key)
            assert answer.status == 401 and answer.json["code"] == 401, answer
