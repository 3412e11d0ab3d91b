// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_MEMORY_TABLE_H_
#define DATAPLANE_IWARP_MEMORY_TABLE_H_

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/data_object.h"
#include "dataplane/keyed_permutation.h"
#include "dataplane/memory.h"
#include "dataplane/operation.h"
#include "dataplane/pending_call.h"

namespace rdmabroker::iwarp {

// Rights on memory. Local reading is always allowed.
inline constexpr uint32_t kLocalWrite = 1;
inline constexpr uint32_t kRemoteRead = 2;
inline constexpr uint32_t kRemoteWrite = 4;

// What a token (an STag) stands for while it is live.
struct MemoryDescription {
  uint64_t base = 0;  // The address by which requests name the first byte.
  uint64_t length = 0;
  uint8_t* memory = nullptr;     // The first byte, if the memory is contiguous.
  std::vector<uint8_t*> pages;   // Else its pages, each kFastRegisterPageSize long.
  size_t first_byte_offset = 0;  // Into the first page.
  uint32_t rights = 0;
  const void* domain = nullptr;      // The protection domain.
  const void* queue_pair = nullptr;  // Windows: the only queue pair whose peer may use it. Else null.
  bool can_be_invalidated = false;
};

// Everything that a request may name by a token, of one adapter. Looking up takes no lock: the data path pins an entry
// for the time of some non-blocking system calls and copies, and who takes an entry out waits until no pin is left.
// All functions may be called from any thread.
class MemoryTable {
 public:
  class Entry {
   private:
    friend class MemoryTable;
    std::atomic<uint32_t> live_token{0};  // 0 while the entry means nothing.
    std::atomic<uint32_t> pins{0};
    MemoryDescription description;  // Changes only while not live and not pinned.
    // Guarded by the table's mutex.
    std::vector<uint32_t> tokens;  // That have their places: the published one, and those that may be.
    uint32_t published = 0;        // The last one, which need not live any more.
  };

  // Keeps the memory of an entry in place. Empty if the token was not live.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)), token_(other.token_) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(entry_, other.entry_);
      std::swap(token_, other.token_);
      return *this;
    }
    ~Pin() {
      if (entry_ != nullptr) entry_->pins.fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const { return entry_ != nullptr; }
    const MemoryDescription& operator*() const { return entry_->description; }
    const MemoryDescription* operator->() const { return &entry_->description; }
    uint32_t token() const { return token_; }

   private:
    friend class MemoryTable;
    Pin(Entry* entry, uint32_t token) : entry_(entry), token_(token) {}
    Entry* entry_ = nullptr;
    uint32_t token_ = 0;
  };

  using BoundRegion = LetGoOnThread<MemoryRegion>;
  using Bindings = std::map<uint32_t, ObjectReference<BoundRegion>>;  // By windows' live tokens.

  MemoryTable();

  // Null if the table is full.
  Entry* Allocate();
  // The entry is not live.
  void Free(Entry* entry);

  // A token for a Publish of the entry: never 0, and none that was given out before, until there are no others. Nobody
  // can guess it (RFC 5042, section 5.2). Publish or Discard it.
  uint32_t NextToken(Entry* entry);
  // The token will not be published, or is dead for good.
  void Discard(Entry* entry, uint32_t token);
  void Publish(Entry* entry, uint32_t token, MemoryDescription description);
  // The same for a window: the region whose memory it is is referred to as long as the token is live. The adapter's own
  // thread gives the reference back. `binding` has one element, of this token, whose memory goes to the table.
  void Publish(Entry* entry, uint32_t token, MemoryDescription description, BoundRegion* region, Bindings* binding);
  // Makes `token` of the entry dead and waits for its pins. False if it was not live. The caller holds no pin.
  bool Withdraw(Entry* entry, uint32_t token);
  // The same for whatever token is live. Waits for the pins also where none is.
  void Withdraw(Entry* entry);
  // Waits until nobody uses what a token, dead by now, has meant. The caller holds no pin.
  static void AwaitPins(const Entry* entry);
  // What a peer may do by a send with invalidate: false unless the token is live, of the domain (and queue pair, for a
  // window), and can be invalidated.
  bool Invalidate(uint32_t token, const void* domain, const void* queue_pair);

  Pin Lookup(uint32_t token);
  static uint32_t LiveToken(const Entry* entry) { return entry->live_token.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kChunkEntries = 256;
  static constexpr size_t kChunks = 4096;  // A million entries, more than a process registers.

  struct Chunk {
    std::array<Entry, kChunkEntries> entries;
  };

  // Where tokens lead, by their lowest bits. No two tokens have the same place: one that would is not given out.
  class Places {
   public:
    explicit Places(size_t count) : count_(count), entries_(std::make_unique<std::atomic<Entry*>[]>(count)) {}
    size_t count() const { return count_; }
    std::atomic<Entry*>& Of(uint32_t token) const { return entries_[token & (count_ - 1)]; }

   private:
    size_t count_;  // A power of two.
    std::unique_ptr<std::atomic<Entry*>[]> entries_;
  };

  void Describe(Entry* entry, uint32_t token, MemoryDescription description);
  // The token is dead.
  void LetGoOfRegion(uint32_t token);
  // These need the mutex.
  void MakeMorePlaces();
  void FreePlace(uint32_t token);

  // The last of made_.
  std::atomic<const Places*> places_ = nullptr;
  std::mutex mutex_;  // Guards what follows, and entries' tokens; taken by registrations only.
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Entry*> free_;
  // A lookup that began before there were more may still use the former ones.
  std::vector<std::unique_ptr<Places>> made_;
  size_t places_taken_ = 0;
  const KeyedPermutation order_;
  uint32_t drawn_ = 0;

  std::atomic<size_t> bound_{0};  // How many there are in the next, so that others need no lock.
  std::mutex bindings_mutex_;
  Bindings bindings_;
};

enum class AccessVerdict { kAllowed, kInvalidToken, kWrongDomain, kBounds, kWrap, kRights };

// Whether `length` bytes (not 0) from `address` on may be used. `queue_pair` counts for windows only.
AccessVerdict CheckAccess(const MemoryDescription& memory, uint64_t address, uint64_t length, uint32_t rights,
                          const void* domain, const void* queue_pair);

// Appends the pieces of a range that CheckAccess has allowed.
void AppendPieces(const MemoryDescription& memory, uint64_t address, uint64_t length, std::vector<iovec>* pieces);

// The places of a part of a local request's memory, and what keeps it there.
struct PinnedPieces {
  std::vector<MemoryTable::Pin> pins;
  std::vector<iovec> pieces;

  void Clear() {
    pieces.clear();
    pins.clear();
  }
};

// Whether the first `length` bytes of what a request's SGEs make up together may be used now; they are long enough.
bool MayUse(MemoryTable* table, std::span<const Sge> sges, uint64_t length, uint32_t rights, const void* domain);

// Appends the places of `length` bytes from `offset` on of what a request's SGEs make up together; they are long
// enough. False: one of them names memory that is not there (any more) or does not allow it.
bool PinSlice(MemoryTable* table, std::span<const Sge> sges, uint64_t offset, uint64_t length, uint32_t rights,
              const void* domain, PinnedPieces* slice);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_MEMORY_TABLE_H_
