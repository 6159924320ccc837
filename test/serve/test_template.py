"""Templates: built by the field's own client and from a Dockerfile, and what sandboxes from them have."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import harness
from conftest import wait_for

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build-clients" / "python" / "bin" / "python"
PYTHON = Path(os.environ.get("BRIG_CLIENT_PYTHON", PYTHON))

needs_client = pytest.mark.skipif(not PYTHON.exists(), reason="the client for Python is not installed")


def client(daemon, program, **more):
    """A program of a client's; what it printed as JSON."""
    env = {**daemon.sdk(), **more}
    run = subprocess.run([str(PYTHON), "-c", program], env=env, cwd=daemon.work, capture_output=True,
                         timeout=harness.HANG, check=False)
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    return json.loads(run.stdout.decode().strip().splitlines()[-1])


BUILD = """
import json, os, pathlib
from e2b import Template, Sandbox
here = pathlib.Path(os.environ["CONTEXT"])
(here / "sub").mkdir(parents=True, exist_ok=True)
(here / "one.txt").write_text("one")
(here / "sub" / "two.txt").write_text("two")
t = (Template(file_context_path=here).from_base_image()
     .set_envs({"GREETING": "hello"}).set_envs({"BOTH": "$GREETING world"})
     .set_workdir("/home/user/app")
     .copy("one.txt", "/home/user/app/")
     .copy("sub", "/home/user/app/deep")
     .copy("one.txt", "/home/user/app/tool", mode=0o755)
     .run_cmd("echo made by $GREETING > made")
     .run_cmd(f"echo root > {os.environ['BY_ROOT']}", user="root")
     .set_start_cmd("python3 -m http.server 8123", "python3 -c 'import urllib.request as u; u.urlopen(\\"http://127.0.0.1:8123\\")'"))
lines = []
info = Template.build(t, "full", on_build_logs=lambda e: lines.append(e.message))
box = Sandbox.create("full", timeout=60)
run = lambda c: box.commands.run(c).stdout.strip()
out = {"logs": lines, "exists": Template.exists("full"), "no": Template.exists("nothing-such"),
       "env": run("echo $BOTH"), "pwd": run("pwd"), "made": run("cat made"), "one": run("cat one.txt"),
       "two": run("cat deep/two.txt"), "mode": run("stat -c %a tool"), "root": run(f"cat {os.environ['BY_ROOT']}"),
       "who": run("id -un"), "left": run("ls -a /tmp | grep brig-copy || true"),
       "served": run("python3 -c 'import urllib.request as u; print(u.urlopen(\\"http://127.0.0.1:8123/one.txt\\").read().decode())'")}
box.kill()
print(json.dumps(out))
"""


@needs_client
def test_client_builds(daemon):
    # Where the host gives the user no further ids, the sandbox has no root who could write anywhere else.
    by_root = "/usr/local/lib/by-root" if daemon.who.name == "root" else "/home/user/by-root"
    out = client(daemon, BUILD, CONTEXT=str(daemon.work / "context"), BY_ROOT=by_root)
    assert out["env"] == "hello world"
    assert out["pwd"] == "/home/user/app"
    assert out["made"] == "made by hello"
    assert (out["one"], out["two"], out["root"]) == ("one", "two", "root")
    assert out["mode"] == "755"
    assert out["who"] == "user"
    assert out["left"] == ""
    assert out["exists"] is True and out["no"] is False
    # Started in each sandbox, and waited for.
    assert out["served"] == "one"
    assert any("RUN" in line for line in out["logs"])


@needs_client
def test_failing_step(daemon):
    out = client(daemon, """
import json
from e2b import Template
from e2b.exceptions import BuildException
t = Template().from_template("base").run_cmd("echo fine").run_cmd("echo words; exit 7").run_cmd("echo never")
lines = []
try:
    Template.build(t, "broken", on_build_logs=lambda e: lines.append(e.message))
    print(json.dumps({"error": None}))
except BuildException as e:
    print(json.dumps({"error": str(e), "lines": lines}))
""")
    assert "step 2" in out["error"] and "7" in out["error"]
    assert "words" in out["lines"] and "never" not in out["lines"]
    assert daemon.ask("GET", "/templates/aliases/broken").status == 404


def begin(daemon, name, **steps):
    made = daemon.ask("POST", "/v3/templates", {"name": name})
    assert made.status == 202, made
    place = f"{made.json['templateID']}/builds/{made.json['buildID']}"
    started = daemon.ask("POST", f"/v2/templates/{place}", {"force": False, **steps})
    assert started.status == 202 and started.body == b"", started
    return place


def ended(daemon, place):
    for _ in range(600):
        status = daemon.ask("GET", f"/templates/{place}/status").json
        if status["status"] not in ("building", "waiting"):
            return status
        time.sleep(0.1)
    raise TimeoutError(place)


def test_reason_names_the_step(daemon):
    place = begin(daemon, "wire", fromTemplate="base",
                  steps=[{"type": "RUN", "args": ["true"]}, {"type": "RUN", "args": ["false"]}])
    status = ended(daemon, place)
    assert status["status"] == "error" and status["reason"]["step"] == "2", status


def test_ready_command_that_never_ends(daemon):
    place = begin(daemon, "endless", fromTemplate="base", steps=[], startCmd="sleep 1000", readyCmd="sleep 1000")
    assert ended(daemon, place)["status"] == "ready"
    made = daemon.ask("POST", "/sandboxes", {"templateID": "endless", "timeout": 3})
    assert made.status == 504 and "ready command did not end within 3 s" in made.json["message"], made
    # Nothing of it is left: neither a row nor a sandbox, and the room is given back.
    assert daemon.ask("GET", "/v2/sandboxes").json == []
    wait_for(lambda: daemon.brig("ps", "-q").stdout == b"", "the end of the sandbox")
    other = daemon.ask("POST", "/v1/sandboxes", {"template": "endless", "timeout": 2})
    assert other.status == 504 and "ready command" in other.json["message"], other
    wait_for(lambda: daemon.brig("ps", "-q").stdout == b"", "the end of the sandbox")


def test_foreign_image(daemon):
    status = ended(daemon, begin(daemon, "foreign", fromImage="ubuntu:22.04", steps=[]))
    assert status["status"] == "error"
    assert status["reason"]["step"] == "base" and "registries" in status["reason"]["message"]


def test_logs_in_pages(daemon):
    place = begin(daemon, "pages", fromTemplate="base", steps=[{"type": "RUN", "args": ["seq 250"]}])
    assert ended(daemon, place)["status"] == "ready"
    seen = []
    while page := daemon.ask("GET", f"/templates/{place}/status?logsOffset={len(seen)}").json["logEntries"]:
        assert len(page) <= 100
        seen += [entry["message"] for entry in page]
    assert [line for line in seen if line.isdigit()] == [str(i) for i in range(1, 251)]
    assert daemon.ask("GET", f"/templates/{place}/status?level=error").json["logEntries"] == []


def test_upload_needs_its_signature(daemon):
    digest = "ab" * 32
    link = daemon.ask("GET", f"/templates/any/files/{digest}")
    assert link.status == 201 and link.json["present"] is False
    path = link.json["url"].split(str(daemon.port), 1)[1]
    other = path.replace("ab" * 32, "cd" * 32)
    assert daemon.ask("PUT", other, raw=b"x", key=False).status == 403
    assert daemon.ask("PUT", path[:-1] + ("0" if path[-1] != "0" else "1"), raw=b"x", key=False).status == 403
    assert daemon.ask("PUT", path, raw=b"x" * 100000, key=False).status == 200
    assert daemon.ask("GET", f"/templates/any/files/{digest}").json["present"] is True
    # What is no tar ends the build, in the sandbox.
    place = begin(daemon, "notar", fromTemplate="base",
                  steps=[{"type": "COPY", "args": ["x", "/home/user/", "", ""], "filesHash": digest}])
    status = ended(daemon, place)
    assert status["status"] == "error" and status["reason"]["step"] == "1"


def test_tags(daemon):
    assert ended(daemon, begin(daemon, "tagged", fromTemplate="base", steps=[]))["status"] == "ready"
    added = daemon.ask("POST", "/templates/tags", {"target": "tagged:default", "tags": ["v1"]})
    assert added.status == 201 and added.json["tags"] == ["v1"], added
    tags = daemon.ask("GET", "/templates/tagged/tags").json
    assert sorted(row["tag"] for row in tags) == ["default", "v1"]
    assert daemon.ask("GET", "/templates/aliases/tagged:v1").status == 200
    assert daemon.ask("DELETE", "/templates/tags", {"name": "tagged", "tags": ["v1"]}).status == 204
    assert [row["tag"] for row in daemon.ask("GET", "/templates/tagged/tags").json] == ["default"]
    listed = {t["aliases"][0]: t for t in daemon.ask("GET", "/templates").json}
    assert daemon.ask("DELETE", f"/templates/{listed['tagged']['templateID']}").status == 204
    assert daemon.ask("GET", "/templates/aliases/tagged").status == 404


def test_dockerfile(daemon):
    place = daemon.who.mkdir(daemon.work / "docker")
    (place / "in.txt").write_text("inside")
    (place / "secret.key").write_text("no")
    (place / ".dockerignore").write_text("*.key\n")
    (place / "out").symlink_to("/etc")
    (place / "Dockerfile").write_text(
        "FROM base\nENV A=1\nWORKDIR /srv/app\nCOPY . .\nRUN echo $A > \\\n  # why\n  a\nUSER user\n")
    built = daemon.brig("template", "build", str(place), "--name", "docked", "--json")
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout)["workdir"] == "/srv/app"
    box = daemon.make(templateID="docked")
    listing = daemon.brig("exec", box["sandboxID"], "sh", "-c", "cat /srv/app/in.txt /srv/app/a; ls /srv/app; readlink /srv/app/out")
    assert b"inside1\n" in listing.stdout and b"secret" not in listing.stdout and b"/etc\n" in listing.stdout
    daemon.ask("DELETE", f"/sandboxes/{box['sandboxID']}")
    before = daemon.brig("image", "ls").stdout
    (place / "Dockerfile").write_text("FROM docked\nRUN true\nRUN exit 3\n")
    failed = daemon.brig("template", "build", str(place), "--name", "other")
    assert failed.returncode == 125 and b"step 2" in failed.stderr
    assert daemon.brig("image", "ls").stdout == before and b"other" not in daemon.brig("template", "ls").stdout
    # A link out of the context is not followed.
    (place / "Dockerfile").write_text("FROM base\nCOPY out/passwd /srv/\n")
    assert daemon.brig("template", "build", str(place), "--name", "other").returncode == 125
    assert daemon.brig("template", "rm", "docked").returncode == 0
    assert b"docked" not in daemon.brig("template", "ls").stdout


def test_killed_daemon(own_daemon):
    own_daemon.start()
    place = begin(own_daemon, "cut", fromTemplate="base", steps=[{"type": "RUN", "args": ["sleep 60"]}])
    for _ in range(100):
        if b"\n" in own_daemon.brig("ps", "-q").stdout:
            break
        time.sleep(0.1)
    own_daemon.restart()
    status = own_daemon.ask("GET", f"/templates/{place}/status").json
    assert status["status"] == "error" and "daemon" in status["reason"]["message"]
    for _ in range(150):
        if own_daemon.brig("ps", "-q").stdout == b"":
            break
        time.sleep(0.1)
    assert own_daemon.brig("ps", "-q").stdout == b""
    assert b"serve.template" not in own_daemon.brig("image", "ls").stdout
