"""Two stages, for root and for an ordinary user, and the summary that counts walls and what the host lacks."""

import os

import pytest
from ground import make_ground, remove_ground
from stage_client import TEST_USER, StageClient, make_user, score


@pytest.fixture(scope="session")
def stages():
    if os.geteuid() != 0:
        pytest.skip("the stage needs root for its namespaces: run the tests as root or with sudo")
    make_user()
    clients = {"root": StageClient("root"), "user": StageClient(TEST_USER)}
    yield clients
    for client in clients.values():
        client.done()


@pytest.fixture(params=["root", "user"])
def ground(request, tier):
    if os.geteuid() != 0:
        pytest.skip("needs root to change to another user: run the tests as root or with sudo")
    made = make_ground(request.param, tier)
    yield made
    remove_ground(made)


def pytest_terminal_summary(terminalreporter):
    report = terminalreporter.write_line
    if score["absent"]:
        report(f"not counted, this host or user lacks it: {len(score['absent'])}")
        for name, why in sorted(score["absent"].items()):
            report(f"  {name}: {why}")
    for tier, names in sorted(score["limits"].items()):
        report(f"known limits of the {tier} tier, still open: {', '.join(sorted(names))}")
    if score["walls"]:
        found = [wall for wall, probes in score["walls"].items() if probes]
        for wall, probes in sorted(score["walls"].items()):
            report(f"  without {wall}: {', '.join(sorted(probes)) or 'NOT DETECTED'}")
        report(f"mutation score: {len(found)} of {len(score['walls'])} walls are missed when they are knocked out")
