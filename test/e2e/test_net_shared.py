"""The gate where the sandbox has the host's own network: every way to send, bind and listen, and races between them."""

import json
import shutil

import harness
import pytest

from test_net import internet, net, world  # noqa: F401

pytestmark = pytest.mark.tier("process")

SINK = "93.184.216.35"


def senders(net, helper, rules, *words, **options):
    program = helper("senders")
    return net.brig("run", "--allow-read", program, *net.allow(*rules), "--", program, *words, **options)


def spelled(done):
    return dict(line.split(" ", 1) for line in done.text.splitlines())


REFUSED = {"EACCES", "EPERM", "EOPNOTSUPP", "EISCONN"}


def test_no_spelling_leads_past_the_gate(net, helper):
    done = senders(net, helper, ["good.test:80"], "spell", SINK)
    said = spelled(done)
    assert len(said) == 17 and set(said.values()) <= REFUSED, said
    assert said["fastopen"] == "EOPNOTSUPP" and said["sendto"] == "EACCES"
    assert net.reached() == set() and net.queries() == set()


def test_the_spellings_work_where_nothing_stands_in_their_way(net, helper, hooks):
    """The same program with the gate knocked out: only Landlock is left. It holds connect(), but neither datagrams nor a
    connection that begins with its first bytes; so the filter has to."""
    done = senders(net, helper, ["good.test:80"], "spell", SINK, env={"BRIG_TEST_WITHOUT": "gate"})
    said = spelled(done)
    assert said["sendto"] == said["sendmsg"] == said["sendmmsg"] == said["connected"] == "done", said
    assert said["connect"] == said["fastopen-connect"] == "EACCES"
    assert net.reached() == {(SINK, "9")} | ({(SINK, "7003")} if said["fastopen"] == "done" else set())
    net.world.quiet()
    done = senders(net, helper, ["good.test:80"], "spell", SINK, env={"BRIG_TEST_WITHOUT": "gate,files"})
    assert spelled(done)["connect"] == "done", done
    assert (SINK, "7003") in net.reached()


def test_every_refusal_is_told(net, helper):
    program = helper("senders")
    result = net.brig.json("--allow-read", program, *net.allow("good.test:80"), "--", program, "spell", SINK)
    said = {(d["action"], d["object"]) for d in result["denials"]}
    for wanted in [("datagram", f"{SINK}:9"), ("datagram", "a control message"), ("connect", f"{SINK}:7003"), ("bind", "0.0.0.0:4321"),
                   ("listen", "a port")]:
        assert wanted in said, said
    off = net.brig.json("--record", "off", "--allow-read", program, *net.allow("good.test:80"), "--", program, "spell", SINK)
    assert {d["action"] for d in off["denials"]} >= {"datagram", "connect", "bind", "listen"}


@pytest.mark.tier("process", "container")
@pytest.mark.parametrize("rules", [["good.test:80"], [f"{SINK}/32:80 raw"]])
def test_races_end_where_they_were_judged(net, helper, rules):
    """One thread rewrites address and message, one exchanges the socket; each call is made thousands of times."""
    done = senders(net, helper, rules, "race", harness.rounds(net.brig), SINK, timeout=500)
    assert done.code == 0 and done.text.startswith("sent "), done
    assert net.brig.is_container or all(int(count) > 0 for count in done.text.split()[1:4]), done
    assert net.reached() <= {(SINK, "80")}, done
    if "raw" not in rules[0]:
        assert net.reached() == set()
    assert net.queries() == set()


def test_the_race_is_won_without_the_gate(net, helper, hooks):
    done = senders(net, helper, ["good.test:80"], "race", "20000", SINK, env={"BRIG_TEST_WITHOUT": "gate"}, timeout=200)
    assert done.code == 0, done
    assert (SINK, "9") in net.reached()


@pytest.mark.parametrize("kind, size", [("pair", 10), ("pair", 1000000), ("packet", 10), ("packet", 200000)])
def test_pairs_carry_large_messages_and_descriptors(net, helper, kind, size):
    done = senders(net, helper, ["good.test:80"], kind, str(size))
    assert done.text.splitlines() == [f"got {size}, passed 7", "status 0, piped 7", "broken -1 EPIPE"], done


def test_a_send_that_waits_does_not_hold_up_others(net):
    code = """
import array, os, signal, socket, sys, threading, time
a, b = socket.socketpair()
def stuck():
    try: a.sendmsg([b"x" * 900000])
    except OSError: pass
threading.Thread(target=stuck, daemon=True).start()
time.sleep(0.3)
c, d = socket.socketpair()
for i in range(100):
    c.sendmsg([b"ping"]); assert d.recv(9) == b"ping"
print("others go on")
c.setblocking(False)
try:
    while True: c.sendmsg([b"x" * 65536])
except BlockingIOError: print("would wait")
a2, b2 = socket.socketpair()
signal.signal(signal.SIGALRM, lambda *_: sys.exit(3)); signal.alarm(1)
while True: a2.sendmsg([b"x" * 65536])
"""
    done = net.run(["good.test:80"], "python3", "-c", code)
    assert (done.code, done.text.splitlines()) == (3, ["others go on", "would wait"]), done


def test_names_in_every_spelling(net):
    """Datagrams to port 53 of anything are the resolver's: one question, by sendto, sendmsg and on a bound socket, over TCP too."""
    code = """
import socket
query = bytes.fromhex("123401000001000000000000") + b"\\4good\\4test\\0" + b"\\0\\1\\0\\1"
def udp(family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(60); return s
def told(data): print(data[:2] == query[:2] and socket.inet_aton("93.184.216.34") in data)
s = udp(); s.sendto(query, ("93.184.216.99", 53)); told(s.recv(512))
s = udp(); s.sendmsg([query[:5], query[5:]], [], 0, ("10.1.2.3", 53)); told(s.recv(512))
s = udp(socket.AF_INET6); s.sendto(query, ("2600:1::dead", 53)); told(s.recv(512))
s = udp(); s.bind(("", 0)); s.sendto(query, ("127.0.0.1", 53)); told(s.recv(512))
s = udp(); s.connect(("93.184.216.99", 53)); s.send(query); told(s.recv(512))
s = socket.create_connection(("93.184.216.99", 53)); s.sendall(len(query).to_bytes(2, "big") + query); s.recv(2); told(s.recv(512))
"""
    done = net.run(["good.test:80"], "python3", "-c", code)
    assert done.text.split() == ["True"] * 6, done
    assert net.reached() == set()
    assert net.queries() == {"good.test"}


def test_the_resolver_file_and_interfaces(net):
    code = """
import os, socket
print(open("/etc/resolv.conf").read().strip())
fd = os.open("/etc/resolv.conf", os.O_RDONLY); print(os.get_inheritable(fd))
try: os.open("/etc/resolv.conf", os.O_WRONLY); print("written")
except OSError as e: print("refused")
print([name for _, name in socket.if_nameindex() if name == "lo"])"""
    for record in "all", "off":
        done = net.brig("run", "--record", record, *net.allow("good.test:80"), "--", "python3", "-c", code)
        assert done.text.splitlines() == ["nameserver 127.0.0.1", "False", "refused", "['lo']"], done


def test_what_works_is_not_told_as_refused(net):
    result = net.json(["good.test:80"], "curl", "-sS", "-m", "20", "http://good.test/512")
    assert result["exit_code"] == 0
    assert [d for d in result["denials"] if d["object"] == "/etc/resolv.conf" or d["action"] in ("connect", "datagram")] == []


def test_the_node_resolver(net):
    """c-ares looks at the address that an answer comes from."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    done = net.run(["good.test:80"], "node", "-e", "require('dns').resolve4('good.test', (e, a) => console.log(e ? e.code : a[0]))")
    assert done.text == f"{internet.HOST}\n", done


def test_nobody_can_reach_a_bound_socket(net):
    """It is tied to the loopback device, and loses its port when it is disconnected."""
    code = """
import ctypes, os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 0))
print(s.getsockname()[1] > 0, s.getsockopt(socket.SOL_SOCKET, 62))
s.connect(("1.1.1.1", 53))
ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16)
print(s.getsockname()[1])"""
    done = net.run(["good.test:80"], "python3", "-c", code)
    assert done.text.splitlines() == ["True 1", "0"], done


def test_the_report_and_what_is_missing(net, helper, hooks):
    result = net.json(["good.test:80"], "true")
    network = [line for line in map(json.dumps, result["enforcement"]) if '"network"' in line]
    assert network and "gate" in network[0], result["enforcement"]
    said = net.brig.refused("run", *net.allow("good.test:80"), "--", "true", env={"BRIG_TEST_FAIL": "landlock_abi=3"})
    assert "--isolation container" in said and "Landlock" in said
    said = net.brig.refused("run", *net.allow("good.test:80"), "--", "true", before=[helper("dockerlike")])
    assert "pidfd_getfd" in said and "SYS_PTRACE" in said


def test_a_program_that_cannot_be_started(net):
    done = net.run(["good.test:80"], "/nowhere")
    assert done.code == 127 and done.error == 'brig: "/nowhere" does not exist\n', done


def test_a_broken_pair_is_a_signal(net):
    code = "import signal, socket; a, b = socket.socketpair(); b.close(); signal.signal(signal.SIGPIPE, signal.SIG_DFL); a.sendmsg([b'x'])"
    assert net.run(["good.test:80"], "python3", "-c", code).code == 128 + 13
