// SPDX-License-Identifier: Apache-2.0

// An adapter lets go of a device that is being removed as soon as its consumer's objects are closed.

#include <gtest/gtest.h>

#include <cerrno>

#include "dataplane/adapter.h"
#include "dataplane/testing/side.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/testing/on_stand_in.h"
#include "dataplane/verbs/testing/stand_in.h"

namespace rdmabroker::verbs {
namespace {

class RemovedDevices : public testing::Test {
 protected:
  void SetUp() override {
    StandIn::Reset();
    adapter = OpenAdapter(StandIn::kName).object;
    ASSERT_NE(adapter, nullptr);
  }
  void TearDown() override {
    CloseAndWait(adapter);
    EXPECT_EQ(StandIn::Calls("ibv_close_device"), 1);
    EXPECT_EQ(StandIn::Objects(), 0u) << "that nobody has destroyed";
    StandIn::Reset();
  }
  static bool IsClosed() { return StandIn::Calls("ibv_close_device") == 1; }
  void ExpectNoMoreObjects() {
    EXPECT_EQ(adapter->CreateProtectionDomain().status, NdkStatus::kDeviceRemoved);
    EXPECT_EQ(adapter->CreateCompletionQueue(1, {}).status, NdkStatus::kDeviceRemoved);
  }

  Adapter* adapter = nullptr;
};

TEST_F(RemovedDevices, AnAdapterWithoutObjectsClosesItsDeviceAtOnce) {
  // An object that could not be made is none.
  StandIn::FailNext("ibv_alloc_pd", ENOMEM);
  EXPECT_EQ(adapter->CreateProtectionDomain().object, nullptr);
  StandIn::FailNext("ibv_create_cq", ENOMEM);
  EXPECT_EQ(adapter->CreateCompletionQueue(1, {}).object, nullptr);
  EXPECT_FALSE(IsClosed());
  ReleaseDevice(adapter);
  EXPECT_TRUE(IsClosed());
  ReleaseDevice(adapter);
  ExpectNoMoreObjects();
}

TEST_F(RemovedDevices, AnAdapterWithObjectsClosesItsDeviceWithTheLastDomain) {
  DataObject* const last = adapter->CreateProtectionDomain().object;
  DataSide side(adapter, false, {});
  ReleaseDevice(adapter);
  ExpectNoMoreObjects();
  QueuePair* const late = side.NewQueuePair({}, nullptr);
  EXPECT_NE(late, nullptr) << "the device is still there for the objects of before";
  CloseAndWait(late);
  side.Close();
  EXPECT_FALSE(IsClosed());
  CloseAndWait(last);
  EXPECT_TRUE(IsClosed());
}

TEST_F(RemovedDevices, AnAdapterWithObjectsClosesItsDeviceWithTheLastQueue) {
  DataObject* const last = adapter->CreateCompletionQueue(1, {}).object;
  DataSide side(adapter, false, {});
  ReleaseDevice(adapter);
  side.Close();
  EXPECT_FALSE(IsClosed());
  CloseAndWait(last);
  EXPECT_TRUE(IsClosed());
}

}  // namespace
}  // namespace rdmabroker::verbs
