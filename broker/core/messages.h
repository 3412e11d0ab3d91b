// SPDX-License-Identifier: Apache-2.0

// Everything that can happen to the core, and everything it can want done.

#ifndef BROKER_CORE_MESSAGES_H_
#define BROKER_CORE_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "broker/core/fabric_messages.h"
#include "broker/core/ids.h"
#include "broker/core/requests.h"
#include "broker/core/secrets.h"

namespace rdmabroker {

// Who a client is, from the kernel (SO_PEERCRED). pid 0: not visible from here.
struct Identity {
  uint32_t uid = 0;
  uint32_t gid = 0;
  int32_t pid = 0;

  bool operator==(const Identity&) const = default;
};

// --- Events from the control layer ---

// The objects about whose addresses a session gets AddressEvents.
enum class AddressNews : uint8_t { kNone, kOfListeners, kOfAll };

// Answered by SessionOpened or SessionRefused.
struct OpenSession {
  StreamId stream;
  Identity identity;
  SessionSecret secret;
  AddressNews address_news = AddressNews::kNone;

  bool operator==(const OpenSession&) const = default;
};

// A client returns on a new stream; the session's older stream, if it has one still, loses it. Answered by
// SessionOpened, then the events after `acknowledged` again; or SessionRefused.
struct ResumeSession {
  StreamId stream;
  SessionId session;
  Identity identity;
  SessionSecret secret;
  EventNumber acknowledged;
  AddressNews address_news = AddressNews::kNone;

  bool operator==(const ResumeSession&) const = default;
};

enum class StreamEnd : uint8_t {
  kClient,  // The client closed it or died: the session ends.
  kBroker,  // The broker ended it: the session has its grace period to come back.
};

struct StreamLost {
  SessionId session;
  StreamId stream;
  StreamEnd end = StreamEnd::kClient;

  bool operator==(const StreamLost&) const = default;
};

// For log and metrics; the core ignores it.
enum class SessionEndedBy : uint8_t {
  kAdministrator,
  kGoodbye,     // The client has closed it.
  kClientGone,  // Its process has ended.
};

// An administrator's doing, or what amounts to it.
struct EndSession {
  SessionId session;
  SessionEndedBy by = SessionEndedBy::kAdministrator;

  bool operator==(const EndSession&) const = default;
};

// Likewise: no more adapters are opened on the device until it is enabled, and the consumers of those that are open are
// told. Nothing for a device that is not there, or is so already.
struct DisableDevice {
  DeviceId device;

  bool operator==(const DisableDevice&) const = default;
};

struct EnableDevice {
  DeviceId device;

  bool operator==(const EnableDevice&) const = default;
};

// A request of a client whom the control layer has identified as the session's. Answered by exactly one Answer.
struct ClientRequest {
  SessionId session;
  RequestId id;
  EventNumber acknowledged;  // The client has dealt with every event up to this one.
  Request request;
  // That the client may not do this, and why: the answer, in place of the deed. A repeat of a request that was answered
  // before has that answer still.
  std::optional<Outcome> refusal = std::nullopt;

  bool operator==(const ClientRequest&) const = default;
};

struct AcknowledgeEvents {
  SessionId session;
  EventNumber acknowledged;

  bool operator==(const AcknowledgeEvents&) const = default;
};

// Time has passed: deadlines up to now are due.
struct DeadlineReached {
  bool operator==(const DeadlineReached&) const = default;
};

// The first event of a core that goes on where another process's was: the streams have gone with that, what the fabrics
// had is to be taken over, and what was asked of them may have been done or not. It may come again, to the next
// process.
struct Recover {
  bool operator==(const Recover&) const = default;
};

struct Event : std::variant<OpenSession, ResumeSession, StreamLost, EndSession, DisableDevice, EnableDevice,
                            ClientRequest, AcknowledgeEvents, DeadlineReached, Recover, FabricReport> {
  using variant::variant;
  Event();
  Event(const Event&);
  Event(Event&&) noexcept;
  Event& operator=(const Event&);
  Event& operator=(Event&&) noexcept;
  ~Event();
  bool operator==(const Event& other) const;
};

// --- Effects on the control layer ---

// The stream is the session's. It sends all events that the session keeps and that are not acknowledged.
struct SessionOpened {
  StreamId stream;
  SessionId session;

  bool operator==(const SessionOpened&) const = default;
};

struct SessionRefused {
  StreamId stream;
  Outcome outcome;

  bool operator==(const SessionRefused&) const = default;
};

struct Answer {
  SessionId session;
  RequestId id;
  Outcome outcome;

  bool operator==(const Answer&) const = default;
};

// A new event of the session, for its stream. Numbers rise by one. The session keeps the event until it is
// acknowledged.
struct NumberedEvent {
  SessionId session;
  StreamId stream;  // 0 where it has none; then the event is sent when it has one again.
  EventNumber number;
  SessionEvent event;

  bool operator==(const NumberedEvent&) const = default;
};

// The session is over for its client: end the stream, if there is one. Its objects may still be closing.
struct SessionEnded {
  SessionId session;
  StreamId stream;  // 0 where it has none.

  bool operator==(const SessionEnded&) const = default;
};

// The session has moved to another stream: end this one.
struct StreamReplaced {
  StreamId stream;

  bool operator==(const StreamReplaced&) const = default;
};

struct Effect
    : std::variant<SessionOpened, SessionRefused, Answer, NumberedEvent, SessionEnded, StreamReplaced, FabricRequest> {
  using variant::variant;
  Effect();
  Effect(const Effect&);
  Effect(Effect&&) noexcept;
  Effect& operator=(const Effect&);
  Effect& operator=(Effect&&) noexcept;
  ~Effect();
  bool operator==(const Effect& other) const;
};

// In the order in which they must be carried out.
using Effects = std::vector<Effect>;

}  // namespace rdmabroker

#endif  // BROKER_CORE_MESSAGES_H_
