"""Two network namespaces and the wire between them: "the host", where the gate runs, and "the internet".

Without privilege everything is made inside a user namespace of its own; with it (is_root) there is none, so that ordinary
users can be tested in it too. Either way a wall that is missing sends nothing further than the other end of the wire.
"""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
SETUP = """
set -eu
echo $$ > {dir}/host
ip link set lo up
mount --bind {dir}/resolv.conf /etc/resolv.conf
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
mac=$(in_far cat /sys/class/net/far/address || true)
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
    def __init__(self, folder, is_root=False):
        self.dir = Path(folder)
        self.spaces = [] if is_root else ["--user"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                        "-addext", "subjectAltName=DNS:good.test,DNS:other.test,DNS:six.test",
                        "-keyout", self.dir / "key.pem", "-out", self.dir / "crt.pem"], check=True, capture_output=True)
        (self.dir / "cert.pem").write_text((self.dir / "crt.pem").read_text() + (self.dir / "key.pem").read_text())
        (self.dir / "resolv.conf").write_text("nameserver 93.184.216.1\n")
        script = SETUP.format(dir=self.dir, python=PYTHON, here=Path(__file__).parent)
        self.log = open(self.dir / "log", "w")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--fork", "--kill-child",
             *([] if is_root else ["--user", "--map-root-user", "--pid", "--mount-proc"]), "sh", "-c", script],
            stdout=self.log, stderr=self.log, start_new_session=True)
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

    def shell(self, *command, work=None):
        """A command on "the host", outside any gate."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        more = [*self.spaces, "--pid", "--preserve-credentials"] if self.spaces else []
        more += [f"--wdns={work}"] if work else []
        return ["nsenter", "--target", children[0], "--net", "--mount", *more, *map(str, command)]

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


