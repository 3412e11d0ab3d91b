// SPDX-License-Identifier: Apache-2.0

// A C program learns that an adapter is gone, and which adapter a peer has reached.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "client/c/rdma_broker.h"
#include "client/c/testing/on_scripted_broker.h"
#include "client/testing/scripted_broker.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {
namespace {

using CAdapters = OnScriptedBroker;

TEST_F(CAdapters, TheRemovalOfOneEndsAWaitForEventsWithItsStatusAndAHint) {
  const rdma_broker_handle adapter = OpenAdapter();
  v1::SessionEvent removed;
  removed.mutable_adapter_removed()->set_adapter_id(client::ScriptedBroker::kFirstObject);
  broker_.Emit(removed);
  ASSERT_EQ(rdma_broker_events_next(events_, -1, &event_), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(event_.kind, uint32_t{RDMA_BROKER_EVENT_ADAPTER_REMOVED});
  EXPECT_EQ(event_.source, adapter);
  EXPECT_EQ(event_.context, kAdapter);
  EXPECT_EQ(event_.status, RDMA_BROKER_STATUS_DEVICE_REMOVED);
  EXPECT_GT(std::strlen(event_.hint), 0u);
}

TEST_F(CAdapters, AConnectorSaysWhichOneItsPeerHasReached) {
  const rdma_broker_handle adapters[] = {OpenAdapter(), OpenAdapter()};
  const rdma_broker_handle listener = Made(rdma_broker_listener_create(adapters[0], 0, kAsked));
  Made(rdma_broker_listen_with(listener, "127.0.0.1:4420", RDMA_BROKER_ANY_ADAPTER, kAsked));
  const auto listen = broker_.WaitFor("Listen");
  EXPECT_TRUE(listen.As<v1::ListenRequest>().any_adapter());
  EXPECT_FALSE(listen.As<v1::ListenRequest>().await_address());
  rdma_broker_handle connectors[2] = {};
  for (const uint64_t i : {0, 1}) {
    v1::SessionEvent arrived = client::ScriptedBroker::ConnectEvent(listen.object, 900 + i);
    arrived.mutable_connect()->set_adapter_id(client::ScriptedBroker::kFirstObject + i);
    broker_.Emit(arrived);
    ASSERT_EQ(rdma_broker_events_next(events_, -1, &event_), RDMA_BROKER_STATUS_SUCCESS);
    ASSERT_EQ(event_.kind, uint32_t{RDMA_BROKER_EVENT_CONNECT});
    connectors[i] = event_.object;
    rdma_broker_handle adapter = 0;
    EXPECT_EQ(rdma_broker_connector_get_adapter(connectors[i], &adapter), RDMA_BROKER_STATUS_SUCCESS);
    EXPECT_EQ(adapter, adapters[i]);
  }
  EXPECT_EQ(rdma_broker_close(adapters[1], 0), RDMA_BROKER_STATUS_PENDING);
  rdma_broker_handle adapter = 0;
  EXPECT_EQ(rdma_broker_connector_get_adapter(connectors[1], &adapter), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND);
  EXPECT_EQ(adapter, 0u);
}

}  // namespace
}  // namespace rdmabroker
