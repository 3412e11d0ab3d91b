// SPDX-License-Identifier: Apache-2.0

// How the fabric goes on where another process's has died.
//
// The kernel's ids live with the file that they are in, of which the supervisor has a duplicate. A file serves its
// opener alone (ib_safe_file_access in include/rdma/ib.h), so what the core adopts is moved to this process's own; what
// is left in the old ones ends with them. In between the files exist side by side: events of what has been moved are
// read, and connect requests that come with them are moved one by one, since only their events name them. What needs
// an address that the old files may hold waits until they are closed.

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "broker/fabric/rdmacm/cm_records.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/log/log.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

// The supervisor says that it has let go of a file perhaps before the kernel has ended thousands of ids in it.
constexpr absl::Duration kClosingPatience = absl::Seconds(5);

// One turn of the loop, where each costs a system call: clients must not wait until all have been looked at.
constexpr int kConnectionsAtATime = 512;

}  // namespace

void RdmaCmFabric::Carry(const FabricAdoptEndpoint& request) {
  const auto& records = std::as_const(records_.endpoints);
  const auto kept = records.find(request.endpoint);
  const auto record = kept == records.end() ? std::nullopt : DecodeEndpoint(kept->second);
  // The core may have moved it to this device, and that process died before it did.
  const bool here = record && (!record->device || record->device == request.device);
  const KnownDevice* device = FindAdopted(request.device, here ? std::optional(record->device_index) : std::nullopt);
  if (device == nullptr) return endpoints_.AdoptLost(request);
  endpoints_.Adopt(request, device->found.index, record.value_or(CmEndpointRecord()),
                   [this](KernelId id) { return file_ != nullptr && files_.Migrate(id, *file_) == 0; });
}

void RdmaCmFabric::Carry(const FabricAdoptConnection& request) {
  incoming_ids_.Adopt(request.connection);
  const auto& records = std::as_const(records_.connections);
  const auto kept = records.find(request.connection);
  const auto record = kept == records.end() ? std::nullopt : DecodeConnection(kept->second);
  KnownDevice* device = FindAdopted(request.device, record ? std::optional(record->device_index) : std::nullopt);
  CmDevice of = {.id = request.device};
  if (device != nullptr) {
    of.index = device->found.index;
    of.three_way = !device->found.iwarp;
  }
  auto& connection = connections_[request.connection] =
      std::make_unique<CmConnection>(surroundings_, of, request.connection);
  // Of a device that has gone the core ends everything by itself.
  if (device == nullptr) return connection->LoseId();
  const bool migrated =
      record && record->kernel_id && file_ != nullptr && files_.Migrate(*record->kernel_id, *file_) == 0;
  connection->Adopt(request, record, migrated);
}

void RdmaCmFabric::Carry(const FabricAdopted& request) {
  if (unadopted_.erase(request.device) != 0 && unadopted_.empty()) TakeOver();
}

RdmaCmFabric::KnownDevice* RdmaCmFabric::FindAdopted(DeviceId id, std::optional<uint32_t> index) {
  const auto device = devices_.find(id);
  if (device == devices_.end()) return nullptr;
  if (!index || *index == device->second.found.index) return &device->second;
  Renew(id);
  return nullptr;
}

void RdmaCmFabric::Renew(DeviceId id) {
  const auto renewed = devices_.extract(id);
  KnownDevice& device = renewed.mapped();
  if (device.sentinel) surroundings_.Destroy(*device.sentinel, [] {});
  LogWarning("device gone while there was no process, with all that was on it, and come again",
             {{"device", device.found.name}});
  reports_.Push(DeviceRemoved{id});
  AddDevice(std::move(device.found));
}

void RdmaCmFabric::TakeOver() {
  RepeatEvents();
  ReadAllEvents();
}

void RdmaCmFabric::CloseOld() {
  const auto old = std::make_shared<std::vector<UniqueFd>>(files_.GiveUpOld());
  if (old->empty()) return GoOn();
  pool_.Run(
      [old] {
        old->clear();
        return 0;
      },
      [this](int) { pool_.Run(files_.Await(), [this](int error) { OldAreClosed(error); }); });
}

void RdmaCmFabric::OldAreClosed(int error) {
  ReportQueue::Entry entry(reports_);
  // Otherwise what needs their addresses is tried again for a while.
  if (error != 0) {
    LogWarning("the ids of the process before may still hold addresses", {{"cause", std::strerror(error)}});
  }
  GoOn();
  LogInfo("the kernel's ids are taken over", {{"connections", connections_.size()}});
}

void RdmaCmFabric::RepeatEvents() {
  std::set<KernelId> known;
  for (const auto& [id, connection] : connections_) {
    if (connection->kernel_id()) known.insert(*connection->kernel_id());
  }
  for (const CmEvent& event : journal_->TakeOld()) Repeat(event, known);
}

void RdmaCmFabric::Repeat(const CmEvent& event, const std::set<KernelId>& known) {
  switch (event.type) {
    case CmEventType::kAddressResolved:
    case CmEventType::kRouteResolved:
      // What follows may have been asked for already: CmConnection::GoOn finds out.
    case CmEventType::kDeviceRemoval:
      // It may be there again, under the same name.
      return;
    case CmEventType::kConnectRequest:
      if (known.contains(event.id) || file_ == nullptr || files_.Migrate(event.id, *file_) != 0) return;
      break;
    default:
      break;
  }
  OnEvent(event);
}

// A turn reads no more than there is room for; peers do not make requests as fast as they are read.
void RdmaCmFabric::ReadAllEvents() {
  CmEvent event;
  int error = file_ == nullptr ? EAGAIN : 0;
  while (error == 0) {
    if (journal_->full() && journal_->frees_some()) return;
    // All wait for requests that wait for this.
    error = journal_->full() ? EAGAIN : NextEvent(&event);
    if (error != 0) break;
    // Where it is here already its listener had been, when it came.
    if (event.type == CmEventType::kConnectRequest) files_.Migrate(event.id, *file_);
    OnEvent(event);
  }
  all_read_ = true;
  if (error == EAGAIN) {
    surroundings_.loop.Rearm(file_watch_, EPOLLIN);
  } else {
    LoseFile(error);
  }
  orphans_.EndAnchors([this] {
    ReportQueue::Entry entry(reports_);
    CloseOld();
  });
}

void RdmaCmFabric::GoOn() {
  taking_over_ = false;
  endpoints_.BindMissing(Loop::Now() + kClosingPatience);
  for (const FabricRequest& request : std::exchange(waiting_, {})) Perform(request);
  GoOnWithConnections(ConnectionId());
}

void RdmaCmFabric::GoOnWithConnections(ConnectionId from) {
  auto next = connections_.lower_bound(from);
  for (int i = 0; i < kConnectionsAtATime && next != connections_.end(); ++i, ++next) next->second->GoOn();
  // Nobody else may report anything now.
  StoreRecords();
  go_on_ = TimerId::kNone;
  if (next == connections_.end()) return former_.Forget();
  go_on_ = surroundings_.loop.StartTimer(Loop::Now(), [this, id = next->first] {
    ReportQueue::Entry entry(reports_);
    GoOnWithConnections(id);
  });
}

}  // namespace rdmabroker
