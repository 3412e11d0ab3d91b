// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_EVENT_JOURNAL_H_
#define BROKER_FABRIC_RDMACM_EVENT_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

// The events that nobody has dealt with yet, in memory that outlives the process: the kernel forgets an event once it
// has been read, and what a connect request or a reply carries can be had nowhere else. The kernel writes an event
// there itself, so that there is no moment at which a death would lose it. Loop thread only.
//
// An event leaves after the last copy of its CmEvent has gone, at the end of that turn of the loop, when what was
// reported of it has been handled and is stored, or could not be. Where the process dies in between, its successor is
// told once more of what the one before it did in its last turn.
class EventJournal {
 public:
  // So many events at once, in two MiB: those that a turn reads, and those that wait until CONNECT or ACCEPT returns.
  static constexpr size_t kSlots = 4096;

  // What `keep` has of the process before, under a name that begins with "j"; or a new one, which is kept. Both outlive
  // it. Of one that another version has laid out otherwise nothing is read: it is forgotten, and that is logged. After
  // an error it is kept on. `on_room` runs in the turn after the one in which there is room again after there was none.
  static absl::StatusOr<std::unique_ptr<EventJournal>> Open(DescriptorKeep& keep, Loop& loop,
                                                            std::function<void()> on_room);
  ~EventJournal();
  EventJournal(const EventJournal&) = delete;
  EventJournal& operator=(const EventJournal&) = delete;

  // Those that the process before has left, in the order in which it had read them. Once, before the first is read.
  std::vector<CmEvent> TakeOld();
  // No event may be read while it is.
  bool full() const { return free_.empty(); }
  // There is room again at the turn's end, whoever holds the other slots.
  bool frees_some() const { return !left_.empty(); }
  // Reads the next one, as CmFile::NextEvent. `read` does that.
  int Next(const std::function<int(RawCmEvent*)>& read, CmEvent* event);
  // A successor does not hear of it, as of an id that is about to end, whose number may become another's.
  static void Forget(const CmEvent& event);

 private:
  struct Memory;

  EventJournal(Memory* memory, Loop& loop, std::function<void()> on_room);
  // The event at that place as long as it is dealt with.
  CmEvent Held(size_t slot);
  void Leave(size_t slot);
  void Free();

  Memory* const memory_;
  Loop& loop_;
  const std::function<void()> on_room_;
  uint64_t last_ = 0;  // The number of the last event.
  std::vector<size_t> free_;
  std::vector<size_t> left_;  // Free from the turn's end on.
  // What is left to the loop, and events that outlive this, reach it by it.
  const std::shared_ptr<EventJournal*> self_ = std::make_shared<EventJournal*>(this);
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_EVENT_JOURNAL_H_
