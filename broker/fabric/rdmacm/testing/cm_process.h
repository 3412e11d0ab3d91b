// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_TESTING_CM_PROCESS_H_
#define BROKER_FABRIC_RDMACM_TESTING_CM_PROCESS_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "broker/core/ids.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// One process's ids and queue pairs on the machine's first device, at one of its addresses. Errors are 0 or an errno,
// as a call returns it or the next event carries it.
class CmProcess {
 public:
  static constexpr uint64_t kCookie = 1;  // Of all ids.

  explicit CmProcess(const IpAddress& ip) : ip_(ip) {
    auto opened = CmFile::Open();
    EXPECT_TRUE(opened.ok()) << opened.status();
    file = *std::move(opened);
    EXPECT_TRUE(queue_pairs.Open()) << "there is no RDMA device";
  }

  KernelId New() const {
    KernelId id{};
    EXPECT_EQ(file->Create(kCookie, &id), 0);
    return id;
  }
  // A listener's address.
  SocketAddress Listen() const {
    const KernelId id = New();
    CmAddresses addresses;
    EXPECT_EQ(file->Bind(id, {ip_, 0}), 0);
    EXPECT_EQ(file->Listen(id), 0);
    EXPECT_EQ(file->QueryAddresses(id, &addresses), 0);
    return addresses.local;
  }
  // With a port that nobody has at this moment.
  SocketAddress FreeAddress() const {
    const KernelId id = New();
    CmAddresses addresses;
    EXPECT_EQ(file->Bind(id, {ip_, 0}), 0);
    EXPECT_EQ(file->QueryAddresses(id, &addresses), 0);
    EXPECT_EQ(file->Destroy(id), 0);
    return addresses.local;
  }
  // The port of an id that shares it with nobody, at the process's address or another.
  uint16_t Occupy() const { return Occupy(ip_); }
  uint16_t Occupy(const char* ip) const { return Occupy(*IpAddress::Parse(ip)); }

  // Whether there is an event, or comes within that time.
  bool HasEvent(absl::Duration within) const {
    pollfd readable = {.fd = file->descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(within))) == 1;
  }
  CmEvent Await() const {
    CmEvent event;
    EXPECT_TRUE(HasEvent(absl::Minutes(1))) << "no event has come";
    EXPECT_EQ(file->NextEvent(&event), 0);
    return event;
  }
  int Resolve(KernelId id, const SocketAddress& local, const SocketAddress& peer) const {
    const int error = file->ResolveAddress(id, local, peer);
    return error != 0 ? error : std::abs(Await().status);
  }
  // As far as the request, on its way to the peer.
  int StartConnect(KernelId id, const SocketAddress& local, const SocketAddress& peer, QpNumber qp,
                   const ReadLimits& limits = {}) const {
    EXPECT_EQ(Resolve(id, local, peer), 0);
    EXPECT_EQ(file->ResolveRoute(id), 0);
    EXPECT_EQ(Await().type, CmEventType::kRouteResolved);
    return file->Connect(id, {.qp = qp, .limits = limits});
  }
  // As far as the peer's answer. With a reason of InfiniBand's, above 0, in `reason` instead of an errno.
  int Connect(KernelId id, const SocketAddress& local, const SocketAddress& peer, QpNumber qp,
              int* reason = nullptr) const {
    if (const int error = StartConnect(id, local, peer, qp); error != 0) return error;
    const CmEvent event = Await();
    if (reason != nullptr) *reason = event.status;
    return event.status > 0 ? 0 : std::abs(event.status);
  }
  // A connect request that has come to a listener of this process.
  KernelId Request(KernelId active, QpNumber qp, const SocketAddress& listener) const {
    EXPECT_EQ(StartConnect(active, {ip_, 0}, listener, qp), 0);
    const CmEvent event = Await();
    EXPECT_EQ(event.type, CmEventType::kConnectRequest);
    return event.id;
  }

  std::shared_ptr<const CmFile> file;
  QueuePairs queue_pairs;

 private:
  uint16_t Occupy(const IpAddress& ip) const {
    const KernelId id = New();
    CmAddresses addresses;
    EXPECT_EQ(file->Bind(id, {ip, 0}), 0);
    EXPECT_EQ(file->QueryAddresses(id, &addresses), 0);
    return addresses.local.port;
  }

  const IpAddress ip_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_TESTING_CM_PROCESS_H_
