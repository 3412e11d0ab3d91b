// SPDX-License-Identifier: Apache-2.0

// Events and effects as sentences. What ToText says of an event, ParseEvent understands: a trace that a test prints is
// a scenario that can be kept in tests/scenarios.

#ifndef BROKER_CORE_TESTING_TEXT_H_
#define BROKER_CORE_TESTING_TEXT_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "broker/core/messages.h"

namespace rdmabroker {

// "session 1, request 3, seen 2: accept connector 1 with QP 17, reads 4/16, data "hello"". DeadlineReached is
// "the clock strikes"; when that is belongs to whoever keeps the time.
std::string ToText(const Event& event);

// One line, with everything that the effect carries.
std::string ToText(const Effect& effect);

std::string ToText(const Outcome& outcome);

// What a client's request says where its sentence does not.
struct ClientDefaults {
  std::map<SessionId, RequestId> next_request;
  std::map<SessionId, EventNumber> seen;
};

// INVALID_ARGUMENT, naming the word that is not understood.
absl::StatusOr<Event> ParseEvent(std::string_view line, const ClientDefaults& defaults);

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_TEXT_H_
