// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/rdma_netlink.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "dataplane/unique_fd.h"

namespace rdmabroker::verbs {
namespace {

// What the kernel puts into one message of a dump at most (NLMSG_GOODSIZE, or what the reader offers up to 32 KiB).
constexpr size_t kMessageLength = 32 * 1024;

struct NumberAttribute {
  nlattr header;
  uint32_t value;
};

template <typename Part>
void Append(const Part& part, std::vector<char>* message) {
  const auto* const bytes = reinterpret_cast<const char*>(&part);
  message->insert(message->end(), bytes, bytes + sizeof part);
}

std::vector<char> Request(uint16_t command, const std::vector<NetlinkNumber>& of, bool all) {
  std::vector<char> request;
  Append(nlmsghdr{.nlmsg_len = static_cast<uint32_t>(sizeof(nlmsghdr) + of.size() * sizeof(NumberAttribute)),
                  .nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)),
                  .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | (all ? NLM_F_DUMP : 0)),
                  .nlmsg_seq = 0,
                  .nlmsg_pid = 0},
         &request);
  for (const NetlinkNumber& number : of) {
    Append(NumberAttribute{{sizeof(NumberAttribute), number.attribute}, number.value}, &request);
  }
  return request;
}

// Reads the answer to its end. 0, or an errno of the socket, with which more of it may be on its way.
int Receive(int netlink, int* answer, const std::function<void(const void*, int)>& on_message) {
  std::vector<char> buffer(kMessageLength);
  while (true) {
    // The kernel has each part ready when it is asked for, so this does not wait.
    const ssize_t received = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return received < 0 ? errno : EPROTO;
    auto left = static_cast<uint32_t>(received);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) {
        // A list that was broken off says so at its end.
        if (NLMSG_PAYLOAD(header, 0) >= sizeof *answer) *answer = -*static_cast<const int*>(NLMSG_DATA(header));
        return 0;
      }
      if (header->nlmsg_type == NLMSG_ERROR) {
        *answer = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
        return 0;
      }
      on_message(NLMSG_DATA(header), static_cast<int>(NLMSG_PAYLOAD(header, 0)));
    }
  }
}

}  // namespace

int AskRdmaNetlink(uint16_t command, const std::vector<NetlinkNumber>& of, bool all,
                   const std::function<void(const void* first, int length)>& on_message) {
  // The thread's next question goes by the same one.
  thread_local UniqueFd netlink;
  if (!netlink) netlink.Reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
  if (!netlink) return errno;
  const std::vector<char> request = Request(command, of, all);
  int answer = 0;
  const bool sent = ::send(netlink.get(), request.data(), request.size(), 0) >= 0;
  const int error = sent ? Receive(netlink.get(), &answer, on_message) : errno;
  if (error == 0) return answer;
  netlink.Reset();
  return error;
}

uint32_t ReadNumber(const rtattr* attribute) {
  uint32_t value = 0;
  if (RTA_PAYLOAD(attribute) >= sizeof value) std::memcpy(&value, RTA_DATA(attribute), sizeof value);
  return value;
}

}  // namespace rdmabroker::verbs
