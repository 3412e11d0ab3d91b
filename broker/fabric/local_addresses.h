// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_LOCAL_ADDRESSES_H_
#define BROKER_FABRIC_LOCAL_ADDRESSES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
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
  // Readable when there may have been a change of an address or interface, and when a read that failed is due again.
  int descriptor() const { return poll_.get(); }
  // Takes note of changes; true if addresses() is different now. If the kernel cannot tell, addresses() stays as it
  // was, and descriptor() becomes readable again after a while, first kFirstRetry and at most kLongestRetry.
  bool Refresh();

  // A list that changes all the time is whole again in milliseconds. A lack of descriptors or memory may last, and a
  // read takes the loop thread some microseconds for each address.
  static constexpr absl::Duration kFirstRetry = absl::Milliseconds(50);
  static constexpr absl::Duration kLongestRetry = absl::Seconds(10);

 private:
  LocalAddresses(UniqueFd changes, UniqueFd retry, UniqueFd poll)
      : changes_(std::move(changes)), retry_(std::move(retry)), poll_(std::move(poll)) {}

  void TryLater(const absl::Status& failure);

  const UniqueFd changes_;
  const UniqueFd retry_;  // A timer, which is armed after a read that failed.
  const UniqueFd poll_;   // An epoll instance with both.
  UniqueFd netlink_;      // Stays open: changes are read even when descriptors have run out.
  std::vector<IpAddress> addresses_;
  absl::Duration back_off_ = kFirstRetry;
  int failures_ = 0;  // In a row.
};

// The inode number of the calling thread's network namespace (namespaces(7)). UNAVAILABLE without /proc.
absl::StatusOr<uint64_t> NetworkNamespace();

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_LOCAL_ADDRESSES_H_
