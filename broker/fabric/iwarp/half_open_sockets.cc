// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/half_open_sockets.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "broker/log/log.h"
#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker {
namespace {

constexpr size_t kMaxRequest = iwarp::kStartupHeaderLength + iwarp::kMaxStartupPrivateData;

}  // namespace

HalfOpenSockets::HalfOpenSockets(const IwarpSurroundings& surroundings, Sink sink)
    : surroundings_(surroundings), sink_(std::move(sink)) {}

HalfOpenSockets::~HalfOpenSockets() {
  while (CloseOldest()) continue;
}

void HalfOpenSockets::Add(EndpointId listener, AcceptedSocket accepted) {
  const auto siblings = of_listener_.find(listener);
  if (siblings != of_listener_.end() && siblings->second.size() >= surroundings_.options.half_open_per_listener) {
    Close(*siblings->second.begin());
  }
  if (sockets_.size() >= surroundings_.options.half_open) CloseOldest();
  const Number number = ++last_number_;
  HalfOpen& added = sockets_[number];
  added.listener = listener;
  added.accepted = std::move(accepted);
  of_listener_[listener].insert(number);
  added.deadline = surroundings_.loop.StartTimer(Loop::Now() + surroundings_.options.request_timeout,
                                                 [this, number] { Close(number); });
  added.watch = surroundings_.loop.Watch(added.accepted.socket.get(), EPOLLIN, [this, number](uint32_t) {
    ReportQueue::Entry entry(surroundings_.reports);
    Receive(number);
  });
}

void HalfOpenSockets::CloseAll(EndpointId listener) {
  for (auto siblings = of_listener_.find(listener); siblings != of_listener_.end();
       siblings = of_listener_.find(listener)) {
    Close(*siblings->second.begin());
  }
}

bool HalfOpenSockets::CloseOldest() {
  if (sockets_.empty()) return false;
  Close(sockets_.begin()->first);
  return true;
}

void HalfOpenSockets::Receive(Number number) {
  HalfOpen& half_open = sockets_.at(number);
  // One byte more than a request may have, so that what stands behind one is seen.
  const size_t room = kMaxRequest + 1 - half_open.input.size();
  const int error = rdmabroker::Receive(half_open.accepted.socket.get(), room, &half_open.input);
  if (error == EAGAIN) return surroundings_.loop.Rearm(half_open.watch, EPOLLIN);
  if (error != 0) return Close(number);
  const auto request = iwarp::DecodeStartupFrame(iwarp::AsBytes(half_open.input), iwarp::StartupKind::kRequest);
  if (!request.ok()) return Refuse(number, std::string(request.status().message()));
  if (!request->has_value()) return surroundings_.loop.Rearm(half_open.watch, EPOLLIN);
  // An initiator sends nothing more before it has the reply (RFC 5044, section 7.1.2).
  if ((*request)->length != half_open.input.size()) return Refuse(number, "MPA request: bytes follow it");
  HalfOpen done = Take(number);
  sink_(done.listener, std::move(done.accepted), (*request)->frame);
}

void HalfOpenSockets::Refuse(Number number, const std::string& cause) {
  if (const auto left_out = refusals_.Pass(Loop::Now())) {
    const AcceptedSocket& accepted = sockets_.at(number).accepted;
    LogWarning("connect request refused", {{"local", accepted.local.ToString()},
                                           {"peer", accepted.peer.ToString()},
                                           {"cause", cause},
                                           {"left_out", *left_out}});
  }
  Close(number);
}

void HalfOpenSockets::Close(Number number) { ResetConnection(Take(number).accepted.socket.get()); }

HalfOpenSockets::HalfOpen HalfOpenSockets::Take(Number number) {
  const auto found = sockets_.find(number);
  HalfOpen taken = std::move(found->second);
  sockets_.erase(found);
  surroundings_.loop.Unwatch(taken.watch);
  surroundings_.loop.CancelTimer(taken.deadline);
  const auto siblings = of_listener_.find(taken.listener);
  siblings->second.erase(number);
  if (siblings->second.empty()) of_listener_.erase(siblings);
  return taken;
}

}  // namespace rdmabroker
