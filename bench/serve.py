"""What the daemon costs: lives over the API, creations, bulk, idle memory, kept connections, requests without work.

    serve.py BRIG API [WORD...]         # BENCH_VIEW: what bwrap is told to show, beside all of /

API is bench/api.c; the words are a command that runs "sh -c 'echo hi'" with crun COUNT times and prints what "api spawn"
does, with COUNT in its place. Each pair in turns, in slices. Prints
medians and ratios.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from life import family, pss

ROUNDS = int(os.environ.get("BENCH_SERVE_ROUNDS", "8"))
HELD = int(os.environ.get("BENCH_HELD", "1000"))
CONNECTIONS = 5000
MIB = 1024
SCRIPT = ["/bin/sh", "-c", "echo hi"]
BWRAP = {"bwrap /": ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
         "bwrap view": os.environ.get("BENCH_VIEW", "").split()}


class Daemon:
    def __init__(self, folder):
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen([EXE, "serve", "--json", "--quiet", "--listen", "127.0.0.1:0"], cwd=folder, stdout=subprocess.PIPE,
                                        stderr=self.log)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"serve.py: {(folder / 'log').read_text()[-300:]}")
        ready = json.loads(line)
        self.key, self.url = ready["key"], ready["url"]
        self.address = self.url.split("//")[1]

    def ask(self, method, path):
        request = urllib.request.Request(self.url + path, method=method, headers={"X-API-Key": self.key})
        with urllib.request.urlopen(request) as answer:
            data = answer.read()
            return json.loads(data) if data else None, answer.headers

    def sandboxes(self):
        found, token = [], ""
        while True:
            rows, headers = self.ask("GET", f"/v2/sandboxes?limit=100{token}")
            found += [row["sandboxID"] for row in rows]
            if not headers.get("x-next-token"):
                return found
            token = "&nextToken=" + headers["x-next-token"]

    def end_all(self):
        for sandbox in self.sandboxes():
            self.ask("DELETE", f"/sandboxes/{sandbox}")

    def memory(self):
        """Of the daemon, and of the process that it makes wardens with."""
        pid = self.process.pid
        return sum(pss(p) for p in [pid, *forge(pid)])

    def stop(self):
        self.end_all()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()


def forge(pid):
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def numbers(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"serve.py: {' '.join(command[:4])}: {done.stderr.strip()[-300:]}")
    return [float(n) for n in re.findall(r"[\d.]+(?= |$)", done.stdout)]


def api(*words):
    return numbers([API, *map(str, words)])


def row(name, ours, peer, ratio, unit):
    print(f"{name:46}{ours:11.2f}{peer:11.2f}{ratio:8.2f}  {unit}", flush=True)


def compare(name, unit, ours, peer):
    pairs = [(ours(), peer()) for _ in range(ROUNDS)]
    ratios = sorted(a / b for a, b in pairs)
    row(name, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), statistics.median(ratios),
        f"{unit}; ratio from {ratios[0]:.2f} to {ratios[-1]:.2f}")


def lives(daemon, crun):
    target = (daemon.address, daemon.key)
    api("cycles", *target, 20, 1)
    if crun:
        compare("create, first output, kill / crun run", "ms p50", lambda: api("cycles", *target, 20, 1)[0],
                lambda: numbers(["20" if word == "COUNT" else word for word in crun])[0])
    else:
        print("crun does not run here: its row is left out")
    p50, rate = api("cycles", *target, 400, 50)
    print(f"the same, 50 at once: {p50:.1f} ms p50, {rate:.0f} a second")


def creations(daemon, name, view, at_once):
    def ours():
        rate = api("create", daemon.address, daemon.key, 60, at_once)[1]
        daemon.end_all()
        return rate

    def peer():
        start = time.monotonic()
        loops = [subprocess.Popen([API, "spawn", str(60 // at_once), "bwrap", "--unshare-all", *view, *SCRIPT], stdout=subprocess.DEVNULL) for _ in range(at_once)]
        for loop in loops:
            loop.wait()
        return 60 / (time.monotonic() - start)

    compare(f"creations a second, {at_once} at once / {name} in loops", "more is better", ours, peer)


def bulk(daemon):
    def pipe():
        start = time.monotonic()
        with subprocess.Popen(["head", "-c", f"{MIB}M", "/dev/zero"], stdout=subprocess.PIPE) as process:
            block = bytearray(1 << 18)
            while os.readv(process.stdout.fileno(), [block]):
                pass
        return MIB / (time.monotonic() - start)

    compare(f"{MIB} MiB of output / a bare pipe", "MiB/s", lambda: api("bulk", daemon.address, daemon.key, MIB)[0], pipe)


def requests(daemon, folder):
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if not nginx:
        print("nginx is not installed: its row is left out")
        return
    (folder / "www").mkdir()
    (folder / "www" / "health").write_text('{"status":"ok"}\n')
    folder.chmod(0o755)
    config = folder / "nginx.conf"
    config.write_text(f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000; sendfile on; tcp_nopush on; open_file_cache max=100;
client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
server {{ listen 127.0.0.1:7099; root {folder}/www; }} }}
""")
    server = subprocess.Popen([nginx, "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if subprocess.run([API, "get", "127.0.0.1:7099", "/health", "1", "1"], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        compare("health a second / nginx with a static file", "", lambda: api("get", daemon.address, "/v1/health", 100000, 16)[0],
                lambda: api("get", "127.0.0.1:7099", "/health", 100000, 16)[0])
    finally:
        server.terminate()
        server.wait()


def held(daemon):
    empty = daemon.memory()
    api("create", daemon.address, daemon.key, HELD, 2)
    ids = daemon.sandboxes()
    some = ids[:: max(1, len(ids) // 50)]
    try:
        each = statistics.median(sum(pss(pid) for pid in family(sandbox)) for sandbox in some)
        cost = f"{each:.0f} KiB each (proportional, {len(family(some[0]))} processes)"
    except PermissionError:
        cost = "an ordinary user may not read what they cost"
    print(f"{len(ids)} sandboxes held: {cost}; the daemon and its forge {daemon.memory()} KiB, {empty} KiB before")
    daemon.end_all()
    alive = api("hold", daemon.address, CONNECTIONS, 3)[0]
    print(f"{alive:.0f} of {CONNECTIONS} kept connections answer after 3 s; the daemon and its forge {daemon.memory()} KiB afterwards")


def main():
    global EXE, API
    EXE, API = sys.argv[1:3]
    crun = sys.argv[3:]
    import life
    life.EXE = EXE
    with tempfile.TemporaryDirectory(prefix="brig-bench-", dir="/var/tmp") as folder:
        daemon = Daemon(Path(folder))
        try:
            print(f"{'':46}{'brig':>11}{'peer':>11}{'ratio':>8}")
            lives(daemon, crun)
            for name, view in BWRAP.items():
                for at_once in (1, 3):
                    if view:
                        creations(daemon, name, view, at_once)
            bulk(daemon)
            requests(daemon, Path(folder))
            held(daemon)
        finally:
            daemon.stop()


if __name__ == "__main__":
    main()
