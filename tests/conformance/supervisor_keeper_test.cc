// SPDX-License-Identifier: Apache-2.0

// The supervisor that libsystemd makes of a process that listens, with rdma-broker-keeper as that process.

#include <memory>
#include <utility>

#include "tests/conformance/supervisor_conformance.h"
#include "tests/keeper/kept_program.h"

namespace rdmabroker {
namespace {

class KeeperWorld final : public SupervisedWorld {
 public:
  KeeperWorld() { EXPECT_TRUE(program_.NextChild()); }

  std::string Obey(const std::string& order) override { return program_.Ask(order); }
  void Restart() override {
    program_.Tell("raise 9");
    EXPECT_TRUE(program_.NextChild());
  }

 private:
  KeptProgram program_{{"--watchdog", "20", "--descriptors", "8"}};
};

class LonelyWorld final : public SupervisedWorld {
 public:
  LonelyWorld() { Begin(); }

  std::string Obey(const std::string& order) override { return program_->Ask(order); }
  void Restart() override {
    program_->keeper().Kill();
    Begin();
  }

 private:
  void Begin() {
    program_ = std::make_unique<KeptProgram>(KeptProgram::Unsupervised());
    EXPECT_TRUE(program_->NextChild());
  }

  std::unique_ptr<KeptProgram> program_;
};

INSTANTIATE_TEST_SUITE_P(Keeper, SupervisorConformance,
                         testing::Values(SupervisorConformanceCase{
                             .supervised = [] { return std::make_unique<KeeperWorld>(); },
                             .alone = [] { return std::make_unique<LonelyWorld>(); },
                         }));

}  // namespace
}  // namespace rdmabroker
