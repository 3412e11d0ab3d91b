// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/remote_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"

namespace rdmabroker::ctl {
namespace {

namespace tls = grpc::experimental;

// Of a stream on which nothing is said; the broker's machine may have gone without a word. It closes connections that
// ask more often than every ten seconds.
constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepalivePatienceMs = 10'000;

constexpr char kSpiffe[] = "spiffe://";

bool IsSpiffeId(const std::string& name) { return name.rfind(kSpiffe, 0) == 0; }

// Takes a broker for the right one by the SPIFFE id of its certificate, which often has no other name.
class SpiffeIdVerifier final : public tls::ExternalCertificateVerifier {
 public:
  explicit SpiffeIdVerifier(std::string id) : id_(std::move(id)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const auto names = request->uri_names();
    if (names.size() == 1 && names.front() == id_) return true;
    *status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the broker's certificate is not that of " + id_);
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string id_;
};

bool Read(const std::string& path, std::string* text, std::string* problem) {
  std::ifstream file(path, std::ios::binary);
  text->assign(std::istreambuf_iterator<char>(file), {});
  if (file.is_open() && !file.bad() && !text->empty()) return true;
  *problem = path + ": cannot be read, or is empty";
  return false;
}

}  // namespace

std::string ProblemOf(const RemoteBroker& broker) {
  const std::pair<const char*, const std::string&> needed[] = {{"--certificate", broker.certificate},
                                                               {"--private-key", broker.private_key},
                                                               {"--authorities", broker.authorities}};
  for (const auto& [option, value] : needed) {
    if (broker.address.empty() && !value.empty()) return std::string(option) + " is for --address, which names none";
    if (!broker.address.empty() && value.empty()) return std::string("--address needs ") + option;
  }
  if (broker.address.empty() && !broker.server_name.empty()) return "--server-name is for --address, which names none";
  const size_t colon = broker.address.rfind(':');
  if (broker.address.empty() || (colon != std::string::npos && colon > 0 && colon + 1 < broker.address.size()))
    return "";
  return "--address: " + broker.address + " is no HOST:PORT";
}

std::shared_ptr<grpc::Channel> OpenRemoteChannel(const RemoteBroker& broker, std::string* problem) {
  tls::IdentityKeyCertPair pair;
  std::string authorities;
  if (!Read(broker.certificate, &pair.certificate_chain, problem) ||
      !Read(broker.private_key, &pair.private_key, problem) || !Read(broker.authorities, &authorities, problem)) {
    return nullptr;
  }
  // As for the control socket: Debian builds it in, and it ends the process on lock orders within gRPC.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      authorities, std::vector<tls::IdentityKeyCertPair>{std::move(pair)}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  grpc::ChannelArguments arguments;
  if (IsSpiffeId(broker.server_name)) {
    options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<SpiffeIdVerifier>(broker.server_name));
    options.set_check_call_host(false);
  } else {
    options.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
    if (!broker.server_name.empty()) arguments.SetSslTargetNameOverride(broker.server_name);
  }
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepalivePatienceMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // However long nothing is said.
  // The target is a URI, in which the % of an interface is written so.
  const std::string target = absl::StrReplaceAll(broker.address, {{"%", "%25"}});
  return grpc::CreateCustomChannel("dns:///" + target, tls::TlsCredentials(options), arguments);
}

std::string NoRemoteBrokerHint(const RemoteBroker& broker, const std::string& cause) {
  return "no broker answers on " + broker.address + " (" + cause +
         "): see whether one has that tcp.address; whether --authorities has signed its certificate, and that is for "
         "this host or --server-name; and whether its tcp.client_authorities have signed --certificate";
}

}  // namespace rdmabroker::ctl
