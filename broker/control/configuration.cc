// SPDX-License-Identifier: Apache-2.0

#include "broker/control/configuration.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "broker/control/file_text.h"
#include "broker/control/policy_configuration.h"
#include "broker/control/spiffe_id.h"
#include "broker/control/toml_setters.h"
#include "broker/log/log.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {
namespace {

// Has no keys of its own here: ReadPolicy reads it.
constexpr char kPolicyTable[] = "policy";

// A key, with the field that it sets. Of the same key in the table of another configuration the field has the same
// type.
struct Key {
  template <typename Field>
  Key(Field& its_field, Setter setter)
      : set(std::move(setter)),
        field(&its_field),
        same([](const void* a, const void* b) {
          return *static_cast<const Field*>(a) == *static_cast<const Field*>(b);
        }),
        copy([](const void* from, void* to) { *static_cast<Field*>(to) = *static_cast<const Field*>(from); }) {}

  Setter set;
  void* field;
  bool (*same)(const void* a, const void* b);
  void (*copy)(const void* from, void* to);
  bool may_change = true;
};
using Section = std::map<std::string, Key>;

// A key whose value a process has from its first to its last day.
Key NeedsRestart(Key key) {
  key.may_change = false;
  return key;
}

template <typename Number>
Key Whole(Number& field, int64_t least, int64_t most) {
  return Key(field, SetWhole(field, least, most));
}

// An hour is longer than anybody waits for a handshake, and shorter than what no timer can hold.
constexpr int64_t kLongest = 3600 * 1000;

Key Milliseconds(absl::Duration& field) {
  return Key(field, [&field](const toml::node& node) {
    int64_t number = 0;
    Complaint complaint = SetWhole(number, 1, kLongest)(node);
    if (complaint.what.empty()) field = absl::Milliseconds(number);
    return complaint;
  });
}

using TextCheck = std::string (*)(const std::string&);

Key Text(std::string& field, TextCheck check = nullptr) { return Key(field, SetText(field, check)); }

Key Texts(std::vector<std::string>& field, TextCheck check) {
  return Key(field, [&field, check](const toml::node& node) -> Complaint {
    std::vector<std::string> texts;
    if (!node.is_array()) return {node.source(), "must be a list of strings"};
    for (const toml::node& element : *node.as_array()) {
      const auto value = element.value_exact<std::string>();
      if (!value) return {element.source(), "must be a list of strings"};
      if (std::string what = check(*value); !what.empty()) return {element.source(), std::move(what)};
      texts.push_back(*value);
    }
    field = std::move(texts);
    return {};
  });
}

Key YesOrNo(bool& field) { return Key(field, SetYesOrNo(field)); }

std::string AbsolutePath(const std::string& text) {
  return text.empty() || text[0] != '/' ? "must be an absolute path" : "";
}

std::string AbsolutePathOrNone(const std::string& text) { return text.empty() ? "" : AbsolutePath(text); }

std::string AddressOrNone(const std::string& text) {
  std::string problem;
  if (text.empty() || SocketAddress::Parse(text, &problem)) return "";
  return absl::StrCat("must be IP:PORT, an IPv6 address in brackets, or \"\"; \"", absl::CHexEscape(text),
                      "\": ", problem);
}

std::string SpiffeId(const std::string& text) {
  const absl::string_view problem = SpiffeIdProblem(text);
  return problem.empty() ? "" : absl::StrCat("must be SPIFFE ids; \"", absl::CHexEscape(text), "\" ", problem);
}

std::string LogLevelName(const std::string& text) {
  return LogLevelNamed(text) ? "" : absl::StrCat("must be one of ", absl::StrJoin(kLogLevelNames, ", "));
}

std::string LogFormatName(const std::string& text) {
  return LogFormatNamed(text) ? "" : absl::StrCat("must be one of ", absl::StrJoin(kLogFormatNames, ", "));
}

std::map<std::string, Section> Keys(Configuration& configuration) {
  Limits& limits = configuration.limits;
  // More than any process has objects, and few enough that a session's records stay below a gigabyte.
  constexpr int64_t kMany = 1'000'000;
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  constexpr int64_t kTebibyte = int64_t{1} << 40;
  return {
      {"control",
       {{"socket_directory", NeedsRestart(Text(configuration.socket_directory, AbsolutePath))},
        {"state_directory", NeedsRestart(Text(configuration.state_directory, AbsolutePathOrNone))},
        {"socket_mode", NeedsRestart(Whole(configuration.socket_mode, 0, 0777))},
        {"socket_group", NeedsRestart(Text(configuration.socket_group))},
        {"administrators_group", Text(configuration.administrators_group)},
        {"root_administers", YesOrNo(configuration.root_administers)},
        {"connections_per_uid", Whole(configuration.connections_per_uid, 1, kMany)},
        {"patience_ms", Milliseconds(configuration.patience)}}},
      {"iwarp", {{"crc", NeedsRestart(YesOrNo(configuration.iwarp_crc))}}},
      {"rdmacm", {{"trust_qp_numbers", NeedsRestart(YesOrNo(configuration.trust_qp_numbers))}}},
      {"log",
       {{"level", Text(configuration.log_level, LogLevelName)},
        {"format", Text(configuration.log_format, LogFormatName)}}},
      {"metrics", {{"address", NeedsRestart(Text(configuration.metrics_address, AddressOrNone))}}},
      {"limits",
       {{"sessions_per_uid", Whole(limits.sessions_per_uid, 1, kMany)},
        {"endpoints_per_uid", Whole(limits.endpoints_per_uid, 1, kMany)},
        {"objects_per_uid", Whole(limits.objects_per_uid, 1, kMany)},
        {"kept_bytes_per_uid", Whole(limits.kept_bytes_per_uid, kMebibyte, kTebibyte)},
        {"adapters_per_session", Whole(limits.adapters_per_session, 1, kMany)},
        {"listeners_per_session", Whole(limits.listeners_per_session, 1, kMany)},
        {"shared_endpoints_per_session", Whole(limits.shared_endpoints_per_session, 1, kMany)},
        {"reservations_per_session", Whole(limits.reservations_per_session, 1, kMany)},
        {"connectors_per_session", Whole(limits.connectors_per_session, 1, kMany)},
        {"answers_kept", Whole(limits.answers_kept, 1, 4096)},
        {"events_kept", Whole(limits.events_kept, 16, kMany)},
        {"backlog", Whole(limits.backlog, 1, kMany)},
        {"accept_on_closing_listener", YesOrNo(limits.accept_on_closing_listener)},
        {"first_unprivileged_port", Whole(limits.first_unprivileged_port, 0, 65535)},
        {"first_ephemeral_port", Whole(limits.first_ephemeral_port, 1, 65535)},
        {"last_ephemeral_port", Whole(limits.last_ephemeral_port, 1, 65535)}}},
      {"timeouts",
       {{"connect_ms", Milliseconds(limits.connect_timeout)},
        {"establish_ms", Milliseconds(limits.establish_timeout)},
        {"disconnect_ms", Milliseconds(limits.disconnect_timeout)},
        {"handoff_ms", Milliseconds(limits.handoff_timeout)},
        {"session_grace_ms", Milliseconds(limits.session_grace)}}},
      {"tcp",
       {{"address", NeedsRestart(Text(configuration.tcp_address, AddressOrNone))},
        {"certificate", Text(configuration.tcp_certificate, AbsolutePathOrNone)},
        {"private_key", Text(configuration.tcp_private_key, AbsolutePathOrNone)},
        {"client_authorities", Text(configuration.tcp_client_authorities, AbsolutePathOrNone)},
        {"revoked", Text(configuration.tcp_revoked, AbsolutePathOrNone)},
        {"administrators", Texts(configuration.tcp_administrators, SpiffeId)},
        {"inspectors", Texts(configuration.tcp_inspectors, SpiffeId)}}},
  };
}

std::string KnownTables(const std::map<std::string, Section>& sections) {
  std::set<std::string> known = {kPolicyTable};
  for (const auto& [name, _] : sections) known.insert(name);
  std::string names;
  for (const std::string& name : known) {
    absl::StrAppend(&names, names.empty() ? "" : name == *known.rbegin() ? " and " : ", ", name);
  }
  return names;
}

Setters SettersOf(const Section& section) {
  Setters setters;
  for (const auto& [name, key] : section) setters.emplace(name, key.set);
  return setters;
}

Complaint CheckPorts(const Limits& limits, const toml::table& table) {
  if (limits.first_ephemeral_port <= limits.last_ephemeral_port) return {};
  // The defaults fit, so one of the two is there.
  const auto ports = table["limits"];
  const auto port = ports["first_ephemeral_port"] ? ports["first_ephemeral_port"] : ports["last_ephemeral_port"];
  return {port.node()->source(), absl::StrCat("limits.first_ephemeral_port: ", limits.first_ephemeral_port,
                                              " is above limits.last_ephemeral_port, ", limits.last_ephemeral_port)};
}

Complaint CheckTcp(const Configuration& configuration, const toml::table& table) {
  if (configuration.tcp_address.empty()) return {};
  const std::pair<const char*, const std::string&> files[] = {
      {"certificate", configuration.tcp_certificate},
      {"private_key", configuration.tcp_private_key},
      {"client_authorities", configuration.tcp_client_authorities},
  };
  for (const auto& [key, path] : files) {
    if (!path.empty()) continue;
    return {table["tcp"]["address"].node()->source(),
            absl::StrCat("tcp.", key,
                         ": missing; tcp.address needs it, as every connection there is encrypted and "
                         "shows who it is")};
  }
  return {};
}

Complaint Read(const toml::table& file, Accounts& accounts, Configuration& configuration) {
  const auto sections = Keys(configuration);
  for (const auto& [key, node] : file) {
    const std::string name(key.str());
    const auto section = sections.find(name);
    Complaint complaint;
    if (name == kPolicyTable && node.is_table()) {
      complaint = ReadPolicy(*node.as_table(), accounts, &configuration.policy, &configuration.audit);
    } else if (section != sections.end() && node.is_table()) {
      complaint = SetAll(SettersOf(section->second), absl::StrCat(name, "."), *node.as_table());
    } else {
      complaint = {node.source(), absl::StrCat(name, ": unknown key; known are the tables ", KnownTables(sections))};
    }
    if (!complaint.what.empty()) return complaint;
  }
  Complaint complaint = CheckPorts(configuration.limits, file);
  return complaint.what.empty() ? CheckTcp(configuration, file) : complaint;
}

}  // namespace

absl::StatusOr<Configuration> ParseConfiguration(const std::string& text, const std::string& name, Accounts& accounts) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    return StatusOf(name, {parsed.error().source(), "not TOML: " + std::string(parsed.error().description())});
  }
  Configuration configuration;
  const Complaint complaint = Read(parsed.table(), accounts, configuration);
  if (!complaint.what.empty()) return StatusOf(name, complaint);
  return configuration;
}

absl::StatusOr<std::string> ReadConfigurationText(const std::string& path) {
  return ReadFile(path, kMaxConfigurationBytes);
}

CertificateFiles CertificateFilesOf(const Configuration& configuration) {
  return {configuration.tcp_certificate, configuration.tcp_private_key, configuration.tcp_client_authorities,
          configuration.tcp_revoked};
}

std::map<std::string, bool> KnownConfigurationKeys() {
  Configuration any;
  std::map<std::string, bool> known;
  for (const auto& [section, keys] : Keys(any)) {
    for (const auto& [name, key] : keys) known.emplace(absl::StrCat(section, ".", name), key.may_change);
  }
  return known;
}

ChangedKeys ApplyChanges(const Configuration& wanted, Configuration& in_use) {
  Configuration from = wanted;
  const auto wanted_keys = Keys(from);
  ChangedKeys changed;
  for (const auto& [section, keys] : Keys(in_use)) {
    for (const auto& [name, key] : keys) {
      const Key& other = wanted_keys.at(section).at(name);
      if (key.same(other.field, key.field)) continue;
      if (key.may_change) key.copy(other.field, key.field);
      (key.may_change ? changed.applied : changed.needs_restart).push_back(absl::StrCat(section, ".", name));
    }
  }
  if (wanted.policy != in_use.policy || wanted.audit != in_use.audit) {
    in_use.policy = wanted.policy;
    in_use.audit = wanted.audit;
    changed.applied.push_back(kPolicyTable);
  }
  return changed;
}

}  // namespace rdmabroker
