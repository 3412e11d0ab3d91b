// SPDX-License-Identifier: Apache-2.0

// How a connection's id ends, and what the next process is told of it.

#include <utility>

#include "broker/fabric/rdmacm/cm_connection.h"

namespace rdmabroker {

void CmConnection::Release() {
  if (state_ == State::kReleasing) return;
  EndTurn();
  unwanted_ = state_ == State::kRequested;
  state_ = State::kReleasing;
  if (!std::exchange(held_, {}).empty()) answer_ = Answer::kNone;
  if (working_ != WorkId::kNone) {
    // What blocks in the kernel holds the id until it returns.
    if (!surroundings_.pool.Cancel(working_)) return;
    working_ = WorkId::kNone;
    answer_ = Answer::kNone;
  }
  DestroyAndReport();
}

void CmConnection::DestroyAndReport() {
  if (destroying_) return;
  const auto done = [this] {
    surroundings_.records.connections.erase(id_);
    surroundings_.reports.Push(FabricReleased{id_});
  };
  if (!kernel_id_) return done();
  if (answer_ == Answer::kDue && !device_lost_) return;
  destroying_ = true;
  Save();
  if (unwanted_) return surroundings_.DestroyUnwanted(*kernel_id_, done);
  if (answer_ == Answer::kNone) {
    surroundings_.Destroy(*kernel_id_, done);
  } else {
    destruction_ = surroundings_.Destroy(*kernel_id_, done, towards_);
  }
}

void CmConnection::Save() {
  // The number of one that is destroyed may be another's before that is stored. Where the pool does not come to it, the
  // kernel destroys it with the file of this process; but not one that waits: a successor would wait with it.
  const bool ends = destroying_ && answer_ == Answer::kNone;
  CmConnectionRecord record = {.device_index = device_.index,
                               .kernel_id = ends ? std::nullopt : kernel_id_,
                               .session = towards_.session,
                               .uid = towards_.uid,
                               .peer = towards_.peer,
                               .accepted = accepted_,
                               .tried_again = tried_again_,
                               .answer_due = answer_ == Answer::kDue,
                               .qp = {},
                               .process = 0,
                               .limits = {},
                               .options = {},
                               .private_data = {},
                               .device = device_.id};
  if (request_) {
    record.qp = request_->qp;
    record.process = request_->process;
    record.limits = request_->limits;
    record.options = request_->options;
    record.private_data = request_->private_data;
  }
  surroundings_.records.connections[id_] = Encode(record);
}

bool CmConnection::WaitsForAnswer() const {
  return state_ == State::kReleasing && answer_ == Answer::kDue && working_ == WorkId::kNone;
}

void CmConnection::LoseId() {
  const bool waits = WaitsForAnswer();
  EndTurn();
  kernel_id_.reset();
  answer_ = Answer::kNone;
  held_.clear();
  unsure_ = false;
  surroundings_.records.connections.erase(id_);
  if (state_ != State::kReleasing) state_ = State::kOver;
  if (waits) DestroyAndReport();
}

void CmConnection::LoseDevice() {
  device_lost_ = true;
  if (WaitsForAnswer()) DestroyAndReport();
}

}  // namespace rdmabroker
