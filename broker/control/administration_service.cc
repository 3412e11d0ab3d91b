// SPDX-License-Identifier: Apache-2.0

#include "broker/control/administration_service.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/control/log_levels.h"
#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/core/index.h"
#include "broker/log/log.h"
#include "broker/runtime/watcher.h"

namespace rdmabroker {
namespace {

// adapter.proto, Device.name.
constexpr size_t kMaxDeviceName = 63;

grpc::Status Missing(const char* field) {
  return GrpcStatusOf({.status = NdkStatus::kInvalidParameter, .hint = absl::StrCat(field, ": missing")});
}

// Whether the caller may do it, which is logged either way; `what` says for a person what it is.
grpc::Status RefuseUnlessAdministrator(Broker& broker, AuditEntry entry, const char* what) {
  const bool allowed = entry.caller != nullptr && entry.caller->administrator;
  entry.rule = "administrators";
  broker.gate().Administered(allowed, entry, Watcher::Now());
  if (allowed) return grpc::Status::OK;
  return GrpcStatusOf({.status = NdkStatus::kAccessDenied,
                       .hint = absl::StrCat("caller: only root (if control.root_administers), the broker's user, the "
                                            "administrators' group and, over TCP, those in tcp.administrators may ",
                                            what)});
}

grpc::Status End(Broker& broker, const Caller* caller, const v1::EndSessionRequest& request) {
  if (request.session_id() == 0) return Missing("session_id");
  const SessionId session(request.session_id());
  const AuditEntry entry{.action = "EndSession", .caller = caller, .session = session};
  if (auto refusal = RefuseUnlessAdministrator(broker, entry, "end sessions"); !refusal.ok()) return refusal;
  if (broker.EndSession(session, StreamEnding::kEnded)) return grpc::Status::OK;
  return GrpcStatusOf({.status = NdkStatus::kObjectNameNotFound,
                       .hint = absl::StrCat("session_id ", request.session_id(), ": no such session")});
}

// Disables or enables the device of this name, which `device` then names.
grpc::Status Switch(Broker& broker, const Caller* caller, const std::string& name, bool enabled, DeviceId* device) {
  if (name.empty()) return Missing("device");
  if (name.size() > kMaxDeviceName) {
    return GrpcStatusOf({.status = NdkStatus::kInvalidParameter, .hint = "device: longer than 63 bytes"});
  }
  const AuditEntry action{
      .action = enabled ? "EnableAdapter" : "DisableAdapter", .caller = caller, .use = {.adapter = name}};
  if (auto refusal = RefuseUnlessAdministrator(broker, action, "disable and enable devices"); !refusal.ok()) {
    return refusal;
  }
  const auto devices = DeviceNames(broker.core().records());
  const auto found = devices.find(name);
  if (found == devices.end()) {
    return GrpcStatusOf(
        {.status = NdkStatus::kObjectNameNotFound, .hint = "device: unknown; ListAdapters names those there are"});
  }
  *device = found->second;
  broker.SwitchDevice(*device, enabled);
  return grpc::Status::OK;
}

grpc::Status Restart(Broker& broker, const Caller* caller, const std::function<bool()>& restart) {
  const AuditEntry entry{.action = "Restart", .caller = caller};
  if (auto refusal = RefuseUnlessAdministrator(broker, entry, "restart it"); !refusal.ok()) return refusal;
  if (restart()) return grpc::Status::OK;
  return GrpcStatusOf(
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

void Reload(Broker& broker, const Caller* caller, const std::function<void(ReloadDone)>& reload,
            const UnaryAnswer<v1::ReloadReply>& answer) {
  const AuditEntry entry{.action = "Reload", .caller = caller};
  if (auto refusal = RefuseUnlessAdministrator(broker, entry, "have it read its configuration"); !refusal.ok()) {
    return answer(refusal, {});
  }
  reload([answer](const absl::StatusOr<ChangedKeys>& changed) {
    v1::ReloadReply reply;
    if (!changed.ok()) {
      const absl::Status& failure = changed.status();
      return answer(GrpcStatusOf({.status = StatusOf(failure), .hint = std::string(failure.message())}), reply);
    }
    reply.mutable_applied()->Assign(changed->applied.begin(), changed->applied.end());
    reply.mutable_needs_restart()->Assign(changed->needs_restart.begin(), changed->needs_restart.end());
    answer(grpc::Status::OK, reply);
  });
}

grpc::Status ChangeLogLevel(Broker& broker, const Caller* caller, const std::string& name,
                            v1::SetLogLevelReply* reply) {
  const std::optional<LogLevel> level = LogLevelNamed(name);
  if (!name.empty() && !level) {
    return GrpcStatusOf(
        {.status = NdkStatus::kInvalidParameter, .hint = absl::StrCat("level: must be one of ", kLogLevelNames)});
  }
  const AuditEntry entry{.action = "SetLogLevel", .caller = caller};
  if (auto refusal = RefuseUnlessAdministrator(broker, entry, "look at and set its log level"); !refusal.ok()) {
    return refusal;
  }
  if (level) {
    LogInfoAlways("log level set", {{"new_level", name}, {"by", WhoIs(*caller)}});
    SetLogLevel(*level);
  }
  const absl::string_view now = NameOf(CurrentLogLevel());
  reply->set_level(now.data(), now.size());
  return grpc::Status::OK;
}

}  // namespace

void ServeAdministration(UnaryContext& context, Broker& broker, v1::Administration::AsyncService& service,
                         ProcessOrders orders) {
  using Service = v1::Administration::AsyncService;
  const UnaryHandler<v1::EndSessionRequest, v1::EndSessionReply> end_session =
      [&broker](const Caller* caller, const v1::EndSessionRequest& request, v1::EndSessionReply*) {
        return End(broker, caller, request);
      };
  ServeUnary(context, service, &Service::RequestEndSession, end_session);
  const UnaryHandler<v1::DisableAdapterRequest, v1::DisableAdapterReply> disable =
      [&broker](const Caller* caller, const v1::DisableAdapterRequest& request, v1::DisableAdapterReply* reply) {
        DeviceId device;
        const grpc::Status status = Switch(broker, caller, request.device(), false, &device);
        if (!status.ok()) return status;
        const DeviceRecord& record = broker.core().records().devices.at(device);
        reply->set_state(ToState(record));
        reply->set_adapters(record.adapters);
        return status;
      };
  ServeUnary(context, service, &Service::RequestDisableAdapter, disable);
  const UnaryHandler<v1::EnableAdapterRequest, v1::EnableAdapterReply> enable =
      [&broker](const Caller* caller, const v1::EnableAdapterRequest& request, v1::EnableAdapterReply*) {
        DeviceId device;
        return Switch(broker, caller, request.device(), true, &device);
      };
  ServeUnary(context, service, &Service::RequestEnableAdapter, enable);
  const UnaryHandler<v1::RestartRequest, v1::RestartReply> make_way =
      [&broker, restart = std::move(orders.restart)](const Caller* caller, const v1::RestartRequest&,
                                                     v1::RestartReply*) { return Restart(broker, caller, restart); };
  ServeUnary(context, service, &Service::RequestRestart, make_way);
  const SlowUnaryHandler<v1::ReloadRequest, v1::ReloadReply> read_again =
      [&broker, reload = std::move(orders.reload)](const Caller* caller, const v1::ReloadRequest&,
                                                   const UnaryAnswer<v1::ReloadReply>& answer) {
        Reload(broker, caller, reload, answer);
      };
  ServeSlowUnary(context, service, &Service::RequestReload, read_again);
  const UnaryHandler<v1::SetLogLevelRequest, v1::SetLogLevelReply> set_log_level =
      [&broker](const Caller* caller, const v1::SetLogLevelRequest& request, v1::SetLogLevelReply* reply) {
        return ChangeLogLevel(broker, caller, request.level(), reply);
      };
  ServeUnary(context, service, &Service::RequestSetLogLevel, set_log_level);
}

}  // namespace rdmabroker
