"""A second thread changes a path while it is judged: nothing happens that was not judged.

In one "make test", here and in test_net_shared.py, a path, an address and a message header are each judged more than
100,000 times while they change; most of it with the release build, which is faster. BRIG_TEST_ROUNDS sets the number
for each test."""

import harness
import pytest


@pytest.fixture
def race(brig, helper):
    """race(options, good, bad): what the program says of itself, in a folder that it may write."""
    program = helper("races")
    folder = brig.who.mkdir(brig.work / "out", 0o777)

    def run(options, good, bad, **more):
        words = [*options, "--allow-read", program, "--allow-write", folder, "--", program, good, bad, folder / "old", harness.rounds(brig)]
        done = brig.run(*words, timeout=300, **more)
        assert done.code == 0, done
        return [int(word) for word in done.text.split()]

    return run


def outside(brig):
    """A folder that the sandbox may read and not write, with a path in it as long as one in its own."""
    away = brig.who.mkdir(brig.work / "off", 0o777)
    return brig.work / "out" / "name", away / "name"


def test_a_path_that_changes(brig, race):
    good, bad = outside(brig)
    *done, refused = race(["--allow-read", bad.parent], good, bad)
    assert all(done) and refused, (done, refused)
    assert list(bad.parent.iterdir()) == []


@pytest.mark.tier("container")
def test_a_guarded_name_in_its_place(brig, race):
    """One that does not exist yet, so that no mount protects it: the keeper's own verdict."""
    good, bad = brig.work / "out" / "name", brig.work / "out" / "evil"
    *done, refused = race(["--deny", bad], good, bad)
    assert all(done) and refused, (done, refused)
    assert not bad.is_symlink() and not bad.exists()


def test_the_race_is_won_without_a_wall(brig, race, hooks):
    """Landlock, or the keeper's verdict on names. Mounts cannot be left out."""
    if brig.is_container:
        good, bad = brig.work / "out" / "name", brig.work / "out" / "evil"
        race(["--deny", bad], good, bad, env={"BRIG_TEST_WITHOUT": "metadata"})
    else:
        good, bad = outside(brig)
        race(["--allow-read", bad.parent], good, bad, env={"BRIG_TEST_WITHOUT": "files"})
    assert bad.is_symlink() or bad.exists()
