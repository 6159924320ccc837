"""Attacks that take more than one act: a hostile private folder, links for the next run, output that lies."""

import json
import os
import time

import pytest
from ground import processes_with


@pytest.fixture(params=["process", "container"])
def tier(request):
    return request.param


HOSTILE_FOLDER = """
cd "$TMPDIR"
ln -s {outside} link
ln -s {outside}/canary file
mkdir -p deep/deep/deep && ln -s {outside} deep/deep/deep/link
mkdir closed && ln -s {outside} closed/link && touch closed/file && chmod 000 closed
mkfifo fifo
i=0; while [ $i -lt 300 ]; do mkdir d && cd d || break; i=$((i+1)); done; ln -s {outside} bottom
"""


def test_private_folder_is_removed_without_following(ground):
    result = ground.sh(HOSTILE_FOLDER.format(outside=ground.outside))
    assert result.returncode == 0, result.stderr
    assert ground.intact()
    assert list(ground.temporary.iterdir()) == []


def test_private_folder_exchanged_for_a_link(ground):
    """The folder itself lies in one that the sandbox cannot change."""
    result = ground.sh(f'cd /; mv "$TMPDIR" "$TMPDIR.away" || rmdir "$TMPDIR"; ln -sT {ground.outside} "$TMPDIR"')
    assert result.returncode != 0
    assert ground.intact()
    assert list(ground.temporary.iterdir()) == []


def test_private_folder_inside_the_writable_one(ground):
    """With TMPDIR below a writable folder, the sandbox can exchange its own private folder."""
    ground.temporary = ground.work / "tmp"
    ground.temporary.mkdir()
    os.chown(ground.temporary, ground.user.pw_uid, ground.user.pw_gid)
    ground.sh(f'cd /; mv "$TMPDIR" "{ground.work}/away"; ln -sT {ground.outside} "$TMPDIR"; touch {ground.work}/ran')
    assert (ground.work / "ran").exists()
    assert ground.intact()


def test_link_planted_for_the_next_run(ground):
    """The first run leaves a link where the second is told to write."""
    assert ground.sh(f"ln -s {ground.outside} {ground.work}/build").returncode == 0
    result = ground.sh("echo spoiled > build/canary", "--allow-write", ground.work / "build")
    assert result.returncode != 0
    assert ground.intact()


def test_policy_planted_for_the_next_run(ground):
    """A policy file in the working folder can narrow, not widen."""
    policy = f"version: 1\\nfs:\\n  {ground.outside}: write\\nallow: [debug]\\n"
    assert ground.sh(f"printf '{policy}' > .brig.yaml").returncode == 0
    ground.sh(f"echo spoiled > {ground.outside}/canary")
    assert ground.intact()


FAKE = '{"sandbox":"x","exit_code":0,"reason":"exit","stdout":"all is well","denials":[]}'


def test_output_that_imitates_the_result(ground):
    result = ground.sh(f"echo '{FAKE}'; echo '{FAKE}' >&2; exit 3", "--json")
    report = json.loads(result.stdout)
    assert report["exit_code"] == 3 and report["reason"] == "exit"
    assert report["stdout"] == report["stderr"] == FAKE + "\n"


@pytest.mark.parametrize("status", [124, 125, 137, 143, 159])
def test_faked_reason(ground, status):
    report = json.loads(ground.sh(f"exit {status}", "--json").stdout)
    assert (report["exit_code"], report["reason"], report["signal"]) == (status, "exit", None)


def test_faked_timeout_is_a_signal(ground):
    report = json.loads(ground.sh("kill -TERM $$", "--json", "--wall", "20s").stdout)
    assert report["reason"] == "signal"


def test_bomb_is_gone_at_the_deadline(ground):
    mark = f"31{os.getpid()}"
    script = f"trap '' TERM INT HUP; i=0; while [ $i -lt 120 ]; do (setsid sleep {mark} &); i=$((i+1)); done; sleep {mark}"
    started = time.monotonic()
    result = ground.sh(script, "--wall", "1s")
    assert result.returncode == 124, result.stderr
    assert processes_with(mark) == []
    assert time.monotonic() - started < 30


def test_orphans_are_reaped(ground):
    """More orphans in turn than processes are granted at a time."""
    script = "i=0; while [ $i -lt 400 ]; do (true &) || exit 9; i=$((i+1)); done; echo all"
    options = ["--pids", "200"] if ground.user.pw_uid == 0 else []
    result = ground.sh(script, *options)
    assert result.stdout == "all\n", result.stderr
