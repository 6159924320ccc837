"""brig completion: each script in its shell."""

import os
import re
import shutil
import subprocess

import pexpect
import pytest

import harness

pytestmark = pytest.mark.tier("container")  # no tier makes a difference here

@pytest.fixture
def script(brig):
    def write(shell, name):
        done = brig("completion", shell)
        assert done.code == 0 and done.err == b""
        return brig.who.write(brig.folder / name, done.out)

    return write


def shell(name):
    path = shutil.which(name)
    if not path:
        pytest.skip(f"needs {name}")
    return path


def environment(brig):
    return brig.env({"PATH": f"{brig.exe.parent}:{harness.PATH}", "TERM": "dumb"})


@pytest.fixture
def lines(brig):
    """Lines that are completed, and what is offered, with a sandbox that lives."""
    sandbox = brig("create", "--name", "web").text.strip()
    brig.who.write(brig.work / "afile")
    verbs = {verb for verb in re.findall(r"^  (\w+) +\S", brig("help").text, re.M) if verb.startswith("e")}
    assert {"exec", "extend", "events"} <= verbs
    yield [
        ("brig e", verbs, "run"),
        ("brig kill --a", {"--all"}, "--json"),
        ("brig run --isola", {"--isolation"}, "--json"),
        ("brig run --isolation con", {"container"}, "process"),
        ("brig run --policy ag", {"agent"}, "base"),
        ("brig run --policy af", {"afile"}, "agent"),
        ("brig policy s", {"schema"}, "list"),
        ("brig help sta", {"stats"}, "run"),
        ("brig kill we", {"web"}, sandbox),
        (f"brig pause {sandbox[:5]}", {sandbox}, "web"),
        ("brig cp af", {"afile"}, "web:"),
        ("brig cp we", {"web:"}, "afile"),
        ("brig extend web ne", {"never"}, "web"),
        ("brig completion fi", {"fish"}, "bash"),
    ]
    assert brig("kill", sandbox).code == 0


BASH = r"""
source "$1"
read -r -a COMP_WORDS <<< "$2"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_brig
printf '%s\n' "${COMPREPLY[@]}"
"""


def test_bash_completes(brig, script, lines):
    path = script("bash", "brig.bash")
    for line, wanted, other in lines:
        done = subprocess.run([*brig.who.prefix(), shell("bash"), "--norc", "-c", BASH, "bash", path, line],
                              env=environment(brig), cwd=brig.work, capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == wanted and other not in wanted, (line, done)
        assert done.stderr == "" or "compopt" in done.stderr


def test_bash_completes_at_the_tab_key(brig, script):
    """The shell itself, with a person at it: options in both forms, and the value of one behind "="."""
    path = script("bash", "brig.bash")
    command = [*brig.who.prefix(), shell("bash"), "--norc", "--noprofile", "-i"]
    child = pexpect.spawn(command[0], command[1:], env=environment(brig), cwd=str(brig.work), encoding="utf-8",
                          timeout=harness.HANG, dimensions=(40, 200))
    child.sendline(f"PS1='> '; bind 'set enable-bracketed-paste off'; source {path}; echo rea''dy")
    child.expect("ready\r\n> ")
    for typed, full in (("brig exe", "brig exec "), ("brig run --pol", "brig run --policy "),
                        ("brig run --isolation=gv", "brig run --isolation=gvisor "), ("brig policy ex", "brig policy explain ")):
        child.send(typed + "\t")
        child.expect_exact(full)
        # Emptied, not entered: between two lines the terminal is not the shell's, and keys mean other things.
        child.send("\x15")
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()


def test_fish_completes(brig, script, lines):
    path = script("fish", "brig.fish")
    program = shell("fish")
    for line, wanted, other in lines:
        done = subprocess.run([*brig.who.prefix(), program, "--no-config", "-c",
                               "source $argv[1]; complete -C $argv[2]", path, line], env=environment(brig), cwd=brig.work,
                              capture_output=True, text=True, check=True)
        offered = {found.split("\t")[0] for found in done.stdout.splitlines()}
        assert offered == wanted and other not in offered, (line, done)


def test_zsh_completes(brig, script, lines):
    path = script("zsh", "_brig")
    program = shell("zsh")
    command = [*brig.who.prefix(), program, "-f", "-i"]
    child = pexpect.spawn(command[0], command[1:], env=environment(brig), cwd=str(brig.work), encoding="utf-8",
                          timeout=harness.HANG, dimensions=(40, 200))
    child.sendline(f"PS1='> '; unset zle_bracketed_paste; setopt no_prompt_sp no_always_last_prompt; autoload -U compinit; "
                   f"compinit -u -D; source {path}; echo rea''dy")
    child.expect("ready\r\n")
    for line, wanted, _ in lines:
        child.expect("> ")
        child.send(line + "\t")
        # One is put into the line; of several the list is shown.
        for word in sorted(wanted):
            child.expect_exact(word)
        child.send("\x15\n")
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_verb_and_option_is_there(brig, script, name):
    text = script(name, "script").read_text()
    manual = brig("manual").text.replace("\\-", "-")
    options = {word for word in re.findall(r"^\.B (?:-\w, )?--([a-z-]+)", manual, re.M)}
    assert len(options) > 30
    for option in options:
        assert re.search(rf"(--|-l ){re.escape(option)}\b", text), option
    for verb in re.findall(r"^\.SS brig (\w+)", manual, re.M):
        assert re.search(rf"\b{verb}\b", text), verb


def test_another_shell_is_refused(brig):
    assert "fish" in brig.refused("completion", "tcsh") and "fish" in brig.refused("completion")


def test_make_install_puts_them_where_shells_look(brig, tmp_path):
    if brig.who.is_switched:
        pytest.skip("once is enough")
    if not (harness.ROOT / "build" / "brig").exists():
        pytest.skip("needs a release build")
    subprocess.run(["make", "-s", "-C", harness.ROOT, "-o", "all", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"],
                   check=True, capture_output=True, env={"PATH": os.environ["PATH"]})
    share = tmp_path / "usr" / "share"
    for path in ("bash-completion/completions/brig", "zsh/site-functions/_brig", "fish/vendor_completions.d/brig.fish"):
        assert "brig completion" in (share / path).read_text()
