// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_PROTOCOL_SESSION_PROTOCOL_H_
#define CLIENT_PROTOCOL_SESSION_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "client/back_off.h"
#include "client/protocol/request_queue.h"
#include "client/protocol/transport.h"
#include "client/values.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

// The client's side of a session, without input, output, clock or thread: it is told of messages and of the time, and
// tells a Transport what to send and its owner what happens. It opens the session, returns to it when its stream is
// lost, makes the requests, acknowledges events, and closes it. Not thread-safe. Its owner's functions may call it.
class SessionProtocol {
 public:
  using Clock = std::chrono::steady_clock;
  using Instant = Clock::time_point;
  static constexpr Instant kNever = Instant::max();

  class Owner {
   public:
    virtual ~Owner() = default;
    // Once, unless the session is over before.
    virtual void Opened() = 0;
    // Every event but requests' outcomes, each once and in order.
    virtual void Happened(const v1::SessionEvent& event) = 0;
    // No session was opened, or it is over, and not by Close. Its requests end next.
    virtual void Over(const Outcome& outcome) = 0;
    // After Over: its requests have ended. Nothing follows.
    virtual void Ended(const Outcome& outcome) = 0;
    // The session is closed, and its requests have ended. Nothing follows.
    virtual void Closed() = 0;
  };

  struct Settings {
    std::chrono::milliseconds open_timeout;
    std::string control_socket;  // For hints.
  };

  SessionProtocol(Transport& transport, Owner& owner, Settings settings, RandomBackOff back_off = RandomBackOff());
  SessionProtocol(const SessionProtocol&) = delete;
  SessionProtocol& operator=(const SessionProtocol&) = delete;

  // Once, before all else.
  void Open(Instant now);
  // Makes a request, whose number it chooses. `done` is called once, also within this call.
  void Ask(v1::BatchedRequest request, RequestQueue::Done done, Instant now);
  // Ends the session and tells the broker. False: there is nothing to tell; FinishClose is the owner's to call.
  bool Close(Instant now);
  void FinishClose();

  // From the transport.
  void Sent(Instant now);
  void Received(const v1::SessionReply& reply, Instant now);
  void StreamEnded(const StreamEnd& end, Instant now);

  // When HandleTime is to be called next; it changes with any call.
  Instant NextDeadline() const;
  void HandleTime(Instant now);

  // As the broker has opened it.
  const v1::SessionOpened& session() const { return session_; }
  // Whether it is over since the broker has lost it with its records, which ends no connection.
  bool forgotten() const { return forgotten_; }

 private:
  enum class State { kOpening, kOpen, kAway, kClosing, kOver };

  void HandleOpened(const v1::SessionOpened& opened, Instant now);
  void HandleBatch(const v1::ReplyBatch& batch, Instant now);
  void HandleEvent(const v1::SessionEvent& event, Instant now);
  void HandleDeadline();
  void HandleAcknowledgeTime(Instant now);
  void HandleSilence(Instant now);
  void AwaitAnswers(Instant now);
  // Sends what is due, if the transport takes anything.
  void Pump(Instant now);
  bool FillNext(v1::SessionRequest* message, Instant now);
  void Return();
  void ScheduleReturn(Instant now);
  // Whether a stream that has ended so is worth another one.
  bool AnotherBrokerMayCome(const StreamEnd& end);
  Outcome OutcomeOf(const StreamEnd& end) const;
  void End(const Outcome& outcome);
  void StopWaiting();
  void AbandonStream();

  Transport& transport_;
  Owner& owner_;
  const Settings settings_;
  RandomBackOff back_off_;

  State state_ = State::kOpening;
  v1::SessionOpened session_;
  RequestQueue requests_;
  bool streaming_ = false;  // There is a stream.
  bool busy_ = false;       // It takes no message now.
  bool handling_ = false;   // A reply's parts; what they lead to is sent together.
  bool close_to_send_ = false;
  bool returns_to_close_ = false;  // The session is closed while it is away.
  bool acknowledge_now_ = false;
  bool forgotten_ = false;
  uint64_t last_event_ = 0;  // The last one that was dealt with.
  uint64_t told_ = 0;        // The last one of which the broker has been told that.
  uint64_t told_then_ = 0;   // As told_ was when acknowledge_at_ was set.
  Instant acknowledge_at_ = kNever;
  Instant return_at_ = kNever;
  Instant deadline_ = kNever;   // Of opening, of returning, of closing.
  Instant answer_by_ = kNever;  // The broker takes a request by then, or it is silent once more.
  int silences_ = 0;
  int returns_ = 0;    // Attempts since the stream was lost, or opening began.
  int fruitless_ = 0;  // Streams that were lost in a row with requests of which none was taken.
  Instant fruitless_since_;
  std::optional<Outcome> turned_away_;  // What an attempt to open has come to.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_PROTOCOL_SESSION_PROTOCOL_H_
