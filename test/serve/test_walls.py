"""Walls between tenants: ids, cgroups, policy and floor of their own, judged from the host."""

import json
import uuid
from pathlib import Path

import pytest

import harness

BLOCK = 8 * 65536


def tenant(daemon, name, *options):
    done = daemon.brig("key", "create", "--tenant", name, *options)
    assert done.returncode == 0, done
    return done.stdout.decode().strip()


def make(daemon, key):
    answer = daemon.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300}, key=key)
    return answer.json["sandboxID"] if answer.status == 201 else answer


def init_of(daemon, sandbox):
    """The first process of the sandbox's own, found from its warden."""
    warden = json.loads((daemon.state / "brig" / "live" / sandbox).read_text())["pid"]
    return next(pid for pid in harness.descendants(warden) if harness.comm(pid) == "brig-init\n")


def first_id(daemon, sandbox):
    return int(Path(f"/proc/{init_of(daemon, sandbox)}/uid_map").read_text().split()[1])


def cgroups_of(daemon, sandbox):
    lines = Path(f"/proc/{init_of(daemon, sandbox)}/cgroup").read_text().splitlines()
    return [path for path in (line.split(":", 2)[2] for line in lines) if "brig-" in path]


@pytest.fixture
def names():
    mark = uuid.uuid4().hex[:6]
    return [f"acme-{mark}", f"beta-{mark}"]


def test_two_tenants_share_neither_ids_nor_cgroups(own_daemon, names):
    if not own_daemon.who.is_root:
        pytest.skip("an ordinary user has neither ids nor cgroups to give")
    daemon = own_daemon.start()
    keys = {name: tenant(daemon, name) for name in names}
    blocks = {name: set() for name in names}
    for _ in range(2):
        made = [(name, make(daemon, keys[name])) for _ in range(2) for name in names]
        for name, sandbox in made:
            blocks[name].add(first_id(daemon, sandbox) // BLOCK)
            paths = cgroups_of(daemon, sandbox)
            assert paths and all(path.endswith(f"/brig-slice-{name}/brig-{sandbox}") for path in paths), paths
        assert len({first_id(daemon, sandbox) for _, sandbox in made}) == len(made)
        for name, sandbox in made:
            assert daemon.ask("DELETE", f"/sandboxes/{sandbox}", key=keys[name]).status == 204
    assert not blocks[names[0]] & blocks[names[1]], blocks


def test_the_floor_of_a_tenant_holds_for_all_that_it_makes(own_daemon, names):
    daemon = own_daemon.start()
    free, walled = tenant(daemon, names[0]), tenant(daemon, names[1], "--floor", "vm")
    assert isinstance(make(daemon, free), str)
    refused = make(daemon, walled)
    assert refused.status >= 400 and "vm" in refused.json["message"], refused
    # From the next sandbox on, for keys that were made before, too.
    tenant(daemon, names[0], "--floor", "vm")
    assert make(daemon, free).status >= 400
    tenant(daemon, names[0], "--floor", "none")
    assert isinstance(make(daemon, free), str)


def test_quotas_hold_from_the_moment_they_are_set(own_daemon, names):
    daemon = own_daemon.start()
    key = tenant(daemon, names[0], "--max-sandboxes", "1")
    assert isinstance(make(daemon, key), str)
    over = make(daemon, key)
    assert over.status == 429 and int(over.headers["Retry-After"]) > 0 and over.json["message"], over
    tenant(daemon, names[0], "--max-sandboxes", "2")
    assert isinstance(make(daemon, key), str)
    assert make(daemon, key).status == 429
    tenant(daemon, names[0], "--max-sandboxes", "none")
    assert isinstance(make(daemon, key), str)
