// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_endpoints.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "broker/fabric/rdmacm/cm_status.h"
#include "broker/fabric/rdmacm/cookie.h"

namespace rdmabroker {
namespace {

// How often an address is tried that could not be added to a bound endpoint; nothing tells when it is free.
constexpr absl::Duration kMissingPause = absl::Seconds(1);
// The same of one that a dead process's file holds, which the kernel is closing: in milliseconds, but for thousands of
// ids.
constexpr absl::Duration kClosingPause = absl::Milliseconds(10);

bool Names(const std::vector<IpAddress>& ips, const IpAddress& ip) {
  return std::find(ips.begin(), ips.end(), ip) != ips.end();
}

}  // namespace

CmEndpoints::~CmEndpoints() {
  for (auto& [id, endpoint] : endpoints_) surroundings_.loop.CancelTimer(endpoint.retry);
  for (const auto& [id, timer] : binds_) surroundings_.loop.CancelTimer(timer);
}

int CmEndpoints::Prepare(CmAnchor& anchor, EndpointUse use, bool adopted) const {
  switch (use) {
    case EndpointUse::kListener: {
      if (anchor.listens) return 0;
      int error = surroundings_.file->Listen(anchor.id);
      // It listens already, of which the process before has left no word.
      if (error == EINVAL && adopted) error = 0;
      anchor.listens = error == 0;
      return error;
    }
    case EndpointUse::kDedicated:
    case EndpointUse::kShared:
      return surroundings_.file->ShareAddress(anchor.id);
    case EndpointUse::kReserved:
      break;
  }
  return 0;
}

int CmEndpoints::AddAnchor(EndpointId id, Endpoint& endpoint, const IpAddress& ip) {
  if (surroundings_.file == nullptr) return ENODEV;
  const CmFile& file = *surroundings_.file;
  CmAnchor anchor;
  if (const int error = file.Create(CookieOf(id), &anchor.id); error != 0) return error;
  int error = file.BindOn(anchor.id, {ip, endpoint.port}, endpoint.device_index);
  if (error == 0) error = Prepare(anchor, endpoint.use, false);
  endpoint.anchors[ip] = anchor;
  return error;
}

void CmEndpoints::RemoveAnchor(Endpoint& endpoint, const IpAddress& ip) {
  const auto found = endpoint.anchors.find(ip);
  if (found == endpoint.anchors.end()) return;
  surroundings_.Destroy(found->second.id, [] {});
  endpoint.anchors.erase(found);
}

void CmEndpoints::LetGo(EndpointId id, Endpoint& endpoint, const IpAddress& ip) {
  const KernelId anchor = endpoint.anchors.at(ip).id;
  endpoint.anchors.erase(ip);
  ++endpoint.leaving;
  surroundings_.Destroy(anchor, [this, id] {
    const auto found = endpoints_.find(id);
    if (found != endpoints_.end() && found->second.leaving != 0 && --found->second.leaving == 0) AddMissing(id);
  });
}

void CmEndpoints::Release(const Endpoint& endpoint, const std::function<void()>& done) {
  surroundings_.loop.CancelTimer(endpoint.retry);
  if (endpoint.anchors.empty()) return done();
  const auto left = std::make_shared<size_t>(endpoint.anchors.size());
  for (const auto& [ip, anchor] : endpoint.anchors) {
    surroundings_.Destroy(anchor.id, [left, done] {
      if (--*left == 0) done();
    });
  }
}

void CmEndpoints::Bind(const FabricBind& request, uint32_t device_index, const std::vector<IpAddress>& local) {
  Endpoint endpoint = {
      .device = request.device, .device_index = device_index, .use = request.use, .port = request.port};
  for (const IpAddress& ip : request.ips) {
    const int error = AddAnchor(request.endpoint, endpoint, ip);
    if (error == 0) continue;
    const NdkStatus status = CmBindStatus(error, std::binary_search(local.begin(), local.end(), ip));
    return Release(endpoint, [this, request, device_index, local, status, error] {
      if (error == EADDRINUSE && Loop::Now() < released_by_) return BindLater(request, device_index, local);
      surroundings_.reports.Push(FabricBindFailed{request.endpoint, status, static_cast<uint32_t>(error)});
    });
  }
  Save(request.endpoint, endpoint);
  endpoints_[request.endpoint] = std::move(endpoint);
  surroundings_.reports.Push(FabricBound{request.endpoint});
}

void CmEndpoints::BindLater(const FabricBind& request, uint32_t device_index, const std::vector<IpAddress>& local) {
  binds_[request.endpoint] =
      surroundings_.loop.StartTimer(Loop::Now() + kClosingPause, [this, request, device_index, local] {
        ReportQueue::Entry entry(surroundings_.reports);
        binds_.erase(request.endpoint);
        Bind(request, device_index, local);
      });
}

// An anchor that listens does so for good. Where not all of them can, those that do refuse until the next time.
void CmEndpoints::Repurpose(const FabricRepurpose& request) {
  Endpoint& endpoint = endpoints_.at(request.endpoint);
  for (auto& [ip, anchor] : endpoint.anchors) {
    const int error = Prepare(anchor, request.use, endpoint.adopted);
    if (error == 0) continue;
    Save(request.endpoint, endpoint);
    return surroundings_.reports.Push(
        FabricBindFailed{request.endpoint, CmStatus(CmStep::kBind, error), static_cast<uint32_t>(error)});
  }
  endpoint.use = request.use;
  Save(request.endpoint, endpoint);
  surroundings_.reports.Push(FabricBound{request.endpoint});
}

void CmEndpoints::Rebind(const FabricRebind& request, uint32_t device_index) {
  Endpoint& endpoint = endpoints_.at(request.endpoint);
  const bool stays = endpoint.device == request.device;
  endpoint.device = request.device;
  endpoint.device_index = device_index;
  endpoint.wanted = request.ips;
  unheld_.Forget(request.endpoint);
  for (auto held = endpoint.anchors.begin(); held != endpoint.anchors.end();) {
    const IpAddress ip = (held++)->first;
    if (!stays || !Names(request.ips, ip)) LetGo(request.endpoint, endpoint, ip);
  }
  Save(request.endpoint, endpoint);
  AddMissing(request.endpoint);
}

void CmEndpoints::AddMissing(EndpointId id) {
  Endpoint& endpoint = endpoints_.at(id);
  surroundings_.loop.CancelTimer(std::exchange(endpoint.retry, TimerId::kNone));
  if (endpoint.leaving != 0) return;
  const absl::Time now = Loop::Now();
  const bool closing = now < released_by_;
  const absl::Duration pause = closing ? kClosingPause : kMissingPause;
  bool missing = false;
  for (const IpAddress& ip : endpoint.wanted) {
    if (endpoint.anchors.contains(ip)) continue;
    const int error = AddAnchor(id, endpoint, ip);
    if (error == 0) {
      unheld_.Hold(id, ip);
      continue;
    }
    RemoveAnchor(endpoint, ip);
    missing = true;
    // Until then it may be the dead process that still has it.
    if (!closing) unheld_.Miss(id, {ip, endpoint.port}, error, pause);
  }
  Save(id, endpoint);
  if (!missing) return;
  endpoint.retry = surroundings_.loop.StartTimer(now + pause, [this, id] {
    if (endpoints_.contains(id)) AddMissing(id);
  });
}

void CmEndpoints::Unbind(const FabricUnbind& request) {
  const auto found = endpoints_.find(request.endpoint);
  const Endpoint endpoint = std::move(found->second);
  endpoints_.erase(found);
  unheld_.Forget(request.endpoint);
  // An id's number may be another's before its end is stored.
  surroundings_.records.endpoints.erase(request.endpoint);
  Release(endpoint, [this, id = request.endpoint] { surroundings_.reports.Push(FabricUnbound{id}); });
}

void CmEndpoints::Adopt(const FabricAdoptEndpoint& request, uint32_t device_index, const CmEndpointRecord& record,
                        const std::function<bool(KernelId)>& migrate) {
  Endpoint endpoint = {.device = request.device,
                       .device_index = device_index,
                       .use = request.use,
                       .port = request.port,
                       .anchors = {},
                       .wanted = request.ips,
                       .adopted = true};
  for (auto [ip, anchor] : record.anchors) {
    if (!Names(request.ips, ip) || !migrate(anchor.id)) continue;
    if (IsAnchorOf(anchor.id, endpoint, ip) && Prepare(anchor, request.use, true) == 0) {
      endpoint.anchors[ip] = anchor;
    } else {
      surroundings_.Destroy(anchor.id, [] {});
    }
  }
  endpoints_[request.endpoint] = std::move(endpoint);
}

void CmEndpoints::AdoptLost(const FabricAdoptEndpoint& request) {
  endpoints_[request.endpoint] = {.device = request.device, .use = request.use, .port = request.port};
}

// The number of an id that has ended meanwhile may be another's.
bool CmEndpoints::IsAnchorOf(KernelId id, const Endpoint& endpoint, const IpAddress& ip) const {
  CmAddresses addresses;
  if (surroundings_.file->QueryAddresses(id, &addresses) != 0) return false;
  // The kernel does not say on which interface a link-local address is.
  addresses.local.ip.scope_id = ip.scope_id;
  return addresses.local == SocketAddress{ip, endpoint.port} && addresses.device_index == endpoint.device_index &&
         addresses.peer.ip.IsAny();
}

void CmEndpoints::BindMissing(absl::Time until) {
  released_by_ = until;
  for (const auto& [id, endpoint] : endpoints_) {
    if (endpoint.adopted) AddMissing(id);
  }
}

void CmEndpoints::Save(EndpointId id, const Endpoint& endpoint) {
  const CmEndpointRecord record = {
      .device_index = endpoint.device_index, .anchors = endpoint.anchors, .device = endpoint.device};
  std::string bytes = Encode(record);
  const auto& records = std::as_const(surroundings_.records.endpoints);
  if (const auto known = records.find(id); known != records.end() && known->second == bytes) return;
  surroundings_.records.endpoints[id] = std::move(bytes);
}

void CmEndpoints::LoseIds() {
  for (auto& [id, endpoint] : endpoints_) {
    surroundings_.loop.CancelTimer(std::exchange(endpoint.retry, TimerId::kNone));
    endpoint.anchors.clear();
    endpoint.wanted.clear();
    endpoint.leaving = 0;
    unheld_.Forget(id);
    Save(id, endpoint);
  }
}

bool CmEndpoints::Listens(EndpointId id) const {
  const auto found = endpoints_.find(id);
  return found != endpoints_.end() && found->second.use == EndpointUse::kListener;
}

bool CmEndpoints::Holds(EndpointId id, KernelId anchor) const {
  const auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return false;
  const auto& anchors = found->second.anchors;
  return std::any_of(anchors.begin(), anchors.end(), [&](const auto& entry) { return entry.second.id == anchor; });
}

DeviceId CmEndpoints::DeviceOf(EndpointId id) const {
  const auto found = endpoints_.find(id);
  return found == endpoints_.end() ? DeviceId() : found->second.device;
}

}  // namespace rdmabroker
