"""Files with the field's own clients, as they come from the registries."""

import shutil
import subprocess

import harness
from conftest import ROOT

CLIENTS = ROOT / "test" / "serve" / "clients"


def test_python(daemon, python_sdk):
    done = subprocess.run([str(python_sdk), str(CLIENTS / "files.py")], env=daemon.sdk(), capture_output=True,
                          timeout=2 * harness.HANG, check=False)
    assert (done.returncode, done.stdout) == (0, b"all of it\n"), done.stderr.decode()[-3000:]


def test_node(daemon, node_sdk, tmp_path):
    # A module is looked for where the program lies.
    program = tmp_path / "files.mjs"
    shutil.copy(CLIENTS / "files.mjs", program)
    (tmp_path / "node_modules").symlink_to(node_sdk / "node_modules")
    done = subprocess.run(["node", str(program)], env=daemon.sdk(), capture_output=True, timeout=2 * harness.HANG, check=False)
    assert (done.returncode, done.stdout) == (0, b"all of it\n"), done.stderr.decode()[-3000:]
