"""Doctor, help, manual, version, and bad input: one line, status 125."""

import json
import os
import re

import jsonschema
import pytest

import harness

pytestmark = pytest.mark.tier("container")  # no tier makes a difference here

VERBS = ["run", "create", "exec", "attach", "logs", "ps", "stats", "cp", "port", "pause", "resume", "extend", "kill",
         "events", "key", "policy", "doctor", "completion", "manual", "version", "help"]


def test_doctor_says_whether_the_default_tier_is_ready(brig):
    done = brig("doctor")
    report = json.loads(brig("doctor", "--json").out)
    assert done.code == (0 if report["ready"] else 1)
    assert re.search(r"container +ready .*\(default\)", done.text)
    assert re.search(r"process +ready ", done.text)


def test_doctor_fits_its_schema(brig):
    report = json.loads(brig("doctor", "--json").out)
    validator = jsonschema.Draft202012Validator(brig.schema("doctor"))
    validator.validate(report)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**report, "ready": "yes"})
    assert report["root"] == brig.who.is_root
    assert all(fact["ok"] or fact["detail"] for fact in report["host"])


def test_doctor_leaves_nothing_and_can_be_repeated(brig):
    def stable():
        report = json.loads(brig("doctor", "--json").out)
        return [(f["name"], f["ok"]) for f in report["host"]]

    assert stable() == stable()
    assert list(brig.tmp.iterdir()) == [] and list(brig.work.iterdir()) == [] and list(brig.home.iterdir()) == []


def tiers(report):
    return {t["tier"]: t for t in report["tiers"]}


@pytest.mark.parametrize("feature", ["landlock", "seccomp"])
def test_doctor_fails_when_no_tier_is_left(brig, hooks, feature):
    env = {"BRIG_TEST_FAIL": f"host_{feature}=38"}
    done = brig("doctor", "--json", env=env)
    report = json.loads(done.out)
    assert done.code == 1 and not report["ready"]
    for tier in ("container", "process"):
        assert (tiers(report)[tier]["state"], tiers(report)[tier]["missing"]) == ("missing", feature)
    text = brig("doctor", env=env)
    assert text.code == 1 and "missing: " in text.text


@pytest.mark.parametrize("feature,lacking,ready", [("userns", "container", "process"), ("overlay", "container", "process"),
                                                   ("landlock_scope", "process", "container")])
def test_doctor_says_which_tier_lacks_what(brig, hooks, feature, lacking, ready):
    report = json.loads(brig("doctor", "--json", env={"BRIG_TEST_FAIL": f"host_{feature}=1"}).out)
    assert (tiers(report)[lacking]["state"], tiers(report)[lacking]["missing"]) == ("missing", feature)
    assert tiers(report)[ready]["state"] == "ready"
    assert not next(f for f in report["host"] if f["name"] == feature)["ok"]


def test_doctor_names_the_remedy_of_an_old_kernel(brig, hooks):
    for abi in ("38", "1", "5"):
        done = brig("doctor", env={"BRIG_TEST_FAIL": f"landlock_abi={abi}"})
        # 5 lacks what the process tier needs to confine signals; a container has a namespace for that.
        assert "remedy: " in done.text and done.code == (0 if abi == "5" else 1)


@pytest.mark.parametrize("feature", ["kvm", "cgroup_memory"])
def test_doctor_is_content_when_only_other_tiers_lack_something(brig, hooks, feature):
    done = brig("doctor", "--json", env={"BRIG_TEST_FAIL": f"host_{feature}=1"})
    assert done.code == 0
    assert not next(f for f in json.loads(done.out)["host"] if f["name"] == feature)["ok"]


# Help, version, manual


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_explains_itself(brig, verb):
    text = brig("help", verb)
    assert text.code == 0 and text.err == b"" and f"Usage: brig {verb}" in text.text and "Examples:" in text.text
    for word in ("--help", "-h"):
        assert brig(verb, word).text == text.text if verb != "help" else True
    assert all(len(line) <= 100 for line in text.text.splitlines())


def test_help_lists_every_command(brig):
    text = brig("help").text
    assert all(re.search(rf"^  {verb} +\S", text, re.M) for verb in VERBS)
    assert brig("--help").text == brig("-h").text == text


def test_help_of_run_has_every_option_of_the_table(brig):
    text = brig("help", "run").text
    for name in ("allow-read", "allow-write", "deny", "env", "wall", "cpu", "cpu-time", "memory", "pids", "disk", "files",
                 "output", "allow", "policy", "json", "raw", "isolation", "floor", "image", "overlay", "diff", "commit",
                 "export", "dry-run"):
        assert f"--{name}" in text


def test_version(brig):
    assert re.match(r"brig \d+\.\d+\.\d+ \(", brig("version").text)
    assert brig("--version").text == brig("version").text
    assert set(brig.version) == {"version", "libc", "test_build"}


def test_without_a_command_brig_helps_and_fails(brig):
    done = brig()
    assert done.code == 125 and (b"Usage:" in done.out or b"Usage:" in done.err)


def in_repository(name):
    path = harness.ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not in this tree")
    return path.read_text()


def test_the_manual_page_is_the_one_that_brig_prints(brig):
    assert brig("manual", "man").text == in_repository("man/brig.1")


def test_the_policy_reference_has_every_key(brig):
    assert brig("manual", "keys").text in in_repository("docs/policy.md")


def test_the_readme_has_the_table_of_tiers(brig):
    assert brig("manual", "tiers").text in in_repository("README.md")


# Bad input


@pytest.mark.parametrize("args,words", [
    (["rnu"], 'did you mean "run"?'), (["docter"], 'did you mean "doctor"?'), (["polcy"], 'did you mean "policy"?'),
    (["xyzzy"], 'see "brig help"'), (["help", "rnu"], 'did you mean "run"?'), (["--nonsense"], "--nonsense"),
    (["run", "--memroy", "5M", "--", "true"], 'did you mean "--memory"?'),
    (["run", "--allow-wirte", ".", "--", "true"], 'did you mean "--allow-write"?'),
    (["run", "--jsn", "--", "true"], 'did you mean "--json"?'), (["run", "--zzzzzz"], 'see "brig help run"'),
    (["run", "-x", "--", "true"], '"-x"'), (["events", "-fx"], '"-x" in "-fx"'), (["run", "-v=1", "--", "true"], '"-="'),
    (["run", "--json=yes", "--", "true"], "takes no value"),
    (["run", "--memory"], "--memory needs SIZE"), (["run", "--policy"], "--policy needs"),
    (["doctor", "extra"], '"extra"'), (["doctor", "--jsn"], 'did you mean "--json"?'),
    (["policy"], "policy: use"), (["policy", "chek", "x"], "policy: use"), (["policy", "check"], "policy: use"),
    (["policy", "check", "a", "b"], "policy: use"), (["policy", "check", "a", "b", "c", "d"], "policy: use"),
    (["policy", "list", "x"], "policy: use"), (["policy", "--nope"], "unknown option"),
    (["manual", "x"], "manual: use"), (["version", "--jsn"], "--jsn"), (["version", "x"], '"x"'),
    (["new\nline"], "unknown command"), ([b"\xff\xfe"], "unknown command"), (["\x1b]0;title\x07"], "unknown command"),
    (["run", "--\x1b[31m", "--", "true"], "unknown option"),
], ids=lambda a: repr(a)[:40])
def test_bad_input_is_one_line_and_125(brig, args, words):
    assert words in brig.refused(*args)


def test_output_that_cannot_be_written_is_an_error(brig):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w") as full:
        done = brig("doctor", "--json", stdout=full)
        assert done.code == 125 and "cannot write" in done.error


def test_a_working_directory_that_is_gone_is_an_error(brig):
    gone = brig.who.mkdir(brig.folder / "gone")
    said = brig.refused("run", "--", "true", before=["sh", "-c", f'cd {gone}; rmdir {gone}; exec "$@"', "sh"])
    assert "working directory" in said
