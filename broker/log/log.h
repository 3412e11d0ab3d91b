// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_LOG_LOG_H_
#define BROKER_LOG_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "broker/log/log_field.h"

namespace rdmabroker {

// From the least to the worst. What is logged is a level and all that are worse.
enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarning, kError };

enum class LogFormat : uint8_t {
  kText,  // For people: time, program, level, event, and the fields as name=value.
  kJson,  // For programs: an object a line, of the same, with the time in UTC.
};

// The names that people give them, in their order.
inline constexpr std::array<absl::string_view, 5> kLogLevelNames = {"trace", "debug", "info", "warning", "error"};
inline constexpr std::array<absl::string_view, 2> kLogFormatNames = {"text", "json"};
static_assert(kLogLevelNames.size() == static_cast<size_t>(LogLevel::kError) + 1);
static_assert(kLogFormatNames.size() == static_cast<size_t>(LogFormat::kJson) + 1);

// Nothing for another name.
std::optional<LogLevel> LogLevelNamed(absl::string_view name);
std::optional<LogFormat> LogFormatNamed(absl::string_view name);
inline absl::string_view NameOf(LogLevel level) { return kLogLevelNames[static_cast<size_t>(level)]; }

// Logs to stderr from now on, as what and from which level on. Before it, the level is info and the format text. Under
// systemd text lines bear their priority, so that journalctl can tell warnings. Once, before there are threads.
void StartLogging(const std::string& program, LogFormat format, LogLevel level);

// Any thread, at any time. A line that is being written may still have the former format.
void SetLogLevel(LogLevel level);
void SetLogFormat(LogFormat format);
LogLevel CurrentLogLevel();
// How many lines of exactly this level the process has logged, for whoever shows it.
uint64_t LinesLogged(LogLevel level);

// One event, any thread. The event is a lower-case literal without values, which docs/operating.md lists with its
// level; its values are fields. Whoever makes fields at some cost asks CurrentLogLevel first.
void LogDebug(absl::string_view event, LogFields fields = {});
void LogInfo(absl::string_view event, LogFields fields = {});
void LogWarning(absl::string_view event, LogFields fields = {});
void LogError(absl::string_view event, LogFields fields = {});
// The same whatever the level: of what nobody is to do unseen.
void LogInfoAlways(absl::string_view event, LogFields fields = {});
void LogWarningAlways(absl::string_view event, LogFields fields = {});

}  // namespace rdmabroker

#endif  // BROKER_LOG_LOG_H_
