// SPDX-License-Identifier: Apache-2.0

// Records with right checksums that contradict each other: Restore refuses them, or the core recovers from them. An
// exception would end every later broker at its start.

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/broker_core.h"
#include "broker/core/testing/alphabet.h"
#include "broker/core/testing/random_walk.h"
#include "broker/store/record_codec.h"

namespace rdmabroker::store {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Changes single fields of records by chance.
class Damage {
 public:
  explicit Damage(uint32_t seed) : random_(seed) {}

  // False: the changed record cannot be decoded, or there is none.
  bool ChangeOne(Records* records) {
    switch (random_() % 9) {
      case 0:
        return ChangeOneOf<v1::Device>(&records->devices);
      case 1:
        return ChangeOneOf<v1::Session>(&records->sessions);
      case 2:
        return ChangeOneOf<v1::Adapter>(&records->adapters);
      case 3:
        return ChangeOneOf<v1::Listener>(&records->listeners);
      case 4:
        return ChangeOneOf<v1::SharedEndpoint>(&records->shared_endpoints);
      case 5:
        return ChangeOneOf<v1::Reservation>(&records->reservations);
      case 6:
        return ChangeOneOf<v1::Connector>(&records->connectors);
      case 7:
        return ChangeOneOf<v1::Endpoint>(&records->endpoints);
      default:
        return ChangeOneOf<v1::Connection>(&records->connections);
    }
  }
  // The field that was changed last.
  const std::string& changed() const { return changed_; }
  std::mt19937& random() { return random_; }

 private:
  template <typename Stored, typename Key, typename Record>
  bool ChangeOneOf(Table<Key, Record>* table) {
    if (table->empty()) return false;
    const Key key = std::next(std::as_const(*table).begin(), static_cast<ptrdiff_t>(random_() % table->size()))->first;
    Stored message;
    ToProto(std::as_const(*table).at(key), &message);
    ChangeField(&message);
    Record record = std::as_const(*table).at(key);  // Sessions' answers and events are messages of their own.
    if (!FromProto(message, &record).ok()) return false;
    table->at(key) = record;
    return true;
  }

  void ChangeField(Message* message) {
    const auto* const descriptor = message->GetDescriptor();
    const Reflection* const reflection = message->GetReflection();
    const FieldDescriptor* const field = descriptor->field(static_cast<int>(random_() % descriptor->field_count()));
    changed_ = field->full_name();
    if (field->is_repeated() || random_() % 8 == 0) return reflection->ClearField(message, field);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection->SetUInt32(message, field, Number());
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection->SetUInt64(message, field, Number());
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection->SetInt64(message, field, Number());
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection->SetBool(message, field, !reflection->GetBool(*message, field));
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection->SetEnumValue(message, field, static_cast<int>(Number()));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ChangeField(reflection->MutableMessage(message, field));
      default:
        return reflection->ClearField(message, field);
    }
  }

  // Most often that of another record.
  uint32_t Number() { return random_() % 10 == 0 ? random_() : random_() % 8; }

  std::mt19937 random_;
  std::string changed_;
};

void Recover(BrokerCore core, std::mt19937& random) {
  constexpr uint64_t kSteps = 20;
  (void)core.Handle(core.records().now, rdmabroker::Recover{});
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<Move> moves = AlphabetOf(core, 1'000'000 + step);
    const Move& move = moves[random() % moves.size()];
    (void)core.Handle(move.now, move.event);
  }
}

TEST(RecordsThatContradictEachOther, AreRefusedOrRecoveredWithoutAnException) {
  constexpr uint32_t kWalks = 400;
  constexpr int kSteps = 120;
  constexpr int kChanges = 40;
  int refused = 0;
  int restored = 0;
  for (uint32_t seed = 1; seed <= kWalks; ++seed) {
    Damage damage(seed);
    RandomWalk walk(seed);
    for (int step = 0; step < kSteps; ++step) walk.Step();
    for (int change = 0; change < kChanges; ++change) {
      Records records = walk.core().records();
      if (!damage.ChangeOne(&records)) continue;
      try {
        absl::StatusOr<BrokerCore> core = BrokerCore::Restore(walk.core().limits(), records);
        ++(core.ok() ? restored : refused);
        if (core.ok()) Recover(*std::move(core), damage.random());
      } catch (const std::exception& thrown) {
        FAIL() << thrown.what() << ", seed " << seed << ", change " << change << ": " << damage.changed();
      }
    }
  }
  std::cout << "covered: " << refused << " refused, " << restored << " restored\n";
  EXPECT_GT(refused, 0);
  EXPECT_GT(restored, 0);
}

}  // namespace
}  // namespace rdmabroker::store
