// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/event_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "broker/log/log.h"
#include "broker/runtime/kept_descriptor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

constexpr char kPrefix[] = "j";
constexpr char kName[] = "j1";
constexpr char kDescription[] = "rdma-broker events";

// MFD_NOEXEC_SEAL of linux/memfd.h.
constexpr unsigned kNoExecSeal = 8;

// Another layout has another one.
constexpr uint64_t kMagic = 0x314a4d434d444552;  // "REDMCMJ1"

absl::Status NoMemory(int error) {
  return absl::ErrnoToStatus(error, "memory for the events of the connection manager");
}

}  // namespace

struct EventJournal::Memory {
  struct Slot {
    // 0: there is no event. From just before the kernel writes it: its number.
    uint64_t number;
    RawCmEvent event;
  };

  // Null where it cannot be mapped.
  static Memory* Map(int file) {
    void* const mapped = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<Memory*>(mapped);
  }
  // Null where the file is none, or has the layout of another version.
  static absl::StatusOr<Memory*> MapOld(int file) {
    struct stat status = {};
    if (::fstat(file, &status) != 0 || status.st_size != sizeof(Memory)) return nullptr;
    Memory* const memory = Map(file);
    if (memory == nullptr) return NoMemory(errno);
    if (memory->magic == kMagic) return memory;
    ::munmap(memory, sizeof(Memory));
    return nullptr;
  }
  // All of it is allocated, so that no later access finds that there is no memory.
  static absl::StatusOr<UniqueFd> Make() {
    UniqueFd file(::memfd_create(kDescription, MFD_CLOEXEC | kNoExecSeal));
    // Linux knows that since 6.3, where it may be wanted (vm.memfd_noexec).
    if (!file && errno == EINVAL) file = UniqueFd(::memfd_create(kDescription, MFD_CLOEXEC));
    const int error = file ? ::posix_fallocate(file.get(), 0, sizeof(Memory)) : errno;
    if (error == 0) return file;
    return NoMemory(error);
  }
  // The stores before are made before those that follow, as a successor sees them.
  static void InOrder() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  uint64_t magic;
  std::array<Slot, kSlots> slots;
};

absl::StatusOr<std::unique_ptr<EventJournal>> EventJournal::Open(DescriptorKeep& keep, Loop& loop,
                                                                 std::function<void()> on_room) {
  const std::vector<KeptDescriptor> kept = keep.Take(kPrefix);
  Memory* memory = nullptr;
  if (kept.size() == 1) {
    const absl::StatusOr<Memory*> old = Memory::MapOld(kept.front().fd.get());
    if (!old.ok()) return old.status();
    memory = *old;
  }
  if (memory == nullptr) {
    for (const KeptDescriptor& none : kept) {
      LogWarning(
          "events that the process before had read are lost, as it has kept them otherwise than this version does",
          {{"name", none.name}});
      keep.ForgetNow(none.name);
    }
    const absl::StatusOr<UniqueFd> file = Memory::Make();
    if (!file.ok()) return file.status();
    memory = Memory::Map(file->get());
    if (memory == nullptr) return NoMemory(errno);
    memory->magic = kMagic;
    keep.Keep(kName, file->get());
  }
  return std::unique_ptr<EventJournal>(new EventJournal(memory, loop, std::move(on_room)));
}

EventJournal::EventJournal(Memory* memory, Loop& loop, std::function<void()> on_room)
    : memory_(memory), loop_(loop), on_room_(std::move(on_room)) {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    last_ = std::max(last_, memory_->slots[slot].number);
    if (memory_->slots[slot].number == 0) free_.push_back(slot);
  }
}

EventJournal::~EventJournal() { ::munmap(memory_, sizeof(Memory)); }

std::vector<CmEvent> EventJournal::TakeOld() {
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (memory_->slots[slot].number != 0) slots.push_back(slot);
  }
  std::sort(slots.begin(), slots.end(),
            [this](size_t a, size_t b) { return memory_->slots[a].number < memory_->slots[b].number; });
  std::vector<CmEvent> events;
  for (const size_t slot : slots) {
    if (memory_->slots[slot].event.is_there()) {
      events.push_back(Held(slot));
    } else {
      Leave(slot);
    }
  }
  return events;
}

int EventJournal::Next(const std::function<int(RawCmEvent*)>& read, CmEvent* event) {
  const size_t slot = free_.back();
  Memory::Slot& place = memory_->slots[slot];
  place.event.Clear();
  Memory::InOrder();
  place.number = last_ + 1;
  Memory::InOrder();
  if (const int error = read(&place.event); error != 0) {
    place.number = 0;
    return error;
  }
  ++last_;
  free_.pop_back();
  *event = Held(slot);
  return 0;
}

void EventJournal::Forget(const CmEvent& event) {
  if (event.held != nullptr) static_cast<Memory::Slot*>(event.held.get())->number = 0;
}

CmEvent EventJournal::Held(size_t slot) {
  CmEvent event = memory_->slots[slot].event.Decode();
  event.held = std::shared_ptr<void>(&memory_->slots[slot], [self = std::weak_ptr(self_), slot](void*) {
    if (const auto journal = self.lock()) (*journal)->Leave(slot);
  });
  return event;
}

void EventJournal::Leave(size_t slot) {
  left_.push_back(slot);
  if (left_.size() > 1) return;
  // Not before what was reported in this turn is stored.
  loop_.AtTurnEnd(Loop::Stage::kReply, [self = std::weak_ptr(self_)] {
    if (const auto journal = self.lock()) (*journal)->Free();
  });
}

void EventJournal::Free() {
  const bool was_full = full();
  for (const size_t slot : std::exchange(left_, {})) {
    memory_->slots[slot].number = 0;
    free_.push_back(slot);
  }
  if (!was_full) return;
  // Whoever reads on at once might do so without end.
  loop_.Post([self = std::weak_ptr(self_)] {
    if (const auto journal = self.lock()) (*journal)->on_room_();
  });
}

}  // namespace rdmabroker
