// SPDX-License-Identifier: Apache-2.0

#include "client/address_holder.h"

#include <utility>

#include "client/broker_link.h"
#include "dataplane/catch_exceptions.h"

namespace rdmabroker::client {

NdkStatus AddressHolder::OnAddressEvent(AddressEventCallback on_address) {
  return CatchExceptions([&] {
    const auto self = std::static_pointer_cast<AddressHolder>(shared_from_this());
    const NdkStatus posted = Post([self, on_address = std::move(on_address)]() mutable {
      if (self->closing()) return;
      self->on_address_ = std::move(on_address);
      const AddressEventCallback tell = self->on_address_;
      if (tell && !self->present_) tell(false);
    });
    return posted == NdkStatus::kPending ? NdkStatus::kSuccess : posted;
  });
}

void AddressHolder::HandleEvent(const v1::SessionEvent& event) {
  if (!event.has_endpoint_address()) return;
  present_ = event.endpoint_address().present();
  const AddressEventCallback tell = on_address_;
  if (tell && !closing()) tell(present_);
}

}  // namespace rdmabroker::client
