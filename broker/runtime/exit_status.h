// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_EXIT_STATUS_H_
#define BROKER_RUNTIME_EXIT_STATUS_H_

namespace rdmabroker {

// The exit statuses by which rdma-brokerd tells whoever has started it why it ends. rdma-broker-keeper acts upon them.

// Another try does not help, until somebody mends the configuration or the command.
inline constexpr int kBadConfiguration = 2;
// It makes way for another process, which is wanted at once: EX_TEMPFAIL of sysexits.h.
inline constexpr int kStartAnother = 75;

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_EXIT_STATUS_H_
