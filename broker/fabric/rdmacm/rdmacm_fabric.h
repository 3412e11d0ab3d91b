// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_RDMACM_FABRIC_H_
#define BROKER_FABRIC_RDMACM_RDMACM_FABRIC_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "broker/fabric/fabric.h"
#include "broker/fabric/local_addresses.h"
#include "broker/fabric/rdmacm/cm_connection.h"
#include "broker/fabric/rdmacm/cm_endpoints.h"
#include "broker/fabric/rdmacm/cookie.h"
#include "broker/fabric/rdmacm/device_events.h"
#include "broker/fabric/rdmacm/device_scan.h"
#include "broker/fabric/rdmacm/unwanted_ids.h"
#include "broker/runtime/executor.h"

namespace rdmabroker {

// The kernel's RDMA devices, InfiniBand, RoCE and iWARP, and its connection manager. The queue pairs are the clients',
// who make them ready by the attributes that come with requests and replies; on iWARP the kernel does.
//
// Devices come and go. Needs no privileges but to open /dev/infiniband/rdma_cm and each device for a moment; no device
// stays open, as that would keep it from being removed.
class RdmaCmFabric final : public Fabric {
 public:
  // Devices are numbered from `first_device`. Executor and watcher outlive it. UNAVAILABLE where the kernel does not
  // tell of addresses or devices; that it has none is no error.
  static absl::StatusOr<std::unique_ptr<RdmaCmFabric>> Open(DeviceId first_device, const RdmaCmOptions& options,
                                                            Executor& executor, Watcher& watcher);
  ~RdmaCmFabric() override;
  RdmaCmFabric(const RdmaCmFabric&) = delete;
  RdmaCmFabric& operator=(const RdmaCmFabric&) = delete;

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;

 private:
  struct KnownDevice {
    FoundDevice found;
    // Bound to one of the device's addresses, so that its removal is told as long as nothing else is.
    std::optional<KernelId> sentinel;
    uint64_t requests = 0;  // That have come to its listeners; each one's connection is numbered by it.
  };

  RdmaCmFabric(DeviceId first_device, const RdmaCmOptions& options, Executor& executor, Watcher& watcher,
               std::unique_ptr<LocalAddresses> addresses, DeviceEvents device_events, uint64_t network_namespace);

  void OpenFile();
  void OnDeviceEvents();
  void OnAddressesChanged();
  void Scan();
  ScanTask NextScan() const;
  // `watch`: file_watch_ when the scan began.
  void OnScanned(WatchId watch, absl::StatusOr<ScanResult> found);
  void ScanLater();
  void AddDevice(FoundDevice found);
  void PlaceSentinel(DeviceId id, KnownDevice& device);
  void ReportDevice(DeviceId id, const FoundDevice& found);
  void RemoveDevice(DeviceId id);

  void OnFileReadable();
  // It does not work any more, and all that it held ends.
  void LoseFile(int error);
  void OnEvent(const CmEvent& event);
  void OnConnectRequest(const CmEvent& event);
  DeviceId DeviceOf(const CookieMeaning& meaning) const;
  // A report on its way out.
  void Deliver(FabricReport report);

  void Carry(const FabricBind& request);
  void Carry(const FabricRepurpose& request) { endpoints_.Repurpose(request); }
  void Carry(const FabricRebind& request) { endpoints_.Rebind(request); }
  void Carry(const FabricUnbind& request) { endpoints_.Unbind(request); }
  void Carry(const FabricConnect& request);
  void Carry(const FabricComplete& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricAccept& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricReject& request) { connections_.at(request.connection)->Perform(request); }
  // The wire has one reason for every reject that a process can give (28, consumer defined).
  void Carry(const FabricRefuse& request) { connections_.at(request.connection)->Perform(FabricReject{}); }
  void Carry(const FabricDisconnect& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricRelease& request) { connections_.at(request.connection)->Release(); }

  const RdmaCmOptions options_;
  const uint64_t network_namespace_;
  const std::unique_ptr<LocalAddresses> addresses_;
  const DeviceEvents device_events_;
  uint64_t next_device_;
  ReportSink sink_;
  ReportQueue reports_;
  std::shared_ptr<const CmFile> file_;  // Null until the kernel has a connection manager for us, and
  absl::Status file_status_;            // this is why.
  BlockingPool pool_;
  UnwantedIds unwanted_;
  const RdmaCmSurroundings surroundings_;
  WatchId file_watch_ = WatchId::kNone;  // Of file_: another one, another watch.
  WatchId address_watch_ = WatchId::kNone;
  WatchId device_watch_ = WatchId::kNone;
  bool scanning_ = false;
  bool scan_again_ = false;
  TimerId scan_retry_ = TimerId::kNone;
  std::map<DeviceId, KnownDevice> devices_;
  std::set<uint32_t> leaving_;  // Indices of devices that are being removed and still seen.
  CmEndpoints endpoints_;
  std::map<ConnectionId, std::unique_ptr<CmConnection>> connections_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_RDMACM_FABRIC_H_
