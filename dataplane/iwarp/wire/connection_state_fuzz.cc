// SPDX-License-Identifier: Apache-2.0

// The state of a connection as it is handed from one process to another. What is read is written as it came.

#include "dataplane/iwarp/wire/connection_state.h"

#include <string_view>

#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::iwarp;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto state = DecodeConnectionState(bytes);
  if (!state.ok()) return 0;
  Require(size <= kMaxConnectionStateLength, "a state fits into one message");
  Require(state->fpdu_limit >= kMinFpduLength && state->fpdu_limit <= kMaxFpduLength, "an FPDU may be so long");
  Require(EncodeConnectionState(*state) == bytes, "a state is written as it came");
  return 0;
}
