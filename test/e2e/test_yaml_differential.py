"""Compares brig's YAML reader with Python's own reading of the same documents.

Random values are written by PyYAML in its various styles and by json in its; brig must read the same
value back, or refuse for one of the few reasons that yaml.h names. Then documents are damaged at random:
what brig still accepts must mean the same to PyYAML, where that accepts it too.
"""

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BRIG_BUILD", ROOT / "build-test"))
PROGRAM = BUILD / "test" / "unit" / "yaml_to_json"

TEXTS = [
    "", " ", "a", "a b", "key", "example.com:443", "http://a/b?c#d", "*.x.com", "&a", "!x", "%x", "@x", "`x",
    "- a", "-", "--- a", "---", "...", "? a", ": a", "a: b", "a:", "a #b", "#a", "a#b", "[a]", "{a}", "a, b", "|", ">",
    "'", '"', "it's", 'say "x"', "\\", "\\n", "null", "~", "true", "no", "on", "y", "1", "-1", "1.5", "010", "0x1F",
    "0o17", "1e3", ".inf", ".nan", "1_000", "12:30:45", "2001-12-14", "<<", "=", " lead", "trail ", "two\nlines",
    "two\n", "\n", "\n\n", "a\n\nb\n", "  ind\nx\n", "a\n  b\nc", "tab\tin", "\tlead", "a\n\tb", "x\n\n", "a \nb",
    "ä", "漢字", "😀", "\u00a0", "\u2028", "\u0085", "\ufeff", "\x7f", "\x1b[0m", "\x01",
]
LETTERS = "ab:#-?{}[],&*!|>'\"%@` \n\\ä0.1"


class Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2's core schema instead of those of 1.1."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
]:
    Loader.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern), first)


def construct_int(loader, node):
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def construct_map(loader, node):
    # Without merge keys, and with the keys as they are.
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


Loader.add_constructor("tag:yaml.org,2002:int", construct_int)
Loader.add_constructor("tag:yaml.org,2002:float", lambda l, n: float(l.construct_scalar(n)))
Loader.add_constructor("tag:yaml.org,2002:map", construct_map)


def run(documents):
    """Each document's value, or an exception with brig's words."""
    data = b"".join(d.encode("utf-8", "surrogatepass") + b"\0" for d in documents)
    answer = subprocess.run([PROGRAM, "-0"], input=data, stdout=subprocess.PIPE, check=True, timeout=300)
    lines = answer.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(documents)
    return [json.loads(line[1:]) if line[0] == "+" else ValueError(line[1:]) for line in lines]


def same(a, b):
    """Equal, where 1, 1.0 and True are three different values."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def random_text(rng):
    if rng.random() < 0.6:
        return rng.choice(TEXTS)
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 8)))


def random_scalar(rng):
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, 1, -1, 7, 2**63 - 1, -(2**63), rng.randint(-(10**9), 10**9)])
    if kind == 2:
        return rng.choice([0.5, -1.5, 1e100, 1e-7, 123456.789, rng.uniform(-1e6, 1e6), rng.uniform(0, 1) * 1e-200])
    return random_text(rng)


def random_value(rng, depth=0):
    if depth > 4 or rng.random() < 0.35 + 0.1 * depth:
        return random_scalar(rng)
    if rng.random() < 0.5:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {random_text(rng): random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def dumper(style):
    """Writes text in one style and the rest plain: default_style would put a tag before every number."""
    made = type("Dumper", (yaml.SafeDumper,), {})
    made.add_representer(str, lambda d, text: d.represent_scalar("tag:yaml.org,2002:str", text, style=style))
    return made


DUMPERS = {style: dumper(style) for style in "'\"|>"}


def dump_styles(rng, value):
    wide = {"width": 10**6, "allow_unicode": rng.random() < 0.5, "sort_keys": rng.random() < 0.5}
    more = dict(wide, indent=rng.choice([2, 3, 4]), explicit_start=rng.random() < 0.3, explicit_end=rng.random() < 0.3)
    return [
        yaml.safe_dump(value, default_flow_style=False, **more),
        yaml.safe_dump(value, default_flow_style=True, **more),
        yaml.safe_dump(value, default_flow_style=None, **wide),
        yaml.dump(value, Dumper=DUMPERS["'"], **wide),
        yaml.dump(value, Dumper=DUMPERS['"'], **more),
        yaml.dump(value, Dumper=DUMPERS["|"], default_flow_style=False, **more),
        yaml.dump(value, Dumper=DUMPERS[">"], default_flow_style=False, **more),
        yaml.safe_dump(value, default_style="'", **wide),
        yaml.safe_dump(value, line_break="\r\n", default_flow_style=False, **wide),
    ]


def json_styles(rng, value):
    return [
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, indent=rng.choice([0, 1, 2, 4])),
        json.dumps(value, indent="\t"),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, separators=(" ,\n", " :\r\n\t")),
    ]


# Ends of lines to YAML 1.1, and so to PyYAML, but not to 1.2: refused, or text where JSON wants it.
OLD_BREAKS = re.compile("[\u0085\u2028\u2029]")

# What yaml.h says is refused, as far as the writers above make it.
REFUSED = re.compile(
    r"not closed on its line|over several lines|is not the same number|is not text: a key like this|\"\?\" keys|tags are"
    r"|only allowed in double quotes|indentation digit|a tab in the indentation|has no value|needs quotes"
)


@pytest.fixture(scope="module", autouse=True)
def program():
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is not built (BRIG_BUILD names the build folder)")


def test_json_is_read_whole():
    rng = random.Random(1)
    values, documents = [], []
    for _ in range(1000):
        value = random_value(rng)
        for text in json_styles(rng, value):
            values.append(value)
            documents.append(text)
    for value, text, answer in zip(values, documents, run(documents)):
        assert same(value, answer), (text, answer)


def test_lone_surrogates_are_refused():
    for text, answer in zip(*(lambda d: (d, run(d)))([json.dumps(c) for c in ("\ud800", "\udfff", "a\ud83dx")])):
        assert isinstance(answer, ValueError) and "surrogate" in str(answer), text


def test_yaml_is_read_the_same():
    rng = random.Random(2)
    values, documents = [], []
    for _ in range(1000):
        value = random_value(rng)
        for text in dump_styles(rng, value):
            values.append(value)
            documents.append(text)
    accepted = 0
    for value, text, answer in zip(values, documents, run(documents)):
        if isinstance(answer, ValueError):
            assert REFUSED.search(str(answer)) or OLD_BREAKS.search(text), (text, answer)
            continue
        accepted += 1
        if same(value, answer):
            continue
        # PyYAML writes for 1.1 what 1.2 reads otherwise (1e3 as plain text): 1.2 must agree with brig then.
        assert same(yaml.load(text, Loader), answer), (text, value, answer)
    # A reader that refuses everything would pass otherwise.
    assert accepted > len(documents) / 2


def damage(rng, text):
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + rng.choice(LETTERS) + text[at:]
    if kind == 2:
        return text[:at] + rng.choice(["  ", "\n", "\n  ", ": ", "- ", " #", "\n- ", ", ", "a: "]) + text[at:]
    other = rng.randrange(len(text) + 1)
    return text[: min(at, other)] + text[max(at, other) :]


def pair(value):
    """PyYAML leaves two halves of a surrogate pair apart, which JSON joins."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [pair(v) for v in value]
    if isinstance(value, dict):
        return {pair(k): pair(v) for k, v in value.items()}
    return value


def python_reading(text):
    """PyYAML's value with 1.2's scalars; None when it refuses, which it does more often than 1.2 must."""
    try:
        value = pair(yaml.load(text, Loader))
    except (yaml.YAMLError, ValueError, TypeError):
        return None
    return [value]


def test_what_is_accepted_means_the_same():
    rng = random.Random(3)
    documents = []
    for _ in range(1500):
        value = random_value(rng, depth=1)
        text = rng.choice(dump_styles(rng, value) + json_styles(rng, value))
        for _ in range(rng.randint(1, 3)):
            text = damage(rng, text)
            documents.append(text)
    compared = 0
    for text, answer in zip(documents, run(documents)):
        if isinstance(answer, ValueError):
            continue
        reading = python_reading(text)
        if reading is None or OLD_BREAKS.search(text):
            continue
        compared += 1
        assert same(reading[0], answer), (text, answer)
    assert compared > 500


def test_errors_go_to_the_error_stream():
    answer = subprocess.run([PROGRAM], input=b"a: 1\na: 2\n", capture_output=True, check=False)
    assert answer.returncode == 1
    assert answer.stdout == b""
    assert answer.stderr == b'stdin:2:1: duplicate key "a" (first at line 1)\n'
    answer = subprocess.run([PROGRAM], input=b"b: 1\na: 2\n", capture_output=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, b'{"a":2,"b":1}\n')
