// SPDX-License-Identifier: Apache-2.0

// The records of a store, with right checksums: they are refused, or a core goes on from them, whatever happens next.
// The first byte chooses what happens; then come the records, each a byte for the kind, eight for the id, two for
// the number, two for the length, and the message.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/core/broker_core.h"
#include "broker/core/testing/alphabet.h"
#include "broker/store/format.h"
#include "broker/store/record_loader.h"
#include "broker/store/round_trip_for_test.h"
#include "tests/fuzz.h"

namespace rdmabroker::store {
namespace {

using Entries = std::map<std::string, std::string>;  // Messages by their keys, in the order of a store.

std::string Text(const KeyBytes& key) { return {key.data(), key.size()}; }

Entries ReadInput(FuzzInput& input) {
  Entries entries;
  while (!input.empty()) {
    Key key;
    key.kind = static_cast<Kind>(input.Byte() % (static_cast<uint8_t>(kLastKind) + 1));
    key.id = input.Whole<uint64_t>();
    key.number = input.Whole<uint16_t>();
    const auto message = input.Piece(input.Whole<uint16_t>());
    entries[Text(ToBytes(key))] = std::string(message.begin(), message.end());
  }
  return entries;
}

// With what a header says of the others, so that they are read whatever they are.
std::string HeaderOf(const Entries& entries, const std::string& message) {
  store::v1::Header header;
  (void)header.ParseFromString(message);
  header.set_format_version(kFormatVersion);
  header.set_records(entries.size() - 1);
  uint64_t sum = 0;
  for (const auto& [key, value] : entries) {
    if (key != Text(ToBytes({Kind::kHeader}))) sum += ChecksumOf(key, value);
  }
  header.set_checksums(sum);
  return header.SerializeAsString();
}

absl::StatusOr<RecordLoader::Loaded> Load(Entries entries) {
  std::string& header = entries[Text(ToBytes({Kind::kHeader}))];
  header = HeaderOf(entries, header);
  RecordLoader loader;
  for (const auto& [key, message] : entries) {
    std::string value(kChecksumSize, '\0');
    PutChecksum(ChecksumOf(key, message), value.data());
    if (absl::Status taken = loader.Take(key, value + message); !taken.ok()) return taken;
  }
  return loader.Finish();
}

void Check(const BrokerCore& core, bool within_limits) {
  const absl::Status restored = BrokerCore::Restore(core.limits(), core.records()).status();
  Require(restored.ok(), restored.ToString());
  if (within_limits) Require(core.CheckInvariants().ok(), core.CheckInvariants().ToString());
}

void GoOn(BrokerCore core, uint8_t seed) {
  constexpr uint64_t kSteps = 4;
  // Whoever has more than the limits allow keeps it, and who has not been told of them has none.
  const auto& sessions = core.records().sessions;
  const bool within_limits =
      core.CheckInvariants().ok() && std::all_of(sessions.begin(), sessions.end(), [&](const auto& session) {
        return session.second.answers_kept >= core.limits().answers_kept;
      });
  (void)core.Handle(core.records().now, rdmabroker::Recover{});
  Check(core, within_limits);
  std::minstd_rand random(seed + 1U);
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<Move> moves = AlphabetOf(core, 1'000'000 + step);
    const Move& move = moves[random() % moves.size()];
    (void)core.Handle(move.now, move.event);
    Check(core, within_limits);
  }
}

}  // namespace
}  // namespace rdmabroker::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::store;
  FuzzInput input(data, size);
  const uint8_t seed = input.Byte();
  const auto loaded = Load(ReadInput(input));
  Require(loaded.ok() || absl::IsDataLoss(loaded.status()), "what cannot be read is damaged");
  if (!loaded.ok()) return 0;
  const Records& records = loaded->stored.records;
  Changes all;
  all.all = true;
  const absl::Status same = CheckRoundTrips(records, all);
  Require(same.ok(), same.ToString());
  auto core = BrokerCore::Restore(Limits(), records);
  Require(core.ok() || absl::IsInvalidArgument(core.status()), "what contradicts itself is refused");
  if (core.ok()) GoOn(*std::move(core), seed);
  return 0;
}
