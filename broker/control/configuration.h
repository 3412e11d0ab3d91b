// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONFIGURATION_H_
#define BROKER_CONTROL_CONFIGURATION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/control/accounts.h"
#include "broker/control/audit_level.h"
#include "broker/control/server_certificates.h"
#include "broker/core/limits.h"
#include "broker/policy/policy.h"

namespace rdmabroker {

// What the daemon is told by its TOML file. docs/configuration.md and docs/policy.md list the keys; a key that is
// absent has the value that stands here.
struct Configuration {
  // [control]
  std::string socket_directory = "/run/rdma-broker";  // control.sock and handoff.sock are made in it.
  // What the next process finds of this one is in it, sessions' secrets included. "": $RUNTIME_DIRECTORY, as systemd
  // sets it, else the folder "state" of socket_directory.
  std::string state_directory;
  uint32_t socket_mode = 0660;
  std::string socket_group = "rdma";  // Owns the sockets. "": the daemon's own group.
  std::string administrators_group;  // Sees and ends every user's sessions, as the daemon's user does. "": nobody else.
  bool root_administers = true;      // Whether root does, too.
  uint32_t connections_per_uid = 2048;
  absl::Duration patience = absl::Seconds(10);  // With a client that says nothing or does not read.

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

  // [policy]
  Policy policy;
  AuditLevel audit = AuditLevel::kRefused;

  // [tcp]
  std::string tcp_address;      // IP:PORT of the port for administration from elsewhere. "": there is none.
  std::string tcp_certificate;  // PEM files: the broker's chain, leaf first, its key, and who may sign clients'.
  std::string tcp_private_key;
  std::string tcp_client_authorities;
  std::string tcp_revoked;                      // PEM file of these authorities' revocation lists. "": none.
  std::vector<std::string> tcp_administrators;  // SPIFFE ids.
  std::vector<std::string> tcp_inspectors;

  bool operator==(const Configuration&) const = default;
};

// INVALID_ARGUMENT names file, line and key: a key that does not exist, a value of the wrong type or out of its range,
// a user or group of the policy's that is not in `accounts`, or text that is no TOML. `name` stands for the file.
absl::StatusOr<Configuration> ParseConfiguration(const std::string& text, const std::string& name, Accounts& accounts);
// The text of a configuration file: NOT_FOUND where it cannot be read, INVALID_ARGUMENT where it is longer than
// kMaxConfigurationBytes.
absl::StatusOr<std::string> ReadConfigurationText(const std::string& path);
// A policy of thousands of rules has half of it; what a broker keeps of its file costs no more.
inline constexpr size_t kMaxConfigurationBytes = size_t{1} << 20;

// Where the TCP port has its certificates from.
CertificateFiles CertificateFilesOf(const Configuration& configuration);

// The names of all keys, and whether each may change while the daemon runs.
std::map<std::string, bool> KnownConfigurationKeys();
// Keys whose values differ, in the order of their names.
struct ChangedKeys {
  std::vector<std::string> applied;        // May change while the daemon runs.
  std::vector<std::string> needs_restart;  // The next process has them.

  bool operator==(const ChangedKeys&) const = default;
};
// Gives `in_use` the values of `wanted` that may change while the daemon runs.
ChangedKeys ApplyChanges(const Configuration& wanted, Configuration& in_use);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONFIGURATION_H_
