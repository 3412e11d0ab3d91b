// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONFIGURATION_RELOAD_H_
#define BROKER_CONTROL_CONFIGURATION_RELOAD_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "broker/control/accounts.h"
#include "broker/control/configuration.h"
#include "broker/control/server_certificates.h"
#include "broker/runtime/background_read.h"

namespace rdmabroker {

// A configuration, with what its names stand for on this machine.
struct LoadedConfiguration {
  std::string text;  // Of the file; empty where there is none.
  Configuration configuration;
  AccountNumbers numbers;  // Of all users and groups that are named in it.
  std::optional<gid_t> socket_group;
  std::optional<gid_t> administrators_group;
  std::optional<ServerCertificates> certificates;  // Where there is to be a TCP port, and they are good.
  absl::Status certificate_problem;                // Why they are not.
};

// Parses and looks up everything but the certificates; `name` stands for the file in complaints. It may block where
// names are not among the `known`. An error where a part is bad, or a group cannot be found.
absl::StatusOr<LoadedConfiguration> LoadConfiguration(std::string text, const std::string& name,
                                                      AccountNumbers known = {});
// The same of a file; "": the defaults.
absl::StatusOr<LoadedConfiguration> LoadConfigurationFile(const std::string& path);
// Reads the certificates, too. Where they are bad, all but the TCP port can be served.
absl::StatusOr<LoadedConfiguration> WithCertificates(absl::StatusOr<LoadedConfiguration> loaded);
// What is bad in it in any way.
absl::Status ProblemOf(const absl::StatusOr<LoadedConfiguration>& loaded);

using ConfigurationReader = BackgroundRead<absl::StatusOr<LoadedConfiguration>>;

// What comes of a reload: the keys that have changed, or why nothing has.
using ReloadDone = std::function<void(const absl::StatusOr<ChangedKeys>&)>;

// Reads the configuration again while the daemon runs. A file that is bad in any way changes nothing. Loop thread only.
class ConfigurationReload {
 public:
  // More than administrators and their tools at a time, beside a file system that hangs.
  static constexpr size_t kMostWaiting = 64;
  // Has everybody use `loaded`, of which `in_use` is what may change; gives what is in use then.
  using Apply = std::function<Configuration(const LoadedConfiguration& loaded, const Configuration& in_use)>;

  // `path` may be "": then there is nothing to be read. `executor` outlives it.
  ConfigurationReload(std::string path, const Configuration& in_use, Executor& executor, Apply apply);
  ConfigurationReload(const ConfigurationReload&) = delete;
  ConfigurationReload& operator=(const ConfigurationReload&) = delete;

  // Reads what is in the file now, or later: `done` is called then. What comes of it is logged.
  void Ask(ReloadDone done);
  // Nothing is applied any more; those who wait are told so.
  void Stop();

 private:
  absl::StatusOr<ChangedKeys> Take(const absl::StatusOr<LoadedConfiguration>& read);
  void End(const absl::StatusOr<LoadedConfiguration>& read);

  const std::string path_;
  Configuration in_use_;
  const Apply apply_;
  bool stopped_ = false;
  std::vector<ReloadDone> current_;  // Wait for the read that is under way.
  std::vector<ReloadDone> next_;     // Wait for the one after it.
  ConfigurationReader reader_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONFIGURATION_RELOAD_H_
