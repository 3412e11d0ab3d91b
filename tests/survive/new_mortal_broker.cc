// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/new_mortal_broker.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/survive/outliving_network.h"

namespace rdmabroker {
namespace {

constexpr char kBroker[] = "tests/survive/mortal_broker";

class BrokerOnFake final : public KeptBroker {
 public:
  BrokerOnFake(const std::string& settings, std::unique_ptr<OutlivingNetwork> network)
      : KeptBroker(settings, {kBroker, network->path()}), network_(std::move(network)) {}
  // Nobody is to start a broker without a network.
  ~BrokerOnFake() override { RunningBroker::Kill(); }

  std::string Ask(const std::string& line) override {
    return line == "live" || line.rfind("die ", 0) == 0 ? KeptBroker::Ask(line) : network_->Answer(line);
  }

 private:
  const std::unique_ptr<OutlivingNetwork> network_;
};

std::string GraceOn(const std::string& adapter) {
  const bool in_guest = adapter != "fake" && adapter != "iwarp";
  return in_guest ? KeptBroker::kGraceInGuests : KeptBroker::kShortGrace;
}

// mortal_broker writes a byte for each.
uint64_t Count(const KeptBroker& broker, const std::string& what) {
  const std::string file = broker.folder() + "/" + what;
  return std::filesystem::exists(file) ? std::filesystem::file_size(file) : 0;
}

// Processes that the broker has had.
uint64_t Lives(const KeptBroker& broker) { return Count(broker, "lives"); }

}  // namespace

std::shared_ptr<KeptBroker> NewMortalBroker(const std::string& adapter, const std::string& settings) {
  std::string all = settings;
  if (settings.find("_ephemeral_port") == std::string::npos) all = ndkpi::OwnPorts() + all;
  if (settings.find("session_grace_ms") == std::string::npos) all = GraceOn(adapter) + all;
  if (adapter == "fake") return std::make_shared<BrokerOnFake>(all, std::make_unique<OutlivingNetwork>());
  return std::make_shared<KeptBroker>(all, std::vector<std::string>{kBroker, adapter});
}

uint64_t DeathsWithinHandshakes(const KeptBroker& broker) { return Count(broker, "deaths_within_handshakes"); }

bool DiesWithin(KeptBroker& broker, const Death& death, const std::function<void()>& live) {
  const std::string command =
      "die " + death.when + " " + std::to_string(death.commit) + (death.anyhow ? " anyhow" : "");
  SCOPED_TRACE(command);
  const uint64_t lives = Lives(broker);
  const std::string answer = broker.Ask(command);
  EXPECT_EQ(answer, "done");
  if (answer != "done") return false;
  live();
  // Else it might die of what strays still do.
  if (Lives(broker) == lives) {
    EXPECT_EQ(broker.Ask("live"), "done");
  }
  const uint64_t deaths = Lives(broker) - lives;
  EXPECT_LE(deaths, 1u) << "it has died of something else, too";
  return deaths > 0;
}

void LiveThrough(KeptBroker& broker, Death death, const std::function<void()>& live) {
  while (!DiesWithin(broker, death, live) && !testing::Test::HasFailure()) {
    ASSERT_GT(death.commit, 1u) << "nothing of it is stored";
    death.commit = (death.commit + 1) / 2;
  }
}

std::string CommandOfThisCase(const std::string& value) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test.test_suite_name()) + "." + test.name();
  if (const char* const label = std::getenv("TEST_TARGET")) {
    return "bazel test --config=tests --test_env=" + value + " --test_filter=" + name + " " + label;
  }
  std::string command = value;
  std::ifstream line("/proc/self/cmdline");
  for (std::string word; std::getline(line, word, '\0');) command += " " + word;
  return command + " --gtest_filter=" + name;
}

}  // namespace rdmabroker
