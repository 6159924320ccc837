"""What a run comes to: the JSON object, its schema, and the reasons for an end."""

import base64
import json
import os
import shutil
import signal
import subprocess

import jsonschema
import pytest

import harness


def wall(result, name):
    return next(w for w in result["enforcement"] if w["name"] == name)


def test_the_object_has_everything_that_a_caller_needs(brig):
    result = brig.json("--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result["exit_code"], result["signal"], result["reason"]) == (3, None, "exit")
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert (result["stdout_base64"], result["stderr_base64"], result["truncated"]) == (None, None, False)
    assert result["isolation"] == brig.tier
    assert result["policy"].startswith("sha256:") and len(result["policy"]) == 71
    assert len(result["sandbox"]) == 12
    assert result["peak_memory"] > 0 and result["duration_ms"] >= 0 and result["cpu_ms"] >= 0
    walls = {"files", "syscalls", "network", "privileges", *(["namespaces", "root", "ids"] if brig.is_container else ["signals"])}
    assert walls <= {w["name"] for w in result["enforcement"]}


def test_nothing_but_the_object_is_printed(brig):
    done = brig("run", "--json", "--", "sh", "-c", "echo x; echo y >&2")
    assert done.out.startswith(b"{") and done.out.endswith(b"}\n") and done.err == b""


def test_the_schema_refuses_what_is_not_a_result(brig):
    result = brig.json("--", "true")
    for broken in ({k: v for k, v in result.items() if k != "reason"}, {**result, "more": 1},
                   {**result, "reason": "because"}, {**result, "exit_code": "0"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(brig.schema("run")).validate(broken)


@pytest.mark.tier("container")
@pytest.mark.parametrize("data", [b"\xff\xfe\n", b"\x80", b"ok\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80",
                                  bytes(range(256)) * 20], ids=lambda b: b[:6].hex())
def test_bytes_that_are_no_text_have_an_exact_twin(brig, data):
    brig.who.write(brig.work / "data", data)
    result = brig.json("--", "sh", "-c", "cat data; cat data >&2")
    assert base64.b64decode(result["stdout_base64"], validate=True) == data
    assert base64.b64decode(result["stderr_base64"], validate=True) == data
    assert "\ufffd" in result["stdout"]


@pytest.mark.tier("container")
@pytest.mark.parametrize("data", ["", "plain", "ä漢😀\n", "\0a\0", "\x1b[31m\x07\x7f", '"\\\b\f\r\t\u2028\ufeff'],
                         ids=ascii)
def test_text_needs_no_twin(brig, data):
    brig.who.write(brig.work / "data", data)
    result = brig.json("--", "cat", "data")
    assert (result["stdout"], result["stdout_base64"]) == (data, None)


def test_without_a_limit_a_mebibyte_is_kept_and_the_program_goes_on(brig):
    code = "import sys; sys.stdout.write('x' * 3000000); sys.stderr.write('done')"
    result = brig.json("--", "python3", "-c", code)
    assert result["truncated"] and result["stdout"] == "x" * 1048576
    assert (result["reason"], result["exit_code"], result["stderr"]) == ("exit", 0, "done")


def test_the_output_limit_ends_the_run(brig):
    result = brig.json("--output", "1000", "--", "yes")
    assert result["reason"] == "output" and result["truncated"]
    assert len(result["stdout"]) + len(result["stderr"]) == 1000
    done = brig.run("--output", "1000", "--", "yes")
    assert done.code == 128 + signal.SIGKILL and len(done.out) == 1000
    assert done.error == "brig: the sandbox printed more than its limit (output)\n"


def test_the_output_limit_is_for_both_streams_together(brig):
    result = brig.json("--output", "100", "--", "sh", "-c", "head -c 60 /dev/zero; head -c 60 /dev/zero >&2; sleep 60")
    assert result["reason"] == "output"
    assert len(result["stdout"]) + len(result["stderr"]) == 100


def test_output_up_to_the_limit_is_no_reason(brig):
    result = brig.json("--output", "1000", "--", "head", "-c", "1000", "/dev/zero")
    assert (result["reason"], result["truncated"], len(result["stdout"])) == ("exit", False, 1000)


def test_a_program_that_only_claims_to_be_killed_exits(brig):
    for status in (124, 137, 143):
        result = brig.json("--wall", "30s", "--", "sh", "-c", f"exit {status}")
        assert (result["reason"], result["exit_code"], result["signal"]) == ("exit", status, None)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGXCPU", "SIGXFSZ", "SIGSYS", "SIGINT"])
def test_a_program_that_kills_itself_ends_by_signal(brig, name):
    result = brig.json("--", "sh", "-c", f"kill -{name[3:]} $$")
    assert (result["reason"], result["signal"]) == ("signal", name)
    assert result["exit_code"] == 128 + getattr(signal, name)


@pytest.mark.parametrize("option,value,name", [("--memory", "512M", "SIGKILL"), ("--cpu-time", "30s", "SIGXCPU")])
def test_a_limit_that_was_not_reached_is_no_reason(brig, option, value, name):
    """A program that raises the limit's signal on itself would hide behind it."""
    result = brig.json(option, value, "--", "sh", "-c", f"kill -{name[3:]} $$")
    assert result["reason"] == "signal"


def test_the_deadline_is_reason_timeout_and_124(brig):
    result = brig.json("--wall", "200ms", "--", "sleep", "60")
    assert (result["reason"], result["exit_code"]) == ("timeout", 124)
    done = brig.run("--wall", "200ms", "--", "sleep", "60")
    assert (done.code, done.error) == (124, "brig: the sandbox ended at its time limit (wall)\n")


def test_a_program_may_tidy_up_at_the_deadline(brig):
    script = "trap 'echo tidy; exit 5' TERM; echo up; sleep 600 & wait"
    result = harness.in_time(lambda: harness.with_room(lambda wall: brig.json("--wall", wall, "--", "sh", "-c", script),
                                                       lambda result: result["stdout"]),
                             lambda result: "tidy" in result["stdout"])
    assert (result["reason"], result["exit_code"], result["stdout"]) == ("timeout", 124, "up\ntidy\n")


def test_a_file_over_the_disk_limit_is_reason_disk(brig):
    result = brig.json("--disk", "64K", "--", "sh", "-c", "exec head -c 1000000 /dev/zero > $TMPDIR/file")
    assert result["reason"] == "disk" and result["exit_code"] != 0
    if not brig.is_container:
        assert result["signal"] == "SIGXFSZ"


def test_used_up_cpu_time_is_reason_cpu(brig):
    result = brig.json("--cpu-time", "300ms", "--", "sh", "-c", "while :; do :; done")
    assert result["reason"] == "cpu" and result["cpu_ms"] >= 250


def test_cpu_time_counts_all_processes(brig):
    """Each of them is far below the limit; the sum is over it. Ended children count as well."""
    spin = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass"
    result = brig.json("--cpu-time", "1s", "--", "sh", "-c", f'while :; do python3 -c "{spin}"; done')
    assert result["reason"] == "cpu"


def test_cancelling_is_reason_cancelled(brig):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        up = brig.who.write(brig.work / "up")
        process = brig.start("run", "--json", "--allow-write", up, "--", "sh", "-c", "echo up > up; sleep 60")
        harness.wait_until(lambda: up.read_text(), "the command to start")
        process.send_signal(number)
        done = harness.finish(process)
        result = json.loads(done.out)
        assert (result["reason"], result["exit_code"]) == ("cancelled", 128 + number)


GROW = "x = []\nwhile True: x.append(b'x' * 1000000)"


def test_too_much_memory_is_reason_memory(brig):
    """By cgroup the kernel kills; without one the program sees its allocation fail, or the watch is first."""
    result = brig.json("--memory", "64M", "--", "python3", "-c", GROW)
    if "cgroup" in wall(result, "memory")["mechanism"]:
        assert result["reason"] == "memory" and result["exit_code"] != 0
    else:
        assert wall(result, "memory")["mechanism"] == "rlimit and watch"
        assert result["reason"] == "memory" or "MemoryError" in result["stderr"]


SHARE = """
import mmap, os, sys, time
count, size = int(sys.argv[1]), int(sys.argv[2])
for _ in range(count):
    if os.fork() == 0:
        m = mmap.mmap(-1, size, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        for at in range(0, size, 4096): m[at] = 1
        time.sleep(600)
sys.exit(any(os.wait()[1] for _ in range(count)))
"""


def test_shared_memory_of_several_processes_counts_together(brig):
    """Each stays below the limit, and shared mappings escape RLIMIT_DATA: only a sum can see it."""
    result = brig.json("--memory", "80M", "--wall", "60s", "--", "python3", "-c", SHARE, 5, 30 << 20)
    assert result["reason"] == "memory"


def test_one_shared_mapping_is_counted_once(brig):
    code = """
import mmap, os, time
m = mmap.mmap(-1, 30 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
for at in range(0, 30 << 20, 4096): m[at] = 1
for _ in range(5):
    if os.fork() == 0:
        for at in range(0, 30 << 20, 4096): m[at]
        time.sleep(0.5)
        os._exit(0)
for _ in range(5): os.wait()
"""
    result = brig.json("--memory", "120M", "--", "python3", "-c", code)
    assert (result["reason"], result["exit_code"]) == ("exit", 0), result["stderr"]


def test_too_many_processes_is_reason_pids(brig):
    code = "import os, time\nfor _ in range(50):\n  if os.fork() == 0: time.sleep(60); os._exit(0)"
    result = brig.json("--pids", "10", "--", "python3", "-c", code)
    assert result["exit_code"] == 1 and "BlockingIOError" in result["stderr"]
    if "cgroup" in wall(result, "pids")["mechanism"]:
        assert result["reason"] == "pids"
    else:
        # The kernel does not count refusals of RLIMIT_NPROC: nothing but the program's word, which is no fact.
        assert result["reason"] == "exit"


def test_a_program_that_cannot_be_executed_is_a_result(brig):
    assert brig.json("--", "no-such-program")["exit_code"] == 127
    brig.who.write(brig.work / "data", "x", 0o644)
    assert brig.json("--", "./data")["exit_code"] == 126


def test_a_foreign_system_call_is_a_denial(brig):
    """int 0x80 is the i386 way into the kernel, which the filter does not know."""
    if os.uname().machine != "x86_64" or not shutil.which("gcc"):
        pytest.skip("needs x86_64 and a compiler")
    source = 'int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r > 0 ? 0 : 1; }'
    brig.who.write(brig.work / "abi.c", source)
    subprocess.run(["gcc", "-o", brig.work / "abi", brig.work / "abi.c"], check=True)
    result = brig.json("--", "./abi")
    assert result["signal"] == "SIGSYS"
    assert result["denials"][0]["action"] == "syscall"
    assert "refused" in brig.run("--", "./abi").error


def test_an_error_of_brig_itself_prints_no_object(brig):
    assert "unknown option" in brig.refused("run", "--json", "--nonsense", "--", "true")
    assert "--memory" in brig.refused("run", "--json", "--memory", "4x", "--", "true")
