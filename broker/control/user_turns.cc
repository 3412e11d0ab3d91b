// SPDX-License-Identifier: Apache-2.0

#include "broker/control/user_turns.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rdmabroker {

void UserTurns::Add(const std::shared_ptr<Line>& line, std::function<void()> work) {
  Line::Work& added = line->work_.emplace_back(Line::Work{.run = std::move(work), .others = std::nullopt});
  if (line->work_.size() == 1 && line->left_ >= 0) added.others = charged_ - line->charged_;
  if (!std::exchange(line->in_rotation_, true)) rotation_.push_back(line);
  ServeSoon();
}

void UserTurns::Charge(Line& line, int64_t requests) {
  assert(requests <= kShare);
  Owe(line, requests);
  line.charged_ += static_cast<uint64_t>(requests);
  charged_ += static_cast<uint64_t>(requests);
}

void UserTurns::ServeSoon() {
  if (std::exchange(due_, true)) return;
  const auto serve_in_this_turn = [this] { loop_.AtTurnEnd(Loop::Stage::kRead, [this] { Serve(); }); };
  if (loop_.turn() != served_in_) return serve_in_this_turn();
  loop_.Post(serve_in_this_turn);
}

void UserTurns::Serve() {
  served_in_ = loop_.turn();
  const uint64_t end = charged_ + kInATurn;
  for (size_t lines = rotation_.size(); lines > 0 && charged_ < end; --lines) {
    const std::shared_ptr<Line> line = std::move(rotation_.front());
    rotation_.pop_front();
    ServeLine(*line);
    line->in_rotation_ = !line->work_.empty();
    if (line->in_rotation_) rotation_.push_back(line);
  }
  due_ = false;
  if (!rotation_.empty()) ServeSoon();
}

void UserTurns::ServeLine(Line& line) {
  line.left_ = std::min(line.left_ + kShare, kShare);
  for (size_t pieces = line.work_.size(); pieces > 0 && line.MayGoOn(); --pieces) {
    const Line::Work work = std::move(line.work_.front());
    line.work_.pop_front();
    if (waited_ && work.others) waited_(charged_ - line.charged_ - *work.others);
    work.run();
  }
}

}  // namespace rdmabroker
