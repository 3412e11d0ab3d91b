// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONFIGURATION_H_
#define BROKER_CONTROL_CONFIGURATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/core/limits.h"

namespace rdmabroker {

// What the daemon is told by its TOML file. docs/configuration.md lists the keys; a key that is absent has the value
// that stands here.
struct Configuration {
  // [control]
  std::string socket_directory = "/run/rdma-broker";  // control.sock and handoff.sock are made in it.
  // What the next process finds of this one is in it, sessions' secrets included. "": $RUNTIME_DIRECTORY, as systemd
  // sets it, else the folder "state" of socket_directory.
  std::string state_directory;
  uint32_t socket_mode = 0660;
  std::string socket_group = "rdma";  // Owns the sockets. "": the daemon's own group.
  std::string administrators_group;   // Sees and ends every user's sessions. "": root and the daemon's user only.
  uint32_t connections_per_uid = 2048;
  absl::Duration patience = absl::Seconds(10);  // With a client that says nothing or does not read.
  bool reflection = false;                      // Whether gRPC's tools may ask what the services look like.

  // [log]
  std::string log_level = "info";   // As LogLevelNamed knows it.
  std::string log_format = "text";  // As LogFormatNamed knows it.

  // [metrics]
  std::string metrics_address;  // IP:PORT where Prometheus collects them. "": nowhere.

  // [iwarp]
  bool iwarp_crc = true;  // Whether connections of user-space iWARP carry CRCs even if the peer does not want them.

  // [rdmacm]
  bool trust_qp_numbers = false;  // Whether a client is believed whose queue pairs the kernel does not show to be its.

  // [limits] and [timeouts]
  Limits limits;

  bool operator==(const Configuration&) const = default;
};

// INVALID_ARGUMENT names file, line and key: a key that does not exist, a value of the wrong type or out of its range,
// or text that is no TOML. NOT_FOUND where the file cannot be read.
absl::StatusOr<Configuration> ReadConfiguration(const std::string& path);
// As ReadConfiguration, of `text`; `name` stands for the file in messages.
absl::StatusOr<Configuration> ParseConfiguration(const std::string& text, const std::string& name);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONFIGURATION_H_
