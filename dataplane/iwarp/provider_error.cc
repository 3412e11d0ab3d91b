// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/provider_error.h"

#include <system_error>

namespace rdmabroker::iwarp {

std::string ProviderErrorText(uint32_t provider_error) {
  const uint32_t number = provider_error & 0xFFFF;
  const TerminateCause cause = {static_cast<uint8_t>(number >> 12), static_cast<uint8_t>(number >> 8 & 0x0F),
                                static_cast<uint8_t>(number)};
  switch (provider_error & 0xFFFF0000) {
    case kTerminateSent:
      return "terminated by this side: " + std::string(TerminateCauseName(cause));
    case kTerminateReceived:
      return "terminated by the peer: " + std::string(TerminateCauseName(cause));
    case kSocketError:
      return number == 0 ? "the peer's stream ended within a message"
                         : "socket: " + std::generic_category().message(static_cast<int>(number));
    case kLocalError:
      return "a request named memory that it may not use";
    default:
      return "unknown";
  }
}

}  // namespace rdmabroker::iwarp
