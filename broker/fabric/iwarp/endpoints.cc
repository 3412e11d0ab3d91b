// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/endpoints.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "broker/fabric/iwarp/sockets.h"

namespace rdmabroker {
namespace {

// A listener accepts one peer at a time, which saves the accept4 that would return EAGAIN. If it is ready again within
// kCrowdTurns turns, it accepts twice as many as the last time, up to kAcceptsAtATime.
constexpr uint64_t kCrowdTurns = 2;
constexpr size_t kAcceptsAtATime = 64;
// How long a listener waits when there is no descriptor for the next socket; nothing tells when there is one.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
// How often an address is tried that could not be added to a bound endpoint; nothing tells when it is free.
constexpr absl::Duration kMissingPause = absl::Seconds(1);

// Of the supervisor's room: an address that is not kept can be bound anew.
constexpr double kShare = 0.75;

// All anchors are kept under names that begin so: "e7.1", "e7.2" for the endpoint 7.
constexpr char kAnchorNames[] = "e";
std::string NamesOf(EndpointId id) { return absl::StrCat(kAnchorNames, id.value(), "."); }

bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Endpoints::Endpoints(const IwarpSurroundings& surroundings, Sink sink, Crowded crowded)
    : surroundings_(surroundings), sink_(std::move(sink)), crowded_(std::move(crowded)) {}

Endpoints::~Endpoints() {
  for (auto& [id, endpoint] : endpoints_) {
    surroundings_.loop.CancelTimer(endpoint.retry);
    for (auto& [ip, anchor] : endpoint.anchors) StopWatching(anchor);
  }
}

int Endpoints::Prepare(int anchor, EndpointUse use) {
  switch (use) {
    case EndpointUse::kListener:
      return StartListening(anchor);
    case EndpointUse::kDedicated:
    case EndpointUse::kShared:
      return ShareAnchor(anchor);
    case EndpointUse::kReserved:
      break;
  }
  return 0;
}

int Endpoints::AddAnchor(EndpointId id, Endpoint& endpoint, const IpAddress& ip) {
  NewSocket bound = BindAnchor({ip, endpoint.port});
  if (bound.error == 0) bound.error = Prepare(bound.socket.get(), endpoint.use);
  if (bound.error != 0) return bound.error;
  Anchor anchor;
  anchor.name = absl::StrCat(NamesOf(id), ++endpoint.last_name);
  anchor.socket = std::move(bound.socket);
  anchor.kept = surroundings_.keep.KeepIfThereIsRoom(anchor.name, anchor.socket.get(), kShare);
  Start(id, endpoint, ip, std::move(anchor));
  return 0;
}

void Endpoints::TakeKept(EndpointId id, Endpoint& endpoint, const std::vector<IpAddress>& ips) {
  const std::string names = NamesOf(id);
  for (KeptDescriptor& kept : surroundings_.keep.Take(names)) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(kept.name.substr(names.size()), &number)) {
      endpoint.last_name = std::max(endpoint.last_name, number);
    }
    const std::optional<SocketAddress> address = AddressOfAnchor(kept.fd.get());
    const bool fits = address && address->port == endpoint.port && !endpoint.anchors.contains(address->ip) &&
                      std::find(ips.begin(), ips.end(), address->ip) != ips.end();
    if (!fits || Prepare(kept.fd.get(), endpoint.use) != 0) {
      PutAside(kept);
      continue;
    }
    Anchor anchor;
    anchor.name = std::move(kept.name);
    anchor.socket = std::move(kept.fd);
    anchor.kept = true;
    Start(id, endpoint, address->ip, std::move(anchor));
  }
}

void Endpoints::Start(EndpointId id, Endpoint& endpoint, const IpAddress& ip, Anchor anchor) {
  Anchor& started = endpoint.anchors[ip] = std::move(anchor);
  if (endpoint.use == EndpointUse::kListener) Watch(id, ip, started);
}

void Endpoints::PutAside(const KeptDescriptor& kept) {
  if (AddressOfAnchor(kept.fd.get())) LetGoOf(kept.fd.get());
  surroundings_.keep.Forget(kept.name);
}

void Endpoints::StopWatching(Anchor& anchor) {
  surroundings_.loop.Unwatch(std::exchange(anchor.watch, WatchId::kNone));
  surroundings_.loop.CancelTimer(anchor.pause);
}

void Endpoints::RemoveAnchor(Anchor& anchor) {
  StopWatching(anchor);
  // If it was not kept, only this process has it, and closing it is enough.
  if (anchor.kept) LetGoOf(anchor.socket.get());
  surroundings_.keep.Forget(anchor.name);
  anchor.socket.Reset();
}

void Endpoints::Release(Endpoint& endpoint) {
  surroundings_.loop.CancelTimer(endpoint.retry);
  for (auto& [ip, anchor] : endpoint.anchors) RemoveAnchor(anchor);
}

void Endpoints::Bind(const FabricBind& request) {
  Endpoint endpoint = {.use = request.use, .port = request.port};
  // The core may ask for what the process before this one has done and not told.
  TakeKept(request.endpoint, endpoint, request.ips);
  for (const IpAddress& ip : request.ips) {
    const int error = endpoint.anchors.contains(ip) ? 0 : AddAnchor(request.endpoint, endpoint, ip);
    if (error == 0) continue;
    Release(endpoint);
    return ReportFailure(request.endpoint, error);
  }
  endpoints_[request.endpoint] = std::move(endpoint);
  surroundings_.reports.Push(FabricBound{request.endpoint});
}

void Endpoints::Repurpose(const FabricRepurpose& request) {
  Endpoint& endpoint = endpoints_.at(request.endpoint);
  int error = 0;
  auto next = endpoint.anchors.begin();
  for (; next != endpoint.anchors.end() && error == 0; ++next) {
    error = Prepare(next->second.socket.get(), request.use);
  }
  if (error != 0) {
    // Only listening can fail, for want of memory or because somebody outside came in between.
    for (auto done = endpoint.anchors.begin(); done != next; ++done) StopListening(done->second.socket.get());
    return ReportFailure(request.endpoint, error);
  }
  endpoint.use = request.use;
  if (request.use == EndpointUse::kListener) {
    for (auto& [ip, anchor] : endpoint.anchors) Watch(request.endpoint, ip, anchor);
  }
  surroundings_.reports.Push(FabricBound{request.endpoint});
}

void Endpoints::Rebind(const FabricRebind& request) {
  Endpoint& endpoint = endpoints_.at(request.endpoint);
  for (auto held = endpoint.anchors.begin(); held != endpoint.anchors.end();) {
    if (std::find(request.ips.begin(), request.ips.end(), held->first) != request.ips.end()) {
      ++held;
      continue;
    }
    RemoveAnchor(held->second);
    held = endpoint.anchors.erase(held);
  }
  endpoint.wanted = request.ips;
  unheld_.Forget(request.endpoint);
  AddMissing(request.endpoint);
}

void Endpoints::AddMissing(EndpointId id) {
  Endpoint& endpoint = endpoints_.at(id);
  surroundings_.loop.CancelTimer(std::exchange(endpoint.retry, TimerId::kNone));
  bool missing = false;
  for (const IpAddress& ip : endpoint.wanted) {
    if (endpoint.anchors.contains(ip)) continue;
    const int error = AddAnchor(id, endpoint, ip);
    if (error == 0) {
      unheld_.Hold(id, ip);
      continue;
    }
    missing = true;
    unheld_.Miss(id, {ip, endpoint.port}, error, kMissingPause);
  }
  if (!missing) return;
  endpoint.retry = surroundings_.loop.StartTimer(Loop::Now() + kMissingPause, [this, id] {
    if (const auto found = endpoints_.find(id); found != endpoints_.end()) AddMissing(id);
  });
}

void Endpoints::Unbind(const FabricUnbind& request) {
  const auto found = endpoints_.find(request.endpoint);
  Release(found->second);
  endpoints_.erase(found);
  unheld_.Forget(request.endpoint);
  surroundings_.reports.Push(FabricUnbound{request.endpoint});
}

void Endpoints::Adopt(const FabricAdoptEndpoint& request) {
  Endpoint& endpoint = endpoints_[request.endpoint];
  endpoint.use = request.use;
  endpoint.port = request.port;
  endpoint.wanted = request.ips;
  TakeKept(request.endpoint, endpoint, request.ips);
  AddMissing(request.endpoint);
}

size_t Endpoints::ForgetTheRest() {
  const std::vector<KeptDescriptor> rest = surroundings_.keep.Take(kAnchorNames);
  for (const KeptDescriptor& kept : rest) PutAside(kept);
  return rest.size();
}

void Endpoints::MakeWay() {
  makes_way_ = true;
  for (auto& [id, endpoint] : endpoints_) {
    if (endpoint.use != EndpointUse::kListener) continue;
    for (auto& [ip, anchor] : endpoint.anchors) {
      // Where nobody keeps it, who waits in its queue is reset with it.
      if (!anchor.kept) continue;
      StopWatching(anchor);
      // Among those that have come are this process's own, which end with it.
      AcceptUpTo(surroundings_.options.half_open_per_listener, id, ip);
    }
  }
}

void Endpoints::Watch(EndpointId id, const IpAddress& ip, Anchor& anchor) {
  if (makes_way_ && anchor.kept) return;
  anchor.watch = surroundings_.loop.Watch(anchor.socket.get(), EPOLLIN, [this, id, ip](uint32_t) {
    ReportQueue::Entry entry(surroundings_.reports);
    Accept(id, ip);
  });
}

void Endpoints::Accept(EndpointId id, const IpAddress& ip) {
  Anchor& anchor = *Find(id, ip);
  const uint64_t turn = surroundings_.loop.turn();
  const bool crowd = turn - std::exchange(anchor.turn, turn) <= kCrowdTurns;
  anchor.at_a_time = crowd ? std::min(2 * anchor.at_a_time, kAcceptsAtATime) : 1;
  if (AcceptUpTo(anchor.at_a_time, id, ip)) return surroundings_.loop.Rearm(anchor.watch, EPOLLIN);
  anchor.pause = surroundings_.loop.StartTimer(Loop::Now() + kAcceptPause, [this, id, ip] {
    if (const Anchor* paused = Find(id, ip)) surroundings_.loop.Rearm(paused->watch, EPOLLIN);
  });
}

bool Endpoints::AcceptUpTo(size_t most, EndpointId id, const IpAddress& ip) {
  const Endpoint& endpoint = endpoints_.at(id);
  const int listener = endpoint.anchors.at(ip).socket.get();
  for (size_t i = 0; i < most; ++i) {
    AcceptedSocket accepted;
    const int error = AcceptOne(listener, {ip, endpoint.port}, &accepted);
    if (error == EAGAIN) break;
    if (IsShortage(error) && !crowded_()) return false;
    // Other errors are those of a socket that ended before it was accepted (accept(2)).
    if (error == 0) sink_(id, std::move(accepted));
  }
  return true;
}

Endpoints::Anchor* Endpoints::Find(EndpointId id, const IpAddress& ip) {
  const auto endpoint = endpoints_.find(id);
  if (endpoint == endpoints_.end()) return nullptr;
  const auto anchor = endpoint->second.anchors.find(ip);
  return anchor == endpoint->second.anchors.end() ? nullptr : &anchor->second;
}

void Endpoints::ReportFailure(EndpointId id, int error) {
  surroundings_.reports.Push(
      FabricBindFailed{id, SocketStatus(SocketStep::kBind, error), static_cast<uint32_t>(error)});
}

}  // namespace rdmabroker
