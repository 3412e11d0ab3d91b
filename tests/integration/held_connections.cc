// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/held_connections.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "tests/control/patience.h"

namespace rdmabroker {

HeldConnections::HeldConnections(const std::string& control_socket, const std::string& device)
    : client_(control_socket, device), ip_(client_.ip()) {}

HeldConnections::~HeldConnections() {
  for (const auto& connector : connectors_) client::BlockingClose(connector);
  for (QueuePair* const pair : queue_pairs_) CloseAndWait(pair);
}

SocketAddress HeldConnections::Listen() {
  auto [listening, listener] = client::BlockingListener::Listen(client_.adapter, {ip_, 0});
  EXPECT_TRUE(listening.ok()) << listening.hint;
  listener_ = std::move(listener);
  return listener_ == nullptr ? SocketAddress() : listener_->address();
}

void HeldConnections::Accept(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto [arrived, connector] = listener_->Next(absl::ToChronoMilliseconds(kTestPatience));
    ASSERT_TRUE(arrived.ok()) << arrived.hint;
    connectors_.push_back(connector);
    const client::Outcome accepted = client::BlockingAccept(connector, NewQueuePair(), {}, NotesEnd());
    ASSERT_TRUE(accepted.ok()) << accepted.hint;
  }
}

void HeldConnections::Connect(const SocketAddress& peer, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto [connected, connector] = client::BlockingConnect(
        client_.adapter, NewQueuePair(), {.source = {.ip = ip_}, .destination = peer, .limits = {}, .private_data = {}},
        NotesEnd());
    ASSERT_TRUE(connected.ok()) << connected.hint;
    connectors_.push_back(connector);
  }
}

std::vector<NdkStatus> HeldConnections::Ends() {
  const auto all = [this] {
    const std::lock_guard lock(mutex_);
    return ends_.size() == connectors_.size();
  };
  EXPECT_TRUE(Becomes(all)) << "not every connection has ended";
  const std::lock_guard lock(mutex_);
  return ends_;
}

QueuePair* HeldConnections::NewQueuePair() { return queue_pairs_.emplace_back(client_.side.NewQueuePair({}, nullptr)); }

client::DisconnectEventCallback HeldConnections::NotesEnd() {
  return [this](const client::DisconnectEvent& event) {
    const std::lock_guard lock(mutex_);
    ends_.push_back(event.status);
  };
}

}  // namespace rdmabroker
