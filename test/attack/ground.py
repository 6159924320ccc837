"""Where scenes of more than one act are played: a folder with a canary outside, a writable one, and brig to run there."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from stage_client import BUILD, make_user

BRIG = BUILD / "brig"


class Ground:
    """A folder with a canary outside, a writable folder and one for temporary files, and brig to run there."""

    def __init__(self, root, user, tier):
        self.root, self.user, self.tier = root, user, tier
        self.work, self.outside, self.temporary = root / "work", root / "outside", root / "tmp"
        for path in (self.work, self.outside, self.temporary):
            path.mkdir()
        self.canary = self.outside / "canary"
        self.canary.write_text("alive")
        self.give(root)

    @property
    def is_root(self):
        return self.user.pw_uid == 0

    def give(self, root):
        """Makes a tree the user's own."""
        for path in (root, *root.rglob("*")):
            os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)

    def prepare(self):
        os.setgroups([])
        os.setresgid(*[self.user.pw_gid] * 3)
        os.setresuid(*[self.user.pw_uid] * 3)

    def start(self, *arguments, **keywords):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.root), "TMPDIR": str(self.temporary),
                       "LANG": "C.UTF-8", "ASAN_OPTIONS": "detect_leaks=0"}
        keywords = {"cwd": self.work, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords}
        return subprocess.Popen([BRIG, "run", "--isolation", self.tier, *map(str, arguments)], env=environment,
                                preexec_fn=self.prepare, stdin=subprocess.DEVNULL, **keywords)

    def run(self, *arguments, timeout=120, **keywords):
        with self.start(*arguments, **keywords) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def sh(self, script, *options, **keywords):
        return self.run("--allow-write", self.work, *options, "--", "/bin/sh", "-c", script, **keywords)

    def intact(self):
        return self.canary.read_text() == "alive" and sorted(self.outside.iterdir()) == [self.canary]


def make_ground(user, tier):
    root = Path(tempfile.mkdtemp(prefix="brig-scene-", dir="/var/tmp"))
    return Ground(root, pwd.getpwnam("root") if user == "root" else make_user(), tier)


def remove_ground(ground):
    shutil.rmtree(ground.root)


def processes_with(mark):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                pass
    return found
