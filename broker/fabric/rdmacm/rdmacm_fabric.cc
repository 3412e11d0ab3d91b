// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/rdmacm_fabric.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "broker/fabric/rdmacm/cm_records.h"
#include "broker/fabric/rdmacm/cookie.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

constexpr char kFileNames[] = "c";

// After a scan that found out nothing.
constexpr absl::Duration kScanPause = absl::Seconds(1);
// One turn of the loop; those that wait longer have theirs at the next.
constexpr int kEventsAtATime = 64;

void LogRename(const std::string& former, const std::string& now) {
  LogInfo("device renamed", {{"device", now}, {"former", former}});
}

}  // namespace

// Without records nobody knows what is in a file that is kept; orphans' are kept as long as there are any.
bool RdmaCmPast::HoldsConnections() const {
  return !devices.empty() || (unrecorded && keep.HasInherited(kFileNames)) || Orphans::AreKept(keep);
}

absl::StatusOr<std::unique_ptr<RdmaCmFabric>> RdmaCmFabric::Open(DeviceId first_device, const RdmaCmOptions& options,
                                                                 const RdmaCmPast& past, Loop& loop) {
  const absl::StatusOr<uint64_t> network_namespace = NetworkNamespace();
  if (!network_namespace.ok()) return network_namespace.status();
  absl::StatusOr<std::unique_ptr<LocalAddresses>> addresses = LocalAddresses::Open();
  if (!addresses.ok()) return addresses.status();
  absl::StatusOr<DeviceEvents> device_events = DeviceEvents::Open();
  if (!device_events.ok()) return device_events.status();
  std::unique_ptr<RdmaCmFabric> fabric(new RdmaCmFabric(first_device, options, past, loop, *std::move(addresses),
                                                        *std::move(device_events), *network_namespace));
  if (absl::Status prepared = fabric->Prepare(past.keep); !prepared.ok()) {
    fabric->files_.GiveUpOwn();
    return prepared;
  }
  return fabric;
}

RdmaCmFabric::RdmaCmFabric(DeviceId first_device, const RdmaCmOptions& options, const RdmaCmPast& past, Loop& loop,
                           std::unique_ptr<LocalAddresses> addresses, DeviceEvents device_events,
                           uint64_t network_namespace)
    : options_(options),
      records_(past.records),
      network_namespace_(network_namespace),
      addresses_(std::move(addresses)),
      device_events_(std::move(device_events)),
      incoming_ids_(first_device),
      next_device_(first_device.value()),
      known_(past.devices),
      recorded_(RecordedIndices(past.records)),
      unrecorded_(past.unrecorded),
      files_(past.keep, kFileNames),
      reports_([this](FabricReport report) { Deliver(std::move(report)); }),
      pool_(loop),
      unwanted_([this] { surroundings_.loop.Rearm(file_watch_, EPOLLIN); }),
      turns_(options_.handshakes.per_listener),
      orphans_(past.keep, pool_, loop),
      surroundings_{options_,
                    file_,
                    records_,
                    loop,
                    pool_,
                    reports_,
                    unwanted_,
                    losses_,
                    moves_,
                    former_,
                    turns_,
                    [this] { BeginNext(); },
                    [this] { StoreRecords(); }},
      endpoints_(surroundings_) {
  for (const RdmaCmPast::Device& device : known_) {
    next_device_ = std::max(next_device_, device.id.value() + 1);
    unadopted_.insert(device.id);
  }
}

RdmaCmFabric::~RdmaCmFabric() {
  for (const WatchId watch : {file_watch_, address_watch_, device_watch_}) surroundings_.loop.Unwatch(watch);
  for (const TimerId timer : {scan_timer_, go_on_, begin_}) surroundings_.loop.CancelTimer(timer);
}

absl::Status RdmaCmFabric::Prepare(DescriptorKeep& keep) {
  auto journal = EventJournal::Open(keep, surroundings_.loop, [this] { OnJournalRoom(); });
  if (!journal.ok()) return journal.status();
  journal_ = *std::move(journal);
  OpenFile();
  if (file_ == nullptr && files_.HasOld()) return file_status_;
  if (!known_.empty()) {
    // Devices that are not found now are lost for good.
    absl::StatusOr<ScanResult> found = ScanDevices(NextScan());
    if (!found.ok()) return found.status();
    first_scan_ = *std::move(found);
  }
  if (files_.HasOld() && (unrecorded_ || !known_.empty())) {
    if (absl::Status kept = files_.KeepSurely(file_->descriptor()); !kept.ok()) return kept;
  }
  return orphans_.TakeOver(unrecorded_ ? &files_ : nullptr);
}

void RdmaCmFabric::Start(ReportSink sink) {
  sink_ = std::move(sink);
  Loop& loop = surroundings_.loop;
  address_watch_ = loop.Watch(addresses_->descriptor(), EPOLLIN, [this](uint32_t) { OnAddressesChanged(); });
  device_watch_ = loop.Watch(device_events_.descriptor(), EPOLLIN, [this](uint32_t) { OnDeviceEvents(); });
  // Here and not in the pool: nobody is served yet, and whoever is first finds all devices.
  ReportQueue::Entry entry(reports_);
  OnScanned(file_watch_, first_scan_ ? *std::move(first_scan_) : ScanDevices(NextScan()));
  for (const RdmaCmPast::Device& gone : std::exchange(known_, {})) {
    if (!gone.removed) {
      LogWarning("device gone while there was no process, with all that was on it", {{"device", gone.name}});
    }
    reports_.Push(DeviceRemoved{gone.id});
  }
  if (unadopted_.empty()) TakeOver();
}

void RdmaCmFabric::Perform(const FabricRequest& request) {
  ReportQueue::Entry entry(reports_);
  const bool adopts = std::holds_alternative<FabricAdoptEndpoint>(request) ||
                      std::holds_alternative<FabricAdoptConnection>(request) ||
                      std::holds_alternative<FabricAdopted>(request);
  // As there are no turns, it goes no further than to the records.
  const bool left_to_next = turns_.held() && std::holds_alternative<FabricConnect>(request);
  if (taking_over_ && !adopts && !left_to_next) return waiting_.push_back(request);
  std::visit([this](const auto& typed) { Carry(typed); }, request);
}

void RdmaCmFabric::MakeWay() {
  ReportQueue::Entry entry(reports_);
  turns_.Hold();
  // The core asks for no Connect twice: those that wait here are to be on record.
  for (const FabricRequest& request : std::exchange(waiting_, {})) Perform(request);
}

bool RdmaCmFabric::HasHandshakes() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return entry.second->in_handshake(); });
}

// Where there is none, which makes devices unusable, it is tried again: with their next change, as its module may be
// loaded later, and after a pause, as nothing tells when it may be opened.
void RdmaCmFabric::OpenFile() {
  auto opened = CmFile::Open();
  file_status_ = opened.status();
  if (!opened.ok()) return;
  file_ = *std::move(opened);
  files_.Keep(file_->descriptor());
  file_watch_ = surroundings_.loop.Watch(file_->descriptor(), EPOLLIN, [this](uint32_t) { OnFileReadable(); });
}

void RdmaCmFabric::OnDeviceEvents() {
  if (device_events_.Take()) OnChange();
  surroundings_.loop.Rearm(device_watch_, EPOLLIN);
}

void RdmaCmFabric::OnAddressesChanged() {
  addresses_->Refresh();
  OnChange();
  surroundings_.loop.Rearm(address_watch_, EPOLLIN);
}

void RdmaCmFabric::OnChange() {
  looks_again_ = 0;
  Scan();
}

void RdmaCmFabric::Scan() {
  if (std::exchange(scanning_, true)) {
    scan_again_ = true;
    return;
  }
  if (file_ == nullptr) OpenFile();
  auto found = std::make_shared<absl::StatusOr<ScanResult>>();
  pool_.Run(
      [found, task = NextScan()] {
        *found = ScanDevices(task);
        return 0;
      },
      [this, watch = file_watch_, found](int) {
        ReportQueue::Entry entry(reports_);
        OnScanned(watch, std::move(*found));
      });
}

ScanTask RdmaCmFabric::NextScan() const {
  ScanTask task = {
      .connection_manager = file_status_, .ips = addresses_->addresses(), .known = {}, .leaving = leaving_};
  for (const auto& [id, device] : devices_) {
    if (device.found.info.technology == RdmaTechnology::kUndefined) continue;
    task.known[device.found.index] = device.found.info;
  }
  return task;
}

void RdmaCmFabric::ScanAfter(absl::Duration pause) {
  surroundings_.loop.CancelTimer(scan_timer_);
  scan_timer_ = surroundings_.loop.StartTimer(Loop::Now() + pause, [this] {
    const absl::Status before = file_status_;
    if (file_ == nullptr) OpenFile();
    // Nothing is to be found out at the devices as long as somebody must let us have the file.
    CmFile::WaitsForSomebody(before) && file_status_ == before ? ScanAfter(kScanPause) : Scan();
  });
}

void RdmaCmFabric::OnScanned(WatchId watch, absl::StatusOr<ScanResult> found) {
  scanning_ = false;
  // What it says of the connection manager is over.
  if (watch != file_watch_) return Scan();
  if (!found.ok()) {
    LogWarning("devices not known", {{"cause", found.status().message()}});
    return ScanAfter(kScanPause);
  }
  std::set<uint32_t> seen;
  for (FoundDevice& device : found->devices) {
    seen.insert(device.index);
    if (!leaving_.contains(device.index)) AddDevice(std::move(device));
  }
  std::vector<DeviceId> gone;
  for (const auto& [id, device] : devices_) {
    if (!seen.contains(device.found.index)) gone.push_back(id);
  }
  // An index that is there no more may come again, as a device does that visits another network namespace.
  std::erase_if(leaving_, [&](uint32_t index) { return !seen.contains(index) && !found->leaving.contains(index); });
  for (const DeviceId id : gone) RemoveDevice(id);
  if (std::exchange(scan_again_, false)) return Scan();
  if (!file_status_.ok() && !found->devices.empty()) return ScanAfter(kScanPause);
  if (looks_again_ < kLooksAgain.size()) ScanAfter(kLooksAgain[looks_again_++]);
}

void RdmaCmFabric::AddDevice(FoundDevice found) {
  const auto known = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const auto& entry) { return entry.second.found.index == found.index; });
  if (known == devices_.end()) {
    const DeviceId id = NewId(found);
    ReportDevice(id, found);
    KnownDevice& device = devices_[id];
    device.found = std::move(found);
    return PlaceSentinel(id, device);
  }
  KnownDevice& device = known->second;
  if (device.found.name != found.name) LogRename(device.found.name, found.name);
  if (device.found != found) {
    ReportDevice(known->first, found);
    device.found = std::move(found);
  }
  PlaceSentinel(known->first, device);
}

// By its index where that is known, as the name may have changed, or have become another's.
DeviceId RdmaCmFabric::NewId(const FoundDevice& found) {
  const auto find = [this](const auto& fits) {
    return std::find_if(known_.begin(), known_.end(), [&](const RdmaCmPast::Device& device) {
      const auto recorded = recorded_.find(device.id);
      return !device.removed &&
             fits(device, recorded == recorded_.end() ? std::nullopt : std::optional(recorded->second));
    });
  };
  auto known = find([&](const auto&, std::optional<uint32_t> index) { return index == found.index; });
  if (known == known_.end()) {
    known =
        find([&](const auto& device, std::optional<uint32_t> index) { return !index && device.name == found.name; });
  }
  if (known == known_.end()) return DeviceId(next_device_++);
  const DeviceId id = known->id;
  if (known->name != found.name) LogRename(known->name, found.name);
  known_.erase(known);
  return id;
}

void RdmaCmFabric::PlaceSentinel(DeviceId id, KnownDevice& device) {
  if (device.sentinel || file_ == nullptr || device.found.addresses.empty()) return;
  KernelId sentinel{};
  if (file_->CreateDatagram(CookieOf(id), &sentinel) != 0) return;
  device.sentinel = sentinel;
  // Another device may have got the address since the scan: its removal is not this one's.
  if (file_->BindOn(sentinel, {device.found.addresses.front(), 0}, device.found.index) == 0) return;
  surroundings_.Destroy(*std::exchange(device.sentinel, std::nullopt), [] {});
}

Device RdmaCmFabric::Describe(DeviceId id, const FoundDevice& found) const {
  Device device;
  device.id = id;
  device.name = found.name;
  device.info = found.info;
  device.network_namespace = network_namespace_;
  device.port_space = found.iwarp ? PortSpace::kTcp : PortSpace::kRdmaCm;
  device.addresses = found.addresses;
  device.keeps_qps_until_released = found.iwarp;
  device.unusable_reason = found.unusable_reason;
  device.mtu = found.mtu;
  return device;
}

void RdmaCmFabric::ReportDevice(DeviceId id, const FoundDevice& found) {
  LogInfo("device found", {{"device", found.name},
                           {"usable", found.unusable_reason.empty()},
                           {"cause", found.unusable_reason},
                           {"mtu", found.mtu}});
  reports_.Push(DeviceChanged{Describe(id, found)});
}

// The kernel removes it when nobody has it open; until then a scan would find it.
void RdmaCmFabric::RemoveDevice(DeviceId id) {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return;
  leaving_.insert(found->second.found.index);
  if (found->second.sentinel) surroundings_.Destroy(*found->second.sentinel, [] {});
  LogInfo("device gone", {{"device", found->second.found.name}});
  devices_.erase(found);
  for (const auto& [number, connection] : connections_) {
    if (connection->device() == id) connection->LoseDevice();
  }
  reports_.Push(DeviceRemoved{id});
}

int RdmaCmFabric::NextEvent(CmEvent* event) {
  return journal_->Next([this](RawCmEvent* into) { return file_->NextEvent(into); }, event);
}

void RdmaCmFabric::OnFileReadable() {
  if (!all_read_) return;
  ReportQueue::Entry entry(reports_);
  CmEvent event;
  for (int i = 0; i < kEventsAtATime && !unwanted_.many() && !journal_->full(); ++i) {
    const int error = NextEvent(&event);
    if (error == EAGAIN) break;
    if (error != 0) return LoseFile(error);
    OnEvent(event);
  }
  if (!unwanted_.many() && !journal_->full()) surroundings_.loop.Rearm(file_watch_, EPOLLIN);
}

void RdmaCmFabric::OnJournalRoom() {
  if (all_read_) return surroundings_.loop.Rearm(file_watch_, EPOLLIN);
  ReportQueue::Entry entry(reports_);
  ReadAllEvents();
}

void RdmaCmFabric::LoseFile(int error) {
  LogError("connection manager lost", {{"cause", std::strerror(error)}});
  surroundings_.loop.Unwatch(std::exchange(file_watch_, WatchId::kNone));
  files_.ForgetOwn();
  for (const auto& [id, connection] : connections_) connection->LoseId();
  endpoints_.LoseIds();
  for (const auto& [id, device] : devices_) {
    LogInfo("device gone", {{"device", device.found.name}});
    reports_.Push(DeviceRemoved{id});
  }
  devices_.clear();
  file_status_ = absl::ErrnoToStatus(error, "connection manager");
  // The kernel ends all ids with the file, which may block. The devices are found again with the next.
  pool_.Run([file = std::exchange(file_, nullptr)] { return 0; }, [this](int) { Scan(); });
}

void RdmaCmFabric::OnEvent(const CmEvent& event) {
  if (event.type == CmEventType::kConnectRequest) return OnConnectRequest(event);
  const CookieMeaning meaning = MeaningOf(event.cookie);
  if (event.type == CmEventType::kDeviceRemoval) {
    // The endpoint may have let go of this id, and be on another device now.
    const auto* endpoint = std::get_if<EndpointId>(&meaning);
    if (endpoint != nullptr && !endpoints_.Holds(*endpoint, event.id)) return;
    return RemoveDevice(DeviceOf(meaning));
  }
  const auto* id = std::get_if<ConnectionId>(&meaning);
  if (id == nullptr) return;
  if (const auto found = connections_.find(*id); found != connections_.end()) found->second->OnEvent(event);
}

DeviceId RdmaCmFabric::DeviceOf(const CookieMeaning& meaning) const {
  if (const auto* device = std::get_if<DeviceId>(&meaning)) return *device;
  if (const auto* endpoint = std::get_if<EndpointId>(&meaning)) return endpoints_.DeviceOf(*endpoint);
  const auto found = connections_.find(std::get<ConnectionId>(meaning));
  return found == connections_.end() ? DeviceId() : found->second->device();
}

void RdmaCmFabric::OnConnectRequest(const CmEvent& event) {
  const CookieMeaning meaning = MeaningOf(event.cookie);
  const auto* listener = std::get_if<EndpointId>(&meaning);
  const auto device = devices_.find(DeviceOf(meaning));
  if (listener == nullptr || device == devices_.end() || !endpoints_.Listens(*listener)) return Refuse(event);
  const CmDevice of = {device->first, device->second.found.index, !device->second.found.iwarp};
  const ConnectionId id = incoming_ids_.Next();
  auto connection = std::make_unique<CmConnection>(surroundings_, of, id);
  if (!connection->Start(*listener, event, device->second.found.addresses)) return Refuse(event);
  connections_[id] = std::move(connection);
}

void RdmaCmFabric::Refuse(const CmEvent& request) {
  EventJournal::Forget(request);
  surroundings_.DestroyUnwanted(request.id, [] {});
}

// In a timer, as a turn of the loop reads events before it runs timers: what begins is stored with its id at the turn's
// end, and the events that let its CONNECT leave are read in a later turn. So the next process finds all that has left.
void RdmaCmFabric::BeginNext() {
  if (begin_ != TimerId::kNone) return;
  begin_ = surroundings_.loop.StartTimer(Loop::Now(), [this] {
    ReportQueue::Entry entry(reports_);
    begin_ = TimerId::kNone;
    turns_.BeginNext();
    StoreRecords();
  });
}

// What has been noted is stored with a report only; this one says nothing new.
void RdmaCmFabric::StoreRecords() {
  if (devices_.empty()) return;
  const auto& [id, device] = *devices_.begin();
  reports_.Push(DeviceChanged{Describe(id, device.found)});
}

void RdmaCmFabric::Deliver(FabricReport report) {
  if (const auto* released = std::get_if<FabricReleased>(&report)) connections_.erase(released->connection);
  sink_(std::move(report));
}

void RdmaCmFabric::Carry(const FabricBind& request) {
  const auto device = devices_.find(request.device);
  if (device == devices_.end()) {
    return reports_.Push(FabricBindFailed{request.endpoint, NdkStatus::kDeviceRemoved, ENODEV});
  }
  endpoints_.Bind(request, device->second.found.index, device->second.found.addresses);
}

void RdmaCmFabric::Carry(const FabricRebind& request) {
  const auto device = devices_.find(request.device);
  // If the device has gone, the core is about to learn of it.
  if (device != devices_.end()) endpoints_.Rebind(request, device->second.found.index);
}

void RdmaCmFabric::Carry(const FabricConnect& request) {
  const auto device = devices_.find(request.device);
  CmDevice of = {.id = request.device};
  if (device != devices_.end()) {
    of.index = device->second.found.index;
    of.three_way = !device->second.found.iwarp;
  }
  auto& connection = connections_[request.connection] =
      std::make_unique<CmConnection>(surroundings_, of, request.connection);
  // Of a device that has gone meanwhile the core ends everything by itself.
  if (device == devices_.end()) return;
  connection->Start(request);
}

}  // namespace rdmabroker
