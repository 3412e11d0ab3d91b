// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/new_mortal_broker.h"

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
    return line.rfind("die ", 0) == 0 ? KeptBroker::Ask(line) : network_->Answer(line);
  }

 private:
  const std::unique_ptr<OutlivingNetwork> network_;
};

// In a guest, where the kernel's devices are, the daemon may take some seconds to start, of which its clients must not
// tire.
std::string GraceOn(const std::string& adapter) {
  const bool in_guest = adapter != "fake" && adapter != "iwarp";
  return in_guest ? "timeouts.session_grace_ms = 10000\n" : KeptBroker::kShortGrace;
}

}  // namespace

std::shared_ptr<KeptBroker> NewMortalBroker(const std::string& adapter, const std::string& settings) {
  std::string all = settings;
  if (settings.find("_ephemeral_port") == std::string::npos) all = ndkpi::OwnPorts() + all;
  if (settings.find("session_grace_ms") == std::string::npos) all = GraceOn(adapter) + all;
  if (adapter == "fake") return std::make_shared<BrokerOnFake>(all, std::make_unique<OutlivingNetwork>());
  return std::make_shared<KeptBroker>(all, std::vector<std::string>{kBroker, adapter});
}

}  // namespace rdmabroker
