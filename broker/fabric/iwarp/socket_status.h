// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_SOCKET_STATUS_H_
#define BROKER_FABRIC_IWARP_SOCKET_STATUS_H_

#include "dataplane/ndk/status.h"

namespace rdmabroker {

// What a socket call was for; the same errno means different things to different ones.
enum class SocketStep {
  kBind,     // socket(2), bind(2), listen(2) for an endpoint.
  kConnect,  // Until the peer's MPA reply: connect(2) and what follows on the stream.
  kFinish,   // From the MPA reply on.
};

// The one place where an errno becomes an NDK status. What it does not know is STATUS_UNSUCCESSFUL while connecting or
// binding, and STATUS_CONNECTION_ABORTED once the peer has answered.
NdkStatus SocketStatus(SocketStep step, int error);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_SOCKET_STATUS_H_
