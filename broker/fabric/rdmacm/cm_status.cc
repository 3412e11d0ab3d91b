// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_status.h"

#include <cerrno>

namespace rdmabroker {
namespace {

// What a row may be about besides an errno, the largest of which is 4095 (MAX_ERRNO, include/linux/err.h).
constexpr int kReason = 4096;          // InfiniBand's, of a reject.
constexpr int kOnAllAddresses = 4097;  // EADDRNOTAVAIL of an address that is there: somebody has the port on all.

struct Row {
  int error;
  NdkStatus bind;
  NdkStatus resolve_address;
  NdkStatus resolve_route;
  NdkStatus connect;
  NdkStatus finish;
};

constexpr NdkStatus kOther = NdkStatus::kUnsuccessful;
constexpr NdkStatus kAborted = NdkStatus::kConnectionAborted;
constexpr NdkStatus kNoHost = NdkStatus::kHostUnreachable;
constexpr NdkStatus kNoNetwork = NdkStatus::kNetworkUnreachable;
constexpr NdkStatus kNoResources = NdkStatus::kInsufficientResources;
constexpr NdkStatus kInUse = NdkStatus::kSharingViolation;
constexpr NdkStatus kNotLocal = NdkStatus::kInvalidAddress;
constexpr NdkStatus kDenied = NdkStatus::kAccessDenied;
constexpr NdkStatus kBadCall = NdkStatus::kInvalidParameter;

constexpr Row kRows[] = {
    {EADDRINUSE, kInUse, kInUse, kInUse, kInUse, kAborted},
    {kOnAllAddresses, kInUse, kOther, kOther, kOther, kOther},
    // No device has the address now. CONNECT: an iWARP device has a connection with the same addresses and ports.
    {EADDRNOTAVAIL, kNotLocal, kNoNetwork, kNoHost, NdkStatus::kAddressAlreadyExists, kAborted},
    // No device has the address; or the way to the peer leaves the devices.
    {ENODEV, kNotLocal, kNoNetwork, kNoHost, kNoNetwork, kAborted},
    {ENETUNREACH, kOther, kNoNetwork, kNoHost, kNoNetwork, kAborted},
    {EHOSTUNREACH, kOther, kNoHost, kNoHost, kNoHost, kAborted},
    // Nobody answers for the address; the subnet manager does not answer; the peer does not.
    {ETIMEDOUT, kOther, kNoHost, NdkStatus::kIoTimeout, NdkStatus::kIoTimeout, NdkStatus::kIoTimeout},
    {ECONNREFUSED, kOther, kNoHost, kNoHost, NdkStatus::kConnectionRefused, kAborted},
    {ECONNRESET, kOther, kNoHost, kNoHost, NdkStatus::kConnectionRefused, kAborted},
    {kReason, kOther, kOther, kOther, NdkStatus::kConnectionRefused, kAborted},
    // CONNECT: there is no such queue pair, or a former attempt has ended it.
    {EINVAL, kOther, kOther, kNoHost, NdkStatus::kConnectionInvalid, kAborted},
    {EACCES, kDenied, kDenied, kDenied, kDenied, kAborted},
    {EPERM, kDenied, kDenied, kDenied, kDenied, kAborted},
    {EAFNOSUPPORT, kBadCall, kBadCall, kBadCall, kBadCall, kAborted},
    {ENOMEM, kNoResources, kNoResources, kNoResources, kNoResources, kNoResources},
    {ENOBUFS, kNoResources, kNoResources, kNoResources, kNoResources, kNoResources},
    {EMFILE, kNoResources, kNoResources, kNoResources, kNoResources, kNoResources},
    {ENFILE, kNoResources, kNoResources, kNoResources, kNoResources, kNoResources},
};

}  // namespace

NdkStatus CmStatus(CmStep step, int error) {
  if (error == 0) return NdkStatus::kSuccess;
  if (step == CmStep::kDisconnect) return error == ETIMEDOUT ? NdkStatus::kIoTimeout : kAborted;
  for (const Row& row : kRows) {
    if (row.error != error) continue;
    switch (step) {
      case CmStep::kBind:
        return row.bind;
      case CmStep::kResolveAddress:
        return row.resolve_address;
      case CmStep::kResolveRoute:
        return row.resolve_route;
      case CmStep::kConnect:
        return row.connect;
      case CmStep::kFinish:
      case CmStep::kDisconnect:
        return row.finish;
    }
  }
  switch (step) {
    case CmStep::kFinish:
      return kAborted;
    case CmStep::kResolveRoute:
      return kNoHost;
    default:
      return kOther;
  }
}

NdkStatus CmBindStatus(int error, bool local) {
  return CmStatus(CmStep::kBind, error == EADDRNOTAVAIL && local ? kOnAllAddresses : error);
}

std::string CmRefusalText(bool by_reason, int error) {
  if (!by_reason) {
    if (CmStatus(CmStep::kConnect, error) != NdkStatus::kConnectionRefused) return {};
    return "nobody listens there, or the listener's program has rejected, or its broker has, as for a listener that is "
           "paused or full; see \"rdma-brokerctl listeners\" and the broker's log on that host";
  }
  switch (error) {
    case kRejectNoResources:
      return "the peer's host has no room for the connection (reason 3); see its kernel's log and its limits";
    case kRejectInvalidServiceId:
      return "nobody listens there (reason 8); see on that host that the program runs and listens at this address and "
             "port (\"rdma-brokerctl listeners\", \"rdma resource show cm_id\")";
    case kRejectStaleConnection:
      return "the peer's host still has an earlier connection of this queue pair's number (reason 10); try again";
    case kRejectConsumerDefined:
      return "there is a listener, and its program has rejected, or its broker has, as for a listener that is paused, "
             "closing or full (reason 28); see \"rdma-brokerctl listeners\" and the broker's log on that host";
    default:
      return "the peer's host has refused for InfiniBand's reason " + std::to_string(error) + "; see its kernel's log";
  }
}

NdkStatus CmRejectStatus(CmStep step) { return CmStatus(step, kReason); }

}  // namespace rdmabroker
