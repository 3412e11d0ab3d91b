// SPDX-License-Identifier: Apache-2.0

#include "client/names/etcd.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <sstream>
#include <utility>

#include "client/names/etcd.pb.h"

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kLargestAnswer = 64 << 10;  // Sixteen addresses with their keys are a fraction of that.

std::string ContentsOf(const std::string& path, std::string* problem) {
  if (path.empty()) return "";
  std::ifstream file(path);
  std::stringstream contents;
  if (!file || !(contents << file.rdbuf())) *problem = path + ": cannot be read";
  return contents.str();
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(bool tls, const NameOptions& options, std::string* problem) {
  if (!tls) return grpc::InsecureChannelCredentials();
  if (options.certificate_file.empty() != options.key_file.empty()) {
    *problem = "a certificate goes with its key: set RDMA_BROKER_NAMES_CERT and RDMA_BROKER_NAMES_KEY, or neither";
  }
  return grpc::SslCredentials({.pem_root_certs = ContentsOf(options.ca_file, problem),
                               .pem_private_key = ContentsOf(options.key_file, problem),
                               .pem_cert_chain = ContentsOf(options.certificate_file, problem)});
}

}  // namespace

Etcd::Etcd(EtcdSource source, const NameOptions& options, std::string* problem) : source_(std::move(source)) {
  const auto credentials = Credentials(source_.tls, options, problem);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestAnswer);
  for (const std::string& endpoint : source_.endpoints) {
    channels_.push_back(grpc::CreateCustomChannel(endpoint, credentials, arguments));
  }
}

bool Etcd::Begin(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  under_way_ = cancelled_ ? nullptr : context;
  return !cancelled_;
}

void Etcd::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (under_way_ != nullptr) under_way_->TryCancel();
}

// Whoever does not answer in its share of the time is followed by the next. A call that is repeated so does no harm.
template <typename Request, typename Response>
grpc::Status Etcd::Call(const char* method, const Request& request, milliseconds timeout, Response* response) {
  const auto end = steady_clock::now() + timeout;
  grpc::Status status;
  for (size_t i = 0; i < channels_.size(); ++i) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + left / static_cast<int>(channels_.size() - i));
    if (!Begin(&context)) return grpc::Status::CANCELLED;
    grpc::TemplatedGenericStub<Request, Response> stub(channels_[i]);
    const auto ended = std::make_shared<std::promise<grpc::Status>>();
    stub.UnaryCall(&context, method, {}, &request, response,
                   [ended](grpc::Status how) { ended->set_value(std::move(how)); });
    status = ended->get_future().get();
    Begin(nullptr);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE &&
        status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      break;
    }
  }
  return status;
}

grpc::Status Etcd::Find(const std::string& name, milliseconds timeout, etcd::RangeResponse* response) {
  etcd::RangeRequest request;
  request.set_key(KeyOf(name));
  std::string range_end = KeyOf(name);
  ++range_end.back();
  request.set_range_end(range_end);
  request.set_limit(kMostAddresses);
  return Call("/etcdserverpb.KV/Range", request, timeout, response);
}

grpc::Status Etcd::Put(const std::string& name, const std::string& address, int64_t lease, milliseconds timeout) {
  etcd::PutRequest request;
  request.set_key(KeyOf(name) + address);
  request.set_value(address);
  request.set_lease(lease);
  etcd::PutResponse response;
  return Call("/etcdserverpb.KV/Put", request, timeout, &response);
}

grpc::Status Etcd::Grant(std::chrono::seconds time_to_live, milliseconds timeout, int64_t* lease) {
  etcd::LeaseGrantRequest request;
  request.set_ttl(time_to_live.count());
  etcd::LeaseGrantResponse response;
  grpc::Status status = Call("/etcdserverpb.Lease/LeaseGrant", request, timeout, &response);
  if (status.ok()) *lease = response.id();
  return status;
}

// A stream at etcd, of which one message each way and the end are a call.
grpc::Status Etcd::Renew(int64_t lease, milliseconds timeout, bool* is_there) {
  etcd::LeaseRequest request;
  request.set_id(lease);
  etcd::LeaseResponse response;
  grpc::Status status = Call("/etcdserverpb.Lease/LeaseKeepAlive", request, timeout, &response);
  *is_there = response.ttl() > 0;
  return status;
}

grpc::Status Etcd::Revoke(int64_t lease, milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = false;
  }
  etcd::LeaseRequest request;
  request.set_id(lease);
  etcd::LeaseResponse response;
  return Call("/etcdserverpb.Lease/LeaseRevoke", request, timeout, &response);
}

Outcome Etcd::OutcomeOf(const grpc::Status& status) {
  if (status.ok()) return {};
  const std::string hint = "etcd: " + OneLine(status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {.status = NdkStatus::kIoTimeout, .retryable = true, .hint = hint};
    case grpc::StatusCode::UNAVAILABLE:
      return {.status = NdkStatus::kHostUnreachable, .retryable = true, .hint = hint};
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return {.status = NdkStatus::kAccessDenied, .hint = hint};
    default:
      return {.status = NdkStatus::kUnsuccessful, .hint = hint};
  }
}

}  // namespace rdmabroker::client
