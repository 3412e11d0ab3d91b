// SPDX-License-Identifier: Apache-2.0

#include "tests/control/test_client.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "proto/rdmabroker/v1/rpc_status.pb.h"
#include "tests/control/connections.h"

namespace rdmabroker {
namespace {

using Broker = v1::Broker;

// Queue pair numbers are the client's own affair here; no two connectors may have the same.
uint32_t NewQp() {
  static std::atomic<uint32_t> last{1};
  return ++last;
}

// A test that has failed does not wait long for what may depend on what failed.
absl::Duration Patience() { return ::testing::Test::HasFailure() ? absl::Seconds(1) : kTestPatience; }

std::shared_ptr<grpc::Channel> ChannelWith(grpc::ChannelArguments arguments, const std::string& target) {
  // Channels with the same target share a connection otherwise.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

void PrintTo(NdkStatus status, std::ostream* out) { *out << StatusName(status); }

std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd connection) {
  ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
  return grpc::CreateInsecureChannelFromFd("control", connection.Release());
}

std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address, const std::string& authority,
                                          const std::string& certificate, const std::string& private_key) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority;
  options.pem_cert_chain = certificate;
  options.pem_private_key = private_key;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
}

std::shared_ptr<grpc::Channel> ChannelAs(uid_t uid, const std::string& path) {
  UniqueFd fd = ConnectAs(uid, uid, path, SOCK_STREAM);
  EXPECT_TRUE(fd) << path << " as uid " << uid << ": " << std::strerror(errno);
  return fd ? ChannelOver(std::move(fd)) : nullptr;
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& target) {
  return ChannelWith(grpc::ChannelArguments(), target);
}

std::shared_ptr<grpc::Channel> NarrowChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return ChannelWith(arguments, target);
}

std::optional<v1::Outcome> DetailOf(const grpc::Status& status) {
  v1::RpcStatus rpc;
  v1::Outcome outcome;
  if (!rpc.ParseFromString(status.error_details()) || rpc.details_size() != 1 || !rpc.details(0).UnpackTo(&outcome)) {
    return std::nullopt;
  }
  EXPECT_EQ(rpc.code(), status.error_code());
  EXPECT_EQ(rpc.message(), status.error_message());
  return outcome;
}

NdkStatus NdkStatusOf(const v1::Outcome& outcome) {
  return static_cast<NdkStatus>(static_cast<uint32_t>(outcome.status()));
}

NdkStatus NdkStatusOf(const grpc::Status& status) {
  if (status.ok()) return NdkStatus::kSuccess;
  const auto detail = DetailOf(status);
  return detail ? NdkStatusOf(*detail) : NdkStatus::kUnsuccessful;
}

void Limit(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kTestPatience));
}

v1::SocketAddress ToMessage(const SocketAddress& address) {
  v1::SocketAddress message;
  message.set_ip(address.ip.bytes.data(), address.ip.family == IpFamily::kIpv4 ? 4 : 16);
  message.set_port(address.port);
  message.set_scope_id(address.ip.scope_id);
  return message;
}

SocketAddress FromMessage(const v1::SocketAddress& message) {
  SocketAddress address;
  address.ip.family = message.ip().size() == 4 ? IpFamily::kIpv4 : IpFamily::kIpv6;
  std::copy_n(message.ip().begin(), std::min<size_t>(message.ip().size(), 16), address.ip.bytes.begin());
  address.ip.scope_id = message.scope_id();
  address.port = static_cast<uint16_t>(message.port());
  return address;
}

TestClient::TestClient(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), stub_(Broker::NewStub(channel_)) {}

TestClient::~TestClient() { Vanish(); }

NdkStatus TestClient::Open(const std::vector<std::string>& features) {
  v1::SessionRequest first;
  first.mutable_open()->set_api_minor(1);
  first.mutable_open()->mutable_features()->Add(features.begin(), features.end());
  return Start(first);
}

NdkStatus TestClient::Resume(const TestClient& former, uint64_t acknowledged,
                             const std::vector<std::string>& features) {
  v1::SessionRequest first;
  v1::ResumeSession* resume = first.mutable_resume();
  resume->mutable_features()->Add(features.begin(), features.end());
  resume->set_session_id(former.opened_.session_id());
  resume->set_session_secret(former.opened_.session_secret());
  resume->set_acknowledged_event(acknowledged);
  resume->set_api_minor(1);
  resume->set_lineage(former.opened_.lineage());
  next_request_id_ = former.next_request_id_;
  {
    // Before there is a reader, which may have an event at once.
    const std::lock_guard lock(mutex_);
    last_event_ = std::max(last_event_, acknowledged);
  }
  const NdkStatus status = Start(first);
  opened_.set_session_secret(former.opened_.session_secret());
  return status;
}

NdkStatus TestClient::Start(const v1::SessionRequest& first) {
  context_ = std::make_unique<grpc::ClientContext>();
  stream_ = stub_->Session(context_.get());
  v1::SessionReply reply;
  if (!stream_->Write(first) || !stream_->Read(&reply)) {
    const grpc::Status status = stream_->Finish();
    stream_.reset();
    return status.ok() ? NdkStatus::kUnsuccessful : NdkStatusOf(status);
  }
  EXPECT_TRUE(reply.has_opened()) << reply.DebugString();
  opened_ = reply.opened();
  reader_ = std::thread([this] { ReadEvents(); });
  return NdkStatus::kSuccess;
}

void TestClient::ReadEvents() {
  v1::SessionReply reply;
  while (stream_->Read(&reply)) {
    std::unique_lock lock(mutex_);
    if (reply.has_event()) Take(reply.event());
    for (const v1::SessionEvent& event : reply.batch().events()) Take(event);
    for (const v1::BatchedAnswer& answer : reply.batch().answers()) answers_[answer.request_id()] = answer.outcome();
    taken_ = std::max(taken_, reply.batch().requests_taken());
    EXPECT_LE(reply.ByteSizeLong(), 65536u);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !paused_; });
  }
  const grpc::Status status = stream_->Finish();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  end_ = status;
  changed_.notify_all();
}

void TestClient::Take(const v1::SessionEvent& event) {
  EXPECT_EQ(event.number(), last_event_ + 1);
  last_event_ = event.number();
  events_.push_back(event);
}

NdkStatus TestClient::Close() {
  v1::SessionRequest message;
  message.mutable_close();
  stream_->Write(message);
  return NdkStatusOf(WaitForEnd());
}

void TestClient::SetPaused(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
  changed_.notify_all();
}

void TestClient::Vanish() {
  if (!stream_) return;
  GoOnReading();
  context_->TryCancel();
  WaitForEnd();
  stream_.reset();
}

grpc::Status TestClient::WaitForEnd() {
  std::unique_lock lock(mutex_);
  const bool ended = changed_.wait_for(lock, absl::ToChronoSeconds(Patience()), [&] { return ended_; });
  EXPECT_TRUE(ended) << "the session's stream does not end";
  lock.unlock();
  if (!ended) context_->TryCancel();
  if (reader_.joinable()) reader_.join();
  return end_;
}

void TestClient::FillIn(v1::RequestHeader* header) {
  if (header->session_id() == 0) header->set_session_id(session_id());
  if (header->request_id() == 0) header->set_request_id(next_request_id_++);
}

v1::Outcome TestClient::Told(const grpc::Status& status, v1::Outcome outcome) {
  if (status.ok()) return outcome;
  const auto detail = DetailOf(status);
  if (detail) return *detail;
  v1::Outcome unknown;
  unknown.set_status(v1::STATUS_UNSUCCESSFUL);
  unknown.set_hint("no detail; gRPC status " + std::to_string(status.error_code()) + ": " + status.error_message());
  return unknown;
}

v1::SessionEvent TestClient::WaitFor(const std::function<bool(const v1::SessionEvent&)>& fits) {
  std::unique_lock lock(mutex_);
  auto found = events_.end();
  const bool came = changed_.wait_for(lock, absl::ToChronoSeconds(Patience()), [&] {
    found = std::find_if(events_.begin(), events_.end(), fits);
    return found != events_.end() || ended_;
  });
  if (!came || found == events_.end()) {
    ADD_FAILURE() << "the event that is waited for does not come";
    return {};
  }
  v1::SessionEvent event = *found;
  events_.erase(found);
  return event;
}

v1::SessionEvent TestClient::WaitForever() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !events_.empty(); });
  if (events_.empty()) return {};
  v1::SessionEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

v1::Outcome TestClient::WaitForOutcome(uint64_t request_id) {
  return WaitFor([&](const v1::SessionEvent& event) {
           return event.has_outcome() && event.outcome().request_id() == request_id;
         })
      .outcome()
      .outcome();
}

std::map<uint64_t, v1::Outcome> TestClient::WaitUntilTaken(uint64_t request_id) {
  std::unique_lock lock(mutex_);
  const bool taken =
      changed_.wait_for(lock, absl::ToChronoSeconds(Patience()), [&] { return taken_ >= request_id || ended_; });
  EXPECT_TRUE(taken && taken_ >= request_id) << "request " << request_id << " is not taken";
  return answers_;
}

v1::ConnectEvent TestClient::WaitForConnect() {
  return WaitFor([](const v1::SessionEvent& event) { return event.has_connect(); }).connect();
}

v1::DisconnectEvent TestClient::WaitForDisconnect(uint64_t connector) {
  return WaitFor([&](const v1::SessionEvent& event) {
           return event.has_disconnect() && event.disconnect().connector_id() == connector;
         })
      .disconnect();
}

std::deque<v1::SessionEvent> TestClient::TakeEvents() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

uint64_t TestClient::last_event() {
  const std::lock_guard lock(mutex_);
  return last_event_;
}

uint64_t TestClient::OpenAdapter(const std::string& device) {
  v1::OpenAdapterRequest request;
  request.set_device(device);
  request.mutable_version()->set_major(2);
  const v1::Outcome outcome = Ask(&Broker::Stub::OpenAdapter, request);
  EXPECT_EQ(NdkStatusOf(outcome), NdkStatus::kSuccess) << outcome.hint();
  return outcome.adapter_opened().adapter_id();
}

std::pair<uint64_t, SocketAddress> TestClient::Listen(uint64_t adapter, const SocketAddress& address) {
  v1::CreateListenerRequest create;
  create.set_adapter_id(adapter);
  const uint64_t listener = Ask(&Broker::Stub::CreateListener, create).listener_created().listener_id();
  v1::ListenRequest listen;
  listen.set_listener_id(listener);
  *listen.mutable_address() = ToMessage(address);
  const v1::Outcome outcome = Finish(&Broker::Stub::Listen, listen);
  EXPECT_EQ(NdkStatusOf(outcome), NdkStatus::kSuccess) << outcome.hint();
  return {listener, FromMessage(outcome.listening().address())};
}

uint64_t TestClient::CreateConnector(uint64_t adapter) {
  v1::CreateConnectorRequest request;
  request.set_adapter_id(adapter);
  const v1::Outcome outcome = Ask(&Broker::Stub::CreateConnector, request);
  EXPECT_EQ(NdkStatusOf(outcome), NdkStatus::kSuccess) << outcome.hint();
  return outcome.connector_created().connector_id();
}

uint64_t TestClient::StartConnect(uint64_t connector, uint32_t qp, const SocketAddress& source,
                                  const SocketAddress& peer) {
  v1::ConnectRequest request;
  request.set_connector_id(connector);
  request.set_qp_number(qp);
  *request.mutable_source() = ToMessage(source);
  *request.mutable_destination() = ToMessage(peer);
  request.mutable_limits()->set_inbound(4);
  request.mutable_limits()->set_outbound(4);
  request.set_private_data("from the active side");
  const uint64_t id = next_request_id_;
  const v1::Outcome outcome = Ask(&Broker::Stub::Connect, request);
  EXPECT_EQ(NdkStatusOf(outcome), NdkStatus::kPending) << outcome.hint();
  return id;
}

v1::Outcome TestClient::Accept(uint64_t connector, uint32_t qp) {
  v1::AcceptRequest request;
  request.set_connector_id(connector);
  request.set_qp_number(qp);
  request.mutable_limits()->set_inbound(2);
  request.mutable_limits()->set_outbound(8);
  request.set_private_data("from the passive side");
  return Ask(&Broker::Stub::Accept, request);
}

v1::Outcome TestClient::CompleteConnect(uint64_t connector) {
  v1::CompleteConnectRequest request;
  request.set_connector_id(connector);
  return Finish(&Broker::Stub::CompleteConnect, request);
}

v1::Outcome TestClient::CloseConnector(uint64_t connector) {
  v1::CloseConnectorRequest request;
  request.set_connector_id(connector);
  return Finish(&Broker::Stub::CloseConnector, request);
}

v1::Outcome TestClient::CloseListener(uint64_t listener) {
  v1::CloseListenerRequest request;
  request.set_listener_id(listener);
  return Finish(&Broker::Stub::CloseListener, request);
}

v1::Outcome TestClient::CloseAdapter(uint64_t adapter) {
  v1::CloseAdapterRequest request;
  request.set_adapter_id(adapter);
  return Finish(&Broker::Stub::CloseAdapter, request);
}

TestConnection ConnectClients(TestClient& listening, const SocketAddress& listens_on, TestClient& connecting,
                              uint64_t adapter, const SocketAddress& source) {
  TestConnection connection;
  connection.active = connecting.CreateConnector(adapter);
  const uint64_t connect = connecting.StartConnect(connection.active, NewQp(), source, listens_on);
  connection.passive = listening.WaitForConnect().connector_id();
  const uint64_t accept = listening.next_request_id();
  connection.accepted = listening.Accept(connection.passive, NewQp());
  const v1::Outcome connected = connecting.WaitForOutcome(connect);
  EXPECT_EQ(NdkStatusOf(connected), NdkStatus::kSuccess) << connected.hint();
  connection.completed = connecting.CompleteConnect(connection.active);
  if (NdkStatusOf(connection.accepted) == NdkStatus::kPending) {
    connection.accepted = listening.WaitForOutcome(accept);
  }
  EXPECT_EQ(NdkStatusOf(connection.accepted), NdkStatus::kSuccess) << connection.accepted.hint();
  EXPECT_EQ(NdkStatusOf(connection.completed), NdkStatus::kSuccess) << connection.completed.hint();
  return connection;
}

}  // namespace rdmabroker
