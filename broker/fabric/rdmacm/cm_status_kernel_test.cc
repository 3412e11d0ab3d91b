// SPDX-License-Identifier: Apache-2.0

// What a fabric reports where the kernel's connection manager fails: each row of CmStatus's table that can be brought
// about with one machine, by the step at which it comes. Runs without rights, in a network that tests/vm/conformance
// makes.
//
// Of the other rows, these cannot be brought about (lines of drivers/infiniband in Linux 6.1.192):
//   EAFNOSUPPORT      core/cma.c:3968, rdma_bind_addr_dst: CmFile writes AF_INET and AF_INET6 only
//   ENOMEM, ENOBUFS   the kernel is short of memory
//   EMFILE, ENFILE    opening a file; ids are not files
//   EPERM             core/addr.c:126, ib_nl_handle_ip_res_resp, tells a sender of netlink messages so, and no id
//   kResolveRoute     core/cma.c:3156, cma_resolve_iw_route, fails for want of memory only; cma.c:3251,
//                     cma_resolve_iboe_route, besides (3281) where the interface has gone since the address was
//                     resolved; ETIMEDOUT is the subnet manager's (2864, cma_query_handler), which InfiniBand alone has
//   kConnect with ENODEV, EACCES
//                     sw/siw/siw_cm.c:1407, siw_connect, has them from TCP where no way leads to the peer, of which
//                     resolving its address has told before
//   kFinish with ETIMEDOUT
//                     a peer's kernel asks for 65 seconds each time that a reply comes again (core/cma.c:2168,
//                     cma_ib_handler), 16 times; the broker gives up before. iWARP waits for nobody then (siw_accept)
//   kReason before a reply, but 8
//                     28 and 10 are in tests/conformance; others are the kernel's own failures (core/cm.c)

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/no_past.h"
#include "broker/fabric/rdmacm/testing/plain_listener.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {
namespace {

// The device's; and of the same network, nobody's.
constexpr char kLocal[] = "10.77.0.1";
constexpr char kNobody[] = "10.77.0.99";
// The machine's, and no device's.
constexpr char kLoopback[] = "10.99.0.1";
// A neighbour that never answers, and one for whose address nobody answers.
constexpr char kSilent[] = "10.77.0.250";
constexpr char kMissing[] = "10.77.0.251";
// To where the machine's routes do not lead, by their kind; and to where a router's do not.
constexpr char kLocal6[] = "fd00:77::1";
constexpr char kNoRoute[] = "198.51.100.1";
constexpr char kNoRoute6[] = "2001:db8::1";
constexpr char kUnreachable6[] = "fd00:78:8::1";
constexpr char kProhibited6[] = "fd00:78:9::1";
constexpr char kBeforeRouter[] = "10.78.0.1";  // Another device's.
constexpr char kRouter[] = "10.78.0.2";
constexpr char kNoHostBeyond[] = "10.78.8.1";
constexpr char kNoNetworkBeyond[] = "10.78.9.1";

constexpr QpNumber kNoQueuePair = {0xABCDE};

SocketAddress At(const char* ip, uint16_t port) { return {*IpAddress::Parse(ip), port}; }

// The kernel gives a silent peer up after 16 times 4 seconds and more (core/cma.c:4355, cma_connect_ib).
constexpr absl::Duration kPatience = absl::Minutes(3);

// How a request has failed: with an errno, or InfiniBand's reason. That it has not is 0, kSuccess.
struct Failure {
  uint32_t error = 0;
  NdkStatus status = NdkStatus::kSuccess;
};

// A fabric, and its peers.
class Kernel : public CmProcess {
 public:
  Kernel() : CmProcess(*IpAddress::Parse(kLocal)) {
    // So that a queue pair that nobody has gets as far as the kernel.
    auto opened = RdmaCmFabric::Open(DeviceId(1), {.trust_qp_numbers = true}, no_past_.past(), loop_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    fabric_ = *std::move(opened);
    fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
    for (const FabricReport& report : reports_) {
      const auto* changed = std::get_if<DeviceChanged>(&report);
      if (changed != nullptr) devices_.push_back(changed->device);
    }
  }

  Failure BindTo(const char* ip, uint16_t port) {
    fabric_->Perform(FabricBind{DeviceOf(kLocal), EndpointId(1), EndpointUse::kReserved, {At(ip, 0).ip}, port});
    return Await<FabricBound, FabricBindFailed>();
  }
  // As far as the peer's reply.
  Failure ConnectFrom(const SocketAddress& local, const SocketAddress& peer, QpNumber qp, const char* on = kLocal) {
    fabric_->Perform(FabricConnect{.device = DeviceOf(on),
                                   .connection = kOurs,
                                   .endpoint = EndpointId(1),
                                   .session = SessionId(1),
                                   .qp = qp,
                                   .local = local,
                                   .peer = peer,
                                   .limits = {},
                                   .private_data = {},
                                   .process = ::getpid()});
    return Await<FabricReplied, FabricConnectFailed>();
  }
  Failure ConnectTo(const SocketAddress& peer) { return ConnectFrom(At(kLocal, 0), peer, queue_pairs.Make()); }
  Failure ResolveFrom(const char* local, const char* peer, uint16_t port = 0) {
    return ConnectFrom(At(local, port), At(peer, 7000), queue_pairs.Make());
  }
  Failure ConnectThroughRouter(const char* peer) {
    EXPECT_TRUE(others_.Open(1)) << "there is no second RDMA device";
    return ConnectFrom(At(kBeforeRouter, 0), At(peer, 7000), others_.Make(), kBeforeRouter);
  }
  // Where the fabric listens from now on.
  SocketAddress ListenHere() {
    const KernelId holder = New();
    CmAddresses free;
    EXPECT_EQ(file->Bind(holder, At(kLocal, 0)), 0);
    EXPECT_EQ(file->QueryAddresses(holder, &free), 0);
    EXPECT_EQ(file->Destroy(holder), 0);
    const SocketAddress at = free.local;
    fabric_->Perform(FabricBind{DeviceOf(kLocal), EndpointId(1), EndpointUse::kListener, {at.ip}, at.port});
    EXPECT_EQ((Await<FabricBound, FabricBindFailed>().error), 0U);
    return at;
  }
  // A peer's connect request that has come to that listener: the peer's id.
  KernelId TakeRequest(const SocketAddress& listener) {
    const KernelId peer = New();
    EXPECT_EQ(StartConnect(peer, At(kLocal, 0), listener, queue_pairs.Make()), 0);
    const auto requests = [this] { return std::ranges::count_if(reports_, Is<FabricConnectRequested>); };
    const auto before = requests();
    RunUntil([&] { return requests() > before; });
    return peer;
  }
  // Of the first that has come.
  Failure Accept(QpNumber qp) {
    const auto request = Find<FabricConnectRequested>();
    if (!request) return {};
    fabric_->Perform(FabricAccept{DeviceOf(kLocal), request->connection, SessionId(1), qp, /*limits=*/{},
                                  /*private_data=*/{}, ::getpid()});
    return Await<FabricEstablished, FabricFailed>();
  }
  // From a peer that accepts, and then says nothing more.
  Failure DisconnectFromASilentPeer() {
    const SocketAddress listener = Listen();
    std::optional<KernelId> request;
    std::thread accepting([&] {
      request = CmProcess::Await().id;
      EXPECT_EQ(file->Accept(*request, kCookie, {.qp = peers_.Make()}), 0);
    });
    EXPECT_TRUE(peers_.Open());
    EXPECT_EQ(ConnectTo(listener).error, 0U);
    accepting.join();
    fabric_->Perform(FabricComplete{DeviceOf(kLocal), kOurs, {}});
    EXPECT_EQ((Await<FabricEstablished, FabricFailed>().error), 0U);
    EXPECT_EQ(CmProcess::Await().type, CmEventType::kEstablished);
    fabric_->Perform(FabricDisconnect{DeviceOf(kLocal), kOurs});
    return Await<FabricBound, FabricDisconnected>();
  }

 private:
  static constexpr ConnectionId kOurs{1};

  DeviceId DeviceOf(const char* ip) const {
    for (const Device& device : devices_) {
      if (std::ranges::find(device.addresses, At(ip, 0).ip) != device.addresses.end()) return device.id;
    }
    ADD_FAILURE() << "no device has " << ip;
    return DeviceId();
  }
  template <typename Report>
  static bool Is(const FabricReport& report) {
    return std::holds_alternative<Report>(report);
  }
  template <typename Report>
  std::optional<Report> Find() const {
    for (const FabricReport& report : reports_) {
      if (const auto* typed = std::get_if<Report>(&report)) return *typed;
    }
    return std::nullopt;
  }
  void RunUntil(const auto& done) {
    const absl::Time end = Loop::Now() + kPatience;
    while (!done() && Loop::Now() < end) loop_.RunTurn(end);
    EXPECT_TRUE(done()) << "no report has come";
  }
  template <typename Good, typename Bad>
  Failure Await() {
    RunUntil([this] { return Find<Good>().has_value() || Find<Bad>().has_value(); });
    const std::optional<Bad> bad = Find<Bad>();
    return bad ? Failure{bad->provider_error, bad->status} : Failure();
  }

  Loop loop_;
  QueuePairs others_, peers_;
  NoPast no_past_;
  std::unique_ptr<RdmaCmFabric> fabric_;
  std::vector<FabricReport> reports_;
  std::vector<Device> devices_;
};

enum class On : uint8_t { kBoth, kIwarp, kRoce };

struct Row {
  const char* name;
  On on;
  uint32_t error;
  NdkStatus status;
  Failure (*provoke)(Kernel&);
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

constexpr Row kRows[] = {
    {"BindToATakenPort", On::kBoth, EADDRINUSE, NdkStatus::kSharingViolation,
     [](Kernel& kernel) { return kernel.BindTo(kLocal, kernel.Occupy()); }},
    {"BindToAPortThatIsTakenOnAllAddresses", On::kBoth, EADDRNOTAVAIL, NdkStatus::kSharingViolation,
     [](Kernel& kernel) { return kernel.BindTo(kLocal, kernel.Occupy("0.0.0.0")); }},
    {"BindToAPortThatIsTakenOnAllIpv6Addresses", On::kBoth, EADDRNOTAVAIL, NdkStatus::kSharingViolation,
     [](Kernel& kernel) { return kernel.BindTo(kLocal6, kernel.Occupy("::")); }},
    {"BindToNobodysAddress", On::kBoth, EADDRNOTAVAIL, NdkStatus::kInvalidAddress,
     [](Kernel& kernel) { return kernel.BindTo(kNobody, 7000); }},
    {"BindToNoDevicesAddress", On::kBoth, ENODEV, NdkStatus::kInvalidAddress,
     [](Kernel& kernel) { return kernel.BindTo(kLoopback, 7000); }},
    {"BindToAnotherDevicesAddress", On::kBoth, ENODEV, NdkStatus::kInvalidAddress,
     [](Kernel& kernel) { return kernel.BindTo(kBeforeRouter, 7000); }},
    {"BindToAPrivilegedPort", On::kBoth, EACCES, NdkStatus::kAccessDenied,
     [](Kernel& kernel) { return kernel.BindTo(kLocal, 80); }},

    {"ResolveFromATakenPort", On::kBoth, EADDRINUSE, NdkStatus::kSharingViolation,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal, kSilent, kernel.Occupy()); }},
    {"ResolveFromNobodysAddress", On::kBoth, EADDRNOTAVAIL, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kNobody, kSilent); }},
    {"ResolveFromNoDevicesAddress", On::kBoth, ENODEV, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLoopback, kSilent); }},
    {"ResolveFromAnotherDevicesAddress", On::kBoth, ENODEV, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kBeforeRouter, kRouter); }},
    {"ResolveWithoutARoute", On::kBoth, ENETUNREACH, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal6, kNoRoute6); }},
    // core/addr.c looks for a way through the id's interface, and IPv4 then takes everybody for a neighbour.
    {"ResolveWithoutARouteOverIpv4", On::kBoth, ETIMEDOUT, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal, kNoRoute); }},
    {"ResolveOverAnUnreachableRoute", On::kBoth, EHOSTUNREACH, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal6, kUnreachable6); }},
    {"ResolveOverAProhibitedRoute", On::kBoth, EACCES, NdkStatus::kAccessDenied,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal6, kProhibited6); }},
    {"ResolveAMissingNeighbour", On::kBoth, ETIMEDOUT, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal, kMissing); }},

    {"ConnectWhereNobodyListens", On::kIwarp, ECONNREFUSED, NdkStatus::kConnectionRefused,
     [](Kernel& kernel) { return kernel.ConnectTo(At(kLocal, kernel.Occupy())); }},
    // InfiniBand's reason 8: no listener has the address.
    {"ConnectWhereNobodyListens", On::kRoce, 8, NdkStatus::kConnectionRefused,
     [](Kernel& kernel) { return kernel.ConnectTo(At(kLocal, kernel.Occupy())); }},
    {"ConnectToASilentPeer", On::kBoth, ETIMEDOUT, NdkStatus::kIoTimeout,
     [](Kernel& kernel) { return kernel.ConnectTo(At(kSilent, 7000)); }},
    {"ConnectBeyondARouterThatHasNoSuchHost", On::kIwarp, EHOSTUNREACH, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ConnectThroughRouter(kNoHostBeyond); }},
    {"ConnectBeyondARouterThatHasNoSuchNetwork", On::kIwarp, ENETUNREACH, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ConnectThroughRouter(kNoNetworkBeyond); }},
    {"ConnectWithTheAddressesOfAConnection", On::kIwarp, EADDRNOTAVAIL, NdkStatus::kAddressAlreadyExists,
     [](Kernel& kernel) {
       const SocketAddress listener = kernel.Listen();
       const KernelId first = kernel.New();
       EXPECT_EQ(kernel.file->ShareAddress(first), 0);
       kernel.Request(first, kernel.queue_pairs.Make(), listener);
       CmAddresses addresses;
       EXPECT_EQ(kernel.file->QueryAddresses(first, &addresses), 0);
       return kernel.ConnectFrom(addresses.local, listener, kernel.queue_pairs.Make());
     }},
    // rdma_cm does not know of the host's TCP ports.
    {"ConnectFromAPortThatTcpHas", On::kIwarp, EADDRINUSE, NdkStatus::kSharingViolation,
     [](Kernel& kernel) {
       const PlainListener listener(*IpAddress::Parse(kLocal));
       return kernel.ConnectFrom(listener.address(), kernel.Listen(), kernel.queue_pairs.Make());
     }},
    {"ConnectWithoutAQueuePair", On::kIwarp, EINVAL, NdkStatus::kConnectionInvalid,
     [](Kernel& kernel) { return kernel.ConnectFrom(At(kLocal, 0), kernel.Listen(), kNoQueuePair); }},
    {"ConnectToAPeerThatHangsUp", On::kIwarp, ECONNRESET, NdkStatus::kConnectionRefused,
     [](Kernel& kernel) {
       PlainListener listener(*IpAddress::Parse(kLocal));
       std::thread accepting([&] { listener.HangUp(); });
       const Failure failure = kernel.ConnectTo(listener.address());
       accepting.join();
       return failure;
     }},
    {"ConnectToAPeerThatSaysNothing", On::kIwarp, ETIMEDOUT, NdkStatus::kIoTimeout,
     [](Kernel& kernel) {
       const PlainListener listener(*IpAddress::Parse(kLocal));
       return kernel.ConnectTo(listener.address());
     }},

    {"AcceptWithoutAQueuePair", On::kIwarp, EINVAL, NdkStatus::kConnectionAborted,
     [](Kernel& kernel) {
       kernel.TakeRequest(kernel.ListenHere());
       return kernel.Accept(kNoQueuePair);
     }},
    {"AcceptAPeerThatHasGone", On::kRoce, EINVAL, NdkStatus::kConnectionAborted,
     [](Kernel& kernel) {
       const SocketAddress listener = kernel.ListenHere();
       EXPECT_EQ(kernel.file->Destroy(kernel.TakeRequest(listener)), 0);
       // The kernel takes messages in their order, and tells nobody that a request is gone.
       kernel.TakeRequest(listener);
       return kernel.Accept(kernel.queue_pairs.Make());
     }},
    {"DisconnectFromASilentPeer", On::kRoce, ETIMEDOUT, NdkStatus::kIoTimeout,
     [](Kernel& kernel) { return kernel.DisconnectFromASilentPeer(); }},
};

class CmStatusOfTheKernel : public testing::TestWithParam<Row> {};

TEST_P(CmStatusOfTheKernel, IsWhatTheTableExpects) {
  const Row& row = GetParam();
  Kernel kernel;
  const Failure failure = row.provoke(kernel);
  EXPECT_EQ(failure.error, row.error);
  EXPECT_EQ(failure.status, row.status) << StatusName(failure.status);
}

bool OnIwarp() {
  QueuePairs queue_pairs;
  return queue_pairs.Open() && queue_pairs.iwarp();
}

// The rows that the machine's device can show.
std::vector<Row> Rows() {
  const bool iwarp = OnIwarp();
  std::vector<Row> rows;
  for (const Row& row : kRows) {
    if (row.on == On::kBoth || row.on == (iwarp ? On::kIwarp : On::kRoce)) rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Provoked, CmStatusOfTheKernel, testing::ValuesIn(Rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rdmabroker
