// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "client/blocking.h"
#include "tests/control/patience.h"
#include "tests/control/test_client.h"
#include "tests/needed.h"

namespace rdmabroker {

using client::BlockingClose;
using ndkpi::Call;
using ndkpi::Connection;
using ndkpi::Party;
using ndkpi::TestListener;

namespace {

// Each but the last takes a death of its own, and deaths come no faster than a broker starts.
constexpr int kAttempts = 20;

// More than a first file of records holds, asked for by so many requests at a time: one after the other, in a guest,
// each takes milliseconds.
constexpr size_t kManyObjects = 16000;
constexpr size_t kObjectsAtOnce = 500;

// Waits as Call::Wait does, and does something meanwhile.
void AwaitEnd(const Call& call, const std::function<void()>& meanwhile) {
  Becomes([&] {
    meanwhile();
    return call.ended();
  });
  call.Wait();
}

}  // namespace

const std::vector<Workload::Activity>& Workload::Activities() {
  static const auto* const kActivities = new std::vector<Activity>{
      {"ConnectAndDisconnect", &Workload::ConnectAndDisconnect},
      {"EndPassively", &Workload::EndPassively},
      {"Reject", &Workload::Reject},
      {"RejectTheReply", &Workload::RejectTheReply},
      {"Refuse", &Workload::Refuse},
      {"ConnectThroughSharedEndpoint", &Workload::ConnectThroughSharedEndpoint},
      {"ListenAtReservedPort", &Workload::ListenAtReservedPort},
      {"GiveUpAConnect", &Workload::GiveUpAConnect},
      {"ComeAndGo", &Workload::ComeAndGo},
      {"ChangeAddresses", &Workload::ChangeAddresses, false, true},
      {"OpenTooManySessions", &Workload::OpenTooManySessions, true},
      {"ReplaceAStream", &Workload::ReplaceAStream, true},
      {"MakeManyObjects", &Workload::MakeManyObjects, true},
  };
  return *kActivities;
}

bool Workload::IsOfADeath(pid_t daemon, HandshakeStep step, NdkStatus status) const {
  return IsPriceOfADeath(world_.on().adapter, step, status) && world_.broker().Daemon() != daemon;
}

void Workload::Run(const Activity& activity) {
  SCOPED_TRACE(activity.name);
  (this->*activity.run)();
}

// --- Handshakes ---

void Workload::Take(const TestListener& listener, Reply reply, std::vector<Arrival>* arrivals) {
  while (auto connector = listener.TakeWaiting()) {
    Arrival arrival = {.connector = std::move(connector), .call = Call("none")};
    if (reply == Reply::kReject) {
      arrival.call = b().Reject(arrival.connector, "no");
    } else {
      arrival.queue_pair = b().NewQueuePair();
      arrival.call = b().Accept(arrival.connector, arrival.queue_pair, {}, arrival.events.callback());
    }
    arrivals->push_back(std::move(arrival));
  }
}

Workload::Attempt Workload::Try(const TestListener& listener, Reply reply, const Connecting& connect) {
  Attempt attempt;
  attempt.active.active = a().NewConnector();
  attempt.active.active_qp = a().NewQueuePair();
  attempt.daemon = world_.broker().Daemon();
  attempt.former = last_daemon_.value_or(attempt.daemon);
  last_daemon_ = attempt.daemon;
  const Call call = connect(attempt.active);
  AwaitEnd(call, [&] { Take(listener, reply, &attempt.arrivals); });
  attempt.outcome = call.Wait();
  return attempt;
}

std::optional<Connection> Workload::Complete(Attempt& attempt) {
  const Call complete = a().CompleteConnect(attempt.active.active, attempt.active.active_events.callback());
  const NdkStatus completed = complete.Status();
  EXPECT_TRUE(completed == NdkStatus::kSuccess ||
              IsOfADeath(attempt.daemon, HandshakeStep::kCompleteConnect, completed))
      << StatusName(completed);
  std::optional<Connection> made;
  for (Arrival& arrival : attempt.arrivals) {
    const client::Outcome accepted = arrival.call.Wait();
    EXPECT_TRUE(accepted.ok() || IsOfADeath(attempt.former, HandshakeStep::kAccept, accepted.status))
        << StatusName(accepted.status) << ": " << accepted.hint;
    if (!accepted.ok()) continue;
    EXPECT_FALSE(made) << "a connection has two passive ends";
    made = attempt.active;
    made->passive = arrival.connector;
    made->passive_qp = arrival.queue_pair;
    made->passive_events = arrival.events;
  }
  if (completed == NdkStatus::kSuccess && made) {
    std::erase_if(attempt.arrivals, [&](const Arrival& arrival) { return arrival.connector == made->passive; });
    return made;
  }
  // One end had it, and the other's had not left the process: it hears of the disconnect.
  if (completed == NdkStatus::kSuccess) attempt.active.active_events.Wait();
  if (made) made->passive_events.Wait();
  return {};
}

void Workload::Close(Attempt& attempt) {
  const Call closing = a().Close(attempt.active.active);
  CloseArrivals(attempt);
  closing.Wait();
  a().Close(attempt.active.active_qp).Wait();
}

void Workload::CloseArrivals(const Attempt& attempt) {
  for (const Arrival& arrival : attempt.arrivals) {
    b().Close(arrival.connector).Wait();
    if (arrival.queue_pair != nullptr) b().Close(arrival.queue_pair).Wait();
  }
}

Connection Workload::Establish(const TestListener& listener, const Connecting& connect) {
  std::optional<Connection> made;
  for (int i = 0; i < kAttempts && !made; ++i) {
    Attempt attempt = Try(listener, Reply::kAccept, connect);
    if (attempt.outcome.ok()) {
      made = Complete(attempt);
    } else {
      EXPECT_TRUE(IsOfADeath(attempt.daemon, HandshakeStep::kConnect, attempt.outcome.status))
          << StatusName(attempt.outcome.status) << ": " << attempt.outcome.hint;
      EXPECT_TRUE(attempt.outcome.retryable) << attempt.outcome.hint;
    }
    made ? CloseArrivals(attempt) : Close(attempt);
  }
  return *Needed(made, "connection after " + std::to_string(kAttempts) + " attempts");
}

Workload::Connecting Workload::ConnectTo(const SocketAddress& address) {
  return [this, address](const Connection& active) { return a().Connect(active.active, active.active_qp, address); };
}

void Workload::Close(const Connection& connection) {
  world_.Close(connection);
  a().Close(connection.active_qp).Wait();
  b().Close(connection.passive_qp).Wait();
}

NdkStatus Workload::ConnectInVain(const TestListener& listener, Reply reply) {
  for (int i = 0; i < kAttempts; ++i) {
    Attempt attempt = Try(listener, reply, ConnectTo(listener.address));
    Close(attempt);
    if (!IsOfADeath(attempt.daemon, HandshakeStep::kConnect, attempt.outcome.status)) return attempt.outcome.status;
  }
  return NdkStatus::kConnectionAborted;
}

// --- Activities ---

void Workload::Use(const TestListener& listener) {
  const Connection connection = Establish(listener, ConnectTo(listener.address));
  world_.ExpectCarries(connection);
  const Call disconnect = a().Disconnect(connection.active);
  connection.passive_events.Wait();
  EXPECT_EQ(b().Disconnect(connection.passive).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(disconnect.Status(), NdkStatus::kSuccess);
  Close(connection);
  EXPECT_EQ(connection.passive_events.count(), 1u);
  EXPECT_EQ(connection.active_events.count(), 0u) << "who has disconnected himself";
}

void Workload::ConnectAndDisconnect() {
  const TestListener listener = b().Listening();
  Use(listener);
  b().Close(listener.object).Wait();
}

void Workload::EndPassively() {
  const TestListener listener = b().Listening();
  const Connection connection = Establish(listener, ConnectTo(listener.address));
  const Call close = b().Close(connection.passive);
  connection.active_events.Wait();
  close.Wait();
  a().Close(connection.active).Wait();
  b().Close(connection.passive_qp).Wait();
  a().Close(connection.active_qp).Wait();
  EXPECT_EQ(connection.active_events.count(), 1u);
  EXPECT_EQ(connection.passive_events.count(), 0u) << "who has closed himself";
  b().Close(listener.object).Wait();
}

void Workload::Reject() {
  const TestListener listener = b().Listening();
  EXPECT_EQ(ConnectInVain(listener, Reply::kReject), NdkStatus::kConnectionRefused);
  b().Close(listener.object).Wait();
}

void Workload::RejectTheReply() {
  const TestListener listener = b().Listening();
  Attempt attempt = Try(listener, Reply::kAccept, ConnectTo(listener.address));
  if (attempt.outcome.ok()) {
    const NdkStatus rejected = a().Reject(attempt.active.active, "no").Status();
    EXPECT_TRUE(rejected == NdkStatus::kSuccess ||
                IsOfADeath(attempt.daemon, HandshakeStep::kCompleteConnect, rejected))
        << StatusName(rejected);
  } else {
    EXPECT_TRUE(IsOfADeath(attempt.daemon, HandshakeStep::kConnect, attempt.outcome.status))
        << StatusName(attempt.outcome.status);
  }
  for (const Arrival& arrival : attempt.arrivals) {
    const NdkStatus accepted = arrival.call.Status();
    if (world_.on().adapter == "siw" && accepted == NdkStatus::kSuccess) {
      // There is no third message.
      arrival.events.Wait();
    } else {
      EXPECT_TRUE(accepted == NdkStatus::kConnectionAborted ||
                  IsOfADeath(attempt.daemon, HandshakeStep::kAccept, accepted))
          << StatusName(accepted);
    }
  }
  Close(attempt);
  b().Close(listener.object).Wait();
}

void Workload::Refuse() {
  const TestListener listener = b().Listening();
  listener.object->ControlConnectEvents(true);
  b().Settle();
  EXPECT_EQ(ConnectInVain(listener, Reply::kAccept), NdkStatus::kConnectionRefused);
  b().Close(listener.object).Wait();
}

void Workload::ConnectThroughSharedEndpoint() {
  const TestListener listener = b().Listening();
  const auto endpoint = a().NewSharedEndpoint(a().At());
  const Connection connection = Establish(listener, [&](const Connection& active) {
    return a().ConnectWithSharedEndpoint(active.active, active.active_qp, endpoint, listener.address);
  });
  const Call close = a().Close(endpoint);
  world_.ExpectCarries(connection);
  Close(connection);
  close.Wait();
  b().Close(listener.object).Wait();
}

void Workload::ListenAtReservedPort() {
  const auto reserved = b().NewReservation(b().At());
  TestListener listener = b().NewListener();
  const Call listen("Listen at a reserved port");
  listen.Returned(listener.object->Listen(reserved, listen.completion()));
  EXPECT_EQ(listen.Status(), NdkStatus::kSuccess) << listen.Wait().hint;
  listener.address = reserved->address();
  Use(listener);
  EXPECT_EQ(BlockingClose(reserved), NdkStatus::kSuccess);
  b().Close(listener.object).Wait();
}

void Workload::GiveUpAConnect() {
  const auto connector = a().NewConnector();
  QueuePair* const queue_pair = a().NewQueuePair();
  const pid_t daemon = world_.broker().Daemon();
  const Call connect = a().Connect(connector, queue_pair, {world_.on().silent, 4791});
  a().Settle();
  const Call close = a().Close(connector);
  const NdkStatus given_up = connect.Status();
  EXPECT_TRUE(given_up == NdkStatus::kCancelled || IsOfADeath(daemon, HandshakeStep::kConnect, given_up))
      << StatusName(given_up);
  close.Wait();
  a().Close(queue_pair).Wait();
}

void Workload::ComeAndGo() {
  Party& party = world_.NewParty(1);
  const TestListener listener = party.Listening();
  const auto connector = party.NewConnector();
  const auto endpoint = party.NewSharedEndpoint(party.At());
  world_.End(party);
}

void Workload::ChangeAddresses() {
  const bool kernels = world_.on().adapter != "iwarp";
  const std::string change = kernels ? " 10.77.0.77/24 dev eth0" : " 10.78.0.77/24 dev nobody";
  const IpAddress changing = *IpAddress::Parse(kernels ? "10.77.0.77" : "10.78.0.77");
  const TestListener listener = b().ListeningAt({*IpAddress::Parse("0.0.0.0"), 0});
  for (const bool there : {true, false}) {
    const std::string command = (there ? "ip address add" : "ip address del") + change;
    EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c): the command is this and nobody else's.
    EXPECT_TRUE(Becomes([&] {
      const auto listed = client::BlockingListAdapters(b().session());
      const auto& devices = listed.object;
      const auto device = std::find_if(devices.begin(), devices.end(),
                                       [this](const auto& one) { return one.name == world_.on().device; });
      return device != devices.end() && (std::find(device->addresses.begin(), device->addresses.end(), changing) !=
                                         device->addresses.end()) == there;
    }));
  }
  b().Close(listener.object).Wait();
}

void Workload::OpenTooManySessions() {
  std::vector<client::Session::Opening> openings;
  do {
    openings.push_back(client::Session::Open({.control_socket = world_.broker().control_socket()}));
  } while (openings.back().outcome.ok());
  EXPECT_EQ(openings.back().outcome.status, NdkStatus::kInsufficientResources) << openings.back().outcome.hint;
}

void Workload::ReplaceAStream() {
  const std::string target = "unix:" + world_.broker().control_socket();
  TestClient first(NewChannel(target));
  ASSERT_EQ(first.Open(), NdkStatus::kSuccess);
  EXPECT_TRUE(Becomes([&] {
    TestClient next(NewChannel(target));
    return next.Resume(first, 0) == NdkStatus::kSuccess && next.Close() == NdkStatus::kSuccess;
  }));
}

// Until the broker has died of it, at the latest. Their session's end closes them all.
void Workload::MakeManyObjects() {
  Party& party = world_.NewParty();
  const pid_t daemon = world_.broker().Daemon();
  std::vector<std::shared_ptr<client::Connector>> connectors;
  while (connectors.size() < kManyObjects && world_.broker().Daemon() == daemon && !testing::Test::HasFailure()) {
    std::vector<Call> calls;
    for (size_t i = 0; i < kObjectsAtOnce; ++i) {
      // The session has one thread, which tells of all of them.
      calls.push_back(world_.calls().Make("CreateConnector", [&](const Call& call) {
        return party.adapter()->CreateConnector(
            [&connectors, done = call.completion()](const client::Outcome& outcome, auto connector) {
              connectors.push_back(std::move(connector));
              done(outcome);
            });
      }));
    }
    for (const Call& call : calls) EXPECT_EQ(call.Status(), NdkStatus::kSuccess) << call.Wait().hint;
  }
  world_.End(party);
}

}  // namespace rdmabroker
