// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/distant_fabric.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/runtime/descriptor_message.h"
#include "tests/survive/packets.h"

namespace rdmabroker {

absl::StatusOr<std::unique_ptr<DistantFabric>> DistantFabric::Open(const std::string& path, bool goes_on, Loop& loop,
                                                                   HandoffTable& handoffs) {
  UniqueFd socket = ConnectTo(path);
  if (!socket || !SendWithDescriptor(socket.get(), Encode(goes_on), -1, 0)) {
    return absl::ErrnoToStatus(errno, absl::StrCat("the network at ", path));
  }
  return absl::WrapUnique(new DistantFabric(std::move(socket), loop, handoffs));
}

void DistantFabric::Start(ReportSink sink) {
  sink_ = std::move(sink);
  // The runtime sends requests by device, so that has to be known at once.
  while (Receive(0)) continue;
  watch_ = loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t events) { OnReadable(events); });
}

void DistantFabric::Perform(const FabricRequest& request) {
  if (const auto* release = std::get_if<FabricRelease>(&request)) handoffs_.Withdraw(release->connection);
  Ask(request);
  if (!std::holds_alternative<FabricAdopted>(request)) return;
  // A client that returns may fetch its transport at once.
  while (Receive(0)) continue;
}

void DistantFabric::Ask(const HostRequest& request) { SendWithDescriptor(socket_.get(), Encode(request), -1, 0); }

bool DistantFabric::Receive(int flags) {
  ReceivedPacket packet = ReceivePacket(socket_.get(), flags);
  if (packet.bytes.empty()) return false;
  const auto report = Decode<std::optional<HostReport>>(packet.bytes);
  if (!report) return false;
  Deliver(*report, std::move(packet.descriptor), handoffs_, sink_,
          [this](const HostRequest& request) { Ask(request); });
  const auto* requested = std::get_if<FabricConnectRequested>(&report->report);
  if (requested == nullptr) return true;
  // Once the core has handled it, and what that has changed is stored.
  loop_.AtTurnEnd(Loop::Stage::kReply, [this, stored = ConnectRequestStored{requested->connection}] { Ask(stored); });
  return true;
}

void DistantFabric::OnReadable(uint32_t events) {
  Receive(MSG_DONTWAIT);
  // Where the network has gone, so has the test.
  if ((events & EPOLLHUP) == 0) loop_.Rearm(watch_, EPOLLIN);
}

}  // namespace rdmabroker
