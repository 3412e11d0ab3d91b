// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TABLE_H_
#define BROKER_CORE_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/node_hash_map.h"

namespace rdmabroker {

// Who asks which records have changed; each is told by itself, and costs nothing until it asks.
enum class ChangeReader : uint8_t { kStore, kWatches };

// Records by their ids, which notes each record that somebody could have changed: whatever gives a record out for
// writing notes it first. Read through a const table, which notes nothing. A record stays where it is while others come
// and go. Equality is the records' alone.
template <typename Key, typename Record>
class Table {
  using Map = absl::node_hash_map<Key, Record>;

 public:
  // As the standard library's containers name them.
  // NOLINTBEGIN(readability-identifier-naming)
  using key_type = Key;
  using mapped_type = Record;
  using value_type = typename Map::value_type;
  using const_iterator = typename Map::const_iterator;
  // NOLINTEND(readability-identifier-naming)

  // A record that was found, or end(). It does not go on to another as an iterator does: that would be noted by nobody.
  class Place {
   public:
    value_type& operator*() const { return *found_; }
    value_type* operator->() const { return &*found_; }
    friend bool operator==(const Place& place, const const_iterator& other) { return place.found_ == other; }

   private:
    friend class Table;
    explicit Place(typename Map::iterator found) : found_(found) {}

    typename Map::iterator found_;
  };

  // --- Reading ---
  [[nodiscard]] size_t size() const { return map_.size(); }
  [[nodiscard]] bool empty() const { return map_.empty(); }
  [[nodiscard]] bool contains(const Key& key) const { return map_.contains(key); }
  [[nodiscard]] const_iterator find(const Key& key) const { return map_.find(key); }
  [[nodiscard]] const Record& at(const Key& key) const { return map_.at(key); }
  // The only way through all records. Whoever wants to change some of them takes those by their ids.
  [[nodiscard]] const_iterator begin() const { return map_.begin(); }
  [[nodiscard]] const_iterator end() const { return map_.end(); }
  friend bool operator==(const Table& one, const Table& other) { return one.map_ == other.map_; }

  // --- Writing ---
  [[nodiscard]] Place find(const Key& key) {
    const auto found = map_.find(key);
    if (found != map_.end()) Note(key);
    return Place(found);
  }
  [[nodiscard]] Record& at(const Key& key) {
    Note(key);
    return map_.at(key);
  }
  Record& operator[](const Key& key) {
    Note(key);
    return map_[key];
  }
  void erase(const Key& key) {
    Note(key);
    map_.erase(key);
  }
  void erase(const Place& place) {
    Note(place->first);
    map_.erase(place.found_);
  }

  // --- Notes ---
  // The noted keys since the reader's last call, each once, in order. The first call gives none: it begins the noting,
  // which costs nothing before. Notes take memory until they are taken, once for each record, those that are gone
  // included.
  [[nodiscard]] std::vector<Key> TakeNotes(ChangeReader reader = ChangeReader::kStore) {
    return NotesFor(reader).Take();
  }
  void StopNoting(ChangeReader reader) { NotesFor(reader) = Notes(); }

 private:
  class Notes {
   public:
    // An event reaches for the same few records again and again; repeats are cheaper to drop later than to look for.
    void Add(const Key& key) {
      if (!noting_ || (!keys_.empty() && keys_.back() == key)) return;
      if (keys_.size() == keys_.capacity()) MakeRoom();
      keys_.push_back(key);
    }
    std::vector<Key> Take() {
      noting_ = true;
      DropRepeats();
      std::vector<Key> taken(keys_);
      keys_.clear();
      return taken;
    }

   private:
    void MakeRoom() {
      constexpr size_t kLeast = 16;
      DropRepeats();
      // At least half is free after it, so that the next time is far.
      if (keys_.size() * 2 >= keys_.capacity()) keys_.reserve(std::max(kLeast, keys_.size() * 2));
    }
    void DropRepeats() {
      std::sort(keys_.begin(), keys_.end());
      keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    }

    std::vector<Key> keys_;
    bool noting_ = false;
  };

  Notes& NotesFor(ChangeReader reader) { return reader == ChangeReader::kStore ? for_store_ : for_watches_; }
  void Note(const Key& key) {
    for_store_.Add(key);
    for_watches_.Add(key);
  }

  Map map_;
  Notes for_store_;
  Notes for_watches_;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_TABLE_H_
