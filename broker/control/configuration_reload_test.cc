// SPDX-License-Identifier: Apache-2.0

#include "broker/control/configuration_reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "broker/runtime/loop_for_test.h"
#include "tests/captured_log.h"
#include "tests/control/hanging_file.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

class ConfigurationReloadTest : public testing::Test {
 protected:
  // Not every machine has the group that the sockets have by default.
  static Configuration AtFirst() {
    Configuration configuration;
    configuration.socket_group = "";
    return configuration;
  }
  // A text with [control] says itself which group the sockets have.
  void Write(const std::string& text) {
    const bool has_control = text.find("[control]") != std::string::npos;
    std::ofstream(path_) << text << (has_control ? "" : "[control]\nsocket_group = \"\"\n");
  }
  std::unique_ptr<ConfigurationReload> Make(const std::string& path) {
    return std::make_unique<ConfigurationReload>(path, AtFirst(), loop_,
                                                 [this](const LoadedConfiguration&, const Configuration& in_use) {
                                                   ++applied_;
                                                   in_use_ = in_use;
                                                   if (least_answers_) in_use_.limits.answers_kept = *least_answers_;
                                                   return in_use_;
                                                 });
  }
  // Asks, and waits for what comes of it.
  absl::StatusOr<ChangedKeys> Reload(ConfigurationReload& reload) {
    std::optional<absl::StatusOr<ChangedKeys>> result;
    reload.Ask([&](const absl::StatusOr<ChangedKeys>& changed) { result = changed; });
    EXPECT_TRUE(RunUntil(loop_, [&] { return result.has_value(); }));
    return *result;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/broker.toml";
  Loop loop_;
  Configuration in_use_;
  int applied_ = 0;
  std::optional<uint32_t> least_answers_;
};

TEST_F(ConfigurationReloadTest, NamesWhatIsAppliedAndWhatNeedsARestart) {
  const auto reload = Make(path_);
  Write(
      "[control]\nsocket_group = \"\"\npatience_ms = 5\nsocket_mode = 0o600\n[limits]\nbacklog = 7\n[iwarp]\ncrc = "
      "false\n");
  const auto changed = Reload(*reload);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->applied, ElementsAre("control.patience_ms", "limits.backlog"));
  EXPECT_THAT(changed->needs_restart, ElementsAre("control.socket_mode", "iwarp.crc"));
  EXPECT_EQ(in_use_.limits.backlog, 7u);
  EXPECT_EQ(in_use_.socket_mode, Configuration().socket_mode);
  const auto again = Reload(*reload);
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(again->applied, IsEmpty());
  EXPECT_THAT(again->needs_restart, ElementsAre("control.socket_mode", "iwarp.crc")) << "they still do";
  Write("");
  EXPECT_THAT(Reload(*reload)->applied, ElementsAre("control.patience_ms", "limits.backlog"))
      << "a key that has gone has its default";
}

TEST_F(ConfigurationReloadTest, APolicyIsAppliedAsOneKeyWhateverOfItHasChanged) {
  const auto reload = Make(path_);
  const auto expect_applied = [&](const char* text) {
    SCOPED_TRACE(text);
    Write(text);
    const auto changed = Reload(*reload);
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_THAT(changed->applied, ElementsAre("policy"));
    EXPECT_THAT(changed->needs_restart, IsEmpty());
    EXPECT_THAT(Reload(*reload)->applied, IsEmpty()) << "it is in use";
  };
  expect_applied("[policy]\ndefault = \"deny\"\n");
  EXPECT_FALSE(in_use_.policy.allow_by_default);
  expect_applied("[policy]\ndefault = \"deny\"\naudit = \"none\"\n");
  EXPECT_EQ(in_use_.audit, AuditLevel::kNone);
  expect_applied("[policy]\naudit = \"none\"\n[[policy.rules]]\nname = \"a\"\nallow = true\nuids = [1]\n");
  EXPECT_EQ(in_use_.policy.rules.size(), 1u);
  expect_applied("");
  EXPECT_EQ(in_use_, AtFirst());
}

struct BadFile {
  const char* text;
  const char* complaint;  // After the file's name.
};

TEST_F(ConfigurationReloadTest, AFileThatIsBadInAnyWayChangesNothing) {
  const auto reload = Make(path_);
  const BadFile rows[] = {
      {"[limits]\nbacklog = 7\nbacklogs = 7\n", ":3: limits.backlogs: unknown key"},
      {"[limits]\nbacklog = 7\nevents_kept = 1\n", ":3: limits.events_kept: 1 is not from 16"},
      {"[limits]\nbacklog = 7\n[log\n", ":3: "},
      {"[limits]\nbacklog = 7\n[tcp]\naddress = \"127.0.0.1:0\"\n", ":4: tcp.certificate: missing"},
      {"[limits]\nbacklog = 7\nfirst_ephemeral_port = 2\nlast_ephemeral_port = 1\n", ":3: limits.first_ephemeral_port"},
      {"[limits]\nbacklog = 7\n[policy]\nrule = 1\n", ":4: policy.rule: unknown key"},
      {"[limits]\nbacklog = 7\n[[policy.rules]]\nallow = true\n", ":3: policy.rules.name: missing"},
  };
  for (const BadFile& row : rows) {
    SCOPED_TRACE(row.text);
    Write(row.text);
    CapturedLog log;
    const auto changed = Reload(*reload);
    EXPECT_EQ(changed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(changed.status().message()), StartsWith(path_ + row.complaint));
    EXPECT_EQ(log.LinesWith("configuration not applied").size(), 1u);
  }
  Write("[limits]\nbacklog = 7\n[control]\nsocket_group = \"\"\nadministrators_group = \"no such group\"\n");
  EXPECT_THAT(std::string(Reload(*reload).status().message()),
              StartsWith("control.administrators_group: there is no group \"no such group\""));
  Write(
      "[limits]\nbacklog = 7\n[tcp]\naddress = \"127.0.0.1:0\"\ncertificate = \"/nowhere/c\"\n"
      "private_key = \"/nowhere/k\"\nclient_authorities = \"/nowhere/a\"\n");
  EXPECT_THAT(std::string(Reload(*reload).status().message()),
              StartsWith("tcp.certificate: /nowhere/c: cannot be read: No such file"));
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_THAT(std::string(Reload(*reload).status().message()), StartsWith(path_ + ": cannot be read: No such file"));
  EXPECT_EQ(applied_, 0);
  Write("[limits]\nbacklog = 7\n");
  EXPECT_THAT(Reload(*reload)->applied, ElementsAre("limits.backlog"));
}

// The next process could not make its sockets by it.
TEST_F(ConfigurationReloadTest, ASocketGroupThatDoesNotExistIsBad) {
  const auto reload = Make(path_);
  Write("[limits]\nbacklog = 7\n[control]\nsocket_group = \"no such group\"\n");
  EXPECT_THAT(std::string(Reload(*reload).status().message()),
              StartsWith("control.socket_group: there is no group \"no such group\""));
  EXPECT_EQ(applied_, 0);
}

TEST(LoadConfiguration, FindsTheNumbersOfNames) {
  const auto loaded = LoadConfiguration(
      "[control]\nsocket_group = \"root\"\n"
      "[[policy.rules]]\nname = \"a\"\nallow = true\nuids = [\"root\", 7]\n",
      "broker.toml");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->socket_group, 0u);
  EXPECT_EQ(loaded->administrators_group, std::nullopt);
  EXPECT_EQ(loaded->numbers, (AccountNumbers{.users = {{"root", 0}}, .groups = {{"root", 0}}}));
}

// As where somebody has been removed since, or where the name is another's.
TEST(LoadConfiguration, LooksUpNoNameThatIsKnown) {
  const AccountNumbers known = {.users = {{"nobody has this name", 1}, {"root", 2}}, .groups = {{"nor this", 3}}};
  const auto loaded = LoadConfiguration(
      "[control]\nsocket_group = \"nor this\"\nadministrators_group = \"nor this\"\n"
      "[[policy.rules]]\nname = \"a\"\nallow = true\nuids = [\"nobody has this name\", \"root\"]\n"
      "gids = [\"nor this\"]\n",
      "broker.toml", known);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->configuration.policy.rules[0].uids, ElementsAre(1u, 2u));
  EXPECT_THAT(loaded->configuration.policy.rules[0].gids, ElementsAre(3u));
  EXPECT_EQ(loaded->socket_group, 3u);
  EXPECT_EQ(loaded->administrators_group, 3u);
  EXPECT_EQ(loaded->numbers, known) << "for the process after the next";
}

TEST_F(ConfigurationReloadTest, AFileWithoutEndIsRefused) {
  Write(std::string(kMaxConfigurationBytes, '\n'));
  EXPECT_THAT(std::string(Reload(*Make(path_)).status().message()), StartsWith(path_ + ": is longer than "));
}

TEST_F(ConfigurationReloadTest, WhatIsNotHadAtOnceAfterAllNeedsARestart) {
  const auto reload = Make(path_);
  least_answers_ = Limits().answers_kept;
  Write("[limits]\nanswers_kept = 1\nbacklog = 7\n");
  const auto changed = Reload(*reload);
  ASSERT_TRUE(changed.ok());
  EXPECT_THAT(changed->applied, ElementsAre("limits.backlog"));
  EXPECT_THAT(changed->needs_restart, ElementsAre("limits.answers_kept"));
}

TEST_F(ConfigurationReloadTest, WithoutAFileThereIsNothingToRead) {
  CapturedLog log;
  EXPECT_EQ(Reload(*Make("")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(applied_, 0);
  // Who sends SIGHUP gets no other answer.
  EXPECT_EQ(log.LinesWith("configuration not applied").size(), 1u);
}

class AFileThatHangs : public ConfigurationReloadTest {
 protected:
  AFileThatHangs() {
    Write("[limits]\nbacklog = 7\n");
    file_ = std::make_unique<HangingFile>(path_);
  }

  void Ask() {
    reload_->Ask([this](const absl::StatusOr<ChangedKeys>& changed) { results_.push_back(changed); });
  }

  std::unique_ptr<HangingFile> file_;
  const std::unique_ptr<ConfigurationReload> reload_ = Make(path_);
  std::vector<absl::StatusOr<ChangedKeys>> results_;
};

TEST_F(AFileThatHangs, HoldsAllButReloadsUpAndThoseAreBounded) {
  for (size_t i = 0; i <= ConfigurationReload::kMostWaiting; ++i) Ask();
  EXPECT_THAT(results_, IsEmpty()) << "one is under way, and others wait";
  CapturedLog log;
  Ask();
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_EQ(log.LinesWith("configuration not applied").size(), 1u);
  EXPECT_EQ(results_.front().status().code(), absl::StatusCode::kResourceExhausted);
  reload_->Stop();
  EXPECT_EQ(results_.size(), ConfigurationReload::kMostWaiting + 2);
  EXPECT_EQ(results_.back().status().code(), absl::StatusCode::kUnavailable);
  Ask();
  EXPECT_EQ(results_.back().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AFileThatHangs, IsReadOnceMoreForAllWhoAskedMeanwhile) {
  for (int i = 0; i < 3; ++i) Ask();
  file_.reset();
  ASSERT_TRUE(RunUntil(loop_, [&] { return results_.size() == 3; }));
  EXPECT_THAT(results_[0]->applied, ElementsAre("limits.backlog"));
  EXPECT_THAT(results_[1]->applied, IsEmpty()) << "it has not changed since the first read";
  EXPECT_THAT(results_[2]->applied, IsEmpty());
  EXPECT_EQ(applied_, 2);
}

}  // namespace
}  // namespace rdmabroker
