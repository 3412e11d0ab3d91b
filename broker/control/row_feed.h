// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ROW_FEED_H_
#define BROKER_CONTROL_ROW_FEED_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "broker/control/view.h"
#include "broker/core/changes.h"
#include "broker/core/state.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker {

// The rows of one kind, for RowFeed.
class KindFeed {
 public:
  virtual ~KindFeed() = default;

  // Adds the next rows that there are to the reply, until it has `most` changes; true with the last of them.
  virtual bool List(size_t most, v1::WatchReply* reply) = 0;
  virtual void Note(const Changes& changes) = 0;
  // Adds what has become of noted rows, until the reply has `most` changes.
  virtual void Tell(size_t most, v1::WatchReply* reply) = 0;
  // Noted rows that have not been told.
  [[nodiscard]] virtual size_t waiting() const = 0;
};

// What one watch is told: the rows that the view shows, page by page, and then what becomes of them. Keeps the id
// of each row that it has told, with a hash of the row, and those of rows that have changed since; of each the latest
// counts. Without input and output.
class RowFeed {
 public:
  // Rows in a message, which are then a few dozen KiB.
  static constexpr size_t kRowsAtATime = 250;
  // Changed rows of a kind that a message is made from: some may be as they were told.
  static constexpr size_t kLooksAtATime = 250;
  // Ids of changed rows that wait, of a kind: as many connectors as a session may have may change at once, as when it
  // ends. They take less than a MiB.
  static constexpr size_t kMostChanges = 16384;

  // Without `kinds`: of all. They are known ones.
  RowFeed(const Records& records, const Index& index, const View& view, const std::vector<v1::RowKind>& kinds,
          size_t most_changes = kMostChanges);

  // Tells that records have changed. False where more rows of a kind wait to be told than are kept.
  [[nodiscard]] bool Note(const Changes& changes);
  // Fills an empty reply, but for the time. Returns false if it stays empty: there is nothing to tell, or the changed
  // rows that it has looked at are as they were told, and waiting() says whether to call it again.
  [[nodiscard]] bool Next(v1::WatchReply* reply);
  // All rows that there were have been told.
  [[nodiscard]] bool complete() const { return listing_ == feeds_.size(); }
  // Changed rows that have not been told.
  [[nodiscard]] size_t waiting() const;

 private:
  void TellChanges(v1::WatchReply* reply);

  std::vector<std::unique_ptr<KindFeed>> feeds_;
  const size_t most_changes_;
  bool begun_ = false;
  size_t listing_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ROW_FEED_H_
