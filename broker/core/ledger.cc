// SPDX-License-Identifier: Apache-2.0

#include "broker/core/ledger.h"

#include <variant>

namespace rdmabroker {
namespace {

// Beyond the object itself.
uint64_t BytesBehind(const ConnectionData& data) {
  return data.private_data.size() + data.qp_attributes.size() * sizeof(QpAttributes);
}

uint64_t BytesBehind(const Outcome& outcome) {
  const auto* data = std::get_if<ConnectionData>(&outcome.payload);
  return outcome.hint.size() + (data == nullptr ? 0 : BytesBehind(*data));
}

}  // namespace

void Ledger::Charge(uint32_t uid, uint64_t bytes) {
  of_user_[uid] += bytes;
  of_all_ += bytes;
}

void Ledger::Release(uint32_t uid, uint64_t bytes) {
  of_all_ -= bytes;
  const auto found = of_user_.find(uid);
  found->second -= bytes;
  if (found->second == 0) of_user_.erase(found);
}

uint64_t Ledger::Of(uint32_t uid) const {
  const auto found = of_user_.find(uid);
  return found == of_user_.end() ? 0 : found->second;
}

uint64_t BytesOf(const KeptAnswer& answer) { return sizeof answer + BytesBehind(answer.outcome); }

uint64_t BytesOf(const SessionEvent& event) {
  uint64_t bytes = sizeof event;
  if (const auto* outcome = std::get_if<OutcomeEvent>(&event)) bytes += BytesBehind(outcome->outcome);
  if (const auto* connect = std::get_if<ConnectEvent>(&event)) bytes += BytesBehind(connect->data);
  return bytes;
}

uint64_t BytesOf(const SessionRecord& session) {
  uint64_t bytes = kSessionBytes;
  for (const KeptAnswer& answer : session.answers) bytes += BytesOf(answer);
  for (const SessionEvent& event : session.events) bytes += BytesOf(event);
  return bytes;
}

}  // namespace rdmabroker
