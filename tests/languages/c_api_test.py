# SPDX-License-Identifier: Apache-2.0
"""The C interface as programs use it: what librdma_broker.so exports, a program by gcc, and Python's ctypes."""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

from processes import PATIENCE, ROOT, Broker, Program

sys.path.insert(0, str(ROOT / "client/examples/python"))
import c_api  # noqa: E402  The example's declarations.

GCC = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
INVALID_PARAMETER, NOT_FOUND, REFUSED, ABORTED = 0xC000000D, 0xC0000034, 0xC0000236, 0xC0000240
CONNECT, ADAPTER_DISABLED, SESSION_END = 3, 6, 7  # Kinds of events.


class CInterface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory(prefix="rb.")
        cls.addClassCleanup(cls._folder.cleanup)
        folder = pathlib.Path(cls._folder.name)
        # As a package installs it.
        (folder / "librdma_broker.so.1").symlink_to(f"{os.environ['BIN']}/client/c/librdma_broker.so")
        (folder / "librdma_broker.so").symlink_to("librdma_broker.so.1")
        cls.library_path = folder / "librdma_broker.so"
        cls.echo = folder / "echo"
        source = ROOT / "client/examples/c/echo.c"
        library = [f"-L{folder}", "-lrdma_broker", f"-Wl,-rpath,{folder}"]
        subprocess.run([*GCC, f"-I{ROOT}/client/c", source, "-o", cls.echo, *library], check=True)

    def setUp(self):
        self.broker = Broker(os.environ["BIN"])
        self.addCleanup(self.broker.end)

    def run_program(self, *command):
        program = Program(command)
        self.addCleanup(program.end)
        return program

    def serve(self):
        server = self.run_program(self.echo, "server", self.broker.socket, "iwarp0", "127.0.0.1:0")
        return server, server.line("listening on ")

    def expect_exchange(self, server, client):
        self.assertEqual(client.status(), 0, client.said)
        words = ["2048 bytes written, and read back", 'the server says "all bytes are there"', "closed"]
        self.assertEqual(client.said, words)
        self.assertEqual(server.status(), 0, server.said)
        self.assertEqual(server.said[1:], ['the client says "done"', "closed"])
        self.assertTrue(self.broker.becomes_empty())

    def test_exactly_the_functions_of_the_list_are_exported(self):
        command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", self.library_path]
        symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual(sorted(symbols), (ROOT / "client/c/symbols.txt").read_text(encoding="utf-8").split())

    def test_two_c_programs_exchange_bytes(self):
        server, address = self.serve()
        client = self.run_program(self.echo, "client", self.broker.socket, "iwarp0", "127.0.0.1:0", address)
        self.expect_exchange(server, client)

    def test_a_python_program_exchanges_bytes_with_a_c_program(self):
        server, address = self.serve()
        script = ROOT / "client/examples/python/c_api.py"
        arguments = [self.library_path, self.broker.socket, "iwarp0", "127.0.0.1:0", address]
        self.expect_exchange(server, self.run_program("/usr/bin/python3", script, *arguments))

    def expect_refusal(self, beginning, *command):
        client = self.run_program(*command, self.broker.socket, "iwarp0", "127.0.0.1:0", "127.0.0.1:1")
        self.assertRegex(client.line(beginning), r"^STATUS_CONNECTION_REFUSED: destination 127\.0\.0\.1:1")
        self.assertEqual(client.status(), 1)
        self.assertTrue(self.broker.becomes_empty())

    def test_a_failure_has_its_status_and_a_hint(self):
        self.expect_refusal("echo: connect: ", self.echo, "client")

    def test_a_failure_in_python_has_its_status_and_a_hint(self):
        script = ROOT / "client/examples/python/c_api.py"
        self.expect_refusal("c_api: connect: ", "/usr/bin/python3", script, self.library_path)

    def test_a_program_that_ends_without_closing_ends_well(self):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); import c_api; "
            "side = c_api.Side(c_api.Library(sys.argv[2]), sys.argv[3], 'iwarp0'); print('open')"
        )
        folder = ROOT / "client/examples/python"
        program = self.run_program("/usr/bin/python3", "-c", script, folder, self.library_path, self.broker.socket)
        self.assertEqual(program.status(), 0, program.said)
        self.assertEqual(program.said, ["open"])
        self.assertTrue(self.broker.becomes_empty())

    # What follows is this process's own.

    def open_side(self):
        return c_api.Side(c_api.Library(str(self.library_path)), str(self.broker.socket), "iwarp0")

    def next_event(self, side):
        event = c_api.Event()
        self.assertEqual(side.library.call("events_next", side.events, c_api.PATIENCE_MS, ctypes.byref(event)), 0)
        return event

    def test_a_closed_object_is_a_status_and_no_more(self):
        side = self.open_side()
        functions = side.library.functions
        side.close()
        sge = c_api.Sge(side.outgoing, 1, 0)
        self.assertEqual(functions["send"](side.pair, 0, ctypes.byref(sge), 1, 0), NOT_FOUND)
        self.assertEqual(functions["completion_queue_arm"](side.queue, 1), NOT_FOUND)
        self.assertEqual(functions["connector_create"](side.adapter, 1), NOT_FOUND)
        self.assertEqual(functions["adapter_open"](side.session, b"iwarp0", 0, 1), NOT_FOUND)
        self.assertEqual(functions["close"](side.session, 1), NOT_FOUND)
        self.assertTrue(self.broker.becomes_empty())

    def test_threads_that_post_while_another_closes_do_no_harm(self):
        side = self.open_side()
        functions = side.library.functions
        ended = []

        def post():
            sge = c_api.Sge(side.incoming, 1, side.token.value)
            status = 0
            while status != NOT_FOUND:
                status = functions["receive"](side.pair, 0, ctypes.byref(sge), 1)
                functions["completion_queue_arm"](side.queue, c_api.NOTIFY_ANY)
            ended.append(status)

        threads = [threading.Thread(target=post) for _ in range(4)]
        for thread in threads:
            thread.start()
        for handle in (side.queue, side.domain, side.adapter, side.region, side.pair):
            functions["close"](handle, 0)
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(ended, [NOT_FOUND] * 4)
        side.ask("close", side.session)
        self.assertTrue(self.broker.becomes_empty())

    def test_the_sessions_close_takes_its_objects_handles(self):
        side = self.open_side()
        connector = side.ask("connector_create", side.adapter)
        side.ask("close", side.session)
        functions = side.library.functions
        self.assertEqual(functions["close"](connector, 1), NOT_FOUND)
        self.assertEqual(functions["close"](side.adapter, 1), NOT_FOUND)
        # The data path's objects are still there, for whoever made them.
        sge = c_api.Sge(side.incoming, 1, side.token.value)
        self.assertEqual(functions["receive"](side.pair, 0, ctypes.byref(sge), 1), 0)
        for handle in (side.pair, side.region, side.queue, side.domain):
            side.ask("close", handle)
        self.assertTrue(self.broker.becomes_empty())

    def test_what_an_administrator_does_comes_as_events(self):
        side = self.open_side()
        self.broker.ctl("disable-adapter", "iwarp0", check=False)  # It fails, as the adapter is still open.
        disabled = self.next_event(side)
        self.assertEqual((disabled.kind, disabled.source), (ADAPTER_DISABLED, side.adapter))
        self.broker.ctl("end-session", self.broker.rows("sessions")[0][0])
        ended = self.next_event(side)
        self.assertEqual((ended.kind, ended.source, ended.status), (SESSION_END, side.session, ABORTED))
        self.assertEqual(side.library.functions["connector_create"](side.adapter, 1), ABORTED)
        side.close()
        self.assertTrue(self.broker.becomes_empty())

    def test_a_peer_that_is_turned_away_learns_the_words(self):
        side = self.open_side()
        listen = self.function("listen", ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)
        create = self.function("listener_create", ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
        reject = self.function("reject", ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
        get_address = self.function("get_local_address", ctypes.c_uint64, ctypes.c_char_p)
        self.assertEqual(create(side.adapter, 77, 1), c_api.PENDING)
        listener = self.next_event(side).object
        self.assertEqual(listen(listener, b"somewhere", 2), INVALID_PARAMETER)
        self.assertEqual(listen(listener, b"127.0.0.1:0", 2), c_api.PENDING)
        self.assertEqual(self.next_event(side).status, 0)
        address = ctypes.create_string_buffer(64)
        self.assertEqual(get_address(listener, address), 0)

        connector = side.ask("connector_create", side.adapter)
        parameters = c_api.ConnectParameters(source=b"127.0.0.1:0", destination=address.value)
        side.library.call("connect", connector, side.pair, ctypes.byref(parameters), 99)
        arrived = self.next_event(side)
        self.assertEqual((arrived.kind, arrived.context, arrived.source), (CONNECT, 77, listener))
        self.assertEqual(reject(arrived.object, b"not you", 7, 3), c_api.PENDING)
        ends = {event.context: event for event in (self.next_event(side), self.next_event(side))}
        self.assertEqual(ends[3].status, 0)
        self.assertEqual(ends[99].status, REFUSED)
        self.assertTrue(ends[99].flags & 1, "a refusal can be tried again")
        data = ctypes.create_string_buffer(16 + 2 * 64 + 8 + 1024)
        ctypes.memmove(data, len(data).to_bytes(4, sys.byteorder), 4)
        get_data = self.function("get_connection_data", ctypes.c_uint64, ctypes.c_char_p)
        self.assertEqual(get_data(connector, data), 0)
        self.assertEqual(data.raw[16 + 2 * 64 + 8 :][:7], b"not you")
        side.ask("close", side.session)
        for handle in (side.pair, side.region, side.queue, side.domain):
            side.ask("close", handle)
        self.assertTrue(self.broker.becomes_empty())

    def function(self, name, *arguments):
        function = getattr(ctypes.CDLL(str(self.library_path)), f"rdma_broker_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_uint32
        return function
