// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TESTING_FIXTURE_H_
#define CLIENT_TESTING_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/session.h"
#include "client/testing/exactly_once.h"
#include "client/testing/fake_data_path.h"
#include "client/testing/later.h"
#include "client/testing/scripted_broker.h"

namespace rdmabroker::client {

inline const SocketAddress kSomeAddress = *SocketAddress::Parse("127.0.0.1:4420");

// A session with an adapter at a scripted broker.
class ClientTest : public testing::Test {
 protected:
  using Lines = std::vector<std::string>;
  using Broker = ScriptedBroker;

  void OpenSession(std::function<void(v1::SessionOpened*)> adjust = {}) {
    broker.OnOpen(std::move(adjust));
    SessionOptions options;
    options.control_socket = broker.control_socket();
    options.data_paths = {FakeDataPath(true), FakeDataPath(false)};
    options.on_end = [this](const Outcome& outcome) { log.Add("session " + Name(outcome.status)); };
    auto opening = Session::Open(std::move(options));
    ASSERT_TRUE(opening.outcome.ok()) << opening.outcome.hint;
    session = std::move(opening.session);
    auto made = BlockingOpenAdapter(*session, "iwarp0");
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
    adapter = std::move(made.object);
    qp = new FakeQueuePair(adapter->data());
  }

  // Returns what the library has said of itself.
  v1::OpenSession OpenSessionAndTakeGreeting() {
    const Later<v1::OpenSession> greeting;
    broker.OnStream([greeting](const v1::SessionRequest& message) {
      if (message.has_open()) greeting.Set(message.open());
      return grpc::Status::OK;
    });
    OpenSession();
    return greeting.Get();
  }

  static std::string Name(NdkStatus status) { return std::string(StatusName(status)); }
  // A completion that must be called exactly once, and writes how into the log.
  OutcomeCompletion Logs(const std::string& name) {
    return ExactlyOnce(name, [this, name](const Outcome& outcome) { log.Add(name + " " + Name(outcome.status)); });
  }
  CloseCompletion LogsClose(const std::string& name) {
    return ExactlyOnce(name, [this, name] { log.Add(name); });
  }
  DisconnectEventCallback LogsEnd(const std::string& name) {
    return [this, name](const DisconnectEvent& event) { log.Add(name + " " + Name(event.status)); };
  }

  std::shared_ptr<Listener> NewListener(ConnectEventCallback on_connect, bool listening = true) {
    const Later<std::shared_ptr<Listener>> made;
    EXPECT_EQ(adapter->CreateListener(std::move(on_connect),
                                      [made](const Outcome&, std::shared_ptr<Listener> l) { made.Set(std::move(l)); }),
              NdkStatus::kPending);
    auto listener = made.Get();
    if (!listening) return listener;
    const Later<Outcome> outcome;
    EXPECT_EQ(listener->Listen(kSomeAddress, [outcome](const Outcome& o) { outcome.Set(o); }), NdkStatus::kPending);
    EXPECT_TRUE(outcome.Get().ok());
    return listener;
  }
  std::shared_ptr<Connector> NewConnector() {
    const Later<std::shared_ptr<Connector>> made;
    EXPECT_EQ(
        adapter->CreateConnector([made](const Outcome&, std::shared_ptr<Connector> c) { made.Set(std::move(c)); }),
        NdkStatus::kPending);
    return made.Get();
  }
  // An active connector whose connection is established, without a transport to take over.
  std::shared_ptr<Connector> Established(FakeQueuePair* queue_pair, DisconnectEventCallback on_disconnect = {}) {
    auto made = BlockingConnect(adapter, queue_pair, {.destination = kSomeAddress}, std::move(on_disconnect));
    EXPECT_TRUE(made.outcome.ok()) << made.outcome.hint;
    return made.object;
  }
  // The first two replies to a request are lost, and it is asked for again under its id.
  void ExpectLostRepliesAreAskedForAgain() {
    broker.On("CreateConnector", [tries = std::make_shared<int>(0)](const Broker::Request&) {
      return ++*tries < 3 ? Broker::Answer{Broker::Answer::Kind::kLose, {}} : Broker::Success();
    });
    EXPECT_NE(NewConnector(), nullptr);
    const uint64_t id = broker.WaitFor("CreateConnector", 1).request_id;
    EXPECT_EQ(broker.WaitFor("CreateConnector", 2).request_id, id);
    EXPECT_EQ(broker.WaitFor("CreateConnector", 3).request_id, id);
  }
  // Returns when everything that was posted to the session's thread before has run.
  void Settle() { EXPECT_TRUE(BlockingListAdapters(*session).outcome.ok()); }

  Log log;
  ScriptedBroker broker;
  FakeQueuePair* qp = nullptr;  // The adapter's.
  std::unique_ptr<Session> session;
  std::shared_ptr<Adapter> adapter;

  void TearDown() override {
    session = nullptr;
    adapter = nullptr;
    if (qp == nullptr) return;
    EXPECT_EQ(qp->Close({}), NdkStatus::kSuccess) << "something still holds the queue pair";
  }
};

}  // namespace rdmabroker::client

#endif  // CLIENT_TESTING_FIXTURE_H_
