// SPDX-License-Identifier: Apache-2.0

// What becomes of a device, which RDMA_DEVICE names, when an administrator or udev renames it. As root, on a machine of
// its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/survive/connected_pair.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker {
namespace {

constexpr char kRenamed[] = "renamed0";

class RenamedDevice : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    device_ = device;
  }

  static void Rename(const std::string& from, const std::string& to) {
    EXPECT_EQ(ChildProcess({"rdma", "dev", "set", from, "name", to}).End(), 0);
  }
  std::vector<std::string> Adapters() const {
    client::SessionOptions options;
    options.control_socket = broker_.control_socket();
    const auto opened = client::Session::Open(std::move(options));
    std::vector<std::string> names;
    if (opened.session == nullptr) return names;
    for (const client::Device& known : client::BlockingListAdapters(*opened.session).object) {
      if (known.usable) names.push_back(known.name);
    }
    return names;
  }
  bool Has(const std::string& name) const { return std::ranges::count(Adapters(), name) == 1; }

  std::string device_;
  KeptBroker broker_;
};

// A client that listens.
struct Listening {
  Listening(const RunningBroker& broker, const std::string& device) : client(broker.control_socket(), device) {
    auto [listening, made] = client::BlockingListener::Listen(client.adapter, {client.ip(), 0});
    EXPECT_TRUE(listening.ok()) << listening.hint;
    listener = std::move(made);
  }
  // That a client of the device under this name reaches it.
  void ExpectReached(const RunningBroker& broker, const std::string& name) {
    LibraryClient late(broker.control_socket(), name);
    client::Outcome accepted;
    std::thread accepting([&] { accepted = client.Accept(*listener); });
    const client::Outcome connected = late.Connect(late.ip(), listener->address());
    accepting.join();
    EXPECT_TRUE(connected.ok()) << connected.hint;
    EXPECT_TRUE(accepted.ok()) << accepted.hint;
    client::BlockingClose(std::exchange(late.connector, nullptr));
    client::BlockingClose(std::exchange(client.connector, nullptr));
  }

  LibraryClient client;
  std::unique_ptr<client::BlockingListener> listener;
};

// This process's libibverbs has the device under its first name all the time.
TEST_F(RenamedDevice, KeepsConnectionsAndListenersAndIsOpenedByItsNewNameBeforeAndAfterRestarts) {
  ConnectedPair pair(broker_, device_);
  ASSERT_NO_FATAL_FAILURE(pair.Connect(0));
  Listening first(broker_, device_), second(broker_, device_), third(broker_, device_);

  Rename(device_, kRenamed);
  ASSERT_TRUE(Becomes([this] { return Has(kRenamed); }));
  EXPECT_FALSE(Has(device_));
  first.ExpectReached(broker_, kRenamed);
  ASSERT_NO_FATAL_FAILURE(pair.ExpectUntouched());

  broker_.KillDaemon();
  second.ExpectReached(broker_, kRenamed);
  ASSERT_NO_FATAL_FAILURE(pair.ExpectUntouched());

  broker_.KillDaemonAnd([this] { Rename(kRenamed, device_); });
  third.ExpectReached(broker_, device_);
  EXPECT_FALSE(Has(kRenamed));
  ASSERT_NO_FATAL_FAILURE(pair.ExpectUntouched());
  std::thread ending([&] { pair.a.Disconnect(); });
  EXPECT_TRUE(Becomes([&] { return pair.at_b.count() > 0; }));
  pair.b.Disconnect();
  ending.join();
  EXPECT_EQ(pair.at_b.Statuses(), std::vector{NdkStatus::kSuccess});
}

}  // namespace
}  // namespace rdmabroker
