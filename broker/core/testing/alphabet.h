// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_ALPHABET_H_
#define BROKER_CORE_TESTING_ALPHABET_H_

#include <cstdint>
#include <vector>

#include "broker/core/broker_core.h"

namespace rdmabroker {

struct Move {
  Instant now;
  Event event;
};

// The events that are tried in a state: every kind of event, every kind of request from every session, and every kind
// of report, about each object, endpoint and connection that is there, or about unknown ones where there is none. What
// a contract forbids is among them. `serial` tells this place in a sequence from others: new streams take their number
// from it.
std::vector<Move> AlphabetOf(const BrokerCore& core, uint64_t serial);

// The device that the alphabet's events speak of.
Device AlphabetDevice(DeviceId id, bool second_address);
OpenSession AlphabetSession(StreamId stream);

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_ALPHABET_H_
