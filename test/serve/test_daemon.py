"""The daemon as an operator sees it: start, refusals, signals, TLS, systemd, what it writes and where."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess

import harness
import pytest
from conftest import wait_for


def run(daemon, *words):
    return daemon.brig("serve", *words)


def test_the_first_start_tells_a_key_and_the_next_one_does_not(own_daemon):
    first = own_daemon.start().key
    assert first.startswith("e2b_") and len(first) == 44
    assert own_daemon.ask("GET", "/v1/sandboxes").status == 200
    assert own_daemon.stop() == 0
    own_daemon.start()
    assert own_daemon.ready["key"] is None
    assert own_daemon.ask("GET", "/v1/sandboxes", key=first).status == 200


def test_the_key_is_kept_nowhere(own_daemon):
    own_daemon.start()
    own_daemon.stop()
    for folder, _, names in os.walk(own_daemon.state):
        for name in names:
            path = os.path.join(folder, name)
            assert own_daemon.key[4:].encode() not in open(path, "rb").read(), path
            assert not os.stat(path).st_mode & 0o077, path


@pytest.mark.parametrize("words, part", [
    (["--listen", "nonsense"], "not ADDRESS:PORT"),
    (["--listen", "256.0.0.1:80"], "not an address"),
    (["--listen", "127.0.0.1:99999"], "not ADDRESS:PORT"),
    (["--listen", "unix:relative"], "absolute path"),
    (["--cert", "/x"], "go together"),
    (["--cert", "/x", "--key", "/y"], "without --tls"),
    (["--tls", "--cert", "/nonexistent/a", "--key", "/nonexistent/b"], "/nonexistent/"),
    (["--tls", "--domain", "bad domain"], "not a name"),
    (["--log", "xml"], "text or json"),
    (["--open", "--listen", "0.0.0.0:0"], "--open is for loopback"),
    (["surplus"], "too much"),
    (["--nonsense"], "--nonsense"),
])
def test_what_cannot_be_is_refused_in_one_line(own_daemon, words, part):
    done = run(own_daemon, *words)
    assert done.returncode == 125
    assert done.stdout == b""
    lines = [line for line in done.stderr.decode().splitlines() if line]
    assert len(lines) == 1 and part in lines[0], lines


def test_two_daemons_in_one_state_directory(own_daemon):
    own_daemon.start()
    done = run(own_daemon, "--listen", "127.0.0.1:0")
    assert done.returncode == 125 and b"another brig serve" in done.stderr


def test_an_address_that_is_taken(own_daemon):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(own_daemon, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 125 and b"--listen takes another port" in done.stderr


def test_signals(own_daemon):
    own_daemon.start()
    own_daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "reload" in own_daemon.log(), "a line about the reload")
    assert own_daemon.ask("GET", "/v1/health", key=False).status in (200, 204)
    assert own_daemon.stop(signal.SIGTERM) == 0
    assert "stopping" in own_daemon.log()


def test_the_log_as_json(own_daemon):
    own_daemon.start(["--log", "json"])
    number = own_daemon.ask("GET", "/sandboxes/nobody?signature=hidden").headers["X-Request-Id"]
    own_daemon.stop()
    lines = [json.loads(line) for line in own_daemon.log().splitlines()]
    mine = [line for line in lines if line.get("request") == number]
    assert len(mine) == 1 and mine[0]["status"] == 404 and mine[0]["method"] == "GET"
    assert "hidden" not in own_daemon.log() and own_daemon.key not in own_daemon.log()


@pytest.mark.parametrize("host, answered", [
    ("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("x.localhost:7070", True), ("evil.example", False),
    ("localhost.evil.example", False), ("127.0.0.1.evil.example", False),
])
def test_names_that_are_not_ours(daemon, host, answered):
    """A stranger's page whose name leads to this machine speaks with its own Host."""
    answer = daemon.ask("GET", "/v1/sandboxes", headers={"Host": host})
    assert (answer.status == 200) == answered
    assert answered or (answer.status == 421 and answer.json["code"] == 421)


def test_without_keys_pages_of_others_are_refused(own_daemon):
    own_daemon.start(["--open"])
    assert own_daemon.ask("GET", "/v1/sandboxes", key=False).status == 200
    origin = {"Origin": "https://evil.example"}
    answer = own_daemon.ask("GET", "/v1/sandboxes", key=False, headers=origin)
    assert answer.status == 403 and "Access-Control-Allow-Origin" not in answer.headers
    assert own_daemon.ask("POST", "/sandboxes", {"templateID": "base"}, key=False, headers=origin).status == 403
    same = {"Origin": f"http://127.0.0.1:{own_daemon.port}"}
    assert own_daemon.ask("GET", "/v1/sandboxes", key=False, headers=same).status == 200


def test_preflight_of_a_browser(daemon):
    answer = daemon.ask("OPTIONS", "/sandboxes", key=False, headers={
        "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key"})
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]


def test_keys(daemon):
    for key in (False, "", "e2b_", "e2b_" + "0" * 40, "x" * 4000, daemon.key[:-1], daemon.key + "0"):
        answer = daemon.ask("GET", "/v1/sandboxes", key=key)
        assert answer.status == 401 and answer.json["code"] == 401, key
    bearer = {"Authorization": f"Bearer {daemon.key}"}
    assert daemon.ask("GET", "/v1/sandboxes", key=False, headers=bearer).status == 200


def test_a_revoked_key_is_good_for_nothing_at_once(daemon):
    made = json.loads(daemon.brig("key", "create", "--tenant", "gone", "--json").stdout)
    assert daemon.ask("GET", "/v2/sandboxes", key=made["key"]).status == 200
    assert daemon.brig("key", "revoke", made["id"]).returncode == 0
    assert daemon.ask("GET", "/v2/sandboxes", key=made["key"]).status == 401


def test_paths_that_are_nothing(daemon):
    for path in ("/nothing", "/v1/nothing", "/sandboxes/a/b/c", "/ui/none.js", "/%00", "/sandboxes/%ff", "/v1"):
        answer = daemon.ask("GET", path)
        assert answer.status in (400, 404) and answer.json["code"] == answer.status, path
    answer = daemon.ask("DELETE", "/v2/sandboxes")
    assert answer.status == 405 and "POST" in answer.headers["Allow"]
    assert daemon.ask("GET", "//v2//sandboxes").status == 404
    assert daemon.ask("GET", "//v2/sandboxes").status == 200


def test_a_socket_in_the_file_system(own_daemon):
    path = own_daemon.folder / "work" / "api.socket"
    own_daemon.start(listen=f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    done = subprocess.run(["curl", "-s", "--unix-socket", str(path), "http://localhost/v1/health", "-o", "/dev/null", "-w",
                           "%{http_code}"], capture_output=True, timeout=harness.HANG, check=True)
    assert done.stdout in (b"200", b"204")
    own_daemon.kill9()
    own_daemon.start(listen=f"unix:{path}")  # over what the one that was killed left


def test_a_socket_from_systemd(own_daemon):
    """As systemd does it: descriptor 3, and two variables."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind("\0brig-test-%d" % os.getpid())
        notify.settimeout(harness.HANG)
        own_daemon.port = listener.getsockname()[1]
        words = [*own_daemon.who.prefix(), "/bin/bash", "-c",
                 f"exec env LISTEN_PID=$$ LISTEN_FDS=1 {own_daemon.exe} serve --json 3<&{listener.fileno()}"]
        env = {**own_daemon.environment(), "NOTIFY_SOCKET": "@brig-test-%d" % os.getpid()}
        with open(own_daemon.log_path, "ab") as log:
            own_daemon.process = subprocess.Popen(words, cwd=own_daemon.work, env=env, pass_fds=[listener.fileno()],
                                                  stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        assert json.loads(own_daemon.process.stdout.readline())["url"].endswith(f":{own_daemon.port}")
        assert notify.recv(100) == b"READY=1"
    assert own_daemon.ask("GET", "/v1/health", key=False).status in (200, 204)
    assert own_daemon.stop() == 0


# --- TLS ---


def test_tls_with_brigs_own_ca(own_daemon):
    own_daemon.start(["--tls", "--domain", "brig.test"])
    ca = own_daemon.ready["ca"]
    trust = ssl.create_default_context(cafile=ca)
    for name, good in (("brig.test", True), ("api.brig.test", True), ("49983-abc.brig.test", True), ("localhost", True),
                       ("other.test", False)):
        with socket.create_connection(("127.0.0.1", own_daemon.port), harness.HANG) as plain:
            try:
                with trust.wrap_socket(plain, server_hostname=name) as secure:
                    secure.sendall(f"GET /v1/health HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                    # The one that looks like a sandbox's is told that there is none.
                    assert secure.recv(100).startswith(b"HTTP/1.1 502" if "abc" in name else b"HTTP/1.1 20") and good
            except ssl.SSLCertVerificationError:
                assert not good
    # The same certificate after a restart; its key is nobody else's.
    before = open(ca, "rb").read()
    own_daemon.restart(["--tls", "--domain", "brig.test"])
    assert open(own_daemon.ready["ca"], "rb").read() == before
    for name in os.listdir(os.path.dirname(ca)):
        assert not os.stat(os.path.join(os.path.dirname(ca), name)).st_mode & 0o077, name


def test_the_ca_vouches_for_nothing_else(own_daemon):
    """Name constraints: who has the CA's key cannot be another site to those who trust it."""
    own_daemon.start(["--tls", "--domain", "brig.test"])
    folder = os.path.dirname(own_daemon.ready["ca"])
    out = own_daemon.tmp
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    f"{out}/k", "-out", f"{out}/c", "-subj", "/CN=bank.example", "-addext",
                    "subjectAltName=DNS:bank.example", "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key"],
                   check=True, capture_output=True)
    done = subprocess.run(["openssl", "verify", "-CAfile", f"{folder}/ca.pem", f"{out}/c"], capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0 and "permitted subtree violation" in done.stdout + done.stderr


def test_tls_with_a_given_certificate_that_is_read_anew(own_daemon):
    def make(name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        own_daemon.tmp / "key.pem", "-out", own_daemon.tmp / "cert.pem", "-subj", f"/CN={name}"], check=True,
                       capture_output=True)
        for file in ("key.pem", "cert.pem"):
            own_daemon.who.own(own_daemon.tmp / file)

    def served():
        return ssl.get_server_certificate(("127.0.0.1", own_daemon.port), timeout=harness.HANG)

    make("one")
    first = (own_daemon.tmp / "cert.pem").read_text()
    own_daemon.start(["--tls", "--cert", str(own_daemon.tmp / "cert.pem"), "--key", str(own_daemon.tmp / "key.pem")])
    assert served().strip() == first.strip()
    make("two")
    own_daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: served().strip() == (own_daemon.tmp / "cert.pem").read_text().strip(), "the new certificate")
    # One that is no good changes nothing.
    (own_daemon.tmp / "cert.pem").write_text("nonsense")
    own_daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the old certificate stays" in own_daemon.log(), "a line about it")
    assert own_daemon.process.poll() is None and served()
