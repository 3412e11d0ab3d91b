// SPDX-License-Identifier: Apache-2.0

// The kernel's connection manager on the one RDMA device of this machine, which reaches itself, and nobody at the
// addresses that RDMA_SILENT_PEERS_4 and _6 list: tests/vm makes such a machine.

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/mpa_peers.h"
#include "broker/fabric/rdmacm/testing/plain_listener.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "broker/fabric/rdmacm/testing/silent_peers.h"
#include "broker/fabric/rdmacm/unwanted_ids.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/work_queue.h"
#include "tests/conformance/fabric_conformance.h"
#include "tests/conformance/fabric_past.h"
#include "tests/control/child_process.h"

namespace rdmabroker {
namespace {

class RdmaCmPair final : public FabricPair {
 public:
  // Both sides on one fabric where `apart` is false.
  static absl::StatusOr<std::unique_ptr<FabricPair>> Make(bool apart, const RdmaCmOptions& options = {},
                                                          bool supervised = false) {
    auto pair = std::make_unique<RdmaCmPair>();
    auto outsider = CmFile::Open();
    if (!outsider.ok()) return outsider.status();
    pair->outsider_ = *std::move(outsider);
    if (!pair->queue_pairs_.Open()) return absl::NotFoundError("there is no RDMA device");
    for (uint64_t id = 1; id <= (apart ? 2 : 1); ++id) {
      pair->pasts_.push_back(std::make_unique<FabricPast>(supervised));
      auto fabric = pair->Open(DeviceId(100 * id), options, *pair->pasts_.back(), {});
      if (!fabric.ok()) return fabric.status();
      pair->fabrics_.push_back(*std::move(fabric));
    }
    return pair;
  }

  Fabric& fabric(Side side) override { return side == Side::kServer ? *fabrics_.front() : *fabrics_.back(); }
  // What has been done is stored before anything else happens, and what is done then, too.
  bool Step(absl::Duration at_most) override {
    Commit();
    const bool went_on = loop_.RunTurn(Loop::Now() + at_most);
    Commit();
    return went_on;
  }
  QpNumber NewQp(Side, SessionId) override { return queue_pairs_.Make(); }
  void DestroyLastQp() { queue_pairs_.DestroyLast(); }

  // Connect requests from outside the broker, on their way to `listener`.
  void Flood(const SocketAddress& listener, int count) {
    for (int i = 0; i < count; ++i) {
      if (queue_pairs_.iwarp()) {
        ASSERT_NO_FATAL_FAILURE(mpa_peers_.Request(listener));
        continue;
      }
      if (!flooder_) flooder_ = std::make_unique<CmProcess>(listener.ip);
      ASSERT_EQ(flooder_->StartConnect(flooder_->New(), {listener.ip, 0}, listener, queue_pairs_.Make()), 0);
    }
  }

  // Of iWARP's listeners.
  MpaPeers& mpa_peers() { return mpa_peers_; }

  bool Occupy(Side, const SocketAddress& address) override {
    KernelId id{};
    EXPECT_EQ(outsider_->Create(1, &id), 0);
    if (outsider_->Bind(id, address) != 0) {
      outsider_->Destroy(id);
      return false;
    }
    occupied_[address] = id;
    return true;
  }
  SocketAddress SilentPeer(Side, IpFamily family) override { return rdmabroker::SilentPeer(family); }
  void Vacate(Side, const SocketAddress& address) override {
    outsider_->Destroy(occupied_.at(address));
    occupied_.erase(address);
  }
  void GoOn(Side side, const Device& device, const ReportSink& sink) override {
    const size_t place = side == Side::kServer ? 0 : fabrics_.size() - 1;
    fabrics_[place].reset();
    pasts_[place]->Restart();
    auto next = Open(device.id, {}, *pasts_[place], {{device.id, device.name, false}});
    ASSERT_TRUE(next.ok()) << next.status();
    fabrics_[place] = *std::move(next);
    fabrics_[place]->Start(sink);
  }

 private:
  absl::StatusOr<std::unique_ptr<RdmaCmFabric>> Open(DeviceId first, const RdmaCmOptions& options, FabricPast& past,
                                                     std::vector<RdmaCmPast::Device> devices) {
    return RdmaCmFabric::Open(first, options, {past.keep(), past.records(), std::move(devices)}, loop_);
  }
  void Commit() {
    for (const auto& past : pasts_) past->keep().Committed();
  }

  Loop loop_;
  QueuePairs queue_pairs_;
  std::shared_ptr<const CmFile> outsider_;
  std::vector<std::unique_ptr<FabricPast>> pasts_;
  std::vector<std::unique_ptr<RdmaCmFabric>> fabrics_;
  std::map<SocketAddress, KernelId> occupied_;
  std::unique_ptr<CmProcess> flooder_;
  MpaPeers mpa_peers_;
};

const std::vector<FabricCase>& Cases() {
  static const auto* const kCases = new std::vector<FabricCase>{
      {"Apart", [] { return RdmaCmPair::Make(true); }},
      {"Loopback", [] { return RdmaCmPair::Make(false); }},
  };
  return *kCases;
}

// Without a supervisor nothing is adopted.
const std::vector<FabricCase>& SupervisedCases() {
  static const auto* const kCases = new std::vector<FabricCase>{
      {"Apart", [] { return RdmaCmPair::Make(true, {}, true); }},
      {"Loopback", [] { return RdmaCmPair::Make(false, {}, true); }},
  };
  return *kCases;
}

// Another process, with a queue pair that it makes when it is told to.
class OtherProcess {
 public:
  OtherProcess() {
    EXPECT_EQ(::pipe(to_.data()), 0);
    EXPECT_EQ(::pipe(from_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) Live();
    ::close(to_[0]), ::close(from_[1]);
  }
  ~OtherProcess() {
    ::close(to_[1]), ::close(from_[0]);
    ::waitpid(child_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  QpNumber MakeQueuePair() const {
    QpNumber made{};
    EXPECT_EQ(::write(to_[1], "m", 1), 1);
    EXPECT_EQ(::read(from_[0], &made.value, sizeof made.value), static_cast<ssize_t>(sizeof made.value));
    return made;
  }

 private:
  [[noreturn]] void Live() const {
    ::close(to_[1]), ::close(from_[0]);
    QueuePairs queue_pairs;
    char byte = 0;
    bool good = queue_pairs.Open();
    while (good && ::read(to_[0], &byte, 1) == 1) {
      const QpNumber made = queue_pairs.Make();
      good = ::write(from_[1], &made.value, sizeof made.value) == static_cast<ssize_t>(sizeof made.value);
    }
    ::_exit(0);
  }

  std::array<int, 2> to_ = {}, from_ = {};
  pid_t child_ = -1;
};

// Connections with queue pairs that the test chooses.
class RdmaCmQueuePairs : public FabricConformance {
 protected:
  ConnectionId ConnectWith(QpNumber qp, int32_t process, const SocketAddress& to) {
    const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
    const ConnectionId connection(++last_id_);
    Perform(Side::kClient,
            FabricConnect{
                device(Side::kClient).id, connection, from.id, SessionId(1), qp, from.address, to, {}, {}, process});
    return connection;
  }
};

// Whose the queue pairs are that clients name.
class RdmaCmOwnership : public RdmaCmQueuePairs {
 protected:
  ConnectionId ConnectWith(QpNumber qp, int32_t process) {
    return RdmaCmQueuePairs::ConnectWith(qp, process, listener_.address);
  }
  void SetUp() override {
    FabricConformance::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) listener_ = Bind(Side::kServer, EndpointUse::kListener);
  }

  const OtherProcess other_;
  Bound listener_;
};

TEST_P(RdmaCmOwnership, AQueuePairThatChangesHandsBeforeItIsUsedIsNotTaken) {
  const bool trusting = std::get<0>(GetParam()).name == "Trusting";
  // siw gives the lowest number that is free, and to the tests beside this one too, which may be first, or let go of a
  // lower one meanwhile.
  const bool given_again = device(Side::kClient).port_space == PortSpace::kTcp;
  const int attempts = given_again ? 20 : 1;
  bool changed_hands = false;
  for (int attempt = 0; attempt < attempts && !changed_hands; ++attempt) {
    const QpNumber own = pair_->NewQp(Side::kClient, SessionId(1));
    const ConnectionId connection = ConnectWith(own, ::getpid());
    static_cast<RdmaCmPair&>(*pair_).DestroyLastQp();
    changed_hands = other_.MakeQueuePair() == own;
    if (changed_hands || !trusting) {
      EXPECT_EQ(Await<FabricConnectFailed>(connection).status, NdkStatus::kAccessDenied);
    }
  }
  EXPECT_EQ(changed_hands, given_again);
}

TEST_P(RdmaCmOwnership, AQueuePairWhoseMakerIsNotShownIsTakenWhereItsOwnerMustHelpOrAllAreTrusted) {
  const ConnectionId connection = ConnectWith(pair_->NewQp(Side::kClient, SessionId(1)), 0);
  const bool iwarp = device(Side::kClient).port_space == PortSpace::kTcp;
  if (iwarp && std::get<0>(GetParam()).name != "Trusting") {
    EXPECT_EQ(Await<FabricConnectFailed>(connection).status, NdkStatus::kAccessDenied);
  } else {
    Await<FabricConnectRequested>(listener_.id);
  }
}

class RdmaCmRequests : public FabricConformance {
 protected:
  // How many ids the kernel shows of this process: bound ones, and what has become of them. A long list leaves some
  // out where other processes' go meanwhile (res_get_common_dumpit in drivers/infiniband/core/nldev.c).
  static int CountIds() {
    int most = 0;
    for (int look = 0; look < 5; ++look) most = std::max(most, CountListedIds());
    return most;
  }
  void GiveUp(Side side, ConnectionId connection) {
    Release(side, connection);
    Await<FabricReleased>(connection);
  }

 private:
  static int CountListedIds() {
    const std::string own = " pid " + std::to_string(::getpid()) + " ";
    int count = 0;
    FILE* const shown = ::popen("rdma resource show cm_id", "r");
    std::array<char, 512> line;
    while (std::fgets(line.data(), line.size(), shown) != nullptr) {
      if (std::string_view(line.data()).find(own) != std::string_view::npos) ++count;
    }
    EXPECT_EQ(::pclose(shown), 0);
    return count;
  }
};

TEST_P(RdmaCmRequests, ThatNobodyTakesLeaveNoIds) {
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const int without_listener = CountIds();
  EXPECT_GT(without_listener, 0);
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const int before = CountIds();
  using Decision = FabricRequest (*)(DeviceId, ConnectionId);
  constexpr Decision kDecisions[] = {
      [](DeviceId on, ConnectionId id) -> FabricRequest {
        return FabricReject{on, id, {}};
      },
      [](DeviceId on, ConnectionId id) -> FabricRequest {
        return FabricRefuse{on, id};
      },
  };
  for (const Decision decision : kDecisions) {
    const Link link = Make(from, listener, Stage::kRequested);
    EXPECT_EQ(CountIds(), before + 2);
    Perform(Side::kServer, decision(device(Side::kServer).id, link.server));
    Await<FabricReleased>(link.server);
    Await<FabricConnectFailed>(link.client);
    GiveUp(Side::kClient, link.client);
    EXPECT_EQ(CountIds(), before);
  }
  const Link abandoned = Make(from, listener, Stage::kRequested);
  GiveUp(Side::kClient, abandoned.client);
  GiveUp(Side::kServer, abandoned.server);
  EXPECT_EQ(CountIds(), before);
  const Link orphaned = Make(from, listener, Stage::kRequested);
  Unbind(listener);
  GiveUp(Side::kServer, orphaned.server);
  GiveUp(Side::kClient, orphaned.client);
  EXPECT_EQ(CountIds(), without_listener);
}

class RdmaCmLostFile : public FabricConformance {
 protected:
  // The first report of the kind, about whichever device.
  template <typename Report>
  Report AwaitAny() {
    const absl::Time end = absl::Now() + kPatience;
    do {
      for (const FabricReport& report : reports_) {
        if (const auto* typed = std::get_if<Report>(&report)) return *typed;
      }
    } while (absl::Now() < end && pair_->Step(end - absl::Now()));
    ADD_FAILURE() << "no report of the kind has come, but" << Listed(reports_);
    return {};
  }
};

// The kernel refuses a file to a thread whose credentials have changed, if only to the same ones
// (ib_safe_file_access in include/rdma/ib.h): an error that lasts.
TEST_P(RdmaCmLostFile, EndsItsDevicesWithAllThatWasOnThemAndOthersComeInTheirPlace) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kEstablished);
  const Bound another = Bind(Side::kClient, EndpointUse::kDedicated);
  reports_.clear();
  const ConnectionId resolving = Connect(another, listener.address);
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> same = {};
  ASSERT_EQ(::syscall(SYS_capget, &header, same.data()), 0);
  ASSERT_EQ(::syscall(SYS_capset, &header, same.data()), 0);

  ASSERT_EQ(AwaitAny<DeviceRemoved>().device, device(Side::kServer).id);
  const Device found = AwaitAny<DeviceChanged>().device;
  EXPECT_EQ(found.name, device(Side::kServer).name);
  EXPECT_EQ(found.unusable_reason, "");
  EXPECT_NE(found.id, device(Side::kServer).id);
  // There is nothing of the old one in the kernel that could keep these from being bound.
  for (const SocketAddress& address : {listener.address, from.address}) {
    Perform(Side::kServer, FabricBind{found.id, NewEndpoint(), EndpointUse::kReserved, {address.ip}, address.port});
    Await<FabricBound>(EndpointId(last_id_));
    Perform(Side::kServer, FabricUnbind{found.id, EndpointId(last_id_)});
  }
  for (const ConnectionId connection : {resolving, link.client, link.server}) {
    Release(Side::kServer, connection);
    Await<FabricReleased>(connection);
  }
  for (const Bound& endpoint : {listener, from, another}) Unbind(endpoint);
}

class RdmaCmUnwantedRequests : public FabricConformance {};

TEST_P(RdmaCmUnwantedRequests, AreNotReadWhileManyAreBeingDestroyed) {
  constexpr int kMore = 100;
  auto& pair = static_cast<RdmaCmPair&>(*pair_);
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  std::set<ConnectionId> refused;
  ASSERT_NO_FATAL_FAILURE(pair.Flood(listener.address, UnwantedIds::kMany));
  while (refused.size() < UnwantedIds::kMany && !HasFailure()) {
    refused.insert(Await<FabricConnectRequested>(listener.id).connection);
  }
  ASSERT_NO_FATAL_FAILURE(pair.Flood(listener.address, kMore));
  for (const ConnectionId one : refused) Perform(Side::kServer, FabricRefuse{device(Side::kServer).id, one});
  for (int i = 0; i < kMore && !HasFailure(); ++i) {
    const ConnectionId next = Await<FabricConnectRequested>(listener.id).connection;
    std::erase_if(refused, [this](ConnectionId one) { return Take<FabricReleased>(one).has_value(); });
    EXPECT_LE(refused.size(), size_t{UnwantedIds::kMany / 2});
    Perform(Side::kServer, FabricRefuse{device(Side::kServer).id, next});
  }
}

class RdmaCmSilentPeers : public FabricConformance {};

TEST_P(RdmaCmSilentPeers, OfOneSessionDelayNoOthers) {
  constexpr int kAttemptsEach = 40;
  const auto peers = SilentPeers(IpFamily::kIpv4);
  ASSERT_EQ(peers.size(), 3u) << "RDMA_SILENT_PEERS_4 is to name three";
  const int all = kAttemptsEach * static_cast<int>(peers.size());
  std::vector<Bound> endpoints;
  for (int i = 0; i < all; ++i) endpoints.push_back(Bind(Side::kClient, EndpointUse::kDedicated));
  std::vector<ConnectionId> attempts;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    attempts.push_back(Connect(endpoints[i], peers[i % peers.size()], {}, {4, 3}, SessionId(2)));
  }
  Settle();
  Make(Bind(Side::kClient, EndpointUse::kDedicated), Bind(Side::kServer, EndpointUse::kListener), Stage::kEstablished);
  // Had the other waited for its turn, no more than have a thread would be left. A slow machine's kernel may have given
  // some up by now.
  const auto failed = std::count_if(attempts.begin(), attempts.end(), [this](ConnectionId attempt) {
    return Take<FabricConnectFailed>(attempt).has_value();
  });
  EXPECT_LT(failed, all - kPoolThreads);
}

// Where the kernel lets go of an id only when its peer has answered: on iWARP.
class RdmaCmUnanswered : public FabricConformance {
 protected:
  // More than the fabric has threads.
  static constexpr int kMany = kPoolThreads + 16;

  void MakeAnother() {
    Make(Bind(Side::kClient, EndpointUse::kDedicated), Bind(Side::kServer, EndpointUse::kListener),
         Stage::kEstablished);
  }
};

TEST_P(RdmaCmUnanswered, ConnectsThatWereGivenUpDelayNoOthers) {
  PlainListener peer(Addresses(Side::kServer).front());
  std::vector<Bound> endpoints;
  for (int i = 0; i < kMany; ++i) endpoints.push_back(Bind(Side::kClient, EndpointUse::kDedicated));
  std::vector<ConnectionId> given_up;
  for (const Bound& endpoint : endpoints) {
    given_up.push_back(Connect(endpoint, peer.address(), {}, {4, 3}, SessionId(2)));
  }
  Settle();
  for (int i = 0; i < kMany; ++i) ASSERT_NO_FATAL_FAILURE(peer.Take());
  for (const ConnectionId one : given_up) Release(Side::kClient, one);
  MakeAnother();
  for (const ConnectionId one : given_up) Await<FabricReleased>(one);
}

TEST_P(RdmaCmUnanswered, AcceptsThatWereGivenUpDelayNoOthersAndEndWithThePeersAnswer) {
  auto& pair = static_cast<RdmaCmPair&>(*pair_);
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  for (int i = 0; i < kMany; ++i) ASSERT_NO_FATAL_FAILURE(pair.mpa_peers().RequestReadyToReceive(listener.address));
  std::vector<ConnectionId> given_up;
  for (int i = 0; i < kMany && !HasFailure(); ++i) {
    given_up.push_back(Await<FabricConnectRequested>(listener.id).connection);
    Accept(given_up.back());
  }
  Settle();
  for (const ConnectionId one : given_up) Release(Side::kServer, one);
  MakeAnother();
  EXPECT_FALSE(Take<FabricReleased>(given_up.front()));
  ASSERT_NO_FATAL_FAILURE(pair.mpa_peers().SendReadyToReceive());
  for (const ConnectionId one : given_up) Await<FabricReleased>(one);
}

// A peer that still has a connection with the client's queue pair, of which this end has lost sight.
class RdmaCmStaleConnection : public RdmaCmQueuePairs {
 protected:
  void SetUp() override {
    FabricConformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    peer_ = std::make_unique<CmProcess>(Addresses(Side::kServer).front());
    peers_address_ = peer_->Listen();
    qp_ = pair_->NewQp(Side::kClient, SessionId(1));
    lost_ = peer_->New();
    const KernelId request = peer_->Request(lost_, qp_, peers_address_);
    ASSERT_EQ(peer_->file->Accept(request, CmProcess::kCookie, {.qp = peer_->queue_pairs.Make()}), 0);
    ASSERT_EQ(peer_->Await().type, CmEventType::kConnectResponse);
    ASSERT_EQ(peer_->file->Establish(lost_), 0);
    ASSERT_EQ(peer_->Await().type, CmEventType::kEstablished);
  }

  // Of the peer. The kernel answers the fabric's requests and tells the peer at the same time, so that the fabric is
  // let go on only where the peer's event does not come.
  CmEvent AwaitPeers() {
    const absl::Time end = absl::Now() + kPatience;
    CmEvent event;
    do {
      while (!peer_->HasEvent(kQuiet) && absl::Now() < end) pair_->Step(absl::ZeroDuration());
      event = peer_->Await();
      // That of the old connection comes before what it makes room for, since Linux 6.12.
    } while (event.type == CmEventType::kTimewaitExit && absl::Now() < end);
    return event;
  }
  // The peer is refusing a connection for the old one's sake, and asks whether that has ended.
  void ExpectAskedForTheLostOne() {
    const CmEvent asked = AwaitPeers();
    EXPECT_EQ(asked.type, CmEventType::kDisconnected);
    EXPECT_EQ(asked.id, lost_);
  }

  std::unique_ptr<CmProcess> peer_;
  SocketAddress peers_address_;
  QpNumber qp_;
  KernelId lost_{};  // This end's id.
};

TEST_P(RdmaCmStaleConnection, IsForgottenByThePeerAndTheConnectTriedAgain) {
  const ConnectionId connection = ConnectWith(qp_, ::getpid(), peers_address_);
  ExpectAskedForTheLostOne();
  ASSERT_EQ(peer_->file->Disconnect(lost_), 0);
  ASSERT_EQ(peer_->Await().type, CmEventType::kDisconnected) << "the old connection's other end";
  const CmEvent again = AwaitPeers();
  ASSERT_EQ(again.type, CmEventType::kConnectRequest);
  ASSERT_EQ(peer_->file->Accept(again.id, CmProcess::kCookie, {.qp = peer_->queue_pairs.Make()}), 0);
  Await<FabricReplied>(connection);
}

TEST_P(RdmaCmStaleConnection, OfWhichThePeerIsNotRidRefusesTheConnectTheSecondTime) {
  const ConnectionId connection = ConnectWith(qp_, ::getpid(), peers_address_);
  ExpectAskedForTheLostOne();
  const auto failed = Await<FabricConnectFailed>(connection);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(failed.provider_error, 10U) << "InfiniBand's reason for it";
  EXPECT_TRUE(failed.qp_reusable);
}

// iWARP's listeners are TCP's, which tell with how large a backlog they were made.
class RdmaCmBacklog : public FabricConformance {};

TEST_P(RdmaCmBacklog, OfAListenerIsTheLargestThatTheSystemAllows) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const std::string port = std::to_string(listener.address.port);
  std::istringstream shown(ChildProcess({"ss", "-Htln", "sport = :" + port}).ReadAll());
  std::string state;
  uint32_t waiting = 0, backlog = 0, largest = 0;
  ASSERT_TRUE(shown >> state >> waiting >> backlog) << "ss shows no listener at port " << port;
  ASSERT_TRUE(std::ifstream("/proc/sys/net/rdma_ucm/max_backlog") >> largest);
  EXPECT_EQ(backlog, largest);
}

// Where the machine's device is of that kind.
std::vector<FabricCase> CasesOn(bool iwarp) {
  QueuePairs queue_pairs;
  if (!queue_pairs.Open() || queue_pairs.iwarp() != iwarp) return {};
  return {{"Loopback", [] { return RdmaCmPair::Make(false); }}};
}

const auto kFamilies = ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6);

std::string NameOf(const ::testing::TestParamInfo<std::tuple<FabricCase, IpFamily>>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == IpFamily::kIpv4 ? "Ipv4" : "Ipv6");
}

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricConformance, ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricSilentPeerConformance,
                         ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies), NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricDisconnectConformance,
                         ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies), NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricAdoptionConformance,
                         ::testing::Combine(::testing::ValuesIn(SupervisedCases()), kFamilies), NameOf);

const auto kOneCase = ::testing::Combine(::testing::Values(Cases().back()), ::testing::Values(IpFamily::kIpv4));

INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmRequests, kOneCase, NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmLostFile, kOneCase, NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmUnwantedRequests, kOneCase, NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmSilentPeers, kOneCase, NameOf);

INSTANTIATE_TEST_SUITE_P(
    RdmaCm, RdmaCmOwnership,
    ::testing::Combine(
        ::testing::Values(FabricCase{"Checking", [] { return RdmaCmPair::Make(false); }},
                          FabricCase{"Trusting", [] { return RdmaCmPair::Make(false, {.trust_qp_numbers = true}); }}),
        ::testing::Values(IpFamily::kIpv4)),
    NameOf);

// iWARP knows its peers by addresses and ports alone.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RdmaCmStaleConnection);
INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmStaleConnection,
                         ::testing::Combine(::testing::ValuesIn(CasesOn(false)), kFamilies), NameOf);

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RdmaCmUnanswered);
INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmUnanswered,
                         ::testing::Combine(::testing::ValuesIn(CasesOn(true)), ::testing::Values(IpFamily::kIpv4)),
                         NameOf);

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RdmaCmBacklog);
INSTANTIATE_TEST_SUITE_P(RdmaCm, RdmaCmBacklog, ::testing::Combine(::testing::ValuesIn(CasesOn(true)), kFamilies),
                         NameOf);

}  // namespace
}  // namespace rdmabroker
