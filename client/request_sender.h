// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_REQUEST_SENDER_H_
#define CLIENT_REQUEST_SENDER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "client/back_off.h"
#include "client/completion_thread.h"
#include "client/values.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

enum class RequestId : uint64_t {};
enum class EventNumber : uint64_t {};

using OutcomeReader = std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Outcome>>;
// Starts one attempt at a request, with the header given.
using StartAttempt = std::function<OutcomeReader(v1::Broker::Stub*, grpc::ClientContext*, const v1::RequestHeader&,
                                                 grpc::CompletionQueue*)>;

// The request that `message` is, by the stub's PrepareAsync function for it.
template <typename Message>
StartAttempt RequestOf(Message message, OutcomeReader (v1::Broker::Stub::*prepare)(grpc::ClientContext*, const Message&,
                                                                                   grpc::CompletionQueue*)) {
  return
      [message = std::move(message), prepare](v1::Broker::Stub* stub, grpc::ClientContext* context,
                                              const v1::RequestHeader& header, grpc::CompletionQueue* queue) mutable {
        *message.mutable_header() = header;
        OutcomeReader reader = (stub->*prepare)(context, message, queue);
        reader->StartCall();
        return reader;
      };
}

// Makes a session's requests: numbers them, keeps them within the broker's window, repeats those whose reply was lost,
// and brings each together with its outcome, whether that comes as the reply or as an event, and in whatever order.
// An outcome that overtakes its request's reply ends the request at once: the reply could only have said "pending", and
// what happened after it must not be told before it.
//
// On the completion thread only.
class RequestSender {
 public:
  // Called exactly once for each request. The message has the payload.
  using Done = std::function<void(const Outcome&, const v1::Outcome&)>;

  struct Request;
  // What is sent one after the other: the next when the one before has been answered, be it with "pending". Shared by
  // its owner and the requests in it.
  struct Lane {
    std::deque<std::shared_ptr<Request>> waiting;
    bool busy = false;
  };

  // `on_broken` is called when a request stays without an answer whatever is done; the session is of no use then.
  RequestSender(std::shared_ptr<CompletionThread> thread, v1::Broker::Stub* stub, std::function<void()> on_broken);
  ~RequestSender();

  // The session is there.
  void Open(uint64_t session_id, uint32_t answers_kept);
  // Between Suspend and Resume nothing is sent: the session has no stream.
  void Suspend() { sending_ = false; }
  void Resume();
  // What the next requests acknowledge.
  void set_acknowledged(EventNumber event) { acknowledged_ = event; }
  // As the last request that was made tells it.
  EventNumber told() const { return told_; }

  void Submit(const std::shared_ptr<Lane>& lane, StartAttempt start, Done done);
  // Unknown requests and repeated outcomes are ignored.
  void HandleOutcome(const v1::OutcomeEvent& event);
  // Ends every request, in order, and all that are submitted from now on. Cancels the calls.
  void End(const Outcome& outcome);

 private:
  struct Attempt;

  void Pump();
  void Send(const std::shared_ptr<Request>& request);
  void HandleReply(const Attempt& attempt);
  void SendAgain(const std::shared_ptr<Request>& request);
  void Repeat(const Attempt& attempt);
  void Answered(Request& request);
  void ReleaseLane(Request& request);
  void Finish(const std::shared_ptr<Request>& request, const v1::Outcome& message);
  void FinishWith(const std::shared_ptr<Request>& request, const Outcome& outcome, const v1::Outcome& message);

  const std::shared_ptr<CompletionThread> thread_;
  v1::Broker::Stub* const stub_;
  const std::function<void()> on_broken_;
  RandomBackOff back_off_;
  uint64_t session_id_ = 0;
  uint64_t window_ = 1;
  EventNumber acknowledged_ = {};
  EventNumber told_ = {};
  bool sending_ = false;
  uint64_t returns_ = 0;  // Of the session.
  std::unique_ptr<Outcome> ended_;
  uint64_t last_id_ = 0;
  size_t waiting_ = 0;
  std::deque<std::shared_ptr<Lane>> ready_;                   // Not busy, and something waits in it.
  std::set<RequestId> unanswered_;                            // Their reply has not come.
  std::map<RequestId, std::shared_ptr<Request>> unfinished_;  // Their outcome has not come.
  std::map<RequestId, std::shared_ptr<Request>> to_repeat_;   // After a while, or on Resume.
  std::set<Attempt*> attempts_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_REQUEST_SENDER_H_
