// SPDX-License-Identifier: Apache-2.0

#include "tests/keeper/kept_program.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace rdmabroker {
namespace {

std::vector<std::string> CommandOf(std::vector<std::string> options, std::vector<std::string> before) {
  std::vector<std::string> command = std::move(before);
  command.emplace_back(KeptProgram::kKeeper);
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", KeptProgram::kSupervised, "[::1]", "--watchdog", "--"});
  return command;
}

}  // namespace

KeptProgram::KeptProgram(std::vector<std::string> options, std::vector<std::string> before)
    : process_(CommandOf(std::move(options), std::move(before)), ChildProcess::Errors::kToItsOutput) {}

KeptProgram::KeptProgram(Unsupervised) : process_({kSupervised}, ChildProcess::Errors::kToItsOutput) {}

bool KeptProgram::Read() {
  std::string line = process_.ReadLine();
  if (line.empty()) return false;
  absl::string_view answer = line;
  if (absl::ConsumePrefix(&answer, "child: ")) {
    answers_.emplace_back(answer);
  } else {
    log_.push_back(std::move(line));
  }
  return true;
}

std::optional<std::string> KeptProgram::NextAnswer() {
  while (answers_.empty()) {
    if (!Read()) return std::nullopt;
  }
  std::string answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

std::optional<pid_t> KeptProgram::NextChild() {
  const std::optional<std::string> line = NextAnswer();
  if (!line) return std::nullopt;
  absl::string_view number = *line;
  pid_t pid = -1;
  EXPECT_TRUE(absl::ConsumePrefix(&number, "started ") && absl::SimpleAtoi(number, &pid)) << *line;
  return pid;
}

std::string KeptProgram::Ask(const std::string& order) {
  Tell(order);
  const std::optional<std::string> answer = NextAnswer();
  EXPECT_TRUE(answer) << "no answer to " << order;
  return answer.value_or("");
}

std::string KeptProgram::NextLogged(const std::string& text) {
  do {
    while (searched_ < log_.size()) {
      const std::string& line = log_[searched_++];
      if (absl::StrContains(line, text)) return line;
    }
  } while (Read());
  return "";
}

}  // namespace rdmabroker
