"""An init that breaks the rules of the protocol: the sandbox ends with a reason, or the call fails; the warden never
comes to harm (its sanitizers would say so), and neither does another sandbox."""

import os
import shutil
import socket
import sys
import time

import pytest

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "init"))
import speaker  # noqa: E402


@pytest.fixture
def hostile(brig, helper, tmp_path_factory):
    """brig beside an init of ours."""
    folder = brig.who.mkdir(brig.folder / "bin")
    shutil.copy(brig.exe, folder / "brig")
    shutil.copy(helper("hostile_init"), folder / "brig-init")
    brig.exe = folder / "brig"
    numbers = {name: str(n) for name, n in speaker.TYPES.items() if name in ("READY", "DONE", "HELD", "EXITED", "STARTED",
                                                                          "ENTRY")}
    numbers |= {name: str(speaker.FIELDS[name]) for name in ("STATUS", "SIZE", "MODE", "UID", "GID", "MODIFIED", "PATH")}
    env = [word for name, value in numbers.items() for word in ("--env", f"{name}={value}")]

    def create(kind, **options):
        return brig("create", "--env", f"HOSTILE={kind}", *env, **options)

    return create


def connect(brig, sandbox):
    """A client of the warden; root may speak to everybody's. By a short way: paths of sockets have a limit."""
    folder = os.open(brig.folder / "state" / "brig" / "live", os.O_PATH)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(f"/proc/self/fd/{folder}/{sandbox}.socket")
    os.close(folder)
    return speaker.Speaker(sock)


def warden_of(brig, sandbox):
    return next(pid for pid in harness.processes_of(brig) if harness.cmdline(pid).startswith(b"brig-warden"))


@pytest.mark.parametrize("kind", ["gone", "garbage-first"])
def test_one_that_does_not_come_up_is_refused_in_words(brig, hostile, kind):
    done = hostile(kind)
    assert done.code == 125 and done.out == b""
    assert done.error.startswith("brig: the sandbox was not started: its init"), done


BREACHES = ["too-long", "version", "type", "not-for-init", "out-of-order", "wrong-answer", "field", "cut-field",
            "descriptors", "descriptors-many", "descriptors-missing", "ready-twice", "dies"]


@pytest.mark.parametrize("kind", BREACHES)
def test_a_breach_is_the_end_of_the_sandbox(brig, hostile, kind):
    sandbox = hostile(kind).text.strip()
    # It may have ended before anybody comes.
    with pytest.raises((speaker.End, OSError)):
        client = connect(brig, sandbox)
        call = client.send("START", ARGUMENT=["true"])
        while client.wait(call):
            pass
    harness.wait_until(lambda: not (brig.folder / "state/brig/live" / sandbox).exists(), "the sandbox to end")
    events = brig("events", sandbox, "--json").text
    assert '"init"' in events.splitlines()[-1], events


def test_answers_to_calls_that_nobody_made_are_dropped(brig, hostile):
    sandbox = hostile("other-calls").text.strip()
    client = connect(brig, sandbox)
    client.send("START", ARGUMENT=["true"])
    for _ in range(3):
        assert client.ask("STATUS", "STATUS_IS")["STATE"] == 0
    client.ask("KILL")
    client.close()


@pytest.mark.parametrize("kind", ["half", "silent-after", "descriptors-unclaimed"])
def test_half_a_message_keeps_nobody_waiting_but_its_own_call(brig, hostile, kind):
    sandbox = hostile(kind).text.strip()
    client = connect(brig, sandbox)
    client.send("START", ARGUMENT=["true"])
    other = None
    try:
        other = connect(brig, sandbox)
        other.ask("KILL")
    except (speaker.End, OSError):
        assert kind == "descriptors-unclaimed", "only that one is a breach"
    client.close()
    if other:
        other.close()


def test_a_flood_for_a_client_that_does_not_read_costs_that_client_alone(brig, hostile):
    sandbox = hostile("flood").text.strip()
    slow, other = connect(brig, sandbox), connect(brig, sandbox)
    slow.send("LIST", PATH="/")
    time.sleep(0.5)
    for _ in range(5):
        assert other.ask("STATUS", "STATUS_IS")["STATE"] == 0
    rss = int(harness.status(warden_of(brig, sandbox))["VmRSS"].split()[0])
    assert rss < (400 if brig.version["test_build"] else 16) * 1024
    # Who never reads is let go after a while, and the others go on.
    harness.wait_until(lambda: is_closed(slow), "the slow client to be let go")
    assert other.ask("STATUS", "STATUS_IS")["STATE"] == 0
    other.ask("KILL")
    slow.close()
    other.close()


def is_closed(client):
    try:
        client.sock.send(speaker.pack("STATUS", 9))
        return False
    except OSError:
        return True
