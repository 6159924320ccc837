"""Limits: by cgroup where one can be had, else by what an ordinary process can get; never a shrug."""

import json
import subprocess

import pytest

NO_CGROUP = {"BRIG_TEST_FAIL": "cgroup=1"}


def wall(result, name):
    return next(w for w in result["enforcement"] if w["name"] == name)


def has_cgroup(brig, name):
    facts = {f["name"]: f for f in json.loads(brig("doctor", "--json").out)["host"]}
    return facts[f"cgroup_{name}"]["ok"]


def test_the_report_names_the_mechanism_of_every_limit(brig):
    result = brig.json("--wall", "30s", "--memory", "512M", "--disk", "1G", "--files", "64", "--output", "1M", "--cpu",
                       "1", "--cpu-time", "20s", "--pids", "500", "--", "true")
    assert wall(result, "wall")["value"] == "30s"
    for name in ("memory", "cpu", "pids"):
        expected = "cgroup v" if has_cgroup(brig, name) else {"memory": "rlimit and watch", "cpu": "CPU affinity",
                                                             "pids": "rlimit"}[name]
        assert expected in wall(result, name)["mechanism"]
    assert "512M" in wall(result, "memory")["value"]
    if brig.is_container:
        assert "1G" in wall(result, "disk")["value"] and "not bounded" not in wall(result, "disk")["value"]
    else:
        assert "not bounded" in wall(result, "disk")["value"]


def test_open_files_are_limited(brig):
    code = "import os\nfds = []\ntry:\n  while True: fds.append(os.open('/dev/null', 0))\nexcept OSError as e: print(e.errno, max(fds))"
    assert brig.python(code, options=["--files", "40"]).out == b"24 39\n"


def test_limits_cannot_be_raised_inside(brig):
    code = ("import resource as r\n"
            "for x in (r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_CPU, r.RLIMIT_CORE):\n"
            "  try: r.setrlimit(x, (1 << 40, 1 << 40)); print('raised', x)\n"
            "  except (ValueError, PermissionError): pass\n")
    done = brig.python(code, options=["--files", "40", "--disk", "1M", "--cpu-time", "20s"])
    assert (done.code, done.out) == (0, b"")


def test_a_file_ends_at_the_disk_limit(brig):
    out = brig.who.mkdir(brig.work / "out")
    brig.run("--disk", "64K", "--allow-write", out, "--", "sh", "-c", "head -c 1000000 /dev/zero > out/file")
    assert (out / "file").stat().st_size == 65536


@pytest.mark.tier("container")
@pytest.mark.parametrize("where", ["~", "/tmp", "/dev/shm", "overlay"])
def test_the_disk_limit_bounds_the_sum_of_a_containers_own_files(brig, where):
    """Many small files, each far below the limit. The reason is the kernel's fact: the store is full."""
    folder = "." if where == "overlay" else where
    options = ["--overlay", "."] if where == "overlay" else []
    script = f"cd {folder}; for i in 1 2 3 4 5 6 7 8 9; do head -c 20000 /dev/zero > f$i || exit 3; done; echo all"
    result = brig.json("--disk", "64K", *options, "--", "sh", "-c", script)
    assert result["exit_code"] == 3 and result["stdout"] == "" and "No space left" in result["stderr"]
    assert result["reason"] == "disk"
    fine = brig.json("--disk", "1M", *options, "--", "sh", "-c", script)
    assert (fine["exit_code"], fine["reason"], fine["stdout"]) == (0, "exit", "all\n")
    assert list(brig.work.iterdir()) == []


@pytest.mark.tier("container")
def test_many_empty_files_do_not_get_around_the_disk_limit(brig):
    """Each needs memory of the machine, and none has a byte."""
    code = ("import os\n"
            "try:\n"
            "  for i in range(2000000): os.close(os.open(f'/tmp/{i}', os.O_CREAT | os.O_WRONLY))\n"
            "except OSError as e: print(e.errno)")
    done = brig.python(code, options=["--disk", "64K", "--wall", "25s"])
    assert done.out == b"28\n", done


@pytest.mark.tier("container")
def test_a_small_disk_is_enough_to_start(brig):
    """The mount points of the rules live in the store too."""
    done = brig.run("--disk", "64K", "--allow-write", ".", "--", "sh", "-c", "echo x > ~/f; cat ~/f")
    assert done.out == b"x\n", done
    for size in ("1", "4096", "16K"):
        done = brig.run("--disk", size, "--", "true")
        assert done.code == 0 or (done.code == 125 and done.error.count("\n") == 1 and ("disk" in done.error or "No space" in done.error)), done


@pytest.mark.tier("container")
def test_without_a_disk_limit_a_container_can_write(brig):
    assert brig.run("--", "sh", "-c", "head -c 30000000 /dev/zero > ~/f; stat -c %s ~/f").out == b"30000000\n"


@pytest.mark.tier("container")
def test_files_of_a_container_count_as_its_memory(brig):
    """Its own files are memory: by cgroup, or by the size of the store."""
    result = brig.json("--memory", "64M", "--", "sh", "-c", "head -c 200000000 /dev/zero > /tmp/f; ls -l /tmp/f | wc -l; exit 3")
    assert result["exit_code"] != 0 and (result["reason"] in ("memory", "disk") or "No space left" in result["stderr"]), result


@pytest.mark.tier("container")
def test_files_of_a_container_without_a_cgroup_are_bounded_by_the_memory_limit(brig, hooks):
    script = "head -c 200000000 /dev/zero > /tmp/f; stat -c %s /tmp/f"
    result = brig.json("--memory", "64M", "--", "sh", "-c", script, env=NO_CGROUP)
    assert int(result["stdout"] or 0) <= 64 << 20


def test_a_limit_above_the_callers_own_is_refused(brig):
    if brig.who.is_root:
        pytest.skip("root may raise its own limits")
    said = brig.refused("run", "--files", "5000", "--", "true", before=["sh", "-c", 'ulimit -n 300; exec "$@"', "sh"])
    assert "hard limit" in said and "limits.files" in said


def test_cpus_by_cgroup_or_affinity(brig):
    if not has_cgroup(brig, "cpu"):
        assert brig.run("--cpu", "1", "--", "nproc").out == b"1\n"
        assert "fraction" in brig.refused("run", "--cpu", "0.5", "--", "true")
    else:
        assert "cgroup" in wall(brig.json("--cpu", "0.5", "--", "true"), "cpu")["mechanism"]


def test_without_a_cgroup_cpus_are_fixed_and_fractions_refused(brig, hooks):
    assert brig.run("--cpu", "1", "--", "nproc", env=NO_CGROUP).out == b"1\n"
    code = ("import os\ntry: os.sched_setaffinity(0, range(os.cpu_count())); print('widened')\n"
            "except OSError: pass\nprint(len(os.sched_getaffinity(0)))")
    assert brig.python(code, options=["--cpu", "1"], env=NO_CGROUP).text.split()[-1] == "1"
    said = brig.refused("run", "--cpu", "0.5", "--", "true", env=NO_CGROUP)
    assert "fraction" in said and "cgroup" in said


@pytest.mark.tier("container")
def test_without_a_cgroup_pids_count_only_the_sandbox(brig, hooks):
    """In ids of its own; processes of the same user outside do not use the limit up."""
    outside = [subprocess.Popen([*brig.who.prefix(), "/bin/sleep", "100"], cwd="/") for _ in range(12)]
    try:
        few = brig.json("--pids", "8", "--", "sh", "-c", "sleep 0.2 & sleep 0.2 & sleep 0.2 & wait; echo fine", env=NO_CGROUP)
        assert (few["exit_code"], few["stdout"]) == (0, "fine\n")
        assert "rlimit" in wall(few, "pids")["mechanism"]
        many = brig.json("--pids", "8", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; echo no", env=NO_CGROUP)
        assert "fork" in many["stderr"].lower() and many["stdout"] == ""
    finally:
        for process in outside:
            process.kill()
            process.wait()


@pytest.mark.tier("container")
def test_without_a_cgroup_pids_are_refused_where_root_has_users(brig, hooks):
    """The kernel counts each user by himself, and root of a system of its own is whom he wants."""
    options = ("--policy", "interpreter", "--pids", "30")
    if brig.who.is_root:
        said = brig.refused("create", *options, env=NO_CGROUP)
        assert "limits.pids cannot be enforced without a cgroup" in said
        return
    many = brig.create(*options, env=NO_CGROUP).exec("sudo", "sh", "-c", "for i in $(seq 40); do sleep 5 & done; echo no")
    assert b"fork" in many.err.lower() and many.out == b"", many


@pytest.mark.tier("process")
def test_without_a_cgroup_pids_hold_for_a_user_and_are_refused_for_root(brig, hooks):
    if brig.who.is_root:
        said = brig.refused("run", "--pids", "10", "--", "touch", brig.tmp / "canary", env=NO_CGROUP)
        assert "limits.pids cannot be enforced for root without a cgroup" in said
        assert not (brig.tmp / "canary").exists()
        return
    result = brig.json("--pids", "5", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; echo no", env=NO_CGROUP)
    assert wall(result, "pids")["mechanism"] == "rlimit"
    assert "fork" in result["stderr"].lower() and result["stdout"] == ""


def test_without_a_cgroup_memory_is_watched(brig, hooks):
    grow = ("import mmap, os, time\n"
            "for i in range(4):\n"
            "  if os.fork() == 0:\n"
            "    m = mmap.mmap(-1, 30 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)\n"
            "    for at in range(0, 30 << 20, 4096): m[at] = 1\n"
            "    time.sleep(600)\n"
            "time.sleep(600)")
    result = brig.json("--memory", "80M", "--", "python3", "-c", grow, env=NO_CGROUP)
    assert result["reason"] == "memory"
    assert wall(result, "memory")["mechanism"] == "rlimit and watch"


def test_without_a_cgroup_a_single_process_meets_its_limit(brig, hooks):
    result = brig.json("--memory", "60M", "--", "python3", "-c", "b'x' * (200 << 20)", env=NO_CGROUP)
    assert result["exit_code"] != 0
    assert result["reason"] == "memory" or "MemoryError" in result["stderr"]


def test_without_a_cgroup_cpu_time_is_watched(brig, hooks):
    result = brig.json("--cpu-time", "300ms", "--", "sh", "-c", "while :; do :; done", env=NO_CGROUP)
    assert result["reason"] == "cpu"
    assert wall(result, "cpu_time")["mechanism"] == "rlimit and watch"


def test_memory_that_is_within_the_limit_is_no_hindrance(brig):
    result = brig.json("--memory", "200M", "--", "python3", "-c", "x = b'x' * (50 << 20); print(len(x))")
    assert (result["exit_code"], result["reason"]) == (0, "exit")
    assert result["peak_memory"] > 50 << 20


def test_a_stopped_program_does_not_stop_its_clock(brig):
    result = brig.json("--wall", "400ms", "--", "sh", "-c", "kill -STOP $$")
    assert (result["reason"], result["exit_code"]) == ("timeout", 124)
