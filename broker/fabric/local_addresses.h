// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_LOCAL_ADDRESSES_H_
#define BROKER_FABRIC_LOCAL_ADDRESSES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The unicast addresses of this network namespace that a socket can be bound to, loopback's included, as the kernel
// tells them (rtnetlink(7)); IPv6 addresses that are still being checked for duplicates are not there yet.
class LocalAddresses {
 public:
  // Subscribes to changes, then reads what there is. UNAVAILABLE with the kernel's reason, ABORTED where it changes all
  // the time.
  static absl::StatusOr<std::unique_ptr<LocalAddresses>> Open();

  // Sorted, without duplicates.
  const std::vector<IpAddress>& addresses() const { return addresses_; }
  // Readable when there may have been a change of an address, or of an interface.
  int descriptor() const { return changes_.get(); }
  // Takes note of changes; true if addresses() is different now. If the kernel cannot tell, addresses() stays as it
  // was.
  bool Refresh();

 private:
  explicit LocalAddresses(UniqueFd changes) : changes_(std::move(changes)) {}

  UniqueFd changes_;
  UniqueFd netlink_;  // Stays open: changes are read even when descriptors have run out.
  std::vector<IpAddress> addresses_;
};

// The inode number of the calling thread's network namespace (namespaces(7)). UNAVAILABLE without /proc.
absl::StatusOr<uint64_t> NetworkNamespace();

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_LOCAL_ADDRESSES_H_
