// SPDX-License-Identifier: Apache-2.0

#include "broker/core/messages.h"

namespace rdmabroker {

// Defined here for the reason that requests.cc gives.

Event::Event() = default;
Event::Event(const Event&) = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(const Event&) = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;
bool Event::operator==(const Event& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

Effect::Effect() = default;
Effect::Effect(const Effect&) = default;
Effect::Effect(Effect&&) noexcept = default;
Effect& Effect::operator=(const Effect&) = default;
Effect& Effect::operator=(Effect&&) noexcept = default;
Effect::~Effect() = default;
bool Effect::operator==(const Effect& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

}  // namespace rdmabroker
