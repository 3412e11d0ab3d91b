// SPDX-License-Identifier: Apache-2.0

#include "dataplane/operation.h"

namespace rdmabroker {

OpFlags AllowedFlags(OperationType type) {
  constexpr OpFlags kEveryRequest = kOpSilentSuccess | kOpReadFence | kOpDefer;
  switch (type) {
    case OperationType::kSend:
      return kEveryRequest | kOpSendAndSolicitEvent | kOpInline;
    case OperationType::kWrite:
      return kEveryRequest | kOpInline;
    case OperationType::kRead:
      return kEveryRequest | kOpRdmaReadLocalInvalidate;
    case OperationType::kBind:
      return kEveryRequest | kOpAllowRemoteRead | kOpAllowRemoteWrite;
    case OperationType::kFastRegister:
      return kEveryRequest | kOpAllowRemoteRead | kOpAllowRemoteWrite | kOpRdmaReadSink;
    default:
      return kEveryRequest;
  }
}

uint64_t TotalLength(std::span<const Sge> sges) {
  uint64_t total = 0;
  for (const Sge& sge : sges) total += sge.length;
  return total;
}

}  // namespace rdmabroker
