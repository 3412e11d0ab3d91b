// SPDX-License-Identifier: Apache-2.0

#include "broker/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/log/log_line.h"

namespace rdmabroker {
namespace {

std::atomic<LogLevel> current_level = LogLevel::kInfo;
std::atomic<LogFormat> current_format = LogFormat::kText;
std::array<std::atomic<uint64_t>, static_cast<size_t>(LogLevel::kError) + 1> lines_logged = {};  // By level.

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// A line's priority as sd-daemon(3) has it, which journald takes off the line.
class Priority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&, spdlog::memory_buf_t& out) override {
    const absl::string_view priority = line.level >= spdlog::level::err    ? "<3>"
                                       : line.level == spdlog::level::warn ? "<4>"
                                       : line.level == spdlog::level::info ? "<6>"
                                                                           : "<7>";
    out.append(priority.data(), priority.data() + priority.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Priority>(); }
};

// systemd.exec(5): the variable names the file that stdout and stderr were connected to; they may have been redirected.
bool StderrIsJournal() {
  const char* const journal = std::getenv("JOURNAL_STREAM");
  struct stat file = {};
  return journal != nullptr && ::fstat(STDERR_FILENO, &file) == 0 &&
         absl::StrCat(file.st_dev, ":", file.st_ino) == journal;
}

std::unique_ptr<spdlog::formatter> FormatterOf(const std::string& program, LogFormat format) {
  if (format == LogFormat::kJson) {
    return std::make_unique<spdlog::pattern_formatter>(
        absl::StrCat(R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l","program":")", program, R"(",%v})"),
        spdlog::pattern_time_type::utc);
  }
  auto text = std::make_unique<spdlog::pattern_formatter>();
  text->add_flag<Priority>('*');
  text->set_pattern(absl::StrCat(StderrIsJournal() ? "%*" : "", "[%Y-%m-%d %H:%M:%S.%e] [", program, "] [%l] %v"));
  return text;
}

void LogAlways(LogLevel level, absl::string_view event, LogFields fields) {
  const std::string line = current_format.load(std::memory_order_relaxed) == LogFormat::kJson
                               ? JsonMembersOf(event, fields)
                               : TextOf(event, fields);
  lines_logged[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  spdlog::default_logger_raw()->log(ToSpdlog(level), spdlog::string_view_t(line));
}

void Log(LogLevel level, absl::string_view event, LogFields fields) {
  if (level >= CurrentLogLevel()) LogAlways(level, event, fields);
}

template <typename Value, size_t kValues>
std::optional<Value> Named(absl::string_view name, const std::array<absl::string_view, kValues>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Value>(found - names.begin());
}

}  // namespace

std::optional<LogLevel> LogLevelNamed(absl::string_view name) { return Named<LogLevel>(name, kLogLevelNames); }
std::optional<LogFormat> LogFormatNamed(absl::string_view name) { return Named<LogFormat>(name, kLogFormatNames); }

void StartLogging(const std::string& program, LogFormat format, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(FormatterOf(program, format));
  spdlog::set_default_logger(std::move(logger));
  current_format.store(format, std::memory_order_relaxed);
  SetLogLevel(level);
}

void SetLogLevel(LogLevel level) {
  current_level.store(level, std::memory_order_relaxed);
  // What is logged always is info or worse.
  spdlog::set_level(ToSpdlog(std::min(level, LogLevel::kInfo)));
}

void SetLogFormat(LogFormat format) {
  const std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
  // Each sink takes it under its own lock.
  logger->set_formatter(FormatterOf(logger->name(), format));
  current_format.store(format, std::memory_order_relaxed);
}

LogLevel CurrentLogLevel() { return current_level.load(std::memory_order_relaxed); }

uint64_t LinesLogged(LogLevel level) {
  return lines_logged[static_cast<size_t>(level)].load(std::memory_order_relaxed);
}

void LogDebug(absl::string_view event, LogFields fields) { Log(LogLevel::kDebug, event, fields); }
void LogInfo(absl::string_view event, LogFields fields) { Log(LogLevel::kInfo, event, fields); }
void LogWarning(absl::string_view event, LogFields fields) { Log(LogLevel::kWarning, event, fields); }
void LogError(absl::string_view event, LogFields fields) { Log(LogLevel::kError, event, fields); }
void LogInfoAlways(absl::string_view event, LogFields fields) { LogAlways(LogLevel::kInfo, event, fields); }
void LogWarningAlways(absl::string_view event, LogFields fields) { LogAlways(LogLevel::kWarning, event, fields); }

}  // namespace rdmabroker
