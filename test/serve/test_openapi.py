"""The document of brig's own API: it is the one in docs/, it is a valid one, and the daemon does what it says, also when somebody
with much patience looks for a request where it does not (schemathesis)."""

import json
import os
import re
import subprocess

import pytest

import harness
from conftest import ROOT

CONFIG = """
[generation]
# The one character that no text of a request may have.
allow-x00 = false

# What fits the document may still be impossible: there is no such user, policy, file, and the body as a whole has a bound.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "413", "414", "422", "429", "431", "507"]

[checks.negative_data_rejection]
expected-statuses = ["4xx"]
"""


@pytest.fixture(scope="session")
def schemathesis():
    program = ROOT / "build-clients" / "schemathesis" / "bin" / "schemathesis"
    if not program.exists():
        pytest.skip("needs schemathesis: scripts/clients")
    return program


def test_the_document_is_the_one_in_docs(exe):
    said = subprocess.run([exe.parent / "brig-serve", '{"verb":"openapi"}'], capture_output=True, check=True,
                          timeout=harness.HANG).stdout
    assert (ROOT / "docs" / "openapi.json").read_bytes() == said, "make docs"


def test_the_daemon_says_the_same(daemon):
    assert daemon.ask("GET", "/v1/openapi.json", key=False).json == json.loads((ROOT / "docs" / "openapi.json").read_text())


def rows():
    """The table of routes, as its source has it."""
    text = (ROOT / "src" / "serve" / "v1.c").read_text()
    sandbox = re.search(r'#define SANDBOX\s+"([^"]+)"', text)[1]
    for method, path in re.findall(r"ROW\(([A-Z]+),\s*(.+?),\s*NEED_", text[text.index("v1_routes[]"):], re.S):
        parts = re.findall(r'"([^"]*)"|(SANDBOX)', path)
        yield method.lower(), "".join(sandbox if name else part for part, name in parts)


def test_every_route_is_in_it_and_no_other():
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    documented = {(method, path) for path, item in document["paths"].items() for method in item}
    wanted = list(rows())
    assert len(wanted) > 20 and set(wanted) == documented and len(wanted) == len(documented)


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_it_is_whole():
    """Every reference leads somewhere, every component is used, every parameter of a path is described."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    used = set(references(document))
    named = {f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in document["components"][kind]}
    assert used <= named and {n for n in named - used if "/schemas/" in n} == set()
    ids = [op["operationId"] for item in document["paths"].values() for op in item.values()]
    assert len(ids) == len(set(ids))
    for path, item in document["paths"].items():
        for operation in item.values():
            described = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert described == set(re.findall(r"\{(\w+)\}", path))
            assert operation["responses"] and operation["summary"]


def test_the_document_under_attack(daemon, schemathesis, tmp_path):
    """No server error, no answer that the document does not have, nothing accepted that it forbids, nothing refused that it
    allows; and the daemon is as well afterwards as before."""
    key = daemon.ask("POST", "/v1/keys", {"tenant": "attacked", "kind": "admin", "max_sandboxes": 12}).json["key"]
    sandbox = daemon.ask("POST", "/v1/sandboxes", {"timeout": 600}, key=key).json["id"]
    before = daemon.descriptors()
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    env = {"PATH": harness.PATH, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "test" / "serve"),
           "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "BRIG_SANDBOX": sandbox, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [schemathesis, "--config-file", tmp_path / "schemathesis.toml", "run", f"{daemon.url}/v1/openapi.json",
         "-H", f"X-API-Key: {key}", "--seed", "7", "--max-examples", os.environ.get("BRIG_ATTACK_EXAMPLES", "12"),
         "--continue-on-failure", "--request-timeout", "60", "--no-color",
         # A WebSocket is none of its trades, and a key that is revoked by chance may be its own.
         "--exclude-operation-id", "terminal", "--exclude-operation-id", "revokeKey"],
        cwd=tmp_path, env=env, capture_output=True, timeout=540, check=False)
    text = re.sub(r"(\S{200})\S+", r"\1...", done.stdout.decode(errors="replace"))
    assert done.returncode == 0, text[-6000:] + done.stderr.decode(errors="replace")[-2000:]
    cases = re.search(r"(\d+) generated", text)
    assert cases and int(cases[1]) > 500, text[-3000:]
    # It got further than the door.
    metrics = daemon.ask("GET", "/metrics").body.decode()
    for route, code in (("/v1/run", 200), ("/v1/sandboxes", 201), ("/v1/sandboxes/{id}/exec", 200),
                        ("/v1/sandboxes/{id}/files", 200), ("/v1/sandboxes/{id}/events", 200)):
        assert re.search(rf'route="{re.escape(route)}",code="{code}"', metrics), \
            f"{route} was never answered with {code}: " + "\n".join(l for l in metrics.splitlines() if route in l)
    assert daemon.ask("DELETE", f"/v1/sandboxes/{sandbox}", key=key).status == 204
    assert daemon.ask("GET", "/v1/health", key=False).status == 200
    for left in daemon.ask("GET", "/v1/sandboxes", key=key).json["sandboxes"]:
        daemon.ask("DELETE", f"/v1/sandboxes/{left['id']}", key=key)
    # Some connections to wardens may be kept for a moment; hundreds of requests leave nothing.
    assert daemon.descriptors() <= before + 20
