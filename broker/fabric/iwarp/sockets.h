// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_SOCKETS_H_
#define BROKER_FABRIC_IWARP_SOCKETS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The TCP sockets of user-space iWARP. None of them blocks, none is inherited by a program that is executed. Functions
// that return an int return 0 or an errno.
//
// Who shares an address with whom (net/ipv4/inet_connection_sock.c):
//   - An endpoint's own socket, the anchor, has neither SO_REUSEADDR nor SO_REUSEPORT, so no other socket can bind to
//     its address. An anchor that listens has SO_REUSEADDR, because accepted sockets inherit it. While it listens, no
//     other socket can bind to its address with SO_REUSEADDR either.
//   - Sockets that connect from an endpoint need SO_REUSEPORT on both sides, which the kernel grants among sockets of
//     one effective user id only. So an anchor that is shared has that one.
//   - What is left of connections, in TIME_WAIT or still with a client, has the address of an endpoint that may have
//     gone. It has both options, so that the next anchor, and an outsider's server, gets past it. That anchor is bound
//     by SO_REUSEPORT, which an outsider's socket lacks: SO_REUSEADDR would let it in beside one that is only bound.
//   - An anchor that was let go of has both options, too: as long as a supervisor keeps a duplicate, it is still bound.
//
// What ends when its process dies: a connection ends with its last socket, by a reset (SO_LINGER with 0 seconds) until
// it is established, so that no TIME_WAIT is in the way of the next attempt.
//
// Nagle's algorithm (TCP_NODELAY) holds nothing back in a handshake: no side sends a second message before the first
// one's answer, which acknowledges it.

struct NewSocket {
  UniqueFd socket;
  int error = 0;  // errno where there is no socket.
};

// A connection that was accepted, and its addresses.
struct AcceptedSocket {
  UniqueFd socket;
  SocketAddress local, peer;
};

// Binds an anchor that shares its address with nobody.
NewSocket BindAnchor(const SocketAddress& local);
// Lets BindBeside bind to the anchor's address.
int ShareAnchor(int anchor);
// Listens with the largest backlog that the kernel grants. StopListening, also of one that could not listen, leaves it
// bound.
int StartListening(int anchor);
void StopListening(int anchor);
// It is in no later anchor's way, and nobody connects to it, whoever else holds it.
void LetGoOf(int anchor);
// Where an anchor stands that another process has left; nothing where it is none, or was let go of.
std::optional<SocketAddress> AddressOfAnchor(int socket);

// A socket to connect with, bound to the address of an anchor that is shared.
NewSocket BindBeside(const SocketAddress& local);
// EINPROGRESS where the outcome comes with EPOLLOUT: SendWhole tells it.
int StartConnecting(int socket, const SocketAddress& peer);
int SocketError(int socket);  // Takes it away: the next call returns 0.

// Accepts one connection. Returns EAGAIN if no peer waits. `local` is the listener's address.
int AcceptOne(int listener, const SocketAddress& local, AcceptedSocket* accepted);

// Ends the connection with a reset, whoever else holds the socket, and leaves no TIME_WAIT behind. What the peer has
// not read yet is lost.
void ResetConnection(int socket);
// What becomes of the connection when its last holder closes it, or dies: false: what was sent still reaches the peer.
void ResetOnClose(int socket, bool reset);
// Whether it is a TCP connection between these, the peer not having reset it.
bool IsConnection(int socket, const SocketAddress& local, const SocketAddress& peer);

// A mark on the socket that outlives its process, for a connection that another process may have from now on, or, where
// that was not so, may not: SO_BROADCAST, which means nothing to a stream (socket(7)).
void MarkSent(int socket, bool sent);
bool WasSent(int socket);

// All of it, or ENOBUFS: for the few hundred bytes of a handshake, of which a send buffer holds several (the smallest
// has 4608 bytes, SOCK_MIN_SNDBUF).
int SendWhole(int socket, std::span<const uint8_t> bytes);
// Appends at most `limit` bytes to `input`. EAGAIN: nothing there. ENODATA: the peer has sent its last.
int Receive(int socket, size_t limit, std::string* input);

// The path's MSS (RFC 9293, section 3.7.1).
uint32_t PathSegmentSize(int socket);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_SOCKETS_H_
