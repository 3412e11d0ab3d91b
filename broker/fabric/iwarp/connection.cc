// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "broker/fabric/iwarp/sockets.h"

namespace rdmabroker {
namespace {

// Between Ethernet's jumbo frames, of some 9,000 bytes, and what a connection over loopback begins with: half of the
// first window of 64 KiB (tcp_bound_to_half_wnd in include/net/tcp.h).
constexpr uint32_t kLongestLinkSegment = 16 * 1024;

// Of the supervisor's room: what a client has not fetched yet matters less than the descriptors of which there are few.
constexpr double kTransportShare = 0.9;

}  // namespace

Connection::Connection(const IwarpSurroundings& surroundings, ConnectionId id, const SocketAddress& peer)
    : surroundings_(surroundings), id_(id), peer_(peer) {}

Connection::~Connection() {
  StopWaiting();
  surroundings_.handoffs.Withdraw(id_);
}

void Connection::Release(bool client_ended) {
  CloseSocket(!client_ended);
  state_ = State::kOver;
  surroundings_.reports.Push(FabricReleased{id_});
}

bool Connection::in_handshake() const {
  return state_ != State::kWaiting && state_ != State::kEstablished && state_ != State::kOver;
}

void Connection::Await(uint32_t events) {
  if (watch_ != WatchId::kNone) return surroundings_.loop.Rearm(watch_, events);
  watch_ = surroundings_.loop.Watch(socket_.get(), events, [this](uint32_t ready) {
    ReportQueue::Entry entry(surroundings_.reports);
    OnReady(ready);
  });
}

void Connection::SetDeadline(absl::Duration after) {
  surroundings_.loop.CancelTimer(deadline_);
  deadline_ = surroundings_.loop.StartTimer(Loop::Now() + after, [this] {
    ReportQueue::Entry entry(surroundings_.reports);
    OnDeadline();
  });
}

void Connection::CloseSocket(bool reset) {
  StopWaiting();
  if (Handoff* handoff = surroundings_.handoffs.Find(id_)) socket_ = std::move(handoff->socket);
  surroundings_.handoffs.Withdraw(id_);
  if (socket_ && reset) ResetConnection(socket_.get());
  socket_.Reset();
  Forget();
  EndTurn();
}

void Connection::EndTurn() {
  if (surroundings_.turns.End(id_)) surroundings_.turns.BeginNext();
}

void Connection::StopWaiting() {
  surroundings_.loop.CancelTimer(deadline_);
  surroundings_.loop.Unwatch(std::exchange(watch_, WatchId::kNone));
}

void Connection::Forget() {
  if (!std::exchange(kept_, false)) return;
  surroundings_.records.connections.erase(id_);
  surroundings_.keep.Forget(TransportName(id_));
}

iwarp::Offer Connection::OfferFor(const ReadLimits& limits) const {
  // A peer in this network namespace is another socket of this kernel: its bytes come as a stream, for which the length
  // of an FPDU means nothing, and long ones are faster. That is so for others' implementations, too. MPA's only limit
  // to what a receiver takes is the length's 16 bits, FPDUs as long as loopback's segments would have 32 KiB already,
  // and siw, the kernel's own, counts any length down (drivers/infiniband/sw/siw/siw_qp_rx.c).
  //
  // Elsewhere an FPDU fits into a segment (RFC 5044, section 5.1): there are NICs that take no more, and MPA has no way
  // to ask a peer whether it minds; the private data is the consumers'. Short segments also tell of a local address
  // that is not its peer's, because the kernel forwards what is sent there to another host (NAT, IPVS).
  const uint32_t segment = PathSegmentSize(socket_.get());
  const std::vector<IpAddress>& local = surroundings_.addresses.addresses();
  const bool same_kernel = segment > kLongestLinkSegment && std::binary_search(local.begin(), local.end(), peer_.ip);
  return {.crc = surroundings_.options.crc,
          .inbound_read_limit = limits.inbound,
          .outbound_read_limit = limits.outbound,
          .fpdu_limit = same_kernel ? iwarp::kMaxFpduLength : segment};
}

void Connection::Establish(iwarp::ConnectionState state) {
  StopWaiting();
  state_ = State::kEstablished;
  state.unread = std::exchange(input_, {});
  // From here on its client may have it, too, or the next process.
  ResetOnClose(socket_.get(), false);
  kept_ = true;
  surroundings_.keep.KeepIfThereIsRoom(TransportName(id_), socket_.get(), kTransportShare);
  KeptTransport transport = {.secret = {}, .state = iwarp::EncodeConnectionState(state)};
  transport.secret = surroundings_.handoffs.Offer(id_, MakeHandoff(transport.state));
  surroundings_.records.connections[id_] = EncodeTransport(transport);
  surroundings_.reports.Push(FabricEstablished{id_, transport.secret});
}

void Connection::OfferAgain(KeptTransport transport) {
  state_ = State::kEstablished;
  Handoff handoff = MakeHandoff(std::move(transport.state));
  handoff.secret = transport.secret;
  surroundings_.handoffs.OfferAgain(id_, std::move(handoff));
}

Handoff Connection::MakeHandoff(std::string state) {
  Handoff handoff;
  handoff.on_sending = [socket = socket_.get()](bool sent) { MarkSent(socket, sent); };
  handoff.on_taken = [this] { OnTaken(true); };
  handoff.on_lost = [this] { OnTaken(false); };
  handoff.socket = std::move(socket_);
  handoff.state = std::move(state);
  return handoff;
}

void Connection::OnTaken(bool taken) {
  ReportQueue::Entry entry(surroundings_.reports);
  if (taken) {
    Forget();
    return surroundings_.reports.Push(FabricHandedOff{id_});
  }
  End(FabricDisconnected{id_, NdkStatus::kConnectionAborted});
}

void Connection::End(FabricReport report) {
  CloseSocket();
  state_ = State::kOver;
  surroundings_.reports.Push(std::move(report));
}

void Connection::AwaitDecision(uint32_t events) {
  if (events == EPOLLIN) return Await(EPOLLRDHUP);
  const int error = SocketError(socket_.get());
  Fail(error != 0 ? error : ECONNRESET);
}

void Connection::Fail(int error, std::string explanation) {
  End(FabricFailed{
      id_, SocketStatus(SocketStep::kFinish, error), static_cast<uint32_t>(error), {}, std::move(explanation)});
}

}  // namespace rdmabroker
