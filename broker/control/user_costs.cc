// SPDX-License-Identifier: Apache-2.0

#include "broker/control/user_costs.h"

#include <algorithm>
#include <utility>

namespace rdmabroker {

UserCosts::Entry::Entry(UserCosts& costs, const Payer& payer, std::function<void()> end)
    : costs_(costs), end_(std::move(end)) {
  costs_.Join(*this, payer);
}

UserCosts::Entry::~Entry() { costs_.Leave(*this); }

rpc::FrameBudget& UserCosts::Entry::frames() const { return account_->second.frames; }

bool UserCosts::Entry::MayGoOn() const { return account_->second.line->MayGoOn(); }

void UserCosts::Entry::Charge(int64_t requests) const { costs_.turns_.Charge(*account_->second.line, requests); }

void UserCosts::Entry::Owe(int64_t requests) const { UserTurns::Owe(*account_->second.line, requests); }

void UserCosts::Entry::InTurn(std::function<void()> work) const {
  costs_.turns_.Add(account_->second.line, std::move(work));
}

void UserCosts::Entry::MoveTo(const Payer& payer) {
  if (account_->first == payer) return;
  const size_t held = held_;
  costs_.Leave(*this);
  costs_.Join(*this, payer);
  Hold(held);
}

void UserCosts::Entry::Hold(size_t octets) {
  Account& account = account_->second;
  account.held += octets - held_;
  costs_.held_ += octets - held_;
  held_ = octets;
  const bool exceeds = account.held > costs_.bounds_.of_payer || costs_.held_ > costs_.bounds_.in_all;
  if (!exceeds || std::exchange(costs_.ending_, true)) return;
  // The connection may be in the middle of its own work.
  costs_.loop_.Post([&costs = costs_] { costs.EndSome(); });
}

UserCosts::UserCosts(Loop& loop, const Bounds& bounds, std::function<void(uint64_t others)> waited)
    : loop_(loop), bounds_(bounds), turns_(loop, std::move(waited)) {}

UserCosts::~UserCosts() {
  for (const auto& [payer, account] : accounts_) loop_.CancelTimer(account.forget);
}

std::unique_ptr<UserCosts::Entry> UserCosts::Enter(const Payer& payer, std::function<void()> end) {
  return std::unique_ptr<Entry>(new Entry(*this, payer, std::move(end)));
}

void UserCosts::Join(Entry& entry, const Payer& payer) {
  entry.account_ = accounts_.try_emplace(payer, Loop::Now()).first;
  Account& account = entry.account_->second;
  account.entries.insert(&entry);
  loop_.CancelTimer(std::exchange(account.forget, TimerId::kNone));
}

void UserCosts::Leave(Entry& entry) {
  Account& account = entry.account_->second;
  account.held -= entry.held_;
  held_ -= std::exchange(entry.held_, 0);
  account.entries.erase(&entry);
  if (!account.entries.empty()) return;
  account.forget =
      loop_.StartTimer(Loop::Now() + bounds_.kept, [this, account = entry.account_] { accounts_.erase(account); });
}

UserCosts::Accounts::iterator UserCosts::Excessive() {
  const auto holds_less = [](const auto& a, const auto& b) { return a.second.held < b.second.held; };
  const auto most = std::max_element(accounts_.begin(), accounts_.end(), holds_less);
  if (most == accounts_.end() || (most->second.held <= bounds_.of_payer && held_ <= bounds_.in_all)) {
    return accounts_.end();
  }
  return most;
}

void UserCosts::EndSome() {
  ending_ = false;
  for (auto account = Excessive(); account != accounts_.end(); account = Excessive()) {
    const auto& entries = account->second.entries;
    const auto holds_less = [](const Entry* a, const Entry* b) { return a->held_ < b->held_; };
    Entry& most = **std::max_element(entries.begin(), entries.end(), holds_less);
    const std::function<void()> end = most.end_;
    // It is not chosen again, even if it has not ended yet.
    most.Hold(0);
    end();
  }
}

}  // namespace rdmabroker
