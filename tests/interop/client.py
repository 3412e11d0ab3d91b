#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: client.py SOCKET
The rows of interop.py by python3-grpcio."""

import queue
import sys
import time

import grpc

SOCKET = sys.argv[1]
OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
]
Code = grpc.StatusCode


def connect(*options, **kwargs):
    return grpc.insecure_channel(f"unix:{SOCKET}", options=[*OPTIONS, *options], **kwargs)


CHANNEL = connect()


def unary(method, channel=CHANNEL):
    return channel.unary_unary(f"/interop.Echo/{method}")


def chat(requests, channel=CHANNEL, **kwargs):
    return channel.stream_stream("/interop.Echo/Chat")(requests, **kwargs)


def pour(count, size):
    return CHANNEL.unary_stream("/interop.Echo/Pour")(b"%d %d" % (count, size))


def code_of(call):
    try:
        call()
        return Code.OK
    except grpc.RpcError as error:
        return error.code()


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def ask_driver(what):
    print(what, flush=True)
    sys.stdin.readline()


def row_unary():
    expect(unary("Say")(b"hello"), b"hello")
    expect(unary("Say")(b""), b"")


def row_metadata():
    sent = (("key", "a value"), ("key-bin", b"\0\xff"))
    expect(unary("Metadata")(b"", metadata=sent), b"a value,\0\xff")


def row_status_with_details():
    try:
        unary("Fail")(b"\0\xff\1")
    except grpc.RpcError as error:
        expect(error.code(), Code.ABORTED)
        expect(error.details(), "über 100 % ✓")
        expect(dict(error.trailing_metadata())["grpc-status-details-bin"], b"\0\xff\1")
    else:
        raise AssertionError("it did not fail")


def row_unknown_method():
    expect(code_of(lambda: unary("Nothing")(b"")), Code.UNIMPLEMENTED)


def row_largest_request():
    request = b"x" * 65536
    expect(unary("Say")(request), request)


def row_too_long_request():
    for size in (65537, 70000, 4000000):
        expect(code_of(lambda: unary("Say")(b"x" * size)), Code.RESOURCE_EXHAUSTED)
    row_unary()


def row_deadline():
    expect(code_of(lambda: unary("Wait")(b"", timeout=0.2)), Code.DEADLINE_EXCEEDED)


def lost():
    return int(unary("Lost")(b""))


def row_cancelled():
    before = lost()
    call = unary("Wait").future(b"")
    row_unary()  # The server has it.
    call.cancel()
    while lost() == before:
        pass


def row_compressed():
    with connect(compression=grpc.Compression.Gzip) as channel:
        expect(code_of(lambda: unary("Say", channel)(b"x" * 1000)), Code.UNIMPLEMENTED)


def row_thousand_turns():
    requests = queue.Queue()
    replies = chat(iter(requests.get, None))
    for turn in range(1000):
        requests.put(b"%d" % turn)
        expect(next(replies), b"%d" % turn)
    requests.put(None)
    expect(list(replies), [])
    expect(replies.code(), Code.OK)


def row_pour_held_up():
    replies = 0
    for reply in pour(1000, 30000):
        expect(len(reply), 30000)
        replies += 1
        if replies == 10:
            row_unary()  # Others are served while nobody reads.
    expect(replies, 1000)


def row_pour_cancelled():
    before = lost()
    call = pour(1000000, 30000)
    next(call)
    call.cancel()
    while lost() == before:
        pass


def row_early_status():
    for _ in range(300):
        requests = queue.Queue()
        call = chat(iter(requests.get, None))
        requests.put(b"stop")
        expect(code_of(lambda: list(call)), Code.FAILED_PRECONDITION)
        requests.put(None)


def row_thousand_at_once():
    calls = [unary("Say").future(b"x" * 30000) for _ in range(1000)]
    for call in calls:
        expect(len(call.result()), 30000)


def row_deadlines_in_numbers():
    for _ in range(20):
        calls = [unary("Wait").future(b"", timeout=0.03) for _ in range(100)]
        for call in calls:
            expect(code_of(call.result), Code.DEADLINE_EXCEEDED)
    row_unary()


def row_long_metadata():
    long = (("key", "v" * 20000),)
    expect(code_of(lambda: unary("Say")(b"", metadata=long)), Code.RESOURCE_EXHAUSTED)
    row_unary()


def row_keepalive():
    options = (
        ("grpc.keepalive_time_ms", 1000),
        ("grpc.keepalive_timeout_ms", 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )
    with connect(*options) as channel:
        requests = queue.Queue()
        replies = chat(iter(requests.get, None), channel)
        time.sleep(4)  # Pings of four seconds.
        requests.put(b"still here")
        expect(next(replies), b"still here")
        requests.put(None)


def row_drained():
    requests = queue.Queue()
    replies = chat(iter(requests.get, None))
    requests.put(b"before")
    expect(next(replies), b"before")
    ask_driver("drain")
    requests.put(b"after")
    expect(next(replies), b"after")
    expect(unary("Say")(b"at the next one", wait_for_ready=True), b"at the next one")
    requests.put(None)
    expect(list(replies), [])
    expect(replies.code(), Code.OK)


def row_killed():
    call = unary("Wait").future(b"")
    row_unary()
    ask_driver("kill")
    expect(code_of(call.result), Code.UNAVAILABLE)
    waiting = unary("Say").future(b"later", wait_for_ready=True)
    ask_driver("start")
    expect(waiting.result(), b"later")


def main():
    for name, row in list(globals().items()):
        if not name.startswith("row_"):
            continue
        try:
            row()
            print(f"passed {name.removeprefix('row_')}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            print(f"failed {name.removeprefix('row_')}: {' '.join(str(error).split())}", flush=True)


if __name__ == "__main__":
    main()
