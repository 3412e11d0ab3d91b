// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/kept_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "dataplane/unique_fd.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

using Names = std::vector<std::string>;

UniqueFd AnyFile() { return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

class KeptFilesTest : public testing::Test {
 protected:
  // As the process before has left them.
  void Leave(const Names& names) {
    for (const std::string& name : names) ASSERT_TRUE(supervisor_.Store(name, AnyFile().get()).ok());
    supervisor_.Restart();
  }
  Names Stored() const {
    Names names;
    for (const KeptDescriptor& kept : supervisor_.stored()) names.push_back(kept.name);
    return names;
  }

  FakeSupervisor supervisor_;
};

TEST_F(KeptFilesTest, HaveANameAboveAllThatThereWere) {
  Leave({"c2", "c10", "e99.1"});
  DescriptorKeep keep(supervisor_);
  KeptFiles files(keep, "c");
  EXPECT_TRUE(files.HasOld());
  files.Keep(AnyFile().get());
  EXPECT_EQ(Stored(), (Names{"c2", "c10", "e99.1", "c11"}));
}

TEST_F(KeptFilesTest, AreKeptUntilWhatHasReplacedThemIsStored) {
  Leave({"c1", "c2", "e3.1"});
  DescriptorKeep keep(supervisor_);
  KeptFiles files(keep, "c");
  files.Keep(AnyFile().get());
  EXPECT_EQ(files.GiveUpOld().size(), 2U);
  EXPECT_FALSE(files.HasOld());
  EXPECT_EQ(Stored(), (Names{"c1", "c2", "e3.1", "c3"}));
  keep.Committed();
  EXPECT_EQ(Stored(), (Names{"e3.1", "c3"}));
}

TEST_F(KeptFilesTest, OfAStartThatFailsTakeNoRoom) {
  Leave({"c1"});
  DescriptorKeep keep(supervisor_);
  KeptFiles files(keep, "c");
  files.Keep(AnyFile().get());
  files.GiveUpOwn();
  EXPECT_EQ(Stored(), Names{"c1"});
}

TEST_F(KeptFilesTest, OfWhichOneIsLostIsReplacedUnderAnotherName) {
  DescriptorKeep keep(supervisor_);
  KeptFiles files(keep, "c");
  EXPECT_FALSE(files.HasOld());
  files.Keep(AnyFile().get());
  EXPECT_EQ(Stored(), Names{"c1"});
  files.ForgetOwn();
  files.ForgetOwn();
  files.Keep(AnyFile().get());
  keep.Committed();
  EXPECT_EQ(Stored(), Names{"c2"});
}

const absl::Status kSilent = absl::DeadlineExceededError("silent");
const absl::Status kFull = absl::ResourceExhaustedError("too many are on their way");
const absl::Status kGone = absl::UnavailableError("gone");

// What the supervisor answers to each message, and what comes of it.
struct Certainty {
  std::deque<absl::Status> answers;
  absl::StatusCode result;
  size_t errors = 0;  // That are logged of a supervisor that has gone.
  Names told;
};

// By a store and a barrier each time.
TEST_F(KeptFilesTest, AreFilledOnlyOnceTheyAreSurelyKept) {
  const absl::Status ok = absl::OkStatus();
  const Certainty rows[] = {
      {{}, absl::StatusCode::kOk, 0, {"store c1", "barrier"}},
      {{ok, kSilent, kFull}, absl::StatusCode::kOk, 0, {"store c1", "store c1", "barrier"}},
      {{ok, kSilent, ok, kSilent, ok, kSilent},
       absl::StatusCode::kDeadlineExceeded,
       0,
       {"store c1", "store c1", "store c1"}},
      {{kFull, kFull, kFull}, absl::StatusCode::kResourceExhausted, 0, {}},
      {{kGone}, absl::StatusCode::kOk, 1, {}},
      {{ok, kGone}, absl::StatusCode::kOk, 1, {"store c1"}},
  };
  for (const Certainty& row : rows) {
    FakeSupervisor supervisor;
    DescriptorKeep keep(supervisor);
    KeptFiles files(keep, "c");
    const UniqueFd file = AnyFile();
    supervisor.AnswerNext({kFull});
    files.Keep(file.get());
    supervisor.AnswerNext(row.answers);
    CapturedLog log;
    const absl::Status kept = files.KeepSurely(file.get());
    EXPECT_EQ(kept.code(), row.result) << kept;
    EXPECT_EQ(supervisor.told(), row.told);
    EXPECT_EQ(log.LinesWith("the supervisor has gone, and connections end with this process name=c1").size(),
              row.errors);
  }
}

TEST_F(KeptFilesTest, ThatMayNotBeKeptLeaveTheOldOnesAsTheyAre) {
  Leave({"c1"});
  DescriptorKeep keep(supervisor_);
  KeptFiles files(keep, "c");
  const UniqueFd file = AnyFile();
  files.Keep(file.get());
  supervisor_.Answer(kSilent);
  const absl::Status kept = files.KeepSurely(file.get());
  EXPECT_EQ(kept.message().substr(0, 4), "c2: ") << kept;
  supervisor_.Answer(absl::OkStatus());
  keep.ForgetTheRest();
  keep.Committed();
  supervisor_.Restart();
  DescriptorKeep next(supervisor_);
  EXPECT_TRUE(next.HasInherited("c1"));
}

}  // namespace
}  // namespace rdmabroker
