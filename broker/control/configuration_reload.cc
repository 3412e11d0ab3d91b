// SPDX-License-Identifier: Apache-2.0

#include "broker/control/configuration_reload.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

absl::Status Stopping() { return absl::UnavailableError("configuration: the broker is stopping"); }

absl::Status NotApplied(const absl::Status& cause) {
  LogError("configuration not applied", {{"cause", cause.message()}});
  return cause;
}

// The group that the key names, none for "".
absl::Status FindGroup(const char* key, const std::string& name, Accounts& accounts, std::optional<gid_t>* group) {
  if (name.empty()) return absl::OkStatus();
  const auto found = accounts.Group(name);
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat("control.", key, ": ", found.status().message(), ", or set the key to \"\""));
  }
  *group = *found;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedConfiguration> LoadConfiguration(std::string text, const std::string& name, AccountNumbers known) {
  Accounts accounts(std::move(known));
  absl::StatusOr<Configuration> parsed = ParseConfiguration(text, name, accounts);
  if (!parsed.ok()) return parsed.status();
  LoadedConfiguration loaded{.text = std::move(text), .configuration = *std::move(parsed)};
  const Configuration& configuration = loaded.configuration;
  absl::Status found = FindGroup("socket_group", configuration.socket_group, accounts, &loaded.socket_group);
  if (!found.ok()) return found;
  found = FindGroup("administrators_group", configuration.administrators_group, accounts, &loaded.administrators_group);
  if (!found.ok()) return found;
  loaded.numbers = accounts.known();
  return loaded;
}

absl::StatusOr<LoadedConfiguration> WithCertificates(absl::StatusOr<LoadedConfiguration> loaded) {
  if (!loaded.ok() || loaded->configuration.tcp_address.empty()) return loaded;
  auto certificates = ReadServerCertificates(CertificateFilesOf(loaded->configuration), absl::Now());
  loaded->certificate_problem = certificates.status();
  if (certificates.ok()) loaded->certificates = *std::move(certificates);
  return loaded;
}

absl::Status ProblemOf(const absl::StatusOr<LoadedConfiguration>& loaded) {
  return loaded.ok() ? loaded->certificate_problem : loaded.status();
}

absl::StatusOr<LoadedConfiguration> LoadConfigurationFile(const std::string& path) {
  if (path.empty()) return LoadConfiguration("", "");
  absl::StatusOr<std::string> text = ReadConfigurationText(path);
  return text.ok() ? LoadConfiguration(*std::move(text), path) : text.status();
}

ConfigurationReload::ConfigurationReload(std::string path, const Configuration& in_use, Executor& executor, Apply apply)
    : path_(std::move(path)),
      in_use_(in_use),
      apply_(std::move(apply)),
      reader_(
          executor, [path = path_] { return WithCertificates(LoadConfigurationFile(path)); },
          [this](const absl::StatusOr<LoadedConfiguration>& read) { End(read); }) {}

void ConfigurationReload::Ask(ReloadDone done) {
  if (stopped_) return done(Stopping());
  if (path_.empty()) {
    return done(NotApplied(absl::FailedPreconditionError(
        "configuration: the broker was started without --config, so that there is no file to be read again")));
  }
  if (next_.size() >= kMostWaiting) {
    return done(NotApplied(absl::ResourceExhaustedError(
        absl::StrCat(path_, ": is being read, and many wait for it; see whether its file system hangs"))));
  }
  (reader_.Ask() ? current_ : next_).push_back(std::move(done));
}

void ConfigurationReload::Stop() {
  stopped_ = true;
  for (std::vector<ReloadDone>* waiting : {&current_, &next_}) {
    for (const ReloadDone& done : std::exchange(*waiting, {})) done(Stopping());
  }
}

void ConfigurationReload::End(const absl::StatusOr<LoadedConfiguration>& read) {
  if (stopped_) return;
  const std::vector<ReloadDone> waiting = std::exchange(current_, std::exchange(next_, {}));
  const absl::StatusOr<ChangedKeys> changed = Take(read);
  for (const ReloadDone& done : waiting) done(changed);
}

absl::StatusOr<ChangedKeys> ConfigurationReload::Take(const absl::StatusOr<LoadedConfiguration>& read) {
  if (const absl::Status problem = ProblemOf(read); !problem.ok()) return NotApplied(problem);
  Configuration wanted = in_use_;
  ChangedKeys changed = ApplyChanges(read->configuration, wanted);
  in_use_ = apply_(*read, wanted);
  // What could not be had at once after all.
  Configuration had = in_use_;
  for (const std::string& key : ApplyChanges(wanted, had).applied) {
    changed.applied.erase(std::remove(changed.applied.begin(), changed.applied.end(), key), changed.applied.end());
    changed.needs_restart.push_back(key);
  }
  LogInfo("configuration applied", {{"file", path_},
                                    {"applied", absl::StrJoin(changed.applied, ",")},
                                    {"needs_restart", absl::StrJoin(changed.needs_restart, ",")}});
  return changed;
}

}  // namespace rdmabroker
