// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_C_INTERFACE_H_
#define CLIENT_C_INTERFACE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/c/event_queue.h"
#include "client/c/handle_table.h"
#include "client/c/rdma_broker.h"
#include "client/values.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/ndk/status.h"
#include "dataplane/refusal.h"

// What every function of the C interface does.
namespace rdmabroker::c {

// No struct of this interface will ever be larger: a size beyond it is not one.
inline constexpr uint32_t kLargestStruct = 4096;

// Runs a function's body, but in a forked child; no exception leaves it.
template <typename Body>
rdma_broker_status Guarded(const Body& body) noexcept {
  if (IsForkedChild()) return static_cast<rdma_broker_status>(RefuseInForkedChild());
  return static_cast<rdma_broker_status>(rdmabroker::CatchExceptions([&body]() -> NdkStatus { return body(); }));
}

// Refuses a call because of these arguments.
inline NdkStatus RefuseArguments(const char* names) {
  return Refuse(NdkStatus::kInvalidParameter, "%s: missing, or not as rdma_broker.h says", names);
}

// Refuses a call because of an argument that is no address; `problem` is of SocketAddress::Parse.
inline NdkStatus RefuseAddress(const char* name, const char* given, const std::string& problem) {
  if (given == nullptr) return Refuse(NdkStatus::kInvalidParameter, "%s: missing", name);
  return Refuse(NdkStatus::kInvalidParameter, "%s: %s: %s", name, std::string(given), problem);
}

template <typename Struct>
bool HasRoom(const Struct* given) {
  return given != nullptr && given->size >= sizeof(Struct) && given->size <= kLargestStruct;
}

template <typename Struct>
NdkStatus RefuseStruct(const char* name, const Struct* given) {
  if (given == nullptr) return Refuse(NdkStatus::kInvalidParameter, "%s: null", name);
  return Refuse(NdkStatus::kInvalidParameter,
                "%s: its size says %d bytes; this library's has %d, and takes what is longer if the rest is zero", name,
                given->size, sizeof(Struct));
}

// A caller's struct. Nothing where it is too small, or has something in a part that this library does not know.
template <typename Struct>
std::optional<Struct> TakeIn(const Struct* given) {
  if (!HasRoom(given)) return std::nullopt;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + sizeof(Struct), bytes + given->size, [](unsigned char byte) { return byte != 0; })) {
    return std::nullopt;
  }
  return *given;
}

// Refuses a call because nothing is known yet of the connector's connection.
inline NdkStatus RefuseUnknown(rdma_broker_handle connector) {
  return Refuse(NdkStatus::kConnectionInvalid, "handle %d: nothing is known yet of the connector's connection",
                connector);
}

// Fills in a caller's struct that HasRoom.
template <typename Struct>
void GiveOut(Struct known, Struct* given) {
  known.size = given->size;
  std::memset(static_cast<void*>(given), 0, known.size);
  std::memcpy(static_cast<void*>(given), &known, sizeof known);
}

// As much as fits, with its end.
template <size_t kSize>
void CopyText(std::string_view text, char (&to)[kSize]) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

inline void GiveOut(const Event& event, rdma_broker_event* given) {
  rdma_broker_event known = {};
  known.kind = event.kind;
  known.context = event.context;
  known.source = event.source;
  known.object = event.object;
  known.status = static_cast<rdma_broker_status>(event.outcome.status);
  known.provider_error = event.outcome.provider_error;
  if (event.outcome.retryable) known.flags |= RDMA_BROKER_RETRYABLE;
  if (event.outcome.retry_same_qp) known.flags |= RDMA_BROKER_RETRY_SAME_QP;
  CopyText(event.outcome.hint, known.hint);
  GiveOut(known, given);
}

// Tells how a request of `source` has ended.
inline client::OutcomeCompletion Telling(const Affiliation& affiliation, rdma_broker_handle source, uint64_t context) {
  return [events = affiliation.events, source, context](const client::Outcome& outcome) {
    events->Post({RDMA_BROKER_EVENT_OUTCOME, context, source, 0, outcome});
  };
}

// Likewise of one that makes an object, which gets the handle `made`, or one of its own.
template <typename Object>
client::CreateCompletion<Object> Making(const Affiliation& affiliation, rdma_broker_handle source, uint64_t context,
                                        rdma_broker_handle made = HandleTable::Get().NewHandle()) {
  return [=](const client::Outcome& outcome, std::shared_ptr<Object> object) {
    if (object != nullptr) HandleTable::Get().Add(made, {std::move(object), affiliation, {}});
    affiliation.events->Post({RDMA_BROKER_EVENT_OUTCOME, context, source, outcome.ok() ? made : 0, outcome});
  };
}

}  // namespace rdmabroker::c

#endif  // CLIENT_C_INTERFACE_H_
