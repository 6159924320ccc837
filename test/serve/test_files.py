"""Files of sandboxes on the wire of the field's clients: /files and filesystem.Filesystem, by raw requests.

What the unmodified clients make of it is in test_files_clients.py.
"""

import base64
import gzip
import hashlib
import http.client
import json
import os
import random
import socket
import struct
import threading
import time
import urllib.parse

import harness
import pytest
from conftest import wait_for

FILES = "/filesystem.Filesystem/"
HOME = "/home/user"


@pytest.fixture(scope="module")
def box(daemon):
    """One sandbox for all tests of the file that leave it as it is."""
    made = daemon.make(timeout=3600)
    yield made
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")


@pytest.fixture
def folder(daemon, box):
    """A folder of its own."""
    path = f"{HOME}/{os.urandom(4).hex()}"
    assert daemon.inside(box, "POST", FILES + "MakeDir", {"path": path}).status == 200
    return path


def query(**values):
    return "/files?" + urllib.parse.urlencode(values)


def put(daemon, box, path, data, status=200, headers=None, **more):
    answer = daemon.inside(box, "POST", query(path=path, **more), raw=data,
                           headers={"Content-Type": "application/octet-stream", **(headers or {})})
    assert answer.status == status, answer
    return answer


def get(daemon, box, path, status=200, headers=None, **more):
    answer = daemon.inside(box, "GET", query(path=path, **more), headers=headers)
    assert answer.status == status, answer
    return answer


def rpc(daemon, box, name, status=200, headers=None, **body):
    answer = daemon.inside(box, "POST", FILES + name, body, headers=headers)
    assert answer.status == status, answer
    return answer.json


def form(*parts, boundary="XBOUND"):
    """(name, filename or None, data)"""
    out = b""
    for name, filename, data in parts:
        out += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        if filename is not None:
            out += b'; filename="' + (filename if isinstance(filename, bytes) else filename.encode()) + b'"'
        out += b"\r\nContent-Type: text/html\r\n\r\n" + data + b"\r\n"
    return out + f"--{boundary}--\r\n".encode()


def post_form(daemon, box, body, status=200, headers=None, **values):
    answer = daemon.inside(box, "POST", query(**values) if values else "/files", raw=body,
                           headers={"Content-Type": "multipart/form-data; boundary=XBOUND", **(headers or {})})
    assert answer.status == status, answer
    return answer


def run(daemon, box, *words):
    """A command in the sandbox, by brig itself: another way than the one under test."""
    done = daemon.brig("exec", box["sandboxID"], "--", *words)
    assert done.returncode == 0, done
    return done.stdout.decode()


def names_in(daemon, box, path):
    return sorted(entry["name"] for entry in rpc(daemon, box, "ListDir", path=path).get("entries", []))


# --- /files: bytes there and back ---


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 1 << 20, 5_000_001])
def test_bytes_come_back(daemon, box, folder, size):
    data = random.Random(size).randbytes(size)
    answer = put(daemon, box, f"{folder}/data.bin", data)
    assert answer.json == [{"name": "data.bin", "path": f"{folder}/data.bin", "type": "file"}]
    answer = get(daemon, box, f"{folder}/data.bin")
    assert answer.body == data
    assert answer.headers["Content-Length"] == str(size)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert names_in(daemon, box, folder) == ["data.bin"]


def test_overwriting_and_parents(daemon, box, folder):
    put(daemon, box, f"{folder}/a/b/c.txt", b"first, and longer")
    put(daemon, box, f"{folder}/a/b/c.txt", b"second")
    assert get(daemon, box, f"{folder}/a/b/c.txt").body == b"second"
    entry = rpc(daemon, box, "Stat", path=f"{folder}/a/b")["entry"]
    assert entry["type"] == "FILE_TYPE_DIRECTORY"


def test_where_paths_begin(daemon, box):
    name = os.urandom(4).hex()
    for path in (name, f"~/{name}", f"{HOME}/{name}", f"{HOME}/x/../{name}", f"//{HOME}//./{name}"):
        assert put(daemon, box, path, path.encode()).json[0]["path"] == f"{HOME}/{name}", path
        assert get(daemon, box, f"{HOME}/{name}").body == path.encode()
        assert rpc(daemon, box, "Stat", path=path)["entry"]["path"] == f"{HOME}/{name}"
    assert rpc(daemon, box, "Stat", path="")["entry"]["path"] == HOME
    assert rpc(daemon, box, "Stat", path="~")["entry"]["path"] == HOME
    get(daemon, box, "~other/x", 400)


@pytest.mark.parametrize("name", ["with space", "quote\"'", "ünï", "日本語", "new\nline", "\x01\x7f", "-rf", "%2F", "a\\b", "x" * 255])
def test_names(daemon, box, folder, name):
    path = f"{folder}/{name}"
    assert put(daemon, box, path, b"1").json[0]["name"] == name
    assert get(daemon, box, path).body == b"1"
    assert names_in(daemon, box, folder) == [name]
    assert rpc(daemon, box, "Stat", path=path)["entry"]["name"] == name


def test_name_that_is_no_utf8(daemon, box, folder):
    path = urllib.parse.quote(folder.encode() + b"/\xff\xfe")
    answer = daemon.inside(box, "POST", f"/files?path={path}", raw=b"1", headers={"Content-Type": "application/octet-stream"})
    assert answer.status == 200, answer
    assert daemon.inside(box, "GET", f"/files?path={path}").body == b"1"
    assert names_in(daemon, box, folder) == ["\ufffd\ufffd"]


def test_chunked_body(daemon, box, folder):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
    connection.request("POST", query(path=f"{folder}/c"), iter([b"abc", b"", b"def" * 1000]),
                       {"E2b-Sandbox-Id": box["sandboxID"], "X-Access-Token": box["envdAccessToken"],
                        "Content-Type": "application/octet-stream"}, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()
    assert get(daemon, box, f"{folder}/c").body == b"abc" + b"def" * 1000


# --- /files: forms ---


def test_form(daemon, box, folder):
    data = random.Random(1).randbytes(300_000) + b"\r\n--XBOUN\r\n--XBOUN"
    answer = post_form(daemon, box, form(("file", "ignored.txt", data)), path=f"{folder}/one")
    assert answer.json == [{"name": "one", "path": f"{folder}/one", "type": "file"}]
    assert get(daemon, box, f"{folder}/one").body == data


def test_form_with_several_files(daemon, box, folder):
    body = form(("comment", None, b"no file"), ("file", f"{folder}/a", b"A" * 100_000), ("file", f"{folder}/b/%22q%22", b""),
                ("file", f"{folder}/日本", b"C"))
    answer = post_form(daemon, box, body)
    assert [entry["path"] for entry in answer.json] == [f"{folder}/a", f"{folder}/b/\"q\"", f"{folder}/日本"]
    assert get(daemon, box, f"{folder}/a").body == b"A" * 100_000
    assert get(daemon, box, f"{folder}/b/\"q\"").body == b""
    assert get(daemon, box, f"{folder}/日本").body == b"C"


def test_the_same_file_twice_in_a_form(daemon, box, folder):
    answer = post_form(daemon, box, form(("file", f"{folder}/a", b"1"), ("file", f"{folder}/a", b"2")), 400)
    assert "same path" in answer.json["message"]
    assert get(daemon, box, f"{folder}/a").body == b"1"


@pytest.mark.parametrize("body", [
    b"", b"nothing", b"--XBOUND--\r\n", form(("other", None, b"x")), form(("file", "a", b"x"))[:-8],
    b'--XBOUND\r\nContent-Disposition: form-data; name="file"\r\n\r\nno name\r\n--XBOUND--',
    b"--XBOUND\r\n" + b"A: " + b"a" * 70000 + b"\r\n\r\nx\r\n--XBOUND--",
])
def test_forms_that_are_none(daemon, box, body):
    answer = post_form(daemon, box, body, 413 if len(body) > 60000 else 400)
    assert answer.json["code"] == answer.status and answer.json["message"]


def test_bodies_of_other_kinds(daemon, box, folder):
    for fields in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"},
                   {"Content-Type": "multipart/form-data; boundary=\"\""}, {"Content-Type": "multipart/mixed; boundary=x"}):
        assert daemon.inside(box, "POST", query(path=f"{folder}/x"), raw=b"x", headers=fields).status == 400
    put(daemon, box, "", b"x", 400)
    put(daemon, box, f"{folder}/x", b"x", 415, {"Content-Encoding": "br"})
    assert names_in(daemon, box, folder) == []


# --- gzip ---


def test_gzip(daemon, box, folder):
    data = b"0123456789" * 1_000_000
    put(daemon, box, f"{folder}/z", gzip.compress(data), headers={"Content-Encoding": "gzip"})
    assert get(daemon, box, f"{folder}/z").body == data
    two = gzip.compress(b"one") + gzip.compress(b"two")
    put(daemon, box, f"{folder}/z", two, headers={"Content-Encoding": "gzip"})
    assert get(daemon, box, f"{folder}/z").body == b"onetwo"
    post_form(daemon, box, gzip.compress(form(("file", f"{folder}/f", data))), headers={"Content-Encoding": "gzip"})
    assert get(daemon, box, f"{folder}/f").body == data


@pytest.mark.parametrize("data", [b"", b"not packed", gzip.compress(b"x" * 1000)[:-4], gzip.compress(b"x") + b"rest"])
def test_gzip_that_is_none(daemon, box, folder, data):
    put(daemon, box, f"{folder}/z", data, 400, {"Content-Encoding": "gzip"})
    assert names_in(daemon, box, folder) == []


# --- parts and conditions ---


def test_ranges(daemon, box, folder):
    path, data = f"{folder}/r", bytes(range(256)) * 1000
    put(daemon, box, path, data)
    for text, first, last in (("0-99", 0, 99), ("255900-", 255900, 255999), ("-10", 255990, 255999), ("5-5", 5, 5)):
        answer = get(daemon, box, path, 206, {"Range": f"bytes={text}"})
        assert answer.body == data[first:last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/256000"
    assert get(daemon, box, path, 416, {"Range": "bytes=256000-"}).headers["Content-Range"] == "bytes */256000"
    for text in ("bytes=0-1,5-6", "lines=1", "bytes=x"):
        assert get(daemon, box, path, 200, {"Range": text}).body == data


def test_conditions(daemon, box, folder):
    path = f"{folder}/c"
    put(daemon, box, path, b"abc")
    # The tag is a weak one while the file is fresh.
    wait_for(lambda: get(daemon, box, path).headers["ETag"].startswith('"'))
    fields = get(daemon, box, path).headers
    assert get(daemon, box, path, 304, {"If-None-Match": fields["ETag"]}).body == b""
    assert get(daemon, box, path, 304, {"If-Modified-Since": fields["Last-Modified"]}).body == b""
    assert get(daemon, box, path, 412, {"If-Match": '"x"'}).json["code"] == 412
    assert get(daemon, box, path, 206, {"Range": "bytes=1-1", "If-Range": fields["ETag"]}).body == b"b"
    put(daemon, box, path, b"abcd")
    assert get(daemon, box, path, 200, {"Range": "bytes=1-1", "If-Range": fields["ETag"]}).body == b"abcd"
    assert get(daemon, box, path, 200, {"If-None-Match": fields["ETag"]}).body == b"abcd"


def test_head(daemon, box, folder):
    put(daemon, box, f"{folder}/h", b"abc")
    answer = daemon.inside(box, "HEAD", query(path=f"{folder}/h"))
    assert answer.status == 200 and answer.body == b"" and answer.headers["Content-Length"] == "3"


def test_encodings_that_refuse_all(daemon, box, folder):
    put(daemon, box, f"{folder}/e", b"abc")
    for text in ("gzip, deflate", "identity", "gzip;q=1.0, identity;q=0.5", "*"):
        assert get(daemon, box, f"{folder}/e", 200, {"Accept-Encoding": text}).body == b"abc"
    for text in ("identity;q=0", "gzip, *;q=0"):
        assert get(daemon, box, f"{folder}/e", 406, {"Accept-Encoding": text}).json["code"] == 406


def test_a_page_is_not_run(daemon, box, folder):
    put(daemon, box, f"{folder}/page.html", b"<script>alert(1)</script>")
    fields = get(daemon, box, f"{folder}/page.html").headers
    assert fields["Content-Type"] == "application/octet-stream"
    assert fields["X-Content-Type-Options"] == "nosniff" and "sandbox" in fields["Content-Security-Policy"]


# --- what is no file ---


def test_what_cannot_be_read(daemon, box, folder):
    assert get(daemon, box, f"{folder}/none", 404).json["code"] == 404
    assert "directory" in get(daemon, box, folder, 400).json["message"]
    get(daemon, box, "/dev/null", 400)
    get(daemon, box, "/dev/zero", 400)
    run(daemon, box, "mkfifo", f"{folder}/pipe")
    get(daemon, box, f"{folder}/pipe", 400)
    run(daemon, box, "ln", "-s", "loop", f"{folder}/loop")
    get(daemon, box, f"{folder}/loop", 400)
    get(daemon, box, f"{folder}/none/x", 404)
    put(daemon, box, f"{folder}/file", b"")
    get(daemon, box, f"{folder}/file/x", 400)
    get(daemon, box, "/" + "x" * 5000, 400)
    get(daemon, box, "/" + "x" * 300, 400)


def test_what_cannot_be_written(daemon, box, folder):
    assert "directory" in put(daemon, box, folder, b"x", 400).json["message"]
    run(daemon, box, "mkfifo", f"{folder}/pipe")
    put(daemon, box, f"{folder}/pipe", b"x", 400)
    put(daemon, box, "/dev/full", b"x", 400)
    put(daemon, box, f"{folder}/pipe/x", b"x", 400)
    put(daemon, box, "/proc/self/oom_score_adj/x", b"x", 400)
    assert put(daemon, box, "/sys/x", b"x", 403).json["code"] == 403
    assert names_in(daemon, box, folder) == ["pipe"]


def test_a_file_that_says_it_is_empty(daemon, box):
    assert b"processor" in get(daemon, box, "/proc/cpuinfo").body
    assert get(daemon, box, "/proc/self/comm").body.startswith(b"brig-init")


def test_a_bad_query(daemon, box):
    for text in ("/files?path=%", "/files?path=%zz", "/files?path=%00", "/files?path=a%00b"):
        answer = daemon.inside(box, "GET", text)
        assert answer.status == 400 and answer.json["code"] == 400, text


# --- links ---


def test_links(daemon, box, folder):
    put(daemon, box, f"{folder}/target", b"content")
    run(daemon, box, "ln", "-s", "target", f"{folder}/link")
    run(daemon, box, "ln", "-s", "link", f"{folder}/link2")
    run(daemon, box, "ln", "-s", "nothing", f"{folder}/broken")
    run(daemon, box, "ln", "-s", ".", f"{folder}/dir")
    assert get(daemon, box, f"{folder}/link2").body == b"content"
    entry = rpc(daemon, box, "Stat", path=f"{folder}/link2")["entry"]
    assert entry["symlinkTarget"] == f"{folder}/target" and entry["isSymlink"] is True
    assert entry["type"] == "FILE_TYPE_FILE" and entry["permissions"].startswith("L") and entry["mode"] == 0o644
    assert entry["name"] == "link2"
    entry = rpc(daemon, box, "Stat", path=f"{folder}/broken")["entry"]
    assert entry.get("type", "FILE_TYPE_UNSPECIFIED") == "FILE_TYPE_UNSPECIFIED"
    # Through a link, and not over it.
    put(daemon, box, f"{folder}/link", b"changed")
    assert get(daemon, box, f"{folder}/target").body == b"changed"
    assert rpc(daemon, box, "Stat", path=f"{folder}/link")["entry"]["isSymlink"] is True
    put(daemon, box, f"{folder}/dir/new", b"1")
    assert get(daemon, box, f"{folder}/new").body == b"1"
    # A link is removed, not what it leads to; and is not gone into by a list.
    rpc(daemon, box, "Remove", path=f"{folder}/link")
    assert get(daemon, box, f"{folder}/target").body == b"changed"
    listed = rpc(daemon, box, "ListDir", path=folder, depth=5)["entries"]
    assert not any("/dir/" in entry["path"] for entry in listed)
    # A list of what a link leads to keeps the name of the link.
    assert f"{folder}/dir/new" in [entry["path"] for entry in rpc(daemon, box, "ListDir", path=f"{folder}/dir")["entries"]]


def test_links_lead_nowhere_outside(daemon, box, folder):
    """The daemon's own files are not the sandbox's, by whatever name."""
    secret = daemon.folder / "secret"
    secret.write_text("the host's")
    secret.chmod(0o644)
    run(daemon, box, "ln", "-s", str(daemon.folder), f"{folder}/out")
    for path in (str(secret), f"{folder}/out/secret", f"{folder}/../../..{secret}", f"/proc/1/root{secret}",
                 f"/proc/self/root{secret}"):
        answer = daemon.inside(box, "GET", query(path=path))
        assert answer.status in (400, 403, 404), (path, answer)
        daemon.inside(box, "POST", query(path=path), raw=b"overwritten", headers={"Content-Type": "application/octet-stream"})
        daemon.inside(box, "POST", FILES + "Remove", {"path": path})
        daemon.inside(box, "POST", FILES + "Move", {"source": path, "destination": f"{folder}/moved"})
        assert secret.read_text() == "the host's", path


# --- Stat, ListDir, MakeDir, Move, Remove ---


def test_stat(daemon, box, folder):
    before = time.time()
    put(daemon, box, f"{folder}/s", b"12345")
    entry = rpc(daemon, box, "Stat", path=f"{folder}/s")["entry"]
    modified = time.mktime(time.strptime(entry["modifiedTime"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert abs(modified - before) < 60 and entry["modifiedTime"].endswith("Z")
    for field in ("modifiedTime", "group"):
        entry.pop(field)
    assert entry == {"name": "s", "path": f"{folder}/s", "type": "FILE_TYPE_FILE", "size": "5", "mode": 0o644,
                     "permissions": "-rw-r--r--", "owner": "user"}
    assert rpc(daemon, box, "Stat", 404, path=f"{folder}/none")["code"] == "not_found"
    assert rpc(daemon, box, "Stat", path="/")["entry"]["name"] == "/"
    assert rpc(daemon, box, "Stat", path="/tmp")["entry"]["permissions"].startswith("dt")
    assert rpc(daemon, box, "Stat", path="/dev/null")["entry"]["permissions"].startswith("Dc")


def test_list(daemon, box, folder):
    for name in ("b", "a.txt", "a/x", "a/sub/deep", "c", "a-b"):
        put(daemon, box, f"{folder}/{name}", b"")

    def below(**more):
        return [e["path"][len(folder) + 1:] for e in rpc(daemon, box, "ListDir", path=folder, **more)["entries"]]

    assert below() == ["a", "a-b", "a.txt", "b", "c"]
    assert below(depth=0) == below(depth=1) == below()
    assert below(depth=2) == ["a", "a/sub", "a/x", "a-b", "a.txt", "b", "c"]
    assert below(depth="9") == ["a", "a/sub", "a/sub/deep", "a/x", "a-b", "a.txt", "b", "c"]
    assert rpc(daemon, box, "ListDir", 400, path=f"{folder}/b")["code"] == "invalid_argument"
    assert rpc(daemon, box, "ListDir", 404, path=f"{folder}/none")["code"] == "not_found"
    entries = rpc(daemon, box, "ListDir", path="/")["entries"]
    assert {"/tmp", "/etc", "/home"} <= {entry["path"] for entry in entries}
    relative = rpc(daemon, box, "ListDir", path=folder[len(HOME) + 1:])["entries"]
    assert [entry["path"] for entry in relative] == [f"{folder}/{name}" for name in below()]


def test_list_of_many(daemon, box, folder):
    run(daemon, box, "sh", "-c", f"cd {folder} && seq 5000 | xargs touch")
    entries = rpc(daemon, box, "ListDir", path=folder)["entries"]
    assert [entry["name"] for entry in entries] == sorted(str(number) for number in range(1, 5001))


def test_list_of_too_many(daemon, box, folder):
    run(daemon, box, "python3", "-c",
        f"import os\nos.chdir('{folder}')\nfor i in range(60000): os.close(os.open('x' * 200 + str(i), 0o101))")
    answer = rpc(daemon, box, "ListDir", 429, path=folder)
    assert answer["code"] == "resource_exhausted" and "list a part" in answer["message"]
    rpc(daemon, box, "Remove", path=folder)


def test_make(daemon, box, folder):
    entry = rpc(daemon, box, "MakeDir", path=f"{folder}/x/y/z")["entry"]
    assert entry["path"] == f"{folder}/x/y/z" and entry["permissions"] == "drwxr-xr-x" and entry["owner"] == "user"
    assert rpc(daemon, box, "MakeDir", 409, path=f"{folder}/x")["code"] == "already_exists"
    put(daemon, box, f"{folder}/file", b"")
    assert rpc(daemon, box, "MakeDir", 400, path=f"{folder}/file")["code"] == "invalid_argument"
    assert rpc(daemon, box, "MakeDir", 400, path=f"{folder}/file/x")["code"] == "invalid_argument"


def test_move(daemon, box, folder):
    put(daemon, box, f"{folder}/a", b"A")
    entry = rpc(daemon, box, "Move", source=f"{folder}/a", destination=f"{folder}/n/e/w")["entry"]
    assert entry["path"] == f"{folder}/n/e/w" and entry["name"] == "w"
    assert get(daemon, box, f"{folder}/n/e/w").body == b"A"
    get(daemon, box, f"{folder}/a", 404)
    put(daemon, box, f"{folder}/b", b"B")
    rpc(daemon, box, "Move", source=f"{folder}/b", destination=f"{folder}/n/e/w")
    assert get(daemon, box, f"{folder}/n/e/w").body == b"B"
    rpc(daemon, box, "Move", source=f"{folder}/n", destination=f"{folder}/m")
    assert get(daemon, box, f"{folder}/m/e/w").body == b"B"
    assert rpc(daemon, box, "Move", 404, source=f"{folder}/none", destination=f"{folder}/x")["code"] == "not_found"
    rpc(daemon, box, "Move", 400, source=f"{folder}/m", destination=f"{folder}/m/below")


def test_remove(daemon, box, folder):
    put(daemon, box, f"{folder}/a/b/c", b"")
    assert rpc(daemon, box, "Remove", path=f"{folder}/a") == {}
    assert names_in(daemon, box, folder) == []
    assert rpc(daemon, box, "Remove", path=f"{folder}/a") == {}
    rpc(daemon, box, "Remove", 400, path="/")
    assert rpc(daemon, box, "Remove", 403, path="/proc/version")["code"] == "permission_denied"


def test_odd_requests(daemon, box):
    for name in ("Stat", "ListDir", "MakeDir", "Move", "Remove", "CreateWatcher", "GetWatcherEvents"):
        for raw in (b"", b"[]", b"{", b'{"path":"/a","path":"/b"}', b'{"path":"\\u0000"}', b'{"path":' + b"[" * 100,
                    b'{"path":1e999}'):
            answer = daemon.inside(box, "POST", FILES + name, raw=raw, headers={"Content-Type": "application/json"})
            assert answer.status == 400 and answer.json["code"] == "invalid_argument", (name, raw, answer)
    # Fields that nobody knows are no fault, nor are those that have another kind.
    assert rpc(daemon, box, "Stat", path="/", unknown={"a": [1]})["entry"]["path"] == "/"
    assert rpc(daemon, box, "Stat", path=5)["entry"]["path"] == HOME
    assert daemon.inside(box, "POST", FILES + "Nothing", {}).json["code"] == "not_found"
    assert daemon.inside(box, "GET", FILES + "Stat").status == 405


# --- metadata ---


def test_metadata(daemon, box, folder):
    path = f"{folder}/m"
    answer = daemon.inside(box, "POST", query(path=path), raw=b"1",
                           headers={"Content-Type": "application/octet-stream", "X-Metadata-Author": "me & you = us",
                                    "x-metadata-KIND": ""})
    if answer.status == 501:
        pytest.skip("the file system under the sandboxes has no attributes of users")
    wanted = {"author": "me & you = us", "kind": ""}
    assert answer.json == [{"name": "m", "path": path, "type": "file", "metadata": wanted}]
    assert rpc(daemon, box, "Stat", path=path)["entry"]["metadata"] == wanted
    assert rpc(daemon, box, "ListDir", path=folder)["entries"][0]["metadata"] == wanted
    assert rpc(daemon, box, "Move", source=path, destination=f"{path}2")["entry"]["metadata"] == wanted
    # An upload replaces all of it.
    put(daemon, box, f"{path}2", b"2", headers={"X-Metadata-Other": "x"})
    assert rpc(daemon, box, "Stat", path=f"{path}2")["entry"]["metadata"] == {"other": "x"}
    put(daemon, box, f"{path}2", b"3")
    assert "metadata" not in rpc(daemon, box, "Stat", path=f"{path}2")["entry"]
    put(daemon, box, path, b"x", 400, {"X-Metadata-A": "b" * 20000})
    put(daemon, box, path, b"x", 400, {"X-Metadata-A": "\u00e9".encode("latin-1")})


# --- who may ---


def sign(box, path, operation, user="", expiration=None):
    text = f"{path}:{operation}:{user}:{box['envdAccessToken']}" + (f":{expiration}" if expiration is not None else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_signed_addresses(daemon, box, folder):
    path = f"{folder}/signed file"
    answer = daemon.ask("POST", query(path=path, signature=sign(box, path, "write")), raw=b"data", key=False,
                        headers={"Content-Type": "application/octet-stream"})
    assert answer.status == 200, answer
    later = int(time.time()) + 600
    for values in ({"signature": sign(box, path, "read")},
                   {"signature": sign(box, path, "read", "user"), "username": "user"},
                   {"signature": sign(box, path, "read", expiration=later), "signature_expiration": later}):
        answer = daemon.ask("GET", query(path=path, **values), key=False)
        assert (answer.status, answer.body) == (200, b"data"), (values, answer)
        # Nor does it matter that the sandbox is named.
        answer = daemon.ask("GET", query(path=path, **values), key=False, headers={"E2b-Sandbox-Id": box["sandboxID"]})
        assert (answer.status, answer.body) == (200, b"data")


def test_signatures_that_are_none(daemon, box, folder):
    path = f"{folder}/x"
    put(daemon, box, path, b"x")
    good, past = sign(box, path, "read"), int(time.time()) - 5
    rows = [
        ({"path": path, "signature": "v1_" + "A" * 43}, "invalid signature"),
        ({"path": path, "signature": good[:-1]}, "invalid signature"),
        ({"path": path, "signature": good + "="}, "invalid signature"),
        ({"path": path, "signature": good[3:]}, "invalid signature"),
        ({"path": path, "signature": ""}, "invalid signature"),
        ({"path": path + "/.", "signature": good}, "invalid signature"),
        ({"path": path, "signature": sign(box, path, "write")}, "invalid signature"),
        ({"path": path, "signature": good, "username": "root"}, "invalid signature"),
        ({"path": path, "signature": good, "signature_expiration": past + 600}, "invalid signature"),
        ({"path": path, "signature": sign(box, path, "read", expiration=past), "signature_expiration": past}, "already expired"),
        ({"path": path, "signature": sign(box, path, "read", expiration="99999999999x"), "signature_expiration": "99999999999x"},
         "already expired"),
    ]
    for values, words in rows:
        for headers in ({}, {"E2b-Sandbox-Id": box["sandboxID"]}):
            answer = daemon.ask("GET", query(**values), key=False, headers=headers)
            assert answer.status == 401 and answer.json["code"] == 401 and words in answer.json["message"], (values, answer)
    # One that is good to read is not good to write.
    answer = daemon.ask("POST", query(path=path, signature=good), raw=b"y", key=False,
                        headers={"Content-Type": "application/octet-stream"})
    assert answer.status == 401
    assert get(daemon, box, path).body == b"x"


def test_tokens(daemon, box, folder):
    path = f"{folder}/x"
    put(daemon, box, path, b"x")
    for token in ("", "x", box["envdAccessToken"][:-1], box["envdAccessToken"] + "0"):
        fields = {"X-Access-Token": token}
        assert daemon.inside(box, "GET", query(path=path), headers=fields).status == 401, token
        assert daemon.inside(box, "POST", query(path=path), raw=b"y", headers=fields).status == 401
        answer = daemon.inside(box, "POST", FILES + "Remove", {"path": path}, headers=fields)
        assert answer.status == 401 and answer.json["code"] == "unauthenticated"
        for other in ("/metrics", "/envs"):
            assert daemon.inside(box, "GET", other, headers=fields).status == 401
    answer = daemon.ask("GET", query(path=path), key=False, headers={"E2b-Sandbox-Id": box["sandboxID"]})
    assert answer.status == 401 and "missing signature" in answer.json["message"]
    assert get(daemon, box, path).body == b"x"


def test_another_sandbox(daemon, box, sandbox):
    put(daemon, box, f"{HOME}/mine", b"mine")
    get(daemon, sandbox, f"{HOME}/mine", 404)
    other = {**sandbox, "envdAccessToken": box["envdAccessToken"]}
    get(daemon, other, f"{HOME}/mine", 401)
    # A signature leads to the sandbox whose token made it.
    answer = daemon.ask("GET", query(path=f"{HOME}/mine", signature=sign(sandbox, f"{HOME}/mine", "read")), key=False)
    assert answer.status == 404


def test_users(daemon, box, folder, who):
    basic = "Basic " + base64.b64encode(b"user:").decode()
    assert rpc(daemon, box, "Stat", headers={"Authorization": basic}, path="")["entry"]["path"] == HOME
    put(daemon, box, f"{folder}/u", b"x", username="user")
    for user in ("nobody-knows", "a b", "a:b", "../x", "u" * 100):
        answer = get(daemon, box, folder, 401, username=user)
        assert answer.json["code"] == 401 and "invalid username" in answer.json["message"]
        basic = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        if user != "a:b":
            answer = rpc(daemon, box, "Stat", 401, {"Authorization": basic}, path="/")
            assert answer["code"] == "unauthenticated" and "invalid username" in answer["message"]
    if who.name == "root":
        put(daemon, box, "/root-file", b"x", username="root")
        assert rpc(daemon, box, "Stat", path="/root-file")["entry"]["owner"] == "root"


def test_where_only_root_may(daemon, box, folder, who):
    """envd acts as root and gives what it makes to the user."""
    if who.name != "root":
        pytest.skip("a sandbox of an ordinary user has one user only")
    name = os.urandom(4).hex()
    put(daemon, box, f"/{name}/sub/file", b"1", headers={"X-Metadata-A": "b"})
    for path in (f"/{name}", f"/{name}/sub", f"/{name}/sub/file"):
        entry = rpc(daemon, box, "Stat", path=path)["entry"]
        assert entry["owner"] == "user" and entry["group"] == "user", entry
        assert entry["permissions"] in ("drwxr-xr-x", "-rw-r--r--")
    run(daemon, box, "sh", "-c", f"echo more >> /{name}/sub/file")
    assert get(daemon, box, f"/{name}/sub/file").body == b"1more\n"
    # A file of root's is replaced by one of the user's.
    put(daemon, box, f"/{name}-2", b"1", username="root")
    put(daemon, box, f"/{name}-2", b"2")
    assert rpc(daemon, box, "Stat", path=f"/{name}-2")["entry"]["owner"] == "user"
    assert rpc(daemon, box, "MakeDir", path=f"/{name}-3/x")["entry"]["owner"] == "user"
    entry = rpc(daemon, box, "MakeDir", path=f"/root/{name}-d")["entry"]
    assert entry["owner"] == "user" and entry["permissions"] == "drwxr-xr-x"
    put(daemon, box, f"/root/{name}-d/f", b"deep")
    assert get(daemon, box, f"/root/{name}-d/f").body == b"deep"
    rpc(daemon, box, "Move", source=f"/root/{name}-d", destination=f"{folder}/d")
    assert get(daemon, box, f"{folder}/d/f").body == b"deep"
    rpc(daemon, box, "Move", source=f"{folder}/d", destination=f"/root/{name}-d")
    rpc(daemon, box, "Stat", 404, path=f"{folder}/d")
    rpc(daemon, box, "Remove", path=f"/root/{name}-d")
    # What root alone may see or remove.
    put(daemon, box, f"/root/{name}", b"secret", username="root")
    assert get(daemon, box, f"/root/{name}").body == b"secret"
    rpc(daemon, box, "Remove", path=f"/root/{name}")
    get(daemon, box, f"/root/{name}", 404)
    # There and back over the line.
    put(daemon, box, f"{folder}/m", b"moved")
    rpc(daemon, box, "Move", source=f"{folder}/m", destination=f"/{name}-m")
    assert get(daemon, box, f"/{name}-m").body == b"moved"
    rpc(daemon, box, "Move", source=f"/{name}-m", destination=f"{folder}/m")
    assert get(daemon, box, f"{folder}/m").body == b"moved"
    left = [e["name"] for e in rpc(daemon, box, "ListDir", path="/")["entries"] if e["name"].startswith(".brig")]
    assert left == []
    # A tree of both.
    put(daemon, box, f"{folder}/t/a", b"1")
    run_as_root = daemon.brig("exec", "-u", "root", box["sandboxID"], "--", "mkdir", "-m", "700", f"/{name}/r", f"/{name}/r/s")
    assert run_as_root.returncode == 0, run_as_root.stderr
    for path in (f"/{name}", f"/{name}-2", f"/{name}-3"):
        rpc(daemon, box, "Remove", path=path)
        rpc(daemon, box, "Stat", 404, path=path)


# --- the rest of the agent ---


def test_health_metrics_envs(daemon, sandbox):
    assert daemon.inside(sandbox, "GET", "/health").status == 204
    metrics = daemon.inside(sandbox, "GET", "/metrics").json
    assert set(metrics) == {"ts", "cpu_count", "cpu_used_pct", "mem_total", "mem_used", "mem_cache", "mem_total_mib",
                            "mem_used_mib", "disk_used", "disk_total"}
    assert metrics["cpu_count"] >= 1 and abs(metrics["ts"] - time.time()) < 60
    assert daemon.inside(sandbox, "GET", "/envs").json == {}
    made = daemon.make(envVars={"A": "b"})
    assert daemon.inside(made, "GET", "/envs").json == {"A": "b"}
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")
    for path in ("/init", "/files/compose", "/nothing"):
        assert daemon.inside(sandbox, "POST", path, {}).status == 404


def test_a_sandbox_that_is_gone(daemon, sandbox):
    put(daemon, sandbox, f"{HOME}/x", b"x")
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
    for method, path, body in (("GET", "/health", None), ("GET", query(path="/x"), None), ("POST", FILES + "Stat", {"path": "/"})):
        answer = daemon.inside(sandbox, method, path, body)
        assert answer.status == 502 and "was not found" in answer.json["message"] and answer.json["code"] == 502
    answer = daemon.ask("GET", query(path=f"{HOME}/x", signature=sign(sandbox, f"{HOME}/x", "read")), key=False)
    assert answer.status == 401


# --- watches ---


def envelope(value):
    data = json.dumps(value).encode()
    return struct.pack(">BI", 0, len(data)) + data


class Watch:
    """WatchDir, read as it comes."""

    def __init__(self, daemon, box, headers=None, raw=None, **body):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
        self.connection.request("POST", FILES + "WatchDir", envelope(body) if raw is None else raw,
                                {"E2b-Sandbox-Id": box["sandboxID"], "X-Access-Token": box["envdAccessToken"],
                                 "Content-Type": "application/connect+json", **(headers or {})})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200 and self.answer.headers["Content-Type"] == "application/connect+json"

    def next(self):
        flags, length = struct.unpack(">BI", self.answer.read(5))
        return flags, json.loads(self.answer.read(length))

    def until(self, wanted):
        """All (name, type) up to the one that is waited for."""
        seen = []
        while not seen or seen[-1] != wanted:
            flags, message = self.next()
            assert flags == 0, message
            event = message.get("filesystem")
            if event:
                seen.append((event["name"], event["type"][len("EVENT_TYPE_"):]))
        return seen

    def close(self):
        self.connection.close()


def test_watch(daemon, box, folder):
    watch = Watch(daemon, box, path=folder)
    assert watch.next() == (0, {"start": {}})
    put(daemon, box, f"{folder}/a", b"1")
    assert ("a", "CREATE") in watch.until(("a", "WRITE"))
    run(daemon, box, "sh", "-c", f"echo x > {folder}/b; chmod 600 {folder}/b; mv {folder}/b {folder}/c; rm {folder}/c")
    assert [event for event in watch.until(("c", "REMOVE")) if event[1] != "WRITE"] == [
        ("b", "CREATE"), ("b", "CHMOD"), ("b", "RENAME"), ("c", "CREATE"), ("c", "REMOVE")]
    rpc(daemon, box, "MakeDir", path=f"{folder}/sub")
    watch.until(("sub", "CREATE"))
    put(daemon, box, f"{folder}/sub/unseen", b"")
    put(daemon, box, f"{folder}/z", b"")
    assert ("sub/unseen", "CREATE") not in watch.until(("z", "WRITE"))
    watch.close()


def test_watch_of_a_tree(daemon, box, folder):
    watch = Watch(daemon, box, path=folder, recursive=True, includeEntry=True)
    assert watch.next() == (0, {"start": {}})
    # What is in a new folder before it is watched is told as made, and no more; so the file comes later.
    rpc(daemon, box, "MakeDir", path=f"{folder}/x/y")
    event = {}
    while event.get("name") != "x/y":
        event = watch.next()[1]["filesystem"]
    time.sleep(0.3)
    put(daemon, box, f"{folder}/x/y/z", b"12345")
    while event.get("name") != "x/y/z" or event["type"] != "EVENT_TYPE_WRITE":
        event = watch.next()[1]["filesystem"]
    assert event["entry"]["path"] == f"{folder}/x/y/z" and event["entry"]["size"] == "5"
    rpc(daemon, box, "Remove", path=f"{folder}/x/y/z")
    while event["type"] != "EVENT_TYPE_REMOVE":
        event = watch.next()[1]["filesystem"]
    assert "entry" not in event
    watch.close()


def test_watches_that_cannot_be(daemon, box, folder):
    put(daemon, box, f"{folder}/file", b"")
    for path, code in ((f"{folder}/none", "not_found"), (f"{folder}/file", "invalid_argument")):
        flags, message = Watch(daemon, box, path=path).next()
        assert flags == 2 and message["error"]["code"] == code, message
        assert rpc(daemon, box, "CreateWatcher", {"not_found": 404, "invalid_argument": 400}[code], path=path)["code"] == code
    basic = {"Authorization": "Basic " + base64.b64encode(b"nobody-knows:").decode()}
    flags, message = Watch(daemon, box, headers=basic, path=folder).next()
    assert flags == 2 and message["error"]["code"] == "unauthenticated"
    for raw in (b"", b"\0\0\0\0\5{", b"\1\0\0\0\2{}", b"\0\0\0\0\2{}x", envelope({}) * 2, b"\0\0\0\0\1{"):
        flags, message = Watch(daemon, box, raw=raw).next()
        assert flags == 2 and message["error"]["code"] == "invalid_argument", raw


def test_watch_ends_in_time(daemon, box, folder):
    watch = Watch(daemon, box, {"Connect-Timeout-Ms": "4000", "Keepalive-Ping-Interval": "1"}, path=folder)
    assert watch.next() == (0, {"start": {}})
    assert watch.next() == (0, {"keepalive": {}})
    while (last := watch.next()) == (0, {"keepalive": {}}):
        pass
    flags, message = last
    assert flags == 2 and message["error"]["code"] == "deadline_exceeded"
    assert watch.answer.read() == b""


def test_watch_of_a_folder_that_goes(daemon, box, folder):
    watch = Watch(daemon, box, path=folder)
    assert watch.next() == (0, {"start": {}})
    rpc(daemon, box, "Remove", path=folder)
    assert watch.until((".", "REMOVE"))
    watch.close()


def test_watch_breaks_with_its_sandbox(daemon, sandbox):
    watch = Watch(daemon, sandbox, path=HOME)
    assert watch.next() == (0, {"start": {}})
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError, struct.error)):
        while True:
            watch.next()


def test_watchers(daemon, box, folder):
    watcher = rpc(daemon, box, "CreateWatcher", path=folder, recursive=True)["watcherId"]
    assert rpc(daemon, box, "GetWatcherEvents", watcherId=watcher).get("events", []) == []
    put(daemon, box, f"{folder}/a", b"1")
    seen = []

    def has_write():
        seen.extend((e["name"], e["type"]) for e in rpc(daemon, box, "GetWatcherEvents", watcherId=watcher).get("events", []))
        return ("a", "EVENT_TYPE_WRITE") in seen

    wait_for(has_write)
    assert seen[0] == ("a", "EVENT_TYPE_CREATE")
    assert rpc(daemon, box, "GetWatcherEvents", watcher_id=watcher).get("events", []) == []
    rpc(daemon, box, "RemoveWatcher", watcherId=watcher)
    for name in ("GetWatcherEvents", "RemoveWatcher"):
        assert rpc(daemon, box, name, 404, watcherId=watcher)["code"] == "not_found"


def test_watchers_are_bounded(daemon, sandbox):
    made = [rpc(daemon, sandbox, "CreateWatcher", path=HOME)["watcherId"] for _ in range(16)]
    assert rpc(daemon, sandbox, "CreateWatcher", 429, path=HOME)["code"] == "resource_exhausted"
    rpc(daemon, sandbox, "RemoveWatcher", watcherId=made[0])
    rpc(daemon, sandbox, "CreateWatcher", path=HOME)
    # More than is kept for who never asks.
    def is_lost():
        # To ask is to fetch, so there is a while in which nobody does.
        run(daemon, sandbox, "sh", "-c", f"cd {HOME} && seq 5000 | xargs touch && rm -f *")
        time.sleep(2)
        return daemon.inside(sandbox, "POST", FILES + "GetWatcherEvents", {"watcherId": made[1]}).status == 500

    wait_for(is_lost)
    rpc(daemon, sandbox, "GetWatcherEvents", watcherId=made[1])


def test_a_watcher_of_another(daemon, box, sandbox):
    watcher = rpc(daemon, sandbox, "CreateWatcher", path=HOME)["watcherId"]
    rpc(daemon, box, "GetWatcherEvents", 404, watcherId=watcher)
    rpc(daemon, box, "RemoveWatcher", 404, watcherId=watcher)
    rpc(daemon, sandbox, "RemoveWatcher", watcherId=watcher)


# --- slow, broken, full ---


def open_upload(daemon, box, path, length):
    sock = socket.create_connection(("127.0.0.1", daemon.port), harness.HANG)
    sock.sendall((f"POST {query(path=path)} HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\n"
                  f"X-Access-Token: {box['envdAccessToken']}\r\nContent-Type: application/octet-stream\r\n"
                  f"Content-Length: {length}\r\n\r\n").encode())
    return sock


def everything_in(daemon, box, folder):
    return run(daemon, box, "ls", "-A", folder).split()


def test_an_upload_that_breaks_off(daemon, box, folder):
    put(daemon, box, f"{folder}/old", b"old")
    for path in (f"{folder}/new", f"{folder}/old"):
        sock = open_upload(daemon, box, path, 10_000_000)
        sock.sendall(b"x" * 3_000_000)
        wait_for(lambda: len(everything_in(daemon, box, folder)) == 2, "the beginning of the upload")
        sock.close()
        wait_for(lambda: everything_in(daemon, box, folder) == ["old"], "the end of the upload")
    assert get(daemon, box, f"{folder}/old").body == b"old"


def test_an_upload_to_a_sandbox_that_ends(daemon, sandbox):
    sock = open_upload(daemon, sandbox, f"{HOME}/x", 1 << 30)
    sock.sendall(b"x" * 1_000_000)
    daemon.ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
    sock.settimeout(harness.HANG)
    try:
        while sock.send(b"x" * 65536):
            pass
    except OSError:
        pass
    sock.close()


def test_slow_readers_cost_little(daemon, box, folder):
    run(daemon, box, "truncate", "-s", "200M", f"{folder}/large")
    before = memory_of(daemon)
    readers = []
    for _ in range(10):
        sock = socket.create_connection(("127.0.0.1", daemon.port), harness.HANG)
        sock.sendall((f"GET {query(path=f'{folder}/large')} HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\n"
                      f"X-Access-Token: {box['envdAccessToken']}\r\n\r\n").encode())
        readers.append(sock)
    for sock in readers:
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
    time.sleep(1)
    assert memory_of(daemon) - before < 40 << 20
    # And somebody who does read gets all of it meanwhile.
    assert len(get(daemon, box, f"{folder}/large").body) == 200 << 20
    for sock in readers:
        sock.close()


def memory_of(daemon):
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def test_a_file_that_shrinks_breaks_the_answer(daemon, box, folder):
    run(daemon, box, "sh", "-c", f"head -c 50000000 /dev/urandom > {folder}/s")
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
    connection.request("GET", query(path=f"{folder}/s"), headers={"E2b-Sandbox-Id": box["sandboxID"],
                                                                  "X-Access-Token": box["envdAccessToken"]})
    answer = connection.getresponse()
    assert len(answer.read(1000)) == 1000
    run(daemon, box, "truncate", "-s", "1000", f"{folder}/s")
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        answer.read()
    connection.close()


def test_no_room(daemon, folder, box):
    made = daemon.make()
    disk = daemon.inside(made, "GET", "/metrics").json["disk_total"]
    if not disk or disk > 2 << 30:
        daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")
        pytest.skip("the disk of this sandbox has no limit that could be reached")
    block = b"\x01" * (1 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.HANG)
    sent = iter(block for _ in range((disk >> 20) + 64))
    try:
        connection.request("POST", query(path=f"{HOME}/big"), sent, {
            "E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"],
            "Content-Type": "application/octet-stream"}, encode_chunked=True)
    except (BrokenPipeError, ConnectionResetError):
        pass
    answer = connection.getresponse()
    assert answer.status == 507 and json.loads(answer.read())["code"] == 507
    connection.close()
    assert everything_in(daemon, made, HOME).count("big") == 0
    # It recovers.
    put(daemon, made, f"{HOME}/small", b"x" * 1000)
    assert get(daemon, made, f"{HOME}/small").body == b"x" * 1000
    daemon.ask("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_many_at_once(daemon, box, folder):
    failures = []

    def work(number):
        data = random.Random(number).randbytes(100_000 + number)
        try:
            put(daemon, box, f"{folder}/{number}", data)
            assert get(daemon, box, f"{folder}/{number}").body == data
        except Exception as e:  # pylint: disable=broad-except
            failures.append(str(e)[:200])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, sorted(set(failures))
    assert names_in(daemon, box, folder) == sorted(str(number) for number in range(200))


def test_nothing_leaks(daemon, box, folder):
    def a_round():
        for number in range(5):
            put(daemon, box, f"{folder}/{number}", b"x" * 10000)
            get(daemon, box, f"{folder}/{number}")
            get(daemon, box, f"{folder}/none", 404)
            rpc(daemon, box, "ListDir", path=folder)
        Watch(daemon, box, path=folder).close()
        sock = open_upload(daemon, box, f"{folder}/x", 100000)
        sock.sendall(b"x" * 1000)
        sock.close()

    a_round()
    time.sleep(0.5)
    before = daemon.descriptors()
    for _ in range(5):
        a_round()
    wait_for(lambda: daemon.descriptors() <= before, "the end of what was opened")
