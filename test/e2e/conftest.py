"""Fixtures of the end-to-end tests.

The program under test is $BRIG, or build-test/brig. As root every test runs twice, as root and as an ordinary user
that is made for the purpose; otherwise once, as whoever runs the tests. And it runs once in each tier, unless it is
marked with the one that it is about:

    @pytest.mark.tier("container")      the default of "brig run", which gets no flag for it
    @pytest.mark.tier("process")        "--isolation process" is put behind every "run" and "create"

Every test has folders of its own below a temporary root, and after each of them nothing may be left: no process, no
folder, no cgroup, no sanitizer report.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

import harness

USER = "brigtest"
TIERS = ["process", "container"]


def pytest_configure(config):
    config.addinivalue_line("markers", "tier(name): the test is about this tier, or needs no other")


def pytest_generate_tests(metafunc):
    """The nearest mark counts: a function's own, else its file's."""
    if "who" in metafunc.fixturenames:
        metafunc.parametrize("who", ["root", "user"] if os.geteuid() == 0 else ["user"], indirect=True)
    if "tier" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("tier")
        metafunc.parametrize("tier", mark.args if mark else TIERS, indirect=True)


@pytest.fixture(scope="session")
def exe():
    """A copy that everybody can read and execute: the repository may be closed to the other user."""
    source = Path(os.environ.get("BRIG", harness.ROOT / "build-test" / "brig")).absolute()
    if not source.exists():
        pytest.exit(f"{source} does not exist: build it, or set BRIG", 1)
    root = Path(tempfile.mkdtemp(prefix="brig-e2e-", dir="/var/tmp"))
    root.chmod(0o755)
    shutil.copy(source, root / "brig")
    (root / "brig").chmod(0o755)
    # Inside a sandbox it is the release that runs: sanitizers need more than a sandbox gives. They see it in test/init.
    shutil.copy(harness.ROOT / "build" / "brig-init", root / "brig-init")
    (root / "brig-init").chmod(0o755)
    yield root / "brig"
    left = [pid for pid in harness.pids() if harness.link(pid, "exe").startswith(str(root))]
    shutil.rmtree(root, ignore_errors=True)
    assert not left, f"brig still runs after the last test: {left}"
    assert not root.exists()


@pytest.fixture(scope="session")
def version(exe):
    return json.loads(subprocess.run([exe, "version", "--json"], capture_output=True, check=True).stdout)


@pytest.fixture(scope="session")
def accounts():
    """Who the tests can be. The ordinary user is made once and removed by whoever made it."""
    with harness.accounts(USER) as found:
        yield found


@pytest.fixture
def who(request, accounts):
    return accounts[request.param]


@pytest.fixture
def tier(request):
    return request.param


@pytest.fixture
def brig(request, who, tier, exe, version):
    """brig as one user in folders of its own, and the proof that it leaves nothing."""
    name = re.sub(r"\W+", "-", request.node.originalname)[:40]
    folder = exe.parent / f"{name}-{uuid.uuid4().hex[:8]}"
    brig = harness.Brig(who, tier, exe, folder, version)
    yield brig
    brig.end_sandboxes()
    try:
        brig.settle()
        reports = harness.sanitizer_reports(brig.log)
        assert not reports, "\n".join(reports)
    finally:
        for pid in harness.processes_of(brig):
            harness.kill(pid)
        remove(folder)


def remove(folder):
    """Also what a test closed or nested too deeply for Python."""
    subprocess.run(["chmod", "-R", "u+rwx", folder], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def hooks(version):
    """For tests that make a step fail: only a test build can."""
    if not version["test_build"]:
        pytest.skip("needs a test build (meson -Dtest_hooks=true): this brig cannot be made to fail on purpose")


@pytest.fixture
def mark():
    """A word that no other process of this host has in its arguments."""
    return f"brigmark{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def helper(exe):
    """Compiles a C program of this folder, or skips."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    built = {}

    def build(name):
        if not compiler:
            pytest.skip("needs a C compiler to build its helper")
        if name not in built:
            target = exe.parent / name
            subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-static", "-o", target,
                            Path(__file__).parent / f"{name}.c"], check=True)
            target.chmod(0o755)
            built[name] = target
        return built[name]

    return build
