"""A wall that does not come up refuses the start: one line that names the step, and nothing has run."""

import pytest

import harness

# What is made to fail, and what the line must name. This is the list of the process tier; test_container.py has its own.
STEPS = [
    ("landlock_create_ruleset=38", "landlock_create_ruleset"),
    ("landlock_abi=38", "no Landlock"),
    ("landlock_abi=1", "old Landlock"),
    ("landlock_abi=5", "--weaken signals"),
    ("landlock_add_rule=22", "Invalid argument"),
    ("landlock_restrict_self=1", "Landlock domain"),
    ("landlock_restrict_self=7", "Landlock domain"),
    ("seccomp=22", "system call filter"),
    ("seccomp=38", "system call filter"),
    ("no_new_privs=1", "privileges"),
    ("capset=1", "privileges"),
    ("close_range=38", "closing descriptors"),
    ("fork=11", "cannot start a process"),
    ("openat2=38", ""),
    ("openat2=24", ""),
]


@pytest.mark.tier("process")
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize("fail,words", STEPS, ids=[s[0] for s in STEPS])
def test_a_step_that_fails_refuses_the_start(brig, hooks, fail, words, json):
    out = brig.who.mkdir(brig.work / "out")
    said = brig.refused("run", *json, "--allow-write", out, "--", "touch", out / "canary", env={"BRIG_TEST_FAIL": fail})
    assert words in said
    assert not (out / "canary").exists()
    assert list(brig.tmp.iterdir()) == []


def test_the_canary_is_touched_when_nothing_fails(brig):
    out = brig.who.mkdir(brig.work / "out")
    assert brig.run("--allow-write", out, "--", "touch", out / "canary").code == 0
    assert (out / "canary").exists()


@pytest.mark.tier("process")
@pytest.mark.parametrize("fail", ["seccomp=22", "landlock_restrict_self=1", "capset=1", "close_range=38"])
def test_with_limits_the_cgroup_goes_too(brig, hooks, fail):
    said = brig.refused("run", "--memory", "100M", "--cpu-time", "10s", "--", "true", env={"BRIG_TEST_FAIL": fail})
    assert said


@pytest.mark.tier("process")
def test_signals_can_be_given_up_by_name_and_the_report_says_so(brig, hooks):
    old = {"BRIG_TEST_FAIL": "landlock_abi=5"}
    assert "--weaken signals" in brig.refused("run", "--", "true", env=old)
    result = brig.json("--weaken", "signals", "--", "echo", "ran", env=old)
    assert result["stdout"] == "ran\n"
    signals = next(w for w in result["enforcement"] if w["name"] == "signals")
    assert signals["mechanism"] == "none" and "--weaken signals" in signals["value"]


def test_a_weakened_sandbox_still_ends_as_a_whole(brig, mark):
    done = brig.run("--weaken", "signals", "--", "sh", "-c", f"(setsid sleep 600; : {mark}) & exit 4")
    assert done.code == 4
    assert not harness.marked(mark)
    result = brig.json("--weaken", "signals", "--wall", "500ms", "--", "sh", "-c",
                       f"trap '' TERM; (setsid sleep 600; : {mark}) & while :; do sleep 1; done")
    assert result["reason"] == "timeout"
    assert not harness.marked(mark)


@pytest.mark.tier("container")
def test_no_file_can_weaken(brig):
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [base]\nweaken: [signals]\n")
    assert "unknown key" in brig.refused("run", "--policy", "p.yaml", "--", "true")


@pytest.mark.tier("container")
def test_nothing_else_can_be_given_up(brig):
    for name in ("files", "syscalls", "network", "all", ""):
        assert "cannot be given up" in brig.refused("run", "--weaken", name, "--", "true")


def test_a_release_build_has_no_hooks(brig):
    if brig.version["test_build"]:
        pytest.skip("this is a test build")
    assert brig.run("--", "true", env={"BRIG_TEST_FAIL": "seccomp=22"}).code == 0
    assert b"BRIG_TEST" not in brig.exe.read_bytes()
