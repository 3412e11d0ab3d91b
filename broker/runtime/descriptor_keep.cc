// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/descriptor_keep.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "broker/crash_points/crash_points.h"
#include "broker/log/log.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {
namespace {

// A supervisor that is alive answers in milliseconds; one that starts a hundred other services, in a second.
constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

DescriptorKeep::DescriptorKeep(Supervisor& supervisor) : supervisor_(supervisor) {
  const CrashPoints points(Step::kTakeDescriptors);
  for (KeptDescriptor& kept : supervisor_.TakeKept()) {
    kept_.insert(kept.name);
    inherited_.emplace(std::move(kept.name), std::move(kept.fd));
  }
}

void DescriptorKeep::Keep(const std::string& name, int fd) { (void)Store(name, fd); }

absl::Status DescriptorKeep::Store(const std::string& name, int fd) {
  const CrashPoints points(Step::kKeepDescriptor);
  kept_.insert(name);
  absl::Status stored = supervisor_.Store(name, fd);
  LogUnless(stored, name);
  return stored;
}

absl::Status DescriptorKeep::KeepSurely(const std::string& name, int fd) {
  if (kept_.size() + (kept_.contains(name) ? 0 : 1) > supervisor_.most_kept()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the supervisor has no room for another descriptor beside ", kept_.size(),
                     "; raise systemd's FileDescriptorStoreMax= or the keeper's --descriptors"));
  }
  const absl::Status stored = Store(name, fd);
  return stored.ok() ? AwaitSupervisor() : stored;
}

bool DescriptorKeep::KeepIfThereIsRoom(const std::string& name, int fd, double share) {
  if (!IsThere()) return false;
  if (static_cast<double>(kept_.size()) < share * static_cast<double>(supervisor_.most_kept()))
    return Store(name, fd).ok();
  if (const auto left_out = left_out_.Pass(Loop::Now())) {
    LogWarning("the supervisor has no room for a descriptor, which a death of this process ends",
               {{"name", name}, {"left_out", *left_out}});
  }
  return false;
}

void DescriptorKeep::Forget(const std::string& name) { forgotten_.push_back(name); }

void DescriptorKeep::ForgetNow(const std::string& name) {
  const CrashPoints points(Step::kForgetDescriptor);
  kept_.erase(name);
  LogUnless(supervisor_.Remove(name), name);
}

void DescriptorKeep::Committed() {
  for (const std::string& name : std::exchange(forgotten_, {})) ForgetNow(name);
}

std::function<int()> DescriptorKeep::Await() {
  const CrashPoints points(Step::kAwaitSupervisor);
  // A std::function can be copied.
  const auto barrier = std::make_shared<absl::StatusOr<UniqueFd>>(supervisor_.StartBarrier());
  LogUnlessDone(barrier->status());
  return [barrier] {
    if (!barrier->ok()) return ECONNREFUSED;
    return Supervisor::Pass(**barrier, kPatience).ok() ? 0 : ETIMEDOUT;
  };
}

absl::Status DescriptorKeep::AwaitSupervisor() {
  const CrashPoints points(Step::kAwaitSupervisor);
  absl::Status done = supervisor_.Barrier(kPatience);
  LogUnlessDone(done);
  return done;
}

void DescriptorKeep::LogUnlessDone(const absl::Status& done) {
  if (done.ok()) return;
  if (const auto left_out = silences_.Pass(Loop::Now())) {
    LogWarning("the supervisor has not said that it has done what it was told",
               {{"cause", done.message()}, {"left_out", *left_out}});
  }
}

bool DescriptorKeep::HasInheritedBesides(std::string_view ending) const {
  return std::any_of(inherited_.begin(), inherited_.end(), [&](const auto& each) {
    return !absl::EndsWith(each.first, {ending.data(), ending.size()});
  });
}

bool DescriptorKeep::HasInherited(std::string_view prefix) const {
  const auto first = inherited_.lower_bound(prefix);
  return first != inherited_.end() && absl::StartsWith(first->first, {prefix.data(), prefix.size()});
}

std::vector<KeptDescriptor> DescriptorKeep::Take(std::string_view prefix) {
  std::vector<KeptDescriptor> taken;
  const auto first = inherited_.lower_bound(prefix);
  auto last = first;
  for (; last != inherited_.end() && absl::StartsWith(last->first, {prefix.data(), prefix.size()}); ++last) {
    taken.push_back({last->first, std::move(last->second)});
  }
  inherited_.erase(first, last);
  return taken;
}

void DescriptorKeep::ForgetTheRest() {
  std::set<std::string> names;
  for (const auto& [name, fd] : inherited_) names.insert(name);
  inherited_.clear();
  if (names.empty()) return;
  LogWarning("descriptors of the process before belong to nothing here, and are closed",
             {{"count", names.size()}, {"first", *names.begin()}});
  for (const std::string& name : names) ForgetNow(name);
}

void DescriptorKeep::LogUnless(const absl::Status& done, const std::string& name) {
  if (done.ok()) return;
  if (const auto left_out = failures_.Pass(Loop::Now())) {
    LogWarning("the supervisor was not told of a descriptor",
               {{"name", name}, {"cause", done.message()}, {"left_out", *left_out}});
  }
}

}  // namespace rdmabroker
