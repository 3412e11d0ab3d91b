// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/judge.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "client/ctl/doctor/judge_device.h"
#include "client/ctl/doctor/judge_file.h"

namespace rdmabroker::ctl {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kKibibyte = 1024;
// The kernel's own default since 5.16 (MLOCK_LIMIT in linux/resource.h). What is less was set by somebody, or is an
// older kernel's 64 KiB, in which hardly a queue of a device has room.
constexpr uint64_t kLeastMemoryLock = 8 * 1024 * kKibibyte;

// As many undecided connectors as a broker's listener has by default (limits.backlog), and the kernel's own default
// (drivers/infiniband/core/ucma.c); listeners ask for the kernel's most.
constexpr uint32_t kLeastBacklog = 1024;

void JudgeModules(const MachineState& machine, Findings* findings) {
  if (machine.verbs_loaded) {
    findings->push_back({"ib_uverbs", Severity::kOk, "the module is loaded", ""});
  } else {
    findings->push_back({"ib_uverbs", Severity::kProblem,
                         "the module is not loaded, without which programs cannot use RDMA devices",
                         "modprobe ib_uverbs"});
  }
  if (!machine.cm_file.has_value()) {
    findings->push_back({"rdma_ucm", Severity::kProblem,
                         "the module is not loaded, without which a broker cannot make connections on RDMA devices",
                         "modprobe rdma_ucm"});
    return;
  }
  findings->push_back({"rdma_ucm", Severity::kOk, "the module is loaded", ""});
  findings->push_back(JudgeDeviceFile(*machine.cm_file, machine.user));
  if (!machine.max_backlog.has_value()) return;
  const std::string requests = std::to_string(*machine.max_backlog) + " connect requests wait at a listener at most";
  if (*machine.max_backlog >= kLeastBacklog) {
    findings->push_back({"max_backlog", Severity::kOk, requests, ""});
  } else {
    findings->push_back(
        {"max_backlog", Severity::kProblem,
         requests + ", fewer than a broker's listener holds; /etc/sysctl.d keeps net.rdma_ucm.max_backlog",
         "echo " + std::to_string(kLeastBacklog) + " >/proc/sys/net/rdma_ucm/max_backlog"});
  }
}

Finding JudgeMemoryLock(const MachineState& machine) {
  const MemoryLock& lock = machine.memory_lock;
  const std::string what = "memlock";
  if (lock.exempt) return {what, Severity::kOk, "CAP_IPC_LOCK registers memory without a limit", ""};
  if (lock.soft == kUnlimited) return {what, Severity::kOk, "memory is registered without a limit", ""};
  const bool little = lock.soft < kLeastMemoryLock;
  const std::string meaning = "a process of " + machine.user + " can register " +
                              std::to_string(lock.soft / kKibibyte) +
                              " KiB together; a systemd unit wants LimitMEMLOCK=infinity, a container --ulimit "
                              "memlock=-1, a user a new login";
  return {what, little ? Severity::kProblem : Severity::kNote, meaning,
          lock.hard == kUnlimited ? "ulimit -l unlimited"
                                  : "echo " + ShellWord(machine.user + " - memlock unlimited") +
                                        " >>/etc/security/limits.d/rdma-memlock.conf"};
}

// The interface that a software device would stand on.
std::string InterfaceForSoftware(const MachineState& machine) {
  if (!machine.default_interface.empty()) return ShellWord(machine.default_interface);
  for (const NetworkInterface& interface : machine.interfaces) {
    const auto& addresses = interface.addresses;
    if (std::any_of(addresses.begin(), addresses.end(), [](const auto& each) { return !each.ip.IsLoopback(); })) {
      return ShellWord(interface.name);
    }
  }
  return "INTERFACE";
}

void JudgeDevice(const KernelDevice& device, const MachineState& machine, Findings* findings) {
  if (machine.verbs_loaded && !device.verbs_file.has_value()) {
    findings->push_back({device.name, Severity::kProblem, "its driver does not offer it to programs", "dmesg | tail"});
  }
  if (device.verbs_file.has_value()) {
    findings->push_back(JudgeDeviceFile(*device.verbs_file, machine.user));
    // The library leaves out a device whose file is not there, too.
    if (device.verbs_file->error != ENOENT && !device.in_library) {
      findings->push_back({device.name, Severity::kProblem,
                           "libibverbs has no driver for it, so that programs do not see it; a vendor may have its own",
                           "apt-get install --yes ibverbs-providers"});
    }
  }
  for (const DevicePort& port : device.ports) {
    const Findings found = JudgePort(device, port, machine);
    findings->insert(findings->end(), found.begin(), found.end());
  }
}

Finding JudgeUnusable(const BrokersDevice& device, const MachineState& machine) {
  const std::string what = "broker, " + device.name;
  for (const KernelDevice& kernels : machine.devices) {
    if (kernels.name != device.name) continue;
    if (const std::string idle = WhyIdle(kernels, machine); !idle.empty()) {
      return {what, Severity::kOk, "the broker does not use it now: " + idle, ""};
    }
  }
  return {what, Severity::kProblem, "the broker cannot use it: " + device.unusable_reason, ""};
}

void JudgeBrokersDevices(const MachineState& machine, Findings* findings) {
  std::string usable;
  for (const BrokersDevice& device : machine.broker.devices) {
    if (device.usable) {
      usable += (usable.empty() ? "" : ", ") + device.name;
      if (device.mtu != 0) usable += " (MTU " + std::to_string(device.mtu) + ")";
    } else {
      findings->push_back(JudgeUnusable(device, machine));
    }
  }
  for (const KernelDevice& device : machine.devices) {
    const auto& known = machine.broker.devices;
    if (std::any_of(known.begin(), known.end(), [&](const auto& each) { return each.name == device.name; })) continue;
    findings->push_back({"broker, " + device.name, Severity::kProblem,
                         "the broker does not see it; its log and the other findings may say why", ""});
  }
  findings->push_back(usable.empty()
                          ? Finding{"broker", Severity::kProblem, "it answers, but has no usable adapter", ""}
                          : Finding{"broker", Severity::kOk, "it answers; usable adapters: " + usable, ""});
}

std::string AdmitCommand(const UsedFile& socket, const UsedFile& folder, const std::string& user) {
  // Its folder hides it.
  if (socket.owner.empty()) {
    return IsForItsGroup(folder, S_IXGRP) ? JoinCommand(folder.group, user) : "chmod a+x " + ShellWord(folder.path);
  }
  if (IsForItsGroup(socket)) return JoinCommand(socket.group, user);
  // Debian's libibverbs1 makes the group.
  const std::string path = ShellWord(socket.path);
  return "chgrp rdma " + path + " && chmod 0660 " + path + " && " + JoinCommand("rdma", user);
}

void JudgeBroker(const MachineState& machine, Findings* findings) {
  const BrokerState& broker = machine.broker;
  if (broker.answers) return JudgeBrokersDevices(machine, findings);
  const std::string& path = broker.socket.path;
  if (broker.socket.error == EACCES) {
    findings->push_back({"broker", Severity::kProblem,
                         machine.user + " may not use " + path +
                             "; a new group counts from the next login, and the broker's control.socket_group names it",
                         AdmitCommand(broker.socket, broker.folder, machine.user)});
    return;
  }
  findings->push_back(
      {"broker", Severity::kProblem, broker.socket.error == 0 ? broker.silence : "no broker listens on " + path,
       broker.socket_is_default ? "mkdir -p /run/rdma-broker && rdma-brokerd &" : "rdma-brokerd --config FILE &"});
}

}  // namespace

Findings Judge(const MachineState& machine) {
  Findings findings;
  JudgeModules(machine, &findings);
  if (machine.devices.empty()) {
    findings.push_back({"devices", Severity::kProblem,
                        "the kernel has none, so connections run iWARP in user space; Soft-RoCE makes one",
                        "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev " + InterfaceForSoftware(machine)});
  }
  for (const KernelDevice& device : machine.devices) JudgeDevice(device, machine, &findings);
  findings.push_back(JudgeMemoryLock(machine));
  JudgeBroker(machine, &findings);
  return findings;
}

}  // namespace rdmabroker::ctl
