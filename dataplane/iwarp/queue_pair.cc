// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/queue_pair.h"

#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"

namespace rdmabroker::iwarp {
namespace {

TransmitterAttributes ForTransmitter(SoftwareQueuePair* queue_pair, const ProtectionDomain* domain, MemoryTable* memory,
                                     const QueuePairAttributes& attributes) {
  return {.depth = attributes.initiator_queue_depth,
          .max_sge = attributes.max_initiator_request_sge,
          .inline_data_size = attributes.inline_data_size,
          .qp_context = attributes.context,
          .queue_pair = queue_pair,
          .domain = domain,
          .memory = memory,
          .cq = static_cast<SoftwareCompletionQueue*>(attributes.initiator_cq)};
}

Opcode SendOpcode(OpFlags flags, bool invalidate) {
  const bool solicited = (flags & kOpSendAndSolicitEvent) != 0;
  if (invalidate) return solicited ? Opcode::kSendSolicitedInvalidate : Opcode::kSendInvalidate;
  return solicited ? Opcode::kSendSolicited : Opcode::kSend;
}

}  // namespace

// The adapter has checked that the queues are its own.
SoftwareQueuePair::SoftwareQueuePair(ProtectionDomain* domain, MemoryTable* memory,
                                     const QueuePairAttributes& attributes)
    : domain_(domain),
      receive_cq_(static_cast<SoftwareCompletionQueue*>(attributes.receive_cq)),
      initiator_cq_(static_cast<SoftwareCompletionQueue*>(attributes.initiator_cq)),
      srq_(static_cast<SoftwareSharedReceiveQueue*>(attributes.srq)),
      keepalive_(attributes.keepalive),
      receive_queue_(attributes.receive_queue_depth, attributes.max_receive_request_sge),
      transmitter_(ForTransmitter(this, domain, memory, attributes)),
      watch_(this, receive_cq_.get(), initiator_cq_.get()),
      receiver_({.qp_context = attributes.context,
                 .queue_pair = this,
                 .domain = domain,
                 .memory = memory,
                 .cq = receive_cq_.get(),
                 .queue = &receive_queue_,
                 .srq = srq_.get(),
                 .transmitter = &transmitter_}),
      silence_(attributes.keepalive) {
  receive_cq_->Attach(this);
  if (initiator_cq_.get() == receive_cq_.get()) return;
  try {
    initiator_cq_->Attach(this);
  } catch (...) {
    receive_cq_->Detach(this);
    throw;
  }
}

void SoftwareQueuePair::Dismantle() {
  receive_cq_->Detach(this);
  if (initiator_cq_.get() != receive_cq_.get()) initiator_cq_->Detach(this);
}

NdkStatus SoftwareQueuePair::Post(const InitiatorPost& post) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const NdkStatus status = CatchExceptions([&] { return transmitter_.Post(post); });
  if (transmitter_.failed() || transmitter_.socket_error() != 0) {
    // The end of the connection needs the connection lock, which a post does not take.
    ProgressThread::Get().Call(wake());
  } else if (transmitter_.wants_write()) {
    watch_.Update();
  }
  return status;
}

NdkStatus SoftwareQueuePair::Send(void* request_context, std::span<const Sge> sges, OpFlags flags) {
  return Post({.type = OperationType::kSend,
               .opcode = SendOpcode(flags, false),
               .flags = flags,
               .context = request_context,
               .sges = sges});
}

NdkStatus SoftwareQueuePair::SendAndInvalidate(void* request_context, std::span<const Sge> sges, OpFlags flags,
                                               RemoteToken token) {
  return Post({.type = OperationType::kSend,
               .opcode = SendOpcode(flags, true),
               .flags = flags,
               .context = request_context,
               .sges = sges,
               .invalidate = token});
}

NdkStatus SoftwareQueuePair::Receive(void* request_context, std::span<const Sge> sges) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (srq_) return RefuseOwnReceives();
  if (receives_refused_) return RefuseUnconnected();
  const NdkStatus status = CatchExceptions([&] { return receive_queue_.Post(request_context, sges); });
  if (status == NdkStatus::kSuccess && receives_end_) {
    const std::lock_guard lock(mutex_);
    receiver_.CancelReceives();
  }
  return status;
}

NdkStatus SoftwareQueuePair::Read(void* request_context, std::span<const Sge> sges, RemoteMemory source,
                                  OpFlags flags) {
  return Post({.type = OperationType::kRead,
               .opcode = Opcode::kReadRequest,
               .flags = flags,
               .context = request_context,
               .sges = sges,
               .remote = source});
}

NdkStatus SoftwareQueuePair::Write(void* request_context, std::span<const Sge> sges, RemoteMemory target,
                                   OpFlags flags) {
  return Post({.type = OperationType::kWrite,
               .opcode = Opcode::kWrite,
               .flags = flags,
               .context = request_context,
               .sges = sges,
               .remote = target});
}

// Requests that change memory. One that is refused is posted all the same, as what was deferred must not wait for it.
NdkStatus SoftwareQueuePair::Bind(void* request_context, MemoryRegion* region, MemoryWindow* window, void* address,
                                  size_t length, OpFlags flags) {
  if (IsForkedChild()) return RefuseInForkedChild();
  auto* const software_region = static_cast<SoftwareMemoryRegion*>(region);
  auto* const software_window = static_cast<SoftwareMemoryWindow*>(window);
  const bool belong = Belongs(software_region) && Belongs(software_window);
  MemoryChange change;
  return Post({.type = OperationType::kBind,
               .flags = flags,
               .context = request_context,
               .refusal = belong ? CatchExceptions([&] {
                 return software_region->PrepareBind(this, address, length, flags, &change);
               })
                                 : RefuseNamed(),
               .change = &change,
               .region = software_region,
               .window = software_window});
}

NdkStatus SoftwareQueuePair::FastRegister(void* request_context, MemoryRegion* region, std::span<void* const> pages,
                                          size_t first_byte_offset, size_t length, uint64_t base_address,
                                          OpFlags flags) {
  if (IsForkedChild()) return RefuseInForkedChild();
  auto* const software_region = static_cast<SoftwareMemoryRegion*>(region);
  MemoryChange change;
  return Post({.type = OperationType::kFastRegister,
               .flags = flags,
               .context = request_context,
               .refusal = Belongs(software_region) ? CatchExceptions([&] {
                 return software_region->PrepareFastRegister(pages, first_byte_offset, length, base_address, flags,
                                                             &change);
               })
                                                   : RefuseNamed(),
               .change = &change,
               .region = software_region});
}

NdkStatus SoftwareQueuePair::Invalidate(void* request_context, MemoryRegion* region, OpFlags flags) {
  if (IsForkedChild()) return RefuseInForkedChild();
  auto* const software_region = static_cast<SoftwareMemoryRegion*>(region);
  MemoryChange change;
  return Post({.type = OperationType::kInvalidate,
               .flags = flags,
               .context = request_context,
               .refusal = Belongs(software_region) ? software_region->PrepareInvalidate(&change) : RefuseNamed(),
               .change = &change,
               .region = software_region});
}

NdkStatus SoftwareQueuePair::Invalidate(void* request_context, MemoryWindow* window, OpFlags flags) {
  if (IsForkedChild()) return RefuseInForkedChild();
  auto* const software_window = static_cast<SoftwareMemoryWindow*>(window);
  MemoryChange change;
  return Post({.type = OperationType::kInvalidate,
               .flags = flags,
               .context = request_context,
               .refusal = Belongs(software_window) ? software_window->PrepareInvalidate(&change) : RefuseNamed(),
               .change = &change,
               .window = software_window});
}

}  // namespace rdmabroker::iwarp
