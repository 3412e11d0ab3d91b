// SPDX-License-Identifier: Apache-2.0

// What the kernel's connection manager says where something fails, as CmStatus takes it: each row of its table that can
// be brought about with one machine. Runs without rights, in a network that tests/vm/conformance makes.
//
// Of the other rows, these no process can bring about (files of drivers/infiniband, Linux 6.1):
//   EAFNOSUPPORT      core/cma.c, rdma_bind_addr_dst: CmFile writes AF_INET and AF_INET6 only
//   ENOMEM, ENOBUFS   the kernel is short of memory
//   EMFILE, ENFILE    opening a file; ids are not files
//   EPERM             no path of core/ucma.c or core/cma.c returns it; core/addr.c has it for other families' answers
//   kResolveRoute     core/cma.c, cma_resolve_iboe_route and cma_resolve_iw_route ask nobody and fail for want of
//                     memory only; ETIMEDOUT is the subnet manager's (cma_query_handler), which InfiniBand alone has
//   kConnect with ETIMEDOUT on RoCE, kFinish and kDisconnect with it
//                     a peer that falls silent; core/cm.c gives up after more than a minute, and the broker before it

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/cm_status.h"
#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

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
constexpr char kNoHostBeyond[] = "10.78.8.1";
constexpr char kNoNetworkBeyond[] = "10.78.9.1";

SocketAddress At(const char* ip, uint16_t port) { return {*IpAddress::Parse(ip), port}; }

// A TCP listener that is no iWARP device's.
class PlainListener {
 public:
  explicit PlainListener(const char* ip) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, ip, &address.sin_addr);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
    socklen_t length = sizeof address;
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    address_ = At(ip, ntohs(address.sin_port));
  }
  const SocketAddress& address() const { return address_; }
  UniqueFd Accept() const { return UniqueFd(::accept(socket_.get(), nullptr, nullptr)); }

 private:
  const UniqueFd socket_;
  SocketAddress address_;
};

class Kernel : public CmProcess {
 public:
  Kernel() : CmProcess(*IpAddress::Parse(kLocal)) {}

  int BindTo(const char* ip, uint16_t port) const { return file->Bind(New(), At(ip, port)); }
  int ResolveFrom(const char* local, const char* peer, uint16_t port = 0) const {
    return Resolve(New(), At(local, port), At(peer, 7000));
  }
  int ConnectTo(const SocketAddress& peer) { return Connect(New(), At(kLocal, 0), peer, queue_pairs.Make()); }
  int ConnectThroughRouter(const char* peer) {
    QueuePairs others;
    EXPECT_TRUE(others.Open(1)) << "there is no second RDMA device";
    return Connect(New(), At(kBeforeRouter, 0), At(peer, 7000), others.Make());
  }
};

enum class On : uint8_t { kBoth, kIwarp };

struct Row {
  const char* name;
  On on;
  CmStep step;
  int error;
  NdkStatus status;
  int (*provoke)(Kernel&);
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

constexpr Row kRows[] = {
    {"BindToATakenPort", On::kBoth, CmStep::kBind, EADDRINUSE, NdkStatus::kSharingViolation,
     [](Kernel& kernel) { return kernel.BindTo(kLocal, kernel.Occupy()); }},
    {"BindToNobodysAddress", On::kBoth, CmStep::kBind, EADDRNOTAVAIL, NdkStatus::kInvalidAddress,
     [](Kernel& kernel) { return kernel.BindTo(kNobody, 0); }},
    {"BindToNoDevicesAddress", On::kBoth, CmStep::kBind, ENODEV, NdkStatus::kInvalidAddress,
     [](Kernel& kernel) { return kernel.BindTo(kLoopback, 0); }},
    {"BindToAPrivilegedPort", On::kBoth, CmStep::kBind, EACCES, NdkStatus::kAccessDenied,
     [](Kernel& kernel) { return kernel.BindTo(kLocal, 80); }},

    {"ResolveFromATakenPort", On::kBoth, CmStep::kResolveAddress, EADDRINUSE, NdkStatus::kSharingViolation,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal, kSilent, kernel.Occupy()); }},
    {"ResolveFromNobodysAddress", On::kBoth, CmStep::kResolveAddress, EADDRNOTAVAIL, NdkStatus::kInvalidAddress,
     [](Kernel& kernel) { return kernel.ResolveFrom(kNobody, kSilent); }},
    {"ResolveFromNoDevicesAddress", On::kBoth, CmStep::kResolveAddress, ENODEV, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLoopback, kSilent); }},
    {"ResolveWithoutARoute", On::kBoth, CmStep::kResolveAddress, ENETUNREACH, NdkStatus::kNetworkUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal6, kNoRoute6); }},
    // core/addr.c looks for a way through the id's interface, and IPv4 then takes everybody for a neighbour.
    {"ResolveWithoutARouteOverIpv4", On::kBoth, CmStep::kResolveAddress, ETIMEDOUT, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal, kNoRoute); }},
    {"ResolveOverAnUnreachableRoute", On::kBoth, CmStep::kResolveAddress, EHOSTUNREACH, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal6, kUnreachable6); }},
    {"ResolveOverAProhibitedRoute", On::kBoth, CmStep::kResolveAddress, EACCES, NdkStatus::kAccessDenied,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal6, kProhibited6); }},
    {"ResolveAMissingNeighbour", On::kBoth, CmStep::kResolveAddress, ETIMEDOUT, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ResolveFrom(kLocal, kMissing); }},

    {"ConnectWhereNobodyListens", On::kIwarp, CmStep::kConnect, ECONNREFUSED, NdkStatus::kConnectionRefused,
     [](Kernel& kernel) { return kernel.ConnectTo(At(kLocal, kernel.Occupy())); }},
    {"ConnectToASilentPeer", On::kIwarp, CmStep::kConnect, ETIMEDOUT, NdkStatus::kIoTimeout,
     [](Kernel& kernel) { return kernel.ConnectTo(At(kSilent, 7000)); }},
    {"ConnectBeyondARouterThatHasNoSuchHost", On::kIwarp, CmStep::kConnect, EHOSTUNREACH, NdkStatus::kHostUnreachable,
     [](Kernel& kernel) { return kernel.ConnectThroughRouter(kNoHostBeyond); }},
    {"ConnectBeyondARouterThatHasNoSuchNetwork", On::kIwarp, CmStep::kConnect, ENETUNREACH,
     NdkStatus::kNetworkUnreachable, [](Kernel& kernel) { return kernel.ConnectThroughRouter(kNoNetworkBeyond); }},
    {"ConnectWithTheAddressesOfAConnection", On::kIwarp, CmStep::kConnect, EADDRNOTAVAIL,
     NdkStatus::kAddressAlreadyExists,
     [](Kernel& kernel) {
       const SocketAddress listener = kernel.Listen();
       const KernelId first = kernel.New(), second = kernel.New();
       EXPECT_EQ(kernel.file->ShareAddress(first), 0);
       EXPECT_EQ(kernel.file->ShareAddress(second), 0);
       kernel.Request(first, kernel.queue_pairs.Make(), listener);
       CmAddresses addresses;
       EXPECT_EQ(kernel.file->QueryAddresses(first, &addresses), 0);
       return kernel.Connect(second, addresses.local, listener, kernel.queue_pairs.Make());
     }},
    {"ConnectWithoutAQueuePair", On::kIwarp, CmStep::kConnect, EINVAL, NdkStatus::kUnsuccessful,
     [](Kernel& kernel) { return kernel.Connect(kernel.New(), At(kLocal, 0), kernel.Listen(), QpNumber{0xABCDE}); }},
    {"ConnectToAPeerThatHangsUp", On::kIwarp, CmStep::kConnect, ECONNRESET, NdkStatus::kConnectionRefused,
     [](Kernel& kernel) {
       const PlainListener listener(kLocal);
       const KernelId id = kernel.New();
       EXPECT_EQ(kernel.Resolve(id, At(kLocal, 0), listener.address()), 0);
       EXPECT_EQ(kernel.file->ResolveRoute(id), 0);
       EXPECT_EQ(kernel.Await().type, CmEventType::kRouteResolved);
       EXPECT_EQ(kernel.file->Connect(id, {.qp = kernel.queue_pairs.Make()}), 0);
       EXPECT_TRUE(listener.Accept());
       return std::abs(kernel.Await().status);
     }},
    {"ConnectToAPeerThatSaysNothing", On::kIwarp, CmStep::kConnect, ETIMEDOUT, NdkStatus::kIoTimeout,
     [](Kernel& kernel) {
       const PlainListener listener(kLocal);
       return kernel.ConnectTo(listener.address());
     }},
    {"AcceptWhomTheListenerHasLost", On::kBoth, CmStep::kFinish, EINVAL, NdkStatus::kConnectionAborted,
     [](Kernel& kernel) {
       const KernelId request = kernel.Request(kernel.New(), kernel.queue_pairs.Make(), kernel.Listen());
       EXPECT_EQ(kernel.file->Reject(request, {}), 0);
       return kernel.file->Accept(request, CmProcess::kCookie, {.qp = kernel.queue_pairs.Make()});
     }},
};

class CmStatusOfTheKernel : public testing::TestWithParam<Row> {};

TEST_P(CmStatusOfTheKernel, IsWhatTheTableExpects) {
  const Row& row = GetParam();
  Kernel kernel;
  EXPECT_EQ(row.provoke(kernel), row.error);
  EXPECT_EQ(CmStatus(row.step, row.error), row.status);
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
    if (row.on == On::kBoth || iwarp) rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Provoked, CmStatusOfTheKernel, testing::ValuesIn(Rows()),
                         [](const auto& row) { return row.param.name; });

// The two reasons that CmConnection tells from others, on a device that has reasons: 8, no listener has the address,
// and 10, the peer has a connection with this queue pair.
class CmReasonsOfTheKernel : public testing::TestWithParam<bool> {};

TEST_P(CmReasonsOfTheKernel, TellAMissingListenerFromAStaleConnection) {
  Kernel kernel;
  int reason = 0;
  EXPECT_EQ(
      kernel.Connect(kernel.New(), At(kLocal, 0), At(kLocal, kernel.Occupy()), kernel.queue_pairs.Make(), &reason), 0);
  EXPECT_EQ(reason, 8);
  const SocketAddress listener = kernel.Listen();
  const QpNumber qp = kernel.queue_pairs.Make();
  const KernelId first = kernel.New();
  const KernelId request = kernel.Request(first, qp, listener);
  EXPECT_EQ(kernel.file->Accept(request, CmProcess::kCookie, {.qp = kernel.queue_pairs.Make()}), 0);
  EXPECT_EQ(kernel.Await().type, CmEventType::kConnectResponse);
  EXPECT_EQ(kernel.Connect(kernel.New(), At(kLocal, 0), listener, qp, &reason), 0);
  EXPECT_EQ(reason, 10);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CmReasonsOfTheKernel);
INSTANTIATE_TEST_SUITE_P(OfRoce, CmReasonsOfTheKernel,
                         testing::ValuesIn(OnIwarp() ? std::vector<bool>() : std::vector<bool>{true}));

}  // namespace
}  // namespace rdmabroker
