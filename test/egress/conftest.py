"""Two network namespaces and the wire between them: "the host", where the gate runs, and "the internet".

Everything is made inside a user namespace of its own, so that it works without privilege and a wall that is missing
sends nothing further than the other end of the wire.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BRIG_BUILD", ROOT / "build-test")) / "test" / "egress"
PYTHON = "/usr/bin/python3"
SETUP = """
set -eu
echo $$ > {dir}/host
ip link set lo up
{python} -c 'import ctypes, time; ctypes.CDLL(None).unshare(0x40000000) and exit(1); open("{dir}/far", "w").write("x"); time.sleep(1e9)' &
far=$!
while [ ! -s {dir}/far ]; do sleep 0.02; done
ip link add wire type veth peer name far
ip link set far netns $far
ip addr add 93.184.216.2/24 dev wire
ip -6 addr add 2600:1::2/64 dev wire nodad
ip link set wire up
in_far() {{ nsenter --net=/proc/$far/ns/net "$@"; }}
in_far ip link set lo up
for i in 1 34 35; do in_far ip addr add 93.184.216.$i/24 dev far; done
in_far ip -6 addr add 2600:1::34/64 dev far nodad
in_far ip link set far up
mac=$(in_far ip -o link show far | sed 's/.*ether \\([^ ]*\\).*/\\1/')
ip neigh replace 93.184.216.99 lladdr $mac dev wire nud permanent
ip -6 neigh replace 2600:1::dead lladdr $mac dev wire nud permanent
ip route add default via 93.184.216.1
ip -6 route add default via 2600:1::34
in_far {python} {here}/internet.py {dir}/control far {dir}/cert.pem &
while [ ! -S {dir}/control ]; do sleep 0.02; done
echo ready > {dir}/ready
wait
"""


class World:
    def __init__(self, folder):
        self.dir = Path(folder)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                        "-addext", "subjectAltName=DNS:good.test,DNS:other.test,DNS:six.test",
                        "-keyout", self.dir / "key.pem", "-out", self.dir / "crt.pem"], check=True, capture_output=True)
        (self.dir / "cert.pem").write_text((self.dir / "crt.pem").read_text() + (self.dir / "key.pem").read_text())
        (self.dir / "resolv.conf").write_text("nameserver 93.184.216.1\n")
        script = SETUP.format(dir=self.dir, python=PYTHON, here=Path(__file__).parent)
        self.log = open(self.dir / "log", "w")
        self.process = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child",
             "--mount-proc", "sh", "-c", script], stdout=self.log, stderr=self.log)
        for _ in range(500):
            if (self.dir / "ready").exists() or self.process.poll() is not None:
                break
            time.sleep(0.02)

    @property
    def works(self):
        return (self.dir / "ready").exists()

    def why(self):
        self.log.flush()
        return (self.dir / "log").read_text().strip().replace("\n", "; ")[-300:] or "it did not start in time"

    def ask(self, word):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.dir / "control"))
        client.sendall(word.encode())
        answer = b""
        while block := client.recv(65536):
            answer += block
        client.close()
        return json.loads(answer)

    def quiet(self):
        """Waits until nothing of an earlier test is on the wire any more, and forgets it."""
        for _ in range(100):
            self.ask("reset")
            if not self.ask("look")["packets"]:
                return
        raise AssertionError("an earlier test still sends")

    def shell(self, *command):
        """A command on "the host", outside any gate."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return ["nsenter", "--target", children[0], "--user", "--net", "--mount", "--pid", "--preserve-credentials",
                *map(str, command)]

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="session")
def world():
    folder = tempfile.mkdtemp(prefix="brig-gate-", dir="/var/tmp")
    made = World(folder)
    try:
        if not made.works:
            pytest.skip(f"needs user and network namespaces: {made.why()}")
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


class Result:
    def __init__(self, process, events, seen):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        self.events = [line.split("\t") for line in events]
        self.queries = {name for name, _ in seen["queries"]}
        self.packets = seen["packets"]

    def denied(self, action):
        return [event for event in self.events if event[0] == action and event[1] == "deny"]

    def reached(self):
        """Where packets went, DNS to the host's own server aside."""
        return {tuple(key.split(" ")[1:]) for key in self.packets} - {("93.184.216.1", "53")}


@pytest.fixture(params=["process", "container"])
def gate(world, request):
    """gate(rules, command...): runs a command behind the gate and says what happened inside and on the wire."""

    def run(allow, *command, deny=(), options=(), timeout=60):
        policy, events = world.dir / "policy.yaml", world.dir / "events"
        policy.write_text("version: 1\nnet:\n  allow: %s\n  deny: %s\n" % (json.dumps(list(allow)), json.dumps(list(deny))))
        events.write_text("")
        world.quiet()
        process = subprocess.run(
            world.shell(BUILD / "gate_driver", request.param, policy, world.dir / "resolv.conf", events, *options, "--",
                        *command), capture_output=True, text=True, timeout=timeout)
        return Result(process, events.read_text().splitlines(), world.ask("look"))

    def python(allow, code, **rest):
        return run(allow, PYTHON, "-c", code, **rest)

    run.python = python
    run.tier = request.param
    return run
