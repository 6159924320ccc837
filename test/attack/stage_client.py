"""Starts a stage (stage.py) and asks it to play probes; what the tests count, for the summary at the end."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("BRIG_BUILD", HERE.parents[1] / "build-test")).resolve()
TEST_USER = "brigattack"  # not that of test/e2e, which may run at the same time
NAMESPACES = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]

score = {"walls": {}, "absent": {}, "limits": {}}


class StageClient:
    def __init__(self, user):
        self.base = tempfile.mkdtemp(prefix="brig-attack-", dir="/var/tmp")
        self.answers = {}
        self.asked = []
        self.process = subprocess.Popen(
            ["unshare", *NAMESPACES, sys.executable, HERE / "stage.py", BUILD, user], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, "ATTACK_BASE": self.base})

    def ask(self, name, mode, options=(), without=()):
        """Sends a request, unless that was done before; the answer comes later. mode: "control" or a tier."""
        request = {"name": name, "mode": mode, "options": list(options), "without": list(without),
                   "tty": name.startswith("tty_"), "guards": name.startswith(("guard_", "protected_", "hidden_"))}
        line = json.dumps(request)
        if line not in self.answers and line not in self.asked:
            self.asked.append(line)
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return line

    def play(self, *request):
        line = self.ask(*request)
        while line not in self.answers:
            answer = self.process.stdout.readline()
            assert answer, f"the stage ended while it played {self.asked[0]}"
            self.answers[self.asked.pop(0)] = json.loads(answer)
        return self.answers[line]

    def done(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        shutil.rmtree(self.base)


def make_user():
    try:
        pwd.getpwnam(TEST_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--shell", "/bin/sh", "--home", "/nonexistent", TEST_USER], check=True)
    return pwd.getpwnam(TEST_USER)
