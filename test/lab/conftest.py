"""The fixtures of the end-to-end tests, and what the kernel said: its log and its trace, kept by "guest"."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

E2E = Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))
_spec = importlib.util.spec_from_file_location("e2e_fixtures", E2E / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
globals().update({name: value for name, value in vars(_fixtures).items() if not name.startswith("_")})


class Kernel:
    """Lines that the kernel wrote since the test began."""

    def __init__(self):
        self.is_old = tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12)
        self.files = {name: Path("/run/lab") / name for name in ("kmsg", "trace")}
        self.begin = {name: path.stat().st_size for name, path in self.files.items()}

    def lines(self, name, *words):
        with self.files[name].open("rb") as file:
            file.seek(self.begin[name])
            text = file.read().decode(errors="replace")
        return [line for line in text.splitlines() if all(word in line for word in words)]


@pytest.fixture
def kernel():
    if "LAB_WHO" not in os.environ:
        pytest.skip("needs the lab's machine: make lab")
    return Kernel()


@pytest.fixture(autouse=True)
def is_ready(tier, brig, kernel):
    """As far as an old kernel has the tier. Here all else is there."""
    state = {t["tier"]: t["state"] for t in json.loads(brig("doctor", "--json").out)["tiers"]}[tier]
    if state != "ready" and kernel.is_old:
        pytest.skip(f"the {tier} tier is {state}")
    assert state == "ready"
