// SPDX-License-Identifier: Apache-2.0

// On the one RDMA device of this machine, whose address is 10.77.0.1: tests/vm makes such a machine.

#include "broker/fabric/rdmacm/cm_file.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstdint>
#include <memory>

#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {
namespace {

constexpr uint64_t kActive = 5;
constexpr uint64_t kPassive = 6;
constexpr uint64_t kTakenOver = 7;

std::shared_ptr<const CmFile> Open() {
  auto opened = CmFile::Open();
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

void AwaitReadable(const CmFile& file) {
  pollfd readable = {.fd = file.descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, 60'000), 1) << "no event has come";
}

CmEvent Await(const CmFile& file) {
  CmEvent event;
  AwaitReadable(file);
  EXPECT_EQ(file.NextEvent(&event), 0);
  return event;
}

// The old file's owner, and who takes over from it.
class CmFileMigration : public testing::Test {
 protected:
  const SocketAddress local_ = {*IpAddress::Parse("10.77.0.1"), 0};
  const std::shared_ptr<const CmFile> old_ = Open();
  const std::shared_ptr<const CmFile> new_ = Open();
};

TEST_F(CmFileMigration, BringsAnIdsNextEventUnderItsCookie) {
  KernelId id{};
  ASSERT_EQ(old_->Create(kActive, &id), 0);
  EXPECT_EQ(new_->ResolveAddress(id, local_, {local_.ip, 7000}), EINVAL) << "before it is there";
  ASSERT_EQ(new_->Migrate(id, old_->descriptor()), 0);
  EXPECT_EQ(new_->Migrate(id, old_->descriptor()), EINVAL) << "it has gone";
  ASSERT_EQ(new_->ResolveAddress(id, local_, {local_.ip, 7000}), 0);
  const CmEvent event = Await(*new_);
  EXPECT_EQ(event.type, CmEventType::kAddressResolved);
  EXPECT_EQ(event.cookie, kActive);
  EXPECT_EQ(event.id, id);
  CmEvent none;
  EXPECT_EQ(old_->NextEvent(&none), EAGAIN);
  EXPECT_EQ(old_->Destroy(id), EINVAL);
  EXPECT_EQ(new_->Destroy(id), 0);
}

TEST_F(CmFileMigration, BringsAListenersUnreadRequestWhichIsAcceptedUnderANewCookie) {
  QueuePairs queue_pairs;
  ASSERT_TRUE(queue_pairs.Open()) << "there is no RDMA device";
  KernelId listener{}, active{};
  CmAddresses at;
  ASSERT_EQ(old_->Create(kPassive, &listener), 0);
  ASSERT_EQ(old_->Bind(listener, local_), 0);
  ASSERT_EQ(old_->Listen(listener), 0);
  ASSERT_EQ(old_->QueryAddresses(listener, &at), 0);
  const auto peer = Open();
  ASSERT_EQ(peer->Create(kActive, &active), 0);
  ASSERT_EQ(peer->ResolveAddress(active, local_, at.local), 0);
  ASSERT_EQ(Await(*peer).type, CmEventType::kAddressResolved);
  ASSERT_EQ(peer->ResolveRoute(active), 0);
  ASSERT_EQ(Await(*peer).type, CmEventType::kRouteResolved);
  ASSERT_EQ(peer->Connect(active, {.qp = queue_pairs.Make()}), 0);
  AwaitReadable(*old_);

  ASSERT_EQ(new_->Migrate(listener, old_->descriptor()), 0);
  const CmEvent request = Await(*new_);
  EXPECT_EQ(request.type, CmEventType::kConnectRequest);
  EXPECT_EQ(request.cookie, kPassive);
  const CmParameters parameters = {.qp = queue_pairs.Make()};
  EXPECT_EQ(new_->Accept(request.id, kTakenOver, parameters), EINVAL) << "the request's id is in the old file";
  ASSERT_EQ(new_->Migrate(request.id, old_->descriptor()), 0);
  ASSERT_EQ(new_->Accept(request.id, kTakenOver, parameters), 0);
  if (Await(*peer).type == CmEventType::kConnectResponse) {
    EXPECT_EQ(peer->Establish(active), 0);
  }
  const CmEvent established = Await(*new_);
  EXPECT_EQ(established.type, CmEventType::kEstablished);
  EXPECT_EQ(established.cookie, kTakenOver);
}

}  // namespace
}  // namespace rdmabroker
