"""What becomes of sandboxes when daemon, forge and wardens end, at any moment; time; quotas; leaks."""

import concurrent.futures
import http.client
import json
import os
import resource
import signal
import subprocess
import time

import harness
import pytest
from conftest import wait_for
from connect_wire import Stream, command

GONE = (ConnectionError, http.client.HTTPException)


def ids(daemon):
    answer = daemon.ask("GET", "/v2/sandboxes?state=running,paused")
    assert answer.status == 200, answer
    return {sandbox["sandboxID"]: sandbox["state"] for sandbox in answer.json}


def alive(daemon):
    """Those that live, as brig itself says: id and state."""
    rows = json.loads(daemon.brig("ps", "--json").stdout)["sandboxes"]
    return {row["sandbox"]: row["state"] for row in rows}


def manifest(daemon, sandbox):
    return json.loads((daemon.state / "brig" / "live" / sandbox).read_text())


def reach(daemon, made):
    """A request to what is inside: 200, or 502 when it is gone."""
    return daemon.inside(made, "POST", "/process.Process/List", {}).status


def forges(daemon):
    return [pid for pid in harness.children(daemon.process.pid) if b"forge" in harness.cmdline(pid)]


def dies(daemon, call):
    """A request during which the daemon is killed."""
    with pytest.raises(GONE):
        call()
    daemon.process.wait(harness.HANG)
    daemon.process.stdout.close()
    daemon.process = None


@pytest.fixture(scope="module")
def hooks(exe):
    """For tests that kill the daemon at a named point: only a test build can."""
    version = json.loads(subprocess.run([exe, "version", "--json"], capture_output=True, check=True).stdout)
    if not version["test_build"]:
        pytest.skip("needs a test build (meson -Dtest_hooks=true): this brig cannot be made to fail on purpose")


# The daemon.


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_sandboxes_outlive_the_daemon_and_are_adopted(own_daemon, how):
    made = own_daemon.start().make(metadata={"a": "b"})
    other = own_daemon.make()
    own_daemon.stop(how)
    assert set(alive(own_daemon)) == {made["sandboxID"], other["sandboxID"]}
    own_daemon.start()
    assert ids(own_daemon) == {made["sandboxID"]: "running", other["sandboxID"]: "running"}
    answer = own_daemon.ask("GET", f"/sandboxes/{made['sandboxID']}")
    assert answer.json["metadata"] == {"a": "b"}
    assert reach(own_daemon, made) == 200
    assert own_daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204
    assert list(alive(own_daemon)) == [other["sandboxID"]]


def test_what_ended_while_no_daemon_was_there_is_gone(own_daemon):
    made = own_daemon.start().make()
    own_daemon.kill9()
    own_daemon.brig("kill", made["sandboxID"])
    own_daemon.start()
    assert ids(own_daemon) == {}
    assert own_daemon.ask("GET", f"/sandboxes/{made['sandboxID']}").status == 404
    assert reach(own_daemon, made) == 502


def test_sandboxes_of_a_person_are_left_alone(own_daemon):
    own_daemon.start()
    mine = own_daemon.brig("create").stdout.decode().strip()
    own_daemon.restart()
    assert ids(own_daemon) == {}
    assert mine in alive(own_daemon)


@pytest.mark.parametrize("point, is_there", [("intent", False), ("made", False), ("stored", True)])
def test_the_daemon_is_killed_while_it_makes_one(own_daemon, hooks, point, is_there):
    own_daemon.start(env={"BRIG_TEST_DIE": f"serve:create:{point}"})
    dies(own_daemon, own_daemon.make)
    own_daemon.start()
    if is_there:
        (made,) = ids(own_daemon)
        assert own_daemon.ask("DELETE", f"/sandboxes/{made}").status == 204
    assert ids(own_daemon) == {}
    wait_for(lambda: not alive(own_daemon), "the end of a sandbox that nobody knows")


def test_the_daemon_is_killed_while_it_ends_one(own_daemon, hooks):
    own_daemon.start(env={"BRIG_TEST_DIE": "serve:kill:removed"})
    made = own_daemon.make()
    dies(own_daemon, lambda: own_daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}"))
    assert made["sandboxID"] in alive(own_daemon)
    own_daemon.start()
    assert ids(own_daemon) == {}
    wait_for(lambda: not alive(own_daemon), "the end of a sandbox that was killed")


@pytest.mark.parametrize("point", ["stored", "done"])
def test_the_daemon_is_killed_while_it_pauses_one(own_daemon, hooks, point):
    own_daemon.start(env={"BRIG_TEST_DIE": f"serve:pause:{point}"})
    made = own_daemon.make()["sandboxID"]
    dies(own_daemon, lambda: own_daemon.ask("POST", f"/sandboxes/{made}/pause"))
    own_daemon.start()
    assert ids(own_daemon) == {made: "paused"}
    wait_for(lambda: alive(own_daemon) == {made: "paused"}, "the pause")


@pytest.mark.parametrize("point", ["stored", "done"])
def test_the_daemon_is_killed_while_it_resumes_one(own_daemon, hooks, point):
    own_daemon.start(env={"BRIG_TEST_DIE": f"serve:resume:{point}"})
    made = own_daemon.make()["sandboxID"]
    assert own_daemon.ask("POST", f"/sandboxes/{made}/pause").status == 204
    dies(own_daemon, lambda: own_daemon.ask("POST", f"/v2/sandboxes/{made}/connect", {"timeout": 60}))
    own_daemon.start()
    assert ids(own_daemon) == {made: "running"}
    wait_for(lambda: alive(own_daemon) == {made: "running"}, "the resume")


# Wardens.


def test_the_end_of_a_warden_is_noticed(own_daemon):
    made = own_daemon.start().make()
    assert reach(own_daemon, made) == 200
    os.kill(manifest(own_daemon, made["sandboxID"])["pid"], signal.SIGKILL)
    wait_for(lambda: not ids(own_daemon), "the end of the sandbox")
    assert reach(own_daemon, made) == 502
    assert own_daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}").status == 404


def test_one_that_is_killed_by_hand_is_noticed(own_daemon):
    made = own_daemon.start().make()
    own_daemon.brig("kill", made["sandboxID"])
    wait_for(lambda: not ids(own_daemon), "the end of the sandbox")
    assert reach(own_daemon, made) == 502


def test_a_sandbox_is_gone_before_it_is_killed(own_daemon):
    """Once a kill was begun nobody is sent to the sandbox any more, however long its end takes."""
    made = own_daemon.start().make()
    warden = manifest(own_daemon, made["sandboxID"])["pid"]
    os.kill(warden, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            killing = pool.submit(own_daemon.ask, "DELETE", f"/sandboxes/{made['sandboxID']}")
            wait_for(lambda: not ids(own_daemon), "the sandbox to be gone")
            assert reach(own_daemon, made) == 502
            assert not killing.done()
            os.kill(warden, signal.SIGCONT)
            assert killing.result().status == 204
    finally:
        harness.kill(warden, signal.SIGCONT)
    assert not alive(own_daemon)


# The forge.


def test_wardens_have_nothing_of_the_forge(own_daemon):
    made = own_daemon.start().make()
    (forge,) = forges(own_daemon)
    warden = manifest(own_daemon, made["sandboxID"])["pid"]

    def open_in(pid):
        """What is open, but for folders and devices, which a warden opens by itself."""
        links = {harness.link(pid, f"fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        return {link for link in links if link.startswith(("socket:", "pipe:")) or os.path.isfile(link)}

    ours = open_in(forge) | open_in(own_daemon.process.pid)
    assert any(link.startswith("socket:") for link in ours) and str(own_daemon.log_path) in ours
    for pid in (warden, *harness.descendants(warden)):
        assert not open_in(pid) & ours
    assert harness.cmdline(warden).startswith(b"brig-warden\0")
    assert os.getsid(warden) == warden


def limit_of_files(pid):
    (line,) = (line for line in open(f"/proc/{pid}/limits") if line.startswith("Max open files"))
    return line.split()[3]


def test_programs_have_the_usual_number_of_descriptors(own_daemon):
    """The daemon takes as many as it can get; what it starts does not."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (900, before[1]))
    try:
        own_daemon.start()
        made = own_daemon.make()["sandboxID"]
        by_hand = own_daemon.brig("create").stdout.decode().strip()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    (forge,) = forges(own_daemon)
    assert limit_of_files(own_daemon.process.pid) != "900"
    assert limit_of_files(forge) == "900"
    mine, yours = ({limit_of_files(pid) for pid in harness.descendants(manifest(own_daemon, one)["pid"])}
                   for one in (made, by_hand))
    assert mine == yours


def test_a_forge_that_was_killed_is_started_anew(own_daemon):
    made = own_daemon.start().make()
    (forge,) = forges(own_daemon)
    os.kill(forge, signal.SIGKILL)
    other = own_daemon.make()
    assert set(ids(own_daemon)) == {made["sandboxID"], other["sandboxID"]}
    assert reach(own_daemon, made) == reach(own_daemon, other) == 200
    assert forges(own_daemon) != [forge]


def test_a_forge_that_is_killed_in_the_midst_of_it(own_daemon):
    """What was under way is made after all, and nothing is left of what came to be twice."""
    own_daemon.start().make()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        makings = [pool.submit(own_daemon.make) for _ in range(8)]
        time.sleep(0.05)
        for forge in forges(own_daemon):
            os.kill(forge, signal.SIGKILL)
        made = {making.result()["sandboxID"] for making in makings}
    assert len(made) == 8
    wait_for(lambda: len(alive(own_daemon)) == 9, "the end of what nobody knows of")
    assert set(ids(own_daemon)) >= made


def test_the_forge_ends_with_the_daemon(own_daemon):
    own_daemon.start().make()
    (forge,) = forges(own_daemon)
    own_daemon.kill9()
    wait_for(lambda: not os.path.exists(f"/proc/{forge}"), "the end of the forge")


def test_a_host_that_lacks_something(own_daemon, hooks):
    """The forge falls back to the weaker tier where the policy allows it, as "brig create" does, and else says why not."""
    lacks = {"BRIG_TEST_FAIL": "host_userns=1,clone=1"}
    own_daemon.start(extra=["--policy", "base"], env=lacks)
    made = own_daemon.make()["sandboxID"]
    assert manifest(own_daemon, made)["isolation"] == "process"
    own_daemon.restart(extra=["--policy", "interpreter"], env=lacks)
    answer = own_daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"})
    assert answer.status >= 400 and "container tier needs" in answer.json["message"], answer
    assert set(ids(own_daemon)) == {made}


def test_a_policy_that_cannot_be_is_told_in_words(own_daemon):
    policy = own_daemon.work / "policy.yaml"
    policy.write_text("version: 1\nnonsense: 1\n")
    own_daemon.start(extra=["--policy", str(policy)])
    answer = own_daemon.ask("POST", "/v2/sandboxes", {"templateID": "base"})
    assert answer.status >= 400 and "nonsense" in answer.json["message"], answer
    policy.write_text("version: 1\n")
    assert own_daemon.make()


# Time.


def test_it_ends_at_the_end_of_its_time(own_daemon):
    made = own_daemon.start().make(timeout=4)
    assert reach(own_daemon, made) == 200
    wait_for(lambda: not ids(own_daemon), "the end of its time")
    assert reach(own_daemon, made) == 502
    wait_for(lambda: not alive(own_daemon), "the end of its warden")


def test_it_ends_in_time_without_a_daemon(own_daemon):
    own_daemon.start().make(timeout=1)
    own_daemon.kill9()
    wait_for(lambda: not alive(own_daemon), "the end of its time")


def test_it_is_paused_at_the_end_of_its_time(own_daemon):
    made = own_daemon.start().make(timeout=1, autoPause=True)["sandboxID"]
    wait_for(lambda: ids(own_daemon) == {made: "paused"}, "the pause")
    wait_for(lambda: alive(own_daemon) == {made: "paused"}, "the pause")
    assert own_daemon.ask("POST", f"/v2/sandboxes/{made}/connect", {"timeout": 60}).status == 201
    assert alive(own_daemon) == {made: "running"}


def test_it_is_paused_by_the_next_daemon(own_daemon):
    made = own_daemon.start().make(timeout=4, autoPause=True)["sandboxID"]
    own_daemon.kill9()
    time.sleep(6)
    assert alive(own_daemon) == {made: "running"}
    own_daemon.start()
    wait_for(lambda: alive(own_daemon) == {made: "paused"}, "the pause")


def test_what_is_paused_has_no_end(own_daemon):
    made = own_daemon.start().make(timeout=4)["sandboxID"]
    assert own_daemon.ask("POST", f"/sandboxes/{made}/pause").status == 204
    time.sleep(6)
    own_daemon.restart()
    assert ids(own_daemon) == alive(own_daemon) == {made: "paused"}
    assert own_daemon.ask("POST", f"/v2/sandboxes/{made}/connect", {"timeout": 1}).status == 201
    wait_for(lambda: not alive(own_daemon), "the end of its new time")


def test_a_time_that_was_changed_holds_without_a_daemon(own_daemon):
    made = own_daemon.start().make(timeout=300)["sandboxID"]
    assert own_daemon.ask("POST", f"/sandboxes/{made}/timeout", {"timeout": 1}).status == 204
    own_daemon.kill9()
    wait_for(lambda: not alive(own_daemon), "the end of its time")


def test_many_want_the_same_resume(own_daemon):
    made = own_daemon.start().make()["sandboxID"]
    for _ in range(3):
        assert own_daemon.ask("POST", f"/sandboxes/{made}/pause").status == 204
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(
                lambda _: own_daemon.ask("POST", f"/v2/sandboxes/{made}/connect", {"timeout": 60}).status, range(8)))
        assert set(answers) <= {200, 201}
        assert alive(own_daemon) == {made: "running"}


# Quotas.


def tenant(daemon, *options):
    made = daemon.brig("key", "create", "--tenant", "acme", "--json", *options)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)["key"]


def create(daemon, key):
    return daemon.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300}, key=key)


def test_no_more_sandboxes_than_the_tenant_may_have(own_daemon):
    own_daemon.start()
    key = tenant(own_daemon, "--max-sandboxes", "2")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: create(own_daemon, key), range(6)))
    assert sorted(answer.status for answer in answers) == [201, 201, 429, 429, 429, 429]
    for answer in answers:
        if answer.status == 429:
            assert 1 <= int(answer.headers["Retry-After"]) <= 61
            assert "acme" in answer.json["message"]
    # Others are not concerned, and what has ended makes room.
    assert own_daemon.make()
    made = next(answer.json["sandboxID"] for answer in answers if answer.status == 201)
    assert own_daemon.ask("DELETE", f"/sandboxes/{made}", key=key).status == 204
    assert create(own_daemon, key).status == 201


def test_no_faster_than_the_tenant_may(own_daemon):
    own_daemon.start()
    key = tenant(own_daemon, "--create-rate", "0.5")
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: create(own_daemon, key), range(10)))
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) >= 4 and len(answers) - len(refused) >= 5
    wait = int(refused[-1].headers["Retry-After"])
    assert 1 <= wait <= 3
    time.sleep(wait)
    assert create(own_daemon, key).status == 201


def test_a_quota_counts_what_an_earlier_daemon_made(own_daemon):
    own_daemon.start()
    key = tenant(own_daemon, "--max-sandboxes", "1")
    assert create(own_daemon, key).status == 201
    own_daemon.restart()
    assert create(own_daemon, key).status == 429


# Leaks.


def cgroups(sandboxes):
    """Those of these sandboxes, wherever the host has a tree of them."""
    return [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.removeprefix("brig-") in sandboxes]


def test_nothing_is_left_of_two_thousand(own_daemon, who):
    """Whole lives: descriptors, processes, cgroups and files are as many as before. Memory is what the sanitizer watches."""
    own_daemon.start()
    rounds, width = 2000 if who.name == "root" else 100, 8
    lived = set()

    def life(number):
        made = own_daemon.make()
        lived.add(made["sandboxID"])
        path = "/files?path=/home/user/file"
        written = own_daemon.inside(made, "POST", path, raw=b"%d" % number, headers={"Content-Type": "application/octet-stream"})
        assert written.status == 200, written
        with Stream(own_daemon, made, "process.Process/Start", command("cat file")) as stream:
            assert stream.run()[1]["stdout"] == b"%d" % number
        assert own_daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204

    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        list(pool.map(life, range(2 * width)))
        wait_for(lambda: not alive(own_daemon), "the ends of the first")
        before = own_daemon.descriptors()
        list(pool.map(life, range(rounds)))
    wait_for(lambda: own_daemon.descriptors() <= before + width, "descriptors to be closed")
    (forge,) = forges(own_daemon)
    assert len(os.listdir(f"/proc/{forge}/fd")) <= 5
    assert not alive(own_daemon)
    assert os.listdir(own_daemon.state / "brig" / "live") == []
    wait_for(lambda: not cgroups(lived), "the ends of all cgroups")
    wait_for(lambda: harness.children(forge) == [], "the ends of all wardens")
