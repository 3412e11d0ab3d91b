// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/data_plane_end.h"

#include <string>

#include "dataplane/verbs/transition.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

template <typename Object>
Object* Made(const Created<Object>& created, const char* what) {
  RequireSuccess(created.status, what);
  return created.object;
}

}  // namespace

void FailWith(NdkStatus status, const char* what) { Fail(std::string(what) + ": " + std::string(StatusName(status))); }

DataPlaneEnd::DataPlaneEnd(Adapter& adapter, uint32_t depth, size_t buffer_size) : buffer_(buffer_size) {
  ProtectionDomain* const domain = Made(adapter.CreateProtectionDomain(), "a protection domain");
  queue_ = Made(adapter.CreateCompletionQueue(4 * depth, {}), "a completion queue");
  queue_pair_ = Made(domain->CreateQueuePair({.receive_cq = queue_,
                                              .initiator_cq = queue_,
                                              .receive_queue_depth = depth,
                                              .initiator_queue_depth = depth,
                                              .max_receive_request_sge = 1,
                                              .max_initiator_request_sge = 1}),
                     "a queue pair");
  region_ = Made(domain->CreateMemoryRegion(false), "a memory region");
  RequireSuccess(region_->Register(buffer_.data(), buffer_.size(), kMrAllowRemoteWrite), "Register");
}

void DataPlaneEnd::Move(const QpAttributes& step) {
  RequireSuccess(queue_pair_->Attach(verbs::AttachmentFor(step), {}), "Attach");
}

void DataPlaneEnd::Establish() { RequireSuccess(queue_pair_->Attach({}, {}), "Attach"); }

void DataPlaneEnd::PostSend(uint32_t length) {
  const Sge piece = Piece(length);
  RequireSuccess(queue_pair_->Send(nullptr, {&piece, 1}, 0), "Send");
}

void DataPlaneEnd::PostWrite(uint32_t length, const DataPlaneEnd& other) {
  const Sge piece = Piece(length);
  const RemoteMemory target = {reinterpret_cast<uintptr_t>(other.buffer_.data()), other.region_->remote_token()};
  RequireSuccess(queue_pair_->Write(nullptr, {&piece, 1}, target, 0), "Write");
}

void DataPlaneEnd::PostReceive(uint32_t length) {
  const Sge piece = Piece(length);
  RequireSuccess(queue_pair_->Receive(nullptr, {&piece, 1}), "Receive");
}

void DataPlaneEnd::Await(size_t results) {
  while (ahead_ < results) {
    const size_t got = queue_->GetResultsEx(batch_);
    for (size_t i = 0; i < got; ++i) RequireSuccess(batch_[i].status, "a request");
    ahead_ += got;
  }
  ahead_ -= results;
}

}  // namespace rdmabroker::bench
