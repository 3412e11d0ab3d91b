// SPDX-License-Identifier: Apache-2.0

// Requests on the session's stream (RequestBatch), beside the same requests by RPC.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/policy/policy.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;
using testing::HasSubstr;

const std::vector<std::string> kOnStream = {"requests-on-stream"};

class BatchesTest : public testing::Test {
 protected:
  void Start(const Configuration& configuration = TestConfiguration()) {
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestDevice(1)}, configuration);
    client_ = std::make_unique<TestClient>(NewChannel(daemon_->target()));
    ASSERT_EQ(client_->Open(kOnStream), NdkStatus::kSuccess);
    adapter_ = client_->OpenAdapter("fake1");
    last_ = client_->next_request_id() - 1;
  }

  // Another request of the batch, with the next number.
  v1::BatchedRequest& Add() {
    v1::BatchedRequest& request = *batch_.add_requests();
    request.set_request_id(++last_);
    return request;
  }
  uint64_t AddConnector() {
    Add().mutable_create_connector()->set_adapter_id(adapter_);
    return last_;
  }
  uint64_t AddReservation(uint16_t port) {
    v1::ReservePortRequest& reserve = *Add().mutable_reserve_port();
    reserve.set_adapter_id(adapter_);
    *reserve.mutable_address() = ToMessage(TestAddress(1, port));
    return last_;
  }
  // Sends the batch and returns the answers when all of it is taken.
  std::map<uint64_t, v1::Outcome> Make() {
    Send(*client_);
    return client_->WaitUntilTaken(last_);
  }
  void Send(TestClient& client) {
    v1::SessionRequest message;
    *message.mutable_requests() = std::exchange(batch_, {});
    EXPECT_TRUE(client.Send(message));
  }
  // How a stream of a client with these features ends after this message.
  grpc::Status EndAfter(const v1::SessionRequest& message, const std::vector<std::string>& features) {
    TestClient client(NewChannel(daemon_->target()));
    EXPECT_EQ(client.Open(features), NdkStatus::kSuccess);
    EXPECT_TRUE(client.Send(message));
    return client.WaitForEnd();
  }

  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_;
  std::unique_ptr<TestClient> client_;
  uint64_t adapter_ = 0;
  uint64_t last_ = 0;
  v1::RequestBatch batch_;
};

TEST_F(BatchesTest, EachRequestHasItsAnswerAndAPendingOneItsEvent) {
  Start();
  EXPECT_EQ(client_->opened().api_minor(), 2u);
  EXPECT_EQ(client_->opened().features(0), kOnStream[0]);
  const uint64_t created = AddConnector();
  const uint64_t reserved = AddReservation(4420);
  const uint64_t created_too = AddConnector();
  auto answers = Make();
  EXPECT_NE(answers.at(created).connector_created().connector_id(), 0u);
  EXPECT_NE(answers.at(created_too).connector_created().connector_id(), 0u);
  EXPECT_FALSE(answers.contains(reserved));
  EXPECT_NE(client_->WaitForOutcome(reserved).port_reserved().reservation_id(), 0u);
  EXPECT_EQ(client_->Close(), NdkStatus::kSuccess);
}

TEST_F(BatchesTest, WhatIsWrongWithARequestIsItsAnswerAndTheOthersAreServed) {
  struct Row {
    const char* name;
    std::function<void(v1::BatchedRequest&)> fill;
    NdkStatus status;
    const char* hint;
  };
  Start();
  const uint64_t adapter = adapter_;
  const Row rows[] = {
      {"malformed", [](auto& r) { r.mutable_create_connector(); }, NdkStatus::kInvalidParameter, "adapter_id: missing"},
      {"refused", [](auto& r) { r.mutable_create_connector()->set_adapter_id(4711); }, NdkStatus::kObjectNameNotFound,
       "adapter 4711"},
      {"of an unknown kind", [](auto&) {}, NdkStatus::kNotSupported, "newer"},
      {"with a header",
       [=](auto& r) {
         r.mutable_create_connector()->set_adapter_id(adapter);
         r.mutable_create_connector()->mutable_header();
       },
       NdkStatus::kInvalidParameter, "header"},
      {"too long",
       [](auto& r) {
         r.mutable_reject()->set_connector_id(1);
         r.mutable_reject()->set_private_data(std::string(513, 'x'));
       },
       NdkStatus::kInvalidBufferSize, "private_data"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const uint64_t before = AddConnector();
    row.fill(Add());
    const uint64_t wrong = last_;
    const uint64_t after = AddConnector();
    auto answers = Make();
    EXPECT_EQ(NdkStatusOf(answers.at(wrong)), row.status) << answers.at(wrong).DebugString();
    EXPECT_THAT(answers.at(wrong).hint(), HasSubstr(row.hint));
    EXPECT_EQ(NdkStatusOf(answers.at(before)), NdkStatus::kSuccess);
    EXPECT_EQ(NdkStatusOf(answers.at(after)), NdkStatus::kSuccess);
  }
}

TEST_F(BatchesTest, ANumberThatIsMissingIsToldUnderNone) {
  Start();
  const uint64_t created = AddConnector();
  batch_.add_requests()->mutable_create_connector()->set_adapter_id(adapter_);
  const uint64_t last = AddConnector();
  auto answers = Make();
  EXPECT_EQ(NdkStatusOf(answers.at(0)), NdkStatus::kInvalidParameter);
  EXPECT_THAT(answers.at(0).hint(), HasSubstr("request_id"));
  EXPECT_EQ(NdkStatusOf(answers.at(created)), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(answers.at(last)), NdkStatus::kSuccess);
}

TEST_F(BatchesTest, OneNumberIsOneRequestWhicheverWayItComes) {
  Start();
  const uint64_t id = AddConnector();
  *batch_.add_requests() = batch_.requests(0);
  const v1::Outcome first = Make().at(id);
  v1::CreateConnectorRequest request;
  request.set_adapter_id(adapter_);
  request.mutable_header()->set_request_id(id);
  EXPECT_EQ(client_->Ask(&Stub::CreateConnector, request).DebugString(), first.DebugString());
  // And the other way round.
  request.mutable_header()->set_request_id(++last_);
  const v1::Outcome by_rpc = client_->Ask(&Stub::CreateConnector, request);
  --last_;
  const uint64_t repeated = AddConnector();
  EXPECT_EQ(Make().at(repeated).DebugString(), by_rpc.DebugString());
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.connectors.size() == 2; }));
}

TEST_F(BatchesTest, AStreamMayHaveOnlyTheMessagesOfItsFeatures) {
  Start();
  v1::SessionRequest requests, empty;
  requests.mutable_requests()->add_requests()->set_request_id(1);
  empty.mutable_requests();
  const grpc::Status unnamed = EndAfter(requests, {});
  EXPECT_EQ(NdkStatusOf(unnamed), NdkStatus::kInvalidParameter);
  EXPECT_THAT(unnamed.error_message(), HasSubstr("requests-on-stream"));
  EXPECT_EQ(NdkStatusOf(EndAfter(empty, kOnStream)), NdkStatus::kInvalidParameter);
  // More than there are answers kept.
  for (int i = 0; i < 100; ++i) requests.mutable_requests()->add_requests()->set_request_id(1);
  EXPECT_EQ(NdkStatusOf(EndAfter(requests, kOnStream)), NdkStatus::kInvalidParameter);
}

TEST_F(BatchesTest, EachRequestIsHeldAgainstWhatTheOnesBeforeItHaveMade) {
  Configuration configuration = TestConfiguration();
  configuration.policy = {.rules = {{.name = "few", .quotas = {.connectors = 2}}}};
  Start(configuration);
  const uint64_t first = AddConnector(), second = AddConnector(), third = AddConnector();
  auto answers = Make();
  EXPECT_EQ(NdkStatusOf(answers.at(first)), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(answers.at(second)), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(answers.at(third)), NdkStatus::kInsufficientResources);
}

TEST_F(BatchesTest, AsManyRequestsAsAMessageCarriesAreAllAnswered) {
  Configuration configuration = TestConfiguration();
  configuration.limits.answers_kept = 4096;
  Start(configuration);
  const uint64_t first = last_ + 1;
  // Refused ones, whose answers are far longer than the requests.
  for (int i = 0; i < 4000; ++i) Add().mutable_create_connector()->set_adapter_id(4711);
  auto answers = Make();
  for (uint64_t id = first; id <= last_; ++id) {
    ASSERT_EQ(NdkStatusOf(answers[id]), NdkStatus::kObjectNameNotFound) << id;
  }
}

TEST_F(BatchesTest, AMessageOf64KiBIsAnsweredRequestByRequestAndALongerOneEndsTheStreamAlone) {
  constexpr size_t kLongest = 65536;
  constexpr int kRequests = 64;
  // A message of so many octets, whose requests are refused.
  const auto fill = [this](size_t octets) {
    for (int i = 0; i < kRequests; ++i) {
      Add().mutable_reject()->set_connector_id(1);
      batch_.mutable_requests(i)->mutable_reject()->set_private_data(std::string(1000, 'x'));
    }
    v1::SessionRequest message;
    *message.mutable_requests() = batch_;
    ASSERT_LT(message.ByteSizeLong(), octets);
    std::string& last = *batch_.mutable_requests(kRequests - 1)->mutable_reject()->mutable_private_data();
    last.append(octets - message.ByteSizeLong(), 'x');
    *message.mutable_requests() = batch_;
    ASSERT_EQ(message.ByteSizeLong(), octets);
  };
  Start();
  const uint64_t first = last_ + 1;
  fill(kLongest);
  auto answers = Make();
  EXPECT_EQ(answers.size(), size_t{kRequests});
  for (uint64_t id = first; id <= last_; ++id) {
    EXPECT_EQ(NdkStatusOf(answers[id]), NdkStatus::kInvalidBufferSize) << id;
  }
  fill(kLongest + 1);
  Send(*client_);
  EXPECT_EQ(client_->WaitForEnd().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  TestClient returned(NewChannel(daemon_->target()));
  ASSERT_EQ(returned.Resume(*client_, 0, kOnStream), NdkStatus::kSuccess);
  // None of its requests has been made.
  AddConnector();
  last_ -= kRequests;
  batch_.mutable_requests(0)->set_request_id(last_);
  Send(returned);
  EXPECT_EQ(NdkStatusOf(returned.WaitUntilTaken(last_).at(last_)), NdkStatus::kSuccess);
}

TEST_F(BatchesTest, WhatIsMadeAgainOnAnotherStreamIsAnsweredAgainAndNotDoneTwice) {
  Start();
  const uint64_t created = AddConnector();
  const uint64_t reserved = AddReservation(4420);
  const v1::RequestBatch same = batch_;
  const v1::Outcome first = Make().at(created);
  EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(reserved)), NdkStatus::kSuccess);
  TestClient returned(NewChannel(daemon_->target()));
  ASSERT_EQ(returned.Resume(*client_, 0, kOnStream), NdkStatus::kSuccess);
  batch_ = same;
  Send(returned);
  auto answers = returned.WaitUntilTaken(last_);
  EXPECT_EQ(answers.at(created).DebugString(), first.DebugString());
  EXPECT_FALSE(answers.contains(reserved));
  EXPECT_EQ(NdkStatusOf(returned.WaitForOutcome(reserved)), NdkStatus::kSuccess);
  EXPECT_TRUE(daemon_->Eventually(
      [](const Records& records) { return records.connectors.size() == 1 && records.reservations.size() == 1; }));
}

TEST_F(BatchesTest, WhoLeavesAnswersUnreadIsNotReadFromAndLosesTheStream) {
  Configuration configuration = TestConfiguration();
  configuration.patience = absl::Seconds(1);
  configuration.limits.answers_kept = 4096;
  Start(configuration);
  TestClient silent(NarrowChannel(daemon_->target()));
  ASSERT_EQ(silent.Open(kOnStream), NdkStatus::kSuccess);
  silent.PauseReading();
  // Refused ones, whose answers are far longer than the requests.
  for (int i = 0; i < 4000; ++i) Add().mutable_create_connector()->set_adapter_id(4711);
  // Each write waits until the broker reads; the last one until the stream has ended.
  v1::SessionRequest message;
  *message.mutable_requests() = std::exchange(batch_, {});
  int sent = 0;
  while (sent < 100 && silent.Send(message)) ++sent;
  EXPECT_LT(sent, 100) << "the broker reads on";
  EXPECT_TRUE(daemon_->Eventually([&](const Records& records) {
    const auto session = records.sessions.find(SessionId(silent.session_id()));
    return session != records.sessions.end() && !session->second.stream;
  }));
}

TEST_F(BatchesTest, TheSideThatIsClosedBehindABatchEndsTheSessionWhenAllOfItIsAnswered) {
  Configuration configuration = TestConfiguration();
  configuration.limits.answers_kept = 256;
  configuration.limits.adapters_per_session = 256;
  Start(configuration);
  auto by_hand = v1::Broker::NewStub(NewChannel(daemon_->target()));
  grpc::ClientContext context;
  Limit(context);
  auto stream = by_hand->Session(&context);
  v1::SessionRequest open, requests;
  open.mutable_open()->set_api_minor(2);
  open.mutable_open()->add_features(kOnStream[0]);
  for (uint64_t id = 1; id <= 200; ++id) {
    v1::BatchedRequest& request = *requests.mutable_requests()->add_requests();
    request.set_request_id(id);
    request.mutable_open_adapter()->set_device("fake1");
    request.mutable_open_adapter()->mutable_version()->set_major(2);
  }
  ASSERT_TRUE(stream->Write(open) && stream->Write(requests) && stream->WritesDone());
  v1::SessionReply reply;
  uint64_t session = 0, taken = 0;
  int answers = 0;
  while (stream->Read(&reply)) {
    session = std::max(session, reply.opened().session_id());
    taken = std::max(taken, reply.batch().requests_taken());
    answers += reply.batch().answers_size();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(taken, 200u);
  EXPECT_EQ(answers, 200);
  EXPECT_TRUE(daemon_->Eventually([&](const Records& records) {
    return !records.sessions.contains(SessionId(session)) && records.adapters.size() == 1;
  }));
}

TEST_F(BatchesTest, EventsComeInBatchesAndAreAcknowledgedByThem) {
  Start();
  std::vector<uint64_t> reservations;
  for (uint16_t port = 1; port <= 20; ++port) reservations.push_back(AddReservation(port));
  Make();
  for (const uint64_t id : reservations) EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(id)), NdkStatus::kSuccess);
  const auto events_kept = [this] {
    size_t kept = 0;
    daemon_->OnLoop([&](const Broker& broker) {
      kept = broker.core().records().sessions.at(SessionId(client_->session_id())).events.size();
    });
    return kept;
  };
  EXPECT_EQ(events_kept(), 20u);
  batch_.set_acknowledged_event(client_->last_event());
  AddConnector();
  Make();
  EXPECT_EQ(events_kept(), 0u);
}

}  // namespace
}  // namespace rdmabroker
