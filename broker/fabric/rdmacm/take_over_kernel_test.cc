// SPDX-License-Identifier: Apache-2.0

// What becomes of a dead process's endpoints and connections, on the one RDMA device of this machine, which RDMA_DEVICE
// names and whose address is 10.77.0.1: tests/vm/conformance makes such a machine. What the dead process has done is
// done here by the kernel's ABI, step by step, so that it can have died after each.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/cm_records.h"
#include "broker/fabric/rdmacm/cookie.h"
#include "broker/fabric/rdmacm/event_journal.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "broker/fabric/rdmacm/testing/silent_peers.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/unique_fd.h"
#include "dataplane/verbs/device/connection_ids.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kFirstDevice(2);  // That this process finds, if there are none before.
constexpr DeviceId kDevice(7);
constexpr EndpointId kFrom(11), kListener(12), kNextFrom(13);
constexpr ConnectionId kOwn(21), kNext(22);
constexpr ConnectionId kIncoming = IncomingConnection(kDevice, 500);
constexpr SessionId kSession(31);
constexpr ReadLimits kLimits = {2, 1};

constexpr absl::Duration kPatience = absl::Seconds(60);
// What is still to come comes within this. Too short, a test might pass that should fail.
constexpr absl::Duration kQuiet = absl::Milliseconds(200);
// As many looks for a queue pair as may fail to find it, and one more.
constexpr absl::Duration kLooks = absl::Seconds(4);

// How far an attempt of ours had come when its process died.
enum class Step : uint8_t {
  kCreated,
  kResolvingAddress,  // Has ended with an event that nobody has read.
  kAddressResolved,
  kResolvingRoute,  // Likewise.
  kRouteResolved,
  kConnecting
};

class TakeOver : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    name_ = device;
    ASSERT_TRUE(queue_pairs_.Open());
    OpenOld("c1");
  }

  bool iwarp() const { return queue_pairs_.iwarp(); }

  // --- The process before ---
  void OpenOld(const char* name) {
    auto opened = CmFile::Open();
    ASSERT_TRUE(opened.ok()) << opened.status();
    old_ = *std::move(opened);
    ASSERT_TRUE(supervisor_.Store(name, old_->descriptor()).ok());
  }
  void AwaitOldEvent() const {
    pollfd readable = {.fd = old_->descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&readable, 1, 60'000), 1) << "no event has come";
  }
  CmEvent ReadOldEvent() const {
    CmEvent event;
    AwaitOldEvent();
    EXPECT_EQ(old_->NextEvent(&event), 0);
    return event;
  }
  // It had read the event, and died before what came of it was stored.
  CmEvent ReadLastEvent() {
    if (journal_ == nullptr) OpenJournal();
    CmEvent event;
    AwaitOldEvent();
    EXPECT_EQ(journal_->Next([this](RawCmEvent* into) { return old_->NextEvent(into); }, &event), 0);
    last_.push_back(event);
    return event;
  }
  void OpenJournal() {
    DescriptorKeep keep(supervisor_);
    auto opened = EventJournal::Open(keep, loop_, [] {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    journal_ = *std::move(opened);
  }
  KernelId BindOld(EndpointId endpoint, EndpointUse use, uint16_t port = 0) {
    KernelId id{};
    CmAddresses at;
    EXPECT_EQ(old_->Create(CookieOf(endpoint), &id), 0);
    EXPECT_EQ(old_->Bind(id, {ip_, port}), 0);
    EXPECT_EQ(use == EndpointUse::kListener ? old_->Listen(id) : old_->ShareAddress(id), 0);
    EXPECT_EQ(old_->QueryAddresses(id, &at), 0);
    (use == EndpointUse::kListener ? listener_ : from_) = at.local;
    return id;
  }
  void RecordEndpoint(EndpointId endpoint, KernelId id, bool listens) {
    records_.endpoints[endpoint] =
        Encode(CmEndpointRecord{queue_pairs_.device_index(), {{ip_, CmAnchor{id, listens}}}, kDevice});
  }
  void BindOldListener() { RecordEndpoint(kListener, BindOld(kListener, EndpointUse::kListener), true); }
  void BindOldFrom() { RecordEndpoint(kFrom, BindOld(kFrom, EndpointUse::kDedicated), false); }
  CmConnectionRecord Record(KernelId id) const {
    CmConnectionRecord record;
    record.device_index = queue_pairs_.device_index();
    record.device = kDevice;
    record.kernel_id = id;
    record.session = kSession;
    record.peer = ip_.ToString();
    return record;
  }
  // An attempt of ours towards the peer's listener.
  KernelId StartOld(Step step, const SocketAddress& peer, int32_t process = ::getpid()) {
    BindOldFrom();
    KernelId id{};
    EXPECT_EQ(old_->Create(CookieOf(kOwn), &id), 0);
    CmConnectionRecord record = Record(id);
    record.qp = queue_pairs_.Make();
    record.process = process;
    record.limits = kLimits;
    record.private_data = {5, 6, 7};
    records_.connections[kOwn] = Encode(record);
    if (step == Step::kCreated) return id;
    EXPECT_EQ(old_->ShareAddress(id), 0);
    EXPECT_EQ(old_->ResolveAddress(id, from_, peer), 0);
    AwaitOldEvent();
    if (step == Step::kResolvingAddress) return id;
    EXPECT_EQ(ReadOldEvent().type, CmEventType::kAddressResolved);
    if (step == Step::kAddressResolved) return id;
    EXPECT_EQ(old_->ResolveRoute(id), 0);
    AwaitOldEvent();
    if (step == Step::kResolvingRoute) return id;
    EXPECT_EQ(ReadOldEvent().type, CmEventType::kRouteResolved);
    if (step == Step::kRouteResolved) return id;
    EXPECT_EQ(old_->Connect(id, {record.qp, record.limits, record.private_data}), 0);
    return id;
  }
  // One of the peer's requests, which the dead process had read.
  KernelId RequestOld() {
    const KernelId id = RequestOldBy([this] { return ReadOldEvent(); });
    records_.connections[kIncoming] = Encode(Record(id));
    return id;
  }
  KernelId RequestOldBy(const std::function<CmEvent()>& read) {
    BindOldListener();
    active_ = peer_.New();
    EXPECT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
    const CmEvent event = read();
    EXPECT_EQ(event.type, CmEventType::kConnectRequest);
    EXPECT_EQ(old_->QueryAddresses(event.id, &requested_), 0);
    return event.id;
  }
  // Accepts it, as far as the peer's third message where there is one.
  void AcceptOld(KernelId request) {
    CmConnectionRecord record = Record(request);
    record.accepted = true;
    records_.connections[kIncoming] = Encode(record);
    EXPECT_EQ(old_->Accept(request, CookieOf(kIncoming), {.qp = queue_pairs_.Make(), .limits = kLimits}), 0);
  }
  // An established connection of ours, and the peer's id.
  std::pair<KernelId, KernelId> EstablishOld() {
    const SocketAddress at = peer_.Listen();
    const KernelId id = StartOld(Step::kConnecting, at);
    const CmEvent request = peer_.Await();
    EXPECT_EQ(peer_.file->Accept(request.id, CmProcess::kCookie, {.qp = peer_.queue_pairs.Make()}), 0);
    ReadOldEvent();
    if (!iwarp()) {
      EXPECT_EQ(old_->Establish(id), 0);
    }
    EXPECT_EQ(peer_.Await().type, CmEventType::kEstablished);
    peers_listener_ = at;
    return {id, request.id};
  }

  // --- The process that takes over ---
  void Begin(std::vector<RdmaCmPast::Device> devices, bool unrecorded = false) {
    journal_.reset();
    last_.clear();
    old_.reset();
    supervisor_.Restart();
    keep_ = std::make_unique<DescriptorKeep>(supervisor_);
    auto opened = RdmaCmFabric::Open(kFirstDevice, options_, {*keep_, records_, std::move(devices), unrecorded}, loop_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    fabric_ = *std::move(opened);
    fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
    keep_->Committed();
  }
  void Begin() { Begin({{kDevice, name_, false}}); }
  void Perform(const FabricRequest& request) {
    fabric_->Perform(request);
    keep_->Committed();
  }
  FabricAdoptEndpoint Endpoint(EndpointId id) const {
    const bool listens = id == kListener;
    const SocketAddress at = listens ? listener_ : from_;
    return {kDevice, id, listens ? EndpointUse::kListener : EndpointUse::kDedicated, {ip_}, at.port};
  }
  FabricAdoptConnection Own(AdoptedStage stage) const { return {kDevice, kOwn, kFrom, stage, from_, peers_listener_}; }
  FabricAdoptConnection Incoming(AdoptedStage stage) const {
    return {kDevice, kIncoming, kListener, stage, requested_.local, requested_.peer};
  }
  // The process is the first, and has an address to connect from to a peer that listens.
  void BindFirst() {
    Begin();
    Perform(FabricAdopted{kDevice});
    peers_listener_ = peer_.Listen();
    from_ = peer_.FreeAddress();
    Perform(FabricBind{kDevice, kFrom, EndpointUse::kDedicated, {ip_}, from_.port});
    Await<FabricBound>();
  }
  FabricConnect OwnConnect() {
    return {.device = kDevice,
            .connection = kOwn,
            .endpoint = kFrom,
            .session = kSession,
            .qp = queue_pairs_.Make(),
            .local = from_,
            .peer = peers_listener_,
            .limits = kLimits,
            .private_data = {},
            .process = ::getpid()};
  }
  FabricAccept Acceptance() { return {kDevice, kIncoming, kSession, queue_pairs_.Make(), kLimits, {}, ::getpid()}; }
  void TakeOverAll(const std::vector<FabricRequest>& requests) {
    Begin();
    for (const FabricRequest& request : requests) Perform(request);
    Perform(FabricAdopted{kDevice});
  }

  // The first report of the kind; fails the test where none comes.
  template <typename Report>
  Report Await() {
    const absl::Time end = Loop::Now() + kPatience;
    while (true) {
      if (auto report = Take<Report>()) return *report;
      if (Loop::Now() >= end) break;
      loop_.RunTurn(end);
    }
    ADD_FAILURE() << "no " << typeid(Report).name() << " has come";
    return {};
  }
  template <typename Report>
  std::optional<Report> Take() {
    for (auto it = reports_.begin(); it != reports_.end(); ++it) {
      if (const auto* typed = std::get_if<Report>(&*it)) {
        const Report report = *typed;
        reports_.erase(it);
        return report;
      }
    }
    return std::nullopt;
  }
  void Settle() {
    while (loop_.RunTurn(Loop::Now() + kQuiet)) continue;
  }
  CmEvent AwaitPeer() {
    const absl::Time end = Loop::Now() + kPatience;
    while (!peer_.HasEvent(absl::ZeroDuration()) && Loop::Now() < end)
      loop_.RunTurn(Loop::Now() + absl::Milliseconds(10));
    return peer_.Await();
  }
  // The peer accepts what it was asked by this connection.
  void Answer(KernelId asked, ConnectionId by) {
    ASSERT_EQ(peer_.file->Accept(asked, CmProcess::kCookie, {.qp = peer_.queue_pairs.Make()}), 0);
    EXPECT_EQ(Await<FabricReplied>().connection, by);
  }
  // As the peer, once its request is accepted.
  void FinishAsPeer() {
    const CmEvent answer = AwaitPeer();
    EXPECT_EQ(answer.type, iwarp() ? CmEventType::kEstablished : CmEventType::kConnectResponse);
    if (!iwarp()) {
      EXPECT_EQ(peer_.file->Establish(active_), 0);
    }
  }
  bool IsStored(std::string_view name) const {
    const auto& stored = supervisor_.stored();
    return std::any_of(stored.begin(), stored.end(), [&](const KeptDescriptor& kept) { return kept.name == name; });
  }
  // Somebody outside the broker gets it.
  bool IsFree(const SocketAddress& address) const {
    const KernelId id = peer_.New();
    const int error = peer_.file->Bind(id, address);
    peer_.file->Destroy(id);
    EXPECT_TRUE(error == 0 || error == EADDRINUSE) << error;
    return error == 0;
  }

  const IpAddress ip_ = *IpAddress::Parse("10.77.0.1");
  std::string name_;
  CmProcess peer_{ip_};
  QueuePairs queue_pairs_;
  std::shared_ptr<const CmFile> old_;
  FakeSupervisor supervisor_;
  std::unique_ptr<EventJournal> journal_;  // The process before's, once it has read such an event.
  std::vector<CmEvent> last_;
  FabricRecords records_;
  RdmaCmOptions options_;
  SocketAddress from_, listener_, peers_listener_;
  CmAddresses requested_;
  KernelId active_{};  // The peer's.
  Loop loop_;
  std::unique_ptr<DescriptorKeep> keep_;
  std::vector<FabricReport> reports_;
  std::unique_ptr<RdmaCmFabric> fabric_;
};

// The device, if it is an iWARP one, or if it is none.
std::vector<std::string> DeviceIf(bool iwarp) {
  QueuePairs queue_pairs;
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr || !queue_pairs.Open() || queue_pairs.iwarp() != iwarp) return {};
  return {device};
}

// What one of the kernel's connection managers does and the other does not.
class TakeOverOnIwarp : public TakeOver, public testing::WithParamInterface<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TakeOverOnIwarp);
INSTANTIATE_TEST_SUITE_P(On, TakeOverOnIwarp, testing::ValuesIn(DeviceIf(true)));

class TakeOverOnInfiniBand : public TakeOver, public testing::WithParamInterface<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TakeOverOnInfiniBand);
INSTANTIATE_TEST_SUITE_P(On, TakeOverOnInfiniBand, testing::ValuesIn(DeviceIf(false)));

// --- Devices ---

TEST_F(TakeOver, ReportsADeviceThatIsThereUnderItsOldId) {
  Begin();
  const auto changed = Await<DeviceChanged>();
  EXPECT_EQ(changed.device.id, kDevice);
  EXPECT_EQ(changed.device.name, name_);
  EXPECT_FALSE(Take<DeviceRemoved>());
}

TEST_F(TakeOver, ReportsThatADeviceHasGoneAndGivesItsIdToNoOther) {
  Begin({{DeviceId(40), "gone0", false}, {DeviceId(41), name_, true}});
  EXPECT_EQ(Await<DeviceChanged>().device.id, DeviceId(42));
  EXPECT_EQ(Await<DeviceRemoved>().device, DeviceId(40));
  EXPECT_EQ(Await<DeviceRemoved>().device, DeviceId(41));
}

TEST_F(TakeOver, KnowsADeviceThatWasRenamedWhileThereWasNoProcess) {
  BindOldListener();
  Begin({{DeviceId(6), name_, false}, {kDevice, "former", false}});
  const auto changed = Await<DeviceChanged>();
  EXPECT_EQ(changed.device.id, kDevice);
  EXPECT_EQ(changed.device.name, name_);
  EXPECT_EQ(Await<DeviceRemoved>().device, DeviceId(6)) << "the one that had the name then";
  EXPECT_FALSE(Take<DeviceRemoved>());
  Perform(Endpoint(kListener));
  Perform(FabricAdopted{DeviceId(6)});
  Perform(FabricAdopted{kDevice});
  active_ = peer_.New();
  ASSERT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  EXPECT_EQ(Await<FabricConnectRequested>().endpoint, kListener);
}

TEST_F(TakeOver, TakesADeviceOfTheSameNameAndAnotherIndexForAnother) {
  BindOldListener();
  records_.endpoints[kListener] =
      Encode(CmEndpointRecord{queue_pairs_.device_index() + 1, {{ip_, CmAnchor{KernelId{0}, true}}}, kDevice});
  Begin();
  EXPECT_EQ(Await<DeviceChanged>().device.id, DeviceId(kDevice.value() + 1));
  EXPECT_EQ(Await<DeviceRemoved>().device, kDevice);
  Perform(Endpoint(kListener));
  Perform(FabricAdopted{kDevice});
  Perform(FabricUnbind{kDevice, kListener});
  Await<FabricUnbound>();
}

// As an older broker left it, whose records do not name the device.
TEST_F(TakeOver, TakesADeviceThatHasComeInTheOldOnesPlaceForAnother) {
  BindOldListener();
  records_.endpoints[kListener] =
      Encode(CmEndpointRecord{queue_pairs_.device_index() + 1, {{ip_, CmAnchor{KernelId{0}, true}}}, {}});
  Begin();
  EXPECT_EQ(Await<DeviceChanged>().device.id, kDevice);
  Perform(Endpoint(kListener));
  Perform(FabricAdopted{kDevice});
  EXPECT_EQ(Await<DeviceRemoved>().device, kDevice);
  EXPECT_EQ(Await<DeviceChanged>().device.id, DeviceId(kDevice.value() + 1));
  Perform(FabricUnbind{kDevice, kListener});
  Await<FabricUnbound>();
}

// As where a driver has made it come and go for months.
TEST_F(TakeOver, MintsTheIdsOfRequestsWhateverTheDevicesIs) {
  constexpr DeviceId kGone(0x8000);
  Begin({{kGone, name_, true}});
  const DeviceId device = Await<DeviceChanged>().device.id;
  EXPECT_EQ(device, DeviceId(kGone.value() + 1));
  Perform(FabricAdopted{kGone});
  listener_ = peer_.FreeAddress();
  Perform(FabricBind{device, kListener, EndpointUse::kListener, {ip_}, listener_.port});
  Await<FabricBound>();
  active_ = peer_.New();
  ASSERT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  EXPECT_EQ(Await<FabricConnectRequested>().connection, IncomingConnection(kFirstDevice, 1));
}

// --- Endpoints ---

TEST_F(TakeOver, KeepsAListenersPortAndBringsARequestThatNobodyHasRead) {
  BindOldListener();
  active_ = peer_.New();
  ASSERT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  AwaitOldEvent();
  Begin();
  EXPECT_FALSE(IsFree(listener_));
  Perform(Endpoint(kListener));
  EXPECT_FALSE(Take<FabricConnectRequested>()) << "before all has been adopted";
  Perform(FabricAdopted{kDevice});
  const auto request = Await<FabricConnectRequested>();
  EXPECT_EQ(request.endpoint, kListener);
  EXPECT_EQ(request.local, listener_);
  EXPECT_FALSE(IsFree(listener_));
  Perform(FabricAccept{
      kDevice, request.connection, kSession, queue_pairs_.Make(), kLimits, {}, static_cast<int32_t>(::getpid())});
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, request.connection);
  Settle();
  EXPECT_FALSE(IsFree(listener_));
}

TEST_F(TakeOver, ListensWhereARequestComesWhileNobodyIsThere) {
  BindOldListener();
  old_.reset();
  active_ = peer_.New();
  ASSERT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  TakeOverAll({Endpoint(kListener)});
  EXPECT_EQ(Await<FabricConnectRequested>().endpoint, kListener);
}

TEST_F(TakeOver, BringsARequestThatWasReadAndNotRecorded) {
  RequestOldBy([this] { return ReadLastEvent(); });
  TakeOverAll({Endpoint(kListener)});
  const auto request = Await<FabricConnectRequested>();
  EXPECT_EQ(request.endpoint, kListener);
  EXPECT_EQ(request.peer, requested_.peer);
  Perform(FabricAccept{kDevice, request.connection, kSession, queue_pairs_.Make(), kLimits, {}, ::getpid()});
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, request.connection);
}

TEST_F(TakeOver, BringsARequestThatTwoDeadProcessesHaveRead) {
  RequestOldBy([this] { return ReadLastEvent(); });
  Begin();
  fabric_.reset();
  TakeOverAll({Endpoint(kListener)});
  EXPECT_EQ(Await<FabricConnectRequested>().endpoint, kListener);
  Settle();
  EXPECT_FALSE(Take<FabricConnectRequested>());
}

TEST_F(TakeOver, BringsARequestThatIsRecordedNotAgain) {
  const KernelId id = RequestOldBy([this] { return ReadLastEvent(); });
  records_.connections[kIncoming] = Encode(Record(id));
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested)});
  Settle();
  EXPECT_FALSE(Take<FabricConnectRequested>());
  Perform(Acceptance());
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, kIncoming);
}

TEST_F(TakeOver, RejectsARequestThatNobodyKnows) {
  RequestOldBy([this] { return ReadOldEvent(); });
  TakeOverAll({Endpoint(kListener)});
  const CmEvent event = AwaitPeer();
  EXPECT_TRUE(event.type == CmEventType::kRejected || event.type == CmEventType::kConnectError)
      << static_cast<int>(event.type);
  EXPECT_FALSE(Take<FabricConnectRequested>());
}

TEST_F(TakeOver, EndsWhatNobodyKnows) {
  EstablishOld();
  const SocketAddress unknown = from_;
  records_ = {};
  TakeOverAll({});
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
  Settle();
  EXPECT_TRUE(IsFree(unknown));
}

TEST_F(TakeOver, BindsAgainWhatItDoesNotFind) {
  BindOldListener();
  records_ = {};
  TakeOverAll({Endpoint(kListener)});
  EXPECT_TRUE(records_ == FabricRecords());
  reports_.clear();
  Settle();
  EXPECT_TRUE(std::as_const(records_.endpoints).contains(kListener));
  EXPECT_FALSE(reports_.empty()) << "without a report the record is not stored";
  EXPECT_FALSE(IsFree(listener_));
  active_ = peer_.New();
  ASSERT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  EXPECT_EQ(Await<FabricConnectRequested>().endpoint, kListener);
}

TEST_F(TakeOver, TellsOfAnAddressThatSomebodyHasTakenAndBindsItOnceItIsFree) {
  listener_ = peer_.FreeAddress();
  const KernelId outsiders = peer_.New();
  ASSERT_EQ(peer_.file->Bind(outsiders, listener_), 0);
  CapturedLog log;
  TakeOverAll({Endpoint(kListener)});
  const auto told = [&] {
    return log.LinesWith("address of an endpoint not held address=" + listener_.ToString() + " cause=").size();
  };
  const absl::Time end = Loop::Now() + kPatience;
  while (told() == 0 && Loop::Now() < end) loop_.RunTurn(Loop::Now() + absl::Milliseconds(10));
  ASSERT_EQ(peer_.file->Destroy(outsiders), 0);
  while (IsFree(listener_) && Loop::Now() < end) loop_.RunTurn(Loop::Now() + absl::Milliseconds(10));
  EXPECT_FALSE(IsFree(listener_));
  EXPECT_EQ(told(), 1u);
}

TEST_F(TakeOver, TakesAnIdThatHasBecomeAnothersForNoAnchor) {
  const KernelId others = BindOld(kFrom, EndpointUse::kDedicated);
  BindOld(kListener, EndpointUse::kListener);
  RecordEndpoint(kListener, others, true);
  TakeOverAll({Endpoint(kListener)});
  Settle();
  EXPECT_TRUE(IsFree(from_));
  EXPECT_FALSE(IsFree(listener_));
}

// A third process may make an id with its number before the end of this one is stored.
TEST_F(TakeOver, NamesNoIdInItsRecordsThatIsAboutToEnd) {
  BindFirst();
  Perform(OwnConnect());
  const KernelId request = AwaitPeer().id;
  ASSERT_EQ(peer_.file->Accept(request, CmProcess::kCookie, {.qp = peer_.queue_pairs.Make()}), 0);
  Await<FabricReplied>();
  ASSERT_TRUE(DecodeConnection(records_.connections.at(kOwn))->kernel_id);
  Perform(FabricRelease{kDevice, kOwn});
  EXPECT_FALSE(DecodeConnection(records_.connections.at(kOwn))->kernel_id);
  EXPECT_EQ(Await<FabricReleased>().connection, kOwn);
  EXPECT_FALSE(records_.connections.contains(kOwn));
  Perform(FabricUnbind{kDevice, kFrom});
  EXPECT_FALSE(records_.endpoints.contains(kFrom));
  EXPECT_EQ(Await<FabricUnbound>().endpoint, kFrom);
}

TEST_F(TakeOver, CarriesOutABindOnceTheDeadProcessHoldsItsPortNoLonger) {
  BindOld(kListener, EndpointUse::kListener);
  Begin();
  Perform(FabricBind{kDevice, kListener, EndpointUse::kListener, {ip_}, listener_.port});
  EXPECT_FALSE(Take<FabricBound>());
  Perform(FabricAdopted{kDevice});
  EXPECT_EQ(Await<FabricBound>().endpoint, kListener);
  Perform(FabricUnbind{kDevice, kListener});
  Await<FabricUnbound>();
  EXPECT_TRUE(IsFree(listener_));
}

TEST_F(TakeOver, RepurposesAReservedEndpointThatListensAlready) {
  BindOldListener();
  FabricAdoptEndpoint reserved = Endpoint(kListener);
  reserved.use = EndpointUse::kReserved;
  RecordEndpoint(kListener, DecodeEndpoint(records_.endpoints[kListener])->anchors[ip_].id, false);
  TakeOverAll({reserved, FabricRepurpose{kDevice, kListener, EndpointUse::kListener}});
  EXPECT_EQ(Await<FabricBound>().endpoint, kListener);
}

TEST_F(TakeOver, FreesThePortOfAnEndpointThatIsUnboundAgain) {
  BindOldListener();
  TakeOverAll({Endpoint(kListener), FabricUnbind{kDevice, kListener}});
  EXPECT_EQ(Await<FabricUnbound>().endpoint, kListener);
  EXPECT_TRUE(IsFree(listener_));
  EXPECT_TRUE(records_ == FabricRecords());
}

// --- Our own attempts ---

class TakeOverOfAnAttempt : public TakeOver, public testing::WithParamInterface<Step> {};

TEST_P(TakeOverOfAnAttempt, GoesOnWithItOnce) {
  peers_listener_ = peer_.Listen();
  StartOld(GetParam(), peers_listener_);
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  const CmEvent request = AwaitPeer();
  ASSERT_EQ(request.type, CmEventType::kConnectRequest);
  ASSERT_GE(request.private_data.size(), 3U);
  EXPECT_EQ(Bytes(request.private_data.begin(), request.private_data.begin() + 3), (Bytes{5, 6, 7}));
  ASSERT_EQ(peer_.file->Accept(request.id, CmProcess::kCookie,
                               {.qp = peer_.queue_pairs.Make(), .limits = {}, .private_data = {8}}),
            0);
  const auto replied = Await<FabricReplied>();
  EXPECT_EQ(replied.connection, kOwn);
  EXPECT_EQ(replied.private_data.front(), 8);
  Perform(FabricComplete{kDevice, kOwn, kLimits});
  EXPECT_EQ(Await<FabricEstablished>().connection, kOwn);
  EXPECT_EQ(AwaitPeer().type, CmEventType::kEstablished);
  Settle();
  EXPECT_FALSE(peer_.HasEvent(kQuiet)) << "it was asked again";
}

INSTANTIATE_TEST_SUITE_P(RdmaCm, TakeOverOfAnAttempt,
                         testing::Values(Step::kCreated, Step::kResolvingAddress, Step::kAddressResolved,
                                         Step::kResolvingRoute, Step::kRouteResolved, Step::kConnecting),
                         [](const auto& tested) { return "Step" + std::to_string(static_cast<int>(tested.param)); });

TEST_F(TakeOver, FailsAnAttemptThatItDoesNotFind) {
  BindOldFrom();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  const auto failed = Await<FabricConnectFailed>();
  EXPECT_EQ(failed.connection, kOwn);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
  EXPECT_NE(failed.explanation, "");
  Perform(FabricRelease{kDevice, kOwn});
  EXPECT_EQ(Await<FabricReleased>().connection, kOwn);
}

TEST_F(TakeOver, ReportsAnAttemptsFailureThatNobodyHasRead) {
  peers_listener_ = peer_.Listen();
  StartOld(Step::kConnecting, peers_listener_);
  const CmEvent request = peer_.Await();
  ASSERT_EQ(peer_.file->Reject(request.id, {9}), 0);
  AwaitOldEvent();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  const auto failed = Await<FabricConnectFailed>();
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(failed.private_data.front(), 9);
}

// iWARP's drivers take any queue pair that they are told.
TEST_P(TakeOverOnIwarp, LooksWhoseTheQueuePairIsBeforeAnAttemptSucceeds) {
  peers_listener_ = peer_.Listen();
  StartOld(Step::kConnecting, peers_listener_, 1);
  const CmEvent request = peer_.Await();
  ASSERT_EQ(peer_.file->Accept(request.id, CmProcess::kCookie, {.qp = peer_.queue_pairs.Make()}), 0);
  AwaitOldEvent();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kAccessDenied);
}

class TakeOverOfAnAnswer : public TakeOver {
 protected:
  KernelId Ask() {
    peers_listener_ = peer_.Listen();
    StartOld(Step::kConnecting, peers_listener_);
    return peer_.Await().id;
  }
  void TakeOverAnswer() {
    ReadLastEvent();
    TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  }
};

TEST_F(TakeOverOfAnAnswer, BringsAReplyThatWasReadAndNotRecorded) {
  ASSERT_EQ(peer_.file->Accept(Ask(), CmProcess::kCookie,
                               {.qp = peer_.queue_pairs.Make(), .limits = {}, .private_data = {8}}),
            0);
  TakeOverAnswer();
  const auto replied = Await<FabricReplied>();
  EXPECT_EQ(replied.connection, kOwn);
  EXPECT_EQ(replied.private_data.front(), 8);
  Perform(FabricComplete{kDevice, kOwn, kLimits});
  EXPECT_EQ(Await<FabricEstablished>().connection, kOwn);
  EXPECT_EQ(AwaitPeer().type, CmEventType::kEstablished);
}

TEST_F(TakeOverOfAnAnswer, BringsARejectThatWasReadAndNotRecorded) {
  ASSERT_EQ(peer_.file->Reject(Ask(), {9}), 0);
  TakeOverAnswer();
  const auto failed = Await<FabricConnectFailed>();
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(failed.private_data.front(), 9);
  Perform(FabricRelease{kDevice, kOwn});
  EXPECT_EQ(Await<FabricReleased>().connection, kOwn);
}

TEST_F(TakeOver, GivesUpAnAttempt) {
  peers_listener_ = peer_.Listen();
  StartOld(Step::kConnecting, peers_listener_);
  const CmEvent request = peer_.Await();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kOver), FabricRelease{kDevice, kOwn}});
  if (iwarp()) {
    // The kernel holds the id until the peer has answered.
    EXPECT_EQ(peer_.file->Reject(request.id, {}), 0);
  }
  EXPECT_EQ(Await<FabricReleased>().connection, kOwn);
}

// Where a thread of the process waited with the kernel, no signal would end it, and the process would stay.
TEST_P(TakeOverOnIwarp, LeavesAnIdWhoseEndWaitsForThePeerToItsSuccessor) {
  BindFirst();
  Perform(OwnConnect());
  const KernelId request = AwaitPeer().id;
  const auto due = [this] { return DecodeConnection(records_.connections.at(kOwn))->answer_due; };
  const absl::Time end = Loop::Now() + kPatience;
  while (!due() && Loop::Now() < end) loop_.RunTurn(Loop::Now() + absl::Milliseconds(10));
  ASSERT_TRUE(due());
  Perform(FabricRelease{kDevice, kOwn});
  Settle();
  EXPECT_FALSE(Take<FabricReleased>());
  ASSERT_TRUE(DecodeConnection(records_.connections.at(kOwn))->kernel_id);
  fabric_.reset();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kOver), FabricRelease{kDevice, kOwn}});
  Settle();
  EXPECT_FALSE(Take<FabricReleased>());
  EXPECT_EQ(peer_.file->Reject(request, {}), 0);
  EXPECT_EQ(Await<FabricReleased>().connection, kOwn);
}

// --- Replied ---

TEST_F(TakeOver, CompletesAConnection) {
  EstablishOld();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kReplied), FabricComplete{kDevice, kOwn, kLimits}});
  EXPECT_EQ(Await<FabricEstablished>().connection, kOwn) << "that was completed before";
  Perform(FabricDisconnect{kDevice, kOwn});
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
}

TEST_F(TakeOver, FindsThatARepliedConnectionHasEnded) {
  const auto [ours, peers] = EstablishOld();
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  EXPECT_EQ(ReadLastEvent().type, CmEventType::kDisconnected);
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kReplied)});
  EXPECT_EQ(Await<FabricFailed>().status, NdkStatus::kConnectionAborted);
}

// --- Requested ---

TEST_F(TakeOver, AcceptsARequest) {
  RequestOld();
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested)});
  Perform(Acceptance());
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, kIncoming);
}

TEST_F(TakeOver, AcceptsARequestAgainWithoutHarm) {
  AcceptOld(RequestOld());
  if (iwarp()) AwaitOldEvent();
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested), Acceptance()});
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, kIncoming);
}

// The kernel would end what it is asked to accept again.
TEST_P(TakeOverOnInfiniBand, KnowsByTheQueuePairThatARequestWasAccepted) {
  const KernelId request = RequestOld();
  const FabricAccept acceptance = Acceptance();
  ASSERT_EQ(old_->Accept(request, CookieOf(kIncoming), {.qp = acceptance.qp, .limits = kLimits}), 0);
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested), acceptance});
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, kIncoming);
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
}

TEST_F(TakeOver, KnowsByAnEventThatARequestWasAccepted) {
  const KernelId request = RequestOld();
  AcceptOld(request);
  records_.connections[kIncoming] = Encode(Record(request));
  FinishAsPeer();
  AwaitOldEvent();
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested), Acceptance()});
  EXPECT_EQ(Await<FabricEstablished>().connection, kIncoming);
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
}

TEST_F(TakeOver, BringsTheOutcomeOfAnAcceptThatWasReadAndNotRecorded) {
  AcceptOld(RequestOld());
  FinishAsPeer();
  EXPECT_EQ(ReadLastEvent().type, CmEventType::kEstablished);
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested), Acceptance()});
  EXPECT_EQ(Await<FabricEstablished>().connection, kIncoming);
}

TEST_F(TakeOver, RejectsARequest) {
  RequestOld();
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kOver), FabricReject{kDevice, kIncoming, {3}}});
  EXPECT_EQ(Await<FabricReleased>().connection, kIncoming);
  const CmEvent event = AwaitPeer();
  ASSERT_EQ(event.type, CmEventType::kRejected);
  ASSERT_FALSE(event.private_data.empty());
  EXPECT_EQ(event.private_data.front(), 3);
}

// The kernel tells of it only after an accept, which is not on record where the store was full.
TEST_F(TakeOver, ReportsAPeerThatLeftWhileNobodyWasThere) {
  const KernelId request = RequestOld();
  AcceptOld(request);
  records_.connections[kIncoming] = Encode(Record(request));
  peer_.Await();
  if (iwarp()) {
    EXPECT_EQ(ReadOldEvent().type, CmEventType::kEstablished);
    ASSERT_EQ(peer_.file->Disconnect(active_), 0);
  } else {
    ASSERT_EQ(peer_.file->Destroy(active_), 0);
  }
  AwaitOldEvent();
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested)});
  // Either ends an undecided connection.
  if (iwarp()) {
    EXPECT_EQ(Await<FabricDisconnected>().connection, kIncoming);
  } else {
    EXPECT_EQ(Await<FabricFailed>().connection, kIncoming);
  }
  Perform(Acceptance());
  Settle();
  EXPECT_FALSE(Take<FabricEstablished>());
  Perform(FabricRelease{kDevice, kIncoming});
  EXPECT_EQ(Await<FabricReleased>().connection, kIncoming);
}

TEST_F(TakeOver, FailsARequestThatItDoesNotFind) {
  RequestOldBy([this] { return ReadOldEvent(); });
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested)});
  const auto failed = Await<FabricFailed>();
  EXPECT_EQ(failed.connection, kIncoming);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
}

TEST_F(TakeOver, NumbersRequestsAboveThoseThatThereAre) {
  RequestOld();
  TakeOverAll({Endpoint(kListener), Incoming(AdoptedStage::kRequested)});
  const KernelId another = peer_.New();
  ASSERT_EQ(peer_.StartConnect(another, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  EXPECT_EQ(Await<FabricConnectRequested>().connection, IncomingConnection(kFirstDevice, 501));
}

// --- Established ---

TEST_F(TakeOver, GoesOnWithAnEstablishedConnection) {
  const auto [ours, peers] = EstablishOld();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kEstablished)});
  Settle();
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
  EXPECT_FALSE(Take<FabricDisconnected>());
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  const auto end = Await<FabricDisconnected>();
  EXPECT_EQ(end.connection, kOwn);
  EXPECT_EQ(end.status, NdkStatus::kSuccess);
  Perform(FabricRelease{kDevice, kOwn});
  Await<FabricReleased>();
  EXPECT_TRUE(std::as_const(records_).connections.empty());
}

TEST_F(TakeOver, ReportsAnEndThatNobodyHasReadOnce) {
  const auto [ours, peers] = EstablishOld();
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  AwaitOldEvent();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kEstablished)});
  EXPECT_EQ(Await<FabricDisconnected>().status, NdkStatus::kSuccess);
  Settle();
  EXPECT_FALSE(Take<FabricDisconnected>());
}

TEST_F(TakeOver, ReportsAnEndThatWasReadAndNotRecordedOnce) {
  const auto [ours, peers] = EstablishOld();
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  EXPECT_EQ(ReadLastEvent().type, CmEventType::kDisconnected);
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kEstablished)});
  EXPECT_EQ(Await<FabricDisconnected>().status, NdkStatus::kSuccess);
  Settle();
  EXPECT_FALSE(Take<FabricDisconnected>());
}

TEST_P(TakeOverOnInfiniBand, FindsThatAnEstablishedConnectionHasEndedOfWhichNothingIsKept) {
  const auto [ours, peers] = EstablishOld();
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  EXPECT_EQ(ReadOldEvent().type, CmEventType::kDisconnected);
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kEstablished)});
  EXPECT_EQ(Await<FabricDisconnected>().status, NdkStatus::kSuccess);
  Settle();
  EXPECT_FALSE(Take<FabricDisconnected>());
}

TEST_F(TakeOver, DisconnectsAgain) {
  const auto [ours, peers] = EstablishOld();
  ASSERT_EQ(old_->Disconnect(ours), 0);
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kEstablished), FabricDisconnect{kDevice, kOwn}});
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
  peer_.file->Disconnect(peers);
  EXPECT_EQ(Await<FabricDisconnected>().status, NdkStatus::kSuccess);
}

TEST_F(TakeOver, EndsAConnectionThatItDoesNotFind) {
  EstablishOld();
  records_.connections.erase(kOwn);
  CapturedLog log;
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kEstablished)});
  EXPECT_EQ(Await<FabricDisconnected>().status, NdkStatus::kConnectionAborted);
  EXPECT_EQ(log.LinesWith("connection lost with the process before connection=21 established=true ").size(), 1u);
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
}

// --- Orphans ---

class TakeOverWithoutRecords : public TakeOver {
 protected:
  void BeginWithoutRecords() {
    records_ = {};
    Begin({}, true);
    Settle();
  }
  // The process that knows of a device again has died, too.
  void BeginAgain() {
    fabric_.reset();
    TakeOverAll({});
    Settle();
  }
  // Whether the kernel shows it.
  bool IsConnected(const SocketAddress& local) const {
    const auto ids = verbs::FindConnectionIds(queue_pairs_.device_index());
    EXPECT_TRUE(ids) << "it cannot be asked";
    return ids && std::any_of(ids->begin(), ids->end(), [&](const verbs::ConnectionId& id) {
             return FromKernel({.storage = id.local}) == local;
           });
  }
  void AwaitEnd(const SocketAddress& local) {
    const absl::Time end = Loop::Now() + kPatience;
    while (IsConnected(local) && Loop::Now() < end) loop_.RunTurn(Loop::Now() + absl::Milliseconds(10));
    EXPECT_FALSE(IsConnected(local));
  }
};

TEST_F(TakeOverWithoutRecords, LeavesAConnectionToWhoeverHasItsQueuePair) {
  EstablishOld();
  CapturedLog log;
  BeginWithoutRecords();
  EXPECT_EQ(log.LinesWith("connections have no record, and stay with their owners ids=1").size(), 1u);
  EXPECT_EQ(log.LinesWith("listeners, addresses and handshakes have no record, and end ids=1").size(), 1u);
  BeginAgain();
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
  queue_pairs_.DestroyLast();
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
  AwaitEnd(from_);
}

TEST_F(TakeOverWithoutRecords, KeepsAConnectionWhileItHasNoDescriptorToLookForItsQueuePair) {
  EstablishOld();
  records_ = {};
  Begin({}, true);
  {
    const DescriptorShortage shortage;
    const absl::Time end = Loop::Now() + kLooks;
    while (!peer_.HasEvent(absl::ZeroDuration()) && Loop::Now() < end)
      loop_.RunTurn(Loop::Now() + absl::Milliseconds(10));
  }
  EXPECT_FALSE(peer_.HasEvent(absl::ZeroDuration()));
  EXPECT_TRUE(IsConnected(from_));
  queue_pairs_.DestroyLast();
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
}

TEST_F(TakeOverWithoutRecords, EndsAnAcceptedConnectionOfWhichItsClientHasNotHeard) {
  AcceptOld(RequestOld());
  FinishAsPeer();
  AwaitOldEvent();
  BeginWithoutRecords();
  if (iwarp()) {
    EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
  } else {
    AwaitEnd(requested_.local);
  }
}

TEST_F(TakeOverWithoutRecords, LeavesAnAcceptedConnectionAndFreesItsListenersPort) {
  AcceptOld(RequestOld());
  FinishAsPeer();
  EXPECT_EQ(ReadOldEvent().type, CmEventType::kEstablished);
  BeginWithoutRecords();
  EXPECT_TRUE(IsFree(listener_));
  BeginAgain();
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
  queue_pairs_.DestroyLast();
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
}

TEST_F(TakeOverWithoutRecords, EndsAConnectionWithItsPeer) {
  const auto [ours, peers] = EstablishOld();
  BeginWithoutRecords();
  ASSERT_TRUE(IsConnected(from_));
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  AwaitEnd(from_);
}

TEST_F(TakeOverWithoutRecords, EndsWhatIsNotConnected) {
  RequestOldBy([this] { return ReadLastEvent(); });
  BeginWithoutRecords();
  const CmEvent event = AwaitPeer();
  EXPECT_TRUE(event.type == CmEventType::kRejected || event.type == CmEventType::kConnectError)
      << static_cast<int>(event.type);
  EXPECT_TRUE(IsFree(listener_));
}

class TakeOverWithoutRecordsOnInfiniBand : public TakeOverWithoutRecords,
                                           public testing::WithParamInterface<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TakeOverWithoutRecordsOnInfiniBand);
INSTANTIATE_TEST_SUITE_P(On, TakeOverWithoutRecordsOnInfiniBand, testing::ValuesIn(DeviceIf(false)));

TEST_P(TakeOverWithoutRecordsOnInfiniBand, EndsAConnectionWhoseQueuePairHasFailed) {
  EstablishOld();
  BeginWithoutRecords();
  ASSERT_TRUE(queue_pairs_.InitialiseLast());
  queue_pairs_.FailLast();
  EXPECT_EQ(AwaitPeer().type, CmEventType::kDisconnected);
}

// --- Deaths ---

// A process in the middle of CONNECT, which blocks on iWARP devices, and which it does not survive.
class DyingConnect {
 public:
  struct Ids {
    int file = -1;
    KernelId anchor{};
    KernelId own{};
    SocketAddress from;
  };

  DyingConnect(const IpAddress& ip, const SocketAddress& peer, QpNumber qp) {
    std::array<int, 2> tell = {};
    EXPECT_EQ(::pipe(tell.data()), 0);
    child_ = ::fork();
    if (child_ == 0) Live(tell[1], ip, peer, qp);
    EXPECT_EQ(::read(tell[0], &ids_, sizeof ids_), static_cast<ssize_t>(sizeof ids_));
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
    file_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), ids_.file, 0)));
    EXPECT_TRUE(file_) << std::strerror(errno);
    ::close(tell[0]), ::close(tell[1]);
  }
  void Kill() const {
    EXPECT_EQ(::kill(child_, SIGKILL), 0);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
  }
  const Ids& ids() const { return ids_; }
  int file() const { return file_.get(); }

 private:
  [[noreturn]] static void Live(int tell, const IpAddress& ip, const SocketAddress& peer, QpNumber qp) {
    const auto file = *CmFile::Open();
    Ids ids = {.file = file->descriptor()};
    CmAddresses at;
    bool good = file->Create(CookieOf(kFrom), &ids.anchor) == 0 && file->Bind(ids.anchor, {ip, 0}) == 0 &&
                file->ShareAddress(ids.anchor) == 0 && file->QueryAddresses(ids.anchor, &at) == 0 &&
                file->Create(CookieOf(kOwn), &ids.own) == 0 && file->ShareAddress(ids.own) == 0 &&
                file->ResolveAddress(ids.own, at.local, peer) == 0;
    ids.from = at.local;
    for (const CmEventType type : {CmEventType::kAddressResolved, CmEventType::kRouteResolved}) {
      pollfd readable = {.fd = file->descriptor(), .events = POLLIN, .revents = 0};
      CmEvent event;
      good = good && ::poll(&readable, 1, 60'000) == 1 && file->NextEvent(&event) == 0 && event.type == type;
      if (type == CmEventType::kAddressResolved) good = good && file->ResolveRoute(ids.own) == 0;
    }
    if (!good || ::write(tell, &ids, sizeof ids) != static_cast<ssize_t>(sizeof ids)) ::_exit(1);
    file->Connect(ids.own, {.qp = qp});
    ::_exit(2);
  }

  pid_t child_ = -1;
  Ids ids_;
  UniqueFd file_;
};

// By /proc/net/tcp of proc_pid_net(5).
bool IsConnecting(const SocketAddress& peer) {
  std::array<char, 16> wanted = {};
  const auto& ip = peer.ip.bytes;
  std::snprintf(wanted.data(), wanted.size(), "%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], peer.port);
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    if (line.find(std::string(wanted.data()) + " 02 ") != std::string::npos) return true;
  }
  return false;
}

TEST_P(TakeOverOnIwarp, ConnectsAgainWhereTheProcessDiedInTheMiddleOfIt) {
  peers_listener_ = SilentPeer(IpFamily::kIpv4);
  const QpNumber qp = queue_pairs_.Make();
  const DyingConnect process(ip_, peers_listener_, qp);
  const absl::Time end = absl::Now() + kPatience;
  while (!IsConnecting(peers_listener_) && absl::Now() < end) std::this_thread::yield();
  ASSERT_TRUE(supervisor_.Store("c2", process.file()).ok());
  process.Kill();
  from_ = process.ids().from;
  RecordEndpoint(kFrom, process.ids().anchor, false);
  CmConnectionRecord record = Record(process.ids().own);
  record.qp = qp;
  record.process = ::getpid();
  records_.connections[kOwn] = Encode(record);
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kIoTimeout) << "TCP's, of the second CONNECT";
}

TEST_F(TakeOver, FindsWhatAProcessHasMovedThatDiedBeforeItHadTakenOver) {
  BindOldListener();
  const auto [ours, peers] = EstablishOld();
  const auto first = old_;
  OpenOld("c2");
  ASSERT_EQ(old_->Migrate(ours, first->descriptor()), 0);
  ASSERT_EQ(supervisor_.stored().size(), 2U);
  Begin();
  const auto& told = supervisor_.told();
  const auto kept = std::find(told.begin(), told.end(), "store c3");
  EXPECT_NE(std::find(kept, told.end(), "barrier"), told.end()) << "its own is kept before anything is moved";
  for (const FabricRequest& request : std::vector<FabricRequest>{
           Endpoint(kFrom), Endpoint(kListener), Own(AdoptedStage::kEstablished), FabricAdopted{kDevice}}) {
    Perform(request);
  }
  Settle();
  EXPECT_FALSE(IsStored("c1") || IsStored("c2"));
  EXPECT_TRUE(IsStored("c3"));
  EXPECT_FALSE(IsFree(listener_));
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
  ASSERT_EQ(peer_.file->Disconnect(peers), 0);
  EXPECT_EQ(Await<FabricDisconnected>().status, NdkStatus::kSuccess);
}

// A whole life, and the next.
TEST_F(TakeOver, BeginsWhatAProcessHasLeftThatMadeWay) {
  BindFirst();
  fabric_->MakeWay();
  Perform(OwnConnect());
  EXPECT_FALSE(fabric_->HasHandshakes());
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
  fabric_.reset();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  const CmEvent asked = AwaitPeer();
  ASSERT_EQ(asked.type, CmEventType::kConnectRequest);
  Answer(asked.id, kOwn);
}

TEST_F(TakeOver, MakesWayBeforeTheOldFilesAreClosed) {
  BindOldFrom();
  peers_listener_ = peer_.Listen();
  TakeOverAll({Endpoint(kFrom)});
  Perform(OwnConnect());
  FabricConnect late = OwnConnect();
  late.connection = kNext;
  fabric_->MakeWay();
  Perform(late);
  EXPECT_FALSE(fabric_->HasHandshakes());
  EXPECT_TRUE(std::as_const(records_).connections.contains(kOwn));
  EXPECT_TRUE(std::as_const(records_).connections.contains(kNext));
  Settle();
  EXPECT_FALSE(peer_.HasEvent(kQuiet));
  fabric_.reset();
  TakeOverAll({Endpoint(kFrom), Own(AdoptedStage::kConnecting)});
  const CmEvent asked = AwaitPeer();
  ASSERT_EQ(asked.type, CmEventType::kConnectRequest);
  Answer(asked.id, kOwn);
}

// Two handshakes towards a listener at a time, so one of a session. The first has its turn until it is answered.
class TakeOverOfTurns : public TakeOver {
 protected:
  TakeOverOfTurns() { options_.handshakes = {.per_listener = 2, .reply_wait = absl::Hours(1)}; }

  // Towards one listener, which has the request of the first then.
  KernelId BeginTwo() {
    BindFirst();
    next_from_ = peer_.FreeAddress();
    Perform(FabricBind{kDevice, kNextFrom, EndpointUse::kDedicated, {ip_}, next_from_.port});
    Await<FabricBound>();
    Perform(OwnConnect());
    FabricConnect next = OwnConnect();
    next.connection = kNext;
    next.endpoint = kNextFrom;
    next.local = next_from_;
    Perform(next);
    const CmEvent asked = AwaitPeer();
    EXPECT_EQ(asked.type, CmEventType::kConnectRequest);
    return asked.id;
  }
  void Reject(KernelId first) {
    EXPECT_EQ(peer_.file->Reject(first, {}), 0);
    EXPECT_EQ(Await<FabricConnectFailed>().connection, kOwn);
  }
  void AwaitNext() {
    CmEvent asked = AwaitPeer();
    // iWARP's CM tells the peer so when it has replied to the first.
    if (asked.type == CmEventType::kEstablished) asked = AwaitPeer();
    ASSERT_EQ(asked.type, CmEventType::kConnectRequest);
    Answer(asked.id, kNext);
  }
  bool IsQuiet() {
    Settle();
    return !peer_.HasEvent(kQuiet);
  }
  // On record, and with an id.
  bool NextHasBegun() const {
    return DecodeConnection(std::as_const(records_).connections.at(kNext))->kernel_id.has_value();
  }
  void TakeOverNext() {
    fabric_.reset();
    TakeOverAll(
        {FabricAdoptEndpoint{kDevice, kNextFrom, EndpointUse::kDedicated, {ip_}, next_from_.port},
         FabricAdoptConnection{kDevice, kNext, kNextFrom, AdoptedStage::kConnecting, next_from_, peers_listener_}});
  }

  SocketAddress next_from_;
};

TEST_F(TakeOverOfTurns, BeginsOneTowardsABusyListenerAtATime) {
  const KernelId first = BeginTwo();
  EXPECT_TRUE(IsQuiet());
  EXPECT_FALSE(NextHasBegun());
  Answer(first, kOwn);
  AwaitNext();
}

TEST_F(TakeOverOfTurns, BeginsTheNextOnceOneHasFailed) {
  Reject(BeginTwo());
  AwaitNext();
}

TEST_F(TakeOverOfTurns, BeginsTheNextOnceOneIsGivenUp) {
  BeginTwo();
  Perform(FabricRelease{kDevice, kOwn});
  EXPECT_EQ(AwaitPeer().type, CmEventType::kConnectRequest);
}

TEST_F(TakeOverOfTurns, BeginsTheNextWhereAListenerIsSilent) {
  options_.handshakes.reply_wait = absl::Milliseconds(10);
  BeginTwo();
  EXPECT_EQ(AwaitPeer().type, CmEventType::kConnectRequest);
}

TEST_F(TakeOverOfTurns, GivesUpOneThatWaitsForItsTurn) {
  const KernelId first = BeginTwo();
  Perform(FabricRelease{kDevice, kNext});
  EXPECT_EQ(Await<FabricReleased>().connection, kNext);
  EXPECT_FALSE(std::as_const(records_).connections.contains(kNext));
  Reject(first);
  EXPECT_TRUE(IsQuiet());
}

TEST_F(TakeOverOfTurns, BeginsWhatHadWaitedForItsTurn) {
  const KernelId first = BeginTwo();
  EXPECT_TRUE(IsQuiet());
  Reject(first);
  // It dies before it has begun the next.
  ASSERT_FALSE(NextHasBegun());
  TakeOverNext();
  AwaitNext();
  Settle();
  // iWARP's CM tells the peer that it has replied.
  while (peer_.HasEvent(kQuiet)) EXPECT_EQ(AwaitPeer().type, CmEventType::kEstablished) << "it was asked again";
}

TEST_F(TakeOverOfTurns, LeavesToItsSuccessorWhatWaitsAsItMakesWay) {
  const KernelId first = BeginTwo();
  fabric_->MakeWay();
  EXPECT_TRUE(fabric_->HasHandshakes());
  Reject(first);
  EXPECT_FALSE(fabric_->HasHandshakes());
  EXPECT_TRUE(IsQuiet());
  TakeOverNext();
  AwaitNext();
}

// Otherwise the next process would begin it once more.
TEST_F(TakeOverOfTurns, HasATurnStoredBeforeAnythingLeaves) {
  const KernelId first = BeginTwo();
  Reject(first);
  ASSERT_FALSE(NextHasBegun());
  reports_.clear();
  const absl::Time end = Loop::Now() + kPatience;
  while (!NextHasBegun() && Loop::Now() < end) loop_.RunTurn(end);
  ASSERT_TRUE(NextHasBegun());
  EXPECT_TRUE(Take<DeviceChanged>()) << "without a report the record is not stored";
  EXPECT_FALSE(peer_.HasEvent(kQuiet)) << "it has left before that";
  AwaitNext();
}

TEST_F(TakeOver, LeavesItsSuccessorWhatThatNeeds) {
  BindFirst();
  listener_ = peer_.FreeAddress();
  Perform(FabricBind{kDevice, kListener, EndpointUse::kListener, {ip_}, listener_.port});
  Await<FabricBound>();
  Perform(OwnConnect());
  const CmEvent asked = AwaitPeer();
  ASSERT_EQ(peer_.file->Accept(asked.id, CmProcess::kCookie, {.qp = peer_.queue_pairs.Make()}), 0);
  Await<FabricReplied>();
  Perform(FabricComplete{kDevice, kOwn, kLimits});
  Await<FabricEstablished>();
  EXPECT_EQ(AwaitPeer().type, CmEventType::kEstablished);
  active_ = peer_.New();
  ASSERT_EQ(peer_.StartConnect(active_, {ip_, 0}, listener_, peer_.queue_pairs.Make()), 0);
  const auto request = Await<FabricConnectRequested>();

  fabric_.reset();
  TakeOverAll({Endpoint(kFrom),
               Endpoint(kListener),
               Own(AdoptedStage::kEstablished),
               {FabricAdoptConnection{kDevice, request.connection, kListener, AdoptedStage::kRequested, request.local,
                                      request.peer}}});
  Settle();
  EXPECT_FALSE(IsFree(listener_));
  EXPECT_FALSE(Take<FabricFailed>());
  EXPECT_FALSE(Take<FabricDisconnected>());
  Perform(FabricAccept{kDevice, request.connection, kSession, queue_pairs_.Make(), kLimits, {}, ::getpid()});
  FinishAsPeer();
  EXPECT_EQ(Await<FabricEstablished>().connection, request.connection);
  ASSERT_EQ(peer_.file->Disconnect(asked.id), 0);
  EXPECT_EQ(Await<FabricDisconnected>().connection, kOwn);
}

}  // namespace
}  // namespace rdmabroker
