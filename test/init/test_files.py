"""The calls for files: that each is carried out by a process of its own, as the right user, and ends. What the calls do
is tested in test/unit (init_files)."""

import errno
import os
import signal
import stat

import pytest

from conftest import children, until


def test_stat(init):
    (init.home / "file").write_text("12345")
    for path in ("file", str(init.home / "file")):
        entry = init.ask("STAT", "ENTRY", PATH=path)
        assert entry["SIZE"] == 5 and stat.S_ISREG(entry["MODE"])
    assert init.fail("STAT", PATH="nothing")[0] == errno.ENOENT
    # The number is free as soon as it was answered.
    for _ in range(20):
        init.send("STAT", call=7, PATH="/")
        init.wait(7, "ENTRY")
    until(lambda: not children(init.pid))


def test_who(init):
    init.send("WRITE", call=1, PATH="new", MODE=0o600)
    init.send("DATA", call=1, DATA=b"content")
    init.send("DATA_END", call=1)
    while init.wait(1, "CREDIT", "DONE").kind != "DONE":
        pass
    assert (init.home / "new").read_bytes() == b"content"
    assert (init.home / "new").stat().st_uid == init.uid
    assert init.fail("STAT", PATH="/", USER="no such user")[0] == errno.EINVAL


@pytest.mark.who("root")
def test_rights_of_the_user(init):
    secret = init.folder / "secret"
    secret.write_text("not for everybody")
    secret.chmod(0o600)
    assert init.fail("READ", PATH=str(secret))[0] == errno.EACCES
    os.chown(secret, 1, 1)
    call = init.send("READ", PATH=str(secret), USER="daemon")
    assert init.wait(call, "DATA")["DATA"] == b"not for everybody"
    assert init.wait(call, "DONE")["SIZE"] == 17
    # Relative to the home of that user, which does not even exist for some.
    assert init.ask("STAT", "ENTRY", PATH=".", USER="daemon")["UID"] == os.stat("/usr/sbin").st_uid


@pytest.mark.who("user")
def test_one_user_only(init):
    assert init.fail("STAT", PATH="/", USER="root")[0] == errno.EPERM


def test_read_within_the_window(init):
    content = bytes(range(256)) * 4000
    (init.home / "large").write_bytes(content)
    call = init.send("READ", PATH="large")
    got = b""
    while len(got) < 256 * 1024:
        got += init.wait(call, "DATA")["DATA"]
    assert len(got) == 256 * 1024 and init.is_silent()
    init.send("CREDIT", call=call, SIZE=len(content))
    while (message := init.wait(call, "DATA", "DONE")).kind == "DATA":
        got += message["DATA"]
        init.send("CREDIT", call=call, SIZE=len(message["DATA"]))
    assert got == content and message["SIZE"] == len(content)


@pytest.mark.over("unix")
def test_read_through_a_pipe(init):
    (init.home / "file").write_text("through")
    r, w = os.pipe()
    call = init.send("READ", descriptors=[w], PATH="file")
    os.close(w)
    assert init.wait(call, "DONE")["SIZE"] == 7
    assert os.read(r, 100) == b"through" and os.read(r, 100) == b""
    os.close(r)


def test_a_long_list(init):
    for i in range(3000):
        (init.home / ("file %d " % i + "x" * 150)).touch()
    call = init.send("LIST", PATH=".")
    # Others are served meanwhile.
    assert init.kept("true")[1] == 0
    names = set()
    while (message := init.wait(call, "ENTRY", "DONE")).kind == "ENTRY":
        names.add(message["PATH"])
    assert len(names) == 3000


def test_watch_and_cancel(init):
    call = init.send("WATCH", PATH=".")
    init.wait(call, "DONE")
    (init.home / "new").touch()
    assert init.wait(call, "CHANGE_IS")["PATH"] == "new"
    assert init.ask("USAGE", "USAGE_IS")["COUNT_OF"] == 0
    init.send("CANCEL", call=call)
    until(lambda: not children(init.pid))
    (init.home / "another").touch()
    assert all(message.call == call for message in init.later)
    # The number is free.
    init.send("STAT", call=call, PATH="/")
    while init.wait(call).kind != "ENTRY":
        pass


@pytest.mark.over("unix")
def test_cancel_what_does_not_move(init):
    """Nobody reads the pipe, and the child is even stopped: it is killed in the end."""
    (init.home / "large").touch()
    os.truncate(init.home / "large", 64 * 1024 * 1024)  # more than a pipe can ever hold
    for stops in (False, True):
        r, w = os.pipe()
        call = init.send("READ", descriptors=[w], PATH="large")
        os.close(w)
        (child,) = until(lambda: children(init.pid))
        until(lambda: len(os.read(r, 1)) == 1)
        if stops:
            os.kill(child, signal.SIGSTOP)
        init.send("CANCEL", call=call)
        until(lambda: not children(init.pid))
        os.close(r)
    assert init.is_silent()


def test_a_child_that_dies(init):
    call = init.send("WATCH", PATH=".")
    init.wait(call, "DONE")
    (child,) = children(init.pid)
    os.kill(child, signal.SIGKILL)
    error = init.wait(call, "ERROR")
    assert error["CODE"] == errno.EIO and error["TEXT"].startswith("the call was ended")
    assert init.ask("STAT", "ENTRY", PATH="/")


def test_so_many_and_no_more(init):
    calls = [init.send("WATCH", PATH=".") for _ in range(64)]
    for call in calls:
        init.wait(call, "DONE")
    assert init.fail("STAT", PATH="/") == (errno.EAGAIN, "64 calls for files are at work already")
    for call in calls:
        init.send("CANCEL", call=call)
    until(lambda: not children(init.pid))
    assert init.ask("STAT", "ENTRY", PATH="/")


def test_those_that_have_ended_take_no_room(init):
    """Whoever has an answer may ask the next thing, however long the child takes to be gone."""
    calls = [init.send("WATCH", PATH=".") for _ in range(64)]
    for call in calls:
        init.wait(call, "DONE")
    for child in children(init.pid):
        os.kill(child, signal.SIGSTOP)
    for call in calls:
        init.send("CANCEL", call=call)
    assert init.ask("STAT", "ENTRY", PATH="/")
    until(lambda: not children(init.pid))


def test_data_without_credit(init):
    """More than the window, and than anybody would queue, to a child that does not read."""
    init.send("WRITE", call=1, PATH="file")
    (child,) = until(lambda: children(init.pid))
    os.kill(child, signal.SIGSTOP)
    for _ in range(200):
        init.send("DATA", call=1, DATA=b"x" * 30000)
    while (message := init.wait(1, "CREDIT", "ERROR")).kind == "CREDIT":
        pass
    assert message["TEXT"] == "the call was ended: more came than there was credit for"
    until(lambda: not children(init.pid))


def test_they_end_with_init(make_init):
    init = make_init("unix", "user")
    init.wait(init.send("WATCH", PATH="."), "DONE")
    (child,) = children(init.pid)
    assert init.end() == 0
    until(lambda: not os.path.exists(f"/proc/{child}"))


def test_no_home(init):
    os.rename(init.home, init.folder / "elsewhere")
    code, words = init.fail("STAT", PATH="file")
    assert code == errno.ENOENT and str(init.home) in words
    # Absolute paths need none.
    assert init.ask("STAT", "ENTRY", PATH="/")
    os.rename(init.folder / "elsewhere", init.home)


def test_many_last_words(init):
    """Lists that are longer than what can wait, told by children that are gone: nothing of them is lost."""
    for i in range(400):
        (init.home / ("file %d " % i + "x" * 200)).touch()
    calls = [init.send("LIST", PATH=".") for _ in range(40)]
    # None of it is read, until they all have said what they could.
    until(lambda: len(children(init.pid)) < 40)
    for call in calls:
        entries = 0
        while init.wait(call, "ENTRY", "DONE").kind == "ENTRY":
            entries += 1
        assert entries == 400
    until(lambda: not children(init.pid))
