"""brig ps, stats, pause, resume, extend, kill and port: sandboxes that live, seen and handled from outside."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import jsonschema
import pytest

import harness
import standin


@pytest.fixture
def create(brig):
    """Makes sandboxes, and ends them."""
    made = []

    def make(*options):
        done = brig("create", *options)
        assert done.code == 0, done
        made.append(done.text.strip())
        return made[-1]

    yield make
    brig("kill", "--all")


def listed(brig, *options, mute=()):
    """The rows of brig ps, by id. All but those that say nothing answer in time, or are asked again."""
    def ask():
        done = brig("ps", "--json", *options)
        result = json.loads(done.out)
        jsonschema.Draft202012Validator(brig.schema("ps")).validate(result)
        assert done.code == 0 and done.err == b""
        return {row["sandbox"]: row for row in result["sandboxes"]}

    return harness.in_time(ask, lambda rows: all(row["state"] != "?" or sandbox in mute for sandbox, row in rows.items()))


def words(brig, *options):
    """The lines of brig ps, as words."""
    done = brig("ps", *options)
    assert done.code == 0 and done.err == b"", done
    lines = done.text.splitlines()
    assert lines[0].split() == ["SANDBOX", "NAME", "STATE", "TIER", "AGE", "LEFT", "PROCESSES", "MEMORY", "COMMAND"]
    return [line.split() for line in lines[1:]]


def test_where_nothing_lives_the_list_is_empty(brig):
    assert words(brig) == [] and listed(brig) == {} and brig("ps", "-q").out == b""
    assert brig("stats").text.count("\n") == 1 and brig("kill", "--all") == harness.Done(0, b"", b"")


def test_those_that_live_are_listed_the_newest_at_the_end(brig, create):
    first = create("--name", "first", "--wall", "1h")
    second = create()
    rows = listed(brig)
    assert list(rows) == [first, second]
    assert rows[first]["name"] == "first" and rows[second]["name"] is None
    assert {row["state"] for row in rows.values()} == {"running"}
    assert {row["isolation"] for row in rows.values()} == {brig.tier}
    assert 0 < rows[first]["left_ms"] <= 3600_000 and rows[second]["left_ms"] is None
    assert abs(rows[first]["created_ms"] - time.time() * 1000) < harness.HANG * 1000
    table = words(brig)
    assert [line[:4] for line in table] == [[first, "first", "running", brig.tier], [second, "-", "running", brig.tier]]
    assert brig("ps", "-q").text == f"{first}\n{second}\n"


def test_those_that_ended_are_listed_with_their_reason(brig, create):
    alive = create()
    killed = create()
    late = create("--wall", "2s")
    ran = brig.run("--", "sh", "-c", "exit 7")
    assert ran.code == 7
    brig("kill", killed)
    harness.wait_until(lambda: late not in listed(brig), "the deadline")
    assert list(listed(brig)) == [alive]
    rows = listed(brig, "-a")
    assert len(rows) == 4 and rows[alive]["state"] == "running" and rows[alive]["reason"] is None
    assert (rows[killed]["state"], rows[killed]["reason"]) == ("ended", "killed")
    assert (rows[late]["state"], rows[late]["reason"]) == ("ended", "timeout")
    other = next(row for id, row in rows.items() if id not in (alive, killed, late))
    assert (other["reason"], other["exit_code"]) == ("exit", 7) and other["command"].startswith("sh")
    assert "ended (timeout 124)" in brig("ps", "--all").text
    assert len(brig("ps", "-aq").text.split()) == 4


def test_one_whose_warden_was_killed_is_lost_once(brig, create):
    sandbox = create("--name", "gone")
    manifest = json.loads((brig.folder / "state" / "brig" / "live" / sandbox).read_text())
    os.kill(manifest["pid"], signal.SIGKILL)
    harness.wait_until(lambda: harness.state(manifest["pid"]) in ("", "Z"), "the warden to die")
    assert listed(brig)[sandbox]["state"] == "lost"
    assert listed(brig) == {}
    again = create("--name", "gone")
    assert list(listed(brig)) == [again]


def test_a_warden_that_does_not_answer_holds_nobody_up(brig, create):
    """One that is stopped, one that says nothing; the others are told of, and the wait has a bound."""
    sandbox, stopped = create(), create()
    manifest = json.loads((brig.folder / "state" / "brig" / "live" / stopped).read_text())
    os.kill(manifest["pid"], signal.SIGSTOP)
    try:
        with standin.Warden(brig, name="mute"):
            rows = listed(brig, mute=(standin.ID, stopped))
            assert (rows[standin.ID]["state"], rows[standin.ID]["name"]) == ("?", "mute")
            assert rows[stopped]["state"] == "?" and rows[sandbox]["state"] == "running"
            assert json.loads(brig("stats", "--json").out)["sandboxes"][0]["state"] in ("running", "?")
    finally:
        os.kill(manifest["pid"], signal.SIGCONT)
    harness.wait_until(lambda: listed(brig)[stopped]["state"] == "running", "the warden to answer again")


@pytest.mark.tier("container")
def test_a_queue_of_waiting_clients_holds_nobody_up(brig):
    """Not even a connection can be had: connect() would wait for ever."""
    with contextlib.ExitStack() as stack:
        warden = standin.Warden(brig)
        warden.listener.listen(0)
        waiting = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(8)]
        for sock in waiting:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(f"/proc/self/fd/{warden.folder}/{standin.ID}.socket")
        assert listed(brig, mute=[standin.ID])[standin.ID]["state"] == "?"
        stack.enter_context(warden)


@pytest.mark.tier("container")
@pytest.mark.parametrize("answer", ["garbage", "other", "end", "state"])
def test_nonsense_of_a_warden_is_no_answer(brig, answer):
    def say(one, m):
        if answer == "garbage":
            one.send_raw(b"\xff" * 100)
        elif answer == "other":
            one.send("DONE", m.call)
        elif answer == "state":
            one.send("STATUS_IS", m.call, STATE=99, TIME=(1 << 64) - 1, LEFT=0)
        else:
            raise standin.speaker.End

    with standin.Warden(brig, say):
        assert listed(brig, mute=[standin.ID])[standin.ID]["state"] == "?"
        assert words(brig)[0][:3] == [standin.ID, "-", "?"]


@pytest.mark.tier("container")
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": 3, "created": "x", "isolation": []}', "\0" * 100,
                                  '{"name": "\\u001b]0;evil\\u0007\\n\\u202eevil", "image": "\\u009b31m"}'])
def test_a_manifest_is_foreign_text(brig, text):
    """Whatever stands in it, a terminal gets one printable line."""
    def answer(one, m):
        one.send("STATUS_IS", m.call, STATE=0, TIME=1000) if m.kind == "STATUS" else standin.error(one, m.call, 38, "no")

    with standin.Warden(brig, answer, text=text):
        listed(brig)
        done = brig("ps")
        assert done.code == 0 and len(done.text.splitlines()) == 2
        assert all(c.isprintable() for c in done.text.replace("\n", "")), repr(done.text)
        assert standin.ID in brig("stats").text
        assert brig("completion", "sandboxes").code == 0


@pytest.mark.tier("container")
def test_many_are_asked_at_once(brig):
    """All wait for an answer that comes only when everybody has asked."""
    count, seen, everybody = 40, [], threading.Event()

    def answer(one, m):
        seen.append(1)
        if len(seen) >= count:
            everybody.set()
        everybody.wait(harness.HANG)
        one.send("STATUS_IS", m.call, STATE=0, TIME=1000, COUNT_OF=3, MEMORY=5 << 20, LEFT=61_000)

    with contextlib.ExitStack() as stack:
        for i in range(count):
            letters = chr(97 + i // 26) + chr(97 + i % 26)
            stack.enter_context(standin.Warden(brig, answer, id=f"standinaaa{letters}"))
        rows = listed(brig)
    assert len(rows) == count and {row["state"] for row in rows.values()} == {"running"}
    assert {(row["processes"], row["memory"], row["left_ms"]) for row in rows.values()} == {(3, 5 << 20, 61_000)}


def figures(brig, *names):
    result = json.loads(brig("stats", "--json", *names).out)
    jsonschema.Draft202012Validator(brig.schema("stats")).validate(result)
    return {row["sandbox"]: row for row in result["sandboxes"]}


def test_stats_of_all_or_of_those_named(brig, create):
    first, second = create("--name", "first"), create()
    assert set(figures(brig)) == {first, second} and set(figures(brig, "first")) == {first}
    assert brig("stats", second).text.splitlines()[1].split()[:3] == [second, "-", "running"]
    assert "no sandbox" in brig.refused("stats", "nosuch")


@pytest.mark.tier("container")
def test_stats_tell_the_disk(brig, create):
    sandbox = create("--disk", "64M")
    before = figures(brig)[sandbox]
    assert brig("exec", sandbox, "--", "sh", "-c", "head -c 10000000 /dev/zero > ~/file").code == 0
    after = figures(brig)[sandbox]
    assert after["disk"] - before["disk"] >= 9_000_000 and after["disk_size"] == before["disk_size"] > after["disk"]


@pytest.mark.tier("container")
def test_stats_are_what_the_warden_says(brig):
    """The figures of a sandbox, and the share of a CPU between two looks."""
    cpu = [0]

    def answer(one, m):
        if m.kind == "STATUS":
            cpu[0] += 250_000
            one.send("STATUS_IS", m.call, STATE=0, TIME=1000, CPU=cpu[0], MEMORY=1 << 20, PEAK=2 << 20, LIMIT=3 << 30,
                     COUNT_OF=7)
        else:
            one.send("USAGE_IS", m.call, COUNT_OF=99, MEMORY=99, CPU=99, DISK=4096, DISK_SIZE=1 << 30)

    with standin.Warden(brig, answer):
        assert figures(brig) == {standin.ID: {
            "sandbox": standin.ID, "name": None, "state": "running", "cpu_ms": 250, "cpu_percent": None,
            "memory": 1 << 20, "memory_limit": 3 << 30, "memory_peak": 2 << 20, "processes": 7, "disk": 4096,
            "disk_size": 1 << 30}}
        assert brig("stats").text.splitlines()[1].split() == [
            standin.ID, "-", "running", "0.50s", "-", "1.0M", "3.0G", "2.0M", "7", "4.0K", "1.0G"]
        process = brig.start("stats", "--follow", "--json", standin.ID)
        first, second = (json.loads(process.stdout.readline())["sandboxes"][0] for _ in range(2))
        process.kill()
        process.communicate()
    assert first["cpu_percent"] is None and second["cpu_ms"] == first["cpu_ms"] + 250
    assert 0 < second["cpu_percent"] <= 30


def test_following_ends_with_the_sandboxes(brig, create):
    sandbox = create()
    process = brig.start("stats", "-f", sandbox)
    harness.wait_for_line(process, process.stdout.readline().strip() or b"")  # the second look
    assert brig("kill", sandbox).code == 0
    assert harness.finish(process).code == 0


def test_paused_nothing_runs_until_it_is_resumed(brig, create):
    sandbox = create()
    assert brig("exec", "-d", sandbox, "--", "sh", "-c",
                "while :; do echo x >> ~/ticks; sleep 0.01; done").code == 0
    ticks = lambda: int(brig("exec", sandbox, "--", "sh", "-c", "wc -l < ~/ticks").text or 0)
    harness.wait_until(lambda: brig("exec", sandbox, "--", "sh", "-c", "test -s ~/ticks").code == 0, "the first tick")
    assert brig("pause", sandbox) == harness.Done(0, f"{sandbox}\n".encode(), b"")
    assert listed(brig)[sandbox]["state"] == "paused"
    assert brig("pause", sandbox).code == 0  # it is what was asked for
    row = figures(brig)[sandbox]
    assert row["state"] == "paused" and row["disk"] is None
    assert brig("resume", sandbox[:6]).text == f"{sandbox}\n"
    assert brig("resume", sandbox).code == 0
    assert listed(brig)[sandbox]["state"] == "running"
    before = ticks()
    harness.wait_until(lambda: ticks() > before, "it to go on")


def test_the_deadline_moves_both_ways_and_goes(brig, create):
    sandbox = create("--wall", "1h")
    left = lambda: listed(brig)[sandbox]["left_ms"]
    assert brig("extend", sandbox, "2h").text == f"{sandbox}\n" and 3600_000 < left() <= 7200_000
    assert brig("extend", sandbox, "30m").code == 0 and left() <= 1800_000
    assert brig("extend", sandbox, "never").code == 0 and left() is None
    for bad in ("", "soon", "-1s", "1", "99999999999999999999d"):
        brig.refused("extend", sandbox, "--", bad)
    assert left() is None


def test_kill_ends_several_and_says_which_did_not(brig, create):
    first, second, third = create(), create("--name", "second"), create()
    done = brig("kill", first, "nosuch", "second")
    assert done.code == 125 and done.text == f"{first}\n{second}\n"
    assert done.error == 'brig: there is no sandbox "nosuch" (see "brig ps")\n'
    assert list(listed(brig)) == [third]
    result = json.loads(brig("kill", "--json", third, "nosuch").out)
    jsonschema.Draft202012Validator(brig.schema("kill")).validate(result)
    assert [(row["sandbox"], row["ok"]) for row in result["sandboxes"]] == [(third, True), ("nosuch", False)]
    one, two = create(), create()
    assert sorted(brig("kill", "--all").text.split()) == sorted([one, two]) and listed(brig) == {}


def test_kill_removes_what_a_killed_warden_left(brig, create):
    sandbox = create()
    manifest = json.loads((brig.folder / "state" / "brig" / "live" / sandbox).read_text())
    os.kill(manifest["pid"], signal.SIGKILL)
    harness.wait_until(lambda: harness.state(manifest["pid"]) in ("", "Z"), "the warden to die")
    assert brig("kill", sandbox).text == f"{sandbox}\n"
    assert os.listdir(brig.folder / "state" / "brig" / "live") == []


@pytest.mark.tier("container")
@pytest.mark.parametrize("verb", ["pause", "resume", "extend", "kill"])
def test_what_a_warden_refuses_is_told_with_its_id(brig, verb):
    def answer(one, m):
        standin.error(one, m.call, 1, "not today\x1b[31m")

    with standin.Warden(brig, answer):
        error = brig.refused(verb, standin.ID, *(["1m"] if verb == "extend" else []))
    assert error == f"brig: sandbox {standin.ID}: not today?[31m\n"


@pytest.mark.parametrize("line", ["pause", "resume", "kill", "extend", "extend x", "extend x 1m y", "kill --all x",
                                  "port", "port x y z", "port x 0", "port x 65536", "port x 80:", "port x a:b", "ps x",
                                  "pause --nosuch", "stats --all"])
def test_what_makes_no_sense_is_refused_in_one_line(brig, line):
    brig.refused(*line.split())


SERVER = ("import socket; s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', 8080)); s.listen(); "
          "print('up', flush=True)\n"
          "while True: c = s.accept()[0]; c.sendall(b'hello'); c.close()")


def fetch(address):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), harness.HANG) as sock:
        return sock.makefile("rb").read()


@pytest.mark.tier("container")
def test_a_port_is_opened_and_listed(brig, create):
    sandbox = create()
    server = brig.start("exec", sandbox, "--", "python3", "-c", SERVER)
    harness.wait_for_line(server, b"up")
    assert brig("port", sandbox).out == b""
    address = brig("port", sandbox, "8080").text.strip()
    assert re.fullmatch(r"127\.0\.0\.1:\d+", address) and fetch(address) == b"hello"
    outside = harness.free_port()
    result = json.loads(brig("port", "--json", sandbox, f"8080:{outside}").out)
    jsonschema.Draft202012Validator(brig.schema("port")).validate(result)
    assert result["ports"] == [{"port": 8080, "address": f"127.0.0.1:{outside}"}]
    assert fetch(f"127.0.0.1:{outside}") == b"hello"
    assert brig("port", sandbox).text.split() == ["8080", address, "8080", f"127.0.0.1:{outside}"]
    assert "is taken" in brig.refused("port", sandbox, f"8080:{outside}")
    brig("kill", sandbox)
    server.communicate()
    with pytest.raises(OSError):
        fetch(address)


@pytest.mark.tier("process")
def test_in_the_process_tier_a_port_is_published_or_not_at_all(brig, create):
    plain = create()
    assert "--publish 8080" in brig.refused("port", plain, "8080") and brig("port", plain).out == b""
    with standin.Warden(brig, isolation="process",
                        published=[{"address": "127.0.0.1", "port": 4000, "inside": 80},
                                   {"address": "::1", "port": 4001, "inside": 81}, {"port": "x"}, 3]):
        assert brig("port", standin.ID, "80").text == "127.0.0.1:4000\n"
        assert brig("port", standin.ID, "81").text == "[::1]:4001\n"
        assert brig("port", standin.ID).text.split() == ["80", "127.0.0.1:4000", "81", "[::1]:4001"]
        assert "--publish 82" in brig.refused("port", standin.ID, "82")


@pytest.mark.tier("container")
def test_only_the_owner_and_root_see_a_sandbox(brig, create):
    """The state directory is the user's alone; nobody else lists it or speaks to what is in it."""
    sandbox = create()
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    socket_path = brig.folder / "state" / "brig" / "live" / f"{sandbox}.socket"
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-e", socket_path],
                          check=False)
    assert done.returncode == 1
