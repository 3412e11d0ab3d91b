# SPDX-License-Identifier: Apache-2.0
"""What a Python process does with rdma-brokerd: lists the adapters, reserves a port, listens on it, watches who wants
to connect, turns them away with a word, and closes all in order.

It cannot accept: an accepted connection needs a queue pair, which is the C or C++ library's. `c_api.py` in this folder
moves bytes. Run `generate FOLDER` first, and this with PYTHONPATH=FOLDER.
"""

import argparse
import ipaddress
import signal
import socket
import sys

from proto.rdmabroker.v1 import adapter_pb2, address_pb2, requests_pb2

from session import BrokerError, Session, status_name

NDK_VERSION = adapter_pb2.NdkVersion(major=2, minor=1)
WORDS = b"no queue pairs here"  # For the peers that are turned away.


def text_of(address):
    """A SocketAddress or IpAddress for a person."""
    ip = ipaddress.ip_address(address.ip)
    text = f"{ip}%{address.interface or address.scope_id}" if address.scope_id else str(ip)
    if not hasattr(address, "port"):
        return text
    return f"[{text}]:{address.port}" if ip.version == 6 else f"{text}:{address.port}"


def address_of(text):
    """The address without a port, as "192.0.2.1", "fe80::1%3" or "fe80::1%eth0", of an interface here."""
    ip = ipaddress.ip_address(text)
    scope = getattr(ip, "scope_id", None)
    if scope is None:
        return address_pb2.SocketAddress(ip=ip.packed)
    try:
        index = int(scope) if scope.isdecimal() else socket.if_nametoindex(scope)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: no interface {scope} here") from error
    return address_pb2.SocketAddress(ip=ip.packed, scope_id=index)


def say(*words):
    print(*words, flush=True)


def list_adapters(session):
    devices = session.list_adapters()
    for device in devices:
        technology = adapter_pb2.RdmaTechnology.Name(device.info.technology).removeprefix("RDMA_TECHNOLOGY_")
        state = "usable" if device.usable else device.unusable_reason
        say(f"adapter {device.name}: {technology}, {state}, {' '.join(map(text_of, device.addresses))}")
    return devices


def choose(devices, name, address):
    """The address to listen on: the one that is asked for, or the device's first."""
    for device in devices:
        if device.usable and (name is None or device.name == name) and (address or device.addresses):
            if address is not None:
                return device.name, address
            first = device.addresses[0]
            return device.name, address_pb2.SocketAddress(ip=first.ip, scope_id=first.scope_id)
    sys.exit(f"watch: no adapter {name or 'here'} can be used; the list above says why")


def reserve(session, adapter_id, address):
    """A port of the broker's choice, and what happens to those who want it besides."""
    request = requests_pb2.ReservePortRequest(adapter_id=adapter_id, address=address)
    reserved = session.request("ReservePort", request).port_reserved
    say(f"reserved {text_of(reserved.address)}")
    try:
        session.request("ReservePort", requests_pb2.ReservePortRequest(adapter_id=adapter_id, address=reserved.address))
    except BrokerError as error:
        again = "can be tried again" if error.outcome.retryable else "not to be tried again"
        say(f"reserved twice: {status_name(error.outcome.status)}, {again}: {error.outcome.hint}")
    return reserved


def turn_away(session, connect):
    """Rejects a peer. The connector is this process's to close whatever becomes of it."""
    say(f"{text_of(connect.data.peer)} wants to connect, and says {connect.data.private_data.rstrip(bytes(1))!r}")
    try:
        session.request("Reject", requests_pb2.RejectRequest(connector_id=connect.connector_id, private_data=WORDS))
        say("rejected")
    except BrokerError as error:  # STATUS_CONNECTION_ABORTED: it has given up meanwhile.
        say(f"not rejected: {error}")
    session.request("CloseConnector", requests_pb2.CloseConnectorRequest(connector_id=connect.connector_id))


def watch(session, peers):
    """Deals with the session's events, until so many peers have come; for ever with 0."""
    come = 0
    for event in session.events():
        kind = event.WhichOneof("event")
        say(f"event {event.number}: {kind}")
        if kind == "connect":
            turn_away(session, event.connect)
            come += 1
        elif kind in ("adapter_removed", "adapter_disabled"):
            return  # What is open is to be closed.
        if come == peers != 0:
            return


def serve(session, options):
    device, address = choose(list_adapters(session), options.device, options.address)
    request = requests_pb2.OpenAdapterRequest(device=device, version=NDK_VERSION)
    adapter_id = session.request("OpenAdapter", request).adapter_opened.adapter_id
    reserved = reserve(session, adapter_id, address)
    request = requests_pb2.CreateListenerRequest(adapter_id=adapter_id)
    listener_id = session.request("CreateListener", request).listener_created.listener_id
    # The listener takes the reservation's place: that is used up, and nobody comes in between.
    request = requests_pb2.ListenRequest(listener_id=listener_id, reservation_id=reserved.reservation_id)
    listening = session.request("Listen", request).listening
    try:
        say(f"listening on {text_of(listening.address)}")
        watch(session, options.peers)
    except KeyboardInterrupt:
        say("interrupted")
    # In any order, but the adapter's close would wait for the listener's, and that for each connector's.
    session.request("CloseListener", requests_pb2.CloseListenerRequest(listener_id=listener_id))
    session.request("CloseAdapter", requests_pb2.CloseAdapterRequest(adapter_id=adapter_id))
    say("closed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--socket", help="the broker's control socket; else RDMA_BROKER_SOCKET, else the usual one")
    parser.add_argument("--device", help="the adapter; else the first that can be used")
    parser.add_argument("--address", type=address_of, help="where to listen; else the adapter's first")
    parser.add_argument("--peers", type=int, default=0, help="how many to turn away; 0: until a signal")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Session(options.socket) as session:
            serve(session, options)
    except BrokerError as error:
        sys.exit(f"watch: {error}")
    except KeyboardInterrupt:
        sys.exit("watch: interrupted")  # Before it listened, or while it closed: the session's end has closed the rest.


if __name__ == "__main__":
    main()
