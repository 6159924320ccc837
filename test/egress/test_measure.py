"""What the gate costs, printed (pytest -s) and never asserted: a shared machine is no clock."""

import subprocess

import internet
from conftest import BUILD, PYTHON

BULK = """
import socket, sys, time
size = 1 << 30
s = socket.create_connection(("93.184.216.34", 80))
block = bytearray(1 << 20)
start = time.monotonic()
if sys.argv[1] == "down":
    s.sendall(f"GET /{size} HTTP/1.1\\r\\nHost: 93.184.216.34\\r\\n\\r\\n".encode())
    while s.recv_into(block):
        pass
else:
    s.sendall(f"PUT /drop HTTP/1.1\\r\\nHost: 93.184.216.34\\r\\nContent-Length: {size}\\r\\n\\r\\n".encode())
    for _ in range(size >> 20):
        s.sendall(block)
    s.recv(1)
print(size / (time.monotonic() - start) / 1e9)
"""


def direct(world, *command):
    return float(subprocess.run(world.shell(*command), capture_output=True, text=True, check=True).stdout)


def behind(gate, *command):
    result = gate(["93.184.216.34:80"], *command, timeout=120)
    assert result.code == 0, result.err
    return float(result.out)


def test_connect_latency(world, gate):
    command = [BUILD / "gate_workload", "latency", internet.HOST, "80", "1000"]
    runs = [(direct(world, *command), behind(gate, *command)) for _ in range(3)]
    bare, through = sorted(runs, key=lambda run: run[1] - run[0])[1]
    print(f"\n{gate.tier}: connect {bare:.0f} us direct, {through:.0f} us through the gate")


def test_bulk(world, gate):
    for way in "down", "up":
        command = [PYTHON, "-c", BULK, way]
        runs = [(direct(world, *command), behind(gate, *command)) for _ in range(3)]
        bare, through = sorted(runs, key=lambda run: run[1] / run[0])[1]
        print(f"\n{gate.tier}: {way} {bare:.2f} GB/s direct, {through:.2f} through the gate: {through / bare:.2f}")
