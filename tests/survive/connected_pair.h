// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_CONNECTED_PAIR_H_
#define TESTS_SURVIVE_CONNECTED_PAIR_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "client/blocking.h"
#include "dataplane/testing/side.h"
#include "tests/integration/library_client.h"
#include "tests/integration/running_broker.h"
#include "tests/survive/disconnect_events.h"

namespace rdmabroker {

// Two clients of one broker, and a connection between them.
struct ConnectedPair {
  static constexpr absl::Duration kKeepalive = absl::Seconds(8);

  ConnectedPair(RunningBroker& broker, const std::string& device)
      : a(broker.control_socket(), device, {.keepalive = absl::ToChronoSeconds(kKeepalive)}),
        b(broker.control_socket(), device, {.keepalive = absl::ToChronoSeconds(kKeepalive)}) {}

  // Port 0: any.
  void Connect(uint16_t port) {
    auto [listening, listener] = client::BlockingListener::Listen(b.adapter, {b.ip(), port});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    address = listener->address();
    client::Outcome accepted;
    std::thread accepting([&, from = listener.get()] { accepted = b.Accept(*from, at_b.Note()); });
    const client::Outcome connected = a.Connect(a.ip(), address, at_a.Note());
    accepting.join();
    ASSERT_TRUE(connected.ok()) << connected.hint;
    ASSERT_TRUE(accepted.ok()) << accepted.hint;
  }
  void ExpectUntouched() {
    ASSERT_EQ(b.side.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    ASSERT_EQ(a.side.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a.side.Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(b.side.Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(at_a.count(), 0u);
    EXPECT_EQ(at_b.count(), 0u);
  }
  void Close() {
    for (LibraryClient* const client : {&a, &b}) client::BlockingClose(std::exchange(client->connector, nullptr));
  }

  DisconnectEvents at_a, at_b;
  LibraryClient a, b;
  SocketAddress address;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_CONNECTED_PAIR_H_
