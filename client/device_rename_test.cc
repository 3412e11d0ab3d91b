// SPDX-License-Identifier: Apache-2.0

// A device, the one that RDMA_DEVICE names, that is renamed while the broker is asked for it. Needs root's rights, and
// a machine of its own.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "client/blocking.h"
#include "client/session.h"
#include "client/testing/scripted_broker.h"
#include "proto/rdmabroker/v1/adapter.pb.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "tests/control/child_process.h"

namespace rdmabroker::client {
namespace {

void Rename(const std::string& from, const std::string& to) {
  EXPECT_EQ(ChildProcess({"rdma", "dev", "set", from, "name", to}).End(), 0);
}

TEST(DeviceRename, BeforeTheBrokerHasAnsweredDoesNotKeepTheDeviceFromBeingOpened) {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
  ScriptedBroker broker;
  broker.OnOpen({});
  broker.On("OpenAdapter", [device](const ScriptedBroker::Request&) {
    Rename(device, "renamed0");
    ScriptedBroker::Answer answer;
    v1::AdapterOpened& opened = *answer.outcome.mutable_adapter_opened();
    opened.set_adapter_id(50);
    const bool iwarp = std::string(device).starts_with("siw");
    opened.mutable_info()->set_technology(iwarp ? v1::RDMA_TECHNOLOGY_IWARP : v1::RDMA_TECHNOLOGY_ROCE_V2);
    return answer;
  });
  SessionOptions options;
  options.control_socket = broker.control_socket();
  auto opening = Session::Open(std::move(options));
  ASSERT_TRUE(opening.outcome.ok()) << opening.outcome.hint;
  auto [opened, adapter] = BlockingOpenAdapter(*opening.session, device);
  EXPECT_TRUE(opened.ok()) << opened.hint;
  ASSERT_NE(adapter, nullptr);
  EXPECT_NE(adapter->data(), nullptr);
  adapter = nullptr;
  opening.session = nullptr;
  Rename("renamed0", device);
}

}  // namespace
}  // namespace rdmabroker::client
