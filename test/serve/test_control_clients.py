"""The unmodified clients of the field, on the control plane: the newest ones, and the last that used the older routes."""

import subprocess
from pathlib import Path

import harness
import pytest

CLIENTS = Path(__file__).parent / "clients"


def run(daemon, words, cwd):
    done = subprocess.run(words, env=daemon.sdk(), cwd=cwd, capture_output=True, timeout=harness.LONG, check=False)
    assert done.returncode == 0 and done.stdout.endswith(b"all of it\n"), done.stderr.decode()[-3000:]


@pytest.mark.parametrize("version", ["python", "python-old"])
def test_python(daemon, python_sdk, version):
    python = python_sdk.parents[2] / version / "bin" / "python"
    run(daemon, [python, CLIENTS / "control.py"], daemon.work)


@pytest.mark.parametrize("package", ["e2b", "e2b-old"])
def test_javascript(daemon, node_sdk, package):
    run(daemon, ["node", CLIENTS / "control.mjs", package], node_sdk)


def test_python_makes_no_second_sandbox(own_daemon, python_sdk):
    """A create that the daemon was killed in is asked again by the client, with the same key: it is the same sandbox."""
    own_daemon.start(env={"BRIG_TEST_DIE": "serve:create:stored"})
    code = "from e2b import Sandbox; print(Sandbox.create(timeout=120).sandbox_id)"
    client = subprocess.Popen([python_sdk, "-c", code], env=own_daemon.sdk(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    own_daemon.process.wait(harness.HANG)
    own_daemon.restart()
    out, err = client.communicate(timeout=harness.HANG)
    sandboxes = [s["sandboxID"] for s in own_daemon.ask("GET", "/v2/sandboxes").json]
    # Whether it asked again in time or not, there is one.
    assert len(sandboxes) == 1
    if client.returncode == 0:
        assert out.decode().split() == sandboxes, err
