"""process.Process with the field's own clients, as they come from the registries."""

import json
import subprocess

import harness


def python(daemon, python_sdk, script):
    """Runs a program with a sandbox "s"; what it printed, line by line as JSON."""
    text = "import json, time, threading\nfrom e2b import *\ndef show(x): print(json.dumps(x), flush=True)\n" \
           "s = Sandbox.create()\ntry:\n" + "".join(f"    {line}\n" for line in script.splitlines()) + "finally:\n    s.kill()\n"
    done = subprocess.run([str(python_sdk), "-c", text], env=daemon.sdk(), capture_output=True, timeout=harness.HANG,
                          check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def node(daemon, node_sdk, script):
    text = "import { Sandbox } from 'e2b'\nconst show = x => console.log(JSON.stringify(x))\n" \
           "const s = await Sandbox.create()\ntry {\n" + script + "\n} finally { await s.kill() }\n"
    done = subprocess.run(["node", "--input-type=module", "-e", text], cwd=node_sdk, env=daemon.sdk(),
                          capture_output=True, timeout=harness.HANG, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


class TestPython:
    def test_run(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
r = s.commands.run("echo out; echo err >&2; echo $A", envs={"A": "1"}, cwd="/tmp")
show([r.stdout, r.stderr, r.exit_code])
seen = []
s.commands.run("echo a; sleep 0.1; echo b >&2", on_stdout=lambda x: seen.append(["o", x]), on_stderr=lambda x: seen.append(["e", x]))
show(seen)
try: s.commands.run("echo part; exit 3")
except CommandExitException as e: show([e.exit_code, e.stdout, e.error])
try: s.commands.run("true", cwd="/none")
except InvalidArgumentException as e: show(str(e))
try: s.commands.run("true", user="stranger")
except AuthenticationException as e: show(str(e))
""")
        assert got == [["out\n1\n", "err\n", 0], [["o", "a\n"], ["e", "b\n"]], [3, "part\n", "exit status 3"],
                       "cwd '/none' does not exist", "invalid username: 'stranger'"]

    def test_sudo(self, daemon, python_sdk, who):
        got = python(daemon, python_sdk, """
r = s.commands.run("id -u; sudo id -u; sudo sh -c 'exit 7'; echo $?; echo in | sudo -n cat; sudo touch /etc/made && echo made")
show(r.stdout.split())
show(s.commands.run("sudo chown user /etc/made && stat -c %U /etc/made", user="user").stdout)
""" if who.name == "root" else """
show(s.commands.run("id -u; sudo id -u; sudo sh -c 'exit 7'; echo $?; echo in | sudo -n cat").stdout.split())
""")
        if who.name == "root":
            assert got == [["1000", "0", "7", "in", "made"], "user\n"]
        else:
            assert got == [["1000", "1000", "7", "in"]]

    def test_background(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
h = s.commands.run("sleep 1000", background=True)
show([p.pid == h.pid and p.cmd == "/bin/bash" for p in s.commands.list()])
show(s.commands.run(f"kill -0 {h.pid}").exit_code)
show(h.kill())
try: h.wait()
except CommandExitException as e: show([e.exit_code, e.error])
show([h.kill(), s.commands.kill(h.pid)])
h = s.commands.run("sleep 1; echo late; exit 4", background=True)
pid = h.pid
h.disconnect()
c = s.commands.connect(pid)
try: c.wait()
except CommandExitException as e: show([c.pid == pid, e.exit_code, e.stdout])
try: s.commands.connect(999999)
except NotFoundException as e: show(str(e))
""")
        assert got == [[True], 0, True, [-1, "signal: killed"], [False, False], [True, 4, "late\n"],
                       "process with pid 999999 not found"]

    def test_input(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
h = s.commands.run("cat", background=True, stdin=True)
s.commands.send_stdin(h.pid, "one ")
s.commands.send_stdin(h.pid, "zwö\\n")
s.commands.close_stdin(h.pid)
show(h.wait().stdout)
h = s.commands.run("wc -c", background=True, stdin=True)
s.commands.stream_input(h.pid, ("x" * 10000 for _ in range(100)))
s.commands.close_stdin(h.pid)
show(h.wait().stdout)
h = s.commands.run("sleep 1000", background=True)
try: s.commands.send_stdin(h.pid, "x")
except SandboxException as e: show("refused")
""")
        assert got == ["one zwö\n", "1000000\n", "refused"]

    def test_time(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
t = time.monotonic()
try: s.commands.run("echo $$ >/tmp/pid; exec sleep 1000", timeout=1)
except TimeoutException as e: show("timeout" in str(e))
show(time.monotonic() - t < 30)
for i in range(100):
    if s.commands.run("kill -0 $(cat /tmp/pid) 2>/dev/null || echo gone").stdout == "gone\\n": break
    time.sleep(0.1)
show(i < 99)
""")
        assert got == [True, True, True]

    def test_terminal(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
seen = []
t = s.pty.create(PtySize(rows=30, cols=100))
s.pty.send_stdin(t.pid, b"stty size; echo $TERM\\n")
def see(x):
    seen.append(bytes(x))
    if not resized and b"30 100" in b"".join(seen):
        resized.append(True)
        s.pty.resize(t.pid, PtySize(rows=11, cols=22))
        s.pty.send_stdin(t.pid, b"stty size; exit 3\\n")
resized = []
try: t.wait(on_pty=see)
except CommandExitException as e: show(e.exit_code)
text = b"".join(seen).decode()
show(["30 100" in text, "11 22" in text, "xterm" in text])
""")
        assert got == [3, [True, True, True]]

    def test_the_sandbox_ends(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
h = s.commands.run("sleep 1000", background=True)
threading.Timer(0.5, s.kill).start()
try: h.wait()
except SandboxNotRunningException as e: show("gone")
""")
        assert got == ["gone"]

    def test_many_at_once(self, daemon, python_sdk):
        got = python(daemon, python_sdk, """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(50) as pool:
    results = list(pool.map(lambda i: s.commands.run(f"seq {i} {i + 1000} | tail -1").stdout, range(50)))
show(results == [f"{i + 1000}\\n" for i in range(50)])
r = s.commands.run("head -c 30000000 /dev/zero | tr '\\\\0' x")
show(len(r.stdout))
""")
        assert got == [True, 30000000]


class TestNode:
    def test_run(self, daemon, node_sdk):
        got = node(daemon, node_sdk, """
let r = await s.commands.run('echo out; echo err >&2; echo $A', { envs: { A: '1' }, cwd: '/tmp' })
show([r.stdout, r.stderr, r.exitCode])
try { await s.commands.run('echo part; exit 3') } catch (e) { show([e.name, e.exitCode, e.stdout, e.error]) }
try { await s.commands.run('true', { cwd: '/none' }) } catch (e) { show([e.name, e.message]) }
try { await s.commands.run('true', { user: 'stranger' }) } catch (e) { show([e.name, e.message]) }
try { await s.commands.run('sleep 1000', { timeoutMs: 500 }) } catch (e) { show(e.name) }
""")
        assert got == [["out\n1\n", "err\n", 0], ["CommandExitError", 3, "part\n", "exit status 3"],
                       ["InvalidArgumentError", "[invalid_argument] cwd '/none' does not exist"],
                       ["AuthenticationError", "[unauthenticated] invalid username: 'stranger'"], "TimeoutError"]

    def test_background(self, daemon, node_sdk):
        got = node(daemon, node_sdk, """
const h = await s.commands.run('cat; exit 5', { background: true, stdin: true })
show((await s.commands.list()).map(p => [p.pid === h.pid, p.cmd]))
await s.commands.sendStdin(h.pid, 'hällo')
await s.commands.closeStdin(h.pid)
try { await h.wait() } catch (e) { show([e.exitCode, e.stdout]) }
const k = await s.commands.run('sleep 1000', { background: true })
show(await k.kill())
try { await k.wait() } catch (e) { show([e.exitCode, e.error]) }
show(await s.commands.kill(k.pid))
const d = await s.commands.run('sleep 1; echo late', { background: true })
await d.disconnect()
const c = await s.commands.connect(d.pid)
show((await c.wait()).stdout)
""")
        assert got == [[[True, "/bin/bash"]], [5, "hällo"], True, [-1, "signal: killed"], False, "late\n"]

    def test_terminal(self, daemon, node_sdk):
        got = node(daemon, node_sdk, """
let text = ''
const t = await s.pty.create({ rows: 30, cols: 100, onData: d => { text += new TextDecoder().decode(d) } })
await s.pty.sendInput(t.pid, new TextEncoder().encode('stty size\\n'))
while (!text.includes('30 100')) await new Promise(r => setTimeout(r, 20))
await s.pty.resize(t.pid, { rows: 11, cols: 22 })
await s.pty.sendInput(t.pid, new TextEncoder().encode('stty size; exit 3\\n'))
try { await t.wait() } catch (e) { show(e.exitCode) }
show([text.includes('30 100'), text.includes('11 22')])
""")
        assert got == [3, [True, True]]

    def test_the_sandbox_ends(self, daemon, node_sdk):
        got = node(daemon, node_sdk, """
const h = await s.commands.run('sleep 1000', { background: true })
setTimeout(() => s.kill(), 500)
try { await h.wait() } catch (e) { show(e.name) }
""")
        assert got == ["TimeoutError"]

    def test_much_and_many(self, daemon, node_sdk):
        got = node(daemon, node_sdk, """
const all = await Promise.all([...Array(50).keys()].map(i => s.commands.run(`seq ${i} ${i + 1000} | tail -1`)))
show(all.every((r, i) => r.stdout === `${i + 1000}\\n`))
show((await s.commands.run("head -c 20000000 /dev/zero | tr '\\\\0' x")).stdout.length)
""")
        assert got == [True, 20000000]
