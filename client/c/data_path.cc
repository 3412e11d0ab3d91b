// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "client/c/interface.h"
#include "dataplane/completion_queue.h"
#include "dataplane/memory.h"
#include "dataplane/operation.h"
#include "dataplane/queue_pair.h"

namespace rdmabroker::c {
namespace {

HandleTable& Table() { return HandleTable::Get(); }

// Programs give them as they are, and so they go on.
static_assert(sizeof(rdma_broker_sge) == sizeof(Sge) && offsetof(rdma_broker_sge, length) == offsetof(Sge, length) &&
              offsetof(rdma_broker_sge, token) == offsetof(Sge, token));

// More than any adapter takes in one request: what is longer is refused as that, and not copied.
constexpr uint32_t kMostSges = 256;

class Sges {
 public:
  Sges(const rdma_broker_sge* sges, uint32_t count) : valid_(sges != nullptr || count == 0) {
    if (!valid_) return;
    sges_.resize(std::min(count, kMostSges));
    if (!sges_.empty()) std::memcpy(static_cast<void*>(sges_.data()), sges, sges_.size() * sizeof(Sge));
  }

  bool valid() const { return valid_; }
  std::span<const Sge> span() const { return sges_; }

 private:
  const bool valid_;
  std::vector<Sge> sges_;
};

NdkStatus RefuseWithoutData() {
  return Refuse(NdkStatus::kNotSupported, "adapter: this library has no data path for devices of its kind");
}

void* ToPointer(uint64_t context) { return reinterpret_cast<void*>(context); }

// Posts a request of these to a queue pair.
template <typename Post>
rdma_broker_status PostTo(rdma_broker_handle queue_pair, const rdma_broker_sge* sges, uint32_t count,
                          const Post& post) {
  return Guarded([&] {
    const Sges known(sges, count);
    if (!known.valid()) return RefuseArguments("sges");
    const auto pair = Table().Refer<QueuePair>(queue_pair);
    return pair ? post(*pair, known.span()) : NoSuch(queue_pair);
  });
}

// An object of the data plane that has no handle yet. It is closed unless it gets one: nobody else could close it.
template <typename Object>
class Unnamed {
 public:
  explicit Unnamed(Object* object) : object_(object) {}
  ~Unnamed() {
    if (object_ != nullptr) object_->Close({});
  }
  Unnamed(const Unnamed&) = delete;
  Unnamed& operator=(const Unnamed&) = delete;

  Object* operator->() const { return object_; }
  void Name(rdma_broker_handle handle, const Affiliation& affiliation) {
    // Objects of the data plane outlive the session: whoever made them closes them.
    Table().Add(handle, {object_, {affiliation.events, 0}, {}});
    object_ = nullptr;
  }

 private:
  Object* object_;
};

template <typename Object>
NdkStatus Name(const Created<Object>& created, const Affiliation& affiliation, rdma_broker_handle* handle,
               rdma_broker_handle made = Table().NewHandle()) {
  if (created.object == nullptr) return created.status;
  Unnamed(created.object).Name(made, affiliation);
  *handle = made;
  return NdkStatus::kSuccess;
}

rdma_broker_result ToC(const ResultEx& result) {
  return {.request_context = reinterpret_cast<uint64_t>(result.request_context),
          .queue_pair_context = reinterpret_cast<uint64_t>(result.qp_context),
          .status = static_cast<rdma_broker_status>(result.status),
          .type = static_cast<uint32_t>(result.type),
          .bytes_transferred = result.bytes_transferred,
          .provider_error = result.provider_error};
}

uint32_t TakeResults(CompletionQueue& queue, rdma_broker_result* results, uint32_t count) {
  std::array<ResultEx, 64> chunk;
  uint32_t taken = 0;
  while (taken < count) {
    const size_t wanted = std::min<size_t>(chunk.size(), count - taken);
    const size_t got = queue.GetResultsEx({chunk.data(), wanted});
    for (size_t i = 0; i < got; ++i) results[taken++] = ToC(chunk[i]);
    if (got < wanted) break;
  }
  return taken;
}

NdkStatus CreateQueuePair(const Referred<ProtectionDomain>& domain, const rdma_broker_queue_pair_attributes& given,
                          rdma_broker_handle* queue_pair) {
  const auto receive_cq = Table().Refer<CompletionQueue>(given.receive_cq);
  const auto initiator_cq = Table().Refer<CompletionQueue>(given.initiator_cq);
  if (!receive_cq || !initiator_cq) return NoSuch(receive_cq ? given.initiator_cq : given.receive_cq);
  QueuePairAttributes attributes;
  attributes.receive_cq = receive_cq.get();
  attributes.initiator_cq = initiator_cq.get();
  attributes.context = ToPointer(given.context);
  attributes.receive_queue_depth = given.receive_queue_depth;
  attributes.initiator_queue_depth = given.initiator_queue_depth;
  attributes.max_receive_request_sge = std::max(given.max_receive_request_sge, 1u);
  attributes.max_initiator_request_sge = std::max(given.max_initiator_request_sge, 1u);
  attributes.inline_data_size = given.inline_data_size;
  attributes.keepalive = std::chrono::seconds(given.keepalive_seconds);
  return Name(domain->CreateQueuePair(attributes), domain.affiliation, queue_pair);
}

}  // namespace
}  // namespace rdmabroker::c

// The functions of rdma_broker.h, which have no namespace.
using namespace rdmabroker;
using namespace rdmabroker::c;

rdma_broker_status rdma_broker_domain_create(rdma_broker_handle adapter, rdma_broker_handle* domain) {
  return Guarded([&] {
    if (domain == nullptr) return RefuseArguments("domain");
    const auto data = Table().ReferToData(adapter);
    if (!data.has_value()) return NoSuch(adapter);
    return *data ? Name((*data)->CreateProtectionDomain(), data->affiliation, domain) : RefuseWithoutData();
  });
}

rdma_broker_status rdma_broker_completion_queue_create(rdma_broker_handle adapter, uint32_t depth,
                                                       rdma_broker_handle events, uint64_t context,
                                                       rdma_broker_handle* completion_queue) {
  return Guarded([&] {
    if (completion_queue == nullptr) return RefuseArguments("completion_queue");
    const auto data = Table().ReferToData(adapter);
    if (!data.has_value()) return NoSuch(adapter);
    const auto queue = Table().Find<EventQueue>(events);
    if (events != 0 && !queue) return NoSuch(events);
    if (!*data) return RefuseWithoutData();
    const rdma_broker_handle made = Table().NewHandle();
    CqNotification notification;
    if (queue) {
      notification = [queue = queue.object, context, made](NdkStatus status) {
        queue->Post({RDMA_BROKER_EVENT_COMPLETION_QUEUE, context, made, 0, {.status = status, .hint = {}}});
      };
    }
    return Name((*data)->CreateCompletionQueue(depth, notification), data->affiliation, completion_queue, made);
  });
}

rdma_broker_status rdma_broker_completion_queue_arm(rdma_broker_handle completion_queue, uint32_t notify) {
  return Guarded([&] {
    if (notify > RDMA_BROKER_NOTIFY_SOLICITED) return RefuseArguments("notify");
    const auto queue = Table().Refer<CompletionQueue>(completion_queue);
    if (!queue) return NoSuch(completion_queue);
    queue->Arm(static_cast<CqNotify>(notify));
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_completion_queue_take(rdma_broker_handle completion_queue, rdma_broker_result* results,
                                                     uint32_t* count) {
  return Guarded([&] {
    if (count == nullptr || (results == nullptr && *count != 0)) return RefuseArguments("results, count");
    const auto queue = Table().Refer<CompletionQueue>(completion_queue);
    if (!queue) return NoSuch(completion_queue);
    *count = TakeResults(*queue, results, *count);
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_memory_register(rdma_broker_handle domain, void* address, size_t length, uint32_t flags,
                                               rdma_broker_handle* region, uint32_t* local_token,
                                               uint32_t* remote_token) {
  return Guarded([&] {
    if (region == nullptr) return RefuseArguments("region");
    const auto owner = Table().ReferAsParent<ProtectionDomain>(domain);
    if (!owner) return NoSuch(domain);
    const auto created = owner->CreateMemoryRegion(false);
    if (created.object == nullptr) return created.status;
    Unnamed unnamed(created.object);
    const NdkStatus registered = unnamed->Register(address, length, flags);
    if (registered != NdkStatus::kSuccess) return registered;
    const LocalToken local = unnamed->local_token();
    const RemoteToken remote = unnamed->remote_token();
    const rdma_broker_handle made = Table().NewHandle();
    unnamed.Name(made, owner.affiliation);
    *region = made;
    if (local_token != nullptr) *local_token = static_cast<uint32_t>(local);
    if (remote_token != nullptr) *remote_token = static_cast<uint32_t>(remote);
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_queue_pair_create(rdma_broker_handle domain,
                                                 const rdma_broker_queue_pair_attributes* attributes,
                                                 rdma_broker_handle* queue_pair) {
  return Guarded([&] {
    const auto known = TakeIn(attributes);
    if (!known.has_value()) return RefuseStruct("attributes", attributes);
    if (known->reserved != 0 || queue_pair == nullptr) return RefuseArguments("attributes: reserved, queue_pair");
    const auto owner = Table().ReferAsParent<ProtectionDomain>(domain);
    return owner ? CreateQueuePair(owner, *known, queue_pair) : NoSuch(domain);
  });
}

rdma_broker_status rdma_broker_send(rdma_broker_handle queue_pair, uint64_t request_context,
                                    const rdma_broker_sge* sges, uint32_t count, uint32_t flags) {
  return PostTo(queue_pair, sges, count, [&](QueuePair& pair, std::span<const Sge> known) {
    return pair.Send(ToPointer(request_context), known, flags);
  });
}

rdma_broker_status rdma_broker_receive(rdma_broker_handle queue_pair, uint64_t request_context,
                                       const rdma_broker_sge* sges, uint32_t count) {
  return PostTo(queue_pair, sges, count, [&](QueuePair& pair, std::span<const Sge> known) {
    return pair.Receive(ToPointer(request_context), known);
  });
}

rdma_broker_status rdma_broker_read(rdma_broker_handle queue_pair, uint64_t request_context,
                                    const rdma_broker_sge* sges, uint32_t count, uint64_t remote_address,
                                    uint32_t remote_token, uint32_t flags) {
  return PostTo(queue_pair, sges, count, [&](QueuePair& pair, std::span<const Sge> known) {
    return pair.Read(ToPointer(request_context), known, {remote_address, RemoteToken{remote_token}}, flags);
  });
}

rdma_broker_status rdma_broker_write(rdma_broker_handle queue_pair, uint64_t request_context,
                                     const rdma_broker_sge* sges, uint32_t count, uint64_t remote_address,
                                     uint32_t remote_token, uint32_t flags) {
  return PostTo(queue_pair, sges, count, [&](QueuePair& pair, std::span<const Sge> known) {
    return pair.Write(ToPointer(request_context), known, {remote_address, RemoteToken{remote_token}}, flags);
  });
}

rdma_broker_status rdma_broker_flush(rdma_broker_handle queue_pair) {
  return Guarded([&] {
    const auto pair = Table().Refer<QueuePair>(queue_pair);
    if (!pair) return NoSuch(queue_pair);
    pair->Flush();
    return NdkStatus::kSuccess;
  });
}
