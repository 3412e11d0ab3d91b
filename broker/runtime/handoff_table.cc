// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/handoff_table.h"

#include <utility>

#include "broker/runtime/randomness.h"

namespace rdmabroker {

HandoffSecret HandoffTable::Offer(ConnectionId connection, Handoff handoff) {
  const HandoffSecret secret = handoff.secret = RandomSecret();
  OfferAgain(connection, std::move(handoff));
  return secret;
}

void HandoffTable::OfferAgain(ConnectionId connection, Handoff handoff) { handoffs_[connection] = std::move(handoff); }

void HandoffTable::Withdraw(ConnectionId connection) { handoffs_.erase(connection); }

Handoff* HandoffTable::Find(ConnectionId connection) {
  const auto handoff = handoffs_.find(connection);
  return handoff == handoffs_.end() ? nullptr : &handoff->second;
}

void HandoffTable::Settle(ConnectionId connection, bool taken) {
  const auto found = handoffs_.find(connection);
  if (found == handoffs_.end()) return;
  // The transport is closed before anybody hears of it.
  std::function<void()> tell = std::move(taken ? found->second.on_taken : found->second.on_lost);
  handoffs_.erase(found);
  if (tell) tell();
}

}  // namespace rdmabroker
