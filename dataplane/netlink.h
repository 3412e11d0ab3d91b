// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NETLINK_H_
#define DATAPLANE_NETLINK_H_

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <functional>
#include <span>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Asks the kernel's subsystem `protocol`, a NETLINK_*, and calls `on_message` with what each message of the answer
// carries, and its length. `request` is one message, whose header asks for an acknowledgement (NLM_F_ACK) or a list
// (NLM_F_DUMP). *socket is opened where it is not, and closed after a failure, when more of the answer may be on its
// way. 0, or an errno, of the kernel's answer or of the socket; EINTR for a list that it says has changed meanwhile.
// Takes as long as the kernel needs to look it up, and waits for nobody but a module that the kernel loads for it.
int AskNetlink(int protocol, std::span<const char> request, UniqueFd* socket,
               const std::function<void(const void* first, int length)>& on_message);

// `function` takes each attribute's type, and the attribute.
template <typename Function>
void ForEachAttribute(const void* first, int length, const Function& function) {
  const auto* attribute = static_cast<const rtattr*>(first);
  for (; RTA_OK(attribute, length); attribute = RTA_NEXT(attribute, length)) {
    function(attribute->rta_type & NLA_TYPE_MASK, attribute);
  }
}

}  // namespace rdmabroker

#endif  // DATAPLANE_NETLINK_H_
