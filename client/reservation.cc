// SPDX-License-Identifier: Apache-2.0

#include "client/reservation.h"

#include <utility>

#include "client/object_requests.h"

namespace rdmabroker::client {

void Reservation::EndUse(bool taken) {
  --uses_;
  taken_ = taken_ || taken;
  if (Done done = std::exchange(waiting_close_, nullptr); done != nullptr) SubmitClose(std::move(done));
}

void Reservation::SubmitClose(Done done) {
  if (taken_) return done({}, {});
  if (uses_ > 0) {
    waiting_close_ = std::move(done);
    return;
  }
  v1::ReleasePortRequest request;
  request.set_reservation_id(id());
  SubmitUncounted(std::move(request), std::move(done));
}

}  // namespace rdmabroker::client
