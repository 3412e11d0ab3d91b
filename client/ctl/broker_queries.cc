// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/broker_queries.h"

#include <grpcpp/client_context.h>

#include <thread>
#include <tuple>
#include <utility>

#include "client/control_socket.h"
#include "client/ctl/explanation.h"
#include "client/ctl/table.h"
#include "client/rpc_status.h"
#include "client/translation.h"

namespace rdmabroker::ctl {
namespace {

// A person waits for it.
constexpr std::chrono::seconds kDeadline{10};
// Page.limit's greatest value.
constexpr uint32_t kRowsPerPage = 1000;

// Between two looks at whether a device's last adapter is closed; short for a person, long for a broker.
constexpr std::chrono::milliseconds kBetweenLooks{100};

// A device's state and its open adapters; not told where it is not there.
std::pair<v1::DeviceState, uint32_t> StateOf(const std::string& device, const v1::ListAdaptersReply& reply) {
  for (int i = 0; i < reply.devices_size() && i < reply.activities_size(); ++i) {
    if (reply.devices(i).name() == device) return {reply.activities(i).state(), reply.activities(i).adapters()};
  }
  return {v1::DEVICE_STATE_UNSPECIFIED, 0};
}

}  // namespace

BrokerQueries::BrokerQueries(const std::string& control_socket, OutputForm form)
    : BrokerQueries({.address = control_socket}, client::OpenControlChannel(control_socket), form) {}

BrokerQueries::BrokerQueries(const RemoteBroker& broker, std::shared_ptr<grpc::Channel> channel, OutputForm form)
    : place_(broker.address),
      remote_(broker.certificate.empty() ? RemoteBroker() : broker),
      form_(form),
      channel_(std::move(channel)),
      inspection_(v1::Inspection::NewStub(channel_)),
      administration_(v1::Administration::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

ExitCode BrokerQueries::List(const std::string& what) {
  using Stub = v1::Inspection::Stub;
  if (what == "adapters") return ListAdapters();
  if (what == "sessions") return ListPages<v1::ListSessionsRequest, v1::ListSessionsReply>(&Stub::ListSessions);
  if (what == "endpoints") return ListPages<v1::ListEndpointsRequest, v1::ListEndpointsReply>(&Stub::ListEndpoints);
  if (what == "listeners") return ListPages<v1::ListListenersRequest, v1::ListListenersReply>(&Stub::ListListeners);
  if (what == "shared-endpoints") {
    return ListPages<v1::ListSharedEndpointsRequest, v1::ListSharedEndpointsReply>(&Stub::ListSharedEndpoints);
  }
  if (what == "reservations") {
    return ListPages<v1::ListReservationsRequest, v1::ListReservationsReply>(&Stub::ListReservations);
  }
  if (what == "connectors") return ListPages<v1::ListConnectorsRequest, v1::ListConnectorsReply>(&Stub::ListConnectors);
  error_ = what + " is nothing that a broker lists";
  return ExitCode::kUsage;
}

template <typename Stub, typename Call, typename Request, typename Reply>
ExitCode BrokerQueries::Ask(Stub& stub, Call call, const Request& request, Reply* reply) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  const grpc::Status status = (stub.*call)(&context, request, reply);
  return status.ok() ? ExitCode::kDone : Fail(status);
}

ExitCode BrokerQueries::Adapters(v1::ListAdaptersReply* reply) {
  return Ask(*inspection_, &v1::Inspection::Stub::ListAdapters, v1::ListAdaptersRequest(), reply);
}

ExitCode BrokerQueries::ListAdapters() {
  v1::ListAdaptersReply reply;
  const ExitCode code = Adapters(&reply);
  return code == ExitCode::kDone ? Show(reply) : code;
}

ExitCode BrokerQueries::Sessions(const std::string& device, v1::ListSessionsReply* reply) {
  v1::ListSessionsRequest request;
  request.set_device(device);
  return ReadPages(&v1::Inspection::Stub::ListSessions, request, reply);
}

ExitCode BrokerQueries::Endpoints(v1::ListEndpointsReply* reply) {
  return ReadPages(&v1::Inspection::Stub::ListEndpoints, v1::ListEndpointsRequest(), reply);
}

ExitCode BrokerQueries::Connectors(v1::ListConnectorsReply* reply) {
  return ReadPages(&v1::Inspection::Stub::ListConnectors, v1::ListConnectorsRequest(), reply);
}

template <typename Request, typename Reply>
ExitCode BrokerQueries::ListPages(Rpc<Request, Reply> rpc) {
  Reply all;
  const ExitCode code = ReadPages(rpc, Request(), &all);
  return code == ExitCode::kDone ? Show(all) : code;
}

template <typename Request, typename Reply>
ExitCode BrokerQueries::ReadPages(Rpc<Request, Reply> rpc, Request request, Reply* all) {
  uint64_t after = 0;
  do {
    request.mutable_page()->set_after(after);
    request.mutable_page()->set_limit(kRowsPerPage);
    Reply page;
    if (const ExitCode code = Ask(*inspection_, rpc, request, &page); code != ExitCode::kDone) return code;
    all->MergeFrom(page);
    all->clear_next();
    // Ids ascend; pages that do not would never end.
    if (page.next() != 0 && page.next() <= after) {
      error_ = "the broker's pages do not go on; client and broker do not fit together";
      return ExitCode::kRefused;
    }
    after = page.next();
  } while (after != 0);
  return ExitCode::kDone;
}

template <typename Reply>
ExitCode BrokerQueries::Show(const Reply& reply) {
  if (form_ != OutputForm::kTable) return ShowMessage(reply);
  output_ = Format(ToTable(reply));
  return ExitCode::kDone;
}

ExitCode BrokerQueries::ShowMessage(const google::protobuf::Message& reply) {
  const auto shown = InForm(form_, JsonOf(reply));
  if (!shown.has_value()) {
    error_ = "the broker's answer cannot be shown so; a table may do";
    return ExitCode::kRefused;
  }
  output_ = *shown;
  return ExitCode::kDone;
}

ExitCode BrokerQueries::Explain(uint64_t connector_id) {
  v1::ExplainConnectorRequest request;
  request.set_connector_id(connector_id);
  v1::ExplainConnectorReply reply;
  const ExitCode code = Ask(*inspection_, &v1::Inspection::Stub::ExplainConnector, request, &reply);
  if (code != ExitCode::kDone) return code;
  if (form_ != OutputForm::kTable) return ShowMessage(reply);
  output_ = ExplainInWords(reply, std::chrono::system_clock::now());
  return ExitCode::kDone;
}

ExitCode BrokerQueries::Health() {
  using grpc::health::v1::Health;
  grpc::health::v1::HealthCheckResponse reply;
  const ExitCode code = Ask(*health_, &Health::Stub::Check, grpc::health::v1::HealthCheckRequest(), &reply);
  if (code != ExitCode::kDone) return code;
  if (reply.status() != grpc::health::v1::HealthCheckResponse::SERVING) {
    error_ = "the broker on " + place_ + " does not serve: it is starting or stopping";
    return ExitCode::kRefused;
  }
  if (form_ != OutputForm::kTable) return ShowMessage(reply);
  output_ = "serving\n";
  return ExitCode::kDone;
}

ExitCode BrokerQueries::EndSession(uint64_t session_id) {
  v1::EndSessionRequest request;
  request.set_session_id(session_id);
  v1::EndSessionReply reply;
  const ExitCode code = Ask(*administration_, &v1::Administration::Stub::EndSession, request, &reply);
  return code == ExitCode::kDone ? SayDone() : code;
}

ExitCode BrokerQueries::StartDisabling(const std::string& device, v1::DisableAdapterReply* reply) {
  v1::DisableAdapterRequest request;
  request.set_device(device);
  return Ask(*administration_, &v1::Administration::Stub::DisableAdapter, request, reply);
}

ExitCode BrokerQueries::DisableAdapter(const std::string& device, std::chrono::seconds patience) {
  v1::DisableAdapterReply reply;
  const ExitCode asked = StartDisabling(device, &reply);
  if (asked != ExitCode::kDone) return asked;
  const auto end = std::chrono::steady_clock::now() + patience;
  v1::DeviceState state = reply.state();
  uint32_t open = reply.adapters();
  while (state == v1::DEVICE_STATE_DISABLING && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kBetweenLooks);
    v1::ListAdaptersReply seen;
    if (const ExitCode code = Adapters(&seen); code != ExitCode::kDone) return code;
    std::tie(state, open) = StateOf(device, seen);
  }
  switch (state) {
    case v1::DEVICE_STATE_DISABLED:
      return SayDone();
    case v1::DEVICE_STATE_DISABLING:
      error_ = device + " takes no more adapters, but " + std::to_string(open) +
               " are still open; its clients have been told. \"rdma-brokerctl sessions\" shows who has adapters, "
               "\"rdma-brokerctl end-session\" ends one";
      return ExitCode::kRefused;
    default:
      error_ = device + " was enabled or removed meanwhile";
      return ExitCode::kRefused;
  }
}

ExitCode BrokerQueries::EnableAdapter(const std::string& device) {
  v1::EnableAdapterRequest request;
  request.set_device(device);
  v1::EnableAdapterReply reply;
  const ExitCode code = Ask(*administration_, &v1::Administration::Stub::EnableAdapter, request, &reply);
  return code == ExitCode::kDone ? SayDone() : code;
}

ExitCode BrokerQueries::Restart() {
  v1::RestartReply reply;
  const ExitCode code = Ask(*administration_, &v1::Administration::Stub::Restart, v1::RestartRequest(), &reply);
  return code == ExitCode::kDone ? SayDone() : code;
}

ExitCode BrokerQueries::Reload() {
  v1::ReloadReply reply;
  const ExitCode code = Ask(*administration_, &v1::Administration::Stub::Reload, v1::ReloadRequest(), &reply);
  if (code != ExitCode::kDone) return code;
  if (form_ != OutputForm::kTable) return ShowMessage(reply);
  for (const std::string& key : reply.applied()) output_ += "applied: " + key + "\n";
  for (const std::string& key : reply.needs_restart()) output_ += "needs a restart: " + key + "\n";
  if (output_.empty()) output_ = "nothing has changed\n";
  return ExitCode::kDone;
}

ExitCode BrokerQueries::LogLevel(const std::string& level) {
  v1::SetLogLevelRequest request;
  request.set_level(level);
  v1::SetLogLevelReply reply;
  const ExitCode code = Ask(*administration_, &v1::Administration::Stub::SetLogLevel, request, &reply);
  if (code != ExitCode::kDone) return code;
  if (form_ != OutputForm::kTable) return ShowMessage(reply);
  output_ = reply.level() + "\n";
  return ExitCode::kDone;
}

ExitCode BrokerQueries::SayDone() {
  if (form_ != OutputForm::kTable) output_ = "{}\n";
  return ExitCode::kDone;
}

ExitCode BrokerQueries::Fail(const grpc::Status& status) {
  if (const auto detail = client::FailureDetail(status); detail.has_value()) {
    const client::Outcome outcome = client::FromMessage(*detail);
    error_ = std::string(StatusName(outcome.status)) + ": " + outcome.hint;
    return ExitCode::kRefused;
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    error_ =
        remote_.address.empty() ? client::NoBroker(place_).hint : NoRemoteBrokerHint(remote_, status.error_message());
    return ExitCode::kNoBroker;
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    error_ = "the broker on " + place_ + " does not answer; see whether it is stopped or overloaded";
    return ExitCode::kNoBroker;
  }
  error_ = "the broker on " + place_ + " does not do this: " + status.error_message();
  return ExitCode::kRefused;
}

}  // namespace rdmabroker::ctl
