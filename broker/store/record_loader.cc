// SPDX-License-Identifier: Apache-2.0

#include "broker/store/record_loader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/core/changes.h"
#include "broker/store/record_codec.h"

namespace rdmabroker::store {
namespace {

template <typename... Parts>
absl::Status Damaged(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("damaged: ", parts...));
}

// Reads `message` as what `record` is stored as.
template <typename Message, typename Record>
absl::Status Parse(const Key& key, std::string_view bytes, Record* record) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Damaged(ToString(key), ": is no message of its kind");
  }
  const absl::Status read = FromProto(message, record);
  return read.ok() ? read : Damaged(ToString(key), ": ", read.message());
}

DeviceId IdOf(const DeviceRecord& record) { return record.device.id; }
template <typename Record>
auto IdOf(const Record& record) {
  return record.id;
}

template <typename Id, typename Record>
absl::Status ParseInto(const Key& key, std::string_view bytes, Table<Id, Record>& table) {
  Record record;
  absl::Status parsed = Parse<typename StoredAs<Record>::Message>(key, bytes, &record);
  if (!parsed.ok()) return parsed;
  if (IdOf(record) != Id(key.id) || key.number != 0) return Damaged(ToString(key), ": is another's record");
  table[Id(key.id)] = std::move(record);
  return absl::OkStatus();
}

}  // namespace

absl::Status RecordLoader::Take(std::string_view key_bytes, std::string_view value) {
  const std::optional<Key> key = KeyFromBytes(key_bytes);
  if (!key) return Damaged("a key is none of a store's");
  if (value.size() < kChecksumSize) return Damaged(ToString(*key), ": has no checksum");
  const std::string_view message = value.substr(kChecksumSize);
  const uint64_t checksum = ChecksumOf(key_bytes, message);
  if (GetChecksum(value.data()) != checksum) return Damaged(ToString(*key), ": is not what its checksum says");
  if (*key == Key{Kind::kHeader}) return TakeHeader(message);
  if (header_.format_version() == 0) return Damaged("the header is missing");
  ++totals_.records;
  totals_.checksums += checksum;
  if (*key == Key{Kind::kCounters}) return Parse<v1::Counters>(*key, message, &stored_.records.counters);
  return TakeRecord(*key, message);
}

absl::Status RecordLoader::TakeHeader(std::string_view message) {
  if (!header_.ParseFromArray(message.data(), static_cast<int>(message.size())) || header_.format_version() == 0) {
    return Damaged("the header is none");
  }
  if (header_.format_version() > kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("has version ", header_.format_version(), " of the store's format, and this broker reads up to ",
                     kFormatVersion,
                     ": start the newer broker that wrote it, or remove the file, which gives its "
                     "sessions and connections up"));
  }
  stored_.records.now = ReadTime(header_.now());
  stored_.records.lineage = header_.lineage();
  return absl::OkStatus();
}

absl::Status RecordLoader::TakeRecord(const Key& key, std::string_view message) {
  if (key.kind == Kind::kAnswer) return TakeAnswer(key, message);
  if (key.kind == Kind::kEvent) return TakeEvent(key, message);
  if (key.kind == Kind::kFabricEndpoint) return TakeFabricRecord(key, message, stored_.of_fabrics.endpoints);
  if (key.kind == Kind::kFabricConnection) return TakeFabricRecord(key, message, stored_.of_fabrics.connections);
  absl::Status taken = Damaged(ToString(key), ": has no place in a store");
  ForEachTable(
      [&](auto& table) {
        using Record = typename std::decay_t<decltype(table)>::mapped_type;
        if (StoredAs<Record>::kKind == key.kind) taken = ParseInto(key, message, table);
      },
      stored_.records);
  return taken;
}

absl::Status RecordLoader::TakeAnswer(const Key& key, std::string_view message) {
  const SessionId id(key.id);
  if (!stored_.records.sessions.contains(id)) return Damaged(ToString(key), ": there is no such session");
  KeptAnswer answer;
  if (absl::Status parsed = Parse<v1::Answer>(key, message, &answer); !parsed.ok()) return parsed;
  if (answer.id != RequestId(key.number)) return Damaged(ToString(key), ": is another's record");
  stored_.records.sessions.at(id).answers.push_back(std::move(answer));
  return absl::OkStatus();
}

absl::Status RecordLoader::TakeEvent(const Key& key, std::string_view message) {
  const SessionId id(key.id);
  if (!stored_.records.sessions.contains(id)) return Damaged(ToString(key), ": there is no such session");
  SessionRecord& session = stored_.records.sessions.at(id);
  if (key.number != session.dropped.value() + session.events.size() + 1) {
    return Damaged(ToString(key), ": the one before it is missing");
  }
  return Parse<v1::Event>(key, message, &session.events.emplace_back());
}

template <typename Id>
absl::Status RecordLoader::TakeFabricRecord(const Key& key, std::string_view message,
                                            Table<Id, std::string>& of_fabrics) {
  v1::FabricRecord record;
  if (key.number != 0 || !record.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Damaged(ToString(key), ": is no message of its kind");
  }
  of_fabrics[Id(key.id)] = std::move(*record.mutable_record());
  return absl::OkStatus();
}

absl::StatusOr<RecordLoader::Loaded> RecordLoader::Finish() {
  if (header_.format_version() == 0) return Damaged("it is empty");
  if (totals_.records != header_.records()) {
    return Damaged("has ", totals_.records, " of ", header_.records(), " records");
  }
  if (totals_.checksums != header_.checksums()) return Damaged("some record is not the last one written");
  // Older brokers drop all events of an ended session without counting them.
  auto& sessions = stored_.records.sessions;
  for (const auto& [id, session] : std::as_const(sessions)) {
    if (session.ended && session.events.empty()) sessions.at(id).dropped = session.last_event;
  }
  return Loaded{std::move(stored_), header_.commit(), header_.boot_id()};
}

}  // namespace rdmabroker::store
