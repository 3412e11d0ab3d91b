// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_HANDOFF_FETCHER_H_
#define TESTS_CONTROL_HANDOFF_FETCHER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/handoff.pb.h"
#include "tests/control/test_client.h"

namespace rdmabroker {

// What asks for the connector's transport, by the outcome that established it.
v1::HandoffRequest HandoffRequestOf(const TestClient& client, uint64_t connector, const v1::Outcome& established);

// One client's conversation with the hand-off socket.
class HandoffFetcher {
 public:
  explicit HandoffFetcher(UniqueFd socket);

  bool Send(const std::string& record);
  bool Acknowledge(uint64_t connector);
  // The broker's reply, and the transport that came with it; nothing where the broker has closed the socket.
  std::optional<v1::HandoffReply> Receive();

  UniqueFd transport;

 private:
  UniqueFd socket_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_HANDOFF_FETCHER_H_
