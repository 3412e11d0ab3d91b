// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/call.h"

#include <gtest/gtest.h>

#include "dataplane/testing/side.h"

namespace rdmabroker::ndkpi {

Call::Call(std::string what) : record_(std::make_shared<Record>(std::move(what))) {}

void Call::Record::Complete(const client::Outcome& how) {
  const std::lock_guard lock(mutex);
  if (++completions == 1) outcome = how;
  inline_completion = inline_completion || std::this_thread::get_id() == calling;
  changed.notify_all();
}

client::OutcomeCompletion Call::completion() const {
  return [record = record_](const client::Outcome& outcome) { record->Complete(outcome); };
}

std::function<void()> Call::close_completion() const {
  return [record = record_] { record->Complete({}); };
}

void Call::Calling() const {
  const std::lock_guard lock(record_->mutex);
  record_->calling = std::this_thread::get_id();
}

const Call& Call::Returned(NdkStatus status) const {
  const std::lock_guard lock(record_->mutex);
  record_->calling = {};
  record_->has_returned = true;
  record_->returned = status;
  record_->changed.notify_all();
  return *this;
}

bool Call::pending() const {
  const std::lock_guard lock(record_->mutex);
  return record_->has_returned && record_->returned == NdkStatus::kPending;
}

bool Call::ended() const {
  const std::lock_guard lock(record_->mutex);
  return record_->Ended();
}

client::Outcome Call::Wait(std::chrono::seconds patience) const {
  std::unique_lock lock(record_->mutex);
  EXPECT_TRUE(record_->changed.wait_for(lock, patience, [this] { return record_->Ended(); }))
      << record_->what << " does not end";
  if (record_->completions > 0) return record_->outcome;
  client::Outcome outcome;
  outcome.status = record_->returned;
  return outcome;
}

void Call::Check() const {
  const std::lock_guard lock(record_->mutex);
  const bool pending = record_->returned == NdkStatus::kPending;
  EXPECT_EQ(record_->completions, pending ? 1 : 0)
      << "completions of " << record_->what << ", which returned " << StatusName(record_->returned);
  EXPECT_FALSE(record_->inline_completion) << record_->what << " completes before it returns, on its caller's thread";
}

Call Calls::Add(std::string what) {
  const std::lock_guard lock(mutex_);
  calls_.emplace_back(std::move(what));
  return calls_.back();
}

void Calls::CheckAll() {
  const std::lock_guard lock(mutex_);
  for (const Call& call : calls_) call.Check();
}

}  // namespace rdmabroker::ndkpi
