// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/memory_objects.h"

#include <utility>

#include "dataplane/forked_child.h"
#include "dataplane/memory_checks.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/protection_domain.h"
#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {
namespace {

unsigned int AccessOf(MrFlags flags, const AdapterInfo& info) {
  unsigned int access = 0;
  if ((flags & kMrAllowLocalWrite) != 0) access |= IBV_ACCESS_LOCAL_WRITE;
  if ((flags & kMrAllowRemoteRead) != 0) access |= IBV_ACCESS_REMOTE_READ;
  const bool is_sink = (flags & kMrRdmaReadSink) != 0 && (info.adapter_flags & kRdmaReadSinkNotRequired) == 0;
  if ((flags & kMrAllowRemoteWrite & ~kMrAllowLocalWrite) != 0 || is_sink) {
    access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  }
  if (info.max_window_size > 0) access |= IBV_ACCESS_MW_BIND;
  return access;
}

}  // namespace

VerbsMemoryRegion::VerbsMemoryRegion(VerbsProtectionDomain* domain, bool fast_register)
    : domain_(domain), fast_register_(fast_register) {}

void VerbsMemoryRegion::Dismantle() {
  if (region_ != nullptr) ibv_dereg_mr(region_);
}

VerbsProtectionDomain* VerbsMemoryRegion::domain() const { return domain_.get(); }

NdkStatus VerbsMemoryRegion::Register(void* address, size_t length, MrFlags flags) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (fast_register_) return RefuseKindOfRegion(fast_register_);
  const AdapterInfo& info = domain_->adapter()->info();
  if (const auto fits = CheckRegistration(address, length, flags, info); fits != NdkStatus::kSuccess) return fits;
  const std::lock_guard lock(mutex_);
  if (region_ != nullptr) return RefuseRegistered();
  unsigned int access = AccessOf(flags, info);
  region_ = ibv_reg_mr(domain_->get(), address, length, access);
  local_write_ = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  NdkStatus status = FromPointer(region_, length);
  // For windows the kernel wants memory that can be written (ib_access_writable), and a consumer may have other.
  if (status == NdkStatus::kAccessViolation && !local_write_) {
    access &= ~static_cast<unsigned int>(IBV_ACCESS_MW_BIND);
    region_ = ibv_reg_mr(domain_->get(), address, length, access);
    status = FromPointer(region_, length);
  }
  takes_windows_ = (access & IBV_ACCESS_MW_BIND) != 0;
  SetTokens();
  return status;
}

void VerbsMemoryRegion::SetTokens() {
  local_token_ = LocalToken{region_ == nullptr ? 0 : region_->lkey};
  remote_token_ = RemoteToken{region_ == nullptr ? 0 : region_->rkey};
}

// A window that was unbound without anybody polling since is bound for all that is known here.
NdkStatus VerbsMemoryRegion::Deregister() {
  if (IsForkedChild()) return RefuseInForkedChild();
  bool look = false;
  {
    const std::lock_guard lock(mutex_);
    look = windows_ > 0;
  }
  if (look) domain_->adapter()->thread().ReapAll();
  const std::lock_guard lock(mutex_);
  if (windows_ > 0) return RefuseBoundWindows();
  if (region_ == nullptr) return NdkStatus::kSuccess;
  const NdkStatus status = FromErrnoResult(ibv_dereg_mr(region_));
  if (status == NdkStatus::kSuccess) region_ = nullptr;
  SetTokens();
  return status;
}

NdkStatus VerbsMemoryRegion::InitializeFastRegister(uint32_t, bool) {
  if (IsForkedChild()) return RefuseInForkedChild();
  return fast_register_ ? RefuseFastRegister() : RefuseKindOfRegion(fast_register_);
}

NdkStatus VerbsMemoryRegion::StartBinding(void* address, size_t length, OpFlags flags, ibv_mw_bind_info* info) {
  const std::lock_guard lock(mutex_);
  if (region_ == nullptr) return RefuseUnregistered();
  const bool remote_write = (flags & kOpAllowRemoteWrite & ~kOpAllowLocalWrite) != 0;
  if (!takes_windows_ || (remote_write && !local_write_)) return RefuseBindRights();
  const auto base = reinterpret_cast<uint64_t>(address);
  const auto region_base = reinterpret_cast<uint64_t>(region_->addr);
  if (length == 0 || base < region_base || length > region_->length || base - region_base > region_->length - length) {
    return RefuseBindBeyond(length);
  }
  info->mr = region_;
  info->addr = base;
  info->length = length;
  info->mw_access_flags = 0;
  if (remote_write) info->mw_access_flags |= IBV_ACCESS_REMOTE_WRITE;
  if ((flags & kOpAllowRemoteRead) != 0) info->mw_access_flags |= IBV_ACCESS_REMOTE_READ;
  ++windows_;
  return NdkStatus::kSuccess;
}

void VerbsMemoryRegion::EndBinding() {
  const std::lock_guard lock(mutex_);
  --windows_;
}

VerbsMemoryWindow::VerbsMemoryWindow(VerbsProtectionDomain* domain, ibv_mw* window)
    : domain_(domain), window_(window), bound_key_(window->rkey) {
  domain_->Add(this);
}

void VerbsMemoryWindow::Dismantle() {
  domain_->Remove(this);
  if (window_ != nullptr) ibv_dealloc_mw(window_);
  if (region_) region_->EndBinding();
}

uint32_t VerbsMemoryWindow::index() const {
  const std::lock_guard lock(mutex_);
  return IndexOf(bound_key_);
}

VerbsProtectionDomain* VerbsMemoryWindow::domain() const { return domain_.get(); }

RemoteToken VerbsMemoryWindow::remote_token() const {
  if (IsForkedChild()) return {};
  const std::lock_guard lock(mutex_);
  return RemoteToken{bound_ ? window_->rkey : 0};
}

VerbsMemoryWindow::Posting VerbsMemoryWindow::PostingBy(const void* queue_pair) {
  const std::lock_guard lock(mutex_);
  if (window_ == nullptr) return {};
  const void* const before = queue_pair_;
  if (before == nullptr) queue_pair_ = queue_pair;
  return {.window = window_,
          .bound = bound_,
          .foreign = queue_pair_ != queue_pair,
          .taken = before == nullptr,
          .key = window_->rkey,
          .next_key = ibv_inc_rkey(window_->rkey)};
}

void VerbsMemoryWindow::Release() {
  const std::lock_guard lock(mutex_);
  queue_pair_ = nullptr;
}

void VerbsMemoryWindow::HandleBindPosted(uint32_t key) {
  const std::lock_guard lock(mutex_);
  window_->rkey = key;
  bound_ = true;
}

void VerbsMemoryWindow::HandleInvalidatePosted() {
  const std::lock_guard lock(mutex_);
  bound_ = false;
}

void VerbsMemoryWindow::LetGo(DroppedReferences* dropped) {
  if (!region_) return;
  region_->EndBinding();
  dropped->Add(std::move(region_));
}

void VerbsMemoryWindow::HandleBound(uint32_t key, VerbsMemoryRegion* region, DroppedReferences* dropped) {
  const std::lock_guard lock(mutex_);
  LetGo(dropped);
  bound_key_ = key;
  region_ = ObjectReference<VerbsMemoryRegion>(region);
}

void VerbsMemoryWindow::HandleInvalidated(uint32_t key, DroppedReferences* dropped) {
  const std::lock_guard lock(mutex_);
  if (window_ == nullptr) return;
  if (key == bound_key_) LetGo(dropped);
  if (key != window_->rkey) return;
  bound_ = false;
  queue_pair_ = nullptr;
}

void VerbsMemoryWindow::HandleFailed(const void* queue_pair) {
  const std::lock_guard lock(mutex_);
  if (window_ == nullptr || queue_pair_ != queue_pair) return;
  window_->rkey = bound_key_;
  bound_ = static_cast<bool>(region_);
  if (!bound_) queue_pair_ = nullptr;
}

void VerbsMemoryWindow::EndBinding(const void* queue_pair, DroppedReferences* dropped) {
  const std::lock_guard lock(mutex_);
  if (queue_pair_ != queue_pair || window_ == nullptr) return;
  queue_pair_ = nullptr;
  LetGo(dropped);
  bound_ = false;
  ibv_dealloc_mw(window_);
  window_ = ibv_alloc_mw(domain_->get(), IBV_MW_TYPE_2);
  if (window_ != nullptr) bound_key_ = window_->rkey;
}

}  // namespace rdmabroker::verbs
