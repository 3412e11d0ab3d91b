// SPDX-License-Identifier: Apache-2.0

#include "client/examples/opened_device.h"

#include "absl/strings/str_cat.h"
#include "client/blocking.h"
#include "dataplane/last_hint.h"

namespace rdmabroker::examples {

absl::Status Report(const char* what, const client::Outcome& outcome) {
  if (outcome.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(what, ": ", std::string(StatusName(outcome.status)), ": ", outcome.hint));
}

absl::Status Report(const char* what, NdkStatus status) {
  if (status == NdkStatus::kSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(what, ": ", std::string(StatusName(status)), ": ", LastHint()));
}

absl::StatusOr<SocketAddress> ParseAddress(const char* option, const std::string& text) {
  std::string problem;
  const auto address = SocketAddress::Parse(text, &problem);
  if (address) return *address;
  return absl::InvalidArgumentError(absl::StrCat(option, " ", text, ": ", problem));
}

absl::StatusOr<OpenedDevice> OpenDevice(const std::string& control_socket, const std::string& device) {
  auto [opened, session] = client::Session::Open({.control_socket = control_socket});
  if (!opened.ok()) return Report("session", opened);
  auto [found, adapter] = client::BlockingOpenAdapter(*session, device);
  if (!found.ok()) return Report("adapter", found);
  if (adapter->data() == nullptr) {
    return absl::UnimplementedError(absl::StrCat("device ", device, ": this library has no data path for it"));
  }
  return OpenedDevice{std::move(session), std::move(adapter)};
}

}  // namespace rdmabroker::examples
