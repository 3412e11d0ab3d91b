// SPDX-License-Identifier: Apache-2.0

// Headers that are long, in one way or another.

#include <nghttp2/nghttp2.h>

#include <string>
#include <vector>

#include "proto/rpc/testing/frames.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/raw_client.h"

namespace rdmabroker::tenants {
namespace {

using rpc::Frame;

// The largest frame.
constexpr size_t kFrame = 16384;

// HPACK's number, in the octet `first`, whose last seven bits are for it.
std::string HpackNumber(uint8_t first, uint64_t number) {
  std::string text(1, static_cast<char>(first | 127));
  for (number -= 127; number >= 128; number /= 128) text += static_cast<char>(128 | number % 128);
  return text + static_cast<char>(number);
}

// A field whose value is to be 200 MB long, of which comes as much as the broker takes.
void AnnounceAString(Attacker& attacker) {
  const auto connect = [](Attacker& by) {
    auto client = RawClient::Connect(by);
    if (client == nullptr) return client;
    const std::string field = std::string("\0\1x", 3) + HpackNumber(0, 200'000'000);
    client->Send(Frame(NGHTTP2_HEADERS, 0, 1, rpc::HeaderBlock(rpc::CallHeaders("/x")) + field));
    return client;
  };
  const auto send = [](RawClient& client) { client.Send(Frame(NGHTTP2_CONTINUATION, 0, 1, std::string(kFrame, 'a'))); };
  Run(attacker, {.connect = connect, .send = send});
}

}  // namespace

std::vector<Attack> HeaderAttacks() {
  return {
      {"AStringOf200Megabytes", AnnounceAString, {{"octets", 10'000}, {"goaway 9"}}},
  };
}

}  // namespace rdmabroker::tenants
