"""The gate alone, with a driver in the place of keeper and warden, in a network of its own (world.py)."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from world import PYTHON, ROOT, World

BUILD = Path(os.environ.get("BRIG_BUILD", ROOT / "build-test")) / "test" / "egress"


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
