"""Rules of the network that change while a sandbox runs: brig net, seen from the other end of the wire."""

import json
import subprocess

import jsonschema
import pytest

import harness
from test_net import internet, net, world  # noqa: F401

pytestmark = pytest.mark.tier("container")

LINE = "import socket, sys; s = socket.create_connection(('good.test', 7001)); print(s.recv(9), flush=True)\n"
WAIT = LINE + "s.settimeout(60)\ntry: print('end', s.recv(1))\nexcept OSError as e: print('cut', e.errno)\n"


def fetch(box, host="good.test", port=80):
    return box.exec("curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", f"http://{host}:{port}/512").text


def change(box, *words):
    done = box.brig("net", box.id, *words)
    assert (done.code, done.text) == (0, box.id + "\n"), done


def events(box, action):
    lines = box.brig("events", box.id, "--json").text.splitlines()
    return [e for e in map(json.loads, lines) if e.get("action") == action]


def test_rules_come_and_go(net):
    box = net.brig.create()
    assert fetch(box) == "000" and net.reached() == set()
    change(box, "good.test:80")
    assert fetch(box) == "200" and fetch(box, "other.test") == "000"
    change(box, "other.test:80")
    assert fetch(box) == "000" and fetch(box, "other.test") == "200"
    # By the address that was told under older rules: those count for nothing.
    assert fetch(box, internet.HOST) == "000"
    change(box, "--none")
    assert fetch(box, "other.test") == "000"
    harness.wait_until(lambda: len(events(box, "rules")) == 3, lambda: "the record does not say so")


def test_all_that_is_public(net):
    box = net.brig.create("--policy", "interpreter")
    assert fetch(box) == fetch(box, internet.HOST) == "200"
    # Neither what only looks public, nor the host itself, by any name.
    for host in ("rebind.test", "10.0.0.1", "169.254.169.254", "93.184.216.2", "127.0.0.1"):
        assert fetch(box, host) == "000"
    change(box, "*:443")
    assert fetch(box) == "000"
    change(box, "*:80", "--deny", f"{internet.HOST}/32:*,other.test:*")
    assert fetch(box) == fetch(box, "other.test") == "000"
    change(box, "*:* raw")
    assert box.exec("python3", "-c", LINE).text.startswith("b'")


def test_without_a_record_and_without_rules(net):
    """There is a gate all the same, for rules that come later."""
    box = net.brig.create("--record", "off")
    assert fetch(box) == "000"
    change(box, "good.test:80")
    assert fetch(box) == "200"


@pytest.mark.parametrize("before,after,goes_on", [
    ("good.test:7001 raw", ["good.test:7001 raw", "other.test:80"], True),
    ("good.test:7001 raw", ["*:* raw"], True),
    ("good.test:7001 raw", ["good.test:7001"], False),  # nobody looked at its first bytes
    ("good.test:7001 raw", ["other.test:7001 raw"], False),
    ("*:* raw", ["*:* raw", "--deny", f"{internet.HOST}/32:*"], False),
    ("*:* raw", ["--none"], False),
])
def test_connections_that_are_there(net, before, after, goes_on):
    box = net.brig.create("--allow-net", before)
    with box.brig.start("exec", box.id, "--", "python3", "-u", "-c", WAIT) as process:
        assert process.stdout.readline().startswith(b"b'")
        change(box, *after)
        if goes_on:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            process.kill()
        else:
            assert process.stdout.readline() == b"cut 104\n"
    harness.wait_until(lambda: len(events(box, "cut")) == (not goes_on), lambda: "the record does not say so")
    cut = events(box, "cut")
    assert all(e["verdict"] == "deny" and "7001" in e["object"] for e in cut)


# Says a name, or an address, to where it connects, and waits for more.
SAYS = """
import socket, sys
to, says = sys.argv[1:]
s = socket.create_connection((to, 8001))
s.sendall(f"HEAD / HTTP/1.1\\r\\nHost: {says}:8001\\r\\n\\r\\n".encode())
print(s.recv(5), flush=True)
while True:
    try:
        s.recv(999)
    except OSError as e:
        sys.exit(f"cut {e.errno}")
"""


@pytest.mark.parametrize("to,says,goes_on", [
    ("good.test", "good.test", True),
    (internet.HOST, "good.test", False),  # said, but nobody told it
    ("other.test", "good.test", False),
    ("good.test", internet.HOST, False),  # told, but not said: a new one would be refused as well
])
def test_a_name_that_was_only_said(net, to, says, goes_on):
    box = net.brig.create("--allow-net", "*:8001")
    with box.brig.start("exec", box.id, "--", "python3", "-u", "-c", SAYS, to, says) as process:
        assert process.stdout.readline() == b"b'HTTP/'\n"
        try:
            change(box, "good.test:8001")
            if goes_on:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(1)
            else:
                assert process.wait(harness.HANG) == 1
        finally:
            process.kill()
    harness.wait_until(lambda: len(events(box, "cut")) == (not goes_on), lambda: "the record does not say so")


def test_what_is_refused(brig):
    box = brig.create()
    assert "which rules" in brig.refused("net", box.id)
    assert "has no port" in brig.refused("net", box.id, "example.com")
    for rule in ("example.com", "a:1" + " " * 400 + "x"):
        words = brig.refused("net", box.id, "a:1", "--deny", f"b:1,{rule}")
        assert words.startswith("brig: net: ") and "example.com" in words and "--deny-net" not in words
    assert "--none" in brig.refused("net", box.id, "a:1", "--none")
    assert "which sandbox" in brig.refused("net")
    assert "there is no sandbox" in brig.refused("net", "nobody", "--none")
    assert "has no gate" in brig.refused("net", brig.create("--allow", "nested").id, "a:1")


@pytest.mark.tier("process")
def test_the_process_tier_says_so(brig):
    box = brig.create()
    assert "has no gate of its own" in brig.refused("net", box.id, "a:1")


def test_a_projects_file_narrows(brig):
    brig.who.write(brig.work / ".brig.yaml", 'version: 1\nextends: [base]\nnet: { allow: ["a.example:443", "*:80"] }\n')
    box = brig.create()
    done = json.loads(brig("net", box.id, "a.example:*", "b.example:443", "10.0.0.1:80", "--json").text)
    jsonschema.Draft202012Validator(brig.schema("net")).validate(done)
    # Special addresses are not among all that is public.
    assert done == {"sandbox": box.id, "allow": ["10.0.0.1:80 public", "a.example:443", "a.example:80"], "deny": []}


def test_somebody_elses_sandbox(brig, accounts):
    if not brig.who.is_root or "user" not in accounts:
        pytest.skip("needs two users")
    box = brig.create()
    other = harness.Brig(accounts["user"], brig.tier, brig.exe, brig.folder / "other", brig.version)
    assert other("net", box.id, "--none", env={"XDG_STATE_HOME": brig.folder / "state"}).code == 125
