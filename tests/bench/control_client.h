// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_CONTROL_CLIENT_H_
#define TESTS_BENCH_CONTROL_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/protocol/batched_request.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"

namespace rdmabroker::bench {

// A completion queue whose tags are functions, for one thread.
class ClientLoop {
 public:
  using Done = std::function<void(bool ok)>;

  ~ClientLoop();
  grpc::CompletionQueue* queue() { return &queue_; }
  void* Tag(Done done) { return new Done(std::move(done)); }
  // Runs what completes until `over`; ends the process where nothing completes for a minute.
  void RunUntil(const std::function<bool()>& over);

 private:
  grpc::CompletionQueue queue_;
};

// Makes one asynchronous call; `prepare` is one of a stub's PrepareAsync functions with its stub bound. A call that
// fails ends the process.
template <typename Reply, typename Prepare>
void CallOn(ClientLoop& loop, const Prepare& prepare, std::function<void(const Reply&)> done) {
  struct Call {
    grpc::ClientContext context;
    Reply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  };
  auto call = std::make_shared<Call>();
  call->reader = prepare(&call->context, loop.queue());
  call->reader->StartCall();
  Call* const waiting = call.get();
  waiting->reader->Finish(&waiting->reply, &waiting->status,
                          loop.Tag([call = std::move(call), done = std::move(done)](bool) {
                            if (!call->status.ok()) {
                              std::fprintf(stderr, "a call failed: %s\n", call->status.error_message().c_str());
                              std::exit(1);
                            }
                            done(call->reply);
                          }));
}

// How a session's requests are made.
enum class Requests { kByRpc, kOnStream };

// A session on gRPC's asynchronous stubs, with no thread of its own: all that completes does so in the loop.
class ControlClient {
 public:
  using Then = std::function<void(const v1::Outcome&)>;

  // Opens a session; returns when it is open.
  ControlClient(ClientLoop& loop, std::shared_ptr<grpc::Channel> channel, Requests requests = Requests::kByRpc);
  // Ends it, and waits for the end.
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  void OnConnect(std::function<void(const v1::ConnectEvent&)> sink) { on_connect_ = std::move(sink); }
  void OnDisconnect(std::function<void(uint64_t connector)> sink) { on_disconnect_ = std::move(sink); }

  // `then` gets the final outcome, which is a success.
  template <typename Request>
  void Ask(std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Outcome>> (v1::Broker::Stub::*method)(
               grpc::ClientContext*, const Request&, grpc::CompletionQueue*),
           Request request, Then then) {
    const uint64_t id = ++last_request_;
    if (requests_ == Requests::kOnStream) {
      waiting_[id] = std::move(then);
      v1::BatchedRequest& item = *batch_.add_requests();
      item = client::InBatch(std::move(request));
      item.set_request_id(id);
      return;
    }
    request.mutable_header()->set_session_id(session_);
    request.mutable_header()->set_request_id(id);
    request.mutable_header()->set_acknowledged_event(last_event_);
    waiting_[id] = std::move(then);
    CallOn<v1::Outcome>(
        loop_,
        [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return (stub_.get()->*method)(context, request, queue);
        },
        [this, id](const v1::Outcome& outcome) {
          if (outcome.status() != v1::STATUS_PENDING) Finish(id, outcome);
        });
  }

  // Sends the requests that wait, unless others are on their way: then they go after those.
  void Flush();

  // Requests, whichever way they went.
  uint64_t calls() const { return last_request_; }
  uint64_t events() const { return last_event_; }

 private:
  void Read();
  void Take(const v1::SessionReply& reply);
  void Take(const v1::SessionEvent& event);
  void Finish(uint64_t request, const v1::Outcome& outcome);

  ClientLoop& loop_;
  const Requests requests_;
  const std::unique_ptr<v1::Broker::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::SessionRequest, v1::SessionReply>> stream_;
  v1::SessionReply reply_;
  uint64_t session_ = 0;
  uint64_t last_request_ = 0;
  uint64_t last_event_ = 0;
  v1::RequestBatch batch_;
  bool writing_ = false;
  bool ended_ = false;
  std::map<uint64_t, Then> waiting_;  // By request; those whose final outcome has not come.
  std::function<void(const v1::ConnectEvent&)> on_connect_;
  std::function<void(uint64_t)> on_disconnect_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_CONTROL_CLIENT_H_
