// SPDX-License-Identifier: Apache-2.0

#include "broker/control/configuration.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/log/log.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

// Sets one field from a value; says what is wrong with it, or nothing.
using Setter = std::function<std::string(const toml::node&)>;
using Section = std::map<std::string, Setter>;

template <typename Number>
Setter Whole(Number& field, int64_t least, int64_t most) {
  return [&field, least, most](const toml::node& node) -> std::string {
    const auto value = node.value_exact<int64_t>();
    if (!value) return absl::StrCat("must be a whole number from ", least, " to ", most);
    if (*value < least || *value > most) return absl::StrCat(*value, " is not from ", least, " to ", most);
    field = static_cast<Number>(*value);
    return "";
  };
}

// An hour is longer than anybody waits for a handshake, and shorter than what no timer can hold.
constexpr int64_t kLongest = 3600 * 1000;

Setter Milliseconds(absl::Duration& field) {
  return [&field](const toml::node& node) -> std::string {
    int64_t number = 0;
    std::string complaint = Whole(number, 1, kLongest)(node);
    if (complaint.empty()) field = absl::Milliseconds(number);
    return complaint;
  };
}

Setter Text(std::string& field, std::function<std::string(const std::string&)> check) {
  return [&field, check = std::move(check)](const toml::node& node) -> std::string {
    const auto value = node.value_exact<std::string>();
    if (!value) return "must be a string";
    std::string complaint = check(*value);
    if (complaint.empty()) field = *value;
    return complaint;
  };
}

Setter YesOrNo(bool& field) {
  return [&field](const toml::node& node) -> std::string {
    const auto value = node.value_exact<bool>();
    if (!value) return "must be a boolean, true or false";
    field = *value;
    return "";
  };
}

std::string AnyText(const std::string&) { return ""; }

std::string AbsolutePath(const std::string& text) {
  return text.empty() || text[0] != '/' ? "must be an absolute path" : "";
}

std::string AbsolutePathOrNone(const std::string& text) { return text.empty() ? "" : AbsolutePath(text); }

std::string AddressOrNone(const std::string& text) {
  return text.empty() || SocketAddress::Parse(text) ? "" : "must be IP:PORT, an IPv6 address in brackets, or \"\"";
}

std::string LogLevelName(const std::string& text) {
  return LogLevelNamed(text) ? "" : "must be one of trace, debug, info, warning, error";
}

std::string LogFormatName(const std::string& text) { return LogFormatNamed(text) ? "" : "must be one of text, json"; }

std::map<std::string, Section> Keys(Configuration& configuration) {
  Limits& limits = configuration.limits;
  // More than any process has objects, and few enough that a session's records stay below a gigabyte.
  constexpr int64_t kMany = 1'000'000;
  return {
      {"control",
       {{"socket_directory", Text(configuration.socket_directory, AbsolutePath)},
        {"state_directory", Text(configuration.state_directory, AbsolutePathOrNone)},
        {"socket_mode", Whole(configuration.socket_mode, 0, 0777)},
        {"socket_group", Text(configuration.socket_group, AnyText)},
        {"administrators_group", Text(configuration.administrators_group, AnyText)},
        {"connections_per_uid", Whole(configuration.connections_per_uid, 1, kMany)},
        {"patience_ms", Milliseconds(configuration.patience)},
        {"reflection", YesOrNo(configuration.reflection)}}},
      {"iwarp", {{"crc", YesOrNo(configuration.iwarp_crc)}}},
      {"rdmacm", {{"trust_qp_numbers", YesOrNo(configuration.trust_qp_numbers)}}},
      {"log",
       {{"level", Text(configuration.log_level, LogLevelName)},
        {"format", Text(configuration.log_format, LogFormatName)}}},
      {"metrics", {{"address", Text(configuration.metrics_address, AddressOrNone)}}},
      {"limits",
       {{"sessions_per_uid", Whole(limits.sessions_per_uid, 1, kMany)},
        {"endpoints_per_uid", Whole(limits.endpoints_per_uid, 1, kMany)},
        {"objects_per_uid", Whole(limits.objects_per_uid, 1, kMany)},
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
  };
}

absl::Status At(const std::string& name, const toml::source_region& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ":", where.begin.line, ": ", what));
}

std::string KnownKeys(const Section& section) {
  std::string keys;
  for (const auto& [key, _] : section) absl::StrAppend(&keys, keys.empty() ? "" : ", ", key);
  return keys;
}

absl::Status ApplySection(const std::string& name, const std::string& section_name, const Section& section,
                          const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string text(key.str());
    const auto setter = section.find(text);
    if (setter == section.end()) {
      return At(name, node.source(),
                absl::StrCat(section_name, ".", text, ": unknown key; known are ", KnownKeys(section)));
    }
    const std::string complaint = setter->second(node);
    if (!complaint.empty()) return At(name, node.source(), absl::StrCat(section_name, ".", text, ": ", complaint));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Configuration> ParseConfiguration(const std::string& text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) return At(name, parsed.error().source(), std::string(parsed.error().description()));
  Configuration configuration;
  const auto sections = Keys(configuration);
  for (const auto& [key, node] : parsed.table()) {
    const std::string section_name(key.str());
    const auto section = sections.find(section_name);
    if (section == sections.end() || !node.is_table()) {
      return At(name, node.source(),
                absl::StrCat(
                    section_name,
                    ": unknown key; known are the tables control, iwarp, limits, log, metrics, rdmacm and timeouts"));
    }
    absl::Status status = ApplySection(name, section_name, section->second, *node.as_table());
    if (!status.ok()) return status;
  }
  const Limits& limits = configuration.limits;
  if (limits.first_ephemeral_port <= limits.last_ephemeral_port) return configuration;
  // The defaults fit, so one of the two is there.
  const auto ports = parsed.table()["limits"];
  const auto port = ports["first_ephemeral_port"] ? ports["first_ephemeral_port"] : ports["last_ephemeral_port"];
  return At(name, port.node()->source(),
            absl::StrCat("limits.first_ephemeral_port: ", limits.first_ephemeral_port,
                         " is above limits.last_ephemeral_port, ", limits.last_ephemeral_port));
}

absl::StatusOr<Configuration> ReadConfiguration(const std::string& path) {
  // A folder can be opened, but not read.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  ssize_t length = file ? 1 : -1;
  while (length > 0) {
    length = ::read(file.get(), buffer, sizeof buffer);
    if (length > 0) text.append(buffer, static_cast<size_t>(length));
  }
  if (length < 0) return absl::NotFoundError(absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  return ParseConfiguration(text, path);
}

}  // namespace rdmabroker
