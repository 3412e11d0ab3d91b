# SPDX-License-Identifier: Apache-2.0
"""A session with rdma-brokerd, kept as proto/rdmabroker/v1/broker.proto asks its clients to.

The modules `proto.rdmabroker.v1` are what protoc makes of the contract; the folder's `generate` calls it.
"""

import collections
import concurrent.futures
import itertools
import os
import queue
import random
import threading
import time

import google.protobuf.message
import grpc

from proto.rdmabroker.v1 import (
    broker_pb2_grpc,
    inspection_pb2,
    inspection_pb2_grpc,
    ndk_status_pb2,
    outcome_pb2,
    rpc_status_pb2,
    session_pb2,
)

DEFAULT_SOCKET = "/run/rdma-broker/control.sock"
API_MINOR = 1  # Of the contract that this was written against.
OPEN_TIMEOUT = 10.0  # Seconds that a broker may take to come up.
FIRST_RETURN, LONGEST_RETURN = 0.05, 1.0  # Seconds between attempts to reach it again.
DETAILS = "grpc-status-details-bin"
CLOSE = session_pb2.SessionRequest(close=session_pb2.CloseSession())
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # Requests count only on the connection that carries the stream.
    ("grpc.enable_retries", 0),  # Request ids are for that.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 500),
)


def status_name(number):
    """The status's name; a negative one that is newer than this program counts as STATUS_UNSUCCESSFUL."""
    known = number in ndk_status_pb2.NdkStatus.values()
    return ndk_status_pb2.NdkStatus.Name(number if known else ndk_status_pb2.STATUS_UNSUCCESSFUL)


def outcome_of(error):
    """The Outcome that a failed RPC carries; None where the broker's logic did not speak: the RPC may be repeated."""
    details = dict(error.trailing_metadata() or ()).get(DETAILS, b"")
    outcome = outcome_pb2.Outcome()
    try:
        found = [detail for detail in rpc_status_pb2.RpcStatus.FromString(details).details if detail.Unpack(outcome)]
    except google.protobuf.message.DecodeError:
        return None
    return outcome if found else None


def broker_is_away(error):
    """Whether an RPC or a stream failed as there was nobody to speak; the broker may be back soon."""
    return outcome_of(error) is None and error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def back_off(attempt):
    """Doubles from attempt to attempt, with up to as much again at random, so that clients do not return together."""
    delay = min(FIRST_RETURN * 2 ** min(attempt, 20), LONGEST_RETURN)
    return delay * (1 + random.random())


class BrokerError(Exception):
    """What a request or a session ended with. `outcome.retryable` says whether the same may just be tried again."""

    def __init__(self, outcome):
        super().__init__(f"{status_name(outcome.status)}: {outcome.hint}")
        self.outcome = outcome

    @classmethod
    def of(cls, rpc_error):
        """Of an RPC or a stream that has failed for good."""
        hint = f"{rpc_error.code().name}: {rpc_error.details()}"
        return cls(outcome_of(rpc_error) or unsuccessful(hint))


def unsuccessful(hint):
    return outcome_pb2.Outcome(status=ndk_status_pb2.STATUS_UNSUCCESSFUL, hint=hint)


class Session:
    """Opened by the constructor, which waits for the broker; closed, with all that it has, by `close` or `with`.

    `request` may be called by any thread; `events` is one consumer's. A thread of the session's own reads the stream,
    and brings the session back where the broker restarts: requests wait meanwhile, and are repeated under their ids.
    """

    def __init__(self, socket=None):
        socket = socket or os.environ.get("RDMA_BROKER_SOCKET") or DEFAULT_SOCKET
        self._channel = grpc.insecure_channel("unix:" + socket, CHANNEL_OPTIONS)
        self._broker = broker_pb2_grpc.BrokerStub(self._channel)
        self._inspection = inspection_pb2_grpc.InspectionStub(self._channel)
        self._lock = threading.Lock()
        self._next_request = 1
        self._unanswered = set()  # The ids of requests of which no reply has come.
        self._answered = threading.Condition(self._lock)
        self._outcomes = {}  # Of requests by id; an OutcomeEvent may come before its request's reply.
        self._received = 0  # The number of the last event.
        self._undealt = collections.deque()  # The numbers of those that the consumer has not dealt with.
        self._events = queue.SimpleQueue()
        self._outgoing = None  # What the stream sends.
        self._opened = None  # With the secret: never printed.
        self._present = threading.Condition(self._lock)
        self._is_present = False
        self._end = None  # The BrokerError that the session has ended with, where nobody closed it.
        self._closing = False
        self._over = False
        self._thread = threading.Thread(target=self._keep, name="rdma-broker session", daemon=True)
        self._thread.start()
        try:
            self._await_presence()
        except BrokerError:
            self._channel.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def limits(self):
        return self._opened.limits

    def list_adapters(self):
        """The devices that this user may open; or BrokerError, as policies bound how often one may look, too."""
        self._await_presence()
        return self._repeat(lambda: self._inspection.ListAdapters(inspection_pb2.ListAdaptersRequest())).devices

    def request(self, rpc, message):
        """Makes a request by the name of its RPC, without a header, and returns its final Outcome; or BrokerError."""
        self._await_presence()
        request_id, pending = self._begin_request()
        try:
            try:
                message.header.session_id = self._opened.session_id
                message.header.request_id = request_id
                outcome = self._reply(getattr(self._broker, rpc), message)
            finally:
                with self._answered:
                    self._unanswered.remove(request_id)
                    self._answered.notify_all()
            if outcome.status == ndk_status_pb2.STATUS_PENDING:
                outcome = pending.result()
        finally:
            with self._lock:
                self._outcomes.pop(request_id)
        if outcome.status != ndk_status_pb2.STATUS_SUCCESS:
            raise BrokerError(outcome)
        return outcome

    def _begin_request(self):
        """The next id, when the oldest request without a reply is no further behind than the broker's answers reach."""
        with self._answered:
            kept = self.limits.answers_kept
            self._answered.wait_for(
                lambda: self._over or not self._unanswered or self._next_request - min(self._unanswered) < kept
            )
            if self._over:  # Nobody would end what begins now.
                raise self._why_over()
            request_id = self._next_request
            self._next_request += 1
            self._unanswered.add(request_id)
            pending = self._outcomes[request_id] = concurrent.futures.Future()
            return request_id, pending

    def events(self):
        """Yields what happens to the session's objects, each once, until the session's end. An event counts as dealt
        with, and is acknowledged, when the next one is asked for."""
        while (event := self._events.get()) is not None:
            yield event
            with self._lock:
                self._undealt.popleft()
                # For those who make no requests, each of which acknowledges as well.
                self._outgoing.put(
                    session_pb2.SessionRequest(
                        acknowledge=session_pb2.AcknowledgeEvents(acknowledged_event=self._acknowledged())
                    )
                )
        self._events.put(None)  # For whoever asks again.
        if self._end is not None:
            raise self._end

    def close(self):
        """Ends the session with all it has; one that is away returns first, where it can. Once, from any thread."""
        with self._lock:
            self._closing = True
            self._outgoing.put(CLOSE)
        self._thread.join()
        self._channel.close()

    def _acknowledged(self):
        return self._undealt[0] - 1 if self._undealt else self._received

    def _await_presence(self):
        with self._present:
            self._present.wait_for(lambda: self._is_present or self._over)
            if self._over:
                raise self._why_over()

    def _why_over(self):
        return self._end or BrokerError(unsuccessful("the session is closed"))

    def _reply(self, call, message):
        def ask():
            with self._lock:
                message.header.acknowledged_event = self._acknowledged()
            return call(message)

        return self._repeat(ask)

    def _repeat(self, ask):
        """The broker's own word, for which it is asked until there is one, or the session is over."""
        for attempt in itertools.count():
            try:
                return ask()
            except grpc.RpcError as error:
                if not broker_is_away(error):
                    raise BrokerError.of(error) from error
            except ValueError:  # gRPC's, of a channel that `close` has closed meanwhile.
                self._await_presence()
                raise
            time.sleep(back_off(attempt))
            self._await_presence()

    # The session's thread.

    def _keep(self):
        """The session's life. Whatever ends it, a fault of this program included, nobody is left waiting."""
        end = BrokerError(unsuccessful("the session's thread has failed; its traceback is on standard error"))
        try:
            error = self._follow_streams()
            end = error and BrokerError.of(error)
        finally:
            with self._lock:
                self._over, self._end = True, end
                waiting = list(self._outcomes.values())  # Whoever is told of the end takes his own away.
                self._present.notify_all()
                self._answered.notify_all()
            for pending in waiting:
                if not pending.done():
                    pending.set_exception(self._why_over())
            self._events.put(None)

    def _follow_streams(self):
        """One after the other, for as long as the session can be returned to. Their last error; None after `close`."""
        deadline = time.monotonic() + OPEN_TIMEOUT
        attempt = 0
        while True:
            was_present, error = self._follow_stream()
            if error is None or not self._may_return(error):
                return error
            if was_present:
                attempt = 0
                deadline = time.monotonic() + self.limits.session_grace_ms / 1000
            delay = back_off(attempt)
            if time.monotonic() + delay > deadline:
                return error
            time.sleep(delay)
            attempt += 1

    def _follow_stream(self):
        """Whether the broker has taken this stream, and the error that ended it; None after `close`."""
        outgoing = queue.SimpleQueue()
        with self._lock:
            outgoing.put(self._first_message())
            self._outgoing = outgoing
        try:
            # The iterator must not end before the session does: a closed half of the stream closes the session.
            for reply in self._broker.Session(iter(outgoing.get, None)):
                kind = reply.WhichOneof("message")
                if kind == "opened":
                    self._handle_opened(reply.opened)
                elif kind == "event":
                    self._handle_event(reply.event)
            error = None
        except grpc.RpcError as ended:
            error = ended
        finally:
            outgoing.put(None)
        with self._lock:
            was_present, self._is_present = self._is_present, False
        return was_present, error

    def _first_message(self):
        if self._opened is None:
            return session_pb2.SessionRequest(open=session_pb2.OpenSession(api_minor=API_MINOR))
        return session_pb2.SessionRequest(
            resume=session_pb2.ResumeSession(
                session_id=self._opened.session_id,
                session_secret=self._opened.session_secret,
                acknowledged_event=self._acknowledged(),
                api_minor=API_MINOR,
                lineage=self._opened.lineage,
            )
        )

    @staticmethod
    def _may_return(error):
        outcome = outcome_of(error)
        return broker_is_away(error) if outcome is None else outcome.retryable

    def _handle_opened(self, opened):
        with self._present:
            if self._opened is None:
                self._opened = opened
            self._is_present = True
            if self._closing:
                self._outgoing.put(CLOSE)
            self._present.notify_all()

    def _handle_event(self, event):
        with self._lock:
            if event.number <= self._received:
                return  # Sent again after a return, as it had not been acknowledged.
            self._received = event.number
            kind = event.WhichOneof("event")
            if kind == "outcome":
                pending = self._outcomes.get(event.outcome.request_id)
                if pending is not None and not pending.done():
                    pending.set_result(event.outcome.outcome)
            elif kind is not None:  # None: of a kind that this program does not know.
                self._undealt.append(event.number)
                self._events.put(event)
