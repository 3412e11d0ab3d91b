// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <optional>

#include "broker/runtime/fake_supervisor.h"
#include "tests/conformance/supervisor_conformance.h"
#include "tests/keeper/supervised_script.h"

namespace rdmabroker {
namespace {

class FakeWorld final : public SupervisedWorld {
 public:
  FakeWorld(bool there, absl::Duration watchdog_interval) : supervisor_(there, watchdog_interval) {
    supervisor_.KeepAtMost(8);
  }

  std::string Obey(const std::string& order) override { return script_->Obey(order); }
  void Restart() override {
    supervisor_.Restart();
    script_.emplace(supervisor_);
  }

 private:
  FakeSupervisor supervisor_;
  std::optional<SupervisedScript> script_{supervisor_};
};

INSTANTIATE_TEST_SUITE_P(Fake, SupervisorConformance,
                         testing::Values(SupervisorConformanceCase{
                             .supervised = [] { return std::make_unique<FakeWorld>(true, absl::Seconds(20)); },
                             .alone = [] { return std::make_unique<FakeWorld>(false, absl::InfiniteDuration()); },
                         }));

}  // namespace
}  // namespace rdmabroker
