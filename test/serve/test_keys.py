"""brig key: what a person types, what is kept of it, and when a daemon that runs takes notice."""

import json
import os
import re
import sqlite3
import stat
import subprocess

import jsonschema
import pytest

import harness

KEY = re.compile(r"e2b_[0-9a-f]{40}\n")


@pytest.fixture
def key(own_daemon):
    """brig key of a state directory of its own, without a daemon."""
    def run(*words, code=0, **more):
        done = own_daemon.brig("key", *words, **more)
        assert done.returncode == code, done
        return done.stdout.decode()
    run.daemon = own_daemon
    return run


def refused(key, *words):
    done = key.daemon.brig("key", *words)
    error = done.stderr.decode()
    assert done.returncode == 125 and done.stdout == b"", done
    assert error.startswith("brig: ") and error.count("\n") == 1 and all(c.isprintable() for c in error[:-1]), repr(error)
    return error


def listed(key):
    return json.loads(key("list", "--json"))


def test_a_key_is_printed_once_and_kept_as_a_digest(key):
    done = key.daemon.brig("key", "create")
    text, words = done.stdout.decode(), done.stderr.decode()
    assert KEY.fullmatch(text)
    made, = listed(key)["keys"]
    assert made["id"] in words and '"default"' in words and "not shown again" in words and text.strip() not in words
    assert text.startswith(made["shown"]) and (made["tenant"], made["kind"]) == ("default", "user")
    assert text.strip() not in key("list") + key("list", "--json")
    folder = key.daemon.state / "brig" / "serve"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert text.strip()[len(made["shown"]):].encode() not in file.read_bytes()


def test_nothing_is_made_by_a_look(key):
    assert listed(key) == {"keys": [], "tenants": []}
    assert key("list").count("\n") == 1
    assert "none at all" in refused(key, "revoke", "abc")
    assert not (key.daemon.state / "brig" / "serve").exists()


def test_quotas_belong_to_the_tenant_and_change_with_a_later_key(key):
    key("create", "--tenant", "acme", "--max-sandboxes", "50", "--max-cpu", "2.5", "--max-memory", "16G", "--max-disk", "1.5T",
        "--create-rate", "0.5", "--floor", "container", "--policy", "offline")
    quotas = {"max_sandboxes": 50, "max_cpu": 2.5, "max_memory": 16 << 30, "max_disk": 3 << 39, "create_rate": 0.5,
              "policy": "offline", "floor": "container"}
    acme, = listed(key)["tenants"]
    assert quotas.items() <= acme.items()
    key("create", "--tenant", "acme", "--max-sandboxes", "60")
    key("create", "--tenant", "other")
    tenants = {t["name"]: t for t in listed(key)["tenants"]}
    assert (quotas | {"max_sandboxes": 60}).items() <= tenants["acme"].items()
    assert tenants["acme"]["number"] == acme["number"] != tenants["other"]["number"]
    assert all(tenants["other"][quota] is None for quota in quotas)
    none = [word for quota in quotas for word in (f"--{quota.replace('_', '-')}", "none")]
    key("create", "--tenant", "acme", *none)
    tenants = {t["name"]: t for t in listed(key)["tenants"]}
    assert all(tenants["acme"][quota] is None for quota in quotas)


def test_json_has_the_schema_that_is_printed(key):
    made = json.loads(key("create", "--json", "--kind", "admin", "--tenant", "acme"))
    assert KEY.fullmatch(made["key"] + "\n") and made["kind"] == "admin"
    revoked = json.loads(key("revoke", made["id"], "--json"))
    assert revoked["revoked_ms"] >= made["created_ms"] and "key" not in revoked
    key("create", "--tenant", "acme", "--max-cpu", "3")
    for part, value in (("create", made), ("revoke", revoked), ("list", listed(key))):
        schema = json.loads(key(part, "--schema"))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(value)


def test_revoking(key):
    made = [json.loads(key("create", "--json")) for _ in range(3)]
    assert key("revoke", made[0]["id"]) == made[0]["id"] + "\n"
    assert key("revoke", made[1]["id"][:11]) == made[1]["id"] + "\n"
    assert key("revoke", made[2]["key"]) == made[2]["id"] + "\n"
    assert key("revoke", made[0]["id"]) == made[0]["id"] + "\n", "again is no error"
    assert all(k["revoked_ms"] for k in listed(key)["keys"])
    assert key("list").count("revoked") == 3
    for word in ("nosuch", "", "%", "' OR 1=1 --", "\x1b[31m", "../../x"):
        assert "no key" in refused(key, "revoke", word)


def test_the_policy_is_read_when_it_is_given(key):
    work, who = key.daemon.work, key.daemon.who
    who.write(work / "good.yaml", "version: 1\nextends: [base]\n")
    who.write(work / "bad.yaml", "version: 1\nlimitz: {}\n")
    key("create", "--tenant", "acme", "--policy", "./good.yaml")
    assert listed(key)["tenants"][0]["policy"] == os.path.realpath(work / "good.yaml")
    assert "limits" in refused(key, "create", "--policy", "bad.yaml")
    assert "nosuch" in refused(key, "create", "--policy", "nosuch")
    assert len(listed(key)["keys"]) == 1


@pytest.mark.parametrize("words, said", [
    (["create", "--tenant", "a/b"], "no name for a tenant"), (["create", "--tenant", ""], "empty"),
    (["create", "--tenant", "x" * 65], "tenant"), (["create", "--tenant", "\x1b[31m"], "no name for a tenant"),
    (["create", "--kind", "king"], "user, reviewer, admin"), (["create", "--max-sandboxes", "0"], "none"),
    (["create", "--max-sandboxes", "-1"], "max-sandboxes"), (["create", "--max-sandboxes", "99999999999999999999"], "max-sandboxes"),
    (["create", "--max-memory", "5Q"], "size"), (["create", "--max-cpu", "x"], "max-cpu"), (["create", "--create-rate", "1e3"], "rate"),
    (["create", "--create-rate", "nan"], "rate"), (["create", "--floor", "auto"], "tier"), (["create", "extra"], "too many"),
    (["create", "--no-such"], "unknown option"), (["list", "--tenant", "x"], "takes no"), (["list", "x"], "too many"),
    (["revoke"], "which key"), (["revoke", "a", "b"], "too many"), (["remove", "x"], "none of"), ([], "create, list or revoke"),
])
def test_what_cannot_be_is_told_in_one_line(key, words, said):
    assert said in refused(key, *words)
    assert not (key.daemon.state / "brig").exists() or not listed(key)["keys"]


def test_a_key_that_nobody_saw_is_good_for_nothing(key):
    with open("/dev/full", "wb") as full:
        words = [*key.daemon.who.prefix(), str(key.daemon.exe), "key", "create"]
        done = subprocess.run(words, env=key.daemon.environment(), cwd=key.daemon.work, stdout=full, stderr=subprocess.PIPE,
                              timeout=harness.HANG, check=False)
    assert done.returncode == 125 and b"cannot write the key" in done.stderr
    assert [bool(k["revoked_ms"]) for k in listed(key)["keys"]] == [True]


def test_a_damaged_file_is_told_in_one_line(key):
    key("create")
    file = key.daemon.state / "brig" / "serve" / "state.db"
    whole = file.read_bytes()
    for bad, said in ((b"no database, but a long enough text " * 200, "no database"), (whole[:5000], "damaged")):
        file.write_bytes(bad)
        for part in (["create"], ["list"], ["revoke", "x"]):
            assert said in refused(key, *part)
    file.unlink()
    file.symlink_to("elsewhere")
    for part in (["create"], ["list"], ["revoke", "x"]):
        assert "state.db" in refused(key, *part)
    assert not (file.parent / "elsewhere").exists()


def test_many_at_once(key):
    words = [*key.daemon.who.prefix(), str(key.daemon.exe), "key", "create", "--tenant", "acme"]
    all_of_them = [subprocess.Popen(words, env=key.daemon.environment(), cwd=key.daemon.work, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for _ in range(8)]
    said = [process.communicate(timeout=harness.HANG) for process in all_of_them]
    assert all(process.returncode == 0 for process in all_of_them), said
    assert len({out for out, _ in said}) == len(listed(key)["keys"]) == 8
    assert len(listed(key)["tenants"]) == 1


# --- a daemon that runs ---

def status(daemon, text):
    return daemon.ask("GET", "/v2/sandboxes", key=text).status


def test_a_running_daemon_takes_notice_at_once(own_daemon):
    daemon = own_daemon.start()
    assert status(daemon, daemon.key) == 200
    for _ in range(5):
        made = json.loads(daemon.brig("key", "create", "--tenant", "acme", "--json").stdout)
        assert status(daemon, made["key"]) == 200
        assert daemon.brig("key", "revoke", made["id"]).returncode == 0
        assert status(daemon, made["key"]) == 401
    assert status(daemon, daemon.key) == 200
    assert status(daemon, "e2b_" + "0" * 40) == 401
    daemon.restart()
    assert status(daemon, made["key"]) == 401 and status(daemon, daemon.key) == 200
    used, = [k for k in json.loads(daemon.brig("key", "list", "--json").stdout)["keys"] if daemon.key.startswith(k["shown"])]
    assert used["used_ms"] % 60000 == 0 and used["used_ms"] > 0


def test_keys_that_cannot_be_read_are_not_called_bad(own_daemon):
    daemon = own_daemon.start()
    assert status(daemon, daemon.key) == 200
    file = sqlite3.connect(daemon.state / "brig" / "serve" / "state.db", isolation_level=None)
    file.execute("ALTER TABLE keys RENAME TO lost")
    assert status(daemon, daemon.key) == 503
    file.execute("ALTER TABLE lost RENAME TO keys")
    file.close()
    assert status(daemon, daemon.key) == 200


def test_what_was_said_is_there_after_a_kill(own_daemon):
    daemon = own_daemon.start()
    made = json.loads(daemon.brig("key", "create", "--json").stdout)
    daemon.restart()
    assert status(daemon, made["key"]) == 200
