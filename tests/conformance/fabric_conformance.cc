// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/fabric_conformance.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/time/clock.h"

namespace rdmabroker {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

constexpr SessionId kSession(1);

constexpr int kPortTries = 1000;

Side Other(Side side) { return side == Side::kServer ? Side::kClient : Side::kServer; }

Bytes Pattern(size_t size, uint8_t first) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(first + i);
  return bytes;
}

}  // namespace

std::string Listed(const std::vector<FabricReport>& reports) {
  std::string listed = reports.empty() ? " nothing" : "";
  for (const FabricReport& report : reports) {
    std::visit(
        [&](const auto& typed) {
          listed += std::string(" ") + typeid(typed).name();
          if constexpr (requires { typed.status; }) listed += std::string(" ") + std::string(StatusName(typed.status));
        },
        report);
  }
  return listed;
}

void FabricConformance::SetUp() {
  auto made = std::get<0>(GetParam()).make();
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  pair_ = *std::move(made);
  for (const Side side : Sides()) {
    reports_.clear();
    pair_->fabric(side).Start(sink_);
    const auto reported = [&] {
      return std::any_of(reports_.begin(), reports_.end(),
                         [](const auto& report) { return std::holds_alternative<DeviceChanged>(report); });
    };
    ASSERT_TRUE(StepUntil(reported)) << "the fabric reports no device";
    for (const FabricReport& report : reports_) {
      if (const auto* changed = std::get_if<DeviceChanged>(&report)) {
        devices_.push_back(changed->device);
        break;
      }
    }
  }
  if (devices_.size() == 1) devices_.push_back(devices_.front());
  if (Addresses(Side::kServer).empty() || Addresses(Side::kClient).empty()) {
    GTEST_SKIP() << device(Side::kServer).name << " has no address of this family";
  }
}

void FabricConformance::TearDown() {
  if (pair_ == nullptr || devices_.size() < 2) return;
  const auto side_of = [&](DeviceId id) { return id == device(Side::kServer).id ? Side::kServer : Side::kClient; };
  Settle();
  for (const auto& [id, on] : observer_.living()) Perform(side_of(on), FabricRelease{on, id});
  Settle();
  const auto bound = observer_.bound();
  for (const auto& [id, on] : bound) Perform(side_of(on), FabricUnbind{on, id});
  StepUntil([this] { return !observer_.Releases(); });
  Settle();
  observer_.ExpectNothingLeft();
}

void FabricConformance::Perform(Side side, const FabricRequest& request) {
  observer_.OnRequest(request);
  pair_->fabric(side).Perform(request);
}

void FabricConformance::MakeWay() {
  for (const Side side : Sides()) pair_->fabric(side).MakeWay();
}

void FabricConformance::Settle() {
  while (pair_->Step(kQuiet)) {
  }
}

bool FabricConformance::StepUntil(const std::function<bool()>& done) {
  const absl::Time end = absl::Now() + kPatience;
  while (!done() && absl::Now() < end && pair_->Step(end - absl::Now())) {
  }
  return done();
}

std::vector<Side> FabricConformance::Sides() const {
  if (&pair_->fabric(Side::kServer) == &pair_->fabric(Side::kClient)) return {Side::kServer};
  return {Side::kServer, Side::kClient};
}

std::vector<IpAddress> FabricConformance::Addresses(Side side) const {
  std::vector<IpAddress> some;
  for (const IpAddress& ip : device(side).addresses) {
    if (ip.family == std::get<1>(GetParam())) some.push_back(ip);
  }
  return some;
}

// Other processes bind, too: each of these tests begins elsewhere and asks for the next where one is taken. Those that
// run side by side stay far apart, as TCP keeps a pair of ports for a minute after its connection.
uint16_t FabricConformance::NextPort() {
  constexpr uint32_t kFirst = 49152;
  constexpr uint32_t kCount = 16384;
  static uint32_t next = static_cast<uint32_t>(getpid()) * 1009;
  return static_cast<uint16_t>(kFirst + next++ % kCount);
}

std::optional<FabricBindFailed> FabricConformance::TryBind(Side side, EndpointId endpoint, EndpointUse use,
                                                           const std::vector<IpAddress>& ips, uint16_t port) {
  Perform(side, FabricBind{device(side).id, endpoint, use, ips, port});
  const absl::Time end = absl::Now() + kPatience;
  while (true) {
    if (Take<FabricBound>(endpoint)) return std::nullopt;
    if (auto failed = Take<FabricBindFailed>(endpoint)) return failed;
    if (absl::Now() >= end || !pair_->Step(end - absl::Now())) {
      ADD_FAILURE() << "a bind was not answered";
      return FabricBindFailed{endpoint};
    }
  }
}

FabricConformance::Bound FabricConformance::Bind(Side side, EndpointUse use) {
  return Bind(side, use, {Addresses(side).front()});
}

FabricConformance::Bound FabricConformance::Bind(Side side, EndpointUse use, const std::vector<IpAddress>& ips) {
  for (int tries = 0; tries < kPortTries; ++tries) {
    const EndpointId endpoint = NewEndpoint();
    const uint16_t port = NextPort();
    const auto failed = TryBind(side, endpoint, use, ips, port);
    if (!failed) return {side, endpoint, {ips.front(), port}};
    if (failed->status != NdkStatus::kSharingViolation) {
      ADD_FAILURE() << "bind: " << StatusName(failed->status) << ", provider error " << failed->provider_error;
      return {side};
    }
  }
  ADD_FAILURE() << "no port is free";
  return {side};
}

void FabricConformance::Unbind(const Bound& endpoint) {
  Perform(endpoint.side, FabricUnbind{device(endpoint.side).id, endpoint.id});
  Await<FabricUnbound>(endpoint.id);
}

ConnectionId FabricConformance::Connect(const Bound& from, const SocketAddress& to, Bytes private_data,
                                        ReadLimits limits, SessionId session, ConnectionOptions options) {
  const ConnectionId connection(++last_id_);
  Perform(from.side, FabricConnect{device(from.side).id, connection, from.id, session, pair_->NewQp(from.side, session),
                                   from.address, to, limits, std::move(private_data), ::getpid(), 0, false, options});
  return connection;
}

void FabricConformance::Accept(ConnectionId connection, Bytes private_data, ReadLimits limits,
                               ConnectionOptions options) {
  Perform(Side::kServer,
          FabricAccept{device(Side::kServer).id, connection, kSession, pair_->NewQp(Side::kServer, kSession), limits,
                       std::move(private_data), ::getpid(), 0, options});
}

void FabricConformance::Complete(ConnectionId connection) {
  Perform(Side::kClient, FabricComplete{device(Side::kClient).id, connection, {1, 2}});
}

void FabricConformance::Release(Side side, ConnectionId connection) {
  Perform(side, FabricRelease{device(side).id, connection});
}

FabricConformance::Link FabricConformance::Make(const Bound& from, const Bound& to, Stage stage) {
  Link link;
  link.client = Connect(from, to.address);
  if (stage == Stage::kConnecting) return link;
  link.server = Await<FabricConnectRequested>(to.id).connection;
  if (stage == Stage::kRequested || !link.server) return link;
  Accept(link.server);
  if (stage == Stage::kAccepted) return link;
  three_way_ = Await<FabricReplied>(link.client).three_way;
  if (stage == Stage::kReplied) return link;
  Complete(link.client);
  Await<FabricEstablished>(link.client);
  Await<FabricEstablished>(link.server);
  return link;
}

// Some technologies pad what they carry with zeros.
void FabricConformance::ExpectCarried(const Bytes& sent, const Bytes& received, uint32_t area) const {
  ASSERT_GE(received.size(), sent.size());
  EXPECT_LE(received.size(), std::max<size_t>(area, 196)) << "more than the area of any message";
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), received.begin()));
  EXPECT_TRUE(std::all_of(received.begin() + static_cast<ptrdiff_t>(sent.size()), received.end(),
                          [](uint8_t byte) { return byte == 0; }));
}

void FabricConformance::ExpectReachable(const Bound& listener, const SocketAddress& address) {
  // On one machine an address reaches itself; a link-local one reaches only those of its link.
  const std::vector<IpAddress> ips = Addresses(Side::kClient);
  const bool shared = std::find(ips.begin(), ips.end(), address.ip) != ips.end();
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated, {shared ? address.ip : ips.front()});
  const ConnectionId client = Connect(from, address);
  const auto requested = Await<FabricConnectRequested>(listener.id);
  EXPECT_EQ(requested.local, address);
  if (!requested.connection) return;
  Perform(Side::kServer, FabricReject{device(Side::kServer).id, requested.connection, {}});
  Await<FabricReleased>(requested.connection);
  Await<FabricConnectFailed>(client);
  Release(Side::kClient, client);
  Await<FabricReleased>(client);
  Unbind(from);
}

void FabricConformance::ExpectRefused(const SocketAddress& address) {
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const ConnectionId client = Connect(from, address);
  const auto failed = Await<FabricConnectFailed>(client);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused) << StatusName(failed.status);
  Release(Side::kClient, client);
  Await<FabricReleased>(client);
  Unbind(from);
}

void FabricAdoptionConformance::GoOn() {
  Settle();
  reports_.clear();
  observer_ = ContractObserver();
  for (const Side side : Sides()) pair_->GoOn(side, device(side), sink_);
}

void FabricAdoptionConformance::Adopt(const Bound& endpoint, EndpointUse use) {
  Perform(endpoint.side, FabricAdoptEndpoint{
                             device(endpoint.side).id, endpoint.id, use, {endpoint.address.ip}, endpoint.address.port});
}

void FabricAdoptionConformance::Adopt(ConnectionId connection, AdoptedStage stage, const Bound& own,
                                      const Bound& peers) {
  Perform(own.side, FabricAdoptConnection{device(own.side).id, connection, own.id, stage, own.address, peers.address});
}

void FabricAdoptionConformance::Adopt(const Bound& from, const Bound& listener, const Link& link) {
  Adopt(from, EndpointUse::kDedicated);
  Adopt(listener, EndpointUse::kListener);
  Adopt(link.client, AdoptedStage::kEstablished, from, listener);
  Adopt(link.server, AdoptedStage::kEstablished, listener, from);
}

void FabricAdoptionConformance::FinishAdoption() {
  for (const Side side : Sides()) Perform(side, FabricAdopted{device(side).id});
  Settle();
  for (const Side side : Sides()) {
    const bool is_there = std::any_of(reports_.begin(), reports_.end(), [&](const FabricReport& report) {
      const auto* changed = std::get_if<DeviceChanged>(&report);
      return changed != nullptr && changed->device.id == device(side).id;
    });
    EXPECT_TRUE(is_there) << "the device is not reported by the id that it had, but" << Listed(reports_);
  }
}

// --- Endpoints ---

TEST_P(FabricConformance, ReportsADeviceThatCanBeUsed) {
  for (const Side side : {Side::kServer, Side::kClient}) {
    EXPECT_FALSE(device(side).name.empty());
    EXPECT_TRUE(device(side).id);
    EXPECT_TRUE(std::is_sorted(device(side).addresses.begin(), device(side).addresses.end()));
    EXPECT_GT(device(side).info.max_caller_data, 0u);
    EXPECT_GT(device(side).info.max_callee_data, 0u);
  }
}

TEST_P(FabricConformance, BindsForEveryUseAndUnbinds) {
  for (const EndpointUse use :
       {EndpointUse::kListener, EndpointUse::kDedicated, EndpointUse::kShared, EndpointUse::kReserved}) {
    const Bound endpoint = Bind(Side::kServer, use);
    EXPECT_FALSE(pair_->Occupy(Side::kServer, endpoint.address));
    Unbind(endpoint);
    EXPECT_TRUE(pair_->Occupy(Side::kServer, endpoint.address));
    pair_->Vacate(Side::kServer, endpoint.address);
  }
}

TEST_P(FabricConformance, ARouteLeavesFromAnAddressOfTheHost) {
  const IpAddress to = Addresses(Side::kServer).front();
  const Route route = pair_->fabric(Side::kClient).RouteTo({to, 4420});
  EXPECT_EQ(StatusName(route.status), "STATUS_SUCCESS");
  std::vector<IpAddress> hosts = Addresses(Side::kClient);
  hosts.push_back(to);  // Where both sides are one host.
  EXPECT_NE(std::find(hosts.begin(), hosts.end(), route.source), hosts.end()) << route.source.ToString();
}

TEST_P(FabricConformance, AnOutsidersAddressIsASharingViolationAndNothingIsHeldAfterIt) {
  SocketAddress address{Addresses(Side::kServer).front()};
  do {
    address.port = NextPort();
  } while (!pair_->Occupy(Side::kServer, address));
  for (const EndpointUse use :
       {EndpointUse::kListener, EndpointUse::kDedicated, EndpointUse::kShared, EndpointUse::kReserved}) {
    const auto failed = TryBind(Side::kServer, NewEndpoint(), use, {address.ip}, address.port);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->status, NdkStatus::kSharingViolation) << StatusName(failed->status);
  }
  pair_->Vacate(Side::kServer, address);
  const Bound endpoint{Side::kServer, NewEndpoint(), address};
  EXPECT_FALSE(TryBind(Side::kServer, endpoint.id, EndpointUse::kListener, {address.ip}, address.port));
}

TEST_P(FabricConformance, AnAddressOfNoDeviceIsInvalid) {
  // Reserved for documentation (RFC 5737, RFC 3849).
  const IpAddress ip = *IpAddress::Parse(std::get<1>(GetParam()) == IpFamily::kIpv4 ? "203.0.113.77" : "2001:db8::77");
  const auto failed = TryBind(Side::kServer, NewEndpoint(), EndpointUse::kListener, {ip}, NextPort());
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, NdkStatus::kInvalidAddress) << StatusName(failed->status);
}

TEST_P(FabricConformance, SeveralAddressesAreBoundAllOrNone) {
  const auto ips = Addresses(Side::kServer);
  if (ips.size() < 2) GTEST_SKIP() << device(Side::kServer).name << " has one address of this family";
  uint16_t port = 0;
  do {
    port = NextPort();
  } while (!pair_->Occupy(Side::kServer, {ips.back(), port}));
  const auto failed = TryBind(Side::kServer, NewEndpoint(), EndpointUse::kListener, ips, port);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, NdkStatus::kSharingViolation);
  EXPECT_TRUE(pair_->Occupy(Side::kServer, {ips.front(), port})) << "a failed bind holds a part";
  pair_->Vacate(Side::kServer, {ips.front(), port});
  pair_->Vacate(Side::kServer, {ips.back(), port});
  const Bound listener{Side::kServer, NewEndpoint(), {ips.front(), port}};
  ASSERT_FALSE(TryBind(Side::kServer, listener.id, EndpointUse::kListener, ips, port));
  for (const IpAddress& ip : ips) ExpectReachable(listener, {ip, port});
}

TEST_P(FabricConformance, RequestsComeToTheListenerOfTheirAddress) {
  const auto ips = Addresses(Side::kServer);
  if (ips.size() < 2) GTEST_SKIP() << device(Side::kServer).name << " has one address of this family";
  const Bound one = Bind(Side::kServer, EndpointUse::kListener, {ips[0]});
  const Bound other{Side::kServer, NewEndpoint(), {ips[1], one.address.port}};
  ASSERT_FALSE(TryBind(Side::kServer, other.id, EndpointUse::kListener, {ips[1]}, one.address.port));
  ExpectReachable(one, one.address);
  ExpectReachable(other, other.address);
}

TEST_P(FabricConformance, ARebindFollowsTheAddresses) {
  const auto ips = Addresses(Side::kServer);
  if (ips.size() < 2) GTEST_SKIP() << device(Side::kServer).name << " has one address of this family";
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener, {ips[0]});
  const SocketAddress second{ips[1], listener.address.port};
  Perform(Side::kServer, FabricRebind{device(Side::kServer).id, listener.id, {ips[0], ips[1]}});
  Settle();
  ExpectReachable(listener, listener.address);
  ExpectReachable(listener, second);
  Perform(Side::kServer, FabricRebind{device(Side::kServer).id, listener.id, {ips[1]}});
  Settle();
  ExpectRefused(listener.address);
  ExpectReachable(listener, second);
}

TEST_P(FabricConformance, AReservedAddressRefusesUntilItIsRepurposed) {
  const Bound reserved = Bind(Side::kServer, EndpointUse::kReserved);
  ExpectRefused(reserved.address);
  Perform(Side::kServer, FabricRepurpose{device(Side::kServer).id, reserved.id, EndpointUse::kListener});
  Await<FabricBound>(reserved.id);
  EXPECT_FALSE(pair_->Occupy(Side::kServer, reserved.address));
  ExpectReachable(reserved, reserved.address);
}

TEST_P(FabricConformance, AReservedAddressBecomesASharedEndpoint) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound shared = Bind(Side::kClient, EndpointUse::kReserved);
  Perform(Side::kClient, FabricRepurpose{device(Side::kClient).id, shared.id, EndpointUse::kShared});
  Await<FabricBound>(shared.id);
  Make(shared, listener, Stage::kEstablished);
}

TEST_P(FabricConformance, SeveralConnectionsStartFromASharedEndpoint) {
  const Bound one = Bind(Side::kServer, EndpointUse::kListener);
  const Bound other = Bind(Side::kServer, EndpointUse::kListener);
  const Bound shared = Bind(Side::kClient, EndpointUse::kShared);
  const Link first = Make(shared, one, Stage::kEstablished);
  const Link second = Make(shared, other, Stage::kEstablished);
  EXPECT_NE(first.server, second.server);
  Release(Side::kClient, first.client);
  Await<FabricReleased>(first.client);
  ExpectReachable(other, other.address);
}

TEST_P(FabricConformance, AnUnboundListenerRefuses) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  ExpectReachable(listener, listener.address);
  Unbind(listener);
  ExpectRefused(listener.address);
}

TEST_P(FabricConformance, NoRequestIsReportedOnceAListenerIsUnbound) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const ConnectionId client = Connect(from, listener.address);
  Unbind(listener);
  reports_.erase(
      std::remove_if(reports_.begin(), reports_.end(),
                     [](const auto& report) { return std::holds_alternative<FabricConnectRequested>(report); }),
      reports_.end());
  Settle();
  EXPECT_FALSE(Take<FabricConnectRequested>(listener.id));
  // What came before the end of the unbind is the core's, and given up in TearDown; what the device had not told of yet
  // is refused, or dropped.
  const auto living = observer_.living();
  const bool came = std::any_of(living.begin(), living.end(), [&](const auto& one) { return one.first != client; });
  if (!came) {
    EXPECT_THAT(Await<FabricConnectFailed>(client).status,
                testing::AnyOf(NdkStatus::kConnectionRefused, NdkStatus::kIoTimeout));
  }
}

TEST_P(FabricConformance, AnAddressIsFreeAfterItsConnectionsAreReleasedAndItIsUnbound) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kEstablished);
  Release(Side::kServer, link.server);
  Await<FabricReleased>(link.server);
  Unbind(listener);
  const Bound again{Side::kServer, NewEndpoint(), listener.address};
  EXPECT_FALSE(TryBind(Side::kServer, again.id, EndpointUse::kListener, {again.address.ip}, again.address.port));
  Settle();
  Release(Side::kClient, link.client);
  Await<FabricReleased>(link.client);
  Unbind(from);
  EXPECT_FALSE(TryBind(Side::kClient, NewEndpoint(), EndpointUse::kDedicated, {from.address.ip}, from.address.port));
}

// --- Making way for another process ---

TEST_P(FabricConformance, HandshakesThatAreUnderWayGoOnWhileFabricsMakeWay) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  std::vector<Link> links;
  for (const Stage stage : {Stage::kRequested, Stage::kAccepted, Stage::kReplied}) {
    links.push_back(Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, stage));
  }
  MakeWay();
  Accept(links[0].server);
  for (const Link& link : links) {
    if (&link != &links[2]) Await<FabricReplied>(link.client);
    Complete(link.client);
    Await<FabricEstablished>(link.client);
    Await<FabricEstablished>(link.server);
  }
  Settle();
  for (const Side side : {Side::kServer, Side::kClient}) EXPECT_FALSE(pair_->fabric(side).HasHandshakes());
}

// It goes on, or waits for the next process.
TEST_P(FabricConformance, AHandshakeThatIsToBeginWhileFabricsMakeWayDoesNotFail) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  MakeWay();
  const ConnectionId client = Connect(from, listener.address);
  Settle();
  EXPECT_FALSE(Take<FabricConnectFailed>(client));
  EXPECT_FALSE(Take<FabricReplied>(client));
}

// --- Set-up ---

TEST_P(FabricConformance, AConnectionIsEstablishedInThreeSteps) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Bytes question = Pattern(11, 1);
  const Bytes answer = Pattern(13, 101);
  const ConnectionId client = Connect(from, listener.address, question, {4, 3});
  const auto requested = Await<FabricConnectRequested>(listener.id);
  EXPECT_EQ(requested.local, listener.address);
  EXPECT_EQ(requested.peer, from.address);
  EXPECT_EQ(requested.peer_limits, (ReadLimits{4, 3}));
  ExpectCarried(question, requested.private_data, device(Side::kServer).info.max_caller_data);
  ASSERT_TRUE(requested.connection);
  EXPECT_FALSE(Take<FabricReplied>(client));
  Accept(requested.connection, answer, {2, 1});
  const auto replied = Await<FabricReplied>(client);
  EXPECT_EQ(replied.three_way, requested.three_way);
  if (replied.three_way) {
    EXPECT_EQ(replied.peer_limits, (ReadLimits{2, 1}));
  } else {
    // The peer's driver serves as many reads as it was asked to issue to it, where its device can.
    EXPECT_THAT(replied.peer_limits.inbound, AllOf(Ge(2u), Le(3u)));
    EXPECT_EQ(replied.peer_limits.outbound, 1u);
  }
  ExpectCarried(answer, replied.private_data, device(Side::kClient).info.max_callee_data);
  // Where the handshake has three steps the queue pair's owner makes it ready, otherwise the driver or the transport.
  const bool owner_moves = replied.three_way && !hands_off();
  EXPECT_EQ(replied.qp_attributes.size(), owner_moves ? 3u : 0u);
  EXPECT_EQ(requested.qp_attributes.size(), owner_moves ? 3u : 0u);
  if (replied.three_way) {
    Settle();
    EXPECT_FALSE(Take<FabricEstablished>(requested.connection)) << "before the third message";
  }
  Complete(client);
  EXPECT_EQ(Await<FabricEstablished>(client).handoff.has_value(), hands_off());
  EXPECT_EQ(Await<FabricEstablished>(requested.connection).handoff.has_value(), hands_off());
}

TEST_P(FabricConformance, PrivateDataOfEveryLengthIsCarried) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const uint32_t caller = device(Side::kClient).info.max_caller_data;
  const uint32_t callee = device(Side::kServer).info.max_callee_data;
  struct Row {
    size_t asked;
    size_t said;
  };
  for (const Row row : {Row{0, 0}, Row{1, 0}, Row{0, 1}, Row{caller, 0}, Row{0, callee}, Row{caller, callee}}) {
    for (const bool accept : {true, false}) {
      SCOPED_TRACE(testing::Message() << row.asked << " bytes asked, " << row.said
                                      << (accept ? " accepted" : " rejected"));
      const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
      const ConnectionId client = Connect(from, listener.address, Pattern(row.asked, 1));
      const auto requested = Await<FabricConnectRequested>(listener.id);
      ExpectCarried(Pattern(row.asked, 1), requested.private_data, caller);
      if (accept) {
        Accept(requested.connection, Pattern(row.said, 55));
        ExpectCarried(Pattern(row.said, 55), Await<FabricReplied>(client).private_data, callee);
      } else {
        Perform(Side::kServer, FabricReject{device(Side::kServer).id, requested.connection, Pattern(row.said, 55)});
        const auto failed = Await<FabricConnectFailed>(client);
        EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
        ExpectCarried(Pattern(row.said, 55), failed.private_data, callee);
      }
    }
  }
}

TEST_P(FabricConformance, ReadLimitsOfZeroAndOfTheDevicesMostAreCarried) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const AdapterInfo& info = device(Side::kClient).info;
  for (const ReadLimits limits :
       {ReadLimits{0, 0}, ReadLimits{info.max_inbound_read_limit, info.max_outbound_read_limit}, ReadLimits{1, 0},
        ReadLimits{0, 1}}) {
    const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
    const ConnectionId client = Connect(from, listener.address, {}, limits);
    const auto requested = Await<FabricConnectRequested>(listener.id);
    EXPECT_EQ(requested.peer_limits, limits);
    Accept(requested.connection, {}, {limits.outbound, limits.inbound});
    EXPECT_EQ(Await<FabricReplied>(client).peer_limits, (ReadLimits{limits.outbound, limits.inbound}));
  }
}

// For the queue pairs that their owners make ready; drivers and transports do as they do.
TEST_P(FabricConformance, EachSideSaysHowOftenThePeerTriesASendAgainThatFindsNoReceive) {
  constexpr uint32_t kReadyToSend = 3;  // enum ibv_qp_state.
  const auto retries_of = [](const auto& report) {
    std::set<uint32_t> retries;
    for (const QpAttributes& step : report.qp_attributes) {
      if (step.qp_state == kReadyToSend) retries.insert(step.rnr_retry);
    }
    return retries;
  };
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  for (const uint32_t clients : {0u, 3u, ConnectionOptions::kForEver}) {
    const uint32_t servers = ConnectionOptions::kForEver - clients;
    const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
    const ConnectionId client = Connect(from, listener.address, {}, {1, 1}, kSession, {.rnr_retry_count = clients});
    const auto requested = Await<FabricConnectRequested>(listener.id);
    Accept(requested.connection, {}, {1, 1}, {.rnr_retry_count = servers});
    const auto replied = Await<FabricReplied>(client);
    if (!replied.three_way || hands_off()) continue;
    EXPECT_THAT(retries_of(requested), ElementsAre(clients));
    EXPECT_THAT(retries_of(replied), ElementsAre(servers));
  }
}

TEST_P(FabricConformance, WhereNobodyListensConnectIsRefused) {
  const Bound reserved = Bind(Side::kServer, EndpointUse::kReserved);
  ExpectRefused(reserved.address);
}

TEST_P(FabricConformance, AConnectionIsRefusedWithoutData) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kRequested);
  Perform(Side::kServer, FabricRefuse{device(Side::kServer).id, link.server});
  Await<FabricReleased>(link.server);
  const auto failed = Await<FabricConnectFailed>(link.client);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
  ExpectCarried({}, failed.private_data, device(Side::kClient).info.max_callee_data);
}

TEST_P(FabricConformance, ARefusedConnectCanBeTriedAgainFromTheSameEndpoint) {
  const Bound reserved = Bind(Side::kServer, EndpointUse::kReserved);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const ConnectionId first = Connect(from, reserved.address);
  EXPECT_EQ(Await<FabricConnectFailed>(first).status, NdkStatus::kConnectionRefused);
  Release(Side::kClient, first);
  Perform(Side::kServer, FabricRepurpose{device(Side::kServer).id, reserved.id, EndpointUse::kListener});
  Await<FabricBound>(reserved.id);
  Make(from, reserved, Stage::kEstablished);
  EXPECT_TRUE(AwaitIfAny<FabricReleased>(first));
}

TEST_P(FabricConformance, ConnectionsAreMadeSideBySide) {
  constexpr size_t kConnections = 16;
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  std::vector<ConnectionId> clients;
  std::vector<ConnectionId> servers;
  for (size_t i = 0; i < kConnections; ++i) {
    clients.push_back(Connect(Bind(Side::kClient, EndpointUse::kDedicated), listener.address,
                              Pattern(4, static_cast<uint8_t>(16 * i))));
  }
  std::set<uint8_t> seen;
  for (size_t i = 0; i < kConnections; ++i) {
    const auto requested = Await<FabricConnectRequested>(listener.id);
    ASSERT_GE(requested.private_data.size(), 1u);
    EXPECT_TRUE(seen.insert(requested.private_data[0]).second);
    servers.push_back(requested.connection);
    Accept(requested.connection);
  }
  for (const ConnectionId client : clients) Await<FabricReplied>(client);
  for (const ConnectionId client : clients) Complete(client);
  for (const ConnectionId client : clients) Await<FabricEstablished>(client);
  for (const ConnectionId server : servers) Await<FabricEstablished>(server);
}

// --- Giving up before the connection is there ---

TEST_P(FabricConformance, ARejectedReplyFailsTheAccept) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kReplied);
  Perform(Side::kClient, FabricReject{device(Side::kClient).id, link.client, Pattern(5, 9)});
  Await<FabricReleased>(link.client);
  if (three_way_) {
    EXPECT_EQ(Await<FabricFailed>(link.server).status, NdkStatus::kConnectionAborted);
  } else {
    // Without a third message the acceptor cannot tell this from a connection that ends at once.
    Await<FabricEstablished>(link.server);
    if (!hands_off()) Await<FabricDisconnected>(link.server);
  }
}

// What a client that gives up does to the server's side, at every stage.
TEST_P(FabricConformance, AClientThatGivesUpIsReleasedAndItsPeerLearnsOfIt) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  for (const Stage stage : {Stage::kConnecting, Stage::kRequested, Stage::kAccepted, Stage::kReplied}) {
    SCOPED_TRACE(testing::Message() << "stage " << static_cast<int>(stage));
    const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
    Link link = Make(from, listener, stage);
    Release(Side::kClient, link.client);
    Await<FabricReleased>(link.client);
    if (stage == Stage::kConnecting) {
      // The request may be on its way still, or never have left.
      const auto requested = AwaitIfAny<FabricConnectRequested>(listener.id);
      if (!requested) continue;
      link.server = requested->connection;
    }
    if (stage == Stage::kConnecting || stage == Stage::kRequested) {
      // Some technologies tell the acceptor at once, some when it accepts.
      if (const auto failed = AwaitIfAny<FabricFailed>(link.server)) {
        EXPECT_EQ(failed->status, NdkStatus::kConnectionAborted);
        continue;
      }
      Accept(link.server);
    }
    Settle();
    if (Take<FabricEstablished>(link.server)) {
      if (!hands_off()) {
        EXPECT_TRUE(Take<FabricDisconnected>(link.server));
      }
    } else {
      EXPECT_EQ(Await<FabricFailed>(link.server).status, NdkStatus::kConnectionAborted);
    }
  }
}

TEST_P(FabricConformance, AServerThatGivesUpBeforeItAcceptsRefuses) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kRequested);
  Release(Side::kServer, link.server);
  Await<FabricReleased>(link.server);
  EXPECT_EQ(Await<FabricConnectFailed>(link.client).status, NdkStatus::kConnectionRefused);
}

TEST_P(FabricConformance, AServerThatGivesUpAfterItAcceptedFailsTheConnect) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kReplied);
  Release(Side::kServer, link.server);
  Await<FabricReleased>(link.server);
  if (const auto failed = AwaitIfAny<FabricFailed>(link.client)) {
    EXPECT_EQ(failed->status, NdkStatus::kConnectionAborted);
    return;
  }
  Complete(link.client);
  Settle();
  if (Take<FabricEstablished>(link.client)) {
    if (!hands_off()) {
      EXPECT_TRUE(Take<FabricDisconnected>(link.client));
    }
  } else {
    EXPECT_EQ(Await<FabricFailed>(link.client).status, NdkStatus::kConnectionAborted);
  }
}

TEST_P(FabricConformance, AConnectionIsReleasedOnceWhateverItsStage) {
  for (const Stage stage :
       {Stage::kConnecting, Stage::kRequested, Stage::kAccepted, Stage::kReplied, Stage::kEstablished}) {
    for (const Side first : {Side::kServer, Side::kClient}) {
      SCOPED_TRACE(testing::Message() << "stage " << static_cast<int>(stage) << ", first side "
                                      << static_cast<int>(first));
      const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
      const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
      Link link = Make(from, listener, stage);
      if (!link.server) {
        Settle();
        if (auto requested = Take<FabricConnectRequested>(listener.id)) link.server = requested->connection;
      }
      for (const Side side : {first, Other(first)}) {
        const ConnectionId connection = side == Side::kServer ? link.server : link.client;
        if (connection) Release(side, connection);
        Settle();
      }
      for (const ConnectionId connection : {link.client, link.server}) {
        if (!connection) continue;
        Await<FabricReleased>(connection);
        Settle();
        EXPECT_FALSE(Take<FabricReleased>(connection));
      }
      Unbind(from);
      Unbind(listener);
    }
  }
}

TEST_P(FabricDisconnectConformance, AServerThatGivesUpAsTheClientCompletesEndsTheClientsConnection) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kReplied);
  Release(Side::kServer, link.server);
  Complete(link.client);
  // The goodbye may come before the third message goes out, or after.
  if (AwaitIfAny<FabricFailed>(link.client)) return;
  Await<FabricEstablished>(link.client);
  Await<FabricDisconnected>(link.client);
}

TEST_P(FabricSilentPeerConformance, APeerThatDoesNotAnswerDelaysNobodyElse) {
  // More than any fabric waits for at a time.
  constexpr size_t kAttempts = 40;
  const SocketAddress silent = pair_->SilentPeer(Side::kClient, std::get<1>(GetParam()));
  std::vector<ConnectionId> attempts;
  for (size_t i = 0; i < kAttempts; ++i) {
    attempts.push_back(Connect(Bind(Side::kClient, EndpointUse::kDedicated), silent));
  }
  Settle();
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kEstablished);
  Release(Side::kClient, link.client);
  Await<FabricReleased>(link.client);
  for (const ConnectionId attempt : attempts) {
    EXPECT_FALSE(Take<FabricConnectFailed>(attempt)) << "the others waited until it had failed";
  }
}

// --- The end ---

TEST_P(FabricDisconnectConformance, ADisconnectWaitsForThePeersFromEitherSide) {
  for (const Side side : {Side::kServer, Side::kClient}) {
    const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
    const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kEstablished);
    const ConnectionId own = side == Side::kServer ? link.server : link.client;
    const ConnectionId peers = side == Side::kServer ? link.client : link.server;
    Perform(side, FabricDisconnect{device(side).id, own});
    EXPECT_EQ(Await<FabricDisconnected>(peers).status, NdkStatus::kSuccess);
    Settle();
    // Without a third message, drivers tell the end when the peer has been told.
    const auto early = Take<FabricDisconnected>(own);
    EXPECT_FALSE(early && three_way_) << "before the peer has disconnected";
    Release(Other(side), peers);
    Await<FabricReleased>(peers);
    EXPECT_EQ((early ? *early : Await<FabricDisconnected>(own)).status, NdkStatus::kSuccess);
    Release(side, own);
    Await<FabricReleased>(own);
  }
}

TEST_P(FabricDisconnectConformance, DisconnectsThatCrossEndBothSides) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kEstablished);
  Perform(Side::kServer, FabricDisconnect{device(Side::kServer).id, link.server});
  Perform(Side::kClient, FabricDisconnect{device(Side::kClient).id, link.client});
  EXPECT_EQ(Await<FabricDisconnected>(link.server).status, NdkStatus::kSuccess);
  EXPECT_EQ(Await<FabricDisconnected>(link.client).status, NdkStatus::kSuccess);
}

TEST_P(FabricDisconnectConformance, GivingUpAnEstablishedConnectionEndsItForThePeer) {
  for (const Side side : {Side::kServer, Side::kClient}) {
    const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
    const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kEstablished);
    Release(side, side == Side::kServer ? link.server : link.client);
    EXPECT_THAT(Await<FabricDisconnected>(side == Side::kServer ? link.client : link.server).status,
                AnyOf(NdkStatus::kSuccess, NdkStatus::kConnectionAborted));
  }
}

TEST_P(FabricHandOffConformance, ATransportIsFetchedOnceByItsSecret) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kReplied);
  Complete(link.client);
  const auto client = Await<FabricEstablished>(link.client).handoff;
  const auto server = Await<FabricEstablished>(link.server).handoff;
  ASSERT_TRUE(client && server);
  EXPECT_NE(*client, *server);
  HandoffSecret wrong = *client;
  wrong[0] ^= 1;
  EXPECT_FALSE(pair_->Fetch(Side::kClient, wrong));
  EXPECT_TRUE(pair_->Fetch(Side::kClient, *client));
  Await<FabricHandedOff>(link.client);
  EXPECT_FALSE(pair_->Fetch(Side::kClient, *client));
  EXPECT_TRUE(pair_->Fetch(Side::kServer, *server));
  Await<FabricHandedOff>(link.server);
  pair_->CloseTransport(Side::kClient, link.client);
  pair_->CloseTransport(Side::kServer, link.server);
  Settle();
  EXPECT_FALSE(Take<FabricDisconnected>(link.client)) << "the client sees to it";
  Release(Side::kClient, link.client);
  Await<FabricReleased>(link.client);
  Release(Side::kServer, link.server);
  Await<FabricReleased>(link.server);
}

TEST_P(FabricHandOffConformance, AReleasedConnectionsTransportCannotBeFetched) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Link link = Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kReplied);
  Complete(link.client);
  const auto secret = Await<FabricEstablished>(link.client).handoff;
  ASSERT_TRUE(secret);
  Release(Side::kClient, link.client);
  Await<FabricReleased>(link.client);
  EXPECT_FALSE(pair_->Fetch(Side::kClient, *secret));
}

// --- Going on where another process was ---

TEST_P(FabricAdoptionConformance, AdoptedEndpointsHoldTheirAddressesUntilTheyAreUnbound) {
  std::vector<std::pair<Bound, EndpointUse>> endpoints;
  for (const EndpointUse use :
       {EndpointUse::kListener, EndpointUse::kDedicated, EndpointUse::kShared, EndpointUse::kReserved}) {
    endpoints.emplace_back(Bind(Side::kServer, use), use);
  }
  GoOn();
  for (const auto& [endpoint, use] : endpoints) Adopt(endpoint, use);
  FinishAdoption();
  for (const auto& [endpoint, use] : endpoints) {
    SCOPED_TRACE(testing::Message() << "use " << static_cast<int>(use));
    EXPECT_FALSE(pair_->Occupy(Side::kServer, endpoint.address));
    Unbind(endpoint);
    Settle();
    EXPECT_TRUE(pair_->Occupy(Side::kServer, endpoint.address));
    pair_->Vacate(Side::kServer, endpoint.address);
  }
}

TEST_P(FabricAdoptionConformance, AnAdoptedListenerIsReached) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  GoOn();
  Adopt(listener, EndpointUse::kListener);
  FinishAdoption();
  ExpectReachable(listener, listener.address);
}

TEST_P(FabricAdoptionConformance, AnEndpointThatIsNotThereIsBoundAgain) {
  Bound listener{Side::kServer, NewEndpoint(), {Addresses(Side::kServer).front()}};
  do {
    listener.address.port = NextPort();
  } while (!pair_->Occupy(Side::kServer, listener.address));
  pair_->Vacate(Side::kServer, listener.address);
  GoOn();
  Adopt(listener, EndpointUse::kListener);
  FinishAdoption();
  EXPECT_FALSE(pair_->Occupy(Side::kServer, listener.address));
  ExpectReachable(listener, listener.address);
}

TEST_P(FabricAdoptionConformance, AnAdoptedConnectionGoesOnUntilItIsReleased) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kEstablished);
  GoOn();
  Adopt(from, listener, link);
  FinishAdoption();
  EXPECT_FALSE(Take<FabricDisconnected>(link.client));
  EXPECT_FALSE(Take<FabricDisconnected>(link.server));
  // The observer sees that its connections have other ids.
  Make(Bind(Side::kClient, EndpointUse::kDedicated), listener, Stage::kEstablished);
  Release(Side::kServer, link.server);
  Await<FabricReleased>(link.server);
  if (!hands_off()) Await<FabricDisconnected>(link.client);
}

TEST_P(FabricAdoptionConformance, ARequestCanBeAcceptedByTheNextProcessOrBothEndsFail) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kRequested);
  GoOn();
  Adopt(from, EndpointUse::kDedicated);
  Adopt(listener, EndpointUse::kListener);
  Adopt(link.client, AdoptedStage::kConnecting, from, listener);
  Adopt(link.server, AdoptedStage::kRequested, listener, from);
  FinishAdoption();
  EXPECT_FALSE(Take<FabricConnectRequested>(listener.id)) << "the core has it already";
  if (const auto failed = Take<FabricFailed>(link.server)) {
    EXPECT_EQ(failed->status, NdkStatus::kConnectionAborted);
    EXPECT_EQ(Await<FabricConnectFailed>(link.client).status, NdkStatus::kConnectionAborted);
    return;
  }
  Accept(link.server);
  Await<FabricReplied>(link.client);
  Complete(link.client);
  Await<FabricEstablished>(link.client);
  Await<FabricEstablished>(link.server);
}

TEST_P(FabricAdoptionConformance, AConnectionThatIsNotThereIsReportedAsLost) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const ConnectionId connecting(++last_id_), replied(++last_id_), established(++last_id_), over(++last_id_);
  const ConnectionId requested = IncomingConnection(device(Side::kServer).id, 1);
  GoOn();
  Adopt(from, EndpointUse::kDedicated);
  Adopt(listener, EndpointUse::kListener);
  Adopt(connecting, AdoptedStage::kConnecting, from, listener);
  Adopt(replied, AdoptedStage::kReplied, from, listener);
  Adopt(established, AdoptedStage::kEstablished, from, listener);
  Adopt(over, AdoptedStage::kOver, from, listener);
  Adopt(requested, AdoptedStage::kRequested, listener, from);
  Release(Side::kClient, over);
  FinishAdoption();
  EXPECT_EQ(Await<FabricConnectFailed>(connecting).status, NdkStatus::kConnectionAborted);
  EXPECT_EQ(Await<FabricFailed>(replied).status, NdkStatus::kConnectionAborted);
  EXPECT_EQ(Await<FabricFailed>(requested).status, NdkStatus::kConnectionAborted);
  Await<FabricReleased>(over);
  if (hands_off()) {
    EXPECT_FALSE(Take<FabricDisconnected>(established)) << "its client may have it";
  } else {
    EXPECT_EQ(Await<FabricDisconnected>(established).status, NdkStatus::kConnectionAborted);
  }
  // By an id that none of them has, as the observer sees.
  ExpectReachable(listener, listener.address);
}

TEST_P(FabricAdoptionConformance, WhatNobodyAdoptsEnds) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound idle = Bind(Side::kServer, EndpointUse::kReserved);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kEstablished);
  GoOn();
  Adopt(from, EndpointUse::kDedicated);
  Adopt(link.client, AdoptedStage::kEstablished, from, listener);
  FinishAdoption();
  if (!hands_off()) Await<FabricDisconnected>(link.client);
  ExpectRefused(listener.address);
  EXPECT_FALSE(TryBind(Side::kServer, NewEndpoint(), EndpointUse::kListener, {idle.address.ip}, idle.address.port));
}

TEST_P(FabricHandOffAdoptionConformance, ATransportIsFetchedOnceFromWhicheverProcess) {
  const Bound listener = Bind(Side::kServer, EndpointUse::kListener);
  const Bound from = Bind(Side::kClient, EndpointUse::kDedicated);
  const Link link = Make(from, listener, Stage::kReplied);
  Complete(link.client);
  const auto client = Await<FabricEstablished>(link.client).handoff;
  const auto server = Await<FabricEstablished>(link.server).handoff;
  ASSERT_TRUE(client && server);
  EXPECT_TRUE(pair_->Fetch(Side::kClient, *client));
  Await<FabricHandedOff>(link.client);
  GoOn();
  Adopt(from, listener, link);
  FinishAdoption();
  EXPECT_FALSE(pair_->Fetch(Side::kClient, *client));
  EXPECT_TRUE(pair_->Fetch(Side::kServer, *server));
  Await<FabricHandedOff>(link.server);
  pair_->CloseTransport(Side::kClient, link.client);
  pair_->CloseTransport(Side::kServer, link.server);
}

// A fabric's devices are of one of the two kinds.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricDisconnectConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricHandOffConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricHandOffAdoptionConformance);
// The fake's network loses nothing.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricSilentPeerConformance);

}  // namespace rdmabroker
