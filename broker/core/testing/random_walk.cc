// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/random_walk.h"

#include <variant>
#include <vector>

#include "broker/core/testing/alphabet.h"

namespace rdmabroker {
namespace {

bool EndsMuch(const Event& event) {
  if (std::holds_alternative<DeadlineReached>(event)) return true;
  if (std::holds_alternative<StreamLost>(event) || std::holds_alternative<EndSession>(event)) return true;
  if (const auto* report = std::get_if<FabricReport>(&event)) {
    return std::holds_alternative<DeviceRemoved>(*report) || std::holds_alternative<FabricConnectFailed>(*report) ||
           std::holds_alternative<FabricFailed>(*report) || std::holds_alternative<FabricBindFailed>(*report);
  }
  const auto* asked = std::get_if<ClientRequest>(&event);
  if (asked == nullptr) return false;
  const Request& request = asked->request;
  return std::holds_alternative<CloseAdapter>(request) || std::holds_alternative<CloseListener>(request) ||
         std::holds_alternative<CloseConnector>(request) || std::holds_alternative<Reject>(request);
}

}  // namespace

RandomWalk::RandomWalk(uint32_t seed) : random_(seed) { (void)core_.Handle(absl::UnixEpoch(), DeadlineReached{}); }

// What ends things is seldom taken, so that there are things.
void RandomWalk::Step() {
  constexpr uint32_t kSeldom = 200;
  const std::vector<Move> moves = AlphabetOf(core_, 100 + ++steps_);
  size_t chosen = random_() % moves.size();
  while (EndsMuch(moves[chosen].event) && random_() % kSeldom != 0) chosen = random_() % moves.size();
  (void)core_.Handle(moves[chosen].now, moves[chosen].event);
}

}  // namespace rdmabroker
