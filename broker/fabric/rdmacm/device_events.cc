// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/device_events.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace rdmabroker {
namespace {

// The kernel's own events; udev sends its to group 2.
constexpr uint32_t kKernelGroup = 1;
// UEVENT_BUFFER_SIZE (include/linux/kobject.h) and the line before it.
constexpr size_t kEventLength = 4096;
// More than the socket's buffer holds; what comes after them is taken the next time.
constexpr int kEventsAtATime = 1024;

// An event is "ACTION@PATH" and lines "KEY=VALUE", each with a zero behind it.
bool ConcernsRdma(std::string_view event) {
  using std::string_view_literals::operator""sv;
  return event.find("\0SUBSYSTEM=infiniband"sv) != event.npos || event.find("/misc/rdma_cm\0"sv) != event.npos;
}

}  // namespace

absl::StatusOr<DeviceEvents> DeviceEvents::Open() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  if (!socket) return absl::UnavailableError("uevent socket: " + std::string(std::strerror(errno)));
  const sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = kKernelGroup};
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return absl::UnavailableError("uevent socket: bind: " + std::string(std::strerror(errno)));
  }
  return DeviceEvents(std::move(socket));
}

bool DeviceEvents::Take() const {
  std::array<char, kEventLength> event;
  bool concerns_rdma = false;
  for (int i = 0; i < kEventsAtATime; ++i) {
    const ssize_t length = ::recv(socket_.get(), event.data(), event.size(), 0);
    if (length < 0 && errno == EAGAIN) break;
    // ENOBUFS: some were lost.
    concerns_rdma |= length < 0 || ConcernsRdma({event.data(), static_cast<size_t>(length)});
  }
  return concerns_rdma;
}

}  // namespace rdmabroker
