// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/memory_table.h"

#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/memory.h"

namespace rdmabroker::iwarp {
namespace {

// With their table less than a page.
constexpr size_t kFirstPlaces = 256;

uint64_t RandomKey() {
  uint64_t key = 0;
  // It waits where the kernel has not gathered enough after its start, and fails only where a signal comes meanwhile.
  while (::getrandom(&key, sizeof key, 0) != sizeof key) {
  }
  return key;
}

}  // namespace

MemoryTable::MemoryTable() : order_(RandomKey()) {
  made_.push_back(std::make_unique<Places>(kFirstPlaces));
  places_ = made_.back().get();
}

MemoryTable::Entry* MemoryTable::Allocate() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (chunks_.size() == kChunks) return nullptr;
    auto chunk = std::make_unique<Chunk>();
    // So that Free needs no memory.
    free_.reserve((chunks_.size() + 1) * chunk->entries.size());
    chunks_.push_back(std::move(chunk));
    for (Entry& entry : chunks_.back()->entries) free_.push_back(&entry);
  }
  Entry* const entry = free_.back();
  free_.pop_back();
  return entry;
}

void MemoryTable::Free(Entry* entry) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t token : std::exchange(entry->tokens, {})) FreePlace(token);
  free_.push_back(entry);
}

uint32_t MemoryTable::NextToken(Entry* entry) {
  const std::lock_guard lock(mutex_);
  // At most half are taken, so that two are drawn for each that is given out, in the mean.
  if ((places_taken_ + 1) * 2 > made_.back()->count()) MakeMorePlaces();
  uint32_t& token = entry->tokens.emplace_back(0);
  do {
    token = order_.Of(++drawn_);
  } while (token == 0 || made_.back()->Of(token).load(std::memory_order_relaxed) != nullptr);
  made_.back()->Of(token).store(entry, std::memory_order_release);
  ++places_taken_;
  return token;
}

void MemoryTable::MakeMorePlaces() {
  auto more = std::make_unique<Places>(made_.back()->count() * 2);
  made_.reserve(made_.size() + 1);
  for (const auto& chunk : chunks_) {
    for (Entry& entry : chunk->entries) {
      for (const uint32_t token : entry.tokens) more->Of(token).store(&entry, std::memory_order_relaxed);
    }
  }
  places_.store(more.get(), std::memory_order_release);
  made_.push_back(std::move(more));
}

void MemoryTable::FreePlace(uint32_t token) {
  made_.back()->Of(token).store(nullptr, std::memory_order_relaxed);
  --places_taken_;
}

void MemoryTable::Discard(Entry* entry, uint32_t token) {
  const std::lock_guard lock(mutex_);
  if (std::erase(entry->tokens, token) != 0) FreePlace(token);
}

void MemoryTable::Publish(Entry* entry, uint32_t token, MemoryDescription description) {
  Describe(entry, token, std::move(description));
  entry->live_token.store(token, std::memory_order_seq_cst);
}

void MemoryTable::Publish(Entry* entry, uint32_t token, MemoryDescription description, BoundRegion* region,
                          Bindings* binding) {
  Describe(entry, token, std::move(description));
  binding->begin()->second = ObjectReference<BoundRegion>(region);
  {
    const std::lock_guard lock(bindings_mutex_);
    bindings_.merge(*binding);
    ++bound_;
  }
  entry->live_token.store(token, std::memory_order_seq_cst);
}

void MemoryTable::Describe(Entry* entry, uint32_t token, MemoryDescription description) {
  Withdraw(entry);
  entry->description = std::move(description);
  const std::lock_guard lock(mutex_);
  const uint32_t former = std::exchange(entry->published, token);
  if (former != token && std::erase(entry->tokens, former) != 0) FreePlace(former);
}

bool MemoryTable::Withdraw(Entry* entry, uint32_t token) {
  uint32_t expected = token;
  if (token == 0 || !entry->live_token.compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) return false;
  AwaitPins(entry);
  if (bound_ > 0) LetGoOfRegion(token);
  return true;
}

void MemoryTable::LetGoOfRegion(uint32_t token) {
  const std::lock_guard lock(bindings_mutex_);
  const auto found = bindings_.find(token);
  if (found == bindings_.end()) return;
  ProgressThread::Get().LetGo(std::move(found->second));
  bindings_.erase(found);
  --bound_;
}

void MemoryTable::Withdraw(Entry* entry) {
  // Another thread may have made the token dead, and wait for the pins itself.
  if (!Withdraw(entry, LiveToken(entry))) AwaitPins(entry);
}

void MemoryTable::AwaitPins(const Entry* entry) {
  // A pin lasts some non-blocking calls of another thread; that is the bound.
  while (entry->pins.load(std::memory_order_seq_cst) != 0) ::sched_yield();
}

bool MemoryTable::Invalidate(uint32_t token, const void* domain, const void* queue_pair) {
  Entry* entry = nullptr;
  {
    const Pin pin = Lookup(token);
    if (!pin || !pin->can_be_invalidated || pin->domain != domain) return false;
    if (pin->queue_pair != nullptr && pin->queue_pair != queue_pair) return false;
    entry = pin.entry_;
  }
  return Withdraw(entry, token);
}

MemoryTable::Pin MemoryTable::Lookup(uint32_t token) {
  Entry* const entry = places_.load(std::memory_order_acquire)->Of(token).load(std::memory_order_acquire);
  // An entry's live token is 0 where it has none.
  if (token == 0 || entry == nullptr) return Pin();
  entry->pins.fetch_add(1, std::memory_order_seq_cst);
  Pin pin(entry, token);
  if (entry->live_token.load(std::memory_order_seq_cst) != token) return Pin();
  return pin;
}

AccessVerdict CheckAccess(const MemoryDescription& memory, uint64_t address, uint64_t length, uint32_t rights,
                          const void* domain, const void* queue_pair) {
  if (memory.domain != domain) return AccessVerdict::kWrongDomain;
  if (memory.queue_pair != nullptr && memory.queue_pair != queue_pair) return AccessVerdict::kWrongDomain;
  if (address + length < address) return AccessVerdict::kWrap;
  if (address < memory.base || length > memory.length || address - memory.base > memory.length - length) {
    return AccessVerdict::kBounds;
  }
  if ((memory.rights & rights) != rights) return AccessVerdict::kRights;
  return AccessVerdict::kAllowed;
}

void AppendPieces(const MemoryDescription& memory, uint64_t address, uint64_t length, std::vector<iovec>* pieces) {
  uint64_t offset = address - memory.base;
  if (memory.memory != nullptr) {
    pieces->push_back({memory.memory + offset, length});
    return;
  }
  offset += memory.first_byte_offset;
  while (length > 0) {
    const uint64_t within = offset % kFastRegisterPageSize;
    const uint64_t piece = std::min<uint64_t>(length, kFastRegisterPageSize - within);
    pieces->push_back({memory.pages[offset / kFastRegisterPageSize] + within, piece});
    offset += piece;
    length -= piece;
  }
}

namespace {

// Whether a local request may use this piece. A window is the peer's to name.
bool Allows(const MemoryDescription& memory, uint64_t address, uint64_t length, uint32_t rights, const void* domain) {
  return memory.queue_pair == nullptr &&
         CheckAccess(memory, address, length, rights, domain, nullptr) == AccessVerdict::kAllowed;
}

}  // namespace

bool MayUse(MemoryTable* table, std::span<const Sge> sges, uint64_t length, uint32_t rights, const void* domain) {
  for (const Sge& sge : sges) {
    const uint64_t taken = std::min<uint64_t>(length, sge.length);
    if (taken == 0) continue;
    const MemoryTable::Pin pin = table->Lookup(static_cast<uint32_t>(sge.token));
    if (!pin || !Allows(*pin, reinterpret_cast<uint64_t>(sge.address), taken, rights, domain)) return false;
    length -= taken;
  }
  return true;
}

bool PinSlice(MemoryTable* table, std::span<const Sge> sges, uint64_t offset, uint64_t length, uint32_t rights,
              const void* domain, PinnedPieces* slice) {
  for (const Sge& sge : sges) {
    if (length == 0) return true;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint64_t taken = std::min<uint64_t>(length, sge.length - offset);
    const auto token = static_cast<uint32_t>(sge.token);
    if (slice->pins.empty() || slice->pins.back().token() != token) {
      MemoryTable::Pin pin = table->Lookup(token);
      if (!pin) return false;
      slice->pins.push_back(std::move(pin));
    }
    const uint64_t address = reinterpret_cast<uint64_t>(sge.address) + offset;
    if (!Allows(*slice->pins.back(), address, taken, rights, domain)) return false;
    AppendPieces(*slice->pins.back(), address, taken, &slice->pieces);
    offset = 0;
    length -= taken;
  }
  return true;
}

}  // namespace rdmabroker::iwarp
