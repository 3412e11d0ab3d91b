// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/new_mortal_broker.h"

#include <utility>
#include <vector>

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
    return line.rfind("die ", 0) == 0 ? KeptBroker::Ask(line) : network_->Answer(line);
  }

 private:
  const std::unique_ptr<OutlivingNetwork> network_;
};

}  // namespace

std::shared_ptr<KeptBroker> NewMortalBroker(const std::string& adapter, const std::string& settings) {
  if (adapter == "fake") return std::make_shared<BrokerOnFake>(settings, std::make_unique<OutlivingNetwork>());
  return std::make_shared<KeptBroker>(settings, std::vector<std::string>{kBroker, adapter});
}

}  // namespace rdmabroker
