// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TALLY_H_
#define BROKER_CORE_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "dataplane/ndk/status.h"

namespace rdmabroker {

// Which end of a connection is a client of this broker.
enum class Side : uint8_t { kActive, kPassive };

// Why a handshake has ended by a refusal.
enum class Refusal : uint8_t {
  kPeer,        // Active: the peer's, or of what is in the peer's place.
  kClient,      // The client rejected, or closed what it had to decide upon.
  kNoListener,  // From here on passive, before a client learns of it: nobody listens there any more.
  kPaused,      // The listener is.
  kClosing,     // Likewise; by Accept, too, where limits.accept_on_closing_listener is false.
  kBacklog,     // limits.backlog.
  kRemoved,     // The device is gone.
  kEvents,      // limits.events_kept: the client acknowledges nothing.
  kQuota,       // limits.connectors_per_session, objects_per_uid, kept_bytes_per_uid.
};
inline constexpr size_t kRefusals = static_cast<size_t>(Refusal::kQuota) + 1;

// What a core has decided since it was made or restored, for whoever shows it. It decides nothing by it, and it is no
// part of the records: the next process's begins anew.
struct Tally {
  std::array<uint64_t, 2> handshakes = {};                       // Established, by Side.
  std::map<std::pair<Side, NdkStatus>, uint64_t> failures;       // Of those that count as ConnectionCounts' do.
  std::array<std::array<uint64_t, kRefusals>, 2> refusals = {};  // By Side and Refusal.

  void Fail(Side side, NdkStatus status) { ++failures[{side, status}]; }
  void Refuse(Side side, Refusal refusal) { ++refusals[static_cast<size_t>(side)][static_cast<size_t>(refusal)]; }
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_TALLY_H_
