// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/memory_objects.h"

#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/wire/adapter_limits.h"
#include "dataplane/memory_checks.h"
#include "dataplane/refusal.h"

namespace rdmabroker::iwarp {
namespace {

uint32_t RightsOfMrFlags(MrFlags flags) {
  return ((flags & kMrAllowLocalWrite) != 0 ? kLocalWrite : 0) | ((flags & kMrAllowRemoteRead) != 0 ? kRemoteRead : 0) |
         ((flags & kMrAllowRemoteWrite & ~kMrAllowLocalWrite) != 0 ? kRemoteWrite | kLocalWrite : 0);
}

uint32_t RightsOfOpFlags(OpFlags flags) {
  return ((flags & kOpAllowLocalWrite) != 0 ? kLocalWrite : 0) | ((flags & kOpAllowRemoteRead) != 0 ? kRemoteRead : 0) |
         ((flags & kOpAllowRemoteWrite & ~kOpAllowLocalWrite) != 0 ? kRemoteWrite | kLocalWrite : 0);
}

}  // namespace

SoftwareMemoryRegion::SoftwareMemoryRegion(ProtectionDomain* domain, MemoryTable* table, MemoryTable::Entry* entry,
                                           bool fast_register)
    : domain_(domain), table_(table), entry_(entry), fast_register_(fast_register) {}

void SoftwareMemoryRegion::Dismantle() {
  table_->Withdraw(entry_);
  table_->Free(entry_);
}

uint32_t SoftwareMemoryRegion::token() const {
  if (IsForkedChild()) return 0;
  const std::lock_guard lock(mutex_);
  return token_;
}

NdkStatus SoftwareMemoryRegion::Register(void* address, size_t length, MrFlags flags) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (fast_register_) return RefuseKindOfRegion(fast_register_);
    const auto base = reinterpret_cast<uint64_t>(address);
    const auto fits = CheckRegistration(address, length, flags, SoftwareAdapterInfo());
    if (fits != NdkStatus::kSuccess) return fits;
    const std::lock_guard lock(mutex_);
    if (token_ != 0) return RefuseRegistered();
    token_ = table_->NextToken(entry_);
    MemoryDescription description;
    description.base = base;
    description.length = length;
    description.memory = static_cast<uint8_t*>(address);
    description.rights = RightsOfMrFlags(flags);
    description.domain = domain_.get();
    table_->Publish(entry_, token_, std::move(description));
    return NdkStatus::kSuccess;
  });
}

bool SoftwareMemoryRegion::HasLiveWindow() {
  std::erase_if(windows_, [](const auto& window) {
    if (MemoryTable::LiveToken(window.first) == window.second) return false;
    MemoryTable::AwaitPins(window.first);
    return true;
  });
  return !windows_.empty();
}

NdkStatus SoftwareMemoryRegion::Deregister() {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(mutex_);
  if (HasLiveWindow()) return RefuseBoundWindows();
  table_->Withdraw(entry_);
  table_->Discard(entry_, token_);
  token_ = 0;
  ++deregistrations_;
  max_pages_ = 0;
  return NdkStatus::kSuccess;
}

NdkStatus SoftwareMemoryRegion::InitializeFastRegister(uint32_t page_count, bool remote_access) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (!fast_register_) return RefuseKindOfRegion(fast_register_);
    if (page_count == 0 || page_count > kMaxFastRegisterPages) {
      return Refuse(NdkStatus::kImplementationLimit, "page_count: %d; 1 to %d", page_count, kMaxFastRegisterPages);
    }
    const std::lock_guard lock(mutex_);
    if (token_ == 0) unused_token_ = token_ = table_->NextToken(entry_);
    max_pages_ = page_count;
    remote_access_ = remote_access;
    return NdkStatus::kSuccess;
  });
}

NdkStatus SoftwareMemoryRegion::PrepareFastRegister(std::span<void* const> pages, size_t first_byte_offset,
                                                    size_t length, uint64_t base_address, OpFlags flags,
                                                    MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  if (!fast_register_ || max_pages_ == 0) {
    return Refuse(NdkStatus::kInvalidDeviceRequest,
                  "region: not made for fast-register, or InitializeFastRegister has not been called");
  }
  const uint32_t rights = RightsOfOpFlags(flags);
  if (!remote_access_ && (rights & (kRemoteRead | kRemoteWrite)) != 0) {
    return Refuse(NdkStatus::kAccessViolation,
                  "flags: rights for the peer, which InitializeFastRegister has not been told of (remote_access)");
  }
  if (pages.empty() || pages.size() > max_pages_ || first_byte_offset >= kFastRegisterPageSize || length == 0 ||
      length > pages.size() * kFastRegisterPageSize - first_byte_offset ||
      base_address % kFastRegisterPageSize != first_byte_offset || base_address + length < base_address) {
    return Refuse(
        NdkStatus::kInvalidParameter,
        "%d pages of %d bytes, of which the region may have %d, first_byte_offset %d, length %d, base_address "
        "%#x: the length must lie within the pages, and the base address as far into its page as the first byte",
        pages.size(), kFastRegisterPageSize, max_pages_, first_byte_offset, length, base_address);
  }
  change->deregistrations = deregistrations_;
  MemoryDescription& description = change->description;
  description.base = base_address;
  description.length = length;
  for (void* const page : pages) description.pages.push_back(static_cast<uint8_t*>(page));
  description.first_byte_offset = first_byte_offset;
  description.rights = rights;
  description.domain = domain_.get();
  description.can_be_invalidated = true;
  return NdkStatus::kSuccess;
}

NdkStatus SoftwareMemoryRegion::PrepareBind(const void* queue_pair, void* address, size_t length, OpFlags flags,
                                            MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  const MemoryTable::Pin pin = table_->Lookup(token_);
  if (!pin) return RefuseUnregistered();
  const uint32_t rights = RightsOfOpFlags(flags) & ~kLocalWrite;
  const uint32_t needed = (rights & kRemoteWrite) != 0 ? kLocalWrite : 0;
  const auto base = reinterpret_cast<uint64_t>(address);
  if (length == 0) return RefuseBindBeyond(length);
  switch (CheckAccess(*pin, base, length, needed, pin->domain, pin->queue_pair)) {
    case AccessVerdict::kAllowed:
      break;
    case AccessVerdict::kRights:
      return RefuseBindRights();
    default:
      return RefuseBindBeyond(length);
  }
  change->region_token = token_;
  MemoryDescription* const description = &change->description;
  *description = *pin;
  const uint64_t skipped = base - description->base;
  description->base = base;
  description->length = length;
  if (description->memory != nullptr) {
    description->memory += skipped;
  } else {
    const uint64_t offset = description->first_byte_offset + skipped;
    description->pages.erase(description->pages.begin(),
                             description->pages.begin() + static_cast<ptrdiff_t>(offset / kFastRegisterPageSize));
    description->first_byte_offset = offset % kFastRegisterPageSize;
  }
  description->rights = rights;
  description->queue_pair = queue_pair;
  description->can_be_invalidated = true;
  return NdkStatus::kSuccess;
}

NdkStatus SoftwareMemoryRegion::PrepareInvalidate(MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  if (!fast_register_ || token_ == 0) return RefuseInvalidation();
  change->entry = entry_;
  change->token = token_;
  return NdkStatus::kSuccess;
}

void SoftwareMemoryRegion::AcceptFastRegister(MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  change->entry = entry_;
  change->token = token_ = table_->NextToken(entry_);
  table_->Discard(entry_, std::exchange(unused_token_, 0));
}

void SoftwareMemoryRegion::CancelFastRegister(const MemoryChange& change) {
  const std::lock_guard lock(mutex_);
  const uint32_t live = MemoryTable::LiveToken(entry_);
  if (token_ == change.token && live != 0) token_ = live;
  if (live != change.token) table_->Discard(entry_, change.token);
}

bool SoftwareMemoryRegion::PublishWindow(MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  if (MemoryTable::LiveToken(entry_) != change->region_token) return false;
  HasLiveWindow();
  table_->Publish(change->entry, change->token, std::move(change->description), this, &change->binding);
  windows_.splice(windows_.end(), change->window);
  return true;
}

bool SoftwareMemoryRegion::Publish(MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  if (deregistrations_ != change->deregistrations || HasLiveWindow()) return false;
  table_->Publish(change->entry, change->token, std::move(change->description));
  return true;
}

SoftwareMemoryWindow::SoftwareMemoryWindow(ProtectionDomain* domain, MemoryTable* table, MemoryTable::Entry* entry)
    : domain_(domain), table_(table), entry_(entry) {}

void SoftwareMemoryWindow::Dismantle() {
  table_->Withdraw(entry_);
  table_->Free(entry_);
}

RemoteToken SoftwareMemoryWindow::remote_token() const {
  if (IsForkedChild()) return {};
  const std::lock_guard lock(mutex_);
  return RemoteToken{token_};
}

void SoftwareMemoryWindow::AcceptBind(MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  const uint32_t token = table_->NextToken(entry_);
  try {
    change->window.emplace_back(entry_, token);
    change->binding.try_emplace(token);
  } catch (...) {
    table_->Discard(entry_, token);
    throw;
  }
  change->entry = entry_;
  change->token = token_ = token;
}

void SoftwareMemoryWindow::CancelBind(const MemoryChange& change) {
  const std::lock_guard lock(mutex_);
  const uint32_t live = MemoryTable::LiveToken(entry_);
  if (token_ == change.token) token_ = live;
  if (live != change.token) table_->Discard(entry_, change.token);
}

bool SoftwareMemoryWindow::CarryOutBind(MemoryChange* change, SoftwareMemoryRegion* region) {
  const std::lock_guard lock(mutex_);
  return region->PublishWindow(change);
}

NdkStatus SoftwareMemoryWindow::PrepareInvalidate(MemoryChange* change) {
  const std::lock_guard lock(mutex_);
  if (token_ == 0) return RefuseInvalidation();
  change->entry = entry_;
  change->token = token_;
  return NdkStatus::kSuccess;
}

}  // namespace rdmabroker::iwarp
