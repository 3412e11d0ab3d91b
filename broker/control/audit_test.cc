// SPDX-License-Identifier: Apache-2.0

#include "broker/control/audit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "broker/control/audit_fields.h"
#include "broker/log/log.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

AuditEntry Connecting(const Caller& caller) {
  return {.action = "Connect",
          .caller = &caller,
          .session = SessionId(7),
          .request = RequestId(3),
          .use = {.adapter = "nic0",
                  .local_ports = PortRange{5, 9},
                  .destination = IpAddress{.bytes = {10, 0, 0, 9}},
                  .destination_port = 80},
          .rule = "tenants"};
}

std::string TextOf(const std::vector<LogField>& fields) {
  std::string text;
  for (const LogField& field : fields) {
    text += std::string(field.name) + "=";
    if (const auto* word = std::get_if<std::string>(&field.value)) text += *word;
    if (const auto* number = std::get_if<int64_t>(&field.value)) text += std::to_string(*number);
    if (const auto* number = std::get_if<uint64_t>(&field.value)) text += std::to_string(*number);
    text += " ";
  }
  return text;
}

TEST(AuditFields, AreWhatTheEntryHas) {
  const Caller local{.identity = {1000, 20, 99}};
  EXPECT_EQ(TextOf(AuditFields(true, Connecting(local))),
            "decision=allowed action=Connect rule=tenants session=7 request=3 uid=1000 gid=20 pid=99 adapter=nic0 "
            "local_port=5-9 destination=10.0.0.9:80 ");
  const Caller remote{.spiffe_id = "spiffe://a/b"};
  EXPECT_EQ(TextOf(AuditFields(false, {.action = "EndSession", .caller = &remote, .rule = "administrators"})),
            "decision=refused action=EndSession rule=administrators spiffe_id=spiffe://a/b ");
  AuditEntry accepting{.action = "Accept", .use = {.local_ports = PortRange{5, 5}}, .rule = "a", .quota = "connectors"};
  accepting.use.destination = IpAddress{.bytes = {10, 0, 0, 9}};
  EXPECT_EQ(TextOf(AuditFields(false, accepting)),
            "decision=refused action=Accept rule=a quota=connectors local_port=5 peer=10.0.0.9 ");
}

class AuditTest : public testing::Test {
 protected:
  size_t Lines(const std::string& with) { return log_.LinesWith(with).size(); }

  CapturedLog log_;
  const Caller caller_{.identity = {1000, 20, 99}};
  const Caller other_{.identity = {1001, 20, 99}};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(AuditTest, ALevelSaysWhichDecisionsAreLogged) {
  const struct {
    AuditLevel level;
    size_t allowed;
    size_t refused;
  } rows[] = {{AuditLevel::kNone, 0, 0}, {AuditLevel::kRefused, 0, 1}, {AuditLevel::kAll, 1, 1}};
  for (const auto& row : rows) {
    CapturedLog log;
    Audit audit(row.level);
    audit.Decided(true, Connecting(caller_), now_);
    audit.Decided(false, Connecting(caller_), now_);
    EXPECT_EQ(log.LinesWith("decision=allowed").size(), row.allowed);
    EXPECT_EQ(log.LinesWith("decision=refused").size(), row.refused);
  }
}

TEST_F(AuditTest, DecisionsAreBoundedForEachUserAndCounted) {
  Audit audit(AuditLevel::kAll);
  for (int i = 0; i < Audit::kMostAllowed + 50; ++i) audit.Decided(true, Connecting(caller_), now_);
  EXPECT_EQ(Lines("decision=allowed"), size_t{Audit::kMostAllowed});
  for (int i = 0; i < Audit::kMostRefused + 99; ++i) audit.Decided(false, Connecting(caller_), now_);
  EXPECT_EQ(Lines("decision=refused"), size_t{Audit::kMostRefused}) << "what was allowed hides none of them";
  EXPECT_EQ(Lines("left_out=0"), size_t{Audit::kMostAllowed + Audit::kMostRefused});
  audit.Decided(false, Connecting(other_), now_);
  EXPECT_EQ(Lines("uid=1001"), 1u) << "one user hides no other";
  now_ += absl::Seconds(1);
  for (int i = 0; i < 2; ++i) audit.Decided(false, Connecting(caller_), now_);
  EXPECT_EQ(Lines("left_out=99"), 1u);
  for (int i = 0; i < 20; ++i) audit.Decided(true, Connecting(caller_), now_);
  EXPECT_EQ(Lines("left_out=50"), 1u);
  EXPECT_EQ(Lines("decision=refused"), size_t{Audit::kMostRefused + 2});
  EXPECT_EQ(Lines("decision=allowed"), size_t{Audit::kMostAllowed + 10});
}

TEST_F(AuditTest, WhoHasNotRestedIsBoundedHoweverManyOthersThereAre) {
  Audit audit(AuditLevel::kRefused);
  for (int i = 0; i < Audit::kMostRefused; ++i) audit.Decided(false, Connecting(caller_), now_);
  now_ += absl::Seconds(1);
  for (uint32_t uid = 2000; uid < 6000; ++uid) {
    const Caller one_of_many{.identity = {uid, 20, 99}};
    audit.Decided(false, Connecting(one_of_many), now_);
  }
  const size_t before = Lines("uid=1000 ");
  for (int i = 0; i < Audit::kMostRefused; ++i) audit.Decided(false, Connecting(caller_), now_);
  EXPECT_EQ(Lines("uid=1000 "), before + 1);
}

TEST_F(AuditTest, AdministrationIsLoggedWhateverTheLevelAndWhateverElseIsRefused) {
  Audit audit(AuditLevel::kNone);
  const AuditEntry entry{.action = "EndSession", .caller = &caller_, .session = SessionId(4)};
  audit.Administered(true, entry, now_);
  audit.Administered(true, entry, now_);
  EXPECT_EQ(Lines("decision=allowed action=EndSession session=4 uid=1000"), 2u);
  audit.SetLevel(AuditLevel::kRefused);
  audit.Decided(false, Connecting(caller_), now_);
  for (int i = 0; i < 100; ++i) audit.Administered(false, entry, now_);
  EXPECT_EQ(Lines("decision=refused action=EndSession"), 1u);
}

TEST_F(AuditTest, AdministrationIsLoggedWhateverTheLogLevel) {
  Audit audit(AuditLevel::kAll);
  const AuditEntry entry{.action = "EndSession", .caller = &caller_, .session = SessionId(4)};
  SetLogLevel(LogLevel::kError);
  audit.Administered(true, entry, now_);
  audit.Administered(false, entry, now_);
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(Lines("decision=allowed action=EndSession"), 1u);
  EXPECT_EQ(Lines("decision=refused action=EndSession"), 1u);
}

TEST_F(AuditTest, WhoCannotBeToldHidesNothingOfRoots) {
  Audit audit(AuditLevel::kAll);
  const Caller root{.identity = {0, 0, 99}};
  audit.Administered(false, {.action = "ListSessions", .rule = "tcp"}, now_);
  audit.Administered(false, {.action = "EndSession", .caller = &root}, now_);
  EXPECT_EQ(Lines("decision=refused action=ListSessions rule=tcp"), 1u);
  EXPECT_EQ(Lines("decision=refused action=EndSession uid=0"), 1u);
}

TEST_F(AuditTest, DecisionsAreLoggedWhateverTheLogLevel) {
  Audit audit(AuditLevel::kAll);
  for (const LogLevel level : {LogLevel::kWarning, LogLevel::kError}) {
    SetLogLevel(level);
    audit.Decided(true, Connecting(caller_), now_);
    audit.Decided(false, Connecting(caller_), now_);
  }
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(Lines("decision=allowed action=Connect"), 2u);
  EXPECT_EQ(Lines("decision=refused action=Connect"), 2u);
}

}  // namespace
}  // namespace rdmabroker
