// SPDX-License-Identifier: Apache-2.0

#include "broker/control/administration_service.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/control/unary_call.h"
#include "broker/core/fabric_messages.h"
#include "broker/core/index.h"
#include "broker/log/log.h"
#include "broker/runtime/loop.h"
#include "proto/rdmabroker/v1/administration.pb.h"

namespace rdmabroker {
namespace {

rpc::Status Missing(const char* field) {
  return RpcStatusOf({.status = NdkStatus::kInvalidParameter, .hint = absl::StrCat(field, ": missing")});
}

// Whether the caller may do it, which is logged either way.
rpc::Status RefuseUnlessAdministrator(Broker& broker, AuditEntry entry, const char* what) {
  const bool allowed = entry.caller->administrator;
  entry.rule = "administrators";
  broker.gate().Administered(allowed, entry, Loop::Now());
  if (allowed) return {};
  return RpcStatusOf({.status = NdkStatus::kAccessDenied,
                      .hint = absl::StrCat("caller: only root (if control.root_administers), the broker's user, the "
                                           "administrators' group and, over TCP, those in tcp.administrators may ",
                                           what)});
}

// Of a request of which nobody has looked at anything yet.
template <typename Request>
AuditEntry EntryOf(const Caller& caller, const Request& request) {
  AuditEntry entry{.action = CallOf<Request>(), .caller = &caller};
  if constexpr (requires { request.session_id(); }) entry.session = SessionId(request.session_id());
  // A name that no device has may be as long as a message.
  if constexpr (requires { request.device(); }) entry.use.adapter = request.device().substr(0, kMaxDeviceName);
  return entry;
}

// All calls are served by this, so that rights come first: who has none learns nothing, and leaves a line in the log
// whatever he asks for. `what` says for a person what it is.
template <typename Request, typename Reply>
void ServeOrder(Services& services, Broker& broker, const char* what, SlowUnaryHandler<Request, Reply> carry_out) {
  const SlowUnaryHandler<Request, Reply> handler = [&broker, what, carry_out = std::move(carry_out)](
                                                       const Caller& caller, const Request& request,
                                                       const UnaryAnswer<Reply>& answer) {
    const rpc::Status refusal = RefuseUnlessAdministrator(broker, EntryOf(caller, request), what);
    if (!refusal.ok()) return answer(refusal, Reply());
    carry_out(caller, request, answer);
  };
  ServeSlowUnary(services, handler);
}

rpc::Status End(Broker& broker, const v1::EndSessionRequest& request) {
  if (request.session_id() == 0) return Missing("session_id");
  if (broker.EndSession(SessionId(request.session_id()), StreamEnding::kEnded)) return {};
  return RpcStatusOf({.status = NdkStatus::kObjectNameNotFound,
                      .hint = absl::StrCat("session_id ", request.session_id(), ": no such session")});
}

rpc::Status UnknownDevice() {
  return RpcStatusOf(
      {.status = NdkStatus::kObjectNameNotFound, .hint = "device: unknown; ListAdapters names those there are"});
}

// Disables or enables the device of this name, whose record `device` then is.
rpc::Status Switch(Broker& broker, const std::string& name, bool enabled, const DeviceRecord** device) {
  if (name.empty()) return Missing("device");
  if (name.size() > kMaxDeviceName) {
    return RpcStatusOf({.status = NdkStatus::kInvalidParameter,
                        .hint = absl::StrCat("device: longer than ", kMaxDeviceName, " bytes")});
  }
  const auto names = DeviceNames(broker.core().records());
  const auto named = names.find(name);
  if (named == names.end()) return UnknownDevice();
  broker.SwitchDevice(named->second, enabled);
  const auto& devices = broker.core().records().devices;
  const auto found = devices.find(named->second);
  // It may have been removed in the same turn of the loop.
  if (found == devices.end() || found->second.removed) return UnknownDevice();
  *device = &found->second;
  return {};
}

rpc::Status Restart(const std::function<bool()>& restart) {
  if (restart()) return {};
  return RpcStatusOf(
      {.status = NdkStatus::kNotSupported,
       .hint = "broker: nobody would start it anew; run it by systemd or by rdma-broker-keeper, or start it by hand"});
}

// A file that is bad is its writer's mistake; what else prevents a reload has a status of its own.
NdkStatus StatusOf(const absl::Status& failure) {
  switch (failure.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return NdkStatus::kNotSupported;
    case absl::StatusCode::kResourceExhausted:
      return NdkStatus::kInsufficientResources;
    case absl::StatusCode::kUnavailable:
      return NdkStatus::kConnectionDisconnected;
    default:
      return NdkStatus::kInvalidParameter;
  }
}

void Reload(const std::function<void(ReloadDone)>& reload, const UnaryAnswer<v1::ReloadReply>& answer) {
  reload([answer](const absl::StatusOr<ChangedKeys>& changed) {
    v1::ReloadReply reply;
    if (!changed.ok()) {
      const absl::Status& failure = changed.status();
      return answer(RpcStatusOf({.status = StatusOf(failure), .hint = std::string(failure.message())}), reply);
    }
    reply.mutable_applied()->Assign(changed->applied.begin(), changed->applied.end());
    reply.mutable_needs_restart()->Assign(changed->needs_restart.begin(), changed->needs_restart.end());
    answer(rpc::Status(), reply);
  });
}

rpc::Status ChangeLogLevel(const Caller& caller, const std::string& name, v1::SetLogLevelReply* reply) {
  const std::optional<LogLevel> level = LogLevelNamed(name);
  if (!name.empty() && !level) {
    return RpcStatusOf({.status = NdkStatus::kInvalidParameter,
                        .hint = absl::StrCat("level: must be one of ", absl::StrJoin(kLogLevelNames, ", "))});
  }
  if (level) {
    LogInfoAlways("log level set", {{"new_level", name}, {"by", WhoIs(caller)}});
    SetLogLevel(*level);
  }
  const absl::string_view now = NameOf(CurrentLogLevel());
  reply->set_level(now.data(), now.size());
  return {};
}

void ServeDevices(Services& services, Broker& broker) {
  constexpr const char* kWhat = "disable and enable devices";
  const UnaryHandler<v1::DisableAdapterRequest, v1::DisableAdapterReply> disable =
      [&broker](const Caller&, const v1::DisableAdapterRequest& request, v1::DisableAdapterReply* reply) {
        const DeviceRecord* device = nullptr;
        rpc::Status status = Switch(broker, request.device(), false, &device);
        if (!status.ok()) return status;
        reply->set_state(ToState(*device));
        reply->set_adapters(device->adapters);
        return status;
      };
  ServeOrder(services, broker, kWhat, AtOnce(disable));
  const UnaryHandler<v1::EnableAdapterRequest, v1::EnableAdapterReply> enable =
      [&broker](const Caller&, const v1::EnableAdapterRequest& request, v1::EnableAdapterReply*) {
        const DeviceRecord* device = nullptr;
        return Switch(broker, request.device(), true, &device);
      };
  ServeOrder(services, broker, kWhat, AtOnce(enable));
}

void ServeProcess(Services& services, Broker& broker, ProcessOrders orders) {
  const UnaryHandler<v1::RestartRequest, v1::RestartReply> make_way =
      [restart = std::move(orders.restart)](const Caller&, const v1::RestartRequest&, v1::RestartReply*) {
        return Restart(restart);
      };
  ServeOrder(services, broker, "restart it", AtOnce(make_way));
  const SlowUnaryHandler<v1::ReloadRequest, v1::ReloadReply> read_again =
      [reload = std::move(orders.reload)](const Caller&, const v1::ReloadRequest&,
                                          const UnaryAnswer<v1::ReloadReply>& answer) { Reload(reload, answer); };
  ServeOrder(services, broker, "have it read its configuration", read_again);
  const UnaryHandler<v1::SetLogLevelRequest, v1::SetLogLevelReply> set_log_level =
      [](const Caller& caller, const v1::SetLogLevelRequest& request, v1::SetLogLevelReply* reply) {
        return ChangeLogLevel(caller, request.level(), reply);
      };
  ServeOrder(services, broker, "look at and set its log level", AtOnce(set_log_level));
}

}  // namespace

void ServeAdministration(Services& services, Broker& broker, ProcessOrders orders) {
  const UnaryHandler<v1::EndSessionRequest, v1::EndSessionReply> end_session =
      [&broker](const Caller&, const v1::EndSessionRequest& request, v1::EndSessionReply*) {
        return End(broker, request);
      };
  ServeOrder(services, broker, "end sessions", AtOnce(end_session));
  ServeDevices(services, broker);
  ServeProcess(services, broker, std::move(orders));
}

}  // namespace rdmabroker
