// SPDX-License-Identifier: Apache-2.0

// Headers that are long, in one way or another.

#include <nghttp2/nghttp2.h>

#include <string>
#include <vector>

#include "proto/rpc/testing/frames.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_connection.h"

namespace rdmabroker::tenants {
namespace {

using rpc::Frame;

constexpr char kList[] = "/rdmabroker.v1.Inspection/ListAdapters";
// The largest frame.
constexpr size_t kFrame = 16384;

// HPACK's number, in the octet `first`, whose last seven bits are for it.
std::string HpackNumber(uint8_t first, uint64_t number) {
  std::string text(1, static_cast<char>(first | 127));
  for (number -= 127; number >= 128; number /= 128) text += static_cast<char>(128 | number % 128);
  return text + static_cast<char>(number);
}

// A block of headers that does not end, after `beginning`; then CONTINUATION frames of `piece`.
void ContinueForEver(Attacker& attacker, const std::string& beginning, const std::string& piece) {
  const auto connect = [beginning](Attacker& by) {
    auto client = HostileConnection::Connect(by);
    if (client != nullptr) {
      client->Send(Frame(NGHTTP2_HEADERS, 0, 1, rpc::HeaderBlock(rpc::CallHeaders("/x")) + beginning));
    }
    return client;
  };
  const std::string frame = Frame(NGHTTP2_CONTINUATION, 0, 1, piece);
  Run(attacker, {.connect = connect, .send = [frame](HostileConnection& client) {
                   client.Send(frame);
                   return true;
                 }});
}

// A value that is to be so long, of which comes as much as the broker takes.
void AStringOf200Megabytes(Attacker& attacker) {
  ContinueForEver(attacker, std::string("\0\1x", 3) + HpackNumber(0, 200'000'000), std::string(kFrame, 'a'));
}

void Continuations(Attacker& attacker) {
  std::string piece;
  while (piece.size() < kFrame - 100) piece += rpc::HeaderBlock({{"x-header", "y"}});
  ContinueForEver(attacker, "", piece);
}

void EmptyContinuations(Attacker& attacker) { ContinueForEver(attacker, "", ""); }

// One octet stands for 4,000: a field in HPACK's dynamic table, which is named again and again.
void TableReferences(Attacker& attacker) {
  const std::string begin = rpc::HeaderBlock(rpc::CallHeaders(kList));
  const std::string entry = std::string("\x40\1x", 3) + HpackNumber(0, 3990) + std::string(3990, 'a');
  const std::string bomb = begin + entry + std::string(8000, '\xBE');
  Run(attacker, {.send = [bomb](HostileConnection& client) {
        client.Send(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, client.NewStream(), bomb));
        return true;
      }});
}

// 20 KiB in each call, which gets a status.
void LongMetadata(Attacker& attacker) {
  const std::string field = std::string("\0\1x", 3) + HpackNumber(0, 10'000) + std::string(10'000, 'a');
  const std::string block = rpc::HeaderBlock(rpc::CallHeaders(kList)) + field;
  const std::string rest = field;
  Run(attacker, {.send = [block, rest](HostileConnection& client) {
        const int32_t stream = client.NewStream();
        client.Send(Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, stream, block));
        client.Send(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, stream, rest));
        return true;
      }});
}

// Each of them is reset.
void MalformedHeaders(Attacker& attacker) {
  Run(attacker, {.send = [](HostileConnection& client) {
        client.Send(rpc::HeadersFrame(client.NewStream(), {{"Upper-Case", "x"}}, NGHTTP2_FLAG_END_STREAM));
        return true;
      }});
}

}  // namespace

std::vector<Attack> HeaderAttacks() {
  constexpr uint64_t kOctets = 10'000;
  return {
      {"AStringOf200Megabytes", AStringOf200Megabytes, {{"octets", kOctets}, {"goaway 9"}}},
      {"Continuations", Continuations, {{"octets", kOctets}, {"goaway 11"}}},
      {"EmptyContinuations", EmptyContinuations, {{"octets", kOctets}, {"goaway 1"}}},
      {"TableReferences", TableReferences, {{"octets", kOctets}, {"goaway 11"}}},
      {"LongMetadata", LongMetadata, {{"octets", kOctets}, {"status 8"}}},
      {"MalformedHeaders", MalformedHeaders, {{"octets", kOctets}, {"reset 1"}}},
  };
}

}  // namespace rdmabroker::tenants
