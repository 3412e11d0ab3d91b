// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_endpoints.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "broker/fabric/rdmacm/cm_status.h"
#include "broker/fabric/rdmacm/cookie.h"

namespace rdmabroker {
namespace {

// How often an address is tried that could not be added to a bound endpoint; nothing tells when it is free.
constexpr absl::Duration kMissingPause = absl::Seconds(1);

}  // namespace

CmEndpoints::~CmEndpoints() {
  for (auto& [id, endpoint] : endpoints_) surroundings_.watcher.CancelTimer(endpoint.retry);
}

int CmEndpoints::Prepare(Anchor& anchor, EndpointUse use) const {
  switch (use) {
    case EndpointUse::kListener: {
      if (anchor.listens) return 0;
      const int error = surroundings_.file->Listen(anchor.id);
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
  const CmFile& file = *surroundings_.file;
  Anchor anchor;
  if (const int error = file.Create(CookieOf(id), &anchor.id); error != 0) return error;
  int error = file.BindOn(anchor.id, {ip, endpoint.port}, endpoint.device_index);
  if (error == 0) error = Prepare(anchor, endpoint.use);
  endpoint.anchors[ip] = anchor;
  return error;
}

void CmEndpoints::RemoveAnchor(Endpoint& endpoint, const IpAddress& ip) {
  const auto found = endpoint.anchors.find(ip);
  if (found == endpoint.anchors.end()) return;
  surroundings_.Destroy(found->second.id, [] {});
  endpoint.anchors.erase(found);
}

void CmEndpoints::Release(const Endpoint& endpoint, const std::function<void()>& done) {
  surroundings_.watcher.CancelTimer(endpoint.retry);
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
    return Release(endpoint, [this, id = request.endpoint, status, error] {
      surroundings_.reports.Push(FabricBindFailed{id, status, static_cast<uint32_t>(error)});
    });
  }
  endpoints_[request.endpoint] = std::move(endpoint);
  surroundings_.reports.Push(FabricBound{request.endpoint});
}

// An anchor that listens does so for good. Where not all of them can, those that do refuse until the next time.
void CmEndpoints::Repurpose(const FabricRepurpose& request) {
  Endpoint& endpoint = endpoints_.at(request.endpoint);
  for (auto& [ip, anchor] : endpoint.anchors) {
    const int error = Prepare(anchor, request.use);
    if (error == 0) continue;
    return surroundings_.reports.Push(
        FabricBindFailed{request.endpoint, CmStatus(CmStep::kBind, error), static_cast<uint32_t>(error)});
  }
  endpoint.use = request.use;
  surroundings_.reports.Push(FabricBound{request.endpoint});
}

void CmEndpoints::Rebind(const FabricRebind& request) {
  Endpoint& endpoint = endpoints_.at(request.endpoint);
  for (auto held = endpoint.anchors.begin(); held != endpoint.anchors.end();) {
    if (std::find(request.ips.begin(), request.ips.end(), held->first) != request.ips.end()) {
      ++held;
      continue;
    }
    RemoveAnchor(endpoint, (held++)->first);
  }
  endpoint.wanted = request.ips;
  AddMissing(request.endpoint);
}

void CmEndpoints::AddMissing(EndpointId id) {
  Endpoint& endpoint = endpoints_.at(id);
  surroundings_.watcher.CancelTimer(std::exchange(endpoint.retry, TimerId::kNone));
  bool missing = false;
  for (const IpAddress& ip : endpoint.wanted) {
    if (endpoint.anchors.contains(ip) || AddAnchor(id, endpoint, ip) == 0) continue;
    RemoveAnchor(endpoint, ip);
    missing = true;
  }
  if (!missing) return;
  endpoint.retry = surroundings_.watcher.StartTimer(Watcher::Now() + kMissingPause, [this, id] {
    if (endpoints_.contains(id)) AddMissing(id);
  });
}

void CmEndpoints::Unbind(const FabricUnbind& request) {
  const auto found = endpoints_.find(request.endpoint);
  const Endpoint endpoint = std::move(found->second);
  endpoints_.erase(found);
  Release(endpoint, [this, id = request.endpoint] { surroundings_.reports.Push(FabricUnbound{id}); });
}

void CmEndpoints::LoseIds() {
  for (auto& [id, endpoint] : endpoints_) {
    surroundings_.watcher.CancelTimer(std::exchange(endpoint.retry, TimerId::kNone));
    endpoint.anchors.clear();
    endpoint.wanted.clear();
  }
}

bool CmEndpoints::Listens(EndpointId id) const {
  const auto found = endpoints_.find(id);
  return found != endpoints_.end() && found->second.use == EndpointUse::kListener;
}

DeviceId CmEndpoints::DeviceOf(EndpointId id) const {
  const auto found = endpoints_.find(id);
  return found == endpoints_.end() ? DeviceId() : found->second.device;
}

}  // namespace rdmabroker
