// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_BROKER_H_
#define BROKER_CONTROL_BROKER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "broker/control/caller.h"
#include "broker/control/client_processes.h"
#include "broker/control/gate.h"
#include "broker/control/life_log.h"
#include "broker/core/messages.h"
#include "broker/runtime/core_runner.h"

namespace rdmabroker {

// Why the broker ends a stream.
enum class StreamEnding : uint8_t {
  kClosed,    // The client closed its session.
  kEnded,     // Somebody else ended the session, or its stream was replaced by another.
  kStopping,  // The broker stops; another process goes on with the session.
};

// A session's stream, as the broker uses it.
class EventStream {
 public:
  virtual ~EventStream() = default;

  // There are events in the session's queue that this stream has not sent.
  virtual void EventsWait() = 0;
  // The broker has answered a request that came on this stream.
  virtual void Answered(const ClientRequest& request, const Outcome& outcome) = 0;
  // Sends what is under way, then ends. The broker has forgotten the stream.
  virtual void End(StreamEnding ending) = 0;

 private:
  friend class Broker;
  StreamId id_;  // 0 while it is nobody's.
};

// The loop thread's middle: translates between who calls (connections, streams) and what the core knows (sessions). The
// services call it; it runs the core.
class Broker {
 public:
  Broker(BrokerCore core, Loop& loop, CoreRunner::Commit commit, CoreRunner::Observer observer, Policy policy,
         AuditLevel audit);

  // Once: starts the fabrics, with which the core goes on. Clients of the process before return now or never.
  void Recover(std::vector<std::unique_ptr<Fabric>> fabrics);
  const BrokerCore& core() const { return runner_.core(); }
  // As the core's (broker_core.h).
  void SetLimits(const Limits& limits) { runner_.SetLimits(limits); }
  // What clients' requests are held against.
  Gate& gate() { return gate_; }

  // The session's number, or why there is none. `stream` is the session's until CloseStream, or until it is ended.
  using Opened = std::variant<SessionId, Outcome>;
  Opened Open(EventStream& stream, std::shared_ptr<const Caller> caller, const SessionSecret& secret,
              AddressNews address_news);
  // `lineage` is that of the records which the client has the session from; 0: it does not say.
  Opened Resume(EventStream& stream, std::shared_ptr<const Caller> caller, SessionId session,
                const SessionSecret& secret, EventNumber acknowledged, uint64_t lineage, AddressNews address_news);

  // The stream is gone. Nothing for a stream that the broker has ended.
  void CloseStream(EventStream& stream, StreamEnd end);
  // The client says goodbye, or an administrator says it for him. False where there is no such session.
  bool EndSession(SessionId session, StreamEnding ending);
  // For an administrator.
  void SwitchDevice(DeviceId device, bool enabled);
  // False where `acknowledged` was never sent.
  bool Acknowledge(SessionId session, EventNumber acknowledged);

  // A client's request that came by an RPC. INVALID_PARAMETER where it names no session, OBJECT_NAME_NOT_FOUND where
  // the user has none such, and ACCESS_DENIED where it does not come on the connection of the session's stream. A new
  // one passes the gate; what that refuses is the core's answer, kept for repeats. `answer` is called once: now, or at
  // the end of this turn of the loop.
  using Answerer = std::function<void(const Outcome&)>;
  void Ask(const Caller& caller, ClientRequest request, Answerer answer);
  // A request that came on the stream of its session. The stream hears the answer at the end of this turn, after those
  // of the requests before.
  void Ask(EventStream& stream, ClientRequest request);

  // As the fabrics' (fabric.h).
  void MakeWay() { runner_.MakeWay(); }
  bool HasHandshakes() const { return runner_.HasHandshakes(); }

  // As CoreRunner's.
  void Follow(CoreRunner::ChangeFollower follower) { runner_.Follow(std::move(follower)); }

  // Ends every stream and opens none any more.
  void StopStreams();

 private:
  struct Attached {
    EventStream* stream = nullptr;
    SessionId session;
    std::shared_ptr<const Caller> caller;
  };

  Opened Attach(EventStream& stream, std::shared_ptr<const Caller> caller, const Event& event);
  // Has a new request pass the gate. Requests before it count.
  void Prepare(Event& event);
  void Answered(const ClientRequest& request, const Outcome& outcome);
  void Carry(const Event& cause, const Effect& effect);
  void Detach(StreamId id, StreamEnding ending);

  bool End(SessionId session, StreamEnding ending, SessionEndedBy by);

  CoreRunner runner_;
  Gate gate_;
  ClientProcesses processes_;
  bool stopping_ = false;
  uint64_t last_stream_ = 0;
  std::unordered_map<uint64_t, Attached> streams_;  // By StreamId.
  // Of the sessions that the event at hand ends.
  StreamEnding ending_ = StreamEnding::kEnded;
  absl::string_view why_;
  LifeLog life_;
  // Where to send the answers that the core owes. The core answers requests in their order.
  std::deque<std::variant<Answerer, StreamId>> asked_;
  // How the event at hand was answered.
  std::optional<Opened> opened_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_BROKER_H_
