// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "client/c/interface.h"
#include "client/names/names.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::c {
namespace {

client::NameOptions Options(uint32_t timeout_ms) {
  client::NameOptions options;
  if (timeout_ms != 0) options.timeout = std::chrono::milliseconds(timeout_ms);
  return options;
}

NdkStatus Told(const client::Outcome& outcome, rdma_broker_event* failure) {
  if (!outcome.ok() && failure != nullptr) GiveOut(Event{RDMA_BROKER_EVENT_OUTCOME, 0, 0, 0, outcome}, failure);
  return outcome.ok() ? outcome.status : Refuse(outcome.status, "%s", outcome.hint);
}

}  // namespace
}  // namespace rdmabroker::c

// The functions of rdma_broker.h, which have no namespace.
using namespace rdmabroker;
using namespace rdmabroker::c;

rdma_broker_status rdma_broker_resolve_name(const char* name, uint32_t timeout_ms, rdma_broker_address* addresses,
                                            uint32_t* count, uint32_t* time_to_live, rdma_broker_event* failure) {
  return Guarded([&] {
    if (name == nullptr || addresses == nullptr || count == nullptr || (failure != nullptr && !HasRoom(failure))) {
      return RefuseArguments("name, address, addresses, count, registration, failure");
    }
    const client::Resolution found = client::ResolveName(name, Options(timeout_ms));
    if (found.outcome.ok()) {
      std::vector<std::string> texts;
      for (const SocketAddress& address : found.addresses) texts.push_back(address.ToString());
      *count = std::min(*count, static_cast<uint32_t>(texts.size()));
      for (uint32_t i = 0; i < *count; ++i) CopyText(texts[i], addresses[i].text);
      if (time_to_live != nullptr) *time_to_live = static_cast<uint32_t>(found.time_to_live.count());
    }
    return Told(found.outcome, failure);
  });
}

rdma_broker_status rdma_broker_register_name(const char* name, const char* address, uint32_t timeout_ms, uint32_t lease,
                                             rdma_broker_handle* registration, rdma_broker_event* failure) {
  return Guarded([&] {
    std::string problem;
    const auto parsed = address == nullptr ? std::nullopt : SocketAddress::Parse(address, &problem);
    if (!parsed.has_value()) return RefuseAddress("address", address, problem);
    if (name == nullptr || registration == nullptr || (failure != nullptr && !HasRoom(failure))) {
      return RefuseArguments("name, address, addresses, count, registration, failure");
    }
    constexpr uint32_t kUsualLease = 10;
    auto made = client::NameRegistration::Register(name, *parsed, Options(timeout_ms),
                                                   std::chrono::seconds(lease == 0 ? kUsualLease : lease));
    if (made.outcome.ok()) {
      std::shared_ptr<client::NameRegistration> shared = std::move(made.registration);
      *registration = HandleTable::Get().Add({std::move(shared), {}, {}});
    }
    return Told(made.outcome, failure);
  });
}
