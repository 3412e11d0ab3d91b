// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/kept_broker.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

constexpr char kKeeper[] = "broker/keeper/rdma-broker-keeper";

// -1 for none.
pid_t ChildOf(pid_t parent) {
  pid_t child = -1;
  std::ifstream(absl::StrCat("/proc/", parent, "/task/", parent, "/children")) >> child;
  return child;
}

std::vector<std::string> Command(const std::vector<std::string>& daemon, const std::string& log) {
  // What a sanitizer maps fits under no bound.
  std::vector<std::string> command = {kKeeper, "--memory", "none", "--"};
  command.insert(command.end(), daemon.begin(), daemon.end());
  if (log.empty()) return command;
  command.insert(command.begin(), {"sh", "-c", absl::StrCat("exec \"$0\" \"$@\" 2>>'", log, "'")});
  return command;
}

// Of the configurations that the process has open, as the keeper has those that it keeps, the texts.
std::vector<std::string> ConfigurationsOf(pid_t pid) {
  std::vector<std::string> texts;
  std::error_code gone;  // What goes meanwhile is not missed.
  for (std::filesystem::directory_iterator at(absl::StrCat("/proc/", pid, "/fd"), gone), end; !gone && at != end;
       at.increment(gone)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(at->path(), closed);
    if (closed || !absl::StrContains(target, "memfd:configuration")) continue;
    std::ifstream file(at->path());
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

}  // namespace

KeptBroker::KeptBroker(const std::string& settings, const std::vector<std::string>& daemon, const std::string& log)
    : RunningBroker(settings, Command(daemon, log)), log_(log) {}

pid_t KeptBroker::Daemon() {
  pid_t daemon = -1;
  EXPECT_TRUE(Becomes([&] { return (daemon = ChildOf(pid())) > 0; })) << "the keeper starts no daemon";
  return daemon;
}

void KeptBroker::KillDaemon() {
  const pid_t former = Daemon();
  Kill(former);
  AwaitAnother(former);
}

// It may have ended meanwhile.
void KeptBroker::Kill(pid_t daemon) {
  ASSERT_GT(daemon, 0) << "which would be every process";
  ASSERT_TRUE(::kill(daemon, SIGKILL) == 0 || errno == ESRCH);
}

void KeptBroker::KillDaemonAnd(const std::function<void()>& meanwhile) {
  const pid_t former = Daemon();
  ASSERT_EQ(::kill(pid(), SIGSTOP), 0) << "the keeper would start another one";
  Kill(former);
  meanwhile();
  ASSERT_EQ(::kill(pid(), SIGCONT), 0);
  AwaitAnother(former);
}

void KeptBroker::AwaitAnother(pid_t former) {
  EXPECT_TRUE(Becomes([&] {
    const pid_t daemon = ChildOf(pid());
    return daemon > 0 && daemon != former;
  })) << "the keeper starts no other daemon";
}

// The daemon gives it a configuration that has changed, takes the former one back, and tells it all in order.
void KeptBroker::AwaitKeeper() {
  const std::string mark = absl::StrCat("# ", ++marks_, "\n");
  std::ofstream(folder() + "/broker.toml", std::ios::app) << mark;
  ASSERT_EQ(::kill(Daemon(), SIGHUP), 0);
  EXPECT_TRUE(Becomes([&] {
    const std::vector<std::string> kept = ConfigurationsOf(pid());
    return kept.size() == 1 && absl::EndsWith(kept.front(), mark);
  })) << "the keeper does not get the configuration";
}

std::string KeptBroker::Log() const {
  std::ifstream log(log_);
  return {std::istreambuf_iterator<char>(log), {}};
}

bool KeptBroker::IsReady() { return absl::StrContains(Log(), absl::StrCat("child ready pid=", Daemon(), "\n")); }

absl::Duration KeptBroker::LastWait() const {
  const std::string log = Log();
  constexpr std::string_view kWait = "in_ms=";
  const size_t at = log.rfind(kWait);
  EXPECT_NE(at, std::string::npos) << "no daemon was started again";
  return at == std::string::npos ? absl::ZeroDuration() : absl::Milliseconds(std::atoi(&log[at + kWait.size()]));
}

std::vector<std::string> KeptBroker::Objects() {
  std::vector<std::string> objects = RunningBroker::Objects();
  if (!leaves_out_strays_) return objects;
  // A session's text has those numbers only that are not 0.
  std::erase_if(objects, [](const std::string& object) {
    return object.rfind("session", 0) == 0 && object.find("SESSION_STATE_AWAY") != std::string::npos &&
           object.find("adapters:") == std::string::npos;
  });
  return objects;
}

}  // namespace rdmabroker
