// SPDX-License-Identifier: Apache-2.0

#include "broker/control/mutual_tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <mutex>
#include <string>
#include <utility>

namespace rdmabroker {

struct MutualTls::State {
  std::mutex mutex;
  ServerCertificates certificates;  // Guarded by mutex.
  bool fresh = true;                // Guarded by mutex: gRPC has not been given them.
};

namespace {

// gRPC's C++ interface has no word for certificates that are asked for; its C interface has.
class Credentials final : public grpc::ServerCredentials {
 public:
  using Ask = grpc_ssl_server_certificate_config_callback;

  Credentials(std::shared_ptr<void> asked, Ask ask) : asked_(std::move(asked)) {
    auto* const options = grpc_ssl_server_credentials_create_options_using_config_fetcher(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, ask, asked_.get());
    credentials_ = grpc_ssl_server_credentials_create_with_options(options);
  }
  ~Credentials() override { grpc_server_credentials_release(credentials_); }

  // Who a call comes from its handler asks.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const std::shared_ptr<void> asked_;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

MutualTls::MutualTls(ServerCertificates certificates) : state_(std::make_shared<State>()) {
  Use(std::move(certificates));
}

void MutualTls::Use(ServerCertificates certificates) {
  const std::lock_guard lock(state_->mutex);
  state_->certificates = std::move(certificates);
  state_->fresh = true;
}

std::shared_ptr<grpc::ServerCredentials> MutualTls::Credentials() const {
  const auto ask = [](void* asked, grpc_ssl_server_certificate_config** config) {
    State& state = *static_cast<State*>(asked);
    const std::lock_guard lock(state.mutex);
    if (!std::exchange(state.fresh, false)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const ServerCertificates& now = state.certificates;
    const grpc_ssl_pem_key_cert_pair pair = {now.private_key.c_str(), now.chain.c_str()};
    *config = grpc_ssl_server_certificate_config_create(now.client_authorities.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  };
  return std::make_shared<rdmabroker::Credentials>(state_, ask);
}

}  // namespace rdmabroker
