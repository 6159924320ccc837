"""Everything of the control plane that the field's Python client has, against a daemon that E2B_API_URL names.

Runs with the newest client and with the last one that used the older routes.
"""

import time
import uuid

from e2b import Sandbox, SandboxQuery, SandboxState
from e2b.exceptions import NotFoundException, SandboxException

mark = uuid.uuid4().hex
sandbox = Sandbox.create(metadata={"k a": "v&b", "ü": mark + "=%"}, envs={"A": "b"}, timeout=120)
info = sandbox.get_info()
assert info.sandbox_id == sandbox.sandbox_id and info.template_id == "base" and info.state == SandboxState.RUNNING
assert info.metadata == {"k a": "v&b", "ü": mark + "=%"} and 119 <= (info.end_at - info.started_at).total_seconds() <= 121
assert info.cpu_count >= 1 and info.memory_mb >= 1 and info.envd_version
assert sandbox.is_running()

# Lists, filters, pages.
found = Sandbox.list(query=SandboxQuery(metadata={"k a": "v&b", "ü": mark + "=%"}))
assert [s.sandbox_id for s in found.next_items()] == [sandbox.sandbox_id] and not found.has_next
assert Sandbox.list(query=SandboxQuery(metadata={"k a": "v", "ü": mark + "=%"})).next_items() == []
others = [Sandbox.create(metadata={"page": mark}, timeout=120) for _ in range(5)]
pages = Sandbox.list(query=SandboxQuery(metadata={"page": mark}), limit=2)
seen = []
while pages.has_next:
    items = pages.next_items()
    assert len(items) <= 2
    seen += [s.sandbox_id for s in items]
assert seen == [s.sandbox_id for s in others][::-1], seen
assert Sandbox.list(query=SandboxQuery(metadata={"page": mark}, state=[SandboxState.PAUSED])).next_items() == []

# Time.
sandbox.set_timeout(600)
assert (sandbox.get_info().end_at - info.started_at).total_seconds() >= 600
sandbox.set_timeout(100)
assert (sandbox.get_info().end_at - info.started_at).total_seconds() <= 160
connected = Sandbox.connect(sandbox.sandbox_id)
assert connected.sandbox_id == sandbox.sandbox_id

# Pause.
assert sandbox.pause() and not sandbox.pause()
assert sandbox.get_info().state == SandboxState.PAUSED and not sandbox.is_running()
paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
assert sandbox.sandbox_id in [s.sandbox_id for s in paused]
sandbox = Sandbox.connect(sandbox.sandbox_id, timeout=120)
assert sandbox.get_info().state == SandboxState.RUNNING and sandbox.is_running()

# What it uses.
metrics = sandbox.get_metrics()
assert metrics and metrics[-1].mem_total > 0 and metrics[-1].cpu_count >= 1

# Snapshots and copies.
snapshot = sandbox.create_snapshot()
assert snapshot.snapshot_id in [s.snapshot_id for s in Sandbox.list_snapshots().next_items()]
listed = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id).next_items()
assert [s.snapshot_id for s in listed] == [snapshot.snapshot_id]
others.append(Sandbox.create(snapshot.snapshot_id, timeout=120))
assert Sandbox.delete_snapshot(snapshot.snapshot_id) and not Sandbox.delete_snapshot(snapshot.snapshot_id)
copies = sandbox.fork(count=2, timeout=60)
assert len({s.sandbox_id for s in copies}) == 2
others += copies

# The way out.
sandbox.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["1.1.1.1"]})
network = sandbox.get_info().network
assert network["deny_out"] == ["0.0.0.0/0"] and network["allow_out"] == ["1.1.1.1"], network
try:
    sandbox.update_network({"allow_out": ["10.0.0.1"]})
    raise AssertionError("a private address was opened")
except SandboxException as error:
    assert "private" in str(error), error

# What is not there.
try:
    Sandbox.create("nobody-has-this")
    raise AssertionError("a template that does not exist")
except SandboxException as error:
    assert "nobody-has-this" in str(error), error
for other in others:
    assert other.kill() and not other.kill()
assert sandbox.kill() and not sandbox.is_running()
for call in (lambda: sandbox.get_info(), lambda: sandbox.set_timeout(5), lambda: Sandbox.connect(sandbox.sandbox_id)):
    try:
        call()
        raise AssertionError("a sandbox that has ended")
    except NotFoundException:
        pass

# The end of its time.
short = Sandbox.create(timeout=1)
while short.is_running():
    time.sleep(0.1)
print("all of it")
