// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/fake_supervisor.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// As the kernel makes one for whoever is sent a descriptor.
UniqueFd Duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

FakeSupervisor::FakeSupervisor(bool there, absl::Duration watchdog_interval)
    : there_(there), watchdog_interval_(watchdog_interval), speaks_(::eventfd(1, EFD_CLOEXEC)) {}

void FakeSupervisor::FallSilent() {
  eventfd_t speaks = 0;
  ::eventfd_read(speaks_.get(), &speaks);
}

void FakeSupervisor::Speak() { ::eventfd_write(speaks_.get(), 1); }

void FakeSupervisor::Restart() {
  kept_.clear();
  for (const KeptDescriptor& stored : stored_) kept_.push_back({stored.name, Duplicate(stored.fd.get())});
}

absl::Status FakeSupervisor::Hear(std::string what) {
  absl::Status answer = answer_;
  if (!next_answers_.empty()) {
    answer = std::move(next_answers_.front());
    next_answers_.pop_front();
  }
  if (!there_ || !answer.ok()) return answer;
  told_.push_back(std::move(what));
  return absl::OkStatus();
}

absl::Status FakeSupervisor::ShowStatus(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; })) {
    return absl::InvalidArgumentError("the status has control characters");
  }
  return Hear(absl::StrCat("status ", text));
}

absl::Status FakeSupervisor::Store(const std::string& name, int fd) {
  if (!IsDescriptorName(name)) return absl::InvalidArgumentError("a bad name");
  absl::Status heard = Hear(absl::StrCat("store ", name));
  const bool stored = std::any_of(stored_.begin(), stored_.end(),
                                  [fd](const KeptDescriptor& kept) { return AreSameFile(kept.fd.get(), fd); });
  const bool room = stored_.size() < most_kept_;
  if (there_ && heard.ok() && !stored && room) stored_.push_back({std::string(name), Duplicate(fd)});
  return heard;
}

absl::StatusOr<UniqueFd> FakeSupervisor::StartBarrier() {
  if (absl::Status heard = Hear("barrier"); !heard.ok()) return heard;
  return there_ ? Duplicate(speaks_.get()) : UniqueFd();
}

absl::Status FakeSupervisor::Remove(const std::string& name) {
  if (!IsDescriptorName(name)) return absl::InvalidArgumentError("a bad name");
  absl::Status heard = Hear(absl::StrCat("remove ", name));
  if (heard.ok()) std::erase_if(stored_, [&name](const KeptDescriptor& kept) { return kept.name == name; });
  return heard;
}

}  // namespace rdmabroker
