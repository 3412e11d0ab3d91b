// SPDX-License-Identifier: Apache-2.0

#include "broker/core/overloaded.h"
#include "tests/conformance/fabric_conformance.h"

namespace rdmabroker {

void ContractObserver::OnRequest(const FabricRequest& request) {
  const auto give_up = [&](const auto& typed) { lives_[typed.connection].given_up = true; };
  std::visit(
      Overloaded{
          [&](const FabricBind& typed) { binding_[typed.endpoint] = known_[typed.endpoint] = typed.device; },
          [&](const FabricRepurpose& typed) { binding_[typed.endpoint] = typed.device; },
          [&](const FabricRebind&) {},
          [&](const FabricUnbind& typed) {
            bound_.erase(typed.endpoint);
            unbinding_[typed.endpoint] = typed.device;
          },
          [&](const FabricConnect& typed) { lives_[typed.connection] = {.device = typed.device, .requested = true}; },
          [&](const FabricComplete& typed) { lives_[typed.connection].stepped = true; },
          [&](const FabricAccept& typed) { lives_[typed.connection].stepped = true; },
          [&](const FabricDisconnect&) {},
          [&](const FabricReject& typed) { give_up(typed); },
          [&](const FabricRefuse& typed) { give_up(typed); },
          [&](const FabricRelease& typed) { give_up(typed); },
          [&](const FabricAdoptEndpoint& typed) { bound_[typed.endpoint] = known_[typed.endpoint] = typed.device; },
          [&](const FabricAdoptConnection& typed) {
            lives_[typed.connection] = {.device = typed.device,
                                        .requested = typed.stage == AdoptedStage::kConnecting,
                                        .established = typed.stage == AdoptedStage::kEstablished,
                                        .adopted = typed.stage};
          },
          [&](const FabricAdopted&) {},
      },
      request);
}

void ContractObserver::OnReport(const FabricReport& report) {
  const auto answer = [&](EndpointId endpoint) {
    EXPECT_EQ(binding_.erase(endpoint), 1u) << "endpoint " << endpoint.value() << ": an answer that nothing asked for";
  };
  const auto life = [&](ConnectionId connection) -> Life& {
    EXPECT_TRUE(lives_.contains(connection)) << "connection " << connection.value() << ": unknown, or released";
    return lives_[connection];
  };
  const auto is_repeated = [&](ConnectionId connection, AdoptedStage stage) {
    const std::optional<AdoptedStage> adopted = life(connection).adopted;
    return adopted && *adopted >= stage;
  };
  const auto step = [&](ConnectionId connection, bool ends) {
    Life& one = life(connection);
    EXPECT_FALSE(one.over) << "connection " << connection.value() << ": something happened after its end";
    one.over = ends;
    one.requested = one.stepped = false;
  };
  std::visit(Overloaded{
                 [&](const DeviceChanged&) {},
                 [&](const DeviceRemoved&) {},
                 [&](const FabricBound& typed) {
                   answer(typed.endpoint);
                   bound_[typed.endpoint] = known_[typed.endpoint];
                 },
                 [&](const FabricBindFailed& typed) {
                   answer(typed.endpoint);
                   EXPECT_FALSE(IsSuccess(typed.status));
                 },
                 [&](const FabricUnbound& typed) {
                   EXPECT_EQ(unbinding_.erase(typed.endpoint), 1u) << "endpoint " << typed.endpoint.value();
                 },
                 [&](const FabricConnectRequested& typed) {
                   EXPECT_TRUE(bound_.contains(typed.endpoint) || unbinding_.contains(typed.endpoint))
                       << "a request of endpoint " << typed.endpoint.value() << ", which is not bound";
                   EXPECT_FALSE(lives_.contains(typed.connection)) << typed.connection.value();
                   EXPECT_NE(typed.connection.value() & kIncomingConnection, 0u);
                   lives_[typed.connection] = {.device = typed.device ? typed.device : known_[typed.endpoint]};
                 },
                 [&](const FabricReplied& typed) {
                   if (is_repeated(typed.connection, AdoptedStage::kReplied)) return;
                   EXPECT_TRUE(life(typed.connection).requested) << typed.connection.value();
                   step(typed.connection, false);
                 },
                 [&](const FabricConnectFailed& typed) {
                   EXPECT_TRUE(life(typed.connection).requested) << typed.connection.value();
                   EXPECT_FALSE(IsSuccess(typed.status));
                   step(typed.connection, true);
                 },
                 [&](const FabricEstablished& typed) {
                   if (is_repeated(typed.connection, AdoptedStage::kEstablished)) return;
                   EXPECT_TRUE(life(typed.connection).stepped) << typed.connection.value();
                   step(typed.connection, false);
                   lives_[typed.connection].established = true;
                 },
                 [&](const FabricFailed& typed) {
                   EXPECT_FALSE(life(typed.connection).established) << typed.connection.value();
                   EXPECT_FALSE(IsSuccess(typed.status));
                   step(typed.connection, true);
                 },
                 [&](const FabricDisconnected& typed) { step(typed.connection, true); },
                 [&](const FabricHandedOff& typed) {
                   EXPECT_TRUE(life(typed.connection).established) << typed.connection.value();
                 },
                 [&](const FabricReleased& typed) {
                   EXPECT_TRUE(life(typed.connection).given_up) << typed.connection.value();
                   lives_.erase(typed.connection);
                 },
             },
             report);
}

std::map<ConnectionId, DeviceId> ContractObserver::living() const {
  std::map<ConnectionId, DeviceId> living;
  for (const auto& [id, life] : lives_) {
    if (!life.given_up) living[id] = life.device;
  }
  return living;
}

bool ContractObserver::Releases() const { return !lives_.empty() || !unbinding_.empty() || !binding_.empty(); }

void ContractObserver::ExpectNothingLeft() const {
  for (const auto& [id, life] : lives_) ADD_FAILURE() << "connection " << id.value() << " was never released";
  for (const auto& [id, device] : binding_) ADD_FAILURE() << "endpoint " << id.value() << " was never bound";
  for (const auto& [id, device] : unbinding_) ADD_FAILURE() << "endpoint " << id.value() << " was never unbound";
}

}  // namespace rdmabroker
