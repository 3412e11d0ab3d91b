// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "broker/control/translation.h"
#include "broker/core/fabric_messages.h"

namespace rdmabroker {
namespace {

constexpr uint32_t kMaxVersion = 65535;  // NDK_VERSION has two USHORTs.
constexpr uint32_t kMaxPort = 65535;
// No adapter carries more: MPA's start-up frames have the most (RFC 5044, section 7.1). The core knows each adapter's
// own limit, but keeps the requests that it refuses, too.
constexpr size_t kMaxPrivateData = 512;

// Reads fields one after another and keeps the first complaint.
class Fields {
 public:
  // An id that must name something.
  template <typename Id>
  Id Required(const char* field, uint64_t value, Id) {
    if (value == 0) Complain(field, "missing");
    return Id(value);
  }

  SocketAddress Address(const char* field, bool present, const v1::SocketAddress& message) {
    SocketAddress address;
    if (!present) {
      Complain(field, "missing");
      return address;
    }
    const std::string& bytes = message.ip();
    if (bytes.size() != 4 && bytes.size() != 16) {
      Complain(absl::StrCat(field, ".ip"), absl::StrCat(bytes.size(), " bytes; 4 for IPv4, 16 for IPv6"));
      return address;
    }
    address.ip.family = bytes.size() == 4 ? IpFamily::kIpv4 : IpFamily::kIpv6;
    std::copy(bytes.begin(), bytes.end(), address.ip.bytes.begin());
    if (address.ip.IsIpv4Mapped()) {
      Complain(absl::StrCat(field, ".ip"), "an IPv4-mapped address; send the IPv4 address");
    }
    if (message.scope_id() != 0 && !address.ip.IsLinkLocal()) {
      Complain(absl::StrCat(field, ".scope_id"), "only a link-local IPv6 address has one");
    }
    if (message.port() > kMaxPort) Complain(absl::StrCat(field, ".port"), "above 65535");
    address.ip.scope_id = message.scope_id();
    address.port = static_cast<uint16_t>(message.port());
    return address;
  }

  NdkVersion Version(const v1::NdkVersion& message) {
    if (message.major() > kMaxVersion || message.minor() > kMaxVersion) Complain("version", "a number above 65535");
    return {static_cast<uint16_t>(message.major()), static_cast<uint16_t>(message.minor())};
  }

  Bytes PrivateData(const std::string& bytes) {
    if (bytes.size() > kMaxPrivateData) {
      Complain("private_data", absl::StrCat(bytes.size(), " bytes; no adapter carries more than ", kMaxPrivateData),
               NdkStatus::kInvalidBufferSize);
      return {};
    }
    return Bytes(bytes.begin(), bytes.end());
  }

  ConnectionOptions Options(const v1::ConnectionOptions& message) {
    ConnectionOptions options;
    if (!message.has_rnr_retry_count()) return options;
    options.rnr_retry_count = message.rnr_retry_count();
    if (options.rnr_retry_count > ConnectionOptions::kForEver) {
      Complain("options.rnr_retry_count", absl::StrCat(options.rnr_retry_count, "; 0 to 7, where 7 is for ever"));
    }
    return options;
  }

  void Complain(const std::string& field, const std::string& cause, NdkStatus status = NdkStatus::kInvalidParameter) {
    if (complaint_) return;
    complaint_ = Outcome{.status = status, .hint = absl::StrCat(field, ": ", cause)};
  }

  Translated Finish(Request request) const {
    if (complaint_) return *complaint_;
    return request;
  }

 private:
  std::optional<Outcome> complaint_;
};

template <typename Message>
ReadLimits LimitsOf(const Message& request) {
  if (!request.has_limits()) return {UINT32_MAX, UINT32_MAX};
  return {request.limits().inbound(), request.limits().outbound()};
}

// A request of a batch, which says for all of them what a header says.
template <typename Message>
Translated Alone(const Message& request) {
  if (!request.has_header()) return FromProto(request);
  return Outcome{.status = NdkStatus::kInvalidParameter, .hint = "header: a request of a batch has none"};
}

// A request that only names an object.
template <typename CoreRequest, typename Id>
Translated NameOnly(const char* field, uint64_t value, Id kind) {
  Fields fields;
  return fields.Finish(CoreRequest{fields.Required(field, value, kind)});
}

}  // namespace

Translated FromProto(const v1::OpenAdapterRequest& request) {
  Fields fields;
  if (request.device().empty()) fields.Complain("device", "missing");
  if (request.device().size() > kMaxDeviceName) {
    fields.Complain("device", absl::StrCat("longer than ", kMaxDeviceName, " bytes"));
  }
  if (!request.has_version()) fields.Complain("version", "missing");
  return fields.Finish(OpenAdapter{request.device(), fields.Version(request.version())});
}

Translated FromProto(const v1::CloseAdapterRequest& request) {
  return NameOnly<CloseAdapter>("adapter_id", request.adapter_id(), AdapterId());
}

Translated FromProto(const v1::CreateListenerRequest& request) {
  return NameOnly<CreateListener>("adapter_id", request.adapter_id(), AdapterId());
}

Translated FromProto(const v1::ListenRequest& request) {
  Fields fields;
  if (request.join()) {
    return Outcome{.status = NdkStatus::kNotSupported, .hint = "join: this broker has no feature \"listen-join\""};
  }
  Listen listen{.listener = fields.Required("listener_id", request.listener_id(), ListenerId()),
                .reservation = ReservationId(request.reservation_id()),
                .await_address = request.await_address(),
                .any_adapter = request.any_adapter()};
  if (request.has_address() || !listen.reservation) {
    listen.address = fields.Address("address", request.has_address(), request.address());
  }
  return fields.Finish(listen);
}

Translated FromProto(const v1::ControlConnectEventsRequest& request) {
  Fields fields;
  return fields.Finish(
      ControlConnectEvents{fields.Required("listener_id", request.listener_id(), ListenerId()), request.pause()});
}

Translated FromProto(const v1::CloseListenerRequest& request) {
  return NameOnly<CloseListener>("listener_id", request.listener_id(), ListenerId());
}

Translated FromProto(const v1::CreateSharedEndpointRequest& request) {
  Fields fields;
  CreateSharedEndpoint create{.adapter = fields.Required("adapter_id", request.adapter_id(), AdapterId()),
                              .reservation = ReservationId(request.reservation_id())};
  if (request.has_address() || !create.reservation) {
    create.address = fields.Address("address", request.has_address(), request.address());
  }
  return fields.Finish(create);
}

Translated FromProto(const v1::CloseSharedEndpointRequest& request) {
  return NameOnly<CloseSharedEndpoint>("shared_endpoint_id", request.shared_endpoint_id(), SharedEndpointId());
}

Translated FromProto(const v1::ReservePortRequest& request) {
  Fields fields;
  return fields.Finish(ReservePort{fields.Required("adapter_id", request.adapter_id(), AdapterId()),
                                   fields.Address("address", request.has_address(), request.address())});
}

Translated FromProto(const v1::ReleasePortRequest& request) {
  return NameOnly<ReleasePort>("reservation_id", request.reservation_id(), ReservationId());
}

Translated FromProto(const v1::CreateConnectorRequest& request) {
  return NameOnly<CreateConnector>("adapter_id", request.adapter_id(), AdapterId());
}

Translated FromProto(const v1::ConnectRequest& request) {
  Fields fields;
  Connect connect{.connector = fields.Required("connector_id", request.connector_id(), ConnectorId()),
                  .qp = QpNumber{request.qp_number()},
                  .source = request.has_source() ? fields.Address("source", true, request.source()) : SocketAddress(),
                  .destination = fields.Address("destination", request.has_destination(), request.destination()),
                  .limits = LimitsOf(request),
                  .private_data = fields.PrivateData(request.private_data()),
                  .options = fields.Options(request.options())};
  return fields.Finish(std::move(connect));
}

Translated FromProto(const v1::ConnectWithSharedEndpointRequest& request) {
  Fields fields;
  ConnectWithSharedEndpoint connect{
      .connector = fields.Required("connector_id", request.connector_id(), ConnectorId()),
      .qp = QpNumber{request.qp_number()},
      .shared_endpoint = fields.Required("shared_endpoint_id", request.shared_endpoint_id(), SharedEndpointId()),
      .destination = fields.Address("destination", request.has_destination(), request.destination()),
      .limits = LimitsOf(request),
      .private_data = fields.PrivateData(request.private_data()),
      .options = fields.Options(request.options())};
  return fields.Finish(std::move(connect));
}

Translated FromProto(const v1::CompleteConnectRequest& request) {
  return NameOnly<CompleteConnect>("connector_id", request.connector_id(), ConnectorId());
}

Translated FromProto(const v1::AcceptRequest& request) {
  Fields fields;
  Accept accept{.connector = fields.Required("connector_id", request.connector_id(), ConnectorId()),
                .qp = QpNumber{request.qp_number()},
                .limits = LimitsOf(request),
                .private_data = fields.PrivateData(request.private_data()),
                .options = fields.Options(request.options())};
  return fields.Finish(std::move(accept));
}

Translated FromProto(const v1::RejectRequest& request) {
  Fields fields;
  return fields.Finish(Reject{fields.Required("connector_id", request.connector_id(), ConnectorId()),
                              fields.PrivateData(request.private_data())});
}

Translated FromProto(const v1::DisconnectRequest& request) {
  return NameOnly<Disconnect>("connector_id", request.connector_id(), ConnectorId());
}

Translated FromProto(const v1::GetConnectionDataRequest& request) {
  return NameOnly<GetConnectionData>("connector_id", request.connector_id(), ConnectorId());
}

Translated FromProto(const v1::ReportConnectionEndRequest& request) {
  Fields fields;
  return fields.Finish(ReportConnectionEnd{fields.Required("connector_id", request.connector_id(), ConnectorId()),
                                           request.graceful(), request.provider_error()});
}

Translated FromProto(const v1::CloseConnectorRequest& request) {
  return NameOnly<CloseConnector>("connector_id", request.connector_id(), ConnectorId());
}

Translated FromProto(const v1::BatchedRequest& request) {
  using Kind = v1::BatchedRequest;
  switch (request.request_case()) {
    case Kind::kOpenAdapter:
      return Alone(request.open_adapter());
    case Kind::kCloseAdapter:
      return Alone(request.close_adapter());
    case Kind::kCreateListener:
      return Alone(request.create_listener());
    case Kind::kListen:
      return Alone(request.listen());
    case Kind::kControlConnectEvents:
      return Alone(request.control_connect_events());
    case Kind::kCloseListener:
      return Alone(request.close_listener());
    case Kind::kCreateSharedEndpoint:
      return Alone(request.create_shared_endpoint());
    case Kind::kCloseSharedEndpoint:
      return Alone(request.close_shared_endpoint());
    case Kind::kReservePort:
      return Alone(request.reserve_port());
    case Kind::kReleasePort:
      return Alone(request.release_port());
    case Kind::kCreateConnector:
      return Alone(request.create_connector());
    case Kind::kConnect:
      return Alone(request.connect());
    case Kind::kConnectWithSharedEndpoint:
      return Alone(request.connect_with_shared_endpoint());
    case Kind::kCompleteConnect:
      return Alone(request.complete_connect());
    case Kind::kAccept:
      return Alone(request.accept());
    case Kind::kReject:
      return Alone(request.reject());
    case Kind::kDisconnect:
      return Alone(request.disconnect());
    case Kind::kGetConnectionData:
      return Alone(request.get_connection_data());
    case Kind::kReportConnectionEnd:
      return Alone(request.report_connection_end());
    case Kind::kCloseConnector:
      return Alone(request.close_connector());
    case Kind::REQUEST_NOT_SET:
      return Outcome{.status = NdkStatus::kNotSupported,
                     .hint = "request: missing, or of a kind newer than this broker"};
  }
  return Outcome{.status = NdkStatus::kInternalError};
}

absl::string_view NameOf(const v1::BatchedRequest& request) {
  const auto* const kind = v1::BatchedRequest::descriptor()->FindOneofByName("request");
  const auto* const field = request.GetReflection()->GetOneofFieldDescriptor(request, kind);
  return field == nullptr ? "unknown" : absl::StripSuffix(field->message_type()->name(), "Request");
}

}  // namespace rdmabroker
