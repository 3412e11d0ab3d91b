// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_C_TESTING_ON_SCRIPTED_BROKER_H_
#define CLIENT_C_TESTING_ON_SCRIPTED_BROKER_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "client/c/rdma_broker.h"
#include "client/testing/scripted_broker.h"

namespace rdmabroker {

// A C program with a session at a scripted broker.
class OnScriptedBroker : public testing::Test {
 protected:
  static constexpr uint64_t kAdapter = 2;

  void SetUp() override {
    ASSERT_EQ(rdma_broker_events_create(&events_), RDMA_BROKER_STATUS_SUCCESS);
    rdma_broker_session_options options = {};
    options.size = sizeof options;
    options.control_socket = broker_.control_socket().c_str();
    ASSERT_EQ(rdma_broker_session_open(&options, events_, &session_, nullptr), RDMA_BROKER_STATUS_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(rdma_broker_close(session_, 0), RDMA_BROKER_STATUS_PENDING);
    do {
      ASSERT_EQ(rdma_broker_events_next(events_, -1, &event_), RDMA_BROKER_STATUS_SUCCESS);
    } while (event_.kind != RDMA_BROKER_EVENT_CLOSED || event_.source != session_);
    rdma_broker_close(events_, 0);
  }

  // Takes the next event.
  void Next() { ASSERT_EQ(rdma_broker_events_next(events_, -1, &event_), RDMA_BROKER_STATUS_SUCCESS); }
  // Waits for the request with the context `kAsked`. Returns the handle of the object that it made.
  rdma_broker_handle Made(rdma_broker_status pending) {
    EXPECT_EQ(pending, RDMA_BROKER_STATUS_PENDING);
    EXPECT_EQ(rdma_broker_events_await(events_, kAsked, -1, &event_), RDMA_BROKER_STATUS_SUCCESS);
    EXPECT_EQ(event_.status, RDMA_BROKER_STATUS_SUCCESS) << event_.hint;
    return event_.object;
  }
  rdma_broker_handle OpenAdapter() { return Made(rdma_broker_adapter_open(session_, "iwarp0", kAdapter, kAsked)); }

  static constexpr uint64_t kAsked = 1;
  client::ScriptedBroker broker_;
  rdma_broker_handle events_ = 0, session_ = 0;
  rdma_broker_event event_ = {.size = sizeof(rdma_broker_event)};
};

}  // namespace rdmabroker

#endif  // CLIENT_C_TESTING_ON_SCRIPTED_BROKER_H_
