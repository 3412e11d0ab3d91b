// SPDX-License-Identifier: Apache-2.0

// Inspection.Watch as callers see it.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/control/configuration.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/captured_log.h"
#include "tests/control/network_thread.h"
#include "tests/control/patience.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;
using Case = v1::RowChange::RowCase;

// Anybody but root and this process's user.
constexpr uid_t kSomebody = 54321;

// One watch. Reads when it is asked to.
class TestWatch {
 public:
  explicit TestWatch(const std::shared_ptr<grpc::Channel>& channel, const std::vector<v1::RowKind>& kinds = {})
      : stub_(v1::Inspection::NewStub(channel)) {
    v1::WatchRequest request;
    for (const v1::RowKind kind : kinds) request.add_kinds(kind);
    Limit(context_);
    reader_ = stub_->Watch(&context_, request);
  }
  ~TestWatch() {
    context_.TryCancel();
    if (!ended_) (void)End();
  }
  TestWatch(const TestWatch&) = delete;
  TestWatch& operator=(const TestWatch&) = delete;

  // The rows that there were.
  std::vector<v1::RowChange> ReadAll() {
    std::vector<v1::RowChange> rows;
    for (bool complete = false; !complete && reader_->Read(&reply_);) {
      EXPECT_EQ(reply_.begins(), rows.empty());
      EXPECT_TRUE(reply_.has_time());
      rows.insert(rows.end(), reply_.changes().begin(), reply_.changes().end());
      complete = reply_.complete();
    }
    reply_.Clear();
    return rows;
  }

  bool Begins() { return reader_->Read(&reply_) && reply_.begins(); }

  // The next row of which that is told, whatever comes before it. Fails the test where none comes.
  v1::RowChange WaitFor(v1::RowFate fate, Case row) {
    while (true) {
      while (next_ < reply_.changes_size()) {
        const v1::RowChange& change = reply_.changes(next_++);
        if (change.fate() == fate && change.row_case() == row) return change;
      }
      next_ = 0;
      reply_.Clear();
      if (!reader_->Read(&reply_)) break;
    }
    ADD_FAILURE() << "the watch has ended without a row that is " << v1::RowFate_Name(fate);
    return {};
  }

  grpc::Status End() {
    while (reader_->Read(&reply_)) {
    }
    ended_ = true;
    return reader_->Finish();
  }

 private:
  std::unique_ptr<v1::Inspection::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchReply>> reader_;
  v1::WatchReply reply_;
  int next_ = 0;  // In reply_.
  bool ended_ = false;
};

class WatchTest : public testing::Test {
 protected:
  void SetEnabled(bool enabled) {
    auto stub = v1::Administration::NewStub(NewChannel(daemon_.target()));
    grpc::ClientContext context;
    Limit(context);
    v1::EnableAdapterRequest enable;
    v1::DisableAdapterRequest disable;
    enable.set_device("fake1");
    disable.set_device("fake1");
    v1::EnableAdapterReply enabled_reply;
    v1::DisableAdapterReply disabled_reply;
    const grpc::Status status = enabled ? stub->EnableAdapter(&context, enable, &enabled_reply)
                                        : stub->DisableAdapter(&context, disable, &disabled_reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  NetworkThread network_;
  TestDaemon daemon_{network_, {TestDevice(1), TestDevice(2)}};
};

TEST_F(WatchTest, TellsOfEachKindThatItComesChangesAndGoes) {
  TestWatch watch(NewChannel(daemon_.target()));
  const auto present = watch.ReadAll();
  ASSERT_EQ(present.size(), 2u);
  EXPECT_EQ(present[0].fate(), v1::ROW_FATE_PRESENT);
  EXPECT_EQ(present[0].adapter().device().name(), "fake1");

  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kSession).session().session_id(), client.session_id());
  const uint64_t adapter = client.OpenAdapter("fake1");
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_CHANGED, Case::kAdapter).adapter().activity().adapters(), 1u);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_CHANGED, Case::kSession).session().adapters(), 1u);
  const auto [listener, address] = client.Listen(adapter, TestAddress(1));
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kListener).listener().listener_id(), listener);
  v1::CreateSharedEndpointRequest share;
  share.set_adapter_id(adapter);
  *share.mutable_address() = ToMessage(TestAddress(1));
  const uint64_t shared =
      client.Finish(&Stub::CreateSharedEndpoint, share).shared_endpoint_created().shared_endpoint_id();
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kSharedEndpoint).shared_endpoint().shared_endpoint_id(), shared);
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter);
  *reserve.mutable_address() = ToMessage(TestAddress(1));
  const uint64_t reservation = client.Finish(&Stub::ReservePort, reserve).port_reserved().reservation_id();
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kReservation).reservation().reservation_id(), reservation);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kEndpoint).endpoint().device(), "fake1");
  const uint64_t connector = client.CreateConnector(adapter);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kConnector).connector().connector_id(), connector);

  client.CloseConnector(connector);
  const v1::RowChange gone = watch.WaitFor(v1::ROW_FATE_REMOVED, Case::kConnector);
  EXPECT_EQ(gone.connector().connector_id(), connector);
  EXPECT_EQ(gone.connector().device(), "") << "its id alone";
  EXPECT_EQ(NdkStatusOf(client.CloseListener(listener)), NdkStatus::kSuccess);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_REMOVED, Case::kListener).listener().listener_id(), listener);
  SetEnabled(false);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_CHANGED, Case::kAdapter).adapter().activity().state(),
            v1::DEVICE_STATE_DISABLING);
  EXPECT_EQ(client.Close(), NdkStatus::kSuccess);
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_REMOVED, Case::kSession).session().session_id(), client.session_id());
}

TEST_F(WatchTest, TellsAUserOfItsOwnAlone) {
  TestClient others(NewChannel(daemon_.target()));
  ASSERT_EQ(others.Open(), NdkStatus::kSuccess);
  TestWatch watch(ChannelAs(kSomebody, daemon_.control_path()), {v1::ROW_KIND_SESSION, v1::ROW_KIND_CONNECTOR});
  TestWatch administrators(NewChannel(daemon_.target()), {v1::ROW_KIND_CONNECTOR});
  EXPECT_TRUE(watch.ReadAll().empty());
  EXPECT_TRUE(administrators.ReadAll().empty());
  const uint64_t connector = others.CreateConnector(others.OpenAdapter("fake1"));
  administrators.WaitFor(v1::ROW_FATE_ADDED, Case::kConnector);
  others.CloseConnector(connector);
  administrators.WaitFor(v1::ROW_FATE_REMOVED, Case::kConnector);
  TestClient own(ChannelAs(kSomebody, daemon_.control_path()));
  ASSERT_EQ(own.Open(), NdkStatus::kSuccess);
  const uint64_t own_connector = own.CreateConnector(own.OpenAdapter("fake1"));
  EXPECT_EQ(watch.WaitFor(v1::ROW_FATE_ADDED, Case::kConnector).connector().connector_id(), own_connector)
      << "the first connector that it is told of";
}

TEST_F(WatchTest, AnUnknownKindIsRefused) {
  for (const int kind : {0, 8, -1}) {
    TestWatch watch(NewChannel(daemon_.target()), {static_cast<v1::RowKind>(kind)});
    EXPECT_EQ(NdkStatusOf(watch.End()), NdkStatus::kInvalidParameter) << kind;
  }
}

TEST_F(WatchTest, MoreThanAUserMayHaveAreRefused) {
  std::vector<std::unique_ptr<TestWatch>> watches;
  const auto another = [&] {
    return std::make_unique<TestWatch>(NewChannel(daemon_.target()), std::vector{v1::ROW_KIND_SESSION});
  };
  for (int i = 0; i < 8; ++i) {
    watches.push_back(another());
    (void)watches.back()->ReadAll();
  }
  EXPECT_EQ(NdkStatusOf(another()->End()), NdkStatus::kInsufficientResources);
  TestWatch others(ChannelAs(kSomebody, daemon_.control_path()));
  EXPECT_EQ(others.ReadAll().size(), 2u);
  watches.pop_back();
  // The broker hears of its end some time later.
  EXPECT_TRUE(Becomes([&] { return another()->Begins(); }));
}

TEST_F(WatchTest, AnAdministratorHasRoomThoughUsersHaveTakenAllOfTheirs) {
  std::vector<std::unique_ptr<TestWatch>> watches;
  for (uid_t uid = kSomebody; uid < kSomebody + 3; ++uid) {
    for (int i = 0; i < 8; ++i) {
      watches.push_back(std::make_unique<TestWatch>(ChannelAs(uid, daemon_.control_path())));
      (void)watches.back()->ReadAll();
    }
  }
  TestWatch another(ChannelAs(kSomebody + 3, daemon_.control_path()));
  const grpc::Status refused = another.End();
  EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kInsufficientResources);
  ASSERT_TRUE(DetailOf(refused).has_value());
  EXPECT_EQ(DetailOf(refused)->hint(), "watch: there are too many already; have somebody end one")
      << "and not how many others have";
  TestWatch administrators(NewChannel(daemon_.target()));
  EXPECT_TRUE(administrators.Begins());
}

TEST_F(WatchTest, EndsWithTheBrokerAndSaysSo) {
  TestWatch watch(NewChannel(daemon_.target()));
  (void)watch.ReadAll();
  daemon_.Stop();
  const grpc::Status status = watch.End();
  EXPECT_EQ(NdkStatusOf(status), NdkStatus::kConnectionDisconnected);
  ASSERT_TRUE(DetailOf(status).has_value());
  EXPECT_TRUE(DetailOf(status)->retryable());
}

// More rows of connectors than the broker can send before they are read: several times a window.
constexpr size_t kConnectors = 8000;

TEST(AWatchThatDoesNotRead, LosesItsStreamAndNobodyElseAnything) {
  CapturedLog log;
  NetworkThread network;
  Configuration configuration = TestConfiguration();
  configuration.patience = absl::Milliseconds(200);
  TestDaemon daemon(network, {TestDevice(1)}, configuration);
  TestClient client(NewChannel(daemon.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  for (size_t i = 0; i < kConnectors; ++i) client.CreateConnector(adapter);
  TestWatch watch(NarrowChannel(daemon.target()), {v1::ROW_KIND_CONNECTOR});
  EXPECT_TRUE(Becomes([&] { return !log.LinesWith("watch ended").empty(); }));
  EXPECT_EQ(watch.End().error_code(), grpc::StatusCode::CANCELLED);
  TestWatch another(NewChannel(daemon.target()), {v1::ROW_KIND_CONNECTOR});
  EXPECT_EQ(another.ReadAll().size(), kConnectors);
  client.CreateConnector(adapter);
  another.WaitFor(v1::ROW_FATE_ADDED, Case::kConnector);
}

// It has read the first message; the broker cannot send all of the others, and does not give it up.
class AWatchThatReadsSlowly : public testing::Test {
 protected:
  static Configuration Patient() {
    Configuration configuration = TestConfiguration();
    configuration.patience = absl::Hours(1);
    return configuration;
  }
  void SetUp() override {
    ASSERT_EQ(client_.Open(), NdkStatus::kSuccess);
    adapter_ = client_.OpenAdapter("fake1");
    for (size_t i = 0; i < kConnectors; ++i) client_.CreateConnector(adapter_);
    watch_.emplace(NarrowChannel(daemon_.target()), std::vector{v1::ROW_KIND_SESSION, v1::ROW_KIND_CONNECTOR});
    ASSERT_TRUE(watch_->Begins());
  }

  NetworkThread network_;
  TestDaemon daemon_{network_, {TestDevice(1)}, Patient()};
  TestClient client_{NewChannel(daemon_.target())};
  uint64_t adapter_ = 0;
  std::optional<TestWatch> watch_;
};

TEST_F(AWatchThatReadsSlowly, IsToldWhatHasChangedOftenOnceAsItIsThen) {
  constexpr uint32_t kMore = 50;
  for (uint32_t i = 0; i < kMore; ++i) client_.OpenAdapter("fake1");
  EXPECT_EQ(NdkStatusOf(client_.CloseConnector(client_.CreateConnector(adapter_))), NdkStatus::kSuccess);
  EXPECT_EQ(watch_->WaitFor(v1::ROW_FATE_CHANGED, Case::kSession).session().adapters(), 1 + kMore);
  const uint64_t last = client_.CreateConnector(adapter_);
  EXPECT_EQ(watch_->WaitFor(v1::ROW_FATE_ADDED, Case::kConnector).connector().connector_id(), last)
      << "the one before it has come and gone";
}

}  // namespace
}  // namespace rdmabroker
