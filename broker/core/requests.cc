// SPDX-License-Identifier: Apache-2.0

#include "broker/core/requests.h"

namespace rdmabroker {

// The compiler needs seconds for these functions, because the variants have many alternatives. Defined here, they are
// compiled once instead of in each file that uses the types.

Request::Request() = default;
Request::Request(const Request&) = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(const Request&) = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;
bool Request::operator==(const Request& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

Payload::Payload() = default;
Payload::Payload(const Payload&) = default;
Payload::Payload(Payload&&) noexcept = default;
Payload& Payload::operator=(const Payload&) = default;
Payload& Payload::operator=(Payload&&) noexcept = default;
Payload::~Payload() = default;
bool Payload::operator==(const Payload& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

SessionEvent::SessionEvent() = default;
SessionEvent::SessionEvent(const SessionEvent&) = default;
SessionEvent::SessionEvent(SessionEvent&&) noexcept = default;
SessionEvent& SessionEvent::operator=(const SessionEvent&) = default;
SessionEvent& SessionEvent::operator=(SessionEvent&&) noexcept = default;
SessionEvent::~SessionEvent() = default;
bool SessionEvent::operator==(const SessionEvent& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

}  // namespace rdmabroker
