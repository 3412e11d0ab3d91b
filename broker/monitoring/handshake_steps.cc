// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/handshake_steps.h"

#include <variant>

#include "broker/core/overloaded.h"

namespace rdmabroker {
namespace {

Side SideOf(ConnectionId connection) {
  return (connection.value() & kIncomingConnection) != 0 ? Side::kPassive : Side::kActive;
}

}  // namespace

void HandshakeSteps::Observe(Instant now, const Event& event, const Effects& effects) {
  // What it asks for again began in another process.
  if (std::holds_alternative<Recover>(event)) return;
  if (const auto* report = std::get_if<FabricReport>(&event)) Take(now, *report);
  for (const Effect& effect : effects) {
    if (const auto* request = std::get_if<FabricRequest>(&effect)) Take(now, *request);
  }
}

void HandshakeSteps::Take(Instant now, const FabricReport& report) {
  std::visit(
      Overloaded{
          [&](const FabricBound& bound) {
            const auto found = endpoints_.find(bound.endpoint);
            if (found == endpoints_.end()) return;
            done_(found->second.side, found->second.step, now - found->second.at);
            endpoints_.erase(found);
          },
          [&](const FabricBindFailed& failed) { endpoints_.erase(failed.endpoint); },
          [&](const FabricConnectRequested& requested) { Begin(now, requested.connection, HandshakeStep::kDecide); },
          [&](const FabricReplied& replied) { End(now, replied.connection, HandshakeStep::kConnect); },
          [&](const FabricEstablished& established) {
            End(now, established.connection, HandshakeStep::kComplete);
            End(now, established.connection, HandshakeStep::kAccept);
            if (established.handoff) Begin(now, established.connection, HandshakeStep::kHandOff);
          },
          [&](const FabricHandedOff& handed) { End(now, handed.connection, HandshakeStep::kHandOff); },
          [&](const FabricDisconnected& disconnected) {
            // The peer may have completed and disconnected at once.
            End(now, disconnected.connection, HandshakeStep::kAccept);
            if (disconnected.status == NdkStatus::kSuccess) {
              End(now, disconnected.connection, HandshakeStep::kDisconnect);
            }
            Forget(disconnected.connection);
          },
          [&](const FabricConnectFailed& failed) { Forget(failed.connection); },
          [&](const FabricFailed& failed) { Forget(failed.connection); },
          [&](const FabricReleased& released) { Forget(released.connection); },
          [](const DeviceChanged&) {},
          [](const DeviceRemoved&) {},
          [](const FabricUnbound&) {},
      },
      report);
}

void HandshakeSteps::Take(Instant now, const FabricRequest& request) {
  std::visit(
      Overloaded{
          [&](const FabricBind& bind) {
            if (bind.use == EndpointUse::kReserved) return;
            const Side side = bind.use == EndpointUse::kListener ? Side::kPassive : Side::kActive;
            endpoints_.insert_or_assign(bind.endpoint, Begun{HandshakeStep::kBind, side, now});
          },
          [&](const FabricConnect& connect) { Begin(now, connect.connection, HandshakeStep::kConnect); },
          [&](const FabricComplete& complete) { Begin(now, complete.connection, HandshakeStep::kComplete); },
          [&](const FabricAccept& accept) {
            End(now, accept.connection, HandshakeStep::kDecide);
            Begin(now, accept.connection, HandshakeStep::kAccept);
          },
          [&](const FabricReject& reject) {
            End(now, reject.connection, HandshakeStep::kDecide);
            Forget(reject.connection);
          },
          [&](const FabricDisconnect& disconnect) { Begin(now, disconnect.connection, HandshakeStep::kDisconnect); },
          [&](const FabricRefuse& refuse) { Forget(refuse.connection); },
          [&](const FabricRelease& release) { Forget(release.connection); },
          [&](const FabricUnbind& unbind) { endpoints_.erase(unbind.endpoint); },
          [](const FabricRepurpose&) {},
          [](const FabricRebind&) {},
          [](const FabricAdoptEndpoint&) {},
          [](const FabricAdoptConnection&) {},
          [](const FabricAdopted&) {},
      },
      request);
}

void HandshakeSteps::Begin(Instant now, ConnectionId connection, HandshakeStep step) {
  connections_.insert_or_assign(connection, Begun{step, SideOf(connection), now});
}

void HandshakeSteps::End(Instant now, ConnectionId connection, HandshakeStep step) {
  const auto found = connections_.find(connection);
  if (found == connections_.end() || found->second.step != step) return;
  done_(found->second.side, step, now - found->second.at);
  connections_.erase(found);
}

}  // namespace rdmabroker
