// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/socket_status.h"

#include <cerrno>

namespace rdmabroker {
namespace {

struct Row {
  int error;
  NdkStatus bind;
  NdkStatus connect;
  NdkStatus finish;
};

constexpr NdkStatus kOther = NdkStatus::kUnsuccessful;
constexpr NdkStatus kAborted = NdkStatus::kConnectionAborted;
constexpr NdkStatus kNoResources = NdkStatus::kInsufficientResources;

constexpr Row kRows[] = {
    {EADDRINUSE, NdkStatus::kSharingViolation, NdkStatus::kSharingViolation, kAborted},
    // connect(2): another connection has the same four addresses and ports.
    {EADDRNOTAVAIL, NdkStatus::kInvalidAddress, NdkStatus::kAddressAlreadyExists, kAborted},
    // bind(2) on a link-local address whose interface is gone; connect(2) from loopback to another host.
    {EINVAL, NdkStatus::kInvalidAddress, NdkStatus::kNetworkUnreachable, kAborted},
    {ENODEV, NdkStatus::kInvalidAddress, NdkStatus::kNetworkUnreachable, kAborted},
    {EAFNOSUPPORT, NdkStatus::kInvalidParameter, NdkStatus::kInvalidParameter, kAborted},
    {EACCES, NdkStatus::kAccessDenied, NdkStatus::kAccessDenied, kAborted},
    {EPERM, NdkStatus::kAccessDenied, NdkStatus::kAccessDenied, kAborted},
    {EMFILE, kNoResources, kNoResources, kNoResources},
    {ENFILE, kNoResources, kNoResources, kNoResources},
    {ENOMEM, kNoResources, kNoResources, kNoResources},
    {ENOBUFS, kNoResources, kNoResources, kNoResources},
    {ENETUNREACH, kOther, NdkStatus::kNetworkUnreachable, kAborted},
    {ENETDOWN, kOther, NdkStatus::kNetworkUnreachable, kAborted},
    {EHOSTUNREACH, kOther, NdkStatus::kHostUnreachable, kAborted},
    {EHOSTDOWN, kOther, NdkStatus::kHostUnreachable, kAborted},
    {ETIMEDOUT, kOther, NdkStatus::kIoTimeout, NdkStatus::kIoTimeout},
    // No listener; one that is paused, full or closing; or something that ends the stream in place of an MPA reply.
    {ECONNREFUSED, kOther, NdkStatus::kConnectionRefused, kAborted},
    {ECONNRESET, kOther, NdkStatus::kConnectionRefused, kAborted},
    {EPIPE, kOther, NdkStatus::kConnectionRefused, kAborted},
    // The peer speaks no MPA, or not ours: nothing there that a connection can be made to.
    {EPROTO, kOther, NdkStatus::kConnectionRefused, kAborted},
};

}  // namespace

NdkStatus SocketStatus(SocketStep step, int error) {
  for (const Row& row : kRows) {
    if (row.error != error) continue;
    switch (step) {
      case SocketStep::kBind:
        return row.bind;
      case SocketStep::kConnect:
        return row.connect;
      case SocketStep::kFinish:
        return row.finish;
    }
  }
  return step == SocketStep::kFinish ? kAborted : kOther;
}

}  // namespace rdmabroker
