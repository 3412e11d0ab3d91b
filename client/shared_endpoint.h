// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_SHARED_ENDPOINT_H_
#define CLIENT_SHARED_ENDPOINT_H_

#include <memory>
#include <utility>

#include "client/address_holder.h"
#include "client/local_address.h"

namespace rdmabroker::client {

// NDK_SHARED_ENDPOINT: a local address from which several connectors connect. Its close waits for them.
class SharedEndpoint : public AddressHolder {
 public:
  // As Connector::GetLocalAddress; never kConnectionInvalid.
  NdkStatus GetLocalAddress(sockaddr* address, uint32_t* length) const {
    return CopyAddress(address_, address, length);
  }

 private:
  friend class Adapter;
  friend class Connector;

  explicit SharedEndpoint(std::shared_ptr<BrokerLink> link)
      : AddressHolder(std::move(link), ObjectKind::kSharedEndpoint) {}

  void SubmitClose(Done done) override;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_SHARED_ENDPOINT_H_
