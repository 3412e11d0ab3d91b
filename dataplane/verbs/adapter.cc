// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/adapter.h"

#include <signal.h>

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "dataplane/adapter_checks.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/completion_queue.h"
#include "dataplane/verbs/protection_domain.h"
#include "dataplane/verbs/unfinished.h"
#include "dataplane/verbs/verbs_adapter.h"
#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {
namespace {

// siw gives the first offsets that are free, so what is made first and is long enough covers the lost one, 0x90000,
// with its entries of 32 bytes (siw-abi.h).
constexpr int kEntriesToCoverTheLostOffset = 0x8000;

struct DomainFreer {
  void operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }
};

// To block it around each post would cost two system calls.
void IgnoreSigpipeUnlessHandled() {
  struct sigaction present = {};
  if (::sigaction(SIGPIPE, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

Created<Adapter> Open(const std::string& device) {
  NoticeForks();
  DeviceContext context;
  if (const auto status = OpenDevice(device, &context); status != NdkStatus::kSuccess) return {status, nullptr};
  DeviceDescription description;
  if (const auto status = DescribeDevice(context.get(), &description); status != NdkStatus::kSuccess) {
    return {status, nullptr};
  }
  UnusedQueue unused;
  if (description.loses_an_offset) {
    unused.reset(ibv_create_cq(context.get(), kEntriesToCoverTheLostOffset, nullptr, nullptr, 0));
    if (unused == nullptr) return {FromPointer(nullptr), nullptr};
  }
  auto maker = MakerThread::Start();
  auto thread = AdapterThread::Start(context.get());
  if (maker == nullptr || thread == nullptr) {
    return {
        Refuse(NdkStatus::kInsufficientResources,
               "this process gets no more threads or descriptors: raise RLIMIT_NPROC, RLIMIT_NOFILE or its container's "
               "limit of processes")};
  }
  auto* const adapter =
      new VerbsAdapter(std::move(context), description, std::move(unused), std::move(maker), std::move(thread));
  if (description.raises_sigpipe) IgnoreSigpipeUnlessHandled();
  return {NdkStatus::kSuccess, adapter};
}

}  // namespace

Created<Adapter> OpenAdapter(const std::string& device) {
  if (IsForkedChild()) return {RefuseInForkedChild(NdkStatus::kNotSupported)};
  return CatchExceptions([&] { return Open(device); });
}

void ReleaseDevice(Adapter* adapter) { static_cast<VerbsAdapter*>(adapter)->ReleaseDevice(); }

Created<ProtectionDomain> VerbsAdapter::CreateProtectionDomain() {
  if (IsForkedChild()) return {RefuseInForkedChild()};
  if (const auto open = AddDeviceUse(); open != NdkStatus::kSuccess) return {open};
  absl::Cleanup use = [this] { DropDeviceUse(); };
  return CatchExceptions([&]() -> Created<ProtectionDomain> {
    std::unique_ptr<ibv_pd, DomainFreer> domain(ibv_alloc_pd(context()));
    if (domain == nullptr) return {FromPointer(nullptr)};
    auto* const made = new VerbsProtectionDomain(this, domain.get());
    (void)domain.release();
    std::move(use).Cancel();
    return {NdkStatus::kSuccess, made};
  });
}

Created<CompletionQueue> VerbsAdapter::CreateCompletionQueue(uint32_t depth, CqNotification notification) {
  if (IsForkedChild()) return {RefuseInForkedChild()};
  if (const auto fits = CheckDepth(depth, info().max_cq_depth); fits != NdkStatus::kSuccess) return {fits};
  if (const auto open = AddDeviceUse(); open != NdkStatus::kSuccess) return {open};
  absl::Cleanup use = [this] { DropDeviceUse(); };
  return CatchExceptions([&]() -> Created<CompletionQueue> {
    auto* const queue = new VerbsCompletionQueue(this, depth, std::move(notification));
    std::move(use).Cancel();
    return Finish<CompletionQueue>(queue);
  });
}

void VerbsAdapter::ReleaseDevice() {
  if (IsForkedChild()) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(device_released_, true) || device_uses_ > 0) return;
  }
  CloseDevice();
}

NdkStatus VerbsAdapter::AddDeviceUse() {
  const std::lock_guard lock(mutex_);
  if (device_released_) {
    return Refuse(NdkStatus::kDeviceRemoved,
                  "the adapter's device is gone; close the adapter, and open the device "
                  "again when it is back");
  }
  ++device_uses_;
  return NdkStatus::kSuccess;
}

void VerbsAdapter::DropDeviceUse() {
  {
    const std::lock_guard lock(mutex_);
    if (--device_uses_ > 0 || !device_released_) return;
  }
  CloseDevice();
}

}  // namespace rdmabroker::verbs
