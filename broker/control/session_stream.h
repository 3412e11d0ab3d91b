// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SESSION_STREAM_H_
#define BROKER_CONTROL_SESSION_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "broker/control/batched_replies.h"
#include "broker/control/broker.h"
#include "broker/control/gate.h"
#include "broker/control/server_stream.h"
#include "broker/control/services.h"
#include "broker/control/session_features.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/warning_limit.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {

// One Session call. Events are not queued here: the session's queue in the core is the only one.
class SessionStream final : public ServerStream, public EventStream {
 public:
  struct Context {
    Loop& loop;
    Broker& broker;
    Metrics& metrics;
    // How long a client may take to say who it is, and how long it may leave what was sent to it unread. A frozen
    // client with nothing to read is not stuck.
    const absl::Duration& patience;
    WarningLimit unread = {};  // Of streams that end since their clients do not read.
  };

  // Serves the method. The context must outlive the services.
  static void Serve(Services& services, Context& context);

  SessionStream(Context& context, const BegunCall& call, std::shared_ptr<const Caller> caller);
  ~SessionStream() override;

  void EventsWait() override { SendSoon(); }
  void Answered(const ClientRequest& request, const Outcome& outcome) override;
  void End(StreamEnding ending) override;
  void Ended(std::optional<rpc::CallLost::Why> why) override;
  [[nodiscard]] bool IsBusy() const override { return unanswered_ > 0 || HasMoreToAsk(); }
  [[nodiscard]] size_t held() const override;

 private:
  void Start();
  void TakeMessage(const std::string& message) override;
  void TakeHalfClose() override;
  void Written() override;
  void Unread() override;

  // Sends the answers that wait, then leaves the session and ends the call with `last_`.
  void FinishOnceAnswered();
  void OpenOrResume();
  void TakeLaterMessage();
  // Asks for some of the message's requests. Others have their turn before the rest.
  void TakeRequests();
  void ForgetMessage();
  // The events that an acknowledgement drops take their time, too.
  void OweFor(EventNumber acknowledged);
  [[nodiscard]] bool HasMoreToAsk() const { return next_request_ < message_.requests().requests_size(); }
  // The broker has answered all requests that the stream has asked for.
  void AllAnswered();
  // Takes the next requests or the next message, unless requests are being handled or too many answers wait for a
  // message that is under way.
  void GoOn();
  void SendOpened(bool resumed, const SessionSecret& secret);
  // Null where it has ended.
  const SessionRecord* Session() const;
  // Null where the session has no events any more, too.
  const SessionRecord* SessionWithEvents() const;
  // Has SendNext called once this turn's events have been handled.
  void SendSoon();
  // Sends what waits to be told, unless a message is under way.
  void SendNext();
  bool FillEvent(const SessionRecord* session, v1::SessionReply* reply);
  // There is to be no session.
  void Refuse(const Outcome& refusal);
  void FinishWith(const Outcome& outcome);
  void LeaveSession(StreamEnd end);

  Context& context_;
  v1::SessionRequest message_;
  const std::shared_ptr<const Caller> caller_;
  SessionId session_;  // 0 before it is opened and after the session is left.
  EventNumber sent_;   // The last event that was sent.
  Features features_;
  BatchedReplies replies_;
  int next_request_ = 0;     // The first request of the message that was not asked for.
  size_t unanswered_ = 0;    // Requests that the broker has not answered yet.
  uint64_t last_asked_ = 0;  // The id of the last request that was asked for, or was malformed.
  bool sends_soon_ = false;  // SendNext is due in this turn.
  bool held_up_ = false;     // Reading waits until the message under way has left.
  bool greeted_ = false;     // The first message has arrived.
  // The call's status, once the client has half-closed the call or the broker has ended the stream.
  std::optional<rpc::Status> last_;
  TimerId greeting_ = TimerId::kNone;  // Until the first message.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SESSION_STREAM_H_
