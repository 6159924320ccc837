"""At a terminal a command behaves as it does without brig, and cannot do to the terminal what it could without."""

import os
import signal

import pexpect
import pytest

import harness


class Terminal:
    """A pseudo-terminal with brig, or a shell, on it."""

    def __init__(self, brig):
        self.brig, self.child = brig, None

    def start(self, command, size=(24, 80), env=None):
        more = {"TERM": "dumb", "PS1": "$ ", **(env or {})}
        self.child = pexpect.spawn(command[0], command[1:], env=self.brig.env(more), cwd=str(self.brig.work),
                                   dimensions=size, timeout=harness.HANG, encoding=None, echo=True)
        return self.child

    def run(self, *args, **options):
        return self.start(self.brig.command("run", *args), **options)

    def shell(self, is_own=True):
        """is_own: the terminal belongs to the user, as after a login; else to root, as after su."""
        child = self.start([*self.brig.who.prefix(), "/bin/bash", "--norc", "--noprofile", "-i"])
        child.expect_exact(b"$ ")
        if is_own:
            self.brig.who.own(os.readlink(f"/proc/{child.pid}/fd/0"))
        return child


@pytest.fixture
def terminal(brig):
    terminal = Terminal(brig)
    yield terminal
    if terminal.child:
        terminal.child.close(force=True)


def end(child):
    """The status that brig ended with, and all that was printed since the last match."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus, child.before


def test_the_command_has_a_terminal(terminal):
    child = terminal.run("--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty < /dev/tty >&2 && echo yes; exit 6")
    status, text = end(child)
    assert status == 6 and b"yes\r\n" in text


def test_the_window_size_is_passed_and_followed(terminal):
    code = ("import os, signal\nprint(os.get_terminal_size(), flush=True)\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
            "print('ready', flush=True)\nsignal.sigwait([signal.SIGWINCH])\nprint('now', os.get_terminal_size())")
    child = terminal.run("--", "python3", "-c", code, size=(33, 101))
    child.expect_exact(b"columns=101, lines=33")
    child.expect_exact(b"ready")
    child.setwinsize(44, 122)
    child.expect_exact(b"now os.terminal_size(columns=122, lines=44)")
    assert end(child)[0] == 0


def test_ctrl_c_ends_a_sleeping_program(terminal):
    child = terminal.run("--", "sh", "-c", "echo ready; exec sleep 600")
    child.expect_exact(b"ready")
    child.send(b"\x03")
    assert end(child)[0] == 128 + signal.SIGINT


def test_a_program_that_handles_ctrl_c_lives_on(terminal):
    child = terminal.run("--", "python3", "-q", "-i", "-c", "")
    child.expect_exact(b">>> ")
    child.send(b"import time; time.sleep(500)\r")
    child.expect_exact(b"sleep(500)")
    child.send(b"\x03")
    child.expect_exact(b"KeyboardInterrupt")
    child.expect_exact(b">>> ")
    child.send(b"print(6 * 7)\r")
    child.expect_exact(b"42")
    child.send(b"exit(3)\r")
    assert end(child)[0] == 3


def test_a_program_that_ignores_ctrl_c_is_ended_by_it(terminal, mark):
    child = terminal.run("--", "sh", "-c", f"trap '' INT TERM; echo ready; while :; do sleep 1; done; : {mark}")
    child.expect_exact(b"ready")
    child.send(b"\x03")
    assert end(child)[0] == 128 + signal.SIGINT
    assert not harness.marked(mark)


def test_ctrl_c_is_a_byte_for_a_program_in_raw_mode(terminal):
    code = "import sys, tty; tty.setraw(0); print('ready', flush=True); print('got', ord(sys.stdin.read(1)), end='\\r\\n')"
    child = terminal.run("--", "python3", "-c", code)
    child.expect_exact(b"ready")
    child.send(b"\x03")
    child.expect_exact(b"got 3")
    assert end(child)[0] == 0


def test_ctrl_d_is_the_end_of_input(terminal):
    child = terminal.run("--", "cat")
    child.send(b"line\r")
    child.expect_exact(b"line\r\nline\r\n")
    child.send(b"\x04")
    assert end(child)[0] == 0


def test_ctrl_z_suspends_and_fg_resumes(terminal):
    child = terminal.shell()
    run = terminal.brig.typed
    child.send(f"{run} -- sh -c 'echo ready; read x; echo got $x'\r".encode())
    child.expect_exact(b"ready\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.expect_exact(b"$ ")
    child.send(b"echo shell is here\r")
    child.expect_exact(b"\nshell is here")
    child.send(b"fg\r")
    child.expect_exact(b" -- sh")
    child.send(b"word\r")
    child.expect_exact(b"got word")
    child.expect_exact(b"$ ")
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


def test_job_control_works_inside(terminal):
    child = terminal.run("--env", "PS1=in> ", "--", "bash", "--norc", "--noprofile", "-i")
    child.expect_exact(b"in> ")
    child.send(b"sh -c 'echo up; read x; echo on; exec sleep 500'\r")
    child.expect_exact(b"\nup\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.expect_exact(b"in> ")
    child.send(b"jobs\r")
    child.expect(rb"\[1\]\+ +Stopped +sh -c .*sleep 500'\r\n")
    child.send(b"fg\r")
    child.expect_exact(b"sleep 500'\r\n")
    child.send(b"x\r")
    child.expect_exact(b"\non\r\n")
    child.send(b"\x03")
    child.expect_exact(b"in> ")
    child.send(b"echo status $?\r")
    child.expect_exact(b"status 130")
    child.send(b"exit 9\r")
    assert end(child)[0] == 9


def test_the_settings_of_the_terminal_come_back(terminal):
    child = terminal.shell()
    run = terminal.brig.typed
    child.send(b"stty -g\r")
    child.expect(rb"\n([0-9a-f:]{20,})\r")
    before = child.match.group(1)
    for command in ("sh -c 'stty raw -echo; kill -9 $$'", "python3 -c 'import tty; tty.setraw(0)'", "true", "no-such"):
        child.expect_exact(b"$ ")
        child.send(f"{run} -- {command}; stty -g\r".encode())
        child.expect(rb"\n([0-9a-f:]{20,})\r")
        assert child.match.group(1) == before, command
    child.expect_exact(b"$ ")
    child.send(f"{run} --wall 300ms -- sleep 60; stty -g\r".encode())
    child.expect(rb"\n([0-9a-f:]{20,})\r")
    assert child.match.group(1) == before
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


HARMFUL = {
    "clipboard": rb"\033]52;c;ZXZpbA==\007",
    "title": rb"\033]0;evil\007",
    "icon": rb"\033]2;evil\033\\",
    "status report": rb"\033[6n",
    "attributes": rb"\033[c",
    "window": rb"\033[21t",
    "dcs": rb"\033P$q\"p\033\\",
    "answerback": rb"\005",
    "notification": rb"\033]9;evil\007",
    "8 bit": rb"\302\23552;c;ZXZpbA==\007",
}


@pytest.mark.parametrize("kind", HARMFUL)
def test_output_is_made_inert(terminal, kind):
    raw = HARMFUL[kind].decode().encode().decode("unicode_escape").encode("latin-1")
    child = terminal.run("--", "printf", b"before%b after\\n".decode(), HARMFUL[kind].decode())
    status, text = end(child)
    assert status == 0 and b"before" in text and b"after" in text
    assert raw not in text and b"\x1b]" not in text and b"\x1bP" not in text


def test_a_sequence_in_pieces_is_inert_too(terminal):
    script = r"printf '\033'; sleep 0.05; printf ']'; sleep 0.05; printf '52;c;ZXZp'; sleep 0.05; printf '\007done\n'"
    status, text = end(terminal.run("--", "sh", "-c", script))
    assert status == 0 and b"done" in text and b"\x1b]52" not in text


def test_colours_and_movements_pass(terminal):
    status, text = end(terminal.run("--", "printf", r"\033[31mred\033[0m \033[2K\033[1;5Hx\n"))
    assert b"\x1b[31mred\x1b[0m" in text and b"\x1b[2K\x1b[1;5Hx" in text


def test_raw_passes_everything(terminal):
    status, text = end(terminal.run("--raw", "--", "printf", r"\033]52;c;ZXZpbA==\007\033]0;title\007"))
    assert b"\x1b]52;c;ZXZpbA==\x07" in text and b"\x1b]0;title\x07" in text


def test_error_output_at_a_terminal_is_inert_too(terminal):
    status, text = end(terminal.run("--", "sh", "-c", r"printf '\033]0;evil\007shown\n' >&2"))
    assert b"shown" in text and b"\x1b]0" not in text


def test_an_error_message_cannot_carry_sequences(terminal):
    status, text = end(terminal.run("--", "./\x1b]0;evil\x07"))
    assert status == 127 and b"\x1b]" not in text


def test_a_pipeline_works(terminal):
    child = terminal.shell()
    run = terminal.brig.typed
    child.send(f"{run} -- sh -c 'echo one; echo two >&2' | cat -A\r".encode())
    child.expect_exact(b"one$\r\n")
    child.expect_exact(b"$ ")
    child.send(f"echo three | {run} -- cat | tr e E\r".encode())
    child.expect_exact(b"\nthrEE")
    child.expect_exact(b"$ ")
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


@pytest.mark.parametrize("is_own", [True, False], ids=["own terminal", "terminal of somebody else"])
def test_in_a_pipeline_the_terminal_stays_with_the_user(terminal, is_own):
    """What is typed may be meant for the program behind the pipe, or be a password for the shell."""
    child = terminal.shell(is_own)
    child.send(f"{terminal.brig.typed} -- sh -c 'read x; echo got \"$x\"; test -t 0 || echo no terminal' | cat -A\r".encode())
    child.expect_exact(b"got $\r\nno terminal$\r\n")
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


def test_a_program_that_stops_itself_does_not_stop_the_clock(terminal):
    """Without a shell nobody would continue brig; the keeper watches the time besides."""
    child = terminal.run("--wall", "1s", "--", "sh", "-c", "kill -STOP $$; echo continued; sleep 60")
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 124


JOIN = """
import os, time
keeper = os.getppid()
if os.fork() == 0:
    try: os.setpgid(0, keeper)
    except OSError as error: print(error, flush=True)
    os.read(0, 1)
    time.sleep(60)
print("ready", flush=True)
time.sleep(0.5)
"""


def test_the_keeper_cannot_be_stopped_from_its_own_group(terminal):
    """A reader in the background has the kernel stop its whole group, which a child of the sandbox can join."""
    child = terminal.run("--", "python3", "-c", JOIN)
    child.expect_exact(b"ready")
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0


def test_in_the_background_brig_is_not_stopped(terminal):
    child = terminal.shell()
    run = terminal.brig.typed
    child.send(f"stty tostop; {run} -- sh -c 'sleep 0.3; echo from the back' & wait; stty -tostop; echo over\r".encode())
    child.expect_exact(b"\nover")
    assert b"Stopped" not in child.before
    child.expect_exact(b"$ ")
    child.send(f"{run} -- sleep 0.3 &\r".encode())
    child.expect_exact(b"$ ")
    child.send(b"wait; jobs; echo status $?\r")
    child.expect_exact(b"\nstatus 0")
    assert b"Stopped" not in child.before
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


def test_json_at_a_terminal_reads_nothing_from_it(terminal):
    child = terminal.run("--json", "--", "cat")
    status, text = end(child)
    assert status == 0 and b'"stdout": ""' in text


def test_the_sandbox_cannot_type_into_the_users_terminal(terminal):
    """TIOCSTI on any terminal it can reach, and the user's own terminal out of reach."""
    code = ("import fcntl, os, sys\n"
            "for fd in (0, 1, 2, os.open('/dev/tty', os.O_RDWR)):\n"
            "  try: fcntl.ioctl(fd, 0x5412, b'x'); print('typed')\n"
            "  except OSError: print('refused')\n"
            "try: os.open(sys.argv[1], os.O_RDWR); print('opened')\n"
            "except OSError: print('closed')\n")
    # Not the first one of the machine: the sandbox may have a terminal of its own under that name.
    first = os.openpty()
    master, slave = os.openpty()
    try:
        assert os.ttyname(slave) != "/dev/pts/0"
        terminal.brig.who.own(os.ttyname(slave))
        status, text = end(terminal.run("--", "python3", "-c", code, os.ttyname(slave)))
    finally:
        for fd in (*first, master, slave):
            os.close(fd)
    assert text.split(b"\r\n").count(b"refused") == 4 and b"typed" not in text and b"closed" in text


def test_closing_the_terminal_ends_everything(terminal, mark):
    child = terminal.run("--", "sh", "-c", f"trap '' HUP; echo ready; while :; do sleep 1; done; : {mark}")
    child.expect_exact(b"ready")
    assert harness.marked(mark)
    os.close(child.child_fd)
    child.closed = True
    terminal.child = None
    harness.wait_until(lambda: not harness.marked(mark), "the sandbox to end with its terminal")
    harness.wait_until(lambda: os.waitpid(child.pid, os.WNOHANG)[0], "brig to end")


@pytest.mark.tier("container")
def test_bash_puts_jobs_to_the_back_and_to_the_front(terminal):
    """On the terminal of a container, whose groups have numbers of their own."""
    child = terminal.run("--env", "PS1=in> ", "--", "bash", "--norc", "--noprofile", "-i")
    child.expect_exact(b"in> ")
    child.send(b"tty; sleep 0.5; echo slept\r")
    child.expect_exact(b"/dev/pts/0\r\n")
    child.expect_exact(b"slept\r\n")
    child.send(b"sh -c 'echo up; exec sleep 300'\r")
    child.expect_exact(b"\nup\r\n")
    child.send(b"\x1a")
    child.expect_exact(b"Stopped")
    child.send(b"bg; jobs; sleep 0.05; kill %1; wait; echo over\r")
    child.expect(rb"\[1\]\+ +Running +sh -c")
    child.expect_exact(b"\nover")
    child.send(b"sh -c 'echo up; exec cat'\r")
    child.expect_exact(b"\nup\r\n")
    child.send(b"line\r")
    child.expect_exact(b"line\r\nline\r\n")
    child.send(b"\x04")
    child.send(b"exit 4\r")
    assert end(child)[0] == 4
