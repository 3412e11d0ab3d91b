// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/qp_owner.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "dataplane/verbs/device/queue_pair_maker.h"

namespace rdmabroker {
namespace {

bool IsThreadOf(pid_t thread, pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

QpOwner FindQpOwner(uint32_t device_index, QpNumber qp, pid_t process) {
  if (process == 0) return QpOwner::kNotShown;
  const verbs::QueuePairMaker maker = verbs::FindQueuePairMaker(device_index, qp.value);
  if (maker.error == ENOENT) return QpOwner::kNobody;
  if (maker.kernel) return QpOwner::kAnother;
  if (maker.error != 0 || maker.thread == 0) return QpOwner::kNotShown;
  return IsThreadOf(maker.thread, process) ? QpOwner::kThisProcess : QpOwner::kAnother;
}

}  // namespace rdmabroker
