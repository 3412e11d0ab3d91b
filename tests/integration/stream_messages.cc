// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/stream_messages.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_interceptor.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <string_view>

#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {
namespace {

namespace grpc_hooks = grpc::experimental;

v1::SessionRequest Parsed(const grpc::ByteBuffer& message) {
  grpc::Slice octets;
  v1::SessionRequest request;
  EXPECT_TRUE(message.DumpToSingleSlice(&octets).ok());
  EXPECT_TRUE(request.ParseFromArray(octets.begin(), static_cast<int>(octets.size())));
  return request;
}

// What was counted lives as long as the process, like gRPC's pointer to it.
class StreamCounter final : public grpc_hooks::ClientInterceptorFactoryInterface {
 public:
  grpc_hooks::Interceptor* CreateClientInterceptor(grpc_hooks::ClientRpcInfo* info) override {
    if (std::string_view(info->method()) != "/rdmabroker.v1.Broker/Session") return new OtherCall;
    const std::lock_guard lock(mutex_);
    return new Stream(*this, &streams_.emplace_back());
  }

  size_t streams() {
    const std::lock_guard lock(mutex_);
    return streams_.size();
  }
  StreamMessages Of(size_t index) {
    const std::lock_guard lock(mutex_);
    return streams_.at(index);
  }

 private:
  using Methods = grpc_hooks::InterceptorBatchMethods;
  using Point = grpc_hooks::InterceptionHookPoints;

  class OtherCall final : public grpc_hooks::Interceptor {
    void Intercept(Methods* methods) override { methods->Proceed(); }
  };

  class Stream final : public grpc_hooks::Interceptor {
   public:
    Stream(StreamCounter& counter, StreamMessages* messages) : counter_(counter), messages_(messages) {}

    void Intercept(Methods* methods) override {
      if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE)) {
        const bool acknowledges = Parsed(*methods->GetSerializedSendMessage()).has_acknowledge();
        const std::lock_guard lock(counter_.mutex_);
        ++(acknowledges ? messages_->acknowledgements : messages_->to_broker);
      }
      // At the stream's end there is none.
      if (methods->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE) && methods->GetRecvMessage() != nullptr) {
        const std::lock_guard lock(counter_.mutex_);
        ++messages_->to_client;
      }
      methods->Proceed();
    }

   private:
    StreamCounter& counter_;
    StreamMessages* const messages_;
  };

  std::mutex mutex_;
  std::deque<StreamMessages> streams_;  // Guarded by mutex_; each stays where it is.
};

StreamCounter& TheCounter() {
  static auto* const kCounter = new StreamCounter;
  return *kCounter;
}

}  // namespace

void CountStreamMessages() { grpc_hooks::RegisterGlobalClientInterceptorFactory(&TheCounter()); }

size_t CountedStreams() { return TheCounter().streams(); }

StreamMessages MessagesOfStream(size_t index) { return TheCounter().Of(index); }

}  // namespace rdmabroker
