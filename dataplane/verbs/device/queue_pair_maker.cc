// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/queue_pair_maker.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "dataplane/unique_fd.h"

namespace rdmabroker::verbs {
namespace {

// What the kernel puts into one message of a dump at most (NLMSG_GOODSIZE, or what the reader offers up to 32 KiB).
constexpr size_t kMessageLength = 32 * 1024;
// The first of a device, on which nearly all queue pairs are; those of others are found by the long way.
constexpr uint32_t kPort = 1;
// Of hundreds, while others come and go all the time, one list in eighty left out the one that was looked for.
constexpr int kMostLists = 10;

struct NumberAttribute {
  nlattr header;
  uint32_t value;
};

struct Request {
  nlmsghdr header;
  NumberAttribute device;
  NumberAttribute port;
  NumberAttribute number;
};

NumberAttribute Number(uint16_t type, uint32_t value) { return {{sizeof(NumberAttribute), type}, value}; }

// RDMA netlink has no header of its own; its attributes are like rtnetlink's.
template <typename Function>
void ForEachAttribute(const void* first, int length, const Function& function) {
  const auto* attribute = static_cast<const rtattr*>(first);
  for (; RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length)) function(attribute);
}

uint32_t ReadNumber(const rtattr* attribute) {
  uint32_t value = 0;
  if (RTA_PAYLOAD(attribute) >= sizeof value) std::memcpy(&value, RTA_DATA(attribute), sizeof value);
  return value;
}

// Reads the attributes of one queue pair, or of a table of them, for the one that is looked for.
void ReadQueuePairs(const void* first, int length, uint32_t wanted, QueuePairMaker* maker) {
  uint32_t number = 0;
  uint32_t thread = 0;
  bool kernel = false;
  ForEachAttribute(first, length, [&](const rtattr* attribute) {
    switch (attribute->rta_type & NLA_TYPE_MASK) {
      case RDMA_NLDEV_ATTR_RES_QP:
      case RDMA_NLDEV_ATTR_RES_QP_ENTRY:
        return ReadQueuePairs(RTA_DATA(attribute), static_cast<int>(RTA_PAYLOAD(attribute)), wanted, maker);
      case RDMA_NLDEV_ATTR_RES_LQPN:
        number = ReadNumber(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_PID:
        thread = ReadNumber(attribute);
        return;
      case RDMA_NLDEV_ATTR_RES_KERN_NAME:
        kernel = true;
        return;
      default:
        return;
    }
  });
  if (number == wanted) *maker = {0, static_cast<pid_t>(thread), kernel};
}

// Reads the answer to its end. 0, or an errno of the socket, with which more of it may be on its way.
int Receive(int netlink, uint32_t number, QueuePairMaker* maker) {
  std::vector<char> buffer(kMessageLength);
  while (true) {
    // The kernel has each part ready when it is asked for, so this does not wait.
    const ssize_t received = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return received < 0 ? errno : EPROTO;
    auto left = static_cast<uint32_t>(received);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return 0;
      if (header->nlmsg_type == NLMSG_ERROR) {
        const int error = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
        if (error != 0) *maker = {.error = error};
        return 0;
      }
      ReadQueuePairs(NLMSG_DATA(header), static_cast<int>(NLMSG_PAYLOAD(header, 0)), number, maker);
    }
  }
}

// Asks for the one queue pair, which works where the kernel knows its port, or for all of the device.
QueuePairMaker Ask(uint32_t device_index, uint32_t number, bool all) {
  // The thread's next question goes by the same one.
  thread_local UniqueFd netlink;
  if (!netlink) netlink.Reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
  if (!netlink) return {.error = errno};
  Request request = {
      .header = {.nlmsg_len = sizeof request,
                 .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET),
                 .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | (all ? NLM_F_DUMP : 0))},
      .device = Number(RDMA_NLDEV_ATTR_DEV_INDEX, device_index),
      .port = Number(RDMA_NLDEV_ATTR_PORT_INDEX, kPort),
      .number = Number(RDMA_NLDEV_ATTR_RES_LQPN, number)};
  if (all) request.header.nlmsg_len = sizeof request.header + sizeof request.device;
  QueuePairMaker maker;
  const bool sent = ::send(netlink.get(), &request, request.header.nlmsg_len, 0) >= 0;
  const int error = sent ? Receive(netlink.get(), number, &maker) : errno;
  if (error == 0) return maker;
  netlink.Reset();
  return {.error = error};
}

}  // namespace

QueuePairMaker FindQueuePairMaker(uint32_t device_index, uint32_t number) {
  QueuePairMaker maker = Ask(device_index, number, false);
  // EAGAIN: it is there, but the kernel does not know its port. A list that needs several messages leaves some out
  // where others go meanwhile, as the next message begins behind as many as were shown so far (res_get_common_dumpit in
  // drivers/infiniband/core/nldev.c).
  for (int lists = 0; maker.error == EAGAIN && lists < kMostLists; ++lists) {
    maker = Ask(device_index, number, true);
    if (maker.error == ENOENT) maker = Ask(device_index, number, false);
  }
  return maker;
}

bool IsQueuePairShown(uint32_t device_index, uint32_t number) {
  return Ask(device_index, number, false).error != ENOENT;
}

}  // namespace rdmabroker::verbs
