"""brig run: what goes in and out of a command is what goes in and out of it without brig."""

import hashlib
import os
import pwd
import random
import signal
import subprocess

import pytest

import harness


@pytest.mark.parametrize("status", [0, 1, 7, 124, 125, 126, 127, 137, 255])
def test_exit_status_passes_through(brig, status):
    assert brig.run("--", "sh", "-c", f"exit {status}").code == status


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGKILL,
                                    signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM, signal.SIGRTMIN + 3])
def test_a_signal_becomes_128_plus_its_number(brig, number):
    assert brig.run("--", "sh", "-c", f"kill -{int(number)} $$").code == 128 + number


def test_a_command_that_does_not_exist_is_127(brig):
    done = brig.run("--", "no-such-program-anywhere")
    assert done.code == 127
    assert done.error == 'brig: "no-such-program-anywhere" was not found in PATH\n'
    done = brig.run("--", "./missing")
    assert done.code == 127
    assert done.error == 'brig: "./missing" does not exist\n'


def test_a_command_that_cannot_be_executed_is_126(brig):
    brig.who.write(brig.work / "data", "echo no\n", 0o644)
    done = brig.run("--", "./data")
    assert done.code == 126
    assert "cannot execute" in done.error and done.error.count("\n") == 1
    assert brig.run("--", "./").code == 126


def test_a_command_in_a_closed_folder_names_the_flag_that_opens_it(brig):
    """In a container it is not even there: 127, and the same advice."""
    hidden = brig.who.mkdir(brig.folder / "tools")
    program = brig.who.write(hidden / "program", "#!/bin/sh\necho ran\n", 0o755)
    done = brig.run("--", program)
    assert done.code == (127 if brig.is_container else 126)
    assert f"--allow-read {program}" in done.error and done.error.count("\n") == 1
    assert brig.run("--allow-read", program, "--", program).out == b"ran\n"
    result = brig.json("--", program)
    assert result["denials"][0]["action"] == "exec"
    assert result["denials"][0]["allow_with"] == f"--allow-read {program}"


def test_arguments_arrive_byte_for_byte(brig):
    args = [b"a b", b"", b"line\nbreak", b"\xff\xfe\x80", "ä漢😀".encode(), b"$HOME `x` 'q' \"q\"", b"--json", b"--", b"\\",
            b"x" * 100000]
    code = "import sys, os; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    done = brig.run(b"--", b"python3", b"-c", code.encode(), *args)
    assert done.code == 0
    assert done.out.split(b"\0") == args


def test_options_behind_the_command_belong_to_the_command(brig):
    assert brig.run("echo", "--json", "--wall", "1s").out == b"--json --wall 1s\n"


def test_standard_input_passes(brig):
    assert brig.run("--", "cat", stdin=b"\0binary\xff\n").out == b"\0binary\xff\n"


def test_output_and_error_stay_apart(brig):
    done = brig.run("--", "sh", "-c", "echo out; echo err >&2")
    assert (done.out, done.err) == (b"out\n", b"err\n")


@pytest.mark.parametrize("options", [[], ["--output", "20M"]], ids=["passed", "relayed"])
def test_ten_megabytes_pass_unaltered(brig, options):
    code = ("import random, sys\nr = random.Random(1)\n"
            "for _ in range(160): sys.stdout.buffer.write(r.randbytes(65536))")
    done = brig.python(code, options=options)
    r = random.Random(1)
    expected = b"".join(r.randbytes(65536) for _ in range(160))
    assert done.code == 0, done.err
    assert len(done.out) == len(expected)
    assert hashlib.sha256(done.out).digest() == hashlib.sha256(expected).digest()


@pytest.mark.parametrize("options", [[], ["--output", "1M"], ["--json"]], ids=["passed", "relayed", "captured"])
@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], ids=str)
def test_closed_standard_descriptors_do_no_harm(brig, closed, options):
    """The command sees /dev/null there, and no descriptor of brig slips into the gap."""
    brig.who.write(brig.work / "look", "#!/bin/sh\nls -l /proc/self/fd/ > $OUT\nexit 9\n", 0o755)
    report = brig.who.write(brig.work / "report")
    shell = "exec " + " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed) + '; exec "$@"'
    done = brig("run", *options, "--env", f"OUT={report}", "--allow-write", report, "--", "./look",
                before=["sh", "-c", shell, "sh"])
    assert done.code in ([9, 125] if "--json" in options and 1 in closed else [9]), done
    listing = report.read_text()
    fds = [line.split(" -> ")[0].split()[-1] for line in listing.splitlines() if " -> " in line]
    assert sorted(fds) == ["0", "1", "2", "3"], listing  # 3 is ls's own
    if 0 in closed:
        assert " 0 -> /dev/null" in listing


def test_a_script_without_an_interpreter_line_runs_in_sh(brig):
    brig.who.write(brig.work / "script", 'echo "$0|$1|$2"\n', 0o755)
    assert brig.run("--", "./script", "a b", "c").out == b"./script|a b|c\n"


def test_the_command_is_looked_up_in_the_path_of_the_sandbox(brig):
    first, second = brig.who.mkdir(brig.work / "first"), brig.who.mkdir(brig.work / "second")
    brig.who.write(first / "tool", "#!/bin/sh\necho first\n", 0o755)
    brig.who.write(second / "tool", "#!/bin/sh\necho second\n", 0o755)
    path = f"{second}:{first}:{harness.PATH}"
    assert brig.run("--", "tool", env={"PATH": path}).out == b"second\n"
    assert brig.run("--env", f"PATH={first}:{path}", "--", "tool").out == b"first\n"


def test_a_forbidden_folder_in_path_is_passed_over(brig):
    closed = brig.who.mkdir(brig.folder / "closed")
    brig.who.write(closed / "tool", "#!/bin/sh\necho closed\n", 0o755)
    brig.who.write(brig.work / "tool", "#!/bin/sh\necho open\n", 0o755)
    assert brig.run("--", "tool", env={"PATH": f"{closed}:{brig.work}:{harness.PATH}"}).out == b"open\n"
    done = brig.run("--", "tool", env={"PATH": f"{closed}:{harness.PATH}"})
    assert done.code == (127 if brig.is_container else 126)
    if not brig.is_container:
        assert f"--allow-read {closed}/tool" in done.error


def test_without_path_the_usual_one_is_used(brig):
    assert brig.run("--", "echo", "found", env={"PATH": None}).out == b"found\n"


def test_verbose_says_the_tier_and_every_wall(brig):
    done = brig.run("--verbose", "--wall", "30s", "--", "true")
    assert done.code == 0
    assert f"{brig.tier} tier" in done.error
    for wall in ("files", "syscalls", "network", "privileges", "wall", *(["namespaces", "ids", "root"] if brig.is_container else ["signals"])):
        assert f"brig:   {wall} " in done.error


def test_the_command_gets_default_signals_and_the_callers_umask(brig):
    """brig blocks and ignores some signals for itself; none of it may show."""
    done = brig("run", "--", "cat", "/proc/self/status", before=["sh", "-c", 'umask 027; exec "$@"', "sh"])
    status = dict(line.split(":\t", 1) for line in done.text.splitlines())
    assert status["Umask"] == "0027"
    assert [int(status[name], 16) for name in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


def test_the_working_directory_stays(brig):
    assert brig.run("--", "pwd").text.strip() == str(brig.work)


def test_a_reader_that_goes_away_does_not_stop_brig_from_ending(brig):
    process = brig.start("run", "--output", "1G", "--", "yes")
    process.stdout.read(10)
    process.stdout.close()
    code = process.wait(harness.HANG)
    process.stderr.close()
    assert code == 128 + signal.SIGPIPE or code == 1, code


def test_thousand_arguments_reach_a_script_without_interpreter_line(brig):
    brig.who.write(brig.work / "count", "echo $#\n", 0o755)
    assert brig.run("--", "./count", *["x"] * 1000).out == b"1000\n"


def test_run_needs_a_command(brig):
    assert "what should run" in brig.refused("run")
    assert "what should run" in brig.refused("run", "--wall", "1s", "--")
    assert "empty" in brig.refused("run", "--", "")


OTHER_END = """
import os, sys
try:
    fd = os.open(sys.argv[1], int(sys.argv[2]))
    if int(sys.argv[2]) == os.O_WRONLY:
        os.write(fd, b"touch escaped\\n")
    print("opened", file=sys.stderr)
except OSError as error:
    print("refused", error.errno, file=sys.stderr)
"""


@pytest.mark.parametrize("again", ["/proc/self/fd/0", "/dev/stdin"])
def test_the_callers_shell_cannot_be_fed(brig, again):
    """A pipe can be opened anew through /proc, also for the other direction, and Landlock does not see pipes."""
    brig.who.write(brig.work / "feed.py", OTHER_END)
    script = f"{brig.typed} -- python3 feed.py {again} {os.O_WRONLY}\necho after\n"
    shell = subprocess.run([*brig.who.prefix(), "bash"], input=script.encode(), capture_output=True,
                           env=brig.env(), cwd=brig.work, timeout=harness.HANG)
    assert b"refused" in shell.stderr and b"after" in shell.stdout
    assert not (brig.work / "escaped").exists()


def test_the_callers_pipe_cannot_be_opened_to_others(brig):
    done = brig.python("import os; os.fchmod(0, 0o666)", stdin=b"x")
    assert done.code != 0 and "PermissionError" in done.error


def test_what_others_print_cannot_be_read_back(brig):
    """Of its own pipe to brig, which nobody else writes to, the program may read what it likes."""
    reading, writing = os.pipe()
    os.write(writing, b"SECRET of another program")
    process = brig.start("run", "--", "python3", "-c",
                         "import os; fd = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)\n"
                         "try: print(os.read(fd, 100), file=__import__('sys').stderr)\n"
                         "except OSError: pass", stdout=writing)
    os.close(writing)
    error = harness.finish(process).err
    os.close(reading)
    assert b"SECRET" not in error


def test_the_rest_of_the_input_is_left_to_the_next_command(brig):
    script = f'while read line; do {brig.typed} -- echo "$line"; done'
    shell = subprocess.run([*brig.who.prefix(), "bash", "-c", script], input=b"one\ntwo\nthree\n",
                           capture_output=True, env=brig.env(), cwd=brig.work, timeout=harness.HANG)
    assert shell.stdout == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_secrets_of_a_home_are_hidden_also_when_the_variable_is_wrong(brig, home):
    own = pwd.getpwuid(brig.who.uid).pw_dir
    if not os.path.isdir(own):
        pytest.skip("the user has no home")
    done = brig.run("--", "sh", "-c", "ls -A .ssh .aws .gnupg .docker .kube .config/gh; cat .netrc .npmrc .git-credentials .bash_history",
                    cwd=own, env={"HOME": home})
    assert all(line.endswith(":") or not line for line in done.text.splitlines()), "something of a hidden folder was shown"


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("options", [[], ["--allow", "nested"]])
def test_a_directory_is_no_standard_descriptor(brig, number, options):
    """From an open directory one can go up, whatever is mounted where: with mounts alone nothing else is in the way."""
    if options and not brig.is_container:
        pytest.skip("the process tier has nothing nested")
    with open(brig.work / "said", "wb+") as said:
        folder = os.open(brig.work, os.O_RDONLY | os.O_DIRECTORY)
        streams = [subprocess.DEVNULL, said, said]
        streams[number] = folder
        process = brig.start("run", *options, "--", "sh", "-c", f"cat /proc/self/fd/{number}/../../../../etc/login.defs > found; true",
                             stdin=streams[0], stdout=streams[1], stderr=streams[2])
        assert process.wait(timeout=harness.HANG) == 125
        os.close(folder)
        said.seek(0)
        assert number == 2 or b"is a directory" in said.read()
