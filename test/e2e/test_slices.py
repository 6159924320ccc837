"""Sandboxes of several parties under one brig: what one of them has no other gets, and bounds that no option widens."""

import json
import os
import uuid
from pathlib import Path

import pytest

import harness

BLOCK = 8 * 65536


@pytest.fixture
def slices():
    mark = uuid.uuid4().hex[:8]
    return [f"acme.{mark}", f"beta_{mark}"]


def warden(brig, sandbox):
    return json.loads((brig.folder / "state" / "brig" / "live" / sandbox.id).read_text())["pid"]


def processes(brig, sandbox):
    """Of the sandbox itself: in its user namespace, or below its warden."""
    return [pid for pid in harness.descendants(warden(brig, sandbox)) if harness.comm(pid) == "brig-init\n"]


def first_id(brig, sandbox):
    """Where the ids of the sandbox begin on the host, told by the kernel and not from inside."""
    inside, outside, count = map(int, Path(f"/proc/{processes(brig, sandbox)[0]}/uid_map").read_text().split()[:3])
    assert (inside, count) == (0, 65536)
    return outside


def own_cgroups(brig, sandbox):
    lines = Path(f"/proc/{processes(brig, sandbox)[0]}/cgroup").read_text().splitlines()
    return [line.split(":", 2)[2] for line in lines if "brig-" in line.split(":", 2)[2]]


def left_of(slice_name):
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if slice_name in path]


@pytest.mark.tier("container")
def test_no_two_slices_ever_have_the_same_ids(brig, slices):
    if not brig.who.is_root:
        pytest.skip("an ordinary user has no ids to give")
    seen = {name: set() for name in [*slices, None]}
    for _ in range(3):
        made = [(name, brig.create(*(["--slice", name] if name else []))) for _ in range(3) for name in seen]
        for name, sandbox in made:
            seen[name].add(first_id(brig, sandbox))
        assert len({first_id(brig, sandbox) for _, sandbox in made}) == len(made)
        # Given back, to be taken again by anybody who may.
        brig.end_sandboxes()
        brig.settle()
    blocks = [{first // BLOCK for first in ids} for ids in seen.values()]
    assert not (blocks[0] & blocks[1] or blocks[0] & blocks[2] or blocks[1] & blocks[2]), seen


def test_a_slice_has_cgroups_of_its_own(brig, slices):
    # With a limit the process tier has one, too.
    made = [(name, brig.create("--slice", name, *(["--pids", "100"] if brig.who.is_root else []))) for name in (*slices, slices[0])]
    found = [own_cgroups(brig, sandbox) for _, sandbox in made]
    if not any(found):
        pytest.skip("this host gives this user no cgroup")
    for (name, sandbox), paths in zip(made, found):
        assert paths and all(path.endswith(f"/brig-slice-{name}/brig-{sandbox.id}") for path in paths), paths
        assert sandbox.exec("--", "true").code == 0
    # The first one that ends takes nothing away from the others.
    brig("kill", made[0][1].id)
    assert made[2][1].exec("--", "true").code == 0
    brig.end_sandboxes()
    brig.settle()
    harness.wait_until(lambda: not left_of(slices[0]) and not left_of(slices[1]), lambda: left_of(slices[0]) + left_of(slices[1]))


def test_limits_and_pauses_are_as_good_in_a_slice(brig, slices):
    if not brig.who.is_root:
        pytest.skip("an ordinary user of this host may have no cgroup")
    sandbox = brig.create("--slice", slices[0], "--pids", "30", "--memory", "200M")
    forks = sandbox.exec("--", "python3", "-c", "import os, time\nfor _ in range(60):\n    if os.fork() == 0: time.sleep(5); os._exit(0)")
    assert forks.code != 0 and "temporarily unavailable" in forks.error, forks
    assert brig("pause", sandbox.id).code == 0
    assert brig("resume", sandbox.id).code == 0
    assert sandbox.exec("--", "echo", "on").text == "on\n"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 65, "a\nb", "\x1b"])
def test_what_cannot_be_a_slice_is_refused(brig, name):
    assert "slice" in brig.refused("create", "--slice", name)


# --- bounds ---

WRITES = ["--", "sh", "-c", "echo new > file && cat file"]


def bound(brig, name, text):
    return brig.who.write(brig.folder / name, "version: 1\nextends: [base]\n" + text)


def test_within_takes_back_what_options_grant(brig):
    plain = brig.run("--allow-write", ".", *WRITES)
    assert plain.text == "new\n", plain
    bounded = bound(brig, "bound.yaml", f'fs:\n  "{brig.work}": read\n')
    for order in (["--within", bounded, "--allow-write", "."], ["--allow-write", ".", "--within", bounded]):
        done = brig.run(*order, *WRITES)
        assert done.code != 0 and done.text == "", done
    assert brig.run("--within", bounded, "--allow-write", ".", "--", "cat", "file").text == "new\n"


def test_within_is_no_grant(brig):
    wider = bound(brig, "wider.yaml", f'fs:\n  "{brig.work}": write\n')
    narrow = brig.who.write(brig.folder / "narrow.yaml", f'version: 1\nextends: [base]\nfs:\n  "{brig.work}": read\n')
    done = brig.run("--policy", narrow, "--within", wider, *WRITES)
    assert done.code != 0 and done.text == "", done


def test_all_of_several_bounds_hold(brig):
    first = bound(brig, "first.yaml", f'fs:\n  "{brig.work}": write\nlimits:\n  files: 100\n')
    second = bound(brig, "second.yaml", f'fs:\n  "{brig.work}": read\nlimits:\n  files: 200\n')
    for order in ([first, second], [second, first]):
        options = [word for file in order for word in ("--within", file)]
        done = brig.run(*options, "--allow-write", ".", *WRITES)
        assert done.code != 0 and done.text == "", done
        assert brig.run(*options, "--files", "300", "--", "sh", "-c", "ulimit -n").text == "100\n"
    assert "--within" in brig.refused("run", *["--within", first] * 5, "--", "true")


def test_a_sandbox_that_lives_is_bounded_too(brig):
    bounded = bound(brig, "bound.yaml", "limits:\n  files: 77\n")
    sandbox = brig.create("--within", bounded, "--files", "300")
    assert sandbox.exec("--", "sh", "-c", "ulimit -n").text == "77\n"


def test_bounds_that_cannot_be_read_refuse_the_start(brig):
    assert "nosuch" in brig.refused("run", "--within", "nosuch", "--", "true")
    assert "missing.yaml" in brig.refused("run", "--within", "./missing.yaml", "--", "true")
    bad = brig.who.write(brig.folder / "bad.yaml", "version: 1\nlimitz: {}\n")
    assert "limits" in brig.refused("create", "--within", bad)


@pytest.mark.tier("process")
def test_a_tier_below_the_least_is_refused(brig):
    assert brig.run("--at-least", "process", "--", "true").code == 0
    for options in ([], ["--floor", "process"], ["--floor", "auto"]):
        assert "below" in brig.refused("run", *options, "--at-least", "container", "--", "true")
        assert "below" in brig.refused("create", "--at-least", "container", "--at-least", "process", *options)
    assert "at-least" in brig.refused("run", "--at-least", "weakest", "--", "true")
    assert "at-least" in brig.refused("run", "--at-least", "auto", "--", "true")


@pytest.mark.tier("container")
def test_the_least_does_not_lower_a_floor(brig):
    assert brig.run("--at-least", "process", "--floor", "container", "--isolation", "container", "--", "true").code == 0
    assert "floor is vm" in brig.refused("run", "--at-least", "process", "--floor", "vm", "--", "true")
    assert "below" in brig.refused("run", "--isolation", "process", "--floor", "container", "--at-least", "process", "--", "true")
