// SPDX-License-Identifier: Apache-2.0

#include "tests/control/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <utility>

namespace rdmabroker {

namespace {

int ExitStatus(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, Errors errors) {
  // To write to a program that has ended fails the test and does not end its process. What is handled, other than what
  // is ignored, is back to its default in the program.
  ::signal(SIGPIPE, [](int) {});
  int input[2] = {-1, -1};
  int output[2] = {-1, -1};
  EXPECT_EQ(::pipe2(input, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(output, O_CLOEXEC), 0);
  input_.Reset(input[1]);
  output_.Reset(output[0]);
  const UniqueFd childs_input(input[0]);
  const UniqueFd childs_output(output[1]);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, childs_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, childs_output.get(), STDOUT_FILENO);
  if (errors == Errors::kToItsOutput) {
    ::posix_spawn_file_actions_adddup2(&actions, childs_output.get(), STDERR_FILENO);
  }
  EXPECT_EQ(::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ), 0) << command[0];
  ::posix_spawn_file_actions_destroy(&actions);
}

bool ChildProcess::ReadByte(char* byte, absl::Duration patience) {
  pollfd ready = {output_.get(), POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) == 1 &&
         ::read(output_.get(), byte, 1) == 1;
}

std::string ChildProcess::ReadLine(absl::Duration patience) {
  std::string line;
  for (char byte = 0; ReadByte(&byte, patience) && byte != '\n';) line += byte;
  return line;
}

void ChildProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::string ChildProcess::ReadAll() {
  std::string text;
  for (char byte = 0; ReadByte(&byte);) text += byte;
  return text;
}

void ChildProcess::Signal(int signal) { EXPECT_EQ(::kill(pid_, signal), 0); }

void ChildProcess::StartKill() { Signal(SIGKILL); }

void ChildProcess::Kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  Finish();
}

int ChildProcess::Finish() {
  input_.Reset();
  int status = 0;
  EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) < 0, false);
  return ExitStatus(status);
}

std::optional<int> ChildProcess::End(absl::Duration patience) {
  int status = 0;
  const pid_t pid = pid_;
  if (!Becomes([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, patience)) return std::nullopt;
  pid_ = -1;
  return ExitStatus(status);
}

Ending RunToEnd(std::vector<std::string> command, const std::string& error_file) {
  command.insert(command.begin(), {"sh", "-c", "exec 2>\"$0\" \"$@\"", error_file});
  ChildProcess process(std::move(command));
  Ending ending;
  ending.output = process.ReadAll();
  ending.status = process.Finish();
  std::ifstream errors(error_file);
  ending.error.assign(std::istreambuf_iterator<char>(errors), {});
  return ending;
}

}  // namespace rdmabroker
