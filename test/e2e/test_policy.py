"""Policies: every error in one line with its place, extends, narrowing, digests, flags, and what is not built yet."""

import json
import os

import jsonschema
import pytest
import yaml

import harness

pytestmark = pytest.mark.tier("container")  # policies are read before a tier is chosen

SHIPPED = ["agent", "base", "build", "interpreter", "node", "offline", "python"]

# What is wrong, and what the one line about it must say: the place, and what would be right.
ERRORS = [
    ("version: 1\nmemry: 5\n", "p.yaml:2:1", "memry"),
    ("version: 1\nlimits: { memry: 5M }\n", "p.yaml:2:11", 'did you mean "memory"?'),
    ("version: 1\nlimit: { memory: 5M }\n", "p.yaml:2:1", 'did you mean "limits"?'),
    ("version: 1\nisolation: proces\n", "p.yaml:2:12", 'did you mean "process"?'),
    ("version: 1\nfs: { /usr: raed }\n", "p.yaml:2:13", 'did you mean "read"?'),
    ("version: 1\nfs: { /usr: 5 }\n", "p.yaml:2:13", "expected none, read, overlay or write"),
    ("version: 1\nfs: [a]\n", "p.yaml:2:5", "expected a map from path to access"),
    ("version: 1\nfs: { /a/../b: read }\n", "p.yaml:2:7", '".."'),
    ("version: 1\nfs: { ~joe/x: read }\n", "p.yaml:2:7", "another user's home"),
    ("version: 1\nfs: { a: read, ./a: read }\n", "p.yaml:2:16", "same path"),
    ("version: 1\nfs: { '': read }\n", "p.yaml:2:7", "empty"),
    ("version: 1\nnet: { alow: [] }\n", "p.yaml:2:8", 'did you mean "allow"?'),
    ("version: 1\nnet: { allow: ['a:70000'] }\n", "p.yaml:2:16", "70000"),
    ("version: 1\nnet: { allow: ['a'] }\n", "p.yaml:2:16", "port"),
    ("version: 1\nenv: PATH\n", "p.yaml:2:6", "expected a list"),
    ("version: 1\nenv: ['A B']\n", "p.yaml:2:7", "A B"),
    ("version: 1\nlimits: { memory: 512Q }\n", "p.yaml:2:19", "512Q"),
    ("version: 1\nlimits: { memory: 99999999999999999999 }\n", "p.yaml:2:19", "64 bits"),
    ("version: 1\nlimits: { memory: 99999999999T }\n", "p.yaml:2:19", "memory"),
    ("version: 1\nlimits: { memory: -5 }\n", "p.yaml:2:19", "memory"),
    ("version: 1\nlimits: { memory: 0 }\n", "p.yaml:2:19", "more than 0"),
    ("version: 1\nlimits: { wall: 30 parsecs }\n", "p.yaml:2:17", "30 parsecs"),
    ("version: 1\nlimits: { wall: 999999999999999d }\n", "p.yaml:2:17", "wall"),
    ("version: 1\nlimits: { cpu: 1e3 }\n", "p.yaml:2:16", "cpu"),
    ("version: 1\nlimits: { pids: 1.5 }\n", "p.yaml:2:17", "pids"),
    ("version: 1\nlimits: { pids: [1] }\n", "p.yaml:2:17", "expected a number"),
    ("version: 1\nlimits: { memory: }\n", "p.yaml:2:", "no value"),
    ("version: 1\nlimits: 5\n", "p.yaml:2:9", "expected a map"),
    ("version: 1\nallow: [debugg]\n", "p.yaml:2:9", 'did you mean "debug"?'),
    ("version: 1\non_deny: explode\n", "p.yaml:2:10", "fail, ask, record"),
    ("version: 1\nversion: 1\n", "p.yaml:2:1", "version"),
    ("version: 1\nfs: { a: read, a: write }\n", "p.yaml:2:16", "a"),
    ("version: 2\n", "p.yaml:1:10", "must be 1"),
    ("version: '1'\n", "p.yaml:1:10", "must be 1"),
    ("fs: {}\n", "p.yaml:1:1", 'begin with "version: 1"'),
    ("- a\n", "p.yaml:1:1", "a policy is a map of keys"),
    ("just text\n", "p.yaml:1:1", "a policy is a map of keys"),
    ("# only a comment\n", "p.yaml:", ""),
    ("version: 1\nextends: base\n", "p.yaml:2:10", "expected a list of names"),
    ("version: 1\nextends: [bas]\n", "p.yaml:2:11", 'did you mean "base"?'),
    ("version: 1\nextends: [../x]\n", "p.yaml:2:11", "name of a shipped policy"),
    ("version: 1\nextends: [5]\n", "p.yaml:2:11", "name of a shipped policy"),
    ("version: &a 1\n", "p.yaml:1:10", "anchor"),
    ("version: !!int 1\n", "p.yaml:1:10", "tag"),
    ("version: 1\nfs: {\n", "p.yaml:", ""),
    ("version: 1\n\tfs: {}\n", "p.yaml:2:1", "tab"),
    ("version: 1\nfs: { a: read\n", "p.yaml:", ""),
    ("version: 1\nsecrets: { T: { form: x } }\n", "p.yaml:2:17", 'did you mean "from"?'),
    ("version: 1\ntools: { t: { isolate: never } }\n", "p.yaml:2:24", "call or session"),
    (b"version: 1\nfs: { \xff: read }\n", "p.yaml:2:", "UTF-8"),
    (b"\0\1\2\3", "p.yaml:1:1", ""),
    (b"\x7fELF\x02\x01\x01" + bytes(100), "p.yaml:1:", "control byte"),
]


@pytest.mark.parametrize("content,place,word", ERRORS, ids=[repr(e[0])[:40] for e in ERRORS])
def test_an_error_is_one_line_with_its_place(brig, content, place, word):
    brig.who.write(brig.work / "p.yaml", content)
    said = brig.refused("policy", "check", "p.yaml")
    assert place in said and word in said
    assert brig.refused("run", "--policy", "p.yaml", "--", "touch", brig.tmp / "canary") == said
    assert not (brig.tmp / "canary").exists()


def test_check_says_errors_as_json_too(brig):
    brig.who.write(brig.work / "p.yaml", "version: 1\nmemry: 5\n")
    done = brig("policy", "check", "--json", "p.yaml")
    said = json.loads(done.out)
    assert done.code == 125 and not said["ok"] and "p.yaml:2:1" in said["error"]


def make_directory(brig, path):
    brig.who.mkdir(path)


def make_fifo(brig, path):
    os.mkfifo(path)
    brig.who.own(path)


def make_unreadable(brig, path):
    if brig.who.is_root:
        pytest.skip("root can read everything")
    brig.who.write(path, "version: 1\n", 0o000)


FILES = {
    "missing": (lambda brig, path: None, "No such file"),
    "empty": (lambda brig, path: brig.who.write(path, ""), "is empty"),
    "unreadable": (make_unreadable, "Permission denied"),
    "directory": (make_directory, "not a regular file"),
    "fifo": (make_fifo, "not a regular file"),
    "too large": (lambda brig, path: brig.who.write(path, "version: 1\n" + "# x\n" * 300000), "larger than 1M"),
    "dangling link": (lambda brig, path: path.symlink_to("nowhere"), "No such file"),
    "loop": (lambda brig, path: path.symlink_to(path.name), "ymbolic link"),
    "deeply nested": (lambda brig, path: brig.who.write(path, "version: 1\nfs: " + "[" * 5000), "p.yaml:2:"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_policy_is_refused(brig, kind):
    make, word = FILES[kind]
    make(brig, brig.work / "p.yaml")
    assert word in brig.refused("policy", "check", "p.yaml")
    assert word in brig.refused("run", "--policy", "./p.yaml", "--", "true")


@pytest.mark.parametrize("kind", [k for k in FILES if k != "missing"])
def test_the_users_own_and_the_projects_file_are_never_skipped(brig, kind):
    """A file that is there and cannot be used refuses the start, as if it had been named."""
    make, word = FILES[kind]
    config = brig.who.mkdir(brig.home / "cfg")
    brig.who.mkdir(config / "brig")
    make(brig, config / "brig" / "policy.yaml")
    said = brig.refused("run", "--", "true", env={"XDG_CONFIG_HOME": config})
    assert word.replace("p.yaml", "policy.yaml") in said
    make(brig, brig.work / ".brig.yaml")
    assert word.replace("p.yaml", ".brig.yaml") in brig.refused("run", "--", "true")


def test_an_unknown_policy_name_is_answered_with_the_known_ones(brig):
    assert 'did you mean "offline"?' in brig.refused("run", "--policy", "ofline", "--", "true")
    said = brig.refused("run", "--policy", "xyzzy", "--", "true")
    assert all(name in said for name in SHIPPED)


def test_every_shipped_policy_checks_and_fits_the_schema(brig):
    assert sorted(json.loads(brig("policy", "list", "--json").out)) == SHIPPED
    assert brig("policy", "list").text.split() == json.loads(brig("policy", "list", "--json").out)
    for name in SHIPPED:
        assert brig("policy", "check", name).code == 0
        text = (harness.ROOT / "policies" / f"{name}.yaml").read_text()
        jsonschema.Draft202012Validator(brig.schema("policy")).validate(yaml.safe_load(text))


def test_the_schema_is_one_and_refuses_what_check_refuses(brig):
    jsonschema.Draft202012Validator.check_schema(brig.schema("policy"))
    for content in ("version: 1\nmemry: 5\n", "version: 2\n", "fs: {}\n", "version: 1\nfs: { /usr: raed }\n",
                    "version: 1\nlimits: { memry: 5 }\n", "version: 1\nisolation: proces\n",
                    "version: 1\nextends: base\n", "version: 1\nenv: PATH\n"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(brig.schema("policy")).validate(yaml.safe_load(content))


FULL = """version: 1
extends: [base]
isolation: process
floor: process
fs: { "/srv": read, "~/x": none }
net: { allow: ["api.github.com:443", "*.example.com:443"], ask: ["github.com:443"], deny: ["10.0.0.0/8:*"] }
env: [PATH, "LC_*", "A=b"]
limits: { wall: 60s, cpu: 1.5, cpu_time: 10s, memory: 512M, pids: 128, disk: 1G, files: 64, output: 1M }
allow: [debug]
on_deny: fail
record: denied
secrets: { T: { from: "env:T", inject: { host: api.github.com, header: "Authorization: Bearer {}" } } }
output: { strip: [terminal, bidi], flag: [secret], max: 1M }
tools: { fetch: { net: { allow: ["docs.example.com:443"] }, isolate: call } }
"""


def test_a_policy_with_every_key_checks_and_fits_the_schema(brig):
    brig.who.write(brig.work / "p.yaml", FULL)
    done = brig("policy", "check", "p.yaml")
    assert done.code == 0, done.error
    jsonschema.Draft202012Validator(brig.schema("policy")).validate(yaml.safe_load(FULL))
    explained = json.loads(brig("policy", "explain", "--json", "p.yaml").out)
    assert explained["manifest"]["limits"]["memory"] in (512 << 20, "512M")
    jsonschema.Draft202012Validator(brig.schema("policy")).validate(explained["manifest"])


def test_json_is_a_policy_as_well(brig):
    brig.who.write(brig.work / "p.json", json.dumps({"version": 1, "extends": ["base"], "limits": {"wall": "5s"}}))
    assert brig.run("--policy", "p.json", "--", "echo", "hi").out == b"hi\n"


def test_explain_names_the_place_of_every_rule(brig):
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [base]\nfs:\n  out: write\nallow: [debug]\n")
    text = brig("policy", "explain", "p.yaml").text
    assert f"write    {brig.work}/out  (p.yaml:4)" in text
    assert "read     /usr  (base:" in text
    assert "ptrace" in text and "process tier" in text


def test_explain_says_that_a_start_would_be_refused(brig):
    assert "refused" not in brig("policy", "explain", "agent").text
    brig.who.write(brig.work / "p.yaml", "version: 1\nnet: { ask: ['a.example:443'] }\n")
    assert "needs approvals" in brig("policy", "explain", "p.yaml").text


def test_explain_says_where_the_host_listens(brig):
    """Loopback, unless another address is written."""
    brig.who.write(brig.work / "p.yaml", "version: 1\nnet: { publish: ['8080', 8081:80, '0:80', '0.0.0.0:82', '[::1]:8083:83'] }\n")
    text = brig("policy", "explain", "p.yaml").text
    for port in ("127.0.0.1:8080:8080", "127.0.0.1:8081:80", "127.0.0.1:0:80", "0.0.0.0:82:82", "[::1]:8083:83"):
        assert f"publish  {port}" in text


def test_explain_says_what_holds_a_narrower_rule_in_the_process_tier(brig):
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [agent]\nisolation: process\n")
    said = brig("policy", "explain", "p.yaml").text
    assert f'"{brig.work}/.brig.yaml" (read) lies inside "{brig.work}" (write): the keeper carries out' in said
    assert "refused" not in said and "cannot be executed" not in said
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [build]\nisolation: process\nfs: { secret: none }\n")
    assert "cannot be executed" in brig("policy", "explain", "p.yaml").text
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [build]\nisolation: process\n")
    assert "lies inside" not in brig("policy", "explain", "p.yaml").text


# extends


def test_extends_finds_shipped_and_own_policies(brig):
    config = brig.who.mkdir(brig.home / "cfg")
    brig.who.mkdir(config / "brig")
    policies = brig.who.mkdir(config / "brig" / "policies")
    brig.who.write(policies / "mine.yaml", "version: 1\nextends: [base]\nenv: [FROM_MINE]\n")
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [mine]\nenv: [FROM_P]\n")
    env = {"XDG_CONFIG_HOME": config, "FROM_MINE": "1", "FROM_P": "2", "OTHER": "3"}
    for name in ("p.yaml", "mine"):
        text = brig.run("--policy", name, "--", "env", env=env).text
        assert "FROM_MINE=1" in text and "OTHER" not in text
        assert ("FROM_P=2" in text) == (name == "p.yaml")
    assert "there is no policy" in brig.refused("policy", "check", "p.yaml")


def test_home_is_where_own_policies_are_without_xdg(brig):
    folder = brig.home
    for name in (".config", "brig", "policies"):
        folder = brig.who.mkdir(folder / name)
    brig.who.write(folder / "mine.yaml", "version: 1\nextends: [base]\n")
    assert brig.run("--policy", "mine", "--", "true").code == 0
    brig.who.write(folder.parent / "policy.yaml", "version: 1\nextends: [base]\nlimits: { files: 77 }\n")
    assert brig.run("--", "sh", "-c", "ulimit -n").out == b"77\n"
    assert brig.run("--policy", "base", "--", "sh", "-c", "ulimit -n").out != b"77\n"


def test_a_circle_of_extends_is_refused(brig):
    config = brig.who.mkdir(brig.home / "cfg")
    brig.who.mkdir(config / "brig")
    policies = brig.who.mkdir(config / "brig" / "policies")
    brig.who.write(policies / "one.yaml", "version: 1\nextends: [two]\n")
    brig.who.write(policies / "two.yaml", "version: 1\nextends: [one]\n")
    said = brig.refused("policy", "check", "one", env={"XDG_CONFIG_HOME": config})
    assert "circle" in said and ".yaml:2:11" in said


def test_wide_extends_do_not_explode(brig):
    """Eight levels of ten each would be a hundred million files."""
    config = brig.who.mkdir(brig.home / "cfg")
    brig.who.mkdir(config / "brig")
    policies = brig.who.mkdir(config / "brig" / "policies")
    for level in range(8):
        names = ", ".join([f"l{level + 1}"] * 10) if level < 7 else ""
        brig.who.write(policies / f"l{level}.yaml", f"version: 1\nextends: [{names}]\n")
    done = brig("policy", "check", "l0", env={"XDG_CONFIG_HOME": config})
    assert done.code in (0, 125)


# narrowing


@pytest.mark.tier("process", "container")
def test_a_project_file_cannot_widen(brig):
    secret = brig.who.mkdir(brig.folder / "secret")
    brig.who.write(secret / "file", "secret")
    brig.who.write(brig.work / ".brig.yaml", f"version: 1\nextends: [base]\nfs: {{ '.': write, '{secret}': write }}\n"
                   "env: [CANARY, 'SET=1']\nallow: [debug]\nlimits: { wall: 10m, files: 900 }\n")
    script = f"touch made; cat {secret}/file; echo \"$CANARY|$SET\"; ulimit -n"
    done = brig.run("--files", "50", "--", "sh", "-c", script, env={"CANARY": "leak"})
    assert done.out == b"|\n50\n"
    assert not (brig.work / "made").exists()


@pytest.mark.tier("process", "container")
def test_a_project_file_narrows(brig):
    other = brig.who.mkdir(brig.work / "other")
    brig.who.write(other / "file", "x")
    brig.who.write(brig.work / ".brig.yaml", "version: 1\nextends: [base]\nfs: { '.': read }\n"
                   "limits: { files: 40 }\n")
    script = "touch made; ulimit -n; echo $TOKEN"
    done = brig.run("--allow-write", ".", "--env", "TOKEN", "--files", "100", "--", "sh", "-c", script,
                    env={"TOKEN": "not for this project"})
    assert done.out == b"40\n\n"
    assert not (brig.work / "made").exists()


def test_a_project_file_cannot_open_the_network_or_lower_the_floor(brig):
    brig.who.write(brig.work / ".brig.yaml", "version: 1\nextends: [base]\nnet: { allow: ['example.com:443'] }\n")
    code = ("import socket\n"
            "try: s = socket.socket(); s.settimeout(5); s.connect(('192.0.2.1', 443)); print('open')\n"
            "except OSError: print('closed')")
    done = brig.python(code)
    assert done.code == 125 or done.out == b"closed\n"
    brig.who.write(brig.work / ".brig.yaml", "version: 1\nextends: [base]\nfloor: process\n")
    assert "floor" in brig.refused("run", "--floor", "vm", "--", "true")
    assert "below the policy's floor" in brig.refused("run", "--floor", "container", "--isolation", "process", "--", "true")


def test_a_project_file_can_raise_the_floor(brig):
    brig.who.write(brig.work / ".brig.yaml", "version: 1\nextends: [base]\nfloor: vm\n")
    assert "floor is vm" in brig.refused("run", "--", "true")
    assert "below the policy's floor" in brig.refused("run", "--isolation", "process", "--", "true")


@pytest.mark.tier("process", "container")
def test_a_project_file_without_rules_closes_everything(brig):
    """Also programs: they are closed, or in a container not there."""
    brig.who.write(brig.work / ".brig.yaml", "version: 1\n")
    assert brig.run("--", "true").code == (127 if brig.is_container else 126)


# digests


def test_digests_are_stable_and_tell_policies_apart(brig):
    def digest(content):
        brig.who.write(brig.work / "p.yaml", content)
        return brig("policy", "check", "p.yaml").text.split()[-1]

    one = digest("version: 1\nfs: { /usr: read, /opt: read }\nlimits: { memory: 512M }\n")
    assert one.startswith("sha256:")
    assert one == digest("# the same in other words\nversion: 1\nlimits:\n  memory: 524288K\nfs:\n  /opt: read\n  '/usr/': read\n")
    others = [digest(c) for c in ("version: 1\nfs: { /usr: read }\nlimits: { memory: 512M }\n",
                                  "version: 1\nfs: { /usr: write, /opt: read }\nlimits: { memory: 512M }\n",
                                  "version: 1\nfs: { /usr: read, /opt: read }\nlimits: { memory: 513M }\n",
                                  "version: 1\nfs: { /usr: read, /opt: read }\n")]
    assert len({one, *others}) == 5


def test_the_result_has_the_digest_of_the_whole_policy(brig):
    def digest(*options):
        return brig.json(*options, "--", "true")["policy"]

    assert digest() == digest() == digest("--policy", "base")
    assert len({digest(), digest("--wall", "9s"), digest("--env", "X"), digest("--deny", "/srv")}) == 4
    assert digest("--wall", "9s") == digest("--wall", "9000ms")


# flags


def test_flags_override_the_file(brig):
    brig.who.write(brig.work / "p.yaml", "version: 1\nextends: [base]\nlimits: { files: 50 }\nfs: { '.': none }\n")
    done = brig.run("--policy", "p.yaml", "--files", "60", "--allow-read", ".", "--", "sh", "-c", "ulimit -n; ls")
    assert done.out == b"60\np.yaml\n"


def test_the_last_of_equal_flags_counts(brig):
    assert brig.run("--files", "50", "--files=61", "--", "sh", "-c", "ulimit -n").out == b"61\n"


@pytest.mark.parametrize("flag,value", [
    ("memory", "12Q"), ("memory", ""), ("memory", "-1"), ("memory", "0"), ("memory", "18446744073709551616"),
    ("memory", "16E"), ("memory", "99999999999G"), ("memory", "1.5.5M"), ("memory", "5 M M"), ("memory", "nan"),
    ("wall", "5"), ("wall", "s"), ("wall", "-5s"), ("wall", "0s"), ("wall", "999999999999999d"), ("wall", "1e9s"),
    ("cpu", "0"), ("cpu", "-1"), ("cpu", "x"), ("cpu", "0.00001"), ("cpu", "99999999999999999999"),
    ("pids", "0"), ("pids", "-1"), ("pids", "1.5"), ("pids", "99999999999999999999"), ("pids", "0x10"),
    ("cpu-time", "abc"), ("disk", "1X"), ("files", "many"), ("output", "1MM"),
    ("isolation", "conainer"), ("floor", "roof"), ("env", ""), ("env", "=x"), ("env", "A B"), ("allow", "everything"),
    ("allow-read", ""), ("allow-read", "~nobody/x"), ("deny", "a/../b"), ("allow-net", "x"), ("allow-net", "x:0"),
    ("publish", "99999"), ("on-deny", "shrug"), ("weaken", "files"), ("policy", ""),
])
def test_a_bad_value_of_a_flag_is_one_line_that_names_it(brig, flag, value):
    said = brig.refused("run", f"--{flag}", value, "--", "touch", brig.tmp / "canary")
    assert f"--{flag}" in said or flag == "policy"
    assert not (brig.tmp / "canary").exists()


def test_long_values_do_not_break_the_line(brig):
    for flag in ("allow-read", "memory", "policy", "isolation"):
        brig.refused("run", f"--{flag}", "x" * 100000, "--", "true")
    brig.refused("run", "--allow-read", "/" + "a/" * 50000, "--", "true")
    brig.refused("run", "--" + "o" * 5000, "--", "true")
    brig.refused("run", "--policy", "new\nline\x1b[2J.yaml", "--", "true")


# not in this version


@pytest.mark.parametrize("content,words", [
    ("net: { ask: ['a.example:443'] }", "net.ask needs approvals"),
    ("net: { inspect: true }", "net.inspect needs inspection at the gate"),
    ("secrets: { T: { from: 'env:T' } }", "secrets needs injection at the gate"),
    ("tools: { t: { isolate: call } }", "tools needs tool manifests"),
    ("output: { strip: [terminal] }", "output.strip needs output scanning"),
    ("output: { flag: [secret] }", "output.flag needs output scanning"),
    ("output: { max: 1M }", "output.max needs output scanning"),
    ("on_deny: ask", "on_deny other than fail needs approvals"),
    ("on_deny: record", "on_deny other than fail needs approvals"),
    ("isolation: vm", "does not have the vm tier yet"),
    ("isolation: gvisor", "does not have the gvisor tier yet"),
    ("isolation: wasm", "does not have the wasm tier yet"),
    ("isolation: script", "does not have the script tier yet"),
    ("floor: vm", "floor is vm"),
    ("isolation: container\nfloor: vm", "below the policy's floor"),
])
def test_what_is_not_built_yet_is_refused_in_words(brig, content, words):
    brig.who.write(brig.work / "p.yaml", f"version: 1\nextends: [base]\n{content}\n")
    assert brig("policy", "check", "p.yaml").code == 0
    assert words in brig.refused("run", "--policy", "p.yaml", "--", "touch", brig.tmp / "canary")
    assert not (brig.tmp / "canary").exists()


@pytest.mark.parametrize("options,words", [
    (["--isolation", "vm"], "does not have the vm tier"),
    (["--isolation", "process", "--floor", "vm"], "below the policy's floor"), (["--on-deny", "ask"], "approvals"),
])
def test_flags_of_later_tiers_are_refused_in_words(brig, options, words):
    assert words in brig.refused("run", *options, "--", "true")


@pytest.mark.tier("process")
@pytest.mark.parametrize("content,options", [("image: /srv/root", ["--image", "/srv"]), ("fs: { '.': overlay }", ["--overlay", "."]),
                                             ("allow: [nested]", ["--allow", "nested"])], ids=["image", "overlay", "nested"])
def test_what_only_a_container_can_hold_is_refused_in_the_process_tier(brig, content, options):
    brig.who.write(brig.work / "p.yaml", f"version: 1\nextends: [base]\n{content}\n")
    for words in (["--policy", "p.yaml"], options):
        assert "container tier" in brig.refused("run", *words, "--", "touch", brig.tmp / "canary")
    assert not (brig.tmp / "canary").exists()
