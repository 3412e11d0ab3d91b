// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/local_addresses.h"

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "broker/fabric/address_message.h"
#include "broker/log/log.h"
#include "dataplane/netlink.h"

namespace rdmabroker {
namespace {

// A list that an address change interrupts is made again at once, and then later.
constexpr int kDumpTries = 4;
// More than a socket's buffer holds; what comes after them is read the next time.
constexpr int kChangesAtATime = 1024;

absl::Status Failed(const char* what, int error) {
  return absl::UnavailableError("local addresses: " + std::string(what) + ": " + std::strerror(error));
}

// An epoll instance that is readable when one of them is.
absl::StatusOr<UniqueFd> PollBoth(const UniqueFd& one, const UniqueFd& other) {
  UniqueFd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll) return Failed("epoll", errno);
  for (const UniqueFd* each : {&one, &other}) {
    epoll_event event = {.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(poll.get(), EPOLL_CTL_ADD, each->get(), &event) != 0) return Failed("epoll", errno);
  }
  return poll;
}

absl::StatusOr<UniqueFd> OpenChanges() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return Failed("netlink socket", errno);
  const sockaddr_nl address = {.nl_family = AF_NETLINK,
                               .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Failed("netlink bind", errno);
  }
  return socket;
}

absl::StatusOr<std::vector<IpAddress>> ReadAddresses(UniqueFd* netlink) {
  struct {
    nlmsghdr header;
    ifaddrmsg body;
  } request = {};
  request.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETADDR, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
  const std::span bytes(reinterpret_cast<const char*>(&request), sizeof request);
  std::vector<IpAddress> addresses;
  int error = EINTR;
  for (int tries = 0; tries < kDumpTries && error == EINTR; ++tries) {
    addresses.clear();
    error = AskNetlink(NETLINK_ROUTE, bytes, netlink, [&addresses](const void* first, int length) {
      if (const std::optional<IpAddress> ip = ParseAddressMessage(first, length)) addresses.push_back(*ip);
    });
  }
  if (error == EINTR) return absl::AbortedError("local addresses: changed while they were read");
  if (error != 0) return Failed("netlink", error);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

// Zero: not at all. Either way it is not readable any more.
void SetTimer(const UniqueFd& timer, absl::Duration after) {
  const itimerspec when = {.it_interval = {}, .it_value = absl::ToTimespec(after)};
  ::timerfd_settime(timer.get(), 0, &when, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalAddresses>> LocalAddresses::Open() {
  absl::StatusOr<UniqueFd> changes = OpenChanges();
  if (!changes.ok()) return changes.status();
  // Opened now: the reads that fail are those for which there are no descriptors.
  UniqueFd retry(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!retry) return Failed("timer", errno);
  absl::StatusOr<UniqueFd> poll = PollBoth(*changes, retry);
  if (!poll.ok()) return poll.status();
  std::unique_ptr<LocalAddresses> opened(new LocalAddresses(*std::move(changes), std::move(retry), *std::move(poll)));
  absl::StatusOr<std::vector<IpAddress>> addresses = ReadAddresses(&opened->netlink_);
  if (!addresses.ok()) return addresses.status();
  opened->addresses_ = *std::move(addresses);
  return opened;
}

bool LocalAddresses::Refresh() {
  // What changed is of no interest: a lost message (ENOBUFS) then costs nothing.
  char ignored = 0;
  for (int i = 0; i < kChangesAtATime; ++i) {
    if (::recv(changes_.get(), &ignored, sizeof ignored, MSG_DONTWAIT) < 0 && errno != ENOBUFS) break;
  }
  absl::StatusOr<std::vector<IpAddress>> addresses = ReadAddresses(&netlink_);
  if (!addresses.ok()) {
    TryLater(addresses.status());
    return false;
  }
  if (std::exchange(failures_, 0) != 0) {
    SetTimer(retry_, absl::ZeroDuration());
    back_off_ = kFirstRetry;
  }
  return std::exchange(addresses_, *addresses) != *addresses;
}

void LocalAddresses::TryLater(const absl::Status& failure) {
  // The first may be a list that is changing just now.
  if (++failures_ == 2) LogError("local addresses not read", {{"cause", failure.message()}});
  SetTimer(retry_, back_off_);
  back_off_ = std::min(2 * back_off_, kLongestRetry);
}

absl::StatusOr<uint64_t> NetworkNamespace() {
  struct stat status = {};
  if (::stat("/proc/thread-self/ns/net", &status) != 0) return Failed("/proc/thread-self/ns/net", errno);
  return status.st_ino;
}

}  // namespace rdmabroker
