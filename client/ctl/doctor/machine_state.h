// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_MACHINE_STATE_H_
#define CLIENT_CTL_DOCTOR_MACHINE_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::ctl {

// What a machine has for RDMA, as its files, its kernel and its broker tell it. Nothing here is judged.

// A file that somebody must be able to read and write: of a device, or a socket.
struct UsedFile {
  std::string path;
  // Why the caller cannot use it: an errno, ENOENT where it is not there; 0 where he can.
  int error = 0;
  std::string owner;   // A name, or a number where it has none. Empty where the file is not there.
  std::string group;   // Likewise.
  uint32_t mode = 0;   // Permissions.
  std::string number;  // "MAJOR:MINOR" of the device, as sysfs has it; empty for what is no device.

  bool operator==(const UsedFile&) const = default;
};

// An address of a network interface.
struct InterfaceAddress {
  IpAddress ip;
  uint32_t prefix_length = 0;

  bool operator==(const InterfaceAddress&) const = default;
};

// What an interface is to the bond that it is a slave of.
enum class BondRole { kNone, kActive, kBackup };

struct NetworkInterface {
  std::string name;
  bool up = false;       // By its administrator.
  bool carrier = false;  // False where it is down.
  std::vector<InterfaceAddress> addresses;
  // The interface that it is a part of, such as a bond or a bridge; empty where there is none.
  std::string master = {};
  BondRole bond_role = BondRole::kNone;  // kNone for a part of anything else.

  bool operator==(const NetworkInterface&) const = default;
};

enum class LinkLayer { kUnspecified, kInfiniBand, kEthernet };

struct DevicePort {
  uint32_t number = 0;
  std::string state;  // In the kernel's word: "ACTIVE", "DOWN", "INIT", "ARMED".
  LinkLayer link_layer = LinkLayer::kUnspecified;
  std::vector<IpAddress> gids;  // Those that are not zero, in their IPv6 form.
  // Names of network interfaces that lead here; its own is the first, and bonds and VLANs above that follow. Empty
  // where no file tells.
  std::vector<std::string> interfaces;

  bool operator==(const DevicePort&) const = default;
};

struct KernelDevice {
  std::string name;
  bool iwarp = false;
  std::optional<UsedFile> verbs_file;  // None where the kernel offers it to nobody.
  bool in_library = false;             // libibverbs has the part that drives it.
  std::vector<DevicePort> ports;

  bool operator==(const KernelDevice&) const = default;
};

// RLIMIT_MEMLOCK of the caller, in bytes; the greatest number is no limit.
struct MemoryLock {
  uint64_t soft = 0;
  uint64_t hard = 0;
  bool exempt = false;  // By CAP_IPC_LOCK, which counts in the first user namespace only.

  bool operator==(const MemoryLock&) const = default;
};

// A device in the broker's words.
struct BrokersDevice {
  std::string name;
  bool usable = false;
  std::string unusable_reason;
  uint32_t mtu = 0;  // Of the contract's Device.

  bool operator==(const BrokersDevice&) const = default;
};

struct BrokerState {
  UsedFile socket;
  UsedFile folder;  // The socket's.
  bool socket_is_default = true;
  bool answers = false;
  std::string silence;  // Why not, for a person.
  std::vector<BrokersDevice> devices;
};

struct MachineState {
  std::string user;                     // The caller's name, or number.
  bool verbs_loaded = false;            // ib_uverbs.
  std::optional<UsedFile> cm_file;      // rdma_ucm's; none where that is not loaded.
  std::optional<uint32_t> max_backlog;  // None where it is not told: not loaded, or another network namespace.
  MemoryLock memory_lock;
  std::vector<KernelDevice> devices;
  std::vector<NetworkInterface> interfaces;
  std::string default_interface;  // Of the default route; empty where there is none.
  BrokerState broker;
};

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_MACHINE_STATE_H_
