// SPDX-License-Identifier: Apache-2.0

// Answers of netlink, in parts: each has two bytes for its length, and what one recv returned.

#include "dataplane/netlink_answer.h"

#include <linux/netlink.h>

#include <vector>

#include "dataplane/netlink.h"
#include "tests/fuzz.h"

namespace rdmabroker {
namespace {

// In memory of its own, so that a sanitizer sees a read behind it.
std::vector<char> Aligned(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

void CheckAttributes(const char* first, int length) {
  ForEachAttribute(first, length, [first, length](int type, const rtattr* attribute) {
    Require((type & ~NLA_TYPE_MASK) == 0, "a type is one without flags");
    const auto* const begin = reinterpret_cast<const char*>(attribute);
    Require(begin >= first && begin + attribute->rta_len <= first + length, "an attribute lies within its message");
  });
}

NetlinkAnswer::Progress TakePart(const std::vector<char>& part, NetlinkAnswer* answer) {
  size_t carried = 0;
  const auto progress = answer->Take(part, [&](const void* first, int length) {
    const auto* const begin = static_cast<const char*>(first);
    Require(length >= 0 && begin >= part.data() && begin + length <= part.data() + part.size(),
            "a message lies within its part");
    carried += NLMSG_HDRLEN + static_cast<size_t>(length);
    CheckAttributes(begin, length);
  });
  Require(carried <= part.size(), "messages do not overlap");
  return progress;
}

}  // namespace
}  // namespace rdmabroker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  FuzzInput input(data, size);
  NetlinkAnswer answer;
  auto progress = NetlinkAnswer::Progress::kMore;
  while (!input.empty() && progress == NetlinkAnswer::Progress::kMore) {
    progress = TakePart(Aligned(input.Piece(input.Whole<uint16_t>())), &answer);
  }
  constexpr int kMostErrno = 4095;
  Require(answer.error() >= 0 && answer.error() <= kMostErrno, "an error is an errno");
  return 0;
}
