// SPDX-License-Identifier: Apache-2.0

#include "dataplane/netlink_answer.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

namespace rdmabroker {
namespace {

constexpr int kMostErrno = 4095;  // MAX_ERRNO of linux/err.h.

// An errno, which the kernel negates, at the beginning of what a message carries.
std::optional<int> ReadError(std::span<const char> carried) {
  int error = 0;
  if (carried.size() < sizeof error) return std::nullopt;
  std::memcpy(&error, carried.data(), sizeof error);
  if (error > 0 || error < -kMostErrno) return std::nullopt;
  return -error;
}

}  // namespace

NetlinkAnswer::Progress NetlinkAnswer::Take(std::span<const char> part,
                                            const std::function<void(const void* first, int length)>& on_message) {
  while (!part.empty()) {
    if (part.size() < sizeof(nlmsghdr)) return Progress::kMalformed;
    const auto* const header = reinterpret_cast<const nlmsghdr*>(part.data());
    if (header->nlmsg_len < sizeof *header || header->nlmsg_len > part.size()) return Progress::kMalformed;
    const auto carried = part.first(header->nlmsg_len).subspan(std::min<size_t>(header->nlmsg_len, NLMSG_HDRLEN));
    interrupted_ |= (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) {
      const auto error = ReadError(carried);
      // An end without an error is one, too; an acknowledgement has one always.
      if (!error && (header->nlmsg_type == NLMSG_ERROR || !carried.empty())) return Progress::kMalformed;
      error_ = error.value_or(0);
      return Progress::kOver;
    }
    on_message(carried.data(), static_cast<int>(carried.size()));
    part = part.subspan(std::min<size_t>(part.size(), NLMSG_ALIGN(header->nlmsg_len)));
  }
  return Progress::kMore;
}

}  // namespace rdmabroker
