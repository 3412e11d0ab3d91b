# SPDX-License-Identifier: Apache-2.0
"""Names in Debian's etcd: a server of the examples has one, and its clients find it, for as long as it lives."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from processes import PATIENCE, Broker, Program


# Registers a name, resolves it, closes it and resolves it again.
C_NAMES = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.rdma_broker_status_name.restype = ctypes.c_char_p
handle, text, count = ctypes.c_uint64(), ctypes.create_string_buffer(64), ctypes.c_uint32(1)
name = b"rdma-broker://storage"
def say(status):
    print(library.rdma_broker_status_name(status).decode())
say(library.rdma_broker_register_name(name, b"127.0.0.1:4420", 0, 0, ctypes.byref(handle), None))
say(library.rdma_broker_resolve_name(name, 0, text, ctypes.byref(count), None, None))
print(text.value.decode())
library.rdma_broker_close(handle, ctypes.c_uint64(0))
say(library.rdma_broker_resolve_name(name, 0, text, ctypes.byref(count), None, None))
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class EtcdEnded(AssertionError):
    pass


class Etcd:
    """A server with a folder of its own, over TLS with the one authority that there is. It keeps its ports when it is
    started again."""

    def __init__(self, folder, tls=False, asks_for_certificates=False):
        self._folder, self._log = folder, folder / "log"
        self._scheme = "https" if tls else "http"
        self.certificate, self._key = folder / "certificate.pem", folder / "key.pem"
        self.client_certificate, self.client_key = folder / "client.pem", folder / "client_key.pem"
        self._etcdctl = dict(os.environ, ETCDCTL_API="3")
        self._options = []
        if tls:
            self._certify(self.certificate, self._key, "-addext", "subjectAltName=IP:127.0.0.1")
            self._options += ["--cert-file", str(self.certificate), "--key-file", str(self._key)]
            self._etcdctl["ETCDCTL_CACERT"] = str(self.certificate)
        if asks_for_certificates:
            self._certify(self.client_certificate, self.client_key, "-CA", self.certificate, "-CAkey", self._key)
            self._options += ["--client-cert-auth", "--trusted-ca-file", str(self.certificate)]
            self._etcdctl |= {"ETCDCTL_CERT": str(self.client_certificate), "ETCDCTL_KEY": str(self.client_key)}
        for last in (False, False, False, False, True):
            self._choose_ports()
            try:
                self.start()
                break
            except EtcdEnded:  # Somebody may have taken a port meanwhile.
                if last:
                    raise

    def _choose_ports(self):
        self._client = f"{self._scheme}://127.0.0.1:{free_port()}"
        self.source = self._client.replace("http", "etcd")
        peer = f"http://127.0.0.1:{free_port()}"
        self._command = ["etcd", "--data-dir", str(self._folder / "data"), "--log-level", "error", *self._options]
        self._command += ["--listen-client-urls", self._client, "--advertise-client-urls", self._client]
        self._command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self._command += ["--initial-cluster", f"default={peer}"]
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    @staticmethod
    def _certify(certificate, key, *options):
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={certificate.stem}"]
        make += ["-days", "1", "-keyout", key, "-out", certificate, *options]
        subprocess.run(make, check=True, capture_output=True)

    def start(self):
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self.keys():
            if self._process.poll() is not None:
                raise EtcdEnded(self._log.read_text(encoding="utf-8"))
            if time.monotonic() > deadline:
                raise AssertionError(f"etcd does not answer: {self._log.read_text(encoding='utf-8')}")
            time.sleep(0.1)

    def etcdctl(self, *words):
        command = ["etcdctl", f"--endpoints={self._client}", *words]
        return subprocess.run(command, capture_output=True, text=True, env=self._etcdctl, check=False, timeout=PATIENCE)

    def keys(self):
        """Whether it answers; all keys, in a line each, or an empty one."""
        asked = self.etcdctl("get", "", "--prefix", "--keys-only")
        return asked.stdout + "\n" if asked.returncode == 0 else ""

    def lease(self):
        """The only one's id."""
        (lease,) = self.etcdctl("lease", "list").stdout.split("\n")[1:-1]
        return lease

    def seconds_left(self):
        said = self.etcdctl("lease", "timetolive", self.lease()).stdout
        return int(re.search(r"remaining\((\d+)s\)", said)[1])

    def end(self):
        self._process.kill()
        self._process.wait()


class Names(unittest.TestCase):
    def setUp(self):
        self.broker = Broker(os.environ["BIN"])
        self.addCleanup(self.broker.end)
        self.etcd = self.start_etcd()

    def start_etcd(self, **options):
        folder = tempfile.TemporaryDirectory(prefix="rb.")
        self.addCleanup(folder.cleanup)
        etcd = Etcd(pathlib.Path(folder.name), **options)
        self.addCleanup(etcd.end)
        return etcd

    def example(self, role, *options, source=None, authority="", certificate="", key=""):
        program = pathlib.Path(os.environ["BIN"]) / "client/examples/request_reply"
        environment = dict(os.environ, RDMA_BROKER_NAMES=source or self.etcd.source, RDMA_BROKER_NAMES_CA=authority)
        environment |= {"RDMA_BROKER_NAMES_CERT": certificate, "RDMA_BROKER_NAMES_KEY": key}
        command = [program, role, "--socket", self.broker.socket, *options]
        started = Program(command, env=environment)
        self.addCleanup(started.end)
        return started

    def serve(self, **options):
        server = self.example("server", "--name", "rdma-broker://storage", "--count", 1, **options)
        return server, server.line("server: listening on ")

    def expect_served(self, **options):
        client = self.example("client", "--server", "rdma-broker://storage", **options)
        self.assertEqual(client.status(), 0, client.said)

    def client_says(self, **options):
        client = self.example("client", "--server", "rdma-broker://storage", **options)
        self.assertEqual(client.status(), 1, client.said)
        return " ".join(client.said)

    def await_gone(self):
        deadline = time.monotonic() + PATIENCE
        while self.etcd.keys().strip():
            self.assertLess(time.monotonic(), deadline, self.etcd.keys())
            time.sleep(0.1)

    def test_a_name_by_the_c_interface_is_there_until_its_close(self):
        library = f"{os.environ['BIN']}/client/c/librdma_broker.so"
        with unittest.mock.patch.dict(os.environ, RDMA_BROKER_NAMES=self.etcd.source):
            said = subprocess.run([sys.executable, "-c", C_NAMES, library], capture_output=True, text=True, check=True)
        expected = ["STATUS_SUCCESS", "STATUS_SUCCESS", "127.0.0.1:4420", "STATUS_OBJECT_NAME_NOT_FOUND"]
        self.assertEqual(said.stdout.split(), expected)

    def test_a_client_finds_a_server_by_its_name(self):
        server, address = self.serve()
        self.assertEqual(self.etcd.keys().split(), [f"rdma-broker/storage/{address}"])
        self.expect_served()
        self.assertEqual(server.status(), 0, server.said)
        self.assertEqual(self.etcd.keys().strip(), "")
        self.assertIn("STATUS_OBJECT_NAME_NOT_FOUND", self.client_says())

    def test_the_name_vanishes_when_its_server_dies(self):
        server, _ = self.serve()
        server.signal(signal.SIGKILL)
        server.status()
        self.await_gone()

    def test_the_lease_of_a_server_that_lives_is_renewed(self):
        self.serve()
        before = left = self.etcd.seconds_left()
        deadline = time.monotonic() + PATIENCE
        while left <= before:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
            before, left = left, self.etcd.seconds_left()

    def test_the_name_comes_back_when_etcd_has_lost_it(self):
        server, address = self.serve()
        self.etcd.etcdctl("lease", "revoke", self.etcd.lease())
        self.assertEqual(self.etcd.keys().strip(), "")
        deadline = time.monotonic() + PATIENCE
        while self.etcd.keys().split() != [f"rdma-broker/storage/{address}"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.expect_served()
        self.assertEqual(server.status(), 0, server.said)

    def test_the_next_of_etcds_servers_answers_where_one_does_not(self):
        self.serve()
        with socket.socket() as deaf:  # Bound, so that nobody else listens there.
            deaf.bind(("127.0.0.1", 0))
            dead = f"127.0.0.1:{deaf.getsockname()[1]}"
            self.expect_served(source=f"etcd://{dead},{self.etcd.source.removeprefix('etcd://')}")

    def test_only_an_etcd_with_a_certificate_of_the_authoritys_is_believed(self):
        etcd = self.start_etcd(tls=True)
        self.serve(source=etcd.source, authority=etcd.certificate)
        self.assertRegex(self.client_says(source=etcd.source), "STATUS_(HOST_UNREACHABLE|IO_TIMEOUT)")
        self.assertIn("cannot be read", self.client_says(source=etcd.source, authority="/nowhere.pem"))
        self.expect_served(source=etcd.source, authority=etcd.certificate)

    def test_an_etcd_that_asks_for_certificates_serves_those_who_have_one(self):
        etcd = self.start_etcd(tls=True, asks_for_certificates=True)
        nobody = {"source": etcd.source, "authority": etcd.certificate}
        somebody = nobody | {"certificate": etcd.client_certificate, "key": etcd.client_key}
        self.serve(**somebody)
        self.assertRegex(self.client_says(**nobody), "STATUS_(HOST_UNREACHABLE|IO_TIMEOUT)")
        for missing in "certificate", "key":
            self.assertIn("cannot be read", self.client_says(**somebody | {missing: "/nowhere.pem"}))
            self.assertIn("or neither", self.client_says(**somebody | {missing: ""}))
        self.expect_served(**somebody)

    def test_values_that_are_no_addresses_are_left_out(self):
        for index, value in enumerate(("", "0.0.0.0:1", "127.0.0.1", "x" * 10_000, "127.0.0.1:70000")):
            self.etcd.etcdctl("put", f"rdma-broker/storage/{index}", "--", value)
        self.assertIn("STATUS_UNSUCCESSFUL", self.client_says())
        self.serve()
        self.expect_served()

    def test_what_etcd_does_not_answer_is_an_error_in_time(self):
        self.etcd.end()
        begun = time.monotonic()
        self.assertRegex(self.client_says(), "STATUS_(HOST_UNREACHABLE|IO_TIMEOUT)")
        self.assertLess(time.monotonic() - begun, PATIENCE / 2)

    def test_an_answer_that_is_too_large_is_refused(self):
        for index in range(8):
            self.etcd.etcdctl("put", f"rdma-broker/storage/{index}", "x" * 20_000)
        self.assertIn("STATUS_UNSUCCESSFUL", self.client_says())
