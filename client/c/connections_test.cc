// SPDX-License-Identifier: Apache-2.0

// Parameters of listeners and connections that a C program gives to the broker, and the events that it gets.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "client/c/rdma_broker.h"
#include "client/c/testing/on_scripted_broker.h"
#include "client/testing/scripted_broker.h"
#include "dataplane/ndk/status.h"
#include "dataplane/provider_error.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {
namespace {

using Broker = client::ScriptedBroker;

class CConnections : public OnScriptedBroker {
 protected:
  static constexpr uint64_t kListener = 3, kConnector = 4;

  void SetUp() override {
    OnScriptedBroker::SetUp();
    adapter_ = OpenAdapter();
    ASSERT_EQ(rdma_broker_domain_create(adapter_, &domain_), RDMA_BROKER_STATUS_SUCCESS);
    ASSERT_EQ(rdma_broker_completion_queue_create(adapter_, 8, 0, 0, &cq_), RDMA_BROKER_STATUS_SUCCESS);
    rdma_broker_queue_pair_attributes attributes = {};
    attributes.size = sizeof attributes;
    attributes.receive_queue_depth = attributes.initiator_queue_depth = 4;
    attributes.receive_cq = attributes.initiator_cq = cq_;
    ASSERT_EQ(rdma_broker_queue_pair_create(domain_, &attributes, &pair_), RDMA_BROKER_STATUS_SUCCESS);
  }
  void TearDown() override {
    for (const rdma_broker_handle object : {pair_, cq_, domain_}) rdma_broker_close(object, 0);
    OnScriptedBroker::TearDown();
  }

  rdma_broker_handle Listen(uint32_t flags) {
    const rdma_broker_handle listener = Made(rdma_broker_listener_create(adapter_, kListener, kAsked));
    Made(rdma_broker_listen_with(listener, "127.0.0.1:4420", flags, kAsked));
    return listener;
  }
  // Has the broker send an event about an address. Expects its event of that kind.
  void ExpectAddressEvent(const v1::SessionEvent& sent, bool present, uint32_t kind, rdma_broker_handle source,
                          uint64_t context) {
    broker_.Emit(sent);
    Next();
    EXPECT_EQ(event_.kind, kind);
    EXPECT_EQ(event_.source, source);
    EXPECT_EQ(event_.context, context);
    EXPECT_EQ(event_.status, present ? RDMA_BROKER_STATUS_SUCCESS : RDMA_BROKER_STATUS_INVALID_ADDRESS);
    EXPECT_EQ(std::string(event_.hint).empty(), present) << event_.hint;
  }
  // Ends when the connection is established.
  rdma_broker_handle Connect(const rdma_broker_connection_options* options) {
    const rdma_broker_handle connector = Made(rdma_broker_connector_create(adapter_, kAsked));
    rdma_broker_connect_parameters parameters = {};
    parameters.size = sizeof parameters;
    parameters.destination = "127.0.0.1:4420";
    parameters.options = options;
    Made(rdma_broker_connect(connector, pair_, &parameters, kAsked));
    Made(rdma_broker_complete_connect(connector, kConnector, kAsked));
    return connector;
  }

  rdma_broker_handle adapter_ = 0, domain_ = 0, cq_ = 0, pair_ = 0;
};

TEST_F(CConnections, AListenerThatAwaitsItsAddressSaysSoAndHearsOfTheAddress) {
  const rdma_broker_handle listener = Listen(RDMA_BROKER_AWAIT_ADDRESS);
  const auto listen = broker_.WaitFor("Listen");
  EXPECT_TRUE(listen.As<v1::ListenRequest>().await_address());
  EXPECT_FALSE(listen.As<v1::ListenRequest>().any_adapter());
  for (const bool present : {false, true}) {
    v1::SessionEvent changed;
    changed.mutable_listener_address()->set_listener_id(listen.object);
    changed.mutable_listener_address()->set_present(present);
    ExpectAddressEvent(changed, present, RDMA_BROKER_EVENT_LISTENER_ADDRESS, listener, kListener);
  }
}

TEST_F(CConnections, WhatHoldsAnAddressHearsOfIt) {
  uint64_t id = Broker::kFirstObject;  // The adapter's.
  for (const bool shares : {true, false}) {
    const rdma_broker_handle holder =
        Made(shares ? rdma_broker_shared_endpoint_create(adapter_, "127.0.0.1:4420", kAsked)
                    : rdma_broker_reserve_port(adapter_, "127.0.0.1:4420", kAsked));
    ++id;
    for (const bool present : {false, true}) {
      v1::SessionEvent changed;
      v1::EndpointAddressEvent& address = *changed.mutable_endpoint_address();
      address.set_present(present);
      shares ? address.set_shared_endpoint_id(id) : address.set_reservation_id(id);
      ExpectAddressEvent(changed, present, RDMA_BROKER_EVENT_ENDPOINT_ADDRESS, holder, kAsked);
    }
  }
}

TEST_F(CConnections, TheOptionsOfASideReachTheBroker) {
  rdma_broker_connection_options options = {};
  options.size = sizeof options;
  options.rnr_retry_count = 3;
  Connect(&options);
  EXPECT_EQ(broker_.WaitFor("Connect").As<v1::ConnectRequest>().options().rnr_retry_count(), 3u);

  Listen(0);
  broker_.Emit(Broker::ConnectEvent(broker_.WaitFor("Listen").object, 900));
  Next();
  ASSERT_EQ(event_.kind, uint32_t{RDMA_BROKER_EVENT_CONNECT});
  const rdma_broker_handle connector = event_.object;
  rdma_broker_accept_parameters parameters = {};
  parameters.size = sizeof parameters;
  parameters.options = &options;
  options.rnr_retry_count = 5;
  Made(rdma_broker_accept(connector, pair_, &parameters, kConnector, kAsked));
  EXPECT_EQ(broker_.WaitFor("Accept").As<v1::AcceptRequest>().options().rnr_retry_count(), 5u);
}

TEST_F(CConnections, WithoutOptionsThePeerTriesForEver) {
  Connect(nullptr);
  EXPECT_EQ(broker_.WaitFor("Connect").As<v1::ConnectRequest>().options().rnr_retry_count(), 7u);
}

TEST_F(CConnections, AnEndSaysWhy) {
  const rdma_broker_handle connector = Connect(nullptr);
  v1::SessionEvent end = Broker::DisconnectEvent(broker_.WaitFor("Connect").object, NdkStatus::kConnectionAborted);
  end.mutable_disconnect()->set_provider_error(ETIMEDOUT);
  broker_.Emit(end);
  Next();
  EXPECT_EQ(event_.kind, uint32_t{RDMA_BROKER_EVENT_DISCONNECT});
  EXPECT_EQ(event_.source, connector);
  EXPECT_EQ(event_.context, kConnector);
  EXPECT_EQ(event_.status, RDMA_BROKER_STATUS_CONNECTION_ABORTED);
  EXPECT_EQ(event_.provider_error, uint32_t{ETIMEDOUT});
  char text[RDMA_BROKER_HINT_SIZE];
  ASSERT_EQ(rdma_broker_provider_error_text(event_.provider_error, text), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_STREQ(text, event_.hint);
  EXPECT_EQ(event_.hint, ConnectionEndText(NdkStatus::kConnectionAborted, ETIMEDOUT));
}

}  // namespace
}  // namespace rdmabroker
