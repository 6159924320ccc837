"""What the gate costs: connects, bulk transfers and memory, direct and through "brig run", in turns.

    gate.py BRIG WORKLOAD

In a network of its own (test/egress/world.py), so that nothing depends on the machine's. Prints medians and ratios.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "egress"))
import internet  # noqa: E402
from world import PYTHON, World  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_GATE_ROUNDS", "5"))
BULK = """
import socket, sys, time
size = 1 << 29
s = socket.create_connection(("good.test" if len(sys.argv) > 2 else "93.184.216.34", int(sys.argv[2]) if len(sys.argv) > 2 else 80))
block = bytearray(1 << 20)
start = time.monotonic()
if sys.argv[1] == "down":
    s.sendall(f"GET /{size} HTTP/1.1\\r\\nHost: 93.184.216.34\\r\\n\\r\\n".encode())
    while s.recv_into(block): pass
else:
    s.sendall(f"PUT /drop HTTP/1.1\\r\\nHost: 93.184.216.34\\r\\nContent-Length: {size}\\r\\n\\r\\n".encode())
    for _ in range(size >> 20): s.sendall(block)
    s.recv(1)
print(size / (time.monotonic() - start) / 1e9)
"""
MANY = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
all = [socket.create_connection(("93.184.216.34", 7001)) for _ in range(int(sys.argv[1]))]
print("ready", flush=True)
sys.stdin.read()
"""


def number(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"gate.py: {done.stderr.strip()[-300:]}")
    return float(done.stdout)


def pss(pid):
    """The warden's own memory, without what it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def memory(world, brig, count):
    """KiB of the warden while so many connections are open."""
    command = world.shell(brig, "run", "--allow-net", f"{internet.HOST}/32:* raw", "--", PYTHON, "-c", MANY, count)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        used = pss(process.pid)
        process.stdin.close()
    return used


def main():
    brig, workload = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="brig-bench-") as folder:
        os.chmod(folder, 0o755)
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        world = World(folder, is_root=os.geteuid() == 0)
        if not world.works:
            sys.exit(f"the gate is left out: {world.why()}")
        rules = ["--allow-net", f"{internet.HOST}/32:*"]
        behind = [brig, "run", "--allow-read", os.path.dirname(workload), *rules, "--"]
        # A connection by such a rule is the caller's own on the process tier.
        raw = [brig, "run", "--isolation", "process", "--allow-net", f"{internet.HOST}/32:* raw", "--"]
        try:
            down, up = ([PYTHON, "-c", BULK, way] for way in ("down", "up"))
            rows = {"connect, us": (behind, [workload, "latency", internet.HOST, "80", "1000"]),
                    "down, GB/s": (behind, down), "up, GB/s": (behind, up), "raw down, GB/s": (raw, down), "raw up, GB/s": (raw, up)}
            print(f"{'':16}{'direct':>10}{'brig':>10}{'ratio':>8}")
            for name, (before, command) in rows.items():
                pairs = [(number(world.shell(*command)), number(world.shell(*before, *command))) for _ in range(ROUNDS)]
                ratio = statistics.median(b / a for a, b in pairs)
                print(f"{name:16}{statistics.median(a for a, _ in pairs):10.2f}{statistics.median(b for _, b in pairs):10.2f}{ratio:8.2f}")
            one, many = memory(world, brig, 1), memory(world, brig, 1000)
            print(f"memory of the warden: {one} KiB with 1 connection, {many} KiB with 1000")
        finally:
            world.end()


if __name__ == "__main__":
    main()
