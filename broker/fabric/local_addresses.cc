// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/local_addresses.h"

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace rdmabroker {
namespace {

// What the kernel puts into one message of a dump at most (NLMSG_GOODSIZE, or what the reader offers up to 32 KiB).
constexpr size_t kMessageLength = 32 * 1024;
// A dump that an address change interrupts is made again; a namespace that changes faster will tell of it again anyway.
constexpr int kDumpTries = 4;
// More than a socket's buffer holds; what comes after them is read the next time.
constexpr int kChangesAtATime = 1024;

absl::Status Failed(const char* what, int error) {
  return absl::UnavailableError("local addresses: " + std::string(what) + ": " + std::strerror(error));
}

absl::StatusOr<UniqueFd> OpenNetlink(uint32_t groups) {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return Failed("netlink socket", errno);
  sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Failed("netlink bind", errno);
  }
  return socket;
}

absl::Status AskForAddresses(int netlink) {
  struct {
    nlmsghdr header;
    ifaddrmsg body;
  } request = {};
  request.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETADDR, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
  if (::send(netlink, &request, sizeof request, 0) != sizeof request) return Failed("netlink send", errno);
  return absl::OkStatus();
}

// Nothing for an address that cannot be bound to.
std::optional<IpAddress> ParseAddress(const nlmsghdr* header) {
  const auto* body = static_cast<const ifaddrmsg*>(NLMSG_DATA(header));
  if (body->ifa_family != AF_INET && body->ifa_family != AF_INET6) return std::nullopt;
  IpAddress ip = {.family = body->ifa_family == AF_INET ? IpFamily::kIpv4 : IpFamily::kIpv6};
  const size_t length = body->ifa_family == AF_INET ? 4 : 16;
  uint32_t flags = body->ifa_flags;
  bool has_local = false;
  bool has_address = false;
  int left = static_cast<int>(IFA_PAYLOAD(header));
  for (const rtattr* attribute = IFA_RTA(body); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    // On point-to-point links IFA_ADDRESS is the peer's.
    const bool local = attribute->rta_type == IFA_LOCAL;
    if (local || (attribute->rta_type == IFA_ADDRESS && !has_local)) {
      if (RTA_PAYLOAD(attribute) < length) return std::nullopt;
      std::memcpy(ip.bytes.data(), RTA_DATA(attribute), length);
      has_local |= local;
      has_address = true;
    } else if (attribute->rta_type == IFA_FLAGS && RTA_PAYLOAD(attribute) >= sizeof flags) {
      std::memcpy(&flags, RTA_DATA(attribute), sizeof flags);
    }
  }
  const bool tentative = (flags & IFA_F_TENTATIVE) != 0 && (flags & IFA_F_OPTIMISTIC) == 0;
  if (!has_address || tentative || (flags & IFA_F_DADFAILED) != 0) return std::nullopt;
  if (ip.IsLinkLocal()) ip.scope_id = body->ifa_index;
  return ip;
}

// Reads a dump to its end. ABORTED if a change got in between. The kernel has each part ready when it is asked for, so
// this does not wait.
absl::StatusOr<std::vector<IpAddress>> ReadDump(int netlink) {
  std::vector<IpAddress> addresses;
  std::vector<char> buffer(kMessageLength);
  bool interrupted = false;
  while (true) {
    const ssize_t received = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return Failed("netlink receive", received < 0 ? errno : EPROTO);
    auto left = static_cast<uint32_t>(received);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      interrupted |= (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (header->nlmsg_type == NLMSG_ERROR) {
        return Failed("netlink dump", -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error);
      }
      if (header->nlmsg_type == NLMSG_DONE) {
        if (interrupted) return absl::AbortedError("local addresses: changed while they were read");
        return addresses;
      }
      if (header->nlmsg_type != RTM_NEWADDR) continue;
      if (const std::optional<IpAddress> ip = ParseAddress(header)) addresses.push_back(*ip);
    }
  }
}

absl::StatusOr<std::vector<IpAddress>> ReadAddresses() {
  absl::StatusOr<std::vector<IpAddress>> addresses = absl::AbortedError("local addresses: not read yet");
  for (int tries = 0; tries < kDumpTries && absl::IsAborted(addresses.status()); ++tries) {
    absl::StatusOr<UniqueFd> netlink = OpenNetlink(0);
    if (!netlink.ok()) return netlink.status();
    if (absl::Status status = AskForAddresses(netlink->get()); !status.ok()) return status;
    addresses = ReadDump(netlink->get());
  }
  if (!addresses.ok()) return addresses;
  std::sort(addresses->begin(), addresses->end());
  addresses->erase(std::unique(addresses->begin(), addresses->end()), addresses->end());
  return addresses;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalAddresses>> LocalAddresses::Open() {
  absl::StatusOr<UniqueFd> changes = OpenNetlink(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
  if (!changes.ok()) return changes.status();
  std::unique_ptr<LocalAddresses> opened(new LocalAddresses(*std::move(changes)));
  absl::StatusOr<std::vector<IpAddress>> addresses = ReadAddresses();
  if (!addresses.ok()) return addresses.status();
  opened->addresses_ = *std::move(addresses);
  return opened;
}

bool LocalAddresses::Refresh() {
  // What changed is of no interest: a lost message (ENOBUFS) then costs nothing.
  std::vector<char> buffer(kMessageLength);
  for (int i = 0; i < kChangesAtATime; ++i) {
    if (::recv(changes_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) < 0 && errno != ENOBUFS) break;
  }
  absl::StatusOr<std::vector<IpAddress>> addresses = ReadAddresses();
  if (!addresses.ok() || *addresses == addresses_) return false;
  addresses_ = *std::move(addresses);
  return true;
}

absl::StatusOr<uint64_t> NetworkNamespace() {
  struct stat status = {};
  if (::stat("/proc/thread-self/ns/net", &status) != 0) return Failed("/proc/thread-self/ns/net", errno);
  return status.st_ino;
}

}  // namespace rdmabroker
