// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_KIND_H_
#define TESTS_CONFORMANCE_MISUSE_KIND_H_

#include <array>

namespace rdmabroker::misuse {

// What an object of the library's is.
enum class Kind {
  kAdapter,
  kListener,
  kSharedEndpoint,
  kReservation,
  kConnector,
  kDomain,
  kCompletionQueue,
  kSharedReceiveQueue,
  kQueuePair,
  kRegion,
  kWindow
};
inline constexpr std::array<const char*, 11> kKindNames = {"adapter",   "listener", "shared endpoint", "reservation",
                                                           "connector", "domain",   "queue",           "SRQ",
                                                           "QP",        "region",   "window"};

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_KIND_H_
