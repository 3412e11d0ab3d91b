// SPDX-License-Identifier: Apache-2.0

// A program in C that waits learns that its device is gone.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "client/c/rdma_broker.h"
#include "client/testing/scripted_broker.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {
namespace {

TEST(CAdapterRemoval, EndsAWaitForEventsWithItsStatusAndAHint) {
  client::ScriptedBroker broker;
  rdma_broker_handle events = 0, session = 0;
  ASSERT_EQ(rdma_broker_events_create(&events), RDMA_BROKER_STATUS_SUCCESS);
  rdma_broker_session_options options = {};
  options.size = sizeof options;
  options.control_socket = broker.control_socket().c_str();
  ASSERT_EQ(rdma_broker_session_open(&options, events, &session, nullptr), RDMA_BROKER_STATUS_SUCCESS);
  constexpr uint64_t kOpened = 1, kAdapter = 2;
  ASSERT_EQ(rdma_broker_adapter_open(session, "iwarp0", kAdapter, kOpened), RDMA_BROKER_STATUS_PENDING);
  rdma_broker_event event = {};
  event.size = sizeof event;
  ASSERT_EQ(rdma_broker_events_await(events, kOpened, -1, &event), RDMA_BROKER_STATUS_SUCCESS);
  ASSERT_EQ(event.status, RDMA_BROKER_STATUS_SUCCESS) << event.hint;
  const rdma_broker_handle adapter = event.object;

  v1::SessionEvent removed;
  removed.mutable_adapter_removed()->set_adapter_id(client::ScriptedBroker::kFirstObject);
  broker.Emit(removed);
  ASSERT_EQ(rdma_broker_events_next(events, -1, &event), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(event.kind, uint32_t{RDMA_BROKER_EVENT_ADAPTER_REMOVED});
  EXPECT_EQ(event.source, adapter);
  EXPECT_EQ(event.context, kAdapter);
  EXPECT_EQ(event.status, RDMA_BROKER_STATUS_DEVICE_REMOVED);
  EXPECT_GT(std::strlen(event.hint), 0u);

  EXPECT_EQ(rdma_broker_close(session, 0), RDMA_BROKER_STATUS_PENDING);
  do {
    ASSERT_EQ(rdma_broker_events_next(events, -1, &event), RDMA_BROKER_STATUS_SUCCESS);
  } while (event.kind != RDMA_BROKER_EVENT_CLOSED || event.source != session);
  rdma_broker_close(events, 0);
}

}  // namespace
}  // namespace rdmabroker
