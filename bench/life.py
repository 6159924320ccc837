"""What sandboxes that live cost: bulk output, copies, memory while idle, wake-ups, one more among a thousand.

    life.py BRIG TIER [COUNT]

Each pair in turns. Prints medians and ratios.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("BENCH_LIFE_ROUNDS", "5"))
GIGABYTE = 1 << 30
SEND = "import os\nb = bytes(1 << 20)\nfor _ in range(2048): os.write(1, b)"


def brig(*args, **options):
    done = subprocess.run([EXE, *args], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"life.py: brig {' '.join(args[:2])}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def seconds(command, **options):
    start = time.monotonic()
    subprocess.run(command, check=True, **options)
    return time.monotonic() - start


def drain(command):
    """Seconds until all that the command prints has been read through a pipe."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        block = bytearray(1 << 20)
        while os.readv(process.stdout.fileno(), [block]):
            pass
    return time.monotonic() - start


def compare(name, direct, ours):
    pairs = [(direct(), ours()) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:40}{statistics.median(a for a, _ in pairs):9.2f}{statistics.median(b for _, b in pairs):9.2f}{ratio:8.2f}")


def family(sandbox):
    """The warden of a sandbox and all below it, and the janitor, which is a child of the warden."""
    import json
    state = Path(os.environ["XDG_STATE_HOME"]) / "brig" / "live" / sandbox
    todo, found = [json.loads(state.read_text())["pid"]], []
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found


def pss(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def switches(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def bulk(folder):
    sandbox = brig("create", "--isolation", TIER)
    print(f"{'seconds':40}{'direct':>9}{'brig':>9}{'ratio':>8}")
    python = sys.executable
    compare("2 GiB of output through a pipe", lambda: drain([python, "-c", SEND]),
            lambda: drain([EXE, "exec", sandbox, "--", python, "-c", SEND]))
    source, copy, back = folder / "source", folder / "copy", folder / "back"
    with open(source, "wb") as f:
        block = os.urandom(1 << 20)
        for _ in range(GIGABYTE >> 20):
            f.write(block)

    def plain():
        copy.unlink(missing_ok=True)
        return seconds(["cp", source, copy])

    def into():
        brig("exec", sandbox, "--", "rm", "-f", "big")
        return seconds([EXE, "cp", source, f"{sandbox}:big"])

    compare("cp of 1 GiB into it", plain, into)

    def out():
        back.unlink(missing_ok=True)
        return seconds([EXE, "cp", f"{sandbox}:big", back])

    compare("cp of 1 GiB out of it", plain, out)
    brig("kill", sandbox)


def among_others(count):
    """One more while so many live, in the same run; and what each of those costs."""
    def one_more():
        start = time.monotonic()
        sandbox = brig("create", "--isolation", TIER)
        took = time.monotonic() - start
        brig("kill", sandbox)
        return took * 1e3

    first = statistics.median(one_more() for _ in range(40))
    all_of_them = [brig("create", "--isolation", TIER) for _ in range(count)]
    last = statistics.median(one_more() for _ in range(40))
    print(f"create: {first:.2f} ms when it is alone, {last:.2f} ms beside {count}: {last / first:.2f} times")
    some = all_of_them[:: max(1, count // 50)]
    try:
        sums = [sum(pss(pid) for pid in family(sandbox)) for sandbox in some]
        print(f"memory of an idle sandbox, proportional: {statistics.median(sums)} KiB "
              f"({len(family(some[0]))} processes)")
    except PermissionError:
        print("memory of an idle sandbox: an ordinary user may not read it")
    before = {pid: switches(pid) for sandbox in some for pid in family(sandbox)}
    time.sleep(5)
    woken = sum(switches(pid) - n for pid, n in before.items())
    print(f"wake-ups of {len(some)} idle sandboxes in 5 s: {woken}")
    for sandbox in all_of_them:
        brig("kill", sandbox)


def main():
    global EXE, TIER
    EXE, TIER = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with tempfile.TemporaryDirectory(prefix="brig-bench-", dir="/var/tmp") as folder:
        if count:
            among_others(count)
        else:
            bulk(Path(folder))


if __name__ == "__main__":
    main()
