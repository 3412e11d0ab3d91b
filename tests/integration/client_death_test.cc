// SPDX-License-Identifier: Apache-2.0

// How soon a peer over user-space iWARP knows that a client has been killed, whatever the client was about: two
// brokers, so that only the wire can tell.

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/blocking.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/control/child_process.h"
#include "tests/control/disconnect_delays.h"
#include "tests/control/patience.h"
#include "tests/integration/library_client.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker {
namespace {

constexpr char kDoomedClient[] = "tests/integration/doomed_client";

struct Case {
  const char* name;
  const char* stage;  // As doomed_client has them.
  bool active;        // The client that is killed.
  // The peer's own request is pending then, and fails with this. Nothing where it has a connection, which ends: by a
  // FIN where the kernel has closed the dead client's socket, by a reset where the broker was first.
  std::optional<NdkStatus> failure = std::nullopt;
};

// What a peer learns, and when.
struct Learned {
  NdkStatus status = NdkStatus::kPending;
  absl::Time at = absl::InfiniteFuture();
};

// The client that lives on, with one connection.
class Peer {
 public:
  explicit Peer(const RunningBroker& broker) : client_(broker.control_socket()) {}

  SocketAddress Listen() {
    auto [listening, listener] = client::BlockingListener::Listen(client_.adapter, {*IpAddress::Parse("127.0.0.1"), 0});
    EXPECT_TRUE(listening.ok()) << listening.hint;
    listener_ = std::move(listener);
    return listener_->address();
  }
  void StartAccepting() {
    outcome_ =
        std::async(std::launch::async, [this] { return Now(client_.Accept(*listener_, OnDisconnect()).status); });
  }
  void StartConnecting(const SocketAddress& to) {
    outcome_ =
        std::async(std::launch::async, [this, to] { return Now(client_.Connect(to.ip, to, OnDisconnect()).status); });
  }

  // Of the request that was started.
  Learned Outcome() { return WaitFor(outcome_); }
  Learned Disconnect() { return WaitFor(disconnected_future_); }

 private:
  static Learned Now(NdkStatus status) { return {status, absl::Now()}; }
  static Learned WaitFor(std::future<Learned>& learned) {
    // The brokers bound every request.
    if (learned.wait_for(absl::ToChronoMilliseconds(kTestPatience)) != std::future_status::ready) return {};
    return learned.get();
  }
  client::DisconnectEventCallback OnDisconnect() {
    return [this](const client::DisconnectEvent& event) { disconnected_.set_value(Now(event.status)); };
  }

  std::promise<Learned> disconnected_;
  std::future<Learned> disconnected_future_ = disconnected_.get_future();
  LibraryClient client_;
  std::unique_ptr<client::BlockingListener> listener_;
  std::future<Learned> outcome_;
};

class ClientDeath : public testing::TestWithParam<Case> {
 protected:
  // From the kill until the peer knows.
  absl::Duration Trial() {
    const auto& [name, stage, active, failure] = GetParam();
    Peer peer(peers_broker_);
    std::vector<std::string> command = {kDoomedClient, clients_broker_.control_socket(), stage};
    if (active) command.push_back(peer.Listen().ToString());
    ChildProcess client(command);
    if (active) {
      peer.StartAccepting();
    } else {
      const auto address = SocketAddress::Parse(client.ReadLine());
      EXPECT_TRUE(address);
      if (!address) return absl::InfiniteDuration();
      peer.StartConnecting(*address);
    }
    EXPECT_EQ(client.ReadLine(), "there");
    if (!failure) {
      EXPECT_EQ(peer.Outcome().status, NdkStatus::kSuccess);
    }
    const absl::Time killed = absl::Now();
    client.StartKill();
    const Learned learned = failure ? peer.Outcome() : peer.Disconnect();
    EXPECT_TRUE(failure ? learned.status == *failure
                        : learned.status == NdkStatus::kSuccess || learned.status == NdkStatus::kConnectionAborted)
        << StatusName(learned.status);
    return learned.at - killed;
  }

  RunningBroker clients_broker_;
  RunningBroker peers_broker_;
};

TEST_P(ClientDeath, IsKnownToThePeerWithinATenthOfASecond) {
  DisconnectDelays delays;
  while (delays.GoOn() && !HasFailure()) delays.Add(Trial());
  delays.ExpectInTime();
}

INSTANTIATE_TEST_SUITE_P(
    BySigkill, ClientDeath,
    testing::Values(Case{"WithAnUndecidedRequest", "requested", false, NdkStatus::kConnectionRefused},
                    Case{"WithAnUncompletedConnect", "replied", true, NdkStatus::kConnectionAborted},
                    Case{"BeforeItFetchesWhatItAccepted", "established", false},
                    Case{"BeforeItFetchesWhatItConnected", "established", true},
                    Case{"BeforeItAcknowledgesWhatItAccepted", "fetched", false},
                    Case{"BeforeItAcknowledgesWhatItConnected", "fetched", true},
                    Case{"WithAnIdleConnectionThatItAccepted", "attached", false},
                    Case{"WithAnIdleConnectionThatItConnected", "attached", true}),
    [](const auto& with) { return std::string(with.param.name); });

}  // namespace
}  // namespace rdmabroker
