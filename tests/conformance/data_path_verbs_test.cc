// SPDX-License-Identifier: Apache-2.0

// Runs on the device that the environment's RDMA_DEVICE names, which must reach itself. Queue pairs are connected as a
// broker and its clients do it: by the kernel's connection manager, with what the broker would send of it.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "broker/control/translation.h"
#include "broker/core/messages.h"
#include "broker/fabric/local_addresses.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/qp_owner.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/silent_peers.h"
#include "client/data_path.h"
#include "dataplane/last_hint.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/device/device.h"
#include "dataplane/verbs/event_target.h"
#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

// The listener's cookie; those of connections follow.
constexpr uint64_t kListener = 1;

// As ibv_get_device_index(3); 0 where there is no such device.
uint32_t IndexOf(const std::string& name) {
  uint32_t index = 0;
  ibv_device** const devices = ::ibv_get_device_list(nullptr);
  if (devices == nullptr) return index;
  for (ibv_device** next = devices; *next != nullptr; ++next) {
    if (::ibv_get_device_name(*next) == name) index = static_cast<uint32_t>(::ibv_get_device_index(*next));
  }
  ::ibv_free_device_list(devices);
  return index;
}

// Its first two numbers.
std::pair<int, int> KernelVersion() {
  utsname system = {};
  std::pair<int, int> version;
  EXPECT_EQ(::uname(&system), 0);
  EXPECT_EQ(std::sscanf(system.release, "%d.%d", &version.first, &version.second), 2);
  return version;
}

// A listener at the device's first address of the family.
absl::StatusOr<SocketAddress> Listen(const CmFile& file, uint32_t device, IpFamily family) {
  const auto local = LocalAddresses::Open();
  if (!local.ok()) return local.status();
  for (const IpAddress& ip : (*local)->addresses()) {
    if (ip.family != family || ip.IsLoopback()) continue;
    KernelId id{};
    CmAddresses addresses;
    if (file.Create(kListener, &id) != 0) break;
    if (file.BindOn(id, {ip, 0}, device) == 0 && file.Listen(id) == 0 && file.QueryAddresses(id, &addresses) == 0) {
      return addresses.local;
    }
    file.Destroy(id);
  }
  return absl::NotFoundError("the device has no address of this family");
}

class VerbsDataPaths final : public DataPathPair {
 public:
  VerbsDataPaths(std::string device, std::shared_ptr<const CmFile> file, const SocketAddress& listener)
      : device_(std::move(device)), file_(std::move(file)), listener_(listener) {
    Adapter* const adapter = Open();
    info_ = adapter->info();
    CloseAndWait(adapter);
    for (client::DataPath& path : client::BuiltInDataPaths()) {
      if (path.technology == info_.technology && path.transition) path_ = std::move(path);
    }
  }

  Adapter* Open() override {
    const Created<Adapter> opened = verbs::OpenAdapter(device_);
    EXPECT_EQ(opened.status, NdkStatus::kSuccess);
    return opened.object;
  }

  void Connect(QueuePair* one, ConnectionEndCallback on_end_of_one, QueuePair* other,
               ConnectionEndCallback on_end_of_other) override {
    const uint64_t at_one = ++last_cookie_, at_other = ++last_cookie_;
    KernelId active{};
    ASSERT_NO_FATAL_FAILURE(Begin(at_one, &active));
    int ports = 1;
    for (int established = 0; established < 2;) {
      CmEvent event;
      ASSERT_NO_FATAL_FAILURE(Await(&event));
      // The end of an earlier connection.
      if (event.cookie != at_one && event.cookie != at_other && event.cookie != kListener) continue;
      switch (event.type) {
        case CmEventType::kAddressResolved:
          ASSERT_EQ(file_->ResolveRoute(active), 0);
          break;
        case CmEventType::kRouteResolved: {
          const int error = file_->Connect(active, ParametersFor(one));
          if (error != EADDRINUSE || ports == kMostPorts) {
            ASSERT_EQ(error, 0);
            break;
          }
          ++ports;
          ASSERT_EQ(file_->Destroy(active), 0);
          ASSERT_NO_FATAL_FAILURE(Begin(at_one, &active));
          break;
        }
        case CmEventType::kConnectRequest:
          ASSERT_NO_FATAL_FAILURE(Move(other, on_end_of_other, event.id));
          ASSERT_EQ(file_->Accept(event.id, at_other, ParametersFor(other)), 0);
          break;
        case CmEventType::kConnectResponse:
          ASSERT_NO_FATAL_FAILURE(Move(one, on_end_of_one, active));
          ASSERT_EQ(file_->Establish(active), 0);
          ++established;
          break;
        case CmEventType::kEstablished:
          ++established;
          break;
        default:
          FAIL() << "event " << static_cast<uint32_t>(event.type) << ", status " << event.status;
      }
    }
    EXPECT_EQ(one->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid) << "it is not established yet";
    ASSERT_EQ(one->Attach({}, std::move(on_end_of_one)), NdkStatus::kSuccess);
    ASSERT_EQ(other->Attach({}, std::move(on_end_of_other)), NdkStatus::kSuccess);
    last_active_ = active;
  }
  const IpAddress& ip() const { return listener_.ip; }
  // What a broker does when it drops a connection: iWARP's drivers end the queue pair then. The last that was made.
  void DestroyActive() const { EXPECT_EQ(file_->Destroy(last_active_), 0); }

  // Linux 6.12 changed Soft-RoCE (rxe_requester in drivers/infiniband/sw/rxe/rxe_req.c), whose vendor id is no one's.
  bool tells_of_bad_memory() const override {
    const bool soft_roce = info_.technology == RdmaTechnology::kRoceV2 && info_.vendor_id == 0;
    return !soft_roce || KernelVersion() < std::pair(6, 12);
  }
  // Soft-iWARP does not.
  bool tells_of_solicited() const override { return info_.technology != RdmaTechnology::kIwarp; }
  bool tells_of_ends() const override { return false; }
  bool tells_by_cancelling() const override { return info_.technology != RdmaTechnology::kIwarp; }

 private:
  // That are tried for a connection. On iWARP devices its port is TCP's too, where a socket may have it of which the
  // connection manager, who chooses one, knows nothing.
  static constexpr int kMostPorts = 10;

  void Begin(uint64_t cookie, KernelId* active) const {
    ASSERT_EQ(file_->Create(cookie, active), 0);
    ASSERT_EQ(file_->ResolveAddress(*active, {listener_.ip, 0}, listener_), 0);
  }

  void Await(CmEvent* event) const {
    pollfd readable = {.fd = file_->descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1);
    ASSERT_EQ(file_->NextEvent(event), 0);
  }

  CmParameters ParametersFor(QueuePair* pair) const {
    return {.qp = QpNumber{pair->number()},
            .limits = {std::min(16u, info_.max_inbound_read_limit), std::min(16u, info_.max_outbound_read_limit)},
            .private_data = {},
            // Six tries end, where seven do not.
            .options = {.rnr_retry_count = 6}};
  }

  // iWARP's drivers move the queue pair themselves.
  void Move(QueuePair* pair, const ConnectionEndCallback& on_end, KernelId id) const {
    if (info_.technology == RdmaTechnology::kIwarp) return;
    ConnectionData data;
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ASSERT_EQ(file_->QueryQpAttributes(id, state, &data.qp_attributes.emplace_back()), 0);
    }
    v1::Outcome sent;
    ToProto(Outcome{.payload = data}, &sent);
    for (const v1::QpAttributes& step : sent.connection_data().qp_attributes()) {
      ASSERT_EQ(pair->Attach(path_.transition(step), on_end), NdkStatus::kSuccess);
    }
  }

  const std::string device_;
  const std::shared_ptr<const CmFile> file_;
  const SocketAddress listener_;
  AdapterInfo info_;
  client::DataPath path_;
  uint64_t last_cookie_ = kListener;
  KernelId last_active_{};
};

absl::StatusOr<std::unique_ptr<VerbsDataPaths>> OnTheDevice(IpFamily family) {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) return absl::NotFoundError("RDMA_DEVICE names no device");
  auto file = CmFile::Open();
  const auto listener = file.ok() ? Listen(**file, IndexOf(device), family) : file.status();
  // Named, and not there: a failure and not a reason to skip.
  EXPECT_TRUE(listener.ok()) << device << ": " << listener.status();
  if (!listener.ok()) return listener.status();
  return std::make_unique<VerbsDataPaths>(device, *std::move(file), *listener);
}

const auto kCases = ::testing::Values(DataPathCase{"Ipv4", [] { return OnTheDevice(IpFamily::kIpv4); }},
                                      DataPathCase{"Ipv6", [] { return OnTheDevice(IpFamily::kIpv6); }});

std::string NameOf(const ::testing::TestParamInfo<DataPathCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Verbs, DataPathConformance, kCases, NameOf);
INSTANTIATE_TEST_SUITE_P(Verbs, DataPathQueueConformance, kCases, NameOf);

TEST(VerbsRegistration, BeyondTheLimitOfLockedMemorySaysSo) {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  if (::geteuid() == 0) GTEST_SKIP() << "for root there is no limit (CAP_IPC_LOCK)";
  constexpr size_t kLimit = 1 << 20;
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  limit.rlim_cur = kLimit;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  DataSide side(verbs::OpenAdapter(device).object, true, {});
  std::vector<uint8_t> memory(2 * kLimit);
  MemoryRegion* const region = side.domain->CreateMemoryRegion(false).object;
  EXPECT_EQ(region->Register(memory.data(), memory.size(), kMrAllowLocalWrite), NdkStatus::kInsufficientResources);
  EXPECT_THAT(LastHint(), testing::HasSubstr("RLIMIT_MEMLOCK allows this process 1048576 bytes"));
  EXPECT_EQ(region->Register(memory.data(), kLimit / 2, kMrAllowLocalWrite), NdkStatus::kSuccess);
  CloseAndWait(region);
  limit.rlim_cur = limit.rlim_max;
  EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

// On iWARP the device cancels what is posted at that moment, and may take what comes later without ever saying so.
TEST(VerbsRequests, PostedBehindAnEndThatIsNotKnownYetHaveOneResultEachAfterAFlush) {
  constexpr size_t kPosts = 8;
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  const auto pair = OnTheDevice(IpFamily::kIpv4);
  ASSERT_TRUE(pair.ok()) << pair.status();
  DataSide a((*pair)->Open(), true, {}), b((*pair)->Open(), true, {});
  ASSERT_NO_FATAL_FAILURE((*pair)->Connect(a.qp, nullptr, b.qp, nullptr));
  (*pair)->DestroyActive();
  Buffer source(a.domain, 8, kAllAccess), target(b.domain, 8, kAllAccess);
  std::vector<void*> posted;
  for (uintptr_t i = 0; i < 2 * kPosts; i += 2) {
    for (const uintptr_t number : {i, i + 1}) posted.push_back(reinterpret_cast<void*>(number));
    ASSERT_EQ(a.qp->Write(posted[i], std::array{source.sge()}, target.remote(), 0), NdkStatus::kSuccess);
    ASSERT_EQ(a.qp->Receive(posted[i + 1], {}), NdkStatus::kSuccess);
  }
  a.qp->Flush();
  std::vector<void*> ended;
  std::array<Result, 2 * kPosts> results;
  const auto take = [&] {
    const size_t count = a.cq->GetResults(results);
    for (size_t i = 0; i < count; ++i) ended.push_back(results[i].request_context);
    return ended.size() >= posted.size();
  };
  EXPECT_TRUE(Eventually(take));
  take();
  EXPECT_THAT(ended, testing::UnorderedElementsAreArray(posted));
}

// No software device's fails, but the event that would say so can be given.
TEST(VerbsSharedReceiveQueue, ThatFailsSaysSoOnceAndItsQueuePairsAreDeadAndNoOthers) {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  const auto pair = OnTheDevice(IpFamily::kIpv4);
  ASSERT_TRUE(pair.ok()) << pair.status();
  DataSide peer((*pair)->Open(), true, {}), shared((*pair)->Open(), true, {.srq = true});
  std::vector<NdkStatus> notified;
  SharedReceiveQueue* const failing =
      shared.domain
          ->CreateSharedReceiveQueue({.depth = 8,
                                      .max_receive_request_sge = 1,
                                      .notification = [&](NdkStatus status) { notified.push_back(status); }})
          .object;
  QueuePairAttributes attributes = {
      .receive_cq = shared.cq, .initiator_cq = shared.cq, .srq = failing, .initiator_queue_depth = 1};
  QueuePair* const dead = shared.domain->CreateQueuePair(attributes).object;
  QueuePair* const at_peer = peer.NewQueuePair({}, nullptr);
  std::atomic<int> ends = 0;
  const auto counts = [&ends](const ConnectionEnd& end) { ends += end.graceful ? 0 : 1; };
  ASSERT_NO_FATAL_FAILURE((*pair)->Connect(at_peer, nullptr, dead, counts));
  ASSERT_NO_FATAL_FAILURE((*pair)->Connect(peer.qp, nullptr, shared.qp, shared.NotesEnd()));

  for (int i = 0; i < 2; ++i) dynamic_cast<verbs::EventTarget*>(failing)->OnAsyncEvent(IBV_EVENT_SRQ_ERR);
  EXPECT_TRUE(Eventually([&] { return ends == 1; }));
  AwaitCallbacks(shared);
  EXPECT_THAT(notified, testing::ElementsAre(NdkStatus::kInternalError));
  EXPECT_EQ(failing->Receive(nullptr, {}), NdkStatus::kInvalidDeviceState);
  EXPECT_EQ(failing->Modify(0, 1), NdkStatus::kInvalidDeviceState);
  EXPECT_EQ(dead->Send(Context(1), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(shared.Next().status, NdkStatus::kCancelled);
  EXPECT_EQ(shared.srq->Receive(Context(2), {}), NdkStatus::kSuccess);
  EXPECT_EQ(peer.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(shared.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(shared.EndCount(), 0u);
  CloseAndWait(dead), CloseAndWait(at_peer), CloseAndWait(failing);
}

TEST(VerbsQueuePairs, AreShownToTheBrokerThoughOthersOfTheProcessGoAtTheSameMoment) {
  constexpr int kRounds = 1000;
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  const uint32_t index = IndexOf(device);
  const auto make_and_close = [&] {
    DataSide side(verbs::OpenAdapter(device).object, true, {});
    for (int i = 0; i < kRounds; ++i) {
      QueuePair* const made = side.NewQueuePair({}, nullptr);
      ASSERT_NE(made, nullptr);
      EXPECT_EQ(FindQpOwner(index, QpNumber{made->number()}, ::getpid()), QpOwner::kThisProcess) << made->number();
      CloseAndWait(made);
    }
  };
  std::thread beside(make_and_close);
  make_and_close();
  beside.join();
}

TEST(VerbsQueuePairs, AreMadeOnTwoAdaptersInCallbacksOfEachOthers) {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  DataSide a(verbs::OpenAdapter(device).object, true, {}), b(verbs::OpenAdapter(device).object, true, {});
  std::atomic<int> came = 0, made = 0;
  const auto make_in_callback = [&](DataSide& side, DataSide& other) {
    CompletionQueue* const cq = side.adapter
                                    ->CreateCompletionQueue(4,
                                                            [&](NdkStatus) {
                                                              ++came;
                                                              EXPECT_TRUE(Eventually([&] { return came == 2; }));
                                                              CloseAndWait(other.NewQueuePair({}, nullptr));
                                                              ++made;
                                                            })
                                    .object;
    QueuePair* const qp =
        side.domain->CreateQueuePair({.receive_cq = cq, .initiator_cq = cq, .receive_queue_depth = 1}).object;
    EXPECT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    cq->Arm(CqNotify::kAny);
    qp->Flush();
    return std::array<DataObject*, 2>{qp, cq};
  };
  const auto of_a = make_in_callback(a, b), of_b = make_in_callback(b, a);
  EXPECT_TRUE(Eventually([&] { return made == 2; }));
  for (DataObject* const object : {of_a[0], of_a[1], of_b[0], of_b[1]}) CloseAndWait(object);
}

// Whether this machine's TCP waits for the peer's first answer.
bool IsCalled(const SocketAddress& peer) {
  std::ifstream sockets("/proc/net/tcp");
  std::ostringstream wanted;
  uint32_t ip = 0;
  ::inet_pton(AF_INET, peer.ip.ToString().c_str(), &ip);
  wanted << std::hex << std::uppercase << std::setfill('0') << std::setw(8) << ip << ":" << std::setw(4) << peer.port
         << " 02 ";
  for (std::string line; std::getline(sockets, line);) {
    if (line.find(wanted.str()) != std::string::npos) return true;
  }
  return false;
}

TEST(VerbsQueuePairs, OneThatTheKernelCannotDestroyYetDelaysNoOther) {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  SocketAddress peer = SilentPeer(IpFamily::kIpv4);
  ASSERT_NE(peer.port, 0) << "there is none";
  // One that no other process calls, which would be taken for this one's call.
  peer.port = static_cast<uint16_t>(20'000 + ::getpid() % 30'000);
  const auto pair = OnTheDevice(IpFamily::kIpv4);
  ASSERT_TRUE(pair.ok()) << pair.status();
  DataSide side((*pair)->Open(), true, {});
  const bool iwarp = side.adapter->info().technology == RdmaTechnology::kIwarp;
  QueuePair* const held = side.NewQueuePair({}, nullptr);
  const CmProcess caller((*pair)->ip());
  // Soft iWARP's driver waits for the peer's TCP in this, which no other call ends.
  std::thread connecting([&, qp = QpNumber{held->number()}] {
    caller.StartConnect(caller.New(), {(*pair)->ip(), 0}, peer, qp);
  });
  if (iwarp) {
    EXPECT_TRUE(Eventually([&] { return IsCalled(peer); }));
  } else {
    connecting.join();
  }
  std::atomic<bool> destroyed = false;
  std::thread closing([&] {
    CloseAndWait(held);
    destroyed = true;
  });
  int others = 0;
  for (; !destroyed; ++others) CloseAndWait(side.NewQueuePair({}, nullptr));
  closing.join();
  if (iwarp) {
    EXPECT_GT(others, 10) << "made and closed while TCP had not given the peer up";
    connecting.join();
  }
}

// Posts to a connection that TCP has just ended cannot be timed; the signal that they may raise can be sent.
TEST(VerbsSignals, OfADeadConnectionEndNoProcessAndAreLeftToWhoeverHandlesThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  const auto open_and_raise = [&](sighandler_t handler) {
    ::signal(SIGPIPE, handler);
    EXPECT_EQ(verbs::OpenAdapter(device).status, NdkStatus::kSuccess);
    ::raise(SIGPIPE);
    ::_exit(0);
  };
  verbs::DeviceDescription description;
  ASSERT_EQ(verbs::QueryDevice(device, &description), NdkStatus::kSuccess);
  if (description.raises_sigpipe) {
    EXPECT_EXIT(open_and_raise(SIG_DFL), testing::ExitedWithCode(0), "");
  } else {
    EXPECT_EXIT(open_and_raise(SIG_DFL), testing::KilledBySignal(SIGPIPE), "") << "it is no business of the library's";
  }
  EXPECT_EXIT(open_and_raise([](int) { ::_exit(7); }), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace rdmabroker
