"""Events: what is shown, followed, listed and verified of streams that a small writer makes as a warden would."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest

import harness

pytestmark = pytest.mark.tier("container")  # no tier makes a difference here

HOSTILE = b"/\x1b]0;title\x07\x1b[2J\r\xc2\x9b31m\xe2\x80\xae\xff"


@pytest.fixture(scope="session")
def make_events(exe):
    """A copy of the writer that everybody can execute."""
    build = Path(os.environ.get("BRIG", harness.ROOT / "build-test" / "brig")).absolute().parent
    source = build / "test" / "unit" / "make_events"
    if not source.exists():
        pytest.skip(f"needs {source}: build the tests")
    return Path(shutil.copy(source, exe.parent / "make_events"))


class Streams:
    """The state directory of one test, and writers in it."""

    def __init__(self, brig, program):
        self.brig, self.program = brig, program
        self.state = brig.who.mkdir(brig.folder / "state", 0o700)
        self.home = self.state / "brig"
        self.env = {"XDG_STATE_HOME": self.state}

    def start(self, name, *command):
        writer = subprocess.Popen(
            [*self.brig.who.prefix(), self.program, self.home, name, *command], env=self.brig.env(self.env),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"open\n"
        return writer

    def order(self, writer, *orders):
        for order in orders:
            writer.stdin.write(order if isinstance(order, bytes) else order.encode())
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == b"ok\n"

    def write(self, name, *orders, command=("python3", "x.py"), close="c 0"):
        with self.start(name, *command) as writer:
            self.order(writer, *orders, *([close] if close else []))
            writer.stdin.close()
        return self.file(name)

    def file(self, name):
        return self.home / "sandboxes" / name / "events.ndjson"

    def head(self, name):
        return self.home / "heads" / name

    def __call__(self, *args, **options):
        return self.brig("events", *args, env=self.env, **options)

    def refused(self, *args):
        return self.brig.refused("events", *args, env=self.env)

    def verify(self, name):
        done = self("verify", "--json", name)
        answer = json.loads(done.out)
        assert done.code == (0 if answer["ok"] else 1)
        assert [s["sandbox"] for s in answer["sandboxes"]] == [name]
        assert answer["sandboxes"][0]["ok"] == answer["ok"]
        return answer["sandboxes"][0]


@pytest.fixture
def streams(brig, make_events):
    return Streams(brig, make_events)


# Showing


def test_events_of_the_newest_sandbox(streams):
    streams.write("abc", "a /old")
    streams.write("xyz", "a /etc/passwd", "d example.com:443", close="c 3")
    done = streams()
    assert done.code == 0
    lines = done.text.splitlines()
    assert len(lines) == 4
    assert re.fullmatch(r"[\d-]{10}T[\d:.]{15}Z +0 allow sandbox start sandbox xyz, container, sha256:0: python3 x.py",
                        lines[0])
    assert re.fullmatch(r"[\d:.]{15}Z +2 allow file open /etc/passwd", lines[1])
    assert re.fullmatch(r"[\d:.]{15}Z +2 deny  net connect example.com:443 \(policy.yaml:3 net.allow\): no rule allows "
                        r"this host; allow with --allow-net example.com:443", lines[2])
    assert lines[3].endswith("allow sandbox end with exit code 3, 1 refused: exit")
    assert streams("a").text.splitlines()[1].endswith("/old")


def test_json_is_the_stream_itself_and_fits_the_schema(streams):
    file = streams.write("abc", b"a " + HOSTILE, "d x:1", "d x:1", "d x:1", "a /" + "x" * 5000)
    done = streams("abc", "--json")
    assert done.out == file.read_bytes()
    validator = jsonschema.Draft202012Validator(json.loads(streams("schema").out))
    events = [json.loads(line) for line in done.text.splitlines()]
    for number, event in enumerate(events, 1):
        validator.validate(event)
        assert event["seq"] == number and event["sandbox"] == "abc"
    assert [e.get("count") for e in events] == [None, None, None, 2, None, None]
    assert events[4]["cut"] == 5001 - 4096
    refusal = {"action", "object", "rule", "reason", "allow_with"}
    assert all(refusal <= event.keys() for event in events if event["verdict"] == "deny")
    assert events[2]["rule"] == {"source": "policy.yaml", "key": "net.allow", "line": 3}
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**events[0], "more": 1})


def test_only_refusals(streams):
    streams.write("abc", "a /1", "d x:1", "a /2", "d y:1")
    assert [json.loads(line)["object"] for line in streams("--denied", "--json").text.splitlines()] == ["x:1", "y:1"]
    assert streams("--denied", "abc").text.count("\n") == 2


def test_text_is_harmless(streams):
    streams.write("abc", b"a " + HOSTILE, b"d " + HOSTILE, command=[HOSTILE.replace(b"\n", b"")])
    for args in [(), ("--denied",), ("list",), ("--json",)]:
        done = streams(*args)
        assert done.code == 0 and done.out
        assert all(c.isprintable() or c in "\n\ufffd" for c in done.text.replace("\u202e", "" if "--json" in args
                                                                                 else "\u202e")), repr(done.text)


# Following


def test_follow_shows_what_comes_and_ends_with_the_sandbox(streams):
    with streams.start("abc", "sleep") as writer:
        reader = streams.brig.start("events", "--follow", env=streams.env)
        assert b"sandbox start" in reader.stdout.readline()
        streams.order(writer, "a /first", "f")
        assert reader.stdout.readline().endswith(b"/first\n")
        streams.order(writer, "d x:1", "f")
        assert b"x:1" in reader.stdout.readline()
        assert reader.poll() is None
        streams.order(writer, "c 0")
        done = harness.finish(reader)
        assert done.code == 0 and done.text.count("\n") == 1 and done.err == b""


def test_follow_with_a_slow_reader_loses_nothing(streams):
    with streams.start("abc", "x") as writer:
        reader = streams.brig.start("events", "--follow", "--json", env=streams.env)
        first = reader.stdout.readline()
        for i in range(2000):
            streams.order(writer, f"a /{i}-" + "x" * 100)
        streams.order(writer, "c 0")
        done = harness.finish(reader)
    assert (first + done.out) == streams.file("abc").read_bytes()


def test_follow_ends_when_the_writer_is_killed(streams):
    with streams.start("abc", "x") as writer:
        streams.order(writer, "a /1", "f")
        reader = streams.brig.start("events", "--follow", env=streams.env)
        reader.stdout.readline()
        harness.kill(writer.pid)
        done = harness.finish(reader)
    assert done.code == 0 and "killed" in done.error
    assert streams.verify("abc")["state"] == "interrupted"


def test_follow_ends_with_the_signal_and_with_its_reader(streams):
    with streams.start("abc", "x") as writer:
        for end in ("signal", "reader"):
            reader = streams.brig.start("events", "--follow", env=streams.env)
            reader.stdout.readline()
            if end == "signal":
                reader.send_signal(signal.SIGINT)
            reader.stdout.close()
            code = reader.wait(harness.HANG)
            assert code == (-signal.SIGINT if end == "signal" else 0)
            reader.stderr.close()
        writer.stdin.close()


# The list


def test_list(streams):
    assert streams("list").out == b"" and json.loads(streams("list", "--json").out) == []
    streams.write("abc", "d x:1", "d y:1", command=["python3", "it's"])
    streams.write("def", close=None)
    with streams.start("ghi", "x") as writer:
        rows = json.loads(streams("list", "--json").out)
        text = streams("list").text
        writer.stdin.close()
    assert [(r["sandbox"], r["state"], r["denied"]) for r in rows] == [
        ("abc", "ended", 2), ("def", "interrupted", 0), ("ghi", "running", 0)]
    assert rows[0]["command"] == "python3 'it'\\''s'"
    assert text.count("\n") == 3 and "2 refused" in text.splitlines()[0]


# Verifying


def test_verify_finds_what_was_done_to_a_stream(streams):
    file = streams.write("abc", "a /1", "a /2", "a /3")
    assert streams.verify("abc") == {"sandbox": "abc", "ok": True, "state": "complete", "lines": 5, "line": None,
                                     "lost": 0, "reason": "complete"}
    lines = file.read_bytes().splitlines(keepends=True)
    for line, damage in [
        (2, [lines[0], lines[1].replace(b"/1", b"/9"), *lines[2:]]),
        (5, lines[:-1]), (2, lines[:1]), (1, []), (5, [*lines[:-1], lines[-1][:-9]]),
        (2, [lines[0], lines[2], lines[1], *lines[3:]]), (2, [lines[0], *lines[2:]]),
        (3, [*lines[:2], *lines[1:]]), (6, [*lines, lines[4]]), (6, [*lines, b"x"]), (6, [*lines, b"\n"]),
        (2, [lines[0], b"x" * 200000 + b"\n", *lines[1:]]),
    ]:
        file.write_bytes(b"".join(damage))
        answer = streams.verify("abc")
        assert (answer["ok"], answer["line"]) == (False, line), answer
        text = streams("verify", "abc")
        assert text.code == 1 and text.text.startswith(f"abc: broken at line {line}: ")
    file.write_bytes(b"".join(lines))
    assert streams.verify("abc")["ok"]


def test_verify_all(streams):
    for name in ("abc", "def", "ghi"):
        streams.write(name, "a /1")
    assert streams("verify").code == 0 and streams("verify").text.count(": ok, 3 lines") == 3
    streams.head("abc").unlink()
    shutil.rmtree(streams.file("def").parent)
    done = streams("verify")
    assert done.code == 1
    assert [line.split(":")[1].split(",")[0] for line in done.text.splitlines()].count(" ok") == 1
    assert "the head is missing" in done.text and "the stream was removed" in done.text


def test_a_file_that_is_none(streams):
    file = streams.write("abc", "a /1")
    streams.write("ok")
    for make in (lambda: os.mkfifo(file), lambda: os.symlink("/etc/passwd", file), lambda: os.mkdir(file)):
        streams.brig.who.own(file)
        file.rename(file.parent / "aside")
        make()
        if not file.is_symlink():
            streams.brig.who.own(file)
        assert streams("abc").code == 125
        assert not streams.verify("abc")["ok"]
        assert streams("verify").text.count(": ok") == 1
        assert streams("list").code == 0
        os.rmdir(file) if file.is_dir() and not file.is_symlink() else file.unlink()
        (file.parent / "aside").rename(file)
    assert streams.verify("abc")["ok"]


def test_a_stream_made_huge_takes_no_longer(streams):
    file = streams.write("abc", "a /1")
    os.truncate(file, 1 << 40)  # a hole: nothing is used for it
    assert streams.verify("abc")["line"] == 4
    streams.head("abc").unlink()
    assert streams.verify("abc")["line"] == 0
    file.write_bytes(b"")
    os.truncate(file, 1 << 40)
    assert streams("list").code == 0 and streams.verify("abc")["line"] == 0


def test_showing_a_damaged_stream_goes_on(streams):
    file = streams.write("abc", "a /1", "a /2")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"\x1b[2J{]\n", b"y" * 300000 + b"\n", b"{}\n", *lines[1:]]))
    done = streams("abc")
    assert done.code == 1 and done.text.count("\n") == 4
    assert re.findall(r"line (\d+) is no event", done.error) == ["2", "3", "4"]
    assert "\x1b" not in done.error + done.text


# Bad input


@pytest.mark.parametrize("args,words", [
    (["../x"], "is not the id of a sandbox"), (["a/b"], "is not the id"), ([""], "is not the id"),
    (["\x1b[2J"], "is not the id"), (["x" * 500], "is not the id"), (["zzz"], "brig events list"),
    (["abc", "def"], "too many words"), (["verify", "a", "b"], "too many words"), (["list", "x"], "too many words"),
    (["verify", "--follow"], "--follow"), (["list", "--denied"], "--denied"), (["--nope"], "unknown option"),
    (["verify", "zzz"], "brig events list"), (["ab"], "several ids"), (["verify", "ab"], "several ids"),
], ids=lambda a: repr(a)[:30])
def test_bad_input_is_one_line_with_the_remedy(streams, args, words):
    streams.write("abc")
    streams.write("abd")
    assert words in streams.refused(*args)


def test_nothing_yet(streams):
    assert "brig run" in streams.refused()
    assert "brig run" in streams.refused("abc")
    done = streams("verify", "--json")
    assert done.code == 0 and json.loads(done.out) == {"ok": True, "sandboxes": []}


def test_a_state_directory_that_others_could_write(streams):
    streams.write("abc")
    streams.home.chmod(0o777)
    assert "chmod 700" in streams.refused("list")
    streams.home.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(streams.home, 12345, 12345)
        assert "belongs to another user" in streams.refused("list")


def test_the_document_has_every_field(brig):
    assert brig("manual", "events").text in (harness.ROOT / "docs" / "events.md").read_text()
