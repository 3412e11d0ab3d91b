// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/outliving_network.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>
#include <variant>

#include "broker/runtime/descriptor_message.h"
#include "tests/survive/packets.h"

namespace rdmabroker {

OutlivingNetwork::OutlivingNetwork() : listening_(ListenAt(path())) {
  EXPECT_TRUE(listening_);
  network_.Do([this](FakeNetwork&) {
    // What happens while there is no broker waits for the next one.
    network_.Hold();
    host_.Start([this](const HostReport& report, const UniqueFd& transport) { Tell(report, transport); });
  });
  server_ = std::thread([this] { Serve(); });
}

OutlivingNetwork::~OutlivingNetwork() {
  network_.Do([this](FakeNetwork&) {
    ending_ = true;
    if (broker_ != nullptr) ::shutdown(broker_->get(), SHUT_RDWR);
  });
  ::shutdown(listening_.get(), SHUT_RDWR);
  server_.join();
  // What it has posted is done.
  network_.Do([](FakeNetwork&) {});
}

void OutlivingNetwork::Serve() {
  while (true) {
    UniqueFd broker(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!broker) return;
    Attend(std::move(broker));
  }
}

void OutlivingNetwork::Attend(UniqueFd broker) {
  const auto shared = std::make_shared<UniqueFd>(std::move(broker));
  const ReceivedPacket first = ReceivePacket(shared->get());
  if (first.bytes.empty()) return;
  network_.Post([this, shared, goes_on = Decode<bool>(first.bytes)] { Join(shared, goes_on); });
  while (true) {
    const ReceivedPacket packet = ReceivePacket(shared->get());
    if (packet.bytes.empty()) break;
    network_.Post([this, request = Decode<HostRequest>(packet.bytes)] { Carry(request); });
  }
  network_.Post([this] { Leave(); });
}

// Lost where the broker has died, which its end is about to tell.
void OutlivingNetwork::Tell(const std::optional<HostReport>& report, const UniqueFd& transport) {
  if (broker_ != nullptr) SendWithDescriptor(broker_->get(), Encode(report), transport.get(), 0);
}

void OutlivingNetwork::Join(std::shared_ptr<UniqueFd> broker, bool goes_on) {
  broker_ = std::move(broker);
  if (ending_) ::shutdown(broker_->get(), SHUT_RDWR);
  Tell(HostReport{DeviceChanged{ndkpi::TheFakeDevice().device}});
  Tell(std::nullopt);
  adopts_ = goes_on;
  if (!adopts_) return network_.Release();
  host_.fake().GoOnAsAnother();
}

void OutlivingNetwork::Carry(const HostRequest& request) {
  host_.Take(request);
  const auto* asked = std::get_if<FabricRequest>(&request);
  if (asked == nullptr || !std::holds_alternative<FabricAdopted>(*asked)) return;
  // Before it had adopted what there was, it would not have known what it is told of.
  adopts_ = false;
  network_.Release();
  Tell(std::nullopt);
}

void OutlivingNetwork::Leave() {
  if (!std::exchange(adopts_, false)) network_.Hold();
  broker_ = nullptr;
  host_.LoseBroker();
}

}  // namespace rdmabroker
