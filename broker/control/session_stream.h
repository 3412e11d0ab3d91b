// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SESSION_STREAM_H_
#define BROKER_CONTROL_SESSION_STREAM_H_

#include <memory>

#include "absl/time/time.h"
#include "broker/control/batched_replies.h"
#include "broker/control/broker.h"
#include "broker/control/session_features.h"
#include "broker/control/unary_call.h"
#include "broker/runtime/warning_limit.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"

namespace rdmabroker {

// One Session call, from the moment that gRPC is asked for it until its last operation has completed; the operations
// under way own it. Events are not queued here: the session's queue in the core is the only one.
class SessionStream : public EventStream, public std::enable_shared_from_this<SessionStream> {
 public:
  struct Context {
    UnaryContext& unary;
    Watcher& watcher;
    Broker& broker;
    v1::Broker::AsyncService& service;
    // How long a client may take to say who it is, and how long it may leave what was sent to it unread. A frozen
    // client with nothing to read is not stuck.
    absl::Duration patience = absl::Seconds(10);
    WarningLimit unread = {};  // Of streams that end since their clients do not read.
  };

  // Waits for the next Session call, and after it for the one after that, until the server shuts down.
  static void Serve(Context& context);

  explicit SessionStream(Context& context) : context_(context) {}

  void EventsWait() override { SendNext(); }
  void Answered(const ClientRequest& request, const Outcome& outcome) override;
  void End(StreamEnding ending) override;

 private:
  void Wait();
  void Start(bool ok);
  void Read();
  void TakeMessage(bool ok);
  // The client has said all that it wants to. It still hears how its requests were answered.
  void LeaveOnceAnswered();
  void OpenOrResume();
  void TakeLaterMessage();
  // Handles some of the message's requests, then lets others have their turn before the rest.
  void TakeRequests();
  // Takes the next requests or the next message, unless too many answers wait for a message that is being written.
  void GoOn();
  void SendOpened(bool resumed, const SessionSecret& secret);
  // Null where it has ended.
  const SessionRecord* Session() const;
  // Sends what waits to be told, unless a message is being written.
  void SendNext();
  bool FillEvent(const SessionRecord& session);
  void Write();
  void Written(bool ok);
  // There is to be no session.
  void Refuse(const Outcome& refusal);
  // Ends the call with `status` as soon as no message is being written.
  void Finish(grpc::Status status);
  void FinishNow();
  // The call ends without the client having had a say: what is unread is lost.
  void Abandon();
  void LeaveSession(StreamEnd end);

  Context& context_;
  grpc::ServerContext call_;
  grpc::ServerAsyncReaderWriter<v1::SessionReply, v1::SessionRequest> stream_{&call_};
  v1::SessionRequest message_;
  v1::SessionReply reply_;
  std::shared_ptr<const Caller> caller_;
  SessionId session_;  // 0 before it is opened and after the session is left.
  EventNumber sent_;   // The last event given to gRPC.
  Features features_;
  BatchedReplies replies_;
  int next_request_ = 0;  // The first request of the message that has not been handled.
  bool taking_ = false;   // Requests are being handled, of which all is told together.
  bool held_up_ = false;  // Nothing is read or handled until the write under way has ended.
  bool greeted_ = false;  // The first message has come.
  bool half_closed_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool abandoned_ = false;
  grpc::Status final_status_;
  TimerId patience_ = TimerId::kNone;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SESSION_STREAM_H_
