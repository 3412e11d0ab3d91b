// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/rdma_netlink.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "dataplane/netlink.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::verbs {
namespace {

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

}  // namespace

int AskRdmaNetlink(uint16_t command, const std::vector<NetlinkNumber>& of, bool all,
                   const std::function<void(const void* first, int length)>& on_message) {
  // The thread's next question goes by the same one.
  thread_local UniqueFd netlink;
  return AskNetlink(NETLINK_RDMA, Request(command, of, all), &netlink, on_message);
}

}  // namespace rdmabroker::verbs
