# SPDX-License-Identifier: Apache-2.0
"""Moves bytes from Python, by librdma_broker.so and ctypes: the client of ../c/echo.c. Needs no gRPC.

    c_api.py LIBRARY SOCKET DEVICE SOURCE SERVER

ctypes lets other threads run while a call waits, so that one may wait in each thread; asyncio would watch the events'
descriptor instead.
"""

import collections
import ctypes
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

SUCCESS, PENDING = 0, 0x103
PATIENCE_MS = 30_000
MESSAGE_SIZE, SHARED_SIZE = 128, 2048
LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, READ_SINK = 1, 2, 5, 8
NOTIFY_ANY = 1
RECEIVE, SEND, READ, WRITE = 1, 2, 32, 64  # Types of results.


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class Event(Sized):
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_uint32),
        ("context", c_uint64),
        ("source", c_uint64),
        ("object", c_uint64),
        ("status", c_uint32),
        ("provider_error", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("hint", c_char * 1032),
    ]


class SessionOptions(Sized):
    _fields_ = [
        ("size", c_uint32),
        ("open_timeout_ms", c_uint32),
        ("control_socket", c_char_p),
        ("context", c_uint64),
    ]


class QueuePairAttributes(Sized):
    _fields_ = [
        ("size", c_uint32),
        ("receive_queue_depth", c_uint32),
        ("initiator_queue_depth", c_uint32),
        ("max_receive_request_sge", c_uint32),
        ("max_initiator_request_sge", c_uint32),
        ("inline_data_size", c_uint32),
        ("receive_cq", c_uint64),
        ("initiator_cq", c_uint64),
        ("context", c_uint64),
        ("keepalive_seconds", c_uint32),
        ("reserved", c_uint32),
    ]


class ConnectParameters(Sized):
    _fields_ = [
        ("size", c_uint32),
        ("inbound_reads", c_uint32),
        ("outbound_reads", c_uint32),
        ("private_data_length", c_uint32),
        ("private_data", c_void_p),
        ("source", c_char_p),
        ("shared_endpoint", c_uint64),
        ("destination", c_char_p),
        ("options", c_void_p),
    ]


class Sge(ctypes.Structure):
    _fields_ = [("address", c_void_p), ("length", c_uint32), ("token", c_uint32)]


class Result(ctypes.Structure):
    _fields_ = [
        ("request_context", c_uint64),
        ("queue_pair_context", c_uint64),
        ("status", c_uint32),
        ("type", c_uint32),
        ("bytes_transferred", c_uint32),
        ("provider_error", c_uint32),
    ]


FUNCTIONS = {
    "events_create": [POINTER(c_uint64)],
    "events_next": [c_uint64, c_int, POINTER(Event)],
    "events_await": [c_uint64, c_uint64, c_int, POINTER(Event)],
    "close": [c_uint64, c_uint64],
    "session_open": [POINTER(SessionOptions), c_uint64, POINTER(c_uint64), POINTER(Event)],
    "adapter_open": [c_uint64, c_char_p, c_uint64, c_uint64],
    "domain_create": [c_uint64, POINTER(c_uint64)],
    "completion_queue_create": [c_uint64, c_uint32, c_uint64, c_uint64, POINTER(c_uint64)],
    "completion_queue_arm": [c_uint64, c_uint32],
    "completion_queue_take": [c_uint64, POINTER(Result), POINTER(c_uint32)],
    "memory_register": [c_uint64, c_void_p, c_size_t, c_uint32, *[POINTER(t) for t in (c_uint64, c_uint32, c_uint32)]],
    "queue_pair_create": [c_uint64, POINTER(QueuePairAttributes), POINTER(c_uint64)],
    "connector_create": [c_uint64, c_uint64],
    "connect": [c_uint64, c_uint64, POINTER(ConnectParameters), c_uint64],
    "complete_connect": [c_uint64, c_uint64, c_uint64],
    "disconnect": [c_uint64, c_uint64],
    "send": [c_uint64, c_uint64, POINTER(Sge), c_uint32, c_uint32],
    "receive": [c_uint64, c_uint64, POINTER(Sge), c_uint32],
    "read": [c_uint64, c_uint64, POINTER(Sge), c_uint32, c_uint64, c_uint32, c_uint32],
    "write": [c_uint64, c_uint64, POINTER(Sge), c_uint32, c_uint64, c_uint32, c_uint32],
}


class BrokerError(Exception):
    pass


class Library:
    """The functions, whose failures become exceptions."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self._name = library.rdma_broker_status_name
        self._name.argtypes, self._name.restype = [c_uint32], c_char_p
        self._hint = library.rdma_broker_last_hint
        self._hint.argtypes, self._hint.restype = [], c_char_p
        self.functions = {}
        for name, arguments in FUNCTIONS.items():
            function = getattr(library, f"rdma_broker_{name}")
            function.argtypes, function.restype = arguments, c_uint32
            self.functions[name] = function

    def error(self, what, status, hint=None):
        """Of a call that was refused at once, unless there is a hint."""
        hint = self._hint() if hint is None else hint
        return BrokerError(f"{what}: {self._name(status).decode()}: {hint.decode()}")

    def call(self, name, *arguments):
        status = self.functions[name](*arguments)
        if status not in (SUCCESS, PENDING):
            raise self.error(name, status)
        return status

    def make(self, name, *arguments):
        """Calls a function that gives a handle last."""
        made = c_uint64()
        self.call(name, *arguments, byref(made))
        return made.value


class Side:
    """What one side of a connection has."""

    def __init__(self, library, socket, device):
        self.library = library
        self.contexts = 0
        self.results = collections.Counter()  # By type, those that have come but not been expected yet.
        self.events = library.make("events_create")
        self.completions = library.make("events_create")
        self.session = self._open_session(socket)
        self.adapter = self.ask("adapter_open", self.session, device.encode(), 0)
        self.domain = library.make("domain_create", self.adapter)
        self.queue = library.make("completion_queue_create", self.adapter, 8, self.completions, 0)
        # The buffer must stay where it is, and stay, until the region is closed: bytes or bytearray would not do.
        self.memory = (c_char * (2 * MESSAGE_SIZE + SHARED_SIZE))()
        self.outgoing = ctypes.addressof(self.memory)
        self.incoming = self.outgoing + MESSAGE_SIZE
        self.shared = self.incoming + MESSAGE_SIZE
        region, self.token = c_uint64(), c_uint32()
        rights = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE | READ_SINK
        size = ctypes.sizeof(self.memory)
        tokens = (byref(self.token), None)  # The peer has no use for the remote one.
        library.call("memory_register", self.domain, self.outgoing, size, rights, byref(region), *tokens)
        self.region = region.value
        attributes = QueuePairAttributes(
            receive_queue_depth=4,
            initiator_queue_depth=4,
            receive_cq=self.queue,
            initiator_cq=self.queue,
            keepalive_seconds=30,
        )
        self.pair = library.make("queue_pair_create", self.domain, byref(attributes))

    def _open_session(self, socket):
        session, failure = c_uint64(), Event()
        options = SessionOptions(control_socket=socket.encode())
        open_session = self.library.functions["session_open"]
        status = open_session(byref(options), self.events, byref(session), byref(failure))
        if status != SUCCESS:
            raise self.library.error("session_open", status, failure.hint)
        return session.value

    def ask(self, name, *arguments):
        """Makes a request, whose last argument is its context, and waits for its end: the handle of what it made."""
        self.contexts += 1
        event = Event()
        if self.library.call(name, *arguments, self.contexts) == PENDING:
            self.library.call("events_await", self.events, self.contexts, PATIENCE_MS, byref(event))
            if event.status != SUCCESS:
                raise self.library.error(name, event.status, event.hint)
        return event.object

    def post(self, name, address, length, *more):
        """Posts a request of one piece of the memory."""
        sge = Sge(address, length, self.token.value)
        self.library.call(name, self.pair, 0, byref(sge), 1, *more)

    def expect(self, kind):
        """Waits for a result of the type. Those of receives may come before those of sends that were posted earlier."""
        while not self.results[kind]:
            self.results[self._next_result().type] += 1
        self.results[kind] -= 1

    def _next_result(self):
        result, count, event = Result(), c_uint32(1), Event()
        self.library.call("completion_queue_take", self.queue, byref(result), byref(count))
        while count.value == 0:
            self.library.call("completion_queue_arm", self.queue, NOTIFY_ANY)
            if self.library.call("events_next", self.completions, PATIENCE_MS, byref(event)) != SUCCESS:
                raise BrokerError("no result has come")
            count.value = 1
            self.library.call("completion_queue_take", self.queue, byref(result), byref(count))
        if result.status != SUCCESS:
            raise self.library.error(f"result of type {result.type}", result.status, b"the connection is lost")
        return result

    def close(self):
        for handle in (self.pair, self.region, self.queue, self.domain, self.adapter, self.session):
            self.ask("close", handle)
        for queue in (self.completions, self.events):
            self.library.call("close", queue, 0)


def text_at(address):
    """A message's. Its end is the peer's to say, and may be missing."""
    return ctypes.string_at(address, MESSAGE_SIZE).partition(b"\0")[0].decode(errors="replace")


def run(side, source, server):
    connector = side.ask("connector_create", side.adapter)
    try:
        exchange(side, connector, source, server)
    finally:
        # Also where it has failed, as the pair's close waits for its connector's.
        side.ask("close", connector)


def exchange(side, connector, source, server):
    side.post("receive", side.incoming, MESSAGE_SIZE)
    parameters = ConnectParameters(source=source.encode(), destination=server.encode(), outbound_reads=1)
    side.ask("connect", connector, side.pair, byref(parameters))
    side.ask("complete_connect", connector, 0)
    side.expect(RECEIVE)
    address, token = (int(word, 16) for word in text_at(side.incoming).split())

    pattern = bytes((i * 7 + 1) % 256 for i in range(SHARED_SIZE))
    ctypes.memmove(side.shared, pattern, SHARED_SIZE)
    side.post("write", side.shared, SHARED_SIZE, address, token, 0)
    side.expect(WRITE)
    ctypes.memset(side.shared, 0, SHARED_SIZE)
    side.post("read", side.shared, SHARED_SIZE, address, token, 0)
    side.expect(READ)
    read_back = ctypes.string_at(side.shared, SHARED_SIZE) == pattern
    print(f"{SHARED_SIZE} bytes written, and {'read back' if read_back else 'not read back'}")

    side.post("receive", side.incoming, MESSAGE_SIZE)
    ctypes.memmove(side.outgoing, b"done\0", 5)
    side.post("send", side.outgoing, 5, 0)
    side.expect(SEND)
    side.expect(RECEIVE)
    print(f'the server says "{text_at(side.incoming)}"')
    side.ask("disconnect", connector)


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    path, socket, device, source, server = sys.argv[1:]
    side = Side(Library(path), socket, device)
    try:
        run(side, source, server)
    finally:
        # Before its memory goes, which the peer may write to until then.
        side.close()
    print("closed")


if __name__ == "__main__":
    try:
        main()
    except BrokerError as error:
        sys.exit(f"c_api: {error}")
