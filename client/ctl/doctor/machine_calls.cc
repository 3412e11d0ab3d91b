// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/machine_calls.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "client/control_socket.h"
#include "client/ctl/broker_queries.h"
#include "client/ctl/doctor/machine_files.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/verbs/device/device.h"

namespace rdmabroker::ctl {
namespace {

struct FreeAddresses {
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

std::optional<IpAddress> ReadIp(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return std::nullopt;
  KernelAddress kernel;
  std::memcpy(&kernel.storage, address, address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return FromKernel(kernel).ip;
}

uint32_t PrefixLength(const sockaddr* mask) {
  const auto ip = ReadIp(mask);
  uint32_t length = 0;
  for (const uint8_t byte : ip.value_or(IpAddress()).bytes) length += static_cast<uint32_t>(std::popcount(byte));
  return length;
}

void AddAddresses(std::vector<NetworkInterface>* interfaces) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, FreeAddresses> list(first);
  for (const ifaddrs* next = list.get(); next != nullptr; next = next->ifa_next) {
    const auto ip = ReadIp(next->ifa_addr);
    if (!ip.has_value()) continue;
    for (NetworkInterface& interface : *interfaces) {
      if (interface.name == next->ifa_name) interface.addresses.push_back({*ip, PrefixLength(next->ifa_netmask)});
    }
  }
}

}  // namespace

void AskKernel(MachineState* machine) {
  const passwd* const user = ::getpwuid(::geteuid());
  machine->user = user != nullptr ? user->pw_name : std::to_string(::geteuid());
  AddAddresses(&machine->interfaces);
  if (!machine->verbs_loaded) return;
  const std::vector<std::string> driven = verbs::DeviceNames();
  for (KernelDevice& device : machine->devices) {
    device.in_library = std::find(driven.begin(), driven.end(), device.name) != driven.end();
  }
}

BrokerState AskBroker(const std::string& control_socket) {
  const std::filesystem::path socket = std::filesystem::absolute(control_socket);
  BrokerState broker = {.socket = LookAt("/", socket),
                        .folder = LookAt("/", socket.parent_path()),
                        .socket_is_default = control_socket == client::kDefaultControlSocket};
  if (broker.socket.error != 0) return broker;
  if (::faccessat(AT_FDCWD, control_socket.c_str(), W_OK, AT_EACCESS) != 0) {
    broker.socket.error = errno;
    return broker;
  }
  BrokerQueries queries(control_socket, OutputForm::kTable);
  v1::ListAdaptersReply reply;
  broker.answers = queries.Adapters(&reply) == ExitCode::kDone;
  broker.silence = queries.error();
  for (const v1::Device& device : reply.devices()) {
    broker.devices.push_back({device.name(), device.usable(), device.unusable_reason(), device.mtu()});
  }
  return broker;
}

}  // namespace rdmabroker::ctl
