// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_SESSION_STREAM_H_
#define CLIENT_SESSION_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>

#include <functional>
#include <memory>

#include "client/completion_thread.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

// One call of Broker.Session. On the completion thread only; keeps itself alive until gRPC is done with it.
class SessionStream : public std::enable_shared_from_this<SessionStream> {
 public:
  struct Handlers {
    std::function<void()> on_sent;  // A message has gone, the first one included.
    std::function<void(const v1::SessionReply&)> on_reply;
    std::function<void(const grpc::Status&)> on_end;  // Exactly once, unless Abandon came first; nothing after it.
  };

  static std::shared_ptr<SessionStream> Start(std::shared_ptr<CompletionThread> thread, v1::Broker::Stub* stub,
                                              const v1::SessionRequest& first, Handlers handlers);

  // One more message, after on_sent of the one before.
  void Send(const v1::SessionRequest& message);
  // Breaks the call off, which ends soon, and calls no handler any more.
  void Abandon();

 private:
  using Step = void (SessionStream::*)(bool ok);
  struct StepTag final : CompletionThread::Tag {
    explicit StepTag(Step function) : step(function) {}
    void Complete(bool ok) override {
      const std::shared_ptr<SessionStream> stream = std::move(self);
      (stream.get()->*step)(ok);
    }
    const Step step;
    std::shared_ptr<SessionStream> self;  // While under way.
  };

  explicit SessionStream(std::shared_ptr<CompletionThread> thread) : thread_(std::move(thread)) {}
  void* Begin(StepTag* tag);
  void Started(bool ok);
  void Written(bool ok);
  void Received(bool ok);
  void Finished(bool ok);
  void FinishOnce();

  const std::shared_ptr<CompletionThread> thread_;
  Handlers handlers_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::SessionRequest, v1::SessionReply>> call_;
  v1::SessionRequest first_;
  bool broken_ = false;
  bool finishing_ = false;
  v1::SessionReply received_;
  grpc::Status status_;
  StepTag start_{&SessionStream::Started};
  StepTag write_{&SessionStream::Written};
  StepTag read_{&SessionStream::Received};
  StepTag finish_{&SessionStream::Finished};
};

}  // namespace rdmabroker::client

#endif  // CLIENT_SESSION_STREAM_H_
