#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: interop.py BIN [CLIENT...]
Holds proto/rpc against gRPC's own clients: each of CLIENTS, or those that are named, does all of ROWS with a server of
its own; the programs are those of a bazel-bin. Two clients know HTTP/2 and not gRPC, so they have rows of their own:
h2load, which shows no replies, has the same server, and nghttp, which knows no Unix sockets and sends one request a
call, rdma-brokerd's TCP port, over TLS. Prints "passed|failed CLIENT: ROW" for each. The
packages of this folder's package-lock.json must be installed (npm ci).

The server's methods, of /interop.Echo; messages are plain octets:
  Say       answers with the request
  Metadata  answers with the values of "key" and "key-bin", a comma between them
  Fail      ends as ABORTED, with a message beyond ASCII and the request as grpc-status-details-bin
  Wait      never ends
  Lost      answers with the number of calls that clients have left
  Pour      answers "COUNT SIZE" with so many replies of so many octets
  Chat      answers each request with the same; after "stop" it ends as FAILED_PRECONDITION

A client prints "passed ROW" or "failed ROW: WHY", and, when it wants its server to change, a line of these, upon which
it waits for a line of its standard input:
  kill   the server has gone, and nobody serves
  start  a server serves
  drain  another server serves, and the former one takes no new calls
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# In {bin}, the bazel-bin, or in {made}, where build_go_client() puts one.
CLIENTS = {
    "grpc++": "{bin}/tests/interop/client",
    "grpcio": "/usr/bin/python3 client.py",
    "grpc-js": "node client.js grpc-js",
    "grpc-js 1.9": "node client.js grpc-js-1.9",
    "grpc-go": "{made}/client",
    "grpc-go with a dialer": "{made}/client dialer",
}
ROWS = (
    "unary",
    "metadata",
    "status_with_details",
    "unknown_method",
    "largest_request",
    "too_long_request",
    "deadline",
    "cancelled",
    "compressed",
    "thousand_turns",
    "pour_held_up",
    "pour_cancelled",
    "early_status",
    "thousand_at_once",
    "deadlines_in_numbers",
    "long_metadata",
    "keepalive",
    "drained",
    "killed",
)
EMPTY = b"\0\0\0\0\0"  # A request without fields.
END_STREAM_AND_HEADERS = "0x05"  # Flags of a frame, as nghttp shows them.
PATIENCE = 120  # Seconds for all rows of a client.


class Servers:
    """The servers of one client; the last one listens."""

    def __init__(self, program, socket):
        self._program, self._socket, self._all = program, socket, []
        self.start()

    def start(self):
        server = subprocess.Popen([self._program, self._socket], stdout=subprocess.PIPE, text=True)
        self._all.append(server)
        if server.stdout.readline() != "ready\n":
            raise RuntimeError("the server does not start")

    def kill(self):
        self._all[-1].kill()
        self._all[-1].wait()

    def drain(self):
        former = self._all[-1]
        self.start()
        former.send_signal(signal.SIGTERM)

    def end(self):
        """Ends all, and returns whether those that drained have ended by themselves."""
        self._all[-1].terminate()
        try:
            return all([server.wait(timeout=10) in (0, -signal.SIGKILL) for server in self._all])
        except subprocess.TimeoutExpired:
            return False
        finally:
            for server in self._all:
                server.kill()


def outcomes_of(command, servers):
    """What the client says of each row."""
    client = subprocess.Popen(
        ["timeout", "--kill-after=1", str(PATIENCE), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    outcomes = {}
    for line in client.stdout:
        word, _, rest = line.strip().partition(" ")
        if word in ("kill", "start", "drain"):
            getattr(servers, word)()
            client.stdin.write("done\n")
            client.stdin.flush()
        elif word in ("passed", "failed"):
            row, _, why = rest.partition(": ")
            outcomes[row] = (word, why)
        else:
            print(line, end="")
    if client.wait() != 0:
        print(f"{command[0]} ended with {client.returncode}")
    return outcomes


def say(fine, name, row):
    print(f"{'passed' if fine else 'failed'} {name}: {row}", flush=True)
    return fine


def run(name, command, program):
    """Whether the client passes all rows."""
    with tempfile.TemporaryDirectory(prefix="rb.") as folder:
        socket = f"{folder}/echo.sock"
        servers = Servers(program, socket)
        outcomes = outcomes_of([*command, socket], servers)
        fine = True
        for row in ROWS:
            word, why = outcomes.pop(row, ("failed", "the client says nothing of it"))
            print(f"{why}\n" * bool(why), end="")
            fine &= say(word == "passed", name, row)
        for row in outcomes:
            fine = say(False, name, f"{row} is not among the rows")
        return say(servers.end(), name, "servers end with their last call") and fine


def load(program):
    """h2load."""
    with tempfile.TemporaryDirectory(prefix="rb.") as folder:
        socket, body = f"{folder}/echo.sock", f"{folder}/body"
        pathlib.Path(body).write_bytes(b"\0\0\0\0\5hello")
        servers = Servers(program, socket)
        command = ["h2load", "-n", "2000", "-c", "2", "-m", "32", "-B", f"unix:{socket}", "-d", body]
        command += ["-H", "content-type: application/grpc", "http://localhost/interop.Echo/Say"]
        shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
        fine = "2000 succeeded, 0 failed, 0 errored, 0 timeout" in shown and "2000 2xx" in shown
        print(shown * (not fine), end="")
        return say(servers.end() and fine, "h2load", "2,000 calls")


class Daemon:
    """rdma-brokerd with a TCP port, whose certificate is also that of its only client."""

    def __init__(self, program, folder):
        certificate, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        self.known = ["--cert", certificate, "--key", key]  # For nghttp.
        make = ["openssl", "req", "-config", "/dev/null", "-x509", "-newkey", "ec", "-pkeyopt"]
        make += ["ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=interop"]
        make += ["-addext", "subjectAltName=URI:spiffe://interop/one", "-keyout", key, "-out", certificate]
        subprocess.run(make, check=True, stderr=subprocess.DEVNULL)
        configuration = f"""
[control]
socket_directory = "{folder}"
socket_group = ""
[tcp]
address = "127.0.0.1:0"
certificate = "{certificate}"
private_key = "{key}"
client_authorities = "{certificate}"
inspectors = ["spiffe://interop/one"]
"""
        pathlib.Path(f"{folder}/broker.toml").write_text(configuration)
        command = [program, "--config", f"{folder}/broker.toml"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self._process.stdout:
            said.append(line)
            _, served, self.address = line.strip().partition("serving over tcp address=")
            if served:
                return
        raise RuntimeError(f"the daemon does not serve: {''.join(said)}")

    def end(self):
        self._process.terminate()
        self._process.communicate()


def nghttp(daemon, body, *options, method="ListAdapters"):
    """What nghttp shows of calls of a method of Inspection."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        command = ["nghttp", "-vny", "-t", str(PATIENCE), "-d", file.name, "-H", "content-type: application/grpc"]
        command += [*options, f"https://{daemon.address}/rdmabroker.v1.Inspection/{method}"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return ended.stdout + ended.stderr


def call_over_tls(daemon):
    """nghttp, with its certificate and without."""
    fine = True
    for row, options, answers in (("20 calls over TLS", daemon.known, 20), ("no call without a certificate", [], 0)):
        shown = nghttp(daemon, EMPTY, "-m", "20", *options)
        passed = shown.count("grpc-status: 0\n") == shown.count("grpc-status") == answers
        passed &= "The negotiated protocol: h2\n" in shown
        print(shown * (not passed), end="")
        fine &= say(passed, "nghttp", row)
    return fine


def request_of(octets):
    """A request of this length, at least 16384 + 5 octets: one field, which no message has."""
    length = octets - 5
    field = bytes((0xFA, 0x7F, length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14)) + bytes(length)
    return b"\0" + octets.to_bytes(4, "big") + field


def status_over_tls(daemon):
    """nghttp, whose calls end with a status each."""
    fine = True
    for row, method, body, options, status in (
        ("an unknown method", "Nothing", EMPTY, [], 12),
        ("a deadline", "Watch", EMPTY, ["-H", "grpc-timeout: 100m"], 4),
        ("metadata", "ListAdapters", EMPTY, ["-H", "key: value", "-H", "key-bin: AAEC"], 0),
        ("long metadata", "ListAdapters", EMPTY, ["-H", f"key: {'v' * 17000}"], 8),
        ("the largest request", "ListAdapters", request_of(65536), [], 0),
        ("a request that is too long", "ListAdapters", request_of(65537), [], 8),
    ):
        shown = nghttp(daemon, body, *daemon.known, *options, method=method)
        passed = re.findall(r"\) grpc-status: (\d+)\n", shown) == [str(status)]
        print(shown[-4000:] * (not passed), end="")
        fine &= say(passed, "nghttp", row)
    return fine


def refused_over_tls(daemon):
    """nghttp, whose calls are bad: each is answered by one block of headers, which ends it, and no data."""
    accepted = ["grpc-status: 12", "grpc-accept-encoding: identity"]
    fine = True
    for row, body, options, headers in (
        ("a length beyond the body", b"\0\0\0\0\5hi", [], ["grpc-status: 13"]),
        ("an unknown flag", b"\2\0\0\0\0", [], ["grpc-status: 13"]),
        ("a compressed call", EMPTY, ["-H", "grpc-encoding: gzip"], accepted),
    ):
        shown = nghttp(daemon, body, *daemon.known, *options)
        passed = all(f") {header}\n" in shown for header in [":status: 200", *headers])
        passed &= re.findall(r"recv (HEADERS|DATA) frame .*flags=(\w+)", shown) == [("HEADERS", END_STREAM_AND_HEADERS)]
        print(shown * (not passed), end="")
        fine &= say(passed, "nghttp", row)
    return fine


def with_daemon(program):
    """nghttp."""
    with tempfile.TemporaryDirectory(prefix="rb.") as folder:
        daemon = Daemon(program, folder)
        fine = call_over_tls(daemon) & status_over_tls(daemon) & refused_over_tls(daemon)
        daemon.end()
        return fine


def build_go_client(folder):
    go = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": f"{folder}/cache"}
    subprocess.run(["go", "build", "-o", f"{folder}/client", "client.go"], cwd=HERE, env=os.environ | go, check=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    programs = os.path.realpath(sys.argv[1])
    server = f"{programs}/tests/interop/echo_server"
    os.chdir(HERE)
    with tempfile.TemporaryDirectory(prefix="rb.") as made:
        build_go_client(made)
        fine = load(server) & with_daemon(f"{programs}/broker/rdma-brokerd")
        for name in sys.argv[2:] or CLIENTS:
            fine &= run(name, CLIENTS[name].format(bin=programs, made=made).split(), server)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
