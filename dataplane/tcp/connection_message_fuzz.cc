// SPDX-License-Identifier: Apache-2.0

// What the kernel says of a TCP connection, behind two bytes for the port that was asked for.

#include "dataplane/tcp/connection_message.h"

#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>

#include <limits>
#include <vector>

#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  FuzzInput input(data, size);
  const auto port = input.Whole<uint16_t>();
  const std::span<const uint8_t> rest = input.Rest();
  const std::vector<uint8_t> message(rest.begin(), rest.end());  // Aligned, and the sanitizer knows its end.
  const auto parse = [&message](uint16_t of) {
    return tcp::ParseConnectionMessage(message.data(), static_cast<int>(message.size()), of);
  };
  const auto state = parse(port);
  if (!state) return 0;
  Require(message.size() >= sizeof(inet_diag_msg) + sizeof(rtattr), "a state has a message");
  Require(!parse(port + 1), "a message is about one port");
  Require(!state->open || !state->closed, "a connection is open or closed");
  constexpr std::chrono::milliseconds kMost{std::numeric_limits<uint32_t>::max()};
  Require(state->silence.count() >= 0 && state->silence <= kMost, "a silence is as long as the kernel can tell");
  Require(state->since_sent.count() >= 0 && state->since_sent <= kMost, "so is the time since something was sent");
  Require(state->unanswered <= std::numeric_limits<uint8_t>::max(), "so many probes are all that the kernel counts");
  return 0;
}
