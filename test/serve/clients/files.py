"""Everything about files that the field's Python client has, against a daemon that E2B_API_URL names."""

import asyncio
import io
import time
import urllib.request

from e2b import AsyncSandbox, FilesystemEventType, FileType, Sandbox
from e2b.exceptions import FileNotFoundException, InvalidArgumentException, SandboxException

sandbox = Sandbox.create(timeout=300)
files = sandbox.files

# There and back, in every form that the client has for it.
info = files.write("hello.txt", "hällo")
assert (info.name, info.path, info.type) == ("hello.txt", "/home/user/hello.txt", FileType.FILE), info
assert files.read("hello.txt") == "hällo" and files.read("/home/user/hello.txt", format="bytes") == "hällo".encode()
data = bytes(range(256)) * 4000
for how in ({}, {"use_octet_stream": True}, {"gzip": True}):
    files.write("dir/sub/data.bin", data, **how)
    assert files.read("dir/sub/data.bin", format="bytes") == data, how
files.write("stream.bin", io.BytesIO(data))
files.write("iter.bin", (data[i:i + 1000] for i in range(0, len(data), 1000)))
with files.read("iter.bin", format="stream") as stream:
    assert b"".join(stream) == data
assert files.read("iter.bin", format="bytes", gzip=True) == data
files.write("empty", "")
assert files.read("empty") == "" and files.read("empty", format="bytes") == b""
written = files.write_files([{"path": f"many/ä {i}.txt", "data": f"{i}"} for i in range(20)])
assert [w.path for w in written] == [f"/home/user/many/ä {i}.txt" for i in range(20)]
assert files.read("many/ä 7.txt") == "7"
written = files.write_files([{"path": f"octet/{i}", "data": f"{i}"} for i in range(5)], use_octet_stream=True)
assert len(written) == 5 and files.read("octet/3") == "3"
big = b"0123456789abcdef" * (2 << 20)
files.write("/tmp/big", io.BytesIO(big))
assert files.read("/tmp/big", format="bytes") == big

# What is there.
entry = files.get_info("hello.txt")
assert (entry.size, entry.mode, entry.permissions, entry.owner) == (6, 0o644, "-rw-r--r--", "user"), entry
assert abs(entry.modified_time.timestamp() - time.time()) < 300 and entry.symlink_target is None
assert files.exists("hello.txt") and not files.exists("nothing")
assert files.get_info("dir").type == FileType.DIR
assert [e.name for e in files.list("dir")] == ["sub"]
assert [e.path for e in files.list("dir", depth=2)] == ["/home/user/dir/sub", "/home/user/dir/sub/data.bin"]
sandbox.commands.run("ln -s hello.txt link")
entry = files.get_info("link")
assert entry.type == FileType.SYMLINK and entry.symlink_target == "/home/user/hello.txt"
assert "link" in [e.name for e in files.list("/home/user")]
try:
    files.list("/home/user", depth=0)
    raise AssertionError("a depth of 0")
except InvalidArgumentException:
    pass

# Folders and names.
assert files.make_dir("new/folder") and not files.make_dir("new/folder")
assert files.rename("hello.txt", "new/folder/moved.txt").path == "/home/user/new/folder/moved.txt"
assert not files.exists("hello.txt") and files.read("new/folder/moved.txt") == "hällo"
files.remove("new")
assert not files.exists("new")
for act in (lambda: files.read("nothing"), lambda: files.get_info("nothing"), lambda: files.list("nothing"),
            lambda: files.rename("nothing", "x"), lambda: files.watch_dir("nothing")):
    try:
        act()
        raise AssertionError("of what is not there")
    except FileNotFoundException:
        pass
for act in (lambda: files.read("dir"), lambda: files.write("dir", "x"), lambda: files.watch_dir("empty")):
    try:
        act()
        raise AssertionError("of another kind")
    except SandboxException:
        pass

# What only root may do, where there is one.
root = sandbox.commands.run("stat -c %U /").stdout.strip() == "root"
if root:
    assert files.write("/at-the-top/x.txt", "x").path == "/at-the-top/x.txt"
    assert sandbox.commands.run("echo y >> /at-the-top/x.txt; cat /at-the-top/x.txt").stdout == "xy\n"
    assert files.get_info("/at-the-top").owner == "user"
    files.write("/root/mine", "of root", user="root")
    assert files.read("/root/mine", user="root") == "of root" and files.get_info("/root/mine").owner == "root"

# Metadata.
try:
    info = files.write("meta.txt", "x", metadata={"Author": "me", "kind": "a b=c"})
    assert info.metadata == {"author": "me", "kind": "a b=c"}, info
    assert files.get_info("meta.txt").metadata == {"author": "me", "kind": "a b=c"}
    files.write("meta.txt", "y", metadata={"other": "1"}, use_octet_stream=True)
    assert files.get_info("meta.txt").metadata == {"other": "1"}
    assert {e.name: e.metadata for e in files.list(".")}["meta.txt"] == {"other": "1"}
except SandboxException as e:
    if "501" not in str(e):
        raise

# Addresses that are signed: without a header, and without the name of the sandbox.
url = sandbox.upload_url("signed file.txt", use_signature_expiration=60)
request = urllib.request.Request(url, b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"n\"\r\n\r\nsigned\r\n--B--\r\n",
                                 {"Content-Type": "multipart/form-data; boundary=B"})
assert urllib.request.urlopen(request).status == 200
assert files.read("signed file.txt") == "signed"
with urllib.request.urlopen(sandbox.download_url("signed file.txt", use_signature_expiration=60)) as answer:
    assert answer.read() == b"signed"
with urllib.request.urlopen(sandbox.download_url("signed file.txt")) as answer:
    assert answer.read() == b"signed"

# Watching, by asking.
handle = files.watch_dir("/home/user/dir", recursive=True, include_entry=True)
files.write("dir/watched.txt", "x")
files.write("dir/sub/below.txt", "x")
files.remove("dir/watched.txt")
seen, end = [], time.monotonic() + 60
while time.monotonic() < end and not any(e.type == FilesystemEventType.REMOVE for e in seen):
    seen += handle.get_new_events()
    time.sleep(0.05)
names = [(e.name, e.type) for e in seen]
assert ("watched.txt", FilesystemEventType.CREATE) in names and ("watched.txt", FilesystemEventType.WRITE) in names, names
assert ("sub/below.txt", FilesystemEventType.WRITE) in names and ("watched.txt", FilesystemEventType.REMOVE) in names, names
below = [e.entry for e in seen if e.name == "sub/below.txt" and e.entry]
assert below and below[0].path == "/home/user/dir/sub/below.txt"
handle.stop()
try:
    handle.get_new_events()
    raise AssertionError("of a watch that was stopped")
except SandboxException:
    pass


async def asynchronously():
    box = await AsyncSandbox.connect(sandbox.sandbox_id)
    got, ended = asyncio.Queue(), asyncio.Event()
    watch = await box.files.watch_dir("dir", on_event=got.put, on_exit=lambda e: ended.set())
    await box.files.write("dir/async.txt", "x")
    while (event := await asyncio.wait_for(got.get(), 60)).type != FilesystemEventType.WRITE:
        pass
    assert event.name == "async.txt"
    await watch.stop()
    await asyncio.gather(*(box.files.write(f"async/{i}", f"{i}") for i in range(50)))
    assert await asyncio.gather(*(box.files.read(f"async/{i}") for i in range(50))) == [f"{i}" for i in range(50)]


asyncio.run(asynchronously())
sandbox.kill()
print("all of it")
