"""brig inside a default Docker container: no namespaces, no mounts, no cgroup that can be written.

The container tier cannot be had there, and the process tier takes over, in words."""

import json
import signal
import subprocess

import pytest

import harness

pytestmark = pytest.mark.tier("container")  # as a person types it: without naming a tier


def inside(brig, helper):
    """In front of brig, and what keeps it from the cgroups that root has here."""
    options = {"before": [helper("dockerlike")]}
    if brig.who.is_root and brig.version["test_build"]:
        options["env"] = {"BRIG_TEST_FAIL": "cgroup=1"}
    return options


def test_the_profile_really_refuses(brig, helper):
    for command in (["unshare", "-U", "true"], ["unshare", "-m", "true"], ["mount", "-t", "tmpfs", "x", "/mnt"]):
        done = subprocess.run([*brig.who.prefix(), helper("dockerlike"), f"/usr/bin/{command[0]}", *command[1:]],
                              capture_output=True)
        assert done.returncode != 0 and any(
            word in done.stderr for word in (b"not permitted", b"superuser", b"permission denied"))


def test_a_command_runs_behind_every_wall(brig, helper):
    brig.who.write(brig.folder / "secret", "SECRET")
    script = f"cat {brig.folder}/secret; touch x; echo ran; exit 7"
    result = brig.json("--", "sh", "-c", script, **inside(brig, helper))
    assert (result["exit_code"], result["stdout"]) == (7, "ran\n")
    assert not (brig.work / "x").exists()
    assert {"files", "signals", "syscalls", "network", "privileges"} <= {w["name"] for w in result["enforcement"]}
    assert result["isolation"] == "process"


def test_the_weaker_tier_is_taken_in_one_line(brig, helper):
    done = brig.run("--", "echo", "ran", **inside(brig, helper))
    assert (done.code, done.out) == (0, b"ran\n")
    assert done.error.startswith("brig: process tier instead of container: ") and done.error.count("\n") == 1
    assert "user namespaces" in done.error


def test_who_asks_for_the_container_tier_is_told_the_remedy(brig, helper):
    for options in (["--isolation", "container"], ["--floor", "container"]):
        said = brig.refused("run", *options, "--", "touch", brig.tmp / "canary", **inside(brig, helper))
        assert "container tier needs user namespaces" in said and "--isolation process" in said
    assert not (brig.tmp / "canary").exists()


@pytest.mark.parametrize("options", [["--overlay", "."], ["--allow", "nested"], ["--image", "/"]], ids=lambda o: o[0])
def test_what_only_a_container_holds_is_refused_there(brig, helper, options):
    """The weaker tier takes over what it can hold, and nothing else."""
    brig.who.mkdir(brig.work / "sub")
    done = brig.run(*options, "--", "touch", "canary", **inside(brig, helper))
    assert done.code == 125 and "container tier" in done.error
    assert not (brig.work / "canary").exists()


def test_limits_hold_without_a_cgroup(brig, helper):
    options = inside(brig, helper)
    assert brig.json("--wall", "200ms", "--", "sleep", "60", **options)["reason"] == "timeout"
    assert brig.json("--cpu-time", "200ms", "--", "sh", "-c", "while :; do :; done", **options)["reason"] == "cpu"
    assert brig.run("--files", "33", "--", "sh", "-c", "ulimit -n", **options).out == b"33\n"


def test_the_whole_tree_ends(brig, helper, mark):
    process = brig.start("run", "--", "sh", "-c", f"(setsid sleep 600; : {mark}) & echo ready; wait", **inside(brig, helper))
    harness.wait_for_line(process, b"ready")
    process.send_signal(signal.SIGTERM)
    assert harness.finish(process).code == 128 + signal.SIGTERM
    assert not harness.marked(mark)


def test_doctor_finds_process_ready_and_says_what_the_container_tier_lacks(brig, helper):
    """The default tier is not ready, and the status says so."""
    done = brig("doctor", "--json", **inside(brig, helper))
    report = json.loads(done.out)
    assert done.code == 1 and not report["ready"]
    tiers = {t["tier"]: t for t in report["tiers"]}
    assert tiers["process"]["state"] == "ready"
    facts = {f["name"]: f for f in report["host"]}
    assert facts["landlock"]["ok"] and facts["seccomp"]["ok"]
    assert not facts["userns"]["ok"] and facts["userns"]["remedy"]
    assert tiers["container"]["missing"] and tiers["container"]["remedy"]


def test_python_works_there(brig, helper):
    code = ("import subprocess, threading\n"
            "t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n"
            "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)")
    assert brig.python(code, **inside(brig, helper)).out == b"thread\nb'child\\n'\n"
