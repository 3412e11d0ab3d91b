// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_UNARY_REQUESTS_H_
#define CLIENT_UNARY_REQUESTS_H_

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "client/back_off.h"
#include "client/completion_thread.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

// Makes the requests of batches by RPCs of their own, one after the other, at a broker that does not take batches. On
// the completion thread only.
class UnaryRequests {
 public:
  // As a broker's that takes batches.
  using OnReply = std::function<void(const v1::SessionReply&)>;

  UnaryRequests(std::shared_ptr<CompletionThread> thread, const std::shared_ptr<grpc::Channel>& channel,
                uint64_t session_id, OnReply on_reply);
  // Calls no handler any more.
  ~UnaryRequests();
  UnaryRequests(const UnaryRequests&) = delete;
  UnaryRequests& operator=(const UnaryRequests&) = delete;

  // After those of the batches before.
  void Make(const v1::RequestBatch& batch);

 private:
  struct Attempt;

  void Try();
  void HandleReply(const Attempt& attempt);
  void Answered(v1::Outcome outcome);

  const std::shared_ptr<CompletionThread> thread_;
  grpc::TemplatedGenericStub<google::protobuf::Message, v1::Outcome> stub_;
  const uint64_t session_id_;
  const OnReply on_reply_;
  RandomBackOff back_off_;
  std::deque<v1::BatchedRequest> waiting_;  // The first one is being made. Bounded by the session's window.
  uint64_t acknowledged_ = 0;               // As the last batch says.
  int attempts_ = 0;                        // At the first one.
  Attempt* attempt_ = nullptr;
  CompletionThread::TimerId again_ = {};
};

}  // namespace rdmabroker::client

#endif  // CLIENT_UNARY_REQUESTS_H_
