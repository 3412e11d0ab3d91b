// SPDX-License-Identifier: Apache-2.0

#include "broker/control/row_feed.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "broker/control/inspection_rows.h"

namespace rdmabroker {
namespace {

// Rows have no maps, so that equal ones have equal bytes.
size_t HashOf(const google::protobuf::Message& row) { return std::hash<std::string>()(row.SerializeAsString()); }

// The rows of a table: its member of Records, that of Changes, and the row in a RowChange with its id.
template <auto kTable, auto kChanged, auto kRow, auto kSetId>
class TableFeed final : public KindFeed {
  using TableType = std::remove_cvref_t<decltype(std::declval<const Records&>().*kTable)>;
  using Key = typename TableType::key_type;
  using Row = std::remove_pointer_t<decltype((std::declval<v1::RowChange&>().*kRow)())>;

 public:
  TableFeed(const Records& records, const Index& index, const View& view)
      : records_(records), ids_(ListOf(index.lists, Key())), view_(view) {}

  bool List(size_t most, v1::WatchReply* reply) override {
    const auto next = view_.Walk(ids_, records_.*kTable, listed_, [&](const auto& record) {
      if (static_cast<size_t>(reply->changes_size()) >= most) return false;
      TellOne(record.id, v1::ROW_FATE_PRESENT, reply);
      return true;
    });
    listed_ = next.value_or(Key());
    return !next;
  }

  void Note(const Changes& changes) override {
    for (const Key id : changes.*kChanged) {
      if (IsOfInterest(id)) changed_.insert(id);
    }
  }

  // Goes on behind the last one told, so that rows which change all the time keep no other waiting.
  void Tell(size_t most, v1::WatchReply* reply) override {
    size_t looks = RowFeed::kLooksAtATime;
    while (!changed_.empty() && static_cast<size_t>(reply->changes_size()) < most && looks-- > 0) {
      auto next = changed_.upper_bound(last_told_);
      if (next == changed_.end()) next = changed_.begin();
      last_told_ = changed_.extract(next).value();
      TellOne(last_told_, v1::ROW_FATE_ADDED, reply);
    }
  }

  [[nodiscard]] size_t waiting() const override { return changed_.size(); }

 private:
  // What others have is not even counted.
  bool IsOfInterest(Key id) const {
    if (told_.contains(id)) return true;
    const auto& table = records_.*kTable;
    const auto found = table.find(id);
    return found != table.end() && view_.Shows(found->second);
  }

  void TellOne(Key id, v1::RowFate of_new, v1::WatchReply* reply) {
    const auto& table = records_.*kTable;
    const auto found = table.find(id);
    if (found == table.end() || !view_.Shows(found->second)) {
      if (told_.erase(id) != 0) ((Add(v1::ROW_FATE_REMOVED, reply)->*kRow)()->*kSetId)(id.value());
      return;
    }
    Row row;
    Fill(records_, found->second, &row);
    const size_t hash = HashOf(row);
    const auto [told, is_new] = told_.try_emplace(id, hash);
    // A record that somebody could have changed need not be another.
    if (!is_new && std::exchange(told->second, hash) == hash) return;
    *(Add(is_new ? of_new : v1::ROW_FATE_CHANGED, reply)->*kRow)() = std::move(row);
  }

  static v1::RowChange* Add(v1::RowFate fate, v1::WatchReply* reply) {
    v1::RowChange* change = reply->add_changes();
    change->set_fate(fate);
    return change;
  }

  const Records& records_;
  const OrderedIds<Key>& ids_;
  const View view_;
  Key listed_;  // Up to here.
  Key last_told_;
  absl::flat_hash_map<Key, size_t> told_;
  std::set<Key> changed_;
};

// The devices are few, and what a row says of one is of its connectors, too: so all are looked at.
class AdapterFeed final : public KindFeed {
 public:
  AdapterFeed(const Records& records, const StateCounts& states, const View& view)
      : records_(records), states_(states), view_(view) {}

  bool List(size_t, v1::WatchReply* reply) override {
    TellAll(v1::ROW_FATE_PRESENT, reply);
    return true;
  }
  void Note(const Changes& changes) override { changed_ |= !changes.devices.empty() || !changes.connectors.empty(); }
  void Tell(size_t, v1::WatchReply* reply) override {
    if (std::exchange(changed_, false)) TellAll(v1::ROW_FATE_ADDED, reply);
  }
  [[nodiscard]] size_t waiting() const override { return changed_ ? 1 : 0; }

 private:
  void TellAll(v1::RowFate of_new, v1::WatchReply* reply) {
    auto there = DevicesThere(records_);
    std::erase_if(there, [this](const auto& entry) { return !view_.Shows(*entry.second); });
    for (auto told = told_.begin(); told != told_.end();) {
      const auto next = std::next(told);
      if (!there.contains(told->first)) {
        v1::RowChange* change = reply->add_changes();
        change->set_fate(v1::ROW_FATE_REMOVED);
        change->mutable_adapter()->mutable_device()->set_name(told->first);
        told_.erase(told);
      }
      told = next;
    }
    for (const auto& [name, record] : there) {
      v1::AdapterRow row;
      Fill(states_, *record, view_.ShowsActivity(), &row);
      const size_t hash = HashOf(row);
      const auto [told, is_new] = told_.try_emplace(name, hash);
      if (!is_new && std::exchange(told->second, hash) == hash) continue;
      v1::RowChange* change = reply->add_changes();
      change->set_fate(is_new ? of_new : v1::ROW_FATE_CHANGED);
      *change->mutable_adapter() = std::move(row);
    }
  }

  const Records& records_;
  const StateCounts& states_;
  const View view_;
  bool changed_ = false;
  std::map<std::string, size_t> told_;
};

template <auto kTable, auto kChanged, auto kRow, auto kSetId>
std::unique_ptr<KindFeed> FeedOf(const Records& records, const Index& index, const View& view) {
  return std::make_unique<TableFeed<kTable, kChanged, kRow, kSetId>>(records, index, view);
}

struct KindRow {
  v1::RowKind kind;
  std::unique_ptr<KindFeed> (*make)(const Records& records, const Index& index, const View& view);
};

// In the order in which they are told: what others refer to comes first.
constexpr KindRow kKinds[] = {
    {v1::ROW_KIND_ADAPTER,
     [](const Records& records, const Index& index, const View& view) -> std::unique_ptr<KindFeed> {
       return std::make_unique<AdapterFeed>(records, index.states, view);
     }},
    {v1::ROW_KIND_SESSION,
     FeedOf<&Records::sessions, &Changes::sessions, &v1::RowChange::mutable_session, &v1::SessionInfo::set_session_id>},
    {v1::ROW_KIND_LISTENER, FeedOf<&Records::listeners, &Changes::listeners, &v1::RowChange::mutable_listener,
                                   &v1::ListenerInfo::set_listener_id>},
    {v1::ROW_KIND_SHARED_ENDPOINT,
     FeedOf<&Records::shared_endpoints, &Changes::shared_endpoints, &v1::RowChange::mutable_shared_endpoint,
            &v1::SharedEndpointInfo::set_shared_endpoint_id>},
    {v1::ROW_KIND_RESERVATION, FeedOf<&Records::reservations, &Changes::reservations,
                                      &v1::RowChange::mutable_reservation, &v1::ReservationInfo::set_reservation_id>},
    {v1::ROW_KIND_ENDPOINT, FeedOf<&Records::endpoints, &Changes::endpoints, &v1::RowChange::mutable_endpoint,
                                   &v1::EndpointInfo::set_endpoint_id>},
    {v1::ROW_KIND_CONNECTOR, FeedOf<&Records::connectors, &Changes::connectors, &v1::RowChange::mutable_connector,
                                    &v1::ConnectorInfo::set_connector_id>},
};

}  // namespace

RowFeed::RowFeed(const Records& records, const Index& index, const View& view, const std::vector<v1::RowKind>& kinds,
                 size_t most_changes)
    : most_changes_(most_changes) {
  for (const KindRow& row : kKinds) {
    const bool wanted = kinds.empty() || std::find(kinds.begin(), kinds.end(), row.kind) != kinds.end();
    if (wanted) feeds_.push_back(row.make(records, index, view));
  }
}

bool RowFeed::Note(const Changes& changes) {
  for (const auto& feed : feeds_) feed->Note(changes);
  return std::all_of(feeds_.begin(), feeds_.end(),
                     [this](const auto& feed) { return feed->waiting() <= most_changes_; });
}

size_t RowFeed::waiting() const {
  return std::accumulate(feeds_.begin(), feeds_.end(), size_t{0},
                         [](size_t sum, const auto& feed) { return sum + feed->waiting(); });
}

void RowFeed::TellChanges(v1::WatchReply* reply) {
  // A kind that changes all the time leaves the later ones their share.
  const size_t share = kRowsAtATime / feeds_.size();
  size_t left_for_later =
      std::accumulate(feeds_.begin(), feeds_.end(), size_t{0},
                      [share](size_t sum, const auto& feed) { return sum + std::min(share, feed->waiting()); });
  for (const auto& feed : feeds_) {
    left_for_later -= std::min(share, feed->waiting());
    feed->Tell(kRowsAtATime - left_for_later, reply);
  }
}

bool RowFeed::Next(v1::WatchReply* reply) {
  if (complete()) {
    TellChanges(reply);
    return reply->changes_size() > 0;
  }
  while (!complete() && static_cast<size_t>(reply->changes_size()) < kRowsAtATime) {
    if (!feeds_[listing_]->List(kRowsAtATime, reply)) break;
    ++listing_;
  }
  reply->set_begins(!std::exchange(begun_, true));
  reply->set_complete(complete());
  return true;
}

}  // namespace rdmabroker
