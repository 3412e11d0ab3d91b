// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/kept_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "dataplane/unique_fd.h"

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

}  // namespace
}  // namespace rdmabroker
