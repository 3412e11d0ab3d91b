// SPDX-License-Identifier: Apache-2.0

// The payload of a Terminate message. What is read is written as it came, but for reserved bits.

#include "dataplane/iwarp/wire/terminate.h"

#include <algorithm>
#include <span>
#include <vector>

#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::iwarp;
  const auto message = DecodeTerminate({data, size});
  if (!message.ok()) return 0;
  Require(size <= kMaxTerminateLength, "a message has at most kMaxTerminateLength bytes");
  const std::vector<uint8_t> encoded = EncodeTerminate(*message);
  const auto again = DecodeTerminate(encoded);
  Require(again.ok() && *again == *message, "a message that is written and read again is the same");
  std::vector<uint8_t> expected(data, data + size);
  expected[2] &= 0xE0;  // The flags M, D and R.
  expected[3] = 0;
  Require(encoded == expected, "a message is written as it came");
  Require(!TerminateCauseName(message->cause).empty(), "each cause has a text");
  return 0;
}
