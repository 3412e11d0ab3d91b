// SPDX-License-Identifier: Apache-2.0

#include "broker/control/remote_access.h"

#include <sys/socket.h>

#include <utility>

#include "absl/time/clock.h"
#include "broker/log/log.h"
#include "broker/runtime/tcp_listener.h"

namespace rdmabroker {
namespace {

// Between two looks at the files; a few small ones, read on another thread.
constexpr absl::Duration kBetweenLooks = absl::Seconds(2);

// Who has asked for the change hears that it is done. Each call's rights are looked at anew in any case.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);

}  // namespace

absl::StatusOr<std::optional<RemoteAccess::Port>> RemoteAccess::Open(const LoadedConfiguration& loaded) {
  if (!loaded.certificates) return std::nullopt;
  absl::StatusOr<UniqueFd> listener = ListenOnTcp("tcp.address", loaded.configuration.tcp_address, SOMAXCONN);
  if (!listener.ok()) return listener.status();
  return Port{*std::move(listener), *loaded.certificates, TcpBounds()};
}

RemoteAccess::RemoteAccess(std::optional<Port> port) : opened_(std::move(port)) {}

void RemoteAccess::AddTo(grpc::ServerBuilder& builder) {
  if (!opened_) return;
  in_use_ = opened_->certificates;
  callers_.Set(in_use_.revocations);
  tls_ = std::make_unique<MutualTls>(in_use_);
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  give_ = builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, tls_->Credentials());
}

void RemoteAccess::Start(const Configuration& configuration, Watcher& watcher, Executor& executor) {
  watcher_ = &watcher;
  executor_ = &executor;
  configuration_ = configuration;
  callers_.Set(configuration.tcp_administrators, configuration.tcp_inspectors);
  if (!opened_) return;
  port_ = std::make_unique<TcpPort>(std::move(opened_->listener), std::move(give_), watcher, opened_->bounds);
  opened_.reset();
}

void RemoteAccess::StartAccepting() {
  if (port_ == nullptr) return;
  LogInfo("serving over tcp", {{"address", port_->address()}});
  port_->StartAccepting();
  WatchFiles(CertificateFilesOf(configuration_));
  LookLater();
}

void RemoteAccess::StopAccepting() {
  if (port_ != nullptr) port_->StopAccepting();
}

grpc::Status RemoteAccess::Admit(const grpc::ServerContext& call, Caller* caller) {
  const absl::Time now = absl::Now();
  PresentedChain chain;
  grpc::Status admitted = callers_.Admit(*call.auth_context(), now, caller, &chain);
  if (!admitted.ok()) return admitted;
  if (const auto peer = TcpPeerOf(call.peer())) {
    const absl::Duration left = chain.End() - now;
    port_->Keep(*peer, left, std::make_shared<const PresentedChain>(std::move(chain)));
    caller->peer = peer->ip;
  }
  return admitted;
}

Configuration RemoteAccess::Apply(Configuration configuration, const std::optional<ServerCertificates>& certificates) {
  callers_.Set(configuration.tcp_administrators, configuration.tcp_inspectors);
  if (port_ != nullptr && !certificates) {
    configuration.tcp_certificate = configuration_.tcp_certificate;
    configuration.tcp_private_key = configuration_.tcp_private_key;
    configuration.tcp_client_authorities = configuration_.tcp_client_authorities;
    configuration.tcp_revoked = configuration_.tcp_revoked;
  }
  const Configuration former = std::exchange(configuration_, configuration);
  if (port_ == nullptr) return configuration;
  if (former.tcp_administrators != configuration.tcp_administrators ||
      former.tcp_inspectors != configuration.tcp_inspectors) {
    EndConnections();
  }
  if (CertificateFilesOf(former) != CertificateFilesOf(configuration)) WatchFiles(CertificateFilesOf(configuration));
  if (certificates) Use(*certificates);
  return configuration;
}

void RemoteAccess::WatchFiles(const CertificateFiles& files) {
  complaint_ = {};
  reader_ = std::make_unique<CertificateReader>(
      *executor_, [files] { return ReadServerCertificates(files, absl::Now()); },
      [this](const absl::StatusOr<ServerCertificates>& read) { Take(read); });
}

void RemoteAccess::LookLater() {
  watcher_->StartTimer(Watcher::Now() + kBetweenLooks, [this] {
    reader_->Ask();
    LookLater();
  });
}

void RemoteAccess::Take(const absl::StatusOr<ServerCertificates>& read) {
  // A look in the middle of a renewal sees a certificate with the former key: the next one sees the rest.
  const std::string complaint(read.status().message());
  if (complaint_.Note(complaint)) LogError("certificates not replaced", {{"cause", complaint}});
  if (read.ok()) Use(*read);
  const std::string overdue = in_use_.revocations->Overdue(absl::Now());
  if (overdue_.Note(overdue)) {
    LogWarning("revocation list expired", {{"file", configuration_.tcp_revoked}, {"cause", overdue}});
  }
}

void RemoteAccess::Use(const ServerCertificates& certificates) {
  if (certificates == in_use_) return;
  const ServerCertificates former = std::exchange(in_use_, certificates);
  if (former.revoked != in_use_.revoked) {
    LogInfo("revocation lists replaced",
            {{"file", configuration_.tcp_revoked}, {"lists", in_use_.revocations->lists()}});
  }
  // Also where only the authorities have changed: which of them the lists revoke is decided when both are read.
  callers_.Set(in_use_.revocations);
  EndRevoked();
  if (former.chain == in_use_.chain && former.private_key == in_use_.private_key &&
      former.client_authorities == in_use_.client_authorities) {
    return;
  }
  LogInfo("certificates replaced", {{"certificate", configuration_.tcp_certificate}});
  tls_->Use(in_use_);
  if (former.client_authorities != in_use_.client_authorities) EndConnections();
}

void RemoteAccess::EndRevoked() {
  watcher_->StartTimer(Watcher::Now() + kLastWords, [this] {
    port_->EndConnections([this](const PresentedChain& chain) {
      return in_use_.revocations->Check(chain) != Revocations::Verdict::kNotRevoked;
    });
  });
}

void RemoteAccess::EndConnections() {
  watcher_->StartTimer(Watcher::Now() + kLastWords, [this] { port_->EndConnections(); });
}

}  // namespace rdmabroker
