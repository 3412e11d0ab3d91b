// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_RDMACM_FABRIC_H_
#define BROKER_FABRIC_RDMACM_RDMACM_FABRIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/fabric/fabric.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/handshake_turns.h"
#include "broker/fabric/incoming_ids.h"
#include "broker/fabric/local_addresses.h"
#include "broker/fabric/rdmacm/cm_connection.h"
#include "broker/fabric/rdmacm/cm_endpoints.h"
#include "broker/fabric/rdmacm/cookie.h"
#include "broker/fabric/rdmacm/device_events.h"
#include "broker/fabric/rdmacm/device_scan.h"
#include "broker/fabric/rdmacm/event_journal.h"
#include "broker/fabric/rdmacm/kept_files.h"
#include "broker/fabric/rdmacm/orphans.h"
#include "broker/fabric/rdmacm/unwanted_ids.h"
#include "broker/fabric/route.h"
#include "broker/runtime/descriptor_keep.h"

namespace rdmabroker {

// What outlives the process: its fabric finds here what the one before it has left, and leaves what the next needs.
struct RdmaCmPast {
  // A device that the core knows of, if only because something of it is still to be given up.
  struct Device {
    DeviceId id;
    std::string name;
    bool removed = false;
  };

  DescriptorKeep& keep;    // The two outlive the fabric. Descriptors are kept by names that begin with "c", "o" or "j".
  FabricRecords& records;  // Without those of objects that the core has not.
  std::vector<Device> devices;
  // There are no records, so that what is connected all the same is left to the queue pairs' owners.
  bool unrecorded = false;

  // Whether a process has something to lose that goes on without the fabric. To be asked before there is one.
  bool HoldsConnections() const;
};

// The kernel's RDMA devices, InfiniBand, RoCE and iWARP, and its connection manager. The queue pairs are the clients',
// who make them ready by the attributes that come with requests and replies; on iWARP the kernel does.
//
// Devices come and go. Needs no privileges but to open /dev/infiniband/rdma_cm and each device for a moment; no device
// stays open, as that would keep it from being removed.
class RdmaCmFabric final : public Fabric {
 public:
  // The kernel tells of an address at once, while a work queue enters it into a RoCE device's table of GIDs, without
  // which no id is bound to it (drivers/infiniband/core/roce_gid_mgmt.c). That is told only to those who have the
  // device open. So devices are looked at again after each change, and after the start, this long after the look
  // before. A work queue takes milliseconds, and seconds on a machine that is too busy.
  static constexpr std::array kLooksAgain = {absl::Milliseconds(100), absl::Seconds(1), absl::Seconds(10)};

  // Devices are numbered from `first_device`, which has 15 bits, and above those of `past`. The loop outlives it.
  // UNAVAILABLE where the kernel does not tell of addresses or devices; that it has none is no error. Nor is it that
  // the kernel's connection manager cannot be opened, but where there is something of the process before in it: after
  // another error nothing of that is lost, and another process may take it over.
  static absl::StatusOr<std::unique_ptr<RdmaCmFabric>> Open(DeviceId first_device, const RdmaCmOptions& options,
                                                            const RdmaCmPast& past, Loop& loop);
  ~RdmaCmFabric() override;
  RdmaCmFabric(const RdmaCmFabric&) = delete;
  RdmaCmFabric& operator=(const RdmaCmFabric&) = delete;

  void Start(ReportSink sink) override;
  void Perform(const FabricRequest& request) override;
  Route RouteTo(const SocketAddress& destination) const override { return KernelRouteTo(destination); }
  void MakeWay() override;
  // They go on in the next process, but for what a death in the middle of a step costs.
  bool HasHandshakes() const override;

 private:
  struct KnownDevice {
    FoundDevice found;
    // Bound to one of the device's addresses, so that its removal is told as long as nothing else is.
    std::optional<KernelId> sentinel;
  };

  RdmaCmFabric(DeviceId first_device, const RdmaCmOptions& options, const RdmaCmPast& past, Loop& loop,
               std::unique_ptr<LocalAddresses> addresses, DeviceEvents device_events, uint64_t network_namespace);

  // What may fail of taking over. After an error nothing has been moved.
  absl::Status Prepare(DescriptorKeep& keep);
  void OpenFile();
  void OnDeviceEvents();
  void OnAddressesChanged();
  // Of addresses or devices.
  void OnChange();
  void Scan();
  ScanTask NextScan() const;
  // `watch`: file_watch_ when the scan began.
  void OnScanned(WatchId watch, absl::StatusOr<ScanResult> found);
  void ScanAfter(absl::Duration pause);
  void AddDevice(FoundDevice found);
  // An id that the core has for it, or a new one.
  DeviceId NewId(const FoundDevice& found);
  void PlaceSentinel(DeviceId id, KnownDevice& device);
  Device Describe(DeviceId id, const FoundDevice& found) const;
  void ReportDevice(DeviceId id, const FoundDevice& found);
  void RemoveDevice(DeviceId id);

  int NextEvent(CmEvent* event);
  void OnFileReadable();
  void OnJournalRoom();
  // It does not work any more, and all that it held ends.
  void LoseFile(int error);
  void OnEvent(const CmEvent& event);
  void OnConnectRequest(const CmEvent& event);
  void Refuse(const CmEvent& request);
  DeviceId DeviceOf(const CookieMeaning& meaning) const;

  // --- Taking over (take_over.cc) ---
  // All has been adopted that will be.
  void TakeOver();
  // The events that the process before had read.
  void RepeatEvents();
  // `known`: the ids of connections that there are.
  void Repeat(const CmEvent& event, const std::set<KernelId>& known);
  void ReadAllEvents();
  // Those of the processes before.
  void CloseOld();
  // The wait for the supervisor to close those files is over. `error` is 0, or why they may still be open: an errno.
  void OldAreClosed(int error);
  // Nothing is held by the processes before any more.
  void GoOn();
  // From that one on, in the order of their ids.
  void GoOnWithConnections(ConnectionId from);
  // The device that something was on, which had `index` then; null: it has gone.
  KnownDevice* FindAdopted(DeviceId id, std::optional<uint32_t> index);
  // It has gone, and the one that has come in its place has its name.
  void Renew(DeviceId id);

  void BeginNext();
  void StoreRecords();
  // A report on its way out.
  void Deliver(FabricReport report);

  void Carry(const FabricBind& request);
  void Carry(const FabricRepurpose& request) { endpoints_.Repurpose(request); }
  void Carry(const FabricRebind& request);
  void Carry(const FabricUnbind& request) { endpoints_.Unbind(request); }
  void Carry(const FabricConnect& request);
  void Carry(const FabricComplete& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricAccept& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricReject& request) { connections_.at(request.connection)->Perform(request); }
  // The wire has one reason for every reject that a process can give (28, consumer defined).
  void Carry(const FabricRefuse& request) { connections_.at(request.connection)->Perform(FabricReject{}); }
  void Carry(const FabricDisconnect& request) { connections_.at(request.connection)->Perform(request); }
  void Carry(const FabricRelease& request) { connections_.at(request.connection)->Release(); }
  void Carry(const FabricAdoptEndpoint& request);
  void Carry(const FabricAdoptConnection& request);
  void Carry(const FabricAdopted& request);

  const RdmaCmOptions options_;
  FabricRecords& records_;
  const uint64_t network_namespace_;
  const std::unique_ptr<LocalAddresses> addresses_;
  const DeviceEvents device_events_;
  IncomingIds incoming_ids_;
  uint64_t next_device_;
  std::vector<RdmaCmPast::Device> known_;        // That the core knows and the first scan has not found.
  const std::map<DeviceId, uint32_t> recorded_;  // Their indices, where a record tells.
  const bool unrecorded_;
  std::optional<ScanResult> first_scan_;  // Until Start.
  std::set<DeviceId> unadopted_;          // Those of them for which FabricAdopted has not come.
  // All is adopted that will be, and the events are read that there were then. The watch reads none before.
  bool all_read_ = false;
  bool taking_over_ = true;            // Until the processes before hold nothing any more.
  std::deque<FabricRequest> waiting_;  // For that; adopting does not wait.
  TimerId go_on_ = TimerId::kNone;
  KeptFiles files_;
  ReportSink sink_;
  ReportQueue reports_;
  std::shared_ptr<const CmFile> file_;  // Null until the kernel has a connection manager for us.
  absl::Status file_status_;            // Why it is null.
  BlockingPool pool_;
  UnwantedIds unwanted_;
  WarningLimit losses_, moves_;
  FormerIds former_;
  HandshakeTurns turns_;
  TimerId begin_ = TimerId::kNone;
  std::unique_ptr<EventJournal> journal_;
  Orphans orphans_;
  const RdmaCmSurroundings surroundings_;
  WatchId file_watch_ = WatchId::kNone;  // Of file_: another one, another watch.
  WatchId address_watch_ = WatchId::kNone;
  WatchId device_watch_ = WatchId::kNone;
  bool scanning_ = false;
  bool scan_again_ = false;
  TimerId scan_timer_ = TimerId::kNone;
  size_t looks_again_ = 0;  // Since the last change, the one that is due included.
  std::map<DeviceId, KnownDevice> devices_;
  std::set<uint32_t> leaving_;  // Indices of devices that are being removed and still seen.
  CmEndpoints endpoints_;
  std::map<ConnectionId, std::unique_ptr<CmConnection>> connections_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_RDMACM_FABRIC_H_
