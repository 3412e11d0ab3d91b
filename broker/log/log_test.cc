// SPDX-License-Identifier: Apache-2.0

#include "broker/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace rdmabroker {
namespace {

using ::testing::MatchesRegex;

// Stands in for stderr while it lives.
class Stderr {
 public:
  Stderr() : before_(::dup(STDERR_FILENO)), file_(::memfd_create("stderr", MFD_CLOEXEC)) {
    ::dup2(file_, STDERR_FILENO);
  }
  ~Stderr() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(file_);
    ::unsetenv("JOURNAL_STREAM");
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;

  void BecomeJournal() {
    struct stat file = {};
    ::fstat(file_, &file);
    ::setenv("JOURNAL_STREAM", (std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino)).c_str(), 1);
  }

  std::string Written() const {
    std::string text(4096, '\0');
    const ssize_t size = ::pread(file_, text.data(), text.size(), 0);
    text.resize(size > 0 ? size : 0);
    return text;
  }

 private:
  const int before_;
  const int file_;
};

constexpr char kTime[] = "\\[[0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+\\.[0-9]+\\]";

TEST(Log, ATextLineHasTimeProgramLevelEventAndFields) {
  const Stderr written;
  StartLogging("a-program", LogFormat::kText, LogLevel::kInfo);
  LogInfo("session opened", {{"session", 7}, {"cause", "a {} of %v\n"}});
  EXPECT_THAT(written.Written(), MatchesRegex(std::string(kTime) + " \\[a-program\\] \\[info\\] session opened " +
                                              R"(session=7 cause="a \{\} of %v\\n")" + "\n"));
}

TEST(Log, AJsonLineIsOneObjectWithTheTimeInUtc) {
  const Stderr written;
  StartLogging("a-program", LogFormat::kJson, LogLevel::kInfo);
  LogWarning("session refused", {{"session", 7}, {"cause", "a {} of %v\n"}});
  EXPECT_THAT(written.Written(),
              MatchesRegex("\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z\","
                           "\"level\":\"warning\",\"program\":\"a-program\",\"event\":\"session refused\","
                           "\"session\":7,\"cause\":\"a \\{\\} of %v\\\\u000a\"\\}\n"));
}

TEST(Log, ALevelLogsItselfAndWhatIsWorse) {
  const struct {
    LogLevel level;
    std::string logged;
  } rows[] = {{LogLevel::kTrace, "dbg inf wrn err"},
              {LogLevel::kDebug, "dbg inf wrn err"},
              {LogLevel::kInfo, "inf wrn err"},
              {LogLevel::kWarning, "wrn err"},
              {LogLevel::kError, "err"}};
  StartLogging("a-program", LogFormat::kText, LogLevel::kInfo);
  for (const auto& row : rows) {
    const Stderr written;
    SetLogLevel(row.level);
    EXPECT_EQ(CurrentLogLevel(), row.level);
    LogDebug("dbg");
    LogInfo("inf");
    LogWarning("wrn");
    LogError("err");
    std::string logged;
    for (const std::string name : {"dbg", "inf", "wrn", "err"}) {
      if (written.Written().find(name + "\n") != std::string::npos) logged += (logged.empty() ? "" : " ") + name;
    }
    EXPECT_EQ(logged, row.logged);
  }
}

TEST(Log, SomeLinesNoLevelLeavesOut) {
  const Stderr written;
  StartLogging("a-program", LogFormat::kText, LogLevel::kInfo);
  SetLogLevel(LogLevel::kError);
  LogInfo("left out");
  LogInfoAlways("inf");
  LogWarningAlways("wrn");
  EXPECT_THAT(written.Written(), MatchesRegex(std::string(kTime) + " \\[a-program\\] \\[info\\] inf\n" + kTime +
                                              " \\[a-program\\] \\[warning\\] wrn\n"));
}

TEST(Log, LevelsAndFormatsHaveTheNamesThatPeopleGiveThem) {
  EXPECT_EQ(LogLevelNamed("trace"), LogLevel::kTrace);
  EXPECT_EQ(LogLevelNamed("debug"), LogLevel::kDebug);
  EXPECT_EQ(LogLevelNamed("info"), LogLevel::kInfo);
  EXPECT_EQ(LogLevelNamed("warning"), LogLevel::kWarning);
  EXPECT_EQ(LogLevelNamed("error"), LogLevel::kError);
  EXPECT_EQ(LogFormatNamed("text"), LogFormat::kText);
  EXPECT_EQ(LogFormatNamed("json"), LogFormat::kJson);
  for (const char* name : {"", "Info", "warn", "info ", "off"}) EXPECT_EQ(LogLevelNamed(name), std::nullopt) << name;
  for (const char* name : {"", "JSON", "yaml"}) EXPECT_EQ(LogFormatNamed(name), std::nullopt) << name;
}

TEST(Log, ALineForTheJournalBearsItsPriority) {
  const struct {
    void (*log)(absl::string_view, LogFields);
    std::string priority;
  } rows[] = {{LogDebug, "<7>"}, {LogInfo, "<6>"}, {LogWarning, "<4>"}, {LogError, "<3>"}};
  for (const auto& row : rows) {
    Stderr written;
    written.BecomeJournal();
    StartLogging("a-program", LogFormat::kText, LogLevel::kTrace);
    row.log("done", {});
    EXPECT_THAT(written.Written(), MatchesRegex(row.priority + kTime + " .*done\n"));
  }
}

TEST(Log, AJournalThatStderrIsNotConnectedToChangesNothing) {
  const Stderr written;
  ::setenv("JOURNAL_STREAM", "1:2", 1);
  StartLogging("a-program", LogFormat::kText, LogLevel::kInfo);
  LogInfo("done");
  EXPECT_THAT(written.Written(), MatchesRegex(std::string(kTime) + " .*done\n"));
}

TEST(Log, TheFormatMayChangeWhileTheProgramRuns) {
  const Stderr written;
  StartLogging("a-program", LogFormat::kJson, LogLevel::kInfo);
  SetLogFormat(LogFormat::kText);
  LogInfo("event", {{"field", 7}});
  SetLogFormat(LogFormat::kJson);
  LogInfo("event", {{"field", 8}});
  EXPECT_THAT(
      written.Written(),
      MatchesRegex(std::string(kTime) + " \\[a-program\\] \\[info\\] event field=7\n\\{\"time\":.*\"field\":8\\}\n"));
}

TEST(Log, JsonForTheJournalStaysJson) {
  Stderr written;
  written.BecomeJournal();
  StartLogging("a-program", LogFormat::kJson, LogLevel::kInfo);
  LogInfo("done");
  EXPECT_THAT(written.Written(), MatchesRegex("\\{\"time\".*\"event\":\"done\"\\}\n"));
}

TEST(Log, LinesAreCountedByTheirLevelIfTheyAreLogged) {
  const Stderr written;
  StartLogging("a-program", LogFormat::kText, LogLevel::kWarning);
  const uint64_t infos = LinesLogged(LogLevel::kInfo);
  const uint64_t warnings = LinesLogged(LogLevel::kWarning);
  const uint64_t errors = LinesLogged(LogLevel::kError);
  LogInfo("left out");
  LogWarning("bad");
  LogWarning("bad again");
  LogError("worse");
  EXPECT_EQ(LinesLogged(LogLevel::kInfo) - infos, 0u);
  EXPECT_EQ(LinesLogged(LogLevel::kWarning) - warnings, 2u);
  EXPECT_EQ(LinesLogged(LogLevel::kError) - errors, 1u);
}

}  // namespace
}  // namespace rdmabroker
