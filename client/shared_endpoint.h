// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_SHARED_ENDPOINT_H_
#define CLIENT_SHARED_ENDPOINT_H_

#include <memory>
#include <utility>

#include "client/broker_object.h"
#include "client/local_address.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::client {

// NDK_SHARED_ENDPOINT: a local address from which several connectors connect. Its close waits for them.
class SharedEndpoint : public BrokerObject {
 public:
  // The address, with the port that was chosen where 0 was asked for.
  const SocketAddress& address() const { return address_; }
  // As Connector::GetLocalAddress; never kConnectionInvalid.
  NdkStatus GetLocalAddress(sockaddr* address, uint32_t* length) const {
    return CopyAddress(address_, address, length);
  }

 private:
  friend class Adapter;
  friend class Connector;

  explicit SharedEndpoint(std::shared_ptr<BrokerLink> link)
      : BrokerObject(std::move(link), ObjectKind::kSharedEndpoint) {}

  void SubmitClose(Done done) override;
  void HandleEvent(const v1::SessionEvent&) override {}

  SocketAddress address_;  // Set before anybody else sees the object.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_SHARED_ENDPOINT_H_
