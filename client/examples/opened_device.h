// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_OPENED_DEVICE_H_
#define CLIENT_EXAMPLES_OPENED_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/adapter.h"
#include "client/session.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker::examples {

// How `what` ended, as a program says it in its last words.
absl::Status Report(const char* what, const client::Outcome& outcome);
absl::Status Report(const char* what, NdkStatus status);

// The IP:PORT that the option has.
absl::StatusOr<SocketAddress> ParseAddress(const char* option, const std::string& text);

// A session with the broker, and an adapter of a device that this library has a data path for.
struct OpenedDevice {
  std::shared_ptr<client::Session> session;
  std::shared_ptr<client::Adapter> adapter;
};
absl::StatusOr<OpenedDevice> OpenDevice(const std::string& control_socket, const std::string& device);

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_OPENED_DEVICE_H_
